// Opens the trails that a command line names, or the one of the environment.

package query

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// DefaultTrail is the trail of the environment: $STENO_DIRECTORY, else pg_steno
// in $PGDATA.
func DefaultTrail() (string, error) {
	if dir := os.Getenv("STENO_DIRECTORY"); dir != "" {
		return dir, nil
	}
	if data := os.Getenv("PGDATA"); data != "" {
		return filepath.Join(data, "pg_steno"), nil
	}
	return "", exit.Usagef("no trail is named, and neither STENO_DIRECTORY nor PGDATA is set")
}

// OpenTrails opens the trails and segments that a command was given, or the
// default one.
func OpenTrails(args []string) (*trail.Trail, error) { return openTrails(args, nil) }

func openTrails(args []string, keys *trail.Keys) (*trail.Trail, error) {
	if len(args) == 0 {
		dir, err := DefaultTrail()
		if err != nil {
			return nil, err
		}
		args = []string{dir}
	}
	var all []*trail.Trail
	for _, arg := range args {
		t, err := trail.OpenEncrypted(arg, keys)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &exit.UsageError{Err: OpenError(err)}
		}
		if err != nil {
			return nil, OpenError(err)
		}
		if err := checkTrail(arg, t); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return trail.Join(all...), nil
}

// checkTrail refuses paths that are no trail, but may have been meant for one: a
// directory that looks clean because nothing of a trail is in it proves nothing.
func checkTrail(arg string, t *trail.Trail) error {
	if !t.Whole {
		if seg := t.Streams[0].Segments[0]; seg.Foreign() {
			return exit.Usagef("%s is not a segment of a trail", arg)
		}
		return nil
	}
	if hasSegments(t) || len(t.Errors) > 0 || t.Begun {
		return nil
	}
	for _, dir := range []string{filepath.Join(arg, "pg_steno"), filepath.Dir(filepath.Clean(arg))} {
		if near, err := trail.Open(dir); err == nil && hasSegments(near) {
			return exit.Usagef("%s is not the directory of a trail: did you mean %s?", arg, dir)
		}
	}
	return exit.Usagef("%s is not the directory of a trail: it contains no segments", arg)
}

func hasSegments(t *trail.Trail) bool {
	return slices.ContainsFunc(t.Streams, func(s *trail.Stream) bool { return len(s.Segments) > 0 })
}

// OpenError says in a few words why a path cannot be opened.
func OpenError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}

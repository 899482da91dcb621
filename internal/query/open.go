// Opening the trails that a command line names, or the one of the environment, and loading the keys of
// encrypted segments, from a file or a command, when they are needed.

package query

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// usualTrails are patterns for trails where the packages of distributions have their clusters.
var usualTrails = []string{"/var/lib/postgresql/*/*/pg_steno", "/var/lib/pgsql/*/data/pg_steno",
	"/var/lib/pgsql/data/pg_steno"}

// EnvironmentTrail returns $STENO_DIRECTORY, else pg_steno in $PGDATA; empty: neither is set.
func EnvironmentTrail() string {
	if dir := os.Getenv("STENO_DIRECTORY"); dir != "" {
		return dir
	}
	if data := os.Getenv("PGDATA"); data != "" {
		return filepath.Join(data, "pg_steno")
	}
	return ""
}

// DefaultTrail returns the trail of the environment, or else the only one of usualTrails.
func DefaultTrail() (string, error) {
	if dir := EnvironmentTrail(); dir != "" {
		return dir, nil
	}
	var found []string
	for _, pattern := range usualTrails {
		if all, err := filepath.Glob(pattern); err == nil {
			found = append(found, all...)
		}
	}
	switch len(found) {
	case 0:
		return "", exit.Usagef("no trail is named, and neither STENO_DIRECTORY nor PGDATA is set")
	case 1:
		return found[0], nil
	default:
		return "", exit.Usagef("no trail is named, and several clusters have one: %s", strings.Join(found, ", "))
	}
}

// OpenTrails opens the trails and segments given to a command, or the default one.
func OpenTrails(args []string) (*trail.Trail, error) { return openTrails(args, nil) }

// OpenTrail does the same with given keys, so that a command that opens a trail again loads them once.
func OpenTrail(args []string, keys *format.Keys) (*trail.Trail, error) {
	t, err := openTrails(args, keys)
	if err == nil {
		err = keys.Err()
	}
	return t, err
}

func openTrails(args []string, keys *format.Keys) (*trail.Trail, error) {
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

// checkTrail refuses paths that are no trail but may have been meant as one: a directory without any part of a
// trail would seem to be a trail without problems.
func checkTrail(arg string, t *trail.Trail) error {
	if !t.Whole {
		if seg := t.Streams[0].Segments[0]; seg.IsForeign() {
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

// OpenError returns, in a few words, why a path cannot be opened, or what is wrong with a trail.
func OpenError(err error) error {
	if format.AsProblem(err) != nil {
		return err
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}

// Severity returns what a warning calls an error of a trail, whether the error is damage, and whether it says
// that something could not be read.
func Severity(err error) (level string, damaged, unread bool) {
	switch p := format.AsProblem(err); {
	case p != nil && p.Class.IsDamage():
		return "damaged", true, false
	case p != nil && p.Class == format.ProblemTorn:
		return "unfinished", false, false
	case p != nil:
		return p.Class.String(), false, p.Class == format.ProblemUnreadable
	case IsIncomplete(err):
		return "incomplete", false, false
	case exit.IsUnreadable(err):
		return "unreadable", false, true
	}
	return "damaged", true, false
}

// isIncomplete returns whether an error says that a record lacks parts that were deleted by policy.
func isIncomplete(err error) bool {
	p := format.AsProblem(err)
	return p != nil && p.Class == format.ProblemIncomplete
}

// KeyOptions say where the keys for encrypted segments are.
type KeyOptions struct {
	Commands []string
	Files    []string
}

// Keys returns the keys that the options name; nil: none. They are read, or their command is run, when the
// first encrypted segment is found.
func (o *KeyOptions) Keys() *format.Keys {
	commands := o.Commands
	if env := os.Getenv("STENO_ENCRYPTION_KEY_COMMAND"); env != "" && len(commands)+len(o.Files) == 0 {
		commands = []string{env}
	}
	if len(commands)+len(o.Files) == 0 {
		return nil
	}
	return format.NewKeys(func() (keys [][format.KeySize]byte, err error) {
		for _, file := range o.Files {
			found, err := readKeyFile(file)
			if err != nil {
				return nil, err
			}
			keys = append(keys, found...)
		}
		for _, command := range commands {
			found, err := runKeyCommand(command)
			if err != nil {
				return nil, err
			}
			keys = append(keys, found...)
		}
		return keys, nil
	})
}

func readKeyFile(path string) ([][format.KeySize]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, OpenError(err)
	}
	// file modes mean nothing there
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil,
			fmt.Errorf("%s: this key file is accessible by others than its owner: its mode is %04o, change it to "+
				"0600 or less", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, OpenError(err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// runKeyCommand runs a command as the server does. Its standard error is shown to the user.
func runKeyCommand(command string) ([][format.KeySize]byte, error) {
	var out, said bytes.Buffer
	c := ShellCommand(context.Background(), command)
	c.Stdout, c.Stderr = &out, &said
	err := c.Run()
	if err == nil {
		var keys [][format.KeySize]byte
		if keys, err = parseKeys(out.Bytes()); err == nil {
			return keys, nil
		}
	}
	if text := strings.TrimSpace(said.String()); text != "" {
		err = fmt.Errorf("%w: %s", err, render.Safe(text))
	}
	// Show only the name of the command: its arguments may contain a key.
	name, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	return nil, fmt.Errorf("encryption key command \"%s\": %w", render.Safe(name), err)
}

// parseKeys reads keys, one a line. Its errors never contain the text.
func parseKeys(text []byte) (keys [][format.KeySize]byte, err error) {
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimRight(line, " \t\r")
		if len(line) == 0 {
			continue
		}
		var key [format.KeySize]byte
		if n := hex.DecodedLen(len(line)); n != len(key) || len(line)%2 != 0 {
			return nil, fmt.Errorf("line %d has %d characters: a key is 64 hexadecimal digits", i+1, len(line))
		}
		if _, err := hex.Decode(key[:], line); err != nil {
			return nil, fmt.Errorf("line %d: a key is 64 hexadecimal digits", i+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("it contains no key")
	}
	return keys, nil
}

// OpenEncrypted opens trails and segments as OpenTrails does, with the keys of the options.
func (o *KeyOptions) OpenEncrypted(args []string) (*trail.Trail, error) {
	return OpenTrail(args, o.Keys())
}

// ShellCommand returns a command for the system's shell, which is killed if the context ends.
func ShellCommand(ctx context.Context, command string) *exec.Cmd {
	if runtime.GOOS == "windows" {
		return exec.CommandContext(ctx, "cmd", "/C", command)
	}
	return exec.CommandContext(ctx, "/bin/sh", "-c", command)
}

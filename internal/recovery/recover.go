// Options of "steno recover", and the run.

package recovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options determine what is recovered, and where to. The format is text or json.
type Options struct {
	IO      *iostreams.IOStreams
	Program string
	Trail   string   // its directory
	Rings   []string // ring files, and directories of them
	// Out is the directory of the copy. It is empty if the copy takes the trail's place, which InPlace says, and of
	// which cluster it is Confirm.
	Out     string
	InPlace bool
	Confirm uint64 // a system identifier
	Format  string
}

// UnconfirmedError says of which cluster a trail is that is not replaced, because another one, or none, was confirmed.
type UnconfirmedError struct {
	Dir      string
	SystemID uint64
}

func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("%s is the trail of cluster %d", e.Dir, e.SystemID)
}

// UnknownClusterError says that a trail is not replaced because nobody can know of which cluster it is.
type UnknownClusterError struct{ Dir string }

func (e *UnknownClusterError) Error() string {
	return e.Dir + ": no segment says which cluster's trail this is"
}

// Run recovers a trail.
func Run(ctx context.Context, opts *Options) error {
	dir := filepath.Clean(opts.Trail)
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return exit.Usagef("%s: %s", dir, pathReason(err))
	}
	t, err := trail.Open(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(t.Streams, func(s *trail.Stream) bool { return s.Path == dir }) {
		return exit.Usagef("%s is one stream of a trail: name the trail, %s", dir, filepath.Dir(real))
	}
	r := &recovery{trail: t, now: now, program: opts.Program, report: &Report{
		Trail: dir, Streams: []Stream{}, Rings: []Ring{}, Gaps: []SessionGap{}, Foreign: t.Foreign,
	}}
	for _, err := range t.Errors {
		r.report.Errors = append(r.report.Errors, err.Error())
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	var ok bool
	if r.owner, ok = private.OwnerOf(info); !ok {
		return fmt.Errorf("steno recover does not work on %s, because it cannot check the owners of files there: "+
			"run it on Linux or another Unix", runtime.GOOS)
	}
	r.mode = info.Mode().Perm()
	defer r.closeRings()
	if err := r.openRings(opts.Rings); err != nil {
		return err
	}
	if r.systemID != 0 {
		r.report.SystemID = fmt.Sprint(r.systemID)
	}
	final, err := opts.destination(r, dir, real)
	if err != nil {
		return err
	}
	if err := r.make(ctx, opts, final); err != nil {
		return err
	}
	r.report.settle()
	if opts.Format == "json" {
		err = r.report.WriteJSON(opts.IO.Out)
	} else {
		err = r.report.WriteText(opts.IO.Out, opts.IO.ColorEnabled())
	}
	return exit.Verdict(exit.CheckResult(r.report.Lost, false), err)
}

// destination returns the name of the copy. real is the path of the trail without links.
func (o *Options) destination(r *recovery, dir, real string) (string, error) {
	pid := writerOf(real)
	if !o.InPlace {
		if inside(o.Out, real) {
			return "", exit.Usagef("%s is inside the trail", o.Out)
		}
		if pid != 0 {
			fmt.Fprintf(o.IO.ErrOut, "steno: process %d has the trail open: the copy shows its current state, and "+
				"an unfinished block may be one that is being written\n", pid)
		}
		return filepath.Clean(o.Out), nil
	}
	switch {
	case r.systemID == 0:
		return "", &UnknownClusterError{dir}
	case pid != 0:
		return "", exit.Usagef("%s: process %d has the trail open: stop the server first", dir, pid)
	case o.Confirm != r.systemID:
		return "", &UnconfirmedError{dir, r.systemID}
	}
	return real, nil
}

// make makes the copy under a temporary name, and renames it.
func (r *recovery) make(ctx context.Context, opts *Options, final string) error {
	if !opts.InPlace {
		if err := emptyOrNew(final); err != nil {
			return err
		}
	}
	r.out, r.final = final+".partial", final
	parent, err := private.OpenDir(filepath.Dir(final))
	if err != nil {
		return err
	}
	defer parent.Close()
	made := filepath.Base(r.out)
	if r.copy, err = parent.Mkdir(made, 0o700); err != nil {
		if errors.Is(err, os.ErrExist) {
			return exit.Usagef("%s was left behind by a run that did not finish: remove it", r.out)
		}
		return err
	}
	defer r.copy.Close()
	r.bar = progress.New(opts.IO, r.trail.Size())
	err = r.run(ctx)
	r.bar.Done()
	if err == nil {
		err = r.adopt(opts.InPlace)
	}
	if err != nil {
		parent.RemoveAll(made)
		return err
	}
	r.report.Copy = final
	if !opts.InPlace {
		if err := parent.Rename(made, filepath.Base(final)); err != nil {
			return err
		}
		return parent.Sync()
	}
	if r.report.unchanged() {
		return parent.RemoveAll(made)
	}
	r.report.Evidence, err = r.swap(parent, made)
	if err != nil && r.report.Evidence == "" {
		parent.RemoveAll(made)
	}
	return err
}

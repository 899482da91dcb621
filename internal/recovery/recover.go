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
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options determine what is recovered, and where to. The format is text or json.
type Options struct {
	IO      *iostreams.IOStreams
	Program string
	Args    []string
	Out     string
	Rings   []string
	InPlace bool
	Confirm string
	Format  string
}

// arguments finds the trail and the ring files. A shell expands --rings /srv/evidence/pg_steno.* to several words, so
// files without an option are ring files if there is one with the option.
func (o *Options) arguments() (dir string, rings []string, err error) {
	rings = slices.Clone(o.Rings)
	for _, arg := range o.Args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return "", nil, exit.Usagef("%s: %s", arg, pathReason(err))
		case !info.IsDir() && len(o.Rings) > 0:
			rings = append(rings, arg)
		case !info.IsDir():
			return "", nil, exit.Usagef("%s is not the directory of a trail", arg)
		case dir != "":
			return "", nil, exit.Usagef("only one trail can be recovered at a time: %s and %s are directories", dir, arg)
		default:
			dir = arg
		}
	}
	if dir == "" {
		if dir, err = query.DefaultTrail(); err != nil {
			return "", nil, err
		}
	}
	return dir, rings, nil
}

// Run recovers a trail.
func Run(ctx context.Context, opts *Options) error {
	if (opts.Out != "") == opts.InPlace {
		return exit.Usagef("specify where to write the copy: --out DIR or --in-place")
	}
	dir, rings, err := opts.arguments()
	if err != nil {
		return err
	}
	dir = filepath.Clean(dir)
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
		return fmt.Errorf("steno recover does not work on %s, because it cannot check the owners of files there: run it on Linux or another Unix", runtime.GOOS)
	}
	r.mode = info.Mode().Perm()
	defer r.closeRings()
	if err := r.openRings(rings); err != nil {
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
	return exit.Verdict(exit.Found(r.report.Lost, false), err)
}

// destination returns the name of the copy. real is the path of the trail without links.
func (o *Options) destination(r *recovery, dir, real string) (string, error) {
	pid := writerOf(real)
	if !o.InPlace {
		if inside(o.Out, real) {
			return "", exit.Usagef("%s is inside the trail", o.Out)
		}
		if pid != 0 {
			fmt.Fprintf(o.IO.ErrOut, "steno: process %d has the trail open: the copy shows its current state, and an unfinished block may be one that is being written\n", pid)
		}
		return filepath.Clean(o.Out), nil
	}
	switch {
	case r.systemID == 0:
		return "", exit.Usagef("%s: no segment says which cluster's trail this is: use --out", dir)
	case pid != 0:
		return "", exit.Usagef("%s: process %d has the trail open: stop the server first", dir, pid)
	case o.Confirm != fmt.Sprint(r.systemID):
		return "", exit.Usagef("%s is the trail of cluster %d. To replace it by its copy, add --confirm %d; to see the result first, use steno recover --out DIR", dir, r.systemID, r.systemID)
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

package recovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/cat"
	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options are recover's.
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

// NewCmdRecover returns the command. Tests give a run function of their own.
func NewCmdRecover(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO, Program: "steno " + f.Version}
	cmd := &cobra.Command{
		Use:   "recover [TRAIL] (--out DIR | --in-place) [--rings FILE...]",
		Short: "Save what can be saved of a damaged trail and of ring files",
		Long: `Copy a trail without what is damaged in it, add what is in the ring files that a
dead server left, and say exactly what is lost. Nothing is changed where it is.

Whole blocks are copied byte for byte, so that their own hashes still prove them;
an unfinished write at the end is cut off. What is in ring files and not in the
trail makes a new stream of the copy, with the statements that were running and
the ends of their sessions, as a starting server writes them. Records that can
still be read in a damaged block are added there, too, each marked with the extra
name "salvaged": nothing proves them any more.

A server drains its ring files by itself when it starts: this is for when it
cannot start. Ring files of a server that runs, of another cluster, or of a
version that this program does not know are refused. --rings takes files, or a
directory, such as steno.ring_directory, of which it takes all ring files of the
trail's cluster, and of the directories that servers make for themselves there.
What belongs to another account than the trail, to neither root nor you, or can be
written by others, is not read: anybody can have made it.

--in-place puts the copy in the trail's place. The trail is kept beside it, under
its name with .damaged and the time, and the ring files with it. Nothing happens
unless --confirm repeats the system identifier of the cluster, which the refusal
shows, and no process has the trail open.

The exit code is 0 when nothing is lost, 1 when something is lost or damaged, and
2, with nothing written, when the files named are not for this.`,
		Example: `  steno recover /var/lib/postgresql/15/main/pg_steno --out /srv/saved
  steno recover /mnt/old/pg_steno --out saved --rings /dev/shm
  steno recover pg_steno --out saved --rings /srv/evidence/pg_steno.0f3c2a9d5b7e6148.0002f1e5a6b3c4d5
  steno recover --out saved --format json | jq '.streams[].losses'
  steno recover pg_steno --in-place --confirm 7654321098765432109`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Args = args
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return recoverRun(cmd.Context(), opts)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&opts.Out, "out", "", "`directory` for the copy; it must not exist, or be empty")
	fl.StringArrayVar(&opts.Rings, "rings", nil, "ring `file` of a dead server, or a directory of them; may be repeated")
	fl.BoolVar(&opts.InPlace, "in-place", false, "put the copy in the trail's place, and keep the trail beside it")
	fl.StringVar(&opts.Confirm, "confirm", "", "system `identifier` of the cluster, for --in-place")
	cmdutil.AddFormat(cmd, &opts.Format)
	return cmd
}

// arguments finds the trail and the ring files. A shell makes several words of
// --rings /srv/evidence/pg_steno.*: files that are named without an option are ring files,
// when there is one with it.
func (o *Options) arguments() (dir string, rings []string, err error) {
	rings = slices.Clone(o.Rings)
	for _, arg := range o.Args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return "", nil, cmdutil.Usagef("%s: %s", arg, pathReason(err))
		case !info.IsDir() && len(o.Rings) > 0:
			rings = append(rings, arg)
		case !info.IsDir():
			return "", nil, cmdutil.Usagef("%s is not the directory of a trail", arg)
		case dir != "":
			return "", nil, cmdutil.Usagef("one trail at a time: %s and %s are directories", dir, arg)
		default:
			dir = arg
		}
	}
	if dir == "" {
		if dir, err = cat.DefaultTrail(); err != nil {
			return "", nil, err
		}
	}
	return dir, rings, nil
}

func recoverRun(ctx context.Context, opts *Options) error {
	if err := cmdutil.CheckFormat(opts.Format); err != nil {
		return err
	}
	if (opts.Out != "") == opts.InPlace {
		return cmdutil.Usagef("say where the copy goes: either --out DIR, or --in-place")
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
		return cmdutil.Usagef("%s: %s", dir, pathReason(err))
	}
	t, err := trail.Open(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(t.Streams, func(s *trail.Stream) bool { return s.Path == dir }) {
		return cmdutil.Usagef("%s is one stream of a trail: name the trail, %s", dir, filepath.Dir(real))
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
		return fmt.Errorf("steno recover does not run on %s, where it cannot check to whom files belong: run it on Linux or another Unix", runtime.GOOS)
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
	return cmdutil.Verdict(cmdutil.Found(r.report.Lost, false), err)
}

// destination is the name that the copy is to have. real is the trail's, without links.
func (o *Options) destination(r *recovery, dir, real string) (string, error) {
	pid := writerOf(real)
	if !o.InPlace {
		if inside(o.Out, real) {
			return "", cmdutil.Usagef("%s is inside the trail", o.Out)
		}
		if pid != 0 {
			fmt.Fprintf(o.IO.ErrOut, "steno: process %d has the trail open: the copy is of what is there now, and an unfinished block may be one that is being written\n", pid)
		}
		return filepath.Clean(o.Out), nil
	}
	switch {
	case r.systemID == 0:
		return "", cmdutil.Usagef("%s: no segment says which cluster's trail this is: use --out", dir)
	case pid != 0:
		return "", cmdutil.Usagef("%s: process %d has the trail open: stop the server first", dir, pid)
	case o.Confirm != fmt.Sprint(r.systemID):
		return "", cmdutil.Usagef("%s is the trail of cluster %d. To have it replaced by its copy, add --confirm %d; steno recover --out DIR shows first what that would be", dir, r.systemID, r.systemID)
	}
	return real, nil
}

// make makes the copy under another name, and gives it its own.
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
			return cmdutil.Usagef("%s is left of a run that did not end: remove it", r.out)
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

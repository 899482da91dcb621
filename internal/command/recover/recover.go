// Package recover is "steno recover": its flags and its help.
package recover

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/recovery"
)

// NewCmdRecover returns the command. Tests give a run function of their own.
func NewCmdRecover(f *cmdutil.Factory, run func(context.Context, *recovery.Options) error) *cobra.Command {
	opts, confirm := &recovery.Options{IO: f.IO, Program: "steno " + f.Version}, ""
	cmd := &cobra.Command{
		Use:   "recover [TRAIL] (--out DIR | --in-place) [--rings FILE...]",
		Short: "Save what can be saved of a damaged trail and of ring files",
		Long: `Copy a trail without its damaged parts, add the contents of ring files that a
crashed server left behind, and report exactly what is lost. The original files
are not changed.

Intact blocks are copied byte for byte, so that their own hashes still prove
them; an unfinished write at the end is cut off. Records that are in ring files
and not in the trail are written to a new stream of the copy, together with the
statements that were running and the ends of their sessions, as by a server that
starts. Records that can still be decoded from a damaged block are added to that
stream, too, each marked with the extra name "salvaged": nothing proves them any
more.

A server drains its ring files by itself when it starts: use this command if it
cannot start. Ring files of a running server, of another cluster, or of a
version that this program does not know are refused. --rings takes files or
directories. For a directory, such as steno.ring_directory, all ring files of
the trail's cluster are read, including those in the directories that servers
create for themselves there. Files that can be written to by others, or that do
not belong to the account of the trail, to root or to you, are not read: anybody
could have created them.

--in-place puts the copy in the trail's place. The original trail is kept beside
it, under its name with .damaged and the time, together with the ring files.
This is only done if --confirm repeats the system identifier of the cluster,
which the refusal shows, and if no process has the trail open.

The exit code is 0 if nothing is lost, 1 if something is lost or damaged, and 2
if the named files are not suitable; in that case, nothing is written.`,
		Example: `  steno recover /var/lib/postgresql/15/main/pg_steno --out /srv/saved
  steno recover /mnt/old/pg_steno --out saved --rings /dev/shm
  steno recover pg_steno --out saved --rings \
    /srv/evidence/pg_steno.0f3c2a9d5b7e6148.0002f1e5a6b3c4d5
  steno recover --out saved --format json | jq '.streams[].losses'
  steno recover pg_steno --in-place --confirm 7654321098765432109`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := parse(opts, args, confirm); err != nil {
				return err
			}
			if run != nil {
				return run(cmd.Context(), opts)
			}
			if err := iostreams.CheckFormat(opts.Format); err != nil {
				return err
			}
			return advised(recovery.Run(cmd.Context(), opts))
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&opts.Out, "out", "", "`directory` for the copy; it must not exist, or be empty")
	fl.StringArrayVar(&opts.Rings, "rings", nil, "ring `file` of a dead server, or a directory of them; may be "+
		"repeated")
	fl.BoolVar(&opts.InPlace, "in-place", false, "put the copy in the trail's place, and keep the original trail "+
		"beside it")
	fl.StringVar(&confirm, "confirm", "", "system `identifier` of the cluster, for --in-place")
	cmdutil.AddFormat(cmd, &opts.Format)
	return cmd
}

// parse completes the options.
func parse(opts *recovery.Options, args []string, confirm string) (err error) {
	if (opts.Out != "") == opts.InPlace {
		return exit.Usagef("specify where to write the copy: --out DIR or --in-place")
	}
	if confirm != "" {
		if opts.Confirm, err = strconv.ParseUint(confirm, 10, 64); err != nil {
			return exit.Usagef("--confirm: %q is not the system identifier of a cluster", confirm)
		}
	}
	opts.Trail, opts.Rings, err = arguments(args, opts.Rings)
	return err
}

// arguments finds the trail and the ring files. A shell expands --rings /srv/evidence/pg_steno.* to several words, so
// files without an option are ring files if there is one with the option.
func arguments(args, named []string) (dir string, rings []string, err error) {
	rings = slices.Clone(named)
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return "", nil, &exit.UsageError{Err: query.OpenError(err)}
		case !info.IsDir() && len(named) > 0:
			rings = append(rings, arg)
		case !info.IsDir():
			return "", nil, exit.Usagef("%s is not the directory of a trail", arg)
		case dir != "":
			return "", nil, exit.Usagef("only one trail can be recovered at a time: %s and %s are directories", dir,
				arg)
		default:
			dir = arg
		}
	}
	if dir == "" {
		dir, err = query.DefaultTrail()
	}
	return dir, rings, err
}

// advised adds advice to the error for a trail that is not replaced.
func advised(err error) error {
	var unconfirmed *recovery.UnconfirmedError
	var unknown *recovery.UnknownClusterError
	switch {
	case errors.As(err, &unconfirmed):
		return exit.Usagef("%w. To replace it by its copy, add --confirm %d; to see the result first, use steno "+
			"recover --out DIR", err, unconfirmed.SystemID)
	case errors.As(err, &unknown):
		return exit.Usagef("%w: use --out", err)
	}
	return err
}

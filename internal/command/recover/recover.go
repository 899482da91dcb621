// Package recover is "steno recover".
package recover

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/recovery"
)

// NewCmdRecover returns the command. Tests give a run function of their own.
func NewCmdRecover(f *cmdutil.Factory, run func(context.Context, *recovery.Options) error) *cobra.Command {
	opts := &recovery.Options{IO: f.IO, Program: "steno " + f.Version}
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
			if err := iostreams.CheckFormat(opts.Format); err != nil {
				return err
			}
			return recovery.Run(cmd.Context(), opts)
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

// Package slot is "steno slot": its flags, its help, and what it prints.
package slot

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	slots "github.com/pg-steno/pg_steno/internal/slot"
)

// NewCmdSlot returns the command with its subcommands.
func NewCmdSlot(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slot",
		Short: "Prevent the deletion of segments that a reader still needs",
		Long: `Create, move, list and drop slots. A slot is a named position of a reader in a
trail. As long as the slot exists, the server does not delete segments that the
slot still needs, whatever steno.retention_size and steno.retention_age say;
only steno.slot_max_size limits how much a slot can keep. A reader creates a
slot once, and advances it whenever it has stored what it read.

Slots are files in the folder "slots" of the trail. The server must be able to
read them: run steno as the server's user, or as root.`,
		Example: `  steno slot create siem
  end=$(steno slot end)
  steno cat --slot siem --before "$end" --format json > batch.json \
    && steno slot advance siem --to "$end"
  steno slot list`,
	}
	cmd.AddCommand(newCmdCreate(f), newCmdEnd(f), newCmdAdvance(f), newCmdList(f), newCmdDrop(f))
	return cmdutil.Group(cmd)
}

func newCmdCreate(f *cmdutil.Factory) *cobra.Command {
	opts, from := &slots.Options{IO: f.IO}, ""
	cmd := &cobra.Command{
		Use:   "create NAME [TRAIL]",
		Short: "Create a slot",
		Long: `Create a slot at the current beginning of the trail, or at its end. A slot's
name consists of up to 63 lower-case letters, digits and underscores.`,
		Example: `  steno slot create siem
  steno slot create nightly_copy --from end \
    /var/lib/postgresql/15/main/pg_steno`,
		Args: cmdutil.Args(cobra.RangeArgs(1, 2)),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Name, opts.Trail, opts.Now = args[0], args[1:], time.Now()
			var err error
			if opts.From, err = slots.ParseEdge(from); err != nil {
				return cmdutil.FlagError("from", err)
			}
			return slots.Create(opts)
		},
	}
	cmd.Flags().StringVar(&from, "from", "start", "`where` it begins: at the start or end of the trail")
	_ = cmd.RegisterFlagCompletionFunc("from",
		cobra.FixedCompletions([]string{"start", "end"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func newCmdAdvance(f *cmdutil.Factory) *cobra.Command {
	opts, to := &slots.Options{IO: f.IO}, ""
	cmd := &cobra.Command{
		Use:   "advance NAME [TRAIL]",
		Short: "Advance a slot: segments before it may be deleted",
		Long: `Move a slot. --to is one of

  STREAM/SEGMENT/BLOCK   the stream has been read up to, but not including,
                         this block; other streams stay as they are
  STREAM/SEGMENT         the same, up to this segment
  TIME                   everything that ended before this time has been read;
                         TIME is written as for "steno cat --since". A time
                         that is not over yet, or after the end of the trail,
                         needs --force
  end                    everything that is in the trail now; only with
                         --force, because a reader has not read what arrived
                         after it finished

Separate several positions with commas, as "steno slot end" does.

A slot never moves backwards, and a lost slot remains lost, unless --force is
given; a lost slot then continues with what is left.`,
		Example: `  steno slot advance siem --to "$end"
  steno slot advance siem --to 0/17/20311
  steno slot advance siem --to 2026-11-21T20:45:13Z
  steno slot advance siem --to start --force`,
		Args: cmdutil.Args(cobra.RangeArgs(1, 2)),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Name, opts.Trail, opts.Now = args[0], args[1:], time.Now()
			if to == "" {
				return exit.Usagef("specify a position with --to: end, a time, STREAM/SEGMENT or STREAM/SEGMENT/BLOCK")
			}
			var err error
			if opts.To, err = slots.ParseTarget(to, opts.Now); err != nil {
				return cmdutil.FlagError("to", err)
			}
			return advised(slots.Advance(opts))
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`position` to move the slot to: the output of steno slot end, "+
		"STREAM/SEGMENT/BLOCK, STREAM/SEGMENT, or a time")
	cmd.Flags().BoolVar(&opts.Force, "force", false, "allow moving backwards, to the end, or to a time that is not "+
		"over yet, and continuing a lost slot with what is left")
	return cmd
}

// advised adds to a refusal how the change can be made nevertheless.
func advised(err error) error {
	const known = "use the position that \"steno slot end\" printed before it began, or --force"
	var refused *slots.UnsafeError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Reason {
	case slots.Lost:
		return fmt.Errorf("%s; use --force to continue with what is left", err)
	case slots.Backwards:
		return fmt.Errorf("%s; use --force to allow that", err)
	case slots.Unreadable:
		return fmt.Errorf("%s; use --force to continue after it", err)
	case slots.AtEnd:
		return exit.Usagef("%s: %s to use the current end", err, known)
	case slots.Ahead:
		return exit.Usagef("%s; %s", err, known)
	case slots.PastEnd:
		return exit.Usagef("%s: %s to use the end", err, known)
	}
	return err
}

func newCmdEnd(f *cmdutil.Factory) *cobra.Command {
	opts := &slots.Options{IO: f.IO}
	return &cobra.Command{
		Use:   "end [TRAIL]",
		Short: "Print the end of the trail, as a position",
		Long: `Print the position at which the trail ends now: for each stream, the next block
to be written, as STREAM/SEGMENT/BLOCK, separated by commas. A reader that gets
this position before it begins, reads up to there, and then advances its slot to
it, misses nothing and reads nothing twice.`,
		Example: `  end=$(steno slot end)
  steno cat --slot siem --before "$end" --format json > batch.json \
    && steno slot advance siem --to "$end"`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Trail = args
			return slots.PrintEnd(opts)
		},
	}
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	opts := &slots.Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "list [TRAIL]",
		Short: "Show slots, and how much they keep",
		Long: `Show each slot's position in each stream, and how many segments and bytes it
keeps. A slot is active; lost, if the server has deleted what it needed, because
of steno.slot_max_size; or unreadable, in which case the server deletes nothing
at all. The exit code is 1 if a slot is unreadable.`,
		Example: `  steno slot list
  steno slot list --format json | jq '.slots[] | select(.state != "active")'`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Trail = args
			if err := iostreams.CheckFormat(opts.Format); err != nil {
				return err
			}
			return slots.List(opts)
		},
	}
	cmdutil.AddFormat(cmd, &opts.Format)
	return cmd
}

func newCmdDrop(f *cmdutil.Factory) *cobra.Command {
	opts := &slots.Options{IO: f.IO}
	return &cobra.Command{
		Use:     "drop NAME [TRAIL]",
		Short:   "Drop a slot: it no longer keeps anything",
		Example: `  steno slot drop siem`,
		Args:    cmdutil.Args(cobra.RangeArgs(1, 2)),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Name, opts.Trail = args[0], args[1:]
			return slots.Drop(opts)
		},
	}
}

// Package slot is "steno slot".
package slot

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	slots "github.com/pg-steno/pg_steno/internal/slot"
)

// NewCmdSlot returns the command with its subcommands.
func NewCmdSlot(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slot",
		Short: "Keep what a reader has not read yet from being deleted",
		Long: `Make, move, list and drop slots. A slot is a named position in a trail: as long
as it is there, the server deletes no segment that the slot still wants, whatever
steno.retention_size and steno.retention_age say; only steno.slot_max_size bounds
what a slot can keep. A reader makes a slot once, and advances it when what it has
read is safe elsewhere.

Slots are files in the folder "slots" of the trail. The server must be able to read
them: run steno as the server's user, or as root.`,
		Example: `  steno slot create siem
  end=$(steno slot end)
  steno cat --slot siem --before "$end" --format json > batch.json && steno slot advance siem --to "$end"
  steno slot list`,
	}
	cmd.AddCommand(newCmdCreate(f), newCmdEnd(f), newCmdAdvance(f), newCmdList(f), newCmdDrop(f))
	return cmdutil.Group(cmd)
}

func newCmdCreate(f *cmdutil.Factory) *cobra.Command {
	opts := &slots.Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "create NAME [TRAIL]",
		Short: "Make a slot",
		Long: `Make a slot at the beginning of what is in the trail now, or at its end. Its name
has up to 63 lower-case letters, digits and underscores.`,
		Example: `  steno slot create siem
  steno slot create nightly_copy --from end /var/lib/postgresql/15/main/pg_steno`,
		Args: cmdutil.Args(cobra.RangeArgs(1, 2)),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Name, opts.Trail, opts.Now = args[0], args[1:], time.Now()
			return slots.Create(opts)
		},
	}
	cmd.Flags().StringVar(&opts.From, "from", "start", "`where` it begins: start or end of the trail")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"start", "end"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func newCmdAdvance(f *cmdutil.Factory) *cobra.Command {
	opts := &slots.Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "advance NAME [TRAIL]",
		Short: "Move a slot on: what lies before it may be deleted",
		Long: `Move a slot. --to is

  STREAM/SEGMENT/BLOCK   the stream has been read up to this block; others stay as they are
  STREAM/SEGMENT         the same, up to this segment
  MOMENT                 all that ended before it has been read; as "steno cat --since" has it.
                         One that is not over, or behind all that is in the trail, needs --force
  end                    all that is in the trail now: only with --force, because a reader that has
                         finished has not read what came since

Several positions have commas between them, as "steno slot end" prints them.

A slot never goes backwards, and one that is lost stays so, unless --force says that
this is meant; a lost slot then goes on with what is left.`,
		Example: `  steno slot advance siem --to "$end"
  steno slot advance siem --to 0/17/20311
  steno slot advance siem --to 2026-11-21T20:45:13Z
  steno slot advance siem --to start --force`,
		Args: cmdutil.Args(cobra.RangeArgs(1, 2)),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Name, opts.Trail, opts.Now = args[0], args[1:], time.Now()
			return slots.Advance(opts)
		},
	}
	cmd.Flags().StringVar(&opts.To, "to", "", "`position` that the slot gets: that of steno slot end, STREAM/SEGMENT/BLOCK, STREAM/SEGMENT, or a moment")
	cmd.Flags().BoolVar(&opts.Force, "force", false, "go backwards, to the end now, to a moment that is not over, or on from what is left of what the slot wanted")
	return cmd
}

func newCmdEnd(f *cmdutil.Factory) *cobra.Command {
	opts := &slots.Options{IO: f.IO}
	return &cobra.Command{
		Use:   "end [TRAIL]",
		Short: "Print the end of the trail, as a position",
		Long: `Print the position at which the trail ends now: for each stream, the block that comes
next, as STREAM/SEGMENT/BLOCK, with commas between. A reader that takes it before it
begins, reads up to there, and advances its slot to it misses nothing, and reads
nothing twice.`,
		Example: `  end=$(steno slot end)
  steno cat --slot siem --before "$end" --format json > batch.json && steno slot advance siem --to "$end"`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Trail = args
			return slots.End(opts)
		},
	}
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	opts := &slots.Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "list [TRAIL]",
		Short: "Show slots, and what they keep",
		Long: `Show each slot's position in each stream, and how many segments and bytes it keeps.
A slot is active; lost, when the server has deleted what it wanted, because of
steno.slot_max_size; or unreadable, and then the server deletes nothing at all. The
exit code is 1 when one is unreadable.`,
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
		Short:   "Remove a slot: it keeps nothing any more",
		Example: `  steno slot drop siem`,
		Args:    cmdutil.Args(cobra.RangeArgs(1, 2)),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Name, opts.Trail = args[0], args[1:]
			return slots.Drop(opts)
		},
	}
}

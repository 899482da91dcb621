// The command tail follows a trail that is being written, and prints records as they arrive.

package cat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// TailOptions are the options of tail.
type TailOptions struct {
	IO     *iostreams.IOStreams
	Trails []string
	flags.Records
	OutputFlags
	query.KeyOptions
	Slot   string
	Follow bool
	Lines  int
	// PastMissing continues after missing segments.
	PastMissing bool

	Now time.Time
	// Interval is the time between two readings of a trail.
	Interval time.Duration
}

// pollInterval is how often tail looks for new blocks. The server writes every
// steno.flush_interval, 200 ms by default.
const pollInterval = 200 * time.Millisecond

// NewCmdTail returns the command. Tests give a run function of their own.
func NewCmdTail(f *cmdutil.Factory, run func(context.Context, *TailOptions) error) *cobra.Command {
	opts := &TailOptions{IO: f.IO, Interval: pollInterval}
	cmd := &cobra.Command{
		Use:   "tail [TRAIL]",
		Short: "Show the last records, and follow the trail as it is written",
		Long: `Show the last records of a trail and, with --follow, new ones, across new
segments, and restarts and crashes of the server. New records are shown in the
order in which they arrive; those that arrive together are ordered by time. A
statement arrives when it has ended and the server has written its block, after
steno.flush_interval.

With --since, all records from that time on are shown first. Ctrl-C, or another signal, ends --follow.

With --slot, the command begins at a slot, and advances it whenever lines have
been written: to standard output, or with --out to the disk. So nothing is
lost, whenever the command, the program that reads its output, or the machine
ends, and segments that are not read yet are not deleted; after such an end, the
last lines are written again.

With --follow, the command waits for what it cannot open. Without it, and if a key
is missing, it ends with code 3, and the slot stays before what was not read.
With --follow or --slot, it also ends with code 3 if segments are missing that it
has not read, because somebody removed them, or retention was faster; with
--past-missing, it goes on behind them.`,
		Example: `  steno tail -f
  steno tail -f --failed
  steno tail -n 100 --user alice --format json
  steno tail -f --since 5m --kind connect,disconnect,auth_failed
  steno tail -f --slot siem --format ecs | vector --config ship.yaml
  steno tail -f --slot agent --format json --out /var/log/steno/trail.json \
    --rotate-size 100MB`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails, opts.Now = args, time.Now()
			if err := cmdutil.RefuseEmpty(cmd,
				append(flags.FilterNames, "fingerprint", "not-fingerprint", "slot")...); err != nil {
				return err
			}
			if err := opts.OutputFlags.complete(cmd); err != nil {
				return err
			}
			if opts.Slot != "" && (cmd.Flags().Changed("lines") || opts.Since != "" || opts.Until != "") {
				return exit.Usagef("--slot does not go with --lines, --since and --until: " +
					"the slot says where to begin")
			}
			if opts.Since != "" && !cmd.Flags().Changed("lines") {
				opts.Lines = -1
			}
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return tailRun(cmd.Context(), opts)
		},
	}
	opts.Records.Add(cmd)
	opts.AddStatements(cmd)
	opts.AddOffHours(cmd)
	opts.OutputFlags.Add(cmd)
	flags.AddKeys(cmd, &opts.KeyOptions)
	cmd.Flags().StringVar(&opts.Slot, "slot", "", "begin at this `slot`, and advance it when lines have been written")
	cmd.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "continue with new records as they are written")
	cmd.Flags().IntVarP(&opts.Lines, "lines", "n", 10, "`number` of last records to show first, -1 for all")
	cmd.Flags().BoolVar(&opts.PastMissing, "past-missing", false, "with --follow or --slot, go on behind segments "+
		"that are missing")
	return cmdutil.ReadsOnly(cmd)
}

// isHole reports whether an error is about segments that are missing, or were deleted before they were read.
func isHole(err error) bool {
	return trail.IsGone(err)
}

var errHole = errors.New("segments are missing that were not read; --past-missing goes on behind them")

func tailRun(ctx context.Context, opts *TailOptions) error {
	format, options, err := opts.options(opts.IO)
	if err != nil {
		return err
	}
	if opts.Lines < -1 {
		return exit.Usagef("--lines must be -1, for all, or a number of records")
	}
	opts.Lines = min(opts.Lines, 1<<40) // twice as many are kept
	criteria, within, err := opts.Parse(opts.Now, opts.zone)
	if err != nil {
		return err
	}
	filter := criteria.Filter()
	t, err := opts.OpenEncrypted(opts.Trails)
	if err != nil {
		return err
	}
	var feed *slot.Feed
	if opts.Slot != "" {
		if feed, err = slot.OpenFeed(t.Path, opts.Slot); err != nil {
			return err
		}
	}
	index := t.Index()
	opts.server(index, format, &options)
	w := &cmdutil.Warner{IO: opts.IO}
	out, err := opts.open(opts.IO, format, options, opts.Follow)
	if err != nil {
		return err
	}
	order := render.NewOrder(format)
	hole, following := false, false
	emit := func(line []byte) error {
		if hole {
			return errHole
		}
		_, err := out.Write(order.Next(line))
		return err
	}
	var hidden query.Hidden
	names := query.NewNames(criteria)
	mixed := lookalikes(format)
	makeFormatter := newFormatter(filter, format, options, &hidden, names, mixed)
	merge := trail.MergeOptions{
		Since: within.Since, Until: within.Until, Contents: contents(filter, format), Selection: want(filter, format),
		NewFormatter: makeFormatter,
		Rollbacks:    showsRollbacks(format, options), Servers: options.Servers,
		Warn: func(err error) {
			out.Flush()
			w.Warn(err)
			hole = hole || isHole(err) && !opts.PastMissing && (feed != nil || following)
		},
	}
	// taken is called when the lines up to these places have been written to out.
	taken := func(places []trail.Place) error {
		for _, one := range mixed.Errs() {
			w.Warn(one)
		}
		if feed == nil {
			return out.Flush()
		}
		if hole {
			return errHole
		}
		if w.Unread() {
			return fmt.Errorf("slot %q is not advanced past what could not be read", opts.Slot)
		}
		if err := out.Keep(); err != nil {
			return err
		}
		return feed.Advance(places)
	}
	if feed != nil {
		err = index.MergeInParts(ctx, feed.From, merge, emit, taken)
	} else if opts.Lines < 0 {
		err = index.Merge(ctx, merge, emit)
	} else if opts.Lines > 0 {
		err = index.Last(ctx, opts.Lines, merge, emit)
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if !opts.Follow || names.InIndexes() { // otherwise, new records would appear late
		for _, missing := range names.Search(ctx, index) {
			if opts.Follow {
				missing.Where = "in the trail so far"
			}
			w.Warn(missing)
		}
	}
	if err == nil && opts.Follow {
		live := index.Follow(t.Path)
		defer live.Close()
		following = true
		f := makeFormatter()
		err = follow(ctx, opts.Interval, func() error {
			if err := live.Poll(ctx, f, merge, emit); err != nil {
				return err
			}
			if hole {
				return errHole
			}
			return taken(live.Places())
		})
	}
	if !opts.Follow { // with --follow, the records of running statements come later
		hidden.DropEnded(ctx, index)
	}
	for _, lacks := range append(hidden.Errs(), mixed.Errs()...) {
		out.Flush()
		w.Warn(lacks)
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if errors.Is(err, errHole) {
		return err // it matters more than other damage: the reader must not go on
	}
	if ctx.Err() != nil && opts.Follow {
		return exit.ErrStopped
	}
	return w.Result(err)
}

// follow calls poll until the context ends.
func follow(ctx context.Context, interval time.Duration, poll func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := poll(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

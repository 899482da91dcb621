// tail: follows a trail that is being written, and prints records as they come.

package cat

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// TailOptions are tail's.
type TailOptions struct {
	IO     *iostreams.IOStreams
	Trails []string
	query.FilterOptions
	OutputFlags
	query.KeyOptions
	Follow bool
	Lines  int
	Now    time.Time
	// Interval is how often a trail is looked at.
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

With --since, all records from that time on are shown first. The filters are
those of "steno cat". Ctrl-C, or another signal, ends --follow.`,
		Example: `  steno tail -f
  steno tail -f --failed
  steno tail -n 100 --user alice --format json
  steno tail -f --since 5m --kind connect,disconnect,auth_failed
  steno tail -f --format ecs | curl -sT - https://siem.example.org/ingest`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails, opts.Now = args, time.Now()
			if err := cmdutil.RefuseEmpty(cmd, flags.FilterNames...); err != nil {
				return err
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
	flags.AddFilter(cmd, &opts.FilterOptions)
	opts.OutputFlags.Add(cmd)
	flags.AddKeys(cmd, &opts.KeyOptions)
	cmd.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "continue with new records as they are written")
	cmd.Flags().IntVarP(&opts.Lines, "lines", "n", 10, "number of last records to show first, -1 for `all`")
	return cmdutil.ReadsOnly(cmd)
}

func tailRun(ctx context.Context, opts *TailOptions) error {
	format, options, err := opts.options(opts.IO.ColorEnabled())
	if err != nil {
		return err
	}
	if opts.Lines < -1 {
		return exit.Usagef("--lines must be -1, for all, or a number of records")
	}
	opts.Lines = min(opts.Lines, 1<<40) // twice as many are kept
	filter, err := opts.Filter(opts.Now)
	if err != nil {
		return err
	}
	t, err := opts.OpenEncrypted(opts.Trails)
	if err != nil {
		return err
	}
	index := t.Index()
	w := &warner{io: opts.IO}
	out := writer(opts.IO.Out)
	if !opts.NoHeader {
		out.Write(render.Header(format))
	}
	order := render.NewOrder(format)
	emit := func(line []byte) error {
		_, err := out.Write(order.Next(line))
		return err
	}
	makeFormatter := newFormatter(filter, format, options)
	f := makeFormatter()
	merge := trail.MergeOptions{Since: filter.Since, Until: filter.Until, Contents: contents(filter, format), NewFormatter: makeFormatter, Rollbacks: showsRollbacks(format), Warn: func(err error) {
		out.Flush()
		w.warn(err)
	}}
	if opts.Lines < 0 {
		err = index.Merge(ctx, merge, emit)
	} else if opts.Lines > 0 {
		err = index.Last(ctx, opts.Lines, merge, emit)
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if err == nil && opts.Follow {
		live := index.Follow(t.Path)
		defer live.Close()
		err = follow(ctx, opts.Interval, func() error {
			if err := live.Poll(ctx, f, merge, emit); err != nil {
				return err
			}
			return out.Flush()
		})
	}
	if ctx.Err() != nil && opts.Follow {
		return exit.ErrStopped
	}
	return w.result(err)
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

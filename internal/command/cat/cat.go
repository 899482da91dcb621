// Package cat has the commands that show records: cat, and tail, which follows a trail that is being written.
package cat

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options are the options of cat.
type Options struct {
	IO     *iostreams.IOStreams
	Trails []string
	flags.Records
	OutputFlags
	query.KeyOptions
	flags.Positions
	Advance bool
	Limit   int
	Now     time.Time
}

// NewCmdCat returns the command. Tests give a run function of their own.
func NewCmdCat(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "cat [TRAIL|SEGMENT]...",
		Short: "Show records of all streams, ordered by time",
		Long: `Show the records of all streams of a trail, in the order in which they started.
TRAIL is the directory named by steno.directory; the default is
$STENO_DIRECTORY, or else pg_steno in $PGDATA, or else the trail of the only
packaged cluster that has one. You can also name single segments.

Filters choose what is shown: "steno help filters" explains all of them.

--slot begins at a slot, and leaves it there unless --advance is given: then it is
advanced when all lines have been written, with --out when they are on disk.`,
		Example: `  steno cat --since 10m
  steno cat --failed --since yesterday /var/lib/postgresql/15/main/pg_steno
  steno cat --user alice,bob --class write,ddl --format json | jq .text
  steno cat --command "DROP" --grep "(?i)customers" --format csv > drops.csv
  steno cat --object public.staff --audited object,mandatory
  steno cat --min-duration 2s --not-user backup,etl --time-zone Europe/Berlin
  steno cat --sqlstate 42501,28 --grep iban -i --fields time,user,client,text
  steno cat --format pgaudit --pgaudit log_parameter,log_relation,log=all,-misc
  steno cat --slot siem --advance --format json --out batch.json
  steno cat --since yesterday --format csvlog > day.csv \
    && pgbadger -f csv day.csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails, opts.Now = args, time.Now()
			if err := cmdutil.RefuseEmpty(cmd, append(flags.FilterNames, "fingerprint", "not-fingerprint", "slot",
				"before")...); err != nil {
				return err
			}
			if err := opts.OutputFlags.complete(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("limit") && opts.Limit < 1 {
				return exit.Usagef("--limit must be at least 1")
			}
			if opts.Advance && opts.Slot == "" {
				return exit.Usagef("--advance requires --slot")
			}
			if opts.Advance && (opts.Limit > 0 || opts.Since != "" || opts.Until != "") {
				return exit.Usagef("--advance does not go with --limit, --since and --until: the slot would pass " +
					"what was not shown")
			}
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return catRun(cmd.Context(), opts)
		},
	}
	opts.Records.Add(cmd)
	opts.AddStatements(cmd)
	opts.AddOffHours(cmd)
	opts.OutputFlags.Add(cmd)
	flags.AddKeys(cmd, &opts.KeyOptions)
	opts.Positions.Add(cmd, f)
	cmd.Flags().BoolVar(&opts.Advance, "advance", false, "advance the slot when all lines have been written")
	cmd.Flags().IntVarP(&opts.Limit, "limit", "n", 0, "stop after this `number` of records, at least 1")
	return cmdutil.ReadsOnly(cmd)
}

func catRun(ctx context.Context, opts *Options) error {
	format, options, err := opts.options(opts.IO)
	if err != nil {
		return err
	}
	criteria, within, err := opts.Parse(opts.Now, opts.zone)
	if err != nil {
		return err
	}
	filter := criteria.Filter()
	t, err := opts.OpenEncrypted(opts.Trails)
	if err != nil {
		return err
	}
	blocks, err := opts.Blocks(t)
	if err != nil {
		return err
	}
	var feed *slot.Feed
	if opts.Advance {
		if feed, err = slot.OpenFeed(t.Path, opts.Slot); err != nil {
			return err
		}
	}
	index := t.Index()
	opts.server(index, format, &options)
	var bar *progress.Bar
	if !opts.IO.IsTerminal() { // on a terminal, the records show the progress
		bar = progress.New(opts.IO, t.Size())
	}
	defer bar.Done()
	w := &cmdutil.Warner{IO: opts.IO, Before: bar.Clear}
	out, err := opts.open(opts.IO, format, options, false)
	if err != nil {
		return err
	}
	shown := 0
	var hidden query.Hidden
	names := query.NewNames(criteria)
	mixed := lookalikes(format)
	order := render.NewOrder(format)
	err = index.Merge(ctx, trail.MergeOptions{
		Since: within.Since, Until: within.Until, Blocks: blocks,
		Contents:     contents(filter, format),
		Selection:    want(filter, format),
		NewFormatter: newFormatter(filter, format, options, &hidden, names, mixed),
		Rollbacks:    showsRollbacks(format, options),
		Warn: func(err error) {
			// Lines before a problem are written before its warning.
			out.Flush()
			w.Warn(err)
		},
		Progress: bar.Set,
	}, func(line []byte) error {
		if line = order.Next(line); len(line) == 0 {
			return nil
		}
		shown++
		if _, err := out.Write(line); err != nil {
			return err
		}
		if shown == opts.Limit {
			return trail.ErrStop
		}
		return nil
	})
	if err == nil {
		err = out.Keep()
	}
	hidden.DropEnded(ctx, index)
	for _, lacks := range hidden.Errs() {
		out.Flush()
		w.Warn(lacks)
	}
	if opts.Limit == 0 || shown < opts.Limit { // otherwise, the answer is only the beginning
		for _, lacks := range filter.RenamedOutside(ctx, index, within.Since, within.Until) {
			out.Flush()
			w.Warn(lacks)
		}
	}
	needs := proof.Needs{Objects: len(criteria.Objects) > 0, Texts: len(criteria.Grep) > 0,
		Failures: criteria.Failed || len(criteria.SQLStates) > 0}
	for _, lacks := range proof.FindOmissions(ctx, index, within.Since, within.Until, needs) {
		out.Flush()
		w.Warn(lacks)
	}
	for _, missing := range names.Search(ctx, index) {
		out.Flush()
		w.Warn(missing)
	}
	for _, one := range mixed.Errs() {
		w.Warn(one)
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err == nil && feed != nil && !w.Unread() {
		places := index.Places()
		if opts.Before != "" {
			places = nil
			ends, _ := opts.Ends() // which were checked
			for _, p := range ends {
				places = append(places, trail.Place(p))
			}
		}
		err = feed.Advance(places)
	}
	return w.Result(err)
}

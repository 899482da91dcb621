// Package commands is "steno bench commands": what it costs a server to report,
// count and log each of many small statements, in microseconds.
//
// The same statements go through psql, and through one connection by each
// protocol, to sessions that differ in their settings; variants with a library
// have a server of their own, all others share one. In each round all variants
// get their turn one right after the other, in an order that changes, and are
// compared within the round with the one that reports nothing.
package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/lab/bench/benchcmd"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// spacePerServer is its data folder, and what it logs.
const spacePerServer = 512 << 20

type options struct {
	benchcmd.Common
	Ways       []string
	Compare    []string
	Statements int
	Rounds     int
	PGConfig   string

	changed func(flag string) bool
}

// NewCmd returns "steno bench commands".
func NewCmd(f *cmdutil.Factory) *cobra.Command { return newCmd(f, run) }

func newCmd(f *cmdutil.Factory, run func(context.Context, *options) error) *cobra.Command {
	o := &options{Common: benchcmd.Common{Factory: f}}
	cmd := &cobra.Command{
		Use:   "commands",
		Short: "Measure what reporting and logging add to a small statement",
		Long: `Send 10,000 times "SELECT 1" to a throw-away server, by a psql script with a line
for each, and through one connection with the simple protocol, the extended one,
and a prepared statement; with track_activities and track_counts off and on,
log_statement=all, pg_stat_statements and pg_steno, each alone on top of neither.
Quoted are the seconds, what each adds to a statement in microseconds, paired within
rounds, and the processor time of the session's server process. "again" is the
base once more: a difference that is not larger means nothing.`,
		Example: `  steno bench commands --quick
  steno bench commands --ways psql,prepared --rounds 20 --output bench/results/commands
  steno bench commands --compare again,log_statement,steno --statements 50000`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.changed = cmd.Flags().Changed
			if err := o.complete(); err != nil {
				return exit.Usagef("%w", err)
			}
			return run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Ways, "ways", wayNames(), "ways to send statements")
	flags.StringSliceVar(&o.Compare, "compare", variantNames()[1:], "what to compare with reporting nothing")
	flags.IntVar(&o.Statements, "statements", 10000, "statements in a run")
	flags.IntVar(&o.Rounds, "rounds", 8, "how often each is measured")
	cmdutil.AddPGConfig(flags, &o.PGConfig)
	o.Add(cmd)
	return cmd
}

func (o *options) complete() error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.changed == nil || !o.changed("rounds") {
		switch {
		case o.Quick:
			o.Rounds = 3
		case o.Full:
			o.Rounds = 30
		}
	}
	if o.Rounds < 1 || o.Statements < 1 {
		return errors.New("--rounds and --statements must be at least 1")
	}
	if len(o.Ways) == 0 || len(o.Compare) == 0 {
		return errors.New("an empty list leaves nothing to measure")
	}
	for _, name := range o.Ways {
		if !slices.Contains(wayNames(), name) {
			return fmt.Errorf("--ways: \"%s\" is none of %v", name, wayNames())
		}
	}
	for _, name := range o.Compare {
		if !slices.Contains(variantNames(), name) {
			return fmt.Errorf("--compare: \"%s\" is none of %v", name, variantNames())
		}
	}
	return nil
}

// prepare looks whether all that is needed is there, before anything is started,
// and returns what is to be measured.
func (o *options) prepare() (*cluster.Installation, []variant, []result.Skipped, error) {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return nil, nil, nil, err
	}
	var chosen []variant
	var skipped []result.Skipped
	libraries := map[string]bool{}
	for _, v := range variants {
		if v.name != base && !slices.Contains(o.Compare, v.name) {
			continue
		}
		if v.library != "" && !installation.HasLibrary(v.library) {
			missing := fmt.Errorf("no %s.so in \"%s\"", v.library, installation.LibraryDir)
			if o.changed != nil && o.changed("compare") {
				return nil, nil, nil, fmt.Errorf("cannot measure \"%s\": %w", v.name, missing)
			}
			skipped = append(skipped, result.Skipped{Case: result.Case{dimVariant: v.name}, Reason: missing.Error()})
			continue
		}
		chosen = append(chosen, v)
		libraries[v.library] = true
	}
	return installation, chosen, skipped, installation.CheckDisk(uint64(len(libraries)) * spacePerServer)
}

func run(ctx context.Context, o *options) error {
	installation, chosen, skipped, err := o.prepare()
	if err != nil {
		return err
	}
	return o.Run(ctx, func(ctx context.Context, phases *progress.Phases) (*result.Result, error) {
		r, err := o.measure(ctx, installation, chosen, phases)
		if r != nil {
			r.Skipped = skipped
		}
		return r, err
	})
}

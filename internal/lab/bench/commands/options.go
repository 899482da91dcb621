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

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// spacePerServer is its data folder, and what it logs.
const spacePerServer = 512 << 20

// Options are the flags of a run.
type Options struct {
	measure.Common
	Ways       []string
	Compare    []string
	Statements int
	Rounds     int
	PGConfig   string

	changed func(flag string) bool
}

// New returns the measurement.
func New(e measure.Environment) *Options {
	return &Options{Common: measure.Common{Environment: e}}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Ways, "ways", wayNames(), "ways to send statements")
	flags.StringSliceVar(&o.Compare, "compare", variantNames()[1:], "what to compare with the base, which reports nothing")
	flags.IntVar(&o.Statements, "statements", 10000, "number of statements in a run")
	flags.IntVar(&o.Rounds, "rounds", 8, "how often to measure each")
	measure.AddPGConfig(flags, &o.PGConfig)
	o.Common.AddFlags(flags)
}

// Complete checks the flags and fills in what follows from them.
func (o *Options) Complete(given func(flag string) bool) error {
	o.changed = given
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
		return errors.New("an empty list means that there is nothing to measure")
	}
	for _, name := range o.Ways {
		if !slices.Contains(wayNames(), name) {
			return fmt.Errorf("--ways: \"%s\" is not one of %v", name, wayNames())
		}
	}
	for _, name := range o.Compare {
		if !slices.Contains(variantNames(), name) {
			return fmt.Errorf("--compare: \"%s\" is not one of %v", name, variantNames())
		}
	}
	return nil
}

// prepare looks whether all that is needed is there, before anything is started,
// and returns what is to be measured.
func (o *Options) prepare() (*cluster.Installation, []variant, []result.Skipped, error) {
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

// Run measures.
func (o *Options) Run(ctx context.Context) error {
	installation, chosen, skipped, err := o.prepare()
	if err != nil {
		return err
	}
	return o.Publish(ctx, func(ctx context.Context, phases *progress.Phases) (*result.Result, error) {
		r, err := o.measure(ctx, installation, chosen, phases)
		if r != nil {
			r.Skipped = skipped
		}
		return r, err
	})
}

// Package replication is "steno bench replication": what commits cost that wait
// for a standby, by synchronous_commit, transaction size, sessions and cores, with
// and without pg_steno.
//
// A primary with two standbys, of which any one must confirm, is loaded by
// pgbench with inserts. synchronous_commit and steno.sync are set by the sessions,
// and the primary's cores by the affinity of its processes, so the same servers
// serve all combinations; only pg_steno, which is preloaded, takes a primary and
// two standbys of its own (servers.go). All are up at the same time, which costs
// memory, but no restart falls between slices that are compared: those get their
// turn one right after the other, in an order that changes from round to round.
// What sessions wait for, system calls and latches are taken in slices apart from
// those that are timed (look.go).
package replication

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// Options are the flags of a run.
type Options struct {
	measure.Common
	matrix
	Rounds   int
	Looks    int
	Seconds  int
	PGConfig string

	changed func(flag string) bool
}

// New returns the measurement.
func New(e measure.Environment) *Options {
	return &Options{Common: measure.Common{Environment: e}}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Sync, "sync", names(syncs), "values of synchronous_commit")
	flags.StringSliceVar(&o.Steno, "steno", names(stenos), "off: without pg_steno; async: with it; sync: with "+
		"steno.sync=write,ddl,role")
	flags.IntSliceVar(&o.Inserts, "inserts", []int{1, 10}, "inserts per transaction")
	flags.IntSliceVar(&o.Clients, "clients", []int{16}, "sessions of pgbench")
	flags.StringSliceVar(&o.Cores, "cores", []string{allCores}, "processors that the primary may use: numbers, or all")
	flags.IntVar(&o.Seconds, "seconds", 1, "length of a slice")
	flags.IntVar(&o.Rounds, "rounds", 5, "how often to measure each combination")
	flags.IntVar(&o.Looks, "looks", 1, "how often to observe each combination: waits, system calls, latches")
	measure.AddPGConfig(flags, &o.PGConfig)
	o.Common.AddFlags(flags)
}

// Complete checks the flags and fills in what follows from them.
func (o *Options) Complete(given func(flag string) bool) error {
	o.changed = given
	if err := o.Check(); err != nil {
		return err
	}
	o.choose(runtime.NumCPU(), given)
	switch {
	case o.Rounds < 1 || o.Seconds < 1:
		return errors.New("--rounds and --seconds must be at least 1")
	case o.Looks < 0:
		return errors.New("--looks must not be negative")
	}
	return o.matrix.check(runtime.NumCPU())
}

// choose sets what was not given.
func (o *Options) choose(cores int, given func(flag string) bool) {
	if o.Quick {
		if !given("inserts") {
			o.Inserts = []int{1}
		}
		if !given("rounds") {
			o.Rounds = 3
		}
	}
	if !o.Full {
		return
	}
	if !given("clients") {
		o.Clients = []int{1, 16, 64}
	}
	if !given("cores") {
		if o.Cores = []string{allCores}; cores > 1 {
			o.Cores = append(o.Cores, strconv.Itoa(cores/2))
		}
	}
	if !given("rounds") {
		o.Rounds = 6
	}
	if !given("seconds") {
		o.Seconds = 2
	}
	if !given("looks") {
		o.Looks = 2
	}
}

// prepare looks whether all that is needed is there, before anything is started.
func (o *Options) prepare() (*cluster.Installation, []result.Skipped, error) {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return nil, nil, err
	}
	var skipped []result.Skipped
	if !installation.HasLibrary(stenoLibrary) {
		missing := fmt.Errorf("no %s.so in \"%s\"", stenoLibrary, installation.LibraryDir)
		if o.changed != nil && o.changed("steno") && !slices.Equal(o.Steno, []string{stenoOff}) {
			return nil, nil, fmt.Errorf("cannot measure pg_steno: %w", missing)
		}
		for _, steno := range []string{stenoAsync, stenoSync} {
			skipped = append(skipped, result.Skipped{Case: result.Case{dimSteno: steno}, Reason: missing.Error()})
		}
		o.Steno = []string{stenoOff}
	}
	servers := 1 + standbys
	if slices.Contains(o.Steno, stenoOff) && len(o.Steno) > 1 {
		servers *= 2
	}
	return installation, skipped, installation.CheckDisk(uint64(servers) * spacePerServer)
}

// Run measures.
func (o *Options) Run(ctx context.Context) error {
	installation, skipped, err := o.prepare()
	if err != nil {
		return err
	}
	return o.Publish(ctx, func(ctx context.Context, phases *progress.Phases) (*result.Result, error) {
		r, err := o.measure(ctx, installation, phases)
		if r != nil {
			r.Skipped = append(skipped, r.Skipped...)
		}
		return r, err
	})
}

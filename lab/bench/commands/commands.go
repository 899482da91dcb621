// Package commands implements "steno bench commands", which measures the cost for a server to report, count and log
// each of many small statements, in microseconds.
//
// The same statements are sent with psql, and on one connection with each protocol, to sessions with different
// settings; variants with a library have a server of their own, all others share one. In each round all variants run
// directly one after the other, in an order that changes from round to round, and are compared within the round with
// the variant that reports nothing.
package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// spacePerServer is the size of a server's data directory and logs.
const spacePerServer = 512 << 20

// Options are the options of a run.
type Options struct {
	measure.Common
	Ways       []string
	Compare    []string
	Statements int
	Rounds     int
	PGConfig   string

	changed func(flag string) bool
}

// New returns the measurement with its defaults.
func New(e measure.Environment) *Options {
	return &Options{Common: measure.Common{Environment: e}}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Ways, "ways", wayNames(), "ways to send statements")
	flags.StringSliceVar(&o.Compare, "compare", variantNames()[1:],
		"what to compare with the base, which reports nothing")
	flags.IntVar(&o.Statements, "statements", 10000, "number of statements in a run")
	flags.IntVar(&o.Rounds, "rounds", 8, "how often to measure each")
	measure.AddPGConfig(flags, &o.PGConfig)
	o.Common.AddFlags(flags)
}

// Complete checks the flags and derives the remaining options from them.
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

// prepare verifies the prerequisites before anything is started, and returns what will be measured.
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

// Run measures and reports the result.
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

// quickBudget is the time within which the last round of a quick run must begin.
const quickBudget = 80 * time.Second

type measurement struct {
	*Options
	lab     *cluster.Lab
	chosen  []variant
	servers map[string]*cluster.Server
	r       *result.Result
}

// measure starts the servers, runs all rounds, and removes everything.
func (o *Options) measure(ctx context.Context, installation *cluster.Installation, chosen []variant,
	phases *progress.Phases) (r *result.Result, err error) {
	phases.Phase("making servers")
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	if err := os.WriteFile(scriptFile(lab), []byte(script(o.Statements)), 0o644); err != nil {
		return nil, err
	}
	m := &measurement{Options: o, lab: lab, chosen: chosen, servers: map[string]*cluster.Server{}}
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	m.r = result.New("commands", "What reporting and logging add to a small statement",
		measure.CommandLine(), o.Version)
	m.r.Postgres, m.r.Settings = installation.Version, serverSettings
	m.r.Dimensions, m.r.Metrics = dimensions(chosen, o.Ways), metrics
	rounds, err := m.rounds(ctx, phases)
	if err != nil {
		return nil, err
	}
	m.r.Parameters = []result.Parameter{
		{Name: "rounds", Value: strconv.Itoa(rounds)},
		{Name: "statements", Value: strconv.Itoa(o.Statements)},
		{Name: "statement", Value: statement},
	}
	m.finish()
	return m.r, nil
}

func (m *measurement) start(ctx context.Context) error {
	for _, v := range m.chosen {
		if m.servers[v.server()] != nil {
			continue
		}
		settings := append(append([]cluster.Setting{}, serverSettings...), librarySettings(v.library)...)
		s, err := m.lab.Start(ctx, v.server(), settings)
		if err != nil {
			return err
		}
		m.servers[v.server()] = s
	}
	return nil
}

// rounds runs all rounds, and returns how many there were.
func (m *measurement) rounds(ctx context.Context, phases *progress.Phases) (int, error) {
	phases.Phase("measuring")
	start := time.Now()
	each := len(m.Ways) * len(m.chosen)
	for round := range m.Rounds {
		if m.Quick && round > 0 && time.Since(start)*time.Duration(round+1)/time.Duration(round) > quickBudget {
			return round, nil
		}
		for i, name := range m.Ways {
			step := func(v variant, position int) {
				phases.Step(name+", "+v.title, round*each+i*len(m.chosen)+position, m.Rounds*each)
			}
			if err := m.compare(ctx, round, findWay(name), step); err != nil {
				return 0, err
			}
		}
	}
	return m.Rounds, nil
}

// compare runs all variants directly one after the other.
func (m *measurement) compare(ctx context.Context, round int, w way, step func(v variant, position int)) error {
	all := make([]sample, len(m.chosen))
	for position := range m.chosen {
		i := bench.Order(len(m.chosen), round, position)
		v := m.chosen[i]
		step(v, position)
		var err error
		if all[i], err = w.run(ctx, m.lab, m.servers[v.server()], v, m.Statements); err != nil {
			return err
		}
		m.add(round+1, position+1, w, v, all[i])
	}
	for i, v := range m.chosen {
		if v.name != base {
			m.addDifference(round+1, w, v, all[i], all[0])
		}
	}
	return nil
}

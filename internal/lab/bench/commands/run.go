package commands

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/bench"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// quickBudget is the time within which a quick run begins its last round.
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
	m.r = result.New("commands", "What reporting and logging add to a small statement", measure.CommandLine(), o.Version)
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

// rounds runs all, and returns how many it made.
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

// compare runs all variants, one right after the other.
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

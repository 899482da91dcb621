package replication

import (
	"context"
	"errors"
	"slices"

	"github.com/pg-steno/pg_steno/internal/bench"
	"github.com/pg-steno/pg_steno/internal/bench/result"
	"github.com/pg-steno/pg_steno/internal/cluster"
)

// measurement is one run.
type measurement struct {
	*options
	lab      *cluster.Lab
	sets     map[string]*set
	progress *bench.Progress
	r        *result.Result
	looks    []looked
}

// looked is a look with its place in the run.
type looked struct {
	round, position int
	point
	*look
}

// measure starts the servers, runs all rounds, and removes everything.
func (o *options) measure(ctx context.Context, installation *cluster.Installation,
	progress *bench.Progress) (r *result.Result, err error) {
	progress.Phase("making servers")
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	if err := writeScripts(lab, &o.matrix); err != nil {
		return nil, err
	}
	clients := slices.Max(o.Clients)
	m := &measurement{options: o, lab: lab, progress: progress, r: o.newResult(installation, clients)}
	if m.sets, err = startSets(ctx, lab, &o.matrix, clients, progress); err != nil {
		return nil, err
	}
	defer func() {
		for _, s := range m.sets {
			s.close()
		}
	}()
	if err := m.rounds(ctx); err != nil {
		return nil, err
	}
	m.finish()
	return m.r, nil
}

// rounds times every combination in each round, and then watches it, in the first
// rounds.
func (m *measurement) rounds(ctx context.Context) error {
	groups := m.groups()
	m.progress.Phase("warming up")
	for _, steno := range m.Steno {
		warm := groups[0][0]
		warm.sync, warm.steno = base, steno
		if _, err := m.sets[steno].load(ctx, m.lab, warm, pgbenchArgs(m.lab, warm, 1), patience); err != nil {
			return err
		}
		if err := m.sets[steno].settle(ctx); err != nil {
			return err
		}
	}
	m.progress.Phase("measuring")
	steps := m.size() * (m.Rounds + m.Looks)
	step := 0
	for _, watch := range []bool{false, true} {
		rounds := m.Rounds
		if watch {
			rounds = m.Looks
		}
		for round := range rounds {
			for _, group := range groups {
				if err := m.group(ctx, group, round, watch, &step, steps); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// group gives each point of a group its slice.
func (m *measurement) group(ctx context.Context, group []point, round int, watch bool, step *int, steps int) error {
	all := make([]figures, len(group))
	for position := range group {
		i := bench.Order(len(group), round, position)
		p := group[i]
		s := m.sets[p.steno]
		m.progress.Step(p.title(), *step, steps)
		*step++
		if err := s.limit(p.cores); err != nil {
			return err
		}
		if watch {
			l, err := s.look(ctx, m.lab, p, m.Seconds)
			if err != nil {
				return err
			}
			m.looks = append(m.looks, looked{round + 1, position + 1, p, l})
		} else {
			f, err := s.timed(ctx, m.lab, p, m.Seconds)
			if err != nil {
				return err
			}
			all[i] = f
			m.addTimed(round+1, position+1, p, f)
		}
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	if !watch {
		m.addAgainstOff(round+1, group, all)
	}
	return nil
}

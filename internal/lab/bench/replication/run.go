package replication

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/bench"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// quickBudget is for a quick run up to the end of its timed rounds, the start of
// the servers included: one more round begins only if it will end within it.
const quickBudget = 75 * time.Second

// measurement is one run.
type measurement struct {
	*Options
	lab     *cluster.Lab
	sets    map[string]*set
	phases  *progress.Phases
	r       *result.Result
	started time.Time
	rounded int // timed rounds that were made
	step    int // of all slices
	looks   []looked
}

// looked is a look with its place in the run.
type looked struct {
	round, position int
	point
	*look
}

// measure starts the servers, runs all rounds, and removes everything.
func (o *Options) measure(ctx context.Context, installation *cluster.Installation,
	phases *progress.Phases) (r *result.Result, err error) {
	started := time.Now()
	phases.Phase("making servers")
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	if err := writeScripts(lab, &o.matrix); err != nil {
		return nil, err
	}
	clients := slices.Max(o.Clients)
	m := &measurement{Options: o, lab: lab, phases: phases, started: started,
		r: o.newResult(installation, clients)}
	if m.sets, err = startSets(ctx, lab, &o.matrix, clients, phases); err != nil {
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

// rounds times every combination in each round, and watches them all afterwards.
func (m *measurement) rounds(ctx context.Context) error {
	if err := m.warmUp(ctx); err != nil {
		return err
	}
	m.phases.Phase("measuring")
	var err error
	if m.rounded, err = m.pass(ctx, m.Rounds, false); err != nil {
		return err
	}
	m.step = m.size() * m.Rounds
	_, err = m.pass(ctx, m.Looks, true)
	return err
}

// warmUp lets each primary work for a moment.
func (m *measurement) warmUp(ctx context.Context) error {
	m.phases.Phase("warming up")
	for _, steno := range m.Steno {
		p := m.groups()[0][0]
		p.sync, p.steno = base, steno
		if _, err := m.sets[steno].load(ctx, m.lab, p, pgbenchArgs(m.lab, p, 1), patience); err != nil {
			return err
		}
		if err := m.sets[steno].settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pass makes so many rounds, of slices that are timed or watched, and returns how
// many there was time for.
func (m *measurement) pass(ctx context.Context, rounds int, watch bool) (int, error) {
	start := time.Now()
	for round := range rounds {
		if m.Quick && round > 0 && time.Since(m.started)+time.Since(start)/time.Duration(round) > quickBudget {
			return round, nil
		}
		for _, group := range m.groups() {
			if err := m.group(ctx, group, round, watch); err != nil {
				return round, err
			}
		}
	}
	return rounds, nil
}

// group gives each point of a group its slice.
func (m *measurement) group(ctx context.Context, group []point, round int, watch bool) error {
	all := make([]figures, len(group))
	for position := range group {
		i := bench.Order(len(group), round, position)
		p := group[i]
		s := m.sets[p.steno]
		m.phases.Step(p.title(), m.step, m.size()*(m.Rounds+m.Looks))
		m.step++
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

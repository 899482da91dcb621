// The rounds of a run, and a slice of its load.

package replication

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
)

// quickBudget is the time of a quick run up to the end of its timed rounds, including the start of the servers:
// another round begins only if it will end within it.
const quickBudget = 75 * time.Second

// measurement is the state of a run.
type measurement struct {
	*Options
	lab     *cluster.Lab
	sets    map[string]*set
	phases  *progress.Phases
	r       *result.Result
	started time.Time
	rounded int // number of completed timed rounds
	step    int // number of slices, of all kinds
	looks   []looked
}

// looked is a look with its position in the run.
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

// rounds times every combination in each round, and takes looks of all of them afterwards.
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

// warmUp runs a short load on each primary.
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

// pass runs up to this many rounds, of slices that are timed or watched, and returns how many there was time for.
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

// group runs a slice for each point of a group.
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

// patience is how much longer than its scheduled time pgbench may take, because a commit waits for a standby, before
// it is considered stuck.
const patience = time.Minute

// script returns pgbench's script: this many inserts in one transaction.
func script(inserts int) string {
	var b strings.Builder
	if inserts > 1 {
		b.WriteString("BEGIN;\n")
	}
	const insert = "INSERT INTO inserted (client, number, filler) VALUES (:client_id, %d, 'as much as an order " +
		"has');\n"
	for i := range inserts {
		fmt.Fprintf(&b, insert, i)
	}
	if inserts > 1 {
		b.WriteString("COMMIT;\n")
	}
	return b.String()
}

func scriptFile(lab *cluster.Lab, inserts int) string {
	return filepath.Join(lab.Dir, "inserts-"+strconv.Itoa(inserts)+".sql")
}

func writeScripts(lab *cluster.Lab, m *matrix) error {
	for _, n := range m.Inserts {
		if err := os.WriteFile(scriptFile(lab, n), []byte(script(n)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pgbenchArgs returns pgbench's arguments for a slice of this many seconds.
func pgbenchArgs(lab *cluster.Lab, p point, seconds int) []string {
	return []string{
		"--no-vacuum", "--file=" + scriptFile(lab, p.inserts), "--protocol=prepared",
		"--client=" + strconv.Itoa(p.clients), "--jobs=" + strconv.Itoa(min(p.clients, runtime.NumCPU())),
		"--time=" + strconv.Itoa(seconds),
	}
}

// load runs pgbench at a point of the matrix.
func (s *set) load(ctx context.Context, lab *cluster.Lab, p point, args []string,
	limit time.Duration) (bench.Slice, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errStuck)
	defer cancel()
	to := conninfo(s.primary, p.sync, find(stenos, p.steno).Settings...)
	cmd := lab.Client(ctx, "pgbench", append(args, to)...)
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cause := context.Cause(ctx); cause != nil {
		return bench.Slice{}, cause
	}
	if err != nil {
		return bench.Slice{}, fmt.Errorf("pgbench on server \"%s\": %w\n%s", s.primary.Name, err,
			strings.TrimSpace(stderr.String()))
	}
	return bench.ParseReport(string(out))
}

var errStuck = errors.New("pgbench does not exit: has the primary lost its standbys?")

// figures are the results of a timed slice.
type figures struct {
	tps      float64
	p50, p99 float64 // ms
	idle     float64 // %, of all processors
}

// timed runs a slice on a set without any other measurement.
func (s *set) timed(ctx context.Context, lab *cluster.Lab, p point, seconds int) (f figures, err error) {
	prefix := filepath.Join(lab.Dir, "latency")
	idle, err := machine.StartIdle()
	if err != nil {
		return f, err
	}
	args := append(pgbenchArgs(lab, p, seconds), "--log", "--log-prefix="+prefix)
	done, err := s.load(ctx, lab, p, args, time.Duration(seconds)*time.Second+patience)
	if err != nil {
		return f, err
	}
	f.tps = done.TPS
	if f.idle, err = idle.Percent(); err != nil {
		return f, err
	}
	f.p50, f.p99, err = takeLatencies(prefix)
	return f, err
}

// takeLatencies returns percentiles, in milliseconds, of the transactions that pgbench has logged, and removes the
// files.
func takeLatencies(prefix string) (p50, p99 float64, err error) {
	var all []float64
	if err := bench.TakeLatencies(prefix, func(us float64) { all = append(all, us) }); err != nil {
		return 0, 0, err
	}
	if len(all) == 0 {
		return 0, 0, errors.New("pgbench logged no transaction")
	}
	slices.Sort(all)
	return percentile(all, 0.5) / 1000, percentile(all, 0.99) / 1000, nil
}

// percentile returns the smallest of sorted values that is not exceeded by this share of them.
func percentile(sorted []float64, share float64) float64 {
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

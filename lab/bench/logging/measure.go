// The rounds: a slice of load on every variant for every point of the matrix, and the measurements before and after
// each slice.

package logging

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
)

// measurement is the state of a run of the matrix.
type measurement struct {
	o        *Options
	place    place
	variants []variant
	result   *result.Result
	started  time.Time
	slicer   slicer
	rates    []float64 // for each point: the share of transactions in the percentiles
}

// mostLogged is the maximum number of transactions of a slice that pgbench logs: on a fast machine, writing all of
// them would be a significant load.
const mostLogged = 500_000

// fewRounds is the number of rounds that run regardless of the time.
const fewRounds = 3

// run runs the rounds: in each, every point of the matrix gets a slice on every variant, directly one after the other,
// so that compared slices are close in time.
func (m *measurement) run(ctx context.Context, p *progress.Phases) error {
	m.slicer = slicer{dir: m.o.dir, seconds: m.o.Seconds, pause: m.o.Pause}
	p.Phase("warming up")
	if err := m.warmUp(ctx, p); err != nil {
		return err
	}
	p.Phase("measuring")
	round := 0
	var longest time.Duration
	for ; round < m.o.Rounds; round++ {
		start := time.Now()
		if m.o.budget > 0 && round >= fewRounds && start.Sub(m.started)+longest > m.o.budget {
			break
		}
		if err := m.round(ctx, round, p); err != nil {
			return err
		}
		longest = max(longest, time.Since(start))
	}
	m.parameters(round)
	m.finish()
	return nil
}

// warmUp runs a slice of each point on the base, and estimates how many transactions there will be.
func (m *measurement) warmUp(ctx context.Context, p *progress.Phases) error {
	t, err := m.place.use(ctx, m.variants[0])
	if err != nil {
		return err
	}
	for i, point := range m.o.points {
		p.Step(point.title(), i, len(m.o.points))
		report, err := t.pgbench(ctx, point.args(1)...)
		if err != nil {
			return err
		}
		load, err := bench.ParseReport(report)
		if err != nil {
			return err
		}
		m.rates = append(m.rates, min(1, mostLogged/(load.TPS*float64(m.o.Seconds))))
	}
	return nil
}

func (m *measurement) round(ctx context.Context, round int, p *progress.Phases) error {
	n := len(m.variants)
	for i, point := range m.o.points {
		for position := range n {
			v := m.variants[bench.Order(n, round, position)]
			p.Step(v.title+", "+point.title(), (round*len(m.o.points)+i)*n+position, m.o.Rounds*len(m.o.points)*n)
			t, err := m.place.use(ctx, v)
			if err != nil {
				return err
			}
			f, err := m.slicer.run(ctx, t, point, m.rates[i])
			if err != nil {
				return fmt.Errorf("%s, %s: %w", v.title, point.title(), err)
			}
			m.add(round+1, position+1, caseOf(v, point), f)
		}
	}
	return nil
}

func caseOf(v variant, p point) result.Case {
	return result.Case{
		"variant": v.name, "workload": p.workload.name, "protocol": p.protocol, "clients": strconv.Itoa(p.clients),
	}
}

// add stores a slice's figures, in the order of the metrics.
func (m *measurement) add(round, position int, c result.Case, f *figures) {
	for _, metric := range metrics {
		if value, ok := f.metrics[metric.Name]; ok {
			m.result.Add(round, position, c, metric.Name, value)
		}
	}
	for _, part := range parts {
		if f.cpu != nil {
			m.result.Add(round, position, c.With("part", string(part)), "cpu", f.cpu[part])
		}
	}
}

// parameters describes how it was measured.
func (m *measurement) parameters(rounds int) {
	o := m.o
	where := "throw-away servers, one for each variant"
	if o.DSN != "" {
		where = "a running server, settings changed by reload"
	}
	list := []result.Parameter{
		{Name: "servers", Value: where},
		{Name: "rounds", Value: strconv.Itoa(rounds)},
		{Name: "seconds of a slice", Value: strconv.Itoa(o.Seconds)},
		{Name: "pause after a slice", Value: o.Pause.String()},
	}
	if o.DSN == "" && o.needsTables() {
		list = append(list, result.Parameter{Name: "pgbench scale", Value: strconv.Itoa(o.Scale)})
	}
	var sampled []string
	for i, rate := range m.rates {
		if rate < 1 {
			sampled = append(sampled, fmt.Sprintf("%.1f %% of %s", 100*rate, o.points[i].title()))
		}
	}
	if sampled != nil {
		list = append(list, result.Parameter{Name: "transactions in the percentiles", Value: strings.Join(sampled,
			"; ")})
	}
	m.result.Parameters = list
}

// measureLab measures on servers that it creates.
func measureLab(ctx context.Context, o *Options, p *progress.Phases) (r *result.Result, err error) {
	started := time.Now()
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return nil, err
	}
	can, not := installed(o.variants, majorVersion(installation.Version), installation.HasLibrary)
	if err := o.checkLeft(can, not); err != nil {
		return nil, err
	}
	if err := o.checkConnections(); err != nil {
		return nil, err
	}
	if err := installation.CheckDisk(uint64(o.diskNeeded(len(can), cores()))); err != nil {
		return nil, err
	}
	p.Phase("making servers")
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := lab.Close(); err == nil {
			err = closing
		}
	}()
	place, err := openLab(ctx, lab, o, can, p)
	if err != nil {
		return nil, err
	}
	m := &measurement{o: o, place: place, variants: can, result: o.newResult(installation.Version, not),
		started: started}
	m.result.Settings = serverSettings(variant{}, o)
	return m.result, m.run(ctx, p)
}

// target is a server under load, with the settings of one variant.
type target struct {
	pgbench func(ctx context.Context, args ...string) (string, error)
	// processes are the server's; nil if they are not visible.
	processes *tree
	// written returns the size of logs and trail, in bytes; nil if it is not known.
	written func(ctx context.Context) (int64, error)
	// tidy frees disk space after a slice; nil if nothing may be removed.
	tidy func() error
}

// slicer runs slices of load.
type slicer struct {
	dir     string // for pgbench's logs
	seconds int
	pause   time.Duration // after the load, for logger and writers to catch up
}

// figures are the results of a slice: by metric, and the CPU time by part.
type figures struct {
	metrics map[string]float64
	cpu     map[part]float64 // microseconds per transaction; nil: not known
}

// run loads a target. The percentiles are of a sample of the transactions, with the share rate.
func (s *slicer) run(ctx context.Context, t *target, p point, rate float64) (*figures, error) {
	before, err := s.look(ctx, t)
	if err != nil {
		return nil, err
	}
	watched := make(chan switchRate, 1)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() { watched <- s.watchSwitches(watching, t.processes, before.usage, p.clients) }()
	args := append(p.args(s.seconds), "--log", "--log-prefix="+filepath.Join(s.dir, "latency"))
	if rate < 1 {
		args = append(args, "--sampling-rate="+strconv.FormatFloat(rate, 'f', 6, 64))
	}
	report, err := t.pgbench(ctx, args...)
	stop()
	rates := <-watched
	if err != nil {
		return nil, err
	}
	load, err := bench.ParseReport(report)
	if err != nil {
		return nil, err
	}
	if err := bench.Sleep(ctx, s.pause); err != nil {
		return nil, err
	}
	after, err := s.look(ctx, t)
	if err != nil {
		return nil, err
	}
	f := &figures{metrics: map[string]float64{"tps": load.TPS}}
	f.use(before, after, load)
	f.add(rates, load)
	if err := f.latencies(s.dir); err != nil {
		return nil, err
	}
	if t.tidy != nil {
		return f, t.tidy()
	}
	return f, nil
}

// state is the counters that grow with the load.
type state struct {
	usage *usage
	bytes *int64
}

func (s *slicer) look(ctx context.Context, t *target) (state, error) {
	var now state
	if t.written != nil {
		n, err := t.written(ctx)
		if err != nil {
			return now, err
		}
		now.bytes = &n
	}
	if t.processes != nil {
		u, err := t.processes.look()
		if err != nil {
			return now, err
		}
		now.usage = &u
	}
	return now, nil
}

// use derives figures per transaction from the difference between two states.
func (f *figures) use(before, after state, load bench.Slice) {
	n := float64(load.Transactions)
	if before.bytes != nil && after.bytes != nil {
		f.metrics["bytes"] = max(0, float64(*after.bytes-*before.bytes)/n)
	}
	if before.usage == nil || after.usage == nil {
		return
	}
	f.cpu = map[part]float64{}
	var all float64
	for part, used := range before.usage.until(*after.usage) {
		f.cpu[part] = used.Seconds() * 1e6 / n
		all += f.cpu[part]
	}
	f.metrics["cpu"] = all
}

// switchRate is the number of context switches of the server's processes per second; zero if the slice was too short
// to measure it.
type switchRate struct{ voluntary, involuntary float64 }

func (f *figures) add(r switchRate, load bench.Slice) {
	if r.voluntary+r.involuntary > 0 {
		f.metrics["voluntary"] = r.voluntary / load.TPS
		f.metrics["involuntary"] = r.involuntary / load.TPS
	}
}

// watchSwitches reads the counters of the existing processes twice while all clients are connected: a fifth of the
// slice after the last client has connected, and a tenth of it before its end.
func (s *slicer) watchSwitches(ctx context.Context, processes *tree, idle *usage, clients int) (r switchRate) {
	if processes == nil {
		return r
	}
	if err := processes.awaitClients(ctx, len(idle.living), clients); err != nil {
		return r
	}
	length := time.Duration(s.seconds) * time.Second
	if bench.Sleep(ctx, length/5) != nil {
		return r
	}
	first, start, err := processes.switchCounts()
	if err != nil || bench.Sleep(ctx, length*7/10) != nil {
		return r
	}
	last, end, err := processes.switchCounts()
	if err != nil {
		return r
	}
	sum, seconds := between(first, last), end.Sub(start).Seconds()
	return switchRate{float64(sum.voluntary) / seconds, float64(sum.involuntary) / seconds}
}

// awaitClients waits until there are as many new processes as clients, or no more are started.
func (t tree) awaitClients(ctx context.Context, idle, clients int) error {
	const poll = 50 * time.Millisecond
	const settled = 4 // polls
	for same, before := 0, idle; ; {
		present, err := t.proc.Children(t.postmaster)
		if err != nil || len(present) >= idle+clients {
			return err
		}
		if same++; len(present) != before || len(present) <= idle {
			same, before = 0, len(present)
		}
		if same == settled {
			return nil
		}
		if err := bench.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}

// longest is the longest latency that the histogram can represent.
const longest = 10 * time.Minute

// enough is the number of transactions from which the 99.9th percentile is significant.
const enough = 1000

// latencies reads the logs of pgbench in a directory, and removes them.
func (f *figures) latencies(dir string) error {
	// three digits are significant
	h := hdrhistogram.New(1, longest.Microseconds(), 3)
	if err := bench.TakeLatencies(filepath.Join(dir, "latency"), func(us float64) {
		_ = h.RecordValue(min(int64(us), longest.Microseconds()))
	}); err != nil {
		return err
	}
	if h.TotalCount() == 0 {
		return fmt.Errorf("pgbench logged no transaction")
	}
	f.percentiles(h)
	return nil
}

// percentiles computes the percentiles of a histogram of microseconds.
func (f *figures) percentiles(h *hdrhistogram.Histogram) {
	ms := func(percentile float64) float64 { return float64(h.ValueAtQuantile(percentile)) / 1000 }
	f.metrics["p50"] = ms(50)
	f.metrics["p99"] = ms(99)
	if h.TotalCount() >= enough {
		f.metrics["p999"] = ms(99.9)
	}
}

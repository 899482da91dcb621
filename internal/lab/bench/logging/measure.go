package logging

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/bench"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// measurement is one run of the matrix.
type measurement struct {
	o        *Options
	place    place
	variants []variant
	result   *result.Result
	started  time.Time
	slicer   slicer
	rates    []float64 // of each point: the share of transactions that is in the percentiles
}

// mostLogged is how many transactions of a slice pgbench logs: on a fast machine
// writing all of them would be a load of its own.
const mostLogged = 500_000

// fewRounds are made whatever the time.
const fewRounds = 3

// run makes the rounds: in each, every point of the matrix gets a slice on every
// variant, one right after the other, so that what is compared is close in time.
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

// warmUp gives each point a slice on the base, and sees how much there will be
// to log.
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

// add keeps a slice's figures, in the order of the metrics.
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

// parameters tells people how it was measured.
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

// measureLab measures on servers that it makes.
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

package replication

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// Names of metrics in files.
const (
	metricTPS       = "tps"
	metricInserts   = "inserts_per_s"
	metricP50       = "p50"
	metricP99       = "p99"
	metricIdle      = "idle"
	metricOff       = "against_off"
	metricWaits     = "waits"
	metricCalls     = "calls_per_commit"
	metricLatches   = "latches_per_commit"
	metricLatchesPS = "latches_per_s"
)

var metrics = []result.Metric{
	{Name: metricTPS, Title: "transactions per second", Unit: "1/s", Better: "higher"},
	{Name: metricInserts, Title: "inserts per second", Unit: "1/s", Better: "higher"},
	{Name: metricP50, Title: "latency, median", Unit: "ms", Better: "lower"},
	{Name: metricP99, Title: "latency, 99th percentile", Unit: "ms", Better: "lower"},
	{Name: metricIdle, Title: "processors idle", Unit: "%"},
	{Name: metricOff, Title: "throughput relative to no pg_steno", Better: "higher"},
	{Name: metricWaits, Title: "share of sessions", Unit: "%"},
	{Name: metricCalls, Title: "system calls per commit", Better: "lower"},
	{Name: metricLatches, Title: "latches set per commit", Better: "lower"},
	{Name: metricLatchesPS, Title: "latches set per second", Unit: "1/s"},
}

func (o *Options) newResult(installation *cluster.Installation, clients int) *result.Result {
	r := result.New("replication", "Commits that wait for a standby", measure.CommandLine(), o.Version)
	r.Postgres = installation.Version
	r.Settings = append(settings(clients), cluster.Setting{
		Name: "synchronous_standby_names", Value: fmt.Sprintf("ANY 1 (%d standbys)", standbys)})
	r.Dimensions, r.Metrics = o.dimensions(), metrics
	r.Parameters = []result.Parameter{
		{Name: "seconds of a slice", Value: strconv.Itoa(o.Seconds)},
		{Name: "slices for waits and system calls", Value: strconv.Itoa(o.Looks)},
		{Name: "servers", Value: "a primary and two standbys; with pg_steno on the primary another three, idle " +
			"meanwhile"},
		{Name: "protocol", Value: "prepared"},
	}
	return r
}

func (m *measurement) addTimed(round, position int, p point, f figures) {
	for _, x := range []struct {
		metric string
		value  float64
	}{
		{metricTPS, f.tps}, {metricInserts, f.tps * float64(p.inserts)}, {metricP50, f.p50}, {metricP99, f.p99},
		{metricIdle, f.idle},
	} {
		m.r.Add(round, position, p.result(), x.metric, x.value)
	}
}

// addAgainstOff pairs the points of a group with those that differ only in having
// no pg_steno.
func (m *measurement) addAgainstOff(round int, group []point, all []figures) {
	for i, p := range group {
		plain := p
		plain.steno = stenoOff
		if j := slices.Index(group, plain); p.steno != stenoOff && j >= 0 {
			m.r.Add(round, 0, p.result(), metricOff, all[i].tps/all[j].tps)
		}
	}
}

// addLooks turns what was watched into samples.
func (m *measurement) addLooks() {
	var all []*look
	for _, l := range m.looks {
		all = append(all, l.look)
	}
	top := topEvents(all)
	for _, l := range m.looks {
		c := l.result()
		of := shares(l.events, top)
		for _, event := range append(slices.Clone(top), otherEvents) {
			m.r.Add(l.round, l.position, c.With(dimEvent, event), metricWaits, of[event])
		}
		for _, name := range callNames {
			if n, ok := l.calls[name]; ok {
				m.r.Add(l.round, l.position, c.With(dimCall, callName(name)), metricCalls, n)
			}
		}
		if l.noLatches == nil {
			m.r.Add(l.round, l.position, c, metricLatchesPS, l.latches)
			m.r.Add(l.round, l.position, c, metricLatches, l.latches/l.tps)
		}
	}
	m.addLookDimensions(top)
}

func (m *measurement) addLookDimensions(top []string) {
	events := result.Dimension{Name: dimEvent, Title: "waits for"}
	for _, event := range append(slices.Clone(top), otherEvents) {
		events.Values = append(events.Values, result.Value{Name: event, Title: eventTitle(event)})
	}
	calls := result.Dimension{Name: dimCall, Title: "system call"}
	for _, name := range callNames {
		calls.Values = append(calls.Values, result.Value{Name: callName(name), Title: callTitle(name)})
	}
	if len(m.looks) > 0 {
		m.r.Dimensions = append(m.r.Dimensions, events, calls)
	}
}

// addReasons says what could not be counted, once each.
func (m *measurement) addReasons() {
	skip := func(metric string, failed func(l *look) error) {
		n, reason := 0, ""
		for _, l := range m.looks {
			if err := failed(l.look); err != nil {
				n, reason = n+1, err.Error()
			}
		}
		if n > 0 {
			m.r.Skipped = append(m.r.Skipped, result.Skipped{
				Case: result.Case{}, Reason: fmt.Sprintf("%s in %d of %d slices: %s", metric, n, len(m.looks), reason)})
		}
	}
	skip("system calls were not counted", func(l *look) error { return l.noCalls })
	skip("latches were not counted", func(l *look) error { return l.noLatches })
	if len(m.looks) > 0 && m.looks[0].noCalls == nil {
		m.r.Parameters = append(m.r.Parameters, result.Parameter{Name: "system calls counted by",
			Value: m.looks[0].callsBy})
	}
}

// finish makes figures, tables, charts and notes of the samples.
func (m *measurement) finish() {
	m.r.Parameters = append([]result.Parameter{{Name: "rounds", Value: strconv.Itoa(m.rounded)}}, m.r.Parameters...)
	m.addLooks()
	m.addReasons()
	m.r.Summarize(dimSync, base)
	m.publish()
	m.tables()
	m.charts()
	m.r.Notes = m.notes()
}

// publish puts the figures of others beside ours.
func (m *measurement) publish() {
	const source = "analysis of 2016"
	const conditions = "PostgreSQL 9.6, 64 threads, one insert a transaction, one primary and two standbys"
	// against about 220,000/s with local; 70,000 to 76,000/s with remote_write and on
	ratios := map[string]float64{"off": 300.0 / 220, "remote_write": 73.0 / 220, "on": 73.0 / 220}
	for sync, ratio := range ratios {
		for _, clients := range m.Clients {
			c := point{sync, stenoOff, 1, clients, allCores}.result()
			if x := m.r.Find(c, metricTPS); x != nil && x.Ratio != nil {
				x.Published = append(x.Published, result.Published{Value: ratio, IsRatio: true, Source: source,
					Conditions: conditions})
			}
		}
	}
}

// varied are the dimensions with several values, but for those named.
func (m *measurement) varied(without ...string) []string {
	var all []string
	for _, d := range []struct {
		name string
		n    int
	}{{dimClients, len(m.Clients)}, {dimCores, len(m.Cores)}, {dimInserts, len(m.Inserts)}, {dimSteno, len(m.Steno)},
		{dimSync, len(m.Sync)}} {
		if (d.n > 1 || d.name == dimSync) && !slices.Contains(without, d.name) {
			all = append(all, d.name)
		}
	}
	return all
}

func (m *measurement) tables() {
	m.r.Tables = []result.Table{{
		Title: "Throughput, relative to synchronous_commit=local", Rows: m.varied(), Bar: 0,
		Columns: []result.Column{
			{Metric: metricTPS}, {Metric: metricTPS, Ratio: true}, {Metric: metricTPS, Ratio: true, Published: true},
			{Metric: metricInserts}, {Metric: metricP50}, {Metric: metricP99}, {Metric: metricIdle},
		},
	}}
	if slices.Contains(m.Steno, stenoOff) && len(m.Steno) > 1 {
		m.r.Tables = append(m.r.Tables, result.Table{
			Title: "Throughput with pg_steno, relative to the same without it", Rows: m.varied(dimSteno), Bar: -1,
			Columns: []result.Column{{Metric: metricOff, Dimension: dimSteno}},
		})
	}
	if len(m.looks) == 0 {
		return
	}
	m.r.Tables = append(m.r.Tables,
		result.Table{Title: "What sessions wait for", Rows: m.varied(), Bar: -1,
			Columns: []result.Column{{Metric: metricWaits, Dimension: dimEvent}}},
		result.Table{Title: "System calls per commit, and latches", Rows: m.varied(), Bar: -1,
			Columns: []result.Column{{Metric: metricCalls, Dimension: dimCall}, {Metric: metricLatches},
				{Metric: metricLatchesPS}}})
}

func (m *measurement) charts() {
	// One chart shows two dimensions; of the others it shows the first value.
	first := result.Case{dimSteno: m.Steno[0], dimInserts: strconv.Itoa(m.Inserts[0]), dimCores: m.Cores[0],
		dimClients: strconv.Itoa(slices.Max(m.Clients))}
	where := func(free ...string) result.Case {
		c := result.Case{}
		for dimension, value := range first {
			if !slices.Contains(free, dimension) {
				c[dimension] = value
			}
		}
		return c
	}
	m.r.Charts = []result.Chart{{Title: "Transactions per second", Kind: "bars", Metric: metricTPS, X: dimSync,
		Series: dimSteno, Where: where(dimSteno)}}
	if len(m.looks) > 0 {
		m.r.Charts = append(m.r.Charts, result.Chart{
			Title: "What sessions wait for", Kind: "bars", Metric: metricWaits, X: dimSync, Series: dimEvent,
			Where: where()})
	}
	for _, d := range []struct {
		name, title string
		n           int
	}{
		{dimClients, "Transactions per second by clients", len(m.Clients)},
		{dimCores, "Transactions per second by the primary's cores", len(m.Cores)},
	} {
		if d.n > 1 {
			m.r.Charts = append(m.r.Charts, result.Chart{
				Title: d.title, Kind: "lines", Metric: metricTPS, X: d.name, Series: dimSync, Where: where(d.name)})
		}
	}
	if len(m.Inserts) > 1 {
		m.r.Charts = append(m.r.Charts, result.Chart{Title: "Inserts per second by inserts per transaction",
			Kind:   "bars",
			Metric: metricInserts, X: dimSync, Series: dimInserts, Where: where(dimInserts)})
	}
}

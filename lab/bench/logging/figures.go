// The result of a run: metrics, tables and charts.

package logging

import (
	"strconv"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// metrics are the metrics of a slice.
var metrics = []result.Metric{
	{Name: "tps", Title: "transactions per second", Unit: "1/s", Better: "higher"},
	{Name: "p50", Title: "latency, median", Unit: "ms", Better: "lower"},
	{Name: "p99", Title: "latency, 99 %", Unit: "ms", Better: "lower"},
	{Name: "p999", Title: "latency, 99.9 %", Unit: "ms", Better: "lower"},
	{Name: "cpu", Title: "server's CPU time per transaction", Unit: "µs", Better: "lower"},
	{Name: "bytes", Title: "logged per transaction", Unit: "B", Better: "lower"},
	{Name: "voluntary", Title: "voluntary context switches per transaction", Better: "lower"},
	{Name: "involuntary", Title: "involuntary context switches per transaction", Better: "lower"},
}

// newResult returns a result with the dimensions of the matrix.
func (o *Options) newResult(postgres string, not []missing) *result.Result {
	r := result.New("logging", "Cost of different ways to log statements", measure.CommandLine(), o.Version)
	r.Postgres = postgres
	r.Metrics = metrics
	r.Dimensions = []result.Dimension{
		{Name: "variant", Title: "logging"}, {Name: "clients", Title: "clients"},
		{Name: "workload", Title: "workload"}, {Name: "protocol", Title: "protocol"},
		{Name: "part", Title: "part of the server"},
	}
	left := map[string]bool{}
	for _, m := range not {
		left[m.name] = true
		r.Skipped = append(r.Skipped, result.Skipped{Case: result.Case{"variant": m.name}, Reason: m.reason})
	}
	add := func(dimension int, v result.Value) {
		d := &r.Dimensions[dimension]
		for _, have := range d.Values {
			if have.Name == v.Name {
				return
			}
		}
		d.Values = append(d.Values, v)
	}
	for _, v := range o.variants {
		if !left[v.name] {
			add(0, result.Value{Name: v.name, Title: v.title, Settings: append(preloadSetting(v), v.settings...)})
		}
	}
	for _, p := range o.points {
		add(1, result.Value{Name: strconv.Itoa(p.clients), Title: strconv.Itoa(p.clients)})
		add(2, result.Value{Name: p.workload.name, Title: p.workload.title})
		add(3, result.Value{Name: p.protocol, Title: p.protocol})
	}
	titles := map[part]string{backends: "sessions", logger: "logging collector", writers: "pg_steno's writers",
		other: "other"}
	for _, part := range parts {
		add(4, result.Value{Name: string(part), Title: titles[part]})
	}
	return r
}

// finish derives figures, tables, charts and findings from the samples.
func (m *measurement) finish() {
	r := m.result
	r.Summarize("variant", base)
	addPublished(r)
	// with several clients, the rows of a variant stay together
	rows := []string{"variant"}
	if len(r.Dimensions[1].Values) > 1 {
		rows = append(rows, "clients")
	}
	for _, load := range m.loads() {
		r.Tables = append(r.Tables, tables(load, rows, m.has("cpu"), m.has("bytes"), m.has("voluntary"))...)
		r.Charts = append(r.Charts, m.charts(load)...)
	}
	r.Notes = append(m.notes(), r.Notes...)
}

// load is a combination with its own tables and charts.
type load struct {
	where result.Case
	title string
}

func (m *measurement) loads() []load {
	var all []load
	seen := map[string]bool{}
	for _, p := range m.o.points {
		title := p.workload.title + " -M " + p.protocol
		if seen[title] {
			continue
		}
		seen[title] = true
		where := result.Case{"workload": p.workload.name, "protocol": p.protocol}
		if n := m.o.Clients; len(n) == 1 {
			where["clients"] = strconv.Itoa(n[0])
			title += ", " + where["clients"] + " clients"
		}
		all = append(all, load{where, title})
	}
	return all
}

func (m *measurement) has(metric string) bool {
	for i := range m.result.Measures {
		if m.result.Measures[i].Metric == metric {
			return true
		}
	}
	return false
}

// tables returns two tables for each load: what users notice, and the resources that it takes.
func tables(l load, rows []string, cpu, bytes, switched bool) []result.Table {
	notice := result.Table{
		Title: l.title + ": throughput and latency", Rows: rows, Where: l.where, Bar: 0,
		Columns: []result.Column{
			{Metric: "tps", Ratio: true}, {Metric: "tps"}, {Metric: "tps", Published: true},
			{Metric: "p50"}, {Metric: "p99"}, {Metric: "p999"},
		},
	}
	takes := result.Table{Title: l.title + ": cost of a transaction", Rows: rows, Where: l.where, Bar: -1}
	if cpu {
		takes.Bar = 0
		takes.Columns = append(takes.Columns, result.Column{Metric: "cpu"}, result.Column{Metric: "cpu", Ratio: true},
			result.Column{Metric: "cpu", Dimension: "part"})
	}
	if bytes {
		takes.Columns = append(takes.Columns, result.Column{Metric: "bytes"})
	}
	if switched {
		takes.Columns = append(takes.Columns, result.Column{Metric: "voluntary"}, result.Column{Metric: "involuntary"})
	}
	if takes.Columns == nil {
		return []result.Table{notice}
	}
	return []result.Table{notice, takes}
}

func (m *measurement) charts(l load) []result.Chart {
	several := len(m.o.Clients) > 1
	series := ""
	if several {
		series = "clients"
	}
	charts := []result.Chart{{
		Title: l.title + ": remaining throughput",
		Kind:  "bars", Metric: "tps", Ratio: true, X: "variant", Series: series, Where: l.where,
		Note: "1 is the throughput without logging.",
	}}
	if several {
		charts = append(charts, result.Chart{
			Title: l.title + ": throughput",
			Kind:  "lines", Metric: "tps", X: "clients", Series: "variant", Where: l.where,
		})
	}
	charts = append(charts, result.Chart{
		Title: l.title + ": latency, 99th percentile", Kind: "bars", Metric: "p99",
		X: "variant", Series: series, Where: l.where,
	})
	if m.has("cpu") && !several {
		charts = append(charts, result.Chart{
			Title: l.title + ": where the server's CPU time goes",
			Kind:  "bars", Metric: "cpu", X: "variant", Series: "part",
			Where: l.where, Note: "Microseconds per transaction, not including pgbench's.",
		})
	} else if m.has("cpu") {
		charts = append(charts, result.Chart{
			Title: l.title + ": the server's CPU time",
			Kind:  "bars", Metric: "cpu", X: "variant", Series: series, Where: l.where,
		})
	}
	if m.has("bytes") {
		charts = append(charts, result.Chart{
			Title: l.title + ": bytes logged per transaction", Kind: "bars", Metric: "bytes", X: "variant",
			Series: series, Where: l.where,
		})
	}
	return charts
}

// Samples of small statements, and the tables, charts and findings derived from them.

package commands

import (
	"fmt"
	"math"
	"slices"

	"github.com/pg-steno/pg_steno/lab/bench/result"
)

// Names of metrics in files.
const (
	metricSeconds  = "seconds"
	metricOverhead = "overhead"
	metricCPU      = "cpu"
	metricCPUMore  = "cpu_overhead"
)

var metrics = []result.Metric{
	{Name: metricSeconds, Title: "time of all statements", Unit: "s", Better: "lower"},
	{Name: metricOverhead, Title: "added to a statement", Unit: "µs", Better: "lower"},
	{Name: metricCPU, Title: "CPU time of the server process per statement", Unit: "µs", Better: "lower"},
	{Name: metricCPUMore, Title: "added CPU time per statement", Unit: "µs", Better: "lower"},
}

func point(w way, v string) result.Case { return result.Case{dimWay: w.name, dimVariant: v} }

// perStatement converts seconds of a run into microseconds per statement.
func (m *measurement) perStatement(seconds float64) float64 {
	return seconds * 1e6 / float64(m.Statements)
}

func (m *measurement) add(round, position int, w way, v variant, s sample) {
	m.r.Add(round, position, point(w, v.name), metricSeconds, s.seconds)
	if s.cpu >= 0 {
		m.r.Add(round, position, point(w, v.name), metricCPU, m.perStatement(s.cpu))
	}
}

// addDifference adds the difference to the base's run of the same round.
func (m *measurement) addDifference(round int, w way, v variant, s, bare sample) {
	m.r.Add(round, 0, point(w, v.name), metricOverhead, m.perStatement(s.seconds-bare.seconds))
	if s.cpu >= 0 && bare.cpu >= 0 {
		m.r.Add(round, 0, point(w, v.name), metricCPUMore, m.perStatement(s.cpu-bare.cpu))
	}
}

// finish derives figures, tables, charts and notes from the samples.
func (m *measurement) finish() {
	m.r.Summarize(dimVariant, base)
	m.publish()
	m.r.Tables = []result.Table{
		{Title: fmt.Sprintf("%d times \"%s\"", m.Statements, statement), Rows: []string{dimWay, dimVariant}, Bar: 0,
			Columns: []result.Column{
				{Metric: metricSeconds}, {Metric: metricSeconds, Ratio: true},
				{Metric: metricSeconds, Ratio: true, Published: true},
				{Metric: metricOverhead}, {Metric: metricCPU}, {Metric: metricCPUMore}}},
		{Title: "Added to a statement, µs", Rows: []string{dimVariant}, Bar: -1, Columns: []result.Column{
			{Metric: metricOverhead, Dimension: dimWay}}},
	}
	m.r.Charts = []result.Chart{
		{Title: "Added to a statement", Kind: "bars", Metric: metricOverhead, X: dimWay, Series: dimVariant,
			Note: "\"again\" is the base a second time: a difference that is not larger means nothing."},
		{Title: "Time of all statements", Kind: "bars", Metric: metricSeconds, X: dimWay, Series: dimVariant},
	}
	m.r.Notes = m.notes()
}

// publish adds the published figures, which are about 10,000 statements.
func (m *measurement) publish() {
	const source = "patch discussion of 2006"
	const conditions = "10,000 SELECT 1 through psql, PostgreSQL's statistics collector of that time got a " +
		"message for each"
	w := findWay(viaPsql)
	for _, p := range []struct {
		variant, metric string
		value           float64
		isRatio         bool
	}{
		{base, metricSeconds, 3.5, false},
		{activities, metricSeconds, 5.5 / 3.5, true},
		{activities, metricOverhead, 200, false},
	} {
		if x := m.r.Find(point(w, p.variant), p.metric); x != nil {
			x.Published = append(x.Published, result.Published{Value: p.value, IsRatio: p.isRatio, Source: source,
				Conditions: conditions})
		}
	}
}

// notes returns findings and limits that follow from the figures.
func (m *measurement) notes() []string {
	var all []string
	if note := m.noiseNote(); note != "" {
		all = append(all, note)
	}
	if x := m.r.Find(point(findWay(viaPsql), activities), metricOverhead); x != nil {
		all = append(all, fmt.Sprintf("track_activities added %.1f µs (%.1f to %.1f) to a statement through psql; "+
			"200 µs were published for 2006. Since then, sessions write what they run into shared memory, "+
			"without a message.", x.Value.Median, x.Value.Low, x.Value.High))
	}
	return append(all, "The CPU time is that of the session's server process only: the logging collector and "+
		"pg_steno's writer run in parallel.")
}

// noiseNote states how much two equal cases differ.
func (m *measurement) noiseNote() string {
	if !slices.ContainsFunc(m.chosen, func(v variant) bool { return v.name == again }) {
		return ""
	}
	widest := 0.0
	for _, name := range m.Ways {
		if x := m.r.Find(point(findWay(name), again), metricOverhead); x != nil {
			widest = max(widest, math.Abs(x.Value.Low), math.Abs(x.Value.High))
		}
	}
	return fmt.Sprintf("Two equal runs differ by up to %.1f µs per statement here: smaller differences mean nothing.",
		widest)
}

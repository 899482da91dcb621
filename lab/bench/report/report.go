// Package report shows results: as text on a terminal (text.go), and as a single page that needs no network (html.go,
// page.*), with charts that are drawn by this package (chart.go, bars.go, lines.go). Both look up the measures of
// tables and charts in the view of a result, which is in this file and in grid.go.
//
// Chart libraries produce images, or pages with their own scripts; these charts are inline SVG that uses the page's
// colors and fonts, with intervals and published figures. Table libraries do not support columns of figures with
// intervals, and do not split a table that is too wide.
package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// view looks up measures of a result, and display names.
type view struct {
	*result.Result
	// indexes has the measures by metric and dimensions, then by the values of these.
	indexes map[string]map[string][]*result.Measure
	// sources are those of published figures, in the order of their first mention.
	sources []source
}

// source is the source of published figures.
type source struct{ Source, Conditions string }

func newView(r *result.Result) *view {
	return &view{Result: r, indexes: map[string]map[string][]*result.Measure{}}
}

func key(c result.Case, dimensions []string) string {
	var b strings.Builder
	for _, d := range dimensions {
		b.WriteString(c[d] + "\x00")
	}
	return b.String()
}

// having returns the measures of a metric by their values of some dimensions, all of which they must have.
func (v *view) having(metric string, dimensions []string) map[string][]*result.Measure {
	name := metric + "\x01" + strings.Join(dimensions, "\x00")
	if index, ok := v.indexes[name]; ok {
		return index
	}
	index := map[string][]*result.Measure{}
	for i := range v.Measures {
		m := &v.Measures[i]
		if m.Metric != metric {
			continue
		}
		if slices.ContainsFunc(dimensions, func(d string) bool { _, ok := m.Case[d]; return !ok }) {
			continue
		}
		k := key(m.Case, dimensions)
		index[k] = append(index[k], m)
	}
	v.indexes[name] = index
	return index
}

// find returns the measure for a position in a table or chart: that of exactly this case; otherwise the only one with
// all of the case's values; otherwise the most specific of those that are about all values of a dimension. If there
// are several that differ in a dimension that is not in the case, it returns them instead.
func (v *view) find(c result.Case, metric string) (*result.Measure, []*result.Measure) {
	dimensions := slices.Sorted(maps.Keys(c))
	found := v.having(metric, dimensions)[key(c, dimensions)]
	for _, m := range found {
		if len(m.Case) == len(c) {
			return m, nil
		}
	}
	switch len(found) {
	case 0:
		return v.general(c, metric), nil
	case 1:
		return found[0], nil
	}
	return nil, found
}

// general returns the measure with the most dimensions among those that lack some of the case's.
func (v *view) general(c result.Case, metric string) *result.Measure {
	var best *result.Measure
	for _, m := range v.having(metric, nil)[""] {
		if len(m.Case) < len(c) && c.Matches(m.Case) && (best == nil || len(m.Case) > len(best.Case)) {
			best = m
		}
	}
	return best
}

// free returns the dimensions in which measures differ, except those in said, in the result's order.
func (v *view) free(measures []*result.Measure, said result.Case) []string {
	var names []string
	for _, d := range v.Dimensions {
		if _, ok := said[d.Name]; ok || len(measures) == 0 {
			continue
		}
		first, has := measures[0].Case[d.Name]
		for _, m := range measures[1:] {
			if value, ok := m.Case[d.Name]; value != first || ok != has {
				names = append(names, d.Name)
				break
			}
		}
	}
	return names
}

// combinations returns the values of some dimensions that measures of the metrics have, among those that match where,
// in the dimensions' order.
func (v *view) combinations(metrics, dimensions []string, where result.Case) []result.Case {
	var all []result.Case
	seen := map[string]bool{}
	for i := range v.Measures {
		m := &v.Measures[i]
		if !slices.Contains(metrics, m.Metric) || !m.Case.Matches(where) {
			continue
		}
		c := result.Case{}
		for _, d := range dimensions {
			if value, ok := m.Case[d]; ok {
				c[d] = value
			}
		}
		if k := key(c, dimensions); len(c) == len(dimensions) && !seen[k] {
			seen[k] = true
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b result.Case) int {
		for _, d := range dimensions {
			if n := v.rank(d, a[d]) - v.rank(d, b[d]); n != 0 {
				return n
			}
		}
		return 0
	})
	return all
}

func (v *view) dimension(name string) *result.Dimension {
	for i := range v.Dimensions {
		if v.Dimensions[i].Name == name {
			return &v.Dimensions[i]
		}
	}
	return &result.Dimension{Name: name, Title: name}
}

// rank returns a value's position in its dimension; an unknown value comes last.
func (v *view) rank(dimension, value string) int {
	values := v.dimension(dimension).Values
	if i := slices.IndexFunc(values, func(x result.Value) bool { return x.Name == value }); i >= 0 {
		return i
	}
	return len(values)
}

// title returns the display name of a value.
func (v *view) title(dimension, value string) string {
	values := v.dimension(dimension).Values
	if i := v.rank(dimension, value); i < len(values) && values[i].Title != "" {
		return values[i].Title
	}
	return value
}

func (v *view) dimensionTitle(name string) string {
	if d := v.dimension(name); d.Title != "" {
		return d.Title
	}
	return name
}

func (v *view) metric(name string) result.Metric {
	for _, m := range v.Metrics {
		if m.Name == name {
			if m.Title == "" {
				m.Title = name
			}
			return m
		}
	}
	return result.Metric{Name: name, Title: name}
}

// metricTitle returns the name of a metric with its unit, or with what the ratio is relative to.
func (v *view) metricTitle(name string, ratio bool) string {
	m := v.metric(name)
	switch {
	case ratio && v.baseTitle(name) != "":
		return m.Title + " against " + v.baseTitle(name)
	case ratio:
		return m.Title + ", ratio"
	case m.Unit == "" || m.Unit == "1/s" && strings.Contains(m.Title, "per second"):
		return m.Title
	default:
		return m.Title + " (" + m.Unit + ")"
	}
}

// named returns a value, preceded by its dimension if it is not clear by itself: "16 clients" becomes "clients 16",
// "select-only" is unchanged.
func (v *view) named(dimension, value string) string {
	title := v.title(dimension, value)
	if strings.Trim(title, "0123456789.,") == "" {
		return v.dimensionTitle(dimension) + " " + title
	}
	return title
}

// caseTitle returns the display name of a case, in the order of the dimensions.
func (v *view) caseTitle(c result.Case) string {
	var parts []string
	for _, d := range v.Dimensions {
		if value, ok := c[d.Name]; ok {
			parts = append(parts, v.named(d.Name, value))
		}
	}
	return strings.Join(parts, ", ")
}

// isBase reports whether ratios are relative to the case.
func (v *view) isBase(c result.Case) bool {
	return slices.ContainsFunc(v.Bases, func(b result.Base) bool { return c[b.Dimension] == b.Value })
}

// baseOf returns a dimension's base, or the empty string.
func (v *view) baseOf(dimension string) string {
	for _, b := range v.Bases {
		if b.Dimension == dimension {
			return b.Value
		}
	}
	return ""
}

// baseTitle returns the name of what a metric's ratios are relative to; empty if that is not unique.
func (v *view) baseTitle(metric string) string {
	title := ""
	for _, b := range v.Bases {
		for _, m := range v.having(metric, []string{b.Dimension}) {
			if slices.ContainsFunc(m, func(m *result.Measure) bool { return m.Ratio != nil }) {
				if title != "" {
					return ""
				}
				title = v.title(b.Dimension, b.Value)
				break
			}
		}
	}
	return title
}

// one is the base's ratio to itself.
var one = stats.Estimate{Median: 1, Low: 1, High: 1, Confidence: 1, N: 1}

// estimate returns the estimate of a measure that is shown: its value or its ratio, which is 1 by definition for the
// base; nil if there is none.
func (v *view) estimate(m *result.Measure, ratio bool) *stats.Estimate {
	switch {
	case m == nil:
		return nil
	case !ratio:
		return &m.Value
	case m.Ratio == nil && v.isBase(m.Case):
		return &one
	default:
		return m.Ratio
	}
}

// published returns the published figures of one kind, values or ratios.
func published(m *result.Measure, ratio bool) []result.Published {
	var some []result.Published
	for _, p := range m.Published {
		if p.IsRatio == ratio {
			some = append(some, p)
		}
	}
	return some
}

// cite returns the number of a published figure's source.
func (v *view) cite(p result.Published) int {
	s := source{p.Source, p.Conditions}
	i := slices.Index(v.sources, s)
	if i < 0 {
		i = len(v.sources)
		v.sources = append(v.sources, s)
	}
	return i + 1
}

// confidence explains the intervals of all measures.
func (v *view) confidence() string {
	low, high, few, many := 1.0, 0.0, 0, 0
	count := func(e *stats.Estimate) {
		if e == nil || e.N < 2 {
			return
		}
		low, high = min(low, e.Confidence), max(high, e.Confidence)
		if few == 0 || e.N < few {
			few = e.N
		}
		many = max(many, e.N)
	}
	for i := range v.Measures {
		count(&v.Measures[i].Value)
		count(v.Measures[i].Ratio)
	}
	if len(v.Measures) == 0 {
		return ""
	}
	if many == 0 {
		return "Each figure is a single sample, so its noise is unknown."
	}
	text := fmt.Sprintf("Figures are medians of %s samples, with the interval that contains the median with %s %% "+
		"confidence, whatever the distribution of the noise.",
		span(fmt.Sprint(few), fmt.Sprint(many)), span(fmt.Sprintf("%.0f", 100*low), fmt.Sprintf("%.0f", 100*high)))
	if low < 0.9 {
		text += " Fewer than six samples are not enough for 95 %: their interval is from the smallest to the largest."
	}
	if slices.ContainsFunc(v.Measures, func(m result.Measure) bool { return m.Ratio != nil }) {
		text += " Ratios are calculated from samples of the same round."
	}
	return text
}

func span(a, b string) string {
	if a == b {
		return a
	}
	return a + " to " + b
}

package report

import (
	"io"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/stats"
)

// Names says what people call a result's cases and metrics.
type Names struct{ v *view }

// NamesOf returns the names of a result.
func NamesOf(r *result.Result) Names { return Names{newView(r)} }

// Case names a case: "log_statement=all, clients 16".
func (n Names) Case(c result.Case) string { return n.v.caseTitle(c) }

// Cases names several cases in as few words as are exact.
func (n Names) Cases(all []result.Case) []string { return n.v.factor(all, 0) }

// Metric names a metric with its unit, or with what its ratio is to.
func (n Names) Metric(name string, ratio bool) string { return n.v.metricTitle(name, ratio) }

// Figure shows an estimate with its interval: "0.686 [0.660, 0.742]".
func Figure(e stats.Estimate, ratio bool) string {
	s := figure(e.Median, ratio)
	if r := interval(e, ratio); r != "" {
		s += " " + r
	}
	return s
}

// Number shows a figure.
func Number(v float64) string { return number(v) }

// Ratio shows a ratio.
func Ratio(v float64) string { return ratioNumber(v) }

// Wrap writes a text in lines of the terminal's width, indented below the first
// line's mark.
func (t Terminal) Wrap(w io.Writer, mark, text string) { t.wrap(w, mark, text) }

// Strong emphasizes a text where the terminal has colour.
func (t Terminal) Strong(s string) string { return t.strong(s) }

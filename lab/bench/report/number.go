// Formatting of numbers, and the names of cases and metrics for display.

package report

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// Number formats a figure with about four digits: 0.1235, 12.35, 1,235, 12.35 M.
func Number(v float64) string {
	by, unit := magnitude(v)
	return scaled(v, by) + unit
}

// magnitude returns the divisor for a large figure, and its unit prefix.
func magnitude(v float64) (by float64, unit string) {
	switch a := math.Abs(v); {
	case math.IsInf(v, 0):
		return 1, ""
	case a >= 999.95e6:
		return 1e9, " G"
	case a >= 999.95e3:
		return 1e6, " M"
	}
	return 1, ""
}

// scaled formats a figure with a given divisor, without the unit.
func scaled(v, by float64) string {
	v /= by
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case a >= 999.95:
		return humanize.Comma(int64(math.RoundToEven(v)))
	case a > 0 && a < 1e-4:
		return strconv.FormatFloat(v, 'g', 3, 64)
	default:
		return digits(v)
	}
}

// digits formats a figure below 1000: integers unchanged, others with four digits.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 99.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 9.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.99995:
		return strconv.FormatFloat(v, 'f', 3, 64)
	default:
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
}

// ratioNumber formats a ratio with three decimals, as far as they are significant.
func ratioNumber(v float64) string {
	if a := math.Abs(v); a >= 9.9995 || a < 0.0995 || math.IsNaN(v) {
		return Number(v)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// figure formats a value or a ratio.
func figure(v float64, ratio bool) string {
	if ratio {
		return ratioNumber(v)
	}
	return Number(v)
}

// interval formats an estimate's interval, in the unit of its median: "[0.98, 1.02]"; empty for a single sample.
func interval(e stats.Estimate, ratio bool) string {
	if e.N < 2 {
		return ""
	}
	if !ratio {
		by, _ := magnitude(e.Median)
		return "[" + scaled(e.Low, by) + ", " + scaled(e.High, by) + "]"
	}
	return "[" + figure(e.Low, ratio) + ", " + figure(e.High, ratio) + "]"
}

// spread formats the larger half of the interval in per cent: "±2.5 %".
func spread(e stats.Estimate) string {
	if e.N < 2 || e.Median == 0 {
		return ""
	}
	p := 100 * max(e.High-e.Median, e.Median-e.Low) / math.Abs(e.Median)
	switch {
	case math.IsNaN(p) || math.IsInf(p, 0):
		return ""
	case p == 0:
		return "±0 %"
	case p < 9.95:
		return fmt.Sprintf("±%.1f %%", p)
	default:
		return fmt.Sprintf("±%.0f %%", p)
	}
}

// tick formats a figure at an axis: 0.5, 20k, 3M.
func tick(v float64) string {
	short := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	switch a := math.Abs(v); {
	case a >= 1e9:
		return short(v/1e9) + "G"
	case a >= 1e6:
		return short(v/1e6) + "M"
	case a >= 1e4:
		return short(v/1e3) + "k"
	case a > 0 && a < 1e-4:
		return strconv.FormatFloat(v, 'g', 3, 64)
	default:
		return short(v)
	}
}

// Names provides the display names of a result's cases and metrics.
type Names struct{ v *view }

// NamesOf returns the names of a result.
func NamesOf(r *result.Result) Names { return Names{newView(r)} }

// Case returns the name of a case: "log_statement=all, clients 16".
func (n Names) Case(c result.Case) string { return n.v.caseTitle(c) }

// Cases returns exact names of several cases that are as short as possible.
func (n Names) Cases(all []result.Case) []string { return n.v.factor(all, 0) }

// Metric returns the name of a metric with its unit, or with what its ratio is relative to.
func (n Names) Metric(name string, ratio bool) string { return n.v.metricTitle(name, ratio) }

// Figure formats an estimate with its interval: "0.686 [0.660, 0.742]".
func Figure(e stats.Estimate, ratio bool) string {
	s := figure(e.Median, ratio)
	if r := interval(e, ratio); r != "" {
		s += " " + r
	}
	return s
}

// Ratio formats a ratio.
func Ratio(v float64) string { return ratioNumber(v) }

// Wrap writes a text in lines of the terminal's width, indented to the text after the mark of the first line.
func (t Terminal) Wrap(w io.Writer, mark, text string) { t.wrap(w, mark, text) }

// Strong emphasizes a text if the terminal supports colors.
func (t Terminal) Strong(s string) string { return t.strong(s) }

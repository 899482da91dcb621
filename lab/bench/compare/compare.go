// Package compare reports the differences between two results of the same bench that exceed their noise.
package compare

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/lab/bench/report"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/measure"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// fewest is the smallest number of samples of an estimate for a verdict. The ranges of two sets of three samples of
// the same distribution are disjoint with a probability of 1/10, of four samples with 1/35.
const fewest = 4

// Rule states when a figure has changed.
var Rule = fmt.Sprintf("A figure has changed if the intervals of its two medians do not overlap. There is no "+
	"verdict on fewer than %d samples.", fewest)

// Verdicts of a comparison of figures.
const (
	Same   = "same"   // the intervals overlap
	Few    = "few"    // too few samples
	Better = "better" // changed, for a metric with a known direction
	Worse  = "worse"
	Higher = "higher" // changed, for other metrics
	Lower  = "lower"
)

// Comparison is what two results have in common, and their differences.
type Comparison struct {
	Bench string `json:"bench"`
	A     Side   `json:"a"`
	B     Side   `json:"b"`
	Rule  string `json:"rule"`
	// Differences are those of machines, versions, settings and parameters, which may explain differences of figures.
	Differences []Difference `json:"differences"`
	// Figures are those in both results: first those that have changed, in descending order of the change.
	Figures []Figure `json:"figures"`
	Changed int      `json:"changed"`
	Few     int      `json:"few"` // number of figures without a verdict
	// OnlyA and OnlyB are figures that only one of the results has.
	OnlyA []string `json:"only_a,omitempty"`
	OnlyB []string `json:"only_b,omitempty"`
}

// Side describes one of the results.
type Side struct {
	Name    string `json:"name"` // its directory
	Time    string `json:"time"`
	Title   string `json:"title"`
	Warning string `json:"warning,omitempty"` // if the machine was busy
}

// Difference is a fact that differs; the value is empty if the side does not have the fact.
type Difference struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Figure is a measure that both results have.
type Figure struct {
	Case   result.Case    `json:"case"`
	Metric string         `json:"metric"`
	Ratio  bool           `json:"ratio"` // to the base of its result
	Title  string         `json:"title"` // for display
	A      stats.Estimate `json:"a"`
	B      stats.Estimate `json:"b"`
	Change *float64       `json:"change,omitempty"` // median of B divided by that of A; nil if that is 0
	// Verdict is one of the constants.
	Verdict string `json:"verdict"`
}

// Changed reports whether the verdict is a change.
func (f *Figure) Changed() bool { return f.Verdict != Same && f.Verdict != Few }

// size returns the size of a change, which is the same for half and for double.
func (f *Figure) size() float64 {
	switch {
	case f.A.Median == f.B.Median:
		return 0
	case f.Change == nil || *f.Change <= 0:
		return math.Inf(1)
	default:
		return math.Abs(math.Log(*f.Change))
	}
}

// Results compares two results, which must be from the same bench.
func Results(nameA string, a *result.Result, nameB string, b *result.Result) (*Comparison, error) {
	if a.Bench != b.Bench {
		return nil, fmt.Errorf("\"%s\" is a result of \"%s\", but \"%s\" is one of \"%s\": they cannot be compared",
			nameA, a.Bench, nameB, b.Bench)
	}
	c := &Comparison{Bench: a.Bench, Rule: Rule, A: side(nameA, a), B: side(nameB, b), Differences: differences(a, b)}
	names := report.NamesOf(a)
	sameBases := slices.Equal(a.Bases, b.Bases)
	for i := range a.Measures {
		x := &a.Measures[i]
		y := b.Find(x.Case, x.Metric)
		if y == nil {
			continue
		}
		c.add(names, a, x, false, x.Value, y.Value)
		if sameBases && x.Ratio != nil && y.Ratio != nil {
			c.add(names, a, x, true, *x.Ratio, *y.Ratio)
		}
	}
	slices.SortStableFunc(c.Figures, func(x, y Figure) int {
		if x.Changed() != y.Changed() {
			return map[bool]int{true: -1, false: 1}[x.Changed()]
		}
		switch s, t := x.size(), y.size(); {
		case s > t:
			return -1
		case s < t:
			return 1
		}
		return 0
	})
	c.OnlyA, c.OnlyB = only(a, b), only(b, a)
	return c, nil
}

func side(name string, r *result.Result) Side {
	return Side{Name: name, Time: r.Time.UTC().Format("2006-01-02 15:04 MST"), Title: r.Title,
		Warning: r.Busy.Warning()}
}

func (c *Comparison) add(names report.Names, r *result.Result, m *result.Measure, ratio bool, a, b stats.Estimate) {
	f := Figure{Case: m.Case, Metric: m.Metric, Ratio: ratio, A: a, B: b, Title: names.Metric(m.Metric, ratio)}
	if name := names.Case(m.Case); name != "" {
		f.Title += ": " + name
	}
	if a.Median != 0 {
		change := b.Median / a.Median
		f.Change = &change
	}
	f.Verdict = verdict(a, b, better(r, m.Metric))
	switch {
	case f.Verdict == Few:
		c.Few++
	case f.Changed():
		c.Changed++
	}
	c.Figures = append(c.Figures, f)
}

func better(r *result.Result, metric string) string {
	for _, m := range r.Metrics {
		if m.Name == metric {
			return m.Better
		}
	}
	return ""
}

func verdict(a, b stats.Estimate, better string) string {
	higher := b.Low > a.High
	switch {
	case min(a.N, b.N) < fewest:
		return Few
	case !higher && b.High >= a.Low:
		return Same
	case better == "":
		return map[bool]string{true: Higher, false: Lower}[higher]
	case higher == (better == "higher"):
		return Better
	default:
		return Worse
	}
}

// only lists what the first result has and the second does not: whole cases, then metrics of common cases.
func only(a, b *result.Result) []string {
	names := report.NamesOf(a)
	var cases []result.Case
	metrics := map[string][]result.Case{}
	for _, m := range a.Measures {
		has := func(c result.Case) bool { return equal(c, m.Case) }
		switch {
		case !slices.ContainsFunc(b.Measures, func(o result.Measure) bool { return has(o.Case) }):
			if !slices.ContainsFunc(cases, has) {
				cases = append(cases, m.Case)
			}
		case b.Find(m.Case, m.Metric) == nil:
			metrics[m.Metric] = append(metrics[m.Metric], m.Case)
		}
	}
	var all []string
	if cases != nil {
		all = names.Cases(cases)
	}
	for _, m := range a.Metrics {
		if c := metrics[m.Name]; c != nil {
			for _, name := range names.Cases(c) {
				all = append(all, names.Metric(m.Name, false)+" of "+name)
			}
		}
	}
	return all
}

func equal(a, b result.Case) bool { return len(a) == len(b) && a.Matches(b) }

// differences returns the facts that differ, the most important ones first.
func differences(a, b *result.Result) []Difference {
	var all []Difference
	add := func(what, x, y string) {
		if x != y {
			all = append(all, Difference{what, x, y})
		}
	}
	m, n := a.Machine, b.Machine
	add("CPU", m.CPU, n.CPU)
	add("cores", strconv.Itoa(m.Cores), strconv.Itoa(n.Cores))
	add("memory", m.Memory, n.Memory)
	add("kernel", m.Kernel, n.Kernel)
	add("system", m.System, n.System)
	add("PostgreSQL", a.Postgres, b.Postgres)
	add("steno", a.Steno, b.Steno)
	add("ratios are to", bases(a), bases(b))
	pairs(add, "", parameters(a.Parameters), parameters(b.Parameters))
	pairs(add, "", a.Settings, b.Settings)
	for _, d := range a.Dimensions {
		for _, v := range d.Values {
			if w := find(b, d.Name, v.Name); w != nil {
				pairs(add, v.Name+": ", v.Settings, w.Settings)
			}
		}
	}
	return all
}

func bases(r *result.Result) string {
	var all []string
	for _, b := range r.Bases {
		all = append(all, b.Dimension+" "+b.Value)
	}
	return strings.Join(all, ", ")
}

func parameters(all []result.Parameter) []cluster.Setting {
	var s []cluster.Setting
	for _, p := range all {
		s = append(s, cluster.Setting(p))
	}
	return s
}

// pairs compares named values; if a name occurs more than once, the last value counts.
func pairs(add func(what, a, b string), prefix string, a, b []cluster.Setting) {
	value := func(all []cluster.Setting, name string) string {
		for _, s := range slices.Backward(all) {
			if s.Name == name {
				return s.Value
			}
		}
		return ""
	}
	seen := map[string]bool{}
	for _, s := range slices.Concat(a, b) {
		if !seen[s.Name] {
			seen[s.Name] = true
			add(prefix+s.Name, value(a, s.Name), value(b, s.Name))
		}
	}
}

func find(r *result.Result, dimension, value string) *result.Value {
	for _, d := range r.Dimensions {
		if d.Name != dimension {
			continue
		}
		for i := range d.Values {
			if d.Values[i].Name == value {
				return &d.Values[i]
			}
		}
	}
	return nil
}

// Options are the options of a comparison, and the directories of the two results.
type Options struct {
	measure.Environment
	A, B   string
	Format string
	All    bool
}

// New returns the comparison.
func New(e measure.Environment) *Options { return &Options{Environment: e} }

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	measure.AddFormat(flags, &o.Format)
	flags.BoolVar(&o.All, "all", false, "show unchanged figures, too; json always has them")
}

// Complete checks the flags.
func (o *Options) Complete(func(flag string) bool) error { return iostreams.CheckFormat(o.Format) }

// Run compares the results and writes the comparison.
func (o *Options) Run(context.Context) error {
	a, err := read(o.A)
	if err != nil {
		return err
	}
	b, err := read(o.B)
	if err != nil {
		return err
	}
	c, err := Results(o.A, a, o.B, b)
	if err != nil {
		return err
	}
	if o.Format == "json" {
		return json.NewEncoder(o.IO.Out).Encode(c)
	}
	w := bufio.NewWriter(o.IO.Out)
	c.Text(w, report.Terminal{Width: 100, Color: o.IO.ColorEnabled()}, o.All)
	return w.Flush()
}

// read reads the result in a directory.
func read(dir string) (*result.Result, error) {
	r, err := result.Read(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no result.json in \"%s\"", dir)
	}
	return r, err
}

// Text writes a comparison as text: the differences between the runs, then the figures that have changed, or all
// figures.
func (c *Comparison) Text(w io.Writer, t report.Terminal, all bool) {
	for i, s := range []Side{c.A, c.B} {
		t.Wrap(w, string(rune('A'+i))+"  ", fmt.Sprintf("%s: %s, %s", s.Name, s.Title, s.Time))
		if s.Warning != "" {
			t.Wrap(w, "   ", s.Warning)
		}
	}
	c.differences(w, t)
	fmt.Fprintln(w)
	t.Wrap(w, "", c.sentence())
	for i := range c.Figures {
		if f := &c.Figures[i]; f.Changed() || all {
			if i == 0 {
				fmt.Fprintln(w)
			}
			c.figure(w, t, f)
		}
	}
	for i, only := range [][]string{c.OnlyA, c.OnlyB} {
		if len(only) > 0 {
			fmt.Fprintf(w, "\n%s\n", t.Strong("Only in "+string(rune('A'+i))))
			for _, name := range only {
				t.Wrap(w, "- ", name)
			}
		}
	}
	fmt.Fprintln(w)
	t.Wrap(w, "", c.Rule)
}

func (c *Comparison) differences(w io.Writer, t report.Terminal) {
	if len(c.Differences) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", t.Strong("Other differences"))
	shown := func(s string) string {
		if s == "" {
			return "(none)"
		}
		return s
	}
	for _, d := range c.Differences {
		t.Wrap(w, "- ", fmt.Sprintf("%s: %s → %s", d.What, shown(d.A), shown(d.B)))
	}
}

// sentence returns a summary.
func (c *Comparison) sentence() string {
	judged := len(c.Figures) - c.Few
	few := ""
	if c.Few > 0 {
		few = fmt.Sprintf("; %d more with too few samples", c.Few)
	}
	switch {
	case len(c.Figures) == 0:
		return "The two results have no figures in common."
	case judged == 0:
		return "No figure has enough samples to say whether it changed."
	case c.Changed == 0:
		return fmt.Sprintf("Nothing changed beyond noise: %s%s.", render.Plural(judged, "figure"), few)
	default:
		return fmt.Sprintf("%d of %s changed beyond noise from A to B%s.", c.Changed, render.Plural(judged, "figure"), few)
	}
}

const (
	green = "\x1b[32m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

// figure writes two lines: the change of a figure, and both estimates.
func (c *Comparison) figure(w io.Writer, t report.Terminal, f *Figure) {
	change := "-"
	if f.Change != nil {
		change = "×" + report.Ratio(*f.Change)
	}
	verdict := fmt.Sprintf("%-6s", map[string]string{Same: "noise", Few: "?"}[f.Verdict])
	if f.Changed() {
		verdict = fmt.Sprintf("%-6s", f.Verdict)
	}
	if color := map[string]string{Better: green, Worse: red}[f.Verdict]; t.Color && color != "" {
		verdict = color + verdict + reset
	}
	fmt.Fprintf(w, "%s %s %s\n", pad(change, 8), verdict, f.Title)
	fmt.Fprintf(w, "                %s → %s\n", report.Figure(f.A, f.Ratio), report.Figure(f.B, f.Ratio))
}

func pad(s string, width int) string {
	for n := len([]rune(s)); n < width; n++ {
		s = " " + s
	}
	return s
}

// The common part of both kinds of charts: panels with their measures, and the marks of published figures.

package report

import (
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/page"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// panel is a chart with its measures: one for each combination of the dimensions that the chart does not mention.
type panel struct {
	title  string
	chart  *result.Chart
	groups []group // along the axis
	series []entry // distinguished by color; one without a name if there is no such dimension
	base   string  // what ratios are relative to
	axis   string  // the axis of values
	x      string  // the other one
	all    []float64
}

// entry is a value of a dimension.
type entry struct {
	name, title string
	class       string // its color: c0 of the base, c1 to c8
	shape       int
}

// group has the points at one place of the axis, one for each series.
type group struct {
	entry
	position float64 // on the axis of a line chart
	points   []*point
}

// point is a measure, or nil where there is none.
type point struct {
	estimate  stats.Estimate
	published []float64
	title     string // details, for a tooltip
}

const colors = 8

// panels returns the panels of a chart.
func (v *view) panels(c *result.Chart) []*panel {
	said := []string{c.X}
	if c.Series != "" {
		said = append(said, c.Series)
	}
	var several []*result.Measure
	for _, x := range v.combinations([]string{c.Metric}, said, c.Where) {
		_, found := v.find(merge(c.Where, x), c.Metric)
		several = append(several, found...)
	}
	where := merge(c.Where, result.Case{c.X: "", c.Series: ""})
	free := v.free(several, where)
	var panels []*panel
	for _, f := range v.combinations([]string{c.Metric}, free, c.Where) {
		if p := v.panel(c, merge(c.Where, f)); p != nil {
			p.title = v.caseTitle(f)
			panels = append(panels, p)
		}
	}
	// All panels have the same scale, so that they can be compared.
	var all []float64
	for _, p := range panels {
		all = append(all, p.all...)
	}
	for _, p := range panels {
		p.all = all
	}
	return panels
}

func (v *view) panel(c *result.Chart, where result.Case) *panel {
	p := &panel{chart: c, axis: v.metricTitle(c.Metric, c.Ratio), x: v.dimensionTitle(c.X)}
	if c.Ratio {
		p.base = v.baseTitle(c.Metric)
	}
	switch v.metric(c.Metric).Better {
	case "higher":
		p.axis += "; higher is better"
	case "lower":
		p.axis += "; lower is better"
	}
	p.series = []entry{{class: "c1"}}
	if c.Series != "" {
		p.series = v.entries(c.Metric, c.Series, where)
	}
	for _, x := range v.entries(c.Metric, c.X, where) {
		g := group{entry: x}
		for _, s := range p.series {
			at := result.Case{c.X: x.name}
			if c.Series != "" {
				at[c.Series] = s.name
			}
			g.points = append(g.points, v.point(p, merge(where, at)))
		}
		if slices.ContainsFunc(g.points, func(p *point) bool { return p != nil }) {
			p.groups = append(p.groups, g)
		}
	}
	if p.groups == nil {
		return nil
	}
	if c.Series == "" && v.baseOf(c.X) == "" {
		for i := range p.groups {
			p.groups[i].class = "c1"
		}
	}
	place(p.groups)
	return p
}

// entries returns the values of a dimension that a metric was measured with. A value has the same color in all charts.
func (v *view) entries(metric, dimension string, where result.Case) []entry {
	var all []entry
	for _, c := range v.combinations([]string{metric}, []string{dimension}, where) {
		name := c[dimension]
		e := entry{name: name, title: v.title(dimension, name), shape: v.rank(dimension, name)}
		color := e.shape
		if base := v.baseOf(dimension); base != "" {
			if base := v.rank(dimension, base); color == base {
				color = -1
			} else if color > base {
				color--
			}
		}
		e.class = "c0"
		if color >= 0 {
			e.class = "c" + strconv.Itoa(color%colors+1)
		}
		all = append(all, e)
	}
	return all
}

func (v *view) point(p *panel, c result.Case) *point {
	m, _ := v.find(c, p.chart.Metric)
	e := v.estimate(m, p.chart.Ratio)
	if e == nil || math.IsNaN(e.Median) {
		return nil
	}
	x := &point{estimate: *e, title: v.caseTitle(c) + ": " + figure(e.Median, p.chart.Ratio)}
	if unit := v.metric(p.chart.Metric).Unit; unit != "" && !p.chart.Ratio {
		x.title += " " + unit
	}
	if text := interval(*e, p.chart.Ratio); text != "" {
		x.title += " " + text + ", " + strconv.Itoa(e.N) + " samples"
	}
	p.all = append(p.all, e.Median, e.Low, e.High)
	for _, f := range published(m, p.chart.Ratio) {
		x.published = append(x.published, f.Value)
		x.title += "; published " + figure(f.Value, p.chart.Ratio) + " (" + f.Source + ")"
		p.all = append(p.all, f.Value)
	}
	return x
}

// scale returns the axis of values.
func (p *panel) scale() page.Scale {
	all := p.all
	if p.chart.Ratio {
		all = append(slices.Clone(all), 1)
	}
	return page.NewScale(all, p.chart.Log)
}

func (p *panel) hasPublished() bool {
	for _, g := range p.groups {
		for _, x := range g.points {
			if x != nil && x.published != nil {
				return true
			}
		}
	}
	return false
}

func (p *panel) hasIntervals() bool {
	for _, g := range p.groups {
		for _, x := range g.points {
			if x != nil && x.estimate.N > 1 {
				return true
			}
		}
	}
	return false
}

var sizeName = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([kKMG]?)i?B?$`)

// place sets the positions of the groups of lines between 0 and 1: according to the numbers in their names, on a
// logarithmic axis if these are far apart; otherwise at equal distances.
func place(groups []group) {
	numbers := make([]float64, len(groups))
	for i, g := range groups {
		m := sizeName.FindStringSubmatch(g.name)
		if m == nil {
			numbers = nil
			break
		}
		n, _ := strconv.ParseFloat(m[1], 64)
		numbers[i] = n * map[string]float64{"": 1, "k": 1e3, "K": 1024, "M": 1 << 20, "G": 1 << 30}[m[2]]
		if i > 0 && numbers[i] <= numbers[i-1] {
			numbers = nil
			break
		}
	}
	if numbers == nil || len(groups) < 3 {
		for i := range groups {
			groups[i].position = (float64(i) + 0.5) / float64(len(groups))
		}
		return
	}
	first, last := numbers[0], numbers[len(numbers)-1]
	s := page.Scale{Low: first, High: last, Log: first > 0 && last/first >= 8, From: 0.04, To: 0.96}
	for i := range groups {
		groups[i].position = s.At(numbers[i])
	}
}

// diamond draws the mark of a published figure.
func diamond(d *page.Drawing, x, y float64) {
	d.Path("pub", "M"+page.Coordinate(x)+" "+page.Coordinate(y-6)+"l6 6l-6 6l-6-6z")
}

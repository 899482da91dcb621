// The common part of both kinds of charts: panels with their measures, scales, and the elements of SVG.

package report

import (
	"html"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
func (p *panel) scale() scale {
	all := p.all
	if p.chart.Ratio {
		all = append(slices.Clone(all), 1)
	}
	return newScale(all, p.chart.Log)
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
	s := scale{low: first, high: last, log: first > 0 && last/first >= 8, from: 0.04, to: 0.96}
	for i := range groups {
		groups[i].position = s.at(numbers[i])
	}
}

// drawing is the contents of an SVG image.
type drawing struct{ strings.Builder }

func coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// tag writes an element; its class is followed by alternating names and values of its coordinates: tag("line", "grid",
// "x1", 1, ...).
func (d *drawing) tag(name, class string, places ...any) {
	d.WriteString("<" + name + ` class="` + class + `"`)
	for i := 0; i < len(places); i += 2 {
		value := ""
		switch x := places[i+1].(type) {
		case float64:
			value = coordinate(x)
		case string:
			value = x
		}
		d.WriteString(" " + places[i].(string) + `="` + value + `"`)
	}
	d.WriteString("/>")
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.tag("line", class, "x1", x1, "y1", y1, "x2", x2, "y2", y2)
}

func (d *drawing) rect(class string, x, y, width, height float64) {
	d.tag("rect", class, "x", x, "y", y, "width", width, "height", height, "rx", 1.5)
}

// text writes a text that starts, ends or is centered at x.
func (d *drawing) text(class string, x, y float64, s string) {
	d.WriteString(`<text class="` + class + `" x="` + coordinate(x) + `" y="` + coordinate(y) + `">` +
		html.EscapeString(s) + `</text>`)
}

// begin begins the group of a mark, with its tooltip.
func (d *drawing) begin(class, title string) {
	d.WriteString(`<g class="m ` + class + `"><title>` + html.EscapeString(title) + `</title>`)
}

func (d *drawing) end() { d.WriteString("</g>") }

// diamond draws the mark of a published figure.
func (d *drawing) diamond(x, y float64) {
	d.tag("path", "pub", "d", "M"+coordinate(x)+" "+coordinate(y-6)+"l6 6l-6 6l-6-6z")
}

// textWidth estimates the maximum width of a text in common sans-serif fonts of this size.
func textWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("iljtfrI.,:;'|!()[] ", r):
			w += 0.37
		case strings.ContainsRune("mwMW@%<>=+~#&", r):
			w += 0.97
		case r >= 'A' && r <= 'Z':
			w += 0.71
		default:
			w += 0.62
		}
	}
	return w * size
}

// shortened truncates a text to a width.
func shortened(s string, size, width float64) string {
	if textWidth(s, size) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 1 && textWidth(string(runes)+"…", size) > width {
		runes = runes[:len(runes)-1]
	}
	return strings.TrimRight(string(runes), " ,") + "…"
}

// svg returns an image of this size with a drawing.
func (d *drawing) svg(class, label string, width, height float64) string {
	return `<svg xmlns="http://www.w3.org/2000/svg" class="` + class +
		`" viewBox="0 0 ` + coordinate(width) + " " + coordinate(height) +
		`" role="img" aria-label="` + html.EscapeString(label) + `">` + d.String() + "</svg>"
}

// scale is an axis: values and their positions.
type scale struct {
	low, high float64 // values at the ends
	log       bool
	from, to  float64 // positions of the ends
	ticks     []float64
}

// at returns the position of a value; values beyond the axis are drawn at its end.
func (s *scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	}
	share := (v - low) / (high - low)
	if math.IsNaN(share) {
		share = 0
	}
	return s.from + min(max(share, 0), 1)*(s.to-s.from)
}

// newScale returns an axis with round bounds that contains the values. Linear ones begin at zero unless there are
// negative values; logarithmic ones ignore values without a logarithm.
func newScale(values []float64, log bool) scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
			continue
		}
		low, high = min(low, v), max(high, v)
	}
	if log {
		return logScale(low, high)
	}
	return linearScale(min(low, 0), max(high, 0))
}

func linearScale(low, high float64) scale {
	if high <= low {
		high = low + 1
	}
	step := roundUp((high - low) / 5)
	s := scale{low: math.Floor(low/step) * step, high: math.Ceil(high/step-1e-9) * step}
	for i := range int(math.Round((s.high-s.low)/step)) + 1 {
		s.ticks = append(s.ticks, s.low+float64(i)*step)
	}
	return s
}

// roundUp returns the next number that is 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// roundDown returns the largest number not above v that is 1, 2 or 5 times a power of ten.
func roundDown(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, m := range []float64{5, 2} {
		if v >= m*power*(1-1e-9) {
			return m * power
		}
	}
	return power
}

func logScale(low, high float64) scale {
	if math.IsInf(low, 0) {
		low, high = 1, 10
	}
	s := scale{low: roundDown(low), high: roundUp(high), log: true}
	if s.low == s.high {
		s.high *= 10
	}
	decades := math.Log10(s.high / s.low)
	steps := []float64{1}
	if decades < 3 {
		steps = []float64{1, 2, 5}
	}
	every := max(1, int(decades)/6)
	first := int(math.Floor(math.Log10(s.low) + 1e-9))
	for i := 0; i <= int(decades)+2; i += every {
		for _, m := range steps {
			if v := m * math.Pow(10, float64(first+i)); v >= s.low*(1-1e-9) && v <= s.high*(1+1e-9) {
				s.ticks = append(s.ticks, v)
			}
		}
	}
	return s
}

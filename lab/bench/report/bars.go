// Charts of horizontal bars, with intervals and published figures.

package report

import (
	"slices"

	"github.com/pg-steno/pg_steno/internal/page"
)

// Sizes of charts, in their own units, which are pixels if there is enough space.
const (
	wide   = 860
	narrow = 360
	small  = 12 // size of texts except titles
)

// bars draws a panel as horizontal bars, so that their names can be long; in a narrow chart the names are above the
// bars.
func (p *panel) bars(d *page.Drawing, width float64) (height float64) {
	b := &barPicture{panel: p, Drawing: d, width: width, scale: p.scale()}
	b.measure()
	b.y = 6
	if p.base != "" {
		b.y += 16
	}
	top := b.y
	// The axis is below the bars; it is drawn first, once their length is known.
	bottom := top + b.height()
	b.axis(top, bottom)
	for _, g := range p.groups {
		b.group(g)
	}
	return bottom + 40
}

type barPicture struct {
	*panel
	*page.Drawing
	width  float64
	scale  page.Scale
	y      float64
	gutter float64 // for names
	right  float64 // for figures
	short  bool    // the groups' names need the name of the axis to be understood
}

func (b *barPicture) narrow() bool { return b.width < 600 }

// label returns the figure at the end of a bar.
func (b *barPicture) label(x *point) string {
	if x.estimate == one {
		return "1"
	}
	s := figure(x.estimate.Median, b.chart.Ratio)
	if r := interval(x.estimate, b.chart.Ratio); r != "" && !b.narrow() {
		s += " " + r
	}
	return s
}

func (b *barPicture) measure() {
	b.short = !slices.ContainsFunc(b.groups, func(g group) bool { return page.TextWidth(g.title, small) >= 60 })
	for _, g := range b.groups {
		for i, x := range g.points {
			if x == nil {
				continue
			}
			b.right = max(b.right, page.TextWidth(b.label(x), small)+14)
			if !b.narrow() {
				b.gutter = max(b.gutter, page.TextWidth(b.name(g, i), small)+14)
			}
		}
	}
	b.gutter = min(b.gutter, 0.32*b.width)
	b.scale.From, b.scale.To = b.gutter+2, b.width-max(b.right, 24)
}

// name returns the name of a bar: its series, or its group if there are no series.
func (b *barPicture) name(g group, i int) string {
	if b.chart.Series == "" {
		return g.title
	}
	return b.series[i].title
}

func (b *barPicture) rowHeight() float64 {
	if b.narrow() {
		return 36
	}
	return 25
}

func (b *barPicture) height() float64 {
	h := 0.0
	for _, g := range b.groups {
		if b.chart.Series != "" {
			h += 30
		}
		for _, x := range g.points {
			if x != nil {
				h += b.rowHeight()
			}
		}
	}
	return h + 4
}

func (b *barPicture) axis(top, bottom float64) {
	last := -1e9
	for _, v := range b.scale.Ticks {
		x := b.scale.At(v)
		b.Line("grid", x, top, x, bottom)
		s := tick(v)
		if half := page.TextWidth(s, small) / 2; x-half > last+6 {
			b.Text("t mid", max(x, half), bottom+16, s)
			last = x + half
		}
	}
	b.Text("t end", b.width-2, bottom+34, page.Truncate(b.panel.axis, small, b.width-8))
	if b.chart.Ratio {
		x := b.scale.At(1)
		b.Line("one", x, top-4, x, bottom)
		if b.base != "" {
			s := page.Truncate("1 = "+b.base, small, b.width/2)
			half := page.TextWidth(s, small) / 2
			b.Text("t mid", min(max(x, half+2), b.width-half-2), top-9, s)
		}
	}
}

func (b *barPicture) group(g group) {
	if b.chart.Series != "" {
		name := g.title
		if b.short {
			name = b.x + " " + name
		}
		b.Text("h", 2, b.y+20, page.Truncate(name, small+1, b.width-4))
		b.y += 30
	}
	for i, x := range g.points {
		if x != nil {
			class := b.series[i].class
			if b.chart.Series == "" {
				class = g.class
			}
			b.bar(x, class, b.name(g, i))
		}
	}
}

// bar draws one bar with its interval, published figures and label. A bar on a logarithmic axis cannot begin at zero:
// ratios begin at 1, and for other figures only the end is drawn.
func (b *barPicture) bar(x *point, class, name string) {
	height, y := 17.0, b.y+4
	b.Begin("m "+class, x.title)
	if b.narrow() {
		b.Text("n", 2, y+9, page.Truncate(name, small, b.width-4))
		height, y = 14, y+14
	} else {
		b.Text("n end", b.gutter-8, y+13, page.Truncate(name, small, b.gutter-10))
	}
	middle := y + height/2
	from, to := b.scale.At(0), b.scale.At(x.estimate.Median)
	dot := b.scale.Log && !b.chart.Ratio
	if dot {
		b.Line("guide", b.scale.From, middle, to, middle)
		from = to
	} else {
		if b.scale.Log {
			from = b.scale.At(1)
		}
		b.Rect("f", min(from, to), y, max(from, to)-min(from, to), height)
	}
	end := max(to, from)
	if x.estimate.N > 1 {
		low, high := b.scale.At(x.estimate.Low), b.scale.At(x.estimate.High)
		whisker(b.Drawing, low, high, middle)
		end = max(end, high)
	}
	if dot {
		b.Element("circle", "f", "cx", to, "cy", middle, "r", 5.5)
		end = max(end, to+4)
	}
	for _, v := range x.published {
		diamond(b.Drawing, b.scale.At(v), middle)
		end = max(end, b.scale.At(v)+6)
	}
	b.Text("v", end+7, middle+4.5, b.label(x))
	b.End()
	b.y += b.rowHeight()
}

// whisker draws an interval, with an outline that keeps it visible on any color.
func whisker(d *page.Drawing, low, high, y float64) {
	for _, class := range []string{"rim", "whisker"} {
		d.Line(class, low, y, high, y)
		d.Line(class, low, y-4, low, y+4)
		d.Line(class, high, y-4, high, y+4)
	}
}

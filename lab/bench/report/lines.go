// Charts of lines, with intervals as bands.

package report

import (
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/page"
)

// lines draws a panel as a line for each series, with the intervals as bands.
func (p *panel) lines(d *page.Drawing, width float64) (height float64) {
	l := &linePicture{panel: p, Drawing: d, width: width, scale: p.scale(), right: width - 10}
	top, bottom := 30.0, 340.0
	if l.narrow() || p.title != "" {
		bottom = 270
	}
	l.scale.From, l.scale.To = bottom, top
	l.left = 12
	for _, v := range l.scale.Ticks {
		l.left = max(l.left, page.TextWidth(tick(v), small)+12)
	}
	if !l.narrow() && p.chart.Series != "" {
		for _, s := range p.series {
			l.labels = max(l.labels, page.TextWidth(s.title, small)+30)
		}
		l.labels = min(l.labels, 0.28*width)
		l.right -= l.labels
	}
	l.axes(bottom)
	for i := range p.series {
		l.band(i)
	}
	for i := range p.series {
		l.series(i)
	}
	if l.labels > 0 {
		l.direct()
	}
	return bottom + 46
}

type linePicture struct {
	*panel
	*page.Drawing
	width       float64
	scale       page.Scale
	left, right float64
	labels      float64 // room at the right end for the series' names
}

func (l *linePicture) narrow() bool { return l.width < 600 }

func (l *linePicture) x(g group) float64 { return l.left + g.position*(l.right-l.left) }

func (l *linePicture) axes(bottom float64) {
	l.Text("t", 2, 12, page.Truncate(l.panel.axis, small, l.width-4))
	for _, v := range l.scale.Ticks {
		y := l.scale.At(v)
		l.Line("grid", l.left, y, l.right, y)
		l.Text("t end", l.left-6, y+4, tick(v))
	}
	l.Line("axis", l.left, bottom, l.right, bottom)
	last := -1e9
	for _, g := range l.groups {
		x, half := l.x(g), page.TextWidth(g.title, small)/2
		l.Line("axis", x, bottom, x, bottom+4)
		if x-half > last+6 && x+half < l.width {
			l.Text("t mid", x, bottom+18, g.title)
			last = x + half
		}
	}
	l.Text("t mid", (l.left+l.right)/2, bottom+38, page.Truncate(l.panel.x, small, l.right-l.left))
	if l.chart.Ratio {
		y := l.scale.At(1)
		l.Line("one", l.left, y, l.right, y)
		if l.base != "" {
			l.Text("t", l.left+4, y-5, page.Truncate("1 = "+l.base, small, (l.right-l.left)/2))
		}
	}
}

// runs returns the contiguous parts of a series.
func (l *linePicture) runs(i int) [][]int {
	var runs [][]int
	var run []int
	for j, g := range l.groups {
		if g.points[i] != nil {
			run = append(run, j)
			continue
		}
		if run != nil {
			runs, run = append(runs, run), nil
		}
	}
	if run != nil {
		runs = append(runs, run)
	}
	return runs
}

func (l *linePicture) path(class string, corners []string, closed bool) {
	if len(corners) < 2 {
		return
	}
	d := "M" + strings.Join(corners, "L")
	if closed {
		d += "z"
	}
	l.Path(class, d)
}

func (l *linePicture) corner(j int, value float64) string {
	return page.Coordinate(l.x(l.groups[j])) + " " + page.Coordinate(l.scale.At(value))
}

func (l *linePicture) band(i int) {
	for _, run := range l.runs(i) {
		var high, low []string
		for _, j := range run {
			e := l.groups[j].points[i].estimate
			high, low = append(high, l.corner(j, e.High)), append(low, l.corner(j, e.Low))
		}
		if len(run) > 1 {
			slices.Reverse(low)
			class := "band "
			if len(l.panel.series) > 4 {
				class = "band thin "
			}
			l.path(class+l.panel.series[i].class, append(high, low...), true)
		}
	}
}

func (l *linePicture) series(i int) {
	s := l.panel.series[i]
	for _, run := range l.runs(i) {
		var middle []string
		for _, j := range run {
			middle = append(middle, l.corner(j, l.groups[j].points[i].estimate.Median))
		}
		l.path("line "+s.class, middle, false)
	}
	for j, g := range l.groups {
		x := g.points[i]
		if x == nil {
			continue
		}
		l.Begin("m "+s.class, x.title)
		at, y := l.x(l.groups[j]), l.scale.At(x.estimate.Median)
		if x.estimate.N > 1 {
			l.Line("stem", at, l.scale.At(x.estimate.Low), at, l.scale.At(x.estimate.High))
		}
		marker(l.Drawing, s.shape, at, y)
		for _, v := range x.published {
			diamond(l.Drawing, at, l.scale.At(v))
		}
		l.Element("circle", "hit", "cx", at, "cy", y, "r", 12.0)
		l.End()
	}
}

// markers are the shapes of points, centered at 0, so that series are not distinguished by color alone.
var markers = []string{
	"M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", "M-4-4h8v8h-8z", "M0-5.5l5 9h-10z", "M0 5.5l5-9h-10z",
	"M-1.5-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z", "M-2.5-5h5v10h-5z", "M-5-2.5h10v5h-10z",
}

func marker(d *page.Drawing, shape int, x, y float64) {
	// When colors repeat, the shapes are different.
	shape += shape / colors
	d.Element("path", "f", "d", markers[shape%len(markers)],
		"transform", "translate("+page.Coordinate(x)+" "+page.Coordinate(y)+")")
}

// direct writes the series' names beside the right end, without overlaps; the names of series that end before it are
// at their last points.
func (l *linePicture) direct() {
	type label struct {
		series int
		y      float64
	}
	var all []label
	for i := range l.panel.series {
		runs := l.runs(i)
		if runs == nil {
			continue
		}
		run := runs[len(runs)-1]
		g := l.groups[run[len(run)-1]]
		if y := l.scale.At(g.points[i].estimate.Median); run[len(run)-1] == len(l.groups)-1 {
			all = append(all, label{i, y})
		} else {
			s := l.panel.series[i].title
			l.Text("n", l.x(g)+10, y+4, page.Truncate(s, small, l.right-l.x(g)-10))
		}
	}
	slices.SortStableFunc(all, func(a, b label) int { return int(a.y - b.y) })
	const apart = 15
	for i := 1; i < len(all); i++ {
		all[i].y = max(all[i].y, all[i-1].y+apart)
	}
	if n := len(all); n > 0 {
		all[n-1].y = min(all[n-1].y, l.scale.From)
		for i := n - 2; i >= 0; i-- {
			all[i].y = min(all[i].y, all[i+1].y-apart)
		}
	}
	for _, a := range all {
		s := l.panel.series[a.series]
		l.Begin("m "+s.class, s.title)
		marker(l.Drawing, s.shape, l.right+13, a.y)
		l.Text("n", l.right+23, a.y+4, page.Truncate(s.title, small, l.labels-24))
		l.End()
	}
}

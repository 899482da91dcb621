// Charts of lines, with intervals as bands.

package report

import (
	"slices"
	"strings"
)

// lines draws a panel as a line for each series, with the intervals as bands.
func (p *panel) lines(width float64) (d *drawing, height float64) {
	d = &drawing{}
	l := &linePicture{panel: p, drawing: d, width: width, scale: p.scale(), right: width - 10}
	top, bottom := 30.0, 340.0
	if l.narrow() || p.title != "" {
		bottom = 270
	}
	l.scale.from, l.scale.to = bottom, top
	l.left = 12
	for _, v := range l.scale.ticks {
		l.left = max(l.left, textWidth(tick(v), small)+12)
	}
	if !l.narrow() && p.chart.Series != "" {
		for _, s := range p.series {
			l.labels = max(l.labels, textWidth(s.title, small)+30)
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
	return d, bottom + 46
}

type linePicture struct {
	*panel
	*drawing
	width       float64
	scale       scale
	left, right float64
	labels      float64 // room at the right end for the series' names
}

func (l *linePicture) narrow() bool { return l.width < 600 }

func (l *linePicture) x(g group) float64 { return l.left + g.position*(l.right-l.left) }

func (l *linePicture) axes(bottom float64) {
	l.text("t", 2, 12, shortened(l.panel.axis, small, l.width-4))
	for _, v := range l.scale.ticks {
		y := l.scale.at(v)
		l.line("grid", l.left, y, l.right, y)
		l.text("t end", l.left-6, y+4, tick(v))
	}
	l.line("axis", l.left, bottom, l.right, bottom)
	last := -1e9
	for _, g := range l.groups {
		x, half := l.x(g), textWidth(g.title, small)/2
		l.line("axis", x, bottom, x, bottom+4)
		if x-half > last+6 && x+half < l.width {
			l.text("t mid", x, bottom+18, g.title)
			last = x + half
		}
	}
	l.text("t mid", (l.left+l.right)/2, bottom+38, shortened(l.panel.x, small, l.right-l.left))
	if l.chart.Ratio {
		y := l.scale.at(1)
		l.line("one", l.left, y, l.right, y)
		if l.base != "" {
			l.text("t", l.left+4, y-5, shortened("1 = "+l.base, small, (l.right-l.left)/2))
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
	l.tag("path", class, "d", d)
}

func (l *linePicture) corner(j int, value float64) string {
	return coordinate(l.x(l.groups[j])) + " " + coordinate(l.scale.at(value))
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
		l.begin(s.class, x.title)
		at, y := l.x(l.groups[j]), l.scale.at(x.estimate.Median)
		if x.estimate.N > 1 {
			l.line("stem", at, l.scale.at(x.estimate.Low), at, l.scale.at(x.estimate.High))
		}
		l.marker(s.shape, at, y)
		for _, v := range x.published {
			l.diamond(at, l.scale.at(v))
		}
		l.tag("circle", "hit", "cx", at, "cy", y, "r", 12.0)
		l.end()
	}
}

// markers are the shapes of points, centered at 0, so that series are not distinguished by color alone.
var markers = []string{
	"M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", "M-4-4h8v8h-8z", "M0-5.5l5 9h-10z", "M0 5.5l5-9h-10z",
	"M-1.5-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z", "M-2.5-5h5v10h-5z", "M-5-2.5h10v5h-10z",
}

func (d *drawing) marker(shape int, x, y float64) {
	// When colors repeat, the shapes are different.
	shape += shape / colors
	d.tag("path", "f", "d", markers[shape%len(markers)], "transform", "translate("+coordinate(x)+" "+coordinate(y)+")")
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
		if y := l.scale.at(g.points[i].estimate.Median); run[len(run)-1] == len(l.groups)-1 {
			all = append(all, label{i, y})
		} else {
			s := l.panel.series[i].title
			l.text("n", l.x(g)+10, y+4, shortened(s, small, l.right-l.x(g)-10))
		}
	}
	slices.SortStableFunc(all, func(a, b label) int { return int(a.y - b.y) })
	const apart = 15
	for i := 1; i < len(all); i++ {
		all[i].y = max(all[i].y, all[i-1].y+apart)
	}
	if n := len(all); n > 0 {
		all[n-1].y = min(all[n-1].y, l.scale.from)
		for i := n - 2; i >= 0; i-- {
			all[i].y = min(all[i].y, all[i+1].y-apart)
		}
	}
	for _, a := range all {
		s := l.panel.series[a.series]
		l.begin(s.class, s.title)
		l.marker(s.shape, l.right+13, a.y)
		l.text("n", l.right+23, a.y+4, shortened(s.title, small, l.labels-24))
		l.end()
	}
}

// Charts: strips of bars over time, and the hours of a week.

package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/page"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
)

// Chart is strips with a common time axis, or the hours of a week.
type Chart struct {
	Title  string        `json:"title"`
	From   []string      `json:"from,omitempty"` // when each part of the period begins
	Strips []Strip       `json:"strips,omitempty"`
	Hours  *[7][24]int64 `json:"hours,omitempty"` // from Monday and 00:00 on

	bounds []int64
	width  time.Duration
	zone   *time.Location
}

// Strip is a row of bars, one for each part of the period, with a scale of its own.
type Strip struct {
	Name   string  `json:"name"`
	Values []int64 `json:"values"`
	Total  int64   `json:"total"`
	Alarm  bool    `json:"-"`
	Tall   bool    `json:"-"`
}

// Every returns the length of time that each bar stands for.
func (c *Chart) Every() string {
	switch d := c.width; {
	case d >= 24*time.Hour:
		return render.Plural(d/(24*time.Hour), "day")
	case d >= time.Hour:
		return render.Plural(d/time.Hour, "hour")
	case d >= time.Minute:
		return render.Plural(d/time.Minute, "minute")
	default:
		return render.Plural(d/time.Second, "second")
	}
}

// Picture returns the chart as a picture.
func (c Chart) Picture() template.HTML {
	draw := c.drawStrips
	if c.Hours != nil {
		draw = c.drawHours
	}
	return page.Chart(c.describe(), 1120, 340, draw)
}

// describe returns the picture in words, for screen readers.
func (c *Chart) describe() string {
	s := c.Title
	for i := range c.Strips {
		s += fmt.Sprintf("; %s: %s in all, at most %s in %s", c.Strips[i].Name, humanize.Comma(c.Strips[i].Total),
			humanize.Comma(highest(c.Strips[i].Values)), c.Every())
	}
	return s
}

func highest(values []int64) (high int64) {
	for _, v := range values {
		high = max(high, v)
	}
	return high
}

// stripPicture is a picture of strips while it is drawn.
type stripPicture struct {
	*Chart
	*page.Drawing
	time        page.Scale
	width       float64
	left, right float64 // ends of the bars
	narrow      bool
	y           float64
}

func (c *Chart) drawStrips(d *page.Drawing, width float64) (height float64) {
	p := &stripPicture{Chart: c, Drawing: d, width: width, left: 132, right: width - 148, narrow: width < 600, y: 14}
	if p.narrow {
		p.left, p.right = 0, width
	} else {
		p.Text("end t", width-70, 8, "in all")
		p.Text("end t", width, 8, "peak")
	}
	p.time = page.Scale{Low: float64(c.bounds[0]), High: float64(c.bounds[len(c.bounds)-1]), From: p.left, To: p.right}
	for i := range c.Strips {
		p.strip(&c.Strips[i])
	}
	p.ticks()
	return p.y + 14
}

func (p *stripPicture) strip(s *Strip) {
	high, height := highest(s.Values), 24.0
	if s.Tall {
		height = 108
	}
	if p.narrow {
		p.Text("", 0, p.y, s.Name)
		p.Text("end", p.width, p.y, humanize.Comma(s.Total))
		p.y += 6
	} else {
		p.Text("", 0, p.y+height-3, s.Name)
		p.Text("end", p.width-70, p.y+height-3, humanize.Comma(s.Total))
		p.Text("end t", p.width, p.y+height-3, humanize.Comma(high))
	}
	bottom := p.y + height
	scale := page.Scale{High: float64(high), From: bottom, To: p.y}
	if s.Tall {
		scale = page.NewScale([]float64{float64(high)}, false)
		scale.From, scale.To = bottom, p.y
		for _, v := range scale.Ticks[1:] {
			p.Line("grid", p.left, scale.At(v), p.right, scale.At(v))
			if v == math.Trunc(v) && !p.narrow {
				p.Text("end t", p.left-8, scale.At(v)+4, humanize.Comma(int64(v)))
			}
		}
	}
	p.Line("base", p.left, bottom, p.right, bottom)
	var bars strings.Builder
	for k, v := range s.Values {
		if v > 0 {
			top := min(scale.At(float64(v)), bottom-1)
			from, to := p.time.At(float64(p.bounds[k])), p.time.At(float64(p.bounds[k+1]))
			fmt.Fprintf(&bars, "M%s %sh%sV%sh-%[3]sz", page.Coordinate(from), page.Coordinate(bottom),
				page.Coordinate(max(to-from-1, 0.5)), page.Coordinate(top))
		}
	}
	if class := "bar"; bars.Len() > 0 {
		if s.Alarm {
			class = "bar alarm"
		}
		p.Path(class, bars.String())
	}
	p.y = bottom + 9
	if p.narrow {
		p.y += 10
	}
}

// ticks draws the axis of time.
func (p *stripPicture) ticks() {
	most := 9
	if p.narrow {
		most = 5
	}
	from, to := p.bounds[0], p.bounds[len(p.bounds)-1]
	times, width := buckets(from, to, most, p.zone)
	last := math.Inf(-1)
	for _, t := range times {
		if t < from || t > to {
			continue
		}
		x := p.time.At(float64(t))
		p.Line("tick", x, p.y-8, x, p.y-4)
		class := "mid t"
		if x < p.left+20 {
			class = "t"
		} else if x > p.right-20 {
			class = "end t"
		}
		if x-last >= 62 {
			p.Text(class, x, p.y+8, clockLabel(query.Moment(t).In(p.zone), width))
			last = x
		}
	}
}

// clockLabel formats a time on an axis.
func clockLabel(t time.Time, step time.Duration) string {
	switch {
	case step >= 360*24*time.Hour:
		return t.Format("2006")
	case step >= 24*time.Hour || t.Hour() == 0 && t.Minute() == 0 && t.Second() == 0:
		return t.Format("2 Jan 2006")
	case step < time.Minute:
		return t.Format("15:04:05")
	}
	return t.Format("15:04")
}

var days = [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

func (c *Chart) drawHours(d *page.Drawing, width float64) (height float64) {
	left, cell, row := 44.0, 30.0, 20.0
	if width < 600 {
		left, cell = 34, (width-34)/24
	}
	high := int64(1)
	for day := range c.Hours {
		high = max(high, highest(c.Hours[day][:]))
	}
	for h := 0; h < 24; h += 3 {
		d.Text("t", left+cell*float64(h), 10, fmt.Sprintf("%02d", h))
	}
	for i, day := range days {
		y := 18 + row*float64(i)
		d.Text("t", 0, y+14, day)
		for h, n := range c.Hours[i] {
			class := "h0"
			if n > 0 {
				class = fmt.Sprintf("h%d", min(5, 1+int(5*math.Sqrt(float64(n)/float64(high))*0.999)))
			}
			if n > 0 && (i > 4 || h < 7 || h >= 19) {
				class += " alarm"
			}
			d.Begin(class, fmt.Sprintf("%s %02d:00: %s", day, h, humanize.Comma(n)))
			d.Rect("", left+cell*float64(h), y, cell-2, row-2)
			d.End()
		}
	}
	d.Begin("", "working hours")
	d.Rect("frame", left+7*cell-1, 17, 12*cell, 5*row)
	d.End()
	return 18 + 7*row
}

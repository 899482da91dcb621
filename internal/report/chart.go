// Charts: strips of bars over time, and the hours of a week. Each is drawn twice, for wide and for narrow
// screens, because text in a picture that is scaled down becomes too small to read.

package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/query"
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
		return plural(int64(d/(24*time.Hour)), "day")
	case d >= time.Hour:
		return plural(int64(d/time.Hour), "hour")
	case d >= time.Minute:
		return plural(int64(d/time.Minute), "minute")
	default:
		return plural(int64(d/time.Second), "second")
	}
}

// picture is an SVG while it is drawn.
type picture struct {
	strings.Builder
	width float64
}

func (p *picture) tag(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *picture) text(x, y float64, class, s string) {
	p.tag(`<text x="%s" y="%s" class="%s">%s</text>`, coordinate(x), coordinate(y), class,
		template.HTMLEscapeString(s))
}

// coordinate formats a coordinate with at most one decimal.
func coordinate(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// Wide returns the picture for wide screens.
func (c Chart) Wide() template.HTML { return c.svg("wide", 1120) }

// Slim returns the picture for narrow screens.
func (c Chart) Slim() template.HTML { return c.svg("slim", 340) }

func (c *Chart) svg(class string, width float64) template.HTML {
	p := &picture{width: width}
	var height float64
	if c.Hours != nil {
		height = c.drawHours(p)
	} else {
		height = c.drawStrips(p)
	}
	return template.HTML(fmt.Sprintf(`<svg class="%s" viewBox="0 0 %s %s" width="%s" height="%s" `+
		`role="img" aria-label="%s"><title>%[6]s</title>%s</svg>`,
		class, coordinate(width), coordinate(height), coordinate(width), coordinate(height),
		template.HTMLEscapeString(c.describe()), p.String()))
}

// describe returns the picture in words, for screen readers.
func (c *Chart) describe() string {
	s := c.Title
	for i := range c.Strips {
		s += fmt.Sprintf("; %s: %s in all, at most %s in %s", c.Strips[i].Name, number(c.Strips[i].Total),
			number(highest(c.Strips[i].Values)), c.Every())
	}
	return s
}

func highest(values []int64) (high int64) {
	for _, v := range values {
		high = max(high, v)
	}
	return high
}

// roundUp returns a round number that is not less than v.
func roundUp(v int64) int64 {
	for step := int64(1); ; step *= 10 {
		for _, m := range []int64{1, 2, 4, 5, 6, 8, 10} {
			if m*step >= v {
				return m * step
			}
		}
		if step > math.MaxInt64/100 {
			return v
		}
	}
}

func (c *Chart) drawStrips(p *picture) float64 {
	narrow := p.width < 600
	left, right := 132.0, 148.0
	if narrow {
		left, right = 0, 0
	}
	plot := p.width - left - right
	from, to := c.bounds[0], c.bounds[len(c.bounds)-1]
	x := func(t int64) float64 { return left + plot*(float64(t)-float64(from))/(float64(to)-float64(from)) }
	y := 14.0
	if !narrow {
		p.text(p.width-70, 8, "n mute", "in all")
		p.text(p.width, 8, "n mute", "peak")
	}
	for i := range c.Strips {
		s := &c.Strips[i]
		high := highest(s.Values)
		height := 24.0
		if s.Tall {
			height, high = 108, roundUp(high)
		}
		class := "bar"
		if s.Alarm {
			class = "bar alarm"
		}
		if narrow {
			p.text(0, y, "", s.Name)
			p.text(p.width, y, "n", number(s.Total))
			y += 6
		} else {
			p.text(0, y+height-3, "", s.Name)
			p.text(p.width-70, y+height-3, "n", number(s.Total))
			p.text(p.width, y+height-3, "n mute", number(highest(s.Values)))
		}
		if s.Tall {
			for _, share := range []float64{0.5, 1} {
				at := y + height*(1-share)
				p.tag(`<path class="grid" d="M%s %sH%s"/>`, coordinate(left), coordinate(at), coordinate(left+plot))
				if v := float64(high) * share; v == math.Trunc(v) && !narrow {
					p.text(left-8, at+4, "n mute", number(int64(v)))
				}
			}
		}
		p.tag(`<path class="base" d="M%s %sH%s"/>`, coordinate(left), coordinate(y+height), coordinate(left+plot))
		if high > 0 {
			p.tag(`<path class="%s" d="`, class)
			for k, v := range s.Values {
				if v == 0 {
					continue
				}
				bar := max(1, height*float64(v)/float64(high))
				a, b := x(c.bounds[k]), x(c.bounds[k+1])
				p.tag("M%s %sh%sv%sh-%[3]sz", coordinate(a), coordinate(y+height-bar),
					coordinate(max(b-a-1, 0.5)), coordinate(bar))
			}
			p.tag(`"/>`)
		}
		y += height + 9
		if narrow {
			y += 10
		}
	}
	most := 9
	if narrow {
		most = 5
	}
	ticks, width := buckets(from, to, most, c.zone)
	last := math.Inf(-1)
	for _, t := range ticks {
		if t < from || t > to {
			continue
		}
		at := x(t)
		label, space := clockLabel(query.Moment(t).In(c.zone), width), 62.0
		p.tag(`<path class="tick" d="M%s %sv4"/>`, coordinate(at), coordinate(y-8))
		class := "mid mute"
		if at < left+20 {
			class = "mute"
		} else if at > p.width-right-20 {
			class = "n mute"
		}
		if at-last >= space {
			p.text(at, y+8, class, label)
			last = at
		}
	}
	return y + 14
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

func (c *Chart) drawHours(p *picture) float64 {
	left, cell, row := 44.0, 30.0, 20.0
	if p.width < 600 {
		left, cell = 34, (p.width-34)/24
	}
	high := int64(1)
	for d := range c.Hours {
		high = max(high, highest(c.Hours[d][:]))
	}
	for h := 0; h < 24; h += 3 {
		p.text(left+cell*float64(h), 10, "mute", fmt.Sprintf("%02d", h))
	}
	for d, day := range days {
		y := 18 + row*float64(d)
		p.text(0, y+14, "mute", day)
		for h := range 24 {
			n := c.Hours[d][h]
			class := "h0"
			if n > 0 {
				class = fmt.Sprintf("h%d", min(5, 1+int(5*math.Sqrt(float64(n)/float64(high))*0.999)))
			}
			if n > 0 && (d > 4 || h < 7 || h >= 19) {
				class += " alarm"
			}
			p.tag(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"><title>%s %02d:00: %s</title></rect>`, class,
				coordinate(left+cell*float64(h)), coordinate(y), coordinate(cell-2),
				coordinate(row-2), day, h, number(n))
		}
	}
	p.tag(`<rect class="frame" x="%s" y="17" width="%s" height="%s"><title>working hours</title></rect>`,
		coordinate(left+7*cell-1), coordinate(12*cell), coordinate(5*row))
	return 18 + 7*row
}

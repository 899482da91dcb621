// The page of a result.

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/page"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string

	pageOfResult = page.New(pageText, pageStyle, pageScript, nil)
)

// contents is the data of page.html.
type contents struct {
	Title, Warning, Command, Confidence string
	Where, Notes                        []string
	Figures                             []figureOf
	Tables                              []tableOf
	Sources                             []source
	Skipped                             []skipped
	Facts                               []result.Parameter
	Settings                            []settingsOf
}

// figureOf is a chart: its panels.
type figureOf struct {
	Title, Note string
	Key         []keyEntry
	Panels      []picture
	Table       *tableOf
}

type picture struct {
	Title   string
	Picture template.HTML
}

// keyEntry explains a symbol or a color.
type keyEntry struct {
	Title, Class string
	Picture      template.HTML
}

type tableOf struct {
	Title, Note string
	Keys        []string
	Heads       []head
	Rows        []rowOf
}

type rowOf struct {
	Keys  []string
	Cells []cellOf
}

type cellOf struct {
	Sort string // the figure, for sorting
	HTML template.HTML
}

type settingsOf struct {
	Title    string
	Settings []cluster.Setting
}

// HTML writes a page with everything in a result, which needs no other file and no network.
func HTML(w io.Writer, r *result.Result) error {
	v := newView(r)
	p := contents{
		Title: r.Title, Warning: r.Busy.Warning(), Command: r.Command, Confidence: v.confidence(),
		Where: v.where(), Notes: r.Notes, Skipped: v.skipped(), Facts: v.facts(), Settings: v.settings(),
	}
	for i := range r.Charts {
		if f := v.figure(&r.Charts[i]); f != nil {
			p.Figures = append(p.Figures, *f)
		}
	}
	for i := range r.Tables {
		if g := v.grid(&r.Tables[i]); len(g.Rows) > 0 {
			p.Tables = append(p.Tables, v.table(g))
		}
	}
	p.Sources = v.sources
	return pageOfResult.Write(w, p)
}

// figure draws a chart; nil if it has no measures.
func (v *view) figure(c *result.Chart) *figureOf {
	panels := v.panels(c)
	if panels == nil {
		return nil
	}
	f := &figureOf{Title: c.Title, Note: c.Note, Key: legend(panels)}
	for _, p := range panels {
		draw := p.bars
		if c.Kind == "lines" {
			draw = p.lines
		}
		label := c.Title
		if p.title != "" {
			label += ", " + p.title
		}
		f.Panels = append(f.Panels, picture{p.title, page.Chart(label+": "+p.axis, wide, narrow, draw)})
	}
	rows := []string{c.X}
	if c.Series != "" {
		rows = append(rows, c.Series)
	}
	t := v.table(v.grid(&result.Table{Title: c.Title, Rows: rows, Where: c.Where, Bar: -1,
		Columns: []result.Column{{Metric: c.Metric, Ratio: c.Ratio, Published: true}}}))
	f.Table = &t
	return f
}

func (v *view) table(g *grid) tableOf {
	t := tableOf{Title: g.Title, Note: g.Note, Keys: g.Keys, Heads: g.Heads}
	tops := make([]float64, len(g.Heads))
	for i := range g.Heads {
		tops[i] = g.top(i)
	}
	for _, r := range g.Rows {
		row := rowOf{Keys: r.Keys}
		for i, c := range r.Cells {
			x := v.cell(c)
			if e := c.Estimate; g.Heads[i].Bar && e != nil && tops[i] > 0 {
				x.HTML += template.HTML(fmt.Sprintf(`<svg viewBox="0 0 100 4" preserveAspectRatio="none" `+
					`aria-hidden="true"><rect class="f" width="%s" height="4"/></svg>`,
					page.Coordinate(max(100*e.Median/tops[i], 0))))
			}
			row.Cells = append(row.Cells, x)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (v *view) cell(c cell) cellOf {
	sortable := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	switch {
	case c.Published != nil:
		var parts []string
		for _, p := range c.Published {
			parts = append(parts, fmt.Sprintf("%s<sup>%d</sup>", figure(p.Value, p.IsRatio), v.cite(p)))
		}
		return cellOf{sortable(c.Published[0].Value), template.HTML(strings.Join(parts, ", "))}
	case c.Estimate == nil:
		return cellOf{"", "-"}
	case c.Estimate == &one:
		return cellOf{"1", "1"}
	default:
		text := figure(c.Estimate.Median, c.Ratio)
		if r := interval(*c.Estimate, c.Ratio); r != "" {
			text += ` <span class="range">` + r + `</span>`
		}
		return cellOf{sortable(c.Estimate.Median), template.HTML(text)}
	}
}

// facts returns information about the run besides its figures.
func (v *view) facts() []result.Parameter {
	m := v.Machine
	all := []result.Parameter{
		{Name: "Time", Value: v.Time.UTC().Format("2006-01-02 15:04:05 MST")},
		{Name: "steno", Value: v.Steno}, {Name: "PostgreSQL", Value: strings.TrimPrefix(v.Postgres, "PostgreSQL ")},
		{Name: "Processor", Value: m.CPU}, {Name: "Cores", Value: strconv.Itoa(m.Cores)},
		{Name: "Memory", Value: memory(m.Memory)},
		{Name: "Kernel", Value: m.Kernel}, {Name: "System", Value: m.System},
	}
	if v.Postgres == "" {
		all = append(all[:2], all[3:]...)
	}
	if v.Busy != (machine.Busy{}) { // otherwise the load was not measured
		all = append(all, []result.Parameter{
			{Name: "Busy before", Value: fmt.Sprintf("%.1f %% of the processors, load %.2f", v.Busy.Before,
				v.Busy.Load)},
			{Name: "Stolen", Value: fmt.Sprintf("%.1f %% of the CPU time, by other machines on the host",
				v.Busy.Steal)},
		}...)
	}
	return append(all, v.Parameters...)
}

// settings returns those of all servers, then those of the values that have some.
func (v *view) settings() []settingsOf {
	var all []settingsOf
	if len(v.Result.Settings) > 0 {
		all = append(all, settingsOf{"Settings of every server", v.Result.Settings})
	}
	for _, d := range v.Dimensions {
		for _, x := range d.Values {
			if len(x.Settings) > 0 {
				all = append(all, settingsOf{"Settings of " + v.named(d.Name, x.Name), x.Settings})
			}
		}
	}
	return all
}

// legend explains symbols, and colors that have no names beside them.
func legend(panels []*panel) []keyEntry {
	var entries []keyEntry
	sign := func(d *page.Drawing) template.HTML {
		return template.HTML(`<svg viewBox="0 0 22 14">` + d.Contents() + `</svg>`)
	}
	p := panels[0]
	if p.chart.Kind == "lines" && p.chart.Series != "" {
		for _, s := range p.series {
			d := &page.Drawing{}
			d.Path("line", "M0 7h22")
			marker(d, s.shape, 11, 7)
			entries = append(entries, keyEntry{s.title, s.class + " onlyslim", sign(d)})
		}
	}
	intervals, published := false, false
	for _, p := range panels {
		intervals, published = intervals || p.hasIntervals(), published || p.hasPublished()
	}
	if intervals {
		d := &page.Drawing{}
		if p.chart.Kind == "lines" {
			d.Rect("band", 1, 2, 20, 10)
			d.Line("stem", 11, 2, 11, 12)
		} else {
			whisker(d, 2, 20, 7)
		}
		entries = append(entries, keyEntry{"interval of the median", "", sign(d)})
	}
	if published {
		d := &page.Drawing{}
		diamond(d, 11, 7)
		entries = append(entries, keyEntry{"published by others", "", sign(d)})
	}
	return entries
}

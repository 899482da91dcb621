// Tables with their measures, as shown on a terminal and on a page.

package report

import (
	"slices"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// grid is a table with its measures, for a terminal or a page.
type grid struct {
	Title string
	// Note is the common part of the columns: "latency (ms)".
	Note  string
	Keys  []string // titles of the rows' dimensions
	Heads []head
	Rows  []gridRow
}

// head is a column's title. A column of published figures is beside that of the measured ones.
type head struct {
	Title     string
	Published bool
	Ratio     bool
	Bar       bool

	metric string
	name   string      // the metric's title, without a unit, because the column may contain ratios
	where  result.Case // the value of the column's dimension
	any    bool        // also shows published figures of the other kind
}

type gridRow struct {
	Keys  []string
	Cells []cell
}

// cell is empty, a measured figure, or published figures.
type cell struct {
	Estimate  *stats.Estimate
	Ratio     bool
	Published []result.Published
}

func (c cell) empty() bool { return c.Estimate == nil && len(c.Published) == 0 }

// grid looks up the measures of a table. If several measures fit a cell, because the table does not mention a
// dimension that was varied, it has a row for each of the dimension's values.
func (v *view) grid(t *result.Table) *grid {
	dimensions := slices.Clone(t.Rows)
	heads, note := v.heads(t)
	for range v.Dimensions {
		more := v.unmentioned(t, dimensions, heads)
		if more == nil {
			break
		}
		dimensions = append(dimensions, more...)
	}
	g := &grid{Title: t.Title, Note: note, Heads: heads}
	for _, d := range dimensions {
		g.Keys = append(g.Keys, v.dimensionTitle(d))
	}
	for _, c := range v.combinations(metricsOf(t), dimensions, t.Where) {
		row := gridRow{Cells: v.cells(merge(t.Where, c), heads)}
		for _, d := range dimensions {
			row.Keys = append(row.Keys, v.title(d, c[d]))
		}
		if slices.ContainsFunc(row.Cells, func(c cell) bool { return !c.empty() }) {
			g.Rows = append(g.Rows, row)
		}
	}
	g.dropEmpty()
	return g
}

func metricsOf(t *result.Table) []string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Metric)
	}
	return names
}

func merge(a, b result.Case) result.Case {
	c := result.Case{}
	for _, m := range []result.Case{a, b} {
		for k, v := range m {
			c[k] = v
		}
	}
	return c
}

// heads returns the columns: one for each value of a column's dimension, and one for published figures if the table
// does not specify where they are shown.
func (v *view) heads(t *result.Table) (heads []head, note string) {
	by := slices.ContainsFunc(t.Columns, func(c result.Column) bool { return c.Dimension != "" })
	if by && len(t.Columns) == 1 {
		note = v.metricTitle(t.Columns[0].Metric, t.Columns[0].Ratio)
	}
	for i, c := range t.Columns {
		h := head{Title: v.metricTitle(c.Metric, c.Ratio), Ratio: c.Ratio, metric: c.Metric,
			name: v.metric(c.Metric).Title}
		if c.Ratio {
			h.name = h.Title
		}
		h.any = !slices.ContainsFunc(t.Columns, func(o result.Column) bool {
			return o.Published && o.Metric == c.Metric && o.Ratio != c.Ratio
		})
		separate := c.Published && slices.ContainsFunc(t.Columns, func(o result.Column) bool {
			return !o.Published && o.Metric == c.Metric && o.Ratio == c.Ratio && o.Dimension == c.Dimension
		})
		if c.Dimension == "" {
			h.Bar = i == t.Bar && !separate
			heads = append(heads, shown(h, c.Published, separate)...)
			continue
		}
		for _, x := range v.combinations([]string{c.Metric}, []string{c.Dimension}, t.Where) {
			h.where = x
			if h.Title = v.named(c.Dimension, x[c.Dimension]); note == "" {
				h.Title += ": " + v.metricTitle(c.Metric, c.Ratio)
			}
			heads = append(heads, shown(h, c.Published, separate)...)
		}
	}
	return heads, note
}

// shown returns the columns for a measured figure and its published ones.
func shown(h head, published, separate bool) []head {
	p := h
	p.Published, p.Bar = true, false
	switch {
	case separate:
		p.Title = h.name + ", published"
		return []head{p}
	case published:
		p.Title = "published"
		return []head{h, p}
	default:
		return []head{h}
	}
}

// unmentioned returns the dimensions in which measures for the same cell differ.
func (v *view) unmentioned(t *result.Table, dimensions []string, heads []head) []string {
	for _, c := range v.combinations(metricsOf(t), dimensions, t.Where) {
		for _, h := range heads {
			place := merge(merge(t.Where, c), h.where)
			if _, several := v.find(place, h.metric); several != nil {
				if free := v.free(several, place); free != nil {
					return free
				}
			}
		}
	}
	return nil
}

func (v *view) cells(c result.Case, heads []head) []cell {
	cells := make([]cell, len(heads))
	for i, h := range heads {
		m, _ := v.find(merge(c, h.where), h.metric)
		switch {
		case m == nil:
		case h.Published:
			if cells[i].Published = published(m, h.Ratio); cells[i].Published == nil && h.any {
				cells[i].Published = m.Published
			}
		default:
			cells[i] = cell{Estimate: v.estimate(m, h.Ratio), Ratio: h.Ratio}
		}
	}
	return cells
}

// dropEmpty removes empty columns.
func (g *grid) dropEmpty() {
	for i := len(g.Heads) - 1; i >= 0; i-- {
		if slices.ContainsFunc(g.Rows, func(r gridRow) bool { return !r.Cells[i].empty() }) {
			continue
		}
		g.Heads = slices.Delete(g.Heads, i, i+1)
		for j := range g.Rows {
			g.Rows[j].Cells = slices.Delete(g.Rows[j].Cells, i, i+1)
		}
	}
}

// Results as text on a terminal.

package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
)

// Terminal is the properties of the output.
type Terminal struct {
	// Width is the number of columns that tables and sentences should fit into.
	Width int
	// Color enables emphasis of titles and warnings.
	Color bool
}

// Text writes a result as text.
func (t Terminal) Text(w io.Writer, r *result.Result) {
	v := newView(r)
	fmt.Fprintln(w, t.strong(r.Title))
	for _, line := range v.where() {
		t.wrap(w, "", line)
	}
	if warning := r.Busy.Warning(); warning != "" {
		fmt.Fprintln(w)
		t.warn(w, warning)
	}
	fmt.Fprintln(w)
	t.wrap(w, "", r.Command)
	if parameters := v.parameters(); parameters != "" {
		t.wrap(w, "", parameters)
	}
	t.tables(w, v)
	t.lists(w, v)
}

// Tables writes only a result's tables, and the meaning of their intervals.
func (t Terminal) Tables(w io.Writer, r *result.Result) { t.tables(w, newView(r)) }

func (t Terminal) tables(w io.Writer, v *view) {
	for i := range v.Result.Tables {
		fmt.Fprintln(w)
		t.grid(w, v, v.grid(&v.Result.Tables[i]))
	}
	if text := v.confidence(); text != "" {
		fmt.Fprintln(w)
		t.wrap(w, "", text)
	}
}

// where describes what was measured, where and when.
func (v *view) where() []string {
	lines := []string{fmt.Sprintf("%s, steno %s", v.Time.UTC().Format("2006-01-02 15:04 MST"), v.Steno)}
	m := v.Machine
	place := fmt.Sprintf("%s, %d cores, %s of memory, Linux %s, %s", m.CPU, m.Cores, memory(m.Memory), m.Kernel,
		m.System)
	if v.Postgres != "" {
		lines = append(lines, v.Postgres)
	}
	return append(lines, place)
}

// memory converts "8123456 kB" of /proc/meminfo into "7.8 GiB".
func memory(s string) string {
	var kB float64
	if n, _ := fmt.Sscanf(s, "%f kB", &kB); n != 1 {
		return s
	}
	if kB >= 1<<20 {
		return fmt.Sprintf("%.1f GiB", kB/(1<<20))
	}
	return fmt.Sprintf("%.0f MiB", kB/(1<<10))
}

func (v *view) parameters() string {
	var parts []string
	for _, p := range v.Parameters {
		parts = append(parts, p.Name+": "+p.Value)
	}
	return strings.Join(parts, "; ")
}

// lists writes what follows the tables: sources, what was skipped, notes.
func (t Terminal) lists(w io.Writer, v *view) {
	if len(v.sources) > 0 {
		fmt.Fprintf(w, "\n%s\n", t.strong("Published figures"))
		for i, s := range v.sources {
			text := s.Source
			if s.Conditions != "" {
				text += ": " + s.Conditions
			}
			t.wrap(w, fmt.Sprintf("(%d) ", i+1), text)
		}
	}
	if len(v.Skipped) > 0 {
		fmt.Fprintf(w, "\n%s\n", t.strong("Not run"))
		for _, s := range v.skipped() {
			if s.Cases == nil {
				t.wrap(w, "- ", s.Reason)
				continue
			}
			t.wrap(w, "- ", fmt.Sprintf("%s (%d)", s.Reason, s.Count))
			for _, c := range s.Cases {
				t.wrap(w, "    ", c)
			}
		}
	}
	if len(v.Notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", t.strong("Notes"))
		for _, n := range v.Notes {
			t.wrap(w, "- ", n)
		}
	}
}

func (t Terminal) strong(s string) string {
	if t.Color {
		return "\x1b[1m" + s + "\x1b[0m"
	}
	return s
}

func (t Terminal) warn(w io.Writer, s string) {
	if t.Color {
		fmt.Fprint(w, "\x1b[33m")
	}
	t.wrap(w, "", s)
	if t.Color {
		fmt.Fprint(w, "\x1b[0m")
	}
}

// wrap writes a text in lines of the terminal's width, indented to the text after the mark of the first line.
func (t Terminal) wrap(w io.Writer, mark, text string) {
	for _, line := range wrapped(text, t.Width-len(mark)) {
		fmt.Fprintln(w, mark+line)
		mark = strings.Repeat(" ", len(mark))
	}
}

// wrapped breaks a text into lines at white space.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case length(line)+1+length(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

func length(s string) int { return utf8.RuneCountInString(s) }

// grid writes a table: completely if it fits, otherwise with the intervals as a percentage, otherwise in several parts
// with the same rows.
func (t Terminal) grid(w io.Writer, v *view, g *grid) {
	fmt.Fprintln(w, t.strong(g.Title))
	if g.Note != "" {
		fmt.Fprintln(w, g.Note)
	}
	if len(g.Rows) == 0 {
		fmt.Fprintln(w, "  nothing was measured")
		return
	}
	keys := g.keyColumns()
	columns := g.columns(v, false)
	if width(keys)+width(columns) > t.Width {
		columns = g.columns(v, true)
	}
	for len(columns) > 0 {
		n := 1
		for n < len(columns) && width(keys)+width(columns[:n+1]) <= t.Width {
			n++
		}
		for m := n; n < len(columns) && m > 0; m-- {
			if !columns[m].glued {
				n = m
				break
			}
		}
		writeColumns(w, append(slices.Clone(keys), columns[:n]...))
		if columns = columns[n:]; len(columns) > 0 {
			fmt.Fprintln(w)
		}
	}
}

// column is a column of text: the lines of its title, then a cell for each row.
type column struct {
	head  []string
	cells []string
	right bool
	glued bool // not separated from the column before
}

const gap = "  "

func (c *column) width() int {
	n := 0
	for _, s := range slices.Concat(c.head, c.cells) {
		n = max(n, length(s))
	}
	return n
}

func width(columns []column) int {
	n := 0
	for i := range columns {
		n += columns[i].width() + len(gap)
	}
	return n
}

// keyColumns returns the rows' names, without repetitions of the row above.
func (g *grid) keyColumns() []column {
	columns := make([]column, len(g.Keys))
	for i, title := range g.Keys {
		columns[i].head = []string{title}
		for j, r := range g.Rows {
			text := r.Keys[i]
			if j > 0 && slices.Equal(r.Keys[:i+1], g.Rows[j-1].Keys[:i+1]) {
				text = ""
			}
			columns[i].cells = append(columns[i].cells, text)
		}
	}
	return columns
}

const barWidth = 20

// columns returns the cells as text, with a bar before the column that has one.
func (g *grid) columns(v *view, short bool) []column {
	var columns []column
	for i, h := range g.Heads {
		if h.Bar {
			columns = append(columns, g.barColumn(i))
		}
		c := column{glued: i > 0 && (h.Published && !g.Heads[i-1].Published || h.Bar)}
		mains, ranges := make([]string, len(g.Rows)), make([]string, len(g.Rows))
		for j, r := range g.Rows {
			mains[j], ranges[j] = r.Cells[i].text(v, short)
		}
		c.cells = paired(mains, ranges)
		c.head = wrapped(h.Title, max(c.width(), 12))
		c.right = !slices.ContainsFunc(ranges, func(s string) bool { return s != "" })
		columns = append(columns, c)
	}
	return columns
}

// text returns a cell's figure and interval.
func (c cell) text(v *view, short bool) (figureText, intervalText string) {
	switch {
	case c.Published != nil:
		var parts []string
		for _, p := range c.Published {
			parts = append(parts, fmt.Sprintf("%s (%d)", figure(p.Value, p.IsRatio), v.cite(p)))
		}
		return strings.Join(parts, ", "), ""
	case c.Estimate == nil:
		return "-", ""
	case c.Estimate == &one:
		return "1", ""
	case short:
		return figure(c.Estimate.Median, c.Ratio), spread(*c.Estimate)
	default:
		return figure(c.Estimate.Median, c.Ratio), interval(*c.Estimate, c.Ratio)
	}
}

// paired combines figures and intervals, each of them aligned.
func paired(mains, ranges []string) []string {
	a, b := 0, 0
	for i := range mains {
		a, b = max(a, length(mains[i])), max(b, length(ranges[i]))
	}
	cells := make([]string, len(mains))
	for i := range mains {
		cells[i] = pad(mains[i], a, true)
		if b > 0 {
			cells[i] += " " + pad(ranges[i], b, false)
		}
	}
	return cells
}

func pad(s string, width int, right bool) string {
	space := strings.Repeat(" ", max(width-length(s), 0))
	if right {
		return space + s
	}
	return s + space
}

// top returns the value at which the bars of a column end: its largest figure, but at least 1 for ratios.
func (g *grid) top(i int) float64 {
	top := 0.0
	if g.Heads[i].Ratio {
		top = 1
	}
	for _, r := range g.Rows {
		if e := r.Cells[i].Estimate; e != nil && !math.IsNaN(e.Median) {
			top = max(top, e.Median)
		}
	}
	return top
}

// barColumn draws the figures of a column as bars that begin at zero.
func (g *grid) barColumn(i int) column {
	top := g.top(i)
	c := column{head: []string{""}}
	for _, r := range g.Rows {
		text := ""
		if e := r.Cells[i].Estimate; e != nil && top > 0 {
			text = progress.Blocks(e.Median/top, barWidth)
		}
		c.cells = append(c.cells, text)
	}
	return c
}

func writeColumns(w io.Writer, columns []column) {
	lines, widths := 0, make([]int, len(columns))
	for i := range columns {
		lines, widths[i] = max(lines, len(columns[i].head)), columns[i].width()
	}
	write := func(cell func(c *column) string) {
		var b strings.Builder
		for i := range columns {
			b.WriteString(pad(cell(&columns[i]), widths[i], columns[i].right) + gap)
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	for line := range lines {
		write(func(c *column) string {
			if n := line - (lines - len(c.head)); n >= 0 {
				return c.head[n]
			}
			return ""
		})
	}
	for row := range columns[0].cells {
		write(func(c *column) string { return c.cells[row] })
	}
}

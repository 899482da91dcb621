// Writes results as a table, and as psql's expanded display, which has a line for each value.

package sql

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/pg-steno/pg_steno/internal/render"
)

// Limits of the rows and bytes that are kept to find the widths of columns. Later rows do not change these
// widths.
const (
	maxTableRows  = 1000
	maxTableBytes = 4 << 20
)

// cells are the columns of a terminal that a character takes: none, one or two.
var cells = &runewidth.Condition{StrictEmojiNeutral: true}

// widthOf returns the number of terminal columns that a text takes.
func widthOf(s []byte) (n int) {
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			n++
			i++
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		n += cells.RuneWidth(r)
		i += size
	}
	return n
}

// fitting returns how many bytes of a text fit into a number of terminal columns.
func fitting(s []byte, width int) (bytes int) {
	for n := 0; bytes < len(s); {
		r, size := utf8.DecodeRune(s[bytes:])
		if n += cells.RuneWidth(r); n > width {
			break
		}
		bytes += size
	}
	return bytes
}

// grid is a table that is being written.
type grid struct {
	*Output
	w      *bufio.Writer
	r      *Result
	names  [][]byte
	widths []int // of the columns
	widest int   // of the widest value, before cutting
	value  []byte
	kept   [][][]byte
	more   bool // there may be rows after the kept ones
}

func (o *Output) writeTable(w *bufio.Writer, r *Result) error {
	g := &grid{Output: o, w: w, r: r}
	for i := range r.Columns {
		name := []byte(render.Safe(r.Columns[i].Name))
		g.names, g.widths = append(g.names, name), append(g.widths, widthOf(name))
	}
	if err := g.keep(); err != nil {
		return err
	}
	if g.isExpanded() {
		return g.expanded()
	}
	return g.rows()
}

// cell returns the i-th value of the row.
func (g *grid) cell(i int) []byte {
	g.value = g.r.Append(g.value[:0], i)
	return render.AppendSafe(nil, g.value)
}

// keep reads the first rows.
func (g *grid) keep() (err error) {
	for size := 0; len(g.kept) < maxTableRows && size < maxTableBytes; {
		if g.more, err = g.r.Next(); err != nil || !g.more {
			return err
		}
		row := make([][]byte, len(g.names))
		for i := range row {
			row[i] = g.cell(i)
			size += len(row[i]) + 24
			width := widthOf(row[i])
			g.widest = max(g.widest, width)
			if g.MaxWidth > 0 {
				width = min(width, g.MaxWidth)
			}
			g.widths[i] = max(g.widths[i], width)
		}
		g.kept = append(g.kept, row)
	}
	return nil
}

// each calls show for each row, first the kept ones.
func (g *grid) each(show func(row [][]byte) error) (count int, err error) {
	for _, row := range g.kept {
		if err := show(row); err != nil {
			return count, err
		}
		count++
	}
	g.kept = nil
	row := make([][]byte, len(g.names))
	for g.more {
		if g.more, err = g.r.Next(); err != nil || !g.more {
			return count, err
		}
		for i := range row {
			row[i] = g.cell(i)
		}
		if err := show(row); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

// isExpanded returns whether each value gets a line. As in psql, the name of a single column does not count.
func (g *grid) isExpanded() bool {
	total := 3 * (len(g.widths) - 1)
	for _, n := range g.widths {
		total += n
	}
	return g.Expanded == "on" || g.Expanded == "auto" && g.Width > 0 && len(g.widths) > 1 && total > g.Width
}

// rows writes a line for each row.
func (g *grid) rows() error {
	line := func(dst []byte, i int, text []byte) []byte {
		if i > 0 {
			dst = append(dst, " | "...)
		}
		blanks := bytes.Repeat([]byte(" "), max(0, g.widths[i]-widthOf(text)))
		if g.r.Columns[i].Numeric {
			return append(append(dst, blanks...), text...)
		}
		if dst = append(dst, text...); i < len(g.widths)-1 {
			dst = append(dst, blanks...)
		}
		return dst
	}
	var buf, rule []byte
	for i, name := range g.names {
		buf = line(buf, i, name)
		if i > 0 {
			rule = append(rule, "-+-"...)
		}
		rule = append(rule, strings.Repeat("-", g.widths[i])...)
	}
	fmt.Fprintf(g.w, "%s\n%s\n", bytes.TrimRight(buf, " "), rule)
	count, err := g.each(func(row [][]byte) error {
		buf = buf[:0]
		for i := range row {
			buf = line(buf, i, g.cut(row[i]))
		}
		_, err := g.w.Write(append(buf, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	if count == 1 {
		_, err = fmt.Fprintf(g.w, "(1 row)\n")
	} else {
		_, err = fmt.Fprintf(g.w, "(%d rows)\n", count)
	}
	return err
}

// cut shortens a value that is too wide.
func (o *Output) cut(s []byte) []byte {
	if o.MaxWidth == 0 || len(s) <= o.MaxWidth || widthOf(s) <= o.MaxWidth {
		return s
	}
	n := fitting(s, o.MaxWidth-1)
	return append(s[:n:n], "…"...)
}

// leastWidth is the smallest width of the lines into which a value is broken.
const leastWidth = 8

// expanded writes a line for each value, and more lines for one that is wider than the terminal.
func (g *grid) expanded() error {
	names := 0
	for _, name := range g.names {
		names = max(names, widthOf(name))
	}
	room := 0 // for values
	if g.Width > 0 {
		room = max(g.Width-names-len(" | "), leastWidth)
		g.widest = min(g.widest, room)
	}
	number := 0
	var buf []byte
	count, err := g.each(func(row [][]byte) error {
		number++
		buf = g.recordLine(buf[:0], number, names)
		for i, value := range row {
			buf = append(append(buf, g.names[i]...), bytes.Repeat([]byte(" "), names-widthOf(g.names[i]))...)
			for {
				n := len(value)
				if room > 0 {
					if n = fitting(value, room); n == 0 {
						n = len(value)
					}
				}
				buf = append(append(append(buf, " | "...), value[:n]...), '\n')
				if value = value[n:]; len(value) == 0 {
					break
				}
				buf = append(buf, bytes.Repeat([]byte(" "), names)...)
			}
		}
		_, err := g.w.Write(buf)
		return err
	})
	if err == nil && count == 0 {
		_, err = fmt.Fprintf(g.w, "(0 rows)\n")
	}
	return err
}

// recordLine writes the line that begins a record, as psql does: a rule with a + where the rule between names
// and values begins.
func (g *grid) recordLine(dst []byte, number, names int) []byte {
	begin := fmt.Sprintf("-[ RECORD %d ]", number)
	rule := strings.Repeat("-", names+1) + "+" + strings.Repeat("-", g.widest+1)
	if g.Width > 0 && len(rule) > g.Width {
		rule = rule[:g.Width]
	}
	return append(append(append(dst, begin...), rule[min(len(begin), len(rule)):]...), '\n')
}

// Writes results: as a table for people, CSV and JSON for programs, Markdown for documents. DuckDB could
// write some of these, but not so that no text reaches a terminal or a spreadsheet unescaped.

package sql

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/render"
)

// Formats are the formats in which Write writes results.
var Formats = []string{"table", "csv", "json", "markdown"}

// Output says how results are written.
type Output struct {
	Format string
	// CSVUnsafe leaves CSV values as they are, also those that a spreadsheet takes for formulas.
	CSVUnsafe bool
	// MaxWidth cuts values of a table that are longer; 0: none.
	MaxWidth int
	// NoHeader leaves out the line of column names of CSV.
	NoHeader bool
}

// Write writes a result. No text of it has an effect on a terminal, whatever it is.
func (o *Output) Write(to io.Writer, r *Result) error {
	w := bufio.NewWriterSize(to, 256<<10)
	var err error
	switch o.Format {
	case "csv":
		err = o.writeCSV(w, r)
	case "json":
		err = writeJSON(w, r)
	case "markdown":
		err = writeMarkdown(w, r)
	default:
		err = o.writeTable(w, r)
	}
	if flushed := w.Flush(); err == nil {
		err = flushed
	}
	return err
}

// lines calls appendLine for each row and writes what it appends.
func lines(w *bufio.Writer, r *Result, appendLine func(dst []byte) []byte) error {
	var line []byte
	for {
		more, err := r.Next()
		if err != nil || !more {
			return err
		}
		line = appendLine(line[:0])
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
}

func (o *Output) writeCSV(w *bufio.Writer, r *Result) error {
	end := func(line []byte) []byte { return append(line[:max(0, len(line)-1)], '\r', '\n') }
	if !o.NoHeader {
		var line []byte
		for i := range r.Columns {
			line = render.AppendCSV(line, []byte(r.Columns[i].Name), !o.CSVUnsafe)
		}
		w.Write(end(line))
	}
	var value []byte
	return lines(w, r, func(line []byte) []byte {
		for i := range r.Columns {
			value = r.Append(value[:0], i)
			line = render.AppendCSV(line, value, !o.CSVUnsafe && !r.Columns[i].Numeric)
		}
		return end(line)
	})
}

func writeJSON(w *bufio.Writer, r *Result) error {
	var names [][]byte
	for i := range r.Columns {
		names = append(names, append(render.AppendJSON(nil, []byte(r.Columns[i].Name)), ':'))
	}
	return lines(w, r, func(line []byte) []byte {
		line = append(line, '{')
		for i := range r.Columns {
			if i > 0 {
				line = append(line, ',')
			}
			line = r.AppendJSON(append(line, names[i]...), i)
		}
		return append(line, '}', '\n')
	})
}

// appendMarkdown appends text that means nothing in Markdown or HTML.
func appendMarkdown(dst, s []byte) []byte {
	for _, c := range render.AppendSafe(nil, s) {
		switch c {
		case '\\', '`', '*', '_', '[', ']', '|', '~', '#', '$':
			dst = append(dst, '\\', c)
		case '<':
			dst = append(dst, "&lt;"...)
		case '>':
			dst = append(dst, "&gt;"...)
		case '&':
			dst = append(dst, "&amp;"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func writeMarkdown(w *bufio.Writer, r *Result) error {
	names, rule := []byte("|"), []byte("|")
	for i := range r.Columns {
		names = append(appendMarkdown(append(names, ' '), []byte(r.Columns[i].Name)), " |"...)
		if r.Columns[i].Numeric {
			rule = append(rule, "---:|"...)
		} else {
			rule = append(rule, "---|"...)
		}
	}
	fmt.Fprintf(w, "%s\n%s\n", names, rule)
	var value []byte
	return lines(w, r, func(line []byte) []byte {
		line = append(line, '|')
		for i := range r.Columns {
			value = r.Append(value[:0], i)
			line = append(appendMarkdown(append(line, ' '), value), " |"...)
		}
		return append(line, '\n')
	})
}

// What of a table is kept to find out how wide its columns are. Rows after that are as wide.
const (
	maxTableRows  = 1000
	maxTableBytes = 4 << 20
)

func (o *Output) writeTable(w *bufio.Writer, r *Result) error {
	widths := make([]int, len(r.Columns))
	var names []string
	for i := range r.Columns {
		name := render.Safe(r.Columns[i].Name)
		names = append(names, name)
		widths[i] = utf8.RuneCountInString(name)
	}
	var value []byte
	cell := func(i int) []byte {
		value = r.Append(value[:0], i)
		return o.cut(render.AppendSafe(nil, value))
	}
	var kept [][][]byte
	size, more := 0, true
	var err error
	for len(kept) < maxTableRows && size < maxTableBytes {
		if more, err = r.Next(); err != nil {
			return err
		}
		if !more {
			break
		}
		row := make([][]byte, len(r.Columns))
		for i := range row {
			row[i] = cell(i)
			size += len(row[i]) + 24
			widths[i] = max(widths[i], utf8.RuneCount(row[i]))
		}
		kept = append(kept, row)
	}
	line := func(dst []byte, i int, text []byte) []byte {
		if i > 0 {
			dst = append(dst, " | "...)
		}
		pad := widths[i] - utf8.RuneCount(text)
		if pad < 0 {
			pad = 0
		}
		blanks := bytes.Repeat([]byte(" "), pad)
		if r.Columns[i].Numeric {
			return append(append(dst, blanks...), text...)
		}
		if dst = append(dst, text...); i < len(widths)-1 {
			dst = append(dst, blanks...)
		}
		return dst
	}
	var buf, rule []byte
	for i, name := range names {
		buf = line(buf, i, []byte(name))
		if i > 0 {
			rule = append(rule, "-+-"...)
		}
		rule = append(rule, strings.Repeat("-", widths[i])...)
	}
	fmt.Fprintf(w, "%s\n%s\n", bytes.TrimRight(buf, " "), rule)
	count := 0
	for _, row := range kept {
		buf = buf[:0]
		for i := range row {
			buf = line(buf, i, row[i])
		}
		w.Write(append(buf, '\n'))
		count++
	}
	kept = nil
	if more {
		err = lines(w, r, func(dst []byte) []byte {
			for i := range r.Columns {
				dst = line(dst, i, cell(i))
			}
			count++
			return append(dst, '\n')
		})
	}
	if err != nil {
		return err
	}
	if count == 1 {
		_, err = fmt.Fprintf(w, "(1 row)\n")
	} else {
		_, err = fmt.Fprintf(w, "(%d rows)\n", count)
	}
	return err
}

// cut shortens a value that is too wide.
func (o *Output) cut(s []byte) []byte {
	if o.MaxWidth == 0 || len(s) <= o.MaxWidth || utf8.RuneCount(s) <= o.MaxWidth {
		return s
	}
	n := 0
	for range o.MaxWidth - 1 {
		_, size := utf8.DecodeRune(s[n:])
		n += size
	}
	return append(s[:n:n], "…"...)
}

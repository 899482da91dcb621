// Writes results: as a table for people (table.go), CSV and JSON for programs, Markdown for documents. DuckDB could
// write some of these, but not so that no text reaches a terminal or a spreadsheet unescaped.

package sql

import (
	"bufio"
	"fmt"
	"io"

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
	// Expanded shows a table with a line for each value: on, off, or auto, if its rows are longer than Width.
	Expanded string
	// Width is that of the terminal; 0: there is none.
	Width int
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

func writeMarkdown(w *bufio.Writer, r *Result) error {
	names, rule := []byte("|"), []byte("|")
	for i := range r.Columns {
		names = append(render.AppendMarkdown(append(names, ' '), []byte(r.Columns[i].Name)), " |"...)
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
			line = append(render.AppendMarkdown(append(line, ' '), value), " |"...)
		}
		return append(line, '\n')
	})
}

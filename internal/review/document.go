// An answer: facts, tables and limits, as text, JSON or Markdown.

package review

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/render"
)

// Document is the answer of a review.
type Document struct {
	Review   string // access, person, subject, change
	Facts    []Fact
	Sections []*Section
	// Limits are what the trail cannot know, or lacks. Warnings say that the answer may be one to another question.
	Limits, Warnings []string
	// Incomplete says that the trail is damaged, or that something could not be read.
	Incomplete bool
}

// Fact is a line at the beginning.
type Fact struct {
	Name  string
	Value any
}

// Section is a table.
type Section struct {
	Key, Title string
	Note       string   // what it means
	Empty      string   // instead of the table, if it has no rows
	Columns    []string // names in JSON; text has them with blanks
	Rows       [][]any
	Left       int64 // rows that are not shown
}

func (s *Section) add(cells ...any) { s.Rows = append(s.Rows, cells) }

// stamp is a time of the trail.
type stamp int64

func (r RecordID) String() string {
	if r.Seq == 0 {
		return r.Session.String()
	}
	return r.Session.String() + "/" + strconv.FormatUint(r.Seq, 10)
}

// text is a cell for people.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []string:
		return strings.Join(v, ", ")
	case stamp:
		return render.Time(int64(v))
	case RecordID:
		return v.String()
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	return fmt.Sprint(v)
}

// Documents are the answers for several servers.
type Documents []*Document

// Write writes the documents in a format: text, markdown or json. Several are one JSON object.
func (all Documents) Write(w io.Writer, format string) error {
	b := bufio.NewWriter(w)
	object := len(all) > 1 && format == "json"
	if object {
		_, _ = fmt.Fprintf(b, `{"review":%s,"servers":[`, render.AppendJSON(nil, []byte(all[0].Review)))
	}
	for i, d := range all {
		switch format {
		case "json":
			if i > 0 {
				_ = b.WriteByte(',')
			}
			d.json(b)
		case "markdown":
			d.markdown(b)
		default:
			if i > 0 {
				_ = b.WriteByte('\n')
			}
			d.text(b)
		}
	}
	if object {
		_, _ = b.WriteString("]}\n")
	}
	return b.Flush()
}

// Write writes the document in a format: text, markdown or json.
func (d *Document) Write(w io.Writer, format string) error { return Documents{d}.Write(w, format) }

// Formats are those of Write.
var Formats = []string{"text", "json", "markdown"}

// ---- text ----

func (d *Document) text(b *bufio.Writer) {
	for _, warning := range d.Warnings {
		fmt.Fprintf(b, "WARNING: %s\n", render.Safe(warning))
	}
	if len(d.Warnings) > 0 {
		_ = b.WriteByte('\n')
	}
	width := 0
	for _, f := range d.Facts {
		width = max(width, len(f.Name))
	}
	for _, f := range d.Facts {
		if v := text(f.Value); v != "" {
			fmt.Fprintf(b, "%-*s  %s\n", width, f.Name, render.Safe(v))
		}
	}
	for _, s := range d.Sections {
		fmt.Fprintf(b, "\n%s\n", strings.ToUpper(s.Title))
		if len(s.Rows) == 0 {
			fmt.Fprintf(b, "  %s\n", s.Empty)
			continue
		}
		if s.Note != "" {
			fmt.Fprintf(b, "  %s\n", s.Note)
		}
		s.table(b)
	}
	if len(d.Limits) > 0 {
		fmt.Fprintf(b, "\nWHAT THE TRAIL CANNOT TELL\n")
		for _, l := range d.Limits {
			fmt.Fprintf(b, "  - %s\n", render.Safe(l))
		}
	}
}

func (s *Section) table(b *bufio.Writer) {
	const widest = 60
	widths := make([]int, len(s.Columns))
	cells := make([][]string, 0, len(s.Rows)+1)
	head := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		head[i] = strings.ReplaceAll(c, "_", " ")
	}
	cells = append(cells, head)
	for _, row := range s.Rows {
		line := make([]string, len(row))
		for i, v := range row {
			line[i] = render.Safe(text(v))
			if line[i] == "" {
				line[i] = "-"
			}
		}
		cells = append(cells, line)
	}
	for _, line := range cells {
		for i, c := range line {
			if n := utf8.RuneCountInString(c); n <= widest {
				widths[i] = max(widths[i], n)
			}
		}
	}
	for _, line := range cells {
		var out strings.Builder
		for i, c := range line {
			out.WriteString("  " + c)
			if pad := widths[i] - utf8.RuneCountInString(c); pad > 0 && i < len(line)-1 {
				out.WriteString(strings.Repeat(" ", pad))
			}
		}
		fmt.Fprintln(b, out.String())
	}
	if s.Left > 0 {
		fmt.Fprintf(b, "  ... and %d more\n", s.Left)
	}
}

// ---- Markdown ----

func (d *Document) markdown(b *bufio.Writer) {
	fmt.Fprintf(b, "# Review: %s\n\n", d.Review)
	for _, warning := range d.Warnings {
		fmt.Fprintf(b, "**Warning:** %s\n\n", render.Markdown(warning))
	}
	for _, f := range d.Facts {
		if v := text(f.Value); v != "" {
			fmt.Fprintf(b, "- %s: %s\n", f.Name, render.Markdown(v))
		}
	}
	for _, s := range d.Sections {
		fmt.Fprintf(b, "\n## %s\n\n", render.Markdown(s.Title))
		if len(s.Rows) == 0 {
			fmt.Fprintf(b, "%s\n", render.Markdown(s.Empty))
			continue
		}
		if s.Note != "" {
			fmt.Fprintf(b, "%s\n\n", render.Markdown(s.Note))
		}
		for _, c := range s.Columns {
			fmt.Fprintf(b, "| %s ", strings.ReplaceAll(c, "_", " "))
		}
		b.WriteString("|\n")
		for range s.Columns {
			b.WriteString("|---")
		}
		b.WriteString("|\n")
		for _, row := range s.Rows {
			for _, v := range row {
				fmt.Fprintf(b, "| %s ", render.Markdown(text(v)))
			}
			b.WriteString("|\n")
		}
		if s.Left > 0 {
			fmt.Fprintf(b, "\n... and %d more\n", s.Left)
		}
	}
	if len(d.Limits) > 0 {
		b.WriteString("\n## What the trail cannot tell\n\n")
		for _, l := range d.Limits {
			fmt.Fprintf(b, "- %s\n", render.Markdown(l))
		}
	}
}

// ---- JSON ----

func (d *Document) json(b *bufio.Writer) {
	var out []byte
	key := func(name string) {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(render.AppendJSON(out, []byte(name)), ':')
	}
	out = append(out, '{')
	key("review")
	out = render.AppendJSON(out, []byte(d.Review))
	if len(d.Warnings) > 0 {
		key("warnings")
		out = appendJSONValue(out, d.Warnings)
	}
	for _, f := range d.Facts {
		key(strings.ReplaceAll(f.Name, " ", "_"))
		out = appendJSONValue(out, f.Value)
	}
	for _, s := range d.Sections {
		key(s.Key)
		out = append(out, '[')
		for i, row := range s.Rows {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, '{')
			for k, v := range row {
				if v != nil {
					key(s.Columns[k])
					out = appendJSONValue(out, v)
				}
			}
			out = append(out, '}')
			if len(out) > 1<<16 {
				_, _ = b.Write(out[:len(out)-1])
				out = append(out[:0], '}')
			}
		}
		out = append(out, ']')
		if s.Left > 0 {
			key(s.Key + "_left")
			out = strconv.AppendInt(out, s.Left, 10)
		}
	}
	key("limits")
	out = appendJSONValue(out, d.Limits)
	key("incomplete")
	out = strconv.AppendBool(out, d.Incomplete)
	_, _ = b.Write(append(out, '}', '\n'))
}

func appendJSONValue(out []byte, v any) []byte {
	switch v := v.(type) {
	case []string:
		out = append(out, '[')
		for i, s := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = render.AppendJSON(out, []byte(s))
		}
		return append(out, ']')
	case int, int64, uint64, bool:
		n, _ := json.Marshal(v)
		return append(out, n...)
	}
	return render.AppendJSON(out, []byte(text(v)))
}

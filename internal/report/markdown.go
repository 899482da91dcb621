// The same contents as Markdown and as JSON.

package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/render"
)

// WriteJSON writes the report as one object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(render.SafeJSON(w))
	e.SetIndent("", " ")
	return e.Encode(r)
}

// plain is a text in Markdown, in one line: no character of it is a mark.
func plain(s string) string { return render.MarkdownLine(strings.Join(strings.Fields(s), " ")) }

// code is a text in a code span, whatever it has of backquotes.
func code(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + " " + s + " " + fence
}

type markdown struct{ *bufio.Writer }

func (w markdown) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// WriteMarkdown writes the report as Markdown.
func (r *Report) WriteMarkdown(out io.Writer) error {
	w := markdown{bufio.NewWriter(out)}
	w.line("# %s: %s to %s\n", plain(r.Title), plain(r.Since), plain(r.Until))
	w.line("Trail %s, time zone %s. Made %s by steno %s.\n", plain(strings.Join(r.Trails, ", ")), plain(r.Zone), plain(r.Made), plain(r.Version))
	if r.Filter != "" {
		w.line("Only %s.\n", plain(r.Filter))
	}
	if r.First != "" {
		w.line("Records from %s to %s.\n", plain(r.First), plain(r.Last))
	}
	w.line("## Verdict\n\n%s\n", plain(r.Verdict.Text))
	for _, f := range r.Verdict.Facts {
		w.line("- %s: %s", plain(f.Name), plain(f.Text))
	}
	for _, l := range []struct {
		name string
		list []string
	}{{"damage", r.Verdict.Damage}, {"unreadable", r.Verdict.Unread}, {"warning", r.Verdict.Warnings}} {
		for _, s := range l.list {
			w.line("- %s: %s", l.name, plain(s))
		}
	}
	w.line("\n## Was everything recorded?\n")
	for _, f := range r.RecordedLines() {
		w.line("- %s: %s", plain(f.Name), plain(f.Text))
	}
	w.line("\n## Key figures\n")
	for _, f := range r.Figures {
		name := f.Name
		if f.Records.Effects != "" {
			name += ", " + f.Records.Effects
		}
		w.line("- %s %s", humanize.Comma(f.Records.Count), plain(name))
		w.records(f.Records)
	}
	if s := r.Standard; s != nil {
		w.standard(s)
	}
	for i := range r.Sections {
		w.section(&r.Sections[i])
	}
	w.line("\n## Method\n")
	for _, n := range r.Notes {
		w.line("- %s", plain(n))
	}
	return w.Flush()
}

func (w markdown) standard(s *Standard) {
	w.line("\n## %s\n\n%s\n", plain(s.Title), plain(s.About))
	for _, r := range s.Rows {
		w.line("- **%s** %s (can be covered: %s)", plain(r.ID), plain(r.AsksFor), plain(r.Covered))
		for _, shown := range r.Shows {
			w.line("  - %s", plain(shown.Text))
		}
		if len(r.Shows) == 0 {
			w.line("  - not shown by a trail")
		}
		if r.Left != "" {
			w.line("  - left to you: %s", plain(r.Left))
		}
	}
}

func (w markdown) section(s *Section) {
	w.line("\n## %s\n\n%s\n\n%s", plain(s.Title), plain(s.Summary), plain(s.About))
	for _, n := range s.Notes {
		w.line("\n%s", plain(n))
	}
	for _, c := range s.Charts {
		if c.Hours != nil {
			w.hours(&c)
		}
	}
	for i := range s.Tables {
		if t := &s.Tables[i]; len(t.Rows) > 0 {
			w.table(t)
		}
	}
}

func (w markdown) hours(c *Chart) {
	w.line("\n### %s\n", plain(c.Title))
	head, rule := "| |", "|---|"
	for h := range 24 {
		head += fmt.Sprintf(" %02d |", h)
		rule += "---:|"
	}
	w.line("%s\n%s", head, rule)
	for d, day := range days {
		row := "| " + day + " |"
		for _, n := range c.Hours[d] {
			row += " " + humanize.Comma(n) + " |"
		}
		w.line("%s", row)
	}
}

func (w markdown) table(t *Table) {
	head, rule := "|", "|"
	for _, c := range t.Columns {
		head += " " + plain(c.Name) + " |"
		if rule += "---"; c.Number {
			rule += ":"
		}
		rule += "|"
	}
	w.line("\n### %s\n\n%s\n%s", plain(t.Caption), head, rule)
	for _, r := range t.Rows {
		row := "|"
		for _, c := range r.Cells {
			row += " " + plain(c.Text) + " |"
		}
		w.line("%s", row)
	}
	if t.Others != "" {
		w.line("\n%s", plain(t.Others))
	}
	first := true
	for _, r := range t.Rows {
		for _, records := range r.Records {
			if records.Count == 0 {
				continue
			}
			if first {
				w.line("\nRecords:\n")
				first = false
			}
			w.line("- %s%s: %s", plain(r.Cells[0].Text), plain(label(records.Label)), plain(records.number()))
			w.records(records)
		}
	}
}

func label(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

func (w markdown) records(r Records) {
	if r.Command != "" {
		w.line("  - %s", code(r.Command))
	}
	for _, s := range r.Samples {
		w.line("  - %s", plain(strings.Join([]string{s.Time, s.Record(), s.Who(), s.Command, s.Objects, s.Result(), s.Message, s.Text}, " ")))
	}
}

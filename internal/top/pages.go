// The pages behind a row: records, the fields of one, what is wrong, help.

package top

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

type pageKind int

const (
	recordsPage pageKind = iota
	fieldsPage
	problemsPage
	helpPage
)

// page is what is shown in place of the first screen.
type page struct {
	kind   pageKind
	number int
	title  string
	loaded bool
	err    error
	filter string
	list
	cat    bool // records as steno cat shows them
	scroll int  // cells by which these are scrolled to the left

	lines  []Line
	fields []Field
}

// setContent sets the content of the page.
func (p *page) setContent(o opened) {
	p.loaded, p.err, p.lines, p.fields = true, o.err, o.lines, o.fields
	p.index = max(len(p.lines)-1, 0)
}

// open shows a page.
func (m *Model) open(p *page) {
	m.pagesOpened++
	p.number = m.pagesOpened
	m.pages = append(m.pages, p)
}

// openRecords opens the page of a row's records.
func (m *Model) openRecords(row *Row) tea.Cmd {
	s := m.snapshot
	sel := Selection{From: s.From, To: s.To, By: s.By, Name: row.Name}
	p := &page{kind: recordsPage, title: s.By.String() + " " + nameOf(row)}
	m.open(p)
	return guarded(func() tea.Msg {
		lines, err := m.asker.Records(sel)
		return opened{page: p.number, lines: lines, err: err}
	})
}

// openFields opens the page of a record.
func (m *Model) openFields(session format.SessionID, seq uint64, end int64) tea.Cmd {
	p := &page{kind: fieldsPage, title: "record " + session.String() + "/" + strconv.FormatUint(seq, 10)}
	m.open(p)
	return guarded(func() tea.Msg {
		fields, err := m.asker.Fields(session, seq, end)
		return opened{page: p.number, fields: fields, err: err}
	})
}

// pressPage handles a key on a page.
func (m *Model) pressPage(key string) tea.Cmd {
	p := m.page()
	if p.kind == recordsPage {
		lines := p.filteredLines()
		if by := keySteps(key, m.bodyHeight()); by != 0 {
			p.index = max(min(p.index+by, len(lines)-1), 0)
			return nil
		}
		if key == "enter" && p.index < len(lines) {
			l := lines[p.index]
			return m.openFields(l.Session, l.Seq, l.End)
		}
		switch key {
		case "v":
			p.cat, p.scroll = !p.cat, 0
		case "left", "right":
			p.cat = true
			p.scroll = max(p.scroll+map[string]int{"left": -1, "right": 1}[key]*max(m.width/2, 1), 0)
			return nil
		}
	} else if by := keySteps(key, m.bodyHeight()); by != 0 {
		p.top = max(min(p.top+by, len(m.pageText(p))-m.bodyHeight()), 0)
		return nil
	}
	switch key {
	case "esc", "backspace":
		if p.filter != "" && key == "esc" {
			p.filter = ""
			return nil
		}
		m.pages = m.pages[:len(m.pages)-1]
	}
	return nil
}

// filteredLines returns the records that match the filter.
func (p *page) filteredLines() []Line {
	if p.filter == "" {
		return p.lines
	}
	return slices.DeleteFunc(slices.Clone(p.lines), func(l Line) bool { return !containsFilter(p.filter, l.Cat) })
}

// pageText returns the text of a page that is not a list.
func (m *Model) pageText(p *page) (lines []string) {
	switch p.kind {
	case helpPage:
		lines = m.help()
	case problemsPage:
		for _, problem := range m.snapshot.Problems {
			lines = append(lines, m.lines(problem, m.width)...)
		}
		if n := m.snapshot.NoProblems - len(m.snapshot.Problems); n > 0 {
			lines = append(lines, fmt.Sprintf("and %d more", n))
		}
	default:
		lines = m.fieldLines(p.fields)
	}
	if p.filter == "" {
		return lines
	}
	return slices.DeleteFunc(lines, func(l string) bool { return !containsFilter(p.filter, l) })
}

// fieldLines formats fields: names on the left, and beside them the values, in full.
func (m *Model) fieldLines(fields []Field) (lines []string) {
	const name = 14
	for _, f := range fields {
		for i, value := range m.lines(f.Value, max(m.width-name, 10)) {
			if i > 0 {
				f.Name = ""
			}
			lines = append(lines, m.left(f.Name, name-1)+" "+value)
		}
	}
	return lines
}

// help explains keys and columns.
func (m *Model) help() (lines []string) {
	keys := 24
	if m.width < 60 {
		keys = 12
	}
	for _, k := range Keys {
		for i, what := range m.lines(wrap(k.What, max(m.width-keys, 10)), max(m.width-keys, 10)) {
			if i > 0 {
				k.Keys = ""
			}
			lines = append(lines, m.left(k.Keys, keys-1)+" "+what)
		}
	}
	lines = append(lines, "")
	for _, c := range columns {
		for i, what := range m.lines(wrap(c.help, max(m.width-keys, 10)), max(m.width-keys, 10)) {
			name := c.name
			if i > 0 {
				name = ""
			}
			lines = append(lines, m.left(name, keys-1)+" "+what)
		}
	}
	return lines
}

// wrap breaks a text between words.
func wrap(s string, n int) string {
	out, at := []byte(s), 0
	for len(out)-at > n {
		i := at + n
		for i > at && out[i] != ' ' {
			i--
		}
		if i == at {
			break
		}
		out[i] = '\n'
		at = i + 1
	}
	return string(out)
}

// fieldsOf returns what is known about a running statement.
func (m *Model) fieldsOf(r *Running) (fields []Field) {
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, Field{name, value})
		}
	}
	add("start", m.time(r.Start, time.DateTime+".000000Z07:00"))
	add("running", duration(uint64(max(m.snapshot.Now-r.Start, 0))))
	add("pid", strconv.FormatUint(uint64(r.PID), 10))
	if r.Known {
		add("session", r.Session.String())
	}
	add("user", render.Identifier(r.User))
	add("database", render.Identifier(r.Database))
	add("application", render.Identifier(r.Application))
	add("client", r.Client)
	add("command", r.What)
	add("text", r.Text)
	if n := uint64(len(r.Text)); r.TextLen > n {
		add("text_bytes", strconv.FormatUint(r.TextLen, 10)+", of which the beginning is shown")
	}
	return fields
}

// time shows a moment in the zone of the screen.
func (m *Model) time(usec int64, layout string) string {
	zone := m.Zone
	if zone == nil {
		zone = time.UTC
	}
	return Clock(usec).In(zone).Format(layout)
}

// nameOf returns the name of a row as it is shown.
func nameOf(r *Row) string {
	name := render.Identifier(r.Name)
	if name == "" {
		name = "(none)"
	}
	if r.Note != "" {
		name += " " + r.Note
	}
	return name
}

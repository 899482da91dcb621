// Package regress compares a server's own log with its trail, statement by statement.
//
// The log is csvlog with log_statement = all and log_min_error_statement = error: one line for each string that a
// client executed, and one for each failure. A string may contain several statements, each with its own record;
// together the records must cover the string, up to the point of failure. Text, user, database and SQLSTATE must agree
// (compare.go). Intended differences are counted by name, never ignored silently.
package regress

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// sent is a string that a client sent according to the log, with its outcome.
type sent struct {
	text           string
	user, database string
	sqlState       string // of its failure; "": it did not fail
	executed       bool   // it was executed; otherwise it failed before execution
	fastpath       bool   // a function call by OID
	tag            string // the command tag in the log: a command, or "idle", "PARSE" and so on
	unnamed        bool   // a failed message whose statement is not in the log
}

// record has the fields of a line of "steno cat --format json" that are compared.
type record struct {
	Kind      string   `json:"kind"`
	Session   string   `json:"session"`
	Seq       uint64   `json:"seq"`
	Statement uint64   `json:"statement"`
	Depth     int      `json:"depth"`
	User      string   `json:"user"`
	Database  string   `json:"database"`
	Command   string   `json:"command"`
	Class     string   `json:"class"`
	Text      *string  `json:"text"`
	Outcome   string   `json:"outcome"`
	SQLState  string   `json:"sqlstate"`
	Objects   []object `json:"objects"`
}

type object struct {
	Name string `json:"name"`
}

func (r *record) text() string {
	if r.Text == nil {
		return ""
	}
	return *r.Text
}

// session is the contents of the log and the trail about a session.
type session struct {
	id      string
	entries []*entry
	sent    []*sent
	records []*record
	acts    map[string]bool // users that it has switched to
}

// Report is the result of a comparison.
type Report struct {
	Sent, Records             int
	Missing, Extra, Different int
	ByDesign                  map[string]int
	list                      io.Writer
	sessions                  map[string]*session
}

// Compare compares logs with a trail, and writes the differences to list.
func Compare(logs []io.Reader, trail io.Reader, list io.Writer) (*Report, error) {
	r := &Report{ByDesign: map[string]int{}, list: list, sessions: map[string]*session{}}
	for _, log := range logs {
		if err := readLog(log, r.takeEntry); err != nil {
			return nil, err
		}
	}
	if err := r.readTrail(trail); err != nil {
		return nil, err
	}
	var ids []string
	for id := range r.sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		s := r.sessions[id]
		slices.SortStableFunc(s.entries, func(a, b *entry) int { return a.line - b.line })
		r.strings(s)
		slices.SortStableFunc(s.records, func(a, b *record) int { return int(int64(a.Statement) - int64(b.Statement)) })
		r.compare(s)
	}
	return r, nil
}

func (r *Report) session(id string) *session {
	s := r.sessions[id]
	if s == nil {
		s = &session{id: id}
		r.sessions[id] = s
	}
	return s
}

func (r *Report) takeEntry(e *entry) {
	if e.severity != "LOG" && e.severity != "ERROR" && e.severity != "FATAL" && e.severity != "PANIC" {
		return
	}
	s := r.session(e.session)
	s.entries = append(s.entries, e)
}

func (r *Report) readTrail(from io.Reader) error {
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var x record
			if err := json.Unmarshal(line, &x); err != nil {
				return fmt.Errorf("trail: %w: %.200s", err, line)
			}
			if x.Kind == "statement" && x.Depth == 0 {
				s := r.session(x.Session)
				s.records = append(s.records, &x)
				r.Records++
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// strings extracts the strings that a session sent from its log.
func (r *Report) strings(s *session) {
	var last *sent
	for _, e := range s.entries {
		switch e.severity {
		case "LOG":
			text, fastpath, ok := executed(e.message)
			if !ok {
				continue
			}
			last = &sent{text: text, user: e.user, database: e.database, executed: true, fastpath: fastpath, tag: e.tag}
			s.sent = append(s.sent, last)
		default:
			if e.backend == "parallel worker" {
				r.ByDesign["failure that a parallel worker also logs"]++
				continue
			}
			if e.query == "" {
				switch {
				case e.severity != "ERROR":
				case last != nil && last.sqlState == "" && (last.fastpath || last.fails(e)):
					last.sqlState = e.sqlState
				case e.backend == "client backend":
					last = &sent{user: e.user, database: e.database, sqlState: e.sqlState, unnamed: true}
					s.sent = append(s.sent, last)
				default:
					r.ByDesign["failure without a statement"]++
				}
				continue
			}
			// A string that fails in Parse or Bind has not been executed, even if the same text was executed before.
			if last == nil || last.text != e.query || last.sqlState != "" || e.tag == "PARSE" || e.tag == "BIND" {
				last = &sent{text: e.query, user: e.user, database: e.database}
				s.sent = append(s.sent, last)
			}
			last.sqlState = e.sqlState
		}
	}
	r.Sent += len(s.sent)
}

// fails reports whether a failure that is logged without text is that of the commit of the last statement in a
// pipeline: its line still has that statement's command tag.
func (x *sent) fails(e *entry) bool {
	return x.executed && x.tag == e.tag && !strings.HasPrefix(e.tag, "idle")
}

// executed returns the text in a message of log_statement.
func executed(message string) (text string, fastpath, ok bool) {
	if text, ok = strings.CutPrefix(message, "statement: "); ok {
		return text, false, true
	}
	if text, ok = strings.CutPrefix(message, "fastpath function call: "); ok {
		return text, true, true
	}
	if rest, found := strings.CutPrefix(message, "execute "); found {
		if _, text, ok = strings.Cut(rest, ": "); ok {
			return text, false, true
		}
	}
	return "", false, false
}

func (r *Report) differ(kind, format string, args ...any) {
	switch kind {
	case "missing":
		r.Missing++
	case "extra":
		r.Extra++
	default:
		r.Different++
	}
	if r.list != nil {
		fmt.Fprintf(r.list, "%s: %s\n", kind, fmt.Sprintf(format, args...))
	}
}

// Write writes the figures; those that must be 0 come last.
func (r *Report) Write(out io.Writer) {
	var names []string
	for name := range r.ByDesign {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(out, "by design: %s: %d\n", name, r.ByDesign[name])
	}
	fmt.Fprintf(out, "%d strings in the log of %d sessions, %d records of statements\n", r.Sent, len(r.sessions), r.Records)
	fmt.Fprintf(out, "missing, extra, different: %d, %d, %d\n", r.Missing, r.Extra, r.Different)
}

// Agrees reports whether nothing is missing, extra or different.
func (r *Report) Agrees() bool { return r.Missing+r.Extra+r.Different == 0 }

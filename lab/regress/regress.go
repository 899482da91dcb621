// Package regress compares a server's own log with its trail, statement by statement.
//
// The log is csvlog with log_statement = all, or log_min_duration_statement = 0, and log_min_error_statement = error:
// one line for each string that a client executed, and one for each failure (sent.go). A string may contain several
// statements, each with its own record; together the records must cover the string, up to the point of failure. Text,
// parameters, user, database, application, query ID and SQLSTATE must agree (compare.go). Intended differences are
// counted by name, never ignored silently.
//
// With log_min_duration_statement = 0, the log has the duration of each message (durations.go). Without log_statement,
// nothing is written between the beginning of a message and the end of its duration. What
// pg_stat_statements has counted is compared, too, if it is given: calls, rows and durations of each query, nested
// ones included (statistics.go).
package regress

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// record has the fields of a line of "steno cat --format json" that are compared.
type record struct {
	Kind        string            `json:"kind"`
	Session     string            `json:"session"`
	Seq         uint64            `json:"seq"`
	Statement   uint64            `json:"statement"`
	Depth       int               `json:"depth"`
	User        string            `json:"user"`
	Database    string            `json:"database"`
	Command     string            `json:"command"`
	Class       string            `json:"class"`
	Text        *string           `json:"text"`
	Application string            `json:"application"`
	Role        string            `json:"role"`
	Extra       map[string]string `json:"extra"`
	Params      []*string         `json:"params"`
	QueryID     int64             `json:"query_id"`
	Rows        int64             `json:"rows"`
	Duration    int64             `json:"duration_us"`
	Analysis    int64             `json:"analysis_us"`
	Plan        int64             `json:"plan_us"`
	Commit      int64             `json:"commit_us"`
	Outcome     string            `json:"outcome"`
	SQLState    string            `json:"sqlstate"`
	Objects     []object          `json:"objects"`

	confirmed bool // the log has the same duration
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
	// transactions may have failed while cursors were open, whose ends the statistics do not count; rows are not
	// compared
	Aborts   bool
	list     io.Writer
	sessions map[string]*session
	recorded queries
	within   int  // utility statements that may have a query of their own
	ends     bool // the log has no lines when statements begin (log_statement), but when they end
}

// Compare compares logs with a trail, and writes the differences to list.
func Compare(logs []io.Reader, trail io.Reader, list io.Writer) (*Report, error) {
	r := &Report{ByDesign: map[string]int{}, list: list, sessions: map[string]*session{}, recorded: queries{}}
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
		slices.SortStableFunc(s.records, func(a, b *record) int {
			return int(int64(a.Statement) - int64(b.Statement))
		})
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
	r.ends = r.ends || e.severity == "LOG" && ended.MatchString(e.message)
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
			if x.Kind == "statement" && x.QueryID != 0 {
				r.recorded.add(&x)
			}
			if x.Kind == "statement" && slices.Contains(withQuery, x.Command) {
				r.within++
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
	fmt.Fprintf(out, "%d strings in the log of %d sessions, %d records of statements\n", r.Sent,
		len(r.sessions), r.Records)
	fmt.Fprintf(out, "missing, extra, different: %d, %d, %d\n", r.Missing, r.Extra, r.Different)
}

// Agrees reports whether nothing is missing, extra or different.
func (r *Report) Agrees() bool { return r.Missing+r.Extra+r.Different == 0 }

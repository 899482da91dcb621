// Extracts the strings that a session sent, with their outcomes, from its part of the log.

package regress

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// sent is a string that a client sent according to the log, with its outcome. In the extended protocol, it is a
// portal: from Bind, if the log has the durations of messages, or else from Execute.
type sent struct {
	text           string
	user, database string
	application    string
	parameters     []*string // nil: the log has none
	queryID        int64     // of its last statement; 0: not in the log
	sqlState       string    // of its failure; "": it did not fail
	executed       bool      // it was executed; otherwise it failed before execution
	bound          bool      // it was bound, but not executed
	extended       bool      // it was sent in the extended protocol
	fastpath       bool      // a function call by OID
	tag            string    // the command tag in the log: a command, or "idle", "PARSE" and so on
	unnamed        bool      // a failed message whose statement is not in the log

	parse   time.Duration // of the Parse before the first Bind
	took    time.Duration // of its other messages
	timed   int           // number of its messages whose duration is in the log
	pieces  int           // number of Execute messages
	records []*record     // that agree with it
}

// parsed is the time that the Parse messages of a statement took.
type parsed struct {
	text string
	took time.Duration
}

// logReader makes strings from the lines of a session's log.
type logReader struct {
	report      *Report
	session     *session
	last        *sent             // the string that was executed last
	current     *sent             // the string that the last line is about
	application string            // the application's name at the last line
	portals     map[string]*sent  // by name
	parses      map[string]parsed // of prepared statements that have not been bound yet
}

// strings extracts the strings that a session sent from its log.
func (r *Report) strings(s *session) {
	l := &logReader{report: r, session: s, portals: map[string]*sent{}, parses: map[string]parsed{}}
	for _, e := range s.entries {
		if e.severity == "LOG" {
			l.message(e)
		} else {
			l.failure(e)
		}
		l.application = e.application
	}
	for _, x := range s.sent {
		if !x.bound {
			r.Sent++
		}
	}
}

func (l *logReader) add(e *entry, x *sent) *sent {
	x.user, x.database, x.application = e.user, e.database, e.application
	l.session.sent = append(l.session.sent, x)
	return x
}

const canceled = "57014"

var (
	duration = regexp.MustCompile(`(?s)^duration: (\d+\.\d+) ms(?:  (.*))?$`)
	prepared = regexp.MustCompile(`(?s)^(parse|bind) (.*?): (.*)$`)
	ended    = regexp.MustCompile(`^duration: \d+\.\d+ ms  (statement|fastpath function call|execute)\b`)
	// of a portal: the name of its prepared statement, and of itself unless it is the unnamed one
	execution = regexp.MustCompile(`(?s)^execute (fetch from )?(.*?): (.*)$`)
)

func (l *logReader) message(e *entry) {
	m := duration.FindStringSubmatch(e.message)
	if m == nil {
		l.beginExecution(e, e.message)
		return
	}
	ms, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return
	}
	took := time.Duration(ms * float64(time.Millisecond))
	l.current = nil
	if p := prepared.FindStringSubmatch(m[2]); p != nil {
		l.prepare(e, took, p[1], p[2], p[3])
		return
	}
	if m[2] != "" {
		was := *e
		was.application = l.application // the statement may have set another name
		l.beginExecution(&was, m[2])
	}
	l.current = l.last
	if l.last != nil {
		l.last.took += took
		l.last.timed++
		if e.queryID != 0 {
			l.last.queryID = e.queryID
		}
	}
}

// beginExecution notes that something is executed. The log says so when it begins, if log_statement is on, or else
// with its duration.
func (l *logReader) beginExecution(e *entry, what string) {
	if text, ok := strings.CutPrefix(what, "statement: "); ok {
		l.last = l.add(e, &sent{text: text, executed: true, tag: e.tag, pieces: 1})
		delete(l.portals, "")
	} else if text, ok := strings.CutPrefix(what, "fastpath function call: "); ok {
		l.last = l.add(e, &sent{text: text, executed: true, fastpath: true, tag: e.tag, pieces: 1})
	} else if m := execution.FindStringSubmatch(what); m != nil {
		l.execute(e, m[1] != "", m[2], m[3])
	}
}

// portal splits the name of a prepared statement from that of a portal.
func portal(names string) (statement, portal string) {
	statement, portal, _ = strings.Cut(names, "/")
	return
}

func (l *logReader) execute(e *entry, again bool, names, text string) {
	_, name := portal(names)
	x := l.portals[name]
	// A portal that has returned no row yet is at its start again, which the log calls a new execution.
	again = again || x != nil && x.timed > 0 && x.sqlState == ""
	if x == nil || x.text != text || x.executed && !again {
		x = l.add(e, &sent{text: text, extended: true})
		l.portals[name] = x
	}
	x.executed, x.bound, x.tag, x.application = true, false, e.tag, e.application
	x.pieces++
	if p := parameters(e.detail); p != nil {
		x.parameters = p
	}
	if e.queryID != 0 {
		x.queryID = e.queryID
	}
	l.last = x
}

// prepare notes the duration of a Parse or Bind.
func (l *logReader) prepare(e *entry, took time.Duration, message, names, text string) {
	statement, name := portal(names)
	if message == "parse" {
		p := l.parses[statement]
		if p.text != text {
			p = parsed{text: text} // it replaces another statement
		}
		p.took += took
		l.parses[statement] = p
		return
	}
	x := l.add(e, &sent{text: text, extended: true, bound: true, parameters: parameters(e.detail)})
	x.parse = l.parses[statement].took
	delete(l.parses, statement)
	x.took, x.timed = took, 1
	l.portals[name], l.current = x, x
}

// failing returns what a failure in its execution is of, if the log has no line for the beginning of a statement: the
// portal with this text that the last line is of, or another one; nil: a string that the log does not have yet.
func (l *logReader) failing(e *entry) *sent {
	if l.current != nil && l.current.extended && l.current.text == e.query && l.current.sqlState == "" {
		return l.current
	}
	for _, x := range l.portals {
		if x.text == e.query && x.executed && x.sqlState == "" {
			return x
		}
	}
	return nil
}

func (l *logReader) failure(e *entry) {
	r, last := l.report, l.last
	if e.backend == "parallel worker" {
		r.ByDesign["failure that a parallel worker also logs"]++
		return
	}
	if e.query == "" {
		switch {
		case e.severity != "ERROR":
		case last != nil && last.sqlState == "" && (last.fastpath || last.fails(e)):
			last.sqlState = e.sqlState
		case e.backend == "client backend":
			l.last = l.add(e, &sent{sqlState: e.sqlState, unnamed: true})
		default:
			r.ByDesign["failure without a statement"]++
		}
		return
	}
	if r.ends {
		l.failureWithoutBeginning(e)
		return
	}
	// A portal that cannot be executed now is unchanged: its earlier executions have a record of their own.
	if last != nil && last.extended && last.text == e.query && last.pieces+last.timed > 1 &&
		(e.sqlState == "25P02" || strings.HasPrefix(e.message, "portal \"")) {
		last.pieces--
		last.executed, last.bound = last.pieces > 0, last.pieces == 0 && last.timed > 0
		last = nil
	}
	if l.failedAfterBind(e) {
		return
	}
	// A string that fails in Parse or Bind has not been executed, even if the same text was executed before.
	if last == nil || last.text != e.query || last.sqlState != "" || e.tag == "PARSE" || e.tag == "BIND" {
		last = l.add(e, &sent{text: e.query})
		l.last = last
	}
	last.sqlState = e.sqlState
}

// failedAfterBind notes a cancel request, or the end of the session, that came when Bind had ended.
func (l *logReader) failedAfterBind(e *entry) bool {
	n := len(l.session.sent)
	if n == 0 || e.tag != "BIND" || e.sqlState != canceled && e.severity != "FATAL" {
		return false
	}
	x := l.session.sent[n-1]
	if !x.bound || x.text != e.query {
		return false
	}
	x.bound, x.sqlState, x.parameters = false, e.sqlState, nil
	l.last = x
	return true
}

// failureWithoutBeginning notes a failure of a statement if the log has no line for its beginning.
func (l *logReader) failureWithoutBeginning(e *entry) {
	if l.failedAfterBind(e) {
		return
	}
	executed := e.tag != "PARSE" && e.tag != "BIND" && !strings.HasPrefix(e.tag, "idle")
	var x *sent
	if executed && e.sqlState != "25P02" && !strings.HasPrefix(e.message, "portal \"") {
		x = l.failing(e)
	}
	if x == nil {
		x = l.add(e, &sent{text: e.query, executed: executed})
	} else {
		x.executed, x.bound = true, false
	}
	x.pieces++
	x.tag, x.sqlState = e.tag, e.sqlState
	l.last, l.current = x, x
}

// fails reports whether a failure that is logged without text is that of the commit of the last statement in a
// pipeline: its line still has that statement's command tag.
func (x *sent) fails(e *entry) bool {
	const noPortal, noStatement = "34000", "26000" // an Execute or Bind of something that does not exist
	return x.executed && x.tag == e.tag && !strings.HasPrefix(e.tag, "idle") && e.sqlState != noPortal &&
		e.sqlState != noStatement
}

// parameters returns the values in a line's detail: nil, there are none; a nil element is NULL.
func parameters(detail string) []*string {
	rest, ok := strings.CutPrefix(detail, "parameters: ")
	if !ok {
		if rest, ok = strings.CutPrefix(detail, "Parameters: "); !ok { // since PostgreSQL 16
			return nil
		}
	}
	var all []*string
	for rest != "" {
		_, value, ok := strings.Cut(rest, " = ")
		if !ok {
			return nil
		}
		if rest, ok = strings.CutPrefix(value, "NULL"); ok {
			all = append(all, nil)
		} else {
			var v string
			if v, rest, ok = quoted(value); !ok {
				return nil
			}
			all = append(all, &v)
		}
		rest = strings.TrimPrefix(rest, ", ")
	}
	return all
}

// quoted returns the literal at the beginning of a string, in which quotes are doubled, and what follows.
func quoted(s string) (value, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, "'")
	if !ok {
		return "", "", false
	}
	var b strings.Builder
	for {
		part, after, found := strings.Cut(s, "'")
		if !found {
			return "", "", false
		}
		b.WriteString(part)
		if s, found = strings.CutPrefix(after, "'"); !found {
			return b.String(), after, true
		}
		b.WriteByte('\'')
	}
}

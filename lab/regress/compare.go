// Compares the server's csvlog with the trail, string by string.

package regress

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// hidden replaces a secret in a record's text.
const hidden = "<redacted>"

// lookAhead is how far the other side is searched for a match.
const lookAhead = 200

// compare walks through the strings of the log and the records of the trail, which
// are in the same order.
func (r *Report) compare(s *session) {
	i, j := 0, 0
	for i < len(s.sent) || j < len(s.records) {
		if i == len(s.sent) {
			r.extra(s, s.records[j])
			j++
			continue
		}
		x := s.sent[i]
		n, covered := x.matchRecords(s.records[j:])
		if n == 0 && x.bound {
			i++ // its portal was never executed
			continue
		}
		if n == 0 && blank(x.text) && !x.unnamed {
			r.ByDesign["empty string"]++
			i++
			continue
		}
		if n == 0 {
			missing, extra := s.skip(i, j)
			for range missing {
				r.missing(s, s.sent[i])
				i++
			}
			for range extra {
				r.extra(s, s.records[j])
				j++
			}
			continue
		}
		if x.sqlState != "" && j+n < len(s.records) && s.records[j+n].failsAfter(x, s.records[j+n-1]) {
			r.ByDesign["failure after the end of its statement, which the client had been told"]++
			x.sqlState = ""
			r.agree(s, x, s.records[j:j+n], covered)
			x.sqlState = s.records[j+n].SQLState
			n++
		} else {
			r.agree(s, x, s.records[j:j+n], covered)
		}
		i++
		j += n
	}
}

// failsAfter reports whether a record is that of a failure, such as a cancel request, that came when the statement had
// ended well.
func (r *record) failsAfter(x *sent, before *record) bool {
	return before.Outcome == "ok" && r.Outcome == "error" && r.SQLState == x.sqlState && r.text() == x.text &&
		r.Class == "error"
}

// skip returns how many strings and records must be skipped until both match again.
func (s *session) skip(i, j int) (missing, extra int) {
	for distance := 1; distance < lookAhead; distance++ {
		if j+distance < len(s.records) {
			if n, _ := s.sent[i].matchRecords(s.records[j+distance:]); n > 0 {
				return 0, distance
			}
		}
		if i+distance < len(s.sent) && j < len(s.records) {
			if n, _ := s.sent[i+distance].matchRecords(s.records[j:]); n > 0 {
				return distance, 0
			}
		}
	}
	if j < len(s.records) {
		return 1, 1
	}
	return 1, 0
}

// matchRecords returns how many successive records belong to the string, and whether only comments are left between
// and after them.
func (x *sent) matchRecords(records []*record) (n int, covered bool) {
	if x.fastpath {
		if len(records) > 0 && records[0].calls(x.text) {
			return 1, true
		}
		return 0, false
	}
	if x.unnamed {
		if len(records) > 0 && records[0].text() == "" && records[0].Outcome == "error" {
			return 1, true
		}
		return 0, false
	}
	rest := x.text
	covered = true
	for n < len(records) {
		before, after, ok := cut(rest, records[n].text())
		// only the record of a failure may begin later, because the error has a position
		if !ok || !blank(before) && !(records[n].Outcome == "error" && x.sqlState != "") {
			break
		}
		covered = covered && blank(before)
		rest = after
		n++
		if blank(rest) || records[n-1].Outcome == "error" {
			break
		}
	}
	return n, covered && blank(rest)
}

var called = regexp.MustCompile(`^"(.*)" \(OID \d+\)$`)

// calls reports whether a record is that of the function call in the log.
func (r *record) calls(what string) bool {
	m := called.FindStringSubmatch(what)
	return m != nil && r.Command == "FUNCTION CALL" && slices.ContainsFunc(r.Objects, func(o object) bool {
		return o.Name == "pg_catalog."+m[1] || o.Name == m[1]
	})
}

// cut finds a record's text in a string; hidden parts of it match anything.
func cut(text, of string) (before, after string, ok bool) {
	if of == "" {
		return "", "", false
	}
	parts := strings.Split(of, hidden)
	before, after, ok = strings.Cut(text, parts[0])
	for _, part := range parts[1:] {
		if !ok {
			return
		}
		if part == "" {
			after = after[literal(after):]
			continue
		}
		_, after, ok = strings.Cut(after, part)
	}
	return
}

// literal returns the length of a word or literal at the beginning.
func literal(s string) int {
	if n := strings.IndexAny(s, " ;\n\t)"); n >= 0 {
		return n
	}
	return len(s)
}

func (r *Report) agree(s *session, x *sent, records []*record, covered bool) {
	last := records[len(records)-1]
	s.become(x.text)
	wrong := func(format string, args ...any) {
		r.differ("different", "session %s, %s: %.300q", s.id, fmt.Sprintf(format, args...), x.text)
	}
	if x.sqlState == "" && !covered {
		wrong("the %d records up to %.100q do not cover it", len(records), last.text())
		return
	}
	if !x.executed && !covered {
		wrong("it failed as a whole, but its record contains only %.200q", last.text())
		return
	}
	for _, rec := range records {
		if strings.Contains(rec.text(), hidden) && !strings.Contains(x.text, hidden) {
			r.ByDesign["text with a redacted secret"]++
		}
		if rec.User != x.user && s.acts[rec.User] {
			r.ByDesign["user of SET SESSION AUTHORIZATION (the log has the user who logged in)"]++
		} else if rec.User != x.user || rec.Database != x.database {
			wrong("user and database are %s and %s, but recorded as %s and %s", x.user, x.database, rec.User,
				rec.Database)
			return
		}
		if rec.Application != x.application && x.application != "" {
			wrong("the application is %q, but recorded as %q", x.application, rec.Application)
			return
		}
		if rec != last && rec.Outcome != "ok" {
			wrong("recorded as %s %s", rec.Outcome, rec.SQLState)
			return
		}
	}
	if x.bound {
		return
	}
	x.records = records
	if x.queryID != 0 && last.QueryID != 0 && x.queryID != last.QueryID {
		wrong("its query ID is %d, but recorded as %d", x.queryID, last.QueryID)
	}
	if x.parameters != nil && last.Extra["parameters_omitted"] != "" {
		r.ByDesign["short record without parameters"]++
	} else if x.parameters != nil && !slices.EqualFunc(x.parameters, last.Params, sameValue) {
		wrong("its parameters are %s, but recorded as %s", values(x.parameters), values(last.Params))
	}
	switch {
	case x.sqlState == "" && x.extended && last.Outcome == "error" && s.fetchFailed(last.SQLState):
		r.ByDesign["portal that failed in a FETCH or MOVE"]++
	case x.sqlState == "" && last.Outcome != "ok":
		wrong("it did not fail, but is recorded as %s %s", last.Outcome, last.SQLState)
	case x.sqlState != "" && (last.Outcome != "error" || last.SQLState != x.sqlState):
		wrong("it failed with %s, but is recorded as %s %s", x.sqlState, last.Outcome, last.SQLState)
	}
}

// fetchRefused is the SQLSTATE of a FETCH or MOVE that a portal cannot do: it has failed, but not the portal's query.
const fetchRefused = "55000"

// fetchFailed reports whether a FETCH or MOVE of the session failed so when it ran a query: that has then failed, too.
func (s *session) fetchFailed(code string) bool {
	return code != fetchRefused && slices.ContainsFunc(s.sent, func(x *sent) bool {
		return x.sqlState == code && (strings.HasPrefix(x.text, "FETCH") || strings.HasPrefix(x.text, "MOVE"))
	})
}

func sameValue(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

func values(all []*string) string {
	var b strings.Builder
	for i, v := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		if v == nil {
			b.WriteString("NULL")
		} else {
			fmt.Fprintf(&b, "%.100q", *v)
		}
	}
	return "(" + b.String() + ")"
}

func (r *Report) missing(s *session, x *sent) {
	r.differ("missing", "session %s, %s in %s, SQLSTATE %q: %.300q", s.id, x.user, x.database, x.sqlState, x.text)
}

func (r *Report) extra(s *session, x *record) {
	r.differ("extra", "session %s, record %d, statement %d, %s %s %s %s: %.300q", s.id, x.Seq, x.Statement, x.Class,
		x.Command, x.Outcome, x.SQLState, x.text())
}

var becomes = regexp.MustCompile(`(?i)\bSESSION\s+AUTHORIZATION\s+(?:TO\s+)?(?:'([^']*)'|"([^"]*)"|(\w+))`)

// become notes the users to which a statement switches the session.
func (s *session) become(text string) {
	for _, m := range becomes.FindAllStringSubmatch(text, -1) {
		if s.acts == nil {
			s.acts = map[string]bool{}
		}
		s.acts[m[1]+m[2]+strings.ToLower(m[3])] = true
	}
}

// blank reports whether there is nothing but white space, semicolons and comments.
func blank(s string) bool {
	for s != "" {
		switch {
		case strings.ContainsRune(" \t\n\r\f\v;", rune(s[0])):
			s = s[1:]
		case strings.HasPrefix(s, "--"):
			n := strings.IndexAny(s, "\n\r")
			if n < 0 {
				return true
			}
			s = s[n:]
		case strings.HasPrefix(s, "/*"):
			n := comment(s)
			if n < 0 {
				return false
			}
			s = s[n:]
		default:
			return false
		}
	}
	return true
}

// comment returns the length of the comment at the beginning, which may contain nested ones; -1: it has no end.
func comment(s string) int {
	depth := 0
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(s[i:], "*/"):
			depth--
			i += 2
			if depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return -1
}

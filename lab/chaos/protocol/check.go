// Compares the trail of a round with the answers that its sessions got.

package protocol

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// record has the fields of a line of "steno cat --format json" that the check needs.
type record struct {
	Kind         string            `json:"kind"`
	Session      string            `json:"session"`
	Seq          uint64            `json:"seq"`
	Statement    uint64            `json:"statement"`
	Substatement uint64            `json:"substatement"`
	Depth        int               `json:"depth"`
	PID          uint32            `json:"pid"`
	Application  string            `json:"application"`
	Leader       string            `json:"leader"` // of a parallel worker: its leader's session
	Class        string            `json:"class"`
	Command      string            `json:"command"`
	Relations    []relation        `json:"relations"`
	Text         *string           `json:"text"`
	TextBytes    int               `json:"text_bytes"`
	Params       []json.RawMessage `json:"params"`
	Rows         *int64            `json:"rows"`
	Duration     int64             `json:"duration_us"`
	Analysis     int64             `json:"analysis_us"`
	Commit       int64             `json:"commit_us"`
	Outcome      string            `json:"outcome"`
	SQLState     string            `json:"sqlstate"`
	Extra        map[string]string `json:"extra"`
}

type relation struct {
	Name string `json:"name"`
}

func (r *record) text() string {
	if r.Text == nil {
		return ""
	}
	return *r.Text
}

func (r *record) names(table string) bool {
	return slices.ContainsFunc(r.Relations, func(x relation) bool {
		return x.Name == "public."+table || x.Name == table
	})
}

func (r *record) String() string {
	return fmt.Sprintf("#%d statement %d depth %d %s %s %s %s %.200q", r.Seq, r.Statement, r.Depth, r.Class, r.Command,
		r.Outcome, r.SQLState, r.text())
}

// seen is a session in the trail.
type seen struct {
	id          string
	records     []*record // statements
	seqs        []uint64
	connects    int
	disconnects int
	textless    []string // SQLSTATEs of failures without a statement
	// records that gap records report as dropped, because waits for space were canceled
	dropped int
	top     map[uint64]*record         // by statement number
	reads   map[uint64]map[string]bool // relations of a statement and all statements nested in it
}

// checker compares the trail with the answers that clients got.
type checker struct {
	round    *round
	sessions map[string]*seen   // by id
	byName   map[string][]*seen // by application name
	marked   map[string][]*record
	nested   map[string][]*record
	cursors  map[string][]*record // queries of cursors, by the marker of DECLARE
	ofRecord map[*record]*seen
}

var (
	topMarker    = regexp.MustCompile(`/\*(m\d+\.\d+\.\d+)\*/`)
	aliasMarker  = regexp.MustCompile(`/\*(p\d+\.\d+\.\d+)\*/`)
	nestedMarker = regexp.MustCompile(`/\*(n\d+\.\d+\.\d+)\*/`)
	bareMarker   = regexp.MustCompile(`^m\d+\.\d+\.\d+$`)
)

// check reads the trail of a round that has ended, and reports what is wrong.
func (r *round) check(ctx context.Context) {
	k := newChecker(r)
	k.read(ctx)
	for _, s := range k.sessions {
		k.numbers(s)
	}
	for _, c := range r.sessions {
		k.session(c)
	}
	if out, err := r.steno(ctx, "verify").CombinedOutput(); err != nil {
		r.complain("verify", nil, "steno verify: %s\n%s", err, out)
	}
}

func newChecker(r *round) *checker {
	return &checker{round: r, sessions: map[string]*seen{}, byName: map[string][]*seen{},
		marked: map[string][]*record{},
		nested: map[string][]*record{}, cursors: map[string][]*record{}, ofRecord: map[*record]*seen{}}
}

func (k *checker) read(ctx context.Context) {
	cat := k.round.steno(ctx, "cat", "--format", "json")
	var stderr bytes.Buffer
	cat.Stderr = &stderr
	out, err := cat.StdoutPipe()
	if err == nil {
		err = cat.Start()
	}
	if err != nil {
		k.round.complain("cat", nil, "%s", err)
		return
	}
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r := &record{}
			if err := json.Unmarshal(line, r); err != nil {
				k.round.complain("cat", nil, "steno cat: %s: %.200s", err, line)
			}
			k.addRecord(r)
		}
		if err != nil {
			break
		}
	}
	if err := cat.Wait(); err != nil {
		k.round.complain("cat", nil, "steno cat: %s: %s", err, strings.TrimSpace(stderr.String()))
	}
}

func (k *checker) addRecord(r *record) {
	k.round.records++
	s := k.sessions[r.Session]
	if s == nil {
		s = &seen{id: r.Session, top: map[uint64]*record{}, reads: map[uint64]map[string]bool{}}
		k.sessions[r.Session] = s
	}
	if strings.HasPrefix(r.Application, "script ") && r.Leader == "" && !slices.Contains(k.byName[r.Application], s) {
		k.byName[r.Application] = append(k.byName[r.Application], s)
	}
	if r.Seq != 0 {
		s.seqs = append(s.seqs, r.Seq)
	}
	switch r.Kind {
	case "connect":
		s.connects++
	case "disconnect":
		s.disconnects++
	case "gap":
		first, err1 := strconv.ParseUint(r.Extra["first_seq"], 10, 64)
		last, err2 := strconv.ParseUint(r.Extra["last_seq"], 10, 64)
		if err1 != nil || err2 != nil || first > last {
			k.round.complain("gap", nil, "session %s: a gap record contains %v", r.Session, r.Extra)
			return
		}
		for n := first; n <= last; n++ {
			s.seqs = append(s.seqs, n)
		}
		s.dropped += int(last - first + 1)
	case "statement":
		if r.Leader != "" && k.sessions[r.Leader] != nil {
			s = k.sessions[r.Leader]
		}
		k.ofRecord[r] = s
		s.records = append(s.records, r)
		k.statement(s, r)
	}
}

func (k *checker) statement(s *seen, r *record) {
	if s.reads[r.Statement] == nil {
		s.reads[r.Statement] = map[string]bool{}
	}
	for _, x := range r.Relations {
		s.reads[r.Statement][strings.TrimPrefix(x.Name, "public.")] = true
	}
	text := r.text()
	if r.Depth > 0 {
		if m := nestedMarker.FindStringSubmatch(text); m != nil && topMarker.FindString(text) == "" {
			k.nested[m[1]] = append(k.nested[m[1]], r)
		} else if m := topMarker.FindStringSubmatch(text); m != nil {
			k.cursors[m[1]] = append(k.cursors[m[1]], r)
		}
		return
	}
	if text == "" && r.Outcome == "error" {
		s.textless = append(s.textless, r.SQLState)
	}
	if s.top[r.Statement] == nil {
		s.top[r.Statement] = r
	}
	if len(r.Params) > 0 {
		if p, ok := value(r.Params[0]); ok && bareMarker.MatchString(p) {
			k.marked[p] = append(k.marked[p], r)
			return
		}
	}
	for _, m := range append(topMarker.FindAllStringSubmatch(text, -1),
		aliasMarker.FindAllStringSubmatch(text, -1)...) {
		k.marked[m[1]] = append(k.marked[m[1]], r)
	}
}

// value returns a parameter as text; false if it has none.
func value(raw json.RawMessage) (string, bool) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, true
	}
	return string(raw), len(raw) > 0 && raw[0] != '{' && raw[0] != '[' && string(raw) != "null"
}

// numbers checks that the records of a session are numbered from 1 without gaps.
func (k *checker) numbers(s *seen) {
	slices.Sort(s.seqs)
	for i, seq := range s.seqs {
		if seq != uint64(i+1) {
			k.round.complain("number", nil, "session %s: sequence number %d at position %d", s.id, seq, i+1)
			return
		}
	}
}

// ---- a session ----

func (k *checker) session(c *session) {
	wrong := func(kind, format string, args ...any) { k.round.complain(kind, c, format, args...) }
	if c.hung {
		wrong("hung", "%s", c.ended)
	}
	all := k.byName[c.name]
	if len(all) != 1 {
		wrong("session", "the trail has %d sessions named \"%s\"", len(all), c.name)
		return
	}
	s := all[0]
	if s.connects != 1 || s.disconnects != 1 {
		wrong("session", "%d connect records, %d disconnect records", s.connects, s.disconnects)
	}
	parsed := map[string][]string{} // failures of prepared statements, by their marker
	for _, st := range c.script.statements() {
		k.checkStatement(c, s, st, parsed)
	}
	for alias, codes := range parsed {
		for _, r := range k.marked[alias] {
			if i := slices.Index(codes, r.SQLState); i >= 0 {
				codes = slices.Delete(codes, i, i+1)
			} else if c.ended == "" {
				wrong("unexpected", "a record of a prepared statement that no client was told about: %s", r)
			}
		}
		for _, code := range codes {
			// a timeout between two messages, whose error has no text
			if i := slices.Index(s.textless, code); i >= 0 {
				s.textless = slices.Delete(s.textless, i, i+1)
				continue
			}
			wrong("missing", "a failure of the prepared statement %s with %s", alias, code)
		}
	}
	for m, table := range c.script.nested {
		k.below(c, s, m, table)
	}
	k.texts(c, s)
	k.durations(c)
	k.fetches(c)
	for _, text := range c.whileIdle {
		wrong("idle", "steno.in_flight has this while the session is idle: %s", shortened(text))
	}
}

// checkStatement checks a statement.
func (k *checker) checkStatement(c *session, s *seen, st *statement, parsed map[string][]string) {
	wrong := func(kind, format string, args ...any) {
		k.round.complain(kind, c, "%s (client: %s %s): %s\n      %s", st.marker, st.outcome, st.code,
			fmt.Sprintf(format, args...), shortened(st.text))
	}
	records := slices.Clone(k.marked[st.marker])
	for _, r := range records {
		if k.ofRecord[r] != s {
			wrong("session", "is in session %s", k.ofRecord[r].id)
			return
		}
	}
	if strings.HasPrefix(st.marker, "p") {
		if _, ok := parsed[st.marker]; !ok {
			parsed[st.marker] = nil
		}
		if st.outcome == failed {
			parsed[st.marker] = append(parsed[st.marker], st.code)
		}
		return
	}
	for _, code := range st.extra {
		if st.alias != "" {
			parsed[st.alias] = append(parsed[st.alias], code)
			continue
		}
		i := slices.IndexFunc(records, func(r *record) bool { return r.Outcome == "error" && r.SQLState == code })
		if i < 0 {
			wrong("missing", "its portal was executed again and failed with %s, which has no record", code)
		} else {
			records = slices.Delete(records, i, i+1)
		}
	}
	// It ended well, and then its transaction failed, for example by a cancel request: the log calls that a failure
	// of the same text.
	late := func(r *record) bool {
		return r.Class == "error" && (r.SQLState == st.may || c.failedBefore(st, r.SQLState) ||
			st == lastOf(c) && (r.SQLState == "57014" || r.SQLState == "57P01"))
	}
	if i := slices.IndexFunc(records, late); i >= 0 && len(records) > 1 {
		if c.failedBefore(st, records[i].SQLState) {
			s.textless = append(s.textless, records[i].SQLState) // of the statement that is answered with it
		}
		records = slices.Delete(records, i, i+1)
	}
	least, most := 1, 1
	switch {
	case st.outcome == skipped || st.outcome == unanswered && !st.sent:
		least, most = 0, 0
	case st.outcome == unanswered || st.outcome == bound:
		least = 0
	}
	if st.outcome == failed && len(records) == 0 && st.alias != "" {
		parsed[st.alias] = append(parsed[st.alias], st.code)
		return
	}
	if len(records) < least {
		if s.dropped > 0 {
			s.dropped--
			return
		}
		// a timeout of the statement before, which the server reports instead of running it
		if i := slices.Index(s.textless, st.code); st.outcome == failed && i >= 0 {
			s.textless = slices.Delete(s.textless, i, i+1)
			return
		}
		wrong("missing", "no record")
		return
	}
	if len(records) > most {
		wrong("repeated", "%d records instead of %d: %v", len(records), most, records)
		return
	}
	if len(records) == 0 {
		return
	}
	k.agrees(c, s, st, records[0], wrong)
}

func (k *checker) agrees(c *session, s *seen, st *statement, r *record, wrong func(kind, format string, args ...any)) {
	lost := st == lastOf(c)
	switch st.outcome {
	case succeeded, suspended:
		if r.Outcome != "ok" && !(st.may != "" && r.Outcome == "error" && r.SQLState == st.may) &&
			!(c.ended != "" && lost) && !c.endedIn(st) && !c.fetchFailed(r.SQLState) {
			if c.failedBefore(st, r.SQLState) {
				s.textless = append(s.textless, r.SQLState)
				return
			}
			wrong("outcome", "recorded as %s %s", r.Outcome, r.SQLState)
			return
		}
	case bound:
		if r.Outcome == "error" && c.failedBefore(st, r.SQLState) {
			s.textless = append(s.textless, r.SQLState)
			return
		}
	case failed, whole:
		if r.Outcome != "error" || r.SQLState != st.code {
			wrong("outcome", "recorded as %s %s", r.Outcome, r.SQLState)
			return
		}
	}
	if r.TextBytes > 0 && !(k.mayBeInterrupted(c) && r.TextBytes > len(r.text())) {
		wrong("text", "it is truncated")
	}
	returned := st.outcome == succeeded || st.outcome == suspended
	if returned && r.Outcome == "ok" {
		switch st.tag {
		case "SELECT", "INSERT", "UPDATE", "DELETE", "FETCH", "COPY", "":
			if st.tag == "" && st.outcome == succeeded {
				break
			}
			if r.Rows == nil {
				if st.rows > 0 {
					wrong("rows", "%d rows, but none recorded", st.rows)
				}
			} else if want := st.delivered(); *r.Rows != want && !(st.more && *r.Rows > want) {
				wrong("rows", "%d rows, but %d recorded", want, *r.Rows)
			}
		}
	}
	if returned && s.dropped == 0 || st.outcome == failed && st.code == st.known ||
		r.Outcome == "ok" && r.Rows != nil && *r.Rows > 0 {
		reads := st.reads
		if returned && st.rows > 0 {
			reads = append(slices.Clone(reads), st.ran...)
		}
		for _, t := range reads {
			if !s.reads[r.Statement][t] {
				wrong("relations", "relation %s is not among the recorded ones: %v", t, s.reads[r.Statement])
				break
			}
		}
	}
	if len(st.params) > 0 && r.Outcome == "ok" {
		if r.Extra["parameters_omitted"] == strconv.Itoa(len(st.params)) && k.mayBeInterrupted(c) {
			return // a short record
		}
		k.params(st, r, wrong)
	}
}

// mayBeInterrupted reports whether something may have ended a wait of the session for space, so that the record of its
// statement is a short one.
func (k *checker) mayBeInterrupted(c *session) bool {
	for _, step := range c.script.steps {
		if step.cancel || step.leave != stay || step.move == "timeout" || step.move == "idle" {
			return true
		}
	}
	return c.ended != "" || slices.ContainsFunc(k.round.sessions, func(other *session) bool {
		return slices.ContainsFunc(other.script.steps, func(step *step) bool { return step.move == "signal" })
	})
}

// fetchRefused is the SQLSTATE of a FETCH or MOVE that a portal cannot do: it has failed, but not the portal's query.
const fetchRefused = "55000"

// fetchFailed reports whether a FETCH or MOVE of the session failed so when it ran a query: that has then failed, too.
func (c *session) fetchFailed(code string) bool {
	return code != fetchRefused && slices.ContainsFunc(c.script.statements(), func(s *statement) bool {
		return s.outcome == failed && s.code == code &&
			(strings.HasPrefix(s.text, "FETCH") || strings.HasPrefix(s.text, "MOVE"))
	})
}

var fetches = regexp.MustCompile(`^(?:FETCH|MOVE) .* "?(\w+)"?$`)

// endedIn reports whether the session ended in a step that asked for rows of the statement's portal.
func (c *session) endedIn(st *statement) bool {
	if c.ended == "" || c.done >= len(c.script.steps) {
		return false
	}
	last := c.script.steps[c.done]
	asks := func(s *statement) bool {
		if s == nil {
			return false
		}
		m := fetches.FindStringSubmatch(s.text)
		return m != nil && c.portals[m[1]] == st
	}
	return slices.ContainsFunc(last.query, asks) || slices.ContainsFunc(last.messages, func(m message) bool {
		return m.op == 'E' && c.portals[m.name] == st || asks(m.statement)
	})
}

// failedBefore reports whether a pipeline failed so behind the statement, with a timeout or
// the session's end. It can come between two messages: the client takes it for an answer
// to the next one, which the server has not looked at. For the server it is the failure
// of the transaction in which the statement before has run.
func (c *session) failedBefore(st *statement, code string) bool {
	for _, step := range c.script.steps {
		i := slices.IndexFunc(step.messages, func(m message) bool { return m.statement == st })
		if i < 0 {
			continue
		}
		return (code == "57014" || code == "57P01") && slices.ContainsFunc(step.messages[i:], func(m message) bool {
			return m.statement != nil && m.statement != st && m.statement.outcome == failed && m.statement.code == code
		})
	}
	return false
}

// lastOf returns the last statement that the session sent.
func lastOf(c *session) *statement {
	if c.done < len(c.script.steps) {
		st := c.script.steps[c.done]
		for _, m := range st.messages {
			if m.statement != nil {
				return m.statement
			}
		}
		if len(st.query) > 0 {
			return st.query[0]
		}
	}
	return nil
}

func (k *checker) params(st *statement, r *record, wrong func(kind, format string, args ...any)) {
	if len(r.Params) != len(st.params) {
		wrong("parameters", "%d, but %d recorded", len(st.params), len(r.Params))
		return
	}
	for i, raw := range r.Params {
		if v, ok := value(raw); !ok || v != st.params[i] {
			wrong("parameters", "$%d is %s, but recorded as %s", i+1, shortened(st.params[i]), shortened(string(raw)))
			return
		}
	}
}

// ---- what statements run ----

// calledLater are commands that run the text of an earlier statement.
var calledLater = []string{"FETCH", "MOVE", "CLOSE CURSOR", "COMMIT", "EXECUTE", "SET CONSTRAINTS", "ROLLBACK",
	"RELEASE", "EXPLAIN", "CREATE TABLE AS", "DECLARE CURSOR"}

func (k *checker) below(c *session, s *seen, m, table string) {
	wrong := func(kind, format string, args ...any) {
		k.round.complain(kind, c, "nested "+m+" of "+table+": "+format, args...)
	}
	records := k.nested[m]
	if c.ran[m] && len(records) == 0 && s.dropped > 0 {
		s.dropped--
	} else if c.ran[m] && len(records) == 0 {
		wrong("missing", "it ran, but has no record")
	}
	for _, r := range records {
		if k.ofRecord[r] != s {
			wrong("session", "is in session %s", k.ofRecord[r].id)
			continue
		}
		if !r.names(table) && (r.Outcome == "ok" ||
			r.Outcome == "error" && !slices.Contains([]string{"57014", "57P01", "25P03", "25P02"}, r.SQLState)) {
			wrong("relations", "the relation is missing: %s", r)
		}
		top := s.top[r.Statement]
		if top == nil {
			if c.ended == "" && c.done == len(c.script.steps) && s.dropped == 0 {
				wrong("nested", "it belongs to a statement that has no record: %s", r)
			}
		} else if !strings.Contains(top.text(), m) && !slices.Contains(calledLater, top.Command) {
			wrong("nested", "%s\n      is recorded as run by\n      %s", r, top)
		}
	}
}

// ---- foreign bytes ----

var dynamic = regexp.MustCompile(`^SELECT /\*n\d+\.\d+\.\d+\*/ (count\(\*\)|id|id, val) FROM a\d( ORDER BY id)?$`)

// texts checks that each recorded text was sent by a client or is part of a function.
func (k *checker) texts(c *session, s *seen) {
	var sent []string
	byMarker := map[string]string{}
	for _, st := range c.script.steps {
		var texts []string
		for _, x := range st.query {
			texts = append(texts, x.text)
		}
		whole := strings.Join(texts, "; ")
		for _, x := range st.query {
			byMarker[x.marker] = whole
		}
		if whole != "" {
			sent = append(sent, whole)
		}
		for _, m := range st.messages {
			if m.op == 'P' {
				sent = append(sent, m.text)
				byMarker[m.statement.marker] = m.text
			}
		}
	}
	for _, r := range s.records {
		if r.Text == nil {
			continue
		}
		text := *r.Text
		if known[text] || dynamic.MatchString(text) || strings.Contains(schema, text) {
			continue
		}
		m := topMarker.FindStringSubmatch(text)
		if m == nil {
			m = aliasMarker.FindStringSubmatch(text)
		}
		if m != nil && strings.Contains(byMarker[m[1]], text) {
			continue
		}
		if m == nil && slices.ContainsFunc(sent, func(whole string) bool {
			return strings.Contains(whole, text) ||
				strings.Contains(strings.ReplaceAll(whole, "PERFORM ", "SELECT "), text)
		}) {
			continue
		}
		k.round.complain("foreign", c, "no client sent this text: %s %s %s", strconv.Quote(shortened(text)),
			r.Command, r.Outcome)
	}
}

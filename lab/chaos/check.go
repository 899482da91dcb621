// Compares the trail with the answers that the clients got.

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// record has the fields of a line of "steno cat --format json" that the check needs.
type record struct {
	Kind        string            `json:"kind"`
	Time        time.Time         `json:"time"`
	Session     string            `json:"session"`
	PID         uint32            `json:"pid"`
	Seq         uint64            `json:"seq"`
	Depth       int               `json:"depth"`
	Application string            `json:"application"`
	Text        *string           `json:"text"`
	TextBytes   int               `json:"text_bytes"`
	Params      []json.RawMessage `json:"params"`
	Outcome     string            `json:"outcome"`
	SQLState    string            `json:"sqlstate"`
	Xid         uint64            `json:"xid"`
	Extra       map[string]string `json:"extra"`
}

// found is an extract of a record of a client's statement.
type found struct {
	seq       uint64
	outcome   string
	sqlstate  string
	session   string
	xid       uint64
	text      digest
	parameter digest
	cut       bool
	sent      int // length of the text that was cut, as the record states it
}

// span is a range of sequence numbers that a gap record accounts for.
type span struct{ first, last uint64 }

// seen is a session in the trail.
type seen struct {
	seqs         []uint64
	gaps         []span
	connects     int
	disconnects  int
	commits      map[uint64]bool // by transaction ID
	transactions map[uint64]int
	application  string
	pid          uint32
}

// result is the counts of a round's check.
type result struct {
	records, acknowledged, unanswered int
	missing, accounted                int
	// missing statements of sessions of which only the number of drops was recorded
	untold        int
	dropped       uint64
	deleted       uint64 // records that were deleted, by deletion records
	refused, gone int    // statements: refused; in segments that were deleted
	oldestLost    time.Duration
}

func (c *result) String() string {
	s := fmt.Sprintf("%d statements acknowledged, %d unanswered, %d records", c.acknowledged, c.unanswered, c.records)
	if c.missing > 0 || c.dropped > 0 {
		s += fmt.Sprintf(", %d missing (%d of them accounted for)", c.missing, c.accounted)
	}
	if c.refused > 0 {
		s += fmt.Sprintf(", %d refusals without a record", c.refused)
	}
	if c.deleted > 0 {
		s += fmt.Sprintf(", %d records with %d statements deleted by retention", c.deleted, c.gone)
	}
	if c.oldestLost > 0 {
		s += fmt.Sprintf(", the oldest %s before the power loss", c.oldestLost.Round(time.Millisecond))
	}
	return s
}

// checker compares the trail with the answers that the clients got.
type checker struct {
	round      *round
	statements map[string][]found // by marker
	sessions   map[string]*seen
	byName     map[string][]string // sessions by application name
	wrong      []string
	more       int
	deletion   time.Time // time of the last deletion by policy; zero: none
	counted    uint64    // dropped records of which gap records have only the number
}

const maxWrong = 25

// refusal is the SQLSTATE of statements that steno.on_failure = error refuses.
const refusal = "58S01"

func (k *checker) complain(format string, args ...any) {
	if len(k.wrong) == maxWrong {
		k.more++
		return
	}
	k.wrong = append(k.wrong, fmt.Sprintf(format, args...))
}

// check returns everything that is wrong with a round that has ended.
func (r *round) check(ctx context.Context) error {
	k := &checker{round: r, statements: map[string][]found{}, sessions: map[string]*seen{},
		byName: map[string][]string{}}
	if err := k.read(ctx); err != nil {
		return err
	}
	k.numbers()
	for _, c := range r.load.clients {
		k.client(c)
	}
	k.verify(ctx)
	k.log()
	if len(k.wrong) == 0 {
		return nil
	}
	if k.more > 0 {
		k.wrong = append(k.wrong, fmt.Sprintf("and %d more", k.more))
	}
	return errors.New("  " + strings.Join(k.wrong, "\n  "))
}

// ---- reading ----

func (k *checker) read(ctx context.Context) error {
	cat := k.round.steno(ctx, "cat", "--format", "json")
	var stderr bytes.Buffer
	cat.Stderr = &stderr
	out, err := cat.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cat.Start(); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var r record
			if err := json.Unmarshal(line, &r); err != nil {
				k.complain("steno cat: %s: %.200s", err, line)
			}
			k.addRecord(&r)
		}
		if err != nil {
			break
		}
	}
	if err := cat.Wait(); err != nil {
		k.complain("steno cat: %s: %s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

func (k *checker) addRecord(r *record) {
	k.round.result.records++
	s := k.sessions[r.Session]
	if s == nil {
		s = &seen{pid: r.PID, commits: map[uint64]bool{}, transactions: map[uint64]int{}}
		k.sessions[r.Session] = s
	}
	if s.application == "" && r.Application != "" {
		s.application = r.Application
		k.byName[r.Application] = append(k.byName[r.Application], r.Session)
	}
	if r.Seq != 0 {
		s.seqs = append(s.seqs, r.Seq)
	} else if r.Kind != "start" {
		k.complain("session %s: a %s record without a sequence number", r.Session, r.Kind)
	}
	switch r.Kind {
	case "connect":
		s.connects++
	case "disconnect":
		s.disconnects++
	case "transaction":
		if !strings.HasSuffix(r.Extra["event"], " prepared") {
			s.transactions[r.Xid]++
		}
		if r.Extra["event"] == "commit" {
			s.commits[r.Xid] = true
		}
	case "gap":
		if r.Extra["first_seq"] == "" {
			count, err := strconv.ParseUint(r.Extra["count"], 10, 64)
			if err != nil {
				k.complain("session %s: gap record %d contains %v", r.Session, r.Seq, r.Extra)
			}
			k.counted += count
			return
		}
		first, err1 := strconv.ParseUint(r.Extra["first_seq"], 10, 64)
		last, err2 := strconv.ParseUint(r.Extra["last_seq"], 10, 64)
		if errors.Join(err1, err2) != nil || first > last {
			k.complain("session %s: gap record %d contains %v", r.Session, r.Seq, r.Extra)
			return
		}
		s.gaps = append(s.gaps, span{first, last})
		k.round.result.dropped += last - first + 1
	case "server":
		k.takeDeletion(r)
	case "statement":
		k.takeStatement(r)
	}
}

var (
	markerInText  = regexp.MustCompile(`/\*(m\d+\.\d+)\*/`)
	markerOfParam = regexp.MustCompile(`^m\d+\.\d+$`)
)

func (k *checker) takeStatement(r *record) {
	if r.Depth != 0 || r.Text == nil {
		return
	}
	f := found{seq: r.Seq, outcome: r.Outcome, sqlstate: r.SQLState, session: r.Session, xid: r.Xid,
		text: digestOf(*r.Text), cut: r.TextBytes > 0, sent: int(r.TextBytes)}
	var parameter string
	if len(r.Params) > 0 && json.Unmarshal(r.Params[0], &parameter) == nil {
		f.parameter = digestOf(parameter)
	}
	head := *r.Text
	if len(head) > 200 {
		head = head[:200]
	}
	if m := markerInText.FindStringSubmatch(head); m != nil {
		k.statements[m[1]] = append(k.statements[m[1]], f)
	} else if markerOfParam.MatchString(parameter) {
		k.statements[parameter] = append(k.statements[parameter], f)
	}
}

// ---- what must be true of any trail ----

// numbers checks that the records of each session are numbered from 1, without duplicates, and without gaps that no
// gap record accounts for.
func (k *checker) numbers() {
	for id, s := range k.sessions {
		slices.Sort(s.seqs)
		expected := uint64(1)
		if !k.deletion.IsZero() && len(s.seqs) > 0 {
			expected = s.seqs[0] // steno verify checks what was deleted of it
		}
		for i, seq := range s.seqs {
			if i > 0 && seq == s.seqs[i-1] {
				k.complain("session %s (%s): sequence number %d is duplicated", id, s.application, seq)
				continue
			}
			for expected < seq && s.covered(expected) {
				expected++
			}
			if seq != expected {
				k.complain("session %s (%s): sequence number %d follows %d", id, s.application, seq, expected-1)
			}
			expected = seq + 1
		}
		if s.disconnects > 1 || s.connects > 1 {
			k.complain("session %s (%s): %d connect records, %d disconnect records", id, s.application, s.connects,
				s.disconnects)
		}
		for xid, n := range s.transactions {
			if n > 1 && xid != 0 {
				k.complain("session %s (%s): %d records of transaction %d", id, s.application, n, xid)
			}
		}
	}
}

func (s *seen) covered(seq uint64) bool {
	return slices.ContainsFunc(s.gaps, func(g span) bool { return g.first <= seq && seq <= g.last })
}

// dropsBetween counts the dropped records between two sequence numbers.
func (s *seen) dropsBetween(from, to uint64) int {
	n := uint64(0)
	for _, g := range s.gaps {
		if first, last := max(g.first, from), min(g.last, to); first <= last {
			n += last - first + 1
		}
	}
	return int(min(n, 1<<30))
}

func (k *checker) verify(ctx context.Context) {
	args := []string{"verify"}
	if k.round.config.sealed {
		args = append(args, "--key", signingKey(k.round.lab)+".pub")
	}
	out, err := k.round.steno(ctx, args...).CombinedOutput()
	if err != nil {
		k.complain("steno verify: %s\n%s\n%s", err, out, k.round.segmentsOf())
	}
}

// log finds messages that no injected fault explains.
var alarming = regexp.MustCompile(
	`PANIC:|TRAP:|terminated by signal (4|6|7|8|11)\b|does not fit a block|corrupt|could not read ring file|damaged`)

func (k *checker) log() {
	file, err := os.Open(k.round.server.LogFile())
	if err != nil {
		k.complain("%s", err)
		return
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		if alarming.Match(lines.Bytes()) {
			k.complain("server log: %.300s", lines.Text())
		}
	}
}

// ---- what clients were told ----

func (k *checker) client(c *client) {
	for _, s := range c.sessions {
		k.connection(s)
	}
	for i := 0; i < len(c.statements); {
		j := i
		for j < len(c.statements) && c.statements[j].session == c.statements[i].session {
			j++
		}
		k.session(c.statements[i:j])
		i = j
	}
}

func (k *checker) connection(s *session) {
	ids := k.byName[s.name]
	if len(ids) > 1 {
		k.complain("%s: %d sessions of this name: %s", s.name, len(ids), strings.Join(ids, " "))
	}
	if !s.connected {
		return
	}
	config := k.round.config
	lossy := config.gaps || config.mode.mayMiss != nil || !k.deletion.IsZero()
	if len(ids) == 0 && !lossy {
		k.complain("%s: the trail contains nothing of the session", s.name)
	}
	for _, id := range ids {
		if seen := k.sessions[id]; (seen.connects != 1 || seen.disconnects != 1) && !lossy && len(seen.gaps) == 0 {
			k.complain("%s: session %s has %d connect records, %d disconnect records", s.name, id, seen.connects,
				seen.disconnects)
		}
	}
}

// session checks the statements of a session, in order.
func (k *checker) session(statements []*statement) {
	gaps := k.round.config.gaps
	res := &k.round.result
	var last uint64 // sequence number of the last statement that has a record
	var missing []*statement
	account := func(next uint64) {
		if len(missing) == 0 {
			return
		}
		name := missing[0].session.name
		drops := 0
		for _, id := range k.byName[name] {
			drops = k.sessions[id].dropsBetween(last+1, next)
		}
		// its session message may have been dropped, too
		if len(k.byName[name]) == 0 {
			drops = k.namelessDrops(missing[0].session.pid)
			// If sessions used the same full ring one after the other without finding space in it, all but the first
			// are only counted.
			if drops == 0 && gaps && (uint64(res.untold+len(missing)) <= k.counted || k.mayLackGaps()) {
				res.untold += len(missing)
				missing = missing[:0]
				return
			}
		}
		for i, s := range missing {
			if i < drops && (gaps || s.mayBeDropped()) {
				res.accounted++
			} else {
				k.complain("%s: %s (client: %s %s) is missing (sequence numbers %d to %d have %d drops for %d "+
					"statements)", name, s.marker, s.outcome, s.sqlstate, last, next, drops, len(missing))
			}
		}
		missing = missing[:0]
	}
	for i, s := range statements {
		records := k.statements[s.marker]
		if s.outcome == succeeded || s.outcome == failed {
			res.acknowledged++
		} else if s.outcome == unanswered {
			res.unanswered++
		}
		if len(records) > 1 {
			k.complain("%s: %s has %d records: %+v", s.session.name, s.marker, len(records), records)
		}
		if len(records) == 0 {
			if k.mustBeThere(s) {
				missing = append(missing, s)
			}
			continue
		}
		f := records[0]
		account(f.seq)
		// a terminated session may record its last statement before it closes earlier ones
		s.lastAnswered = i == len(statements)-1 || statements[i+1].outcome == unanswered
		if s.outcome == unanswered {
			k.agrees(s, &f)
			continue
		}
		if f.seq <= last {
			k.complain("%s: %s has sequence number %d, the statement before it %d", s.session.name, s.marker,
				f.seq, last)
		}
		last = f.seq
		k.agrees(s, &f)
	}
	account(1 << 62)
}

// mayLackGaps reports whether gap records themselves may be lost.
func (k *checker) mayLackGaps() bool {
	return k.round.config.mode.mayMiss != nil || !k.deletion.IsZero()
}

// mayBeDropped reports whether a wait for space for its record may have been canceled, possibly by the end of its
// session. A gap record then accounts for it, whatever the value of steno.delivery.
func (s *statement) mayBeDropped() bool { return s.outcome != succeeded || s.warned || s.answeredEarly }

// mustBeThere reports whether a statement without a record is an error unless a gap record accounts for it. Statements
// that the mode allows to be missing are counted.
func (k *checker) mustBeThere(s *statement) bool {
	r := k.round
	res := &r.result
	if s.outcome == failed && s.sqlstate == refusal && r.committed[s.marker] {
		k.complain("%s: %s was refused, but its changes are there", s.session.name, s.marker)
	}
	switch s.outcome {
	case skipped:
		return false
	case failed:
		// refusals are recorded only while the ring has enough space
		if s.sqlstate == refusal && r.config.onFailure == "error" {
			res.refused++
			return false
		}
		res.missing++
	case unanswered:
		// but its row was committed
		if !s.leaves || !r.committed[s.marker] || !r.lost.IsZero() && s.began.Before(r.back) {
			return false
		}
	default:
		res.missing++
	}
	if k.deleted(s.ended) {
		if s.outcome != unanswered {
			res.missing--
		}
		res.gone++
		return false
	}
	if r.config.mode.mayMiss != nil && s.ended.Before(r.back) && r.config.mode.mayMiss(r, s) {
		res.accounted++
		res.oldestLost = max(res.oldestLost, r.lost.Sub(s.ended))
		return false
	}
	return true
}

// agrees compares a statement with its record.
func (k *checker) agrees(s *statement, f *found) {
	name := s.session.name
	whole := s.text == f.text && !f.cut &&
		(s.parameter.length == 0 || f.outcome == "error" || s.parameter == f.parameter)
	// The end of a session also ends a wait for space, and the record of a failure is cut then.
	whole = whole || f.cut && f.outcome == "error" && s.lastAnswered
	switch s.outcome {
	case succeeded:
		if s.answeredEarly && f.outcome == "interrupted" {
			return
		}
		if f.outcome != "ok" {
			k.complain("%s: %s: the client was told ok; recorded as %s %s", name, s.marker, f.outcome, f.sqlstate)
		}
	case failed:
		if f.outcome != "error" || f.sqlstate != s.sqlstate {
			k.complain("%s: %s: the client was told error %s; recorded as %s %s", name, s.marker, s.sqlstate,
				f.outcome, f.sqlstate)
		}
	case skipped:
		k.complain("%s: %s was not run, but is recorded as %s %s", name, s.marker, f.outcome, f.sqlstate)
		return
	case unanswered:
		// not answered: any outcome is possible, and the record of an interrupted one may have only the beginning of
		// the text
		if f.outcome == "interrupted" {
			return
		}
		// A query that had delivered its rows is recorded as ok, and of one too big for a share of the ring, the
		// in-flight entry has the beginning of the text, and its length.
		whole = whole || f.outcome == "ok" && f.cut && s.lastAnswered && f.sent == s.text.length &&
			s.text.length > k.round.config.ringSize*1024/8
	}
	if !whole {
		k.complain("%s: %s, %s: sent %d bytes (and %d), recorded %d (and %d): they differ", name, s.marker, f.outcome,
			s.text.length, s.parameter.length, f.text.length, f.parameter.length)
	}
	if ids := k.byName[name]; len(ids) == 1 && ids[0] != f.session {
		k.complain("%s: %s is in session %s instead of %s", name, s.marker, f.session, ids[0])
	}
	k.committed(s, f)
}

// committed checks that a statement that was answered, and was a transaction of its own, has the record of a commit.
func (k *checker) committed(s *statement, f *found) {
	if s.outcome != succeeded || !s.leaves || !s.ownTransaction || f.xid == 0 || k.round.config.gaps ||
		!k.round.lost.IsZero() && s.began.Before(k.round.back) && !s.closed {
		return
	}
	if seen := k.sessions[f.session]; !seen.commits[f.xid] && len(seen.gaps) == 0 && !k.deleted(s.ended) {
		k.complain("%s: %s: transaction %d was committed, but has no record", s.session.name, s.marker, f.xid)
	}
}

// namelessDrops counts the dropped records of sessions of this process of which the trail has nothing else.
func (k *checker) namelessDrops(pid uint32) int {
	n := 0
	for _, s := range k.sessions {
		if s.application == "" && s.pid == pid {
			n += s.dropsBetween(0, 1<<62)
		}
	}
	return n
}

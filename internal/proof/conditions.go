// Collects from records what the trail may lack: changes of settings, gaps, times without recording, missing sequence
// numbers.

package proof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// conditions collects from the records of a proof, one after the other, what the trail may lack.
type conditions struct {
	eval *evaluator

	sessions           map[format.SessionID]*session
	settings           map[scope][]change
	runs               []run
	lives              []*life             // the servers, after finish
	reached            map[streamKey]int64 // the last known time of each stream
	events             []event
	gaps               []gap
	branches           []branch
	undecided          map[statement]undecided
	hiddenTransactions []hiddenTransaction
	earlyRenames       []earlyRename           // renames before the range
	endedTransactions  map[ending]string       // transactions that ended before the range, with the event
	preparedHere       map[uint64]bool         // transactions that were prepared since the server's start
	committedPrepared  []prepared              // prepared transactions that were committed in the range
	uninterpreted      []string                // what could not be interpreted
	later              *later                  // nil: records after the range are not known, or are in the proof
	startSegments      map[*trail.Segment]bool // segments with the record of a start
}

// session is what is known about the records of a session.
type session struct {
	seen       []numbered
	explained  []format.Span
	user       string
	ended      int64 // time of its end; MaxTime: not seen
	matched    bool  // it matched the filter, at least at some time
	couldMatch bool  // it would match with another user, which it can become
	switched   switched
	stream     streamKey
	// first time at which it may have set log_min_messages, for itself or for later sessions; 0: never
	minMessagesSet, minMessagesSetLater int64
}

// numbered are consecutive records of a session in a part of a stream without left-out blocks.
type numbered struct {
	format.Span
	part int
}

// scope is where a setting has a value: a session, or the server (a zero session).
type scope struct {
	session format.SessionID
	server  bool
	name    string
}

// change is a change of a setting. old is known, except if a start sets it.
type change struct {
	time     int64
	old, new string
	source   string
	stream   streamKey
}

// run is a start of the server.
type run struct {
	time     int64 // when the run began, see began
	stream   streamKey
	id       string
	where    string            // its host and data directory
	first    bool              // nothing precedes this run that it continues
	settings map[string]string // nil: the record does not state them
	writers  int
	// notRunSince is the position in the WAL of the last stop, if the WAL and the control file show
	// that the server did not run after it; empty if they do not.
	notRunSince string
	// levels says that each session whose own log_min_messages hides failures has a record of that setting.
	levels bool
	// mostPrepared is max_prepared_transactions; empty: the record does not state it.
	mostPrepared string
}

// event is any other server record.
type event struct {
	time   int64
	stream streamKey
	name   string
	detail string
	wal    string // of a stop: its position in the WAL
	since  int64  // of a recovery: when the run had begun whose ring file it was; 0: not known
}

type gap struct {
	time   int64
	count  string
	reason string
	user   string
}

// hiddenTransaction is a transaction that wrote although none of its statements was seen.
type hiddenTransaction struct {
	time    int64
	session *session
}

// earlyRename is a rename before the range.
type earlyRename struct {
	query.Renamed
	record    format.RecordID
	xid       uint64
	session   *session
	committed bool
}

// prepared is a transaction that was prepared for a two-phase commit.
type prepared struct {
	time int64
	gid  string
	xid  uint64
}

type branch struct {
	trail.Branch
	stream streamKey
}

// statement identifies a statement of a session.
type statement struct {
	session      format.SessionID
	number, part uint64
}

type undecided struct {
	time int64
	id   string
	why  string
	open bool // only its start record is known
}

func newConditions(a *evaluator) *conditions {
	return &conditions{
		eval: a, sessions: map[format.SessionID]*session{}, settings: map[scope][]change{},
		undecided: map[statement]undecided{}, endedTransactions: map[ending]string{},
		preparedHere: map[uint64]bool{}, reached: map[streamKey]int64{}, startSegments: map[*trail.Segment]bool{},
	}
}

func (c *conditions) sessionOf(r *format.Record) *session {
	s := c.sessions[r.Session.ID()]
	if s == nil {
		s = &session{ended: format.MaxTime}
		c.sessions[r.Session.ID()] = s
	}
	if s.user == "" {
		s.user = string(r.Session.Fact(format.KeyUser))
	}
	s.matched = s.matched || c.eval.question.Record == "" && c.eval.sessionMatcher.MayKeep(r)
	s.couldMatch = s.couldMatch || c.eval.question.Record == "" && c.eval.fixedSessionMatcher.MayKeep(r)
	s.switched.note(c.eval, r)
	return s
}

// add adds a record of a part of a stream.
func (c *conditions) add(r *format.Record, in streamKey, part int) {
	s := c.sessionOf(r)
	s.stream = in
	c.noteReached(in, r.Time)
	if r.Seq != 0 {
		if n := len(s.seen); n > 0 && s.seen[n-1].part == part && s.seen[n-1].Last+1 == r.Seq {
			s.seen[n-1].Last++
		} else {
			s.seen = append(s.seen, numbered{format.Span{First: r.Seq, Last: r.Seq}, part})
		}
	}
	text := func(name string) string {
		v, _ := r.ExtraValue(name)
		return string(v)
	}
	switch r.Kind {
	case format.KindStatement, format.KindStart:
		c.addStatement(r)
	case format.KindDisconnect:
		s.ended = r.Time
	case format.KindGap:
		c.addGap(r, s, text)
	case format.KindSetting:
		c.addSetting(r, in, text)
	case format.KindTransaction:
		if c.eval.endsBefore(r) {
			c.noteEnd(r, text("event"))
		}
		switch c.eval.preparedEvent(r) {
		case format.EventPrepare.String():
			c.preparedHere[r.XID] = true
		case format.EventCommitPrepared.String():
			c.committedPrepared = append(c.committedPrepared, prepared{r.Time, text("gid"), r.XID})
		}
		if r.Unseen() {
			c.hiddenTransactions = append(c.hiddenTransactions, hiddenTransaction{r.Time, s})
		}
	case format.KindServer:
		c.addServerEvent(r, in, text)
	}
}

func (c *conditions) addStatement(r *format.Record) {
	if c.eval.mayHideFailures(r) {
		s := c.sessionOf(r)
		at := &s.minMessagesSet
		if maySetMinMessagesLater(r) {
			at = &s.minMessagesSetLater
		}
		if *at == 0 || r.Time < *at {
			*at = r.Time
		}
	}
	for _, rename := range c.eval.renamedBefore(r) {
		c.earlyRenames = append(c.earlyRenames,
			earlyRename{rename, format.RecordID{Session: r.Session.ID(), Seq: r.Seq}, r.XID, c.sessionOf(r),
				c.eval.committedBefore(r)})
	}
	key := statement{r.Session.ID(), r.Statement, r.Substatement}
	why := c.eval.reasonUndecided(r)
	if why == "" {
		if r.Kind == format.KindStatement {
			delete(c.undecided, key) // its start record said less
		}
		return
	}
	id := r.Session.ID().String() + "/" + strconv.FormatUint(r.Seq, 10)
	c.undecided[key] = undecided{r.Time, id, why, r.Kind == format.KindStart}
}

func (c *conditions) addGap(r *format.Record, s *session, text func(string) string) {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(text(name), 10, 64)
		return n
	}
	if first, last := number("first_seq"), number("last_seq"); first > 0 && last >= first {
		s.explained = append(s.explained, format.Span{First: first, Last: last})
	}
	c.gaps = append(c.gaps, gap{r.Time, text("count"), text("reason"), s.user})
}

func (c *conditions) addSetting(r *format.Record, in streamKey, text func(string) string) {
	at := scope{name: text("name"), server: text("source") == "server"}
	if !at.server {
		at.session = r.Session.ID()
	}
	c.settings[at] = append(c.settings[at],
		change{time: r.Time, old: text("old"), new: text("new"), source: text("source"), stream: in})
}

func (c *conditions) addServerEvent(r *format.Record, in streamKey, text func(string) string) {
	switch name := text("event"); name {
	case "start":
		start := run{
			time: began(r), stream: in, id: text("run"), where: text("host") + ", " +
				text("data_directory"), writers: 1,
			notRunSince: text("not_run_since_wal"), mostPrepared: text("max_prepared_transactions"),
			levels: recordsLevels(r),
		}
		if start.id != "" {
			start.settings = map[string]string{}
			for name, value := range r.ExtraPairs {
				if strings.HasPrefix(string(name), "steno.") || string(name) == MinMessages {
					start.settings[string(name)] = string(value)
				}
			}
			if w, set := start.settings["steno.writers"]; set {
				start.writers, _ = strconv.Atoi(w)
			}
		}
		c.runs = append(c.runs, start)
	case "branch":
		if b, ok := trail.ParseBranch(r); ok {
			c.branches = append(c.branches, branch{b, in})
		} else {
			c.uninterpreted = append(c.uninterpreted, "the record of a branch at "+render.Time(r.Time)+
				" cannot be interpreted")
		}
	case "other_trail":
		// other events are known from records of sessions, or matter only to verify
		if o, ok := trail.ParseOtherTrail(r); !ok || o.Last == 0 {
			c.events = append(c.events, event{r.Time, in, name,
				fmt.Sprintf("since %s, stream %d, block %d", o.Since, o.Stream, o.Block), "", 0})
		}
	default:
		var detail []string
		for name, value := range r.ExtraPairs {
			if n := string(name); n != "event" && n != "version" {
				detail = append(detail, n+"="+string(value))
			}
		}
		since, ok := moment(text("since"))
		if !ok {
			since = 0
		}
		c.events = append(c.events, event{r.Time, in, name, strings.Join(detail, " "), text("wal"), since})
	}
}

// isStart reports whether a record is that of a start of the server.
func isStart(r *format.Record) bool {
	if r.Kind != format.KindServer {
		return false
	}
	event, _ := r.ExtraValue("event")
	return string(event) == "start"
}

// late is the longest time between a start of the server and its record, in microseconds: the command for a key may
// take a minute. A longer time means that the clock was set.
const late = 120 * second

// began returns when the run of a start record began. Its first sessions may have recorded before that record was
// written.
func began(r *format.Record) int64 {
	text, _ := r.ExtraValue("began")
	if t, ok := moment(string(text)); ok && t <= r.Time && uint64(r.Time)-uint64(t) <= late {
		return t
	}
	return r.Time
}

// moment parses a time in a record of the server.
func moment(text string) (int64, bool) {
	t, err := time.Parse(time.RFC3339, text)
	return query.Micros(t), err == nil
}

// finish sorts what was collected, and tells servers apart.
func (c *conditions) finish() {
	byTime := func(a, b event) int { return cmp.Compare(a.time, b.time) }
	slices.SortStableFunc(c.events, byTime)
	slices.SortStableFunc(c.runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.stream.trail, b.stream.trail),
			cmp.Compare(a.stream.number, b.stream.number))
	})
	for _, changes := range c.settings {
		slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.time, b.time) })
	}
	c.tellApart()
}

func settingText(name, value string) string {
	if name == "steno.rules_file" {
		if value == "1 rules" {
			return "there was 1 rule"
		}
		return "there were " + value
	}
	return fmt.Sprintf("%s = %q", name, value)
}

// period is a time in which a setting has a value.
type period struct {
	from, to int64
	value    string
	reloaded bool // it was ended by a reload, which takes effect in sessions only after their current statements
}

// inWords describes the part of a period that is in the range.
func (p *period) inWords(a *evaluator) string {
	switch begins, ends := p.from <= a.since, p.to >= a.until; {
	case begins && ends:
		return "throughout"
	case begins:
		return "until " + render.Time(p.to) + p.after()
	case ends:
		return "since " + render.Time(p.from)
	}
	return "from " + render.Time(p.from) + " until " + render.Time(p.to) + p.after()
}

func (p *period) after() string {
	if p.reloaded {
		return ", and in sessions that were running a statement then until that had ended"
	}
	return ""
}

// lastBefore returns the value that the last change before a time gave to a setting, or value if there is none.
func lastBefore(changes []change, at int64, value string) string {
	for i := range changes {
		if changes[i].time < at {
			value = changes[i].new
		}
	}
	return value
}

// second is a second in microseconds.
const second = 1_000_000

// flushes returns steno.flush_interval in microseconds, the longest time that a record stays in its ring if the
// writer keeps up.
func (c *conditions) flushes() int64 {
	most := int64(200_000)
	for _, l := range c.lives {
		for _, p := range l.periods("steno.flush_interval") {
			if d, ok := format.SettingTime(p.value, time.Millisecond); ok {
				most = max(most, d.Microseconds())
			} else if p.value != "" {
				most = 10 * second // the largest value of the setting
			}
		}
	}
	return most
}

// sessionEnd returns when a session that existed at a time ended, at the latest with its run of the server; MaxTime:
// not known.
func (c *conditions) sessionEnd(s *session, at int64) int64 {
	end := int64(format.MinTime)
	for _, l := range c.livesOf(s.stream) {
		next := int64(format.MaxTime)
		for i := range l.runs {
			// the start of its own run may have been recorded after its first records
			if start := &l.runs[i]; start.time > at && uint64(start.time)-uint64(at) > late {
				next = min(next, start.time)
			}
		}
		end = max(end, next)
	}
	return min(s.ended, end)
}

// listSessionSettings lists settings of sessions that left out something of the answer.
func (c *conditions) listSessionSettings(except func(text string, args ...any)) {
	a := c.eval
	type group struct{ name, value, source, user, what string }
	type found struct {
		sessions int
		first    format.SessionID
		since    int64
	}
	counted := map[group]*found{}
	var order []group
	for _, at := range slices.SortedFunc(maps.Keys(c.settings), compareScopes) {
		s := c.sessions[at.session]
		if at.server || s == nil {
			continue
		}
		changes := c.settings[at]
		for i, set := range changes {
			to := c.sessionEnd(s, set.time)
			if i+1 < len(changes) {
				to = changes[i+1].time
			}
			// By SET SESSION AUTHORIZATION, a session can match for a moment of which the proof has no record. So
			// settings that a session made itself always count.
			if to <= a.since || set.time >= a.until {
				continue
			}
			if !a.decides(at.name) {
				continue
			}
			leavesOut := a.leavesOut
			switch {
			case at.name == MinMessages && !a.ofStatements(): // settings of a session do not hide logins
				continue
			case !s.couldMatch || set.source != "session" && !s.matched:
				leavesOut = a.leavesOutRenames
			}
			for _, l := range c.livesOf(s.stream) {
				if what := leavesOut(at.name, set.new, l.mandatory(set.time)); what != "" {
					if at.name == MinMessages {
						what = hiddenStatements
					}
					g := group{at.name, set.new, set.source, s.user, what}
					if counted[g] == nil {
						counted[g] = &found{first: at.session, since: set.time}
						order = append(order, g)
					}
					if counted[g].sessions++; set.time < counted[g].since {
						counted[g].first, counted[g].since = at.session, set.time
					}
					break
				}
			}
		}
	}
	for _, g := range order {
		f := counted[g]
		in := fmt.Sprintf("session %s (%s)", f.first, render.Time(f.since))
		if f.sessions > 1 {
			in = fmt.Sprintf("%s, first in %s", render.Plural(f.sessions, "session"), in)
		}
		except("%s of user %q were not recorded in %s: %s, set by %s", g.what, g.user, in,
			settingText(g.name, g.value), g.source)
	}
}

func compareScopes(a, b scope) int {
	return cmp.Or(a.session.Compare(b.session), strings.Compare(a.name, b.name))
}

// ---- when the server was not recording ----

// listUnseen lists transactions of matching users whose statements were not seen.
func (c *conditions) listUnseen(until int64, except func(format string, args ...any)) {
	type total struct {
		times       int
		first, last int64
	}
	all := map[string]*total{}
	for _, h := range c.hiddenTransactions {
		if h.time < c.eval.since || h.time >= until || !h.session.matched {
			continue
		}
		t := all[h.session.user]
		if t == nil {
			t = &total{first: h.time, last: h.time}
			all[h.session.user] = t
		}
		t.times++
		t.first, t.last = min(t.first, h.time), max(t.last, h.time)
	}
	for _, user := range slices.Sorted(maps.Keys(all)) {
		t := all[user]
		except("%s of user %q wrote, but another library hid what they ran, between %s and %s",
			render.Plural(t.times, "transaction"), user, render.Time(t.first), render.Time(t.last))
	}
}

// listLosses lists gap records, and transactions whose statements were hidden.
func (c *conditions) listLosses(until int64, except func(format string, args ...any)) {
	type group struct{ reason, user string }
	type total struct {
		records, times int
		unknown        bool
		first, last    int64
	}
	all := map[group]*total{}
	var order []group
	for _, g := range c.gaps {
		if g.time < c.eval.since || g.time >= until {
			continue
		}
		k := group{g.reason, g.user}
		t := all[k]
		if t == nil {
			t = &total{first: g.time, last: g.time}
			all[k] = t
			order = append(order, k)
		}
		n, err := strconv.Atoi(g.count)
		t.records, t.times, t.unknown = t.records+n, t.times+1, t.unknown || err != nil
		t.first, t.last = min(t.first, g.time), max(t.last, g.time)
	}
	c.listUnseen(until, except)
	for _, k := range order {
		t := all[k]
		what := render.Plural(t.records, "record") + " were lost"
		if t.unknown {
			what = "records of unknown number were lost"
		}
		whose := ""
		if k.user != "" {
			whose = fmt.Sprintf(" of sessions of user %q", k.user)
		}
		except("%s%s, between %s and %s (%s)", what, whose, render.Time(t.first), render.Time(t.last), k.reason)
	}
}

// ---- sequence numbers ----

// listMissing finds sequence numbers without a record between two records of one part of a stream, from which no
// block is left out.
func (c *conditions) listMissing(problem func(text string, args ...any)) (sessions int) {
	for _, id := range slices.SortedFunc(maps.Keys(c.sessions), format.SessionID.Compare) {
		s := c.sessions[id]
		if len(s.seen) == 0 {
			continue
		}
		sessions++
		slices.SortFunc(s.explained, format.Span.Compare)
		slices.SortFunc(s.seen, func(a, b numbered) int { return a.Compare(b.Span) })
		next, part := s.seen[0].First, s.seen[0].part
		for _, n := range s.seen {
			if n.First < next {
				problem("session %s: record %d is in the trail more than once", id, n.First)
			}
			for _, hole := range format.Uncovered(s.explained, next, n.First) {
				if n.part == part {
					problem("session %s: records %d to %d are missing", id, hole.First, hole.Last)
				}
			}
			next, part = max(next, n.Last+1), n.part
		}
	}
	return sessions
}

// outcome returns what is to be said about a rename before the range, by how its transaction had ended when the range
// began. The end of a session ends its transaction, unless that was prepared, which has no record if class
// transaction is not recorded.
func (c *conditions) outcome(rename *earlyRename) string {
	const open, done = "the transaction had not ended when the range began",
		"that was before the range, whose records have the name of then: ask for both"
	if c.wasCommitted(rename) {
		return rename.exception(done)
	}
	if c.endOf(rename) != "" {
		return "" // it was rolled back
	}
	prepares := func(r run) bool { return r.mostPrepared != "0" }
	if rename.session.ended < c.eval.since &&
		(rename.xid == 0 || len(c.runs) > 0 && !slices.ContainsFunc(c.runs, prepares)) {
		if rename.xid == 0 {
			return ""
		}
		return rename.exception("whether its transaction was committed before the range is not known")
	}
	return open
}

// isReversed reports whether a statement before the range has itself undone its rename. If another statement did so,
// another object may have had the name in between: the proof lacks renames between names that are not in the
// question, and rollbacks to savepoints.
func (c *conditions) isReversed(i int) bool {
	rename := &c.earlyRenames[i]
	return rename.To != "" && slices.ContainsFunc(c.earlyRenames[i+1:], func(back earlyRename) bool {
		return back.record == rename.record && back.Type == rename.Type && back.Name == rename.To &&
			back.To == rename.Name
	})
}

// wasCommitted reports whether a rename is known to have been committed before the range.
func (c *conditions) wasCommitted(rename *earlyRename) bool {
	event := c.endOf(rename)
	return rename.committed || event == format.EventCommit.String() || event == format.EventCommitPrepared.String()
}

// ending identifies a transaction by what ends it: its own session, or, if it was prepared, any session.
type ending struct {
	session format.SessionID // none: it was prepared
	xid     uint64
}

// noteEnd notes the event that ended a transaction.
func (c *conditions) noteEnd(r *format.Record, event string) {
	by := r.Session.ID()
	if event == format.EventCommitPrepared.String() || event == format.EventRollbackPrepared.String() {
		by = format.SessionID{}
	}
	c.endedTransactions[ending{by, r.XID}] = event
}

// endOf returns the event that ended the transaction of a rename before the range; empty if it is not known.
// Transaction IDs are those of one server: with several servers, the end of a prepared transaction is not known.
func (c *conditions) endOf(rename *earlyRename) string {
	if rename.xid == 0 {
		return ""
	}
	event := c.endedTransactions[ending{rename.record.Session, rename.xid}]
	if event == "" && len(c.lives) == 1 {
		event = c.endedTransactions[ending{xid: rename.xid}]
	}
	return event
}

// exception returns a sentence about a rename after which the object of the question has another name. Objects that
// got a name of the question are found.
func (e *earlyRename) exception(what string) string {
	if !e.Lost {
		return ""
	}
	return what
}

// listUndecided lists records that may match.
func (c *conditions) listUndecided(except func(format string, args ...any)) {
	slices.SortStableFunc(c.earlyRenames, func(a, b earlyRename) int { return cmp.Compare(a.Time, b.Time) })
	for i := range c.earlyRenames {
		if one := &c.earlyRenames[i]; c.outcome(one) != "" && !c.isReversed(i) {
			except("%s; %s", &one.Renamed, c.outcome(one))
		}
	}
	for _, one := range c.committedPrepared {
		if one.xid == 0 || !c.preparedHere[one.xid] || len(c.lives) > 1 {
			except("a transaction that was prepared before the server's start, %q, was committed at %s: it may have "+
				"renamed what the filter asks for", one.gid, render.Time(one.time))
		}
	}
	all := slices.SortedFunc(maps.Values(c.undecided), func(a, b undecided) int {
		return cmp.Or(cmp.Compare(a.time, b.time), strings.Compare(a.id, b.id))
	})
	const listed = 20
	for i, o := range all {
		if i == listed {
			except("%s more may match", render.Plural(len(all)-listed, "record"))
			break
		}
		except("record %s of %s may match: it %s", o.id, render.Time(o.time), o.why)
	}
}

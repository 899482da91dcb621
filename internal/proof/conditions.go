// What the records of a proof tell about what the trail may lack: changes of settings,
// gaps, and when the server was not recording. Missing sequence numbers.

package proof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// conditions collects what the records of a proof tell, one after the other.
type conditions struct {
	asked *asked

	sessions  map[format.SessionID]*session
	settings  map[scope][]change
	runs      []run
	lives     []*life        // of the servers, once all is known
	reached   map[home]int64 // the last time of each stream that is known
	events    []event
	gaps      []gap
	branches  []branch
	opaque    map[statement]opaque
	hidden    []hidden
	early     []early                 // renames before the range
	ended     map[ending]string       // transactions that ended before it, and how: an event
	known     map[uint64]bool         // transactions that were prepared since the server's start
	committed []prepared              // that were committed in the range
	unread    []string                // what could not be interpreted
	later     *later                  // nil: what comes after the range is not known, or is in the proof
	started   map[*trail.Segment]bool // those with the record of a start
}

// session is what is known about the records of a session.
type session struct {
	seen      []numbered
	explained []format.Span
	user      string
	ended     int64 // time of its end; MaxTime: not seen
	asked     bool  // the filter is about it, at least at some time
	here      bool  // it would be, if it were of another user, which it can become
	switched  switched
	home      home
	// when it may have set log_min_messages for the first time, for itself and for later sessions; 0: never
	quiet, quietLater int64
}

// numbered are records of a session that follow each other in a part of a stream from
// which no block is left out.
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
	home     home
}

// run is a start of the server.
type run struct {
	time     int64 // when it began: see began
	home     home
	id       string
	where    string            // its host and data directory
	first    bool              // of its server, as far as it matters: there is nothing before it that it continues
	settings map[string]string // nil: the record does not state them
	writers  int
	// notRunSince is the position in the WAL of the last stop, if the WAL and the control file show
	// that the server did not run after it; empty if they do not.
	notRunSince string
	// levels says that each session whose own log_min_messages hid failures has a record of that.
	levels bool
	// mostPrepared is how many transactions can be prepared for a two-phase commit; empty: the record does not state it.
	mostPrepared string
}

// event is any other server record.
type event struct {
	time   int64
	home   home
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

// hidden is a transaction that wrote, and of which no statement was seen.
type hidden struct {
	time int64
	of   *session
}

// early is a rename before the range.
type early struct {
	query.Renamed
	record    format.RecordID
	xid       uint64
	by        *session
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
	in home
}

// statement identifies a statement of a session.
type statement struct {
	session      format.SessionID
	number, part uint64
}

type opaque struct {
	time int64
	id   string
	why  string
	open bool // only its start record is known
}

func newConditions(a *asked) *conditions {
	return &conditions{
		asked: a, sessions: map[format.SessionID]*session{}, settings: map[scope][]change{}, opaque: map[statement]opaque{}, ended: map[ending]string{},
		known: map[uint64]bool{}, reached: map[home]int64{}, started: map[*trail.Segment]bool{},
	}
}

func (c *conditions) session(r *format.Record) *session {
	s := c.sessions[r.Session.ID()]
	if s == nil {
		s = &session{ended: format.MaxTime}
		c.sessions[r.Session.ID()] = s
	}
	if s.user == "" {
		s.user = string(r.Session.Fact(format.KeyUser))
	}
	s.asked = s.asked || c.asked.q.Record == "" && c.asked.who.Guess(r)
	s.here = s.here || c.asked.q.Record == "" && c.asked.fixed.Guess(r)
	s.switched.note(c.asked, r)
	return s
}

// record takes a record of a block in a part of a stream.
func (c *conditions) record(r *format.Record, in home, part int) {
	s := c.session(r)
	s.home = in
	c.reaches(in, r.Time)
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
		c.statement(r)
	case format.KindDisconnect:
		s.ended = r.Time
	case format.KindGap:
		c.gap(r, s, text)
	case format.KindSetting:
		c.setting(r, in, text)
	case format.KindTransaction:
		if c.asked.endsBefore(r) {
			c.ends(r, text("event"))
		}
		switch c.asked.preparedEvent(r) {
		case format.EventPrepare.String():
			c.known[r.XID] = true
		case format.EventCommitPrepared.String():
			c.committed = append(c.committed, prepared{r.Time, text("gid"), r.XID})
		}
		if r.Unseen() {
			c.hidden = append(c.hidden, hidden{r.Time, s})
		}
	case format.KindServer:
		c.server(r, in, text)
	}
}

func (c *conditions) statement(r *format.Record) {
	if c.asked.quiets(r) {
		s := c.session(r)
		at := &s.quiet
		if quietsLater(r) {
			at = &s.quietLater
		}
		if *at == 0 || r.Time < *at {
			*at = r.Time
		}
	}
	for _, one := range c.asked.renamedBefore(r) {
		c.early = append(c.early, early{one, format.RecordID{Session: r.Session.ID(), Seq: r.Seq}, r.XID, c.session(r), c.asked.committedBefore(r)})
	}
	key := statement{r.Session.ID(), r.Statement, r.Substatement}
	why := c.asked.hides(r)
	if why == "" {
		if r.Kind == format.KindStatement {
			delete(c.opaque, key) // its start record said less
		}
		return
	}
	id := r.Session.ID().String() + "/" + strconv.FormatUint(r.Seq, 10)
	c.opaque[key] = opaque{r.Time, id, why, r.Kind == format.KindStart}
}

func (c *conditions) gap(r *format.Record, s *session, text func(string) string) {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(text(name), 10, 64)
		return n
	}
	if first, last := number("first_seq"), number("last_seq"); first > 0 && last >= first {
		s.explained = append(s.explained, format.Span{First: first, Last: last})
	}
	c.gaps = append(c.gaps, gap{r.Time, text("count"), text("reason"), s.user})
}

func (c *conditions) setting(r *format.Record, in home, text func(string) string) {
	at := scope{name: text("name"), server: text("source") == "server"}
	if !at.server {
		at.session = r.Session.ID()
	}
	c.settings[at] = append(c.settings[at], change{time: r.Time, old: text("old"), new: text("new"), source: text("source"), home: in})
}

func (c *conditions) server(r *format.Record, in home, text func(string) string) {
	switch name := text("event"); name {
	case "start":
		one := run{
			time: began(r), home: in, id: text("run"), where: text("host") + ", " + text("data_directory"), writers: 1,
			notRunSince: text("not_run_since_wal"), mostPrepared: text("max_prepared_transactions"), levels: recordsLevels(r),
		}
		if one.id != "" {
			one.settings = map[string]string{}
			for name, value := range r.ExtraPairs {
				if strings.HasPrefix(string(name), "steno.") || string(name) == MinMessages {
					one.settings[string(name)] = string(value)
				}
			}
			if w, set := one.settings["steno.writers"]; set {
				one.writers, _ = strconv.Atoi(w)
			}
		}
		c.runs = append(c.runs, one)
	case "branch":
		if b, ok := trail.ParseBranch(r); ok {
			c.branches = append(c.branches, branch{b, in})
		} else {
			c.unread = append(c.unread, "the record of a branch at "+render.Time(r.Time)+" cannot be interpreted")
		}
	case "other_trail":
		// records of sessions say the rest, and verify takes them
		if o, ok := trail.ParseOtherTrail(r); !ok || o.Last == 0 {
			c.events = append(c.events, event{r.Time, in, name, fmt.Sprintf("since %s, stream %d, block %d", o.Since, o.Stream, o.Block), "", 0})
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

// isStart says whether a record is that of a start of the server.
func isStart(r *format.Record) bool {
	if r.Kind != format.KindServer {
		return false
	}
	event, _ := r.ExtraValue("event")
	return string(event) == "start"
}

// late is how much later than the server begins its start may be recorded, in microseconds: the command for a key may take
// a minute. More is a clock that was set.
const late = 120 * second

// began is when the run began whose start a record is about. Its first sessions may have recorded before that was written.
func began(r *format.Record) int64 {
	text, _ := r.ExtraValue("began")
	if t, ok := moment(string(text)); ok && t <= r.Time && uint64(r.Time)-uint64(t) <= late {
		return t
	}
	return r.Time
}

// moment is a time as records of the server state it.
func moment(text string) (int64, bool) {
	t, err := time.Parse(time.RFC3339, text)
	return query.Micros(t), err == nil
}

// finish sorts what was collected.
func (c *conditions) finish() {
	byTime := func(a, b event) int { return cmp.Compare(a.time, b.time) }
	slices.SortStableFunc(c.events, byTime)
	slices.SortStableFunc(c.runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.home.trail, b.home.trail), cmp.Compare(a.home.stream, b.home.stream))
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
	reloaded bool // a reload has ended it, which reaches sessions at the end of what they are running
}

// when is a period in words, as far as it is in the range.
func (p *period) when(a *asked) string {
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

// lastBefore is the value that the last change before a time gave to a setting; without one, the value given.
func lastBefore(changes []change, at int64, value string) string {
	for i := range changes {
		if changes[i].time < at {
			value = changes[i].new
		}
	}
	return value
}

// second is one, in microseconds.
const second = 1_000_000

// flushes is the longest time that a record stays in its ring before it is written, if the
// writer keeps up: steno.flush_interval, in microseconds.
func (c *conditions) flushes() int64 {
	most := int64(200_000)
	for _, l := range c.lives {
		for _, p := range l.periods("steno.flush_interval") {
			if d, ok := format.SettingTime(p.value, time.Millisecond); ok {
				most = max(most, d.Microseconds())
			} else if p.value != "" {
				most = 10 * second // the most that it can be
			}
		}
	}
	return most
}

// over is when a session ended that went on at a time: with its run of the server, at the latest. MaxTime: it is not known.
func (c *conditions) over(s *session, at int64) int64 {
	end := int64(format.MinTime)
	for _, l := range c.livesOf(s.home) {
		next := int64(format.MaxTime)
		for i := range l.runs {
			// that of its own run may have been recorded after its first records
			if one := &l.runs[i]; one.time > at && uint64(one.time)-uint64(at) > late {
				next = min(next, one.time)
			}
		}
		end = max(end, next)
	}
	return min(s.ended, end)
}

// ofSessions lists values that sessions had of their own.
func (c *conditions) ofSessions(except func(text string, args ...any)) {
	a := c.asked
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
		for i, one := range changes {
			to := c.over(s, one.time)
			if i+1 < len(changes) {
				to = changes[i+1].time
			}
			// SET SESSION AUTHORIZATION can make a session one that the filter is about, for a moment of
			// which the proof need not have a record: a value that the session itself has set counts.
			if to <= a.since || one.time >= a.until {
				continue
			}
			if !a.decides(at.name) {
				continue
			}
			leavesOut := a.leavesOut
			switch {
			case at.name == MinMessages && !a.ofStatements(): // a session hides no login
				continue
			case !s.here || one.source != "session" && !s.asked:
				leavesOut = a.leavesOutRenames
			}
			for _, l := range c.livesOf(s.home) {
				if what := leavesOut(at.name, one.new, l.mandatory(one.time)); what != "" {
					if at.name == MinMessages {
						what = hiddenStatements
					}
					g := group{at.name, one.new, one.source, s.user, what}
					if counted[g] == nil {
						counted[g] = &found{first: at.session, since: one.time}
						order = append(order, g)
					}
					if counted[g].sessions++; one.time < counted[g].since {
						counted[g].first, counted[g].since = at.session, one.time
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
			in = fmt.Sprintf("%s, first in %s", count(f.sessions, "session"), in)
		}
		except("%s of user %q were not recorded in %s: %s, set by %s", g.what, g.user, in, settingText(g.name, g.value), g.source)
	}
}

func compareScopes(a, b scope) int {
	return cmp.Or(a.session.Compare(b.session), strings.Compare(a.name, b.name))
}

// ---- when the server was not recording ----

// unseen lists transactions whose statements were not seen, of the users that the filter is about.
func (c *conditions) unseen(until int64, except func(format string, args ...any)) {
	type total struct {
		times       int
		first, last int64
	}
	all := map[string]*total{}
	for _, h := range c.hidden {
		if h.time < c.asked.since || h.time >= until || !h.of.asked {
			continue
		}
		t := all[h.of.user]
		if t == nil {
			t = &total{first: h.time, last: h.time}
			all[h.of.user] = t
		}
		t.times++
		t.first, t.last = min(t.first, h.time), max(t.last, h.time)
	}
	for _, user := range slices.Sorted(maps.Keys(all)) {
		t := all[user]
		except("%s of user %q wrote, but another library hid what they ran, between %s and %s", count(t.times, "transaction"), user, render.Time(t.first), render.Time(t.last))
	}
}

// losses lists gap records, and what was hidden.
func (c *conditions) losses(until int64, except func(format string, args ...any)) {
	type group struct{ reason, user string }
	type total struct {
		records, times int
		unknown        bool
		first, last    int64
	}
	all := map[group]*total{}
	var order []group
	for _, g := range c.gaps {
		if g.time < c.asked.since || g.time >= until {
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
	c.unseen(until, except)
	for _, k := range order {
		t := all[k]
		what := count(t.records, "record") + " were lost"
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

// missing finds sequence numbers that no record has although there are records before and
// after them in one part of a stream, from which no block is left out.
func (c *conditions) missing(problem func(text string, args ...any)) (sessions int) {
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

// outcome says what became of a rename before the range until the range began. A session ends its transaction, unless
// that was prepared, which is not recorded without class transaction.
func (c *conditions) outcome(one *early) string {
	const open, done = "the transaction had not ended when the range began", "that was before the range, whose records have the name of then: ask for both"
	if c.wasCommitted(one) {
		return one.lost(done)
	}
	if c.endOf(one) != "" {
		return "" // it was rolled back
	}
	prepares := func(r run) bool { return r.mostPrepared != "0" }
	if one.by.ended < c.asked.since && (one.xid == 0 || len(c.runs) > 0 && !slices.ContainsFunc(c.runs, prepares)) {
		if one.xid == 0 {
			return ""
		}
		return one.lost("whether its transaction was committed before the range is not known")
	}
	return open
}

// reversed says whether what a statement before the range has renamed has got its name back by the same statement. If it
// was by another one, something else may have had that name by then: the proof does not have renames from one name to
// another of which neither is asked for, nor what a savepoint has undone.
func (c *conditions) reversed(i int) bool {
	one := &c.early[i]
	return one.To != "" && slices.ContainsFunc(c.early[i+1:], func(back early) bool {
		return back.record == one.record && back.Type == one.Type && back.Name == one.To && back.To == one.Name
	})
}

// wasCommitted says whether it is known that a rename was committed before the range.
func (c *conditions) wasCommitted(one *early) bool {
	event := c.endOf(one)
	return one.committed || event == format.EventCommit.String() || event == format.EventCommitPrepared.String()
}

// ending is what ends a transaction: a session its own, any session one that was prepared.
type ending struct {
	session format.SessionID // none: it was prepared
	xid     uint64
}

// ends notes the event that ended a transaction.
func (c *conditions) ends(r *format.Record, event string) {
	by := r.Session.ID()
	if event == format.EventCommitPrepared.String() || event == format.EventRollbackPrepared.String() {
		by = format.SessionID{}
	}
	c.ended[ending{by, r.XID}] = event
}

// endOf is the event that ended the transaction of a rename before the range; empty if none is known. Numbers of
// transactions are those of one server: of several, who ended a prepared one is not known.
func (c *conditions) endOf(one *early) string {
	if one.xid == 0 {
		return ""
	}
	event := c.ended[ending{one.record.Session, one.xid}]
	if event == "" && len(c.lives) == 1 {
		event = c.ended[ending{xid: one.xid}]
	}
	return event
}

// lost says something of a rename after which what had the name has another one; what has got the name is found.
func (one *early) lost(what string) string {
	if !one.Lost {
		return ""
	}
	return what
}

// obscure lists records that may be ones that are asked for.
func (c *conditions) obscure(except func(format string, args ...any)) {
	slices.SortStableFunc(c.early, func(a, b early) int { return cmp.Compare(a.Time, b.Time) })
	for i := range c.early {
		if one := &c.early[i]; c.outcome(one) != "" && !c.reversed(i) {
			except("%s; %s", &one.Renamed, c.outcome(one))
		}
	}
	for _, one := range c.committed {
		if one.xid == 0 || !c.known[one.xid] || len(c.lives) > 1 {
			except("a transaction that was prepared before the server's start, %q, was committed at %s: it may have renamed what the filter asks for", one.gid, render.Time(one.time))
		}
	}
	all := slices.SortedFunc(maps.Values(c.opaque), func(a, b opaque) int { return cmp.Or(cmp.Compare(a.time, b.time), strings.Compare(a.id, b.id)) })
	const listed = 20
	for i, o := range all {
		if i == listed {
			except("%s more may match", count(len(all)-listed, "record"))
			break
		}
		except("record %s of %s may match: it %s", o.id, render.Time(o.time), o.why)
	}
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return humanize.Comma(int64(n)) + " " + what
}

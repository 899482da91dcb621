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

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// conditions collects what the records of a proof tell, one after the other.
type conditions struct {
	asked *asked

	sessions  map[trail.SessionID]*session
	settings  map[scope][]change
	runs      []run
	events    []event
	gaps      []gap
	branches  []branch
	opaque    map[statement]opaque
	hidden    []hidden
	early     []early           // renames before the range
	ended     map[uint64]string // transactions that ended before it, and how: an event
	known     map[uint64]bool   // transactions that were prepared since the server's start
	committed []prepared        // that were committed in the range
	unread    []string          // what could not be interpreted
}

// session is what is known about the records of a session.
type session struct {
	seen      []numbered
	explained []trail.Span
	user      string
	ended     int64 // time of its end; MaxTime: not seen
	asked     bool  // the filter is about it, at least at some time
	switched  switched
	// when it may have set log_min_messages for the first time, for itself and for later sessions; 0: never
	quiet, quietLater int64
}

// numbered are records of a session that follow each other in a part of a stream from
// which no block is left out.
type numbered struct {
	trail.Span
	part int
}

// scope is where a setting has a value: a session, or the server (a zero session).
type scope struct {
	session trail.SessionID
	server  bool
	name    string
}

// change is a change of a setting. old is known, except if a start sets it.
type change struct {
	time     int64
	old, new string
	source   string
}

// run is a start of the server.
type run struct {
	time     int64
	stream   uint32
	block    uint64
	settings map[string]string // nil: the record does not state them
	writers  int
	// notRunSince is the position in the WAL of the last stop, if the WAL and the control file show
	// that the server did not run after it; empty if they do not.
	notRunSince string
	// mostPrepared is how many transactions can be prepared for a two-phase commit; empty: the record does not state it.
	mostPrepared string
}

// event is any other server record.
type event struct {
	time   int64
	stream uint32
	name   string
	detail string
	wal    string // of a stop: its position in the WAL
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
	in uint32
}

// statement identifies a statement of a session.
type statement struct {
	session      trail.SessionID
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
		asked: a, sessions: map[trail.SessionID]*session{}, settings: map[scope][]change{}, opaque: map[statement]opaque{}, ended: map[uint64]string{},
		known: map[uint64]bool{},
	}
}

func (c *conditions) session(r *trail.Record) *session {
	s := c.sessions[r.Session.ID()]
	if s == nil {
		s = &session{ended: trail.MaxTime}
		c.sessions[r.Session.ID()] = s
	}
	if s.user == "" {
		s.user = string(r.Session.Fact(trail.KeyUser))
	}
	s.asked = s.asked || c.asked.q.Record == "" && c.asked.who.Guess(r)
	s.switched.note(c.asked, r)
	return s
}

// record takes a record of a block in a part of a stream.
func (c *conditions) record(r *trail.Record, stream uint32, block uint64, part int) {
	s := c.session(r)
	if r.Seq != 0 {
		if n := len(s.seen); n > 0 && s.seen[n-1].part == part && s.seen[n-1].Last+1 == r.Seq {
			s.seen[n-1].Last++
		} else {
			s.seen = append(s.seen, numbered{trail.Span{First: r.Seq, Last: r.Seq}, part})
		}
	}
	text := func(name string) string {
		v, _ := r.ExtraValue(name)
		return string(v)
	}
	switch r.Kind {
	case trail.KindStatement, trail.KindStart:
		c.statement(r)
	case trail.KindDisconnect:
		s.ended = r.Time
	case trail.KindGap:
		c.gap(r, s, text)
	case trail.KindSetting:
		c.setting(r, text)
	case trail.KindTransaction:
		if c.asked.endsBefore(r) {
			c.ended[r.XID] = text("event")
		}
		switch c.asked.preparedEvent(r) {
		case trail.EventPrepare.String():
			c.known[r.XID] = true
		case trail.EventCommitPrepared.String():
			c.committed = append(c.committed, prepared{r.Time, text("gid"), r.XID})
		}
		if r.Unseen() {
			c.hidden = append(c.hidden, hidden{r.Time, s})
		}
	case trail.KindServer:
		c.server(r, stream, block, text)
	}
}

func (c *conditions) statement(r *trail.Record) {
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
		c.early = append(c.early, early{one, r.XID, c.session(r), c.asked.committedBefore(r)})
	}
	key := statement{r.Session.ID(), r.Statement, r.Substatement}
	why := c.asked.hides(r)
	if why == "" {
		if r.Kind == trail.KindStatement {
			delete(c.opaque, key) // its start record said less
		}
		return
	}
	id := r.Session.ID().String() + "/" + strconv.FormatUint(r.Seq, 10)
	c.opaque[key] = opaque{r.Time, id, why, r.Kind == trail.KindStart}
}

func (c *conditions) gap(r *trail.Record, s *session, text func(string) string) {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(text(name), 10, 64)
		return n
	}
	if first, last := number("first_seq"), number("last_seq"); first > 0 && last >= first {
		s.explained = append(s.explained, trail.Span{First: first, Last: last})
	}
	c.gaps = append(c.gaps, gap{r.Time, text("count"), text("reason"), s.user})
}

func (c *conditions) setting(r *trail.Record, text func(string) string) {
	at := scope{name: text("name"), server: text("source") == "server"}
	if !at.server {
		at.session = r.Session.ID()
	}
	c.settings[at] = append(c.settings[at], change{time: r.Time, old: text("old"), new: text("new"), source: text("source")})
}

func (c *conditions) server(r *trail.Record, stream uint32, block uint64, text func(string) string) {
	switch name := text("event"); name {
	case "start":
		one := run{time: r.Time, stream: stream, block: block, writers: 1, notRunSince: text("not_run_since_wal"), mostPrepared: text("max_prepared_transactions")}
		if text("run") != "" {
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
			c.branches = append(c.branches, branch{b, stream})
		} else {
			c.unread = append(c.unread, "the record of a branch at "+render.Time(r.Time)+" cannot be interpreted")
		}
	default:
		var detail []string
		for name, value := range r.ExtraPairs {
			if n := string(name); n != "event" && n != "version" {
				detail = append(detail, n+"="+string(value))
			}
		}
		c.events = append(c.events, event{r.Time, stream, name, strings.Join(detail, " "), text("wal")})
	}
}

// finish sorts what was collected.
func (c *conditions) finish() {
	byTime := func(a, b event) int { return cmp.Compare(a.time, b.time) }
	slices.SortStableFunc(c.events, byTime)
	slices.SortStableFunc(c.runs, func(a, b run) int { return cmp.Compare(a.time, b.time) })
	for _, changes := range c.settings {
		slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.time, b.time) })
	}
}

// base is the last start before the range; nil if it is not known.
func (c *conditions) base() *run {
	var base *run
	for i := range c.runs {
		if c.runs[i].time <= c.asked.since {
			base = &c.runs[i]
		}
	}
	return base
}

// ---- settings ----

// unstated says why it is not known which settings were in effect at the beginning of the range; empty if it is.
func (c *conditions) unstated() string {
	switch base := c.base(); {
	case base == nil:
		return "there is no record of an earlier start of the server"
	case base.settings == nil:
		return "the record of the server's start does not state them"
	}
	return ""
}

// recording lists the settings that left out something of the answer, and when.
func (c *conditions) recording(except func(format string, args ...any)) {
	a := c.asked
	// the periods of each setting of the server
	mandatory := c.periods("steno.mandatory")
	strictly := func(at int64) string {
		value := ""
		for _, p := range mandatory {
			if p.from <= at {
				value = p.value
			}
		}
		return value
	}
	for _, p := range mandatory {
		if a.only == nil && p.to > a.since && p.from < a.until && !listsClass(p.value, "setting") {
			except("changes of settings were not mandatory %s: steno.mandatory = %q; one that steno.log left out is not known", p.when(a), p.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if name == "steno.mandatory" || a.only != nil && !slices.Contains(a.only, name) {
			continue
		}
		for _, p := range c.periods(name) {
			if name == "steno.log" && c.hidesPrepared(p.value, strictly(p.from)) && p.to > a.since && p.from < a.until {
				except("commits of prepared transactions were not recorded %s: %s; one that was prepared before may have renamed what the filter asks for", p.when(a), settingText(name, p.value))
			}
			if what := a.leavesOut(name, p.value, strictly(p.from)); what != "" && p.to > a.since && p.from < a.until {
				except("%s were not recorded %s: %s", what, p.when(a), settingText(name, p.value))
			}
		}
	}
	c.ofSessions(strictly, except)
	if a.only == nil {
		c.quieting(except)
	}
}

// hidesPrepared says whether values of steno.log and steno.mandatory leave out the ends of prepared transactions, which
// are known to be possible, and if these matter.
func (c *conditions) hidesPrepared(log, mandatory string) bool {
	possible := func(r run) bool { return r.mostPrepared != "" && r.mostPrepared != "0" }
	return (c.asked.ofObjects || c.asked.ofRoles) && !listsClass(log, "transaction") && !listsClass(mandatory, "transaction") &&
		slices.ContainsFunc(c.runs, possible)
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
}

// when is a period in words, as far as it is in the range.
func (p *period) when(a *asked) string {
	switch begins, ends := p.from <= a.since, p.to >= a.until; {
	case begins && ends:
		return "throughout"
	case begins:
		return "until " + render.Time(p.to)
	case ends:
		return "since " + render.Time(p.from)
	}
	return "from " + render.Time(p.from) + " until " + render.Time(p.to)
}

// periods are the values that the configuration gave a setting, from the last start before
// the range on. Without a record of one, the first value is what the first change says.
func (c *conditions) periods(name string) (all []period) {
	put := func(from int64, value string) {
		if n := len(all); n > 0 {
			all[n-1].to = from
		}
		all = append(all, period{from, trail.MaxTime, value})
	}
	base := c.base()
	changes := c.settings[scope{server: true, name: name}]
	for i := range c.runs {
		if one := &c.runs[i]; one.settings != nil {
			value, set := one.settings[name]
			switch {
			case !set && name == MinMessages: // which earlier versions do not state: what was changed before is kept
				value = lastBefore(changes, one.time, defaults[name])
			case !set || name == "steno.rules_file": // the record of a start has the name of the file
				value = defaults[name]
			}
			if base == nil && len(all) == 0 && len(changes) > 0 && changes[0].time < one.time {
				put(trail.MinTime, changes[0].old)
			}
			put(one.time, value)
		}
	}
	if len(all) == 0 && len(changes) > 0 {
		put(trail.MinTime, changes[0].old)
	}
	if len(all) == 0 {
		return nil
	}
	if len(changes) == 0 {
		return all
	}
	merged := all
	all = nil
	i := 0
	for _, p := range merged {
		for ; i < len(changes) && changes[i].time < p.from; i++ {
			put(changes[i].time, changes[i].new)
		}
		put(p.from, p.value)
	}
	for ; i < len(changes); i++ {
		put(changes[i].time, changes[i].new)
	}
	return all
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
	for _, p := range c.periods("steno.flush_interval") {
		if d, ok := trail.SettingTime(p.value, time.Millisecond); ok {
			most = max(most, d.Microseconds())
		} else if p.value != "" {
			most = 10 * second // the most that it can be
		}
	}
	return most
}

// ofSessions lists values that sessions had of their own.
func (c *conditions) ofSessions(mandatory func(int64) string, except func(format string, args ...any)) {
	a := c.asked
	type group struct{ name, value, source, user, what string }
	counted := map[group]int{}
	var order []group
	for _, at := range slices.SortedFunc(maps.Keys(c.settings), compareScopes) {
		s := c.sessions[at.session]
		if at.server || s == nil {
			continue
		}
		changes := c.settings[at]
		for i, one := range changes {
			to := s.ended
			if i+1 < len(changes) {
				to = changes[i+1].time
			}
			// SET SESSION AUTHORIZATION can make a session one that the filter is about, for a moment of
			// which the proof need not have a record: a value that the session itself has set counts.
			if to <= a.since || one.time >= a.until {
				continue
			}
			if _, decides := defaults[at.name]; !decides || a.only != nil && !slices.Contains(a.only, at.name) {
				continue
			}
			leavesOut := a.leavesOut
			if one.source != "session" && !s.asked {
				leavesOut = a.leavesOutRenames
			}
			if what := leavesOut(at.name, one.new, mandatory(one.time)); what != "" {
				g := group{at.name, one.new, one.source, s.user, what}
				if counted[g]++; counted[g] == 1 {
					order = append(order, g)
				}
			}
		}
	}
	for _, g := range order {
		except("%s of user %q were not recorded in %s: %s, set by %s", g.what, g.user, count(counted[g], "session"), settingText(g.name, g.value), g.source)
	}
}

func compareScopes(a, b scope) int {
	return cmp.Or(a.session.Compare(b.session), strings.Compare(a.name, b.name))
}

// ---- when the server was not recording ----

// downTimes lists when no server wrote the trail, and how runs ended. begins says that the
// proof has the trail from its beginning. stopped gets the times in which it is known that
// the server did not run, so that nothing could be recorded.
func (c *conditions) downTimes(until int64, begins bool, except, stopped func(format string, args ...any)) {
	a := c.asked
	ended := func(after, before int64, names ...string) (found *event) {
		for i := range c.events {
			if e := &c.events[i]; after < e.time && e.time <= before && slices.Contains(names, e.name) {
				found = e
			}
		}
		return found
	}
	previous := int64(trail.MinTime)
	for i, one := range c.runs {
		next := int64(trail.MaxTime)
		if i+1 < len(c.runs) {
			next = c.runs[i+1].time
		}
		if one.time > a.since && one.time < until {
			stop := ended(previous, one.time, "stop")
			recovered := ended(previous, min(next, one.time+3600*1e6), "recover")
			switch {
			case i == 0 && begins && stop == nil:
				except("nothing was recorded before %s: the trail begins with this start of the server", render.Time(one.time))
			case stop != nil && stop.time < a.until && stop.wal != "" && stop.wal == one.notRunSince:
				stopped("the server did not run from %s until %s: its WAL and its control file agree that it was not started in between", render.Time(stop.time), render.Time(one.time))
			case stop != nil && stop.time < a.until:
				except("nothing was recorded from %s until %s: the server was not running, or ran without pg_steno", render.Time(stop.time), render.Time(one.time))
			case stop != nil:
			case recovered != nil && one.time < a.until:
				except("the server ended without stopping before %s; what its sessions had recorded until then was recovered", render.Time(one.time))
			case one.time < a.until:
				except("the server ended without stopping before %s, and nothing says that the last records were recovered", render.Time(one.time))
			}
		}
		previous = one.time
	}
	if stop := ended(previous, until, "stop"); stop != nil && stop.time < a.until {
		except("nothing was recorded since %s: the server was stopped", render.Time(stop.time))
	}
	for _, e := range c.events {
		if e.time < a.since || e.time >= until {
			continue
		}
		switch e.name {
		case "stop", "recover", "deleted", "restart", "salvage", "begin":
		case "torn":
			except("an unfinished block was cut off stream %d at %s (%s): records of the last moments before may be missing", e.stream, render.Time(e.time), e.detail)
		default:
			except("the server reported %q at %s (%s)", e.name, render.Time(e.time), e.detail)
		}
	}
}

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
func (c *conditions) missing(problem func(format string, args ...any)) (sessions int) {
	for _, id := range slices.SortedFunc(maps.Keys(c.sessions), trail.SessionID.Compare) {
		s := c.sessions[id]
		if len(s.seen) == 0 {
			continue
		}
		sessions++
		slices.SortFunc(s.explained, trail.Span.Compare)
		slices.SortFunc(s.seen, func(a, b numbered) int { return a.Compare(b.Span) })
		next, part := s.seen[0].First, s.seen[0].part
		for _, n := range s.seen {
			if n.First < next {
				problem("session %s: record %d is in the trail more than once", id, n.First)
			}
			for _, hole := range trail.Uncovered(s.explained, next, n.First) {
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
	if one.xid != 0 && c.ended[one.xid] != "" {
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

// reversed says whether what a rename before the range has renamed had got its name back when the range began.
func (c *conditions) reversed(i int) bool {
	one := &c.early[i]
	return one.To != "" && c.wasCommitted(one) && slices.ContainsFunc(c.early[i+1:], func(back early) bool {
		return back.Type == one.Type && back.Name == one.To && back.To == one.Name && c.wasCommitted(&back)
	})
}

// wasCommitted says whether it is known that a rename was committed before the range.
func (c *conditions) wasCommitted(one *early) bool {
	event := c.ended[one.xid]
	return one.committed || one.xid != 0 && (event == trail.EventCommit.String() || event == trail.EventCommitPrepared.String())
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
		if one.xid == 0 || !c.known[one.xid] {
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

// The lives of servers: what each recorded of its settings, starts and stops. A trail is of one server, unless its data
// directory was copied with it, and both went on. Trails of both may be read together.

package proof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// home is a stream of a trail. Streams of a proof have no trail.
type home struct {
	trail  string
	stream uint32
}

// homeOf is that of a stream. Streams that have blocks in common are one.
func homeOf(s *trail.Stream) home {
	h := home{folderOf(s), s.Number}
	for _, seg := range s.Segments {
		for _, twin := range seg.Twins() {
			h.trail = min(h.trail, folderOf(twin.Stream))
		}
	}
	return h
}

func folderOf(s *trail.Stream) string { return cmp.Or(s.Trail, s.Path) }

// life is what one server recorded of itself.
type life struct {
	asked    *asked
	homes    map[home]bool // of its starts
	runs     []run
	stops    []event // and recoveries
	settings map[string][]change
	strict   []period // of steno.mandatory
	name     string   // in sentences; empty: there is no other one
}

// reaches notes that a stream has something of a time, which tells servers apart that wrote at the same time.
func (c *conditions) reaches(in home, at int64) {
	if last, known := c.reached[in]; !known || at > last {
		c.reached[in] = at
	}
}

// tellApart finds the lives. Streams in which a server has started are of the same life if one was not written any more
// when another one began, and, whatever the clocks say, if it was begun because the other one was not as that server had
// left it.
func (c *conditions) tellApart() {
	c.lives = nil
	var homes []home
	begun := map[home]int64{}
	for i := range c.runs {
		one := &c.runs[i]
		one.first = slices.ContainsFunc(c.branches, func(b branch) bool {
			return b.Reason == trail.ReasonCopy && b.Run != "" && b.Run == one.id && b.in.trail == one.home.trail
		})
		if _, known := begun[one.home]; !known {
			begun[one.home] = one.time
			homes = append(homes, one.home)
		}
	}
	of := map[home]*life{}
	for _, h := range homes {
		l := of[c.replacedBy(h)]
		for i := len(c.lives) - 1; i >= 0 && l == nil; i-- {
			if !c.writes(c.lives[i], begun[h]) {
				l = c.lives[i]
			}
		}
		if l == nil {
			l = &life{asked: c.asked, homes: map[home]bool{}, settings: map[string][]change{}}
			c.lives = append(c.lives, l)
		}
		l.homes[h], of[h] = true, l
	}
	if len(c.lives) == 0 {
		c.lives = []*life{{asked: c.asked, settings: map[string][]change{}}}
	}
	for _, one := range c.runs {
		of[one.home].runs = append(of[one.home].runs, one)
	}
	for _, one := range c.events {
		for _, l := range c.livesOf(one.home) {
			l.stops = append(l.stops, one)
		}
	}
	for at, changes := range c.settings {
		for _, one := range changes {
			if !at.server {
				break
			}
			for _, l := range c.livesOf(one.home) {
				l.settings[at.name] = append(l.settings[at.name], one)
			}
		}
	}
	for _, l := range c.lives {
		if n := len(l.runs); len(c.lives) > 1 && n > 0 {
			l.name = " (server: " + render.Safe(l.runs[n-1].where) + ")"
		}
	}
}

// replacedBy is the stream beside which another one of the same server was begun, because that was not as it had been.
func (c *conditions) replacedBy(h home) home {
	for _, b := range c.branches {
		if b.in == h && b.Reason != trail.ReasonCopy && !b.Unused && b.Stream != h.stream {
			return home{h.trail, b.Stream}
		}
	}
	return h
}

// writes says whether a server wrote after a time what it had begun before.
func (c *conditions) writes(l *life, at int64) bool {
	for h := range l.homes {
		if c.reached[h] > at {
			return true
		}
	}
	return false
}

// livesOf are the lives that a stream can be of: all of them, if no start in it is known.
func (c *conditions) livesOf(h home) []*life {
	for _, l := range c.lives {
		if l.homes[h] {
			return []*life{l}
		}
	}
	return c.lives
}

// unstated says why it is not known which settings were in effect at the beginning of the range; empty if it is.
func (c *conditions) unstated() string {
	for _, l := range c.lives {
		if why := l.unstated(); why != "" {
			return why + l.name
		}
	}
	return ""
}

// hasBase says whether a start before the range is known.
func (c *conditions) hasBase() bool {
	return slices.ContainsFunc(c.lives, func(l *life) bool { return l.base() != nil })
}

// recording lists the settings that left out something of the answer, and when.
func (c *conditions) recording(except func(format string, args ...any)) {
	for _, l := range c.lives {
		l.recording(l.named(except))
	}
	c.ofSessions(except)
	if c.asked.only == nil {
		c.quieting(except)
	}
}

// downTimes lists when no server wrote the trail, and how runs ended. begins says that the
// proof has the trail from its beginning. stopped gets the times in which it is known that
// the server did not run, so that nothing could be recorded.
func (c *conditions) downTimes(until int64, begins bool, except, stopped func(format string, args ...any)) {
	for _, l := range c.lives {
		l.downTimes(until, begins, c.later, l.named(except), l.named(stopped))
	}
}

// copies lists the copies of data directories that began to record in the range, of servers of whose later records there are
// none.
func (c *conditions) copies(say func(format string, args ...any)) {
	said := map[string]bool{} // each stream of a copy has such a record
	for _, b := range c.branches {
		goesOn := func(h home) bool { return h.stream == b.Stream && c.reached[h] > b.Time }
		if b.Reason != trail.ReasonCopy || b.Time < c.asked.since || b.Time >= c.asked.until || said[b.Run] || slices.ContainsFunc(slices.Collect(maps.Keys(c.reached)), goesOn) {
			continue
		}
		said[b.Run] = true
		of := ""
		if b.FromHost != "" || b.FromDirectory != "" {
			of = fmt.Sprintf(", of %s on host %s", render.Quoted(b.FromDirectory), render.Quoted(b.FromHost))
		}
		say("a copy of the data directory%s, began to record at %s: what the original has recorded since is not in this trail", of, render.Time(b.Time))
	}
}

// named says which server a sentence is about.
func (l *life) named(say func(format string, args ...any)) func(format string, args ...any) {
	return func(format string, args ...any) { say("%s", fmt.Sprintf(format, args...)+l.name) }
}

// base is the last start before the range; nil if it is not known.
func (l *life) base() *run {
	var base *run
	for i := range l.runs {
		if l.runs[i].time <= l.asked.since {
			base = &l.runs[i]
		}
	}
	return base
}

// unstated says why it is not known which settings were in effect at the beginning of the range; empty if it is.
func (l *life) unstated() string {
	switch base := l.base(); {
	case base == nil && len(l.runs) > 0 && l.runs[0].first && l.name != "": // it began in the range
		return ""
	case base == nil:
		return "there is no record of an earlier start of the server"
	case base.settings == nil:
		return "the record of the server's start does not state them"
	}
	return ""
}

// recording lists the settings that left out something of the answer, and when.
func (l *life) recording(except func(format string, args ...any)) {
	a := l.asked
	l.strict = l.periods("steno.mandatory")
	for _, p := range l.strict {
		if a.only == nil && p.to > a.since && p.from < a.until && !listsClass(p.value, "setting") {
			except("changes of settings were not mandatory %s: steno.mandatory = %q; one that steno.log left out is not known", p.when(a), p.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if name == "steno.mandatory" || a.only != nil && !slices.Contains(a.only, name) {
			continue
		}
		for _, p := range l.periods(name) {
			if name == "steno.log" && l.hidesPrepared(p.value, l.mandatory(p.from)) && p.to > a.since && p.from < a.until {
				except("commits of prepared transactions were not recorded %s: %s; one that was prepared before may have renamed what the filter asks for", p.when(a), settingText(name, p.value))
			}
			if what := a.leavesOut(name, p.value, l.mandatory(p.from)); what != "" && (p.to > a.since || l.outlasts(&p)) && p.from < a.until {
				except("%s were not recorded %s: %s", what, p.when(a), settingText(name, p.value))
			}
		}
	}
}

// outlasts says whether what has begun in a period that ended before the range can have gone on in it.
func (l *life) outlasts(p *period) bool {
	base := l.base()
	return p.reloaded && (base == nil || p.to > base.time)
}

// mandatory is the value of steno.mandatory at a time.
func (l *life) mandatory(at int64) (value string) {
	for _, p := range l.strict {
		if p.from <= at {
			value = p.value
		}
	}
	return value
}

// hidesPrepared says whether values of steno.log and steno.mandatory leave out the ends of prepared transactions, which
// are known to be possible, and if these matter.
func (l *life) hidesPrepared(log, mandatory string) bool {
	possible := func(r run) bool { return r.mostPrepared != "" && r.mostPrepared != "0" }
	return (l.asked.ofObjects || l.asked.ofRoles) && !listsClass(log, "transaction") && !listsClass(mandatory, "transaction") &&
		slices.ContainsFunc(l.runs, possible)
}

// periods are the values that the configuration gave a setting, from the last start before
// the range on. Without a record of one, the first value is what the first change says.
func (l *life) periods(name string) (all []period) {
	add := func(from int64, value string, reloaded bool) {
		if n := len(all); n > 0 {
			all[n-1].to, all[n-1].reloaded = from, reloaded
		}
		all = append(all, period{from, format.MaxTime, value, false})
	}
	put := func(from int64, value string) { add(from, value, false) }
	reload := func(one *change) { add(one.time, one.new, l.asked.proves) }
	base := l.base()
	changes := slices.Clone(l.settings[name])
	changes = slices.DeleteFunc(changes, func(one change) bool { return l.begins(name, &one) })
	for i := range l.runs {
		if one := &l.runs[i]; one.settings != nil {
			value, set := one.settings[name]
			switch {
			case !set && name == MinMessages: // which earlier versions do not state: what was changed before is kept
				value = lastBefore(changes, one.time, defaults[name])
			case name == "steno.rules_file": // the record of a start has the name of the file
				value = l.rulesOf(i)
			case !set:
				value = defaults[name]
			}
			if base == nil && len(all) == 0 && len(changes) > 0 && changes[0].time < one.time {
				put(format.MinTime, changes[0].old)
			}
			put(one.time, value)
		}
	}
	if len(all) == 0 && len(changes) > 0 {
		put(format.MinTime, changes[0].old)
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
			reload(&changes[i])
		}
		put(p.from, p.value)
	}
	for ; i < len(changes); i++ {
		reload(&changes[i])
	}
	return all
}

// begins says whether the record of a change is part of a start that is known: it has the rules, if there are any.
func (l *life) begins(name string, one *change) bool {
	return name == "steno.rules_file" && one.old == "" && len(l.runs) > 0 && l.runs[0].time <= one.time
}

// rulesOf is how many rules a run began with.
func (l *life) rulesOf(i int) string {
	next := int64(format.MaxTime)
	if i+1 < len(l.runs) {
		next = l.runs[i+1].time
	}
	for _, one := range l.settings["steno.rules_file"] {
		if l.begins("steno.rules_file", &one) && l.runs[i].time <= one.time && one.time < next {
			return one.new
		}
	}
	return noRules
}

// downTimes lists when the server did not write the trail, and how its runs ended.
func (l *life) downTimes(until int64, begins bool, after *later, except, stopped func(text string, args ...any)) {
	a := l.asked
	ended := func(after, before int64, names ...string) (found *event) {
		for i := range l.stops {
			if e := &l.stops[i]; after < e.time && e.time <= before && slices.Contains(names, e.name) {
				found = e
			}
		}
		return found
	}
	previous, before := int64(format.MinTime), int64(format.MinTime) // the two starts before
	// Versions up to 0.9.0 do not say whose ring file was recovered; it was about when the next run began.
	wasRecovered := func(by int64) bool {
		return slices.ContainsFunc(l.stops, func(e event) bool {
			if e.name != "recover" || e.time <= previous {
				return false
			}
			if e.since == 0 {
				return e.time <= by
			}
			return before < e.since && e.since <= previous
		})
	}
	for i, one := range l.runs {
		next := int64(format.MaxTime)
		if i+1 < len(l.runs) {
			next = l.runs[i+1].time
		}
		// how the run ended that went on at the end of the range
		beyond := after != nil && one.time >= until && previous < until
		if beyond && ended(previous, one.time, "stop") == nil && after.wrote(l, one.time) {
			break
		}
		if one.time > a.since && (one.time < until || beyond) {
			stop := ended(previous, one.time, "stop")
			recovered := wasRecovered(min(next, one.time+3600*1e6))
			switch {
			case i == 0 && begins && stop == nil && !one.first:
				except("nothing was recorded before %s: the trail begins with this start of the server", render.Time(one.time))
			case stop != nil && stop.time < a.until && stop.wal != "" && stop.wal == one.notRunSince:
				stopped("the server did not run from %s until %s: its WAL and its control file agree that it was not started in between", render.Time(stop.time), render.Time(one.time))
			case stop != nil && stop.time < a.until:
				except("nothing was recorded from %s until %s: the server was not running, or ran without pg_steno", render.Time(stop.time), render.Time(one.time))
			case stop != nil || one.first:
			case recovered && (one.time < a.until || beyond):
				except("the server ended without stopping before %s; what its sessions had recorded until then was recovered", render.Time(one.time))
			case one.time < a.until || beyond:
				except("the server ended without stopping before %s, and nothing says that the last records were recovered", render.Time(one.time))
			}
		}
		previous, before = one.time, previous
	}
	if stop := ended(previous, until, "stop"); stop != nil && stop.time < a.until {
		except("nothing was recorded since %s: the server was stopped", render.Time(stop.time))
	}
}

// reported lists what servers have reported of themselves.
func (c *conditions) reported(until int64, except func(format string, args ...any)) {
	for _, e := range c.events {
		if e.time < c.asked.since || e.time >= until {
			continue
		}
		switch e.name {
		case "stop", "recover", "deleted", "restart", "salvage", "begin":
		case "torn":
			except("an unfinished block was cut off stream %d at %s (%s): records of the last moments before may be missing", e.home.stream, render.Time(e.time), e.detail)
		case "other_trail":
			except("a run of the server that did not stop had recorded in another trail, and only what it had left in its ring file was recovered into this one, at %s (%s)", render.Time(e.time), e.detail)
		default:
			except("the server reported %q at %s (%s)", e.name, render.Time(e.time), e.detail)
		}
	}
}

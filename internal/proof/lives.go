// Separates servers: the settings, starts and stops that each recorded. A trail is of one server, unless its data
// directory was copied together with the trail, and both servers went on. Their trails can be read together.

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

// streamKey identifies a stream of a trail. Streams of a proof have no trail.
type streamKey struct {
	trail  string
	number uint32
}

// streamKeyOf returns the key of a stream. Streams with common blocks have the same.
func streamKeyOf(s *trail.Stream) streamKey {
	h := streamKey{folderOf(s), s.Number}
	for _, seg := range s.Segments {
		for _, twin := range seg.Duplicates() {
			h.trail = min(h.trail, folderOf(twin.Stream))
		}
	}
	return h
}

func folderOf(s *trail.Stream) string { return cmp.Or(s.Trail, s.Path) }

// life is what one server recorded about itself.
type life struct {
	eval             *evaluator
	streams          map[streamKey]bool // streams with its starts
	runs             []run
	stops            []event // and recoveries
	settings         map[string][]change
	mandatoryPeriods []period // of steno.mandatory
	name             string   // its name in sentences; empty: it is the only server
}

// noteReached notes a time that a stream has reached, to tell servers apart that wrote at the same time.
func (c *conditions) noteReached(in streamKey, at int64) {
	if last, known := c.reached[in]; !known || at > last {
		c.reached[in] = at
	}
}

// tellApart finds the lives. Two streams with starts are of one life if one was no longer written when the other one
// began, or, whatever the clocks say, if one was begun because the server had not found the other one as it had left
// it.
func (c *conditions) tellApart() {
	c.lives = nil
	var homes []streamKey
	begun := map[streamKey]int64{}
	for i := range c.runs {
		one := &c.runs[i]
		one.first = slices.ContainsFunc(c.branches, func(b branch) bool {
			return b.Reason == trail.ReasonCopy && b.Run != "" && b.Run == one.id && b.stream.trail == one.stream.trail
		})
		if _, known := begun[one.stream]; !known {
			begun[one.stream] = one.time
			homes = append(homes, one.stream)
		}
	}
	of := map[streamKey]*life{}
	for _, h := range homes {
		l := of[c.replacedStream(h)]
		for i := len(c.lives) - 1; i >= 0 && l == nil; i-- {
			if !c.writes(c.lives[i], begun[h]) {
				l = c.lives[i]
			}
		}
		if l == nil {
			l = &life{eval: c.eval, streams: map[streamKey]bool{}, settings: map[string][]change{}}
			c.lives = append(c.lives, l)
		}
		l.streams[h], of[h] = true, l
	}
	if len(c.lives) == 0 {
		c.lives = []*life{{eval: c.eval, settings: map[string][]change{}}}
	}
	for _, one := range c.runs {
		of[one.stream].runs = append(of[one.stream].runs, one)
	}
	for _, one := range c.events {
		for _, l := range c.livesOf(one.stream) {
			l.stops = append(l.stops, one)
		}
	}
	for at, changes := range c.settings {
		for _, one := range changes {
			if !at.server {
				break
			}
			for _, l := range c.livesOf(one.stream) {
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

// replacedStream returns the stream beside which h was begun by the same server, because it had not found it as it
// had left it; h itself if there is none.
func (c *conditions) replacedStream(h streamKey) streamKey {
	for _, b := range c.branches {
		if b.stream == h && b.Reason != trail.ReasonCopy && !b.Unused && b.Stream != h.number {
			return streamKey{h.trail, b.Stream}
		}
	}
	return h
}

// writes reports whether a server that had begun before a time wrote after it.
func (c *conditions) writes(l *life, at int64) bool {
	for h := range l.streams {
		if c.reached[h] > at {
			return true
		}
	}
	return false
}

// livesOf returns the lives to which a stream may belong: all, if no start in it is known.
func (c *conditions) livesOf(h streamKey) []*life {
	for _, l := range c.lives {
		if l.streams[h] {
			return []*life{l}
		}
	}
	return c.lives
}

// reasonUnstated returns why the settings at the beginning of the range are not known; empty if they are.
func (c *conditions) reasonUnstated() string {
	for _, l := range c.lives {
		if why := l.reasonUnstated(); why != "" {
			return why + l.name
		}
	}
	return ""
}

// hasBase reports whether a start before the range is known.
func (c *conditions) hasBase() bool {
	return slices.ContainsFunc(c.lives, func(l *life) bool { return l.base() != nil })
}

// listUnrecorded lists the settings that left out something of the answer, and when.
func (c *conditions) listUnrecorded(except func(format string, args ...any)) {
	for _, l := range c.lives {
		l.listUnrecorded(l.withName(except))
	}
	c.listSessionSettings(except)
	if c.eval.onlySettings == nil {
		c.listMinMessages(except)
	}
}

// listDownTimes lists when no server wrote the trail, and how runs ended. begins says that the proof has the trail
// from its beginning. stopped is called with the times in which the server is known not to have run, so that there
// was nothing to record.
func (c *conditions) listDownTimes(until int64, begins bool, except, stopped func(format string, args ...any)) {
	for _, l := range c.lives {
		l.listDownTimes(until, begins, c.later, l.withName(except), l.withName(stopped))
	}
}

// listCopies lists copies of data directories that began to record in the range, if later records of the original
// server are missing.
func (c *conditions) listCopies(say func(format string, args ...any)) {
	said := map[string]bool{} // each stream of a copy has such a record
	for _, b := range c.branches {
		goesOn := func(h streamKey) bool { return h.number == b.Stream && c.reached[h] > b.Time }
		if b.Reason != trail.ReasonCopy || b.Time < c.eval.since || b.Time >= c.eval.until || said[b.Run] ||
			slices.ContainsFunc(slices.Collect(maps.Keys(c.reached)), goesOn) {
			continue
		}
		said[b.Run] = true
		of := ""
		if b.FromHost != "" || b.FromDirectory != "" {
			of = fmt.Sprintf(", of %s on host %s", render.Quoted(b.FromDirectory), render.Quoted(b.FromHost))
		}
		say("a copy of the data directory%s, began to record at %s: what the original has recorded since is not in "+
			"this trail", of, render.Time(b.Time))
	}
}

// withName adds the server's name to sentences, if there are several servers.
func (l *life) withName(say func(format string, args ...any)) func(format string, args ...any) {
	return func(format string, args ...any) { say("%s", fmt.Sprintf(format, args...)+l.name) }
}

// base returns the last start before the range; nil if it is not known.
func (l *life) base() *run {
	var base *run
	for i := range l.runs {
		if l.runs[i].time <= l.eval.since {
			base = &l.runs[i]
		}
	}
	return base
}

// reasonUnstated says why it is not known which settings were in effect at the beginning of the range; empty if it is.
func (l *life) reasonUnstated() string {
	switch base := l.base(); {
	case base == nil && len(l.runs) > 0 && l.runs[0].first && l.name != "": // this server began in the range
		return ""
	case base == nil:
		return "there is no record of an earlier start of the server"
	case base.settings == nil:
		return "the record of the server's start does not state them"
	}
	return ""
}

// listUnrecorded lists the settings that left out something of the answer, and when.
func (l *life) listUnrecorded(except func(format string, args ...any)) {
	a := l.eval
	l.mandatoryPeriods = l.periods("steno.mandatory")
	for _, p := range l.mandatoryPeriods {
		if a.onlySettings == nil && p.to > a.since && p.from < a.until && !listsClass(p.value, "setting") {
			except("changes of settings were not mandatory %s: steno.mandatory = %q; one that steno.log left out is "+
				"not known", p.inWords(a), p.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if name == "steno.mandatory" || a.onlySettings != nil && !slices.Contains(a.onlySettings, name) {
			continue
		}
		for _, p := range l.periods(name) {
			if name == "steno.log" && l.hidesPrepared(p.value, l.mandatory(p.from)) && p.to > a.since &&
				p.from < a.until {
				except("commits of prepared transactions were not recorded %s: %s; one that was prepared before may "+
					"have renamed what the filter asks for", p.inWords(a), settingText(name, p.value))
			}
			if what := a.leavesOut(name, p.value, l.mandatory(p.from)); what != "" &&
				(p.to > a.since || l.outlasts(&p)) && p.from < a.until {
				except("%s were not recorded %s: %s", what, p.inWords(a), settingText(name, p.value))
			}
		}
	}
}

// outlasts reports whether statements that began in a period before the range may have continued in the range.
func (l *life) outlasts(p *period) bool {
	base := l.base()
	return p.reloaded && (base == nil || p.to > base.time)
}

// mandatory returns the value of steno.mandatory at a time.
func (l *life) mandatory(at int64) (value string) {
	for _, p := range l.mandatoryPeriods {
		if p.from <= at {
			value = p.value
		}
	}
	return value
}

// hidesPrepared reports whether values of steno.log and steno.mandatory leave out ends of prepared transactions, if
// the server allows these and the question depends on them.
func (l *life) hidesPrepared(log, mandatory string) bool {
	possible := func(r run) bool { return r.mostPrepared != "" && r.mostPrepared != "0" }
	return (l.eval.objectNames || l.eval.roleNames) && !listsClass(log, "transaction") &&
		!listsClass(mandatory, "transaction") &&
		slices.ContainsFunc(l.runs, possible)
}

// periods returns the values that the configuration gave a setting, from the last start before the range on. Without
// a start, the first value is the old one of the first change.
func (l *life) periods(name string) (all []period) {
	add := func(from int64, value string, reloaded bool) {
		if n := len(all); n > 0 {
			all[n-1].to, all[n-1].reloaded = from, reloaded
		}
		all = append(all, period{from, format.MaxTime, value, false})
	}
	put := func(from int64, value string) { add(from, value, false) }
	reload := func(one *change) { add(one.time, one.new, l.eval.proves) }
	base := l.base()
	changes := slices.Clone(l.settings[name])
	changes = slices.DeleteFunc(changes, func(one change) bool { return l.isPartOfStart(name, &one) })
	for i := range l.runs {
		if one := &l.runs[i]; one.settings != nil {
			value, set := one.settings[name]
			switch {
			case !set && name == MinMessages: // starts of earlier versions do not state it: the value before is kept
				value = lastBefore(changes, one.time, defaults[name])
			case name == "steno.rules_file": // records of starts have the name of the file instead
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

// isPartOfStart reports whether the record of a change belongs to a known start: it states the rules, if there are
// any.
func (l *life) isPartOfStart(name string, c *change) bool {
	return name == "steno.rules_file" && c.old == "" && len(l.runs) > 0 && l.runs[0].time <= c.time
}

// rulesOf returns with how many rules a run began.
func (l *life) rulesOf(i int) string {
	next := int64(format.MaxTime)
	if i+1 < len(l.runs) {
		next = l.runs[i+1].time
	}
	for _, one := range l.settings["steno.rules_file"] {
		if l.isPartOfStart("steno.rules_file", &one) && l.runs[i].time <= one.time && one.time < next {
			return one.new
		}
	}
	return noRules
}

// listDownTimes lists when the server did not write the trail, and how its runs ended.
func (l *life) listDownTimes(until int64, begins bool, after *later, except, stopped func(text string, args ...any)) {
	a := l.eval
	ended := func(after, before int64, names ...string) (found *event) {
		for i := range l.stops {
			if e := &l.stops[i]; after < e.time && e.time <= before && slices.Contains(names, e.name) {
				found = e
			}
		}
		return found
	}
	previous, before := int64(format.MinTime), int64(format.MinTime) // the previous two starts
	// Versions up to 0.9.0 do not state which run's ring file was recovered; the recovery was at about the time when
	// the next run began.
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
		// how the last run of the range ended
		beyond := after != nil && one.time >= until && previous < until
		if beyond && ended(previous, one.time, "stop") == nil && after.wroteAll(l, one.time) {
			break
		}
		if one.time > a.since && (one.time < until || beyond) {
			stop := ended(previous, one.time, "stop")
			recovered := wasRecovered(min(next, one.time+3600*1e6))
			switch {
			case i == 0 && begins && stop == nil && !one.first:
				except("nothing was recorded before %s: the trail begins with this start of the server",
					render.Time(one.time))
			case stop != nil && stop.time < a.until && stop.wal != "" && stop.wal == one.notRunSince:
				stopped("the server did not run from %s until %s: its WAL and its control file agree that it was "+
					"not started in between", render.Time(stop.time), render.Time(one.time))
			case stop != nil && stop.time < a.until:
				except("nothing was recorded from %s until %s: the server was not running, or ran without pg_steno",
					render.Time(stop.time), render.Time(one.time))
			case stop != nil || one.first:
			case recovered && (one.time < a.until || beyond):
				except("the server ended without stopping before %s; what its sessions had recorded until then was "+
					"recovered", render.Time(one.time))
			case one.time < a.until || beyond:
				except("the server ended without stopping before %s, and nothing says that the last records were "+
					"recovered", render.Time(one.time))
			}
		}
		previous, before = one.time, previous
	}
	if stop := ended(previous, until, "stop"); stop != nil && stop.time < a.until {
		except("nothing was recorded since %s: the server was stopped", render.Time(stop.time))
	}
}

// listReported lists the events that servers recorded about themselves.
func (c *conditions) listReported(until int64, except func(format string, args ...any)) {
	for _, e := range c.events {
		if e.time < c.eval.since || e.time >= until {
			continue
		}
		switch e.name {
		case "stop", "recover", "deleted", "restart", "salvage", "begin":
		case "torn":
			except("an unfinished block was cut off stream %d at %s (%s): records of the last moments before may be "+
				"missing", e.stream.number, render.Time(e.time), e.detail)
		case "other_trail":
			except("a run of the server that did not stop had recorded in another trail, and only what it had left "+
				"in its ring file was recovered into this one, at %s (%s)", render.Time(e.time), e.detail)
		default:
			except("the server reported %q at %s (%s)", e.name, render.Time(e.time), e.detail)
		}
	}
}

// The pass over the records: what each of them adds to the figures.

package report

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/statement"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Limits of what is followed at the same time, and of what is listed.
const (
	maxActors     = 5000
	maxAddresses  = 5000
	maxStates     = 2000
	maxCommands   = 2000
	maxPairs      = 20000
	maxExports    = 5000
	maxStatements = 10000
	maxListed     = 100
)

// actor is what a user, a database or an application did.
type actor struct {
	records, failed, refused, offHours group
	statements, logins                 int64
	when                               span
}

func (a *actor) weight() int64 { return a.records.n }

func (a *actor) merge(o *actor) {
	a.records.merge(&o.records)
	a.failed.merge(&o.failed)
	a.refused.merge(&o.refused)
	a.offHours.merge(&o.offHours)
	a.statements += o.statements
	a.logins += o.logins
	a.when.merge(&o.when)
}

// address is where clients come from.
type address struct {
	name            string
	logins, refused group
	users           names
	when            span
}

func (a *address) weight() int64 { return a.logins.n + 1000*a.refused.n }

func (a *address) merge(o *address) {
	a.name = o.name
	a.logins.merge(&o.logins)
	a.refused.merge(&o.refused)
	a.users.merge(&o.users)
	a.when.merge(&o.when)
}

// state is an SQLSTATE, or a command, with its records.
type state struct {
	records, failed group
	users           names
	when            span
	class           format.Class // of a command
}

func (s *state) weight() int64 { return s.records.n }

func (s *state) merge(o *state) {
	s.records.merge(&o.records)
	s.failed.merge(&o.failed)
	s.users.merge(&o.users)
	s.when.merge(&o.when)
	s.class = o.class
}

// pair is the use of a relation by a user.
type pair struct {
	database, relation, user string
	uses                     group // statements that read or write it, or name it as an object
	named                    int64 // those of them that only name it as an object
	failed                   int64
	undone                   format.Effects // of those that read or write it
	access                   format.Access
	kind                     format.RelationType
	when                     span // of those that read or write it
	old                      bool // it was used before the period
}

func (p *pair) weight() int64 { return p.uses.n }

func (p *pair) merge(o *pair) {
	p.database, p.relation, p.user, p.kind = o.database, o.relation, o.user, max(p.kind, o.kind)
	p.uses.merge(&o.uses)
	p.named += o.named
	p.failed += o.failed
	p.undone.Merge(&o.undone)
	p.access |= o.access
	p.when.merge(&o.when)
	p.old = p.old || o.old
}

// work is all statements of a fingerprint.
type work struct {
	calls                             group
	errors                            int64
	rows, duration, longest, mostRows uint64
	users                             names
	when                              span
}

func (w *work) weight() int64 { return int64(min(w.duration, 1<<40)) + 1000*w.calls.n }

func (w *work) merge(o *work) {
	w.calls.merge(&o.calls)
	w.errors += o.errors
	w.rows += o.rows
	w.duration += o.duration
	w.longest, w.mostRows = max(w.longest, o.longest), max(w.mostRows, o.mostRows)
	w.users.merge(&o.users)
	w.when.merge(&o.when)
}

// What a bucket of time counts, besides statements by class.
const (
	seriesRecords = 20 + iota
	seriesFailed
	seriesLogins
	seriesRefused
	seriesSettings
	seriesPrivileged
	seriesAll
)

// bucket is a part of the period.
type bucket struct {
	of              [seriesAll]int64
	records, failed group
}

// figures is all that is counted.
type figures struct {
	total, unfinished group // unfinished: records of statements that were still running
	when              span

	buckets  []bucket
	keys     []group // of keyFigures
	kinds    [64]group
	classes  [20]group // statements
	users    tally[string, actor, *actor]
	dbs      tally[string, actor, *actor]
	apps     tally[string, actor, *actor]
	hosts    tally[string, address, *address]
	states   tally[string, state, *state] // of what failed
	refusals tally[string, state, *state] // of refused connections
	commands tally[string, state, *state] // of privileged statements and DDL
	pairs    tally[string, pair, *pair]
	works    tally[uint64, work, *work]
	taken    tally[string, export, *export]

	privileged, ddl, settings, gaps, servers latest
	powers                                   group  // statements that give somebody powers beyond privileges
	powerful                                 latest // the same
	offHours                                 group
	exports                                  group
	exportedRows                             uint64
	hours                                    [7][24]int64 // of the week, from Monday on; clients' statements
	lost                                     map[string]int64
	lostRecords                              int64
	noFingerprint                            int64
}

func newFigures(buckets int, chosen *figures) *figures {
	if chosen == nil {
		chosen = &figures{}
	}
	f := &figures{
		buckets: make([]bucket, buckets), keys: make([]group, len(keyFigures)), lost: map[string]int64{},
		users: newTally(maxActors, &chosen.users), dbs: newTally(maxActors, &chosen.dbs), apps: newTally(maxActors, &chosen.apps),
		hosts: newTally(maxAddresses, &chosen.hosts), states: newTally(maxStates, &chosen.states), refusals: newTally(maxStates, &chosen.refusals),
		commands: newTally(maxCommands, &chosen.commands), pairs: newTally(maxPairs, &chosen.pairs), works: newTally(maxStatements, &chosen.works), taken: newTally(maxExports, &chosen.taken),
	}
	for _, l := range []*latest{&f.privileged, &f.ddl, &f.settings, &f.gaps, &f.servers, &f.powerful} {
		l.limit = maxListed
	}
	return f
}

func (f *figures) merge(o *figures) {
	f.total.merge(&o.total)
	f.unfinished.merge(&o.unfinished)
	f.when.merge(&o.when)
	for i := range f.buckets {
		b, p := &f.buckets[i], &o.buckets[i]
		for k := range b.of {
			b.of[k] += p.of[k]
		}
		b.records.merge(&p.records)
		b.failed.merge(&p.failed)
	}
	for i := range f.keys {
		f.keys[i].merge(&o.keys[i])
	}
	for i := range f.kinds {
		f.kinds[i].merge(&o.kinds[i])
	}
	for i := range f.classes {
		f.classes[i].merge(&o.classes[i])
	}
	f.users.merge(&o.users)
	f.dbs.merge(&o.dbs)
	f.apps.merge(&o.apps)
	f.hosts.merge(&o.hosts)
	f.states.merge(&o.states)
	f.refusals.merge(&o.refusals)
	f.commands.merge(&o.commands)
	f.pairs.merge(&o.pairs)
	f.works.merge(&o.works)
	f.taken.merge(&o.taken)
	f.exports.merge(&o.exports)
	f.exportedRows += o.exportedRows
	f.privileged.merge(&o.privileged)
	f.ddl.merge(&o.ddl)
	f.settings.merge(&o.settings)
	f.gaps.merge(&o.gaps)
	f.servers.merge(&o.servers)
	f.powers.merge(&o.powers)
	f.powerful.merge(&o.powerful)
	f.offHours.merge(&o.offHours)
	for d := range f.hours {
		for h := range f.hours[d] {
			f.hours[d][h] += o.hours[d][h]
		}
	}
	for reason, n := range o.lost {
		f.lose(reason, n)
	}
	f.lostRecords += o.lostRecords
	f.noFingerprint += o.noFingerprint
}

// lose counts lost records by the reason that gap records have for it.
func (f *figures) lose(reason string, n int64) {
	if _, known := f.lost[reason]; !known && len(f.lost) == maxNames {
		reason = "other"
	}
	f.lost[reason] += n
}

// choose leaves in each tally that was pruned what is shown of it, and says whether there is one.
func (f *figures) choose() bool {
	f.users.leave(rowsShown, (*actor).weight)
	f.dbs.leave(rowsShown, (*actor).weight)
	f.apps.leave(rowsShown, (*actor).weight)
	f.hosts.leave(2*rowsShown, (*address).weight)
	f.states.leave(2*rowsShown, (*state).weight)
	f.refusals.leave(rowsShown, (*state).weight)
	f.commands.leave(4*rowsShown, (*state).weight)
	f.pairs.leave(2*pairsShown, (*pair).weight)
	f.works.leave(20*rowsShown, (*work).weight)
	f.taken.leave(4*rowsShown, (*export).weight)
	return f.users.pruned || f.dbs.pruned || f.apps.pruned || f.hosts.pruned || f.states.pruned || f.refusals.pruned ||
		f.commands.pruned || f.pairs.pruned || f.works.pruned || f.taken.pruned
}

func (t *tally[K, V, P]) leave(n int, weight func(P) int64) {
	if t.pruned {
		t.prune(n, weight)
	}
}

// scan reads the records of the period once.
func (m *maker) scan(ctx context.Context, chosen *figures) (*figures, trail.ScanStats, error) {
	collectors, all := make([]*collector, trail.Workers()), make([]*figures, trail.Workers())
	for i := range all {
		collectors[i] = m.collector(newFigures(len(m.bounds)-1, chosen))
		all[i] = collectors[i].figures
	}
	stats := m.o.Index.Read(ctx, trail.ScanOptions{
		Since: m.since, Until: m.until, Contents: m.filter.Contents(), Parts: true, Rollbacks: true, Warn: m.warn,
	}, func(i int, r *trail.ScanReader) { collectors[i].read(r) })
	for _, f := range all[1:] {
		all[0].merge(f)
	}
	return all[0], stats, ctx.Err()
}

// collector counts the records of one goroutine. What definitions of a block say is found out once.
type collector struct {
	*figures
	m       *maker
	matcher query.Matcher
	keyed   []query.Matcher
	scratch []byte

	ref      *trail.BlockRef
	sessions []*who
	shapes   []*what
	prints   []*work
	uses     map[[2]int][]use

	bucket       int   // of the record before
	second       int64 // of the record before
	day, hour    int   // in the time zone then
	outsideHours bool
}

// who is a session as the figures have it. What is nil is not counted.
type who struct {
	name, database, application string
	user, db, app               *actor
	host                        *address
	isDump                      bool
}

// what is a shape as the figures have it.
type what struct {
	plain      uint64 // the key figures that a statement of it counts for that ended well
	known      bool
	privileged bool
	ddl        bool
	copies     bool // COPY, in any direction
	command    *state
	work       *work
}

// use is that of a relation by a statement.
type use struct {
	pair   *pair
	access format.Access
	named  bool // only as an object
}

func (m *maker) collector(f *figures) *collector {
	c := &collector{figures: f, m: m, matcher: query.Matcher{Filter: m.filter}, uses: map[[2]int][]use{}, second: -1 << 62}
	for i := range keyFigures {
		c.keyed = append(c.keyed, query.Matcher{Filter: m.keyed[i]})
	}
	return c
}

func (c *collector) read(r *trail.ScanReader) {
	for r.Next() {
		if r.Ref != c.ref {
			c.start(r.Ref)
		}
		c.m.hidden.Note(&c.matcher, &r.Record)
		if c.matcher.Keep(&r.Record) {
			c.record(&r.Record)
		}
	}
}

// start forgets the definitions of the block before.
func (c *collector) start(ref *trail.BlockRef) {
	c.ref = ref
	c.matcher.Reset()
	for i := range c.keyed {
		c.keyed[i].Reset()
	}
	c.sessions, c.shapes, c.prints = c.sessions[:0], c.shapes[:0], c.prints[:0]
	clear(c.uses)
}

// at returns the i-th of what is kept of a block's definitions, which is made the first time.
// Without a number, it is made each time.
func at[V any](list *[]*V, i int, make func() *V) *V {
	if i < 0 {
		return make()
	}
	if i >= len(*list) {
		*list = append(*list, slices.Repeat([]*V{nil}, i+1-len(*list))...)
	}
	if (*list)[i] == nil {
		(*list)[i] = make()
	}
	return (*list)[i]
}

func find[V any, P mergeable[V]](t *tally[string, V, P], key []byte) P {
	if v := t.of[string(key)]; v != nil {
		return v
	}
	return t.add(string(key))
}

func (c *collector) who(r *format.Record) *who {
	return at(&c.sessions, r.SessionIndex, func() *who {
		s := r.Session
		w := &who{name: string(s.Fact(format.KeyUser)), database: string(s.Fact(format.KeyDatabase)), application: string(s.Fact(format.KeyApplication))}
		w.isDump = isDump(w.application)
		w.user, w.db, w.app = find(&c.users, s.Fact(format.KeyUser)), find(&c.dbs, s.Fact(format.KeyDatabase)), find(&c.apps, s.Fact(format.KeyApplication))
		return w
	})
}

func (c *collector) what(r *format.Record) *what {
	if r.Shape == nil {
		return &what{}
	}
	return at(&c.shapes, r.ShapeIndex, func() *what {
		s := r.Shape
		w := &what{ddl: s.Class == format.ClassDDL, copies: string(s.Command) == "COPY", privileged: s.Class == format.ClassRole || slices.Contains(statement.Privileged, string(s.Command))}
		if w.ddl || w.privileged {
			if w.command = find(&c.commands, s.Command); w.command != nil {
				w.command.class = s.Class
			}
		}
		return w
	})
}

func (c *collector) record(r *format.Record) {
	who, what, failed := c.who(r), c.what(r), r.Failed()
	c.total.add(r)
	c.when.add(r.Time)
	if int(r.Kind) < len(c.kinds) {
		c.kinds[r.Kind].add(r)
	}
	b := &c.buckets[c.bucketOf(r.Time)]
	b.of[seriesRecords]++
	b.records.add(r)
	if failed {
		b.of[seriesFailed]++
		b.failed.add(r)
	}
	for _, a := range [...]*actor{who.user, who.db, who.app} {
		if a != nil {
			a.records.add(r)
			a.when.add(r.Time)
			if failed {
				a.failed.add(r)
			}
		}
	}
	c.countKeys(r, what)
	if failed {
		if s := find(&c.states, r.SQLState); s != nil {
			s.records.add(r)
			s.users.add(who.name)
			s.when.add(r.Time)
		}
	}
	switch r.Kind {
	case format.KindStatement:
		c.statement(r, who, what, b, failed)
	case format.KindStart:
		c.unfinished.add(r)
	case format.KindConnect, format.KindAuthFailed:
		c.login(r, who, b)
	case format.KindSetting:
		b.of[seriesSettings]++
		c.settings.add(r, showSetting)
	case format.KindServer:
		c.servers.add(r, showPairs)
	case format.KindGap:
		c.gap(r)
	}
}

// countKeys counts a record for the key figures whose filters it matches.
func (c *collector) countKeys(r *format.Record, w *what) {
	plain := r.Kind == format.KindStatement && r.Outcome == format.OutcomeOk && r.SQLState == nil && r.ShapeIndex >= 0
	if plain && w.known {
		for bit := w.plain; bit != 0; bit &= bit - 1 {
			c.keys[bits.TrailingZeros64(bit)].add(r)
		}
		return
	}
	for i := range c.keyed {
		if c.keyed[i].Keep(r) {
			c.keys[i].add(r)
			if plain {
				w.plain |= 1 << i
			}
		}
	}
	w.known = w.known || plain
}

// bucketOf is the part of the period that a time is in.
func (c *collector) bucketOf(t int64) int {
	bounds := c.m.bounds
	if i := c.bucket; t < bounds[i] || t >= bounds[i+1] {
		i = sort.Search(len(bounds), func(i int) bool { return bounds[i] > t }) - 1
		c.bucket = min(max(i, 0), len(bounds)-2)
	}
	return c.bucket
}

func (c *collector) statement(r *format.Record, who *who, what *what, b *bucket, failed bool) {
	class := format.Class(0)
	if r.Shape != nil && r.Shape.Class < seriesRecords {
		class = r.Shape.Class
	}
	b.of[class]++
	c.classes[class].add(r)
	for _, a := range [...]*actor{who.user, who.db, who.app} {
		if a != nil {
			a.statements++
		}
	}
	if r.Depth == 0 {
		c.clockAt(r.Time)
		c.hours[c.day][c.hour]++
		if c.outsideHours {
			c.offHours.add(r)
			if who.user != nil {
				who.user.offHours.add(r)
			}
		}
	}
	if what.privileged {
		b.of[seriesPrivileged]++
		c.privileged.add(r, nil)
	} else if what.ddl {
		c.ddl.add(r, nil)
	}
	if s := what.command; s != nil {
		s.records.add(r)
		s.users.add(who.name)
		s.when.add(r.Time)
		if failed {
			s.failed.add(r)
		}
	}
	if powers := statement.Powers(r); len(powers) > 0 && !failed {
		c.powers.add(r)
		c.powerful.add(r, func(s *Sample, _ *format.Record) { s.Objects = strings.Join(powers, ", ") })
	}
	c.access(r, who, failed)
	c.work(r, who, what, failed)
	if r.Shape != nil {
		c.export(r, who, what, failed)
	}
}

// clockAt sets what clocks show in the time zone.
func (c *collector) clockAt(t int64) {
	if second := t / 1e6; second != c.second {
		c.second = second
		at := query.Moment(t).In(c.m.o.Zone)
		c.day, c.hour, c.outsideHours = (int(at.Weekday())+6)%7, at.Hour(), statement.OffHours(at)
	}
}

func (c *collector) login(r *format.Record, who *who, b *bucket) {
	if who.host == nil {
		host := statement.Host(r.Session.Fact(format.KeyClient))
		if who.host = find(&c.hosts, host); who.host != nil {
			who.host.name = string(host)
		}
	}
	accepted := r.Kind == format.KindConnect
	if h := who.host; h != nil {
		if accepted {
			h.logins.add(r)
		} else {
			h.refused.add(r)
		}
		h.users.add(who.name)
		h.when.add(r.Time)
	}
	if accepted {
		b.of[seriesLogins]++
	} else {
		b.of[seriesRefused]++
		if s := find(&c.refusals, r.SQLState); s != nil {
			s.records.add(r)
			s.users.add(who.name)
			s.when.add(r.Time)
		}
	}
	for _, a := range [...]*actor{who.user, who.db, who.app} {
		switch {
		case a == nil:
		case accepted:
			a.logins++
		default:
			a.refused.add(r)
		}
	}
}

// gap counts what is lost.
func (c *collector) gap(r *format.Record) {
	reason, _ := r.ExtraValue("reason")
	text, _ := r.ExtraValue("count")
	n := int64(0)
	for _, d := range text {
		if d >= '0' && d <= '9' && n < 1<<58 {
			n = 10*n + int64(d-'0')
		}
	}
	c.lose(excerpt(reason), n)
	c.lostRecords += n
	c.gaps.add(r, showPairs)
}

// showPairs makes further names and values the text of a sample.
func showPairs(s *Sample, r *format.Record) {
	var all []byte
	for name, value := range r.ExtraPairs {
		if len(value) > 0 && len(all) < sampleText {
			all = append(append(append(append(all, name...), '='), value...), ' ')
		}
	}
	s.Text = excerpt(all)
}

// showSetting makes the change of a setting the text of a sample.
func showSetting(s *Sample, r *format.Record) {
	name, _ := r.ExtraValue("name")
	old, _ := r.ExtraValue("old")
	value, _ := r.ExtraValue("new")
	s.Objects = excerpt(name)
	s.Text = fmt.Sprintf("%s: %s → %s", excerpt(name), quotedValue(old), quotedValue(value))
}

func quotedValue(v []byte) string { return "'" + excerpt(v) + "'" }

// pairKey is the key of a use. Zero bytes, which names of a server never have, are doubled.
func pairKey(database, relation, user string) string {
	clean := func(s string) string { return strings.ReplaceAll(s, "\x00", "\x00\x01") }
	return clean(database) + "\x00\x00" + clean(relation) + "\x00\x00" + clean(user)
}

// uses are the relations that a statement uses, each once.
func (c *collector) usesOf(r *format.Record, w *who) []use {
	id := [2]int{r.SessionIndex, r.ShapeIndex}
	if r.SessionIndex >= 0 && r.ShapeIndex >= 0 {
		if all, ok := c.uses[id]; ok {
			return all
		}
	}
	var all []use
	add := func(name []byte, access format.Access, kind format.RelationType, named bool) {
		key := pairKey(w.database, string(name), w.name)
		p := c.pairs.of[key]
		if p == nil {
			if p = c.pairs.add(key); p == nil {
				return
			}
		}
		p.database, p.relation, p.user = w.database, string(name), w.name
		p.kind, p.access = max(p.kind, kind), p.access|access
		for i := range all {
			if all[i].pair == p {
				all[i].named = all[i].named && named
				return
			}
		}
		all = append(all, use{p, access, named})
	}
	for i := range r.Shape.Relations {
		rel := &r.Shape.Relations[i]
		add(rel.Name, rel.Access&^format.AccessAudited, rel.Type, false)
	}
	for i := range r.Shape.Objects {
		if o := &r.Shape.Objects[i]; o.Action != format.ActionExecute {
			add(o.Name, 0, 0, true)
			if len(o.To) > 0 {
				add(o.To, 0, 0, true)
			}
		}
	}
	if r.SessionIndex >= 0 && r.ShapeIndex >= 0 {
		c.uses[id] = all
	}
	return all
}

func (c *collector) access(r *format.Record, w *who, failed bool) {
	if r.Shape == nil || len(r.Shape.Relations)+len(r.Shape.Objects) == 0 {
		return
	}
	for _, u := range c.usesOf(r, w) {
		p := u.pair
		p.uses.add(r)
		if u.named {
			p.named++
		} else {
			p.when.add(r.Time)
			p.undone.Add(r)
		}
		if failed {
			p.failed++
		}
	}
}

// work counts a statement for its fingerprint.
func (c *collector) work(r *format.Record, who *who, what *what, failed bool) {
	find := func() *work {
		n, ok := statement.Fingerprint(r, &c.scratch)
		if !ok {
			return nil
		}
		if w := c.works.of[n]; w != nil {
			return w
		}
		return c.works.add(n)
	}
	var w *work
	switch {
	case r.Shape != nil && r.Shape.QueryID != 0:
		if what.work == nil {
			what.work = find()
		}
		w = what.work
	case r.Text == nil:
		c.noFingerprint++
		return
	default:
		if i := r.TextIndex; i < 0 {
			w = find()
		} else if i < len(c.prints) && c.prints[i] != nil {
			w = c.prints[i]
		} else if w = find(); w != nil {
			at(&c.prints, i, func() *work { return w })
		}
	}
	if w == nil {
		return
	}
	w.calls.add(r)
	if failed {
		w.errors++
	}
	w.rows += r.Rows
	w.duration += r.Duration
	w.longest, w.mostRows = max(w.longest, r.Duration), max(w.mostRows, r.Rows)
	w.users.add(who.name)
	w.when.add(r.Time)
}

// earlier marks the pairs that were in use before the period. It looks back in steps that double, until all are marked:
// most of what is used was used the day before.
func (m *maker) earlier(ctx context.Context, f *figures) error {
	const day = 24 * 3600 * 1e6
	for until, step := m.since, int64(day); until > m.trailFirst && ctx.Err() == nil; step = min(2*step, 1<<60) {
		relations := map[string]bool{}
		for _, p := range f.pairs.of {
			if !p.old {
				relations[p.relation] = true
			}
		}
		if len(relations) == 0 {
			break
		}
		since := m.trailFirst
		if uint64(step) < uint64(until)-uint64(m.trailFirst) {
			since = until - step
		}
		m.usedBetween(ctx, f, relations, since, until)
		until = since
	}
	return ctx.Err()
}

// usedBetween marks the pairs with some relations that were in use between two times.
func (m *maker) usedBetween(ctx context.Context, f *figures, relations map[string]bool, since, until int64) {
	wanted := func(c *format.Contents) format.Groups {
		return c.SelectShape(func(s *format.Shape) bool {
			return slices.ContainsFunc(s.Relations, func(r format.Relation) bool { return relations[string(r.Name)] })
		})
	}
	var lock sync.Mutex
	m.o.Index.Read(ctx, trail.ScanOptions{Since: since, Until: until, Contents: wanted, Warn: m.warn}, func(_ int, r *trail.ScanReader) {
		seen, ref := map[[2]int]bool{}, (*trail.BlockRef)(nil)
		for r.Next() {
			rec := &r.Record
			if r.Ref != ref {
				clear(seen)
				ref = r.Ref
			}
			id := [2]int{rec.SessionIndex, rec.ShapeIndex}
			if rec.Kind != format.KindStatement || rec.Shape == nil || len(rec.Shape.Relations) == 0 || seen[id] {
				continue
			}
			seen[id] = rec.SessionIndex >= 0 && rec.ShapeIndex >= 0
			lock.Lock()
			for i := range rec.Shape.Relations {
				key := pairKey(string(rec.Session.Fact(format.KeyDatabase)), string(rec.Shape.Relations[i].Name), string(rec.Session.Fact(format.KeyUser)))
				if p := f.pairs.of[key]; p != nil {
					p.old = true
				}
			}
			lock.Unlock()
		}
	})
}

// buckets divides a period into parts of a length that clocks show, at most as many as that.
func buckets(first, last int64, most int, zone *time.Location) (bounds []int64, width time.Duration) {
	const day = 24 * time.Hour
	from, to := query.Moment(first).In(zone), query.Moment(last).In(zone)
	for _, width = range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 7 * day, 30 * day, 365 * day} {
		if to.Sub(from) <= time.Duration(most-2)*width {
			break
		}
	}
	midnight := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, zone)
	t, next := midnight, func(t time.Time) time.Time { return t.Add(width) }
	if width >= day {
		next = func(t time.Time) time.Time { return t.AddDate(0, 0, int(width/day)) }
	} else {
		t = midnight.Add(from.Sub(midnight) / width * width)
	}
	for len(bounds) < 1000 {
		bounds = append(bounds, query.Micros(t))
		if t.After(to) {
			break
		}
		t = next(t)
	}
	return bounds, width
}

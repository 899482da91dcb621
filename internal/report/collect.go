// The pass over the records: what each record adds to the figures.

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

// Limits: how many different names are counted at the same time, and how many rows are listed.
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

// actor counts what a user, a database or an application did.
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

// address counts the connections from a client address.
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

// category counts the records that have an SQLSTATE or a command tag.
type category struct {
	records, failed group
	users           names
	when            span
	class           format.Class // set for command tags only
}

func (s *category) weight() int64 { return s.records.n }

func (s *category) merge(o *category) {
	s.records.merge(&o.records)
	s.failed.merge(&o.failed)
	s.users.merge(&o.users)
	s.when.merge(&o.when)
	s.class = o.class
}

// pair counts how a user has used a relation.
type pair struct {
	database, relation, user string
	uses                     group // statements that read or write it, or name it as an object
	named                    int64 // uses that only name it as an object
	failed                   int64
	undone                   format.Effects // among the statements that read or write it
	access                   format.Access
	kind                     format.RelationType
	when                     span // of the statements that read or write it
	usedBefore               bool // it was used before the period
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
	p.usedBefore = p.usedBefore || o.usedBefore
}

// fingerprintTotals sums up all statements with the same fingerprint.
type fingerprintTotals struct {
	calls                             group
	errors                            int64
	rows, duration, longest, mostRows uint64
	users                             names
	when                              span
}

func (w *fingerprintTotals) weight() int64 { return int64(min(w.duration, 1<<40)) + 1000*w.calls.n }

func (w *fingerprintTotals) merge(o *fingerprintTotals) {
	w.calls.merge(&o.calls)
	w.errors += o.errors
	w.rows += o.rows
	w.duration += o.duration
	w.longest, w.mostRows = max(w.longest, o.longest), max(w.mostRows, o.mostRows)
	w.users.merge(&o.users)
	w.when.merge(&o.when)
}

// Indexes of bucket.counts. Those of classes of statements come first.
const (
	seriesRecords = 20 + iota
	seriesFailed
	seriesLogins
	seriesRefused
	seriesSettings
	seriesPrivileged
	seriesAll
)

// bucket counts what happened in a part of the period.
type bucket struct {
	counts          [seriesAll]int64
	records, failed group
}

// figures has everything that is counted.
type figures struct {
	total, unfinished group // unfinished: start records of statements that were still running
	when              span

	buckets      []bucket
	keys         []group // by index in keyFigures
	kinds        [64]group
	classes      [20]group // of statements
	users        tally[string, actor, *actor]
	dbs          tally[string, actor, *actor]
	apps         tally[string, actor, *actor]
	hosts        tally[string, address, *address]
	states       tally[string, category, *category] // of failures
	refusals     tally[string, category, *category] // of refused connections
	commands     tally[string, category, *category] // of privileged statements and DDL
	pairs        tally[string, pair, *pair]
	fingerprints tally[uint64, fingerprintTotals, *fingerprintTotals]
	exportTotals tally[string, export, *export]

	privileged, ddl, settings, gaps, servers latest
	powers                                   group  // statements that give somebody powers beyond privileges
	powerful                                 latest // the last of these records
	offHours                                 group
	exports                                  group
	exportedRows                             uint64
	// clients' statements by day of the week, Monday first, and hour
	hours         [7][24]int64
	lost          map[string]int64
	lostRecords   int64
	noFingerprint int64
}

func newFigures(buckets int, chosen *figures) *figures {
	if chosen == nil {
		chosen = &figures{}
	}
	f := &figures{
		buckets: make([]bucket, buckets), keys: make([]group, len(keyFigures)), lost: map[string]int64{},
		users: newTally(maxActors, &chosen.users), dbs: newTally(maxActors, &chosen.dbs),
		apps:  newTally(maxActors, &chosen.apps),
		hosts: newTally(maxAddresses, &chosen.hosts), states: newTally(maxStates, &chosen.states),
		refusals: newTally(maxStates, &chosen.refusals),
		commands: newTally(maxCommands, &chosen.commands), pairs: newTally(maxPairs, &chosen.pairs),
		fingerprints: newTally(maxStatements, &chosen.fingerprints),
		exportTotals: newTally(maxExports, &chosen.exportTotals),
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
		for k := range b.counts {
			b.counts[k] += p.counts[k]
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
	f.fingerprints.merge(&o.fingerprints)
	f.exportTotals.merge(&o.exportTotals)
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
		f.countLost(reason, n)
	}
	f.lostRecords += o.lostRecords
	f.noFingerprint += o.noFingerprint
}

// countLost adds to the number of lost records, by the reason that gap records state.
func (f *figures) countLost(reason string, n int64) {
	if _, known := f.lost[reason]; !known && len(f.lost) == maxNames {
		reason = "other"
	}
	f.lost[reason] += n
}

// keepShown reduces each pruned tally to the keys that the report will show. It returns whether any was pruned,
// so that the records must be read a second time.
func (f *figures) keepShown() bool {
	f.users.keepIfPruned(rowsShown, (*actor).weight)
	f.dbs.keepIfPruned(rowsShown, (*actor).weight)
	f.apps.keepIfPruned(rowsShown, (*actor).weight)
	f.hosts.keepIfPruned(2*rowsShown, (*address).weight)
	f.states.keepIfPruned(2*rowsShown, (*category).weight)
	f.refusals.keepIfPruned(rowsShown, (*category).weight)
	f.commands.keepIfPruned(4*rowsShown, (*category).weight)
	f.pairs.keepIfPruned(2*pairsShown, (*pair).weight)
	f.fingerprints.keepIfPruned(20*rowsShown, (*fingerprintTotals).weight)
	f.exportTotals.keepIfPruned(4*rowsShown, (*export).weight)
	return f.users.pruned || f.dbs.pruned || f.apps.pruned || f.hosts.pruned || f.states.pruned ||
		f.refusals.pruned ||
		f.commands.pruned || f.pairs.pruned || f.fingerprints.pruned || f.exportTotals.pruned
}

func (t *tally[K, V, P]) keepIfPruned(n int, weight func(P) int64) {
	if t.pruned {
		t.prune(n, weight)
	}
}

// scan reads the records of the period once. With chosen figures, it counts only their keys.
func (m *maker) scan(ctx context.Context, chosen *figures) (*figures, trail.ScanStats, error) {
	collectors, all := make([]*collector, trail.Workers()), make([]*figures, trail.Workers())
	for i := range all {
		collectors[i] = m.collector(newFigures(len(m.bounds)-1, chosen))
		all[i] = collectors[i].figures
	}
	stats := m.options.Index.Read(ctx, trail.ScanOptions{
		Since: m.since, Until: m.until, Contents: m.filter.Contents(), Parts: true, Rollbacks: true, Warn: m.warn,
	}, func(i int, r *trail.ScanReader) { collectors[i].read(r) })
	for _, f := range all[1:] {
		all[0].merge(f)
	}
	return all[0], stats, ctx.Err()
}

// collector counts the records that one goroutine reads. It works out once for each block what the block's
// definitions say.
type collector struct {
	*figures
	maker       *maker
	matcher     query.Matcher
	keyMatchers []query.Matcher
	scratch     []byte

	ref        *trail.BlockRef
	sessions   []*sessionFacts
	shapes     []*shapeFacts
	textTotals []*fingerprintTotals
	uses       map[[2]int][]use

	bucket       int   // of the previous record
	second       int64 // of the previous record
	day, hour    int   // in the report's time zone, of that second
	outsideHours bool
}

// sessionFacts is what the figures need of a session. A nil pointer says that this user, database, application
// or address is not counted.
type sessionFacts struct {
	userName, database, application string
	user, db, app                   *actor
	host                            *address
	isDump                          bool
}

// shapeFacts is what the figures need of a shape.
type shapeFacts struct {
	keyMask      uint64 // bit i: a successful statement with this shape counts for keyFigures[i]
	keyMaskKnown bool
	privileged   bool
	ddl          bool
	copies       bool // COPY in any direction
	command      *category
	totals       *fingerprintTotals
}

// use is the use of a relation by a statement.
type use struct {
	pair   *pair
	access format.Access
	named  bool // the statement only names it as an object
}

func (m *maker) collector(f *figures) *collector {
	c := &collector{
		figures: f,
		maker:   m,
		matcher: query.Matcher{Filter: m.filter},
		uses:    map[[2]int][]use{},
		second:  -1 << 62,
	}
	for i := range keyFigures {
		c.keyMatchers = append(c.keyMatchers, query.Matcher{Filter: m.keyFilters[i]})
	}
	return c
}

func (c *collector) read(r *trail.ScanReader) {
	for r.Next() {
		if r.Ref != c.ref {
			c.startBlock(r.Ref)
		}
		c.maker.hidden.Note(&c.matcher, &r.Record)
		if c.matcher.Keep(&r.Record) {
			c.countRecord(&r.Record)
		}
	}
}

// startBlock drops what was remembered of the definitions of the previous block.
func (c *collector) startBlock(ref *trail.BlockRef) {
	c.ref = ref
	c.matcher.Reset()
	for i := range c.keyMatchers {
		c.keyMatchers[i].Reset()
	}
	c.sessions, c.shapes, c.textTotals = c.sessions[:0], c.shapes[:0], c.textTotals[:0]
	clear(c.uses)
}

// cachedAt returns the i-th element of a list of what is remembered of a block's definitions, and makes it the
// first time. A negative i says that the record does not refer to a definition: nothing is remembered.
func cachedAt[V any](list *[]*V, i int, make func() *V) *V {
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

func findOrAdd[V any, P mergeable[V]](t *tally[string, V, P], key []byte) P {
	if v := t.values[string(key)]; v != nil {
		return v
	}
	return t.add(string(key))
}

func (c *collector) session(r *format.Record) *sessionFacts {
	return cachedAt(&c.sessions, r.SessionIndex, func() *sessionFacts {
		s := r.Session
		w := &sessionFacts{
			userName:    string(s.Fact(format.KeyUser)),
			database:    string(s.Fact(format.KeyDatabase)),
			application: string(s.Fact(format.KeyApplication)),
		}
		w.isDump = isDump(w.application)
		w.user, w.db, w.app = findOrAdd(&c.users, s.Fact(format.KeyUser)),
			findOrAdd(&c.dbs, s.Fact(format.KeyDatabase)),
			findOrAdd(&c.apps, s.Fact(format.KeyApplication))
		return w
	})
}

func (c *collector) shape(r *format.Record) *shapeFacts {
	if r.Shape == nil {
		return &shapeFacts{}
	}
	return cachedAt(&c.shapes, r.ShapeIndex, func() *shapeFacts {
		s := r.Shape
		w := &shapeFacts{
			ddl:        s.Class == format.ClassDDL,
			copies:     string(s.Command) == "COPY",
			privileged: s.Class == format.ClassRole || slices.Contains(statement.Privileged, string(s.Command)),
		}
		if w.ddl || w.privileged {
			if w.command = findOrAdd(&c.commands, s.Command); w.command != nil {
				w.command.class = s.Class
			}
		}
		return w
	})
}

func (c *collector) countRecord(r *format.Record) {
	session, shape, failed := c.session(r), c.shape(r), r.Failed()
	c.total.add(r)
	c.when.add(r.Time)
	if int(r.Kind) < len(c.kinds) {
		c.kinds[r.Kind].add(r)
	}
	b := &c.buckets[c.bucketOf(r.Time)]
	b.counts[seriesRecords]++
	b.records.add(r)
	if failed {
		b.counts[seriesFailed]++
		b.failed.add(r)
	}
	for _, a := range [...]*actor{session.user, session.db, session.app} {
		if a != nil {
			a.records.add(r)
			a.when.add(r.Time)
			if failed {
				a.failed.add(r)
			}
		}
	}
	c.countKeys(r, shape)
	if failed {
		if s := findOrAdd(&c.states, r.SQLState); s != nil {
			s.records.add(r)
			s.users.add(session.userName)
			s.when.add(r.Time)
		}
	}
	switch r.Kind {
	case format.KindStatement:
		c.countStatement(r, session, shape, b, failed)
	case format.KindStart:
		c.unfinished.add(r)
	case format.KindConnect, format.KindAuthFailed:
		c.countLogin(r, session, b)
	case format.KindSetting:
		b.counts[seriesSettings]++
		c.settings.add(r, showSetting)
	case format.KindServer:
		c.servers.add(r, showPairs)
	case format.KindGap:
		c.countGap(r)
	}
}

// countKeys counts a record for the key figures whose filters it matches.
func (c *collector) countKeys(r *format.Record, w *shapeFacts) {
	plain := r.Kind == format.KindStatement && r.Outcome == format.OutcomeOk && r.SQLState == nil && r.ShapeIndex >= 0
	if plain && w.keyMaskKnown {
		for bit := w.keyMask; bit != 0; bit &= bit - 1 {
			c.keys[bits.TrailingZeros64(bit)].add(r)
		}
		return
	}
	for i := range c.keyMatchers {
		if c.keyMatchers[i].Keep(r) {
			c.keys[i].add(r)
			if plain {
				w.keyMask |= 1 << i
			}
		}
	}
	w.keyMaskKnown = w.keyMaskKnown || plain
}

// bucketOf returns the index of the bucket for a time. Records come almost in the order of time, so the last
// bucket is tried first.
func (c *collector) bucketOf(t int64) int {
	bounds := c.maker.bounds
	if i := c.bucket; t < bounds[i] || t >= bounds[i+1] {
		i = sort.Search(len(bounds), func(i int) bool { return bounds[i] > t }) - 1
		c.bucket = min(max(i, 0), len(bounds)-2)
	}
	return c.bucket
}

func (c *collector) countStatement(
	r *format.Record, session *sessionFacts, shape *shapeFacts, b *bucket, failed bool,
) {
	class := format.Class(0)
	if r.Shape != nil && r.Shape.Class < seriesRecords {
		class = r.Shape.Class
	}
	b.counts[class]++
	c.classes[class].add(r)
	for _, a := range [...]*actor{session.user, session.db, session.app} {
		if a != nil {
			a.statements++
		}
	}
	if r.Depth == 0 {
		c.setClock(r.Time)
		c.hours[c.day][c.hour]++
		if c.outsideHours {
			c.offHours.add(r)
			if session.user != nil {
				session.user.offHours.add(r)
			}
		}
	}
	if shape.privileged {
		b.counts[seriesPrivileged]++
		c.privileged.add(r, nil)
	} else if shape.ddl {
		c.ddl.add(r, nil)
	}
	if s := shape.command; s != nil {
		s.records.add(r)
		s.users.add(session.userName)
		s.when.add(r.Time)
		if failed {
			s.failed.add(r)
		}
	}
	if powers := statement.GrantedPowers(r); len(powers) > 0 && !failed {
		c.powers.add(r)
		c.powerful.add(r, func(s *Sample, _ *format.Record) { s.Objects = strings.Join(powers, ", ") })
	}
	c.countAccess(r, session, failed)
	c.countFingerprint(r, session, shape, failed)
	if r.Shape != nil {
		c.countExports(r, session, shape, failed)
	}
}

// setClock sets the day, the hour and whether these are outside working hours, in the report's time zone.
func (c *collector) setClock(t int64) {
	if second := t / 1e6; second != c.second {
		c.second = second
		at := query.Moment(t).In(c.maker.options.Zone)
		c.day, c.hour, c.outsideHours = (int(at.Weekday())+6)%7, at.Hour(), statement.OffHours(at)
	}
}

func (c *collector) countLogin(r *format.Record, session *sessionFacts, b *bucket) {
	if session.host == nil {
		host := statement.Host(r.Session.Fact(format.KeyClient))
		if session.host = findOrAdd(&c.hosts, host); session.host != nil {
			session.host.name = string(host)
		}
	}
	accepted := r.Kind == format.KindConnect
	if h := session.host; h != nil {
		if accepted {
			h.logins.add(r)
		} else {
			h.refused.add(r)
		}
		h.users.add(session.userName)
		h.when.add(r.Time)
	}
	if accepted {
		b.counts[seriesLogins]++
	} else {
		b.counts[seriesRefused]++
		if s := findOrAdd(&c.refusals, r.SQLState); s != nil {
			s.records.add(r)
			s.users.add(session.userName)
			s.when.add(r.Time)
		}
	}
	for _, a := range [...]*actor{session.user, session.db, session.app} {
		switch {
		case a == nil:
		case accepted:
			a.logins++
		default:
			a.refused.add(r)
		}
	}
}

// countGap counts a gap record and the records that it says are lost.
func (c *collector) countGap(r *format.Record) {
	reason, _ := r.ExtraValue("reason")
	text, _ := r.ExtraValue("count")
	n := int64(0)
	for _, d := range text {
		if d >= '0' && d <= '9' && n < 1<<58 {
			n = 10*n + int64(d-'0')
		}
	}
	c.countLost(excerpt(reason), n)
	c.lostRecords += n
	c.gaps.add(r, showPairs)
}

// showPairs sets the text of a sample to the names and values of extra.
func showPairs(s *Sample, r *format.Record) {
	var all []byte
	for name, value := range r.ExtraPairs {
		if len(value) > 0 && len(all) < sampleText {
			all = append(append(append(append(all, name...), '='), value...), ' ')
		}
	}
	s.Text = excerpt(all)
}

// showSetting sets the text of a sample to the old and new value of a setting.
func showSetting(s *Sample, r *format.Record) {
	name, _ := r.ExtraValue("name")
	old, _ := r.ExtraValue("old")
	value, _ := r.ExtraValue("new")
	s.Objects = excerpt(name)
	s.Text = fmt.Sprintf("%s: %s → %s", excerpt(name), quotedValue(old), quotedValue(value))
}

func quotedValue(v []byte) string { return "'" + excerpt(v) + "'" }

// pairKey returns the key of a pair in the tally. Names on a server have no zero bytes; if a damaged record has
// some, escaping keeps keys distinct.
func pairKey(database, relation, user string) string {
	clean := func(s string) string { return strings.ReplaceAll(s, "\x00", "\x00\x01") }
	return clean(database) + "\x00\x00" + clean(relation) + "\x00\x00" + clean(user)
}

// usesOf returns the relations that a statement uses, each once.
func (c *collector) usesOf(r *format.Record, w *sessionFacts) []use {
	id := [2]int{r.SessionIndex, r.ShapeIndex}
	if r.SessionIndex >= 0 && r.ShapeIndex >= 0 {
		if all, ok := c.uses[id]; ok {
			return all
		}
	}
	var all []use
	add := func(name []byte, access format.Access, kind format.RelationType, named bool) {
		key := pairKey(w.database, string(name), w.userName)
		p := c.pairs.values[key]
		if p == nil {
			if p = c.pairs.add(key); p == nil {
				return
			}
		}
		p.database, p.relation, p.user = w.database, string(name), w.userName
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

func (c *collector) countAccess(r *format.Record, w *sessionFacts, failed bool) {
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

// countFingerprint adds a statement to the totals of its fingerprint.
func (c *collector) countFingerprint(r *format.Record, session *sessionFacts, shape *shapeFacts, failed bool) {
	find := func() *fingerprintTotals {
		n, ok := statement.Fingerprint(r, &c.scratch)
		if !ok {
			return nil
		}
		if w := c.fingerprints.values[n]; w != nil {
			return w
		}
		return c.fingerprints.add(n)
	}
	var w *fingerprintTotals
	switch {
	case r.Shape != nil && r.Shape.QueryID != 0:
		if shape.totals == nil {
			shape.totals = find()
		}
		w = shape.totals
	case r.Text == nil:
		c.noFingerprint++
		return
	default:
		if i := r.TextIndex; i < 0 {
			w = find()
		} else if i < len(c.textTotals) && c.textTotals[i] != nil {
			w = c.textTotals[i]
		} else if w = find(); w != nil {
			cachedAt(&c.textTotals, i, func() *fingerprintTotals { return w })
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
	w.users.add(session.userName)
	w.when.add(r.Time)
}

// markEarlierUses marks the pairs that were used before the period. Most of what is used was also used the day
// before, so it looks back in steps of doubling length, until all pairs are marked or the trail ends.
func (m *maker) markEarlierUses(ctx context.Context, f *figures) error {
	const day = 24 * 3600 * 1e6
	for until, step := m.since, int64(day); until > m.trailFirst && ctx.Err() == nil; step = min(2*step, 1<<60) {
		relations := map[string]bool{}
		for _, p := range f.pairs.values {
			if !p.usedBefore {
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
		m.markUsesBetween(ctx, f, relations, since, until)
		until = since
	}
	return ctx.Err()
}

// markUsesBetween marks the pairs with these relations that were used between two times.
func (m *maker) markUsesBetween(ctx context.Context, f *figures, relations map[string]bool, since, until int64) {
	wanted := func(c *format.Contents) format.Groups {
		return c.SelectShape(func(s *format.Shape) bool {
			return slices.ContainsFunc(s.Relations, func(r format.Relation) bool { return relations[string(r.Name)] })
		})
	}
	var lock sync.Mutex
	m.options.Index.Read(ctx, trail.ScanOptions{
		Since:    since,
		Until:    until,
		Contents: wanted,
		Warn:     m.warn,
	}, func(_ int, r *trail.ScanReader) {
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
				key := pairKey(string(rec.Session.Fact(format.KeyDatabase)), string(rec.Shape.Relations[i].Name),
					string(rec.Session.Fact(format.KeyUser)))
				if p := f.pairs.values[key]; p != nil {
					p.usedBefore = true
				}
			}
			lock.Unlock()
		}
	})
}

// buckets divides a period into at most that many parts, with a round length such as 5 minutes or a day.
func buckets(first, last int64, most int, zone *time.Location) (bounds []int64, width time.Duration) {
	const day = 24 * time.Hour
	from, to := query.Moment(first).In(zone), query.Moment(last).In(zone)
	for _, width = range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
		time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 7 * day,
		30 * day, 365 * day} {
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

// The dossier of a person: all that a user did in a period.

package review

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// PersonOptions are the subject of a dossier.
type PersonOptions struct {
	Source
	Users, AppUsers []string
	// Note is a word that notes contain. If it is set, the dossier is about the sessions that wrote such a note, each
	// from the first one to the session's end.
	Note string
	// Large is the number of rows from which on the result of a query counts as an export.
	Large uint64
}

// dossierLines is the limit of lines in a list of a dossier.
const dossierLines = 1000

// events keeps the earliest of many events, and counts all.
type events struct {
	rows  []event
	total int64
	limit int // how many are kept; 0 is dossierLines
}

func (e *events) maxRows() int { return cmp.Or(e.limit, dossierLines) }

type event struct {
	id    RecordID
	cells []any
}

func (e *events) add(id RecordID, cells ...any) {
	e.total++
	e.rows = append(e.rows, event{id, cells})
	if len(e.rows) >= 2*e.maxRows() {
		e.cut()
	}
}

func (e *events) cut() {
	slices.SortFunc(e.rows, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.id.Time, b.id.Time), a.id.Session.Compare(b.id.Session),
			cmp.Compare(a.id.Seq, b.id.Seq))
	})
	e.rows = e.rows[:min(len(e.rows), e.maxRows())]
}

func (e *events) join(o *events) {
	e.rows = append(e.rows, o.rows...)
	e.total += o.total
	e.cut()
}

// section makes a table of the events. Its first columns are their times and records.
func (e *events) section(key, title string, columns ...string) *Section {
	e.cut()
	s := &Section{Key: key, Title: title, Empty: "None.", Columns: append([]string{"time", "record"}, columns...),
		Left: e.total - int64(len(e.rows))}
	for _, row := range e.rows {
		s.add(append([]any{stamp(row.id.Time), row.id}, row.cells...)...)
	}
	return s
}

// notePlace is the place of a note in a session.
type notePlace struct {
	id   format.SessionID
	seq  uint64
	time int64
}

// ReviewPerson makes a dossier.
func ReviewPerson(ctx context.Context, o PersonOptions) (*Document, error) {
	var warnings warningCollector
	warn := o.Warn
	o.Warn = func(err error) {
		if warnings.warn(err) {
			warn(err)
		}
	}
	choose := query.Criteria{Users: o.Users, AppUsers: o.AppUsers}
	var notes []notePlace
	if o.Note != "" {
		var err error
		if notes, err = o.findNotes(ctx, choose); err != nil {
			return nil, err
		}
		if len(notes) == 0 {
			return o.noNote(&warnings), nil
		}
		for _, n := range notes {
			choose.Sessions = append(choose.Sessions, n.id)
		}
		choose.Users, choose.AppUsers = nil, nil // the session is followed, whichever user it becomes
	}
	filter := choose.Filter()
	var hidden query.Hidden
	visitors := make([]visitor, trail.Workers())
	all := make([]*dossier, len(visitors))
	for i := range visitors {
		all[i] = newDossier(&o, filter, notes)
		all[i].hidden = &hidden
		visitors[i] = all[i]
	}
	options := trail.ScanOptions{Since: o.Since, Until: o.Until, Contents: filter.Contents(), Parts: true,
		Rollbacks: true}
	lack, err := o.read(ctx, options, proof.Needs{Objects: true, Catalogs: true, Texts: true, Rows: true}, visitors)
	if err != nil {
		return nil, err
	}
	d := all[0]
	for _, other := range all[1:] {
		d.join(other)
	}
	var foreign []string
	if len(o.Users) > 0 && o.Note == "" {
		if foreign, err = o.followSwitched(ctx, d, filter); err != nil {
			return nil, err
		}
	}
	d.failuresHidden = lack.failures
	doc := d.answer(choose.Sessions)
	doc.Incomplete = warnings.incomplete
	doc.Limits = append(append(append(warnings.list, personLimits(&o)...), foreign...), lack.exclusions...)
	for _, lacks := range hidden.Errs() {
		doc.Limits = append(doc.Limits, lacks.Error())
	}
	for _, lacks := range filter.RenamedOutside(ctx, o.Index, o.Since, o.Until) {
		doc.Limits = append(doc.Limits, lacks.Error())
	}
	for _, missing := range query.NewNames(&choose).Search(ctx, o.Index) {
		doc.Warnings = append(doc.Warnings, missing.Error())
	}
	return doc, nil
}

// followSwitched adds what the users did under other names after SET SESSION AUTHORIZATION. It also finds the
// sessions in which another user became one of them: these are in the answer, too, and limits names them.
func (o *PersonOptions) followSwitched(ctx context.Context, d *dossier, filter *query.Filter) (limits []string,
	err error) {
	const login = 10 * 60 * 1e6 // the longest time that a login takes, in microseconds
	var candidates []format.SessionID
	first, last := int64(format.MaxTime), int64(format.MinTime)
	begin, _, _ := o.bounds()
	open := int64(format.MaxTime)
	for id, s := range d.sessions {
		if !s.ended && s.ofClient {
			open = min(open, s.last.Time)
		}
		if s.ofClient && (s.switched || !s.connected && id.Start >= max(o.Since, begin)) {
			candidates = append(candidates, id)
			first, last = min(first, id.Start-1e6), max(last, id.Start+login)
		}
	}
	slices.SortFunc(candidates, format.SessionID.Compare)
	pass := func(c query.Criteria, since, until int64, visit func(*query.Filter) visitor) error {
		f := c.Filter()
		visitors := make([]visitor, trail.Workers())
		for i := range visitors {
			visitors[i] = visit(f)
		}
		_, err = o.scan(ctx, trail.ScanOptions{Since: since, Until: until, Contents: f.Contents(), Parts: true,
			Rollbacks: true}, visitors)
		return err
	}
	if open < format.MaxTime {
		if err := pass(query.Criteria{Kinds: []format.Kind{format.KindDisconnect}}, open, o.Until,
			d.endsOf); err != nil {
			return nil, err
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	var finders []*loginFinder
	err = pass(query.Criteria{Sessions: candidates, Users: o.Users, Kinds: []format.Kind{format.KindConnect}}, first,
		last, func(f *query.Filter) visitor {
			finders = append(finders, &loginFinder{Matcher: query.Matcher{Filter: f},
				found: map[format.SessionID]bool{}})
			return finders[len(finders)-1]
		})
	if err != nil {
		return nil, err
	}
	var follow []format.SessionID
	var others []string
	for _, id := range candidates {
		switch s := d.sessions[id]; {
		case !slices.ContainsFunc(finders, func(f *loginFinder) bool { return f.found[id] }):
			others = append(others, id.String())
		case s.switched: // even if it became the same user again
			follow = append(follow, id)
		}
	}
	if named := 10; len(others) > 0 {
		limits = append(limits, fmt.Sprintf("%d sessions have no record of a login as this user: somebody else "+
			"became it by SET SESSION AUTHORIZATION, or the login was not recorded: %s", len(others),
			strings.Join(others[:min(named, len(others))], ", ")))
	}
	if len(follow) == 0 {
		return limits, nil
	}
	var more []*dossier
	err = pass(query.Criteria{Sessions: follow}, o.Since, o.Until, func(f *query.Filter) visitor {
		switched := newDossier(o, f, nil)
		switched.excluded = &query.Matcher{Filter: filter}
		more = append(more, switched)
		return switched
	})
	if err != nil {
		return nil, err
	}
	for _, switched := range more {
		d.join(switched)
	}
	return limits, nil
}

// endsOf returns a visitor that notes the ends of sessions, whose user may have changed by then.
func (d *dossier) endsOf(f *query.Filter) visitor {
	return &logoutFinder{Matcher: query.Matcher{Filter: f}, dossier: d}
}

type logoutFinder struct {
	query.Matcher
	dossier *dossier
}

func (e *logoutFinder) Block(*trail.BlockRef) { e.Reset() }

func (e *logoutFinder) Record(r *format.Record) {
	if r.Kind == format.KindDisconnect && e.Keep(r) {
		e.dossier.mu.Lock()
		defer e.dossier.mu.Unlock()
		if s := e.dossier.sessions[r.Session.ID()]; s != nil {
			s.ended, s.endedHow = true, r.Outcome.String()
		}
	}
}

type loginFinder struct {
	query.Matcher
	found map[format.SessionID]bool
}

func (l *loginFinder) Block(*trail.BlockRef) { l.Reset() }

func (l *loginFinder) Record(r *format.Record) {
	if r.Kind == format.KindConnect && l.Keep(r) {
		l.found[r.Session.ID()] = true
	}
}

// noNote returns the answer if no session wrote such a note.
func (o *PersonOptions) noNote(warnings *warningCollector) *Document {
	begin, end, _ := o.bounds()
	return &Document{
		Review: "person", Incomplete: warnings.incomplete,
		Facts: []Fact{
			{"note", o.Note}, {"period from", stamp(max(o.Since, begin))}, {"period until", stamp(min(o.Until, end))},
			{"trail", o.Trails}, {"all notes", o.catCommand(query.Criteria{Kinds: []format.Kind{format.KindNote}})},
		},
		Limits: append(warnings.list, "No session wrote such a note in the period."),
	}
}

// findNotes returns the first matching note of each session.
func (o *PersonOptions) findNotes(ctx context.Context, who query.Criteria) ([]notePlace, error) {
	who.Kinds = []format.Kind{format.KindNote}
	filter := who.Filter()
	visitors := make([]visitor, trail.Workers())
	for i := range visitors {
		visitors[i] = &noteFinder{Matcher: query.Matcher{Filter: filter}, note: o.Note,
			found: map[format.SessionID]notePlace{}}
	}
	options := trail.ScanOptions{Since: o.Since, Until: o.Until, Contents: filter.Contents(), Parts: true}
	if _, err := o.scan(ctx, options, visitors); err != nil {
		return nil, err
	}
	first := map[format.SessionID]notePlace{}
	for _, v := range visitors {
		for id, n := range v.(*noteFinder).found {
			if have, ok := first[id]; !ok || n.seq < have.seq {
				first[id] = n
			}
		}
	}
	return slices.SortedFunc(maps.Values(first), func(a, b notePlace) int {
		return cmp.Or(cmp.Compare(a.time, b.time), a.id.Compare(b.id))
	}), nil
}

type noteFinder struct {
	query.Matcher
	note  string
	found map[format.SessionID]notePlace
}

func (n *noteFinder) Block(*trail.BlockRef) { n.Reset() }

func (n *noteFinder) Record(r *format.Record) {
	if r.Kind != format.KindNote || !n.Keep(r) || !hasWord(string(r.Text), n.note) {
		return
	}
	id := r.Session.ID()
	if have, ok := n.found[id]; !ok || r.Seq < have.seq {
		n.found[id] = notePlace{id, r.Seq, r.Time}
	}
}

// hasWord reports whether a text contains a word that is not part of a longer one: INC-7, but not in INC-70.
func hasWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(word)
		if (i == 0 || !isWordByte(text[i-1])) && (end == len(text) || !isWordByte(text[end])) {
			return true
		}
		from = i + 1
	}
}

// ---- collecting ----

// mostSessions limits the sessions, and also the relations, that one goroutine keeps.
const mostSessions = 200_000

// personSession is a session of the person.
type personSession struct {
	started *event // the last statement of the client with a start record
	// The numbers of that statement, and of the last one that has ended.
	startedNumber, lastEnded uint64
	switched                 bool // its user may have changed
	ofClient                 bool // of a client, not of a parallel worker

	user, db, client, application, auth, identity string
	appUsers                                      map[string]bool
	first, last                                   RecordID
	connected, ended                              bool
	endedHow                                      string
	statements, failed                            int64
}

// personTable is what the person did with a relation.
type personTable struct {
	occurrences
	format.Effects
	lastCounted RecordID // the last record that was counted
	failed      int64
	access      map[string]bool
	columns     map[string]map[string]bool // by access
	via         map[string]bool
	tried       map[string]bool // accesses of failed statements: "select", or "select column"
}

// onlyTried returns the accesses that only failed statements have.
func (t *personTable) onlyTried() []string {
	tried := maps.Clone(t.tried)
	maps.DeleteFunc(tried, func(what string, _ bool) bool {
		access, column, _ := strings.Cut(what, " ")
		return column == "" && t.access[access] || column != "" && t.columns[access][column]
	})
	return sortedKeys(tried)
}

// commandUse is how often a command was executed.
type commandUse struct {
	statements, failed int64
	format.Effects
}

// dossier is what one goroutine has found, and after join what all have found.
type dossier struct {
	mu       sync.Mutex     // protects sessions while logoutFinders note their ends
	excluded *query.Matcher // records to leave out
	// failuresHidden is why refused logins and failures may have no record; empty: they have.
	failuresHidden string
	options        *PersonOptions
	matcher        query.Matcher
	hidden         *query.Hidden                  // collects renames of roles with these names
	notesFrom      map[format.SessionID]notePlace // nil: all records

	sessions map[format.SessionID]*personSession
	// moreSessions counts the sessions beyond mostSessions.
	moreSessions int64
	tables       map[[2]string]*personTable
	commands     map[[2]string]*commandUse // by class and command
	endings      map[string]int64
	roles        map[string]*occurrences

	transactions, failures, exports, settings, switches, changes, notes, refused, gaps events
}

func newDossier(o *PersonOptions, filter *query.Filter, notes []notePlace) *dossier {
	d := &dossier{
		options: o, matcher: query.Matcher{Filter: filter}, hidden: &query.Hidden{},
		sessions: map[format.SessionID]*personSession{}, tables: map[[2]string]*personTable{},
		commands: map[[2]string]*commandUse{}, endings: map[string]int64{}, roles: map[string]*occurrences{},
	}
	if o.Note != "" {
		d.notesFrom = map[format.SessionID]notePlace{}
		for _, n := range notes {
			d.notesFrom[n.id] = n
			// workers name the session by its start in seconds
			d.notesFrom[format.SessionID{Start: n.id.Start - mod(n.id.Start, 1e6), PID: n.id.PID}] = n
		}
	}
	return d
}

func mod(a, b int64) int64 { return (a%b + b) % b }

func (d *dossier) Block(*trail.BlockRef) {
	d.matcher.Reset()
	if d.excluded != nil {
		d.excluded.Reset()
	}
}

// covers reports whether the dossier is about a record.
func (d *dossier) covers(r *format.Record) bool {
	if d.notesFrom != nil {
		n, ok := d.notesFrom[r.Session.ID()]
		if ok {
			return r.Seq >= n.seq || r.Seq == 0 && r.Time >= n.time
		}
		n, ok = d.notesFrom[r.Session.ClientID()]
		return ok && r.Time >= n.time
	}
	return d.matcher.Keep(r) && (d.excluded == nil || !d.excluded.Keep(r))
}

func fact(r *format.Record, k format.Key) string { return string(r.Session.Fact(k)) }

// Record adds a record.
func (d *dossier) Record(r *format.Record) {
	d.hidden.NoteRenames(d.matcher.Filter, r)
	if !d.covers(r) {
		return
	}
	id := idOf(r)
	if r.Kind == format.KindAuthFailed {
		d.refused.add(id, fact(r, format.KeyUser), fact(r, format.KeyDatabase), fact(r, format.KeyClient),
			string(r.SQLState), brief(r.Message))
		return
	}
	s := d.sessionOf(r, id)
	switch r.Kind {
	case format.KindConnect:
		s.connected = true
	case format.KindDisconnect:
		s.ended, s.endedHow = true, r.Outcome.String()
	case format.KindStatement, format.KindStart:
		d.statement(r, s, id)
	case format.KindTransaction, format.KindSubtransaction:
		d.transaction(r, id)
	case format.KindSetting:
		d.settings.add(id, extra(r, "name")+" = "+extra(r, "new"), "set by "+extra(r, "source")+", before: "+
			extra(r, "old"))
	case format.KindNote:
		d.notes.add(id, brief(r.Text))
	case format.KindGap:
		d.gaps.add(id, extra(r, "count"), extra(r, "reason"))
	}
}

func extra(r *format.Record, name string) string {
	v, _ := r.ExtraValue(name)
	return string(v)
}

func (d *dossier) sessionOf(r *format.Record, id RecordID) *personSession {
	s := d.sessions[id.Session]
	if s == nil {
		s = &personSession{first: id, last: id, appUsers: map[string]bool{}}
		if len(d.sessions) < mostSessions {
			d.sessions[id.Session] = s
		} else if r.Kind == format.KindConnect {
			d.moreSessions++
		}
	}
	s.ofClient = s.ofClient || fact(r, format.KeyBackendType) == "client backend"
	if id.before(s.first) {
		s.first = id
	}
	if s.last.before(id) {
		s.last = id
	}
	for _, f := range []struct {
		at  *string
		key format.Key
	}{
		{&s.user, format.KeyUser}, {&s.db, format.KeyDatabase}, {&s.client, format.KeyClient},
		{&s.application, format.KeyApplication}, {&s.auth, format.KeyAuthMethod}, {&s.identity, format.KeyIdentity},
	} {
		if *f.at == "" {
			*f.at = fact(r, f.key)
		}
	}
	if a := r.Session.Fact(format.KeyAppUser); len(a) > 0 && !s.appUsers[string(a)] {
		s.appUsers[string(a)] = true
	}
	return s
}

func (d *dossier) statement(r *format.Record, s *personSession, id RecordID) {
	class, command := "", ""
	if r.Shape != nil {
		class, command = r.Shape.Class.String(), string(r.Shape.Command)
	}
	if r.Kind == format.KindStart { // counts only if no record of the end follows
		if r.Depth == 0 && (s.started == nil || s.startedNumber < r.Statement) {
			var relations []string
			if r.Shape != nil {
				relations = relationNames(r.Shape)
			}
			s.startedNumber = r.Statement
			s.started = &event{id, []any{class, command, relations, brief(r.Text)}}
		}
		return
	}
	if r.Depth == 0 {
		s.lastEnded = max(s.lastEnded, r.Statement)
	}
	key := [2]string{class, command}
	c := d.commands[key]
	if c == nil {
		c = &commandUse{}
		d.commands[key] = c
	}
	c.statements++
	c.Add(r)
	if r.Depth == 0 {
		s.statements++
	}
	s.switched = s.switched || r.Text != nil && becomesAnother(r.Text)
	role := fact(r, format.KeyRole)
	if role == "" && d.excluded != nil {
		role = fact(r, format.KeyUser) // set by SET SESSION AUTHORIZATION
	}
	if role != "" && r.Depth == 0 {
		if d.roles[role] == nil {
			d.roles[role] = &occurrences{}
		}
		d.roles[role].add(id, 1)
	}
	if r.Failed() {
		c.failed++
		if r.Depth == 0 {
			s.failed++
		}
		d.failures.add(id, string(r.SQLState), r.Outcome.String(), command, brief(r.Message), brief(r.Text))
	}
	if r.Shape == nil {
		return
	}
	d.relations(r, id)
	if how := d.exported(r, command); how != "" {
		var rows any // nil: not recorded
		if r.Has(format.FieldRows) {
			rows = int64(r.Rows)
		}
		d.exports.add(id, how, relationNames(r.Shape), rows, r.Result(), brief(r.Text))
	}
	switch {
	case r.Shape.Class == format.ClassMiscSet && (roleSet(r.Text) != "" || isRoleSwitch(r.Text)):
		d.switches.add(id, brief(r.Text), r.Result())
	case r.Shape.Class == format.ClassMiscSet, strings.HasPrefix(command, "ALTER SYSTEM"), command == "DISCARD ALL":
		d.settings.add(id, brief(r.Text), r.Result())
	case r.Shape.Class == format.ClassDDL, r.Shape.Class == format.ClassRole:
		d.changes.add(id, class, command, objectNames(r.Shape), r.Result(), brief(r.Text))
	}
}

// exported returns how a statement sent many rows to its client, or may have; empty if it did not. The record of a
// cursor's query counts all rows that were fetched; each FETCH has a record of its own.
func (d *dossier) exported(r *format.Record, command string) string {
	cursor, read := r.Portal() != nil, r.Shape.Class == format.ClassRead
	switch large := r.Rows >= d.options.Large; {
	case read && command == "COPY":
		return "COPY TO"
	case command == "FETCH" && r.Depth == 0 && (large || r.Failed() && ranBefore(r)):
		return "FETCH"
	case read && r.Depth == 0 && large:
		return "large result"
	case read && cursor && large:
		return "cursor"
	case read && (r.Depth == 0 || cursor) && r.Failed() && len(r.Shape.Relations) > 0 && ranBefore(r):
		return "failed result"
	}
	return ""
}

// ranBefore reports whether a failed statement may have run, and sent rows, before it failed: it was not refused, and
// its names had been looked up.
func ranBefore(r *format.Record) bool {
	// invalid transaction state, invalid cursor name, syntax error or access rule violation
	before := []string{"25", "34", "42"}
	named := func(rel format.Relation) bool { return rel.Access&format.AccessWritten != 0 }
	return !slices.Contains(before, string(r.SQLState[:min(len(r.SQLState), 2)])) &&
		!slices.ContainsFunc(r.Shape.Relations, named)
}

// isRoleSwitch reports whether a statement sets or resets the role or the session user.
func isRoleSwitch(text []byte) bool {
	words, _ := (&script{text: brief(text)}).next()
	r := &reading{Grants: &Grants{}, words: words}
	if !r.take("set", "reset") {
		return false
	}
	r.take("local")
	return r.takeAll("session", "authorization") || r.takeAll("session", "session", "authorization") ||
		r.take("role") || r.takeAll("session", "role")
}

// becomesAnother reports whether a text may change the session user, by SET or set_config(). The letter Z of
// AUTHORIZATION, which most texts lack, is a quick test.
func becomesAnother(text []byte) bool {
	if bytes.IndexByte(text, 'z') < 0 && bytes.IndexByte(text, 'Z') < 0 {
		return false
	}
	lower := bytes.ToLower(text)
	return bytes.Contains(lower, []byte("authorization")) && bytes.Contains(lower, []byte("session"))
}

func relationNames(s *format.Shape) (names []string) {
	for i := range s.Relations {
		names = append(names, string(s.Relations[i].Name))
	}
	return names
}

func objectNames(s *format.Shape) (names []string) {
	for i := range s.Objects {
		if s.Objects[i].Action != format.ActionExecute {
			names = append(names, s.Objects[i].Action.String()+" "+string(s.Objects[i].Name))
		}
	}
	return names
}

func (d *dossier) relations(r *format.Record, id RecordID) {
	for i := range r.Shape.Relations {
		rel := &r.Shape.Relations[i]
		key := [2]string{fact(r, format.KeyDatabase), string(rel.Name)}
		t := d.tables[key]
		if t == nil {
			if len(d.tables) >= mostSessions || i >= mostRelations {
				return
			}
			t = &personTable{access: map[string]bool{}, columns: map[string]map[string]bool{}, via: map[string]bool{},
				tried: map[string]bool{}}
			d.tables[key] = t
		}
		if t.lastCounted != id { // a statement that uses it directly and through a view counts once
			t.add(id, 1)
			t.Effects.Add(r)
			t.lastCounted = id
			if r.Failed() {
				t.failed++
			}
		}
		t.addUse(r, rel)
	}
}

// addUse adds the accesses of a statement to the relation, or those that it tried if it failed.
func (t *personTable) addUse(r *format.Record, rel *format.Relation) {
	failed := r.Failed()
	for name := range (rel.Access &^ format.AccessAudited).Names {
		if failed {
			t.tried[name] = true
		} else {
			t.access[name] = true
		}
	}
	if rel.Via > 0 && rel.Via <= len(r.Shape.Relations) {
		t.via[string(r.Shape.Relations[rel.Via-1].Name)] = true
	}
	for _, c := range rel.Columns {
		for name := range (c.Access &^ format.AccessAudited).Names {
			if failed {
				t.tried[name+" "+string(c.Name)] = true
				continue
			}
			if t.columns[name] == nil {
				t.columns[name] = map[string]bool{}
			}
			t.columns[name][string(c.Name)] = true
		}
	}
}

func (d *dossier) transaction(r *format.Record, id RecordID) {
	how := r.Ending.Event.String()
	if r.Kind == format.KindSubtransaction {
		how = "subtransaction rolled back"
	} else if !r.Has(format.FieldEvent) {
		how = r.Outcome.String()
	}
	d.endings[how]++
	d.transactions.add(id, how, int64(r.XID), int64(r.Ending.Statements), orNil(extra(r, "commit_lsn")))
}

// running returns the statements that had not ended. A client runs one statement after the other, so only its last
// one can be running.
func (d *dossier) running() *events {
	all := &events{}
	for _, s := range d.sessions {
		if s.started != nil && s.startedNumber > s.lastEnded && !s.ended {
			all.add(s.started.id, s.started.cells...)
		}
	}
	return all
}

// join adds what another goroutine has found.
func (d *dossier) join(o *dossier) {
	d.moreSessions += o.moreSessions
	for id, s := range o.sessions {
		have := d.sessions[id]
		if have == nil {
			d.sessions[id] = s
			continue
		}
		if s.first.before(have.first) {
			have.first = s.first
		}
		if have.last.before(s.last) {
			have.last = s.last
		}
		have.auth, have.identity = cmp.Or(have.auth, s.auth), cmp.Or(have.identity, s.identity)
		have.client, have.application = cmp.Or(have.client, s.client), cmp.Or(have.application, s.application)
		have.connected, have.ended, have.endedHow = have.connected || s.connected, have.ended || s.ended,
			cmp.Or(have.endedHow, s.endedHow)
		if s.started != nil && (have.started == nil || have.startedNumber < s.startedNumber) {
			have.started, have.startedNumber = s.started, s.startedNumber
		}
		have.lastEnded, have.switched, have.ofClient = max(have.lastEnded, s.lastEnded), have.switched || s.switched,
			have.ofClient || s.ofClient
		have.statements, have.failed = have.statements+s.statements, have.failed+s.failed
		maps.Copy(have.appUsers, s.appUsers)
	}
	for k, t := range o.tables {
		have := d.tables[k]
		if have == nil {
			d.tables[k] = t
			continue
		}
		have.occurrences.join(t.occurrences)
		have.Merge(&t.Effects)
		maps.Copy(have.access, t.access)
		maps.Copy(have.via, t.via)
		maps.Copy(have.tried, t.tried)
		have.failed += t.failed
		for a, c := range t.columns {
			if have.columns[a] == nil {
				have.columns[a] = c
			} else {
				maps.Copy(have.columns[a], c)
			}
		}
	}
	for k, c := range o.commands {
		have := d.commands[k]
		if have == nil {
			d.commands[k] = c
			continue
		}
		have.statements += c.statements
		have.failed += c.failed
		have.Merge(&c.Effects)
	}
	for k, n := range o.endings {
		d.endings[k] += n
	}
	for k, s := range o.roles {
		if d.roles[k] == nil {
			d.roles[k] = &occurrences{}
		}
		d.roles[k].join(*s)
	}
	for _, pair := range [][2]*events{
		{&d.transactions, &o.transactions}, {&d.failures, &o.failures}, {&d.exports, &o.exports},
		{&d.settings, &o.settings}, {&d.switches, &o.switches}, {&d.changes, &o.changes}, {&d.notes, &o.notes},
		{&d.refused, &o.refused}, {&d.gaps, &o.gaps},
	} {
		pair[0].join(pair[1])
	}
}

// ---- the answer ----

func (d *dossier) answer(sessions []format.SessionID) *Document {
	o := d.options
	who := query.Criteria{Users: o.Users, AppUsers: o.AppUsers}
	if o.Note != "" {
		who = query.Criteria{Sessions: sessions[:min(len(sessions), 20)]}
	}
	begin, end, _ := o.bounds()
	doc := &Document{Review: "person", Facts: []Fact{
		{"user", o.Users}, {"end user", o.AppUsers}, {"period from", stamp(max(o.Since, begin))},
		{"period until", stamp(min(o.Until, end))}, {"trail", o.Trails}, {"all records", o.catCommand(who)},
	}}
	if o.Note != "" {
		doc.Facts = slices.Insert(doc.Facts, 0, Fact{"note", o.Note})
	}
	follow := func(s *Section, c query.Criteria) *Section {
		if s.Left > 0 {
			c.Users, c.AppUsers, c.Sessions = who.Users, who.AppUsers, who.Sessions
			s.Note = "All of them: " + o.catCommand(c)
		}
		return s
	}
	kind := func(k format.Kind) query.Criteria { return query.Criteria{Kinds: []format.Kind{k}} }
	class := func(all ...format.Class) query.Criteria { return query.Criteria{Classes: all} }
	doc.Sections = []*Section{
		d.sessionTable(),
		follow(d.refused.section("refused_logins", "Refused logins", "user", "database", "address", "sqlstate",
			"message"), kind(format.KindAuthFailed)),
		follow(d.notes.section("notes", "Notes", "text"), kind(format.KindNote)),
		d.commandTable(),
		d.tableTable(who),
		d.roleTable(),
		follow(d.switches.section("role_switches", "Role switches", "statement", "outcome"),
			class(format.ClassMiscSet)),
		follow(d.exports.section("exports", "Exports", "how", "objects", "rows", "outcome", "text"),
			class(format.ClassRead)),
		follow(d.changes.section("changes", "DDL, roles and privileges", "class", "command", "objects", "outcome",
			"text"), class(format.ClassDDL, format.ClassRole)),
		follow(d.settings.section("settings", "Settings changed", "what", "outcome"),
			class(format.ClassMiscSet, format.ClassSetting)),
		follow(d.failures.section("failures", "Failures", "sqlstate", "outcome", "command", "message", "text"),
			query.Criteria{Failed: true}),
		follow(d.running().section("running", "Unfinished statements", "class", "command", "objects", "text"),
			kind(format.KindStart)),
		d.endingTable(),
		follow(d.transactions.section("transactions", "Transactions that wrote", "event", "xid", "statements",
			"commit_lsn"), kind(format.KindTransaction)),
		d.gaps.section("gaps", "Records that were lost", "count", "reason"),
	}
	d.noteHiddenFailures(doc)
	return doc
}

// noteHiddenFailures adds notes to the lists of failures, which may be incomplete, and to the list of sessions, in
// which a refused login may look like a session.
func (d *dossier) noteHiddenFailures(doc *Document) {
	if d.failuresHidden == "" {
		return
	}
	notes := map[string]string{
		"sessions": "A login that the server refused after it had authenticated the user may look like a " +
			"session that did nothing",
		"refused_logins": "Refused logins may have no record",
		"failures":       "Statements that failed before they were planned may have no record",
	}
	for _, s := range doc.Sections {
		note := notes[s.Key]
		if note == "" {
			continue
		}
		note += ": " + d.failuresHidden + "."
		if len(s.Rows) == 0 && s.Key != "sessions" {
			s.Empty = "None was recorded. " + note
		}
		s.Note = strings.TrimSpace(note + " " + s.Note)
	}
}

func sortedKeys(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func (d *dossier) sessionTable() *Section {
	s := &Section{
		Key: "sessions", Title: "Sessions", Empty: "None in the period.",
		Columns: []string{"session", "from", "until", "user", "end_users", "database", "address", "application",
			"auth_method", "identity", "statements", "failed", "end", "follow"},
	}
	ids := slices.SortedFunc(maps.Keys(d.sessions), func(a, b format.SessionID) int {
		return cmp.Or(cmp.Compare(d.sessions[a].first.Time, d.sessions[b].first.Time), a.Compare(b))
	})
	s.Left = int64(max(0, len(ids)-dossierLines)) + d.moreSessions
	for _, id := range ids[:min(len(ids), dossierLines)] {
		x := d.sessions[id]
		end := "open, or ended after the period"
		if x.ended {
			end = cmp.Or(x.endedHow, "ok")
		}
		s.add(id.String(), stamp(x.first.Time), stamp(x.last.Time), x.user, sortedKeys(x.appUsers), x.db, x.client,
			x.application, x.auth, x.identity, x.statements, x.failed, end,
			d.options.catCommand(query.Criteria{Sessions: []format.SessionID{id}}))
	}
	return s
}

func (d *dossier) commandTable() *Section {
	s := &Section{Key: "commands", Title: "Statements", Empty: "None.",
		Columns: []string{"class", "command", "statements", "failed", "rolled_back", "unknown"}}
	keys := slices.SortedFunc(maps.Keys(d.commands), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for _, k := range keys {
		c := d.commands[k]
		s.add(k[0], orNil(k[1]), c.statements, c.failed, c.RolledBack, c.Unknown)
	}
	return s
}

func (d *dossier) tableTable(who query.Criteria) *Section {
	s := &Section{
		Key: "objects", Title: "Tables and columns", Empty: "None.",
		Columns: []string{"database", "object", "access", "columns_read", "columns_written", "via", "statements",
			"failed", "only_tried", "rolled_back", "unknown", "first", "last", "record", "follow"},
	}
	keys := slices.SortedFunc(maps.Keys(d.tables), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	s.Left = int64(max(0, len(keys)-mostRows))
	for _, k := range keys[:min(len(keys), mostRows)] {
		t := d.tables[k]
		if t.failed > 0 {
			s.Note = "Only tried: by statements that failed. One that was refused for lack of a privilege has read " +
				"nothing of it; others may have before they failed."
		}
		written := maps.Clone(t.columns["insert"])
		if written == nil {
			written = map[string]bool{}
		}
		maps.Copy(written, t.columns["update"])
		s.add(k[0], k[1], sortedKeys(t.access), sortedKeys(t.columns["select"]), sortedKeys(written),
			sortedKeys(t.via), t.count,
			t.failed, t.onlyTried(), t.RolledBack, t.Unknown, stamp(t.first.Time), stamp(t.last.Time), t.last,
			d.options.catCommand(query.Criteria{Users: who.Users, AppUsers: who.AppUsers, Sessions: who.Sessions,
				Databases: k[:1],
				Objects:   k[1:]}))
	}
	return s
}

func (d *dossier) roleTable() *Section {
	s := &Section{Key: "roles", Title: "Other roles that statements ran as", Empty: "None.",
		Columns: []string{"role", "statements", "first", "last", "record"}}
	for _, role := range slices.Sorted(maps.Keys(d.roles)) {
		u := d.roles[role]
		s.add(role, u.count, stamp(u.first.Time), stamp(u.last.Time), u.last)
	}
	return s
}

func (d *dossier) endingTable() *Section {
	s := &Section{Key: "outcomes", Title: "Outcomes of transactions", Empty: "No transaction wrote.",
		Columns: []string{"event", "transactions"}}
	for _, how := range slices.Sorted(maps.Keys(d.endings)) {
		s.add(how, d.endings[how])
	}
	return s
}

func personLimits(o *PersonOptions) []string {
	limits := []string{
		"A user is who logged in: whoever knows a password or has a key is that user. An end user and an " +
			"application are what the client claims.",
		"Rows that were read are counted, not recorded; values in records are those of texts and parameters.",
	}
	if len(o.AppUsers) > 0 {
		limits = append(limits, "Statements that the application ran without setting steno.app_user are not among "+
			"them, nor are connect and disconnect records of the pool's sessions.")
	}
	return limits
}

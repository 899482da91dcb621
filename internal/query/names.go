// Names in filters that occur nowhere in a trail: a filter for "alcie" finds nothing, whatever alice did.

package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/statement"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Names finds out which names of a filter or a statement occur in a trail. It checks indexes, and sessions,
// shapes and SQLSTATEs of records. Several goroutines may use it.
type Names struct {
	left    atomic.Int32 // how many names were not found yet
	mu      sync.Mutex
	facts   []*askedFact
	object  []*askedName
	unknown []*NameError    // names that cannot occur in any trail
	seen    map[string]bool // names of objects that were compared with all patterns
}

// fact is a property of records for whose values filters ask.
type fact struct {
	what    string
	isNamed bool // people call its values names
	// How records, and definitions of blocks, have it. Empty values do not count.
	session func(s *format.Session, see func(value []byte))
	shape   func(s *format.Shape, see func(value []byte))
	record  func(r *format.Record) []byte
	lists   []format.Terms // of an index that have it; none: no index does
	shapes  bool           // the shapes of an index have it
	shared  string         // type of the object that it names
}

func ofKeys(keys ...format.Key) func(*format.Session, func([]byte)) {
	return func(s *format.Session, see func([]byte)) {
		for _, k := range keys {
			see(s.Fact(k))
		}
	}
}

var (
	userFact = fact{
		what:    "user",
		isNamed: true,
		session: ofKeys(format.KeyUser),
		lists:   []format.Terms{format.TermsUsers},
		shared:  "role",
	}
	roleFact = fact{
		what: "role", isNamed: true, session: ofKeys(format.KeyRole, format.KeyUser),
		lists: []format.Terms{format.TermsRoles, format.TermsUsers}, shared: "role",
	}
	appUserFact = fact{
		what:    "application user",
		isNamed: true,
		session: ofKeys(format.KeyAppUser),
		lists:   []format.Terms{format.TermsAppUsers},
	}
	databaseFact = fact{
		what:    "database",
		isNamed: true,
		session: ofKeys(format.KeyDatabase),
		lists:   []format.Terms{format.TermsDatabases},
		shared:  "database",
	}
	applicationFact = fact{
		what:    "application",
		isNamed: true,
		session: ofKeys(format.KeyApplication),
		lists:   []format.Terms{format.TermsApplications},
	}
	identityFact = fact{what: "identity", session: ofKeys(format.KeyIdentity)}
	contextFact  = fact{what: "application context", session: ofKeys(format.KeyAppContext)}
	clientFact   = fact{what: "client", session: ofKeys(format.KeyClient)}
	addressFact  = fact{what: "address", session: func(s *format.Session, see func([]byte)) {
		see(statement.Host(s.Fact(format.KeyClient)))
	}}
	sessionFact = fact{what: "session", session: func(s *format.Session, see func([]byte)) {
		see(s.ID().Append(nil))
		if client := s.ClientID(); client != s.ID() {
			see(client.Append(nil))
		}
	}}
	commandFact = fact{
		what: "command", shape: func(s *format.Shape, see func([]byte)) {
			see(s.Command)
		}, lists: []format.Terms{format.TermsCommands},
	}
	sqlstateFact = fact{what: "SQLSTATE", record: func(r *format.Record) []byte {
		return r.SQLState
	}, lists: []format.Terms{format.TermsSqlstates}}
	relationFact = fact{what: "relation", isNamed: true, shapes: true,
		shape: func(s *format.Shape, see func([]byte)) {
			for i := range s.Relations {
				see(s.Relations[i].Name)
			}
		}}
	columnFact = fact{what: "column", isNamed: true, shapes: true, shape: func(s *format.Shape, see func([]byte)) {
		for i := range s.Relations {
			for k := range s.Relations[i].Columns {
				see(s.Relations[i].Columns[k].Name)
			}
		}
	}}
)

// askedFact has the names in one filter for a fact.
type askedFact struct {
	*fact
	names  []*askedName
	others map[string]bool // values that were compared with all names
}

// askedName is one of these names.
type askedName struct {
	NameError
	found   bool
	objects []objectPattern // patterns for the names of objects
	// pattern returns whether a value matches; nil: only the name itself matches.
	pattern  func(value string) bool
	alike    func(value string) []likeness // nil: the value itself
	distance int
}

// likeness is a part of a value that is compared with an asked name, and the text that is shown for it.
type likeness struct{ compared, shown string }

// NameError says that a name does not occur.
type NameError struct {
	What, Name string
	Nearest    string // the most similar name; empty: none is similar
	Where      string // the part of the trail that was searched; empty: all of it

	isNamed   bool
	isPattern bool
	isList    bool // several values, separated by commas, are allowed
	isClosed  bool // it is not one of a fixed set of values
}

func (e *NameError) Error() string {
	where := e.Where
	if where == "" {
		where = "in the trail"
	}
	nearest := ""
	if e.Nearest != "" {
		nearest = "; nearest: " + render.Quoted(e.Nearest)
	}
	if e.isList && strings.Contains(e.Nearest, ",") {
		nearest += `, whose comma is written as \,`
	}
	name := render.Quoted(e.Name)
	if n := len(e.Name); e.isNamed && e.What != "object" && n > 2 && e.Name[0] == '"' && e.Name[n-1] == '"' {
		nearest += "; names are given as they are, without the quotes of SQL"
	}
	switch {
	case e.isClosed && e.isPattern:
		return fmt.Sprintf("no %s matches %s%s", e.What, name, nearest)
	case e.isClosed:
		return fmt.Sprintf("there is no %s %s%s", e.What, name, nearest)
	case e.isPattern:
		return fmt.Sprintf("no %s matches %s %s%s", e.What, name, where, nearest)
	case e.isNamed:
		return fmt.Sprintf("no %s of the name %s occurs %s%s", e.What, name, where, nearest)
	}
	return fmt.Sprintf("no %s %s occurs %s%s", e.What, name, where, nearest)
}

// mostNames bounds the names that are compared. In a trail with more, the nearest name may not be found.
const mostNames = 100_000

// NewNames returns a Names for the names that a filter asks for or excludes; nil: there are none.
func NewNames(c *Criteria) *Names {
	n := &Names{seen: map[string]bool{}}
	n.addFilter(c)
	if c.Not != nil {
		n.addFilter(c.Not)
	}
	return n.orNil()
}

// NewUnindexedNames does so only for names that indexes do not list, such as clients.
func NewUnindexedNames(c *Criteria) *Names {
	n := NewNames(c)
	if n == nil {
		return nil
	}
	n.object, n.unknown = nil, nil
	n.facts = slices.DeleteFunc(n.facts, func(f *askedFact) bool { return !f.unindexed() })
	return n.orNil()
}

// Remaining returns how many names were not found.
func (n *Names) Remaining() int {
	if n == nil {
		return 0
	}
	return int(n.left.Load())
}

// orNil returns nil if there are no names to search for.
func (n *Names) orNil() *Names {
	n.left.Store(int32(len(n.names())))
	if n.left.Load() == 0 && len(n.unknown) == 0 {
		return nil
	}
	return n
}

// add adds names for a fact.
func (n *Names) add(of *fact, names ...*askedName) {
	if len(names) > 0 {
		n.facts = append(n.facts, &askedFact{fact: of, names: names, others: map[string]bool{}})
	}
}

func (n *Names) addFilter(c *Criteria) {
	each := func(of *fact, values []string, ask func(i int, a *askedName) bool) {
		var names []*askedName
		for i, v := range values {
			a := &askedName{NameError: NameError{What: of.what, Name: v, isNamed: of.isNamed, isList: of.isNamed}}
			if of.isNamed {
				a.alike = inList
			}
			if v != "" && (ask == nil || ask(i, a)) {
				names = append(names, a)
			}
		}
		n.add(of, names...)
	}
	each(&userFact, c.Users, nil)
	each(&roleFact, c.Roles, nil)
	each(&appUserFact, c.AppUsers, nil)
	each(&databaseFact, c.Databases, nil)
	each(&applicationFact, c.Applications, nil)
	each(&identityFact, c.Identities, nil)
	each(&contextFact, c.AppContexts, nil)
	each(&sessionFact, texts(c.Sessions), nil)
	each(&clientFact, texts(c.Clients), func(i int, a *askedName) bool {
		asked := c.Clients[i : i+1]
		a.pattern = func(client string) bool { return isClient(asked, client) }
		a.isPattern, a.alike = asked[0].IsNetwork(), func(client string) []likeness {
			host := string(statement.Host([]byte(client)))
			return []likeness{{client, client}, {host, host}}
		}
		return true
	})
	each(&commandFact, c.Commands, func(i int, a *askedName) bool {
		words := strings.Fields(c.Commands[i])
		a.Name = strings.Join(words, " ")
		a.pattern = func(tag string) bool { return hasCommand([]string{a.Name}, tag) }
		a.alike = func(tag string) []likeness {
			all := strings.Fields(tag)
			begin := strings.Join(all[:min(len(all), len(words))], " ")
			return []likeness{{begin, begin}}
		}
		return n.addCommand(a)
	})
	each(&sqlstateFact, texts(c.SQLStates), func(i int, a *askedName) bool {
		asked := c.SQLStates[i].String()
		a.pattern = func(state string) bool { return strings.HasPrefix(state, asked) }
		a.alike = func(state string) []likeness {
			begin := state[:min(len(state), len(asked))]
			return []likeness{{begin, begin}}
		}
		return !slices.ContainsFunc(statement.SQLStates(), a.pattern)
	})
	for _, name := range c.Objects {
		n.object = append(n.object, &askedName{
			NameError: NameError{
				What:      "object",
				Name:      name,
				isNamed:   true,
				isPattern: strings.Contains(name, "*"),
			}, objects: objectPatterns([]string{name}),
		})
	}
}

// texts returns values as people write them.
func texts[T fmt.Stringer](values []T) (all []string) {
	for _, v := range values {
		all = append(all, v.String())
	}
	return all
}

// inList returns the parts of a list. A name with a comma is one that was meant as two.
func inList(value string) []likeness {
	all := []likeness{{value, value}}
	if strings.Contains(value, ",") {
		for part := range strings.SplitSeq(value, ",") {
			all = append(all, likeness{part, value})
		}
	}
	return all
}

// addCommand returns whether a command tag must be searched for: PostgreSQL's own tags are no mistakes. For
// others, the nearest tag may also be one that does not occur.
func (n *Names) addCommand(a *askedName) bool {
	if slices.ContainsFunc(statement.Commands(), a.matches) {
		return false
	}
	for _, tag := range statement.Commands() {
		n.compareWith(a, tag)
	}
	return true
}

// Comparison is a value with which a SQL statement compares a column.
type Comparison struct {
	Column string
	Value  string
	// Is, if Value is a pattern, returns whether a value matches it; nil: only Value matches.
	Is func(value string) bool
}

// ofColumns maps columns of SQL to facts.
var ofColumns = map[string]*fact{
	"user": &userFact, "role": {what: "role", isNamed: true, session: ofKeys(format.KeyRole),
		lists: []format.Terms{format.TermsRoles}, shared: "role"},
	"app_user": &appUserFact, "database": &databaseFact, "application": &applicationFact,
	"identity": &identityFact, "app_context": &contextFact, "client": &clientFact, "address": &addressFact,
	"session": &sessionFact,
	"command": &commandFact, "sqlstate": &sqlstateFact, "relation": &relationFact, "column_name": &columnFact,
}

// closedValues returns the values that a column of SQL can have, if these are a fixed set.
func closedValues(column string) []string {
	kinds, classes, outcomes := format.Names()
	switch column {
	case "kind":
		return kinds
	case "class":
		return classes
	case "outcome":
		return outcomes
	case "effect":
		return format.EffectNames()
	}
	return nil
}

// HasNames returns whether the values of a column of SQL are names, or of a fixed set.
func HasNames(column string) bool { return ofColumns[column] != nil || closedValues(column) != nil }

// NewNamesOf returns a Names for the values in a SQL statement; nil: there are none.
func NewNamesOf(asked []Comparison) *Names {
	n := &Names{seen: map[string]bool{}}
	for _, name := range asked {
		a := &askedName{NameError: NameError{
			What:      name.Column,
			Name:      name.Value,
			isPattern: name.Is != nil,
		}, pattern: name.Is}
		if list := closedValues(name.Column); list != nil {
			n.addClosed(a, list)
			continue
		}
		of := ofColumns[name.Column]
		if of == nil || name.Value == "" {
			continue
		}
		a.What, a.isNamed = of.what, of.isNamed
		switch of {
		case &commandFact:
			if !n.addCommand(a) {
				continue
			}
		case &sqlstateFact:
			if slices.ContainsFunc(statement.SQLStates(), a.matches) {
				continue
			}
		case &columnFact:
			if name.Value == "*" { // the whole row
				continue
			}
		case &relationFact: // SQL does not match a name without its schema
			a.alike = func(name string) []likeness {
				return []likeness{{name, name}, {string(unqualified([]byte(name))), name}}
			}
		}
		n.add(of, a)
	}
	return n.orNil()
}

// addClosed notes a value that is not in a fixed set.
func (n *Names) addClosed(a *askedName, list []string) {
	for _, value := range list {
		n.compareSeen(a, value)
	}
	if !a.found {
		a.isClosed = true
		n.unknown = append(n.unknown, a.asError())
	}
}

// names returns all asked names.
func (n *Names) names() (all []*askedName) {
	for _, f := range n.facts {
		all = append(all, f.names...)
	}
	return append(all, n.object...)
}

// occurs notes that a name occurs.
func (n *Names) occurs(a *askedName) {
	if !a.found {
		a.found = true
		n.left.Add(-1)
	}
}

// matches returns whether a value matches an asked name.
func (a *askedName) matches(value string) bool {
	if a.pattern != nil {
		return a.pattern(value)
	}
	return value == a.Name
}

// compareSeen compares a name that occurs with an asked one.
func (n *Names) compareSeen(a *askedName, other string) {
	switch {
	case a.found:
	case a.matches(other):
		n.occurs(a)
	default:
		n.compareWith(a, other)
	}
}

// compareWith keeps the other name if it is the nearest so far.
func (n *Names) compareWith(a *askedName, other string) {
	parts := []likeness{{other, other}}
	if a.alike != nil {
		parts = a.alike(other)
	}
	for _, p := range parts {
		d := render.Distance(strings.ToLower(a.Name), strings.ToLower(p.compared))
		if a.Nearest == "" || d < a.distance || d == a.distance && p.shown < a.Nearest {
			a.Nearest, a.distance = p.shown, d
		}
	}
}

// asError returns the error about a name that does not occur.
func (a *askedName) asError() *NameError {
	e := a.NameError
	if a.distance > max(2, len(a.Name)/2) {
		e.Nearest = ""
	}
	return &e
}

// value compares a value of the fact with all its names.
func (f *askedFact) value(n *Names, value []byte) {
	if len(value) == 0 || isUncertain(value) || f.others[string(value)] || len(f.others) == mostNames {
		return
	}
	f.others[string(value)] = true
	for _, a := range f.names {
		n.compareSeen(a, string(value))
	}
}

// session checks the facts of a session.
func (n *Names) session(s *format.Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.facts {
		if f.session != nil {
			f.session(s, func(value []byte) { f.value(n, value) })
		}
	}
}

// record checks what is in records alone, not in definitions.
func (n *Names) record(r *format.Record) {
	if r.SQLState == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.facts {
		if f.record != nil {
			f.value(n, f.record(r))
		}
	}
}

// shape checks the relations and objects of a shape, which may be nil.
func (n *Names) shape(s *format.Shape) {
	if s == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shared(s)
	for _, f := range n.facts {
		if f.shape != nil {
			f.shape(s, func(value []byte) { f.value(n, value) })
		}
	}
	if len(n.object) == 0 {
		return
	}
	for _, a := range n.object {
		if !a.found && usesObject(s, a.objects, nil) {
			n.occurs(a)
		}
	}
	for i := range s.Relations {
		r := &s.Relations[i]
		n.compare(string(r.Name))
		for _, c := range r.Columns {
			n.compare(string(r.Name) + "." + string(c.Name))
		}
	}
	for i := range s.Objects {
		n.compare(string(withoutArguments(s.Objects[i].Name)))
	}
}

// shared checks statements about roles and databases themselves. A name with a schema is that of another
// object; an index does not have types of objects.
func (n *Names) shared(s *format.Shape) {
	for i := range s.Objects {
		o := &s.Objects[i]
		if lastDot(string(o.Name)) >= 0 || lastDot(string(o.To)) >= 0 {
			continue
		}
		for _, f := range n.facts {
			if f.shared == "" || string(o.Type) != "" && string(o.Type) != f.shared {
				continue
			}
			for _, a := range f.names {
				if a.matches(unquoted(o.Name)) || a.matches(unquoted(o.To)) {
					n.occurs(a)
				}
			}
		}
	}
}

// compare compares the name of an object, with and without its schema.
func (n *Names) compare(name string) {
	if name == "" || n.seen[name] || len(n.seen) == mostNames {
		return
	}
	n.seen[name] = true
	for _, a := range n.object {
		if a.found {
			continue
		}
		short := string(unqualified([]byte(name)))
		d := min(render.Distance(strings.ToLower(a.Name), strings.ToLower(name)),
			render.Distance(strings.ToLower(a.Name), strings.ToLower(short)))
		if a.Nearest == "" || d < a.distance || d == a.distance && name < a.Nearest {
			a.Nearest, a.distance = name, d
		}
	}
}

// NamesReader passes the records of blocks to a Names, each session and shape of a block once.
type NamesReader struct {
	names            *Names
	sessions, shapes map[int]bool // checked ones, by index in the block
}

// Reader returns a reader for one goroutine. With a nil Names, it does nothing.
func (n *Names) Reader() *NamesReader {
	return &NamesReader{n, map[int]bool{}, map[int]bool{}}
}

// Start is called before the records of another block.
func (r *NamesReader) Start() {
	clear(r.sessions)
	clear(r.shapes)
}

// Remaining returns how many names were not found.
func (r *NamesReader) Remaining() int { return r.names.Remaining() }

// Record checks the session and the shape of a record.
func (r *NamesReader) Record(rec *format.Record) {
	if r.names == nil || r.names.left.Load() == 0 {
		return
	}
	if i := rec.SessionIndex; !r.sessions[i] {
		r.sessions[i] = true
		r.names.session(rec.Session)
	}
	if i := rec.ShapeIndex; i < 0 || !r.shapes[i] { // without an index, the shape belongs to this record only
		r.shapes[i] = i >= 0
		r.names.shape(rec.Shape)
	}
	r.names.record(rec)
}

// Index checks an index. It returns the groups whose blocks must be read because the index does not list
// everything.
func (n *Names) Index(c *format.Contents) format.Groups {
	g := c.All()
	clear(g)
	shapes := len(n.object) > 0
	for _, f := range n.facts {
		shapes = shapes || f.shapes
		if f.unindexed() && f.isSought() {
			g = c.All()
		}
		for _, list := range f.lists {
			g.Or(c.Select(list, func(v []byte) bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				f.value(n, v)
				return false
			}))
		}
	}
	if shapes {
		g.Or(c.SelectShape(func(s *format.Shape) bool {
			n.shape(s)
			return false
		}))
		return g
	}
	c.Select(format.TermsObjects, func(v []byte) bool {
		if len(v) > 0 {
			n.shape(&format.Shape{Objects: []format.Object{{Name: v[1:]}}})
		}
		return false
	})
	return g
}

// unindexed returns whether no index has the fact.
func (f *askedFact) unindexed() bool { return len(f.lists) == 0 && !f.shapes }

// isSought returns whether a name was not found yet.
func (f *askedFact) isSought() bool {
	return slices.ContainsFunc(f.names, func(a *askedName) bool { return !a.found })
}

// Missing returns the names that do not occur.
func (n *Names) Missing() (all []*NameError) {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	all = slices.Clone(n.unknown)
	for _, a := range n.names() {
		if !a.found {
			all = append(all, a.asError())
		}
	}
	return all
}

// InIndexes returns whether indexes can find all names that were not found yet.
func (n *Names) InIndexes() bool {
	return n == nil || !slices.ContainsFunc(n.facts, func(f *askedFact) bool { return f.unindexed() && f.isSought() })
}

// Search searches a trail's indexes, and the blocks without one, for the names that were not found yet, and
// returns those that occur nowhere. For facts that no index has, such as clients, it reads all blocks until all
// names are found.
func (n *Names) Search(ctx context.Context, index *trail.Index) []*NameError {
	if n == nil || n.left.Load() == 0 {
		return n.Missing()
	}
	scan := index.Scan(ctx, trail.ScanOptions{
		Since: format.MinTime, Until: format.MaxTime, Parts: len(n.object) > 0, Contents: n.Index,
		Warn: func(error) {}, // the trail's reader reports these
	})
	defer scan.Close()
	var ref *trail.BlockRef
	names := n.Reader()
	for r := scan.Reader(); n.left.Load() > 0 && r.Next(); {
		if r.Ref != ref {
			ref = r.Ref
			names.Start()
		}
		names.Record(&r.Record)
	}
	if ctx.Err() != nil {
		return nil
	}
	return n.Missing()
}

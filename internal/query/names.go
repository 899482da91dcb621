// Names that a filter asks for and that occur nowhere: an answer about "alcie" is empty, whatever alice did.

package query

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// Names finds out which of the names that a filter asks for occur. It is told of indexes, and of the sessions and shapes
// of records. It may be used by many goroutines.
type Names struct {
	left   atomic.Int32 // how many have not been found
	mu     sync.Mutex
	facts  []*askedFact
	object []*askedName
	seen   map[string]bool // names of objects that were compared with all patterns
}

// askedFact are the names of one filter that asks for a fact of sessions.
type askedFact struct {
	keys   []trail.Key
	lists  []trail.Terms // of an index; none: no index has it
	names  []*askedName
	others map[string]bool // which values were compared with all names
}

// askedName is one of the names.
type askedName struct {
	what, name string
	found      bool
	objects    []objectPattern // how an object's name is matched
	nearest    string
	distance   int
}

// NameError says that a name does not occur.
type NameError struct {
	What, Name string
	Nearest    string // the one that is most like it; empty: none is
	Where      string // in which part of the trail; empty: in all of it
}

func (e *NameError) Error() string {
	where := e.Where
	if where == "" {
		where = "in the trail"
	}
	nearest := ""
	if e.Nearest != "" {
		nearest = fmt.Sprintf("; nearest: %q", e.Nearest)
	}
	if strings.Contains(e.Name, "*") && e.What == "object" {
		return fmt.Sprintf("no %s matches %q %s%s", e.What, e.Name, where, nearest)
	}
	return fmt.Sprintf("no %s of the name %q occurs %s%s", e.What, e.Name, where, nearest)
}

// mostNames is how many names are compared; of a trail with more, the nearest one may not be found.
const mostNames = 100_000

// NewNames is for the names that a filter asks for; nil if it asks for none.
func NewNames(o *FilterOptions) *Names {
	n := &Names{seen: map[string]bool{}}
	add := func(what string, names []string, keys []trail.Key, lists ...trail.Terms) {
		f := &askedFact{keys: keys, lists: lists, others: map[string]bool{}}
		for _, name := range names {
			if name != "" {
				f.names = append(f.names, &askedName{what: what, name: name})
			}
		}
		if len(f.names) > 0 {
			n.facts = append(n.facts, f)
		}
	}
	add("user", o.Users, []trail.Key{trail.KeyUser}, trail.TermsUsers)
	add("role", o.Roles, []trail.Key{trail.KeyRole, trail.KeyUser}, trail.TermsRoles, trail.TermsUsers)
	add("application user", o.AppUsers, []trail.Key{trail.KeyAppUser}, trail.TermsAppUsers)
	add("database", o.Databases, []trail.Key{trail.KeyDatabase}, trail.TermsDatabases)
	add("application", o.Applications, []trail.Key{trail.KeyApplication}, trail.TermsApplications)
	for _, name := range o.Objects {
		n.object = append(n.object, &askedName{what: "object", name: name, objects: objectPatterns([]string{name})})
	}
	n.left.Store(int32(len(n.names())))
	if n.left.Load() == 0 {
		return nil
	}
	return n
}

// names are all names that are asked for.
func (n *Names) names() (all []*askedName) {
	for _, f := range n.facts {
		all = append(all, f.names...)
	}
	return append(all, n.object...)
}

// occurs notes that a name does.
func (n *Names) occurs(a *askedName) {
	if !a.found {
		a.found = true
		n.left.Add(-1)
	}
}

// see compares a name that occurs with one that is asked for.
func (n *Names) see(a *askedName, other string) {
	if a.found {
		return
	}
	if other == a.name {
		n.occurs(a)
		return
	}
	if d := distance(strings.ToLower(a.name), strings.ToLower(other)); a.nearest == "" || d < a.distance || d == a.distance && other < a.nearest {
		a.nearest, a.distance = other, d
	}
}

// value compares a value of the fact with all names.
func (f *askedFact) value(n *Names, value string) {
	if value == "" || isUncertain([]byte(value)) || f.others[value] || len(f.others) == mostNames {
		return
	}
	f.others[value] = true
	for _, a := range f.names {
		n.see(a, value)
	}
}

// session looks at the facts of a session.
func (n *Names) session(s *trail.Session) {
	if len(n.facts) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.facts {
		for _, k := range f.keys {
			f.value(n, string(s.Fact(k)))
		}
	}
}

// shape looks at the relations and objects of a shape, which may be nil.
func (n *Names) shape(s *trail.Shape) {
	if s == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shared(s)
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

// shared looks at what statements say of roles and databases themselves. Names with a schema are of something else; an
// index does not have the type of an object.
func (n *Names) shared(s *trail.Shape) {
	for i := range s.Objects {
		o := &s.Objects[i]
		for _, f := range n.facts {
			switch of := f.keys[len(f.keys)-1]; {
			case string(o.Type) != "" && !(string(o.Type) == "role" && of == trail.KeyUser || string(o.Type) == "database" && of == trail.KeyDatabase):
			case of != trail.KeyUser && of != trail.KeyDatabase || lastDot(string(o.Name)) >= 0 || lastDot(string(o.To)) >= 0:
			default:
				for _, a := range f.names {
					if a.name == unquoted(o.Name) || a.name == unquoted(o.To) {
						n.occurs(a)
					}
				}
			}
		}
	}
}

// compare compares the name of an object, as it stands and without its schema.
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
		d := min(distance(strings.ToLower(a.name), strings.ToLower(name)), distance(strings.ToLower(a.name), strings.ToLower(short)))
		if a.nearest == "" || d < a.distance || d == a.distance && name < a.nearest {
			a.nearest, a.distance = name, d
		}
	}
}

// NamesReader tells Names of the records of blocks, one after the other: of each session and each shape of a block once.
type NamesReader struct {
	names            *Names
	sessions, shapes map[int]bool // by their indexes in the block
}

// Reader returns a reader, for one goroutine. It has nothing to do if n is nil.
func (n *Names) Reader() *NamesReader {
	return &NamesReader{n, map[int]bool{}, map[int]bool{}}
}

// Start says that the records to come are those of another block.
func (r *NamesReader) Start() {
	clear(r.sessions)
	clear(r.shapes)
}

// Record looks at the session and the shape of a record.
func (r *NamesReader) Record(rec *trail.Record) {
	if r.names == nil || r.names.left.Load() == 0 {
		return
	}
	if i := rec.SessionIndex; !r.sessions[i] {
		r.sessions[i] = true
		r.names.session(rec.Session)
	}
	if i := rec.ShapeIndex; i < 0 || !r.shapes[i] { // one of no index is not that of the block, but was made of it
		r.shapes[i] = i >= 0
		r.names.shape(rec.Shape)
	}
}

// Index looks at an index, and returns the groups whose blocks must be read in addition, because it does not have all.
func (n *Names) Index(c *trail.Contents) trail.Groups {
	g := c.All()
	clear(g)
	for _, f := range n.facts {
		for _, list := range f.lists {
			g.Or(c.Select(list, func(v []byte) bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				f.value(n, string(v))
				return false
			}))
		}
	}
	if len(n.object) > 0 {
		g.Or(c.SelectShape(func(s *trail.Shape) bool {
			n.shape(s)
			return false
		}))
		return g
	}
	c.Select(trail.TermsObjects, func(v []byte) bool {
		if len(v) > 0 {
			n.shape(&trail.Shape{Objects: []trail.Object{{Name: v[1:]}}})
		}
		return false
	})
	return g
}

// Missing are the names that do not occur.
func (n *Names) Missing() (all []*NameError) {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.names() {
		if a.found {
			continue
		}
		e := &NameError{What: a.what, Name: a.name}
		if a.nearest != "" && a.distance <= max(2, len(a.name)/2) {
			e.Nearest = a.nearest
		}
		all = append(all, e)
	}
	return all
}

// Look reads the indexes of a trail, and the blocks that none covers, for the names that have not been seen, and returns
// the ones that occur nowhere.
func (n *Names) Look(ctx context.Context, index *trail.Index) []*NameError {
	if n == nil || n.left.Load() == 0 {
		return nil
	}
	scan := index.Scan(ctx, trail.ScanOptions{
		Since: trail.MinTime, Until: trail.MaxTime, Raw: len(n.object) == 0, Parts: len(n.object) > 0, Contents: n.Index,
		Warn: func(error) {}, // of which the reader of the trail has told
	})
	defer scan.Close()
	var ref *trail.BlockRef
	names := n.Reader()
	for r := scan.Reader(); r.Next(); {
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

// distance is how many characters must be inserted, removed or replaced to make one string of another (Levenshtein).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	const most = 200 // characters that are compared
	x, y = x[:min(len(x), most)], y[:min(len(y), most)]
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(y)]
}

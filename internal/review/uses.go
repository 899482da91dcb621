// What roles did: the records of a trail, summed up by who and by the shape of statements, in one
// pass by all cores. Memory is that of the different statements, not that of the records.

package review

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// RecordID is a record, as it can be looked up.
type RecordID struct {
	Session format.SessionID
	Seq     uint64
	Time    int64
}

// seen is when something happened: how often, first and last.
type seen struct {
	count       int64
	first, last RecordID
}

func (s *seen) take(id RecordID, n int64) {
	if s.count == 0 || id.before(s.first) {
		s.first = id
	}
	if s.count == 0 || s.last.before(id) {
		s.last = id
	}
	s.count += n
}

func (s *seen) join(o seen) {
	if o.count == 0 {
		return
	}
	n := s.count
	s.take(o.first, 0)
	if n == 0 {
		s.count = 1 // so that the last is compared with the first
	}
	s.take(o.last, 0)
	s.count = n + o.count
}

func (r RecordID) before(o RecordID) bool {
	return cmp.Or(cmp.Compare(r.Time, o.Time), r.Session.Compare(o.Session), cmp.Compare(r.Seq, o.Seq)) < 0
}

// uses is how statements have used a privilege, in the period and before it.
type uses struct {
	seen
	earlier seen
	by      *statement // the last one
}

// take takes a statement, once if it needs the privilege for several reasons.
func (u *uses) take(s *statement) {
	if s.of != nil {
		s = s.of
	}
	if u.by == s {
		return
	}
	u.by = s
	if s.earlier {
		u.earlier.join(s.worked)
	} else {
		u.join(s.worked)
	}
}

// usedRelation is a relation of a statement.
type usedRelation struct {
	kind, name string
	access     map[string]bool
	columns    map[string][]string // by access
	known      bool                // the columns are
	omitted    map[string]bool     // access to columns that the record leaves out
	via        int
}

// columnsFor are the columns that are accessed in a way.
func (r *usedRelation) columnsFor(access string) (columns []string, whole, blurred bool) {
	if !r.known || r.omitted[access] {
		return r.columns[access], false, true
	}
	for _, c := range r.columns[access] {
		if c == format.WholeRow {
			whole = true
		} else if !systemColumn(c) || access != "select" {
			columns = append(columns, c)
		} else {
			columns = append(columns, c) // needs the table's privilege, as there is none on it
		}
	}
	return columns, whole, false
}

func systemColumn(name string) bool {
	return slices.Contains([]string{"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}, name)
}

// usedObject is what a statement did to an object; to is its new name.
type usedObject struct{ action, kind, name, to string }

// who is who ran statements, where.
type who struct {
	db, user, role string
	nested         bool
	earlier        bool // before the period
}

// statement is all executions of statements of one shape by one role.
type statement struct {
	who
	shape
	of    *statement // the one that this is a variant of, with other names
	depth int
	text  string
	whole string // of DDL that is longer than text

	worked     seen  // those that the server did not refuse
	refused    seen  // those that failed for lack of a privilege
	started    bool  // there is only a start record
	fine       int64 // those that ended well
	early      []RecordID
	rows       uint64 // the most of one
	incomplete bool   // a record left out relations or objects
	calls      bool   // a text may call functions: it has a parenthesis, or is not whole
}

// shape is what a statement does, as records tell it.
type shape struct {
	class, command   string
	relations        []usedRelation
	executes         []string
	objects          []usedObject
	sequences        []string // that its text names
	mentioned        []string // schemas that its text names, and its relations and functions are not in
	cut              bool     // it has more relations than are looked at
	sequenceFunction string   // by which, if it is one
	setRole          string   // the role that SET ROLE names
	asksMembers      bool     // its text asks who is a member of what, or does what the member of a role may
}

// earlyKept is of how many executions the records are named.
const earlyKept = 4

func (s *statement) join(o *statement) {
	if s.started != o.started { // the other one has the end
		if s.started {
			s.worked.count, s.started = 0, false
		} else {
			o.worked.count = 0
		}
	}
	s.worked.join(o.worked)
	s.refused.join(o.refused)
	s.early = append(s.early, o.early...)
	s.trim()
	s.fine += o.fine
	s.rows = max(s.rows, o.rows)
	s.incomplete = s.incomplete || o.incomplete
	s.calls = s.calls || o.calls
	if o.worked.count > 0 && (s.text == "" || o.worked.first.before(s.worked.first)) {
		s.text, s.whole = o.text, o.whole
	}
}

func (s *statement) trim() {
	slices.SortFunc(s.early, func(a, b RecordID) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), a.Session.Compare(b.Session), cmp.Compare(a.Seq, b.Seq))
	})
	s.early = s.early[:min(len(s.early), earlyKept)]
}

// collector sums up the records of one goroutine.
type collector struct {
	whos       map[who]uint32
	shapes     map[string]uint32
	shapeOf    []*shape
	whoOf      []who
	statements map[uint64]*statement

	// by the indexes of the block's definitions; what is in them is one more than the number
	sessions, shapesHere, texts []uint32
	key                         []byte
	logins                      map[login]*seen
	since                       int64             // of the period
	of                          [2]int            // how many statements there are of the period, and before it
	full                        bool              // there are more of the period than are kept
	forgets                     bool              // there are more before the period than are kept
	stop                        func()            // ends the reading
	kept                        int               // bytes of texts of DDL
	schemas                     map[string]string // see Grants.schemas
}

// mostStatements is of how many statements, different in role or shape, one goroutine keeps account: of those of the period,
// and of as many of those before it.
var mostStatements = 200_000

// login is a connection, or a refused one.
type login struct {
	user, client string
	refused      bool
}

func newCollector(since int64, schemas map[string]string, stop func()) *collector {
	return &collector{
		since: since, schemas: schemas, stop: stop,
		whos: map[who]uint32{}, shapes: map[string]uint32{}, statements: map[uint64]*statement{}, logins: map[login]*seen{},
	}
}

// Block says that records of another block follow.
func (c *collector) Block(*trail.BlockRef) {
	clear(c.sessions)
	clear(c.shapesHere)
	clear(c.texts)
}

// slot is an element of a list that grows.
func slot(list *[]uint32, i int) *uint32 {
	for len(*list) <= i {
		*list = append(*list, 0)
	}
	return &(*list)[i]
}

// Record takes a record.
func (c *collector) Record(r *format.Record) {
	switch r.Kind {
	case format.KindStatement, format.KindStart:
		if r.Shape != nil {
			c.statement(r)
		}
	case format.KindConnect, format.KindAuthFailed:
		if r.Time < c.since {
			return
		}
		host := clientHost(string(r.Session.Fact(format.KeyClient)))
		l := login{string(r.Session.Fact(format.KeyUser)), host, r.Kind == format.KindAuthFailed}
		if c.logins[l] == nil {
			c.logins[l] = &seen{}
		}
		c.logins[l].take(idOf(r), 1)
		if !l.refused {
			c.put(who{db: string(r.Session.Fact(format.KeyDatabase)), user: l.user, role: l.user}, "connect", r)
		}
	}
}

func idOf(r *format.Record) RecordID { return RecordID{r.Session.ID(), r.Seq, r.Time} }

// clientHost is an address without its port.
func clientHost(client string) string {
	if i := strings.LastIndexByte(client, ':'); i >= 0 {
		return client[:i]
	}
	return client
}

// put takes a record that has no shape of its own.
func (c *collector) put(w who, command string, r *format.Record) {
	id, ok := c.shapes["\x00"+command]
	if !ok {
		id = uint32(len(c.shapeOf))
		c.shapes["\x00"+command] = id
		c.shapeOf = append(c.shapeOf, &shape{class: "connect", command: command})
	}
	c.one(c.whoID(w), id, r)
}

func (c *collector) whoID(w who) uint32 {
	id, ok := c.whos[w]
	if !ok {
		id = uint32(len(c.whoOf))
		c.whos[w] = id
		c.whoOf = append(c.whoOf, w)
	}
	return id
}

func (c *collector) statement(r *format.Record) {
	nested, earlier := r.Depth > 0, r.Time < c.since
	index := 4 * r.SessionIndex
	if nested {
		index += 2
	}
	if earlier {
		index++
	}
	here := slot(&c.sessions, index)
	if *here == 0 {
		w := who{earlier: earlier, db: string(r.Session.Fact(format.KeyDatabase)), user: string(r.Session.Fact(format.KeyUser)), role: string(r.Session.Fact(format.KeyRole)), nested: nested}
		if w.role == "" {
			w.role = w.user
		}
		*here = c.whoID(w) + 1
	}
	id := slot(&c.shapesHere, r.ShapeIndex)
	if *id == 0 {
		*id = c.shapeID(r.Shape, "") + 1
	}
	number := *id - 1
	if names := c.sequencesOf(r); names != "" {
		number = c.shapeID(r.Shape, names)
	}
	c.one(*here-1, number, r)
}

// one counts an execution.
func (c *collector) one(w, shape uint32, r *format.Record) {
	key := uint64(w)<<32 | uint64(shape)
	s := c.statements[key]
	if s == nil {
		s = &statement{who: c.whoOf[w], shape: *c.shapeOf[shape]}
		if !c.room(s.earlier) {
			return
		}
		s.incomplete = s.cut
		if s.nested {
			s.depth = 1
		}
		c.statements[key] = s
	}
	s.calls = s.calls || len(r.Text) == 0 || r.TextBytes > 0 || bytes.IndexByte(r.Text, '(') >= 0
	id := idOf(r)
	switch {
	case r.Kind == format.KindStart: // counts only if no record of the end follows
		if s.worked.count == 0 {
			s.worked.take(id, 1)
			c.keep(s, r.Text)
			s.started = true
		}
		return
	case s.started:
		s.worked.count, s.started = 0, false
	}
	if r.Outcome == format.OutcomeError && string(r.SQLState) == "42501" {
		s.refused.take(id, 1)
		return
	}
	if s.worked.count == 0 {
		c.keep(s, r.Text)
	}
	s.worked.take(id, 1)
	if r.Outcome == format.OutcomeOk {
		if s.fine++; len(s.early) < earlyKept {
			s.early = append(s.early, id)
		}
	}
	s.rows = max(s.rows, r.Rows)
	s.incomplete = s.incomplete || r.OmitsNames() != "" && !onlyTried(r)
}

// room says whether one more statement can be kept. Without those of the period there is no answer; without those before it,
// the answer lacks when something was used last.
func (c *collector) room(earlier bool) bool {
	n := &c.of[0]
	if earlier {
		n = &c.of[1]
	}
	switch {
	case *n < mostStatements:
		*n++
		return true
	case earlier:
		c.forgets = true
	default:
		c.full = true
		c.stop()
	}
	return false
}

// onlyTried says of a record whether its statement failed before it was executed: what it leaves out was named, not used.
func onlyTried(r *format.Record) bool {
	return r.Outcome == format.OutcomeError && r.Shape != nil && (r.Shape.Class == format.ClassError || len(r.Shape.Relations) > 0) &&
		!slices.ContainsFunc(r.Shape.Relations, func(rel format.Relation) bool { return rel.Access&format.AccessWritten == 0 })
}

// briefLength is of how many bytes of a text an example is.
const briefLength = 300

func brief(text []byte) string {
	if len(text) > briefLength {
		return string(text[:briefLength]) + " ..."
	}
	return string(text)
}

// sequencesOf is what a text and its parameters name, and the record does not: arguments of nextval() and the
// like, schemas, roles. Most have none.
func (c *collector) sequencesOf(r *format.Record) string {
	return c.paramSchemas(r, c.namesInText(r))
}

func (c *collector) namesInText(r *format.Record) string {
	if r.Text == nil {
		return ""
	}
	find := func() string {
		if r.Shape.Class == format.ClassMiscSet {
			return roleSet(r.Text)
		}
		return asksMembers(r.Text, c.mentions(r, r.Text, sequenceNames(r.Text)))
	}
	if r.TextIndex < 0 {
		return find()
	}
	at := slot(&c.texts, r.TextIndex)
	switch *at {
	case 0:
		*at = 1
		if found := find(); found != "" {
			*at = 2
			return found
		}
		return ""
	case 1:
		return ""
	}
	return find()
}

// roleSet returns the role that SET ROLE names.
func roleSet(text []byte) string {
	words, _ := (&script{text: brief(text)}).next()
	r := &reading{Grants: &Grants{}, words: words}
	if !r.take("set") {
		return ""
	}
	r.take("session", "local")
	if !r.take("role") {
		return ""
	}
	r.take("to", "=")
	if len(r.words) == 0 || r.words[0].is("none") || r.words[0].is("default") {
		return ""
	}
	return "role=" + r.words[0].text
}

// sequenceNames returns functions and names, as nextval=a.b, with line feeds between.
func sequenceNames(text []byte) string {
	lower := strings.ToLower(string(text))
	if !strings.Contains(lower, "val") {
		return ""
	}
	var found []string
	for _, function := range []string{"nextval", "setval", "currval", "lastval"} {
		rest, original := lower, string(text)
		for {
			i := strings.Index(rest, function)
			if i < 0 || len(rest) != len(original) {
				break
			}
			rest, original = rest[i+len(function):], original[i+len(function):]
			name, ok := strings.CutPrefix(strings.TrimLeft(original, " \t\n"), "(")
			if !ok {
				continue
			}
			if name, ok = strings.CutPrefix(strings.TrimLeft(name, " \t\n"), "'"); ok {
				name, _, _ = strings.Cut(name, "'")
				found = append(found, function+"="+name)
			}
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), "\n")
}

// shapeID numbers a shape with the sequences that a text names.
func (c *collector) shapeID(s *format.Shape, sequences string) uint32 {
	k := append(c.key[:0], byte(s.Class))
	str := func(b []byte) {
		k = binary.AppendUvarint(k, uint64(len(b)))
		k = append(k, b...)
	}
	str(s.Command)
	for i := range s.Relations {
		r := &s.Relations[i]
		k = append(k, 1, byte(r.Type))
		k = binary.AppendUvarint(k, uint64(r.Access))
		k = binary.AppendUvarint(k, uint64(r.Omitted))
		k = binary.AppendUvarint(k, uint64(r.Via))
		str(r.Name)
		if r.HasColumns {
			k = append(k, 2)
		}
		for _, col := range r.Columns {
			k = append(k, 3)
			k = binary.AppendUvarint(k, uint64(col.Access))
			str(col.Name)
		}
	}
	for i := range s.Objects {
		o := &s.Objects[i]
		k = append(k, 4, byte(o.Action))
		str(o.Type)
		str(o.Name)
		str(o.To)
	}
	k = append(append(k, 5), sequences...)
	c.key = k
	if id, ok := c.shapes[string(k)]; ok {
		return id
	}
	id := uint32(len(c.shapeOf))
	c.shapes[string(k)] = id
	c.shapeOf = append(c.shapeOf, newShape(s, sequences))
	return id
}

// mostRelations is of how many relations or objects of a statement there can be: the server records fewer.
const mostRelations = 10_000

func accessSet(a format.Access) map[string]bool {
	if a == 0 {
		return nil
	}
	set := map[string]bool{}
	for name := range a.Names {
		set[name] = true
	}
	return set
}

func newShape(s *format.Shape, sequences string) *shape {
	out := &shape{class: s.Class.String(), command: string(s.Command), cut: len(s.Relations) > mostRelations || len(s.Objects) > mostRelations}
	for i := range s.Relations[:min(len(s.Relations), mostRelations)] {
		r := &s.Relations[i]
		// a statement that was refused before the server had looked up the names in it has used nothing
		if r.Access&format.AccessWritten != 0 && !slices.ContainsFunc(s.Relations, func(r format.Relation) bool { return r.Via > 0 }) {
			continue
		}
		one := usedRelation{kind: r.Type.String(), name: string(r.Name), access: accessSet(r.Access), known: r.HasColumns, omitted: accessSet(r.Omitted), via: r.Via, columns: map[string][]string{}}
		for _, col := range r.Columns {
			for name := range col.Access.Names {
				one.columns[name] = append(one.columns[name], string(col.Name))
			}
		}
		out.relations = append(out.relations, one)
	}
	for i := range s.Objects[:min(len(s.Objects), mostRelations)] {
		o := &s.Objects[i]
		if o.Action == format.ActionExecute {
			if schemaOf(string(o.Name)) != "" {
				out.executes = append(out.executes, string(o.Name))
			}
			continue
		}
		out.objects = append(out.objects, usedObject{o.Action.String(), string(o.Type), string(o.Name), string(o.To)})
	}
	for line := range strings.SplitSeq(sequences, "\n") {
		function, name, ok := strings.Cut(line, "=")
		if function == "role" {
			out.setRole = name
		} else if function == "schema" {
			out.mentioned = append(out.mentioned, name)
		} else if function == "members" {
			out.asksMembers = true
		} else if ok {
			out.sequences = append(out.sequences, normalName(name))
			switch {
			case out.sequenceFunction == "" && len(out.sequences) == 1:
				out.sequenceFunction = function
			case out.sequenceFunction != function:
				out.sequenceFunction = ""
			}
			if function == "currval" || function == "lastval" { // SELECT is enough, too
				out.sequenceFunction = ""
			}
		}
	}
	return out
}

// normalName is a name in a string, as regclass reads it, as SQL writes it.
func normalName(s string) string {
	words, _ := (&script{text: s}).next()
	r := &reading{Grants: &Grants{}, words: words}
	first := r.name()
	if r.take(".") {
		return QuoteName(first) + "." + QuoteName(r.name())
	}
	return QuoteName(first)
}

// used is what a pass over a trail has found.
type used struct {
	statements []*statement
	logins     map[login]*seen
	forgets    bool // statements before the period
}

// joinCollectors makes one of what several goroutines have collected.
func joinCollectors(all []*collector) *used {
	out := &used{logins: map[login]*seen{}}
	type key struct {
		who
		shape string
	}
	byKey := map[key]*statement{}
	for _, c := range all {
		out.forgets = out.forgets || c.forgets
		names := make([]string, len(c.shapeOf))
		for k, id := range c.shapes {
			names[id] = k
		}
		for k, s := range c.statements {
			at := key{s.who, names[uint32(k)]}
			if have := byKey[at]; have != nil {
				have.join(s)
				continue
			}
			s.trim()
			byKey[at] = s
			out.statements = append(out.statements, s)
		}
		for l, s := range c.logins {
			if out.logins[l] == nil {
				out.logins[l] = &seen{}
			}
			out.logins[l].join(*s)
		}
	}
	slices.SortFunc(out.statements, func(a, b *statement) int {
		x, y := a.worked.first, b.worked.first
		if a.worked.count == 0 {
			x = a.refused.first
		}
		if b.worked.count == 0 {
			y = b.refused.first
		}
		return cmp.Or(cmp.Compare(x.Time, y.Time), x.Session.Compare(y.Session), cmp.Compare(x.Seq, y.Seq))
	})
	return out
}

// Sums up the records of a trail by role and by shape of statements, in one pass by all cores. Memory grows with the
// number of different statements, not with that of records.

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

// RecordID identifies a record.
type RecordID struct {
	Session format.SessionID
	Seq     uint64
	Time    int64
}

// occurrences counts how often something happened, with the first and the last record.
type occurrences struct {
	count       int64
	first, last RecordID
}

func (s *occurrences) add(id RecordID, n int64) {
	if s.count == 0 || id.before(s.first) {
		s.first = id
	}
	if s.count == 0 || s.last.before(id) {
		s.last = id
	}
	s.count += n
}

func (s *occurrences) join(o occurrences) {
	if o.count == 0 {
		return
	}
	n := s.count
	s.add(o.first, 0)
	if n == 0 {
		s.count = 1 // so that o.last is compared with the first
	}
	s.add(o.last, 0)
	s.count = n + o.count
}

func (r RecordID) before(o RecordID) bool {
	return cmp.Or(cmp.Compare(r.Time, o.Time), r.Session.Compare(o.Session), cmp.Compare(r.Seq, o.Seq)) < 0
}

// uses are the statements that used a privilege, in the period and before it.
type uses struct {
	occurrences
	earlier       occurrences
	lastStatement *statement // the last one
}

// mark adds a statement. If it needs the privilege for several reasons, it counts once.
func (u *uses) mark(s *statement) {
	if s.variantOf != nil {
		s = s.variantOf
	}
	if u.lastStatement == s {
		return
	}
	u.lastStatement = s
	if s.earlier {
		u.earlier.join(s.accepted)
	} else {
		u.join(s.accepted)
	}
}

// usedRelation is a relation of a statement.
type usedRelation struct {
	kind, name string
	access     map[string]bool
	columns    map[string][]string // by access
	known      bool                // its columns are known
	omitted    map[string]bool     // access to columns that the record leaves out
	via        int
}

// columnsFor returns the columns that are accessed in one way.
func (r *usedRelation) columnsFor(access string) (columns []string, allColumns, columnsUnknown bool) {
	if !r.known || r.omitted[access] {
		return r.columns[access], false, true
	}
	for _, c := range r.columns[access] {
		if c == format.WholeRow {
			allColumns = true
		} else if !systemColumn(c) || access != "select" {
			columns = append(columns, c)
		} else {
			columns = append(columns, c) // system columns have no privileges, so it needs that of the table
		}
	}
	return columns, allColumns, false
}

func systemColumn(name string) bool {
	return slices.Contains([]string{"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}, name)
}

// usedObject is an object in a record of a statement; to is its new name.
type usedObject struct{ action, kind, name, to string }

// actor is the user and role that ran statements, and the database.
type actor struct {
	db, user, role string
	nested         bool
	earlier        bool // before the period
}

// statement sums up all executions of statements of one shape by one actor.
type statement struct {
	actor
	shape
	variantOf *statement // the statement of which this is a variant with other names
	depth     int
	text      string
	longText  string // the whole text of DDL, if it is longer than text

	accepted     occurrences // executions that the server did not refuse
	refused      occurrences // executions that failed for lack of a privilege
	started      bool        // there is only a start record
	succeeded    int64       // executions without an error
	firstRecords []RecordID
	rows         uint64 // the most of one execution
	incomplete   bool   // a record left out relations or objects
	calls        bool   // a text may call functions: it has a parenthesis, or is not whole
}

// shape is what a statement does according to its records.
type shape struct {
	class, command   string
	relations        []usedRelation
	executes         []string
	objects          []usedObject
	sequences        []string // sequences that its text names
	mentioned        []string // schemas that its text names, without those of its relations and functions
	truncated        bool     // it has more relations or objects than mostRelations
	sequenceFunction string   // the function that uses the sequences, if it is the only one
	setRole          string   // the role that SET ROLE names
	dependsOnMembers bool     // it checks memberships, or calls what only members of a role may
}

// firstRecordsKept is the limit of firstRecords.
const firstRecordsKept = 4

func (s *statement) join(o *statement) {
	if s.started != o.started { // the other one has the end
		if s.started {
			s.accepted.count, s.started = 0, false
		} else {
			o.accepted.count = 0
		}
	}
	s.accepted.join(o.accepted)
	s.refused.join(o.refused)
	s.firstRecords = append(s.firstRecords, o.firstRecords...)
	s.trimFirstRecords()
	s.succeeded += o.succeeded
	s.rows = max(s.rows, o.rows)
	s.incomplete = s.incomplete || o.incomplete
	s.calls = s.calls || o.calls
	if o.accepted.count > 0 && (s.text == "" || o.accepted.first.before(s.accepted.first)) {
		s.text, s.longText = o.text, o.longText
	}
}

func (s *statement) trimFirstRecords() {
	slices.SortFunc(s.firstRecords, func(a, b RecordID) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), a.Session.Compare(b.Session), cmp.Compare(a.Seq, b.Seq))
	})
	s.firstRecords = s.firstRecords[:min(len(s.firstRecords), firstRecordsKept)]
}

// collector sums up the records of one goroutine.
type collector struct {
	actorNumbers   map[actor]uint32
	shapeNumbers   map[string]uint32
	shapesByNumber []*shape
	actors         []actor
	statements     map[uint64]*statement

	// By index of the block's definitions: the number of the actor, shape or text plus one; 0 is not known yet.
	blockActors, blockShapes, blockTexts []uint32
	key                                  []byte
	logins                               map[login]*occurrences
	since                                int64 // begin of the period
	// numbers of statements of the period, and before it
	statementCounts [2]int
	tooMany         bool              // the period has more statements than mostStatements
	forgetsEarlier  bool              // there are more than mostStatements before the period
	stop            func()            // ends the reading
	textBytesKept   int               // bytes of kept texts of DDL
	schemas         map[string]string // see Grants.schemas
}

// mostStatements limits the statements that one goroutine keeps: those of the period, and as many of those before it.
var mostStatements = 200_000

// login is a user and an address from which logins succeeded or were refused.
type login struct {
	user, client string
	refused      bool
}

func newCollector(since int64, schemas map[string]string, stop func()) *collector {
	return &collector{
		since: since, schemas: schemas, stop: stop,
		actorNumbers: map[actor]uint32{}, shapeNumbers: map[string]uint32{}, statements: map[uint64]*statement{},
		logins: map[login]*occurrences{},
	}
}

// Block begins another block, whose definitions have other indexes.
func (c *collector) Block(*trail.BlockRef) {
	clear(c.blockActors)
	clear(c.blockShapes)
	clear(c.blockTexts)
}

// elementAt returns element i of a list, which grows as needed.
func elementAt(list *[]uint32, i int) *uint32 {
	for len(*list) <= i {
		*list = append(*list, 0)
	}
	return &(*list)[i]
}

// Record adds a record.
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
			c.logins[l] = &occurrences{}
		}
		c.logins[l].add(idOf(r), 1)
		if !l.refused {
			c.countEvent(actor{db: string(r.Session.Fact(format.KeyDatabase)), user: l.user, role: l.user},
				"connect", r)
		}
	}
}

func idOf(r *format.Record) RecordID { return RecordID{r.Session.ID(), r.Seq, r.Time} }

// clientHost returns an address without its port.
func clientHost(client string) string {
	if i := strings.LastIndexByte(client, ':'); i >= 0 {
		return client[:i]
	}
	return client
}

// countEvent counts a record without a shape under a command of its own.
func (c *collector) countEvent(w actor, command string, r *format.Record) {
	id, ok := c.shapeNumbers["\x00"+command]
	if !ok {
		id = uint32(len(c.shapesByNumber))
		c.shapeNumbers["\x00"+command] = id
		c.shapesByNumber = append(c.shapesByNumber, &shape{class: "connect", command: command})
	}
	c.countExecution(c.actorNumber(w), id, r)
}

func (c *collector) actorNumber(w actor) uint32 {
	id, ok := c.actorNumbers[w]
	if !ok {
		id = uint32(len(c.actors))
		c.actorNumbers[w] = id
		c.actors = append(c.actors, w)
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
	here := elementAt(&c.blockActors, index)
	if *here == 0 {
		w := actor{earlier: earlier, db: string(r.Session.Fact(format.KeyDatabase)),
			user: string(r.Session.Fact(format.KeyUser)), role: string(r.Session.Fact(format.KeyRole)), nested: nested}
		if w.role == "" {
			w.role = w.user
		}
		*here = c.actorNumber(w) + 1
	}
	id := elementAt(&c.blockShapes, r.ShapeIndex)
	if *id == 0 {
		*id = c.shapeNumber(r.Shape, "") + 1
	}
	number := *id - 1
	if names := c.unrecordedNames(r); names != "" {
		number = c.shapeNumber(r.Shape, names)
	}
	c.countExecution(*here-1, number, r)
}

// countExecution counts an execution.
func (c *collector) countExecution(w, shape uint32, r *format.Record) {
	key := uint64(w)<<32 | uint64(shape)
	s := c.statements[key]
	if s == nil {
		s = &statement{actor: c.actors[w], shape: *c.shapesByNumber[shape]}
		if !c.hasRoom(s.earlier) {
			return
		}
		s.incomplete = s.truncated
		if s.nested {
			s.depth = 1
		}
		c.statements[key] = s
	}
	s.calls = s.calls || len(r.Text) == 0 || r.TextBytes > 0 || bytes.IndexByte(r.Text, '(') >= 0
	id := idOf(r)
	switch {
	case r.Kind == format.KindStart: // counts only if no record of the end follows
		if s.accepted.count == 0 {
			s.accepted.add(id, 1)
			c.keepText(s, r.Text)
			s.started = true
		}
		return
	case s.started:
		s.accepted.count, s.started = 0, false
	}
	if r.Outcome == format.OutcomeError && string(r.SQLState) == "42501" {
		s.refused.add(id, 1)
		return
	}
	if s.accepted.count == 0 {
		c.keepText(s, r.Text)
	}
	s.accepted.add(id, 1)
	if r.Outcome == format.OutcomeOk {
		if s.succeeded++; len(s.firstRecords) < firstRecordsKept {
			s.firstRecords = append(s.firstRecords, id)
		}
	}
	s.rows = max(s.rows, r.Rows)
	s.incomplete = s.incomplete || r.OmitsNames() != "" && !onlyTried(r)
}

// hasRoom reports whether one more statement can be kept. Without all statements of the period, there is no answer;
// without all earlier ones, only times of last use may be missing.
func (c *collector) hasRoom(earlier bool) bool {
	n := &c.statementCounts[0]
	if earlier {
		n = &c.statementCounts[1]
	}
	switch {
	case *n < mostStatements:
		*n++
		return true
	case earlier:
		c.forgetsEarlier = true
	default:
		c.tooMany = true
		c.stop()
	}
	return false
}

// onlyTried reports whether a statement failed before it was executed: names that its record leaves out were not
// used.
func onlyTried(r *format.Record) bool {
	return r.Outcome == format.OutcomeError && r.Shape != nil &&
		(r.Shape.Class == format.ClassError || len(r.Shape.Relations) > 0) &&
		!slices.ContainsFunc(r.Shape.Relations, func(rel format.Relation) bool {
			return rel.Access&format.AccessWritten == 0
		})
}

// briefLength is the number of bytes of a text that are shown as an example.
const briefLength = 300

func brief(text []byte) string {
	if len(text) > briefLength {
		return string(text[:briefLength]) + " ..."
	}
	return string(text)
}

// unrecordedNames returns names in a text and its parameters that the record does not have: arguments of nextval()
// and the like, schemas, roles. Most have none.
func (c *collector) unrecordedNames(r *format.Record) string {
	return c.addParamSchemas(r, c.namesInText(r))
}

func (c *collector) namesInText(r *format.Record) string {
	if r.Text == nil {
		return ""
	}
	find := func() string {
		if r.Shape.Class == format.ClassMiscSet {
			return roleSet(r.Text)
		}
		return addMembersAsked(r.Text, c.addMentions(r, r.Text, sequenceNames(r.Text)))
	}
	if r.TextIndex < 0 {
		return find()
	}
	at := elementAt(&c.blockTexts, r.TextIndex)
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

// shapeNumber returns the number of a shape together with the names that a text has in addition.
func (c *collector) shapeNumber(s *format.Shape, sequences string) uint32 {
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
	if id, ok := c.shapeNumbers[string(k)]; ok {
		return id
	}
	id := uint32(len(c.shapesByNumber))
	c.shapeNumbers[string(k)] = id
	c.shapesByNumber = append(c.shapesByNumber, newShape(s, sequences))
	return id
}

// mostRelations limits the relations, and the objects, of a statement. The server records fewer.
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
	out := &shape{class: s.Class.String(), command: string(s.Command), truncated: len(s.Relations) > mostRelations ||
		len(s.Objects) > mostRelations}
	for i := range s.Relations[:min(len(s.Relations), mostRelations)] {
		r := &s.Relations[i]
		// The statement failed before the server looked up its names, so it used nothing.
		if r.Access&format.AccessWritten != 0 && !slices.ContainsFunc(s.Relations, func(r format.Relation) bool {
			return r.Via > 0
		}) {
			continue
		}
		used := usedRelation{kind: r.Type.String(), name: string(r.Name), access: accessSet(r.Access),
			known: r.HasColumns, omitted: accessSet(r.Omitted), via: r.Via, columns: map[string][]string{}}
		for _, col := range r.Columns {
			for name := range col.Access.Names {
				used.columns[name] = append(used.columns[name], string(col.Name))
			}
		}
		out.relations = append(out.relations, used)
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
			out.dependsOnMembers = true
		} else if ok {
			out.sequences = append(out.sequences, normalName(name))
			switch {
			case out.sequenceFunction == "" && len(out.sequences) == 1:
				out.sequenceFunction = function
			case out.sequenceFunction != function:
				out.sequenceFunction = ""
			}
			if function == "currval" || function == "lastval" { // for these, SELECT is enough, too
				out.sequenceFunction = ""
			}
		}
	}
	return out
}

// normalName converts a name in a string, as regclass reads it, to the form of SQL.
func normalName(s string) string {
	words, _ := (&script{text: s}).next()
	r := &reading{Grants: &Grants{}, words: words}
	first := r.takeName()
	if r.take(".") {
		return QuoteName(first) + "." + QuoteName(r.takeName())
	}
	return QuoteName(first)
}

// trailUses is the result of a pass over a trail.
type trailUses struct {
	statements     []*statement
	logins         map[login]*occurrences
	forgetsEarlier bool // statements before the period
}

// joinCollectors joins the results of several goroutines.
func joinCollectors(all []*collector) *trailUses {
	out := &trailUses{logins: map[login]*occurrences{}}
	type key struct {
		actor
		shape string
	}
	byKey := map[key]*statement{}
	for _, c := range all {
		out.forgetsEarlier = out.forgetsEarlier || c.forgetsEarlier
		names := make([]string, len(c.shapesByNumber))
		for k, id := range c.shapeNumbers {
			names[id] = k
		}
		for k, s := range c.statements {
			at := key{s.actor, names[uint32(k)]}
			if have := byKey[at]; have != nil {
				have.join(s)
				continue
			}
			s.trimFirstRecords()
			byKey[at] = s
			out.statements = append(out.statements, s)
		}
		for l, s := range c.logins {
			if out.logins[l] == nil {
				out.logins[l] = &occurrences{}
			}
			out.logins[l].join(*s)
		}
	}
	slices.SortFunc(out.statements, func(a, b *statement) int {
		x, y := a.accepted.first, b.accepted.first
		if a.accepted.count == 0 {
			x = a.refused.first
		}
		if b.accepted.count == 0 {
			y = b.refused.first
		}
		return cmp.Or(cmp.Compare(x.Time, y.Time), x.Session.Compare(y.Session), cmp.Compare(x.Seq, y.Seq))
	})
	return out
}

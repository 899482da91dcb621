// Records and definitions: the items of a block.

package trail

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Record is one record of a block, or a data part (Kind is KindData). All
// slices and pointers are into the block and end with it.
type Record struct {
	Kind    Kind
	Outcome Outcome
	Depth   uint64
	// Fields says which of the fields below are present.
	Fields Field
	// Number is the record's number in its stream.
	Number uint64
	// Session, Shape and Text point to definitions of the block. The indexes
	// are those of the block's dictionaries, -1 for none: what is computed
	// from a definition can be kept by its index.
	Session      *Session
	Shape        *Shape
	Text         []byte
	SessionIndex int
	ShapeIndex   int
	TextIndex    int

	Seq          uint64 // 0: not numbered
	Statement    uint64
	Substatement uint64
	Time         int64  // microseconds since 2000-01-01 UTC
	Duration     uint64 // microseconds
	Rows         uint64
	XID          uint64
	Nulls        []byte
	Values       []byte
	SQLState     []byte
	Message      []byte
	TextBytes    uint64 // full length of a cut text
	TextHash     []byte // and its SHA-256
	Parts        [3]uint64
	ExtraCount   int
	Extra        []byte
	Audited      Audited // 0: by session alone
	Ending       Ending  // of a transaction

	// Undone says that a statement ended well, and that its transaction is known to
	// have been rolled back; MergeOptions.Rollbacks sets it.
	Undone bool

	// isShown says that strings are shown as UTF-8, from this charset; values and
	// further names are when they are asked for.
	isShown bool
	charset *charset

	// Part and Data are what a data part continues, and its bytes.
	Part PartKind
	Data []byte
}

// Ending is how a transaction ended; the record's fields FieldEvent, FieldStatements
// and FieldCommit say which of it are known. ExtraPairs shows it.
type Ending struct {
	Event      Event
	Statements uint64
	LSN        uint64 // where the WAL record of the commit begins
	End        uint64 // and ends
	Timeline   uint64
}

// endingFields are those of Ending.
const endingFields = FieldEvent | FieldStatements | FieldCommit

// PartKind is what a data part continues.
type PartKind uint8

// What a data part continues.
const (
	PartText PartKind = iota
	PartValues
	PartMessage
)

// Has says whether the record has a field.
func (r *Record) Has(f Field) bool { return r.Fields&f != 0 }

// End is the time at which what the record tells of ended.
func (r *Record) End() int64 {
	if r.Kind == KindStatement {
		return r.Time + int64(r.Duration)
	}
	return r.Time
}

// HasExtra says whether the record has further names and values.
func (r *Record) HasExtra() bool { return r.ExtraCount > 0 || r.Has(endingFields) }

// ExtraPairs yields the record's further names and values: first those of a
// transaction's end, which are not stored as text, then those of EXTRA.
func (r *Record) ExtraPairs(yield func(name, value []byte) bool) {
	if !r.Has(endingFields) || r.endingPairs(yield) {
		r.StoredPairs(yield)
	}
}

// StoredPairs yields those of EXTRA.
func (r *Record) StoredPairs(yield func(name, value []byte) bool) {
	c := cursor{b: r.Extra}
	for range r.ExtraCount {
		name, value := c.str(), c.str()
		if r.isShown {
			name, value = r.charset.shown(name), r.charset.shown(value)
		}
		if c.bad || !yield(name, value) {
			return
		}
	}
}

func (r *Record) endingPairs(yield func(name, value []byte) bool) bool {
	var buf [24]byte
	for i := range endingNames {
		if value := r.AppendEnding(buf[:0], i); len(value) > 0 && !yield([]byte(endingNames[i]), value) {
			return false
		}
	}
	return true
}

// endingNames are the names of what Ending has, in their order.
var endingNames = [...]string{"event", "statements", "commit_lsn", "end_lsn", "timeline"}

// EndingName is the i-th name of those that ExtraPairs has for Ending, empty after the last.
func EndingName(i int) string {
	if i < len(endingNames) {
		return endingNames[i]
	}
	return ""
}

// AppendEnding appends its value, nothing if the record does not have it. The characters of
// these values are letters, digits, underscores and slashes.
func (r *Record) AppendEnding(dst []byte, i int) []byte {
	e := &r.Ending
	switch {
	case i == 0 && r.Has(FieldEvent):
		return append(dst, e.Event.String()...)
	case i == 1 && r.Has(FieldStatements):
		return AppendUint(dst, e.Statements)
	case i == 2 && r.Has(FieldCommit):
		return appendLSN(dst, e.LSN)
	case i == 3 && r.Has(FieldCommit):
		return appendLSN(dst, e.End)
	case i == 4 && r.Has(FieldCommit):
		return AppendUint(dst, e.Timeline)
	}
	return dst
}

// HasEnding says whether the record has something of Ending.
func (r *Record) HasEnding() bool { return r.Has(endingFields) }

// appendLSN appends a position in the WAL as pg_lsn shows it.
func appendLSN(dst []byte, lsn uint64) []byte {
	dst = append(appendDigits(dst, lsn>>32, "0123456789ABCDEF"), '/')
	return appendDigits(dst, lsn&0xffffffff, "0123456789ABCDEF")
}

// ExtraValue is the value of one of the record's further names.
func (r *Record) ExtraValue(name string) (value []byte, ok bool) {
	for n, v := range r.ExtraPairs {
		if string(n) == name {
			return v, true
		}
	}
	return nil, false
}

// Reasons are why the record was written.
func (r *Record) Reasons() Audited {
	if r.Audited == 0 {
		return AuditedSession
	}
	return r.Audited
}

// RolledBack says whether the record is of a transaction, or a subtransaction, that did not take effect.
func (r *Record) RolledBack() bool {
	return (r.Kind == KindTransaction || r.Kind == KindSubtransaction) && r.Outcome == OutcomeError
}

// Failed says whether something failed, was refused, or was interrupted. The end of a
// transaction that was rolled back is none: the client asked for it, or the statement
// that failed has a record of its own. Only with an SQLSTATE did the end itself fail.
func (r *Record) Failed() bool {
	if r.RolledBack() {
		return len(r.SQLState) > 0
	}
	return r.Outcome == OutcomeError || r.Outcome == OutcomeInterrupted || r.Kind == KindAuthFailed
}

// Session is a session definition: a session and its context from a record on.
type Session struct {
	Start int64 // microseconds since 2000-01-01 UTC
	PID   uint32
	facts [len(namesKey)][]byte
	plain bool // all facts are ASCII

	seq       uint64 // of the last record
	statement uint64 // last finished top-level statement
	xid       uint64 // last transaction ID
}

// Fact is one fact of the session, empty when it is absent.
func (s *Session) Fact(k Key) []byte { return s.facts[k] }

// ID is what identifies the session.
func (s *Session) ID() SessionID { return SessionID{s.Start, s.PID} }

// Leader is the session whose statement a parallel worker executes a part of, to
// the second of its start.
func (s *Session) Leader() (id SessionID, ok bool) {
	start, pid, found := bytes.Cut(s.Fact(KeyLeader), []byte("."))
	seconds, err := strconv.ParseInt(string(start), 16, 40)
	n, err2 := strconv.ParseUint(string(pid), 16, 32)
	if !found || err != nil || err2 != nil {
		return SessionID{}, false
	}
	return SessionID{Start: (seconds - epoch) * 1e6, PID: uint32(n)}, true
}

// ClientID is the session of the client whose statements the records belong to, to
// the second of its start: that of a parallel worker's leader.
func (s *Session) ClientID() SessionID {
	if leader, ok := s.Leader(); ok {
		return leader
	}
	return SessionID{Start: floorDiv(s.Start, 1e6) * 1e6, PID: s.PID}
}

// SessionID identifies a session across restarts of the server.
type SessionID struct {
	Start int64
	PID   uint32
}

// Compare orders sessions by their starts.
func (id SessionID) Compare(o SessionID) int {
	return cmp.Or(cmp.Compare(id.Start, o.Start), cmp.Compare(id.PID, o.PID))
}

// epoch is 2000-01-01 00:00:00 UTC in seconds since 1970.
const epoch = 946684800

// Append appends the id as PostgreSQL's %c shows it.
func (id SessionID) Append(dst []byte) []byte {
	dst = appendHex(dst, uint64(floorDiv(id.Start, 1e6)+epoch))
	dst = append(dst, '.')
	return appendHex(dst, uint64(id.PID))
}

func (id SessionID) String() string { return string(id.Append(nil)) }

// IsSessionID says whether a text is a session's id as SessionID.String writes it.
func IsSessionID(s string) bool {
	start, pid, ok := strings.Cut(s, ".")
	return ok && isHex(start, 64) && isHex(pid, 32)
}

func isHex(s string, bits int) bool {
	n, err := strconv.ParseUint(s, 16, bits)
	return err == nil && strconv.FormatUint(n, 16) == s
}

// Shape is a shape definition: what executions of one statement share.
type Shape struct {
	Class     Class
	QueryID   uint64
	Command   []byte
	Relations []Relation
	Params    []ParamType
	Objects   []Object

	plain bool // all names are ASCII
}

// Relation is a relation that a statement uses.
type Relation struct {
	Type   RelationType
	Access Access
	Name   []byte

	// Columns are those that the statement reads and writes; HasColumns says that they
	// are known. Omitted is how it uses further columns, which the record leaves out.
	Columns    []Column
	HasColumns bool
	Omitted    Access
	// Via is the index, plus 1, of the view through which the statement reaches the
	// relation; 0 is none.
	Via int
}

// Column is a column of a relation: its name as SQL writes it, in quotes where that needs
// them, or * for the row as a whole.
type Column struct {
	Access Access
	Name   []byte
}

// WholeRow is the name of a Column that stands for all columns.
const WholeRow = "*"

// ColumnAccess is which of its columns a relation names: reads, inserts, updates.
func (r *Relation) ColumnAccess() Access {
	if !r.HasColumns {
		return 0
	}
	access := r.Access&(AccessSelect|AccessInsert|AccessUpdate) | r.Omitted
	for _, c := range r.Columns {
		access |= c.Access
	}
	return access
}

// Object is what DDL made, changed, renamed or removed, or a function that a
// statement called.
type Object struct {
	Action Action
	Type   []byte
	Name   []byte
	To     []byte // the new name of what was renamed
}

// ParamType is the type of a parameter.
type ParamType struct {
	OID  uint64
	Repr Repr
}

// cursor reads values from bytes; bad is set, and stays set, when they end too
// early. Its position is a number: a slice that begins later each time would be a
// pointer to write, which costs more while garbage is collected.
type cursor struct {
	b   []byte
	at  int
	bad bool
}

// left is how many bytes are left, rest are these.
func (c *cursor) left() int    { return len(c.b) - c.at }
func (c *cursor) rest() []byte { return c.b[c.at:] }

// end leaves no bytes.
func (c *cursor) end() { c.at = len(c.b) }

func (c *cursor) varint() uint64 {
	if at := c.at; at < len(c.b) && c.b[at] < 0x80 {
		c.at = at + 1
		return uint64(c.b[at])
	}
	return c.longVarint()
}

func (c *cursor) longVarint() uint64 {
	if at := c.at; at+1 < len(c.b) && c.b[at+1] < 0x80 {
		c.at = at + 2
		return uint64(c.b[at]&0x7f) | uint64(c.b[at+1])<<7
	}
	v, n := binary.Uvarint(c.rest())
	if n <= 0 {
		c.bad = true
		c.end()
		return 0
	}
	c.at += n
	return v
}

func (c *cursor) zigzag() int64 {
	v := c.varint()
	return int64(v>>1) ^ -int64(v&1)
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(c.left()) {
		c.bad = true
		c.end()
		return nil
	}
	from, to := c.at, c.at+int(n)
	c.at = to
	return c.b[from:to:to]
}

func (c *cursor) byte() byte {
	if c.left() == 0 {
		c.bad = true
		return 0
	}
	v := c.b[c.at]
	c.at++
	return v
}

func (c *cursor) str() []byte { return c.bytes(c.varint()) }

// form is what records of one statement of a session have in common.
type form struct {
	session, shape, text int // indexes; -1 for none
	fields               Field
	rows                 uint64 // plus 1; 0: each record has its own number
	values               uint64 // length of the values
}

// formFields are those that records of a form may have.
const formFields = FieldShape | FieldText | FieldRows | FieldTime | FieldDuration | FieldValues | FieldXID

// decoder is the state of reading a block's items, and its dictionaries.
type decoder struct {
	pos      int
	run      []byte // records of the item before pos that have not been read
	runLeft  uint64 // and how many these are
	runStart int    // where that item begins
	records  uint32
	lastTime int64
	lastLSN  uint64 // where the WAL record of the last commit ended

	sessions  []Session
	shapes    []Shape
	texts     [][]byte
	textPlain []bool // that text is ASCII
	forms     []form
	variants  []byte // texts that are not in the payload as a whole; there may be others before it
	varied    int    // how many bytes of such texts there are
	view      view
	relations []Relation
	params    []ParamType
	objects   []Object
	columns   []Column

	dictionary int // memory that the definitions and what is kept of parts take
}

// maxParams is the most parameters that a statement has, by PostgreSQL's protocol.
const maxParams = 65535

// What the server writes takes far less memory when it is read than these, whatever
// its blocks are like.
const (
	dictionaryMin = 8 << 20
	dictionaryRaw = 2 // times the payload
)

// maxParts is the longest text, message or list of values: PostgreSQL's MaxAllocSize.
const maxParts = 1<<30 - 1

// maxVariants is how many bytes the texts have together that a block defines as variants.
const maxVariants = 4 << 20

const tooMuch = "definitions take more memory than those in a block written by a server"

// grow accounts for memory that the block's definitions take; it says whether there
// may be so much.
func (b *Block) grow(n int) bool {
	b.dictionary += n
	return b.dictionary <= dictionaryMin+dictionaryRaw*len(b.raw)
}

// Position is how many bytes of the payload Next has read; after an error, those
// before the item that is wrong.
func (b *Block) Position() int { return b.pos }

// SessionAt is the block's session definition with that index.
func (b *Block) SessionAt(i int) *Session { return &b.sessions[i] }

// ShapeAt is the block's shape definition with that index.
func (b *Block) ShapeAt(i int) *Shape { return &b.shapes[i] }

// SessionID is the session of the block's session definition with that index.
func (b *Block) SessionID(i int) SessionID { return b.sessions[i].ID() }

// Rewind makes Next start with the block's first item again.
func (b *Block) Rewind() {
	d := &b.decoder
	d.pos, d.records, d.lastTime, d.lastLSN, d.dictionary = 0, 0, b.Header.FirstTime, 0, 0
	d.sessions, d.shapes, d.texts, d.textPlain, d.view = d.sessions[:0], d.shapes[:0], d.texts[:0], d.textPlain[:0], view{}
	d.relations, d.params, d.objects, d.columns = d.relations[:0], d.params[:0], d.objects[:0], d.columns[:0]
	d.run, d.runLeft, d.forms, d.variants, d.varied = nil, 0, d.forms[:0], d.variants[:0], 0
}

// Next reads the next record or data part into r. It returns io.EOF after the
// last, and a *CorruptionError where an item is not understood; the items
// after that one are lost, because the dictionaries may be wrong.
func (b *Block) Next(r *Record) error {
	for b.pos < len(b.raw) || b.runLeft > 0 {
		if b.runLeft > 0 {
			if reason := b.fromRun(r); reason != "" {
				b.pos = b.runStart
				return b.corrupt(b.pos, KindRun.String()+": "+reason)
			}
			return nil
		}
		start := b.pos
		n, w := uvarint(b.raw[start:])
		if w <= 0 || n == 0 || n > uint64(len(b.raw)-start-w) {
			return b.corrupt(start, "item has an invalid length")
		}
		b.pos = start + w + int(n)
		kind := Kind(b.raw[start+w])
		c := cursor{b: b.raw[start+w+1 : b.pos : b.pos]}
		var reason string
		switch {
		case kind.IsRecord():
			if reason = b.record(&c, kind, r); reason == "" {
				return nil
			}
		case kind == KindData:
			if reason = b.data(&c, r); reason == "" {
				return nil
			}
		case kind == KindDefSession:
			reason = b.defineSession(&c)
		case kind == KindDefShape:
			reason = b.defineShape(&c)
		case kind == KindDefText:
			reason = b.defineText(c.rest())
		case kind == KindDefVariant:
			reason = b.defineVariant(&c)
		case kind == KindDefForm:
			reason = b.defineForm(&c)
		case kind == KindRun:
			b.runStart = start
			reason = b.beginRun(&c)
		}
		if reason != "" {
			b.pos = start
			return b.corrupt(start, kind.String()+": "+reason)
		}
	}
	if b.records != b.Header.Records {
		return inFile(corruptf(16, "block has %d records, but its header says %d", b.records, b.Header.Records), b.File, b.Offset)
	}
	return io.EOF
}

func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

// corrupt is an error about an item. Offsets in a compressed payload mean
// nothing to a file, so the error is at the block and says which byte inside.
func (b *Block) corrupt(pos int, reason string) error {
	return inFile(corruptf(0, "block %d: byte %d of the decompressed payload: %s", b.Header.Number, pos, reason), b.File, b.Offset)
}

const cutShort = "ends too early"

func (b *Block) defineSession(c *cursor) string {
	if !b.grow(int(unsafe.Sizeof(Session{}))) {
		return tooMuch
	}
	b.sessions = append(b.sessions, Session{})
	s := &b.sessions[len(b.sessions)-1]
	s.seq, s.statement = c.varint(), c.varint()
	if fixed := c.bytes(12); fixed != nil {
		s.Start = int64(binary.LittleEndian.Uint64(fixed))
		s.PID = binary.LittleEndian.Uint32(fixed[8:])
	}
	for c.left() > 0 {
		key, value := c.byte(), c.str()
		if int(key) < len(s.facts) {
			s.facts[key] = value
		}
	}
	if c.bad {
		return cutShort
	}
	s.plain = s.isPlain()
	return ""
}

// ParseSession reads the body of a session's definition as it stands in a ring: from the start
// time on.
func ParseSession(body []byte) (*Session, bool) {
	b := Block{raw: body}
	if b.defineSession(&cursor{b: append([]byte{0, 0}, body...)}) != "" {
		return nil, false
	}
	s := &b.sessions[0]
	return s.shown(s.charset()), true
}

// ParseShape reads the body of a shape's definition as it stands in a ring.
func ParseShape(body []byte) (*Shape, bool) {
	b := Block{raw: body}
	if b.defineShape(&cursor{b: body}) != "" {
		return nil, false
	}
	return &b.shapes[0], true
}

func (b *Block) defineShape(c *cursor) string {
	s := Shape{Class: Class(c.varint()), QueryID: c.varint(), Command: c.str()}
	// A relation takes at least three bytes, a parameter two and an object
	// four, so no count makes the dictionaries longer than the item itself.
	n := c.varint()
	if n > uint64(c.left())/3 {
		return "more relations than fit"
	}
	from := len(b.relations)
	for range n {
		r := Relation{Type: RelationType(c.byte()), Access: Access(c.varint()), Name: c.str()}
		// what a line says of it is longer the more bits are set
		if !b.grow(int(unsafe.Sizeof(r)) + 16*bits.OnesCount64(uint64(r.Access))) {
			return tooMuch
		}
		b.relations = append(b.relations, r)
	}
	s.Relations = b.relations[from:len(b.relations):len(b.relations)]
	if n = c.varint(); n > uint64(c.left())/2 {
		return "more parameters than fit"
	}
	if n > maxParams {
		return "more parameters than a statement can have"
	}
	if !b.grow(16*int(n) + int(unsafe.Sizeof(Shape{}))) {
		return tooMuch
	}
	from = len(b.params)
	for range n {
		b.params = append(b.params, ParamType{c.varint(), Repr(c.byte())})
	}
	s.Params = b.params[from:len(b.params):len(b.params)]
	if c.left() > 0 {
		if n = c.varint(); n > uint64(c.left())/4 {
			return "more objects than fit"
		}
		if !b.grow(int(unsafe.Sizeof(Object{})) * int(n)) {
			return tooMuch
		}
		from = len(b.objects)
		for range n {
			b.objects = append(b.objects, Object{Action(c.byte()), c.str(), c.str(), c.str()})
		}
		s.Objects = b.objects[from:len(b.objects):len(b.objects)]
	}
	if c.bad {
		return cutShort
	}
	if reason := b.lists(c, &s); reason != "" {
		return reason
	}
	s.plain = s.isPlain()
	b.shapes = append(b.shapes, s)
	return ""
}

// lists reads what follows a shape's objects: lists with their numbers and lengths. What
// is none, or not known, is skipped.
func (b *Block) lists(c *cursor, s *Shape) string {
	for c.left() > 0 {
		list, body := List(c.varint()), c.str()
		if c.bad {
			break
		}
		if list == ListColumns {
			if reason := b.columnList(&cursor{b: body}, s.Relations); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// columnList reads the columns of each relation.
func (b *Block) columnList(c *cursor, relations []Relation) string {
	for i := range relations {
		r := &relations[i]
		via, n := c.varint(), c.varint()
		switch {
		case via > uint64(len(relations)):
			return "a view is none of the relations"
		case n > uint64(c.left())/2:
			return "more columns than fit"
		}
		from := len(b.columns)
		for range n {
			column := Column{Access(c.varint()), c.str()}
			// each of its accesses names it
			if !b.grow(int(unsafe.Sizeof(column)) + (16+len(column.Name))*bits.OnesCount64(uint64(column.Access))) {
				return tooMuch
			}
			if len(column.Name) == 0 {
				r.Omitted |= column.Access
			} else {
				b.columns = append(b.columns, column)
			}
		}
		if c.bad {
			return cutShort
		}
		r.Columns, r.HasColumns, r.Via = b.columns[from:len(b.columns):len(b.columns)], true, int(via)
	}
	return ""
}

func (b *Block) defineText(text []byte) string {
	if !b.grow(25) {
		return tooMuch
	}
	b.texts, b.textPlain = append(b.texts, text), append(b.textPlain, isASCII(text))
	return ""
}

// defineVariant puts the text together that begins and ends as an earlier one.
func (b *Block) defineVariant(c *cursor) string {
	i, before, after := c.varint(), c.varint(), c.varint()
	if c.bad {
		return cutShort
	}
	if i >= uint64(len(b.texts)) {
		return "the text that it varies is not defined"
	}
	base := b.texts[i]
	if before > uint64(len(base)) || after > uint64(len(base))-before {
		return "it has more of another text than there is"
	}
	n := int(before) + c.left() + int(after)
	if n > maxVariants-b.varied {
		return "texts that vary others are longer than in a block written by a server"
	}
	b.varied += n
	if cap(b.variants)-len(b.variants) < n {
		b.variants = make([]byte, 0, max(n, 16<<10, min(2*cap(b.variants), 256<<10)))
	}
	from := len(b.variants)
	b.variants = append(b.variants, base[:before]...)
	b.variants = append(b.variants, c.rest()...)
	b.variants = append(b.variants, base[len(base)-int(after):]...)
	return b.defineText(b.variants[from:len(b.variants):len(b.variants)])
}

func (b *Block) defineForm(c *cursor) string {
	session, mask := c.varint(), Field(c.varint())
	f := form{shape: -1, text: -1, fields: mask}
	if mask&^formFields != 0 {
		return "it has fields that no form has"
	}
	if session >= uint64(len(b.sessions)) {
		return "its session is not defined"
	}
	f.session = int(session)
	if mask&FieldShape != 0 {
		i := c.varint()
		if i >= uint64(len(b.shapes)) {
			return "its shape is not defined"
		}
		f.shape = int(i)
	}
	if mask&FieldText != 0 {
		i := c.varint()
		if i >= uint64(len(b.texts)) {
			return "its text is not defined"
		}
		f.text = int(i)
	}
	if mask&FieldRows != 0 {
		f.rows = c.varint()
	}
	if mask&FieldValues != 0 {
		f.values = c.varint()
	}
	if c.bad {
		return cutShort
	}
	if !b.grow(int(unsafe.Sizeof(f))) {
		return tooMuch
	}
	b.forms = append(b.forms, f)
	return ""
}

func (b *Block) beginRun(c *cursor) string {
	b.runLeft, b.run = c.varint(), c.rest()
	if b.runLeft == 0 || b.runLeft > uint64(len(b.run)) {
		b.runLeft = 0
		return "it has no records, or more than fit"
	}
	return ""
}

// fromRun reads the next record of a run: what its form does not say, in the order of
// the fields.
func (b *Block) fromRun(r *Record) string {
	c := cursor{b: b.run}
	i := c.varint()
	if i >= uint64(len(b.forms)) {
		return "its form is not defined"
	}
	f := &b.forms[i]
	s := &b.sessions[f.session]
	*r = Record{} // as in record
	r.Kind, r.Fields, r.Session = KindStatement, f.fields, s
	r.SessionIndex, r.ShapeIndex, r.TextIndex = f.session, f.shape, f.text
	r.Number = b.Header.FirstRecord + uint64(b.records)
	r.Seq, r.Statement, r.Time = s.seq+1, s.statement+1, b.lastTime
	if f.shape >= 0 {
		r.Shape = &b.shapes[f.shape]
	}
	if f.text >= 0 {
		r.Text = b.texts[f.text]
	}
	if f.fields&FieldRows != 0 {
		if r.Rows = f.rows - 1; f.rows == 0 {
			r.Rows = c.varint()
		}
	}
	if f.fields&FieldTime != 0 {
		r.Time += c.zigzag()
	}
	if f.fields&FieldDuration != 0 {
		r.Duration = c.varint()
	}
	if f.fields&FieldValues != 0 {
		r.Values = c.bytes(f.values)
	}
	if f.fields&FieldXID != 0 {
		r.XID = s.xid + uint64(c.zigzag())
	}
	if c.bad {
		return cutShort
	}
	if b.runLeft == 1 && c.left() > 0 {
		return "bytes are left after its records"
	}
	b.run = c.rest()
	b.runLeft--
	b.finish(r)
	return ""
}

// finish lets the next records follow one that has been read.
func (b *Block) finish(r *Record) {
	s := r.Session
	b.records++
	b.lastTime = r.Time
	if r.Has(FieldXID) {
		s.xid = r.XID
	}
	if r.Seq != 0 {
		s.seq = r.Seq
	}
	if r.Kind == KindStatement || r.Kind == KindStart {
		s.statement = r.Statement
		if r.Kind == KindStart || r.Depth > 0 {
			s.statement--
		}
	}
}

func (b *Block) data(c *cursor, r *Record) string {
	i := c.varint()
	seq, part := c.varint(), PartKind(c.byte())
	switch {
	case c.bad:
		return cutShort
	case i >= uint64(len(b.sessions)):
		return "its session is not defined"
	case part > PartMessage:
		return "it continues something unknown"
	}
	if !b.grow(200) {
		return tooMuch
	}
	*r = Record{Kind: KindData, SessionIndex: int(i), Session: &b.sessions[i], ShapeIndex: -1, TextIndex: -1, Seq: seq, Part: part, Data: c.rest()}
	return ""
}

// knownFields are all bits that records.def lists.
const knownFields = 1<<len(namesField) - 1

func (b *Block) record(c *cursor, kind Kind, r *Record) string {
	i, mask := c.varint(), c.varint()
	if c.bad {
		return cutShort
	}
	if i >= uint64(len(b.sessions)) {
		return "its session is not defined"
	}
	s := &b.sessions[i]
	*r = Record{} // not with its fields: that would make a second one, and copy it
	r.Kind, r.Fields, r.Session = kind, Field(mask), s
	r.SessionIndex, r.ShapeIndex, r.TextIndex = int(i), -1, -1
	r.Number = b.Header.FirstRecord + uint64(b.records)
	if reason := b.fields(c, r); reason != "" {
		return reason
	}
	if c.bad {
		return cutShort
	}
	if c.left() > 0 && mask&^knownFields == 0 {
		return "bytes are left after its fields"
	}
	if r.Has(FieldCommit) {
		b.lastLSN = r.Ending.End
	}
	b.finish(r)
	return ""
}

// fields reads what the mask says is there, in the order of the bits.
func (b *Block) fields(c *cursor, r *Record) string {
	s := r.Session
	r.Time, r.Seq = b.lastTime, s.seq+1
	if r.Kind == KindStatement || r.Kind == KindStart {
		r.Statement = s.statement + 1
	}
	// The first fields, one after the other: most records have these and no others.
	if r.Has(FieldShape) {
		i := c.varint()
		if i >= uint64(len(b.shapes)) {
			return "its shape is not defined"
		}
		r.ShapeIndex, r.Shape = int(i), &b.shapes[i]
	}
	if r.Has(FieldText) {
		i := c.varint()
		if i >= uint64(len(b.texts)) {
			return "its text is not defined"
		}
		r.TextIndex, r.Text = int(i), b.texts[i]
	}
	if r.Has(FieldRows) {
		r.Rows = c.varint()
	}
	if r.Has(FieldTime) {
		r.Time += c.zigzag()
	}
	if r.Has(FieldDuration) {
		r.Duration = c.varint()
	}
	if r.Has(FieldNulls) {
		if r.Shape == nil {
			return "NULL parameters without a shape"
		}
		r.Nulls = c.bytes(uint64(len(r.Shape.Params)+7) / 8)
	}
	if r.Has(FieldValues) {
		r.Values = c.str()
	}
	if c.bad {
		return cutShort
	}
	const first = FieldShape | FieldText | FieldRows | FieldTime | FieldDuration | FieldNulls | FieldValues
	for mask := uint64(r.Fields) & knownFields &^ uint64(first); mask != 0; mask &= mask - 1 {
		switch Field(1) << bits.TrailingZeros64(mask) {
		case FieldSeq:
			r.Seq += uint64(c.zigzag())
		case FieldStatement:
			d := uint64(c.zigzag())
			if r.Kind == KindStatement || r.Kind == KindStart {
				r.Statement += d
			}
		case FieldNesting:
			r.Depth, r.Substatement = c.varint(), c.varint()
		case FieldOutcome:
			r.Outcome = Outcome(c.byte())
		case FieldError:
			r.SQLState, r.Message = c.bytes(5), c.str()
		case FieldXID:
			r.XID = c.varint()
		case FieldCut:
			r.TextBytes, r.TextHash = c.varint(), c.bytes(32)
		case FieldParts:
			r.Parts = [3]uint64{c.varint(), c.varint(), c.varint()}
			if slices.Max(r.Parts[:]) > maxParts {
				return "more bytes in its data parts than PostgreSQL can have in memory"
			}
		case FieldExtra:
			if reason := extra(c, r); reason != "" {
				return reason
			}
		case FieldAudited:
			r.Audited = Audited(c.byte())
		case FieldEvent:
			r.Ending.Event = Event(c.byte())
		case FieldStatements:
			r.Ending.Statements = c.varint()
		case FieldCommit:
			r.Ending.LSN = b.lastLSN + uint64(c.zigzag())
			r.Ending.End = r.Ending.LSN + c.varint()
			r.Ending.Timeline = c.varint()
		}
		if c.bad {
			return cutShort
		}
	}
	return ""
}

func extra(c *cursor, r *Record) string {
	n := c.varint()
	if n > uint64(c.left())/2 {
		return "more names and values than fit"
	}
	all := c.rest()
	for range 2 * n {
		c.str()
	}
	if c.bad {
		return cutShort
	}
	r.ExtraCount, r.Extra = int(n), all[:len(all)-c.left()]
	return ""
}

func appendHex(dst []byte, v uint64) []byte { return appendDigits(dst, v, "0123456789abcdef") }

func appendDigits(dst []byte, v uint64, digits string) []byte {
	n := max(1, (bits.Len64(v)+3)/4)
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, digits[v>>(4*i)&15])
	}
	return dst
}

// AppendUint appends a number in decimal. It is faster than strconv's, which writes into a
// buffer of its own first.
func AppendUint(dst []byte, n uint64) []byte {
	if n < 10 {
		return append(dst, byte('0'+n))
	}
	digits := 2
	for limit := uint64(100); n >= limit; limit *= 10 {
		if digits++; digits == 20 {
			break
		}
	}
	from := len(dst)
	dst = slices.Grow(dst, digits)[:from+digits]
	for i := from + digits - 1; i > from; i -= 2 {
		pair := n % 100 * 2
		n /= 100
		dst[i], dst[i-1] = pairs[pair+1], pairs[pair]
	}
	if digits&1 != 0 {
		dst[from] = byte('0' + n)
	}
	return dst
}

const pairs = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

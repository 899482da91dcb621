// Decoding: the items of a block, one after the other, and its dictionaries.

package format

import (
	"encoding/binary"
	"io"
	"math/bits"
	"slices"
	"unsafe"
)

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
	varies               bool   // each record has a text of its own, which begins and ends as text does
	before, after        uint64 // with so many bytes
}

// formFields are those that records of a form may have.
const formFields = FieldShape | FieldText | FieldRows | FieldTime | FieldDuration | FieldValues | FieldXID

// decoder is the state of reading a block's items, and its dictionaries.
type decoder struct {
	// What is wanted: see Select.
	want         Want
	ignored      Field // that are not read
	bareUnwanted bool  // records without a shape are not wanted

	pos      int
	run      []byte // records of the item before pos that have not been read
	runLeft  uint64 // and how many these are
	runStart int    // where that item begins
	records  uint32
	lastTime int64
	lastLSN  uint64 // where the WAL record of the last commit ended
	times    Times  // of the next record that is an item of its own

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

// What the server writes takes less memory when it is read than these, whatever
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
	d.pos, d.records, d.lastTime, d.lastLSN, d.times, d.dictionary = 0, 0, b.Header.FirstTime, 0, Times{}, 0
	d.sessions, d.shapes, d.texts, d.textPlain, d.view = d.sessions[:0], d.shapes[:0], d.texts[:0], d.textPlain[:0], view{}
	d.relations, d.params, d.objects, d.columns = d.relations[:0], d.params[:0], d.objects[:0], d.columns[:0]
	d.run, d.runLeft, d.forms, d.variants, d.varied = nil, 0, d.forms[:0], d.variants[:0], 0
}

// Want says which of a block's records are wanted, and what of them.
type Want struct {
	// Session and Shape are asked about each definition once; those of records without a
	// shape about nil. A record is wanted if both say so; nil: all are. They see strings as
	// they are recorded, and are not asked where these are not ASCII: such records are wanted.
	Session func(*Session) bool
	Shape   func(*Shape) bool
	// Always is asked about definitions of shapes with objects: records of one are wanted whatever the
	// others say. Nil: none are.
	Always func(*Shape) bool
	// Fields are those that are looked at; 0: all. Those behind the last of these are not
	// read, nor is it checked that they can be.
	Fields Field
	// Tally counts plain records, which Next then leaves out. It goes with nothing else, and
	// strings of the others are not shown. Nil: all records are returned.
	Tally *Tally
}

// Select says what is wanted, for this block and those that are loaded into its place.
func (b *Block) Select(w Want) {
	b.want = w
	b.ignored = 0
	if w.Fields != 0 {
		b.ignored = ^Field(0) << bits.Len64(uint64(w.Fields))
	}
	b.bareUnwanted = w.Shape != nil && !w.Shape(nil)
}

// Next reads the next record or data part that is wanted into r. It returns io.EOF after
// the last, and a *Problem where an item is not understood; the items after that
// one are lost, because the dictionaries may be wrong.
func (b *Block) Next(r *Record) error {
	for b.pos < len(b.raw) || b.runLeft > 0 {
		start, kind := b.pos, KindRun
		var wanted bool
		var reason string
		if b.runLeft > 0 {
			if b.want.Tally != nil && b.countRun() {
				continue
			}
			start = b.runStart
			wanted, reason = b.fromRun(r)
		} else {
			n, at := short(b.raw, start)
			if n >= 0x80 {
				n, at = long(b.raw, at)
			}
			if n == 0 || at > len(b.raw) || n > uint64(len(b.raw)-at) {
				return b.corrupt(start, "item has an invalid length")
			}
			b.pos = at + int(n)
			item := b.raw[:b.pos:b.pos]
			if kind = Kind(item[at]); b.want.Tally != nil && (kind == KindStatement || kind == KindTransaction) && b.count(item, at+1, kind) {
				continue
			} else if kind.IsRecord() {
				wanted, reason = b.record(item, at+1, kind, r)
			} else {
				b.runStart = start
				wanted, reason = b.other(item[at+1:], kind, r)
			}
		}
		if reason != "" {
			b.pos = start
			return b.corrupt(start, kind.String()+": "+reason)
		}
		if wanted {
			return nil
		}
	}
	if b.records != b.Header.Records {
		return b.in(problemf(ProblemContent, 16, "block has %d records, but its header says %d", b.records, b.Header.Records))
	}
	return io.EOF
}

// other reads an item that is not a record. What is not known is skipped.
func (b *Block) other(item []byte, kind Kind, r *Record) (wanted bool, reason string) {
	c := cursor{b: item}
	switch kind {
	case KindData:
		return b.data(&c, r)
	case KindRun:
		reason = b.beginRun(&c)
	case KindDefSession:
		reason = b.defineSession(&c)
	case KindDefShape:
		reason = b.defineShape(&c)
	case KindDefText:
		reason = b.defineText(c.rest())
	case KindDefVariant:
		reason = b.defineVariant(&c)
	case KindDefForm:
		reason = b.defineForm(&c)
	case KindTimes:
		b.readTimes(&c)
	}
	return false, reason
}

// Records are read without a cursor, whose position would be written to memory for each
// number: it is passed on instead. One behind the end of an item says that the item has ended
// too early, and so is the position of all that is read from there.

// short reads the first byte of a number, which is the number if it is less than 0x80. Else
// long reads it, from the position that short returned.
func short(b []byte, at int) (v uint64, next int) {
	v = 0x80
	if at < len(b) {
		v = uint64(b[at])
	}
	return v, at + 1
}

func long(b []byte, at int) (v uint64, next int) {
	if at < len(b) && b[at] < 0x80 {
		return uint64(b[at-1]&0x7f) | uint64(b[at])<<7, at + 1
	}
	if at <= len(b) {
		if v, n := binary.Uvarint(b[at-1:]); n > 0 {
			return v, at - 1 + n
		}
	}
	return 0, len(b) + 1
}

// varint reads a number.
func varint(b []byte, at int) (v uint64, next int) {
	if v, at = short(b, at); v >= 0x80 {
		return long(b, at)
	}
	return v, at
}

// span reads n bytes.
func span(b []byte, at int, n uint64) (v []byte, next int) {
	if at > len(b) || n > uint64(len(b)-at) {
		return nil, len(b) + 1
	}
	end := at + int(n)
	return b[at:end:end], end
}

func signed(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// corrupt is an error about an item. Offsets in a compressed payload mean
// nothing to a file, so the error is at the block and says which byte inside.
func (b *Block) corrupt(pos int, reason string) error {
	return b.in(problemf(ProblemContent, 0, "block %d: byte %d of the decompressed payload: %s", b.Header.Number, pos, reason))
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
	s.plain = b.want.Tally == nil && s.isPlain()
	s.unwanted = b.want.Session != nil && s.plain && !b.want.Session(s)
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
	s.plain = b.want.Tally == nil && s.isPlain()
	b.shapes = append(b.shapes, s)
	last := &b.shapes[len(b.shapes)-1]
	last.valuesSize = last.fixedSize()
	last.unwanted = b.want.Shape != nil && s.plain && !b.want.Shape(last)
	last.always = b.want.Always != nil && len(s.Objects) > 0 && (!s.plain || b.want.Always(last))
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
		switch list {
		case ListColumns:
			if reason := b.columnList(&cursor{b: body}, s.Relations); reason != "" {
				return reason
			}
		case ListPrepared:
			s.Prepared = body
		case ListQuery:
			s.Query = body
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
	b.texts, b.textPlain = append(b.texts, text), append(b.textPlain, b.want.Tally == nil && isASCII(text))
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
	if !hasParts(b.texts[i], before, after) {
		return tooMuchOfText
	}
	return b.varyText(b.texts[i], before, after, c.rest())
}

const tooMuchOfText = "it has more of another text than there is"

// hasParts says whether a text begins and ends with so many bytes.
func hasParts(text []byte, before, after uint64) bool {
	return before <= uint64(len(text)) && after <= uint64(len(text))-before
}

// varyText defines a text that begins and ends as another one, and has something else between.
func (b *Block) varyText(base []byte, before, after uint64, different []byte) string {
	n := int(before) + len(different) + int(after)
	if n > maxVariants-b.varied {
		return "texts that vary others are longer than in a block written by a server"
	}
	b.varied += n
	if cap(b.variants)-len(b.variants) < n {
		b.variants = make([]byte, 0, max(n, 16<<10, min(2*cap(b.variants), 256<<10)))
	}
	from := len(b.variants)
	b.variants = append(b.variants, base[:before]...)
	b.variants = append(b.variants, different...)
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
	if f.varies = c.left() > 0; f.varies {
		f.before, f.after = c.varint(), c.varint()
	}
	switch {
	case c.bad:
		return cutShort
	case f.varies && f.text < 0:
		return "its texts vary none"
	case f.varies && !hasParts(b.texts[f.text], f.before, f.after):
		return tooMuchOfText
	}
	if !b.grow(int(unsafe.Sizeof(f))) {
		return tooMuch
	}
	b.forms = append(b.forms, f)
	return ""
}

// readTimes reads what the next record says of the time that its statement took. What it does not know
// comes behind.
func (b *Block) readTimes(c *cursor) {
	t := Times{Known: KnownTimes(c.varint()) & (2*KnownElapsed - 1)}
	for i, n := range [...]*uint64{&t.Analysis, &t.Plan, &t.Commit, &t.Elapsed} {
		if t.Known&(1<<i) != 0 {
			*n = c.varint()
		}
	}
	if !c.bad {
		b.times = t
	}
}

func (b *Block) beginRun(c *cursor) string {
	b.runLeft, b.run = c.varint(), c.rest()
	if b.runLeft == 0 || b.runLeft > uint64(len(b.run)) {
		b.runLeft = 0
		return "it has no records, or more than fit"
	}
	return ""
}

// begin makes r a record of a session of which nothing more is known.
func (b *Block) begin(r *Record, kind Kind, fields Field, session uint64) {
	if r.hasRare {
		*r = Record{} // 440 bytes: not for each record
	}
	s := &b.sessions[session]
	r.Kind, r.Fields, r.Number = kind, fields, b.Header.FirstRecord+uint64(b.records)
	r.Session, r.Shape, r.Text = s, nil, nil
	r.SessionIndex, r.ShapeIndex, r.TextIndex = int(session), -1, -1
	r.Seq, r.Statement, r.Time = s.seq+1, 0, b.lastTime
	if kind == KindStatement || kind == KindStart {
		r.Statement = s.statement + 1
	}
	r.Duration, r.Rows, r.XID, r.Nulls, r.Values = 0, 0, 0, nil, nil
	r.Depth, r.Substatement, r.Outcome = 0, 0, 0
	r.Effect, r.isShown, r.charset = EffectNone, false, nil
}

// finish lets the next records follow one that has been read. It says whether this one is
// wanted.
func (b *Block) finish(r *Record) (wanted bool) {
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
	if r.Shape == nil {
		return !s.unwanted && (!b.bareUnwanted || r.mayUse())
	}
	return r.Shape.always || !s.unwanted && (!r.Shape.unwanted || r.mayUse())
}

// fromRun reads the next record of a run: what its form does not say, in the order of
// the fields.
func (b *Block) fromRun(r *Record) (wanted bool, reason string) {
	run := b.run
	i, at := varint(run, 0)
	if i >= uint64(len(b.forms)) {
		return false, "its form is not defined"
	}
	f := &b.forms[i]
	b.begin(r, KindStatement, f.fields, uint64(f.session))
	if r.ShapeIndex = f.shape; f.shape >= 0 {
		r.Shape = &b.shapes[f.shape]
	}
	if r.TextIndex = f.text; f.text >= 0 {
		r.Text = b.texts[f.text]
	}
	var v uint64
	var different []byte
	if f.varies {
		v, at = varint(run, at)
		different, at = span(run, at, v)
	}
	if f.fields&FieldRows != 0 {
		if r.Rows = f.rows - 1; f.rows == 0 {
			r.Rows, at = varint(run, at)
		}
	}
	if f.fields&FieldTime != 0 {
		v, at = varint(run, at)
		r.Time += signed(v)
	}
	if f.fields&FieldDuration != 0 {
		r.Duration, at = varint(run, at)
	}
	if f.fields&FieldValues != 0 {
		r.Values, at = span(run, at, f.values)
	}
	if f.fields&FieldXID != 0 {
		v, at = varint(run, at)
		r.XID = r.Session.xid + uint64(signed(v))
	}
	if at > len(run) {
		return false, cutShort
	}
	if b.runLeft == 1 && at < len(run) {
		return false, "bytes are left after its records"
	}
	if f.varies {
		if reason := b.varyText(r.Text, f.before, f.after, different); reason != "" {
			return false, reason
		}
		r.TextIndex = len(b.texts) - 1
		r.Text = b.texts[r.TextIndex]
	}
	b.run = run[at:]
	b.runLeft--
	return b.finish(r), ""
}

func (b *Block) data(c *cursor, r *Record) (wanted bool, reason string) {
	i := c.varint()
	seq, part := c.varint(), PartKind(c.byte())
	switch {
	case c.bad:
		return false, cutShort
	case i >= uint64(len(b.sessions)):
		return false, "its session is not defined"
	case part > PartMessage:
		return false, "it continues something unknown"
	}
	if !b.grow(200) {
		return false, tooMuch
	}
	s := &b.sessions[i]
	*r = Record{Kind: KindData, SessionIndex: int(i), Session: s, ShapeIndex: -1, TextIndex: -1, Seq: seq, Part: part, Data: c.rest(), hasRare: true}
	return !s.unwanted || b.want.Always != nil, ""
}

// knownFields are all bits that records.def lists.
const knownFields = 1<<len(namesField) - 1

// record reads a record, whose body begins at a position of an item.
func (b *Block) record(item []byte, at int, kind Kind, r *Record) (wanted bool, reason string) {
	i, at := short(item, at)
	if i >= 0x80 {
		i, at = long(item, at)
	}
	mask, at := short(item, at)
	if mask >= 0x80 {
		mask, at = long(item, at)
	}
	switch {
	case at > len(item):
		return false, cutShort
	case i >= uint64(len(b.sessions)):
		return false, "its session is not defined"
	}
	b.begin(r, kind, Field(mask)&^b.ignored, i)
	if b.times.Known != 0 {
		r.Times, r.hasRare = b.times, true
		b.times = Times{}
	}
	if at, reason = b.fields(item, at, r); reason != "" {
		return false, reason
	}
	if r.Fields&(numberFields|rareFields) != 0 {
		at = b.numbers(item, at, r)
	}
	if at <= len(item) && r.Fields&rareFields != 0 {
		c := cursor{b: item, at: at}
		if reason = b.rare(&c, r); reason != "" {
			return false, reason
		}
		at = c.at
	}
	switch {
	case at > len(item):
		return false, cutShort
	case at < len(item) && mask&^knownFields == 0 && Field(mask)&b.ignored == 0:
		return false, "bytes are left after its fields"
	}
	return b.finish(r), ""
}

const (
	// firstFields are the first ones, each of which is a number.
	firstFields = FieldShape | FieldText | FieldRows | FieldTime | FieldDuration
	// numberFields are those that numbers reads, rareFields those behind.
	numberFields = FieldSeq | FieldStatement | FieldNesting | FieldOutcome | FieldError | FieldXID
	rareFields   = FieldCut | FieldParts | FieldExtra | FieldAudited | FieldEvent | FieldStatements | FieldCommit
)

// firstNumbers are the values of the first fields, by their bits; the last three are not used.
type firstNumbers [8]uint64

func (n *firstNumbers) read(item []byte, at int, mask Field) (next int) {
	for left := uint(mask & firstFields); left != 0; left &= left - 1 {
		v, next := short(item, at)
		if v >= 0x80 {
			v, next = long(item, next)
		}
		n[bits.TrailingZeros(left)%len(n)], at = v, next
	}
	return at
}

// fields reads the first fields, as far as the mask has them, in the order of the bits. Most
// records have these and no others.
func (b *Block) fields(item []byte, at int, r *Record) (next int, reason string) {
	var numbers firstNumbers
	at = numbers.read(item, at, r.Fields)
	if r.Has(FieldShape) {
		if i := numbers[0]; i < uint64(len(b.shapes)) {
			r.ShapeIndex, r.Shape = int(i), &b.shapes[i]
		} else {
			return at, "its shape is not defined"
		}
	}
	if r.Has(FieldText) {
		if i := numbers[1]; i < uint64(len(b.texts)) {
			r.TextIndex, r.Text = int(i), b.texts[i]
		} else {
			return at, "its text is not defined"
		}
	}
	r.Rows, r.Duration = numbers[2], numbers[4]
	r.Time += signed(numbers[3])
	if r.Has(FieldNulls) {
		if r.Shape == nil {
			return at, "NULL parameters without a shape"
		}
		r.Nulls, at = span(item, at, uint64(len(r.Shape.Params)+7)/8)
	}
	if r.Has(FieldValues) {
		n, next := short(item, at)
		if n >= 0x80 {
			n, next = long(item, next)
		}
		r.Values, at = span(item, next, n)
	}
	return at, ""
}

// numbers reads the fields that follow these.
func (b *Block) numbers(item []byte, at int, r *Record) (next int) {
	mask := r.Fields
	var v uint64
	if mask&FieldSeq != 0 {
		v, at = varint(item, at)
		r.Seq += uint64(signed(v))
	}
	if mask&FieldStatement != 0 {
		v, at = varint(item, at)
		if r.Kind == KindStatement || r.Kind == KindStart {
			r.Statement += uint64(signed(v))
		}
	}
	if mask&FieldNesting != 0 {
		r.Depth, at = varint(item, at)
		r.Substatement, at = varint(item, at)
	}
	if mask&FieldOutcome != 0 {
		var one []byte
		if one, at = span(item, at, 1); one != nil {
			r.Outcome = Outcome(one[0])
		}
	}
	if mask&FieldError != 0 {
		r.hasRare = true
		r.SQLState, at = span(item, at, 5)
		v, at = varint(item, at)
		r.Message, at = span(item, at, v)
	}
	if mask&FieldXID != 0 {
		r.XID, at = varint(item, at)
	}
	return at
}

// rare reads the fields behind, of which few records have any.
func (b *Block) rare(c *cursor, r *Record) (reason string) {
	r.hasRare = true
	for mask := uint64(r.Fields & rareFields); mask != 0; mask &= mask - 1 {
		switch Field(1) << bits.TrailingZeros64(mask) {
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
			b.lastLSN = r.Ending.End
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

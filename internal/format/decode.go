// Decoding of a block: its items, one after the other, and its dictionaries.

package format

import (
	"encoding/binary"
	"io"
	"math/bits"
	"slices"
	"unsafe"
)

// cursor reads values from bytes. bad is set, and stays set, if they end too early. The position is a number,
// because a slice that begins later each time would write a pointer, which costs more while the garbage
// collector runs.
type cursor struct {
	b   []byte
	at  int
	bad bool
}

// left returns how many bytes are left, rest returns these.
func (c *cursor) left() int    { return len(c.b) - c.at }
func (c *cursor) rest() []byte { return c.b[c.at:] }

// end skips all bytes that are left.
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

// form is what successive records of one statement in a session have in common.
type form struct {
	session, shape, text   int // indexes; -1 for none
	fields                 Field
	rows                   uint64 // plus 1; 0: each record has its own
	values                 uint64 // length of the values
	textVaries             bool   // each record has its own text, with a prefix and a suffix of text
	textPrefix, textSuffix uint64 // lengths of these
}

// formFields are the fields that records of a form may have.
const formFields = FieldShape | FieldText | FieldRows | FieldTime | FieldDuration | FieldValues | FieldXID

// decoder is the state of reading a block's items, and its dictionaries.
type decoder struct {
	// What is wanted: see Select.
	want              Selection
	ignoredFields     Field // fields that are not read
	shapelessUnwanted bool  // records without a shape are not wanted

	pos      int
	run      []byte // unread records of the run that ends at pos
	runLeft  uint64 // how many these are
	runStart int    // where that run begins
	records  uint32
	lastTime int64
	lastLSN  uint64 // end of the WAL record of the last commit
	times    Times  // of the next record that is an item of its own

	sessions     []Session
	shapes       []Shape
	texts        [][]byte
	textASCII    []bool // whether texts are ASCII
	forms        []form
	variants     []byte // texts that are not in the payload as a whole; when it is full, a new buffer replaces it
	variantBytes int    // bytes in all such buffers
	decoded      decodedStrings
	relations    []Relation
	params       []ParamType
	objects      []Object
	columns      []Column

	dictionary int // memory that definitions, and what is kept of data parts, take
}

// maxParams is the largest number of parameters of a statement in PostgreSQL's protocol.
const maxParams = 65535

// Limits of the memory for a block's definitions. No block that a server writes needs so much.
const (
	dictionaryMin = 8 << 20
	dictionaryRaw = 2 // times the size of the payload
)

// maxParts is the longest text, message or list of values: PostgreSQL's MaxAllocSize.
const maxParts = 1<<30 - 1

// maxVariants is the limit for the total length of the texts that a block defines as variants.
const maxVariants = 4 << 20

const tooMuchMemory = "definitions take more memory than those in a block written by a server"

// accountFor adds to the memory that the block's definitions take, and returns whether that is allowed.
func (b *Block) accountFor(n int) bool {
	b.dictionary += n
	return b.dictionary <= dictionaryMin+dictionaryRaw*len(b.raw)
}

// Position returns how many bytes of the payload Next has read; after an error, those before the item with the
// error.
func (b *Block) Position() int { return b.pos }

// SessionAt returns the block's session definition with that index.
func (b *Block) SessionAt(i int) *Session { return &b.sessions[i] }

// ShapeAt returns the block's shape definition with that index.
func (b *Block) ShapeAt(i int) *Shape { return &b.shapes[i] }

// SessionID returns the ID of the block's session definition with that index.
func (b *Block) SessionID(i int) SessionID { return b.sessions[i].ID() }

// Rewind makes Next return to the block's first item.
func (b *Block) Rewind() {
	d := &b.decoder
	d.pos, d.records, d.lastTime, d.lastLSN, d.times, d.dictionary = 0, 0, b.Header.FirstTime, 0, Times{}, 0
	d.sessions, d.shapes, d.texts, d.textASCII, d.decoded = d.sessions[:0], d.shapes[:0], d.texts[:0],
		d.textASCII[:0], decodedStrings{}
	d.relations, d.params, d.objects, d.columns = d.relations[:0], d.params[:0], d.objects[:0], d.columns[:0]
	d.run, d.runLeft, d.forms, d.variants, d.variantBytes = nil, 0, d.forms[:0], d.variants[:0], 0
}

// Selection says which records of a block Next returns, and which of their fields are needed.
type Selection struct {
	// Session and Shape are called once for each definition; Shape also with nil, for records without a shape.
	// A record is wanted if both return true; a nil function wants all. They see strings as recorded. They are
	// not called if these are not ASCII, and then the records are wanted.
	Session func(*Session) bool
	Shape   func(*Shape) bool
	// Always is called for shapes with objects. If it returns true, the records are wanted whatever Session and
	// Shape return. Nil: no records.
	Always func(*Shape) bool
	// Fields are the fields that are needed; 0: all. Fields after the last of these are neither read nor
	// checked.
	Fields Field
	// Tally counts plain records, which Next then does not return. It must be the only member that is set, and
	// strings of other records are not decoded. Nil: Next returns all records.
	Tally *Tally
}

// Select sets what is wanted, for this block and those that are loaded into it later.
func (b *Block) Select(w Selection) {
	b.want = w
	b.ignoredFields = 0
	if w.Fields != 0 {
		b.ignoredFields = ^Field(0) << bits.Len64(uint64(w.Fields))
	}
	b.shapelessUnwanted = w.Shape != nil && !w.Shape(nil)
}

// Next reads the next wanted record or data part into r. It returns io.EOF after the last one, and a *Problem
// if an item is not valid; the items that follow cannot be read then, because the dictionaries may be wrong.
func (b *Block) Next(r *Record) error {
	for b.pos < len(b.raw) || b.runLeft > 0 {
		start, kind := b.pos, KindRun
		var wanted bool
		var reason string
		if b.runLeft > 0 {
			if b.want.Tally != nil && b.countPlainRun() {
				continue
			}
			start = b.runStart
			wanted, reason = b.readFromRun(r)
		} else {
			n, at := readShort(b.raw, start)
			if n >= 0x80 {
				n, at = readLong(b.raw, at)
			}
			if n == 0 || at > len(b.raw) || n > uint64(len(b.raw)-at) {
				return b.corrupt(start, "item has an invalid length")
			}
			b.pos = at + int(n)
			item := b.raw[:b.pos:b.pos]
			if kind = Kind(item[at]); b.want.Tally != nil && (kind == KindStatement || kind == KindTransaction) &&
				b.countPlain(item, at+1, kind) {
				continue
			} else if kind.IsRecord() {
				wanted, reason = b.readRecord(item, at+1, kind, r)
			} else {
				b.runStart = start
				wanted, reason = b.readOther(item[at+1:], kind, r)
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
		return b.located(problemf(ProblemContent, 16, "block has %d records, but its header says %d",
			b.records, b.Header.Records))
	}
	return io.EOF
}

// readOther reads an item that is not a record. Unknown items are skipped.
func (b *Block) readOther(item []byte, kind Kind, r *Record) (wanted bool, reason string) {
	c := cursor{b: item}
	switch kind {
	case KindData:
		return b.readData(&c, r)
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

// Records are read without a cursor, whose position would be written to memory after each number. Instead,
// positions are passed on. A position after the end of the item means that the item ends too early; reading
// from there returns such a position again.

// readShort reads the first byte of a number. If it is less than 0x80, it is the number; else readLong, called
// with the returned position, reads the number.
func readShort(b []byte, at int) (v uint64, next int) {
	v = 0x80
	if at < len(b) {
		v = uint64(b[at])
	}
	return v, at + 1
}

func readLong(b []byte, at int) (v uint64, next int) {
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

// readVarint reads a number.
func readVarint(b []byte, at int) (v uint64, next int) {
	if v, at = readShort(b, at); v >= 0x80 {
		return readLong(b, at)
	}
	return v, at
}

// readBytes reads n bytes.
func readBytes(b []byte, at int, n uint64) (v []byte, next int) {
	if at > len(b) || n > uint64(len(b)-at) {
		return nil, len(b) + 1
	}
	end := at + int(n)
	return b[at:end:end], end
}

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// corrupt returns an error about an item. An offset in a compressed payload is none in the file, so the error
// has the block's offset, and its text states the byte within the payload.
func (b *Block) corrupt(pos int, reason string) error {
	return b.located(problemf(ProblemContent, 0, "block %d: byte %d of the decompressed payload: %s",
		b.Header.Number, pos, reason))
}

const cutShort = "ends too early"

func (b *Block) defineSession(c *cursor) string {
	if !b.accountFor(int(unsafe.Sizeof(Session{}))) {
		return tooMuchMemory
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
	s.ascii = b.want.Tally == nil && s.isASCII()
	s.unwanted = b.want.Session != nil && s.ascii && !b.want.Session(s)
	return ""
}

// ParseSession reads a session's definition in a ring, which begins with the start of the session.
func ParseSession(body []byte) (*Session, bool) {
	b := Block{raw: body}
	if b.defineSession(&cursor{b: append([]byte{0, 0}, body...)}) != "" {
		return nil, false
	}
	s := &b.sessions[0]
	return s.decode(s.charset()), true
}

// ParseShape reads a shape's definition in a ring.
func ParseShape(body []byte) (*Shape, bool) {
	b := Block{raw: body}
	if b.defineShape(&cursor{b: body}) != "" {
		return nil, false
	}
	return &b.shapes[0], true
}

func (b *Block) defineShape(c *cursor) string {
	s := Shape{Class: Class(c.varint()), QueryID: c.varint(), Command: c.str()}
	// A relation takes at least three bytes, a parameter two and an object four, so these checks keep a count
	// from requesting more memory than the item justifies.
	n := c.varint()
	if n > uint64(c.left())/3 {
		return "more relations than fit"
	}
	from := len(b.relations)
	for range n {
		r := Relation{Type: RelationType(c.byte()), Access: Access(c.varint()), Name: c.str()}
		// each access takes space in a line of output
		if !b.accountFor(int(unsafe.Sizeof(r)) + 16*bits.OnesCount64(uint64(r.Access))) {
			return tooMuchMemory
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
	if !b.accountFor(16*int(n) + int(unsafe.Sizeof(Shape{}))) {
		return tooMuchMemory
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
		if !b.accountFor(int(unsafe.Sizeof(Object{})) * int(n)) {
			return tooMuchMemory
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
	if reason := b.readLists(c, &s); reason != "" {
		return reason
	}
	s.ascii = b.want.Tally == nil && s.isASCII()
	b.shapes = append(b.shapes, s)
	last := &b.shapes[len(b.shapes)-1]
	last.valuesSize = last.fixedSize()
	last.unwanted = b.want.Shape != nil && s.ascii && !b.want.Shape(last)
	last.alwaysWanted = b.want.Always != nil && len(s.Objects) > 0 && (!s.ascii || b.want.Always(last))
	return ""
}

// readLists reads the lists that follow a shape's objects, each with its number and length. Unknown lists are
// skipped.
func (b *Block) readLists(c *cursor, s *Shape) string {
	for c.left() > 0 {
		list, body := List(c.varint()), c.str()
		if c.bad {
			break
		}
		switch list {
		case ListColumns:
			if reason := b.readColumns(&cursor{b: body}, s.Relations); reason != "" {
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

// readColumns reads the columns of each relation.
func (b *Block) readColumns(c *cursor, relations []Relation) string {
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
			// output names the column for each access
			perAccess := 16 + len(column.Name)
			if !b.accountFor(int(unsafe.Sizeof(column)) + perAccess*bits.OnesCount64(uint64(column.Access))) {
				return tooMuchMemory
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
	if !b.accountFor(25) {
		return tooMuchMemory
	}
	b.texts, b.textASCII = append(b.texts, text), append(b.textASCII, b.want.Tally == nil && isASCII(text))
	return ""
}

// defineVariant defines a text that has the beginning and end of an earlier one.
func (b *Block) defineVariant(c *cursor) string {
	i, before, after := c.varint(), c.varint(), c.varint()
	if c.bad {
		return cutShort
	}
	if i >= uint64(len(b.texts)) {
		return "the text that it varies is not defined"
	}
	if !hasPrefixAndSuffix(b.texts[i], before, after) {
		return tooMuchOfText
	}
	return b.varyText(b.texts[i], before, after, c.rest())
}

const tooMuchOfText = "it has more of another text than there is"

// hasPrefixAndSuffix returns whether a text is long enough for a prefix and a suffix of these lengths.
func hasPrefixAndSuffix(text []byte, before, after uint64) bool {
	return before <= uint64(len(text)) && after <= uint64(len(text))-before
}

// varyText defines a text made of the beginning of another one, different bytes, and its end.
func (b *Block) varyText(base []byte, before, after uint64, different []byte) string {
	n := int(before) + len(different) + int(after)
	if n > maxVariants-b.variantBytes {
		return "texts that vary others are longer than in a block written by a server"
	}
	b.variantBytes += n
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
	if f.textVaries = c.left() > 0; f.textVaries {
		f.textPrefix, f.textSuffix = c.varint(), c.varint()
	}
	switch {
	case c.bad:
		return cutShort
	case f.textVaries && f.text < 0:
		return "its texts vary none"
	case f.textVaries && !hasPrefixAndSuffix(b.texts[f.text], f.textPrefix, f.textSuffix):
		return tooMuchOfText
	}
	if !b.accountFor(int(unsafe.Sizeof(f))) {
		return tooMuchMemory
	}
	b.forms = append(b.forms, f)
	return ""
}

// readTimes reads the times of the statement of the next record. Times that this program does not know follow,
// and are ignored.
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

// beginRecord makes r a record of a session, with the values that a record has if it does not state them.
func (b *Block) beginRecord(r *Record, kind Kind, fields Field, session uint64) {
	if r.hasRare {
		*r = Record{} // clearing 440 bytes for each record would be slow
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
	r.Effect, r.isDecoded, r.charset = EffectNone, false, nil
}

// finishRecord updates what the next record's values are relative to. It returns whether this record is wanted.
func (b *Block) finishRecord(r *Record) (wanted bool) {
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
		return !s.unwanted && (!b.shapelessUnwanted || r.mayUseUnnamed())
	}
	return r.Shape.alwaysWanted || !s.unwanted && (!r.Shape.unwanted || r.mayUseUnnamed())
}

// readFromRun reads the next record of a run: the values that its form does not have, in the order of the
// fields.
func (b *Block) readFromRun(r *Record) (wanted bool, reason string) {
	run := b.run
	i, at := readVarint(run, 0)
	if i >= uint64(len(b.forms)) {
		return false, "its form is not defined"
	}
	f := &b.forms[i]
	b.beginRecord(r, KindStatement, f.fields, uint64(f.session))
	if r.ShapeIndex = f.shape; f.shape >= 0 {
		r.Shape = &b.shapes[f.shape]
	}
	if r.TextIndex = f.text; f.text >= 0 {
		r.Text = b.texts[f.text]
	}
	var v uint64
	var different []byte
	if f.textVaries {
		v, at = readVarint(run, at)
		different, at = readBytes(run, at, v)
	}
	if f.fields&FieldRows != 0 {
		if r.Rows = f.rows - 1; f.rows == 0 {
			r.Rows, at = readVarint(run, at)
		}
	}
	if f.fields&FieldTime != 0 {
		v, at = readVarint(run, at)
		r.Time += unzigzag(v)
	}
	if f.fields&FieldDuration != 0 {
		r.Duration, at = readVarint(run, at)
	}
	if f.fields&FieldValues != 0 {
		r.Values, at = readBytes(run, at, f.values)
	}
	if f.fields&FieldXID != 0 {
		v, at = readVarint(run, at)
		r.XID = r.Session.xid + uint64(unzigzag(v))
	}
	if at > len(run) {
		return false, cutShort
	}
	if b.runLeft == 1 && at < len(run) {
		return false, "bytes are left after its records"
	}
	if f.textVaries {
		if reason := b.varyText(r.Text, f.textPrefix, f.textSuffix, different); reason != "" {
			return false, reason
		}
		r.TextIndex = len(b.texts) - 1
		r.Text = b.texts[r.TextIndex]
	}
	b.run = run[at:]
	b.runLeft--
	return b.finishRecord(r), ""
}

func (b *Block) readData(c *cursor, r *Record) (wanted bool, reason string) {
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
	if !b.accountFor(200) {
		return false, tooMuchMemory
	}
	s := &b.sessions[i]
	*r = Record{
		Kind:         KindData,
		SessionIndex: int(i),
		Session:      s,
		ShapeIndex:   -1,
		TextIndex:    -1,
		Seq:          seq,
		Part:         part,
		Data:         c.rest(),
		hasRare:      true,
	}
	return !s.unwanted || b.want.Always != nil, ""
}

// knownFields are all bits listed in records.def.
const knownFields = 1<<len(namesField) - 1

// readRecord reads the record whose body begins at a position of an item.
func (b *Block) readRecord(item []byte, at int, kind Kind, r *Record) (wanted bool, reason string) {
	i, at := readShort(item, at)
	if i >= 0x80 {
		i, at = readLong(item, at)
	}
	mask, at := readShort(item, at)
	if mask >= 0x80 {
		mask, at = readLong(item, at)
	}
	switch {
	case at > len(item):
		return false, cutShort
	case i >= uint64(len(b.sessions)):
		return false, "its session is not defined"
	}
	b.beginRecord(r, kind, Field(mask)&^b.ignoredFields, i)
	if b.times.Known != 0 {
		r.Times, r.hasRare = b.times, true
		b.times = Times{}
	}
	if at, reason = b.readFirstFields(item, at, r); reason != "" {
		return false, reason
	}
	if r.Fields&(numberFields|rareFields) != 0 {
		at = b.readNumberFields(item, at, r)
	}
	if at <= len(item) && r.Fields&rareFields != 0 {
		c := cursor{b: item, at: at}
		if reason = b.readRareFields(&c, r); reason != "" {
			return false, reason
		}
		at = c.at
	}
	switch {
	case at > len(item):
		return false, cutShort
	case at < len(item) && mask&^knownFields == 0 && Field(mask)&b.ignoredFields == 0:
		return false, "bytes are left after its fields"
	}
	return b.finishRecord(r), ""
}

const (
	// firstFields are the first fields, each of which is a number.
	firstFields = FieldShape | FieldText | FieldRows | FieldTime | FieldDuration
	// numberFields are read by readNumberFields, rareFields by readRareFields.
	numberFields = FieldSeq | FieldStatement | FieldNesting | FieldOutcome | FieldError | FieldXID
	rareFields   = FieldCut | FieldParts | FieldExtra | FieldAudited | FieldEvent | FieldStatements | FieldCommit
)

// firstNumbers has the values of the first fields, by bit; the last three are not used.
type firstNumbers [8]uint64

func (n *firstNumbers) read(item []byte, at int, mask Field) (next int) {
	for left := uint(mask & firstFields); left != 0; left &= left - 1 {
		v, next := readShort(item, at)
		if v >= 0x80 {
			v, next = readLong(item, next)
		}
		n[bits.TrailingZeros(left)%len(n)], at = v, next
	}
	return at
}

// readFirstFields reads those of the first fields that the record has, in the order of the bits. Most records
// have no others.
func (b *Block) readFirstFields(item []byte, at int, r *Record) (next int, reason string) {
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
	r.Time += unzigzag(numbers[3])
	if r.Has(FieldNulls) {
		if r.Shape == nil {
			return at, "NULL parameters without a shape"
		}
		r.Nulls, at = readBytes(item, at, uint64(len(r.Shape.Params)+7)/8)
	}
	if r.Has(FieldValues) {
		n, next := readShort(item, at)
		if n >= 0x80 {
			n, next = readLong(item, next)
		}
		r.Values, at = readBytes(item, next, n)
	}
	return at, ""
}

// readNumberFields reads the fields that follow the first ones.
func (b *Block) readNumberFields(item []byte, at int, r *Record) (next int) {
	mask := r.Fields
	var v uint64
	if mask&FieldSeq != 0 {
		v, at = readVarint(item, at)
		r.Seq += uint64(unzigzag(v))
	}
	if mask&FieldStatement != 0 {
		v, at = readVarint(item, at)
		if r.Kind == KindStatement || r.Kind == KindStart {
			r.Statement += uint64(unzigzag(v))
		}
	}
	if mask&FieldNesting != 0 {
		r.Depth, at = readVarint(item, at)
		r.Substatement, at = readVarint(item, at)
	}
	if mask&FieldOutcome != 0 {
		var outcome []byte
		if outcome, at = readBytes(item, at, 1); outcome != nil {
			r.Outcome = Outcome(outcome[0])
		}
	}
	if mask&FieldError != 0 {
		r.hasRare = true
		r.SQLState, at = readBytes(item, at, 5)
		v, at = readVarint(item, at)
		r.Message, at = readBytes(item, at, v)
	}
	if mask&FieldXID != 0 {
		r.XID, at = readVarint(item, at)
	}
	return at
}

// readRareFields reads the remaining fields, which few records have.
func (b *Block) readRareFields(c *cursor, r *Record) (reason string) {
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
			if reason := readExtra(c, r); reason != "" {
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

func readExtra(c *cursor, r *Record) string {
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

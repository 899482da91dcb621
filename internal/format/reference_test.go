// A second decoder of records, as simple as it can be, to check the fast one against: it makes
// each of them from nothing, and reads its fields one after the other.

package format

import (
	"encoding/binary"
	"io"
	"math/bits"
	"reflect"
	"slices"
)

// Next reads the next record or data part into r. It returns io.EOF after the
// last, and a *Problem where an item is not understood; the items
// after that one are lost, because the dictionaries may be wrong.
func (b *Block) ReferenceNext(r *Record) error {
	for b.pos < len(b.raw) || b.runLeft > 0 {
		if b.runLeft > 0 {
			if reason := b.referenceRun(r); reason != "" {
				b.pos = b.runStart
				return b.corrupt(b.pos, KindRun.String()+": "+reason)
			}
			return nil
		}
		start := b.pos
		n, w := binary.Uvarint(b.raw[start:])
		if w <= 0 || n == 0 || n > uint64(len(b.raw)-start-w) {
			return b.corrupt(start, "item has an invalid length")
		}
		b.pos = start + w + int(n)
		kind := Kind(b.raw[start+w])
		c := cursor{b: b.raw[start+w+1 : b.pos : b.pos]}
		var reason string
		switch {
		case kind.IsRecord():
			if reason = b.referenceRecord(&c, kind, r); reason == "" {
				return nil
			}
		case kind == KindData:
			if _, reason = b.readData(&c, r); reason == "" {
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
		case kind == KindTimes:
			b.readTimes(&c)
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
		return b.located(problemf(ProblemContent, 16, "block has %d records, but its header says %d", b.records, b.Header.Records))
	}
	return io.EOF
}

// Same says whether two blocks have read the same record.
func Same(a, b *Record) bool {
	x, y := *a, *b
	if (x.Session == nil) != (y.Session == nil) || x.Session != nil && (x.Session.ID() != y.Session.ID() || x.Session.seq != y.Session.seq ||
		x.Session.statement != y.Session.statement || x.Session.xid != y.Session.xid) || (x.Shape == nil) != (y.Shape == nil) {
		return false
	}
	x.Session, y.Session, x.Shape, y.Shape, x.hasRare, y.hasRare = nil, nil, nil, nil, false, false
	return reflect.DeepEqual(&x, &y)
}

// Payload is what the block consists of.
func (b *Block) Payload() []byte { return b.raw }

// referenceRun reads the next record of a run: what its form does not say, in the order of
// the fields.
func (b *Block) referenceRun(r *Record) string {
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
	if f.textVaries {
		text := slices.Concat(r.Text[:f.textPrefix], c.str(), r.Text[uint64(len(r.Text))-f.textSuffix:])
		if b.variantBytes += len(text); b.variantBytes > maxVariants {
			return "texts that vary others are longer than in a block written by a server"
		}
		if reason := b.defineText(text); reason != "" {
			return reason
		}
		r.TextIndex, r.Text = len(b.texts)-1, text
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
	b.referenceFinish(r)
	return ""
}

func (b *Block) referenceRecord(c *cursor, kind Kind, r *Record) string {
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
	r.Times, b.times = b.times, Times{}
	if reason := b.referenceFields(c, r); reason != "" {
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
	b.referenceFinish(r)
	return ""
}

// fields reads what the mask says is there, in the order of the bits.
func (b *Block) referenceFields(c *cursor, r *Record) string {
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
		}
		if c.bad {
			return cutShort
		}
	}
	return ""
}

func (b *Block) referenceFinish(r *Record) {
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

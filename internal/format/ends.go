// What a block says of the ends of transactions, in a walk that decodes little.

package format

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// UndonePart is a subtransaction that was rolled back: the records of its session with these numbers, but
// those of statements that began before it.
type UndonePart struct {
	First, Last             uint64
	Statement, Substatement uint64 // the last ones before it
}

// Has says whether the part took a statement back. A nested statement of an earlier statement is one
// of a cursor that was read in the part.
func (p *UndonePart) Has(r *Record) bool {
	if r.Seq < p.First || r.Seq > p.Last {
		return false
	}
	switch {
	case r.Statement > p.Statement:
		return true
	case r.Statement == p.Statement:
		return r.Substatement > p.Substatement
	}
	return r.Substatement > 0
}

// End is what a record says of the end of a transaction, of a part of one that was rolled back, or of a session.
type End struct {
	Session SessionID
	Number  uint64 // of the record
	// XID is the transaction's ID; 0: what became of a transaction is not said.
	XID      uint64
	Effect   Effect
	Prepared bool // it ended for its session alone
	// Part is the part that was rolled back; nil: the record is not of a subtransaction.
	Part *UndonePart
}

// Ends yields what the records of a block say of ends, in their order. What cannot be read is for Next to tell. An end is
// valid until the next one.
func (b *Block) Ends(yield func(*End) bool) {
	var ids []SessionID
	var e End
	var part UndonePart
	number := b.Header.FirstRecord
	for pos := 0; pos < len(b.raw); {
		n, at := varint(b.raw, pos)
		if n == 0 || at > len(b.raw) || n > uint64(len(b.raw)-at) {
			return
		}
		kind := Kind(b.raw[at])
		end := at + int(n)
		c := cursor{b: b.raw[at+1 : end : end]}
		switch kind {
		case KindDefSession:
			ids = append(ids, sessionOf(&c))
		case KindSubtransaction, KindTransaction, KindDisconnect:
			i := c.varint()
			if i >= uint64(len(ids)) {
				break
			}
			e = End{Session: ids[i], Number: number}
			told := true
			switch kind {
			case KindSubtransaction:
				e.Part = &part
				e.XID, part, told = partOf(&c)
			case KindTransaction:
				e.XID, e.Effect, e.Prepared = endOf(&c)
			}
			if told && !yield(&e) {
				return
			}
		}
		switch {
		case kind.IsRecord():
			number++
		case kind == KindRun:
			number += c.varint()
		}
		pos = end
	}
}

// HasKind says whether the block may have a record of a kind.
func (b *Block) HasKind(kind Kind) bool {
	for at := b.raw; len(at) > 0; {
		n, w := binary.Uvarint(at)
		if w <= 0 || n == 0 || n > uint64(len(at)-w) {
			return true // Next tells
		}
		if Kind(at[w]) == kind {
			return true
		}
		at = at[w+int(n):]
	}
	return false
}

func sessionOf(c *cursor) SessionID {
	c.varint()
	c.varint()
	if fixed := c.bytes(12); fixed != nil {
		return SessionID{int64(binary.LittleEndian.Uint64(fixed)), binary.LittleEndian.Uint32(fixed[8:])}
	}
	return SessionID{}
}

// endOf reads what a transaction's record says: its ID, and what became of it.
// A prepared transaction ended for its session when it was prepared. What became of it
// may be said much later, by any session.
func endOf(c *cursor) (xid uint64, effect Effect, prepared bool) {
	xid, outcome, mask := endAndMask(c)
	if xid == 0 || c.bad {
		return 0, EffectNone, false
	}
	switch event := eventOf(c, mask); {
	case event == EventCommitPrepared || event == EventRollbackPrepared:
		return 0, EffectNone, false // of another session, perhaps
	case outcome == OutcomeError:
		return xid, EffectRolledBack, false
	case event == EventPrepare:
		return xid, EffectUnknown, true
	case outcome != OutcomeOk:
		return xid, EffectUnknown, false
	}
	return xid, EffectCommitted, false
}

// eventOf is the event of a transaction's record; 0 if it states none. The cursor is behind the transaction ID.
func eventOf(c *cursor, mask Field) Event {
	if mask&FieldCut != 0 {
		c.varint()
		c.bytes(sha256.Size)
	}
	if mask&FieldParts != 0 {
		c.varint()
		c.varint()
		c.varint()
	}
	r := Record{}
	if mask&FieldExtra != 0 && extra(c, &r) != "" {
		return 0
	}
	if mask&FieldAudited != 0 {
		c.byte()
	}
	if mask&FieldEvent != 0 {
		return Event(c.byte())
	}
	text, _ := r.ExtraValue("event") // as earlier versions of the server wrote it
	for _, event := range []Event{EventPrepare, EventCommitPrepared, EventRollbackPrepared} {
		if string(text) == event.String() {
			return event
		}
	}
	return 0
}

func endAndMask(c *cursor) (xid uint64, outcome Outcome, mask Field) {
	mask = Field(c.varint())
	if mask&FieldXID == 0 || mask&FieldNulls != 0 {
		return 0, 0, mask
	}
	for _, f := range []Field{FieldShape, FieldText, FieldRows, FieldTime, FieldDuration} {
		if mask&f != 0 {
			c.varint()
		}
	}
	if mask&FieldValues != 0 {
		c.str()
	}
	for _, f := range []Field{FieldSeq, FieldStatement, FieldNesting, FieldNesting} {
		if mask&f != 0 {
			c.varint()
		}
	}
	if mask&FieldOutcome != 0 {
		outcome = Outcome(c.byte())
	}
	if mask&FieldError != 0 {
		c.bytes(5)
		c.str()
	}
	return c.varint(), outcome, mask
}

// partOf reads what a subtransaction's record says: the ID of its transaction, and the part.
func partOf(c *cursor) (xid uint64, one UndonePart, ok bool) {
	xid, outcome, mask := endAndMask(c)
	if c.bad || outcome != OutcomeError || mask&(FieldCut|FieldParts) != 0 || mask&FieldExtra == 0 {
		return 0, one, false
	}
	r := Record{}
	if extra(c, &r) != "" {
		return 0, one, false
	}
	wanted := map[string]*uint64{
		"first_seq": &one.First, "last_seq": &one.Last, "after_statement": &one.Statement, "after_substatement": &one.Substatement,
	}
	for name, value := range r.ExtraPairs {
		if to := wanted[string(name)]; to != nil {
			n, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil {
				return 0, one, false
			}
			*to = n
			delete(wanted, string(name))
		}
	}
	return xid, one, len(wanted) == 0 && one.First <= one.Last
}

// IsRollback says whether the record is of a ROLLBACK, which took effect.
func (r *Record) IsRollback() bool {
	return r.Shape != nil && r.Shape.Class == ClassTransaction && string(r.Shape.Command) == "ROLLBACK"
}

// The ends of transactions in a block, found without decoding all records.

package format

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// UndonePart is a subtransaction that was rolled back. It has the records of its session with these numbers,
// except those of statements that began before it.
type UndonePart struct {
	First, Last             uint64
	Statement, Substatement uint64 // the last ones before the subtransaction began
}

// Has returns whether a statement was rolled back with the part. A nested statement whose top-level statement
// is an earlier one belongs to a cursor that was read in the part.
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

// End is the end of a transaction, of a part of one that was rolled back, or of a session, as a record states
// it.
type End struct {
	Session SessionID
	Number  uint64 // of the record
	// XID is the transaction's ID; 0: the record does not say what became of a transaction.
	XID      uint64
	Effect   Effect
	Prepared bool // prepared: it ended only for its session
	// Part is the part that was rolled back; nil: the record is not that of a subtransaction.
	Part *UndonePart
}

// Ends yields the ends that the records of a block state, in order. It stops at what it cannot read: Next
// reports that. An End is valid until the next one.
func (b *Block) Ends(yield func(*End) bool) {
	var ids []SessionID
	var e End
	var part UndonePart
	number := b.Header.FirstRecord
	for pos := 0; pos < len(b.raw); {
		n, at := readVarint(b.raw, pos)
		if n == 0 || at > len(b.raw) || n > uint64(len(b.raw)-at) {
			return
		}
		kind := Kind(b.raw[at])
		end := at + int(n)
		c := cursor{b: b.raw[at+1 : end : end]}
		switch kind {
		case KindDefSession:
			ids = append(ids, readSessionID(&c))
		case KindSubtransaction, KindTransaction, KindDisconnect:
			i := c.varint()
			if i >= uint64(len(ids)) {
				break
			}
			e = End{Session: ids[i], Number: number}
			understood := true
			switch kind {
			case KindSubtransaction:
				e.Part = &part
				e.XID, part, understood = readUndonePart(&c)
			case KindTransaction:
				e.XID, e.Effect, e.Prepared = readEnd(&c)
			}
			if understood && !yield(&e) {
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

// HasKind returns whether the block may have a record of a kind.
func (b *Block) HasKind(kind Kind) bool {
	for at := b.raw; len(at) > 0; {
		n, w := binary.Uvarint(at)
		if w <= 0 || n == 0 || n > uint64(len(at)-w) {
			return true // Next reports this
		}
		if Kind(at[w]) == kind {
			return true
		}
		at = at[w+int(n):]
	}
	return false
}

func readSessionID(c *cursor) SessionID {
	c.varint()
	c.varint()
	if fixed := c.bytes(12); fixed != nil {
		return SessionID{int64(binary.LittleEndian.Uint64(fixed)), binary.LittleEndian.Uint32(fixed[8:])}
	}
	return SessionID{}
}

// readEnd reads from a transaction's record its ID, and what became of it. A prepared transaction ended for its
// session when it was prepared; what became of it may be recorded much later, by any session.
func readEnd(c *cursor) (xid uint64, effect Effect, prepared bool) {
	xid, outcome, mask := readEndFields(c)
	if xid == 0 || c.bad {
		return 0, EffectNone, false
	}
	switch event := readEvent(c, mask); {
	case event == EventCommitPrepared || event == EventRollbackPrepared:
		return 0, EffectNone, false // it may be that of another session
	case outcome == OutcomeError:
		return xid, EffectRolledBack, false
	case event == EventPrepare:
		return xid, EffectUnknown, true
	case outcome != OutcomeOk:
		return xid, EffectUnknown, false
	}
	return xid, EffectCommitted, false
}

// readEvent returns the event of a transaction's record; 0: it has none. The cursor is after the transaction
// ID.
func readEvent(c *cursor, mask Field) Event {
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
	if mask&FieldExtra != 0 && readExtra(c, &r) != "" {
		return 0
	}
	if mask&FieldAudited != 0 {
		c.byte()
	}
	if mask&FieldEvent != 0 {
		return Event(c.byte())
	}
	text, _ := r.ExtraValue("event") // written so by earlier versions of the server
	for _, event := range []Event{EventPrepare, EventCommitPrepared, EventRollbackPrepared} {
		if string(text) == event.String() {
			return event
		}
	}
	return 0
}

func readEndFields(c *cursor) (xid uint64, outcome Outcome, mask Field) {
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

// readUndonePart reads from a subtransaction's record the ID of its transaction, and the part.
func readUndonePart(c *cursor) (xid uint64, part UndonePart, ok bool) {
	xid, outcome, mask := readEndFields(c)
	if c.bad || outcome != OutcomeError || mask&(FieldCut|FieldParts) != 0 || mask&FieldExtra == 0 {
		return 0, part, false
	}
	r := Record{}
	if readExtra(c, &r) != "" {
		return 0, part, false
	}
	wanted := map[string]*uint64{
		"first_seq": &part.First, "last_seq": &part.Last, "after_statement": &part.Statement,
		"after_substatement": &part.Substatement,
	}
	for name, value := range r.ExtraPairs {
		if to := wanted[string(name)]; to != nil {
			n, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil {
				return 0, part, false
			}
			*to = n
			delete(wanted, string(name))
		}
	}
	return xid, part, len(wanted) == 0 && part.First <= part.Last
}

// IsRollback returns whether the record is that of a ROLLBACK statement.
func (r *Record) IsRollback() bool {
	return r.Shape != nil && r.Shape.Class == ClassTransaction && string(r.Shape.Command) == "ROLLBACK"
}

// What became of statements with their transaction, or a part of it: which were rolled back.

package trail

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
)

// The record of a transaction comes after those of its statements, in the same stream.
// So whether a statement was undone is looked up in the rest of its block, and in the
// blocks behind it. What they say of transactions is summed up once for each block, in
// a walk that decodes little, and the summaries are kept for the lookups to come.

// How far a lookup goes, in stored bytes, and what is kept of blocks.
const (
	maxLookAhead  = 128 << 20
	maxEnds       = 32 << 10 // of one block; the server's blocks have fewer
	keptEnds      = 64 << 10
	keptSummaries = 32 << 10
)

// transaction identifies the transaction of a session.
type transaction struct {
	session SessionID
	xid     uint64
}

func (a transaction) compare(b transaction) int {
	return cmp.Or(a.session.Compare(b.session), cmp.Compare(a.xid, b.xid))
}

// ended is a transaction whose record says what became of it.
type ended struct {
	transaction
	fate
}

// fate is what became of a transaction, as far as its session's records say it: one that was prepared has an effect that
// is not known to them.
type fate struct {
	effect   Effect
	prepared bool
}

// lastEnd is the record of a session's last transaction in a block.
type lastEnd struct {
	session SessionID
	number  uint64
}

// undonePart is a subtransaction that was rolled back: the records of its session with these numbers, but
// those of statements that began before it.
type undonePart struct {
	first, last             uint64
	statement, substatement uint64 // the last ones before it
}

// has says whether the part took a statement back. A nested statement of an earlier statement is one
// of a cursor that was read in the part.
func (p *undonePart) has(r *Record) bool {
	if r.Seq < p.first || r.Seq > p.last {
		return false
	}
	switch {
	case r.Statement > p.statement:
		return true
	case r.Statement == p.statement:
		return r.Substatement > p.substatement
	}
	return r.Substatement > 0
}

// undoneParts are those of a transaction, in their order; none is inside another.
type undoneParts []undonePart

// add adds a part, which is the last one so far: those inside it ended before.
func (p undoneParts) add(one undonePart) undoneParts {
	for len(p) > 0 && p[len(p)-1].first >= one.first {
		p = p[:len(p)-1]
	}
	return append(p, one)
}

func (p undoneParts) have(r *Record) bool {
	i, found := slices.BinarySearchFunc(p, r.Seq, func(one undonePart, seq uint64) int {
		switch {
		case one.last < seq:
			return -1
		case one.first > seq:
			return 1
		}
		return 0
	})
	return found && p[i].has(r)
}

// summary is what a block says of the ends of transactions.
type summary struct {
	once  sync.Once
	ended []ended
	parts map[transaction]undoneParts
	ends  []lastEnd // one for each session that has any
	size  int       // of all, as rollbacks.ends counts it
}

// find says what became of a transaction, and whether the block settles it. If the session has ended a
// transaction, or itself, behind the record with that number, the transaction is over: without a record of its own
// there is none behind.
func (s *summary) find(t transaction, number uint64) (f fate, settled bool) {
	if i, found := slices.BinarySearchFunc(s.ended, t, func(e ended, t transaction) int { return e.compare(t) }); found {
		return s.ended[i].fate, true
	}
	i, found := slices.BinarySearchFunc(s.ends, t.session, func(e lastEnd, id SessionID) int { return e.session.Compare(id) })
	return fate{effect: EffectUnknown}, found && s.ends[i].number > number
}

// sum fills the summary from a block's payload. What cannot be read is for Next to tell.
func (s *summary) sum(b *Block) {
	var ids []SessionID
	last := map[SessionID]uint64{}
	number := b.Header.FirstRecord
	for pos := 0; pos < len(b.raw); {
		n, at := varint(b.raw, pos)
		if n == 0 || at > len(b.raw) || n > uint64(len(b.raw)-at) {
			break
		}
		kind := Kind(b.raw[at])
		end := at + int(n)
		if kind == KindSubtransaction {
			c := cursor{b: b.raw[at+1 : end : end]}
			if i := c.varint(); i < uint64(len(ids)) && s.size < maxEnds {
				if xid, one, ok := partOf(&c); ok {
					if s.parts == nil {
						s.parts = map[transaction]undoneParts{}
					}
					t := transaction{ids[i], xid}
					s.parts[t] = s.parts[t].add(one)
					s.size++
				}
			}
		}
		if kind == KindDefSession || kind == KindTransaction || kind == KindDisconnect {
			c := cursor{b: b.raw[at+1 : end : end]}
			if kind == KindDefSession {
				ids = append(ids, sessionOf(&c))
			} else if i := c.varint(); i < uint64(len(ids)) && len(last) < maxEnds && len(s.ended) < maxEnds {
				last[ids[i]] = number
				if kind == KindTransaction {
					if xid, f := endOf(&c); f.effect != EffectNone {
						s.ended = append(s.ended, ended{transaction{ids[i], xid}, f})
					}
				}
			}
		}
		switch {
		case kind.IsRecord():
			number++
		case kind == KindRun:
			c := cursor{b: b.raw[at+1 : end : end]}
			number += c.varint()
		}
		pos = end
	}
	for id, number := range last {
		s.ends = append(s.ends, lastEnd{id, number})
	}
	slices.SortFunc(s.ends, func(a, b lastEnd) int { return a.session.Compare(b.session) })
	slices.SortFunc(s.ended, func(a, b ended) int { return a.compare(b.transaction) })
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
// may be said much later, by any session: see preparedEnds.
func endOf(c *cursor) (xid uint64, f fate) {
	xid, outcome, mask := endAndMask(c)
	if xid == 0 || c.bad {
		return 0, f
	}
	switch event := eventOf(c, mask); {
	case event == EventCommitPrepared || event == EventRollbackPrepared:
		return 0, f // of another session, perhaps
	case outcome == OutcomeError:
		return xid, fate{effect: EffectRolledBack}
	case event == EventPrepare:
		return xid, fate{EffectUnknown, true}
	case outcome != OutcomeOk:
		return xid, fate{effect: EffectUnknown}
	}
	return xid, fate{effect: EffectCommitted}
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
func partOf(c *cursor) (xid uint64, one undonePart, ok bool) {
	xid, outcome, mask := endAndMask(c)
	if c.bad || outcome != OutcomeError || mask&(FieldCut|FieldParts) != 0 || mask&FieldExtra == 0 {
		return 0, one, false
	}
	r := Record{}
	if extra(c, &r) != "" {
		return 0, one, false
	}
	wanted := map[string]*uint64{
		"first_seq": &one.first, "last_seq": &one.last, "after_statement": &one.statement, "after_substatement": &one.substatement,
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
	return xid, one, len(wanted) == 0 && one.first <= one.last
}

// spareBlocks are what blocks are read into that are wanted for their summary alone. Nothing of
// a summary points into one.
var spareBlocks = sync.Pool{New: func() any { return &Block{} }}

// rollbacks looks up the ends of transactions. It is shared by goroutines.
type rollbacks struct {
	index *Index
	files *Files

	mu   sync.Mutex
	kept map[blockPlace]*summary
	old  []blockPlace // in the order in which they came
	ends int

	prepared preparedEnds
}

type blockPlace struct {
	segment *Segment
	offset  int64
}

// of returns the summary of a block, which is read for it unless it is at hand.
func (x *rollbacks) of(ref *BlockRef, b *Block) *summary {
	place := blockPlace{ref.Segment, ref.Offset}
	x.mu.Lock()
	s := x.kept[place]
	if s == nil {
		s = &summary{}
		if x.kept == nil {
			x.kept = map[blockPlace]*summary{}
		}
		x.kept[place] = s
		x.old = append(x.old, place)
	}
	x.mu.Unlock()
	s.once.Do(func() {
		if b == nil {
			b = spareBlocks.Get().(*Block)
			defer spareBlocks.Put(b)
			if x.files.Read(ref, b) != nil {
				return // the merge tells, if it is wanted
			}
		}
		s.sum(b)
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.kept[place] != s {
			return // dropped meanwhile
		}
		s.size += len(s.ends) + len(s.ended)
		x.ends += s.size
		for len(x.old) > 1 && (x.ends > keptEnds || len(x.old) > keptSummaries) {
			x.forget(x.old[0])
		}
	})
	return s
}

// forget drops the oldest summary.
func (x *rollbacks) forget(place blockPlace) {
	if s := x.kept[place]; s != nil {
		x.ends -= s.size
		delete(x.kept, place)
	}
	x.old = x.old[1:]
}

// behind yields the blocks of the stream that follow a block.
func (x *rollbacks) behind(ref *BlockRef) func(yield func(*BlockRef) bool) {
	return func(yield func(*BlockRef) bool) {
		i := slices.IndexFunc(x.index.Streams, func(s StreamIndex) bool { return s.Stream == ref.Segment.Stream })
		if i < 0 {
			return
		}
		segments := x.index.Streams[i].Segments
		for k := range segments {
			one := &segments[k]
			if one.Blocks == 0 || one.last.Number <= ref.Number || one.Segment.KeyErr != nil {
				continue
			}
			for _, next := range x.index.kept.of(one) {
				if next.Number > ref.Number && !yield(&next) {
					return
				}
			}
		}
	}
}

// lookup says of the statements of one block what became of them.
type lookup struct {
	all  *rollbacks
	ref  *BlockRef
	here *summary
	// last is the answer for the last transaction of each session definition.
	last []answer
	// later is what is known of transactions that end behind the block.
	later map[transaction]outcome
}

// outcome is what became of a transaction, and which parts of it were rolled back before.
type outcome struct {
	fate
	parts undoneParts
}

type answer struct {
	xid uint64
	outcome
}

// start begins with a block that was read.
func (l *lookup) start(all *rollbacks, ref *BlockRef, b *Block) {
	*l = lookup{all: all, ref: ref, here: all.of(ref, b), last: l.last[:0], later: l.later}
	clear(l.last[:cap(l.last)])
	clear(l.later)
}

// mark sets the record's Effect.
func (l *lookup) mark(r *Record) {
	if r.Kind != KindStatement || r.Outcome != OutcomeOk || r.XID == 0 || r.isRollback() {
		return
	}
	if r.SessionIndex >= len(l.last) {
		l.last = slices.Grow(l.last, r.SessionIndex+1-len(l.last))[:r.SessionIndex+1]
	}
	last := &l.last[r.SessionIndex]
	if last.xid != r.XID {
		*last = answer{r.XID, l.find(transaction{r.Session.ID(), r.XID}, r.Number)}
		if last.prepared {
			last.effect = l.all.prepared.find(l.all.index, preparedKey{l.ref.Segment.Header.SystemID, r.XID}, r.Time)
		}
	}
	switch {
	case last.parts.have(r):
		r.Effect = EffectRolledBack
	case last.effect == EffectUnknown && r.Shape != nil && r.Shape.Class == ClassTransaction:
		// COMMIT and the like do nothing of their own, and their records may follow that of the transaction.
	default:
		r.Effect = last.effect
	}
}

// find says what became of a transaction that a record of the block is of.
func (l *lookup) find(t transaction, number uint64) outcome {
	f, settled := l.here.find(t, number)
	if settled {
		return outcome{f, l.here.parts[t]}
	}
	o, found := l.later[t]
	if !found {
		o = l.search(t, number)
		if l.later == nil {
			l.later = map[transaction]outcome{}
		}
		l.later[t] = o
	}
	return o
}

func (l *lookup) search(t transaction, number uint64) outcome {
	left := int64(maxLookAhead)
	o := outcome{fate: fate{effect: EffectUnknown}, parts: slices.Clone(l.here.parts[t])}
	for next := range l.all.behind(l.ref) {
		s := l.all.of(next, nil)
		for _, one := range s.parts[t] {
			o.parts = o.parts.add(one)
		}
		f, settled := s.find(t, number)
		if o.fate = f; settled {
			return o
		}
		if left -= next.Length(); left < 0 {
			break
		}
	}
	return o
}

// isRollback says whether the record is of a ROLLBACK, which took effect.
func (r *Record) isRollback() bool {
	return r.Shape != nil && r.Shape.Class == ClassTransaction && string(r.Shape.Command) == "ROLLBACK"
}

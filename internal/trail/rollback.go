// Which statements were rolled back with their transaction.

package trail

import (
	"cmp"
	"encoding/binary"
	"slices"
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

// rolledBack is a transaction that was rolled back.
type rolledBack struct {
	session SessionID
	xid     uint64
}

func (a rolledBack) compare(b rolledBack) int {
	return cmp.Or(a.session.Compare(b.session), cmp.Compare(a.xid, b.xid))
}

// lastEnd is the record of a session's last transaction in a block.
type lastEnd struct {
	session SessionID
	number  uint64
}

// summary is what a block says of the ends of transactions.
type summary struct {
	once   sync.Once
	rolled []rolledBack
	ends   []lastEnd // one for each session that has any
	size   int       // of both, as rollbacks.ends counts it
}

// find says whether a transaction was rolled back, and whether the block tells. Of what
// stands behind the record with that number, the session's first transaction is its own.
func (s *summary) find(t rolledBack, number uint64) (undone, known bool) {
	if _, found := slices.BinarySearchFunc(s.rolled, t, rolledBack.compare); found {
		return true, true
	}
	i, found := slices.BinarySearchFunc(s.ends, t.session, func(e lastEnd, id SessionID) int { return e.session.Compare(id) })
	return false, found && s.ends[i].number > number
}

// sum fills the summary from a block's payload. What cannot be read is for Next to tell.
func (s *summary) sum(b *Block) {
	var ids []SessionID
	last := map[SessionID]uint64{}
	number := b.Header.FirstRecord
	for pos := 0; pos < len(b.raw); {
		n, w := uvarint(b.raw[pos:])
		if w <= 0 || n == 0 || n > uint64(len(b.raw)-pos-w) {
			break
		}
		kind := Kind(b.raw[pos+w])
		end := pos + w + int(n)
		if kind == KindDefSession || kind == KindTransaction || kind == KindDisconnect {
			c := cursor{b: b.raw[pos+w+1 : end : end]}
			if kind == KindDefSession {
				ids = append(ids, sessionOf(&c))
			} else if i := c.varint(); i < uint64(len(ids)) && len(last) < maxEnds && len(s.rolled) < maxEnds {
				last[ids[i]] = number
				if xid, undone := endOf(&c); undone && kind == KindTransaction {
					s.rolled = append(s.rolled, rolledBack{ids[i], xid})
				}
			}
		}
		if kind.IsRecord() {
			number++
		}
		pos = end
	}
	for id, number := range last {
		s.ends = append(s.ends, lastEnd{id, number})
	}
	slices.SortFunc(s.ends, func(a, b lastEnd) int { return a.session.Compare(b.session) })
	slices.SortFunc(s.rolled, rolledBack.compare)
}

func sessionOf(c *cursor) SessionID {
	c.varint()
	c.varint()
	if fixed := c.bytes(12); fixed != nil {
		return SessionID{int64(binary.LittleEndian.Uint64(fixed)), binary.LittleEndian.Uint32(fixed[8:])}
	}
	return SessionID{}
}

// endOf reads what a transaction's record says: its id, and whether it was rolled back.
func endOf(c *cursor) (xid uint64, undone bool) {
	mask := Field(c.varint())
	if mask&FieldOutcome == 0 || mask&FieldXID == 0 || mask&FieldNulls != 0 {
		return 0, false
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
	outcome := Outcome(c.byte())
	if mask&FieldError != 0 {
		c.bytes(5)
		c.str()
	}
	xid = c.varint()
	return xid, !c.bad && outcome == OutcomeError
}

// rollbacks looks up the ends of transactions. It is shared by goroutines.
type rollbacks struct {
	index *Index
	files *Files

	mu   sync.Mutex
	kept map[blockPlace]*summary
	old  []blockPlace // in the order in which they came
	ends int
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
			b = &Block{}
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
		s.size = len(s.ends) + len(s.rolled)
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

// lookup marks the statements of one block that were undone.
type lookup struct {
	all  *rollbacks
	ref  *BlockRef
	here *summary
	// last is the answer for the last transaction of each session definition.
	last []answer
	// later is what is known of transactions that end behind the block.
	later map[rolledBack]bool
}

type answer struct {
	xid    uint64
	undone bool
}

// start begins with a block that was read.
func (l *lookup) start(all *rollbacks, ref *BlockRef, b *Block) {
	*l = lookup{all: all, ref: ref, here: all.of(ref, b), last: l.last[:0], later: l.later}
	clear(l.last[:cap(l.last)])
	clear(l.later)
}

// mark sets the record's Undone.
func (l *lookup) mark(r *Record) {
	if r.Kind != KindStatement || r.Outcome != OutcomeOk || r.XID == 0 || r.isRollback() {
		return
	}
	if r.SessionIndex >= len(l.last) {
		l.last = slices.Grow(l.last, r.SessionIndex+1-len(l.last))[:r.SessionIndex+1]
	}
	last := &l.last[r.SessionIndex]
	if last.xid != r.XID {
		*last = answer{r.XID, l.find(rolledBack{r.Session.ID(), r.XID}, r.Number)}
	}
	r.Undone = last.undone
}

// find says whether a transaction was rolled back that a record of the block is of.
func (l *lookup) find(t rolledBack, number uint64) bool {
	undone, known := l.here.find(t, number)
	if !known {
		if undone, known = l.later[t]; !known {
			undone = l.search(t, number)
			if l.later == nil {
				l.later = map[rolledBack]bool{}
			}
			l.later[t] = undone
		}
	}
	return undone
}

func (l *lookup) search(t rolledBack, number uint64) bool {
	left := int64(maxLookAhead)
	for next := range l.all.behind(l.ref) {
		if undone, known := l.all.of(next, nil).find(t, number); known {
			return undone
		}
		if left -= next.Length(); left < 0 {
			break
		}
	}
	return false
}

// isRollback says whether the record is of a ROLLBACK, which took effect.
func (r *Record) isRollback() bool {
	return r.Shape != nil && r.Shape.Class == ClassTransaction && string(r.Shape.Command) == "ROLLBACK"
}

// Which statements were rolled back with their transaction, or with a part of it.

package trail

import (
	"cmp"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// The record of a transaction follows those of its statements in the same stream. So the effect of a statement
// is looked up in the rest of its block and in the blocks after it. What these say about transactions is summed
// up once for each block, without decoding all records, and the summaries are kept for later lookups.

// Limits for lookups, in stored bytes, and for the summaries that are kept.
const (
	maxLookAhead  = 128 << 20
	maxEnds       = 32 << 10 // of one block; the server's blocks have fewer
	keptEnds      = 64 << 10
	keptSummaries = 32 << 10
)

// transaction identifies the transaction of a session.
type transaction struct {
	session format.SessionID
	xid     uint64
}

func (a transaction) compare(b transaction) int {
	return cmp.Or(a.session.Compare(b.session), cmp.Compare(a.xid, b.xid))
}

// ended is a transaction whose record states its effect.
type ended struct {
	transaction
	fate
}

// fate is the effect of a transaction according to the records of its session. These do not know the effect of
// one that was prepared.
type fate struct {
	effect   format.Effect
	prepared bool
}

// lastEnd is the record of a session's last transaction in a block.
type lastEnd struct {
	session format.SessionID
	number  uint64
}

// UndoneParts are the rolled back parts of a transaction, in order. None is inside another.
type UndoneParts []format.UndonePart

// add appends a part. Parts inside it ended before, and are replaced.
func (p UndoneParts) add(part format.UndonePart) UndoneParts {
	for len(p) > 0 && p[len(p)-1].First >= part.First {
		p = p[:len(p)-1]
	}
	return append(p, part)
}

func (p UndoneParts) contains(r *format.Record) bool {
	i, found := slices.BinarySearchFunc(p, r.Seq, func(part format.UndonePart, seq uint64) int {
		switch {
		case part.Last < seq:
			return -1
		case part.First > seq:
			return 1
		}
		return 0
	})
	return found && p[i].Has(r)
}

// summary is what a block says about the ends of transactions.
type summary struct {
	once  sync.Once
	ended []ended
	parts map[transaction]UndoneParts
	ends  []lastEnd // one for each session that has any
	size  int       // of all, as rollbacks.ends counts it
}

// find returns the effect of a transaction, and whether the block settles it: if the session has ended a
// transaction, or itself, after the record with that number, the transaction is over, and later blocks have no
// record of it.
func (s *summary) find(t transaction, number uint64) (f fate, settled bool) {
	if i, found := slices.BinarySearchFunc(s.ended, t, func(e ended, t transaction) int {
		return e.compare(t)
	}); found {
		return s.ended[i].fate, true
	}
	i, found := slices.BinarySearchFunc(s.ends, t.session, func(e lastEnd, id format.SessionID) int {
		return e.session.Compare(id)
	})
	return fate{effect: format.EffectUnknown}, found && s.ends[i].number > number
}

// sum fills the summary from a loaded block. It ignores what cannot be read: Next reports that.
func (s *summary) sum(b *format.Block) {
	last := map[format.SessionID]uint64{}
	for end := range b.Ends {
		t := transaction{end.Session, end.XID}
		switch {
		case end.Part != nil:
			if s.size < maxEnds {
				if s.parts == nil {
					s.parts = map[transaction]UndoneParts{}
				}
				s.parts[t] = s.parts[t].add(*end.Part)
				s.size++
			}
		case len(last) < maxEnds && len(s.ended) < maxEnds:
			last[end.Session] = end.Number
			if end.XID != 0 {
				s.ended = append(s.ended, ended{t, fate{end.Effect, end.Prepared}})
			}
		}
	}
	for id, number := range last {
		s.ends = append(s.ends, lastEnd{id, number})
	}
	slices.SortFunc(s.ends, func(a, b lastEnd) int { return a.session.Compare(b.session) })
	slices.SortFunc(s.ended, func(a, b ended) int { return a.compare(b.transaction) })
}

// spareBlocks are buffers for blocks that are only read for their summary. Summaries do not point into them.
var spareBlocks = sync.Pool{New: func() any { return &format.Block{} }}

// rollbacks looks up the ends of transactions. Several goroutines share it.
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

// summaryOf returns the summary of a block, and reads the block for it if it has no summary yet.
func (x *rollbacks) summaryOf(ref *BlockRef, b *format.Block) *summary {
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
			b = spareBlocks.Get().(*format.Block)
			defer spareBlocks.Put(b)
			if x.files.Read(ref, b) != nil {
				return // the merge reports it if the block is wanted
			}
		}
		s.sum(b)
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.kept[place] != s {
			return // it was dropped meanwhile
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

// behind yields the blocks of the stream after a block.
func (x *rollbacks) behind(ref *BlockRef) func(yield func(*BlockRef) bool) {
	return func(yield func(*BlockRef) bool) {
		i := slices.IndexFunc(x.index.Streams, func(s StreamIndex) bool { return s.Stream == ref.Segment.Stream })
		if i < 0 {
			return
		}
		segments := x.index.Streams[i].Segments
		for k := range segments {
			segment := &segments[k]
			if segment.Blocks == 0 || segment.last.Number <= ref.Number || segment.Segment.KeyErr != nil {
				continue
			}
			for _, next := range x.index.kept.refsOf(segment) {
				if next.Number > ref.Number && !yield(&next) {
					return
				}
			}
		}
	}
}

// lookup finds the effects of the statements in one block.
type lookup struct {
	all  *rollbacks
	ref  *BlockRef
	here *summary
	// last is the answer for the last transaction of each session definition.
	last []answer
	// later is what is known of transactions that end after the block.
	later map[transaction]outcome
}

// outcome is the effect of a transaction, and its parts that were rolled back before its end.
type outcome struct {
	fate
	parts UndoneParts
}

type answer struct {
	xid uint64
	outcome
}

// start begins with a loaded block.
func (l *lookup) start(all *rollbacks, ref *BlockRef, b *format.Block) {
	*l = lookup{all: all, ref: ref, here: all.summaryOf(ref, b), last: l.last[:0], later: l.later}
	clear(l.last[:cap(l.last)])
	clear(l.later)
}

// mark sets the record's Effect.
func (l *lookup) mark(r *format.Record) {
	if r.Kind != format.KindStatement || r.Outcome != format.OutcomeOk || r.XID == 0 || r.IsRollback() {
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
	case last.parts.contains(r):
		r.Effect = format.EffectRolledBack
	case last.effect == format.EffectUnknown && r.Shape != nil && r.Shape.Class == format.ClassTransaction:
		// COMMIT and the like have no effect of their own, and their records may follow that of the
		// transaction.
	default:
		r.Effect = last.effect
	}
}

// find returns the outcome of the transaction to which a record of the block belongs.
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
	o := outcome{fate: fate{effect: format.EffectUnknown}, parts: slices.Clone(l.here.parts[t])}
	for next := range l.all.behind(l.ref) {
		s := l.all.summaryOf(next, nil)
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

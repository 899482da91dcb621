// Which records of each session are there, and which are missing.

package recovery

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// A ledger knows which records there are: for every session, its sequence numbers.
type ledger struct {
	sessions map[trail.SessionID]*numbers
	// blind says that blocks are in the copy whose records nobody here can read, so
	// that what seems to be missing may be there.
	blind bool
}

// numbers are the sequence numbers of one session.
type numbers struct {
	seen      []trail.Span // in order, without overlaps
	explained []trail.Span // those that gap records stand for
	ended     bool
}

func newLedger() *ledger { return &ledger{sessions: map[trail.SessionID]*numbers{}} }

func (l *ledger) session(id trail.SessionID) *numbers {
	n := l.sessions[id]
	if n == nil {
		n = &numbers{}
		l.sessions[id] = n
	}
	return n
}

// find is the index of the first span that ends at seq or after it.
func (n *numbers) find(seq uint64) int {
	i, _ := slices.BinarySearchFunc(n.seen, seq, func(s trail.Span, seq uint64) int { return cmp.Compare(s.Last, seq) })
	return i
}

func (n *numbers) add(seq uint64) {
	i := n.find(seq)
	if i < len(n.seen) && n.seen[i].First <= seq {
		return
	}
	joinsBefore := i > 0 && n.seen[i-1].Last+1 == seq
	joinsAfter := i < len(n.seen) && n.seen[i].First == seq+1
	switch {
	case joinsBefore && joinsAfter:
		n.seen[i-1].Last = n.seen[i].Last
		n.seen = slices.Delete(n.seen, i, i+1)
	case joinsBefore:
		n.seen[i-1].Last = seq
	case joinsAfter:
		n.seen[i].First = seq
	default:
		n.seen = slices.Insert(n.seen, i, trail.Span{First: seq, Last: seq})
	}
}

// all says whether all numbers from first to last are there.
func (n *numbers) all(first, last uint64) bool {
	i := n.find(last)
	return i < len(n.seen) && n.seen[i].First <= first
}

// has says whether the session's record of that number is there.
func (l *ledger) has(id trail.SessionID, seq uint64) bool {
	n := l.sessions[id]
	return n != nil && seq != 0 && n.all(seq, seq)
}

// last is the greatest number of a session that is known.
func (l *ledger) last(id trail.SessionID) (seq uint64, known bool) {
	n := l.sessions[id]
	if n == nil || len(n.seen) == 0 {
		return 0, false
	}
	return n.seen[len(n.seen)-1].Last, true
}

func (l *ledger) ended(id trail.SessionID) bool {
	n := l.sessions[id]
	return n != nil && n.ended
}

// note takes a record in.
func (l *ledger) note(id trail.SessionID, kind trail.Kind, seq uint64, extra func(name string) ([]byte, bool)) {
	n := l.session(id)
	if seq != 0 {
		n.add(seq)
	}
	switch kind {
	case trail.KindDisconnect, trail.KindAuthFailed:
		n.ended = true
	case trail.KindGap:
		number := func(name string) uint64 {
			if extra == nil {
				return 0 // one of our own, of nobody's numbers
			}
			value, _ := extra(name)
			v, _ := strconv.ParseUint(string(value), 10, 64)
			return v
		}
		if first, last := number("first_seq"), number("last_seq"); first > 0 && last >= first {
			n.explained = append(n.explained, trail.Span{First: first, Last: last})
		}
	}
}

// block takes all records of a block in.
func (l *ledger) block(b *trail.Block) error {
	var r trail.Record
	for {
		if err := b.Next(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if r.Kind != trail.KindData {
			l.note(r.Session.ID(), r.Kind, r.Seq, r.ExtraValue)
		}
	}
}

// SessionGap is records of a session that are not there.
type SessionGap struct {
	Session string `json:"session"`
	First   uint64 `json:"first_seq"`
	Last    uint64 `json:"last_seq"`
}

// gaps are the numbers that are missing and that no gap record explains. Of sessions
// that began before the first segment that is there, the beginning is not missing.
func (l *ledger) gaps(partial bool) (missing []SessionGap, records uint64) {
	for _, id := range slices.SortedFunc(maps.Keys(l.sessions), trail.SessionID.Compare) {
		n := l.sessions[id]
		next := uint64(1)
		if partial && len(n.seen) > 0 {
			next = n.seen[0].First
		}
		slices.SortFunc(n.explained, trail.Span.Compare)
		for _, s := range n.seen {
			for _, hole := range trail.Uncovered(n.explained, next, s.First) {
				missing = append(missing, SessionGap{id.String(), hole.First, hole.Last})
				records += hole.Last - hole.First + 1
			}
			next = s.Last + 1
		}
	}
	return missing, records
}

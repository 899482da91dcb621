// Which records of each session exist, and which are missing.

package recovery

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
)

// A ledger has the sequence numbers of all records of each session.
type ledger struct {
	sessions map[format.SessionID]*numbers
	// blind is set if the copy has blocks whose records cannot be read, so that records that seem to be missing may
	// exist.
	blind bool
}

// numbers are the sequence numbers of one session.
type numbers struct {
	seen      []format.Span // in order, without overlaps
	explained []format.Span // the ones that gap records account for
	ended     bool
}

func newLedger() *ledger { return &ledger{sessions: map[format.SessionID]*numbers{}} }

func (l *ledger) session(id format.SessionID) *numbers {
	n := l.sessions[id]
	if n == nil {
		n = &numbers{}
		l.sessions[id] = n
	}
	return n
}

// find returns the index of the first span that ends at seq or after it.
func (n *numbers) find(seq uint64) int {
	i, _ := slices.BinarySearchFunc(n.seen, seq, func(s format.Span, seq uint64) int {
		return cmp.Compare(s.Last, seq)
	})
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
		n.seen = slices.Insert(n.seen, i, format.Span{First: seq, Last: seq})
	}
}

// hasAll reports whether all numbers from first to last have been seen.
func (n *numbers) hasAll(first, last uint64) bool {
	i := n.find(last)
	return i < len(n.seen) && n.seen[i].First <= first
}

// has reports whether the session's record with this number has been seen.
func (l *ledger) has(id format.SessionID, seq uint64) bool {
	n := l.sessions[id]
	return n != nil && seq != 0 && n.hasAll(seq, seq)
}

// last returns the greatest known number of a session.
func (l *ledger) last(id format.SessionID) (seq uint64, known bool) {
	n := l.sessions[id]
	if n == nil || len(n.seen) == 0 {
		return 0, false
	}
	return n.seen[len(n.seen)-1].Last, true
}

func (l *ledger) ended(id format.SessionID) bool {
	n := l.sessions[id]
	return n != nil && n.ended
}

// add adds a record.
func (l *ledger) add(id format.SessionID, kind format.Kind, seq uint64, extra func(name string) ([]byte, bool)) {
	n := l.session(id)
	if seq != 0 {
		n.add(seq)
	}
	switch kind {
	case format.KindDisconnect, format.KindAuthFailed:
		n.ended = true
	case format.KindGap:
		number := func(name string) uint64 {
			if extra == nil {
				return 0 // a record of steno recover, which has no sequence number
			}
			value, _ := extra(name)
			v, _ := strconv.ParseUint(string(value), 10, 64)
			return v
		}
		if first, last := number("first_seq"), number("last_seq"); first > 0 && last >= first {
			n.explained = append(n.explained, format.Span{First: first, Last: last})
		}
	}
}

// addBlock adds all records of a block.
func (l *ledger) addBlock(b *format.Block) error {
	var r format.Record
	for {
		if err := b.Next(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if r.Kind != format.KindData {
			l.add(r.Session.ID(), r.Kind, r.Seq, r.ExtraValue)
		}
	}
}

// SessionGap is a range of missing records of a session.
type SessionGap struct {
	Session string `json:"session"`
	First   uint64 `json:"first_seq"`
	Last    uint64 `json:"last_seq"`
}

// gaps returns the numbers that are missing and that no gap record explains. If partial is set, the beginning of
// sessions is not considered missing, because they may have begun before the first existing segment.
func (l *ledger) gaps(partial bool) (missing []SessionGap, records uint64) {
	for _, id := range slices.SortedFunc(maps.Keys(l.sessions), format.SessionID.Compare) {
		n := l.sessions[id]
		next := uint64(1)
		if partial && len(n.seen) > 0 {
			next = n.seen[0].First
		}
		slices.SortFunc(n.explained, format.Span.Compare)
		for _, s := range n.seen {
			for _, hole := range format.Uncovered(n.explained, next, s.First) {
				missing = append(missing, SessionGap{id.String(), hole.First, hole.Last})
				records += hole.Last - hole.First + 1
			}
			next = s.Last + 1
		}
	}
	return missing, records
}

package recovery

import (
	"cmp"
	"io"
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
	seen      []span // in order, without overlaps
	explained []span // those that gap records stand for
	ended     bool
}

type span struct{ first, last uint64 }

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
	i, _ := slices.BinarySearchFunc(n.seen, seq, func(s span, seq uint64) int { return cmp.Compare(s.last, seq) })
	return i
}

func (n *numbers) add(seq uint64) {
	i := n.find(seq)
	if i < len(n.seen) && n.seen[i].first <= seq {
		return
	}
	joinsBefore := i > 0 && n.seen[i-1].last+1 == seq
	joinsAfter := i < len(n.seen) && n.seen[i].first == seq+1
	switch {
	case joinsBefore && joinsAfter:
		n.seen[i-1].last = n.seen[i].last
		n.seen = slices.Delete(n.seen, i, i+1)
	case joinsBefore:
		n.seen[i-1].last = seq
	case joinsAfter:
		n.seen[i].first = seq
	default:
		n.seen = slices.Insert(n.seen, i, span{seq, seq})
	}
}

// all says whether all numbers from first to last are there.
func (n *numbers) all(first, last uint64) bool {
	i := n.find(last)
	return i < len(n.seen) && n.seen[i].first <= first
}

// has says whether the session's record of that number is there.
func (l *ledger) has(id trail.SessionID, seq uint64) bool {
	n := l.sessions[id]
	if n == nil || seq == 0 {
		return false
	}
	i := n.find(seq)
	return i < len(n.seen) && n.seen[i].first <= seq
}

// last is the greatest number of a session that is known.
func (l *ledger) last(id trail.SessionID) (seq uint64, known bool) {
	n := l.sessions[id]
	if n == nil || len(n.seen) == 0 {
		return 0, false
	}
	return n.seen[len(n.seen)-1].last, true
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
			n.explained = append(n.explained, span{first, last})
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
	ids := make([]trail.SessionID, 0, len(l.sessions))
	for id := range l.sessions {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b trail.SessionID) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
	for _, id := range ids {
		n := l.sessions[id]
		next := uint64(1)
		if partial && len(n.seen) > 0 {
			next = n.seen[0].first
		}
		slices.SortFunc(n.explained, func(a, b span) int { return cmp.Compare(a.first, b.first) })
		for _, s := range n.seen {
			for _, hole := range unexplained(n.explained, next, s.first) {
				missing = append(missing, SessionGap{id.String(), hole.first, hole.last})
				records += hole.last - hole.first + 1
			}
			next = s.last + 1
		}
	}
	return missing, records
}

// unexplained is what of the numbers from first up to, but without, end no gap
// record stands for.
func unexplained(explained []span, first, end uint64) (holes []span) {
	for _, e := range explained {
		if first >= end {
			break
		}
		if e.last < first {
			continue
		}
		if e.first > first {
			holes = append(holes, span{first, min(e.first, end) - 1})
		}
		first = max(first, e.last+1)
	}
	if first < end {
		holes = append(holes, span{first, end - 1})
	}
	return holes
}

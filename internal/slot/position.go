// The positions that a slot can be moved to, and those that are lost.

package slot

import (
	"fmt"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// firstPosition returns the first existing block of a stream; ok is false for a stream without segments, of which a
// slot needs all that will come.
func firstPosition(s *trail.Stream) (p Position, ok bool) {
	if len(s.Segments) == 0 {
		return p, false
	}
	seg := s.Segments[0]
	p = Position{s.Number, seg.Number, 1}
	if seg.Err == nil {
		p.Block = max(1, seg.Header.FirstBlock)
	}
	return p, true
}

// endPosition returns the block that will come next in a stream.
func endPosition(s *trail.Stream) (p Position, ok bool) {
	if len(s.Segments) == 0 {
		return p, false
	}
	p = Position{s.Number, s.Segments[len(s.Segments)-1].Number, 1}
	for i := len(s.Segments) - 1; i >= 0; i-- {
		seg := s.Segments[i]
		refs, _ := seg.Index()
		if n := len(refs); n > 0 {
			p.Block = refs[n-1].Number + 1
			return p, true
		}
		if seg.Err == nil {
			p.Block = max(1, seg.Header.FirstBlock)
			return p, true
		}
	}
	return p, true
}

// positionAt returns the first block of a stream, from a position on, with a record that ended at a time or later. A
// segment that cannot be read may have such a record. If there is none, found is false, and the position is the end.
func positionAt(s *trail.Stream, from Position, when int64) (p Position, found bool, err error) {
	for _, seg := range s.Segments {
		if seg.Number < from.Segment {
			continue
		}
		refs, errs := seg.Index()
		for i := range refs {
			if refs[i].LastEnd >= when && refs[i].Number >= from.Block {
				return Position{s.Number, seg.Number, refs[i].Number}, true, nil
			}
		}
		for _, err := range errs {
			if problem := format.AsProblem(err); problem == nil || problem.Class != format.ProblemTorn {
				return p, false, err
			}
		}
	}
	p, _ = endPosition(s)
	return p, false, nil
}

// before reports whether p comes before q in their stream.
func (p Position) before(q Position) bool {
	return p.Segment < q.Segment || p.Segment == q.Segment && p.Block < q.Block
}

// Edge is the beginning or the end of a trail.
type Edge int

// The edges of a trail.
const (
	Start Edge = iota
	End
)

// ParseEdge reads an edge.
func ParseEdge(s string) (Edge, error) {
	switch s {
	case "start":
		return Start, nil
	case "end":
		return End, nil
	}
	return 0, fmt.Errorf("%q is neither start nor end", s)
}

// Target is where to move a slot: in all streams, or in some.
type Target struct {
	positions func(t *trail.Trail, s *Slot, force bool) ([]Position, error)
}

// ParseTarget reads a target: start, end, a time, or positions.
func ParseTarget(to string, now time.Time) (Target, error) {
	switch to {
	case "start":
		return Target{func(t *trail.Trail, _ *Slot, _ bool) ([]Position, error) {
			return eachStream(t, firstPosition), nil
		}}, nil
	case "end":
		return Target{func(t *trail.Trail, s *Slot, force bool) ([]Position, error) {
			if !force {
				return nil, refusedFor(AtEnd, "the current end may be beyond what your reader has read")
			}
			return eachStream(t, endPosition), nil
		}}, nil
	}
	if places, ok := query.ParsePositions(to); ok {
		return Target{func(t *trail.Trail, _ *Slot, _ bool) ([]Position, error) {
			var all []Position
			for _, p := range places {
				p, err := p.Locate(t)
				if err != nil {
					return nil, err
				}
				all = append(all, Position(p))
			}
			return all, nil
		}}, nil
	}
	when, err := query.ParseWhen(to, now)
	if err != nil {
		return Target{}, fmt.Errorf("invalid position %q: use end, STREAM/SEGMENT, STREAM/SEGMENT/BLOCK, or a time "+
			"such as 2026-11-21T20:45:13Z or 10m", to)
	}
	return Target{func(t *trail.Trail, slot *Slot, force bool) ([]Position, error) {
		return positionsAt(t, slot, when, when >= query.Micros(now), force)
	}}, nil
}

// positionsAt returns the positions at a moment. A moment after the end of the trail is refused unless forced: it
// would mean the current end, which may be beyond what the reader has read.
func positionsAt(t *trail.Trail, slot *Slot, when int64, ahead, force bool) (all []Position, err error) {
	atEnd, moves := true, false
	for _, s := range t.Streams {
		if len(s.Segments) == 0 {
			continue
		}
		wanted := slot.positionIn(s.Number)
		from := wanted
		if force {
			from = Position{s.Number, 1, 1}
		}
		p, found, err := positionAt(s, from, when)
		if err != nil && !force {
			return nil, &UnsafeError{Unreadable, err}
		}
		if err != nil {
			p, _ = endPosition(s)
		}
		atEnd = atEnd && !found
		moves = moves || p != wanted
		all = append(all, p)
	}
	if force || !moves {
		return all, nil
	}
	if ahead {
		return nil, refusedFor(Ahead, "%s is not over yet: no reader can have read everything that ended before it",
			render.Time(when))
	}
	if atEnd {
		return nil, refusedFor(PastEnd, "the trail contains nothing that ended at %s or later, so this would be its "+
			"end, which may be beyond what your reader has read", render.Time(when))
	}
	return all, nil
}

// eachStream collects a position of each stream for which f has one.
func eachStream(t *trail.Trail, f func(s *trail.Stream) (Position, bool)) (all []Position) {
	for _, s := range t.Streams {
		if p, ok := f(s); ok {
			all = append(all, p)
		}
	}
	return all
}

// isDeleted reports whether the server has deleted what a slot needs of a stream.
func isDeleted(s *trail.Stream, p Position) bool {
	return len(s.Segments) > 0 && p.Segment < s.Segments[0].Number
}

// amountBehind returns what a slot keeps of a stream: the segments, and the bytes that are not read yet.
func amountBehind(s *trail.Stream, p Position) (segments int, bytes int64) {
	for _, seg := range s.Segments {
		if seg.Number < p.Segment {
			continue
		}
		segments++
		bytes += seg.Size
		if seg.Number != p.Segment {
			continue
		}
		refs, errs := seg.Index()
		if n := len(refs); seg.Last && n > 0 && len(errs) == 0 {
			bytes -= seg.Size - refs[n-1].Offset - refs[n-1].Length() // preallocated space
		}
		read := int64(0)
		for i := range refs {
			if refs[i].Number >= p.Block {
				break
			}
			read = refs[i].Offset + refs[i].Length()
		}
		if len(refs) == 0 {
			read = seg.Size
		}
		bytes -= read
	}
	return segments, bytes
}

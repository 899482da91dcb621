// Positions in a trail as people write them: stream, segment, block.

package query

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// Position is a block of a stream. Block 0 is the segment's first.
type Position struct {
	Stream  uint32
	Segment uint64
	Block   uint64
}

// ParsePosition reads STREAM/SEGMENT/BLOCK, or STREAM/SEGMENT.
func ParsePosition(s string) (p Position, ok bool) {
	words := strings.Split(s, "/")
	if len(words) != 2 && len(words) != 3 {
		return p, false
	}
	number := func(i, bits int, least uint64) uint64 {
		n, err := strconv.ParseUint(words[i], 10, bits)
		ok = ok && err == nil && n >= least && strconv.FormatUint(n, 10) == words[i]
		return n
	}
	ok = true
	p.Stream, p.Segment = uint32(number(0, 32, 0)), number(1, 63, 1)
	if len(words) == 3 {
		p.Block = number(2, 63, 1)
	}
	return p, ok
}

// ParsePositions reads positions with commas between them, at most one in each stream.
func ParsePositions(s string) (all []Position, ok bool) {
	for _, word := range strings.Split(s, ",") {
		p, ok := ParsePosition(word)
		if !ok || slices.ContainsFunc(all, func(q Position) bool { return q.Stream == p.Stream }) {
			return nil, false
		}
		all = append(all, p)
	}
	return all, true
}

// missingPosition says why a position is not in a trail.
type missingPosition string

func (e missingPosition) Error() string { return string(e) }

// Locate checks that a position is in the trail; without a block it becomes the first
// of its segment.
func (p Position) Locate(t *trail.Trail) (Position, error) {
	s := p.stream(t)
	if s == nil || len(s.Segments) == 0 {
		return p, missingPosition(fmt.Sprintf("stream %d is not in the trail", p.Stream))
	}
	i := slices.IndexFunc(s.Segments, func(seg *trail.Segment) bool { return seg.Number == p.Segment })
	if i < 0 {
		return p,
			missingPosition(fmt.Sprintf("segment %d of stream %d does not exist: there are segments %d to %d",
				p.Segment, p.Stream, s.Segments[0].Number, s.Segments[len(s.Segments)-1].Number))
	}
	seg := s.Segments[i]
	if seg.Err != nil {
		return p, seg.Err
	}
	first := max(1, seg.Header.FirstBlock)
	next := first
	if refs, _ := seg.Index(); len(refs) > 0 {
		next = refs[len(refs)-1].Number + 1
	}
	if p.Block == 0 {
		p.Block = first
	}
	if p.Block < first || p.Block > next {
		return p,
			missingPosition(fmt.Sprintf("block %d is not in segment %d of stream %d, which has the blocks from %d "+
				"up to %d", p.Block, p.Segment, p.Stream, first, next-1))
	}
	return p, nil
}

func (p Position) stream(t *trail.Trail) *trail.Stream {
	for _, s := range t.Streams {
		if s.Number == p.Stream {
			return s
		}
	}
	return nil
}

// gone says whether a position lies in what was deleted since: its segment and its block
// are before the first ones that are there.
func (p Position) gone(t *trail.Trail) bool {
	s := p.stream(t)
	if s == nil || len(s.Segments) == 0 {
		return false
	}
	first := s.Segments[0]
	return p.Segment < first.Number && (first.Err != nil || p.Block <= first.Header.FirstBlock)
}

// ParseBlocks reads positions with commas between them, at most one in each stream, each of a block.
func ParseBlocks(s string) ([]Position, error) {
	all, ok := ParsePositions(s)
	if !ok || slices.ContainsFunc(all, func(p Position) bool { return p.Block == 0 }) {
		return nil, fmt.Errorf("%q is not a position in each stream, such as 0/17/20311,1/3/881", s)
	}
	return all, nil
}

// LocateEnds checks that positions at which something ends are in the trail, or were before they were deleted.
func LocateEnds(t *trail.Trail, ends []Position) error {
	for _, p := range ends {
		if p.gone(t) {
			continue
		}
		// what is wrong with the segment itself, the reader tells
		if _, err := p.Locate(t); errors.As(err, new(missingPosition)) {
			return err
		}
	}
	return nil
}

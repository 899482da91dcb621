// Positions in a trail as people write them: stream, segment, block.

package query

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/exit"
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
		return p, missingPosition(fmt.Sprintf("segment %d of stream %d does not exist: there are segments %d to %d", p.Segment, p.Stream, s.Segments[0].Number, s.Segments[len(s.Segments)-1].Number))
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
		return p, missingPosition(fmt.Sprintf("block %d is not in segment %d of stream %d, which has the blocks from %d up to %d", p.Block, p.Segment, p.Stream, first, next-1))
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

// PositionOptions choose blocks by their place: what a slot wants, up to a position.
type PositionOptions struct {
	Slot   string
	Before string

	// Wants finds the first block that a slot wants of each stream.
	Wants func(trail, slot string) (func(stream uint32) uint64, error)
}

// Blocks makes the choice; nil is all blocks.
func (o *PositionOptions) Blocks(t *trail.Trail) (func(*trail.BlockRef) bool, error) {
	if o.Slot == "" && o.Before == "" {
		return nil, nil
	}
	if !t.Whole || t.Path == "" {
		return nil, exit.Usagef("--slot and --before require a single trail")
	}
	from := func(uint32) uint64 { return 0 }
	if o.Slot != "" {
		var err error
		if from, err = o.Wants(t.Path, o.Slot); err != nil {
			return nil, err
		}
	}
	if o.Before == "" {
		return func(r *trail.BlockRef) bool { return r.Number >= from(r.Segment.Stream.Number) }, nil
	}
	places, ok := ParsePositions(o.Before)
	if !ok || slices.ContainsFunc(places, func(p Position) bool { return p.Block == 0 }) {
		return nil, exit.Usagef("--before: %q is not a position in each stream, such as 0/17/20311,1/3/881", o.Before)
	}
	before := map[uint32]uint64{}
	for _, p := range places {
		before[p.Stream] = p.Block
		if p.gone(t) {
			continue
		}
		// what is wrong with the segment itself, the reader tells
		if _, err := p.Locate(t); errors.As(err, new(missingPosition)) {
			return nil, exit.Usagef("--before: %w", err)
		}
	}
	return func(r *trail.BlockRef) bool {
		n := r.Segment.Stream.Number
		return r.Number >= from(n) && r.Number < before[n]
	}, nil
}

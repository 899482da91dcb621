// Reading a trail in parts, after each of which a reader can record how far it is.

package trail

import (
	"context"
	"errors"
	"math"
	"slices"
)

// Place is a block of a stream. All earlier blocks were read.
type Place struct {
	Stream  uint32
	Segment uint64
	Block   uint64
}

// partBytes is the approximate size of a part.
var partBytes int64 = 64 << 20

// MergeInParts does the same as Merge, but for a few segments after the other, in the order in which they were
// written. Records are in order only within a part. After each part, it calls taken with the blocks that come
// next. The blocks of a stream begin with number from.
func (x *Index) MergeInParts(
	ctx context.Context, from func(stream uint32) uint64, opts MergeOptions, emit func(line []byte) error,
	taken func([]Place) error,
) error {
	next := make([]int, len(x.Streams)) // the segment of each stream
	part := map[*Segment]bool{}
	opts.segment = func(s *Segment) bool { return part[s] }
	blocks := opts.Blocks
	opts.Blocks = func(r *BlockRef) bool {
		return r.Number >= from(r.Segment.Stream.Number) && (blocks == nil || blocks(r))
	}
	// otherwise, each part would report this
	for _, err := range slices.Concat(x.Errs, x.missingSegments(opts.Since, opts.Until, opts.Blocks)) {
		opts.Warn(err)
	}
	quiet := &Index{Streams: x.Streams, keys: x.keys}
	for {
		clear(part)
		var places []Place
		for size := int64(0); size < partBytes; {
			s := x.oldest(next)
			if s < 0 {
				break
			}
			segment := &x.Streams[s].Segments[next[s]]
			next[s]++
			if segment.Blocks == 0 || segment.last.Number < from(x.Streams[s].Stream.Number) {
				continue
			}
			part[segment.Segment] = true
			size += segment.Segment.Size
		}
		if len(part) == 0 {
			return nil
		}
		if err := quiet.merge(ctx, opts, emit); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return err
		}
		for i := range x.Streams {
			last := next[i] - 1
			// as a segment has none when it has just been begun
			for last >= 0 && x.Streams[i].Segments[last].Blocks == 0 {
				last--
			}
			if last < 0 {
				continue
			}
			if segment := &x.Streams[i].Segments[last]; segment.last.Number >= from(x.Streams[i].Stream.Number) {
				places = append(places, Place{x.Streams[i].Stream.Number, segment.Segment.Number,
					segment.last.Number + 1})
			}
		}
		if err := taken(places); err != nil {
			return err
		}
	}
}

// oldest returns the stream whose next segment was written first; -1: no stream has a next segment.
func (x *Index) oldest(next []int) int {
	found, end := -1, int64(math.MaxInt64)
	for i := range x.Streams {
		if next[i] == len(x.Streams[i].Segments) {
			continue
		}
		if segment := &x.Streams[i].Segments[next[i]]; found < 0 || segment.LastEnd < end {
			found, end = i, segment.LastEnd
		}
	}
	return found
}

// Places returns the block that follows the last one of the index, for each stream with blocks.
func (x *Index) Places() (all []Place) {
	for i := range x.Streams {
		segments := x.Streams[i].Segments
		for k := len(segments) - 1; k >= 0; k-- {
			if segment := &segments[k]; segment.Blocks > 0 {
				all = append(all, Place{x.Streams[i].Stream.Number, segment.Segment.Number, segment.last.Number + 1})
				break
			}
		}
	}
	return all
}

// Places returns the next block of each stream whose last block is known.
func (l *Live) Places() (all []Place) {
	for _, s := range l.streams {
		if s.segment != nil && s.block > 0 {
			all = append(all, Place{l.index.Streams[s.index].Stream.Number, s.segment.Number, s.block + 1})
		}
	}
	return all
}

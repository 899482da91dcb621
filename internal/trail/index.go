// The index of a trail: where the blocks are, and which times they cover.

package trail

import (
	"math"
	"slices"
	"sync"
)

// Index is what the headers of all blocks of a trail say, summed up by segment: it
// grows with the segments, not with the blocks.  The blocks of a segment are read
// again when it is their turn.
type Index struct {
	Streams []StreamIndex
	// Errs is what is wrong with the segments' block headers.
	Errs []error

	holes []hole
	keys  *Keys
	kept  keptRefs
}

// StreamIndex is one stream of an index.
type StreamIndex struct {
	Stream   *Stream
	Segments []SegmentIndex

	// live are the blocks that were taken since, the last ones of them.
	live []BlockRef
}

// SegmentIndex is what the headers of a segment's blocks say.
type SegmentIndex struct {
	Segment *Segment
	Blocks  int
	Records uint64
	// FirstTime and LastEnd are those of all blocks that have records.
	FirstTime, LastEnd int64

	last BlockRef // zero without blocks
	end  int64    // behind the last block; what comes later is not of this index

	copied []BlockRef // all blocks, if they do not stand in the segment's own file
}

// Index reads the headers of all blocks.
func (t *Trail) Index() *Index {
	x := &Index{Errs: slices.Clone(t.Errors), keys: t.keys}
	for _, s := range t.Streams {
		si := StreamIndex{Stream: s}
		for _, seg := range s.Segments {
			refs, errs := seg.Index()
			x.Errs = append(x.Errs, errs...)
			si.Segments = append(si.Segments, summarize(seg, counted(refs)))
		}
		x.holes = append(x.holes, si.holes()...)
		x.Streams = append(x.Streams, si)
	}
	return x
}

// summarize sums up the blocks of a segment.
func summarize(seg *Segment, refs []BlockRef) SegmentIndex {
	one := SegmentIndex{Segment: seg, FirstTime: math.MaxInt64, LastEnd: math.MinInt64}
	for i := range refs {
		ref := &refs[i]
		one.Blocks++
		if ref.Records > 0 {
			one.Records += uint64(ref.Records)
			one.FirstTime, one.LastEnd = min(one.FirstTime, ref.FirstTime), max(one.LastEnd, ref.LastEnd)
		}
	}
	if n := len(refs); n > 0 {
		one.last, one.end = refs[n-1], refs[n-1].Offset+refs[n-1].Length()
	}
	return one
}

// refs reads a segment's blocks again: those that were there when it was indexed.
// An error is that of the file. What was wrong between blocks is in Index.Errs.
func (s *SegmentIndex) refs() ([]BlockRef, error) {
	if s.Blocks == 0 {
		return nil, nil
	}
	if s.copied != nil {
		return slices.Clone(s.copied), nil
	}
	f, err := OpenFile(s.Segment.Path)
	if err != nil {
		return nil, s.Segment.gone(err)
	}
	defer f.Close()
	refs, _ := s.Segment.index(f)
	refs = slices.DeleteFunc(refs, func(ref BlockRef) bool { return s.Segment.isTwice(ref.Offset) })
	for len(refs) > 0 && refs[len(refs)-1].Offset >= s.end {
		refs = refs[:len(refs)-1]
	}
	return refs, nil
}

// Refs are all blocks of the stream in the order in which they were written.
func (s *StreamIndex) Refs() (all []BlockRef) {
	for i := range s.Segments {
		refs, _ := s.Segments[i].refs()
		all = append(all, refs...)
	}
	return append(all, s.live...)
}

// lastLive bounds the blocks of a stream that is followed that are remembered for the
// data parts of records to come.
const lastLive = 10_000

// take adds a block of a stream that is followed.
func (s *StreamIndex) take(ref *BlockRef) {
	if len(s.live) >= 2*lastLive {
		s.live = slices.Clone(s.live[lastLive:])
	}
	s.live = append(s.live, *ref)
}

// before yields the stream's blocks with a smaller number than a block has, the last
// first.
func (x *Index) before(s *StreamIndex, number uint64, yield func(*BlockRef) bool) bool {
	backwards := func(refs []BlockRef) bool {
		for k := len(refs) - 1; k >= 0; k-- {
			if refs[k].Number < number && !yield(&refs[k]) {
				return false
			}
		}
		return true
	}
	if !backwards(s.live) {
		return false
	}
	for i := len(s.Segments) - 1; i >= 0; i-- {
		one := &s.Segments[i]
		if one.Segment.Err == nil && one.Segment.Header.FirstBlock >= number {
			continue
		}
		if !backwards(x.kept.of(one)) {
			return false
		}
	}
	return true
}

// keptRefs are the blocks of the segments that were read last for data parts.
type keptRefs struct {
	mu   sync.Mutex
	last []keptSegment
}

type keptSegment struct {
	of   *Segment
	refs []BlockRef
}

// maxKeptSegments is how many segments' blocks are kept.
const maxKeptSegments = 4

func (k *keptRefs) of(s *SegmentIndex) []BlockRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(k.last, func(one keptSegment) bool { return one.of == s.Segment }); i >= 0 {
		return k.last[i].refs
	}
	refs, _ := s.refs() // what went meanwhile is missed where it is wanted
	if len(k.last) == maxKeptSegments {
		k.last = slices.Delete(k.last, 0, 1)
	}
	k.last = append(k.last, keptSegment{s.Segment, refs})
	return refs
}

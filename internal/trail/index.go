// The index of a trail: where the blocks are, and which times they cover.

package trail

import (
	"math"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Index is what the headers of all blocks of a trail say, summed up by segment: it
// grows with the segments, not with the blocks.  Where the header of the next segment
// has that sum, the blocks' headers are not read for it.  The blocks of a segment are
// read, or read again, when it is their turn.
type Index struct {
	Streams []StreamIndex
	// Errs is what is wrong with the block headers that were read. What is wrong with others is
	// told by those who read them.
	Errs []error

	holes []hole
	keys  *format.Keys
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

	last   BlockRef // zero without blocks; only its number is sure
	end    int64    // behind the last block; what comes later is not of this index
	unread bool     // all this is what the next segment's header says

	copied []BlockRef // all blocks, if they do not stand in the segment's own file
}

// Index reads the headers of all blocks.
func (t *Trail) Index() *Index {
	x := &Index{Errs: slices.Clone(t.Errors), keys: t.keys}
	for _, s := range t.Streams {
		si := StreamIndex{Stream: s}
		si.Segments = make([]SegmentIndex, 0, len(s.Segments))
		for i, seg := range s.Segments {
			if one, ok := s.summaryOf(i); ok {
				si.Segments = append(si.Segments, one)
				continue
			}
			refs, errs := seg.Index()
			x.Errs = append(x.Errs, errs...)
			si.Segments = append(si.Segments, summarize(seg, counted(refs)))
		}
		x.holes = append(x.holes, si.missing()...)
		x.Streams = append(x.Streams, si)
	}
	return x
}

// summaryOf is what the headers of a segment and of the next one say of the blocks of a segment, if they do. No
// server changes a segment when it has begun the next one.
func (s *Stream) summaryOf(i int) (one SegmentIndex, ok bool) {
	if !s.Whole || i+1 >= len(s.Segments) {
		return one, false
	}
	seg, next := s.Segments[i], s.Segments[i+1]
	if !seg.inPlace() || !next.inPlace() || next.Number != seg.Number+1 ||
		next.Header.SystemID != seg.Header.SystemID ||
		len(seg.twice) > 0 || !next.Header.Before.Known() {
		return one, false
	}
	blocks, records := next.Header.FirstBlock-seg.Header.FirstBlock, next.Header.FirstRecord-seg.Header.FirstRecord
	if blocks == 0 || blocks > uint64(seg.Size)/format.BlockHeaderSize || records > blocks*format.MaxRaw {
		return one, false
	}
	return SegmentIndex{
		Segment: seg, Blocks: int(blocks), Records: records, FirstTime: next.Header.Before.First,
		LastEnd: next.Header.Before.LastEnd,
		last:    BlockRef{Segment: seg, Number: next.Header.FirstBlock - 1}, end: math.MaxInt64, unread: true,
	}, true
}

// inPlace says whether the segment's header is whole, and is that of its place.
func (seg *Segment) inPlace() bool {
	return seg.Err == nil && seg.Header.Number == seg.Number && seg.Header.Stream == seg.Stream.Number
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

// refs reads a segment's blocks, or reads them again: those that were there when it was indexed.
// errs is why the file cannot be read, or, if the blocks have not been read before, what is wrong with
// them; else, that is in Index.Errs.
func (s *SegmentIndex) refs() (refs []BlockRef, errs []error) {
	if s.Blocks == 0 {
		return nil, nil
	}
	if s.copied != nil {
		return slices.Clone(s.copied), nil
	}
	f, err := OpenFile(s.Segment.Path)
	if err != nil {
		return nil, []error{s.Segment.openProblem(err)}
	}
	defer f.Close()
	if refs, errs = s.Segment.index(f); !s.unread {
		errs = nil
	}
	refs = slices.DeleteFunc(refs, func(ref BlockRef) bool { return s.Segment.isTwice(ref.Offset) })
	for len(refs) > 0 && refs[len(refs)-1].Offset >= s.end {
		refs = refs[:len(refs)-1]
	}
	return refs, errs
}

// Refs are all blocks of the segment in the order in which they were written, those that can be found.
func (s *SegmentIndex) Refs() []BlockRef {
	refs, _ := s.refs()
	return refs
}

// Refs are all blocks of the stream in the order in which they were written.
func (s *StreamIndex) Refs() (all []BlockRef) {
	for i := range s.Segments {
		all = append(all, s.Segments[i].Refs()...)
	}
	return append(all, s.live...)
}

// Between are the blocks of the stream's segments from the first to the last one that has records of a time:
// since <= time < until, or no end if until is MaxTime.
func (s *StreamIndex) Between(since, until int64) (refs []BlockRef) {
	first, last := len(s.Segments), -1
	for i := range s.Segments {
		if one := &s.Segments[i]; one.Records > 0 && one.LastEnd >= since &&
			(one.FirstTime < until || until == format.MaxTime) {
			first, last = min(first, i), i
		}
	}
	for i := first; i <= last; i++ {
		refs = append(refs, s.Segments[i].Refs()...)
	}
	return refs
}

// lastLive bounds the blocks of a stream that is followed that are remembered for the
// data parts of records to come.
const lastLive = 10_000

// addLive adds a block of a stream that is followed.
func (s *StreamIndex) addLive(ref *BlockRef) {
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
		if !backwards(x.kept.refsOf(one)) {
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

func (k *keptRefs) refsOf(s *SegmentIndex) []BlockRef {
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

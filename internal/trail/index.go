// The index of a trail: where blocks are, and which times they cover.

package trail

import (
	"math"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Index sums up the headers of all blocks of a trail, segment by segment. Its size depends on the number of
// segments, not of blocks. If the header of the next segment has the sum for a segment, the segment's block
// headers are not read. They are read, or read again, when the segment is needed.
type Index struct {
	Streams []StreamIndex
	// Errs are the problems with the block headers that were read. Problems with others are reported when these
	// are read.
	Errs []error

	holes []hole
	keys  *format.Keys
	kept  keptRefs
}

// StreamIndex is one stream of an index.
type StreamIndex struct {
	Stream   *Stream
	Segments []SegmentIndex

	// live are the last blocks that were added while the stream was followed.
	live []BlockRef
}

// SegmentIndex sums up the headers of a segment's blocks.
type SegmentIndex struct {
	Segment *Segment
	Blocks  int
	Records uint64
	// FirstTime and LastEnd are the bounds for all blocks that have records.
	FirstTime, LastEnd int64

	last   BlockRef // zero without blocks; if unread, only its number is known
	end    int64    // after the last block; blocks added later do not belong to this index
	unread bool     // everything here comes from the next segment's header

	copied []BlockRef // all blocks, if they are not in the segment's own file
}

// Index builds the index from the headers of all blocks.
func (t *Trail) Index() *Index {
	x := &Index{Errs: slices.Clone(t.Errors), keys: t.keys}
	for _, s := range t.Streams {
		si := StreamIndex{Stream: s}
		si.Segments = make([]SegmentIndex, 0, len(s.Segments))
		for i, seg := range s.Segments {
			if summary, ok := s.summaryOf(i); ok {
				si.Segments = append(si.Segments, summary)
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

// summaryOf sums up a segment's blocks from its header and that of the next segment, if these suffice. Servers
// do not change a segment after they have begun the next one.
func (s *Stream) summaryOf(i int) (summary SegmentIndex, ok bool) {
	if !s.Whole || i+1 >= len(s.Segments) {
		return summary, false
	}
	seg, next := s.Segments[i], s.Segments[i+1]
	if !seg.inPlace() || !next.inPlace() || next.Number != seg.Number+1 ||
		next.Header.SystemID != seg.Header.SystemID ||
		len(seg.twice) > 0 || !next.Header.Before.Known() {
		return summary, false
	}
	blocks, records := next.Header.FirstBlock-seg.Header.FirstBlock, next.Header.FirstRecord-seg.Header.FirstRecord
	if blocks == 0 || blocks > uint64(seg.Size)/format.BlockHeaderSize || records > blocks*format.MaxRaw {
		return summary, false
	}
	return SegmentIndex{
		Segment: seg, Blocks: int(blocks), Records: records, FirstTime: next.Header.Before.First,
		LastEnd: next.Header.Before.LastEnd,
		last:    BlockRef{Segment: seg, Number: next.Header.FirstBlock - 1}, end: math.MaxInt64, unread: true,
	}, true
}

// inPlace returns whether the segment's header is intact and matches the segment's place in the trail.
func (seg *Segment) inPlace() bool {
	return seg.Err == nil && seg.Header.Number == seg.Number && seg.Header.Stream == seg.Stream.Number
}

// summarize sums up the blocks of a segment.
func summarize(seg *Segment, refs []BlockRef) SegmentIndex {
	summary := SegmentIndex{Segment: seg, FirstTime: math.MaxInt64, LastEnd: math.MinInt64}
	for i := range refs {
		ref := &refs[i]
		summary.Blocks++
		if ref.Records > 0 {
			summary.Records += uint64(ref.Records)
			summary.FirstTime = min(summary.FirstTime, ref.FirstTime)
			summary.LastEnd = max(summary.LastEnd, ref.LastEnd)
		}
	}
	if n := len(refs); n > 0 {
		summary.last, summary.end = refs[n-1], refs[n-1].Offset+refs[n-1].Length()
	}
	return summary
}

// refs reads the block headers of a segment that was indexed, or reads them again. errs says why the file
// cannot be read. If the headers were not read before, it also has what is wrong with them; otherwise,
// Index.Errs has that.
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
	refs = slices.DeleteFunc(refs, func(ref BlockRef) bool { return s.Segment.isDuplicate(ref.Offset) })
	for len(refs) > 0 && refs[len(refs)-1].Offset >= s.end {
		refs = refs[:len(refs)-1]
	}
	return refs, errs
}

// Refs returns all blocks of the segment that can be found, in the order in which they were written.
func (s *SegmentIndex) Refs() []BlockRef {
	refs, _ := s.refs()
	return refs
}

// Refs returns all blocks of the stream, in the order in which they were written.
func (s *StreamIndex) Refs() (all []BlockRef) {
	for i := range s.Segments {
		all = append(all, s.Segments[i].Refs()...)
	}
	return append(all, s.live...)
}

// Between returns the blocks of the stream's segments from the first to the last one that has records of a
// time: since <= time < until, or without end if until is MaxTime.
func (s *StreamIndex) Between(since, until int64) (refs []BlockRef) {
	first, last := len(s.Segments), -1
	for i := range s.Segments {
		if segment := &s.Segments[i]; segment.Records > 0 && segment.LastEnd >= since &&
			(segment.FirstTime < until || until == format.MaxTime) {
			first, last = min(first, i), i
		}
	}
	for i := first; i <= last; i++ {
		refs = append(refs, s.Segments[i].Refs()...)
	}
	return refs
}

// lastLive bounds the blocks of a followed stream that are kept, for the data parts of later records.
const lastLive = 10_000

// addLive adds a block to a stream that is being followed, unless it is of a segment that was indexed.
func (s *StreamIndex) addLive(ref *BlockRef) {
	for i := len(s.Segments) - 1; i >= 0; i-- {
		if last := s.Segments[i].last.Number; ref.Number <= last {
			return
		} else if last > 0 {
			break
		}
	}
	if len(s.live) >= 2*lastLive {
		s.live = slices.Clone(s.live[lastLive:])
	}
	s.live = append(s.live, *ref)
}

// before yields the stream's blocks before a block number, the last one first.
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
		segment := &s.Segments[i]
		if segment.Segment.Err == nil && segment.Segment.Header.FirstBlock >= number {
			continue
		}
		if !backwards(x.kept.refsOf(segment)) {
			return false
		}
	}
	return true
}

// keptRefs keeps the blocks of the segments that were last read for data parts.
type keptRefs struct {
	mu   sync.Mutex
	last []keptSegment
}

type keptSegment struct {
	of   *Segment
	refs []BlockRef
}

// maxKeptSegments is the number of segments whose blocks are kept.
const maxKeptSegments = 4

func (k *keptRefs) refsOf(s *SegmentIndex) []BlockRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(k.last, func(kept keptSegment) bool { return kept.of == s.Segment }); i >= 0 {
		return k.last[i].refs
	}
	refs, _ := s.refs() // who reads the parts reports what is missing
	if len(k.last) == maxKeptSegments {
		k.last = slices.Delete(k.last, 0, 1)
	}
	k.last = append(k.last, keptSegment{s.Segment, refs})
	return refs
}

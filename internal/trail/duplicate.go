// Blocks in several trails that are read together: a trail and its copy, such as that of a standby, which has
// what the primary had written when the copy was made.

package trail

import (
	"cmp"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Two blocks are the same if their system identifier, stream, number and chain hash are the same, because the
// hash covers everything before. Such a block counts once, in the stream that reaches furthest.

// identity is what a stream and its copies have in common.
type identity struct {
	system uint64
	stream uint32
}

func (s *Stream) identity() (id identity, ok bool) {
	for _, seg := range s.Segments {
		if seg.Err == nil {
			return identity{seg.Header.SystemID, seg.Header.Stream}, true
		}
	}
	return id, false
}

// lastBlock returns the number of the stream's last block.
func (s *Stream) lastBlock() uint64 {
	for _, seg := range slices.Backward(s.Segments) {
		if refs, _ := seg.Index(); len(refs) > 0 {
			return refs[len(refs)-1].Number
		}
	}
	return 0
}

// markDuplicates marks the blocks of a trail that another stream of it also has.
func (t *Trail) markDuplicates() {
	same := map[identity][]*Stream{}
	for _, s := range t.Streams {
		if id, ok := s.identity(); ok {
			same[id] = append(same[id], s)
		}
	}
	for _, streams := range same {
		if len(streams) < 2 {
			continue
		}
		last := map[*Stream]uint64{}
		for _, s := range streams {
			last[s] = s.lastBlock()
		}
		slices.SortStableFunc(streams, func(a, b *Stream) int { return cmp.Compare(last[b], last[a]) })
		byNumber := map[uint64][]*Segment{}
		for _, s := range streams {
			for _, seg := range s.Segments {
				byNumber[seg.Number] = append(byNumber[seg.Number], seg)
			}
		}
		for _, segments := range byNumber {
			markSegments(segments)
		}
	}
}

// markSegments does so for segments with the same number: blocks that an earlier one has are marked.
func markSegments(segments []*Segment) {
	if len(segments) < 2 {
		return
	}
	all := make([][]BlockRef, len(segments))
	for i, seg := range segments {
		all[i], _ = seg.Index()
		for k, other := range segments[:i] {
			if seg.Err == nil && other.Err == nil && seg.Header.Hash != other.Header.Hash {
				continue // the hash of each block depends on it
			}
			if seg.markAs(all[i], all[k]) {
				seg.twins, other.twins = append(seg.twins, other), append(other.twins, seg)
			}
		}
	}
}

// markAs marks the blocks that another segment also has, and returns whether there are any. Both lists are in
// the order of the files.
func (seg *Segment) markAs(own, other []BlockRef) (found bool) {
	type name struct {
		number uint64
		chain  [32]byte
	}
	has := make(map[name]bool, len(other))
	for i := range other {
		has[name{other[i].Number, other[i].Chain}] = true
	}
	for i := range own {
		if ref := &own[i]; has[name{ref.Number, ref.Chain}] {
			found = true
			if !seg.isDuplicate(ref.Offset) {
				seg.twice = append(seg.twice, ref.Offset)
			}
		}
	}
	slices.Sort(seg.twice)
	return found
}

func (seg *Segment) isDuplicate(offset int64) bool {
	_, found := slices.BinarySearch(seg.twice, offset)
	return found
}

// Duplicates returns the segments of other trails that have blocks of this one.
func (seg *Segment) Duplicates() []*Segment { return seg.twins }

// counted returns the blocks that no other stream has, or that count here.
func counted(refs []BlockRef) []BlockRef {
	return slices.DeleteFunc(refs, func(ref BlockRef) bool { return ref.Duplicate })
}

// counts returns whether a block of the stream counts here, or the stream has no blocks.
func (s *Stream) counts() bool {
	blocks := 0
	for _, seg := range s.Segments {
		refs, _ := seg.Index()
		if blocks += len(refs); len(counted(refs)) > 0 {
			return true
		}
	}
	return blocks == 0
}

// UniqueStreams returns the streams that do not exist completely in another trail.
func (t *Trail) UniqueStreams() (streams []*Stream) {
	for _, s := range t.Streams {
		twice := slices.ContainsFunc(s.Segments, func(seg *Segment) bool { return len(seg.twice) > 0 })
		if !twice || s.counts() {
			streams = append(streams, s)
		}
	}
	return streams
}

// readTwin reads a block from another trail that has it; false: no trail has it intact.
func (fs *Files) readTwin(ref *BlockRef, b *format.Block) bool {
	for _, twin := range ref.Segment.twins {
		refs, _ := twin.Index()
		for i := range refs {
			if refs[i].Number == ref.Number && refs[i].Chain == ref.Chain && fs.read(&refs[i], b) == nil {
				return true
			}
		}
	}
	return false
}

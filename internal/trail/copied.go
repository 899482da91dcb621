// Blocks in other files than segments: copies, as proofs have them.

package trail

import "github.com/pg-steno/pg_steno/internal/format"

// CopiedStream returns a stream whose blocks are copies in another file. It has no
// segments until CopiedSegment adds them.
func CopiedStream(number uint32, keys *format.Keys) *Stream {
	return &Stream{Number: number, keys: keys}
}

// CopiedSegment adds a segment to a stream of copies. header is its segment header, and
// path the file that has copies of some of its blocks.
func (s *Stream) CopiedSegment(path string, header []byte) (*Segment, error) {
	h, err := format.ParseSegmentHeader(header)
	if err != nil {
		return nil, err
	}
	seg := &Segment{Path: path, Stream: s, Number: h.Number, Header: h}
	seg.unlock(header, false)
	s.Segments = append(s.Segments, seg)
	return seg, nil
}

// CopiedBlock returns a reference to a block of a segment that is at an offset of the segment's Path.
func (seg *Segment) CopiedBlock(offset int64, h *format.BlockHeader) BlockRef {
	ref := seg.refOf(offset, h)
	ref.Chain = [32]byte{}
	return ref
}

// CopiedIndex returns an index of copied blocks, given in order for each segment, so that Merge can read them
// like those of a trail.
func CopiedIndex(streams []*Stream, blocks map[*Segment][]BlockRef, keys *format.Keys) *Index {
	x := &Index{keys: keys}
	for _, s := range streams {
		si := StreamIndex{Stream: s}
		for _, seg := range s.Segments {
			if refs := blocks[seg]; len(refs) > 0 {
				summary := summarize(seg, refs)
				summary.copied = refs
				si.Segments = append(si.Segments, summary)
			}
		}
		x.Streams = append(x.Streams, si)
	}
	return x
}

// What was shipped of each stream. A slot says where its reader goes on, but not of which stream: after a restore from
// a backup, a promotion, or a change of steno.directory, other blocks may have the same numbers.

package ship

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pg-steno/pg_steno/internal/statefile"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// shipped is what a sink has acknowledged, as in its file.
type shipped struct {
	Version int                      `json:"version"`
	To      string                   `json:"to"` // where
	Streams map[uint32]*streamRecord `json:"streams"`
}

// streamRecord is what was shipped of a stream.
type streamRecord struct {
	System uint64 `json:"system_id"`
	// Segment, Block and Chain are those of the last block.
	Segment uint64 `json:"segment"`
	Block   uint64 `json:"block"`
	Chain   chain  `json:"chain"`
	// Segments are the last ones of which something was shipped, in order.
	Segments []segmentRecord `json:"segments"`
}

type segmentRecord struct {
	Number     uint64 `json:"segment"`
	FirstBlock uint64 `json:"first_block"`
	Hash       chain  `json:"hash"` // SHA-256 of the header
}

// chain is a hash, in JSON as hexadecimal digits.
type chain [32]byte

func (c chain) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(c[:])), nil }

func (c *chain) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err == nil && len(b) != len(c) {
		err = fmt.Errorf("a hash has %d bytes", len(c))
	}
	copy(c[:], b)
	return err
}

// keptSegments is how many segments of a stream are remembered: how far back it may go without being shipped again
// from its beginning.
const keptSegments = 64

// maxState bounds the file.
const maxState = 16 << 20

func readShipped(f *statefile.File) (*shipped, error) {
	s := &shipped{Version: 1, Streams: map[uint32]*streamRecord{}}
	text, exists, err := f.Read(maxState)
	if err != nil || !exists {
		return s, err
	}
	if err := json.Unmarshal(text, s); err != nil || s.Version != 1 || s.Streams == nil {
		return nil, fmt.Errorf("%s: not the state of steno ship, or one of a newer version: remove it to ship from the "+
			"position of the slot", f.Path)
	}
	maps.DeleteFunc(s.Streams, func(_ uint32, r *streamRecord) bool { return r == nil })
	return s, nil
}

func (s *shipped) write(f *statefile.File) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return f.Write(append(text, '\n'))
}

// note remembers a block as the last one that was shipped of its stream.
func (s *shipped) note(b *position) {
	r := s.Streams[b.stream]
	if r == nil || r.System != b.system {
		r = &streamRecord{System: b.system}
		s.Streams[b.stream] = r
	}
	r.Segment, r.Block, r.Chain = b.segment.Number, b.block, b.chain
	r.Segments = slices.DeleteFunc(r.Segments, func(one segmentRecord) bool { return one.Number > r.Segment })
	if n := len(r.Segments); n == 0 || r.Segments[n-1] != b.segment {
		if n > 0 && r.Segments[n-1].Number == r.Segment {
			r.Segments = r.Segments[:n-1]
		}
		if r.Segments = append(r.Segments, b.segment); len(r.Segments) > keptSegments {
			r.Segments = slices.Delete(r.Segments, 0, 1)
		}
	}
}

// position is a block, and what identifies it.
type position struct {
	stream  uint32
	system  uint64
	block   uint64
	chain   chain
	segment segmentRecord
}

func recordOf(seg *trail.Segment) segmentRecord {
	return segmentRecord{seg.Number, seg.Header.FirstBlock, chain(seg.Header.Hash)}
}

// A branchError says that a stream does not continue what was shipped of it.
type branchError struct {
	stream uint32
	reason string
}

func (e *branchError) Error() string { return fmt.Sprintf("stream %d: %s", e.stream, e.reason) }

// resume returns the first block to ship of a stream. It is what the slot says, unless the stream is not the one that
// was shipped: then it is where the two part, as far as that is known, and why says what has happened.
func (s *shipped) resume(stream *trail.StreamIndex, slot uint64) (from uint64, why *branchError) {
	number := stream.Stream.Number
	r := s.Streams[number]
	if r == nil || len(stream.Segments) == 0 {
		return slot, nil
	}
	segments := stream.Segments
	if system := systemOf(segments); system != 0 && system != r.System {
		delete(s.Streams, number)
		return 1, &branchError{number, fmt.Sprintf("it is of the server with system identifier %d, but what was shipped "+
			"is of %d: it is shipped from its beginning, as that of another server", system, r.System)}
	}
	// what is acknowledged is noted here first, so somebody else has moved a slot that is ahead
	const moved = "the slot was moved past blocks %d to %d, which were not shipped: "
	ahead := slot > r.Block+1
	if segments[0].Segment.Number > r.Segment { // what was shipped last exists no longer
		first := segments[0].Segment.Header.FirstBlock
		switch {
		case ahead && segments[0].Segment.Err == nil && first <= r.Block+1:
			return r.Block + 1, &branchError{number, fmt.Sprintf(moved+"they are shipped now", r.Block+1, slot-1)}
		case ahead:
			return min(slot, max(first, 1)), &branchError{number, fmt.Sprintf(moved+"those that the server has deleted "+
				"meanwhile are lost for this sink, and the others are shipped now", r.Block+1, slot-1)}
		}
		return slot, nil
	}
	i, found := slices.BinarySearchFunc(segments, r.Segment, func(s trail.SegmentIndex, n uint64) int {
		return cmp.Compare(s.Segment.Number, n)
	})
	if found {
		for _, ref := range segments[i].Refs() {
			switch same := ref.Number == r.Block && chain(ref.Chain) == r.Chain; {
			case same && ahead:
				return r.Block + 1, &branchError{number, fmt.Sprintf(moved+"they are shipped now; to leave them out, remove "+
					"the sink's state, too", r.Block+1, slot-1)}
			case same:
				return slot, nil
			}
		}
	}
	reason := fmt.Sprintf("it no longer has block %d as it was shipped, as after a restore from a backup: ", r.Block)
	for _, kept := range slices.Backward(r.Segments) {
		for i := range segments {
			if seg := segments[i].Segment; seg.Err == nil && recordOf(seg) == kept {
				return min(kept.FirstBlock, slot), &branchError{number, reason +
					fmt.Sprintf("it is shipped again from segment %d, block %d", kept.Number, kept.FirstBlock)}
			}
		}
	}
	delete(s.Streams, number)
	return 1, &branchError{number, reason + "it is shipped again from its beginning"}
}

func systemOf(segments []trail.SegmentIndex) uint64 {
	for i := range segments {
		if seg := segments[len(segments)-1-i].Segment; seg.Err == nil {
			return seg.Header.SystemID
		}
	}
	return 0
}

// Divides a segment into whole blocks and the bytes between them.

package recovery

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// piece is a whole block of a segment, or the bytes between two.
type piece struct {
	offset, length int64
	whole          bool
	header         *format.BlockHeader // of a whole block, or of a damaged one if it could be read
	torn           bool                // an unfinished write at the end of a stream
	what           string              // what is wrong, unless the block is whole
}

// scanner scans a segment's file.
type scanner struct {
	seg  *trail.Segment
	r    io.ReaderAt
	size int64
	last bool // it is the last segment of the stream
	cut  bool // size excludes preallocated space at the end
	// each is called for every piece in order, with its bytes if it is a whole block
	each func(p *piece, image []byte) error

	pieces []piece
	buf    []byte
	read   trail.Overlap // of what is damaged
}

// at reads n bytes, or fewer at the end of the file.
func (s *scanner) at(offset int64, n int64) ([]byte, error) {
	n = max(min(n, s.size-offset), 0)
	if int64(cap(s.buf)) < n {
		s.buf = make([]byte, n+n/8)
	}
	b := s.buf[:n]
	got, err := s.r.ReadAt(b, offset)
	if int64(got) == n {
		return b, nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return b[:got], err
}

// scan finds the whole blocks of the segment from offset from on: those of the walk, whose payload is intact. What is
// between them is damage, whatever it looks like; it is divided where something begins like a block.
func (s *scanner) scan(from int64) error {
	walk := s.seg.Walk(s.r, from, s.size, s.last)
	for {
		offset := walk.Offset()
		ref, problem, ok := walk.Next()
		if !ok {
			break
		}
		if problem == nil {
			if image, err := s.at(offset, ref.Length()); err == nil && whole(&format.Block{Image: image}) {
				h, _ := format.ParseBlockHeader(image)
				if err := s.add(piece{offset: offset, length: ref.Length(), whole: true, header: &h},
					image); err != nil {
					return err
				}
				continue
			}
		}
		for end := walk.Offset(); offset < end; {
			p := s.damaged(offset, end, problem)
			if err := s.add(p, nil); err != nil {
				return err
			}
			offset += p.length
		}
	}
	if end := walk.Offset(); s.last && end < s.size {
		s.size, s.cut = end, true // preallocated space
	}
	if s.last {
		s.findTorn()
	}
	return nil
}

func (s *scanner) add(p piece, image []byte) error {
	if err := s.each(&p, image); err != nil {
		return err
	}
	s.pieces = append(s.pieces, p)
	return nil
}

// damaged examines the bytes at an offset that are no whole block, up to the end of the damage, or to where something
// begins that has the header of a later block. Bytes that cannot be read are damage, too.
func (s *scanner) damaged(offset, end int64, problem *format.Problem) piece {
	p := piece{offset: offset}
	b, err := s.at(offset, format.BlockHeaderSize)
	var h format.BlockHeader
	if err == nil || err == io.ErrUnexpectedEOF {
		h, err = format.ParseBlockHeader(b)
	}
	if err != nil {
		p.what = reason(err)
		p.length = s.nextHeader(offset+1, end, 0) - offset
		return p
	}
	p.header = &h
	length := format.BlockHeaderSize + int64(h.Stored)
	var image []byte
	if s.read.Allows(offset, offset+length, s.size) {
		image, err = s.at(offset, length)
	}
	switch {
	case length > s.size-offset:
		p.what = fmt.Sprintf("block %d is truncated: %d of %d bytes", h.Number, s.size-offset, length)
	case image == nil:
		p.what = fmt.Sprintf("block %d overlaps with too many others", h.Number)
	case err != nil:
		p.what = fmt.Sprintf("block %d %s", h.Number, reason(err))
	case !whole(&format.Block{Image: image}):
		p.what = fmt.Sprintf("checksum of the payload of block %d does not match", h.Number)
	case problem != nil && problem.Offset == offset:
		p.what = problem.Reason
	default:
		p.what = fmt.Sprintf("block %d is inside of what is damaged", h.Number)
	}
	p.length = s.nextHeader(offset+1, end, h.Number) - offset
	return p
}

// whole reports whether the block's bytes are as they were written, whether or not they can be decrypted.
func whole(b *format.Block) bool {
	h, err := format.ParseBlockHeader(b.Image)
	if err != nil || int64(len(b.Image)) != format.BlockHeaderSize+int64(h.Stored) {
		return false
	}
	b.Header = h
	return b.PayloadSum() == h.PayloadSum
}

// nextHeader returns the offset of the first block header in [from, end) whose number is greater than after, or end.
func (s *scanner) nextHeader(from, end int64, after uint64) int64 {
	return trail.NextHeader(s.r, from, end, func(_ int64, h *format.BlockHeader) bool { return h.Number > after })
}

// findTorn finds an unfinished write at the end: everything from there on was never durable.
func (s *scanner) findTorn() {
	for i := len(s.pieces) - 1; i >= 0; i-- {
		p := &s.pieces[i]
		last := i == len(s.pieces)-1
		switch {
		case p.whole:
			return
		case p.header != nil && p.offset+format.BlockHeaderSize+int64(p.header.Stored) > p.offset+p.length:
			if !last {
				return
			}
		case p.header != nil:
			b, err := s.at(p.offset, p.length)
			if err != nil || !format.HasHole(b[format.BlockHeaderSize:], p.offset+format.BlockHeaderSize,
				s.zerosAfter(last)) {
				return
			}
		case !last:
			return
		case p.length >= format.BlockHeaderSize:
			b, err := s.at(p.offset, format.BlockHeaderSize)
			if err != nil {
				return
			}
			hole := format.HasHole(b, p.offset, 0)
			if end, err := s.at(s.size-16, 16); err != nil || !hole && !format.HasHole(end, 0, 0) {
				return
			}
		}
		p.torn = true
	}
}

// zerosAfter is how many zeros follow a piece in the file, as far as they count.
func (s *scanner) zerosAfter(last bool) int {
	if s.cut && last {
		return format.MinZeros
	}
	return 0
}

func reason(err error) string {
	if p := format.AsProblem(err); p != nil && p.Err == nil {
		return p.Reason
	}
	return "cannot be read: " + pathReason(err)
}

// headerLength returns the length of a segment's header that the header itself states.
func headerLength(b []byte) int64 {
	if len(b) < format.SegmentHeaderSize || string(b[:8]) != "STENOSEG" {
		return format.SegmentHeaderSize
	}
	n := int64(binary.LittleEndian.Uint16(b[10:]))
	if n <= format.SegmentHeaderSize || n > 4096 {
		return format.SegmentHeaderSize
	}
	if _, err := format.ParseBlockHeader(b[format.SegmentHeaderSize:]); err == nil {
		return format.SegmentHeaderSize // the length itself is damaged
	}
	return n
}

// place is what a segment's neighbours tell about its header.
type place struct {
	systemID      uint64
	serverVersion uint32
	stream        uint32
	segment       uint64
	previous      *[32]byte // chain hash of the block before, if known
	before        format.TimeRange
	starts        []uint64 // segments that may have the server's last start
}

// rebuild rebuilds a segment's header from what is left of it, from its neighbours and from its first block. It is
// proven if that block's chain hash follows from it: it is then identical to the original header.
func rebuild(old []byte, at place, first []byte) (header []byte, proven bool) {
	le := binary.LittleEndian
	b := make([]byte, format.SegmentHeaderSize)
	copy(b, old)
	block := format.Block{Image: first}
	if !whole(&block) {
		return nil, false
	}
	h := format.SegmentHeader{
		SystemID: at.systemID, Stream: at.stream, ServerVersion: le.Uint32(b[28:]), Number: at.segment,
		Created: int64(le.Uint64(b[40:])), FirstBlock: block.Header.Number, FirstRecord: block.Header.FirstRecord,
	}
	copy(h.PreviousHash[:], b[64:96])
	versions := []uint32{h.ServerVersion, at.serverVersion}
	hashes := [][32]byte{h.PreviousHash}
	if at.previous != nil {
		hashes = append(hashes, *at.previous)
	}
	left := format.TimeRange{First: int64(le.Uint64(b[96:])), LastEnd: int64(le.Uint64(b[104:]))}
	starts := append([]uint64{le.Uint64(b[112:])}, at.starts...)
	// What readers would rely on is not known, unless it is proven.
	for _, h.Before = range []format.TimeRange{left, at.before, {}} {
		for _, h.LastStart = range append(starts, 0) {
			for _, h.ServerVersion = range versions {
				for _, h.PreviousHash = range hashes {
					header = write.SegmentHeader(h)
					if block.ChainHash(sha256.Sum256(header)) == block.Header.Chain {
						return header, true
					}
				}
			}
		}
	}
	return header, false
}

// Divides a segment into whole blocks and the bytes between them.

package recovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// piece is a whole block of a segment, or the bytes between two.
type piece struct {
	offset, length int64
	whole          bool
	header         *trail.BlockHeader // of a whole block, or of a damaged one if it could be read
	torn           bool               // an unfinished write at the end of a stream
	what           string             // what is wrong, unless the block is whole
}

// scanner scans a segment's file.
type scanner struct {
	r    io.ReaderAt
	size int64
	last bool // it is the last segment of the stream
	cut  bool // size excludes preallocated space at the end
	// each is called for every piece in order, with its bytes if it is a whole block
	each func(p *piece, image []byte) error

	pieces []piece
	buf    []byte
	read   trail.Overlap

	search *trail.Search
	next   int64  // where readers go on: what is before is damage, whatever it looks like
	number uint64 // of the last block before; 0: not known
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

// scan finds the whole blocks of the segment from offset from on.
func (s *scanner) scan(from int64) error {
	s.search, s.next = trail.NewSearch(s.r, s.size), from
	for offset := from; offset < s.size; {
		p, image := s.piece(offset)
		if s.last && !p.whole && s.room(p) {
			s.size, s.cut = offset, true // preallocated space
			break
		}
		if err := s.each(&p, image); err != nil {
			return err
		}
		s.pieces = append(s.pieces, p)
		offset += p.length
	}
	if s.last {
		s.tear()
	}
	return nil
}

// room reports whether a piece is zeros up to the end of the file.
func (s *scanner) room(p piece) bool {
	if p.header != nil || p.offset+p.length != s.size {
		return false
	}
	for at := trail.NextData(s.r, p.offset); at < s.size; at = trail.NextData(s.r, at+windowSize) {
		b, err := s.at(at, windowSize)
		if err != nil || len(bytes.Trim(b, "\x00")) > 0 {
			return false
		}
	}
	return true
}

// piece examines the bytes at an offset: a whole block, or damage up to the next one. Bytes that cannot be read are
// damage, too.
func (s *scanner) piece(offset int64) (p piece, image []byte) {
	p = piece{offset: offset}
	b, err := s.at(offset, trail.BlockHeaderSize)
	var h trail.BlockHeader
	if err == nil || err == io.ErrUnexpectedEOF {
		h, err = trail.ParseBlockHeader(b)
	}
	if err != nil {
		p.what = reason(err)
		p.length = s.behind(offset, 0) - offset
		return p, nil
	}
	p.header = &h
	end := offset + trail.BlockHeaderSize + int64(h.Stored)
	if end > s.size {
		p.what = fmt.Sprintf("block %d is truncated: %d of %d bytes", h.Number, s.size-offset, end-offset)
		p.length = s.behind(offset, h.Number) - offset
		return p, nil
	}
	if !s.read.Allows(offset, end, s.size) {
		p.what = fmt.Sprintf("block %d overlaps with too many others", h.Number)
		p.length = s.behind(offset, h.Number) - offset
		return p, nil
	}
	image, err = s.at(offset, end-offset)
	block := trail.Block{Image: image}
	switch {
	case err != nil:
		p.what = fmt.Sprintf("block %d %s", h.Number, reason(err))
	case !whole(&block):
		p.what = fmt.Sprintf("checksum of the payload of block %d does not match", h.Number)
	case offset < s.next:
		p.what = fmt.Sprintf("block %d is inside of what is damaged", h.Number)
	default:
		p.whole, p.length = true, end-offset
		s.next, s.number = end, h.Number
		return p, image
	}
	p.length = s.behind(offset, h.Number) - offset
	return p, nil
}

// behind returns where the next piece begins after a damaged one: the next block, or what has the header of one, with a
// number greater than after, and is damaged, too.
func (s *scanner) behind(offset int64, after uint64) int64 {
	if offset >= s.next {
		s.next = s.search.Behind(offset, s.number)
		s.number = max(s.number, after)
	}
	return s.until(offset+1, s.next, after)
}

// whole reports whether the block's bytes are as they were written, whether or not they can be decrypted.
func whole(b *trail.Block) bool {
	h, err := trail.ParseBlockHeader(b.Image)
	if err != nil || int64(len(b.Image)) != trail.BlockHeaderSize+int64(h.Stored) {
		return false
	}
	b.Header = h
	return b.PayloadSum() == h.PayloadSum
}

const windowSize = 64 << 10

// until returns the offset of the first block header in [from, end) whose number is greater than after, or end.
func (s *scanner) until(from, end int64, after uint64) int64 {
	return trail.NextHeader(s.r, from, end, func(_ int64, h *trail.BlockHeader) bool { return h.Number > after })
}

// tear finds an unfinished write at the end: everything from there on was never durable.
func (s *scanner) tear() {
	for i := len(s.pieces) - 1; i >= 0; i-- {
		p := &s.pieces[i]
		last := i == len(s.pieces)-1
		switch {
		case p.whole:
			return
		case p.header != nil && p.offset+trail.BlockHeaderSize+int64(p.header.Stored) > p.offset+p.length:
			if !last {
				return
			}
		case p.header != nil:
			b, err := s.at(p.offset, p.length)
			if err != nil || !trail.HasHole(b[trail.BlockHeaderSize:], p.offset+trail.BlockHeaderSize, s.cut && last) {
				return
			}
		case !last:
			return
		case p.length >= trail.BlockHeaderSize:
			b, err := s.at(p.offset, trail.BlockHeaderSize)
			if err != nil {
				return
			}
			hole := trail.HasHole(b, p.offset, false)
			if end, err := s.at(s.size-16, 16); err != nil || !hole && !trail.HasHole(end, 0, false) {
				return
			}
		}
		p.torn = true
	}
}

func reason(err error) string {
	var c *trail.CorruptionError
	if errors.As(err, &c) {
		return c.Reason
	}
	return "cannot be read: " + pathReason(err)
}

// headerLength returns the length of a segment's header that the header itself states.
func headerLength(b []byte) int64 {
	if len(b) < trail.SegmentHeaderSize || string(b[:8]) != "STENOSEG" {
		return trail.SegmentHeaderSize
	}
	n := int64(binary.LittleEndian.Uint16(b[10:]))
	if n <= trail.SegmentHeaderSize || n > 4096 {
		return trail.SegmentHeaderSize
	}
	if _, err := trail.ParseBlockHeader(b[trail.SegmentHeaderSize:]); err == nil {
		return trail.SegmentHeaderSize // the length itself is damaged
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
	before        trail.TimeRange
	starts        []uint64 // segments that may have the server's last start
}

// rebuild rebuilds a segment's header from what is left of it, from its neighbours and from its first block. It is
// proven if that block's chain hash follows from it: it is then identical to the original header.
func rebuild(old []byte, at place, first []byte) (header []byte, proven bool) {
	le := binary.LittleEndian
	b := make([]byte, trail.SegmentHeaderSize)
	copy(b, old)
	block := trail.Block{Image: first}
	if !whole(&block) {
		return nil, false
	}
	h := trail.SegmentHeader{
		SystemID: at.systemID, Stream: at.stream, ServerVersion: le.Uint32(b[28:]), Number: at.segment,
		Created: int64(le.Uint64(b[40:])), FirstBlock: block.Header.Number, FirstRecord: block.Header.FirstRecord,
	}
	copy(h.PreviousHash[:], b[64:96])
	versions := []uint32{h.ServerVersion, at.serverVersion}
	hashes := [][32]byte{h.PreviousHash}
	if at.previous != nil {
		hashes = append(hashes, *at.previous)
	}
	left := trail.TimeRange{First: int64(le.Uint64(b[96:])), LastEnd: int64(le.Uint64(b[104:]))}
	starts := append([]uint64{le.Uint64(b[112:])}, at.starts...)
	// What readers would rely on is not known, unless it is proven.
	for _, h.Before = range []trail.TimeRange{left, at.before, {}} {
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

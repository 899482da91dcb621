// Finding the next block after damage.

package trail

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Readers and recovery skip damage up to the next block that is beyond doubt (window). Recovery also looks
// within the skipped bytes at whatever begins like a block (NextHeader), for records whose integrity cannot be
// proved.

// unreadable is the smallest unit that a disk loses.
const unreadable = 4096

// NextHeader returns where the first block header begins that accept returns true for, from an offset on and
// before an end; the end if there is none. It skips what the disk cannot read. accept is called in the order of
// the file.
func NextHeader(r io.ReaderAt, from, end int64, accept func(at int64, h *format.BlockHeader) bool) int64 {
	// It starts with a small read, because it may be called for each of many small blocks.
	b := make([]byte, smallWindow)
	for from = NextData(r, from); from < end; from = NextData(r, from) {
		n, err := r.ReadAt(b, from)
		for i := 0; ; i++ {
			k := bytes.Index(b[i:n], []byte(format.BlockMagic))
			if i += k; k < 0 || i+format.BlockHeaderSize > n || from+int64(i) >= end {
				break
			}
			if h, err := format.ParseBlockHeader(b[i:n]); err == nil && accept(from+int64(i), &h) {
				return from + int64(i)
			}
		}
		switch {
		case err == io.EOF:
			return end
		case err != nil:
			from = (from + int64(n) + unreadable) &^ (unreadable - 1)
		default:
			from += int64(n) - format.BlockHeaderSize + 1
		}
		if len(b) < windowSize {
			b = make([]byte, 2*len(b))
		}
	}
	return end
}

// maxAgain bounds the bytes that are read again to find intact blocks after damage, in sizes of the file.
const maxAgain = 16

// Overlap bounds the work for overlapping blocks. Blocks that a server wrote do not overlap, so each byte is
// hashed once. But forged headers can claim the same bytes as their payload any number of times. Segments must
// be read from the beginning to the end.
type Overlap struct {
	end   int64 // end of the bytes that were requested
	again int64 // bytes that were requested more than once
}

// Allows returns whether the bytes from an offset to an end of a file may be read. Bytes that were not
// requested before always may.
func (o *Overlap) Allows(from, end, size int64) bool {
	again := max(min(end, o.end)-from, 0)
	if again > maxAgain*size-o.again {
		return false
	}
	o.again += again
	o.end = max(o.end, end)
	return true
}

// nextBlock finds the block after a damaged one at offset. If the length in its header leads to the block that
// must follow, that is the next one: then the payload, which clients have written, is not searched. Otherwise,
// bytes may be missing, so that the next block begins within the claimed length.
func (w *window) nextBlock(offset int64, last uint64) int64 {
	b, err := w.bytesAt(offset, format.BlockHeaderSize)
	if err != nil || len(b) < format.BlockHeaderSize || string(b[:4]) != format.BlockMagic {
		return w.resync(offset+1, last, false)
	}
	next := offset + format.BlockHeaderSize + int64(binary.LittleEndian.Uint32(b[8:]))
	if h, err := format.ParseBlockHeader(b); err == nil {
		if next < w.size && w.isNextBlock(next, h.Number+1, next-offset) {
			return next
		}
		end := min(next, w.size)
		return min(w.resync(offset+1, h.Number, w.isEnd(end)), end)
	}
	expected := uint64(0)
	if last > 0 {
		expected = last + 2
	}
	if next < w.size && w.isNextBlock(next, expected, next-offset) {
		return next
	}
	return w.resync(offset+1, last, next == w.size)
}

// isNextBlock returns whether the block with a number begins at offset, after so many bytes in between; number
// 0: any block that can follow.
func (w *window) isNextBlock(offset int64, number uint64, between int64) bool {
	h, err := w.distantHeader(offset)
	return err == nil && (h.Number == number || number == 0 && canFollow(&h, 0, between))
}

// isEnd returns whether no block begins at offset or later, because the file ends there or has only
// preallocated space.
func (w *window) isEnd(offset int64) bool {
	if offset >= w.size {
		return true
	}
	var b [format.MinZeros]byte
	n, err := w.r.ReadAt(b[:min(format.MinZeros, w.size-offset)], offset)
	return (err == nil || err == io.EOF) && format.OnlyZeros(b[:n]) && w.onlyZeros(offset)
}

// resync finds the next block at or after offset, or the end. A header alone is not sufficient: such bytes may
// be part of a text. In addition, the payload must be intact, or another block or the end must follow, and the
// number must be possible. With sure, all of these are required, because an unfinished block may be searched.
func (w *window) resync(offset int64, last uint64, sure bool) int64 {
	return NextHeader(w.r, offset, w.size, func(at int64, h *format.BlockHeader) bool {
		end := at + format.BlockHeaderSize + int64(h.Stored)
		if end > w.size {
			return false
		}
		if !sure && canFollow(h, last, at-offset+1) {
			if end == w.size {
				return true
			}
			_, err := w.distantHeader(end)
			return err == nil || w.payloadIntact(at, h)
		}
		return (w.isNextBlock(end, h.Number+1, 0) || w.isEnd(end)) && w.payloadIntact(at, h)
	})
}

// shortened returns whether the block at offset, before which nothing is wrong, may lack bytes, so that the
// next block begins inside it: its payload is not intact, and the block that must follow does not begin at its
// end.
func (seg *Segment) shortened(w *window, offset int64, h *format.BlockHeader) bool {
	next := offset + format.BlockHeaderSize + int64(h.Stored)
	if next < w.size {
		return !w.isNextBlock(next, h.Number+1, 0) && !w.payloadIntact(offset, h)
	}
	if following := seg.following(); following != nil && following.Err == nil &&
		following.Header.FirstBlock == h.Number+1 {
		return false
	}
	return !w.payloadIntact(offset, h)
}

// following returns the next segment; nil: there is none, or it is not known.
func (seg *Segment) following() *Segment {
	if seg.Stream == nil {
		return nil
	}
	all := seg.Stream.Segments
	i, ok := slices.BinarySearchFunc(all, seg.Number+1, func(s *Segment, n uint64) int {
		return cmp.Compare(s.Number, n)
	})
	if !ok {
		return nil
	}
	return all[i]
}

// canFollow returns whether a block can come after the one with the number last, with so many bytes in between:
// each lost block had at least a header.
func canFollow(h *format.BlockHeader, last uint64, between int64) bool {
	return last == 0 || h.Number > last && h.Number-last-1 <= uint64(between)/format.BlockHeaderSize
}

// payloadIntact returns whether the checksum of the payload of the block at offset matches. It returns false if
// the payload overlaps with too many others.
func (w *window) payloadIntact(offset int64, h *format.BlockHeader) bool {
	if !w.hashed.Allows(offset, offset+format.BlockHeaderSize+int64(h.Stored), w.size) {
		return false
	}
	sum := xxhash.New()
	buf := make([]byte, max(1, min(h.Stored, 32<<10))) // most payloads are smaller than the buffer of io.Copy
	n, err := io.CopyBuffer(sum, io.NewSectionReader(w.r, offset+format.BlockHeaderSize, int64(h.Stored)), buf)
	return err == nil && n == int64(h.Stored) && sum.Sum64() == h.PayloadSum
}

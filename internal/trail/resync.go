// Finds the next block behind damage.

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

// What stands behind damage. Readers, and recovery, skip to the next block that is one
// beyond doubt (window). Of what they skip, recovery looks at whatever begins like a block
// (NextHeader), for records that nothing proves any more.

// unreadable is what a disk loses at once, at least.
const unreadable = 4096

// NextHeader is where the first block header begins, from an offset on and before an
// end, that accept takes; the end when there is none. It goes on behind what the disk
// does not give. accept is asked in the order of the file.
func NextHeader(r io.ReaderAt, from, end int64, accept func(at int64, h *format.BlockHeader) bool) int64 {
	// It begins with little: this may be called for each of many small blocks.
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

// maxAgain is how many times the size of a file is read again at most to find whole
// blocks behind damage.
const maxAgain = 16

// Overlap bounds the work for blocks that overlap. Those that a server wrote stand one
// after the other, so that each byte is hashed once; forged headers, though, can say of
// the same bytes, any number of times, that they are their payload. Segments are gone
// through from the beginning to the end.
type Overlap struct {
	end   int64 // behind all that was asked for
	again int64 // bytes that were asked for more than once
}

// Allows says whether the bytes of a file of a size, from an offset to an end, may be
// read. Those that nobody has asked for always may.
func (o *Overlap) Allows(from, end, size int64) bool {
	again := max(min(end, o.end)-from, 0)
	if again > maxAgain*size-o.again {
		return false
	}
	o.again += again
	o.end = max(o.end, end)
	return true
}

// nextBlock finds the next block after one at offset that is not whole. When the length in
// its header leads to the block that must follow, that is the next: its payload, which
// clients have written, need not be searched. Otherwise bytes may be missing from it, so
// that the next one begins before it seems to end.
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

// isNextBlock says whether the block with a number begins at offset, behind so many bytes;
// 0: any that can stand there.
func (w *window) isNextBlock(offset int64, number uint64, between int64) bool {
	h, err := w.distantHeader(offset)
	return err == nil && (h.Number == number || number == 0 && canFollow(&h, 0, between))
}

// isEnd says whether no block begins at offset or behind it, because the file ends
// there, or has only room.
func (w *window) isEnd(offset int64) bool {
	if offset >= w.size {
		return true
	}
	var b [format.MinZeros]byte
	n, err := w.r.ReadAt(b[:min(format.MinZeros, w.size-offset)], offset)
	return (err == nil || err == io.EOF) && format.OnlyZeros(b[:n]) && w.onlyZeros(offset)
}

// resync finds the next block at or after offset, or the end. Its header alone does
// not make a block: bytes that look like one may stand in a text. So the payload must
// be whole, too, or another block, or the end, must follow it, and its number must be
// one that can stand there, unless all of that is so. sure asks for all of that, because
// what is searched may be an unfinished block.
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

// shortened says whether the block at offset, in front of which nothing is wrong, may
// lack bytes, so that the next one begins inside it: the block that must follow does not
// begin where it ends, and its payload is not whole.
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

// following is the segment after this one; nil when there is none, or not known.
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

// canFollow says whether a block can come after the one with the number last, with so
// many bytes between them: each block that was there took a header at least.
func canFollow(h *format.BlockHeader, last uint64, between int64) bool {
	return last == 0 || h.Number > last && h.Number-last-1 <= uint64(between)/format.BlockHeaderSize
}

// payloadIntact says whether the payload of the block at offset has its checksum. It
// says no when the payload overlaps too many others.
func (w *window) payloadIntact(offset int64, h *format.BlockHeader) bool {
	if !w.hashed.Allows(offset, offset+format.BlockHeaderSize+int64(h.Stored), w.size) {
		return false
	}
	sum := xxhash.New()
	buf := make([]byte, max(1, min(h.Stored, 32<<10))) // most payloads are smaller than what io.Copy would take
	n, err := io.CopyBuffer(sum, io.NewSectionReader(w.r, offset+format.BlockHeaderSize, int64(h.Stored)), buf)
	return err == nil && n == int64(h.Stored) && sum.Sum64() == h.PayloadSum
}

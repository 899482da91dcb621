// Finds the next block behind damage.

package trail

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/cespare/xxhash/v2"
)

// What stands behind damage. Readers skip to the next block that is one beyond doubt
// (window); recovery looks at whatever begins like one (NextHeader).

// unreadable is what a disk loses at once, at least.
const unreadable = 4096

// NextHeader is where the first block header begins, from an offset on and before an
// end, that accept takes; the end when there is none. It goes on behind what the disk
// does not give. accept is asked in the order of the file.
func NextHeader(r io.ReaderAt, from, end int64, accept func(at int64, h *BlockHeader) bool) int64 {
	// It begins with little: this may be called for each of many small blocks.
	b := make([]byte, smallWindow)
	for from = NextData(r, from); from < end; from = NextData(r, from) {
		n, err := r.ReadAt(b, from)
		for i := 0; ; i++ {
			k := bytes.Index(b[i:n], []byte(blockMagic))
			if i += k; k < 0 || i+BlockHeaderSize > n || from+int64(i) >= end {
				break
			}
			if h, err := ParseBlockHeader(b[i:n]); err == nil && accept(from+int64(i), &h) {
				return from + int64(i)
			}
		}
		switch {
		case err == io.EOF:
			return end
		case err != nil:
			from = (from + int64(n) + unreadable) &^ (unreadable - 1)
		default:
			from += int64(n) - BlockHeaderSize + 1
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

// behind finds the next block after one at offset whose header is damaged. When the
// header's length leads to a block or to the end, that is the next: its payload,
// which clients have written, need not be searched. last is the number of the block
// before, 0 when it is not known.
func (w *window) behind(offset int64, last uint64) int64 {
	if b, err := w.at(offset, BlockHeaderSize); err == nil && len(b) == BlockHeaderSize && string(b[:4]) == blockMagic {
		next := offset + BlockHeaderSize + int64(binary.LittleEndian.Uint32(b[8:]))
		if next == w.size {
			return next
		}
		if next < w.size {
			if h, err := w.distant(next); err == nil && follows(&h, last, next-offset) {
				return next
			}
		}
	}
	return w.resync(offset+1, last)
}

// resync finds the next block at or after offset, or the end. Its header alone does
// not make a block: bytes that look like one may stand in a text. So the payload must
// be whole, too, or another block, or the end, must follow it, and its number must be
// one that can stand there.
func (w *window) resync(offset int64, last uint64) int64 {
	return NextHeader(w.r, offset, w.size, func(at int64, h *BlockHeader) bool {
		end := at + BlockHeaderSize + int64(h.Stored)
		if end > w.size || !follows(h, last, at-offset+1) {
			return false
		}
		if end == w.size {
			return true
		}
		_, err := w.distant(end)
		return err == nil || w.payloadWhole(at, h)
	})
}

// follows says whether a block can come after the one with the number last, with so
// many bytes between them: each block that was there took a header at least.
func follows(h *BlockHeader, last uint64, between int64) bool {
	return last == 0 || h.Number > last && h.Number-last-1 <= uint64(between)/BlockHeaderSize
}

// payloadWhole says whether the payload of the block at offset has its checksum. It
// says no when the payload overlaps too many others.
func (w *window) payloadWhole(offset int64, h *BlockHeader) bool {
	if !w.hashed.Allows(offset, offset+BlockHeaderSize+int64(h.Stored), w.size) {
		return false
	}
	sum := xxhash.New()
	n, err := io.Copy(sum, io.NewSectionReader(w.r, offset+BlockHeaderSize, int64(h.Stored)))
	return err == nil && n == int64(h.Stored) && sum.Sum64() == h.PayloadSum
}

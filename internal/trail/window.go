// A segment's file in memory, a part at a time, and what its end looks like.

package trail

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// window reads headers, several at once where blocks are small.
type window struct {
	r    io.ReaderAt
	size int64
	base int64
	buf  []byte
	last int64 // offset of the header read before

	length int64   // how much is read at once; 0: windowSize
	hashed Overlap // payloads that resync has checked
}

const (
	windowSize  = 64 << 10
	smallWindow = 1 << 10
)

// windows are the buffers of windows that are no longer used: a new one for each segment would be
// most of what a query over many segments throws away.
var windows = sync.Pool{New: func() any { return new([]byte) }}

// discard makes the window read the file again. It begins with little: this may be
// called for each of many small blocks.
func (w *window) discard() {
	w.buf, w.length = w.buf[:0], smallWindow
}

// bytesAt returns up to n bytes at offset, fewer only at the end of the file.
func (w *window) bytesAt(offset int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.size-offset))
	if offset >= w.base && offset+int64(n) <= w.base+int64(len(w.buf)) {
		return w.buf[offset-w.base:][:n], nil
	}
	length := int64(n)
	if offset-w.last < windowSize/4 {
		if w.length == 0 {
			w.length = windowSize
		}
		length = max(length, w.length)
		w.length = min(2*w.length, windowSize)
	}
	length = min(length, w.size-offset)
	if int64(cap(w.buf)) < length {
		w.buf = make([]byte, max(length, windowSize))
	}
	w.buf, w.base = w.buf[:length], offset
	got, err := w.r.ReadAt(w.buf, offset)
	w.buf = w.buf[:got]
	if got < n {
		return nil, err
	}
	return w.buf[:n], nil
}

func (w *window) header(offset int64) (format.BlockHeader, error) {
	b, err := w.bytesAt(offset, format.BlockHeaderSize)
	w.last = offset
	if err != nil {
		return format.BlockHeader{}, err
	}
	return format.ParseBlockHeader(b)
}

// distantHeader reads a header that may be far away, and leaves the window where it is.
func (w *window) distantHeader(offset int64) (format.BlockHeader, error) {
	if offset >= w.base && offset+format.BlockHeaderSize <= w.base+int64(len(w.buf)) {
		return format.ParseBlockHeader(w.buf[offset-w.base:])
	}
	var b [format.BlockHeaderSize]byte
	n := min(format.BlockHeaderSize, w.size-offset)
	if got, err := w.r.ReadAt(b[:n], offset); int64(got) < n {
		return format.BlockHeader{}, err
	}
	return format.ParseBlockHeader(b[:n])
}

// isPreallocated says whether nothing but zeros is left from offset on, room for blocks to come,
// or nothing at all any more. written says that a block begins there by now: the
// window's bytes were older.
func (w *window) isPreallocated(offset int64) (room, written bool) {
	w.discard()
	b, err := w.bytesAt(offset, format.BlockHeaderSize)
	if err == io.EOF {
		return true, false // the segment was finished meanwhile
	}
	if err != nil || !format.OnlyZeros(b) {
		if err == nil {
			_, err = format.ParseBlockHeader(b)
		}
		return false, err == nil
	}
	if w.onlyZeros(offset) {
		return true, false
	}
	// blocks are written in their order: one that stands behind was there later
	w.discard()
	b, err = w.bytesAt(offset, format.BlockHeaderSize)
	return false, err == nil && !format.OnlyZeros(b)
}

// onlyZeros says whether there are only zeros from offset on. It reads no further than to
// the first other byte.
func (w *window) onlyZeros(offset int64) bool {
	b := make([]byte, smallWindow)
	for at := NextData(w.r, offset); at < w.size; at = NextData(w.r, at) {
		n, err := w.r.ReadAt(b[:min(int64(len(b)), w.size-at)], at)
		if !format.OnlyZeros(b[:n]) {
			return false
		}
		if at += int64(n); err != nil {
			break
		}
		if len(b) < windowSize {
			b = make([]byte, 2*len(b))
		}
	}
	return true
}

// contentLength is how many bytes there are from offset on, but for zeros at the end.
func (w *window) contentLength(offset int64) int64 {
	b := make([]byte, windowSize)
	end := offset
	for at := NextData(w.r, offset); at < w.size; at = NextData(w.r, at) {
		n, err := w.r.ReadAt(b[:min(windowSize, w.size-at)], at)
		if k := len(bytes.TrimRight(b[:n], "\x00")); k > 0 {
			end = at + int64(k)
		}
		if at += int64(n); err != nil {
			break
		}
	}
	return end - offset
}

// unfinishedLength is how long what is left from offset on is, without room.
func (w *window) unfinishedLength(offset int64) int64 {
	n := w.contentLength(offset)
	if left := w.size - offset; left-n < format.MinZeros {
		return left
	}
	return n
}

// hasGrown says whether the file is longer than when it was opened: it is being written,
// and what it had room for may be a part of a block.
func (w *window) hasGrown() bool {
	f, ok := w.r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Size() > w.size
}

// tornReason says whether what is left of the file from offset on, in which no block
// starts, is an unfinished write: less than a header, or a header that has a
// part, or is followed by an end, of zeros, which file systems leave after a crash
// for what was not written yet.
func (w *window) tornReason(offset int64) string {
	left := w.size - offset
	if left < format.BlockHeaderSize {
		return fmt.Sprintf("unfinished block header: %d of %d bytes", left, format.BlockHeaderSize)
	}
	if b, err := w.bytesAt(offset, format.BlockHeaderSize); err != nil || !format.HasHole(b, offset, 0) {
		if b, err = w.bytesAt(w.size-format.MinZeros, format.MinZeros); err != nil || !format.EndsWithZeros(b) {
			return ""
		}
	}
	return fmt.Sprintf("unfinished block: part of its header, or of the end of the file, was never written, %d bytes",
		w.unfinishedLength(offset))
}

// isZeroHeader says whether there are zeros in the place of a block header.
func (w *window) isZeroHeader(offset int64) bool {
	b, err := w.bytesAt(offset, format.BlockHeaderSize)
	return err == nil && format.OnlyZeros(b)
}

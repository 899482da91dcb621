// Reading of a segment's file in windows, and what the end of the file consists of.

package trail

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// window reads headers, several at once if blocks are small.
type window struct {
	r    io.ReaderAt
	size int64
	base int64
	buf  []byte
	last int64 // offset of the previously read header

	length int64   // how much to read at once; 0: windowSize
	hashed Overlap // payloads whose checksums resync has computed
}

const (
	windowSize  = 64 << 10
	smallWindow = 1 << 10
)

// windows has unused buffers of windows. Allocating one for each segment would be most of the garbage of a
// query over many segments.
var windows = sync.Pool{New: func() any { return new([]byte) }}

// discard makes the window read the file again. It starts with a small read, because it may be called for each
// of many small blocks.
func (w *window) discard() {
	w.buf, w.length = w.buf[:0], smallWindow
}

// bytesAt returns n bytes at offset, or fewer at the end of the file.
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

// distantHeader reads a header that may be far away, without moving the window.
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

// isPreallocated returns whether only zeros, or nothing, are left from offset on. written says that a block has
// been written there since the window was read.
func (w *window) isPreallocated(offset int64) (room, written bool) {
	w.discard()
	b, err := w.bytesAt(offset, format.BlockHeaderSize)
	if err == io.EOF {
		return true, false // the server has finished the segment
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
	// Blocks are written in order: if a later one exists, this one exists by now.
	w.discard()
	b, err = w.bytesAt(offset, format.BlockHeaderSize)
	return false, err == nil && !format.OnlyZeros(b)
}

// onlyZeros returns whether there are only zeros from offset on. It stops reading at the first other byte.
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

// contentLength returns the number of bytes from offset on without the zeros at the end.
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

// unfinishedLength returns the length of an unfinished write from offset on, without preallocated space.
func (w *window) unfinishedLength(offset int64) int64 {
	n := w.contentLength(offset)
	if left := w.size - offset; left-n < format.MinZeros {
		return left
	}
	return n
}

// hasGrown returns whether the file has grown since it was opened: then it is being written, and its last bytes
// may be part of a block.
func (w *window) hasGrown() bool {
	f, ok := w.r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Size() > w.size
}

// tornReason returns why the bytes from offset on, where no block starts, look like an unfinished write; empty:
// they do not. They do if there is less than a header, or if a part of the header, or the end of the file,
// consists of zeros, which file systems leave after a crash for what was not written.
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

// isZeroHeader returns whether there are zeros in place of a block header.
func (w *window) isZeroHeader(offset int64) bool {
	b, err := w.bytesAt(offset, format.BlockHeaderSize)
	return err == nil && format.OnlyZeros(b)
}

package trail

import (
	"bytes"
	"io"
)

// IndexBytes indexes a segment in memory, without its header.
func IndexBytes(data []byte) []BlockRef {
	seg := &Segment{Path: "memory", Size: int64(len(data))}
	refs, _ := seg.index(bytes.NewReader(data))
	return refs
}

// BytesReadToIndex indexes a segment in memory, without its header, and says how many
// bytes were read for it. last: as the last segment of its stream.
func BytesReadToIndex(data []byte, last bool) (refs []BlockRef, read int64) {
	r := &countingReader{r: bytes.NewReader(data)}
	seg := &Segment{Path: "memory", Size: int64(len(data)), Last: last}
	refs, _ = seg.index(r)
	return refs, r.read
}

type countingReader struct {
	r    io.ReaderAt
	read int64
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.r.ReadAt(p, off)
	c.read += int64(n)
	return n, err
}

// SetPartBytes changes the size of a part until the function that it returns is called.
func SetPartBytes(n int64) (reset func()) {
	old := partBytes
	partBytes = n
	return func() { partBytes = old }
}

// Segments is how many segments a follower knows.
func (l *Live) Segments() (n int) {
	for i := range l.index.Streams {
		n += len(l.index.Streams[i].Stream.Segments)
	}
	return n
}

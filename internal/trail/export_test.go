package trail

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
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

// Unshown is the opposite for one who has what was shown, and the encoding: the bytes
// that were recorded.
func Unshown(text, name string) ([]byte, bool) {
	c := charsetOf([]byte(name))
	var out []byte
	for len(text) > 0 {
		if rest, ok := strings.CutPrefix(text, replacement); ok {
			if c == nil && strings.HasPrefix(rest, replacement) {
				out, text = append(out, replacement...), rest[len(replacement):]
				continue
			}
			if len(rest) < 2 || unhex(rest[0]) > 15 || unhex(rest[1]) > 15 {
				return nil, false
			}
			out, text = append(out, unhex(rest[0])<<4|unhex(rest[1])), rest[2:]
			continue
		}
		_, n := utf8.DecodeRuneInString(text)
		if c == nil || text[0] < utf8.RuneSelf {
			out = append(out, text[:n]...)
		} else if c.e == nil {
			return nil, false
		} else if b, err := c.e.NewEncoder().Bytes([]byte(text[:n])); err == nil {
			out = append(out, b...)
		} else {
			return nil, false
		}
		text = text[n:]
	}
	return out, true
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

package trail_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// forgeHeader makes the header of a block whose payload is right only if it is empty.
func forgeHeader(number uint64, stored int) []byte {
	b := make([]byte, trail.BlockHeaderSize)
	le := binary.LittleEndian
	copy(b, "SBLK")
	le.PutUint16(b[4:], trail.BlockHeaderSize)
	le.PutUint32(b[8:], uint32(stored))
	le.PutUint32(b[12:], uint32(stored))
	le.PutUint64(b[24:], number)
	le.PutUint64(b[64:], xxhash.Sum64(nil))
	le.PutUint64(b[104:], xxhash.Sum64(b[:104]))
	return b
}

// Whatever stands in a segment, a server's or a forger's bytes, it is indexed in time
// proportional to its size.
func TestIndexingIsLinear(t *testing.T) {
	const n = 4000
	start := make([]byte, 128)
	good := forgeHeader(1, 0)
	for name, c := range map[string]struct {
		data   []byte
		blocks int
	}{
		"long payloads that overlap": {
			slices.Concat(start, []byte("damage"), bytes.Repeat(forgeHeader(1, n*trail.BlockHeaderSize/2+1), n), []byte("the end")), 0},
		"beginnings of headers": {
			slices.Concat(start, bytes.Repeat([]byte("SBLK"), 30*n), good), 1},
		"damage between small blocks": {
			slices.Concat(start, blocksBehind([]byte("x"), n)), n},
		"zeros between small blocks": {
			slices.Concat(start, blocksBehind(make([]byte, trail.BlockHeaderSize), n)), n},
		"headers whose length leads far away": {
			slices.Concat(start, bytes.Repeat(damaged(forgeHeader(1, n*trail.BlockHeaderSize/2)), n), good), 1},
	} {
		for _, last := range []bool{false, true} {
			refs, read := trail.BytesReadToIndex(c.data, last)
			if limit := 40 * int64(len(c.data)); read > limit {
				t.Errorf("%s, last: %t: %d bytes are read of %d", name, last, read, len(c.data))
			}
			if len(refs) != c.blocks {
				t.Errorf("%s, last: %t: %d blocks instead of %d", name, last, len(refs), c.blocks)
			}
		}
	}
}

// blocksBehind makes n blocks without a payload, each behind the same bytes.
func blocksBehind(before []byte, n int) (b []byte) {
	for i := range n {
		b = append(append(b, before...), forgeHeader(uint64(i)+1, 0)...)
	}
	return b
}

func damaged(header []byte) []byte {
	header[30] ^= 1
	return header
}

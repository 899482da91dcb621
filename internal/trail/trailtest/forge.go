package trailtest

import (
	"bytes"
	"encoding/binary"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// ForgeHeader makes the header of a block whose payload is right only if it is empty.
func ForgeHeader(number uint64, stored int) []byte {
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

// ForgeOverlaps makes a block without a payload, n headers whose payloads overlap, and a
// block of an earlier number, where all of these payloads end.
func ForgeOverlaps(n int) []byte {
	b := ForgeHeader(5, 0)
	for i := range n {
		b = append(b, ForgeHeader(6, (n-1-i)*trail.BlockHeaderSize)...)
	}
	return slices.Concat(b, ForgeHeader(1, 0))
}

// BytesRead counts what the process reads from files meanwhile. It needs a /proc.
func BytesRead(t testing.TB, read func()) int64 {
	t.Helper()
	counted := func() int64 {
		text, err := os.ReadFile("/proc/self/io")
		if err != nil {
			t.Skip(err)
		}
		n, err := strconv.ParseInt(string(bytes.TrimPrefix(regexp.MustCompile(`rchar: \d+`).Find(text), []byte("rchar: "))), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := counted()
	read()
	return counted() - before
}

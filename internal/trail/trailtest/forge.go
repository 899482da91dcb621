// Damage and deletions: forged block headers, and records of deletions.

package trailtest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// ForgeHeader makes the header of a block whose payload is right only if it is empty.
func ForgeHeader(number uint64, stored int) []byte {
	b := make([]byte, format.BlockHeaderSize)
	le := binary.LittleEndian
	copy(b, "SBLK")
	le.PutUint16(b[4:], format.BlockHeaderSize)
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
		b = append(b, ForgeHeader(6, (n-1-i)*format.BlockHeaderSize)...)
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
		n,
			err := strconv.ParseInt(string(bytes.TrimPrefix(regexp.MustCompile(`rchar: \d+`).Find(text),
			[]byte("rchar: "))), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := counted()
	read()
	return counted() - before
}

// DeletionExtra is the names and values of a deletion record.
func DeletionExtra(d *trail.Deletion) []string {
	extra := []string{"event", "deleted", "version", "15.8"}
	add := func(name string, value any) { extra = append(extra, name, fmt.Sprint(value)) }
	add("stream", d.Stream)
	add("reason", d.Reason)
	add("first_segment", d.FirstSegment)
	add("last_segment", d.LastSegment)
	add("first_block", d.FirstBlock)
	add("last_block", d.LastBlock)
	add("records", d.Records)
	add("last_record", d.LastRecord)
	add("bytes", d.Bytes)
	add("since_segment", d.SinceSegment)
	add("total_records", d.TotalRecords)
	add("total_bytes", d.TotalBytes)
	if d.Missing > 0 {
		add("missing", d.Missing)
	}
	add("chain", hex.EncodeToString(d.Chain[:]))
	return extra
}

// Delete writes into the stream that segments of a stream were deleted, up to
// last, and says so in the trail's state file; it removes no file. The segment
// after them must be there.
func (s *Stream) Delete(t testing.TB, writer *Session, of *Stream, since, last uint64) trail.Deletion {
	t.Helper()
	image, err := os.ReadFile(of.SegmentPath(last + 1))
	if err != nil {
		t.Fatal(err)
	}
	h, err := format.ParseSegmentHeader(image[:format.SegmentHeaderSize])
	if err != nil {
		t.Fatal(err)
	}
	d := trail.Deletion{
		Stream: of.Number, Time: Epoch, Reason: "age", FirstSegment: since, LastSegment: last,
		FirstBlock: 1, LastBlock: h.FirstBlock - 1, Records: h.FirstRecord - 1, LastRecord: h.FirstRecord - 1,
		Bytes: 1000, SinceSegment: since, TotalRecords: h.FirstRecord - 1, TotalBytes: 1000, Chain: h.PreviousHash,
	}
	s.WriteDeletion(t, writer, &d)
	return d
}

// WriteDeletion writes the record of a deletion and the state file.
func (s *Stream) WriteDeletion(t testing.TB, writer *Session, d *trail.Deletion) {
	t.Helper()
	info, err := s.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	zeros := hex.EncodeToString(make([]byte, 32))
	state := fmt.Sprintf("pg_steno retention 1\nstream %d since %d segments %d %d blocks %d %d records %d %d "+
		"bytes %d total %d %d missing %d at %d %d %d %d chain %x block %s reason %s\n",
		d.Stream, d.SinceSegment, d.FirstSegment, d.LastSegment, d.FirstBlock, d.LastBlock,
		d.LastRecord+1-d.Records, d.LastRecord,
		d.Bytes, d.TotalRecords, d.TotalBytes, d.Missing, s.Number, s.segment, info.Size(), s.block,
		d.Chain, zeros, d.Reason)
	b := NewBuilder(Epoch)
	b.Add(&Record{Kind: format.KindServer, Session: writer, Time: d.Time, Extra: DeletionExtra(d)})
	s.Write(t, b)
	if err := os.WriteFile(filepath.Join(filepath.Dir(s.Dir), "retention"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
}

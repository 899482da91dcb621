package trailtest

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
)

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
	h, err := trail.ParseSegmentHeader(image[:trail.SegmentHeaderSize])
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
	state := fmt.Sprintf("pg_steno retention 1\nstream %d since %d segments %d %d blocks %d %d records %d %d bytes %d total %d %d missing %d at %d %d %d %d chain %x block %s reason %s\n",
		d.Stream, d.SinceSegment, d.FirstSegment, d.LastSegment, d.FirstBlock, d.LastBlock, d.LastRecord+1-d.Records, d.LastRecord,
		d.Bytes, d.TotalRecords, d.TotalBytes, d.Missing, s.Number, s.segment, info.Size(), s.block, d.Chain, zeros, d.Reason)
	b := NewBuilder(Epoch)
	b.Add(&Record{Kind: trail.KindServer, Session: writer, Time: d.Time, Extra: DeletionExtra(d)})
	s.Write(t, b)
	if err := os.WriteFile(filepath.Join(filepath.Dir(s.Dir), "retention"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
}

package trail_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// Whatever stands in a segment, a server's or a forger's bytes, it is indexed in time
// proportional to its size.
func TestIndexingIsLinear(t *testing.T) {
	const n = 4000
	start := make([]byte, 128)
	good := trailtest.ForgeHeader(1, 0)
	for name, c := range map[string]struct {
		data   []byte
		blocks int
	}{
		"long payloads that overlap": {
			slices.Concat(start, []byte("damage"), bytes.Repeat(trailtest.ForgeHeader(1, n*format.BlockHeaderSize/2+1), n), []byte("the end")), 0},
		"beginnings of headers": {
			slices.Concat(start, bytes.Repeat([]byte("SBLK"), 30*n), good), 1},
		"damage between small blocks": {
			slices.Concat(start, blocksBehind([]byte("x"), n)), n},
		"zeros between small blocks": {
			slices.Concat(start, blocksBehind(make([]byte, format.BlockHeaderSize), n)), n},
		"headers whose length leads far away": {
			slices.Concat(start, bytes.Repeat(damaged(trailtest.ForgeHeader(1, n*format.BlockHeaderSize/2)), n), good), 1},
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

// TestForgedBlocksOverlapLittle: headers that each say that many of those behind are their payload are not all blocks that
// readers would read.
func TestForgedBlocksOverlapLittle(t *testing.T) {
	const n = 2000
	data := make([]byte, format.SegmentHeaderSize)
	for i := range n {
		data = append(data, trailtest.ForgeHeader(uint64(i)+1, n/2*format.BlockHeaderSize)...)
	}
	data = append(data, make([]byte, 2*format.BlockHeaderSize)...)
	total := int64(0)
	for _, ref := range trail.IndexBytes(data) {
		total += ref.Length()
	}
	if limit := 20 * int64(len(data)); total == 0 || total > limit {
		t.Errorf("the blocks of %d bytes have %d bytes together", len(data), total)
	}
}

// blocksBehind makes n blocks without a payload, each behind the same bytes.
func blocksBehind(before []byte, n int) (b []byte) {
	for i := range n {
		b = append(append(b, before...), trailtest.ForgeHeader(uint64(i)+1, 0)...)
	}
	return b
}

func damaged(header []byte) []byte {
	header[30] ^= 1
	return header
}

// A segment that grows by headers whose payloads overlap is followed in time proportional
// to what is new, by a trail that had nothing of it and by one that had its beginning.
func TestFollowingIsLinear(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(trailtest.NewSession(trailtest.Epoch, 1), trailtest.Epoch, "one"))
	s.Write(t, b)
	f := follow(t, dir)
	f.expect()
	file, err := os.OpenFile(s.SegmentPath(1), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	forged := trailtest.ForgeOverlaps(2000)
	if _, err := file.Write(forged); err != nil {
		t.Fatal(err)
	}
	read := trailtest.BytesRead(t, func() { f.poll() })
	if limit := 80 * int64(len(forged)); read > limit {
		t.Errorf("%d bytes are read of %d", read, len(forged))
	}
	if len(f.warnings) == 0 {
		t.Error("no warning: the headers are not looked at")
	}
}

func BenchmarkDecode(b *testing.B) {
	dir := b.TempDir()
	trailtest.Pgbench(b, dir, 100_000, 16, 1)
	benchmarkDecode(b, trailtest.Open(b, dir).Index().Streams[0].Refs())
}

func benchmarkDecode(b *testing.B, refs []trail.BlockRef) {
	var files trail.Files
	defer files.Close()
	var block format.Block
	b.ReportAllocs()
	records := 0
	for b.Loop() {
		for i := range refs {
			if err := files.Read(&refs[i], &block); err != nil {
				b.Fatal(err)
			}
			var r format.Record
			for block.Next(&r) != io.EOF {
				records++
			}
		}
	}
	b.ReportMetric(float64(records)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
}

func BenchmarkMerge(b *testing.B) {
	dir := b.TempDir()
	trailtest.Pgbench(b, dir, 200_000, 8, 2)
	x := trailtest.Open(b, dir).Index()
	records := 0
	for b.Loop() {
		err := x.Merge(context.Background(), trail.MergeOptions{
			Since: format.MinTime, Until: format.MaxTime, Warn: func(error) {},
			NewFormatter: func() trail.Formatter { return fixed{} },
		}, func([]byte) error {
			records++
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(records)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
}

// fixed gives every record the same line.
type fixed struct{}

func (fixed) Start(*trail.BlockRef)                      {}
func (fixed) Keep(*format.Record) bool                   { return true }
func (fixed) Append(dst []byte, _ *format.Record) []byte { return append(dst, '\n') }

// TestWriteBenchTrail writes a big trail for measurements:
//
//	STENO_BENCH_TRAIL=/tmp/trail STENO_BENCH_RECORDS=2000000 go test -run WriteBenchTrail ./internal/trail
func TestWriteBenchTrail(t *testing.T) {
	dir := os.Getenv("STENO_BENCH_TRAIL")
	if dir == "" {
		t.Skip("STENO_BENCH_TRAIL is not set")
	}
	n, err := strconv.Atoi(os.Getenv("STENO_BENCH_RECORDS"))
	if err != nil {
		t.Fatal(err)
	}
	trailtest.Pgbench(t, dir, n, 8, 2)
}

package trail_test

import (
	"context"
	"io"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func BenchmarkDecode(b *testing.B) {
	dir := b.TempDir()
	trailtest.Pgbench(b, dir, 100_000, 16, 1)
	benchmarkDecode(b, open(b, dir).Index().Streams[0].Refs())
}

func benchmarkDecode(b *testing.B, refs []trail.BlockRef) {
	var files trail.Files
	defer files.Close()
	var block trail.Block
	b.ReportAllocs()
	records := 0
	for b.Loop() {
		for i := range refs {
			if err := files.Read(&refs[i], &block); err != nil {
				b.Fatal(err)
			}
			var r trail.Record
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
	x := open(b, dir).Index()
	records := 0
	for b.Loop() {
		err := x.Merge(context.Background(), trail.MergeOptions{
			Since: trail.MinTime, Until: trail.MaxTime, Warn: func(error) {},
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

func (fixed) Start(*trail.BlockRef)                     {}
func (fixed) Keep(*trail.Record) bool                   { return true }
func (fixed) Append(dst []byte, _ *trail.Record) []byte { return append(dst, '\n') }

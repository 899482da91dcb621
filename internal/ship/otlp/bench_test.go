//go:build linux

package otlp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pg-steno/pg_steno/internal/ship/otlp"
	"github.com/pg-steno/pg_steno/internal/ship/recordtest"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// BenchmarkSend sends lines of pgbench's statements to a server that throws them away.
func BenchmarkSend(b *testing.B) {
	there := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer there.Close()
	dir := b.TempDir()
	const n = 4_000
	trailtest.Pgbench(b, dir, n, 8, 1)
	events := recordtest.Of(b, dir, "otel")[:n]
	size := 0
	for i := range events {
		size += len(events[i].Line) + 1
	}
	sink := recordtest.Open(b, otlp.Kind, "to: otlp+"+there.URL)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if refused, err := sink.SendEvents(context.Background(), events); err != nil || len(refused) > 0 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(size)/n, "bytes/record")
}

// What sending costs.

package recordtest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// Sink starts an HTTP server that throws away what it gets, and returns its URL.
func Sink(b *testing.B) string {
	there := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	b.Cleanup(there.Close)
	return there.URL
}

// Bench sends lines of n of pgbench's statements again and again.
func Bench(b *testing.B, n int, as string, sink ship.EventSink) {
	dir := b.TempDir()
	trailtest.Pgbench(b, dir, n, 8, 1)
	events := Of(b, dir, as)[:n]
	size := 0
	for i := range events {
		size += len(events[i].Line) + 1
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if refused, err := sink.SendEvents(context.Background(), events); err != nil || len(refused) > 0 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(size)/float64(n), "bytes/record")
}

package http_test

import (
	"fmt"
	"testing"

	shiphttp "github.com/pg-steno/pg_steno/internal/ship/http"
	"github.com/pg-steno/pg_steno/internal/ship/recordtest"
)

// BenchmarkSend sends lines of pgbench's statements to a server that throws them away.
func BenchmarkSend(b *testing.B) {
	to := recordtest.Sink(b)
	for _, zip := range []bool{false, true} {
		b.Run(fmt.Sprintf("gzip=%v", zip), func(b *testing.B) {
			recordtest.Bench(b, 20_000, "json", recordtest.Open(b, shiphttp.Kind, "to: "+to, fmt.Sprintf("gzip: %v", zip)))
		})
	}
}

//go:build linux

package otlp_test

import (
	"testing"

	"github.com/pg-steno/pg_steno/internal/ship/otlp"
	"github.com/pg-steno/pg_steno/internal/ship/recordtest"
)

// BenchmarkSend sends lines of pgbench's statements to a server that throws them away.
func BenchmarkSend(b *testing.B) {
	recordtest.Bench(b, 4_000, "otel", recordtest.Open(b, otlp.Kind, "to: otlp+"+recordtest.Sink(b)))
}

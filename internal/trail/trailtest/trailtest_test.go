package trailtest

import (
	"os"
	"strconv"
	"testing"
)

// TestWriteBenchTrail writes a big trail for measurements:
//
//	STENO_BENCH_TRAIL=/tmp/trail STENO_BENCH_RECORDS=2000000 go test -run WriteBenchTrail ./internal/trail/trailtest
func TestWriteBenchTrail(t *testing.T) {
	dir := os.Getenv("STENO_BENCH_TRAIL")
	if dir == "" {
		t.Skip("STENO_BENCH_TRAIL is not set")
	}
	n, err := strconv.Atoi(os.Getenv("STENO_BENCH_RECORDS"))
	if err != nil {
		t.Fatal(err)
	}
	Pgbench(t, dir, n, 8, 2)
}

package trailtest

import (
	"runtime"
	"testing"
)

// Memory fails the test when reading so many bytes of input allocates more than they
// explain: a few of the largest blocks, decompressed, and something for each byte.
func Memory(t testing.TB, input int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if most, got := uint64(64<<20+4000*input), after.TotalAlloc-before.TotalAlloc; got > most {
		t.Fatalf("reading %d bytes allocated %d, more than %d", input, got, most)
	}
}

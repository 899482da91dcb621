package program

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestProcessorsAreLeftToTheDatabase: a program uses 8 of them at most, unless the user has said how many.
func TestProcessorsAreLeftToTheDatabase(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		machine int
		asked   string
		used    int
	}{
		{2, "", 2}, {8, "", 8}, {64, "", 8}, {64, "64", 64}, {64, "1", 64}, // Go's runtime has obeyed GOMAXPROCS already
	} {
		t.Setenv("GOMAXPROCS", c.asked)
		runtime.GOMAXPROCS(c.machine)
		limitProcessors()
		if used := runtime.GOMAXPROCS(0); used != c.used {
			t.Errorf("%d processors and GOMAXPROCS=%q: %d are used, want %d", c.machine, c.asked, used, c.used)
		}
	}
}

// TestMemoryThatIsNeededIsNoReasonToCollectGarbage: a program that needs more than is usual gets half more than that, and
// gives it back.
func TestMemoryThatIsNeededIsNoReasonToCollectGarbage(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	const usual = 16 << 20
	debug.SetMemoryLimit(usual)
	afterCollection(usual)
	becomes := func(what string, right func(limit int64) bool) {
		t.Helper()
		for range 500 {
			runtime.GC()
			if right(debug.SetMemoryLimit(-1)) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s: the limit is %d MB", what, debug.SetMemoryLimit(-1)>>20)
	}
	needed := make([]byte, 64<<20)
	becomes("64 MB are needed", func(limit int64) bool { return limit >= 96<<20 && limit < 150<<20 })
	runtime.KeepAlive(needed)
	becomes("and not any more", func(limit int64) bool { return limit < 64<<20 })
}

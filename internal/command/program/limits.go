// Limits the processors and memory that a program uses: its machine is often that of the database.

package program

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// usualProcessors limits the processors that a program uses: the others are for the database, and each needs memory
// for the blocks that it decodes.
const usualProcessors = 8

// limitProcessors applies this limit, unless the user has set GOMAXPROCS.
func limitProcessors() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) > usualProcessors {
		runtime.GOMAXPROCS(usualProcessors)
	}
}

// UsualMemory is the memory above which garbage is collected more often, so that commands stay within what
// docs/steno.md states. It is not a limit: a program can allocate more. A program that runs all the time sets less,
// before Main.
var UsualMemory int64 = 400 << 20

// limitMemory applies it, unless the user has set GOMEMLIMIT; only once, because tests run several programs in one
// process.
var limitMemory = sync.OnceFunc(func() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(UsualMemory)
		afterCollection(UsualMemory)
	}
})

// afterCollection is called after each garbage collection. It raises the threshold to one and a half times the memory
// in use: otherwise, a program that needs more than usual would spend half of its time collecting garbage.
func afterCollection(usual int64) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetMemoryLimit(max(usual, int64(live[0].Value.Uint64()/2*3)))
	runtime.SetFinalizer(&collected{}, func(*collected) { afterCollection(usual) })
}

// collected becomes garbage of the next collection. It is not empty, because all values of size zero share an
// address.
type collected struct{ _ *collected }

// How much of a machine a program uses, which is often the database's: processors and memory.

package program

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// usualProcessors is how many processors a program uses at most: the others are the database's, and each takes memory for
// the blocks that it decodes.
const usualProcessors = 8

// limitProcessors sets that, unless the user has set GOMAXPROCS.
func limitProcessors() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) > usualProcessors {
		runtime.GOMAXPROCS(usualProcessors)
	}
}

// usualMemory is how much memory a program may take before it looks for garbage more often, so that commands stay within
// what docs/steno.md says of them. It is no limit: what is needed is taken.
const usualMemory = 400 << 20

// limitMemory sets that, unless the user has set GOMEMLIMIT. Tests run several programs in one process: once is enough.
var limitMemory = sync.OnceFunc(func() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(usualMemory)
		afterCollection(usualMemory)
	}
})

// afterCollection is called after each garbage collection. A program that needs more than is usual would collect garbage
// without end, for half of its time: it may take half more than it needs.
func afterCollection(usual int64) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetMemoryLimit(max(usual, int64(live[0].Value.Uint64()/2*3)))
	runtime.SetFinalizer(&collected{}, func(*collected) { afterCollection(usual) })
}

// collected is garbage of the next collection. It is not empty, as all empty values are the same.
type collected struct{ _ *collected }

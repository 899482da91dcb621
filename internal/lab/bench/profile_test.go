package bench

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/perf"
)

func TestAttribution(t *testing.T) {
	f, err := os.Open("testdata/perf-script.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a := attribution{
		pids:    map[int]bool{100: true, 101: true, 102: true, 103: true},
		writers: map[int]bool{103: true},
	}
	if err := perf.Scan(f, a.add); err != nil {
		t.Fatal(err)
	}
	want := result.CPURun{
		Samples:  9, // all but process 999's
		Backends: 4,
		Writers:  2, // one of them without a stack
		Places: []result.Place{
			{Function: "executor start", Leaf: "[unknown]", Samples: 1},
			{Function: "executor_run", Samples: 1},
			{Function: "steno_record_finish", Leaf: "entry_SYSCALL_64_after_hwframe", Samples: 1},
			{Function: "steno_relations", Leaf: "SearchCatCache1", Samples: 1},
		},
	}
	if got := a.run(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestAttributionSeesHiddenCallers(t *testing.T) {
	const stacks = "100\n\t1 ExecShutdownNode (/usr/bin/postgres)\n\t2 executor_run (/usr/lib/pg_steno.so)\n\n" +
		"100\n\t1 GetUserId (/usr/bin/postgres)\n\t2 executor_run (/usr/lib/pg_steno.so)\n\n" +
		"100\n\t1 page_fault ([kernel.kallsyms])\n\t2 executor_run (/usr/lib/pg_steno.so)\n\n"
	a := attribution{pids: map[int]bool{100: true}, imports: map[string]bool{"GetUserId": true}}
	if err := perf.Scan(strings.NewReader(stacks), a.add); err != nil {
		t.Fatal(err)
	}
	if got := a.run(); got.Samples != 3 || got.Backends != 2 || got.Hidden != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestShare(t *testing.T) {
	all, backends, writers := result.CPURun{Samples: 400, Backends: 5, Writers: 3}.Share()
	if all != 2 || backends != 1.25 || writers != 0.75 {
		t.Errorf("got %g %g %g", all, backends, writers)
	}
}

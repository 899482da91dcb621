package bench

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/perf"
)

// samples is what perf script prints.
const samples = `  100
	ffffffff81b94ccc pv_native_safe_halt ([kernel.kallsyms])
	          2a2b2c StandardMain (/usr/lib/postgresql/15/bin/postgres)

  101
	          1a2b3c heap_getnext (/usr/lib/postgresql/15/bin/postgres)
	          2a2b3c standard_ExecutorRun (/usr/lib/postgresql/15/bin/postgres)
	            4f3c executor_run (/nowhere/lib/pg_steno.so)
	          3a2b3c PortalRunSelect (/usr/lib/postgresql/15/bin/postgres)

  101
	            4f10 executor_run (/nowhere/lib/pg_steno.so)
	          3a2b3c PortalRunSelect (/usr/lib/postgresql/15/bin/postgres)

  102
	ffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
	           d4ad7 __clock_gettime (/usr/lib/x86_64-linux-gnu/libc.so.6)
	            4aa0 steno_record_finish (/nowhere/lib/pg_steno.so)
	            4b00 executor_end (/nowhere/lib/pg_steno.so)
	          3a2b3c PortalDrop (/usr/lib/postgresql/15/bin/postgres)

  102
	          1a2b3c SearchCatCache1 (/usr/lib/postgresql/15/bin/postgres)
	            4aa0 steno_relations (/nowhere/lib/pg_steno.so)
	            4b00 executor_check_perms (/nowhere/lib/pg_steno.so)
	          3a2b3c standard_ExecutorStart (/usr/lib/postgresql/15/bin/postgres)
	            4c00 executor_start (/nowhere/lib/pg_steno.so)

  102
	            2b00 pgaudit_ExecutorStart_hook (/usr/lib/postgresql/15/lib/pgaudit.so)
	            4c00 executor_start (/nowhere/lib/pg_steno.so)

  103
	          1a2b3c fdatasync (/usr/lib/x86_64-linux-gnu/libc.so.6)
	            9c00 steno_stream_sync (/nowhere/lib/pg_steno.so)

  103

  999
	            4c00 executor_start (/nowhere/lib/pg_steno.so)

  101
	          1a2b3c [unknown] (/tmp/a (deleted)/postgres)
	            4c00 executor start (/tmp/a b (1)/pg_steno.so)
`

func TestAttribution(t *testing.T) {
	a := attribution{
		pids:    map[int]bool{100: true, 101: true, 102: true, 103: true},
		writers: map[int]bool{103: true},
	}
	if err := perf.Scan(strings.NewReader(samples), a.add); err != nil {
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

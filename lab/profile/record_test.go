package profile

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/lab/perf"
)

// waitScript is what perf says of a second in the life of some processes.
const waitScript = `
    0    0.000000: PERF_RECORD_FORK(12:12):(1:1)
    9   10.000000: PERF_RECORD_SWITCH_CPU_WIDE IN  prev pid/tid:     0/0
   11   10.100000: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid:     0/0
   11   10.100000:
	0 schedule ([kernel.kallsyms])
	0 SyncRepWaitForLSN (/bin/postgres)

   12   10.200000: PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     0/0
   11   10.400000: PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     0/0
   11   10.500000:
	0 schedule ([kernel.kallsyms])
	0 ExecScan (/bin/postgres)

   11   10.500000: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:    12/12
    9   10.550000: PERF_RECORD_FORK(14:14):(1:1)
   11   10.600000: PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     0/0
   12   10.700000:
	0 schedule ([kernel.kallsyms])
	0 secure_read (/bin/postgres)

   14   10.800000:
	0 schedule ([kernel.kallsyms])
	0 XLogFlush (/bin/postgres)

   15   10.800000:
	0 schedule ([kernel.kallsyms])
	0 WalSndLoop (/bin/postgres)

    9   11.000000: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid:     0/0
`

func readScript(t *testing.T, script string, period int) (*Profile, *offCPU) {
	t.Helper()
	p := &Profile{}
	o := &offCPU{
		profile: p, period: period, own: 16, kinds: map[int]string{11: backend, 12: backend, 13: backend,
			15: "walsender", 16: backend},
		// 12 waits for a lock till 10.2, 13 all the time
		snapshot: map[int]Stack{
			12: {Process: backend, Waiting: true, Wait: "Lock:relation"}, 13: {Process: backend, Waiting: true,
				Wait: "IO:DataFileRead"},
		},
		pending: map[int]*Stack{}, since: map[int]float64{}, seen: map[int]bool{},
	}
	r := &recorder{target: &Target{Postmaster: 1}}
	err := perf.Scan(strings.NewReader(script), func(e perf.Event) {
		r.learnFork(e.Record, o.kinds)
		o.add(e)
	})
	if err != nil {
		t.Fatal(err)
	}
	o.finish()
	return p, o
}

func secondsByCause(p *Profile) map[string]string {
	sums := map[string]float64{}
	for _, s := range p.Stacks {
		sums[s.cause.ID] += s.Seconds
	}
	texts := map[string]string{}
	for id, seconds := range sums {
		texts[id] = fmt.Sprintf("%.3f", seconds)
	}
	return texts
}

func TestWaitsAreTimedFromSwitches(t *testing.T) {
	p, o := readScript(t, waitScript, 1)
	want := map[string]string{
		syncRep: "0.300", starved: "0.100", "locks": "0.200", "data_files": "1.000", idle: "0.300", "wal": "0.200",
	}
	if got := secondsByCause(p); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if math.Abs(p.WaitSeconds-1) > 1e-6 || o.lost != 0 {
		t.Errorf("%g seconds, %d lost", p.WaitSeconds, o.lost)
	}
	// every second switch only: those that are seen count twice, but not the snapshot
	p, _ = readScript(t, waitScript, 2)
	if got := secondsByCause(p); got[syncRep] != "0.600" || got["data_files"] != "1.000" {
		t.Errorf("with a period of 2: got %v", got)
	}
}

func TestLostSwitchesMakeNoLongWaits(t *testing.T) {
	script := strings.Replace(waitScript, "   12   10.200000", "   12   10.150000: PERF_RECORD_LOST lost 7\n   12   "+
		"10.200000", 1)
	p, o := readScript(t, script, 1)
	if got := secondsByCause(p); got[syncRep] != "" || o.lost != 1 {
		t.Errorf("got %v, %d lost", got, o.lost)
	}
}

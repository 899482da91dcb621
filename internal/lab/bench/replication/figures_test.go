package replication

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
)

func TestScript(t *testing.T) {
	one := script(1)
	if strings.Count(one, "INSERT INTO inserted") != 1 || strings.Contains(one, "BEGIN") {
		t.Errorf("one insert is\n%s", one)
	}
	ten := strings.Split(strings.TrimSpace(script(10)), "\n")
	if len(ten) != 12 || ten[0] != "BEGIN;" || ten[11] != "COMMIT;" || !strings.Contains(ten[10], ":client_id, 9,") {
		t.Errorf("ten inserts are\n%s", strings.Join(ten, "\n"))
	}
}

func TestSharesAndTopEvents(t *testing.T) {
	events := map[string]int{waitStandby: 60, running: 30, "a": 6, "b": 4}
	want := map[string]float64{waitStandby: 60, running: 30, "c": 0, otherEvents: 10}
	if got := shares(events, []string{waitStandby, running, "c"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := shares(nil, []string{"a"}); !reflect.DeepEqual(got, map[string]float64{"a": 0, otherEvents: 0}) {
		t.Errorf("of nothing: %v", got)
	}
	// "rare" is rare in all, but much in one look
	looks := []*look{
		{events: map[string]int{"a": 50, "b": 40, "c": 4, "d": 3, "e": 2, "f": 1}},
		{events: map[string]int{"a": 1, "rare": 9}},
	}
	if got, want := topEvents(looks), []string{"rare", "a", "b", "c", "d", "e"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLatencies(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "latency")
	var lines strings.Builder
	for ms := 100; ms > 0; ms-- {
		fmt.Fprintf(&lines, "0 1 %d 0 1700000000 1\n", ms*1000)
	}
	for name, text := range map[string]string{".1": lines.String(), ".1.1": "1 1 100000 0 1700000000 1\n"} {
		if err := os.WriteFile(prefix+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p50, p99, err := takeLatencies(prefix)
	if p50 != 51 || p99 != 100 || err != nil {
		t.Errorf("of 1 to 100 ms and another 100: %v, %v, %v", p50, p99, err)
	}
	if files, _ := filepath.Glob(prefix + "*"); len(files) > 0 {
		t.Errorf("%v are left", files)
	}
	if _, _, err := takeLatencies(prefix); err == nil {
		t.Error("no log is no error")
	}
	for share, want := range map[float64]float64{0.01: 1, 0.5: 2, 0.75: 3, 0.99: 4, 1: 4} {
		if got := percentile([]float64{1, 2, 3, 4}, share); got != want {
			t.Errorf("percentile %v of 1 to 4: %v, want %v", share, got, want)
		}
	}
}

const traced = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 40.00    0.020000           3      6000           epoll_wait
 30.00    0.010000           2      5000      1000 recvfrom
 20.00    0.005000           1      4000           futex
 10.00    0.001000           1      1000           openat
------ ----------- ----------- --------- --------- ----------------
100.00    0.036000           2     16000      1000 total
`

func TestParseTrace(t *testing.T) {
	got, err := parseTrace("strace: Process 7 attached\n" + traced)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"": 16000, "epoll_wait": 6000, "recvfrom": 5000, "futex": 4000,
		"sendto": 0, "epoll_ctl": 0, "kill": 0, "pwrite64": 0, "fdatasync": 0}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := parseTrace("strace: attach: Operation not permitted\n"); err == nil {
		t.Error("nothing counted is no error")
	}
}

func TestTraceCountsWhatAProcessCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace here")
	}
	shell := exec.Command("sh", "-c", "read line; kill -0 $$; kill -0 $$; kill -0 $$")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	trace, err := startTrace(t.Context(), strace, []int{shell.Process.Pid})
	if err != nil {
		_ = in.Close()
		_ = shell.Wait()
		t.Skipf("strace may not attach here: %v", err)
	}
	_ = in.Close()
	_ = shell.Wait()
	counts, err := trace.end()
	if counts["kill"] != 3 || counts[""] < 4 || err != nil {
		t.Errorf("counted %v, %v; 3 calls of kill were made", counts, err)
	}
}

// synthetic is a measurement of two rounds whose figures are known.
func synthetic(cores int, idle map[string]float64, epollCtl float64) *measurement {
	o := &Options{matrix: matrix{Sync: []string{"off", base, "on"}, Steno: []string{stenoOff, stenoAsync},
		Inserts: []int{1, 10}, Clients: []int{4}, Cores: []string{allCores, "8"}}}
	m := &measurement{Options: o, r: &result.Result{Dimensions: o.dimensions(), Metrics: metrics}}
	m.r.Machine.Cores = cores
	speed := map[string]float64{"off": 3000, base: 2000, "on": 500}
	for round := range 7 {
		for _, group := range o.groups() {
			all := make([]figures, len(group))
			for i, p := range group {
				all[i] = figures{tps: speed[p.sync], p50: 1, p99: 2, idle: idle[p.sync]}
				if p.cores == "8" {
					all[i].tps *= 1.5
				}
				if p.steno == stenoAsync {
					all[i].tps *= 0.9
				}
				m.addTimed(round+1, i+1, p, all[i])
			}
			m.addAgainstOff(round+1, group, all)
		}
	}
	for _, group := range o.groups() {
		for i, p := range group {
			l := &look{events: map[string]int{running: 1, waitStandby: 3}, tps: 100, latches: 250,
				calls: map[string]float64{"": 9, "epoll_wait": 2, "epoll_ctl": epollCtl}}
			m.looks = append(m.looks, looked{1, i + 1, p, l})
		}
	}
	m.finish()
	return m
}

func TestFiguresOfKnownSamples(t *testing.T) {
	m := synthetic(2, map[string]float64{base: 20, "on": 60}, 0.01)
	c := point{"on", stenoAsync, 10, 4, allCores}.result()
	for metric, want := range map[string]float64{metricTPS: 450, metricInserts: 4500, metricOff: 0.9,
		metricLatches: 2.5, metricLatchesPS: 250} {
		if x := m.r.Find(c, metric); x == nil || math.Abs(x.Value.Median-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", metric, x, want)
		}
	}
	if x := m.r.Find(c, metricTPS); x.Ratio == nil || x.Ratio.Median != 0.25 {
		t.Errorf("the ratio to local is %v", x.Ratio)
	}
	if x := m.r.Find(c.With(dimEvent, waitStandby), metricWaits); x == nil || x.Value.Median != 75 {
		t.Errorf("the share that waits for a standby is %v", x)
	}
	published := m.r.Find(point{"on", stenoOff, 1, 4, allCores}.result(), metricTPS).Published
	if len(published) != 1 || math.Abs(published[0].Value-73.0/220) > 1e-9 || !published[0].IsRatio {
		t.Errorf("published beside it: %v", published)
	}
	for _, table := range m.r.Tables {
		for _, name := range table.Rows {
			found := false
			for _, d := range m.r.Dimensions {
				found = found || d.Name == name
			}
			if !found {
				t.Errorf("table \"%s\" has rows of \"%s\", which is no dimension", table.Title, name)
			}
		}
	}
}

func TestNotesFollowFromFigures(t *testing.T) {
	few := strings.Join(synthetic(2, map[string]float64{base: 20, "on": 60}, 0.01).r.Notes, "\n")
	many := strings.Join(synthetic(64, map[string]float64{base: 2, "on": 3}, 4).r.Notes, "\n")
	for _, c := range []struct {
		notes, want string
		is          bool
	}{
		{few, "75 % of the observed sessions waited for a standby", true},
		{few, "idle for 60 % of the time, with local for 20 %", true},
		{few, "limited by the waits, not by the processors", true},
		{many, "limited by the waits, not by the processors", false},
		{many, "Unlike in the published run, no processors are idle", true},
		{few, "no longer exists: since PostgreSQL 14", true},
		{many, "no longer exists: since PostgreSQL 14", false},
		{many, "4.00 of epoll_ctl()", true},
		{few, "share 2 cores", true},
		{many, "share 64 cores", false},
		{few, "pg_steno kept 0.90 (0.90 to 0.90) of the throughput with synchronous_commit=on, a loss beyond noise",
			true},
		{many, "that with all 64 cores was 1.50 with 8 (", true},
		{few, "10 inserts per transaction achieved 10.0 times as many inserts per second as 1", true},
	} {
		if strings.Contains(c.notes, c.want) != c.is {
			t.Errorf("%q in these notes should be %v:\n%s", c.want, c.is, c.notes)
		}
	}
}

func TestWhatWasNotCountedIsSaid(t *testing.T) {
	m := &measurement{Options: &Options{}, r: &result.Result{}}
	m.looks = []looked{{look: &look{noCalls: errors.New("not allowed")}},
		{look: &look{noLatches: errors.New("no uprobes")}}}
	m.addReasons()
	var all []string
	for _, s := range m.r.Skipped {
		all = append(all, s.Reason)
	}
	want := []string{"system calls were not counted in 1 of 2 slices: not allowed",
		"latches were not counted in 1 of 2 slices: no uprobes"}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
}

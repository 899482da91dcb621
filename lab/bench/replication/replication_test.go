package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/cluster/labtest"
	"github.com/pg-steno/pg_steno/lab/measure"
	"github.com/pg-steno/pg_steno/lab/measure/measuretest"
)

// small returns options for a run of a few seconds.
func small(streams *iostreams.IOStreams, i *cluster.Installation) *Options {
	o := &Options{
		Common: measure.Common{Environment: measure.Environment{IO: streams}},
		matrix: matrix{Sync: []string{base, "on"}, Steno: []string{stenoOff}, Inserts: []int{2}, Clients: []int{2},
			Cores: []string{"1"}},
		Rounds: 1, Looks: 1, Seconds: 1,
	}
	if i.HasLibrary(stenoLibrary) {
		o.Steno = append(o.Steno, stenoSync)
	}
	return o
}

func TestEveryRowArrivesOnBothStandbys(t *testing.T) {
	ctx := context.Background()
	i := labtest.Installation(t)
	lab, err := cluster.NewLab(ctx, i)
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	streams, _, _, _ := iostreams.Test()
	o := small(streams, i)
	if err := writeScripts(lab, &o.matrix); err != nil {
		t.Fatal(err)
	}
	sets, err := startSets(ctx, lab, &o.matrix, 3, progress.NewPhases(streams))
	if err != nil {
		t.Fatal(err)
	}
	for _, steno := range o.Steno {
		s := sets[steno]
		defer s.close()
		p := point{"remote_apply", steno, 2, 3, allCores}
		var latches latchWatch
		defer latches.close()
		latches.step(lab, s.primary)
		args := []string{"--no-vacuum", "--file=" + scriptFile(lab, 2), "--client=3", "--transactions=5"}
		if _, err := s.load(ctx, lab, p, args, patience); err != nil {
			t.Fatal(err)
		}
		if err := cluster.WaitCaughtUp(ctx, s.conn, standbys); err != nil {
			t.Fatal(err)
		}
		const query = "SELECT count(*), count(DISTINCT (client, number)), pg_is_in_recovery() FROM inserted"
		for _, standby := range s.standbys {
			// 3 clients, 5 transactions each, of 2 inserts
			if got, err := standby.Psql(ctx, query); got != "30|6|t" || err != nil {
				t.Errorf("standby \"%s\" has %q, %v", standby.Name, got, err)
			}
		}
		latches.step(lab, s.primary)
		// The WAL senders wake waiting sessions, so latches are counted if that is permitted.
		if latches.counter != nil && latches.count == 0 {
			t.Error("commits waited for a standby, and no latch was set")
		}
		checkPrimary(ctx, t, s)
	}
}

func checkPrimary(ctx context.Context, t *testing.T, s *set) {
	t.Helper()
	state, err := s.primary.Psql(ctx, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND "+
		"sync_state = 'quorum'")
	if state != "2" || err != nil {
		t.Errorf("%s standbys stream and may confirm, %v; want 2", state, err)
	}
	for _, cores := range []string{"1", allCores} {
		if err := s.limit(cores); err != nil {
			t.Fatal(err)
		}
		want, err := processors(cores)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range s.primary.Processes() {
			var have unix.CPUSet
			err := unix.SchedGetaffinity(pid, &have)
			if errors.Is(err, unix.ESRCH) {
				continue
			}
			if err != nil || have != *want {
				t.Errorf("process %d has %d processors, want %d, %v", pid, have.Count(), want.Count(), err)
			}
		}
	}
	if err := s.settle(ctx); err != nil {
		t.Fatal(err)
	}
	if rows, err := s.standbys[0].Psql(ctx, "SELECT count(*) FROM inserted"); rows != "0" || err != nil {
		t.Errorf("a standby has %s rows after a slice is cleared away, %v", rows, err)
	}
}

func TestRunMeasuresEveryCombination(t *testing.T) {
	i := labtest.Installation(t)
	streams, _, _, _ := iostreams.Test()
	o := small(streams, i)
	r, err := o.measure(context.Background(), i, progress.NewPhases(streams))
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range o.groups() {
		for _, p := range group {
			checkPoint(t, r, p)
		}
	}
	dimension := func(name string) *result.Dimension {
		n := slices.IndexFunc(r.Dimensions, func(d result.Dimension) bool { return d.Name == name })
		return &r.Dimensions[n]
	}
	for _, s := range r.Samples {
		if !slices.ContainsFunc(r.Metrics, func(m result.Metric) bool { return m.Name == s.Metric }) {
			t.Fatalf("no metric \"%s\"", s.Metric)
		}
		for name, value := range s.Case {
			if !slices.ContainsFunc(dimension(name).Values, func(v result.Value) bool { return v.Name == value }) {
				t.Fatalf("%s has no value \"%s\"", name, value)
			}
		}
	}
}

// checkPoint checks for figures that must exist, whatever the speed.
func checkPoint(t *testing.T, r *result.Result, p point) {
	t.Helper()
	c := p.result()
	for _, metric := range []string{metricTPS, metricInserts, metricP50, metricP99} {
		if m := r.Find(c, metric); m == nil || m.Value.Median <= 0 {
			t.Errorf("%v has %s %v", c, metric, m)
		}
	}
	if tps, rows := r.Find(c, metricTPS), r.Find(c, metricInserts); tps != nil && rows != nil &&
		rows.Value.Median != 2*tps.Value.Median {
		t.Errorf("%v: %v transactions of 2 inserts are %v inserts", c, tps.Value.Median, rows.Value.Median)
	}
	if m := r.Find(c, metricTPS); m != nil && (m.Ratio != nil) != (p.sync != base) {
		t.Errorf("%v has the ratio %v", c, m.Ratio)
	}
	if m := r.Find(c, metricOff); (m != nil) != (p.steno != stenoOff) {
		t.Errorf("%v against no pg_steno: %v", c, m)
	}
	sum := 0.0
	for _, m := range r.Measures {
		if m.Metric == metricWaits && m.Case.Matches(c) {
			sum += m.Value.Median
		}
	}
	if sum < 99.9 || sum > 100.1 {
		t.Errorf("%v: shares of what sessions wait for add up to %v %%", c, sum)
	}
	calls := r.Find(c.With(dimCall, allCalls), metricCalls)
	if calls == nil && len(r.Skipped) == 0 {
		t.Errorf("%v: neither system calls nor a reason", c)
	}
	// at least receiving the commands and sending the answers
	if calls != nil && calls.Value.Median < 4 {
		t.Errorf("%v: %v system calls per commit", c, calls.Value.Median)
	}
}

func TestCanceledRunLeavesNothing(t *testing.T) {
	for _, when := range []string{"making servers", "measuring"} {
		t.Run(when, func(t *testing.T) {
			i := labtest.Installation(t)
			ctx, streams := labtest.CanceledAt(when)
			o := small(streams, i)
			if _, err := o.measure(ctx, i, progress.NewPhases(streams)); !errors.Is(err, context.Canceled) {
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestProcessorsAreOurs(t *testing.T) {
	all, err := processors(allCores)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= all.Count(); n++ {
		some, err := processors(strconv.Itoa(n))
		if err != nil || some.Count() != n {
			t.Fatalf("%d processors are %d, %v", n, some.Count(), err)
		}
		for cpu := range 1024 {
			if some.IsSet(cpu) && !all.IsSet(cpu) {
				t.Errorf("processor %d is not ours", cpu)
			}
		}
	}
}

func TestWrongUsageIsRefused(t *testing.T) {
	measuretest.Refused(t, New, map[string]string{
		"--sync always":     `--sync: "always" is not one of [off local`,
		"--steno on":        `--steno: "on" is not one of [off async sync]`,
		"--inserts 0":       "--inserts: 0 is not between 1 and 1000",
		"--clients 16,5000": "--clients: 5000 is not between 1 and 1000",
		"--cores all,9999":  `--cores: "9999" is neither "all" nor between 1 and`,
		"--cores some":      `--cores: "some" is neither "all" nor between 1 and`,
		"--cores 0":         `--cores: "0" is neither`,
		"--rounds 0":        "--rounds and --seconds must be at least 1",
		"--looks -1":        "--looks must not be negative",
		"--quick --full":    "--quick and --full exclude each other",
		"--format xml":      `invalid format "xml"`,
	})
	if _, err := measuretest.Parse(New, "--pg-config /none --steno off"); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestMissingThingsAreErrorsBeforeAnythingStarts(t *testing.T) {
	o, err := measuretest.Parse(New, "--pg-config /no/such/pg_config")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.prepare(); err == nil || !strings.Contains(err.Error(), `cannot run "/no/such/pg_config`) {
		t.Errorf("got %v", err)
	}
}

// A missing pg_steno is an error if it was requested, and skipped otherwise.
func TestMissingExtension(t *testing.T) {
	if labtest.Installation(t).HasLibrary(stenoLibrary) {
		t.Skip("pg_steno is installed")
	}
	for _, line := range []string{"--steno sync", "--steno off,async"} {
		o, err := measuretest.Parse(New, line)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := o.prepare(); err == nil || !strings.Contains(err.Error(),
			"cannot measure pg_steno: no pg_steno.so in") {
			t.Errorf("%s: got %v", line, err)
		}
	}
	o, err := measuretest.Parse(New, "")
	if err != nil {
		t.Fatal(err)
	}
	_, skipped, err := o.prepare()
	if err != nil || len(skipped) != 2 || !slices.Equal(o.Steno, []string{stenoOff}) {
		t.Errorf("skipped %v, left %v, %v", skipped, o.Steno, err)
	}
}

func TestSizesOfRuns(t *testing.T) {
	for _, c := range []struct {
		line                   string
		rounds, seconds, looks int
		points                 int
	}{
		{"", 5, 1, 1, 5 * 3 * 2},
		{"--quick", 3, 1, 1, 5 * 3},
		{"--quick --inserts 1,10,100 --rounds 7", 7, 1, 1, 5 * 3 * 3},
		{"--full --cores all", 6, 2, 2, 5 * 3 * 2 * 3},
		{"--full --cores all --clients 8 --seconds 3 --steno off", 6, 3, 2, 5 * 2},
	} {
		o, err := measuretest.Parse(New, c.line)
		if err != nil {
			t.Fatal(err)
		}
		if o.Rounds != c.rounds || o.Seconds != c.seconds || o.Looks != c.looks || o.matrix.size() != c.points {
			t.Errorf("%q: %d rounds of %d s, %d looks, %d points, want %+v", c.line, o.Rounds, o.Seconds, o.Looks,
				o.matrix.size(), c)
		}
	}
	o := &Options{}
	o.Full = true
	o.choose(64, func(string) bool { return false })
	if want := []string{allCores, "32"}; !slices.Equal(o.Cores, want) {
		t.Errorf("on 64 cores the primary gets %v, want %v", o.Cores, want)
	}
}

func TestGroupsHaveEveryPointOnceAndNeighboursToCompare(t *testing.T) {
	m := matrix{Sync: []string{"off", "local", "on"}, Steno: []string{"off", "sync"}, Inserts: []int{1, 10},
		Clients: []int{4, 8}, Cores: []string{"all", "1"}}
	seen := map[point]bool{}
	for _, group := range m.groups() {
		if len(group) != 6 {
			t.Fatalf("a group of %d", len(group))
		}
		for _, p := range group {
			if p.inserts != group[0].inserts || p.clients != group[0].clients || p.cores != group[0].cores {
				t.Errorf("%v and %v are compared with each other", p, group[0])
			}
			if seen[p] {
				t.Errorf("%v comes twice", p)
			}
			seen[p] = true
		}
	}
	if len(seen) != m.size() || m.size() != 48 {
		t.Errorf("%d points of %d", len(seen), m.size())
	}
}

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
	// "rare" is rare overall, but frequent in one look
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

// synthetic returns a measurement of two rounds with known figures.
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

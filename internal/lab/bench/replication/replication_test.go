package replication

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/cluster/labtest"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// small is a run of a few seconds.
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
		// The WAL senders wake those who wait; that is, where we may count.
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

// checkPoint looks for figures that must be there, whatever the speed.
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
	// at least the commands' receipt and the answers
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

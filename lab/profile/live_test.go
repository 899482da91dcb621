package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// The command on real servers.

func lab(t *testing.T) *cluster.Lab {
	t.Helper()
	i, err := cluster.Find("")
	if err != nil {
		t.Skipf("no PostgreSQL here: %v", err)
	}
	l, err := cluster.NewLab(context.Background(), i)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	fill := func(s *cluster.Server) error {
		_, err := s.Pgbench(context.Background(), "--initialize", "--quiet", "--scale=1")
		return err
	}
	if err := l.Prepare(context.Background(), nil, fill); err != nil {
		t.Fatal(err)
	}
	return l
}

func start(t *testing.T, l *cluster.Lab, name string, settings ...cluster.Setting) *cluster.Server {
	t.Helper()
	s, err := l.Start(context.Background(), name, settings)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// needPerf skips where perf does not see everything.
func needPerf(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"-e", "cpu-clock"}, {"-e", "context-switches", "--switch-events"}} {
		cmd := exec.Command("perf", append(append([]string{"record", "-a", "-g", "-o", os.DevNull}, args...), "--",
			"true")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("perf may not sample here: %v\n%s", err, out)
		}
	}
}

// load keeps pgbench running until the test ends.
func load(t *testing.T, s *cluster.Server, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Pgbench(ctx, append(args, "--no-vacuum", "--time=120", "--jobs=2")...)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("pgbench: %v", err)
		}
	})
	waitFor(t, s, "SELECT least(1, count(*)) FROM pg_stat_activity WHERE application_name = 'pgbench' AND xact_start "+
		"IS NOT NULL")
}

// waitFor asks again until the answer is 1.
func waitFor(t *testing.T, s *cluster.Server, question string) {
	t.Helper()
	for range 1000 {
		n, err := s.Psql(context.Background(), question)
		if err != nil {
			t.Fatal(err)
		}
		if n == "1" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never 1: %s", question)
}

// runProfile runs the command, and looks that it leaves nothing behind.
func runProfile(t *testing.T, ctx context.Context, args ...string) (*Report, error) {
	t.Helper()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	streams, _, out, _ := iostreams.Test()
	o := New(measure.Environment{IO: streams})
	flags := pflag.NewFlagSet("profile", pflag.ContinueOnError)
	o.AddFlags(flags)
	err := flags.Parse(append(args, "--format", "json"))
	if err == nil {
		err = o.Complete(flags.Changed)
	}
	if err == nil {
		err = o.Run(ctx)
	}
	if left, _ := os.ReadDir(temporary); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	children, _ := machine.Here.Children(os.Getpid())
	for _, p := range children {
		if p.Name == "perf" || p.Name == "sleep" {
			t.Errorf("process %d is left behind: %s", p.PID, p.Title)
		}
	}
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatal(err)
	}
	return r, nil
}

func (r *Report) share(id string) Share {
	for _, c := range r.Causes {
		if c.ID == id {
			return c
		}
	}
	return Share{}
}

func show(r *Report) string {
	var b bytes.Buffer
	r.WriteText(&b)
	return b.String()
}

func TestLogIsTheFirstCauseOfAServerThatLogs(t *testing.T) {
	needPerf(t)
	s := start(t, lab(t), "log", cluster.Setting{Name: "log_statement", Value: "all"},
		cluster.Setting{Name: "log_duration", Value: "on"},
		cluster.Setting{Name: "logging_collector", Value: "on"})
	load(t, s, "--select-only", "--protocol=prepared", "--client=8")
	dir := filepath.Join(t.TempDir(), "out")
	r, err := runProfile(t, context.Background(), "--data-dir", s.DataDir, "--seconds", "3", "--wait-seconds", "1",
		"--out", dir)
	if err != nil {
		t.Fatal(err)
	}
	// which part of the log costs most is the machine's matter, but each takes processor time: on a busy machine, the
	// active time is mostly waiting for a processor
	for _, part := range []string{logFormat, logWrite, "collector"} {
		if share := r.share(part); share.CPU < 1 {
			t.Errorf("%s is %.1f %% of the CPU time:\n%s", part, share.CPU, show(r))
		}
	}
	if !slices.Contains([]string{logFormat, logWrite, "collector"}, r.FirstCause) {
		t.Errorf("the first cause is %q:\n%s", r.FirstCause, show(r))
	}
	if !strings.Contains(strings.Join(r.Advice, "\n"), "log_duration = on") || r.Settings["log_statement"] != "all" {
		t.Errorf("no advice about log_duration:\n%s", show(r))
	}
	for _, file := range []string{"profile.json", "flame.html", "folded.txt", "profile.pb.gz"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// pair starts a primary and a standby that its commits wait for.
func pair(t *testing.T) *cluster.Server {
	t.Helper()
	l := lab(t)
	primary := start(t, l, "primary", cluster.Setting{Name: "synchronous_standby_names", Value: "*"})
	// The standby is another copy of the template.
	signal := filepath.Join(l.Dir, "template", "standby.signal")
	if err := errors.Join(os.WriteFile(signal, nil, 0o600), l.Own(signal)); err != nil {
		t.Fatal(err)
	}
	start(t, l, "standby", cluster.Setting{Name: "primary_conninfo", Value: primary.Conninfo("postgres", "postgres")})
	waitFor(t, primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")
	return primary
}

func TestWaitForTheStandbyIsTheFirstCauseOfSyncReplication(t *testing.T) {
	needPerf(t)
	s := pair(t)
	load(t, s, "--builtin=simple-update", "--client=8")
	r, err := runProfile(t, context.Background(), "--dsn", s.Conninfo("postgres", "postgres"), "--seconds", "3",
		"--wait-seconds", "2")
	if err != nil {
		t.Fatal(err)
	}
	if r.FirstCause != syncRep || !strings.Contains(strings.Join(r.Advice, "\n"), "synchronous_standby_names = '*'") {
		t.Errorf("the first cause is %q:\n%s", r.FirstCause, show(r))
	}
	if !slices.ContainsFunc(r.Waits, func(w Wait) bool { return w.Event == "IPC:SyncRep" && w.Cause == syncRep }) {
		t.Errorf("the wait events do not show it:\n%s", show(r))
	}

	// Without perf, /proc and wait events tell.
	if r, err = runProfile(t, context.Background(), "--pid", fmt.Sprint(r.Server.PID), "--seconds", "2",
		"--no-perf"); err != nil {
		t.Fatal(err)
	}
	if share := r.share(syncRep); share.Active < FirstCausePercent ||
		share.Evidence[0].Stack != "wait event IPC:SyncRep" {
		t.Errorf("without perf:\n%s", show(r))
	}
}

// A session that sleeps all the while, in its own sleep and on a lock.
func TestSleepersAreSeen(t *testing.T) {
	s := start(t, lab(t), "server")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 2)
	defer func() { cancel(); <-ended; <-ended }()
	for _, session := range []struct{ script, event string }{
		{"BEGIN; LOCK pgbench_history; SELECT pg_sleep(100)", "PgSleep"},
		{"SELECT count(*) FROM pgbench_history", "relation"},
	} {
		go func() {
			_, _ = s.Psql(ctx, session.script)
			ended <- struct{}{}
		}()
		waitFor(t, s, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = '"+session.event+"'")
	}
	for _, more := range [][]string{nil, {"--no-perf"}} {
		r, err := runProfile(t, context.Background(), append(more, "--pid", fmt.Sprint(s.PID()), "--seconds", "1",
			"--wait-seconds", "1")...)
		if err != nil {
			t.Fatal(err)
		}
		if r.share("locks").Waiting < 40 || r.share("executor").Waiting < 40 || r.FirstCause != "locks" {
			t.Errorf("%v:\n%s", more, show(r))
		}
	}
}

func TestInterruptedProfileLeavesNothing(t *testing.T) {
	s := start(t, lab(t), "server")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	began := time.Now()
	_, err := runProfile(t, ctx, "--pid", fmt.Sprint(s.PID()), "--seconds", "60")
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 30*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestServersThatAreNotThere(t *testing.T) {
	empty := t.TempDir()
	stopped := t.TempDir()
	for name, text := range map[string]string{"PG_VERSION": "15\n", "postmaster.pid": fmt.Sprintf("%d\n",
		os.Getpid())} {
		if err := os.WriteFile(filepath.Join(stopped, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "no server specified"},
		{[]string{"--data-dir", empty}, "is not a data directory"},
		{[]string{"--data-dir", stopped}, "no server runs in"},
		{[]string{"--pid", fmt.Sprint(os.Getpid())}, "does not belong to a PostgreSQL server"},
		{[]string{"--pid", fmt.Sprint(1 << 30)}, "there is no process"},
		{[]string{"--dsn", "host=" + empty + " port=1"}, "failed to connect"},
		{[]string{"--pid", "1", "--data-dir", empty}, "exclude each other"},
		{[]string{"--pid", "1", "--seconds", "0"}, "--seconds"},
		{[]string{"--pid", "1", "--unwind", "lbr"}, "fp and dwarf"},
	} {
		if _, err := runProfile(t, context.Background(), test.args...); err == nil || !strings.Contains(err.Error(),
			test.want) {
			t.Errorf("%q: got error %v, want %q", test.args, err, test.want)
		}
	}
}

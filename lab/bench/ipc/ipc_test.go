package ipc

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/measure/measuretest"
)

func mustParse(t *testing.T, line string) *Options {
	t.Helper()
	o, err := measuretest.Parse(New, line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return o
}

func TestWrongUsage(t *testing.T) {
	measuretest.Refused(t, New, map[string]string{
		"--channels pipe,tube":  `no channel "tube"; there are pipe, pipe_mutex,`,
		"--processes 0":         "--processes must be from 1 to 10000, not 0",
		"--readers 65":          "--readers must be from 1 to 64, not 65",
		"--sleepers -1":         "--sleepers must be from 1 to 10000, not -1",
		"--sizes 63":            `not "63"`,
		"--sizes 5M":            `not "5M"`,
		"--sizes 100":           `not "100"`,
		"--sizes k":             `not "k"`,
		"--batches 0":           `not "0"`,
		"--batches some":        `not "some"`,
		"--clocks always":       `no clock "always"; there are message and pass`,
		"--part half":           `no part "half"`,
		"--rounds 0":            "--rounds must be at least 1",
		"--slice 0s":            "--slice must be from 1ms to 1h",
		"--quick --full":        "exclude each other",
		"--format xml":          `invalid format "xml"`,
		"--sizes 4M,4194305":    `not "4194305"`,
		"--processes 1,2,10001": "not 10001",
	})
}

func TestPlanVariesOneDimensionAtATime(t *testing.T) {
	p := mustParse(t, "").plan
	var swept []string
	for _, s := range p.sweeps {
		swept = append(swept, s.dimension)
	}
	if want := []string{"processes", "size", "batch", "readers", "clock"}; !slices.Equal(swept, want) {
		t.Errorf("got %v, want %v", swept, want)
	}
	// 5 numbers of processes, 6 other sizes, 2 other batches, readers, clock; 512 bytes with 10 processes occurs twice
	if len(p.groups) != 5+6+2+1+1 {
		t.Errorf("got %d groups: %v", len(p.groups), p.groups)
	}
	if len(p.channels) != len(channels) || len(p.wakers) != len(wakers) || len(p.sleepers) != 5 || p.rounds != 4 {
		t.Errorf("got %v, %v, %v, %d rounds", p.channels, p.wakers, p.sleepers, p.rounds)
	}
	for i, g := range p.groups {
		if slices.Contains(p.groups[i+1:], g) {
			t.Errorf("%v is there twice", g)
		}
	}
}

func TestFullPlanHasWhatIsSensible(t *testing.T) {
	p := mustParse(t, "--full").plan
	// for each of 5 small sizes 3 batches and another clock, for each of 2 large ones one; × 5 processes × 2 readers
	if want := (5*(3+1) + 2) * 5 * 2; len(p.groups) != want {
		t.Errorf("got %d groups, want %d", len(p.groups), want)
	}
	for _, g := range []group{{1000, 4 << 20, 4, 0, "pass"}, {1, 64, 1, 25, "pass"}, {200, 65536, 4, 0, "message"}} {
		if !slices.Contains(p.groups, g) {
			t.Errorf("%v is missing", g)
		}
	}
	if q := mustParse(t, "--quick").plan; len(q.groups) >= len(mustParse(t, "").plan.groups) || q.rounds != 3 {
		t.Errorf("--quick has %d groups and %d rounds", len(q.groups), q.rounds)
	}
}

func TestChosenValuesAreCombined(t *testing.T) {
	o := mustParse(t, "--channels ring_each,pipe --processes 2,4,2 --sizes 64,4k,1M --clocks message --rounds 7")
	want := []group{
		{2, 64, 1, 0, "message"},
		{2, 4096, 1, 0, "message"},
		{2, 1 << 20, 1, 0, "message"},
		{4, 64, 1, 0, "message"},
		{4, 4096, 1, 0, "message"},
		{4, 1 << 20, 1, 0, "message"},
	}
	if !slices.Equal(o.plan.groups, want) || !slices.Equal(o.plan.channels, []string{"ring_each", "pipe"}) {
		t.Errorf("got %v of %v", o.plan.groups, o.plan.channels)
	}
	if len(o.plan.sleepers) != 0 || o.Rounds != 7 {
		t.Errorf("got sleepers %v, %d rounds", o.plan.sleepers, o.Rounds)
	}
	if len(o.plan.sweeps) != 2 || o.plan.sweeps[0].where["size"] != "64" || o.plan.sweeps[1].where["processes"] != "2" {
		t.Errorf("got %v", o.plan.sweeps)
	}
	if p := mustParse(t, "--sleepers 3").plan; len(p.groups) != 0 || !slices.Equal(p.sleepers, []int{3}) {
		t.Errorf("--sleepers alone: got %v", p)
	}
	if p := mustParse(t, "--part send").plan; len(p.groups) == 0 || len(p.sleepers) != 0 {
		t.Errorf("--part send: got %v", p)
	}
	if p := mustParse(t, "--processes 3 --sleepers 4").plan; len(p.groups) != 1 || len(p.sleepers) != 1 {
		t.Errorf("both chosen: got %v", p)
	}
}

// Every case and table must use values of the dimensions; otherwise they have no titles.
func TestDimensionsNameAllCases(t *testing.T) {
	for _, line := range []string{"", "--quick", "--full", "--batches 1,all --readers 2 --sleepers 5"} {
		p := mustParse(t, line).plan
		known := map[string][]string{}
		for _, d := range p.dimensions() {
			for _, v := range d.Values {
				known[d.Name] = append(known[d.Name], v.Name)
			}
		}
		for _, g := range p.groups {
			for dimension, value := range g.of(p.channels[0]) {
				if !slices.Contains(known[dimension], value) {
					t.Errorf("%s: no %s of %s", line, value, dimension)
				}
			}
		}
		for _, s := range p.sweeps {
			if len(s.where) != 4 {
				t.Errorf("%s: %s leaves %v", line, s.dimension, s.where)
			}
		}
	}
}

func TestFiguresAreMadeOfRawOnes(t *testing.T) {
	s := sent{
		Messages: 2000, Bytes: 1000000, Seconds: 0.5, Own: 1000,
		Senders: usage{CPU: 3e6, UserTicks: 1e6, AllTicks: 4e6, Voluntary: 10, Involuntary: 4},
		Readers: usage{CPU: 1e6, UserTicks: 1e6, AllTicks: 4e6, Voluntary: 20},
		Delay50: 5000, Delay99: 7000,
	}
	want := map[string]float64{
		"messages": 4000, "megabytes": 2, "per_cpu": 500000, "cpu": 2, "handover": 1, "cpu_user": 0.5, "cpu_system": 1.5,
		"voluntary": 15, "involuntary": 2, "wakeups": 10, "delay": 5, "delay_99": 7,
	}
	compare(t, s.figures(), want)
	w := woken{
		Rounds: 10, WakerCalls: 30, SleeperCalls: 120, WakingSeconds: 0.01, WakerCPU: 50000,
		First50: 1000, Middle50: 2000, Last50: 3000, Last99: 4000, Sleepers: usage{CPU: 60000, Voluntary: 30, Involuntary: 30},
	}
	compare(t, w.figures(3), map[string]float64{
		"wakes": 3000, "first": 1, "middle": 2, "last": 3, "last_99": 4, "waker_calls": 3, "sleeper_calls": 4, "waker_cpu": 5,
		"sleeper_cpu": 2, "switches": 2,
	})
}

func compare(t *testing.T, got []figure, want map[string]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for _, f := range got {
		if math.Abs(f.value-want[f.metric]) > 1e-9 {
			t.Errorf("%s: got %v, want %v", f.metric, f.value, want[f.metric])
		}
	}
}

// made returns a result in which ring_each transfers ten times as many messages as pipe.
func made(p plan) *result.Result {
	var r result.Result
	for round := range 3 {
		for i, channel := range []string{"pipe", "pipe_mutex", "ring_each"} {
			v := []float64{1, 1.75, 10}[i] * float64(round+1)
			for _, metric := range []string{"messages", "per_cpu", "voluntary", "delay", "state_d"} {
				r.Add(round, i, at.of(channel), metric, v)
			}
		}
		r.Add(round, 3, asleep("signal", 256), "waker_calls", 256)
		r.Add(round, 4, asleep("futex", 256), "waker_calls", 1)
	}
	r.Summarize("channel", baseChannel)
	publish(&r)
	r.Notes = notes(&r, p, true)
	return &r
}

func TestNotesComeFromFigures(t *testing.T) {
	r := made(mustParse(t, "").plan)
	all := strings.Join(r.Notes, "\n")
	for _, want := range []string{
		"one ring for each process moves 10 [10, 10] times",
		"50: ring_each",
		"1.75 [1.75, 1.75] times the messages per second (50 processes, 512 bytes). Published: 1.5 to 2 times; agrees.",
		"Waking 256 sleepers by one signal each takes 256 [256, 256] times as many system calls",
		"cores",
		"counted as one each",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	for _, absent := range []string{"stream socket", "Four readers", "epoll", "clock twice"} {
		if strings.Contains(all, absent) {
			t.Errorf("%q was not measured, but is in\n%s", absent, all)
		}
	}
	m := r.Find(at.of("pipe_mutex"), "messages")
	if len(m.Published) != 2 || m.Published[0].Value != 1.5 || m.Published[1].Value != 2 {
		t.Errorf("published beside it: %v", m.Published)
	}
	if m := r.Find(at.of("ring_each"), "messages"); len(m.Published) != 0 || m.Ratio.Median != 10 {
		t.Errorf("the ring: %+v", m)
	}
}

func TestCoresAreSaid(t *testing.T) {
	if text := coresNote(2); !strings.Contains(text, "cannot be seen here") || !strings.Contains(text, "steno bench ipc --full") {
		t.Error(text)
	}
	if text := coresNote(64); strings.Contains(text, "cannot") {
		t.Error(text)
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := findBeside(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), `no program "steno-ipc" in "`) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	want := filepath.Join(dir, programName)
	if err := os.WriteFile(want, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := findBeside(dir); err != nil || got != want {
		t.Errorf("beside steno-lab: got %q, %v", got, err)
	}
}

// ---- with the real program ----

func realLab(t *testing.T) *lab {
	t.Helper()
	path, err := filepath.Abs("../../../bin/" + programName)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("steno-ipc is not built: make build")
	}
	return &lab{program: path}
}

func TestSmallRun(t *testing.T) {
	l := realLab(t)
	o := mustParse(t, "--processes 3 --sizes 512,8192 --batches 1,all --sleepers 2 --rounds 2 --slice 3ms --folder "+t.TempDir())
	r, err := measureAll(context.Background(), o, l, progress.NewPhases(o.IO))
	if err != nil {
		t.Fatal(err)
	}
	skipped := map[string]string{}
	for _, s := range r.Skipped {
		skipped[s.Case["channel"]+s.Case["waker"]+s.Case["size"]] = s.Reason
	}
	if !strings.Contains(skipped["pipe8192"], "without a mutex") {
		t.Errorf("a pipe with 8 kB: %q", skipped["pipe8192"])
	}
	for _, c := range o.plan.channels {
		for _, g := range o.plan.groups {
			m := r.Find(g.of(c), "messages")
			if m == nil && skipped[c+strconv.Itoa(g.size)] == "" {
				t.Errorf("nothing of %s, %v", c, g)
			}
			if m != nil && (m.Value.N != 2 || m.Value.Median <= 0) {
				t.Errorf("%s, %v: %+v", c, g, m.Value)
			}
		}
	}
	for _, w := range o.plan.wakers {
		if m := r.Find(asleep(w, 2), "waker_calls"); m == nil || m.Value.N != 2 {
			t.Errorf("%s: %+v", w, m)
		}
	}
	if m := r.Find(asleep("signal", 2), "waker_calls"); m.Value.Median != 2 {
		t.Errorf("two signals take %v calls", m.Value.Median)
	}
	if err := r.Write(t.TempDir()); err != nil {
		t.Error(err)
	}
}

// damaged returns a lab whose program is steno-ipc with a fault.
func damaged(t *testing.T, l *lab, fault string) *lab {
	t.Helper()
	path := filepath.Join(t.TempDir(), programName)
	script := "#!/bin/sh\nexec '" + l.program + "' \"$@\" " + fault + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return &lab{program: path}
}

func TestHarmFailsTheRun(t *testing.T) {
	l := realLab(t)
	o := mustParse(t, "--channels ring_each --processes 2 --rounds 1 --slice 300ms")
	for fault, want := range map[string]string{
		"--fault=flip:2":    "--channel=ring_each --processes=2 --size=512 --readers=1 --batch=0 --clock=pass --milliseconds=300: message 2 of process 0 is damaged",
		"--fault=skip:0":    "message 1 of process 0 came where 0 was due",
		"--fault=die:1":     "killed by signal 9",
		"--channel=nothing": `no channel "nothing"`,
		"--help":            "cannot read the output of",
	} {
		_, err := measureAll(context.Background(), o, damaged(t, l, fault), progress.NewPhases(o.IO))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", fault, err, want)
		}
	}
}

// family returns the processes that run this program file.
func family(t *testing.T, program string) []string {
	t.Helper()
	var pids []string
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == program {
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

// copied returns a lab with its own copy of the program, so that its processes can be told from others.
func copied(t *testing.T, l *lab) *lab {
	t.Helper()
	text, err := os.ReadFile(l.program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), programName)
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return &lab{program: path}
}

// await waits for an event that must occur.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for begin := time.Now(); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("waited a minute until %s", what)
		}
	}
}

func TestNobodyIsLeftWhenTheRunIsCanceled(t *testing.T) {
	l := copied(t, realLab(t))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := l.send(ctx, "pipe_mutex", group{20, 512, 1, 0, "pass"}, time.Hour, t.TempDir())
		done <- err
	}()
	await(t, "all run", func() bool { return len(family(t, l.program)) == 22 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	await(t, "all are gone", func() bool { return len(family(t, l.program)) == 0 })
}

// The program's parent is killed, and cannot clean up: no process may be left.
func TestNobodyIsLeftWhenTheParentIsKilled(t *testing.T) {
	l := copied(t, realLab(t))
	parent := exec.Command("sh", "-c", "'"+l.program+"' wake --waker=futex --sleepers=20 --milliseconds=3600000; :")
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "all run", func() bool { return len(family(t, l.program)) == 22 })
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	await(t, "all are gone", func() bool { return len(family(t, l.program)) == 0 })
}

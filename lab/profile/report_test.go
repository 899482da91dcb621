package profile

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/pg-steno/pg_steno/lab/perf"
)

func server(symbols ...string) []perf.Frame {
	var stack []perf.Frame
	for _, s := range symbols {
		stack = append(stack, perf.Frame{Symbol: s, Object: "/usr/lib/postgresql/15/bin/postgres"})
	}
	return stack
}

// example is a server that logs: of 4 active processors and sessions, 1 is in
// the log's pipe, 0.4 format, 2 execute.
func example() *Profile {
	p := &Profile{CPUSeconds: 10, WaitSeconds: 2}
	pipe := append([]perf.Frame{{Symbol: "mutex_lock", Object: "[kernel.kallsyms]"}, {Symbol: "pipe_write",
		Object: "[kernel.kallsyms]"}},
		server("[unknown]", "EmitErrorReport", "errfinish", "PostgresMain")...)
	p.Add(Stack{Process: backend, Frames: pipe, Waiting: true, Samples: 50, Seconds: 1})
	p.Add(Stack{Process: backend, Frames: pipe, Samples: 500, Seconds: 5})
	p.Add(Stack{Process: backend, Frames: server("pg_strftime", "EmitErrorReport", "errfinish", "PostgresMain"),
		Samples: 400, Seconds: 4})
	p.Add(Stack{Process: backend, Frames: server("_bt_compare", "standard_ExecutorRun", "PortalRun", "PostgresMain"),
		Samples: 2000, Seconds: 20})
	p.Add(Stack{Process: "logger", Frames: server("SysLogger_Start"), Samples: 200, Seconds: 2})
	p.Add(Stack{Process: backend, Frames: server("LWLockAcquire", "standard_ExecutorRun", "PostgresMain"), Samples: 400,
		Seconds: 4})
	p.Add(Stack{Process: backend, Frames: server("WaitEventSetWait", "secure_read", "PostgresMain"), Waiting: true,
		Samples: 9, Seconds: 60})
	return p
}

func summarized(settings map[string]string) *Report {
	r := &Report{Settings: settings}
	summarize(r, example(), nil)
	return r
}

func TestCostsAreRankedBeforeWork(t *testing.T) {
	r := summarized(map[string]string{"log_statement": "all", "log_duration": "on"})
	if r.FirstCause != logWrite || r.Causes[0].ID != logWrite {
		t.Errorf("the first cause is %q", r.FirstCause)
	}
	var ids []string
	for _, c := range r.Causes {
		ids = append(ids, c.ID)
	}
	if got, want := strings.Join(ids, " "), "log_write locks log_format collector executor"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	first := r.Causes[0]
	if first.Active != 25 || first.Waiting != 100 || first.Samples != 550 {
		t.Errorf("got %+v", first)
	}
	if want := "mutex_lock < pipe_write < EmitErrorReport < errfinish"; first.Evidence[0].Stack != want ||
		first.Evidence[0].Percent != 25 {
		t.Errorf("evidence: got %+v", first.Evidence)
	}
	if r.Processors != 3.5 || r.Waiting != 0.5 || r.Idle != 30 {
		t.Errorf("processors %g, waiting %g, idle %g", r.Processors, r.Waiting, r.Idle)
	}
}

func TestNothingIsNamedFirstWithoutAShare(t *testing.T) {
	p := &Profile{CPUSeconds: 1}
	p.Add(Stack{Process: backend, Frames: server("standard_ExecutorRun"), Samples: 96, Seconds: 0.96})
	p.Add(Stack{Process: backend, Frames: server("errfinish"), Samples: 4, Seconds: 0.04})
	r := &Report{}
	summarize(r, p, nil)
	if r.FirstCause != "" || len(r.Advice) > 0 {
		t.Errorf("first cause %q, advice %q", r.FirstCause, r.Advice)
	}
}

func TestAdviceFollowsTheEvidence(t *testing.T) {
	for _, test := range []struct {
		settings map[string]string
		has, not string
	}{
		{map[string]string{"log_statement": "all", "log_duration": "on"}, "log_statement = all writes",
			"Many lines go"},
		{map[string]string{"log_statement": "none", "log_duration": "on"}, "log_duration = on writes",
			"log_statement = none writes"},
		{map[string]string{"log_statement": "none", "log_min_duration_statement": "0"}, "log_min_duration_statement " +
			"= 0 logs", "log_duration = on"},
		{nil, "Many lines go to the server's log", "log_duration = on writes"},
	} {
		advice := strings.Join(summarized(test.settings).Advice, "\n")
		if !strings.Contains(advice, test.has) || strings.Contains(advice, test.not) || strings.ContainsAny(advice,
			"{}") {
			t.Errorf("%v: got\n%s", test.settings, advice)
		}
		if strings.Contains(advice, "pgaudit.log") || strings.Contains(advice, "synchronous_commit") {
			t.Errorf("%v: advice without evidence:\n%s", test.settings, advice)
		}
	}
}

func TestAdviceNeedsAShareOfTheCause(t *testing.T) {
	audit := append([]perf.Frame{{Symbol: "errfinish", Object: "/usr/bin/postgres"}},
		perf.Frame{Symbol: "[unknown]", Object: "/usr/lib/postgresql/15/lib/pgaudit.so"})
	for samples, want := range map[int]bool{10: false, 40: true} {
		p := &Profile{CPUSeconds: 1}
		p.Add(Stack{Process: backend, Frames: server("errfinish"), Samples: 90, Seconds: 0.9})
		p.Add(Stack{Process: backend, Frames: audit, Samples: samples, Seconds: float64(samples) / 100})
		r := &Report{}
		summarize(r, p, nil)
		if got := strings.Contains(strings.Join(r.Advice, "\n"), "pgaudit.log"); got != want {
			t.Errorf("%d samples of pgaudit beside 90: advice %q", samples, r.Advice)
		}
	}
}

func TestMissingSymbolsAreNamed(t *testing.T) {
	p := &Profile{CPUSeconds: 1}
	p.Add(Stack{Process: backend, Frames: append([]perf.Frame{{Symbol: "[unknown]", Object: "[kernel.kallsyms]"}},
		server("[unknown]", "[unknown]")...), Samples: 10, Seconds: 1})
	notes := strings.Join(missingSymbols(p, "/usr/lib/postgresql/15/bin/postgres", true), "\n")
	for _, want := range []string{"postgresql-15-dbgsym", "kptr_restrict", "--unwind dwarf",
		"The kernel was not sampled"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
	if notes := missingSymbols(example(), "", false); notes != nil {
		t.Errorf("nothing is missing, but: %q", notes)
	}
}

func TestFilesOfAProfile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r, p := summarized(nil), example()
	if err := writeFiles(dir, r, p); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var back Report
	if err := json.Unmarshal(read("profile.json"), &back); err != nil || back.FirstCause != logWrite {
		t.Errorf("profile.json: %v, %+v", err, back)
	}
	folded := string(read("folded.txt"))
	if want := "CPU;client backend;PostgresMain;errfinish;EmitErrorReport;[postgres];pipe_write;mutex_lock 5000\n"; !strings.Contains(folded, want) {
		t.Errorf("folded.txt lacks %q:\n%s", want, folded)
	}
	if bad := regexp.MustCompile(`(?m)^(CPU|waiting)(;[^;\n]+)+ [0-9]+\n`).ReplaceAllString(folded, ""); bad != "" {
		t.Errorf("lines of folded.txt that no tool reads: %q", bad)
	}
	pp, err := profile.ParseData(read("profile.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var cpu, waiting int64
	for _, s := range pp.Sample {
		cpu, waiting = cpu+s.Value[1], waiting+s.Value[2]
	}
	if cpu != 35e9 || waiting != 61e9 || len(pp.Sample) != len(p.Stacks) {
		t.Errorf("profile.pb.gz has %d ns of work, %d ns of waits in %d samples", cpu, waiting, len(pp.Sample))
	}
}

func TestPprofOpensTheProfile(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go program here")
	}
	file := filepath.Join(t.TempDir(), "profile.pb.gz")
	var b bytes.Buffer
	if err := writePprof(&b, example()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	pprof := exec.Command("go", "tool", "pprof", "-top", "-nodecount=100", file)
	pprof.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := pprof.CombinedOutput()
	if err != nil || !regexp.MustCompile(`20s +57\.14% .* _bt_compare`).Match(out) {
		t.Errorf("error %v:\n%s", err, out)
	}
}

func TestTextShowsProofAndAdvice(t *testing.T) {
	var b bytes.Buffer
	r := summarized(map[string]string{"log_statement": "all"})
	r.CPUBy, r.WaitsBy = "perf", "perf"
	r.Waits = []Wait{{Event: "none", Sessions: 1, Percent: 100}}
	r.WriteText(&b)
	for _, want := range []string{
		"First cause: writing log lines: the pipe and its lock (25.0 % of the active time)",
		"mutex_lock < pipe_write < EmitErrorReport", "Possible savings", "Actual work",
		"Advice\n  - log_statement = all writes",
		"0.50 sessions on average for 2 s, and 30.00 idle", "100.0 %    1.00 sessions  none: running",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	empty := &Report{}
	summarize(empty, &Profile{CPUSeconds: 1}, nil)
	empty.WriteText(&b)
	if !strings.Contains(b.String(), "the server was idle") {
		t.Errorf("got\n%s", b.String())
	}
}

package profile

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/perf"
)

// recordedKinds are the kinds of process by the ids that the recorded stacks
// have in the place of process ids.
var recordedKinds = map[int]string{
	1: backend, 2: "logger", 3: "walwriter", 4: "walsender", 5: "checkpointer", 6: "background writer",
	7: parallelWorker, 8: "steno writer",
}

// recorded are the files of testdata/stacks.txtar: stacks that perf recorded on
// real servers. Each file is named after their cause.
func recorded(t *testing.T) []txtar.File {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/stacks.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return archive.Files
}

// stacksOf reads the stacks of a file.
func stacksOf(t *testing.T, file txtar.File) []Stack {
	t.Helper()
	var stacks []Stack
	err := perf.Scan(bytes.NewReader(file.Data), func(e perf.Event) {
		stacks = append(stacks, Stack{Process: recordedKinds[e.PID], Frames: slices.Clone(e.Stack),
			Waiting: strings.HasSuffix(file.Name, ".waiting")})
	})
	if err != nil || len(stacks) == 0 {
		t.Fatalf("%s: %d stacks, error %v", file.Name, len(stacks), err)
	}
	return stacks
}

func TestRecordedStacksHaveTheirCauses(t *testing.T) {
	files := recorded(t)
	if len(files) < 15 {
		t.Fatalf("%d files", len(files))
	}
	for _, file := range files {
		want, _, _ := strings.Cut(file.Name, ".")
		for i, s := range stacksOf(t, file) {
			if got := Attribute(&s); got.ID != want {
				t.Errorf("%s, stack %d: got %s; %v", file.Name, i+1, got.ID, s.Frames)
			}
		}
	}
}

// Who may not sample the kernel sees the C library's write at best.
func TestAttributionNeedsNoKernelNames(t *testing.T) {
	files := recorded(t)
	i := slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == "log_write" })
	for _, s := range stacksOf(t, files[i]) {
		var user []perf.Frame
		for _, f := range s.Frames {
			if f.Object != "[kernel.kallsyms]" {
				user = append(user, f)
			}
		}
		s.Frames = user
		if got := Attribute(&s); got.ID != logWrite {
			t.Errorf("got %s for %v", got.ID, s.Frames)
		}
	}
}

func TestWaitsHaveTheirCauses(t *testing.T) {
	for wait, want := range map[string]string{
		"IPC:SyncRep": syncRep, "LWLock:WALWrite": "wal", "IO:WALSync": "wal", "LWLock:LockManager": "locks",
		"Lock:transactionid": "locks",
		"IO:DataFileRead":    "data_files", "Client:ClientRead": idle, "Client:ClientWrite": "client",
		"Timeout:PgSleep":    "executor",
		"IPC:ParallelFinish": "executor", "IPC:MessageQueueReceive": "latch", "": other, "Extension:Extension": other,
	} {
		if got := Attribute(&Stack{Process: backend, Wait: wait, Waiting: true}); got.ID != want {
			t.Errorf("%q: got %s, want %s", wait, got.ID, want)
		}
	}
}

func TestProcessesHaveTheirCauses(t *testing.T) {
	unnamed := []perf.Frame{{Symbol: "[unknown]", Object: "/usr/bin/postgres"}}
	for process, want := range map[string]string{
		"logger": "collector", "walwriter": "wal", "steno writer": "audit", "walsender": "replication",
		"checkpointer":      "background",
		"autovacuum worker": "background", backend: other, "something else": other,
	} {
		if got := Attribute(&Stack{Process: process, Frames: unnamed}); got.ID != want {
			t.Errorf("%s: got %s, want %s", process, got.ID, want)
		}
	}
	if got := Attribute(&Stack{Process: backend}); got.ID != running {
		t.Errorf("without frames: got %s", got.ID)
	}
}

func TestCausesAreDefinedOnce(t *testing.T) {
	seen := map[string]string{}
	ids := map[string]bool{}
	for _, c := range Causes {
		if c.ID == "" || c.Title == "" || ids[c.ID] || !slices.Contains([]Class{Cost, Work, Idle}, c.Class) {
			t.Errorf("cause %+v", c)
		}
		ids[c.ID] = true
		for what, names := range map[string][]string{"function ": slices.Concat(c.Owner, c.Generic), "file ": c.Objects,
			"process ": c.Processes, "wait ": c.Waits} {
			for _, n := range names {
				if other := seen[what+n]; other != "" {
					t.Errorf("%s%q is of %s and %s", what, n, other, c.ID)
				}
				seen[what+n] = c.ID
			}
		}
	}
}

func TestKindsOfProcesses(t *testing.T) {
	for title, want := range map[string]string{
		"postgres: logger ":                                        "logger",
		"postgres: 15/main: checkpointer ":                         "checkpointer",
		"postgres: autovacuum worker db":                           "autovacuum worker",
		"postgres: parallel worker for PID 12 ":                    parallelWorker,
		"postgres: walsender rep [local] streaming 0/3":            "walsender",
		"postgres: ann shop [local] SELECT":                        backend,
		"postgres: 15/main: ann shop 10.0.0.1(4711) idle":          backend,
		"postgres: ann shop ::1(4711) COMMIT waiting for 0/17A2B8": backend,
		"postgres: steno writer 0 ":                                "steno writer",
		"postgres: pg_cron launcher ":                              "pg_cron launcher ",
		"[postgres]":                                               backend,
	} {
		if got := kind(machine.Process{PID: 2, Title: title}, 1); got != want {
			t.Errorf("%q: got %q, want %q", title, got, want)
		}
	}
	if got := kind(machine.Process{PID: 1, Title: "/usr/bin/postgres -D x"}, 1); got != "postmaster" {
		t.Errorf("got %q", got)
	}
}

func TestWhatASleepingSessionSays(t *testing.T) {
	for title, want := range map[string]string{
		"postgres: ann shop [local] COMMIT waiting for 0/17A2B8": "IPC:SyncRep",
		"postgres: ann shop [local] UPDATE waiting":              "Lock:heavyweight",
		"postgres: ann shop [local] idle in transaction":         clientRead,
		"postgres: ann shop [local] SELECT":                      "",
	} {
		// no process has this id
		s := state(machine.Process{PID: 1 << 30, State: 'S', Title: title}, activity{kind: backend})
		if s.Wait != want || !s.Waiting || s.Preempt {
			t.Errorf("%q: got %+v", title, s)
		}
	}
	ready := state(machine.Process{PID: 1 << 30, State: 'R'}, activity{kind: backend, state: "active"})
	if got := Attribute(&ready); got.ID != starved {
		t.Errorf("one that is ready to run: got %s", got.ID)
	}
	known := state(machine.Process{PID: 1 << 30, State: 'R'}, activity{kind: backend, state: "active",
		wait: "IPC:SyncRep"})
	if got := Attribute(&known); got.ID != syncRep {
		t.Errorf("one whose wait is just over: got %s", got.ID)
	}
	if write, ok := writeCalls[runtime.GOARCH]; ok &&
		!isStderrWrite(write+" 0x2 0x7ffc 0x10 0x0 0x0 0x0 0x7ffc 0x7f\n") {
		t.Error("a write to standard error is not recognized")
	}
	if isStderrWrite("running\n") || isStderrWrite("1 0x5 0x7ffc") {
		t.Error("something else is taken for a write to standard error")
	}
}

package machine

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// Two readings of a virtual machine, which differ by 1000 ticks: 300 user (50 of these a
// guest's), 20 nice, 100 system, 400 idle, 80 waiting for disks, 10 and 20 interrupts, 70
// stolen.
func TestBusyFromRecordedReadings(t *testing.T) {
	from := procfs.CPUStat{User: 10132153, Nice: 290696, System: 3084719, Idle: 46828483, Iowait: 16683, SoftIRQ: 25195, Steal: 175628, Guest: 1000}
	to := procfs.CPUStat{User: 10132453, Nice: 290716, System: 3084819, Idle: 46828883, Iowait: 16763, IRQ: 10, SoftIRQ: 25215, Steal: 175698, Guest: 1050}
	if got := inUse(from, to); math.Abs(got-52) > 1e-9 {
		t.Errorf("%v %% in use, want 52: 300 + 20 + 100 + 10 + 20 + 70 of 1000", got)
	}
	if got := stolen(from, to); math.Abs(got-7) > 1e-9 {
		t.Errorf("%v %% stolen, want 7", got)
	}
	if a, b := inUse(to, to), stolen(to, to); a != 0 || b != 0 {
		t.Errorf("of no time %v and %v", a, b)
	}
}

func TestBusyMachineWarns(t *testing.T) {
	for busy, want := range map[Busy][]string{
		{Before: 10, Steal: 2, Load: 50}: nil,
		{Before: 37.2}:                   {"37 % of its CPU time was used by other processes"},
		{Steal: 2.25}:                    {"2.2 % was used by other machines"},
		{Before: 90, Steal: 12}:          {"90 %", "12.0 % was used by other machines"},
	} {
		text := busy.Warning()
		if (text == "") != (want == nil) {
			t.Errorf("%+v: %q", busy, text)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%+v: %q is not in %q", busy, w, text)
			}
		}
	}
}

func TestMachineIsLookedAt(t *testing.T) {
	w, err := StartWatch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b := w.End(); b.Before < 0 || b.Before > 100 || b.Steal < 0 || b.Steal > 100 || b.Load < 0 {
		t.Errorf("%+v", b)
	}
}

func TestChildren(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()

	children, err := Here.Children(os.Getpid())
	i := slices.IndexFunc(children, func(p Process) bool { return p.PID == child.Process.Pid })
	if err != nil || i < 0 {
		t.Fatalf("got %+v, error %v", children, err)
	}
	if p := children[i]; p.Parent != os.Getpid() || p.CPU < 0 {
		t.Errorf("got %+v", p)
	}
	// What a kernel without lists of children needs finds it, too.
	all, err := Here.AllChildren(os.Getpid())
	if err != nil || !slices.ContainsFunc(all, func(p Process) bool { return p.PID == child.Process.Pid }) {
		t.Errorf("got %+v, error %v", all, err)
	}
	if none, err := Here.Children(child.Process.Pid); err != nil || len(none) > 0 {
		t.Errorf("sleep has children: %v, error %v", none, err)
	}
}

func TestProcessesWorkingInFolder(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "60")
	child.Dir = folder
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()

	found, err := Here.WorkingIn(folder)
	if err != nil || len(found) != 1 || found[0].PID != child.Process.Pid {
		t.Errorf("got %+v, error %v", found, err)
	}
}

func TestReadProcess(t *testing.T) {
	p, err := Here.Process(os.Getpid())
	if err != nil || p.Parent != os.Getppid() || p.State == 0 || p.Name == "" || p.Title == "" {
		t.Errorf("got %+v, error %v", p, err)
	}
	if _, err := Here.Process(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no process: %v", err)
	}
}

func TestSwitches(t *testing.T) {
	if ContextSwitches() == 0 {
		t.Error("the machine has made no context switch")
	}
}

func TestStatOfAnyCommand(t *testing.T) {
	proc := Proc(t.TempDir())
	if err := os.Mkdir(proc.File(7, ""), 0o700); err != nil {
		t.Fatal(err)
	}
	const rest = " 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99 1 1 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	want := Process{PID: 7, Name: "a) (b c", Parent: 5, State: 'S', CPU: 30 * Tick, Ended: 70 * Tick, Started: 99, Title: "[a) (b c]"}
	for text, right := range map[string]bool{"7 (a) (b c) S 5 7 7" + rest: true, "": false, "7 (a) S 5": false, "7 a) S 5 7 7" + rest: false} {
		if err := os.WriteFile(proc.File(7, "stat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := proc.Process(7); (err == nil) != right || right && p != want {
			t.Errorf("%q: got %+v, %v", text, p, err)
		}
	}
}

func TestTimeIsKeptOrNot(t *testing.T) {
	proc := Proc(t.TempDir())
	if err := os.Mkdir(proc.File(7, ""), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]time.Duration{"1234 5 6\n": 1234, "0 0 0\n": 0, "none\n": 0} {
		if err := os.WriteFile(proc.File(7, "schedstat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := proc.Time(7); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

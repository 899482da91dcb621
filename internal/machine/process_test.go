package machine

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestChildren(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()

	children, err := Children(os.Getpid())
	i := slices.IndexFunc(children, func(p Process) bool { return p.PID == child.Process.Pid })
	if err != nil || i < 0 {
		t.Fatalf("got %+v, error %v", children, err)
	}
	if p := children[i]; p.Parent != os.Getpid() || p.CPU < 0 {
		t.Errorf("got %+v", p)
	}
	// What a kernel without lists of children needs finds it, too.
	all, err := allProcesses()
	if err != nil || !slices.Contains(all, child.Process.Pid) || !slices.Contains(all, os.Getpid()) {
		t.Errorf("got %v, error %v", all, err)
	}
	if none, err := Children(child.Process.Pid); err != nil || len(none) > 0 {
		t.Errorf("sleep has children: %v, error %v", none, err)
	}
}

func TestReadProcess(t *testing.T) {
	p, err := ReadProcess(os.Getpid())
	if err != nil || p.Parent != os.Getppid() || p.State == 0 || p.Name == "" || p.Title == "" {
		t.Errorf("got %+v, error %v", p, err)
	}
	if _, err := ReadProcess(1 << 30); !os.IsNotExist(err) {
		t.Errorf("of no process: %v", err)
	}
}

func TestSwitches(t *testing.T) {
	if Switches() == 0 {
		t.Error("the machine has made no context switch")
	}
}

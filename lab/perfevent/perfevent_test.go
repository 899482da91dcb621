package perfevent

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// open counts an event in this process, or skips the test if the kernel does not permit that.
func open(t *testing.T, e Event, err error, pids ...int) *Counter {
	t.Helper()
	var c *Counter
	if err == nil {
		c, err = Open(e, pids)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skipf("the kernel does not count for us: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// counting starts a shell that waits for a line of input and then runs programs.
func counting(t *testing.T, script string) (pid int, run func()) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read line; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, func() {
		if err := errors.Join(in.Close(), ignoreExit(cmd.Wait())); err != nil {
			t.Fatal(err)
		}
	}
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func TestSystemCallsOfChildrenAreCounted(t *testing.T) {
	calls, err := SystemCalls("mkdir")
	pid, run := counting(t, "mkdir a-1 2>/dev/null; mkdir a-1 2>/dev/null; rmdir a-1")
	c := open(t, calls, err, pid)
	all, err := SystemCalls("")
	total := open(t, all, err, pid)
	run()
	if n, err := c.Read(); n != 2 || err != nil {
		t.Errorf("%d calls of mkdir counted, %v; 2 were made", n, err)
	}
	if n, err := total.Read(); n < 20 || err != nil {
		t.Errorf("%d system calls of several programs counted, %v", n, err)
	}
}

func TestCallsOfAFunctionAreCounted(t *testing.T) {
	pid, run := counting(t, "cd /; (cd /usr) && cd /tmp && cd /")
	libc := mapped(t, pid, "/libc.so.6")
	e, err := Calls(libc, "chdir")
	c := open(t, e, err, pid)
	run()
	if n, err := c.Read(); n != 3 || err != nil {
		t.Errorf("%d calls counted, %v; 3 were made", n, err)
	}
	if _, err := Calls(libc, "no_such_function"); err == nil {
		t.Error("a function that does not exist can be counted")
	}
}

// mapped returns the path of a library that a process has mapped.
func mapped(t *testing.T, pid int, name string) string {
	t.Helper()
	for range 1000 {
		maps, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
		for line := range strings.Lines(string(maps)) {
			if i := strings.Index(line, "/"); i > 0 && strings.HasSuffix(strings.TrimSpace(line), name) {
				return strings.TrimSpace(line[i:])
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Skipf("the shell does not use %s here", name)
	return ""
}

func TestProcessesThatHaveEndedAreLeftOut(t *testing.T) {
	e, err := SystemCalls("")
	pid, run := counting(t, "true")
	run()
	c := open(t, e, err, pid)
	if n, err := c.Read(); n != 0 || err != nil {
		t.Errorf("%d calls of a process that is no more, %v", n, err)
	}
	if _, err := Open(Event{kind: unix.PERF_TYPE_TRACEPOINT, config: 1 << 40}, []int{os.Getpid()}); err == nil {
		t.Error("an event that does not exist can be counted")
	}
}

func TestProbesStandBehindABarrier(t *testing.T) {
	for code, want := range map[string]uint64{
		"\xf0\x83\x04\x24\x00\x8b\x07": 5,
		"\xf0\x83\x0c\x24\x00":         5,
		"\xf0\x48\x83\x0c\x24\x00\xc3": 6,
		"\xf0\x83\x04\x24\x01":         0,
		"\x55\x48\x89\xe5":             0,
		"":                             0,
	} {
		if got := barrier(strings.NewReader(code), 0); got != want {
			t.Errorf("% x: %d bytes of barrier, want %d", code, got, want)
		}
	}
}

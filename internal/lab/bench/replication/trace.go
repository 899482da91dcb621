package replication

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// attachTime is given to strace until it is attached to all processes.
const attachTime = 300 * time.Millisecond

// trace is an strace that counts the system calls of processes and of what they
// start.
type trace struct {
	cmd     *exec.Cmd
	summary strings.Builder
	done    chan error
}

func startTrace(ctx context.Context, strace string, pids []int) (*trace, error) {
	args := []string{"-f", "-c", "-q"}
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	t := &trace{cmd: exec.CommandContext(ctx, strace, args...), done: make(chan error, 1)}
	t.cmd.Cancel = func() error { return t.cmd.Process.Signal(syscall.SIGINT) }
	t.cmd.WaitDelay = 5 * time.Second
	t.cmd.Stderr = &t.summary
	// It ends with the processes that it watches, which end with us.
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { t.done <- t.cmd.Wait() }()
	select {
	case <-t.done:
		return nil, fmt.Errorf("strace cannot attach: %s", strings.TrimSpace(t.summary.String()))
	case <-time.After(attachTime):
		return t, nil
	}
}

// end detaches strace, and returns the calls by name.
func (t *trace) end() (map[string]float64, error) {
	// On SIGINT it prints its summary, and ends by that signal or with an error.
	_ = t.cmd.Process.Signal(syscall.SIGINT)
	<-t.done
	return parseTrace(t.summary.String())
}

// % time     seconds  usecs/call     calls    errors syscall
var traceLine = regexp.MustCompile(`^\s*[0-9.]+\s+[0-9.]+\s+[0-9]+\s+([0-9]+)\s+(?:[0-9]+\s+)?([a-z0-9_]+)$`)

// parseTrace reads the summary of strace -c: calls by name, and all under the
// empty name.
func parseTrace(summary string) (map[string]float64, error) {
	all := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(summary))
	for lines.Scan() {
		m := traceLine.FindStringSubmatch(lines.Text())
		if m == nil || m[2] == "total" {
			continue
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return nil, err
		}
		all[m[2]] += n
		all[""] += n
	}
	if len(all) == 0 {
		return nil, errors.New("strace counted nothing")
	}
	counts := map[string]float64{}
	for _, name := range callNames {
		counts[name] = all[name]
	}
	return counts, nil
}

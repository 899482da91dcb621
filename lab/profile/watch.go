// Samples waits of sessions, from /proc and pg_stat_activity.

package profile

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/perf"
)

const clientRead = "Client:ClientRead"

// watcher samples the sessions repeatedly: from /proc if the server is on this machine, and from pg_stat_activity if
// there is a connection.
type watcher struct {
	target *Target     // nil for a server on another machine
	conn   *connection // nil if there is none

	kinds map[int]string // of all processes seen so far
	// stacks are those of running processes, without frames, and of waiting ones, with the kernel's frames and wait
	// events.
	stacks Profile
	// events are only the sessions' wait events, from the server.
	events Profile
	passes int

	cpu map[int]time.Duration // CPU time of each process at the last sample
}

// Time between two passes; it is extended if passes take long, so that sampling does not become a load.
const (
	watchInterval = 50 * time.Millisecond
	watchShare    = 5
)

// run samples until over is closed. A pass that has begun is completed, because canceling its query would end the
// connection.
func (w *watcher) run(ctx context.Context, over <-chan struct{}) error {
	last := time.Now()
	interval := watchInterval
	for {
		select {
		case <-over:
			return nil
		case <-time.After(interval):
		}
		start := time.Now()
		seen, err := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		w.count(seen, start.Sub(last).Seconds())
		last = start
		interval = max(watchInterval, watchShare*time.Since(start))
	}
}

// count adds what was seen, for the time since the last pass.
func (w *watcher) count(seen []sight, seconds float64) {
	w.passes++
	w.stacks.CPUSeconds += seconds
	w.stacks.WaitSeconds += seconds
	w.events.CPUSeconds += seconds
	w.events.WaitSeconds += seconds
	for _, s := range seen {
		if isSession(s.Process) && w.conn != nil {
			w.events.Add(Stack{Process: s.Process, Wait: s.event, Samples: 1, Seconds: seconds})
		}
		// Its CPU time is more exact than its state: a process that could run, but did not, waited for a processor.
		ran := min(s.ran, seconds)
		if ran > 0 {
			w.stacks.Add(Stack{Process: s.Process, Samples: 1, Seconds: ran})
		}
		s.Samples, s.Seconds = 1, seconds-ran
		if isSession(s.Process) && s.Seconds > 0 {
			w.stacks.Add(s.Stack)
		}
	}
}

// sight is what was seen of a process.
type sight struct {
	Stack // what it waits for while it does not run
	pid   int
	event string  // the server's wait event, "" for none
	ran   float64 // seconds on a processor since the last pass
}

// look returns the current state of each session and, on this machine, of each other process.
func (w *watcher) look(ctx context.Context) ([]sight, error) {
	var sessions map[int]activity
	if w.conn != nil {
		var err error
		if sessions, err = w.conn.activities(ctx); err != nil {
			return nil, err
		}
	}
	if w.target == nil {
		return remoteSights(sessions), nil
	}
	all, err := w.target.processes()
	if err != nil {
		return nil, err
	}
	var seen []sight
	for pid, p := range all {
		if w.conn != nil && pid == w.conn.pid {
			continue
		}
		a := sessions[pid]
		if a.kind == "" {
			a.kind = kind(p, w.target.Postmaster)
		}
		w.kinds[pid] = a.kind
		s := sight{Stack: state(p, a), pid: pid, event: a.event()}
		if before, ok := w.cpu[pid]; ok {
			s.ran = (p.CPU - before).Seconds()
		}
		w.cpu[pid] = p.CPU
		seen = append(seen, s)
	}
	return seen, nil
}

// remoteSights returns states by wait events only: a session without one may be running.
func remoteSights(sessions map[int]activity) []sight {
	var seen []sight
	for pid, a := range sessions {
		if isSession(a.kind) {
			event := a.event()
			s := sight{Stack: Stack{Process: a.kind, Wait: event, Waiting: event != ""}, pid: pid, event: event}
			seen = append(seen, s)
		}
	}
	return seen
}

func isSession(kind string) bool { return kind == backend || kind == parallelWorker }

var (
	// what the server appends to a session's title
	standbyTitle = regexp.MustCompile(` waiting for [0-9A-F]+/[0-9A-F]+$`)
	idleTitle    = regexp.MustCompile(` (idle|idle in transaction|idle in transaction \(aborted\))$`)
)

// state returns what a process of this machine waits for.
func state(p machine.Process, a activity) Stack {
	s := Stack{Process: a.kind, Waiting: true}
	if !isSession(a.kind) {
		return s
	}
	// A process that is ready to run may still show a wait event: its wait is over, but it has not got a processor
	// yet. That is part of the wait, as in the kernel's records.
	s.Wait = a.event()
	switch {
	case s.Wait != "":
	case p.State == 'R':
		s.Preempt = true
		return s
	case standbyTitle.MatchString(p.Title):
		s.Wait = "IPC:SyncRep"
	case strings.HasSuffix(p.Title, " waiting"):
		s.Wait = "Lock:heavyweight"
	case a.state == "" && idleTitle.MatchString(p.Title):
		s.Wait = clientRead
	}
	s.Frames = sleeping(p.PID)
	return s
}

// stderrWrite is a frame for a write to the server's standard error, where its
// log goes.
const stderrWrite = "write to standard error"

// sleeping returns what the kernel shows of a sleeping process: its stack to root, its function and system call to the
// process's account.
func sleeping(pid int) []perf.Frame {
	const kernel = "[kernel.kallsyms]"
	dir := fmt.Sprintf("/proc/%d/", pid)
	var stack []perf.Frame
	if text, err := os.ReadFile(dir + "stack"); err == nil {
		for line := range strings.Lines(string(text)) {
			_, symbol, _ := strings.Cut(strings.TrimSpace(line), "] ")
			symbol, _, _ = strings.Cut(symbol, "+")
			if symbol != "" {
				stack = append(stack, perf.Frame{Symbol: symbol, Object: kernel})
			}
		}
	} else if text, err := os.ReadFile(dir + "wchan"); err == nil && len(text) > 1 {
		stack = append(stack, perf.Frame{Symbol: string(text), Object: kernel})
	}
	text, err := os.ReadFile(dir + "syscall")
	if err != nil || !isStderrWrite(string(text)) {
		return stack
	}
	return append(stack, perf.Frame{Symbol: stderrWrite, Object: "[system call]"})
}

// writeCalls are the numbers of the system call write.
var writeCalls = map[string]string{"amd64": "1", "arm64": "64", "riscv64": "64", "ppc64le": "4", "s390x": "4"}

// isStderrWrite reads /proc/PID/syscall: the call's number and its arguments.
func isStderrWrite(text string) bool {
	write, ok := writeCalls[runtime.GOARCH]
	return ok && strings.HasPrefix(text, write+" 0x2 ")
}

// snapshot returns the current waits, by process.
func (w *watcher) snapshot(ctx context.Context) (map[int]Stack, error) {
	seen, err := w.look(ctx)
	found := map[int]Stack{}
	for _, s := range seen {
		if isSession(s.Process) && !s.Preempt {
			found[s.pid] = s.Stack
		}
	}
	return found, err
}

func newWatcher(t *Target, c *connection) *watcher {
	return &watcher{target: t, conn: c, kinds: map[int]string{}, cpu: map[int]time.Duration{}}
}

package profile

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/machine"
	"github.com/pg-steno/pg_steno/internal/perf"
)

// watcher looks at the sessions again and again: at /proc where the server is on
// this machine, and at pg_stat_activity where there is a connection.
type watcher struct {
	target *Target     // nil for a server elsewhere
	conn   *connection // nil without one

	kinds map[int]string // of all processes seen so far
	// stacks are the sessions' states: running ones without frames, waiting
	// ones with the kernel's, and wait events.
	stacks Profile
	passes int
}

// Passes are so far apart, or further when they take long: less than a
// twentieth of a processor is theirs.
const (
	watchInterval = 50 * time.Millisecond
	watchShare    = 20
)

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) error {
	last := time.Now()
	interval := watchInterval
	for {
		select {
		case <-ctx.Done():
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
		seconds := start.Sub(last).Seconds()
		last = start
		w.passes++
		w.stacks.CPUSeconds += seconds
		w.stacks.WaitSeconds += seconds
		for _, s := range seen {
			s.Samples, s.Seconds = 1, seconds
			w.stacks.Add(s)
		}
		interval = max(watchInterval, watchShare*time.Since(start))
	}
}

// look returns what each session, and on this machine each running process of
// another kind, does now.
func (w *watcher) look(ctx context.Context) (map[int]Stack, error) {
	var sessions map[int]activity
	if w.conn != nil {
		var err error
		if sessions, err = w.conn.activities(ctx); err != nil {
			return nil, err
		}
	}
	if w.target == nil {
		return remoteStacks(sessions), nil
	}
	all, err := w.target.processes()
	if err != nil {
		return nil, err
	}
	seen := map[int]Stack{}
	for pid, p := range all {
		if w.conn != nil && pid == w.conn.pid {
			continue
		}
		a, known := sessions[pid]
		if !known || a.kind == "" {
			a.kind = kind(p, w.target.Postmaster)
		}
		w.kinds[pid] = a.kind
		if s, ok := state(p, a); ok {
			seen[pid] = s
		}
	}
	return seen, nil
}

// remoteStacks are what wait events alone tell.
func remoteStacks(sessions map[int]activity) map[int]Stack {
	seen := map[int]Stack{}
	for pid, a := range sessions {
		if !isSession(a.kind) {
			continue
		}
		s := Stack{Process: a.kind, Wait: a.wait, Waiting: a.wait != ""}
		if a.wait == "" && strings.HasPrefix(a.state, "idle") {
			s.Wait, s.Waiting = "Client:ClientRead", true
		}
		seen[pid] = s
	}
	return seen
}

func isSession(kind string) bool { return kind == backend || kind == parallelWorker }

var (
	// what the server puts behind a session's title
	standbyTitle = regexp.MustCompile(` waiting for [0-9A-F]+/[0-9A-F]+$`)
	idleTitle    = regexp.MustCompile(` (idle|idle in transaction|idle in transaction \(aborted\))$`)
)

// state is what a process of this machine does. A sleeping one that is no
// session is of no interest.
func state(p machine.Process, a activity) (Stack, bool) {
	s := Stack{Process: a.kind, Waiting: p.State != 'R'}
	if !s.Waiting {
		return s, true
	}
	if !isSession(a.kind) || p.State == 'Z' {
		return s, false
	}
	s.Wait = a.wait
	switch {
	case s.Wait != "":
	case standbyTitle.MatchString(p.Title):
		s.Wait = "IPC:SyncRep"
	case strings.HasSuffix(p.Title, " waiting"):
		s.Wait = "Lock:heavyweight"
	case strings.HasPrefix(a.state, "idle"), a.state == "" && idleTitle.MatchString(p.Title):
		s.Wait = "Client:ClientRead"
	}
	s.Frames = sleeping(p.PID)
	return s, true
}

// stderrWrite is a frame for a write to the server's standard error, where its
// log goes.
const stderrWrite = "write to standard error"

// sleeping says what the kernel lets us know of a process that sleeps: its
// stack to root, the function and the system call to the process's user.
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

// isStderrWrite reads /proc/PID/syscall: the call's number and its arguments.
func isStderrWrite(text string) bool {
	write, ok := map[string]string{"amd64": "1", "arm64": "64", "riscv64": "64", "ppc64le": "4", "s390x": "4"}[runtime.GOARCH]
	return ok && strings.HasPrefix(text, write+" 0x2 ")
}

// snapshot returns what waits now, by process.
func (w *watcher) snapshot(ctx context.Context) (map[int]Stack, error) {
	seen, err := w.look(ctx)
	maps.DeleteFunc(seen, func(_ int, s Stack) bool { return !s.Waiting })
	return seen, err
}

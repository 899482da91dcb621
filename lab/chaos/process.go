// The server's processes by their titles, and signals to them.

package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pg-steno/pg_steno/lab/machine"
)

// process is a process of the server, with its title.
type process struct {
	pid   int
	title string
}

// children returns all processes that work in the data directory, except the postmaster, even if the postmaster is
// dead.
func (r *round) children() []process {
	folder, err := filepath.EvalSymlinks(r.dataDir())
	if err != nil {
		return nil
	}
	all, _ := machine.Here.WorkingIn(folder)
	var found []process
	for _, p := range all {
		if p.State != 'Z' && p.PID != r.server.PID() {
			found = append(found, process{p.PID, p.Title})
		}
	}
	return found
}

// childrenNamed returns the children whose titles contain what.
func (r *round) childrenNamed(what string) []process {
	return slices.DeleteFunc(r.children(), func(p process) bool { return !strings.Contains(p.title, what) })
}

func (r *round) writers() []process { return r.childrenNamed("postgres: steno writer") }

func (r *round) backends() []process {
	return append(r.childrenNamed("postgres: postgres postgres [local]"),
		r.childrenNamed("postgres: clerk postgres [local]")...)
}

// oneOf returns a random process; false if there is none.
func (r *round) oneOf(ps []process) (process, bool) {
	if len(ps) == 0 {
		return process{}, false
	}
	return ps[r.rng.IntN(len(ps))], true
}

func (r *round) kill(pid int) {
	if syscall.Kill(pid, syscall.SIGKILL) == nil {
		r.killed++
		r.lastKilled = pid
	}
}

// killOneOf kills a random one of these processes.
func (r *round) killOneOf(ps []process) {
	if p, ok := r.oneOf(ps); ok {
		r.kill(p.pid)
	}
}

// killAll kills the whole server at once: all processes are stopped first, so that none sees another one die. It
// counts as one kill.
func (r *round) killAll() {
	_ = r.server.Signal(syscall.SIGSTOP)
	for _, p := range r.children() {
		_ = syscall.Kill(p.pid, syscall.SIGSTOP)
	}
	killEach(r.children())
	_ = r.server.Signal(syscall.SIGKILL)
	r.killed++
	r.killRest()
}

func killEach(ps []process) {
	for _, p := range ps {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// killRest kills processes that a dead postmaster started while its children were listed: they might wait forever for
// a lock that one of these held.
func (r *round) killRest() {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		rest := r.children()
		if len(rest) == 0 {
			return
		}
		killEach(rest)
	}
}

// resume continues all stopped processes.
func (r *round) resume() {
	for _, p := range append(r.children(), process{pid: r.server.PID()}) {
		if now, err := machine.Here.Process(p.pid); err == nil && now.State == 'T' {
			_ = syscall.Kill(p.pid, syscall.SIGCONT)
		}
	}
}

// waitEnded waits until the postmaster and all its processes have ended.
func (r *round) waitEnded(ctx context.Context) error {
	select {
	case <-r.server.Ended():
	case <-time.After(limit):
		return fmt.Errorf("the server does not exit")
	case <-ctx.Done():
		return ctx.Err()
	}
	var left []process
	err := r.until(ctx, "the processes of the killed server exit", func() bool {
		left = r.children()
		return len(left) == 0
	})
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, stacks(left))
	}
	return err
}

var emptyLock = regexp.MustCompile(`FATAL:  lock file "([^"]*)" is empty`)

// relaunch starts the server again.
func (r *round) relaunch(ctx context.Context) error {
	r.shutdowns = r.shutdownsAsked()
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		if err := r.server.Launch(); err != nil {
			return err
		}
		err := r.server.WaitReady(ctx)
		if err == nil || time.Now().After(end) {
			return err
		}
		if m := emptyLock.FindStringSubmatch(err.Error()); m != nil {
			// its creator was killed before it wrote to it; PostgreSQL requires its removal by hand
			lock := m[1]
			if !filepath.IsAbs(lock) {
				lock = filepath.Join(r.dataDir(), lock)
			}
			if err := os.Remove(lock); err != nil {
				return err
			}
		} else if r.config.onFailure == "shutdown" && r.shutdownsAsked() > r.shutdowns {
			return nil // recoverFromShutdown starts it when the fault is over
		} else {
			return err
		}
	}
}

// processes shows the server's processes, with their stacks if gdb is available.
func (r *round) processes() string {
	if r.server == nil {
		return ""
	}
	return stacks(append(r.children(), process{pid: r.server.PID(), title: "postmaster"})) + r.server.LogTail(15)
}

// stacks shows the stacks of processes.
func stacks(ps []process) string {
	var b strings.Builder
	for i, p := range ps {
		if i >= 20 && p.title != "postmaster" {
			continue
		}
		now, _ := machine.Here.Process(p.pid)
		wait, _ := os.ReadFile(machine.Here.File(p.pid, "wchan"))
		fmt.Fprintf(&b, "  %d %c %s %s\n", p.pid, now.State, p.title, wait)
		if stack, err := exec.Command("gdb", "-p", strconv.Itoa(p.pid), "-batch", "-ex",
			"bt 12").Output(); err == nil && now.State != 'T' {
			for line := range strings.Lines(string(stack)) {
				if strings.HasPrefix(line, "#") {
					b.WriteString("      " + line)
				}
			}
		}
	}
	return b.String()
}

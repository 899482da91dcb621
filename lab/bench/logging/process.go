// The CPU time and context switches of a server's processes, by their purpose.

package logging

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/lab/machine"
)

// The resources of a server's processes are read from /proc. A running process is read itself. An exited one is
// included in the counters for waited-for children of its parent, the postmaster. So the time of sessions that came
// and went is not missed, and none is counted twice.

// part is the purpose of a process.
type part string

const (
	backends part = "backends" // sessions, with their parallel workers
	logger   part = "logger"   // the logging collector
	writers  part = "writers"  // pg_steno's
	other    part = "other"    // postmaster, checkpointer and the like
)

var parts = []part{backends, logger, writers, other}

// processKey distinguishes a process from a later one with the same ID.
type processKey struct {
	pid   int
	start uint64 // machine.Process.Started
}

// process is a child of the postmaster.
type process struct {
	part part
	cpu  time.Duration
}

// usage is the resources that a server has used since its start.
type usage struct {
	postmaster time.Duration
	ended      time.Duration // children that the postmaster has waited for, including theirs
	living     map[processKey]process
}

// tree reads the processes of a server.
type tree struct {
	proc       machine.Proc
	postmaster int
}

// look reads the resources of all processes. A process that exits meanwhile could be counted twice, or not at all; in
// this case it reads them again.
func (t tree) look() (u usage, err error) {
	const attempts = 20
	for range attempts {
		before, err := t.proc.Process(t.postmaster)
		if err != nil {
			return u, fmt.Errorf("cannot see the server's processes: %w", err)
		}
		if u.living, err = t.processes(); err != nil {
			return u, err
		}
		after, err := t.proc.Process(t.postmaster)
		if err != nil {
			return u, fmt.Errorf("cannot see the server's processes: %w", err)
		}
		u.postmaster, u.ended = after.CPU, after.Ended
		if before.Ended == after.Ended {
			break
		}
	}
	return u, nil
}

func (t tree) processes() (map[processKey]process, error) {
	children, err := t.proc.Children(t.postmaster)
	if err != nil {
		return nil, err
	}
	living := map[processKey]process{}
	for _, p := range children {
		used := p.CPU
		if fine, err := t.proc.Time(p.PID); err == nil {
			used = fine
		}
		living[processKey{p.PID, p.Started}] = process{titlePart(p.Title), used}
	}
	return living, nil
}

// auxiliary matches the titles of processes that are not sessions. The cluster's name may precede the process's.
var auxiliary = regexp.MustCompile(`^postgres: (?:.+: )?(logger|steno writer \d+|steno writer|checkpointer|` +
	`background writer|walwriter|autovacuum launcher|autovacuum worker.*|logical replication .*|stats collector|` +
	`archiver.*|walreceiver.*|startup.*|walsender.*|io worker.*|slotsync worker.*|walsummarizer) *$`)

func titlePart(title string) part {
	m := auxiliary.FindStringSubmatch(title)
	switch {
	case m == nil:
		return backends
	case m[1] == "logger":
		return logger
	case strings.HasPrefix(m[1], "steno writer"):
		return writers
	default:
		return other
	}
}

// until returns the resources of each part between two readings. A process that exists only in the first was a
// session: no other processes exit while a server is measured, except autovacuum workers.
func (u usage) until(later usage) map[part]time.Duration {
	used := map[part]time.Duration{
		other:    later.postmaster - u.postmaster,
		backends: later.ended - u.ended,
	}
	for key, p := range later.living {
		used[p.part] += p.cpu - u.living[key].cpu
	}
	for key, p := range u.living {
		if _, alive := later.living[key]; !alive {
			used[backends] -= p.cpu
		}
	}
	return used
}

// switches are the numbers of a process's context switches, voluntary (to wait) and involuntary.
type switches struct{ voluntary, involuntary int64 }

// switchCounts returns the switches of the running processes. The kernel reports the switches of exited processes only
// to their parent, so they must be read while the processes run.
func (t tree) switchCounts() (map[int]switches, time.Time, error) {
	children, err := t.proc.Children(t.postmaster)
	if err != nil {
		return nil, time.Time{}, err
	}
	now := time.Now()
	counts := map[int]switches{}
	for _, p := range children {
		text, err := os.ReadFile(t.proc.File(p.PID, "status"))
		if err != nil {
			continue
		}
		if s, ok := parseSwitches(string(text)); ok {
			counts[p.PID] = s
		}
	}
	return counts, now, nil
}

func parseSwitches(status string) (s switches, ok bool) {
	found := 0
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		var to *int64
		switch name {
		case "voluntary_ctxt_switches":
			to = &s.voluntary
		case "nonvoluntary_ctxt_switches":
			to = &s.involuntary
		default:
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return s, false
		}
		*to = n
		found++
	}
	return s, found == 2
}

// between returns the sum of the switches of processes that were running both times.
func between(first, last map[int]switches) (sum switches) {
	for pid, b := range last {
		if a, ok := first[pid]; ok {
			sum.voluntary += b.voluntary - a.voluntary
			sum.involuntary += b.involuntary - a.involuntary
		}
	}
	return sum
}

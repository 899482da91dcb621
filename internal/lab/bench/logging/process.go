// The CPU time and context switches of a server's processes, by what they are for.

package logging

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/machine"
)

// What a server's processes did is read from /proc. A process that is there is
// read itself. One that has ended is in what its parent, the postmaster,
// accounts for the children that it has waited for: so no time is missed of
// sessions that came and went, and none is counted twice.

// part is what a process is for.
type part string

const (
	backends part = "backends" // sessions, with their parallel workers
	logger   part = "logger"   // the logging collector
	writers  part = "writers"  // pg_steno's
	other    part = "other"    // postmaster, checkpointer and the like
)

var parts = []part{backends, logger, writers, other}

// processKey tells a process from a later one with the same id.
type processKey struct {
	pid   int
	start uint64 // machine.Process.Started
}

// process is a child of the postmaster.
type process struct {
	part part
	cpu  time.Duration
}

// usage is what a server has used since its start.
type usage struct {
	postmaster time.Duration
	ended      time.Duration // children that the postmaster has waited for, with theirs
	living     map[processKey]process
}

// tree reads the processes of a server.
type tree struct {
	proc       machine.Proc
	postmaster int
}

// look reads what all processes have used so far. A process that ends meanwhile
// could be counted twice, or not at all: then it looks again.
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

// auxiliary matches the titles of processes that are no sessions. The
// cluster's name may stand before the process's.
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

// until is what each part has used between two looks. What was there and is
// not any more has ended, and was a session: nothing else ends while a server
// is measured, but for autovacuum's workers.
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

// switches are how often a process left its processor: because it had to wait,
// or because it was made to.
type switches struct{ voluntary, involuntary int64 }

// switchCounts are those of the processes that are there. Of processes that
// have ended the kernel tells nobody but their parent, so they are looked at
// while they run.
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

// between adds up the switches of the processes that were there both times.
func between(first, last map[int]switches) (sum switches) {
	for pid, b := range last {
		if a, ok := first[pid]; ok {
			sum.voluntary += b.voluntary - a.voluntary
			sum.involuntary += b.involuntary - a.involuntary
		}
	}
	return sum
}

package logging

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
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

// tick is the unit of /proc/<pid>/stat: USER_HZ is 100 on all of Linux.
const tick = 10 * time.Millisecond

// processKey tells a process from a later one with the same id.
type processKey struct {
	pid   int
	start uint64 // ticks since the machine's start
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
	proc       string // /proc
	postmaster int
}

// statLine is what is of use of /proc/<pid>/stat.
type statLine struct {
	parent     int
	own, ended time.Duration
	start      uint64
}

// parseStat reads /proc/<pid>/stat. The command, in parentheses, may hold
// anything.
func parseStat(text []byte) (s statLine, err error) {
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return s, fmt.Errorf("cannot read %q", text)
	}
	number := func(field int) uint64 {
		n, e := strconv.ParseUint(fields[field-3], 10, 64) // the first is field 3
		if e != nil {
			err = fmt.Errorf("cannot read %q: %w", text, e)
		}
		return n
	}
	s.parent = int(number(4))
	s.own = time.Duration(number(14)+number(15)) * tick
	s.ended = time.Duration(number(16)+number(17)) * tick
	s.start = number(22)
	return s, err
}

func (t tree) file(pid int, name string) string {
	return filepath.Join(t.proc, strconv.Itoa(pid), name)
}

func (t tree) stat(pid int) (statLine, error) {
	text, err := os.ReadFile(t.file(pid, "stat"))
	if err != nil {
		return statLine{}, err
	}
	return parseStat(text)
}

// children are the postmaster's. A kernel can list them; where it does not,
// every process is asked for its parent.
func (t tree) children() ([]int, error) {
	if text, err := os.ReadFile(t.file(t.postmaster, "task/"+strconv.Itoa(t.postmaster)+"/children")); err == nil {
		var pids []int
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
		return pids, nil
	}
	all, err := filepath.Glob(filepath.Join(t.proc, "[0-9]*"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, dir := range all {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if s, err := t.stat(pid); err == nil && s.parent == t.postmaster {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// look reads what all processes have used so far. A process that ends meanwhile
// could be counted twice, or not at all: then it looks again.
func (t tree) look() (u usage, err error) {
	const attempts = 20
	for range attempts {
		before, err := t.stat(t.postmaster)
		if err != nil {
			return u, fmt.Errorf("cannot see the server's processes: %w", err)
		}
		if u.living, err = t.processes(); err != nil {
			return u, err
		}
		after, err := t.stat(t.postmaster)
		if err != nil {
			return u, fmt.Errorf("cannot see the server's processes: %w", err)
		}
		u.postmaster, u.ended = after.own, after.ended
		if before.ended == after.ended {
			break
		}
	}
	return u, nil
}

func (t tree) processes() (map[processKey]process, error) {
	pids, err := t.children()
	if err != nil {
		return nil, err
	}
	living := map[processKey]process{}
	for _, pid := range pids {
		s, err := t.stat(pid)
		if err != nil {
			continue // gone
		}
		own := s.own
		if fine, err := t.schedstat(pid); err == nil {
			own = fine
		}
		living[processKey{pid, s.start}] = process{t.part(pid), own}
	}
	return living, nil
}

// schedstat is a process's time on a processor to the nanosecond. Not every
// kernel keeps it.
func (t tree) schedstat(pid int) (time.Duration, error) {
	text, err := os.ReadFile(t.file(pid, "schedstat"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	return time.Duration(n), err
}

// auxiliary matches the titles of processes that are no sessions. The
// cluster's name may stand before the process's.
var auxiliary = regexp.MustCompile(`^postgres: (?:\S+: )?(logger|steno writer \d+|steno writer|checkpointer|` +
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

func (t tree) part(pid int) part {
	text, err := os.ReadFile(t.file(pid, "cmdline"))
	if err != nil {
		return backends
	}
	return titlePart(string(bytes.TrimRight(bytes.ReplaceAll(text, []byte{0}, []byte{' '}), " ")))
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
	pids, err := t.children()
	if err != nil {
		return nil, time.Time{}, err
	}
	now := time.Now()
	counts := map[int]switches{}
	for _, pid := range pids {
		text, err := os.ReadFile(t.file(pid, "status"))
		if err != nil {
			continue
		}
		if s, ok := parseSwitches(string(text)); ok {
			counts[pid] = s
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

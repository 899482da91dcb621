// Finds the server that is profiled, by its data directory or by a process.

package profile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/lab/machine"
)

// Target is the server that is profiled.
type Target struct {
	Postmaster int    // its process ID; 0 for a server on another machine
	DataDir    string // "" if it is not known
	Program    string // path of the server's program, "" if it may not be read

	socketDir, port string // where it listens, for a connection
}

// lines of postmaster.pid, from zero
const (
	pidLine    = 0
	portLine   = 3
	socketLine = 4
)

// AtDataDir finds the server of a data directory.
func AtDataDir(dir string) (*Target, error) {
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err != nil {
			return nil, fmt.Errorf("\"%s\" is not a data directory", dir)
		}
		return nil, fmt.Errorf("no server runs in \"%s\"", dir)
	}
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[pidLine]))
	if err != nil {
		return nil, fmt.Errorf("cannot read \"%s/postmaster.pid\"", dir)
	}
	p, err := machine.Here.Process(pid)
	if err != nil || !isServer(p) {
		return nil, fmt.Errorf("no server runs in \"%s\": process %d, which its postmaster.pid names, does not exist",
			dir, pid)
	}
	t := newTarget(pid)
	t.DataDir = dir
	t.readLines(lines)
	return t, nil
}

// AtPID finds the server that a process belongs to, which may be its postmaster.
func AtPID(pid int) (*Target, error) {
	p, err := machine.Here.Process(pid)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	if err != nil {
		return nil, err
	}
	if !isServer(p) {
		return nil, fmt.Errorf("process %d (%s) does not belong to a PostgreSQL server", pid, p.Title)
	}
	for {
		parent, err := machine.Here.Process(p.Parent)
		if err != nil || !isServer(parent) {
			break
		}
		p = parent
	}
	t := newTarget(p.PID)
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID)); err == nil {
		// servers live in their data directory
		if text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid")); err == nil {
			t.DataDir = dir
			t.readLines(strings.Split(string(text), "\n"))
		}
	}
	return t, nil
}

func isServer(p machine.Process) bool { return p.Name == "postgres" || p.Name == "postmaster" }

func newTarget(postmaster int) *Target {
	program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", postmaster))
	return &Target{Postmaster: postmaster, Program: strings.TrimSuffix(program, " (deleted)")}
}

// readLines takes the server's socket directory and port from postmaster.pid.
func (t *Target) readLines(lines []string) {
	if len(lines) > socketLine {
		t.port, t.socketDir = strings.TrimSpace(lines[portLine]), strings.TrimSpace(lines[socketLine])
	}
}

// processes returns the kind of each process of the server.
func (t *Target) processes() (map[int]machine.Process, error) {
	found := map[int]machine.Process{}
	postmaster, err := machine.Here.Process(t.Postmaster)
	if err != nil {
		return nil, fmt.Errorf("the server has exited: %w", err)
	}
	found[t.Postmaster] = postmaster
	children, err := machine.Here.Children(t.Postmaster)
	for _, p := range children {
		found[p.PID] = p
	}
	return found, err
}

var (
	// user, database and client come first in a session's title
	sessionTitle = regexp.MustCompile(`^\S+ \S+ (\[local\]|\S+\(\d+\))( |$)`)
	knownTitle   = regexp.MustCompile(
		`^(logger|checkpointer|background writer|walwriter|walsender|walreceiver|startup|archiver|` +
			`stats collector|autovacuum launcher|autovacuum worker|` +
			`logical replication \w+|parallel worker|steno writer|pgauditlogtofile\w*|io worker)\b`)
)

// kind determines the kind of a process from its title.
func kind(p machine.Process, postmaster int) string {
	if p.PID == postmaster {
		return "postmaster"
	}
	title := strings.TrimPrefix(p.Title, "postgres: ")
	for {
		if m := knownTitle.FindStringSubmatch(title); m != nil {
			return strings.Replace(m[1], "wal sender", "walsender", 1)
		}
		if sessionTitle.MatchString(title) {
			return backend
		}
		// A cluster's name may come first.
		_, rest, ok := strings.Cut(title, ": ")
		if !ok {
			break
		}
		title = rest
	}
	if title == "" || strings.HasPrefix(p.Title, "[") {
		return backend // a process that is just starting
	}
	return title
}

package check

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// A server in another namespace of processes, in which its ID is that of a process of ours, is not taken for it: the first
// process of each container is 1.
func TestWritersAreThoseOfTheServer(t *testing.T) {
	for _, one := range []struct {
		name      string
		processes map[int]string // children of process 1: state and title
		seen      bool
		writers   map[int]string
	}{
		{"the server's own", map[int]string{7: "S postgres: checkpointer ", 8: "S postgres: steno writer 0 ", 9: "T postgres: steno writer 1 "},
			true, map[int]string{0: "S", 1: "T"}},
		{"with cluster_name", map[int]string{8: "S postgres: 17/main: steno writer 0 "}, true, map[int]string{0: "S"}},
		{"no writer", map[int]string{7: "S postgres: checkpointer "}, true, nil},
		{"of a container with another program", map[int]string{7: "S sleep 60", 8: "R sh"}, false, nil},
		{"of the machine", map[int]string{7: "S /usr/lib/postgresql/17/bin/postgres -D data", 8: "S /usr/sbin/sshd"}, false, nil},
		{"an ended process has no title", map[int]string{7: "Z ", 8: "S postgres: checkpointer "}, true, nil},
	} {
		proc := t.TempDir()
		for pid, line := range one.processes {
			dir := filepath.Join(proc, fmt.Sprint(pid))
			os.Mkdir(dir, 0o755)
			os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (a ) S 2) %c 1 %d", pid, line[0], pid), 0o644)
			os.WriteFile(filepath.Join(dir, "cmdline"), []byte(line[2:]), 0o644)
		}
		if writers, seen := writersOf(proc, 1); seen != one.seen || !maps.Equal(writers, one.writers) {
			t.Errorf("%s: %v, seen: %v", one.name, writers, seen)
		}
	}
}

package recovery

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// processes are the ids of all processes but this one.
func processes() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mapping says whether a process has a file mapped; known is false when it is not
// ours to look.
func mapping(pid int, path string, info os.FileInfo) (mapped, known bool) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false, os.IsNotExist(err)
	}
	defer f.Close()
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, false
	}
	device := fmt.Sprintf("%02x:%02x", unix.Major(st.Dev), unix.Minor(st.Dev))
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// address permissions offset device inode path
		w := strings.Fields(lines.Text())
		if len(w) >= 5 && (w[3] == device && w[4] == fmt.Sprint(st.Ino) || len(w) == 6 && w[5] == path) {
			return true, true
		}
	}
	return false, lines.Err() == nil
}

// serverOf is the id of a process that still uses a ring file, 0 when there is none:
// the postmaster that its header names, or one that has the file mapped, such as a
// writer that outlives the postmaster or drains the file. That the id is in use again
// by somebody else is no reason to refuse, when that can be seen.
func serverOf(path string, postmaster uint32) int {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	for _, pid := range processes() {
		mapped, known := mapping(pid, path, info)
		if mapped || !known && pid == int(postmaster) {
			return pid
		}
	}
	return 0
}

// writerOf is the id of a process that has a segment of the trail open, 0 when there
// is none that can be seen.
func writerOf(dir string) int {
	for _, pid := range processes() {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			to, err := os.Readlink(fd)
			if err == nil && strings.HasPrefix(to, dir+"/") && strings.HasSuffix(to, ".steno") {
				return pid
			}
		}
	}
	return 0
}

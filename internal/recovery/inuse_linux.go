// Which process uses a ring file or writes the trail, by mappings and open files in /proc.

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

// processes returns the IDs of all processes except this one.
func processes() []int {
	entries, _ := os.ReadDir("/proc")
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			all = append(all, pid)
		}
	}
	return all
}

// family returns the prefix of the names of all ring files of a server, "" if the path is not that of a ring file.
func family(path string) string {
	name := filepath.Base(path)
	if w := strings.Split(name, "."); len(w) == 3 && w[0] == "pg_steno" {
		return w[0] + "." + w[1] + "."
	}
	return ""
}

// mapping reports whether a process has a file mapped, or another ring file of its server; known is false if we may
// not read its mappings.
func mapping(pid int, path string, info os.FileInfo) (mapped, ofServer, known bool) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false, false, os.IsNotExist(err)
	}
	defer f.Close()
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, false, false
	}
	device := fmt.Sprintf("%02x:%02x", unix.Major(st.Dev), unix.Minor(st.Dev))
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// address permissions offset device inode path
		w := strings.Fields(lines.Text())
		if len(w) >= 5 && (w[3] == device && w[4] == fmt.Sprint(st.Ino) || len(w) == 6 && w[5] == path) {
			return true, true, true
		}
		if len(w) == 6 && family(path) != "" && family(w[5]) == family(path) {
			ofServer = true
		}
	}
	return false, ofServer, lines.Err() == nil
}

// serverOf returns the ID of a process that still uses a ring file, or 0: the postmaster that its header names, or a
// process that has the file mapped, such as a writer that outlives the postmaster or drains the file. A postmaster
// that continued after a crash of its processes has a newer file, and will have this one drained. If another process
// has the ID of the postmaster now, and that can be determined, the file is not in use.
func serverOf(path string, info os.FileInfo, postmaster uint32) int {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	for _, pid := range processes() {
		mapped, ofServer, known := mapping(pid, path, info)
		if mapped || pid == int(postmaster) && (ofServer || !known) {
			return pid
		}
	}
	return 0
}

// InUse reports whether a postmaster that runs uses a ring file, which its header names, or may do so.
func InUse(path string, info os.FileInfo, postmaster uint32) bool {
	mapped, _, known := mapping(int(postmaster), path, info)
	return mapped || !known
}

// writerOf returns the ID of a process that has a segment of the trail open, 0 if none can be found.
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

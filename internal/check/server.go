// Checks the processes of the server, and its rings.

package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/live"
)

// server is what is known of the running server.
type server struct {
	noRings    string // why there are no rings; empty if there are
	found      int    // the postmaster of the data directory with the trail; 0: not running, or not known
	postmaster int    // the postmaster of the rings
	writers    int
	unrecorded uint64
	lag        uint64
	oldest     int64 // end of the oldest record that is not in the trail yet; 0: none, or not known
	err        error
}

func (s *server) running() bool { return s.noRings == "" }

func (c *checker) findServer() {
	if c.Offline {
		c.server.noRings = "not looked for"
		return
	}
	paths := slices.Clone(c.Rings)
	if dir := c.setting("steno.ring_directory"); dir != "" && !c.RingsNamed && !slices.Contains(paths, dir) {
		paths = append(paths, dir)
	}
	f := live.New(c.trail, paths)
	c.server.found = f.Postmaster()
	if c.server.noRings = f.Find(); c.server.noRings != "" {
		return
	}
	defer f.Close()
	s := &c.server
	s.postmaster, s.writers = int(f.Ring.Postmaster), f.Ring.Writers
	s.unrecorded, s.err = f.Unrecorded()
	for i := 0; i < f.Ring.Rings && s.err == nil; i++ {
		one, err := f.Ring.Live(i)
		if s.err = err; err != nil {
			break
		}
		s.lag += one.Used()
		if one.Oldest != 0 && (s.oldest == 0 || one.Oldest < s.oldest) {
			s.oldest = one.Oldest
		}
	}
	if !f.InUse() { // it has ended meanwhile
		*s = server{noRings: "no rings: the server has just ended"}
	}
}

// checkServer checks that the server runs, and with pg_steno.
func (c *checker) checkServer() {
	r, s := c.result, &c.server
	switch pid := s.found; {
	case c.Offline:
	case s.running() && s.err != nil:
		r.add("server", Unknown, "its rings cannot be read: %s", s.err)
	case s.running() && c.writesElsewhere():
		r.add("server", Critical, "process %d runs with pg_steno, but does not write this trail", s.postmaster)
	case s.running():
		r.add("server", OK, "runs with pg_steno, process %d", s.postmaster)
	case strings.HasPrefix(s.noRings, "rings cannot be read"), strings.Contains(s.noRings, "several servers"):
		r.add("server", Unknown, "%s", s.noRings)
	case pid != 0:
		r.add("server", Critical, "runs as process %d, but without pg_steno, or with its rings elsewhere%s (%s)", pid,
			c.advice(NameRings), s.noRings)
	default:
		r.add("server", Critical, "no server that writes this trail runs here (%s)%s", s.noRings,
			c.advice(CheckOffline))
	}
}

// writesElsewhere reports whether the server is known not to write this trail. The postmaster of a server that does
// holds a lock on the file .lock of the trail's directory, which Linux shows.
func (c *checker) writesElsewhere() bool {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return false
	}
	inode, ok := inodeOf(filepath.Join(c.trail.Path, ".lock"))
	if !ok {
		_, err := os.Lstat(filepath.Join(c.trail.Path, ".lock"))
		return errors.Is(err, os.ErrNotExist)
	}
	seen := false
	for line := range strings.Lines(string(locks)) {
		// 1: POSIX  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		pid, place := fields[4], fields[5]
		own := pid == strconv.Itoa(c.server.postmaster)
		seen = seen || own
		if i := strings.LastIndexByte(place, ':'); i >= 0 && place[i+1:] == strconv.FormatUint(inode, 10) && own {
			return false
		}
	}
	if seen { // in another PID namespace, the locks are those of another process
		_, seen = writersOf("/proc", c.server.postmaster)
	}
	return seen // it holds locks, but not this one; if it shows none at all, nothing is known
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

var writerTitle = regexp.MustCompile(`\bsteno writer (\d+)`)

// writersOf returns the process states of the writers among the children of a postmaster. seen is false if the
// postmaster may be in another PID namespace, where its ID is that of another process: such postmasters often have ID
// 1.
func writersOf(proc string, postmaster int) (states map[int]string, seen bool) {
	states = map[int]string{}
	all, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/stat"))
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// the name of a program can contain parentheses and blanks
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(postmaster) {
			continue
		}
		title, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		seen = seen || strings.HasPrefix(string(title), "postgres:")
		if m := writerTitle.FindStringSubmatch(string(title)); m != nil {
			n, _ := strconv.Atoi(m[1])
			states[n] = fields[0]
		}
	}
	return states, seen
}

// checkWriters checks that the writers run.
func (c *checker) checkWriters() {
	s := &c.server
	if !s.running() || s.err != nil || !hasProc() {
		return
	}
	there, seen := writersOf("/proc", s.postmaster)
	if !seen {
		c.result.add("writers", Unknown, "the server's processes cannot be seen from here")
		return
	}
	var wrong []string
	for n := range s.writers {
		switch state, ok := there[n]; {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("writer %d does not run", n))
		case state == "T" || state == "t":
			wrong = append(wrong, fmt.Sprintf("writer %d is stopped (by a signal or a debugger)", n))
		case state == "Z" || state == "X":
			wrong = append(wrong, fmt.Sprintf("writer %d has ended", n))
		}
	}
	if len(wrong) > 0 {
		c.result.add("writers", Critical, "%s", strings.Join(wrong, ", "))
		return
	}
	c.result.add("writers", OK, "%d", s.writers)
}

package recovery

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestProcessesThatHaveAFileMappedAreFound has a process map ring files: the tests
// themselves, which the command leaves out, or a server would never be found.
func TestProcessesThatHaveAFileMappedAreFound(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) (string, os.FileInfo) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, info
	}
	present, presentInfo := file("pg_steno.1.b")
	earlier, earlierInfo := file("pg_steno.1.a")
	others, othersInfo := file("pg_steno.2.a")
	f, err := os.Open(present)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	for _, c := range []struct {
		path             string
		info             os.FileInfo
		mapped, ofServer bool
	}{{present, presentInfo, true, true}, {earlier, earlierInfo, false, true}, {others, othersInfo, false, false}} {
		if mapped, ofServer, known := mapping(os.Getpid(), c.path, c.info); mapped != c.mapped || ofServer != c.ofServer || !known {
			t.Errorf("%s: mapped %v, of the server %v, known %v", c.path, mapped, ofServer, known)
		}
	}
	if pid := serverOf(others, othersInfo, 1<<22); pid != 0 {
		t.Errorf("process %d uses %s", pid, others)
	}
}

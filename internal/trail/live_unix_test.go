//go:build unix

// Following while files cannot be opened.

package trail_test

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// What cannot be opened, for lack of file descriptors or of a permission, is waited for, wherever that happens: nothing is
// passed over.
func TestFollowingWaitsForWhatCannotBeOpened(t *testing.T) {
	var usual syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	limit := func(cur uint64) {
		one := usual
		one.Cur = cur
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &one); err != nil {
			t.Fatal(err)
		}
	}
	defer limit(usual.Cur)
	for name, cannot := range map[string]func(path string) (again func()){
		"descriptors": func(string) func() {
			limit(0)
			return func() { limit(usual.Cur) }
		},
		"permission": func(path string) func() {
			if err := os.Chmod(path, 0); err != nil {
				t.Fatal(err)
			}
			return func() { os.Chmod(path, 0o700) }
		},
	} {
		if name == "permission" && os.Geteuid() == 0 {
			continue // root may read all
		}
		for what, path := range map[string]func(s *trailtest.Stream, dir string) string{
			"segment":      func(s *trailtest.Stream, _ string) string { return s.SegmentPath(1) },
			"next segment": func(s *trailtest.Stream, _ string) string { return s.SegmentPath(2) },
			"stream":       func(s *trailtest.Stream, _ string) string { return s.Dir },
			"trail":        func(_ *trailtest.Stream, dir string) string { return dir },
		} {
			dir := t.TempDir()
			s, write := segmentsOf(t, dir)
			write("1")
			f := follow(t, dir)
			write("2")
			write("3")
			again := cannot(path(s, dir))
			f.poll()
			f.poll()
			again()
			told := len(f.warnings)
			texts := append(f.poll(), f.poll()...)
			if n := f.live.Segments(); n != 3 {
				t.Errorf("%s, %s: %d segments are known", name, what, n)
			}
			if told == 0 || !strings.Contains(f.warnings[0], "cannot be read at present, and is tried again: ") {
				t.Errorf("%s, %s: warnings: %q", name, what, f.warnings)
			}
			if name == "descriptors" && !slices.Equal(texts, []string{"2", "3"}) || len(f.warnings) != 2*told || !strings.HasSuffix(f.warnings[told], ": can be read again") {
				t.Errorf("%s, %s: %q, warnings: %q", name, what, texts, f.warnings)
			}
		}
	}
}

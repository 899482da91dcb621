package recovery

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const stranger = 65534

func give(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, stranger, stranger)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootHandsNothingOfOthersToTheTrailsOwner recovers, as root, a trail whose owner has
// put links to what only root can read where it would be copied from.
func TestRootHandsNothingOfOthersToTheTrailsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	work := t.TempDir()
	dir, secrets := filepath.Join(work, "trail"), filepath.Join(work, "secrets")
	trailOf(t, dir, 1)
	// of another server, say
	trailOf(t, filepath.Join(secrets, "trail"), 7)
	os.WriteFile(filepath.Join(secrets, "password"), []byte("secret"), 0o600)
	give(t, dir)
	link := func(name string, make func(from, to string) error, to string) {
		t.Helper()
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
		if err := make(filepath.Join(secrets, to), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for what, plant := range map[string]func(){
		"slots is a link":          func() { link("slots", os.Symlink, "") },
		"a slot is a second name":  func() { link("slots/siem", os.Link, "password") },
		"retention is one":         func() { link("retention", os.Link, "password") },
		"a segment is a link":      func() { link("1/0000000001.steno", os.Symlink, "trail/0/0000000001.steno") },
		"a segment is another one": func() { link("1/0000000001.steno", os.Link, "trail/0/0000000001.steno") },
		"a stream is a link":       func() { link("1", os.Symlink, "trail/0") },
	} {
		for _, name := range []string{"slots", "retention", "1"} {
			os.RemoveAll(filepath.Join(dir, name))
		}
		plant()
		r, out, _ := recovered(t, Options{}, dir)
		if r.Streams[0].Blocks != 1 || !r.Lost {
			t.Errorf("%s: %+v", what, r)
		}
		if got := strings.Join(r.Errors, " ") + losses(r); !strings.Contains(got, "not copied") && !strings.Contains(got, "it belongs to user ID 0, but the trail belongs to 65534") {
			t.Errorf("%s: it is not said: %q", what, got)
		}
		filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
			info, _ := os.Lstat(path)
			if st := info.Sys().(*syscall.Stat_t); st.Uid != stranger {
				t.Errorf("%s: %s belongs to %d", what, path, st.Uid)
			}
			if b, err := os.ReadFile(path); err == nil && (strings.Contains(string(b), "secret") || strings.Contains(path, "/1/")) {
				t.Errorf("%s: %s was handed out", what, path)
			}
			return err
		})
		if b, _ := os.ReadFile(filepath.Join(secrets, "password")); string(b) != "secret" {
			t.Errorf("%s: the file itself was changed", what)
		}
		if info, _ := os.Stat(filepath.Join(secrets, "password")); info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s: the file itself was given away", what)
		}
	}
}

func losses(r *Report) (all string) {
	for _, s := range r.Streams {
		for _, l := range s.Losses {
			for _, p := range l.Places {
				all += " " + p.What
			}
		}
	}
	return all
}

// TestSlotsBehindALinkAreNotCopied needs no other account.
func TestSlotsBehindALinkAreNotCopied(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	trailOf(t, dir, 1)
	os.WriteFile(filepath.Join(elsewhere, "siem"), []byte("secret"), 0o600)
	os.Symlink(elsewhere, filepath.Join(dir, "slots"))
	r, out, _ := recovered(t, Options{}, dir)
	if len(r.Errors) != 1 || !strings.Contains(r.Errors[0], "the slots are not copied") {
		t.Errorf("errors: %v", r.Errors)
	}
	if _, err := os.Lstat(filepath.Join(out, "slots")); err == nil {
		t.Error("they are there")
	}
}

// TestTheCopyBelongsToTheTrailsOwner also in place, with what a server needs.
func TestTheCopyBelongsToTheTrailsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), "trail")
	trailOf(t, dir, 1)
	os.MkdirAll(filepath.Join(dir, "slots"), 0o700)
	os.WriteFile(filepath.Join(dir, "slots", "siem"), []byte("x"), 0o600)
	give(t, dir)
	_, out, err := recovered(t, Options{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "0", "0/0000000001.steno", "slots", "slots/siem"} {
		info, err := os.Lstat(filepath.Join(out, name))
		if err != nil {
			t.Error(err)
		} else if st := info.Sys().(*syscall.Stat_t); st.Uid != stranger || st.Gid != stranger {
			t.Errorf("%q belongs to %d", name, st.Uid)
		}
	}
}

package slot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pg-steno/pg_steno/internal/private"
)

// TestSlotsAreNotWrittenThroughLinks has the trail's owner put links where a slot is
// written, which root may do.
func TestSlotsAreNotWrittenThroughLinks(t *testing.T) {
	dir, elsewhere := writeTrail(t), t.TempDir()
	secret := filepath.Join(elsewhere, "secret")
	os.WriteFile(secret, []byte("secret"), 0o600)
	same := func(what string) {
		t.Helper()
		if b, _ := os.ReadFile(secret); string(b) != "secret" {
			t.Errorf("%s: the file is now %q", what, b)
		}
		info, _ := os.Stat(secret)
		if owner, ok := private.OwnerOf(info); owner.UID != uint32(os.Geteuid()) || !ok {
			t.Errorf("%s: the file was given away", what)
		}
	}
	os.Symlink(elsewhere, filepath.Join(dir, "slots"))
	if _, err := run(t, "create", "siem", dir); err == nil {
		t.Error("a slot was made behind a link")
	}
	if left, _ := os.ReadDir(elsewhere); len(left) != 1 {
		t.Errorf("made where the link leads: %v", left)
	}
	os.Remove(filepath.Join(dir, "slots"))
	os.Mkdir(filepath.Join(dir, "slots"), 0o700)
	if os.Geteuid() == 0 {
		os.Chown(filepath.Join(dir, "slots"), 65534, 65534)
	}
	for _, name := range []string{".siem.new", ".feed.new"} {
		make := os.Link
		if name == ".feed.new" {
			make = os.Symlink
		}
		if err := make(secret, filepath.Join(dir, "slots", name)); err != nil {
			t.Fatal(err)
		}
		slot := name[1 : len(name)-4]
		if _, err := run(t, "create", slot, dir); err != nil {
			t.Errorf("%s: %v", slot, err)
		}
		same(name)
		if len(positions(t, dir, slot)) != 2 {
			t.Errorf("%s: it is not there", slot)
		}
	}
	// nor read: what it says could be anything
	os.Symlink(secret, filepath.Join(dir, "slots", "other"))
	if _, err := run(t, "advance", "other", dir, "--to", "end"); err == nil {
		t.Error("a link was taken for a slot")
	}
	same("advance")
	if os.Geteuid() == 0 {
		info, _ := os.Stat(filepath.Join(dir, "slots", "siem"))
		if owner, ok := private.OwnerOf(info); owner.UID != 65534 || !ok {
			t.Errorf("the slot belongs to %d", owner.UID)
		}
	}
}

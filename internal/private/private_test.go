//go:build unix

package private_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pg-steno/pg_steno/internal/private"
)

func open(t *testing.T, path string) *private.Dir {
	t.Helper()
	d, err := private.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestLinksAreNotFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	os.WriteFile(filepath.Join(elsewhere, "secret"), []byte("secret"), 0o600)
	os.Symlink(elsewhere, filepath.Join(dir, "dir"))
	os.Symlink(filepath.Join(elsewhere, "secret"), filepath.Join(dir, "file"))
	os.Symlink(filepath.Join(elsewhere, "new"), filepath.Join(dir, "new"))
	d := open(t, dir)
	if _, err := d.Dir("dir"); err == nil {
		t.Error("a link to a directory was followed")
	}
	if _, err := d.Open("file"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to a file: %v", err)
	}
	if _, err := d.Create("new", 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a link to nothing: %v", err)
	}
	if _, err := d.Mkdir("new", 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a link to nothing, as a directory: %v", err)
	}
	if mode, err := d.Lstat("file"); err != nil || mode.Type() != fs.ModeSymlink {
		t.Errorf("lstat: %v, %v", mode, err)
	}
	if err := d.Rename("file", "../file"); err == nil {
		t.Error("renamed into another directory")
	}
	if err := d.Remove("file"); err != nil {
		t.Error(err)
	}
	os.MkdirAll(filepath.Join(dir, "tree", "branch"), 0o700)
	os.Symlink(elsewhere, filepath.Join(dir, "tree", "branch", "link"))
	if err := errors.Join(d.RemoveAll("tree"), d.RemoveAll("dir"), d.RemoveAll("none")); err != nil {
		t.Error(err)
	}
	if left, _ := d.Entries(); len(left) != 1 || left[0].Name() != "new" {
		t.Errorf("left: %v", left)
	}
	if b, _ := os.ReadFile(filepath.Join(elsewhere, "secret")); string(b) != "secret" {
		t.Error("what the link was to is gone")
	}
	for _, name := range []string{"..", "a/b", "../x", "", "/"} {
		if _, err := d.Open(name); err == nil {
			t.Errorf("%q was opened", name)
		}
	}
}

// TestADirectoryStaysTheOneThatWasOpened has its name taken by a link.
func TestADirectoryStaysTheOneThatWasOpened(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	d := open(t, dir)
	made, err := d.Mkdir("made", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	os.Rename(filepath.Join(dir, "made"), filepath.Join(dir, "away"))
	os.Symlink(elsewhere, filepath.Join(dir, "made"))
	f, err := made.Create("file", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := os.Lstat(filepath.Join(elsewhere, "file")); err == nil {
		t.Error("it was made where the link leads")
	}
	if _, err := os.Lstat(filepath.Join(dir, "away", "file")); err != nil {
		t.Error(err)
	}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)
	os.Mkdir(filepath.Join(dir, "dir"), 0o700)
	d := open(t, dir)
	for _, name := range []string{"pipe", "dir"} {
		if _, err := d.Open(name); !errors.Is(err, private.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOwnersAreChecked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	me := private.Owners{uint32(os.Geteuid())}
	os.WriteFile(path, nil, 0o600)
	check := func(o private.Owners, want string) {
		t.Helper()
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		err = o.Check(info)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	check(me, "")
	check(private.Owners{12345, 54321}, "belongs to user ID")
	os.Chmod(path, 0o640)
	check(me, "")
	os.Chmod(path, 0o660)
	check(me, "is writable by others (mode 0660)")
	os.Chmod(path, 0o602)
	check(me, "is writable by others")
	os.Chmod(path, 0o600)
	os.Link(path, path+"2")
	check(me, "has 2 names")
}

package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/ring/ringtest"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// oneRecord is a ring file with a record.
func oneRecord() *ringtest.File {
	return &ringtest.File{SystemID: trailtest.SystemID, Rings: []ringtest.Ring{{Messages: [][]byte{statement(2)}, Session: sessionBody(1), Seq: 1}}}
}

// TestRingFilesAreFoundInTheServersDirectory looks where servers have them.
func TestRingFilesAreFoundInTheServersDirectory(t *testing.T) {
	dir, rings := t.TempDir(), t.TempDir()
	trailOf(t, dir, 1)
	for _, own := range []string{"pg_steno.1.a", "pg_steno.1.a.0123456789abcdef"} {
		os.Mkdir(filepath.Join(rings, own), 0o700)
		f := oneRecord()
		f.Created = int64(len(own))
		f.Write(t, filepath.Join(rings, own, "pg_steno.a."+fmt.Sprint(len(own))))
	}
	os.Mkdir(filepath.Join(rings, "pg_steno.1.a", "pg_steno.deeper"), 0o700)
	oneRecord().Write(t, filepath.Join(rings, "pg_steno.1.a", "pg_steno.deeper", "pg_steno.a.9"))
	os.Chmod(rings, os.ModeSticky|0o777)
	r, out, err := recovered(t, Options{Rings: []string{rings}}, dir)
	if len(r.Rings) != 2 || len(r.Ignored) != 0 || len(records(t, out)) != 2 {
		t.Errorf("%v: %+v", err, r)
	}
	r, _, err = recovered(t, Options{Rings: []string{filepath.Join(rings, "pg_steno.1.a.0123456789abcdef")}}, dir)
	if err != nil || len(r.Rings) != 1 {
		t.Errorf("the directory itself: %v: %+v", err, r)
	}
}

// TestPlantedRingFilesAreIgnored plants what others can: where everybody may make files,
// in directories that others can write to, behind links, and, as root, as another account.
func TestPlantedRingFilesAreIgnored(t *testing.T) {
	const stranger = 65534
	dir, rings, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	trailOf(t, dir, 1)
	plant := func(name string) string {
		path := filepath.Join(rings, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		return oneRecord().Write(t, path)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	own := "pg_steno.1.a"
	plant(own + "/pg_steno.a.1") // the server's
	want := map[string]string{
		"pg_steno.a.1": "is in a directory where others can create files",
	}
	plant("pg_steno.a.1")
	plant(own + ".open/pg_steno.a.1")
	must(os.Chmod(filepath.Join(rings, own+".open"), 0o777))
	want[own+".open"] = "is writable by others (mode 0777)"
	plant(own + "/pg_steno.a.2")
	must(os.Chmod(filepath.Join(rings, own, "pg_steno.a.2"), 0o606))
	want[own+"/pg_steno.a.2"] = "is writable by others (mode 0606)"
	must(os.Link(plant(own+"/pg_steno.a.3"), filepath.Join(rings, "twice")))
	want[own+"/pg_steno.a.3"] = "has 2 names"
	oneRecord().Write(t, filepath.Join(elsewhere, "pg_steno.a.1"))
	must(os.Symlink(elsewhere, filepath.Join(rings, own+".link")))
	want[own+".link"] = "is in a directory where others can create files"
	if os.Geteuid() == 0 {
		path := plant(own + ".theirs/pg_steno.a.1")
		must(os.Chown(path, stranger, stranger))
		must(os.Chown(filepath.Dir(path), stranger, stranger))
		want[own+".theirs"] = "belongs to user ID 65534"
		must(os.Chown(plant(own+"/pg_steno.a.4"), stranger, stranger))
		want[own+"/pg_steno.a.4"] = "belongs to user ID 65534"
	} else {
		t.Log("skipped: files of another account need root")
	}
	must(os.Chmod(rings, os.ModeSticky|0o777))

	r, out, err := recovered(t, Options{Rings: []string{rings}}, dir)
	if len(r.Rings) != 1 || r.Rings[0].File != filepath.Join(rings, own, "pg_steno.a.1") || len(records(t, out)) != 2 {
		t.Errorf("%v: %+v", err, r.Rings)
	}
	if len(r.Errors) > 0 {
		t.Errorf("errors: %v", r.Errors)
	}
	got := map[string]string{}
	for _, line := range r.Ignored {
		path, why, _ := strings.Cut(line, ": ")
		got[strings.TrimPrefix(path, rings+"/")] = why
	}
	for name, why := range want {
		if !strings.Contains(got[name], why) {
			t.Errorf("%s: got %q, want %q", name, got[name], why)
		}
	}
	if len(got) != len(want) {
		t.Errorf("ignored: %v", got)
	}

	// who names one is told, and nothing is written
	_, _, err = recovered(t, Options{Rings: []string{filepath.Join(rings, own, "pg_steno.a.2")}}, dir)
	var usage *exit.UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "is writable by others") {
		t.Errorf("one that is named: %v", err)
	}
	// a file that somebody names is read where it is
	r, _, err = recovered(t, Options{Rings: []string{filepath.Join(rings, "pg_steno.a.1")}}, dir)
	if err != nil || len(r.Rings) != 1 {
		t.Errorf("one that is the server's: %v: %+v", err, r)
	}
}

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
			if owner, ok := private.OwnerOf(info); owner.UID != stranger || !ok {
				t.Errorf("%s: %s belongs to %d", what, path, owner.UID)
			}
			if b, err := os.ReadFile(path); err == nil && (strings.Contains(string(b), "secret") || strings.Contains(path, "/1/")) {
				t.Errorf("%s: %s was handed out", what, path)
			}
			return err
		})
		if b, _ := os.ReadFile(filepath.Join(secrets, "password")); string(b) != "secret" {
			t.Errorf("%s: the file itself was changed", what)
		}
		info, _ := os.Stat(filepath.Join(secrets, "password"))
		if owner, ok := private.OwnerOf(info); owner.UID != 0 || !ok {
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
		} else if owner, ok := private.OwnerOf(info); owner.UID != stranger || owner.GID != stranger || !ok {
			t.Errorf("%q belongs to %d", name, owner.UID)
		}
	}
}

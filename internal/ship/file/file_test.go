package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/ship/file"
	"github.com/pg-steno/pg_steno/internal/ship/recordtest"
)

// linesOf returns the lines of a file and of those that it was renamed to, the oldest first.
func linesOf(t *testing.T, path string, renamed int) (all []string) {
	t.Helper()
	for i := renamed; i >= 0; i-- {
		name := path
		if i > 0 {
			name = fmt.Sprintf("%s.%d", path, i)
		}
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
	}
	return all
}

func TestLinesAreInFilesThatRotate(t *testing.T) {
	r := recordtest.Rand(t)
	events := recordtest.Events(t, r, 2000, "json")
	path := filepath.Join(t.TempDir(), "trail.json")
	sink := recordtest.Open(t, file.Kind, "to: file:"+path, "rotate_size: 100kB", "rotate_keep: 10000")
	if refused := recordtest.Deliver(t, r, sink, events, func(error) bool { return false }); len(refused) > 0 {
		t.Fatalf("%d events were refused", len(refused))
	}
	if got := linesOf(t, path, 10000); !slices.Equal(got, recordtest.Lines(events)) {
		t.Errorf("%d lines, not the %d that were sent", len(got), len(events))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Error("it was not rotated")
	}
}

func TestAFileThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	r := recordtest.Rand(t)
	events := recordtest.Events(t, r, 10, "json")
	folder := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(folder, "trail.json")
	sink := recordtest.Open(t, file.Kind, "to: file:"+path)
	if found := sink.Check(t.Context()); len(found) != 1 || found[0].Err == nil {
		t.Errorf("%+v", found)
	}
	if _, err := sink.SendEvents(t.Context(), events); err == nil {
		t.Fatal("there was no error")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if found := sink.Check(t.Context()); len(found) != 1 || found[0].Err != nil {
		t.Errorf("%+v", found)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("trying has left a file")
	}
	if _, err := sink.SendEvents(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	if got := linesOf(t, path, 0); !slices.Equal(got, recordtest.Lines(events)) {
		t.Errorf("%d lines, not the %d that were sent", len(got), len(events))
	}
}

func TestPathsThatCannotWork(t *testing.T) {
	for _, to := range []string{"file:", "file:/tmp/", "file://elsewhere/x"} {
		if _, err := recordtest.TryOpen(file.Kind, "to: '"+to+"'"); err == nil || !strings.Contains(err.Error(), "to: ") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

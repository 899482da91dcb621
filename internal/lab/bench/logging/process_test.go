package logging

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/pg-steno/pg_steno/internal/lab/machine"
)

// recorded unpacks the recorded files of /proc.
func recorded(t *testing.T) string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/server.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range archive.Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.TrimSuffix(f.Data, []byte("\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const recordedPostmaster = 4011

func TestTimeGoesToWhoUsedIt(t *testing.T) {
	dir := recorded(t)
	look := func(when string) usage {
		u, err := tree{machine.Proc(filepath.Join(dir, when)), recordedPostmaster}.look()
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	before, during, after := look("before"), look("during"), look("after")
	// Sessions that have ended are in whole ticks; who lives, in nanoseconds.
	for _, c := range []struct {
		name     string
		from, to usage
		want     map[part]time.Duration
	}{
		{"sessions came and went", before, after, map[part]time.Duration{
			backends: 95 * machine.Tick, logger: 80018465 - 628889, writers: 7339258 - 3267984,
			other: 3874021 - 3218081 + 2517130 - 1573701,
		}},
		{"sessions came", before, during, map[part]time.Duration{
			backends: 1*machine.Tick + 226442317 + 214235595, logger: 19409293 - 628889, writers: 5796315 - 3267984,
			other: 3432837 - 3218081 + 1738904 - 1573701,
		}},
		{"sessions went", during, after, map[part]time.Duration{
			backends: 94*machine.Tick - 226442317 - 214235595, logger: 80018465 - 19409293, writers: 7339258 - 5796315,
			other: 3874021 - 3432837 + 2517130 - 1738904,
		}},
	} {
		if got := c.from.until(c.to); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestKernelsThatKeepLessAreReadAsWell(t *testing.T) {
	dir := filepath.Join(recorded(t), "after")
	want, err := machine.Proc(dir).Children(recordedPostmaster)
	if err != nil || len(want) != 7 {
		t.Fatalf("got children %v, %v", want, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "4011", "task")); err != nil {
		t.Fatal(err)
	}
	got, err := machine.Proc(dir).Children(recordedPostmaster)
	if err != nil || len(got) != len(want) {
		t.Errorf("without a list of children: got %v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "4016", "schedstat")); err != nil {
		t.Fatal(err)
	}
	u, err := tree{machine.Proc(dir), recordedPostmaster}.look()
	if err != nil {
		t.Fatal(err)
	}
	for key, p := range u.living {
		if want := (process{logger, 7 * machine.Tick}); key.pid == 4016 && p != want {
			t.Errorf("without schedstat: the logger is %v, want %v", p, want)
		}
	}
	if _, err := (tree{machine.Proc(dir), 1}).look(); err == nil {
		t.Error("a server that is not there is looked at")
	}
}

func TestSwitchesAreThoseOfWhoWasThereBothTimes(t *testing.T) {
	dir := recorded(t)
	count := func(when string) map[int]switches {
		counts, _, err := tree{machine.Proc(filepath.Join(dir, when)), recordedPostmaster}.switchCounts()
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	got := between(count("during"), count("after"))
	if want := (switches{2535 - 1165 + 47 - 31 + 75 - 52 + 48 - 31, 0}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	// the sessions that came in between have no count to start from
	got = between(count("before"), count("during"))
	if want := (switches{1165 - 5 + 31 - 21 + 52 - 35 + 31 - 22, 7 - 5}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := count("during")[4321]; n != (switches{348, 1183}) {
		t.Errorf("a session has %v", n)
	}
}

func TestProcessTitles(t *testing.T) {
	for title, want := range map[string]part{
		"postgres: logger":                             logger,
		"postgres: 15/main: logger ":                   logger,
		"postgres: steno writer 3 ":                    writers,
		"postgres: my cluster: steno writer 0":         writers,
		"postgres: checkpointer ":                      other,
		"postgres: autovacuum worker db1":              other,
		"postgres: 15/main: walsender r 10.0.0.1(5)":   other,
		"postgres: startup recovering 000000010000000": other,
		"postgres: logger logger [local] idle":         backends,
		"postgres: 15/main: u db [local] SELECT":       backends,
		"postgres: parallel worker for PID 77":         backends,
	} {
		if got := titlePart(title); got != want {
			t.Errorf("%q is of %s, want %s", title, got, want)
		}
	}
}

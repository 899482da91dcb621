// Trails of a server and of a copy of it that are read together.

package proof

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// twins writes the trails of a server and of a copy of it, which begins in minute 20 and starts again in minute 35; both
// go on until minute 90. The settings are those of all starts of each.
func twins(t *testing.T, original, copied []string) string {
	return twinsUntil(t, original, copied, 90)
}

// twinsUntil is twins with another minute in which the original stops.
func twinsUntil(t *testing.T, original, copied []string, stops int) string {
	dir := filepath.Join(t.TempDir(), "trail")
	tables := []string{"hr.staff", "hr.salary"}
	for number, settings := range [][]string{original, copied} {
		w := newWriter(t, dir, uint32(number))
		reader := client(4001+uint32(number), "alice")
		start := func(minutes float64) *trailtest.Record {
			r := w.starts(minutes, append([]string{"host", []string{"one", "two"}[number], "data_directory", "/data"}, settings...)...)
			r.Extra[5] = []string{"4711", "4712"}[number]
			return r
		}
		first := 20 * number
		if number == 1 {
			w.Put(w.event(20, "branch", "reason", "copy", "stream", "0", "block", "20", "found", "20", "hash", strings.Repeat("00", 32), "run", "4712"))
		}
		w.Put(start(float64(first)))
		w.Seal(at(float64(first)), seal.ReasonStart, nil)
		last := []int{stops, 90}[number]
		for minute := first + 1; minute < last; minute++ {
			if number == 1 && minute == 35 {
				w.Put(w.event(34.95, "stop"), start(34.96))
			}
			w.Put(reads(reader, float64(minute), tables[minute%2]))
			w.Seal(at(float64(minute)+0.9), "interval", nil)
			if minute%10 == 9 {
				w.Rotate(at(float64(minute) + 0.95))
			}
		}
		w.Put(w.event(float64(last)-0.01, "stop"))
		w.Seal(at(float64(last)), seal.ReasonStop, nil)
	}
	return dir
}

func TestTheOriginalStopsAndItsCopyGoesOn(t *testing.T) {
	dir := twinsUntil(t, nil, nil, 42)
	r := proved(t, dir, question(t, 30, 60, false, ofSalary))
	if !r.Proved || r.Complete || r.Matches != 21 { // in each second minute, of both until 42
		t.Errorf("%+v", r)
	}
	said := strings.Join(r.Exceptions, "\n")
	for _, want := range []string{"nothing was recorded since .*: the server was stopped \\(server: one, /data\\)", "stream 0: its server was stopped at " + when(42)} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("no exception %q in %q", want, said)
		}
	}
	// Before the copy began, there is one server, whose trail must reach beyond the range.
	if r := proved(t, twinsUntil(t, nil, nil, 15), question(t, 10, 17, false, ofSalary)); r.Proved {
		t.Errorf("proved: %+v", r)
	}
}

// TestACopyHasNotWhatItsOriginalRecorded: the trail of a copy alone proves nothing of the original after the last seal that
// was copied, and everything before it.
func TestACopyHasNotWhatItsOriginalRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trail")
	var branch []string
	for number, minutes := range [][2]int{{0, 20}, {25, 60}} {
		w := newWriter(t, dir, uint32(number))
		if number == 1 {
			w.Put(w.event(25, "branch", branch...))
		}
		w.Put(w.starts(float64(minutes[0])))
		w.Seal(at(float64(minutes[0])), seal.ReasonStart, nil)
		reader := client(4001+uint32(number), "alice")
		for minute := minutes[0] + 1; minute < minutes[1]; minute++ {
			w.Put(reads(reader, float64(minute), "hr.salary"))
			w.Seal(at(float64(minute)+0.9), "interval", nil)
			if minute%10 == 9 {
				w.Rotate(at(float64(minute) + 0.95))
			}
		}
		block, chain := w.Last()
		branch = []string{"reason", "copy", "stream", "0", "block", fmt.Sprint(block), "found", fmt.Sprint(block), "hash", hex.EncodeToString(chain[:]), "run", "4712"}
	}
	for _, test := range []struct {
		since, until float64
		lacks        bool
	}{{5, 10, false}, {15, 19.5, false}, {15, 22, true}, {22, 24, true}, {22, 28, true}, {30, 40, true}} {
		r := proved(t, dir, question(t, test.since, test.until, false, ofSalary))
		lacks := slices.ContainsFunc(r.Exceptions, func(e string) bool {
			return strings.Contains(e, "what the server that it was copied from recorded in stream 0 after block ")
		})
		if lacks != test.lacks || r.Complete == test.lacks || len(r.Problems) > 0 {
			t.Errorf("minutes %g to %g: complete %t, problems %q, exceptions %q", test.since, test.until, r.Complete, r.Problems, r.Exceptions)
		}
	}
}

func TestServersThatWroteAtTheSameTimeAreToldApart(t *testing.T) {
	off := []string{"steno.log_relation", "off"}
	const relations = "the relations of statements were not recorded throughout: steno.log_relation = \"off\""
	for _, test := range []struct {
		name             string
		original, copied []string
		since            float64
		want             []string
	}{
		{"nothing is left out", nil, nil, 50, nil},
		{"the original leaves out something", off, nil, 50, []string{relations + ` (server: one, /data)`}},
		{"the copy does", nil, off, 50, []string{relations + ` (server: two, /data)`}},
		{"both do", off, off, 50, []string{relations + ` (server: one, /data)`, relations + ` (server: two, /data)`}},
		{"the copy does, and was stopped", nil, off, 30, []string{
			"the relations of statements were not recorded until " + when(34.96), "the relations of statements were not recorded since " + when(34.96),
			"nothing was recorded from " + when(34.95) + " until " + when(34.96) + ": the server was not running, or ran without pg_steno (server: two, /data)",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := proved(t, twins(t, test.original, test.copied), question(t, test.since, 60, false, ofSalary))
			if len(r.Problems)+len(r.Uncovered) > 0 {
				t.Fatalf("not proved: %q, %q", r.Problems, r.Uncovered)
			}
			if len(r.Exceptions) != len(test.want) {
				t.Errorf("%d exceptions, want %d: %q", len(r.Exceptions), len(test.want), r.Exceptions)
			}
			for _, want := range test.want {
				if !slices.ContainsFunc(r.Exceptions, func(e string) bool { return strings.HasPrefix(e, want) }) {
					t.Errorf("no exception %q in %q", want, r.Exceptions)
				}
			}
		})
	}
}

func TestSettingsOfEachServerAreAskedFor(t *testing.T) {
	dir := withoutFirstSegment(t, twins(t, []string{"steno.log_relation", "off"}, nil), 0)
	r := proved(t, dir, question(t, 50, 60, false, ofSalary))
	if len(r.Problems)+len(r.Uncovered) > 0 {
		t.Fatalf("not proved: %q, %q", r.Problems, r.Uncovered)
	}
	const want = "which settings were in effect at the beginning of the range is not proved: 2 streams were written"
	if !slices.ContainsFunc(r.Exceptions, func(e string) bool { return strings.HasPrefix(e, want) }) {
		t.Errorf("no exception %q in %q", want, r.Exceptions)
	}
}

// Few records of the original tell of settings: when its stream ends is known from the index.
func TestAnswersTellServersApart(t *testing.T) {
	opened, err := trail.Open(twins(t, []string{"steno.log_relation", "off"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	all := FindOmissions(context.Background(), opened.Index(), at(50), at(60), Needs{Objects: true})
	if len(all) != 1 || !strings.Contains(all[0].Error(), "(server: one, /data)") {
		t.Errorf("%q, want one sentence about the original", all)
	}
}

// A stream of which one trail has the beginning, and another one the rest, is one: what the server has recorded in the rest is
// of the one that started in the beginning, and of no other.
func TestStreamsThatTwoTrailsShareAreOne(t *testing.T) {
	dir := twinsUntil(t, nil, nil, 42)
	older := filepath.Join(t.TempDir(), "older")
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	open := func(dir string) *trail.Trail {
		opened, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return opened
	}
	for _, s := range open(older).Streams { // it has the first two segments, and the other trail all but the first
		for i, seg := range s.Segments {
			if s.Number > 0 || i > 1 {
				if err := os.Remove(seg.Path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	withoutFirstSegment(t, dir, 0)
	for _, dirs := range [][]string{{dir, older}, {older, dir}} {
		all, err := Recorded(context.Background(), trail.Join(open(dirs[0]), open(dirs[1])).Index(), at(50), at(80))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		lacks := strings.Join(all[0].Lacks, "\n")
		if !strings.Contains(lacks, "was stopped (server: one, /data)") || strings.Contains(lacks, "server: two") || len(all[0].Unknown) > 0 {
			t.Errorf("lacks %q, unknown %q", lacks, all[0].Unknown)
		}
	}
}

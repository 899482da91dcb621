package proof

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestACopyDoesNotSpeakForItsOriginal: what the copy of a server recorded later is no sign that its original, which crashed
// at the end of the range, had written everything.
func TestACopyDoesNotSpeakForItsOriginal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trail")
	for number := range uint32(2) {
		w := newWriter(t, dir, number)
		s := client(4001+number, "alice")
		start := w.starts(float64(number))
		start.Extra[5] = []string{"4711", "4712"}[number]
		w.Put(start)
		for minute := 2.; minute < 60; minute++ {
			if number == 1 || minute <= 30 {
				w.Put(reads(s, minute+0.1*float64(number), "hr.staff"))
			}
		}
		if number == 0 {
			w.Put(w.starts(50))
		}
	}
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Recorded(t.Context(), opened.Index(), at(20), at(30.1))
	if err != nil || len(all) != 1 || !strings.Contains(strings.Join(all[0].Lacks, "\n"), "ended without stopping before") {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestLaterRecordsTellOfTheRange: how the run ended that went on at its end, what had been lost, and that the trail has
// nothing of it.
func TestLaterRecordsTellOfTheRange(t *testing.T) {
	alice := client(4001, "alice")
	read := func(minute float64, seq uint64) *trailtest.Record {
		r := reads(alice, minute, "hr.staff")
		r.Seq = seq
		return r
	}
	gapAt := func(minute float64, first string) *trailtest.Record {
		return &trailtest.Record{Kind: format.KindGap, Session: alice, Seq: 30, Time: at(minute), Extra: []string{"count", "3", "first_seq", first, "last_seq", "29", "reason", "ring full"}}
	}
	crash := func(w *writer) []*trailtest.Record {
		return []*trailtest.Record{read(20, 2), read(30, 3), w.starts(32)}
	}
	stops := func(more ...string) func(w *writer) []*trailtest.Record {
		return func(w *writer) []*trailtest.Record {
			return []*trailtest.Record{read(20, 2), read(30, 3), w.event(31, "stop", "wal", "0/15C8A40"), w.starts(32, more...), read(40, 4)}
		}
	}
	outage := func(w *writer) []*trailtest.Record {
		return []*trailtest.Record{read(20, 2), w.event(40, "recovered", "since", when(25), "until", when(39), "dropped", "741")}
	}
	gaps := func(between ...*trailtest.Record) func(w *writer) []*trailtest.Record {
		return func(*writer) []*trailtest.Record {
			return append(append([]*trailtest.Record{read(20, 2)}, between...), gapAt(40, "27"))
		}
	}
	const unclean = "the server ended without stopping before"
	for _, test := range []struct {
		name          string
		records       func(w *writer) []*trailtest.Record
		since, until  float64
		lacks, states string // what it says, if it says something
	}{
		{"a crash after it", crash, 19, 30.1, unclean, ""},
		{"a crash while the server was down", crash, 30.5, 31, unclean, ""},
		{"a crash long after it", crash, 10, 25, "", ""},
		{"it ends between a stop and a start", stops("not_run_since_wal", "0/15C8A40"), 19, 31.5, "", "stopped: the server did not run from"},
		{"it ends between a stop and a start after another run", stops(), 19, 31.5, "the server was not running, or ran without pg_steno", ""},
		{"it ends before a stop", stops(), 19, 30.5, "", ""},
		{"an outage that began in it", outage, 19, 30, `the server reported "recovered"`, ""},
		{"an outage that began after it", outage, 19, 24, "", ""},
		{"a gap, and nothing before it", gaps(), 19, 30, "3 records of 1 session were lost before gap records were written", ""},
		{"a gap, and another record before it", gaps(read(35, 26)), 19, 30, "", ""},
		{"a gap, and another record in the period", gaps(read(25, 26)), 19, 30, "3 records of 1 session were lost", ""},
		{"after the trail", crash, 50, 60, "", "unknown: the trail ends at " + when(32) + ", before the period"},
		{"before the trail", crash, -20, -10, "", "unknown: the trail begins at " + when(0) + ", after the period"},
	} {
		dir := filepath.Join(t.TempDir(), "trail")
		w := newWriter(t, dir, 0)
		w.Put(w.starts(0))
		for _, r := range test.records(w) {
			w.Put(r)
		}
		opened, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Recorded(t.Context(), opened.Index(), at(test.since), at(test.until))
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %v", test.name, err)
		}
		var said []string
		for _, line := range all[0].Lines(false) {
			said = append(said, line[0]+": "+line[1])
		}
		text := strings.Join(said, "\n")
		if lacks := strings.Join(all[0].Lacks, "\n"); (test.lacks == "") != (lacks == "") || !strings.Contains(lacks, test.lacks) || !strings.Contains(text, test.states) {
			t.Errorf("%s, until %s: want lacks %q, and %q:\n%s", test.name, render.Time(at(test.until)), test.lacks, test.states, text)
		}
		if all[0].Everything != (test.lacks == "" && !strings.HasPrefix(test.states, "unknown")) {
			t.Errorf("%s: everything: %t", test.name, all[0].Everything)
		}
	}
}

func TestStepsCoverARange(t *testing.T) {
	for _, test := range [][2]int64{{0, 0}, {5, 4}, {-7, 1000}, {format.MinTime, format.MaxTime}, {format.MaxTime - 3, format.MaxTime}, {format.MinTime, format.MinTime}, {0, format.MaxTime - 1}} {
		next, n := test[0], 0
		for from, until := range steps(test[0], test[1], 10) {
			if n++; from != next || until <= from || n > 100 {
				t.Fatalf("%v: %d to %d, not from %d", test, from, until, next)
			}
			next = until
		}
		if covered := test[1] < test[0] && n == 0 || next > test[1] || next == format.MaxTime; !covered {
			t.Errorf("%v: up to %d", test, next)
		}
	}
}

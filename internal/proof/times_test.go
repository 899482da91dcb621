package proof

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// Only streams that were written when the range began need a start that tells of its settings: not one that a server of
// the proof no longer used, nor one that began in the range.
func TestStreamsOfOtherTimesNeedNoStart(t *testing.T) {
	says := func(dir string, since float64) bool {
		r := proved(t, dir, question(t, since, 50, false, ofSalary))
		if len(r.Problems) > 0 {
			t.Fatal(r.Problems)
		}
		return slices.ContainsFunc(r.Exceptions, func(e string) bool { return strings.Contains(e, "streams were written, and the starts") })
	}
	if says(twins(t, nil, nil), 10) { // the copy begins in minute 20
		t.Error("a stream that began in the range is counted")
	}
	dir := filepath.Join(t.TempDir(), "trail")
	for number, last := range []int{60, 20} {
		w := newWriter(t, dir, uint32(number))
		reader := client(4001+uint32(number), "alice")
		if number == 0 {
			w.Put(w.starts(0, "steno.writers", "2"))
		}
		w.Seal(at(0), seal.ReasonStart, nil)
		for minute := 1; minute < last; minute++ {
			if number == 0 && minute == 25 {
				w.Put(w.event(24, "stop"), w.starts(25, "steno.writers", "1"))
			}
			w.Put(reads(reader, float64(minute), "hr.staff"))
			w.Seal(at(float64(minute)+0.9), "interval", nil)
			if minute%10 == 9 {
				w.Rotate(at(float64(minute) + 0.95))
			}
		}
		w.Seal(at(float64(last)), seal.ReasonStop, nil)
	}
	if says(dir, 30) {
		t.Error("a stream that no writer used any more is counted")
	}
}

// A proof reaches back to the last start before its range, not to one in a stream that was not written any more by then.
func TestStreamsThatEndedAreNotReachedBackTo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trail")
	for number, minutes := range [][2]int{{0, 20}, {25, 60}} {
		w := newWriter(t, dir, uint32(number))
		if number == 1 {
			w.Put(w.event(25, "branch", "reason", "altered", "stream", "0", "block", "99", "found", "99", "hash", strings.Repeat("00", 32)))
		}
		w.Put(w.starts(float64(minutes[0]), "steno.writers", "1"))
		w.Seal(at(float64(minutes[0])), seal.ReasonStart, nil)
		for minute := minutes[0] + 1; minute < minutes[1]; minute++ {
			w.Put(reads(client(4001, "alice"), float64(minute), "hr.salary"))
			w.Seal(at(float64(minute)+0.9), "interval", nil)
			if minute%10 == 9 {
				w.Rotate(at(float64(minute) + 0.95))
			}
		}
	}
	r := proved(t, dir, question(t, 30, 40, false, ofSalary))
	if len(r.Streams) != 2 || r.Streams[0].From == "" || r.Streams[0].Blocks > 1 {
		t.Errorf("the proof has more of the former stream than its end: %+v", r.Streams)
	}
}

// That a name occurs is shown by blocks that the answer needs anyway, if one of these has it.
func TestNamesTakeNoFurtherBlocks(t *testing.T) {
	dir := small{}.write(t)
	const alice = "6b0202d9.fa1"
	blocks := func(change func(*query.Criteria)) uint64 {
		r := proved(t, dir, question(t, 20, 40, false, func(o *query.Criteria) { ofSalary(o); change(o) }))
		if !r.Complete {
			t.Fatalf("%+v", r)
		}
		return r.Streams[0].Blocks
	}
	without := blocks(func(*query.Criteria) {})
	if with := blocks(func(o *query.Criteria) { o.Sessions = sessions(alice) }); with != without {
		t.Errorf("%d blocks with a session that the answer has, and %d without", with, without)
	}
}

// What log_min_messages hid at another time is not said of the range.
func TestFailuresAreHiddenInTheirTime(t *testing.T) {
	dir := small{settings: []string{MinMessages, "warning"}, extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{
		20: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{setting(w.Session, 20, MinMessages, "warning", "panic", "server")}
		},
		40: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{setting(w.Session, 40, MinMessages, "panic", "warning", "server")}
		},
	}}.write(t)
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		since, until float64
		hides        bool
	}{{5, 15, false}, {5, 25, true}, {25, 35, true}, {35, 50, true}, {45, 60, false}} {
		all, err := Recorded(context.Background(), opened.Index(), at(test.since), at(test.until))
		if err != nil || len(all) != 1 || (all[0].FailuresHidden != "") != test.hides {
			t.Errorf("minutes %g to %g: %+v, %v", test.since, test.until, all, err)
		}
		// whoever collects may have read what comes after the range, too
		e := NewExclusions(opened.Index(), at(test.since), at(test.until), Needs{Failures: true})
		trailtest.EachRecord(t, opened, func(ref *trail.BlockRef, r *format.Record) {
			if ShowsLack(r) {
				e.Record(r, ref)
			}
		})
		e.List(true)
		if hides := e.HidesFailures(); (hides != "") != test.hides {
			t.Errorf("minutes %g to %g, with all records: %q", test.since, test.until, hides)
		}
	}
}

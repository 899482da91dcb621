package proof

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// runsOfAServer writes a trail of some runs in streams 0 and 1, with settings that change at each start, at reloads, and in
// sessions, and segments whose headers name that of the last start, do not know it or, if they mislead, name a wrong one.
func runsOfAServer(t *testing.T, r *rand.Rand, dir string, of uint32, misleads bool) {
	w, other := newWriter(t, dir, of), newWriter(t, dir, of+1)
	w.NoTimes, other.NoTimes = r.IntN(8) == 0, r.IntN(8) == 0
	relations, minute, session := "on", 0, "all"
	first := true
	for run := range 1 + r.Uint32N(4) {
		alice := client(4001+10*of+run, "alice")
		relations = []string{"on", "off"}[r.IntN(2)]
		var settings []string
		if relations == "off" {
			settings = []string{"steno.log_relation", "off"}
		}
		if !first && r.IntN(3) > 0 {
			w.Put(w.event(float64(minute)+0.05, "stop"))
		}
		start := w.starts(float64(minute)+0.2, append([]string{"began", when(float64(minute) + 0.1)}, settings...)...)
		start.Extra[5] = fmt.Sprint(4711 + minute)
		if session = "all"; r.IntN(3) == 0 { // before the start was recorded
			session = "none"
			other.Put(setting(alice, float64(minute)+0.15, "steno.log", "all", "none", "session"))
		}
		w.Put(start)
		if w.LastStart = w.Segment; misleads && r.IntN(8) == 0 {
			w.LastStart = 1 + uint64(r.IntN(int(w.Segment)+1))
		}
		first = false
		for range 1 + r.IntN(12) {
			minute++
			at, ends := float64(minute), at(float64(minute)+0.5)
			switch r.IntN(6) {
			case 0:
				to := []string{"on", "off"}[r.IntN(2)]
				w.Put(setting(w.Session, at, "steno.log_relation", relations, to, "server"))
				relations = to
			case 1:
				to := []string{"all", "none"}[r.IntN(2)]
				other.Put(setting(alice, at, "steno.log", session, to, "session"))
				session = to
			case 2:
				w.Put(reads(alice, at, "hr.staff"))
			case 3:
				other.Put(reads(alice, at, "hr.staff"))
			}
			if r.IntN(3) == 0 {
				w.Put(reads(alice, at+0.3, "hr.staff"))
				w.Rotate(ends)
			}
			if r.IntN(5) == 0 {
				other.Put(reads(alice, at+0.3, "hr.staff"))
				other.Rotate(ends)
			}
		}
		other.Put(&trailtest.Record{Kind: format.KindDisconnect, Session: alice, Time: at(float64(minute) + 0.6)})
		minute++
	}
}

// TestTheLastStartSaysWhatWasInEffect: reading from the start on that headers name comes to what reading everything does.
func TestTheLastStartSaysWhatWasInEffect(t *testing.T) {
	shorter := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		dir := filepath.Join(t.TempDir(), "trail")
		misleads := r.IntN(2) == 0 // which verify finds: headers are in the chain
		runsOfAServer(t, r, dir, 0, misleads)
		if !misleads && r.IntN(4) == 0 { // a copy of the server writes into the same trail
			runsOfAServer(t, r, dir, 2, false)
		}
		opened, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		x := opened.Index()
		whole := span{format.MaxTime, format.MinTime}
		for _, s := range x.Streams {
			for _, one := range s.Segments {
				if one.Records > 0 {
					whole.begin, whole.end = min(whole.begin, one.FirstTime), max(whole.end, one.LastEnd)
				}
			}
		}
		system := x.Streams[0].Segments[0].Segment.Header.SystemID
		for range 10 {
			since := whole.begin + r.Int64N(whole.end-whole.begin)
			until := min(since+1+r.Int64N(10*60*second), whole.end+1)
			from := findStartBefore(x, func(*trail.Segment) bool { return true }, since).from
			if from > whole.begin {
				shorter++
			}
			all, _ := recordedFrom(t.Context(), x, system, whole, startBefore{from: format.MinTime}, since, until)
			got, err := recorded(t.Context(), x, system, whole, since, until)
			for _, one := range []*Recording{all, got} { // what two servers did at the same time has no order
				slices.Sort(one.Lacks)
				slices.SortFunc(one.Changes, func(a, b SettingChange) int { return strings.Compare(a.String(), b.String()) })
			}
			if err != nil || !reflect.DeepEqual(all, got) {
				t.Errorf("seed %d, from %s since %s until %s:\n%+v\nread from its beginning:\n%+v", seed, inMinutes(from), inMinutes(since), inMinutes(until), got, all)
			}
		}
	}
	if t.Log(shorter); shorter < 300 {
		t.Errorf("only %d of 3000 ranges are read from a start on", shorter)
	}
}

func inMinutes(time int64) string { return fmt.Sprint(float64(time-at(0)) / 60e6) }

// TestSessionsThatHaveEndedLeaveNothingOut: a setting that a session had of its own is no reason to doubt what was recorded
// when it had ended, with its disconnect record or with its run of the server.
func TestSessionsThatHaveEndedLeaveNothingOut(t *testing.T) {
	const lacks = `steno.log = "none", set by session`
	for _, test := range []struct {
		name  string
		ends  float64 // 0: nobody has recorded it
		since float64
		want  bool
	}{
		{"before its end", 300, 250, true},
		{"around its end", 300, 299, true},
		{"after its end", 300, 301, false},
		{"while it may go on", 0, 700, true},
		{"of an earlier run", 0, 810, false},
	} {
		dir := filepath.Join(t.TempDir(), "trail")
		w := newWriter(t, dir, 0)
		alice := client(4001, "alice")
		w.Put(w.starts(0))
		w.LastStart = 1
		for minute := 10.; minute < 900; minute += 10 {
			switch minute {
			case 20:
				w.Put(setting(alice, minute, "steno.log", "all", "none", "session"))
			case 800:
				w.Put(w.starts(minute))
				w.LastStart = w.Segment
			}
			if minute == test.ends {
				w.Put(&trailtest.Record{Kind: format.KindDisconnect, Session: alice, Time: at(minute)})
			}
			w.Put(reads(client(4002, "bob"), minute+1, "hr.staff"))
			w.Rotate(at(minute + 5))
		}
		opened, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Recorded(t.Context(), opened.Index(), at(test.since), at(test.since+5))
		if err != nil || len(all) != 1 || strings.Contains(strings.Join(all[0].Lacks, "\n"), lacks) != test.want {
			t.Errorf("%s: %+v, %v", test.name, all, err)
		}
	}
}

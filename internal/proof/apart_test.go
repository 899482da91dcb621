// Which streams are of one server, by the records of its starts.

package proof

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// stretch is a stream that a server began, and how far it is known.
type stretch struct {
	home        streamKey
	begun, last float64 // minutes
	run         string
}

// told are conditions with a start in each stream.
func told(t *testing.T, since, until float64, streams []stretch, branches ...branch) *conditions {
	q := question(t, since, until, false, nil)
	a, err := newEvaluator(q)
	if err != nil {
		t.Fatal(err)
	}
	c := newConditions(a)
	for _, s := range streams {
		c.runs = append(c.runs, run{time: at(s.begun), stream: s.home, id: s.run, where: s.run, settings: map[string]string{}})
		c.noteReached(s.home, at(s.last))
		c.noteReached(s.home, at(s.begun)) // what is read later may be older
	}
	c.branches = branches
	c.finish()
	return c
}

// TestStreamsAreOfOneServer: those that follow each other, or of which one was begun because the other was not as its server
// had left it; and not those that were written at the same time, or that a copy of the data directory began.
func TestStreamsAreOfOneServer(t *testing.T) {
	first, second := streamKey{"a", 0}, streamKey{"a", 1}
	began := func(reason string, unused bool) branch {
		return branch{trail.Branch{Reason: reason, Stream: 0, Unused: unused, Time: at(20), Run: "two"}, second}
	}
	for _, one := range []struct {
		name     string
		last     float64 // of the first stream
		branches []branch
		want     int
	}{
		{"one after the other", 19, nil, 1},
		{"up to the same moment", 20, nil, 1},
		{"at the same time", 21, nil, 2},
		{"at the same time, because one was cut off", 21, []branch{began(trail.ReasonCut, false)}, 1},
		{"because of a stream that no writer used", 21, []branch{began(trail.ReasonCut, true)}, 2},
		{"a copy", 21, []branch{began(trail.ReasonCopy, false)}, 2},
	} {
		c := told(t, 30, 40, []stretch{{first, 0, one.last, "one"}, {second, 20, 50, "two"}}, one.branches...)
		if len(c.lives) != one.want {
			t.Errorf("%s: %d servers, want %d", one.name, len(c.lives), one.want)
		}
		if named := c.lives[0].name != ""; named != (one.want > 1) {
			t.Errorf("%s: a sentence names the server: %t", one.name, named)
		}
		if n := len(c.livesOf(streamKey{"a", 7})); n != one.want {
			t.Errorf("%s: a stream without a start is of %d of them", one.name, n)
		}
	}
}

// TestCopiesAreToldOnce: in the range, by their own trail, and not if what they were made of is there as well.
func TestCopiesAreToldOnce(t *testing.T) {
	own := streamKey{"b", 2}
	copied := func(stream uint32, minute float64) branch {
		return branch{trail.Branch{Reason: trail.ReasonCopy, Stream: stream, Time: at(minute), Run: "two", FromHost: "h", FromDirectory: "/d"}, own}
	}
	for _, one := range []struct {
		name     string
		original float64 // the last time of the stream that was copied
		branches []branch
		want     int
	}{
		{"in the range", 35, []branch{copied(0, 35)}, 1},
		{"of two streams", 35, []branch{copied(0, 35), copied(1, 35)}, 1},
		{"at its beginning", 30, []branch{copied(0, 30)}, 1},
		{"before it", 29, []branch{copied(0, 29)}, 0},
		{"at its end", 35, []branch{copied(0, 40)}, 0},
		{"whose original goes on in its trail", 36, []branch{copied(0, 35)}, 0},
		{"for another reason", 35, []branch{{trail.Branch{Reason: trail.ReasonCut, Time: at(35)}, own}}, 0},
	} {
		c := told(t, 30, 40, []stretch{{streamKey{"a", 0}, 0, one.original, "one"}, {own, 35, 50, "two"}}, one.branches...)
		var said []string
		c.listCopies(func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		if len(said) != one.want || one.want > 0 && !strings.HasPrefix(said[0], `a copy of the data directory, of "/d" on host "h", began to record at `) {
			t.Errorf("%s: %q", one.name, said)
		}
	}
}

// TestStartsOfCopiesAreNoGaps: a copy has not the end of what it was made of. That is known of the start that the record of
// the branch names, in its trail.
func TestStartsOfCopiesAreNoGaps(t *testing.T) {
	original, own := streamKey{"a", 0}, streamKey{"b", 1}
	of := func(run string, in streamKey) branch {
		return branch{trail.Branch{Reason: trail.ReasonCopy, Stream: 0, Time: at(35), Run: run}, in}
	}
	for _, one := range []struct {
		name   string
		branch branch
		want   bool // that something is missing before the start of the copy
	}{
		{"its own", of("two", own), false},
		{"of another run", of("three", own), true},
		{"of a run that is not known", of("", own), true},
		{"in another trail", of("two", original), true},
	} {
		c := told(t, 30, 40, []stretch{{original, 0, 50, "one"}, {own, 35, 50, "two"}}, one.branch)
		var said []string
		c.listDownTimes(at(40), true, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }, nil)
		if is := slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, when(35)) }); is != one.want {
			t.Errorf("%s: %q", one.name, said)
		}
		if why := c.reasonUnstated(); (why != "") != one.want {
			t.Errorf("%s: settings: %q", one.name, why)
		}
	}
	// alone, it does not say which settings were in effect before it began
	if why := told(t, 30, 40, []stretch{{own, 35, 50, "two"}}, of("two", own)).reasonUnstated(); why == "" {
		t.Error("the settings before the copy began are not known")
	}
}

// TestTextsAreSearchedForRunsOfTheRange: from the last start before it up to its end, if one is known, and of the server of a
// session only.
func TestTextsAreSearchedForRunsOfTheRange(t *testing.T) {
	first, second := streamKey{"a", 0}, streamKey{"b", 0}
	runs := func(levels ...bool) *conditions {
		c := told(t, 30, 40, []stretch{{first, 10, 50, "one"}, {second, 20, 50, "two"}})
		for _, l := range c.lives {
			for i := range l.runs {
				l.runs[i].levels = levels[map[string]int{"one": 0, "two": 1}[l.runs[i].id]]
			}
		}
		return c
	}
	if !runs(true, false).searchesTexts() || !runs(false, true).searchesTexts() || runs(true, true).searchesTexts() {
		t.Error("texts are searched if one of two servers has no records of levels")
	}
	c := runs(true, false)
	if c.textsSearched(&session{stream: first}, at(35)) || !c.textsSearched(&session{stream: second}, at(35)) {
		t.Error("of the session of the other server")
	}
	later := told(t, 30, 40, []stretch{{first, 10, 50, "one"}, {first, 45, 50, "two"}})
	later.lives[0].runs[0].levels = true
	if later.searchesTexts() {
		t.Error("for a start behind the range")
	}
	earlier := told(t, 30, 40, []stretch{{first, 10, 50, "one"}, {first, 20, 50, "two"}})
	earlier.lives[0].runs[1].levels = true
	if earlier.searchesTexts() {
		t.Error("for a run that had ended before the range")
	}
	unknown := told(t, 30, 40, []stretch{{first, 45, 50, "one"}})
	unknown.lives[0].runs[0].levels = true
	if !unknown.searchesTexts() {
		t.Error("without a start before the range, texts must be searched")
	}
}

// Two servers number their transactions independently: who ended a prepared one with a number is known only if there is one
// server. A session ends its own.
func TestNumbersOfTransactionsAreThoseOfAServer(t *testing.T) {
	mine, other := format.SessionID{Start: 1, PID: 1}, format.SessionID{Start: 1, PID: 2}
	const rolledBack, committed = "rollback prepared", "commit"
	one := &earlyRename{record: format.RecordID{Session: mine, Seq: 5}, xid: 77}
	for _, test := range []struct {
		ended   map[ending]string
		servers int
		want    string
	}{
		{map[ending]string{{xid: 77}: rolledBack}, 1, rolledBack},
		{map[ending]string{{xid: 77}: rolledBack}, 2, ""},
		{map[ending]string{{xid: 77}: rolledBack, {mine, 77}: committed}, 2, committed},
		{map[ending]string{{other, 77}: committed}, 1, ""},
		{map[ending]string{{mine, 78}: committed}, 1, ""},
	} {
		c := &conditions{endedTransactions: test.ended, lives: make([]*life, test.servers)}
		if got := c.endOf(one); got != test.want {
			t.Errorf("%v, %d servers: %q, not %q", test.ended, test.servers, got, test.want)
		}
	}
}

// What ended a transaction is noted of the session that ended it; who prepared it may be another one.
func TestEndsOfTransactionsAreOfSessions(t *testing.T) {
	for _, servers := range []int{1, 2} {
		for event, want := range map[string]string{"rollback": "rollback", "rollback prepared": map[int]string{1: "rollback prepared", 2: ""}[servers]} {
			c := newConditions(&evaluator{question: &Question{}, since: at(10), until: at(20), objectNames: true})
			bob := &format.Session{Start: 1, PID: 9}
			c.endedTransactions[ending{format.SessionID{Start: 1, PID: 8}, 77}] = "commit"
			c.lives = make([]*life, servers)
			c.noteEnd(&format.Record{Kind: format.KindTransaction, Session: bob, XID: 77, Time: at(5)}, event)
			one := &earlyRename{record: format.RecordID{Session: bob.ID(), Seq: 5}, xid: 77}
			if got := c.endOf(one); got != want {
				t.Errorf("%d servers, %s: %q, not %q", servers, event, got, want)
			}
		}
	}
}

// That a transaction with the number of one that was committed later had been prepared in the proof says nothing if there
// are several servers: it may have been another's.
func TestWhoPreparedATransactionIsKnownOfOneServer(t *testing.T) {
	for servers, want := range map[int]int{1: 0, 2: 1} {
		c := newConditions(&evaluator{question: &Question{}})
		c.lives = make([]*life, servers)
		c.preparedHere[77] = true
		c.committedPrepared = []prepared{{at(15), "z", 77}}
		said := 0
		c.listUndecided(func(string, ...any) { said++ })
		if said != want {
			t.Errorf("%d servers: %d exceptions, not %d", servers, said, want)
		}
	}
}

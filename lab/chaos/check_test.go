package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
)

// trailOf is a trail of one session in which the client's three statements are as
// it was told: marker, outcome, SQLSTATE.
func trailOf() []record {
	text := func(marker string) *string { s := "SELECT /*" + marker + "*/ 1"; return &s }
	all := func(r record) record { r.Session, r.PID = "1.1", 1; return r }
	return []record{
		all(record{Kind: "connect", Seq: 1, Application: "chaos 0.0"}),
		all(record{Kind: "statement", Seq: 2, Application: "chaos 0.0", Text: text("m0.1"), Outcome: "ok"}),
		all(record{Kind: "statement", Seq: 3, Application: "chaos 0.0", Text: text("m0.2"), Outcome: "error", SQLState: "22012"}),
		all(record{Kind: "statement", Seq: 4, Application: "chaos 0.0", Text: text("m0.3"), Outcome: "ok"}),
		all(record{Kind: "disconnect", Seq: 5, Application: "chaos 0.0"}),
	}
}

func clientOf() *client {
	s := &session{name: "chaos 0.0", connected: true, pid: 1}
	c := &client{session: s, sessions: []*session{s}, load: &load{}}
	for range 3 {
		st, _ := c.begin("SELECT /**/ 1")
		st.outcome, st.ended = succeeded, time.Now()
	}
	c.statements[1].outcome, c.statements[1].sqlstate = failed, "22012"
	return c
}

// complaints of the check about a trail.
func complaints(mode string, c *client, records []record, change func(*round)) string {
	m := chooseMode(nil, mode)
	r := &round{config: &config{mode: m, gaps: m.gaps}, load: &load{clients: []*client{c}}, committed: map[string]bool{}}
	if change != nil {
		change(r)
	}
	k := &checker{round: r, statements: map[string][]found{}, sessions: map[string]*seen{}, byName: map[string][]string{}}
	for i := range records {
		k.addRecord(&records[i])
	}
	k.numbers()
	k.client(c)
	return strings.Join(k.wrong, "\n")
}

func gap(first, last string) record {
	return record{Kind: "gap", Session: "1.1", PID: 1, Seq: 4, Application: "chaos 0.0", Extra: map[string]string{"first_seq": first, "last_seq": last}}
}

func TestTrailThatAgreesIsAccepted(t *testing.T) {
	for _, mode := range []string{"wait", "drop"} {
		if got := complaints(mode, clientOf(), trailOf(), nil); got != "" {
			t.Errorf("%s: %s", mode, got)
		}
	}
}

func TestTrailThatDoesNotAgreeIsNot(t *testing.T) {
	without := func(i int) func([]record) []record {
		return func(r []record) []record { return append(r[:i:i], r[i+1:]...) }
	}
	for name, test := range map[string]struct {
		mode   string
		change func([]record) []record
		want   string
	}{
		"a statement is missing": {"wait", without(2), "m0.2 (client: error 22012) is missing"},
		"its number is, too": {"wait", func(r []record) []record {
			r = append(r[:2:2], r[3:]...)
			r[2].Seq, r[3].Seq = 3, 4
			return r
		}, "m0.2 (client: error 22012) is missing"},
		"a number is missing": {"drop", without(3), "sequence number 5 follows 3"},
		"a record is duplicated": {"wait", func(r []record) []record { return append(r, r[3]) },
			"sequence number 4 is duplicated"},
		"a statement has two records": {"wait", func(r []record) []record {
			again := r[3]
			again.Seq, r[4].Seq = 5, 6
			return append(r, again)
		}, "m0.3 has 2 records"},
		"another outcome": {"wait", func(r []record) []record { r[1].Outcome = "error"; return r },
			"m0.1: the client was told ok; recorded as error"},
		"another SQLSTATE": {"wait", func(r []record) []record { r[2].SQLState = "57014"; return r },
			"m0.2: the client was told error 22012; recorded as error 57014"},
		"another order": {"wait", func(r []record) []record { r[1].Seq, r[3].Seq = 4, 2; return r },
			"has sequence number 3, the statement before it 4"},
		"text cut short": {"wait", func(r []record) []record { s := (*r[1].Text)[:16]; r[1].Text = &s; return r },
			"sent 17 bytes"},
		"no end":        {"wait", without(4), "1 connect records, 0 disconnect records"},
		"two ends":      {"drop", func(r []record) []record { e := r[4]; e.Seq = 6; return append(r, e) }, "2 disconnect records"},
		"another's gap": {"drop", func(r []record) []record { r[3] = gap("1", "1"); return r }, "m0.3 (client: ok ) is missing"},
		"nothing of the session": {"wait", func([]record) []record { return nil },
			"the trail contains nothing of the session"},
	} {
		if got := complaints(test.mode, clientOf(), test.change(trailOf()), nil); !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestDroppedStatementsAreAccountedForByGaps(t *testing.T) {
	// the gap record takes the number after what it stands for
	r := trailOf()
	r[2] = gap("3", "3")
	r[3].Seq, r[4].Seq = 5, 6
	if got := complaints("drop", clientOf(), r, nil); got != "" {
		t.Error(got)
	}
	c := clientOf()
	c.statements[0].outcome, c.statements[2].outcome = unanswered, unanswered
	// a gap of one number accounts for one statement
	c.statements[1].outcome = succeeded
	r = []record{trailOf()[0], gap("2", "2"), trailOf()[4]}
	r[1].Seq, r[2].Seq = 3, 4
	if got := complaints("drop", c, r, nil); got != "" {
		t.Errorf("one of one: %s", got)
	}
	c.statements[0].outcome = succeeded
	if got := complaints("drop", c, r, nil); strings.Count(got, "is missing") != 1 {
		t.Errorf("one of two: got %q", got)
	}
	// where records wait for room, a gap accounts for the answer that came before its session was ended
	c = clientOf()
	r = trailOf()
	r[1] = gap("2", "2")
	for i := range r[1:] {
		r[i+1].Seq = uint64(i) + 3
	}
	if got := complaints("wait", c, r, nil); strings.Count(got, "m0.1 (client: ok ) is missing") != 1 {
		t.Errorf("at the end of a session: got %q", got)
	}
	c.statements[0].answeredEarly = true
	if got := complaints("wait", c, r, nil); got != "" {
		t.Errorf("answered early: %s", got)
	}
}

func TestSessionsThatLeaveNothingAreCounted(t *testing.T) {
	for count, want := range map[string]int{"3": 0, "2": 3} {
		r := []record{{Kind: "gap", Session: "2.2", PID: 2, Seq: 1, Extra: map[string]string{"count": count, "reason": "ring full"}}}
		if got := complaints("drop", clientOf(), r, nil); strings.Count(got, "is missing") != want {
			t.Errorf("%s of 3: got %q", count, got)
		}
	}
}

func TestCommittedStatementMustBeThere(t *testing.T) {
	c := clientOf()
	c.statements[2].outcome, c.statements[2].leaves = unanswered, true
	r := append(trailOf()[:3:3], trailOf()[4])
	r[3].Seq = 4
	if got := complaints("wait", c, r, nil); got != "" {
		t.Errorf("not committed: %s", got)
	}
	committed := func(r *round) { r.committed["m0.3"] = true }
	if got := complaints("wait", c, r, committed); !strings.Contains(got, "m0.3 (client: unanswered ) is missing") {
		t.Errorf("committed: got %q", got)
	}
}

func TestPowerLossExcusesOnlyTheLastMoments(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		ended  time.Duration // before the loss
		flush  time.Duration // began before the loss; 0: none
		missed bool
	}{
		"just before":             {100 * time.Millisecond, 0, false},
		"long before":             {time.Minute, 0, true},
		"before a flush":          {100 * time.Millisecond, 50 * time.Millisecond, true},
		"after a flush has begun": {50 * time.Millisecond, 100 * time.Millisecond, false},
	} {
		c := clientOf()
		for _, s := range c.statements {
			s.ended = now.Add(-time.Hour)
		}
		c.statements[2].ended = now.Add(-test.ended)
		if test.flush > 0 {
			c.statements[1] = &statement{session: c.session, marker: "m0.2", text: c.statements[0].text, outcome: succeeded, flush: true,
				began: now.Add(-test.flush), ended: now.Add(-test.flush + time.Millisecond)}
		}
		r := trailOf()[:3]
		if test.flush > 0 {
			r[2].Outcome, r[2].SQLState = "ok", ""
		}
		got := complaints("power", c, r, func(r *round) { r.lost, r.back = now, now.Add(time.Second) })
		if strings.Contains(got, "is missing") != test.missed {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestOnlyTheLastFailureMayBeCut(t *testing.T) {
	for _, last := range []bool{false, true} {
		c := clientOf()
		if last {
			c.statements[2].outcome = unanswered
		}
		r := trailOf()
		cut := (*r[2].Text)[:10] + "/*m0.2*/"
		r[2].Text, r[2].TextBytes = &cut, 17
		if got := complaints("wait", c, r, nil); strings.Contains(got, "m0.2, error: sent 17 bytes") == last {
			t.Errorf("last %t: got %q", last, got)
		}
	}
}

func TestCommitIsAssuredByClassTransaction(t *testing.T) {
	statements := []*statement{{marker: "before"}, {marker: "in"}, {marker: "end", commits: true}}
	promises := func(sync string, autocommit bool) string {
		c := &client{load: &load{round: &round{config: &config{sync: sync}}}, first: 1}
		c.statements = nil
		for _, s := range statements {
			copied := *s
			copied.commits = s.commits && !autocommit
			c.statements = append(c.statements, &copied)
		}
		c.promise()
		var got []string
		for _, s := range c.statements {
			got = append(got, fmt.Sprintf("%s %t %t", s.marker, s.assured, s.closed))
		}
		return strings.Join(got, ", ")
	}
	for _, test := range []struct {
		sync       string
		autocommit bool
		want       string
	}{
		{"write", false, "before true true, in true false, end false false"},
		{"write", true, "before true true, in true false, end true false"},
		{"all", false, "before true true, in true true, end true true"},
	} {
		if got := promises(test.sync, test.autocommit); got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
	}
}

func TestRoundsOfOneSeedAreTheSame(t *testing.T) {
	describe := func(seed uint64, n int) string {
		r := &round{options: &Options{Options: rounds.Options{Seed: seed}}, number: n, config: newConfig(&Options{Options: rounds.Options{Seed: seed}}, n), rng: rounds.Random(seed, n, "faults")}
		s := r.Describe()
		for range 5 {
			s += ", " + r.chooseFault().name
		}
		return s
	}
	if a, b := describe(7, 3), describe(7, 3); a != b {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := describe(7, 3), describe(8, 3); a == b {
		t.Errorf("two seeds, one round: %q", a)
	}
}

func TestOnlyWhatIsSyncedPromisesTheDisk(t *testing.T) {
	for template, want := range map[string]bool{
		update + "1":                            true,
		mark:                                    true,
		"COPY /**/ audited FROM STDIN":          true,
		"COPY /**/ (SELECT 1 FROM t) TO STDOUT": false,
		"SELECT /**/ 1":                         false,
	} {
		if got := isSynced("write, ddl, role", template); got != want {
			t.Errorf("%s: got %t", template, got)
		}
	}
}

// TestOnlyTheLastBigQueryMayBeCut: of a query that was too big for a share of the ring, and had delivered its rows when its
// session was killed, the record has the beginning of the text. Anything else is not the statement that was sent.
func TestOnlyTheLastBigQueryMayBeCut(t *testing.T) {
	const length = 20_000
	for name, c := range map[string]struct {
		change   func(last *statement, r *record)
		ringSize int
		want     bool // a complaint
	}{
		"killed after its rows": {func(*statement, *record) {}, 64, false},
		"answered":              {func(s *statement, _ *record) { s.outcome = succeeded }, 64, true},
		"of another length":     {func(_ *statement, r *record) { r.TextBytes-- }, 64, true},
		"not cut":               {func(_ *statement, r *record) { r.TextBytes = 0 }, 64, true},
		"not too big":           {func(*statement, *record) {}, 1024, true},
	} {
		client, records := clientOf(), trailOf()
		last := client.statements[2]
		last.text.length, last.text.hash, last.outcome = length, 1, unanswered
		records[3].TextBytes = length
		c.change(last, &records[3])
		got := complaints("wait", client, records, func(r *round) { r.config.ringSize = c.ringSize })
		if strings.Contains(got, "they differ") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

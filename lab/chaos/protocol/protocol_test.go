package protocol

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
)

// clientOf is a session that ran a query, a cursor and a failing statement, and was
// told of a nested statement.
func clientOf() *session {
	s := &script{nested: map[string]string{"n0.0.9": "a2"}}
	add := func(template string, told outcome, code string, rows int64, tag string, reads ...string) *statement {
		g := &generator{script: s, count: len(s.steps)}
		st := g.statement(template, reads...)
		st.sent, st.outcome, st.code, st.rows, st.tag = true, told, code, rows, tag
		s.steps = append(s.steps, &step{query: []*statement{st}})
		return st
	}
	add("SELECT @ * FROM a0", succeeded, "", 3, "SELECT", "a0")
	add("DECLARE c CURSOR FOR SELECT @ * FROM a1", succeeded, "", 0, "DECLARE CURSOR", "a1")
	add("SELECT @ 1 / 0", failed, "22012", 0, "")
	add("SELECT @ reads('n0.0.9', 'a2')", succeeded, "", 1, "SELECT")
	return &session{script: s, name: "script 0.0", ran: map[string]bool{"n0.0.9": true}, done: len(s.steps)}
}

func trailOf() []*record {
	rows := func(n int64) *int64 { return &n }
	text := func(s string) *string { return &s }
	all := []*record{
		{Kind: "connect"},
		{Kind: "statement", Statement: 1, Text: text("SELECT /*m0.0.1*/ * FROM a0"), Outcome: "ok", Rows: rows(3), Relations: []relation{{"public.a0"}}},
		{Kind: "statement", Statement: 2, Text: text("DECLARE c CURSOR FOR SELECT /*m0.0.2*/ * FROM a1"), Outcome: "ok"},
		{Kind: "statement", Statement: 2, Depth: 1, Text: text("DECLARE c CURSOR FOR SELECT /*m0.0.2*/ * FROM a1"), Outcome: "ok", Relations: []relation{{"public.a1"}}},
		{Kind: "statement", Statement: 3, Text: text("SELECT /*m0.0.3*/ 1 / 0"), Outcome: "error", SQLState: "22012"},
		{Kind: "statement", Statement: 4, Text: text("SELECT /*m0.0.4*/ reads('n0.0.9', 'a2')"), Outcome: "ok", Rows: rows(1)},
		{Kind: "statement", Statement: 4, Depth: 1, Text: text("SELECT /*n0.0.9*/ count(*) FROM a2"), Outcome: "ok", Relations: []relation{{"public.a2"}}},
		{Kind: "disconnect"},
	}
	for i, r := range all {
		r.Session, r.Seq, r.Application = "1.1", uint64(i+1), "script 0.0"
	}
	return all
}

func complaintsAbout(c *session, trail []*record) string {
	r := &round{sessions: []*session{c}}
	k := newChecker(r)
	for _, x := range trail {
		k.addRecord(x)
	}
	for _, s := range k.sessions {
		k.numbers(s)
	}
	k.session(c)
	return r.complaints()
}

func TestTrailThatAgreesIsAccepted(t *testing.T) {
	if got := complaintsAbout(clientOf(), trailOf()); got != "" {
		t.Error(got)
	}
}

func TestTrailThatDoesNotAgreeIsNot(t *testing.T) {
	for name, test := range map[string]struct {
		change func([]*record)
		want   string
	}{
		"a number is missing":        {func(r []*record) { r[7].Seq = 9 }, "number:"},
		"a statement is missing":     {func(r []*record) { r[1].Kind = "note" }, "missing: session 0.0: m0.0.1"},
		"a statement is there twice": {func(r []*record) { r[4].Text, r[4].Outcome = r[1].Text, "ok" }, "repeated: session 0.0: m0.0.1"},
		"another outcome":            {func(r []*record) { r[1].Outcome, r[1].SQLState = "error", "57014" }, "outcome: session 0.0: m0.0.1"},
		"another SQLSTATE":           {func(r []*record) { r[4].SQLState = "57014" }, "outcome: session 0.0: m0.0.3"},
		"other rows":                 {func(r []*record) { *r[1].Rows = 2 }, "rows: session 0.0: m0.0.1"},
		"no relation":                {func(r []*record) { r[1].Relations = nil }, "relations: session 0.0: m0.0.1"},
		"no relation of a cursor":    {func(r []*record) { r[3].Relations = nil }, "relations: session 0.0: m0.0.2"},
		"no nested statement":        {func(r []*record) { r[6].Kind = "note" }, "missing: session 0.0: nested n0.0.9"},
		"a nested one without its relation": {func(r []*record) { r[6].Relations = nil },
			"relations: session 0.0: nested n0.0.9"},
		"a nested one of another statement": {func(r []*record) { r[6].Statement = 1 }, "nested: session 0.0"},
		"foreign bytes":                     {func(r []*record) { *r[3].Text = "\x00\x01" }, "foreign: session 0.0"},
		"foreign bytes behind a marker":     {func(r []*record) { *r[3].Text += "x" }, "foreign: session 0.0"},
		"no end":                            {func(r []*record) { r[7].Kind = "note" }, "0 disconnect records"},
	} {
		trail := trailOf()
		test.change(trail)
		if got := complaintsAbout(clientOf(), trail); !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestGapAccountsForWaitsThatWereCanceled(t *testing.T) {
	trail := trailOf()
	trail[1].Kind, trail[1].Extra = "gap", map[string]string{"first_seq": "2", "last_seq": "2"}
	for _, r := range trail[1:] {
		r.Seq++
	}
	if got := complaintsAbout(clientOf(), trail); got != "" {
		t.Error(got)
	}
	trail[4].Kind = "note"
	if got := complaintsAbout(clientOf(), trail); !strings.Contains(got, "missing: session 0.0: m0.0.3") {
		t.Errorf("a gap of one number for two statements: got %q", got)
	}
}

func TestStatementsInParallelWorkersAreTheLeaders(t *testing.T) {
	trail := trailOf()
	trail[6].Session, trail[6].Leader, trail[6].Seq = "1.2", "1.1", 1
	trail[7].Seq = 7
	if got := complaintsAbout(clientOf(), trail); got != "" {
		t.Error(got)
	}
}

func TestParametersAreCompared(t *testing.T) {
	c, trail := clientOf(), trailOf()
	c.script.steps[0].query[0].params = []string{"x", "7"}
	trail[1].Params = []json.RawMessage{json.RawMessage(`"x"`), json.RawMessage(`7`)}
	if got := complaintsAbout(c, trail); got != "" {
		t.Error(got)
	}
	trail[1].Params[1] = json.RawMessage(`8`)
	if got := complaintsAbout(c, trail); !strings.Contains(got, "parameters: session 0.0: m0.0.1") {
		t.Errorf("got %q", got)
	}
}

func TestPortalFailsOnlyIfItsQueryDoes(t *testing.T) {
	for _, test := range []struct {
		fetch, ended string // the SQLSTATE of a FETCH; how the session ended, if it is that which ended it
		code         string // of the portal's record
		want         string
	}{
		{"55000", "", "", ""},
		{"55000", "", "55000", "outcome: session 0.0: m0.0.1"},
		{"22012", "", "22012", ""},
		{"22012", "", "57014", "outcome: session 0.0: m0.0.1"},
		{"", "FATAL 57P01", "57P01", ""},
		{"", "", "57P01", "outcome: session 0.0: m0.0.1"},
	} {
		c, trail := clientOf(), trailOf()
		portal, fetch := c.script.steps[0].query[0], c.script.steps[1].query[0]
		portal.outcome, portal.tag = suspended, ""
		c.portals = map[string]*statement{"p": portal}
		fetch.text, fetch.reads = "FETCH /*m0.0.2*/ 5 FROM p", nil
		*trail[2].Text, trail[3].Kind = fetch.text, "note"
		if test.fetch != "" {
			fetch.outcome, fetch.code = failed, test.fetch
			trail[2].Outcome, trail[2].SQLState = "error", test.fetch
		} else {
			fetch.tag = "FETCH"
		}
		if test.ended != "" {
			c.ended, c.done = test.ended, 1
		}
		if test.code != "" {
			trail[1].Outcome, trail[1].SQLState = "error", test.code
		}
		got := complaintsAbout(c, trail)
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%+v: got %q", test, got)
		}
	}
}

func TestScriptsOfOneSeedAreTheSame(t *testing.T) {
	write := func(seed uint64) string {
		var b strings.Builder
		for _, st := range generate(&Options{Options: rounds.Options{Seed: seed}}, 1, 2, 3, true).steps {
			b.WriteString(st.String())
		}
		return b.String()
	}
	if a, b := write(7), write(7); a != b {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := write(7), write(8); a == b {
		t.Errorf("two seeds, one script: %q", a)
	}
}

func TestMovesThatAreNotWantedAreNotMade(t *testing.T) {
	o := &Options{Options: rounds.Options{Seed: 1}, Without: []string{"large", "cancel", "many parameters"}}
	for n := range 50 {
		for _, st := range generate(o, 1, 0, n, false).steps {
			if st.cancel || st.move == "large" || st.move == "many parameters" {
				t.Fatalf("session %d: %s", n, st)
			}
		}
	}
}

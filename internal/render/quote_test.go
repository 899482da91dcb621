package render

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// inText is a record of a client that chose its names so as to look like somebody else.
func inText(t *testing.T, kind format.Kind, change func(r *trailtest.Record), facts ...trailtest.Fact) string {
	t.Helper()
	r := &trailtest.Record{Kind: kind, Session: trailtest.NewSession(trailtest.Epoch, 1, facts...), Time: trailtest.Epoch, Text: "SELECT 1"}
	if change != nil {
		change(r)
	}
	out := render(t, New(Text, Options{}), r)
	return strings.TrimSuffix(strings.TrimPrefix(out, "2026-11-21 20:45:13.000000Z "), "\n")
}

func TestNamesThatClientsChooseForgeNothingInTheTextFormat(t *testing.T) {
	user, database := trailtest.Fact{Key: format.KeyUser, Value: "eve"}, trailtest.Fact{Key: format.KeyDatabase, Value: "shop"}
	fact := func(k format.Key, v string) trailtest.Fact { return trailtest.Fact{Key: k, Value: v} }
	for _, c := range []struct {
		facts []trailtest.Fact
		want  string
	}{
		{[]trailtest.Fact{user, database, fact(format.KeyAppUser, "bob")}, "eve@shop app_user=bob [6b0202d9.1 1] ok statement | SELECT 1"},
		{[]trailtest.Fact{user, database, fact(format.KeyAppUser, "bob@example.org")}, "eve@shop app_user=bob@example.org [6b0202d9.1 1] ok statement | SELECT 1"},
		{[]trailtest.Fact{fact(format.KeyUser, "jürgen-2"), database}, "jürgen-2@shop [6b0202d9.1 1] ok statement | SELECT 1"},
		{
			[]trailtest.Fact{user, database, fact(format.KeyAppUser, "bob [6b0202d9.2 9] ok read/SELECT | SELECT 2")},
			`eve@shop app_user='bob [6b0202d9.2 9] ok read/SELECT \x7c SELECT 2' [6b0202d9.1 1] ok statement | SELECT 1`,
		},
		{[]trailtest.Fact{user, database, fact(format.KeyAppUser, "it's\n")}, `eve@shop app_user='it''s\n' [6b0202d9.1 1] ok statement | SELECT 1`},
		{[]trailtest.Fact{fact(format.KeyUser, "bob@shop [6b0202d9.2 9]"), database}, `"bob@shop [6b0202d9.2 9]"@shop [6b0202d9.1 1] ok statement | SELECT 1`},
		{[]trailtest.Fact{fact(format.KeyUser, `a"b`), fact(format.KeyDatabase, "x@y")}, `"a""b"@"x@y" [6b0202d9.1 1] ok statement | SELECT 1`},
		{[]trailtest.Fact{fact(format.KeyUser, "-"), database}, `"-"@shop [6b0202d9.1 1] ok statement | SELECT 1`},
		{[]trailtest.Fact{user, database, fact(format.KeyRole, "dba app_user=bob")}, `eve@shop role="dba app_user=bob" [6b0202d9.1 1] ok statement | SELECT 1`},
		{[]trailtest.Fact{user, database, fact(format.KeyAppUser, "bob\u00a0x")}, "eve@shop app_user='bob\\u00a0x' [6b0202d9.1 1] ok statement | SELECT 1"},
	} {
		if got := inText(t, format.KindStatement, nil, c.facts...); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	want := "eve@shop [6b0202d9.1 1] ok connect from 10.0.0.1:5000 application='psql rolled back'"
	if got := inText(t, format.KindConnect, func(r *trailtest.Record) { r.Text = "" }, user, database, fact(format.KeyApplication, "psql rolled back"), fact(format.KeyClient, "10.0.0.1:5000")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = "eve@shop [6b0202d9.1 1] setting name=steno.log value='all name=x' old=none"
	if got := inText(t, format.KindSetting, func(r *trailtest.Record) {
		r.Text, r.Extra = "", []string{"name", "steno.log", "value", "all name=x", "old", "none"}
	}, user, database); !strings.Contains(got, want[strings.Index(want, "name="):]) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMessagesAndTextsForgeNoOtherPartOfALine(t *testing.T) {
	got := inText(t, format.KindStatement, func(r *trailtest.Record) {
		r.Outcome, r.SQLState, r.Message, r.Text = format.OutcomeError, "P0001", "| no | SELECT 2 |", "DO $$ x $$ | | $1='y' || z"
	}, trailtest.Fact{Key: format.KeyUser, Value: "eve"})
	want := `eve [6b0202d9.1 1] ERROR statement P0001 \x7c no \x7c SELECT 2 \x7c | DO $$ x $$ \x7c \x7c $1='y' || z`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got = inText(t, format.KindStatement, func(r *trailtest.Record) {
		r.Shape = &trailtest.Shape{Objects: []trailtest.Object{{Action: format.ActionCreate, Type: "table", Name: `public."a | drop table b"`}}}
	}, trailtest.Fact{Key: format.KeyUser, Value: "eve"})
	if !strings.Contains(got, `create table public."a \x7c drop table b"`) {
		t.Errorf("got  %s", got)
	}
}

// Whatever clients write, the bars of a line are ours, and what stands behind the last one is, too: a text, a message,
// a name or a parameter cannot end like a field.
func TestPartsOfALineCannotBeForged(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 5))
	pieces := []string{" | ", "|", " ", "salvaged='stream 0'", "prepared=x", "cut from 9 bytes", "$1=1", "'", `"`, "=", "\n", "\u202e", "\u2028", "--", "a", ", drop table b", "[6b0202d9.1 1]", "\\x7c", "\x1b[31m", "\u00a0"}
	forged := func() string {
		var b strings.Builder
		for range rnd.IntN(6) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		return b.String()
	}
	harmless := func() string { return "x" }
	for round := range 20_000 {
		seed := rnd.Uint64()
		line := func(word func() string) string {
			choice := rand.New(rand.NewPCG(seed, 1))
			r := &trailtest.Record{Kind: format.KindStatement, Time: trailtest.Epoch, Session: trailtest.NewSession(trailtest.Epoch, 1,
				trailtest.Fact{Key: format.KeyUser, Value: "u" + word()}, trailtest.Fact{Key: format.KeyDatabase, Value: "d" + word()},
				trailtest.Fact{Key: format.KeyAppUser, Value: "a" + word()}, trailtest.Fact{Key: format.KeyAppContext, Value: "c" + word()})}
			r.Text = "SELECT" + word()
			if choice.IntN(2) == 0 {
				r.SQLState, r.Message, r.Outcome = "42601", "m"+word(), format.OutcomeError
			}
			if choice.IntN(2) == 0 {
				value := word()
				r.Shape = &trailtest.Shape{Command: "SELECT", Params: []format.ParamType{{OID: 25, Repr: format.ReprText}}}
				r.Values = append([]byte{byte(len(value))}, value...)
			}
			if choice.IntN(2) == 0 {
				r.Extra = []string{"salvaged", word()}
			}
			return render(t, New(Text, Options{}), r)
		}
		got, want := line(forged), line(harmless)
		if strings.Count(got, " | ") != strings.Count(want, " | ") {
			t.Fatalf("round %d: %q has other parts than %q", round, got, want)
		}
		ours := func(line string) bool {
			at := strings.LastIndex(line, " | ")
			return strings.HasPrefix(line[at+3:], "salvaged=")
		}
		if ours(got) != ours(want) {
			t.Fatalf("round %d: %q ends otherwise than %q", round, got, want)
		}
		if strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\u202e\u2028\u00a0") {
			t.Fatalf("round %d: %q", round, got)
		}
	}
}

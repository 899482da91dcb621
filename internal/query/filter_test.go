package query

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func TestARollbackIsNoFailure(t *testing.T) {
	filter, err := (&FilterOptions{Failed: true}).Filter(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := &Matcher{Filter: filter}
	for name, c := range map[string]struct {
		record trail.Record
		failed bool
	}{
		"transaction rolled back":      {trail.Record{Kind: trail.KindTransaction, Outcome: trail.OutcomeError}, false},
		"transaction that failed":      {trail.Record{Kind: trail.KindTransaction, Outcome: trail.OutcomeError, SQLState: []byte("23505")}, true},
		"statement that failed":        {trail.Record{Kind: trail.KindStatement, Outcome: trail.OutcomeError}, true},
		"statement that was cut short": {trail.Record{Kind: trail.KindStatement, Outcome: trail.OutcomeInterrupted}, true},
		"statement ROLLBACK":           {trail.Record{Kind: trail.KindStatement}, false},
		"refused client":               {trail.Record{Kind: trail.KindAuthFailed}, true},
	} {
		if got := m.Keep(&c.record); got != c.failed {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestXIDChoosesATransaction(t *testing.T) {
	filter, err := (&FilterOptions{XIDs: []string{"742", "743", "12884902632"}}).Filter(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := &Matcher{Filter: filter}
	for xid, want := range map[uint64]bool{
		0: false, 741: false, 742: true, 743: true,
		3<<32 | 742: true, 3<<32 | 744: true, 2<<32 | 744: false, 744: false,
	} {
		if m.Keep(&trail.Record{Kind: trail.KindStatement, XID: xid}) != want {
			t.Errorf("xid %d", xid)
		}
	}
	for _, bad := range []string{"", "0", "-1", "x", "18446744073709551616"} {
		if _, err := (&FilterOptions{XIDs: []string{bad}}).Filter(time.Now()); err == nil {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}

func TestObjectsAreFoundWithAndWithoutTheirSchema(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"t", "public.t", true},
		{"public.t", "public.t", true},
		{"hr.t", "public.t", false},
		{"public", "public.t", false},
		{"t", "public.tt", false},
		{"public.user", `public."user"`, true},
		{"public.Данные", `public."Данные"`, true},
		{"Данные", `public."Данные"`, true},
		{"Table.x", `"table".x`, true},
		{"public.t$x", `public."t$x"`, true},
		{"public.t$*", `public."t$x"`, true},
		{`public."User"`, `public."user"`, false},
		{"public.user", "public.users", false},
		{"T", "public.t", true}, // as in SQL
		{"Public.T", "public.t", true},
		{`"T"`, "public.t", false},
		{"T", `public."T"`, false},
		{`"public"."t"`, "public.t", true},
		{`"T"`, `public."T"`, true},
		{"public.*", "public.t", true},
		{"*", "guard", true},
		{"p.blic.t", "public.t", false},
		{`"a.b"`, `public."a.b"`, true},
		{`b"`, `public."a.b"`, false},
		{`"a""."`, `"x.y"."a""."`, true},
		{"f(pg_catalog.int4)", "f(pg_catalog.int4)", true},
		{"int4)", "f(pg_catalog.int4)", false},
	} {
		patterns := objectPatterns([]string{"nothing", c.pattern})
		byRelation := usesObject(&trail.Shape{Relations: []trail.Relation{{Name: []byte(c.name)}}}, patterns, nil)
		byCall := usesObject(&trail.Shape{Objects: []trail.Object{{Name: []byte(c.name + "(pg_catalog.int4)")}}}, patterns, nil)
		if !strings.Contains(c.name, "(") && byCall != c.want {
			t.Errorf("%s: %s with arguments: got %v, want %v", c.pattern, c.name, byCall, c.want)
		}
		byObject := usesObject(&trail.Shape{Objects: []trail.Object{{Name: []byte(c.name)}}}, patterns, nil)
		byNewName := usesObject(&trail.Shape{Objects: []trail.Object{{Name: []byte("other"), To: []byte(c.name)}}}, patterns, nil)
		if byRelation != c.want || byObject != c.want || byNewName != c.want && c.pattern != "*" {
			t.Errorf("%s: %s: got %v, %v and %v, want %v", c.pattern, c.name, byRelation, byObject, byNewName, c.want)
		}
	}
}

func TestColumnsAreFound(t *testing.T) {
	column := func(names ...string) (columns []trail.Column) {
		for _, n := range names {
			columns = append(columns, trail.Column{Access: trail.AccessSelect, Name: []byte(n)})
		}
		return columns
	}
	known := trail.Relation{Name: []byte("hr.staff"), HasColumns: true, Columns: column("id", `"a.b"`, `"*"`)}
	whole := trail.Relation{Name: []byte(`hr."old.staff"`), HasColumns: true, Columns: column("*")}
	part := trail.Relation{Name: []byte("hr.wide"), HasColumns: true, Columns: column("c1"), Omitted: trail.AccessSelect}
	none := trail.Relation{Name: []byte("hr.none"), HasColumns: true}
	old := trail.Relation{Name: []byte("hr.unknown"), Access: trail.AccessSelect}
	emptied := trail.Relation{Name: []byte("hr.emptied"), Access: trail.AccessTruncate}
	for _, c := range []struct {
		pattern  string
		relation trail.Relation
		want     bool
	}{
		{"staff.id", known, true},
		{"hr.staff.id", known, true},
		{"staff.salary", known, false},
		{"other.staff.id", known, false},
		{"staff.*", known, true},
		{"*.id", known, true},
		{`staff."a.b"`, known, true},
		{`staff.b"`, known, false},
		{"id", known, false},
		{`"old.staff".salary`, whole, true},
		{`hr."old.staff".salary`, whole, true},
		{"staff\".salary", whole, false},
		{"staff.salary", whole, false},
		{"wide.c1", part, true},
		{"wide.c900", part, true},
		{"narrow.c900", part, false},
		{"none.id", none, false},
		{"unknown.id", old, true},
		{"unknown.other", old, true},
		{"other.id", old, false},
		{"emptied.id", emptied, false},
	} {
		if got := usesObject(&trail.Shape{Relations: []trail.Relation{c.relation}}, objectPatterns([]string{c.pattern}), nil); got != c.want {
			t.Errorf("%s: %s: got %v", c.pattern, c.relation.Name, got)
		}
	}
}

// TestNamesWithoutSchemaAreLookedForInThePath: which tables a name may be that a refused statement has without schema.
func TestNamesWithoutSchemaAreLookedForInThePath(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	named := func(access trail.Access, name string) *trailtest.Shape {
		return &trailtest.Shape{Class: trail.ClassError, Relations: []trailtest.Relation{{Access: access, Name: name}}}
	}
	bare := named(trail.AccessSelect|trail.AccessWritten, "salary")
	b := trailtest.NewBuilder(trailtest.Epoch)
	for i, one := range []struct {
		text  string
		shape *trailtest.Shape
		extra []string
	}{
		{"any", bare, nil},
		{"hr", bare, []string{"search_path", `hr, "Odd, ""one"""`}},
		{"public", bare, []string{"other", "x", "search_path", "public"}},
		{"empty", bare, []string{"search_path", ""}},
		{"user", bare, []string{"search_path", `"$user", public`}},
		{"dropped", named(trail.AccessWritten, "salary"), []string{"search_path", "hr"}},
		{"qualified", named(trail.AccessSelect|trail.AccessWritten, "hr.salary"), []string{"search_path", "public"}},
		{"used", named(trail.AccessSelect, "salary"), []string{"search_path", "hr"}},
	} {
		b.Add(&trailtest.Record{Kind: trail.KindStatement, Session: session, Seq: uint64(i + 1), Time: trailtest.Epoch + int64(i), Shape: one.shape, Text: one.text, Extra: one.extra})
	}
	s.Write(t, b)
	for _, c := range []struct {
		object string
		not    bool
		want   string
	}{
		{"hr.salary", false, "any dropped hr qualified user"},
		{"hr.salary", true, "empty public used"},
		{"public.salary", false, "any public user"},
		{"salary", false, "any dropped empty hr public qualified used user"},
		{`"Odd, ""one""".salary`, false, "any hr user"},
		{"pg_temp.salary", false, "any dropped empty hr public user"},
		{"pg_catalog.*", false, "any dropped empty hr public user"},
		{"h*", false, "any dropped hr qualified user"},
		{"*lic.sal*", false, "any public user"},
		{"hr.salary.amount", false, "any dropped hr qualified user"},
		{"salary.amount", false, "any empty hr public qualified used user"},
		{"public.pay", false, ""},
	} {
		if got, _ := askedByObject(t, dir, c.not, c.object); got != c.want {
			t.Errorf("%s (not: %v): %q is found, want %q", c.object, c.not, got, c.want)
		}
	}
}

// TestAnySchemaIsMore: what a name may be in some schemas, it may be if the schema is not known, as in an index.
func TestAnySchemaIsMore(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	word := func(letters string, n int) (s string) {
		for range 1 + rnd.IntN(n) {
			s += string(letters[rnd.IntN(len(letters))])
		}
		return s
	}
	found := 0
	for range 200000 {
		patterns := objectPatterns([]string{word("ab*..", 7)})
		relation := trail.Relation{Access: trail.AccessWritten | trail.AccessSelect, Name: []byte(word("ab", 3))}
		path := []string{word("ab", 3)}
		some := usesObject(&trail.Shape{Relations: []trail.Relation{relation}}, patterns, path)
		if some {
			found++
		}
		// of a relation whose columns are not known, an index has a name alone, and one with any column
		byName, byColumn := relation, trail.Relation{Name: relation.Name, HasColumns: true, Omitted: trail.AccessSelect}
		byName.HasColumns = true
		any := usesObject(&trail.Shape{Relations: []trail.Relation{byName}}, patterns, nil) ||
			usesObject(&trail.Shape{Relations: []trail.Relation{byColumn}}, patterns, nil)
		if some && !any {
			t.Fatalf("%v: %s in %v", patterns[0].whole, relation.Name, path)
		}
	}
	if found < 100 {
		t.Errorf("only %d of the names were found", found)
	}
}

// kept is which of some records a filter keeps, by their texts.
func kept(t *testing.T, o FilterOptions) string {
	t.Helper()
	filter, err := o.Filter(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	session := func(pid uint32, user string) *trailtest.Session {
		return trailtest.NewSession(trailtest.Epoch, pid, trailtest.Fact{Key: trail.KeyUser, Value: user})
	}
	alice, bob, nobody := session(1, "alice"), session(2, "bob"), trailtest.NewSession(trailtest.Epoch, 3)
	read := &trailtest.Shape{Class: trail.ClassRead, Command: "SELECT", Params: []trail.ParamType{{OID: 25, Repr: trail.ReprText}}}
	ddl := &trailtest.Shape{Class: trail.ClassDDL, Command: "DROP TABLE"}
	b := trailtest.NewBuilder(trailtest.Epoch)
	for _, r := range []*trailtest.Record{
		{Kind: trail.KindStatement, Session: alice, Text: "a", Shape: read, Values: []byte("\x06Straß"), Duration: 249_999},
		{Kind: trail.KindStatement, Session: bob, Text: "b", Shape: ddl, Duration: 250_000, Outcome: trail.OutcomeError, SQLState: "42501", Message: "Zugriff verweigert"},
		{Kind: trail.KindStatement, Session: alice, Text: "c", Outcome: trail.OutcomeError, SQLState: "23505", Message: "doppelter Schlüssel"},
		{Kind: trail.KindNote, Session: nobody, Text: "d"},
	} {
		r.Time = trailtest.Epoch
		b.Add(r)
	}
	var chain [32]byte
	block := trail.Block{Image: b.Finish(trail.CodecNone, 1, 1, &chain)}
	if err := block.Load(); err != nil {
		t.Fatal(err)
	}
	m := Matcher{Filter: filter}
	m.Reset()
	out := ""
	var r trail.Record
	for block.Next(&r) == nil {
		if m.Keep(&r) {
			out += string(r.Text)
		}
	}
	return out
}

func TestFiltersKeep(t *testing.T) {
	for _, c := range []struct {
		o    FilterOptions
		want string
	}{
		{FilterOptions{}, "abcd"},
		{FilterOptions{MinDuration: "250ms"}, "b"},
		{FilterOptions{MinDuration: "0.249999s"}, "ab"},
		{FilterOptions{MinDuration: "250"}, "b"},
		{FilterOptions{SQLStates: []string{"42501"}}, "b"},
		{FilterOptions{SQLStates: []string{"23", "42501"}}, "bc"},
		{FilterOptions{SQLStates: []string{"00"}}, ""},
		{FilterOptions{Not: &FilterOptions{SQLStates: []string{"42"}}}, "acd"},
		{FilterOptions{Not: &FilterOptions{Users: []string{"alice"}}}, "bd"},
		{FilterOptions{Not: &FilterOptions{Users: []string{""}}}, "abc"},
		{FilterOptions{Not: &FilterOptions{Users: []string{"alice"}, Classes: []string{"ddl"}}}, "d"},
		{FilterOptions{Classes: []string{"read", "ddl"}, Not: &FilterOptions{Users: []string{"bob"}}}, "a"},
		{FilterOptions{Not: &FilterOptions{Kinds: []string{"note"}}}, "abc"},
		{FilterOptions{Not: &FilterOptions{Commands: []string{"drop"}, Grep: []string{"c"}}}, "ad"},
		{FilterOptions{Not: &FilterOptions{Commands: []string{" drop \t table"}, Grep: []string{"c"}}}, "ad"},
		{FilterOptions{Grep: []string{"zugriff"}}, ""},
		{FilterOptions{Grep: []string{"zugriff"}, IgnoreCase: true}, "b"},
		{FilterOptions{Grep: []string{"SCHLÜSSEL|strAẞ"}, IgnoreCase: true}, "ac"},
		{FilterOptions{Not: &FilterOptions{Grep: []string{"SCHLÜSSEL"}}, IgnoreCase: true}, "abd"},
		{FilterOptions{Grep: []string{"^[a-c]$"}, Not: &FilterOptions{Grep: []string{"verweigert", "Stra"}}}, "c"},
	} {
		if got := kept(t, c.o); got != c.want {
			t.Errorf("%+v, not %+v: kept %q, want %q", c.o, c.o.Not, got, c.want)
		}
	}
	for _, bad := range []FilterOptions{
		{MinDuration: "fast"}, {MinDuration: "-5ms"}, {MinDuration: "" + " "}, {SQLStates: []string{"4250"}}, {SQLStates: []string{"42 01"}}, {SQLStates: []string{""}},
		{Not: &FilterOptions{Classes: []string{"reed"}}}, {Not: &FilterOptions{Grep: []string{"("}}}, {Grep: []string{"a)(b"}, IgnoreCase: true},
		{Not: &FilterOptions{Clients: []string{"nowhere"}}}, {Not: &FilterOptions{Sessions: []string{"x"}}},
	} {
		if _, err := bad.Filter(time.Now()); err == nil {
			t.Errorf("%+v, not %+v: is accepted", bad, bad.Not)
		}
	}
}

func TestTimesAreReadInTheZoneThatIsAsked(t *testing.T) {
	zone, err := ParseZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 23, 30, 0, 0, time.UTC) // the 22nd there
	for in, want := range map[string]string{"08:00": "2026-11-22T07:00:00Z", "08:00Z": "2026-11-21T08:00:00Z", "today": "2026-11-21T23:00:00Z", "2026-07-01": "2026-06-30T22:00:00Z"} {
		got, err := ParseWhenIn(in, now, zone)
		if err != nil || time.Unix(got/1e6+946684800, 0).UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %d, %v, want %s", in, got, err, want)
		}
	}
	if _, err := ParseWhenIn("2026-03-29 02:30", now, zone); err == nil {
		t.Error("an hour that was skipped is accepted")
	}
	for _, bad := range []string{"", "Mars/Olympus", "CET", "EST5EDT", "../../etc/passwd", "/etc/passwd", "+25:00", "02:00"} {
		if _, err := ParseZone(bad); err == nil {
			t.Errorf("time zone %q is accepted", bad)
		}
	}
}

// TestManyPartsHaveFewSpellings: each part may be written in two ways, and names in a trail may have any number of parts.
func TestManyPartsHaveFewSpellings(t *testing.T) {
	name := strings.Repeat("a.", 200) + "staff"
	if all := spellings(name); len(all) > 50 {
		t.Errorf("%d spellings", len(all))
	}
	o := &FilterOptions{Objects: []string{name}}
	filter, err := o.Filter(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range []string{name, strings.Repeat("a.", 199) + `"a"."staff"`} {
		shape := &trail.Shape{Relations: []trail.Relation{{Name: []byte(found)}}}
		m := Matcher{Filter: filter}
		if !m.Keep(&trail.Record{Kind: trail.KindStatement, Session: &trail.Session{}, Shape: shape, SessionIndex: -1, ShapeIndex: -1}) {
			t.Errorf("%s is not found", found)
		}
	}
}

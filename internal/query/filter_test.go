package query

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func TestARollbackIsNoFailure(t *testing.T) {
	filter := (&Criteria{Failed: true}).Filter()
	m := &Matcher{Filter: filter}
	for name, c := range map[string]struct {
		record format.Record
		failed bool
	}{
		"transaction rolled back":      {format.Record{Kind: format.KindTransaction, Outcome: format.OutcomeError}, false},
		"transaction that failed":      {format.Record{Kind: format.KindTransaction, Outcome: format.OutcomeError, SQLState: []byte("23505")}, true},
		"statement that failed":        {format.Record{Kind: format.KindStatement, Outcome: format.OutcomeError}, true},
		"statement that was cut short": {format.Record{Kind: format.KindStatement, Outcome: format.OutcomeInterrupted}, true},
		"statement ROLLBACK":           {format.Record{Kind: format.KindStatement}, false},
		"refused client":               {format.Record{Kind: format.KindAuthFailed}, true},
	} {
		if got := m.Keep(&c.record); got != c.failed {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestXIDChoosesATransaction(t *testing.T) {
	filter := (&Criteria{XIDs: []uint64{742, 743, 12884902632}}).Filter()
	m := &Matcher{Filter: filter}
	for xid, want := range map[uint64]bool{
		0: false, 741: false, 742: true, 743: true,
		3<<32 | 742: true, 3<<32 | 744: true, 2<<32 | 744: false, 744: false,
	} {
		if m.Keep(&format.Record{Kind: format.KindStatement, XID: xid}) != want {
			t.Errorf("xid %d", xid)
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
		byRelation := usesObject(&format.Shape{Relations: []format.Relation{{Name: []byte(c.name)}}}, patterns, nil)
		byCall := usesObject(&format.Shape{Objects: []format.Object{{Name: []byte(c.name + "(pg_catalog.int4)")}}}, patterns, nil)
		if !strings.Contains(c.name, "(") && byCall != c.want {
			t.Errorf("%s: %s with arguments: got %v, want %v", c.pattern, c.name, byCall, c.want)
		}
		byObject := usesObject(&format.Shape{Objects: []format.Object{{Name: []byte(c.name)}}}, patterns, nil)
		byNewName := usesObject(&format.Shape{Objects: []format.Object{{Name: []byte("other"), To: []byte(c.name)}}}, patterns, nil)
		if byRelation != c.want || byObject != c.want || byNewName != c.want && c.pattern != "*" {
			t.Errorf("%s: %s: got %v, %v and %v, want %v", c.pattern, c.name, byRelation, byObject, byNewName, c.want)
		}
	}
}

func TestColumnsAreFound(t *testing.T) {
	column := func(names ...string) (columns []format.Column) {
		for _, n := range names {
			columns = append(columns, format.Column{Access: format.AccessSelect, Name: []byte(n)})
		}
		return columns
	}
	known := format.Relation{Name: []byte("hr.staff"), HasColumns: true, Columns: column("id", `"a.b"`, `"*"`)}
	whole := format.Relation{Name: []byte(`hr."old.staff"`), HasColumns: true, Columns: column("*")}
	part := format.Relation{Name: []byte("hr.wide"), HasColumns: true, Columns: column("c1"), Omitted: format.AccessSelect}
	none := format.Relation{Name: []byte("hr.none"), HasColumns: true}
	old := format.Relation{Name: []byte("hr.unknown"), Access: format.AccessSelect}
	emptied := format.Relation{Name: []byte("hr.emptied"), Access: format.AccessTruncate}
	for _, c := range []struct {
		pattern  string
		relation format.Relation
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
		if got := usesObject(&format.Shape{Relations: []format.Relation{c.relation}}, objectPatterns([]string{c.pattern}), nil); got != c.want {
			t.Errorf("%s: %s: got %v", c.pattern, c.relation.Name, got)
		}
	}
}

// TestNamesWithoutSchemaAreLookedForInThePath: which tables a name may be that a refused statement has without schema.
func TestNamesWithoutSchemaAreLookedForInThePath(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	named := func(access format.Access, name string) *trailtest.Shape {
		return &trailtest.Shape{Class: format.ClassError, Relations: []trailtest.Relation{{Access: access, Name: name}}}
	}
	bare := named(format.AccessSelect|format.AccessWritten, "salary")
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
		{"dropped", named(format.AccessWritten, "salary"), []string{"search_path", "hr"}},
		{"qualified", named(format.AccessSelect|format.AccessWritten, "hr.salary"), []string{"search_path", "public"}},
		{"used", named(format.AccessSelect, "salary"), []string{"search_path", "hr"}},
	} {
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Seq: uint64(i + 1), Time: trailtest.Epoch + int64(i), Shape: one.shape, Text: one.text, Extra: one.extra})
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
		relation := format.Relation{Access: format.AccessWritten | format.AccessSelect, Name: []byte(word("ab", 3))}
		path := []string{word("ab", 3)}
		some := usesObject(&format.Shape{Relations: []format.Relation{relation}}, patterns, path)
		if some {
			found++
		}
		// of a relation whose columns are not known, an index has a name alone, and one with any column
		byName, byColumn := relation, format.Relation{Name: relation.Name, HasColumns: true, Omitted: format.AccessSelect}
		byName.HasColumns = true
		any := usesObject(&format.Shape{Relations: []format.Relation{byName}}, patterns, nil) ||
			usesObject(&format.Shape{Relations: []format.Relation{byColumn}}, patterns, nil)
		if some && !any {
			t.Fatalf("%v: %s in %v", patterns[0].whole, relation.Name, path)
		}
	}
	if found < 100 {
		t.Errorf("only %d of the names were found", found)
	}
}

// kept is which of some records a filter keeps, by their texts.
func kept(t *testing.T, o Criteria) string {
	t.Helper()
	filter := o.Filter()
	session := func(pid uint32, user string) *trailtest.Session {
		return trailtest.NewSession(trailtest.Epoch, pid, trailtest.Fact{Key: format.KeyUser, Value: user})
	}
	alice, bob, nobody := session(1, "alice"), session(2, "bob"), trailtest.NewSession(trailtest.Epoch, 3)
	read := &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Params: []format.ParamType{{OID: 25, Repr: format.ReprText}}}
	ddl := &trailtest.Shape{Class: format.ClassDDL, Command: "DROP TABLE"}
	b := trailtest.NewBuilder(trailtest.Epoch)
	for _, r := range []*trailtest.Record{
		{Kind: format.KindStatement, Session: alice, Text: "a", Shape: read, Values: []byte("\x06Straß"), Duration: 249_999},
		{Kind: format.KindStatement, Session: bob, Text: "b", Shape: ddl, Duration: 250_000, Outcome: format.OutcomeError, SQLState: "42501", Message: "Zugriff verweigert"},
		{Kind: format.KindStatement, Session: alice, Text: "c", Outcome: format.OutcomeError, SQLState: "23505", Message: "doppelter Schlüssel"},
		{Kind: format.KindNote, Session: nobody, Text: "d"},
	} {
		r.Time = trailtest.Epoch
		b.Add(r)
	}
	var chain [32]byte
	block := format.Block{Image: b.Finish(format.CodecNone, 1, 1, &chain)}
	if err := block.Load(); err != nil {
		t.Fatal(err)
	}
	m := Matcher{Filter: filter}
	m.Reset()
	out := ""
	var r format.Record
	for block.Next(&r) == nil {
		if m.Keep(&r) {
			out += string(r.Text)
		}
	}
	return out
}

func TestFiltersKeep(t *testing.T) {
	for _, c := range []struct {
		o    Criteria
		want string
	}{
		{Criteria{}, "abcd"},
		{Criteria{MinDuration: least("250ms")}, "b"},
		{Criteria{MinDuration: least("0.249999s")}, "ab"},
		{Criteria{MinDuration: least("250")}, "b"},
		{Criteria{SQLStates: []SQLState{"42501"}}, "b"},
		{Criteria{SQLStates: []SQLState{"23", "42501"}}, "bc"},
		{Criteria{SQLStates: []SQLState{"00"}}, ""},
		{Criteria{Not: &Criteria{SQLStates: []SQLState{"42"}}}, "acd"},
		{Criteria{Not: &Criteria{Users: []string{"alice"}}}, "bd"},
		{Criteria{Not: &Criteria{Users: []string{""}}}, "abc"},
		{Criteria{Not: &Criteria{Users: []string{"alice"}, Classes: []format.Class{format.ClassDDL}}}, "d"},
		{Criteria{Classes: []format.Class{format.ClassRead, format.ClassDDL}, Not: &Criteria{Users: []string{"bob"}}}, "a"},
		{Criteria{Not: &Criteria{Kinds: []format.Kind{format.KindNote}}}, "abc"},
		{Criteria{Not: &Criteria{Commands: []string{"drop"}, Grep: patterns("c")}}, "ad"},
		{Criteria{Not: &Criteria{Commands: []string{" drop \t table"}, Grep: patterns("c")}}, "ad"},
		{Criteria{Grep: patterns("zugriff")}, ""},
		{ignoringCase(Criteria{Grep: patterns("zugriff")}), "b"},
		{ignoringCase(Criteria{Grep: patterns("SCHLÜSSEL|strAẞ")}), "ac"},
		{ignoringCase(Criteria{Not: &Criteria{Grep: patterns("SCHLÜSSEL")}}), "abd"},
		{Criteria{Grep: patterns("^[a-c]$"), Not: &Criteria{Grep: patterns("verweigert", "Stra")}}, "c"},
	} {
		if got := kept(t, c.o); got != c.want {
			t.Errorf("%+v, not %+v: kept %q, want %q", c.o, c.o.Not, got, c.want)
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
	o := &Criteria{Objects: []string{name}}
	filter := o.Filter()
	for _, found := range []string{name, strings.Repeat("a.", 199) + `"a"."staff"`} {
		shape := &format.Shape{Relations: []format.Relation{{Name: []byte(found)}}}
		m := Matcher{Filter: filter}
		if !m.Keep(&format.Record{Kind: format.KindStatement, Session: &format.Session{}, Shape: shape, SessionIndex: -1, ShapeIndex: -1}) {
			t.Errorf("%s is not found", found)
		}
	}
}

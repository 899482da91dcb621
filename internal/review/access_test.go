package review

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// recorded is a trail that a test writes: a record a second, from Epoch+1s on.
func recorded(t *testing.T, write func(add func(trailtest.Record))) Source {
	t.Helper()
	dir := t.TempDir()
	stream, b := trailtest.NewStream(t, dir, 0), trailtest.NewBuilder(trailtest.Epoch)
	at, seq := int64(trailtest.Epoch), uint64(0)
	write(func(r trailtest.Record) {
		at += 1e6
		if seq++; r.Time == 0 {
			r.Time = at
		}
		r.Seq, r.Statement = seq, seq
		b.Add(&r)
	})
	stream.Write(t, b)
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Source{Index: opened.Index(), Trails: []string{"trail"}, Since: format.MinTime, Until: format.MaxTime, Command: followed, Warn: func(err error) { t.Error(err) }}
}

// in is a session in database shop.
func in(user, role string, pid uint32) *trailtest.Session {
	facts := []trailtest.Fact{{Key: format.KeyUser, Value: user}, {Key: format.KeyDatabase, Value: "shop"}, {Key: format.KeyBackendType, Value: "client backend"},
		{Key: format.KeyClient, Value: "10.0.0." + strconv.Itoa(int(pid)) + ":5000"}}
	if role != "" {
		facts = append(facts, trailtest.Fact{Key: format.KeyRole, Value: role})
	}
	return trailtest.NewSession(trailtest.Epoch+1e6, pid, facts...)
}

func reads(table string, columns ...string) *trailtest.Shape {
	r := trailtest.Relation{Type: format.RelationTypeTable, Name: table, Access: format.AccessSelect}
	for _, c := range columns {
		r.Columns = append(r.Columns, trailtest.Column{Access: format.AccessSelect, Name: c})
	}
	return &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{r}}
}

// officeGrants are those of a database with two tables, a sequence and two functions.
func officeGrants() *Grants {
	g := &Grants{Format: grantsFormat, System: strconv.FormatUint(trailtest.SystemID, 10), Version: 150000, Taken: "today"}
	for _, name := range []string{"boss", "own", "clerks", "idlers", "alice", "bob", "carol", "dave", databaseOwner} {
		g.Roles = append(g.Roles, Role{Name: name, Inherit: true, Login: len(name) < 6 && name != "own", Superuser: name == "boss"})
	}
	g.Memberships = []Membership{{Role: "clerks", Member: "alice", Grantor: "boss"}, {Role: "idlers", Member: "alice", Grantor: "boss"}, {Role: "idlers", Member: "bob", Grantor: "boss", Admin: true}, {Role: "idlers", Member: "carol", Grantor: "bob"}}
	g.Databases = []Database{{
		Name: "shop", Owner: "boss", ACL: []string{"=Tc/boss", "boss=CTc/boss"}, Inside: true, Unreviewed: []Unreviewed{},
		Schemas: []Schema{{Name: "hr", Owner: "own", ACL: []string{"own=UC/own", "=U/own", "clerks=C/own"}}},
		Relations: []Relation{
			{Name: "hr.staff", Kind: "r", Owner: "own", ACL: []string{"own=arwdDxt/own", "clerks=rw/own", "bob=d*/own", "carol=d/bob"}, Columns: []string{"name", "salary"}, ColumnACL: map[string][]string{"salary": {"dave=r/own"}}},
			{Name: "hr.pay", Kind: "r", Owner: "own", ACL: []string{"own=arwdDxt/own", "alice=r/own", "bob=rw/own"}, Columns: []string{"amount"}},
			{Name: "hr.seq", Kind: "S", Owner: "own", ACL: []string{"own=rwU/own", "alice=U/own", "dave=U/own"}},
		},
		Functions: []Function{
			{Name: "hr.raise", Arguments: "integer", Kind: "f", Owner: "own", ACL: []string{"own=X/own", "dave=X/own"}},
			{Name: "hr.quick", Arguments: "", Kind: "f", Owner: "own", SQL: true, ACL: []string{"own=X/own", "alice=X/own"}},
		},
	}, {Name: "postgres", Owner: "boss", ACL: []string{"=Tc/boss", "boss=CTc/boss"}}}
	return g
}

// officeRecords are what happens there.
func officeRecords(add func(trailtest.Record)) {
	alice, bob, boss := in("alice", "", 1), in("bob", "", 2), in("boss", "", 3)
	add(trailtest.Record{Kind: format.KindStatement, Session: bob, Text: "SELECT amount FROM hr.pay", Shape: reads("hr.pay", "amount")}) // before the period
	add(trailtest.Record{Kind: format.KindConnect, Session: alice, Shape: &trailtest.Shape{Class: format.ClassConnect}})
	for range 4 {
		add(trailtest.Record{Kind: format.KindStatement, Session: alice, Text: "SELECT name FROM hr.staff", Shape: reads("hr.staff", "name")})
	}
	add(trailtest.Record{Kind: format.KindStatement, Session: alice, Text: "DELETE FROM hr.staff", Outcome: format.OutcomeError, SQLState: "42501", Shape: &trailtest.Shape{
		Class: format.ClassWrite, Command: "DELETE", Relations: []trailtest.Relation{{Type: format.RelationTypeTable, Name: "hr.staff", Access: format.AccessDelete}}}})
	add(trailtest.Record{Kind: format.KindAuthFailed, Session: in("dave", "", 9), Outcome: format.OutcomeError, SQLState: "28P01", Shape: &trailtest.Shape{Class: format.ClassConnect}})
	add(trailtest.Record{Kind: format.KindStatement, Session: boss, Text: "GRANT SELECT ON hr.pay TO alice", Shape: &trailtest.Shape{Class: format.ClassRole, Command: "GRANT"}})
	add(trailtest.Record{Kind: format.KindStatement, Session: boss, Text: "SELECT * FROM hr.gone", Shape: reads("hr.gone", "x")})
	add(trailtest.Record{Kind: format.KindConnect, Session: in("alice", "", 77), Shape: &trailtest.Shape{Class: format.ClassConnect}})
	add(trailtest.Record{Kind: format.KindStatement, Session: in("alice", "", 77), Text: "SELECT amount FROM hr.pay", Shape: reads("hr.pay", "amount")})
}

// rowsOf are the rows of a table of the answer, with some of its columns.
func rowsOf(t *testing.T, d *Document, key string, columns ...string) (all []string) {
	t.Helper()
	i := slices.IndexFunc(d.Sections, func(s *Section) bool { return s.Key == key })
	if i < 0 {
		t.Fatalf("there is no table %q", key)
	}
	s := d.Sections[i]
	for _, row := range s.Rows {
		var cells []string
		for _, c := range columns {
			if v := row[slices.Index(s.Columns, c)]; v != nil {
				cells = append(cells, fmt.Sprint(v))
			} else {
				cells = append(cells, "-")
			}
		}
		all = append(all, strings.Join(cells, " "))
	}
	return all
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\ninstead of\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestUnusedPrivilegesAreFound(t *testing.T) {
	source, grants := recorded(t, officeRecords), officeGrants()
	source.Since = trailtest.Epoch + 1_500_000
	if others, err := LimitToServer(&source, grants); err != nil || len(others) > 0 {
		t.Fatal(others, err)
	}
	a, err := ReviewAccess(t.Context(), AccessOptions{Source: source, Grants: grants, NewSince: trailtest.Epoch + 10_500_000})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "unused", rowsOf(t, a.Document, "unused", "role", "kind", "object", "column", "privilege", "grantor"),
		"PUBLIC database shop - TEMPORARY boss",
		"bob table hr.pay - SELECT own", "bob table hr.pay - UPDATE own", "bob table hr.staff - DELETE own",
		"carol table hr.staff - DELETE bob",
		"clerks table hr.staff - UPDATE own", "clerks schema hr - CREATE own",
		"dave table hr.staff salary SELECT own", "dave sequence hr.seq - USAGE own", "dave function hr.raise(integer) - EXECUTE own")
	equal(t, "earlier uses", slices.DeleteFunc(rowsOf(t, a.Document, "unused", "role", "object", "privilege", "earlier_use"), func(s string) bool { return strings.HasSuffix(s, " -") }),
		fmt.Sprint("bob hr.pay SELECT ", stamp(trailtest.Epoch+1e6)))
	equal(t, "columns", rowsOf(t, a.Document, "columns", "role", "object", "privilege", "columns_used", "columns_never_used", "statements"), "clerks hr.staff SELECT [name] [salary] 4")
	equal(t, "undecided", rowsOf(t, a.Document, "undecided", "role", "kind", "object", "privilege"), "alice sequence hr.seq USAGE", "alice function hr.quick() EXECUTE")
	equal(t, "memberships", rowsOf(t, a.Document, "memberships", "role", "member", "admin"), "idlers alice false", "idlers bob true", "idlers carol false")
	equal(t, "dormant", rowsOf(t, a.Document, "dormant", "role", "login", "superuser", "refused_logins"), "own false false 0", "idlers false false 0", "bob true false 0", "carol true false 0", "dave true false 1")
	equal(t, "new", rowsOf(t, a.Document, "new", "role", "object"), "alice hr.pay")
	equal(t, "rare", rowsOf(t, a.Document, "rare", "role", "object", "statements"), "boss hr.gone 1")
	equal(t, "new addresses", rowsOf(t, a.Document, "new_addresses", "user", "address"), "alice 10.0.0.77")
	equal(t, "refused", rowsOf(t, a.Document, "refused", "role", "command", "objects", "statements"), "alice DELETE [hr.staff] 1")
	limits := strings.Join(a.Limits, "\n")
	for _, want := range []string{"The period is ", " seconds long", "1 relations that were used are not among the grants, because they were dropped or renamed: shop: hr.gone",
		"1 statements about roles and privileges changed them in the period", "Only databases shop were reviewed"} {
		if !strings.Contains(limits, want) {
			t.Errorf("%q is not among the limits:\n%s", want, limits)
		}
	}

	// The script: what others have granted first, memberships last, what was granted on commented out.
	var script strings.Builder
	if err := a.WriteScript(&script); err != nil {
		t.Fatal(err)
	}
	var statements []string
	for line := range strings.Lines(script.String()) {
		if strings.Contains(line, "REVOKE ") && !strings.Contains(line, "Each REVOKE") || strings.HasPrefix(line, "SET LOCAL") || strings.HasPrefix(line, `\connect`) {
			statements = append(statements, strings.TrimSpace(line))
		}
	}
	equal(t, "script", statements, `\connect "shop"`, "SET LOCAL ROLE bob;", "REVOKE DELETE ON TABLE hr.staff FROM carol;",
		"REVOKE TEMPORARY ON DATABASE shop FROM PUBLIC;", "REVOKE SELECT, UPDATE ON TABLE hr.pay FROM bob;", "-- REVOKE DELETE ON TABLE hr.staff FROM bob;",
		"REVOKE UPDATE ON TABLE hr.staff FROM clerks;", "REVOKE CREATE ON SCHEMA hr FROM clerks;", "REVOKE SELECT (salary) ON TABLE hr.staff FROM dave;",
		"REVOKE USAGE ON SEQUENCE hr.seq FROM dave;", "REVOKE EXECUTE ON FUNCTION hr.raise(integer) FROM dave;",
		"REVOKE idlers FROM alice;", "-- REVOKE idlers FROM bob;", "REVOKE idlers FROM carol;")
	if !strings.Contains(script.String(), "-- never used in the period; last use before it: ") {
		t.Error("the script does not say that something was used before")
	}
	// Where the rights of a role go, so does what it grants: nothing of the script is refused, and nothing fails by it.
	reduced, applied, err := officeGrants().Reduced(strings.NewReader(script.String()), "shop")
	if err != nil {
		t.Fatal(err)
	}
	dry, err := ReviewAccess(t.Context(), AccessOptions{Source: source, Grants: officeGrants(), NewSince: format.MinTime, Reduced: reduced, Applied: applied})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "dry run of the script", rowsOf(t, dry.Document, "dry_run", "verdict", "role", "reason"))

	// Of some roles only.
	if a, err = ReviewAccess(t.Context(), AccessOptions{Source: source, Grants: officeGrants(), Roles: []string{"dave", "PUBLIC", "crol"}, NewSince: format.MinTime}); err != nil {
		t.Fatal(err)
	}
	equal(t, "of roles", rowsOf(t, a.Document, "unused", "role", "object"), "PUBLIC shop", "dave hr.staff", "dave hr.seq", "dave hr.raise(integer)")
	equal(t, "warnings", a.Warnings, `no role of the name "crol" is among the grants or in the trail; nearest: "carol"`)
}

func TestDryRunsTellWhatFails(t *testing.T) {
	source := recorded(t, officeRecords)
	for script, want := range map[string][]string{
		"REVOKE SELECT ON hr.staff FROM clerks;":                                                     {"fails alice permission denied for table hr.staff: SELECT by alice 4"},
		"REVOKE clerks FROM alice;":                                                                  {"fails alice permission denied for table hr.staff: SELECT by alice 4"},
		"REVOKE USAGE ON SCHEMA hr FROM PUBLIC; GRANT USAGE ON SCHEMA hr TO clerks;":                 {"fails bob permission denied for schema hr: USAGE by bob 1"},
		"REVOKE SELECT ON hr.staff FROM clerks; GRANT SELECT (name) ON hr.staff TO alice;":           nil,
		"REVOKE CONNECT ON DATABASE shop FROM PUBLIC; GRANT CONNECT ON DATABASE shop TO alice, bob;": nil,
	} {
		reduced, applied, err := officeGrants().Reduced(strings.NewReader(script), "shop")
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		a, err := ReviewAccess(t.Context(), AccessOptions{Source: source, Grants: officeGrants(), NewSince: format.MinTime, Reduced: reduced, Applied: applied})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, script, rowsOf(t, a.Document, "dry_run", "verdict", "role", "reason", "statements"), want...)
	}
}

// Names change, and a privilege that was used under its old name is not unused.
func TestRenamedObjectsAreFollowed(t *testing.T) {
	rename := func(kind, from, to string) *trailtest.Shape {
		return &trailtest.Shape{Class: format.ClassDDL, Command: "ALTER TABLE", Objects: []trailtest.Object{{Action: format.ActionRename, Type: kind, Name: from, To: to}}}
	}
	source := recorded(t, func(add func(trailtest.Record)) {
		boss := in("boss", "", 3)
		add(trailtest.Record{Kind: format.KindStatement, Session: in("bob", "", 2), Text: "SELECT amount FROM old.salaries", Shape: reads("old.salaries", "sum")})
		add(trailtest.Record{Kind: format.KindStatement, Session: boss, Text: "ALTER TABLE old.salaries RENAME TO pay", Shape: rename("table", "old.salaries", "old.pay")})
		add(trailtest.Record{Kind: format.KindStatement, Session: boss, Text: "ALTER SCHEMA old RENAME TO hr", Shape: rename("schema", "old", "hr")})
		add(trailtest.Record{Kind: format.KindStatement, Session: boss, Text: "ALTER TABLE hr.pay RENAME sum TO amount", Shape: rename("table column", "hr.pay.sum", "hr.pay.amount")})
		add(trailtest.Record{Kind: format.KindStatement, Session: in("karl", "", 4), Text: "SELECT name FROM hr.staff", Shape: reads("hr.staff", "name")})
		add(trailtest.Record{Kind: format.KindStatement, Session: boss, Text: "ALTER ROLE karl RENAME TO dave", Shape: rename("role", "karl", "dave")})
	})
	grants := officeGrants()
	grants.Databases[0].Relations[0].ACL = append(grants.Databases[0].Relations[0].ACL, "dave=r/own")
	a, err := ReviewAccess(t.Context(), AccessOptions{Source: source, Grants: grants, NewSince: format.MinTime})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rowsOf(t, a.Document, "unused", "role", "object", "column", "privilege") {
		if row == "bob hr.pay - SELECT" || row == "dave hr.staff - SELECT" {
			t.Errorf("called unused: %s", row)
		}
	}
	if unused := rowsOf(t, a.Document, "unused", "role", "object", "privilege"); !slices.Contains(unused, "bob hr.pay UPDATE") {
		t.Errorf("not found: %q", unused)
	}
	reduced, applied, err := grants.Reduced(strings.NewReader("REVOKE SELECT ON hr.pay FROM bob; REVOKE SELECT ON hr.staff FROM dave;"), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if a, err = ReviewAccess(t.Context(), AccessOptions{Source: source, Grants: grants, NewSince: format.MinTime, Reduced: reduced, Applied: applied}); err != nil {
		t.Fatal(err)
	}
	equal(t, "dry run", rowsOf(t, a.Document, "dry_run", "verdict", "role", "reason"), "fails bob permission denied for table hr.pay: SELECT by bob", "fails karl permission denied for table hr.staff: SELECT by dave")
}

// The script of an incomplete trail stops until somebody has read why.
func TestScriptsOfIncompleteTrailsStop(t *testing.T) {
	source := recorded(t, func(add func(trailtest.Record)) {
		add(trailtest.Record{Kind: format.KindSetting, Session: in("alice", "", 1), Shape: &trailtest.Shape{Class: format.ClassSetting}, Extra: []string{"name", "steno.log_relation", "old", "on", "new", "off", "source", "session"}})
		officeRecords(add)
	})
	a, err := ReviewAccess(t.Context(), AccessOptions{Source: source, Grants: officeGrants(), NewSince: format.MinTime})
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	if err := a.WriteScript(&script); err != nil {
		t.Fatal(err)
	}
	guard, first := strings.Index(script.String(), "RAISE EXCEPTION 'nothing was revoked"), strings.Index(script.String(), "\nREVOKE ")
	if guard < 0 || guard > first {
		t.Errorf("the guard is at %d, the first REVOKE at %d", guard, first)
	}
}

func TestGrantsAreOfTheTrailsServer(t *testing.T) {
	source := recorded(t, officeRecords)
	g := officeGrants()
	g.System = "1"
	if _, err := LimitToServer(&source, g); err == nil || !strings.Contains(err.Error(), "its system identifier is 1, that of the trail is "+strconv.FormatUint(trailtest.SystemID, 10)) {
		t.Errorf("%v", err)
	}
	g.System = ""
	if _, err := LimitToServer(&source, g); err != nil || source.System != 0 {
		t.Errorf("%v, %d", err, source.System)
	}
	if _, err := LimitToServer(&source, officeGrants()); err != nil || source.System != trailtest.SystemID {
		t.Errorf("%v, %d", err, source.System)
	}
	other := officeGrants()
	other.System = "1"
	if err := officeGrants().Join(other); err == nil {
		t.Error("grants of different servers are joined")
	}
}

// TestTooManyStatements: those of the period are refused, those before it only lack in what is said of earlier uses.
func TestTooManyStatements(t *testing.T) {
	defer func(n int) { mostStatements = n }(mostStatements)
	mostStatements = 3
	source := recorded(t, func(add func(trailtest.Record)) {
		for n := range 12 {
			add(trailtest.Record{Kind: format.KindStatement, Session: in("bob", "", 2), Text: "SELECT", Shape: reads(fmt.Sprintf("hr.t%d", n), "x")})
		}
	})
	const forgets = "Before the period, the trail has more than 3 different statements"
	begin, _, _ := source.bounds()
	for _, c := range []struct {
		before        int
		says, refuses bool
	}{{11, true, false}, {9, true, false}, {8, true, true}, {0, false, true}} {
		o := AccessOptions{Source: source, Grants: officeGrants(), NewSince: format.MinTime}
		o.Since = begin + int64(c.before)*1e6
		a, err := ReviewAccess(t.Context(), o)
		if refused := err != nil && strings.Contains(err.Error(), "the period has more than 3 different statements"); refused != c.refuses || err != nil && !refused {
			t.Errorf("%d of 12 before the period: %v", c.before, err)
		}
		if err == nil && strings.Contains(strings.Join(a.Limits, "\n"), forgets) != c.says {
			t.Errorf("%d of 12 before the period: %q", c.before, a.Limits)
		}
	}
}

package review

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func TestAValueIsFoundInAllItsForms(t *testing.T) {
	for _, c := range []struct {
		value, text, where string
	}{
		{"42", `SELECT * FROM t WHERE id = 42`, "literal"},
		{"42", `SELECT * FROM t WHERE id=42;`, "literal"},
		{"42", `SELECT * FROM t WHERE id IN (1, 42.0)`, "literal"},
		{"42", `SELECT 0x2A`, "literal"},
		{"42", `SELECT 4.2e1`, "literal"},
		{"42", `SELECT '42'::int`, "literal"},
		{"42", `SELECT ' 042 '::int`, "literal"},
		{"-42", `SELECT - 42`, "literal"},
		{"42", `SELECT $42`, ""},
		{"42", `SELECT t42, "42" FROM x -- 42`, ""},
		{"42", `SELECT 1 /* 42 /* 42 */ 42 */`, ""},
		{"42", `SELECT 421, 142, 4.2, '4 2'`, ""},
		{"42", `SELECT '{1,42}'::int[]`, "element of a list"},
		{"42", `SELECT '{{1,2},{42,3}}'::int[]`, "element of a list"},
		{"42", `SELECT '1, 42,3'`, "element of a list"},
		{"42", `SELECT '{"a": {"id": 42}}'::jsonb`, "element of JSON"},
		{"42", `SELECT '{"a": "421"}'::jsonb`, ""},
		{"42", `DO $$BEGIN DELETE FROM t WHERE id = 42; END$$`, "literal"},
		{"0", `SELECT 0.00`, "literal"},
		{"42", "SELECT '4'\n  '2'", "literal"},
		{"42", "SELECT '4' -- one\n -- two\n'2'", "literal"},
		{"42", `SELECT '4' '2'`, ""},
		{"alice", "SELECT 'al'\n'ice'", "literal"},
		{"alice", "SELECT E'al'\n'\\x69ce'", "literal"},
		{"alice", "SELECT U&'al'\n'\\0069ce'", "literal"},
		{"42", `SELECT '{ {1,2}, {3, "42"} }'::int[]`, "element of a list"},
		{"alice", `SELECT '"alice"'::jsonb`, "element of JSON"},
		{"42", `SELECT '{"a": "{\"id\": 42}"}'::jsonb`, "element of JSON"},
		{"42", `SELECT '{"a": "[41, 43]"}'::jsonb`, ""},
		{"o'hara", `SELECT 'o''hara'`, "literal"},
		{"o'hara", `SELECT E'o\'hara'`, "literal"},
		{"alice", `SELECT E'\x61lic\145'`, "literal"},
		{"alice", `SELECT U&'\0061lice'`, "literal"},
		{"alice", `SELECT $x$alice$x$`, "literal"},
		{"alice", `SELECT 'alice   '::char(8)`, "literal"},
		{"alice", `SELECT alice FROM "alice"`, ""},
		{"alice", `SELECT 'alice2', 'Alice'`, ""},
		{"a,b", `SELECT '{"a,b",c}'::text[]`, "element of a list"},
		{"0b7cfa1e-3a51-4f2c-9d3a-6f0a3c1f2e4d", `SELECT '{0B7CFA1E3A514F2C9D3A6F0A3C1F2E4D}'::uuid`, "literal"},
		{"0b7cfa1e3a514f2c9d3a6f0a3c1f2e4d", `SELECT '0b7cfa1e-3a51-4f2c-9d3a-6f0a3c1f2e4d'`, "literal"},
		{"2026-11-24", `SELECT '24.11.2026'::date`, "literal"},
		{"2026-11-24 10:00:00+02", `SELECT '2026-11-24T08:00:00Z'::timestamptz`, "literal"},
		{"2001:db8::1", `SELECT '2001:DB8:0:0::1'::inet`, "literal"},
		{"10.0.0.1", `SELECT '10.0.0.1/32'::inet`, "literal"},
		{"42", `SELECT 'unterminated 42`, "part of a string"},
		{"4711", `SELECT 'https://shop/customers/4711/orders?x=1'`, "part of a string"},
		{"4711", `SELECT '<customer id="4711"/>'::xml`, "part of a string"},
		{"4711", `SELECT '"id"=>"4711"'::hstore`, "part of a string"},
		{"4711", `SELECT 'a;4711;b', E'x\t4711'`, "part of a string"},
		{"alice", `SELECT 'mailto:alice@example.org'`, "part of a string"},
		{"4711", `SELECT 'see 4711', 4711`, "literal"},
		{"42", `SELECT '2026-42-01', '1.42', '42.5', 'a42', '42:10'`, ""},
		{"4711", `SELECT '$4,711.00'::money`, "literal"},
		{"-4711.5", `SELECT '($4,711.50)'::money, 1`, "literal"},
		{"4711", `SELECT '4,711'`, "literal"},
		{"4711", `SELECT '€ 4711'`, "literal"},
		{"4711", `SELECT '47,11'`, ""},
		{"alice", `SELECT '\x616c696365'::bytea`, "literal"},
		{"alice", `SELECT E'\\x616C696365'`, "literal"},
		{"alice", `SELECT '\x3c616c6963653e'::bytea`, "part of a string"},
		{"9999", `SELECT '\x39393939'::bytea`, "literal"},
		{"47", `SELECT '\x3437'::bytea`, "literal"},
		{"x", `SELECT '\`, ""},
	} {
		if got := newValue(c.value).inText([]byte(c.text)); got != c.where {
			t.Errorf("%s in %s: %q instead of %q", c.value, c.text, got, c.where)
		}
	}
}

func TestAValueIsFoundInParameters(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		value string
		repr  format.Repr
		raw   []byte
		where string
	}{
		{"42", format.ReprInt4, le.AppendUint32(nil, 42), "value"},
		{"42.0", format.ReprInt8, le.AppendUint64(nil, 42), "value"},
		{"42", format.ReprInt2, []byte{43, 0}, ""},
		{"42", format.ReprText, []byte("0042"), "value"},
		{"42", format.ReprText, []byte("{41,42}"), "element of a list"},
		{"42", format.ReprText, []byte(`(1,"42",x)`), "element of a list"},
		{"1.5", format.ReprFloat8, le.AppendUint64(nil, 0x3ff8000000000000), "value"},
		{"2000-01-03", format.ReprDate, le.AppendUint32(nil, 2), "value"},
		{"alice", format.ReprNone, nil, ""},
		{"4711", format.ReprText, []byte("$4,711.00"), "value"},
		{"alice", format.ReprText, []byte(`\x616c696365`), "value"},
		{"4711", format.ReprText, []byte("/customers/4711"), "part of a string"},
	} {
		var buf []byte
		if got := newValue(c.value).findInParam(format.ParamType{Repr: c.repr}, c.raw, &buf); got != c.where {
			t.Errorf("%s in %q: %q instead of %q", c.value, c.raw, got, c.where)
		}
	}
}

func FuzzValue(f *testing.F) {
	f.Add("42", "SELECT '{1,2,{42}}', E'\\u0041', $a$b$a$ /* /* */")
	f.Fuzz(func(_ *testing.T, v, text string) {
		newValue(v).inText([]byte(text))
		newValue(v).findIn(text)
	})
}

func TestACLsAreWrittenAsTheServerDoes(t *testing.T) {
	for _, s := range []string{"=r/own", "alice=arwdDxt/own", `"Old ""One"=r*w/"a=b"`, "ä=X/x"} {
		a, err := parseACLItem(s)
		if err != nil {
			t.Error(err)
		}
		if got := a.String(); got != s && s != "ä=X/x" {
			t.Errorf("%s becomes %s", s, got)
		}
	}
	if _, err := parseACLItem("alice"); err == nil {
		t.Error("no ACL, and no error")
	}
}

func TestScriptsChangeGrants(t *testing.T) {
	g := &Grants{Format: grantsFormat, Roles: []Role{{Name: "boss", Superuser: true}, {Name: "own"}, {Name: "x"}, {Name: "Y"}, {Name: "z"}}, Databases: []Database{{
		Name: "db", Inside: true, Schemas: []Schema{{Name: "public", Owner: "own", ACL: []string{"=U/own"}}},
		Relations: []Relation{{Name: "public.t", Kind: "r", Owner: "own", ACL: []string{"own=arwdDxtm/own"}, Columns: []string{"a", `"B"`}}}}}}
	for _, step := range []struct {
		sql  string
		want []string
	}{
		{`GRANT SELECT, INSERT (a) ON t TO x, "Y" WITH GRANT OPTION;`, []string{"own=arwdDxtm/own", "x=r*/own", "Y=r*/own"}},
		{`SET ROLE x; GRANT SELECT ON TABLE public.t TO z; RESET ROLE;`, []string{"own=arwdDxtm/own", "x=r*/own", "Y=r*/own", "z=r/x"}},
		{`SET ROLE boss; REVOKE SELECT ON t FROM z; RESET ROLE;`, []string{"own=arwdDxtm/own", "x=r*/own", "Y=r*/own", "z=r/x"}}, // the owner has not granted it
		{`SET ROLE boss; REVOKE SELECT ON t FROM x CASCADE; RESET ROLE;`, []string{"own=arwdDxtm/own", "Y=r*/own"}},
		{`REVOKE GRANT OPTION FOR SELECT ON t FROM "Y";`, []string{"own=arwdDxtm/own", "Y=r/own"}},
		{`/* REVOKE ALL ON t FROM "Y"; */ -- REVOKE ALL ON t FROM "Y";`, []string{"own=arwdDxtm/own", "Y=r/own"}},
	} {
		if _, err := g.applyScript(step.sql, "db"); err != nil {
			t.Errorf("%s: %v", step.sql, err)
		}
		if got := g.Databases[0].Relations[0].ACL; !reflect.DeepEqual(got, step.want) {
			t.Errorf("after %s: %v instead of %v", step.sql, got, step.want)
		}
	}
	if got := g.Databases[0].Relations[0].ColumnACL["a"]; !reflect.DeepEqual(got, []string{"x=a*/own", "Y=a*/own"}) {
		t.Errorf("column: %v", got)
	}
}

func TestMembershipsFollowTheVersion(t *testing.T) {
	no := false
	g := &Grants{
		Roles: []Role{{Name: "a", Inherit: true}, {Name: "b"}, {Name: "c", Inherit: true}, {Name: "g"}},
		Memberships: []Membership{
			{Role: "g", Member: "a"}, {Role: "g", Member: "b"}, {Role: "g", Member: "c", InheritOption: &no},
		},
		Databases: []Database{{Name: "d", Owner: "a"}},
	}
	p := newPolicy(g)
	for role, want := range map[string]bool{"a": true, "b": false, "c": false} {
		if p.hasPrivilegesOf(role, "g", "d") != want || !canSet(p, role, "g", "d") {
			t.Errorf("%s inherits: %v", role, !want)
		}
	}
	if !p.hasPrivilegesOf("a", databaseOwner, "d") || p.hasPrivilegesOf("b", databaseOwner, "d") {
		t.Error("pg_database_owner")
	}
}

func TestOptionsOfMembershipsAreChanged(t *testing.T) {
	// The first is from the first superuser; "boss" is another one, and "lead" has passed the role on.
	yes := true
	before := []Membership{
		{Role: "g", Member: "lead", Grantor: "postgres", Admin: true, InheritOption: &yes}, {Role: "g", Member: "m", Grantor: "postgres", InheritOption: &yes},
		{Role: "g", Member: "n", Grantor: "lead", InheritOption: &yes},
	}
	for _, test := range []struct {
		script  string
		version int
		want    string // who inherits the role, and who can SET ROLE to it
	}{
		{``, 160000, "lead m n, lead m n"},
		{`REVOKE g FROM m, n;`, 160000, "lead n, lead n"},
		{`REVOKE g FROM m, n;`, 150000, "lead, lead"},
		{`REVOKE g FROM n GRANTED BY lead;`, 160000, "lead m, lead m"},
		{`SET ROLE boss; REVOKE g FROM m, n;`, 160000, "lead n, lead n"},
		{`SET ROLE lead; REVOKE g FROM m, n;`, 160000, "lead m, lead m"},
		{`REVOKE INHERIT OPTION FOR g FROM m;`, 160000, "lead n, lead m n"},
		{`REVOKE SET OPTION FOR g FROM m;`, 160000, "lead m n, lead n"},
		{`REVOKE ADMIN OPTION FOR g FROM m;`, 160000, "lead m n, lead m n"},
		{`REVOKE INHERIT OPTION FOR g FROM n;`, 160000, "lead m n, lead m n"},
		{`GRANT g TO m WITH INHERIT FALSE, SET FALSE;`, 160000, "lead n, lead n"},
		{`GRANT g TO m WITH INHERIT FALSE;`, 160000, "lead n, lead m n"},
		{`GRANT g TO m WITH INHERIT FALSE; GRANT g TO m WITH SET FALSE; GRANT g TO m WITH INHERIT OPTION;`, 160000, "lead m n, lead n"},
		{`GRANT g TO n WITH INHERIT FALSE, SET FALSE;`, 160000, "lead m n, lead m n"}, // beside the one from lead
		{`GRANT g TO n WITH INHERIT FALSE, SET FALSE GRANTED BY lead;`, 160000, "lead m, lead m"},
		{`REVOKE g FROM lead CASCADE;`, 160000, "m, m"},
		{`GRANT g TO o WITH INHERIT FALSE, SET TRUE;`, 160000, "lead m n, lead m n o"},
	} {
		g := &Grants{Format: grantsFormat, Roles: []Role{{Name: "postgres", Superuser: true}, {Name: "boss", Superuser: true}, {Name: "g"}}}
		for _, name := range []string{"lead", "m", "n", "o"} {
			g.Roles = append(g.Roles, Role{Name: name, Inherit: true})
		}
		g.Memberships, g.Version = slices.Clone(before), test.version
		if _, err := g.applyScript(test.script, "d"); err != nil {
			t.Fatal(err)
		}
		p := newPolicy(g)
		var inherit, set []string
		for _, name := range []string{"lead", "m", "n", "o"} {
			if p.hasPrivilegesOf(name, "g", "d") {
				inherit = append(inherit, name)
			}
			if canSet(p, name, "g", "d") {
				set = append(set, name)
			}
		}
		if got := strings.Join(inherit, " ") + ", " + strings.Join(set, " "); got != test.want {
			t.Errorf("%d: %s: %s instead of %s", test.version, test.script, got, test.want)
		}
	}
}

func TestAdministrationUsesMemberships(t *testing.T) {
	no := false
	none := Membership{Member: "chief", InheritOption: &no, SetOption: &no}
	made, mine, through, other, settable := none, none, none, none, none
	made.Role, made.Admin = "made", true
	mine.Role, mine.Member, mine.Admin = "far", "team", true
	through.Role = "team"
	other.Role = "other"
	settable.Role, settable.SetOption = "heir", nil
	for _, test := range []struct {
		class          format.Class
		command, text  string
		admin, setting int64
	}{
		{format.ClassRole, "ALTER ROLE", "ALTER ROLE made PASSWORD 'x'", 1, 0},
		{format.ClassRole, "GRANT ROLE", "GRANT far TO other", 1, 0},
		{format.ClassRole, "GRANT", "GRANT SELECT ON t TO other", 0, 0},
		{format.ClassDDL, "ALTER TABLE", "ALTER TABLE t OWNER TO heir", 0, 1},
		{format.ClassDDL, "CREATE SCHEMA", "CREATE SCHEMA AUTHORIZATION heir", 0, 1},
		{format.ClassDDL, "ALTER TABLE", "ALTER TABLE t ADD a int", 0, 0},
	} {
		p := newPolicy(&Grants{
			Version:     160000,
			Roles:       []Role{{Name: "chief", Login: true}, {Name: "made"}, {Name: "team"}, {Name: "far"}, {Name: "other"}, {Name: "heir"}},
			Memberships: []Membership{made, through, mine, other, settable},
			Databases:   []Database{{Name: "shop", Inside: true}},
		})
		s := &statement{actor: actor{db: "shop", user: "chief", role: "chief"}, shape: *newShape(&format.Shape{Class: test.class, Command: []byte(test.command)}, ""), text: test.text}
		s.accepted.add(RecordID{Seq: 1}, 1)
		a := &access{AccessOptions: &AccessOptions{}, policy: p, found: &trailUses{statements: []*statement{s}}}
		a.evaluate()
		var got []int64
		for _, e := range p.memberships {
			got = append(got, e.used.count)
		}
		if want := []int64{test.admin, test.admin, test.admin, 0, test.setting}; !slices.Equal(got, want) {
			t.Errorf("%s: uses %v instead of %v", test.text, got, want)
		}
	}
}

func FuzzScript(f *testing.F) {
	f.Add("GRANT SELECT (a, \"b\") ON TABLE x.y TO z; REVOKE g FROM m; COPY t FROM stdin;\n1\n\\.\nCREATE FUNCTION f(a int) AS $$;$$;")
	f.Add(`GRANT 00000000000"`)                       // an empty name is the last word
	f.Add(`GRANT T(a,o"b")ON FUNCTION f(a t)S M`)     // a list of objects that is none
	f.Add(`GRANT SELECT (a = b) ON SCHEMA (x) TO y;`) // what cannot be a name
	f.Fuzz(func(_ *testing.T, text string) {
		g := shop(150000)
		_, _ = g.applyScript(text, "shop")
		newPolicy(g)
	})
}

func TestMarkdownAndJSONAreSafe(t *testing.T) {
	d := &Document{Review: "person", Facts: []Fact{{"user", "<script>|\x1b[31m"}}, Sections: []*Section{{Key: "k", Title: "T", Columns: []string{"a"}, Rows: [][]any{{"x|y\n<b>\x1b`"}, {nil}}}}}
	var text, markdown, object strings.Builder
	for format, w := range map[string]*strings.Builder{"text": &text, "markdown": &markdown, "json": &object} {
		if err := d.Write(w, format); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(w.String(), "\x1b") {
			t.Errorf("%s has an escape", format)
		}
	}
	if strings.Contains(markdown.String(), "<b>") || strings.Count(markdown.String(), "\n| x") != 1 {
		t.Errorf("markdown: %s", markdown.String())
	}
	if !json.Valid([]byte(object.String())) {
		t.Errorf("JSON: %s", object.String())
	}
}

func TestNamesOfATextAreFound(t *testing.T) {
	var got []string
	textNames(`CREATE VIEW A."B" AS SELECT 'c.d'::regclass, "E F" . g, ""x`, func(before, name string) { got = append(got, before+"."+name) })
	for _, want := range []string{".a", "a.B", ".c", "c.d", ".E F", ".g", ".x"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %q", want, got)
		}
	}
}

func TestDatabasesAreConnectedTo(t *testing.T) {
	for _, name := range []string{"shop", `a "b"`, `host=evil dbname=x`, `postgresql://evil/x`, `a='b\c'`} {
		g := &Grants{Roles: []Role{{Name: "x"}}, Databases: []Database{{Name: "other"}, {Name: name, ACL: []string{"x=c/own"}, Owner: "own", Inside: true, Schemas: []Schema{{Name: "s", Owner: "own"}}}}}
		if _, err := g.applyScript(connectTo(name)+"\nGRANT USAGE ON SCHEMA s TO x;", "other"); err != nil || len(g.database(name).Schemas[0].ACL) != 1 {
			t.Errorf("%s: %s leads to %+v, %v", name, connectTo(name), g.Databases, err)
		}
		d, err := ReadDump("dump", strings.NewReader(dumpBegin+"\n"+connectTo(name)+"\n"+dumpEnd+"\n"))
		if err != nil || len(d.parts) != 2 || d.parts[1].database != name || !d.parts[1].inside {
			t.Errorf("a dump that connects with %s: %+v, %v", connectTo(name), d, err)
		}
		if strings.Contains(connectTo(name), "= ") || name != "shop" && strings.Contains(name, "evil") && !strings.Contains(connectTo(name), "dbname='") {
			t.Errorf("%s: %s", name, connectTo(name))
		}
	}
}

// pgoutputFile has a table, a row, and a truncation.
const pgoutputFile = "B\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\xe6\n" +
	"R\x00\x00\x00\x00public\x00t\x00d\x00\x01\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff\n" +
	"I\x00\x00\x00\x00N\x00\x01t\x00\x00\x00\x0242\n" + "T\x00\x00\x00\x01\x00\x00\x00\x00\x00\n"

func TestMessagesThatEndEarlyAreRefused(t *testing.T) {
	var found []string
	read := func(s string) error {
		found = nil
		return readChanges(strings.NewReader(s), func(c *rowChange) error {
			found = append(found, c.op+" "+c.table)
			return nil
		})
	}
	if err := read(pgoutputFile); err != nil || !reflect.DeepEqual(found, []string{"insert public.t", "truncate public.t"}) {
		t.Errorf("%v, %v", found, err)
	}
	for n := range len(pgoutputFile) {
		whole := n > 0 && pgoutputFile[n-1] == '\n' || n < len(pgoutputFile) && pgoutputFile[n] == '\n'
		if err := read(pgoutputFile[:n]); err == nil && !whole {
			t.Errorf("%d bytes: no error", n)
		}
	}
	// a truncation of four thousand million tables, of which none is there
	many := strings.Replace(strings.TrimSuffix(pgoutputFile, "\n"), "T\x00\x00\x00\x01", "T\xff\xff\xff\xff", 1)
	if err := read(many); err == nil || len(found) > 10 {
		t.Errorf("%d changes, %v", len(found), err)
	}
}

func FuzzChanges(f *testing.F) {
	f.Add([]byte(pgoutputFile))
	f.Add([]byte(`{"payload":{"op":"u","after":{"id":7},"source":{"schema":"a","table":"t","txId":1,"lsn":2}}} null`))
	f.Fuzz(func(_ *testing.T, in []byte) {
		_ = readChanges(strings.NewReader(string(in)), func(c *rowChange) error {
			rowText(c.new)
			return nil
		})
	})
}

func TestStatementsThatAskForMembershipsUseThem(t *testing.T) {
	yes := true
	for text, wants := range map[string]int64{
		`SELECT PG_has_role('grp', 'member')`:                         1,
		`SELECT pg_cancel_backend(pid) FROM pg_stat_activity`:         1,
		`SELECT pg_catalog.pg_terminate_backend($1)`:                  1,
		`SELECT * FROM pg_auth_members m`:                             1,
		`SELECT 'pg_has', role_name FROM roles`:                       0,
		`SELECT has_table_privilege('t', 'SELECT'), pg_backend_pid()`: 0,
	} {
		p := newPolicy(&Grants{
			Roles:       []Role{{Name: "alice", Login: true, Inherit: true}, {Name: "grp"}},
			Memberships: []Membership{{Role: "grp", Member: "alice", InheritOption: &yes, SetOption: &yes}},
			Databases:   []Database{{Name: "shop", Inside: true}},
		})
		s := &statement{actor: actor{db: "shop", user: "alice", role: "alice"}, shape: *newShape(&format.Shape{Class: format.ClassRead}, addMembersAsked([]byte(text), ""))}
		s.accepted.add(RecordID{Seq: 1}, 1)
		a := &access{AccessOptions: &AccessOptions{}, policy: p, found: &trailUses{statements: []*statement{s}}}
		a.evaluate()
		if got := p.memberships[0].used.count; got != wants {
			t.Errorf("%s: %d uses of the membership instead of %d", text, got, wants)
		}
	}
}

// TestRefusedNamesAreNoUses: a statement that was refused before its names were looked up has used no relation.
func TestRefusedNamesAreNoUses(t *testing.T) {
	s := newShape(&format.Shape{Class: format.ClassError, Relations: []format.Relation{
		{Name: []byte("public.used"), Access: format.AccessSelect},
		{Name: []byte("invoices"), Access: format.AccessSelect | format.AccessWritten},
	}}, "")
	if len(s.relations) != 1 || s.relations[0].name != "public.used" {
		t.Errorf("used: %+v", s.relations)
	}
}

// TestTriedIsNoUse: what a statement leaves out that failed before it was executed makes no right undecided.
func TestTriedIsNoUse(t *testing.T) {
	used, tried := format.Relation{Access: format.AccessSelect}, format.Relation{Access: format.AccessSelect | format.AccessWritten}
	for _, c := range []struct {
		outcome   format.Outcome
		class     format.Class
		relations []format.Relation
		want      bool
	}{
		{format.OutcomeError, format.ClassError, nil, true},
		{format.OutcomeError, format.ClassError, []format.Relation{tried}, true},
		{format.OutcomeError, format.ClassRead, []format.Relation{tried}, true},
		{format.OutcomeError, format.ClassRead, []format.Relation{tried, used}, false},
		{format.OutcomeError, format.ClassRead, nil, false}, // there was no memory for them
		{format.OutcomeOk, format.ClassRead, nil, false},
	} {
		r := format.Record{Outcome: c.outcome, Shape: &format.Shape{Class: c.class, Relations: c.relations}}
		if got := onlyTried(&r); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestPartsNeedTheOwner: the table that DDL on a part of it lists is its owner's, and no privilege on it was used.
func TestPartsNeedTheOwner(t *testing.T) {
	p := newPolicy(&Grants{Roles: []Role{{Name: "alice"}}, Databases: []Database{{Name: "shop", Inside: true,
		Relations: []Relation{{Name: "public.t", Kind: "r", Owner: "alice", ACL: []string{"alice=arwdDxt/alice"}}}}}})
	for command, wants := range map[string]int{"CREATE INDEX": 0, "DROP TRIGGER": 0, "COMMENT": 0, "LOCK TABLE": 6, "REINDEX": 6} {
		s := &statement{actor: actor{db: "shop", user: "alice", role: "alice"}, shape: *newShape(&format.Shape{Class: format.ClassDDL, Command: []byte(command),
			Objects: []format.Object{{Action: format.ActionUse, Type: []byte("table"), Name: []byte("public.t")}}}, "")}
		got := 0
		for _, n := range p.needs(s) {
			if n.kind == onRelation {
				got++
			}
		}
		if got != wants {
			t.Errorf("%s: %d privileges on the table instead of %d", command, got, wants)
		}
	}
}

func TestPersonsTellOfRenames(t *testing.T) {
	dir := t.TempDir()
	stream, b := trailtest.NewStream(t, dir, 0), trailtest.NewBuilder(trailtest.Epoch)
	of := func(user string) *trailtest.Session {
		return trailtest.NewSession(trailtest.Epoch, uint32(len(user)), trailtest.Fact{Key: format.KeyUser, Value: user})
	}
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: of("postgres"), Time: trailtest.Epoch, Text: "ALTER ROLE alice RENAME TO x", Shape: &trailtest.Shape{
		Class: format.ClassRole, Command: "ALTER ROLE", Objects: []trailtest.Object{{Action: format.ActionRename, Type: "role", Name: "alice", To: "x"}}}})
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: of("x"), Time: trailtest.Epoch + 1e6, Text: "SELECT 1", Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"}})
	stream.Write(t, b)
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for user, told := range map[string]bool{"alice": true, "x": true, "bob": false} {
		doc, err := ReviewPerson(t.Context(), PersonOptions{
			Source: Source{Index: opened.Index(), Since: format.MinTime, Until: format.MaxTime, Command: followed, Warn: func(err error) { t.Error(err) }}, Users: []string{user},
		})
		if err != nil {
			t.Fatal(err)
		}
		if is := strings.Contains(strings.Join(doc.Limits, "\n"), `role "alice" was renamed to "x" at `); is != told {
			t.Errorf("%s: %q", user, doc.Limits)
		}
	}
}

func TestPersonsCountAStatementOnce(t *testing.T) {
	dir := t.TempDir()
	stream, b := trailtest.NewStream(t, dir, 0), trailtest.NewBuilder(trailtest.Epoch)
	alice := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
	for i := range 2 {
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: alice, Time: trailtest.Epoch + int64(i), Text: "SELECT 1", Shape: &trailtest.Shape{
			Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{
				{Type: format.RelationTypeTable, Name: "a.t", Access: format.AccessSelect | format.AccessAudited},
				{Type: format.RelationTypeView, Name: "a.v", Access: format.AccessSelect},
				{Type: format.RelationTypeTable, Name: "a.t", Access: format.AccessSelect, Via: 2},
			}}})
	}
	stream.Write(t, b)
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := ReviewPerson(t.Context(), PersonOptions{
		Source: Source{Index: opened.Index(), Since: format.MinTime, Until: format.MaxTime, Command: followed, Warn: func(err error) { t.Error(err) }}, Users: []string{"alice"},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(doc.Sections, func(s *Section) bool { return s.Key == "objects" })
	for _, row := range doc.Sections[at].Rows {
		statements, access := row[slices.Index(doc.Sections[at].Columns, "statements")], row[slices.Index(doc.Sections[at].Columns, "access")]
		if statements != int64(2) || !reflect.DeepEqual(access, []string{"select"}) {
			t.Errorf("%v", row)
		}
	}
}

func TestSubjectsTellOfWhatHasNotEnded(t *testing.T) {
	dir := t.TempDir()
	stream, b := trailtest.NewStream(t, dir, 0), trailtest.NewBuilder(trailtest.Epoch)
	alice := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
	add := func(kind format.Kind, statement uint64) {
		b.Add(&trailtest.Record{Kind: kind, Session: alice, Time: trailtest.Epoch + int64(statement), Statement: statement, Text: "SELECT 4711", Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"}})
	}
	add(format.KindStart, 1)
	add(format.KindStatement, 1)
	add(format.KindStart, 2)
	stream.Write(t, b)
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := ReviewSubject(t.Context(), SubjectOptions{
		Source: Source{Index: opened.Index(), Since: format.MinTime, Until: format.MaxTime, Command: followed, Warn: func(err error) { t.Error(err) }}, Values: []string{"4711"}, Limit: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	for _, row := range doc.Sections[1].Rows {
		outcomes = append(outcomes, row[slices.Index(doc.Sections[1].Columns, "outcome")].(string))
	}
	if !slices.Equal(outcomes, []string{"ok", "no end is recorded"}) {
		t.Errorf("%q", outcomes)
	}
}

// TestGrantsUsePrivilegesOnEverything: with a privilege on the object, a GRANT without its grant option warns; without one,
// it is refused.
func TestGrantsUsePrivilegesOnEverything(t *testing.T) {
	g := &Grants{Version: 150000, Roles: []Role{{Name: "own"}, {Name: "g"}, {Name: "alice", Inherit: true}, {Name: "pg_read_all_data"}},
		Memberships: []Membership{{Role: "pg_read_all_data", Member: "alice"}},
		Databases:   []Database{{Name: "shop", Inside: true, Unreviewed: []Unreviewed{}, Relations: []Relation{{Name: "public.t", Kind: "r", Owner: "own", ACL: []string{"own=arwdDxt/own"}}}}}}
	s := &statement{actor: actor{db: "shop", user: "alice", role: "alice"}, text: "GRANT SELECT ON t TO g", shape: *newShape(&format.Shape{Class: format.ClassRole, Command: []byte("GRANT"),
		Objects: []format.Object{{Action: format.ActionUse, Type: []byte("table"), Name: []byte("public.t")}}}, "")}
	s.accepted.add(RecordID{Seq: 1}, 1)
	a := &access{AccessOptions: &AccessOptions{}, policy: newPolicy(g), found: &trailUses{statements: []*statement{s}}}
	a.evaluate()
	if a.policy.memberships[0].used.count != 1 {
		t.Error("the membership is not used")
	}
	reduced := &Grants{Version: 150000, Roles: g.Roles, Databases: g.Databases}
	if v, why := a.tryReduced(s, newPolicy(reduced)); v != uncertain {
		t.Errorf("%v: %q", v, why)
	}
}

// TestEndsOfTransactionsAreFoundByTheirPlace compares with looking at all of them, and has many ends of one ID.
func TestEndsOfTransactionsAreFoundByTheirPlace(t *testing.T) {
	plain := func(ends []transactionEnd, c *rowChange) *transactionEnd {
		for i := range ends {
			e := &ends[i]
			switch {
			case c.db != "" && e.who.db != "" && c.db != e.who.db:
			case !e.known:
				if len(ends) == 1 {
					return e
				}
			case c.commit != 0 && e.lsn == c.commit, c.commit == 0 && e.lsn >= c.at:
				return e
			}
		}
		return nil
	}
	r, found := rand.New(rand.NewPCG(1, 2)), 0
	for range 20_000 {
		j := &joinedChanges{ends: map[uint32][]transactionEnd{}}
		for range r.IntN(4) {
			e := transactionEnd{xid: 7, who: changedBy{db: []string{"", "a", "b"}[r.IntN(3)]}, known: r.IntN(3) > 0}
			if e.known {
				e.lsn = uint64(r.IntN(5))
			}
			j.ends[7] = append(j.ends[7], e)
		}
		j.sort()
		c := &rowChange{xid: 7, db: []string{"", "a"}[r.IntN(2)], commit: uint64(r.IntN(5)), at: uint64(r.IntN(6))}
		e := j.findTransaction(c)
		if want := plain(j.ends[7], c); e != want {
			t.Fatalf("%+v of %+v: %+v, want %+v", c, j.ends[7], e, want)
		}
		if e != nil {
			found++
		}
	}
	if found == 0 {
		t.Error("none is found")
	}
	many := &joinedChanges{ends: map[uint32][]transactionEnd{}}
	for i := range 200_000 {
		many.ends[7] = append(many.ends[7], transactionEnd{xid: 7, lsn: uint64(i), known: true})
	}
	for i := range 200_000 {
		if e := many.findTransaction(&rowChange{xid: 7, commit: uint64(200_000 - i)}); i > 0 && e == nil {
			t.Fatal(i)
		}
	}
}

// run evaluates a statement that one role ran once, and says what a dry run says of it. The reduced grants may be nil.
func run(g, reduced *Grants, s *statement) (a *access, v verdict, why string) {
	s.accepted.add(RecordID{Seq: 1}, 1)
	s.succeeded = 1
	a = &access{AccessOptions: &AccessOptions{Grants: g}, policy: newPolicy(g), found: &trailUses{statements: []*statement{s}}}
	a.evaluate()
	if reduced != nil {
		v, why = a.tryReduced(s, newPolicy(reduced))
	}
	return a, v, why
}

// TestNewOwnersMustBeAllowedToCreate: ALTER ... OWNER TO needs CREATE on the schema, not of who runs it, but of the new owner.
func TestNewOwnersMustBeAllowedToCreate(t *testing.T) {
	grants := func(withCreate ...string) *Grants {
		acl := []string{"=U/own", "own=UC/own"}
		for _, role := range withCreate {
			acl = append(acl, role+"=UC/own")
		}
		g := &Grants{Version: 150000, Databases: []Database{{Name: "shop", Owner: "boss", ACL: []string{"=c/boss"}, Inside: true, Unreviewed: []Unreviewed{},
			Schemas:   []Schema{{Name: "hr", Owner: "own", ACL: acl}, {Name: "pay", Owner: "own", ACL: acl}},
			Relations: []Relation{{Name: "hr.t", Kind: "r", Owner: "own"}}}}}
		for _, name := range []string{"boss", "own", "heir", "Heir 2", "other", "alice"} {
			g.Roles = append(g.Roles, Role{Name: name, Superuser: name == "boss", Inherit: name != "alice"})
		}
		for _, role := range []string{"own", "heir", "Heir 2", "other"} {
			g.Memberships = append(g.Memberships, Membership{Role: role, Member: "alice", Grantor: "boss"})
		}
		return g
	}
	for _, c := range []struct {
		command, text, role string
		wants               []string
	}{
		{"ALTER TABLE", "ALTER TABLE hr.t OWNER TO heir", "alice", []string{"heir"}},
		{"ALTER TABLE", `/* x */ ALTER TABLE hr.t ADD c int DEFAULT 'owner to other', OWNER TO "Heir 2"`, "alice", []string{"Heir 2"}},
		{"ALTER FUNCTION", "ALTER FUNCTION hr.t(int) OWNER TO CURRENT_USER", "alice", nil}, // as it needs it anyway
		{"ALTER TABLE", "ALTER TABLE hr.t OWNER TO renamed", "alice", []string{"Heir 2", "heir", "other", "own"}},
		{"ALTER TABLE", "", "alice", []string{"Heir 2", "heir", "other", "own"}},
		{"ALTER TABLE", "ALTER TABLE hr.t ADD owner int", "alice", nil},
		{"ALTER TABLE", "ALTER TABLE hr.t OWNER TO heir", "boss", nil},
		{"REASSIGN OWNED", "REASSIGN OWNED BY own TO heir", "alice", []string{"heir"}},
	} {
		s := &statement{actor: actor{db: "shop", user: c.role, role: c.role}, text: c.text, shape: *newShape(&format.Shape{Class: format.ClassDDL, Command: []byte(c.command),
			Objects: []format.Object{{Action: format.ActionAlter, Type: []byte("table"), Name: []byte("hr.t")}}}, "")}
		found := map[string]map[string]bool{"hr": {}, "pay": {}}
		for _, n := range newPolicy(grants()).needs(s) {
			if n.kind == onSchema && n.letter == 'C' && n.role != c.role {
				found[n.object][n.role] = true
			}
		}
		if got := slices.Sorted(maps.Keys(found["hr"])); !slices.Equal(got, c.wants) {
			t.Errorf("%q by %s: CREATE on the schema is needed by %q instead of %q", c.text, c.role, got, c.wants)
		}
		if got := len(found["pay"]) > 0; got != (c.command == "REASSIGN OWNED") {
			t.Errorf("%q by %s: CREATE on the other schema is needed: %v", c.text, c.role, got)
		}
		wants := allowed
		if slices.Contains(c.wants, "heir") {
			wants = uncertain
		}
		if a, v, why := run(grants("heir"), grants(), s); v != wants {
			t.Errorf("%q by %s without CREATE: %v: %s", c.text, c.role, v, why)
		} else if used := slices.ContainsFunc(a.sortedGrants(), func(g *grant) bool { return g.letter == 'C' && g.used.count > 0 }); used != (wants == uncertain) {
			t.Errorf("%q by %s: the privilege is used: %v", c.text, c.role, used)
		}
	}
}

// TestSchemasAreFilledAsTheirOwners: CREATE SCHEMA ... AUTHORIZATION creates what is in the schema with the rights of its owner.
func TestSchemasAreFilledAsTheirOwners(t *testing.T) {
	grants := func(acl ...string) *Grants {
		return &Grants{Version: 150000, Roles: []Role{{Name: "own"}, {Name: "heir"}, {Name: "alice"}, {Name: "boss", Superuser: true}}, Memberships: []Membership{{Role: "heir", Member: "alice"}},
			Databases: []Database{{Name: "shop", Owner: "own", ACL: []string{"=c/own", "alice=C/own"}, Inside: true, Unreviewed: []Unreviewed{},
				Schemas:   []Schema{{Name: "hr", Owner: "own", ACL: []string{"=U/own"}}},
				Relations: []Relation{{Name: "hr.t", Kind: "r", Owner: "own", ACL: acl}}}}}
	}
	for _, c := range []struct {
		role, authorization, has string
		wants                    verdict
	}{
		{"alice", " AUTHORIZATION heir", "heir", uncertain},
		{"boss", " AUTHORIZATION heir", "heir", uncertain},
		{"boss", " AUTHORIZATION gone", "heir", uncertain}, // by its present name
		{"alice", " AUTHORIZATION alice", "alice", denied},
		{"alice", "", "alice", denied},
	} {
		s := &statement{actor: actor{db: "shop", user: c.role, role: c.role}, text: "CREATE SCHEMA n" + c.authorization + " CREATE TABLE x (a int REFERENCES hr.t)",
			shape: *newShape(&format.Shape{Class: format.ClassDDL, Command: []byte(createSchema), Relations: []format.Relation{{Name: []byte("hr.t"), Access: format.AccessReferences}},
				Objects: []format.Object{{Action: format.ActionCreate, Type: []byte("schema"), Name: []byte("n")}, {Action: format.ActionCreate, Type: []byte("table"), Name: []byte("n.x")}}}, "")}
		acl := []string{"own=x/own", c.has + "=x/own"}
		a, v, why := run(grants(acl...), grants(acl[:1]...), s)
		if v != c.wants {
			t.Errorf("%s: %s: %v: %s", c.role, s.text, v, why)
		}
		if used := a.policy.inside["shop"].relations["hr.t"].table[1].used.count > 0; used != (c.wants != allowed) {
			t.Errorf("%s: %s: the privilege is used: %v", c.role, s.text, used)
		}
	}
}

// TestDropOwnedNeedsPrivileges: DROP OWNED revokes, for which it needs any privilege on each object.
func TestDropOwnedNeedsPrivileges(t *testing.T) {
	grants := func(more ...string) *Grants {
		return &Grants{Version: 150000, Roles: []Role{{Name: "own"}, {Name: "gone"}, {Name: "alice", Inherit: true}}, Memberships: []Membership{{Role: "gone", Member: "alice"}},
			Databases: []Database{{Name: "shop", Owner: "own", ACL: []string{"=c/own"}, Inside: true, Unreviewed: []Unreviewed{}, Relations: []Relation{
				{Name: "hr.t", Kind: "r", Owner: "own", ACL: append([]string{"own=r/own"}, more...), ColumnACL: map[string][]string{"a": {"gone=r/own"}}},
				{Name: "hr.other", Kind: "r", Owner: "own", ACL: []string{"alice=w/own"}}}}}}
	}
	s := &statement{actor: actor{db: "shop", user: "alice", role: "alice"}, text: "DROP OWNED BY gone", shape: *newShape(&format.Shape{Class: format.ClassRole, Command: []byte(dropOwned),
		Objects: []format.Object{{Action: format.ActionAlter, Type: []byte("table"), Name: []byte("hr.t")}}}, "")}
	a, v, why := run(grants("alice=r/own"), grants(), s)
	if v != uncertain {
		t.Errorf("%v: %s", v, why)
	}
	relations := a.policy.inside["shop"].relations
	if on, other := relations["hr.t"].table[1].used.count, relations["hr.other"].table[0].used.count; on != 1 || other != 0 {
		t.Errorf("the privileges are used: %d, %d", on, other)
	}
}

// TestOwnersMayLoseWhatIsNotRecorded: with whose rights indexes and functions evaluate expressions, beside who runs the statement.
func TestOwnersMayLoseWhatIsNotRecorded(t *testing.T) {
	grants := func(acl ...string) *Grants {
		return &Grants{Version: 150000, Roles: []Role{{Name: "boss"}, {Name: "own"}, {Name: "alice", Inherit: true}}, Memberships: []Membership{{Role: "own", Member: "alice"}},
			Databases: []Database{{Name: "shop", Owner: "boss", ACL: []string{"=c/boss"}, Inside: true, Unreviewed: []Unreviewed{}, Schemas: []Schema{{Name: "hr", Owner: "boss", ACL: []string{"=UC/boss"}}},
				Relations: []Relation{{Name: "hr.t", Kind: "r", Owner: "own", ACL: []string{"own=r/own"}}, {Name: "hr.q", Kind: "S", Owner: "boss", ACL: acl}},
				Functions: []Function{{Name: "hr.inlined", Kind: "f", Owner: "boss", SQL: true, ACL: append([]string{"alice=X/boss"}, acl...)},
					{Name: "hr.f", Kind: "f", Owner: "own", Definer: true, ACL: []string{"alice=X/own"}}}}}}
	}
	for _, c := range []struct {
		class         format.Class
		command, text string
		object        format.Object
		wants         verdict
	}{
		{format.ClassDDL, "CREATE INDEX", "CREATE INDEX ON hr.t ((hr.inlined(a)))", format.Object{Action: format.ActionUse, Type: []byte("table"), Name: []byte("hr.t")}, uncertain},
		{format.ClassDDL, "DROP TABLE", "DROP TABLE hr.t", format.Object{Action: format.ActionDrop, Type: []byte("table"), Name: []byte("hr.t")}, allowed},
		{format.ClassRead, "SELECT", "SELECT hr.f()", format.Object{Action: format.ActionExecute, Type: []byte("function"), Name: []byte("hr.f")}, uncertain},
	} {
		// alice has it in any case
		with := grants("own=XU/boss", "alice=XU/boss")
		without := grants("alice=XU/boss")
		s := &statement{actor: actor{db: "shop", user: "alice", role: "alice"}, text: c.text, calls: true,
			shape: *newShape(&format.Shape{Class: c.class, Command: []byte(c.command), Objects: []format.Object{c.object}}, "")}
		if _, v, why := run(with, without, s); v != c.wants {
			t.Errorf("%s: %v: %s", c.text, v, why)
		}
	}
}

// TestPrivilegesOnEverythingMayBeUnseen: a function that takes a number from a sequence may need pg_write_all_data.
func TestPrivilegesOnEverythingMayBeUnseen(t *testing.T) {
	grants := func(version int, sequence string, members ...Membership) *Grants {
		g := &Grants{Version: version, Memberships: members, Databases: []Database{{Name: "shop", Owner: "boss", ACL: []string{"=c/boss"}, Inside: true, Unreviewed: []Unreviewed{},
			Schemas:   []Schema{{Name: "hr", Owner: "boss", ACL: []string{"=U/boss"}}},
			Functions: []Function{{Name: "hr.f", Kind: "f", Owner: "boss", ACL: []string{"=X/boss"}}}}}}
		if sequence != "" {
			g.Databases[0].Relations = []Relation{{Name: sequence, Kind: "S", Owner: "boss"}}
		}
		for _, name := range []string{"boss", "alice", "bob", "pg_write_all_data"} {
			g.Roles = append(g.Roles, Role{Name: name, Superuser: name == "boss", Inherit: true})
		}
		return g
	}
	writer := Membership{Role: "pg_write_all_data", Member: "alice", Grantor: "boss"}
	for _, c := range []struct {
		version  int
		sequence string
		user     string
		wants    verdict
		kept     string
	}{
		{150000, "hr.q", "alice", uncertain, "UPDATE on sequence hr.q"},
		{150000, "hr.q", "bob", allowed, ""},
		{150000, "", "alice", allowed, ""},
		{190000, "", "alice", uncertain, "large objects"},
	} {
		s := &statement{actor: actor{db: "shop", user: c.user, role: c.user}, text: "SELECT hr.f()", calls: true,
			shape: *newShape(&format.Shape{Class: format.ClassRead, Command: []byte("SELECT"), Objects: []format.Object{{Action: format.ActionExecute, Type: []byte("function"), Name: []byte("hr.f")}}}, "")}
		a, v, why := run(grants(c.version, c.sequence, writer), grants(c.version, c.sequence), s)
		if v != c.wants {
			t.Errorf("%+v: %v: %s", c, v, why)
		}
		if kept := a.reasonInUse(a.policy.memberships[0]); (kept != "") != (c.kept != "") || !strings.Contains(kept, c.kept) {
			t.Errorf("%+v: the membership: %q", c, kept)
		}
	}
}

// TestDefinersCallWithTheirRights: what a function with the rights of its owner calls is no need of the caller.
func TestDefinersCallWithTheirRights(t *testing.T) {
	acl := []string{"own=X/own"}
	g := &Grants{Version: 150000, Roles: []Role{{Name: "own"}, {Name: "alice"}}, Databases: []Database{{Name: "shop", Owner: "own", ACL: []string{"=c/own"}, Inside: true, Unreviewed: []Unreviewed{},
		Schemas:   []Schema{{Name: "hr", Owner: "own", ACL: []string{"=U/own"}}},
		Functions: []Function{{Name: "hr.f", Kind: "f", Owner: "own", ACL: append(acl, "alice=X/own"), Definer: true}, {Name: "hr.inner", Kind: "f", Owner: "own", ACL: acl}}}}}
	s := &statement{actor: actor{db: "shop", user: "alice", role: "alice"}, text: "SELECT hr.f()", calls: true,
		shape: *newShape(&format.Shape{Class: format.ClassRead, Command: []byte("SELECT"), Objects: []format.Object{
			{Action: format.ActionExecute, Type: []byte("function"), Name: []byte("hr.f")}, {Action: format.ActionExecute, Type: []byte("function"), Name: []byte("hr.inner")}}}, "")}
	if _, v, why := run(g, g, s); v != allowed {
		t.Errorf("with the same grants: %v: %s", v, why)
	}
}

// TestRefreshReadsAsTheOwner: who refreshes a view looks up its name, and its owner reads what it shows, without names.
func TestRefreshReadsAsTheOwner(t *testing.T) {
	p := newPolicy(&Grants{Roles: []Role{{Name: "own"}, {Name: "alice"}}, Databases: []Database{{Name: "shop", Inside: true, Schemas: []Schema{{Name: "hr", Owner: "boss"}},
		Relations: []Relation{{Name: "hr.m", Kind: "m", Owner: "own"}, {Name: "hr.t", Kind: "r", Owner: "boss"}}}}})
	s := &statement{actor: actor{db: "shop", user: "alice", role: "alice"}, text: "REFRESH MATERIALIZED VIEW hr.m", shape: *newShape(&format.Shape{Class: format.ClassDDL, Command: []byte(refreshCommand),
		Objects:   []format.Object{{Action: format.ActionAlter, Type: []byte("materialized view"), Name: []byte("hr.m")}},
		Relations: []format.Relation{{Name: []byte("hr.t"), Access: format.AccessSelect}}}, "")}
	reads, maintains := false, false
	for _, n := range p.needs(s) {
		if n.kind == onSchema && n.letter == 'U' && n.role != "alice" {
			t.Errorf("%s needs USAGE on %s", n.role, n.object)
		}
		reads = reads || n.kind == onRelation && n.object == "hr.t" && n.letter == 'r' && n.role == "own" && !n.unsure
		maintains = maintains || n.kind == onRelation && n.object == "hr.m" && n.letter == 'm' && n.role == "alice"
	}
	if !reads || !maintains {
		t.Errorf("the owner reads: %v; who refreshes has MAINTAIN: %v", reads, maintains)
	}
}

// TestForeignKeysAreCheckedAlsoWithoutReading: the server checks a new foreign key by a query if both tables may be read; if
// not, the statement works all the same.
func TestForeignKeysAreCheckedAlsoWithoutReading(t *testing.T) {
	p := newPolicy(&Grants{Roles: []Role{{Name: "own"}, {Name: "alice"}}, Databases: []Database{{Name: "shop", Inside: true, Schemas: []Schema{{Name: "hr", Owner: "own"}},
		Relations: []Relation{{Name: "hr.t", Kind: "r", Owner: "own"}, {Name: "hr.child", Kind: "r", Owner: "own"}}}}})
	const check = `SELECT fk."b" FROM ONLY "hr"."child" fk LEFT OUTER JOIN ONLY "hr"."t" pk ON ( pk."a" OPERATOR(pg_catalog.=) fk."b") WHERE pk."a" IS NULL AND (fk."b" IS NOT NULL)`
	for _, test := range []struct {
		nested        bool
		command, text string
		want          bool
	}{
		{true, "SELECT", check, true}, {false, "SELECT", check, false}, {true, "SELECT", "SELECT b FROM hr.child", false},
		{false, "ALTER TABLE", "ALTER TABLE hr.child ADD FOREIGN KEY (b) REFERENCES hr.t", true},
	} {
		s := &statement{actor: actor{db: "shop", user: "alice", role: "alice"}, text: test.text, shape: *newShape(&format.Shape{
			Class: format.ClassRead, Command: []byte(test.command), Relations: []format.Relation{{Name: []byte("hr.child"), Access: format.AccessSelect}}}, "")}
		s.nested = test.nested
		all := p.needs(s)
		i := slices.IndexFunc(all, func(n need) bool { return n.kind == onRelation && n.object == "hr.child" && n.letter == 'r' })
		if i < 0 || all[i].unsure != test.want {
			t.Errorf("%v %s: %+v", test.nested, test.text, all)
		}
	}
}

// TestForeignKeysNeedTheReferencedTable: whether or not a record says that the server has looked for a referenced row.
func TestForeignKeysNeedTheReferencedTable(t *testing.T) {
	for _, version := range []int{0, 150000, 190000} {
		p := newPolicy(&Grants{Version: version, Roles: []Role{{Name: "own"}, {Name: "alice"}}, Databases: []Database{{Name: "shop", Inside: true, Schemas: []Schema{{Name: "hr", Owner: "alice"}},
			Relations: []Relation{{Name: "hr.t", Kind: "r", Owner: "own"}, {Name: "hr.child", Kind: "r", Owner: "alice", References: []string{"hr.t"}}}}}})
		for access, writes := range map[format.Access]bool{format.AccessSelect: false, format.AccessDelete: false, format.AccessInsert: true, format.AccessUpdate: true} {
			s := &statement{actor: actor{db: "shop", user: "alice", role: "alice"}, shape: *newShape(&format.Shape{
				Class: format.ClassWrite, Command: []byte("INSERT"), Relations: []format.Relation{{Name: []byte("hr.child"), Access: access}}}, "")}
			reads, enters := false, false
			for _, n := range p.needs(s) {
				reads = reads || n.kind == onRelation && n.object == "hr.t" && n.role == "own" && n.letter == 'r' && n.unsure
				enters = enters || n.kind == onSchema && n.object == "hr" && n.role == "own" && n.letter == 'U' && n.unsure
			}
			if reads != writes || enters != writes {
				t.Errorf("version %d, access %v: reads %v, enters %v", version, access, reads, enters)
			}
		}
	}
}

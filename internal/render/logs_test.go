package render

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// pgauditLines are the lines of records in their order.
func pgauditLines(t *testing.T, settings []string, records ...*trailtest.Record) string {
	t.Helper()
	options, err := ParsePgauditOptions(settings)
	if err != nil {
		t.Fatal(err)
	}
	f, order := New(Pgaudit, Options{Pgaudit: options}), NewOrder(Pgaudit)
	var out strings.Builder
	for _, r := range records {
		out.Write(order.Next([]byte(render(t, f, r))))
	}
	return out.String()
}

func statement(s *trailtest.Session, class format.Class, command, text string, relations ...trailtest.Relation) *trailtest.Record {
	return &trailtest.Record{
		Kind: format.KindStatement, Session: s, Time: trailtest.Epoch, Text: text,
		Shape: &trailtest.Shape{Class: class, Command: command, Relations: relations},
	}
}

func withRows(r *trailtest.Record) *trailtest.Record {
	r.Rows = 3
	return r
}

func table(name string, access format.Access) trailtest.Relation {
	return trailtest.Relation{Type: format.RelationTypeTable, Access: access, Name: name}
}

func TestPgauditLinesOfQueries(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	query := func() *trailtest.Record {
		r := statement(s, format.ClassWrite, "INSERT", "insert into a select b from b, pg_class where c = $1 and d = $2 and e = $3",
			table("public.a", format.AccessInsert), table("public.b", format.AccessSelect|format.AccessAudited), table("pg_catalog.pg_class", format.AccessSelect))
		r.Rows, r.Audited = 3, format.AuditedSession|format.AuditedObject
		r.Shape.Params = []format.ParamType{{OID: 25, Repr: format.ReprText}, {OID: 25, Repr: format.ReprText}, {OID: 25, Repr: format.ReprText}}
		r.Nulls, r.Values = []byte{2}, []byte("\x05x,\"y\"\x01z")
		return r
	}
	const text = `"insert into a select b from b, pg_class where c = $1 and d = $2 and e = $3"`
	for _, c := range []struct {
		settings string
		want     string
	}{
		{"", "SESSION,1,1,WRITE,INSERT,,,#,<not logged>\nOBJECT,1,1,READ,SELECT,TABLE,public.b,#,<not logged>\n"},
		{"log_statement=off", "SESSION,1,1,WRITE,INSERT,,,<not logged>,<not logged>\nOBJECT,1,1,READ,SELECT,TABLE,public.b,<not logged>,<not logged>\n"},
		{"log_statement_once,log_rows=on", "SESSION,1,1,WRITE,INSERT,,,#,<not logged>,3\nOBJECT,1,1,READ,SELECT,TABLE,public.b,<previously logged>,<previously logged>,3\n"},
		{"pgaudit.log_parameter", "SESSION,1,1,WRITE,INSERT,,,#,\"\"\"x,\"\"\"\"y\"\"\"\"\"\",,z\"\nOBJECT,1,1,READ,SELECT,TABLE,public.b,#,\"\"\"x,\"\"\"\"y\"\"\"\"\"\",,z\"\n"},
		{"log_relation", "SESSION,1,1,WRITE,INSERT,TABLE,public.a,#,<not logged>\nOBJECT,1,1,READ,SELECT,TABLE,public.b,#,<not logged>\n" +
			"SESSION,1,1,READ,SELECT,TABLE,public.b,#,<not logged>\nSESSION,1,1,READ,SELECT,TABLE,pg_catalog.pg_class,#,<not logged>\n"},
		{"log_relation,log_catalog=off", "SESSION,1,1,WRITE,INSERT,TABLE,public.a,#,<not logged>\nOBJECT,1,1,READ,SELECT,TABLE,public.b,#,<not logged>\nSESSION,1,1,READ,SELECT,TABLE,public.b,#,<not logged>\n"},
	} {
		var settings []string
		if c.settings != "" {
			settings = strings.Split(c.settings, ",")
		}
		want := "AUDIT: " + strings.ReplaceAll(strings.TrimSuffix(strings.ReplaceAll(c.want, "\n", "\nAUDIT: "), "AUDIT: "), "#", text)
		if got := pgauditLines(t, settings, query()); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.settings, got, want)
		}
	}
	r := query()
	r.Audited = format.AuditedObject
	if got := pgauditLines(t, nil, r); got != "AUDIT: OBJECT,1,1,READ,SELECT,TABLE,public.b,"+text+",<not logged>\n" {
		t.Errorf("by object alone: %s", got)
	}
	r = statement(s, format.ClassRead, "SELECT", "select 1 from pg_class", table("pg_catalog.pg_class", format.AccessSelect))
	if got := pgauditLines(t, []string{"log_catalog=off"}, r); got != "" {
		t.Errorf("catalog alone: %s", got)
	}
}

func TestPgauditCountsStatementsAndSubstatements(t *testing.T) {
	a, b := trailtest.NewSession(trailtest.Epoch, 1), trailtest.NewSession(trailtest.Epoch, 2)
	call := statement(a, format.ClassRead, "SELECT", "select f()")
	call.Shape.Objects = []trailtest.Object{{Action: format.ActionExecute, Type: "function", Name: "public.f"}}
	call.Statement = 2
	nested := statement(a, format.ClassRead, "SELECT", "SELECT 1")
	nested.Statement, nested.Depth, nested.Substatement = 2, 1, 1
	other := statement(b, format.ClassMisc, "VACUUM", "vacuum")
	other.Statement = 9
	failed := statement(a, format.ClassError, "", "selct")
	failed.Outcome, failed.SQLState, failed.Statement = format.OutcomeError, "42601", 3
	begin := statement(a, format.ClassTransaction, "BEGIN", "begin")
	begin.Statement = 4
	end := &trailtest.Record{Kind: format.KindDisconnect, Session: a, Time: trailtest.Epoch}
	again := statement(a, format.ClassMiscSet, "SET", "set a = b")
	again.Statement = 7
	got := pgauditLines(t, []string{"log_parameter"}, call, other, nested, failed, begin, end, again)
	want := `AUDIT: SESSION,1,1,READ,SELECT,,,select f(),<none>
AUDIT: SESSION,1,2,FUNCTION,EXECUTE,FUNCTION,public.f,select f(),<none>
AUDIT: SESSION,1,1,MISC,VACUUM,,,vacuum,<none>
AUDIT: SESSION,1,3,READ,SELECT,,,SELECT 1,<none>
AUDIT: SESSION,2,1,MISC,BEGIN,,,begin,<none>
AUDIT: SESSION,1,1,MISC,SET,,,set a = b,<none>
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPgauditLeavesOutWhatPgauditDoesNotSee(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	for _, c := range []struct {
		class          format.Class
		command, state string
		want           bool
	}{
		{format.ClassRead, "SELECT", "", true},
		{format.ClassRead, "SELECT", "22012", true},
		{format.ClassRead, "SELECT", "42501", false},
		{format.ClassWrite, "INSERT", "23505", true},
		{format.ClassWrite, "INSERT", "25P02", false},
		{format.ClassDDL, "CREATE TABLE", "42P07", false},
		{format.ClassDDL, "CREATE TABLE", "", true},
		{format.ClassDDL, "CREATE EXTENSION", "58P01", true},
		{format.ClassFunction, "DO", "P0001", true},
		{format.ClassError, "", "42601", false},
		{format.ClassSetting, "", "", false},
	} {
		r := statement(s, c.class, c.command, "x")
		if c.state != "" {
			r.Outcome, r.SQLState = format.OutcomeError, c.state
		}
		if got := pgauditLines(t, nil, r); (got != "") != c.want {
			t.Errorf("%v %s %s: %q", c.class, c.command, c.state, got)
		}
	}
	for kind := format.KindStart; kind <= format.KindSubtransaction; kind++ {
		r := full()
		r.Kind, r.Session = kind, s
		if got := pgauditLines(t, nil, r); got != "" {
			t.Errorf("%v: %s", kind, got)
		}
	}
}

func TestPgauditSettingsAreChecked(t *testing.T) {
	for list, want := range map[string]uint32{"all": pgauditAll, "READ ddl": 1<<format.ClassRead | 1<<format.ClassDDL, "all -misc -misc_set": pgauditAll &^ (1<<format.ClassMisc | 1<<format.ClassTransaction | 1<<format.ClassMiscSet), "none": 0} {
		if o, err := ParsePgauditOptions([]string{"log=" + list}); err != nil || o.Log != want {
			t.Errorf("%s: %b, %v", list, o.Log, err)
		}
	}
	if o, err := ParsePgauditOptions([]string{"log=read", "write", "log_rows", "-read"}); err != nil || o.Log != 1<<format.ClassWrite || !o.LogRows {
		t.Errorf("list with commas: %+v, %v", o, err)
	}
	for _, bad := range []string{"read", "log=connect", "log=+read", "log_level", "log_rows=1", "", "log_rows=", "LOG_ROWS"} {
		if _, err := ParsePgauditOptions([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	o, err := ParsePgauditOptions([]string{"log_catalog=off", "pgaudit.log_rows=on"})
	if err != nil || o != (PgauditOptions{Log: pgauditAll, LogRows: true, LogStatement: true}) {
		t.Errorf("got %+v, %v", o, err)
	}
}

// csvlogLines are the lines of records in their order.
func csvlogLines(t *testing.T, records ...*trailtest.Record) string {
	t.Helper()
	f, order := New(CSVLog, Options{}), NewOrder(CSVLog)
	var out strings.Builder
	for i := range records {
		// those before give it its sequence number
		before := render(t, f, records[:i]...)
		out.Write(order.Next([]byte(render(t, f, records[:i+1]...)[len(before):])))
	}
	return out.String()
}

// csvlogRows are the rows of records, without the columns that are the same.
func csvlogRows(t *testing.T, records ...*trailtest.Record) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(csvlogLines(t, records...))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestCSVLogIsWhatTheServerWrites has lines of a PostgreSQL 15 server, but for
// line numbers and the virtual transaction id.
func TestCSVLogIsWhatTheServerWrites(t *testing.T) {
	fact := func(k format.Key, v string) trailtest.Fact { return trailtest.Fact{Key: k, Value: v} }
	start := trailtest.Epoch + 123
	s := trailtest.NewSession(start, 0x7a6a, fact(format.KeyBackendType, "client backend"), fact(format.KeyUser, "postgres"),
		fact(format.KeyDatabase, "postgres"), fact(format.KeyApplication, "psql"), fact(format.KeyClient, "[local]"))
	ok := statement(s, format.ClassWrite, "INSERT", "insert into t values (1, E'x\ny \"q\"')")
	ok.Duration, ok.XID, ok.Shape.QueryID = 7776, 731, 1<<64-9
	failed := statement(s, format.ClassRead, "SELECT", "select nope")
	failed.Outcome, failed.SQLState, failed.Message = format.OutcomeError, "42703", `column "nope" does not exist`
	killed := statement(s, format.ClassRead, "SELECT", "select pg_sleep(9)")
	killed.Outcome, killed.SQLState, killed.Message = format.OutcomeError, "57P01", "terminating connection due to administrator command"
	prepared := statement(s, format.ClassRead, "SELECT", "select abs($1), $2, $3;")
	prepared.Shape.Params = []format.ParamType{{OID: 25, Repr: format.ReprText}, {OID: 25, Repr: format.ReprText}, {OID: 16, Repr: format.ReprBool}}
	prepared.Duration, prepared.Nulls, prepared.Values = 6, []byte{2}, []byte("\x04it's\x01")
	end := &trailtest.Record{Kind: format.KindDisconnect, Session: s, Time: start + 3723004567, Duration: 3723004567}
	got := csvlogLines(t, ok, failed, killed, prepared, end)
	const who, session = `"postgres","postgres",31338,"[local]",6b0202d9.7a6a,`, `2026-11-21 20:45:13 UTC,,`
	want := `2026-11-21 20:45:13.007 UTC,` + who + `1,"INSERT",` + session + `731,LOG,00000,"duration: 7.776 ms  statement: insert into t values (1, E'x
y ""q""')",,,,,,,,,"psql","client backend",,-9
2026-11-21 20:45:13.000 UTC,` + who + `2,"SELECT",` + session + `0,ERROR,42703,"column ""nope"" does not exist",,,,,,"select nope",,,"psql","client backend",,0
2026-11-21 20:45:13.000 UTC,` + who + `3,"SELECT",` + session + `0,FATAL,57P01,"terminating connection due to administrator command",,,,,,"select pg_sleep(9)",,,"psql","client backend",,0
2026-11-21 20:45:13.000 UTC,` + who + `4,"SELECT",` + session + `0,LOG,00000,"duration: 0.006 ms  execute <unnamed>: select abs($1), $2, $3;","parameters: $1 = 'it''s', $2 = NULL, $3 = 't'",,,,,,,,"psql","client backend",,0
2026-11-21 21:47:16.004 UTC,` + who + `5,"idle",` + session + `0,LOG,00000,"disconnection: session time: 1:02:03.004 user=postgres database=postgres host=[local]",,,,,,,,,"psql","client backend",,0
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestCSVLogHasTheErrorThatEndedASession once: with the statement that was running, or by itself.
func TestCSVLogHasTheErrorThatEndedASession(t *testing.T) {
	fatal := func(r *trailtest.Record, state, message string) *trailtest.Record {
		r.Outcome, r.SQLState, r.Message = format.OutcomeError, state, message
		return r
	}
	end := func(s *trailtest.Session) *trailtest.Record {
		return &trailtest.Record{Kind: format.KindDisconnect, Session: s, Time: trailtest.Epoch}
	}
	idle, waiting, killed, remote := trailtest.NewSession(trailtest.Epoch, 1), trailtest.NewSession(trailtest.Epoch, 2),
		trailtest.NewSession(trailtest.Epoch, 3), trailtest.NewSession(trailtest.Epoch, 4)
	const admin, timeout = "terminating connection due to administrator command", "terminating connection due to idle-in-transaction timeout"
	rows := csvlogRows(t,
		statement(idle, format.ClassRead, "SELECT", "select 1"), fatal(end(idle), "57P01", admin),
		fatal(end(waiting), "25P03", timeout),
		fatal(statement(killed, format.ClassRead, "SELECT", "select 3"), "57P01", admin), fatal(end(killed), "57P01", admin),
		fatal(statement(remote, format.ClassRead, "SELECT", "select dblink_connect('')"), "08001", "could not establish connection"), end(remote))
	var got []string
	for _, r := range rows {
		got = append(got, strings.Join([]string{r[3], r[7], r[11], r[12], strings.SplitN(r[13], ":", 2)[0], r[19]}, "|"))
	}
	want := []string{
		"1|SELECT|LOG|00000|duration|", "1|idle|FATAL|57P01|" + admin + "|", "1|idle|LOG|00000|disconnection|",
		"2|idle in transaction|FATAL|25P03|" + timeout + "|", "2|idle|LOG|00000|disconnection|",
		"3|SELECT|FATAL|57P01|" + admin + "|select 3", "3|idle|LOG|00000|disconnection|",
		"4|SELECT|ERROR|08001|could not establish connection|select dblink_connect('')", "4|idle|LOG|00000|disconnection|",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestCSVLogOfConnections(t *testing.T) {
	fact := func(k format.Key, v string) trailtest.Fact { return trailtest.Fact{Key: k, Value: v} }
	s := trailtest.NewSession(trailtest.Epoch, 1, fact(format.KeyUser, "alice"), fact(format.KeyDatabase, "shop"), fact(format.KeyApplication, "a b"),
		fact(format.KeyClient, "[2001:db8::7]:50022"))
	rows := csvlogRows(t, &trailtest.Record{Kind: format.KindConnect, Session: s, Time: trailtest.Epoch},
		&trailtest.Record{Kind: format.KindAuthFailed, Session: s, Time: trailtest.Epoch, Outcome: format.OutcomeError, SQLState: "28P01", Message: "no"})
	var got []string
	for _, r := range rows {
		got = append(got, strings.Join([]string{r[4], r[7], r[11], r[12], r[13]}, "|"))
	}
	want := []string{
		"2001:db8::7:50022||LOG|00000|connection received: host=2001:db8::7 port=50022",
		"2001:db8::7:50022|authentication|LOG|00000|connection authorized: user=alice database=shop application_name=a b",
		"2001:db8::7:50022|authentication|FATAL|28P01|no",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	nested := full()
	start := statement(s, format.ClassRead, "SELECT", "select 1")
	start.Kind = format.KindStart
	if rows := csvlogRows(t, nested, start, &trailtest.Record{Kind: format.KindTransaction, Session: s, Time: trailtest.Epoch}); len(rows) != 0 {
		t.Errorf("a server's log has no %q", rows)
	}
	gap := &trailtest.Record{Kind: format.KindGap, Session: s, Time: trailtest.Epoch, Extra: []string{"count", "3", "reason", "ring full"}}
	if rows := csvlogRows(t, gap); len(rows) != 1 || rows[0][13] != "pg_steno gap: count=3 reason='ring full'" {
		t.Errorf("gap: %q", rows)
	}
}

// TestPgauditLinesOfObjects has what pgaudit 1.7 said of these statements.
func TestPgauditLinesOfObjects(t *testing.T) {
	object := func(action format.Action, typ, name string) trailtest.Object {
		return trailtest.Object{Action: action, Type: typ, Name: name}
	}
	renamed := func(typ, name, to string) trailtest.Object {
		return trailtest.Object{Action: format.ActionRename, Type: typ, Name: name, To: to}
	}
	const use, create, alter, drop = format.ActionUse, format.ActionCreate, format.ActionAlter, format.ActionDrop
	for _, c := range []struct {
		command string
		class   format.Class
		objects []trailtest.Object
		want    string // command, type and name, one line each
	}{
		{"CREATE TABLE", format.ClassDDL, []trailtest.Object{object(create, "table", "public.t"), object(create, "index", "public.t_pkey")},
			"CREATE TABLE,TABLE,public.t\nCREATE INDEX,INDEX,public.t_pkey\n"},
		{"CREATE TABLE", format.ClassDDL, []trailtest.Object{object(create, "sequence", "public.s_a_seq"), object(create, "table", "public.s")},
			"CREATE SEQUENCE,SEQUENCE,public.s_a_seq\nCREATE TABLE,TABLE,public.s\nALTER SEQUENCE,SEQUENCE,public.s_a_seq\n"},
		{"CREATE TABLE", format.ClassDDL, nil, "CREATE TABLE,,\n"},
		{"CREATE TABLE AS", format.ClassDDL, []trailtest.Object{object(create, "table", "public.made")}, "SELECT,,\nCREATE TABLE AS,TABLE,public.made\n"},
		{"CREATE SCHEMA", format.ClassDDL, []trailtest.Object{object(create, "schema", "s"), object(create, "table", "s.a"), object(create, "view", "s.b")},
			"CREATE SCHEMA,SCHEMA,s\nCREATE TABLE,TABLE,s.a\nCREATE VIEW,VIEW,s.b\n"},
		{"CREATE VIEW", format.ClassDDL, []trailtest.Object{object(alter, "view", "public.v")}, "CREATE VIEW,VIEW,public.v\n"},
		{"CREATE DOMAIN", format.ClassDDL, []trailtest.Object{object(create, "domain constraint", "c on public.d"), object(create, "type", "public.d")},
			"CREATE DOMAIN,TYPE,public.d\n"},
		{"CREATE INDEX", format.ClassDDL, []trailtest.Object{object(create, "index", "public.i"), object(create, "index", "public.p1_i")},
			"CREATE INDEX,INDEX,public.i\n"},
		{"CREATE EXTENSION", format.ClassDDL, []trailtest.Object{object(create, "schema", "e"), object(create, "function", "e.f()"), object(create, "extension", "x")},
			"CREATE EXTENSION,,\nCREATE SCHEMA,SCHEMA,e\nCREATE EXTENSION,EXTENSION,x\n"},
		{"CREATE ROLE", format.ClassRole, []trailtest.Object{object(create, "role", "r")}, "CREATE ROLE,,\n"},
		{"ALTER TABLE", format.ClassDDL, []trailtest.Object{object(create, "table constraint", "c on public.t"), object(alter, "table", "public.t")},
			"ALTER TABLE,TABLE,public.t\n"},
		{"ALTER TABLE", format.ClassDDL, []trailtest.Object{object(alter, "table", "public.t"), object(drop, "table column", "public.t.c")},
			"ALTER TABLE,TABLE COLUMN,public.t.c\nALTER TABLE,TABLE,public.t\n"},
		{"ALTER TABLE", format.ClassDDL, []trailtest.Object{renamed("table", "public.t", "s.t"), renamed("index", "public.i", "s.i")}, "ALTER TABLE,TABLE,s.t\n"},
		{"ALTER TABLE", format.ClassDDL, []trailtest.Object{renamed("table column", "public.t.a", "public.t.b")}, "ALTER TABLE,TABLE COLUMN,public.t.b\n"},
		{"ALTER TABLE", format.ClassDDL, []trailtest.Object{object(alter, "trigger", "tr on public.t"), object(alter, "table", "public.t")}, "ALTER TABLE,TABLE,public.t\n"},
		{"COMMENT", format.ClassDDL, []trailtest.Object{object(alter, "table", "public.t")}, "COMMENT,TABLE,public.t\n"},
		{"DROP TABLE", format.ClassDDL, []trailtest.Object{object(drop, "index", "public.i"), object(drop, "type", "public.t"), object(drop, "table", "public.t")},
			"DROP TABLE,TABLE,public.t\nDROP TABLE,INDEX,public.i\n"},
		{"DROP VIEW", format.ClassDDL, []trailtest.Object{object(drop, "rule", "r on public.v"), object(drop, "view", "public.v")}, "DROP VIEW,VIEW,public.v\n"},
		{"DROP SCHEMA", format.ClassDDL, []trailtest.Object{object(drop, "schema", "s")}, "DROP SCHEMA,,\n"},
		{"GRANT", format.ClassRole, []trailtest.Object{object(alter, "view", "public.v"), object(alter, "table", "public.t")}, "GRANT,TABLE,\n"},
		{"GRANT", format.ClassRole, []trailtest.Object{object(alter, "database", "d")}, "GRANT,,\n"},
		{"GRANT ROLE", format.ClassRole, []trailtest.Object{object(use, "role", "a"), object(alter, "role", "b")}, "GRANT ROLE,,\n"},
		{"ALTER DEFAULT PRIVILEGES", format.ClassRole, []trailtest.Object{object(create, "default acl", "for role r in schema s on tables")},
			"ALTER DEFAULT PRIVILEGES,TABLES,\n"},
		{"VACUUM", format.ClassMisc, []trailtest.Object{object(use, "table", "public.t")}, "VACUUM,,\n"},
	} {
		r := statement(trailtest.NewSession(trailtest.Epoch, 1), c.class, c.command, "x")
		r.Shape.Objects = c.objects
		var got strings.Builder
		for line := range strings.Lines(pgauditLines(t, nil, r)) {
			fields := strings.Split(line, ",")
			if fields[1] != "1" || fields[2] != "1" && c.command != "CREATE TABLE AS" {
				t.Errorf("%s: %s", c.command, line)
			}
			got.WriteString(strings.Join(fields[4:7], ",") + "\n")
		}
		if got.String() != c.want {
			t.Errorf("%s %v:\ngot\n%swant\n%s", c.command, c.objects, got.String(), c.want)
		}
	}
}

func TestPgauditLinesOfQueriesInsideOfUtilityStatements(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	for _, c := range []struct {
		settings string
		record   *trailtest.Record
		want     string
	}{
		{"log_catalog=off", statement(s, format.ClassRead, "COPY", "COPY pg_am TO STDOUT", table("pg_catalog.pg_am", format.AccessSelect)), "1 READ,COPY,,\n"},
		{"log_relation", statement(s, format.ClassRead, "COPY", "COPY t TO STDOUT", table("public.t", format.AccessSelect)), "1 READ,SELECT,TABLE,public.t\n"},
		{"log_relation", statement(s, format.ClassRead, "COPY", " copy\t(SELECT) TO STDOUT", table("public.t", format.AccessSelect)),
			"1 READ,SELECT,TABLE,public.t\n2 READ,COPY,,\n"},
		{"log_relation", statement(s, format.ClassWrite, "TRUNCATE TABLE", "TRUNCATE t", table("public.t", format.AccessTruncate|format.AccessAudited)), "1 WRITE,TRUNCATE TABLE,,\n"},
		{"log_rows", withRows(statement(s, format.ClassRead, "COPY", "COPY (SELECT) TO STDOUT")), "1 READ,SELECT,, 3\n2 READ,COPY,, 0\n"},
		{"log_rows", withRows(statement(s, format.ClassRead, "COPY", "COPY t TO STDOUT")), "1 READ,COPY,, 0\n"},
		{"log_rows", withRows(statement(s, format.ClassRead, "SELECT", "SELECT")), "1 READ,SELECT,, 3\n"},
		{"log=write", statement(s, format.ClassWrite, "SELECT", "WITH ...", table("public.t", format.AccessSelect)), ""},
		{"log=all", statement(s, format.ClassWrite, "SELECT", "WITH ...", table("public.t", format.AccessSelect)), "1 READ,SELECT,,\n"},
		{"log=misc", statement(s, format.ClassFunction, "CALL", "CALL f()"), "1 MISC,CALL,,\n"},
		{"log=function", statement(s, format.ClassFunction, "CALL", "CALL f()"), ""},
		{"log=all -misc_set", statement(s, format.ClassMiscSet, "SET", "SET a = b"), ""},
		{"log=misc", statement(s, format.ClassTransaction, "BEGIN", "BEGIN"), "1 MISC,BEGIN,,\n"},
		{"log=ddl", statement(s, format.ClassDDL, "CREATE TABLE AS", "x", table("public.t", format.AccessSelect)), "1 DDL,CREATE TABLE AS,,\n"},
		{"log=all", statement(s, format.ClassDDL, "CREATE TABLE AS", "x", table("public.t", format.AccessSelect)), "1 READ,SELECT,,\n2 DDL,CREATE TABLE AS,,\n"},
		{"log=all", statement(s, format.ClassMisc, "EXPLAIN", "x", table("public.t", format.AccessSelect)), "1 READ,SELECT,,\n2 MISC,EXPLAIN,,\n"},
	} {
		var got strings.Builder
		for line := range strings.Lines(pgauditLines(t, []string{c.settings}, c.record)) {
			fields := strings.Split(line, ",")
			got.WriteString(fields[2] + " " + strings.Join(fields[3:7], ","))
			if len(fields) == 10 {
				got.WriteString(" " + strings.TrimSpace(fields[9]))
			}
			got.WriteString("\n")
		}
		if got.String() != c.want {
			t.Errorf("%s %s: got %q, want %q", c.settings, c.record.Text, got.String(), c.want)
		}
	}
}

func TestPgauditLeavesOutScriptsOfExtensions(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	extension, inside, after, other := statement(s, format.ClassDDL, "CREATE EXTENSION", "create extension x"), statement(s, format.ClassDDL, "CREATE FUNCTION", "create function f"),
		statement(s, format.ClassDDL, "CREATE FUNCTION", "create function g"), statement(s, format.ClassFunction, "DO", "do")
	extension.Statement, inside.Statement, inside.Depth, inside.Substatement = 1, 1, 1, 1
	other.Statement, after.Statement, after.Depth, after.Substatement = 2, 2, 1, 1
	got := pgauditLines(t, nil, extension, inside, other, after)
	want := `AUDIT: SESSION,1,1,DDL,CREATE EXTENSION,,,create extension x,<not logged>
AUDIT: SESSION,2,1,FUNCTION,DO,,,do,<not logged>
AUDIT: SESSION,2,2,DDL,CREATE FUNCTION,,,create function g,<not logged>
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

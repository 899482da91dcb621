package review

import (
	"strings"
	"testing"
)

// inDump is the output of pg_dump with these lines.
func inDump(lines ...string) string {
	return "--\n" + dumpBegin + "\n--\n" + strings.Join(lines, "\n") + "\n--\n" + dumpEnd + "\n--\n"
}

func TestDumpsAreMadeReady(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"rows are left out": {
			"COPY public.t (a, \"b;\") FROM stdin;\n1\t'\n\\N\t$$\n\\\\.\tx\n\\.\nSELECT 1;", "SELECT 1;"},
		"not what only looks like rows": {
			"COMMENT ON TABLE t IS '\nCOPY public.t (a) FROM stdin;\n\\.\n';", "COMMENT ON TABLE t IS '\nCOPY public.t (a) FROM stdin;\n\\.\n';"},
		"materialized views are not filled":     {"REFRESH MATERIALIZED VIEW public.m;\nSELECT 1;", "SELECT 1;"},
		"commands of dumps are left out":        {"\\restrict aB1\nSELECT 1;\n\\unrestrict aB1\n\\encoding SQL_ASCII", "SELECT 1;"},
		"the locale of a database":              {"CREATE DATABASE \"A \"\"b\" WITH TEMPLATE = template0 ENCODING = 'LATIN1' LOCALE_PROVIDER = icu LOCALE = 'x''y' ICU_LOCALE = 'de' TABLESPACE = \"Fast one\";", "CREATE DATABASE \"A \"\"b\" WITH TEMPLATE = template0 ENCODING = 'LATIN1' LC_COLLATE = 'C' LC_CTYPE = 'C';"},
		"the limit of a database's connections": {"CREATE DATABASE shop WITH TEMPLATE = template0 CONNECTION LIMIT = 3;", "CREATE DATABASE shop WITH TEMPLATE = template0 LC_COLLATE = 'C' LC_CTYPE = 'C';"},
		"where a tablespace is":                 {"CREATE TABLESPACE fast OWNER \"X\" LOCATION '/it''s';", "CREATE TABLESPACE fast OWNER \"X\" LOCATION '';"},
		"in a body, nothing is changed": {
			"CREATE FUNCTION f() AS $_x1$\nCREATE TABLESPACE fast OWNER x LOCATION '/y';\n\\! id\n$_$ $$ -- ' \n$_x1$;", "CREATE FUNCTION f() AS $_x1$\nCREATE TABLESPACE fast OWNER x LOCATION '/y';\n\\! id\n$_$ $$ -- ' \n$_x1$;"},
		"escapes":                    {"SELECT E'it\\'s \\\\', e'''\\'', 'C:\\', \"\\\", 'it''s', someE'\\';", "SELECT E'it\\'s \\\\', e'''\\'', 'C:\\', \"\\\", 'it''s', someE'\\';"},
		"comments":                   {"/* \\! /* ' */ \" */ SELECT 1; -- \\! ' $$\nSELECT 2;", "/* \\! /* ' */ \" */ SELECT 1; -- \\! ' $$\nSELECT 2;"},
		"dollars that quote nothing": {"SELECT a$b$c, $1, 1 FROM t$;\nSELECT 1;", "SELECT a$b$c, $1, 1 FROM t$;\nSELECT 1;"},
		"carriage returns":           {"SELECT 1;\r", "SELECT 1;"},
	} {
		d, err := ReadDump("x", strings.NewReader(inDump(c.in)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := d.parts[0].text.String(); len(d.parts) != 1 || got != inDump(c.want) {
			t.Errorf("%s:\n%s\ninstead of\n%s", name, got, inDump(c.want))
		}
	}
}

func TestWhatIsNoDumpIsRefused(t *testing.T) {
	for in, want := range map[string]string{
		"": "neither", "SELECT 1;": "neither", "\x1f\x8b\x08\\e": "neither", "<html>\\o": "neither",
		inDump("SELECT 1"): "",
		strings.TrimSuffix(inDump("SELECT 1;"), "--\n"+dumpEnd+"\n--\n"): "not complete",
		inDump("SELECT 'x;"):                                            "not complete",
		inDump("CREATE FUNCTION f() AS $$;"):                            "not complete",
		inDump("COPY t (a) FROM stdin;", "1"):                           "not complete",
		inDump("/* "):                                                   "not complete",
		dumpBegin + "\n" + inDump("SELECT 1;"):                          "not complete", // two are one after the other, and the first is cut off
		clusterBegin + "\n" + inDump("SELECT 1;"):                       "not complete",
		inDump("\\! id"):                                                `line 4: it has a command of psql that is not one of a dump: "\\! id"`,
		inDump("SELECT 1 \\gexec"):                                      "line 4: it has a command",
		inDump("\\restrict"):                                            "line 4: it has a command",
		inDump("\\restrict a;\\! id"):                                   "line 4: it has a command",
		inDump("\\connect shop\\! id"):                                  "line 4: it has a command",
		inDump("\\connect shop other"):                                  "line 4: it has a command",
		inDump("\\connect \"host=evil\""):                               "connects to something else",
		inDump("\\connect \"postgresql://evil/x\""):                     "connects to something else",
		inDump("\\connect -reuse-previous=on \"dbname='a' host=evil\""): "connects to something else",
		inDump("SELECT E'\\'; \\! id"):                                  "not complete",
		inDump("-- Dumped from database version 15.1", "-- Dumped from database version 16.2"): "PostgreSQL 15 and 16",
		inDump("SELECT 1;") + inDump("SELECT 2;"):                                              "does not say of which database it is",
		inDump("SELECT 1;") + "\\connect a\n" + inDump("SELECT 2;"):                            "",
		inDump("SELECT 1;") + inDump("CREATE DATABASE a;", "\\connect a"):                      "",
		inDump("\\connect a") + "\\connect b\n" + inDump() + inDump("\\connect c"):             "",
	} {
		switch _, err := ReadDump("x", strings.NewReader(in)); {
		case want == "" && err != nil:
			t.Errorf("%q: %v", in, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, and not %q", in, err, want)
		}
	}
}

// The cluster was made with the superuser that grants memberships; if there are several, and none does, with postgres.
func TestTheFirstSuperuserIsFound(t *testing.T) {
	role := func(name string) string {
		return "CREATE ROLE " + name + ";\nALTER ROLE " + name + " WITH SUPERUSER INHERIT;\n"
	}
	for in, want := range map[string]string{
		role("admin"): "admin", role("admin") + role("postgres"): "postgres", role("zoe") + role("admin"): "admin",
		role("admin") + role("postgres") + role(`"The ""first"""`) + "GRANT a TO b GRANTED BY \"The \"\"first\"\"\";\n":        `The "first"`,
		role("admin") + role("postgres") + "GRANT a TO b WITH INHERIT TRUE GRANTED BY admin;\nGRANT a TO c GRANTED BY lead;\n": "admin",
		"ALTER ROLE admin WITH NOSUPERUSER INHERIT;\n":                                                                         "",
	} {
		d, err := ReadDump("x", strings.NewReader(clusterBegin+"\n"+in+clusterEnd+"\n"))
		if err != nil || d.firstSuperuser != want || !d.roles {
			t.Errorf("%s: %q, %v", in, d.firstSuperuser, err)
		}
	}
}

func TestFailuresAreReadFromPsql(t *testing.T) {
	all, own := failuresOf(`psql:<stdin>:3: NOTICE:  00000: nothing
LOCATION:  x
psql:<stdin>:3: ERROR:  42703: column "nope" does not exist
LINE 1: select nope;
               ^
LOCATION:  errorMissingColumn, parse_relation.c:3665
psql:<stdin>:3: STATEMENT:  select
nope;
psql:<stdin>:5: WARNING:  01000: careful
ERROR:  42P01: this is what a message says
psql:<stdin>:6: error: backslash commands are restricted; only \unrestrict is allowed
psql:<stdin>:9: ERROR:  42704: type "x" does not exist
psql:<stdin>:9: STATEMENT:  create table x (a x);
`)
	if len(all) != 2 || all[0] != (failure{"42703", `column "nope" does not exist`, "select\nnope;"}) || all[1] != (failure{"42704", `type "x" does not exist`, "create table x (a x);"}) {
		t.Errorf("%q", all)
	}
	if !strings.HasPrefix(own, "backslash commands are restricted") {
		t.Errorf("%q", own)
	}
	if got := (failure{message: "m", statement: "CREATE  TABLE\n\tx (" + strings.Repeat("a", 100) + ");"}).String(); got != "CREATE TABLE x ("+strings.Repeat("a", 64)+" ...: m" {
		t.Errorf("%q", got)
	}
}

func TestFailuresWithoutAStatement(t *testing.T) {
	if got := (failure{sqlstate: "57P03", message: "the database system is shutting down"}).String(); got != "the database system is shutting down" {
		t.Errorf("%q", got)
	}
}

// Only what no privilege depends on may fail.
func TestHarmlessFailures(t *testing.T) {
	for statement, c := range map[string]struct {
		sqlstate string
		harmless bool
	}{
		"SET default_tablespace = x;":                  {"22023", true},
		"COMMENT ON TABLE x IS 'y';":                   {"42P01", true},
		"DROP TABLE public.x;":                         {"42P01", true},
		"DROP TABLE public.y;":                         {"2BP01", false},
		"ALTER TABLE ONLY public.x DROP CONSTRAINT y;": {"42P01", true},
		"ALTER TABLE ONLY public.x ADD CONSTRAINT y FOREIGN KEY (a) REFERENCES z;": {"42P01", false},
		"ALTER TABLE public.x OWNER TO y;":                                         {"42P01", false},
		"CREATE TABLE public.x (a z);":                                             {"42704", false},
		"CREATE UNIQUE INDEX x ON y (z);":                                          {"42704", true},
		"CREATE ROLE chief;":                                                       {"42710", true},
		"CREATE ROLE other;":                                                       {"42710", false},
		"DROP ROLE chief;":                                                         {"2BP01", true},
		"CREATE SCHEMA public;":                                                    {"42P06", true},
		"CREATE SCHEMA x;":                                                         {"42P06", false},
		"ALTER ROLE x SET y TO z;":                                                 {"22023", true},
		`ALTER ROLE "x y" IN DATABASE "z" SET y TO z;`:                             {"22023", true},
		"ALTER ROLE x WITH SUPERUSER;":                                             {"42704", false},
		"ALTER DATABASE x OWNER TO y;":                                             {"42704", false},
		"GRANT x TO y;":                                                            {"42704", false},
		"GRANT SELECT ON TABLE steno.x TO y;":                                      {"42P01", false}, // pg_steno was restored
		"GRANT CREATE ON TABLESPACE x TO y;":                                       {"42704", true},
		"CREATE OR REPLACE PROCEDURAL LANGUAGE x;":                                 {"0A000", true},
		"GRANT ALL ON LANGUAGE x TO y;":                                            {"42704", true},
		"CREATE SERVER x FOREIGN DATA WRAPPER y;":                                  {"42704", true},
		"CREATE FOREIGN TABLE x (a int) SERVER y;":                                 {"42704", false},
		"CREATE FUNCTION x() RETURNS int LANGUAGE y;":                              {"42704", false},
		"CREATE POLICY x ON y;":                                                    {"42P01", false},
	} {
		r := &restoration{firstSuperuser: "chief"}
		if got := r.harmless(failure{sqlstate: c.sqlstate, statement: statement}); got != c.harmless {
			t.Errorf("%s (%s): %v", statement, c.sqlstate, got)
		}
	}
	r := &restoration{firstSuperuser: "chief", extensions: []string{"pg_steno"}}
	for statement, want := range map[string]bool{
		"GRANT SELECT ON TABLE steno.x TO y;": true, "GRANT USAGE ON SCHEMA steno TO y;": true, "REVOKE ALL ON FUNCTION steno.note(text) FROM PUBLIC;": true,
		"GRANT SELECT ON TABLE stenox.x TO y;": false, "GRANT USAGE ON SCHEMA stenos TO y;": false, "GRANT SELECT ON TABLE public.x TO steno;": false,
	} {
		if got := r.harmless(failure{sqlstate: "42P01", statement: statement}); got != want {
			t.Errorf("without pg_steno, %s: %v", statement, got)
		}
	}
}

func FuzzDump(f *testing.F) {
	f.Add(inDump("COPY t (a) FROM stdin;", "1", `\.`, "CREATE FUNCTION f() AS $$;$$;", `\connect -reuse-previous=on "dbname='a b'"`, "SELECT E'\\'';"))
	f.Add(clusterBegin + "\nALTER ROLE \"a\"\"b\" WITH SUPERUSER INHERIT;\nGRANT x TO y GRANTED BY z;\n" + clusterEnd + "\n/* /* */ */")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ReadDump("x", strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range d.parts { // no line of what is executed can be one that psql takes for a command of its own
			var s sqlState
			for line := range strings.Lines(d.parts[i].text.String()) {
				if at := s.scan([]byte(line)); at >= 0 {
					t.Errorf("part %d has a command: %q", i, line)
				}
			}
		}
	})
}

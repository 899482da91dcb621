package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/postgres"
)

// origin is a server of which dumps are made.
type origin struct {
	*postgres.Installation
	*postgres.Server
	t *testing.T
}

func newOrigin(t *testing.T, settings ...postgres.Setting) *origin {
	t.Helper()
	installed := postgres.Installed()
	if len(installed) == 0 {
		t.Skip("no PostgreSQL here")
	}
	o := &origin{Installation: installed[0], t: t}
	if err := o.ChooseAccount("postgres", "nobody"); err != nil {
		t.Skip(err)
	}
	folder, err := o.NewFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if o.Server != nil {
			_ = o.Abandon()
		}
		if err := folder.Close(); err != nil {
			t.Error(err)
		}
	})
	data := filepath.Join(folder.Dir, "data")
	if err := o.Initialize(t.Context(), data, "chief"); err != nil { // not postgres, as on the servers of some providers
		t.Fatal(err)
	}
	o.Server = o.NewServer(folder, "origin", data, 5432)
	for _, step := range []func() error{
		func() error {
			return o.Configure(append(settings, postgres.Setting{Name: "fsync", Value: "off"}, postgres.Setting{Name: "allow_in_place_tablespaces", Value: "on"}))
		},
		o.Launch, func() error { return o.WaitReady(t.Context()) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// run runs a client program, and returns what it prints.
func (o *origin) run(database, input, program string, args ...string) string {
	o.t.Helper()
	c := o.Command(o.t.Context(), o.Program(program), append(args, "-d", o.Conninfo("chief", database))...)
	c.Stdin = strings.NewReader(input)
	out, err := postgres.Output(o.t.Context(), c, program)
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

func (o *origin) psql(database, sql string) string {
	o.t.Helper()
	return o.run(database, sql, "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", "-")
}

// grants reads the grants of databases from the server itself.
func (o *origin) grants(databases ...string) (all *Grants) {
	o.t.Helper()
	for _, db := range databases {
		g, err := ParseGrants([]byte(o.psql(db, GrantsQuery)))
		if err != nil {
			o.t.Fatal(err)
		}
		if all == nil {
			all = g
		} else if err := all.Join(g); err != nil {
			o.t.Fatal(err)
		}
	}
	return all
}

// readText reads texts of dumps.
func readText(t *testing.T, texts ...string) (dumps []*Dump) {
	t.Helper()
	for i, text := range texts {
		d, err := ReadDump("dump"+strconv.Itoa(i+1), strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		dumps = append(dumps, d)
	}
	return dumps
}

// comparable is what of grants is in a dump, in an order of its own.
func comparable(t *testing.T, g *Grants) string {
	t.Helper()
	g, err := g.clone()
	if err != nil {
		t.Fatal(err)
	}
	g.System, g.Taken, g.Restored = "", "", nil
	g.Databases = slices.DeleteFunc(g.Databases, func(d Database) bool { return !d.Inside })
	slices.SortFunc(g.Databases, func(a, b Database) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(g.Memberships, func(a, b Membership) int {
		return strings.Compare(fmt.Sprint(a.Role, "\n", a.Member, "\n", a.Grantor), fmt.Sprint(b.Role, "\n", b.Member, "\n", b.Grantor))
	})
	for i := range g.Databases {
		d := &g.Databases[i]
		d.Unreviewed = nil
		d.eachACL(func(_, _ string, acl *[]string) { slices.Sort(*acl) })
		slices.SortFunc(d.Schemas, func(a, b Schema) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(d.Relations, func(a, b Relation) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(d.Functions, func(a, b Function) int { return strings.Compare(a.Name+"("+a.Arguments, b.Name+"("+b.Arguments) })
		for i := range d.Relations {
			slices.Sort(d.Relations[i].References)
		}
	}
	text, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// difference is the first lines in which texts differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			from := max(0, i-30)
			return "server:\n" + strings.Join(a[from:min(len(a), i+10)], "\n") + "\ndump:\n" + strings.Join(b[from:min(len(b), i+10)], "\n")
		}
	}
	return fmt.Sprintf("%d and %d lines", len(a), len(b))
}

// whole checks that a restoration has said nothing of what it lacks.
func whole(t *testing.T, g *Grants, ownUnknown ...string) {
	t.Helper()
	for _, d := range g.Databases {
		if len(d.Incomplete) > 0 {
			t.Errorf("database %s: %s", d.Name, strings.Join(d.Incomplete, "\n"))
		}
		if d.OwnUnknown != slices.Contains(ownUnknown, d.Name) {
			t.Errorf("database %s: its own privileges are unknown: %v", d.Name, d.OwnUnknown)
		}
	}
}

// graph is a random graph of roles, objects and grants as SQL: what is made in a database.
func graph(r *rand.Rand, n int) string {
	var b strings.Builder
	s := fmt.Sprintf("s%d", n)
	users := []string{s + "_u0", s + "_u1", fmt.Sprintf(`"%s User's ""x"""`, s), s + "_select"}
	groups := []string{s + "_g0", s + "_g1", s + "_g2", fmt.Sprintf(`"%s-Group"`, s)}
	own := s + "_own"
	all := append(append([]string{}, users...), groups...)
	one := func(of []string) string { return of[r.IntN(len(of))] }
	chance := func(p float64, yes string) string {
		if r.Float64() < p {
			return yes
		}
		return ""
	}
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+";\n", args...) }
	for _, u := range users {
		say("CREATE ROLE %s LOGIN%s", u, chance(0.2, " NOINHERIT"))
	}
	for _, g := range append(groups, own) {
		say("CREATE ROLE %s%s", g, chance(0.2, " NOINHERIT"))
	}
	// A superuser who is no group: what a member of one grants with its rights, a dump makes a grant of the owner.
	say("CREATE ROLE %[1]s_super SUPERUSER; GRANT %[2]s TO %[1]s_super", s, one(groups))
	for i, g := range groups {
		for _, m := range append(users, groups[:i]...) {
			if r.Float64() < 0.35 {
				say("GRANT %s TO %s%s", g, m, chance(0.3, " WITH ADMIN OPTION"))
			}
		}
		say("%s", chance(0.3, "GRANT pg_monitor, pg_read_all_data TO "+g))
	}
	say("CREATE SCHEMA %s AUTHORIZATION %s", s, own)
	say(`CREATE SCHEMA "%[1]s-Odd"; GRANT USAGE, CREATE ON SCHEMA "%[1]s-Odd" TO %[2]s`, s, own)
	say("SET ROLE %s", own)
	say("CREATE TABLE %[1]s.t0 (a serial PRIMARY KEY, b int, \"Odd c\" text); CREATE TABLE %[1]s.t1 (a int REFERENCES %[1]s.t0, b int DEFAULT 7); CREATE TABLE %[1]s.\"T able\" (\"select\" int GENERATED ALWAYS AS IDENTITY)", s)
	say("CREATE TABLE %[1]s.parts (k int, v text) PARTITION BY LIST (k); CREATE TABLE %[1]s.part1 PARTITION OF %[1]s.parts FOR VALUES IN (1); INSERT INTO %[1]s.t0 (b) VALUES (1), (2)", s)
	say("CREATE SEQUENCE %[1]s.q; CREATE VIEW %[1]s.v AS SELECT a FROM %[1]s.t0; CREATE VIEW %[1]s.vi WITH (security_invoker) AS SELECT a, b FROM %[1]s.t1; CREATE MATERIALIZED VIEW %[1]s.mv AS SELECT count(*) AS n FROM %[1]s.t0", s)
	say("CREATE FUNCTION %[1]s.f(a int, OUT b text) LANGUAGE plpgsql SECURITY DEFINER AS $x$BEGIN b := 'a; \\connect nowhere\n\\! false\n-- PostgreSQL database dump\n'; END$x$", s)
	say("CREATE FUNCTION %[1]s.f(text[], VARIADIC numeric[]) RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION %[1]s.atomic(x int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT x; SELECT a FROM %[1]s.t0; END", s)
	say("CREATE PROCEDURE %[1]s.p(INOUT a int) LANGUAGE plpgsql AS 'BEGIN END'; CREATE AGGREGATE %[1]s.total(int) (sfunc = int4pl, stype = int)", s)
	say("CREATE TYPE %[1]s.ty AS ENUM ('1'); CREATE DOMAIN \"%[1]s-Odd\".d AS int", s)
	say("CREATE RULE also AS ON INSERT TO %[1]s.t1 DO ALSO SELECT 1; ALTER TABLE %[1]s.t1 ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON %[1]s.t1 TO %[2]s USING (true); CREATE POLICY q ON %[1]s.t1 USING (a > 0)", s, one(all))
	say("RESET ROLE")
	if r.IntN(2) == 0 {
		say("REVOKE ALL ON FUNCTION %[1]s.f(int), %[1]s.atomic(int), %[1]s.total(int) FROM PUBLIC; REVOKE ALL ON PROCEDURE %[1]s.p FROM PUBLIC", s)
	}
	say("ALTER DEFAULT PRIVILEGES FOR ROLE %[1]s IN SCHEMA %[2]s GRANT SELECT ON TABLES TO %[3]s; SET ROLE %[1]s; CREATE TABLE %[2]s.later (x int); RESET ROLE", own, s, one(all))
	say("ALTER VIEW %s.v OWNER TO %s", s, one(groups))
	say("ALTER FUNCTION %s.f(int) OWNER TO %s", s, one(users))
	on := []string{"SELECT ON S.t0", "SELECT (a, \"Odd c\"), UPDATE (b) ON S.t0", "ALL ON S.t1", "INSERT, DELETE, TRUNCATE ON S.t1", "UPDATE ON S.\"T able\"", "REFERENCES (\"select\") ON S.\"T able\"",
		"SELECT ON S.v", "SELECT ON S.vi", "SELECT ON S.mv", "INSERT ON S.parts", "TRIGGER ON S.part1", "USAGE ON SEQUENCE S.q", "UPDATE ON SEQUENCE S.t0_a_seq", "EXECUTE ON FUNCTION S.f(int)", "EXECUTE ON FUNCTION S.f(text[], numeric[])",
		"EXECUTE ON FUNCTION S.atomic(int)", "EXECUTE ON PROCEDURE S.p(int)", "EXECUTE ON FUNCTION S.total(int)", "USAGE ON SCHEMA S", "CREATE ON SCHEMA S", "USAGE, CREATE ON SCHEMA \"S-Odd\"", "USAGE ON TYPE S.ty",
		"CREATE ON SCHEMA public", "TEMPORARY ON DATABASE D", "CREATE ON DATABASE D", "SELECT ON pg_catalog.pg_authid", "EXECUTE ON FUNCTION pg_catalog.pg_read_file(text)", "SET ON PARAMETER log_duration"}
	for range 60 {
		what := strings.NewReplacer("S.", s+".", "SCHEMA S", "SCHEMA "+s, "\"S-", "\""+s+"-").Replace(one(on))
		if r.IntN(6) == 0 {
			say("REVOKE %s FROM %s CASCADE", what, one(append(all, "PUBLIC", own)))
		} else if to := one(append(all, "PUBLIC")); to == "PUBLIC" {
			say("GRANT %s TO PUBLIC", what)
		} else {
			say("GRANT %s TO %s%s", what, to, chance(0.4, " WITH GRANT OPTION"))
		}
		if r.IntN(3) == 0 { // what somebody has granted on, if he can
			say("SET ROLE %s", one(all))
			say("DO $d$BEGIN EXECUTE $g$GRANT %s TO %s$g$; EXCEPTION WHEN OTHERS THEN END$d$", what, one(all))
			say("RESET ROLE")
		}
	}
	if r.IntN(4) == 0 {
		say("REVOKE ALL ON %s.t0 FROM %s CASCADE", s, own)
	}
	// Who has granted something and cannot use its schema any more does not do it again: no dump of that can be restored.
	say("GRANT USAGE ON SCHEMA %[1]s, \"%[1]s-Odd\" TO PUBLIC", s)
	return strings.NewReplacer("\n;\n", "\n", "DATABASE D", "DATABASE current").Replace(b.String())
}

// The grants that are read from a dump are those of the server. STENO_SEED and STENO_GRAPHS try others.
func TestGrantsOfADumpAreThoseOfTheServer(t *testing.T) {
	o := newOrigin(t)
	seed, graphs := uint64(1), 8
	if n, err := strconv.Atoi(os.Getenv("STENO_SEED")); err == nil {
		seed = uint64(n)
	}
	if n, err := strconv.Atoi(os.Getenv("STENO_GRAPHS")); err == nil {
		graphs = n
	}
	r := rand.New(rand.NewPCG(seed, 0))
	databases := []string{"shop", "a 'b' = \"c\""}
	o.psql("postgres", "CREATE TABLESPACE fast LOCATION '';")
	for i, db := range databases {
		quoted := QuoteName(db)
		var sql strings.Builder
		for n := range graphs {
			sql.WriteString(strings.ReplaceAll(graph(r, i*graphs+n), "DATABASE current", "DATABASE "+quoted))
		}
		o.psql("postgres", fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 ENCODING 'LATIN1' TABLESPACE fast; ALTER DATABASE %s SET default_transaction_read_only = on;", quoted, quoted))
		o.psql(db, "SET default_transaction_read_only = off;\n"+sql.String())
	}
	o.psql("postgres", "REVOKE CONNECT ON DATABASE shop FROM PUBLIC; ALTER DATABASE shop OWNER TO s0_own; GRANT CONNECT ON DATABASE shop TO s0_g1; ALTER ROLE s0_g1 SET search_path = nowhere;")
	server := o.grants(databases...)
	want := comparable(t, server)
	if n := strings.Count(want, `"admin": true`); n == 0 || strings.Count(want, "*") < graphs {
		t.Fatalf("the graphs have too little: %d memberships with ADMIN OPTION, %d grant options", n, strings.Count(want, "*"))
	}

	t.Run("pg_dumpall", func(t *testing.T) {
		for _, args := range [][]string{{"--schema-only"}, {"--clean"}} {
			g, err := Restore(t.Context(), readText(t, o.run("postgres", "", "pg_dumpall", args...)), "")
			if err != nil {
				t.Fatalf("%v: %v", args, err)
			}
			clean := slices.Contains(args, "--clean")
			if clean { // it makes the database postgres anew, and so says whose it is
				whole(t, g)
			} else {
				whole(t, g, "postgres")
			}
			only := slices.DeleteFunc(slices.Clone(g.Databases), func(d Database) bool { return d.Name == "postgres" })
			g.Databases = only
			if got := comparable(t, g); got != want {
				t.Errorf("%v: %s", args, difference(want, got))
			}
			if g.System != "" || len(g.Restored.Dumps) != 1 {
				t.Errorf("%q, %+v", g.System, g.Restored)
			}
		}
	})
	t.Run("pg_dump", func(t *testing.T) {
		roles := o.run("postgres", "", "pg_dumpall", "--roles-only")
		// Roles may come last: they are restored first.
		texts := []string{o.run(databases[0], "", "pg_dump", "--create", "--schema-only"), o.run(databases[1], "", "pg_dump", "--create", "--inserts"), roles}
		g, err := Restore(t.Context(), readText(t, texts...), "")
		if err != nil {
			t.Fatal(err)
		}
		whole(t, g)
		if got := comparable(t, g); got != want {
			t.Error(difference(want, got))
		}
		// In one file, and without the database itself.
		g, err = Restore(t.Context(), readText(t, roles+o.run("shop", "", "pg_dump")), "shop")
		if err != nil {
			t.Fatal(err)
		}
		whole(t, g, "shop")
		one, _ := server.clone()
		one.Databases = slices.DeleteFunc(one.Databases, func(d Database) bool { return d.Name != "shop" })
		d, s := g.database("shop"), one.database("shop")
		s.Owner, s.ACL, s.OwnUnknown = d.Owner, d.ACL, true
		if want, got := comparable(t, one), comparable(t, g); got != want {
			t.Error(difference(want, got))
		}
	})
	t.Run("archives", func(t *testing.T) {
		dumps := readText(t, o.run("postgres", "", "pg_dumpall", "--globals-only"))
		for i, db := range databases {
			path := filepath.Join(t.TempDir(), "dump")
			if err := os.WriteFile(path, []byte(o.run(db, "", "pg_dump", "--format", []string{"custom", "tar"}[i])), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			_, d, err := ReadGrants(t.Context(), path, file)
			if err != nil {
				t.Fatal(err)
			}
			dumps = append(dumps, d)
		}
		g, err := Restore(t.Context(), dumps, "")
		if err != nil {
			t.Fatal(err)
		}
		whole(t, g)
		if got := comparable(t, g); got != want {
			t.Error(difference(want, got))
		}
	})
}

// Of a server with much that keeps others from restoring its dump, the grants are read nevertheless.
func TestDumpsOfOddServersAreRestored(t *testing.T) {
	o := newOrigin(t)
	if n := o.psql("postgres", "SELECT count(*) FROM pg_available_extensions WHERE name IN ('pg_trgm', 'postgres_fdw')"); strings.TrimSpace(n) != "2" {
		t.Skip("this server is installed without pg_trgm and postgres_fdw")
	}
	o.psql("postgres", `CREATE ROLE "Bob's ""role""" LOGIN PASSWORD 'secret' VALID UNTIL '2027-01-01'; CREATE ROLE keeper NOLOGIN; CREATE ROLE other SUPERUSER;
GRANT keeper TO "Bob's ""role""" WITH ADMIN OPTION; SET ROLE "Bob's ""role"""; GRANT keeper TO other; RESET ROLE;
CREATE TABLESPACE "Fast one" OWNER keeper LOCATION ''; GRANT CREATE ON TABLESPACE "Fast one" TO keeper;
CREATE DATABASE odd OWNER keeper TABLESPACE "Fast one" CONNECTION LIMIT 0;`)
	o.psql("odd", `CREATE EXTENSION pg_trgm; CREATE EXTENSION postgres_fdw;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '/nowhere'); CREATE USER MAPPING FOR keeper SERVER far; CREATE FOREIGN TABLE far_away (a int) SERVER far;
CREATE SUBSCRIPTION sub CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false); CREATE PUBLICATION pub FOR ALL TABLES;
CREATE TABLE words (w text DEFAULT E'it''s \\! \n\\! touch broken', "a ""b"";" text); CREATE INDEX ON words USING gin (w gin_trgm_ops);
CREATE FUNCTION fire() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no DDL here''; END';
COMMENT ON TABLE words IS E'\\connect nowhere\n-- PostgreSQL database dump complete\nCOPY words FROM stdin;\n/* '; COMMENT ON COLUMN words.w IS '$x$ '' " --';
INSERT INTO words VALUES (E'\\.\n\\! touch broken\t$$', 'x'); SELECT lo_create(4711); GRANT SELECT ON LARGE OBJECT 4711 TO keeper;
CREATE MATERIALIZED VIEW mv AS SELECT 1 / count(*) AS n FROM words;
GRANT SELECT ON words TO keeper; GRANT SELECT ON far_away TO PUBLIC; GRANT USAGE ON FOREIGN SERVER far TO keeper; GRANT EXECUTE ON FUNCTION similarity(text, text) TO keeper;
TRUNCATE words; REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE EVENT TRIGGER refuse ON ddl_command_start EXECUTE FUNCTION fire();`)
	o.psql("postgres", `ALTER DATABASE odd SET session_preload_libraries = 'nowhere'; ALTER DATABASE odd SET default_transaction_read_only = on; ALTER DATABASE odd SET role = keeper;
ALTER DATABASE odd SET search_path = 'nowhere'; ALTER DATABASE odd SET statement_timeout = 1; ALTER ROLE other IN DATABASE odd SET search_path = nowhere;`)
	c := o.Command(t.Context(), o.Program("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", "-", "-d", o.Conninfo("chief", "odd"))
	c.Env = append(c.Env, "PGOPTIONS="+connectionOptions)
	c.Stdin = strings.NewReader(GrantsQuery)
	text, err := postgres.Output(t.Context(), c, "psql")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ParseGrants([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c = o.Command(t.Context(), o.Program("pg_dumpall"), "-d", o.Conninfo("chief", "postgres"))
	c.Env = append(c.Env, "PGOPTIONS="+connectionOptions)
	if text, err = postgres.Output(t.Context(), c, "pg_dumpall"); err != nil {
		t.Fatal(err)
	}
	g, err := Restore(t.Context(), readText(t, text), "")
	if err != nil {
		t.Fatal(err)
	}
	whole(t, g, "postgres")
	g.Databases = slices.DeleteFunc(g.Databases, func(d Database) bool { return d.Name != "odd" })
	want, got := comparable(t, server), comparable(t, g)
	if want != got {
		t.Error(difference(want, got))
	}
	if d := g.database("odd"); d == nil || d.Unreviewed != nil {
		t.Errorf("a dump does not say who has privileges on large objects, but: %+v", d.Unreviewed)
	}
	for _, dir := range []string{"/broken", "broken"} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("a program was run: %s is there", dir)
		}
	}
}

// What is lost in a dump is not proposed for a REVOKE, and the answer says what it is.
func TestWhatCannotBeRestoredIsTold(t *testing.T) {
	o := newOrigin(t)
	o.psql("postgres", "CREATE ROLE alice; CREATE ROLE grantor; CREATE ROLE keeper; CREATE DATABASE shop; CREATE DATABASE hr; GRANT keeper TO alice;")
	o.psql("shop", `CREATE SCHEMA s; CREATE TABLE s.t (a int); GRANT USAGE ON SCHEMA s TO grantor; GRANT SELECT ON s.t TO grantor WITH GRANT OPTION;
SET ROLE grantor; GRANT SELECT ON s.t TO alice; RESET ROLE; REVOKE USAGE ON SCHEMA s FROM grantor; CREATE TABLE s.u (a int); GRANT SELECT ON s.u TO alice;`)
	o.psql("hr", `CREATE TABLE public.pay (a int); GRANT SELECT ON public.pay TO alice`)
	g, err := Restore(t.Context(), readText(t, o.run("postgres", "", "pg_dumpall")), "")
	if err != nil {
		t.Fatal(err)
	}
	// pg_dump writes what nobody may do any more: a grant by somebody who cannot use the schema.
	if d := g.database("shop"); len(d.Incomplete) != 1 || d.Incomplete[0] != "GRANT SELECT ON TABLE s.t TO alice: permission denied for schema s" {
		t.Fatalf("%+v", d.Incomplete)
	}
	told := strings.Join(g.restoreLimits(), "\n")
	if want := "Of the dump of database shop, 1 statement could not be restored here, so nothing of it is proposed: GRANT SELECT ON TABLE s.t TO alice: permission denied for schema s"; !strings.Contains(told, want) {
		t.Error(told)
	}
	s := &statement{actor: actor{db: "hr", user: "chief", role: "chief"}, text: "SELECT 1", shape: *newShape(&format.Shape{Class: format.ClassRead, Command: []byte("SELECT")}, "")}
	a, _, _ := run(g, nil, s)
	a.Command = followed
	out := &Access{policy: a.policy}
	var unused, undecided []string
	for _, row := range a.unusedGrants(out).Rows {
		unused = append(unused, fmt.Sprint(row[1], " ", row[3]))
	}
	for _, row := range a.undecided().Rows {
		undecided = append(undecided, fmt.Sprint(row[1], " ", row[3], " ", row[5]))
	}
	if !slices.Contains(unused, "hr public.pay") || slices.ContainsFunc(unused, func(s string) bool { return strings.HasPrefix(s, "shop ") }) {
		t.Errorf("proposed: %q", unused)
	}
	if !slices.Contains(undecided, "shop s.u the dump of the database could not be restored as a whole") {
		t.Errorf("undecided: %q", undecided)
	}
	idle, kept := a.idleMembers(out)
	if len(idle.Rows) > 0 || len(kept.Rows) != 1 {
		t.Errorf("memberships: %v, %v", idle.Rows, kept.Rows)
	}
	// A dry run does not say that something fails because of a privilege that may be there.
	need := &need{role: "alice", db: "shop", kind: onRelation, object: "s.t", letter: 'r'}
	if v := newPolicy(g).check(need, nil); v != uncertain {
		t.Errorf("a privilege that could not be restored: %v", v)
	}
	need.db, need.object, need.letter = "hr", "public.pay", 'w'
	if v := newPolicy(g).check(need, nil); v != denied {
		t.Errorf("a privilege that there is not: %v", v)
	}
}

// The test starts itself as a process that restores a dump and is killed, or interrupted.
func TestNothingStaysOfARestoration(t *testing.T) {
	const folder = "STENO_TEST_FOLDER"
	if os.Getenv(folder) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		roles := clusterBegin + "\nCREATE ROLE chief;\nALTER ROLE chief WITH SUPERUSER ;\n" + clusterEnd + "\n"
		shop := fmt.Sprintf("%s\n-- Dumped from database version %d.1\nCREATE DATABASE shop WITH TEMPLATE = template0;\n\\connect shop\nSELECT pg_sleep(60);\n%s\n",
			dumpBegin, postgres.Installed()[0].Major(), dumpEnd)
		_, err := Restore(ctx, readText(t, roles, shop), "")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		return
	}
	if installed := postgres.Installed(); len(installed) == 0 || installed[0].ChooseAccount("nobody") != nil {
		t.Skip("no PostgreSQL here")
	}
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGKILL} {
		for _, after := range []time.Duration{20, 600, 2500} {
			dir, err := os.MkdirTemp("", "restore-")
			if err == nil {
				err = os.Chmod(dir, 0o755) // so that the account of the server can reach it
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
			child.Env = append(os.Environ(), folder+"="+dir, "TMPDIR="+dir)
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			made := func() bool { entries, _ := os.ReadDir(dir); return len(entries) > 0 }
			if !eventually(made) {
				t.Fatal("the child makes no folder")
			}
			time.Sleep(after * time.Millisecond)
			_ = child.Process.Signal(sig)
			if err := child.Wait(); err != nil && sig == os.Interrupt {
				t.Errorf("after %d ms: %v", after, err)
			}
			if !eventually(func() bool { return !made() && len(processesOf(dir)) == 0 }) {
				entries, _ := os.ReadDir(dir)
				t.Errorf("%v after %d ms: %v and processes %q stay", sig, after, entries, processesOf(dir))
			}
		}
	}
}

// processesOf are the command lines of processes that name a folder.
func processesOf(dir string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if line, err := os.ReadFile(path); err == nil && bytes.Contains(line, []byte(dir+"/")) {
			found = append(found, string(line))
		}
	}
	return found
}

func eventually(so func() bool) bool {
	for range 2000 {
		if so() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

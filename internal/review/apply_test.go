package review

import (
	"strings"
	"testing"
)

// shop are grants of a server of PostgreSQL 15, or of another version.
func shop(version int) *Grants {
	own := func(kind, name, letters string, more ...string) Relation {
		return Relation{Name: name, Kind: kind, Owner: "own", ACL: append([]string{"own=" + letters + "/own"}, more...), Columns: []string{"a", "b"}}
	}
	g := &Grants{Format: grantsFormat, Version: version, Memberships: []Membership{{Role: "own", Member: "deputy", Grantor: "boss"}, {Role: "readers", Member: "alice", Grantor: "boss"}}}
	for _, name := range []string{"boss", "own", "deputy", "readers", "alice", "bob", "carol", "lonely"} {
		g.Roles = append(g.Roles, Role{Name: name, Inherit: true, Login: true, Superuser: name == "boss"})
	}
	g.Roles = append(g.Roles, Role{Name: databaseOwner, Inherit: true})
	g.Databases = []Database{
		{Name: "shop", Owner: "boss", ACL: []string{"=Tc/boss", "boss=CTc/boss"}, Inside: true, Unreviewed: []Unreviewed{},
			Schemas: []Schema{{Name: "public", Owner: "own"}, {Name: "hr", Owner: "own", ACL: []string{"own=UC/own", "alice=U/own"}}},
			Relations: []Relation{
				own("r", "hr.staff", "arwdDxt", "alice=r*/own", "bob=r/alice", "readers=a/own"), own("r", "hr.pay", "arwdDxt", "alice=r/own"),
				own("S", "hr.seq", "rwU", "alice=rwU/own"), own("r", "public.t", "arwdDxt", "alice=r/own"), own("r", "public.pay", "arwdDxt"),
			},
			Functions: []Function{
				{Name: "hr.f", Arguments: "a integer, OUT b text", Kind: "f", Owner: "own", ACL: []string{"own=X/own", "alice=X/own"}},
				{Name: "hr.f", Arguments: "text", Kind: "f", Owner: "own", ACL: []string{"own=X/own"}},
				{Name: "hr.p", Arguments: "", Kind: "p", Owner: "own", ACL: []string{"own=X/own", "alice=X/own"}},
				{Name: "steno.note", Arguments: "note text", Kind: "f", Owner: "boss", Extension: true},
			}},
		{Name: "other", Owner: "boss"},
	}
	return g
}

// rights are what a role may do, of what a test looks at.
func rights(g *Grants, role string) string {
	p := newPolicy(g)
	var out []string
	for name, n := range map[string]need{
		"staff": {kind: onRelation, object: "hr.staff", letter: 'r'}, "pay": {kind: onRelation, object: "hr.pay", letter: 'r'},
		"t": {kind: onRelation, object: "public.t", letter: 'r'}, "seq": {kind: onSequence, object: "hr.seq", letter: 'U'},
		"f": {kind: onFunction, object: "hr.f", letter: 'X'}, "p": {kind: onFunction, object: "hr.p", letter: 'X'},
		"hr": {kind: onSchema, object: "hr", letter: 'U'}, "insert": {kind: onRelation, object: "hr.staff", letter: 'a'},
	} {
		n.role, n.db = role, "shop"
		if p.check(&n, nil) != denied {
			out = append(out, name)
		}
	}
	return strings.Join(sortedStrings(out), " ")
}

func sortedStrings(list []string) []string {
	set := map[string]bool{}
	for _, s := range list {
		set[s] = true
	}
	return sortedKeys(set)
}

func TestScriptsAreAppliedAsTheServerDoes(t *testing.T) {
	const all = "f hr insert p pay seq staff t"
	for _, test := range []struct{ script, alice string }{
		{"REVOKE ALL ON ALL TABLES IN SCHEMA hr FROM alice CASCADE;", "f hr insert p seq t"},
		{"REVOKE SELECT ON ALL TABLES IN SCHEMA hr, public FROM alice CASCADE;", "f hr insert p seq"},
		{"REVOKE ALL ON ALL SEQUENCES IN SCHEMA hr FROM alice;", "f hr insert p pay staff t"},
		{"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA hr FROM alice;", "hr insert p pay seq staff t"},
		{"REVOKE EXECUTE ON ALL PROCEDURES IN SCHEMA hr FROM alice;", "f hr insert pay seq staff t"},
		{"REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA hr FROM alice;", "hr insert pay seq staff t"},
		{"REVOKE ALL ON hr.seq FROM alice;", "f hr insert p pay staff t"},
		{"REVOKE EXECUTE ON FUNCTION hr.f(int) FROM alice;", "hr insert p pay seq staff t"},
		{"REVOKE EXECUTE ON FUNCTION hr.f(a int, OUT b text) FROM alice;", "hr insert p pay seq staff t"},
		{"BEGIN; REVOKE ALL ON hr.pay FROM alice; ROLLBACK;", all},
		{"BEGIN; REVOKE ALL ON hr.pay FROM alice;", all},
		{"BEGIN; REVOKE ALL ON hr.pay FROM alice; COMMIT;", "f hr insert p seq staff t"},
		{"\\q\nREVOKE ALL ON hr.pay FROM alice;", all},
		{"/* /* */ REVOKE ALL ON hr.pay FROM alice; */ REVOKE ALL ON t FROM alice;", "f hr insert p pay seq staff"},
		{"REVOKE ALL ON hr.pay FROM bob;", all},
		{"SET ROLE deputy; REVOKE ALL ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"SET ROLE boss; REVOKE ALL ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"SET LOCAL ROLE alice; REVOKE ALL ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"SET SESSION AUTHORIZATION alice;\n\\c shop\nREVOKE ALL ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"REVOKE readers FROM alice;", "f hr p pay seq staff t"},
		{"DROP OWNED BY alice;", "insert"},
		{"DROP OWNED BY readers; DROP ROLE readers;", "f hr p pay seq staff t"},
		{"CREATE ROLE new; GRANT SELECT ON hr.pay TO new; GRANT new TO alice; REVOKE SELECT ON hr.pay FROM alice;", all},
		{"ALTER ROLE alice NOINHERIT;", "f hr p pay seq staff t"},
		{"SET ROLE boss; BEGIN; SET LOCAL ROLE alice; COMMIT; REVOKE ALL ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"GRANT SELECT ON hr.pay TO deputy WITH GRANT OPTION; SET ROLE deputy; REVOKE SELECT ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"GRANT USAGE ON SCHEMA hr TO carol; GRANT SELECT ON hr.staff TO carol WITH GRANT OPTION; SET ROLE carol; GRANT SELECT ON hr.staff TO alice WITH GRANT OPTION; RESET ROLE; REVOKE SELECT ON hr.staff FROM alice;", all},
		{"-- x\rREVOKE SELECT ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"BEGIN; SET LOCAL ROLE own; REVOKE SELECT ON hr.pay FROM alice; ROLLBACK; REVOKE SELECT ON t FROM alice;", "f hr insert p pay seq staff"},
		{"\\set ON_ERROR_STOP on\r\n\\echo begin (1)\r\n\\connect \"shop\"\r\nREVOKE SELECT ON hr.pay FROM alice;\r\n", "f hr insert p seq staff t"},
		{"SET LOCAL lock_timeout = '5 s'; SET client_min_messages TO warning; RESET lock_timeout; SET statement_timeout = 0; SET steno.app_user = 'me'; SET lock_timeout = 5000;", all},
		{"\n-- the end\n" + strings.TrimLeft(scriptEnd, "\n"), all},
		{"BEGIN; SET ROLE boss; SET LOCAL ROLE alice; SET LOCAL ROLE bob; COMMIT; REVOKE SELECT ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"SET ROLE alice; SET SESSION AUTHORIZATION own; REVOKE SELECT ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"DROP ROLE IF EXISTS nobody; REVOKE SELECT ON hr.pay FROM alice;", "f hr insert p seq staff t"},
		{"SELECT steno.note('why'); COMMENT ON TABLE t IS 'x'; REVOKE ALL ON DATABASE shop FROM PUBLIC, \"public\";", all},
	} {
		g := shop(150000)
		if _, err := g.applyScript(test.script, "shop"); err != nil {
			t.Errorf("%s: %v", test.script, err)
		} else if got := rights(g, "alice"); got != test.alice {
			t.Errorf("%s: alice has %s instead of %s", test.script, got, test.alice)
		}
	}
	g := shop(150000)
	if _, err := g.applyScript("REVOKE SELECT ON hr.staff FROM alice CASCADE;", "shop"); err != nil || rights(g, "bob") != "" {
		t.Errorf("what alice has granted on: %v, %s", err, rights(g, "bob"))
	}
}

// TestScriptsThatAreNotUnderstoodAreRefused: that nothing would fail is never said of them.
func TestScriptsThatAreNotUnderstoodAreRefused(t *testing.T) {
	for script, why := range map[string]string{
		"REVOKE SELEC ON hr.pay FROM alice;":                                                 `there is no privilege "selec"`,
		"REVOKE SELECT ON hr.pay FROM alcie;":                                                `no role "alcie" among the grants; nearest: "alice"`,
		"REVOKE SELECT ON hr.payment FROM alice;":                                            "not among the grants",
		"REVOKE SELECT ON ALL TABLES IN SCHEMA hrr FROM alice;":                              "not among the grants",
		"REVOKE SELECT ON pay FROM alice;":                                                   "several schemas",
		"REVOKE DELETE ON SCHEMA hr FROM alice;":                                             "no privilege DELETE",
		"REVOKE SELECT (c) ON hr.pay FROM alice;":                                            "no column c",
		"REVOKE SELECT ON hr.staff FROM alice;":                                              "without CASCADE",
		"REVOKE GRANT OPTION FOR SELECT ON hr.staff FROM alice;":                             "without CASCADE",
		"REVOKE EXECUTE ON FUNCTION hr.f(bigint) FROM alice;":                                "not among the grants",
		"REVOKE EXECUTE ON FUNCTION hr.f FROM alice;":                                        "not among the grants",
		"REVOKE SELECT ON hr.pay TO alice;":                                                  "FROM was expected",
		"REVOKE SELECT ON hr.pay FROM alice bob;":                                            "the end of the statement",
		"REVOKE SELECT ON hr.pay FROM CURRENT_USER;":                                         "who runs the script is not known",
		"REVOKE SELECT ON hr.pay FROM :role;":                                                "the value of a variable",
		"REVOKE USAGE ON TYPE hr.x FROM PUBLIC;":                                             "what PUBLIC has",
		"REVOKE readers FROM PUBLIC;":                                                        "PUBLIC",
		"GRANT USAGE ON SCHEMA hr TO bob; SET ROLE bob; REVOKE SELECT ON hr.pay FROM alice;": "no right to grant",
		"SET ROLE bob; REVOKE readers FROM alice;":                                           "no ADMIN OPTION",
		"SET ROLE bob; DROP ROLE lonely;":                                                    "not known",
		"DROP ROLE alice;":                                                                   "depends on it",
		"DROP OWNED BY own;":                                                                 "it drops what",
		"DROP TABLE hr.pay;":                                                                 "not known",
		"ALTER TABLE hr.pay OWNER TO bob;":                                                   "not known",
		"ALTER ROLE alice SET search_path = x;":                                              "SET changes",
		"ALTER ROLE alice CONNECTION LIMIT 0;":                                               "CONNECTION changes",
		"ALTER ROLE ALL NOLOGIN;":                                                            "a keyword",
		"ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM alice;":                       "not known",
		"REASSIGN OWNED BY own TO boss;":                                                     "not known",
		"DO $$BEGIN EXECUTE 'REVOKE SELECT ON hr.pay FROM alice'; END$$;":                    "not known",
		"SELECT revoke_all();":                                                               "not known",
		"SELECT format('REVOKE SELECT ON %s FROM alice', 'hr.pay') \\gexec":                  "\\gexec",
		"REVOKE SELECT ON hr.pay FROM alice \\g":                                             "\\g",
		"\\i other.sql":                                                                      "not followed",
		"\\if true\n\\endif":                                                                 "not followed",
		"\\c shop somebody":                                                                  "another server, or as somebody else",
		"\\c 'host=elsewhere'":                                                               "another server",
		"\\c nowhere":                                                                        `no database "nowhere"`,
		"\\c other\nREVOKE SELECT ON t FROM alice;":                                          "not among the grants",
		"\\set AUTOCOMMIT off":                                                               "not followed",
		"SET search_path = hr; REVOKE SELECT ON pay FROM alice;":                             "what it changes is not known",
		"BEGIN; SAVEPOINT a; REVOKE SELECT ON hr.pay FROM alice; ROLLBACK TO a; COMMIT;":     "the end of the statement",
		"BEGIN;\n\\c other\nCOMMIT;":                                                         "it connects within a transaction",
		"\\echo `dropuser alice`":                                                            "not followed",
		"GRANT alice TO readers;":                                                            `"alice" is a member of "readers"`,
		"GRANT alice TO alice;":                                                              `"alice" is a member of "alice"`,
		"GRANT MAINTAIN ON hr.pay TO alice;":                                                 "no privilege MAINTAIN",
		"PREPARE TRANSACTION 'x';":                                                           "not known",

		// What psql replaces, runs, or reads in another way.
		"COMMENT ON TABLE hr.pay IS :x;":   "the value of a variable",
		"COMMENT ON TABLE hr.pay IS :'x';": "the value of a variable",
		"SET application_name = :\"x\";":   "the value of a variable",
		"SET application_name = :{?x};":    "the value of a variable",
		"\\set x 'hr.pay FROM bob; REVOKE SELECT ON hr.pay'\nREVOKE SELECT ON :x FROM alice;": "not followed",
		"\\set SINGLELINE on":                          "not followed",
		"\\set ON_ERROR_STOP on \\\\ DROP ROLE alice;": "not followed",
		"\\set ON_ERROR_STOP on\rDROP ROLE alice;":     "not followed",
		"\\echo x \\i other.sql":                       "not followed",
		"\\echo :x":                                    "not followed",
		"\\connect shop \\i other.sql":                 "another server",
		"-- x\rDO $$BEGIN END$$;":                      "not known",
		"BEGIN; SELECT 'COMMIT; REVOKE SELECT ON hr.pay FROM alice' \\gexec\nROLLBACK;": "\\gexec",
		"BEGIN; DO $$BEGIN COMMIT; END$$; ROLLBACK;":                                    "not known",
		"BEGIN; CALL hr.p();": "not known",
		"BEGIN; REVOKE SELECT ON hr.pay FROM alice; PREPARE TRANSACTION 'x';":           "not known",
		"BEGIN; REVOKE SELECT ON hr.pay FROM alice; PREPARE TRANSACTION 'x'; ROLLBACK;": "not known",
		"BEGIN; ROLLBACK \\gexec": "in a statement",
		"SAVEPOINT a;":            "not known",
		"REVOKE SELECT ON hr.pay FROM alice; \\; GRANT readers TO bob;": "not followed",
		"SET ROLE 'al\\ice';":                                   "backslash",
		"SET ROLE E'boss';":                                     "escapes",
		"REVOKE SELECT ON hr.pay FROM alice; \x00":              "UTF-8",
		"GRANT SELECT ON hr.pay TO bob" + scriptEnd + ";":       "stands in a statement",
		"REVOKE SELECT ON hr.pay FROM alice;" + incompleteGuard: "not known",
		"COMMENT ON TABLE hr.pay IS '" + scriptEnd + "';":       "depends on its settings",

		"REVOKE SELECT ON hr.pay FROM alice; " + strings.TrimLeft(scriptEnd, "\n"):                     "not followed",
		"BEGIN; REVOKE SELECT ON hr.pay FROM alice;\n" + strings.TrimLeft(scriptEnd, "\n") + "COMMIT;": "not followed",
		"\\connect \"dbname=shop\"": "another server",

		// What ends the script or its transaction, so that what follows does not take place.
		"BEGIN READ ONLY; GRANT SELECT ON hr.pay TO bob; COMMIT;": "the end of the statement",
		"START TRANSACTION ISOLATION LEVEL SERIALIZABLE; COMMIT;": "the end of the statement",
		"COMMIT WORK WORK;": "the end of the statement",
		"COMMIT AND CHAIN;": "the end of the statement",
		"BEGIN; COMMENT ON TABLE hr.payment IS 'x'; GRANT SELECT ON hr.pay TO bob; COMMIT;": "whether the server takes the comment",
		"COMMENT ON VIEW hr.pay IS 'x';":                                           "whether the server takes the comment",
		"BEGIN; SET lock_timeout = 'soon'; GRANT SELECT ON hr.pay TO bob; COMMIT;": "a second or more",
		"SET statement_timeout = 1; GRANT SELECT ON hr.pay TO bob;":                "a second or more",
		"SET statement_timeout = 5s;":                                              "a second or more",
		"SET client_min_messages = loud;":                                          "a level of messages",
		"SET steno.on_failure = 'refuse';":                                         "what it changes is not known",
		"DROP ROLE lonely; GRANT SELECT ON hr.pay TO bob;":                         "not reached",
		"DROP OWNED BY lonely; ALTER ROLE bob SUPERUSER;":                          "not reached",
		"REVOKE USAGE ON TYPE hr.x FROM alice; GRANT SELECT ON hr.pay TO bob;":     "not reached",
		"BEGIN; GRANT SELECT ON hr.pay TO bob; DROP ROLE lonely; COMMIT;":          "all that is in its transaction",

		"ALTER ROLE alice NOLOGIN; DROP ROLE lonely; ALTER ROLE alice LOGIN;":     "not reached",
		"ALTER ROLE alice NOINHERIT; DROP ROLE lonely; ALTER ROLE alice INHERIT;": "not reached",

		// What is not tried, or not by everybody.
		"CREATE USER MAPPING FOR bob SERVER s;":              "what it does to roles and privileges is not known",
		"SET ROLE bob; COMMENT ON TABLE t IS 'x';":           `whether "bob" may do that`,
		"SET ROLE bob; SELECT steno.note('x');":              `whether "bob" may do that`,
		"\\c other\nSELECT steno.note('x');":                 "the extension is not in database",
		"\\c other\nDROP OWNED BY lonely;":                   "say nothing of the inside",
		"SET application_name = x;":                          "a string",
		"SET LOCAL SESSION AUTHORIZATION boss;":              "without LOCAL",
		"SET SESSION AUTHORIZATION alice; SET ROLE readers;": "whether the session user may do that",
		"RESET ROLE boss;":                                   "the end of the statement",
		"DROP ROLE lonely lonely;":                           "the end of the statement",

		// What the server refuses.
		"CREATE ROLE \"public\";":                                                          "no name for a new role",
		"CREATE ROLE \"none\";":                                                            "no name for a new role",
		"ALTER ROLE pg_database_owner NOLOGIN;":                                            "alters no predefined role",
		"DROP ROLE pg_database_owner;":                                                     "drops no predefined role",
		"REVOKE EXECUTE ON FUNCTION hr.f(setof int) FROM alice;":                           "no type of an argument",
		"REVOKE USAGE ON hr.pay FROM alice;":                                               "no privilege USAGE on tables",
		"REVOKE USAGE ON ALL TABLES IN SCHEMA hr FROM alice;":                              "no privilege USAGE on tables",
		"REVOKE SELECT (a) ON hr.seq FROM alice;":                                          "sequences have no privileges on columns",
		"GRANT SELECT ON hr.pay TO PUBLIC WITH GRANT OPTION;":                              "PUBLIC",
		"GRANT SELECT, ALL ON hr.pay TO bob;":                                              "ALL stands alone",
		"GRANT ALL, SELECT ON hr.pay TO bob;":                                              "ALL stands alone",
		"ALTER ROLE alice NOLOGIN LOGIN;":                                                  "LOGIN twice",
		"CREATE ROLE new INHERIT INHERIT;":                                                 "INHERIT twice",
		"CREATE ROLE pg_new;":                                                              "no name for a new role",
		"DROP ROLE lonely, lonely;":                                                        "twice",
		"REVOKE EXECUTE ON FUNCTION hr.p() FROM alice;":                                    "is not a function",
		"REVOKE EXECUTE ON PROCEDURE hr.f(int) FROM alice;":                                "is not a procedure",
		"REVOKE EXECUTE ON FUNCTION hr.f(inte ger) FROM alice;":                            "not among the grants",
		"REVOKE EXECUTE ON FUNCTION hr.f('text') FROM alice;":                              "no type of an argument",
		"REVOKE EXECUTE ON FUNCTION f(text) FROM alice;":                                   "with its schema",
		"COMMENT ON TABLE hr.pay IS 'x'\nREVOKE SELECT ON hr.pay FROM alice;":              "the end of the statement",
		"SET application_name = 'x'\nREVOKE SELECT ON hr.pay FROM alice;":                  "the end of the statement",
		"REVOKE SELECT ON hr.pay FROM alice\nGRANT SELECT ON hr.pay TO bob;":               "the end of the statement",
		"REVOKE SELECT ON hr.pay FROM alice; COMMENT ON TABLE t IS 'x":                     "not closed",
		"REVOKE SELECT ON hr.pay FROM alice; COMMENT ON TABLE t IS $x$ $y$":                "not closed",
		"REVOKE SELECT ON hr.pay FROM \"alice":                                             "not closed",
		"REVOKE SELECT ON hr.pay FROM alice; /* /* */":                                     "not closed",
		"SELECT steno.note('x'; REVOKE SELECT ON hr.pay FROM alice;":                       "do not match",
		"REVOKE SELECT ON hr.pay FROM 'alice';":                                            "a role",
		"REVOKE SELECT ON 'hr'.pay FROM alice;":                                            "a string is no name",
		"SET ROLE user;":                                                                   "a role",
		"SET ROLE DEFAULT;":                                                                "a role",
		"GRANT GROUP readers TO bob;":                                                      "a keyword",
		"GRANT readers TO bob WITH SET FALSE;":                                             "the server has no",
		"GRANT pg_database_owner TO bob;":                                                  "no members but one",
		"GRANT SELECT ON hr.pay TO bob; SET ROLE bob; REVOKE SELECT ON hr.pay FROM alice;": "no privilege USAGE on schema",
		"REVOKE SELECT ON hr.pay FROM alice GRANTED BY boss;":                              "GRANTED BY",
	} {
		g := shop(150000)
		if _, err := g.applyScript(script, "shop"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", script, err)
		}
	}
	if _, _, err := shop(150000).Reduced(strings.NewReader("-- nothing\n"), "shop"); err == nil {
		t.Error("an empty script is applied")
	}
}

// TestPassedOnMembershipsDependFrom16: a grantor's ADMIN OPTION matters from PostgreSQL 16 on.
func TestPassedOnMembershipsDependFrom16(t *testing.T) {
	for version, refused := range map[int]bool{150000: false, 160000: true} {
		g := shop(version)
		g.Memberships = append(g.Memberships, Membership{Role: "readers", Member: "bob", Grantor: "boss", Admin: true}, Membership{Role: "readers", Member: "carol", Grantor: "bob"})
		if _, err := g.applyScript("REVOKE readers FROM bob;", "shop"); (err != nil) != refused {
			t.Errorf("%d: %v", version, err)
		}
		if _, err := g.applyScript("REVOKE ADMIN OPTION FOR readers FROM bob CASCADE;", "shop"); err != nil {
			t.Errorf("%d: %v", version, err)
		}
		if has := newPolicy(g).hasPrivilegesOf("carol", "readers", "shop"); has == refused {
			t.Errorf("%d: carol is a member: %v", version, has)
		}
	}
}

// TestDroppedRolesAreNamed: a GRANT to a role fails when that role was dropped.
func TestDroppedRolesAreNamed(t *testing.T) {
	s := &statement{actor: actor{db: "shop", user: "own", role: "own"}, text: "GRANT SELECT ON hr.pay TO lonely", shape: shape{class: "role", command: "GRANT"}}
	a := &access{AccessOptions: &AccessOptions{}, policy: newPolicy(shop(150000)), found: &trailUses{statements: []*statement{s}}, connected: map[[2]string]bool{{"shop", "own"}: true}}
	a.renames = newRenames(nil)
	g := shop(150000)
	if v, why := a.tryReduced(s, newPolicy(g)); v != allowed {
		t.Errorf("%v: %s", v, why)
	}
	if _, err := g.applyScript("DROP ROLE lonely;", "shop"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{s.text, "GRANT SELECT ON hr.pay TO ...", ""} { // those that are not whole may name it
		s.text = text
		if v, why := a.tryReduced(s, newPolicy(g)); v != uncertain || !strings.Contains(why, "lonely") {
			t.Errorf("%q: %v: %q", text, v, why)
		}
	}
	s.text = "GRANT SELECT ON hr.pay TO bob"
	if v, why := a.tryReduced(s, newPolicy(g)); v != allowed {
		t.Errorf("%v: %q", v, why)
	}
}

// TestAppliedScriptsAreCounted: what is in force, what the script takes back, and that a guard must be removed.
func TestAppliedScriptsAreCounted(t *testing.T) {
	for script, want := range map[string]string{
		"REVOKE SELECT ON hr.pay FROM alice;": "1 statement applied",
		"BEGIN; REVOKE SELECT ON hr.pay FROM alice; ROLLBACK; REVOKE readers FROM alice; BEGIN; REVOKE SELECT ON t FROM alice;": "1 statement applied, 2 not, because the script does not commit their transactions",
		strings.TrimLeft(incompleteGuard, "\n") + "\nREVOKE SELECT ON hr.pay FROM alice;":                                       "1 statement applied, as if the exception at its beginning were removed",
	} {
		if applied, err := shop(150000).applyScript(script, "shop"); err != nil || applied.String() != want {
			t.Errorf("%s: %v, %v, want %s", script, applied, err, want)
		}
	}
	if _, err := shop(150000).applyScript(strings.Repeat("DROP TABLE t;", mostProblems+2), "shop"); err == nil || !strings.Contains(err.Error(), "; and 2 more. Remove that") {
		t.Errorf("%v", err)
	}
}

// TestTheLastSuperuserMayStay: from PostgreSQL 16 on, the server may refuse to take it from the first one.
func TestTheLastSuperuserMayStay(t *testing.T) {
	for version, want := range map[int]string{150000: "", 160000: "not reached"} {
		_, err := shop(version).applyScript("ALTER ROLE boss NOSUPERUSER; GRANT SELECT ON hr.pay TO bob;", "shop")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", version, err)
		}
	}
}

// TestDroppedRolesHaveNothingLeft: DROP OWNED takes what a role has in the database and on databases, and DROP ROLE is refused
// as long as anything is left, also what is not reviewed.
func TestDroppedRolesHaveNothingLeft(t *testing.T) {
	left := func(version int) *Grants {
		g := shop(version)
		g.Databases[0].Unreviewed = []Unreviewed{{Role: "lonely", On: "USAGE on type hr.x"}}
		g.Databases[1].ACL = []string{"lonely=c/boss", "bob=c/boss"}
		return g
	}
	if _, err := left(150000).applyScript("DROP ROLE lonely;", "shop"); err == nil || !strings.Contains(err.Error(), "depends on it") {
		t.Errorf("privileges are left: %v", err)
	}
	g := left(150000)
	g.Databases[1].ACL = nil
	if _, err := g.applyScript("DROP ROLE lonely;", "shop"); err == nil || !strings.Contains(err.Error(), "an object that is not reviewed depends on it") {
		t.Errorf("what is not reviewed is left: %v", err)
	}
	g = left(150000)
	if _, err := g.applyScript("DROP OWNED BY lonely; DROP ROLE lonely;", "shop"); err != nil || len(g.Databases[0].Unreviewed) > 0 || strings.Join(g.Databases[1].ACL, " ") != "bob=c/boss" {
		t.Errorf("%v: %v, %v", err, g.Databases[0].Unreviewed, g.Databases[1].ACL)
	}
	for version, refused := range map[int]bool{150000: false, 160000: true} {
		g := shop(version)
		g.Memberships = append(g.Memberships, Membership{Role: "readers", Member: "carol", Grantor: "lonely"})
		if _, err := g.applyScript("DROP ROLE lonely;", "shop"); (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "it has granted memberships") {
			t.Errorf("%d: %v", version, err)
		}
	}
}

// TestPrivilegesOfColumnsGoWithThoseOfTheTable, as the server revokes them, and no others.
func TestPrivilegesOfColumnsGoWithThoseOfTheTable(t *testing.T) {
	g := shop(150000)
	if _, err := g.applyScript("GRANT SELECT (a, b), UPDATE (b) ON hr.pay TO bob; REVOKE SELECT ON hr.pay FROM bob;", "shop"); err != nil {
		t.Fatal(err)
	}
	if acl := g.Databases[0].Relations[1].ColumnACL; len(acl["a"]) > 0 || strings.Join(acl["b"], " ") != "bob=w/own" {
		t.Errorf("%v", acl)
	}
	if _, err := shop(170000).applyScript("GRANT MAINTAIN ON hr.pay TO bob;", "shop"); err != nil {
		t.Errorf("MAINTAIN of PostgreSQL 17: %v", err)
	}
}

// TestUsersWhoCannotLogInAreTold: new sessions fail; of a session that was there before the period, it is not known.
func TestUsersWhoCannotLogInAreTold(t *testing.T) {
	of := func(user, command string) *statement {
		return &statement{actor: actor{db: "shop", user: user, role: user}, text: "SELECT 1", shape: shape{class: "read", command: command}, succeeded: 1}
	}
	for _, one := range []struct {
		name, script string
		s            *statement
		connected    bool
		want         verdict
		why          string
	}{
		{"a login", "ALTER ROLE alice NOLOGIN;", of("alice", "connect"), true, denied, "role alice is not permitted to log in"},
		{"a statement of a session of the period", "ALTER ROLE alice NOLOGIN;", of("alice", "SELECT"), true, allowed, ""},
		{"one of an older session", "ALTER ROLE alice NOLOGIN;", of("alice", "SELECT"), false, uncertain, "role alice is not permitted to log in"},
		{"another role", "ALTER ROLE bob NOLOGIN;", of("alice", "connect"), true, allowed, ""},
		{"a role that is dropped", "DROP ROLE lonely;", of("lonely", "connect"), true, denied, "role lonely does not exist"},
		{"its statements", "DROP ROLE lonely;", of("lonely", "SELECT"), true, denied, "role lonely does not exist"},
	} {
		a := &access{AccessOptions: &AccessOptions{}, policy: newPolicy(shop(150000)), connected: map[[2]string]bool{{"shop", one.s.user}: one.connected}, renames: newRenames(nil)}
		a.found = &trailUses{statements: []*statement{one.s}}
		g := shop(150000)
		if _, err := g.applyScript(one.script, "shop"); err != nil {
			t.Fatal(err)
		}
		if v, why := a.tryReduced(one.s, newPolicy(g)); v != one.want || why != one.why {
			t.Errorf("%s: %v %q, want %v %q", one.name, v, why, one.want, one.why)
		}
	}
}

// TestDryRunsHaveStatementsThatHadNotEnded, and do not say that all would have been allowed if not all was recorded.
func TestDryRunsHaveStatementsThatHadNotEnded(t *testing.T) {
	running := &statement{actor: actor{db: "shop", user: "lonely", role: "lonely"}, text: "SELECT 1", shape: shape{class: "read", command: "SELECT"}, started: true, accepted: occurrences{count: 2}}
	a := &access{AccessOptions: &AccessOptions{}, policy: newPolicy(shop(150000)), connected: map[[2]string]bool{}, renames: newRenames(nil), found: &trailUses{statements: []*statement{running}}}
	g := shop(150000)
	if s := a.dryRun(newPolicy(g), false); len(s.Rows) > 0 || !strings.HasPrefix(s.Empty, "None: every recorded statement") {
		t.Errorf("%v, %s", s.Rows, s.Empty)
	}
	if s := a.dryRun(newPolicy(g), true); !strings.Contains(s.Empty, "part of the period was not recorded") {
		t.Errorf("%s", s.Empty)
	}
	if _, err := g.applyScript("DROP ROLE lonely;", "shop"); err != nil {
		t.Fatal(err)
	}
	if s := a.dryRun(newPolicy(g), false); len(s.Rows) != 1 || s.Rows[0][0] != "fails" || s.Rows[0][5] != int64(2) {
		t.Errorf("%v", s.Rows)
	}
}

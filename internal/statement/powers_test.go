package statement_test

import (
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/statement"
)

func TestPowers(t *testing.T) {
	for _, c := range []struct{ command, text, want string }{
		{"CREATE ROLE", "CREATE ROLE evil superuser LOGIN PASSWORD <redacted>", "SUPERUSER"},
		{"CREATE ROLE", "CREATE USER evil NOSUPERUSER", ""},
		{"CREATE ROLE", `CREATE ROLE "SUPERUSER" VALID UNTIL 'SUPERUSER' -- SUPERUSER`, ""},
		{"CREATE ROLE", "CREATE ROLE r IN ROLE pg_read_all_data BYPASSRLS /* SUPERUSER */", "pg_read_all_data BYPASSRLS"},
		{"ALTER ROLE", "ALTER ROLE a WITH\nREPLICATION CREATEDB CREATEROLE", "REPLICATION CREATEDB CREATEROLE"},
		{"ALTER ROLE", "ALTER GROUP pg_monitor ADD USER a", "pg_monitor"},
		{"GRANT ROLE", `GRANT staff, "pg_execute_server_program", PG_MONITOR TO bob WITH ADMIN OPTION`, "pg_execute_server_program pg_monitor"},
		{"GRANT ROLE", "GRANT staff TO pg_monitor", ""},
		{"GRANT", "GRANT SELECT ON pg_class TO bob", ""},
		{"REVOKE ROLE", "REVOKE pg_monitor FROM bob", ""},
	} {
		r := &format.Record{Kind: format.KindStatement, Text: []byte(c.text), Shape: &format.Shape{Command: []byte(c.command)}}
		if got := strings.Join(statement.GrantedPowers(r), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
	direct := &format.Record{Kind: format.KindStatement, Text: []byte("UPDATE pg_authid SET rolsuper = true"), Shape: &format.Shape{
		Command: []byte("UPDATE"), Relations: []format.Relation{{Name: []byte("pg_catalog.pg_authid"), Access: format.AccessUpdate}},
	}}
	if got := strings.Join(statement.GrantedPowers(direct), " "); got != "direct change of pg_catalog.pg_authid" {
		t.Errorf("got %q", got)
	}
}

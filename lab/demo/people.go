// Actions of the demonstration's users, including some that they have no privileges for.

package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pg-steno/pg_steno/lab/cluster"
)

// refused is the line of pg_hba.conf that requires a password for one user.
const refused = "local all mallory scram-sha-256"

// act is a session of a user.
type act struct {
	user, application, password string
	do                          func(ctx context.Context, c *pgx.Conn) error
	fails                       string // SQLSTATE with which the session is refused
}

// people are the users' sessions: normal use of a database, with some violations.
var people = []act{
	{user: "postgres", application: "psql", do: statements(
		"CREATE ROLE alice LOGIN",
		"CREATE ROLE bob LOGIN",
		"CREATE ROLE mallory LOGIN PASSWORD 'correct horse'",
		"GRANT CREATE ON SCHEMA public TO alice",
	)},
	{user: "alice", application: "migrations", do: statements(
		"CREATE TABLE payroll (person text PRIMARY KEY, salary numeric(10,2) NOT NULL, since date)",
		"GRANT SELECT ON payroll TO bob",
		`CREATE FUNCTION raise(who text, percent numeric) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
  new numeric;
BEGIN
  UPDATE payroll SET salary = salary * (1 + percent / 100) WHERE person = who RETURNING salary INTO new;
  RETURN new;
END $$`,
	)},
	{user: "alice", application: "payroll-app", do: func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.PgConn().CopyFrom(ctx, strings.NewReader("ann\t4200.00\t2019-03-01\nben\t3900.00\t2021-10-15\n"),
			"COPY payroll FROM STDIN")
		if err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "INSERT INTO payroll VALUES ($1, $2, $3)", "eve", "5100.50",
			"2024-02-29"); err != nil {
			return err
		}
		var salary string
		if err := c.QueryRow(ctx, "SELECT raise($1, $2)::text", "ben", "2.5").Scan(&salary); err != nil {
			return err
		}
		// One string with three statements: each gets a record with its own text.
		_, err = c.PgConn().Exec(ctx, "BEGIN; UPDATE payroll SET salary = 1 WHERE person = 'eve'; ROLLBACK").ReadAll()
		return err
	}},
	{user: "bob", application: "report", do: func(ctx context.Context, c *pgx.Conn) error {
		return errors.Join(
			statements("SELECT person, salary FROM payroll ORDER BY salary DESC")(ctx, c),
			failing(ctx, c, "42501", "UPDATE payroll SET salary = salary * 2 WHERE person = 'bob'"),
			failing(ctx, c, "42P01", "SELECT * FROM payrol"),
		)
	}},
	{user: "mallory", application: "psql", password: "wrong horse", fails: "28P01"},
}

// statements runs statements one by one, without parameters.
func statements(list ...string) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, c *pgx.Conn) error {
		for _, s := range list {
			if _, err := c.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	}
}

// failing runs a statement that must fail with this SQLSTATE.
func failing(ctx context.Context, c *pgx.Conn, sqlstate, statement string) error {
	_, err := c.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
	return mustFail(err, sqlstate, statement)
}

func mustFail(err error, sqlstate, what string) error {
	var pgError *pgconn.PgError
	switch {
	case err == nil:
		return fmt.Errorf("%s: did not fail", what)
	case errors.As(err, &pgError) && pgError.Code == sqlstate:
		return nil
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// perform runs the sessions on a server.
func perform(ctx context.Context, s *cluster.Server) error {
	for _, a := range people {
		if err := a.perform(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", a.user, err)
		}
	}
	return nil
}

func (a act) perform(ctx context.Context, s *cluster.Server) error {
	config, err := pgx.ParseConfig(s.Conninfo(a.user, "postgres"))
	if err != nil {
		return err
	}
	config.Password = a.password
	config.RuntimeParams = map[string]string{"application_name": a.application}
	c, err := pgx.ConnectConfig(ctx, config)
	if a.fails != "" {
		return mustFail(err, a.fails, "login")
	}
	if err != nil {
		return err
	}
	return errors.Join(a.do(ctx, c), c.Close(ctx))
}

// The client pgx, in all modes in which it runs queries.

package drivers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pause is how long a client leaves the server idle: it must not be part of any duration.
const pause = 30 * time.Millisecond

var modes = []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeCacheStatement}

func runPgx(ctx context.Context, dsn string) error {
	for _, mode := range modes {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			return err
		}
		config.DefaultQueryExecMode = mode
		c, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		x := &pgxClient{Conn: c, ctx: ctx}
		parts := []func(*pgxClient){queries, transactions, cursors, pipelines, copies, failures, utilities}
		for _, part := range parts {
			part(x)
		}
		if err := errors.Join(x.err, c.Close(ctx)); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
	}
	return nil
}

// pgxClient keeps the first error.
type pgxClient struct {
	*pgx.Conn
	ctx context.Context
	err error
}

func (x *pgxClient) check(err error) {
	if err != nil && x.err == nil {
		x.err = err
	}
}

func (x *pgxClient) do(sql string, args ...any) {
	_, err := x.Conn.Exec(x.ctx, sql, args...)
	x.check(err)
}

// fails runs something that must fail with this SQLSTATE.
func (x *pgxClient) fails(code, sql string, args ...any) {
	_, err := x.Conn.Exec(x.ctx, sql, args...)
	var failure *pgconn.PgError
	if !errors.As(err, &failure) || failure.Code != code {
		x.check(fmt.Errorf("%s: %w, not %s", sql, err, code))
	}
}

func (x *pgxClient) rows(want int, sql string, args ...any) {
	rows, err := x.Conn.Query(x.ctx, sql, args...)
	if err != nil {
		x.check(err)
		return
	}
	n := 0
	for rows.Next() {
		n++
	}
	x.check(rows.Err())
	if n != want {
		x.check(fmt.Errorf("%s: %d rows, not %d", sql, n, want))
	}
}

func queries(x *pgxClient) {
	for n := range 10 {
		x.rows(n, "SELECT id, name FROM items WHERE id <= $1 ORDER BY id", n)
	}
	x.rows(500, "SELECT * FROM items")
	x.rows(1, "SELECT $1::text, $2::text, $3::int", "it's", nil, 7)
	x.rows(1, "SELECT $1::timestamptz, $2::bytea, $3::bool, $4::float8", time.Unix(1e9, 0), []byte{0, 255}, true, 0.1)
	x.rows(1, "SELECT nested($1)", 20)
	x.rows(1, "SELECT pg_sleep(0.02)")
	for n := range 5 {
		x.do("INSERT INTO log (item, what) VALUES ($1, $2)", n, "pgx")
		x.do("UPDATE items SET price = price + 1 WHERE id < $1", n)
	}
	x.rows(3, "DELETE FROM log WHERE id IN (SELECT id FROM log ORDER BY id LIMIT 3) RETURNING id, item")
}

// transactions leave the server idle inside of transaction blocks.
func transactions(x *pgxClient) {
	tx, err := x.Begin(x.ctx)
	if err != nil {
		x.check(err)
		return
	}
	for n := range 3 {
		x.rows(1, "SELECT name FROM items WHERE id = $1", n+1)
		time.Sleep(pause)
	}
	nested, err := tx.Begin(x.ctx)
	x.check(err)
	x.fails("22012", "SELECT 1 / (id - 3) FROM items WHERE id < $1", 10)
	x.check(nested.Rollback(x.ctx))
	x.rows(1, "INSERT INTO log (item, what) VALUES ($1, 'in a transaction') RETURNING id", 1)
	time.Sleep(pause)
	x.check(tx.Commit(x.ctx))
	x.do("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	x.rows(2, "SELECT id FROM items WHERE id < $1", 3)
	x.do("ROLLBACK")
}

func cursors(x *pgxClient) {
	x.do("BEGIN")
	x.do("DECLARE c CURSOR FOR SELECT id FROM items ORDER BY id")
	x.rows(10, "FETCH 10 FROM c")
	time.Sleep(pause)
	x.rows(20, "FETCH 20 FROM c")
	x.do("MOVE 5 IN c")
	x.do("CLOSE c")
	x.do("DECLARE held CURSOR WITH HOLD FOR SELECT id FROM items WHERE id <= 50")
	x.rows(10, "FETCH 10 FROM held")
	x.do("COMMIT")
	x.do("CLOSE held")
}

// pipelines send messages long before others.
func pipelines(x *pgxClient) {
	batch := &pgx.Batch{}
	for n := range 5 {
		batch.Queue("SELECT name FROM items WHERE id <= $1", n)
		batch.Queue("INSERT INTO log (item, what) VALUES ($1, 'batch')", n)
	}
	x.check(x.SendBatch(x.ctx, batch).Close())
	c := x.PgConn()
	p := c.StartPipeline(x.ctx)
	p.SendPrepare("pipelined", "SELECT id FROM items WHERE id <= $1", nil)
	x.check(p.Sync())
	for n := range 4 {
		p.SendQueryPrepared("pipelined", [][]byte{[]byte(fmt.Sprint(n))}, nil, nil)
		p.SendQueryParams("SELECT pg_sleep($1)", [][]byte{[]byte("0.002")}, nil, nil, nil)
	}
	p.SendFlushRequest()
	x.check(p.Flush())
	time.Sleep(pause)
	p.SendDeallocate("pipelined")
	x.check(p.Sync())
	for {
		results, err := p.GetResults()
		if err != nil || results == nil {
			x.check(err)
			break
		}
		if reader, ok := results.(*pgconn.ResultReader); ok {
			_, err = reader.Close()
			x.check(err)
		}
		if _, ok := results.(*pgconn.PipelineSync); ok && c.TxStatus() == 'I' {
			continue
		}
	}
	x.check(p.Close())
}

func copies(x *pgxClient) {
	_, err := x.PgConn().CopyFrom(x.ctx, strings.NewReader("1\tcopied\n2\tcopied\n"),
		"COPY log (item, what) FROM STDIN")
	x.check(err)
	var out strings.Builder
	_, err = x.PgConn().CopyTo(x.ctx, &out, "COPY (SELECT id, name FROM items WHERE id < 100) TO STDOUT")
	x.check(err)
	_, err = x.PgConn().CopyFrom(x.ctx, strings.NewReader("x\tcopied\n"), "COPY log (item, what) FROM STDIN")
	if err == nil {
		x.check(errors.New("COPY of a value that is none did not fail"))
	}
}

func failures(x *pgxClient) {
	x.fails("42601", "SELEC 1")
	x.fails("42P01", "SELECT * FROM nowhere WHERE a = $1", 1)
	x.fails("UE001", "SELECT fails($1)", 3)
	x.fails("23505", "INSERT INTO items (id) VALUES ($1)", 3)
	x.fails("23505", "INSERT INTO deferred VALUES (1)")
	x.do("SET statement_timeout = 20")
	x.fails("57014", "SELECT pg_sleep(1)")
	x.do("RESET statement_timeout")
}

func utilities(x *pgxClient) {
	x.rows(1, "CALL add($1, $2)", 42, "by pgx")
	x.do("CREATE TEMP TABLE made (a int)")
	x.do("CREATE INDEX ON made (a)")
	x.do("INSERT INTO made SELECT generate_series(1, 1000)")
	x.do("ANALYZE made")
	x.do("CREATE TEMP TABLE made_of_it AS SELECT a FROM made WHERE a < 10")
	x.do("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM made")
	x.do("PREPARE q (int) AS SELECT id FROM items WHERE id < $1")
	x.rows(4, "EXECUTE q(5)")
	x.do("DEALLOCATE q")
	x.do("DO $$ BEGIN PERFORM pg_sleep(0.01); PERFORM 1 FROM items; END $$")
	x.do("SET ROLE helper")
	x.rows(1, "SELECT current_user")
	x.do("RESET ROLE")
	x.do("DROP TABLE made, made_of_it")
	x.do("VACUUM log")
}

// Overhead of a running server that somebody else owns: steno.log is changed in turns,
// and restored at the end.

package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pg-steno/pg_steno/internal/postgres"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
)

// Given is a server that somebody runs, with pg_steno loaded. It is measured
// with steno.log set to none and to all in turn; what it was comes back at the
// end.
type Given struct {
	Installation *cluster.Installation // of pgbench
	DSN          string

	conn *pgx.Conn
	// The line of postgresql.auto.conf, if there is one.
	before *string
}

const logSetting = "steno.log"

// OpenGiven connects and looks, but changes nothing.
func OpenGiven(ctx context.Context, installation *cluster.Installation, dsn string, load Load) (*Given, error) {
	g := &Given{Installation: installation, DSN: dsn}
	var err error
	if g.conn, err = pgx.Connect(ctx, dsn); err != nil {
		return nil, err
	}
	if err := g.look(ctx, load); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Given) look(ctx context.Context, load Load) error {
	var loaded, superuser, tables bool
	err := g.conn.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_settings WHERE name = $1 AND context <> 'user'),
			current_setting('is_superuser')::bool,
			to_regclass('pgbench_accounts') IS NOT NULL`, logSetting).Scan(&loaded, &superuser, &tables)
	if err != nil {
		return err
	}
	switch {
	case !loaded:
		return fmt.Errorf("the server has no setting \"%s\": is pg_steno in its shared_preload_libraries?", logSetting)
	case !superuser:
		return fmt.Errorf("changing \"%s\" for the server requires a superuser", logSetting)
	case !tables:
		return fmt.Errorf("the database has no pgbench tables: run \"pgbench --initialize --scale=%d\" in it first",
			load.Scale)
	}
	err = g.conn.QueryRow(ctx, `
		SELECT setting FROM pg_file_settings
		WHERE name = $1 AND sourcefile LIKE '%postgresql.auto.conf'
		ORDER BY seqno DESC LIMIT 1`, logSetting).Scan(&g.before)
	if err == pgx.ErrNoRows {
		return nil
	}
	return err
}

// Announcement is what Measure will do, for the question whether it may.
func (g *Given) Announcement(o Options) string {
	return fmt.Sprintf("This changes %s for the whole server %d times (ALTER SYSTEM and a reload); nothing is "+
		"recorded while it is none. It runs \"%s\" in database \"%s\" at %s. At the end, the setting is restored.",
		logSetting, 2*o.Rounds, o.Load.Title(), g.conn.Config().Database, g.conn.Config().Host)
}

// Close ends the connection.
func (g *Given) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = g.conn.Close(ctx)
}

// Measure compares. It puts the setting back however it ends. The caller summarizes the
// result.
func (g *Given) Measure(ctx context.Context, o Options) (r *result.Result, err error) {
	var version string
	if err := g.conn.QueryRow(ctx, "SELECT 'PostgreSQL ' || current_setting('server_version')").Scan(
		&version); err != nil {
		return nil, err
	}
	o.Renew = 0
	r = newResult(&o, o.Load, version, nil)
	defer func() {
		if restoreErr := g.restore(); restoreErr != nil {
			r, err = nil, fmt.Errorf("cannot restore \"%s\"; please do so (it was %s): %w", logSetting,
				g.was(), restoreErr)
		}
	}()

	values := []string{"none", "all"}
	for _, value := range values {
		addVariant(r, value, logSetting+"="+value, []cluster.Setting{{Name: logSetting, Value: value}})
	}
	for round := range o.Rounds {
		for position := range values {
			value := values[(position+round)%2]
			if o.Progress != nil {
				o.Progress(logSetting+"="+value, 2*round+position, 2*o.Rounds)
			}
			if err := g.set(ctx, value); err != nil {
				return nil, err
			}
			s, err := o.Load.run(ctx, g, o.Seconds)
			if err != nil {
				return nil, err
			}
			addSlice(r, round+1, position+1, value, s)
		}
	}
	setParameters(r, &o, o.Load, o.Rounds)
	return r, nil
}

// set changes the setting for the server and waits until new sessions have it.
func (g *Given) set(ctx context.Context, value string) error {
	if _, err := g.conn.Exec(ctx, "ALTER SYSTEM SET "+logSetting+" = "+Quote(value)); err != nil {
		return err
	}
	if _, err := g.conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	for range 100 {
		var now string
		probe, err := pgx.Connect(ctx, g.DSN)
		if err != nil {
			return err
		}
		err = probe.QueryRow(ctx, "SELECT current_setting($1)", logSetting).Scan(&now)
		_ = probe.Close(ctx)
		if err != nil || now == value {
			return err
		}
		if err := Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("\"%s\" is not \"%s\" in new sessions: is it set for the role or the database?",
		logSetting, value)
}

// restore puts the line of postgresql.auto.conf back, on a connection of its
// own: the other may have been interrupted in the middle of a query.
func (g *Given) restore() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, g.DSN)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	statement := "ALTER SYSTEM RESET " + logSetting
	if g.before != nil {
		statement = "ALTER SYSTEM SET " + logSetting + " = " + Quote(*g.before)
	}
	if _, err := conn.Exec(ctx, statement); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT pg_reload_conf()")
	return err
}

func (g *Given) was() string {
	if g.before == nil {
		return "not set by ALTER SYSTEM"
	}
	return "\"" + *g.before + "\""
}

// Quote makes a literal of SQL.
func Quote(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

// Pgbench runs pgbench on the server.
func (g *Given) Pgbench(ctx context.Context, args ...string) (string, error) {
	pgbench := g.Installation.Client(ctx, "pgbench", append(args, g.DSN)...)
	return postgres.Output(ctx, pgbench, "pgbench")
}

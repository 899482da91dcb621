// The dimensions of the measurement: what a session's server does for each statement (variants), and how statements
// are sent (ways).

package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
)

// Names of dimensions in cases and files.
const (
	dimVariant = "variant"
	dimWay     = "way"
)

// base is the variant that reports nothing.
const (
	base       = "bare"
	again      = "again"
	activities = "track_activities"
)

// variant is what a session's server does for each statement.
type variant struct {
	name, title string
	library     string // to be preloaded
	session     []cluster.Setting
}

// server returns the name of the server that the variant's sessions use.
func (v variant) server() string {
	if v.library == "" {
		return "plain"
	}
	return v.library
}

func set(name, value string) cluster.Setting { return cluster.Setting{Name: name, Value: value} }

var (
	noActivities = set("track_activities", "off")
	noCounts     = set("track_counts", "off")
	bare         = []cluster.Setting{noActivities, noCounts}
)

var variants = []variant{
	{name: base, title: "nothing reported", session: bare},
	{name: again, title: "nothing reported, again", session: bare},
	{name: activities, title: "track_activities", session: []cluster.Setting{set("track_activities", "on"), noCounts}},
	{name: "track_counts", title: "track_counts", session: []cluster.Setting{noActivities, set("track_counts", "on")}},
	{name: "both", title: "both, the server's default",
		session: []cluster.Setting{set("track_activities", "on"), set("track_counts", "on")}},
	{name: "log_statement", title: "log_statement=all",
		session: append([]cluster.Setting{set("log_statement", "all")}, bare...)},
	{name: "pg_stat_statements", title: "pg_stat_statements", library: "pg_stat_statements", session: bare},
	{name: "steno", title: "pg_steno", library: "pg_steno", session: bare},
}

func variantNames() []string {
	var names []string
	for _, v := range variants {
		names = append(names, v.name)
	}
	return names
}

// serverSettings are the settings of every server.
var serverSettings = []cluster.Setting{
	set("shared_buffers", "128MB"), set("autovacuum", "off"), set("checkpoint_timeout", "1h"),
	set("logging_collector", "on"), set("log_directory", "log"), set("log_filename", "postgresql"),
	set("log_line_prefix", "%m [%p] %q%u@%d "), set("log_checkpoints", "off"),
}

// librarySettings returns additional settings for servers with a library.
func librarySettings(library string) []cluster.Setting {
	if library == "" {
		return nil
	}
	settings := []cluster.Setting{set("shared_preload_libraries", library)}
	if library == "pg_steno" {
		settings = append(settings, set("steno.log", "all"))
	}
	return settings
}

// dimensions returns the dimensions of the result.
func dimensions(chosen []variant, ways []string) []result.Dimension {
	v := result.Dimension{Name: dimVariant, Title: "for each statement"}
	for _, c := range chosen {
		settings := append(librarySettings(c.library), c.session...)
		v.Values = append(v.Values, result.Value{Name: c.name, Title: c.title, Settings: settings})
	}
	w := result.Dimension{Name: dimWay, Title: "through"}
	for _, name := range ways {
		w.Values = append(w.Values, result.Value{Name: name, Title: findWay(name).title})
	}
	return []result.Dimension{w, v}
}

const (
	statement = "SELECT 1"
	warm      = 100 // statements of a connection before the measurement starts
	viaPsql   = "psql"
)

// sample is the result of one run.
type sample struct {
	seconds float64
	// cpu is the processor time of the session's server process in seconds, or negative if it is not known.
	cpu float64
}

// way is a way to send statements.
type way struct {
	name, title string
	// prepare prepares a connection; send sends one statement.
	prepare, send func(ctx context.Context, conn *pgconn.PgConn) error
}

var ways = []way{
	{name: viaPsql, title: "psql -f"},
	{name: "simple", title: "simple protocol", send: func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, statement).Close()
	}},
	{name: "extended", title: "extended protocol", send: func(ctx context.Context, conn *pgconn.PgConn) error {
		_, err := conn.ExecParams(ctx, statement, nil, nil, nil, nil).Close()
		return err
	}},
	{name: "prepared", title: "prepared statement",
		prepare: func(ctx context.Context, conn *pgconn.PgConn) error {
			_, err := conn.Prepare(ctx, "one", statement, nil)
			return err
		},
		send: func(ctx context.Context, conn *pgconn.PgConn) error {
			_, err := conn.ExecPrepared(ctx, "one", nil, nil, nil).Close()
			return err
		}},
}

func wayNames() []string {
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	return names
}

func findWay(name string) way {
	return ways[slices.IndexFunc(ways, func(w way) bool { return w.name == name })]
}

// script returns the input of psql: one line for each statement.
func script(statements int) string { return strings.Repeat(statement+";\n", statements) }

func scriptFile(lab *cluster.Lab) string { return filepath.Join(lab.Dir, "statements.sql") }

// conninfo returns a connection string for sessions with these settings.
func conninfo(s *cluster.Server, settings []cluster.Setting) string {
	var Options []string
	for _, setting := range settings {
		Options = append(Options, "-c "+setting.Name+"="+setting.Value)
	}
	return s.Conninfo("postgres", "postgres") + " options='" + strings.Join(Options, " ") + "'"
}

// run sends the statements, and measures the time.
func (w way) run(ctx context.Context, lab *cluster.Lab, s *cluster.Server, v variant, statements int) (sample, error) {
	if w.name == viaPsql {
		return runPsql(ctx, lab, conninfo(s, v.session))
	}
	return w.runConnection(ctx, conninfo(s, v.session), statements)
}

// runPsql runs the script. The time includes starting psql and connecting, like in the published figures.
func runPsql(ctx context.Context, lab *cluster.Lab, conninfo string) (sample, error) {
	psql := lab.Client(ctx, "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-f", scriptFile(lab), "-o",
		os.DevNull, conninfo)
	var stderr strings.Builder
	psql.Stderr = &stderr
	start := time.Now()
	err := psql.Run()
	if ctx.Err() != nil {
		return sample{}, ctx.Err()
	}
	if err != nil {
		return sample{}, fmt.Errorf("psql: %w\n%s", err, strings.TrimSpace(stderr.String()))
	}
	return sample{seconds: time.Since(start).Seconds(), cpu: -1}, nil
}

func (w way) runConnection(ctx context.Context, conninfo string, statements int) (r sample, err error) {
	conn, err := pgconn.Connect(ctx, conninfo)
	if err != nil {
		return r, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, conn.Close(closing))
	}()
	if w.prepare != nil {
		if err := w.prepare(ctx, conn); err != nil {
			return r, err
		}
	}
	for range min(warm, statements) {
		if err := w.send(ctx, conn); err != nil {
			return r, err
		}
	}
	before, unknown := machine.Here.Time(int(conn.PID()))
	start := time.Now()
	for range statements {
		if err := w.send(ctx, conn); err != nil {
			return r, err
		}
	}
	r.seconds = time.Since(start).Seconds()
	r.cpu = -1
	if after, err := machine.Here.Time(int(conn.PID())); unknown == nil && err == nil {
		r.cpu = (after - before).Seconds()
	}
	return r, nil
}

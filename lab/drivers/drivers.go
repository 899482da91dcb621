// Package drivers compares the trail with the server's log and with pg_stat_statements while real clients work: each
// runs what its driver can do, in a program of its own (the folder lab/clients of the source tree). One of them, pgx,
// is part of this package.
//
// What a client did is known from the server alone, so the programs need not report it. Package regress compares.
package drivers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pg-steno/pg_steno/internal/postgres"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/regress"
)

// Options are the parameters of a run.
type Options struct {
	Steno     string   // path of the steno program
	Programs  string   // folder of the clients' programs
	Installed string   // folder in which their libraries are installed
	Only      []string // only these clients; none: all
	Evidence  string   // folder for the differences, and for what a failed run leaves behind
	Limits    regress.Limits
	Out       io.Writer
}

// ErrFailed is the error if something differs, or a client failed; the report has the details.
var ErrFailed = errors.New("log and trail differ")

// A client is a program, or a function of this package.
type client struct {
	name    string
	command []string // its first word is in the folder of programs, if it has a slash; INSTALLED is replaced
	run     func(ctx context.Context, dsn string) error
}

var clients = []client{
	{name: "psql", command: []string{"psql/run"}},
	{name: "pgx", run: runPgx},
	{name: "lib-pq", command: []string{"INSTALLED/bin/lib-pq"}},
	{name: "tokio-postgres", command: []string{"INSTALLED/bin/tokio-postgres"}},
	{name: "psycopg2", command: []string{"INSTALLED/python/bin/python", "PROGRAMS/python/with_psycopg2.py"}},
	{name: "psycopg", command: []string{"INSTALLED/python/bin/python", "PROGRAMS/python/with_psycopg.py"}},
	{name: "asyncpg", command: []string{"INSTALLED/python/bin/python", "PROGRAMS/python/with_asyncpg.py"}},
	{name: "sqlalchemy", command: []string{"INSTALLED/python/bin/python", "PROGRAMS/python/with_sqlalchemy.py"}},
	{name: "odbc", command: []string{"INSTALLED/python/bin/python", "PROGRAMS/python/with_odbc.py"}},
	{name: "node-postgres", command: []string{"node", "PROGRAMS/node/with_pg.js"}},
	{name: "pgjdbc", command: []string{"java", "-Xmx128m", "-cp", "INSTALLED/java/*", "WithJdbc"}},
	{name: "dbd-pg", command: []string{"perl", "PROGRAMS/perl/with_dbd_pg.pl"}},
	{name: "pgbouncer", command: []string{"pgbouncer/run"}},
	{name: "pg_dump", command: []string{"pg_dump/run"}},
}

// Names returns the names of all clients.
func Names() []string {
	var names []string
	for _, c := range clients {
		names = append(names, c.name)
	}
	return names
}

// judge is a run: a server and what it left.
type judge struct {
	*Options
	lab    *cluster.Lab
	server *cluster.Server
	port   int
	failed bool
}

// Run runs the clients one after the other on a throw-away server, and compares.
func Run(ctx context.Context, o Options) error {
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("no client \"%s\"; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	installation, err := cluster.Find("")
	if err != nil {
		return err
	}
	for _, library := range []string{"pg_steno", "pg_stat_statements"} {
		if !installation.HasLibrary(library) {
			return fmt.Errorf("no %s.so in \"%s\": use scripts/test-drivers", library, installation.LibraryDir)
		}
	}
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		return err
	}
	defer lab.Close()
	j := &judge{Options: &o, lab: lab}
	if err := j.start(ctx); err != nil {
		return err
	}
	for _, c := range clients {
		if len(o.Only) > 0 && !slices.Contains(o.Only, c.name) {
			continue
		}
		begin := time.Now()
		if err := j.client(ctx, c); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			j.failed = true
			fmt.Fprintf(o.Out, "%s failed: %s\n", c.name, err)
			continue
		}
		fmt.Fprintf(o.Out, "%s ran for %s\n", c.name, time.Since(begin).Round(100*time.Millisecond))
	}
	if err := j.compare(ctx); err != nil {
		return err
	}
	if j.failed {
		return ErrFailed
	}
	return nil
}

func (j *judge) trail() string { return filepath.Join(j.lab.Dir, "trail") }

func (j *judge) logs() string { return filepath.Join(j.lab.Dir, "log") }

// start starts the server and fills its database. Some drivers know only TCP.
func (j *judge) start(ctx context.Context) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	j.port = free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		return err
	}
	rings := filepath.Join(j.lab.Dir, "rings")
	if err := errors.Join(os.Mkdir(rings, 0o700), j.lab.Own(rings)); err != nil {
		return err
	}
	settings := []cluster.Setting{
		{Name: "listen_addresses", Value: "127.0.0.1"},
		{Name: "port", Value: strconv.Itoa(j.port)},
		{Name: "shared_preload_libraries", Value: "pg_stat_statements, pg_steno"},
		{Name: "shared_buffers", Value: "32MB"},
		{Name: "max_connections", Value: "50"},
		{Name: "autovacuum", Value: "off"},
		{Name: "max_parallel_workers_per_gather", Value: "0"},
		{Name: "timezone", Value: "UTC"},
		{Name: "compute_query_id", Value: "on"},
		{Name: "pg_stat_statements.track", Value: "all"},
		{Name: "pg_stat_statements.track_planning", Value: "on"},
		{Name: "logging_collector", Value: "on"},
		{Name: "log_destination", Value: "csvlog"},
		{Name: "log_directory", Value: j.logs()},
		{Name: "log_filename", Value: "server.log"},
		{Name: "log_rotation_age", Value: "0"},
		{Name: "log_rotation_size", Value: "0"},
		{Name: "log_min_duration_statement", Value: "0"},
		{Name: "log_min_error_statement", Value: "error"},
		{Name: "steno.directory", Value: j.trail()},
		{Name: "steno.ring_directory", Value: rings},
	}
	if j.server, err = j.lab.Start(ctx, "server", settings); err != nil {
		return err
	}
	j.server.Port = j.port
	// Other work of the machine, and the process that writes the log, which wakes up at each line, must not take the
	// processor from a session between the readings of two clocks. Children that begin from now on inherit this.
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, j.server.PID(), -20); err != nil {
		fmt.Fprintf(j.Out, "sessions have no priority, so other work counts as theirs: %s\n", err)
	}
	_, err = j.server.Psql(ctx, schema)
	return err
}

// client runs one client.
func (j *judge) client(ctx context.Context, c client) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if c.run != nil {
		return c.run(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=app dbname=postgres application_name=%s",
			j.port, c.name))
	}
	programs, err1 := filepath.Abs(j.Programs)
	installed, err2 := filepath.Abs(j.Installed)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	words := slices.Clone(c.command)
	for i, w := range words {
		words[i] = strings.NewReplacer("INSTALLED", installed, "PROGRAMS", programs).Replace(w)
	}
	if strings.Contains(words[0], "/") && !filepath.IsAbs(words[0]) {
		words[0] = filepath.Join(programs, words[0])
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = j.lab.Dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PGHOST=127.0.0.1", fmt.Sprintf("PGPORT=%d", j.port), "PGUSER=app",
		"PGDATABASE=postgres",
		"PGAPPNAME="+c.name, "PGBINDIR="+j.lab.BinDir, "NODE_PATH="+filepath.Join(installed, "node", "node_modules"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// compare stops the server, and compares its log, its statistics and its trail.
func (j *judge) compare(ctx context.Context) error {
	lines, err := j.server.Psql(ctx, "SELECT steno.flush();"+regress.StatisticsQuery+" WHERE \"user\" <> 'postgres'")
	if err != nil {
		return err
	}
	statistics, err := regress.ReadStatistics(strings.NewReader(lines))
	if err != nil {
		return err
	}
	number, err := j.server.Psql(ctx, "SHOW server_version_num")
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	if err := j.server.Stop(); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, j.Steno, "verify", j.trail()).CombinedOutput(); err != nil {
		j.failed = true
		fmt.Fprintf(j.Out, "steno verify: %s\n%s", err, out)
	}
	trail, err := postgres.Output(ctx, exec.CommandContext(ctx, j.Steno, "cat", "--format", "json", j.trail()),
		"steno cat")
	if err != nil {
		return err
	}
	log, err := os.Open(filepath.Join(j.logs(), "server.csv"))
	if err != nil {
		return err
	}
	defer log.Close()
	if err := os.MkdirAll(j.Evidence, 0o755); err != nil {
		return err
	}
	differences := filepath.Join(j.Evidence, "differences")
	list, err := os.Create(differences)
	if err != nil {
		return err
	}
	defer list.Close()
	report, err := regress.Compare([]io.Reader{log}, strings.NewReader(trail), list)
	if err != nil {
		return err
	}
	report.ExcludeUser("postgres")
	report.CompareStatistics(statistics, version)
	fmt.Fprintln(j.Out)
	report.Write(j.Out)
	durations := report.JudgeDurations(j.Limits, j.Out)
	if !report.JudgeStatistics(statistics, j.Limits, j.Out) || !durations || !report.Agrees() {
		j.failed = true
		fmt.Fprintf(j.Out, "the differences are in \"%s\"\n", differences)
	}
	if j.failed {
		return j.keep(trail)
	}
	return nil
}

// keep copies log and trail to the evidence.
func (j *judge) keep(trail string) error {
	if err := os.WriteFile(filepath.Join(j.Evidence, "trail.json"), []byte(trail), 0o644); err != nil {
		return err
	}
	out, err := exec.Command("cp", filepath.Join(j.logs(), "server.csv"), j.Evidence).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// An existing server as the place of a measurement: which settings a reload can change, changing them, and restoring
// them at the end.

package logging

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pg-steno/pg_steno/internal/postgres"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
)

// given is an existing server. Its settings are changed with ALTER SYSTEM and a reload, and restored at the end.
type given struct {
	installation *cluster.Installation // of pgbench
	dsn          string
	conn         *pgx.Conn
	about        about
	journal      *journalFile
	noted        *journal          // nil: nothing can have been changed yet
	now          map[string]string // settings that have been set
	target       target
}

// about is the properties of a given server.
type about struct {
	version   int      // 150020
	preloaded []string // libraries
	collector bool     // logging_collector
	// contexts are those of the settings that may be changed, by name; settings that the server lacks are missing.
	contexts map[string]string
	trail    string // directory; empty without pg_steno
}

// bases are the settings that variants change, and others that would also log, with the values that disable logging.
var bases = []cluster.Setting{
	{Name: "log_statement", Value: "none"},
	{Name: "log_duration", Value: "off"},
	{Name: "log_min_duration_statement", Value: "-1"},
	{Name: "log_min_duration_sample", Value: "-1"},
	{Name: "log_transaction_sample_rate", Value: "0"},
	{Name: "track_io_timing", Value: "off"},
	{Name: logDestination, Value: "stderr"},
	{Name: "pgaudit.log", Value: "none"},
	{Name: "pgaudit.log_parameter", Value: "off"},
	{Name: "steno.log", Value: "none"},
	{Name: "steno.sync", Value: "none"},
}

// reloadable returns those that a reload can change on this server. Without the collector, the log's destination is
// not changed, because there may be no stderr.
func (a *about) reloadable() []cluster.Setting {
	var list []cluster.Setting
	for _, s := range bases {
		context, ok := a.contexts[s.Name]
		if !ok || context == "postmaster" || context == "internal" || s.Name == logDestination && !a.collector {
			continue
		}
		list = append(list, s)
	}
	return list
}

// possible splits variants into those that the server supports without a restart, and the others.
func (a *about) possible(list []variant) (can []variant, not []missing) {
	can, not = installed(list, a.version/10000, func(library string) bool {
		return slices.Contains(a.preloaded, library)
	})
	for i, m := range not {
		if library, ok := strings.CutSuffix(m.reason, " is not installed"); ok {
			not[i].reason = library + " is not in the server's shared_preload_libraries, which needs a restart " +
				"to change"
		}
	}
	var left []variant
	for _, v := range can {
		if reason := a.hinders(v); reason != "" {
			not = append(not, missing{v.name, reason})
			continue
		}
		left = append(left, v)
	}
	return left, not
}

func (a *about) hinders(v variant) string {
	if v.name == "pgaudit" && slices.Contains(a.preloaded, "pgauditlogtofile") {
		return "pgauditlogtofile is loaded, and redirects everything that pgaudit logs"
	}
	list := a.reloadable()
	for _, s := range v.settings {
		switch {
		case slices.ContainsFunc(list, func(b cluster.Setting) bool { return b.Name == s.Name }):
		case s.Name == logDestination:
			return "it needs logging_collector, which is off and cannot be changed without a restart"
		default:
			return fmt.Sprintf("the server has no setting \"%s\" that can be changed by a reload", s.Name)
		}
	}
	return ""
}

// openGiven connects, and checks the prerequisites. It changes nothing.
func openGiven(ctx context.Context, installation *cluster.Installation, dsn string) (*given, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	g := &given{installation: installation, dsn: dsn, now: map[string]string{}}
	if g.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := g.look(ctx); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *given) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = g.conn.Close(ctx)
}

func (g *given) look(ctx context.Context) error {
	var superuser bool
	if err := g.conn.QueryRow(ctx, "SELECT current_setting('is_superuser')::bool").Scan(&superuser); err != nil {
		return err
	}
	if !superuser {
		return fmt.Errorf("changing what a server logs requires a superuser, and \"%s\" is not one",
			g.conn.Config().User)
	}
	if err := g.quiet(ctx); err != nil {
		return err
	}
	var preloaded string
	a := &g.about
	err := g.conn.QueryRow(ctx, `
		SELECT current_setting('server_version_num')::int, current_setting('shared_preload_libraries'),
			current_setting('logging_collector')::bool, coalesce(current_setting('steno.directory', true), '')`,
	).Scan(&a.version, &preloaded, &a.collector, &a.trail)
	if err != nil {
		return err
	}
	for library := range strings.SplitSeq(preloaded, ",") {
		a.preloaded = append(a.preloaded, strings.Trim(library, ` "`))
	}
	rows, err := g.conn.Query(ctx, "SELECT name, context FROM pg_settings WHERE name = ANY($1)", baseNames())
	if err != nil {
		return err
	}
	a.contexts = map[string]string{}
	var name, context string
	_, err = pgx.ForEachRow(rows, []any{&name, &context}, func() error { a.contexts[name] = context; return nil })
	return err
}

// quiet keeps the statements of this program's own connection out of the log.
func (g *given) quiet(ctx context.Context) error {
	_, err := g.conn.Exec(ctx, "SET log_statement = none; SET log_duration = off; SET log_min_duration_statement = -1")
	return err
}

func baseNames() []string {
	var names []string
	for _, s := range bases {
		names = append(names, s.Name)
	}
	return names
}

// check reports what would fail later, before anything is changed.
func (g *given) check(ctx context.Context, o *Options) error {
	var standby, tables bool
	var free int
	var broken, own *string
	err := g.conn.QueryRow(ctx, `
		SELECT pg_is_in_recovery(), to_regclass('pgbench_accounts') IS NOT NULL,
			current_setting('max_connections')::int
				- (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend'),
			(SELECT min(format('%s: %s', name, error)) FROM pg_file_settings WHERE error IS NOT NULL),
			(SELECT min(split_part(line, '=', 1)) FROM pg_db_role_setting, unnest(setconfig) line
			WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
				AND setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = current_user))
				AND split_part(line, '=', 1) = ANY($1))`, baseNames()).Scan(&standby, &tables, &free, &broken, &own)
	if err != nil {
		return err
	}
	most := slices.Max(o.Clients)
	switch {
	case o.needsTables() && !tables:
		return errors.New("the database has no pgbench tables: run \"pgbench --initialize --scale=10\" in it first")
	case standby && slices.ContainsFunc(o.points, func(p point) bool { return p.workload.writes }):
		return errors.New("the server is a standby: it can only run the workloads select and select1")
	case free < most+2:
		return fmt.Errorf("%d clients are too many: max_connections allows %d more connections", most, max(0, free-2))
	case broken != nil:
		return fmt.Errorf("the server's configuration files contain errors, so a reload would have no effect: %s",
			*broken)
	case own != nil:
		return fmt.Errorf("\"%s\" is set for this role or database (ALTER ROLE, ALTER DATABASE), "+
			"so a change of the server's configuration has no effect", *own)
	}
	return nil
}

// find looks up the server's processes, and ways to measure how much it logs.
func (g *given) find(ctx context.Context) error {
	pid, local := 0, false
	err := g.conn.QueryRow(ctx, `SELECT pg_backend_pid(),
		inet_server_addr() IS NULL OR inet_server_addr() = inet_client_addr()`).Scan(&pid, &local)
	if err != nil {
		return err
	}
	g.target.pgbench = g.pgbench
	if local {
		// a process with this ID may be a different one, of another host or container
		if p, err := machine.Here.Process(pid); err == nil && strings.HasPrefix(p.Title, "postgres: ") {
			g.target.processes = &tree{machine.Here, p.Parent}
		}
	}
	if g.about.collector {
		g.target.written = g.written
	}
	return nil
}

// written returns the total size of the log directory's files and of the trail.
func (g *given) written(ctx context.Context) (n int64, err error) {
	err = g.conn.QueryRow(ctx, "SELECT coalesce(sum(size), 0)::bigint FROM pg_ls_logdir()").Scan(&n)
	if err != nil || g.about.trail == "" {
		return n, err
	}
	var trail int64
	err = g.conn.QueryRow(ctx, `
		SELECT coalesce(sum((pg_stat_file(stream || '/' || segment, true)).size), 0)::bigint
		FROM (SELECT $1 || '/' || name AS stream FROM pg_ls_dir($1, true, false) name
			WHERE (pg_stat_file($1 || '/' || name, true)).isdir OFFSET 0) s,
			LATERAL pg_ls_dir(stream, true, false) segment`, g.about.trail).Scan(&trail)
	return n + trail, err
}

// identity identifies the server's journal: the cluster, and its copy.
func (g *given) identity(ctx context.Context) (string, error) {
	var text string
	err := g.conn.QueryRow(ctx, `
		SELECT system_identifier || ' ' || current_setting('data_directory') || ' '
			|| coalesce(pg_read_file('/etc/machine-id', 0, 64, true), '') FROM pg_control_system()`).Scan(&text)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16], err
}

// remember locks the server's journal, and returns the contents that a killed program has left in it, or nil.
func (g *given) remember(ctx context.Context, dir string) (*journal, error) {
	name, err := g.identity(ctx)
	if err != nil {
		return nil, err
	}
	if g.journal, err = openJournal(dir, name); err != nil {
		return nil, err
	}
	return g.journal.read()
}

const ownSession = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"

// begin writes the original settings, and the values that they may get, to the journal.
func (g *given) begin(ctx context.Context, list []variant) error {
	before, err := autoLines(ctx, g.conn)
	if err != nil {
		return err
	}
	config := g.conn.Config()
	content := &journal{
		Server: config.Host + ":" + strconv.Itoa(int(config.Port)), Time: time.Now().UTC().Truncate(time.Second),
	}
	err = g.conn.QueryRow(ctx, ownSession).Scan(&content.Session.PID, &content.Session.Started)
	if err != nil {
		return err
	}
	for _, s := range g.about.reloadable() {
		line := journaledLine{Name: s.Name, Ours: []string{s.Value}}
		if value, ok := before[s.Name]; ok {
			line.Before = &value
		}
		for _, v := range list {
			for _, own := range v.settings {
				if own.Name == s.Name && !slices.Contains(line.Ours, own.Value) {
					line.Ours = append(line.Ours, own.Value)
				}
			}
		}
		content.Settings = append(content.Settings, line)
	}
	g.noted = content
	return g.journal.write(content)
}

// autoLines returns the settings in postgresql.auto.conf.
func autoLines(ctx context.Context, conn *pgx.Conn) (map[string]string, error) {
	rows, err := conn.Query(ctx, `SELECT name, setting FROM pg_file_settings
		WHERE sourcefile LIKE '%/postgresql.auto.conf' AND name = ANY($1) ORDER BY seqno`, baseNames())
	if err != nil {
		return nil, err
	}
	lines := map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error { lines[name] = value; return nil })
	return lines, err
}

// use sets the server's settings to those of a variant.
func (g *given) use(ctx context.Context, v variant) (*target, error) {
	changed := false
	for _, s := range g.about.reloadable() {
		for _, own := range v.settings {
			if own.Name == s.Name {
				s.Value = own.Value
			}
		}
		if value, ok := g.now[s.Name]; ok && value == s.Value {
			continue
		}
		if _, err := g.conn.Exec(ctx, "ALTER SYSTEM SET "+s.Name+" = "+bench.Quote(s.Value)); err != nil {
			return nil, err
		}
		g.now[s.Name] = s.Value
		changed = true
	}
	if !changed {
		return &g.target, nil
	}
	if _, err := g.conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return nil, err
	}
	return &g.target, g.awaitSettings(ctx)
}

// awaitSettings waits until new sessions have the settings.
func (g *given) awaitSettings(ctx context.Context) error {
	const poll, polls = 20 * time.Millisecond, 250
	var names, values []string
	for name, value := range g.now {
		names, values = append(names, name), append(values, value)
	}
	var differs *string
	for range polls {
		probe, err := pgx.Connect(ctx, g.dsn)
		if err != nil {
			return err
		}
		err = probe.QueryRow(ctx, `SELECT min(name) FROM unnest($1::text[], $2::text[]) AS s(name, value)
			WHERE current_setting(name) <> value`, names, values).Scan(&differs)
		_ = probe.Close(ctx)
		if err != nil || differs == nil {
			return err
		}
		if err := bench.Sleep(ctx, poll); err != nil {
			return err
		}
	}
	return fmt.Errorf("\"%s\" is not \"%s\" in new sessions: is it set in the connection string?",
		*differs, g.now[*differs])
}

// end restores the settings, and only after that releases the journal.
func (g *given) end() error {
	if g.noted == nil {
		return g.journal.remove()
	}
	g.close()
	if _, err := restore(g.dsn, g.noted); err != nil {
		return errors.Join(fmt.Errorf("cannot restore the server's settings: %w; once it can be reached, "+
			"run \"steno bench logging --restore\" with the same --dsn (they are noted in "+
			"\"%s\")", err, g.journal.path),
			g.journal.keep())
	}
	return g.journal.remove()
}

// restore restores settings in postgresql.auto.conf, on a new connection, because the other one may have been
// interrupted in the middle of a query. A setting that has neither its original value nor one of ours was changed by
// another user, and is kept; the names of such settings are returned.
func restore(dsn string, noted *journal) (left []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := awaitEnd(ctx, conn, noted.Session); err != nil {
		return nil, err
	}
	now, err := autoLines(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, line := range noted.Settings {
		if !slices.Contains(baseNames(), line.Name) {
			return nil, fmt.Errorf("\"%s\" is not a setting that was changed", line.Name)
		}
		value, set := now[line.Name]
		if !set || !slices.Contains(line.Ours, value) {
			if set != (line.Before != nil) || set && value != *line.Before {
				left = append(left, line.Name)
			}
			continue
		}
		statement := "ALTER SYSTEM RESET " + line.Name
		if line.Before != nil {
			statement = "ALTER SYSTEM SET " + line.Name + " = " + bench.Quote(*line.Before)
		}
		if _, err := conn.Exec(ctx, statement); err != nil {
			return left, err
		}
	}
	_, err = conn.Exec(ctx, "SELECT pg_reload_conf()")
	return left, err
}

// awaitEnd waits until a session that changes settings has exited: it may continue for a moment after its client has
// gone. If it does not exit, it is terminated.
func awaitEnd(ctx context.Context, conn *pgx.Conn, s session) error {
	const poll, grace = 20 * time.Millisecond, time.Second
	const same = " FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"
	for start := time.Now(); ; {
		query := "SELECT true" + same
		if time.Since(start) > grace {
			query = "SELECT pg_terminate_backend(pid)" + same
		}
		var alive bool
		err := conn.QueryRow(ctx, query, s.PID, s.Started).Scan(&alive)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := bench.Sleep(ctx, poll); err != nil {
			return fmt.Errorf("server process %d, which changed settings, does not exit: %w", s.PID, err)
		}
	}
}

// pgbench runs pgbench on the server.
func (g *given) pgbench(ctx context.Context, args ...string) (string, error) {
	cmd := g.installation.Client(ctx, "pgbench", append(args, g.dsn)...)
	// the connection string may depend on environment variables
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return postgres.Output(ctx, cmd, "pgbench")
}

// measureGiven measures on an existing server.
func measureGiven(ctx context.Context, o *Options, p *progress.Phases) (r *result.Result, err error) {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return nil, err
	}
	g, err := openGiven(ctx, installation, o.DSN)
	if err != nil {
		return nil, err
	}
	defer g.close()
	if err := g.recall(ctx, o, true); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.end()) }()
	can, not := g.about.possible(o.variants)
	if err := o.checkLeft(can, not); err != nil {
		return nil, err
	}
	if err := g.check(ctx, o); err != nil {
		return nil, err
	}
	if err := g.find(ctx); err != nil {
		return nil, err
	}
	if err := o.ask(ctx, g, can); err != nil {
		return nil, err
	}
	p.Phase("testing the load")
	if err := g.try(ctx, o); err != nil {
		return nil, err
	}
	if err := g.begin(ctx, can); err != nil {
		return nil, err
	}
	var version string
	if err := g.conn.QueryRow(ctx, "SELECT 'PostgreSQL ' || "+
		"current_setting('server_version')").Scan(&version); err != nil {
		return nil, err
	}
	m := &measurement{o: o, place: g, variants: can, result: o.newResult(version, not), started: time.Now()}
	m.result.Notes = g.limits()
	return m.result, m.run(ctx, p)
}

// recall restores what an earlier program left changed. Without goOn, the run ends after that.
func (g *given) recall(ctx context.Context, o *Options, goOn bool) error {
	old, err := g.remember(ctx, o.stateDir)
	if err != nil {
		return err
	}
	if old == nil {
		if !goOn {
			fmt.Fprintln(o.IO.Out, "nothing to restore: no measurement of this server was interrupted")
		}
		return nil
	}
	left, err := restore(o.DSN, old)
	if err != nil {
		return errors.Join(err, g.journal.keep())
	}
	to := o.IO.Out
	if goOn {
		to = o.IO.ErrOut
	}
	fmt.Fprintf(to, "restored settings that an interrupted measurement had changed at %s: %s\n",
		old.Time.Format("2006-01-02 15:04:05 MST"), strings.Join(names(old.Settings), ", "))
	if left != nil {
		fmt.Fprintf(to, "not restored, because they have been changed since: %s\n", strings.Join(left, ", "))
	}
	return nil
}

func names(lines []journaledLine) []string {
	var all []string
	for _, line := range lines {
		all = append(all, line.Name)
	}
	return all
}

// restoreOnly is "steno bench logging --restore".
func restoreOnly(ctx context.Context, o *Options) error {
	g, err := openGiven(ctx, nil, o.DSN)
	if err != nil {
		return err
	}
	defer g.close()
	if err := g.recall(ctx, o, false); err != nil {
		return err
	}
	return g.journal.remove()
}

// ask describes what will be done to the server, and asks for permission.
func (o *Options) ask(ctx context.Context, g *given, list []variant) error {
	if o.Yes {
		return nil
	}
	var all []string
	for _, s := range g.about.reloadable() {
		all = append(all, s.Name)
	}
	var titles []string
	for _, p := range o.points {
		titles = append(titles, p.title())
	}
	config := g.conn.Config()
	fmt.Fprintf(o.IO.ErrOut, `This changes what the whole server at %s logs, up to %d times, with ALTER SYSTEM and a reload:
%s.
Meanwhile its log and its audit trail lack what it usually writes there. A reload
also brings into force what was changed in its configuration files before.
In database "%s" it runs: %s.
`, config.Host, o.Rounds*len(o.points)*len(list), strings.Join(all, ", "), config.Database, strings.Join(titles, "; "))
	for _, p := range o.points {
		if p.workload.writes {
			fmt.Fprintln(o.IO.ErrOut, "Some of this writes to the database's tables.")
			break
		}
	}
	fmt.Fprint(o.IO.ErrOut, "At the end, also after Ctrl-C, the settings are restored.\nContinue? [y/N] ")
	answer, err := readLine(ctx, o.IO.In)
	if err != nil {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was changed (use --yes to skip the question)")
	}
	return nil
}

// readLine reads an answer, but returns when the context is done.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n')
		line <- text
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case text := <-line:
		return text, nil
	}
}

// try runs one transaction for each client and script, so that what cannot work fails before a setting is changed.
func (g *given) try(ctx context.Context, o *Options) error {
	for _, p := range o.points {
		args := p.args(1)
		args[len(args)-1] = "--transactions=1" // instead of --time
		if _, err := g.pgbench(ctx, args...); err != nil {
			return fmt.Errorf("%s does not work here: %w", p.title(), err)
		}
	}
	return nil
}

// limits returns what cannot be measured on a given server.
func (g *given) limits() []string {
	notes := []string{"All variants shared one server and its tables; only settings that a reload can change were " +
		"compared."}
	for _, library := range g.about.preloaded {
		if library == "pgaudit" || library == "pg_steno" {
			notes = append(notes, library+" was loaded all the time, so \"none\" includes its hooks, which record "+
				"nothing or only mandatory classes: compare throw-away servers to see the whole cost.")
		}
	}
	if g.target.processes == nil {
		notes = append(notes, "The server's processes are not on this machine, or cannot be seen: no CPU time and no "+
			"context switches were measured. The latency includes the network.")
	}
	if g.target.written == nil {
		notes = append(notes, "The server's log does not go through its logging collector: what it writes was "+
			"not measured.")
	}
	return notes
}

// The tables and views of a trail.

package sql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/statement"
)

// Table is a table or a view.
type Table struct {
	Name string
	Doc  string
	// Columns are those of a table that is read directly from the trail.
	Columns []Column
	// query is the definition of a view. Conditions of a statement are appended to those of the table functions
	// that the view calls.
	query string
	// docs explain the columns of a view that are not columns of trail.
	docs [][2]string
	// pushable are the columns of a view whose values are those of records, so that a condition on them is a
	// condition on records. With joins, other names may belong to another table, outside of a subquery.
	pushable []string
}

// recordColumns are the columns for which an index, or the header of a block, can say which records match.
var recordColumns = []string{"time", "user", "role", "app_user", "database", "application",
	"class", "command", "kind",
	"outcome", "sqlstate", "text", "message", "failed"}

var relationRecordColumns = append(recordColumns[:len(recordColumns):len(recordColumns)], "relation")

// identityColumns say who did something.
const identityColumns = `session, "user", role, app_user, database, application, client`

// orderedColumns are the columns of trail, with those first that people look at first.
const orderedColumns = firstColumns + `, * EXCLUDE (` + firstColumns + `)`

const firstColumns = `time, "user", database, command, text, "rows", duration, outcome, sqlstate, message, application, client, role, app_user`

// Tables are all tables and views.
var Tables = []Table{
	{Name: "trail", Doc: "a row for each record", Columns: trailColumns, pushable: recordColumns},
	{Name: "relations", Doc: "a row for each relation that a statement uses", pushable: relationRecordColumns,
		Columns: append(relationColumns[:len(relationColumns):len(relationColumns)], trailColumns...)},
	{Name: "columns", Doc: "a row for each column of a relation that a statement reads or writes",
		pushable: relationRecordColumns,
		Columns:  append(columnColumns[:len(columnColumns):len(columnColumns)], trailColumns...)},
	{Name: "sessions", Doc: "a row for each session that has a record in the range",
		query: `SELECT min(session_start) AS started, max(time) FILTER (kind = 'disconnect') AS ended,
  max(duration) FILTER (kind = 'disconnect') AS duration, arg_min("user", seq) AS "user", any_value(database) AS database,
  any_value(client) AS client, list(DISTINCT application) FILTER (application IS NOT NULL) AS applications,
  count(*) FILTER (kind = 'statement') AS statements, count(*) FILTER (failed) AS failures,
  sum("rows") FILTER (kind = 'statement' AND depth = 0) AS "rows", session, any_value(pid) AS pid,
  list(DISTINCT role) FILTER (role IS NOT NULL) AS roles, list(DISTINCT app_user) FILTER (app_user IS NOT NULL) AS app_users,
  any_value(backend_type) AS backend_type, any_value(auth_method) AS auth_method, any_value(identity) AS identity,
  min(time) AS first_seen, max(time) AS last_seen
FROM steno_trail(conditions) GROUP BY session`,
		docs: [][2]string{{"session", "ID of the session"}, {"started", "when it started"},
			{"ended", "when it ended; NULL: its end is not in the range"},
			{"duration", "how long it lasted"}, {"pid", "process ID"}, {"user", "session user, of its first record"},
			{"roles", "roles that it set"}, {"app_users", "end users that the application named"},
			{"database", "database"},
			{"applications", "values of `application_name`"}, {"client", "client address and port"},
			{"backend_type", "type of the process"},
			{"auth_method", "authentication method"}, {"identity", "authenticated identity"},
			{"statements", "statements, nested ones too"},
			{"failures", "records of what failed"}, {"rows", "rows returned or changed by the client's statements"},
			{"first_seen", "time of its first record"}, {"last_seen", "time of its last record"}}},
	{Name: "transactions", Doc: "a row for each end of a transaction that wrote, or was prepared",
		pushable: []string{"user", "role", "app_user", "database", "application"},
		query: `SELECT time AS ended, extra['event'] AS event, extra['event'] IN ('commit', 'commit prepared') AS committed, "user", database,
  TRY_CAST(extra['statements'] AS BIGINT) AS statements, duration, xid, sqlstate, message, time - duration AS started,
  role, app_user, application, client, session, extra['gid'] AS gid, extra['commit_lsn'] AS commit_lsn,
  extra['end_lsn'] AS end_lsn, TRY_CAST(extra['timeline'] AS BIGINT) AS timeline
FROM steno_trail(conditions || '{"kinds":["transaction"]}') WHERE kind = 'transaction'`,
		docs: [][2]string{{"started", "when it started"}, {"ended", "when it ended"},
			{"duration", "how long it lasted"},
			{"event", "`commit`, `abort`, `prepare`, `commit prepared` or `rollback prepared`"},
			{"committed", "whether it took effect"},
			{"statements", "top-level statements up to its end"}, {"gid", "name of a prepared transaction"},
			{"commit_lsn", "where the WAL record of the commit begins"}, {"end_lsn", "and ends"},
			{"timeline", "timeline of the server"}}},
	{Name: "statements", Doc: "a row for all statements that differ only in constants",
		pushable: []string{"class", "command"},
		query: `SELECT count(*) AS calls, to_microseconds(CAST(sum(duration_us) AS BIGINT)) AS total,
  to_microseconds(quantile_disc(duration_us, 0.5)) AS p50, to_microseconds(quantile_disc(duration_us, 0.99)) AS p99,
  to_microseconds(max(duration_us)) AS longest, count(*) FILTER (failed) AS errors, sum("rows") AS "rows",
  class, command, any_value(text) AS text, fingerprint, min(time) AS first_seen, max(time) AS last_seen
FROM steno_trail(conditions) WHERE kind = 'statement' GROUP BY fingerprint, class, command`,
		docs: [][2]string{{"text", "text of one of them"},
			{"calls", "how often it ran"}, {"errors", "how often it failed"},
			{"rows", "rows returned or changed by all"}, {"total", "duration of all"},
			{"p50", "median of the durations"}, {"p99", "99th percentile"}, {"longest", "longest duration"},
			{"first_seen", "when it first ran"}, {"last_seen", "when it last ran"}}},
	{Name: "failed_logins", Doc: "refused connections",
		pushable: []string{"time", "user", "database", "application", "sqlstate", "message"},
		query: `SELECT time, "user", database, address, sqlstate, message, application, auth_method, identity, client, session, seq
FROM steno_trail(conditions || '{"kinds":["auth_failed"]}') WHERE kind = 'auth_failed'`},
	{Name: "failures", Doc: "what failed, was refused or was interrupted", pushable: recordColumns,
		query: `SELECT ` + orderedColumns + ` FROM steno_trail(conditions || '{"failed":true}') WHERE failed`},
	{Name: "privileged",
		Doc:      "statements about roles, privileges, policies, extensions and the server's configuration",
		pushable: recordColumns,
		query: `SELECT ` + orderedColumns + ` FROM steno_trail(conditions || '{"any":[{"classes":["role","setting"]},{"kinds":["setting"]},{"commands":[` + quotedList(statement.Privileged, `"`) + `]}]}')
WHERE class IN ('role', 'setting') OR kind = 'setting' OR command IN (` + quotedList(statement.Privileged, `'`) + `)`},
	{Name: "ddl", Doc: "statements of class `ddl`", pushable: recordColumns,
		query: `SELECT ` + orderedColumns +
			` FROM steno_trail(conditions || '{"classes":["ddl"]}') WHERE class = 'ddl'`},
	{Name: "grants", Doc: "GRANT, REVOKE and ALTER DEFAULT PRIVILEGES", pushable: recordColumns,
		query: `SELECT ` + orderedColumns + ` FROM steno_trail(conditions || '{"commands":[` +
			quotedList(statement.Grants, `"`) + `]}') WHERE command IN (` + quotedList(statement.Grants, `'`) + `)`},
	{Name: "settings_changed",
		Doc: "changes of the server's settings and of pg_steno's, with ALTER SYSTEM, ALTER ROLE … SET and ALTER " +
			"DATABASE … SET",
		pushable: []string{"time", "user", "role", "app_user", "database", "application", "kind", "command",
			"text", "outcome"},
		query: `WITH changes AS (SELECT time, kind, ` + identityColumns + `, command, text, extra['name'] AS name, extra['old'] AS old_value, extra['new'] AS new_value,
  extra['file'] AS file, TRY_CAST(extra['line'] AS BIGINT) AS line, outcome, rolled_back, seq, extra['source'] AS source,
  lag(time) OVER before AS previous, lag(extra['file']) OVER before LIKE '%postgresql.auto.conf' AS was_altered
FROM steno_trail(conditions || '{"any":[{"kinds":["setting"]},{"commands":["ALTER SYSTEM","ALTER ROLE","ALTER DATABASE"]}]}')
WHERE kind = 'setting' OR command = 'ALTER SYSTEM' OR (command IN ('ALTER ROLE', 'ALTER DATABASE') AND
  regexp_matches(regexp_replace(text, '"([^"]|"")*"', 'x', 'g'), '(?i)\s(RESET|SET)\s+([^T]|T[^A]|TA[^B])'))
WINDOW before AS (PARTITION BY kind, extra['name'], extra['source'] ORDER BY time)),
altered AS (SELECT time, session, seq, regexp_matches(text, '(?i)\bSYSTEM\s+SET\s') AS sets,
  lower(regexp_extract(text, '(?i)\bSYSTEM\s+(?:SET|RESET)\s+"?([a-z0-9_.]+)', 1)) AS name
FROM changes WHERE command = 'ALTER SYSTEM' AND outcome = 'ok')
SELECT c.time, c.name, c.old_value, c.new_value, c."user", c.database, c.command, c.text, c.outcome, c.rolled_back, c.file, c.line,
  c.* EXCLUDE (source, previous, was_altered, time, name, old_value, new_value, "user", database, command, text, outcome, rolled_back, file, line),
  CASE WHEN c.source = 'server' THEN
  (SELECT max_by(a.session || '/' || a.seq, a.time) FROM altered a
   WHERE a.time <= c.time AND a.time > coalesce(c.previous, '-infinity') AND
     CASE WHEN a.sets THEN a.name = c.name AND coalesce(c.file LIKE '%postgresql.auto.conf', true)
          WHEN c.file LIKE '%postgresql.auto.conf' THEN false
          WHEN a.name = c.name THEN c.previous IS NULL OR coalesce(c.was_altered, true)
          ELSE a.name = 'all' AND (c.was_altered OR EXISTS (FROM altered s WHERE s.sets AND s.name = c.name AND s.time < a.time AND c.previous IS NULL)) END) END AS altered_by
FROM changes c`,
		docs: [][2]string{{"name", "name of a setting"}, {"old_value", "its value before"},
			{"new_value", "its value from then on"},
			{"file", "configuration file that has the new value"}, {"line", "its line there"},
			{"altered_by",
				"session and `seq` of the `ALTER SYSTEM` that changed it: the last one since the setting changed " +
					"last, if the value is, or was, in `postgresql.auto.conf`"}}},
	{Name: "slow", Doc: "statements that took a second or longer", pushable: recordColumns,
		query: `SELECT ` + orderedColumns +
			` FROM steno_trail(conditions) WHERE kind = 'statement' AND duration_us >= 1000000`},
	{Name: "access", Doc: "who uses which relation: a row for each user, role, database and relation",
		pushable: []string{"user", "role", "database", "relation"},
		query: `SELECT "user", role, database, relation, any_value(relation_type) AS relation_type,
  list_sort(list_distinct(flatten(list(DISTINCT access)))) AS access, count(DISTINCT (session, seq)) AS statements, count(DISTINCT (session, seq)) FILTER (failed) AS failures,
  count(DISTINCT (session, seq)) FILTER (effect = 'rolled back') AS rolled_back, count(DISTINCT (session, seq)) FILTER (effect = 'unknown') AS unknown,
  min(time) AS first_seen, max(time) AS last_seen
FROM steno_relations(conditions) WHERE kind = 'statement' GROUP BY "user", role, database, relation`,
		docs: accessDocs},
	{Name: "new_access", Doc: "users and relations whose first access in the whole trail is in the range",
		pushable: []string{"user", "database", "relation"},
		query: `SELECT "user", database, relation, any_value(relation_type) AS relation_type,
  list_sort(list_distinct(flatten(list(DISTINCT access)))) AS access, count(DISTINCT (session, seq)) AS statements, count(DISTINCT (session, seq)) FILTER (failed) AS failures,
  count(DISTINCT (session, seq)) FILTER (effect = 'rolled back') AS rolled_back, count(DISTINCT (session, seq)) FILTER (effect = 'unknown') AS unknown,
  min(time) AS first_seen, max(time) AS last_seen
FROM steno_relations(conditions || '{"always":true}') WHERE kind = 'statement' GROUP BY "user", database, relation
HAVING min(time) >= steno_since()`,
		docs: accessDocs},
	{Name: "off_hours",
		Doc: "clients' statements outside of Monday to Friday, 07:00 to 19:00, in the time zone that is " +
			"asked for",
		pushable: recordColumns,
		query: `SELECT ` + orderedColumns + ` FROM steno_trail(conditions)
WHERE kind = 'statement' AND depth = 0 AND (isodow(time) > 5 OR hour(time) < 7 OR hour(time) >= 19)`},
	{Name: "bulk_reads", Doc: "statements of class `read` that returned 10,000 rows or more", pushable: recordColumns,
		query: `SELECT ` + orderedColumns +
			` FROM steno_trail(conditions || '{"classes":["read"]}') WHERE class = 'read' AND "rows" >= ` +
			strconv.Itoa(statement.BulkRows)},
	{Name: "gaps", Doc: "records that could not be written, with their numbers",
		pushable: []string{"time", "user", "role", "app_user", "database", "application"},
		query: `SELECT time, TRY_CAST(extra['count'] AS BIGINT) AS count, extra['reason'] AS reason, "user", database, application, client,
  role, app_user, session, seq, TRY_CAST(extra['first_seq'] AS BIGINT) AS first_seq, TRY_CAST(extra['last_seq'] AS BIGINT) AS last_seq, extra
FROM steno_trail(conditions || '{"kinds":["gap"]}') WHERE kind = 'gap'`,
		docs: [][2]string{{"count", "how many records are missing"}, {"first_seq", "the first of their numbers"},
			{"last_seq", "the last"}, {"reason", "why"}}},
}

var accessDocs = [][2]string{{"relation", "name of the relation with its schema"},
	{"relation_type", "`table`, `view` …"}, {"access", "all kinds of access"},
	{"statements", "how many statements used it"},
	{"failures", "how many of them failed"}, {"rolled_back", "how many were rolled back with their transaction"},
	{"unknown", "of how many it is not known whether they were committed"}, {"first_seen", "time of the first"},
	{"last_seen", "time of the last"}}

func quotedList(names []string, quote string) string {
	return quote + strings.Join(names, quote+","+quote) + quote
}

func init() {
	// Rows of relations have one relation each, so the table has no column with the list of all.
	for i := range Tables {
		if t := &Tables[i]; t.Name == "relations" || t.Name == "columns" {
			kept := t.Columns[:0:0]
			for _, c := range t.Columns {
				if c.Name != "relations" {
					kept = append(kept, c)
				}
			}
			t.Columns = kept
		}
	}
}

// function returns the name of the table function, or macro, that provides the table.
func (t *Table) function() string { return functionPrefix + t.Name }

// functionPrefix begins the names of table functions.
const functionPrefix = "steno_"

// definitions returns the statements that create the tables.
func definitions() []string {
	out := []string{
		"CREATE MACRO steno_since() AS CAST('-infinity' AS TIMESTAMPTZ)",
		// In a statement without a column of that name, "user" would be DuckDB's function, and match nobody.
		`CREATE MACRO user() AS error('no table in FROM has a column "user"')`,
	}
	// DuckDB has functions that change the process or read its memory, whatever its configuration allows; some
	// abort it. These macros hide them. They can still be called as system.main.NAME, deliberately.
	for _, name := range []string{
		"arrow_scan", "arrow_scan_dumb", "checkpoint", "disable_logging", "disable_profiling", "enable_logging",
		"enable_profiling",
		"force_checkpoint", "json_execute_serialized_sql", "truncate_duckdb_logs",
	} {
		out = append(out, fmt.Sprintf("CREATE MACRO %s() AS TABLE SELECT error('%s is not available')", name, name))
	}
	for i := range Tables {
		t := &Tables[i]
		if t.query != "" {
			out = append(out, fmt.Sprintf("CREATE MACRO %s(conditions) AS TABLE %s", t.function(), t.query))
		}
		out = append(out, fmt.Sprintf("CREATE VIEW %s AS SELECT * FROM %s('')", t.Name, t.function()))
	}
	return out
}

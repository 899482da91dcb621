// The fields of a line of JSON: the schema of the lines, and the table in docs/commands/cat.md.

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// field is a field of a line. Its meaning is Markdown, relative to that page. If it is empty, the meaning is
// that of the session key of the same name in records.def.
type field struct {
	name     string
	typ      node
	meaning  string
	required bool
}

// Types of fields.
var (
	text     = node{{"type", "string"}}
	number   = node{{"type", "integer"}, {"minimum", 0}, {"maximum", json64("18446744073709551615")}}
	positive = node{{"type", "integer"}, {"minimum", 1}, {"maximum", json64("18446744073709551615")}}
	unsigned = node{{"type", "integer"}, {"minimum", 0}, {"maximum", json64("4294967295")}}
	signed   = node{{"type", "integer"}, {"minimum", json64("-9223372036854775808")},
		{"maximum", json64("9223372036854775807")}}
	yes     = node{{"const", true}}
	session = node{{"type", "string"}, {"pattern", "^[0-9a-f]+\\.[0-9a-f]+$"}}
	sha256  = node{{"type", "string"}, {"pattern", "^[0-9a-f]{64}$"}}
	digits  = node{{"type", "string"}, {"pattern", "^[0-9]+$"}}
	moment  = node{{"type", "string"},
		{"pattern",
			"^-?[0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2}(:[0-9]{2})?)$"}}
)

// jsonFields are the fields of steno cat --format json, in their order.
var jsonFields = []field{
	{"time", moment, "when it started, in UTC or in the zone of `--time-zone`: RFC 3339 with microseconds. For `transaction`, `disconnect` and other events, when it happened", true},
	{"kind", ref("kind"), "[kind](records.md#kinds) of the record", true},
	{"session", session, "ID of the session: start time in seconds since 1970 and process ID, both in hexadecimal, like PostgreSQL's `%c`; unique across restarts", true},
	{"seq", positive, "sequence number of the record in its session, without gaps. Absent: the record has none, as a `start` record that a writer makes for a statement that runs long", false},
	{"statement", positive, "number of the top-level statement in the session; in `statement` and `start` records only. With `leader`, it is the number in that session", false},
	{"substatement", positive, "number of a nested statement in its top-level statement. Absent: it is not nested", false},
	{"depth", positive, "nesting depth. Absent: a client's own statement", false},
	{"pid", unsigned, "process ID", true},
	{"user", text, "", false},
	{"role", text, "", false},
	{"app_user", text, "", false},
	{"app_context", text, "", false},
	{"database", text, "", false},
	{"application", text, "", false},
	{"client", text, "", false},
	{"leader", text, "", false},
	{"leader_substatement", number, "", false},
	{"encoding", text, "", false},
	{"backend_type", text, "in `connect`, `auth_failed` and `disconnect` records only: type of process, as in `pg_stat_activity`", false},
	{"auth_method", text, "in these records only: authentication method, as named in pg_hba.conf", false},
	{"identity", text, "in these records only: authenticated identity", false},
	{"class", ref("class"), "[class](records.md#classes). Absent: a record of a kind that has none, such as `gap`, `server`, `seal` and `note`", false},
	{"command", text, "command tag, as `SELECT` or `CREATE TABLE`. Absent: it was not known, as for a statement with a syntax error", false},
	{"query_command", text, "command tag of the query that a utility statement contains, such as `COPY (DELETE …)`, if that is `INSERT`, `UPDATE`, `DELETE` or `MERGE`", false},
	{"prepared", text, "name that the client has given to the [prepared statement](records.md#prepared-statements-and-portals). Absent: it has none", false},
	{"relations", listOf("relation"), "relations that the statement uses. Absent: it uses none, or they are [not known](records.md#names-that-no-record-has)", false},
	{"objects", listOf("object"), "[objects](records.md#what-a-statement-did-to-an-object) that DDL created, altered, renamed or dropped, and functions that were called. Absent: there are none", false},
	{"text", text, "text of the statement or note. Absent: there is none, as for a [function call without a statement](records.md#function-calls-without-a-statement)", false},
	{"text_bytes", number, "full length of a text that was truncated, in bytes, in the encoding of the database. Absent: it is complete", false},
	{"text_sha256", sha256, "SHA-256 of the full text that was truncated, of these bytes, in hexadecimal. Absent: the text is complete, or its hash was not computed. Servers of this release truncate a text only when there is no space for it, and then compute none", false},
	{"params", node{{"type", "array"}, {"items", node{{"type", []any{"string", "null"}}}}}, "values of the parameters, `$1` first, as PostgreSQL [prints](records.md#parameter-values) them (timestamps with time zone in UTC; a `numeric` with more than 400 zeros that are not stored, as an integer and a power of ten: `1e131068`). `null`: NULL, or a variable of a function that the statement does not use; those behind the last one that it uses are left out. `\"<not recorded>\"`: the value could not be recorded; `\"<unknown representation>\"`: a newer server has written it in a way that this `steno` does not know; `\"<damaged value>\"`: PostgreSQL has no such value. Absent: there are none, or `steno.log_parameter` is off", false},
	{"query_id", signed, "as `pg_stat_statements.queryid`, a signed number of 64 bits: parse it as an integer, not as a double. Absent: it was not computed", false},
	{"rows", number, "rows returned or changed. Absent: the statement has none, or failed", false},
	{"duration_us", number, "duration in microseconds; [what it includes](records.md#durations). Absent: it has none, or has not ended", false},
	{"outcome", ref("outcome"), "[outcome](records.md#outcomes); always there in `statement`, `start`, `connect` and `auth_failed` records", false},
	{"sqlstate", node{{"type", "string"}}, "SQLSTATE of the failure. Absent: nothing failed, or it is not known", false},
	{"message", text, "message of the failure, as the client got it", false},
	{"analysis_us", number, "microseconds of the duration that parsing and parse analysis took. Absent: [not told apart](records.md#durations)", false},
	{"plan_us", number, "microseconds of the duration that planning took; likewise", false},
	{"commit_us", number, "microseconds that the commit took, after the duration; likewise", false},
	{"elapsed_us", number, "microseconds from `time` to the end of the last work for the statement. Absent: the same as `duration_us`, to a millisecond", false},
	{"xid", positive, "transaction ID of 64 bits, with its epoch, like `pg_current_xact_id()`; the lower 32 bits are the ID in `xmin`, in the server's log and in [change streams](records.md#joining-a-change-stream). Absent: the transaction had not written yet", false},
	{"rolled_back", yes, "the statement succeeded, and was [rolled back](#statements-that-were-rolled-back) with its transaction. Absent: it was not, or nobody knows", false},
	{"portal", text, "name of the [portal or cursor](records.md#prepared-statements-and-portals); in `statement` and `start` records only. Absent: it has none", false},
	{"extra", ref("extra"), "[further names and values](records.md#further-names-and-values), which depend on the kind of the record. All values are strings", false},
	{"audited", node{{"type", "array"}, {"items", ref("audited")}, {"minItems", 1}, {"uniqueItems", true}}, "[why](records.md#why-a-record-was-written) the record was written. Absent: for `session` alone", false},
	{"stream", unsigned, "position in the trail: number of the stream,", true},
	{"segment", number, "of the segment in it,", true},
	{"block", number, "and of the block in the stream", true},
	{"host", text, "host of the server that recorded it, as the `server` record of its start says. Absent: that record is not in the trail", false},
	{"cluster_name", text, "`cluster_name` of that server. Absent: it has none, or is not known", false},
	{"system_identifier", digits, "system identifier of the database cluster, as `pg_control_system()` shows it: the same for a primary and its standbys. Where the header of a segment is damaged, it is that of the next one", false},
}

// of returns the meaning of the field.
func (f *field) of(lists []list) string {
	if f.meaning != "" {
		return f.meaning
	}
	for _, l := range lists {
		if l.macro == "SESSION_KEY" {
			for _, e := range l.entries {
				if e.name == f.name {
					return e.meaning
				}
			}
		}
	}
	panic(f.name + " has no meaning")
}

// relationFields and objectFields are the fields of the members of relations and objects.
var (
	relationFields = []field{
		{"name", text, "name with its schema, as SQL writes it; with access `named`, as it is written in the statement", true},
		{"type", ref("relation_type"), "what it is", true},
		{"access", ref("accesses"), "how it was used: one or more names, separated by commas. Empty: it was only looked up", true},
		{"columns", ref("columns"), "[columns](records.md#columns) that are read and written, by kind of access. Absent: they are not known, as of statements that name a relation without a query (`LOCK`, `TRUNCATE`, DDL), of access `named`, and of records that were written in the ring reserve; or the statement only deletes rows", false},
		{"columns_omitted", ref("accesses"), "the kinds of access for which further columns did not fit into the record", false},
		{"via", text, "name of the view through which it is reached", false},
		{"audited", yes, "`steno.role` has a privilege that the statement used", false},
	}
	objectFields = []field{
		{"name", text, "name as in PostgreSQL's event triggers", true},
		{"type", text, "type as in PostgreSQL's event triggers: `table`, `function` …", true},
		{"action", ref("action"), "what was done to it", true},
		{"to", text, "its new name, if it was renamed", false},
	}
)

// An enumeration is a list of records.def whose names are values in JSON.
type enumeration struct {
	name, macro string
	unnamed     string // how a number without a name is shown
	rule        string // what a reader does with an unknown name
	where       string // the fields with these values
	heading     string // in docs/records.md
	without     string // a name that does not occur in JSON
	records     bool   // of kinds: only those of records
}

var enumerations = []enumeration{
	{"kind", "KIND", "kind", "A reader shows or counts the record by the fields that it knows, and does not take it for a statement.", "`kind`", "kinds", "", true},
	{"class", "CLASS", "class", "A reader must not assume that the statement reads or writes nothing.", "`class`", "classes", "", false},
	{"outcome", "OUTCOME", "outcome", "A reader must not take it for a success.", "`outcome`", "outcomes", "", false},
	{"event", "EVENT", "event", "A reader must not take the transaction for committed.", "`event` in `extra` of a `transaction`", "events-of-transactions", "", false},
	{"relation_type", "RELTYPE", "type", "A reader treats it as `relation`.", "`type` in `relations`", "types-of-relations", "", false},
	{"access", "ACCESS", "access", "A reader must not assume that the relation was only read.", "`access`, `columns` and `columns_omitted` in `relations`", "access-to-relations", "audited", false},
	{"action", "ACTION", "action", "A reader must not assume that the object is as before.", "`action` in `objects`", "what-a-statement-did-to-an-object", "", false},
	{"audited", "AUDITED", "audited", "A reader takes it for a further reason; the record counts as any other.", "`audited`", "why-a-record-was-written", "", false},
}

// entriesOf returns the values of an enumeration.
func (e *enumeration) entriesOf(lists []list) (entries []entry) {
	for _, l := range lists {
		for _, entry := range l.entries {
			n, _ := strconv.Atoi(entry.number)
			if l.macro == e.macro && entry.name != e.without && (!e.records || n < 64) {
				entries = append(entries, entry)
			}
		}
	}
	return entries
}

// rulesTable returns the table in docs/formats.md of what readers do with unknown names.
func rulesTable() string {
	var b strings.Builder
	b.WriteString("| names of | where | a number without a name | a name that a reader does not know " +
		"|\n|---|---|---|---|\n")
	for _, e := range enumerations {
		fmt.Fprintf(&b, "| [%s](records.md#%s) | %s | `%s_37` | %s |\n", strings.ReplaceAll(e.name, "_", " "),
			e.heading, e.where, e.unnamed, e.rule)
	}
	return b.String()
}

// plain removes links from Markdown, for a description in a schema.
func plain(markdown string) string {
	for {
		before, rest, ok := strings.Cut(markdown, "](")
		if !ok {
			return markdown
		}
		_, after, _ := strings.Cut(rest, ")")
		i := strings.LastIndexByte(before, '[')
		markdown = before[:i] + before[i+1:] + after
	}
}

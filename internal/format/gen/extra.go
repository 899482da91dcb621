// The names in extra: their part of the schema, and their table in docs/records.md.

package main

import (
	"fmt"
	"strings"
)

// further is a name in extra, for records of some kinds, or for server records with some events.
type further struct {
	of      []string // kinds, or events of kind server; none: records of any kind
	name    string
	typ     node
	meaning string
}

// Types of values in extra, all of which are strings.
var (
	hash   = node{{"type", "string"}, {"pattern", "^[0-9a-f]{64}$"}}
	lsn    = node{{"type", "string"}, {"pattern", "^[0-9A-F]+/[0-9A-F]+$"}}
	hexKey = node{{"type", "string"}, {"pattern", "^[0-9a-f]{16}$"}}
)

// words returns the schema for one of several names. Later releases may have others.
func words(names ...any) node {
	return node{{"anyOf", []any{node{{"enum", names}}, ref("other")}}}
}

var (
	statements = []string{"statement", "start"}
	ofSub      = []string{"subtransaction"}
	ofCommit   = []string{"transaction"}
	ofSetting  = []string{"setting"}
	ofSeal     = []string{"seal"}
	ofGap      = []string{"gap"}
	ofServer   = []string{"server"}
	ofStart    = []string{"server start"}
	identity   = []string{"server start", "server branch"}
	ofBranch   = []string{"server branch"}
	ofDeleted  = []string{"server deleted"}
	outage     = []string{"server failure", "server recovered"}
)

// furtherNames are all names in extra that a server or steno recover can write.
var furtherNames = []further{
	{nil, "salvaged", text, "where `steno recover` found the record, in a damaged block: nothing proves it any more"},

	{statements, "relations_omitted", digits, "number of relations that the record leaves out"},
	{statements, "objects_omitted", digits, "number of objects that it leaves out"},
	{statements, "columns_omitted", digits, "number of columns that it leaves out"},
	{statements, "parameters_omitted", digits, "number of parameters that it leaves out"},
	{statements, "further_bytes", digits, "only if the record is damaged: bytes of further relations and objects"},
	{statements, "search_path", text, "schemas in which relations with access `named` and a name without a schema were looked for, as SQL writes them, separated by commas"},

	{ofCommit, "event", ref("event"), "how the transaction ended"},
	{ofCommit, "statements", digits, "number of its top-level statements up to its end"},
	{ofCommit, "commit_lsn", lsn, "where the WAL record of the commit begins, as `pg_lsn`"},
	{ofCommit, "end_lsn", lsn, "where it ends"},
	{ofCommit, "timeline", digits, "timeline of these positions"},
	{ofCommit, "gid", text, "name of a two-phase transaction"},
	{ofCommit, "unseen", text, "the session has seen no statement of the transaction except those that control it: the client's message, cut after 1000 bytes, empty if it is not known"},

	{ofSub, "first_seq", digits, "first record of the session that was written while it ran"},
	{ofSub, "last_seq", digits, "last one"},
	{ofSub, "after_statement", digits, "number of the last statement that began before it"},
	{ofSub, "after_substatement", digits, "and of the last nested statement of that one"},

	{ofSetting, "name", text, "name of the setting"},
	{ofSetting, "old", text, "value before"},
	{ofSetting, "new", text, "value from now on"},
	{ofSetting, "source", words("session", "connection", "role", "database", "server"), "where the new value comes from"},
	{ofSetting, "file", text, "configuration file that has it; with source `server`"},
	{ofSetting, "line", digits, "and the line in it"},
	{ofSetting, "errors", digits, "of `steno.rules_file`, whose values are numbers of rules: errors in the file"},
	{ofSetting, "sha256", node{{"type", "string"}, {"pattern", "^[0-9a-f]{64}$"}}, "of `steno.rules_file`: SHA-256 of the rules in force"},

	{ofGap, "count", digits, "number of records that are lost"},
	{ofGap, "first_seq", digits, "sequence number of the first one; 0 or absent if it is not known"},
	{ofGap, "last_seq", digits, "and of the last one"},
	{ofGap, "reason", words("ring full", "trail not writable", "ring damaged"), "why"},
	{ofGap, "bytes", digits, "bytes in the ring that cannot be read, if the number of records is not known"},

	{ofSeal, "reason", words("start", "interval", "segment", "stop", "key", "end"), "why the seal was made"},
	{ofSeal, "block", digits, "number of the sealed block"},
	{ofSeal, "record", digits, "number of the last record up to its end"},
	{ofSeal, "hash", hash, "its chain hash"},
	{ofSeal, "first", digits, "first block that this run of the writer wrote"},
	{ofSeal, "interval", digits, "`steno.seal_interval` in seconds"},
	{ofSeal, "key", hexKey, "ID of the key"},
	{ofSeal, "next_key", hash, "public key of the next seals, with reason `key`"},
	{ofSeal, "signature", node{{"type", "string"}, {"pattern", "^[0-9a-f]{128}$"}}, "Ed25519 signature"},

	{ofServer, "event", words("start", "stop", "recover", "torn", "lost", "deleted", "failure", "recovered", "restart", "begin", "branch", "other_trail", "salvage"), "what happened"},
	{ofServer, "version", text, "version of PostgreSQL"},
	{identity, "run", node{{"type", "string"}, {"pattern", "^[0-9a-f]{32}$"}}, "ID of the run: random digits"},
	{identity, "system_identifier", digits, "system identifier of the cluster"},
	{identity, "timeline", digits, "timeline at the start"},
	{identity, "host", text, "name of the host"},
	{identity, "data_directory", text, "data directory"},
	{identity, "cluster_name", text, "setting `cluster_name`, if it is set"},
	{ofStart, "began", text, "when it began, in UTC: its sessions may have recorded before this record was written"},
	{ofStart, "max_prepared_transactions", digits, "that setting"},
	{ofStart, "log_min_messages", text, "that setting"},
	{ofStart, "log_min_messages_of_sessions", words("recorded"), "each session whose own value hides failures has a record of kind `setting`"},
	{ofStart, "not_run_since_wal", lsn, "the server was not run since its last stop: `wal` of that one"},
	{ofStart, "shut_down", text, "when it had shut down then, by its control file"},
	{ofStart, "steno.*", text, "settings of pg_steno that have a value from the configuration, each by its name, as SHOW shows them"},
	{[]string{"server stop"}, "wal", lsn, "position in the WAL when no session could run a statement any more"},
	{[]string{"server recover", "server failure", "server recovered", "server restart", "server other_trail"}, "since", text, "when that run began, or from when on something did not work, in UTC"},
	{[]string{"server recover", "server deleted", "server salvage"}, "records", digits, "number of records recovered, deleted or salvaged"},
	{[]string{"server torn", "server deleted"}, "bytes", digits, "bytes that were cut off or deleted"},
	{[]string{"server lost"}, "blocks", node{{"type", "string"}, {"pattern", "^[0-9]+-[0-9]+$"}}, "numbers of the first and the last block that a disk has lost"},
	{[]string{"server lost", "server deleted", "server branch", "server other_trail", "server salvage"}, "stream", digits, "number of the stream that it is about"},
	{append(outage, "server branch", "server deleted"), "reason", text, "why: of a failure, the error; of a branch, `copy`, `foreign blocks`, `altered`, `cut off`, `gone` or `unknown`; of a deletion, `size`, `age` or `slot_max_size`"},
	{[]string{"server recovered"}, "until", text, "until when it did not work, in UTC"},
	{[]string{"server recovered"}, "attempts", digits, "attempts that failed"},
	{[]string{"server recovered"}, "dropped", digits, "records dropped meanwhile"},
	{[]string{"server recovered"}, "refused", digits, "statements refused meanwhile"},
	{[]string{"server restart", "server begin"}, "writer", digits, "number of the writer"},
	{[]string{"server branch", "server other_trail"}, "block", digits, "last block of that stream that counts"},
	{ofBranch, "hash", hash, "its chain hash"},
	{ofBranch, "found", digits, "number of the block with which that stream ended"},
	{ofBranch, "unused", words("true"), "no writer used that stream"},
	{ofBranch, "from_run", text, "with reason `copy`: the run that last used what the data directory is a copy of,"},
	{ofBranch, "from_host", text, "its host,"},
	{ofBranch, "from_directory", text, "and its data directory"},
	{[]string{"server deleted", "server other_trail"}, "chain", hash, "chain hash of the last block"},
	{[]string{"server other_trail"}, "session", text, "a session that has records in another trail"},
	{[]string{"server other_trail"}, "last_seq", digits, "number of its last record there"},
	{ofDeleted, "first_segment", digits, "first segment that was deleted"},
	{ofDeleted, "last_segment", digits, "last one"},
	{ofDeleted, "first_block", digits, "first block in these"},
	{ofDeleted, "last_block", digits, "last one"},
	{ofDeleted, "last_record", digits, "number of the last record"},
	{ofDeleted, "since_segment", digits, "first segment of an uninterrupted series of deletions"},
	{ofDeleted, "total_records", digits, "records of that series"},
	{ofDeleted, "total_bytes", digits, "bytes of that series"},
	{ofDeleted, "missing", digits, "segments of that series that no longer existed"},
	{ofDeleted, "repeated", words("true"), "nothing is deleted now: the record repeats an earlier one"},
	{[]string{"server recover", "server salvage"}, "program", text, "`steno recover` that wrote the record"},
	{[]string{"server recover"}, "ring_file", text, "ring file that it read"},
	{[]string{"server recover"}, "postmaster", digits, "process ID of that server"},
	{[]string{"server salvage"}, "segment", digits, "segment that has the damaged block,"},
	{[]string{"server salvage"}, "offset", digits, "and where in it"},
}

// furtherTable returns the table of these names in docs/records.md.
func furtherTable() string {
	var b strings.Builder
	b.WriteString("| of | name | value | meaning |\n|---|---|---|---|\n")
	for _, f := range furtherNames {
		of := "any record"
		if len(f.of) > 0 {
			var names []string
			for _, k := range f.of {
				kind, event, isEvent := strings.Cut(k, " ")
				if isEvent {
					kind = event
				}
				names = append(names, "`"+kind+"`")
			}
			of = strings.Join(names, ", ")
			if strings.Contains(f.of[0], " ") {
				of = "`server`: " + of
			}
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", of, f.name, valueOf(f.typ), f.meaning)
	}
	return b.String()
}

// valueOf describes a value in extra.
func valueOf(typ node) string {
	for _, m := range typ {
		switch m.key {
		case "pattern":
			switch m.value {
			case digits.get("pattern"):
				return "number"
			case lsn.get("pattern"):
				return "position in the WAL"
			}
			if strings.Contains(m.value.(string), "[0-9a-f]") {
				return "hexadecimal digits"
			}
			return "two numbers"
		case "$ref":
			return "[name](#events-of-transactions)"
		case "anyOf":
			var names []string
			for _, n := range m.value.([]any)[0].(node).get("enum").([]any) {
				names = append(names, fmt.Sprintf("`%s`", n))
			}
			return strings.Join(names, ", ")
		}
	}
	return "text"
}

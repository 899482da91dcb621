// The fields of every format, which the tables of docs/formats.md list.

package render

// A Field says where the value of one field of a format comes from.
type Field struct{ Name, From string }

// Fields are all fields of a format, for those of other programs. The tables of
// docs/formats.md are made of them, and a test compares them with what the
// renderers write.
func Fields(f Format) []Field {
	switch f {
	case CSVLog:
		return csvlogFields
	case Pgaudit:
		return pgauditFields
	case ECS:
		return append(ecsFields[:len(ecsFields):len(ecsFields)], restFields("pg_steno.")...)
	case OCSF:
		return append(ocsfFields[:len(ocsfFields):len(ocsfFields)], restFields("unmapped.")...)
	case OTel:
		return otelFields
	}
	return nil
}

var csvlogFields = []Field{
	{"log_time", "the end of the statement or event, UTC, in milliseconds"},
	{"user_name", "`user`"},
	{"database_name", "`database`"},
	{"process_id", "`pid`"},
	{"connection_from", "`client`"},
	{"session_id", "`session`"},
	{"session_line_num", "`seq`: the server counts lines, the trail records"},
	{"command_tag", "`command`; `authentication` and `idle` at the beginning and end of a session"},
	{"session_start_time", "start of the `session`"},
	{"virtual_transaction_id", "empty"},
	{"transaction_id", "`xid`, 0 when there is none"},
	{"error_severity", "`LOG`; `ERROR`, or `FATAL` where it ended the session, for what failed"},
	{"sql_state_code", "`sqlstate`, 00000 when there is none"},
	{"message", "`duration: … ms  statement: …` from `duration_us` and `text`, with `execute <unnamed>:` when there are parameters; `message` of what failed; what the server says of connections"},
	{"detail", "`parameters: $1 = '…'` from `params`"},
	{"hint", "empty"},
	{"internal_query", "empty"},
	{"internal_query_pos", "empty"},
	{"context", "empty"},
	{"query", "`text` of what failed"},
	{"query_pos", "empty"},
	{"location", "empty"},
	{"application_name", "`application`"},
	{"backend_type", "`backend_type`"},
	{"leader_pid", "empty"},
	{"query_id", "`query_id`, 0 when there is none"},
}

var pgauditFields = []Field{
	{"AUDIT_TYPE", "`OBJECT` for a relation that is `audited`, else `SESSION`"},
	{"STATEMENT_ID", "counts the statements of the session that are shown"},
	{"SUBSTATEMENT_ID", "counts those within a statement: nested ones, and functions called"},
	{"CLASS", "`class` in capitals; `MISC` for `misc_set` and `transaction`"},
	{"COMMAND", "`command`; of a relation, what `access` says; of an object, what was done to it; `EXECUTE` of a function"},
	{"OBJECT_TYPE", "`type` of the relation or object, in capitals"},
	{"OBJECT_NAME", "its `name`, or `to` when it was renamed"},
	{"STATEMENT", "`text`"},
	{"PARAMETER", "`params` with `log_parameter`"},
	{"ROWS", "`rows` with `log_rows`"},
}

var ecsFields = []Field{
	{"@timestamp", "`time`"},
	{"ecs.version", ECSVersion},
	{"message", "`text`"},
	{"event.kind", "`event`"},
	{"event.category", "by `kind` and `class`: `database`, with `iam` for `role`; `authentication`, `session`, `configuration`"},
	{"event.type", "`access`, `change`, `info`, `error`, `admin`, `start` or `end`"},
	{"event.action", "`command`, or `kind` when there is none"},
	{"event.outcome", "`success`, `failure`, or `unknown` for what runs or was interrupted"},
	{"event.id", "`session` and `seq`, or, when it has no number, `start`, `statement` and `substatement`: `6b0202d9.fa1/3`, `6b0202d9.fa1/start/2.0`"},
	{"event.sequence", "`seq`"},
	{"event.duration", "`duration_us`, in nanoseconds"},
	{"event.start", "`time` of a statement"},
	{"event.end", "`time` and `duration_us` of a statement"},
	{"event.module", "`pg_steno`"},
	{"event.dataset", "`pg_steno.trail`"},
	{"host.name", "`host`"},
	{"service.type", "`postgresql`"},
	{"service.name", "`cluster_name`"},
	{"service.id", "`system_identifier`: the same for all servers of a cluster"},
	{"process.pid", "`pid`"},
	{"user.name", "`user`"},
	{"user.effective.name", "`role`"},
	{"client.user.name", "`app_user`"},
	{"source.address", "`client`, without the port"},
	{"source.ip", "`client`, when it is an address of the Internet"},
	{"source.port", "`client`"},
	{"related.user", "`user`, `role`, `app_user`, `identity`"},
	{"related.ip", "`client`"},
	{"error.code", "`sqlstate`"},
	{"error.message", "`message`"},
	{"pg_steno.kind", "`kind`"},
	{"pg_steno.session", "`session`"},
	{"pg_steno.database", "`database`"},
	{"pg_steno.application", "`application`"},
	{"pg_steno.app_context", "`app_context`"},
	{"pg_steno.leader", "`leader`"},
	{"pg_steno.leader_substatement", "`leader_substatement`"},
	{"pg_steno.encoding", "`encoding`"},
	{"pg_steno.backend_type", "`backend_type`"},
	{"pg_steno.auth_method", "`auth_method`"},
	{"pg_steno.identity", "`identity`"},
}

var ocsfFields = []Field{
	{"class_uid", "6005 Datastore Activity: `statement`, `start`, `transaction`, `subtransaction`; 3002 Authentication: `connect`, `auth_failed`, `disconnect`; 0 Base Event: all others"},
	{"category_uid", "6, 3 and 0"},
	{"activity_id", "by `command`: 4 Query `SELECT`, 6 Create `INSERT`, 2 Update `UPDATE`, 7 Delete `DELETE`, `TRUNCATE TABLE`; by `class`: 1 Read `read`, 5 Write `write`; 1 Logon, 2 Logoff; else 99 Other"},
	{"type_uid", "`class_uid` * 100 + `activity_id`"},
	{"activity_name", "`command`, or `kind`, for 99 Other"},
	{"time", "`time`, in milliseconds since 1970"},
	{"start_time", "`time` of a statement, so too"},
	{"end_time", "`time` and `duration_us` of a statement, so too"},
	{"duration", "`duration_us`, in milliseconds"},
	{"severity_id", "1 Informational; 2 Low: failed or interrupted; 3 Medium: `auth_failed`; 4 High: `gap`"},
	{"status_id", "1 Success, 2 Failure, 99 Other"},
	{"status", "their names; for 99 `outcome` or `kind`"},
	{"status_code", "`sqlstate`"},
	{"status_detail", "`message`"},
	{"metadata.version", OCSFVersion},
	{"metadata.product.name", "`pg_steno`"},
	{"metadata.product.vendor_name", "`pg_steno`"},
	{"metadata.log_name", "`trail`"},
	{"metadata.event_code", "`kind`"},
	{"metadata.uid", "`session` and `seq`, or, when it has no number, `start`, `statement` and `substatement`: `6b0202d9.fa1/3`, `6b0202d9.fa1/start/2.0`"},
	{"metadata.sequence", "`seq`"},
	{"metadata.original_time", "`time`"},
	{"actor.user.name", "`user`; in Datastore Activity"},
	{"actor.session.uid", "`session`; in Datastore Activity, as the next three"},
	{"actor.session.created_time", "start of the `session`, in milliseconds since 1970"},
	{"actor.session.is_remote", "whether `client` is an address of the Internet"},
	{"actor.process.pid", "`pid`"},
	{"actor.app_name", "`application`"},
	{"database.name", "`database`; in Datastore Activity"},
	{"database.type_id", "1"},
	{"database.type", "`Relational`"},
	{"type_id", "1"},
	{"type", "`Database`"},
	{"src_endpoint.ip", "`client`"},
	{"src_endpoint.port", "`client`"},
	{"src_endpoint.name", "`client`, when it is no address of the Internet: `[local]`; `server` for its own processes"},
	{"dst_endpoint.hostname", "`host`; in Datastore Activity and Authentication, as the next two"},
	{"dst_endpoint.svc_name", "`cluster_name`"},
	{"dst_endpoint.uid", "`system_identifier`"},
	{"query_info.query_string", "`text`"},
	{"table.name", "the relation's name, when there is one relation"},
	{"user.name", "`user`; in Authentication, as the rest up to `logon_type`"},
	{"session.uid", "`session`"},
	{"session.created_time", "start of the `session`, in milliseconds since 1970"},
	{"session.is_remote", "whether `client` is an address of the Internet"},
	{"service.name", "`postgresql`"},
	{"auth_protocol", "`auth_method`"},
	{"auth_protocol_id", "2 Kerberos, 10 RADIUS, 12 LDAP, else 99 Other"},
	{"is_remote", "whether `client` is an address of the Internet"},
	{"logon_type_id", "3"},
	{"logon_type", "`Network`"},
	{"message", "`text`, or `kind`; in Base Event"},
	{"unmapped.time", "`time`, with microseconds"},
	{"unmapped.duration_us", "`duration_us`"},
	{"unmapped.role", "`role`"},
	{"unmapped.app_user", "`app_user`"},
	{"unmapped.app_context", "`app_context`"},
	{"unmapped.leader", "`leader`"},
	{"unmapped.leader_substatement", "`leader_substatement`"},
	{"unmapped.encoding", "`encoding`"},
	{"unmapped.backend_type", "`backend_type`"},
	{"unmapped.identity", "`identity`"},
	{"unmapped.session", "`session`; in Base Event"},
	{"unmapped.user", "`user`; in Base Event, as the next three"},
	{"unmapped.host", "`host`"},
	{"unmapped.cluster_name", "`cluster_name`"},
	{"unmapped.system_identifier", "`system_identifier`"},
	{"unmapped.database", "`database`; in Authentication and Base Event"},
}

// restFields are those that ECS and OCSF have no place for.
func restFields(prefix string) []Field {
	var fields []Field
	for _, name := range []string{
		"statement", "substatement", "depth", "class", "command", "relations", "objects", "query_id", "text_bytes", "params",
		"rows", "outcome", "xid", "rolled_back", "extra", "audited", "stream", "segment", "block",
	} {
		fields = append(fields, Field{prefix + name, "`" + name + "`"})
	}
	return fields
}

var otelFields = []Field{
	{"resource service.name", "`postgresql`"},
	{"resource host.name", "`host`"},
	{"resource pg_steno.cluster_name", "`cluster_name`"},
	{"resource pg_steno.system_identifier", "`system_identifier`"},
	{"timeUnixNano", "`time`, in nanoseconds since 1970"},
	{"observedTimeUnixNano", "the end of the statement or event, so too"},
	{"severityNumber", "9; 17 for what failed and for `gap`, 13 for what was interrupted"},
	{"severityText", "`INFO`, `ERROR`, `WARN`"},
	{"eventName", "`pg_steno.` and the `kind`"},
	{"body", "`message` of what failed; `text` of a `note`"},
	{"db.system.name", "`postgresql`"},
	{"db.namespace", "`database`; the schema is not known"},
	{"user.name", "`user`"},
	{"session.id", "`session`"},
	{"process.pid", "`pid`"},
	{"client.address", "`client`, without the port"},
	{"client.port", "`client`"},
	{"db.operation.name", "`command`: PostgreSQL's command tag, never parsed from the text"},
	{"db.collection.name", "the relation's name, when there is one relation"},
	{"db.query.text", "`text`"},
	{"db.query.parameter.<key>", "`params`, the keys counting from 0; NULL has no value"},
	{"db.response.status_code", "`sqlstate`"},
	{"error.type", "`sqlstate`"},
	{"db.response.returned_rows", "`rows`"},
	{"pg_steno.kind", "`kind`"},
	{"pg_steno.seq", "`seq`"},
	{"pg_steno.statement", "`statement`"},
	{"pg_steno.substatement", "`substatement`"},
	{"pg_steno.depth", "`depth`"},
	{"pg_steno.role", "`role`"},
	{"pg_steno.application", "`application`"},
	{"pg_steno.app_user", "`app_user`"},
	{"pg_steno.app_context", "`app_context`"},
	{"pg_steno.leader", "`leader`"},
	{"pg_steno.leader_substatement", "`leader_substatement`"},
	{"pg_steno.encoding", "`encoding`"},
	{"pg_steno.backend_type", "`backend_type`"},
	{"pg_steno.auth_method", "`auth_method`"},
	{"pg_steno.identity", "`identity`"},
	{"pg_steno.class", "`class`"},
	{"pg_steno.relations", "`relations`"},
	{"pg_steno.objects", "`objects`"},
	{"pg_steno.query_id", "`query_id`"},
	{"pg_steno.text_bytes", "`text_bytes`"},
	{"pg_steno.duration_us", "`duration_us`"},
	{"pg_steno.outcome", "`outcome`"},
	{"pg_steno.xid", "`xid`"},
	{"pg_steno.rolled_back", "`rolled_back`"},
	{"pg_steno.audited", "`audited`"},
	{"pg_steno.extra", "`extra`"},
	{"pg_steno.stream", "`stream`"},
	{"pg_steno.segment", "`segment`"},
	{"pg_steno.block", "`block`"},
}

// The schemas of ecs, ocsf and otel. Tables in docs/formats.md list their fields and say where each comes from.
// Types of fields are defined here, or, for fields of our own, by the schema of JSON.

package main

import (
	"fmt"
	"slices"
	"strings"
)

// schemas returns the schemas of all formats that have one.
func schemas(lists []list, formats string) (map[string]node, error) {
	all := map[string]node{"json": recordSchema(lists)}
	schemas := map[string]func([][2]string, []list) (node, error){
		"ecs": ecsSchema, "ocsf": ocsfSchema, "otel": otelSchema,
	}
	for format, of := range schemas {
		rows, err := documented(formats, format)
		if err != nil {
			return nil, err
		}
		if all[format], err = of(rows, lists); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// documented returns the fields of a format in docs/formats.md, and where they come from.
func documented(page, format string) (rows [][2]string, err error) {
	_, rest, ok := strings.Cut(page, "<!-- fields of "+format+" -->\n| field | from |\n|---|---|\n")
	rest, _, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 {
		return nil, fmt.Errorf("%s: no table of the fields of %s", formatsPath, format)
	}
	for line := range strings.Lines(rest) {
		name, from, _ := strings.Cut(strings.Trim(line, "| \n"), " | ")
		rows = append(rows, [2]string{strings.Trim(name, "`"), from})
	}
	return rows, nil
}

// own returns the type of a field that JSON also has.
func own(name string) (node, bool) {
	for _, f := range jsonFields {
		if f.name == name {
			return f.typ, true
		}
	}
	return nil, false
}

// version returns the version of a standard, which docs/formats.md states.
func versionIn(rows [][2]string, field string) string {
	for _, r := range rows {
		if r[0] == field {
			return r[1]
		}
	}
	return ""
}

// Types of fields of the standards.
var (
	milliseconds = node{{"type", "integer"}}
	zulu         = node{{"type", "string"},
		{"pattern", "^-?[0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z$"}}
	port     = node{{"type", "integer"}, {"minimum", 1}, {"maximum", 65535}}
	boolean  = node{{"type", "boolean"}}
	recordID = node{{"type", "string"},
		{"pattern", "^[0-9a-f]+\\.[0-9a-f]+/([0-9]+|[a-z_0-9]+/[0-9]+\\.[0-9]+)$"}}
)

func constant(value any) node { return node{{"const", value}} }

// oneOf returns the schema for the values of this release. Later releases may have others of the standard.
func oneOf(values ...any) node {
	later := ref("later")
	if _, ok := values[0].(int); ok {
		later = ref("later_number")
	}
	return node{{"anyOf", []any{node{{"enum", values}}, later}}}
}

func texts(typ node) node { return node{{"type", "array"}, {"items", typ}, {"minItems", 1}} }

// tree is an object of fields whose names are paths.
type tree struct {
	names  []string
	inside map[string]*tree
	typ    node
}

func (t *tree) put(path string, typ node) {
	if path == "" {
		t.typ = typ
		return
	}
	name, rest, _ := strings.Cut(path, ".")
	if t.inside == nil {
		t.inside = map[string]*tree{}
	}
	if t.inside[name] == nil {
		t.inside[name] = &tree{}
		t.names = append(t.names, name)
	}
	t.inside[name].put(rest, typ)
}

// schema returns the schema of the object; required are the paths that always exist.
func (t *tree) schema(required []string) node {
	if t.inside == nil {
		return t.typ
	}
	properties, needed := node{}, []any{}
	for _, name := range t.names {
		var below []string
		here := false
		for _, path := range required {
			first, rest, _ := strings.Cut(path, ".")
			if first == name {
				here, below = true, append(below, rest)
			}
		}
		if here {
			needed = append(needed, name)
		}
		properties = append(properties, member{name, t.inside[name].schema(below)})
	}
	n := node{{"type", "object"}, {"properties", properties}}
	if len(needed) > 0 {
		n = append(n, member{"required", needed})
	}
	return append(n, member{"additionalProperties", true})
}

// foreign returns the schema of a format whose fields have paths. The types map has those of the standard;
// fields in our own folder have the types of JSON.
func foreign(
	n node, rows [][2]string, lists []list, folder string, types map[string]node, required []string,
	conditions ...any,
) (node, error) {
	t := &tree{}
	used := 0
	for _, r := range rows {
		typ, ok := types[r[0]]
		if ok {
			used++
		} else if name, in := strings.CutPrefix(r[0], folder+"."); in {
			typ, ok = own(name)
		}
		if !ok {
			return nil, fmt.Errorf("%s: %s has no type in internal/format/gen", formatsPath, r[0])
		}
		t.put(r[0], describe(r[1], typ))
	}
	if used != len(types) {
		return nil, fmt.Errorf("%s has only %d of %d fields that have a type in internal/format/gen",
			formatsPath, used, len(types))
	}
	n = append(n, t.schema(required)...)
	if len(conditions) > 0 {
		n = append(n, member{"allOf", conditions})
	}
	return append(n, member{"$defs", definitions(lists)}), nil
}

const open = " A later release may add fields, in %s and elsewhere, and values that the standard has: readers " +
	"must skip what they do not know. It removes, renames or retypes none within this version."

func ecsSchema(rows [][2]string, lists []list) (node, error) {
	version := versionIn(rows, "ecs.version")
	n := head("ecs", "A line of steno cat --format ecs",
		"A record of a trail, as a document of the Elastic Common Schema "+version+"."+fmt.Sprintf(open, "pg_steno"))
	return foreign(n, rows, lists, "pg_steno", map[string]node{
		"@timestamp": zulu, "ecs.version": oneOf(version), "message": text,
		"event.kind":     constant("event"),
		"event.category": texts(oneOf("database", "iam", "authentication", "session", "configuration")),
		"event.type":     texts(oneOf("access", "change", "info", "error", "admin", "start", "end")),
		"event.action":   text, "event.outcome": oneOf("success", "failure", "unknown"),
		"event.id": recordID, "event.sequence": positive, "event.duration": number,
		"event.start": zulu, "event.end": zulu,
		"event.module": constant("pg_steno"), "event.dataset": constant("pg_steno.trail"),
		"host.name": text, "service.type": constant("postgresql"), "service.name": text, "service.id": digits,
		"process.pid": unsigned, "user.name": text, "user.effective.name": text, "client.user.name": text,
		"source.address": text, "source.ip": text, "source.port": port, "related.user": texts(text),
		"related.ip": texts(text),
		"error.code": text, "error.message": text,
	}, []string{
		"@timestamp", "ecs.version", "event.kind", "event.category", "event.type", "event.action",
		"event.outcome", "event.id",
		"event.module", "event.dataset", "service.type", "process.pid", "pg_steno.kind",
		"pg_steno.session", "pg_steno.stream",
		"pg_steno.segment", "pg_steno.block",
	})
}

func ocsfSchema(rows [][2]string, lists []list) (node, error) {
	version := versionIn(rows, "metadata.version")
	n := head("ocsf", "A line of steno cat --format ocsf",
		"A record of a trail, as an event of the Open Cybersecurity Schema Framework "+version+"."+fmt.Sprintf(open,
			"unmapped"))
	class := func(uid int, activities []any, required []any, absent ...string) node {
		without := node{}
		for _, f := range absent {
			without = append(without, member{f, false})
		}
		return node{
			{"if", node{{"properties", node{{"class_uid", constant(uid)}}}}},
			{"then", node{
				{"properties",
					append(node{{"category_uid", constant(uid / 1000)}, {"activity_id", oneOf(activities...)}},
						without...)},
				{"required", required},
			}},
		}
	}
	return foreign(n, rows, lists, "unmapped", map[string]node{
		"class_uid": oneOf(6005, 3002, 0), "category_uid": oneOf(6, 3, 0), "activity_id": oneOf(1, 2, 4, 5, 6, 7, 99),
		"type_uid": number, "activity_name": text, "time": milliseconds, "start_time": milliseconds,
		"end_time": milliseconds,
		"duration": number, "severity_id": oneOf(1, 2, 3, 4), "status_id": oneOf(1, 2, 99), "status": text,
		"status_code":   text,
		"status_detail": text, "metadata.version": oneOf(version), "metadata.product.name": constant("pg_steno"),
		"metadata.product.vendor_name": constant("pg_steno"), "metadata.log_name": constant("trail"),
		"metadata.event_code": ref("kind"), "metadata.uid": recordID, "metadata.sequence": positive,
		"metadata.original_time": zulu,
		"actor.user.name":        text, "actor.session.uid": session, "actor.session.created_time": milliseconds,
		"actor.session.is_remote": boolean, "actor.process.pid": unsigned, "actor.app_name": text,
		"database.name":    text,
		"database.type_id": constant(1), "database.type": constant("Relational"), "type_id": constant(1),
		"type":            constant("Database"),
		"src_endpoint.ip": text, "src_endpoint.port": port, "src_endpoint.name": text, "dst_endpoint.hostname": text,
		"dst_endpoint.svc_name": text, "dst_endpoint.uid": digits, "query_info.uid": recordID,
		"query_info.query_string": text, "table.name": text,
		"user.name": text, "session.uid": session, "session.created_time": milliseconds, "session.is_remote": boolean,
		"service.name": constant("postgresql"), "auth_protocol": text, "auth_protocol_id": oneOf(2, 10, 12, 99),
		"is_remote":     boolean,
		"logon_type_id": constant(3), "logon_type": constant("Network"), "message": text,
		"unmapped.time": zulu, "unmapped.duration_us": number,
	}, []string{
		"class_uid", "category_uid", "activity_id", "type_uid", "time", "severity_id", "status_id", "status",
		"metadata.version",
		"metadata.product.name", "metadata.product.vendor_name", "metadata.log_name",
		"metadata.event_code", "metadata.uid",
		"metadata.original_time", "unmapped.time", "unmapped.stream", "unmapped.segment", "unmapped.block",
	},
		class(6005, []any{1, 2, 4, 5, 6, 7, 99}, []any{"actor", "database", "type_id", "type", "src_endpoint"},
			"user", "session", "service", "message"),
		class(3002, []any{1, 2}, []any{"user", "session", "actor", "service", "src_endpoint", "is_remote",
			"logon_type_id"}, "database", "query_info", "message"),
		class(0, []any{99}, []any{"message"}, "actor", "user", "session", "database", "src_endpoint", "dst_endpoint"),
		node{{"if", node{{"properties", node{{"activity_id", constant(99)}}}}},
			{"then", node{{"required", []any{"activity_name"}}}}},
	)
}

// otelFields are the fields of the log record itself; the other rows of the table are attributes.
var otelFields = map[string]node{
	"timeUnixNano": otelNano, "observedTimeUnixNano": otelNano, "severityNumber": oneOf(9, 13, 17),
	"severityText": oneOf("INFO", "WARN", "ERROR"),
	"eventName":    {{"type", "string"}, {"pattern", "^pg_steno\\.[a-z_0-9]+$"}},
	"body":         ref("string"),
}

var otelNano = node{{"type", "string"}, {"pattern", "^-?[0-9]+$"}}

// otelTypes are the definitions for attributes whose values are not strings.
var otelTypes = map[string]string{
	"process.pid": "int", "client.port": "int", "db.response.returned_rows": "int",
	"db.query.parameter.<key>": "parameter",
	"pg_steno.rolled_back":     "bool", "pg_steno.relations": "lists", "pg_steno.objects": "lists",
	"pg_steno.audited": "strings", "pg_steno.extra": "pairs",
}

// otelNames are the attributes whose values are names of an enumeration.
var otelNames = map[string]string{"pg_steno.kind": "kind", "pg_steno.class": "class", "pg_steno.outcome": "outcome"}

// otelType returns the name of the definition for an attribute's value.
func otelType(name string) node {
	if e, ok := otelNames[name]; ok {
		return otelValue("stringValue", ref(e))
	}
	if d, ok := otelTypes[name]; ok {
		return ref(d)
	}
	if n, ok := strings.CutPrefix(name, "pg_steno."); ok {
		if typ, ok := own(n); ok && typ.get("type") == "integer" {
			return ref("int")
		}
	}
	return ref("string")
}

// otelValue returns the schema of an AnyValue of one type.
func otelValue(name string, typ node) node {
	return node{{"type", "object"}, {"properties", node{{name, typ}}}, {"required", []any{name}},
		{"additionalProperties", true}}
}

// otelCondition returns which values attributes with a key can have.
func otelCondition(key, value node) node {
	return node{{"if", node{{"properties", node{{"key", key}}}}},
		{"then", node{{"properties", node{{"value", value}}}}}}
}

func otelSchema(rows [][2]string, lists []list) (node, error) {
	n := head("otel", "A line of steno cat --format otel",
		"A record of a trail, as a request to export one log record, in OTLP/JSON."+fmt.Sprintf(open, "pg_steno"))
	record, keys, resource := node{}, []any{}, []any{}
	// The conditions on values: for each type, the keys that have it.
	var types []any
	byType := map[string][]any{}
	var order []string
	for _, r := range rows {
		name, ofResource := strings.CutPrefix(r[0], "resource ")
		key := node{{"type", "string"},
			{"pattern", "^" + strings.ReplaceAll(strings.TrimSuffix(name, "<key>"), ".", "\\.") + "[0-9]+$"}}
		switch typ, ok := otelFields[name]; {
		case ok:
			record = append(record, member{name, describe(r[1], typ)})
		case ofResource:
			resource = append(resource, describe(r[1], constant(name)))
		case strings.HasSuffix(name, "<key>"):
			keys = append(keys, describe(r[1], key))
			types = append(types, otelCondition(key, otelType(name)))
		default:
			keys = append(keys, describe(r[1], constant(name)))
			text := string(appendJSON(nil, otelType(name), ""))
			if byType[text] == nil {
				order = append(order, text)
			}
			byType[text] = append(byType[text], name)
		}
	}
	for _, of := range order {
		types = append(types, otelCondition(node{{"enum", byType[of]}}, otelType(byType[of][0].(string))))
	}
	if len(record) != len(otelFields) {
		return nil, fmt.Errorf("%s has only %d of %d fields of a log record", formatsPath,
			len(record), len(otelFields))
	}
	attributes := func(keys []any, values []any) node {
		pair := node{
			{"type", "object"},
			{"properties", node{{"key", node{{"anyOf", append(slices.Clone(keys), ref("later"))}}},
				{"value", node{{"type", "object"}}}}},
			{"required", []any{"key", "value"}}, {"additionalProperties", true},
		}
		if len(values) > 0 {
			pair = append(pair, member{"allOf", values})
		}
		return node{{"type", "array"}, {"items", pair}, {"minItems", 1}}
	}
	record = append(record, member{"attributes", attributes(keys, types)})
	arrayOfOne := func(name string, of node) node {
		return node{{name, node{{"type", "array"}, {"items", of}, {"minItems", 1}, {"maxItems", 1}}}}
	}
	object := func(properties node, required ...any) node {
		return node{{"type", "object"}, {"properties", properties}, {"required", required},
			{"additionalProperties", true}}
	}
	url := node{{"type", "string"}, {"pattern", "^https://opentelemetry\\.io/schemas/[0-9.]+$"}}
	logRecord := object(record, "timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText",
		"eventName", "attributes")
	scope := object(append(node{{"scope", object(node{{"name", constant("pg_steno")}}, "name")}},
		append(arrayOfOne("logRecords", logRecord), member{"schemaUrl", url})...), "scope", "logRecords", "schemaUrl")
	whole := object(append(node{{"resource", object(node{{"attributes", attributes(resource, nil)}}, "attributes")}},
		append(arrayOfOne("scopeLogs", scope), member{"schemaUrl", url})...), "resource", "scopeLogs", "schemaUrl")
	n = append(n, object(arrayOfOne("resourceLogs", whole), "resourceLogs")...)
	pairs := func(values node) node {
		return otelValue("kvlistValue",
			otelValue("values", node{{"type", "array"},
				{"items", object(node{{"key", text}, {"value", values}}, "key", "value")}}))
	}
	array := func(items node) node {
		return otelValue("arrayValue", otelValue("values", node{{"type", "array"}, {"items", items}}))
	}
	defs := node{
		{"string", otelValue("stringValue", text)},
		{"int", node{{"anyOf", []any{
			otelValue("intValue", node{{"type", "string"}, {"pattern", "^-?[0-9]+$"}}),
			describe("a number above 9223372036854775807", otelValue("stringValue", digits)),
		}}}},
		{"bool", otelValue("boolValue", yes)},
		{"strings", array(ref("string"))},
		{"pairs", pairs(ref("string"))},
		{"lists", array(pairs(node{{"anyOf", []any{ref("string"), ref("bool"), pairs(ref("strings"))}}}))},
		{"parameter", node{{"description", "empty for NULL"}, {"type", "object"},
			{"properties", node{{"stringValue", text}}}, {"additionalProperties", true}}},
	}
	return append(n, member{"$defs", append(defs, definitions(lists)...)}), nil
}

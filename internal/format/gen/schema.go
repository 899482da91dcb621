// The JSON Schemas in format/schema: building and writing them.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// schemaVersion is the version of all schemas. It changes when a field is removed, renamed or gets another
// type: see docs/formats.md.
const schemaVersion = 1

// node is an object in a schema. Its members keep their order.
type node []member

type member struct {
	key   string
	value any
}

// json64 is a number that a double cannot represent.
type json64 string

func ref(name string) node { return node{{"$ref", "#/$defs/" + name}} }

func listOf(of string) node { return node{{"type", "array"}, {"items", ref(of)}, {"minItems", 1}} }

func (n node) get(key string) any {
	for _, m := range n {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// describe adds a description in front of a type.
func describe(text string, typ node) node {
	return append(node{{"description", plain(text)}}, typ...)
}

// appendJSON appends a value of a schema. Objects have a line for each member, unless they are short.
func appendJSON(b []byte, value any, indent string) []byte {
	var items [][]byte
	open, end := byte('['), byte(']')
	inner := indent + "  "
	switch v := value.(type) {
	case node:
		open, end = '{', '}'
		for _, m := range v {
			items = append(items, appendJSON(append(appendLeaf(nil, m.key), ": "...), m.value, inner))
		}
	case []any:
		for _, item := range v {
			items = append(items, appendJSON(nil, item, inner))
		}
	default:
		return appendLeaf(b, v)
	}
	short := append(append([]byte{open}, bytes.Join(items, []byte(", "))...), end)
	if len(short)+len(indent) <= 100 && !bytes.ContainsRune(short, '\n') {
		return append(b, short...)
	}
	b = append(append(append(b, open, '\n'), inner...), bytes.Join(items, []byte(",\n"+inner))...)
	return append(append(append(b, '\n'), indent...), end)
}

func appendLeaf(b []byte, value any) []byte {
	if n, ok := value.(json64); ok {
		return append(b, n...)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err)
	}
	return append(b, bytes.TrimSpace(out.Bytes())...)
}

// object returns the schema of an object with fields. Later releases may add others.
func object(fields []field, lists []list) node {
	properties, required := node{}, []any{}
	for _, f := range fields {
		properties = append(properties, member{f.name, describe(f.of(lists), f.typ)})
		if f.required {
			required = append(required, f.name)
		}
	}
	n := node{{"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		n = append(n, member{"required", required})
	}
	return append(n, member{"additionalProperties", true})
}

// values returns the schema of an enumeration: its names, and the form of numbers without a name, which later
// releases may have.
func (e *enumeration) values(lists []list) node {
	of := []any{}
	for _, entry := range e.entriesOf(lists) {
		of = append(of, describe(entry.meaning, node{{"const", entry.name}}))
	}
	of = append(of, describe("a number that this release has no name for",
		node{{"type", "string"}, {"pattern", "^" + e.unnamed + "_[0-9]+$"}}), ref("later"))
	return node{{"description", "A later release may have further values. " + e.rule},
		{"type", "string"}, {"anyOf", of}}
}

// accesses returns a pattern for names of access, separated by commas.
func accesses(lists []list) node {
	names := []string{"access_[0-9]+"}
	for _, e := range enumerations {
		if e.name == "access" {
			for _, entry := range e.entriesOf(lists) {
				names = append(names, entry.name)
			}
		}
	}
	one := "(" + strings.Join(names, "|") + ")"
	return node{
		{"description",
			"Names of access, as the definition access has them, separated by commas. A reader must not assume " +
				"that a name that it does not know is of one that only reads."},
		{"type", "string"},
		{"anyOf", []any{node{{"pattern", "^(" + one + "(," + one + ")*)?$"}}, ref("later")}},
	}
}

// definitions returns the definitions to which the schemas of all formats refer.
func definitions(lists []list) node {
	relation := object(relationFields, lists)
	relation = append(relation, member{"dependentRequired", node{{"columns_omitted", []any{"columns"}}}})
	defs := node{
		{"later", node{
			{"description",
				"A value that this release does not have: a later one may have added it within this version of " +
					"the schema."},
			{"type", "string"},
		}},
		{"later_number", node{
			{"description",
				"A value of the standard that this release does not have: a later one may have it within this " +
					"version of the schema."},
			{"type", "integer"},
		}},
		{"other", node{{"description", "A value that this release does not know."}, {"type", "string"}}},
	}
	for _, e := range enumerations {
		defs = append(defs, member{e.name, e.values(lists)})
	}
	return append(defs,
		member{"accesses", accesses(lists)},
		member{"columns", node{
			{"description", "Columns by access; * is the whole row, and names are quoted where SQL requires it."},
			{"type", "object"},
			{"propertyNames", ref("access")},
			{"additionalProperties", node{{"type", "array"}, {"items", text}}},
		}},
		member{"relation", relation},
		member{"object", object(objectFields, lists)},
		member{"extra", node{
			{"description",
				"Further names and values. Which there are depends on the kind of the record; a reader skips " +
					"names that it does not know."},
			{"type", "object"},
			{"properties", ofKind("")},
			{"additionalProperties", text},
		}},
	)
}

// ofKind returns the names in extra that only records of a kind have; of no kind: the names that any record can
// have.
func ofKind(kind string) (properties node) {
	for _, f := range furtherNames {
		is := kind == "" && len(f.of) == 0
		var events []string
		for _, of := range f.of {
			k, event, _ := strings.Cut(of, " ")
			is = is || k == kind
			if event != "" {
				events = append(events, event)
			}
		}
		if !is || strings.HasSuffix(f.name, "*") {
			continue
		}
		if properties.get(f.name) != nil {
			panic(kind + " has " + f.name + " twice")
		}
		meaning := f.meaning
		if len(events) > 0 {
			meaning = "event " + strings.Join(events, ", ") + ": " + meaning
		}
		properties = append(properties, member{f.name, describe(meaning, f.typ)})
	}
	return properties
}

// ifKind returns a condition for records of some kinds.
func ifKind(kinds []any, then node) node {
	return node{{"if", node{{"properties", node{{"kind", node{{"enum", kinds}}}}}}}, {"then", then}}
}

// only requires that records of the other kinds of this release do not have some fields.
func only(lists []list, kinds []any, fields ...string) node {
	others, absent := []any{}, node{}
	for _, e := range enumerations[0].entriesOf(lists) {
		if !slices.Contains(kinds, any(e.name)) {
			others = append(others, e.name)
		}
	}
	for _, f := range fields {
		absent = append(absent, member{f, false})
	}
	return ifKind(others, node{{"properties", absent}})
}

func names(list ...string) (all []any) {
	for _, n := range list {
		all = append(all, n)
	}
	return all
}

// byKind returns the conditions on a record's fields by its kind, and the types of extra.
func byKind(lists []list) []any {
	connections := names("connect", "auth_failed", "disconnect")
	conditions := []any{
		only(lists, connections, "backend_type", "auth_method", "identity"),
		only(lists, names("statement", "start"), "statement", "portal"),
		only(lists, names("statement"), "rolled_back"),
		ifKind(names("statement", "start", "connect", "auth_failed"), node{{"required", []any{"outcome"}}}),
		node{
			{"if", node{{"required", []any{"rolled_back"}}}},
			{"then", node{{"required", []any{"xid"}}, {"properties", node{{"outcome", node{{"const", "ok"}}}}}}},
		},
		node{{"if", node{{"required", []any{"text_sha256"}}}}, {"then", node{{"required", []any{"text_bytes"}}}}},
	}
	for _, kind := range enumerations[0].entriesOf(lists) {
		if further := ofKind(kind.name); further != nil {
			conditions = append(conditions,
				ifKind([]any{kind.name}, node{{"properties", node{{"extra", node{{"properties", further}}}}}}))
		}
	}
	return conditions
}

// head returns the beginning of a schema.
func head(format, title, text string) node {
	return node{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", fmt.Sprintf("urn:pg-steno:%s:%d", format, schemaVersion)},
		{"title", fmt.Sprintf("%s, version %d", title, schemaVersion)},
		{"description", text},
		{"$comment", "Generated by internal/format/gen; do not edit."},
	}
}

// recordSchema returns the schema of a line of steno cat --format json.
func recordSchema(lists []list) node {
	n := head("json", "A line of steno cat --format json",
		"A record of a trail. A later release may add fields and names of enumerations: readers must skip fields "+
			"that they do not know, and treat names that they do not know as the enumeration says. It removes, "+
			"renames or retypes none within this version.")
	n = append(n, object(jsonFields, lists)...)
	return append(n, member{"allOf", byKind(lists)}, member{"$defs", definitions(lists)})
}

// jsonTable returns the table of fields in docs/commands/cat.md, from which other pages are one folder up.
func jsonTable(lists []list) string {
	var b strings.Builder
	b.WriteString("| field | type | meaning |\n|---|---|---|\n")
	for _, f := range jsonFields {
		meaning := strings.ReplaceAll(f.of(lists), "](records.md", "](../records.md")
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, typeName(f.typ), meaning)
	}
	return b.String()
}

func typeName(typ node) string {
	switch t, _ := typ.get("type").(string); {
	case t == "integer":
		return "number"
	case t != "":
		return t
	case typ.get("const") != nil:
		return "`true`"
	case typ.get("$ref") == "#/$defs/extra":
		return "object"
	}
	return "string"
}

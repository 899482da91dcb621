// The objects of DDL in the pgaudit format.

package render

import (
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// pgaudit learns of objects from PostgreSQL's event triggers, which report fewer objects than a trail has, and
// some of them in another way.

// pgauditUnseen are types for which no event trigger runs: objects of the whole cluster, and event triggers
// themselves.
var pgauditUnseen = []string{"role", "database", "tablespace", "event trigger", "parameter", "role membership"}

// pgauditNoSchema are types whose removal pgaudit does not log: types themselves, and objects that belong to no
// schema.
var pgauditNoSchema = []string{
	"type", "schema", "publication", "publication relation", "publication namespace", "subscription",
	"language", "access method",
	"rule", "cast", "extension", "server", "foreign-data wrapper", "user mapping", "transform",
	"default acl", "large object",
}

// pgauditGranted are the types that GRANT and REVOKE name differently.
var pgauditGranted = map[string]string{
	"view": "TABLE", "materialized view": "TABLE", "foreign table": "TABLE", "table column": "TABLE",
	"server": "FOREIGN SERVER", "foreign-data wrapper": "FOREIGN DATA WRAPPER",
}

// objects puts the lines of DDL: one for each object that pgaudit would have logged, or one without an object
// if there is none.
func (f *pgauditFormat) objects(s *format.Shape, line pgauditLine, put func(pgauditLine)) {
	shown := 0
	object := func(command, kind, name string) {
		l := line
		l.command, l.kind, l.name = command, kind, name
		put(l)
		shown++
	}
	command := string(s.Command)
	switch command {
	case "GRANT", "REVOKE":
		for _, o := range s.Objects {
			if kind := string(o.Type); o.Action == format.ActionAlter && shown == 0 &&
				!slices.Contains(pgauditUnseen, kind) {
				if as, ok := pgauditGranted[kind]; ok {
					kind = as
				}
				object(command, strings.ToUpper(kind), "")
			}
		}
	case "ALTER DEFAULT PRIVILEGES":
		for _, o := range s.Objects {
			if i := strings.LastIndex(string(o.Name), " on "); i >= 0 && shown == 0 &&
				string(o.Type) == "default acl" {
				object(command, strings.ToUpper(string(o.Name[i+len(" on "):])), "")
			}
		}
	case "CREATE EXTENSION":
		object(command, "", "")
		for _, o := range s.Objects {
			if kind := string(o.Type); o.Action == format.ActionCreate && (kind == "extension" || kind == "schema") {
				kind = strings.ToUpper(kind)
				object("CREATE "+kind, kind, string(o.Name))
			}
		}
	default:
		f.changedObjects(s, object)
	}
	if shown == 0 {
		put(line)
	}
}

// changedObjects puts lines for removed objects, then for the others. Of removed objects, those whose type the
// command names come first.
func (f *pgauditFormat) changedObjects(s *format.Shape, object func(command, kind, name string)) {
	command := string(s.Command)
	for _, named := range []bool{true, false} {
		for _, o := range s.Objects {
			kind := string(o.Type)
			if o.Action == format.ActionDrop && !slices.Contains(pgauditUnseen, kind) &&
				!slices.Contains(pgauditNoSchema, kind) &&
				strings.HasSuffix(command, " "+strings.ToUpper(kind)) == named {
				object(command, strings.ToUpper(kind), string(o.Name))
			}
		}
	}
	renamed, indexes := false, 0
	var sequences []string
	for _, o := range s.Objects {
		kind := string(o.Type)
		if slices.Contains(pgauditUnseen, kind) {
			continue
		}
		upper, name := strings.ToUpper(kind), string(o.Name)
		switch o.Action {
		case format.ActionRename:
			// Objects that are renamed along with it have no line.
			if !renamed {
				object(command, upper, string(o.To))
			}
			renamed = true
		case format.ActionCreate:
			if kind == "index" {
				indexes++
			}
			// Parts of an object have no line, because the object has one. Of the indexes of partitions, only
			// the first one has a line.
			part := strings.HasSuffix(kind, " constraint") ||
				strings.HasPrefix(command, "ALTER ") && kind == "index" ||
				command == "CREATE INDEX" && indexes > 1
			if part {
				continue
			}
			object(pgauditCommand(command, "CREATE", upper), upper, name)
			if kind == "sequence" && command != "CREATE SEQUENCE" {
				sequences = append(sequences, name)
			}
		case format.ActionAlter:
			if command == "ALTER TABLE" &&
				(kind == "trigger" || kind == "rule" || strings.HasSuffix(kind, " constraint")) {
				continue
			}
			object(pgauditCommand(command, "ALTER", upper), upper, name)
		}
	}
	for _, name := range sequences {
		// At the end, the server makes the sequence of a column depend on the column, which is a command of its
		// own.
		object("ALTER SEQUENCE", "SEQUENCE", name)
	}
}

// pgauditCommand returns the command in the line of an object. It is that of the statement, except for
// statements that create objects of several types, and for objects whose type is not the one that the command
// names.
func pgauditCommand(command, verb, kind string) string {
	switch kind {
	case "TABLE", "FOREIGN TABLE", "SEQUENCE", "INDEX", "VIEW", "TRIGGER":
	default:
		return command
	}
	switch command {
	case "CREATE TABLE", "CREATE FOREIGN TABLE", "CREATE SCHEMA", "IMPORT FOREIGN SCHEMA":
		return verb + " " + kind
	case "ALTER TABLE":
		if verb == "CREATE" || kind == "SEQUENCE" {
			return verb + " " + kind
		}
	}
	return command
}

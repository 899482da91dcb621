// Package schema has the JSON Schemas of the lines that steno writes for programs. internal/format/gen makes them.
package schema

import (
	"embed"
	"strings"
)

//go:embed *.schema.json
var files embed.FS

// Version is that of all schemas. docs/formats.md says what it promises.
const Version = 1

// Formats are the names of the formats that have a schema.
func Formats() (names []string) {
	all, _ := files.ReadDir(".")
	for _, f := range all {
		names = append(names, strings.TrimSuffix(f.Name(), ".schema.json"))
	}
	return names
}

// Of is the schema of a format, nil if it has none.
func Of(format string) []byte {
	text, _ := files.ReadFile(format + ".schema.json")
	return text
}

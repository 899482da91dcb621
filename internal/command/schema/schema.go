// Package schema is the command that prints the JSON Schemas of formats for programs.
package schema

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/format/schema"
	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/render"
)

// NewCmdSchema returns the command.
func NewCmdSchema(f *cmdutil.Factory) *cobra.Command {
	formats := strings.Join(schema.Formats(), ", ")
	return &cobra.Command{
		Use:   "schema [FORMAT]",
		Short: "Print the JSON Schema of the lines of a format",
		Long: fmt.Sprintf(`Print the JSON Schema (draft 2020-12) of a line of "steno cat --format FORMAT": of
json, or of %s. It has the type and the meaning of each field, and the
names that a field can have.

Its version is %d. Within a version, fields and names may be added, and none is
removed, renamed or gets another type; --schema-version of cat and tail states
the version that a program was made for.`, strings.Join(foreign(), ", "), schema.Version),
		Example: `  steno schema >record.schema.json
  steno schema ecs
  steno cat --format json --schema-version 1 --since 1h`,
		ValidArgs: schema.Formats(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("unexpected argument %q: name one format", args[1])
			}
			if len(args) == 1 && schema.Of(args[0]) == nil {
				return exit.Usagef("format %q has no schema: use one of %s", args[0], formats)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			format := string(render.JSON)
			if len(args) == 1 {
				format = args[0]
			}
			_, err := f.IO.Out.Write(schema.Of(format))
			return err
		},
	}
}

// foreign returns the formats of other programs that have a schema.
func foreign() (names []string) {
	for _, name := range schema.Formats() {
		if name != string(render.JSON) {
			names = append(names, name)
		}
	}
	return names
}

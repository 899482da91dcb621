// Package query is the program steno-query, which links DuckDB: its command tree.
package query

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/export"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// Main is the program.
func Main() int { return program.Main(New) }

// New returns the root command with all subcommands.
func New(streams *iostreams.IOStreams) *cobra.Command {
	f := &cmdutil.Factory{IO: streams, Version: program.GetVersion()}
	root := &cobra.Command{
		Use:   "steno-query",
		Short: "Answer questions about a trail in SQL, and export it",
		Long: `steno-query answers questions about the trail of a PostgreSQL server, and exports
records to files for other programs. It contains DuckDB, which steno itself does
not, so that the program of an auditor who verifies a trail stays small. If it is
in the same directory as steno or in PATH, "steno query" and "steno export" run
it.

Exit codes: 0: success. 1: the trail is damaged; the answer is made of the rest.
2: wrong usage, such as SQL with an error. 3: the command could not do its work,
for example because it lacks the key of a segment. 130 and 143: ended by SIGINT
(Ctrl-C) or SIGTERM.`,
	}
	root.AddCommand(NewCmdQuery(f, nil), export.NewCmdExport(f, nil), flags.NewTopic())
	return program.Group(root, f, `.TP
.B STENO_DIRECTORY
The trail that is read when none is named.
.TP
.B PGDATA
The data directory of a server; its pg_steno is the trail when STENO_DIRECTORY is not set.
`)
}

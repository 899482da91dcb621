package command

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/lab/bench/commands"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// newCmdCommands returns "steno bench commands".
func newCmdCommands(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "commands",
		Short: "Measure what reporting and logging add to a small statement",
		Long: `Send 10,000 times "SELECT 1" to a throw-away server, by a psql script with a line
for each, and through one connection with the simple protocol, the extended one,
and a prepared statement; with track_activities and track_counts off and on,
log_statement=all, pg_stat_statements and pg_steno, each alone on top of neither.
Quoted are the seconds, what each adds to a statement in microseconds, paired within
rounds, and the processor time of the session's server process. "again" is the
base once more: a difference that is not larger means nothing.`,
		Example: `  steno bench commands --quick
  steno bench commands --ways psql,prepared --rounds 20 --output bench/results/commands
  steno bench commands --compare again,log_statement,steno --statements 50000`,
	}, commands.New(e))
}

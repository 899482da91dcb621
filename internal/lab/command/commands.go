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
		Short: "Measure the cost of reporting and logging a small statement",
		Long: `Send "SELECT 1" to a throw-away server 10,000 times: from a psql script with one
line for each, and over one connection with the simple protocol, the extended
protocol, and a prepared statement. The base has track_activities and
track_counts off; track_activities, track_counts, both, log_statement=all,
pg_stat_statements and pg_steno are each added alone. The figures are seconds,
microseconds added per statement, paired within rounds, and the CPU time of the
session's server process. "again" is the base a second time: a difference that
is not larger than that of "again" means nothing.`,
		Example: `  steno bench commands --quick
  steno bench commands --ways psql,prepared --rounds 20 --output bench/results/commands
  steno bench commands --compare again,log_statement,steno --statements 50000`,
	}, commands.New(e))
}

package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/lab/bench/logging"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// newCmdLogging returns "steno bench logging".
func newCmdLogging(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "logging",
		Short: "Compare the costs of different ways to log statements",
		Long: `Let servers that log statements in different ways take turns running short
slices of pgbench, and compare each with a server that logs nothing: throughput,
latency, CPU time per transaction (of sessions, the logging collector, and
pg_steno's writers), bytes logged, context switches. The results are medians with
their 95 % interval, and the medians of the ratios of slices that were run close
to each other. Published figures are shown beside them.

What can be compared (--compare): ` + wrapped(logging.VariantNames()) + `.
What is not installed is left out. Workloads: select (pgbench -S), tpcb
(TPC-B-like), select1 (SELECT 1), update (pgbench -N), file:PATH (your own pgbench
script; --setup creates its tables). Clients, workloads and protocols are lists;
all combinations are measured.

With --dsn, a running server is measured over a superuser's connection. Only
settings that a reload changes are compared. Before the first change, the command
asks for confirmation and saves the settings to a file ($XDG_STATE_HOME/steno, or
~/.local/state/steno); at the end, also after Ctrl-C, it restores them. If the
program itself is killed, the next "steno bench logging --dsn" restores them
first; --restore does only that.`,
		Example: `  steno bench logging --quick
  steno bench logging --clients 1,16,64 --workload select,tpcb --output results
  steno bench logging --workload select1 --protocol simple,extended,prepared
  steno bench logging --compare none,both,steno --rounds 30
  steno bench logging --workload file:orders.sql --setup tables.sql
  steno bench logging --dsn "host=/run/postgresql dbname=bench" --clients 28,56,112
  steno bench logging --dsn "host=/run/postgresql dbname=bench" --restore`,
	}, logging.New(e))
}

// wrapped is a list of names in lines of a manual.
func wrapped(list []string) string {
	var b strings.Builder
	width := len("What can be compared (--compare): ")
	for i, name := range list {
		if i > 0 {
			b.WriteString(",")
			if width += len(name) + 2; width > 78 {
				b.WriteString("\n")
				width = len(name)
			} else {
				b.WriteString(" ")
			}
		} else {
			width += len(name)
		}
		b.WriteString(name)
	}
	return b.String()
}

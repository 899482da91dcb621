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
		Short: "Compare what ways to log statements cost",
		Long: `Give servers that log statements in different ways short slices of pgbench in
turn, and compare each with a server that logs none: throughput, latency, CPU time
for each transaction (of sessions, of the logging collector, of pg_steno's
writers), bytes logged, context switches. Quoted are medians with their 95 %
interval, and the medians of the ratios of slices that were made close to each
other. Published figures stand beside them.

What is compared (--compare): ` + wrapped(logging.VariantNames()) + `.
What is not installed is left out. Workloads: select (pgbench -S), tpcb
(TPC-B-like), select1 (SELECT 1), update (pgbench -N), file:PATH (a pgbench script
of yours; --setup makes its tables). Clients, workloads and protocols are lists;
all combinations are measured.

With --dsn a running server is measured. It must be a superuser's connection. Only
what a reload changes is compared. Before the first change it asks, and notes the
settings in a file ($XDG_STATE_HOME/steno, or ~/.local/state/steno); at the end, also
after Ctrl-C, they are what they were. If steno itself was killed meanwhile, the
next "steno bench logging --dsn" restores them first, and --restore does only that.`,
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
	width := len("What is compared (--compare): ")
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

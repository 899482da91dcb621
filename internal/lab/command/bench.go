package command

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/lab/bench"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// newCmdBench returns "steno bench".
func newCmdBench(f *cmdutil.Factory, e measure.Environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what recording costs",
	}
	cmd.AddCommand(newCmdOverhead(e), newCmdStall(e), newCmdChart(f), newCmdLogging(e), newCmdClock(e), newCmdIPC(e),
		newCmdReplication(e), newCmdCommands(e), newCmdCompare(e))
	return cmdutil.Group(cmd)
}

// newCmdOverhead returns "steno bench overhead".
func newCmdOverhead(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "overhead",
		Short: "Compare a server's throughput with and without recording",
		Long: `Start identical throw-away servers, one for each variant to compare, and let them
take turns running short slices of pgbench. The results are the medians of the
ratios of slices that were run close to each other, with the 95 % interval of the
median, and the bytes written to the log or the trail per transaction. From time
to time, all servers are replaced by new ones (--renew), because the location of
a server's memory and files makes it faster or slower for as long as it exists.

Throughput cannot show a cost of one per cent on a shared machine; compare
"off,off" to see how different two equal servers look. With --profile, perf takes
CPU samples of the server with pg_steno, and counts the share of them that is in
the extension's code and in its writers, including system calls.

With --dsn, a running server that has pg_steno loaded is measured with steno.log
set to none and to all in turn.

What can be compared: ` + strings.Join(bench.VariantNames(), ", ") + `.
The first is the base. The default of --compare is off, log_statement, pgaudit if
it is installed, and steno.`,
		Example: `  steno bench overhead
  steno bench overhead --workload tpcb --pairs 20
  steno bench overhead --compare off,off
  steno bench overhead --compare off,steno --profile 8 --output bench/results/today
  steno bench overhead --compare off,steno --set steno.writers=2
  steno bench overhead --dsn "host=/run/postgresql dbname=bench"`,
	}, bench.NewOverhead(e))
}

// newCmdStall returns "steno bench stall".
func newCmdStall(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "stall",
		Short: "Measure what statements notice of a stopped writer",
		Long: `Start a throw-away server that records everything, with rings that are larger
than the records of a slice of load, and run slices of pgbench on it. During some
of them, its writer is stopped (SIGSTOP). The results are the 99.9th percentile of
the latency, with the writer stopped and with it running, over all slices; and
the median of the ratios of slices that were run close to each other, with its
95 % interval. Beside it is the same ratio for two slices with a running writer,
which shows the noise of the machine.

Transactions start at times that do not depend on the duration of others, at a
fraction (--rate) of the maximum throughput: at the maximum, the slowest
transactions would mainly show how processes wait for a processor. With --rate 1
there is no limit.

A round consists of three slices and takes about two seconds.`,
		Example: `  steno bench stall
  steno bench stall --pairs 50 --clients 4
  steno bench stall --rate 0.5 --seconds 2`,
	}, bench.NewStall(e))
}

// newCmdChart returns "steno bench chart".
func newCmdChart(f *cmdutil.Factory) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "chart FOLDER...",
		Short:   "Draw archived measurements as an SVG image",
		Example: "  steno bench chart -o docs/overhead.svg bench/runs/2026-01-31/select bench/runs/2026-01-31/tpcb",
		Args:    cmdutil.Args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, folders []string) error {
			var reports []*bench.Report
			for _, folder := range folders {
				r, err := bench.ReadReport(folder)
				if err != nil {
					return err
				}
				reports = append(reports, r)
			}
			if output == "" {
				return bench.WriteChart(f.IO.Out, reports)
			}
			var b strings.Builder
			if err := bench.WriteChart(&b, reports); err != nil {
				return err
			}
			return os.WriteFile(output, []byte(b.String()), 0o644)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write (default standard output)")
	return cmd
}

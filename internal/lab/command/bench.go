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
		Long: `Start identical throw-away servers, one for each thing to compare, and give
them short slices of pgbench in turn. Quoted are the medians of the ratios of
slices that were made close to each other, with the 95 % interval of the median,
and the bytes that were written to the log or the trail for each transaction.
Now and then all servers are made anew (--renew), because where a server's memory
and files happen to lie makes it faster or slower for as long as it lives.

Throughput cannot show a cost of one per cent on a shared machine; compare "off,off"
to see how far two equal servers seem apart. With --profile, perf takes CPU
samples of the server with pg_steno, and the share of them that is in the
extension's code and its writers is counted, system calls included.

With --dsn, a server that is running already, with pg_steno loaded, is measured
with steno.log set to none and to all in turn.

What can be compared: ` + strings.Join(bench.VariantNames(), ", ") + `.
The first is the base. Without --compare it is off with log_statement, pgaudit
where it is installed, and steno.`,
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
		Short: "Measure what statements notice of a writer that stands still",
		Long: `Start a throw-away server that records everything, with rings that take more
than a slice of load, and give it slices of pgbench. During some its writer is
stopped (SIGSTOP). Quoted is the latency that one transaction of a thousand
exceeds, with the writer stopped and with it running, of all slices, and the
median of the ratios of slices that were made close to each other, with its 95 %
interval; beside it the same ratio of two slices with a running writer: what the
machine itself makes of equal things.

Transactions are begun at times that do not depend on how long others take, a
share (--rate) of what the server can do: at its limit, the slowest tell how
processes wait for the processor. With --rate 1 there is no limit.

A round takes three slices and about two seconds.`,
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
		Short:   "Draw archived measurements as an SVG picture",
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

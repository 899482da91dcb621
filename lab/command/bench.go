// The command lines of the benchmarks.

package command

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/bench/clock"
	"github.com/pg-steno/pg_steno/lab/bench/commands"
	"github.com/pg-steno/pg_steno/lab/bench/compare"
	"github.com/pg-steno/pg_steno/lab/bench/ipc"
	"github.com/pg-steno/pg_steno/lab/bench/logging"
	"github.com/pg-steno/pg_steno/lab/bench/replication"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/bench/scaling"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// newCmdBench returns "steno bench".
func newCmdBench(f *cmdutil.Factory, e measure.Environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what recording costs",
	}
	cmd.AddCommand(newCmdOverhead(e), newCmdStall(e), newCmdChart(f), newCmdShow(f), newCmdLogging(e), newCmdClock(e),
		newCmdIPC(e),
		newCmdReplication(e), newCmdCommands(e), newCmdScaling(e), newCmdCompare(e))
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
  steno bench overhead --workload tpcb --rounds 20
  steno bench overhead --compare off,off
  steno bench overhead --compare off,steno --profile 8 \
    --out bench/results/today
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
  steno bench stall --rounds 50 --clients 4
  steno bench stall --rate 0.5 --seconds 2`,
	}, bench.NewStall(e))
}

// newCmdChart returns "steno bench chart".
func newCmdChart(f *cmdutil.Factory) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "chart FOLDER...",
		Short: "Draw archived measurements as an SVG image",
		Example: "  steno bench chart -o docs/overhead.svg \\\n" +
			"    bench/runs/2026-01-31/select bench/runs/2026-01-31/tpcb",
		Args: cmdutil.Args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, folders []string) error {
			var results []*result.Result
			for _, folder := range folders {
				r, err := bench.ReadResult(folder)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			if output == "" {
				return bench.WriteChart(f.IO.Out, results)
			}
			var b strings.Builder
			if err := bench.WriteChart(&b, results); err != nil {
				return err
			}
			return os.WriteFile(output, []byte(b.String()), 0o644)
		},
	}
	cmd.Flags().StringVarP(&output, "out", "o", "", "file to write (default standard output)")
	return cmd
}

// newCmdShow returns "steno bench show".
func newCmdShow(f *cmdutil.Factory) *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use:   "show FOLDER",
		Short: "Show an archived result",
		Long: `Print the tables and findings of a result that was written with --out, or
write its page with charts. Archived runs (bench/runs) have results without pages.`,
		Example: `  steno bench show bench/runs/2026-01-31/logging
  steno bench show --page logging.html bench/runs/2026-01-31/logging`,
		Args: cmdutil.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error { return measure.Show(f.IO, args[0], page) },
	}
	cmd.Flags().StringVar(&page, "page", "", "write a page with charts to this `file` instead")
	return cmd
}

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
  steno bench logging --clients 1,16,64 --workload select,tpcb --out results
  steno bench logging --workload select1 --protocol simple,extended,prepared
  steno bench logging --compare none,both,steno --rounds 30
  steno bench logging --workload file:orders.sql --setup tables.sql
  steno bench logging --dsn "host=/run/postgresql dbname=bench" \
    --clients 28,56,112
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

// newCmdClock returns "steno bench clock".
func newCmdClock(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "clock",
		Short: "Measure the cost of reading the clock, and of track_io_timing",
		Long: `Report which clock source the kernel uses, measure the cost of a reading with
pg_test_timing and by a system call, and derive the cost of settings that read
the clock for each statement, block or row. Then run a query that reads many
blocks from the kernel's cache, where reading is cheapest and the clock's share
therefore largest, on a throw-away server with and without track_io_timing in
turn. Published figures are shown beside the measured ones.`,
		Example: `  steno bench clock
  steno bench clock --quick
  steno bench clock --mb 512 --rounds 30 --out results`,
	}, clock.New(e))
}

// newCmdIPC returns "steno bench ipc".
func newCmdIPC(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "ipc",
		Short: "Compare channels for log messages, and ways to wake processes",
		Long: `Let many processes pass messages to a reader, through one kind of channel after
the other, and compare the number of messages, the CPU time per message, context
switches, and how long a message is in transit. Every byte of every message is
checked; a lost, damaged or reordered message ends the run with an error. Then
let processes sleep and wake all of them, in several ways.

Channels: ` + strings.Join(ipc.ChannelNames(), ", ") + `.
ring_each is the extension's own ring, one for each process. A combination in
which messages could be split is listed, but not run.

Cases are run in rounds, in changing order; channels are compared with the bare
pipe within rounds. This takes about four minutes. If flags select values, all
their combinations are run; the defaults are 50 processes, 512 bytes, 1 reader,
batches of all messages, and the clock read once per batch.`,
		Example: `  steno bench ipc
  steno bench ipc --quick
  steno bench ipc --channels pipe,ring_each --processes 1,8,64 --sizes 200
  steno bench ipc --part wake --sleepers 64,256
  steno bench ipc --full --out bench/results/ipc    # many cores`,
	}, ipc.New(e))
}

// newCmdReplication returns "steno bench replication".
func newCmdReplication(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "replication",
		Short: "Measure the cost of commits that wait for a standby",
		Long: `Start a throw-away primary with two standbys, one of which must confirm
(synchronous_standby_names = 'ANY 1 (...)'), and let pgbench insert rows with
every value of synchronous_commit. The figures are transactions and inserts per
second and their latency, paired with "local"; the idle share of the processors;
what sessions waited for; and the primary's system calls and latches per commit.
If the installation has pg_steno, a second primary records everything; with
--steno sync, each writing statement and its commit also wait for the trail's
disk.

System calls and latches are counted with the kernel's perf events, which needs
root or CAP_PERFMON; otherwise, system calls are counted by strace, if it is
permitted. All servers and pgbench share this machine. A machine with few cores
shows what commits wait for and which calls they make, but not how many cores
queue for one lock. On a large machine:

  steno bench replication --full --clients 16,64,256 --cores all,10,16,32`,
		Example: `  steno bench replication --quick
  steno bench replication --clients 8,64 --inserts 1,10 \
    --out bench/results/replication
  steno bench replication --sync local,on --cores all,1 --steno off`,
	}, replication.New(e))
}

// newCmdCompare returns "steno bench compare".
func newCmdCompare(e measure.Environment) *cobra.Command {
	o := compare.New(e)
	return measuring(cobra.Command{
		Use:   "compare A B",
		Short: "Show what changed between two benchmark runs, beyond noise",
		Long: `Compare two results of the same benchmark, named by the folders that they were
written to with --out. The other differences between the runs come first:
machine, versions, settings, parameters. Then come the figures that have changed,
the largest change first. ` + wrapRule + `

A figure is the median of a metric of one case; or the median of its ratios to
the base, if both results have them: ratios are of samples that were taken close
to each other, so they can be compared across machines and days even if the
values themselves cannot. If there are very many figures, a few differ by chance.

The exit code is 0 whether or not anything has changed.`,
		Example: `  steno bench compare bench/results/before bench/results/after
  steno bench compare --all --format json before after`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cmdutil.Args(cobra.ExactArgs(2))(cmd, args); err != nil {
				return err
			}
			o.A, o.B = args[0], args[1]
			return nil
		},
	}, o)
}

// wrapRule is the rule, broken for the help text.
const wrapRule = `A figure has changed if the
intervals of its two medians do not overlap; with fewer than four samples, there
is no verdict.`

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
  steno bench commands --ways psql,prepared --rounds 20 \
    --out bench/results/commands
  steno bench commands --compare again,log_statement,steno --statements 50000`,
	}, commands.New(e))
}

// newCmdScaling returns "steno bench scaling".
func newCmdScaling(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "scaling",
		Short: "Compute what recording would cost on a machine with many cores",
		Long: `Compute, from the measured costs of a record, what recording would cost on
machines with more cores: the share of the processors' time of sessions and
writers, how many writers that takes, what moves between sockets, and the memory
of the rings. Then simulate a disk that stops for a while, with random arrivals,
and count the sessions that have to wait for space in their rings.

This is a model, not a measurement, and starts no server. docs/scaling.md has its
assumptions, how its inputs were measured, and how to check the result on a large
machine. Each input has a flag.`,
		Example: `  steno bench scaling
  steno bench scaling --workload tpcb --cores 16,64 --socket 32
  steno bench scaling --ring-size 1024 --stall 2000
  steno bench scaling --rate 25000 --writer 400 --remote-line 600`,
	}, scaling.New(e))
}

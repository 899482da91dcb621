package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// NewCmdBench returns "steno bench", with the commands of other packages.
func NewCmdBench(f *cmdutil.Factory, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what recording costs",
	}
	cmd.AddCommand(newCmdOverhead(f, overheadRun), newCmdStall(f), newCmdChart(f))
	cmd.AddCommand(more...)
	return cmdutil.Group(cmd)
}

// overheadOptions are the flags of "steno bench overhead".
type overheadOptions struct {
	*cmdutil.Factory
	Options

	PGConfig string
	DSN      string
	Yes      bool
	Format   string
	Output   string
	Set      []string
}

func newCmdOverhead(f *cmdutil.Factory, run func(context.Context, *overheadOptions) error) *cobra.Command {
	o := &overheadOptions{Factory: f}
	cmd := &cobra.Command{
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

What can be compared: ` + strings.Join(variantNames(), ", ") + `.
The first is the base. Without --compare it is off with log_statement, pgaudit
where it is installed, and steno.`,
		Example: `  steno bench overhead
  steno bench overhead --workload tpcb --pairs 20
  steno bench overhead --compare off,off
  steno bench overhead --compare off,steno --profile 8 --output bench/results/today
  steno bench overhead --compare off,steno --set steno.writers=2
  steno bench overhead --dsn "host=/run/postgresql dbname=bench"`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return exit.Usagef("%w", err)
			}
			// A terminal that goes away must not leave servers behind.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			return run(ctx, o)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Load.Clients, "clients", 16, "sessions of pgbench")
	flags.IntVar(&o.Seconds, "seconds", 1, "length of a slice")
	flags.IntVar(&o.Rounds, "pairs", 100, "number of rounds; each server gets a slice in each")
	flags.StringVar(&o.Load.Workload, "workload", "select", "select or tpcb")
	flags.StringVar(&o.Load.Protocol, "protocol", "prepared", "simple, extended or prepared")
	flags.IntVar(&o.Load.Scale, "scale", 10, "scale of pgbench's tables")
	flags.StringSliceVar(&o.Compare, "compare", nil, "what to compare, the base first")
	flags.StringArrayVar(&o.Set, "set", nil, "a further setting of every server, as name=value")
	flags.DurationVar(&o.Pause, "pause", 250*time.Millisecond, "wait after a slice, for writers and the log to catch up")
	flags.IntVar(&o.Renew, "renew", 20, "rounds after which all servers are made anew; 0: never")
	flags.IntVar(&o.Profile.Seconds, "profile", 0, "seconds of CPU samples; 0 takes none")
	flags.IntVar(&o.Profile.Runs, "profile-runs", 3, "how often to take CPU samples")
	flags.StringVar(&o.Profile.Unwind, "profile-unwind", "fp", "how perf walks the stack: fp or dwarf")
	cmdutil.AddPGConfig(flags, &o.PGConfig)
	flags.StringVar(&o.DSN, "dsn", "", "measure this running server")
	flags.BoolVarP(&o.Yes, "yes", "y", false, "with --dsn, change the server's setting without asking")
	cmdutil.AddFormat(cmd, &o.Format)
	flags.StringVar(&o.Output, "output", "", "folder for the report and the raw data")
	return cmd
}

// complete checks the flags and fills in what follows from them.
func (o *overheadOptions) complete() error {
	o.Command = cmdutil.CommandLine()
	o.Options.Version = o.Factory.Version
	if err := o.Load.check(); err != nil {
		return err
	}
	switch {
	case o.Rounds < 1:
		return errors.New("--pairs must be at least 1")
	case o.Seconds < 1:
		return errors.New("--seconds must be at least 1")
	case o.Renew < 0:
		return errors.New("--renew must be at least 0")
	case o.Profile.Seconds < 0 || o.Profile.Runs < 1:
		return errors.New("--profile must be at least 0 and --profile-runs at least 1")
	case o.DSN != "" && (len(o.Compare) > 0 || len(o.Set) > 0 || o.Profile.Seconds > 0):
		return errors.New("--dsn does not go with --compare, --set and --profile")
	}
	for _, s := range o.Set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("--set takes name=value, not \"%s\"", s)
		}
		o.Settings = append(o.Settings, cluster.Setting{Name: name, Value: value})
	}
	return cmdutil.CheckFormat(o.Format)
}

func overheadRun(ctx context.Context, o *overheadOptions) error {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return err
	}
	phases := progress.NewPhases(o.IO)
	defer phases.End()
	o.Progress = phases.Step

	measure := o.measureLab
	if o.DSN != "" {
		measure = o.measureGiven
	}
	report, err := measure(ctx, installation, phases)
	phases.End()
	if err != nil {
		return err
	}
	if o.Output != "" {
		if err := report.WriteFiles(o.Output); err != nil {
			return err
		}
	}
	if o.Format == "json" {
		encoder := json.NewEncoder(o.IO.Out)
		return encoder.Encode(report)
	}
	w := bufio.NewWriter(o.IO.Out)
	report.WriteText(w)
	return w.Flush()
}

// measureLab compares throw-away servers.
func (o *overheadOptions) measureLab(ctx context.Context, installation *cluster.Installation, phases *progress.Phases) (report *Report, err error) {
	if len(o.Compare) == 0 {
		o.Compare = DefaultCompare(installation)
	}
	for _, name := range o.Compare {
		if _, err := findVariant(name, installation); err != nil {
			return nil, err
		}
	}
	if o.Profile.Seconds > 0 {
		if err := CanProfile(ctx, o.Profile.Unwind); err != nil {
			return nil, err
		}
	}
	phases.Phase("making servers")
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	b, err := Open(ctx, lab, o.Options)
	if err != nil {
		return nil, err
	}
	phases.Phase(fmt.Sprintf("measuring %s", o.Load.Title()))
	if report, err = b.Measure(ctx, o.Load); err != nil {
		return nil, err
	}
	if o.Profile.Seconds > 0 {
		server := b.profiled()
		if server == nil {
			return nil, errors.New("--profile needs a variant of steno in --compare")
		}
		phases.Phase("taking CPU samples")
		if report.Profile, err = b.Profile(ctx, o.Load, o.Profile, server); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// DefaultCompare is what can be compared here.
func DefaultCompare(installation *cluster.Installation) []string {
	compare := []string{"off", "log_statement"}
	if installation.HasLibrary("pgaudit") {
		compare = append(compare, "pgaudit")
	}
	return append(compare, "steno")
}

// measureGiven compares a running server with itself.
func (o *overheadOptions) measureGiven(ctx context.Context, installation *cluster.Installation, phases *progress.Phases) (*Report, error) {
	g, err := OpenGiven(ctx, installation, o.DSN, o.Load)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if !o.Yes {
		fmt.Fprintf(o.IO.ErrOut, "%s\nGo on? [y/N] ", g.Intention(o.Options))
		answer, _ := bufio.NewReader(o.IO.In).ReadString('\n')
		if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
			return nil, errors.New("nothing changed (--yes answers the question)")
		}
	}
	phases.Phase("measuring " + o.Load.Title())
	return g.Measure(ctx, o.Options)
}

func newCmdChart(f *cmdutil.Factory) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "chart FOLDER...",
		Short:   "Draw archived measurements as an SVG picture",
		Example: "  steno bench chart -o docs/overhead.svg bench/runs/2026-01-31/select bench/runs/2026-01-31/tpcb",
		Args:    cmdutil.Args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, folders []string) error {
			var reports []*Report
			for _, folder := range folders {
				r, err := ReadReport(folder)
				if err != nil {
					return err
				}
				reports = append(reports, r)
			}
			if output == "" {
				return WriteChart(f.IO.Out, reports)
			}
			var b strings.Builder
			if err := WriteChart(&b, reports); err != nil {
				return err
			}
			return os.WriteFile(output, []byte(b.String()), 0o644)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write (default standard output)")
	return cmd
}

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/cluster"
	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/stats"
)

// stallOptions are the flags of "steno bench stall".
type stallOptions struct {
	*cmdutil.Factory
	Load     Load
	Rounds   int
	Seconds  int
	PGConfig string
	Format   string
}

// StallReport says what statements notice of writers that stand still.
type StallReport struct {
	Load    Load `json:"load"`
	Rounds  int  `json:"rounds"`
	Seconds int  `json:"seconds"`
	// Milliseconds of the slowest transaction of a thousand in a slice: medians
	// of the slices.
	Running float64 `json:"running_ms"`
	Stopped float64 `json:"stopped_ms"`
	// Ratio compares slices with stopped writers to slices with running ones
	// of the same round; Noise compares two with running ones.
	Ratio stats.Estimate `json:"ratio"`
	Noise stats.Estimate `json:"noise"`
	// Waits is how often a statement waited for room in its ring.
	Waits int `json:"waits"`
}

func newCmdStall(f *cmdutil.Factory) *cobra.Command {
	o := &stallOptions{Factory: f}
	cmd := &cobra.Command{
		Use:   "stall",
		Short: "Measure what statements notice of a writer that stands still",
		Long: `Start a throw-away server that records everything, with rings that take more
than a slice of load, and give it slices of pgbench. During some its writer is
stopped (SIGSTOP). Quoted is the latency that one transaction of a thousand
exceeds, with the writer stopped and with it running, and the median of the
ratios of slices that were made close to each other, with its 95 % interval;
beside it the same ratio of two slices with a running writer: what the machine
itself makes of equal things.`,
		Example: `  steno bench stall
  steno bench stall --pairs 50 --clients 4`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return cmdutil.Usagef("%w", err)
			}
			return stallRun(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Load.Clients, "clients", 8, "sessions of pgbench")
	flags.IntVar(&o.Seconds, "seconds", 2, "length of a slice")
	flags.IntVar(&o.Rounds, "pairs", 20, "number of rounds of three slices")
	flags.StringVar(&o.Load.Workload, "workload", "select", "select or tpcb")
	flags.StringVar(&o.Load.Protocol, "protocol", "prepared", "simple, extended or prepared")
	flags.IntVar(&o.Load.Scale, "scale", 10, "scale of pgbench's tables")
	flags.StringVar(&o.PGConfig, "pg-config", "", "pg_config of the PostgreSQL to use (default $PG_CONFIG, else the one found)")
	flags.StringVar(&o.Format, "format", "text", "text or json")
	return cmd
}

func (o *stallOptions) check() error {
	if err := o.Load.check(); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Seconds < 1 {
		return errors.New("--pairs and --seconds must be at least 1")
	}
	if o.Format != "text" && o.Format != "json" {
		return fmt.Errorf("no format \"%s\"; there are text and json", o.Format)
	}
	return nil
}

func stallRun(ctx context.Context, o *stallOptions) error {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return err
	}
	progress := NewProgress(o.IO)
	defer progress.End()
	progress.Phase("making a server")
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		return err
	}
	report, err := o.measure(ctx, lab, progress)
	progress.End()
	if err = errors.Join(err, lab.Close()); err != nil {
		return err
	}
	if o.Format == "json" {
		return json.NewEncoder(o.IO.Out).Encode(report)
	}
	return report.write(o.IO.Out)
}

func (o *stallOptions) measure(ctx context.Context, lab *cluster.Lab, progress *Progress) (*StallReport, error) {
	b, err := Open(ctx, lab, Options{Load: o.Load, Compare: []string{"steno"}, Settings: []cluster.Setting{
		// room for what a slice makes
		{Name: "steno.ring_size", Value: "4MB"},
		{Name: "max_connections", Value: strconv.Itoa(o.Load.Clients + 10)},
	}})
	if err != nil {
		return nil, err
	}
	s := b.Server("steno")
	if _, err := s.Psql(ctx, "CREATE EXTENSION pg_steno"); err != nil {
		return nil, err
	}
	if _, err := o.Load.run(ctx, s, 1); err != nil {
		return nil, err
	}
	progress.Phase("measuring " + o.Load.Title())
	report := &StallReport{Load: o.Load, Rounds: o.Rounds, Seconds: o.Seconds}
	var running, stopped, ratio, noise []float64
	for round := range o.Rounds {
		progress.Step("slices", round, o.Rounds)
		var ms [3]float64 // stopped, running, running; in another order each round
		for i := range 3 {
			kind := (round + i) % 3
			if ms[kind], err = o.slice(ctx, lab, s, kind == 0); err != nil {
				return nil, err
			}
		}
		stopped = append(stopped, ms[0])
		running = append(running, ms[1], ms[2])
		ratio = append(ratio, ms[0]/ms[1])
		noise = append(noise, ms[2]/ms[1])
	}
	report.Running, report.Stopped = stats.Of(running).Median, stats.Of(stopped).Median
	report.Ratio, report.Noise = stats.Of(ratio), stats.Of(noise)
	waits, err := s.Psql(ctx, "SELECT sum(waits) FROM steno.rings")
	if err == nil {
		report.Waits, err = strconv.Atoi(waits)
	}
	return report, err
}

// slice gives the server some seconds of load, and returns the milliseconds that
// one transaction of a thousand exceeds.
func (o *stallOptions) slice(ctx context.Context, lab *cluster.Lab, s *cluster.Server, stop bool) (float64, error) {
	// nothing is left to be written, or to be done by other programs
	if _, err := s.Psql(ctx, "SELECT steno.flush()"); err != nil {
		return 0, err
	}
	if err := Sleep(ctx, 250*time.Millisecond); err != nil {
		return 0, err
	}
	if stop {
		pid, err := s.Psql(ctx, "SELECT pid FROM steno.writers")
		if err != nil {
			return 0, err
		}
		writer, err := strconv.Atoi(pid)
		if err != nil {
			return 0, err
		}
		if err := syscall.Kill(writer, syscall.SIGSTOP); err != nil {
			return 0, err
		}
		defer func() { _ = syscall.Kill(writer, syscall.SIGCONT) }()
	}
	prefix := filepath.Join(lab.Dir, "latency")
	args := append(o.Load.args(o.Seconds), "--log", "--log-prefix="+prefix)
	if _, err := s.Pgbench(ctx, args...); err != nil {
		return 0, err
	}
	files, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return 0, err
	}
	var all []float64
	for _, file := range files {
		if err := Latencies(file, func(us float64) { all = append(all, us) }); err != nil {
			return 0, err
		}
		if err := os.Remove(file); err != nil {
			return 0, err
		}
	}
	if len(all) < 1000 {
		return 0, fmt.Errorf("a slice of %d transactions is too short to say what one of a thousand takes", len(all))
	}
	slices.Sort(all)
	return all[len(all)*999/1000] / 1000, nil
}

func (r *StallReport) write(out io.Writer) error {
	ratio := func(e stats.Estimate) string {
		return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Median, e.Low, e.High)
	}
	_, err := fmt.Fprintf(out, `%s; %d rounds of slices of %d s
99.9 %% of the transactions took at most, median of the slices:
  writer running   %.3f ms
  writer stopped   %.3f ms
ratio of neighbours, stopped to running:  %s
ratio of neighbours, running to running:  %s
waits for room in a ring: %d
`, r.Load.Title(), r.Rounds, r.Seconds, r.Running, r.Stopped, ratio(r.Ratio), ratio(r.Noise), r.Waits)
	return err
}

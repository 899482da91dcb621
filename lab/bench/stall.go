// The effect of a stopped writer on statements: flags, measurement and report.

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/measure"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// Stall measures the effect of stopped writers on statements.
type Stall struct {
	measure.Environment
	Load     Load
	Rate     float64
	Rounds   int
	Seconds  int
	PGConfig string
	Format   string
}

// StallReport is the effect of stopped writers on statements.
type StallReport struct {
	Load    Load `json:"load"`
	Rounds  int  `json:"rounds"`
	Seconds int  `json:"seconds"`
	// Rate is the number of transactions begun per second, the same in all slices; 0: as many as possible.
	Rate int `json:"rate"`
	// Transactions is how many were measured of each of the three kinds.
	Transactions int `json:"transactions"`
	// Milliseconds that one transaction of a thousand exceeds, of all slices of a
	// kind: with the writer stopped, running, and running once more.
	Stopped float64 `json:"stopped_ms"`
	Running float64 `json:"running_ms"`
	Again   float64 `json:"running_again_ms"`
	// Ratio compares slices with stopped writers to slices with running ones
	// of the same round; Noise compares two with running ones.
	Ratio stats.Estimate `json:"ratio"`
	Noise stats.Estimate `json:"noise"`
	// Waits is how often a statement waited for space in its ring.
	Waits int `json:"waits"`
}

// NewStall returns the measurement.
func NewStall(e measure.Environment) *Stall { return &Stall{Environment: e} }

// AddFlags adds the flags.
func (o *Stall) AddFlags(flags *pflag.FlagSet) {
	flags.IntVar(&o.Load.Clients, "clients", 8, "sessions of pgbench")
	flags.Float64Var(&o.Rate, "rate", 0.25, "load, as a fraction of the maximum")
	flags.IntVar(&o.Seconds, "seconds", 1, "length of a slice")
	flags.IntVar(&o.Rounds, "rounds", 20, "number of rounds of three slices")
	flags.StringVar(&o.Load.Workload, "workload", "select", "select or tpcb")
	flags.StringVar(&o.Load.Protocol, "protocol", "prepared", "simple, extended or prepared")
	flags.IntVar(&o.Load.Scale, "scale", 10, "scale of pgbench's tables")
	measure.AddPGConfig(flags, &o.PGConfig)
	measure.AddFormat(flags, &o.Format)
}

// Complete checks the flags.
func (o *Stall) Complete(func(flag string) bool) error {
	if err := o.Load.check(); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Seconds < 1 {
		return errors.New("--rounds and --seconds must be at least 1")
	}
	if o.Rate <= 0 || o.Rate > 1 {
		return errors.New("--rate must be greater than 0 and at most 1")
	}
	return iostreams.CheckFormat(o.Format)
}

// Run measures.
func (o *Stall) Run(ctx context.Context) error {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return err
	}
	phases := progress.NewPhases(o.IO)
	defer phases.End()
	phases.Phase("creating a server")
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		return err
	}
	report, err := o.measure(ctx, lab, phases)
	phases.End()
	if err = errors.Join(err, lab.Close()); err != nil {
		return err
	}
	if o.Format == "json" {
		return json.NewEncoder(o.IO.Out).Encode(report)
	}
	return report.write(o.IO.Out)
}

func (o *Stall) measure(ctx context.Context, lab *cluster.Lab, phases *progress.Phases) (*StallReport, error) {
	b, err := Open(ctx, lab, Options{Load: o.Load, Compare: []string{"steno"}, Settings: []cluster.Setting{
		// large enough for the records of a slice
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
	most, err := o.Load.run(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	phases.Phase("measuring " + o.Load.Title())
	report := &StallReport{Load: o.Load, Rounds: o.Rounds, Seconds: o.Seconds}
	if o.Rate < 1 {
		report.Rate = max(int(most.TPS*o.Rate), 1)
	}
	var all [3][]float64
	var ratio, noise []float64
	for round := range o.Rounds {
		phases.Step("slices", round, o.Rounds)
		var ms [3]float64 // stopped, running, running; in another order each round
		for i := range 3 {
			kind := (round + i) % 3
			slice, err := o.slice(ctx, lab, s, report.Rate, kind == 0)
			if err != nil {
				return nil, err
			}
			ms[kind] = slowest(slice)
			all[kind] = append(all[kind], slice...)
		}
		ratio = append(ratio, ms[0]/ms[1])
		noise = append(noise, ms[2]/ms[1])
	}
	report.Transactions = min(len(all[0]), len(all[1]), len(all[2]))
	report.Stopped, report.Running, report.Again = slowest(all[0]), slowest(all[1]), slowest(all[2])
	report.Ratio, report.Noise = stats.NewEstimate(ratio), stats.NewEstimate(noise)
	waits, err := s.Psql(ctx, "SELECT sum(waits) FROM steno.rings")
	if err == nil {
		report.Waits, err = strconv.Atoi(waits)
	}
	return report, err
}

// slowest returns the 99.9th percentile of latencies, in milliseconds; us are microseconds.
func slowest(us []float64) float64 {
	slices.Sort(us)
	return us[len(us)*999/1000] / 1000
}

// slice gives the server some seconds of load, and returns the latencies, in
// microseconds. With a rate, a latency counts from when the transaction was due.
func (o *Stall) slice(
	ctx context.Context, lab *cluster.Lab, s *cluster.Server, rate int, stop bool,
) ([]float64, error) {
	// complete all writes, of other programs, too
	if _, err := s.Psql(ctx, "SELECT steno.flush()"); err != nil {
		return nil, err
	}
	if err := Sleep(ctx, 250*time.Millisecond); err != nil {
		return nil, err
	}
	if stop {
		pid, err := s.Psql(ctx, "SELECT pid FROM steno.writers")
		if err != nil {
			return nil, err
		}
		writer, err := strconv.Atoi(pid)
		if err != nil {
			return nil, err
		}
		if err := syscall.Kill(writer, syscall.SIGSTOP); err != nil {
			return nil, err
		}
		defer func() { _ = syscall.Kill(writer, syscall.SIGCONT) }()
	}
	prefix := filepath.Join(lab.Dir, "latency")
	args := append(o.Load.args(o.Seconds), "--log", "--log-prefix="+prefix)
	if rate > 0 {
		args = append(args, "--rate="+strconv.Itoa(rate))
	}
	if _, err := s.Pgbench(ctx, args...); err != nil {
		return nil, err
	}
	var all []float64
	if err := TakeLatencies(prefix, func(us float64) { all = append(all, us) }); err != nil {
		return nil, err
	}
	if len(all) < 1000 {
		return nil, fmt.Errorf("a slice of %d transactions is too short for the 99.9th percentile", len(all))
	}
	return all, nil
}

func (r *StallReport) write(out io.Writer) error {
	ratio := func(e stats.Estimate) string {
		return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Median, e.Low, e.High)
	}
	load := r.Load.Title()
	if r.Rate > 0 {
		load += fmt.Sprintf(", %d transactions per second", r.Rate)
	}
	_, err := fmt.Fprintf(out, `%s; %d rounds of slices of %d s
99.9 %% of the transactions took at most, of %d of each:
  writer running   %.3f ms, and %.3f ms
  writer stopped   %.3f ms
ratio of neighbours, stopped to running:  %s
ratio of neighbours, running to running:  %s
waits for room in a ring: %d
`, load, r.Rounds, r.Seconds, r.Transactions, r.Running, r.Again, r.Stopped, ratio(r.Ratio), ratio(r.Noise), r.Waits)
	return err
}

// The flags of overhead, and its run on throw-away servers or a given one.

package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// Overhead measures what recording costs: its flags.
type Overhead struct {
	measure.Environment
	Options

	PGConfig string
	DSN      string
	Yes      bool
	Format   string
	Output   string
	Set      []string
}

// NewOverhead returns the measurement.
func NewOverhead(e measure.Environment) *Overhead { return &Overhead{Environment: e} }

// AddFlags adds the flags.
func (o *Overhead) AddFlags(flags *pflag.FlagSet) {
	flags.IntVar(&o.Load.Clients, "clients", 16, "sessions of pgbench")
	flags.IntVar(&o.Seconds, "seconds", 1, "length of a slice")
	flags.IntVar(&o.Rounds, "rounds", 100, "number of rounds; each server gets a slice in each")
	flags.StringVar(&o.Load.Workload, "workload", "select", "select or tpcb")
	flags.StringVar(&o.Load.Protocol, "protocol", "prepared", "simple, extended or prepared")
	flags.IntVar(&o.Load.Scale, "scale", 10, "scale of pgbench's tables")
	flags.StringSliceVar(&o.Compare, "compare", nil, "what to compare, the base first")
	flags.StringArrayVar(&o.Set, "set", nil, "a further setting of every server, as name=value")
	flags.DurationVar(&o.Pause, "pause", 250*time.Millisecond, "wait after a slice, for writers and the log to "+
		"catch up")
	flags.IntVar(&o.Renew, "renew", 20, "create new servers after this number of rounds; 0: never")
	flags.IntVar(&o.Profile.Seconds, "profile", 0, "seconds of CPU samples; 0 takes none")
	flags.IntVar(&o.Profile.Runs, "profile-runs", 3, "how often to take CPU samples")
	flags.StringVar(&o.Profile.Unwind, "profile-unwind", "fp", "how perf walks the stack: fp or dwarf")
	measure.AddPGConfig(flags, &o.PGConfig)
	flags.StringVar(&o.DSN, "dsn", "", "connection string of a running server to measure")
	flags.BoolVarP(&o.Yes, "yes", "y", false, "with --dsn, change the server's setting without asking")
	measure.AddFormat(flags, &o.Format)
	flags.StringVar(&o.Output, "out", "", "folder for the raw data and the report (report.html)")
}

// Complete checks the flags and fills in what follows from them.
func (o *Overhead) Complete(func(flag string) bool) error {
	o.Command = measure.CommandLine()
	o.Options.Version = o.Environment.Version
	if err := o.Load.check(); err != nil {
		return err
	}
	switch {
	case o.Rounds < 1:
		return errors.New("--rounds must be at least 1")
	case o.Seconds < 1:
		return errors.New("--seconds must be at least 1")
	case o.Renew < 0:
		return errors.New("--renew must be at least 0")
	case o.Profile.Seconds < 0 || o.Profile.Runs < 1:
		return errors.New("--profile must be at least 0 and --profile-runs at least 1")
	case o.DSN != "" && (len(o.Compare) > 0 || len(o.Set) > 0 || o.Profile.Seconds > 0):
		return errors.New("--dsn cannot be used with --compare, --set or --profile")
	}
	for _, s := range o.Set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("--set expects name=value, not \"%s\"", s)
		}
		o.Settings = append(o.Settings, cluster.Setting{Name: name, Value: value})
	}
	return iostreams.CheckFormat(o.Format)
}

// Run measures.
func (o *Overhead) Run(ctx context.Context) error {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return err
	}
	publisher := measure.Common{Environment: o.Environment, Format: o.Format, Output: o.Output}
	return publisher.Publish(ctx, func(ctx context.Context, phases *progress.Phases) (*result.Result, error) {
		o.Progress = phases.Step
		take := o.measureLab
		if o.DSN != "" {
			take = o.measureGiven
		}
		r, err := take(ctx, installation, phases)
		if err != nil {
			return nil, err
		}
		Summarize(r)
		return r, nil
	})
}

// measureLab compares throw-away servers.
func (o *Overhead) measureLab(ctx context.Context, installation *cluster.Installation,
	phases *progress.Phases) (r *result.Result, err error) {
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
	if r, err = b.Measure(ctx, o.Load); err != nil {
		return nil, err
	}
	if o.Profile.Seconds > 0 {
		profiled := b.profiled()
		if profiled == nil {
			return nil, errors.New("--profile needs a variant of steno in --compare")
		}
		phases.Phase("taking CPU samples")
		samples, err := b.Profile(ctx, o.Load, o.Profile, profiled.server)
		if err != nil {
			return nil, err
		}
		addCPU(r, profiled.name, samples)
	}
	return r, nil
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
func (o *Overhead) measureGiven(ctx context.Context, installation *cluster.Installation,
	phases *progress.Phases) (*result.Result, error) {
	g, err := OpenGiven(ctx, installation, o.DSN, o.Load)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if !o.Yes {
		fmt.Fprintf(o.IO.ErrOut, "%s\nContinue? [y/N] ", g.Announcement(o.Options))
		answer, _ := bufio.NewReader(o.IO.In).ReadString('\n')
		if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
			return nil, errors.New("nothing was changed (use --yes to skip the question)")
		}
	}
	phases.Phase("measuring " + o.Load.Title())
	return g.Measure(ctx, o.Options)
}

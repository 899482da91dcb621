// Package demo demonstrates pg_steno: it starts throw-away servers, measures the cost of recording, runs the sessions
// of several users, and shows what the trail contains about them.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/bench/report"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// budget is the maximum duration of a workload's measurement; on a busy machine there are fewer rounds.
const budget = 50 * time.Second

// Options are the options of a run.
type Options struct {
	measure.Environment
	// Steno returns the path of the program that reads the trail.
	Steno    func() (string, error)
	PGConfig string
	Rounds   int
	Keep     string
}

// New returns the demonstration.
func New(e measure.Environment) *Options { return &Options{Environment: e} }

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	measure.AddPGConfig(flags, &o.PGConfig)
	flags.IntVar(&o.Rounds, "rounds", 8,
		"maximum number of rounds of each workload; each server gets a second in each")
	flags.StringVar(&o.Keep, "keep", "", "new folder in which to keep the trail (default in the temporary folder)")
}

// Complete checks the flags.
func (o *Options) Complete(func(flag string) bool) error {
	if o.Rounds < 1 {
		return errors.New("--rounds must be at least 1")
	}
	return nil
}

// Run performs the demonstration.
func (o *Options) Run(ctx context.Context) error {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return err
	}
	if !installation.HasLibrary("pg_steno") {
		return fmt.Errorf("no pg_steno.so in \"%s\": run \"make install\", or \"make demo\" in the source tree",
			installation.LibraryDir)
	}
	if o.Keep, err = keepFolder(o.Keep); err != nil {
		return err
	}
	begin, err := o.record(ctx, installation)
	if err != nil {
		return errors.Join(err, os.RemoveAll(o.Keep))
	}
	return o.readBack(ctx, begin)
}

// keepFolder creates the directory for the trail, which contains the users' statements.
func keepFolder(name string) (string, error) {
	if name == "" {
		return os.MkdirTemp("", "steno-demo-")
	}
	return name, os.Mkdir(name, 0o700)
}

// record creates the servers, measures, runs the users' sessions, stops the servers and keeps the trail. It returns
// the time when the sessions began.
func (o *Options) record(ctx context.Context, installation *cluster.Installation) (begin time.Time, err error) {
	phases := progress.NewPhases(o.IO)
	defer phases.End()

	phases.Phase("making servers")
	lab, err := cluster.NewLab(ctx, installation, refused)
	if err != nil {
		return begin, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, lab.Close())
		}
	}()
	load := bench.Load{Workload: "select", Protocol: "prepared", Clients: 16, Scale: 10}
	b, err := bench.Open(ctx, lab, bench.Options{
		Load: load, Compare: bench.DefaultCompare(installation), Rounds: o.Rounds, Seconds: 1,
		Pause: 100 * time.Millisecond, Budget: budget, Version: o.Version, Progress: phases.Step,
	})
	if err != nil {
		return begin, err
	}

	for i, workload := range []string{"select", "tpcb"} {
		load.Workload = workload
		phases.Phase("measuring " + load.Title())
		r, err := b.Measure(ctx, load)
		if err != nil {
			return begin, err
		}
		bench.Summarize(r)
		phases.End()
		o.heading(load.Title())
		if i == 0 {
			fmt.Fprintf(o.IO.Out, "%s; %s, %d cores; fsync on\n", r.Postgres, r.Machine.CPU, r.Machine.Cores)
		}
		report.Terminal{Width: 100, Color: o.IO.ColorEnabled()}.Tables(o.IO.Out, r)
	}

	phases.Phase("running the users' statements")
	begin = time.Now()
	server := b.Server("steno")
	if err := perform(ctx, server); err != nil {
		return begin, err
	}
	phases.Phase("stopping servers")
	if err := server.Stop(); err != nil {
		return begin, err
	}
	if err := os.CopyFS(o.Keep, os.DirFS(bench.TrailDir(server))); err != nil {
		return begin, err
	}
	closed = true
	return begin, lab.Close()
}

func (o *Options) heading(text string) {
	if o.IO.ColorEnabled() {
		fmt.Fprintf(o.IO.Out, "\n\x1b[1m%s\x1b[0m\n", text)
		return
	}
	fmt.Fprintf(o.IO.Out, "\n%s\n%s\n", text, strings.Repeat("-", len(text)))
}

// readBack shows the contents of the trail with the steno program.
func (o *Options) readBack(ctx context.Context, begin time.Time) error {
	o.heading("What the users did, according to the trail")
	if err := o.steno(ctx, "cat", "--since", begin.UTC().Format(time.RFC3339Nano), o.Keep); err != nil {
		return err
	}
	o.heading("Is the trail intact?")
	if err := o.steno(ctx, "verify", o.Keep); err != nil {
		return err
	}
	steno, err := o.Steno()
	if err != nil {
		return err
	}
	o.heading("The trail is in " + o.Keep)
	fmt.Fprintf(o.IO.Out, `Try:
  %[1]s cat --failed %[2]s
  %[1]s cat --grep payroll --format json %[2]s
  %[1]s info %[2]s
and remove it with rm -r %[2]s
`, steno, o.Keep)
	return nil
}

func (o *Options) steno(ctx context.Context, args ...string) error {
	path, err := o.Steno()
	if err != nil {
		return fmt.Errorf("no program \"steno\" beside steno-lab or in PATH: %w", err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = o.IO.Out, o.IO.ErrOut
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(path), strings.Join(args, " "), err)
	}
	return nil
}

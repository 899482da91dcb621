// Package measure is the common part of the laboratory's measurements: their interface for the command line, their
// flags, the sequence of a run, and where results are written. The names and the help of the commands are in package
// command.
package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/report"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/machine"
)

// Measurement is the implementation of a laboratory command.
type Measurement interface {
	// AddFlags defines the flags.
	AddFlags(flags *pflag.FlagSet)
	// Complete checks the flags and derives the remaining options from them; given reports whether a flag was set.
	Complete(given func(flag string) bool) error
	// Run measures and reports the result.
	Run(ctx context.Context) error
}

// Environment is the environment of a measurement.
type Environment struct {
	IO      *iostreams.IOStreams
	Version string // of steno
}

// AddFormat defines --format.
func AddFormat(flags *pflag.FlagSet, to *string) {
	flags.StringVarP(to, "format", "o", "text", "output `format`: text or json")
}

// AddPGConfig defines --pg-config for a measurement that starts servers.
func AddPGConfig(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "pg-config", "", "pg_config of the PostgreSQL installation to use (default $PG_CONFIG, or "+
		"else the first one found)")
}

// Common is the options of most measurements.
type Common struct {
	Environment
	Format string
	Output string
	// Quick and Full are sizes of a run: under two minutes, and everything that can be compared with published
	// figures. A run with neither is in between.
	Quick, Full bool
}

// AddFlags defines the flags.
func (c *Common) AddFlags(flags *pflag.FlagSet) {
	AddFormat(flags, &c.Format)
	flags.StringVar(&c.Output, "out", "", "folder for the raw data and the report (report.html)")
	flags.BoolVar(&c.Quick, "quick", false, "a small run, under two minutes")
	flags.BoolVar(&c.Full, "full", false, "the complete set of cases; takes long")
}

// Check checks the flags.
func (c *Common) Check() error {
	if c.Quick && c.Full {
		return errors.New("--quick and --full exclude each other")
	}
	return iostreams.CheckFormat(c.Format)
}

// Publish measures while the load of the machine is watched, and writes the result as the flags request.
func (c *Common) Publish(ctx context.Context,
	measure func(context.Context, *progress.Phases) (*result.Result, error)) error {
	phases := progress.NewPhases(c.IO)
	defer phases.End()
	watch, err := machine.StartWatch(ctx)
	if err != nil {
		return err
	}
	r, err := measure(ctx, phases)
	phases.End()
	if err != nil {
		return err
	}
	r.Busy = watch.End()
	if c.Output != "" {
		if err := r.Write(c.Output); err != nil {
			return err
		}
		if err := writePage(filepath.Join(c.Output, "report.html"), r); err != nil {
			return err
		}
	}
	if c.Format == "json" {
		return json.NewEncoder(c.IO.Out).Encode(r)
	}
	return printText(c.IO, r)
}

// Show writes an archived result like its measurement did: as text, or, if the path of a page is given, as a page with
// charts.
func Show(streams *iostreams.IOStreams, dir, page string) error {
	r, err := result.Read(dir)
	if err != nil {
		return err
	}
	if page != "" {
		return writePage(page, r)
	}
	return printText(streams, r)
}

func printText(streams *iostreams.IOStreams, r *result.Result) error {
	w := bufio.NewWriter(streams.Out)
	terminal := report.Terminal{Width: 100, Color: streams.ColorEnabled()}
	if streams.IsTerminal() {
		terminal.Width = max(streams.Width(), 60)
	}
	terminal.Text(w, r)
	return w.Flush()
}

func writePage(path string, r *result.Result) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := report.HTML(f, r); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// CommandLine returns the command line as reports and archives quote it.
func CommandLine() string { return commandLine(os.Args[1:]) }

// commandLine omits connection strings, because they may contain a password.
func commandLine(args []string) string {
	const flag = "--dsn"
	command := "steno"
	for i, arg := range args {
		if strings.HasPrefix(arg, flag+"=") {
			arg = flag + "=..."
		} else if i > 0 && args[i-1] == flag {
			arg = "..."
		}
		command += " " + arg
	}
	return command
}

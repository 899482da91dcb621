// Package benchcmd is what the laboratory's commands have in common: the flags,
// the order of things, and where results go.
package benchcmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/lab/bench/report"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/machine"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// Common are the flags of every command of the laboratory.
type Common struct {
	*cmdutil.Factory
	Format string
	Output string
	// Quick and Full are sizes of the run: under two minutes, and all that is
	// worth a comparison with published figures. Neither is in between.
	Quick, Full bool
}

// Add adds the flags.
func (c *Common) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	cmdutil.AddFormat(cmd, &c.Format)
	flags.StringVar(&c.Output, "output", "", "folder for the raw data and the report (report.html)")
	flags.BoolVar(&c.Quick, "quick", false, "a small run, under two minutes")
	flags.BoolVar(&c.Full, "full", false, "the whole matrix; takes long")
}

// Check looks at the flags.
func (c *Common) Check() error {
	if c.Quick && c.Full {
		return errors.New("--quick and --full exclude each other")
	}
	return cmdutil.CheckFormat(c.Format)
}

// Run measures, with the machine watched meanwhile, and puts the result where
// the flags say. The context that measure gets also ends with the terminal, so
// that nothing stays behind.
func (c *Common) Run(ctx context.Context, measure func(context.Context, *progress.Phases) (*result.Result, error)) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	phases := progress.NewPhases(c.IO)
	defer phases.End()
	watch, err := machine.Look(ctx)
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
	w := bufio.NewWriter(c.IO.Out)
	terminal := report.Terminal{Width: 100, Color: c.IO.ColorEnabled()}
	if c.IO.IsTerminal() {
		terminal.Width = max(c.IO.Width(), 60)
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

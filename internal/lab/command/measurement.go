package command

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// measuring completes a command, which has its name and texts, with the flags and the
// work of a measurement.
func measuring(cmd cobra.Command, m measure.Measurement) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = cmdutil.Args(cobra.NoArgs)
	}
	m.AddFlags(cmd.Flags())
	if cmd.Flags().Lookup("format") != nil {
		cmdutil.CompleteFormat(&cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := m.Complete(cmd.Flags().Changed); err != nil {
			return exit.Usagef("%w", err)
		}
		// A terminal that goes away must not leave servers behind.
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
		defer stop()
		return m.Run(ctx)
	}
	return &cmd
}

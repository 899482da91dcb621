// The command line of drivers.

package command

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/lab/drivers"
	"github.com/pg-steno/pg_steno/lab/regress"
)

// newCmdDrivers returns "steno-lab drivers".
func newCmdDrivers(streams *iostreams.IOStreams) *cobra.Command {
	o := drivers.Options{Out: streams.Out}
	cmd := &cobra.Command{
		Use:   "drivers",
		Short: "Compare log, statistics and trail while real clients work",
		Long: `Start a throw-away server, run clients with different drivers on it, and compare
the trail with the server's own log and with pg_stat_statements: each statement
once, with its text, parameters, outcome, rows, duration and identity. This runs
in the source tree; scripts/test-drivers installs the drivers and provides a
private PostgreSQL installation with the extension.`,
		Example: `  scripts/test-drivers
  scripts/test-drivers --only psql,pgx`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := drivers.Run(cmd.Context(), o)
			if errors.Is(err, drivers.ErrFailed) {
				return exit.ErrFailed
			}
			return err
		},
	}
	o.Limits = regress.Limits{Share: 0.99, Relative: 0.05, Absolute: 50 * time.Microsecond}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Only, "only", nil, "only these clients")
	flags.Float64Var(&o.Limits.Share, "share", o.Limits.Share, "share of the durations that must be within the limits")
	flags.Float64Var(&o.Limits.Relative, "relative", o.Limits.Relative, "how far a duration may be from another "+
		"one, relative to it")
	flags.DurationVar(&o.Limits.Absolute, "absolute", o.Limits.Absolute, "how far in addition to that")
	flags.StringVar(&o.Steno, "steno", "bin/steno", "the steno program")
	flags.StringVar(&o.Programs, "programs", "lab/clients", "folder of the clients' programs")
	flags.StringVar(&o.Installed, "installed", "build/drivers", "folder of their libraries")
	flags.StringVar(&o.Evidence, "evidence", "build/drivers/evidence", "folder for the differences")
	return cmd
}

// Package command is the program steno-lab, which is for those who measure pg_steno or work
// on it: its command tree, with a file for each command. What the commands do is in the
// packages beside it, which know no command line but their flags.
package command

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// Main is the program.
func Main() int { return program.Main(New) }

// New returns the root command with all subcommands.
func New(streams *iostreams.IOStreams) *cobra.Command {
	f := &cmdutil.Factory{IO: streams, Version: program.GetVersion()}
	root := &cobra.Command{
		Use:   "steno-lab",
		Short: "Measure the cost of pg_steno and other logs, and test what they lose",
		Long: `steno-lab contains the measurements and experiments of pg_steno. Most of them
start throw-away servers. If it is in the same directory as steno or in PATH,
"steno bench", "steno profile" and its other commands run it, too.

Exit codes: 0: success. 1: a check failed, for example that each statement has
its record. 2: wrong usage. 3: the command could not do its work. 130 and 143:
ended by SIGINT (Ctrl-C) or SIGTERM.`,
	}
	e := measure.Environment{IO: streams, Version: f.Version}
	root.AddCommand(newCmdBench(f, e), newCmdProfile(e), newCmdDemo(e), newCmdChaos(f), newCmdRegress(f),
		newCmdDrivers(f.IO))
	return program.Group(root, f, `.TP
.B PG_CONFIG
The pg_config of the PostgreSQL whose servers are started, when \-\-pg\-config is not given.
`)
}

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

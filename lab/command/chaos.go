// The command lines of chaos, and of chaos protocol.

package command

import (
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/lab/chaos"
	"github.com/pg-steno/pg_steno/lab/chaos/protocol"
	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
)

// newCmdChaos returns "steno-lab chaos".
func newCmdChaos(f *cmdutil.Factory) *cobra.Command {
	o := chaos.Options{Options: rounds.Options{Out: f.IO.Out}}
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Test the trail under random load and random faults",
		Long: `Start throw-away servers with random settings, load and faults, and compare what
the clients were told with the trail. This runs in the source tree;
scripts/chaos provides a private PostgreSQL installation with the extension.`,
		Example: `  scripts/chaos --mode wait --kills 200
  scripts/chaos --seed 1 --first 17 --rounds 1`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Rounds == 0 && o.Kills == 0 && o.Budget == 0 {
				return exit.Usagef("give --rounds, --kills or --time to say when to stop")
			}
			_, err := chaos.Run(cmd.Context(), o)
			if errors.Is(err, rounds.ErrFailed) {
				return exit.ErrFailed
			}
			return err
		},
	}
	cmd.AddCommand(newCmdProtocol(f))
	flags := cmd.Flags()
	flags.Uint64Var(&o.Seed, "seed", uint64(os.Getpid())<<16^uint64(os.Getppid()), "seed of all random choices "+
		"(default any)")
	flags.Lookup("seed").DefValue = ""
	flags.IntVar(&o.Rounds, "rounds", 0, "stop after this number of rounds")
	flags.IntVar(&o.Kills, "kills", 0, "stop after this number of killed processes")
	flags.DurationVar(&o.Budget, "time", 0, "stop after this time")
	flags.IntVar(&o.First, "first", 1, "number of the first round")
	flags.StringVar(&o.Mode, "mode", "", "only rounds of this mode: wait, drop, power, sync or commit")
	flags.StringSliceVar(&o.Faults, "fault", nil, "only these faults, by the names that the reports use")
	flags.IntVar(&o.Clients, "clients", 0, "number of clients in every round")
	flags.BoolVar(&o.Keep, "keep", false, "also keep what successful rounds leave behind")
	flags.BoolVarP(&o.Verbose, "verbose", "v", false, "name each fault when it occurs")
	flags.StringVar(&o.Steno, "steno", "bin/steno", "the steno program")
	flags.StringVar(&o.Source, "shim", "extension/t/faults.c", "source of the library that makes disks fail")
	flags.StringVar(&o.Evidence, "evidence", "build/chaos", "folder for what failed rounds leave behind")
	return cmd
}

// newCmdProtocol returns "steno-lab chaos protocol".
func newCmdProtocol(f *cmdutil.Factory) *cobra.Command {
	o := protocol.Options{Options: rounds.Options{Out: f.IO.Out}}
	cmd := &cobra.Command{
		Use:   "protocol",
		Short: "Test the trail with random sequences of the SQL protocol",
		Example: `  scripts/chaos protocol --seed 1 --rounds 3
  scripts/chaos protocol --seed 1 --first 2 --rounds 1 --session 3.17`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Rounds == 0 && o.Budget == 0 {
				return exit.Usagef("give --rounds or --time to say when to stop")
			}
			_, err := protocol.Run(cmd.Context(), o)
			if errors.Is(err, rounds.ErrFailed) {
				return exit.ErrFailed
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&o.Seed, "seed", rand.Uint64N(1<<32), "seed of all random choices (default any)")
	flags.Lookup("seed").DefValue = ""
	flags.IntVar(&o.Rounds, "rounds", 0, "stop after this number of rounds")
	flags.DurationVar(&o.Budget, "time", 0, "stop after this time")
	flags.IntVar(&o.First, "first", 1, "number of the first round")
	flags.IntVar(&o.Clients, "clients", 4, "number of clients in every round")
	flags.IntVar(&o.Sessions, "sessions", 25, "number of sessions of each client in a round")
	flags.StringVar(&o.Only, "session", "", "only this session of each round, by the name that the reports use")
	flags.StringSliceVar(&o.With, "with", nil, "only these moves")
	flags.StringSliceVar(&o.Without, "without", nil, "without these moves")
	flags.BoolVar(&o.Goon, "go-on", false, "continue after a failed round")
	flags.DurationVar(&o.Shrink, "shrink", time.Minute,
		"how long to search for a shorter failing script; 0: not at all")
	flags.BoolVar(&o.Keep, "keep", false, "also keep what successful rounds leave behind")
	flags.StringVar(&o.Steno, "steno", "bin/steno", "the steno program")
	flags.StringVar(&o.Evidence, "evidence", "build/chaos", "folder for what failed rounds leave behind")
	return cmd
}

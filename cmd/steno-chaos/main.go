// Command steno-chaos looks for records that pg_steno loses: random load and
// random faults on throw-away servers. It is for those who work on pg_steno;
// scripts/chaos runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/chaos"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := chaos.Options{Out: os.Stdout}
	cmd := &cobra.Command{
		Use:           "steno-chaos",
		Short:         "Random load meets random faults; the trail must agree with the clients",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Rounds == 0 && o.Kills == 0 && o.Budget == 0 {
				return errors.New("one of --rounds, --kills and --time must say when to stop")
			}
			_, err := chaos.Run(cmd.Context(), o)
			return err
		},
	}
	cmd.AddCommand(protocolCommand())
	flags := cmd.Flags()
	flags.Uint64Var(&o.Seed, "seed", uint64(os.Getpid())<<16^uint64(os.Getppid()), "what all that is random comes from (default any)")
	flags.IntVar(&o.Rounds, "rounds", 0, "stop after so many rounds")
	flags.IntVar(&o.Kills, "kills", 0, "stop when so many processes were killed")
	flags.DurationVar(&o.Budget, "time", 0, "stop after this time")
	flags.IntVar(&o.First, "first", 1, "number of the first round")
	flags.StringVar(&o.Mode, "mode", "", "only rounds of this mode: wait, drop, power or sync")
	flags.StringSliceVar(&o.Faults, "fault", nil, "only these faults, named as the reports do")
	flags.IntVar(&o.Clients, "clients", 0, "so many clients in every round")
	flags.BoolVar(&o.Keep, "keep", false, "keep what rounds leave that went well, too")
	flags.BoolVarP(&o.Verbose, "verbose", "v", false, "name each fault when it comes")
	flags.StringVar(&o.Steno, "steno", "bin/steno", "the steno program")
	flags.StringVar(&o.Source, "shim", "extension/t/faults.c", "source of the library that makes disks fail")
	flags.StringVar(&o.Evidence, "evidence", "build/chaos", "folder for what failing rounds leave")
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		if !errors.Is(err, chaos.ErrFailed) {
			fmt.Fprintf(os.Stderr, "steno-chaos: %s\n", err)
		}
		os.Exit(1)
	}
}

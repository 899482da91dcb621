package command

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/lab/bench/clock"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// newCmdClock returns "steno bench clock".
func newCmdClock(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "clock",
		Short: "Measure what reading the clock costs, and track_io_timing with it",
		Long: `Say which clock source the kernel uses, measure with pg_test_timing what a reading
costs, and what it costs through the kernel; work out what that makes of settings
that read the clock for each statement, block or row. Then a query that reads many
blocks from the kernel's cache, where reading is cheapest and so the clock's share
largest, runs on a throw-away server without and with track_io_timing in turn.
Published figures stand beside the measured ones.`,
		Example: `  steno bench clock
  steno bench clock --quick
  steno bench clock --mb 512 --rounds 30 --output results`,
	}, clock.New(e))
}

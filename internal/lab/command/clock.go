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
		Short: "Measure the cost of reading the clock, and of track_io_timing",
		Long: `Report which clock source the kernel uses, measure the cost of a reading with
pg_test_timing and by a system call, and derive the cost of settings that read
the clock for each statement, block or row. Then run a query that reads many
blocks from the kernel's cache, where reading is cheapest and the clock's share
therefore largest, on a throw-away server with and without track_io_timing in
turn. Published figures are shown beside the measured ones.`,
		Example: `  steno bench clock
  steno bench clock --quick
  steno bench clock --mb 512 --rounds 30 --output results`,
	}, clock.New(e))
}

package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/lab/bench/ipc"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// newCmdIPC returns "steno bench ipc".
func newCmdIPC(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "ipc",
		Short: "Compare channels for log messages, and ways to wake sleepers",
		Long: `Let many processes hand messages to a reader, through one kind of channel after
the other, and compare how many come through, what processor time each costs,
how often processes are switched, and how long a message is on its way. Every byte
of every message is checked; a message that is lost, harmed or out of order
fails the run. Then let processes sleep and wake them all, in several ways.

Channels: ` + strings.Join(ipc.ChannelNames(), ", ") + `.
ring_each is the extension's own ring, one for each process. A combination in
which messages could not stay in one piece is named, not run.

Cases are run in rounds, in an order that changes; channels are compared with
the bare pipe, within rounds. The run takes about four minutes. Flags that
choose values run all combinations of them; what is not chosen is 50 processes,
512 bytes, 1 reader, batches of all, the clock once a batch.`,
		Example: `  steno bench ipc
  steno bench ipc --quick
  steno bench ipc --channels pipe,ring_each --processes 1,8,64 --sizes 200
  steno bench ipc --part wake --sleepers 64,256
  steno bench ipc --full --output bench/results/ipc    # on a machine with many cores`,
	}, ipc.New(e))
}

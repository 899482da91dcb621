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
		Short: "Compare channels for log messages, and ways to wake processes",
		Long: `Let many processes pass messages to a reader, through one kind of channel after
the other, and compare the number of messages, the CPU time per message, context
switches, and how long a message is in transit. Every byte of every message is
checked; a lost, damaged or reordered message ends the run with an error. Then
let processes sleep and wake all of them, in several ways.

Channels: ` + strings.Join(ipc.ChannelNames(), ", ") + `.
ring_each is the extension's own ring, one for each process. A combination in
which messages could be split is listed, but not run.

Cases are run in rounds, in changing order; channels are compared with the bare
pipe within rounds. This takes about four minutes. If flags select values, all
their combinations are run; the defaults are 50 processes, 512 bytes, 1 reader,
batches of all messages, and the clock read once per batch.`,
		Example: `  steno bench ipc
  steno bench ipc --quick
  steno bench ipc --channels pipe,ring_each --processes 1,8,64 --sizes 200
  steno bench ipc --part wake --sleepers 64,256
  steno bench ipc --full --output bench/results/ipc    # on a machine with many cores`,
	}, ipc.New(e))
}

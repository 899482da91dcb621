// The command line of demo.

package command

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/lab/demo"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// newCmdDemo returns "steno demo".
func newCmdDemo(e measure.Environment) *cobra.Command {
	o := demo.New(e)
	o.Steno = func() (string, error) { return program.Find("steno") }
	return measuring(cobra.Command{
		Use:   "demo",
		Short: "Show pg_steno at work on throw-away servers",
		Long: `Start throw-away servers and compare their throughput: without recording, with
the server's own log_statement=all, with pgaudit if it is installed, and with
pg_steno. Then let a few users do what users do, right and wrong, and read the
trail back. This takes less than three minutes. The servers are removed at the
end; the trail is kept in a separate folder.`,
		Example: `  steno demo
  steno demo --pairs 30`,
	}, o)
}

// The command line of regress.

package command

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/lab/regress"
)

// newCmdRegress returns "steno-lab regress".
func newCmdRegress(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "regress LOG.csv...",
		Short: "Compare a server's own log with its trail",
		Long: `Compare a server's own log (csvlog, log_statement = all) with its trail, which
is read from standard input as printed by "steno cat --format json".
scripts/regress-postgres runs this after PostgreSQL's own regression suite.`,
		Example: "  steno cat --format json TRAIL | steno-lab regress LOG.csv",
		Args:    cmdutil.Args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			report, err := compareLogs(args, f.IO)
			if err != nil {
				return err
			}
			report.Write(f.IO.Out)
			if !report.Agrees() {
				return exit.ErrFailed
			}
			return nil
		},
	}
}

func compareLogs(names []string, streams *iostreams.IOStreams) (*regress.Report, error) {
	var logs []io.Reader
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		logs = append(logs, file)
	}
	return regress.Compare(logs, streams.In, streams.Out)
}

// The command lines of demo, profile and regress.

package command

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/lab/demo"
	"github.com/pg-steno/pg_steno/lab/measure"
	"github.com/pg-steno/pg_steno/lab/profile"
	"github.com/pg-steno/pg_steno/lab/regress"
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
  steno demo --rounds 30`,
	}, o)
}

// newCmdProfile returns "steno profile".
func newCmdProfile(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "profile",
		Short: "Show where a running server's time goes, and what could be saved",
		Long: `Watch a running PostgreSQL server, with or without pg_steno, and report where
its time goes: formatting log lines, the log's pipe and its lock, the logging
collector, clock readings, waiting for a synchronous standby, WAL, locks, audit
extensions. Each cause is shown with its share, the functions that prove it,
and, if the evidence supports it, the setting to change.

The server is named by its data directory, by the ID of any of its processes, or
by a connection. If the kernel permits it, perf samples what runs, and then what
waits; otherwise, /proc and the server's wait events are read 20 times a second.
For a server on another machine, only its wait events are visible. With a
connection (--dsn, or one that the server accepts without a password), settings
and wait events are read, too. Nothing is changed on the server.

Run it as root to see everything. Other users see less, and a note says what is
missing.`,
		Example: `  steno profile --data-dir /var/lib/postgresql/15/main
  steno profile --pid 4711 --seconds 30 --out profile
  steno profile --dsn "host=/run/postgresql user=postgres"
  steno profile --dsn "host=db.example.org user=monitor" --format json`,
	}, profile.New(e))
}

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

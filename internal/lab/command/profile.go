// The command line of profile.

package command

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/lab/measure"
	"github.com/pg-steno/pg_steno/internal/lab/profile"
)

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
  steno profile --pid 4711 --seconds 30 --output profile
  steno profile --dsn "host=/run/postgresql user=postgres"
  steno profile --dsn "host=db.example.org user=monitor" --format json`,
	}, profile.New(e))
}

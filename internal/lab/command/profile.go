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
		Long: `Watch a running PostgreSQL server, with or without pg_steno, and say where its
time goes: formatting log lines, the log's pipe and its lock, the log collector,
clock readings, the wait for a synchronous standby, WAL, locks, audit extensions.
Each cause comes with its share, the functions that prove it, and, where the
evidence supports it, the setting to change.

The server is found by its data directory, by the id of any of its processes, or by
a connection. perf takes samples of what runs, and then of what waits, where the
kernel lets it; else /proc and the server's wait events are looked at 20 times a
second. Of a server on another machine, only its wait events can be seen. With a
connection (--dsn, or one that the server lets us make without a password), settings
and wait events are read too. Nothing is changed on the server.

The best view is root's. Others see less, and are told what is missing.`,
		Example: `  steno profile --data-dir /var/lib/postgresql/15/main
  steno profile --pid 4711 --seconds 30 --output profile
  steno profile --dsn "host=/run/postgresql user=postgres"
  steno profile --dsn "host=db.example.org user=monitor" --format json`,
	}, profile.New(e))
}

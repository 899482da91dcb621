// Package ship is the program steno-ship: its command tree, and the command ship.
//
// It is a separate program because it links the clients of object stores, Kafka and log tools, which an auditor who
// verifies a trail need not trust.
package ship

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/file"
	"github.com/pg-steno/pg_steno/internal/ship/http"
	"github.com/pg-steno/pg_steno/internal/ship/kafka"
	"github.com/pg-steno/pg_steno/internal/ship/otlp"
	"github.com/pg-steno/pg_steno/internal/ship/s3"
	"github.com/pg-steno/pg_steno/internal/ship/syslog"
)

// Main is the program.
func Main() int {
	program.UsualMemory = memory
	return program.Main(New)
}

// memory is what the program usually takes at most: it runs beside a database, all the time.
const memory = 64 << 20

// kinds are all kinds of sinks.
var kinds = []*ship.Kind{file.Kind, http.Kind, kafka.Kind, otlp.Kind, s3.Kind, syslog.Kind}

// New returns the root command with all subcommands.
func New(streams *iostreams.IOStreams) *cobra.Command {
	f := &cmdutil.Factory{IO: streams, Version: program.GetVersion()}
	root := &cobra.Command{
		Use:   "steno-ship",
		Short: "Take the trail of a PostgreSQL server to where it is out of reach",
		Long: `steno-ship takes the trail of a PostgreSQL server to object stores, Kafka and log
tools, while the server runs. If it is in the same directory as steno or in PATH,
"steno ship" runs it.

Exit codes: 0: success. 1: a check failed. 2: wrong usage, such as a mistake in
the configuration. 3: the command could not do its work. 130: ended by SIGINT;
SIGTERM ends "steno ship" in order, with 0.`,
	}
	root.AddCommand(flags.NewTopic(), NewCmdShip(f, nil), NewCmdFetch(f, nil))
	return program.Group(root, f, `.TP
.B STENO_DIRECTORY
The trail that is read when none is named.
.TP
.B PGDATA
The data directory of a server; its pg_steno is the trail when STENO_DIRECTORY is not set.
.TP
.B STATE_DIRECTORY
The directory for states, as systemd sets it, when none is named.
.TP
.B STENO_ENCRYPTION_KEY_COMMAND
A command that prints keys of encrypted segments, when none is named.
`)
}

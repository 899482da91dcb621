// Command steno reads the audit trail of a PostgreSQL server.
package main

import (
	"os"

	"github.com/pg-steno/pg_steno/internal/command/cli"
)

func main() {
	os.Exit(cli.Main())
}

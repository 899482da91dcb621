// Command steno-top shows the activity of a PostgreSQL server on a terminal, live or at a past moment.
package main

import (
	"os"

	"github.com/pg-steno/pg_steno/internal/command/top"
)

func main() {
	os.Exit(top.Main())
}

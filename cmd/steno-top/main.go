// Command steno-top shows what happens on a PostgreSQL server, or what happened, on a terminal.
package main

import (
	"os"

	"github.com/pg-steno/pg_steno/internal/command/top"
)

func main() {
	os.Exit(top.Main())
}

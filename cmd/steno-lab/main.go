// Command steno-lab measures what pg_steno and other logs cost a server, and looks for
// what they lose.
package main

import (
	"os"

	"github.com/pg-steno/pg_steno/lab/command"
)

func main() {
	os.Exit(command.Main())
}

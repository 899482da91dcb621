// Command steno-ship takes the trail of a PostgreSQL server to object stores, Kafka and log tools.
package main

import (
	"os"

	"github.com/pg-steno/pg_steno/internal/command/ship"
)

func main() {
	os.Exit(ship.Main())
}

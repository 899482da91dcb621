// The result of overhead: its metrics, tables and charts, and the chart of the README, which
// is drawn from archived results.

package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/page"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/stats"
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
		r.Parameters = append(r.Parameters,
			result.Parameter{Name: "rounds of a set of servers", Value: strconv.Itoa(o.Renew)})
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

// Measures of the chart, in pixels.
const (
	chartWidth = 720
	barLeft    = 190
	barWidth   = 330
	barHeight  = 20
	rowHeight  = 30
)

// barX is where a bar of this ratio ends.
func barX(ratio float64) float64 { return barLeft + ratio*barWidth }

// WriteChart draws results of overhead as an SVG picture: for each a group of
// bars, the throughput of each variant against the first, with its interval,
// over one common axis.
func WriteChart(w io.Writer, results []*result.Result) error {
	const title = "Throughput while every statement is logged"
	grid, d := &page.Drawing{}, &page.Drawing{}
	y := 34.0
	d.Text("title", 12, y-10, title)
	for _, r := range results {
		y += 22
		d.Text("group", 12, y, r.Parameter(loadParameter))
		if r.CPU != nil && len(r.CPU.Runs) > 0 {
			y += 16
			low, high := r.CPU.Spread()
			d.Text("note", 12, y, "pg_steno's share of PostgreSQL's CPU samples: "+interval(low, high))
		}
		y += 10
		for i, v := range r.Dimensions[0].Values {
			drawVariant(d, r, v, i, y)
			y += rowHeight
		}
	}
	for _, tick := range []float64{0, 0.25, 0.5, 0.75, 1} {
		grid.Line("grid", barX(tick), 42, barX(tick), y)
		d.Text("axis", barX(tick), y+14, fmt.Sprint(tick))
	}
	d.Text("axis", barX(0.5), y+32, "transactions per second, relative to a server that logs nothing")
	last := results[len(results)-1]
	d.Text("note", 12, y+58, fmt.Sprintf("Median of %s rounds of %s s per server, with its 95 %% interval in brackets. "+
		"B: bytes logged per transaction.", last.Parameter(roundsParameter), last.Parameter(secondsParameter)))
	d.Text("note", 12, y+76, fmt.Sprintf("%s, %d cores (shared with pgbench), Linux %s, PostgreSQL %s.",
		last.Machine.CPU, last.Machine.Cores, last.Machine.Kernel, shortVersion(last.Postgres)))
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %[1]d %.0[2]f" `+
		`role="img" aria-label="%[3]s">
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.group { font-weight: 600 }
.note, .small { font-size: 12px; fill: #59636e }
.bar { fill: #9aa4af } .ours { fill: #0f7b6c } .range { stroke: #1f2328; stroke-width: 1.5 } .grid { stroke: #d1d9e0 }
.axis { text-anchor: middle; font-size: 12px; fill: #59636e }
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
%[4]s</svg>
`, chartWidth, y+90, title, strings.ReplaceAll(grid.Contents()+d.Contents(), "><", ">\n<"))
	return err
}

// drawVariant draws a bar below y.
func drawVariant(d *page.Drawing, r *result.Result, v result.Value, i int, y float64) {
	ratio, label := 1.0, "1"
	var kept *stats.Estimate
	if m := r.Find(result.Case{"variant": v.Name}, "tps"); m != nil && i > 0 {
		kept = m.Ratio
	}
	if kept != nil {
		ratio = kept.Median
		label = fmt.Sprintf("%.3f [%.3f, %.3f]", kept.Median, kept.Low, kept.High)
	}
	class := "bar"
	if strings.HasPrefix(v.Name, "steno") {
		class = "ours"
	}
	title := v.Title
	if i == 0 && v.Name == "off" {
		title = "no logging"
	}
	d.Text("", 12, y+15, title)
	d.Rect(class, barLeft, y, barX(ratio)-barLeft, barHeight)
	if kept != nil {
		d.Line("range", barX(kept.Low), y+barHeight/2, barX(kept.High), y+barHeight/2)
		ratio = max(ratio, kept.High)
	}
	if m := r.Find(result.Case{"variant": v.Name}, "bytes"); m != nil {
		label += fmt.Sprintf(", %.0f B", m.Value.Median)
	}
	d.Text("small", barX(ratio)+8, y+15, label)
}

// shortVersion is "15.20" of "PostgreSQL 15.20 (Debian 15.20-0+deb12u1)".
func shortVersion(version string) string {
	fields := strings.Fields(version)
	if len(fields) < 2 {
		return version
	}
	return fields[1]
}

func interval(low, high float64) string {
	if a, b := fmt.Sprintf("%.2f", low), fmt.Sprintf("%.2f", high); a != b {
		return a + " to " + b + " %"
	}
	return fmt.Sprintf("%.2f %%", low)
}

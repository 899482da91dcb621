// The result of overhead: its metrics, tables and charts, and the chart of the README, which
// is drawn from archived results.

package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"

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
func barX(ratio float64) int { return barLeft + int(ratio*barWidth) }

// WriteChart draws results of overhead as an SVG picture: for each a group of
// bars, the throughput of each variant against the first, with its interval,
// over one common axis.
func WriteChart(w io.Writer, results []*result.Result) error {
	var b strings.Builder
	y := 34
	text := func(x, y int, class, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, escape(s))
	}
	text(12, y-10, "title", "Throughput while every statement is logged")
	for _, r := range results {
		y += 22
		text(12, y, "group", r.Parameter(loadParameter))
		if r.CPU != nil && len(r.CPU.Runs) > 0 {
			low, high := r.CPU.Spread()
			text(12, y+16, "note", fmt.Sprintf("pg_steno's share of PostgreSQL's CPU samples: %s",
				interval(low, high)))
			y += 16
		}
		y += 10
		for i, v := range r.Dimensions[0].Values {
			y = drawVariant(&b, text, r, v, i, y)
		}
	}
	top := 42
	grid := drawAxis(text, top, y)
	y += 50
	last := results[len(results)-1]
	text(12, y+8, "note", fmt.Sprintf("Median of %s rounds of %s s per server, with its 95 %% interval in brackets. "+
		"B: bytes logged per transaction.",
		last.Parameter(roundsParameter), last.Parameter(secondsParameter)))
	y += 18
	text(12, y+8, "note", fmt.Sprintf("%s, %d cores (shared with pgbench), Linux %s, PostgreSQL %s.",
		last.Machine.CPU, last.Machine.Cores, last.Machine.Kernel, shortVersion(last.Postgres)))
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`role="img" aria-label="Throughput while every statement is logged">
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.group { font-weight: 600 }
.note, .small { font-size: 12px; fill: #59636e }
.bar { fill: #9aa4af } .ours { fill: #0f7b6c } .range { stroke: #1f2328; stroke-width: 1.5 } .grid { stroke: #d1d9e0 }
.axis { text-anchor: middle; font-size: 12px; fill: #59636e }
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
%s%s</svg>
`, chartWidth, y+22, chartWidth, y+22, grid, b.String())
	return err
}

// drawAxis labels the axis below the bars, which end at bottom, and returns its
// grid lines, which are drawn before the bars.
func drawAxis(text func(x, y int, class, s string), top, bottom int) string {
	var grid strings.Builder
	for _, tick := range []float64{0, 0.25, 0.5, 0.75, 1} {
		x := barX(tick)
		fmt.Fprintf(&grid, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="grid"/>`+"\n", x, top, x, bottom)
		text(x, bottom+14, "axis", fmt.Sprint(tick))
	}
	text(barX(0.5), bottom+32, "axis", "transactions per second, relative to a server that logs nothing")
	return grid.String()
}

// drawVariant draws one bar below y and returns where the next one starts.
func drawVariant(b *strings.Builder, text func(x, y int, class, s string), r *result.Result, v result.Value, i,
	y int) int {
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
	text(12, y+15, "", title)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" class="%s"/>`+"\n", barLeft, y, barX(ratio)-barLeft,
		barHeight, class)
	if kept != nil {
		middle := y + barHeight/2
		fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="range"/>`+"\n", barX(kept.Low), middle,
			barX(kept.High), middle)
		ratio = max(ratio, kept.High)
	}
	if m := r.Find(result.Case{"variant": v.Name}, "bytes"); m != nil {
		label += fmt.Sprintf(", %.0f B", m.Value.Median)
	}
	text(barX(ratio)+8, y+15, "small", label)
	return y + rowHeight
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

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
)

// ReadReport reads an archived report.
func ReadReport(dir string) (*Report, error) {
	path := filepath.Join(dir, "report.json")
	text, err := result.ReadFile(dir, "report.json")
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("cannot read \"%s\": %w", path, err)
	}
	if len(r.Variants) == 0 {
		return nil, fmt.Errorf("\"%s\" holds no measurement", path)
	}
	return &r, nil
}

// Measures of the chart, in pixels.
const (
	chartWidth = 720
	barLeft    = 190
	barWidth   = 330
	barHeight  = 20
	rowHeight  = 30
)

// WriteChart draws archived reports as an SVG picture: for each a group of
// bars, the throughput of each variant against the first, with its interval.
func WriteChart(w io.Writer, reports []*Report) error {
	var b strings.Builder
	y := 34
	text := func(x, y int, class, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, escape(s))
	}
	text(12, y-10, "title", "Throughput while everything is recorded")
	for _, r := range reports {
		y += 22
		text(12, y, "group", r.Load.Title())
		if r.Profile != nil && len(r.Profile.Runs) > 0 {
			low, high := r.Profile.spread()
			text(12, y+16, "note", fmt.Sprintf("pg_steno's share of PostgreSQL's CPU samples: %s", interval(low, high)))
			y += 16
		}
		y += 10
		for i, v := range r.Variants {
			y = drawVariant(&b, text, v, i, y)
		}
	}
	y += 10
	last := reports[len(reports)-1]
	text(12, y+8, "note", fmt.Sprintf("Median of the ratios within %d rounds of %d s a server, and its 95 %% interval. B: bytes of log or trail a transaction.",
		last.Rounds, last.Seconds))
	y += 18
	text(12, y+8, "note", fmt.Sprintf("%s, %d cores, Linux %s, PostgreSQL %s.",
		last.Machine.CPU, last.Machine.Cores, last.Machine.Kernel, shortVersion(last.Postgres)))
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="Throughput while everything is recorded">
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.group { font-weight: 600 }
.note, .small { font-size: 12px; fill: #59636e }
.bar { fill: #9aa4af } .ours { fill: #0f7b6c } .range { stroke: #1f2328; stroke-width: 1.5 }
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
%s</svg>
`, chartWidth, y+22, chartWidth, y+22, b.String())
	return err
}

// drawVariant draws one bar below y and returns where the next one starts.
func drawVariant(b *strings.Builder, text func(x, y int, class, s string), v VariantReport, i, y int) int {
	ratio, label := 1.0, "1"
	if i > 0 {
		ratio = v.Ratio.Median
		label = fmt.Sprintf("%.3f [%.3f, %.3f]", v.Ratio.Median, v.Ratio.Low, v.Ratio.High)
	}
	x := func(share float64) int { return barLeft + int(share*barWidth) }
	class := "bar"
	if strings.HasPrefix(v.Name, "steno") {
		class = "ours"
	}
	text(12, y+15, "", v.Title)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" class="%s"/>`+"\n", barLeft, y, x(ratio)-barLeft, barHeight, class)
	if i > 0 {
		middle := y + barHeight/2
		fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="range"/>`+"\n", x(v.Ratio.Low), middle, x(v.Ratio.High), middle)
		ratio = max(ratio, v.Ratio.High)
	}
	if v.BytesPerTransaction != nil {
		label += fmt.Sprintf(", %.0f B", *v.BytesPerTransaction)
	}
	text(x(ratio)+8, y+15, "small", label)
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

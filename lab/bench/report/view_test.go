package report

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/stats"
)

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", 0.5: "0.5000", 0.00012345: "0.0001", 0.00002: "2e-05", 9.99996: "10.00", 12.345: "12.35",
		99.999: "100.0",
		123.44: "123.4", 999.96: "1,000", 12345.6: "12,346", -12345.6: "-12,346", 999960: "1.000 M",
		1234567: "1.235 M", 2e9: "2 G", 15e11: "1,500 G",
		math.Inf(1): "-",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
	if got := Number(math.NaN()); got != "-" {
		t.Errorf("of no number: %q", got)
	}
	for v, want := range map[float64]string{1: "1.000", 0.98765: "0.988", 0.012: "0.0120", 9.9999: "10.00",
		47.3: "47.30", 1234: "1,234"} {
		if got := ratioNumber(v); got != want {
			t.Errorf("ratioNumber(%v) = %q, want %q", v, got, want)
		}
	}
	for e, want := range map[stats.Estimate]string{
		{Median: 1084000, Low: 617526, High: 1250000, N: 7}: "[0.6175, 1.250]", {Median: 617526, Low: 600000,
			High: 1250000, N: 7}: "[600,000, 1,250,000]",
		{Median: 0.5, Low: 0.25, High: 2, N: 2}: "[0.2500, 2]", {Median: 1, Low: 1, High: 1, N: 1}: "",
	} {
		if got := interval(e, false); got != want {
			t.Errorf("interval(%v) = %q, want %q", e, got, want)
		}
	}
	for e, want := range map[stats.Estimate]string{
		{Median: 100, Low: 90, High: 104, N: 7}: "±10 %", {Median: 100, Low: 99.5, High: 101,
			N: 7}: "±1.0 %", {Median: 100, Low: 100, High: 100, N: 7}: "±0 %",
		{Median: 100, Low: 100, High: 100, N: 1}: "", {Median: 0, Low: 0, High: 1, N: 7}: "", {Median: -100,
			Low: -101, High: -80, N: 7}: "±20 %",
	} {
		if got := spread(e); got != want {
			t.Errorf("spread(%v) = %q, want %q", e, got, want)
		}
	}
}

// smallResult returns a result with two dimensions; measures of "m" have both or only one of them.
func smallResult() *result.Result {
	return &result.Result{
		Dimensions: []result.Dimension{{Name: "a", Values: values("1", "", "2", "")},
			{Name: "b", Values: values("x", "X", "y", "Y", "z", "Z")}},
		Measures: []result.Measure{
			{Case: result.Case{"a": "1", "b": "y"}, Metric: "m", Value: stats.Estimate{Median: 1}},
			{Case: result.Case{"a": "1", "b": "x"}, Metric: "m", Value: stats.Estimate{Median: 2}},
			{Case: result.Case{"a": "2", "b": "x"}, Metric: "m", Value: stats.Estimate{Median: 3}},
			{Case: result.Case{"a": "1"}, Metric: "n", Value: stats.Estimate{Median: 4}},
			{Case: result.Case{"a": "1", "b": "y"}, Metric: "n", Value: stats.Estimate{Median: 5}},
		},
	}
}

func TestPlacesFindTheirMeasures(t *testing.T) {
	for _, c := range []struct {
		metric  string
		c       result.Case
		want    float64 // 0: none
		several int
	}{
		{"m", result.Case{"a": "1", "b": "x"}, 2, 0},
		{"m", result.Case{"a": "2"}, 3, 0}, // the only one
		{"m", result.Case{"a": "1"}, 0, 2}, // ambiguous
		{"m", result.Case{"a": "2", "b": "y"}, 0, 0},
		{"n", result.Case{"a": "1"}, 4, 0},           // the exact case, though there is another
		{"n", result.Case{"a": "1", "b": "y"}, 5, 0}, // the exact case
		{"n", result.Case{"a": "1", "b": "x"}, 4, 0}, // about all of b
		{"n", result.Case{"a": "2", "b": "x"}, 0, 0},
		{"o", result.Case{"a": "1"}, 0, 0},
	} {
		m, several := newView(smallResult()).find(c.c, c.metric)
		if len(several) != c.several || (m == nil) != (c.want == 0) || m != nil && m.Value.Median != c.want {
			t.Errorf("%s of %v: %v and %d, want %v and %d", c.metric, c.c, m, len(several), c.want, c.several)
		}
	}
}

// A table that does not mention a dimension has rows for its values.
func TestTableShowsDimensionsThatItDoesNotMention(t *testing.T) {
	v := newView(smallResult())
	g := v.grid(&result.Table{Rows: []string{"a"}, Columns: []result.Column{{Metric: "m"}}})
	var keys []string
	for _, r := range g.Rows {
		keys = append(keys, strings.Join(r.Keys, " "))
	}
	if want := []string{"1 X", "1 Y", "2 X"}; !slices.Equal(keys, want) {
		t.Errorf("rows %q, want %q", keys, want)
	}
	if panels := v.panels(&result.Chart{Metric: "m", X: "b"}); len(panels) != 2 || panels[0].title != "a 1" ||
		len(panels[0].groups) != 2 || len(panels[1].groups) != 1 {
		t.Errorf("panels %+v", panels)
	}
}

func TestPublishedFiguresStandOnceInATable(t *testing.T) {
	r := exampleLogging()
	for name, c := range map[string]struct {
		columns []result.Column
		heads   []string
	}{
		"beside": {[]result.Column{{Metric: "tps", Ratio: true, Published: true}},
			[]string{"throughput against nothing", "published"}},
		"alone": {[]result.Column{{Metric: "tps", Ratio: true},
			{Metric: "tps", Ratio: true,
				Published: true}}, []string{"throughput against nothing", "throughput against nothing, published"}},
		"of a ratio": {[]result.Column{{Metric: "tps", Published: true}},
			[]string{"throughput (1/s)", "published"}},
		"of the other": {[]result.Column{{Metric: "tps", Published: true},
			{Metric: "tps", Ratio: true,
				Published: true}}, []string{"throughput (1/s)", "throughput against nothing", "published"}},
		"of a ratio, elsewhere": {[]result.Column{{Metric: "tps"}, {Metric: "tps", Published: true}},
			[]string{"throughput (1/s)", "throughput, published"}},
		"of none": {[]result.Column{{Metric: "p99", Published: true}},
			[]string{"latency, 99th percentile (ms)"}},
	} {
		var heads []string
		for _, h := range newView(r).grid(&result.Table{Rows: []string{"variant", "clients"},
			Columns: c.columns}).Heads {
			heads = append(heads, h.Title)
		}
		if !slices.Equal(heads, c.heads) {
			t.Errorf("%s: %q, want %q", name, heads, c.heads)
		}
	}
}

func TestSkippedCasesAreNamedInFewWords(t *testing.T) {
	r := &result.Result{Dimensions: []result.Dimension{
		{Name: "channel", Title: "channel", Values: values("pipe", "pipe", "uring", "io_uring")},
		{Name: "size", Title: "size", Values: values("1", "1 B", "2", "2 B", "3", "3 B")},
		{Name: "n", Title: "processes", Values: values("1", "1", "2", "2")},
	}}
	skip := func(reason string, cases ...string) {
		for _, c := range cases {
			f := strings.Fields(c)
			m := result.Case{"channel": f[0], "size": f[1]}
			if len(f) > 2 {
				m["n"] = f[2]
			}
			r.Skipped = append(r.Skipped, result.Skipped{Case: m, Reason: reason})
		}
	}
	skip("absent", "uring 1 1", "uring 2 1", "uring 3 1", "uring 1 2", "uring 2 2", "uring 3 2")
	skip("not atomic", "pipe 3 1", "pipe 2 1", "pipe 2 2", "pipe 3 2")
	skip("slow", "pipe 1 1", "pipe 1 2", "uring 2 2", "uring 3 1")
	skip("any", "pipe 1")
	r.Skipped = append(r.Skipped, result.Skipped{Reason: "no counters"})
	want := []skipped{
		{"absent", 6, []string{"io_uring"}},
		{"not atomic", 4, []string{"pipe; size 2 B or 3 B"}},
		{"slow", 4, []string{"pipe, 1 B", "io_uring, 2 B, processes 2", "io_uring, 3 B, processes 1"}},
		{"any", 1, []string{"pipe, 1 B"}},
		{"no counters", 1, nil},
	}
	if got := newView(r).skipped(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestWideTablesComeInParts(t *testing.T) {
	var b strings.Builder
	r := exampleIPC()
	Terminal{Width: 50}.Text(&b, r)
	text := b.String()
	if n := strings.Count(text, "\nchannel "); n < 4 {
		t.Errorf("%d parts in\n%s", n, text)
	}
	for line := range strings.Lines(text) {
		if length(line) > 60 { // one column and the rows' names
			t.Errorf("long: %s", line)
		}
	}
}

func TestColorIsOnlyThereWhenAskedFor(t *testing.T) {
	var plain, colored strings.Builder
	Terminal{Width: 100}.Text(&plain, exampleLogging())
	Terminal{Width: 100, Color: true}.Text(&colored, exampleLogging())
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(colored.String(),
		"\x1b[33mThis machine was busy") {
		t.Error("colour where none was asked for, or none where it was")
	}
	if got := strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[33m",
		"").Replace(colored.String()); got != plain.String() {
		t.Error("colour changes more than colour")
	}
}

// TestTextAndChartsAreThoseOfTheGoldenFiles compares what is shown on a terminal, and the charts of the page, with the
// files in testdata. STENO_UPDATE=1 writes these. Each chart is drawn twice; a golden file has one element per line.
func TestTextAndChartsAreThoseOfTheGoldenFiles(t *testing.T) {
	for name, r := range examples() {
		var text, charts bytes.Buffer
		Terminal{Width: 100}.Text(&text, r)
		for i, picture := range picturesOf.FindAllString(rendered(t, r), -1) {
			fmt.Fprintf(&charts, "picture %d\n%s\n", i+1, strings.ReplaceAll(picture, "><", ">\n<"))
		}
		got := txtar.Format(&txtar.Archive{Files: []txtar.File{
			{Name: "text", Data: text.Bytes()}, {Name: "charts", Data: charts.Bytes()}}})
		path := filepath.Join("testdata", name+".txtar")
		if os.Getenv("STENO_UPDATE") != "" {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("differs from %s, which STENO_UPDATE=1 writes:\n%s", path, got)
		}
	}
}

func TestTextFitsTheTerminal(t *testing.T) {
	for name, r := range examples() {
		var b strings.Builder
		Terminal{Width: 100}.Text(&b, r)
		for line := range strings.Lines(b.String()) {
			if n := length(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
	}
}

package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/tools/txtar"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/lab/bench/report"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/measure"
	"github.com/pg-steno/pg_steno/lab/stats"
)

func estimate(median, low, high float64, n int) stats.Estimate {
	return stats.Estimate{Median: median, Low: low, High: high, Confidence: 0.97, N: n}
}

// before returns a result; after returns one with a difference of each kind.
func before() *result.Result {
	c := func(variant, clients string) result.Case { return result.Case{"variant": variant, "clients": clients} }
	ratio := estimate(0.7, 0.68, 0.72, 10)
	return &result.Result{
		Version: 1, Bench: "logging", Title: "Before", Steno: "0.1", Postgres: "PostgreSQL 15.20",
		Time:       time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
		Machine:    machine.Machine{CPU: "Old", Cores: 2, Memory: "1 kB", Kernel: "6.1", System: "Debian"},
		Busy:       machine.Busy{Before: 50},
		Settings:   []cluster.Setting{{Name: "fsync", Value: "on"}, {Name: "shared_buffers", Value: "256MB"}},
		Parameters: []result.Parameter{{Name: "rounds", Value: "10"}},
		Dimensions: []result.Dimension{
			{Name: "variant", Title: "recorded by", Values: []result.Value{{Name: "off", Title: "nothing"},
				{Name: "log", Title: "the log", Settings: []cluster.Setting{{Name: "log_statement", Value: "all"}}},
				{Name: "pgaudit", Title: "pgaudit"}}},
			{Name: "clients", Title: "clients", Values: []result.Value{{Name: "1", Title: "1"}, {Name: "16", Title: "16"}}},
		},
		Bases: []result.Base{{Dimension: "variant", Value: "off"}},
		Metrics: []result.Metric{{Name: "tps", Title: "throughput", Unit: "1/s", Better: "higher"},
			{Name: "p99", Title: "p99", Unit: "ms", Better: "lower"},
			{Name: "switches", Title: "context switches"}},
		Measures: []result.Measure{
			{Case: c("off", "16"), Metric: "tps", Value: estimate(1000, 950, 1050, 10)},
			{Case: c("log", "16"), Metric: "tps", Value: estimate(700, 650, 750, 10), Ratio: &ratio},
			{Case: c("log", "16"), Metric: "p99", Value: estimate(2, 1.9, 2.1, 10)},
			{Case: c("log", "16"), Metric: "switches", Value: estimate(10, 9, 11, 10)},
			{Case: c("off", "16"), Metric: "switches", Value: estimate(0, 0, 0, 10)},
			{Case: c("off", "1"), Metric: "tps", Value: estimate(100, 100, 100, 3)},
			{Case: c("pgaudit", "1"), Metric: "tps", Value: estimate(1, 1, 1, 10)},
			{Case: c("pgaudit", "16"), Metric: "tps", Value: estimate(1, 1, 1, 10)},
			{Case: c("off", "16"), Metric: "p99", Value: estimate(1, 1, 1, 10)},
		},
	}
}

func after() *result.Result {
	r := before()
	r.Title, r.Steno, r.Machine.CPU, r.Machine.Cores, r.Busy.Before = "After", "0.2", "New", 4, 0
	r.Settings = []cluster.Setting{{Name: "shared_buffers", Value: "1GB"}, {Name: "fsync", Value: "on"},
		{Name: "jit", Value: "off"}}
	r.Dimensions[0].Values[1].Settings[0].Value = "ddl"
	ratio := estimate(0.6, 0.58, 0.63, 10)
	r.Measures = r.Measures[:6]
	r.Measures[0].Value = estimate(1060, 1050, 1090, 10) // the intervals touch: noise
	r.Measures[1].Value, r.Measures[1].Ratio = estimate(690, 640, 740, 10), &ratio
	r.Measures[2].Value = estimate(1, 0.9, 1.1, 10)
	r.Measures[3].Value = estimate(30, 28, 33, 10)
	r.Measures[4].Value = estimate(2, 1, 3, 10)
	r.Measures[5].Value = estimate(500, 400, 600, 10) // A has too few samples
	r.Measures = append(r.Measures, result.Measure{Case: result.Case{"variant": "log", "clients": "1"},
		Metric: "tps", Value: estimate(1, 1, 1, 10)})
	return r
}

func TestFiguresAreJudgedAndOrdered(t *testing.T) {
	c, err := Results("a", before(), "b", after())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"higher context switches: nothing, clients 16", // from none
		"higher context switches: the log, clients 16", // ×3
		"better p99 (ms): the log, clients 16",         // ×0.5
		"worse throughput against nothing: the log, clients 16",
		"few throughput (1/s): nothing, clients 1", // ×5
		"same throughput (1/s): nothing, clients 16",
		"same throughput (1/s): the log, clients 16",
	}
	var got []string
	for _, f := range c.Figures {
		got = append(got, f.Verdict+" "+f.Title)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if c.Changed != 4 || c.Few != 1 {
		t.Errorf("%d changed, %d with too few samples", c.Changed, c.Few)
	}
	if f := c.Figures[0]; f.Change != nil {
		t.Errorf("a change by nothing: %v", *f.Change)
	}
	if f := c.Figures[1]; f.Change == nil || *f.Change != 3 {
		t.Errorf("the change is %v", f.Change)
	}
}

func TestVerdictOfMetricsOfWhichLessIsBetter(t *testing.T) {
	a, b := estimate(10, 9, 11, 9), estimate(20, 19, 21, 9)
	for better, want := range map[string][2]string{"higher": {Better, Worse}, "lower": {Worse, Better},
		"": {Higher, Lower}} {
		if up, down := verdict(a, b, better), verdict(b, a, better); up != want[0] || down != want[1] {
			t.Errorf("better %q: %s and %s, want %s", better, up, down, want)
		}
	}
	if got := verdict(estimate(10, 9, 11, 3), b, ""); got != Few {
		t.Errorf("of three samples: %s", got)
	}
	if got := verdict(a, estimate(12, 11, 13, 9), ""); got != Same {
		t.Errorf("of intervals that touch: %s", got)
	}
}

func TestRatiosToOtherBasesAreNotCompared(t *testing.T) {
	b := after()
	b.Bases = []result.Base{{Dimension: "variant", Value: "pgaudit"}}
	c, err := Results("a", before(), "b", b)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Figures {
		if f.Ratio {
			t.Errorf("compared: %s", f.Title)
		}
	}
	var what []string
	for _, d := range c.Differences {
		what = append(what, d.What)
	}
	if got := strings.Join(what, ","); got != "CPU,cores,steno,ratios are to,shared_buffers,jit,log: log_statement" {
		t.Errorf("differences of %s", got)
	}
}

// TestText compares with testdata/text.txtar, which STENO_UPDATE=1 writes.
func TestText(t *testing.T) {
	const path = "testdata/text.txtar"
	var got txtar.Archive
	for _, b := range []struct {
		name   string
		result *result.Result
		all    bool
	}{{"changed", after(), true}, {"same", before(), false}} {
		c, err := Results("runs/a", before(), "runs/b", b.result)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c.Text(&out, report.Terminal{Width: 100}, b.all)
		got.Files = append(got.Files, txtar.File{Name: b.name, Data: out.Bytes()})
	}
	if os.Getenv("STENO_UPDATE") != "" {
		if err := os.WriteFile(path, txtar.Format(&got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(txtar.Format(&got), want) {
		t.Errorf("differs from %s, which STENO_UPDATE=1 writes:\n%s", path, txtar.Format(&got))
	}
}

func TestSentences(t *testing.T) {
	for want, c := range map[string]*Comparison{
		"The two results have no figures in common.":                            {},
		"No figure has enough samples to say whether it changed.":               {Figures: make([]Figure, 2), Few: 2},
		"Nothing changed beyond noise: 1 figure.":                               {Figures: make([]Figure, 1)},
		"Nothing changed beyond noise: 2 figures; 1 more with too few samples.": {Figures: make([]Figure, 3), Few: 1},
		"1 of 2 figures changed beyond noise from A to B.":                      {Figures: make([]Figure, 2), Changed: 1},
	} {
		if got := c.sentence(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The probability that runs of the same distribution are reported as different must be low: 1/35 for four samples,
// lower for more. The random numbers for each number of samples are always the same.
func TestEqualThingsSeldomSeemToDiffer(t *testing.T) {
	const trials = 20000
	for n, most := range map[int]float64{4: 1.0 / 35, 5: 1.0 / 126, 7: 0.01, 20: 0.01} {
		random := rand.New(rand.NewPCG(3, uint64(n)))
		changed := 0
		for range trials {
			x, y := make([]float64, n), make([]float64, n)
			for i := range n {
				x[i], y[i] = random.ExpFloat64(), random.ExpFloat64()
			}
			if v := verdict(stats.NewEstimate(x), stats.NewEstimate(y), ""); v != Same {
				changed++
			}
		}
		if share := float64(changed) / trials; share > most+4*math.Sqrt(most/trials) {
			t.Errorf("of %d samples %.4f differ, at most %.4f should", n, share, most)
		}
	}
}

// compare runs the command.
func compare(t *testing.T, args ...string) (string, error) {
	t.Helper()
	streams, _, out, _ := iostreams.Test()
	o := New(measure.Environment{IO: streams})
	flags := pflag.NewFlagSet("compare", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	o.A, o.B = flags.Arg(0), flags.Arg(1)
	if err := o.Complete(flags.Changed); err != nil {
		return "", err
	}
	err := o.Run(t.Context())
	return out.String(), err
}

func TestCommandReadsArchives(t *testing.T) {
	dir := t.TempDir()
	a, b, other := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "other")
	ipc := before()
	ipc.Bench = "ipc"
	for path, r := range map[string]*result.Result{a: before(), b: after(), other: ipc} {
		if err := r.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := compare(t, a, b)
	if err != nil || !strings.Contains(text, "4 of 6 figures changed beyond noise") {
		t.Errorf("%v:\n%s", err, text)
	}
	text, err = compare(t, "--format", "json", a, b)
	var c Comparison
	if err := errors.Join(err, json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&c)); err != nil ||
		c.Changed != 4 || len(c.Figures) != 7 {
		t.Errorf("%v: %+v", err, c)
	}
	for want, args := range map[string][]string{
		"no result.json in":             {a, dir},
		`is a result of "logging", but`: {a, other},
		`invalid format "xml"`:          {"--format", "xml", a, b},
	} {
		if _, err := compare(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestCommandReadsArchivedRuns(t *testing.T) {
	runs := "../../../bench/runs/2026-11-22-epyc-2-cores-renewed"
	for prefix, wants := range map[string][]string{
		"": {
			"worse  throughput (1/s): pg_steno\n                69,512 [68,618, 71,391] → 4,717 [4,518, 4,864]",
			"noise  throughput against off: pg_steno", "?      bytes per transaction (B): pg_steno",
		},
		"profile-": {"the extension's share of CPU samples (%): pg_steno"},
	} {
		text, err := compare(t, "--all", filepath.Join(runs, prefix+"select"), filepath.Join(runs, prefix+"tpcb"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}

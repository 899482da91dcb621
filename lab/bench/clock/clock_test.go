package clock

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/measure/measuretest"
)

const report15 = `Testing timing overhead for 1 second.
Per loop time including overhead: 67.87 ns
Histogram of timing durations:
  < us   % of total      count
     1     96.81988   14295389
     2      3.17393     468629
  2048      0.00619         12
`

const report19 = `Testing timing overhead for 1 second.
Average loop time including overhead: 16.50 ns
Histogram of timing durations:
   <= ns   % of total  running %      count
       0       0.0000     0.0000          0
      31      99.9000    99.9000   59000000
    2047       0.1000   100.0000         17

Observed timing durations up to 99.9900%:
      ns   % of total  running %      count
      15       4.5452     4.5452    8313178
`

func TestReportsOfPgTestTiming(t *testing.T) {
	for _, c := range []struct {
		report     string
		loop, slow float64
		buckets    int
	}{{report15, 67.87, 3.17393 + 0.00619, 3}, {report19, 16.5, 0.1, 3}} {
		got, err := parseTiming(c.report)
		if err != nil || got.loop != c.loop || len(got.buckets) != c.buckets || math.Abs(got.slow()-c.slow) > 1e-9 {
			t.Errorf("got %+v, slow %v, %v, want %v, %v", got, got.slow(), err, c.loop, c.slow)
		}
	}
	for _, bad := range []string{"", "Per loop time including overhead: x ns",
		"Per loop time including overhead: 0.00 ns"} {
		if _, err := parseTiming(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestAdviceFollowsFromTheClockSource(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ current, available, want string }{
		{"tsc\n", "tsc hpet acpi_pm \n", "without a system call"},
		{"hpet\n", "tsc hpet acpi_pm \n", "The kernel offers tsc"},
		{"acpi_pm\n", "acpi_pm \n", "every reading needs a system call"},
		{"", "", "does not report"},
	} {
		for name, text := range map[string]string{"current_clocksource": c.current,
			"available_clocksource": c.available} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := readSource(dir).advice(); !strings.Contains(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.current, got, c.want)
		}
	}
	if got := readSource("/nowhere").advice(); !strings.Contains(got, "does not report") {
		t.Errorf("without the files: got %q", got)
	}
}

func TestWrongUsageIsRefused(t *testing.T) {
	measuretest.Refused(t, New, map[string]string{
		"--rounds 0":     "--rounds and --queries must be at least 1",
		"--queries 0":    "--rounds and --queries must be at least 1",
		"--mb 0":         "--mb must be at least 1",
		"--quick --full": "exclude each other",
	})
	if o, err := measuretest.Parse(New, "--full --rounds 3"); err != nil || o.Rounds != 3 {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestTooLargeATableIsRefusedBeforeAServerIsMade(t *testing.T) {
	if _, err := cluster.Find(""); err != nil {
		t.Skipf("no PostgreSQL here: %v", err)
	}
	streams, _, _, _ := iostreams.Test()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	o := &Options{Rounds: 1, Queries: 1, MB: 1 << 40}
	o.IO = streams
	if _, err := measureAll(context.Background(), o, progress.NewPhases(streams)); err == nil ||
		!strings.Contains(err.Error(), "not enough disk space") {
		t.Errorf("got error %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); left != nil {
		t.Errorf("left %q", left)
	}
}

// made returns a result with synthetic figures: a reading takes 50 ns, and a block takes 1000 ns without
// track_io_timing and as many more as given with it.
func made(kernel float64, added ...float64) *result.Result {
	r := &result.Result{}
	b := &clockBench{o: &Options{}, result: r, blocks: 8000, slow: 2.5}
	for round, more := range added {
		b.add(round, 1, result.Case{"way": "direct"}, "reading", 50)
		b.add(round, 2, result.Case{"way": "kernel"}, "reading", kernel)
		for _, u := range uses {
			b.add(round, 1, result.Case{"use": u.name}, "estimate", 50*float64(u.readings))
		}
		for i, track := range tracks {
			ns := 1000 + float64(i)*more
			b.add(round, 3+i, result.Case{"track": track}, "rate", 1e6/ns)
			b.add(round, 3+i, result.Case{"track": track}, "time", ns)
			b.add(round, 3+i, result.Case{"track": track}, "block", ns)
		}
		b.add(round, 4, result.Case{}, "added", more)
	}
	b.finish()
	return r
}

func TestFindingsAreMadeFromWhatWasMeasured(t *testing.T) {
	text := strings.Join(made(500, 90, 110, 100).Notes, "\n")
	for _, want := range []string{
		"A reading by PostgreSQL takes 50 ns; through the kernel, it would take 500 ns",
		"A block took 1000 ns of CPU time without track_io_timing. Two readings of the clock, 100 ns, are 10.0 % " +
			"of that; " +
			"the measured difference is 100 ns (90 to 110) per block",
		"Up to 2.5 % of the readings took longer",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the findings lack %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "cannot tell") {
		t.Errorf("a difference is not seen:\n%s", text)
	}
	text = strings.Join(made(60, -10, 110, 100).Notes, "\n")
	for _, want := range []string{"the clock seems to be read through the kernel", "The interval includes 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("the findings lack %q:\n%s", want, text)
		}
	}
}

func TestTablesAndChartsFindTheirFigures(t *testing.T) {
	r := made(500, 90, 110)
	last := func(dimension string) result.Case {
		for _, d := range r.Dimensions {
			if d.Name == dimension {
				return result.Case{dimension: d.Values[len(d.Values)-1].Name}
			}
		}
		t.Fatalf("no dimension %s", dimension)
		return nil
	}
	for _, table := range r.Tables {
		for _, column := range table.Columns {
			if m := r.Find(last(table.Rows[0]), column.Metric); m == nil || column.Ratio && m.Ratio == nil {
				t.Errorf("%s: nothing for column %+v", table.Title, column)
			}
		}
	}
	for _, chart := range r.Charts {
		if r.Find(last(chart.X), chart.Metric) == nil {
			t.Errorf("nothing to draw for %+v", chart)
		}
	}
	if p := r.Find(result.Case{"track": "on"}, "rate").Published; len(p) != 2 || math.Abs(p[0].Value-0.957) > 0.001 ||
		!p[0].IsRatio {
		t.Errorf("published: got %+v", p)
	}
}

func TestClockIsMeasured(t *testing.T) {
	if _, err := cluster.Find(""); err != nil {
		t.Skipf("no PostgreSQL here: %v", err)
	}
	streams, _, out, _ := iostreams.Test()
	o, err := measuretest.ParseWith(streams, New, "--rounds 1 --queries 1 --mb 8 --format json")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var r result.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of     result.Case
		metric string
	}{
		{result.Case{"way": "direct"}, "reading"}, {result.Case{"way": "kernel"}, "reading"},
		{result.Case{"use": "block"}, "estimate"}, {result.Case{"track": "off"},
			"block"}, {result.Case{"track": "on"}, "time"},
	} {
		if m := r.Find(c.of, c.metric); m == nil || m.Value.Median <= 0 {
			t.Errorf("%s of %v is %+v", c.metric, c.of, m)
		}
	}
	if r.Find(result.Case{}, "added") == nil {
		t.Error("what track_io_timing adds is not said")
	}
	// a row fills a block, and most of the 1024 are outside the server's cache
	var blocks string
	for _, p := range r.Parameters {
		if p.Name == "blocks that the query reads" {
			blocks = p.Value
		}
	}
	if len(blocks) < 3 {
		t.Errorf("the query reads %q blocks", blocks)
	}
}

package bench

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/machine"
	"github.com/pg-steno/pg_steno/internal/lab/measure/measuretest"
	"github.com/pg-steno/pg_steno/internal/lab/stats"
)

// Two sets of two servers: each set is gone when the next one is there, is made in
// another order, and what all of them wrote counts.
func TestServersAreMadeAnew(t *testing.T) {
	ctx := context.Background()
	installation, err := cluster.Find("")
	if err != nil {
		t.Skipf("no PostgreSQL here: %v", err)
	}
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}()
	load := Load{Workload: "select", Protocol: "prepared", Clients: 1, Scale: 1}
	var steps []string
	b, err := Open(ctx, lab, Options{Load: load, Compare: []string{"off", "log_statement"}, Rounds: 3, Seconds: 1, Renew: 2,
		Progress: func(what string, _, _ int) { steps = append(steps, what) }})
	if err != nil {
		t.Fatal(err)
	}
	first := b.Server("log_statement")
	r, err := b.Measure(ctx, load)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pgbench -i, scale 1", "starting off", "starting log_statement=all",
		"off", "log_statement=all", "log_statement=all", "off",
		"starting log_statement=all", "starting off", "log_statement=all", "off"}
	if !reflect.DeepEqual(steps, want) {
		t.Errorf("got the steps %q, want %q", steps, want)
	}
	if _, err := os.Stat(first.DataDir); !os.IsNotExist(err) {
		t.Errorf("the first set is still there: %v", err)
	}
	if r.Rounds != 3 || len(r.slices) != 6 {
		t.Errorf("got %d rounds, %d slices", r.Rounds, len(r.slices))
	}
	// a line takes 200 and some; two rounds of three are the first set's
	if per := *r.Variants[1].BytesPerTransaction; per < 150 {
		t.Errorf("%.0f bytes were logged for a transaction", per)
	}
}

const report = `pgbench (15.20 (Debian 15.20-0+deb12u1))
transaction type: <builtin: select only>
scaling factor: 10
query mode: prepared
number of clients: 16
number of threads: 2
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 14874
number of failed transactions: 0 (0.000%)
latency average = 1.058 ms
initial connection time = 20.105 ms
tps = 15116.904172 (without initial connection time)
`

func TestParseReport(t *testing.T) {
	got, err := ParseReport(report)
	if want := (Slice{TPS: 15116.904172, Transactions: 14874}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "tps = 12", "number of transactions actually processed: 0\ntps = 0.0 (without initial connection time)"} {
		if _, err := ParseReport(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestLoadCheck(t *testing.T) {
	good := Load{Workload: "select", Protocol: "prepared", Clients: 16, Scale: 10}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Load){
		func(l *Load) { l.Workload = "insert" },
		func(l *Load) { l.Protocol = "prepare" },
		func(l *Load) { l.Clients = 0 },
		func(l *Load) { l.Clients = 91 },
		func(l *Load) { l.Scale = 0 },
	} {
		l := good
		change(&l)
		if l.check() == nil {
			t.Errorf("no error for %+v", l)
		}
	}
}

// Room at the end of a segment is no part of what was recorded; zeros elsewhere are.
func TestTrailSizeLeavesOutRoom(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"0/1.steno": "abc" + strings.Repeat("\x00", 10) + "def" + strings.Repeat("\x00", 200<<10),
		"0/2.steno": strings.Repeat("x", 64<<10) + strings.Repeat("\x00", 64<<10),
		"1/1.steno": strings.Repeat("\x00", 100),
		"1/2.steno": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := TrailSize(dir); n != 16+64<<10 || err != nil {
		t.Errorf("the trail has %d bytes, %v", n, err)
	}
	if n, err := TreeSize(dir); n != 16+200<<10+128<<10+100 || err != nil {
		t.Errorf("the files have %d bytes, %v", n, err)
	}
}

func TestOverheadRefusesWrongUsage(t *testing.T) {
	measuretest.Refused(t, NewOverhead, map[string]string{
		"--workload insert":                 `no workload "insert"`,
		"--protocol x":                      `no protocol "x"`,
		"--clients 0":                       "0 clients",
		"--pairs 0":                         "--pairs must be at least 1",
		"--seconds 0":                       "--seconds must be at least 1",
		"--renew -1":                        "--renew must be at least 0",
		"--format xml":                      `invalid format "xml"`,
		"--set fsync":                       `--set expects name=value, not "fsync"`,
		"--dsn dbname=x --compare off":      "--dsn cannot be used with --compare",
		"--dsn dbname=x --profile 3":        "--dsn cannot be used with --compare",
		"--profile 3 --profile-runs 0":      "--profile-runs at least 1",
		"--compare off --scale 0 --pairs 1": "the scale must be at least 1",
	})
}

func TestOverheadDefaults(t *testing.T) {
	o, err := measuretest.Parse(NewOverhead, "--set steno.writers=2 --set a=b=c")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Load{Workload: "select", Protocol: "prepared", Clients: 16, Scale: 10}); o.Load != want || o.Rounds != 100 || o.Seconds != 1 || o.Renew != 20 {
		t.Errorf("got %+v, %d rounds of %d s, new servers after %d", o.Load, o.Rounds, o.Seconds, o.Renew)
	}
	if want := []cluster.Setting{{Name: "steno.writers", Value: "2"}, {Name: "a", Value: "b=c"}}; !reflect.DeepEqual(o.Settings, want) {
		t.Errorf("got settings %v", o.Settings)
	}
	if o.Environment.Version != "1.2" {
		t.Errorf("got version %q", o.Environment.Version)
	}
}

func exampleReport() *Report {
	per := 215.9
	return &Report{
		Postgres: "PostgreSQL 15.20 (Debian 15.20-0+deb12u1)",
		Machine:  machine.Machine{CPU: "A & B <CPU>", Cores: 2, Kernel: "6.1"},
		Load:     Load{Workload: "select", Protocol: "prepared", Clients: 16, Scale: 10},
		Rounds:   100, Seconds: 1, Renew: 20,
		Variants: []VariantReport{
			{Name: "off", Title: "off", TPS: stats.Estimate{Median: 20000}},
			{Name: "log_statement", Title: "log_statement=all", TPS: stats.Estimate{Median: 14000},
				Ratio: &stats.Estimate{Median: 0.7, Low: 0.65, High: 0.75, Confidence: 0.96}, BytesPerTransaction: &per},
		},
		Profile: &ProfileReport{Runs: []ProfileRun{{Samples: 1000, Backends: 10, Writers: 5,
			Places: []Place{{"a", "", 3}, {"b", "x", 4}, {"a", "y", 3}}}, {Samples: 1000, Backends: 11, Writers: 5}}},
		slices: []sliceRow{{1, 1, "off", Slice{20000, 19000}}, {1, 2, "log_statement", Slice{14000.25, 13000}}},
	}
}

func TestReportText(t *testing.T) {
	var b strings.Builder
	exampleReport().WriteText(&b)
	for _, want := range []string{
		"pgbench -S -M prepared, 16 clients, scale 10; 100 rounds of 1 s per server, new servers after every 20\n",
		"log_statement=all     14000  ███████████████▍       0.700 [0.650, 0.750]    215.9\n",
		"[96 % interval of that median]",
		"run 1: 1.50 % (backends 1.00 %, writers 0.50 %) of 1000 samples",
		"from 1.50 to 1.60 %\n  in backends: a 0.30 %, b 0.20 %\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestArchivedReportIsReadBack(t *testing.T) {
	dir := t.TempDir()
	want := exampleReport()
	if err := want.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	got, err := ReadReport(dir)
	if err != nil {
		t.Fatal(err)
	}
	want.slices = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestChartIsWellFormed(t *testing.T) {
	var b bytes.Buffer
	if err := WriteChart(&b, []*Report{exampleReport()}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"A &amp; B &lt;CPU&gt;", "0.700 [0.650, 0.750], 216 B", "1.50 to 1.60 %", ">0.75</text>", "relative to a server that logs nothing"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the chart", want)
		}
	}
	for decoder := xml.NewDecoder(&b); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
}

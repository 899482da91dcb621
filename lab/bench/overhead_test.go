package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	reports "github.com/pg-steno/pg_steno/lab/bench/report"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/measure/measuretest"
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
	Summarize(r)
	if tps := r.Find(result.Case{"variant": "log_statement"}, "tps"); r.Parameter("rounds") != "3" || tps == nil ||
		tps.Value.N != 3 || tps.Ratio == nil || tps.Ratio.N != 3 {
		t.Errorf("got %s rounds, %+v", r.Parameter("rounds"), tps)
	}
	// a line takes 200 and some; two rounds of three are the first set's
	if per := r.Find(result.Case{"variant": "log_statement"}, "bytes"); per == nil || per.Value.Median < 150 {
		t.Errorf("bytes that were logged for a transaction: %+v", per)
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
		"--workload insert":                  `no workload "insert"`,
		"--protocol x":                       `no protocol "x"`,
		"--clients 0":                        "0 clients",
		"--rounds 0":                         "--rounds must be at least 1",
		"--seconds 0":                        "--seconds must be at least 1",
		"--renew -1":                         "--renew must be at least 0",
		"--format xml":                       `invalid format "xml"`,
		"--set fsync":                        `--set expects name=value, not "fsync"`,
		"--dsn dbname=x --compare off":       "--dsn cannot be used with --compare",
		"--dsn dbname=x --profile 3":         "--dsn cannot be used with --compare",
		"--profile 3 --profile-runs 0":       "--profile-runs at least 1",
		"--compare off --scale 0 --rounds 1": "the scale must be at least 1",
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

func exampleResult() *result.Result {
	load := Load{Workload: "select", Protocol: "prepared", Clients: 16, Scale: 10}
	o := &Options{Rounds: 3, Seconds: 1, Renew: 20}
	r := newResult(o, load, "PostgreSQL 15.20 (Debian 15.20-0+deb12u1)", nil)
	r.Machine = machine.Machine{CPU: "A & B <CPU>", Cores: 2, Kernel: "6.1"}
	addVariant(r, "off", "off", nil)
	addVariant(r, "steno", "pg_steno", nil)
	for round, kept := range []float64{0.65, 0.75, 0.7} {
		addSlice(r, round+1, 1, "off", Slice{20000, 19000})
		addSlice(r, round+1, 2, "steno", Slice{20000 * kept, 13000})
	}
	r.Add(3, 2, result.Case{"variant": "steno"}, "bytes", 215.9)
	addCPU(r, "steno", &result.CPUSamples{Command: "perf", Runs: []result.CPURun{{Samples: 1000, Backends: 10, Writers: 5, Hidden: 4,
		TPS:    14000,
		Places: []result.Place{{Function: "a", Samples: 3}, {Function: "b", Leaf: "x", Samples: 4}, {Function: "a", Leaf: "y", Samples: 3}}},
		{Samples: 1000, Backends: 11, Writers: 5}}})
	setParameters(r, o, load, 3)
	Summarize(r)
	return r
}

func TestResultIsShown(t *testing.T) {
	var b strings.Builder
	reports.Terminal{Width: 200}.Text(&b, exampleResult())
	for _, want := range []string{
		"load: pgbench -S -M prepared, 16 clients, scale 10; rounds: 3; seconds of a slice: 1; rounds of a set of servers: 20\n",
		"0.700 [0.650, 0.750]",
		"- run 1: 1.50 % (backends 1.00 %, writers 0.50 %) of 1000 samples, 14000 tps; not counted: 0.40 %",
		"- in backends: a 0.30 %, b 0.20 %\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

// What the chart and docs/evidence.md need of a result is in its archive.
func TestArchivedResultIsReadBack(t *testing.T) {
	dir := t.TempDir()
	want := exampleResult()
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := ReadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	gotText, gotErr := json.Marshal(got)
	wantText, wantErr := json.Marshal(want)
	if !bytes.Equal(gotText, wantText) || gotErr != nil || wantErr != nil {
		t.Errorf("got\n%s, want\n%s", gotText, wantText)
	}
	other := result.New("clock", "", "", "")
	if err := other.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadResult(dir); err == nil || !strings.Contains(err.Error(), `no result of "overhead"`) {
		t.Errorf("a result of another bench: %v", err)
	}
}

func TestChartIsWellFormed(t *testing.T) {
	var b bytes.Buffer
	if err := WriteChart(&b, []*result.Result{exampleResult()}); err != nil {
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

// ---- stall ----

func TestOneOfAThousandIsSlower(t *testing.T) {
	var us []float64
	for i := range 2000 {
		us = append(us, float64((i*7)%2000)) // 0 to 1999, in another order
	}
	if got := slowest(us); got != 1.998 {
		t.Errorf("got %v ms", got)
	}
}

func TestStallWantsALoadThatIsPossible(t *testing.T) {
	for rate, ok := range map[float64]bool{0.25: true, 1: true, 0: false, -1: false, 1.01: false} {
		load := Load{Workload: "select", Protocol: "prepared", Clients: 8, Scale: 1}
		o := &Stall{Load: load, Rate: rate, Rounds: 1, Seconds: 1, Format: "text"}
		if err := o.Complete(nil); (err == nil) != ok {
			t.Errorf("--rate %v: %v", rate, err)
		}
	}
}

func TestLatenciesAreReadFromPgbenchsLog(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "latency")
	file := prefix + ".1"
	if err := os.WriteFile(file, []byte("0 199 2241 0 1175850568 995598\n1 200 2465 0 1175850568 998079\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := []float64{1}
	err := TakeLatencies(prefix, func(us float64) { got = append(got, us) })
	if err != nil || !slices.Equal(got, []float64{1, 2241, 2465}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the log is still there: %v", err)
	}
	if err := os.WriteFile(file, []byte("0 199\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := TakeLatencies(prefix, func(float64) {}); err == nil {
		t.Error("a line without a latency is accepted")
	}
}

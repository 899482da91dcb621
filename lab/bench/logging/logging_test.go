package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/measure/measuretest"
	"github.com/pg-steno/pg_steno/lab/stats"
)

func TestWrongUsageIsRefused(t *testing.T) {
	measuretest.Refused(t, New, map[string]string{
		"--workload insert":                     `no workload "insert"`,
		"--workload select,tpcb,select":         `two workloads have the name "select"`,
		"--workload file:/nowhere/x.sql":        "cannot use pgbench script",
		"--workload file:/":                     `"/" is not a pgbench script`,
		"--protocol binary":                     `no protocol "binary"`,
		"--protocol simple,simple":              `protocol "simple" is given twice`,
		"--clients 0":                           "at least 1 client is needed, not 0",
		"--clients 4,4":                         "4 clients are given twice",
		"--compare nothing":                     `no variant "nothing"; there are none, log_statement,`,
		"--compare none":                        `nothing to compare with "none"`,
		"--compare both,both":                   `variant "both" is given twice`,
		"--rounds 0":                            "--rounds must be at least 1",
		"--seconds 0":                           "--seconds must be at least 1",
		"--scale 0":                             "--scale must be at least 1",
		"--pause -1s":                           "--pause must not be negative",
		"--set fsync":                           "--set expects name=value",
		"--setup /nowhere/x.sql":                "cannot use --setup",
		"--quick --full":                        "exclude each other",
		"--restore":                             "need --dsn",
		"--yes":                                 "need --dsn",
		"--dsn dbname=x --scale 3":              "--dsn cannot be used with",
		"--dsn dbname=x --set fsync=off":        "--dsn cannot be used with",
		"--format xml":                          `invalid format "xml"`,
		"--workload select --protocol prepare,": "no protocol",
	})
	if _, err := measuretest.Parse(New, "--clients many"); err == nil || !strings.Contains(err.Error(), "invalid argument") {
		t.Errorf("got %v", err)
	}
}

func TestFlagsWinOverTheSizeOfTheRun(t *testing.T) {
	streams, _, _, _ := iostreams.Test()
	o := parse(t, streams, "--full --clients 3,5 --rounds 7")
	if !slices.Equal(o.Clients, []int{3, 5}) || o.Rounds != 7 || len(o.Workloads) != 4 || len(o.Protocols) != 3 {
		t.Errorf("got %+v", o)
	}
	if len(o.points) != 4*3*2 {
		t.Errorf("got %d points", len(o.points))
	}
	if o := parse(t, streams, "--quick"); o.budget == 0 || o.Scale != quick.scale {
		t.Errorf("got %+v", o)
	}
	if o := parse(t, streams, "--quick --rounds 50"); o.budget != 0 || o.Rounds != 50 {
		t.Errorf("got %+v", o)
	}
}

func TestMatrixIsEveryCombination(t *testing.T) {
	script := filepath.Join(t.TempDir(), "mine.sql")
	if err := os.WriteFile(script, []byte("SELECT 2;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	loads, err := checkLists([]string{"select1", "file:" + script}, []string{"simple", "prepared"}, []int{1, 8})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range points(loads, []string{"simple", "prepared"}, []int{1, 8}) {
		got = append(got, p.workload.name+" "+p.protocol+" "+strconv.Itoa(p.clients))
	}
	want := []string{
		"select1 simple 1", "select1 simple 8", "select1 prepared 1", "select1 prepared 8",
		"file:mine.sql simple 1", "file:mine.sql simple 8", "file:mine.sql prepared 1", "file:mine.sql prepared 8",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	args := points(loads, []string{"simple"}, []int{8})[1].args(3)
	for _, want := range []string{"--file=" + script, "--protocol=simple", "--client=8", "--time=3"} {
		if !slices.Contains(args, want) {
			t.Errorf("pgbench's arguments lack %s: %q", want, args)
		}
	}
}

func TestVariantsThatAreNotInstalledAreSkippedWithAReason(t *testing.T) {
	can, not := installed(variants, 14, func(library string) bool { return library == "pgaudit" })
	var names []string
	for _, v := range can {
		names = append(names, v.name)
	}
	if want := []string{"none", "log_statement", "log_duration", "both", "both_io", "csvlog",
		"pgaudit"}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
	want := []missing{
		{"jsonlog", "it needs PostgreSQL 15; this is 14"}, {"pgaudit_file", "pgauditlogtofile is not installed"},
		{"steno", "pg_steno is not installed"}, {"steno_sync", "pg_steno is not installed"},
	}
	if !slices.Equal(not, want) {
		t.Errorf("got %q", not)
	}
	if v := majorVersion("PostgreSQL 15.20 (Debian 15.20-0+deb12u1)"); v != 15 {
		t.Errorf("got version %d", v)
	}
	if v := majorVersion("PostgreSQL 19beta1"); v != 19 {
		t.Errorf("got version %d", v)
	}
}

// server returns a given server on which a reload can change everything.
func server(preloaded string, collector bool) *about {
	a := &about{version: 150020, preloaded: strings.Split(preloaded, ","), collector: collector,
		contexts: map[string]string{}}
	for _, s := range bases {
		library, _, ok := strings.Cut(s.Name, ".")
		if !ok || slices.Contains(a.preloaded, library) || library == "steno" && slices.Contains(a.preloaded,
			"pg_steno") {
			a.contexts[s.Name] = "superuser"
		}
	}
	return a
}

func TestGivenServerHasWhatAReloadChanges(t *testing.T) {
	for _, c := range []struct {
		server *about
		can    string
		not    string // words of the reasons
	}{
		{server("", true), "none log_statement log_duration both both_io csvlog jsonlog",
			"pgaudit: restart steno: restart"},
		{server("", false), "none log_statement log_duration both both_io",
			"csvlog: logging_collector pgaudit: restart"},
		{server("pgaudit,pg_steno", true), "none log_statement log_duration both both_io csvlog jsonlog pgaudit " +
			"steno steno_sync",
			"pgaudit_file: pgauditlogtofile"},
		{server("pgaudit,pgauditlogtofile", true), "none log_statement log_duration both both_io csvlog jsonlog " +
			"pgaudit_file",
			"pgaudit: redirects"},
	} {
		can, not := c.server.possible(variants)
		var names []string
		for _, v := range can {
			names = append(names, v.name)
		}
		if got := strings.Join(names, " "); got != c.can {
			t.Errorf("%v: got %q, want %q", c.server.preloaded, got, c.can)
		}
		words := strings.Fields(c.not)
		for i := 0; i < len(words); i += 2 {
			name := strings.TrimSuffix(words[i], ":")
			if !slices.ContainsFunc(not, func(m missing) bool {
				return m.name == name && strings.Contains(m.reason,
					words[i+1])
			}) {
				t.Errorf("%v: no reason with %q for %s in %q", c.server.preloaded, words[i+1], name, not)
			}
		}
	}
	plain := server("", true)
	plain.contexts["track_io_timing"] = "postmaster"
	_, not := plain.possible(variants)
	if !slices.Contains(not, missing{"both_io", `the server has no setting "track_io_timing" that can be changed by a reload`}) {
		t.Errorf("got %q", not)
	}
}

func TestPercentilesAreThoseOfKnownData(t *testing.T) {
	dir := t.TempDir()
	// 10,000 transactions of 1 to 10,000 µs, in two files and any order
	var files [2]strings.Builder
	for i := range 10000 {
		us := (i*7919)%10000 + 1
		files[i%2].WriteString("3 " + strconv.Itoa(i) + " " + strconv.Itoa(us) + " 0 1175850568 995598\n")
	}
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, "latency."+strconv.Itoa(i)), []byte(files[i].String()),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := &figures{metrics: map[string]float64{}}
	if err := f.latencies(dir); err != nil {
		t.Fatal(err)
	}
	for metric, want := range map[string]float64{"p50": 5, "p99": 9.9, "p999": 9.99} {
		// the histogram has three significant digits
		if got := f.metrics[metric]; math.Abs(got-want) > want/1000+1e-9 {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); left != nil {
		t.Errorf("pgbench's logs are left: %q", left)
	}
	if err := f.latencies(dir); err == nil {
		t.Error("no error without a transaction")
	}
	few := hdrhistogram.New(1, 1000, 3)
	_ = few.RecordValue(5)
	f = &figures{metrics: map[string]float64{}}
	f.percentiles(few)
	if _, ok := f.metrics["p999"]; ok {
		t.Error("one transaction is said to show what one of a thousand takes")
	}
}

func TestDiskNeededFollowsFromTheMatrix(t *testing.T) {
	streams, _, _, _ := iostreams.Test()
	small := parse(t, streams, "--workload select --scale 1").diskNeeded(2, 2)
	large := parse(t, streams, "--workload select --scale 101").diskNeeded(2, 2)
	if got, want := large-small, int64(3*100*16<<20); got != want {
		t.Errorf("100 more of the scale, on 3 folders, take %d more, want %d", got, want)
	}
	if parse(t, streams, "--workload tpcb --scale 1").diskNeeded(2, 2) <= small {
		t.Error("what writes takes no more room than what reads")
	}
}

func TestLabIsRefusedBeforeAServerIsMade(t *testing.T) {
	if _, err := cluster.Find(""); err != nil {
		t.Skipf("no PostgreSQL here: %v", err)
	}
	for line, want := range map[string]string{
		"--scale 100000000 --compare both": "not enough disk space",
		"--compare both --set max_connections=10 --clients 16": "16 clients are too many for " +
			"max_connections = 10",
		"--compare both --pg-config /nowhere/pg_config":   "cannot run",
		"--compare both --pg-config " + withoutPgbench(t): "no pgbench in",
		"--compare pgaudit_file --pg-config " + withoutLibraries(t, "15.20"): "cannot measure \"pgaudit_file\": " +
			"pgaudit is not installed",
	} {
		streams, _, _, _ := iostreams.Test()
		temp := t.TempDir()
		if err := os.Chmod(temp, 0o777); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", temp)
		_, err := measureLab(context.Background(), parse(t, streams, line), progress.NewPhases(streams))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", line, err, want)
		}
		if left, _ := filepath.Glob(filepath.Join(temp, "*")); left != nil {
			t.Errorf("%s: left %q", line, left)
		}
	}
}

// fakeInstallation creates a pg_config that reports a directory with these programs.
func fakeInstallation(t *testing.T, version string, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, program := range programs {
		if err := os.WriteFile(filepath.Join(dir, program), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "pg_config")
	script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'PostgreSQL " + version + "'; else echo " + dir +
		"; fi\n"
	if err := os.WriteFile(config, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return config
}

func withoutPgbench(t *testing.T) string {
	return fakeInstallation(t, "15.20", "postgres", "initdb", "psql")
}

func withoutLibraries(t *testing.T, version string) string {
	return fakeInstallation(t, version, "postgres", "initdb", "psql", "pgbench")
}

func TestPublishedFiguresStandBesideTheNearestNumberOfClients(t *testing.T) {
	r := &result.Result{Dimensions: []result.Dimension{{Name: "clients", Values: []result.Value{{Name: "16"},
		{Name: "60"}}}}}
	add := func(variant, workload, protocol, clients string) {
		c := result.Case{"variant": variant, "workload": workload, "protocol": protocol, "clients": clients}
		r.Measures = append(r.Measures, result.Measure{Case: c, Metric: "tps", Ratio: &stats.Estimate{}})
	}
	add("both", "select", "prepared", "16")
	add("both", "select", "prepared", "60")
	add("both", "select", "simple", "60")
	add("log_statement", "tpcb", "extended", "60")
	addPublished(r)
	var got []string
	for _, m := range r.Measures {
		text := ""
		for _, p := range m.Published {
			text += " " + p.Source + " " + strconv.FormatFloat(p.Value, 'f', 3, 64) + " " + p.Conditions + ";"
		}
		got = append(got, text)
	}
	want := []string{
		" analysis of 2018 0.827 PostgreSQL ~10, csvlog, ECS VM, 28 clients;",
		" analysis of 2019 0.579 64 cores, 64 clients; analysis of 2018 0.299 PostgreSQL ~10, csvlog, ECS VM, 56 clients;",
		"",
		" redesign of the log collector 0.203 TPC-B-like, scale 1000, 100 clients;",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// measured returns a measurement with synthetic figures: none has 1000 transactions per second, both 600, steno 990 or
// 1010.
func measured(t *testing.T, cores, rounds int, workloads ...string) *measurement {
	t.Helper()
	streams, _, _, _ := iostreams.Test()
	if workloads == nil {
		workloads = []string{"select"}
	}
	o := parse(t, streams, "--compare both,steno --clients 8 --workload "+strings.Join(workloads, ","))
	m := &measurement{o: o, variants: o.variants, result: o.newResult("PostgreSQL 15", nil)}
	m.result.Machine.Cores = cores
	for round := range rounds {
		for i := range len(m.variants) * len(o.points) {
			v, p := i%len(m.variants), o.points[i/len(m.variants)]
			tps := []float64{1000, 600, 990 + 20*float64(round%2)}[v]
			cpu := []map[part]float64{{backends: 20}, {backends: 38, logger: 10, other: 0.1}, {backends: 20.2,
				writers: 0.3}}[v]
			m.add(round+1, v+1, caseOf(m.variants[v], p), &figures{cpu: cpu, metrics: map[string]float64{
				"tps": tps, "p50": 1, "p99": 2, "p999": 3, "bytes": 10,
				"cpu": cpu[backends] + cpu[logger] + cpu[writers] + cpu[other],
			}})
		}
	}
	m.finish()
	return m
}

func TestFindingsAreMadeFromWhatWasMeasured(t *testing.T) {
	text := strings.Join(measured(t, 2, 6).result.Notes, "\n")
	for _, want := range []string{
		"log_statement + log_duration costs most: it keeps 60 % (60 to 60) of the throughput",
		"pg_steno costs least: 100 %",
		"most of the server's CPU time goes to log_statement + log_duration: 48.1 µs per transaction " +
			"instead of 20.0, " +
			"of which 18.0 µs in sessions and 10.0 µs in the logging collector. pg_steno takes 20.5 µs per",
		"the interval of pg_steno includes 1",
		"2 processors run 2 sessions at a time",
		"run: steno bench logging --clients 28,56,112",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the findings lack %q:\n%s", want, text)
		}
	}
	published := strings.Join(measured(t, 2, 6, "select1", "select", "tpcb").result.Notes, "\n")
	for _, want := range []string{
		"pg_steno keeps 100 % (99 to 101) of the throughput. The best published redesign of the server's own log " +
			"kept 93 %",
		"60 % (60 to 60) of the throughput remains; with pgbench -S, 60 % (60 to 60). The analysis of 2019 found that SELECT 1",
	} {
		if !strings.Contains(published, want) {
			t.Errorf("the findings lack %q:\n%s", want, published)
		}
	}
	if strings.Contains(text, "own log kept") || strings.Contains(text, "2019 found that") {
		t.Errorf("what was not measured is compared:\n%s", text)
	}
	if strings.Contains(text, "too few for a 95 % interval") {
		t.Errorf("6 rounds are said to be too few:\n%s", text)
	}
	if text := strings.Join(measured(t, 64, 5).result.Notes, "\n"); !strings.Contains(text,
		"5 rounds are too few for a 95 % interval") {
		t.Errorf("5 rounds are said to be enough:\n%s", text)
	}
	if text := strings.Join(measured(t, 64, 6).result.Notes, "\n"); strings.Contains(text, "mutex") {
		t.Errorf("a large machine's findings speak of a small one:\n%s", text)
	}
}

func TestTablesAndChartsFindTheirFigures(t *testing.T) {
	r := measured(t, 2, 6).result
	if len(r.Tables) != 2 || len(r.Charts) != 4 {
		t.Fatalf("got %d tables and %d charts", len(r.Tables), len(r.Charts))
	}
	for _, table := range r.Tables {
		for _, column := range table.Columns {
			if column.Published {
				continue
			}
			c := table.Where.With("variant", "both")
			if column.Dimension != "" {
				c = c.With(column.Dimension, "logger")
			}
			if m := r.Find(c, column.Metric); m == nil || column.Ratio && m.Ratio == nil {
				t.Errorf("%s: nothing for column %+v", table.Title, column)
			}
		}
	}
	for _, chart := range r.Charts {
		c := chart.Where.With(chart.X, "both")
		if chart.Series != "" {
			c = c.With(chart.Series, "logger")
		}
		if r.Find(c, chart.Metric) == nil {
			t.Errorf("nothing to draw for %+v", chart)
		}
	}
}

// checkStructure checks that each variant has its figures in a result.
func checkStructure(t *testing.T, text string, variants []string, workload, clients string) *result.Result {
	t.Helper()
	var r result.Result
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, v := range variants {
		c := result.Case{"variant": v, "workload": workload, "protocol": "prepared", "clients": clients}
		for _, metric := range []string{"tps", "p50", "p99", "cpu", "bytes"} {
			m := r.Find(c, metric)
			if m == nil {
				t.Fatalf("no %s of %v", metric, c)
			}
			// pgbench logs a latency of 0 if the answer arrives immediately
			if m.Value.Median < 0 || (metric == "tps" || metric == "cpu") && m.Value.Median == 0 {
				t.Errorf("%s of %v is %v", metric, c, m.Value.Median)
			}
			if metric == "bytes" && (m.Value.Median > 0) != (v != base) {
				t.Errorf("%v logs %v bytes for each transaction", c, m.Value.Median)
			}
		}
		if m := r.Find(c.With("part", "backends"), "cpu"); m == nil || m.Value.Median <= 0 {
			t.Errorf("sessions of %v took no time: %v", c, m)
		}
		if v != base && r.Find(c, "tps").Ratio == nil {
			t.Errorf("no ratio of %v", c)
		}
	}
	return &r
}

func TestLabMeasuresAllVariants(t *testing.T) {
	if _, err := cluster.Find(""); err != nil {
		t.Skipf("no PostgreSQL here: %v", err)
	}
	streams, _, out, _ := iostreams.Test()
	dir := t.TempDir()
	o := parse(t, streams, "--rounds 1 --scale 1 --clients 2 --workload select --compare both --format json "+
		"--out "+dir)
	if err := o.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	r := checkStructure(t, out.String(), []string{"none", "both"}, "select", "2")
	c := result.Case{"variant": "both", "workload": "select", "protocol": "prepared", "clients": "2"}
	if m := r.Find(c.With("part", "logger"), "cpu"); m == nil || m.Value.Median <= 0 {
		t.Errorf("the logging collector took no time: %v", m)
	}
	if m := r.Find(c, "voluntary"); m == nil || m.Value.Median <= 0 {
		t.Errorf("no voluntary context switches: %v", m)
	}
	samples, err := os.ReadFile(filepath.Join(dir, "samples.csv"))
	if err != nil || !strings.HasPrefix(string(samples),
		"round,position,variant,clients,workload,protocol,part,metric,value\n") {
		t.Errorf("samples.csv begins %.100q, %v", samples, err)
	}
	if _, err := os.Stat(o.dir); !os.IsNotExist(err) {
		t.Errorf("\"%s\" is left: %v", o.dir, err)
	}
}

// recorded unpacks recorded files of /proc.
func recorded(t *testing.T) string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/server.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range archive.Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.TrimSuffix(f.Data, []byte("\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const recordedPostmaster = 4011

func TestTimeGoesToWhoUsedIt(t *testing.T) {
	dir := recorded(t)
	look := func(when string) usage {
		u, err := tree{machine.Proc(filepath.Join(dir, when)), recordedPostmaster}.look()
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	before, during, after := look("before"), look("during"), look("after")
	// The time of sessions that have exited is in whole ticks; that of running ones, in nanoseconds.
	for _, c := range []struct {
		name     string
		from, to usage
		want     map[part]time.Duration
	}{
		{"sessions came and went", before, after, map[part]time.Duration{
			backends: 95 * machine.Tick, logger: 80018465 - 628889, writers: 7339258 - 3267984,
			other: 3874021 - 3218081 + 2517130 - 1573701,
		}},
		{"sessions came", before, during, map[part]time.Duration{
			backends: 1*machine.Tick + 226442317 + 214235595, logger: 19409293 - 628889, writers: 5796315 - 3267984,
			other: 3432837 - 3218081 + 1738904 - 1573701,
		}},
		{"sessions went", during, after, map[part]time.Duration{
			backends: 94*machine.Tick - 226442317 - 214235595, logger: 80018465 - 19409293, writers: 7339258 - 5796315,
			other: 3874021 - 3432837 + 2517130 - 1738904,
		}},
	} {
		if got := c.from.until(c.to); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestKernelsThatKeepLessAreReadAsWell(t *testing.T) {
	dir := filepath.Join(recorded(t), "after")
	want, err := machine.Proc(dir).Children(recordedPostmaster)
	if err != nil || len(want) != 7 {
		t.Fatalf("got children %v, %v", want, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "4011", "task")); err != nil {
		t.Fatal(err)
	}
	got, err := machine.Proc(dir).Children(recordedPostmaster)
	if err != nil || len(got) != len(want) {
		t.Errorf("without a list of children: got %v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "4016", "schedstat")); err != nil {
		t.Fatal(err)
	}
	u, err := tree{machine.Proc(dir), recordedPostmaster}.look()
	if err != nil {
		t.Fatal(err)
	}
	for key, p := range u.living {
		if want := (process{logger, 7 * machine.Tick}); key.pid == 4016 && p != want {
			t.Errorf("without schedstat: the logger is %v, want %v", p, want)
		}
	}
	if _, err := (tree{machine.Proc(dir), 1}).look(); err == nil {
		t.Error("a server that is not there is looked at")
	}
}

func TestSwitchesAreThoseOfWhoWasThereBothTimes(t *testing.T) {
	dir := recorded(t)
	count := func(when string) map[int]switches {
		counts, _, err := tree{machine.Proc(filepath.Join(dir, when)), recordedPostmaster}.switchCounts()
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	got := between(count("during"), count("after"))
	if want := (switches{2535 - 1165 + 47 - 31 + 75 - 52 + 48 - 31, 0}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	// the sessions that were started in between have no first count
	got = between(count("before"), count("during"))
	if want := (switches{1165 - 5 + 31 - 21 + 52 - 35 + 31 - 22, 7 - 5}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := count("during")[4321]; n != (switches{348, 1183}) {
		t.Errorf("a session has %v", n)
	}
}

func TestProcessTitles(t *testing.T) {
	for title, want := range map[string]part{
		"postgres: logger":                             logger,
		"postgres: 15/main: logger ":                   logger,
		"postgres: steno writer 3 ":                    writers,
		"postgres: my cluster: steno writer 0":         writers,
		"postgres: checkpointer ":                      other,
		"postgres: autovacuum worker db1":              other,
		"postgres: 15/main: walsender r 10.0.0.1(5)":   other,
		"postgres: startup recovering 000000010000000": other,
		"postgres: logger logger [local] idle":         backends,
		"postgres: 15/main: u db [local] SELECT":       backends,
		"postgres: parallel worker for PID 77":         backends,
	} {
		if got := titlePart(title); got != want {
			t.Errorf("%q is of %s, want %s", title, got, want)
		}
	}
}

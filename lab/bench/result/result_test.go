package result

import (
	"archive/tar"
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// example has three rounds of two variants with one and with ten clients; in
// the last one, "on" with ten clients is missing, and "off" with one did nothing.
func example() *Result {
	r := &Result{
		Version: Version, Bench: "logging", Title: "t", Time: time.Date(2026, 11, 22, 10, 0, 0, 0,
			time.UTC), Command: "steno bench", Steno: "1",
		Postgres: "PostgreSQL 15.20", Machine: machine.Machine{CPU: "c", Cores: 2}, Busy: machine.Busy{Before: 1.5},
		Settings: []cluster.Setting{{Name: "a", Value: "b"}}, Parameters: []Parameter{{"p", "q"}},
		Dimensions: []Dimension{{Name: "variant", Title: "variant",
			Values: []Value{{Name: "off", Title: "off"}, {Name: "on", Title: "on"}}},
			{Name: "clients", Title: "clients", Values: []Value{{Name: "1", Title: "1"}, {Name: "10", Title: "10"}}}},
		Metrics: []Metric{{Name: "tps", Title: "throughput", Unit: "1/s", Better: "higher"}},
		Tables: []Table{{Title: "t", Rows: []string{"variant"}, Columns: []Column{{Metric: "tps", Ratio: true}},
			Bar: -1}},
		Charts:  []Chart{{Title: "c", Kind: "bars", Metric: "tps", X: "variant"}},
		Skipped: []Skipped{{Case: Case{"variant": "x"}, Reason: "absent"}}, Notes: []string{"n"},
	}
	add := func(round, position int, variant, clients string, tps float64) {
		r.Add(round, position, Case{"variant": variant, "clients": clients}, "tps", tps)
	}
	add(1, 1, "off", "1", 100)
	add(1, 2, "on", "1", 90)
	add(1, 3, "off", "10", 200)
	add(1, 4, "on", "10", 100)
	add(2, 1, "on", "1", 44)
	add(2, 2, "off", "1", 50)
	add(2, 3, "on", "10", 150)
	add(2, 4, "off", "10", 250)
	add(3, 1, "off", "1", 0)
	add(3, 2, "on", "1", 70.1234567)
	add(3, 3, "off", "10", 300)
	r.Add(3, 4, Case{"variant": "on"}, "bytes", 9.5)
	return r
}

func TestSummarizeAsDoneByHand(t *testing.T) {
	r := example()
	r.Summarize("variant", "off")
	if want := []Base{{"variant", "off"}}; !reflect.DeepEqual(r.Bases, want) {
		t.Errorf("bases %+v", r.Bases)
	}
	c := func(variant, clients string) Case { return Case{"variant": variant, "clients": clients} }
	for _, w := range []struct {
		c                 Case
		metric            string
		median, low, high float64
		n                 int
		ratio             *stats.Estimate
	}{
		{c("off", "1"), "tps", 50, 0, 100, 3, nil},
		// 90/100 and 44/50; no ratio to nothing.
		{c("on", "1"), "tps", 70.1234567, 44, 90, 3,
			&stats.Estimate{Median: 0.89, Low: 0.88, High: 0.9, Confidence: 0.5, N: 2}},
		{c("off", "10"), "tps", 250, 200, 300, 3, nil},
		// 100/200 and 150/250; the third round has no partner.
		{c("on", "10"), "tps", 125, 100, 150, 2, &stats.Estimate{Median: 0.55, Low: 0.5, High: 0.6, Confidence: 0.5,
			N: 2}},
		{Case{"variant": "on"}, "bytes", 9.5, 9.5, 9.5, 1, nil},
	} {
		m := r.Find(w.c, w.metric)
		if m == nil {
			t.Errorf("no %s of %v", w.metric, w.c)
			continue
		}
		if v := m.Value; v.Median != w.median || v.Low != w.low || v.High != w.high || v.N != w.n {
			t.Errorf("%v: %+v", w.c, v)
		}
		if (m.Ratio == nil) != (w.ratio == nil) || m.Ratio != nil && !close(*m.Ratio, *w.ratio) {
			t.Errorf("%v: ratio %+v, want %+v", w.c, m.Ratio, w.ratio)
		}
	}
	if len(r.Measures) != 5 {
		t.Errorf("%d measures", len(r.Measures))
	}
}

func close(a, b stats.Estimate) bool {
	near := func(x, y float64) bool { return x-y < 1e-12 && y-x < 1e-12 }
	return near(a.Median, b.Median) && near(a.Low, b.Low) && near(a.High, b.High) && near(a.Confidence,
		b.Confidence) && a.N == b.N
}

func TestSummarizeWithoutABaseMakesNoRatios(t *testing.T) {
	r := example()
	r.Summarize("", "")
	for _, m := range r.Measures {
		if m.Ratio != nil {
			t.Errorf("%v has %+v", m.Case, m.Ratio)
		}
	}
	if r.Bases != nil {
		t.Errorf("bases %+v", r.Bases)
	}
}

func TestCasesThatAreAddedAreCopies(t *testing.T) {
	r := &Result{}
	c := Case{"clients": "1"}
	r.Add(1, 1, c, "tps", 1)
	c["clients"] = "2"
	d := c.With("variant", "on")
	if r.Samples[0].Case["clients"] != "1" || c["variant"] != "" || d["variant"] != "on" || d["clients"] != "2" {
		t.Errorf("%v, %v, %v", r.Samples[0].Case, c, d)
	}
}

func TestArchivedResultIsReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	r := example()
	r.Summarize("variant", "off")
	r.Measures[1].Published = []Published{{Value: 0.5, IsRatio: true, Source: "s", Conditions: "c"}}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := *r
	want.Samples = nil
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("got\n%+v, want\n%+v", *got, want)
	}
}

func TestPackedRunIsRead(t *testing.T) {
	runs := t.TempDir()
	f, err := os.Create(filepath.Join(runs, packedFile))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(f)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, name := range []string{"select/report.json", "tpcb/report.json"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(name))}))
		_, e := w.Write([]byte(name))
		err = errors.Join(err, e)
	}
	if err := errors.Join(err, w.Close(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"tpcb", "tpcb/"} {
		text, err := ReadFile(runs+"/"+dir, "report.json")
		if err != nil || string(text) != "tpcb/report.json" {
			t.Errorf("%s: %q, %v", dir, text, err)
		}
	}
	if _, err := ReadFile(filepath.Join(runs, "sync"), "report.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a run that is not packed: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(runs, "tpcb"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(runs, "tpcb", "report.json"), []byte("unpacked"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(filepath.Join(runs, "tpcb"), "report.json"); err != nil || string(text) != "unpacked" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Truncate(filepath.Join(runs, packedFile), 20); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(filepath.Join(runs, "select"), "report.json"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a damaged archive: %v", err)
	}
}

func TestSamplesAreWrittenInTheirOrder(t *testing.T) {
	dir := t.TempDir()
	if err := example().Write(dir); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, samplesFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 13 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range map[int]string{
		0: "round,position,variant,clients,metric,value", 1: "1,1,off,1,tps,100", 6: "2,2,off,1,tps,50",
		10: "3,2,on,1,tps,70.123457", 12: "3,4,on,,bytes,9.5",
	} {
		if got := strings.Join(lines[i], ","); got != want {
			t.Errorf("line %d is %s, want %s", i, got, want)
		}
	}
}

func TestUnreadableResultsAreRefused(t *testing.T) {
	for text, want := range map[string]string{`{"version": 2}`: "has version 2; this program reads versions up to 1",
		`{`: "cannot read"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, resultFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Read(t.TempDir()); !os.IsNotExist(err) {
		t.Errorf("without a file: %v", err)
	}
}

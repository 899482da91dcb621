package bench

import (
	"bytes"
	"encoding/xml"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/lab/machine"
	"github.com/pg-steno/pg_steno/internal/lab/stats"
)

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

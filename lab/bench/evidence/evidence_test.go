package evidence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/stats"
)

const (
	path = "../../../docs/evidence.md"
	runs = "../../../bench/runs"
)

// TestEvidenceIsUpToDate compares docs/evidence.md with the output of its template for the archived runs.
func TestEvidenceIsUpToDate(t *testing.T) {
	want, err := Page(runs)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("STENO_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs from page.tmpl and the runs: run STENO_UPDATE=1 go test ./lab/bench/evidence", path)
	}
}

// archive creates a directory of runs with one result: two servers, with 1 and 8 clients, and the second server's time
// by parts.
func archive(t *testing.T) string {
	t.Helper()
	r := result.New("logging", "test", "steno bench logging", "test")
	r.Dimensions = []result.Dimension{
		{Name: "variant", Values: []result.Value{{Name: "none", Title: "none"}, {Name: "both", Title: "both settings"}}},
		{Name: "clients", Values: []result.Value{{Name: "1", Title: "1"}, {Name: "8", Title: "8"}}},
	}
	r.Parameters = []result.Parameter{{Name: "rounds", Value: "3"}}
	for round, tps := range []float64{1000, 1100, 1200} {
		for _, clients := range []string{"1", "8"} {
			r.Add(round, 0, result.Case{"variant": "none", "clients": clients}, "tps", tps)
			r.Add(round, 1, result.Case{"variant": "both", "clients": clients}, "tps", tps/2)
		}
		r.Add(round, 1, result.Case{"variant": "both", "clients": "8", "part": "logger"}, "cpu", 10)
		r.Add(round, 1, result.Case{"clients": "8", "event": "IPC: SyncRep"}, "waits", 70)
		r.Add(round, 1, result.Case{"variant": "both", "clients": "8"}, "cpu", 30)
	}
	r.Summarize("variant", "none")
	dir := t.TempDir()
	if err := r.Write(filepath.Join(dir, "lab")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFiguresComeFromTheRun(t *testing.T) {
	dir := archive(t)
	for _, c := range []struct{ text, want string }{
		{`{{with run "lab"}}{{.Value "tps" "variant=none clients=1"}}{{end}}`, "1,100 [1,000, 1,200]"},
		{`{{with run "lab"}}{{.Ratio "tps" "variant=both clients=8"}}{{end}}`, "0.500 [0.500, 0.500]"},
		{`{{with run "lab"}}{{.Kept "tps" "variant=both clients=8"}}{{end}}`, "50 % (50 to 50)"},
		{`{{with run "lab"}}{{.Plain 1 "tps" "variant=none clients=8"}}{{end}}`, "1100.0 (1000.0 to 1200.0)"},
		{`{{with run "lab"}}{{.Times 2 "tps" "variant=both clients=1"}}{{end}}`, "0.50 (0.50 to 0.50)"},
		{`{{with run "lab"}}{{.Quotient 1 "tps" "variant=none clients=8" "variant=both clients=1"}}{{end}}`, "2.0"},
		// the measure of the whole case, not of a part of it
		{`{{with run "lab"}}{{.Value "cpu" "variant=both"}}{{end}}`, "30 [30, 30]"},
		{`{{with run "lab"}}{{.Value "cpu" "part=logger"}}{{end}}`, "10 [10, 10]"},
		{`{{with run "lab"}}{{$r := .}}{{range list "none" "both"}}{{$r.Title "variant" .}};{{end}}{{end}}`,
			"none;both settings;"},
		{`{{with run "lab"}}{{.Title "variant" "both"}}, {{.Parameter "rounds"}} rounds{{end}}`, "both settings, 3 rounds"},
		{`{{with run "lab"}}{{.Value "waits" "event=IPC: SyncRep clients=8"}}{{end}}`, "70 [70, 70]"},
		{`{{of 192413 208834}}`, "192,413 (0.921)"},
		{`{{with run "missing"}}figures{{else}}none{{end}}`, "none"},
		{"one\n{{with run \"missing\"}}figures{{end}}\n\n\ntwo", "one\n\ntwo"},
		{`{{with profile "lab"}}figures{{else}}none{{end}}`, "none"},
	} {
		if got, err := render(dir, c.text); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.text, got, err, c.want)
		}
	}
}

func TestFiguresThatAreNotCertainAreRefused(t *testing.T) {
	dir := archive(t)
	for _, c := range []struct{ text, want string }{
		{`.Value "tps" "variant=none"`, "matches several"},
		{`.Value "tps" "variant=none clients=2"`, "no tps"},
		{`.Value "tps" "variant"`, "is not of the form"},
		{`.Ratio "tps" "variant=none clients=1"`, "has no ratio"},
		{`.Title "variant" "all"`, "has no value"},
		{`.Parameter "seconds"`, "no parameter"},
	} {
		got, err := render(dir, `{{with run "lab"}}{{`+c.text+`}}{{end}}`)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v, want an error with %q", c.text, got, err, c.want)
		}
	}
}

func TestRunsOfOverheadAreRead(t *testing.T) {
	dir := t.TempDir()
	r := result.New("overhead", "", "", "")
	r.Dimensions = []result.Dimension{{Name: "variant", Values: []result.Value{{Name: "off"}, {Name: "steno"}}}}
	r.Measures = []result.Measure{{Case: result.Case{"variant": "off"}, Metric: "tps"},
		{Case: result.Case{"variant": "steno"}, Metric: "tps",
			Ratio: &stats.Estimate{Median: 0.98, Low: 0.95, High: 1.02, N: 9}}}
	r.CPU = &result.CPUSamples{Runs: []result.CPURun{
		{Samples: 1000, Backends: 12, Writers: 5}, {Samples: 1000, Backends: 20, Writers: 4}}}
	if err := r.Write(filepath.Join(dir, "o")); err != nil {
		t.Fatal(err)
	}
	got, err := render(dir,
		`{{with overhead "o"}}{{.Kept "steno"}}; {{.Shares}}{{end}}{{with overhead "p"}}more{{end}}`)
	if want := "0.980 [0.950, 1.020]; 1.7 to 2.4 %"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := render(dir, `{{with overhead "o"}}{{.Kept "off"}}{{end}}`); err == nil ||
		!strings.Contains(err.Error(), "no ratio") {
		t.Errorf("the base's ratio: %v", err)
	}
}

func TestProfilesAreRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := `{"first_cause": "log_write", "causes": [
		{"id": "log_write", "title": "writing", "class": "cost", "cpu_percent": 20, "active_percent": 30.25},
		{"id": "executor", "title": "running", "class": "work", "active_percent": 40},
		{"id": "clock", "title": "clock", "class": "cost", "active_percent": 0.5}]}`
	if err := os.WriteFile(filepath.Join(dir, "p", "profile.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := render(dir, `{{with profile "p"}}{{.FirstCause}}: {{(.Share .FirstCause).Title}}, {{(.Share "log_write").CPU}}; `+
		`{{.Active "clock" "executor"}}{{end}}`)
	if want := "log_write: writing, 20; 40.5"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := render(dir, `{{with profile "p"}}{{.Share "locks"}}{{end}}`); err == nil ||
		!strings.Contains(err.Error(), "no cause") {
		t.Errorf("a cause that is not there: %v", err)
	}
}

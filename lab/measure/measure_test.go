package measure

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
)

func TestCommandLinesHaveNoConnectionStrings(t *testing.T) {
	for line, want := range map[string]string{
		"bench logging --quick":                "steno bench logging --quick",
		"bench logging --dsn password=x --yes": "steno bench logging --dsn ... --yes",
		"bench logging --dsn=password=x --yes": "steno bench logging --dsn=... --yes",
	} {
		if got := commandLine(strings.Fields(line)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func measured() *result.Result {
	r := result.New("example", "An example", "steno bench example", "1")
	r.Dimensions = []result.Dimension{{Name: "a", Title: "a",
		Values: []result.Value{{Name: "x", Title: "X"}, {Name: "y", Title: "Y"}}}}
	r.Metrics = []result.Metric{{Name: "m", Title: "speed"}}
	r.Tables = []result.Table{{Title: "Speeds", Rows: []string{"a"}, Columns: []result.Column{{Metric: "m"}}, Bar: -1}}
	r.Charts = []result.Chart{{Title: "Speeds", Kind: "bars", Metric: "m", X: "a"}}
	for i, name := range []string{"x", "y"} {
		r.Add(1, i, result.Case{"a": name}, "m", float64(i+4))
	}
	r.Summarize("", "")
	return r
}

func TestArchivedResultsAreShownAgain(t *testing.T) {
	dir := t.TempDir()
	if err := measured().Write(dir); err != nil {
		t.Fatal(err)
	}
	streams, _, out, _ := iostreams.Test()
	page := filepath.Join(dir, "page.html")
	if err := errors.Join(Show(streams, dir, ""), Show(streams, dir, page)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "Speeds\na  speed\nX      4\nY      5\n") {
		t.Errorf("the text is\n%s", out)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<h1>An example</h1>") {
		t.Errorf("the page is %q, %v", text, err)
	}
	if err := Show(streams, filepath.Join(dir, "none"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no result: %v", err)
	}
}

func TestResultsGoWhereTheFlagsSay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	for format, want := range map[string]string{"text": "Speeds\na  speed\nX      4\nY      5\n",
		"json": `"title":"Speeds"`} {
		streams, _, out, _ := iostreams.Test()
		c := &Common{Environment: Environment{IO: streams}, Format: format, Output: dir}
		err := c.Publish(t.Context(), func(context.Context, *progress.Phases) (*result.Result, error) {
			return measured(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
		if format == "json" && !json.Valid(out.Bytes()) {
			t.Errorf("no JSON:\n%s", out)
		}
	}
	for name, want := range map[string]string{"report.html": "<h1>An example</h1>",
		"result.json": `"title": "An example"`, "samples.csv": "1,0,x,m,4\n"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v", name, want, err)
		}
	}
}

func TestNothingIsWrittenWhenMeasuringFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	streams, _, out, _ := iostreams.Test()
	c := &Common{Environment: Environment{IO: streams}, Format: "text", Output: dir}
	failure := errors.New("no disk")
	err := c.Publish(t.Context(), func(context.Context, *progress.Phases) (*result.Result, error) { return nil, failure })
	if _, stat := os.Stat(dir); !errors.Is(err, failure) || !os.IsNotExist(stat) || out.Len() > 0 {
		t.Errorf("%v, %v, %s", err, stat, out)
	}
}

func TestFlagsThatExcludeEachOther(t *testing.T) {
	for want, c := range map[string]Common{"--quick and --full": {Quick: true, Full: true, Format: "text"},
		`invalid format "x"`: {Format: "x"}} {
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := (&Common{Format: "json", Quick: true}).Check(); err != nil {
		t.Error(err)
	}
}

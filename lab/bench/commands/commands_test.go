package commands

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/cluster/labtest"
	"github.com/pg-steno/pg_steno/lab/measure"
	"github.com/pg-steno/pg_steno/lab/measure/measuretest"
)

func TestWrongUsageIsRefused(t *testing.T) {
	measuretest.Refused(t, New, map[string]string{
		"--ways odbc":       `--ways: "odbc" is not one of [psql simple`,
		"--compare pgaudit": `--compare: "pgaudit" is not one of [bare again`,
		"--statements 0":    "--rounds and --statements must be at least 1",
		"--rounds 0":        "--rounds and --statements must be at least 1",
		"--ways=":           "an empty list",
		"--quick --full":    "--quick and --full exclude each other",
	})
}

func TestSizesOfRuns(t *testing.T) {
	for line, rounds := range map[string]int{"": 8, "--quick": 3, "--full": 30, "--full --rounds 2": 2} {
		o, err := measuretest.Parse(New, line)
		if err != nil || o.Rounds != rounds || o.Statements != 10000 {
			t.Errorf("%q: %+v, %v, want %d rounds", line, o, err, rounds)
		}
	}
}

// A missing library is an error if it was requested, and skipped otherwise.
func TestMissingLibraries(t *testing.T) {
	i := labtest.Installation(t)
	all := variants
	defer func() { variants = all }()
	variants = append(slices.Clone(all), variant{name: "missing", library: "no_such_library"})
	config := filepath.Join(i.BinDir, "pg_config")
	o, err := measuretest.Parse(New, "--compare missing --pg-config "+config)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := o.prepare(); err == nil || !strings.Contains(err.Error(),
		`cannot measure "missing": no no_such_library.so in`) {
		t.Errorf("got %v", err)
	}
	o.changed = nil
	_, chosen, skipped, err := o.prepare()
	if err != nil || len(chosen) != 1 || chosen[0].name != base || len(skipped) != 1 ||
		skipped[0].Case[dimVariant] != "missing" {
		t.Errorf("got %v, skipped %v, %v", chosen, skipped, err)
	}
}

func TestScriptHasALineForEachStatement(t *testing.T) {
	if got, want := script(3), "SELECT 1;\nSELECT 1;\nSELECT 1;\n"; got != want {
		t.Errorf("got %q", got)
	}
}

// small returns options for a short run of what is installed.
func small(t *testing.T, streams *iostreams.IOStreams) (*Options, *cluster.Installation, []variant) {
	t.Helper()
	labtest.Installation(t)
	o := &Options{Common: measure.Common{Environment: measure.Environment{IO: streams}},
		Ways: wayNames(), Compare: variantNames(), Statements: 20, Rounds: 1}
	i, chosen, _, err := o.prepare()
	if err != nil {
		t.Fatal(err)
	}
	return o, i, chosen
}

func TestRunMeasuresEveryVariantInEveryWay(t *testing.T) {
	streams, _, _, _ := iostreams.Test()
	o, i, chosen := small(t, streams)
	r, err := o.measure(context.Background(), i, chosen, progress.NewPhases(streams))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range o.Ways {
		for _, v := range chosen {
			c := point(findWay(name), v.name)
			seconds := r.Find(c, metricSeconds)
			if seconds == nil || seconds.Value.Median <= 0 || (seconds.Ratio != nil) != (v.name != base) {
				t.Errorf("%v took %+v", c, seconds)
			}
			if more := r.Find(c, metricOverhead); (more != nil) != (v.name != base) {
				t.Errorf("%v added %+v", c, more)
			}
		}
	}
	published := r.Find(point(findWay(viaPsql), activities), metricSeconds).Published
	if len(published) != 1 || !published[0].IsRatio || math.Abs(published[0].Value-1.5714) > 0.001 {
		t.Errorf("published beside psql with track_activities: %v", published)
	}
}

// Settings take effect: the statements of each variant must be reported where they should be, and those of no other
// variant.
func TestVariantsDoWhatTheySay(t *testing.T) {
	ctx := context.Background()
	streams, _, _, _ := iostreams.Test()
	o, i, chosen := small(t, streams)
	lab, err := cluster.NewLab(ctx, i)
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	m := &measurement{Options: o, lab: lab, chosen: chosen, servers: map[string]*cluster.Server{}}
	if err := m.start(ctx); err != nil {
		t.Fatal(err)
	}
	for _, v := range chosen {
		conn, err := pgx.Connect(ctx, conninfo(m.servers[v.server()], v.session))
		if err != nil {
			t.Fatal(err)
		}
		var settings, libraries string
		err = conn.QueryRow(ctx, `
			SELECT concat_ws(' ', current_setting('track_activities'), current_setting('track_counts'),
				current_setting('log_statement')), current_setting('shared_preload_libraries')`).
			Scan(&settings, &libraries)
		_ = conn.Close(ctx)
		want := map[string]string{activities: "on off none", "track_counts": "off on none", "both": "on on none",
			"log_statement": "off off all"}[v.name]
		if want == "" {
			want = "off off none"
		}
		if settings != want || libraries != v.library || err != nil {
			t.Errorf("%s: a session has %q and %q, %v, want %q and %q", v.name, settings, libraries, err, want,
				v.library)
		}
	}
}

func TestEveryStatementArrives(t *testing.T) {
	ctx := context.Background()
	streams, _, _, _ := iostreams.Test()
	o, i, _ := small(t, streams)
	lab, err := cluster.NewLab(ctx, i)
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	if err := os.WriteFile(scriptFile(lab), []byte(script(o.Statements)), 0o644); err != nil {
		t.Fatal(err)
	}
	logged := variants[slices.IndexFunc(variants, func(v variant) bool { return v.name == "log_statement" })]
	s, err := lab.Start(ctx, "server", serverSettings)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range o.Ways {
		if _, err := findWay(name).run(ctx, lab, s, logged, o.Statements); err != nil {
			t.Fatal(err)
		}
	}
	// The log is complete only when the server has stopped.
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.DataDir, "log", "postgresql"))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	var sessions []string
	line := regexp.MustCompile(`(?m)\[(\d+)\] postgres@postgres LOG:  (?:statement|execute \S+): SELECT 1;?$`)
	for _, m := range line.FindAllSubmatch(text, -1) {
		pid := string(m[1])
		if counts[pid]++; counts[pid] == 1 {
			sessions = append(sessions, pid)
		}
	}
	if len(sessions) != len(o.Ways) {
		t.Fatalf("%d sessions in the log, want %d:\n%s", len(sessions), len(o.Ways), text)
	}
	for i, name := range o.Ways {
		want := o.Statements
		if name != viaPsql {
			want *= 2 // includes those before the measurement starts
		}
		if got := counts[sessions[i]]; got != want {
			t.Errorf("%s: %d statements in the log, want %d", name, got, want)
		}
	}
}

func TestCanceledRunLeavesNothing(t *testing.T) {
	ctx, streams := labtest.CanceledAt("measuring")
	o, i, chosen := small(t, streams)
	o.Statements = 10_000_000 // it would take long, but is canceled
	o.Ways = []string{"simple"}
	if _, err := o.measure(ctx, i, chosen[:1], progress.NewPhases(streams)); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
}

func TestFiguresOfKnownSamples(t *testing.T) {
	o := &Options{Statements: 1000, Ways: []string{viaPsql, "simple"}}
	m := &measurement{Options: o, chosen: variants[:3], r: &result.Result{}}
	for round := 1; round <= 3; round++ {
		for _, name := range o.Ways {
			w := findWay(name)
			all := []sample{{1, 0.5}, {1.01, 0.5}, {1.25, 0.6}}
			for i, v := range m.chosen {
				m.add(round, i+1, w, v, all[i])
				if i > 0 {
					m.addDifference(round, w, v, all[i], all[0])
				}
			}
		}
	}
	m.finish()
	c := point(findWay("simple"), activities)
	for metric, want := range map[string]float64{metricSeconds: 1.25, metricOverhead: 250, metricCPU: 600,
		metricCPUMore: 100} {
		if x := m.r.Find(c, metric); x == nil || math.Abs(x.Value.Median-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", metric, x, want)
		}
	}
	notes := strings.Join(m.r.Notes, "\n")
	for _, want := range []string{"differ by up to 10.0 µs", "track_activities added 250.0 µs"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}

package regress

import (
	"strings"
	"testing"
	"time"
)

func messageOf(text string) entry { return entry{severity: "LOG", message: text} }

// executedWith are the messages of a portal that is bound and executed.
func executedWith(detail string) []entry {
	return []entry{
		messageOf("duration: 0.100 ms  parse s: SELECT $1"),
		{severity: "LOG", message: "duration: 0.200 ms  bind s/p: SELECT $1", detail: detail},
		{severity: "LOG", message: "execute s/p: SELECT $1", detail: detail},
		messageOf("duration: 1.000 ms"),
	}
}

func recordedWith(params ...any) map[string]any {
	r := recorded("SELECT $1", "")
	r["params"] = params
	return r
}

func TestParametersAreThoseOfTheLog(t *testing.T) {
	const detail = "parameters: $1 = '42', $2 = NULL, $3 = 'it''s, $2 = ''x'''"
	for name, test := range map[string]struct {
		params []any
		want   string
	}{
		"the same":       {[]any{"42", nil, "it's, $2 = 'x'"}, "0 0 0"},
		"none":           {nil, "0 0 1"},
		"another one":    {[]any{"43", nil, "it's, $2 = 'x'"}, "0 0 1"},
		"text, not NULL": {[]any{"42", "NULL", "it's, $2 = 'x'"}, "0 0 1"},
		"one less":       {[]any{"42", nil}, "0 0 1"},
	} {
		if got, _ := compared(t, logOf(executedWith(detail)...), trailOf(recordedWith(test.params...))); got != test.want {
			t.Errorf("%s: missing, extra, different: %s", name, got)
		}
	}
}

func TestPortalIsOneStatement(t *testing.T) {
	fetched := append(executedWith(""), messageOf("execute fetch from s/p: SELECT $1"), messageOf("duration: 2.000 ms"))
	bound := append(executedWith(""), messageOf("duration: 0.200 ms  bind s/q: SELECT $1"))
	again := append(executedWith(""), executedWith("")[1:]...)
	empty := append(executedWith(""), messageOf("execute s/p: SELECT $1"), messageOf("duration: 1.000 ms"))
	failed := append(executedWith("")[:3], failedIn("SELECT", "22012", "SELECT $1"), messageOf("execute s/p: SELECT $1"), failedIn("SELECT", "25P02", "SELECT $1"))
	late := append(fetched[:5:5], failedIn("SELECT", "25P02", "SELECT $1"))
	canceled := append(executedWith("")[:2], failedIn("BIND", "57014", "SELECT $1"))
	terminated := append(executedWith("")[:2], failedIn("BIND", "57P01", "SELECT $1"))
	terminated[2].severity = "FATAL"
	moved := append(executedWith(""), executedOne("FETCH 5 FROM p"), failedIn("FETCH", "22012", "FETCH 5 FROM p"))
	refused := append(executedWith(""), executedOne("FETCH BACKWARD 1 FROM p"), failedIn("FETCH", "55000", "FETCH BACKWARD 1 FROM p"))
	none := append(executedWith(""), failedIn("", "34000", ""))
	ended := []entry{executedOne("SELECT 1"), failedIn("SELECT", "57014", "SELECT 1")}
	afterwards := recorded("SELECT 1", "57014")
	afterwards["class"] = "error"
	one := func() map[string]any { return recorded("SELECT $1", "") }
	for name, test := range map[string]struct {
		log   []entry
		trail []map[string]any
		want  string
	}{
		"fetched in parts":                  {fetched, []map[string]any{one()}, "0 0 0"},
		"fetched in parts, recorded twice":  {fetched, []map[string]any{one(), one()}, "0 1 0"},
		"bound, and never executed":         {bound, []map[string]any{one()}, "0 0 0"},
		"executed again at its start":       {empty, []map[string]any{one()}, "0 0 0"},
		"failed, and executed again":        {failed, []map[string]any{recorded("SELECT $1", "22012"), recorded("SELECT $1", "25P02")}, "0 0 0"},
		"executed, and again in vain":       {late, []map[string]any{one(), recorded("SELECT $1", "25P02")}, "0 0 0"},
		"canceled before it was executed":   {canceled, []map[string]any{recorded("SELECT $1", "57014")}, "0 0 0"},
		"terminated before it was executed": {terminated, []map[string]any{recorded("SELECT $1", "57P01")}, "0 0 0"},
		"failed in a FETCH":                 {moved, []map[string]any{recorded("SELECT $1", "22012"), recorded("FETCH 5 FROM p", "22012")}, "0 0 0"},
		"refused a FETCH":                   {refused, []map[string]any{one(), recorded("FETCH BACKWARD 1 FROM p", "55000")}, "0 0 0"},
		"failed, as its FETCH was refused":  {refused, []map[string]any{recorded("SELECT $1", "55000"), recorded("FETCH BACKWARD 1 FROM p", "55000")}, "0 0 1"},
		"no portal":                         {none, []map[string]any{one(), recorded("", "34000")}, "0 0 0"},
		"canceled when it had ended":        {ended, []map[string]any{recorded("SELECT 1", ""), afterwards}, "0 0 0"},
		"executed again":                    {again, []map[string]any{one(), one()}, "0 0 0"},
		"executed again, but recorded once": {again, []map[string]any{one()}, "1 0 0"},
	} {
		if got, _ := compared(t, logOf(test.log...), trailOf(test.trail...)); got != test.want {
			t.Errorf("%s: missing, extra, different: %s", name, got)
		}
	}
}

func TestIdentityIsThatOfTheLog(t *testing.T) {
	log := entry{severity: "LOG", message: "statement: SELECT 1", application: "shop"}
	record := recorded("SELECT 1", "")
	record["application"] = "bank"
	if got, _ := compared(t, logOf(log), trailOf(record)); got != "0 0 1" {
		t.Errorf("another application: %s", got)
	}
	record["application"], record["query_id"] = "shop", 7
	end := entry{severity: "LOG", message: "duration: 1.000 ms", application: "shop", queryID: 8}
	if got, _ := compared(t, logOf(log, end), trailOf(record)); got != "0 0 1" {
		t.Errorf("another query ID: %s", got)
	}
	end.queryID = 7
	if got, _ := compared(t, logOf(log, end), trailOf(record)); got != "0 0 0" {
		t.Errorf("the same: %s", got)
	}
}

func TestDurationsAreThoseOfTheLog(t *testing.T) {
	with := func(r map[string]any, names ...string) map[string]any {
		for _, name := range names {
			r[name+"_us"] = 1000
		}
		return r
	}
	fetched := append(executedWith(""), messageOf("execute fetch from s/p: SELECT $1"), messageOf("duration: 2.000 ms"))
	several := []entry{executedOne("SELECT 1; SELECT 2"), messageOf("duration: 3.000 ms")}
	for name, test := range map[string]struct {
		log        []entry
		trail      []map[string]any
		log1, own1 time.Duration
	}{
		"a string": {several, []map[string]any{with(recorded("SELECT 1", ""), "duration", "plan"), with(recorded("SELECT 2", ""), "duration", "commit")}, 3000, 3000},
		"a portal": {fetched, []map[string]any{with(recorded("SELECT $1", ""), "duration", "plan", "commit", "analysis")}, 3300, 1000},
	} {
		_, r := compared(t, logOf(test.log...), trailOf(test.trail...))
		all := r.Timings()
		if len(all) != 1 || all[0].Log != test.log1*time.Microsecond || all[0].Trail != test.own1*time.Microsecond {
			t.Errorf("%s: %v", name, all)
		}
	}
	_, r := compared(t, logOf(several...), trailOf(with(recorded("SELECT 1", ""), "duration"), with(recorded("SELECT 2", ""), "duration")))
	if r.JudgeDurations(Limits{Share: 1, Relative: 0.1, Absolute: 600 * time.Microsecond}, &strings.Builder{}) {
		t.Error("2 ms are within 10 % and 600 µs of 3 ms")
	}
	if !r.JudgeDurations(Limits{Share: 1, Relative: 0.1, Absolute: 700 * time.Microsecond}, &strings.Builder{}) {
		t.Error("2 ms are not within 10 % and 700 µs of 3 ms")
	}
}

func TestRecordsAreThoseOfTheStatistics(t *testing.T) {
	query := func(depth, rows int, command, outcome string) map[string]any {
		r := recorded("SELECT 1", "")
		r["query_id"], r["depth"], r["rows"], r["duration_us"], r["command"], r["outcome"] = 7, depth, rows, 2000, command, outcome
		return r
	}
	statistic := func(calls, nested, rows int64, ms float64) Statistic {
		return Statistic{User: "alice", Database: "shop", QueryID: 7, Calls: calls, Nested: nested, Rows: rows, ExecutionMS: ms}
	}
	for name, test := range map[string]struct {
		trail     []map[string]any
		statistic Statistic
		want      int // differences
		durations bool
	}{
		"as many calls, rows and milliseconds": {[]map[string]any{query(0, 5, "SELECT", "ok"), query(1, 6, "SELECT", "ok")}, statistic(2, 1, 11, 4), 0, true},
		"a shorter duration":                   {[]map[string]any{query(0, 5, "SELECT", "ok")}, statistic(1, 0, 5, 3), 0, false},
		"a longer one, by analysis":            {[]map[string]any{query(0, 5, "SELECT", "ok")}, statistic(1, 0, 5, 1.55), 0, true},
		"a longer one":                         {[]map[string]any{query(0, 5, "SELECT", "ok")}, statistic(1, 0, 5, 1), 0, false},
		"one call is not recorded":             {[]map[string]any{query(0, 5, "SELECT", "ok")}, statistic(2, 0, 5, 4), 1, true},
		"no call is recorded":                  {nil, statistic(2, 0, 5, 4), 1, true},
		"other rows":                           {[]map[string]any{query(0, 5, "SELECT", "ok")}, statistic(1, 0, 4, 2), 1, true},
		"rows of a loop's last part":           {[]map[string]any{query(1, 60, "SELECT", "ok")}, statistic(1, 1, 50, 2), 0, true},
		"too few rows of a loop":               {[]map[string]any{query(1, 40, "SELECT", "ok")}, statistic(1, 1, 50, 2), 1, true},
		"a commit that failed":                 {[]map[string]any{query(0, 0, "INSERT", "error")}, statistic(1, 0, 0, 2), 0, true},
		"what failed was planned":              {[]map[string]any{query(0, 0, "INSERT", "error")}, statistic(0, 0, 0, 0), 0, true},
		"a query of COPY":                      {[]map[string]any{query(0, 5, "SELECT", "ok"), query(0, 5, "COPY", "ok")}, statistic(3, 1, 10, 6), 0, true},
		"two queries of one COPY":              {[]map[string]any{query(0, 5, "SELECT", "ok"), query(0, 5, "COPY", "ok")}, statistic(4, 2, 10, 8), 1, true},
		"statements that are left out":         {[]map[string]any{query(0, 5, "EXECUTE", "ok"), query(1, 5, "SELECT", "ok")}, statistic(1, 0, 5, 2), 0, true},
	} {
		_, r := compared(t, logOf(), trailOf(test.trail...))
		r.Extra, r.Missing, r.Different = 0, 0, 0
		r.CompareStatistics([]Statistic{test.statistic}, 150000)
		if n := r.Extra + r.Missing + r.Different; n != test.want {
			t.Errorf("%s: %d differences", name, n)
		}
		limits := Limits{Share: 1, Relative: 0.05, Absolute: 50 * time.Microsecond}
		if got := r.JudgeStatistics([]Statistic{test.statistic}, limits, &strings.Builder{}); got != test.durations {
			t.Errorf("%s: durations agree: %t", name, got)
		}
	}
	_, r := compared(t, logOf(), trailOf(query(0, 5, "SELECT", "ok")))
	r.Extra = 0
	if r.CompareStatistics(nil, 150000); r.Extra != 1 {
		t.Errorf("%d records of a query that is not in the statistics", r.Extra)
	}
	r.Extra = 0
	r.ExcludeUser("alice")
	if r.CompareStatistics(nil, 150000); r.Extra != 0 {
		t.Errorf("%d records of a user that is left out", r.Extra)
	}
	for version, want := range map[int]int{160000: 0, 170000: 1} { // which counts DEALLOCATE
		_, r := compared(t, logOf(), trailOf(query(0, 5, "DEALLOCATE", "ok")))
		r.Extra = 0
		if r.CompareStatistics(nil, version); r.Extra != want {
			t.Errorf("version %d: %d records of a DEALLOCATE that is not in the statistics", version, r.Extra)
		}
	}
}

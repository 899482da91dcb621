package regress

import (
	"strings"
	"testing"
	"time"
)

// endedOne is a string in a log that has no lines for the beginnings of statements.
func endedOne(text, tag string) entry {
	return entry{severity: "LOG", message: "duration: 1.000 ms  statement: " + text, tag: tag}
}

// endedPortal are the messages of a portal there.
func endedPortal(detail string) []entry {
	return []entry{
		messageOf("duration: 0.100 ms  parse s: SELECT $1"),
		{severity: "LOG", message: "duration: 0.200 ms  bind s/p: SELECT $1", detail: detail},
		{severity: "LOG", message: "duration: 1.000 ms  execute s/p: SELECT $1", tag: "SELECT", detail: detail},
	}
}

func TestLogWithoutBeginningsAgrees(t *testing.T) {
	one := func() map[string]any { return recorded("SELECT $1", "") }
	fetched := append(endedPortal(""), messageOf("duration: 2.000 ms  execute fetch from s/p: SELECT $1"))
	failed := append(endedPortal("")[:2:2], failedIn("SELECT", "22012", "SELECT $1"))
	inParts := append(fetched[:4:4], failedIn("SELECT", "22012", "SELECT $1"))
	late := append(fetched[:4:4], failedIn("SELECT", "25P02", "SELECT $1"))
	again := append(endedPortal(""), failedIn("BIND", "08P01", "SELECT $1"), failedIn("PARSE", "42601", "SELECT $1"))
	others := append(endedPortal(""), failedIn("SELECT", "22012", "SELECT 1/0"))
	canceled := append(endedPortal("")[:2:2], failedIn("BIND", "57014", "SELECT $1"))
	strings := append([]entry{endedOne("SELECT 1; SELECT 2", "SELECT")}, failedIn("SELECT", "22012", "SELECT 3; SELECT 1/0; SELECT 4"))
	commit := []entry{messageOf("duration: 0.200 ms  bind <unnamed>: INSERT 2"),
		{severity: "LOG", message: "duration: 1.000 ms  execute <unnamed>: INSERT 2", tag: "INSERT"}, failedIn("INSERT", "23505", "")}
	called := []entry{messageOf(`duration: 1.000 ms  fastpath function call: "lowrite" (OID 955)`)}
	named := []entry{endedOne("SELECT 1", "SELECT"), endedOne("SET application_name = 'b'", "SET"), endedOne("SELECT 2", "SELECT")}
	named[0].application, named[1].application, named[2].application = "a", "b", "b"
	sets := []map[string]any{recorded("SELECT 1", ""), recorded("SET application_name = 'b'", ""), recorded("SELECT 2", "")}
	sets[0]["application"], sets[1]["application"], sets[2]["application"] = "a", "a", "b"
	for name, test := range map[string]struct {
		log   []entry
		trail []map[string]any
		want  string
	}{
		"strings, one that fails":               {strings, []map[string]any{recorded("SELECT 1", ""), recorded("SELECT 2", ""), recorded("SELECT 3", ""), recorded("SELECT 1/0", "22012")}, "0 0 0"},
		"a failure is recorded as ok":           {strings, []map[string]any{recorded("SELECT 1", ""), recorded("SELECT 2", ""), recorded("SELECT 3", ""), recorded("SELECT 1/0", "")}, "0 0 1"},
		"one that could not be parsed":          {[]entry{endedOne("SELECT 1", "SELECT"), failedIn("idle", "42601", "SELEC 1; SELECT 2")}, []map[string]any{recorded("SELECT 1", ""), recorded("SELEC 1; SELECT 2", "42601")}, "0 0 0"},
		"a part of one":                         {[]entry{endedOne("SELECT 1", "SELECT"), failedIn("idle", "42601", "SELEC 1; SELECT 2")}, []map[string]any{recorded("SELECT 1", ""), recorded("SELECT 2", "42601")}, "0 0 1"},
		"the same text, which fails then":       {[]entry{endedOne("SELECT f()", "SELECT"), failedIn("SELECT", "22012", "SELECT f()")}, []map[string]any{recorded("SELECT f()", ""), recorded("SELECT f()", "22012")}, "0 0 0"},
		"a portal":                              {endedPortal(""), []map[string]any{one()}, "0 0 0"},
		"a portal, recorded twice":              {endedPortal(""), []map[string]any{one(), one()}, "0 1 0"},
		"a portal that is not recorded":         {endedPortal(""), nil, "1 0 0"},
		"a portal with other parameters":        {endedPortal("parameters: $1 = '1'"), []map[string]any{recordedWith("2")}, "0 0 1"},
		"a portal in parts":                     {fetched, []map[string]any{one()}, "0 0 0"},
		"a portal that fails":                   {failed, []map[string]any{recorded("SELECT $1", "22012")}, "0 0 0"},
		"a portal that fails in its third part": {inParts, []map[string]any{recorded("SELECT $1", "22012")}, "0 0 0"},
		"a portal that is executed in vain":     {late, []map[string]any{one(), recorded("SELECT $1", "25P02")}, "0 0 0"},
		"a failed Bind and Parse":               {again, []map[string]any{one(), recorded("SELECT $1", "08P01"), recorded("SELECT $1", "42601")}, "0 0 0"},
		"a failure of another text":             {others, []map[string]any{one(), recorded("SELECT 1/0", "22012")}, "0 0 0"},
		"canceled before it was executed":       {canceled, []map[string]any{recorded("SELECT $1", "57014")}, "0 0 0"},
		"a failed commit":                       {commit, []map[string]any{recorded("INSERT 2", "23505")}, "0 0 0"},
		"a function that is called without SQL": {called, []map[string]any{calledOne("pg_catalog.lowrite")}, "0 0 0"},
		"the application's name before":         {named, sets, "0 0 0"},
	} {
		// the log is of the kind without beginnings because of this line
		log := append(test.log[:len(test.log):len(test.log)], entry{session: "2.2", severity: "LOG", message: "duration: 1.000 ms  statement: ;"})
		if got, _ := compared(t, logOf(log...), trailOf(test.trail...)); got != test.want {
			t.Errorf("%s: missing, extra, different: %s, not %s", name, got, test.want)
		}
	}
}

func TestParseOfAnotherTextIsNotThatOfTheStatement(t *testing.T) {
	log := []entry{messageOf("duration: 5.000 ms  parse s: SELECT 1"), messageOf("duration: 0.300 ms  parse s: SELECT $1")}
	log = append(log, endedPortal("")...)
	if _, r := compared(t, logOf(log...), trailOf(recorded("SELECT $1", ""))); r.Timings()[0].Log != 1600*time.Microsecond {
		t.Errorf("%v", r.Timings())
	}
}

func TestDurationsDifferByDefinition(t *testing.T) {
	limits := Limits{Share: 1, Relative: 0.05, Absolute: 50 * time.Microsecond}
	with := func(text, class, command string, duration, commit int) map[string]any {
		r := recorded(text, "")
		r["class"], r["command"], r["duration_us"], r["commit_us"] = class, command, duration, commit
		return r
	}
	for name, test := range map[string]struct {
		log   []entry
		trail []map[string]any
		want  bool
		why   string
	}{
		"files are removed":               {[]entry{endedOne("DROP TABLE t", "")}, []map[string]any{with("DROP TABLE t", "ddl", "DROP TABLE", 100, 200)}, true, removesLater},
		"in a block":                      {[]entry{endedOne("TRUNCATE t", ""), endedOne("COMMIT", "")}, []map[string]any{with("TRUNCATE t", "write", "TRUNCATE TABLE", 1000, 0), with("COMMIT", "transaction", "COMMIT", 100, 0)}, true, removesLater},
		"before the block":                {[]entry{endedOne("TRUNCATE t", ""), endedOne("COMMIT", "")}, []map[string]any{with("TRUNCATE t", "write", "TRUNCATE TABLE", 500, 500), with("COMMIT", "transaction", "COMMIT", 100, 0)}, false, ""},
		"no files are removed":            {[]entry{endedOne("INSERT 1", "")}, []map[string]any{with("INSERT 1", "write", "INSERT", 100, 200)}, false, ""},
		"but the record is longer":        {[]entry{endedOne("DROP TABLE t", "")}, []map[string]any{with("DROP TABLE t", "ddl", "DROP TABLE", 2000, 200)}, false, ""},
		"they are not removed yet":        {[]entry{endedOne("DROP TABLE t", "")}, []map[string]any{with("DROP TABLE t", "ddl", "DROP TABLE", 100, 0)}, false, ""},
		"rows are stored and sent":        {[]entry{endedOne("FETCH 9 FROM c", "")}, []map[string]any{with("FETCH 9 FROM c", "misc", "FETCH", 100, 0)}, true, sendsLater},
		"rows of a query are sent before": {[]entry{endedOne("SELECT 1", "")}, []map[string]any{with("SELECT 1", "read", "SELECT", 100, 0)}, false, ""},
	} {
		var out strings.Builder
		_, r := compared(t, logOf(test.log...), trailOf(test.trail...))
		if got := r.JudgeDurations(limits, &out); got != test.want || test.why != "" && !strings.Contains(out.String(), "by definition: "+test.why+": 1\n") {
			t.Errorf("%s: %t, %s", name, got, out.String())
		}
	}
	query := func(depth, duration int) map[string]any {
		r := with("SELECT 1", "read", "SELECT", duration, 0)
		r["query_id"], r["depth"] = 7, depth
		return r
	}
	statistic := func(text string, execution, plan float64) Statistic {
		return Statistic{User: "alice", Database: "shop", QueryID: 7, Calls: 1, ExecutionMS: execution, PlanMS: plan, Query: text}
	}
	for name, test := range map[string]struct {
		record    map[string]any
		statistic Statistic
		want      bool
	}{
		"as long as the log says":            {query(0, 1000), statistic("SELECT 1", 0.1, 0.1), true},
		"longer than the log says":           {query(0, 1500), statistic("SELECT 1", 0.1, 0.1), false},
		"shorter than its execution":         {query(0, 1000), statistic("SELECT 1", 2, 0.1), false},
		"a query of EXECUTE, planned before": {query(1, 1000), statistic("PREPARE p AS SELECT 1", 1, 5), true},
		"that is longer":                     {query(1, 4000), statistic("PREPARE p AS SELECT 1", 1, 0.1), false},
		"another nested query":               {query(1, 1000), statistic("SELECT 1", 1, 5), false},
	} {
		_, r := compared(t, logOf(endedOne("SELECT 1", "SELECT")), trailOf(test.record))
		r.JudgeDurations(limits, &strings.Builder{})
		if got := r.JudgeStatistics([]Statistic{test.statistic}, limits, &strings.Builder{}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

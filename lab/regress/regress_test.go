package regress

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

// lines of a log, in csvlog's form.
func logOf(entries ...entry) io.Reader {
	var b strings.Builder
	for i, e := range entries {
		fields := make([]string, columns)
		if e.session == "" {
			e.session = "1.1"
		}
		if e.user == "" {
			e.user, e.database = "alice", "shop"
		}
		fields[columnUser], fields[columnDatabase], fields[columnSession] = e.user, e.database, e.session
		fields[columnLine], fields[columnSeverity], fields[columnSQLState] = fmt.Sprint(i+1), e.severity, e.sqlState
		fields[columnMessage], fields[columnQuery], fields[columnBackend] = e.message, e.query, e.backend
		fields[columnTag], fields[columnDetail], fields[columnApplication] = e.tag, e.detail, e.application
		if e.queryID != 0 {
			fields[columnQueryID] = fmt.Sprint(e.queryID)
		}
		for j := range fields {
			if j > 0 {
				b.WriteByte(',')
			}
			if fields[j] != "" {
				b.WriteString(`"` + strings.ReplaceAll(fields[j], `"`, `""`) + `"`)
			}
		}
		b.WriteByte('\n')
	}
	return strings.NewReader(b.String())
}

func executedOne(text string) entry { return entry{severity: "LOG", message: "statement: " + text} }

func failure(code, query string) entry {
	return entry{severity: "ERROR", sqlState: code, message: "it failed", query: query}
}

func pipelined(text, tag string) entry {
	return entry{severity: "LOG", message: "execute <unnamed>: " + text, tag: tag}
}

// failedIn is a failure while the server does what tag says; query "": the log does not say of which statement.
func failedIn(tag, code, query string) entry {
	return entry{severity: "ERROR", sqlState: code, message: "it failed", query: query, tag: tag, backend: "client backend"}
}

// recorded is a record of depth 0; code "": it was ok.
func recorded(text, code string) map[string]any {
	r := map[string]any{"kind": "statement", "session": "1.1", "user": "alice", "database": "shop", "text": text, "outcome": "ok"}
	if code != "" {
		r["outcome"], r["sqlstate"] = "error", code
	}
	return r
}

// calledOne is a record of a function that was called without SQL.
func calledOne(name string) map[string]any {
	return map[string]any{"kind": "statement", "session": "1.1", "user": "alice", "database": "shop", "command": "FUNCTION CALL",
		"objects": []map[string]any{{"name": name}}, "outcome": "ok"}
}

func trailOf(records ...map[string]any) io.Reader {
	var b strings.Builder
	for i, r := range records {
		r["statement"], r["seq"] = i+1, i+2
		line, _ := json.Marshal(r)
		b.Write(append(line, '\n'))
	}
	return strings.NewReader(b.String())
}

func compared(t *testing.T, log, trail io.Reader) (string, *Report) {
	t.Helper()
	var list strings.Builder
	r, err := Compare([]io.Reader{log}, trail, &list)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %d %d", r.Missing, r.Extra, r.Different), r
}

func TestLogAndTrailThatAgree(t *testing.T) {
	for name, test := range map[string]struct {
		log   []entry
		trail []map[string]any
	}{
		"one statement":     {[]entry{executedOne("SELECT 1;")}, []map[string]any{recorded("SELECT 1", "")}},
		"several, comments": {[]entry{executedOne("SELECT 1; /* a /* b */ */ SELECT 2 -- c\n;;")}, []map[string]any{recorded("SELECT 1", ""), recorded("SELECT 2", "")}},
		"the same twice":    {[]entry{executedOne("BEGIN"), executedOne("BEGIN")}, []map[string]any{recorded("BEGIN", ""), recorded("BEGIN", "")}},
		"a failure":         {[]entry{executedOne("SELECT 1/0"), failure("22012", "SELECT 1/0")}, []map[string]any{recorded("SELECT 1/0", "22012")}},
		"a failure in a string": {[]entry{executedOne("SELECT 1; SELECT 1/0; SELECT 3"), failure("22012", "SELECT 1; SELECT 1/0; SELECT 3")},
			[]map[string]any{recorded("SELECT 1", ""), recorded("SELECT 1/0", "22012")}},
		"not parsed, twice": {[]entry{failure("42601", "SELEC 1; SELECT 2"), failure("42601", "SELEC 1; SELECT 2")},
			[]map[string]any{recorded("SELEC 1; SELECT 2", "42601"), recorded("SELEC 1; SELECT 2", "42601")}},
		"extended": {[]entry{{severity: "LOG", message: "execute p: SELECT $1"}}, []map[string]any{recorded("SELECT $1", "")}},
		"a failed commit in a pipeline": {[]entry{pipelined("INSERT 1", "INSERT"), pipelined("INSERT 2", "INSERT"), failedIn("INSERT", "23505", ""), pipelined("SELECT 3", "SELECT")},
			[]map[string]any{recorded("INSERT 1", ""), recorded("INSERT 2", "23505"), recorded("SELECT 3", "")}},
		"a failed Bind of a text that was executed": {[]entry{pipelined("SELECT $1", "SELECT"), failedIn("BIND", "08P01", "SELECT $1"), failedIn("PARSE", "42601", "SELECT $1")},
			[]map[string]any{recorded("SELECT $1", ""), recorded("SELECT $1", "08P01"), recorded("SELECT $1", "42601")}},
		"a failure that is of no statement": {[]entry{executedOne("SELECT 1"), failedIn("idle", "26000", ""), executedOne("SELECT 2")},
			[]map[string]any{recorded("SELECT 1", ""), recorded("", "26000"), recorded("SELECT 2", "")}},
		"a function that is called without SQL": {[]entry{{severity: "LOG", message: `fastpath function call: "lowrite" (OID 955)`}},
			[]map[string]any{calledOne("pg_catalog.lowrite")}},
		"a hidden secret":                   {[]entry{executedOne("ALTER ROLE a PASSWORD 'x'")}, []map[string]any{recorded("ALTER ROLE a PASSWORD <redacted>", "")}},
		"a hidden secret in the middle":     {[]entry{executedOne("ALTER ROLE a PASSWORD 'x' LOGIN;")}, []map[string]any{recorded("ALTER ROLE a PASSWORD <redacted> LOGIN", "")}},
		"an empty string, and other lines":  {[]entry{executedOne(" ; -- nothing"), {severity: "WARNING", message: "statement: x"}, {severity: "LOG", message: "checkpoint"}}, nil},
		"a failure in a parallel worker":    {[]entry{{severity: "ERROR", sqlState: "22012", query: "SELECT 1", backend: "parallel worker"}}, nil},
		"line ends and quotes are the same": {[]entry{executedOne("SELECT '\r\n', '\"'")}, []map[string]any{recorded("SELECT '\r\n', '\"'", "")}},
	} {
		if got, _ := compared(t, logOf(test.log...), trailOf(test.trail...)); got != "0 0 0" {
			t.Errorf("%s: missing, extra, different: %s", name, got)
		}
	}
}

func TestLogAndTrailThatDiffer(t *testing.T) {
	other := recorded("SELECT 1", "")
	other["user"] = "bob"
	elsewhere := recorded("SELECT 1", "")
	elsewhere["database"] = "bank"
	for name, test := range map[string]struct {
		log   []entry
		trail []map[string]any
		want  string
	}{
		"nothing is recorded":         {[]entry{executedOne("SELECT 1")}, nil, "1 0 0"},
		"one in the middle is not":    {[]entry{executedOne("SELECT 1"), executedOne("SELECT 2"), executedOne("SELECT 3")}, []map[string]any{recorded("SELECT 1", ""), recorded("SELECT 3", "")}, "1 0 0"},
		"one is recorded twice":       {[]entry{executedOne("SELECT 1"), executedOne("SELECT 2")}, []map[string]any{recorded("SELECT 1", ""), recorded("SELECT 1", ""), recorded("SELECT 2", "")}, "0 1 0"},
		"one that nobody sent":        {[]entry{executedOne("SELECT 1")}, []map[string]any{recorded("SELECT 1", ""), recorded("SELECT 9", "")}, "0 1 0"},
		"a part of a string":          {[]entry{executedOne("SELECT 1; SELECT 2")}, []map[string]any{recorded("SELECT 1", "")}, "0 0 1"},
		"a part of what failed whole": {[]entry{failure("42601", "SELECT 1; SELEC 2")}, []map[string]any{recorded("SELEC 2", "42601")}, "0 0 1"},
		"another SQLSTATE":            {[]entry{executedOne("SELECT 1/0"), failure("22012", "SELECT 1/0")}, []map[string]any{recorded("SELECT 1/0", "57014")}, "0 0 1"},
		"a failure that was none":     {[]entry{executedOne("SELECT 1")}, []map[string]any{recorded("SELECT 1", "22012")}, "0 0 1"},
		"a failure is recorded as ok": {[]entry{executedOne("SELECT 1/0"), failure("22012", "SELECT 1/0")}, []map[string]any{recorded("SELECT 1/0", "")}, "0 0 1"},
		"a failed commit that is not recorded": {[]entry{pipelined("INSERT 1", "INSERT"), failedIn("INSERT", "23505", "")},
			[]map[string]any{recorded("INSERT 1", "")}, "0 0 1"},
		"a failed Bind that is not recorded": {[]entry{pipelined("SELECT $1", "SELECT"), failedIn("BIND", "08P01", "SELECT $1")},
			[]map[string]any{recorded("SELECT $1", "")}, "1 0 0"},
		"a failure of no statement that is not recorded":  {[]entry{failedIn("idle", "26000", "")}, nil, "1 0 0"},
		"a failure of no statement with another SQLSTATE": {[]entry{failedIn("idle", "26000", "")}, []map[string]any{recorded("", "22012")}, "0 0 1"},
		"another user":     {[]entry{executedOne("SELECT 1")}, []map[string]any{other}, "0 0 1"},
		"another database": {[]entry{executedOne("SELECT 1")}, []map[string]any{elsewhere}, "0 0 1"},
		"another function": {[]entry{{severity: "LOG", message: `fastpath function call: "lowrite" (OID 955)`}},
			[]map[string]any{calledOne("pg_catalog.loread")}, "1 1 0"},
		"another session": {[]entry{{session: "2.2", severity: "LOG", message: "statement: SELECT 1"}}, []map[string]any{recorded("SELECT 1", "")}, "1 1 0"},
	} {
		if got, _ := compared(t, logOf(test.log...), trailOf(test.trail...)); got != test.want {
			t.Errorf("%s: missing, extra, different: %s, not %s", name, got, test.want)
		}
	}
}

func TestWhatDiffersByDesignIsCounted(t *testing.T) {
	_, r := compared(t, logOf(executedOne(";"), executedOne("ALTER ROLE a PASSWORD 'x'")), trailOf(recorded("ALTER ROLE a PASSWORD <redacted>", "")))
	if r.ByDesign["empty string"] != 1 || r.ByDesign["text with a redacted secret"] != 1 {
		t.Errorf("%v", r.ByDesign)
	}
}

func TestLogThatIsTornIsRefused(t *testing.T) {
	for _, log := range []string{"a,b\n", `"a`, `"a""` + "\n"} {
		if _, err := Compare([]io.Reader{strings.NewReader(log)}, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("%q was accepted", log)
		}
	}
}

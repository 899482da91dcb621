package render

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// everything is records of all kinds, classes and outcomes, with all fields and
// with as few as possible.
func everything() []*trailtest.Record {
	var records []*trailtest.Record
	fact := func(k format.Key, v string) trailtest.Fact { return trailtest.Fact{Key: k, Value: v} }
	network := trailtest.NewSession(trailtest.Epoch, 1, fact(format.KeyBackendType, "client backend"), fact(format.KeyUser, "alice"),
		fact(format.KeyDatabase, "shop"), fact(format.KeyRole, "admin"), fact(format.KeyApplication, "psql"), fact(format.KeyAppUser, "bob"),
		fact(format.KeyClient, "[2001:db8::7]:50022"), fact(format.KeyAuthMethod, "gss"), fact(format.KeyIdentity, "alice@EXAMPLE.ORG"),
		fact(format.KeyAppContext, "request 4711"), fact(format.KeyLeader, "6b0202d9.abc"), fact(format.KeyLeaderSubstatement, "2"),
		fact(format.KeyEncoding, "LATIN1"))
	socket := trailtest.NewSession(trailtest.Epoch, 2, fact(format.KeyUser, "alice"), fact(format.KeyClient, "[local]"), fact(format.KeyAuthMethod, "peer"))
	worker := trailtest.NewSession(trailtest.Epoch, 3, fact(format.KeyBackendType, format.WriterBackendType))
	for kind := format.KindStatement; kind <= format.KindSubtransaction+1; kind++ {
		for _, s := range []*trailtest.Session{network, socket, worker} {
			records = append(records, &trailtest.Record{Kind: kind, Session: s, Time: trailtest.Epoch})
			r := full()
			r.Kind, r.Session, r.Statement = kind, s, 0
			if kind > format.KindStart {
				r.Depth, r.Substatement = 0, 0
			}
			records = append(records, r)
		}
	}
	undone := full()
	undone.XID, undone.Outcome, undone.SQLState, undone.Message = undoneXID, format.OutcomeOk, "", ""
	records = append(records, undone)
	unnumbered := full()
	unnumbered.Kind, unnumbered.Session, unnumbered.Statement, unnumbered.Unnumbered = format.KindStart, network, 0, true
	records = append(records, unnumbered)
	for class := format.ClassRead; class <= format.ClassSetting+1; class++ {
		for outcome := format.OutcomeOk; outcome <= format.OutcomeRunning+1; outcome++ {
			for _, command := range []string{"SELECT", "INSERT", "VACUUM", ""} {
				r := full()
				r.Session, r.Depth, r.Substatement, r.Outcome = network, 0, 0, outcome
				r.Statement, r.Shape.Class, r.Shape.Command, r.Audited = 0, class, command, 0
				if outcome != format.OutcomeError {
					r.SQLState, r.Message = "", ""
				}
				records = append(records, r)
			}
		}
	}
	return records
}

// mixed is a place in a segment of a server that is known.
var mixed = &trail.BlockRef{
	Segment: &trail.Segment{Number: 2, Stream: &trail.Stream{Number: 1, Trail: "mixed"}, Header: format.SegmentHeader{SystemID: 1<<64 - 1}},
	Number:  7, FirstTime: trailtest.Epoch, LastEnd: trailtest.Epoch + 1e6,
}

func mixedServers() *trail.Servers {
	s := &trail.Servers{}
	s.Add("mixed", trail.Server{Since: trailtest.Epoch + 500_000, Host: "db2", Cluster: "after"})
	s.Add("mixed", trail.Server{Since: trailtest.Epoch - 1, Host: "db1", Cluster: "=before,\"it\""})
	s.Add("other", trail.Server{Since: trailtest.Epoch, Host: "db3", Cluster: "other"})
	s.Add("mixed", trail.Server{Since: trailtest.Epoch + 2e6, Host: "db4", Cluster: "later"})
	return s
}

func TestEachRecordNamesItsServer(t *testing.T) {
	early := &trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: "a"}
	late := &trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch + 500_000, Text: "b"}
	for as, want := range map[Format][2]string{
		JSON: {`"host":"db1","cluster_name":"=before,\"it\"","system_identifier":"18446744073709551615"}`, `"host":"db2","cluster_name":"after",`},
		CSV:  {`,db1,"'=before,""it""",18446744073709551615,,,,,,,,` + "\r\n", ",db2,after,18446744073709551615"},
		ECS:  {`"host":{"name":"db1"},"service":{"type":"postgresql","name":"=before,\"it\"","id":"18446744073709551615"}`, `"host":{"name":"db2"}`},
		OCSF: {`"host":"db1","cluster_name":"=before,\"it\"","system_identifier":"18446744073709551615"`, `"host":"db2"`},
		OTel: {`{"key":"host.name","value":{"stringValue":"db1"}}`, `{"key":"host.name","value":{"stringValue":"db2"}}`},
	} {
		lines := strings.SplitAfter(renderAt(t, mixed, New(as, Options{Servers: mixedServers()}), early, late), "\n")
		for i, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("%s: line %d lacks %s: %s", as, i, w, lines[i])
			}
		}
	}
}

// object parses one line of JSON.
func object(t testing.TB, line string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return o
}

// paths adds the names of all fields of an object, but those inside of lists and
// of extra.
func paths(to map[string]bool, prefix string, o map[string]any) {
	for k, v := range o {
		if inner, ok := v.(map[string]any); ok && k != "extra" {
			paths(to, prefix+k+".", inner)
		} else {
			to[prefix+k] = true
		}
	}
}

// otelRecord is the log record of a line, and the keys of its attributes.
func otelRecord(t testing.TB, line string) (record map[string]any, attributes map[string]any) {
	t.Helper()
	one := func(o map[string]any, key string) map[string]any {
		list, _ := o[key].([]any)
		if len(list) != 1 {
			t.Fatalf("%s has not one element: %s", key, line)
		}
		return list[0].(map[string]any)
	}
	logs := one(object(t, line), "resourceLogs")
	scope := one(logs, "scopeLogs")
	record = one(scope, "logRecords")
	for _, o := range []map[string]any{logs, scope} {
		if o["schemaUrl"] != "https://opentelemetry.io/schemas/"+OTelVersion {
			t.Fatalf("schemaUrl is %v", o["schemaUrl"])
		}
	}
	attributes = map[string]any{}
	for _, a := range record["attributes"].([]any) {
		a := a.(map[string]any)
		key := a["key"].(string)
		value, ok := a["value"].(map[string]any)
		if attributes[key] != nil || !ok || len(a) != 2 || len(value) > 1 || len(value) == 0 && !strings.HasPrefix(key, "db.query.parameter.") {
			t.Fatalf("attribute %s: %s", key, line)
		}
		attributes[key] = value
	}
	for _, a := range logs["resource"].(map[string]any)["attributes"].([]any) {
		resource := a.(map[string]any)
		attributes["resource "+resource["key"].(string)] = resource["value"]
	}
	return record, attributes
}

// documented returns the fields of a format, as the table in docs/formats.md lists them.
func documented(t testing.TB, f Format) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "<!-- fields of "+string(f)+" -->\n| field | from |\n|---|---|\n")
	table, _, ok := strings.Cut(rest, "<!-- end -->")
	if !ok {
		t.Fatalf("docs/formats.md has no table of the fields of %s", f)
	}
	var names []string
	for line := range strings.Lines(table) {
		row := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(row) != 2 || row[1] == "" {
			t.Fatalf("docs/formats.md, fields of %s: %q does not say where a field comes from", f, line)
		}
		names = append(names, strings.Trim(row[0], "`"))
	}
	return names
}

// TestFieldsAreDocumented compares what the renderers write with the tables in docs/formats.md.
func TestFieldsAreDocumented(t *testing.T) {
	found := map[Format]map[string]bool{ECS: {}, OCSF: {}, OTel: {}}
	for f := range found {
		for line := range strings.Lines(renderAt(t, mixed, New(f, Options{Servers: mixedServers()}), everything()...) + timed(t, f)) {
			if f != OTel {
				paths(found[f], "", object(t, line))
				continue
			}
			record, attributes := otelRecord(t, line)
			for key := range record {
				found[f][key] = true
			}
			for key := range attributes {
				if strings.HasPrefix(key, "db.query.parameter.") {
					key = "db.query.parameter.<key>"
				}
				found[f][key] = true
			}
			delete(found[f], "attributes")
		}
		want := map[string]bool{}
		for _, name := range documented(t, f) {
			if want[name] {
				t.Errorf("%s: %s is documented twice", f, name)
			}
			want[name] = true
			if !found[f][name] {
				t.Errorf("%s: %s is in no record", f, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(found[f])) {
			if !want[name] {
				t.Errorf("%s: %s is not documented", f, name)
			}
		}
	}
	rows := PgauditOptions{Log: pgauditAll, LogRows: true}
	logged := full()
	logged.Outcome, logged.SQLState, logged.Message = format.OutcomeOk, "", ""
	for f, lines := range map[Format]string{
		CSVLog:  render(t, New(CSVLog, Options{}), everything()...),
		Pgaudit: string(NewOrder(Pgaudit).Next([]byte(render(t, New(Pgaudit, Options{Pgaudit: rows}), logged)))),
	} {
		names := documented(t, f)
		rows, err := csv.NewReader(strings.NewReader(lines)).ReadAll()
		if err != nil || len(rows) == 0 || len(rows[0]) != len(names) {
			t.Errorf("%s: %v, %d rows, %d documented fields", f, err, len(rows), len(names))
		}
	}
}

// required checks that every path is there and not empty.
func required(t *testing.T, o map[string]any, line string, names ...string) {
	t.Helper()
	for _, name := range names {
		var v any = o
		for part := range strings.SplitSeq(name, ".") {
			m, _ := v.(map[string]any)
			v = m[part]
		}
		if v == nil || v == "" {
			t.Fatalf("%s is missing: %s", name, line)
		}
	}
}

func TestECSHasWhatItRequires(t *testing.T) {
	kinds := map[string]bool{}
	// event.type that are expected of each event.category, of those that are used.
	expected := map[string][]string{
		"database": {"access", "change", "info", "error"}, "iam": {"admin", "change"}, "authentication": {"start"},
		"session": {"start", "end"}, "configuration": {"change"},
	}
	for line := range strings.Lines(render(t, New(ECS, Options{}), everything()...)) {
		o := object(t, line)
		required(t, o, line, "@timestamp", "ecs.version", "event.kind", "event.category", "event.type", "event.action", "event.outcome", "event.id", "event.dataset")
		event := o["event"].(map[string]any)
		kinds[o["pg_steno"].(map[string]any)["kind"].(string)] = true
		for _, typ := range event["type"].([]any) {
			if !slices.ContainsFunc(event["category"].([]any), func(c any) bool { return slices.Contains(expected[c.(string)], typ.(string)) }) {
				t.Fatalf("type %v of category %v", typ, event["category"])
			}
		}
		if o := event["outcome"]; o != "success" && o != "failure" && o != "unknown" {
			t.Fatalf("outcome %v", o)
		}
	}
	if len(kinds) != 13 {
		t.Errorf("kinds %v", kinds)
	}
}

func TestOCSFHasWhatItRequires(t *testing.T) {
	classes := map[float64]int{}
	for line := range strings.Lines(render(t, New(OCSF, Options{}), everything()...)) {
		o := object(t, line)
		required(t, o, line, "class_uid", "category_uid", "activity_id", "type_uid", "time", "severity_id", "metadata.version", "metadata.product.name")
		class, activity := o["class_uid"].(float64), o["activity_id"].(float64)
		classes[class]++
		if o["type_uid"] != class*100+activity || o["category_uid"] != float64(int(class)/1000) {
			t.Fatalf("type_uid and category_uid: %s", line)
		}
		if o["status_id"] == 99.0 {
			required(t, o, line, "status")
		}
		switch class {
		case 6005:
			required(t, o, line, "actor.session.uid", "actor.process.pid", "database.name", "database.type_id", "src_endpoint")
		case 3002:
			required(t, o, line, "user.name", "service.name", "src_endpoint")
		}
		if class != 0 {
			src := o["src_endpoint"].(map[string]any)
			if src["ip"] == nil && src["name"] == nil {
				t.Fatalf("src_endpoint: %s", line)
			}
		}
		if q, ok := o["query_info"].(map[string]any); ok && q["query_string"] == nil {
			t.Fatalf("query_info: %s", line)
		}
	}
	if len(classes) != 3 {
		t.Errorf("classes %v", classes)
	}
}

func TestOTelHasWhatItRequires(t *testing.T) {
	for line := range strings.Lines(render(t, New(OTel, Options{}), everything()...)) {
		record, attributes := otelRecord(t, line)
		required(t, record, line, "timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText", "eventName")
		for _, key := range []string{"db.system.name", "session.id", "process.pid", "pg_steno.kind"} {
			if attributes[key] == nil {
				t.Fatalf("%s is missing: %s", key, line)
			}
		}
		nano, ok := record["timeUnixNano"].(string)
		if !ok || !strings.HasSuffix(nano, "000") || len(nano) != 19 {
			t.Fatalf("timeUnixNano: %s", line)
		}
		if failed := attributes["db.response.status_code"] != nil; failed && attributes["error.type"] == nil {
			t.Fatalf("error.type: %s", line)
		}
		for key, v := range attributes {
			if n, ok := v.(map[string]any)["intValue"]; ok {
				if _, ok := n.(string); !ok {
					t.Fatalf("%s is not a string: %s", key, line)
				}
			}
		}
	}
}

func TestOTelTakesTheOperationFromTheCommandTag(t *testing.T) {
	r := full()
	r.Text, r.Shape.Command = "/* DELETE */ WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "INSERT"
	_, attributes := otelRecord(t, render(t, New(OTel, Options{}), r))
	if v := attributes["db.operation.name"].(map[string]any)["stringValue"]; v != "INSERT" {
		t.Errorf("db.operation.name is %v", v)
	}
	if v := attributes["db.collection.name"].(map[string]any)["stringValue"]; v != "public.t" {
		t.Errorf("db.collection.name is %v", v)
	}
	if v := attributes["db.query.parameter.1"].(map[string]any); len(v) != 0 {
		t.Errorf("NULL is %v", v)
	}
	if v := attributes["db.query.parameter.0"].(map[string]any)["stringValue"]; v != "42" {
		t.Errorf("parameter 0 is %v", v)
	}
}

func TestEventsHaveIDsOfTheirOwn(t *testing.T) {
	for f, path := range map[Format][2]string{ECS: {"event", "id"}, OCSF: {"metadata", "uid"}} {
		seen := map[any]bool{}
		for line := range strings.Lines(render(t, New(f, Options{}), everything()...)) {
			id := object(t, line)[path[0]].(map[string]any)[path[1]]
			if seen[id] {
				t.Fatalf("%s: %v is duplicated", f, id)
			}
			seen[id] = true
		}
		start := trailtest.Record{Kind: format.KindStart, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Unnumbered: true}
		o := object(t, render(t, New(f, Options{}), &start))[path[0]].(map[string]any)
		if o[path[1]] != "6b0202d9.1/start/1.0" || o["sequence"] != nil {
			t.Errorf("%s: %v", f, o)
		}
	}
}

func TestClientsAreTakenApart(t *testing.T) {
	for client, want := range map[string][3]string{
		"":                   {"", "", "false"},
		"[local]":            {"[local]", "", "false"},
		"10.0.0.1:50022":     {"10.0.0.1", "50022", "true"},
		"[2001:db8::7]:1":    {"2001:db8::7", "1", "true"},
		"[fe80::1%eth0]:99":  {"fe80::1%eth0", "99", "true"},
		"10.0.0.1":           {"10.0.0.1", "", "true"},
		"host:port":          {"host:port", "", "false"},
		"host:70000":         {"host:70000", "", "false"},
		"10.0.0.1:1\",\"x\"": {"10.0.0.1:1\",\"x\"", "", "false"},
	} {
		address, port, ip := endpoint([]byte(client))
		if got := [3]string{string(address), string(port), fmt.Sprint(ip)}; got != want {
			t.Errorf("%q: got %q, want %q", client, got, want)
		}
	}
}

// TestSelectedFieldsAreThoseOfTheFormat: all fields by name, in the order of the format, make
// the lines of the format.
func TestSelectedFieldsAreThoseOfTheFormat(t *testing.T) {
	all := func(f Format, fields []string) string {
		o := Options{Servers: mixedServers(), Fields: fields}
		return renderAt(t, mixed, New(f, o), everything()...) + timedBy(t, New(f, o))
	}
	if got, want := all(CSV, Columns), all(CSV, nil); got != want {
		t.Errorf("csv:\n%s\nwant:\n%s", got, want)
	}
	selected, whole := strings.Split(all(JSON, Columns), "\n"), strings.Split(all(JSON, nil), "\n")
	for i := range whole {
		if whole[i] == "" {
			continue
		}
		got, want := object(t, selected[i]), object(t, whole[i])
		if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
			t.Fatalf("json: %s\nwant: %s", a, b)
		}
	}
	for _, c := range slices.Backward(Columns) {
		if _, ok := fieldSources[c]; !ok {
			t.Errorf("field %s comes from nowhere", c)
		}
	}
}

func TestSelectedFieldsAreInTheOrderAsked(t *testing.T) {
	hostile := &trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: "a\tb\n\x1b[31m=c\\\xff"}
	fields := []string{"text", "seq", "user", "kind"}
	for as, want := range map[Format]string{
		Text: "a\\tb\\n\\x1b[31m=c\\\\xff\t1\t\tnote\n",
		JSON: `{"text":"a\tb\n\u001b[31m=c\\\ufffd","seq":1,"kind":"note"}` + "\n",
		CSV:  "\"a\tb\n\\x1b[31m=c\\\\xff\",1,,note\r\n",
	} {
		if got := render(t, New(as, Options{Fields: fields, Color: true}), hostile); got != want {
			t.Errorf("%s: %q, want %q", as, got, want)
		}
	}
	for _, bad := range [][]string{{"time", "user", "time"}, {"Time"}, {""}, {"time,user"}, {"usr"}} {
		if err := CheckFields(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if err := CheckFields([]string{"durationus"}); err == nil || !strings.Contains(err.Error(), `"duration_us"`) {
		t.Errorf("suggests %v", err)
	}
}

// TestTimesInAZone: before, in and after the hour that clocks repeat.
func TestTimesInAZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) int64 {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return when.Unix()*1e6 - 946684800*1e6
	}
	for in, want := range map[string]string{
		"2026-07-01T10:00:00Z": "2026-07-01T12:00:00.000000+02:00",
		"2026-10-25T00:59:59Z": "2026-10-25T02:59:59.000000+02:00",
		"2026-10-25T01:00:00Z": "2026-10-25T02:00:00.000000+01:00",
		"2026-12-31T23:30:00Z": "2027-01-01T00:30:00.000000+01:00",
		"1890-01-01T00:00:00Z": "1890-01-01T00:53:28.000000+00:53:28", // local mean time
	} {
		r := &trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: at(in), Text: "a"}
		for as, form := range map[Format]string{JSON: `{"time":"%s",`, CSV: "%s,", Text: "%s "} {
			want := fmt.Sprintf(form, want)
			if as == Text {
				want = strings.Replace(want, "T", " ", 1)
			}
			if got := render(t, New(as, Options{Zone: berlin}), r); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", as, got, want)
			}
		}
	}
}

func TestPgauditHasThePrefixOfTheLog(t *testing.T) {
	fact := func(k format.Key, v string) trailtest.Fact { return trailtest.Fact{Key: k, Value: v} }
	r := &trailtest.Record{
		Kind: format.KindStatement, Time: trailtest.Epoch + 123456, XID: 1<<32 + 77, Text: "SELECT 1,\n2",
		Session: trailtest.NewSession(trailtest.Epoch, 0xabc, fact(format.KeyUser, "al\x1b\x01ice"), fact(format.KeyDatabase, "shop"),
			fact(format.KeyClient, "10.0.0.1:5000"), fact(format.KeyBackendType, "client backend"), fact(format.KeyLeader, "6b0202d9.10")),
		Shape: &trailtest.Shape{Class: format.ClassRead, QueryID: 1<<64 - 5, Command: "SELECT"},
	}
	line := func(prefix string) string {
		p, err := ParseLinePrefix(prefix)
		if err != nil {
			t.Fatalf("%q: %v", prefix, err)
		}
		order := NewOrder(Pgaudit)
		return string(order.Next([]byte(render(t, New(Pgaudit, Options{Pgaudit: PgauditDefaults, Prefix: p}), r))))
	}
	const rest = "LOG:  AUDIT: SESSION,1,1,READ,SELECT,,,\"SELECT 1,\n\t2\",<not logged>\n"
	for prefix, want := range map[string]string{
		"":                        "",
		"%m [%p] %q%u@%d ":        `2026-11-21 20:45:13.123 UTC [2748] al\x1b\x01ice@shop `,
		"%t|%n|%s|%c|":            "2026-11-21 20:45:13 UTC|1795293913.123|2026-11-21 20:45:13 UTC|6b0202d9.abc|",
		"%r %h %a %b %P %x %Q %e": "10.0.0.1(5000) 10.0.0.1 [unknown] client backend 16 77 -5 00000",
		"100%% %6p|%-6p|%i|":      "100%   2748|2748  |SELECT|",
	} {
		if got := line(prefix); got != want+rest {
			t.Errorf("%q: got %q, want %q", prefix, got, want+rest)
		}
	}
	for _, bad := range []string{"%", "%l", "%v", "%z", "%5", "%-", "%99999p", "%- p", "a\x01b", "\n"} {
		if _, err := ParseLinePrefix(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	r.Session = trailtest.NewSession(trailtest.Epoch, 1, fact(format.KeyBackendType, "autovacuum worker"))
	if got := line("%p %q%u@%d "); got != "1 "+rest {
		t.Errorf("of a process without a session: %q", got)
	}
}

// TestExtraIsWhatARecordHas: its two writers say the same.
func TestExtraIsWhatARecordHas(t *testing.T) {
	x := &format.Record{Fields: format.FieldEvent | format.FieldStatements | format.FieldCommit}
	x.Ending = format.Ending{Event: format.EventCommit, Statements: 12, LSN: 0xab_0000_cdef, End: 1 << 63, Timeline: 3}
	for _, fields := range []format.Field{x.Fields, format.FieldEvent, format.FieldStatements, 0} {
		r := *x
		r.Fields = fields
		want := map[string]string{}
		for name, value := range r.ExtraPairs {
			want[string(name)] = string(value)
		}
		got := map[string]string{}
		if err := json.Unmarshal(appendExtra(nil, &r), &got); err != nil || !maps.Equal(got, want) {
			t.Errorf("%v, want %v: %v", got, want, err)
		}
	}
}

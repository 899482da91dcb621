package render

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"github.com/pg-steno/pg_steno/format/schema"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// compiled is the schema of a format. A strict one allows only what this release writes: no further fields, and no
// names that a later release may add.
func compiled(t testing.TB, f Format, strict bool) *jsonschema.Schema {
	t.Helper()
	if s := compiledBefore[fmt.Sprint(f, strict)]; s != nil {
		return s
	}
	doc := parsed(t, schema.Of(string(f)))
	if strict {
		for _, later := range []string{"later", "later_number"} {
			doc.(map[string]any)["$defs"].(map[string]any)[later] = false
		}
		closeObjects(doc)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	compiledBefore[fmt.Sprint(f, strict)] = s
	return s
}

var compiledBefore = map[string]*jsonschema.Schema{}

// closeObjects has objects allow no other fields than those that they have.
func closeObjects(value any) {
	switch v := value.(type) {
	case map[string]any:
		if v["additionalProperties"] == true {
			v["additionalProperties"] = false
		}
		for _, inner := range v {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range v {
			closeObjects(inner)
		}
	}
}

func parsed(t testing.TB, text []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// schemaFormats are the formats that have a schema.
var schemaFormats = []Format{JSON, ECS, OCSF, OTel}

func TestFormatsWithASchema(t *testing.T) {
	var want []string
	for _, f := range schemaFormats {
		want = append(want, string(f))
	}
	slices.Sort(want)
	if got := schema.Formats(); !slices.Equal(got, want) {
		t.Errorf("schemas of %q", got)
	}
	for _, f := range schemaFormats {
		doc := object(t, string(schema.Of(string(f))))
		if want := fmt.Sprintf("urn:pg-steno:%s:%d", f, schema.Version); doc["$id"] != want || doc["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: $id %v, $schema %v", f, doc["$id"], doc["$schema"])
		}
	}
}

// keepAll shows all records.
type keepAll struct{ Renderer }

func (keepAll) Keep(*format.Record) bool { return true }

// trailLines are the lines of all records of a trail.
func trailLines(t testing.TB, f Format, path string) string {
	t.Helper()
	index := trailtest.OpenGolden(t, path).Index()
	var out []byte
	err := index.Merge(context.Background(), trail.MergeOptions{
		Since: math.MinInt64, Until: math.MaxInt64, Rollbacks: true,
		NewFormatter: func() trail.Formatter { return keepAll{New(f, Options{Servers: index.Servers()})} },
		Warn:         func(error) {},
	}, func(line []byte) error {
		out = append(out, line...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// goldenLines are the lines of all golden trails.
func goldenLines(t testing.TB, f Format) string {
	t.Helper()
	dir := trailtest.Golden(t)
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, d := range names {
		if d.IsDir() {
			lines.WriteString(trailLines(t, f, filepath.Join(dir, d.Name())))
		}
	}
	return lines.String()
}

// valid checks lines, and adds the places of the fields that they have.
func valid(t testing.TB, s *jsonschema.Schema, lines string, found map[string]bool) {
	t.Helper()
	n := 0
	for line := range strings.Lines(lines) {
		n++
		value := parsed(t, []byte(line))
		if err := s.Validate(value); err != nil {
			t.Errorf("%v\n%s", err, line)
			if n > 20 {
				t.FailNow()
			}
		}
		places(found, "", value)
	}
	if n < 10 {
		t.Errorf("only %d lines", n)
	}
}

// places adds where the fields of a value are. Those of lists have [] in their names.
func places(found map[string]bool, at string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			found[at+"/"+name] = true
			places(found, at+"/"+name, inner)
		}
	case []any:
		for _, inner := range v {
			places(found, at+"[]", inner)
		}
	}
}

// TestLinesAreOfTheSchema checks lines of made records, of all golden trails, of random records, and those that the
// tests of the commands expect. The schema may not have a field that none of them has, either.
func TestLinesAreOfTheSchema(t *testing.T) {
	for _, f := range schemaFormats {
		t.Run(string(f), func(t *testing.T) {
			strict, open := compiled(t, f, true), compiled(t, f, false)
			found := map[string]bool{}
			r := New(f, Options{Servers: mixedServers()})
			all := renderAt(t, mixed, r, everything()...) + renderAt(t, mixed, r, random(400)...) + goldenLines(t, f) + commandLines(t, f) + timed(t, f)
			valid(t, strict, all, found)
			valid(t, open, all, found)
			for _, name := range declared(object(t, string(schema.Of(string(f)))), "") {
				if !found[name] {
					t.Errorf("no line has %s", name)
				}
			}
		})
	}
}

// declared are the places of fields in a schema, but those of definitions.
func declared(doc map[string]any, at string) (names []string) {
	if properties, ok := doc["properties"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			inner, _ := properties[name].(map[string]any)
			names = append(names, at+"/"+name)
			names = append(names, declared(inner, at+"/"+name)...)
		}
	}
	if items, ok := doc["items"].(map[string]any); ok {
		names = append(names, declared(items, at+"[]")...)
	}
	return names
}

// commandLines are the lines of a format that the tests of steno expect.
func commandLines(t testing.TB, f Format) string {
	t.Helper()
	paths, err := filepath.Glob("../command/cli/testdata/script/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	begin := map[Format]string{JSON: `{"time":"`, ECS: `{"@timestamp":"`, OCSF: `{"class_uid":`, OTel: `{"resourceLogs":`}[f]
	var lines strings.Builder
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range archive.Files {
			for line := range strings.Lines(string(file.Data)) {
				if strings.HasPrefix(line, begin) {
					lines.WriteString(line)
				}
			}
		}
	}
	if lines.Len() == 0 {
		t.Fatalf("no test expects lines of %s", f)
	}
	return lines.String()
}

// random are records with random fields, as far as a server can write them.
func random(n int) (records []*trailtest.Record) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		const letters = "aé\"\\\n\x00\x1b\u202e=,|\xff "
		b := make([]byte, rng.IntN(9))
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	some := func() bool { return rng.IntN(3) == 0 }
	number := func() uint64 { return rng.Uint64() >> rng.IntN(64) }
	for range n {
		var facts []trailtest.Fact
		for k := format.KeyBackendType; k <= format.KeyEncoding; k++ {
			if some() && k != format.KeyEncoding {
				facts = append(facts, trailtest.Fact{Key: k, Value: word()})
			}
		}
		r := &trailtest.Record{
			Kind:    format.Kind(1 + rng.IntN(14)),
			Session: trailtest.NewSession(trailtest.Epoch-int64(rng.IntN(1e15)), rng.Uint32(), facts...),
			Time:    trailtest.Epoch + rng.Int64N(1e16) - 5e15, Audited: format.Audited(rng.IntN(256)), Text: word(),
		}
		statement := r.Kind == format.KindStatement || r.Kind == format.KindStart
		if some() && r.Kind == format.KindStatement {
			r.Depth, r.Substatement = number(), number()
		}
		if some() {
			r.Rows, r.Duration, r.XID, r.TextBytes = number(), number()>>1, number(), number()
			r.TextHash[rng.IntN(32)] = byte(rng.IntN(2))
		}
		if some() {
			r.Outcome = format.Outcome(rng.IntN(6))
			r.SQLState, r.Message = "42P01", word()
		}
		if statement || some() {
			r.Shape = &trailtest.Shape{Class: format.Class(rng.IntN(14)), QueryID: number(), Command: word()}
			for range rng.IntN(4) {
				rel := trailtest.Relation{Type: format.RelationType(rng.IntN(12)), Access: format.Access(rng.IntN(1 << 10)), Name: word()}
				for range rng.IntN(3) {
					rel.Columns = append(rel.Columns, trailtest.Column{Access: format.Access(1 << rng.IntN(3)), Name: word()})
				}
				r.Shape.Relations = append(r.Shape.Relations, rel)
				if some() {
					r.Shape.Relations[len(r.Shape.Relations)-1].Via = 1
				}
			}
			for range rng.IntN(3) {
				r.Shape.Objects = append(r.Shape.Objects, trailtest.Object{Action: format.Action(rng.IntN(9)), Type: word(), Name: word(), To: word()})
			}
		}
		if some() {
			r.Extra = []string{"unknown name", word(), "another" + word(), word()}
		}
		records = append(records, r)
	}
	return records
}

// TestSchemaRefusesWhatIsWrong: what a program would read in a wrong way is refused.
func TestSchemaRefusesWhatIsWrong(t *testing.T) {
	lines := map[Format]string{}
	for _, f := range schemaFormats {
		lines[f] = strings.TrimSpace(timed(t, f))
	}
	for _, c := range []struct {
		format   Format
		old, new string
		strict   bool // only the strict schema refuses it
	}{
		{JSON, `"seq":1,`, `"seq":"1",`, false},
		{JSON, `"seq":1,`, `"seq":0,`, false},
		{JSON, `"pid":2748,`, ``, false},
		{JSON, `"outcome":"ok"`, `"outcome":1`, false},
		{JSON, `,"outcome":"ok"`, ``, false},
		{JSON, `"outcome":"ok"`, `"outcome":"fine"`, true},
		{JSON, `"kind":"statement"`, `"kind":"statements"`, true},
		{JSON, `"class":"read"`, `"class":"reads"`, true},
		{JSON, `"type":"table"`, `"type":"tables"`, true},
		{JSON, `"access":"select,update"`, `"access":"select,updates"`, true},
		{JSON, `"access":"select,update"`, `"access":["select"]`, false},
		{JSON, `"action":"execute"`, `"action":"executes"`, true},
		{JSON, `"audited":["session","object"]`, `"audited":["sessions"]`, true},
		{JSON, `"audited":["session","object"]`, `"audited":"session"`, false},
		{JSON, `"kind":"statement"`, `"kind":"note"`, false}, // which has no number of a statement, and no portal
		{JSON, `"user":"alice"`, `"user":"alice","identity":"alice"`, false},
		{JSON, `"user":"alice"`, `"user":"alice","users":"alice"`, true},
		{JSON, `"text_bytes":99,`, ``, false},
		{JSON, `"text_sha256":"01`, `"text_sha256":"`, false},
		{JSON, `"time":"2026-11-21T`, `"time":"2026-11-21 `, false},
		{JSON, `"params":["42",null,`, `"params":[42,null,`, false},
		{JSON, `"rolled_back":true`, `"rolled_back":false`, false},
		{ECS, `"outcome":"success"`, `"outcome":"fine"`, true},
		{ECS, `"process":{"pid":2748}`, `"process":{"pid":"2748"}`, false},
		{ECS, `"process":{"pid":2748}`, `"process":{"pid":2748,"name":"postgres"}`, true},
		{ECS, `"depth":1`, `"depth":"1"`, false},
		{ECS, `"version":"8`, `"version":"9`, true},
		{OCSF, `"class_uid":6005`, `"class_uid":6006`, true},
		{OCSF, `"class_uid":6005`, `"class_uid":3002`, false},
		{OCSF, `"time":1`, `"time":"1`, false},
		{OCSF, `"svc_name"`, `"svc_names"`, true},
		{OCSF, `"metadata":{`, `"metadatas":{`, false},
		{OTel, `{"key":"pg_steno.kind","value":{"stringValue":"statement"}}`, `{"key":"pg_steno.kind","value":{"stringValue":"statements"}}`, true},
		{OTel, `{"key":"process.pid","value":{"intValue":"2748"}}`, `{"key":"process.pid","value":{"intValue":2748}}`, false},
		{OTel, `"key":"pg_steno.class"`, `"key":"pg_steno.classes"`, true},
		{OTel, `"timeUnixNano":"1`, `"timeUnixNanos":"1`, false},
	} {
		line := lines[c.format]
		if c.old == `"rolled_back":true` {
			line = strings.Replace(line, `"portal"`, `"rolled_back":true,"portal"`, 1)
		}
		if c.old == `"svc_name"` {
			line = strings.Replace(line, `"src_endpoint"`, `"dst_endpoint":{"svc_name":"a"},"src_endpoint"`, 1)
		}
		wrong := strings.Replace(line, c.old, c.new, 1)
		if wrong == line || !json.Valid([]byte(wrong)) {
			wrong = strings.Replace(wrong, `,"start_time"`, `","start_time"`, 1) // of a number that became a string
			if wrong == line || !json.Valid([]byte(wrong)) {
				t.Fatalf("%s is not in %s", c.old, line)
			}
		}
		strict, open := compiled(t, c.format, true), compiled(t, c.format, false)
		for s, refuses := range map[*jsonschema.Schema]bool{strict: true, open: !c.strict} {
			if err := s.Validate(parsed(t, []byte(line))); err != nil {
				t.Fatalf("%s: %v", c.format, err)
			}
			if err := s.Validate(parsed(t, []byte(wrong))); (err != nil) != refuses {
				t.Errorf("%s instead of %s, strict %v: %v", c.new, c.old, s == strict, err)
			}
		}
	}
}

// TestFieldsAreInTheOrderOfTheSchema: the documented order is that of the lines.
func TestFieldsAreInTheOrderOfTheSchema(t *testing.T) {
	names := func(text string) (order []string) {
		d := json.NewDecoder(strings.NewReader(text))
		for depth, key := 0, false; ; {
			token, err := d.Token()
			if err != nil {
				return order
			}
			switch token {
			case json.Delim('{'), json.Delim('['):
				depth++
				key = depth == 1
				continue
			case json.Delim('}'), json.Delim(']'):
				depth--
			default:
				if depth == 1 && key {
					order = append(order, token.(string))
					key = false
					continue
				}
			}
			key = depth == 1
		}
	}
	_, properties, _ := strings.Cut(string(schema.Of("json")), `"properties": `)
	want := names(properties)
	if len(want) != len(Columns) {
		t.Errorf("%d fields, and %d columns of csv", len(want), len(Columns))
	}
	for _, c := range Columns {
		if !slices.Contains(want, c) {
			t.Errorf("the schema lacks %s", c)
		}
	}
	for line := range strings.Lines(goldenLines(t, JSON) + timed(t, JSON)) {
		at := 0
		for _, name := range names(line) {
			i := slices.Index(want[at:], name)
			if i < 0 {
				t.Fatalf("%s is not where the schema has it: %s", name, line)
			}
			at += i
		}
	}
}

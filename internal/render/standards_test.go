package render

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// allLines are lines of a format that have all of its fields.
func allLines(t testing.TB, f Format) string {
	t.Helper()
	r := New(f, Options{Servers: mixedServers()})
	return renderAt(t, mixed, r, everything()...) + renderAt(t, mixed, r, random(200)...) + goldenLines(t, f) + commandLines(t, f) + timed(t, f)
}

// TestOTelLinesAreOTLP reads lines with the official definition of the protocol, which refuses unknown fields, and
// writes them again: nothing may be lost.
func TestOTelLinesAreOTLP(t *testing.T) {
	for line := range strings.Lines(allLines(t, OTel)) {
		var request, again logs.ExportLogsServiceRequest
		if err := protojson.Unmarshal([]byte(line), &request); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		binary, err := proto.Marshal(&request)
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(binary, &again); err != nil || !proto.Equal(&request, &again) {
			t.Fatalf("%v: %s", err, line)
		}
		records := 0
		for _, resource := range request.ResourceLogs {
			for _, scope := range resource.ScopeLogs {
				for _, record := range scope.LogRecords {
					records++
					if record.SeverityText != map[int32]string{9: "INFO", 13: "WARN", 17: "ERROR"}[int32(record.SeverityNumber)] {
						t.Errorf("%s is not %s: %s", record.SeverityText, record.SeverityNumber, line)
					}
				}
			}
		}
		if records != 1 {
			t.Errorf("%d records: %s", records, line)
		}
	}
	wrong := strings.Replace(timed(t, OTel), `"severityNumber"`, `"severity"`, 1)
	if err := protojson.Unmarshal([]byte(wrong), &logs.ExportLogsServiceRequest{}); err == nil {
		t.Errorf("a field that the protocol does not have is accepted: %s", wrong)
	}
}

// standards is what scripts/standards has taken from the definitions of ECS, OCSF and the semantic conventions.
type standards struct {
	ECS struct {
		Version string
		Fields  map[string]ecsField
	}
	OCSF struct {
		Version string
		Classes map[string]ocsfPart
	}
	OTel struct {
		Version    string
		Attributes map[string]string
	}
}

// ecsField is what ECS says of a field: its type, and the values that are allowed, with the types of events of each.
type ecsField struct {
	Type   string
	List   bool
	Values map[string][]string
}

// ocsfPart is what OCSF says of a class or an object, as far as lines have it.
type ocsfPart struct {
	Attributes map[string]struct {
		Type     string
		Required bool
		Values   []json.Number
		Object   *ocsfPart
	}
	AtLeastOne []string `json:"at_least_one"`
	JustOne    []string `json:"just_one"`
}

func readStandards(t *testing.T) (s standards) {
	t.Helper()
	text, err := os.ReadFile("testdata/standards.json")
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.ECS.Version != ECSVersion || s.OCSF.Version != OCSFVersion || s.OTel.Version != OTelVersion {
		t.Errorf("testdata/standards.json is of ECS %s, OCSF %s and conventions %s", s.ECS.Version, s.OCSF.Version, s.OTel.Version)
	}
	return s
}

// scoped is a session whose client has an address with a zone.
func scoped() *trailtest.Record {
	s := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyClient, Value: "[fe80::1%eth0]:99"}, trailtest.Fact{Key: format.KeyUser, Value: "a"})
	return &trailtest.Record{Kind: format.KindStatement, Session: s, Time: trailtest.Epoch}
}

func TestECSLinesFollowTheStandard(t *testing.T) {
	fields := readStandards(t).ECS.Fields
	for line := range strings.Lines(allLines(t, ECS) + render(t, New(ECS, Options{}), scoped())) {
		o := parsed(t, []byte(line)).(map[string]any)
		for _, wrong := range ecsWrong(fields, "", o) {
			t.Fatalf("%s: %s", wrong, line)
		}
		event := o["event"].(map[string]any)
		for _, typ := range event["type"].([]any) {
			expected := false
			for _, category := range event["category"].([]any) {
				expected = expected || slices.Contains(fields["event.category"].Values[category.(string)], typ.(string))
			}
			if !expected {
				t.Fatalf("event.type %s is of none of its categories: %s", typ, line)
			}
		}
	}
	for _, c := range [][2]string{
		{`"outcome":"success"`, `"outcome":"fine"`}, {`"message":`, `"text":`}, {`"category":["database"]`, `"category":"database"`},
		{`"ip":"10.0.0.1"`, `"ip":"10.0.0"`}, {`"pid":2748`, `"pid":"2748"`}, {`"@timestamp":"2026-11`, `"@timestamp":"2026-13`},
	} {
		wrong := strings.Replace(timed(t, ECS), c[0], c[1], 1)
		if len(ecsWrong(fields, "", parsed(t, []byte(wrong)).(map[string]any))) != 1 {
			t.Errorf("%s is accepted: %s", c[1], wrong)
		}
	}
}

// ecsWrong says what in an object is not as the standard has it. Fields of our own, in pg_steno, it does not have.
func ecsWrong(fields map[string]ecsField, at string, o map[string]any) (wrong []string) {
	for name, value := range o {
		path := at + name
		field, known := fields[path]
		values, list := value.([]any)
		inner, nested := value.(map[string]any)
		switch {
		case path == "pg_steno":
			continue
		case nested && !known:
			wrong = append(wrong, ecsWrong(fields, path+".", inner)...)
			continue
		case !known, list != field.List:
			wrong = append(wrong, path)
			continue
		case !list:
			values = []any{value}
		}
		for _, v := range values {
			text, isText := v.(string)
			number, isNumber := v.(json.Number)
			ok := isText
			switch field.Type {
			case "long":
				_, err := number.Int64()
				ok = isNumber && err == nil
			case "ip":
				address, err := netip.ParseAddr(text)
				ok = err == nil && address.Zone() == ""
			case "date":
				_, err := time.Parse(time.RFC3339, text)
				ok = err == nil
			case "keyword", "match_only_text":
			default:
				ok = false
			}
			if field.Values != nil {
				_, allowed := field.Values[text]
				ok = ok && allowed
			}
			if !ok {
				wrong = append(wrong, fmt.Sprintf("%s %v", path, v))
			}
		}
	}
	return wrong
}

func TestOCSFLinesFollowTheStandard(t *testing.T) {
	classes := readStandards(t).OCSF.Classes
	check := func(line string) []string {
		o := parsed(t, []byte(line)).(map[string]any)
		class, ok := classes[fmt.Sprint(o["class_uid"])]
		if !ok {
			return []string{"class_uid"}
		}
		return class.wrong("", o)
	}
	for line := range strings.Lines(allLines(t, OCSF) + render(t, New(OCSF, Options{}), scoped())) {
		if wrong := check(line); len(wrong) > 0 {
			t.Fatalf("%s: %s", wrong, line)
		}
	}
	for _, c := range [][2]string{
		{`"severity_id":1`, `"severity_id":7`}, {`"activity_id":4`, `"activity_id":11`}, {`"metadata":{"version":"1.5.0",`, `"metadata":{`},
		{`"src_endpoint":`, `"endpoint":`}, {`"ip":"10.0.0.1"`, `"ip":"10.0.0"`}, {`"pid":2748`, `"pid":"2748"`}, {`"table":{"name"`, `"table":{"title"`},
		{`"is_remote":true`, `"is_remote":1`}, {`"class_uid":6005`, `"class_uid":6001`}, {`"product":{"name":"pg_steno",`, `"product":{`},
	} {
		wrong := strings.Replace(timed(t, OCSF), c[0], c[1], 1)
		if len(check(wrong)) == 0 {
			t.Errorf("%s is accepted: %s", c[1], wrong)
		}
	}
}

// wrong says what in an object is not as the class or object has it.
func (p *ocsfPart) wrong(at string, o map[string]any) (wrong []string) {
	for name, attribute := range p.Attributes {
		if attribute.Required && o[name] == nil {
			wrong = append(wrong, at+name+" is required")
		}
	}
	has := func(names []string) (n int) {
		for _, name := range names {
			if o[name] != nil {
				n++
			}
		}
		return n
	}
	if p.AtLeastOne != nil && has(p.AtLeastOne) == 0 || p.JustOne != nil && has(p.JustOne) != 1 {
		wrong = append(wrong, at+" lacks what it needs one of")
	}
	for name, value := range o {
		attribute, ok := p.Attributes[name]
		text, isText := value.(string)
		number, isNumber := value.(json.Number)
		inner, nested := value.(map[string]any)
		switch {
		case !ok:
		case attribute.Type == "object": // unmapped
			ok = nested
		case attribute.Object != nil:
			if ok = nested; ok {
				wrong = append(wrong, attribute.Object.wrong(at+name+".", inner)...)
			}
		case attribute.Type == "ip_t":
			_, err := netip.ParseAddr(text)
			ok = err == nil
		case slices.Contains([]string{"string_t", "username_t", "hostname_t"}, attribute.Type):
			ok = isText
		case slices.Contains([]string{"integer_t", "long_t", "timestamp_t", "port_t"}, attribute.Type):
			_, err := number.Int64()
			ok = isNumber && err == nil
			if attribute.Values != nil && name != "class_uid" && name != "category_uid" { // of which each class has one
				ok = ok && slices.Contains(attribute.Values, number)
			}
		case attribute.Type == "boolean_t":
			_, ok = value.(bool)
		default:
			ok = false
		}
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s%s %v", at, name, value))
		}
	}
	return wrong
}

// TestOTelAttributesAreOfTheConventions: those that have no name of our own.
func TestOTelAttributesAreOfTheConventions(t *testing.T) {
	attributes := readStandards(t).OTel.Attributes
	kinds := map[string]string{"string": "stringValue", "enum": "stringValue", "int": "intValue", "template[string]": "stringValue"}
	check := func(line string) (wrong []string) {
		_, of := otelRecord(t, line)
		for key, value := range of {
			key = strings.TrimPrefix(key, "resource ")
			if strings.HasPrefix(key, "pg_steno.") {
				continue
			}
			if name, ok := strings.CutPrefix(key, "db.query.parameter."); ok && name != "" {
				key = "db.query.parameter"
			}
			for kind := range value.(map[string]any) {
				if kind != kinds[attributes[key]] && key != "db.response.returned_rows" { // which may be too big for a number
					wrong = append(wrong, key+" "+kind)
				}
			}
			if attributes[key] == "" {
				wrong = append(wrong, key)
			}
		}
		return wrong
	}
	for line := range strings.Lines(allLines(t, OTel)) {
		if wrong := check(line); len(wrong) > 0 {
			t.Fatalf("%s: %s", wrong, line)
		}
	}
	for _, c := range [][2]string{{`"db.namespace"`, `"db.name"`}, {`{"intValue":"2748"}`, `{"stringValue":"2748"}`}, {`"db.query.parameter.`, `"db.query.parameters.`}} {
		if len(check(strings.Replace(timed(t, OTel), c[0], c[1], 1))) == 0 {
			t.Errorf("%s is accepted", c[1])
		}
	}
}

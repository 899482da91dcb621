package format_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestGoldenTrails reads the trails that core/ wrote and compares every record
// with what format/golden/README.md says must be found.
func TestGoldenTrails(t *testing.T) {
	expected, _ := filepath.Glob(trailtest.Golden(t) + "/*.expected")
	if len(expected) < 9 {
		t.Fatalf("only %d golden trails", len(expected))
	}
	for _, path := range expected {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".expected"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var want []map[string]any
			for line := range bytes.Lines(data) {
				want = append(want, object(t, line))
			}
			got := goldenRecords(t, strings.TrimSuffix(path, ".expected"))
			for i := range min(len(got), len(want)) {
				if !reflect.DeepEqual(got[i], want[i]) {
					for _, key := range slices.Sorted(maps.Keys(want[i])) {
						if !reflect.DeepEqual(got[i][key], want[i][key]) {
							t.Errorf("record %d: %s: got %v, want %v", i+1, key, got[i][key], want[i][key])
						}
					}
					for key := range got[i] {
						if _, ok := want[i][key]; !ok {
							t.Errorf("record %d: %s should not be there", i+1, key)
						}
					}
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d records, want %d", len(got), len(want))
			}
		})
	}
}

// object parses a line with its numbers as they are written.
func object(t *testing.T, line []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var o map[string]any
	if err := d.Decode(&o); err != nil {
		t.Fatal(err)
	}
	if s, ok := o["session"].(map[string]any); ok {
		// Facts that this program does not know are skipped.
		maps.DeleteFunc(s["facts"].(map[string]any), func(key string, _ any) bool { n, _ := strconv.Atoi(key); return n > int(format.KeyEncoding) })
	}
	return o
}

// goldenRecords reads a trail into the form of the .expected files, in the order
// of streams and records.
func goldenRecords(t *testing.T, dir string) []map[string]any {
	t.Helper()
	f := &goldenFormat{}
	err := trailtest.OpenGolden(t, dir).Index().Merge(context.Background(), trail.MergeOptions{
		Since: format.MinTime, Until: format.MaxTime,
		NewFormatter: func() trail.Formatter { return &goldenFormat{} },
		Warn:         func(err error) { t.Error(err) },
	}, func(line []byte) error {
		f.records = append(f.records, object(t, line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(f.records, func(a, b map[string]any) int {
		place := func(o map[string]any) string {
			return fmt.Sprintf("%10s %10s %10s %10s", o["stream"], o["segment"], o["block"], o["record"])
		}
		return strings.Compare(place(a), place(b))
	})
	return f.records
}

type goldenFormat struct {
	ref     *trail.BlockRef
	records []map[string]any
}

func (f *goldenFormat) Start(ref *trail.BlockRef) { f.ref = ref }
func (f *goldenFormat) Keep(*format.Record) bool  { return true }

// text is a string as the .expected files have it.
func text(b []byte) any {
	b, _ = format.Unshown(string(b), "")
	for _, c := range b {
		if c < ' ' || c > '~' {
			return map[string]any{"hex": hex.EncodeToString(b)}
		}
	}
	return string(b)
}

func (f *goldenFormat) Append(dst []byte, r *format.Record) []byte {
	facts := map[string]any{}
	for k := format.KeyBackendType; k <= format.KeyEncoding; k++ {
		if v := r.Session.Fact(k); v != nil {
			facts[strconv.Itoa(int(k))] = text(v)
		}
	}
	o := map[string]any{
		"stream": f.ref.Segment.Stream.Number, "segment": f.ref.Segment.Number, "block": f.ref.Number, "record": r.Number,
		"kind": r.Kind, "seq": r.Seq, "time": r.Time, "outcome": r.Outcome,
		"session": map[string]any{"start": r.Session.Start, "pid": r.Session.PID, "facts": facts},
	}
	if r.Kind == format.KindStatement || r.Kind == format.KindStart {
		o["statement"] = r.Statement
	}
	if s := r.Shape; s != nil {
		relations, params, objects := []any{}, []any{}, []any{}
		for _, rel := range s.Relations {
			one := map[string]any{"type": rel.Type, "access": rel.Access, "name": text(rel.Name)}
			if rel.HasColumns {
				columns := []any{}
				for _, c := range rel.Columns {
					columns = append(columns, map[string]any{"access": c.Access, "name": text(c.Name)})
				}
				one["columns"], one["omitted"], one["via"] = columns, rel.Omitted, rel.Via
			}
			relations = append(relations, one)
		}
		r.Params(func(p format.ParamType, value []byte, null bool) bool {
			v := map[string]any{"type": p.OID, "repr": p.Repr, "value": nil}
			if !null {
				if p.Repr == format.ReprText {
					value, _ = format.Unshown(string(value), "")
				}
				v["value"] = hex.EncodeToString(value)
			}
			params = append(params, v)
			return true
		})
		for _, obj := range s.Objects {
			objects = append(objects, map[string]any{"action": obj.Action, "type": text(obj.Type), "name": text(obj.Name), "to": text(obj.To)})
		}
		o["class"], o["query_id"], o["tag"], o["relations"], o["params"], o["objects"] = s.Class, s.QueryID, text(s.Command), relations, params, objects
	}
	set := func(key string, present bool, value any) {
		if present {
			o[key] = value
		}
	}
	set("text", r.Text != nil, text(r.Text))
	set("rows", r.Has(format.FieldRows), r.Rows)
	set("duration_us", r.Has(format.FieldDuration), r.Duration)
	set("depth", r.Has(format.FieldNesting), r.Depth)
	set("substatement", r.Has(format.FieldNesting), r.Substatement)
	failed := r.Has(format.FieldError) || r.Parts[format.PartMessage] > 0
	set("sqlstate", failed, text(r.SQLState))
	set("message", failed, text(r.Message))
	set("xid", r.Has(format.FieldXID), r.XID)
	set("text_bytes", r.Has(format.FieldCut), r.TextBytes)
	set("text_sha256", r.Has(format.FieldCut), hex.EncodeToString(r.TextHash))
	set("parts", r.Has(format.FieldParts), r.Parts)
	if r.Has(format.FieldExtra) {
		pairs := []any{}
		stored := *r
		stored.Fields = format.FieldExtra // without the fields that are shown like it
		for name, value := range stored.ExtraPairs {
			pairs = append(pairs, []any{text(name), text(value)})
		}
		o["extra"] = pairs
	}
	set("audited", r.Has(format.FieldAudited), r.Audited)
	set("event", r.Has(format.FieldEvent), r.Ending.Event)
	set("statements", r.Has(format.FieldStatements), r.Ending.Statements)
	set("lsn", r.Has(format.FieldCommit), r.Ending.LSN)
	set("lsn_end", r.Has(format.FieldCommit), r.Ending.End)
	set("timeline", r.Has(format.FieldCommit), r.Ending.Timeline)
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return append(dst, line...)
}

package query

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// furtherEntry is a relation or an object behind the values of a record.
func furtherEntry(kind byte, body ...string) []byte {
	one := []byte(strings.Join(body, ""))
	return append(binary.AppendUvarint([]byte{kind}, uint64(len(one))), one...)
}

func str(s string) string { return string(binary.AppendUvarint(nil, uint64(len(s)))) + s }

// askedByObject is the texts of records that a filter by object finds in a trail, whichever way it is read, and what is told of
// the others.
func askedByObject(t *testing.T, dir string, not bool, objects ...string) (texts string, told []error) {
	t.Helper()
	if not {
		return asked(t, dir, Criteria{Not: &Criteria{Objects: objects}})
	}
	return asked(t, dir, Criteria{Objects: objects})
}

// openFor opens a trail, and makes a filter for it.
func openFor(t *testing.T, dir string, o Criteria) (*Filter, *trail.Trail) {
	t.Helper()
	f := o.Filter()
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f, opened
}

func asked(t *testing.T, dir string, o Criteria) (texts string, told []error) {
	t.Helper()
	f, opened := openFor(t, dir, o)
	index := opened.Index()
	var out []string
	for _, want := range []format.Selection{{}, f.Selection()} {
		s := index.Scan(context.Background(), trail.ScanOptions{Since: format.MinTime, Until: format.MaxTime, Parts: true, Selection: want, Contents: f.Contents(), Warn: func(error) {}})
		var kept []string
		var hidden Hidden
		m := Matcher{Filter: f}
		for r := s.Reader(); r.Next(); {
			m.Reset()
			if m.Keep(&r.Record) {
				kept = append(kept, string(r.Record.Text))
			}
			hidden.Note(&m, &r.Record)
			hidden.Note(&m, &r.Record) // blocks may be read twice
		}
		s.Close()
		slices.Sort(kept)
		out = append(out, strings.Join(kept, " "))
		hidden.DropEnded(context.Background(), index)
		told = hidden.Errs()
	}
	if out[0] != out[1] {
		t.Errorf("%v: %q is found, without what is not wanted %q", o, out[0], out[1])
	}
	return out[0], told
}

func TestNamesBehindTheValuesAreFound(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	shape := &trailtest.Shape{Class: format.ClassDDL, Relations: []trailtest.Relation{{Type: 2, Access: format.AccessSelect, Name: "public.v"}},
		Objects: []trailtest.Object{{Action: format.ActionDrop, Type: "table", Name: "public.a"}}}
	further := string(slices.Concat(
		furtherEntry(1, "\x01\x01", str("public.t"), "\x01", "\x01\x01", str("c")),
		furtherEntry(2, "\x03", str("table"), str("public.b"), str("")),
		furtherEntry(99, "of a later version"),
	))
	add := func(seq uint64, text, data string, parts, said int, extra ...string) {
		b := trailtest.NewBuilder(trailtest.Epoch + int64(seq))
		if data != "" {
			b.Data(session, seq, format.PartValues, data)
		}
		r := &trailtest.Record{Kind: format.KindStatement, Session: session, Seq: seq, Time: trailtest.Epoch + int64(seq), Shape: shape, Text: text, Parts: [3]uint64{0, uint64(parts), 0}}
		if said > 0 {
			extra = append(extra, "further_bytes", fmt.Sprint(said))
		}
		r.Extra = extra
		b.Add(r)
		s.Write(t, b)
	}
	add(1, "whole", further, len(further), len(further))
	add(2, "short", "", 0, 0)
	add(3, "omits", "", 0, 0, "objects_omitted", "7")
	add(4, "lacks", further[:5], len(further), len(further))
	for _, one := range []struct {
		object string
		not    bool
		want   string
		told   int
	}{
		{"public.a", false, "lacks omits short whole", 0},
		{"public.b", false, "whole", 2},
		{"t.c", false, "whole", 2},
		{"public.t.d", false, "", 2},
		{"b", true, "lacks omits short", 0},
		{"public.other", true, "lacks omits short whole", 0},
	} {
		got, errs := askedByObject(t, dir, one.not, one.object)
		if got != one.want {
			t.Errorf("%s: %q is found, want %q", one.object, got, one.want)
		}
		told := 0
		for _, err := range errs {
			told += err.(*OmittedError).Count
		}
		if told != one.told {
			t.Errorf("%s: told of %d records, want %d: %v", one.object, told, one.told, errs)
		}
	}
}

// Statements that had not ended when their records were made may have used what is asked for. Of those that a server
// was running, this is so until there is a record of their end, which no filter need choose.
func TestUnfinishedStatementsAreTold(t *testing.T) {
	alice := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
	copies := func(kind format.Kind, outcome format.Outcome, relations ...string) *trailtest.Record {
		r := &trailtest.Record{Kind: kind, Session: alice, Statement: 1, Outcome: outcome, Text: "COPY", Shape: &trailtest.Shape{Class: format.ClassRead, Command: "COPY"}}
		for _, name := range relations {
			r.Shape.Relations = append(r.Shape.Relations, trailtest.Relation{Type: format.RelationTypeTable, Access: format.AccessSelect, Name: name})
		}
		return r
	}
	bare := copies(format.KindStart, format.OutcomeRunning)
	bare.Shape = nil
	commit := copies(format.KindStatement, format.OutcomeInterrupted)
	commit.Shape.Class, commit.Shape.Command = format.ClassTransaction, "COMMIT"
	other := copies(format.KindStart, format.OutcomeRunning)
	other.Statement = 2
	for name, test := range map[string]struct {
		records []*trailtest.Record
		told    string
	}{
		"running":                          {[]*trailtest.Record{copies(format.KindStart, format.OutcomeRunning)}, Unnamed},
		"running, without a class":         {[]*trailtest.Record{bare}, Unnamed},
		"running, relations are known":     {[]*trailtest.Record{copies(format.KindStart, format.OutcomeRunning, "hr.staff")}, ""},
		"interrupted":                      {[]*trailtest.Record{copies(format.KindStatement, format.OutcomeInterrupted)}, Unnamed},
		"interrupted, relations are known": {[]*trailtest.Record{copies(format.KindStatement, format.OutcomeInterrupted, "hr.staff")}, ""},
		"ended":                            {[]*trailtest.Record{copies(format.KindStart, format.OutcomeRunning), copies(format.KindStatement, format.OutcomeOk, "hr.staff")}, ""},
		"ended, without a class":           {[]*trailtest.Record{bare, copies(format.KindStatement, format.OutcomeOk, "hr.staff")}, ""},
		"another one ended":                {[]*trailtest.Record{other, copies(format.KindStatement, format.OutcomeOk, "hr.staff")}, Unnamed},
		"running, then interrupted":        {[]*trailtest.Record{copies(format.KindStart, format.OutcomeRunning), copies(format.KindStatement, format.OutcomeInterrupted)}, Unnamed},
		"ended without relations":          {[]*trailtest.Record{copies(format.KindStatement, format.OutcomeOk)}, ""},
		"interrupted commit":               {[]*trailtest.Record{commit}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stream := trailtest.NewStream(t, dir, 0)
			for i, r := range test.records {
				r.Time = trailtest.Epoch
				if r.Kind == format.KindStart {
					r.Unnumbered = true
				} else {
					r.Seq = uint64(i + 1)
				}
				b := trailtest.NewBuilder(trailtest.Epoch)
				b.Add(r)
				stream.Write(t, b)
			}
			for _, o := range []Criteria{{Objects: []string{"hr.salary"}}, {Objects: []string{"hr.salary"}, Users: []string{"alice"}, Classes: []format.Class{format.ClassRead}, Commands: []string{"copy"}}} {
				got, errs := asked(t, dir, o)
				if got != "" || (test.told == "") != (len(errs) == 0) || len(errs) > 1 || len(errs) == 1 && !strings.Contains(errs[0].Error(), test.told) {
					t.Errorf("%+v: found %q, told of %v, want %q", o, got, errs, test.told)
				}
			}
			if got, errs := asked(t, dir, Criteria{Objects: []string{"hr.salary"}, Users: []string{"bob"}}); got != "" || len(errs) > 0 {
				t.Errorf("bob: found %q, told of %v", got, errs)
			}
			if test.told != "" && !selectsFirst(t, dir, Criteria{Objects: []string{"hr.salary"}, Classes: []format.Class{format.ClassRead}}) {
				t.Error("an index hides it")
			}
		})
	}
}

// selectsFirst says whether a filter selects the first block of a trail with an index of it.
func selectsFirst(t *testing.T, dir string, o Criteria) bool {
	t.Helper()
	f, opened := openFor(t, dir, o)
	refs, errs := opened.Streams[0].Segments[0].Index()
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var files trail.Files
	defer files.Close()
	var b format.Block
	var r format.Record
	if err := files.Read(&refs[0], &b); err != nil {
		t.Fatal(err)
	}
	if err := b.Next(&r); err != nil {
		t.Fatal(err)
	}
	return f.Contents()(indexOf(t, &b, &r)).Has(0)
}

// A reader that looks for names is told of renames that begin or end with one of them, also of those that it does not
// look for otherwise.
func TestRenamesAreTold(t *testing.T) {
	bob := trailtest.NewSession(trailtest.Epoch, 2, trailtest.Fact{Key: format.KeyUser, Value: "bob"}, trailtest.Fact{Key: format.KeyDatabase, Value: "hr"})
	for _, test := range []struct {
		what, from, to string
		ask            Criteria
		told           bool
	}{
		{"table", "hr.salary", "hr.x", Criteria{Objects: []string{"hr.salary"}}, true},
		{"table", "hr.salary", "hr.x", Criteria{Objects: []string{"hr.salary"}, Users: []string{"alice"}, Classes: []format.Class{format.ClassRead}}, true},
		{"schema", "x", "hr", Criteria{Objects: []string{"hr.salary"}}, true},
		{"role", "alice", "carol", Criteria{Users: []string{"alice"}}, true},
		{"role", "carol", "alice", Criteria{Roles: []string{"alice"}, Objects: []string{"hr.salary"}}, true},
		{"database", "hr", "x", Criteria{Databases: []string{"hr"}, Kinds: []format.Kind{format.KindConnect}}, true},
		{"table", `hr."größe"`, "hr.x", Criteria{Objects: []string{`hr."größe"`}, Users: []string{"alice"}}, true},
		{"table", "hr.staff", "hr.x", Criteria{Objects: []string{"hr.salary"}}, false},
		{"table", "hr.salary", "hr.x", Criteria{Objects: []string{"hr.salary", "hr.x"}}, false},
		{"table", "hr.salary", "hr.x", Criteria{Users: []string{"salary"}}, false},
		{"table", "hr.salary", "hr.x", Criteria{Grep: patterns("salary")}, false},
	} {
		dir := t.TempDir()
		stream := trailtest.NewStream(t, dir, 0)
		b := trailtest.NewBuilder(trailtest.Epoch)
		shape := &trailtest.Shape{Class: format.ClassDDL, Command: "ALTER", Objects: []trailtest.Object{{Action: format.ActionRename, Type: test.what, Name: test.from, To: test.to}}}
		if test.what == "role" {
			shape.Class = format.ClassRole
		}
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: bob, Time: trailtest.Epoch, Text: "ALTER", Shape: shape})
		stream.Write(t, b)
		_, errs := asked(t, dir, test.ask)
		want := fmt.Sprintf(`%s "%s" was renamed to "%s" at `, test.what, strings.ReplaceAll(test.from, `"`, `""`), test.to)
		if len(errs) > 1 || test.told != (len(errs) == 1) || test.told && !strings.HasPrefix(errs[0].Error(), want) {
			t.Errorf("%+v: %s %s to %s: told of %v", test.ask, test.what, test.from, test.to, errs)
		}
		if test.told && !selectsFirst(t, dir, test.ask) {
			t.Errorf("%+v: %s %s to %s: an index hides it", test.ask, test.what, test.from, test.to)
		}
	}
}

package review

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// followed stands for the command that shows the records of criteria.
func followed(*query.Criteria, query.Range) string { return "command" }

// dossierOf is the dossier of a user in a trail that a test writes.
func dossierOf(t *testing.T, user string, write func(add func(trailtest.Record))) *Document {
	t.Helper()
	dir := t.TempDir()
	stream, b := trailtest.NewStream(t, dir, 0), trailtest.NewBuilder(trailtest.Epoch)
	at := int64(trailtest.Epoch)
	write(func(r trailtest.Record) {
		at += 1e6
		r.Time = at
		b.Add(&r)
	})
	stream.Write(t, b)
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := ReviewPerson(t.Context(), PersonOptions{
		Source: Source{Index: opened.Index(), Since: format.MinTime, Until: format.MaxTime, Command: followed, Warn: func(err error) { t.Error(err) }}, Users: []string{user}, Large: 10_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// cellOf is a value of a row.
func cellOf(t *testing.T, d *Document, section string, row int, column string) any {
	t.Helper()
	i := slices.IndexFunc(d.Sections, func(s *Section) bool { return s.Key == section })
	s := d.Sections[i]
	if row >= len(s.Rows) {
		t.Fatalf("%s has %d rows", section, len(s.Rows))
	}
	return s.Rows[row][slices.Index(s.Columns, column)]
}

func session(user string) *trailtest.Session {
	return trailtest.NewSession(trailtest.Epoch+1e6, 1, trailtest.Fact{Key: format.KeyUser, Value: user}, trailtest.Fact{Key: format.KeyBackendType, Value: "client backend"})
}

// TestPersonsDidNotDoWhatWasRefused: columns that only a refused statement named are not among those that were read.
func TestPersonsDidNotDoWhatWasRefused(t *testing.T) {
	doc := dossierOf(t, "alice", func(add func(trailtest.Record)) {
		reads := func(column string) *trailtest.Shape {
			return &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{
				{Type: format.RelationTypeTable, Name: "hr.staff", Access: format.AccessSelect, Columns: []trailtest.Column{{Access: format.AccessSelect, Name: column}}}}}
		}
		alice := session("alice")
		add(trailtest.Record{Kind: format.KindStatement, Session: alice, Text: "SELECT name FROM hr.staff", Shape: reads("name")})
		add(trailtest.Record{Kind: format.KindStatement, Session: alice, Text: "SELECT salary FROM hr.staff", Shape: reads("salary"), Outcome: format.OutcomeError, SQLState: "42501"})
		add(trailtest.Record{Kind: format.KindStatement, Session: alice, Text: "SELECT name FROM hr.staff", Shape: reads("name"), Outcome: format.OutcomeError, SQLState: "22012"})
		add(trailtest.Record{Kind: format.KindStatement, Session: alice, Text: "DELETE FROM hr.staff", Outcome: format.OutcomeError, SQLState: "42501", Shape: &trailtest.Shape{
			Class: format.ClassWrite, Command: "DELETE", Relations: []trailtest.Relation{{Type: format.RelationTypeTable, Name: "hr.staff", Access: format.AccessDelete}}}})
	})
	for column, want := range map[string]any{
		"access": []string{"select"}, "columns_read": []string{"name"}, "statements": int64(4), "failed": int64(3), "only_tried": []string{"delete", "select salary"},
	} {
		if got := cellOf(t, doc, "objects", 0, column); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v instead of %v", column, got, want)
		}
	}
}

// TestPersonsTellThatRowsWereNotRecorded: without numbers of rows, no result is large.
func TestPersonsTellThatRowsWereNotRecorded(t *testing.T) {
	for name, what := range map[string]string{"steno.log_rows": "the numbers of rows", "steno.log_catalog": "queries of system catalogs", "steno.log_relation": "the relations of statements"} {
		doc := dossierOf(t, "alice", func(add func(trailtest.Record)) {
			alice := session("alice")
			add(trailtest.Record{Kind: format.KindSetting, Session: alice, Shape: &trailtest.Shape{Class: format.ClassSetting}, Extra: []string{"name", name, "old", "on", "new", "off", "source", "session"}})
			add(trailtest.Record{Kind: format.KindStatement, Session: alice, Text: "SELECT * FROM pg_authid", Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"}})
		})
		if !strings.Contains(strings.Join(doc.Limits, "\n"), what) {
			t.Errorf("%s: %q", name, doc.Limits)
		}
	}
}

// TestExportsTellWhetherRowsWereCounted: no number is not 0.
func TestExportsTellWhetherRowsWereCounted(t *testing.T) {
	for rows, r := range map[any]trailtest.Record{nil: {}, int64(0): {Fields: format.FieldRows}, int64(7): {Rows: 7}} {
		doc := dossierOf(t, "alice", func(add func(trailtest.Record)) {
			r.Kind, r.Session, r.Text = format.KindStatement, session("alice"), "COPY hr.staff TO STDOUT"
			r.Shape = &trailtest.Shape{Class: format.ClassRead, Command: "COPY"}
			add(r)
		})
		if got := cellOf(t, doc, "exports", 0, "rows"); got != rows {
			t.Errorf("%v instead of %v", got, rows)
		}
	}
}

// TestDossiersAreJoined: what several readers have found of a table is in one line.
func TestDossiersAreJoined(t *testing.T) {
	o := &PersonOptions{}
	table := func(tried string) *dossier {
		d := newDossier(o, nil, nil)
		d.tables[[2]string{"shop", "hr.staff"}] = &personTable{
			access: map[string]bool{}, columns: map[string]map[string]bool{}, via: map[string]bool{}, tried: map[string]bool{tried: true}, failed: 1,
		}
		return d
	}
	d := table("delete")
	d.join(table("select salary"))
	if one := d.tables[[2]string{"shop", "hr.staff"}]; one.failed != 2 || !slices.Equal(one.onlyTried(), []string{"delete", "select salary"}) {
		t.Errorf("%d failed, %v were tried", one.failed, one.onlyTried())
	}
}

// TestSessionsOfAnotherUserEnd: a session that had become somebody is not open because it ends as somebody else.
func TestSessionsOfAnotherUserEnd(t *testing.T) {
	doc := dossierOf(t, "alice", func(add func(trailtest.Record)) {
		root := session("root")
		add(trailtest.Record{Kind: format.KindConnect, Session: root})
		add(trailtest.Record{Kind: format.KindStatement, Session: session("alice"), Text: "SELECT 1", Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"}})
		add(trailtest.Record{Kind: format.KindDisconnect, Session: root})
	})
	if end := cellOf(t, doc, "sessions", 0, "end"); end != "ok" {
		t.Errorf("%v", end)
	}
	if !strings.Contains(strings.Join(doc.Limits, "\n"), "no record of a login as this user") {
		t.Errorf("%q", doc.Limits)
	}
}

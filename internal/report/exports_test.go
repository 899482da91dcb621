package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// exportsTrail is what psql, pg_dump and an application take out of a database, and what is none of that. Rows, classes and
// portals are those that a server of PostgreSQL 15 recorded for the same statements.
func exportsTrail(t *testing.T) string {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	at := trailtest.Epoch
	b := trailtest.NewBuilder(at)
	session := func(pid uint32, application string) *trailtest.Session {
		return trailtest.NewSession(trailtest.Epoch, pid, trailtest.Fact{Key: format.KeyUser, Value: "alice"}, trailtest.Fact{Key: format.KeyDatabase, Value: "shop"},
			trailtest.Fact{Key: format.KeyApplication, Value: application})
	}
	psql, dump, crm := session(1, "psql"), session(2, "pg_dump"), session(3, "")
	shape := func(class format.Class, command, query string, relations ...string) *trailtest.Shape {
		sh := &trailtest.Shape{Class: class, Command: command, Query: query}
		for _, name := range relations {
			sh.Relations = append(sh.Relations, trailtest.Relation{Type: format.RelationTypeTable, Access: format.AccessSelect, Name: name})
		}
		return sh
	}
	add := func(who *trailtest.Session, sh *trailtest.Shape, rows uint64, change func(*trailtest.Record)) {
		at++
		r := trailtest.Record{Kind: format.KindStatement, Session: who, Shape: sh, Time: at, Rows: rows, Text: sh.Command + " …"}
		if change != nil {
			change(&r)
		}
		b.Add(&r)
	}
	portal := func(name string) func(*trailtest.Record) {
		return func(r *trailtest.Record) { r.Extra = append(r.Extra, "portal", name) }
	}
	copied, read := shape(format.ClassRead, "COPY", "", "public.staff"), shape(format.ClassRead, "SELECT", "", "public.staff")
	add(psql, copied, 12345, nil)
	add(psql, copied, 12345, nil)
	add(psql, shape(format.ClassRead, "COPY", "", "public.staff", "public.small"), 3, nil)
	add(psql, shape(format.ClassRead, "COPY", "", "public.nothing"), 0, func(r *trailtest.Record) { r.Outcome, r.SQLState = format.OutcomeError, "42P01" })
	add(psql, shape(format.ClassWrite, "COPY", "", "public.small"), 70000, nil)   // COPY FROM
	add(psql, shape(format.ClassWrite, "COPY", "INSERT", "public.small"), 1, nil) // COPY (INSERT … RETURNING) TO
	add(psql, read, 11000, portal("c"))
	add(psql, shape(format.ClassMisc, "FETCH", ""), 11000, nil) // of the same rows
	add(crm, read, 10000, nil)
	add(crm, read, 9999, nil)
	add(crm, read, 50000, func(r *trailtest.Record) { r.Depth, r.Substatement = 1, 1 }) // for a function
	add(dump, copied, 12345, nil)
	add(dump, shape(format.ClassRead, "SELECT", "", "pg_catalog.pg_class"), 400, nil)
	add(dump, read, 7, portal("_pg_dump_cursor"))
	add(dump, shape(format.ClassRead, "COPY", ""), 1, nil) // COPY (SELECT 1) TO
	s.Write(t, b)
	return dir
}

func TestExportsAreCounted(t *testing.T) {
	r := makeReport(t, exportsTrail(t), nil)
	var got []string
	for _, row := range r.table("taken").Rows {
		c := row.Cells
		got = append(got, fmt.Sprintf("%s | %s | %s | %s failed, %s statements, %s of %s rows", c[0].Text, c[3].Text, c[4].Text, c[7].Text, c[8].Text, c[9].Text, c[10].Text))
		if has := strings.Contains(row.Records[0].Command, "--command COPY"); has != (c[4].Text == byCopy && c[0].Text != "(none)") {
			t.Errorf("%s: %s", got[len(got)-1], row.Records[0].Command)
		}
	}
	compare(t, "exports", got, []string{
		"public.staff | psql | COPY TO | 0 failed, 3 statements, 12,345 of 24,693 rows",
		"public.staff | pg_dump | COPY TO | 0 failed, 1 statements, 12,345 of 12,345 rows",
		"public.staff | psql | cursor | 0 failed, 1 statements, 11,000 of 11,000 rows",
		"public.staff | (none) | query | 0 failed, 1 statements, 10,000 of 10,000 rows",
		"public.staff | pg_dump | cursor | 0 failed, 1 statements, 7 of 7 rows",
		"public.small | psql | COPY TO | 0 failed, 1 statements, 3 of 3 rows",
		"(none) | pg_dump | COPY TO | 0 failed, 1 statements, 1 of 1 rows",
		"public.small | psql | COPY TO of a write | 0 failed, 1 statements, 1 of 1 rows",
		"public.nothing | psql | COPY TO | 1 failed, 1 statements, 0 of 0 rows",
	})
	for _, s := range r.Sections {
		if s.ID == "exports" && s.Summary != "10 statements took 58,047 rows." {
			t.Error(s.Summary)
		}
	}
}

// TestSystemCatalogsHaveATable: the matrix and the list of uses are of other relations.
func TestSystemCatalogsHaveATable(t *testing.T) {
	r := makeReport(t, exportsTrail(t), nil)
	for _, id := range []string{"matrix", "pairs"} {
		if all := strings.Join(r.table(id).rows(), "\n"); !strings.Contains(all, "public.staff") || strings.Contains(all, "pg_catalog") {
			t.Errorf("%s: %s", id, all)
		}
	}
	if all := r.table("catalogs").rows(); len(all) != 1 || !strings.Contains(all[0], "pg_catalog.pg_class") {
		t.Errorf("catalogs: %q", all)
	}
	for relation, want := range map[string]bool{"pg_catalog.pg_class": true, "information_schema.tables": true, "pg_toast.pg_toast_1": true,
		`"pg_catalog.x".t`: false, "pg_catalog": false, "public.pg_class": false} {
		if isCatalog(relation) != want {
			t.Errorf("%s: %t", relation, !want)
		}
	}
}

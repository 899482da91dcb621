package query

import (
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/trail"
)

func TestARollbackIsNoFailure(t *testing.T) {
	filter, err := (&FilterOptions{Failed: true}).Filter(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := &Matcher{Filter: filter}
	for name, c := range map[string]struct {
		record trail.Record
		failed bool
	}{
		"transaction rolled back":      {trail.Record{Kind: trail.KindTransaction, Outcome: trail.OutcomeError}, false},
		"transaction that failed":      {trail.Record{Kind: trail.KindTransaction, Outcome: trail.OutcomeError, SQLState: []byte("23505")}, true},
		"statement that failed":        {trail.Record{Kind: trail.KindStatement, Outcome: trail.OutcomeError}, true},
		"statement that was cut short": {trail.Record{Kind: trail.KindStatement, Outcome: trail.OutcomeInterrupted}, true},
		"statement ROLLBACK":           {trail.Record{Kind: trail.KindStatement}, false},
		"refused client":               {trail.Record{Kind: trail.KindAuthFailed}, true},
	} {
		if got := m.Keep(&c.record); got != c.failed {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestXIDChoosesATransaction(t *testing.T) {
	filter, err := (&FilterOptions{XIDs: []string{"742", "743", "12884902632"}}).Filter(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := &Matcher{Filter: filter}
	for xid, want := range map[uint64]bool{
		0: false, 741: false, 742: true, 743: true,
		3<<32 | 742: true, 3<<32 | 744: true, 2<<32 | 744: false, 744: false,
	} {
		if m.Keep(&trail.Record{Kind: trail.KindStatement, XID: xid}) != want {
			t.Errorf("xid %d", xid)
		}
	}
	for _, bad := range []string{"", "0", "-1", "x", "18446744073709551616"} {
		if _, err := (&FilterOptions{XIDs: []string{bad}}).Filter(time.Now()); err == nil {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}

func TestObjectsAreFoundWithAndWithoutTheirSchema(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"t", "public.t", true},
		{"public.t", "public.t", true},
		{"hr.t", "public.t", false},
		{"public", "public.t", false},
		{"t", "public.tt", false},
		{"T", "public.t", false},
		{"public.*", "public.t", true},
		{"*", "guard", true},
		{"p.blic.t", "public.t", false},
		{`"a.b"`, `public."a.b"`, true},
		{`b"`, `public."a.b"`, false},
		{`"a""."`, `"x.y"."a""."`, true},
		{"f(pg_catalog.int4)", "f(pg_catalog.int4)", true},
		{"int4)", "f(pg_catalog.int4)", false},
	} {
		patterns := objectPatterns([]string{"nothing", c.pattern})
		byRelation := usesObject(&trail.Shape{Relations: []trail.Relation{{Name: []byte(c.name)}}}, patterns)
		byObject := usesObject(&trail.Shape{Objects: []trail.Object{{Name: []byte(c.name)}}}, patterns)
		byNewName := usesObject(&trail.Shape{Objects: []trail.Object{{Name: []byte("other"), To: []byte(c.name)}}}, patterns)
		if byRelation != c.want || byObject != c.want || byNewName != c.want && c.pattern != "*" {
			t.Errorf("%s: %s: got %v, %v and %v, want %v", c.pattern, c.name, byRelation, byObject, byNewName, c.want)
		}
	}
}

func TestColumnsAreFound(t *testing.T) {
	column := func(names ...string) (columns []trail.Column) {
		for _, n := range names {
			columns = append(columns, trail.Column{Access: trail.AccessSelect, Name: []byte(n)})
		}
		return columns
	}
	known := trail.Relation{Name: []byte("hr.staff"), HasColumns: true, Columns: column("id", `"a.b"`, `"*"`)}
	whole := trail.Relation{Name: []byte(`hr."old.staff"`), HasColumns: true, Columns: column("*")}
	part := trail.Relation{Name: []byte("hr.wide"), HasColumns: true, Columns: column("c1"), Omitted: trail.AccessSelect}
	none := trail.Relation{Name: []byte("hr.none"), HasColumns: true}
	old := trail.Relation{Name: []byte("hr.unknown"), Access: trail.AccessSelect}
	emptied := trail.Relation{Name: []byte("hr.emptied"), Access: trail.AccessTruncate}
	for _, c := range []struct {
		pattern  string
		relation trail.Relation
		want     bool
	}{
		{"staff.id", known, true},
		{"hr.staff.id", known, true},
		{"staff.salary", known, false},
		{"other.staff.id", known, false},
		{"staff.*", known, true},
		{"*.id", known, true},
		{`staff."a.b"`, known, true},
		{`staff.b"`, known, false},
		{"id", known, false},
		{`"old.staff".salary`, whole, true},
		{`hr."old.staff".salary`, whole, true},
		{"staff\".salary", whole, false},
		{"staff.salary", whole, false},
		{"wide.c1", part, true},
		{"wide.c900", part, true},
		{"narrow.c900", part, false},
		{"none.id", none, false},
		{"unknown.id", old, true},
		{"unknown.other", old, true},
		{"other.id", old, false},
		{"emptied.id", emptied, false},
	} {
		if got := usesObject(&trail.Shape{Relations: []trail.Relation{c.relation}}, objectPatterns([]string{c.pattern})); got != c.want {
			t.Errorf("%s: %s: got %v", c.pattern, c.relation.Name, got)
		}
	}
}

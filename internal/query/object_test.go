package query

import (
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
)

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

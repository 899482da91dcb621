package sql

import (
	"errors"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestColumnsThatDoNotOccurAreTold: names of columns are looked for as those of relations, except the row as a whole. What is
// not looked for is in docs/query.md.
func TestColumnsThatDoNotOccurAreTold(t *testing.T) {
	for dir, statements := range map[string]map[string]string{
		"columns": {
			`SELECT count(*) FROM columns WHERE column_name = 'salry'`:                           `no column of the name "salry" occurs in the trail; nearest: "salary"`,
			`SELECT count(*) FROM columns WHERE column_name IN ('salary', '*')`:                  "",
			`SELECT count(*) FROM columns c WHERE c.column_name LIKE 'sala%'`:                    "",
			`SELECT count(*) FROM columns WHERE column_name NOT ILIKE 'SALARIES%'`:               `no column matches "SALARIES%" in the trail; nearest: "salary"`,
			`SELECT count(*) FROM (DESCRIBE trail) WHERE column_name = 'nothing'`:                "",
			`SELECT count(*) FROM columns WHERE column_name = ANY (['salry'])`:                   "",
			`SELECT count(*) FROM columns AS c(a, b) WHERE b = 'salry'`:                          "",
			`SELECT count(*) FROM columns c JOIN (VALUES ('salry')) v(x) ON c.column_name = v.x`: "",
			`SELECT count(*) FROM settings_changed WHERE name = 'nothing'`:                       "",
		},
		"empty": {`SELECT count(*) FROM columns WHERE column_name = '*'`: ""},
	} {
		o := options(t, trailtest.Golden(t)+"/"+dir)
		var told []string
		o.Warn = func(err error) {
			if missing := (*query.NameError)(nil); errors.As(err, &missing) {
				told = append(told, err.Error())
			}
		}
		db := open(t, o)
		for statement, want := range statements {
			told = nil
			if err := db.Run(t.Context(), statement, func(*Result) error { return nil }); err != nil {
				t.Fatal(statement, err)
			}
			if got := strings.Join(told, "\n"); got != want {
				t.Errorf("%s: %q, want %q", statement, got, want)
			}
		}
	}
}

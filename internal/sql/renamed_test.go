package sql

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// A statement that compares names is told of the renames of these, in the time of --since and --until and outside of it.
func TestRenamesAreTold(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	bob := trailtest.NewSession(trailtest.Epoch, 9, trailtest.Fact{Key: format.KeyUser, Value: "bob"}, trailtest.Fact{Key: format.KeyDatabase, Value: "shop"})
	b := trailtest.NewBuilder(trailtest.Epoch)
	second := func(n uint64) int64 { return trailtest.Epoch + int64(n)*1e6 }
	for i, names := range [][3]string{{"table", "hr.staff", "hr.people"}, {"role", "alice", "carol"}, {"table", "hr.a", "hr.b"}} {
		at := uint64(i) * 10
		class := format.ClassDDL
		if names[0] == "role" {
			class = format.ClassRole
		}
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: bob, Seq: at + 1, Time: second(at), XID: at + 700, Extra: []string{"commit_us", "5"},
			Shape: &trailtest.Shape{Class: class, Command: "ALTER", Objects: []trailtest.Object{{Action: format.ActionRename, Type: names[0], Name: names[1], To: names[2]}}}})
	}
	s.Write(t, b)
	for _, test := range []struct{ statement, wants string }{
		{`SELECT * FROM relations WHERE relation = 'hr.staff'`, `table "hr.staff" to "hr.people" before`},
		{`SELECT * FROM relations WHERE relation = 'hr.people'`, ""},
		{`SELECT * FROM trail WHERE "user" = 'alice'`, `role "alice" to "carol" in it`},
		{`SELECT * FROM trail WHERE database = 'other' AND role = 'carol'`, `role "alice" to "carol" in it`},
		{`SELECT * FROM relations WHERE relation = 'hr.b' OR database = 'other'`, `table "hr.a" to "hr.b" after`},
		{`SELECT * FROM relations WHERE relation LIKE 'hr.b'`, ""},
		{`SELECT * FROM trail`, ""},
	} {
		var told []string
		o := options(t, dir)
		o.Since, o.Until = second(5), second(15)
		o.Warn = func(err error) {
			if one := (*query.RenamedError)(nil); errors.As(err, &one) {
				outside := one.Outside
				if outside == "" {
					outside = "in it"
				}
				told = append(told, one.Type+` "`+one.Name+`" to "`+one.To+`" `+outside)
			}
		}
		if err := open(t, o).Run(t.Context(), test.statement, func(*Result) error { return nil }); err != nil {
			t.Fatal(test.statement, err)
		}
		slices.Sort(told)
		if got := strings.Join(told, ", "); got != test.wants {
			t.Errorf("%s: told %q, want %q", test.statement, got, test.wants)
		}
	}
}

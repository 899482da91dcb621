package sql

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/statement"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// A text that has several query identifiers, such as one in each database, or none in some
// records, has the fingerprint of each record, and the statements of the view are these.
func TestFingerprintsAreOfTheRecordAndNotOfItsText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 11))
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	databases := []*trailtest.Session{
		trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyDatabase, Value: "a"}),
		trailtest.NewSession(trailtest.Epoch, 2, trailtest.Fact{Key: format.KeyDatabase, Value: "b"}),
		trailtest.NewSession(trailtest.Epoch, 3, trailtest.Fact{Key: format.KeyDatabase, Value: "c"}),
	}
	for range 10 {
		b := trailtest.NewBuilder(trailtest.Epoch)
		for range 200 {
			database, text := rnd.IntN(3), rnd.IntN(5)
			id := uint64(0)
			if database < 2 {
				id = uint64(100*database + text + 1)
			}
			b.Add(&trailtest.Record{
				Kind: format.KindStatement, Session: databases[database], Time: trailtest.Epoch,
				Text:  fmt.Sprintf("SELECT * FROM t%d", text),
				Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", QueryID: id},
			})
		}
		s.Write(t, b)
	}
	tr, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, calls, counted := []string{}, map[uint64]int{}, []string{}
	var scratch []byte
	trailtest.EachRecord(t, tr, func(_ *trail.BlockRef, r *format.Record) {
		n, ok := statement.Fingerprint(r, &scratch)
		if !ok {
			t.Fatal("a statement without a fingerprint")
		}
		calls[n]++
		want = append(want, fmt.Sprintf("%s %d %016x", r.Session.ID(), r.Seq, n))
	})
	for n, count := range calls {
		counted = append(counted, fmt.Sprintf("%016x %d", n, count))
	}
	db := open(t, options(t, dir))
	for name, c := range map[string]struct {
		statement string
		want      []string
	}{
		"trail":      {"SELECT session || ' ' || seq || ' ' || fingerprint AS one FROM trail", want},
		"statements": {"SELECT fingerprint || ' ' || calls AS one FROM statements", counted},
	} {
		got := map[string]int{}
		for line := range strings.Lines(ask(t, db, Output{Format: "csv"}, c.statement)) {
			got[strings.TrimSpace(line)]++
		}
		delete(got, "one")
		for _, line := range c.want {
			got[line]--
			if got[line] == 0 {
				delete(got, line)
			}
		}
		if len(got) > 0 {
			t.Errorf("%s: %d differ: %v", name, len(got), got)
		}
	}
}

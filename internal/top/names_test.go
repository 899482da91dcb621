package top

import (
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestNamesThatMixScriptsAreMarked: a row of such a user does not look like that of another one.
func TestNamesThatMixScriptsAreMarked(t *testing.T) {
	for name, want := range map[string]string{"\u0430lice": `\u0430lice`, "alice": "alice", "größe": "größe", "кошка": "кошка", "bo\u200bb": `bo\u200bb`} {
		if got := nameOf(&Row{Name: name}); got != want {
			t.Errorf("%q is shown as %s, want %s", name, got, want)
		}
	}
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindNote, Time: trailtest.Epoch, Text: "x",
		Session: trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "\u0430lice"}, trailtest.Fact{Key: format.KeyDatabase, Value: "sh\u043ep"})})
	var chain [32]byte
	block := format.Block{Image: b.Finish(format.CodecNone, 1, 1, &chain)}
	var r format.Record
	if err := block.Load(); err != nil || block.Next(&r) != nil {
		t.Fatal(err)
	}
	if got := ownerOf(r.Session); !strings.HasPrefix(got, `\u0430lice@sh\u043ep`) {
		t.Errorf("a session is shown as of %s", got)
	}
}

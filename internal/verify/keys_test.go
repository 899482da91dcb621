package verify

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/seal/sealtest"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func keyPair(t *testing.T) (ed25519.PrivateKey, seal.Keys) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private, seal.Keys{seal.KeyID(public): public}
}

// verifyDir verifies a trail with keys.
func verifyDir(t *testing.T, dir string, keys seal.Keys) *Report {
	t.Helper()
	tr, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Trail(t.Context(), tr, nil, Checks{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func warns(r *Report, what string) bool {
	return slices.ContainsFunc(r.Warnings, func(p Problem) bool { return strings.Contains(p.What, what) })
}

// TestSealsByAKeyThatWasNotGivenAreNotChecked has a key that was replaced while the server was stopped, so that nothing
// links the two.
func TestSealsByAKeyThatWasNotGivenAreNotChecked(t *testing.T) {
	oldKey, older := keyPair(t)
	newKey, newer := keyPair(t)
	dir := t.TempDir()
	w := sealtest.NewWriter(t, dir, 0, oldKey)
	at := int64(trailtest.Epoch)
	note := func() {
		at += 1e6
		w.Put(&trailtest.Record{Kind: format.KindNote, Session: w.Session, Text: "a note", Time: at})
	}
	note()
	w.Seal(at, seal.ReasonStart, nil)
	note()
	w.Seal(at, seal.ReasonStop, nil)
	w.Signs = newKey
	at += 3600e6 // long after a seal by the old key would have been due
	w.Restart(at)
	note()
	w.Rotate(at)
	at += 3600e6
	note()
	w.Seal(at, seal.ReasonStop, nil)

	both := seal.Keys{}
	for _, some := range []seal.Keys{older, newer} {
		for id, key := range some {
			both[id] = key
		}
	}
	r := verifyDir(t, dir, both)
	if !r.Whole || len(r.Warnings) > 0 {
		t.Errorf("both keys: %v %v, warnings %v", r.Problems, r.Unreadable, r.Warnings)
	}
	r = verifyDir(t, dir, older)
	if r.Whole || len(r.Problems) > 0 || len(r.Unreadable) != 1 || !says(r, "^stream 0 from block 4 on is not checked: the seal of block 4 is by key [0-9a-f]{16}, which was not given") {
		t.Errorf("the old key alone: %v, not checked %v", r.Problems, r.Unreadable)
	}
	r = verifyDir(t, dir, newer)
	if !r.Whole || !warns(r, "later seals, which are valid, cover the same blocks") {
		t.Errorf("the new key alone: %v %v, warnings %v", r.Problems, r.Unreadable, r.Warnings)
	}
	_, none := keyPair(t)
	r = verifyDir(t, dir, none)
	if r.Whole || len(r.Problems) > 0 || !says(r, "^all of stream 0 is not checked") {
		t.Errorf("another key: %v, not checked %v", r.Problems, r.Unreadable)
	}

	// what follows without any seal is damage as before: no run begins with it
	w.Seal(at, seal.ReasonStop, nil)
	note()
	if r = verifyDir(t, dir, both); len(r.Problems) == 0 {
		t.Errorf("a block behind a stop: %v", r.Warnings)
	}
}

// TestBlocksFromBeforeThereWasAKeyAreToldApart has a run that made no seals, with and without a key according to the
// record of its start.
func TestBlocksFromBeforeThereWasAKeyAreToldApart(t *testing.T) {
	for file, want := range map[string]string{
		"":              "stream 0: 2 blocks have no seal by the run of the server that wrote them, because it had no key",
		"/etc/steno/on": "stream 0: 2 blocks have no seal by the run of the server that wrote them, because it was killed",
	} {
		key, keys := keyPair(t)
		dir := t.TempDir()
		w := sealtest.NewWriter(t, dir, 0, key)
		at := int64(trailtest.Epoch)
		settings := []string{"event", "start", "run", "r1"}
		if file != "" {
			settings = append(settings, "steno.signing_key_file", file)
		}
		w.Put(&trailtest.Record{Kind: format.KindServer, Session: w.Session, Time: at, Extra: settings})
		w.Put(&trailtest.Record{Kind: format.KindNote, Session: w.Session, Text: "a note", Time: at})
		w.Restart(at + 1e6)
		w.Put(&trailtest.Record{Kind: format.KindServer, Session: w.Session, Time: at + 2e6, Extra: []string{"event", "start", "run", "r2", "steno.signing_key_file", "/etc/steno/on"}})
		w.Seal(at+3e6, seal.ReasonStop, nil)
		if r := verifyDir(t, dir, keys); !r.Whole || !warns(r, want) || len(r.Warnings) != 1 {
			t.Errorf("%q: %v, warnings %v", file, r.Problems, r.Warnings)
		}
	}
}

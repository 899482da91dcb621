package acknowledge

import (
	"crypto/ed25519"
	"os"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/seal"
)

// TestEveryChangeOfALineIsFound changes, takes out and swaps lines of a signed file.
func TestEveryChangeOfALineIsFound(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := seal.Keys{seal.KeyID(public): public}
	path := t.TempDir() + Suffix
	l := &List{}
	for _, reason := range []string{"one", "two", "three"} {
		e := &Entry{Problem: ID("0/1", nil, reason), File: "0/1", What: reason, By: "me", Time: "2026-01-01T00:00:00Z", Reason: reason}
		if err := l.Add(path, e, private); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	load := func(text string) *List {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Load(path, keys)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := load(string(data)); len(l.Entries) != 3 || len(l.Problems) > 0 {
		t.Fatalf("%d entries, %v", len(l.Entries), l.Problems)
	}
	lines := strings.SplitAfter(string(data), "\n")
	if l := load(lines[0] + lines[2]); len(l.Problems) != 1 {
		t.Errorf("without the second line: %v", l.Problems)
	}
	if l := load(lines[1] + lines[0] + lines[2]); len(l.Problems) == 0 {
		t.Error("swapped lines are not found")
	}
	for i := range data {
		if data[i] == '\n' {
			continue
		}
		changed := []byte(string(data))
		changed[i] ^= 1
		if l := load(string(changed)); len(l.Problems) == 0 {
			t.Errorf("a change of byte %d is not found: %s", i, lines[0])
		}
	}
}

// A file that is there and empty is like none.
func TestAnEmptyFileHasNoLines(t *testing.T) {
	path := t.TempDir() + Suffix
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := Load(path, nil)
	if err == nil {
		err = list.Add(path, &Entry{What: "x", Problem: ID("", nil, "x")}, nil)
	}
	if err == nil {
		list, err = Load(path, nil)
	}
	if err != nil || len(list.Entries) != 1 || len(list.Problems) != 0 {
		t.Errorf("%+v %v", list, err)
	}
}

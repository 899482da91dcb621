package seal

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func golden(t testing.TB) []*Seal {
	t.Helper()
	tr, err := trail.Open(trailtest.Golden(t) + "/seals")
	if err != nil {
		t.Fatal(err)
	}
	var seals []*Seal
	trailtest.EachRecord(t, tr, func(ref *trail.BlockRef, r *format.Record) {
		if r.Kind != format.KindSeal || ref.Segment.Stream.Number != 0 {
			return
		}
		s, err := Parse(r, &ref.Segment.Header)
		if err != nil {
			t.Fatal(err)
		}
		seals = append(seals, s)
	})
	return seals
}

// TestSealsOfTheServerAreRight checks what core/ has signed, and that each part of
// a seal is signed.
func TestSealsOfTheServerAreRight(t *testing.T) {
	keys, err := LoadKeys([]string{trailtest.Golden(t) + "/seals.pub"})
	if err != nil {
		t.Fatal(err)
	}
	seals := golden(t)
	if len(seals) != 6 {
		t.Fatalf("%d seals", len(seals))
	}
	for i, s := range seals {
		if s.NextKey != nil {
			keys[KeyID(s.NextKey)] = s.NextKey
		}
		if !s.Verify(keys[s.Key]) {
			t.Errorf("seal %d is not right", i)
		}
	}
	for name, change := range map[string]func(s *Seal){
		"system":   func(s *Seal) { s.SystemID++ },
		"stream":   func(s *Seal) { s.Stream++ },
		"segment":  func(s *Seal) { s.Segment++ },
		"block":    func(s *Seal) { s.Block++ },
		"record":   func(s *Seal) { s.Record++ },
		"first":    func(s *Seal) { s.First++ },
		"interval": func(s *Seal) { s.Interval++ },
		"time":     func(s *Seal) { s.Time++ },
		"hash":     func(s *Seal) { s.Hash[31] ^= 1 },
		"reason":   func(s *Seal) { s.Reason = "stop" },
		"next key": func(s *Seal) { s.NextKey = ed25519.PublicKey(make([]byte, 31, 32))[:32]; s.NextKey[0] = 1 },
	} {
		s := *seals[0]
		if change(&s); s.Verify(keys[s.Key]) {
			t.Errorf("%s is not signed", name)
		}
	}
}

func TestSealsThatAreNotAsTheFormatSaysAreRefused(t *testing.T) {
	good := map[string]string{
		"block": "1", "record": "2", "first": "1", "interval": "60", "hash": strings.Repeat("ab", 32), "key": strings.Repeat("01", 8),
		"signature": strings.Repeat("cd", 64), "reason": "interval",
	}
	if err := (&Seal{}).setValues(good); err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string][]string{
		"block": {"", "-1", "01", "1x", "18446744073709551616"}, "interval": {"4294967296"}, "hash": {"", "ab", strings.Repeat("AB", 32), strings.Repeat("xy", 32)},
		"key": {"", "01"}, "signature": {strings.Repeat("cd", 63)}, "reason": {"", "key", "more than 8"}, "next_key": {strings.Repeat("00", 32), "0"},
	} {
		for _, value := range values {
			bad := map[string]string{}
			for n, v := range good {
				bad[n] = v
			}
			bad[name] = value
			if err := (&Seal{}).setValues(bad); err == nil {
				t.Errorf("%s = %q is taken", name, value)
			}
		}
	}
}

func TestAnchorsAreReadAsTheyAreWritten(t *testing.T) {
	for _, s := range golden(t) {
		for _, signed := range []bool{true, false} {
			a := &Anchor{Seal: *s, Signed: signed}
			got, err := ParseAnchors(strings.NewReader("# a comment\n\n"+a.String()+" later=value\n"), "x")
			if err != nil || len(got) != 1 {
				t.Fatal(got, err)
			}
			if got[0].String() != a.String() || got[0].From != "x:3" || signed && string(got[0].Bytes()) != string(s.Bytes()) {
				t.Errorf("%s is read as %s", a, got[0])
			}
		}
	}
	line := (&Anchor{Seal: *golden(t)[0], Signed: true}).String()
	for _, bad := range []string{
		"", "hello", strings.Replace(line, "anchor 1", "anchor 2", 1), strings.Replace(line, "block=1", "block=x", 1),
		strings.Replace(line, " hash=", " hash=0", 1), strings.Replace(line, " time=2", " time=x", 1), line + " block=1", line + " word",
		strings.Replace(line, " signature=", " signature=0", 1), strings.Replace(line, " reason=start", "", 1),
	} {
		if _, err := ParseAnchors(strings.NewReader(bad), "x"); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}

func TestKeysAreReadAsTheyAreWritten(t *testing.T) {
	dir := t.TempDir()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := EncodePublic(public)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := EncodePrivate(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"one.pub": pem, "secret": secret, "garbage": []byte("x"), "notes.txt": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "one.pub")} {
		keys, err := LoadKeys([]string{path})
		if err != nil || len(keys) != 1 || !keys[KeyID(public)].Equal(public) {
			t.Errorf("%s: %v, %v", path, keys, err)
		}
	}
	for name, want := range map[string]string{"secret": "is a private key", "garbage": "not a key in PEM", "none": "no such file"} {
		if _, err := LoadKeys([]string{filepath.Join(dir, name)}); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzAnchors reads anchors of any text. No panic; what is taken, written again,
// is read as the same.
func FuzzAnchors(f *testing.F) {
	for _, s := range golden(f) {
		f.Add((&Anchor{Seal: *s, Signed: true}).String() + "\n# comment\n\n" + (&Anchor{Seal: *s}).String())
	}
	f.Add("pg_steno-anchor 1 time=2000-01-01T00:00:00Z later=value")
	f.Fuzz(func(t *testing.T, text string) {
		anchors, err := ParseAnchors(strings.NewReader(text), "x")
		if err != nil {
			return
		}
		for _, a := range anchors {
			again, err := ParseAnchors(strings.NewReader(a.String()), "x")
			if err != nil || len(again) != 1 {
				t.Fatalf("%s is not taken: %v", a, err)
			}
			if again[0].String() != a.String() || again[0].Signed != a.Signed || string(again[0].Bytes()) != string(a.Bytes()) {
				t.Errorf("%s is read as %s", a, again[0])
			}
		}
	})
}

// FuzzSeal takes a seal's pairs of any text. No panic; what is taken says all that
// is signed in one spelling, and has room in what is signed.
func FuzzSeal(f *testing.F) {
	f.Add("1", "2", "1", "60", strings.Repeat("ab", 32), strings.Repeat("01", 8), strings.Repeat("cd", 64), "interval", "", false)
	f.Add("18446744073709551615", "0", "0", "4294967295", strings.Repeat("00", 32), strings.Repeat("ff", 8), strings.Repeat("cd", 64), "key", strings.Repeat("12", 32), true)
	f.Fuzz(func(t *testing.T, block, record, first, interval, hash, key, signature, reason, next string, hasNext bool) {
		values := map[string]string{
			"block": block, "record": record, "first": first, "interval": interval, "hash": hash, "key": key,
			"signature": signature, "reason": reason,
		}
		if hasNext {
			values["next_key"] = next
		}
		var s Seal
		if s.setValues(values) != nil {
			return
		}
		a := &Anchor{Seal: s, Signed: true}
		if len(s.Bytes()) != signedSize || s.Reason != reason || s.Key != key || (s.NextKey != nil) != hasNext {
			t.Errorf("%v is taken as %s", values, a)
		}
		s.Verify(make([]byte, 32))
	})
}

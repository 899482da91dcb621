package seal

import (
	"strings"
	"testing"
)

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
		if s.fill(values) != nil {
			return
		}
		a := &Anchor{Seal: s, Signed: true}
		if len(s.Bytes()) != size || s.Reason != reason || s.Key != key || (s.NextKey != nil) != hasNext {
			t.Errorf("%v is taken as %s", values, a)
		}
		s.Verify(make([]byte, 32))
	})
}

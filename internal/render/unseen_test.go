package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// What is not seen, by Unicode's data and a list of what was found to look like nothing.
func TestWhatIsNotSeenIsEscaped(t *testing.T) {
	for _, r := range []rune{0x200b, 0x200d, 0x2060, 0xad, 0x34f, 0x180e, 0xfe0f, 0x3164, 0x115f, 0x2800, 0xe0061, 0xffa0, 0x17b4, 0x202e, 0x85, 0xa0, 0x3000, 0xe000} {
		name := "bo" + string(r) + "b"
		out := render(t, New(Text, Options{}), &trailtest.Record{Kind: format.KindStatement, Time: trailtest.Epoch, Text: name,
			Session: trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: name})})
		line := render(t, New(JSON, Options{}), &trailtest.Record{Kind: format.KindStatement, Time: trailtest.Epoch, Text: name,
			Session: trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: name})})
		for _, shown := range []string{Safe(name), Name(name), out, line, string(AppendCSV(nil, []byte(name), true))} {
			if strings.ContainsRune(shown, r) {
				t.Errorf("%U is shown as it is: %q", r, shown)
			}
		}
		var back struct{ User, Text string }
		if err := json.Unmarshal([]byte(line), &back); err != nil || back.User != name || back.Text != name {
			t.Errorf("%U: %v: JSON has %+q", r, err, back)
		}
	}
	for r := rune(0xa0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		seen := unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) && r != 0x2800 &&
			!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
		if unsafeRune(r) == seen {
			t.Fatalf("%U is seen: %t", r, seen)
		}
	}
	for _, text := range []string{"größe", "表", "Ω", "שלום", "e\u0301", "😀"} {
		if Safe(text) != text {
			t.Errorf("%s is shown as %s", text, Safe(text))
		}
	}
}

func TestNamesThatMixScriptsAreMarked(t *testing.T) {
	for name, want := range map[string]string{
		"admin":        "admin",
		"админ":        "админ",
		"\u0430dmin":   `"\u0430dmin"`,
		"app_кошка":    "app_кошка",
		"αdmin":        `"\u03b1dmin"`,
		"größe":        "größe",
		"日本のデータ":       "日本のデータ",
		"tokyo東京":      "tokyo東京",
		"Ωmega-x":      `"\u03a9mega-x"`,
		"x2\u0435":     `"x2\u0435"`,
		"re\u0301sume": "re\u0301sume",
	} {
		if got := Name(name); got != want {
			t.Errorf("%s is shown as %s, want %s", name, got, want)
		}
	}
}

// JSON through the writer has the same values, and nothing that is not seen.
func TestSafeJSONHasTheSameValues(t *testing.T) {
	for _, r := range []rune{'a', 0x7f, 0x85, 0x200b, 0x202e, 0x2800, 0xe0061, 0x1f600, 'é', '"', 0xfffd} {
		var out strings.Builder
		value := fmt.Sprintf("x%cy", r)
		if err := json.NewEncoder(SafeJSON(&out)).Encode(value); err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back != value {
			t.Errorf("%U: %v: %q comes back as %q", r, err, out.String(), back)
		}
		if r > 0x7e && unsafeRune(r) && strings.ContainsRune(out.String(), r) {
			t.Errorf("%U is in %q", r, out.String())
		}
	}
}

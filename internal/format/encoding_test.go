package format_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// shownTexts writes one block with a record for each encoding and text, and returns
// what a reader is shown.
func shownTexts(t *testing.T, pairs ...string) (texts, users, messages, params []string) {
	t.Helper()
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	shape := &trailtest.Shape{Command: "SELECT", Params: []format.ParamType{{OID: 25, Repr: format.ReprText}}}
	for i := 0; i < len(pairs); i += 2 {
		facts := []trailtest.Fact{{Key: format.KeyUser, Value: pairs[i+1]}}
		if pairs[i] != "" {
			facts = append(facts, trailtest.Fact{Key: format.KeyEncoding, Value: pairs[i]})
		}
		b.Add(&trailtest.Record{
			Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, uint32(i+1), facts...), Time: trailtest.Epoch + int64(i),
			Text: pairs[i+1], SQLState: "42601", Message: pairs[i+1], Shape: shape, Values: append([]byte{byte(len(pairs[i+1]))}, pairs[i+1]...),
		})
	}
	s.Write(t, b)
	err := trailtest.Open(t, dir).Index().Merge(context.Background(), trail.MergeOptions{
		Since: format.MinTime, Until: format.MaxTime, Warn: func(err error) { t.Error(err) },
		NewFormatter: func() trail.Formatter {
			return &trailtest.Each{Do: func(r *format.Record) {
				texts, messages = append(texts, string(r.Text)), append(messages, string(r.Message))
				users = append(users, string(r.Session.Fact(format.KeyUser)))
				r.Params(func(_ format.ParamType, v []byte, _ bool) bool {
					params = append(params, string(v))
					return true
				})
			}}
		},
	}, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return texts, users, messages, params
}

func TestTextsAreDecodedFromTheirDatabasesEncoding(t *testing.T) {
	cases := []string{ // encoding, bytes, what is shown
		"", "é 表 " + `\xe9`, "é 表 " + `\xe9`,
		"LATIN1", "caf\xe9 " + `\xe9`, "café " + `\xe9`,
		"LATIN9", "\xa4", "€",
		"WIN1252", "\x80 \x81", "€ \uFFFD81",
		"KOI8R", "\xc1", "а",
		"EUC_JP", "\xc9\xbd \xc9", "表 \uFFFDc9",
		"EUC_JP", "\x8e\xb1", "ｱ",
		"EUC_KR", "\xb0\xa1", "가",
		"EUC_CN", "\xb1\xed", "表",
		"EUC_TW", "\xc9\xbd", "\uFFFDc9\uFFFDbd",
		"SQL_ASCII", "\xe9 é", "\uFFFDe9 \uFFFDc3\uFFFDa9",
		"", "\xe9", "\uFFFDe9",
		"", "\uFFFDe9", "\uFFFD\uFFFDe9",
		"UNHEARD_OF", "\xe9", "\uFFFDe9",
		"LATIN1", "\xc3\xa9", "Ã©",
		"", "\xc3\xa9", "é", // the same bytes as before, a definition that is shared
		"SQL_ASCII", "\xc3\xa9", "\uFFFDc3\uFFFDa9",
	}
	var pairs []string
	for i := 0; i < len(cases); i += 3 {
		pairs = append(pairs, cases[i], cases[i+1])
	}
	texts, users, messages, params := shownTexts(t, pairs...)
	for i := range texts {
		encoding, stored, want := cases[3*i], cases[3*i+1], cases[3*i+2]
		for _, got := range []string{texts[i], messages[i], params[i]} {
			if got != want {
				t.Errorf("%s: %q is shown as %q, want %q", encoding, stored, got, want)
			}
		}
		// a role has one name, whatever the database
		if utf8.ValidString(stored) {
			want = strings.ReplaceAll(stored, "\uFFFD", "\uFFFD\uFFFD")
		}
		if users[i] != want {
			t.Errorf("%s: user %q is shown as %q, want %q", encoding, stored, users[i], want)
		}
		want = cases[3*i+2]
		if back, ok := format.Unshown(want, encoding); !ok || string(back) != stored {
			t.Errorf("%s: %q comes back as %q", encoding, stored, back)
		}
	}
}

func TestNamesOfSharedObjectsDoNotDependOnTheDatabase(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	for i, encoding := range []string{"LATIN1", "UTF8", "SQL_ASCII", "WIN1251"} {
		b.Add(&trailtest.Record{
			Kind: format.KindStatement, Time: trailtest.Epoch + int64(i),
			Session: trailtest.NewSession(trailtest.Epoch, uint32(i+1), trailtest.Fact{Key: format.KeyUser, Value: "Zo\xc3\xab"},
				trailtest.Fact{Key: format.KeyRole, Value: "Zo\xeb"}, trailtest.Fact{Key: format.KeyDatabase, Value: "d\xc3\xab"},
				trailtest.Fact{Key: format.KeyEncoding, Value: encoding}),
			Shape: &trailtest.Shape{Command: "GRANT", Objects: []trailtest.Object{
				{Action: format.ActionUse, Type: "role", Name: "Zo\xc3\xab"}, {Action: format.ActionAlter, Type: "table", Name: "t\xc3\xab"}}},
		})
	}
	s.Write(t, b)
	var got []string
	err := trailtest.Open(t, dir).Index().Merge(context.Background(), trail.MergeOptions{
		Since: format.MinTime, Until: format.MaxTime, Warn: func(err error) { t.Error(err) },
		NewFormatter: func() trail.Formatter {
			return &trailtest.Each{Do: func(r *format.Record) {
				got = append(got, strings.Join([]string{string(r.Session.Fact(format.KeyUser)), string(r.Session.Fact(format.KeyRole)),
					string(r.Session.Fact(format.KeyDatabase)), string(r.Shape.Objects[0].Name), string(r.Shape.Objects[1].Name)}, " "))
			}}
		},
	}, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Zoë Zoë dë Zoë tÃ«", "Zoë Zo\uFFFDeb dë Zoë të", "Zoë Zo\uFFFDeb dë Zoë t\uFFFDc3\uFFFDab", "Zoë Zoл dë Zoë tГ«"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestWhatIsShownCanBeTakenBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, encoding := range []string{"", "SQL_ASCII", "LATIN1", "LATIN10", "WIN1255", "KOI8U", "EUC_JP", "EUC_KR", "EUC_CN", "EUC_TW", "MULE_INTERNAL"} {
		var pairs []string
		for range 200 {
			b := make([]byte, 1+rng.IntN(12))
			for i := range b {
				b[i] = byte(rng.IntN(256))
				if rng.IntN(3) == 0 {
					b[i] |= 0xa0
				}
			}
			if rng.IntN(4) == 0 {
				b = append(b, "\uFFFD"...)
			}
			pairs = append(pairs, encoding, string(b))
		}
		texts, _, _, _ := shownTexts(t, pairs...)
		for i, text := range texts {
			back, ok := format.Unshown(text, encoding)
			if !utf8.ValidString(text) || !ok || !bytes.Equal(back, []byte(pairs[2*i+1])) {
				t.Fatalf("%s: %q is shown as %q, which comes back as %q, %v", encoding, pairs[2*i+1], text, back, ok)
			}
		}
	}
	if _, ok := format.Unshown("\uFFFDx", ""); ok {
		t.Error("half a mark is taken back")
	}
}

package statement

import (
	"math/rand/v2"
	"testing"
)

// A quote, or a comment, ends where a reader of one character after the other says.
func TestQuotesAndCommentsEnd(t *testing.T) {
	quote := func(s []byte, escapes bool) int {
		for i := 1; i < len(s); i++ {
			switch {
			case escapes && s[i] == '\\':
				i++
			case s[i] != s[0]:
			case i+1 < len(s) && s[i+1] == s[0]:
				i++
			default:
				return i + 1
			}
		}
		return len(s)
	}
	comment := func(s []byte) int {
		for i, depth := 0, 0; i+1 < len(s); i++ {
			switch string(s[i : i+2]) {
			case "/*":
				depth++
				i++
			case "*/":
				i++
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(s)
	}
	r := rand.New(rand.NewPCG(1, 2))
	of := func(begin, alphabet string) []byte {
		s := []byte(begin)
		for range r.IntN(20) {
			s = append(s, alphabet[r.IntN(len(alphabet))])
		}
		return s
	}
	for range 100_000 {
		for _, escapes := range []bool{false, true} {
			if s := of("'", `'\ab`); afterQuote(s, 0, escapes) != quote(s, escapes) {
				t.Fatalf("%s, escapes %t: ends at %d, want %d", s, escapes, afterQuote(s, 0, escapes), quote(s, escapes))
			}
		}
		if s := of("/*", "/* a"); afterComment(s, 0) != comment(s) {
			t.Fatalf("%s: ends at %d, want %d", s, afterComment(s, 0), comment(s))
		}
	}
}

func TestFingerprintsIgnoreConstants(t *testing.T) {
	var scratch []byte
	for _, same := range [][]string{
		{"SELECT * FROM t WHERE a = 1", "select  *\nfrom t where a=27.5e-3 -- x", "SELECT * FROM t /* 'x' /* y */ */ WHERE a = 'it''s';", "SELECT * FROM t WHERE a = E'it\\'s'", "SELECT * FROM t WHERE a = $q$ ' $ $q$", "SELECT * FROM t WHERE a = .5"},
		{"SELECT * FROM t WHERE a IN (1)", "SELECT * FROM t WHERE a IN (1, 2, 'x')"},
		{"SELECT * FROM t WHERE a = $1"}, {"SELECT * FROM t WHERE a = $2"}, {"SELECT * FROM t1 WHERE a = 1"}, {`SELECT * FROM "T" WHERE a = 1`}, {`SELECT * FROM "t" WHERE a = 1`},
		{"SELECT * FROM t WHERE a = 1 + 1"}, {"SELECT * FROM tWHERE a = 1"}, {"SELECT a b FROM t"}, {"SELECT ab FROM t"}, {"SELECT 'unfinished", "SELECT 1", "SELECT $x$unfinished"}, {""}, {"$", "$;"}, {"SELECT e 'x'"},
		{"SELECT $.5", "SELECT $.75;"},                                                      // no parameter: that ended in an endless loop
		{"SELECT a FROM t", "SELECT a /* x /* y */* z */ FROM t"},                           // the star behind a comment begins none
		{"SELECT f(E'a') + g('\\')", "SELECT f(E'b') + g('x')", "SELECT f('') + g(E'\\'')"}, // each string has its own escapes
	} {
		for i, text := range same {
			if TextFingerprint([]byte(text), &scratch) != TextFingerprint([]byte(same[0]), &scratch) {
				t.Errorf("%s (%d): %s", text, i, appendPlain(nil, []byte(text)))
			}
		}
		for _, other := range []string{"SELECT * FROM t WHERE b = 1", "SELECT a, b FROM t"} {
			if TextFingerprint([]byte(other), &scratch) == TextFingerprint([]byte(same[0]), &scratch) {
				t.Errorf("%s is as %s", same[0], other)
			}
		}
	}
	known := map[uint64]string{}
	for _, text := range []string{"SELECT * FROM t WHERE a = $1", "SELECT * FROM t WHERE a = $2", "SELECT * FROM t1 WHERE a = 1", `SELECT * FROM "T" WHERE a = 1`, `SELECT * FROM "t" WHERE a = 1`, "SELECT a b FROM t", "SELECT ab FROM t", "SELECT * FROM t WHERE a = 1 + 1", "SELECT 1a", "SELECT ä b", "SELECT äb"} {
		n := TextFingerprint([]byte(text), &scratch)
		if known[n] != "" {
			t.Errorf("%s is as %s", text, known[n])
		}
		known[n] = text
	}
}

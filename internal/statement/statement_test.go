package statement

import "testing"

func TestFingerprintsIgnoreConstants(t *testing.T) {
	var scratch []byte
	for _, same := range [][]string{
		{"SELECT * FROM t WHERE a = 1", "select  *\nfrom t where a=27.5e-3 -- x", "SELECT * FROM t /* 'x' /* y */ */ WHERE a = 'it''s';", "SELECT * FROM t WHERE a = E'it\\'s'", "SELECT * FROM t WHERE a = $q$ ' $ $q$", "SELECT * FROM t WHERE a = .5"},
		{"SELECT * FROM t WHERE a IN (1)", "SELECT * FROM t WHERE a IN (1, 2, 'x')"},
		{"SELECT * FROM t WHERE a = $1"}, {"SELECT * FROM t WHERE a = $2"}, {"SELECT * FROM t1 WHERE a = 1"}, {`SELECT * FROM "T" WHERE a = 1`}, {`SELECT * FROM "t" WHERE a = 1`},
		{"SELECT * FROM t WHERE a = 1 + 1"}, {"SELECT * FROM tWHERE a = 1"}, {"SELECT a b FROM t"}, {"SELECT ab FROM t"}, {"SELECT 'unfinished", "SELECT 1", "SELECT $x$unfinished"}, {""}, {"$", "$;"}, {"SELECT e 'x'"},
		{"SELECT $.5", "SELECT $.75;"}, // no parameter: that ended in an endless loop
	} {
		for i, text := range same {
			if OfText([]byte(text), &scratch) != OfText([]byte(same[0]), &scratch) {
				t.Errorf("%s (%d): %s", text, i, appendPlain(nil, []byte(text)))
			}
		}
		for _, other := range []string{"SELECT * FROM t WHERE b = 1", "SELECT a, b FROM t"} {
			if OfText([]byte(other), &scratch) == OfText([]byte(same[0]), &scratch) {
				t.Errorf("%s is as %s", same[0], other)
			}
		}
	}
	known := map[uint64]string{}
	for _, text := range []string{"SELECT * FROM t WHERE a = $1", "SELECT * FROM t WHERE a = $2", "SELECT * FROM t1 WHERE a = 1", `SELECT * FROM "T" WHERE a = 1`, `SELECT * FROM "t" WHERE a = 1`, "SELECT a b FROM t", "SELECT ab FROM t", "SELECT * FROM t WHERE a = 1 + 1", "SELECT 1a"} {
		n := OfText([]byte(text), &scratch)
		if known[n] != "" {
			t.Errorf("%s is as %s", text, known[n])
		}
		known[n] = text
	}
}

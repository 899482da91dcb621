package statement

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkOfText is what a fingerprint of a long text costs: of a constant, of words, and of all characters.
func BenchmarkOfText(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	const size = 100_000
	of := func(alphabet string) string {
		out := make([]byte, size)
		for i := range out {
			out[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(out)
	}
	letters := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for name, text := range map[string]string{
		"constant": "SELECT length('" + of(letters+"      ,.;-") + "')", "words": "SELECT " + of("abcdefghijklmnopqrstuvwxyz        "),
		"comment": "SELECT /* " + strings.ReplaceAll(of(letters+"    *"), "*/", "") + " */ 1", "all": of(letters + "     ,.-_()[]+*/=<>$'"),
		"escapes": "SELECT E'" + strings.Repeat(`\\`, size/2) + "'",
		"dollars": "DO $x$" + of(letters+"$   ") + "$x$", "list": "SELECT a IN (" + strings.Repeat("12345, ", size/7) + "0)",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var scratch []byte
			for b.Loop() {
				TextFingerprint([]byte(text), &scratch)
			}
		})
	}
}

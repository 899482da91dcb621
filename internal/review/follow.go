// The commands that show the records behind an answer.

package review

import (
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// cat is a command line that shows records of the period: flags and their values.
func (s *Source) cat(flags ...string) string {
	words := []string{"steno", "cat"}
	for i, f := range flags {
		if i > 0 && slices.Contains([]string{"--role", "--user", "--app-user", "--database"}, flags[i-1]) {
			f = query.ListValue(f)
		}
		words = append(words, shellWord(f))
	}
	if s.Since > trail.MinTime {
		words = append(words, "--since", render.Time(s.Since))
	}
	if s.Until < trail.MaxTime {
		words = append(words, "--until", render.Time(s.Until))
	}
	for _, t := range s.Trails {
		words = append(words, shellWord(t))
	}
	return strings.Join(words, " ")
}

// shellWord is a word that a shell reads as it is.
func shellWord(s string) string {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_./:=,@%+", c) >= 0) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	if s == "" {
		return "''"
	}
	return s
}

// Command lines that show the records of criteria.

package flags

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
)

// Cat has what command lines of "steno cat" need besides filters. They name files with keys, but no commands that
// print keys: such a command may contain a key, and other people read the answer.
type Cat struct {
	Zone   string // empty: UTC
	Keys   query.KeyOptions
	Trails []string
}

// Line returns a command line that shows the records of a range that match criteria.
func (c *Cat) Line(asked *query.Criteria, within query.Range) string {
	words := []string{"steno", "cat"}
	if within.Since != format.MinTime {
		words = append(words, "--since", exactTime(within.Since))
	}
	if within.Until != format.MaxTime {
		words = append(words, "--until", exactTime(within.Until))
	}
	words = append(words, CriteriaFlags(asked)...)
	if c.Zone != "" && c.Zone != "UTC" {
		words = append(words, "--time-zone", ShellWord(c.Zone))
	}
	for _, f := range c.Keys.Files {
		words = append(words, "--encryption-key-file", ShellWord(f))
	}
	for _, t := range c.Trails {
		if strings.HasPrefix(t, "-") {
			t = "./" + t
		}
		words = append(words, ShellWord(t))
	}
	return strings.Join(words, " ")
}

// exactTime returns a time of the trail to the microsecond.
func exactTime(usec int64) string {
	return query.Moment(usec).Format("2006-01-02T15:04:05.999999Z")
}

// CriteriaFlags returns the flags of criteria, as words of a shell.
func CriteriaFlags(asked *query.Criteria) (words []string) {
	not := asked.Not
	if not == nil {
		not = &query.Criteria{}
	}
	for _, one := range []struct {
		prefix string
		*query.Criteria
	}{{"--", asked}, {"--not-", not}} {
		for _, f := range append(slices.Clone(lists), list{name: "fingerprint"}) { // as in the help
			var together []string
			for _, v := range f.filter().Values(one.Criteria) {
				if f.whole {
					words = append(words, one.prefix+f.name, ShellWord(v))
				} else {
					together = append(together, listValue(v))
				}
			}
			if len(together) > 0 {
				words = append(words, one.prefix+f.name, ShellWord(strings.Join(together, ",")))
			}
		}
	}
	if asked.MinDuration != nil {
		words = append(words, "--min-duration", query.DurationText(*asked.MinDuration))
	}
	for _, b := range []struct {
		name string
		set  bool
	}{{"failed", asked.Failed}, {"top-level", asked.TopLevel}, {"off-hours", asked.OffHours != nil}} {
		if b.set {
			words = append(words, "--"+b.name)
		}
	}
	return words
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord quotes a word for shells. Characters that a terminal or a reader could misinterpret become escapes, which
// bash, zsh and ksh know.
func ShellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	if render.Safe(s) == s && utf8.ValidString(s) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

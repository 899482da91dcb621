// Blocks that can match a pattern, by strings that each match must contain.

package query

import (
	"regexp"
	"regexp/syntax"
	"unicode"

	"github.com/pg-steno/pg_steno/internal/format"
)

// grepContents selects the groups of an index in which one of the patterns may match a text, a message, or a
// parameter.
func grepContents(patterns []*regexp.Regexp) func(*format.Contents) format.Groups {
	var all []*syntax.Regexp
	for _, p := range patterns {
		re, err := syntax.Parse(p.String(), syntax.Perl)
		if err != nil {
			return func(c *format.Contents) format.Groups { return c.All() }
		}
		all = append(all, re.Simplify())
	}
	return func(c *format.Contents) format.Groups {
		g := mayMatch(c, all[0], c.SelectText)
		for i, re := range all {
			if i > 0 {
				g.Or(mayMatch(c, re, c.SelectText))
			}
			g.Or(mayMatch(c, re, c.SelectValue))
		}
		return g
	}
}

// mayMatch selects the groups in which an expression may match a string; contains selects those in which a
// string may contain a literal.
func mayMatch(c *format.Contents, re *syntax.Regexp, contains func(string) format.Groups) format.Groups {
	switch re.Op {
	case syntax.OpLiteral:
		g := c.All()
		for _, s := range literals(re) {
			g.And(contains(s))
		}
		return g
	case syntax.OpConcat:
		g := c.All()
		for _, sub := range re.Sub {
			g.And(mayMatch(c, sub, contains))
		}
		return g
	case syntax.OpAlternate:
		g := mayMatch(c, re.Sub[0], contains)
		for _, sub := range re.Sub[1:] {
			g.Or(mayMatch(c, sub, contains))
		}
		return g
	case syntax.OpCapture, syntax.OpPlus:
		return mayMatch(c, re.Sub[0], contains)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return mayMatch(c, re.Sub[0], contains)
		}
	case syntax.OpNoMatch:
		g := c.All()
		clear(g)
		return g
	}
	return c.All()
}

// literals returns the parts of a literal that are printable ASCII. If case is ignored, they exclude letters
// that match others than ASCII, as k matches the Kelvin sign.
func literals(re *syntax.Regexp) (all []string) {
	var part []byte
	end := func() {
		if len(part) > 0 {
			all = append(all, string(part))
		}
		part = nil
	}
	for _, r := range re.Rune {
		if r < 0x20 || r > 0x7e || re.Flags&syntax.FoldCase != 0 && foldsBeyondASCII(r) {
			end()
			continue
		}
		part = append(part, byte(r))
	}
	end()
	return all
}

func foldsBeyondASCII(r rune) bool {
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if f > unicode.MaxASCII {
			return true
		}
	}
	return false
}

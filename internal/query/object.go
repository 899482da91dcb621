package query

import (
	"regexp"
	"strings"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// objectPatterns makes regular expressions of names with wildcards.
func objectPatterns(names []string) []*regexp.Regexp {
	var patterns []*regexp.Regexp
	for _, n := range names {
		p := strings.ReplaceAll(regexp.QuoteMeta(n), `\*`, ".*")
		patterns = append(patterns, regexp.MustCompile("^(?s:"+p+")$"))
	}
	return patterns
}

// usesObject says whether a relation or an object of a shape has a name that
// fits: as it stands, or without its schema.
func usesObject(s *trail.Shape, patterns []*regexp.Regexp) bool {
	fits := func(name []byte) bool {
		for _, p := range patterns {
			if p.Match(name) || p.Match(unqualified(name)) {
				return true
			}
		}
		return false
	}
	for i := range s.Relations {
		if fits(s.Relations[i].Name) {
			return true
		}
	}
	for i := range s.Objects {
		if o := &s.Objects[i]; fits(o.Name) || len(o.To) > 0 && fits(o.To) {
			return true
		}
	}
	return false
}

// unqualified is a name without the schema before it. A dot inside double
// quotes is part of a name, as are those in the arguments of a function.
func unqualified(name []byte) []byte {
	quoted := false
	for i, c := range name {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '(' && !quoted:
			return name
		case c == '.' && !quoted:
			return name[i+1:]
		}
	}
	return name
}

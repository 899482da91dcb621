// Names of relations and objects: which ones a filter finds, however records spell them.

package query

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// hasBareNames returns whether a shape has names without a schema.
func hasBareNames(s *format.Shape) bool {
	return s != nil && slices.ContainsFunc(s.Relations, func(r format.Relation) bool { return isBare(&r) })
}

// isBare returns whether a relation was not looked up and is named without a schema.
func isBare(r *format.Relation) bool {
	return r.Access&format.AccessWritten != 0 && lastDot(string(r.Name)) < 0
}

// searchPath returns the schemas in which names of a record without a schema were looked up, including those
// that the server always searches; nil: not known.
func searchPath(r *format.Record) []string {
	value, ok := r.SearchPath()
	if !ok {
		return nil
	}
	path := []string{"pg_catalog", "pg_temp"}
	quoted, begin := false, 0
	for i := 0; i <= len(value); i++ {
		switch {
		case i < len(value) && value[i] == '"':
			quoted = !quoted
		case i == len(value) || value[i] == ',' && !quoted:
			schema := strings.TrimSpace(string(value[begin:i]))
			if schema == `"$user"` { // the name of the role is not known here
				return nil
			}
			if schema != "" {
				path = append(path, schema)
			}
			begin = i + 1
		}
	}
	return path
}

// objectPattern is a name with wildcards: of a relation or object, or of a column after that of its relation.
type objectPattern struct {
	whole *regexp.Regexp
	// relation is the part before the last dot; nil: there is none.
	relation *regexp.Regexp
	// bare and bareRelation match the same names without a schema, which may be any.
	bare, bareRelation *regexp.Regexp
}

// objectPatterns compiles names with wildcards.
func objectPatterns(names []string) []objectPattern {
	compile := func(name string) *regexp.Regexp {
		return regexp.MustCompile("^(?s:" + strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, ".*") + ")$")
	}
	var patterns []objectPattern
	for _, name := range names {
		for _, n := range spellings(name) {
			p := objectPattern{whole: compile(n), bare: compile(withoutSchema(n))}
			if i := lastDot(n); i >= 0 {
				p.relation, p.bareRelation = compile(n[:i]), compile(withoutSchema(n[:i]))
			}
			patterns = append(patterns, p)
		}
	}
	return patterns
}

var plainQuoted = regexp.MustCompile(`"([a-z_][a-z0-9_$]*)"`)

// spellings returns the spellings under which the server may record a name: without quotes it is in lower case,
// unnecessary quotes are omitted, and quotes are added that SQL does not require everywhere (after a dot, or
// for letters that are not ASCII).
func spellings(name string) []string {
	folded, quoted := []byte(name), false
	for i, c := range folded {
		switch {
		case c == '"':
			quoted = !quoted
		case !quoted && 'A' <= c && c <= 'Z':
			folded[i] += 'a' - 'A'
		}
	}
	plain := plainQuoted.ReplaceAllString(string(folded), "$1")
	all := append(quotedParts(plain, mostParts), name, string(folded), plain)
	slices.Sort(all)
	return slices.Compact(all)
}

// mostParts is the largest number of parts of a name: database, schema, table, column. Each part doubles the
// spellings. Of a name with more parts, the first ones are not varied.
const mostParts = 4

// quotedParts returns a name with quotes around some of its last parts that have none.
func quotedParts(name string, parts int) []string {
	if strings.IndexByte(name, '(') >= 0 || parts == 0 { // the arguments of a function are types
		return nil
	}
	dot := lastDot(name)
	last := name[dot+1:]
	all := []string{last}
	if last != "" && last[0] != '"' {
		all = append(all, `"`+last+`"`)
	}
	if dot < 0 {
		return all
	}
	var both []string
	for _, before := range append(quotedParts(name[:dot], parts-1), name[:dot]) {
		for _, spelling := range all {
			both = append(both, before+"."+spelling)
		}
	}
	return both
}

// withoutSchema returns a pattern for the same names without their schema. In a pattern without a dot, a
// wildcard may stand for the schema and the beginning of the name.
func withoutSchema(pattern string) string {
	if dot := lastDot(pattern); dot >= 0 {
		return pattern[dot+1:]
	}
	if star := strings.LastIndexByte(pattern, '*'); star >= 0 {
		return pattern[star:]
	}
	return pattern
}

// lastDot returns the index of the last dot outside of double quotes; -1: there is none.
func lastDot(name string) int {
	last, quoted := -1, false
	for i, c := range []byte(name) {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			last = i
		}
	}
	return last
}

// fits returns whether a name matches, with or without its schema.
func fits(re *regexp.Regexp, name []byte) bool {
	return re.Match(name) || re.Match(unqualified(name))
}

// fitsColumn returns whether the pattern names a used column of a relation. The whole row counts as each
// column. So do columns that the record leaves out, which are all if it does not say which columns are used.
func (p *objectPattern) fitsColumn(r *format.Relation) bool {
	if p.relation == nil {
		return false
	}
	if !r.HasColumns {
		return r.Access&(format.AccessSelect|format.AccessInsert|format.AccessUpdate) != 0 && fits(p.relation, r.Name)
	}
	if r.Omitted != 0 && fits(p.relation, r.Name) {
		return true
	}
	for _, c := range r.Columns {
		if string(c.Name) == format.WholeRow {
			if fits(p.relation, r.Name) {
				return true
			}
			continue
		}
		if fits(p.whole, slices.Concat(r.Name, []byte("."), c.Name)) {
			return true
		}
	}
	return false
}

// fitsWritten returns whether the pattern may name a relation without a schema, or its column, in a statement
// that failed before it was looked up. The schemas of the path are tried; nil: any.
func (p *objectPattern) fitsWritten(r *format.Relation, path []string) bool {
	if !isBare(r) {
		return false
	}
	if path == nil {
		return p.bare.Match(r.Name) || p.bareRelation != nil && p.bareRelation.Match(r.Name)
	}
	return slices.ContainsFunc(path, func(schema string) bool {
		name := slices.Concat([]byte(schema), []byte("."), r.Name)
		return p.whole.Match(name) || p.relation != nil && p.relation.Match(name)
	})
}

// usesObject returns whether a relation or object of a shape, or a column of a relation, matches, with or
// without its schema.
func usesObject(s *format.Shape, patterns []objectPattern, path []string) bool {
	for _, p := range patterns {
		for i := range s.Relations {
			if r := &s.Relations[i]; fits(p.whole, r.Name) || p.fitsColumn(r) || p.fitsWritten(r, path) {
				return true
			}
		}
		for i := range s.Objects {
			if o := &s.Objects[i]; fitsObject(p.whole, o.Name) || len(o.To) > 0 && fitsObject(p.whole, o.To) {
				return true
			}
		}
	}
	return false
}

// fitsObject does so for an object. DDL records the arguments of functions, calls do not.
func fitsObject(re *regexp.Regexp, name []byte) bool {
	if fits(re, name) {
		return true
	}
	bare := withoutArguments(name)
	return len(bare) < len(name) && fits(re, bare)
}

// withoutArguments returns the name of a function without its arguments, and other names unchanged.
func withoutArguments(name []byte) []byte {
	quoted := false
	for i, c := range name {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '(' && !quoted && i > 0:
			return name[:i]
		}
	}
	return name
}

// unqualified returns a name without its schema. Dots within double quotes, and within the arguments of a
// function, do not count.
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

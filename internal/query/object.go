// Names of relations and objects: what a filter by them finds, however records spell them.

package query

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// hasBareNames says whether a shape has names that are written without a schema.
func hasBareNames(s *format.Shape) bool {
	return s != nil && slices.ContainsFunc(s.Relations, func(r format.Relation) bool { return isBare(&r) })
}

// isBare says whether a relation is one that was not looked up, and is named without a schema.
func isBare(r *format.Relation) bool {
	return r.Access&format.AccessWritten != 0 && lastDot(string(r.Name)) < 0
}

// searchPath is the schemas in which the names of a record were looked for that are written without one, nil if
// that is not known. Those that the server searches without being told are among them.
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
			if schema == `"$user"` { // the name of the role was not known
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

// objectPattern is a name with wildcards: one of a relation or object, or of a column with
// that of its relation before it.
type objectPattern struct {
	whole *regexp.Regexp
	// relation is what stands before the last dot; nil if there is none.
	relation *regexp.Regexp
	// bare and bareRelation find the same names if they are written without a schema, which may be any.
	bare, bareRelation *regexp.Regexp
}

// objectPatterns makes regular expressions of names with wildcards.
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

// spellings are a name as it is written, and as the server may spell it: without quotes it is in lower case,
// quotes that are not necessary are omitted, and those that a record has, though SQL does not need them
// everywhere (after a dot, or for letters that are not ASCII), are added.
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

// mostParts is how many parts a name has at most: a database, a schema, a table, a column. There are two names
// for each of them, so of one in a trail that has more, what is before the last ones is as it is.
const mostParts = 4

// quotedParts are a name with quotes around some of its parts, of the last so many, that have none.
func quotedParts(name string, parts int) []string {
	if strings.IndexByte(name, '(') >= 0 || parts == 0 { // a function's arguments are types
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
		for _, one := range all {
			both = append(both, before+"."+one)
		}
	}
	return both
}

// withoutSchema is a pattern for what another one finds if the schema before it may be any. Without a dot, a
// wildcard may stand for the schema and for the beginning of the name.
func withoutSchema(pattern string) string {
	if dot := lastDot(pattern); dot >= 0 {
		return pattern[dot+1:]
	}
	if star := strings.LastIndexByte(pattern, '*'); star >= 0 {
		return pattern[star:]
	}
	return pattern
}

// lastDot is where the last dot outside double quotes is, -1 if there is none.
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

// fits says whether a name matches, as it stands or without its schema.
func fits(re *regexp.Regexp, name []byte) bool {
	return re.Match(name) || re.Match(unqualified(name))
}

// fitsColumn says whether the pattern names a column of a relation that is used. The whole
// row is each of its columns, and so may be those that the record leaves out: all of them, in a
// record that does not say which columns it reads and writes.
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

// fitsWritten says whether a relation that is named without a schema, in a statement that failed before it was looked
// up, may be the one of the pattern, or has its column: it is looked for in the schemas of a path; nil: in any.
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

// usesObject says whether a relation or an object of a shape, or a column of a relation, has a
// name that fits: as it stands, or without its schema.
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

// fitsObject says the same of an object: DDL of a function names its arguments, calls do not.
func fitsObject(re *regexp.Regexp, name []byte) bool {
	if fits(re, name) {
		return true
	}
	bare := withoutArguments(name)
	return len(bare) < len(name) && fits(re, bare)
}

// withoutArguments is the name of a function without its arguments, or any other name.
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

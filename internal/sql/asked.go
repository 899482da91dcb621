// Finds the values with which a statement compares columns that have names, such as users and relations, so
// that Run can warn of names that no record has.

package sql

import (
	"context"
	"regexp"
	"strings"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// noteNames notes the values with which an expression compares columns of a table. It skips subqueries, which
// walk visits separately.
func (p *pusher) noteNames(v any, f *from, alone bool) {
	switch v := v.(type) {
	case []any:
		for _, part := range v {
			p.noteNames(part, f, alone)
		}
	case node:
		p.noteComparison(v, f, alone)
		for _, part := range v {
			if inner, _ := part.(node); inner["type"] != "SELECT_NODE" {
				p.noteNames(part, f, alone)
			}
		}
	}
}

// noteComparison notes the values that a comparison compares a column with.
func (p *pusher) noteComparison(n node, f *from, alone bool) {
	children, _ := n["children"].([]any)
	var column string
	var values []any
	matcher := func(string) func(string) bool { return nil }
	switch t := stringOf(n["type"]); {
	case t == "COMPARE_EQUAL" || t == "COMPARE_NOTEQUAL" || t == "COMPARE_DISTINCT_FROM" ||
		t == "COMPARE_NOT_DISTINCT_FROM":
		if column, values = f.namedColumn(n["left"], alone), []any{n["right"]}; column == "" {
			column, values = f.namedColumn(n["right"], alone), []any{n["left"]}
		}
	case (t == "COMPARE_IN" || t == "COMPARE_NOT_IN") && len(children) > 1:
		column, values = f.namedColumn(children[0], alone), children[1:]
	case t == "FUNCTION" && len(children) == 2:
		name := stringOf(n["function_name"])
		matcher = func(pattern string) func(string) bool { return patternMatcher(name, pattern) }
		if matcher("") != nil {
			column, values = f.namedColumn(children[0], alone), children[1:]
		}
	}
	if column == "" {
		return
	}
	for _, v := range values {
		if s, ok := constant(v); ok {
			p.compared = append(p.compared, query.Comparison{Column: column, Value: s, Is: matcher(s)})
		}
	}
}

// filtersOfRenamed returns filters that find renames of the compared names. There is one for each column,
// because a statement does not have to ask for all of them together.
func filtersOfRenamed(asked []query.Comparison) (all []*query.Filter) {
	for column, list := range map[string]func(*query.Criteria) *[]string{
		"relation": func(c *query.Criteria) *[]string { return &c.Objects },
		"user":     func(c *query.Criteria) *[]string { return &c.Users },
		"role":     func(c *query.Criteria) *[]string { return &c.Roles },
		"database": func(c *query.Criteria) *[]string { return &c.Databases },
	} {
		var c query.Criteria
		for _, name := range asked {
			if name.Column == column && name.Is == nil && name.Value != "" {
				*list(&c) = append(*list(&c), name.Value)
			}
		}
		if len(*list(&c)) > 0 {
			all = append(all, c.Filter())
		}
	}
	return all
}

// warnOfRenames warns of renames of these names, within the time in which records are read and outside of it.
func (db *DB) warnOfRenames(ctx context.Context, x *trail.Index, filters []*query.Filter) {
	for _, f := range filters {
		for _, warning := range f.RenamedWithin(ctx, x, db.options.Since, db.options.Until) {
			db.warn(warning)
		}
		for _, warning := range f.RenamedOutside(ctx, x, db.options.Since, db.options.Until) {
			db.warn(warning)
		}
	}
}

// namedColumn returns the column that an expression refers to; empty if it is none whose values are names.
func (f *from) namedColumn(v any, alone bool) string {
	name := f.columnName(v, alone)
	if !query.HasNames(name) {
		return ""
	}
	return name
}

// patternMatcher returns a function that matches values as a SQL function matches a pattern; nil: that SQL
// function does not compare with patterns.
func patternMatcher(function, pattern string) func(string) bool {
	quoted := regexp.QuoteMeta(pattern)
	expression := ""
	switch function {
	case "~~", "!~~":
		expression = "^" + likePattern(pattern) + "$"
	case "~~*", "!~~*":
		expression = "(?i)^" + likePattern(pattern) + "$"
	case "contains":
		expression = quoted
	case "starts_with", "prefix", "^@":
		expression = "^" + quoted
	case "ends_with", "suffix":
		expression = quoted + "$"
	default:
		return nil
	}
	re, err := regexp.Compile("(?s)" + expression)
	if err != nil {
		return nil
	}
	return re.MatchString
}

// likePattern returns a regular expression for a pattern of LIKE.
func likePattern(pattern string) string {
	return strings.NewReplacer("%", ".*", "_", ".").Replace(regexp.QuoteMeta(pattern))
}

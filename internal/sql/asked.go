// Finds the values with which a statement compares columns of records that have names, so that those that occur nowhere
// are told.

package sql

import (
	"context"
	"regexp"
	"strings"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// ask notes the values with which an expression compares columns of a table. Other tables of subqueries are looked at by
// themselves.
func (p *pusher) ask(v any, f *from, alone bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			p.ask(one, f, alone)
		}
	case node:
		p.compared(v, f, alone)
		for _, one := range v {
			if inner, _ := one.(node); inner["type"] != "SELECT_NODE" {
				p.ask(one, f, alone)
			}
		}
	}
}

// compared notes the values of a comparison.
func (p *pusher) compared(n node, f *from, alone bool) {
	children, _ := n["children"].([]any)
	var column string
	var values []any
	matcher := func(string) func(string) bool { return nil }
	switch t := stringOf(n["type"]); {
	case t == "COMPARE_EQUAL" || t == "COMPARE_NOTEQUAL" || t == "COMPARE_DISTINCT_FROM" || t == "COMPARE_NOT_DISTINCT_FROM":
		if column, values = f.named(n["left"], alone), []any{n["right"]}; column == "" {
			column, values = f.named(n["right"], alone), []any{n["left"]}
		}
	case (t == "COMPARE_IN" || t == "COMPARE_NOT_IN") && len(children) > 1:
		column, values = f.named(children[0], alone), children[1:]
	case t == "FUNCTION" && len(children) == 2:
		name := stringOf(n["function_name"])
		matcher = func(pattern string) func(string) bool { return matching(name, pattern) }
		if matcher("") != nil {
			column, values = f.named(children[0], alone), children[1:]
		}
	}
	if column == "" {
		return
	}
	for _, v := range values {
		if s, ok := constant(v); ok {
			p.asked = append(p.asked, query.Asked{Column: column, Value: s, Is: matcher(s)})
		}
	}
}

// changing are filters by the names that something else may have had, or have got: one for each column, because a
// statement need not ask for all of them together.
func changing(asked []query.Asked) (all []*query.Filter) {
	for column, list := range map[string]func(*query.Criteria) *[]string{
		"relation": func(c *query.Criteria) *[]string { return &c.Objects }, "user": func(c *query.Criteria) *[]string { return &c.Users },
		"role": func(c *query.Criteria) *[]string { return &c.Roles }, "database": func(c *query.Criteria) *[]string { return &c.Databases },
	} {
		var c query.Criteria
		for _, one := range asked {
			if one.Column == column && one.Is == nil && one.Value != "" {
				*list(&c) = append(*list(&c), one.Value)
			}
		}
		if len(*list(&c)) > 0 {
			all = append(all, c.Filter())
		}
	}
	return all
}

// renamed tells of renames of such names, in the time in which records are read and outside of it.
func (db *DB) renamed(ctx context.Context, x *trail.Index, filters []*query.Filter) {
	for _, f := range filters {
		for _, lacks := range f.RenamedWithin(ctx, x, db.options.Since, db.options.Until) {
			db.warn(lacks)
		}
		for _, lacks := range f.RenamedOutside(ctx, x, db.options.Since, db.options.Until) {
			db.warn(lacks)
		}
	}
}

// named is the column of the table that an expression is, if it has names; else empty.
func (f *from) named(v any, alone bool) string {
	name := f.columnName(v, alone)
	if !query.HasNames(name) {
		return ""
	}
	return name
}

// matching says which values a function chooses that compares a value with a pattern; nil: it is none.
func matching(function, pattern string) func(string) bool {
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

// likePattern is a regular expression for a pattern of LIKE.
func likePattern(pattern string) string {
	return strings.NewReplacer("%", ".*", "_", ".").Replace(regexp.QuoteMeta(pattern))
}

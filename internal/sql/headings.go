// Gives unnamed columns the names that PostgreSQL would give them: that of the function that is called, "count"
// instead of DuckDB's "count_star()". The parsed statement tells which expression a column is, and where in the
// text it was written.

package sql

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// heading has the possible names of a column whose expression has no alias.
type heading struct {
	isStar       bool   // any number of columns
	duckdbName   string // as DuckDB names it; empty: not known
	postgresName string // used if no other column has that name; empty: PostgreSQL gives it none
	text         string // of the expression, in which only count(*) differs from duckdbName
}

// headingsOf returns the headings of each statement.
func (db *DB) headingsOf(tree node, source string) (all [][]heading) {
	statements, _ := tree["statements"].([]any)
	for _, s := range statements {
		statement, _ := s.(node)
		var list []heading
		for _, v := range selectList(statement["node"]) {
			n, _ := v.(node)
			list = append(list, db.heading(n, source))
		}
		all = append(all, list)
	}
	return all
}

// selectList returns the expressions from which a statement's columns get their names.
func selectList(v any) []any {
	n, _ := v.(node)
	switch n["type"] {
	case "SELECT_NODE":
		list, _ := n["select_list"].([]any)
		return list
	case "SET_OPERATION_NODE":
		if n["setop_type"] != "UNION_BY_NAME" {
			return selectList(n["left"])
		}
	case "CTE_NODE":
		return selectList(n["child"])
	}
	return nil
}

func (db *DB) heading(n node, source string) heading {
	if isSeveralColumns(n) {
		return heading{isStar: true}
	}
	if n["alias"] != "" || n["type"] == "COLUMN_REF" {
		return heading{}
	}
	name, counts := postgresNameOf(n, source), contains(n, "", isCountStar)
	if name == "" && !counts {
		return heading{}
	}
	was, err := db.text(n)
	if err != nil {
		return heading{}
	}
	h := heading{duckdbName: was, postgresName: name, text: was}
	if contains(n, "", func(n node) bool { return n["class"] == "CAST" }) {
		h.duckdbName, h.text = "", "" // DuckDB writes the type in another way than parsed
	} else if counts {
		if text, err := db.text(withCountStar(n)); err == nil {
			h.text = text
		}
	}
	return h
}

// isSeveralColumns returns whether an expression may stand for several columns.
func isSeveralColumns(n node) bool {
	isStar := func(n node) bool { return n["class"] == "STAR" }
	return n["function_name"] == "unnest" || contains(n, "SELECT_NODE", isStar)
}

// postgresNameOf returns the name that PostgreSQL gives the column of an expression; empty if it gives none, or
// that is not certain.
func postgresNameOf(n node, source string) string {
	if alias := stringOf(n["alias"]); alias != "" {
		return alias
	}
	switch n["class"] {
	case "FUNCTION", "WINDOW":
		if n["is_operator"] != true {
			return functionNameAt(stringOf(n["function_name"]), source, n["query_location"])
		}
	case "COLUMN_REF":
		if names, _ := n["column_names"].([]any); len(names) > 0 {
			return stringOf(names[len(names)-1])
		}
	case "CAST":
		if child, _ := n["child"].(node); child["class"] != "CONSTANT" {
			return postgresNameOf(child, source)
		}
	case "SUBQUERY":
		switch n["subquery_type"] {
		case "EXISTS":
			return "exists"
		case "SCALAR":
			inner, _ := n["subquery"].(node)
			if list := selectList(inner["node"]); len(list) == 1 {
				column, _ := list[0].(node)
				return postgresNameOf(column, source)
			}
		}
	}
	return ""
}

// callStart matches a function's name and the opening parenthesis.
var callStart = regexp.MustCompile(`^(?:([A-Za-z_][A-Za-z0-9_]*)|"([^"]+)")\s*\(`)

// functionNameAt returns the name of a function if the statement calls it by that name. Some syntax is parsed
// as a call of a function that the text does not name.
func functionNameAt(function, source string, at any) string {
	if function == "count_star" {
		function = "count"
	}
	number, _ := at.(json.Number)
	i, err := number.Int64()
	if err != nil || i >= int64(len(source)) {
		return ""
	}
	m := callStart.FindStringSubmatch(source[i:])
	switch {
	case m == nil:
	case strings.EqualFold(m[1]+m[2], function):
		return function
	case function == "date_part" && strings.EqualFold(m[1], "extract"):
		return "extract"
	}
	return ""
}

// isCountStar returns whether an expression is count(*), which DuckDB calls count_star().
func isCountStar(n node) bool { return n["class"] == "FUNCTION" && n["function_name"] == "count_star" }

// contains returns whether a node, or one inside it, satisfies a condition. It does not descend into nodes of
// the excepted type.
func contains(v any, except string, is func(node) bool) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(part any) bool { return contains(part, except, is) })
	case node:
		if is(v) {
			return true
		}
		if except != "" && v["type"] == except {
			return false
		}
		for _, part := range v {
			if contains(part, except, is) {
				return true
			}
		}
	}
	return false
}

// withCountStar returns a copy of an expression in which count_star() is written as count(*).
func withCountStar(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withCountStar(v[i])
		}
		return out
	case node:
		out := node{}
		for key, part := range v {
			out[key] = withCountStar(part)
		}
		if isCountStar(v) {
			out["function_name"], out["children"] = "count", []any{starNode}
		}
		return out
	}
	return v
}

// starNode is the argument of count(*).
var starNode = node{
	"class": "STAR", "type": "STAR", "alias": "", "query_location": 0, "relation_name": "", "exclude_list": []any{},
	"replace_list": []any{},
	"columns":      false, "expr": nil, "qualified_exclude_list": []any{}, "rename_list": []any{},
}

// applyHeadings sets the names of the columns of a result.
func applyHeadings(list []heading, columns []ResultColumn) {
	headingOf := func(i int) *heading {
		many := slices.IndexFunc(list, func(h heading) bool { return h.isStar })
		switch after := len(columns) - i; {
		case many < 0 && len(list) != len(columns):
			return nil
		case many < 0 || i < many:
			return &list[i]
		case after < len(list)-many:
			return &list[len(list)-after]
		}
		return nil
	}
	wanted, names := make([]*heading, len(columns)), map[string]int{}
	for i := range columns {
		name := columns[i].Name
		if h := headingOf(i); h != nil && (h.duckdbName == name || h.duckdbName == "" && len(list) == len(columns)) {
			if wanted[i] = h; h.postgresName != "" {
				name = h.postgresName
			}
		}
		names[strings.ToLower(name)]++
	}
	for i, h := range wanted {
		switch {
		case h == nil:
		case h.postgresName != "" && names[strings.ToLower(h.postgresName)] == 1:
			columns[i].Name = h.postgresName
		case h.text != "":
			columns[i].Name = h.text
		}
	}
}

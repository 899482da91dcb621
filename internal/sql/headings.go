// Heads columns that a statement gives no name as PostgreSQL does: after the function that is called, "count" and not
// "count_star()". Which expression a column is, and how it was written, is known from the parsed statement.

package sql

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// heading is how the column of an expression is headed that has no name of its own.
type heading struct {
	many bool   // it stands for any number of columns
	was  string // DuckDB's
	name string // PostgreSQL's, if no other column has it; empty: there is none
	text string // the expression; it differs from what it was only in count(*)
}

// headings are those of each statement.
func (db *DB) headings(tree node, source string) (all [][]heading) {
	statements, _ := tree["statements"].([]any)
	for _, s := range statements {
		one, _ := s.(node)
		var list []heading
		for _, v := range selectList(one["node"]) {
			n, _ := v.(node)
			list = append(list, db.heading(n, source))
		}
		all = append(all, list)
	}
	return all
}

// selectList has the expressions that name the columns of a statement.
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
	if isMany(n) {
		return heading{many: true}
	}
	if n["alias"] != "" || n["type"] == "COLUMN_REF" {
		return heading{}
	}
	name, counts := headed(n, source), has(n, "", isCountStar)
	if name == "" && !counts {
		return heading{}
	}
	was, err := db.text(n)
	if err != nil {
		return heading{}
	}
	h := heading{was: was, name: name, text: was}
	if has(n, "", func(n node) bool { return n["class"] == "CAST" }) {
		h.was, h.text = "", "" // DuckDB writes the type in another way
	} else if counts {
		if text, err := db.text(withStars(n)); err == nil {
			h.text = text
		}
	}
	return h
}

// isMany says whether an expression may be several columns.
func isMany(n node) bool {
	return n["function_name"] == "unnest" || has(n, "SELECT_NODE", func(n node) bool { return n["class"] == "STAR" })
}

// headed is the name that PostgreSQL gives the column of an expression; empty if it gives none, or it is not certain.
func headed(n node, source string) string {
	if alias := stringOf(n["alias"]); alias != "" {
		return alias
	}
	switch n["class"] {
	case "FUNCTION", "WINDOW":
		if n["is_operator"] != true {
			return called(stringOf(n["function_name"]), source, n["query_location"])
		}
	case "COLUMN_REF":
		if names, _ := n["column_names"].([]any); len(names) > 0 {
			return stringOf(names[len(names)-1])
		}
	case "CAST":
		if child, _ := n["child"].(node); child["class"] != "CONSTANT" {
			return headed(child, source)
		}
	case "SUBQUERY":
		switch n["subquery_type"] {
		case "EXISTS":
			return "exists"
		case "SCALAR":
			inner, _ := n["subquery"].(node)
			if list := selectList(inner["node"]); len(list) == 1 {
				one, _ := list[0].(node)
				return headed(one, source)
			}
		}
	}
	return ""
}

// call is the beginning of a call.
var call = regexp.MustCompile(`^(?:([A-Za-z_][A-Za-z0-9_]*)|"([^"]+)")\s*\(`)

// called is the name of a function, if the statement calls it by that name: some syntax is a call of another name.
func called(function, source string, at any) string {
	if function == "count_star" {
		function = "count"
	}
	number, _ := at.(json.Number)
	i, err := number.Int64()
	if err != nil || i >= int64(len(source)) {
		return ""
	}
	m := call.FindStringSubmatch(source[i:])
	switch {
	case m == nil:
	case strings.EqualFold(m[1]+m[2], function):
		return function
	case function == "date_part" && strings.EqualFold(m[1], "extract"):
		return "extract"
	}
	return ""
}

// isCountStar says whether an expression is DuckDB's count_star(), which is written count(*).
func isCountStar(n node) bool { return n["class"] == "FUNCTION" && n["function_name"] == "count_star" }

// has says whether a node, or one in it, is of a kind; nodes of a type are not looked into.
func has(v any, except string, is func(node) bool) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return has(one, except, is) })
	case node:
		if is(v) {
			return true
		}
		if except != "" && v["type"] == except {
			return false
		}
		for _, one := range v {
			if has(one, except, is) {
				return true
			}
		}
	}
	return false
}

// withStars is a copy of an expression that counts with count(*).
func withStars(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withStars(v[i])
		}
		return out
	case node:
		out := node{}
		for key, one := range v {
			out[key] = withStars(one)
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
	"class": "STAR", "type": "STAR", "alias": "", "query_location": 0, "relation_name": "", "exclude_list": []any{}, "replace_list": []any{},
	"columns": false, "expr": nil, "qualified_exclude_list": []any{}, "rename_list": []any{},
}

// apply heads the columns of a result.
func apply(list []heading, columns []ResultColumn) {
	at := func(i int) *heading { // of the i-th column
		many := slices.IndexFunc(list, func(h heading) bool { return h.many })
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
		if h := at(i); h != nil && (h.was == name || h.was == "" && len(list) == len(columns)) {
			if wanted[i] = h; h.name != "" {
				name = h.name
			}
		}
		names[strings.ToLower(name)]++
	}
	for i, h := range wanted {
		switch {
		case h == nil:
		case h.name != "" && names[strings.ToLower(h.name)] == 1:
			columns[i].Name = h.name
		case h.text != "":
			columns[i].Name = h.text
		}
	}
}

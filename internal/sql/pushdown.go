// Finds the conditions of a statement on the records of each table, and passes them to the table functions.
// DuckDB's C interface does not give table functions the filters of a statement, so the parsed statement is
// changed before it is executed: "FROM trail WHERE class = 'ddl'" reads from steno_trail('{"classes":["ddl"]}')
// instead. DuckDB still evaluates all conditions itself; those found here only save reading.

package sql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/query"
)

// node is a node of a parsed statement, as json_serialize_sql returns it.
type node = map[string]any

// parse returns the parsed statements; nil if one is not a SELECT.
func (db *DB) parse(statements string) (tree node) {
	serialized, err := db.queryString("SELECT json_serialize_sql(CAST($1 AS VARCHAR))", statements)
	if err != nil {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(serialized))
	d.UseNumber()
	if d.Decode(&tree) != nil || tree["error"] != false {
		return nil
	}
	return tree
}

// push passes conditions down in parsed statements, and returns the changed statements; ok is false if there
// are no conditions to pass down.
func (db *DB) push(tree node) (changed string, ok bool) {
	p := &pusher{db: db, mayHaveMoment: namesMoment(tree)}
	p.walk(tree)
	if p.tableHidden {
		return "", false
	}
	db.mu.Lock()
	db.comparedNames, db.renameFilters = query.NewNamesOf(p.compared), filtersOfRenamed(p.compared)
	db.needs.Objects = slices.ContainsFunc(p.compared, func(a query.Comparison) bool {
		return a.Column == "relation" || a.Column == "column_name"
	})
	db.mu.Unlock()
	if !p.foundCondition {
		return "", false
	}
	b, err := json.Marshal(tree)
	if err != nil {
		return "", false
	}
	changed, err = db.queryString("SELECT json_deserialize_sql(CAST($1 AS JSON))", string(b))
	return changed, err == nil
}

type pusher struct {
	db             *DB
	foundCondition bool               // at least one condition to pass down
	tableHidden    bool               // WITH defines a name that hides one of our tables
	mayHaveMoment  bool               // a column may have the name of a function such as current_timestamp
	compared       []query.Comparison // columns and the values that they are compared with
}

func (p *pusher) walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, part := range v {
			p.walk(part)
		}
	case node:
		if v["type"] == "SELECT_NODE" {
			defer p.keepNames(v)()
			p.pushInto(v)
		}
		if with, ok := v["cte_map"].(node); ok {
			entries, _ := with["map"].([]any)
			for _, e := range entries {
				if entry, ok := e.(node); ok {
					p.tableHidden = p.tableHidden || tableNamed(stringOf(entry["key"])) != nil
				}
			}
		}
		for _, part := range v {
			p.walk(part)
		}
	}
}

// keepNames remembers the names of columns that are subqueries without an alias. DuckDB names these by their
// text, which pushing conditions down may change. The returned function gives such columns their previous name
// as an alias.
func (p *pusher) keepNames(selects node) func() {
	list, _ := selects["select_list"].([]any)
	names := map[int]string{}
	for i, v := range list {
		if n, _ := v.(node); n["alias"] == "" && hasSelect(n) {
			if text, err := p.db.text(n); err == nil {
				names[i] = text
			}
		}
	}
	return func() {
		for i, name := range names {
			n := list[i].(node)
			if text, err := p.db.text(n); err != nil || text != name {
				n["alias"] = name
			}
		}
	}
}

// hasSelect returns whether an expression contains a subquery.
func hasSelect(v any) bool {
	return contains(v, "", func(n node) bool { return n["type"] == "SELECT_NODE" })
}

func stringOf(v any) string {
	s, _ := v.(string)
	return s
}

func tableNamed(name string) *Table {
	i := slices.IndexFunc(Tables, func(t Table) bool { return strings.EqualFold(t.Name, name) })
	if i < 0 {
		return nil
	}
	return &Tables[i]
}

// from is a table in a FROM clause.
type from struct {
	node  node
	table *Table // nil: not one of our tables
	alias string
}

// fromTables returns the tables of a FROM clause; ok is false if a condition in WHERE on one of them may not be
// a condition on its rows, because a join is of an unusual type.
func fromTables(v any) (all []from, ok bool) {
	n, _ := v.(node)
	switch n["type"] {
	case "BASE_TABLE":
		f := from{node: n, alias: stringOf(n["alias"])}
		names, _ := n["column_name_alias"].([]any)
		if n["sample"] == nil && n["at_clause"] == nil && len(names) == 0 && stringOf(n["schema_name"]) == "" &&
			stringOf(n["catalog_name"]) == "" {
			f.table = tableNamed(stringOf(n["table_name"]))
		}
		if f.alias == "" {
			f.alias = stringOf(n["table_name"])
		}
		return []from{f}, true
	case "JOIN":
		if r := n["ref_type"]; r != "REGULAR" && r != "CROSS" {
			return nil, false
		}
		switch n["join_type"] {
		case "INNER", "LEFT", "RIGHT", "FULL", "OUTER":
		default:
			return nil, false
		}
		left, ok := fromTables(n["left"])
		right, ok2 := fromTables(n["right"])
		return append(left, right...), ok && ok2
	}
	return []from{{node: n, alias: stringOf(n["alias"])}}, true
}

func (p *pusher) pushInto(s node) {
	tables, ok := fromTables(s["from_table"])
	if !ok || s["sample"] != nil {
		return
	}
	for i := range tables {
		f := &tables[i]
		hasSameAlias := func(o from) bool { return strings.EqualFold(o.alias, f.alias) }
		if f.table == nil || slices.ContainsFunc(tables[:i], hasSameAlias) ||
			slices.ContainsFunc(tables[i+1:], hasSameAlias) {
			continue
		}
		var found conditions
		for _, c := range conjuncts(s["where_clause"]) {
			if condition, ok := p.condition(c, f, len(tables) == 1); ok {
				found = append(found, condition)
			}
		}
		p.noteNames(s, f, len(tables) == 1)
		if len(found) == 0 {
			continue
		}
		var text strings.Builder
		for _, condition := range found {
			b, _ := json.Marshal(condition)
			text.Write(b)
		}
		f.callFunction(text.String())
		p.foundCondition = true
	}
}

// callFunction replaces a table by a call of its table function.
func (f *from) callFunction(conditions string) {
	location := f.node["query_location"]
	clear(f.node)
	f.node["type"], f.node["alias"], f.node["sample"] = "TABLE_FUNCTION", f.alias, nil
	f.node["query_location"] = location
	f.node["column_name_alias"], f.node["with_ordinality"] = []any{}, "WITHOUT_ORDINALITY"
	f.node["function"] = node{
		"class": "FUNCTION", "type": "FUNCTION", "alias": "", "query_location": location,
		"function_name": f.table.function(), "schema": "", "catalog": "", "filter": nil,
		"order_bys": node{"type": "ORDER_MODIFIER", "orders": []any{}},
		"distinct":  false, "is_operator": false, "export_state": false,
		"children": []any{node{
			"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": location,
			"value": node{"type": node{"id": "VARCHAR", "type_info": nil}, "is_null": false, "value": conditions},
		}},
	}
}

// conjuncts returns the operands of AND, in all depths.
func conjuncts(v any) (all []node) {
	n, ok := v.(node)
	if !ok {
		return nil
	}
	if n["type"] == "CONJUNCTION_AND" {
		children, _ := n["children"].([]any)
		for _, c := range children {
			all = append(all, conjuncts(c)...)
		}
		return all
	}
	return []node{n}
}

// column returns the column that a node refers to; ok is false if conditions on it cannot be passed down.
func (f *from) column(v any, alone bool) (name string, ok bool) {
	name = f.columnName(v, alone)
	return name, f.table.isPushable(name)
}

// isPushable returns whether conditions on a column of the table are conditions on records.
func (t *Table) isPushable(column string) bool { return slices.Contains(t.pushable, column) }

// columnName returns the name, in lower case, of the table's column that a node refers to; empty: it refers to
// none. With alone, the statement has no other table, so a name without a table belongs to this one.
func (f *from) columnName(v any, alone bool) string {
	n, _ := v.(node)
	if n["type"] != "COLUMN_REF" {
		return ""
	}
	names, _ := n["column_names"].([]any)
	switch {
	case len(names) == 1 && alone:
		return strings.ToLower(stringOf(names[0]))
	case len(names) == 2 && strings.EqualFold(stringOf(names[0]), f.alias):
		return strings.ToLower(stringOf(names[1]))
	}
	return ""
}

// columnOrDate does the same as column, and also accepts the time cast to a date.
func (f *from) columnOrDate(v any, alone bool) (name string, date, ok bool) {
	n, _ := v.(node)
	if t, _ := n["cast_type"].(node); n["class"] == "CAST" && t["id"] == "DATE" {
		name, ok = f.column(n["child"], alone)
		return name, true, ok && name == "time"
	}
	name, ok = f.column(v, alone)
	return name, false, ok
}

// constant returns the value of a string constant.
func constant(v any) (s string, ok bool) {
	n, _ := v.(node)
	value, _ := n["value"].(node)
	if n["type"] != "VALUE_CONSTANT" || value["is_null"] != false {
		return "", false
	}
	if t, _ := value["type"].(node); t["id"] != "VARCHAR" {
		return "", false
	}
	s, ok = value["value"].(string)
	return s, ok
}

// condition returns the condition that a part of WHERE puts on the table's records.
func (p *pusher) condition(n node, f *from, alone bool) (c condition, ok bool) {
	children, _ := n["children"].([]any)
	switch t := stringOf(n["type"]); t {
	case "COLUMN_REF":
		if name, ok := f.column(n, alone); ok && name == "failed" {
			return condition{Failed: true}, true
		}
	case "COMPARE_EQUAL", "COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_GREATERTHAN",
		"COMPARE_GREATERTHANOREQUALTO":
		left, right := n["left"], n["right"]
		name, date, ok := f.columnOrDate(left, alone)
		if !ok {
			if name, date, ok = f.columnOrDate(right, alone); !ok {
				return c, false
			}
			left, right = right, left
			t = mirrored(t)
		}
		if name == "time" {
			return p.timeCondition(t, right, date)
		}
		if s, ok := constant(right); ok && t == "COMPARE_EQUAL" {
			return equals(name, []string{s})
		}
	case "COMPARE_BETWEEN":
		if name, date, ok := f.columnOrDate(n["input"], alone); ok && name == "time" {
			low, ok := p.timeCondition("COMPARE_GREATERTHANOREQUALTO", n["lower"], date)
			high, ok2 := p.timeCondition("COMPARE_LESSTHANOREQUALTO", n["upper"], date)
			return condition{Since: low.Since, Until: high.Until}, ok || ok2
		}
	case "COMPARE_IN":
		if len(children) < 2 {
			return c, false
		}
		name, ok := f.column(children[0], alone)
		var values []string
		for _, v := range children[1:] {
			s, isConstant := constant(v)
			ok = ok && isConstant
			values = append(values, s)
		}
		if ok {
			return equals(name, values)
		}
	case "CONJUNCTION_OR":
		for _, child := range children {
			operand, ok := p.operandCondition(child, f, alone)
			if !ok {
				return c, false
			}
			c.Any = append(c.Any, operand)
		}
		return c, len(c.Any) > 0
	case "FUNCTION":
		return p.searchCondition(stringOf(n["function_name"]), children, f, alone)
	}
	return c, false
}

// operandCondition returns the condition of an operand of OR. Conditions on the time are not supported there.
func (p *pusher) operandCondition(v any, f *from, alone bool) (c condition, ok bool) {
	for _, n := range conjuncts(v) {
		if operand, isOne := p.condition(n, f, alone); isOne && operand.Since == nil && operand.Until == nil {
			return operand, true
		}
	}
	return c, false
}

// searchCondition returns the condition of a function that searches a text.
func (p *pusher) searchCondition(name string, args []any, f *from, alone bool) (c condition, ok bool) {
	if len(args) < 2 {
		return c, false
	}
	column, ok := f.column(args[0], alone)
	pattern, ok2 := constant(args[1])
	if !ok || !ok2 || column != "text" && column != "message" {
		return c, false
	}
	switch name {
	case "contains", "starts_with", "prefix", "^@", "ends_with", "suffix":
	case "~~", "~~*": // LIKE without ESCAPE, ILIKE
		apart := "%_"
		if name == "~~*" {
			apart = "%_iIkK" // the lower case of some non-ASCII letters is i or k
		}
		longest := ""
		for _, part := range strings.FieldsFunc(pattern, func(r rune) bool {
			return strings.ContainsRune(apart, r) || r > 0x7e || r < 0x20
		}) {
			if len(part) > len(longest) {
				longest = part
			}
		}
		pattern = longest
	default:
		return c, false
	}
	if len(pattern) < 3 || strings.ContainsFunc(pattern, func(r rune) bool { return r > 0x7e || r < 0x20 }) {
		return c, false
	}
	return condition{Contains: pattern}, true
}

func mirrored(comparison string) string {
	if strings.Contains(comparison, "LESS") {
		return strings.Replace(comparison, "LESS", "GREATER", 1)
	}
	return strings.Replace(comparison, "GREATER", "LESS", 1)
}

// equals returns the condition that a column has one of some values.
func equals(column string, values []string) (c condition, ok bool) {
	lists := map[string]*[]string{
		"user": &c.Users, "role": &c.Roles, "app_user": &c.AppUsers, "database": &c.Databases,
		"application": &c.Applications,
		"class":       &c.Classes, "command": &c.Commands, "kind": &c.Kinds, "outcome": &c.Outcomes,
		"sqlstate": &c.Sqlstates,
		"relation": &c.Relations,
	}
	if to := lists[column]; to != nil && !slices.Contains(values, "") {
		*to = values
		return c, true
	}
	return c, false
}

// constantFunctions are functions without side effects that a constant expression may call. Their value depends
// only on their arguments.
var constantFunctions = []string{
	"+", "-", "*", "trunc", "to_years", "to_months", "to_weeks", "to_days", "to_hours", "to_minutes", "to_seconds",
	"to_milliseconds", "to_microseconds",
	"date_trunc", "make_date", "make_timestamp", "make_timestamptz", "timezone",
}

var nowFunctions = []string{"now", "today", "current_date", "current_timestamp", "get_current_timestamp",
	"transaction_timestamp"}

// namesMoment returns whether a statement may have a column with the name of a function of nowFunctions, such
// as "current_timestamp": because the statement uses that name as an alias, or because it reads something other
// than our tables.
func namesMoment(v any) bool {
	switch v := v.(type) {
	case string:
		return slices.Contains(nowFunctions, strings.ToLower(v))
	case []any:
		return slices.ContainsFunc(v, namesMoment)
	case node:
		switch v["type"] {
		case "BASE_TABLE":
			if tableNamed(stringOf(v["table_name"])) == nil {
				return true
			}
		case "TABLE_FUNCTION", "PIVOT", "SHOW_REF":
			return true
		}
		for key, part := range v {
			if key != "column_names" && key != "function_name" && namesMoment(part) {
				return true
			}
		}
	}
	return false
}

// isConstant returns whether a value is the same for all rows; moving: but depends on when the statement runs.
func (p *pusher) isConstant(v any) (ok, moving bool) {
	n, _ := v.(node)
	switch n["class"] {
	case "CONSTANT":
		return true, false
	case "CAST":
		return p.isConstant(n["child"])
	case "COLUMN_REF": // current_timestamp is parsed as a column
		names, _ := n["column_names"].([]any)
		ok = !p.mayHaveMoment && len(names) == 1 &&
			slices.Contains(nowFunctions, strings.ToLower(stringOf(names[0])))
		return ok, true
	case "FUNCTION":
		name := strings.ToLower(stringOf(n["function_name"]))
		moving = slices.Contains(nowFunctions, name)
		if !moving && !slices.Contains(constantFunctions, name) {
			return false, false
		}
		children, _ := n["children"].([]any)
		for i, c := range children {
			isConstant, moves := p.isConstant(c)
			// As time passes, the value must not decrease, nor increase faster than time itself.
			if !isConstant || moves && (name == "*" || name == "-" && i == len(children)-1) {
				return false, false
			}
			moving = moving || moves
		}
		return true, moving
	}
	return false, false
}

// timeCondition returns the condition for comparing the time of records, or its date, with a constant.
func (p *pusher) timeCondition(comparison string, v any, date bool) (c condition, ok bool) {
	ok, moving := p.isConstant(v)
	lower := comparison != "COMPARE_LESSTHAN" && comparison != "COMPARE_LESSTHANOREQUALTO"
	upper := comparison != "COMPARE_GREATERTHAN" && comparison != "COMPARE_GREATERTHANOREQUALTO"
	// The statement is executed a little later than this, when a moving value has increased.
	if !ok || moving && upper {
		return c, false
	}
	moment := "CAST((%s) AS TIMESTAMPTZ)"
	if date {
		moment = "CAST(CAST((%s) AS DATE) AS TIMESTAMPTZ)"
	}
	begin, err := p.db.moment(v, moment)
	if err != nil {
		return c, false
	}
	end := begin + 1
	if date {
		if end, err = p.db.moment(v, "CAST(CAST((%s) AS DATE) + 1 AS TIMESTAMPTZ)"); err != nil {
			return c, false
		}
		switch comparison { // the constant is a date: compare with the beginning or end of that day
		case "COMPARE_LESSTHAN":
			// The beginning of a day is before all other times of that day. A string always stands for a date
			// here.
			if _, isString := constant(v); isString {
				end = begin
				break
			}
			nextDayUnlessMidnight := "CAST(CAST((%s) AS DATE) + " +
				"CAST(CAST((%s) AS DATE) < (%s) AS INTEGER) AS TIMESTAMPTZ)"
			if end, err = p.db.moment(v, nextDayUnlessMidnight); err != nil {
				return c, false
			}
		case "COMPARE_GREATERTHAN":
			begin = end
		}
	}
	if moving {
		begin -= 10e6
	}
	if lower {
		c.Since = &begin
	}
	if upper {
		c.Until = &end
	}
	return c, true
}

// expression returns a statement that evaluates an expression.
func (db *DB) expression(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	template := `{"error":false,"statements":[{"node":{"type":"SELECT_NODE","modifiers":[],"cte_map":{"map":[]},` +
		`"select_list":[%s],"from_table":{"type":"EMPTY","alias":"","sample":null,"query_location":0},` +
		`"where_clause":null,"group_expressions":[],"group_sets":[],"aggregate_handling":"STANDARD_HANDLING",` +
		`"having":null,"sample":null,"qualify":null},"named_param_map":[]}]}`
	return db.queryString("SELECT json_deserialize_sql(CAST($1 AS JSON))", fmt.Sprintf(template, b))
}

// text returns an expression as DuckDB writes it.
func (db *DB) text(v any) (string, error) {
	s, err := db.expression(v)
	return strings.TrimPrefix(s, "SELECT "), err
}

// moment evaluates a constant expression, put into the format, and returns it in microseconds of the trail's
// time.
func (db *DB) moment(v any, format string) (int64, error) {
	evaluates := func(expression string) string {
		return "SELECT CAST(epoch_us(" + strings.ReplaceAll(format, "%s", expression) + ") AS VARCHAR)"
	}
	var s string
	var err error
	if text, ok := constant(v); ok {
		s, err = db.queryString(evaluates("CAST($1 AS VARCHAR)"), text)
	} else if s, err = db.expression(v); err == nil {
		s, err = db.queryString(evaluates(s))
	}
	if err != nil {
		return 0, err
	}
	var t int64
	if _, err := fmt.Sscan(s, &t); err != nil {
		return 0, err
	}
	return t - epoch, nil
}

// What records do not name: a privilege that may have been used so is never called unused.

package review

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// ddlLength limits the kept text of a DDL statement, in bytes, and ddlMemory those of one goroutine. DDL texts are
// kept because records have only the objects that DDL changes, and not those that it refers to.
const ddlLength, ddlMemory = 16 << 10, 64 << 20

// keepText keeps the beginning of a text as an example, and the whole text of DDL.
func (c *collector) keepText(s *statement, text []byte) {
	s.text = brief(text)
	if s.class != "ddl" || len(text) <= briefLength {
		return
	}
	if len(text) > ddlLength || c.textBytesKept+len(text) > ddlMemory {
		s.incomplete = true
		return
	}
	c.textBytesKept += len(text)
	s.longText = string(text)
}

// fullText returns the text of a statement as far as it was kept.
func (s *statement) fullText() string {
	if s.longText != "" {
		return s.longText
	}
	return s.text
}

// textNames calls f for everything in a text that may be a name, also in strings and function bodies. Names without
// quotes are in lower case. before is the qualifier: the name before the period in front of this one.
func textNames(text string, f func(before, name string)) {
	before, last := "", 0
	for i := 0; i < len(text); {
		start, end, name := i, i, ""
		switch {
		case text[i] == '"':
			n := strings.IndexByte(text[i+1:], '"')
			if n < 0 {
				i++
				continue
			}
			end = i + n + 2
			name = text[i+1 : end-1]
			i++ // a quoted part of a string may have several names
		case isWordByte(text[i]):
			for end < len(text) && isWordByte(text[end]) {
				end++
			}
			name = strings.ToLower(text[i:end])
			i = end
		default:
			i++
			continue
		}
		if strings.Trim(text[min(last, start):start], `" `) != "." {
			before = ""
		}
		f(before, name)
		before, last = name, end
	}
}

// schemas returns the schemas of all databases, by their names without quotes.
func (g *Grants) schemas() map[string]string {
	all := map[string]string{}
	for i := range g.Databases {
		for _, s := range g.Databases[i].Schemas {
			if !isSystemSchema(s.Name) {
				all[strings.ReplaceAll(strings.Trim(s.Name, `"`), `""`, `"`)] = s.Name
			}
		}
	}
	return all
}

// addMentions adds to names the schemas that a text names as qualifiers, and in which the record has no relation or
// function: those of types, of operators, and of names in strings such as 'app.invoice'::regclass.
func (c *collector) addMentions(r *format.Record, text []byte, names string) string {
	for at := bytes.IndexByte(text, '.'); at >= 0; {
		if schema := c.schemas[nameBefore(text[:at])]; schema != "" && !inShape(r.Shape, schema) {
			line := "schema=" + schema
			if !slices.Contains(strings.Split(names, "\n"), line) {
				names = strings.TrimPrefix(names+"\n"+line, "\n")
			}
		}
		next := bytes.IndexByte(text[at+1:], '.')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return names
}

// addParamSchemas adds the schemas that parameters name: in values of regclass and similar types, and in texts of
// which functions make statements.
func (c *collector) addParamSchemas(r *format.Record, names string) string {
	if r.Shape == nil || len(r.Shape.Params) == 0 {
		return names
	}
	r.Params(func(p format.ParamType, raw []byte, null bool) bool {
		if p.Repr == format.ReprText && !null && bytes.IndexByte(raw, '.') > 0 {
			names = c.addMentions(r, raw, names)
		}
		return true
	})
	return names
}

// membersAsked are the functions and catalogs that make a statement depend on memberships.
var membersAsked = [][]byte{[]byte("pg_has_role"), []byte("pg_cancel_backend"), []byte("pg_terminate_backend"),
	[]byte("pg_auth_members"), []byte("applicable_roles"), []byte("enabled_roles"), []byte("set_config")}

// addMembersAsked adds a mark to names if the text depends on memberships.
func addMembersAsked(text []byte, names string) string {
	if bytes.IndexByte(text, '_') < 0 {
		return names
	}
	lower := bytes.ToLower(text)
	if slices.ContainsFunc(membersAsked, func(f []byte) bool { return bytes.Contains(lower, f) }) {
		names = strings.TrimPrefix(names+"\nmembers=", "\n")
	}
	return names
}

// nameBefore returns the name at the end of a text, as the server stores it.
func nameBefore(text []byte) string {
	text = bytes.TrimRight(text, " \t\r\n")
	end := len(text)
	if end > 0 && text[end-1] == '"' {
		return string(text[bytes.LastIndexByte(text[:end-1], '"')+1 : end-1])
	}
	start := end
	for start > 0 && isWordByte(text[start-1]) {
		start--
	}
	return strings.ToLower(string(text[start:end]))
}

// inShape reports whether a schema has a relation or function of a record.
func inShape(s *format.Shape, schema string) bool {
	in := func(name []byte) bool {
		return len(name) > len(schema) && name[len(schema)] == '.' && string(name[:len(schema)]) == schema
	}
	return slices.ContainsFunc(s.Relations, func(r format.Relation) bool { return r.Via == 0 && in(r.Name) }) ||
		slices.ContainsFunc(s.Objects, func(o format.Object) bool { return in(o.Name) })
}

// byLastName indexes the relations and functions of a database by their names without schema and quotes.
func (in *databaseContents) byLastName() map[string][]string {
	if in.byName == nil {
		in.byName = map[string][]string{}
		for name := range in.relations {
			in.byName[lastName(name)] = append(in.byName[lastName(name)], name)
		}
		for name := range in.functions {
			in.byName[lastName(name)] = append(in.byName[lastName(name)], name)
		}
	}
	return in.byName
}

func lastName(name string) string {
	return strings.Trim(strings.TrimPrefix(name, schemaOf(name)+"."), `"`)
}

// textNeeds adds needs for what the text of a statement names but its record does not: schemas of types and
// operators, and objects that DDL refers to, such as the table after LIKE, a trigger's function, or the tables of a
// view.
func (p *policy) textNeeds(s *statement, in *databaseContents, role string, add func(need)) {
	if in == nil || p.isSuperuser(role) {
		return
	}
	maybe := func(kind objectKind, object string, letters string) {
		for _, c := range []byte(letters) {
			add(need{role: role, kind: kind, object: object, letter: c, unsure: true, columnsUnknown: true})
		}
	}
	for _, schema := range s.mentioned {
		maybe(onSchema, schema, "U")
	}
	if s.class != "ddl" {
		return
	}
	done := map[string]bool{}
	like := strings.Contains(strings.ToLower(s.fullText()), "like")
	textNames(s.fullText(), func(before, name string) {
		if schema := QuoteName(name); in.schemas[schema] != nil && !done[schema] {
			done[schema] = true
			maybe(onSchema, schema, "UC")
		}
		objects := in.byLastName()[name]
		if exact := QuoteName(before) + "." + QuoteName(name); slices.Contains(objects, exact) {
			objects = []string{exact}
		}
		for _, object := range objects {
			if done[object] {
				continue
			}
			done[object] = true
			maybe(onSchema, schemaOf(object), "U")
			if in.functions[object] != nil {
				maybe(onFunction, object, "X")
			} else if like {
				maybe(onRelation, object, "r")
			}
		}
	})
	if strings.HasSuffix(s.command, " SCHEMA") || strings.HasSuffix(s.command, " PUBLICATION") ||
		strings.HasSuffix(s.command, " EXTENSION") {
		maybe(onDatabase, s.db, "C")
	}
}

// runnerNeeds adds the needs of functions that run, or are called, with the rights of another role: SECURITY DEFINER
// functions, the support functions of aggregates, functions in expressions of indexes.
func (p *policy) runnerNeeds(s *statement, in *databaseContents, role string, add func(need)) {
	if in == nil || len(s.executes) == 0 {
		return
	}
	owners := map[string]bool{}
	for _, f := range s.executes {
		for o := range in.runners[f] {
			owners[o] = true
		}
	}
	for _, o := range s.objects {
		if rel := in.relation(o.name); rel != nil {
			owners[rel.Owner] = true
		} else if o.kind == "index" || o.kind == "materialized view" {
			for other := range p.roles { // the table is not recorded
				owners[other] = owners[other] || in.ownsTables[other]
			}
		}
	}
	for owner, is := range owners {
		if !is || owner == role || p.isSuperuser(owner) {
			continue
		}
		for _, f := range s.executes {
			add(need{role: owner, kind: onFunction, object: f, letter: 'X', unsure: true})
			add(need{role: owner, kind: onSchema, object: schemaOf(f), letter: 'U', unsure: true})
		}
	}
}

// ranAs returns other roles with whose rights a statement may have evaluated expressions without a record: in
// functions with the rights of their owner, and in indexes, with those of the table's owner.
func (p *policy) ranAs(s *statement) []string {
	in, owners := p.inside[s.db], map[string]bool{}
	if in == nil {
		return nil
	}
	for _, f := range s.executes {
		maps.Copy(owners, in.runners[f])
	}
	verb, _, _ := strings.Cut(s.command, " ")
	for _, o := range s.objects {
		if rel := in.relation(o.name); rel != nil &&
			!slices.Contains([]string{"DROP", "COMMENT", "SECURITY", "GRANT", "REVOKE", "LOCK"}, verb) {
			owners[rel.Owner] = true
		}
	}
	maps.DeleteFunc(owners, func(role string, _ bool) bool { return role == s.role || p.isSuperuser(role) })
	return slices.Sorted(maps.Keys(owners))
}

// findHidden notes the roles whose rights may have been used in a database without a record.
func (p *policy) findHidden(d *Database, in *databaseContents) {
	in.runners, in.ownsTables, in.definers, in.calledAs = map[string]map[string]bool{}, map[string]bool{},
		map[string]bool{}, map[string]bool{}
	with := func(set map[string]bool, role string) {
		if p.isSuperuser(role) {
			return
		}
		set[role] = true
		for r := range p.rolesOf(role, d.Name, false) {
			set[r] = true
		}
	}
	for _, f := range d.Functions {
		if f.Definer || f.Kind == "a" {
			if in.runners[f.Name] == nil {
				in.runners[f.Name] = map[string]bool{}
			}
			in.runners[f.Name][f.Owner] = true
			with(in.calledAs, f.Owner)
		}
		if f.Definer {
			with(in.definers, f.Owner)
		}
	}
	for _, r := range d.Relations {
		if r.Kind == "r" || r.Kind == "p" || r.Kind == "m" {
			in.ownsTables[r.Owner] = true
			with(in.calledAs, r.Owner)
		}
	}
}

// reasonHidden returns why a privilege may have been used without a record of the role; empty if it cannot.
func (a *access) reasonHidden(g *grant) string {
	in := a.policy.inside[g.db]
	switch {
	case in == nil:
	case in.definers[g.grantee] &&
		(g.kind == onFunction || g.kind == onSequence || g.kind == onSchema && g.letter == 'U'):
		return "functions with the rights of the role evaluate expressions that have no record"
	case in.calledAs[g.grantee] && g.kind == onFunction:
		return "indexes and aggregates call functions with the rights of their owner"
	}
	return ""
}

// reasonHiddenInSchema returns why a role may have used a schema although no record names anything in it.
func (a *access) reasonHiddenInSchema(g *grant) string {
	in := a.policy.inside[g.db]
	if in.schemasWithOthers[g.object] {
		return "records do not name types, operators, collations and the like"
	}
	for _, o := range a.policy.grants {
		if o.db == g.db && o.used.count == 0 && o.grantee != o.owner && schemaOf(o.object) == g.object &&
			(o.kind == onSequence || o.kind == onFunction && o.sqlBody) {
			return "records do not name all sequences and functions that are in it"
		}
	}
	return ""
}

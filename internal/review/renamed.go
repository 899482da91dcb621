// Renamed objects: grants have the present names, but records have the names of their time.

package review

import (
	"maps"
	"slices"
	"strings"
)

// namedObject is a name that an object has or had. For roles and databases, db is empty.
type namedObject struct{ db, kind, name string }

// renames are the new names that DDL has given to objects. Times are ignored, because names can be reused: a
// privilege that may have been used under any of its names is not called unused.
type renames struct {
	to       map[namedObject][]string
	recorded map[namedObject]bool // a record renames or drops it
}

const mostVariants = 10_000

// nameKind maps a type of objects to a kind of names; empty: its names do not matter.
func nameKind(objectType string) string {
	switch objectType {
	case "role", "database", "schema":
		return objectType
	case "function", "procedure", "aggregate", "routine":
		return "function"
	case "table", "view", "materialized view", "foreign table", "sequence":
		return "relation"
	}
	if strings.HasSuffix(objectType, " column") {
		return "column"
	}
	return ""
}

func newRenames(statements []*statement) *renames {
	r := &renames{to: map[namedObject][]string{}, recorded: map[namedObject]bool{}}
	for _, s := range statements {
		if s.accepted.count == 0 {
			continue
		}
		for _, o := range s.objects {
			object := namedObject{s.db, nameKind(o.kind), o.name}
			switch object.kind {
			case "":
				continue
			case "role":
				object.db = ""
			case "database":
				object.db = ""
			case "function":
				object.name, o.to = functionName(o.name), functionName(o.to)
			}
			switch o.action {
			case "rename":
				if o.to != "" && !slices.Contains(r.to[object], o.to) {
					r.to[object] = append(r.to[object], o.to)
				}
				r.recorded[object] = true
			case "drop":
				r.recorded[object] = true
			}
		}
	}
	return r
}

// names returns all names that an object has had since, beginning with the given one.
func (r *renames) names(dbs []string, kind, name string) []string {
	found := []string{name}
	for i := 0; i < len(found) && len(found) < mostVariants; i++ {
		add := func(n string) {
			if !slices.Contains(found, n) {
				found = append(found, n)
			}
		}
		for _, db := range dbs {
			for _, to := range r.to[namedObject{db, kind, found[i]}] {
				add(to)
			}
			if schema := schemaOf(found[i]); schema != "" && kind != "schema" {
				for _, to := range r.to[namedObject{db, "schema", schema}] {
					add(to + strings.TrimPrefix(found[i], schema))
				}
			}
		}
	}
	return found
}

// columns returns all names that a relation's column has had since.
func (r *renames) columns(dbs, relations []string, column string) []string {
	found := []string{column}
	for i := 0; i < len(found); i++ {
		for _, db := range dbs {
			for _, relation := range relations {
				for _, to := range r.to[namedObject{db, "column", relation + "." + found[i]}] {
					if to, ok := strings.CutPrefix(to, relation+"."); ok && !slices.Contains(found, to) {
						found = append(found, to)
					}
				}
			}
		}
	}
	return found
}

// globalNames returns all names that a role or database has had since.
func (r *renames) globalNames(kind, name string) []string { return r.names([]string{""}, kind, name) }

// variants returns a statement under all names that its database, its roles and the objects that it uses have had
// since. Names of different objects are not combined: variant n has the n-th name of each.
func (r *renames) variants(s *statement) []*statement {
	all := []*statement{s}
	if len(r.to) == 0 {
		return all
	}
	dbs, users, roles := r.globalNames("database", s.db), r.globalNames("role", s.user), r.globalNames("role", s.role)
	most := 1
	of := func(kind, name string) []string {
		n := r.names(dbs, kind, name)
		most = max(most, len(n))
		return n
	}
	relations, executes, sequences := make([][]string, len(s.relations)), make([][]string, len(s.executes)),
		make([][]string, len(s.sequences))
	schemas, objects := make([][]string, len(s.mentioned)), make([][]string, len(s.objects))
	columns := false
	for i := range s.relations {
		relations[i] = of("relation", s.relations[i].name)
		for _, list := range s.relations[i].columns {
			for _, c := range list {
				columns = columns || len(r.columns(dbs, relations[i], c)) > 1
			}
		}
	}
	for i, f := range s.executes {
		executes[i] = of("function", f)
	}
	for i, q := range s.sequences {
		sequences[i] = of("relation", q)
	}
	for i, m := range s.mentioned {
		schemas[i] = of("schema", m)
	}
	for i, o := range s.objects {
		objects[i] = of(nameKind(o.kind), o.name)
	}
	if most == 1 && !columns && len(dbs)*len(users)*len(roles) == 1 {
		return all
	}
	for _, db := range dbs {
		for _, user := range users {
			for _, role := range roles {
				if s.user == s.role && user != role {
					continue
				}
				for round := range most {
					if len(all) > mostVariants {
						s.incomplete = true
						return all
					}
					pick := func(names []string) string { return names[min(round, len(names)-1)] }
					v := *s
					v.variantOf, v.db, v.user, v.role = s, db, user, role
					v.relations = slices.Clone(s.relations)
					for i := range v.relations {
						used := &v.relations[i]
						used.name = pick(relations[i])
						used.columns = maps.Clone(used.columns)
						for access, list := range used.columns {
							var names []string
							for _, c := range list {
								names = append(names, r.columns(dbs, relations[i], c)...)
							}
							used.columns[access] = names
						}
					}
					v.executes, v.sequences = slices.Clone(s.executes), slices.Clone(s.sequences)
					v.mentioned, v.objects = slices.Clone(s.mentioned), slices.Clone(s.objects)
					for i := range executes {
						v.executes[i] = pick(executes[i])
					}
					for i := range sequences {
						v.sequences[i] = pick(sequences[i])
					}
					for i := range schemas {
						v.mentioned[i] = pick(schemas[i])
					}
					for i := range objects {
						v.objects[i].name = pick(objects[i])
					}
					all = append(all, &v)
				}
			}
		}
	}
	return all
}

// explained reports whether a record says why an object is not among the grants: it was renamed or dropped.
func (r *renames) explained(dbs []string, kind, name string) bool {
	for _, n := range r.names(dbs, kind, name) {
		for _, db := range dbs {
			if r.recorded[namedObject{db, kind, n}] ||
				schemaOf(n) != "" && r.recorded[namedObject{db, "schema", schemaOf(n)}] {
				return true
			}
		}
	}
	return false
}

// noteLost marks grants that may have been used under another name: a statement used an object that is not among the
// grants, and no record renames or drops it.
func (a *access) noteLost(s *statement, variants []*statement) {
	p := a.policy
	if s.earlier || s.command == "connect" && len(s.relations) == 0 {
		return
	}
	if !slices.ContainsFunc(variants, func(v *statement) bool { return p.roles[v.role] != nil }) {
		if len(p.roles) == 0 || a.renames.explained([]string{""}, "role", s.role) {
			return
		}
		a.lostRoles[s.role] = true
		for _, n := range p.needs(s) {
			for _, g := range p.grantsFor(&n) {
				g.lost = "the role " + QuoteName(s.role) +
					" used it, which is not among the grants, and no record says why: it may have another name now"
			}
		}
		return
	}
	in := p.inside[s.db]
	if in == nil || p.isSuperuser(s.role) {
		return
	}
	lost := func(kind objectKind, letter byte, name string) {
		for _, g := range p.grants {
			if g.kind == kind && g.db == s.db && g.letter == letter && p.hasPrivilegesOf(s.role, g.grantee, s.db) {
				g.lost = "the role used " + name + ", which is not among the grants, and no record says why: it may " +
					"have another name now"
			}
		}
	}
	dbs := a.renames.globalNames("database", s.db)
	for i := range s.relations {
		r := &s.relations[i]
		if isSystemSchema(schemaOf(r.name)) || slices.ContainsFunc(variants, func(v *statement) bool {
			return p.inside[v.db].relation(v.relations[i].name) != nil
		}) ||
			r.kind == "index" || r.kind == "toast table" || a.renames.explained(dbs, "relation", r.name) {
			continue
		}
		for _, l := range accessLetters {
			if r.access[l.bit] {
				lost(onRelation, l.letter, r.name)
			}
		}
		lost(onSchema, 'U', r.name)
	}
	for i, f := range s.executes {
		known := func(v *statement) bool {
			in := p.inside[v.db]
			return in != nil && in.functions[v.executes[i]] != nil
		}
		if !isSystemSchema(schemaOf(f)) && !slices.ContainsFunc(variants, known) &&
			!a.renames.explained(dbs, "function", f) {
			lost(onFunction, 'X', f+"()")
			lost(onSchema, 'U', f+"()")
		}
	}
}

// grantsFor returns the grants to any role that could satisfy a need.
func (p *policy) grantsFor(n *need) (found []*grant) {
	in := p.inside[n.db]
	var lists [][]*grant
	switch n.kind {
	case onDatabase:
		lists = append(lists, p.databases[n.db])
	case onSchema:
		if in != nil {
			lists = append(lists, in.schemas[n.object])
		}
	case onFunction:
		if in != nil {
			lists = in.functions[n.object]
		}
	case onRelation, onSequence:
		if r := in.relation(n.object); r != nil {
			lists = append(lists, r.table)
			for _, list := range r.columns {
				lists = append(lists, list)
			}
		}
	}
	for _, list := range lists {
		for _, g := range list {
			if g.letter == n.letter {
				found = append(found, g)
			}
		}
	}
	return found
}

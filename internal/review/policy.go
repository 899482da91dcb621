// PostgreSQL's privilege checks, applied to grants: what a statement needs, and which grants and memberships satisfy
// that.

package review

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// grant is one privilege that a role has on an object.
type grant struct {
	db        string
	kind      objectKind
	object    string // functions have their arguments
	column    string
	letter    byte
	grantee   string // empty: PUBLIC
	grantor   string
	owner     string // of the object
	option    bool
	relkind   string
	sqlBody   bool // a function that the planner may inline
	extension bool // of an extension, or of the system
	virtual   bool // given by a predefined role, not by an ACL

	used uses
	// columns are the columns that statements used by a grant on a table; allColumns says that one used all.
	columns        map[string]*uses
	allColumns     bool
	columnsUnknown bool   // a record did not say which columns it used
	lost           string // why statements may have used it under another name
}

// membership is a membership, and the statements that used it.
type membership struct {
	Membership
	inherits, sets bool
	used           uses
}

// relation is a relation with the privileges on it.
type relation struct {
	*Relation
	table   []*grant
	columns map[string][]*grant
}

// policy is a set of grants, indexed for checks. It is for one goroutine.
type policy struct {
	*Grants
	roles       map[string]*Role
	memberships []*membership
	grants      []*grant
	databases   map[string][]*grant
	inside      map[string]*databaseContents

	inherited map[string]map[string]bool
	settable  map[string]map[string]bool
	paths     map[path][]*membership
	// everything caches the results of withEverything, by database.
	everything map[string][]*grant
}

// path leads from a role to one whose rights it has.
type path struct {
	role, other, db string
	set             bool
}

// databaseContents is what the grants have of a database, by names.
type databaseContents struct {
	relations         map[string]*relation
	schemas           map[string][]*grant
	functions         map[string][][]*grant // by the name without arguments: the grants on each overload
	sequences         map[string]bool
	schemasWithOthers map[string]bool     // schemas with objects that records do not name
	byName            map[string][]string // see byLastName

	// by function: the roles, other than the caller, with whose rights it is called
	runners    map[string]map[string]bool
	ownsTables map[string]bool
	definers   map[string]bool // roles with whose rights functions run, and the roles that these inherit
	calledAs   map[string]bool // roles with whose rights functions are called
}

// isDefiner reports whether functions run with the rights of a role.
func (p *policy) isDefiner(role string) bool {
	for _, in := range p.inside {
		if in.definers[role] {
			return true
		}
	}
	return false
}

func newPolicy(g *Grants) *policy {
	p := &policy{
		Grants: g, roles: map[string]*Role{}, databases: map[string][]*grant{}, inside: map[string]*databaseContents{},
		inherited: map[string]map[string]bool{}, settable: map[string]map[string]bool{},
		paths:      map[path][]*membership{},
		everything: map[string][]*grant{},
	}
	for i := range g.Roles {
		p.roles[g.Roles[i].Name] = &g.Roles[i]
	}
	for _, m := range g.Memberships {
		e := &membership{Membership: m, inherits: true, sets: true}
		if member := p.roles[m.Member]; member != nil {
			e.inherits = member.Inherit
		}
		if m.InheritOption != nil {
			e.inherits = *m.InheritOption
		}
		if m.SetOption != nil {
			e.sets = *m.SetOption
		}
		p.memberships = append(p.memberships, e)
	}
	for i := range g.Databases {
		p.addDatabase(&g.Databases[i])
	}
	return p
}

// addACL adds the privileges of an ACL, each as a copy of base.
func (p *policy) addACL(acl []string, base grant) (all []*grant) {
	for _, text := range acl {
		a, err := parseACLItem(text)
		if err != nil {
			continue
		}
		for _, c := range []byte(a.letters) {
			g := base
			g.letter, g.grantee, g.grantor = c, a.grantee, a.grantor
			g.option = strings.IndexByte(a.options, c) >= 0
			all = append(all, &g)
		}
	}
	p.grants = append(p.grants, all...)
	return all
}

func isSystemSchema(name string) bool {
	return name == "pg_catalog" || name == "information_schema" || strings.HasPrefix(name, "pg_toast") ||
		strings.HasPrefix(name, "pg_temp")
}

func (p *policy) addDatabase(d *Database) {
	p.databases[d.Name] = p.addACL(d.ACL, grant{db: d.Name, kind: onDatabase, object: d.Name, owner: d.Owner})
	if !d.Inside {
		return
	}
	in := &databaseContents{relations: map[string]*relation{}, schemas: map[string][]*grant{},
		functions: map[string][][]*grant{}, sequences: map[string]bool{}, schemasWithOthers: map[string]bool{}}
	p.inside[d.Name] = in
	for i := range d.Schemas {
		s := &d.Schemas[i]
		in.schemasWithOthers[s.Name] = s.Others
		in.schemas[s.Name] = p.addACL(s.ACL, grant{db: d.Name, kind: onSchema, object: s.Name, owner: s.Owner,
			extension: s.Extension || isSystemSchema(s.Name)})
	}
	for i := range d.Relations {
		r := &d.Relations[i]
		base := grant{db: d.Name, kind: onRelation, object: r.Name, owner: r.Owner, relkind: r.Kind,
			extension: r.Extension || isSystemSchema(schemaOf(r.Name))}
		if r.Kind == "S" {
			base.kind = onSequence
			in.sequences[r.Name] = true
		}
		rel := &relation{Relation: r, table: p.addACL(r.ACL, base), columns: map[string][]*grant{}}
		for _, c := range slices.Sorted(maps.Keys(r.ColumnACL)) {
			base.column = c
			rel.columns[c] = p.addACL(r.ColumnACL[c], base)
		}
		in.relations[r.Name] = rel
	}
	for i := range d.Functions {
		f := &d.Functions[i]
		base := grant{db: d.Name, kind: onFunction, object: f.Name + "(" + f.Arguments + ")", owner: f.Owner,
			relkind: f.Kind, sqlBody: f.SQL, extension: f.Extension}
		in.functions[f.Name] = append(in.functions[f.Name], p.addACL(f.ACL, base))
	}
	p.findHidden(d, in)
}

// ---- roles ----

func (p *policy) isSuperuser(role string) bool {
	return p.roles[role] != nil && p.roles[role].Superuser
}

// rolesOf returns the other roles whose privileges a role inherits or, if set, to which it can SET ROLE.
func (p *policy) rolesOf(role, db string, set bool) map[string]bool {
	kept := p.inherited
	if set {
		kept = p.settable
	}
	key := role + "\x00" + db
	if found := kept[key]; found != nil {
		return found
	}
	found := map[string]bool{}
	kept[key] = found
	queue := []string{role}
	for len(queue) > 0 {
		member := queue[0]
		queue = queue[1:]
		for _, e := range p.memberships {
			if e.Member == member && (set && e.sets || !set && e.inherits) && !found[e.Role] && e.Role != role {
				found[e.Role] = true
				queue = append(queue, e.Role)
			}
		}
		if d := p.database(db); d != nil && d.Owner == member && !found[databaseOwner] {
			found[databaseOwner] = true
			queue = append(queue, databaseOwner)
		}
	}
	return found
}

const databaseOwner = "pg_database_owner"

// hasPrivilegesOf reports whether a role is another one, or inherits its privileges.
func (p *policy) hasPrivilegesOf(role, other, db string) bool {
	return other == "" || other == role || p.rolesOf(role, db, false)[other]
}

// useMembership marks the memberships through which a role has another one.
func (p *policy) useMembership(role, other, db string, set bool, u *statement) {
	if other == "" || other == role {
		return
	}
	key := path{role, other, db, set}
	edges, known := p.paths[key]
	if !known {
		mine := p.rolesOf(role, db, set)
		for _, e := range p.memberships {
			if (e.Member == role || mine[e.Member]) && (set && e.sets || !set && e.inherits) &&
				(e.Role == other || p.rolesOf(e.Role, db, set)[other]) {
				edges = append(edges, e)
			}
		}
		p.paths[key] = edges
	}
	for _, e := range edges {
		e.used.mark(u)
	}
}

// useAdmin marks the memberships by which a role may have granted, altered or dropped other roles.
func (p *policy) useAdmin(role string, u *statement) {
	for _, e := range p.administers(role) {
		e.used.mark(u)
	}
}

// administers returns a role's memberships with ADMIN OPTION, and those that lead to them. ADMIN OPTION needs neither
// INHERIT nor SET.
func (p *policy) administers(role string) (all []*membership) {
	if p.isSuperuser(role) {
		return nil
	}
	leads := map[string]bool{}
	var walk func(string) bool
	walk = func(member string) bool {
		if there, known := leads[member]; known {
			return there
		}
		leads[member] = false
		for _, e := range p.memberships {
			if e.Member == member && (walk(e.Role) || e.Admin) {
				all = append(all, e)
				leads[member] = true
			}
		}
		return leads[member]
	}
	walk(role)
	return all
}

// changesOwner reports whether a statement may make another role the owner of something. That needs SET ROLE to the
// new owner, whether or not its privileges are inherited.
func (s *statement) changesOwner() bool {
	if s.command == reassignOwned {
		return true
	}
	if !strings.HasPrefix(s.command, "ALTER ") && !strings.HasPrefix(s.command, "CREATE ") {
		return false
	}
	text := strings.ToLower(s.fullText())
	return text == "" || strings.Contains(text, "owner") || strings.Contains(text, "authorization")
}

const reassignOwned, createSchema = "REASSIGN OWNED", "CREATE SCHEMA"

// asNewOwners returns variants of a CREATE SCHEMA, one for each role that may own the schema: objects in it are
// created with the owner's rights.
func (p *policy) asNewOwners(s *statement) (all []*statement) {
	if s.command != createSchema {
		return nil
	}
	for _, owner := range p.newOwners(s) {
		if owner != s.role {
			as := *s
			as.role = owner
			as.variantOf = cmp.Or(s.variantOf, s)
			all = append(all, &as)
		}
	}
	return all
}

// newOwners returns the roles that a statement may make the owner of something: all possible ones if its text does
// not name them.
func (p *policy) newOwners(s *statement) []string {
	if !s.changesOwner() || p.isSuperuser(s.role) && s.command != createSchema {
		return nil
	}
	var all []string
	text := s.fullText()
	unknown := text == "" || strings.HasSuffix(text, " ...")
	words, _ := (&script{text: text}).next()
	r := &reading{words: words}
	for len(r.words) > 0 {
		after := r.words[0]
		r.words = r.words[1:]
		if !after.is("owner") && !after.is("authorization") && !(after.is("to") && s.command == reassignOwned) {
			continue
		}
		to := r.take("to") || !after.is("owner")
		r.take("=")
		if len(r.words) == 0 {
			break
		}
		switch name := r.words[0]; {
		case name.is("current_user") || name.is("current_role"):
			all = append(all, s.role)
		case name.is("session_user"):
			all = append(all, s.user)
		case name.isName() && p.roles[name.text] != nil:
			all = append(all, name.text)
		default: // its name has changed, or is written in another way
			unknown = unknown || to
		}
	}
	switch {
	case unknown && p.isSuperuser(s.role):
		all = slices.Collect(maps.Keys(p.roles))
	case unknown:
		all = append(slices.Collect(maps.Keys(p.rolesOf(s.role, s.db, true))), s.role)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ---- checks ----

// verdict is the result of a check.
type verdict int

const (
	allowed verdict = iota
	uncertain
	denied
)

// need is a privilege that a statement needs.
type need struct {
	role   string // whose privileges are checked
	db     string
	kind   objectKind
	object string
	letter byte
	// columns are those that need it; allColumns says that all do, columnsUnknown that they are not known.
	columns                    []string
	allColumns, columnsUnknown bool
	// unsure says that the statement may not need it, or not of this role.
	unsure bool
}

// check checks a need. It marks the grants that satisfy it as used by u, unless u is nil.
func (p *policy) check(n *need, u *statement) verdict {
	if p.isSuperuser(n.role) {
		return allowed
	}
	if p.roles[n.role] == nil && len(p.roles) > 0 {
		return uncertain // dropped or renamed since
	}
	v := denied
	in := p.inside[n.db]
	switch n.kind {
	case onDatabase:
		list, known := p.databases[n.db]
		if !known {
			return uncertain
		}
		v = p.checkObject(n, list, u)
	case onSchema:
		if in == nil || in.schemas[n.object] == nil {
			return uncertain
		}
		v = p.checkObject(n, in.schemas[n.object], u)
	case onFunction:
		if in == nil || in.functions[n.object] == nil {
			return uncertain
		}
		for i, list := range in.functions[n.object] { // records do not say which overload was called
			if overload := p.checkObject(n, list, u); i == 0 {
				v = overload
			} else if overload != v {
				v = uncertain
			}
		}
	case onRelation, onSequence:
		if in == nil || in.relations[n.object] == nil {
			return uncertain
		}
		v = p.checkRelation(n, in.relations[n.object], u)
	}
	if v == denied && (n.unsure || p.reasonNotRestored(n.db, n.kind) != "") {
		return uncertain
	}
	return v
}

// reasonNotRestored returns why the grants of a dump may lack privileges on a kind of objects of a database; empty if
// they do not.
func (p *policy) reasonNotRestored(db string, kind objectKind) string {
	d := p.database(db)
	switch {
	case d == nil:
	case len(d.Incomplete) > 0:
		return "the dump of the database could not be restored as a whole"
	case d.OwnUnknown && kind == onDatabase:
		return "the dump does not say who has privileges on the database"
	}
	return ""
}

// checkObject checks a need that does not depend on columns.
func (p *policy) checkObject(n *need, list []*grant, u *statement) verdict {
	v := denied
	for _, g := range list {
		if g.letter == n.letter && p.hasPrivilegesOf(n.role, g.grantee, n.db) {
			v = allowed
			p.markUsed(n, g, u)
		}
	}
	if p.checkPredefined(n, u) {
		v = allowed
	}
	return v
}

// markUsed marks a grant as used for a need.
func (p *policy) markUsed(n *need, g *grant, u *statement) {
	if u == nil {
		return
	}
	if !g.virtual {
		g.used.mark(u)
	}
	p.useMembership(n.role, g.grantee, n.db, false, u)
	if n.kind != onRelation || g.column != "" {
		return
	}
	g.allColumns = g.allColumns || n.allColumns
	g.columnsUnknown = g.columnsUnknown || n.columnsUnknown
	for _, c := range n.columns {
		if g.columns == nil {
			g.columns = map[string]*uses{}
		}
		if g.columns[c] == nil {
			g.columns[c] = &uses{}
		}
		g.columns[c].mark(u)
	}
}

// rightsOnEverything has the letters of the privileges that a predefined role has on all tables and sequences, and on
// all schemas.
type rightsOnEverything struct{ role, relation, schema string }

// onEverything are the predefined roles with privileges on all tables, sequences and schemas.
var onEverything = []rightsOnEverything{
	{"pg_read_all_data", "r", "U"}, {"pg_write_all_data", "awd", "U"}, {"pg_maintain", "m", ""},
}

// checkPredefined reports whether one of the roles in onEverything satisfies a need.
func (p *policy) checkPredefined(n *need, u *statement) (ok bool) {
	for _, r := range onEverything {
		letters := r.relation
		if n.kind == onSchema {
			letters = r.schema
		} else if n.kind != onRelation && n.kind != onSequence {
			continue
		}
		if strings.IndexByte(letters, n.letter) >= 0 && p.hasPrivilegesOf(n.role, r.role, n.db) {
			ok = true
			p.markUsed(n, &grant{grantee: r.role, virtual: true}, u)
		}
	}
	return ok
}

// withEverything returns the grants of a database, with those of predefined roles that have members.
func (p *policy) withEverything(db string) []*grant {
	if all, known := p.everything[db]; known {
		return all
	}
	all := slices.DeleteFunc(slices.Clone(p.grants), func(g *grant) bool { return g.db != db })
	for _, r := range onEverything {
		if p.inside[db] == nil || !slices.ContainsFunc(p.memberships, func(e *membership) bool {
			return e.Role == r.role
		}) {
			continue
		}
		add := func(base grant, letters string) {
			base.db, base.grantee, base.virtual = db, r.role, true
			base.extension = base.extension || isSystemSchema(base.object) || isSystemSchema(schemaOf(base.object))
			for _, c := range []byte(letters) {
				g := base
				g.letter = c
				all = append(all, &g)
			}
		}
		for _, s := range p.database(db).Schemas {
			add(grant{kind: onSchema, object: s.Name, owner: s.Owner, extension: s.Extension}, r.schema)
		}
		for _, rel := range p.database(db).Relations {
			kind := onRelation
			if rel.Kind == "S" {
				kind = onSequence
			}
			add(grant{kind: kind, object: rel.Name, owner: rel.Owner, relkind: rel.Kind, extension: rel.Extension},
				r.relation)
		}
	}
	p.everything[db] = all
	return all
}

// checkRelation checks a need on a relation, as ExecCheckOneRelPerms() does: the privilege on the table, or else on
// each column that needs it, or on any column if no certain one does.
func (p *policy) checkRelation(n *need, r *relation, u *statement) verdict {
	v := p.checkObject(n, r.table, u)
	if n.letter == 'U' && r.Kind == "S" { // nextval() takes UPDATE, too
		update := *n
		update.letter = 'w'
		v = min(v, p.checkObject(&update, r.table, u))
	}
	if strings.IndexByte("rawx", n.letter) < 0 || len(r.columns) == 0 {
		return v
	}
	onColumn := func(c string) bool {
		ok := false
		for _, g := range r.columns[c] {
			if g.letter == n.letter && p.hasPrivilegesOf(n.role, g.grantee, n.db) {
				ok = true
				p.markUsed(n, g, u)
			}
		}
		return ok
	}
	byColumns := denied
	switch {
	case n.columnsUnknown:
		for c := range r.columns {
			if onColumn(c) {
				byColumns = uncertain
			}
		}
	case n.allColumns:
		byColumns = allowed
		for _, c := range r.Columns {
			if !onColumn(c) {
				byColumns = denied
			}
		}
		if len(r.Columns) == 0 && byColumns == allowed {
			byColumns = uncertain // the grants do not have the columns of system catalogs
		}
	case len(n.columns) == 0:
		for c := range r.columns {
			if onColumn(c) {
				byColumns = allowed
			}
		}
	default:
		byColumns = allowed
		for _, c := range n.columns {
			if !onColumn(c) {
				byColumns = denied
			}
		}
	}
	return min(v, byColumns)
}

// ---- what a statement needs ----

var accessLetters = []struct {
	bit    string
	letter byte
}{{"select", 'r'}, {"insert", 'a'}, {"update", 'w'}, {"delete", 'd'}, {"truncate", 'D'}, {"references", 'x'}}

const refreshCommand = "REFRESH MATERIALIZED VIEW"

// needs returns the privileges that the server checked for a statement.
func (p *policy) needs(s *statement) (all []need) {
	all = p.needsOf(s)
	as := p.asNewOwners(s)
	for i := range all {
		all[i].unsure = all[i].unsure || len(as) > 0 && all[i].kind != onDatabase
	}
	for _, other := range as {
		for _, n := range p.needsOf(other) {
			if n.unsure = true; n.kind != onDatabase { // CREATE on the database is needed by the role that runs it
				all = append(all, n)
			}
		}
	}
	return all
}

// needsOf returns the privileges that the role needs that runs a statement.
func (p *policy) needsOf(s *statement) (all []need) {
	in := p.inside[s.db]
	add := func(n need) {
		n.db = s.db
		all = append(all, n)
	}
	role := s.role
	if s.command == refreshCommand { // runs as the owner of the view
		for _, o := range s.objects {
			if r := in.relation(o.name); r != nil {
				role = r.Owner
			}
		}
	}
	others := p.otherCheckedRoles(s, in, role)
	for i := range s.relations {
		r := &s.relations[i]
		if schema := schemaOf(r.name); isSystemSchema(schema) && (in == nil || in.relations[r.name] == nil) ||
			strings.HasPrefix(schema, "pg_temp") || r.kind == "toast table" || r.kind == "index" {
			continue
		}
		checked, unsure := role, false
		if r.via > 0 && r.via <= len(s.relations) {
			view := in.relation(s.relations[r.via-1].name)
			switch {
			case view == nil:
				unsure = true
			case !view.Invoker:
				checked = view.Owner
			}
		} else {
			// The statement itself names a view through which it reaches others, and a table with a rule, except in
			// the nested records of the rule's own queries.
			rel := in.relation(r.name)
			unsure = len(others) > 0 && !s.reachesThrough(i) && (rel == nil || !rel.Rules || s.nested)
			if s.command != refreshCommand { // the names in the view's query are looked up already
				add(need{role: checked, kind: onSchema, object: schemaOf(r.name), letter: 'U', unsure: unsure})
			}
		}
		p.useSequences(s, r, in, role, add)
		p.useReferences(r, in, add)
		for _, a := range accessLetters {
			if r.access[a.bit] {
				n := need{kind: onRelation, object: r.name, letter: a.letter, unsure: unsure}
				n.columns, n.allColumns, n.columnsUnknown = r.columnsFor(a.bit)
				n.role = checked
				add(n)
				for _, o := range others {
					if unsure && r.via == 0 {
						n.role, n.unsure = o, true
						add(n)
					}
				}
			}
		}
		if rel := in.relation(r.name); rel != nil && len(rel.PolicyRoles) > 0 {
			for _, o := range rel.PolicyRoles {
				for _, reader := range []string{role, checked} {
					// a view's relations are subject to the policies for the view's owner, who is checked
					if o != "" && p.hasPrivilegesOf(reader, o, s.db) {
						p.useMembership(reader, o, s.db, false, s)
					}
				}
			}
		}
	}
	for _, f := range s.executes {
		// The record of the caller's statement has also the functions that a SECURITY DEFINER function calls in
		// expressions.
		add(need{role: role, kind: onFunction, object: f, letter: 'X', unsure: in != nil && s.runsAsOthers(in) &&
			!s.textMentions(f)})
		add(need{role: role, kind: onSchema, object: schemaOf(f), letter: 'U', unsure: !s.textMentions(f) ||
			len(s.relations) > 0})
	}
	for _, q := range s.sequences {
		if name := in.resolve(q); name != "" {
			letter := byte('U')
			if s.sequenceFunction == "setval" {
				letter = 'w'
			}
			add(need{role: role, kind: onSequence, object: name, letter: letter, unsure: s.sequenceFunction == ""})
			add(need{role: role, kind: onSchema, object: schemaOf(name), letter: 'U', unsure: q != name})
		}
	}
	p.objectNeeds(s, in, s.role, add)
	p.ownerNeeds(s, in, add)
	p.textNeeds(s, in, s.role, add)
	p.runnerNeeds(s, in, role, add)
	if s.command == refreshCommand { // CONCURRENTLY creates a temporary table
		add(need{role: role, kind: onDatabase, object: s.db, letter: 'T', unsure: true})
	}
	for i := range all {
		all[i].unsure = all[i].unsure || s.checksForeignKey(&all[i])
	}
	return all
}

// checksForeignKey reports whether a statement may need a privilege only for the query by which the server checks a
// new foreign key. The server runs that query only if the role may read both tables; otherwise it checks row by row,
// as the owners.
func (s *statement) checksForeignKey(n *need) bool {
	return s.command == "ALTER TABLE" && n.kind == onRelation && n.letter == 'r' ||
		s.nested && strings.HasPrefix(s.text, `SELECT fk."`) && strings.Contains(s.text, " fk LEFT OUTER JOIN ")
}

// runsAsOthers reports whether a statement executes a function that runs, or calls functions, with the rights of
// another role.
func (s *statement) runsAsOthers(in *databaseContents) bool {
	return slices.ContainsFunc(s.executes, func(f string) bool { return len(in.runners[f]) > 0 })
}

// reachesThrough reports whether relation i is a view through which the statement reaches another one.
func (s *statement) reachesThrough(i int) bool {
	return slices.ContainsFunc(s.relations, func(r usedRelation) bool { return r.via == i+1 })
}

// otherCheckedRoles returns the roles that may be checked instead of the statement's own for relations that are not
// reached through a recorded view: rules and row security policies work with the rights of the owner of a table or
// view.
func (p *policy) otherCheckedRoles(s *statement, in *databaseContents, role string) (others []string) {
	for i := range s.relations {
		rel := in.relation(s.relations[i].name)
		if rel == nil || !rel.Rules && (len(rel.PolicyRoles) == 0 || s.relations[i].via == 0) {
			continue
		}
		owner := rel.Owner
		if v := s.relations[i].via; v > 0 && v <= len(s.relations) {
			if view := in.relation(s.relations[v-1].name); view != nil && !rel.Rules {
				owner = view.Owner
			}
		}
		if owner != role && !slices.Contains(others, owner) {
			others = append(others, owner)
		}
	}
	return others
}

// useReferences adds what the owner of a referenced table needs when rows with a foreign key are written. If the
// server checks the key by a query, that query has a record of its own; but from version 19 on it need not run one,
// and such records can be switched off.
func (p *policy) useReferences(r *usedRelation, in *databaseContents, add func(need)) {
	rel := in.relation(r.name)
	if rel == nil || !r.access["insert"] && !r.access["update"] {
		return
	}
	for _, name := range rel.References {
		if to := in.relation(name); to != nil {
			add(need{role: to.Owner, kind: onSchema, object: schemaOf(name), letter: 'U', unsure: true})
			add(need{role: to.Owner, kind: onRelation, object: name, letter: 'r', columnsUnknown: true, unsure: true})
		}
	}
}

// useSequences adds needs on the sequences from which an INSERT takes defaults.
func (p *policy) useSequences(s *statement, r *usedRelation, in *databaseContents, role string, add func(need)) {
	rel := in.relation(r.name)
	if rel == nil || !r.access["insert"] {
		return
	}
	columns, allColumns, columnsUnknown := r.columnsFor("insert")
	for _, column := range slices.Sorted(maps.Keys(rel.Defaults)) {
		sequence := rel.Defaults[column]
		// Unsure: a column that the INSERT names may get DEFAULT, and an INSERT of no rows needs no value.
		named := allColumns || columnsUnknown || slices.Contains(columns, column)
		add(need{role: role, kind: onSequence, object: sequence, letter: 'U', unsure: named || s.rows == 0})
	}
}

// objectNeeds adds what DDL and other utility statements need.
func (p *policy) objectNeeds(s *statement, in *databaseContents, role string, add func(need)) {
	for _, o := range s.objects {
		name := o.name
		if o.kind == "trigger" || o.kind == "policy" || o.kind == "rule" || o.kind == "table column" ||
			o.kind == "table constraint" {
			if _, on, found := strings.Cut(name, " on "); found {
				name = on
			}
		}
		rel := in.relation(name)
		schema := schemaOf(name)
		switch {
		case strings.HasPrefix(schema, "pg_temp"): // records of functions and the like have the schema with its number
			if o.action == "create" {
				add(need{role: role, kind: onDatabase, object: s.db, letter: 'T'})
			}
			continue
		case o.kind == "schema" && o.action == "create":
			add(need{role: role, kind: onDatabase, object: s.db, letter: 'C'})
		case o.kind == "trigger" && o.action == "create":
			add(need{role: role, kind: onRelation, object: name, letter: 't'})
		case o.action == "create" && schema != "" && s.depth == 0 && slices.Contains(inSchemas, o.kind):
			add(need{role: role, kind: onSchema, object: schema, letter: 'C'})
		case (o.action == "rename" || o.action == "alter" || o.action == "create") && schema != "":
			add(need{role: role, kind: onSchema, object: schema, letter: 'C', unsure: true})
		}
		if o.action != "create" && o.action != "use" && schema != "" {
			// names are looked up in the schema; objects that CASCADE reaches are not
			add(need{role: role, kind: onSchema, object: schema, letter: 'U', unsure: !s.textMentions(name)})
		}
		if s.command == refreshCommand && rel != nil { // from PostgreSQL 17 on; before, it is the owner's
			add(need{role: role, kind: onRelation, object: name, letter: 'm', unsure: true})
		}
		if o.action == "use" && rel != nil && !s.mayUsePart() {
			// LOCK, VACUUM and the like need any of several privileges
			for _, c := range []byte("rawdDm") {
				add(need{role: role, kind: onRelation, object: name, letter: c, unsure: true, columnsUnknown: true})
			}
			add(need{role: role, kind: onSchema, object: schema, letter: 'U', unsure: true})
		}
		p.useOwnership(s, rel, role)
	}
}

// ownerNeeds adds the needs of a new owner, who must be allowed to create the objects where they are.
func (p *policy) ownerNeeds(s *statement, in *databaseContents, add func(need)) {
	if in == nil || s.command == createSchema {
		return
	}
	owners := p.newOwners(s)
	schemas := map[string]bool{}
	for _, o := range s.objects {
		schemas[schemaOf(o.name)] = true
	}
	if s.command == reassignOwned && len(owners) > 0 { // the objects that the role owns are not recorded
		for schema := range in.schemas {
			schemas[schema] = !isSystemSchema(schema)
		}
		add(need{role: s.role, kind: onDatabase, object: s.db, letter: 'C', unsure: true}) // of schemas
	}
	for _, owner := range owners {
		for _, schema := range slices.Sorted(maps.Keys(schemas)) {
			if in.schemas[schema] != nil && schemas[schema] {
				add(need{role: owner, kind: onSchema, object: schema, letter: 'C', unsure: true})
			}
		}
		if s.command == reassignOwned || strings.HasSuffix(s.command, " PUBLICATION") ||
			strings.HasSuffix(s.command, " SUBSCRIPTION") {
			add(need{role: owner, kind: onDatabase, object: s.db, letter: 'C', unsure: true})
		}
	}
}

// mayUsePart reports whether a statement may use a table only because of a part of it, such as an index, which needs
// the owner.
func (s *statement) mayUsePart() bool {
	verb, _, _ := strings.Cut(s.command, " ")
	return slices.Contains([]string{"CREATE", "ALTER", "DROP", "COMMENT", "SECURITY"}, verb)
}

// textMentions reports whether the kept text of the statement contains the name of an object.
func (s *statement) textMentions(object string) bool {
	name := strings.ToLower(strings.Trim(strings.TrimPrefix(object, schemaOf(object)+"."), `"`))
	return name != "" && strings.Contains(strings.ToLower(s.text), name)
}

// inSchemas are the types of objects whose creation needs CREATE on the schema.
var inSchemas = []string{"table", "view", "materialized view", "sequence", "index", "function", "procedure",
	"aggregate", "type", "domain", "foreign table"}

// useOwnership marks the memberships by which a role may have acted as the owner of an object.
func (p *policy) useOwnership(s *statement, rel *relation, role string) {
	if p.isSuperuser(role) {
		return
	}
	if rel != nil {
		p.useMembership(role, rel.Owner, s.db, false, s)
		return
	}
	for other := range p.rolesOf(role, s.db, false) {
		p.useMembership(role, other, s.db, false, s)
	}
}

func (in *databaseContents) relation(name string) *relation {
	if in == nil {
		return nil
	}
	return in.relations[name]
}

// resolve finds a sequence by the name in a statement; empty if it is unknown or ambiguous.
func (in *databaseContents) resolve(name string) string {
	if in == nil {
		return ""
	}
	if in.sequences[name] {
		return name
	}
	found := ""
	for s := range in.sequences {
		if strings.HasSuffix(s, "."+name) {
			if found != "" {
				return ""
			}
			found = s
		}
	}
	return found
}

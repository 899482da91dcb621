// What PostgreSQL would allow: the checks of its executor, over grants.

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
	virtual   bool // comes from a predefined role, not from an ACL

	used uses
	// columns are those of a table-level grant that statements have used; whole says that all were.
	columns map[string]*uses
	whole   bool
	blurred bool   // a record did not say which columns it used
	lost    string // why statements may have used it under another name
}

// membership is a membership with what was used of it.
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

// policy is a set of grants, made ready for checks. It is for one goroutine.
type policy struct {
	*Grants
	roles     map[string]*Role
	edges     []*membership
	grants    []*grant
	databases map[string][]*grant
	inside    map[string]*inside

	inherited map[string]map[string]bool
	settable  map[string]map[string]bool
	paths     map[path][]*membership
	// everything is what withEverything has returned.
	everything map[string][]*grant
}

// path is from a role to one whose rights it has.
type path struct {
	role, other, db string
	set             bool
}

// inside is what is in a database.
type inside struct {
	relations map[string]*relation
	schemas   map[string][]*grant
	functions map[string][][]*grant // by the name without arguments: the grants of each
	sequences map[string]bool
	others    map[string]bool     // schemas with what records do not name
	named     map[string][]string // see byLastName

	runners    map[string]map[string]bool // whose rights a function is called with, beside the caller's
	ownsTables map[string]bool
	definers   map[string]bool // with whose rights functions run, and with those of the roles that these inherit
	calls      map[string]bool // with whose rights functions are called
}

// definer says whether functions run with the rights of a role.
func (p *policy) definer(role string) bool {
	for _, in := range p.inside {
		if in.definers[role] {
			return true
		}
	}
	return false
}

func newPolicy(g *Grants) *policy {
	p := &policy{
		Grants: g, roles: map[string]*Role{}, databases: map[string][]*grant{}, inside: map[string]*inside{},
		inherited: map[string]map[string]bool{}, settable: map[string]map[string]bool{}, paths: map[path][]*membership{},
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
		p.edges = append(p.edges, e)
	}
	for i := range g.Databases {
		p.addDatabase(&g.Databases[i])
	}
	return p
}

// add makes grants of an ACL.
func (p *policy) add(acl []string, base grant) (all []*grant) {
	for _, text := range acl {
		a, err := parseACLItem(text)
		if err != nil {
			continue
		}
		for _, c := range []byte(a.letters) {
			one := base
			one.letter, one.grantee, one.grantor = c, a.grantee, a.grantor
			one.option = strings.IndexByte(a.options, c) >= 0
			all = append(all, &one)
		}
	}
	p.grants = append(p.grants, all...)
	return all
}

func isSystemSchema(name string) bool {
	return name == "pg_catalog" || name == "information_schema" || strings.HasPrefix(name, "pg_toast") || strings.HasPrefix(name, "pg_temp")
}

func (p *policy) addDatabase(d *Database) {
	p.databases[d.Name] = p.add(d.ACL, grant{db: d.Name, kind: onDatabase, object: d.Name, owner: d.Owner})
	if !d.Inside {
		return
	}
	in := &inside{relations: map[string]*relation{}, schemas: map[string][]*grant{}, functions: map[string][][]*grant{}, sequences: map[string]bool{}, others: map[string]bool{}}
	p.inside[d.Name] = in
	for i := range d.Schemas {
		s := &d.Schemas[i]
		in.others[s.Name] = s.Others
		in.schemas[s.Name] = p.add(s.ACL, grant{db: d.Name, kind: onSchema, object: s.Name, owner: s.Owner, extension: s.Extension || isSystemSchema(s.Name)})
	}
	for i := range d.Relations {
		r := &d.Relations[i]
		base := grant{db: d.Name, kind: onRelation, object: r.Name, owner: r.Owner, relkind: r.Kind, extension: r.Extension || isSystemSchema(schemaOf(r.Name))}
		if r.Kind == "S" {
			base.kind = onSequence
			in.sequences[r.Name] = true
		}
		one := &relation{Relation: r, table: p.add(r.ACL, base), columns: map[string][]*grant{}}
		for _, c := range slices.Sorted(maps.Keys(r.ColumnACL)) {
			base.column = c
			one.columns[c] = p.add(r.ColumnACL[c], base)
		}
		in.relations[r.Name] = one
	}
	for i := range d.Functions {
		f := &d.Functions[i]
		base := grant{db: d.Name, kind: onFunction, object: f.Name + "(" + f.Arguments + ")", owner: f.Owner, relkind: f.Kind, sqlBody: f.SQL, extension: f.Extension}
		in.functions[f.Name] = append(in.functions[f.Name], p.add(f.ACL, base))
	}
	p.findHidden(d, in)
}

// ---- roles ----

func (p *policy) superuser(role string) bool { return p.roles[role] != nil && p.roles[role].Superuser }

// rolesOf are the roles whose privileges a role inherits, or to which it can SET ROLE, without itself.
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
		for _, e := range p.edges {
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

// has says whether a role has the privileges of another one.
func (p *policy) has(role, other, db string) bool {
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
		for _, e := range p.edges {
			if (e.Member == role || mine[e.Member]) && (set && e.sets || !set && e.inherits) &&
				(e.Role == other || p.rolesOf(e.Role, db, set)[other]) {
				edges = append(edges, e)
			}
		}
		p.paths[key] = edges
	}
	for _, e := range edges {
		e.used.take(u)
	}
}

// useAdmin marks the memberships by which a role may have granted, altered or dropped others.
func (p *policy) useAdmin(role string, u *statement) {
	for _, e := range p.administers(role) {
		e.used.take(u)
	}
}

// administers are the memberships with ADMIN OPTION, and those that lead there. For this, neither INHERIT nor SET matters.
func (p *policy) administers(role string) (all []*membership) {
	if p.superuser(role) {
		return nil
	}
	leads := map[string]bool{}
	var walk func(string) bool
	walk = func(member string) bool {
		if there, known := leads[member]; known {
			return there
		}
		leads[member] = false
		for _, e := range p.edges {
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

// givesAway says whether a statement may make another role the owner of something. It must be one to which its role can
// SET ROLE, whether or not it inherits its privileges.
func (s *statement) givesAway() bool {
	if s.command == reassignOwned {
		return true
	}
	if !strings.HasPrefix(s.command, "ALTER ") && !strings.HasPrefix(s.command, "CREATE ") {
		return false
	}
	text := strings.ToLower(s.full())
	return text == "" || strings.Contains(text, "owner") || strings.Contains(text, "authorization")
}

const reassignOwned, createSchema = "REASSIGN OWNED", "CREATE SCHEMA"

// asOwners are a statement as roles would run it that own the schema which it creates: what it creates in the schema, it
// does with their rights.
func (p *policy) asOwners(s *statement) (all []*statement) {
	if s.command != createSchema {
		return nil
	}
	for _, owner := range p.newOwners(s) {
		if owner != s.role {
			as := *s
			as.role = owner
			as.of = cmp.Or(s.of, s)
			all = append(all, &as)
		}
	}
	return all
}

// newOwners are the roles that a statement may make the owner of something, all that it could if its text does not tell.
func (p *policy) newOwners(s *statement) []string {
	if !s.givesAway() || p.superuser(s.role) && s.command != createSchema {
		return nil
	}
	var all []string
	text := s.full()
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
		default: // of a name that the role does not have any more, or one that is written in another way
			unknown = unknown || to
		}
	}
	switch {
	case unknown && p.superuser(s.role):
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
	// columns are those that need it; whole says that all do, and blurred that they are not known.
	columns        []string
	whole, blurred bool
	// unsure says that it is not certain that the statement needs it, or that this role does.
	unsure bool
}

// check checks a need. The grants that satisfy it are marked as used by u, unless that is nil.
func (p *policy) check(n *need, u *statement) verdict {
	if p.superuser(n.role) {
		return allowed
	}
	if p.roles[n.role] == nil && len(p.roles) > 0 {
		return uncertain // since dropped, or renamed
	}
	v := denied
	in := p.inside[n.db]
	switch n.kind {
	case onDatabase:
		list, known := p.databases[n.db]
		if !known {
			return uncertain
		}
		v = p.any(n, list, u)
	case onSchema:
		if in == nil || in.schemas[n.object] == nil {
			return uncertain
		}
		v = p.any(n, in.schemas[n.object], u)
	case onFunction:
		if in == nil || in.functions[n.object] == nil {
			return uncertain
		}
		for i, list := range in.functions[n.object] { // which of several was called is not recorded
			if one := p.any(n, list, u); i == 0 {
				v = one
			} else if one != v {
				v = uncertain
			}
		}
	case onRelation, onSequence:
		if in == nil || in.relations[n.object] == nil {
			return uncertain
		}
		v = p.relation(n, in.relations[n.object], u)
	}
	if v == denied && (n.unsure || p.unrestored(n.db, n.kind) != "") {
		return uncertain
	}
	return v
}

// unrestored says why a dump does not say all about the privileges on a kind of objects of a database; empty if it does.
func (p *policy) unrestored(db string, kind objectKind) string {
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

// any checks a need of an object without columns.
func (p *policy) any(n *need, list []*grant, u *statement) verdict {
	v := denied
	for _, g := range list {
		if g.letter == n.letter && p.has(n.role, g.grantee, n.db) {
			v = allowed
			p.use(n, g, u)
		}
	}
	if p.predefined(n, u) {
		v = allowed
	}
	return v
}

// use marks a grant.
func (p *policy) use(n *need, g *grant, u *statement) {
	if u == nil {
		return
	}
	if !g.virtual {
		g.used.take(u)
	}
	p.useMembership(n.role, g.grantee, n.db, false, u)
	if n.kind != onRelation || g.column != "" {
		return
	}
	g.whole = g.whole || n.whole
	g.blurred = g.blurred || n.blurred
	for _, c := range n.columns {
		if g.columns == nil {
			g.columns = map[string]*uses{}
		}
		if g.columns[c] == nil {
			g.columns[c] = &uses{}
		}
		g.columns[c].take(u)
	}
}

// rightsOnEverything are the letters of privileges that a predefined role has on every table and sequence, and every schema.
type rightsOnEverything struct{ role, relation, schema string }

// onEverything are the predefined roles that have privileges on every table and sequence, and on every schema.
var onEverything = []rightsOnEverything{
	{"pg_read_all_data", "r", "U"}, {"pg_write_all_data", "awd", "U"}, {"pg_maintain", "m", ""},
}

// predefined checks the roles that have a privilege on everything.
func (p *policy) predefined(n *need, u *statement) (ok bool) {
	for _, r := range onEverything {
		letters := r.relation
		if n.kind == onSchema {
			letters = r.schema
		} else if n.kind != onRelation && n.kind != onSequence {
			continue
		}
		if strings.IndexByte(letters, n.letter) >= 0 && p.has(n.role, r.role, n.db) {
			ok = true
			p.use(n, &grant{grantee: r.role, virtual: true}, u)
		}
	}
	return ok
}

// withEverything are the grants in a database, and those that predefined roles have without an ACL, if they have members.
func (p *policy) withEverything(db string) []*grant {
	if all, known := p.everything[db]; known {
		return all
	}
	all := slices.DeleteFunc(slices.Clone(p.grants), func(g *grant) bool { return g.db != db })
	for _, r := range onEverything {
		if p.inside[db] == nil || !slices.ContainsFunc(p.edges, func(e *membership) bool { return e.Role == r.role }) {
			continue
		}
		add := func(base grant, letters string) {
			base.db, base.grantee, base.virtual = db, r.role, true
			base.extension = base.extension || isSystemSchema(base.object) || isSystemSchema(schemaOf(base.object))
			for _, c := range []byte(letters) {
				one := base
				one.letter = c
				all = append(all, &one)
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
			add(grant{kind: kind, object: rel.Name, owner: rel.Owner, relkind: rel.Kind, extension: rel.Extension}, r.relation)
		}
	}
	p.everything[db] = all
	return all
}

// relation checks a need of a relation, as ExecCheckOneRelPerms() does: the privilege on the table,
// else on each column that needs it; on any column if none does.
func (p *policy) relation(n *need, r *relation, u *statement) verdict {
	v := p.any(n, r.table, u)
	if n.letter == 'U' && r.Kind == "S" { // nextval() takes UPDATE, too
		update := *n
		update.letter = 'w'
		v = min(v, p.any(&update, r.table, u))
	}
	if strings.IndexByte("rawx", n.letter) < 0 || len(r.columns) == 0 {
		return v
	}
	onColumn := func(c string) bool {
		ok := false
		for _, g := range r.columns[c] {
			if g.letter == n.letter && p.has(n.role, g.grantee, n.db) {
				ok = true
				p.use(n, g, u)
			}
		}
		return ok
	}
	byColumns := denied
	switch {
	case n.blurred:
		for c := range r.columns {
			if onColumn(c) {
				byColumns = uncertain
			}
		}
	case n.whole:
		byColumns = allowed
		for _, c := range r.Columns {
			if !onColumn(c) {
				byColumns = denied
			}
		}
		if len(r.Columns) == 0 && byColumns == allowed {
			byColumns = uncertain // the grants do not have the columns of the system
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

const refresh = "REFRESH MATERIALIZED VIEW"

// needs are the privileges that the server has checked for a statement.
func (p *policy) needs(s *statement) (all []need) {
	all = p.needsOf(s)
	as := p.asOwners(s)
	for i := range all {
		all[i].unsure = all[i].unsure || len(as) > 0 && all[i].kind != onDatabase
	}
	for _, other := range as {
		for _, n := range p.needsOf(other) {
			if n.unsure = true; n.kind != onDatabase { // to create the schema, who runs it needs
				all = append(all, n)
			}
		}
	}
	return all
}

// needsOf are those of the role that runs a statement.
func (p *policy) needsOf(s *statement) (all []need) {
	in := p.inside[s.db]
	add := func(n need) {
		n.db = s.db
		all = append(all, n)
	}
	role := s.role
	if s.command == refresh { // runs as the owner of the view
		for _, o := range s.objects {
			if r := in.relation(o.name); r != nil {
				role = r.Owner
			}
		}
	}
	others := p.others(s, in, role)
	for i := range s.relations {
		r := &s.relations[i]
		if schema := schemaOf(r.name); isSystemSchema(schema) && (in == nil || in.relations[r.name] == nil) || strings.HasPrefix(schema, "pg_temp") || r.kind == "toast table" || r.kind == "index" {
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
			// A view by which others are reached is named by the statement itself, and so is a table with a
			// rule, but not in the nested records of the rule's own queries.
			rel := in.relation(r.name)
			unsure = len(others) > 0 && !s.reaches(i) && (rel == nil || !rel.Rules || s.nested)
			if s.command != refresh { // the view's query has no names to be looked up
				add(need{role: checked, kind: onSchema, object: schemaOf(r.name), letter: 'U', unsure: unsure})
			}
		}
		p.useSequences(s, r, in, role, add)
		p.useReferences(r, in, add)
		for _, a := range accessLetters {
			if r.access[a.bit] {
				n := need{kind: onRelation, object: r.name, letter: a.letter, unsure: unsure}
				n.columns, n.whole, n.blurred = r.columnsFor(a.bit)
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
				for _, reader := range []string{role, checked} { // checked: of a view's relations, the policies are those for its owner
					if o != "" && p.has(reader, o, s.db) {
						p.useMembership(reader, o, s.db, false, s)
					}
				}
			}
		}
	}
	for _, f := range s.executes {
		// What a function with the rights of its owner calls in an expression is in the record of the caller's statement.
		add(need{role: role, kind: onFunction, object: f, letter: 'X', unsure: in != nil && s.runsOthers(in) && !s.names(f)})
		add(need{role: role, kind: onSchema, object: schemaOf(f), letter: 'U', unsure: !s.names(f) || len(s.relations) > 0})
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
	if s.command == refresh { // CONCURRENTLY makes a temporary table
		add(need{role: role, kind: onDatabase, object: s.db, letter: 'T', unsure: true})
	}
	for i := range all {
		all[i].unsure = all[i].unsure || s.checksForeignKey(&all[i])
	}
	return all
}

// checksForeignKey says whether a statement may need a privilege only for the query by which the server checks a new foreign
// key. It runs it only if both tables may be read, and otherwise checks row by row, as their owners.
func (s *statement) checksForeignKey(n *need) bool {
	return s.command == "ALTER TABLE" && n.kind == onRelation && n.letter == 'r' ||
		s.nested && strings.HasPrefix(s.text, `SELECT fk."`) && strings.Contains(s.text, " fk LEFT OUTER JOIN ")
}

// runsOthers says whether a statement executes a function that runs with the rights of another role, or calls functions so.
func (s *statement) runsOthers(in *inside) bool {
	return slices.ContainsFunc(s.executes, func(f string) bool { return len(in.runners[f]) > 0 })
}

// reaches says whether a relation is a view through which the statement reaches another one.
func (s *statement) reaches(i int) bool {
	return slices.ContainsFunc(s.relations, func(r usedRelation) bool { return r.via == i+1 })
}

// others are roles that may be checked instead of the statement's own for relations that no view is
// stated for: rules and policies of row security work with the rights of the owner of a table or view.
func (p *policy) others(s *statement, in *inside, role string) (others []string) {
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

// useReferences adds what the owner of a table needs to which a foreign key refers, when rows are written that may refer to
// it. If the server reads that table by a query, that has a record of its own, but it need not do so from version 19 on, and
// such records can be switched off.
func (p *policy) useReferences(r *usedRelation, in *inside, add func(need)) {
	rel := in.relation(r.name)
	if rel == nil || !r.access["insert"] && !r.access["update"] {
		return
	}
	for _, name := range rel.References {
		if to := in.relation(name); to != nil {
			add(need{role: to.Owner, kind: onSchema, object: schemaOf(name), letter: 'U', unsure: true})
			add(need{role: to.Owner, kind: onRelation, object: name, letter: 'r', blurred: true, unsure: true})
		}
	}
}

// useSequences adds the sequences from which an INSERT takes the defaults of columns that it does not name.
func (p *policy) useSequences(s *statement, r *usedRelation, in *inside, role string, add func(need)) {
	rel := in.relation(r.name)
	if rel == nil || !r.access["insert"] {
		return
	}
	columns, whole, blurred := r.columnsFor("insert")
	for _, column := range slices.Sorted(maps.Keys(rel.Defaults)) {
		sequence := rel.Defaults[column]
		// A column that is named can get DEFAULT, and rows that are not inserted need no value.
		named := whole || blurred || slices.Contains(columns, column)
		add(need{role: role, kind: onSequence, object: sequence, letter: 'U', unsure: named || s.rows == 0})
	}
}

// objectNeeds adds what DDL and the like need.
func (p *policy) objectNeeds(s *statement, in *inside, role string, add func(need)) {
	for _, o := range s.objects {
		name := o.name
		if o.kind == "trigger" || o.kind == "policy" || o.kind == "rule" || o.kind == "table column" || o.kind == "table constraint" {
			if _, on, found := strings.Cut(name, " on "); found {
				name = on
			}
		}
		rel := in.relation(name)
		schema := schemaOf(name)
		switch {
		case strings.HasPrefix(schema, "pg_temp"): // of functions and the like, with its number
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
		if o.action != "create" && o.action != "use" && schema != "" { // what is named is looked up; what CASCADE reaches is not
			add(need{role: role, kind: onSchema, object: schema, letter: 'U', unsure: !s.names(name)})
		}
		if s.command == refresh && rel != nil { // from PostgreSQL 17 on; before, it is the owner's
			add(need{role: role, kind: onRelation, object: name, letter: 'm', unsure: true})
		}
		if o.action == "use" && rel != nil && !s.namesParts() { // LOCK, VACUUM and the like: any of several privileges
			for _, c := range []byte("rawdDm") {
				add(need{role: role, kind: onRelation, object: name, letter: c, unsure: true, blurred: true})
			}
			add(need{role: role, kind: onSchema, object: schema, letter: 'U', unsure: true})
		}
		p.useOwnership(s, rel, role)
	}
}

// ownerNeeds adds what a new owner needs: to be allowed to create what it gets, where that is.
func (p *policy) ownerNeeds(s *statement, in *inside, add func(need)) {
	if in == nil || s.command == createSchema {
		return
	}
	owners := p.newOwners(s)
	schemas := map[string]bool{}
	for _, o := range s.objects {
		schemas[schemaOf(o.name)] = true
	}
	if s.command == reassignOwned && len(owners) > 0 { // what the role owns is not recorded
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
		if s.command == reassignOwned || strings.HasSuffix(s.command, " PUBLICATION") || strings.HasSuffix(s.command, " SUBSCRIPTION") {
			add(need{role: owner, kind: onDatabase, object: s.db, letter: 'C', unsure: true})
		}
	}
}

// namesParts says whether a table that the statement uses may be there because of a part of it, such as an index, which
// is its owner's.
func (s *statement) namesParts() bool {
	verb, _, _ := strings.Cut(s.command, " ")
	return slices.Contains([]string{"CREATE", "ALTER", "DROP", "COMMENT", "SECURITY"}, verb)
}

// names says whether the example of the statement's texts has the name of an object.
func (s *statement) names(object string) bool {
	name := strings.ToLower(strings.Trim(strings.TrimPrefix(object, schemaOf(object)+"."), `"`))
	return name != "" && strings.Contains(strings.ToLower(s.text), name)
}

// inSchemas are types of objects whose creation needs CREATE on the schema.
var inSchemas = []string{"table", "view", "materialized view", "sequence", "index", "function", "procedure", "aggregate", "type", "domain", "foreign table"}

// useOwnership marks the memberships by which a role may have done what only owners may.
func (p *policy) useOwnership(s *statement, rel *relation, role string) {
	if p.superuser(role) {
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

func (in *inside) relation(name string) *relation {
	if in == nil {
		return nil
	}
	return in.relations[name]
}

// resolve finds a sequence by the name that a statement has for it.
func (in *inside) resolve(name string) string {
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

// GRANT and REVOKE: reads them, and applies them to the grants.

package review

import (
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/query"
)

// objectKind is a kind of objects with privileges.
type objectKind int

const (
	onRelation objectKind = iota
	onSequence
	onSchema
	onDatabase
	onFunction
	onOther
)

// allPrivileges are those of ALL.
var allPrivileges = map[objectKind]string{onRelation: "arwdDxt", onSequence: "rwU", onSchema: "UC", onDatabase: "CTc",
	onFunction: "X", onOther: "UCrwsA"}

// allLetters returns the privileges of ALL on a kind of objects, in the version of the server.
func (r *reading) allLetters(kind objectKind) string {
	if kind == onRelation && (r.Version >= 170000 || r.Version == 0) {
		return allPrivileges[kind] + "m"
	}
	return allPrivileges[kind]
}

// privilegeChange is a GRANT or REVOKE of privileges.
type privilegeChange struct {
	grants, options bool // options: WITH GRANT OPTION, or GRANT OPTION FOR
	cascade         bool
	kind            objectKind
	letters         string            // "*" is ALL
	columns         map[string]string // letters by column
	roles           []string          // empty: PUBLIC
	routine         string            // FUNCTION, PROCEDURE or ROUTINE, which are not the same
}

// applyGrant applies GRANT or REVOKE, from the word after it.
func (r *reading) applyGrant(grants bool) {
	option := ""
	for _, o := range []string{"grant", "admin", "inherit", "set"} {
		if !grants && r.takeAll(o, "option", "for") {
			option = o
		}
	}
	on := slices.IndexFunc(r.words, func(w word) bool { return w.is("on") })
	if on < 0 {
		r.applyMembership(grants, option)
		return
	}
	c := privilegeChange{grants: grants, options: option != ""}
	if option != "" && option != "grant" {
		r.fail("%s OPTION is one of memberships", strings.ToUpper(option))
	}
	rest := r.words[on+1:]
	r.words = r.words[:on]
	r.takePrivileges(&c)
	r.words = rest
	first := word{}
	if len(r.words) > 0 {
		first = r.words[0]
	}
	var every string // of ALL ... IN SCHEMA: TABLES, FUNCTIONS and the like
	c.kind, every = r.takeKind()
	c.routine = first.text
	objects := r.takeObjects(c.kind, every != "")
	if len(objects) == 0 && c.kind != onOther {
		r.fail("it names no object")
	}
	if !r.takeToOrFrom(grants) {
		return
	}
	r.takeGrantees(&c)
	r.checkLetters(&c)
	if r.problem != "" {
		return
	}
	if c.kind == onOther {
		r.mayFail("what it names is not among the grants")
		r.changeUnreviewed(&c, first.text)
		return
	}
	for _, o := range objects {
		names := []string{o}
		if every != "" {
			if names = r.objectsInSchema(c.kind, every, o); !r.hasSchema(o) ||
				isSystemSchema(o) && c.kind == onFunction {
				r.failUnknown("schema " + o)
			}
			r.checkUsage(o)
		}
		for _, name := range names {
			r.changeACL(&c, name)
		}
	}
}

// takeToOrFrom takes TO of GRANT, or FROM of REVOKE.
func (r *reading) takeToOrFrom(grants bool) bool {
	word := "from"
	if grants {
		word = "to"
	}
	if r.take(word) {
		return true
	}
	r.failUnexpected(strings.ToUpper(word))
	return false
}

// changeUnreviewed removes the roles' rights on all objects of a kind that is not reviewed, whichever object the
// statement names. A dry run then says that statements which need such a right may fail.
func (r *reading) changeUnreviewed(c *privilegeChange, kind string) {
	if kind == "domain" {
		kind = "type"
	}
	if c.grants || c.options && !c.grants {
		return
	}
	if slices.Contains(c.roles, "") {
		r.fail("the grants do not say what PUBLIC has on objects of this kind, so what would fail is not known")
	}
	for i := range r.Databases {
		d := &r.Databases[i]
		if d.Unreviewed == nil && d.Inside {
			r.fail("the grants do not say who has privileges of this kind: take them with \"steno review grants\"")
			return
		}
		d.Unreviewed = slices.DeleteFunc(d.Unreviewed, func(u Unreviewed) bool {
			return strings.Contains(u.On, " on "+kind) && slices.Contains(c.roles, u.Role)
		})
	}
}

// takePrivileges takes the list of privileges, which ends with the words.
func (r *reading) takePrivileges(c *privilegeChange) {
	c.columns = map[string]string{}
	for more := true; more; more = r.take(",") {
		letter := ""
		switch {
		case r.take("all"):
			if r.take("privileges"); c.letters != "" || len(c.columns) > 0 ||
				slices.ContainsFunc(r.words, func(w word) bool {
					return w.is(",")
				}) && !r.isOneList() {
				r.fail("ALL stands alone")
			}
			letter = "*"
		case r.takeAll("alter", "system"):
			letter = "A"
		case len(r.words) == 0:
			r.failUnexpected("a privilege")
			return
		default:
			name := strings.ToUpper(r.words[0].text)
			if name == "TEMP" {
				name = "TEMPORARY"
			}
			l := privilegeLetter(name)
			if l == 0 || r.words[0].quoted || r.words[0].isString {
				r.fail("there is no privilege %q", r.words[0].text)
			} else {
				letter = string(rune(l))
			}
			r.skip()
		}
		if !r.take("(") {
			c.letters += letter
			continue
		}
		for more := true; more; more = r.take(",") {
			if column := r.takeName(); column != "" {
				c.columns[QuoteName(column)] += letter
			} else {
				r.failUnexpected("a column")
			}
		}
		if !r.take(")") {
			r.failUnexpected(")")
		}
	}
	if len(r.words) > 0 {
		r.failUnexpected("ON")
	}
}

// isOneList reports whether the remaining words are one list in parentheses.
func (r *reading) isOneList() bool {
	return r.words[0].is("(") && slices.IndexFunc(r.words, func(w word) bool { return w.is(")") }) == len(r.words)-1
}

// checkLetters refuses privileges that objects of this kind do not have.
func (r *reading) checkLetters(c *privilegeChange) {
	valid := r.allLetters(c.kind) + "*"
	if c.kind == onRelation {
		valid += "U" // GRANT ... ON TABLE accepts sequences, which have USAGE
	}
	if wrong := withoutLetters(c.letters, valid); wrong != "" {
		r.fail("there is no privilege %s on objects of this kind", privilegeName(wrong[0]))
	}
	for _, letters := range c.columns {
		if wrong := withoutLetters(letters, "rawx*"); wrong != "" {
			r.fail("there is no privilege %s on columns", privilegeName(wrong[0]))
		}
	}
	if len(c.columns) > 0 && c.kind != onRelation {
		r.fail("only tables have privileges on columns")
	}
}

// takeKind takes the kind of objects; every is the word of ALL ... IN SCHEMA, such as TABLES.
func (r *reading) takeKind() (kind objectKind, every string) {
	for _, k := range []struct {
		words []string
		kind  objectKind
		every string
	}{
		{[]string{"all", "tables", "in", "schema"}, onRelation, "tables"},
		{[]string{"all", "sequences", "in", "schema"}, onSequence, "sequences"},
		{[]string{"all", "functions", "in", "schema"}, onFunction, "functions"},
		{[]string{"all", "routines", "in", "schema"}, onFunction, "routines"},
		{[]string{"all", "procedures", "in", "schema"}, onFunction, "procedures"},
		{[]string{"table"}, onRelation, ""}, {[]string{"sequence"}, onSequence, ""},
		{[]string{"schema"}, onSchema, ""}, {[]string{"database"}, onDatabase, ""},
		{[]string{"function"}, onFunction, ""}, {[]string{"procedure"}, onFunction, ""},
		{[]string{"routine"}, onFunction, ""}, {[]string{"foreign", "data", "wrapper"}, onOther, ""},
		{[]string{"foreign", "server"}, onOther, ""}, {[]string{"language"}, onOther, ""},
		{[]string{"large", "object"}, onOther, ""}, {[]string{"parameter"}, onOther, ""},
		{[]string{"tablespace"}, onOther, ""}, {[]string{"type"}, onOther, ""}, {[]string{"domain"}, onOther, ""},
	} {
		if r.takeAll(k.words...) {
			return k.kind, k.every
		}
	}
	return onRelation, ""
}

// takeObjects takes a list of objects, of functions with their arguments; inSchemas says that it is the list of
// schemas after IN SCHEMA.
func (r *reading) takeObjects(kind objectKind, inSchemas bool) (names []string) {
	for more := true; more; more = r.take(",") {
		name := ""
		switch {
		case kind == onOther:
			for len(r.words) > 0 && !r.words[0].is("to") && !r.words[0].is("from") {
				r.skip()
			}
			return nil
		case inSchemas || kind == onSchema:
			if name = r.takeName(); name != "" {
				name = QuoteName(name)
			}
		case kind == onDatabase:
			name = r.takeName()
		default:
			name = r.takeObject(kind)
		}
		if name == "" {
			r.failUnexpected("the name of an object")
			return names
		}
		names = append(names, name)
	}
	return names
}

// takeObject takes the name of a relation or function. Without a schema, it is the object in public, unless another
// schema has one of that name.
func (r *reading) takeObject(kind objectKind) string {
	qualified := len(r.words) > 1 && r.words[1].is(".")
	name := r.takeQualifiedName()
	if name != "" && !qualified {
		base := strings.TrimPrefix(name, "public.")
		d := r.currentDatabase()
		elsewhere := func(other string) bool {
			return other != name && schemaOf(other) != "information_schema" &&
				strings.TrimPrefix(other, schemaOf(other)+".") == base
		}
		if kind == onFunction {
			r.fail("the server may have a function %s of its own: write it with its schema", base)
		}
		if slices.ContainsFunc(d.Relations, func(o Relation) bool { return elsewhere(o.Name) }) {
			r.fail("%s is in several schemas, or not in public: write it with its schema", base)
		}
	}
	if kind == onFunction && name != "" && r.take("(") {
		name += "(" + r.takeArguments() + ")"
	}
	return name
}

// takeArguments takes the arguments of a function up to the closing parenthesis, as words separated by blanks.
func (r *reading) takeArguments() string {
	var b strings.Builder
	for depth := 1; len(r.words) > 0; {
		w := r.words[0]
		r.skip()
		if w.is("(") {
			depth++
		}
		if w.is(")") {
			if depth--; depth == 0 {
				break
			}
		}
		text := w.text
		if w.quoted {
			text = QuoteName(w.text)
		}
		if w.isString || w.is("setof") {
			r.fail("%s is no type of an argument", w.text)
		}
		b.WriteString(text + " ")
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), " , ", ", ")
}

// functionName returns the name of a function without its arguments, which begin with the first parenthesis outside
// quotes.
func functionName(object string) string {
	quoted := false
	for i := range len(object) {
		if object[i] == '"' {
			quoted = !quoted
		} else if object[i] == '(' && !quoted {
			return object[:i]
		}
	}
	return object
}

// typeNames has the server's names of types that have several.
var typeNames = map[string]string{
	"int": "integer", "int4": "integer", "int8": "bigint", "int2": "smallint", "bool": "boolean",
	"varchar": "character varying", "char": "character",
	"bpchar": "character", "timestamptz": "timestamp with time zone", "timestamp": "timestamp without time zone",
	"timetz": "time with time zone",
	"float8": "double precision", "float": "double precision", "float4": "real", "decimal": "numeric",
}

// normalArguments returns a function's arguments with uniform spaces and type names, for comparisons.
func normalArguments(s string) string {
	words := strings.Fields(strings.NewReplacer(",", " , ", "[", " [", "(", " (").Replace(strings.ToLower(s)))
	for i, w := range words {
		with := i+1 < len(words) && (words[i+1] == "with" || words[i+1] == "without" || words[i+1] == "varying")
		if name := typeNames[w]; name != "" && !with {
			words[i] = name
		}
	}
	return strings.Join(words, " ")
}

// typesOnly returns a function's arguments without modes and names, as far as these can be told apart from types.
func typesOnly(arguments string, names bool) string {
	var types []string
	for part := range strings.SplitSeq(arguments, ",") {
		words := strings.Fields(part)
		if len(words) > 1 && slices.Contains([]string{"in", "out", "inout", "variadic"}, strings.ToLower(words[0])) {
			if strings.EqualFold(words[0], "out") {
				continue
			}
			words = words[1:]
		}
		if names && len(words) > 1 {
			words = words[1:]
		}
		types = append(types, strings.Join(words, " "))
	}
	return normalArguments(strings.Join(types, ","))
}

// sameArguments reports whether the arguments that a statement has, with or without their names, are those of a known
// function.
func sameArguments(known, written string) bool {
	for _, w := range []bool{false, true} {
		for _, k := range []bool{false, true} {
			if typesOnly(known, k) == typesOnly(written, w) {
				return true
			}
		}
	}
	return false
}

// takeRoleName takes the name of a role; ok is false if there is none.
func (r *reading) takeRoleName() (name string, ok bool) {
	if len(r.words) == 0 || !r.words[0].isName() {
		r.failUnexpected("a role")
		return "", false
	}
	w := r.words[0]
	r.skip()
	switch {
	case w.text == "public": // also in quotes
		return "", true
	case w.is("current_user"), w.is("current_role"), w.is("session_user"):
		name = r.session
		if !w.is("session_user") {
			name = r.current()
		}
		if name == "" {
			r.fail("who runs the script is not known: write the name of the role instead of %s",
				strings.ToUpper(w.text))
		}
		return name, name != ""
	case !w.isPlainName():
		r.fail("%s is a keyword: write the name in double quotes", w.text)
	}
	r.checkRole(w.text)
	return w.text, true
}

// checkRole refuses a role that is not among the grants.
func (r *reading) checkRole(name string) {
	if !r.knowsRole(name) {
		r.fail("there is no role %q among the grants; nearest: %q", name, query.Nearest(name, r.roleNames()))
	}
}

func (r *reading) knowsRole(name string) bool {
	return slices.ContainsFunc(r.Roles, func(o Role) bool { return o.Name == name })
}

func (g *Grants) roleNames() (names []string) {
	for i := range g.Roles {
		names = append(names, g.Roles[i].Name)
	}
	return names
}

// takeGrantees takes the list of roles, and what follows it.
func (r *reading) takeGrantees(c *privilegeChange) {
	for more := true; more; more = r.take(",") {
		r.take("group")
		name, ok := r.takeRoleName()
		if !ok {
			return
		}
		c.roles = append(c.roles, name)
	}
	if c.grants && r.takeAll("with", "grant", "option") {
		if c.options = true; slices.Contains(c.roles, "") {
			r.fail("PUBLIC cannot have a grant option")
		}
	}
	if r.takeAll("granted", "by") {
		if by, ok := r.takeRoleName(); ok && by != r.current() {
			r.fail("the server takes GRANTED BY only with the current user")
		}
	}
	if !c.grants && !r.take("restrict") {
		c.cascade = r.take("cascade")
	}
	if len(r.words) > 0 {
		r.failUnexpected("the end of the statement")
	}
}

// objectsInSchema returns the objects of a kind in a schema. ALL FUNCTIONS leaves out procedures.
func (r *reading) objectsInSchema(kind objectKind, word, schema string) (names []string) {
	d := r.currentDatabase()
	for i := range d.Relations {
		if rel := &d.Relations[i]; schemaOf(rel.Name) == schema && (rel.Kind == "S") == (kind == onSequence) &&
			kind != onFunction {
			names = append(names, rel.Name)
		}
	}
	for i := range d.Functions {
		if f := &d.Functions[i]; kind == onFunction && schemaOf(f.Name) == schema &&
			(word == "routines" || (f.Kind == "p") == (word == "procedures")) {
			names = append(names, f.Name+"("+f.Arguments+")")
		}
	}
	return names
}

// hasSchema reports whether the current database has a schema.
func (r *reading) hasSchema(name string) bool {
	return slices.ContainsFunc(r.currentDatabase().Schemas, func(s Schema) bool { return s.Name == name })
}

// isSuperuser reports whether a role is a superuser.
func (r *reading) isSuperuser(role string) bool {
	return slices.ContainsFunc(r.Roles, func(o Role) bool { return o.Name == role && o.Superuser })
}

// bestGrantor returns the role that grants or revokes, as the server's select_best_grantor() chooses it, and the
// privileges for which it has grant options. A superuser acts as the owner.
func (r *reading) bestGrantor(acl []string, owner, letters string) (grantor, may string) {
	role := r.current()
	switch {
	case role == "" || r.isSuperuser(role):
		return owner, letters
	}
	has := r.rolesHeldBy(role)
	if has[owner] {
		return owner, letters
	}
	grantor = role
	for _, other := range append([]string{role}, slices.Sorted(maps.Keys(has))...) {
		if can := commonLetters(letters, optionsOf(acl, map[string]bool{other: true}, owner)); len(can) > len(may) {
			grantor, may = other, can
		}
	}
	return grantor, may
}

// rolesHeldBy returns a role and the roles whose privileges it has.
func (r *reading) rolesHeldBy(role string) map[string]bool {
	found := map[string]bool{role: true}
	for queue := []string{role}; len(queue) > 0; queue = queue[1:] {
		inherit := true
		if i := slices.IndexFunc(r.Roles, func(o Role) bool { return o.Name == queue[0] }); i >= 0 {
			inherit = r.Roles[i].Inherit
		}
		for _, m := range r.Memberships {
			inherits := inherit
			if m.InheritOption != nil {
				inherits = *m.InheritOption
			}
			if m.Member == queue[0] && inherits && !found[m.Role] {
				found[m.Role] = true
				queue = append(queue, m.Role)
			}
		}
	}
	return found
}

// changeACL applies a GRANT or REVOKE to the ACLs of an object and its columns.
func (r *reading) changeACL(c *privilegeChange, name string) {
	list, owner, byColumn := r.aclOf(c.kind, name)
	if list == nil {
		r.failUnknown(name)
		return
	}
	every, isSequence := r.allLetters(c.kind), false
	if c.kind == onRelation {
		if rel := r.findRelation(name); rel != nil && rel.Kind == "S" {
			every, isSequence = allPrivileges[onSequence], true
		}
	}
	letters := expand(c.letters, every)
	if isSequence { // the server ignores the other privileges, with a warning
		letters = commonLetters(letters, every)
	}
	r.checkObject(c, name, letters, isSequence)
	changeOne := func(acl, of []string, letters string) []string {
		if letters == "" {
			return acl
		}
		grantor, may := r.bestGrantor(of, owner, letters)
		if may == "" {
			r.fail("role %q has no right to grant privileges on %s", r.current(), name)
		}
		for _, role := range c.roles {
			if c.grants {
				acl = grantACL(acl, role, grantor, may, c.options)
				continue
			}
			what := revocation{grantee: role, grantor: grantor, letters: may, onlyOption: c.options,
				depends: refuseDependents, owner: owner, rolesHeldBy: r.rolesHeldBy}
			if c.cascade {
				what.depends = cascadeDependents
			}
			less, err := revokeACL(acl, what)
			if err != nil {
				r.fail("%s: %v", name, err)
				return acl
			}
			acl = less
		}
		return acl
	}
	*list = changeOne(*list, *list, letters)
	if byColumn == nil {
		return
	}
	for column, l := range c.columns {
		if rel := r.findRelation(name); rel != nil && !slices.Contains(rel.Columns, column) {
			r.fail("%s has no column %s among the grants", name, column)
		}
		acl := (*byColumn)[column]
		if acl = changeOne(acl, slices.Concat(*list, acl), expand(l, "rawx")); len(acl) > 0 {
			(*byColumn)[column] = acl
		} else {
			delete(*byColumn, column)
		}
	}
	if !c.grants { // REVOKE of the table's privilege takes that of its columns, too
		for column, acl := range *byColumn {
			(*byColumn)[column] = changeOne(acl, slices.Concat(*list, acl), commonLetters(letters, "rawx"))
		}
	}
}

// checkObject refuses what the server refuses although the object exists.
func (r *reading) checkObject(c *privilegeChange, name, letters string, isSequence bool) {
	switch c.kind {
	case onRelation:
		if strings.Contains(letters, "U") && !isSequence {
			r.fail("there is no privilege USAGE on tables")
		}
		if isSequence && len(c.columns) > 0 {
			r.fail("sequences have no privileges on columns")
		}
	case onFunction:
		if f := r.findFunction(name); c.routine == "function" && f.Kind == "p" ||
			c.routine == "procedure" && f.Kind != "p" {
			r.fail("%s is not a %s", name, c.routine)
		}
	case onDatabase, onSchema:
		return
	}
	r.checkUsage(schemaOf(name))
}

// checkUsage refuses names in a schema that the current role may not use.
func (r *reading) checkUsage(schema string) {
	role := r.current()
	if role == "" || r.isSuperuser(role) {
		return
	}
	has := r.rolesHeldBy(role)
	if has["pg_read_all_data"] || has["pg_write_all_data"] {
		return
	}
	for _, s := range r.currentDatabase().Schemas {
		if s.Name != schema {
			continue
		}
		if has[s.Owner] || slices.ContainsFunc(s.ACL, func(text string) bool {
			a, err := parseACLItem(text)
			return err == nil && strings.Contains(a.letters, "U") && (a.grantee == "" || has[a.grantee])
		}) {
			return
		}
	}
	r.fail("role %q has no privilege USAGE on schema %s", role, schema)
}

// expand replaces ALL by the privileges that it stands for.
func expand(letters, every string) string {
	if strings.Contains(letters, "*") {
		return every
	}
	return letters
}

// aclOf returns the ACL of an object, its owner, and the ACLs of its columns; nil if the object is not known.
func (r *reading) aclOf(kind objectKind, name string) (list *[]string, owner string, columns *map[string][]string) {
	if kind == onDatabase {
		if d := r.database(name); d != nil {
			return &d.ACL, d.Owner, nil
		}
		return nil, "", nil
	}
	d := r.currentDatabase()
	switch kind {
	case onSchema:
		for i := range d.Schemas {
			if s := &d.Schemas[i]; s.Name == name {
				return &s.ACL, s.Owner, nil
			}
		}
	case onFunction:
		if f := r.findFunction(name); f != nil {
			return &f.ACL, f.Owner, nil
		}
	case onRelation, onSequence:
		if rel := r.findRelation(name); rel != nil && (kind == onRelation || rel.Kind == "S") {
			if rel.ColumnACL == nil {
				rel.ColumnACL = map[string][]string{}
			}
			return &rel.ACL, rel.Owner, &rel.ColumnACL
		}
	}
	return nil, "", nil
}

// findFunction finds a function by its name, and by its arguments if the name is overloaded; nil if there is not
// exactly one.
func (r *reading) findFunction(name string) *Function {
	d := r.currentDatabase()
	base := functionName(name)
	arguments := strings.TrimSuffix(strings.TrimPrefix(name[len(base):], "("), ")")
	var all, same []*Function
	for i := range d.Functions {
		f := &d.Functions[i]
		if f.Name != base {
			continue
		}
		if normalArguments(f.Arguments) == normalArguments(arguments) && len(name) > len(base) {
			return f
		}
		all = append(all, f)
		if sameArguments(f.Arguments, arguments) {
			same = append(same, f)
		}
	}
	switch {
	case len(same) == 1 && len(name) > len(base):
		return same[0]
	case len(all) == 1 && len(name) == len(base):
		return all[0]
	}
	return nil
}

// findRelation finds a relation of the current database.
func (r *reading) findRelation(name string) *Relation {
	d := r.currentDatabase()
	if r.places == nil {
		r.places = map[[2]string]int{}
		for k := range r.Databases {
			for i := range r.Databases[k].Relations {
				r.places[[2]string{r.Databases[k].Name, r.Databases[k].Relations[i].Name}] = i
			}
		}
	}
	if i, known := r.places[[2]string{d.Name, name}]; known {
		return &d.Relations[i]
	}
	return nil
}

// ---- memberships ----

// applyMembership applies GRANT and REVOKE of roles; option is the one of REVOKE ... OPTION FOR, empty if the role
// itself is revoked.
func (r *reading) applyMembership(grants bool, option string) {
	list := func() (names []string) {
		for more := true; more; more = r.take(",") {
			name, ok := r.takeRoleName()
			if ok && name == "" {
				r.fail("PUBLIC is no role that has members or is one")
			}
			if !ok || name == "" {
				return nil
			}
			names = append(names, name)
		}
		return names
	}
	roles := list()
	switch {
	case option == "grant":
		r.fail("GRANT OPTION is one of privileges on objects")
	case option != "" && option != "admin":
		r.requireVersion16(strings.ToUpper(option) + " OPTION FOR")
	}
	if !r.takeToOrFrom(grants) {
		return
	}
	members := list()
	options, grantor, cascade := r.membershipOptions(grants)
	if option != "" {
		options[option] = false
	}
	if r.problem != "" {
		return
	}
	for _, role := range roles {
		for _, member := range members {
			r.changeMembership(role, member, grantor, options, grants, option == "", cascade)
		}
	}
}

// membershipOptions reads what follows the members.
func (r *reading) membershipOptions(grants bool) (options map[string]bool, grantor string, cascade bool) {
	options = map[string]bool{}
	if grants && r.take("with") {
		for more := true; more; more = r.take(",") {
			name := ""
			for _, o := range []string{"admin", "inherit", "set"} {
				if r.take(o) {
					name = o
				}
			}
			if name != "admin" || len(options) > 0 || len(r.words) > 0 && !r.words[0].is("option") {
				r.requireVersion16("options of memberships other than ADMIN OPTION")
			}
			switch {
			case name == "":
				r.failUnexpected("an option")
			case r.take("false"):
				options[name] = false
			case r.take("option", "true"):
				options[name] = true
			default:
				r.failUnexpected("TRUE, FALSE or OPTION")
			}
		}
	}
	if r.takeAll("granted", "by") {
		grantor, _ = r.takeRoleName()
	}
	if !grants && !r.take("restrict") {
		cascade = r.take("cascade")
	}
	if len(r.words) > 0 {
		r.failUnexpected("the end of the statement")
	}
	return options, grantor, cascade
}

// requireVersion16 refuses syntax that only PostgreSQL 16 and later have, if the server is older.
func (r *reading) requireVersion16(what string) {
	if r.Version > 0 && r.Version < 160000 {
		r.fail("the server has no %s", what)
	}
}

// changeMembership grants a role to a member, or revokes it or one of its options.
func (r *reading) changeMembership(role, member, grantor string, options map[string]bool, grants, whole,
	cascade bool) {
	if by := r.current(); by != "" && !r.isSuperuser(by) && !r.isAdmin(role, by) {
		r.fail("role %q has no ADMIN OPTION on %q", by, role)
		return
	}
	if grants && (role == member || r.isMember(role, member)) {
		r.fail("role %q is a member of %q", role, member)
		return
	}
	if grants {
		r.checkMembership(role, member, grantor, options)
	}
	if !grants && whole {
		r.revokeRole(role, member, grantor, cascade)
	} else {
		r.setOptions(role, member, grantor, options, grants)
	}
	if on, changed := options["admin"]; !grants && (whole || changed && !on) {
		r.revokePassedOn(role, member, cascade)
	}
}

// checkMembership refuses a GRANT that the server refuses.
func (r *reading) checkMembership(role, member, grantor string, options map[string]bool) {
	switch {
	case role == databaseOwner || member == databaseOwner:
		r.fail("%s has no members but one, and is not one", databaseOwner)
	case r.Version > 0 && r.Version < 160000:
		if by := r.current(); grantor != "" && by != grantor && by != "" && !r.isSuperuser(by) {
			r.fail("only a superuser may say who grants")
		}
	case grantor != "" && !r.isAdmin(role, grantor):
		r.fail("whether role %q may grant it is not known: it has no ADMIN OPTION", grantor)
	case options["admin"] && (grantor != "" || r.current() != "" || r.isSuperuser(member)):
		r.fail("whether ADMIN OPTION is given back to who granted it is not known")
	}
}

// isMember reports whether a role is a member of another one, with any options.
func (r *reading) isMember(role, other string) bool {
	found := map[string]bool{role: true}
	for queue := []string{role}; len(queue) > 0; queue = queue[1:] {
		for _, m := range r.Memberships {
			if m.Member == queue[0] && !found[m.Role] {
				found[m.Role] = true
				queue = append(queue, m.Role)
			}
		}
	}
	return found[other]
}

// setOptions sets the options of a membership; create says whether to add one that does not exist.
func (r *reading) setOptions(role, member, grantor string, options map[string]bool, create bool) {
	set := func(m *Membership) {
		for name, v := range options {
			switch name {
			case "admin":
				m.Admin = v
			case "inherit":
				m.InheritOption = &v
			case "set":
				m.SetOption = &v
			}
		}
	}
	found := false
	for i := range r.Memberships {
		if m := &r.Memberships[i]; m.Role == role && m.Member == member && r.isGrantor(m, grantor) {
			set(m)
			found = true
		}
	}
	if !found && create {
		m := Membership{Role: role, Member: member, Grantor: grantor}
		set(&m)
		r.Memberships = append(r.Memberships, m)
	}
}

// revokeRole removes memberships. With CASCADE, those that the member has granted go, too.
func (r *reading) revokeRole(role, member, grantor string, cascade bool) {
	r.Memberships = slices.DeleteFunc(r.Memberships, func(m Membership) bool {
		return m.Role == role && m.Member == member && r.isGrantor(&m, grantor)
	})
	r.revokePassedOn(role, member, cascade)
}

// revokePassedOn removes the memberships that a member has granted, if it no longer has ADMIN OPTION. Before
// PostgreSQL 16, grantors of memberships do not matter.
func (r *reading) revokePassedOn(role, member string, cascade bool) {
	if r.Version > 0 && r.Version < 160000 || r.isAdmin(role, member) || r.isSuperuser(member) {
		return
	}
	for _, m := range slices.Clone(r.Memberships) {
		if m.Role != role || m.Grantor != member {
			continue
		}
		if !cascade {
			r.fail("role %q has granted %q on: the server refuses it without CASCADE", member, role)
			return
		}
		r.revokeRole(role, m.Member, member, true)
	}
}

// isGrantor reports whether a statement is about a membership, by its grantor: that of GRANTED BY, or empty. Up to
// PostgreSQL 15, a member has a role only once, whoever granted it.
func (r *reading) isGrantor(m *Membership, grantor string) bool {
	switch {
	case m.Grantor == "" || r.Version > 0 && r.Version < 160000:
		return true
	case grantor != "":
		return m.Grantor == grantor
	case r.Version == 0:
		return true
	case r.current() != "" && !r.isSuperuser(r.current()):
		return m.Grantor == r.current()
	}
	// Superusers grant as the bootstrap superuser, who alone needs no ADMIN OPTION.
	return !r.isAdmin(m.Role, m.Grantor)
}

// isAdmin reports whether a member has ADMIN OPTION on a role.
func (r *reading) isAdmin(role, member string) bool {
	return slices.ContainsFunc(r.Memberships, func(m Membership) bool {
		return m.Role == role && m.Member == member && m.Admin
	})
}

// Dumps: the texts of pg_dump and pg_dumpall as grants. Of their statements, only what privileges depend on is looked at.

package review

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// reading is SQL that is applied to grants: a dump, or a script.
type reading struct {
	*Grants
	db            string
	session, role string // of SET SESSION AUTHORIZATION and SET ROLE; empty: who runs it, a superuser
	words         []word
	problem       string            // why the statement cannot be applied
	places        map[[2]string]int // of relations, by database and name

	creates bool // it is a dump: what it names is new, and what is not understood does not matter
	local   bool // SET LOCAL ROLE: it ends with the transaction
	outer   string

	inTransaction bool   // the statements of one are being applied
	doubtful      string // why the server may have refused a statement, of which the grants show nothing
}

// current is the role with whose rights statements run; empty: a superuser.
func (r *reading) current() string {
	if r.role != "" {
		return r.role
	}
	return r.session
}

// fail notes why a statement cannot be applied.
func (r *reading) fail(format string, args ...any) {
	if r.problem == "" {
		r.problem = fmt.Sprintf(format, args...)
	}
}

// unexpected notes that something else was expected.
func (r *reading) unexpected(wanted string) {
	found := "the statement ends"
	if len(r.words) > 0 {
		found = fmt.Sprintf("there is %q", r.words[0].text)
	}
	r.fail("%s where %s was expected", found, wanted)
}

// unknown notes an object that is not among the grants. A dump has some that are not looked at.
func (r *reading) unknown(name string) {
	if !r.creates {
		r.fail("not among the grants of database %q: %s", r.db, name)
	}
}

// mayFail notes a statement that the server may refuse for a reason that the grants do not show. What it takes counts as
// taken. Nothing that gives may follow, or stand in a transaction with it: it may not take place.
func (r *reading) mayFail(what string) {
	if r.creates {
		return
	}
	if r.inTransaction {
		r.fail("the server may refuse it, and then all that is in its transaction: %s", what)
	}
	r.doubtful = cmp.Or(r.doubtful, what)
}

// gives refuses a statement that gives something, if it may not be reached.
func (r *reading) gives() {
	if r.doubtful != "" {
		r.fail("it gives something, and is not reached if a statement before it fails: %s", r.doubtful)
	}
}

// dumpedFrom is where pg_dump says of which version the server is.
var dumpedFrom = regexp.MustCompile(`(?m)^-- Dumped from database version (\d+)`)

// readDump applies the text of a dump.
func (g *Grants) readDump(text, database string) {
	r := &reading{Grants: g, db: database, creates: true}
	if m := dumpedFrom.FindStringSubmatch(text); m != nil {
		major, _ := strconv.Atoi(m[1])
		g.Version = max(g.Version, major*10000)
	}
	s := script{text: text}
	for {
		words, more := s.next()
		if !more {
			return
		}
		r.words, r.problem = words, ""
		r.statement()
	}
}

// skip leaves out the next word, if there is one: a name in quotes may be empty, and the last.
func (r *reading) skip() {
	if len(r.words) > 0 {
		r.words = r.words[1:]
	}
}

// take takes the next word if it is one of these.
func (r *reading) take(words ...string) bool {
	if len(r.words) > 0 && slices.ContainsFunc(words, r.words[0].is) {
		r.words = r.words[1:]
		return true
	}
	return false
}

// takeAll takes these words, which follow each other.
func (r *reading) takeAll(words ...string) bool {
	if len(r.words) < len(words) {
		return false
	}
	for i, w := range words {
		if !r.words[i].is(w) {
			return false
		}
	}
	r.words = r.words[len(words):]
	return true
}

// name takes a name, as it is.
func (r *reading) name() string {
	if len(r.words) == 0 || !r.words[0].isName() && !r.words[0].str {
		return ""
	}
	w := r.words[0]
	switch {
	case r.creates:
	case w.str:
		r.fail("a string is no name")
	case !w.isPlainName():
		r.fail("%s is a keyword: write the name in double quotes", w.text)
	}
	r.skip()
	return w.text
}

// qualified takes a name that may have a schema, as SQL writes it.
func (r *reading) qualified() string {
	first := r.name()
	if first == "" {
		return ""
	}
	if r.take(".") {
		return QuoteName(first) + "." + QuoteName(r.name())
	}
	return "public." + QuoteName(first)
}

// here is the database that statements are about. A dump creates it.
func (r *reading) here() *Database {
	d := r.database(r.db)
	if !r.creates {
		if d == nil {
			return &Database{Name: r.db}
		}
		return d
	}
	if d == nil {
		r.Databases = append(r.Databases, Database{Name: r.db, Owner: "postgres", ACL: []string{"=Tc/postgres", "postgres=CTc/postgres"}})
		d = r.database(r.db)
	}
	if !d.Inside {
		d.Inside = true
		const owner = "pg_database_owner"
		d.Schemas = append(d.Schemas, Schema{Name: "public", Owner: owner, ACL: []string{"=U/" + owner, owner + "=UC/" + owner}})
	}
	return d
}

// statement applies a statement of a dump.
func (r *reading) statement() {
	switch {
	case r.takeAll("\\connect"), r.takeAll("\\c"):
		if name := r.connection(); name != "" {
			r.db = name
		}
	case r.takeAll("set", "session", "authorization"):
		r.session, r.role = roleOrNone(r.name()), ""
	case r.takeAll("set", "role"):
		r.role = roleOrNone(r.name())
	case r.takeAll("reset", "session", "authorization"):
		r.session, r.role = "", ""
	case r.takeAll("reset", "role"):
		r.role = ""
	case r.take("grant"):
		r.grant(true)
	case r.take("revoke"):
		r.grant(false)
	case r.take("create"):
		r.create()
	case r.take("alter"):
		r.alter()
	}
}

// connection reads the arguments of \connect: the database; empty if it is the current one.
func (r *reading) connection() string {
	if len(r.words) > 0 && r.words[0].is("-") {
		r.skip()
		for r.take("reuse", "-", "previous", "=", "on", "off") {
		}
	}
	if len(r.words) == 0 {
		return ""
	}
	w := r.words[0]
	r.skip()
	if !w.quoted && !w.str {
		return w.raw // psql takes it as it is written
	}
	if body, ok := cutDatabase(w.text); ok { // names with an equals sign
		return body
	}
	return w.text
}

func roleOrNone(role string) string {
	if role == "none" || role == "default" {
		return ""
	}
	return role
}

// ---- CREATE and ALTER in a dump ----

func (r *reading) create() {
	r.takeAll("or", "replace")
	r.take("unlogged", "recursive")
	owner := r.current()
	if owner == "" {
		owner = "postgres"
	}
	switch {
	case r.take("role", "user", "group"):
		r.roleOptions(r.name(), true)
	case r.take("database"):
		n := r.name()
		if r.database(n) == nil {
			r.Databases = append(r.Databases, Database{Name: n, Owner: owner, ACL: []string{"=Tc/" + aclName(owner), aclName(owner) + "=CTc/" + aclName(owner)}})
		}
	case r.take("schema"):
		r.takeAll("if", "not", "exists")
		o := aclName(owner)
		d := r.here()
		d.Schemas = append(d.Schemas, Schema{Name: QuoteName(r.name()), Owner: owner, ACL: []string{o + "=UC/" + o}})
	case r.take("table"):
		r.relation("r", owner)
	case r.takeAll("foreign", "table"):
		r.relation("f", owner)
	case r.take("view"):
		r.relation("v", owner)
	case r.takeAll("materialized", "view"):
		r.relation("m", owner)
	case r.take("sequence"):
		r.relation("S", owner)
	case r.take("function", "procedure", "aggregate"):
		r.function(owner)
	case r.take("type", "domain", "operator", "collation"), r.takeAll("text", "search"):
		r.take("class", "family", "configuration", "dictionary")
		r.others(schemaOf(r.qualified()))
	case r.take("extension"):
		for len(r.words) > 0 && !r.take("schema") {
			r.words = r.words[1:]
		}
		r.others(QuoteName(r.name()))
	case r.take("policy"):
		r.policy()
	case r.take("rule"):
		for len(r.words) > 0 && !r.take("to") {
			r.skip()
		}
		if rel := r.find(r.qualified()); rel != nil {
			rel.Rules = true
		}
	}
}

// others notes that a schema has something that records do not name.
func (r *reading) others(schema string) {
	d := r.here()
	for i := range d.Schemas {
		if d.Schemas[i].Name == schema {
			d.Schemas[i].Others = true
		}
	}
}

func (r *reading) relation(kind, owner string) {
	r.takeAll("if", "not", "exists")
	o := aclName(owner)
	one := Relation{Name: r.qualified(), Kind: kind, Owner: owner, ACL: []string{o + "=" + ownersLetters(kind) + "/" + o}}
	for i := range r.words {
		if r.words[i].is("security_invoker") {
			one.Invoker = i+2 < len(r.words) && slices.Contains([]string{"true", "on", "1", "yes"}, r.words[i+2].text)
			break
		}
		if r.words[i].is("as") {
			break
		}
	}
	if kind != "v" && kind != "m" && kind != "S" && r.take("(") {
		one.Columns = r.columns()
	}
	d := r.here()
	if have := r.find(one.Name); have != nil { // pg_dump creates a view twice to break circles
		*have = one
		return
	}
	d.Relations = append(d.Relations, one)
	r.places[[2]string{d.Name, one.Name}] = len(d.Relations) - 1
}

func ownersLetters(kind string) string {
	if kind == "S" {
		return "rwU"
	}
	return "arwdDxtm"
}

// columns are the names at the beginnings of the parts of a list.
func (r *reading) columns() (names []string) {
	start := true
	for depth := 1; len(r.words) > 0; r.skip() {
		w := r.words[0]
		switch {
		case w.is("("):
			depth++
		case w.is(")"):
			if depth--; depth == 0 {
				return names
			}
		case w.is(",") && depth == 1:
			start = true
			continue
		case start && w.isName() && (w.quoted || !slices.Contains([]string{"constraint", "primary", "unique", "check", "foreign", "exclude", "like"}, w.text)):
			names = append(names, QuoteName(w.text))
		}
		start = false
	}
	return names
}

func (r *reading) function(owner string) {
	o := aclName(owner)
	f := Function{Name: r.qualified(), Kind: "f", Owner: owner, ACL: []string{"=X/" + o, o + "=X/" + o}}
	if r.take("(") {
		f.Arguments = r.arguments()
	}
	for i := range r.words {
		if r.words[i].is("language") && i+1 < len(r.words) {
			f.SQL = r.words[i+1].text == "sql"
		} else if r.words[i].is("security") && i+1 < len(r.words) && r.words[i+1].is("definer") {
			f.Definer = true
		} else if r.words[i].is("as") {
			break
		}
	}
	d := r.here()
	d.Functions = append(d.Functions, f)
}

func (r *reading) policy() {
	r.name()
	if !r.take("on") {
		return
	}
	rel := r.find(r.qualified())
	if rel == nil {
		return
	}
	for len(r.words) > 0 && !r.words[0].is("to") && !r.words[0].is("using") && !r.words[0].is("with") {
		r.skip()
	}
	if !r.take("to") {
		rel.PolicyRoles = append(rel.PolicyRoles, "")
		return
	}
	for len(r.words) > 0 && !r.words[0].is("using") && !r.words[0].is("with") {
		if n := r.name(); n != "" {
			rel.PolicyRoles = append(rel.PolicyRoles, n)
		} else {
			r.skip()
		}
	}
}

// roleOptions reads the options of a role.
func (r *reading) roleOptions(name string, create bool) {
	i := slices.IndexFunc(r.Roles, func(o Role) bool { return o.Name == name })
	if i < 0 {
		r.Roles = append(r.Roles, Role{Name: name, Inherit: true})
		i = len(r.Roles) - 1
	}
	for ; len(r.words) > 0; r.skip() {
		switch o := &r.Roles[i]; r.words[0].text {
		case "superuser":
			o.Superuser = true
		case "nosuperuser":
			o.Superuser = false
		case "inherit":
			o.Inherit = true
		case "noinherit":
			o.Inherit = false
		case "login":
			o.Login = true
		case "nologin":
			o.Login = false
		case "set", "reset", "rename", "in":
			return
		}
	}
}

func (r *reading) alter() {
	switch {
	case r.take("role", "user"):
		r.roleOptions(r.name(), false)
	case r.take("database"):
		n := r.name()
		if d := r.database(n); d != nil && r.takeAll("owner", "to") {
			setOwner(&d.Owner, &d.ACL, r.name())
		}
	case r.take("schema"):
		n := QuoteName(r.name())
		d := r.here()
		for i := range d.Schemas {
			if s := &d.Schemas[i]; s.Name == n && r.takeAll("owner", "to") {
				setOwner(&s.Owner, &s.ACL, r.name())
			}
		}
	case r.take("function", "procedure", "aggregate"):
		n := r.qualified()
		arguments := ""
		if r.take("(") {
			arguments = r.arguments()
		}
		if list, _, _ := r.listOf(onFunction, n+"("+arguments+")"); list != nil && r.takeAll("owner", "to") {
			for i := range r.here().Functions {
				if f := &r.here().Functions[i]; &f.ACL == list {
					setOwner(&f.Owner, &f.ACL, r.name())
				}
			}
		}
	default:
		r.alterRelation()
	}
}

func (r *reading) alterRelation() {
	r.take("foreign", "materialized")
	if !r.take("table", "view", "sequence") {
		return
	}
	r.takeAll("if", "exists")
	r.take("only")
	rel := r.find(r.qualified())
	switch {
	case rel == nil:
	case r.takeAll("owner", "to"):
		setOwner(&rel.Owner, &rel.ACL, r.name())
	case r.takeAll("add", "constraint"):
		r.name()
		if !r.takeAll("foreign", "key") {
			return
		}
		for len(r.words) > 0 {
			if r.take("references") {
				rel.References = append(rel.References, r.qualified())
				return
			}
			r.words = r.words[1:]
		}
	case r.take("alter"):
		r.take("column")
		column := QuoteName(r.name())
		if r.takeAll("set", "default", "nextval", "(") && len(r.words) > 0 && r.words[0].str {
			inside := &reading{Grants: r.Grants}
			inside.words, _ = (&script{text: r.words[0].text}).next()
			if rel.Defaults == nil {
				rel.Defaults = map[string]string{}
			}
			rel.Defaults[column] = inside.qualified()
		}
	}
}

// setOwner gives an object to another role, with the owner's privileges.
func setOwner(owner *string, acl *[]string, to string) {
	for i, text := range *acl {
		if a, err := parseACLItem(text); err == nil {
			if a.grantee == *owner {
				a.grantee = to
			}
			if a.grantor == *owner {
				a.grantor = to
			}
			(*acl)[i] = a.String()
		}
	}
	*owner = to
}

// Scripts for a dry run: GRANT and REVOKE, and what psql and the server do with transactions, connections and roles around
// them. Of a script, everything must be understood: a dry run that left something out would call harmless what is not.

package review

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Applied is what of a script was applied.
type Applied struct {
	Statements int  // that change roles or privileges
	RolledBack int  // that the script does not commit
	Guarded    bool // it ends at its beginning, until somebody removes the guard
}

func (a *Applied) String() string {
	out := plural(a.Statements, "statement") + " applied"
	if a.RolledBack > 0 {
		out += fmt.Sprintf(", %d not, because the script does not commit their transactions", a.RolledBack)
	}
	if a.Guarded {
		out += ", as if the exception at its beginning were removed"
	}
	return out
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// mostProblems is how many problems of a script are named.
const mostProblems = 10

// scriptReading is a script that is applied.
type scriptReading struct {
	reading
	script
	Applied
	inside        bool // of a transaction block
	inTransaction bool // the statements of one are being applied
	pending       []pendingStatement
	problems      []string
	more          int // problems that are not named
}

// pendingStatement is a statement of a transaction that has not ended.
type pendingStatement struct {
	words []word
	begin int
}

// applyScript applies a script to the grants, as a superuser would run it. Of what it cannot apply, it makes an error.
func (g *Grants) applyScript(text, database string) (*Applied, error) {
	r := &scriptReading{reading: reading{Grants: g, db: database}}
	r.script.text = r.withoutOurs(text)
	for {
		words, more := r.next()
		if !more || words[0].is("\\q") || words[0].is("\\quit") {
			break
		}
		r.one(words, r.begin)
	}
	r.rollBack() // psql ends its connection
	if r.more > 0 {
		r.problems = append(r.problems, fmt.Sprintf("and %d more", r.more))
	}
	if len(r.problems) > 0 {
		return nil, errors.New("a part of it cannot be tried, so the dry run would say nothing of the script: " + strings.Join(r.problems, "; ") +
			". Remove that; or run the script on a copy of the server, and name the file of \"steno review grants\" from there instead of it")
	}
	return &r.Applied, nil
}

// withoutOurs blanks what scripts of WriteScript have besides statements about privileges.
func (r *scriptReading) withoutOurs(text string) string {
	blank := func(part string) {
		if strings.Contains(text, part) {
			text = strings.ReplaceAll(text, part, strings.Repeat("\n", strings.Count(part, "\n")))
		}
	}
	r.Guarded = strings.Contains(text, incompleteGuard)
	blank(incompleteGuard)
	blank(scriptEnd)
	return text
}

// one takes a statement: those of a transaction are applied when it is committed.
func (r *scriptReading) one(words []word, begin int) {
	r.words, r.problem = words, ""
	switch {
	case r.takeAll("begin"), r.takeAll("start", "transaction"):
		r.rest("work", "transaction", "isolation", "level", "read", "write", "only", "committed", "uncommitted", "repeatable", "serializable", ",", "not", "deferrable")
		r.inside = true
	case r.take("commit", "end"):
		r.rest("work", "transaction")
		problem := r.problem
		r.inside = false
		for _, p := range r.pending {
			r.inTransaction = true
			r.apply(p.words, p.begin)
		}
		r.inTransaction = false
		r.pending, r.problem = nil, problem
		r.endLocal()
	case r.take("rollback", "abort"):
		r.rest("work", "transaction")
		r.rollBack()
	case r.take("savepoint", "release"):
	case r.inside && !strings.HasPrefix(words[0].text, "\\"):
		r.pending = append(r.pending, pendingStatement{words, begin})
		return
	case r.inside && (r.words[0].is("\\connect") || r.words[0].is("\\c")):
		r.fail("it connects within a transaction")
	default:
		r.apply(words, begin)
		return
	}
	r.note(words, begin)
}

// rest expects nothing but these words.
func (r *scriptReading) rest(words ...string) {
	for r.take(words...) {
	}
	if len(r.words) > 0 {
		r.unexpected("the end of the statement")
	}
}

func (r *scriptReading) rollBack() {
	r.RolledBack += len(r.pending)
	r.pending, r.inside = nil, false
}

// endLocal ends what SET LOCAL ROLE has set.
func (r *scriptReading) endLocal() {
	if r.local {
		r.role, r.local = r.outer, false
	}
}

// apply applies a statement.
func (r *scriptReading) apply(words []word, begin int) {
	r.words, r.problem = words, ""
	if r.change() {
		r.Statements++
	}
	r.note(words, begin)
}

// note lists the problem of a statement.
func (r *scriptReading) note(words []word, begin int) {
	if r.problem == "" {
		return
	}
	if len(r.problems) >= mostProblems {
		r.more++
		return
	}
	line := 1 + strings.Count(r.script.text[:begin], "\n")
	r.problems = append(r.problems, fmt.Sprintf("line %d, %s: %s", line, beginning(words), r.problem))
}

// beginning is a statement in few words.
func beginning(words []word) string {
	var b strings.Builder
	for i, w := range words {
		if i == 6 {
			b.WriteString(" ...")
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		switch {
		case w.quoted:
			b.WriteString(QuoteName(w.text))
		case w.str:
			b.WriteString("'...'")
		case w.raw != "":
			b.WriteString(w.raw)
		default:
			b.WriteString(w.text)
		}
	}
	return b.String()
}

// change applies a statement, and says whether it is one about roles or privileges.
func (r *scriptReading) change() bool {
	if last := r.words[len(r.words)-1]; len(r.words) > 1 && !last.quoted && !last.str && strings.HasPrefix(last.text, "\\") {
		r.fail("what %s does with its result is not known", last.text)
		return false
	}
	switch {
	case strings.HasPrefix(r.words[0].text, "\\") && !r.words[0].quoted && !r.words[0].str:
		r.psql()
	case r.take("set"):
		r.set()
	case r.take("reset"):
		r.reset()
	case r.take("comment"):
	case r.takeAll("select", "steno", ".", "note", "("):
		r.skip()
		if !r.take(")") || len(r.words) > 0 {
			r.fail("only a note is allowed")
		}
	case r.take("grant"):
		r.grant(true)
		return true
	case r.take("revoke"):
		r.grant(false)
		return true
	case r.takeAll("create", "role"), r.takeAll("create", "group"):
		r.newRole(false)
		return true
	case r.takeAll("create", "user") && !(len(r.words) > 0 && r.words[0].is("mapping")):
		r.newRole(true)
		return true
	case r.takeAll("alter", "role"), r.takeAll("alter", "user"):
		r.alterRole()
		return true
	case r.takeAll("drop", "role"), r.takeAll("drop", "user"), r.takeAll("drop", "group"):
		r.dropRoles()
		return true
	case r.takeAll("drop", "owned", "by"):
		r.dropOwned()
		return true
	default:
		r.fail("what it does to roles and privileges is not known")
	}
	return false
}

// quietCommands are commands of psql that change nothing on the server.
var quietCommands = []string{"\\set", "\\unset", "\\echo", "\\qecho", "\\warn", "\\pset", "\\timing", "\\x", "\\a", "\\t", "\\conninfo", "\\encoding"}

// psql follows a command of psql.
func (r *scriptReading) psql() {
	command := r.words[0].text
	switch {
	case slices.ContainsFunc(r.words, func(w word) bool { return w.is("`") }):
		r.fail("it runs another program")
	case command == "\\connect" || command == "\\c":
		r.skip()
		r.connect()
	case command == "\\set" && len(r.words) > 1 && strings.EqualFold(r.words[1].text, "autocommit"):
		r.fail("what follows would be part of a transaction")
	case slices.Contains(quietCommands, command):
	default:
		r.fail("this command of psql is not followed")
	}
}

// connect follows \connect to another database of the server.
func (r *scriptReading) connect() {
	for _, w := range r.words {
		if (w.quoted || w.str) && strings.ContainsAny(w.text, "=") || strings.Contains(w.text, "://") {
			if _, ok := cutDatabase(w.text); !ok {
				r.fail("it may connect to another server, or as somebody else")
				return
			}
		}
	}
	name := r.connection()
	if len(r.words) > 0 {
		r.fail("it may connect to another server, or as somebody else")
		return
	}
	if name != "" && name != "-" {
		r.db = name
	}
	r.session, r.role, r.local = "", "", false
	if r.database(r.db) == nil {
		r.fail("there is no database %q among the grants", r.db)
	}
}

// cutDatabase is the name in a connection string that has nothing else.
func cutDatabase(text string) (name string, ok bool) {
	body, ok := strings.CutPrefix(text, "dbname=")
	if !ok || !strings.HasPrefix(body, "'") {
		return "", false
	}
	name, n := quotedBody(body, '\'', true)
	return name, n == len(body)
}

// quietSettings change neither who may do what, nor how a script is read.
var quietSettings = []string{"client_min_messages", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "application_name", "log_statement", "log_min_messages", "steno"}

// set follows SET.
func (r *scriptReading) set() {
	r.take("session")
	if r.take("authorization") {
		r.authorize()
		return
	}
	local := r.take("local")
	switch {
	case r.takeAll("session", "authorization"):
		if r.authorize(); local {
			r.fail("only SET SESSION AUTHORIZATION without LOCAL is followed")
		}
	case r.take("role"):
		r.take("to", "=")
		r.setRole(local)
	case len(r.words) > 0 && slices.Contains(quietSettings, r.words[0].text):
	default:
		r.fail("what it changes is not known")
	}
}

func (r *scriptReading) authorize() {
	switch {
	case len(r.words) == 1 && r.words[0].is("default"):
		r.session = ""
	case len(r.words) == 1 && (r.words[0].isName() || r.words[0].str):
		r.session = r.words[0].text
		r.checkRole(r.session)
	default:
		r.unexpected("a role")
	}
	r.role, r.local = "", false
}

func (r *scriptReading) setRole(local bool) {
	if local && !r.inTransaction {
		return // the server warns, and does nothing
	}
	if local && !r.local {
		r.outer = r.role
	}
	switch {
	case len(r.words) == 1 && (r.words[0].is("none") || r.words[0].is("default")):
		r.role = ""
	case len(r.words) == 1 && (r.words[0].isName() || r.words[0].str):
		r.role = r.words[0].text
		if r.checkRole(r.role); r.session != "" && !r.isSuperuser(r.session) {
			r.fail("whether the session user may do that is not known")
		}
	default:
		r.unexpected("a role")
	}
	r.local = local
}

// reset follows RESET.
func (r *scriptReading) reset() {
	switch {
	case r.takeAll("session", "authorization"):
		r.session, r.role, r.local = "", "", false
	case r.take("role"):
		r.role, r.local = "", false
	case len(r.words) > 0 && slices.Contains(quietSettings, r.words[0].text):
		return
	default:
		r.fail("what it changes is not known")
	}
	if len(r.words) > 0 {
		r.unexpected("the end of the statement")
	}
}

// ---- roles ----

// bySuperuser refuses a statement that is not run by one.
func (r *scriptReading) bySuperuser() {
	if by := r.current(); by != "" && !r.isSuperuser(by) {
		r.fail("whether %q may do that is not known", by)
	}
}

func (r *scriptReading) newRole(login bool) {
	r.bySuperuser()
	name := r.name()
	if name == "" || r.knowsRole(name) || name == "public" {
		r.fail("it is no name for a new role")
		return
	}
	r.Roles = append(r.Roles, Role{Name: name, Inherit: true, Login: login})
	r.roleAttributes(&r.Roles[len(r.Roles)-1])
}

func (r *scriptReading) alterRole() {
	r.bySuperuser()
	name, ok := r.roleName()
	i := slices.IndexFunc(r.Roles, func(o Role) bool { return o.Name == name })
	if !ok || i < 0 || name == "" {
		r.fail("it is about more than one role")
		return
	}
	if len(r.words) == 0 {
		r.unexpected("an attribute")
	}
	r.roleAttributes(&r.Roles[i])
}

// roleAttributes reads those that matter here. Others decide about more than privileges.
func (r *scriptReading) roleAttributes(o *Role) {
	r.take("with")
	for len(r.words) > 0 {
		w := r.words[0]
		switch {
		case r.take("superuser", "nosuperuser"):
			o.Superuser = w.text == "superuser"
		case r.take("inherit", "noinherit"):
			o.Inherit = w.text == "inherit"
		case r.take("login", "nologin"):
			o.Login = w.text == "login"
		default:
			r.fail("what %s changes is not tried", strings.ToUpper(w.text))
			return
		}
	}
}

// roleList reads roles up to the end of the statement, but for CASCADE and RESTRICT.
func (r *scriptReading) roleList() (names []string) {
	for more := true; more; more = r.take(",") {
		name, ok := r.roleName()
		if !ok || name == "" {
			r.fail("it is no role")
			return nil
		}
		names = append(names, name)
	}
	return names
}

// dropRoles removes roles. The server refuses it as long as something depends on them.
func (r *scriptReading) dropRoles() {
	r.bySuperuser()
	exist := r.takeAll("if", "exists")
	if exist && len(r.words) == 1 && !r.knowsRole(r.words[0].text) {
		return
	}
	names := r.roleList()
	if len(r.words) > 0 {
		r.unexpected("the end of the statement")
	}
	for _, name := range names {
		if on := r.dependsOn(name); on != "" {
			r.fail("the server refuses to drop role %q: %s depends on it", name, on)
			return
		}
		if slices.ContainsFunc(r.Memberships, func(m Membership) bool { return m.Grantor == name && m.Member != name && r.Version >= 160000 }) {
			r.fail("the server refuses to drop role %q: it has granted memberships", name)
			return
		}
		r.Memberships = slices.DeleteFunc(r.Memberships, func(m Membership) bool { return m.Role == name || m.Member == name })
		r.Roles = slices.DeleteFunc(r.Roles, func(o Role) bool { return o.Name == name })
	}
}

// dependsOn is something that a role owns, or that has it in a list of privileges.
func (r *scriptReading) dependsOn(role string) string {
	found := ""
	for i := range r.Databases {
		d := &r.Databases[i]
		if slices.ContainsFunc(d.Unreviewed, func(u Unreviewed) bool { return u.Role == role }) {
			found = "an object that is not reviewed"
		}
		d.eachACL(func(what, owner string, acl *[]string) {
			in := func(text string) bool {
				a, err := parseACLItem(text)
				return err == nil && (a.grantee == role || a.grantor == role)
			}
			if owner == role || slices.ContainsFunc(*acl, in) {
				found = what
			}
		})
	}
	return found
}

// dropOwned takes the privileges of roles in the database, and on databases.
func (r *scriptReading) dropOwned() {
	r.bySuperuser()
	names := r.roleList()
	if !r.take("cascade") {
		r.take("restrict")
	}
	if len(r.words) > 0 {
		r.unexpected("the end of the statement")
	}
	here := r.here()
	if !here.Inside {
		r.fail("the grants say nothing of the inside of database %q", r.db)
	}
	for _, role := range names {
		for i := range r.Databases {
			d := &r.Databases[i]
			d.eachACL(func(what, owner string, acl *[]string) {
				if d == here && owner == role {
					r.fail("it drops what role %q owns: %s", role, what)
				}
				if d == here || acl == &d.ACL {
					r.dropFromACL(acl, owner, role)
				}
			})
			d.Unreviewed = slices.DeleteFunc(d.Unreviewed, func(u Unreviewed) bool { return u.Role == role })
		}
		if slices.ContainsFunc(r.Memberships, func(m Membership) bool { return m.Grantor == role && r.Version >= 160000 }) {
			r.fail("role %q has granted memberships", role)
		}
	}
}

// dropFromACL takes all privileges that a role has, whoever has granted them, with those that it has granted on.
func (r *scriptReading) dropFromACL(acl *[]string, owner, role string) {
	for _, text := range slices.Clone(*acl) {
		a, err := parseACLItem(text)
		if err != nil || a.grantee != role {
			continue
		}
		less, err := revokeACL(*acl, revocation{grantee: role, grantor: a.grantor, letters: a.letters, depends: cascadeDependents, owner: owner, has: r.has})
		if err != nil {
			r.fail("%v", err)
			return
		}
		*acl = less
	}
}

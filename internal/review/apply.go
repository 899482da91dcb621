// Scripts for a dry run: GRANT and REVOKE, and what psql and the server do with transactions, connections and roles
// around them. A script is refused unless all of it is understood: a dry run that skipped a statement could call a
// harmful script harmless.

package review

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/render"
)

// Applied counts what a script did.
type Applied struct {
	Statements int  // that change roles or privileges
	RolledBack int  // that the script does not commit
	Guarded    bool // its guard, until somebody removes it, ends the script before the first REVOKE
}

func (a *Applied) String() string {
	out := render.Plural(a.Statements, "statement") + " applied"
	if a.RolledBack > 0 {
		out += fmt.Sprintf(", %d not, because the script does not commit their transactions", a.RolledBack)
	}
	if a.Guarded {
		out += ", as if the exception at its beginning were removed"
	}
	return out
}

// mostProblems is the limit of problems that an error names.
const mostProblems = 10

// scriptReading is a script while it is applied.
type scriptReading struct {
	reading
	script
	Applied
	inBlock      bool // of a transaction block
	pending      []pendingStatement
	problems     []string
	moreProblems int // number of problems beyond mostProblems
}

// pendingStatement is a statement of an open transaction.
type pendingStatement struct {
	words []word
	begin int
}

// applyScript applies a script to the grants, as a superuser would run it with psql -X. It returns an error for
// anything that it cannot apply. It only applies statements that cannot fail on the server for reasons of roles and
// privileges: an error rolls back the transaction, and may make psql stop, so that later statements would not take
// effect.
func (g *Grants) applyScript(text, database string) (*Applied, error) {
	if strings.Contains(text, "\x00") || !utf8.ValidString(text) {
		return nil, errors.New("it is not a text in UTF-8, so psql may read it in another way")
	}
	r := &scriptReading{reading: reading{Grants: g, db: database}}
	r.script.text = text
	for {
		for r.skipOurs() {
		}
		words, more := r.next()
		if !more {
			if r.problem = r.unlikeReason; r.problem != "" {
				r.noteProblem(words, r.begin)
			}
			break
		}
		if line := r.psqlLine(words); line == `\q` || line == `\quit` {
			break
		}
		r.addStatement(words, r.begin)
	}
	r.rollBack() // psql ends its connection
	if r.moreProblems > 0 {
		r.problems = append(r.problems, fmt.Sprintf("and %d more", r.moreProblems))
	}
	if len(r.problems) > 0 {
		return nil, errors.New("a part of it cannot be tried, so the dry run would say nothing of the script: " +
			strings.Join(r.problems, "; ") +
			". Remove that; or run the script on a copy of the server, and name the file of \"steno review grants\" " +
			"from there instead of it")
	}
	return &r.Applied, nil
}

// skipOurs skips the parts of WriteScript's scripts that are not about privileges. They stand between statements, at
// the beginning of a line. It reports whether there was one. The guard ends the script, so it must come first.
func (r *scriptReading) skipOurs() bool {
	if r.inBlock {
		return false
	}
	for blank := r.script; ; {
		rest := blank.text[blank.pos:]
		if blank.pos == 0 || blank.text[blank.pos-1] == '\n' {
			guard, end := strings.TrimLeft(incompleteGuard, "\n"), strings.TrimLeft(scriptEnd, "\n")
			switch {
			case strings.HasPrefix(rest, guard) && r.Statements == 0 && len(r.problems) == 0:
				r.Guarded = true
				r.pos = blank.pos + len(guard)
				return true
			case strings.HasPrefix(rest, end):
				r.pos = blank.pos + len(end)
				return true
			}
		}
		if !blank.skipBlank() {
			return false
		}
	}
}

// psqlLine returns a psql command as it is written; empty if the words are a statement.
func (r *scriptReading) psqlLine(words []word) string {
	if first := words[0]; first.quoted || first.isString || !strings.HasPrefix(first.text, `\`) {
		return ""
	}
	return strings.TrimRight(r.script.text[r.begin:r.pos], " \t\r")
}

// addStatement applies a statement, or keeps it until its transaction is committed.
func (r *scriptReading) addStatement(words []word, begin int) {
	r.words, r.problem = words, r.unlikeReason
	line := r.psqlLine(words)
	switch {
	case r.problem != "":
	case line != "":
		r.followPsqlLine(line)
	case r.takeAll("start", "transaction"):
		r.endOfControl()
		r.inBlock = true
	case r.take("begin"):
		r.take("work", "transaction")
		r.endOfControl()
		r.inBlock = true
	case r.take("commit", "end"):
		r.take("work", "transaction")
		r.endOfControl()
		r.commit()
	case r.take("rollback", "abort"):
		r.take("work", "transaction")
		r.endOfControl()
		r.rollBack()
	case r.inBlock:
		r.pending = append(r.pending, pendingStatement{words, begin})
		return
	default:
		r.apply(words, begin)
		return
	}
	r.noteProblem(words, begin)
}

// endOfControl expects the end of a statement that begins or ends a transaction. All options are refused, because one
// of them, READ ONLY, would make the server refuse GRANT.
func (r *scriptReading) endOfControl() {
	if len(r.words) > 0 {
		r.failUnexpected("the end of the statement")
	}
}

// commit applies the statements of a transaction that is committed.
func (r *scriptReading) commit() {
	problem := r.problem
	r.applyPending()
	r.problem, r.inBlock = problem, false
	r.endLocal()
}

// applyPending applies the statements of a transaction.
func (r *scriptReading) applyPending() {
	r.inTransaction = true
	for _, p := range r.pending {
		r.apply(p.words, p.begin)
	}
	r.inTransaction, r.pending = false, nil
}

// rollBack applies the statements of a transaction to a copy of the grants, only to refuse those that are not
// understood, or that have effects outside the transaction.
func (r *scriptReading) rollBack() {
	r.RolledBack += len(r.pending)
	r.inBlock = false
	if len(r.pending) == 0 {
		return
	}
	kept, applied := r.reading, r.Statements
	image, err := r.clone()
	if err != nil {
		r.problems = append(r.problems, err.Error())
		return
	}
	r.Grants, r.places = image, nil
	r.applyPending()
	r.reading, r.Statements = kept, applied
}

// endLocal ends what SET LOCAL ROLE has set.
func (r *scriptReading) endLocal() {
	if r.localRole {
		r.role, r.localRole = r.outerRole, false
	}
}

// apply applies a statement.
func (r *scriptReading) apply(words []word, begin int) {
	r.words, r.problem = words, ""
	if r.applyWords() {
		r.Statements++
	}
	r.noteProblem(words, begin)
}

// noteProblem lists the problem of a statement.
func (r *scriptReading) noteProblem(words []word, begin int) {
	if r.problem == "" {
		return
	}
	if len(r.problems) >= mostProblems {
		r.moreProblems++
		return
	}
	line := 1 + strings.Count(r.script.text[:begin], "\n")
	r.problems = append(r.problems, fmt.Sprintf("line %d, %s: %s", line, beginning(words), r.problem))
}

// beginning returns the first words of a statement.
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
		case w.isString:
			b.WriteString("'...'")
		case w.raw != "":
			b.WriteString(w.raw)
		default:
			b.WriteString(w.text)
		}
	}
	return b.String()
}

// applyWords applies a statement, and reports whether it is about roles or privileges.
func (r *scriptReading) applyWords() bool {
	switch {
	case r.take("set"):
		r.set()
	case r.take("reset"):
		r.reset()
	case r.takeAll("comment", "on"):
		r.readComment()
	case r.takeAll("select", "steno", ".", "note", "("):
		r.writeNote()
	case r.take("grant"):
		r.checkReached()
		r.applyGrant(true)
		return true
	case r.take("revoke"):
		r.applyGrant(false)
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

// ---- statements that change no privilege ----

// readComment accepts COMMENT ON an object that is among the grants.
func (r *scriptReading) readComment() {
	r.bySuperuser()
	kinds := map[string]string{"table": "rp", "view": "v", "sequence": "S"}
	kind := ""
	if len(r.words) > 0 {
		kind = r.words[0].text
	}
	known := false
	switch {
	case r.take("role"):
		name, ok := r.takeRoleName()
		known = ok && name != ""
	case r.take("database"):
		known = r.database(r.takeName()) != nil
	case r.take("schema"):
		known = r.hasSchema(QuoteName(r.takeName()))
	case r.take("table", "view", "sequence"):
		rel := r.findRelation(r.takeObject(onRelation))
		known = rel != nil && strings.Contains(kinds[kind], rel.Kind)
	}
	if !known {
		r.fail("whether the server takes the comment is not known")
	}
	if !r.take("is") || !r.take("null") && !r.takeString() {
		r.failUnexpected("IS and a string")
	}
	if len(r.words) > 0 {
		r.failUnexpected("the end of the statement")
	}
}

// takeString skips a string, if it is next.
func (r *scriptReading) takeString() bool {
	if len(r.words) == 0 || !r.words[0].isString {
		return false
	}
	r.skip()
	return true
}

// writeNote reads the call of steno.note(), behind its parenthesis.
func (r *scriptReading) writeNote() {
	r.bySuperuser()
	if r.findFunction("steno.note(text)") == nil {
		r.fail("the extension is not in database %q", r.db)
	}
	if !r.takeString() || !r.take(")") || len(r.words) > 0 {
		r.fail("only a note is allowed")
	}
}

// The psql commands that are accepted: settings as WriteScript writes them, \echo of plain words, \connect to a
// database. A line can have several commands, so the patterns match whole lines.
var (
	settingLines = []string{`\set ON_ERROR_STOP on`, `\set ON_ERROR_STOP off`, `\set LAST_ERROR_SQLSTATE 00000`}
	echoLine     = regexp.MustCompile(`^\\echo( [A-Za-z0-9_.,()=+/ -]*)?$`)
	connectLine  = regexp.MustCompile(`^\\c(?:onnect)? (?:([A-Za-z0-9_]+)|(-reuse-previous=on )?"((?:[^"]|"")+)")$`)
)

// followPsqlLine applies a psql command.
func (r *scriptReading) followPsqlLine(line string) {
	connect := connectLine.FindStringSubmatch(line)
	switch {
	case connect != nil && r.inBlock:
		r.fail("it connects within a transaction")
	case connect != nil:
		r.connect(connect[1], strings.ReplaceAll(connect[3], `""`, `"`), connect[2] != "")
	case strings.HasPrefix(line, `\c `) || strings.HasPrefix(line, `\connect `):
		r.fail("it may connect to another server, or as somebody else")
	case !slices.Contains(settingLines, line) && !echoLine.MatchString(line):
		r.fail("this command of psql is not followed")
	}
}

// connect applies \connect with a plain or a quoted name of a database.
func (r *scriptReading) connect(plain, quoted string, reuse bool) {
	name := plain + quoted
	if reuse || strings.Contains(quoted, "=") || strings.Contains(quoted, "://") {
		cut, ok := cutDatabase(quoted)
		if !ok || !reuse {
			r.fail("it may connect to another server, or as somebody else")
			return
		}
		name = cut
	}
	r.db, r.session, r.role, r.localRole = name, "", "", false
	if r.database(r.db) == nil {
		r.fail("there is no database %q among the grants", r.db)
	}
}

// cutDatabase returns the database of a connection string that names nothing else.
func cutDatabase(text string) (name string, ok bool) {
	body, ok := strings.CutPrefix(text, "dbname=")
	if !ok || !strings.HasPrefix(body, "'") {
		return "", false
	}
	name, n := quotedBody(body, '\'', true)
	return name, n == len(body)
}

// Settings that affect neither privileges nor how a script is read, and that cannot fail.
var (
	quietTimeouts = []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"}
	quietLevels   = []string{"debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"}
	// Timeouts below a second are refused: they might cancel a statement of the script.
	quietTimeout = regexp.MustCompile(
		`^(0|[1-9][0-9]{3,5}( ?ms)?|[1-9][0-9]{0,5} ?s|[1-9][0-9]{0,3} ?min|[1-9][0-9]? ?h)$`)
)

// takeQuietSetting takes the name of such a setting.
func (r *scriptReading) takeQuietSetting() (name string, ok bool) {
	for _, name := range append([]string{"application_name", "client_min_messages"}, quietTimeouts...) {
		if r.take(name) {
			return name, true
		}
	}
	return "steno.app_user", r.takeAll("steno", ".", "app_user")
}

// takeQuietValue takes the value that SET gives such a setting.
func (r *scriptReading) takeQuietValue(name string) {
	if !r.take("to", "=") || len(r.words) == 0 {
		r.failUnexpected("TO and a value")
		return
	}
	value := r.words[0]
	r.skip()
	switch {
	case value.is("default"):
	case slices.Contains(quietTimeouts, name):
		if !quietTimeout.MatchString(value.text) || value.quoted ||
			!value.isString && strings.Trim(value.text, "0123456789") != "" {
			r.fail("only a timeout of a second or more is allowed")
		}
	case name == "client_min_messages":
		if !slices.Contains(quietLevels, value.text) {
			r.failUnexpected("a level of messages")
		}
	case !value.isString:
		r.failUnexpected("a string")
	}
	if len(r.words) > 0 {
		r.failUnexpected("the end of the statement")
	}
}

// set applies SET.
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
		r.setRole(local)
	default:
		name, ok := r.takeQuietSetting()
		if !ok {
			r.fail("what it changes is not known")
			return
		}
		r.takeQuietValue(name)
	}
}

func (r *scriptReading) authorize() {
	switch {
	case len(r.words) == 1 && r.words[0].is("default"):
		r.session = ""
	case len(r.words) == 1 && (r.words[0].isPlainName() || r.words[0].isString):
		r.session = r.words[0].text
		r.checkRole(r.session)
	default:
		r.failUnexpected("a role")
	}
	r.role, r.localRole = "", false
}

func (r *scriptReading) setRole(local bool) {
	to := r.take("to", "=")
	if local && !r.inTransaction { // the server warns, and does nothing
		role, was := r.role, r.localRole
		defer func() { r.role, r.localRole = role, was }()
	} else if local && !r.localRole {
		r.outerRole = r.role
	}
	switch {
	case len(r.words) == 1 && (r.words[0].is("none") || to && r.words[0].is("default")):
		r.role = ""
	case len(r.words) == 1 && (r.words[0].isPlainName() || r.words[0].isString):
		r.role = r.words[0].text
		if r.checkRole(r.role); r.session != "" && !r.isSuperuser(r.session) {
			r.fail("whether the session user may do that is not known")
		}
	default:
		r.failUnexpected("a role")
	}
	r.localRole = local
}

// reset applies RESET.
func (r *scriptReading) reset() {
	switch {
	case r.takeAll("session", "authorization"):
		r.session, r.role, r.localRole = "", "", false
	case r.take("role"):
		r.role, r.localRole = "", false
	default:
		if _, ok := r.takeQuietSetting(); !ok {
			r.fail("what it changes is not known")
		}
	}
	if len(r.words) > 0 {
		r.failUnexpected("the end of the statement")
	}
}

// ---- roles ----

// bySuperuser refuses a statement unless the current role is a superuser.
func (r *scriptReading) bySuperuser() {
	if by := r.current(); by != "" && !r.isSuperuser(by) {
		r.fail("whether %q may do that is not known", by)
	}
}

func (r *scriptReading) newRole(login bool) {
	r.bySuperuser()
	name := r.takeName()
	if name == "" || r.knowsRole(name) || name == "public" || name == "none" || strings.HasPrefix(name, "pg_") {
		r.fail("it is no name for a new role")
		return
	}
	r.Roles = append(r.Roles, Role{Name: name, Inherit: true, Login: login})
	r.roleAttributes(&r.Roles[len(r.Roles)-1])
}

func (r *scriptReading) alterRole() {
	r.bySuperuser()
	name, ok := r.takeRoleName()
	i := slices.IndexFunc(r.Roles, func(o Role) bool { return o.Name == name })
	if !ok || i < 0 || name == "" {
		r.fail("it is about more than one role")
		return
	}
	if len(r.words) == 0 {
		r.failUnexpected("an attribute")
	}
	if strings.HasPrefix(name, "pg_") {
		r.fail("the server alters no predefined role")
	}
	had := r.Roles[i]
	r.roleAttributes(&r.Roles[i])
	switch has := r.Roles[i]; {
	case has.Superuser && !had.Superuser, has.Inherit && !had.Inherit, has.Login && !had.Login:
		r.checkReached()
	case !has.Superuser && had.Superuser && (r.Version == 0 || r.Version >= 160000):
		r.mayFail("role " + QuoteName(name) + " may be the one that must be a superuser")
	}
}

// roleAttributes applies SUPERUSER, INHERIT and LOGIN. Other attributes are refused: they decide about more than
// privileges.
func (r *scriptReading) roleAttributes(o *Role) {
	r.take("with")
	given := map[string]bool{}
	for len(r.words) > 0 {
		w := r.words[0]
		attribute := strings.TrimPrefix(w.text, "no")
		if given[attribute] {
			r.fail("it has %s twice", strings.ToUpper(attribute))
		}
		given[attribute] = true
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

// takeRoleList takes roles up to the end of the statement or to CASCADE or RESTRICT.
func (r *scriptReading) takeRoleList() (names []string) {
	for more := true; more; more = r.take(",") {
		name, ok := r.takeRoleName()
		if !ok || name == "" {
			r.fail("it is no role")
			return nil
		}
		names = append(names, name)
	}
	return names
}

// dropRoles removes roles, unless something depends on them: the server would refuse that.
func (r *scriptReading) dropRoles() {
	r.bySuperuser()
	exist := r.takeAll("if", "exists")
	if exist && len(r.words) == 1 && !r.knowsRole(r.words[0].text) {
		return
	}
	names := r.takeRoleList()
	if len(r.words) > 0 {
		r.failUnexpected("the end of the statement")
	}
	r.mayFail("something that the grants do not have may depend on a role")
	for _, name := range names {
		if !r.knowsRole(name) {
			r.fail("it has %q twice", name)
			return
		}
		if strings.HasPrefix(name, "pg_") {
			r.fail("the server drops no predefined role")
		}
		if on := r.firstDependent(name); on != "" {
			r.fail("the server refuses to drop role %q: %s depends on it", name, on)
			return
		}
		if slices.ContainsFunc(r.Memberships, func(m Membership) bool {
			return m.Grantor == name && m.Member != name && r.Version >= 160000
		}) {
			r.fail("the server refuses to drop role %q: it has granted memberships", name)
			return
		}
		r.Memberships = slices.DeleteFunc(r.Memberships, func(m Membership) bool {
			return m.Role == name || m.Member == name
		})
		r.Roles = slices.DeleteFunc(r.Roles, func(o Role) bool { return o.Name == name })
	}
}

// firstDependent names an object that a role owns, or whose ACL names the role; empty if there is none.
func (r *scriptReading) firstDependent(role string) string {
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

// dropOwned revokes the privileges of roles on objects of the current database, and on databases.
func (r *scriptReading) dropOwned() {
	r.bySuperuser()
	names := r.takeRoleList()
	if !r.take("cascade") {
		r.take("restrict")
	}
	if len(r.words) > 0 {
		r.failUnexpected("the end of the statement")
	}
	r.mayFail("what a role owns may be needed by the server")
	here := r.currentDatabase()
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
		if slices.ContainsFunc(r.Memberships, func(m Membership) bool {
			return m.Grantor == role && r.Version >= 160000
		}) {
			r.fail("role %q has granted memberships", role)
		}
	}
}

// dropFromACL revokes all privileges of a role, whoever granted them, and those that it granted to others.
func (r *scriptReading) dropFromACL(acl *[]string, owner, role string) {
	for _, text := range slices.Clone(*acl) {
		a, err := parseACLItem(text)
		if err != nil || a.grantee != role {
			continue
		}
		less, err := revokeACL(*acl, revocation{grantee: role, grantor: a.grantor, letters: a.letters,
			depends: cascadeDependents, owner: owner, rolesHeldBy: r.rolesHeldBy})
		if err != nil {
			r.fail("%v", err)
			return
		}
		*acl = less
	}
}

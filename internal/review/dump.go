// Grants as SQL: the texts of pg_dump and pg_dumpall, and scripts of GRANT and REVOKE that are
// applied to grants. Of other statements, only what privileges depend on is looked at.

package review

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// word is a token of SQL: a name, which has been in quotes or is in lower case, a string, or a symbol.
type word struct {
	text   string
	quoted bool // a name in double quotes
	str    bool // a string
}

// is says whether it is this keyword or symbol.
func (w word) is(s string) bool { return !w.quoted && !w.str && w.text == s }

// isName says whether it can be a name.
func (w word) isName() bool {
	return w.quoted || !w.str && w.text != "" && (w.text[0] == '_' || w.text[0] >= 'a' && w.text[0] <= 'z' || w.text[0] >= 0x80)
}

// script splits SQL into statements.
type script struct {
	text string
	at   int
}

// next returns the words of the next statement, or a line of psql's, which begins with a backslash.
func (s *script) next() (words []word, more bool) {
	for s.at < len(s.text) {
		c := s.text[s.at]
		rest := s.text[s.at:]
		switch {
		case c == '\n' || c == ' ' || c == '\t' || c == '\r':
			s.at++
		case strings.HasPrefix(rest, "--"):
			s.skipTo("\n")
		case strings.HasPrefix(rest, "/*"):
			s.skipTo("*/")
		case c == '\\' && len(words) == 0:
			line, _, _ := strings.Cut(rest, "\n")
			s.at += len(line)
			return lineWords(line), true
		case c == ';':
			s.at++
			if len(words) > 0 {
				if words[0].is("copy") && words[len(words)-1].is("stdin") {
					s.skipTo("\n\\.")
				}
				return words, true
			}
		default:
			words = append(words, s.word())
		}
	}
	return words, len(words) > 0
}

// lineWords are the words of a line of psql's.
func lineWords(line string) []word {
	command, rest, _ := strings.Cut(line, " ")
	inside := script{text: rest}
	words, _ := inside.next()
	return append([]word{{text: command}}, words...)
}

func (s *script) skipTo(end string) {
	if i := strings.Index(s.text[s.at:], end); i >= 0 {
		s.at += i + len(end)
	} else {
		s.at = len(s.text)
	}
}

// word reads a token, of which there is one.
func (s *script) word() word {
	rest := s.text[s.at:]
	c := rest[0]
	switch {
	case c == '"' || c == '\'':
		body, n := quotedBody(rest, c, false)
		s.at += n
		return word{text: body, quoted: c == '"', str: c == '\''}
	case (c == 'E' || c == 'e') && len(rest) > 1 && rest[1] == '\'':
		body, n := quotedBody(rest[1:], '\'', true)
		s.at += n + 1
		return word{text: body, str: true}
	case c == '$':
		if tag := dollarTag(rest); tag != "" {
			body, _, _ := strings.Cut(rest[len(tag):], tag)
			s.at += min(len(rest), len(body)+2*len(tag))
			return word{text: body, str: true}
		}
	case isWordByte(c):
		n := 1
		for n < len(rest) && (isWordByte(rest[n]) || rest[n] == '$') {
			n++
		}
		s.at += n
		return word{text: strings.ToLower(rest[:n])}
	}
	s.at++
	return word{text: rest[:1]}
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// quotedBody reads what is in quotes at the beginning of s, and how long that is with its quotes.
func quotedBody(s string, quote byte, escapes bool) (string, int) {
	var b []byte
	for i := 1; i < len(s); i++ {
		switch {
		case escapes && s[i] == '\\' && i+1 < len(s):
			i++
			b = append(b, s[i])
		case s[i] != quote:
			b = append(b, s[i])
		case i+1 < len(s) && s[i+1] == quote:
			b = append(b, quote)
			i++
		default:
			return string(b), i + 1
		}
	}
	return string(b), len(s)
}

// dollarTag is $tag$ at the beginning of s, empty if there is none.
func dollarTag(s string) string {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '$':
			return s[:i+1]
		case !isWordByte(s[i]) || i == 1 && s[i] >= '0' && s[i] <= '9':
			return ""
		}
	}
	return ""
}

// ---- statements ----

// reading is a script that is applied to grants.
type reading struct {
	*Grants
	db      string
	role    string // of SET ROLE and SET SESSION AUTHORIZATION
	local   bool   // it ends with the transaction
	creates bool   // objects that are not known are added
	words   []word
	unknown []string          // objects of GRANT and REVOKE that are not known
	places  map[[2]string]int // of relations, by database and name
}

// dumpedFrom is where pg_dump says of which version the server is.
var dumpedFrom = regexp.MustCompile(`(?m)^-- Dumped from database version (\d+)`)

// apply applies a script. create says that it is a dump: what it creates is new. Otherwise,
// only GRANT, REVOKE and roles count, and unknown objects are an error.
func (g *Grants) apply(text, database string, create bool) error {
	r := &reading{Grants: g, db: database, creates: create}
	if m := dumpedFrom.FindStringSubmatch(text); m != nil && create {
		major, _ := strconv.Atoi(m[1])
		g.Version = max(g.Version, major*10000)
	}
	s := script{text: text}
	for {
		words, more := s.next()
		if !more {
			break
		}
		r.words = words
		r.statement()
	}
	if len(r.unknown) > 0 && !create {
		return fmt.Errorf("not among the grants: %s", strings.Join(r.unknown, ", "))
	}
	return nil
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
	n := r.words[0].text
	r.skip()
	return n
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

// here is the database that statements are about.
func (r *reading) here() *Database {
	d := r.database(r.db)
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

func (r *reading) statement() {
	switch {
	case r.takeAll("\\connect"), r.takeAll("\\c"):
		if len(r.words) > 0 && r.words[0].is("-") {
			r.skip()
			for r.take("reuse", "-", "previous", "=", "on", "off") {
			}
		}
		if n := r.name(); n != "" {
			if body, ok := strings.CutPrefix(n, "dbname="); ok { // names with an equals sign
				n, _ = quotedBody(body, '\'', true)
			}
			r.db = n
		}
	case r.takeAll("set", "local", "role"):
		r.setRole(r.name(), true)
	case r.takeAll("set", "session", "authorization"), r.takeAll("set", "role"):
		r.setRole(r.name(), false)
	case r.local && r.take("commit", "end", "rollback", "abort"):
		r.setRole("", false)
	case r.takeAll("reset", "session", "authorization"), r.takeAll("reset", "role"):
		r.role = ""
	case r.take("grant"):
		r.grant(true)
	case r.take("revoke"):
		r.grant(false)
	case r.creates && r.take("create"):
		r.create()
	case r.creates && r.take("alter"):
		r.alter()
	}
}

func (r *reading) setRole(role string, local bool) {
	if role == "none" || role == "default" {
		role = ""
	}
	r.role, r.local = role, local
}

// ---- GRANT and REVOKE ----

// objectKind is a kind of objects that privileges are on.
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
var allPrivileges = map[objectKind]string{onRelation: "arwdDxt", onSequence: "rwU", onSchema: "UC", onDatabase: "CTc", onFunction: "X"}

// grant reads what follows GRANT or REVOKE.
func (r *reading) grant(grants bool) {
	option := ""
	for _, o := range []string{"grant", "admin", "inherit", "set"} {
		if !grants && r.takeAll(o, "option", "for") {
			option = o
		}
	}
	on := slices.IndexFunc(r.words, func(w word) bool { return w.is("on") })
	if on < 0 {
		r.membership(grants, option)
		return
	}
	letters, columns := r.privileges(r.words[:on])
	r.words = r.words[on+1:]
	word := r.words
	kind, all := r.kind()
	objects := r.objects(kind)
	if !r.take("to", "from") {
		return
	}
	grantees, options := r.grantees()
	if kind == onOther && !grants && option == "" {
		r.revokeUnreviewed(word[0].text, grantees)
	}
	for _, o := range objects {
		if all {
			r.change(kind, r.inSchema(kind, o), letters, nil, grantees, grants, options, option != "")
		} else {
			r.change(kind, []string{o}, letters, columns, grantees, grants, options, option != "")
		}
	}
}

// revokeUnreviewed removes what roles have on objects of a kind that is not reviewed, whichever of them a statement names:
// a dry run then says that what needs one may fail.
func (r *reading) revokeUnreviewed(kind string, roles []string) {
	if kind == "domain" {
		kind = "type"
	}
	for i := range r.Databases {
		d := &r.Databases[i]
		d.Unreviewed = slices.DeleteFunc(d.Unreviewed, func(u Unreviewed) bool {
			return strings.Contains(u.On, " on "+kind) && slices.Contains(roles, u.Role)
		})
	}
}

// privileges reads a list of privileges: letters on the whole, and those on columns.
func (r *reading) privileges(words []word) (letters string, columns map[string]string) {
	outer := r.words
	defer func() { r.words = outer }()
	columns = map[string]string{}
	r.words = words
	for len(r.words) > 0 {
		name := strings.ToUpper(r.name())
		switch {
		case name == "":
			r.skip()
			continue
		case name == "ALL":
			r.take("privileges")
		case name == "TEMP":
			name = "TEMPORARY"
		}
		letter := "*"
		if name != "ALL" {
			if l := privilegeLetter(name); l != 0 {
				letter = string(rune(l))
			} else {
				letter = ""
			}
		}
		if r.take("(") {
			for len(r.words) > 0 && !r.take(")") {
				if c := r.name(); c != "" {
					columns[QuoteName(c)] += letter
				} else {
					r.skip()
				}
			}
		} else {
			letters += letter
		}
		r.take(",")
	}
	return letters, columns
}

// kind reads the kind of objects; all says that all in the schemas are meant.
func (r *reading) kind() (kind objectKind, all bool) {
	for _, k := range []struct {
		words []string
		kind  objectKind
		all   bool
	}{
		{[]string{"all", "tables", "in", "schema"}, onRelation, true},
		{[]string{"all", "sequences", "in", "schema"}, onSequence, true},
		{[]string{"all", "functions", "in", "schema"}, onFunction, true},
		{[]string{"all", "routines", "in", "schema"}, onFunction, true},
		{[]string{"all", "procedures", "in", "schema"}, onFunction, true},
		{[]string{"table"}, onRelation, false}, {[]string{"sequence"}, onSequence, false}, {[]string{"schema"}, onSchema, false},
		{[]string{"database"}, onDatabase, false}, {[]string{"function"}, onFunction, false}, {[]string{"procedure"}, onFunction, false},
		{[]string{"routine"}, onFunction, false}, {[]string{"foreign"}, onOther, false}, {[]string{"language"}, onOther, false},
		{[]string{"large"}, onOther, false}, {[]string{"parameter"}, onOther, false}, {[]string{"tablespace"}, onOther, false},
		{[]string{"type"}, onOther, false}, {[]string{"domain"}, onOther, false},
	} {
		if r.takeAll(k.words...) {
			return k.kind, k.all
		}
	}
	return onRelation, false
}

// objects reads names up to TO or FROM. Those of functions have their arguments.
func (r *reading) objects(kind objectKind) (names []string) {
	for len(r.words) > 0 && !r.words[0].is("to") && !r.words[0].is("from") {
		if r.take(",") {
			continue
		}
		if !r.words[0].isName() && !r.words[0].str {
			r.skip()
			continue
		}
		switch {
		case kind == onSchema:
			names = append(names, QuoteName(r.name()))
		case kind == onDatabase:
			names = append(names, r.name())
		case kind == onFunction:
			n := r.qualified()
			if r.take("(") {
				n += "(" + r.arguments() + ")"
			}
			names = append(names, n)
		default:
			names = append(names, r.qualified())
		}
	}
	return names
}

// arguments reads the arguments of a function up to the closing bracket, as words with blanks between.
func (r *reading) arguments() string {
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
		b.WriteString(text + " ")
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), " , ", ", ")
}

// functionName is the name of a function without its arguments, which begin with the first parenthesis that
// is not in quotes.
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

// typeNames are what the server calls types that have several names.
var typeNames = map[string]string{
	"int": "integer", "int4": "integer", "int8": "bigint", "int2": "smallint", "bool": "boolean", "varchar": "charactervarying", "char": "character",
	"bpchar": "character", "timestamptz": "timestampwithtimezone", "timestamp": "timestampwithouttimezone", "timetz": "timewithtimezone",
	"float8": "doubleprecision", "float": "doubleprecision", "float4": "real", "decimal": "numeric",
}

// normalArguments makes the arguments of a function comparable, however they are spaced and their
// types are named.
func normalArguments(s string) string {
	words := strings.Fields(strings.NewReplacer(",", " , ", "[", " [", "(", " (").Replace(strings.ToLower(s)))
	for i, w := range words {
		with := i+1 < len(words) && (words[i+1] == "with" || words[i+1] == "without" || words[i+1] == "varying")
		if name := typeNames[w]; name != "" && !with {
			words[i] = name
		}
	}
	return strings.Join(words, "")
}

// grantees reads roles, and whether they get grant options.
func (r *reading) grantees() (roles []string, options bool) {
	for len(r.words) > 0 {
		switch {
		case r.take(","):
		case r.takeAll("with", "grant", "option"):
			options = true
		case r.takeAll("granted", "by"):
			r.name()
		case r.take("cascade", "restrict", "group"):
		case r.take("public"):
			roles = append(roles, "")
		default:
			if n := r.name(); n != "" {
				roles = append(roles, n)
			} else {
				r.skip()
			}
		}
	}
	return roles, options
}

// inSchema are the objects of a kind in a schema.
func (r *reading) inSchema(kind objectKind, schema string) (names []string) {
	d := r.here()
	for i := range d.Relations {
		if rel := &d.Relations[i]; schemaOf(rel.Name) == schema && (rel.Kind == "S") == (kind == onSequence) && kind != onFunction {
			names = append(names, rel.Name)
		}
	}
	for i := range d.Functions {
		if f := &d.Functions[i]; kind == onFunction && schemaOf(f.Name) == schema {
			names = append(names, f.Name+"("+f.Arguments+")")
		}
	}
	return names
}

// change changes the ACLs of objects.
func (r *reading) change(kind objectKind, names []string, letters string, columns map[string]string, grantees []string, grants, options, onlyOption bool) {
	for _, name := range names {
		list, owner, byColumn := r.listOf(kind, name)
		if list == nil {
			if kind != onOther {
				r.unknown = append(r.unknown, name)
			}
			continue
		}
		grantor := owner
		if r.role != "" && !slices.ContainsFunc(r.Roles, func(o Role) bool { return o.Name == r.role && o.Superuser }) {
			grantor = r.role // what a superuser does counts as the owner's
		}
		one := func(acl []string, letters, every string) []string {
			if strings.Contains(letters, "*") {
				letters = every
			}
			for _, g := range grantees {
				switch {
				case letters == "":
				case grants:
					acl = grantACL(acl, g, grantor, letters, options)
				default:
					acl = revokeACL(acl, g, grantor, letters, onlyOption)
				}
			}
			return acl
		}
		every := allPrivileges[kind]
		if kind == onRelation && r.Version >= 170000 {
			every += "m"
		}
		*list = one(*list, letters, every)
		if byColumn == nil {
			continue
		}
		for c, l := range columns {
			(*byColumn)[c] = one((*byColumn)[c], l, "rawx")
		}
		if !grants { // REVOKE of the table's privilege takes that of its columns, too
			for c := range *byColumn {
				(*byColumn)[c] = one((*byColumn)[c], letters, "rawx")
			}
		}
	}
}

// listOf is the ACL of an object, its owner, and the ACLs of its columns; nil if it is not known.
func (r *reading) listOf(kind objectKind, name string) (list *[]string, owner string, columns *map[string][]string) {
	if kind == onDatabase {
		if d := r.database(name); d != nil {
			return &d.ACL, d.Owner, nil
		}
		return nil, "", nil
	}
	d := r.here()
	switch kind {
	case onSchema:
		for i := range d.Schemas {
			if s := &d.Schemas[i]; s.Name == name {
				return &s.ACL, s.Owner, nil
			}
		}
	case onFunction:
		base := functionName(name)
		arguments := strings.TrimSuffix(strings.TrimPrefix(name[len(base):], "("), ")")
		var only *Function
		same := 0
		for i := range d.Functions {
			f := &d.Functions[i]
			if f.Name != base {
				continue
			}
			if normalArguments(f.Arguments) == normalArguments(arguments) {
				return &f.ACL, f.Owner, nil
			}
			only, same = f, same+1
		}
		if same == 1 { // its arguments can be named with types alone, or not at all
			return &only.ACL, only.Owner, nil
		}
	case onRelation, onSequence:
		if rel := r.find(name); rel != nil {
			if rel.ColumnACL == nil {
				rel.ColumnACL = map[string][]string{}
			}
			return &rel.ACL, rel.Owner, &rel.ColumnACL
		}
	}
	return nil, "", nil
}

// find finds a relation of the current database.
func (r *reading) find(name string) *Relation {
	d := r.here()
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

// membership reads GRANT and REVOKE of roles; option is the one that REVOKE takes, empty if it takes the role.
func (r *reading) membership(grants bool, option string) {
	var roles []string
	for len(r.words) > 0 && !r.take("to", "from") {
		if n := r.name(); n != "" {
			roles = append(roles, n)
		} else {
			r.skip()
		}
	}
	var members []string
	options := map[string]bool{}
	grantor, cascade := "", false
	for len(r.words) > 0 {
		word := r.words[0]
		switch {
		case r.take("cascade"):
			cascade = true
		case r.take(",", "with", "restrict"):
		case r.takeAll("granted", "by"):
			grantor = r.name()
		case len(members) > 0 && r.take("admin", "inherit", "set"):
			options[word.text] = r.take("true", "option") || !r.take("false")
		default:
			if n := r.name(); n != "" {
				members = append(members, n)
			} else {
				r.skip()
			}
		}
	}
	if option != "" {
		options[option] = false
	}
	for _, role := range roles {
		for _, member := range members {
			if !grants && option == "" {
				r.revokeRole(role, member, grantor, cascade)
			} else {
				r.setOptions(role, member, grantor, options, grants)
			}
		}
	}
}

// setOptions sets the options of a membership. If there is none, it is added if create says so.
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
		if m := &r.Memberships[i]; !r.creates && m.Role == role && m.Member == member && r.isGrantor(m, grantor) {
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
	var gone []Membership
	for _, m := range r.Memberships {
		if m.Role == role && m.Member == member && r.isGrantor(&m, grantor) {
			gone = append(gone, m)
		}
	}
	r.Memberships = slices.DeleteFunc(r.Memberships, func(m Membership) bool { return slices.Contains(gone, m) })
	if !cascade || len(gone) == 0 || r.isAdmin(role, member) {
		return
	}
	for _, m := range slices.Clone(r.Memberships) {
		if m.Role == role && m.Grantor == member {
			r.revokeRole(role, m.Member, member, true)
		}
	}
}

// isGrantor says whether a statement is about a membership: grantor is that of GRANTED BY, or empty. Up to PostgreSQL 15,
// a member has a role once, whoever has granted it.
func (r *reading) isGrantor(m *Membership, grantor string) bool {
	switch {
	case m.Grantor == "" || r.Version > 0 && r.Version < 160000:
		return true
	case grantor != "":
		return m.Grantor == grantor
	case r.Version == 0:
		return true
	case r.role != "" && !slices.ContainsFunc(r.Roles, func(o Role) bool { return o.Name == r.role && o.Superuser }):
		return m.Grantor == r.role
	}
	// What superusers do counts as done by the first one of the cluster, who alone needs no ADMIN OPTION to grant.
	return !r.isAdmin(m.Role, m.Grantor)
}

// isAdmin says whether a role was granted to a member with ADMIN OPTION.
func (r *reading) isAdmin(role, member string) bool {
	return slices.ContainsFunc(r.Memberships, func(m Membership) bool { return m.Role == role && m.Member == member && m.Admin })
}

// ---- CREATE and ALTER in a dump ----

func (r *reading) create() {
	r.takeAll("or", "replace")
	r.take("unlogged", "recursive")
	owner := r.role
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

// ---- names ----

// schemaOf is the schema of a qualified name, as it is written.
func schemaOf(name string) string {
	quoted := false
	for i, c := range []byte(name) {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			return name[:i]
		}
	}
	return ""
}

// QuoteName is a name as SQL writes it: as quote_ident() does, but for keywords that some versions
// of the server do not have.
func QuoteName(s string) string {
	for i, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9') {
			return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
		}
	}
	if s == "" || slices.Contains(reserved, s) {
		return `"` + s + `"`
	}
	return s
}

// reserved are the keywords that quote_ident() puts in quotes: all that are not unreserved.
var reserved = strings.Fields(`all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
char character check coalesce collate collation column concurrently constraint create cross current_catalog current_date current_role current_schema
current_time current_timestamp current_user dec decimal default deferrable desc distinct do else end except exists extract false fetch float for
foreign freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join
json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value lateral leading least
left like limit localtime localtimestamp merge_action national natural nchar none normalize not notnull null nullif numeric offset on only or order
out outer overlaps overlay placing position precision primary real references returning right row select session_user setof similar smallint some
substring symmetric system_user table tablesample then time timestamp to trailing treat trim true union unique user using values varchar variadic
verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable`)

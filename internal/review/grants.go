// The grants of a server: what "steno review grants" reads with one query, and their JSON.

package review

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Grants are the roles of a server and the privileges in one or more of its databases, as JSON.
// Names are as SQL writes them, in quotes where that needs them, except those of roles and
// databases, which are as they are. An ACL is a list of PostgreSQL's aclitem texts; where the
// server has no list of its own for an object, it is the default one.
type Grants struct {
	Format string `json:"format"`
	// System is the system identifier of the server. Dumps do not have it.
	System      string       `json:"system_identifier,omitempty"`
	Taken       string       `json:"taken,omitempty"`
	Version     int          `json:"server_version_num"`
	Roles       []Role       `json:"roles"`
	Memberships []Membership `json:"memberships"`
	Databases   []Database   `json:"databases"`
	// Restored says that the grants are those of dumps.
	Restored *Restored `json:"restored,omitempty"`
}

// Restored says how the grants of dumps came about.
type Restored struct {
	Dumps      []string `json:"dumps"`
	Server     string   `json:"server"`               // into which they were restored
	Extensions []string `json:"extensions,omitempty"` // that were not there
}

// grantsFormat is Grants.Format.
const grantsFormat = "pg_steno grants 1"

// Role is one of pg_roles.
type Role struct {
	Name      string `json:"name"`
	Superuser bool   `json:"superuser,omitempty"`
	Inherit   bool   `json:"inherit"`
	Login     bool   `json:"login,omitempty"`
}

// Membership is one of pg_auth_members. Before PostgreSQL 16, InheritOption and SetOption are nil.
type Membership struct {
	Role          string `json:"role"`
	Member        string `json:"member"`
	Grantor       string `json:"grantor,omitempty"`
	Admin         bool   `json:"admin,omitempty"`
	InheritOption *bool  `json:"inherit,omitempty"`
	SetOption     *bool  `json:"set,omitempty"`
}

// Database is a database. Inside says whether its schemas, relations and functions are known.
type Database struct {
	Name      string     `json:"name"`
	Owner     string     `json:"owner"`
	ACL       []string   `json:"acl"`
	Inside    bool       `json:"inside"`
	Schemas   []Schema   `json:"schemas,omitempty"`
	Relations []Relation `json:"relations,omitempty"`
	Functions []Function `json:"functions,omitempty"`
	// Unreviewed are the rights that are not reviewed, because records do not show their use. nil: not known, because
	// the grants are those of a dump, or of a version of this program that did not ask.
	Unreviewed []Unreviewed `json:"unreviewed"`
	// OwnUnknown says that a dump does not say who owns the database, and who has privileges on it. Incomplete are
	// statements of the dump that could not be restored: what there is in the database is not known as a whole.
	OwnUnknown bool     `json:"own_unknown,omitempty"`
	Incomplete []string `json:"incomplete,omitempty"`
}

// Unreviewed is a right of a role on something that is not reviewed, such as "SET on parameter log_duration".
type Unreviewed struct {
	Role string `json:"role"`
	On   string `json:"on"`
}

// Schema is a schema.
type Schema struct {
	Name      string   `json:"name"`
	Owner     string   `json:"owner"`
	ACL       []string `json:"acl"`
	Extension bool     `json:"extension,omitempty"`
	// Others says that there is something in it that records do not name: types, operators and the like.
	Others bool `json:"others,omitempty"`
}

// Relation is a table, view, sequence or the like.
type Relation struct {
	Name  string   `json:"name"` // with its schema
	Kind  string   `json:"kind"` // pg_class.relkind
	Owner string   `json:"owner"`
	ACL   []string `json:"acl"`
	// Columns are those of relations outside the system's schemas, ColumnACL the lists of those
	// that have one.
	Columns   []string            `json:"columns,omitempty"`
	ColumnACL map[string][]string `json:"column_acl,omitempty"`
	// Invoker says that a view checks privileges of the caller.
	Invoker bool `json:"security_invoker,omitempty"`
	// PolicyRoles are the roles of policies of row security, empty for PUBLIC; Rules says that
	// there are rules beside that of a view.
	PolicyRoles []string `json:"policy_roles,omitempty"`
	Rules       bool     `json:"rules,omitempty"`
	// Defaults are columns whose default calls nextval, each with its sequence.
	Defaults map[string]string `json:"defaults,omitempty"`
	// References are the tables that its foreign keys refer to.
	References []string `json:"references,omitempty"`
	Extension  bool     `json:"extension,omitempty"`
}

// Function is a function, procedure or aggregate outside the system's schemas.
type Function struct {
	Name      string   `json:"name"` // with its schema, without arguments
	Arguments string   `json:"arguments"`
	Kind      string   `json:"kind"` // pg_proc.prokind
	Owner     string   `json:"owner"`
	ACL       []string `json:"acl"`
	// SQL says that it is in language SQL: the planner may inline it.
	SQL bool `json:"sql,omitempty"`
	// Definer says that it is SECURITY DEFINER.
	Definer   bool `json:"security_definer,omitempty"`
	Extension bool `json:"extension,omitempty"`
}

// GrantsQuery is the script that makes psql print Grants. The columns of pg_auth_members differ
// between versions, so they are looked up by name.
const GrantsQuery = `BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL search_path = pg_catalog;
SET LOCAL quote_all_identifiers = off;
SET LOCAL client_encoding = 'UTF8';
SELECT json_build_object(
  'format', '` + grantsFormat + `', 'system_identifier', (SELECT system_identifier::text FROM pg_control_system()), 'taken', now(), 'server_version_num', current_setting('server_version_num')::int,
  'roles', (SELECT json_agg(json_build_object('name', rolname, 'superuser', rolsuper, 'inherit', rolinherit, 'login', rolcanlogin) ORDER BY rolname) FROM pg_roles),
  'memberships', (SELECT coalesce(json_agg(json_build_object('role', g.rolname, 'member', m.rolname, 'grantor', u.rolname, 'admin', a.admin_option,
      'inherit', to_jsonb(a)->'inherit_option', 'set', to_jsonb(a)->'set_option') ORDER BY g.rolname, m.rolname), '[]')
    FROM pg_auth_members a JOIN pg_roles g ON g.oid = a.roleid JOIN pg_roles m ON m.oid = a.member LEFT JOIN pg_roles u ON u.oid = a.grantor),
  'databases', (SELECT json_agg(to_jsonb(d) ORDER BY d.name) FROM (
    SELECT datname AS name, pg_get_userbyid(datdba) AS owner, coalesce(datacl, acldefault('d', datdba))::text[] AS acl, datname = current_database() AS inside,
      CASE WHEN datname = current_database() THEN (SELECT json_agg(json_build_object(
          'name', quote_ident(nspname), 'owner', pg_get_userbyid(nspowner), 'acl', coalesce(nspacl, acldefault('n', nspowner))::text[],
          'extension', EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_namespace'::regclass AND objid = n.oid AND deptype = 'e'),
          'others', EXISTS (SELECT FROM pg_type t WHERE typnamespace = n.oid AND typcategory <> 'A' AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind <> 'c'))
            OR EXISTS (SELECT FROM pg_operator WHERE oprnamespace = n.oid) OR EXISTS (SELECT FROM pg_collation WHERE collnamespace = n.oid)
            OR EXISTS (SELECT FROM pg_ts_config WHERE cfgnamespace = n.oid) OR EXISTS (SELECT FROM pg_ts_dict WHERE dictnamespace = n.oid)) ORDER BY nspname)
        FROM pg_namespace n WHERE nspname !~ '^pg_(toast|temp)') END AS schemas,
      CASE WHEN datname = current_database() THEN (SELECT json_agg(json_build_object(
          'name', quote_ident(n.nspname) || '.' || quote_ident(c.relname), 'kind', c.relkind, 'owner', pg_get_userbyid(c.relowner),
          'acl', coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))::text[],
          'columns', CASE WHEN c.relkind <> 'S' AND n.nspname NOT IN ('pg_catalog', 'information_schema') THEN
            (SELECT json_agg(quote_ident(attname) ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) END,
          'column_acl', (SELECT json_object_agg(quote_ident(attname), attacl::text[]) FROM pg_attribute WHERE attrelid = c.oid AND attacl IS NOT NULL AND NOT attisdropped),
          'security_invoker', coalesce((SELECT option_value::bool FROM pg_options_to_table(c.reloptions) WHERE option_name = 'security_invoker' AND c.relkind = 'v'), false),
          'policy_roles', CASE WHEN c.relrowsecurity THEN (SELECT json_agg(DISTINCT CASE WHEN r = 0 THEN '' ELSE pg_get_userbyid(r) END) FROM pg_policy, unnest(polroles) r WHERE polrelid = c.oid) END,
          'rules', c.relhasrules AND EXISTS (SELECT FROM pg_rewrite WHERE ev_class = c.oid AND rulename <> '_RETURN'),
          'defaults', (SELECT json_object_agg(quote_ident(a.attname), quote_ident(sn.nspname) || '.' || quote_ident(s.relname))
            FROM pg_attrdef f JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
              JOIN pg_depend p ON p.classid = 'pg_attrdef'::regclass AND p.objid = f.oid AND p.refclassid = 'pg_class'::regclass
              JOIN pg_class s ON s.oid = p.refobjid AND s.relkind = 'S' JOIN pg_namespace sn ON sn.oid = s.relnamespace WHERE f.adrelid = c.oid),
          'references', (SELECT json_agg(DISTINCT quote_ident(fn.nspname) || '.' || quote_ident(f.relname))
            FROM pg_constraint k JOIN pg_class f ON f.oid = k.confrelid JOIN pg_namespace fn ON fn.oid = f.relnamespace
            WHERE k.conrelid = c.oid AND k.contype = 'f'),
          'extension', EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')) ORDER BY n.nspname, c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname !~ '^pg_(toast|temp)') END AS relations,
      CASE WHEN datname = current_database() THEN (SELECT json_agg(json_build_object(
          'name', quote_ident(n.nspname) || '.' || quote_ident(p.proname), 'arguments', CASE p.prokind WHEN 'a' THEN -- REVOKE knows no ORDER BY
            (SELECT coalesce(string_agg(format_type(t, NULL), ', ' ORDER BY i), '') FROM unnest(p.proargtypes) WITH ORDINALITY u(t, i))
            ELSE pg_get_function_identity_arguments(p.oid) END, 'kind', p.prokind,
          'owner', pg_get_userbyid(p.proowner), 'acl', coalesce(p.proacl, acldefault('f', p.proowner))::text[], 'sql', l.lanname = 'sql', 'security_definer', p.prosecdef,
          'extension', EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')) ORDER BY n.nspname, p.proname)
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
        WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)') END AS functions,
      CASE WHEN datname = current_database() THEN (SELECT coalesce(json_agg(DISTINCT jsonb_build_object('role', r.rolname, 'on', a.privilege_type || ' on ' || u.object)), '[]') FROM (
          SELECT 'parameter ' || parname, paracl FROM pg_parameter_acl
          UNION ALL SELECT 'tablespace ' || quote_ident(spcname), coalesce(spcacl, acldefault('t', spcowner)) FROM pg_tablespace
          UNION ALL SELECT 'large object ' || oid, coalesce(lomacl, acldefault('L', lomowner)) FROM pg_largeobject_metadata
          UNION ALL SELECT 'language ' || quote_ident(lanname), lanacl FROM pg_language
          UNION ALL SELECT 'foreign-data wrapper ' || quote_ident(fdwname), coalesce(fdwacl, acldefault('F', fdwowner)) FROM pg_foreign_data_wrapper
          UNION ALL SELECT 'foreign server ' || quote_ident(srvname), coalesce(srvacl, acldefault('S', srvowner)) FROM pg_foreign_server
          UNION ALL SELECT 'type ' || quote_ident(n.nspname) || '.' || quote_ident(typname), typacl FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace
          UNION ALL SELECT 'function ' || quote_ident(n.nspname) || '.' || quote_ident(proname), proacl FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
            WHERE nspname IN ('pg_catalog', 'information_schema')) u (object, acl), aclexplode(u.acl) a JOIN pg_roles r ON r.oid = a.grantee
        WHERE NOT rolsuper AND rolname !~ '^pg_') END AS unreviewed
    FROM pg_database WHERE datallowconn) d));
COMMIT;
`

// ParseGrants reads the JSON of Grants.
func ParseGrants(text []byte) (*Grants, error) {
	g := &Grants{}
	if err := json.Unmarshal(text, g); err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	switch {
	case g.Format == "":
		return nil, errors.New(`it is not the output of "steno review grants"`)
	case g.Format != grantsFormat:
		return nil, fmt.Errorf("its format is %q: this program knows %q", g.Format, grantsFormat)
	case g.System == "":
		return nil, errors.New(`it does not say of which server the grants are (system_identifier): ` +
			`save them again with "steno review grants"`)
	}
	for _, d := range g.Databases {
		if err := d.checkNames(); err != nil {
			return nil, err
		}
		for _, list := range d.lists() {
			for _, text := range list {
				if _, err := parseACLItem(text); err != nil {
					return nil, err
				}
			}
		}
	}
	return g, nil
}

// lists are all ACLs of a database.
func (d *Database) lists() (all [][]string) {
	d.eachACL(func(_, _ string, acl *[]string) { all = append(all, *acl) })
	return all
}

// eachACL calls f for all objects of a database and for columns with a list of their own, with what it is and its
// owner.
func (d *Database) eachACL(f func(what, owner string, acl *[]string)) {
	f("database "+QuoteName(d.Name), d.Owner, &d.ACL)
	for i := range d.Schemas {
		f("schema "+d.Schemas[i].Name, d.Schemas[i].Owner, &d.Schemas[i].ACL)
	}
	for i := range d.Relations {
		r := &d.Relations[i]
		f("table "+r.Name, r.Owner, &r.ACL)
		for c, list := range r.ColumnACL {
			f("column "+r.Name+"."+c, r.Owner, &list)
			if len(list) > 0 {
				r.ColumnACL[c] = list
			} else {
				delete(r.ColumnACL, c)
			}
		}
	}
	for i := range d.Functions {
		f("function "+d.Functions[i].Name, d.Functions[i].Owner, &d.Functions[i].ACL)
	}
}

// ReadGrants reads a file of grants: JSON, or a dump, which is to be restored. name is what messages call it.
func ReadGrants(ctx context.Context, name string, file *os.File) (*Grants, *Dump, error) {
	const most = 1 << 30
	in := bufio.NewReader(file)
	begin, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case isArchive(begin):
		d, err := readArchive(ctx, name, in)
		return nil, d, err
	case bytes.HasPrefix(bytes.TrimSpace(begin), []byte("{")):
		text, err := io.ReadAll(io.LimitReader(in, most+1))
		if err == nil && len(text) > most {
			err = errors.New("it is larger than 1 GiB")
		}
		if err != nil {
			return nil, nil, err
		}
		g, err := ParseGrants(text)
		if err != nil {
			err = &DumpError{err.Error()}
		}
		return g, nil, err
	}
	d, err := ReadDump(name, in)
	return nil, d, err
}

// Join adds the grants of another database of the same server.
func (g *Grants) Join(other *Grants) error {
	if err := g.sameServer(other); err != nil {
		return err
	}
	g.System = cmp.Or(g.System, other.System)
	for _, r := range other.Roles {
		if !slices.ContainsFunc(g.Roles, func(o Role) bool { return o.Name == r.Name }) {
			g.Roles = append(g.Roles, r)
		}
	}
	for _, m := range other.Memberships {
		if !slices.ContainsFunc(g.Memberships, func(o Membership) bool {
			return o.Role == m.Role && o.Member == m.Member && o.Grantor == m.Grantor
		}) {
			g.Memberships = append(g.Memberships, m)
		}
	}
	for _, d := range other.Databases {
		if here := g.database(d.Name); here == nil {
			g.Databases = append(g.Databases, d)
		} else if d.Inside && !here.Inside {
			*here = d
		}
	}
	g.Version = max(g.Version, other.Version)
	return nil
}

// sameServer refuses grants of another server.
func (g *Grants) sameServer(other *Grants) error {
	if g.System != "" && other.System != "" && g.System != other.System {
		return fmt.Errorf("the grants are of different servers, with the system identifiers %s and %s", g.System,
			other.System)
	}
	return nil
}

// LimitToServer limits what is read to the server from which the grants are. Others are those that have written a part
// of the trails, too.
func LimitToServer(s *Source, g *Grants) (others []string, err error) {
	servers := s.Servers()
	var of []string
	for _, id := range servers {
		of = append(of, strconv.FormatUint(id, 10))
	}
	switch {
	case len(servers) == 0:
		return nil, nil
	case g.System == "":
		return nil, s.RequireOneServer("the grants do not say of which they are")
	}
	at := slices.Index(of, g.System)
	if at < 0 {
		return nil, fmt.Errorf("the grants are those of another server: its system identifier is %s, that of the "+
			"trail is %s", g.System, strings.Join(of, ", "))
	}
	s.System = servers[at]
	return slices.Delete(of, at, at+1), nil
}

func (g *Grants) database(name string) *Database {
	for i := range g.Databases {
		if g.Databases[i].Name == name {
			return &g.Databases[i]
		}
	}
	return nil
}

// KnownDatabases are the databases whose inside is known.
func (g *Grants) KnownDatabases() (names []string) {
	for i := range g.Databases {
		if g.Databases[i].Inside {
			names = append(names, g.Databases[i].Name)
		}
	}
	return names
}

// Reduced are the grants of a file: saved ones, or these with a script of GRANT and REVOKE applied. applied says what
// of the script was; it is nil if the file has saved grants.
func (g *Grants) Reduced(r io.Reader, database string) (reduced *Grants, applied *Applied, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, err
	}
	begin := strings.TrimSpace(string(text[:min(len(text), 64)]))
	if strings.HasPrefix(begin, "{") {
		if reduced, err = ParseGrants(text); err == nil {
			err = g.sameServer(reduced)
		}
		return reduced, nil, err
	}
	if words, _ := (&script{text: string(text)}).next(); len(words) == 0 {
		return nil, nil, errors.New("it has no statement")
	}
	if reduced, err = g.clone(); err != nil {
		return nil, nil, err
	}
	applied, err = reduced.applyScript(string(text), database)
	return reduced, applied, err
}

// clone is a copy that has nothing in common with the grants.
func (g *Grants) clone() (*Grants, error) {
	image, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	copied := &Grants{}
	return copied, json.Unmarshal(image, copied)
}

// checkNames refuses names that are not as SQL writes them: they become part of a script.
func (d *Database) checkNames() error {
	var wrong string
	check := func(s string, parts int) {
		words, _ := (&script{text: s}).next()
		r := &reading{words: words}
		name := QuoteName(r.takeName())
		for range parts - 1 {
			if !r.take(".") {
				wrong = s
			}
			name += "." + QuoteName(r.takeName())
		}
		// A keyword may be in quotes, or not.
		plain := func(s string) string { return strings.ReplaceAll(s, `"`, "") }
		if len(r.words) > 0 || plain(name) != plain(s) {
			wrong = s
		}
	}
	for i := range d.Schemas {
		check(d.Schemas[i].Name, 1)
	}
	for i := range d.Relations {
		rel := &d.Relations[i]
		check(rel.Name, 2)
		for c := range rel.ColumnACL {
			check(c, 1)
		}
	}
	for i := range d.Functions {
		f := &d.Functions[i]
		check(f.Name, 2)
		if !balanced(f.Arguments) {
			wrong = f.Arguments
		}
	}
	if wrong != "" {
		return fmt.Errorf("%q is not a name as SQL writes it", wrong)
	}
	return nil
}

// balanced reports whether the arguments of a function can neither end a statement nor a list.
func balanced(arguments string) bool {
	s := script{text: arguments}
	depth := 0
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == ' ':
			s.pos++
			continue
		case c == ';' || c == '\\' || c == '\n' || strings.HasPrefix(s.text[s.pos:], "--") ||
			strings.HasPrefix(s.text[s.pos:], "/*"):
			return false
		}
		w := s.word()
		if w.is("(") {
			depth++
		} else if w.is(")") {
			depth--
		}
		if w.isString || depth < 0 {
			return false
		}
	}
	return depth == 0
}

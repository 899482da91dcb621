// Restores dumps into a throw-away server of their version, whose grants are then read like those of any server.
//
// A dump is a program that the server executes as a superuser, and privileges may depend on each of its statements.
// So all must succeed, except those that harmless() knows to be without effect on privileges. If another one fails,
// nothing is proposed for its database; if it is about roles or databases, restoring fails.

package review

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/postgres"
	"github.com/pg-steno/pg_steno/internal/render"
)

// restoration is one restore of the dumps of a server.
type restoration struct {
	dumps          []*Dump
	database       string // of the dump that does not name its database
	major          int
	firstSuperuser string // the superuser with whom the cluster was made
	restorer       string // the role that restores: objects that it owns in the end have no owner in the dump

	installation *postgres.Installation
	server       *postgres.Server
	restricts    bool // psql has the command \restrict

	inside     []string             // databases whose contents were restored
	failed     map[string][]failure // by database
	extensions []string             // that could not be created
}

// Restore restores dumps of one server and returns its grants. database is for a dump that does not name its own.
func Restore(ctx context.Context, dumps []*Dump, database string) (*Grants, error) {
	r := &restoration{dumps: slices.Clone(dumps), database: database, failed: map[string][]failure{},
		restorer: "steno_restore_" + strings.ToLower(rand.Text())}
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := r.chooseInstallation(postgres.Installed()); err != nil {
		return nil, err
	}
	folder, err := r.installation.NewFolder()
	if err != nil {
		return nil, err
	}
	g, err := r.restore(ctx, folder)
	if r.server != nil {
		_ = r.server.Abandon() // the removal of its files checks that it is gone
	}
	if err := folder.Close(); err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("cannot remove the files of a temporary server: %w", err)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return g, err
}

// check checks what can be known before a server is started.
func (r *restoration) check() error {
	unnamed := ""
	for _, d := range r.dumps {
		if d.major != 0 && r.major != 0 && d.major != r.major {
			return badDump("%s is of PostgreSQL %d, another file of %d: they are not of one server", d.Name,
				d.major, r.major)
		}
		r.major = cmp.Or(r.major, d.major)
		r.firstSuperuser = cmp.Or(r.firstSuperuser, d.firstSuperuser)
		switch {
		case !d.parts[0].inside:
		case unnamed != "":
			return badDump("%s and %s do not say of which databases they are: make them with pg_dump --create",
				unnamed, d.Name)
		case r.database == "":
			return badDump("%s does not say of which database it is: make it with pg_dump --create, or name the "+
				"database", d.Name)
		default:
			unnamed = d.Name
		}
	}
	switch {
	case !slices.ContainsFunc(r.dumps, func(d *Dump) bool { return d.roles }):
		return badDump(`the roles and memberships of the server are missing: ` +
			`give the output of "pg_dumpall --globals-only", too, as another file of grants`)
	case !slices.ContainsFunc(r.dumps, func(d *Dump) bool {
		return slices.ContainsFunc(d.parts, func(p dumpPart) bool { return p.inside })
	}):
		return badDump("the grants say nothing of the inside of a database: give the output of pg_dump, too, as " +
			"another file of grants")
	case r.major == 0:
		return badDump("no dump says from which version of PostgreSQL it is")
	case r.firstSuperuser == "":
		return badDump("there is no superuser among the roles, so they are not all of a server")
	}
	// Roles come first, because the others need them.
	slices.SortStableFunc(r.dumps, func(a, b *Dump) int { return b.rank() - a.rank() })
	return nil
}

func (d *Dump) rank() int {
	if d.roles {
		return 1
	}
	return 0
}

// useSaved is the advice for machines on which dumps cannot be restored.
const useSaved = `. Or let somebody save the grants on the server, with "steno review grants", ` +
	`and review with that file, which needs no PostgreSQL here`

// chooseInstallation finds the programs of the dumps' version. Other versions have other default privileges, so that
// the restored grants could differ from those of the server.
func (r *restoration) chooseInstallation(installed []*postgres.Installation) error {
	var versions []string
	for _, i := range installed {
		if i.Major() == r.major {
			r.installation = i
			if err := i.ChooseAccount("nobody"); err != nil {
				return fmt.Errorf("%w. Run steno as another user: the dump's statements are executed with its "+
					"rights%s", err, useSaved)
			}
			return nil
		}
		versions = append(versions, i.Version)
	}
	found := "there is no PostgreSQL server"
	if len(versions) > 0 {
		found = "there is only " + strings.Join(versions, ", ")
	}
	return fmt.Errorf("the dump is of PostgreSQL %d, and is restored into a temporary server of that version, but %s "+
		"on this machine: install the package of the server (initdb, postgres, psql), or set PG_CONFIG to its "+
		"pg_config%s", r.major, found, useSaved)
}

// serverSettings make the throw-away server keep nothing, run nothing but the dump, and connect to no other server.
var serverSettings = []postgres.Setting{
	{Name: "fsync", Value: "off"}, {Name: "synchronous_commit", Value: "off"},
	{Name: "full_page_writes", Value: "off"}, {Name: "wal_level", Value: "minimal"},
	{Name: "max_wal_senders", Value: "0"}, {Name: "max_wal_size", Value: "64MB"},
	{Name: "shared_buffers", Value: "32MB"}, {Name: "max_connections", Value: "10"},
	{Name: "max_locks_per_transaction", Value: "256"}, {Name: "autovacuum", Value: "off"},
	{Name: "max_worker_processes", Value: "0"}, {Name: "max_logical_replication_workers", Value: "0"},
	{Name: "unix_socket_permissions", Value: "0700"}, {Name: "shared_preload_libraries", Value: ""},
	{Name: "log_statement", Value: "none"},
}

// connectionOptions override settings that a dump makes for databases and roles, which could make restoring the rest
// fail.
const connectionOptions = "-c session_preload_libraries= -c local_preload_libraries= -c " +
	"default_transaction_read_only=off -c " +
	"role=none -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c " +
	"default_transaction_isolation=read\\ committed"

// restore creates the server, restores the dumps, and reads the grants.
func (r *restoration) restore(ctx context.Context, folder *postgres.Folder) (*Grants, error) {
	data := filepath.Join(folder.Dir, "data")
	// Small segments: a temporary folder may be in memory.
	if err := r.installation.Initialize(ctx, data, r.firstSuperuser, "--wal-segsize", "1"); err != nil {
		return nil, r.explainFullDisk(err)
	}
	r.server = r.installation.NewServer(folder, "restore", data, 5432)
	err := r.server.Configure(serverSettings)
	if err == nil {
		err = r.server.Launch()
	}
	if err == nil {
		err = r.server.WaitReady(ctx)
	}
	if err == nil {
		err = r.prepare(ctx)
	}
	if err != nil {
		return nil, r.explainFullDisk(err)
	}
	for _, d := range r.dumps {
		for i := range d.parts {
			if err := r.runPart(ctx, d, &d.parts[i]); err != nil {
				return nil, r.explainFullDisk(err)
			}
		}
	}
	g, err := r.read(ctx)
	return g, r.explainFullDisk(err)
}

// explainFullDisk adds advice to an error about a full disk.
func (r *restoration) explainFullDisk(err error) error {
	if err != nil && strings.Contains(err.Error(), "No space left on device") {
		return fmt.Errorf("%w\nThe temporary server is in %s: set TMPDIR to a directory with more space", err,
			r.installation.TempDir())
	}
	return err
}

// psql prepares psql with the account of the server.
func (r *restoration) psql(ctx context.Context, user, database string, args ...string) *exec.Cmd {
	c := r.installation.Command(ctx, r.installation.Program("psql"),
		append(append([]string{"-XAtq"}, args...), "-f", "-", "-d", r.server.Conninfo(user, database))...)
	c.Env = append(c.Env, "PGOPTIONS="+connectionOptions, "PGAPPNAME=steno review")
	return c
}

// runScript executes a script whose statements must all succeed, and returns its output.
func (r *restoration) runScript(ctx context.Context, user, database, script string) (string, error) {
	c := r.psql(ctx, user, database, "-v", "ON_ERROR_STOP=1")
	c.Stdin = strings.NewReader(script)
	return postgres.Output(ctx, c, "psql on the temporary server")
}

// prepare creates the role that restores, and the database if the dump does not create it.
func (r *restoration) prepare(ctx context.Context) error {
	// Only newer minor versions have tablespaces in the data folder, and restrict psql.
	if _, err := r.runScript(ctx, r.firstSuperuser, "postgres", "CREATE ROLE "+QuoteName(r.restorer)+
		" SUPERUSER LOGIN;\n"); err != nil {
		return err
	}
	_, _ = r.runScript(ctx, r.firstSuperuser, "postgres", "ALTER ROLE "+QuoteName(r.restorer)+
		" SET allow_in_place_tablespaces = on;\n")
	_, err := r.runScript(ctx, r.firstSuperuser, "postgres", "\\restrict x\n\\unrestrict x\n")
	r.restricts = err == nil
	if !slices.ContainsFunc(r.dumps, func(d *Dump) bool {
		return d.parts[0].inside
	}) || r.database == "postgres" || r.database == "template1" {
		return nil
	}
	_, err = r.runScript(ctx, r.restorer, "postgres", "CREATE DATABASE "+QuoteName(r.database)+
		" TEMPLATE template0;\n")
	return err
}

// runPart executes a part of a dump in one connection.
func (r *restoration) runPart(ctx context.Context, d *Dump, p *dumpPart) error {
	database := p.database
	if database == "" {
		database = "postgres"
		if p.inside {
			database = r.database
		}
	}
	c := r.psql(ctx, r.restorer, database, "-b", "-v", "VERBOSITY=verbose", "-v", "SHOW_CONTEXT=never")
	begin := ""
	if r.restricts {
		begin = "\\restrict " + rand.Text() + "\n"
	}
	c.Stdin = io.MultiReader(strings.NewReader(begin), bytes.NewReader(p.text.Bytes()))
	var said bytes.Buffer
	c.Stderr = &said
	err := c.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failures, own := failuresOf(said.String())
	for _, f := range failures {
		if err := r.noteFailure(d, database, f); err != nil {
			return err
		}
	}
	switch {
	case own != "":
		return badDump("%s cannot be restored: psql: %s", d.Name, own)
	case err != nil && errors.As(err, new(*exec.ExitError)):
		return fmt.Errorf("%s cannot be restored into database %q: %s\n%s", d.Name, database,
			strings.TrimSpace(said.String()), r.server.LogTail(3))
	case err != nil:
		return err
	}
	if p.inside && database != "template1" && !slices.Contains(r.inside, database) {
		r.inside = append(r.inside, database)
	}
	return nil
}

// ---- failures ----

// failure is a statement that failed.
type failure struct{ sqlstate, message, statement string }

func (f failure) String() string {
	statement := strings.TrimSuffix(strings.Join(strings.Fields(f.statement), " "), ";")
	const most = 80
	if statement == "" { // the connection failed, or has ended
		return f.message
	}
	if len(statement) > most {
		statement = strings.ToValidUTF8(statement[:most], "") + " ..."
	}
	return statement + ": " + f.message
}

var (
	psqlError     = regexp.MustCompile(`^psql:<stdin>:\d+: (?:ERROR|FATAL|PANIC):  ([0-9A-Z]{5}): (.*)`)
	psqlStatement = regexp.MustCompile(`^psql:<stdin>:\d+: STATEMENT:  (.*)`)
	psqlOwnError  = regexp.MustCompile(`^psql:<stdin>:\d+: error: (.*)`)
)

// failuresOf returns the errors in psql's output with their statements, and psql's own error, if any.
func failuresOf(said string) (all []failure, own string) {
	inStatement := false
	for line := range strings.Lines(said) {
		line = strings.TrimSuffix(line, "\n")
		if m := psqlError.FindStringSubmatch(line); m != nil {
			all = append(all, failure{sqlstate: m[1], message: m[2]})
			inStatement = false
		} else if m := psqlStatement.FindStringSubmatch(line); m != nil && len(all) > 0 {
			all[len(all)-1].statement = m[1]
			inStatement = true
		} else if m := psqlOwnError.FindStringSubmatch(line); m != nil {
			own = cmp.Or(own, m[1])
		} else if strings.HasPrefix(line, "psql:<stdin>:") {
			inStatement = false
		} else if inStatement {
			all[len(all)-1].statement += "\n" + line
		}
	}
	return all, own
}

// Statements whose failure does not matter, because no reviewed privilege depends on them.
var (
	harmlessStatements = regexp.MustCompile(
		`^(?:SET |COMMENT ON |SECURITY LABEL |SELECT pg_catalog\.(?:set_config|setval|lo_\w+)\(` +
			`|CREATE (?:UNIQUE )?INDEX |ALTER INDEX |CREATE STATISTICS |ALTER STATISTICS ` +
			`|CREATE (?:PUBLICATION|SUBSCRIPTION) |ALTER (?:PUBLICATION|SUBSCRIPTION) ` +
			// Languages, servers and the like: objects that need them, such as functions, fail, too, and are noticed.
			`|(?:CREATE|CREATE OR REPLACE|ALTER) (?:TABLESPACE` +
			`|(?:TRUSTED )?(?:PROCEDURAL )?LANGUAGE|FOREIGN DATA WRAPPER|SERVER|USER MAPPING) ` +
			`|(?:GRANT|REVOKE) [A-Z, ]+ ON (?:TABLESPACE|PARAMETER|LANGUAGE` +
			`|FOREIGN DATA WRAPPER|FOREIGN SERVER|LARGE OBJECT|TYPE|DOMAIN) ` +
			`|ALTER (?:ROLE|DATABASE) (?:\w+|"(?:[^"]|"")+") (?:IN DATABASE (?:\w+|"(?:[^"]|"")+") )?(?:SET|RESET) )`)
	// Of --clean: the objects to drop do not exist.
	drops       = regexp.MustCompile(`^(?:DROP |ALTER .* DROP )`)
	undefined   = []string{"42P01", "42704", "42883", "3D000", "3F000", "42703"}
	ofSteno     = regexp.MustCompile(`^(?:GRANT|REVOKE) [^;]* ON (?:SCHEMA steno |[A-Z]+ steno\.)`)
	ofExtension = regexp.MustCompile(`^CREATE EXTENSION (?:IF NOT EXISTS )?(\w+|"(?:[^"]|"")+")`)
	ofServer    = regexp.MustCompile(
		`^(?:(?:CREATE|ALTER) (?:ROLE|USER|GROUP|DATABASE) |(?:GRANT|REVOKE) [A-Z, ]+ ON DATABASE )`)
	ofPrivilege = regexp.MustCompile(`^(?:GRANT|REVOKE) .* ON `)
)

// harmless reports whether a failure can be ignored.
func (r *restoration) harmless(f failure) bool {
	switch {
	case harmlessStatements.MatchString(f.statement):
		return true
	case drops.MatchString(f.statement) && slices.Contains(undefined, f.sqlstate):
		return true
	case f.sqlstate == "42710" || f.sqlstate == "2BP01": // this is the bootstrap superuser, which always exists
		return f.statement == "CREATE ROLE "+QuoteName(r.firstSuperuser)+";" || f.statement == "DROP ROLE "+
			QuoteName(r.firstSuperuser)+";" ||
			f.statement == "DROP ROLE IF EXISTS "+QuoteName(r.firstSuperuser)+";"
	case f.sqlstate == "42P06": // every new database has this schema
		return f.statement == "CREATE SCHEMA public;"
	// all of its schema is the extension's
	case slices.Contains(r.extensions, "pg_steno") && slices.Contains(undefined, f.sqlstate):
		return ofSteno.MatchString(f.statement)
	}
	return false
}

// noteFailure notes a failure. It returns an error if the statement is about roles, memberships or databases:
// anything could depend on them.
func (r *restoration) noteFailure(d *Dump, database string, f failure) error {
	// Insufficient resources, operator intervention and system errors are not the dump's fault.
	if strings.HasPrefix(f.sqlstate, "53") || strings.HasPrefix(f.sqlstate, "57") || f.sqlstate == "58030" {
		return fmt.Errorf("%s cannot be restored: %s", d.Name, f)
	}
	if r.harmless(f) {
		return nil
	}
	if m := ofExtension.FindStringSubmatch(f.statement); m != nil {
		r.extensions = append(r.extensions, unquoteName(m[1]))
		return nil
	}
	noRole := f.sqlstate == "42704" && strings.HasPrefix(f.message, `role "`)
	isGrant := strings.HasPrefix(f.statement, "GRANT ") || strings.HasPrefix(f.statement, "REVOKE ")
	switch {
	case noRole && !d.roles:
		return badDump(`%s: a role is missing: give the output of `+
			`"pg_dumpall --globals-only" of the same server and time, as another file of grants: %s`, d.Name, f)
	case noRole, ofServer.MatchString(f.statement), isGrant && !ofPrivilege.MatchString(f.statement):
		return badDump("the roles, memberships or databases of %s cannot be restored: %s%s", d.Name, f, useSaved)
	}
	r.failed[database] = append(r.failed[database], f)
	return nil
}

// ---- the restored grants ----

// read reads the grants of the databases that were restored.
func (r *restoration) read(ctx context.Context) (all *Grants, err error) {
	for _, database := range r.inside {
		text, err := r.runScript(ctx, r.restorer, database, GrantsQuery)
		if err != nil {
			return nil, err
		}
		g, err := ParseGrants([]byte(text))
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = g
		} else if err := all.Join(g); err != nil {
			return nil, err
		}
	}
	if all == nil {
		return nil, badDump("no database could be restored")
	}
	const firstOfUsers = 16384 // lower OIDs are those of initdb
	text, err := r.runScript(ctx, r.restorer, "postgres",
		fmt.Sprintf("SELECT json_agg(datname) FROM pg_database WHERE "+
			"oid >= %d AND datdba <> %s::regrole;\n",
			firstOfUsers, "'"+r.restorer+"'"))
	if err != nil {
		return nil, err
	}
	var made []string
	if err := json.Unmarshal([]byte(cmp.Or(strings.TrimSpace(text), "[]")), &made); err != nil {
		return nil, err
	}
	return all, r.adjust(all, made)
}

// adjust turns the grants of the throw-away server into those of the dump. made are the databases that the dump
// created.
func (r *restoration) adjust(g *Grants, made []string) error {
	g.System, g.Taken = "", ""
	g.Restored = &Restored{Server: r.installation.Version, Extensions: r.extensions}
	for _, d := range r.dumps {
		g.Restored.Dumps = append(g.Restored.Dumps, d.Name)
	}
	g.Roles = slices.DeleteFunc(g.Roles, func(o Role) bool { return o.Name == r.restorer })
	g.Databases = slices.DeleteFunc(g.Databases, func(d Database) bool { return !d.Inside })
	for i := range g.Databases {
		d := &g.Databases[i]
		d.Unreviewed = nil // without rows, large objects were not restored
		d.OwnUnknown = !slices.Contains(made, d.Name)
		for _, f := range r.failed[d.Name] {
			d.Incomplete = append(d.Incomplete, f.String())
		}
		if name := d.unowned(r.restorer); name != "" && len(d.Incomplete) == 0 {
			return badDump("the dump of database %q does not say who owns %s: make it without --no-owner",
				d.Name, name)
		}
		d.replaceRole(r.restorer, r.firstSuperuser)
	}
	return nil
}

// unowned names an object other than the database that belongs to a role; empty if there is none. Objects of
// extensions do not count: dumps do not have their owners.
func (d *Database) unowned(role string) string {
	for _, o := range d.Schemas {
		if o.Owner == role && !o.Extension {
			return "schema " + o.Name
		}
	}
	for _, o := range d.Relations {
		if o.Owner == role && !o.Extension {
			return o.Name
		}
	}
	for _, o := range d.Functions {
		if o.Owner == role && !o.Extension {
			return o.Name
		}
	}
	return ""
}

// replaceRole replaces a role as owner, grantor and grantee by another one.
func (d *Database) replaceRole(role, by string) {
	replace := func(name *string) {
		if *name == role {
			*name = by
		}
	}
	d.eachACL(func(_, _ string, acl *[]string) {
		for i, text := range *acl {
			if a, err := parseACLItem(text); err == nil && (a.grantee == role || a.grantor == role) {
				replace(&a.grantee)
				replace(&a.grantor)
				(*acl)[i] = a.String()
			}
		}
	})
	replace(&d.Owner)
	for i := range d.Schemas {
		replace(&d.Schemas[i].Owner)
	}
	for i := range d.Relations {
		replace(&d.Relations[i].Owner)
	}
	for i := range d.Functions {
		replace(&d.Functions[i].Owner)
	}
}

// restoreLimits returns the limits of an answer whose grants are those of dumps.
func (g *Grants) restoreLimits() (all []string) {
	if g.Restored == nil {
		return nil
	}
	all = append(all, fmt.Sprintf("The grants are those of dumps, as of when these were made, which were restored "+
		"into %s: %s",
		g.Restored.Server, strings.Join(g.Restored.Dumps, ", ")))
	if missing := slices.Compact(slices.Sorted(slices.Values(g.Restored.Extensions))); len(missing) > 0 {
		all = append(all, "Extensions that this machine does not have were not restored: "+strings.Join(missing, ", "))
	}
	const named = 5
	for _, d := range g.Databases {
		if n := len(d.Incomplete); n > 0 {
			all = append(all, fmt.Sprintf("Of the dump of database %s, %s could not be restored here, so nothing of "+
				"it is proposed: %s",
				QuoteName(d.Name), render.Plural(n, "statement"), strings.Join(d.Incomplete[:min(n, named)], "; ")))
		}
		if d.OwnUnknown {
			all = append(all, "The dump of database "+QuoteName(d.Name)+" does not say who owns it, and who has "+
				"privileges on it, so those are not reviewed: pg_dump --create does.")
		}
	}
	return all
}

// ---- archives ----

// isArchive reports whether a file is a dump in pg_dump's custom or tar format.
func isArchive(begin []byte) bool {
	return bytes.HasPrefix(begin, []byte("PGDMP")) || bytes.HasPrefix(begin, []byte("toc.dat\x00"))
}

// readArchive converts an archive to text with pg_restore, and reads that.
func readArchive(ctx context.Context, name string, file io.Reader) (*Dump, error) {
	installed := postgres.Installed()
	at := slices.IndexFunc(installed, func(i *postgres.Installation) bool { return i.Missing("pg_restore") == "" })
	if at < 0 {
		return nil, errors.New("it is an archive of pg_dump, of which pg_restore makes text, and there is no " +
			"PostgreSQL with it on this machine: install one, or set PG_CONFIG to its pg_config" + useSaved)
	}
	i := installed[at]
	if err := i.ChooseAccount("nobody"); err != nil {
		return nil, err
	}
	c := i.Command(ctx, i.Program("pg_restore"), "--schema-only", "--create", "--file", "-")
	c.Stdin = file
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, err
	}
	d, problem := ReadDump(name, out)
	_, _ = io.Copy(io.Discard, out)
	err = c.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, badDump("%s of %s: %s", "pg_restore", i.Version, strings.TrimSpace(said.String()))
	}
	return d, problem
}

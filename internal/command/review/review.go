// Package review is "steno review": its flags, its help, the files that it reads and writes, and
// what becomes its exit code.
package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/review"
)

// NewCmdReview returns the command with its subcommands.
func NewCmdReview(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "review",
		Short: "Review access: unused privileges, what somebody did, a value, a change",
		Long: `Answer questions that only a complete record can: which privileges were granted
and never used (access), what somebody did (person), which statements have a
value (subject), and who changed a row (change). Each line of an answer names its
records, or the "steno cat" command that shows them, and each answer says what
the trail cannot know.

The exit code is 1 if the trail is damaged, and 3 if a part of it could not be
read: the answer comes, and says what is missing.`,
	}
	cmd.AddCommand(newAccess(f), newGrants(f), newPerson(f), newSubject(f), newChange(f))
	return cmdutil.Group(cmd)
}

// common are the options that all reviews have.
type common struct {
	io     *iostreams.IOStreams
	trails []string
	format string
	flags.Period
	query.KeyOptions

	warner cmdutil.Warner
}

func (o *common) add(cmd *cobra.Command) {
	f := cmd.Flags()
	o.Period.Add(cmd)
	f.StringVarP(&o.format, "format", "o", "text", "output `format`: text, json or markdown")
	_ = cmd.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(review.Formats, cobra.ShellCompDirectiveNoFileComp))
	flags.AddKeys(cmd, &o.KeyOptions)
}

// open opens the trails. Their problems are written to standard error. done must be called at the end.
func (o *common) open() (s review.Source, done func(), err error) {
	if !slices.Contains(review.Formats, o.format) {
		return s, nil, exit.Usagef("invalid format %q: use text, json or markdown", o.format)
	}
	within, err := o.Range(time.Now(), time.UTC)
	if err != nil {
		return s, nil, err
	}
	t, err := o.OpenEncrypted(o.trails)
	if err != nil {
		return s, nil, err
	}
	bar := progress.New(o.io, t.Size())
	o.warner = cmdutil.Warner{IO: o.io, Before: bar.Clear}
	named := o.trails
	if len(named) == 0 {
		if dir, err := query.DefaultTrail(); err == nil {
			named = []string{dir}
		}
	}
	cat := flags.Cat{Keys: o.KeyOptions, Trails: named}
	s = review.Source{Index: t.Index(), Trails: named, Since: within.Since, Until: within.Until, Command: cat.Line,
		Progress: bar.Add, Warn: o.warner.Warn}
	return s, bar.Done, nil
}

// otherServers is the error for trails that are not of the server that is asked about: the command named the wrong
// ones, unless it named one only, whose contents are then what is wrong.
func (o *common) otherServers(err error) error {
	if err != nil && len(o.trails) > 1 {
		return exit.Usagef("%w", err)
	}
	return err
}

// write writes answers, and returns the error that decides the exit code.
func (o *common) write(all ...*review.Document) error {
	return o.warner.Result(review.Documents(all).Write(o.io.Out, o.format))
}

// ---- access ----

type accessOptions struct {
	common
	dsns, grants []string
	psql         string
	database     string
	roles        []string
	newSince     string
	script       string
	dryRun       string
}

func newAccess(f *cmdutil.Factory) *cobra.Command {
	o := &accessOptions{common: common{io: f.IO}}
	cmd := &cobra.Command{
		Use:   "access {--dsn DSN | --grants FILE} [TRAIL]...",
		Short: "Compare the privileges that were granted with those that were used",
		Long: `Compare the privileges of a server's roles with what the recorded statements
needed, by PostgreSQL's rules: what was granted and never used, by role, table,
column and privilege; members that never used a group's rights; dormant roles;
new and unusual access; what was refused.

The grants are read from a server by its own psql (--dsn), or from a file that
"steno review grants" has saved (--grants). --script writes statements of REVOKE
for what was not used. Nothing is ever changed by this program.

--grants also takes dumps, with the roles: the output of pg_dumpall, or that of
pg_dump with that of "pg_dumpall --globals-only". They are restored into a
temporary server that this program starts, with the installed programs of the
dump's version of PostgreSQL, and removes. A dump is a program: the server
executes its statements with the rights of whoever runs steno, or of "nobody" if
that is root.

--dry-run tries the recorded statements with other grants: saved ones, or a
script of GRANT and REVOKE that is applied to the present ones, such as that of
--script. The answer lists the statements that would have been refused.`,
		Example: `  steno review access --dsn 'service=audit dbname=shop' --since '90 days ago'
  steno review access --grants shop.json --script revoke.sql /srv/trail
  steno review access --grants roles.sql --grants shop.dump /srv/trail
  steno review access --grants shop.json --dry-run revoke.sql --format json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.trails = args
			if err := cmdutil.RefuseEmpty(cmd, "since", "until", "dsn", "grants", "role", "script", "dry-run",
				"new-since", "database", "psql"); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.add(cmd)
	fs := cmd.Flags()
	fs.StringArrayVar(&o.dsns, "dsn", nil, "read the grants from this server, a `connection string` for psql "+
		"without a password; repeatable for databases of one server")
	fs.StringArrayVar(&o.grants, "grants", nil, "read the grants from this `file`: JSON of \"steno review grants\", "+
		"or a dump of pg_dump or pg_dumpall; repeatable")
	fs.StringVar(&o.psql, "psql", "psql", "the `program` psql")
	fs.StringVarP(&o.database, "database", "d", "", "the `database` of a dump that was made without --create")
	flags.AddNames(fs, &o.roles, "role", "", "only these `roles`; PUBLIC for what everybody has")
	fs.StringVar(&o.newSince, "new-since", "", "access is new if it began after this `time` (default: the last "+
		"tenth of the period)")
	fs.StringVar(&o.script, "script", "", "write statements of REVOKE to this `file`, readable by its owner only")
	fs.StringVar(&o.dryRun, "dry-run", "", "try the recorded statements with the grants in this `file`, or with "+
		"this script applied")
	return cmdutil.ReadsOnly(cmd)
}

func (o *accessOptions) run(ctx context.Context) error {
	if len(o.dsns)+len(o.grants) == 0 {
		return exit.Usagef("give --dsn or --grants: the grants to compare with")
	}
	if err := checkOutput("--script", o.script); err != nil {
		return err
	}
	newSince := int64(format.MinTime)
	if o.newSince != "" {
		var err error
		if newSince, err = query.ParseWhen(o.newSince, time.Now()); err != nil {
			return cmdutil.FlagError("new-since", err)
		}
	}
	grants, err := o.read(ctx)
	if err != nil {
		return err
	}
	if len(grants.KnownDatabases()) == 0 {
		return exit.Usagef("the grants say nothing of the inside of a database")
	}
	var reduced *review.Grants
	var applied *review.Applied
	if o.dryRun != "" {
		if reduced, applied, err = o.reduced(grants); err != nil {
			return err
		}
	}
	source, done, err := o.open()
	if err != nil {
		return err
	}
	apart, err := review.LimitToServer(&source, grants)
	if err != nil {
		return o.otherServers(err)
	}
	answer, err := review.ReviewAccess(ctx, review.AccessOptions{Source: source, Grants: grants, Roles: o.roles,
		NewSince: newSince, Reduced: reduced, Applied: applied, OtherServers: apart})
	done()
	if err != nil {
		return err
	}
	if o.script != "" {
		if err := writeFile(o.script, answer.WriteScript); err != nil {
			return o.warner.Result(err)
		}
	}
	return o.write(answer.Document)
}

// read reads all grants.
func (o *accessOptions) read(ctx context.Context) (all *review.Grants, err error) {
	join := func(g *review.Grants) error {
		if all == nil {
			all = g
			return nil
		}
		return all.Join(g)
	}
	for _, dsn := range o.dsns {
		text, err := askServer(ctx, o.psql, dsn, o.io.ErrOut)
		if err != nil {
			return nil, err
		}
		g, err := review.ParseGrants(text)
		if err != nil {
			return nil, fmt.Errorf("what psql printed: %w", err)
		}
		if err := join(g); err != nil {
			return nil, exit.Usagef("%w", err)
		}
	}
	var dumps []*review.Dump
	for _, path := range o.grants {
		g, dump, err := readFile(ctx, path)
		if err != nil {
			return nil, err
		}
		if dump != nil {
			dumps = append(dumps, dump)
		} else if err := join(g); err != nil {
			return nil, exit.Usagef("%s: %w", path, err)
		}
	}
	switch {
	case len(dumps) == 0:
		return all, nil
	case all != nil:
		return nil, exit.Usagef("dumps do not say of which server they are: give either dumps, or grants of a server")
	}
	all, err = review.Restore(ctx, dumps, o.database)
	if bad := (*review.DumpError)(nil); errors.As(err, &bad) {
		return nil, exit.Usagef("%w", err)
	}
	return all, err
}

// readFile reads grants, or a dump to restore.
func readFile(ctx context.Context, path string) (*review.Grants, *review.Dump, error) {
	f, err := openInput(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, nil, exit.Usagef("%s: it is a directory: of a dump in that form, pg_restore --create "+
			"--schema-only --file makes text", path)
	}
	g, dump, err := review.ReadGrants(ctx, path, f)
	if bad := (*review.DumpError)(nil); errors.As(err, &bad) {
		return nil, nil, exit.Usagef("%s: %w", path, err)
	}
	if err != nil && ctx.Err() == nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, dump, err
}

// reduced returns the grants of --dry-run: saved ones, or the present ones with a script applied.
func (o *accessOptions) reduced(grants *review.Grants) (*review.Grants, *review.Applied, error) {
	f, err := openInput(o.dryRun)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	database := o.database
	if in := grants.KnownDatabases(); database == "" && len(in) > 0 {
		database = in[0]
	}
	g, applied, err := grants.Reduced(f, database)
	if err != nil {
		return nil, nil, exit.Usagef("%s: %w", o.dryRun, err)
	}
	return g, applied, nil
}

// ---- grants ----

func newGrants(f *cmdutil.Factory) *cobra.Command {
	var dsn, psql string
	cmd := &cobra.Command{
		Use:   "grants --dsn DSN",
		Short: "Print the grants of a server, for --grants of \"steno review access\"",
		Long: `Print the roles of a server, its databases, and the privileges inside the
database of the connection, as JSON, for --grants of "steno review access". The
server is asked by its own psql, with one query in a transaction that only reads.
The password comes from where psql takes it: a password file, or a service.`,
		Example: `  steno review grants --dsn 'service=audit dbname=shop' >shop.json`,
		Args:    cmdutil.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dsn == "" {
				return exit.Usagef("--dsn is required")
			}
			text, err := askServer(cmd.Context(), psql, dsn, f.IO.ErrOut)
			if err != nil {
				return err
			}
			if _, err := review.ParseGrants(text); err != nil {
				return fmt.Errorf("what psql printed: %w", err)
			}
			_, err = f.IO.Out.Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&dsn, "dsn", "",
		"the server and database, a `connection string` for psql without a password")
	cmd.Flags().StringVar(&psql, "psql", "psql", "the `program` psql")
	return cmdutil.ReadsOnly(cmd)
}

// hasPassword finds passwords in connection strings of both forms.
var hasPassword = regexp.MustCompile(`(?i)(^|[\s?&])(ssl)?password\s*=|^postgres(ql)?://[^/@?]*:[^/@?]*@`)

// askServer reads the grants with psql. The connection string is an argument of psql, which all users of the machine
// can see, so it must not contain a password.
func askServer(ctx context.Context, psql, dsn string, errOut io.Writer) ([]byte, error) {
	if hasPassword.MatchString(dsn) {
		return nil, exit.Usagef("--dsn has a password, which other users of the machine could see: put it into a " +
			"password file (PGPASSFILE) or a service (PGSERVICEFILE)")
	}
	c := exec.CommandContext(ctx, psql, "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", "-")
	c.Stdin = strings.NewReader(review.GrantsQuery)
	c.Env = append(os.Environ(), "PGAPPNAME=steno review")
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	err := c.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, exit.Usagef("cannot find the program %q: name it with --psql, or save the grants where it is",
			psql)
	}
	if err != nil {
		return nil, fmt.Errorf("psql could not read the grants: %s", render.Safe(strings.TrimSpace(said.String())))
	}
	return out.Bytes(), nil
}

// ---- files ----

// openInput opens a file that must exist.
func openInput(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &exit.UsageError{Err: query.OpenError(err)}
	}
	if err != nil {
		return nil, query.OpenError(err)
	}
	return f, nil
}

// checkOutput refuses to replace anything but a regular file.
func checkOutput(flag, path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return exit.Usagef("%s %s: not a regular file", flag, path)
	}
	return nil
}

// writeFile writes a file of mode 0600, which gets its name when it is complete.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return query.OpenError(err)
	}
	defer os.Remove(f.Name()) // has no effect if the file was renamed
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return query.OpenError(err)
	}
	return os.Rename(f.Name(), path)
}

// The command query: SQL from its arguments, a file, or a shell.

package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/sql"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options are the options of query.
type Options struct {
	IO   *iostreams.IOStreams
	Args []string
	query.KeyOptions
	flags.Period
	File        string
	Format      string
	Output      string
	Expanded    string
	NoHeader    bool
	CSVSafe     bool
	MemoryLimit string
	TempDir     string
	TimeZone    string
	AllowFiles  bool
	Explain     bool
	NoPager     bool
	Now         time.Time
}

var formats = append(sql.Formats[:len(sql.Formats):len(sql.Formats)], "parquet")

// expandedValues are those of --expanded, and of the shell's \x.
var expandedValues = []string{"on", "off", "auto"}

// NewCmdQuery returns the command. Tests give a run function of their own.
func NewCmdQuery(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "query [SQL] [TRAIL|SEGMENT|[NAME=]FILE.parquet]...",
		Short: "Ask a trail in SQL",
		Long: `Answer questions about a trail in SQL, in DuckDB's dialect, which is close to
PostgreSQL's. The table trail has a row for each record; relations and columns
have one for each relation and column that a statement uses; docs/query.md lists
the other tables and views. There is no order without ORDER BY.

The first argument is SQL unless it is the path of an existing file or directory.
Further arguments are trails, as for "steno cat", and Parquet files, which are
tables: FILE, or NAME if it is given. Without SQL, a shell reads it from the
terminal, or it is read from standard input.

Only what is named on the command line is read, and nothing is written except
--out, unless --allow-files allows it. If the trail is damaged, the answer is
made of the rest, a warning names the damage, and the exit code is 1.

On a terminal, rows that are wider than it are shown with a line for each value.`,
		Example: `  steno query "SELECT class, count(*) FROM trail GROUP BY 1 ORDER BY 2 DESC"
  steno query "SELECT DISTINCT \"user\", address FROM columns
    WHERE relation = 'hr.staff' AND column_name IN ('salary', '*')" --since 30d
  steno query --format csv "FROM failed_logins ORDER BY time" > failed.csv
  steno query --format parquet --out day.parquet "FROM trail" --since yesterday
  steno query --explain "FROM trail WHERE \"user\" = 'alice' ORDER BY time"
  steno query --file report.sql /var/lib/postgresql/15/main/pg_steno \
    people.parquet
  steno query "SELECT count(*) FROM old" \
    old=november/day=2026-11-01/trail.parquet`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Args, opts.Now = args, time.Now()
			if err := cmdutil.RefuseEmpty(cmd, "since", "until", "file", "out", "memory-limit", "temp-dir",
				"time-zone"); err != nil {
				return err
			}
			if !slices.Contains(formats, opts.Format) {
				last := len(formats) - 1
				return exit.Usagef("invalid format %q: use %s or %s", opts.Format, strings.Join(formats[:last], ", "),
					formats[last])
			}
			if opts.Format == "parquet" && opts.Output == "" {
				return exit.Usagef("--format parquet requires --out")
			}
			if !slices.Contains(expandedValues, opts.Expanded) {
				return exit.Usagef("invalid value %q for --expanded: use on, off or auto", opts.Expanded)
			}
			if opts.Expanded == "on" && opts.Format != "table" {
				return exit.Usagef("--expanded is for --format table")
			}
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return queryRun(cmd.Context(), opts)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&opts.File, "file", "f", "", "read SQL from this `file`; - is standard input")
	fl.StringVarP(&opts.Format, "format", "o", "table", "output `format`: "+strings.Join(formats, ", "))
	fl.StringVarP(&opts.Expanded, "expanded", "x", "auto", "in a table, a line for each value: on, off, or auto, if "+
		"rows are wider than the terminal")
	fl.Lookup("expanded").NoOptDefVal = "on"
	fl.StringVar(&opts.Output, "out", "", "write to this `file`, which appears when it is complete")
	opts.Period.Add(cmd)
	fl.StringVar(&opts.TimeZone, "time-zone", "UTC", "show times in this `zone`, such as Europe/Berlin, and "+
		"interpret them in SQL")
	fl.StringVar(&opts.MemoryLimit, "memory-limit", "900MiB", "most `memory` that DuckDB may use: 512MiB, 4GiB")
	fl.StringVar(&opts.TempDir, "temp-dir", "", "existing `directory` for what does not fit into memory; by "+
		"default, such statements fail")
	fl.BoolVar(&opts.NoHeader, "no-header", false, "omit the line of column names in csv")
	fl.BoolVar(&opts.CSVSafe, "csv-safe", true, "put an apostrophe before csv values that a spreadsheet would "+
		"interpret as formulas")
	fl.BoolVar(&opts.AllowFiles, "allow-files", false, "let SQL read and write any file")
	fl.BoolVar(&opts.Explain, "explain", false, "show on standard error which blocks were read and skipped")
	fl.BoolVar(&opts.NoPager, "no-pager", false, "on a terminal, do not run $PAGER (less)")
	flags.AddKeys(cmd, &opts.KeyOptions)
	_ = cmd.RegisterFlagCompletionFunc("expanded",
		cobra.FixedCompletions(expandedValues, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return cmdutil.ReadsOnly(cmd)
}

// inputs are the arguments of the command by kind.
type inputs struct {
	sql      string
	hasSQL   bool
	trails   []string
	parquets []sql.File
}

var fileName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// parquet parses an argument that names a Parquet file: FILE.parquet or NAME=FILE.parquet.
func parquet(arg string) (sql.File, bool) {
	if !strings.EqualFold(filepath.Ext(arg), ".parquet") {
		return sql.File{}, false
	}
	if prefix := fileName.FindString(arg); prefix != "" && !exists(arg) {
		return sql.File{Name: strings.TrimSuffix(prefix, "="), Path: strings.TrimPrefix(arg, prefix)}, true
	}
	return sql.NewFile(arg), true
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (o *Options) inputs() (in inputs, err error) {
	args := o.Args
	if o.File == "" && len(args) > 0 {
		if f, ok := parquet(args[0]); !exists(args[0]) && (!ok || !exists(f.Path)) {
			in.sql, in.hasSQL, args = args[0], true, args[1:]
			if !strings.ContainsAny(in.sql, " \t\n;()") {
				return in, exit.Usagef("%q is neither SQL nor an existing file", render.Safe(in.sql))
			}
		}
	}
	for _, a := range args {
		if f, ok := parquet(a); ok {
			in.parquets = append(in.parquets, f)
		} else {
			in.trails = append(in.trails, a)
		}
	}
	for _, p := range in.parquets {
		if _, err := os.Stat(p.Path); err != nil {
			return in, &exit.UsageError{Err: query.OpenError(err)}
		}
	}
	var b []byte
	switch {
	case in.hasSQL:
		return in, nil
	case o.File == "" && o.IO.IsInteractive():
		return in, nil
	case o.File != "" && o.File != "-":
		if b, err = os.ReadFile(o.File); err != nil {
			return in, query.OpenError(err)
		}
	default:
		if b, err = io.ReadAll(o.IO.In); err != nil {
			return in, err
		}
	}
	in.sql, in.hasSQL = string(b), true
	return in, nil
}

func queryRun(ctx context.Context, o *Options) error {
	in, err := o.inputs()
	if err != nil {
		return err
	}
	session, err := o.open(&in)
	if err != nil {
		return err
	}
	defer session.close()
	if !in.hasSQL {
		err = session.interactive(ctx)
	} else if err = session.run(ctx, in.sql); err == nil && o.Explain {
		session.explain()
	}
	return session.warner.Result(err)
}

// session is an open database, and the warnings about its trail.
type session struct {
	o       *Options
	db      *sql.DB
	warner  cmdutil.Warner
	partial string // the output as long as it is not complete
}

func (o *Options) open(in *inputs) (*session, error) {
	s := &session{o: o, warner: cmdutil.Warner{IO: o.IO}}
	options := sql.Options{
		Files: in.parquets, AllowFiles: o.AllowFiles, MemoryLimit: o.MemoryLimit, TempDirectory: o.TempDir,
		Warn: s.warner.Warn,
		Index: func() (*trail.Index, error) {
			if len(in.trails) == 0 && len(in.parquets) > 0 {
				if query.EnvironmentTrail() == "" {
					return &trail.Index{}, nil // the tables of trails are empty
				}
			}
			t, err := o.OpenEncrypted(in.trails)
			if err != nil {
				return nil, err
			}
			return t.Index(), nil
		},
	}
	within, err := o.Range(o.Now, time.UTC)
	if err != nil {
		return nil, err
	}
	options.Since, options.Until = within.Since, within.Until
	if options.Location, err = time.LoadLocation(o.TimeZone); err != nil || o.TimeZone == "Local" {
		return nil, exit.Usagef("--time-zone: unknown time zone %q", o.TimeZone)
	}
	if o.Output != "" {
		if info, err := os.Stat(o.Output); err == nil && !info.Mode().IsRegular() {
			return nil, exit.Usagef("--out: %s is not a regular file", o.Output)
		}
		file, err := os.CreateTemp(filepath.Dir(o.Output), filepath.Base(o.Output)+".*.partial")
		if err != nil {
			return nil, query.OpenError(err)
		}
		file.Close()
		s.partial = file.Name()
		if o.Format == "parquet" {
			options.Writable = s.partial
		}
	}
	if s.db, err = sql.Open(options); err != nil {
		s.close()
		return nil, usage(err)
	}
	return s, nil
}

// close ends the session, and removes an output that is not complete.
func (s *session) close() {
	if s.db != nil {
		s.db.Close()
	}
	if s.partial != "" {
		os.Remove(s.partial)
	}
}

// run executes statements and writes their results.
func (s *session) run(ctx context.Context, statements string) error {
	o := s.o
	out := o.IO.Out
	if o.Format == "parquet" {
		if err := s.db.Export(ctx, statements); err != nil {
			return usage(err)
		}
		return s.complete()
	}
	if o.Output != "" {
		file, err := os.OpenFile(s.partial, os.O_WRONLY, 0)
		if err != nil {
			return query.OpenError(err)
		}
		defer file.Close()
		out = file
	}
	output := sql.Output{Format: o.Format, CSVUnsafe: !o.CSVSafe, NoHeader: o.NoHeader, Expanded: o.Expanded}
	if o.IO.IsTerminal() && o.Output == "" {
		output.MaxWidth, output.Width = 200, o.IO.Width()
		if !o.NoPager {
			p := &pager{io: o.IO}
			defer p.close()
			out = p
		}
	}
	err := s.db.Run(ctx, statements, func(r *sql.Result) error { return output.Write(out, r) })
	if err != nil || o.Output == "" {
		return usage(err)
	}
	return s.complete()
}

// pager starts the pager when there is something to show: until then, an interrupt ends the statement.
type pager struct {
	io   *iostreams.IOStreams
	wait func()
}

func (p *pager) Write(b []byte) (int, error) {
	if p.wait == nil {
		if os.Getenv("LESS") == "" {
			os.Setenv("LESS", "FRSX") // lines of a table are not wrapped
		}
		p.wait = p.io.StartPager()
	}
	return p.io.Out.Write(b)
}

func (p *pager) close() {
	if p.wait != nil {
		p.wait()
	}
}

// complete gives the output its name.
func (s *session) complete() error {
	file, err := os.OpenFile(s.partial, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(file.Sync(), file.Close())
	}
	if err == nil {
		err = os.Rename(s.partial, s.o.Output)
	}
	if err == nil {
		s.partial = ""
	}
	return err
}

// usage makes DuckDB's refusal of a statement a usage error.
func usage(err error) error {
	var refused *sql.Error
	if errors.As(err, &refused) && strings.HasPrefix(refused.Message, "Out of Memory Error") {
		return errors.New("out of memory: use a greater --memory-limit, or --temp-dir")
	}
	if errors.Is(err, sql.ErrNeedsFiles) {
		return exit.Usagef("%s: --allow-files allows that", refused.Message)
	}
	if errors.As(err, &refused) && strings.HasPrefix(refused.Message, "IO Error") { // such as a full disk
		return errors.New(safeLines(refused.Message))
	}
	if errors.As(err, &refused) {
		return &exit.UsageError{Err: errors.New(safeLines(refused.Message))}
	}
	return err
}

// safeLines escapes control characters in text of several lines.
func safeLines(s string) string {
	all := strings.Split(s, "\n")
	for i := range all {
		all[i] = render.Safe(all[i])
	}
	return strings.Join(all, "\n")
}

// explain reports what the last statement read.
func (s *session) explain() {
	for _, u := range s.db.TableScans() {
		fmt.Fprintf(s.o.IO.ErrOut, "steno: %s: %d blocks read (%d bytes), %d skipped by their times, %d by indexes; "+
			"%d records decoded",
			u.Table, u.Read, u.Bytes, u.Outside, u.Skipped, u.Records)
		if u.Conditions != "" {
			fmt.Fprintf(s.o.IO.ErrOut, "; conditions %s", render.Safe(u.Conditions))
		}
		fmt.Fprintln(s.o.IO.ErrOut)
	}
}

// The output of cat and tail: its flags, its destination, and the formatter that makes the lines.

package cat

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/format/schema"
	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// OutputFlags are the flags that cat and tail have for their output.
type OutputFlags struct {
	Format        string
	SchemaVersion int
	NoHeader      bool
	Pgaudit       []string
	LogLinePrefix string
	CSVSafe       bool
	Fields        []string
	TimeZone      string
	Color         string
	NoPager       bool
	Output        string
	RotateSize    string
	RotateKeep    int

	prefixed  bool // --log-line-prefix was given, perhaps empty
	versioned bool // --schema-version was given
	zone      *time.Location
}

// Add adds the flags to a command.
func (o *OutputFlags) Add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.Format, "format", "o", string(render.Text), "output `format`: "+strings.Join(render.Formats, ", "))
	f.IntVar(&o.SchemaVersion, "schema-version", schema.Version, "fail unless the lines are of this `version` of "+
		"the schema of their format, which steno schema prints: json, ecs, ocsf or otel")
	f.StringSliceVar(&o.Fields, "fields", nil, "these `fields`, in this order, in text, json or csv: "+
		"time,user,command,text. They are those of json")
	f.StringSliceVar(&o.Pgaudit, "pgaudit", nil, "`settings` of pgaudit for format pgaudit, such as log_rows, "+
		"log_catalog=off, log=all,-misc: "+strings.Join(render.PgauditSettings, ", "))
	f.StringVar(&o.LogLinePrefix, "log-line-prefix", "", "for format pgaudit, put a `prefix` before each line, as "+
		"log_line_prefix of PostgreSQL: '%t:%r:%u@%d:[%p]:'")
	f.BoolVar(&o.NoHeader, "no-header", false, "omit the line of column names in csv")
	f.BoolVar(&o.CSVSafe, "csv-safe", true, "put an apostrophe before csv values that a spreadsheet would interpret "+
		"as formulas")
	f.StringVar(&o.TimeZone, "time-zone", "UTC", "show times in this time `zone`, and read those of --since and "+
		"--until in it: Europe/Berlin, +02:00, local")
	f.StringVar(&o.Color, "color", "auto", "`when` to color text: auto (on terminals, unless NO_COLOR is set), "+
		"always or never")
	f.BoolVar(&o.NoPager, "no-pager", false, "on a terminal, do not run $PAGER (less)")
	f.StringVar(&o.Output, "out", "", "append to this `file` instead of writing to standard output")
	f.StringVar(&o.RotateSize, "rotate-size", "", "rename the file of --out to FILE.1 before it becomes larger than "+
		"this `size`: 100MB")
	f.IntVar(&o.RotateKeep, "rotate-keep", 5, "`number` of renamed files to keep")
	fixed := func(flag string, values ...string) {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	fixed("format", render.Formats...)
	fixed("pgaudit", render.PgauditSettings...)
	fixed("fields", render.Columns...)
	fixed("color", "auto", "always", "never")
}

// complete notes which flags were given, and refuses empty ones.
func (o *OutputFlags) complete(cmd *cobra.Command) error {
	o.prefixed, o.versioned = cmd.Flags().Changed("log-line-prefix"), cmd.Flags().Changed("schema-version")
	if o.Output == "" && (cmd.Flags().Changed("rotate-size") || cmd.Flags().Changed("rotate-keep")) {
		return exit.Usagef("--rotate-size and --rotate-keep require --out")
	}
	return cmdutil.RefuseEmpty(cmd, "fields", "time-zone", "out", "rotate-size")
}

// checkVersion refuses versions of the schema that this program does not have.
func (o *OutputFlags) checkVersion(format render.Format) error {
	switch {
	case o.versioned && schema.Of(string(format)) == nil:
		return exit.Usagef("--schema-version requires --format %s: %s has no schema",
			strings.Join(schema.Formats(), ", "), format)
	case o.SchemaVersion != schema.Version:
		return exit.Usagef("--schema-version: this steno has version %d of the schema of %s, not %d", schema.Version,
			format, o.SchemaVersion)
	}
	return nil
}

// options checks the flags, and notes the time zone.
func (o *OutputFlags) options(io *iostreams.IOStreams) (format render.Format, options render.Options, err error) {
	if format, err = render.Parse(o.Format); err != nil {
		return "", options, &exit.UsageError{Err: err}
	}
	if err := o.checkVersion(format); err != nil {
		return "", options, err
	}
	color, err := iostreams.ParseColor(o.Color)
	if err != nil {
		return "", options, cmdutil.FlagError("color", err)
	}
	io.SetColor(color)
	options.Color, options.CSVUnsafe = io.ColorEnabled(), !o.CSVSafe
	if o.Output != "" && color == iostreams.AutoColor {
		options.Color = false
	}
	if options.Pgaudit, err = render.ParsePgauditOptions(o.Pgaudit); err != nil {
		return "", options, cmdutil.FlagError("pgaudit", err)
	}
	if len(o.Pgaudit) > 0 && format != render.Pgaudit {
		return "", options, exit.Usagef("--pgaudit requires --format pgaudit")
	}
	if o.prefixed {
		if format != render.Pgaudit {
			return "", options, exit.Usagef("--log-line-prefix requires --format pgaudit")
		}
		if options.Prefix, err = render.ParseLinePrefix(o.LogLinePrefix); err != nil {
			return "", options, cmdutil.FlagError("log-line-prefix", err)
		}
	}
	if len(o.Fields) > 0 {
		if !render.TakesFields(format) {
			return "", options, exit.Usagef("--fields requires --format text, json or csv")
		}
		if err := render.CheckFields(o.Fields); err != nil {
			return "", options, cmdutil.FlagError("fields", err)
		}
		options.Fields = o.Fields
	}
	zone, err := query.ParseZone(o.TimeZone)
	if err != nil {
		return "", options, cmdutil.FlagError("time-zone", err)
	}
	o.zone = zone
	if zone.String() != "UTC" {
		if !render.TakesZone(format) {
			return "", options, exit.Usagef("--time-zone requires --format text, json, csv or pgaudit: the times of "+
				"%s are in UTC", format)
		}
		options.Zone = zone
	}
	return format, options, nil
}

// server finds out which servers recorded a trail, if the format has that.
func (o *OutputFlags) server(index *trail.Index, format render.Format, options *render.Options) {
	if render.NamesServer(format, options.Fields) {
		options.Servers = index.Servers()
	}
}

// sink is the destination of lines.
type sink interface {
	io.Writer
	Flush() error
	// Keep makes what was written durable, as far as the destination can.
	Keep() error
	// Close ends the output.
	Close() error
}

// open opens the sink.
func (o *OutputFlags) open(io *iostreams.IOStreams, format render.Format, options render.Options,
	follow bool) (sink, error) {
	header := render.Header(format, options)
	if o.NoHeader {
		header = nil
	}
	if o.Output == "" {
		s := &stream{wait: func() {}}
		if !o.NoPager && !follow {
			s.wait = io.StartPager()
		}
		s.Writer = bufio.NewWriterSize(io.Out, 256<<10)
		_, err := s.Write(header)
		return s, err
	}
	size := uint64(0)
	if o.RotateSize != "" {
		var err error
		if size, err = humanize.ParseBytes(o.RotateSize); err != nil || size < 1000 || size > 1<<50 {
			return nil, exit.Usagef("--rotate-size: %q is not a size of at least 1kB, such as 100MB", o.RotateSize)
		}
	}
	if o.RotateKeep < 1 || o.RotateKeep > 10000 {
		return nil, exit.Usagef("--rotate-keep must be between 1 and 10000")
	}
	f, err := iostreams.OpenRotatingFile(o.Output, int64(size), o.RotateKeep, header)
	if err != nil {
		return nil, query.OpenError(err)
	}
	return file{f}, nil
}

// stream writes to standard output, or to the pager.
type stream struct {
	*bufio.Writer
	wait func()
}

func (s *stream) Keep() error { return s.Flush() }

func (s *stream) Close() error {
	err := s.Flush()
	s.wait()
	return err
}

// file is the file of --out.
type file struct{ *iostreams.RotatingFile }

func (f file) Keep() error { return f.Sync() }

// formatter is a trail.Formatter made of a filter and a renderer.
type formatter struct {
	render.Renderer
	query.Matcher
	hidden *query.Hidden      // collects records that leave out what the filter needs
	names  *query.NamesReader // collects the names in shown records
	mixed  *query.Lookalikes  // collects similar names in shown records; nil: the format marks names
	counts bool               // the format numbers the shown records of each session
}

func (f *formatter) Start(ref *trail.BlockRef) {
	f.Renderer.Start(ref)
	f.Matcher.Reset()
	f.names.Start()
}

func (f *formatter) Keep(r *format.Record) bool {
	f.hidden.Note(&f.Matcher, r)
	keeps := f.Matcher.Keep(r)
	if keeps {
		f.names.Record(r)
		f.mixed.Record(r)
	}
	return keeps
}

func (f *formatter) MayKeep(r *format.Record) bool {
	return f.Matcher.MayKeep(r) || f.Notice(r) || f.MayRename(r)
}

// Notice requests the ends of sessions that the filter hides, so that their numbering can be dropped.
func (f *formatter) Notice(r *format.Record) bool {
	return f.counts && r.Kind == format.KindDisconnect
}

// showsRollbacks reports whether lines show that statements were rolled back.
func showsRollbacks(format render.Format, options render.Options) bool {
	if options.Fields != nil {
		return slices.Contains(options.Fields, "rolled_back")
	}
	return format != render.CSVLog && format != render.Pgaudit
}

// newFormatter returns a function that makes formatters for a merge.
func newFormatter(filter *query.Filter, format render.Format, options render.Options, hidden *query.Hidden,
	names *query.Names, mixed *query.Lookalikes) func() trail.Formatter {
	return func() trail.Formatter {
		return &formatter{render.New(format, options), query.Matcher{Filter: filter}, hidden, names.Reader(), mixed,
			format == render.Pgaudit}
	}
}

// lookalikes collects names for formats for people that show them as they are.
func lookalikes(format render.Format) *query.Lookalikes {
	if format != render.CSV {
		return nil
	}
	return &query.Lookalikes{}
}

// want returns which records a formatter may need.
func want(filter *query.Filter, as render.Format) (w format.Selection) {
	if as != render.Pgaudit { // see Notice
		w = filter.Selection()
	}
	return w
}

// contents selects the blocks with records that a formatter may need.
func contents(filter *query.Filter, as render.Format) func(*format.Contents) format.Groups {
	wanted := filter.Contents()
	if wanted == nil || as != render.Pgaudit {
		return wanted
	}
	return func(c *format.Contents) format.Groups {
		g := wanted(c)
		// see Notice
		g.Or(c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return k == format.KindDisconnect }))
		return g
	}
}

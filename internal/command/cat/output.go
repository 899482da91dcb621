// The flags of cat and tail that say how records are shown, and the formatter that they
// choose.

package cat

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// OutputFlags say how records are shown, shared by cat and tail.
type OutputFlags struct {
	Format   string
	NoHeader bool
	Pgaudit  []string
	CSVSafe  bool
}

// Add adds the flags to a command.
func (o *OutputFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.Format, "format", "o", string(render.Text), "output `format`: "+strings.Join(render.Formats, ", "))
	cmd.Flags().StringSliceVar(&o.Pgaudit, "pgaudit", nil, "`settings` of pgaudit for format pgaudit, such as log_rows, log_catalog=off, log=all,-misc: "+strings.Join(render.PgauditSettings, ", "))
	cmd.Flags().BoolVar(&o.NoHeader, "no-header", false, "omit the line of column names in csv")
	cmd.Flags().BoolVar(&o.CSVSafe, "csv-safe", true, "put an apostrophe before csv values that a spreadsheet would interpret as formulas")
	_ = cmd.RegisterFlagCompletionFunc("format", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return render.Formats, cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("pgaudit", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return render.PgauditSettings, cobra.ShellCompDirectiveNoFileComp
	})
}

// options checks the flags.
func (o *OutputFlags) options(color bool) (render.Format, render.Options, error) {
	format, err := render.Parse(o.Format)
	if err != nil {
		return "", render.Options{}, &exit.UsageError{Err: err}
	}
	pgaudit, err := render.ParsePgauditOptions(o.Pgaudit)
	if err != nil {
		return "", render.Options{}, exit.Usagef("--pgaudit: %w", err)
	}
	if len(o.Pgaudit) > 0 && format != render.Pgaudit {
		return "", render.Options{}, exit.Usagef("--pgaudit requires --format pgaudit")
	}
	return format, render.Options{Color: color, Pgaudit: pgaudit, CSVUnsafe: !o.CSVSafe}, nil
}

// formatter is a trail.Formatter made of a filter and a renderer.
type formatter struct {
	render.Renderer
	query.Matcher
	counts bool // the format's order counts what is shown of each session
}

func (f *formatter) Start(ref *trail.BlockRef) {
	f.Renderer.Start(ref)
	f.Matcher.Reset()
}

func (f *formatter) Keep(r *trail.Record) bool { return f.Matcher.Keep(r) }

func (f *formatter) Guess(r *trail.Record) bool { return f.Matcher.Guess(r) || f.Notice(r) }

// Notice wants the ends of sessions that the filter hides: an order forgets these then.
func (f *formatter) Notice(r *trail.Record) bool {
	return f.counts && r.Kind == trail.KindDisconnect
}

// showsRollbacks says whether a format says of statements that they were rolled back.
func showsRollbacks(format render.Format) bool {
	return format != render.CSVLog && format != render.Pgaudit
}

// newFormatter returns the maker of formatters for a merge.
func newFormatter(filter *query.Filter, format render.Format, options render.Options) func() trail.Formatter {
	return func() trail.Formatter {
		return &formatter{render.New(format, options), query.Matcher{Filter: filter}, format == render.Pgaudit}
	}
}

// contents selects the blocks that have what a formatter makes something of.
func contents(filter *query.Filter, format render.Format) func(*trail.Contents) trail.Groups {
	wanted := filter.Contents()
	if wanted == nil || format != render.Pgaudit {
		return wanted
	}
	return func(c *trail.Contents) trail.Groups {
		g := wanted(c)
		g.Or(c.SelectResult(func(k trail.Kind, _ trail.Outcome) bool { return k == trail.KindDisconnect })) // see Notice
		return g
	}
}

// writer buffers lines on their way out.
func writer(out io.Writer) *bufio.Writer { return bufio.NewWriterSize(out, 256<<10) }

// warner prints what is wrong in a trail and remembers whether it is damage.
type warner struct {
	io      *iostreams.IOStreams
	before  func() // cleans the line, when a progress bar is on it
	damaged bool
	unread  bool                    // something could not be read at all
	gone    map[*trail.Segment]bool // told of
}

func (w *warner) warn(err error) {
	var torn *trail.TornError
	var gone *trail.GoneError
	var incomplete *trail.IncompleteError
	var missing *trail.MissingKeyError
	level := "damaged"
	switch {
	case errors.As(err, &torn) && torn.Last:
		level = "unfinished"
	case errors.As(err, &incomplete):
		level = "incomplete"
	case exit.IsUnreadable(err), errors.As(err, &missing):
		level = "unreadable"
	case errors.As(err, &gone):
		if w.gone[gone.Segment] {
			return
		}
		if w.gone == nil {
			w.gone = map[*trail.Segment]bool{}
		}
		w.gone[gone.Segment] = true
		if gone.ByPolicy() {
			level = "deleted"
		}
	}
	w.damaged = w.damaged || level == "damaged"
	w.unread = w.unread || level == "unreadable"
	if w.before != nil {
		w.before()
	}
	fmt.Fprintf(w.io.ErrOut, "steno: %s: %s\n", level, render.Safe(query.OpenError(err).Error()))
}

// result is the command's error after the trail was read.
func (w *warner) result(err error) error {
	return exit.Verdict(exit.Found(w.damaged, w.unread), err)
}

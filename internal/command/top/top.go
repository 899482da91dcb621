// Package top is the program steno-top: its command tree, and the command top.
//
// It is a separate program because it links a terminal library, which an auditor who verifies a
// trail need not trust.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/top"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Main is the program.
func Main() int { return program.Main(New) }

// New returns the root command with all subcommands.
func New(streams *iostreams.IOStreams) *cobra.Command {
	f := &cmdutil.Factory{IO: streams, Version: program.GetVersion()}
	root := &cobra.Command{
		Use:   "steno-top",
		Short: "Show the activity of a server, from its trail",
		Long: `steno-top shows the activity of a PostgreSQL server on a terminal, live or at a past
moment. If it is in the same directory as steno or in PATH, "steno top" runs it.

Exit codes: 0: success. 1: the trail is damaged; the rest is shown. 2: wrong
usage. 3: the command could not do its work, for example because it may not read
a file or lacks the key of a segment. 130 and 143: ended by SIGINT or SIGTERM.`,
	}
	root.AddCommand(NewCmdTop(f, nil), flags.NewTopic())
	return program.Group(root, f, `.TP
.B STENO_DIRECTORY
The trail that is read when none is named.
.TP
.B PGDATA
The data directory of a server; its pg_steno is the trail when STENO_DIRECTORY is not set.
.TP
.B LC_ALL, LC_CTYPE, LANG
If the first of these that is set does not name UTF-8, the screen has only ASCII characters.
.TP
.B COLUMNS, LINES
The size of a screen that is not on a terminal; 80 and 24 if they are not set.
`)
}

// Options are the options of top.
type Options struct {
	IO     *iostreams.IOStreams
	Trails []string
	flags.Filter
	query.KeyOptions
	At       string
	Window   time.Duration
	Interval time.Duration
	By       string
	Rings    []string
	TimeZone string
	Once     bool
	Now      func() time.Time

	zone *time.Location
}

// NewCmdTop returns the command. Tests give a run function of their own.
func NewCmdTop(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO, Now: time.Now}
	cmd := &cobra.Command{
		Use:   "top [TRAIL]",
		Short: "Show the activity of a server on a terminal, live or at a past moment",
		Long: `Show statements and failures per second, by user, database, application, client,
class, table, session or SQLSTATE, with the slowest statements, as a screen that
is drawn again every --interval. The figures are those of the last minute, or of
another --window. With --at, they are those of a window around a moment of the
past; the arrow keys step through time.

What has not reached the trail yet is read from the rings of the server, if they
are on this machine and may be read: what runs now, open sessions, how full the
rings are, how long the oldest record has waited for the writer, waits and drops.

Press ? for the keys. If standard output is not a terminal, or with --once, one
screen is printed as text. With TERM=dumb, a screen is printed every --interval.`,
		Example: `  steno top
  steno top --failed --by error
  steno top --user app --window 5m /var/lib/postgresql/15/main/pg_steno
  steno top --at '2026-11-21 03:12' --by table
  steno top --once | mail -s "what runs" dba`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails = args
			if err := cmdutil.RefuseEmpty(cmd,
				append([]string{"at", "rings", "time-zone"},
					without(flags.FilterNames, "since", "until")...)...); err != nil {
				return err
			}
			if opts.Window < time.Second || opts.Window > 31*24*time.Hour {
				return exit.Usagef("--window must be between 1s and 744h")
			}
			if opts.Interval < 100*time.Millisecond {
				return exit.Usagef("--interval must be at least 100ms")
			}
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return topRun(cmd.Context(), opts)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&opts.At, "at", "", "show a past `moment`, with the window around it: '2026-11-21 03:12', 2h, "+
		"yesterday")
	fl.DurationVar(&opts.Window, "window", time.Minute, "length of the window that the figures are of, as a `time`")
	fl.DurationVar(&opts.Interval, "interval", time.Second, "`time` between two screens")
	fl.StringVar(&opts.By, "by", "user", "group by this `dimension` first: "+strings.Join(top.Dimensions(), ", "))
	fl.StringArrayVar(&opts.Rings, "rings", []string{"/dev/shm"}, "`directory` with the rings of the server, or its "+
		"ring file; repeatable")
	fl.BoolVar(&opts.Once, "once", false, "print one screen as text, and exit")
	fl.StringVar(&opts.TimeZone, "time-zone", "UTC", "show times in this time `zone`, and read that of --at in it: "+
		"Europe/Berlin, +02:00, local")
	opts.Filter.Add(cmd)
	flags.AddKeys(cmd, &opts.KeyOptions)
	_ = cmd.RegisterFlagCompletionFunc("by",
		cobra.FixedCompletions(top.Dimensions(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func without(names []string, left ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(left, n) })
}

// question returns the first question of the screen.
func (o *Options) question() (q top.Question, err error) {
	q.Window = o.Window
	by := slices.Index(top.Dimensions(), strings.ToLower(o.By))
	if by < 0 {
		return q, exit.Usagef("--by: %q is not one of %s", o.By, strings.Join(top.Dimensions(), ", "))
	}
	q.By = top.Dimension(by)
	if o.zone, err = query.ParseZone(o.TimeZone); err != nil {
		return q, cmdutil.FlagError("time-zone", err)
	}
	if o.At != "" {
		if q.At, err = query.ParseWhenIn(o.At, o.Now(), o.zone); err != nil {
			return q, cmdutil.FlagError("at", err)
		}
	}
	return q, nil
}

func topRun(ctx context.Context, o *Options) error {
	q, err := o.question()
	if err != nil {
		return err
	}
	criteria, err := o.Criteria(o.zone)
	if err != nil {
		return err
	}
	keys := o.Keys()
	open := func() (*trail.Trail, error) { return query.OpenTrail(o.Trails, keys) }
	t, err := open()
	if err != nil {
		return err
	}
	if t.Path == "" || !t.Whole {
		return exit.Usagef("%s is a segment: name the directory of its trail", o.Trails[0])
	}
	reader := top.NewReader(ctx, top.Options{
		Open: open, Filter: criteria.Filter(), Parts: len(criteria.Grep)+len(criteria.Not.Grep) > 0, Zone: o.zone,
		Rings: o.Rings, Now: o.Now,
	})
	settings := top.Settings{Trail: t.Path, Interval: o.Interval, Zone: o.zone, Charset: top.CharsetOf(os.Getenv),
		Suspend: raiseStop}
	switch {
	case o.Once || !o.IO.IsTerminal():
		settings.Plain = true
		err = once(o.IO.Out, reader, q, settings, o.IO.Width())
	case os.Getenv("TERM") == "dumb":
		settings.Plain = true
		err = again(ctx, o, reader, q, settings)
	default:
		err = screen(ctx, o.IO, top.New(reader, q, settings))
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = exit.ErrStopped
	}
	texts, damaged, unread := reader.Problems()
	for _, text := range texts {
		fmt.Fprintf(o.IO.ErrOut, "steno: %s\n", render.Safe(text))
	}
	return exit.Verdict(exit.CheckResult(damaged, unread), err)
}

// once prints a screen and returns.
func once(out io.Writer, reader *top.Reader, q top.Question, s top.Settings, width int) error {
	text, err := top.New(reader, q, s).RenderOnce(width, height())
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text+"\n")
	return err
}

// height returns the height of a printed screen. On a terminal, one line is left for the cursor.
func height() int {
	if n, err := strconv.Atoi(os.Getenv("LINES")); err == nil && n > 0 {
		return n
	}
	if _, n, err := term.GetSize(int(os.Stdout.Fd())); err == nil && n > 1 {
		return n - 1
	}
	return 24
}

// again prints a screen in each interval.
func again(ctx context.Context, o *Options, reader *top.Reader, q top.Question, s top.Settings) error {
	for {
		if err := once(o.IO.Out, reader, q, s, o.IO.Width()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return exit.ErrStopped
		case <-time.After(o.Interval):
		}
	}
}

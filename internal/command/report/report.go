// Package report is "steno report": its flags, its help, the file that it writes, and what becomes
// its exit code.
package report

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/report"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// Options are the options of report.
type Options struct {
	IO         *iostreams.IOStreams
	Trails     []string
	Out        string
	Format     string
	Compliance string
	TimeZone   string
	Keys       []string
	Anchors    []string
	State      string
	StateKeys  []string
	Version    string
	Now        time.Time
	flags.Records
	query.KeyOptions
}

var formats = []string{"html", "json", "markdown"}

// NewCmdReport returns the command. Tests give a run function of their own.
func NewCmdReport(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO, Version: f.Version}
	cmd := &cobra.Command{
		Use:   "report --out FILE [TRAIL]...",
		Short: "Sum up a period in one page for auditors and managers",
		Long: `Write a report of a period (--since, --until, and the other filters of "steno
cat"): the verdict of "steno verify", activity over time, logins, failures,
privileged statements and DDL, who uses which table, new and off-hours access,
settings, gaps, and the statements that cost most.

The page is one file without scripts that loads nothing. Every figure opens the
first records behind it and the "steno cat" command that shows all of them.
--compliance puts the requirements of a standard first, with what the period
shows for each of them. docs/report.md says what each section means.

Verdict, seals and anchors are those of the whole trail, whatever the period is.
Give --key, and --anchor, as to "steno verify". With --state, the segments of the
period are verified, and what is new since the last run of steno verify with that
file; the verdict says what was not. Before the period, only that is read which
tells of settings and first uses. The state is left as it is.

The exit code is 0 if the trail is intact, 1 if it is damaged, 2 if the usage is
wrong, and 3 if something could not be read. The report is written all the same,
with what was found at its top.`,
		Example: `  steno report --since 2026-11-01 --until 2026-12-01 --out november.html \
    --key 2026.key.pub
  steno report --since yesterday --until today --time-zone Europe/Berlin \
    --out day.html
  steno report --since yesterday --until today --out day.html \
    --state /var/lib/steno/15-main --state-key state.key.pub
  steno report --compliance pci --since 30d --out pci.html \
    /var/lib/postgresql/15/main/pg_steno
  steno report --database shop --user alice --format markdown
  steno report --since 7d --format json \
    | jq '.figures[] | {name, count: .records.count}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails, opts.Now = args, time.Now()
			if err := cmdutil.RefuseEmpty(cmd,
				append(slices.Clone(flags.FilterNames), "fingerprint", "not-fingerprint", "out", "key", "anchor",
					"state", "state-key", "compliance", "time-zone")...); err != nil {
				return err
			}
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return reportRun(cmd.Context(), opts)
		},
	}
	opts.Records.Add(cmd)
	opts.AddStatements(cmd)
	opts.AddOffHours(cmd)
	flags.AddKeys(cmd, &opts.KeyOptions)
	fs := cmd.Flags()
	fs.StringVar(&opts.Out, "out", "", "write the report to this `file`, readable by its owner only; by default, to "+
		"standard output")
	fs.StringVarP(&opts.Format, "format", "o", "html", "`format`: "+strings.Join(formats, ", "))
	fs.StringVar(&opts.Compliance, "compliance", "", "put the requirements of this `standard` first: "+
		strings.Join(report.Standards, ", "))
	fs.StringVar(&opts.TimeZone, "time-zone", "UTC", "show times, and read those of --since and --until and working "+
		"hours, in this `zone`: Europe/Berlin, +02:00, local")
	fs.StringArrayVar(&opts.Keys, "key", nil, "check seals with the public key in this `file`, or all *.pub in this "+
		"directory; repeatable")
	fs.StringArrayVar(&opts.Anchors, "anchor", nil, "the trail must contain what the anchors in this `file` name (- "+
		"for standard input); repeatable")
	fs.StringVar(&opts.State, "state", "", "go on from what steno verify has verified with this `file`, and do not "+
		"read everything")
	fs.StringArrayVar(&opts.StateKeys, "state-key", nil, "the state must be signed with the key of this `file`, or "+
		"of one of all *.pub in this directory; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("compliance",
		cobra.FixedCompletions(report.Standards, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func reportRun(ctx context.Context, opts *Options) error {
	switch {
	case !slices.Contains(formats, opts.Format):
		return exit.Usagef("invalid format %q: use %s", opts.Format, strings.Join(formats, ", "))
	case opts.Compliance != "" && !slices.Contains(report.Standards, opts.Compliance):
		return exit.Usagef("--compliance: %q is not one of %s", opts.Compliance, strings.Join(report.Standards, ", "))
	case opts.Out == "" && opts.Format == "html" && opts.IO.IsTerminal():
		return exit.Usagef("give --out FILE: a page is nothing for a terminal")
	case opts.State == "" && len(opts.StateKeys) > 0:
		return exit.Usagef("--state-key is of a state: name its file with --state")
	case opts.State != "" && len(opts.Trails) > 1:
		return exit.Usagef("a state is that of one trail: make a report of each with a state of its own")
	}
	if info, err := os.Lstat(opts.Out); opts.Out != "" && err == nil && !info.Mode().IsRegular() {
		return exit.Usagef("--out %s: not a regular file", opts.Out)
	}
	zone, err := query.ParseZone(opts.TimeZone)
	if err != nil {
		return cmdutil.FlagError("time-zone", err)
	}
	criteria, within, err := opts.Parse(opts.Now, zone)
	if err != nil {
		return err
	}
	keys, anchors, err := seal.LoadTrust(opts.Keys, opts.Anchors, opts.IO.In)
	if err != nil {
		return err
	}
	var by seal.Keys
	if len(opts.StateKeys) > 0 {
		if by, err = seal.LoadKeys(opts.StateKeys); err != nil {
			return err
		}
	}
	w := &cmdutil.Warner{IO: opts.IO}
	made, verified, err := opts.make(ctx, w, criteria, within, zone, verify.Checks{Keys: keys, Anchors: anchors}, by)
	if err != nil {
		return err
	}
	err = opts.write(made)
	found := exit.CheckResult(len(verified.Problems) > 0, len(verified.Unreadable) > 0)
	if found != exit.ErrFailed {
		if seen := w.Result(nil); seen != nil {
			found = seen
		}
	}
	return exit.Verdict(found, err)
}

// make reads the trail and makes the report.
func (opts *Options) make(ctx context.Context, w *cmdutil.Warner, asked *query.Criteria, within query.Range,
	zone *time.Location, checks verify.Checks, by seal.Keys) (*report.Report, *verify.Report, error) {
	verified, t, err := opts.verify(ctx, within, checks, by)
	if err != nil {
		return nil, nil, err
	}
	said := map[string]bool{}
	for _, p := range verified.Problems {
		said[p.String()] = true
		fmt.Fprintf(opts.IO.ErrOut, "steno: damaged: %s\n", p)
	}
	for _, p := range verified.Unreadable {
		said[strings.Replace(p.String(), ": cannot be read: ", ": ", 1)] = true
		fmt.Fprintf(opts.IO.ErrOut, "steno: unreadable: %s\n", p)
	}
	warn := func(err error) { // verify has reported the same problems
		if !said[render.Safe(query.OpenError(err).Error())] {
			w.Warn(err)
		}
	}
	trails := opts.Trails
	if len(trails) == 0 {
		trails = []string{t.Path}
	}
	cat := flags.Cat{Zone: opts.TimeZone, Keys: opts.KeyOptions, Trails: trails}
	made, err := report.Make(ctx, report.Options{
		Index: t.Index(), Criteria: *asked, Within: within, Filter: strings.Join(flags.CriteriaFlags(asked), " "),
		Command: cat.Line,
		Zone:    zone, ZoneName: opts.TimeZone, Trails: trails,
		Verify: verified, Standard: opts.Compliance, Version: opts.Version, Now: opts.Now, Warn: warn,
	})
	return made, verified, err
}

// verify opens and verifies the trail, and repeats that if the server deletes segments meanwhile.
func (opts *Options) verify(ctx context.Context, within query.Range, checks verify.Checks,
	by seal.Keys) (*verify.Report, *trail.Trail, error) {
	open := func() (*trail.Trail, error) { return opts.OpenEncrypted(opts.Trails) }
	newBar := func(total int64) *progress.Bar { return progress.New(opts.IO, total) }
	if opts.State != "" {
		r := &verify.Incremental{File: opts.State, By: by, Now: opts.Now, ReadOnly: true, Within: &within, Bar: newBar}
		return r.Run(ctx, open, checks)
	}
	for try := 1; ; try++ {
		t, err := open()
		if err != nil {
			return nil, nil, err
		}
		bar := newBar(t.Size())
		verified, err := verify.Trail(ctx, t, bar, checks)
		bar.Done()
		if err != nil || !verified.Outdated() || try == 3 {
			return verified, t, err
		}
	}
}

// write writes the report to its file, or to standard output.
func (opts *Options) write(r *report.Report) error {
	if opts.Out == "" {
		return opts.format(r, opts.IO.Out)
	}
	f, err := os.CreateTemp(filepath.Dir(opts.Out), "."+filepath.Base(opts.Out)+".*")
	if err != nil {
		return query.OpenError(err)
	}
	defer os.Remove(f.Name()) // has no effect if the file was renamed
	err = opts.format(r, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return query.OpenError(err)
	}
	return os.Rename(f.Name(), opts.Out)
}

func (opts *Options) format(r *report.Report, out io.Writer) (err error) {
	w := bufio.NewWriterSize(out, 256<<10)
	switch opts.Format {
	case "json":
		err = r.WriteJSON(w)
	case "markdown":
		err = r.WriteMarkdown(w)
	default:
		err = r.WriteHTML(w)
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

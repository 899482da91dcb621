// Package prove is "steno prove": its flags, its help, the file that it writes, and what
// becomes its exit code.
package prove

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
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options are the options of prove.
type Options struct {
	IO     *iostreams.IOStreams
	Trails []string
	Record string
	Out    string
	Check  string
	Full   bool
	Show   bool
	Format string
	Keys   []string
	Anchor []string
	Now    time.Time
	flags.Records
	query.KeyOptions

	asked bool // a filter was given
}

// NewCmdProve returns the command. Tests give a run function of their own.
func NewCmdProve(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "prove {{--record SESSION/SEQ | --since TIME --until TIME} --out FILE [TRAIL]... | --check FILE}",
		Short: "Write, or check, a proof that stands alone",
		Long: `Write a file that proves that a record is in the trail (--record), or which
records of a range match a filter, and that there are no others (--since, --until
and filters). The answer can be that there is none. A proof cannot be asked for
fingerprints, for top-level statements only, or for hours of the day.

With --check, check such a file on any machine, without the trail, with the
public key of steno.signing_key_file. The verdict says what is proved, up to
which seal, and what the answer may lack: settings that left something out,
records that were lost, times in which the server was not running. --show prints
the records; the verdict then goes to standard error.

The trail must be sealed (steno.signing_key_file) up to the end of the range.
Blocks that have nothing of the answer are left out if the indexes that the
server has written, which are sealed like everything else, show that; with
--full, all blocks of the range are in the file. Encrypted blocks remain
encrypted: whoever checks the file needs their keys.

The exit code is 0 if the answer is proved for the whole range, also with
exceptions, 1 if it is not, or cannot be, proved, 2 if the usage is wrong or the
file is not a proof, and 3 if something could not be read.`,
		Example: `  steno prove --record 6b0202d9.fa1/17 --out record.proof
  steno prove --object hr.salary --since 2026-11-01 --until 2026-11-08 \
    --out november.proof
  steno prove --check november.proof --key 2026.key.pub --anchor anchors
  steno prove --check november.proof --key 2026.key.pub --show --format json
  steno prove --check november.proof --key 2026.key.pub --object hr.salary \
    --since 2026-11-01 --until 2026-11-08`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails, opts.Now = args, time.Now()
			if err := cmdutil.RefuseEmpty(cmd,
				append(flags.FilterNames, "record", "out", "check", "key", "anchor")...); err != nil {
				return err
			}
			opts.asked = slices.ContainsFunc(append(flags.FilterNames, "failed"), func(name string) bool {
				f := cmd.Flags().Lookup(name)
				return f != nil && f.Changed
			})
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return proveRun(cmd.Context(), opts)
		},
	}
	opts.Records.Add(cmd)
	flags.AddKeys(cmd, &opts.KeyOptions)
	fs := cmd.Flags()
	fs.StringVar(&opts.Record, "record", "", "prove this one record: `session/seq`, as in the fields of that name")
	fs.StringVar(&opts.Out, "out", "", "write the proof to this `file`, readable by its owner only")
	fs.BoolVar(&opts.Full, "full", false, "do not rely on indexes: all blocks of the range; with --check, refuse a "+
		"proof that does")
	fs.StringVar(&opts.Check, "check", "", "check the proof in this `file`")
	fs.StringArrayVar(&opts.Keys, "key", nil, "check seals with the public key in this `file`, or all *.pub in this "+
		"directory; repeatable")
	fs.StringArrayVar(&opts.Anchor, "anchor", nil, "the proof must agree with the anchors in this `file` (- for "+
		"standard input); repeatable")
	fs.BoolVar(&opts.Show, "show", false, "with --check: print the records, and the verdict to standard error")
	fs.StringVarP(&opts.Format, "format", "o", "text", "`format` of the verdict: text or json; with --show, that of "+
		"the records, as in \"steno cat\"")
	_ = cmd.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(render.Formats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func proveRun(ctx context.Context, opts *Options) error {
	switch {
	case opts.Check == "" && opts.Out == "":
		return exit.Usagef("give --out FILE to write a proof, or --check FILE to check one")
	case opts.Check != "" && opts.Out != "":
		return exit.Usagef("--out and --check exclude each other")
	case opts.Record != "" && (opts.asked || opts.Full):
		return exit.Usagef("--record does not go together with --since, --until, filters and --full")
	case opts.Show && opts.Check == "":
		return exit.Usagef("--show requires --check")
	}
	if !opts.Show {
		if err := iostreams.CheckFormat(opts.Format); err != nil {
			return err
		}
	}
	keys, anchors, err := seal.LoadTrust(opts.Keys, opts.Anchor, opts.IO.In)
	if err != nil {
		return err
	}
	checks := proof.Checks{Keys: keys, Anchors: anchors, Encryption: opts.KeyOptions.Keys()}
	if opts.Check != "" {
		return check(ctx, opts, checks)
	}
	return write(ctx, opts, checks)
}

// question returns the question that the flags ask.
func (opts *Options) question() (*proof.Question, error) {
	if opts.Record != "" {
		q, err := proof.NewRecordQuestion(opts.Record)
		if err != nil {
			err = cmdutil.FlagError("record", err)
		}
		return q, err
	}
	criteria, within, err := opts.Parse(opts.Now, time.UTC)
	if err != nil {
		return nil, err
	}
	if !within.IsBounded() {
		return nil, exit.Usagef("a proof is about a range: give --since and --until, or --record")
	}
	return proof.NewRangeQuestion(*criteria, within, opts.Full)
}

// ---- writing a proof ----

func write(ctx context.Context, opts *Options, checks proof.Checks) error {
	q, err := opts.question()
	if err != nil {
		return err
	}
	t, err := opts.OpenEncrypted(opts.Trails)
	if err != nil {
		return err
	}
	// A device, a pipe or a directory is not replaced by a file, nor is a link.
	if info, err := os.Lstat(opts.Out); err == nil && !info.Mode().IsRegular() {
		return exit.Usagef("--out %s: not a regular file", opts.Out)
	}
	f, err := os.CreateTemp(filepath.Dir(opts.Out), "."+filepath.Base(opts.Out)+".*")
	if err != nil {
		return query.OpenError(err)
	}
	defer os.Remove(f.Name()) // has no effect if the file was renamed
	defer f.Close()
	bar := progress.New(opts.IO, t.Size())
	err = proof.Make(ctx, t, q, bar, f)
	bar.Done()
	if refused := (*proof.RefusedError)(nil); errors.As(err, &refused) {
		fmt.Fprintf(opts.IO.ErrOut, "steno: not proved: %s\n", render.Safe(refused.Reason))
		return exit.ErrFailed
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return query.OpenError(err)
	}
	// A proof must pass its own check.
	checks.Question = q
	report, err := proof.CheckNew(ctx, f.Name(), checks)
	if err != nil {
		return err
	}
	report.File = opts.Out
	if report.Proved {
		if err := os.Rename(f.Name(), opts.Out); err != nil {
			return err
		}
		err = opts.verdict(report, opts.IO.Out, opts.Format)
		opts.renamed(ctx, t, q, report)
		return err
	}
	err = opts.verdict(report, opts.IO.Out, opts.Format)
	fmt.Fprintf(opts.IO.ErrOut, "steno: %s was not written\n", render.Safe(opts.Out))
	return err
}

// renamed warns of renames before the proof's part of the trail, or after its range. The proof itself states only
// from when to when it has renames. The user can then make a proof with the other names, too.
func (opts *Options) renamed(ctx context.Context, t *trail.Trail, q *proof.Question, report *proof.Report) {
	if report.Names == nil {
		return
	}
	w := &cmdutil.Warner{IO: opts.IO}
	for _, err := range q.Filter.Filter().RenamedOutside(ctx, t.Index(), q.Range.Since, q.Range.Until) {
		one := (*query.RenamedError)(nil)
		if !errors.As(err, &one) || !slices.ContainsFunc(report.Exceptions, func(known string) bool {
			return strings.HasPrefix(known, one.Renamed.String())
		}) {
			w.Warn(err)
		}
	}
}

// lacking has advice on how to give what a check lacks.
var lacking = map[proof.MissingInput]string{
	proof.PublicKey:     "give the public key of the seals with --key",
	proof.EncryptionKey: "give the key of encrypted blocks with --encryption-key-command or --encryption-key-file",
	proof.Anchors:       "give anchors with --anchor: they prove how many streams the trail had",
}

// verdict writes a report, and returns the error that decides the exit code.
func (opts *Options) verdict(report *proof.Report, out io.Writer, format string) (err error) {
	if format == "json" {
		err = report.WriteJSON(out)
	} else {
		err = report.WriteText(out, opts.IO.ColorEnabled() && !opts.Show)
	}
	for _, l := range report.MissingInputs {
		fmt.Fprintf(opts.IO.ErrOut, "steno: %s\n", lacking[l])
	}
	failed := len(report.Problems)+len(report.Uncovered) > 0
	return exit.Verdict(exit.CheckResult(failed, report.Unread != ""), err)
}

// ---- checking one ----

func check(ctx context.Context, opts *Options, checks proof.Checks) error {
	if len(opts.Trails) > 0 {
		return exit.Usagef("unexpected argument %q: --check reads a proof, and no trail", opts.Trails[0])
	}
	if len(checks.Keys) == 0 {
		return exit.Usagef("--check requires --key: without the public key of the server, a proof proves nothing")
	}
	format, err := render.Parse(opts.Format)
	if err != nil {
		return &exit.UsageError{Err: err}
	}
	if opts.Record != "" || opts.asked {
		if checks.Question, err = opts.question(); err != nil {
			return err
		}
	}
	checks.Full = opts.Full
	report, err := proof.Check(ctx, opts.Check, checks)
	switch {
	case errors.Is(err, proof.ErrNoProof), errors.Is(err, os.ErrNotExist):
		return exit.Usagef("%s: %w", opts.Check, unwrapped(err))
	case err != nil:
		return query.OpenError(err)
	case !opts.Show:
		return opts.verdict(report, opts.IO.Out, opts.Format)
	}
	found := opts.verdict(report, opts.IO.ErrOut, "text")
	if len(report.Problems) > 0 || report.Unread != "" {
		return found
	}
	out := bufio.NewWriterSize(opts.IO.Out, 256<<10)
	options := render.Options{Color: opts.IO.ColorEnabled()}
	out.Write(render.Header(format, options))
	order := render.NewOrder(format)
	err = report.Merge(ctx, func() render.Renderer {
		return render.New(format, options)
	}, func(error) {}, func(line []byte) error {
		_, err := out.Write(order.Next(line))
		return err
	})
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return exit.Verdict(found, err)
}

// unwrapped returns an error without the path, which the caller states.
func unwrapped(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Package export is "steno export": its flags, its help, and what becomes its exit code.
package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/export"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
)

// Options are the options of export.
type Options struct {
	IO *iostreams.IOStreams
	export.Options
	SigningKey string
	Check      string
	CheckKeys  []string

	records    flags.Records
	asked      bool // a filter was given
	compressed bool // --compression was given
}

// NewCmdExport returns the command. Tests give a run function of their own.
func NewCmdExport(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	opts.Program = "steno-query " + f.Version
	cmd := &cobra.Command{
		Use:   "export --format FORMAT --out PATH [TRAIL|SEGMENT]...",
		Short: "Export records as Parquet, CSV, JSON lines or a DuckDB database",
		Long: `Write the records of a trail to files for other programs: Parquet, CSV and JSON
lines as a directory PATH with a directory for each day, day=2026-11-21, in UTC;
duckdb as one file. The columns of parquet and duckdb are those of the table
trail of "steno query"; csv and jsonl are what "steno cat" shows. A manifest
beside the files names them, with numbers of records, SHA-256, and the part of
the trail's chain that was read. --check compares files with their manifest.

A file gets its name when it is complete and on disk. An export that was
interrupted is resumed by the same command, which writes the files that are
missing. Nothing that exists is overwritten, except what is left of an unfinished
export.

With --slot, the export begins at a slot, and advances it when all files are on
disk. PATH then gets new files, and another manifest, with each export.

The exit code is 1 if the trail is damaged: the export has the rest, and a
warning and the manifest name the damage. Nothing is written for a day of which
something cannot be read for lack of a permission or a key: the exit code is 3.`,
		Example: `  steno export --format parquet --out november --since 2026-11-01 \
    --until 2026-12-01
  steno export --format parquet --slot lake --out /lake/trail
  steno export --format csv --user alice --out alice \
    --signing-key-file export.key
  steno export --format duckdb --out trail.duckdb \
    /var/lib/postgresql/15/main/pg_steno
  steno export --check november/_manifest.json --key export.key.pub`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails, opts.Now = args, time.Now()
			if err := cmdutil.RefuseEmpty(cmd, append(flags.FilterNames, "fingerprint", "not-fingerprint", "out",
				"check", "key", "signing-key-file", "slot", "memory-limit")...); err != nil {
				return err
			}
			opts.Filters = map[string][]string{}
			for _, name := range append(flags.FilterNames, "fingerprint", "not-fingerprint", "failed", "top-level",
				"ignore-case") {
				if fl := cmd.Flags().Lookup(name); fl != nil && fl.Changed {
					opts.asked = true
					if name != "since" && name != "until" {
						opts.Filters[name] = values(fl.Value)
					}
				}
			}
			opts.compressed = cmd.Flags().Changed("compression")
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return exportRun(cmd.Context(), opts)
		},
	}
	opts.records.Add(cmd)
	opts.records.AddStatements(cmd)
	flags.AddKeys(cmd, &opts.Keys)
	fs := cmd.Flags()
	fs.StringVarP(&opts.Format, "format", "o", "", "`format` of the files: "+strings.Join(export.Formats, ", "))
	fs.StringVar(&opts.Path, "out", "", "write to this `path`: a directory, which is made, or a file for duckdb")
	fs.StringVar(&opts.Compression, "compression", export.Compressions[0], "of parquet: `method` zstd or snappy")
	fs.BoolVar(&opts.CSVSafe, "csv-safe", true, "put an apostrophe before csv values that a spreadsheet would "+
		"interpret as formulas")
	fs.StringVar(&opts.Slot, "slot", "", "begin at this `slot`, and advance it when all files are on disk")
	fs.StringVar(&opts.SigningKey, "signing-key-file", "", "sign the manifest with the private key in this `file`, "+
		"as \"steno keygen\" makes it")
	fs.BoolVar(&opts.Restart, "restart", false, "discard an unfinished export in PATH")
	fs.StringVar(&opts.Memory, "memory-limit", "512MiB", "most `memory` that DuckDB may use")
	fs.StringVar(&opts.Check, "check", "", "compare files with the manifest in this `file`")
	fs.StringArrayVar(&opts.CheckKeys, "key", nil, "with --check: the manifest must be signed with the public key "+
		"in this `file`, or one of *.pub in this directory; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(export.Formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("compression",
		cobra.FixedCompletions(export.Compressions, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// values returns the values of a flag.
func values(v pflag.Value) []string {
	if list, ok := v.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{v.String()}
}

func exportRun(ctx context.Context, o *Options) error {
	if o.Check != "" {
		return check(o)
	}
	if err := o.prepare(); err != nil {
		return err
	}
	say := func(text string) {
		fmt.Fprintf(o.IO.ErrOut, "steno: %s\n", render.Safe(text))
	}
	damaged := false
	o.Say = say
	o.Warn = func(p export.Problem) {
		damaged = damaged || p.Kind == "damaged"
		say(p.Kind + ": " + p.Message)
	}
	m, name, err := export.Run(ctx, &o.Options)
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "Out of Memory Error"):
		return errors.New("out of memory: use a greater --memory-limit, or another format: duckdb has many records " +
			"in memory at once")
	case err != nil:
		return advised(err)
	case m == nil:
		_, err = fmt.Fprintf(o.IO.Out, "nothing new for slot %s\n", o.Slot)
	default:
		bytes := int64(0)
		for _, f := range m.Files {
			bytes += f.Bytes
		}
		_, err = fmt.Fprintf(o.IO.Out, "%s of %s; manifest %s\n", contents(m), humanize.Bytes(uint64(bytes)),
			render.Safe(name))
	}
	return exit.Verdict(exit.CheckResult(damaged || m != nil && m.Verdict != export.VerdictComplete, false), err)
}

// advised adds the flags that an error of an export is about.
func advised(err error) error {
	var place *export.PlaceError
	var unfinished *export.UnfinishedError
	switch {
	case errors.As(err, &place):
		return exit.Usagef("--out %w", err)
	case errors.As(err, &unfinished) && unfinished.OtherRequest:
		return exit.Usagef("--out %w; repeat these to resume it, or add --restart to discard it", err)
	case errors.As(err, &unfinished):
		return fmt.Errorf("%w; use --restart to discard the unfinished export", err)
	case errors.Is(err, export.ErrNotOneTrail):
		return exit.Usagef("--slot requires a single trail")
	}
	return query.OpenError(err)
}

// contents describes how much an export has.
func contents(m *export.Manifest) string {
	return render.Plural(m.Rows, "record") + " in " + render.Plural(len(m.Files), "file")
}

// prepare checks the flags of an export.
func (o *Options) prepare() (err error) {
	switch {
	case o.Path == "":
		return exit.Usagef("give --out PATH to export, or --check MANIFEST to check an export")
	case !slices.Contains(export.Formats, o.Format):
		return exit.Usagef("invalid format %q: use %s", o.Format, strings.Join(export.Formats, ", "))
	case !slices.Contains(export.Compressions, o.Compression):
		return exit.Usagef("invalid compression %q: use %s", o.Compression, strings.Join(export.Compressions, " or "))
	case o.compressed && o.Format != "parquet":
		return exit.Usagef("--compression requires --format parquet")
	case len(o.CheckKeys) > 0:
		return exit.Usagef("--key requires --check; --signing-key-file signs the manifest")
	case o.Slot != "" && (o.records.Since != "" || o.records.Until != ""):
		return exit.Usagef("--slot does not go with --since and --until: the slot says where to begin")
	}
	if o.Format != "parquet" {
		o.Compression = ""
	}
	o.CSVSafe = o.CSVSafe && o.Format == "csv"
	o.Since, o.Until = o.records.Since, o.records.Until
	criteria, within, err := o.records.Parse(o.Now, time.UTC)
	if err != nil {
		return err
	}
	o.Criteria, o.Within = *criteria, within
	if len(o.Trails) == 0 {
		dir, err := query.DefaultTrail()
		if err != nil {
			return err
		}
		o.Trails = []string{dir}
	}
	for i, t := range o.Trails {
		if abs, err := filepath.Abs(t); err == nil {
			o.Trails[i] = abs
		}
	}
	if o.SigningKey != "" {
		if o.Sign, err = seal.LoadPrivate(o.SigningKey); err != nil {
			return err
		}
	}
	return nil
}

// check is "steno export --check".
func check(o *Options) error {
	if len(o.Trails) > 0 || o.Path != "" || o.Slot != "" || o.asked || o.SigningKey != "" {
		return exit.Usagef("--check reads a manifest and its files, and goes with --key only")
	}
	var keys seal.Keys
	if len(o.CheckKeys) > 0 {
		var err error
		if keys, err = seal.LoadKeys(o.CheckKeys); err != nil {
			return err
		}
	}
	c, err := export.CheckManifest(o.Check, keys)
	switch {
	case errors.Is(err, export.ErrNotRegular):
		return exit.Usagef("%s: not a file: name the manifest itself", o.Check)
	case errors.Is(err, export.ErrNoManifest), errors.Is(err, os.ErrNotExist):
		return exit.Usagef("%s: %w", o.Check, unwrapped(err))
	case err != nil:
		return query.OpenError(err)
	}
	for _, p := range c.Problems {
		fmt.Fprintf(o.IO.ErrOut, "steno: %s\n", render.Safe(p))
	}
	m := c.Manifest
	for _, p := range m.Problems {
		fmt.Fprintf(o.IO.ErrOut, "steno: when the trail was read: %s: %s\n", render.Safe(p.Kind),
			render.Safe(p.Message))
	}
	verdict := "the files are those of the manifest"
	if len(c.Problems) > 0 {
		verdict = "FAILED: the files are not those of the manifest, or it is not to be trusted"
	}
	signature := "its signature was not checked (--key)"
	if c.Signed != "" {
		signature = "signed with key " + c.Signed
	} else if keys != nil {
		signature = "not signed with a key that was given"
	}
	_, err = fmt.Fprintf(o.IO.Out, "%s: %s, created %s; %s\n", verdict, contents(m), render.Safe(m.Created), signature)
	return exit.Verdict(exit.CheckResult(len(c.Problems) > 0 || m.Verdict != export.VerdictComplete, false), err)
}

// unwrapped returns an error without the path, which the caller states.
func unwrapped(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

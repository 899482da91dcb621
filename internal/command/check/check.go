// Package check is "steno check": its flags, its help, and its exit codes.
package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	checker "github.com/pg-steno/pg_steno/internal/check"
	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options are the options of check.
type Options struct {
	IO      *iostreams.IOStreams
	Trails  []string
	Format  string
	Verbose bool
	Keys    []string
	// AcknowledgedBy are files of the public keys of those who may acknowledge problems.
	AcknowledgedBy []string
	// durations, as they are given
	MaxAge, MaxLag, Keep, Remember string
	checker.Options
	query.KeyOptions
}

// NewCmdCheck returns the command. Tests give a run function of their own.
func NewCmdCheck(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "check [TRAIL]",
		Short: "Say whether the audit of a server is healthy",
		Long: `Say in one line whether the audit of a server is healthy, for monitoring and for
people. It needs no connection to the server, and reads only what is new since
the last check:

  server    runs with pg_steno
  writers   all run
  written   records do not wait to be written for longer than --max-lag, and
            the last one is not older than --max-age
  intact    what was written since the last check: checksums, chain, numbers,
            and with --key, seals; and that what was there is still there
  sealed    seals are made in time, if there is a signing key
  losses    records dropped, statements refused, blocks lost, ends without a
            stop
  recorded  settings of pg_steno that were changed, by whom, and whether they
            are as --expect says
  slots     none is lost, or near steno.slot_max_size
  disk      is not full
  kept      nothing was deleted that a slot needed, or that is younger than
            --keep
  units     no systemd unit of steno has failed

A state file has how far the last check has read, and what was found: a restart of
the server hides nothing. Losses are reported for a day, and damage for as long as
its file exists, unless it was acknowledged with steno acknowledge, or --forget says
that somebody has seen what was found. The first check reads only the last segment of
each stream. "steno verify" reads everything.

Exit codes are those of Nagios: 0 ok, 1 warning, 2 critical, 3 unknown: nothing
could be checked, or not everything. Wrong usage is 3, too.`,
		Example: `  steno check
  steno check --key /etc/pg_steno/2026.key.pub --expect steno.log=all \
    --keep 365d
  steno check --verbose /var/lib/postgresql/15/main/pg_steno
  steno check --format prometheus > steno.prom.new \
    && mv steno.prom.new steno.prom`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails, opts.RingsNamed = args, cmd.Flags().Changed("rings")
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return checkRun(cmd.Context(), opts)
		},
	}
	// An error must not look like a verdict.
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return unknown(opts, errors.New("one trail at a time: each has its own state"))
		}
		return nil
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unknown(opts, err) })
	flags.AddKeys(cmd, &opts.KeyOptions)
	fs := cmd.Flags()
	fs.StringVar(&opts.Format, "format", "text", "`format` of the answer: text, json or prometheus")
	_ = cmd.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions([]string{"text", "json", "prometheus"}, cobra.ShellCompDirectiveNoFileComp))
	fs.BoolVarP(&opts.Verbose, "verbose", "v", false, "in addition to the one line, print one for each thing that "+
		"was checked")
	fs.StringArrayVar(&opts.Keys, "key", nil, "check seals with the public key in this `file`, or all *.pub in this "+
		"directory; repeatable")
	fs.StringArrayVar(&opts.AcknowledgedBy, "acknowledged-by", nil, "take acknowledgments that are signed with the "+
		"key of this `file`, or of all *.pub in this directory; repeatable")
	fs.StringArrayVar(&opts.Rings, "rings", []string{"/dev/shm"}, "`directory` with the rings of the server, or its "+
		"ring file; repeatable")
	fs.StringVar(&opts.State, "state", "", "`file` with the state of earlier checks (default: one for each trail in "+
		"$STATE_DIRECTORY, else /var/lib/steno for root, else steno in $XDG_STATE_HOME or ~/.local/state)")
	fs.BoolVar(&opts.Offline, "offline", false, "the trail is a copy: do not look for its server")
	fs.BoolVar(&opts.Units, "units", true, "look at the systemd units of steno")
	fs.StringVar(&opts.MaxAge, "max-age", "", "the last record may be at most this `old`; by default any age, "+
		"because an idle server writes nothing")
	fs.StringVar(&opts.MaxLag, "max-lag", "10s", "how `long` a record may wait to be written")
	fs.StringVar(&opts.Keep, "keep", "", "how `long` records must be kept, such as 365d")
	fs.StringVar(&opts.Remember, "remember", "1d", "how `long` losses and changes of settings are reported")
	fs.BoolVar(&opts.Forget, "forget", false, "somebody has seen what was found so far: do not report it again")
	fs.Float64Var(&opts.DiskWarning, "disk-warning", 80, "warning if the trail's disk is used to this `percent`age")
	fs.Float64Var(&opts.DiskCritical, "disk-critical", 95, "critical if the trail's disk is used to this `percent`age")
	fs.Float64Var(&opts.SlotWarning, "slot-warning", 80, "warning if a slot keeps this `percent`age of "+
		"steno.slot_max_size")
	fs.StringArrayVar(&opts.Expect, "expect", nil, "critical unless a setting of the server has this value: "+
		"`steno.NAME=VALUE`; repeatable")
	return cmd
}

// unknown reports why nothing was checked, on standard output, where Nagios reads it.
func unknown(opts *Options, err error) error {
	fmt.Fprintf(opts.IO.Out, "STENO %s - %s\n", checker.Unknown,
		strings.ReplaceAll(render.Safe(err.Error()), "|", "/"))
	return &exit.StatusError{Code: int(checker.Unknown)}
}

func checkRun(ctx context.Context, opts *Options) error {
	o, err := opts.complete()
	if err != nil {
		return unknown(opts, err)
	}
	result, err := checker.Run(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return unknown(opts, err)
	}
	switch opts.Format {
	case "json":
		err = result.WriteJSON(opts.IO.Out)
	case "prometheus":
		err = result.WritePrometheus(opts.IO.Out)
	default:
		err = result.WriteText(opts.IO.Out, opts.Verbose)
	}
	if result.Level == checker.OK {
		return err
	}
	return exit.Verdict(&exit.StatusError{Code: int(result.Level)}, err)
}

// advise names the flags for what people can do.
func advise(a checker.Advice) string {
	switch a {
	case checker.NameRings:
		return ": see --rings"
	case checker.CheckOffline:
		return "; --offline checks a copy"
	case checker.ShowAll:
		return ": --verbose"
	}
	return ""
}

// complete reads the options.
func (opts *Options) complete() (*checker.Options, error) {
	o := opts.Options
	o.Advise = advise
	switch opts.Format {
	case "text", "json", "prometheus":
	default:
		return nil, fmt.Errorf("unknown format %q: text, json and prometheus are known", opts.Format)
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"max-age", opts.MaxAge, &o.MaxAge}, {"max-lag", opts.MaxLag, &o.MaxLag}, {"keep", opts.Keep, &o.Keep},
		{"remember", opts.Remember, &o.Remember}} {
		if d.text == "" {
			continue
		}
		if strings.Trim(d.text, "0123456789.") == "" {
			return nil, fmt.Errorf("--%s %s: it needs a unit, such as %sd or %ss", d.name, d.text, d.text, d.text)
		}
		var err error
		if *d.to, err = query.ParseDuration(d.text); err != nil {
			return nil, cmdutil.FlagError(d.name, err)
		}
	}
	if o.DiskWarning > o.DiskCritical {
		return nil, fmt.Errorf("--disk-warning %g is more than --disk-critical %g", o.DiskWarning, o.DiskCritical)
	}
	for _, e := range o.Expect {
		if name, _, ok := strings.Cut(e, "="); !ok || !strings.HasPrefix(name, "steno.") {
			return nil, fmt.Errorf("--expect %s: it must be a setting of pg_steno and its value, "+
				"such as steno.log=all", e)
		}
	}
	keys, _, err := seal.LoadTrust(opts.Keys, nil, opts.IO.In)
	if err != nil {
		return nil, err
	}
	o.By = maps.Clone(keys)
	if len(opts.AcknowledgedBy) > 0 {
		if o.By, err = seal.LoadKeys(opts.AcknowledgedBy); err != nil {
			return nil, err
		}
	}
	o.Keys, o.Now = keys, time.Now()
	o.Open = func() (*trail.Trail, error) { return opts.OpenEncrypted(opts.Trails) }
	return &o, nil
}

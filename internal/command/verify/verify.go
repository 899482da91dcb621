// Package verify is "steno verify": its flags, its help, and what becomes its exit code.
package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	verifier "github.com/pg-steno/pg_steno/internal/verify"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/live"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options are the options of verify.
type Options struct {
	IO     *iostreams.IOStreams
	Trails []string
	Format string
	// TimeZone is the zone in which text shows times.
	TimeZone string
	Keys     []string
	Anchors  []string
	Rings    []string
	// AcknowledgedBy are files of the public keys of those who may acknowledge problems.
	AcknowledgedBy []string
	FailOnLoss     bool
	MaxAge         string
	// State is the file with what earlier runs have verified; empty: everything is read.
	State string
	Begin bool
	Sign  string
	For   string
	query.KeyOptions

	ringsNamed bool // Rings were named by the user: they are not looked for elsewhere
}

// NewCmdVerify returns the command. Tests give a run function of their own.
func NewCmdVerify(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "verify [TRAIL|SEGMENT]...",
		Short: "Check that a trail is intact",
		Long: `Read the whole trail and check every checksum, the hash chain of every stream,
the numbers of segments, blocks and records, and that no session lacks a
sequence number that no gap record accounts for.

This proves that nothing was changed by somebody who does not know the format.
Somebody who knows it, and can write to the files, can recompute all of this,
with two exceptions. With --key, which names the public key of
steno.signing_key_file or a directory of such keys, every seal is checked, too,
and it is an error if there is none. With --anchor, which names a file of lines
printed by steno seal export, or - for standard input, the trail must contain
everything that it contained then: this is the only way to detect that its end
was cut off, or that it is an older copy. A key that a trusted key names as its
successor is trusted from there on.

Checksums and chain are computed from the stored data, so an encrypted trail can
be checked without its keys, except for the contents of its records: sequence
numbers, times, data parts. With the keys, these are checked, too, and also that
the trail was encrypted with these keys.

While the server of the trail runs on this machine, its rings say what it has
dropped. A warning names losses that the trail does not have yet.

A second verdict says whether everything was recorded: it lists settings and
rules that left something out, losses, and times in which the server was not
recording or ended without a stop, each with its times and users, and the changes
of pg_steno's settings. It does not change the exit code.

Problems that were acknowledged with steno acknowledge, and are as they were then,
are printed with who acknowledged them, when and why, and do not count. With
--acknowledged-by, only acknowledgments that are signed by one of its keys are
taken, and none by those of --key; any other line in their file is a problem
itself. With --key alone, those that are signed by one of its keys are taken: who
has the key that seals can then acknowledge, so give --acknowledged-by, too.

With --state, what was verified is remembered in a file, and the next run with it
reads only what is new, and the last segment of each stream, which may have grown.
Of what earlier runs have verified, it checks that the last block of each stream is
still there, and the names, order and headers of the segments; the verdict says how
many blocks it has not read, and when they were verified. Problems that earlier runs
have found are reported again until they are acknowledged, or the place is read
again and is right. With --for, a full pass goes on besides, for as long as that
since the run began: over as many runs as it takes, it reads everything again.

--sign, an Ed25519 key of steno keygen, signs the state, so that nobody without the
key can have blocks passed over; without it, the verdict says that the state is not
signed. A state of another server, that was altered or cut off, or has another
signature is an error (3), and is left as it is. Keep the file where the accounts
that are audited cannot write. The first run needs --begin, and reads everything;
later ones end with 3 if somebody has removed the file. An older copy in its place
makes the number of the run, which is printed, go back.

The exit code is 0 if the trail is intact, 1 if it is damaged, 2 if the usage is
wrong, such as a key that is not there, and 3 if nothing is damaged, but something
could not be read or checked, such as a file without
permission, or seals in encrypted segments whose key is missing. A last block
that the server did not finish writing is a warning, not damage. With
--fail-on-loss, it is also 1 if records were lost, as gap records or the rings of
the running server tell, and 3 if a server runs whose rings were not found or
cannot be read. With --max-age, it is also 1 if the last block is older: a server
that does nothing writes nothing.`,
		Example: `  steno verify
  steno verify /var/lib/postgresql/15/main/pg_steno
  steno verify --key /etc/pg_steno/15-main/2026.key.pub
  ssh vault cat anchors | steno verify --key keys/ --anchor -
  steno verify --format json | jq .problems
  steno verify --state /var/lib/steno/15-main --sign state.key --begin \
    /srv/audit/15-main
  steno verify --state /var/lib/steno/15-main --sign state.key --for 2h \
    /srv/audit/15-main`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails, opts.ringsNamed = args, cmd.Flags().Changed("rings")
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return verifyRun(cmd.Context(), opts)
		},
	}
	flags.AddKeys(cmd, &opts.KeyOptions)
	cmdutil.AddFormat(cmd, &opts.Format)
	flags.AddZone(cmd, &opts.TimeZone)
	cmd.Flags().StringArrayVar(&opts.Keys, "key", nil, "check seals with the public key in this `file`, or all "+
		"*.pub in this directory; repeatable")
	cmd.Flags().StringArrayVar(&opts.Anchors, "anchor", nil, "the trail must contain what the anchors in this "+
		"`file` name (- for standard input); repeatable")
	cmd.Flags().StringArrayVar(&opts.Rings, "rings", []string{"/dev/shm"}, "`directory` with the rings of the "+
		"server, or its ring file; repeatable")
	cmd.Flags().StringArrayVar(&opts.AcknowledgedBy, "acknowledged-by", nil, "take acknowledgments that are signed "+
		"with the key of this `file`, or of all *.pub in this directory; repeatable")
	cmd.Flags().BoolVar(&opts.FailOnLoss, "fail-on-loss", false, "end with 1 if records were lost")
	cmd.Flags().StringVar(&opts.MaxAge, "max-age", "", "end with 1 if the last block is older than this `duration`, "+
		"such as 15m")
	cmd.Flags().StringVar(&opts.State, "state", "", "go on from what the run before with this `file` has verified, "+
		"and remember it there")
	cmd.Flags().BoolVar(&opts.Begin, "begin", false, "begin the state: there is none yet, and everything is read")
	cmd.Flags().StringVar(&opts.Sign, "sign", "", "sign the state with the private key in this `file`")
	cmd.Flags().StringVar(&opts.For, "for", "", "go on with a full pass until this `duration` is over, such as 2h; "+
		"it may take many runs")
	return cmdutil.ReadsOnlyWithout(cmd, "state")
}

func verifyRun(ctx context.Context, opts *Options) error {
	if err := iostreams.CheckFormat(opts.Format); err != nil {
		return err
	}
	zone, err := flags.Zone(opts.TimeZone, opts.Format)
	if err != nil {
		return err
	}
	keys, anchors, err := seal.LoadTrust(opts.Keys, opts.Anchors, opts.IO.In)
	if err != nil {
		return err
	}
	checks := verifier.Checks{Keys: keys, Anchors: anchors,
		Requirements: verifier.Requirements{NoLoss: opts.FailOnLoss, Now: time.Now()}}
	if opts.MaxAge != "" {
		if checks.Requirements.MaxAge, err = query.ParseAge(opts.MaxAge); err != nil {
			return exit.Usagef("--max-age: %w", err)
		}
	}
	var remember *verifier.Incremental
	if remember, err = opts.remembering(); err != nil {
		return err
	}
	by := maps.Clone(keys)
	if len(opts.AcknowledgedBy) > 0 {
		if by, err = seal.LoadKeys(opts.AcknowledgedBy); err != nil {
			return err
		}
	}
	// Little memory is in use, and most of it becomes garbage at once, so that it would be collected every few
	// blocks.
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400))
	}
	var report *verifier.Report
	if remember != nil {
		report, err = goOn(ctx, opts, remember, checks, by)
	} else {
		report, err = verifyNow(ctx, opts, checks, by)
	}
	if err != nil {
		return err
	}
	if opts.Format == "json" {
		err = report.WriteJSON(opts.IO.Out)
	} else {
		err = report.WriteText(opts.IO.Out, opts.IO.ColorEnabled(), zone)
		opts.adviseKeys(report)
	}
	return exit.Verdict(exit.CheckResult(report.Damaged() || len(report.Failed) > 0, len(report.Unreadable) > 0), err)
}

// remembering checks the options for the state; nil: there is no state.
func (o *Options) remembering() (r *verifier.Incremental, err error) {
	if o.State == "" {
		if o.Sign != "" || o.For != "" || o.Begin {
			return nil, exit.Usagef("--begin, --sign and --for are of a state: name its file with --state")
		}
		return nil, nil
	}
	if len(o.Trails) > 1 {
		return nil, exit.Usagef("a state is that of one trail: verify each with a state of its own")
	}
	r = &verifier.Incremental{File: o.State, Begin: o.Begin, Now: time.Now(), Bar: func(total int64) *progress.Bar {
		return progress.New(o.IO, total)
	}}
	if o.For != "" {
		if r.Limit, err = query.ParseAge(o.For); err != nil {
			return nil, exit.Usagef("--for: %w", err)
		}
	}
	if o.Sign != "" {
		if r.Sign, err = seal.LoadPrivate(o.Sign); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// goOn verifies what is new. It does not find out whether everything was recorded: that would require reading all of
// the trail.
func goOn(ctx context.Context, opts *Options, remember *verifier.Incremental, checks verifier.Checks,
	by seal.Keys) (*verifier.Report, error) {
	report, t, err := remember.Run(ctx, func() (*trail.Trail, error) {
		return opts.OpenEncrypted(opts.Trails)
	}, checks)
	if err != nil {
		return nil, advised(err)
	}
	if err := report.Acknowledge(t, by); err != nil {
		return nil, err
	}
	opts.ask(report, t)
	return report, nil
}

// adviseKeys prints how to give the keys without which something was not checked.
func (o *Options) adviseKeys(report *verifier.Report) {
	if len(report.SealKeys) > 0 {
		fmt.Fprintf(o.IO.ErrOut, "steno: give the public key %s with --key\n", strings.Join(report.SealKeys, ", "))
	}
	if len(report.EncryptionKeys) > 0 {
		fmt.Fprintf(o.IO.ErrOut, "steno: give the encryption key %s with --encryption-key-command or "+
			"--encryption-key-file\n", strings.Join(report.EncryptionKeys, ", "))
	}
}

// advised adds advice to the error for a state that is refused.
func advised(err error) error {
	var state *verifier.StateError
	switch {
	case errors.As(err, &state) && state.Advice == verifier.BeginState:
		return fmt.Errorf("%w; begin one with --begin, which reads everything", err)
	case errors.As(err, &state) && state.Advice == verifier.GiveKey:
		return fmt.Errorf("%w: give that key with --sign", err)
	}
	return err
}

// rings returns the directories in which the rings of the server are looked for: unless the user has named them, also
// those that the trail states.
func (o *Options) rings(report *verifier.Report) []string {
	paths := slices.Clone(o.Rings)
	for _, one := range report.Recorded {
		if o.ringsNamed {
			break
		}
		for _, dir := range one.RingDirectories() {
			if !slices.Contains(paths, dir) {
				paths = append(paths, dir)
			}
		}
	}
	return paths
}

// askServer warns of losses that the running server knows, and the trail does not have yet; it does nothing if no
// server runs. It returns the number of lost records, or why it is not known of a running server.
func askServer(report *verifier.Report, t *trail.Trail, rings []string) (lost int64, unknown string) {
	server := live.New(t, rings)
	if why := server.Find(); why != "" && server.Postmaster() != 0 {
		return 0, why
	} else if why != "" {
		return 0, ""
	}
	defer server.Close()
	n, err := server.Unrecorded()
	if err != nil {
		return 0, err.Error()
	}
	if n > 0 {
		report.Warn("the running server has dropped %d records of which the trail does not know yet: they are "+
			"recorded when it can write, and their sessions have ended or go on; verify again after steno.flush()", n)
	}
	return int64(n), ""
}

// ask completes a report with what the running server knows, and with what the options demand.
func (o *Options) ask(report *verifier.Report, t *trail.Trail) {
	lost, unknown := askServer(report, t, o.rings(report))
	if lost > 0 && o.FailOnLoss {
		report.Fail("the running server has dropped %d records", lost)
	}
	if unknown != "" && o.FailOnLoss {
		report.Unreadable = append(report.Unreadable, verifier.Problem{What: "what the running server has dropped " +
			"is not known: " + unknown + "; name its rings with --rings"})
	}
	report.Trail = o.Trails
	if len(report.Trail) == 0 {
		report.Trail = []string{t.Path}
	}
}

// tries limits how often a trail is read from which retention deletes segments meanwhile.
const tries = 3

// verifyNow verifies the trail. If the server deletes segments meanwhile, it reads the remaining ones again.
func verifyNow(ctx context.Context, opts *Options, checks verifier.Checks, by seal.Keys) (*verifier.Report, error) {
	for try := 1; ; try++ {
		t, err := opts.OpenEncrypted(opts.Trails)
		if err != nil {
			return nil, err
		}
		bar := progress.New(opts.IO, t.Size())
		report, err := verifier.Trail(ctx, t, bar, checks)
		bar.Done()
		if err != nil {
			return nil, err
		}
		if err := report.Acknowledge(t, by); err != nil {
			return nil, err
		}
		if report.Recorded, err = proof.Recorded(ctx, t.Index(), format.MinTime, format.MaxTime); err != nil {
			return nil, err
		}
		opts.ask(report, t)
		if !report.Outdated() || try == tries {
			return report, nil
		}
	}
}

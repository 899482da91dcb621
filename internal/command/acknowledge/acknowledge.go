// Package acknowledge is "steno acknowledge": its flags, its help, and what it writes.
package acknowledge

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/acknowledge"
	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// Options are the options of acknowledge.
type Options struct {
	IO       *iostreams.IOStreams
	Trail    string
	Problems []string
	Reason   string
	Sign     string
	Unsigned bool
	Keys     []string
	Anchors  []string
	State    string
	query.KeyOptions
}

// NewCmdAcknowledge returns the command. Tests pass a run function of their own.
func NewCmdAcknowledge(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "acknowledge TRAIL [PROBLEM]...",
		Short: "Acknowledge problems of a trail, so that only new ones count",
		Long: `Verify a trail, as steno verify does with the same keys and anchors, and without
PROBLEM list its problems with their IDs. With PROBLEM, which is an ID or all,
write who has acknowledged it, when and why to the file TRAIL.acknowledged.
steno verify then prints the problem with that, and does not count it.

An acknowledgment is of one problem, at one place, in the trail of one server, and
of the bytes that the file has up to its present end: if any of them is changed,
the problem counts again. What the server appends later is another matter. If
there are no such bytes, because something is absent, it is of the present end of
every stream: if a stream does not reach it any more, or its last block is another
one, the problem counts again.

Each line of the file has the hash of the line before, and the signature of --sign,
an Ed25519 key of steno keygen; give its public key to steno verify with
--acknowledged-by. A line that was changed, forged or taken out of the middle is a
problem itself. --unsigned writes a line that anybody who can write the file could
have written: steno verify takes it only if it is given no key. With --sign, what was
acknowledged without a signature can be acknowledged again: then the signed line
counts.

With --state, what the runs of steno verify with that file have found is listed, and
only what is new is read. The state is left as it is.

The trail is not changed. To have the acknowledgment in a server's trail, too,
run the statement that is printed: SELECT steno.note(...).`,
		Example: `  steno acknowledge /var/lib/postgresql/15/main/pg_steno
  steno acknowledge --sign auditor.key \
    --reason 'disk replaced on 3 May, ticket 4711' \
    /var/lib/postgresql/15/main/pg_steno 3fa1b2c4d5e6
  steno verify --acknowledged-by auditor.key.pub \
    /var/lib/postgresql/15/main/pg_steno`,
		Args: cmdutil.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trail, opts.Problems = args[0], args[1:]
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return acknowledgeRun(cmd.Context(), opts)
		},
	}
	flags.AddKeys(cmd, &opts.KeyOptions)
	cmd.Flags().StringVar(&opts.Reason, "reason", "", "why the problem is no news, in a `text`")
	cmd.Flags().StringVar(&opts.Sign, "sign", "", "sign with the private key in this `file`")
	cmd.Flags().BoolVar(&opts.Unsigned, "unsigned", false, "write a line without a signature, which proves nothing")
	cmd.Flags().StringVar(&opts.State, "state", "", "go on from what steno verify has verified with this `file`, "+
		"and do not read everything")
	cmd.Flags().StringArrayVar(&opts.Keys, "key", nil, "check seals with the public key in this `file`, or all "+
		"*.pub in this directory; repeatable")
	cmd.Flags().StringArrayVar(&opts.Anchors, "anchor", nil, "the trail must contain what the anchors in this "+
		"`file` name (- for standard input); repeatable")
	return cmd
}

func acknowledgeRun(ctx context.Context, opts *Options) error {
	var key ed25519.PrivateKey
	var err error
	switch {
	case len(opts.Problems) == 0:
	case strings.TrimSpace(opts.Reason) == "":
		return exit.Usagef("say why with --reason")
	case (opts.Sign == "") != opts.Unsigned:
		return exit.Usagef("sign with --sign, or say --unsigned")
	case opts.Sign != "":
		if key, err = seal.LoadPrivate(opts.Sign); err != nil {
			return err
		}
	}
	keys, anchors, err := seal.LoadTrust(opts.Keys, opts.Anchors, opts.IO.In)
	if err != nil {
		return err
	}
	report, t, err := opts.verify(ctx, verify.Checks{Keys: keys, Anchors: anchors})
	if err != nil {
		return err
	}
	if err := report.Acknowledge(t, nil); err != nil {
		return err
	}
	if len(opts.Problems) == 0 {
		return list(opts.IO.Out, report)
	}
	return write(opts, t.Streams[0].Trail, report, key)
}

// verify finds the problems of the trail.
func (o *Options) verify(ctx context.Context, checks verify.Checks) (*verify.Report, *trail.Trail, error) {
	open := func() (*trail.Trail, error) {
		t, err := o.OpenEncrypted([]string{o.Trail})
		if err == nil && (len(t.Streams) == 0 || t.Streams[0].Trail == "") {
			err = exit.Usagef("%s is not the directory of a trail", o.Trail)
		}
		return t, err
	}
	bar := func(total int64) *progress.Bar { return progress.New(o.IO, total) }
	if o.State != "" {
		r := &verify.Incremental{File: o.State, Now: time.Now(), ReadOnly: true, Bar: bar}
		return r.Run(ctx, open, checks)
	}
	t, err := open()
	if err != nil {
		return nil, nil, err
	}
	b := bar(t.Size())
	defer b.Done()
	report, err := verify.Trail(ctx, t, b, checks)
	return report, t, err
}

// list prints the problems that were not acknowledged.
func list(out io.Writer, report *verify.Report) error {
	for _, p := range report.Problems {
		id := p.ID
		if id == "" {
			id = "-" // a problem of the acknowledgments themselves has no ID
		}
		if _, err := fmt.Fprintf(out, "%-12s  %s\n", id, p); err != nil {
			return err
		}
	}
	for _, a := range report.Acknowledged {
		if _, err := fmt.Fprintf(out, "acknowledged  %s  %s\n", a.ID, &a); err != nil {
			return err
		}
	}
	return nil
}

// write writes the acknowledgments of the named problems.
func write(opts *Options, home string, report *verify.Report, key ed25519.PrivateKey) error {
	open := slices.Clone(report.Problems)
	if key != nil {
		for _, a := range report.Acknowledged {
			if a.Key == "" { // an unsigned acknowledgment can be signed later
				open = append(open, a.Problem)
			}
		}
	}
	var chosen []verify.Problem
	for _, id := range opts.Problems {
		found := false
		for _, p := range open {
			if p.ID != "" && (id == "all" || p.ID == id) {
				found = true
				if !slices.ContainsFunc(chosen, func(o verify.Problem) bool { return o.ID == p.ID }) {
					chosen = append(chosen, p)
				}
			}
		}
		if !found {
			return exit.Usagef("the trail has no problem %q that was not acknowledged: see steno acknowledge %s",
				id, opts.Trail)
		}
	}
	path, err := acknowledge.Path(home)
	if err != nil {
		return err
	}
	entries, err := acknowledge.Load(path, nil)
	if err != nil {
		return err
	}
	for _, p := range chosen {
		e, err := report.Bind(home, &p)
		if err != nil {
			return err
		}
		e.By, e.Time, e.Reason = who(), time.Now().UTC().Format(time.RFC3339), opts.Reason
		if err := entries.Add(path, e, key); err != nil {
			return err
		}
		fmt.Fprintf(opts.IO.Out, "acknowledged  %s  %s\n", p.ID, p)
		note := fmt.Sprintf("acknowledged problem %s of the trail: %s (%s)", p.ID, p.What, e.Reason)
		fmt.Fprintf(opts.IO.Out, "note          SELECT steno.note('%s')\n",
			render.Safe(strings.ReplaceAll(note, "'", "''")))
	}
	return nil
}

// account returns the name of an account in the file of the system's local accounts.
func account(uid int) string {
	if uid < 0 {
		return os.Getenv("USERNAME") // Windows
	}
	data, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(data)) {
		if fields := strings.Split(line, ":"); len(fields) > 2 && fields[2] == fmt.Sprint(uid) {
			return fields[0]
		}
	}
	return fmt.Sprintf("uid %d", uid)
}

// who returns the name of the person who runs the program, as far as the system knows.
func who() string {
	name := account(os.Getuid())
	if by := os.Getenv("SUDO_USER"); by != "" && by != name {
		name = by + " as " + name
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

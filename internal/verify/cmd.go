package verify

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/cat"
	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// Options are verify's.
type Options struct {
	IO     *iostreams.IOStreams
	Trails []string
	Format string
}

// NewCmdVerify returns the command. Tests give a run function of their own.
func NewCmdVerify(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "verify [TRAIL|SEGMENT]...",
		Short: "Prove that a trail is whole",
		Long: `Read all of a trail and check every checksum, the hash chain of every stream,
the numbers of segments, blocks and records, and that no session lacks a
sequence number that no gap record stands for.

The exit code is 0 when the trail is whole and 1 when it is damaged. A last
block that the server did not finish writing is a warning, not damage.`,
		Example: `  steno verify
  steno verify /var/lib/postgresql/15/main/pg_steno
  steno verify --format json | jq .problems`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails = args
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return verifyRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(&opts.Format, "format", "o", "text", "output `format`: text or json")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func verifyRun(ctx context.Context, opts *Options) error {
	if opts.Format != "text" && opts.Format != "json" {
		return cmdutil.Usagef("invalid format %q: use text or json", opts.Format)
	}
	report, err := verifyNow(ctx, opts)
	if err != nil {
		return err
	}
	if opts.Format == "json" {
		err = report.WriteJSON(opts.IO.Out)
	} else {
		err = report.WriteText(opts.IO.Out, opts.IO.ColorEnabled())
	}
	if err == nil && !report.Whole {
		err = cmdutil.ErrFailed
	}
	return err
}

// tries bounds how often a trail is read that loses segments by policy meanwhile.
const tries = 3

// verifyNow verifies the trail as it is: when the server deletes segments in the
// middle of it, what is left is read again.
func verifyNow(ctx context.Context, opts *Options) (*Report, error) {
	for try := 1; ; try++ {
		t, err := cat.OpenTrails(opts.Trails)
		if err != nil {
			return nil, err
		}
		bar := progress.New(opts.IO, t.Size())
		report, err := Trail(ctx, t, bar)
		bar.Done()
		if err != nil {
			return nil, err
		}
		report.Trail = opts.Trails
		if len(report.Trail) == 0 {
			report.Trail = []string{t.Path}
		}
		if !report.outdated || try == tries {
			return report, nil
		}
	}
}

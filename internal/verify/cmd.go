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
	cat.KeyFlags
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

Checksums and chain are those of what is stored, so an encrypted trail is checked
without its keys, but for what stands in its records: sequence numbers, times,
data parts. With the keys, these are checked, too, and that it was encrypted
with them.

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
	opts.KeyFlags.Add(cmd)
	cmd.Flags().StringVarP(&opts.Format, "format", "o", "text", "output `format`: text or json")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func verifyRun(ctx context.Context, opts *Options) error {
	if opts.Format != "text" && opts.Format != "json" {
		return cmdutil.Usagef("invalid format %q: use text or json", opts.Format)
	}
	t, err := opts.OpenEncrypted(opts.Trails)
	if err != nil {
		return err
	}
	bar := progress.New(opts.IO, t.Size())
	report, err := Trail(ctx, t, bar)
	bar.Done()
	if err != nil {
		return err
	}
	report.Trail = opts.Trails
	if len(report.Trail) == 0 {
		report.Trail = []string{t.Path}
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

// The command that copies a trail back.

package ship

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/s3"
)

// FetchOptions are the options of fetch.
type FetchOptions struct {
	IO *iostreams.IOStreams
	s3.FetchOptions
	Config string
	Sink   string
}

// NewCmdFetch returns the command. Tests give a run function of their own.
func NewCmdFetch(f *cmdutil.Factory, run func(context.Context, *FetchOptions) error) *cobra.Command {
	opts := &FetchOptions{IO: f.IO}
	opts.Options, opts.TLS = &s3.Options{}, &ship.TLS{}
	cmd := &cobra.Command{
		Use:   "fetch s3://BUCKET/PREFIX DIR",
		Short: "Copy a trail from an object store into a directory",
		Long: `Copy what "steno ship" has sent to an object store into a directory, in which all
commands can read it: "steno verify DIR" says what it says at the source. Segments
are taken whole if they were finished, and else joined from parts. Content that
is not what the name of its object says is never taken. In a bucket with versions,
objects that were deleted or replaced are read as they were written first.

The same command goes on where an earlier one ended, and adds what is new. DIR
must not exist, be empty, or be of an earlier fetch.

If a stream went back, as after a restore from a backup, or a file was changed at
the source after its blocks were shipped, all that was shipped is kept apart: DIR
has what was shipped first, DIR.2 and so on what was shipped otherwise later.

A prefix may have the trails of several servers: --server names one. The login is
that of --config and --sink, or of the usual environment variables and profiles.

The exit code is 1 if something was deleted, replaced or is missing in the bucket:
warnings name it.`,
		Example: `  steno fetch s3://audit/prod trail
  steno fetch "s3://audit/prod?endpoint=https://s3.example.com" trail \
    --server 7654321098765432109
  steno fetch s3://audit/prod trail --config /etc/steno/ship.yaml --sink s3`,
		Args: cmdutil.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.From, opts.Dir = args[0], args[1]
			if err := cmdutil.RefuseEmpty(cmd, "config", "sink", "ca"); err != nil {
				return err
			}
			if (opts.Config == "") != (opts.Sink == "") {
				return exit.Usagef("--config and --sink belong together: the login of which sink")
			}
			if !strings.HasPrefix(opts.From, "s3://") {
				return exit.Usagef("%q is not a URL such as s3://bucket/prefix", opts.From)
			}
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return fetchRun(cmd.Context(), opts)
		},
	}
	fl := cmd.Flags()
	fl.Uint64Var(&opts.Server, "server", 0, "the system `identifier` of the server, if there are several")
	fl.StringVar(&opts.Config, "config", "", "take login and TLS from this configuration `file` of steno ship")
	fl.StringVar(&opts.Sink, "sink", "", "the `name` of the sink in it")
	fl.StringVar(&opts.TLS.CA, "ca", "", "verify the service by the certificates in this `file`, instead of the "+
		"system's")
	return cmd
}

func fetchRun(ctx context.Context, o *FetchOptions) error {
	if o.Config != "" {
		c, err := ship.Load(o.Config, kinds)
		if err != nil {
			return &exit.UsageError{Err: err}
		}
		sink := c.Sinks[o.Sink]
		if sink == nil || sink.Kind != s3.Kind {
			return exit.Usagef("--sink: %s has no sink %q of kind S3", o.Config, o.Sink)
		}
		o.Options, o.TLS = sink.Options.(*s3.Options), &sink.TLS
	}
	failed := false
	o.Note = func(text string) { fmt.Fprintf(o.IO.ErrOut, "steno: %s\n", render.Safe(text)) }
	o.Warn = func(text string) {
		failed = true
		o.Note("warning: " + text)
	}
	fetched, err := s3.Fetch(ctx, &o.FetchOptions)
	if several := (*s3.ServersError)(nil); errors.As(err, &several) {
		return exit.Usagef("%w: choose one with --server", err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.IO.Out, "server %d: %d segments in %s; %d are new, %s downloaded\n", fetched.Server,
		fetched.Segments, render.Safe(strings.Join(fetched.Dirs, ", ")), fetched.New,
		humanize.IBytes(uint64(fetched.Bytes)))
	return exit.Verdict(exit.CheckResult(failed, false), err)
}

// Package seal is "steno seal": its flags, its help, and what it prints.
package seal

import (
	"context"
	"fmt"

	seals "github.com/pg-steno/pg_steno/internal/seal"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
)

// ExportOptions are the options of "steno seal export".
type ExportOptions struct {
	IO     *iostreams.IOStreams
	Trails []string
	Format string
	query.KeyOptions
}

// NewCmdSeal returns the command with its subcommands.
func NewCmdSeal(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seal COMMAND",
		Short: "Export what proves the end of a trail",
	}
	cmd.AddCommand(newCmdExport(f, nil))
	return cmdutil.Group(cmd)
}

func newCmdExport(f *cmdutil.Factory, run func(context.Context, *ExportOptions) error) *cobra.Command {
	opts := &ExportOptions{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "export [TRAIL]",
		Short: "Print an anchor for each stream, to be kept elsewhere",
		Long: `Print one line for each stream of a trail: the number and the chain hash of its
last block; with its seal, if that block is sealed and only seals follow it.
Keep these lines where nobody who can change the trail can change them: on
another machine, in an email, on paper. They prove later that the trail still
contains everything up to there: see steno verify --anchor.

Seals are in the encrypted part of a trail: without its keys, the lines of an
encrypted trail have no seals, and prove just as much.`,
		Example: `  steno seal export /var/lib/postgresql/15/main/pg_steno \
    | ssh vault 'cat >> anchors'
  ssh vault cat anchors \
    | steno verify --anchor - /var/lib/postgresql/15/main/pg_steno`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails = args
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return exportRun(opts)
		},
	}
	flags.AddKeys(cmd, &opts.KeyOptions)
	cmdutil.AddFormat(cmd, &opts.Format)
	return cmdutil.ReadsOnly(cmd)
}

func exportRun(opts *ExportOptions) error {
	if err := iostreams.CheckFormat(opts.Format); err != nil {
		return err
	}
	t, err := opts.OpenEncrypted(opts.Trails)
	if err != nil {
		return err
	}
	damaged, unread := false, len(t.Errors) > 0
	for _, err := range t.Errors {
		fmt.Fprintf(opts.IO.ErrOut, "steno: %s\n", render.Safe(err.Error()))
	}
	anchors := 0
	for _, s := range t.Streams {
		a, errs := seals.Last(s)
		for _, err := range errs {
			if exit.IsUnreadable(err) {
				fmt.Fprintf(opts.IO.ErrOut, "steno: unreadable: %s\n", render.Safe(err.Error()))
				unread = true
				continue
			}
			fmt.Fprintf(opts.IO.ErrOut, "steno: damaged: %s\n", render.Safe(err.Error()))
			damaged = true
		}
		if a == nil {
			continue
		}
		anchors++
		if opts.Format == "json" {
			err = a.WriteJSON(opts.IO.Out)
		} else {
			_, err = fmt.Fprintln(opts.IO.Out, a)
		}
		if err != nil {
			return exit.Verdict(exit.CheckResult(damaged, unread), err)
		}
	}
	if anchors == 0 && !damaged && !unread {
		return fmt.Errorf("%s: there is no block yet", t.Path)
	}
	return exit.CheckResult(damaged, unread)
}

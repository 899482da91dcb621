// Package cmdtest is what tests of commands share.
package cmdtest

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// Parse parses a command line, in which no word has a space, and returns the options
// that the command would run with, or nil and why it would not.
func Parse[O any](
	streams *iostreams.IOStreams, newCmd func(*cmdutil.Factory, func(context.Context, *O) error) *cobra.Command, line string,
) (*O, error) {
	var got *O
	cmd := newCmd(&cmdutil.Factory{IO: streams, Version: "1.2"}, func(_ context.Context, o *O) error {
		got = o
		return nil
	})
	cmd.SetArgs(strings.Fields(line))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(context.Background())
	return got, err
}

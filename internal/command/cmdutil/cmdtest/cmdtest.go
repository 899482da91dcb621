// Package cmdtest is what tests of commands share.
package cmdtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// constructor is what makes a command that runs with options of its own.
type constructor[O any] func(*cmdutil.Factory, func(context.Context, *O) error) *cobra.Command

// Parse parses a command line, in which no word has a space, and returns the options
// that the command would run with, or nil and why it would not.
func Parse[O any](newCmd constructor[O], line string) (*O, error) {
	streams, _, _, _ := iostreams.Test()
	return ParseWith(streams, newCmd, line)
}

// ParseWith does so for a command that will run with these streams.
func ParseWith[O any](streams *iostreams.IOStreams, newCmd constructor[O], line string) (*O, error) {
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

// Refused tests that each of these command lines is wrong usage, and that its error
// has the text.
func Refused[O any](t *testing.T, newCmd constructor[O], lines map[string]string) {
	t.Helper()
	for line, want := range lines {
		_, err := Parse(newCmd, line)
		var usage *exit.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a usage error with %q", line, err, want)
		}
	}
}

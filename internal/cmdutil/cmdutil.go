// Package cmdutil holds what all subcommands share: the factory that they are
// built from, and the errors that become exit codes.
package cmdutil

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// Factory is what a subcommand's constructor is given.
type Factory struct {
	IO      *iostreams.IOStreams
	Version string
}

// ErrFailed ends the program with exit code 1 and says no more: the command
// has already reported what is damaged or which check failed.
var ErrFailed = errors.New("check failed")

// UsageError is a wrong use of the command line: exit code 2.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// Args makes an argument check of cobra's a usage error.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &UsageError{err}
		}
		return nil
	}
}

// Package exit has the exit codes of the programs, and the errors that become them.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"syscall"
)

// Exit codes of the program, the whole list. A command that a signal ends has
// 128 and the signal's number, as shells count: 130 after Ctrl-C, 143 after
// SIGTERM.
const (
	OK     = 0
	Failed = 1 // the trail is damaged, or a check failed
	Usage  = 2 // wrong usage, including a path that is not a trail
	Error  = 3 // the command could not do its work: no permission, a missing key, an I/O error
)

// ErrFailed ends the program with Failed and prints nothing: the command has
// already reported what is damaged or which check failed.
var ErrFailed = errors.New("check failed")

// ErrUnchecked ends the program with Error and prints nothing: the command has
// already reported what it could not read or check.
var ErrUnchecked = errors.New("could not check everything")

// ErrStopped is how a command ends that goes on until a signal comes: with the
// signal's exit code, and without a message.
var ErrStopped = fmt.Errorf("stopped: %w", context.Canceled)

// IsClosedPipe says whether a write failed because nobody reads any more.
func IsClosedPipe(err error) bool {
	// Windows has errors of its own for it: ERROR_BROKEN_PIPE and ERROR_NO_DATA.
	return errors.Is(err, syscall.EPIPE) ||
		runtime.GOOS == "windows" && (errors.Is(err, syscall.Errno(109)) || errors.Is(err, syscall.Errno(232)))
}

// Verdict is the error of a command that has written its result: what it found
// counts for more than whether somebody read it, so a closed pipe never turns a
// failed check into success.
func Verdict(found, written error) error {
	switch {
	case found == nil:
		return written
	case written == nil, IsClosedPipe(written):
		return found
	default:
		return &unwritten{found, written}
	}
}

// unwritten is a verdict that could not be written: its text says why, its exit
// code is the verdict's.
type unwritten struct{ found, written error }

func (e *unwritten) Error() string { return e.written.Error() }

func (e *unwritten) Unwrap() []error { return []error{e.found, e.written} }

// CheckResult is the result of a check: ErrFailed when something is damaged, else
// ErrUnchecked when something could not be checked, else nil.
func CheckResult(damaged, unchecked bool) error {
	switch {
	case damaged:
		return ErrFailed
	case unchecked:
		return ErrUnchecked
	default:
		return nil
	}
}

// IsUnreadable tells errors that say nothing about a file's contents, such as a
// denied permission, from damage.
func IsUnreadable(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist)
}

// UsageError is a wrong use of the command line: Usage.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

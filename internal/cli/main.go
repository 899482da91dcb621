package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// Exit codes, the whole list.
const (
	exitOK     = 0
	exitFailed = 1 // the trail is damaged, or a check or the command failed
	exitUsage  = 2
)

// Main runs the program with the process's arguments and streams and returns
// its exit code.
func Main() int {
	// A write to a closed pipe must come back as an error, to end the
	// command in order, rather than kill the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Run(ctx, os.Args[1:], iostreams.System())
}

// Run runs one command line.
func Run(ctx context.Context, args []string, streams *iostreams.IOStreams) int {
	root := New(streams)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var usage *cmdutil.UsageError
	switch {
	case errors.Is(err, syscall.EPIPE):
		return exitOK
	case errors.Is(err, cmdutil.ErrFailed):
		return exitFailed
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		fmt.Fprintf(streams.ErrOut, "steno: %s\nTry \"%s --help\".\n", err, cmd.CommandPath())
		return exitUsage
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(streams.ErrOut, "steno: interrupted")
		return exitFailed
	default:
		fmt.Fprintf(streams.ErrOut, "steno: %s\n", err)
		return exitFailed
	}
}

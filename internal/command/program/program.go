// Package program has what steno and the programs beside it share: signals, the one place where errors become text
// and exit codes, manual pages, and how one program runs another.
//
// The manual pages are not made by cobra/doc: it makes a page of each command, through
// Markdown, in which stars and underscores of our texts mean something, and steno would
// link four packages more.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// signaled is the cause of a context that a signal has cancelled.
type signaled struct{ syscall.Signal }

func (s signaled) Error() string { return "interrupted by " + s.Signal.String() }

// Main runs the program with the process's arguments and streams and returns
// its exit code. newRoot makes its command tree.
func Main(newRoot func(*iostreams.IOStreams) *cobra.Command) int {
	// A write to a closed pipe must come back as an error, to end the command in
	// order, rather than kill the process. Ignoring the signal would do that, too,
	// but key commands would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	typed = os.Getenv(runBy)
	os.Unsetenv(runBy) // a command that gives keys may be one of these programs, too
	ctx, stop := signalContext()
	defer stop()
	return Run(ctx, newRoot(iostreams.System()), os.Args[1:])
}

// signals receives the signals that end the program.
var signals = make(chan os.Signal, 1)

// interrupted is called for SIGINT instead, if it is set.
var interrupted atomic.Pointer[func()]

// HandleInterrupt makes SIGINT call a function, for a program that goes on after it, until
// the function that it returns is called.
func HandleInterrupt(f func()) (reset func()) {
	interrupted.Store(&f)
	signal.Notify(signals, syscall.SIGINT) // a pager may have had it ignored
	return func() { interrupted.Store(nil) }
}

// signalContext returns a context that the first SIGINT or SIGTERM cancels. The
// second one ends the process at once.
func signalContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for one := range signals {
			if f := interrupted.Load(); f != nil && one == syscall.SIGINT {
				(*f)()
				continue
			}
			if s, ok := one.(syscall.Signal); ok {
				signal.Reset(syscall.SIGINT, syscall.SIGTERM)
				cancel(signaled{s})
			}
			return
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Run runs one command line.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	limitMemory()
	limitProcessors()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	if len(args) > 1 && args[0] == "help" {
		if cmd, rest, err := root.Find(args[1:]); err != nil || cmd.HasSubCommands() && len(rest) > 0 {
			args = append(args[1:], "--help") // help about an unknown command is an error, too
		}
	}
	cmd, rest, err := root.Find(args)
	if err == nil && cmd.HasSubCommands() && len(rest) > 1 && !strings.HasPrefix(rest[0], "-") &&
		!strings.HasPrefix(rest[0], "__") {
		args = args[:len(args)-len(rest)+1] // an unknown command has no --help
	}
	root.SetArgs(args)
	if found := cmd; err == nil {
		defer context.AfterFunc(ctx, func() {
			if cmdutil.IsReadsOnly(found) {
				endSoon(ctx)
			}
		})()
	}
	cmd, err = root.ExecuteContextC(ctx)
	return exitCode(ctx, err, cmd)
}

// patience is the time that a command that only reads may continue after a signal: it may be decoding a statement of
// a gigabyte, or writing into a pipe that nothing reads.
const patience = 500 * time.Millisecond

// endSoon ends the process some time after a signal, if its command has not ended by then.
func endSoon(ctx context.Context) {
	if signal := (signaled{}); errors.As(context.Cause(ctx), &signal) {
		time.Sleep(patience)
		os.Exit(128 + int(signal.Signal))
	}
}

// exitCode turns a command's error into text and exit code. No other place does that.
func exitCode(ctx context.Context, err error, cmd *cobra.Command) int {
	errOut, name, path := cmd.ErrOrStderr(), cmd.Root().Name(), cmd.CommandPath()
	if typed != "" {
		name, path = typed, typed+strings.TrimPrefix(path, name)
	}
	var signal signaled
	var usage *exit.UsageError
	var status *exit.StatusError
	say := func() { fmt.Fprintf(errOut, "%s: %s%s\n", name, err, advice(err)) }
	switch {
	case err == nil:
		return exit.OK
	case errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &signal):
		if !errors.Is(err, exit.ErrStopped) {
			fmt.Fprintf(errOut, "%s: interrupted\n", name)
		}
		return 128 + int(signal.Signal)
	case errors.As(err, &status):
		return status.Code
	case errors.Is(err, exit.ErrFailed):
		if err != exit.ErrFailed {
			say()
		}
		return exit.Failed
	case errors.Is(err, exit.ErrUnchecked):
		if err != exit.ErrUnchecked {
			say()
		}
		return exit.Error
	case exit.IsClosedPipe(err):
		return exit.OK
	case errors.As(err, &usage):
		fmt.Fprintf(errOut, "%s: %s\nTry \"%s --help\".\n", name, err, path)
		return exit.Usage
	default:
		say()
		return exit.Error
	}
}

// Group completes the root command of a program, which has its name and texts, with
// what every program has: streams, version, usage errors, and the commands version and
// man. Environment is the manual page's section of variables, as roff.
func Group(root *cobra.Command, f *cmdutil.Factory, environment string) *cobra.Command {
	name := root.Name()
	root.Version = f.Version
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.DisableAutoGenTag = true
	root.SetIn(f.IO.In)
	root.SetOut(f.IO.Out)
	root.SetErr(f.IO.ErrOut)
	root.SetVersionTemplate(versionLine(name, f.Version))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &exit.UsageError{Err: err}
	})
	cmdutil.UseHelp(root)
	root.AddCommand(newVersionCmd(f, name), newManCmd(f, name, environment))
	root.SetGlobalNormalizationFunc(oneName)
	return cmdutil.Group(root)
}

// oneName normalizes flags that had several names: one name is used in all commands, and the earlier ones are still
// understood.
func oneName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "output":
		name = "out"
	case "pairs":
		name = "rounds"
	}
	return pflag.NormalizedName(name)
}

// Release is the version that these sources are, or will be.
const Release = "0.9.0"

// Commit is set by the linker where the sources are in a repository, as git describe names the commit:
// -X github.com/pg-steno/pg_steno/internal/command/program.Commit=29d5a12.
var Commit = ""

// GetVersion returns the release, and the commit unless that is the release's.
func GetVersion() string {
	if Commit == "" || Commit == "v"+Release {
		return Release
	}
	return Release + "+" + Commit
}

func newVersionCmd(f *cmdutil.Factory, name string) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the program's version",
		Example: "  " + name + " version",
		Args:    cmdutil.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(f.IO.Out, versionLine(name, f.Version))
			return err
		},
	}
}

// versionLine is what "steno version" and "steno --version" print.
func versionLine(name, version string) string {
	return fmt.Sprintf("%s %s (trail format %d, %s, %s/%s)\n", name, version, format.FormatVersion, runtime.Version(),
		runtime.GOOS, runtime.GOARCH)
}

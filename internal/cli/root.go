// Package cli is the program steno: its command tree, and the one place where
// errors become text and exit codes.
package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/bench"
	"github.com/pg-steno/pg_steno/internal/bench/clock"
	"github.com/pg-steno/pg_steno/internal/bench/commands"
	"github.com/pg-steno/pg_steno/internal/bench/compare"
	"github.com/pg-steno/pg_steno/internal/bench/ipc"
	"github.com/pg-steno/pg_steno/internal/bench/logging"
	"github.com/pg-steno/pg_steno/internal/bench/replication"
	"github.com/pg-steno/pg_steno/internal/cat"
	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/demo"
	"github.com/pg-steno/pg_steno/internal/info"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/keygen"
	"github.com/pg-steno/pg_steno/internal/profile"
	"github.com/pg-steno/pg_steno/internal/recovery"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// Version is set by the linker: -X github.com/pg-steno/pg_steno/internal/cli.Version=1.2.3.
var Version = ""

func version() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}

// New returns the root command with all subcommands.
func New(streams *iostreams.IOStreams) *cobra.Command {
	f := &cmdutil.Factory{IO: streams, Version: version(), SlotWants: slot.Wants}
	root := &cobra.Command{
		Use:   "steno",
		Short: "Read, search and prove the audit trail of a PostgreSQL server",
		Long: `steno reads the trail that the PostgreSQL extension pg_steno writes: every
statement, connection and failure of a server.

Exit codes: 0 fine; 1 the trail is damaged, or a check failed; 2 wrong usage,
such as a path that is not a trail; 3 the command could not do its work, such as
read a file without permission or a segment without its key; 130 and 143 after
SIGINT (Ctrl-C) and SIGTERM. A closed pipe, as in "steno cat | head", is no error.`,
		Version:           f.Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetVersionTemplate(versionLine(f.Version))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &cmdutil.UsageError{Err: err}
	})
	root.AddCommand(
		cat.NewCmdCat(f, nil),
		cat.NewCmdTail(f, nil),
		verify.NewCmdVerify(f, nil),
		seal.NewCmdSeal(f),
		keygen.NewCmdKeygen(f, nil),
		recovery.NewCmdRecover(f, nil),
		info.NewCmdInfo(f, nil),
		slot.NewCmdSlot(f),
		bench.NewCmdBench(f, logging.NewCmd(f), clock.NewCmd(f), ipc.NewCmd(f), replication.NewCmd(f), commands.NewCmd(f), compare.NewCmd(f)),
		profile.NewCmdProfile(f, nil),
		demo.NewCmdDemo(f),
		newVersionCmd(f),
		newManCmd(f),
	)
	return cmdutil.Group(root)
}

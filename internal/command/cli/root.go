// Package cli is the program steno: its command tree.
package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/acknowledge"
	"github.com/pg-steno/pg_steno/internal/command/cat"
	"github.com/pg-steno/pg_steno/internal/command/check"
	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/command/info"
	"github.com/pg-steno/pg_steno/internal/command/keygen"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/command/prove"
	recovery "github.com/pg-steno/pg_steno/internal/command/recover"
	"github.com/pg-steno/pg_steno/internal/command/report"
	"github.com/pg-steno/pg_steno/internal/command/review"
	"github.com/pg-steno/pg_steno/internal/command/schema"
	"github.com/pg-steno/pg_steno/internal/command/seal"
	"github.com/pg-steno/pg_steno/internal/command/slot"
	"github.com/pg-steno/pg_steno/internal/command/verify"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	slots "github.com/pg-steno/pg_steno/internal/slot"
)

// Main is the program. It runs other programs for commands that are not its own.
func Main() int {
	if external := findExternal(os.Args[1:]); external != nil {
		code, err := external.Run()
		if err != nil {
			fmt.Fprintf(os.Stderr, "steno: %s\n", err)
			return exit.Error
		}
		return code
	}
	return program.Main(New)
}

// New returns the root command with all subcommands.
func New(streams *iostreams.IOStreams) *cobra.Command {
	f := &cmdutil.Factory{IO: streams, Version: program.GetVersion(), SlotBlocks: slots.NeededBlocks}
	root := &cobra.Command{
		Use:   "steno",
		Short: "Read, search and verify the audit trail of a PostgreSQL server",
		Long: `steno reads the trail that the PostgreSQL extension pg_steno writes: every
statement, connection and failure of a server.

"steno NAME" runs the program steno-NAME if steno has no such command, and the
program is in the same directory or in PATH. It runs the commands of four other
programs in the same way: steno-query(1) answers questions in SQL and exports
records, steno-top(1) shows a running server, steno-ship(1) takes the trail to
where it is out of reach, and steno-lab(1) has measurements and experiments.

Exit codes: 0: success. 1: the trail is damaged, or a check failed. 2: wrong
usage, such as a path that is not a trail. 3: the command could not do its work,
for example because it may not read a file or lacks the key of a segment. 130
and 143: ended by SIGINT (Ctrl-C) or SIGTERM. A closed pipe, as in "steno cat |
head", is not an error. "steno check" has those of Nagios.`,
	}
	root.AddCommand(
		cat.NewCmdCat(f, nil),
		cat.NewCmdTail(f, nil),
		verify.NewCmdVerify(f, nil),
		check.NewCmdCheck(f, nil),
		acknowledge.NewCmdAcknowledge(f, nil),
		prove.NewCmdProve(f, nil),
		report.NewCmdReport(f, nil),
		review.NewCmdReview(f),
		seal.NewCmdSeal(f),
		keygen.NewCmdKeygen(f, nil),
		recovery.NewCmdRecover(f, nil),
		info.NewCmdInfo(f, nil),
		schema.NewCmdSchema(f),
		slot.NewCmdSlot(f),
		flags.NewTopic(),
	)
	program.Group(root, f, `.TP
.B STENO_DIRECTORY
The trail that is read when none is named.
.TP
.B PGDATA
The data directory of a server; its pg_steno is the trail when STENO_DIRECTORY is not set.
.TP
.B STENO_ENCRYPTION_KEY_COMMAND
A shell command that prints keys of encrypted segments, if no option names one.
.TP
.B STATE_DIRECTORY, XDG_STATE_HOME
Where steno check keeps what it knows, if --state names no file.
.TP
.B PAGER
The program that shows output of steno cat on a terminal; less if it is not set.
.TP
.B GOMAXPROCS, GOMEMLIMIT
How many processors are used, by default up to 8, and above how much memory garbage is collected more often (2GiB).
`)
	addOthers(root)
	return root
}

// ---- the commands of other programs, in the help of steno, and as programs that it starts ----

// others are the programs that come with steno, with what help says of their commands. Steno
// links nothing of them.
var others = []struct {
	program  string
	pack     string // the Debian package
	commands []struct{ name, short string }
}{
	{"steno-query", "steno", []struct{ name, short string }{
		{"query", "Ask a trail in SQL"},
		{"export", "Export records as Parquet, CSV, JSON lines or a DuckDB database"},
	}},
	{"steno-top", "steno", []struct{ name, short string }{
		{"top", "Show the activity of a server on a terminal, live or at a past moment"},
	}},
	{"steno-ship", "steno", []struct{ name, short string }{
		{"ship", "Take the trail to object stores, Kafka and log tools, while the server runs"},
		{"fetch", "Copy a trail from an object store into a directory"},
	}},
	{"steno-lab", "steno-lab", []struct{ name, short string }{
		{"bench", "Measure what recording costs"},
		{"profile", "Show where a running server's time goes, and what could be saved"},
		{"demo", "Show pg_steno at work on throw-away servers"},
		{"chaos", "Test the trail under random load and random faults"},
		{"regress", "Compare a server's own log with its trail"},
		{"drivers", "Compare log, statistics and trail while real clients work"},
	}},
}

// owner is the program that has a command; empty: steno itself, or none.
func owner(name string) string {
	for _, o := range others {
		for _, c := range o.commands {
			if c.name == name {
				return o.program
			}
		}
	}
	return ""
}

// findExternal returns the program that a command line is for when it is not for steno.
func findExternal(args []string) *program.External {
	if len(args) == 0 {
		return nil
	}
	name := args[0]
	if len(args) > 1 && (name == "help" || name == "__complete" || name == "__completeNoDesc") {
		name = args[1]
	}
	if owner(name) == "" {
		root := New(iostreams.System())
		root.InitDefaultHelpCmd()
		root.InitDefaultCompletionCmd()
		if c, _, err := root.Find([]string{name}); err == nil && c != root {
			return nil
		}
	}
	return program.FindExternal(args, owner)
}

// addOthers adds the commands of the other programs for help and completion. They run when
// their program is not found.
func addOthers(root *cobra.Command) {
	const own = "own"
	root.AddGroup(&cobra.Group{ID: own, Title: "Commands:"})
	root.SetHelpCommandGroupID(own)
	root.SetCompletionCommandGroupID(own)
	for _, c := range root.Commands() {
		if !c.IsAdditionalHelpTopicCommand() {
			c.GroupID = own
		}
	}
	for _, o := range others {
		root.AddGroup(&cobra.Group{ID: o.program, Title: "Commands of " + o.program + ":"})
		for _, c := range o.commands {
			root.AddCommand(program.MarkExternal(&cobra.Command{
				Use: c.name, Short: c.short, GroupID: o.program, DisableFlagParsing: true,
				RunE: func(*cobra.Command, []string) error {
					return fmt.Errorf("\"%s\" is a command of %s, which is neither beside steno nor in PATH: "+
						"install the package %s of Debian, or all programs with \"make install\" in the sources",
						c.name, o.program, o.pack)
				},
			}))
		}
	}
}

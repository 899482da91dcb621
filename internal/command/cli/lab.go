// The commands of steno-lab as steno shows them: in its help, and as programs that it
// starts.

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// labCommands are the commands of steno-lab, with what help says of them. Steno links
// nothing of them.
var labCommands = []struct{ name, short string }{
	{"bench", "Measure what recording costs"},
	{"profile", "Show where a running server's time goes, and what could be saved"},
	{"demo", "Show pg_steno at work on throw-away servers"},
	{"chaos", "Test the trail under random load and random faults"},
	{"regress", "Compare a server's own log with its trail"},
}

func isOfLab(name string) bool {
	for _, c := range labCommands {
		if c.name == name {
			return true
		}
	}
	return false
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
	if !isOfLab(name) {
		root := New(iostreams.System())
		root.InitDefaultHelpCmd()
		root.InitDefaultCompletionCmd()
		if c, _, err := root.Find([]string{name}); err == nil && c != root {
			return nil
		}
	}
	return program.FindExternal(args, isOfLab)
}

// addLabCommands adds the commands of steno-lab for help and completion. They run when
// steno-lab is not found.
func addLabCommands(root *cobra.Command) {
	const own, group = "own", "lab"
	root.AddGroup(&cobra.Group{ID: own, Title: "Commands:"}, &cobra.Group{ID: group, Title: "Commands of steno-lab:"})
	root.SetHelpCommandGroupID(own)
	root.SetCompletionCommandGroupID(own)
	for _, c := range root.Commands() {
		c.GroupID = own
	}
	for _, c := range labCommands {
		root.AddCommand(program.Elsewhere(&cobra.Command{
			Use: c.name, Short: c.short, GroupID: group, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return fmt.Errorf("\"%s\" is a command of steno-lab, which is neither beside steno nor in PATH: "+
					"run \"make install\" in the source tree of pg_steno, or \"go install github.com/pg-steno/pg_steno/cmd/steno-lab@latest\"", c.name)
			},
		}))
	}
}

package program

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
)

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
	root.AddCommand(newVersionCmd(f, name), newManCmd(f, name, environment))
	return cmdutil.Group(root)
}

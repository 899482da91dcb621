// Package cmdutil has what all subcommands share: the factory that they are built from, their flags, their help, and
// the errors that become exit codes.
package cmdutil

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// Factory is passed to the constructors of subcommands.
type Factory struct {
	IO      *iostreams.IOStreams
	Version string
	// SlotBlocks finds a trail's slot: the number of the first block that it wants of
	// a stream.
	SlotBlocks func(trail, slot string) (func(stream uint32) uint64, error)
}

// Args makes an argument check of cobra's a usage error.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &exit.UsageError{Err: err}
		}
		return nil
	}
}

// readsOnly is the annotation of commands that only read: always, or if they do not have a flag.
const (
	readsOnly = "reads only"
	always    = "true"
)

// ReadsOnly marks a command that leaves nothing behind when it is interrupted, so that it can be ended at once.
func ReadsOnly(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{readsOnly: always}
	return cmd
}

// ReadsOnlyWithout marks a command that only reads unless a flag is given.
func ReadsOnlyWithout(cmd *cobra.Command, flag string) *cobra.Command {
	cmd.Annotations = map[string]string{readsOnly: flag}
	return cmd
}

// IsReadsOnly reports whether a command is marked by ReadsOnly or ReadsOnlyWithout.
func IsReadsOnly(cmd *cobra.Command) bool {
	flag := cmd.Annotations[readsOnly]
	return flag != "" && (flag == always || !cmd.Flags().Changed(flag))
}

// Group makes a command that only has subcommands refuse unknown ones. Otherwise, cobra would show the help and exit
// with 0.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text += fmt.Sprintf(": did you mean %q?", near[0])
		}
		return exit.Usagef("%s", text)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SuggestionsMinimumDistance = 2
	return cmd
}

// AddFormat adds --format to a command whose output is text for people, or JSON.
func AddFormat(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "format", "o", "text", "output `format`: text or json")
	CompleteFormat(cmd)
}

// CompleteFormat makes a shell complete the values of --format.
func CompleteFormat(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// FlagError adds the flag to a library's error about its value. Libraries do not know flags.
func FlagError(flag string, err error) error { return exit.Usagef("--%s: %w", flag, err) }

// RefuseEmpty refuses flags that were given without a value: a variable of a script
// that is empty must not mean everything.
func RefuseEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		empty := f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
		}
		if empty {
			return exit.Usagef("--%s has no value", name)
		}
	}
	return nil
}

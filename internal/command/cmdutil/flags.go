package cmdutil

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/exit"
)

// AddFormat adds --format to a command whose output is text for people, or JSON.
func AddFormat(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "format", "o", "text", "output `format`: text or json")
	CompleteFormat(cmd)
}

// CompleteFormat makes a shell complete the values of --format.
func CompleteFormat(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

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

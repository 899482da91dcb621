package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/cmdutil"
)

func newVersionCmd(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the program's version",
		Example: "  steno version",
		Args:    cmdutil.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(f.IO.Out, "steno %s (trail format 1, %s, %s/%s)\n", f.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

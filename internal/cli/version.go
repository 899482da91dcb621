package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/trail"
)

func newVersionCmd(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the program's version",
		Example: "  steno version",
		Args:    cmdutil.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(f.IO.Out, versionLine(f.Version))
			return err
		},
	}
}

// versionLine is what "steno version" and "steno --version" print.
func versionLine(version string) string {
	return fmt.Sprintf("steno %s (trail format %d, %s, %s/%s)\n", version, trail.FormatVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

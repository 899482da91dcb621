package program

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Version is set by the linker: -X github.com/pg-steno/pg_steno/internal/command/program.Version=1.2.3.
var Version = ""

// GetVersion returns the version that the linker has set, else the module's.
func GetVersion() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
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
	return fmt.Sprintf("%s %s (trail format %d, %s, %s/%s)\n", name, version, trail.FormatVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

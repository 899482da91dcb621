// Other programs: where they are found, and how steno runs one in its place.

package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/spf13/cobra"
)

// runBy is the variable that names the program that has started this one in its place.
const runBy = "STENO_RUN_BY"

// typed is that program's name, which the user has typed; empty: this one was started by itself.
var typed string

// environment returns the environment of a program that runs in place of this one.
func environment() []string { return append(os.Environ(), runBy+"=steno") }

// Find returns the path of another program, in the directory of the running one or in PATH. It never returns a
// program of the current directory.
func Find(name string) (string, error) {
	file := name
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		dirs := []string{filepath.Dir(self)}
		if real, err := filepath.EvalSymlinks(self); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
		for _, dir := range dirs {
			if path, err := exec.LookPath(filepath.Join(dir, file)); err == nil {
				return path, nil
			}
		}
	}
	return exec.LookPath(name)
}

// elsewhere is the annotation of commands that another program has.
const elsewhere = "elsewhere"

// MarkExternal marks a command that another program has, and that is here for help and completion only.
func MarkExternal(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{elsewhere: "true"}
	return cmd
}

// IsExternal reports whether another program has the command.
func IsExternal(cmd *cobra.Command) bool { return cmd.Annotations[elsewhere] != "" }

// External is a program that a command line is passed to.
type External struct {
	Path string
	Args []string
}

var commandName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// FindExternal returns the program that a command line of steno is meant for: the one that has the command NAME
// according to owner, or else steno-NAME; nil if it is not installed. "steno help NAME" and completions of NAME go
// there, too.
func FindExternal(args []string, owner func(name string) string) *External {
	at := 0
	if len(args) > 2 && (args[0] == "__complete" || args[0] == "__completeNoDesc") {
		at = 1
	} else if len(args) == 2 && args[0] == "help" {
		args = []string{args[1], "--help"}
	}
	if len(args) == 0 || !commandName.MatchString(args[at]) {
		return nil
	}
	name := args[at]
	if program := owner(name); program != "" {
		if path, err := Find(program); err == nil {
			return &External{path, args}
		}
	} else if at == 0 {
		if path, err := Find("steno-" + name); err == nil {
			return &External{path, args[1:]}
		}
	}
	return nil
}

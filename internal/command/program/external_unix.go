//go:build unix

// Running another program by replacing this process.

package program

import (
	"os"
	"syscall"
)

// Run puts the program into this process's place, so that streams, signals and the exit
// code are its own. It returns only when that fails.
func (e *External) Run() (int, error) {
	err := syscall.Exec(e.Path, append([]string{e.Path}, e.Args...), environment())
	return 0, &os.PathError{Op: "exec", Path: e.Path, Err: err}
}

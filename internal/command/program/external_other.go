//go:build !unix

// Running another program where a process cannot be replaced.

package program

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
)

// Run runs the program with this process's streams and returns its exit code. A Ctrl-C reaches both processes; this
// one waits for the program to handle it.
func (e *External) Run() (int, error) {
	signal.Ignore(os.Interrupt)
	cmd := exec.Command(e.Path, e.Args...)
	cmd.Env = environment()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

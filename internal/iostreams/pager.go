// A pager between a command and the terminal.

package iostreams

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
)

// StartPager makes Out the input of $PAGER, less if that is not set, if Out is a terminal. A
// pager "cat" or an empty one is none. The function that is returned waits until the user has
// left the pager; it must be called.
//
// The pager has the terminal, and an interrupt from the keyboard is for it: this process ends
// when the pager does not read any more.
func (s *IOStreams) StartPager() (wait func()) {
	pager, set := os.LookupEnv("PAGER")
	if !set {
		pager = "less"
		if _, err := exec.LookPath(pager); err != nil {
			return func() {}
		}
	}
	if !s.outTerminal || pager == "" || pager == "cat" || runtime.GOOS == "windows" || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	cmd := exec.Command("/bin/sh", "-c", pager)
	cmd.Env = os.Environ()
	// Leave at once if all fits on the screen, show colours, and leave the text there.
	for name, value := range map[string]string{"LESS": "FRX", "LV": "-c"} {
		if _, set := os.LookupEnv(name); !set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Stdout, cmd.Stderr = s.Out, s.ErrOut
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return func() {}
	}
	signal.Ignore(os.Interrupt)
	terminal := s.Out
	s.Out = onlyWriter{in}
	return func() {
		in.Close()
		_ = cmd.Wait()
		s.Out = terminal
	}
}

// onlyWriter hides what else a pipe can do.
type onlyWriter struct{ io.Writer }

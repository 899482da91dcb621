// Programs that run as long as a test.

package recordtest

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Start starts a program, which is killed when the test ends, or this process, and waits until it listens on its ports.
func Start(t testing.TB, ports []string, program string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	c := exec.Command(program, args...)
	c.Stderr, c.SysProcAttr = &said, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s said: %.3000s", filepath.Base(program), said.String())
		}
	})
	for _, port := range ports {
		WaitForPort(t, port)
	}
}

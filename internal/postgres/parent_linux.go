// Programs end with their parent.

package postgres

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel send a program a signal when the thread that has started it ends.
func dieWithParent(cmd *exec.Cmd, signal syscall.Signal) { cmd.SysProcAttr.Pdeathsig = signal }

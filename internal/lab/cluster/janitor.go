package cluster

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// A janitor is a process that removes a lab's folder when this process dies
// before it could: it waits until its input ends, which the kernel brings about
// however we die, then until the servers have ended, and removes the folder.
type janitor struct {
	cmd   *exec.Cmd
	input io.Closer
}

// Servers take their lock files away at their end. One that does not end within
// a minute loses its files nevertheless. Programs that were making files, such as
// initdb, notice that their folder is gone; what they made meanwhile goes, too.
const sweep = `cat >/dev/null
[ -e "$0" ] || exit 0
n=0
while [ $n -lt 300 ] && ls "$0"/*/postmaster.pid >/dev/null 2>&1; do
  sleep 0.2
  n=$((n + 1))
done
rm -rf -- "$0"
sleep 2
rm -rf -- "$0"
`

func hireJanitor(dir string) (*janitor, error) {
	j := &janitor{cmd: exec.Command("sh", "-c", sweep, dir)}
	j.cmd.Dir = "/"
	// Ctrl-C is for us; it comes after us.
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if j.input, err = j.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the process that removes temporary files: %w", err)
	}
	return j, nil
}

// dismiss ends the janitor of a folder that is gone. Twice is fine.
func (j *janitor) dismiss() error {
	if j == nil || j.cmd.ProcessState != nil {
		return nil
	}
	return errors.Join(j.input.Close(), j.cmd.Wait())
}

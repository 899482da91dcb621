//go:build !windows

// Accounts: servers of root run as somebody else.

package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// account is who runs servers.
type account struct {
	name     string
	uid, gid uint32
}

// findAccount asks the system for an account; nil if there is none of the name.
func findAccount(name string) (*account, error) {
	a := &account{name: name}
	for option, id := range map[string]*uint32{"-u": &a.uid, "-g": &a.gid} {
		out, err := exec.Command("id", option, "--", name).Output()
		if err != nil {
			return nil, nil
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user \"%s\" has no numeric ID: %w", name, err)
		}
		*id = uint32(n)
	}
	return a, nil
}

// setAccount makes a program run with the account of the servers.
func (i *Installation) setAccount(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if i.account != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: i.account.uid, Gid: i.account.gid}
	}
}

// Own makes the account that runs servers the owner of a file.
func (i *Installation) Own(path string) error {
	if i.account == nil {
		return nil
	}
	return os.Chown(path, int(i.account.uid), int(i.account.gid))
}

// setGroup gives a program a process group of its own, which Ctrl-C on a terminal does not reach.
func setGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// killGroup ends a program that has a process group of its own, and the programs that it runs.
func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

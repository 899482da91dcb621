// No servers run on Windows.

package postgres

import (
	"os/exec"
	"syscall"
)

type account struct{}

func findAccount(string) (*account, error)    { return nil, nil }
func (i *Installation) setAccount(*exec.Cmd)  {}
func (i *Installation) Own(string) error      { return nil }
func setGroup(*exec.Cmd)                      {}
func dieWithParent(*exec.Cmd, syscall.Signal) {}
func killGroup(cmd *exec.Cmd) error           { return cmd.Process.Kill() }

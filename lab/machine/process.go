// Processes as /proc shows them: titles, parents, CPU time, working directories.

package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Proc is the path of a proc file system.
type Proc string

// Here is that of this machine.
const Here Proc = "/proc"

// Tick is the unit of a process's times: USER_HZ is 100 on all of Linux's own architectures.
const Tick = 10 * time.Millisecond

// Process is a process in /proc.
type Process struct {
	PID     int
	Name    string // of the program, at most 15 bytes
	Parent  int
	State   byte          // R, S, D ...
	CPU     time.Duration // user and system, in ticks
	Ended   time.Duration // the same of children that it has waited for, including their children
	Started uint64        // ticks after the machine's start; differs for a later process with the same ID
	Title   string        // as ps shows it; without a command line, the program's name in brackets
}

// File returns the path of a file about a process.
func (proc Proc) File(pid int, name string) string {
	return filepath.Join(string(proc), strconv.Itoa(pid), name)
}

// open finds a process; it is an error if there is none.
func (proc Proc) open(pid int) (procfs.Proc, error) {
	fs, err := procfs.NewFS(string(proc))
	if err != nil {
		return procfs.Proc{}, err
	}
	return fs.Proc(pid)
}

// Process reads a process.
func (proc Proc) Process(pid int) (Process, error) {
	p, err := proc.open(pid)
	if err != nil {
		return Process{}, err
	}
	return look(p)
}

func look(p procfs.Proc) (Process, error) {
	stat, err := p.Stat()
	if err != nil {
		return Process{}, err
	}
	words, _ := p.CmdLine()
	title := strings.TrimSpace(strings.Join(words, " "))
	if title == "" {
		title = "[" + stat.Comm + "]"
	}
	return Process{
		PID: p.PID, Name: stat.Comm, Parent: stat.PPID, State: stat.State[0],
		CPU: time.Duration(stat.UTime+stat.STime) * Tick, Ended: time.Duration(stat.CUTime+stat.CSTime) * Tick,
		Started: stat.Starttime, Title: title,
	}, nil
}

// Time returns the CPU time of a single-threaded process, in nanoseconds. Not every kernel provides it.
func (proc Proc) Time(pid int) (time.Duration, error) {
	p, err := proc.open(pid)
	if err != nil {
		return 0, err
	}
	times, err := p.Schedstat()
	if err == nil && times.RunningNanoseconds == 0 {
		err = fmt.Errorf("the kernel does not report the CPU time of process %d", pid)
	}
	return time.Duration(times.RunningNanoseconds), err
}

// Children returns the children of a process. The kernel's own list, if it has one, is quick, but can miss a child
// while another one ends.
func (proc Proc) Children(parent int) ([]Process, error) {
	pids, err := proc.listed(parent)
	if err != nil {
		return proc.AllChildren(parent)
	}
	return proc.childrenAmong(pids, parent), nil
}

// AllChildren returns the children of a process by the parents of all processes, so it misses none.
func (proc Proc) AllChildren(parent int) ([]Process, error) {
	pids, err := proc.PIDs()
	return proc.childrenAmong(pids, parent), err
}

// WorkingIn returns the processes with this working directory, an absolute path without symbolic links. It omits
// processes that the caller may not examine.
func (proc Proc) WorkingIn(folder string) ([]Process, error) {
	pids, err := proc.PIDs()
	var found []Process
	for _, pid := range pids {
		if now, err := os.Readlink(proc.File(pid, "cwd")); err != nil || now != folder {
			continue
		}
		if p, err := proc.Process(pid); err == nil { // else gone
			found = append(found, p)
		}
	}
	return found, err
}

func (proc Proc) childrenAmong(pids []int, parent int) (found []Process) {
	for _, pid := range pids {
		if p, err := proc.Process(pid); err == nil && p.Parent == parent { // else gone
			found = append(found, p)
		}
	}
	return found
}

// listed returns the kernel's own list, which not every kernel has. procfs does not read it.
func (proc Proc) listed(parent int) ([]int, error) {
	var pids []int
	lists, _ := filepath.Glob(proc.File(parent, "task/*/children"))
	if len(lists) == 0 {
		return nil, os.ErrNotExist
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// PIDs returns the IDs of all processes.
func (proc Proc) PIDs() ([]int, error) {
	fs, err := procfs.NewFS(string(proc))
	if err != nil {
		return nil, err
	}
	all, err := fs.AllProcs()
	pids := make([]int, len(all))
	for i, p := range all {
		pids[i] = p.PID
	}
	return pids, err
}

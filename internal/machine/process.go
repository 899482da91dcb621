package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Proc is a folder in which a kernel shows its processes.
type Proc string

// Here are the processes of this machine.
const Here Proc = "/proc"

// Tick is the unit of a process's times: USER_HZ is 100 on all of Linux's own architectures.
const Tick = 10 * time.Millisecond

// Process is a process as /proc has it.
type Process struct {
	PID     int
	Name    string // of the program, at most 15 bytes
	Parent  int
	State   byte          // R, S, D ...
	CPU     time.Duration // user and system, in ticks
	Ended   time.Duration // the same of children that it has waited for, with theirs
	Started uint64        // ticks after the machine's start: a later process with the same id has another
	Title   string        // what ps shows; without command line the program's name in brackets
}

// File is the path of one of the files about a process.
func (proc Proc) File(pid int, name string) string {
	return filepath.Join(string(proc), strconv.Itoa(pid), name)
}

// Process looks at a process.
func (proc Proc) Process(pid int) (Process, error) {
	p, err := proc.stat(pid)
	if err == nil {
		proc.readTitle(&p)
	}
	return p, err
}

func (proc Proc) readTitle(p *Process) {
	title, _ := os.ReadFile(proc.File(p.PID, "cmdline"))
	p.Title = strings.TrimSpace(string(bytes.ReplaceAll(title, []byte{0}, []byte(" "))))
	if p.Title == "" {
		p.Title = "[" + p.Name + "]"
	}
}

// stat is a process without its title.
func (proc Proc) stat(pid int) (Process, error) {
	text, err := os.ReadFile(proc.File(pid, "stat"))
	if err != nil {
		return Process{}, err
	}
	p, err := parseStat(text)
	p.PID = pid
	return p, err
}

// parseStat reads /proc/PID/stat.
func parseStat(text []byte) (p Process, err error) {
	// The command name, in parentheses, may hold anything.
	first, last := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[last+1:]))
	if first < 0 || last < first || len(fields) < 20 {
		return p, fmt.Errorf("cannot read %q", text)
	}
	number := func(field int) uint64 {
		n, e := strconv.ParseUint(fields[field-3], 10, 64) // the first is field 3
		if e != nil {
			err = fmt.Errorf("cannot read %q: %w", text, e)
		}
		return n
	}
	p.Name = string(text[first+1 : last])
	p.State = fields[0][0]
	p.Parent = int(number(4))
	p.CPU = time.Duration(number(14)+number(15)) * Tick
	p.Ended = time.Duration(number(16)+number(17)) * Tick
	p.Started = number(22)
	return p, err
}

// Time is what a process of one thread has had on a processor, to the nanosecond.
// Not every kernel keeps it.
func (proc Proc) Time(pid int) (time.Duration, error) {
	text, err := os.ReadFile(proc.File(pid, "schedstat"))
	if err != nil {
		return 0, err
	}
	// time on a processor, time waiting for one, slices
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	if err == nil && n == 0 {
		err = fmt.Errorf("the kernel does not keep the processor time of process %d", pid)
	}
	return time.Duration(n), err
}

// Children are the processes whose parent is the given one. The kernel's own list,
// where it has one, is quick, but can miss a child while another ends.
func (proc Proc) Children(parent int) ([]Process, error) {
	pids, err := proc.listed(parent)
	if err != nil {
		return proc.AllChildren(parent)
	}
	return proc.childrenAmong(pids, parent), nil
}

// AllChildren asks each process there is for its parent, and misses none.
func (proc Proc) AllChildren(parent int) ([]Process, error) {
	pids, err := proc.PIDs()
	return proc.childrenAmong(pids, parent), err
}

// WorkingIn are the processes whose working directory is the given one, an absolute
// path without symbolic links. Who may not look at a process does not see it.
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
		if p, err := proc.stat(pid); err == nil && p.Parent == parent { // else gone
			proc.readTitle(&p)
			found = append(found, p)
		}
	}
	return found
}

// listed is the kernel's own list, which not every kernel has.
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

// PIDs are all processes.
func (proc Proc) PIDs() ([]int, error) {
	folders, err := filepath.Glob(filepath.Join(string(proc), "[0-9]*"))
	var pids []int
	for _, folder := range folders {
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

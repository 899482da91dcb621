package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a process of this machine.
type Process struct {
	PID    int
	Name   string // of the program, at most 15 bytes
	Parent int
	State  byte    // R, S, D ..., as in /proc
	CPU    float64 // seconds, user and system
	Title  string  // what ps shows; without command line the program's name in brackets
}

// ReadProcess looks at a process.
func ReadProcess(pid int) (Process, error) {
	p, err := readStat(pid)
	if err == nil {
		p.readTitle()
	}
	return p, err
}

func (p *Process) readTitle() {
	title, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
	p.Title = strings.TrimSpace(string(bytes.ReplaceAll(title, []byte{0}, []byte(" "))))
	if p.Title == "" {
		p.Title = "[" + p.Name + "]"
	}
}

func readStat(pid int) (Process, error) {
	p := Process{PID: pid}
	dir := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return p, err
	}
	// The command name, in parentheses, may hold anything.
	first, last := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if first < 0 || last < first {
		return p, fmt.Errorf("cannot read %s/stat", dir)
	}
	// state ppid pgrp session tty_nr tpgid flags minflt cminflt majflt cmajflt utime stime
	fields := strings.Fields(string(text[last+1:]))
	if len(fields) < 13 || len(fields[0]) != 1 {
		return p, fmt.Errorf("cannot read %s/stat", dir)
	}
	p.Name = string(text[first+1 : last])
	p.State = fields[0][0]
	if p.Parent, err = strconv.Atoi(fields[1]); err != nil {
		return p, err
	}
	const ticks = 100 // a second, for all of Linux's own architectures
	for _, f := range fields[11:13] {
		n, _ := strconv.ParseFloat(f, 64)
		p.CPU += n / ticks
	}
	return p, nil
}

// Children are the processes whose parent is the given one.
func Children(parent int) ([]Process, error) {
	pids, err := childrenListed(parent)
	if err != nil {
		if pids, err = allProcesses(); err != nil {
			return nil, err
		}
	}
	var found []Process
	for _, pid := range pids {
		if p, err := readStat(pid); err == nil && p.Parent == parent { // else gone
			p.readTitle()
			found = append(found, p)
		}
	}
	return found, nil
}

// childrenListed reads the kernel's own list, which not every kernel has.
func childrenListed(parent int) ([]int, error) {
	var pids []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
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

func allProcesses() ([]int, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, folder := range folders {
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

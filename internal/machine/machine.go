// Package machine says where a measurement is made, and what else went on there.
package machine

import (
	"os"
	"regexp"
	"runtime"
	"strings"
)

// Machine is where a measurement was made.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	System string `json:"system"`
}

// This is the machine that the program runs on.
func This() Machine {
	field := func(path, pattern string) string {
		text, _ := os.ReadFile(path)
		if m := regexp.MustCompile("(?m)" + pattern).FindSubmatch(text); m != nil {
			return strings.TrimSpace(string(m[1]))
		}
		return "unknown"
	}
	return Machine{
		CPU:    field("/proc/cpuinfo", `^model name\s*: (.*)$`),
		Cores:  runtime.NumCPU(),
		Memory: field("/proc/meminfo", `^MemTotal:\s*(.*)$`),
		Kernel: field("/proc/sys/kernel/osrelease", `^(.*)$`),
		System: field("/etc/os-release", `^PRETTY_NAME="?(.*?)"?$`),
	}
}

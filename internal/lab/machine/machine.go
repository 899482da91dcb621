// Package machine says where a measurement is made, what else went on there, and what
// processes do. What the kernel shows in /proc is read by prometheus/procfs.
package machine

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
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
	const unknown = "unknown"
	m := Machine{CPU: unknown, Cores: runtime.NumCPU(), Memory: unknown, Kernel: unknown, System: unknown}
	text, _ := os.ReadFile("/etc/os-release")
	if name := regexp.MustCompile(`(?m)^PRETTY_NAME="?(.*?)"?$`).FindSubmatch(text); name != nil {
		m.System = string(name[1])
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 && cpus[0].ModelName != "" {
		m.CPU = cpus[0].ModelName
	}
	if memory, err := fs.Meminfo(); err == nil && memory.MemTotal != nil {
		m.Memory = fmt.Sprintf("%d kB", *memory.MemTotal)
	}
	if release, err := fs.SysctlStrings("kernel.osrelease"); err == nil && len(release) > 0 {
		m.Kernel = strings.Join(release, " ")
	}
	return m
}

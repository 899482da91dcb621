// Package machine describes the machine of a measurement, its other load, and its processes. It reads /proc by
// prometheus/procfs.
package machine

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Machine is the machine on which a measurement was made.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	System string `json:"system"`
}

// Local returns the machine that the program runs on.
func Local() Machine {
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

// Busy is the other load of a machine during a measurement.
type Busy struct {
	// Before is the share of all processors' time in use, in per cent, for a moment before the measurement, when
	// nothing of ours was running.
	Before float64 `json:"before_percent"`
	// Steal is the share that the hypervisor gave to other machines meanwhile.
	Steal float64 `json:"steal_percent"`
	// Load is the load average of one minute, at the beginning.
	Load float64 `json:"load"`
}

// A machine is busy above these limits, in per cent.
const (
	muchBefore = 10
	muchSteal  = 2
)

// Warning returns a sentence that states why figures of this machine cannot be trusted, or "".
func (b Busy) Warning() string {
	var why []string
	if b.Before > muchBefore {
		why = append(why, fmt.Sprintf("%.0f %% of its CPU time was used by other processes just before", b.Before))
	}
	if b.Steal > muchSteal {
		why = append(why, fmt.Sprintf("%.1f %% was used by other machines on the same host", b.Steal))
	}
	if why == nil {
		return ""
	}
	return "This machine was busy: " + strings.Join(why, ", ") + ". Repeat the run on an idle one."
}

// Watch measures the other load of the machine.
type Watch struct {
	busy  Busy
	start procfs.CPUStat
}

// StartWatch measures for a moment, during which the caller does nothing, and from then on.
func StartWatch(ctx context.Context) (*Watch, error) {
	before, err := processors()
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Second):
	}
	w := &Watch{}
	if w.start, err = processors(); err != nil {
		return nil, err
	}
	w.busy.Before = inUse(before, w.start)
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if load, err := fs.LoadAvg(); err == nil {
			w.busy.Load = load.Load1
		}
	}
	return w, nil
}

// End returns the result.
func (w *Watch) End() Busy {
	if now, err := processors(); err == nil {
		w.busy.Steal = stolen(w.start, now)
	}
	return w.busy
}

// all returns the total time of all processors. The other times already include that of guests.
func all(t procfs.CPUStat) float64 {
	return t.User + t.Nice + t.System + t.Idle + t.Iowait + t.IRQ + t.SoftIRQ + t.Steal
}

// idle returns the time in which processors were idle, including waits for disks.
func idle(t procfs.CPUStat) float64 { return t.Idle + t.Iowait }

// inUse returns the share of the time between two readings that was not idle, in per cent.
func inUse(from, to procfs.CPUStat) float64 {
	if time := all(to) - all(from); time > 0 {
		return 100 * (1 - (idle(to)-idle(from))/time)
	}
	return 0
}

// stolen returns the share that the hypervisor gave to other machines, in per cent.
func stolen(from, to procfs.CPUStat) float64 {
	if time := all(to) - all(from); time > 0 {
		return 100 * (to.Steal - from.Steal) / time
	}
	return 0
}

// processors returns the times of all processors together since the machine's start.
func processors() (procfs.CPUStat, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return procfs.CPUStat{}, err
	}
	stat, err := fs.Stat()
	return stat.CPUTotal, err
}

// Idle measures how idle all processors are together, including waits for disks.
type Idle struct{ start procfs.CPUStat }

// StartIdle begins a measurement.
func StartIdle() (Idle, error) {
	t, err := processors()
	return Idle{t}, err
}

// Percent returns the idle share of the time since the start.
func (i Idle) Percent() (float64, error) {
	now, err := processors()
	if err != nil || all(now) <= all(i.start) {
		return 0, err
	}
	return 100 - inUse(i.start, now), nil
}

// ContextSwitches returns the number of context switches since the machine's start.
func ContextSwitches() uint64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	stat, _ := fs.Stat()
	return stat.ContextSwitches
}

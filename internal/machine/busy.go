package machine

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Busy is what else a machine did while something was measured.
type Busy struct {
	// Before is the share of all processors' time in use, in per cent, during
	// a moment before the measurement, when nothing of ours ran.
	Before float64 `json:"before_percent"`
	// Steal is the share that the hypervisor gave to others meanwhile.
	Steal float64 `json:"steal_percent"`
	// Load is the load average of one minute, at the beginning.
	Load float64 `json:"load"`
}

// More than this makes a machine busy, in per cent.
const (
	muchBefore = 10
	muchSteal  = 2
)

// Warning says in a sentence why figures of this machine cannot be trusted, or
// nothing.
func (b Busy) Warning() string {
	var why []string
	if b.Before > muchBefore {
		why = append(why, fmt.Sprintf("%.0f %% of its processors' time went to something else right before", b.Before))
	}
	if b.Steal > muchSteal {
		why = append(why, fmt.Sprintf("%.1f %% was stolen by other machines on the same host", b.Steal))
	}
	if why == nil {
		return ""
	}
	return "This machine was busy: " + strings.Join(why, ", ") + ". Repeat on a quiet one."
}

// Watch looks at what else the machine does.
type Watch struct {
	busy  Busy
	start ticks
}

// ticks are counts of /proc/stat's first line.
type ticks struct{ all, idle, steal float64 }

// Look watches for a moment, in which the caller does nothing, and from then on.
func Look(ctx context.Context) (*Watch, error) {
	before, err := readTicks()
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Second):
	}
	w := &Watch{}
	if w.start, err = readTicks(); err != nil {
		return nil, err
	}
	w.busy.Before = inUse(before, w.start)
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(text), " ")
		w.busy.Load, _ = strconv.ParseFloat(first, 64)
	}
	return w, nil
}

// End says what was seen.
func (w *Watch) End() Busy {
	if now, err := readTicks(); err == nil {
		w.busy.Steal = stolen(w.start, now)
	}
	return w.busy
}

// inUse is the share of the time between two readings that was not idle, in per cent.
func inUse(from, to ticks) float64 {
	if all := to.all - from.all; all > 0 {
		return 100 * (1 - (to.idle-from.idle)/all)
	}
	return 0
}

// stolen is the share that the hypervisor gave to others, in per cent.
func stolen(from, to ticks) float64 {
	if all := to.all - from.all; all > 0 {
		return 100 * (to.steal - from.steal) / all
	}
	return 0
}

func readTicks() (ticks, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, err
	}
	return parseTicks(string(text))
}

// parseTicks reads the first line of /proc/stat: cpu user nice system idle
// iowait irq softirq steal guest guest_nice. The guests' are in the first two as
// well.
func parseTicks(stat string) (t ticks, err error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "cpu" {
		return t, fmt.Errorf("cannot read /proc/stat: it begins with \"%s\"", line)
	}
	for i, text := range fields[1:min(9, len(fields))] {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return t, fmt.Errorf("cannot read /proc/stat: %w", err)
		}
		t.all += n
		switch i {
		case 3, 4:
			t.idle += n
		case 7:
			t.steal += n
		}
	}
	return t, nil
}

// Idle measures how idle all processors are together, waits for disks included.
type Idle struct{ start ticks }

// StartIdle begins.
func StartIdle() (Idle, error) {
	t, err := readTicks()
	return Idle{t}, err
}

// Percent is the idle share of the time since the start.
func (i Idle) Percent() (float64, error) {
	now, err := readTicks()
	if err != nil || now.all <= i.start.all {
		return 0, err
	}
	return 100 * (now.idle - i.start.idle) / (now.all - i.start.all), nil
}

// Switches is how many context switches the machine has made since its start.
func Switches() uint64 {
	text, _ := os.ReadFile("/proc/stat")
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, "ctxt "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(count), 10, 64)
			return n
		}
	}
	return 0
}

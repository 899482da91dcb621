package machine

import (
	"bufio"
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
	if all := w.start.all - before.all; all > 0 {
		w.busy.Before = 100 * (1 - (w.start.idle-before.idle)/all)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(text), " ")
		w.busy.Load, _ = strconv.ParseFloat(first, 64)
	}
	return w, nil
}

// End says what was seen.
func (w *Watch) End() Busy {
	if now, err := readTicks(); err == nil {
		if all := now.all - w.start.all; all > 0 {
			w.busy.Steal = 100 * (now.steal - w.start.steal) / all
		}
	}
	return w.busy
}

func readTicks() (t ticks, err error) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return t, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan()
	// cpu user nice system idle iowait irq softirq steal guest guest_nice; the
	// guests' are in the first two as well
	fields := strings.Fields(lines.Text())
	for i, text := range fields[min(1, len(fields)):min(9, len(fields))] {
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
	return t, lines.Err()
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

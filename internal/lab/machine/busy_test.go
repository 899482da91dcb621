package machine

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

// Two readings of a virtual machine, which differ by 1000 ticks: 300 user (50 of these a
// guest's), 20 nice, 100 system, 400 idle, 80 waiting for disks, 10 and 20 interrupts, 70
// stolen.
func TestBusyFromRecordedReadings(t *testing.T) {
	from := procfs.CPUStat{User: 10132153, Nice: 290696, System: 3084719, Idle: 46828483, Iowait: 16683, SoftIRQ: 25195, Steal: 175628, Guest: 1000}
	to := procfs.CPUStat{User: 10132453, Nice: 290716, System: 3084819, Idle: 46828883, Iowait: 16763, IRQ: 10, SoftIRQ: 25215, Steal: 175698, Guest: 1050}
	if got := inUse(from, to); math.Abs(got-52) > 1e-9 {
		t.Errorf("%v %% in use, want 52: 300 + 20 + 100 + 10 + 20 + 70 of 1000", got)
	}
	if got := stolen(from, to); math.Abs(got-7) > 1e-9 {
		t.Errorf("%v %% stolen, want 7", got)
	}
	if a, b := inUse(to, to), stolen(to, to); a != 0 || b != 0 {
		t.Errorf("of no time %v and %v", a, b)
	}
}

func TestBusyMachineWarns(t *testing.T) {
	for busy, want := range map[Busy][]string{
		{Before: 10, Steal: 2, Load: 50}: nil,
		{Before: 37.2}:                   {"37 % of its CPU time was used by other processes"},
		{Steal: 2.25}:                    {"2.2 % was used by other machines"},
		{Before: 90, Steal: 12}:          {"90 %", "12.0 % was used by other machines"},
	} {
		text := busy.Warning()
		if (text == "") != (want == nil) {
			t.Errorf("%+v: %q", busy, text)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%+v: %q is not in %q", busy, w, text)
			}
		}
	}
}

func TestMachineIsLookedAt(t *testing.T) {
	w, err := Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b := w.End(); b.Before < 0 || b.Before > 100 || b.Steal < 0 || b.Steal > 100 || b.Load < 0 {
		t.Errorf("%+v", b)
	}
}

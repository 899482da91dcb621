package machine

import (
	"math"
	"strings"
	"testing"
)

// Two readings of a virtual machine's /proc/stat, which differ by 1000 ticks:
// 300 user (50 of these a guest's), 20 nice, 100 system, 400 idle, 80 waiting
// for disks, 10 and 20 interrupts, 70 stolen.
const (
	earlier = `cpu  10132153 290696 3084719 46828483 16683 0 25195 175628 1000 0
cpu0 1393280 32966 572056 13343292 6130 0 17875 0 500 0
cpu1 1335498 28612 558052 13430316 5500 0 4220 0 500 0
intr 199292 1 2 3
ctxt 1990473
`
	later = `cpu  10132453 290716 3084819 46828883 16763 10 25215 175698 1050 0
cpu0 1393280 32966 572056 13343292 6130 0 17875 0 500 0
`
)

func TestBusyFromRecordedReadings(t *testing.T) {
	from, err := parseTicks(earlier)
	if err != nil {
		t.Fatal(err)
	}
	to, err := parseTicks(later)
	if err != nil {
		t.Fatal(err)
	}
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

func TestOldKernelsHaveFewerFields(t *testing.T) {
	got, err := parseTicks("cpu 1 2 3 4\n")
	if want := (ticks{all: 10, idle: 4}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "cpu", "cpu0 1 2 3 4 5", "cpu 1 2 x 4 5"} {
		if got, err := parseTicks(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestBusyMachineWarns(t *testing.T) {
	for busy, want := range map[Busy][]string{
		{Before: 10, Steal: 2, Load: 50}: nil,
		{Before: 37.2}:                   {"37 % of its processors' time went to something else"},
		{Steal: 2.25}:                    {"2.2 % was stolen by other machines"},
		{Before: 90, Steal: 12}:          {"90 %", "12.0 % was stolen"},
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

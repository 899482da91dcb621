package perf

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	const script = "  100   12.345678: \n" +
		"\tffffffff82 osq_lock ([kernel.kallsyms])\n" +
		"\t    55d1c0 executor start (/usr/lib/a module.so)\n" +
		"\t    55d1c0 operator() (deleted) (/usr/lib/b.so)\n" +
		"\n" +
		"    0    0.000000: PERF_RECORD_FORK(7:7):(3:3)\n" +
		"  100   12.345679: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:    15/15   \n" +
		"101:\n" +
		"\n"
	want := []Event{
		{PID: 100, Time: 12.345678, Stack: []Frame{
			{"osq_lock", "[kernel.kallsyms]"}, {"executor start", "/usr/lib/a module.so"}, {"operator() (deleted)",
				"/usr/lib/b.so"}}},
		{Record: "PERF_RECORD_FORK(7:7):(3:3)"},
		{PID: 100, Time: 12.345679, Record: "PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:    15/15"},
		{PID: 101},
	}
	var got []Event
	err := Scan(strings.NewReader(script), func(e Event) {
		e.Stack = append([]Frame(nil), e.Stack...)
		got = append(got, e)
	})
	if err != nil || !slices.EqualFunc(got, want, func(a, b Event) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("error %v; got\n%+v, want\n%+v", err, got, want)
	}
}

func TestScanRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{"failed to open perf.data\n", "12 and more\n", "12 noon: PERF\n", "\t0 a (b)\n"} {
		if err := Scan(strings.NewReader(text), func(Event) {}); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}

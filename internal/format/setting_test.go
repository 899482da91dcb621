package format

import (
	"testing"
	"time"
)

func TestSettingsAreReadWithAndWithoutUnits(t *testing.T) {
	for _, c := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"200ms", 200 * time.Millisecond, true}, {"200", 200 * time.Millisecond, true}, {"1s", time.Second, true}, {"2min", 2 * time.Minute, true},
		{"1d", 24 * time.Hour, true}, {"0", 0, true}, {"-1", 0, false}, {"", 0, false}, {"fast", 0, false}, {"1 s", 0, false}, {"1MB", 0, false},
	} {
		if got, ok := SettingTime(c.value, time.Millisecond); ok != c.ok || ok && got != c.want {
			t.Errorf("time %q: %v, %v", c.value, got, ok)
		}
	}
	for _, c := range []struct {
		value string
		want  int64
		ok    bool
	}{
		{"1GB", 1 << 30, true}, {"64", 64 << 20, true}, {"100000MB", 100000 << 20, true}, {"16kB", 16 << 10, true}, {"7B", 7, true}, {"-1", 0, false}, {"", 0, false}, {"1s", 0, false},
	} {
		if got, ok := SettingSize(c.value, 1<<20); ok != c.ok || ok && got != c.want {
			t.Errorf("size %q: %v, %v", c.value, got, ok)
		}
	}
}

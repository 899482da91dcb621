package check

import (
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// Streams are read one after the other: the records of what was dropped are not in the order of their times.
func TestDropsAreToldFromTheFirstToTheLast(t *testing.T) {
	at := func(minute int64) int64 { return trailtest.Epoch + minute*60*1e6 }
	for want, minutes := range map[string][]int64{
		"7 records dropped, as the trail tells at 2026-11-21T20:48:13.000000Z (ring full)":                                             {3},
		"21 records dropped, as the trail tells from 2026-11-21T20:46:13.000000Z until 2026-11-21T20:54:13.000000Z (ring full)":        {3, 9, 1},
		"14 records dropped, as the trail tells from 2026-11-21T20:45:13.000000Z until 2026-11-21T20:47:13.000000Z (ring full)":        {2, 0},
		"28 records dropped, as the trail tells from 2026-11-21T20:46:13.000000Z until 2026-11-21T20:50:13.000000Z (other, ring full)": {1, 5, 2, -1},
	} {
		var g gaps
		for _, minute := range minutes {
			if minute < 0 {
				g.add(7, at(3), "other")
			} else {
				g.add(7, at(minute), "ring full")
			}
		}
		if got := g.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Ages are exact while that matters, and whole days from two days on: what is said is never more than it is.
func TestAges(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		1234567 * time.Nanosecond: "1ms", 999 * time.Millisecond: "999ms", time.Second: "1s", 61400 * time.Millisecond: "1m1s",
		day: "24h0m0s", 2*day - time.Second: "47h59m59s", 2 * day: "2 days", 3*day - time.Second: "2 days", 40*day + 5*time.Hour: "40 days",
		-2 * time.Minute: "in 2m0s", -3 * day: "in 3 days",
	} {
		if got := ago(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

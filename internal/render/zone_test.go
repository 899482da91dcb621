package render

import (
	"testing"
	"time"
)

// TestTimesAreShownInAnotherZone: on both sides of the end of summer time, but not in what is quoted.
func TestTimesAreShownInAnotherZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const text = "time      2026-10-24T22:30:00.000001Z to 2026-10-25T23:30:00.249343Z\n" +
		`warning: user "2026-10-24T22:30:00.000001Z\" x" since 1999-12-31T23:59:59.999999Z` + "\n"
	for zone, want := range map[*time.Location]string{
		nil:      text,
		time.UTC: text,
		berlin: "time      2026-10-25T00:30:00.000001+02:00 to 2026-10-26T00:30:00.249343+01:00\n" +
			`warning: user "2026-10-24T22:30:00.000001Z\" x" since 2000-01-01T00:59:59.999999+01:00` + "\n",
		time.FixedZone("", -5400): "time      2026-10-24T21:00:00.000001-01:30 to 2026-10-25T22:00:00.249343-01:30\n" +
			`warning: user "2026-10-24T22:30:00.000001Z\" x" since 1999-12-31T22:29:59.999999-01:30` + "\n",
	} {
		if got := InZone(zone).Times(text); got != want {
			t.Errorf("in %s:\n%swant:\n%s", zone, got, want)
		}
	}
	if got := InZone(berlin).Times("since=2026-11-29T09:02:02Z"); got != "since=2026-11-29T10:02:02+01:00" {
		t.Errorf("without microseconds: %s", got)
	}
	if got := InZone(berlin).Width(); got != len("2000-01-01T01:00:00.000000+01:00") {
		t.Errorf("a column has %d characters", got)
	}
}

package render

import (
	"strings"
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
		var b strings.Builder
		if n, err := InZone(&b, zone).Write([]byte(text)); err != nil || n != len(text) {
			t.Error(n, err)
		}
		if b.String() != want {
			t.Errorf("in %s:\n%swant:\n%s", zone, b.String(), want)
		}
	}
}

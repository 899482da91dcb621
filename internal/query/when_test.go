package query

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/render"
)

func TestMomentsAsPeopleWriteThem(t *testing.T) {
	now := time.Date(2026, 11, 21, 20, 45, 13, 500_000_000, time.UTC)
	for in, want := range map[string]string{
		"2026-11-20":                       "2026-11-20T00:00:00.000000Z",
		"2026-11-20 07:08":                 "2026-11-20T07:08:00.000000Z",
		"2026-11-20T07:08:09":              "2026-11-20T07:08:09.000000Z",
		"2026-11-20 07:08:09.25":           "2026-11-20T07:08:09.250000Z",
		"2026-11-20T07:08:09.123456Z":      "2026-11-20T07:08:09.123456Z",
		"2026-11-20T07:08:09+02:00":        "2026-11-20T05:08:09.000000Z",
		"2026-11-20 07:08:09.5+02":         "2026-11-20T05:08:09.500000Z",
		"now":                              "2026-11-21T20:45:13.500000Z",
		"today":                            "2026-11-21T00:00:00.000000Z",
		"Yesterday":                        "2026-11-20T00:00:00.000000Z",
		"10m":                              "2026-11-21T20:35:13.500000Z",
		"2h ago":                           "2026-11-21T18:45:13.500000Z",
		"1d12h":                            "2026-11-20T08:45:13.500000Z",
		"90 minutes ago":                   "2026-11-21T19:15:13.500000Z",
		"1.5h":                             "2026-11-21T19:15:13.500000Z",
		"2 weeks":                          "2026-11-07T20:45:13.500000Z",
		"1 month":                          "2026-10-21T20:45:13.500000Z",
		"9mon":                             "2026-02-21T20:45:13.500000Z",
		"1y":                               "2025-11-21T20:45:13.500000Z",
		"2 years ago":                      "2024-11-21T20:45:13.500000Z",
		"1 day 2 hours ago":                "2026-11-20T18:45:13.500000Z",
		"  2026-11-20  ":                   "2026-11-20T00:00:00.000000Z",
		"1999-12-31 23:59:59.999999+00:00": "1999-12-31T23:59:59.999999Z",
		"22:00":                            "2026-11-21T22:00:00.000000Z",
		"08:30:15.5":                       "2026-11-21T08:30:15.500000Z",
		"22:00 +02:00":                     "2026-11-21T20:00:00.000000Z",
		"00:30 Asia/Tokyo":                 "2026-11-21T15:30:00.000000Z", // it is the 22nd there
		"yesterday 22:00":                  "2026-11-20T22:00:00.000000Z",
		"today 08:00 Europe/Berlin":        "2026-11-21T07:00:00.000000Z",
		"yesterday Europe/Berlin":          "2026-11-19T23:00:00.000000Z",
		"-1h":                              "2026-11-21T19:45:13.500000Z",
		"-1d12h":                           "2026-11-20T08:45:13.500000Z",
		"2026-11-21T20:45 +0900":           "2026-11-21T11:45:00.000000Z",
		"2026-11-21T20:45-03":              "2026-11-21T23:45:00.000000Z",
		"2026-11-21 20+05:30":              "2026-11-21T14:30:00.000000Z",
		"2026-11-21 20:45 UTC":             "2026-11-21T20:45:00.000000Z",
		"2026-11-21 20:45 gmt":             "2026-11-21T20:45:00.000000Z",
		"2026-11-21 20:45 z":               "2026-11-21T20:45:00.000000Z",
		"2026-11-21 20:45 Asia/Tokyo":      "2026-11-21T11:45:00.000000Z",
		"2026-11-21T20:45 Etc/GMT-3":       "2026-11-21T17:45:00.000000Z",
		"2026-11-21+02:00":                 "2026-11-20T22:00:00.000000Z",
		"2026-11-21 Europe/Berlin":         "2026-11-20T23:00:00.000000Z",
		"2026-07-01 12:00 Europe/Berlin":   "2026-07-01T10:00:00.000000Z",
		"2026-10-25 01:59 Europe/Berlin":   "2026-10-24T23:59:00.000000Z",
		"2026-10-25 03:00 Europe/Berlin":   "2026-10-25T02:00:00.000000Z",
	} {
		got, err := ParseWhen(in, now)
		if err != nil || render.Time(got) != want {
			t.Errorf("%q: got %s, %v, want %s", in, render.Time(got), err, want)
		}
	}
	for _, in := range []string{"", "ago", "10", "10 parsecs", "--5m", "2026-13-01", "25:00", "m", "1e9h", "99999999999999999999h",
		"2026-11-21T20:45 JST", "2026-11-21 20:45 EST", "2026-11-21 20:45 CET", "2026-11-21 20:45 Mars/Olympus", "2026-11-21 20:45 +25:00",
		"now Asia/Tokyo", "10m Asia/Tokyo", "2026-11-21 20:45 ../../etc/passwd",
		"2026-03-29 02:30 Europe/Berlin", "2026-10-25 02:30 Europe/Berlin", "22:00 ago", "tomorrow"} {
		if got, err := ParseWhen(in, now); err == nil {
			t.Errorf("%q is accepted as %s", in, render.Time(got))
		}
	}
}

func TestMonthsEndWithTheMonth(t *testing.T) {
	for _, test := range []struct{ now, age, want string }{
		{"2026-03-31T01:00:00Z", "1 month", "2026-02-28T01:00:00.000000Z"},
		{"2024-03-30T01:00:00Z", "1 month", "2024-02-29T01:00:00.000000Z"},
		{"2024-02-29T01:00:00Z", "1 year", "2023-02-28T01:00:00.000000Z"},
		{"2026-01-31T01:00:00Z", "2 months", "2025-11-30T01:00:00.000000Z"},
		// What PostgreSQL says of TIMESTAMP minus INTERVAL: months first.
		{"2024-03-31T01:00:00Z", "1 month 2 days", "2024-02-27T01:00:00.000000Z"},
		{"2024-03-31T01:00:00Z", "1 day 1 month", "2024-02-28T01:00:00.000000Z"},
		{"2024-03-31T01:00:00Z", "3mo", "2023-12-31T01:00:00.000000Z"},
		{"2026-11-21T20:45:13.5Z", "2 yrs 3 mons, 1 day, 2 hrs ago", "2024-08-20T18:45:13.500000Z"},
		{"2026-11-21T20:45:13.5Z", "1 yr 1 hr, 2 mins 3 secs", "2025-11-21T19:43:10.500000Z"},
		{"2026-11-21T20:45:13.5Z", "2 years 3 months 1 day 2 hours ago", "2024-08-20T18:45:13.500000Z"},
		{"2026-01-31T01:00:00Z", "13 Months 30 minutes", "2024-12-31T00:30:00.000000Z"},
		{"2024-03-31T01:00:00Z", "-1y1w", "2023-03-24T01:00:00.000000Z"},
	} {
		now, err := time.Parse(time.RFC3339, test.now)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseWhen(test.age, now); err != nil || render.Time(got) != test.want {
			t.Errorf("%s before %s: got %s, %v, want %s", test.age, test.now, render.Time(got), err, test.want)
		}
	}
}

// TestMicrosIsTheReverseOfMoment, also before the trail's epoch.
func TestMicrosIsTheReverseOfMoment(t *testing.T) {
	for _, usec := range []int64{0, 1, -1, 848_000_000_123_456, -848_000_000_123_456} {
		if got := Micros(Moment(usec)); got != usec {
			t.Errorf("%d became %d", usec, got)
		}
	}
}

// TestAgesThatAreNotUnderstoodAreExplained: M is a month for some, and a minute for others.
func TestAgesThatAreNotUnderstoodAreExplained(t *testing.T) {
	for in, want := range map[string]string{
		"5 parsecs":       `unknown unit "parsecs"`,
		"3M":              "unit M may mean minutes or months; use 3m, or 3 months",
		"1h 30M ago":      "unit M may mean minutes or months; use 30m, or 30 months",
		"1.5 months":      "1.5 months is not a whole number",
		"0.5y":            "0.5 y is not a whole number",
		"1 month 2 moons": `unknown unit "moons"`,
		"99999999999999y": "too long ago",
		"24000mo 1mo":     "too long ago",
		"2001 years":      "too long ago", // before the first year
	} {
		if _, err := ParseWhen(in, time.Now()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	for in, want := range map[string]string{"2M": "use 2m", "1 month": "invalid duration", "1x": `unknown unit "x"`, "-1s": "invalid duration", "2H": "", "1.5": ""} {
		if _, err := ParseDuration(in); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("duration %s: %v, want %q", in, err, want)
		}
	}
}

// TestAnyNumberIsAMoment: a trail that nobody's server has written may have any time.
func TestAnyNumberIsAMoment(t *testing.T) {
	last := Moment(math.MinInt64)
	for _, usec := range []int64{math.MinInt64 + 1_000_000, -1_000_000, -1, 0, 1, 999_999, 848609113 * 1e6, math.MaxInt64 - 1e15, math.MaxInt64 - 1_000_000} {
		m := Moment(usec)
		if !m.After(last) {
			t.Errorf("%d is %s, not after %s", usec, m, last)
		}
		if back := Micros(m); back != usec {
			t.Errorf("%d is %s, which is %d", usec, m, back)
		}
		last = m
	}
	if early, late := Micros(Moment(math.MinInt64).AddDate(-1, 0, 0)), Micros(Moment(math.MaxInt64).AddDate(1, 0, 0)); early != math.MinInt64 || late != math.MaxInt64 {
		t.Errorf("what is before and after all times is %d and %d", early, late)
	}
}

package cat

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// epoch is the beginning of the trail's time.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// ParseWhen reads a moment as people write it: an ISO date with or without time
// and zone, UTC when there is no zone; "now", "today", "yesterday"; or an age,
// such as 10m, "2h ago", 1d12h. The result is in microseconds since 2000-01-01
// UTC.
func ParseWhen(s string, now time.Time) (int64, error) {
	t, err := parseWhen(strings.TrimSpace(s), now)
	if err != nil {
		return 0, err
	}
	// Unix seconds, because a Duration ends after 292 years.
	return (t.Unix()-epoch.Unix())*1e6 + int64(t.Nanosecond()/1000), nil
}

func parseWhen(s string, now time.Time) (time.Time, error) {
	now = now.UTC()
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	switch strings.ToLower(s) {
	case "now":
		return now, nil
	case "today":
		return today, nil
	case "yesterday":
		return today.AddDate(0, 0, -1), nil
	}
	if age, ok := parseAge(strings.TrimSpace(strings.TrimSuffix(strings.ToLower(s), "ago"))); ok {
		return now.Add(-age), nil
	}
	iso := strings.Replace(s, "T", " ", 1)
	for _, clock := range []string{" 15:04:05", " 15:04", " 15", ""} {
		for _, zone := range []string{"", "Z07:00", "Z07", " Z07:00", " MST"} {
			if t, err := time.Parse("2006-01-02"+clock+zone, iso); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("invalid time %q: use for example 2026-11-21T20:45:13Z, 2026-11-21, yesterday, 10m or \"2h ago\"", s)
}

// parseAge reads numbers with units, such as 1d12h. There is no unit for
// months or years, whose lengths differ.
func parseAge(s string) (time.Duration, bool) {
	units := map[string]time.Duration{
		"us": time.Microsecond, "ms": time.Millisecond,
		"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
		"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
		"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
		"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
		"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
	}
	var age time.Duration
	if s == "" {
		return 0, false
	}
	for s != "" {
		digits := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if digits <= 0 {
			return 0, false
		}
		n, err := strconv.ParseFloat(s[:digits], 64)
		if err != nil {
			return 0, false
		}
		s = strings.TrimLeft(s[digits:], " ")
		letters := strings.IndexFunc(s, func(r rune) bool { return r < 'a' || r > 'z' })
		if letters < 0 {
			letters = len(s)
		}
		unit, ok := units[s[:letters]]
		if !ok || n*float64(unit) > float64(1<<62) {
			return 0, false
		}
		age += time.Duration(n * float64(unit))
		s = strings.TrimLeft(s[letters:], " ")
	}
	return age, age >= 0
}

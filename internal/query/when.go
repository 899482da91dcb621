// Times as people write them: dates, times of day, ages.

package query

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // names of zones, for machines without the database
)

// epoch is when the trail's time begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Moment converts a time of the trail, which may be any number, to a time.Time in UTC. In microseconds since
// 1970, it might overflow.
func Moment(usec int64) time.Time {
	return time.Unix(epoch.Unix()+usec/1e6, usec%1e6*1000).UTC()
}

// Micros does the reverse, and returns the nearest time that a trail can have.
func Micros(t time.Time) int64 {
	const second = 1_000_000
	seconds := t.Unix() - epoch.Unix()
	switch {
	case seconds < math.MinInt64/second:
		return math.MinInt64
	case seconds >= math.MaxInt64/second:
		return math.MaxInt64
	}
	return seconds*second + int64(t.Nanosecond())/1000
}

// ParseWhen reads a time as people write it: an ISO date, a time of day, or both, followed by an offset or a time
// zone (default UTC); "now"; "today" or "yesterday", which a time of day may follow; or an age, such as 10m, -10m,
// "2h ago", 1d12h, "3 months", "1 year 2 days". The result is in microseconds since 2000-01-01 UTC.
func ParseWhen(s string, now time.Time) (int64, error) { return ParseWhenIn(s, now, nil) }

// ParseWhenIn does the same; a time without a zone is in the given one, or in UTC if that is nil.
func ParseWhenIn(s string, now time.Time, zone *time.Location) (int64, error) {
	if zone == nil {
		zone = time.UTC
	}
	t, err := parseWhen(strings.TrimSpace(s), now, zone)
	if err != nil {
		return 0, err
	}
	// Use seconds since 1970, because a Duration cannot exceed 292 years.
	return (t.Unix()-epoch.Unix())*1e6 + int64(t.Nanosecond()/1000), nil
}

func parseWhen(s string, now time.Time, zone *time.Location) (time.Time, error) {
	if strings.EqualFold(s, "now") {
		return now.UTC(), nil
	}
	before := strings.TrimPrefix(s, "-")
	if n := len(before) - len("ago"); n > 0 && strings.EqualFold(before[n:], "ago") {
		before = before[:n]
	}
	switch a, err := parseAge(strings.TrimSpace(before)); {
	case err == nil:
		return a.before(now), nil
	case !errors.Is(err, errNoAge):
		return time.Time{}, fmt.Errorf("invalid time %q: %w", s, err)
	}
	wall, zone, err := cutZone(s, zone)
	if err != nil {
		return time.Time{}, err
	}
	t, ok := parseWall(wall, now.In(zone))
	if !ok {
		return time.Time{},
			fmt.Errorf("invalid time %q: use for example 2026-11-21T20:45:13Z, \"2026-11-21 20:45 "+
				"Europe/Berlin\", 22:00, yesterday, 10m or \"2h ago\"", s)
	}
	return inZone(s, t, zone)
}

var (
	// An offset follows a time of day, with or without a space.
	offsetFormat = regexp.MustCompile(`^(.*\d:\d.*?|.*[ T]\d\d|\d{4}-\d\d-\d\d) ?([+-]\d\d(?::?\d\d)?|[Zz])$`)
	// A zone is a separate word after a date or a time of day.
	zoneFormat = regexp.MustCompile(`^(.*\d|(?i:today|yesterday)) +([A-Za-z][A-Za-z0-9_+/-]*)$`)
)

// cutZone removes the offset or zone from the end. It refuses abbreviations other than UTC, because most mean
// several zones, and Go and PostgreSQL do not agree on others.
func cutZone(s string, otherwise *time.Location) (wall string, zone *time.Location, err error) {
	if m := offsetFormat.FindStringSubmatch(s); m != nil {
		for _, layout := range []string{"Z07:00", "Z0700", "Z07"} {
			if t, err := time.Parse(layout, strings.ToUpper(m[2])); err == nil {
				_, seconds := t.Zone()
				return m[1], time.FixedZone(m[2], seconds), nil
			}
		}
		return "", nil, fmt.Errorf("invalid time %q: invalid offset %s", s, m[2])
	}
	m := zoneFormat.FindStringSubmatch(s)
	if m == nil {
		return s, otherwise, nil
	}
	if name := strings.ToUpper(m[2]); name == "UTC" || name == "GMT" || name == "Z" {
		return m[1], time.UTC, nil
	}
	if strings.Contains(m[2], "/") {
		if zone, err := time.LoadLocation(m[2]); err == nil {
			return m[1], zone, nil
		}
	}
	return "", nil,
		fmt.Errorf("invalid time %q: unknown time zone %q; use an offset, such as +09:00, or a name of the IANA "+
			"time zone database, such as Asia/Tokyo", s, m[2])
}

// parseWall reads date and time of day without a zone; the result is in UTC. today is the current time in the
// zone.
func parseWall(s string, today time.Time) (time.Time, bool) {
	s = strings.TrimSpace(s)
	day := func(n int) string { return today.AddDate(0, 0, n).Format(time.DateOnly) }
	first, rest, _ := strings.Cut(s, " ")
	switch strings.ToLower(first) {
	case "today":
		s = strings.TrimSpace(day(0) + " " + rest)
	case "yesterday":
		s = strings.TrimSpace(day(-1) + " " + rest)
	}
	// A T may separate date and time.
	if len(s) > len(time.DateOnly) && s[len(time.DateOnly)] == 'T' {
		s = s[:len(time.DateOnly)] + " " + s[len(time.DateOnly)+1:]
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02 15", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			y, m, d := today.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC), true
		}
	}
	return time.Time{}, false
}

// inZone returns the time at which clocks in a zone show a time. When clocks are put forward or back, there may
// be none, or two.
func inZone(s string, wall time.Time, zone *time.Location) (time.Time, error) {
	shows := func(t time.Time) bool {
		_, seconds := t.Zone()
		return t.Add(time.Duration(seconds) * time.Second).Equal(wall)
	}
	var found []time.Time
	for _, hours := range []time.Duration{-26, 26} {
		_, seconds := wall.Add(hours * time.Hour).In(zone).Zone()
		t := wall.Add(-time.Duration(seconds) * time.Second).In(zone)
		if shows(t) && (len(found) == 0 || !found[0].Equal(t)) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 0:
		return time.Time{}, fmt.Errorf("invalid time %q: it was skipped when clocks in %s were set forward", s, zone)
	case 1:
		return found[0], nil
	default:
		return time.Time{},
			fmt.Errorf("ambiguous time %q: it was repeated when clocks in %s were set back; use an offset, such "+
				"as %s or %s", s, zone, found[0].Format("-07:00"), found[1].Format("-07:00"))
	}
}

// age is a length of time: months, and a part that always has the same length.
type age struct {
	months int
	time.Duration
}

// before returns the time that is an age before another one, in UTC. First it goes back by months to the same
// day and time of day, or to the last day of the month if that has no such day, and then by the rest.
func (a age) before(now time.Time) time.Time {
	now = now.UTC()
	t := now.AddDate(0, -a.months, 0)
	if t.Day() != now.Day() { // the day overflowed into the next month
		t = t.AddDate(0, 0, -t.Day())
	}
	return t.Add(-a.Duration)
}

// errNoAge says that a text is no age, but may be a time in another form.
var errNoAge = errors.New("not an age")

// Units of ages. A month, and a year, is a number of months.
var (
	units = map[string]time.Duration{
		"us": time.Microsecond, "ms": time.Millisecond,
		"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
		"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
		"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
		"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
		"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
	}
	monthUnits = map[string]int{"mo": 1, "mon": 1, "mons": 1, "month": 1, "months": 1, "y": 12, "yr": 12, "yrs": 12,
		"year": 12, "years": 12}
)

// mostMonths bounds the months of an age: nobody means years before year 1.
const mostMonths = 12 * 2000

// parseAge reads numbers with units, such as 1d12h, ignoring case. It refuses M, which may mean months.
func parseAge(s string) (a age, err error) {
	if s == "" {
		return a, errNoAge
	}
	for s != "" {
		digits := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if digits <= 0 {
			return a, errNoAge
		}
		number := s[:digits]
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return a, errNoAge
		}
		s = strings.TrimLeft(s[digits:], " ")
		letters := strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
		if letters < 0 {
			letters = len(s)
		}
		unit := strings.ToLower(s[:letters])
		months, ofMonths := monthUnits[unit]
		length, known := units[unit]
		switch {
		case unit == "":
			return a, errNoAge
		case s[:letters] == "M":
			return a, fmt.Errorf("unit M may mean minutes or months; use %sm, or %s months", number, number)
		case ofMonths:
			whole, err := strconv.Atoi(number)
			if err != nil {
				return a, fmt.Errorf("%s %s is not a whole number of them; use days", number, unit)
			}
			if a.months += months * min(whole, mostMonths); a.months > mostMonths {
				return a, errors.New("too long ago")
			}
		case !known:
			return a, fmt.Errorf("unknown unit %q; use us, ms, s, m, h, d, w, months or years", s[:letters])
		case n*float64(length) > float64(1<<62-a.Duration):
			return a, errors.New("too long ago")
		default:
			a.Duration += time.Duration(n * float64(length))
		}
		s = strings.TrimLeft(s[letters:], " ")
		if more, found := strings.CutPrefix(s, ", "); found { // as in "1 month, 2 days"
			s = strings.TrimLeft(more, " ")
		}
	}
	return a, nil
}

// DurationText formats a duration, to the microsecond, as ParseDuration reads it.
func DurationText(d time.Duration) string {
	switch us := d.Microseconds(); {
	case us%1e6 == 0:
		return strconv.FormatInt(us/1e6, 10) + "s"
	case us%1e3 == 0:
		return strconv.FormatInt(us/1e3, 10) + "ms"
	default:
		return strconv.FormatInt(us, 10) + "us"
	}
}

// ParseZone reads a time zone: a name of the IANA database, an offset such as +02:00, UTC, or local. As in
// times, it refuses abbreviations.
func ParseZone(s string) (*time.Location, error) {
	switch strings.ToUpper(s) {
	case "UTC", "GMT", "Z":
		return time.UTC, nil
	case "LOCAL":
		return time.Local, nil
	}
	for _, layout := range []string{"-07:00", "-0700", "-07"} {
		if t, err := time.Parse(layout, s); err == nil {
			_, seconds := t.Zone()
			return time.FixedZone(s, seconds), nil
		}
	}
	if strings.Contains(s, "/") {
		if zone, err := time.LoadLocation(s); err == nil {
			return zone, nil
		}
	}
	return nil,
		fmt.Errorf("unknown time zone %q; use a name of the IANA time zone database, such as Asia/Tokyo, an "+
			"offset, such as +09:00, UTC or local", s)
}

// ParseDuration reads a duration, such as 250ms or 1m30s. Without a unit, it is in milliseconds, as for
// log_min_duration_statement.
func ParseDuration(s string) (time.Duration, error) {
	with := strings.TrimSpace(s)
	if with != "" && strings.Trim(with, "0123456789.") == "" {
		with += "ms"
	}
	a, err := parseAge(with)
	switch {
	case err != nil && !errors.Is(err, errNoAge):
		return 0, fmt.Errorf("invalid duration %q: %w", s, err)
	case err != nil || a.months > 0:
		return 0, fmt.Errorf("invalid duration %q: use for example 250ms, 2s or 1m30s", s)
	}
	return a.Duration.Truncate(time.Microsecond), nil
}

// ParseAge reads a length of time with units, such as 15m, 1h30m or 2d.
func ParseAge(s string) (time.Duration, error) {
	switch a, err := parseAge(strings.TrimSpace(s)); {
	case err == nil && a.months == 0 && a.Duration > 0:
		return a.Duration, nil
	case err != nil && !errors.Is(err, errNoAge):
		return 0, err
	default:
		return 0, fmt.Errorf("invalid duration %q: use for example 15m, 1h30m or 2d", s)
	}
}

// Times in the text of commands, in another zone.

package render

import (
	"regexp"
	"strings"
	"time"
)

// timeOrQuoted is a time as Time shows it, also without microseconds, or what is quoted, which is not ours.
var timeOrQuoted = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|\b\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z`)

// Zone is the time zone in which text for people shows times; the zero value is UTC.
type Zone struct{ location *time.Location }

// InZone is a time zone.
func InZone(location *time.Location) Zone {
	if location == time.UTC {
		location = nil
	}
	return Zone{location}
}

// Times is a sentence of ours with its times in the zone, with its offset: 2026-11-06T17:00:00.249343+01:00. What is in
// double quotes, such as a name, stays as it is; so must be kept apart whatever else is not ours, such as a path.
func (z Zone) Times(text string) string {
	if z.location == nil {
		return text
	}
	return timeOrQuoted.ReplaceAllStringFunc(text, func(found string) string {
		t, err := time.Parse(time.RFC3339Nano, found)
		if err != nil { // it is quoted
			return found
		}
		c := clock{zone: z.location}
		shown := string(c.stamp(nil, t.UnixMicro()-unixEpoch*1e6, 'T'))
		if !strings.Contains(found, ".") {
			shown = strings.Replace(shown, ".000000", "", 1)
		}
		return shown
	})
}

// Width is that of a time in the zone, as a column of a table.
func (z Zone) Width() int { return len(z.Times(Time(0))) }

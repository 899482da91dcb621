// Times in messages, shown in another time zone.

package render

import (
	"regexp"
	"strings"
	"time"
)

// timeOrQuoted matches a time as Time formats it, also without microseconds, or a quoted string, whose times
// are not ours.
var timeOrQuoted = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|\b\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z`)

// Zone is the time zone in which messages show times; the zero value is UTC.
type Zone struct{ location *time.Location }

// InZone returns the Zone for a time zone.
func InZone(location *time.Location) Zone {
	if location == time.UTC {
		location = nil
	}
	return Zone{location}
}

// Times returns a message of the program with its times shown in the zone, with the offset:
// 2026-11-06T17:00:00.249343+01:00. What is in double quotes, such as a name, is not changed. The caller must
// not pass other foreign text without quotes, such as a path.
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
		shown := string(c.appendZoned(nil, t.UnixMicro()-unixEpoch*1e6, 'T'))
		if !strings.Contains(found, ".") {
			shown = strings.Replace(shown, ".000000", "", 1)
		}
		return shown
	})
}

// Width returns the width of a time in the zone, for a column of a table.
func (z Zone) Width() int { return len(z.Times(Time(0))) }

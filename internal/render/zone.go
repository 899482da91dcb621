// Times in the text of commands, in another zone.

package render

import (
	"io"
	"regexp"
	"time"
)

// timeOrQuoted is a time as Time shows it, or what is quoted, which is not ours.
var timeOrQuoted = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|\b\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`)

// InZone returns a writer of text for people that shows the times in it, which Time has written, in another zone, with its
// offset: 2026-11-06T17:00:00.249343+01:00. What is in double quotes stays as it is. Each Write has whole lines.
func InZone(out io.Writer, zone *time.Location) io.Writer {
	if zone == nil || zone == time.UTC {
		return out
	}
	return &zoned{out, clock{zone: zone}}
}

type zoned struct {
	out   io.Writer
	clock clock
}

func (z *zoned) Write(text []byte) (int, error) {
	_, err := z.out.Write(timeOrQuoted.ReplaceAllFunc(text, func(found []byte) []byte {
		t, err := time.Parse(time.RFC3339Nano, string(found))
		if err != nil { // it is quoted
			return found
		}
		return z.clock.stamp(nil, t.UnixMicro()-unixEpoch*1e6, 'T')
	}))
	return len(text), err
}

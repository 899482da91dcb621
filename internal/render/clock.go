// Times and durations as text.

package render

import (
	"strconv"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
)

// clock formats times. It keeps the text of the last second, which most records share with the previous one.
type clock struct {
	zone      *time.Location // nil: UTC
	second    int64
	text      []byte
	offset    []byte // of the zone, as written after the time
	buf       [32]byte
	offsetBuf [9]byte
}

// append appends a time with microseconds and without a zone, "T" or another
// byte between date and time.
func (c *clock) append(dst []byte, usec int64, between byte) []byte {
	second := usec / 1e6
	rest := usec % 1e6
	if rest < 0 {
		second, rest = second-1, rest+1e6
	}
	if c.text == nil || second != c.second {
		c.second = second
		seconds := 0
		if c.zone != nil {
			_, seconds = c.at(second).Zone()
		}
		c.text = format.AppendSecond(c.buf[:0], second+int64(seconds), between)
		c.offset = appendOffset(c.offsetBuf[:0], seconds, c.zone != nil)
	}
	dst = append(dst, c.text...)
	return append(dst, '.',
		byte('0'+rest/100000), byte('0'+rest/10000%10), byte('0'+rest/1000%10),
		byte('0'+rest/100%10), byte('0'+rest/10%10), byte('0'+rest%10))
}

// at returns a second of the trail's time in the clock's zone.
func (c *clock) at(second int64) time.Time { return time.Unix(second+unixEpoch, 0).In(c.zone) }

// name returns a blank and the abbreviation of the zone at a time, as the server's log has it.
func (c *clock) name(usec int64) string {
	if c.zone == nil {
		return " UTC"
	}
	name, _ := c.at(floorDiv(usec, 1e6)).Zone()
	return " " + name
}

// unixEpoch is when the trail's time begins, 2000-01-01, in seconds since 1970.
const unixEpoch = 946684800

// appendOffset appends the suffix of ISO 8601 for the zone: Z for UTC, else the offset. Offsets of some
// historical zones have seconds, for which ISO 8601 has no syntax; PostgreSQL's is used.
func appendOffset(dst []byte, seconds int, shown bool) []byte {
	if !shown {
		return append(dst, 'Z')
	}
	sign := byte('+')
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	two := func(n int) { dst = append(dst, byte('0'+n/10%10), byte('0'+n%10)) }
	dst = append(dst, sign)
	two(seconds / 3600)
	dst = append(dst, ':')
	two(seconds / 60 % 60)
	if seconds%60 != 0 {
		dst = append(dst, ':')
		two(seconds % 60)
	}
	return dst
}

// appendZoned appends a time with microseconds and the offset of its zone.
func (c *clock) appendZoned(dst []byte, usec int64, between byte) []byte {
	dst = c.append(dst, usec, between)
	return append(dst, c.offset...)
}

// Time formats a time of the trail as JSON has it.
func Time(usec int64) string {
	var c clock
	return string(append(c.append(nil, usec, 'T'), 'Z'))
}

// appendDuration appends a duration for people: 3 digits and a unit.
func appendDuration(dst []byte, usec uint64) []byte {
	switch {
	case usec < 1000:
		return append(strconv.AppendUint(dst, usec, 10), "µs"...)
	case usec < 1e6:
		return append(append3(dst, float64(usec)/1e3), "ms"...)
	case usec < 60e6:
		return append(append3(dst, float64(usec)/1e6), 's')
	case usec < 3600e6:
		dst = append(strconv.AppendUint(dst, usec/60e6, 10), 'm')
		return append(strconv.AppendUint(dst, usec/1e6%60, 10), 's')
	}
	dst = append(strconv.AppendUint(dst, usec/3600e6, 10), 'h')
	return append(strconv.AppendUint(dst, usec/60e6%60, 10), 'm')
}

func append3(dst []byte, v float64) []byte {
	switch {
	case v < 10:
		return strconv.AppendFloat(dst, v, 'f', 2, 64)
	case v < 100:
		return strconv.AppendFloat(dst, v, 'f', 1, 64)
	}
	return strconv.AppendFloat(dst, v, 'f', 0, 64)
}

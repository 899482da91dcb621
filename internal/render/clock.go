// Times and durations as text.

package render

import (
	"strconv"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// clock prints times; it keeps the last second's text, for most records share
// theirs with the one before.
type clock struct {
	second int64
	text   []byte
	buf    [32]byte
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
		c.text = trail.AppendSecond(c.buf[:0], second, between)
	}
	dst = append(dst, c.text...)
	return append(dst, '.',
		byte('0'+rest/100000), byte('0'+rest/10000%10), byte('0'+rest/1000%10),
		byte('0'+rest/100%10), byte('0'+rest/10%10), byte('0'+rest%10))
}

// Time is a time of the trail as JSON shows it.
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

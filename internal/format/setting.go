// Values of settings in records: as SHOW prints them, or, in versions up to 0.9.0, without a unit.

package format

import (
	"strconv"
	"strings"
	"time"
)

var settingTimes = map[string]time.Duration{
	"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour,
	"d": 24 * time.Hour,
}

var settingSizes = map[string]int64{"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

// SettingTime reads the value of a setting that is a time. Without a unit, it is in the setting's default unit.
// It refuses negative numbers, which have special meanings.
func SettingTime(value string, defaultUnit time.Duration) (d time.Duration, ok bool) {
	n, unit := splitUnit(value)
	factor, known := settingTimes[unit]
	if unit == "" {
		factor, known = defaultUnit, true
	}
	return time.Duration(n) * factor, known && n >= 0
}

// SettingSize reads, in bytes, the value of a setting that is a size in memory or on disk. Without a unit, it
// is in the setting's default unit, of so many bytes. It refuses negative numbers, which have special meanings.
func SettingSize(value string, defaultUnit int64) (bytes int64, ok bool) {
	n, unit := splitUnit(value)
	factor, known := settingSizes[unit]
	if unit == "" {
		factor, known = defaultUnit, true
	}
	return n * factor, known && n >= 0
}

// splitUnit returns the number, -1 if there is none, and the unit after it.
func splitUnit(value string) (int64, string) {
	end := strings.IndexFunc(value, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(value)
	}
	n, err := strconv.ParseInt(value[:end], 10, 48)
	if err != nil {
		return -1, ""
	}
	return n, value[end:]
}

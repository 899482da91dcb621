// Values of settings, as records have them: as SHOW prints them, or as versions up to 0.9.0 did, without a unit.

package format

import (
	"strconv"
	"strings"
	"time"
)

var settingTimes = map[string]time.Duration{
	"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

var settingSizes = map[string]int64{"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

// SettingTime reads a setting that is a time. Without a unit, it is in the setting's own one. Numbers below 0, which
// mean something else, are not ok.
func SettingTime(value string, own time.Duration) (d time.Duration, ok bool) {
	n, unit := splitUnit(value)
	factor, known := settingTimes[unit]
	if unit == "" {
		factor, known = own, true
	}
	return time.Duration(n) * factor, known && n >= 0
}

// SettingSize reads a setting that is a size in memory or on disk, in bytes. Without a unit, it is in the setting's own
// one, so many bytes. Numbers below 0, which mean something else, are not ok.
func SettingSize(value string, own int64) (bytes int64, ok bool) {
	n, unit := splitUnit(value)
	factor, known := settingSizes[unit]
	if unit == "" {
		factor, known = own, true
	}
	return n * factor, known && n >= 0
}

// splitUnit is the number, -1 if there is none, and the unit behind it.
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

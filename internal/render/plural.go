// Numbers of things.

package render

import (
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Plural formats a number of things: "1 record", "1,200 records".
func Plural[N ~int | ~int64 | ~uint32 | ~uint64](n N, noun string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(int(min(n, 2)), noun, "")
}

// Numbers and texts for a given number of cells of a terminal.

package top

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/render"
)

// Charset says which characters a terminal shows.
type Charset struct{ ASCII bool }

// CharsetOf returns UTF-8 if the locale says so, which is read as setlocale reads it, and otherwise ASCII.
func CharsetOf(getenv func(string) string) Charset {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(getenv(name)); v != "" {
			return Charset{ASCII: !strings.Contains(v, "UTF-8") && !strings.Contains(v, "UTF8")}
		}
	}
	return Charset{ASCII: os.PathSeparator == '/'}
}

// safe returns text with control characters escaped, and with question marks for what the terminal cannot show.
func (c Charset) safe(s string) string {
	s = render.Safe(s)
	if !c.ASCII {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, s)
}

// cut returns text cut to at most n cells.
func (c Charset) cut(s string, n int) string {
	if n <= 0 {
		return ""
	}
	tail := "…"
	if c.ASCII {
		tail = "~"
	}
	return ansi.TruncateWc(c.safe(s), n, tail)
}

// left returns text in exactly n cells, cut or filled with blanks.
func (c Charset) left(s string, n int) string {
	s = c.cut(s, n)
	return s + strings.Repeat(" ", max(0, n-ansi.StringWidthWc(s)))
}

// right returns a number, which is ASCII, at the right of n cells. A number that does not fit is not
// shown, because a part of it would be wrong.
func right(s string, n int) string {
	if len(s) > n {
		s = strings.Repeat("#", max(n, 0))
	}
	return strings.Repeat(" ", n-len(s)) + s
}

// lines returns a text's lines, each of at most n cells.
func (c Charset) lines(s string, n int) (lines []string) {
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		line = c.safe(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "))
		for ansi.StringWidthWc(line) > n {
			first := ansi.TruncateWc(line, n, "")
			if first == "" {
				break // one character is wider than the terminal
			}
			lines, line = append(lines, first), line[len(first):]
		}
		lines = append(lines, line)
	}
	return lines
}

// bars draws counts, the greatest of which has the highest bar.
func (c Charset) bars(values []float64, known func(i int) bool) string {
	levels, unknown := []rune(" ▁▂▃▄▅▆▇█"), '·'
	if c.ASCII {
		levels, unknown = []rune(" _.-=+*%#"), '?'
	}
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for i, v := range values {
		switch {
		case !known(i):
			b.WriteRune(unknown)
		case v == 0:
			b.WriteRune(levels[0])
		default:
			b.WriteRune(levels[1+min(int(v/most*7.999), 7)])
		}
	}
	return b.String()
}

// short returns a count in at most seven cells.
func short(n uint64) string {
	switch {
	case n < 100_000:
		return humanize.Comma(int64(n))
	case n < 10_000_000:
		return humanize.Comma(int64(n/1000)) + "k"
	case n < 10_000_000_000:
		return humanize.Comma(int64(n/1_000_000)) + "M"
	default:
		return humanize.Comma(int64(min(n/1_000_000_000, 9999))) + "G"
	}
}

// rate returns a number per second in at most seven cells.
func rate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.005:
		return "<.01"
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return short(uint64(v + 0.5))
	}
}

// perSecond is how often something happened in so many microseconds.
func perSecond(n uint64, over int64) float64 {
	if over <= 0 {
		return 0
	}
	return float64(n) * 1e6 / float64(over)
}

// duration returns a duration in at most seven cells.
func duration(usec uint64) string {
	seconds := usec / 1_000_000
	switch {
	case usec < 1000:
		return fmt.Sprintf("%dus", usec)
	case usec < 10_000:
		return fmt.Sprintf("%.2fms", float64(usec/10)/100)
	case usec < 100_000:
		return fmt.Sprintf("%.1fms", float64(usec/100)/10)
	case usec < 1_000_000:
		return fmt.Sprintf("%dms", usec/1000)
	case seconds < 10:
		return fmt.Sprintf("%.2fs", float64(usec/10_000)/100)
	case seconds < 60:
		return fmt.Sprintf("%.1fs", float64(usec/100_000)/10)
	case seconds < 3600:
		return fmt.Sprintf("%dm%02ds", seconds/60, seconds%60)
	case seconds < 86400:
		return fmt.Sprintf("%dh%02dm", seconds/3600, seconds/60%60)
	default:
		return fmt.Sprintf("%dd%02dh", min(seconds/86400, 999), seconds/3600%24)
	}
}

// size returns a number of bytes in PostgreSQL's units.
func size(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10) + "B"
	}
	v := float64(n)
	units := []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + units[i]
}

// span returns the length of a window, without units that are zero.
func span(usec int64) string {
	s := ""
	for _, u := range []struct {
		name   string
		length int64
	}{{"d", 86400e6}, {"h", 3600e6}, {"m", 60e6}, {"s", 1e6}, {"ms", 1000}} {
		if n := usec / u.length; n > 0 {
			s += strconv.FormatInt(n, 10) + u.name
			usec %= u.length
		}
	}
	return s
}

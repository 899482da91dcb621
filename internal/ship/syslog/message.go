// A record as a message of RFC 5424, in a frame that begins with its length (RFC 6587, section 3.4.1; RFC 5425).

package syslog

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// facilities are the names that RFC 5424's numbers have in configurations of syslog servers.
var facilities = map[string]int{
	"kern": 0, "user": 1, "mail": 2, "daemon": 3, "auth": 4, "syslog": 5, "lpr": 6, "news": 7, "uucp": 8, "cron": 9,
	"authpriv": 10, "ftp": 11, "ntp": 12, "audit": 13, "alert": 14, "clock": 15, "local0": 16, "local1": 17,
	"local2": 18, "local3": 19, "local4": 20, "local5": 21, "local6": 22, "local7": 23,
}

const (
	severityWarning = 4
	severityInfo    = 6
)

// header is what the headers of all messages have in common.
type header struct {
	facility int
	host     string
	app      string
}

// maxHost and maxApp are limits of RFC 5424.
const (
	maxHost = 255
	maxApp  = 48
	maxID   = 32
)

func newHeader(o *Options) (*header, error) {
	h := &header{host: o.Hostname, app: o.AppName}
	var known bool
	if h.facility, known = facilities[o.Facility]; !known {
		return nil, fmt.Errorf("facility: there is no %q: audit, authpriv, local0 to local7 are some", o.Facility)
	}
	if h.host == "" {
		h.host, _ = os.Hostname()
		h.host = printable(h.host, maxHost)
	}
	if h.host != printable(h.host, maxHost) {
		return nil, fmt.Errorf("hostname: up to %d printable ASCII characters without blanks", maxHost)
	}
	if h.app != printable(h.app, maxApp) {
		return nil, fmt.Errorf("app_name: up to %d printable ASCII characters without blanks", maxApp)
	}
	return h, nil
}

// printable leaves of a word what a header may contain; "-" stands for nothing.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return -1
	}, s)
	if s = s[:min(len(s), most)]; s == "" {
		return "-"
	}
	return s
}

// epoch is 2000-01-01 UTC in microseconds since 1970.
const epoch = 946684800 * 1_000_000

// appendMessage appends a record without the length. Structured data needs an enterprise number, which this project
// does not have: the line says it all.
func (h *header) appendMessage(dst []byte, e *ship.Event) []byte {
	severity := severityInfo
	if e.Failed {
		severity = severityWarning
	}
	dst = append(strconv.AppendInt(append(dst, '<'), int64(h.facility*8+severity), 10), ">1 "...)
	if at := time.UnixMicro(e.Time + epoch).UTC(); e.Time > -epoch && at.Year() >= 1970 && at.Year() <= 9999 {
		dst = at.AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
	} else {
		dst = append(dst, '-')
	}
	dst = append(append(append(dst, ' '), h.host...), ' ')
	dst = append(append(append(dst, h.app...), ' '), process(e.Session)...)
	dst = append(append(append(dst, ' '), printable(e.Kind, maxID)...), " - "...)
	return append(dst, e.Line...)
}

// process returns the process ID of a session, whose ID ends with it in hexadecimal digits.
func process(session string) string {
	_, pid, _ := strings.Cut(session, ".")
	n, err := strconv.ParseUint(pid, 16, 32)
	if err != nil {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

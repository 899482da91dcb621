// The prefix of log lines: log_line_prefix of PostgreSQL.

package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// LinePrefix is a log_line_prefix.
type LinePrefix struct{ parts []prefixPart }

// prefixPart is a text, or an escape with its padding.
type prefixPart struct {
	literal string
	escape  byte
	padding int // negative: on the right
}

// prefixEscapes append the values of escapes as the server does.
var prefixEscapes = map[byte]func(f *pgauditFormat, dst []byte, r *format.Record) []byte{
	'a': prefixFact(format.KeyApplication),
	'u': prefixFact(format.KeyUser),
	'd': prefixFact(format.KeyDatabase),
	'b': prefixFact(format.KeyBackendType),
	'h': func(_ *pgauditFormat, dst []byte, r *format.Record) []byte {
		address, _, _ := endpoint(r.Session.Fact(format.KeyClient))
		return appendSafe(dst, address)
	},
	'r': func(_ *pgauditFormat, dst []byte, r *format.Record) []byte {
		address, port, _ := endpoint(r.Session.Fact(format.KeyClient))
		dst = appendSafe(dst, address)
		if len(port) > 0 {
			dst = append(append(append(dst, '('), port...), ')')
		}
		return dst
	},
	'p': func(_ *pgauditFormat, dst []byte, r *format.Record) []byte {
		return strconv.AppendUint(dst, uint64(r.Session.PID), 10)
	},
	'P': func(_ *pgauditFormat, dst []byte, r *format.Record) []byte {
		if leader, ok := r.Session.Leader(); ok {
			return strconv.AppendUint(dst, uint64(leader.PID), 10)
		}
		return dst
	},
	't': func(f *pgauditFormat, dst []byte, r *format.Record) []byte {
		dst = f.clock.append(dst, r.Time, ' ')
		return append(dst[:len(dst)-len(".000000")], f.clock.name(r.Time)...)
	},
	'm': func(f *pgauditFormat, dst []byte, r *format.Record) []byte {
		dst = f.clock.append(dst, r.Time, ' ')
		return append(dst[:len(dst)-len("000")], f.clock.name(r.Time)...)
	},
	'n': func(_ *pgauditFormat, dst []byte, r *format.Record) []byte {
		ms := unixMilliseconds(r.Time)
		return append(strconv.AppendInt(dst, floorDiv(ms, 1000), 10),
			fmt.Sprintf(".%03d", ms-1000*floorDiv(ms, 1000))...)
	},
	'i': func(_ *pgauditFormat, dst []byte, r *format.Record) []byte {
		if r.Shape == nil {
			return dst
		}
		return appendSafe(dst, r.Shape.Command)
	},
	'e': func(_ *pgauditFormat, dst []byte, _ *format.Record) []byte { return append(dst, "00000"...) },
	'c': func(_ *pgauditFormat, dst []byte, r *format.Record) []byte { return r.Session.ID().Append(dst) },
	's': func(f *pgauditFormat, dst []byte, r *format.Record) []byte {
		dst = f.started.append(dst, r.Session.Start, ' ')
		return append(dst[:len(dst)-len(".000000")], f.started.name(r.Session.Start)...)
	},
	'x': func(_ *pgauditFormat, dst []byte, r *format.Record) []byte {
		return strconv.AppendUint(dst, uint64(uint32(r.XID)), 10)
	},
	'Q': func(_ *pgauditFormat, dst []byte, r *format.Record) []byte {
		if r.Shape == nil {
			return append(dst, '0')
		}
		return strconv.AppendInt(dst, int64(r.Shape.QueryID), 10)
	},
}

// prefixFact appends a fact of the session, or [unknown], as the server does.
func prefixFact(key format.Key) func(*pgauditFormat, []byte, *format.Record) []byte {
	return func(_ *pgauditFormat, dst []byte, r *format.Record) []byte {
		if value := r.Session.Fact(key); len(value) > 0 {
			return appendSafe(dst, value)
		}
		return append(dst, "[unknown]"...)
	}
}

// unknownEscapes are PostgreSQL's escapes for values that no trail has.
var unknownEscapes = map[byte]string{
	'l': "the number of a line in the log of its session",
	'v': "virtual transaction IDs",
	'L': "the server's own addresses",
}

// ParseLinePrefix reads a log_line_prefix. The server ignores escapes that it does not know;
// here they are refused, because a program that reads the lines would misunderstand them.
func ParseLinePrefix(s string) (*LinePrefix, error) {
	p := &LinePrefix{}
	literal := ""
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' && s[i] != '\t' {
			return nil, fmt.Errorf("control characters are not allowed")
		}
		if s[i] != '%' {
			literal += s[i : i+1]
			continue
		}
		rest := s[i+1:]
		digits := len(rest) - len(strings.TrimLeft(strings.TrimPrefix(rest, "-"), "0123456789"))
		padding := 0
		if digits > 0 {
			n, err := strconv.Atoi(rest[:digits])
			if err != nil || n < -maxPadding || n > maxPadding {
				return nil, fmt.Errorf("invalid padding in %q", "%"+rest[:digits])
			}
			padding = n
		}
		if rest = rest[digits:]; rest == "" {
			return nil, fmt.Errorf("it ends in the middle of an escape")
		}
		i += digits + 1
		switch c := rest[0]; {
		case c == '%':
			literal += "%"
		case c == 'q' || prefixEscapes[c] != nil:
			if literal != "" {
				p.parts = append(p.parts, prefixPart{literal: literal})
				literal = ""
			}
			p.parts = append(p.parts, prefixPart{escape: c, padding: padding})
		case unknownEscapes[c] != "":
			return nil, fmt.Errorf("%%%c: a trail does not contain %s", c, unknownEscapes[c])
		default:
			return nil, fmt.Errorf("unknown escape %q", "%"+rest[:1])
		}
	}
	if literal != "" {
		p.parts = append(p.parts, prefixPart{literal: literal})
	}
	return p, nil
}

// maxPadding bounds the padding of an escape.
const maxPadding = 1000

// prefix appends the prefix of a record's lines, and the severity that pgaudit has by default.
func (f *pgauditFormat) appendPrefix(dst []byte, r *format.Record) []byte {
	if f.prefix == nil {
		return dst
	}
	for _, p := range f.prefix.parts {
		if p.escape == 0 {
			dst = append(dst, p.literal...)
			continue
		}
		if p.escape == 'q' {
			if kind := string(r.Session.Fact(format.KeyBackendType)); kind != "" && kind != "client backend" &&
				kind != "parallel worker" {
				break // a process without a session
			}
			continue
		}
		from := len(dst)
		dst = prefixEscapes[p.escape](f, dst, r)
		width := len([]rune(string(dst[from:])))
		if missing := p.padding - width; missing > 0 {
			value := string(dst[from:])
			dst = append(append(dst[:from], strings.Repeat(" ", missing)...), value...)
		} else if missing = -p.padding - width; missing > 0 {
			dst = append(dst, strings.Repeat(" ", missing)...)
		}
	}
	return append(dst, "LOG:  "...)
}

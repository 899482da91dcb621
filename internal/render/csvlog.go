// The csvlog format: the lines that a server with csvlog would have written.

package render

import (
	"encoding/binary"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
)

// A session that ends with an error has one FATAL line. If a statement was running, the line is that of the
// statement. Only csvlogOrder, which sees all records in their order, can know that. Until then, the lines of
// such a statement, and those of such an end of a session, have a header of csvlogHeader bytes.
type csvlogFormat struct {
	definitions
	message []byte
	detail  []byte
}

// csvlogRow has the columns whose values depend on the kind of the line.
type csvlogRow struct {
	tag, severity, sqlstate string
	message, detail, query  []byte
}

func (f *csvlogFormat) Append(dst []byte, r *format.Record) []byte {
	switch r.Kind {
	case format.KindStatement:
		if r.Depth == 0 && r.Outcome == format.OutcomeError && csvlogSeverity(r) == "FATAL" {
			dst = f.statement(csvlogMarked(dst, csvlogFatal, r.Session), r)
		} else if r.Depth == 0 {
			dst = f.statement(dst, r)
		}
	case format.KindConnect:
		client := csvlogHost(nil, r.Session, " port=")
		f.message = append(append(f.message[:0], "connection received: host="...), client...)
		dst = f.row(dst, r, csvlogRow{severity: "LOG", sqlstate: "00000", message: f.message})
		f.message = appendCSVLogUser(append(f.message[:0], "connection authorized:"...), r.Session)
		if name := r.Session.Fact(format.KeyApplication); len(name) > 0 {
			f.message = append(append(f.message, " application_name="...), name...)
		}
		dst = f.row(dst, r, csvlogRow{tag: "authentication", severity: "LOG", sqlstate: "00000", message: f.message})
	case format.KindAuthFailed:
		dst = f.row(dst, r, csvlogRow{
			tag:      "authentication",
			severity: "FATAL",
			sqlstate: string(r.SQLState),
			message:  r.Message,
		})
	case format.KindDisconnect:
		if r.Outcome == format.OutcomeError {
			from := len(dst)
			dst = f.row(csvlogMarked(dst, csvlogEnd, r.Session), r, csvlogRow{
				tag: csvlogIdle(r.SQLState), severity: "FATAL", sqlstate: string(r.SQLState), message: r.Message,
			})
			binary.LittleEndian.PutUint32(dst[from+csvlogHeader-4:], uint32(len(dst)-from-csvlogHeader))
		}
		f.message = appendClockTime(append(f.message[:0], "disconnection: session time: "...), r.Duration)
		f.message = appendCSVLogUser(f.message, r.Session)
		f.message = append(append(f.message, " host="...), csvlogHost(nil, r.Session, " port=")...)
		dst = f.row(dst, r, csvlogRow{tag: "idle", severity: "LOG", sqlstate: "00000", message: f.message})
	case format.KindStart, format.KindTransaction, format.KindSubtransaction:
	default:
		dst = f.row(dst, r, csvlogRow{severity: "LOG", sqlstate: "00000", message: f.messageOfOther(r)})
	}
	return dst
}

// messageOfOther returns the message for records that have no equivalent in the server's log. Names and values
// are quoted as in the text format, so that no value can imitate another; a bar separates them from a text.
func (f *csvlogFormat) messageOfOther(r *format.Record) []byte {
	f.message = append(append(f.message[:0], "pg_steno "...), r.Kind.String()...)
	sep := ": "
	if len(r.Text) > 0 {
		f.message = appendBetweenBars(append(f.message, sep...), r.Text)
		sep = " | "
	}
	for name, value := range r.ExtraPairs {
		f.message = append(appendValue(append(f.message, sep...), name), '=')
		f.message = appendValue(f.message, value)
		sep = " "
	}
	return f.message
}

func (f *csvlogFormat) statement(dst []byte, r *format.Record) []byte {
	row := csvlogRow{severity: "LOG", sqlstate: "00000"}
	if r.Shape != nil {
		row.tag = string(r.Shape.Command)
	}
	f.detail = f.csvlogParams(f.detail[:0], r)
	if r.Outcome == format.OutcomeError {
		row.severity, row.sqlstate = csvlogSeverity(r), string(r.SQLState)
		row.message, row.query = r.Message, r.Text
		return f.row(dst, r, row)
	}
	row.detail = f.detail
	f.message = append(f.message[:0], "duration: "...)
	f.message = strconv.AppendUint(f.message, r.Duration/1000, 10)
	f.message = append(f.message, '.', byte('0'+r.Duration/100%10), byte('0'+r.Duration/10%10),
		byte('0'+r.Duration%10))
	if len(f.detail) > 0 {
		f.message = append(f.message, " ms  execute <unnamed>: "...)
	} else {
		f.message = append(f.message, " ms  statement: "...)
	}
	f.message = append(f.message, r.Text...)
	row.message = f.message
	return f.row(dst, r, row)
}

// csvlogSeverity returns whether the error of a statement ended its session. Not all errors of class 08 do:
// extensions raise some about other connections.
func csvlogSeverity(r *format.Record) string {
	state := string(r.SQLState)
	switch {
	case len(state) == 5 && state[:4] == "57P0", state == "25P03", state == "25P04",
		state == "08006" && string(r.Message) == "connection to client lost":
		return "FATAL"
	}
	return "ERROR"
}

// csvlogIdle returns the command tag for a session that ends between two statements.
func csvlogIdle(sqlstate []byte) string {
	if string(sqlstate) == "25P03" {
		return "idle in transaction"
	}
	return "idle"
}

// csvlogHeader is the length of a mark, the start of the session, the process ID, and the length of the FATAL
// line of an end.
const csvlogHeader = 1 + 8 + 4 + 4

// Marks of a record; no line begins with them.
const (
	csvlogFatal = 1 + iota // a statement that ended its session
	csvlogEnd              // the end of a session, by an error
)

func csvlogMarked(dst []byte, mark byte, s *format.Session) []byte {
	id := s.ID()
	dst = binary.LittleEndian.AppendUint64(append(dst, mark), uint64(id.Start))
	dst = binary.LittleEndian.AppendUint32(dst, id.PID)
	return append(dst, 0, 0, 0, 0)
}

// csvlogOrder leaves the FATAL line of a session's end out if a statement has it.
type csvlogOrder struct{ hasFatalLine map[format.SessionID]bool }

// Next returns a record's lines.
func (o *csvlogOrder) Next(record []byte) []byte {
	if len(record) < csvlogHeader || record[0] > csvlogEnd {
		return record
	}
	id := format.SessionID{Start: int64(binary.LittleEndian.Uint64(record[1:])),
		PID: binary.LittleEndian.Uint32(record[9:])}
	lines := record[csvlogHeader:]
	if record[0] == csvlogFatal {
		o.hasFatalLine[id] = true
	} else if o.hasFatalLine[id] {
		delete(o.hasFatalLine, id)
		return lines[binary.LittleEndian.Uint32(record[csvlogHeader-4:]):]
	}
	return lines
}

// csvlogParams appends parameters as the server's DETAIL has them.
func (f *csvlogFormat) csvlogParams(dst []byte, r *format.Record) []byte {
	n := int64(0)
	first := true
	r.Params(func(p format.ParamType, value []byte, null bool) bool {
		n++
		if p.IsUnused(null) {
			return true
		}
		if first {
			first = false
			dst = append(dst, "parameters: $"...)
		} else {
			dst = append(dst, ", $"...)
		}
		dst = append(strconv.AppendInt(dst, n, 10), " = "...)
		if null {
			dst = append(dst, "NULL"...)
			return true
		}
		f.scratch = format.AppendParam(f.scratch[:0], p.Repr, value)
		dst = append(dst, '\'')
		for _, c := range f.scratch {
			if c == '\'' {
				dst = append(dst, c)
			}
			dst = append(dst, c)
		}
		dst = append(dst, '\'')
		return true
	})
	return dst
}

// row appends one line.
func (f *csvlogFormat) row(dst []byte, r *format.Record, row csvlogRow) []byte {
	dst = f.stamp(dst, r.End())
	dst = append(f.context(dst, r, csvlogContext), ',')
	dst = append(strconv.AppendUint(dst, r.Seq, 10), ',')
	dst = append(csvlogQuoted(dst, []byte(row.tag)), ',')
	dst = append(format.AppendSecond(dst, floorDiv(r.Session.Start, 1e6), ' '), " UTC,,"...)
	dst = append(strconv.AppendUint(dst, uint64(uint32(r.XID)), 10), ',')
	dst = append(append(dst, row.severity...), ',')
	dst = csvString(dst, []byte(row.sqlstate))
	dst = append(csvlogQuoted(dst, row.message), ',')
	if len(row.detail) > 0 {
		dst = csvlogQuoted(dst, row.detail)
	}
	dst = append(dst, ",,,,,"...)
	if len(row.query) > 0 {
		dst = csvlogQuoted(dst, row.query)
	}
	dst = append(dst, ",,,"...)
	dst = append(csvlogQuoted(dst, r.Session.Fact(format.KeyApplication)), ',')
	dst = append(csvlogQuoted(dst, r.Session.Fact(format.KeyBackendType)), ",,"...)
	if r.Shape != nil {
		dst = strconv.AppendInt(dst, int64(r.Shape.QueryID), 10)
	} else {
		dst = append(dst, '0')
	}
	return append(dst, '\n')
}

// stamp appends a time as log_time has it: to the millisecond.
func (f *csvlogFormat) stamp(dst []byte, usec int64) []byte {
	dst = f.clock.append(dst, usec, ' ')
	return append(dst[:len(dst)-3], " UTC,"...)
}

// csvlogContext appends user_name to session_id.
func csvlogContext(dst []byte, s *format.Session) []byte {
	for _, k := range []format.Key{format.KeyUser, format.KeyDatabase} {
		if v := s.Fact(k); len(v) > 0 {
			dst = csvlogQuoted(dst, v)
		}
		dst = append(dst, ',')
	}
	dst = append(strconv.AppendUint(dst, uint64(s.PID), 10), ',')
	if client := s.Fact(format.KeyClient); len(client) > 0 {
		dst = csvlogQuoted(dst, csvlogHost(nil, s, ":"))
	}
	return s.ID().Append(append(dst, ','))
}

// csvlogHost appends the client's address, and its port after a separator.
func csvlogHost(dst []byte, s *format.Session, separator string) []byte {
	address, port, _ := endpoint(s.Fact(format.KeyClient))
	dst = append(dst, address...)
	if len(port) > 0 {
		dst = append(append(dst, separator...), port...)
	}
	return dst
}

// appendCSVLogUser appends user and database, as messages about connections have them.
func appendCSVLogUser(dst []byte, s *format.Session) []byte {
	dst = append(append(dst, " user="...), s.Fact(format.KeyUser)...)
	if db := s.Fact(format.KeyDatabase); len(db) > 0 {
		dst = append(append(dst, " database="...), db...)
	}
	return dst
}

// appendClockTime appends a duration as hours, minutes, seconds: 0:00:05.000.
func appendClockTime(dst []byte, usec uint64) []byte {
	two := func(n uint64) { dst = append(dst, byte('0'+n/10), byte('0'+n%10)) }
	ms := usec / 1000
	dst = append(strconv.AppendUint(dst, ms/3600000, 10), ':')
	two(ms / 60000 % 60)
	dst = append(dst, ':')
	two(ms / 1000 % 60)
	return append(dst, '.', byte('0'+ms/100%10), byte('0'+ms/10%10), byte('0'+ms%10))
}

// csvlogQuoted appends a value in quotes, escaped as in csv.
func csvlogQuoted(dst, s []byte) []byte { return append(appendCSVQuotedBody(append(dst, '"'), s), '"') }

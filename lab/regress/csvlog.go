// Reads a server's csvlog.

package regress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Columns of csvlog, PostgreSQL 15 (PostgreSQL 14 and later have as many).
const (
	columnUser        = 1
	columnDatabase    = 2
	columnPID         = 3
	columnSession     = 5
	columnLine        = 6
	columnTag         = 7
	columnSeverity    = 11
	columnSQLState    = 12
	columnMessage     = 13
	columnDetail      = 14
	columnQuery       = 19
	columnApplication = 22
	columnBackend     = 23
	columnQueryID     = 25
	columns           = 26
	columnsInFuture   = 40
)

// entry is a line of the server's log.
type entry struct {
	pid                     uint32
	session, user, database string
	line                    int
	tag                     string // of the command, or what else the process does
	severity, sqlState      string
	message, detail, query  string
	application, backend    string
	queryID                 int64
}

// readLog reads a file of csvlog. Unlike encoding/csv it leaves the line ends in
// quoted fields as they are.
func readLog(from io.Reader, take func(*entry)) error {
	in := bufio.NewReaderSize(from, 1<<20)
	for n := 1; ; n++ {
		fields, err := readRow(in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("log entry %d: %w", n, err)
		}
		if len(fields) < columns || len(fields) > columnsInFuture {
			return fmt.Errorf("log entry %d has %d columns", n, len(fields))
		}
		line, err := strconv.Atoi(fields[columnLine])
		if err != nil {
			return fmt.Errorf("log entry %d: %w", n, err)
		}
		queryID, err := strconv.ParseInt(fields[columnQueryID], 10, 64)
		if err != nil && fields[columnQueryID] != "" {
			return fmt.Errorf("log entry %d: %w", n, err)
		}
		pid, err := strconv.ParseUint(fields[columnPID], 10, 32)
		if err != nil && fields[columnPID] != "" {
			return fmt.Errorf("log entry %d: %w", n, err)
		}
		take(&entry{
			pid: uint32(pid), session: fields[columnSession], user: fields[columnUser],
			database: fields[columnDatabase], line: line,
			tag: fields[columnTag], severity: fields[columnSeverity], sqlState: fields[columnSQLState],
			message: fields[columnMessage],
			detail:  fields[columnDetail], query: fields[columnQuery], application: fields[columnApplication],
			backend: fields[columnBackend], queryID: queryID,
		})
	}
}

// Messages calls take for each message in a log, except for those of statements and their durations.
func Messages(log io.Reader, take func(pid uint32, message string)) error {
	return readLog(log, func(e *entry) {
		if e.query == "" && e.detail == "" && e.tag == "" || e.severity != "LOG" {
			take(e.pid, e.severity+":  "+e.message)
		}
	})
}

var errQuotes = errors.New("a quoted field does not end")

// readRow reads one line of values; io.EOF: there is none.
func readRow(in *bufio.Reader) ([]string, error) {
	var fields []string
	var field strings.Builder
	for first := true; ; first = false {
		c, err := in.ReadByte()
		switch {
		case err != nil && first:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, err
		case err == io.EOF || c == '\n':
			return append(fields, field.String()), nil
		case c == ',':
			fields = append(fields, field.String())
			field.Reset()
		case c == '"':
			if err := readQuoted(in, &field); err != nil {
				return nil, err
			}
		default:
			field.WriteByte(c)
		}
	}
}

// readQuoted reads the rest of a quoted field.
func readQuoted(in *bufio.Reader, field *strings.Builder) error {
	for {
		c, err := in.ReadByte()
		if err != nil {
			return errQuotes
		}
		if c == '"' {
			next, err := in.ReadByte()
			if err != nil || next != '"' {
				if err == nil {
					err = in.UnreadByte()
				}
				if err == io.EOF {
					err = nil
				}
				return err
			}
		}
		field.WriteByte(c)
	}
}

// Dumps: the output of pg_dump and pg_dumpall, made ready for a server into which it is restored. SQL is not looked
// at here, but for where statements begin and end: what there is, who owns it and who may use it is asked of that
// server.
//
// What is left out or changed, because privileges do not depend on it, and a machine need not have what it needs:
// rows, the contents of materialized views, the locations of tablespaces, and the locales of databases.

package review

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DumpError says what is wrong with a dump.
type DumpError struct{ text string }

func (e *DumpError) Error() string { return e.text }

func badDump(format string, args ...any) error { return &DumpError{fmt.Sprintf(format, args...)} }

var (
	errNoDump = badDump(`it is neither the output of "steno review grants" nor that of pg_dump or pg_dumpall`)
	errCutOff = badDump("it is not complete: its end is missing")
)

// Dump is the text of a dump.
type Dump struct {
	Name string // of its file
	// parts are what is executed in a database each, in this order.
	parts []dumpPart
	// major is the version of the server from which it is; 0: it does not say that.
	major int
	roles bool   // it has the output of pg_dumpall
	first string // the superuser with whom the server's cluster was made
}

// dumpPart is what is executed in one connection.
type dumpPart struct {
	database string // empty, of the first one: any, or that of the command line if it has the inside of one
	text     bytes.Buffer
	inside   bool // it has what pg_dump says of the inside of the database
}

// mostDump is how long the text of a dump may be, without rows.
const mostDump = 1 << 30

// Lines of dumps, as pg_dump and pg_dumpall write them.
var (
	dumpBegin    = "-- PostgreSQL database dump"
	dumpEnd      = "-- PostgreSQL database dump complete"
	clusterBegin = "-- PostgreSQL database cluster dump"
	clusterEnd   = "-- PostgreSQL database cluster dump complete"

	dumpedFrom  = regexp.MustCompile(`^-- Dumped from database version (\d+)`)
	copyRows    = regexp.MustCompile(`^COPY .* FROM stdin;$`)
	refreshView = regexp.MustCompile(`^REFRESH MATERIALIZED VIEW .*;$`)
	// The locale and the tablespace of a database.
	createDatabase = regexp.MustCompile(`^(CREATE DATABASE (?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+") WITH TEMPLATE = template0)((?: [A-Z_ ]+ = (?:'(?:[^']|'')*'|\w+|"(?:[^"]|"")+"))*);$`)
	encodingOf     = regexp.MustCompile(` ENCODING = '[^']*'`)
	// An empty location is one in the data folder.
	createTablespace = regexp.MustCompile(`^(CREATE TABLESPACE (?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+") OWNER (?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+") LOCATION )'(?:[^']|'')*';$`)
	superuserLine    = regexp.MustCompile(`^ALTER ROLE ([a-z_][a-z0-9_$]*|"(?:[^"]|"")+") WITH SUPERUSER `)
	grantedBy        = regexp.MustCompile(`^GRANT .* GRANTED BY ([a-z_][a-z0-9_$]*|"(?:[^"]|"")+");$`)
	// psql's commands in dumps.
	connectTwoForms = regexp.MustCompile(`^\\connect (?:([A-Za-z0-9_.]+)|(-reuse-previous=on )?"((?:[^"]|"")+)")$`)
	ownCommand      = regexp.MustCompile(`^\\(?:restrict [A-Za-z0-9]+|unrestrict [A-Za-z0-9]+|encoding [A-Za-z0-9_-]+)$`)
)

// ReadDump reads the text of a dump. name is what messages call it.
func ReadDump(name string, r io.Reader) (*Dump, error) {
	d := &dumpReading{Dump: &Dump{Name: name, parts: make([]dumpPart, 1)}, granted: map[string]int{}}
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if len(line) > 0 {
			d.number++
			if problem := d.line(line); problem != nil {
				return nil, problem
			}
		}
		if err != nil {
			break
		}
	}
	return d.Dump, d.finish()
}

// dumpReading is a dump that is being read.
type dumpReading struct {
	*Dump
	sqlState
	number int // of the line
	size   int
	inRows bool // of COPY

	inCluster, inDump bool // between the beginning and the end of the output of pg_dumpall, of pg_dump
	ended             bool // pg_dump's output has ended before
	fresh             bool // since then, somebody has connected to a database
	connects          bool // pg_dump's output does, because it creates the database
	superusers        []string
	granted           map[string]int // how often each role has granted another one
}

func (d *dumpReading) part() *dumpPart { return &d.parts[len(d.parts)-1] }

// line takes a line.
func (d *dumpReading) line(line []byte) error {
	text := string(bytes.TrimRight(line, "\r\n"))
	if d.inRows {
		d.inRows = text != `\.`
		return nil
	}
	if d.quote == 0 {
		if err := d.comment(text); err != nil {
			return err
		}
	}
	if !d.statement && d.quote == 0 {
		switch {
		case strings.HasPrefix(text, `\`):
			return d.psql(text)
		case copyRows.MatchString(text):
			d.inRows = true
			return nil
		case refreshView.MatchString(text):
			return nil
		}
		line = []byte(d.changed(text) + "\n")
	}
	if at := d.scan(line); at >= 0 {
		return d.foreign(string(line[at:]))
	}
	if d.size += len(line); d.size > mostDump {
		return badDump("it is larger than 1 GiB without rows: dump with --schema-only")
	}
	d.part().text.Write(line)
	return nil
}

// foreign is the error of a command of psql that dumps do not have.
func (d *dumpReading) foreign(command string) error {
	if !d.begun() {
		return errNoDump
	}
	return badDump("line %d: it has a command of psql that is not one of a dump: %s", d.number, beginningOf(command))
}

// begun says whether there was a beginning of pg_dump's or pg_dumpall's output.
func (d *dumpReading) begun() bool { return d.roles || d.ended || d.inDump }

func beginningOf(line string) string {
	line, _, _ = strings.Cut(strings.TrimSpace(line), "\n")
	const most = 60
	if len(line) > most {
		line = line[:most] + " ..."
	}
	return strconv.Quote(line)
}

// comment looks at a comment of pg_dump or pg_dumpall.
func (d *dumpReading) comment(text string) error {
	switch text {
	case clusterBegin:
		if d.inCluster {
			return errCutOff
		}
		d.inCluster, d.roles = true, true
	case clusterEnd:
		d.inCluster = false
	case dumpBegin:
		if d.inDump {
			return errCutOff
		}
		d.inDump, d.connects = true, false
	case dumpEnd:
		if d.ended && !d.fresh && !d.connects {
			return badDump("line %d: of several dumps, one does not say of which database it is: make it with --create", d.number)
		}
		d.part().inside = true
		d.inDump, d.ended, d.fresh = false, true, false
	default:
		if m := dumpedFrom.FindStringSubmatch(text); m != nil {
			major, _ := strconv.Atoi(m[1])
			if d.major != 0 && d.major != major {
				return badDump("it has dumps of PostgreSQL %d and %d, which are not of one server", d.major, major)
			}
			d.major = major
		}
	}
	return nil
}

// changed is a line as it is executed.
func (d *dumpReading) changed(text string) string {
	if m := createDatabase.FindStringSubmatch(text); m != nil {
		return m[1] + encodingOf.FindString(m[2]) + " LC_COLLATE = 'C' LC_CTYPE = 'C';"
	}
	if m := createTablespace.FindStringSubmatch(text); m != nil {
		return m[1] + "'';"
	}
	if m := superuserLine.FindStringSubmatch(text); m != nil {
		d.superusers = append(d.superusers, unquoteName(m[1]))
	} else if m := grantedBy.FindStringSubmatch(text); m != nil {
		d.granted[unquoteName(m[1])]++
	}
	return text
}

func unquoteName(name string) string {
	if body, quoted := strings.CutPrefix(name, `"`); quoted {
		return strings.ReplaceAll(strings.TrimSuffix(body, `"`), `""`, `"`)
	}
	return name
}

// psql follows a line of psql's: the only ones that a dump has. All others are refused, and psql refuses them itself
// where it knows \restrict: they could run programs.
func (d *dumpReading) psql(text string) error {
	if ownCommand.MatchString(text) {
		return nil
	}
	m := connectTwoForms.FindStringSubmatch(text)
	if m == nil {
		return d.foreign(text)
	}
	database := m[1] + strings.ReplaceAll(m[3], `""`, `"`)
	if m[2] != "" || strings.Contains(database, "=") || strings.Contains(database, "://") {
		name, ok := cutDatabase(database)
		if m[2] == "" || !ok {
			return badDump("line %d: it connects to something else than a database of the server: %s", d.number, beginningOf(text))
		}
		database = name
	}
	d.fresh, d.connects = true, d.inDump
	d.parts = append(d.parts, dumpPart{database: database})
	return nil
}

// finish checks that the dump has its end.
func (d *dumpReading) finish() error {
	switch {
	case !d.begun():
		return errNoDump
	case d.inCluster || d.inDump || d.inRows || d.quote != 0:
		return errCutOff
	}
	best := -1
	for _, name := range slices.Compact(slices.Sorted(slices.Values(d.superusers))) {
		if n := 2 * d.granted[name]; n > best || n == best && name == "postgres" {
			best, d.first = n, name
		}
	}
	return nil
}

// ---- where statements are ----

// sqlState is where in SQL the end of a line is, as far as it matters here.
type sqlState struct {
	quote     byte   // of what is open: ' " $ *, E for a string with escapes; 0: nothing
	tag       string // of $
	depth     int    // of comments
	statement bool   // a statement has begun
	before    byte   // the byte before, in a statement
}

// scan goes through a line, with its end. It returns where a backslash is that is a command of psql; -1 if none.
func (s *sqlState) scan(line []byte) int {
	for i := 0; i < len(line); i++ {
		c, rest := line[i], line[i:]
		switch {
		case s.quote == '$':
			if n := bytes.Index(rest, []byte(s.tag)); n >= 0 {
				i += n + len(s.tag) - 1
				s.quote = 0
				continue
			}
			return -1
		case s.quote == '*':
			if bytes.HasPrefix(rest, []byte("*/")) {
				i++
				if s.depth--; s.depth == 0 {
					s.quote = 0
				}
			} else if bytes.HasPrefix(rest, []byte("/*")) {
				i++
				s.depth++
			}
			continue
		case s.quote == 'E' && c == '\\':
			i++
			continue
		case s.quote != 0:
			switch {
			case s.quote == 'E' && c == '\'' && i+1 < len(line) && line[i+1] == '\'':
				i++
			case c == s.quote || s.quote == 'E' && c == '\'': // of others, a doubled one opens it again
				s.quote = 0
			}
			continue
		}
		if bytes.HasPrefix(rest, []byte("--")) {
			return -1
		}
		if bytes.HasPrefix(rest, []byte("/*")) {
			s.quote, s.depth = '*', 1
			i++
			continue
		}
		switch c {
		case ' ', '\t', '\n', '\r':
			s.before = ' '
			continue
		case '\\':
			return i
		case ';':
			s.statement, s.before = false, ' '
			continue
		case '\'', '"':
			escapes := c == '\'' && (s.before == 'e' || s.before == 'E') && !(i > 1 && isWordByte(line[i-2]))
			if s.quote = c; escapes {
				s.quote = 'E'
			}
		case '$':
			if tag := dollarTag(string(rest[:min(len(rest), 128)])); tag != "" && !isWordByte(s.before) && s.before != '$' {
				s.quote, s.tag = '$', tag
				i += len(tag) - 1
			}
		}
		s.statement, s.before = true, c
	}
	return -1
}

// Dumps: prepares the output of pg_dump and pg_dumpall for being restored into a throw-away server. Of the SQL, only
// the ends of statements are found here: objects, owners and privileges are later read from that server.
//
// Rows, the contents of materialized views, the locations of tablespaces and the locales of databases are left out or
// changed: privileges do not depend on them, and this machine may lack the folders and locales.

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

// DumpError is the error of a dump that cannot be used.
type DumpError struct{ text string }

func (e *DumpError) Error() string { return e.text }

func badDump(format string, args ...any) error { return &DumpError{fmt.Sprintf(format, args...)} }

var (
	errNoDump = badDump(`it is neither the output of "steno review grants" nor that of pg_dump or pg_dumpall`)
	errCutOff = badDump("it is not complete: its end is missing")
)

// Dump is the text of a dump, as it is to be executed.
type Dump struct {
	Name string // of its file
	// parts are executed in this order, each in one database.
	parts []dumpPart
	// major is the major version of the dumped server; 0: not known.
	major          int
	roles          bool   // it has the output of pg_dumpall
	firstSuperuser string // the bootstrap superuser of the dumped cluster
}

// dumpPart is what is executed in one connection.
type dumpPart struct {
	// empty, of the first part: any, or that of the command line if the part has contents of a database
	database string
	text     bytes.Buffer
	inside   bool // it has pg_dump's statements for the contents of the database
}

// mostDump limits the text of a dump without its rows, in bytes.
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
	createDatabase = regexp.MustCompile(
		`^(CREATE DATABASE (?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+") WITH TEMPLATE = template0)` +
			`((?: [A-Z_ ]+ = (?:'(?:[^']|'')*'|\w+|"(?:[^"]|"")+"))*);$`)
	encodingOf = regexp.MustCompile(` ENCODING = '[^']*'`)
	// An empty location is one in the data folder.
	createTablespace = regexp.MustCompile(
		`^(CREATE TABLESPACE (?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+") OWNER ` +
			`(?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+") LOCATION )'(?:[^']|'')*';$`)
	superuserLine = regexp.MustCompile(`^ALTER ROLE ([a-z_][a-z0-9_$]*|"(?:[^"]|"")+") WITH SUPERUSER `)
	grantedBy     = regexp.MustCompile(`^GRANT .* GRANTED BY ([a-z_][a-z0-9_$]*|"(?:[^"]|"")+");$`)
	// psql's commands in dumps.
	connectTwoForms = regexp.MustCompile(`^\\connect (?:([A-Za-z0-9_.]+)|(-reuse-previous=on )?"((?:[^"]|"")+)")$`)
	ownCommand      = regexp.MustCompile(
		`^\\(?:restrict [A-Za-z0-9]+|unrestrict [A-Za-z0-9]+|encoding [A-Za-z0-9_-]+)$`)
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
			if problem := d.readLine(line); problem != nil {
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
	inRows bool // between COPY and its end

	inCluster, inDump bool // between the beginning and the end of the output of pg_dumpall, of pg_dump
	ended             bool // an earlier output of pg_dump has ended
	connectedSince    bool // since then, the dump has connected to a database
	createsDatabase   bool // pg_dump's output creates its database and connects to it
	superusers        []string
	granted           map[string]int // number of memberships that each role granted
}

func (d *dumpReading) part() *dumpPart { return &d.parts[len(d.parts)-1] }

// readLine processes a line.
func (d *dumpReading) readLine(line []byte) error {
	text := string(bytes.TrimRight(line, "\r\n"))
	if d.inRows {
		d.inRows = text != `\.`
		return nil
	}
	if d.quote == 0 {
		if err := d.readComment(text); err != nil {
			return err
		}
	}
	if !d.statement && d.quote == 0 {
		switch {
		case strings.HasPrefix(text, `\`):
			return d.followPsqlLine(text)
		case copyRows.MatchString(text):
			d.inRows = true
			return nil
		case refreshView.MatchString(text):
			return nil
		}
		line = []byte(d.rewriteLine(text) + "\n")
	}
	if at := d.scan(line); at >= 0 {
		return d.errForeignCommand(string(line[at:]))
	}
	if d.size += len(line); d.size > mostDump {
		return badDump("it is larger than 1 GiB without rows: dump with --schema-only")
	}
	d.part().text.Write(line)
	return nil
}

// errForeignCommand returns the error for a psql command that dumps do not have.
func (d *dumpReading) errForeignCommand(command string) error {
	if !d.begun() {
		return errNoDump
	}
	return badDump("line %d: it has a command of psql that is not one of a dump: %s", d.number, beginningOf(command))
}

// begun reports whether the output of pg_dump or pg_dumpall has begun.
func (d *dumpReading) begun() bool { return d.roles || d.ended || d.inDump }

func beginningOf(line string) string {
	line, _, _ = strings.Cut(strings.TrimSpace(line), "\n")
	const most = 60
	if len(line) > most {
		line = line[:most] + " ..."
	}
	return strconv.Quote(line)
}

// readComment follows the comments in which pg_dump and pg_dumpall say where their output begins and ends.
func (d *dumpReading) readComment(text string) error {
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
		d.inDump, d.createsDatabase = true, false
	case dumpEnd:
		if d.ended && !d.connectedSince && !d.createsDatabase {
			return badDump("line %d: of several dumps, one does not say of which database it is: "+
				"make it with --create", d.number)
		}
		d.part().inside = true
		d.inDump, d.ended, d.connectedSince = false, true, false
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

// rewriteLine returns a line as it is to be executed.
func (d *dumpReading) rewriteLine(text string) string {
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

// followPsqlLine follows the psql commands that dumps have. All others are refused, because they could run programs.
// A psql that knows \restrict refuses them, too.
func (d *dumpReading) followPsqlLine(text string) error {
	if ownCommand.MatchString(text) {
		return nil
	}
	m := connectTwoForms.FindStringSubmatch(text)
	if m == nil {
		return d.errForeignCommand(text)
	}
	database := m[1] + strings.ReplaceAll(m[3], `""`, `"`)
	if m[2] != "" || strings.Contains(database, "=") || strings.Contains(database, "://") {
		name, ok := cutDatabase(database)
		if m[2] == "" || !ok {
			return badDump("line %d: it connects to something else than a database of the server: %s", d.number,
				beginningOf(text))
		}
		database = name
	}
	d.connectedSince, d.createsDatabase = true, d.inDump
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
			best, d.firstSuperuser = n, name
		}
	}
	return nil
}

// ---- where statements begin and end ----

// sqlState is the lexical state at the end of a line of SQL.
type sqlState struct {
	quote     byte   // what is open: ' " $, * for a comment, E for a string with escapes; 0: nothing
	tag       string // of a dollar-quoted string
	depth     int    // of comments
	statement bool   // a statement has begun
	before    byte   // the byte before, in a statement
}

// scan advances the state over a line with its line feed. It returns the index of a backslash that begins a psql
// command; -1 if there is none.
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
			case c == s.quote || s.quote == 'E' && c == '\'': // elsewhere, a doubled quote closes and opens it again
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
			if tag := dollarTag(string(rest[:min(len(rest), 128)])); tag != "" && !isWordByte(s.before) &&
				s.before != '$' {
				s.quote, s.tag = '$', tag
				i += len(tag) - 1
			}
		}
		s.statement, s.before = true, c
	}
	return -1
}

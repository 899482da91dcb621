package render

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// PgauditOptions are the settings of pgaudit that say what is in its lines,
// with the same names.
type PgauditOptions struct {
	LogCatalog       bool
	LogParameter     bool
	LogRelation      bool
	LogRows          bool
	LogStatement     bool
	LogStatementOnce bool
}

// PgauditDefaults are pgaudit's.
var PgauditDefaults = PgauditOptions{LogCatalog: true, LogStatement: true}

// ParsePgauditOptions reads names of settings, each with =on or =off; on can be
// left out.
func ParsePgauditOptions(settings []string) (PgauditOptions, error) {
	o := PgauditDefaults
	known := map[string]*bool{
		"log_catalog": &o.LogCatalog, "log_parameter": &o.LogParameter, "log_relation": &o.LogRelation,
		"log_rows": &o.LogRows, "log_statement": &o.LogStatement, "log_statement_once": &o.LogStatementOnce,
	}
	for _, s := range settings {
		name, value, found := strings.Cut(s, "=")
		target := known[strings.TrimPrefix(name, "pgaudit.")]
		if target == nil {
			return o, fmt.Errorf("%q is none of %s", name, strings.Join(PgauditSettings, ", "))
		}
		switch {
		case !found || value == "on":
			*target = true
		case value == "off":
			*target = false
		default:
			return o, fmt.Errorf("%s: %q is neither on nor off", name, value)
		}
	}
	return o, nil
}

// PgauditSettings are the names of the options.
var PgauditSettings = []string{"log_catalog", "log_parameter", "log_relation", "log_rows", "log_statement", "log_statement_once"}

// pgauditFormat makes the lines that pgaudit 1.7 would have logged. A line has
// numbers that count what was logged in its session before, which only what
// sees all records in their order can know: pgauditOrder. Until then, a record
// is a header of pgauditHeader bytes and its lines, with these bytes where the
// numbers belong.
type pgauditFormat struct {
	definitions
	options PgauditOptions
	params  []byte
	values  []byte
}

const (
	pgauditNew  = 1 // the next substatement
	pgauditSame = 2 // the one of the line before
)

// pgauditHeader is the length of: start of the session, process id, statement
// number, length of the lines.
const pgauditHeader = 8 + 4 + 8 + 4

// pgauditClasses are pgaudit's names. What is in none of its classes was not
// seen by it.
var pgauditClasses = map[trail.Class]string{
	trail.ClassRead: "READ", trail.ClassWrite: "WRITE", trail.ClassFunction: "FUNCTION", trail.ClassRole: "ROLE",
	trail.ClassDDL: "DDL", trail.ClassMisc: "MISC", trail.ClassMiscSet: "MISC", trail.ClassTransaction: "MISC",
}

func (f *pgauditFormat) Append(dst []byte, r *trail.Record) []byte {
	ends := r.Kind == trail.KindDisconnect
	if !ends && !pgauditSees(r) {
		return dst
	}
	from := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Session.Start))
	dst = binary.LittleEndian.AppendUint32(dst, r.Session.PID)
	dst = binary.LittleEndian.AppendUint64(dst, r.Statement)
	dst = append(dst, 0, 0, 0, 0)
	if !ends {
		dst = f.lines(dst, r)
	}
	n := len(dst) - from - pgauditHeader
	binary.LittleEndian.PutUint32(dst[from+pgauditHeader-4:], uint32(n))
	return dst
}

// pgauditSees says whether pgaudit logs the statement. It logs queries when
// their permissions were checked, DO and CREATE EXTENSION before they run, and
// all other utility statements when they have ended without an error.
func pgauditSees(r *trail.Record) bool {
	if r.Kind != trail.KindStatement || r.Shape == nil || pgauditClasses[r.Shape.Class] == "" {
		return false
	}
	if r.Outcome == trail.OutcomeOk {
		return true
	}
	command := string(r.Shape.Command)
	switch command {
	case "DO", "CREATE EXTENSION", "ALTER EXTENSION":
		return true
	}
	query := (r.Shape.Class == trail.ClassRead || r.Shape.Class == trail.ClassWrite) && command != "TRUNCATE TABLE"
	// Class 42 and 25P02 are found before permissions have been checked.
	return query && !bytes.HasPrefix(r.SQLState, []byte("42")) && string(r.SQLState) != "25P02"
}

// pgauditCountsRows are the commands whose rows pgaudit counts.
var pgauditCountsRows = map[string]bool{"SELECT": true, "INSERT": true, "UPDATE": true, "DELETE": true, "MERGE": true}

// pgauditLine is what differs between the lines of a statement.
type pgauditLine struct {
	mark          byte
	object        bool
	class         string
	command       string
	kind, name    string
	first, params bool // the statement was not logged before; it is the statement, not a function
}

func (f *pgauditFormat) lines(dst []byte, r *trail.Record) []byte {
	s := r.Shape
	session := r.Reasons()&^trail.AuditedObject != 0
	line := pgauditLine{mark: pgauditNew, class: pgauditClasses[s.Class], command: string(s.Command), first: true, params: true}
	put := func(l pgauditLine) {
		dst = f.line(dst, r, l)
		line.mark, line.first = pgauditSame, false
	}
	if s.Class == trail.ClassRead || s.Class == trail.ClassWrite {
		if len(s.Relations) > 0 {
			f.relations(r, line, session, put)
		} else if session {
			put(line)
		}
	} else if session {
		f.objects(s, line, put)
	}
	if session {
		f.functions(r, &dst)
	}
	return dst
}

// relations puts a line for the statement, and those of its relations.
func (f *pgauditFormat) relations(r *trail.Record, line pgauditLine, session bool, put func(pgauditLine)) {
	first := true
	for i := range r.Shape.Relations {
		rel := &r.Shape.Relations[i]
		if !f.options.LogCatalog && bytes.HasPrefix(rel.Name, []byte("pg_catalog.")) {
			continue
		}
		if first && !f.options.LogRelation {
			first = false
			if session {
				put(line)
				line.mark, line.first = pgauditSame, false
			}
		}
		l := line
		l.class, l.command = pgauditAccess(rel.Access, r.Shape.Class)
		l.kind, l.name = pgauditType(rel.Type), string(rel.Name)
		if rel.Access&trail.AccessAudited != 0 {
			l.object = true
			put(l)
			line.mark, line.first = pgauditSame, false
		}
		if f.options.LogRelation && session {
			l.object, l.mark, l.first = false, line.mark, line.first
			put(l)
			line.mark, line.first = pgauditSame, false
		}
	}
}

// pgauditAccess is class and command of the line of a relation.
func pgauditAccess(a trail.Access, class trail.Class) (string, string) {
	switch {
	case a&trail.AccessInsert != 0:
		return "WRITE", "INSERT"
	case a&trail.AccessUpdate != 0 && class == trail.ClassWrite:
		return "WRITE", "UPDATE"
	case a&trail.AccessDelete != 0:
		return "WRITE", "DELETE"
	case a&trail.AccessSelect != 0:
		return "READ", "SELECT"
	}
	return "MISC", "???"
}

func pgauditType(t trail.RelationType) string {
	switch t {
	case trail.RelationTypeOther:
		return "UNKNOWN"
	default:
		return strings.ToUpper(t.String())
	}
}

// functions appends a line for each function that was called.
func (f *pgauditFormat) functions(r *trail.Record, dst *[]byte) {
	for _, o := range r.Shape.Objects {
		if o.Action == trail.ActionExecute {
			*dst = f.line(*dst, r, pgauditLine{
				mark: pgauditNew, class: "FUNCTION", command: "EXECUTE", kind: "FUNCTION", name: string(o.Name), first: true,
			})
		}
	}
}

func (f *pgauditFormat) line(dst []byte, r *trail.Record, l pgauditLine) []byte {
	dst = append(dst, "AUDIT: "...)
	if l.object {
		dst = append(dst, "OBJECT,"...)
	} else {
		dst = append(dst, "SESSION,"...)
	}
	dst = append(append(append(dst, l.mark, ','), l.class...), ',')
	dst = append(pgauditValue(dst, []byte(l.command)), ',')
	dst = append(pgauditValue(dst, []byte(l.kind)), ',')
	dst = append(pgauditValue(dst, []byte(l.name)), ',')
	switch {
	case !f.options.LogStatement:
		dst = append(dst, "<not logged>,<not logged>"...)
	case f.options.LogStatementOnce && !l.first:
		dst = append(dst, "<previously logged>,<previously logged>"...)
	default:
		dst = append(f.text(dst, r, pgauditValue), ',')
		dst = f.parameters(dst, r, l.params)
	}
	if f.options.LogRows {
		rows := uint64(0)
		if l.params && pgauditCountsRows[string(r.Shape.Command)] {
			rows = r.Rows
		}
		dst = strconv.AppendUint(append(dst, ','), rows, 10)
	}
	return append(dst, '\n')
}

func (f *pgauditFormat) parameters(dst []byte, r *trail.Record, has bool) []byte {
	if !f.options.LogParameter {
		return append(dst, "<not logged>"...)
	}
	n := 0
	f.params = f.params[:0]
	if has {
		r.Params(func(p trail.ParamType, value []byte, null bool) bool {
			if n > 0 {
				f.params = append(f.params, ',')
			}
			n++
			if !null {
				f.values = trail.AppendParam(f.values[:0], p.Repr, value)
				f.params = pgauditRaw(f.params, f.values)
			}
			return true
		})
	}
	if n == 0 {
		return append(dst, "<none>"...)
	}
	return pgauditValue(dst, f.params)
}

// pgauditRaw appends a value as pgaudit does: in quotes when it has a comma, a
// quote or a line break.
func pgauditRaw(dst, s []byte) []byte {
	if !bytes.ContainsAny(s, ",\"\n\r") {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for _, c := range s {
		if c == '"' {
			dst = append(dst, c)
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// pgauditValue is the same, but safe to print.
func pgauditValue(dst, s []byte) []byte {
	if bytes.ContainsAny(s, ",\"\n\r") {
		return csvlogQuoted(dst, s)
	}
	return csvInside(dst, s)
}

// pgauditOrder counts statements and substatements, in each session by itself,
// among the records that are shown.
type pgauditOrder struct {
	sessions map[trail.SessionID]*pgauditCount
	out      []byte
}

type pgauditCount struct {
	statement    uint64 // of the trail
	total        uint64
	substatement uint64
}

// Next returns a record's lines with their numbers.
func (o *pgauditOrder) Next(record []byte) []byte {
	o.out = o.out[:0]
	if len(record) < pgauditHeader {
		return nil
	}
	id := trail.SessionID{
		Start: int64(binary.LittleEndian.Uint64(record)),
		PID:   binary.LittleEndian.Uint32(record[8:]),
	}
	statement := binary.LittleEndian.Uint64(record[12:])
	lines := record[pgauditHeader:]
	if len(lines) == 0 {
		delete(o.sessions, id)
		return nil
	}
	c := o.sessions[id]
	if c == nil {
		c = &pgauditCount{}
		o.sessions[id] = c
	}
	if c.total == 0 || statement != c.statement {
		c.statement, c.substatement = statement, 0
		c.total++
	}
	for {
		i := bytes.IndexAny(lines, "\x01\x02")
		if i < 0 {
			o.out = append(o.out, lines...)
			return o.out
		}
		if lines[i] == pgauditNew {
			c.substatement++
		}
		o.out = append(o.out, lines[:i]...)
		o.out = strconv.AppendUint(o.out, c.total, 10)
		o.out = strconv.AppendUint(append(o.out, ','), c.substatement, 10)
		lines = lines[i+1:]
	}
}

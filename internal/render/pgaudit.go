// The pgaudit format: the lines that pgaudit would have written.

package render

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// PgauditOptions are the settings of pgaudit that decide what its lines contain. They have the same names.
type PgauditOptions struct {
	// Log has the classes of SESSION lines, a bit for each format.Class.
	Log              uint32
	LogCatalog       bool
	LogParameter     bool
	LogRelation      bool
	LogRows          bool
	LogStatement     bool
	LogStatementOnce bool
}

// PgauditDefaults has pgaudit's default settings.
var PgauditDefaults = PgauditOptions{Log: pgauditAll, LogCatalog: true, LogStatement: true}

// ParsePgauditOptions reads settings: names with =on or =off, or names alone, which mean on. The value of log
// is a list of classes separated by blanks; a - before a class removes it. Settings that are names of classes
// continue that list.
func ParsePgauditOptions(settings []string) (PgauditOptions, error) {
	o := PgauditDefaults
	known := map[string]*bool{
		"log_catalog": &o.LogCatalog, "log_parameter": &o.LogParameter, "log_relation": &o.LogRelation,
		"log_rows": &o.LogRows, "log_statement": &o.LogStatement, "log_statement_once": &o.LogStatementOnce,
	}
	listed := false
	for _, s := range settings {
		name, value, found := strings.Cut(s, "=")
		if strings.TrimPrefix(name, "pgaudit.") == "log" {
			var err error
			if o.Log, err = pgauditLog(0, value); err != nil {
				return o, err
			}
			listed = true
			continue
		}
		if _, class := pgauditBits[strings.TrimPrefix(name, "-")]; class && listed && !found {
			o.Log, _ = pgauditLog(o.Log, name)
			continue
		}
		target := known[strings.TrimPrefix(name, "pgaudit.")]
		if target == nil {
			return o, fmt.Errorf("%q is not one of %s", name, strings.Join(PgauditSettings, ", "))
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

// pgauditBits maps the names in pgaudit.log to classes.
var pgauditBits = map[string]uint32{
	"none": 0, "all": pgauditAll, "read": 1 << format.ClassRead, "write": 1 << format.ClassWrite,
	"function": 1 << format.ClassFunction,
	"role":     1 << format.ClassRole, "ddl": 1 << format.ClassDDL,
	"misc":     1<<format.ClassMisc | 1<<format.ClassTransaction,
	"misc_set": 1 << format.ClassMiscSet,
}

const pgauditAll = 1<<format.ClassRead | 1<<format.ClassWrite | 1<<format.ClassFunction | 1<<format.ClassRole |
	1<<format.ClassDDL | 1<<format.ClassMisc | 1<<format.ClassMiscSet | 1<<format.ClassTransaction

// pgauditLog adds to, and removes from, a mask the classes of a list.
func pgauditLog(mask uint32, list string) (uint32, error) {
	for _, name := range strings.Fields(strings.ToLower(list)) {
		class, off := strings.CutPrefix(name, "-")
		bits, ok := pgauditBits[class]
		switch {
		case !ok:
			return 0,
				fmt.Errorf("log: %q is none of all, ddl, function, misc, misc_set, none, read, role, write", class)
		case off:
			mask &^= bits
		default:
			mask |= bits
		}
	}
	return mask, nil
}

// PgauditSettings are the names of the options.
var PgauditSettings = []string{"log", "log_catalog", "log_parameter", "log_relation", "log_rows", "log_statement",
	"log_statement_once"}

// pgauditFormat makes the lines that pgaudit 1.7 would have logged. A line contains counts of what its session
// has logged before. Only pgauditOrder, which sees all records in their order, can know these. Until then, a
// record is a header of pgauditHeader bytes, followed by its lines, in which the bytes pgauditNew and
// pgauditSame mark where the counts belong.
type pgauditFormat struct {
	definitions
	options    PgauditOptions
	prefix     *LinePrefix
	started    clock // the clock for the starts of sessions
	linePrefix []byte
	params     []byte
	values     []byte
}

const (
	pgauditNew  = 1 // a new substatement
	pgauditSame = 2 // the same substatement as in the previous line
)

// pgauditHeader is the length of the start of the client's session, its process ID, the statement number, and
// the marks.
const pgauditHeader = 8 + 4 + 8 + 1

// Marks of a record.
const (
	pgauditEnds   = 1 << iota // its session ends
	pgauditScript             // it runs the script of an extension
	pgauditNested             // it is nested in another statement
)

// pgauditClasses has pgaudit's names of classes. It does not see statements of classes that are not listed.
var pgauditClasses = map[format.Class]string{
	format.ClassRead: "READ", format.ClassWrite: "WRITE", format.ClassFunction: "FUNCTION", format.ClassRole: "ROLE",
	format.ClassDDL: "DDL", format.ClassMisc: "MISC", format.ClassMiscSet: "MISC", format.ClassTransaction: "MISC",
}

func (f *pgauditFormat) Append(dst []byte, r *format.Record) []byte {
	ends := r.Kind == format.KindDisconnect
	if !ends && !pgauditLogs(r) {
		return dst
	}
	from, client := len(dst), r.Session.ClientID()
	dst = binary.LittleEndian.AppendUint64(dst, uint64(client.Start))
	dst = binary.LittleEndian.AppendUint32(dst, client.PID)
	dst = binary.LittleEndian.AppendUint64(dst, r.Statement)
	if ends {
		return append(dst, pgauditEnds)
	}
	marks := byte(0)
	switch string(r.Shape.Command) {
	case "CREATE EXTENSION", "ALTER EXTENSION":
		marks |= pgauditScript
	}
	if r.Depth > 0 {
		marks |= pgauditNested
	}
	f.linePrefix = f.appendPrefix(f.linePrefix[:0], r)
	dst = f.lines(append(dst, marks), r)
	if len(dst) == from+pgauditHeader && marks&pgauditScript == 0 {
		dst = dst[:from]
	}
	return dst
}

// pgauditLogs returns whether pgaudit logs a statement. It logs queries when their permissions are checked, DO
// and CREATE EXTENSION before they run, and all other utility statements when they have succeeded.
func pgauditLogs(r *format.Record) bool {
	if r.Kind != format.KindStatement || r.Shape == nil || pgauditClasses[r.Shape.Class] == "" {
		return false
	}
	if r.Outcome == format.OutcomeOk {
		return true
	}
	command := string(r.Shape.Command)
	switch command {
	case "DO", "CREATE EXTENSION":
		return true
	}
	query := (r.Shape.Class == format.ClassRead || r.Shape.Class == format.ClassWrite) && command != "TRUNCATE TABLE"
	// Errors of class 42, and 25P02, are raised before permissions are checked.
	return query && !bytes.HasPrefix(r.SQLState, []byte("42")) && string(r.SQLState) != "25P02"
}

// pgauditCountsRows are the commands whose rows pgaudit counts.
var pgauditCountsRows = map[string]bool{"SELECT": true, "INSERT": true, "UPDATE": true, "DELETE": true, "MERGE": true}

// pgauditLine has what differs between the lines of a statement.
type pgauditLine struct {
	// index in pgaudit's stack: 0 the statement, 1 a query in it; lines of one item have the same substatement number
	item       int
	object     bool
	class      string
	command    string
	kind, name string
	params     bool // it is about the statement, not about a function, so it has the parameters
	updates    bool // access for update means that rows are written, not only locked
}

func (f *pgauditFormat) lines(dst []byte, r *format.Record) []byte {
	s := r.Shape
	session := r.Reasons()&^format.AuditedObject != 0
	line := pgauditLine{
		class:   pgauditClasses[s.Class],
		command: string(s.Command),
		params:  true,
		updates: s.Class == format.ClassWrite,
	}
	switch line.command {
	case "SELECT":
		// pgaudit does not look at what is in WITH.
		line.class = "READ"
	case "CALL":
		line.class = "MISC"
	case "COPY", "CREATE TABLE AS", "SELECT INTO", "EXPLAIN":
		line.class = pgauditUtilityClass(r)
	}
	item := -1
	put := func(l pgauditLine) {
		if l.object || session && f.options.Log&f.bits(s.Class, l.class) != 0 {
			dst = f.line(dst, r, l, l.item != item)
			item = l.item
		}
	}
	query := line
	query.item, query.class, query.command = 1, "READ", "SELECT"
	if len(s.Query) > 0 {
		query.class, query.command = "WRITE", string(s.Query)
	}
	query.updates = line.updates || query.command == "UPDATE"
	switch line.command {
	case "COPY":
		if copiesQuery(r.Text) {
			f.relations(r, query, put)
			put(line)
		} else if !f.relations(r, line, put) {
			put(line)
		}
	case "TRUNCATE TABLE":
		put(line)
	case "CREATE TABLE AS", "SELECT INTO", "CREATE MATERIALIZED VIEW", "REFRESH MATERIALIZED VIEW", "EXPLAIN":
		// The statement that EXECUTE runs has a record of its own.
		if len(s.Relations) > 0 || !executes.Match(r.Text) {
			f.relations(r, query, put)
		}
		f.objects(s, line, put)
	default:
		if s.Class == format.ClassRead || s.Class == format.ClassWrite {
			f.relations(r, line, put)
		} else {
			f.objects(s, line, put)
		}
	}
	f.functions(r, put)
	return dst
}

// pgauditUtilityClass returns the class of a utility statement that contains a query. If the query changes
// data, the trail's class is that of a write, but pgaudit classifies the statement and the query separately,
// and does not look into WITH.
func pgauditUtilityClass(r *format.Record) string {
	class := pgauditClasses[r.Shape.Class]
	if r.Shape.Class != format.ClassWrite {
		return class
	}
	switch command := string(r.Shape.Command); {
	case command == "COPY" && copiesQuery(r.Text):
		return "READ"
	case command != "COPY" && command != "EXPLAIN":
		return "DDL"
	case command == "EXPLAIN" && len(r.Shape.Query) == 0 && len(r.Shape.Relations) > 0:
		if slices.ContainsFunc(r.Shape.Objects, func(o format.Object) bool {
			return o.Action == format.ActionCreate
		}) {
			return "DDL"
		}
		return "MISC"
	}
	return class
}

// bits returns the bits of a line's class in Log. Several classes may have the same name in pgaudit; if it is
// that of the statement's own class, only the statement's class counts.
func (f *pgauditFormat) bits(class format.Class, shown string) uint32 {
	if pgauditClasses[class] == shown {
		return 1 << class
	}
	return pgauditBits[strings.ToLower(shown)]
}

var (
	executes = regexp.MustCompile(`(?i)\bexecute\b`)
)

// copiesQuery returns whether a COPY copies the result of a query, not a table.
func copiesQuery(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 4 && bytes.EqualFold(text[:4], []byte("COPY")) &&
		bytes.HasPrefix(bytes.TrimLeft(text[4:], " \t\r\n"), []byte("("))
}

// relations puts a line for the query, and lines for its relations. It returns false if all relations are left
// out.
func (f *pgauditFormat) relations(r *format.Record, line pgauditLine, put func(pgauditLine)) bool {
	if len(r.Shape.Relations) == 0 {
		put(line)
		return true
	}
	first, shown := true, false
	relations := mergedRelations(r.Shape.Relations)
	for i := range relations {
		rel := &relations[i]
		if !f.options.LogCatalog && bytes.HasPrefix(rel.Name, []byte("pg_catalog.")) {
			continue
		}
		if first && !f.options.LogRelation {
			first = false
			put(line)
		}
		shown = true
		l := line
		l.class, l.command = pgauditAccess(rel.Access, l.updates)
		l.kind, l.name = pgauditType(rel.Type), string(rel.Name)
		if rel.Access&format.AccessAudited != 0 {
			l.object = true
			put(l)
		}
		if f.options.LogRelation {
			l.object = false
			put(l)
		}
	}
	return shown
}

// mergedRelations returns each relation once, with all its accesses. A record lists a relation repeatedly if it
// is reached through several views.
func mergedRelations(relations []format.Relation) []format.Relation {
	if !slices.ContainsFunc(relations, func(r format.Relation) bool { return r.Via > 0 }) {
		return relations
	}
	var merged []format.Relation
	indexOf := map[string]int{}
	for _, r := range relations {
		i, found := indexOf[string(r.Name)]
		if !found {
			i = len(merged)
			indexOf[string(r.Name)] = i
			merged = append(merged, r)
		}
		merged[i].Access |= r.Access
	}
	return merged
}

// pgauditAccess returns class and command for the line of a relation.
func pgauditAccess(a format.Access, updates bool) (string, string) {
	switch {
	case a&format.AccessInsert != 0:
		return "WRITE", "INSERT"
	case a&format.AccessUpdate != 0 && updates:
		return "WRITE", "UPDATE"
	case a&format.AccessDelete != 0:
		return "WRITE", "DELETE"
	case a&format.AccessSelect != 0:
		return "READ", "SELECT"
	}
	return "MISC", "???"
}

func pgauditType(t format.RelationType) string {
	switch t {
	case format.RelationTypeOther:
		return "UNKNOWN"
	default:
		return strings.ToUpper(t.String())
	}
}

// functions puts a line for each function that was called.
func (f *pgauditFormat) functions(r *format.Record, put func(pgauditLine)) {
	for i, o := range r.Shape.Objects {
		if o.Action == format.ActionExecute {
			put(pgauditLine{
				item:    2 + i,
				class:   "FUNCTION",
				command: "EXECUTE",
				kind:    "FUNCTION",
				name:    string(o.Name),
			})
		}
	}
}

// line appends a line; first says that it is the first one of its item.
func (f *pgauditFormat) line(dst []byte, r *format.Record, l pgauditLine, first bool) []byte {
	from := len(dst)
	dst = append(append(dst, f.linePrefix...), "AUDIT: "...)
	if l.object {
		dst = append(dst, "OBJECT,"...)
	} else {
		dst = append(dst, "SESSION,"...)
	}
	mark := byte(pgauditSame)
	if first {
		mark = pgauditNew
	}
	dst = append(append(append(dst, mark, ','), l.class...), ',')
	dst = append(pgauditValue(dst, []byte(l.command)), ',')
	dst = append(pgauditValue(dst, []byte(l.kind)), ',')
	dst = append(pgauditValue(dst, []byte(l.name)), ',')
	switch {
	case !f.options.LogStatement:
		dst = append(dst, "<not logged>,<not logged>"...)
	case f.options.LogStatementOnce && !first:
		dst = append(dst, "<previously logged>,<previously logged>"...)
	default:
		dst = append(f.text(dst, r, pgauditValue), ',')
		dst = f.parameters(dst, r, l.params)
	}
	if f.options.LogRows {
		rows := uint64(0)
		if l.item == 1 || l.params && pgauditCountsRows[string(r.Shape.Command)] {
			rows = r.Rows
		}
		dst = strconv.AppendUint(append(dst, ','), rows, 10)
	}
	if f.prefix != nil {
		// In its log, the server begins continuation lines of a message with a tab.
		if message := dst[from:]; bytes.IndexByte(message, '\n') >= 0 {
			dst = append(dst[:from], bytes.ReplaceAll(message, []byte("\n"), []byte("\n\t"))...)
		}
	}
	return append(dst, '\n')
}

func (f *pgauditFormat) parameters(dst []byte, r *format.Record, has bool) []byte {
	if !f.options.LogParameter {
		return append(dst, "<not logged>"...)
	}
	n := 0
	f.params = f.params[:0]
	if has {
		r.Params(func(p format.ParamType, value []byte, null bool) bool {
			if n > 0 {
				f.params = append(f.params, ',')
			}
			n++
			if !null {
				f.values = format.AppendParam(f.values[:0], p.Repr, value)
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

// pgauditRaw appends a value as pgaudit does: in quotes if it has a comma, a quote or a line break.
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

// pgauditValue does the same, and makes the value safe to print.
func pgauditValue(dst, s []byte) []byte {
	if bytes.ContainsAny(s, ",\"\n\r") {
		return csvlogQuoted(dst, s)
	}
	return appendCSVQuotedBody(dst, s)
}

// pgauditOrder counts statements and substatements in each session, among the records that are shown.
type pgauditOrder struct {
	sessions map[format.SessionID]*pgauditCount
	out      []byte
}

type pgauditCount struct {
	statement    uint64 // number of the current one in the trail
	script       uint64 // number of the one that runs an extension's script
	total        uint64
	substatement uint64
}

// Next returns a record's lines with their counts.
func (o *pgauditOrder) Next(record []byte) []byte {
	o.out = o.out[:0]
	if len(record) < pgauditHeader {
		return nil
	}
	id := format.SessionID{
		Start: int64(binary.LittleEndian.Uint64(record)),
		PID:   binary.LittleEndian.Uint32(record[8:]),
	}
	statement := binary.LittleEndian.Uint64(record[12:])
	marks, lines := record[pgauditHeader-1], record[pgauditHeader:]
	if marks&pgauditEnds != 0 {
		delete(o.sessions, id)
		return nil
	}
	c := o.sessions[id]
	if c == nil {
		c = &pgauditCount{}
		o.sessions[id] = c
	}
	if marks&pgauditScript != 0 && marks&pgauditNested == 0 {
		c.script = statement
	} else if marks&pgauditNested != 0 && c.script == statement {
		// pgaudit does not log what scripts of extensions do.
		return nil
	}
	if len(lines) == 0 {
		return nil
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

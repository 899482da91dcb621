// The CSV format.

package render

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Columns are the columns of CSV, in order: the fields of JSON. New ones are added at the end.
var Columns = []string{
	"time", "kind", "session", "seq", "statement", "substatement", "depth", "pid", "user", "role",
	"app_user", "database",
	"application", "client", "backend_type", "auth_method", "identity", "class", "command", "relations",
	"text", "text_bytes",
	"params", "query_id", "rows", "duration_us", "outcome", "sqlstate", "message", "xid", "extra", "stream",
	"segment", "block", "app_context", "objects", "audited",
	"leader", "leader_substatement", "encoding", "rolled_back", "host", "cluster_name", "system_identifier",
	"query_command", "prepared", "portal", "text_sha256", "analysis_us", "plan_us", "commit_us", "elapsed_us",
}

// csvFormat makes lines of comma-separated values according to RFC 4180, which end with CR LF. A column whose
// value is a list or an object in JSON has that JSON.
type csvFormat struct {
	origin        // host, cluster_name and system_identifier
	safe     bool // cells are no formulas
	clock    clock
	ref      *trail.BlockRef
	contexts cache
	shapes   cache
	texts    cache
	scratch  []byte
	nested   []byte
	escaped  []byte
}

func (f *csvFormat) Start(ref *trail.BlockRef) {
	f.ref = ref
	f.contexts.reset()
	f.shapes.reset()
	f.texts.reset()
	f.startBlock(ref, func(dst []byte, systemID uint64, s *trail.Server) []byte {
		dst = f.cell(dst, []byte(s.Host))
		dst = f.cell(dst, []byte(s.Cluster))
		if systemID != 0 {
			dst = strconv.AppendUint(dst, systemID, 10)
		}
		return dst
	})
}

func (f *csvFormat) Append(dst []byte, r *format.Record) []byte {
	dst = append(f.clock.appendZoned(dst, r.Time, 'T'), ',')
	dst = append(append(dst, r.Kind.String()...), ',')
	dst = append(r.Session.ID().Append(dst), ',')
	dst = csvNumber(dst, r.Seq, r.Seq != 0)
	dst = csvNumber(dst, r.Statement, r.Statement != 0)
	dst = csvNumber(dst, r.Substatement, r.Substatement != 0)
	dst = csvNumber(dst, r.Depth, r.Depth != 0)
	context := f.contexts.get(r.SessionIndex)
	if len(context) == 0 {
		context = f.contexts.put(r.SessionIndex, func(dst []byte) []byte { return f.context(dst, r.Session) })
	}
	dst = append(dst, context...)
	if isConnection(r.Kind) {
		dst = f.cell(dst, r.Session.Fact(format.KeyBackendType))
		dst = f.cell(dst, r.Session.Fact(format.KeyAuthMethod))
		dst = f.cell(dst, r.Session.Fact(format.KeyIdentity))
	} else {
		dst = append(dst, ",,,"...)
	}
	if r.Shape == nil {
		dst = append(dst, ",,,"...)
	} else {
		shape := f.shapes.get(r.ShapeIndex)
		if len(shape) == 0 {
			shape = f.shapes.put(r.ShapeIndex, func(dst []byte) []byte { return f.shape(dst, r.Shape) })
		}
		dst = append(dst, shape...)
	}
	if r.TextIndex < 0 {
		dst = f.cell(dst, r.Text)
	} else {
		text := f.texts.get(r.TextIndex)
		if len(text) == 0 {
			text = f.texts.put(r.TextIndex, func(dst []byte) []byte { return f.cell(dst, r.Text) })
		}
		dst = append(dst, text...)
	}
	dst = csvNumber(dst, r.TextBytes, r.Has(format.FieldCut))
	f.nested = f.nested[:0]
	if hasParams(r) {
		f.nested = appendParamArray(f.nested, r, &f.scratch)
	}
	dst = f.cell(dst, f.nested)
	return f.result(dst, r)
}

func (f *csvFormat) result(dst []byte, r *format.Record) []byte {
	if r.Shape != nil && r.Shape.QueryID != 0 {
		dst = strconv.AppendInt(dst, int64(r.Shape.QueryID), 10)
	}
	dst = append(dst, ',')
	dst = csvNumber(dst, r.Rows, r.Has(format.FieldRows))
	dst = csvNumber(dst, r.Duration, r.Has(format.FieldDuration))
	if r.Has(format.FieldOutcome) || hasOutcome(r.Kind) {
		dst = append(dst, r.Outcome.String()...)
	}
	dst = f.cell(append(dst, ','), r.SQLState)
	dst = f.cell(dst, r.Message)
	dst = csvNumber(dst, r.XID, r.XID != 0)
	f.nested = f.nested[:0]
	if r.HasNames() {
		f.nested = appendExtra(f.nested, r)
	}
	dst = f.cell(dst, f.nested)
	dst = csvNumber(dst, uint64(f.ref.Segment.Stream.Number), true)
	dst = csvNumber(dst, f.ref.Segment.Number, true)
	dst = csvNumber(dst, f.ref.Number, true)
	return append(f.appendLaterColumns(dst, r), '\r', '\n')
}

// appendLaterColumns appends the columns that later versions have added.
func (f *csvFormat) appendLaterColumns(dst []byte, r *format.Record) []byte {
	dst = f.cell(dst, r.Session.Fact(format.KeyAppContext))
	f.nested = f.nested[:0]
	if r.Shape != nil && len(r.Shape.Objects) > 0 {
		f.nested = appendObjects(f.nested, r.Shape)
	}
	dst = f.cell(dst, f.nested)
	if r.Reasons() != format.AuditedSession {
		dst = appendWords(dst, r.Audited)
	}
	dst = f.cell(append(dst, ','), r.Session.Fact(format.KeyLeader))
	n, ok := r.Session.LeaderSubstatement()
	dst = f.cell(csvNumber(dst, n, ok), r.Session.Fact(format.KeyEncoding))
	if r.Undone() {
		dst = append(dst, "true"...)
	}
	dst = append(append(append(dst, ','), f.ofServer(r)...), ',')
	query := []byte(nil)
	if r.Shape != nil {
		query = r.Shape.Query
	}
	dst = f.cell(f.cell(f.cell(dst, query), r.Prepared()), r.Portal())
	if r.HasTextHash() {
		dst = hex.AppendEncode(dst, r.TextHash)
	}
	dst = append(dst, ',')
	for known, n := range r.Times.Each {
		dst = csvNumber(dst, n, known)
	}
	return dst[:len(dst)-1]
}

// appendWords appends why a record was written, with blanks between.
func appendWords(dst []byte, reasons format.Audited) []byte {
	sep := ""
	for name := range reasons.Names {
		dst = append(append(dst, sep...), name...)
		sep = " "
	}
	return dst
}

func (f *csvFormat) context(dst []byte, s *format.Session) []byte {
	dst = csvNumber(dst, uint64(s.PID), true)
	for _, k := range []format.Key{format.KeyUser, format.KeyRole, format.KeyAppUser, format.KeyDatabase,
		format.KeyApplication, format.KeyClient} {
		dst = f.cell(dst, s.Fact(k))
	}
	return dst
}

func (f *csvFormat) shape(dst []byte, s *format.Shape) []byte {
	if s.Class != 0 {
		dst = append(dst, s.Class.String()...)
	}
	dst = f.cell(append(dst, ','), s.Command)
	var relations []byte
	if len(s.Relations) > 0 {
		relations = appendRelations(relations, s)
	}
	return f.cell(dst, relations)
}

func csvNumber(dst []byte, n uint64, present bool) []byte {
	if present {
		dst = format.AppendUint(dst, n)
	}
	return append(dst, ',')
}

// cell appends a value and a comma. Spreadsheets interpret values that begin with one of = + - @, a tab or a
// line break as formulas, which a client could have put there. Such values get an apostrophe before them; so do
// those that begin with an apostrophe, so that readers can remove it again.
func (f *csvFormat) cell(dst, s []byte) []byte {
	if f.safe && len(s) > 0 && strings.IndexByte("=+-@\t\r\n'", s[0]) >= 0 {
		f.escaped = append(append(f.escaped[:0], '\''), s...)
		s = f.escaped
	}
	return csvString(dst, s)
}

// AppendCSV appends a value and a comma; if safe, with an apostrophe before a value that a spreadsheet would
// interpret as a formula.
func AppendCSV(dst, s []byte, safe bool) []byte {
	f := csvFormat{safe: safe}
	return f.cell(dst, s)
}

// csvString appends a value and a comma. Line breaks stay, as RFC 4180 allows, but other controls and bytes
// that are not UTF-8 are escaped as in text.
func csvString(dst, s []byte) []byte {
	if len(s) == 0 {
		return append(dst, ',')
	}
	quote := bytes.ContainsAny(s, ",\"\r\n\t") || string(s) == endOfCopy
	if !quote {
		return append(appendSafe(dst, s), ',')
	}
	return append(appendCSVQuotedBody(append(dst, '"'), s), '"', ',')
}

// endOfCopy is the line at which psql stops copying, even in the middle of a value.
const endOfCopy = `\.`

// appendCSVQuotedBody appends a value without the quotes around it. It escapes a line that would end a \copy of
// psql.
func appendCSVQuotedBody(dst, s []byte) []byte {
	atLineStart := false // a line
	for len(s) > 0 {
		i := bytes.IndexAny(s, "\"\r\n\t")
		if i < 0 {
			return appendSafe(dst, s)
		}
		isLineBreak := s[i] == '\n' || s[i] == '\r'
		if atLineStart && isLineBreak && string(s[:i]) == endOfCopy {
			dst = append(dst, `\x5c.`...)
		} else {
			dst = appendSafe(dst, s[:i])
		}
		atLineStart = isLineBreak
		if s[i] == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, s[i])
		s = s[i+1:]
	}
	return dst
}

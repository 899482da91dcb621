// The JSON format.

package render

import (
	"encoding/hex"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// jsonFormat makes one JSON object for each record. What depends only on a definition of the block is built
// once and kept by the definition's index.
type jsonFormat struct {
	origin   // stream, segment, block, server and the end of the line
	clock    clock
	sessions cache
	contexts cache
	shapes   cache
	queries  cache // query_id, by shape
	texts    cache
	scratch  []byte
}

// cache keeps what was built for definitions, by their index.
type cache struct {
	made [][]byte
	used int
	size int // bytes added to made since the last reset
}

// maxCache bounds the memory of a cache.
const maxCache = 2 << 20

func (c *cache) reset() {
	if c.size > maxCache || c.used > maxCache/64 {
		c.made = nil
	}
	c.used, c.size = 0, 0
}

// get returns what is kept for an index; empty if nothing is kept yet.
func (c *cache) get(i int) []byte {
	if i >= 0 && i < c.used {
		return c.made[i]
	}
	return nil
}

// put keeps what fill appends to a buffer, which is reused.
func (c *cache) put(i int, fill func(dst []byte) []byte) []byte {
	if i < 0 {
		return fill(nil)
	}
	if c.size > maxCache {
		c.reset()
	}
	for c.used <= i {
		if c.used == len(c.made) {
			c.made = append(c.made, nil)
		}
		c.made[c.used] = c.made[c.used][:0]
		c.used++
	}
	c.made[i] = fill(c.made[i])
	c.size += len(c.made[i])
	return c.made[i]
}

func (f *jsonFormat) Start(ref *trail.BlockRef) {
	f.sessions.reset()
	f.contexts.reset()
	f.shapes.reset()
	f.queries.reset()
	f.texts.reset()
	f.startBlock(ref, func(dst []byte, systemID uint64, s *trail.Server) []byte {
		return append(appendOrigin(appendPlace(dst, ref), systemID, s), "}\n"...)
	})
}

// appendPlace appends where a record is.
func appendPlace(dst []byte, ref *trail.BlockRef) []byte {
	dst = strconv.AppendUint(append(dst, `,"stream":`...), uint64(ref.Segment.Stream.Number), 10)
	dst = strconv.AppendUint(append(dst, `,"segment":`...), ref.Segment.Number, 10)
	return strconv.AppendUint(append(dst, `,"block":`...), ref.Number, 10)
}

func appendField(dst []byte, key string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(append(append(dst, ',', '"'), key...), '"', ':')
	return appendJSON(dst, value)
}

func appendNumber(dst []byte, key string, n uint64) []byte {
	dst = append(append(append(dst, ',', '"'), key...), '"', ':')
	return format.AppendUint(dst, n)
}

// isConnection returns whether a record is about the beginning or end of a session. Only these records show how
// the client was authenticated.
func isConnection(k format.Kind) bool {
	return k == format.KindConnect || k == format.KindAuthFailed || k == format.KindDisconnect
}

// hasOutcome returns whether records of a kind always show an outcome.
func hasOutcome(k format.Kind) bool {
	switch k {
	case format.KindStatement, format.KindStart, format.KindConnect, format.KindAuthFailed:
		return true
	}
	return false
}

func (f *jsonFormat) Append(dst []byte, r *format.Record) []byte {
	dst = f.clock.appendZoned(append(dst, `{"time":"`...), r.Time, 'T')
	dst = append(append(dst, `","kind":"`...), r.Kind.String()...)
	id := f.sessions.get(r.SessionIndex)
	if len(id) == 0 {
		id = f.sessions.put(r.SessionIndex, func(dst []byte) []byte {
			return append(r.Session.ID().Append(append(dst, `","session":"`...)), '"')
		})
	}
	dst = append(dst, id...)
	if r.Seq != 0 {
		dst = appendNumber(dst, "seq", r.Seq)
	}
	if r.Statement != 0 {
		dst = appendNumber(dst, "statement", r.Statement)
	}
	if r.Substatement != 0 {
		dst = appendNumber(dst, "substatement", r.Substatement)
	}
	if r.Depth != 0 {
		dst = appendNumber(dst, "depth", r.Depth)
	}
	context := f.contexts.get(r.SessionIndex)
	if len(context) == 0 {
		context = f.contexts.put(r.SessionIndex, func(dst []byte) []byte { return appendContext(dst, r.Session) })
	}
	dst = append(dst, context...)
	if isConnection(r.Kind) {
		dst = appendField(dst, "backend_type", r.Session.Fact(format.KeyBackendType))
		dst = appendField(dst, "auth_method", r.Session.Fact(format.KeyAuthMethod))
		dst = appendField(dst, "identity", r.Session.Fact(format.KeyIdentity))
	}
	if r.Shape != nil {
		shape := f.shapes.get(r.ShapeIndex)
		if len(shape) == 0 {
			shape = f.shapes.put(r.ShapeIndex, func(dst []byte) []byte { return appendShape(dst, r.Shape) })
		}
		dst = append(dst, shape...)
	}
	if r.Text != nil {
		dst = append(dst, `,"text":`...)
		if r.TextIndex < 0 {
			dst = appendJSON(dst, r.Text)
		} else {
			text := f.texts.get(r.TextIndex)
			if len(text) == 0 {
				text = f.texts.put(r.TextIndex, func(dst []byte) []byte { return appendJSON(dst, r.Text) })
			}
			dst = append(dst, text...)
		}
	}
	dst = appendCut(dst, r)
	dst = f.appendParams(dst, r)
	return f.appendResult(dst, r)
}

// appendCut appends the full length and the hash of a text that was truncated.
func appendCut(dst []byte, r *format.Record) []byte {
	if !r.Has(format.FieldCut) {
		return dst
	}
	dst = appendNumber(dst, "text_bytes", r.TextBytes)
	if !r.HasTextHash() {
		return dst
	}
	return append(hex.AppendEncode(append(dst, `,"text_sha256":"`...), r.TextHash), '"')
}

func appendContext(dst []byte, s *format.Session) []byte {
	dst = appendNumber(dst, "pid", uint64(s.PID))
	dst = appendField(dst, "user", s.Fact(format.KeyUser))
	dst = appendField(dst, "role", s.Fact(format.KeyRole))
	dst = appendField(dst, "app_user", s.Fact(format.KeyAppUser))
	dst = appendField(dst, "app_context", s.Fact(format.KeyAppContext))
	dst = appendField(dst, "database", s.Fact(format.KeyDatabase))
	dst = appendField(dst, "application", s.Fact(format.KeyApplication))
	dst = appendField(dst, "client", s.Fact(format.KeyClient))
	return appendLeader(dst, s)
}

// appendLeader appends the statement that a parallel worker helps to execute, and the encoding.
func appendLeader(dst []byte, s *format.Session) []byte {
	dst = appendField(dst, "leader", s.Fact(format.KeyLeader))
	if n, ok := s.LeaderSubstatement(); ok {
		dst = appendNumber(dst, "leader_substatement", n)
	}
	return appendField(dst, "encoding", s.Fact(format.KeyEncoding))
}

func appendShape(dst []byte, s *format.Shape) []byte {
	if s.Class != 0 {
		dst = append(append(append(dst, `,"class":"`...), s.Class.String()...), '"')
	}
	dst = appendField(dst, "command", s.Command)
	dst = appendField(dst, "query_command", s.Query)
	dst = appendField(dst, "prepared", s.Prepared)
	if len(s.Relations) > 0 {
		dst = append(dst, `,"relations":`...)
		dst = appendRelations(dst, s)
	}
	if len(s.Objects) > 0 {
		dst = append(dst, `,"objects":`...)
		dst = appendObjects(dst, s)
	}
	return dst
}

func appendRelations(dst []byte, s *format.Shape) []byte {
	for i, rel := range s.Relations {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		dst = appendJSON(append(append(dst, sep), `{"name":`...), rel.Name)
		dst = append(append(append(dst, `,"type":"`...), rel.Type.String()...), '"')
		access := rel.Access &^ format.AccessAudited
		dst = append(access.AppendNames(append(dst, `,"access":"`...)), '"')
		dst = appendColumns(dst, &rel)
		if rel.Via > 0 {
			dst = appendJSON(append(dst, `,"via":`...), s.Relations[rel.Via-1].Name)
		}
		if access != rel.Access {
			dst = append(dst, `,"audited":true`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendColumns appends the columns that a statement reads and writes, by access.
func appendColumns(dst []byte, rel *format.Relation) []byte {
	access := rel.ColumnAccess()
	if access == 0 {
		return dst
	}
	dst = append(dst, `,"columns":`...)
	sep := byte('{')
	for bit := range access.Bits {
		dst = bit.AppendNames(append(dst, sep, '"'))
		dst = append(dst, `":[`...)
		first := true
		for _, c := range rel.Columns {
			if c.Access&bit == 0 {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendJSON(dst, c.Name)
		}
		dst = append(dst, ']')
		sep = ','
	}
	dst = append(dst, '}')
	if rel.Omitted != 0 {
		dst = append(rel.Omitted.AppendNames(append(dst, `,"columns_omitted":"`...)), '"')
	}
	return dst
}

func appendObjects(dst []byte, s *format.Shape) []byte {
	for i, o := range s.Objects {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		dst = appendJSON(append(append(dst, sep), `{"name":`...), o.Name)
		dst = appendJSON(append(dst, `,"type":`...), o.Type)
		dst = append(append(append(dst, `,"action":"`...), o.Action.String()...), '"')
		dst = append(appendField(dst, "to", o.To), '}')
	}
	return append(dst, ']')
}

// appendReasons appends why a record was written.
func appendReasons(dst []byte, reasons format.Audited) []byte {
	sep := byte('[')
	for name := range reasons.Names {
		dst = append(append(append(dst, sep, '"'), name...), '"')
		sep = ','
	}
	return append(dst, ']')
}

func (f *jsonFormat) appendParams(dst []byte, r *format.Record) []byte {
	if !hasParams(r) {
		return dst
	}
	return appendParamArray(append(dst, `,"params":`...), r, &f.scratch)
}

// hasParams returns whether a record has a parameter that its statement uses.
func hasParams(r *format.Record) bool {
	if r.Shape == nil || len(r.Shape.Params) == 0 || !r.HasParams() {
		return false
	}
	last := r.Shape.Params[len(r.Shape.Params)-1]
	return last.OID != 0 || r.LastParam() > 0
}

// appendParamArray appends the parameters up to the last one that the statement uses; those before
// that it does not use are null.
func appendParamArray(dst []byte, r *format.Record, scratch *[]byte) []byte {
	sep := byte('[')
	end := -1 // the end of the last used parameter, if unused ones follow it
	r.Params(func(p format.ParamType, value []byte, null bool) bool {
		if !p.IsUnused(null) {
			end = -1
		} else if end < 0 {
			end = len(dst)
		}
		dst = append(dst, sep)
		sep = ','
		switch {
		case null:
			dst = append(dst, "null"...)
		case p.Repr == format.ReprText || p.Repr == format.ReprChar || int(p.Repr) > int(format.ReprChar):
			*scratch = format.AppendParam((*scratch)[:0], p.Repr, value)
			dst = appendJSON(dst, *scratch)
		default:
			// All other types print plain characters, except the backslash of bytea.
			dst = append(dst, '"')
			if p.Repr == format.ReprBytea {
				dst = append(dst, '\\')
			}
			dst = append(format.AppendParam(dst, p.Repr, value), '"')
		}
		return true
	})
	if end >= 0 {
		dst = dst[:end]
	}
	if sep == '[' {
		dst = append(dst, '[')
	}
	return append(dst, ']')
}

func (f *jsonFormat) appendResult(dst []byte, r *format.Record) []byte {
	if r.Shape != nil && r.Shape.QueryID != 0 {
		id := f.queries.get(r.ShapeIndex)
		if len(id) == 0 {
			id = f.queries.put(r.ShapeIndex, func(dst []byte) []byte {
				return strconv.AppendInt(append(dst, `,"query_id":`...), int64(r.Shape.QueryID), 10)
			})
		}
		dst = append(dst, id...)
	}
	if r.Has(format.FieldRows) {
		dst = appendNumber(dst, "rows", r.Rows)
	}
	if r.Has(format.FieldDuration) {
		dst = appendNumber(dst, "duration_us", r.Duration)
	}
	if r.Has(format.FieldOutcome) || hasOutcome(r.Kind) {
		dst = append(append(append(dst, `,"outcome":"`...), r.Outcome.String()...), '"')
	}
	if r.Has(format.FieldError) {
		dst = appendField(dst, "sqlstate", r.SQLState)
	}
	dst = appendField(dst, "message", r.Message)
	return append(appendEnd(dst, r), f.ofServer(r)...)
}

// appendEnd appends the fields that come last in JSON and in the schemas derived from it.
func appendEnd(dst []byte, r *format.Record) []byte {
	for name, n := range r.Times.All {
		dst = appendNumber(dst, string(name), n)
	}
	if r.XID != 0 {
		dst = appendNumber(dst, "xid", r.XID)
	}
	if r.Undone() {
		dst = append(dst, `,"rolled_back":true`...)
	}
	if r.ExtraCount > 0 {
		dst = appendField(dst, "portal", r.Portal())
	}
	if r.HasNames() {
		dst = appendExtra(append(dst, `,"extra":`...), r)
	}
	if r.Reasons() != format.AuditedSession {
		dst = appendReasons(append(dst, `,"audited":`...), r.Audited)
	}
	return dst
}

func appendExtra(dst []byte, r *format.Record) []byte {
	sep := byte('{')
	if r.HasEnding() {
		for i := 0; format.EndingName(i) != ""; i++ {
			from := len(dst)
			dst = append(append(append(dst, sep, '"'), format.EndingName(i)...), `":"`...)
			begin := len(dst)
			if dst = r.AppendEnding(dst, i); len(dst) == begin {
				dst = dst[:from]
				continue
			}
			dst = append(dst, '"')
			sep = ','
		}
	}
	if r.ExtraCount > 0 {
		for name, value := range r.StoredPairs {
			dst = appendJSON(append(dst, sep), name)
			dst = appendJSON(append(dst, ':'), value)
			sep = ','
		}
	}
	if sep == '{' {
		dst = append(dst, sep)
	}
	return append(dst, '}')
}

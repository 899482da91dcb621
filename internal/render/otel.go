// The format of OpenTelemetry's logs (OTLP/JSON).

package render

import (
	"encoding/hex"
	"math"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// OTelVersion is the version of OpenTelemetry's semantic conventions that the
// attributes follow.
const OTelVersion = "1.44.0"

// otelFormat makes an OTLP/JSON ExportLogsServiceRequest of one log record a
// line, with the semantic conventions for databases. What they have no
// attribute for has a name that begins with pg_steno.
type otelFormat struct{ definitions }

const otelSchema = `"https://opentelemetry.io/schemas/` + OTelVersion + `"`

const otelBegin = `{"resourceLogs":[{"resource":{"attributes":[` +
	`{"key":"service.name","value":{"stringValue":"postgresql"}}`

const otelScope = `]},"scopeLogs":[{"scope":{"name":"pg_steno"},"logRecords":[{"timeUnixNano":"`

const otelEnd = `],"schemaUrl":` + otelSchema + `}],"schemaUrl":` + otelSchema + "}]}\n"

// Severities of OpenTelemetry.
const (
	otelInfo  = `,"severityNumber":9,"severityText":"INFO"`
	otelWarn  = `,"severityNumber":13,"severityText":"WARN"`
	otelError = `,"severityNumber":17,"severityText":"ERROR"`
)

func (f *otelFormat) Start(ref *trail.BlockRef) {
	f.definitions.Start(ref)
	f.startBlock(ref, otelOrigin)
}

// otelOrigin appends the resource, which is the server, and the beginning of the log record, up to its first
// value.
func otelOrigin(dst []byte, systemID uint64, s *trail.Server) []byte {
	dst = append(dst, otelBegin...)
	dst = otelString(dst, "host.name", []byte(s.Host))
	dst = otelString(dst, "pg_steno.cluster_name", []byte(s.Cluster))
	if systemID != 0 {
		dst = otelString(dst, "pg_steno.system_identifier", strconv.AppendUint(nil, systemID, 10))
	}
	return append(dst, otelScope...)
}

func (f *otelFormat) Append(dst []byte, r *format.Record) []byte {
	dst = appendNano(append(dst, f.ofServer(r)...), r.Time)
	dst = append(appendNano(append(dst, `","observedTimeUnixNano":"`...), r.End()), '"')
	switch {
	case isFailure(r) || r.Kind == format.KindGap:
		dst = append(dst, otelError...)
	case r.Outcome == format.OutcomeInterrupted:
		dst = append(dst, otelWarn...)
	default:
		dst = append(dst, otelInfo...)
	}
	dst = append(append(dst, `,"eventName":"pg_steno.`...), r.Kind.String()...)
	dst = append(dst, '"')
	if len(r.Message) > 0 {
		dst = append(appendJSON(append(dst, `,"body":{"stringValue":`...), r.Message), '}')
	} else if r.Text != nil && r.Kind == format.KindNote {
		dst = append(f.jsonText(append(dst, `,"body":{"stringValue":`...), r), '}')
	}
	dst = append(dst, `,"attributes":[{"key":"db.system.name","value":{"stringValue":"postgresql"}}`...)
	dst = f.context(dst, r, otelContext)
	if isConnection(r.Kind) {
		for _, k := range []format.Key{format.KeyBackendType, format.KeyAuthMethod, format.KeyIdentity} {
			dst = otelString(dst, "pg_steno."+k.String(), r.Session.Fact(k))
		}
	}
	dst = f.shape(dst, r, otelShape)
	if len(r.Text) > 0 && r.Kind != format.KindNote {
		dst = append(f.jsonText(append(otelKey(dst, "db.query.text"), `"stringValue":`...), r), "}}"...)
	}
	dst = f.params(dst, r)
	return append(f.result(dst, r), otelEnd...)
}

// appendNano appends a time as nanoseconds since 1970, 0 for one that cannot be
// said so.
func appendNano(dst []byte, usec int64) []byte {
	if usec < -946684800*1e6 || usec > (math.MaxInt64/1000)-946684800*1e6 {
		return append(dst, '0')
	}
	return strconv.AppendInt(dst, (usec+unixEpoch*1e6)*1000, 10)
}

func otelKey(dst []byte, key string) []byte {
	return append(append(append(dst, `,{"key":"`...), key...), `","value":{`...)
}

// otelString appends an attribute, none when the value is empty.
func otelString(dst []byte, key string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return append(appendJSON(append(otelKey(dst, key), `"stringValue":`...), value), "}}"...)
}

// otelInt appends a number. OTLP/JSON writes numbers as strings.
func otelInt(dst []byte, key string, n int64) []byte {
	dst = strconv.AppendInt(append(otelKey(dst, key), `"intValue":"`...), n, 10)
	return append(dst, `"}}`...)
}

// otelUint appends an unsigned number, as a string when it is too big.
func otelUint(dst []byte, key string, n uint64) []byte {
	if n > math.MaxInt64 {
		return otelString(dst, key, strconv.AppendUint(nil, n, 10))
	}
	return otelInt(dst, key, int64(n))
}

func otelContext(dst []byte, s *format.Session) []byte {
	dst = otelString(dst, "db.namespace", s.Fact(format.KeyDatabase))
	dst = otelString(dst, "user.name", s.Fact(format.KeyUser))
	dst = otelString(dst, "session.id", s.ID().Append(nil))
	dst = otelInt(dst, "process.pid", int64(s.PID))
	address, port, ip := endpoint(s.Fact(format.KeyClient))
	dst = otelString(dst, "client.address", address)
	if ip && len(port) > 0 {
		n, _ := strconv.ParseUint(string(port), 10, 16)
		dst = otelInt(dst, "client.port", int64(n))
	}
	for _, k := range []format.Key{format.KeyRole, format.KeyApplication, format.KeyAppUser, format.KeyAppContext,
		format.KeyLeader} {
		dst = otelString(dst, "pg_steno."+k.String(), s.Fact(k))
	}
	if n, ok := s.LeaderSubstatement(); ok {
		dst = otelUint(dst, "pg_steno.leader_substatement", n)
	}
	return otelString(dst, "pg_steno.encoding", s.Fact(format.KeyEncoding))
}

// otelShape appends what depends on the shape. The operation's name is the command tag: no text is parsed.
func otelShape(dst []byte, s *format.Shape) []byte {
	dst = otelString(dst, "db.operation.name", s.Command)
	if len(s.Relations) == 1 {
		dst = otelString(dst, "db.collection.name", s.Relations[0].Name)
	}
	if s.Class != 0 {
		dst = otelString(dst, "pg_steno.class", []byte(s.Class.String()))
	}
	dst = otelString(dst, "pg_steno.query_command", s.Query)
	dst = otelString(dst, "pg_steno.prepared", s.Prepared)
	if s.QueryID != 0 {
		dst = otelInt(dst, "pg_steno.query_id", int64(s.QueryID))
	}
	if len(s.Relations) > 0 {
		dst = otelArray(dst, "pg_steno.relations", len(s.Relations), func(dst []byte, i int) []byte {
			rel := &s.Relations[i]
			access := rel.Access &^ format.AccessAudited
			dst = otelMember(dst, "name", rel.Name)
			dst = otelMember(dst, "type", []byte(rel.Type.String()))
			dst = otelMember(dst, "access", access.AppendNames(nil))
			dst = otelColumns(dst, rel)
			if rel.Via > 0 {
				dst = otelMember(dst, "via", s.Relations[rel.Via-1].Name)
			}
			if access != rel.Access {
				dst = append(dst, `,{"key":"audited","value":{"boolValue":true}}`...)
			}
			return dst
		})
	}
	if len(s.Objects) > 0 {
		dst = otelArray(dst, "pg_steno.objects", len(s.Objects), func(dst []byte, i int) []byte {
			o := &s.Objects[i]
			dst = otelMember(dst, "name", o.Name)
			dst = otelMember(dst, "type", o.Type)
			dst = otelMember(dst, "action", []byte(o.Action.String()))
			if len(o.To) > 0 {
				dst = otelMember(dst, "to", o.To)
			}
			return dst
		})
	}
	return dst
}

// otelArray appends an array of key-value lists; member appends the pairs of
// one, each with a comma before it.
func otelArray(dst []byte, key string, n int, member func(dst []byte, i int) []byte) []byte {
	dst = append(otelKey(dst, key), `"arrayValue":{"values":[`...)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"kvlistValue":{"values":[`...)
		from := len(dst)
		dst = member(dst, i)
		dst = append(dst[:from], dst[from+1:]...)
		dst = append(dst, "]}}"...)
	}
	return append(dst, "]}}}"...)
}

func otelMember(dst []byte, key string, value []byte) []byte {
	dst = append(append(append(dst, `,{"key":"`...), key...), `","value":{"stringValue":`...)
	return append(appendJSON(dst, value), "}}"...)
}

// otelColumns appends the columns of a relation, by access.
func otelColumns(dst []byte, rel *format.Relation) []byte {
	access := rel.ColumnAccess()
	if access == 0 {
		return dst
	}
	dst = append(dst, `,{"key":"columns","value":{"kvlistValue":{"values":[`...)
	first := true
	for bit := range access.Bits {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = bit.AppendNames(append(dst, `{"key":"`...))
		dst = append(dst, `","value":{"arrayValue":{"values":[`...)
		sep := ""
		for _, c := range rel.Columns {
			if c.Access&bit != 0 {
				dst = append(append(dst, sep...), `{"stringValue":`...)
				dst = append(appendJSON(dst, c.Name), '}')
				sep = ","
			}
		}
		dst = append(dst, "]}}}"...)
	}
	dst = append(dst, "]}}}"...)
	if rel.Omitted != 0 {
		dst = otelMember(dst, "columns_omitted", rel.Omitted.AppendNames(nil))
	}
	return dst
}

// params appends the parameters; NULL is a value that is not set.
func (f *otelFormat) params(dst []byte, r *format.Record) []byte {
	n := int64(0)
	r.Params(func(p format.ParamType, value []byte, null bool) bool {
		n++
		if p.IsUnused(null) {
			return true
		}
		dst = strconv.AppendInt(append(dst, `,{"key":"db.query.parameter.`...), n-1, 10)
		dst = append(dst, `","value":{`...)
		if !null {
			f.scratch = format.AppendParam(f.scratch[:0], p.Repr, value)
			dst = appendJSON(append(dst, `"stringValue":`...), f.scratch)
		}
		dst = append(dst, "}}"...)
		return true
	})
	return dst
}

func (f *otelFormat) result(dst []byte, r *format.Record) []byte {
	if r.Has(format.FieldError) {
		dst = otelString(dst, "db.response.status_code", r.SQLState)
		dst = otelString(dst, "error.type", r.SQLState)
	}
	if r.Has(format.FieldRows) {
		dst = otelUint(dst, "db.response.returned_rows", r.Rows)
	}
	dst = append(otelKey(dst, "pg_steno.kind"), `"stringValue":"`...)
	dst = append(append(dst, r.Kind.String()...), `"}}`...)
	if r.Seq != 0 {
		dst = otelUint(dst, "pg_steno.seq", r.Seq)
	}
	if r.Statement != 0 {
		dst = otelUint(dst, "pg_steno.statement", r.Statement)
	}
	if r.Substatement != 0 {
		dst = otelUint(dst, "pg_steno.substatement", r.Substatement)
	}
	if r.Depth != 0 {
		dst = otelUint(dst, "pg_steno.depth", r.Depth)
	}
	if r.Has(format.FieldCut) {
		dst = otelUint(dst, "pg_steno.text_bytes", r.TextBytes)
		if r.HasTextHash() {
			dst = otelString(dst, "pg_steno.text_sha256", hex.AppendEncode(nil, r.TextHash))
		}
	}
	if r.Has(format.FieldDuration) {
		dst = otelUint(dst, "pg_steno.duration_us", r.Duration)
	}
	if r.Has(format.FieldOutcome) || hasOutcome(r.Kind) {
		dst = append(otelKey(dst, "pg_steno.outcome"), `"stringValue":"`...)
		dst = append(append(dst, r.Outcome.String()...), `"}}`...)
	}
	for name, n := range r.Times.All {
		dst = otelUint(dst, "pg_steno."+string(name), n)
	}
	if r.XID != 0 {
		dst = otelUint(dst, "pg_steno.xid", r.XID)
	}
	if r.Undone() {
		dst = append(otelKey(dst, "pg_steno.rolled_back"), `"boolValue":true}}`...)
	}
	if r.ExtraCount > 0 {
		dst = otelString(dst, "pg_steno.portal", r.Portal())
	}
	if r.Reasons() != format.AuditedSession {
		dst = append(otelKey(dst, "pg_steno.audited"), `"arrayValue":{"values":[`...)
		sep := ""
		for name := range r.Reasons().Names {
			dst = append(append(append(dst, sep...), `{"stringValue":"`...), name...)
			dst = append(dst, `"}`...)
			sep = ","
		}
		dst = append(dst, "]}}}"...)
	}
	if r.HasNames() {
		dst = append(otelKey(dst, "pg_steno.extra"), `"kvlistValue":{"values":[`...)
		sep := ""
		for name, value := range r.Names {
			dst = appendJSON(append(append(dst, sep...), `{"key":`...), name)
			dst = append(appendJSON(append(dst, `,"value":{"stringValue":`...), value), "}}"...)
			sep = ","
		}
		dst = append(dst, "]}}}"...)
	}
	dst = otelInt(dst, "pg_steno.stream", int64(f.ref.Segment.Stream.Number))
	dst = otelUint(dst, "pg_steno.segment", f.ref.Segment.Number)
	dst = otelUint(dst, "pg_steno.block", f.ref.Number)
	return append(dst, `]}`...)
}

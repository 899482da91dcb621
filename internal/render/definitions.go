// Parts of lines that depend only on the definitions of a block, built once for each definition.

package render

import (
	"bytes"
	"net/netip"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// definitions keeps these parts for the renderers that have nothing else in common.
type definitions struct {
	origin
	clock    clock
	ref      *trail.BlockRef
	contexts cache
	shapes   cache
	texts    cache
	place    []byte
	scratch  []byte
}

func (d *definitions) Start(ref *trail.BlockRef) {
	d.ref = ref
	d.contexts.reset()
	d.shapes.reset()
	d.texts.reset()
	d.place = appendPlace(d.place[:0], ref)
}

// origin keeps the part of a line that names the server. A block usually has one server, but several if a
// server started within it.
type origin struct {
	servers  *trail.Servers
	byServer []serverText
}

type serverText struct {
	since int64
	text  []byte
}

// startBlock calls fill for each server of a block, and keeps the results.
func (o *origin) startBlock(ref *trail.BlockRef, fill func(dst []byte, systemID uint64, s *trail.Server) []byte) {
	all := o.servers.Of(ref)
	for len(o.byServer) < len(all) {
		o.byServer = append(o.byServer, serverText{})
	}
	o.byServer = o.byServer[:len(all)]
	for i := range all {
		o.byServer[i] = serverText{all[i].Since, fill(o.byServer[i].text[:0], ref.Segment.Header.SystemID, &all[i])}
	}
}

// ofServer returns the kept part for the record's server.
func (o *origin) ofServer(r *format.Record) []byte {
	i := len(o.byServer) - 1
	for i > 0 && r.Time < o.byServer[i].since {
		i--
	}
	return o.byServer[i].text
}

// appendOrigin appends the server as JSON fields.
func appendOrigin(dst []byte, systemID uint64, s *trail.Server) []byte {
	dst = appendField(dst, "host", []byte(s.Host))
	dst = appendField(dst, "cluster_name", []byte(s.Cluster))
	if systemID != 0 {
		dst = append(strconv.AppendUint(append(dst, `,"system_identifier":"`...), systemID, 10), '"')
	}
	return dst
}

// context appends what fill returns for the record's session, calling it once for each.
func (d *definitions) context(dst []byte, r *format.Record, fill func(dst []byte, s *format.Session) []byte) []byte {
	made := d.contexts.get(r.SessionIndex)
	if len(made) == 0 {
		made = d.contexts.put(r.SessionIndex, func(dst []byte) []byte { return fill(dst, r.Session) })
	}
	return append(dst, made...)
}

// shape appends what fill returns for the record's shape; nothing if the record has none.
func (d *definitions) shape(dst []byte, r *format.Record, fill func(dst []byte, s *format.Shape) []byte) []byte {
	if r.Shape == nil {
		return dst
	}
	made := d.shapes.get(r.ShapeIndex)
	if len(made) == 0 {
		made = d.shapes.put(r.ShapeIndex, func(dst []byte) []byte { return fill(dst, r.Shape) })
	}
	return append(dst, made...)
}

// jsonText appends the record's text as JSON.
func (d *definitions) jsonText(dst []byte, r *format.Record) []byte {
	return d.text(dst, r, appendJSON[[]byte])
}

// text appends what fill returns for the record's text. All kinds of records share what is kept for a text, so
// a renderer must always pass the same function.
func (d *definitions) text(dst []byte, r *format.Record, fill func(dst, text []byte) []byte) []byte {
	if r.TextIndex < 0 {
		return fill(dst, r.Text)
	}
	made := d.texts.get(r.TextIndex)
	if len(made) == 0 {
		made = d.texts.put(r.TextIndex, func(dst []byte) []byte { return fill(dst, r.Text) })
	}
	return append(dst, made...)
}

// appendFacts appends those of the facts that the session has, as JSON fields.
func appendFacts(dst []byte, s *format.Session, keys ...format.Key) []byte {
	for _, k := range keys {
		dst = appendField(dst, k.String(), s.Fact(k))
	}
	return dst
}

// appendCommonFields appends, as JSON fields, what common schemas have no fields for.
func (d *definitions) appendCommonFields(dst []byte, r *format.Record) []byte {
	if r.Statement != 0 {
		dst = appendNumber(dst, "statement", r.Statement)
	}
	if r.Substatement != 0 {
		dst = appendNumber(dst, "substatement", r.Substatement)
	}
	if r.Depth != 0 {
		dst = appendNumber(dst, "depth", r.Depth)
	}
	dst = d.shape(dst, r, func(dst []byte, s *format.Shape) []byte {
		dst = appendShape(dst, s)
		if s.QueryID != 0 {
			dst = strconv.AppendInt(append(dst, `,"query_id":`...), int64(s.QueryID), 10)
		}
		return dst
	})
	dst = appendCut(dst, r)
	if hasParams(r) {
		dst = appendParamArray(append(dst, `,"params":`...), r, &d.scratch)
	}
	if r.Has(format.FieldRows) {
		dst = appendNumber(dst, "rows", r.Rows)
	}
	if r.Has(format.FieldOutcome) || hasOutcome(r.Kind) {
		dst = append(append(append(dst, `,"outcome":"`...), r.Outcome.String()...), '"')
	}
	return append(appendEnd(dst, r), d.place...)
}

// appendID appends the record's ID: session and sequence number, or, without one, session and number of the
// statement.
func appendID(dst []byte, r *format.Record) []byte {
	dst = append(r.Session.ID().Append(dst), '/')
	if r.Seq != 0 {
		return strconv.AppendUint(dst, r.Seq, 10)
	}
	dst = strconv.AppendUint(append(append(dst, r.Kind.String()...), '/'), r.Statement, 10)
	return strconv.AppendUint(append(dst, '.'), r.Substatement, 10)
}

// endpoint splits a client into address and port; ip says that the address is an IP address, not [local].
func endpoint(client []byte) (address, port []byte, ip bool) {
	i := bytes.LastIndexByte(client, ':')
	if i < 0 {
		_, err := netip.ParseAddr(string(client))
		return client, nil, err == nil
	}
	address, port = bytes.Trim(client[:i], "[]"), client[i+1:]
	if n, err := strconv.ParseUint(string(port), 10, 16); err != nil || n == 0 {
		return client, nil, false
	}
	_, err := netip.ParseAddr(string(address))
	return address, port, err == nil
}

// isFailure returns whether the record states a failure. An interruption is none.
func isFailure(r *format.Record) bool {
	return r.Failed() && r.Outcome != format.OutcomeInterrupted
}

// isCompleted returns whether the record has both the beginning and the end of a statement.
func isCompleted(r *format.Record) bool {
	return r.Kind == format.KindStatement && r.Has(format.FieldDuration)
}

// unixMilliseconds converts a time of the trail, which may be any number, to milliseconds since 1970.
func unixMilliseconds(usec int64) int64 { return floorDiv(usec, 1000) + unixEpoch*1000 }

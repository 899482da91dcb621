// Parts of lines that depend only on a block's definitions, made once for each.

package render

import (
	"bytes"
	"net/netip"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// definitions keeps what was made from the definitions of a block, for
// renderers that share no more than that.
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

// origin keeps what was made of a block's server: usually one, and several where a server
// started in the middle of it.
type origin struct {
	servers *trail.Servers
	made    []madeOf
}

type madeOf struct {
	since int64
	text  []byte
}

// start makes what fill makes of the servers of a block.
func (o *origin) start(ref *trail.BlockRef, fill func(dst []byte, systemID uint64, s *trail.Server) []byte) {
	all := o.servers.Of(ref)
	for len(o.made) < len(all) {
		o.made = append(o.made, madeOf{})
	}
	o.made = o.made[:len(all)]
	for i := range all {
		o.made[i] = madeOf{all[i].Since, fill(o.made[i].text[:0], ref.Segment.Header.SystemID, &all[i])}
	}
}

// of is what was made of the record's server.
func (o *origin) of(r *format.Record) []byte {
	i := len(o.made) - 1
	for i > 0 && r.Time < o.made[i].since {
		i--
	}
	return o.made[i].text
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

// context appends what fill makes of the record's session definition.
func (d *definitions) context(dst []byte, r *format.Record, fill func(dst []byte, s *format.Session) []byte) []byte {
	made := d.contexts.get(r.SessionIndex)
	if len(made) == 0 {
		made = d.contexts.put(r.SessionIndex, func(dst []byte) []byte { return fill(dst, r.Session) })
	}
	return append(dst, made...)
}

// shape appends what fill makes of the record's shape, nothing when it has none.
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

// text appends what fill makes of the record's text. Records of all kinds share what is kept of a text, so a renderer
// must give the same function for all of them.
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

// facts appends those facts of the session that are there, as JSON fields.
func facts(dst []byte, s *format.Session, keys ...format.Key) []byte {
	for _, k := range keys {
		dst = appendField(dst, k.String(), s.Fact(k))
	}
	return dst
}

// numbers appends, as JSON fields, what of a record no common schema has a
// place for, and what stands in its shape.
func (d *definitions) numbers(dst []byte, r *format.Record) []byte {
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

// appendID appends what identifies a record: session and sequence number, or
// the statement, for those that have none.
func appendID(dst []byte, r *format.Record) []byte {
	dst = append(r.Session.ID().Append(dst), '/')
	if r.Seq != 0 {
		return strconv.AppendUint(dst, r.Seq, 10)
	}
	dst = strconv.AppendUint(append(append(dst, r.Kind.String()...), '/'), r.Statement, 10)
	return strconv.AppendUint(append(dst, '.'), r.Substatement, 10)
}

// endpoint takes a client apart: address and port; ip says that the address is
// one of the Internet's, rather than [local].
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

// failed says whether the record tells of something that did not succeed.
func failed(r *format.Record) bool {
	return r.Failed() && r.Outcome != format.OutcomeInterrupted
}

// begins says whether a record was written at the end of what began at its time.
func begins(r *format.Record) bool {
	return r.Kind == format.KindStatement && r.Has(format.FieldDuration)
}

// unixMilliseconds is a time of the trail, which may be any number, as milliseconds since 1970.
func unixMilliseconds(usec int64) int64 { return floorDiv(usec, 1000) + unixEpoch*1000 }

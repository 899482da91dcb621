// Decodes what can still be decoded of a damaged block.

package recovery

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// The checksum of a damaged block does not match, so nothing proves its records: a changed byte of a text is decoded
// just like an unchanged one. Everything that can be checked is, and decoding ends at the first record that cannot be
// right.

// unproven is a record of a damaged block, and its session.
type unproven struct {
	source write.Source
	record write.Record
}

// decodeDamaged reads the records of a damaged block up to the first one that cannot be decoded. b is the block from
// its header on, up to the next one or to the end. total is the number of records that the header states.
func decodeDamaged(b []byte) (records []unproven, total uint32) {
	if len(b) < format.BlockHeaderSize {
		return nil, 0
	}
	h, err := format.ParseBlockHeader(b)
	sound := err == nil
	if !sound {
		h = looseHeader(b)
	}
	if h.Flags != 0 || h.Raw > format.MaxRaw {
		return nil, h.Records // encrypted, or of a later format
	}
	stored := b[format.BlockHeaderSize:]
	if sound && int(h.Stored) < len(stored) {
		stored = stored[:h.Stored]
	}
	payload := decompressPrefix(h.Codec, stored, int(h.Raw))
	records, times := readPrefix(h, payload)
	if !sound {
		// The records' times are relative to the header's first time. That is only known to be right if all three
		// times of the header match those of all records.
		if uint32(len(records)) != h.Records || times != [3]int64{h.FirstTime, h.FirstEnd, h.LastEnd} {
			return nil, 0
		}
	}
	return records, h.Records
}

// looseHeader reads a block header whose checksum does not match.
func looseHeader(b []byte) format.BlockHeader {
	le := binary.LittleEndian
	return format.BlockHeader{
		Codec: format.Codec(b[6]), Flags: b[7], Stored: le.Uint32(b[8:]), Raw: le.Uint32(b[12:]),
		Records: le.Uint32(b[16:]), Number: le.Uint64(b[24:]), FirstRecord: le.Uint64(b[32:]),
		FirstTime: int64(le.Uint64(b[40:])), FirstEnd: int64(le.Uint64(b[48:])), LastEnd: int64(le.Uint64(b[56:])),
	}
}

// decompressPrefix decompresses the payload as far as possible, to at most limit bytes.
func decompressPrefix(codec format.Codec, stored []byte, limit int) []byte {
	switch codec {
	case format.CodecNone:
		return stored[:min(len(stored), limit)]
	case format.CodecLz4:
		return lz4Prefix(stored, limit)
	}
	return nil
}

// lz4Prefix decompresses an LZ4 block as far as possible; libraries only return an error.
func lz4Prefix(src []byte, limit int) []byte {
	out := make([]byte, 0, min(limit, 16*len(src)))
	length := func(n int) (int, bool) {
		if n < 15 {
			return n, true
		}
		for len(src) > 0 {
			c := src[0]
			src = src[1:]
			n += int(c)
			if c != 255 {
				return n, true
			}
			if n > limit {
				break
			}
		}
		return n, false
	}
	for len(src) > 0 {
		token := src[0]
		src = src[1:]
		n, ok := length(int(token >> 4))
		if !ok {
			return out
		}
		n = min(n, len(src), limit-len(out))
		out = append(out, src[:n]...)
		src = src[n:]
		if len(src) < 2 || len(out) == limit {
			return out
		}
		offset := int(src[0]) | int(src[1])<<8
		src = src[2:]
		n, ok = length(int(token & 15))
		if !ok || offset == 0 || offset > len(out) {
			return out
		}
		for n = min(n+4, limit-len(out)); n > 0; {
			k := min(n, offset)
			out = append(out, out[len(out)-offset:len(out)-offset+k]...)
			n -= k
		}
	}
	return out
}

// readPrefix reads the records of a payload up to the first one that cannot be right, and returns their earliest
// start, earliest end and latest end.
func readPrefix(h format.BlockHeader, payload []byte) (records []unproven, times [3]int64) {
	b, err := write.NewReadableBlock(h, payload)
	if err != nil {
		return nil, times
	}
	var definitions definitions
	var r format.Record
	for uint32(len(records)) < h.Records {
		from := b.Position()
		if err := b.Next(&r); err != nil {
			break
		}
		definitions.read(payload[from:b.Position()])
		if r.Kind == format.KindData {
			continue
		}
		end := r.End()
		if r.Time < h.FirstTime || end < h.FirstEnd || end > h.LastEnd || end < r.Time {
			break
		}
		u, err := copyRecord(&r, &definitions)
		if err != nil {
			break
		}
		if len(records) == 0 {
			times = [3]int64{r.Time, end, end}
		}
		times = [3]int64{min(times[0], r.Time), min(times[1], end), max(times[2], end)}
		records = append(records, u)
	}
	return records, times
}

// definitions are the encoded bodies of a block's definitions.
type definitions struct{ sessions, shapes [][]byte }

// read adds the definitions in a range of items that a reader has read.
func (d *definitions) read(items []byte) {
	for len(items) > 0 {
		n, w := binary.Uvarint(items)
		body := items[w+1 : w+int(n)]
		switch format.Kind(items[w]) {
		case format.KindDefSession:
			for range 2 {
				_, k := binary.Uvarint(body)
				body = body[k:]
			}
			d.sessions = append(d.sessions, body)
		case format.KindDefShape:
			d.shapes = append(d.shapes, body)
		}
		items = items[w+int(n):]
	}
}

var errUnreadable = errors.New("invalid record")

// copyRecord converts a record that was read to one that can be written.
func copyRecord(r *format.Record, d *definitions) (u unproven, err error) {
	u.source.Body = slices.Clone(d.sessions[r.SessionIndex])
	w := &u.record
	*w = write.Record{
		Kind: r.Kind, Seq: r.Seq, Time: r.Time, Duration: write.None, Rows: write.None, Statement: r.Statement,
		Substatement: r.Substatement, Depth: r.Depth, Outcome: r.Outcome, XID: r.XID,
		Nulls: slices.Clone(r.Nulls), Values: slices.Clone(r.Values), HasValues: r.Has(format.FieldValues),
		ExtraCount: r.ExtraCount, Extra: slices.Clone(r.Extra), Audited: r.Audited,
		Ending: r.Ending, EndingFields: r.Fields & (format.FieldEvent | format.FieldStatements | format.FieldCommit),
		Times: r.Times, Parts: r.Parts, HasParts: r.Has(format.FieldParts), HasCut: r.Has(format.FieldCut),
		CutLength: r.TextBytes,
	}
	copy(w.CutHash[:], r.TextHash)
	if r.Has(format.FieldDuration) {
		w.Duration = r.Duration
	}
	if r.Has(format.FieldRows) {
		w.Rows = r.Rows
	}
	if r.Has(format.FieldText) {
		w.Text = append([]byte{}, r.Text...)
	}
	if r.Has(format.FieldError) {
		w.SQLState, w.Message = slices.Clone(r.SQLState), slices.Clone(r.Message)
	}
	if r.ShapeIndex >= 0 {
		w.Shape = slices.Clone(d.shapes[r.ShapeIndex])
	}
	u.source.Seq = max(r.Seq, 1) - 1
	if w.Seq == 0 && w.Kind != format.KindStart || write.Check(&u.source, w) != nil {
		return u, errUnreadable
	}
	return u, nil
}

// mark adds a note to a record that nothing proves it.
func (u *unproven) mark(where string) {
	_, pair := write.EncodePairs("salvaged", where)
	u.record.Extra = append(u.record.Extra, pair...)
	u.record.ExtraCount++
}

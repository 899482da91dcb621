// The messages in a ring, including brief and staged ones.

package ring

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// Message is a message of a ring. A message of kind 0, which fills the end of the ring, has only a length.
type Message struct {
	Kind   format.Kind
	Length uint64

	Record write.Record // kinds 1-63

	// Of a data part.
	Part format.PartKind
	Data []byte

	// Of a data part: the record's sequence number. Of a session message: the session's last sequence number
	// and last finished top-level statement before it, and the body of its definition.
	Seq       uint64
	Statement uint64
	Body      []byte
}

// Sizes of the fixed parts of messages, in bytes.
const (
	messageFixed = 8
	recordFixed  = 96
	briefFixed   = 28
	longBrief    = 60 // of a brief record, before version 7
	numbersFixed = 24
	nestingFixed = 8
	timesFixed   = 32
	commitFixed  = 48
	endingFixed  = 32
	dataFixed    = 24
	chunkFixed   = 8 // the number of a chunk
	sessionFixed = 32
	partsFixed   = 24
	cutFixed     = 40
)

// share is the part of the ring that the longest message can take.
const share = 8

// Flags of record messages.
const (
	flagParts  = 1
	flagCut    = 2
	flagValues = 4
	flagBrief  = 8
	flagChunk  = 16 // of a data part: its bytes are in a chunk
	// Since version 7, of brief records.
	flagXID     = 32 // a transaction ID follows
	flagNumbers = 64 // StenoBriefNumbers follows
	// Since version 7, of other records.
	flagEnding = 128 // StenoEnding follows
	// Since version 8, of brief records.
	flagNested = 256 // StenoBriefNesting follows
	flagTimes  = 512 // StenoTimes are the last bytes
)

// none32 stands for an absent text's length, or an absent number of a brief record.
const none32 = ^uint32(0)

// Message reads the message at a position. seq and statement are the last sequence number and the last finished
// top-level statement before it; numbers of brief records are relative to these. ok is false if there is no
// complete message.
func (r *Ring) Message(position, end, seq, statement uint64) (m Message, ok bool) {
	offset := position % r.size
	left := r.size - offset
	m, ok = r.parse(r.data[offset:offset+min(left, end-position)], seq, statement)
	return m, ok && (m.Kind != 0 || m.Length == left)
}

// Follows returns whether a message can follow a record with that number. A session's records have successive
// numbers; a gap record has the number after the ones that it reports.
func (m *Message) Follows(seq uint64) bool {
	switch {
	case m.Kind == format.KindGap:
		record := format.Record{ExtraCount: m.Record.ExtraCount, Extra: m.Record.Extra}
		number := func(name string) uint64 {
			value, _ := record.ExtraValue(name)
			n, _ := strconv.ParseUint(string(value), 10, 64)
			return n
		}
		g := Gap{Count: number("count"), First: number("first_seq"), Last: number("last_seq")}
		n, ok := g.Numbers()
		return ok && n == g.Count && g.First <= seq+1 && m.Seq == g.Last+1
	case m.Kind == format.KindData, m.Kind.IsRecord():
		return m.Seq == seq+1
	}
	return true
}

// Staged returns the record of the in-flight statement, as known at its start; ok is false if there is none, or
// it is not valid.
func (r *Ring) Staged() (record *write.Record, ok bool) {
	f := &r.InFlight
	offset := f.Position % r.size
	if !f.Staged || r.data == nil || offset%8 != 0 {
		return nil, false
	}
	m, ok := r.parse(r.data[offset:], 0, f.Statement-1)
	if !ok || m.Kind != format.KindStatement || m.Record.Statement != f.Statement || m.Record.Time != f.Time {
		return nil, false
	}
	return &m.Record, true
}

// parse reads the message at the beginning of b.
func (r *Ring) parse(b []byte, seq, statement uint64) (m Message, ok bool) {
	le := binary.LittleEndian
	if len(b) < messageFixed {
		return m, false
	}
	length, kind, flags := uint64(le.Uint32(b)), le.Uint16(b[4:]), le.Uint16(b[6:])
	if length < messageFixed || length > uint64(len(b)) || length > r.size/share || length%8 != 0 || kind > 255 {
		return m, false
	}
	known := uint16(0)
	switch k := format.Kind(kind); {
	// records of servers and seals are in trails only
	case k > 0 && k <= format.KindGap || k == format.KindSubtransaction:
		known = flagParts | flagCut | flagValues
		if r.shortBriefs {
			known |= flagEnding
		}
		if flags&flagBrief != 0 && r.templates != nil {
			known = flagBrief | flagValues
			if r.shortBriefs && k == format.KindTransaction {
				known = flagBrief
			} else if r.shortBriefs {
				known |= flagXID | flagNumbers
				if r.nestedBriefs {
					known |= flagNested
				}
			}
		}
		if r.times && (flags&flagBrief == 0 || k == format.KindStatement) {
			known |= flagTimes
		}
	case k == format.KindData:
		if r.file != nil && r.file.layout.chunks {
			known = flagChunk
		}
	case k == 0, k == format.KindDefSession:
	default:
		return m, false
	}
	if flags&^known != 0 {
		return m, false
	}
	b = b[:length]
	m.Length, m.Kind = length, format.Kind(kind)
	switch {
	case m.Kind == format.KindTransaction && flags&flagBrief != 0 && r.shortBriefs:
		return m, m.parseCommit(b, seq+1)
	case m.Kind.IsRecord() && flags&flagTimes != 0:
		if len(b) < timesFixed {
			return m, false
		}
		if flags&flagBrief != 0 {
			ok = m.parseBrief(b[:len(b)-timesFixed], flags, r.templates, seq+1, statement+1)
		} else {
			ok = m.parseRecord(b[:len(b)-timesFixed], flags, r.longXIDs)
		}
		parseTimes(b[len(b)-timesFixed:], &m.Record.Times)
		return m, ok
	case m.Kind.IsRecord() && flags&flagBrief != 0 && r.shortBriefs:
		return m, m.parseBrief(b, flags, r.templates, seq+1, statement+1)
	case m.Kind.IsRecord() && flags&flagBrief != 0:
		return m, m.parseLongBrief(b, flags, r.templates, r.longXIDs)
	case m.Kind.IsRecord():
		return m, m.parseRecord(b, flags, r.longXIDs)
	case m.Kind == format.KindData:
		if len(b) < dataFixed {
			return m, false
		}
		n := uint64(le.Uint32(b[20:]))
		if part := le.Uint32(b[16:]); part > uint32(format.PartMessage) {
			return m, false
		}
		m.Seq, m.Part = le.Uint64(b[8:]), format.PartKind(b[16])
		if flags&flagChunk != 0 {
			if len(b) < dataFixed+chunkFixed {
				return m, false
			}
			m.Data, ok = r.file.chunk(le.Uint32(b[dataFixed:]), uint32(n))
			return m, ok
		}
		if n > length-dataFixed {
			return m, false
		}
		m.Data = b[dataFixed : dataFixed+n]
	case m.Kind == format.KindDefSession:
		if len(b) < sessionFixed {
			return m, false
		}
		n := uint64(le.Uint32(b[8:]))
		if n < write.SessionFacts || n > sessionMax || n > length-sessionFixed {
			return m, false
		}
		m.Seq, m.Statement, m.Body = le.Uint64(b[16:]), le.Uint64(b[24:]), b[sessionFixed:sessionFixed+n]
		return m, write.CheckBody(m.Body)
	}
	return m, true
}

// parseBrief reads a record whose shape and text are those of a template. Its numbers follow from the given
// ones, unless it has others.
func (m *Message) parseBrief(b []byte, flags uint16, templates []template, seq, statement uint64) bool {
	le := binary.LittleEndian
	if len(b) < briefFixed || m.Kind != format.KindStatement {
		return false
	}
	number, values := int(b[26]), int(b[27])
	rest := (briefFixed + values + 7) &^ 7
	command, control := controls[number]
	if !control && number >= len(templates) || control && flags&flagValues != 0 || rest > len(b) {
		return false
	}
	short := func(b []byte) uint64 {
		if n := le.Uint32(b); n != none32 {
			return uint64(n)
		}
		return write.None
	}
	m.Record = write.Record{
		Kind: m.Kind, Seq: seq, Time: int64(le.Uint64(b[8:])), Duration: short(b[16:]), Rows: short(b[20:]),
		Statement: statement,
	}
	m.Seq = seq
	if flags&flagXID != 0 {
		if len(b) < rest+8 {
			return false
		}
		m.Record.XID = le.Uint64(b[rest:])
		rest += 8
	}
	if flags&flagNumbers != 0 {
		if len(b) < rest+numbersFixed {
			return false
		}
		m.Record.Statement, m.Record.Duration, m.Record.Rows = le.Uint64(b[rest:]), le.Uint64(b[rest+8:]),
			le.Uint64(b[rest+16:])
		rest += numbersFixed
	}
	nulls := uint64(0)
	if flags&flagNested != 0 {
		if len(b) < rest+nestingFixed {
			return false
		}
		m.Record.Substatement, m.Record.Depth = uint64(le.Uint32(b[rest:])), uint64(le.Uint16(b[rest+4:]))
		if nulls = uint64(le.Uint16(b[rest+6:])); nulls > uint64(values) {
			return false
		}
	}
	if control {
		m.Record.Shape = slices.Concat([]byte{byte(format.ClassTransaction), 0, byte(len(command))},
			[]byte(command), []byte{0, 0})
		m.Record.Text = b[briefFixed : briefFixed+values]
	} else {
		return m.expand(&templates[number], le.Uint16(b[24:]), flags, nulls, b[briefFixed:briefFixed+values])
	}
	return true
}

// controls are the numbers of templates that stand for a command tag: the values are the text.
var controls = map[int]string{254: "BEGIN", 255: "COMMIT"}

// parseCommit reads the brief record of a commit.
func (m *Message) parseCommit(b []byte, seq uint64) bool {
	le := binary.LittleEndian
	if len(b) < commitFixed {
		return false
	}
	lsn := le.Uint64(b[24:])
	m.Seq = seq
	m.Record = write.Record{
		Kind: m.Kind, Seq: seq, Time: int64(le.Uint64(b[8:])), Duration: uint64(le.Uint32(b[40:])), Rows: write.None,
		XID:          le.Uint64(b[16:]),
		Shape:        []byte{byte(format.ClassTransaction), 0, 0, 0, 0},
		EndingFields: format.FieldEvent | format.FieldStatements,
		Ending: format.Ending{
			Event: format.EventCommit, Statements: uint64(le.Uint32(b[44:])), LSN: lsn,
			End: lsn + uint64(le.Uint32(b[32:])), Timeline: uint64(le.Uint32(b[36:])),
		},
	}
	if lsn != 0 {
		m.Record.EndingFields |= format.FieldCommit
	}
	return true
}

// parseEnding reads StenoEnding.
func parseEnding(b []byte, r *write.Record) {
	le := binary.LittleEndian
	r.Ending = format.Ending{
		LSN: le.Uint64(b), End: le.Uint64(b[8:]), Statements: le.Uint64(b[16:]), Timeline: uint64(le.Uint32(b[24:])),
		Event: format.Event(b[28]),
	}
	if r.Ending.Event != 0 {
		r.EndingFields |= format.FieldEvent
	}
	if r.Ending.Statements != write.None {
		r.EndingFields |= format.FieldStatements
	}
	if r.Ending.LSN != 0 {
		r.EndingFields |= format.FieldCommit
	}
}

// parseTimes reads StenoTimes.
func parseTimes(b []byte, t *format.Times) {
	le := binary.LittleEndian
	*t = format.Times{
		Analysis: le.Uint64(b),
		Plan:     le.Uint64(b[8:]),
		Commit:   le.Uint64(b[16:]),
		Elapsed:  le.Uint64(b[24:]),
	}
	for i, is := range [...]bool{t.Analysis != 0, t.Plan != 0, t.Commit != 0, t.Elapsed != write.None} {
		if is {
			t.Known |= 1 << i
		}
	}
}

// expand adds to a brief record what its template has, if the template was not changed since; ok is false if
// the bitmap of NULLs is longer than the values.
func (m *Message) expand(t *template, version, flags uint16, nulls uint64, values []byte) (ok bool) {
	if t.version != version || t.shape == nil {
		return true
	}
	text := t.text
	if t.varies {
		if len(values) == 0 || int(values[0]) >= len(values) {
			return true
		}
		own := values[1 : 1+values[0]]
		text = slices.Concat(t.text[:t.before], own, t.text[t.before:])
		values = values[1+len(own):]
	}
	if nulls > uint64(len(values)) {
		return false
	}
	m.Record.Shape, m.Record.Text = t.shape, text
	m.Record.HasValues, m.Record.Nulls, m.Record.Values = flags&flagValues != 0, values[:nulls], values[nulls:]
	return true
}

// parseLongBrief reads a brief record of an earlier version, which has all of its numbers.
func (m *Message) parseLongBrief(b []byte, flags uint16, templates []template, longXIDs bool) bool {
	le := binary.LittleEndian
	if len(b) < longBrief || m.Kind != format.KindStatement {
		return false
	}
	number, values := int(b[50]), int(b[51])
	if number >= len(templates) || values > len(b)-longBrief {
		return false
	}
	m.Record = write.Record{
		Kind: m.Kind, Seq: le.Uint64(b[8:]), Time: int64(le.Uint64(b[16:])), Duration: le.Uint64(b[24:]),
		Rows:      le.Uint64(b[32:]),
		Statement: le.Uint64(b[40:]), XID: uint64(le.Uint32(b[56:])),
	}
	if longXIDs {
		m.Record.XID |= uint64(le.Uint32(b[52:])) << 32
	}
	m.Seq = m.Record.Seq
	return m.expand(&templates[number], le.Uint16(b[48:]), flags, 0, b[longBrief:longBrief+values])
}

func (m *Message) parseRecord(b []byte, flags uint16, longXIDs bool) bool {
	le := binary.LittleEndian
	if len(b) < recordFixed {
		return false
	}
	r := &m.Record
	*r = write.Record{
		Kind: m.Kind, Seq: le.Uint64(b[8:]), Time: int64(le.Uint64(b[16:])), Duration: le.Uint64(b[24:]),
		Rows:      le.Uint64(b[32:]),
		Statement: le.Uint64(b[40:]), Substatement: uint64(le.Uint32(b[48:])), Depth: uint64(le.Uint16(b[52:])),
		Outcome: format.Outcome(b[54]), ExtraCount: int(b[55]), XID: uint64(le.Uint32(b[56:])),
		Audited:  format.Audited(b[92]),
		HasParts: flags&flagParts != 0, HasCut: flags&flagCut != 0, HasValues: flags&flagValues != 0,
	}
	if longXIDs {
		r.Audited = format.Audited(b[66])
		r.XID |= uint64(le.Uint32(b[92:])) << 32
	}
	m.Seq = r.Seq
	if b[60] != 0 {
		r.SQLState = b[60:65]
	}
	rest := b[recordFixed:]
	ok := true
	take := func(n uint32) []byte {
		if uint64(n) > uint64(len(rest)) {
			ok = false
			return nil
		}
		taken := rest[:n:n]
		rest = rest[n:]
		return taken
	}
	if r.HasParts {
		if p := take(partsFixed); ok {
			r.Parts = [3]uint64{le.Uint64(p), le.Uint64(p[8:]), le.Uint64(p[16:])}
		}
	}
	if r.HasCut {
		if p := take(cutFixed); ok {
			r.CutLength = le.Uint64(p)
			copy(r.CutHash[:], p[8:])
		}
	}
	if flags&flagEnding != 0 {
		if p := take(endingFixed); ok {
			parseEnding(p, r)
		}
	}
	r.Shape = take(le.Uint32(b[68:]))
	if n := le.Uint32(b[72:]); n != none32 {
		r.Text = take(n)
	}
	r.Nulls = take(le.Uint32(b[76:]))
	r.Values = take(le.Uint32(b[80:]))
	r.Message = take(le.Uint32(b[84:]))
	r.Extra = take(le.Uint32(b[88:]))
	return ok
}

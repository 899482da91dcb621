// Package ringtest makes ring files for tests. It shares nothing with the reader: it puts fields where the tables of
// format/RING.md say, and messages as described there.
package ringtest

import (
	"encoding/binary"
	"os"
	"testing"
)

// File is a ring file to make.
type File struct {
	Version    uint32 // 0: 2
	Size       uint32 // of each ring; 0: 16 kB
	Writers    uint32 // 0: 1
	Postmaster uint32
	SystemID   uint64
	Created    int64
	Rings      []Ring
	Chunks     []string       // their first bytes
	Intents    map[int]Intent // by writer
}

// Intent is the block that a writer was about to write.
type Intent struct {
	Valid, Stream          uint32
	Segment, Offset, Block uint64
	Hash                   [32]byte
}

// Ring is one ring. Its messages begin at Tail.
type Ring struct {
	Tail, Pending                                        uint64
	Messages                                             [][]byte
	Head                                                 uint64 // 0: after the messages
	Session                                              []byte
	Seq, Statement                                       uint64
	Owner                                                uint32
	GapReason                                            uint32
	Gap, GapFirst, GapLast                               uint64
	GapStart                                             int64
	GapPID                                               uint32
	Own, OwnFirst, OwnLast                               uint64
	OwnerStart                                           int64
	OrphanDrops, OrphanDropsRecorded, OrphanDropsPending uint64
	OrphanDropsReason                                    uint32
	OrphanDropsNext                                      uint64
	Drops                                                uint64 // 0: the same as OrphanDrops
	Active, Staged                                       bool
	Done, Running                                        uint64 // of the in-flight entry
	Time                                                 int64
	TextLength                                           uint32 // 0: length of Text
	Text                                                 string
	Unpublished                                          []byte // a message after the head
	DamageAt, DamageWith                                 int    // a byte of the data to change
	SessionLength, KeptBytes                             uint32 // 0: the actual ones
	Templates                                            map[int]Template
}

// Template is a template for brief records.
type Template struct {
	Version     uint16
	Shape, Text string
	ShapeLength uint16 // 0: the actual length
	OwnAt       uint16 // since version 9: 1 plus the position of each record's own part of the text; 0: none
}

func at(b []byte, offset int, v any) {
	switch v := v.(type) {
	case uint32:
		binary.LittleEndian.PutUint32(b[offset:], v)
	case uint64:
		binary.LittleEndian.PutUint64(b[offset:], v)
	case int64:
		binary.LittleEndian.PutUint64(b[offset:], uint64(v))
	case bool:
		if v {
			b[offset] = 1
		}
	}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Bytes returns the bytes of the file.
func (f *File) Bytes() []byte {
	version := or(f.Version, 2)
	layout := layoutOf(version)
	size := or(f.Size, 16<<10)
	const rings = 8192
	templates := rings + 4096*len(f.Rings)
	data := templates
	number := 6
	if version >= 8 {
		number = 10
	}
	if version >= 9 {
		number = 16
	}
	bytes := layout["StenoTemplate"]["bytes"]
	template := bytes[0] + bytes[1]
	if version >= 4 {
		data = (templates + number*template*len(f.Rings) + 4095) &^ 4095
	}
	total := data + int(size)*len(f.Rings)
	chunks := ((total+4095)&^4095 + 8*len(f.Chunks) + 4095) &^ 4095
	if version >= 6 {
		total = chunks + 65536*len(f.Chunks)
	}
	b := make([]byte, total)
	put := func(name string, v any) { layout.put(b, "StenoRingFile", name, v) }
	put("magic", "STENRING")
	put("version", version)
	put("nrings", uint32(len(f.Rings)))
	put("size", size)
	put("nwriters", or(f.Writers, 1))
	put("ring_stride", uint32(4096))
	put("postmaster", f.Postmaster)
	put("system_identifier", f.SystemID)
	put("created", f.Created)
	put("rings_offset", rings)
	put("data_offset", data)
	put("total", len(b))
	put("templates_offset", templates)
	put("chunks_offset", chunks)
	put("chunks", uint32(len(f.Chunks)))
	put("chunk_size", uint32(65536))
	if version >= 4 {
		for i, r := range f.Rings {
			for n, t := range r.Templates {
				t.put(b[templates+template*(number*i+n):][:template], layout)
			}
		}
	}
	if version >= 6 {
		for i, bytes := range f.Chunks {
			copy(b[chunks+65536*i:chunks+65536*(i+1)], bytes)
		}
	}
	for i, in := range f.Intents {
		p := layout.of(b, "StenoRingFile", "intents")[Documented().Sizes["StenoIntent"]*i:]
		put := func(name string, v any) { layout.put(p, "StenoIntent", name, v) }
		put("valid", in.Valid)
		put("stream", in.Stream)
		put("segment", in.Segment)
		put("offset", in.Offset)
		put("block", in.Block)
		put("hash", in.Hash[:])
	}
	for i := range f.Rings {
		f.Rings[i].put(b[rings+4096*i:][:4096], b[data+int(size)*i:][:size], layout)
	}
	return b
}

func (t *Template) put(b []byte, layout structures) {
	put := func(name string, v any) { layout.put(b, "StenoTemplate", name, v) }
	put("version", t.Version)
	put("shape_len", or(t.ShapeLength, uint16(len(t.Shape))))
	put("text_len", uint16(len(t.Text)))
	put("own_at", t.OwnAt)
	put("bytes", t.Shape+t.Text)
}

func (r *Ring) put(b, data []byte, layout structures) {
	position := r.Tail
	place := func(m []byte) uint64 {
		offset := position % uint64(len(data))
		if left := uint64(len(data)) - offset; uint64(len(m)) > left {
			at(data[offset:], 0, uint32(left)) // filler
			position += left
			offset = 0
		}
		copy(data[offset:], m)
		from := position
		position += uint64(len(m))
		return from
	}
	for _, m := range r.Messages {
		place(m)
	}
	put := func(name string, v any) { layout.put(b, "StenoRing", name, v) }
	entry := func(name string, v any) {
		layout.put(layout.of(b, "StenoRing", "inflight"), "StenoInFlight", name, v)
	}
	put("head", or(r.Head, position))
	if r.Unpublished != nil {
		entry("position", place(r.Unpublished))
	}
	put("drops", or(r.Drops, r.OrphanDrops))
	put("gap_reason", r.GapReason)
	put("gap", r.Gap)
	put("gap_first", r.GapFirst)
	put("gap_last", r.GapLast)
	put("gap_start", r.GapStart)
	put("gap_pid", r.GapPID)
	put("own_gap", r.Own)
	put("own_first", r.OwnFirst)
	put("own_last", r.OwnLast)
	put("owner_start", r.OwnerStart)
	put("tail", r.Tail)
	put("pending", r.Pending)
	put("durable", r.Tail)
	put("session_len", or(r.SessionLength, uint32(len(r.Session))))
	put("session_seq", r.Seq)
	put("session_statement", r.Statement)
	put("orphan_drops_recorded", r.OrphanDropsRecorded)
	put("orphan_drops_pending", r.OrphanDropsPending)
	put("owner", r.Owner)
	put("orphan_drops", r.OrphanDrops)
	put("orphan_drops_next", r.OrphanDropsNext)
	put("orphan_drops_reason", r.OrphanDropsReason)
	put("session", r.Session)
	entry("active", r.Active)
	entry("done", r.Done)
	entry("statement", r.Running)
	entry("time", r.Time)
	entry("text_len", or(r.TextLength, uint32(len(r.Text))))
	entry("text_kept", or(r.KeptBytes, uint32(min(len(r.Text), 232))))
	entry("staged", r.Staged)
	entry("text", r.Text)
	if r.DamageWith != 0 {
		data[r.DamageAt] ^= byte(r.DamageWith)
	}
}

// Write writes the file and returns its path.
func (f *File) Write(t testing.TB, path string) string {
	t.Helper()
	if err := os.WriteFile(path, f.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func message(kind, flags uint16, body []byte) []byte {
	m := make([]byte, (8+len(body)+7)&^7)
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	binary.LittleEndian.PutUint16(m[4:], kind)
	binary.LittleEndian.PutUint16(m[6:], flags)
	copy(m[8:], body)
	return m
}

// Session returns a session message.
func Session(body []byte, seq, statement uint64) []byte {
	b := make([]byte, 24+len(body))
	at(b, 0, uint32(len(body)))
	at(b, 8, seq)
	at(b, 16, statement)
	copy(b[24:], body)
	return message(128, 0, b)
}

// Data returns a data part.
func Data(seq uint64, part uint32, bytes string) []byte {
	b := make([]byte, 16+len(bytes))
	at(b, 0, seq)
	at(b, 8, part)
	at(b, 12, uint32(len(bytes)))
	copy(b[16:], bytes)
	return message(64, 0, b)
}

// InChunk returns a data part whose bytes are in a chunk.
func InChunk(seq uint64, part, length, chunk uint32) []byte {
	b := make([]byte, 24)
	at(b, 0, seq)
	at(b, 8, part)
	at(b, 12, length)
	at(b, 16, chunk)
	return message(64, 16, b)
}

// ShortBrief is a brief record, since version 7.
type ShortBrief struct {
	Time           int64
	Duration, Rows uint32
	Version        uint16
	Template       byte
	Values         string
	NoValues       bool     // the values are a text
	XID            uint64   // 0: none
	Numbers        []uint64 // three: statement, duration, rows
	Depth          uint16   // not 0: since version 8
	Substatement   uint32
	Nulls          uint16 // how many of the first values say which are NULL
}

// Bytes returns the bytes of the message.
func (r *ShortBrief) Bytes() []byte {
	b := make([]byte, 20)
	at(b, 0, r.Time)
	at(b, 8, r.Duration)
	at(b, 12, r.Rows)
	binary.LittleEndian.PutUint16(b[16:], r.Version)
	b[18], b[19] = r.Template, byte(len(r.Values))
	b = append(b, r.Values...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	flags := uint16(8 | 4)
	if r.NoValues {
		flags = 8
	}
	if r.XID != 0 {
		flags |= 32
		b = binary.LittleEndian.AppendUint64(b, r.XID)
	}
	for _, n := range r.Numbers {
		flags |= 64
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if r.Depth != 0 {
		flags |= 256
		b = binary.LittleEndian.AppendUint32(b, r.Substatement)
		b = binary.LittleEndian.AppendUint16(b, r.Depth)
		b = binary.LittleEndian.AppendUint16(b, r.Nulls)
	}
	return message(1, flags, b)
}

// Commit is the brief record of a commit, since version 7.
type Commit struct {
	Time                                      int64
	XID, LSN                                  uint64
	LSNLength, Timeline, Duration, Statements uint32
}

// Bytes returns the bytes of the message.
func (r *Commit) Bytes() []byte {
	b := make([]byte, 40)
	at(b, 0, r.Time)
	at(b, 8, r.XID)
	at(b, 16, r.LSN)
	at(b, 24, r.LSNLength)
	at(b, 28, r.Timeline)
	at(b, 32, r.Duration)
	at(b, 36, r.Statements)
	return message(6, 8, b)
}

// Brief is a brief record of versions 4 to 6.
type Brief struct {
	Seq            uint64
	Time           int64
	Duration, Rows uint64
	Statement      uint64
	XID, XIDEpoch  uint32
	Version        uint16
	Template       byte
	Values         string
}

// Bytes returns the bytes of the message.
func (r *Brief) Bytes() []byte {
	b := make([]byte, 52)
	at(b, 0, r.Seq)
	at(b, 8, r.Time)
	at(b, 16, r.Duration)
	at(b, 24, r.Rows)
	at(b, 32, r.Statement)
	binary.LittleEndian.PutUint16(b[40:], r.Version)
	b[42], b[43] = r.Template, byte(len(r.Values))
	at(b, 44, r.XIDEpoch)
	at(b, 48, r.XID)
	return message(1, 8|4, append(b, r.Values...))
}

// Record is a record message.
type Record struct {
	Kind                                       uint16
	Seq                                        uint64
	Time                                       int64
	Duration, Rows                             uint64 // 0: none
	Statement                                  uint64
	Substatement, XID                          uint32
	XIDEpoch                                   uint32 // not 0: version 6
	Depth                                      uint16
	Outcome, ExtraCount, Audited               byte
	SQLState                                   string
	Shape, Text, Nulls, Values, Message, Extra string
	NoText, HasValues                          bool
	Parts                                      []uint64 // three
	CutLength                                  uint64
	Ending                                     []byte // StenoEnding
	ShapeLength, TextLength                    uint32 // 0: the actual ones
}

// Bytes returns the bytes of the message.
func (r *Record) Bytes() []byte {
	b := make([]byte, 88)
	at(b, 0, r.Seq)
	at(b, 8, r.Time)
	at(b, 16, or(r.Duration, ^uint64(0)))
	at(b, 24, or(r.Rows, ^uint64(0)))
	at(b, 32, r.Statement)
	at(b, 40, r.Substatement)
	binary.LittleEndian.PutUint16(b[44:], r.Depth)
	b[46], b[47] = r.Outcome, r.ExtraCount
	at(b, 48, r.XID)
	copy(b[52:60], r.SQLState)
	text := uint32(len(r.Text))
	if r.NoText {
		text = ^uint32(0)
	}
	for i, n := range []uint32{or(r.ShapeLength, uint32(len(r.Shape))), or(r.TextLength, text), uint32(len(r.Nulls)),
		uint32(len(r.Values)), uint32(len(r.Message)), uint32(len(r.Extra))} {
		at(b, 60+4*i, n)
	}
	if r.XIDEpoch == 0 {
		at(b, 84, uint32(r.Audited))
	} else {
		b[58] = r.Audited
		at(b, 84, r.XIDEpoch)
	}
	var flags uint16
	for _, n := range r.Parts {
		flags |= 1
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if r.CutLength > 0 {
		flags |= 2
		b = append(binary.LittleEndian.AppendUint64(b, r.CutLength), make([]byte, 32)...)
	}
	if r.Ending != nil {
		flags |= 128
		b = append(b, r.Ending...)
	}
	if r.HasValues || r.Values != "" {
		flags |= 4
	}
	for _, s := range []string{r.Shape, r.Text, r.Nulls, r.Values, r.Message, r.Extra} {
		b = append(b, s...)
	}
	return message(r.Kind, flags, b)
}

// Package ringtest makes ring files for tests, from format/RING.md as well as the
// reader, and sharing nothing with it.
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
	size := or(f.Size, 16<<10)
	const rings = 8192
	templates := rings + 4096*len(f.Rings)
	data := templates
	template, number := 320, 6
	if f.Version >= 5 {
		template = 1024
	}
	if f.Version >= 8 {
		number = 10
	}
	if f.Version >= 9 {
		number = 16
	}
	if f.Version >= 4 {
		data = (templates + number*template*len(f.Rings) + 4095) &^ 4095
	}
	total := data + int(size)*len(f.Rings)
	chunks := ((total+4095)&^4095 + 8*len(f.Chunks) + 4095) &^ 4095
	if f.Version >= 6 {
		total = chunks + 65536*len(f.Chunks)
	}
	b := make([]byte, total)
	copy(b, "STENRING")
	at(b, 8, or(f.Version, 2))
	at(b, 12, uint32(len(f.Rings)))
	at(b, 16, size)
	at(b, 20, or(f.Writers, 1))
	at(b, 24, uint32(4096))
	at(b, 28, f.Postmaster)
	at(b, 32, f.SystemID)
	at(b, 40, f.Created)
	at(b, 48, uint64(rings))
	at(b, 56, uint64(data))
	at(b, 64, uint64(len(b)))
	if f.Version >= 4 {
		at(b, 72, uint64(templates))
		for i, r := range f.Rings {
			for n, t := range r.Templates {
				t.put(b[templates+template*(number*i+n):][:template])
			}
		}
	}
	if f.Version >= 6 {
		at(b, 80, uint64(chunks))
		at(b, 88, uint32(len(f.Chunks)))
		at(b, 92, uint32(65536))
		for i, bytes := range f.Chunks {
			copy(b[chunks+65536*i:chunks+65536*(i+1)], bytes)
		}
	}
	for i, in := range f.Intents {
		p := b[128+64*i:]
		at(p, 0, in.Valid)
		at(p, 4, in.Stream)
		at(p, 8, in.Segment)
		at(p, 16, in.Offset)
		at(p, 24, in.Block)
		copy(p[32:64], in.Hash[:])
	}
	for i := range f.Rings {
		f.Rings[i].put(b[rings+4096*i:][:4096], b[data+int(size)*i:][:size], or(f.Version, 2))
	}
	return b
}

func (t *Template) put(b []byte) {
	binary.LittleEndian.PutUint16(b, t.Version)
	binary.LittleEndian.PutUint16(b[2:], or(t.ShapeLength, uint16(len(t.Shape))))
	binary.LittleEndian.PutUint16(b[4:], uint16(len(t.Text)))
	binary.LittleEndian.PutUint16(b[6:], t.OwnAt)
	copy(b[16:], t.Shape+t.Text)
}

func (r *Ring) put(b, data []byte, version uint32) {
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
	at(b, 0, or(r.Head, position))
	if r.Unpublished != nil {
		at(b, 256+48, place(r.Unpublished))
	}
	at(b, 48, r.Gap)
	at(b, 56, r.GapFirst)
	at(b, 64, r.GapLast)
	at(b, 128, r.Tail)
	at(b, 136, r.Pending)
	session := 144
	if version >= 3 {
		at(b, 144, r.Tail)
		at(b, 44, r.GapReason)
		at(b, 72, r.GapStart)
		at(b, 80, r.GapPID)
		at(b, 88, r.Own)
		at(b, 96, r.OwnFirst)
		at(b, 104, r.OwnLast)
		at(b, 112, r.OwnerStart)
		at(b, 176, r.OrphanDropsRecorded)
		at(b, 184, r.OrphanDropsPending)
		at(b, 200, r.OrphanDrops)
		at(b, 24, or(r.Drops, r.OrphanDrops))
		at(b, 216, r.OrphanDropsReason)
		at(b, 208, r.OrphanDropsNext)
		session = 152
	}
	at(b, session, or(r.SessionLength, uint32(len(r.Session))))
	at(b, session+8, r.Seq)
	at(b, session+16, r.Statement)
	at(b, 192, r.Owner)
	entry := b[256:552]
	at(entry, 4, r.Active)
	at(entry, 8, r.Done)
	at(entry, 16, r.Running)
	at(entry, 24, r.Time)
	at(entry, 32, or(r.TextLength, uint32(len(r.Text))))
	at(entry, 36, or(r.KeptBytes, uint32(min(len(r.Text), 232))))
	at(entry, 40, r.Staged)
	copy(entry[64:296], r.Text)
	copy(b[576:1576], r.Session)
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

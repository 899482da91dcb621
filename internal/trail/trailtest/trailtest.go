// Package trailtest writes trails for tests: a small encoder of the format that
// shares nothing with the decoder but the generated numbers.
package trailtest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/pierrec/lz4/v4"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Epoch is 2026-11-21 20:45:13 UTC in the trail's microseconds: a moment for
// tests to start from.
const Epoch int64 = 848609113 * 1e6

// Session is a session and its context. A changed context is another Session
// with the same Start and PID, made by With.
type Session struct {
	Start int64
	PID   uint32
	Facts []Fact
	state *state
}

// Fact is one fact of a session.
type Fact struct {
	Key   format.Key
	Value string
}

// state is what the expected numbers come from.
type state struct{ seq, statement uint64 }

// NewSession returns a session with facts in pairs of key and value.
func NewSession(start int64, pid uint32, facts ...Fact) *Session {
	return &Session{start, pid, facts, &state{}}
}

// With returns the same session with further facts.
func (s *Session) With(facts ...Fact) *Session {
	return &Session{s.Start, s.PID, append(append([]Fact(nil), s.Facts...), facts...), s.state}
}

// Shape is a shape definition.
type Shape struct {
	Class     format.Class
	QueryID   uint64
	Command   string
	Relations []Relation
	Params    []format.ParamType
	Objects   []Object
	Query     string
	Prepared  string
}

// Object is an object of a shape.
type Object struct {
	Action         format.Action
	Type, Name, To string
}

// Relation is a relation of a shape.
type Relation struct {
	Type   format.RelationType
	Access format.Access
	Name   string

	// Columns, if any relation has some, are written for all of them.
	Columns []Column
	Via     int // index of the view, plus 1
}

// Column is a column of a relation.
type Column struct {
	Access format.Access
	Name   string
}

// Record is a record to write. Seq 0 is the session's next; Statement 0 too.
type Record struct {
	Kind         format.Kind
	Session      *Session
	Fields       format.Field // which of the fields below are there, beside those that follow from them
	Seq          uint64
	Unnumbered   bool // sequence number 0
	Statement    uint64
	Depth        uint64
	Substatement uint64
	Shape        *Shape
	Text         string
	Rows         uint64
	Time         int64
	Duration     uint64
	Nulls        []byte
	Values       []byte
	Outcome      format.Outcome
	SQLState     string
	Message      string
	XID          uint64
	TextBytes    uint64
	TextHash     [32]byte
	Parts        [3]uint64
	Extra        []string // name, value, name, value ...
	Audited      format.Audited
	Unknown      []byte // bytes of a field that readers do not know
}

// Builder makes the payload of one block.
type Builder struct {
	Payload   []byte
	Records   uint32
	FirstTime int64
	FirstEnd  int64
	LastEnd   int64

	// Cipher encrypts the payload, when there is one.
	Cipher cipher.AEAD

	lastTime int64
	// The first record's item stands at payload[at:end]; its time is written
	// by Finish, when the block's first time is known.
	at, end  int
	kind     format.Kind
	pre      []byte
	post     []byte
	time     int64
	sessions map[*Session]int
	defined  []state
	shapes   map[string]int
	texts    map[string]int
	item     []byte
}

// NewBuilder returns a builder of a block that is begun at a time.
func NewBuilder(now int64) *Builder {
	return &Builder{
		FirstTime: now, FirstEnd: now, LastEnd: now,
		sessions: map[*Session]int{}, shapes: map[string]int{}, texts: map[string]int{},
	}
}

func str[S string | []byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Item appends an item of any kind.
func (b *Builder) Item(kind format.Kind, body []byte) {
	b.Payload = binary.AppendUvarint(b.Payload, uint64(len(body)+1))
	b.Payload = append(b.Payload, byte(kind))
	b.Payload = append(b.Payload, body...)
}

func (b *Builder) session(s *Session) int {
	if i, ok := b.sessions[s]; ok && b.defined[i] == *s.state {
		return i
	}
	body := binary.AppendUvarint(nil, s.state.seq)
	body = binary.AppendUvarint(body, s.state.statement)
	body = binary.LittleEndian.AppendUint64(body, uint64(s.Start))
	body = binary.LittleEndian.AppendUint32(body, s.PID)
	for _, f := range s.Facts {
		body = str(append(body, byte(f.Key)), f.Value)
	}
	b.Item(format.KindDefSession, body)
	b.sessions[s] = len(b.defined)
	b.defined = append(b.defined, *s.state)
	return len(b.defined) - 1
}

func (b *Builder) shape(s *Shape) int {
	body := binary.AppendUvarint(nil, uint64(s.Class))
	body = binary.AppendUvarint(body, s.QueryID)
	body = str(body, s.Command)
	body = binary.AppendUvarint(body, uint64(len(s.Relations)))
	for _, r := range s.Relations {
		body = append(body, byte(r.Type))
		body = binary.AppendUvarint(body, uint64(r.Access))
		body = str(body, r.Name)
	}
	body = binary.AppendUvarint(body, uint64(len(s.Params)))
	for _, p := range s.Params {
		body = append(binary.AppendUvarint(body, p.OID), byte(p.Repr))
	}
	columns := slices.ContainsFunc(s.Relations, func(r Relation) bool { return r.Columns != nil })
	if s.Objects != nil || columns || s.Query != "" || s.Prepared != "" {
		body = binary.AppendUvarint(body, uint64(len(s.Objects)))
		for _, o := range s.Objects {
			body = str(str(str(append(body, byte(o.Action)), o.Type), o.Name), o.To)
		}
	}
	if columns {
		var list []byte
		for _, r := range s.Relations {
			list = binary.AppendUvarint(list, uint64(r.Via))
			list = binary.AppendUvarint(list, uint64(len(r.Columns)))
			for _, c := range r.Columns {
				list = str(binary.AppendUvarint(list, uint64(c.Access)), c.Name)
			}
		}
		body = str(binary.AppendUvarint(body, uint64(format.ListColumns)), list)
	}
	if s.Query != "" {
		body = str(append(body, byte(format.ListQuery)), s.Query)
	}
	if s.Prepared != "" {
		body = str(append(body, byte(format.ListPrepared)), s.Prepared)
	}
	if i, ok := b.shapes[string(body)]; ok {
		return i
	}
	b.shapes[string(body)] = len(b.shapes)
	b.Item(format.KindDefShape, body)
	return len(b.shapes) - 1
}

func (b *Builder) text(s string) int {
	if i, ok := b.texts[s]; ok {
		return i
	}
	b.texts[s] = len(b.texts)
	b.Item(format.KindDefText, []byte(s))
	return len(b.texts) - 1
}

// Data adds a data part of the record with that sequence number.
func (b *Builder) Data(s *Session, seq uint64, part format.PartKind, data string) {
	body := binary.AppendUvarint(nil, uint64(b.session(s)))
	body = binary.AppendUvarint(body, seq)
	b.Item(format.KindData, append(append(body, byte(part)), data...))
}

// Add adds a record. The builder fills in Seq and Statement when they are 0.
func (b *Builder) Add(r *Record) {
	s := r.Session
	index := b.session(s)
	f := r.Fields
	if r.Seq == 0 && !r.Unnumbered {
		r.Seq = s.state.seq + 1
	}
	counted := r.Kind == format.KindStatement || r.Kind == format.KindStart
	if r.Statement == 0 && counted {
		r.Statement = s.state.statement + 1
	}
	set := func(bit format.Field, on bool) {
		if on {
			f |= bit
		}
	}
	set(format.FieldShape, r.Shape != nil)
	set(format.FieldText, r.Text != "")
	set(format.FieldRows, r.Rows != 0)
	set(format.FieldTime, b.Records == 0 || r.Time != b.lastTime)
	set(format.FieldDuration, r.Duration != 0)
	set(format.FieldNulls, r.Nulls != nil)
	set(format.FieldValues, r.Values != nil)
	set(format.FieldSeq, r.Seq != s.state.seq+1)
	set(format.FieldStatement, counted && r.Statement != s.state.statement+1)
	set(format.FieldNesting, r.Depth != 0 || r.Substatement != 0)
	set(format.FieldOutcome, r.Outcome != format.OutcomeOk)
	set(format.FieldError, r.SQLState != "")
	set(format.FieldXID, r.XID != 0)
	set(format.FieldCut, r.TextBytes != 0)
	set(format.FieldParts, r.Parts != [3]uint64{})
	set(format.FieldExtra, r.Extra != nil)
	set(format.FieldAudited, r.Audited != 0)
	var shape, text int
	if f&format.FieldShape != 0 {
		shape = b.shape(r.Shape)
	}
	if f&format.FieldText != 0 {
		text = b.text(r.Text)
	}
	item := binary.AppendUvarint(b.item[:0], uint64(index))
	item = binary.AppendUvarint(item, uint64(f))
	put := func(bit format.Field, write func()) {
		if f&bit != 0 {
			write()
		}
	}
	varint := func(bit format.Field, v uint64) {
		if f&bit != 0 {
			item = binary.AppendUvarint(item, v)
		}
	}
	zigzag := func(bit format.Field, v int64) {
		if f&bit != 0 {
			item = binary.AppendVarint(item, v)
		}
	}
	varint(format.FieldShape, uint64(shape))
	varint(format.FieldText, uint64(text))
	varint(format.FieldRows, r.Rows)
	pre := len(item)
	zigzag(format.FieldTime, r.Time-b.lastTime)
	post := len(item)
	varint(format.FieldDuration, r.Duration)
	put(format.FieldNulls, func() { item = append(item, r.Nulls...) })
	put(format.FieldValues, func() { item = str(item, r.Values) })
	zigzag(format.FieldSeq, int64(r.Seq-s.state.seq-1))
	zigzag(format.FieldStatement, int64(r.Statement-s.state.statement-1))
	put(format.FieldNesting, func() {
		item = binary.AppendUvarint(binary.AppendUvarint(item, r.Depth), r.Substatement)
	})
	put(format.FieldOutcome, func() { item = append(item, byte(r.Outcome)) })
	put(format.FieldError, func() { item = str(append(item, r.SQLState...), r.Message) })
	varint(format.FieldXID, r.XID)
	put(format.FieldCut, func() { item = append(binary.AppendUvarint(item, r.TextBytes), r.TextHash[:]...) })
	put(format.FieldParts, func() {
		for _, n := range r.Parts {
			item = binary.AppendUvarint(item, n)
		}
	})
	put(format.FieldExtra, func() {
		item = binary.AppendUvarint(item, uint64(len(r.Extra)/2))
		for _, e := range r.Extra {
			item = str(item, e)
		}
	})
	put(format.FieldAudited, func() { item = append(item, byte(r.Audited)) })
	item = append(item, r.Unknown...)
	b.item = item
	if b.Records == 0 {
		b.at, b.kind, b.time = len(b.Payload), r.Kind, r.Time
		b.pre, b.post = slices.Clone(item[:pre]), slices.Clone(item[post:])
	}
	b.Item(r.Kind, item)
	if b.Records == 0 {
		b.end = len(b.Payload)
	}

	end := r.Time
	if r.Kind == format.KindStatement {
		end += int64(r.Duration)
	}
	if b.Records == 0 {
		b.FirstTime, b.FirstEnd, b.LastEnd = r.Time, end, end
	}
	b.FirstTime = min(b.FirstTime, r.Time)
	b.FirstEnd, b.LastEnd = min(b.FirstEnd, end), max(b.LastEnd, end)
	b.Records++
	b.lastTime = r.Time
	if r.Seq != 0 {
		s.state.seq = r.Seq
	}
	if counted {
		s.state.statement = r.Statement
		if r.Kind == format.KindStart || r.Depth > 0 {
			s.state.statement--
		}
	}
	b.defined[index] = *s.state
}

// Finish returns the block, and its chain hash in chain.
func (b *Builder) Finish(codec format.Codec, number, firstRecord uint64, chain *[32]byte) []byte {
	if b.Records > 0 {
		tail := slices.Clone(b.Payload[b.end:])
		b.Payload = b.Payload[:b.at]
		b.Item(b.kind, slices.Concat(b.pre, binary.AppendVarint(nil, b.time-b.FirstTime), b.post))
		b.end = len(b.Payload)
		b.Payload = append(b.Payload, tail...)
	}
	payload := b.Payload
	if codec == format.CodecLz4 {
		dst := make([]byte, lz4.CompressBlockBound(len(payload)))
		n, err := lz4.CompressBlock(payload, dst, nil)
		if err != nil || n == 0 {
			codec = format.CodecNone
		} else {
			payload = dst[:n]
		}
	}
	le := binary.LittleEndian
	flags, stored := byte(0), len(payload)
	if b.Cipher != nil {
		flags, stored = 1, len(payload)+28
	}
	h := append([]byte("SBLK"), 112, 0, byte(codec), flags)
	h = le.AppendUint32(h, uint32(stored))
	h = le.AppendUint32(h, uint32(len(b.Payload)))
	h = le.AppendUint32(h, b.Records)
	h = le.AppendUint32(h, 0)
	h = le.AppendUint64(h, number)
	h = le.AppendUint64(h, firstRecord)
	h = le.AppendUint64(h, uint64(b.FirstTime))
	h = le.AppendUint64(h, uint64(b.FirstEnd))
	h = le.AppendUint64(h, uint64(b.LastEnd))
	if b.Cipher != nil {
		nonce := randomBytes(12)
		payload = b.Cipher.Seal(nonce, nonce, payload, h)
	}
	h = le.AppendUint64(h, xxhash.Sum64(payload))
	sum := sha256.New()
	sum.Write(chain[:])
	sum.Write(h)
	sum.Write(payload)
	sum.Sum(chain[:0])
	h = append(h, chain[:]...)
	h = le.AppendUint64(h, xxhash.Sum64(h))
	return append(h, payload...)
}

// SystemID is the system identifier of all trails that this package writes.
const SystemID = 7654321098765432109

// Stream writes one stream of a trail.
type Stream struct {
	Dir    string
	Number uint32
	Codec  format.Codec
	// Key encrypts the segments that are begun from now on, when there is one.
	Key *[32]byte
	// NoTimes says that segment headers lack the times of the segment before, as those of servers before 0.10.
	NoTimes bool
	// TimesOff is added to them.
	TimesOff format.TimeRange
	// LastStart is the segment that the next headers name as that of the server's last start.
	LastStart uint64

	cipher  cipher.AEAD // of the open segment
	file    *os.File
	segment uint64
	block   uint64
	record  uint64
	chain   [32]byte // what the next block starts from
	last    [32]byte // the last block's
	times   format.TimeRange
}

// NewStream makes a stream's folder and first segment below dir.
func NewStream(t testing.TB, dir string, number uint32) *Stream {
	t.Helper()
	return NewEncryptedStream(t, dir, number, nil)
}

// NewEncryptedStream does the same, and has all segments encrypted with a key; nil: none is.
func NewEncryptedStream(t testing.TB, dir string, number uint32, key *[32]byte) *Stream {
	t.Helper()
	s := &Stream{
		Dir:    filepath.Join(dir, fmt.Sprint(number)),
		Number: number,
		Codec:  format.CodecLz4,
		Key:    key,
		block:  1,
		record: 1,
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Rotate(t, Epoch)
	t.Cleanup(func() { s.file.Close() })
	return s
}

// SegmentPath is the path of a segment.
func (s *Stream) SegmentPath(number uint64) string {
	return filepath.Join(s.Dir, fmt.Sprintf("%010d.steno", number))
}

// Rotate starts a new segment.
func (s *Stream) Rotate(t testing.TB, created int64) {
	t.Helper()
	if s.file != nil {
		s.file.Close()
	}
	s.segment++
	h := SegmentHeader(s.Number, s.segment, created, s.block, s.record, s.last)
	if s.segment > 1 && !s.NoTimes {
		binary.LittleEndian.PutUint64(h[96:], uint64(s.times.First+s.TimesOff.First))
		binary.LittleEndian.PutUint64(h[104:], uint64(s.times.LastEnd+s.TimesOff.LastEnd))
	}
	binary.LittleEndian.PutUint64(h[112:], s.LastStart)
	SealSegment(h)
	s.times = format.NoTimes()
	if s.cipher = nil; s.Key != nil {
		h, s.cipher = encrypt(h, *s.Key)
	}
	s.chain = sha256.Sum256(h)
	var err error
	if s.file, err = os.Create(s.SegmentPath(s.segment)); err == nil {
		_, err = s.file.Write(h)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// SegmentHeader returns the header of a segment.
func SegmentHeader(stream uint32, number uint64, created int64, block, record uint64, chain [32]byte) []byte {
	le := binary.LittleEndian
	h := append([]byte("STENOSEG"), 1, 0, 128, 0, 0, 0, 0, 0)
	h = le.AppendUint64(h, SystemID)
	h = le.AppendUint32(h, stream)
	h = le.AppendUint32(h, 150008)
	h = le.AppendUint64(h, number)
	h = le.AppendUint64(h, uint64(created))
	h = le.AppendUint64(h, block)
	h = le.AppendUint64(h, record)
	h = append(h, chain[:]...)
	h = append(h, make([]byte, 24)...)
	return le.AppendUint64(h, xxhash.Sum64(h))
}

// encrypt gives a segment header a key part, and makes the data key in it.
func encrypt(h []byte, key [32]byte) ([]byte, cipher.AEAD) {
	le := binary.LittleEndian
	le.PutUint16(h[10:], 208)
	le.PutUint32(h[12:], 1)
	SealSegment(h)
	id := format.IDOf(key)
	data, nonce := randomBytes(32), randomBytes(12)
	sealed := gcm(key[:]).Seal(nil, nonce, data, h[:40])
	h = slices.Concat(h, id[:], nonce, sealed, make([]byte, 4))
	return le.AppendUint64(h, xxhash.Sum64(h)), gcm(data)
}

// DataKey takes the data key out of the header of an encrypted segment.
func DataKey(t testing.TB, header []byte, key [32]byte) []byte {
	t.Helper()
	data, err := gcm(key[:]).Open(nil, header[136:148], header[148:196], header[:40])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// PutDataKey puts a data key into the header of an encrypted segment, encrypted with a key.
func PutDataKey(header []byte, key [32]byte, data []byte) {
	id := format.IDOf(key)
	copy(header[128:], id[:])
	copy(header[136:], randomBytes(12))
	copy(header[148:], gcm(key[:]).Seal(nil, header[136:148], data, header[:40]))
}

// Encrypt encrypts the payload of a block, of whose header it is given the first 64 bytes at least.
func Encrypt(data, header, payload []byte) []byte {
	nonce := randomBytes(12)
	return gcm(data).Seal(nonce, nonce, payload, header[:64])
}

// Decrypt decrypts the stored payload of a block.
func Decrypt(t testing.TB, data, header, stored []byte) []byte {
	t.Helper()
	payload, err := gcm(data).Open(nil, stored[:12], stored[12:], header[:64])
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func gcm(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// Write appends a block to the segment.
func (s *Stream) Write(t testing.TB, b *Builder) {
	t.Helper()
	s.Raw(t, s.Finish(b))
}

// Finish makes the bytes of the stream's next block.
func (s *Stream) Finish(b *Builder) []byte {
	b.Cipher = s.cipher
	image := b.Finish(s.Codec, s.block, s.record, &s.chain)
	s.last = s.chain
	s.block++
	s.record += uint64(b.Records)
	header, _ := format.ParseBlockHeader(image)
	s.times.Add(&header)
	return image
}

// Raw appends bytes to the segment.
func (s *Stream) Raw(t testing.TB, b []byte) {
	t.Helper()
	if _, err := s.file.Write(b); err != nil {
		t.Fatal(err)
	}
}

// SealHeader gives a block whose header was changed the checksum that goes with
// it.
func SealHeader(image []byte) {
	binary.LittleEndian.PutUint64(image[104:], xxhash.Sum64(image[:104]))
}

// SealSegment does the same for a segment header, and for its key part if it has one.
func SealSegment(header []byte) {
	binary.LittleEndian.PutUint64(header[120:], xxhash.Sum64(header[:120]))
	if len(header) >= format.EncryptedHeaderSize {
		binary.LittleEndian.PutUint64(header[200:], xxhash.Sum64(header[:200]))
	}
}

// WithoutTimes makes a copy of a trail whose headers say nothing of other segments, as those of servers before 0.10.
func WithoutTimes(t testing.TB, dir, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	segments, _ := filepath.Glob(filepath.Join(to, "*", "*.steno"))
	for _, path := range segments {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		h, err := format.ParseSegmentHeader(data)
		if err != nil {
			continue // what it says does not count
		}
		clear(data[96:120])
		SealSegment(data[:h.Length()])
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// EachRecord calls f with every record of a trail, which must have no damage, and with its block.
func EachRecord(t testing.TB, tr *trail.Trail, f func(ref *trail.BlockRef, r *format.Record)) {
	t.Helper()
	files := &trail.Files{}
	defer files.Close()
	x := tr.Index()
	if len(x.Errs) > 0 {
		t.Error(x.Errs)
	}
	for _, s := range x.Streams {
		refs := s.Refs()
		for i := range refs {
			var b format.Block
			if err := files.Read(&refs[i], &b); err != nil {
				t.Fatal(err)
			}
			var r format.Record
			for {
				if err := b.Next(&r); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				f(&refs[i], &r)
			}
		}
	}
}

// Note is the record of a note.
func Note(s *Session, time int64, text string) *Record {
	return &Record{Kind: format.KindNote, Session: s, Time: time, Text: text}
}

// Open opens a trail that must be there.
func Open(t testing.TB, path string) *trail.Trail {
	t.Helper()
	tr, err := trail.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Each calls a function for each record.
type Each struct{ Do func(r *format.Record) }

// Start, Keep and Append make it a trail.Formatter.
func (e *Each) Start(*trail.BlockRef)    {}
func (e *Each) Keep(*format.Record) bool { return true }
func (e *Each) Append(dst []byte, r *format.Record) []byte {
	e.Do(r)
	return dst
}

// Values reads texts that have to be right.
func Values[T any](parse func(string) (T, error), texts ...string) (all []T) {
	for _, text := range texts {
		v, err := parse(text)
		if err != nil {
			panic(err)
		}
		all = append(all, v)
	}
	return all
}

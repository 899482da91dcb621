// Package write makes blocks and streams of a trail, for `steno recover`. It knows
// the format from format/FORMAT.md alone, as the reader does.
//
//	block.go   records in, one block out
//	stream.go  blocks in, segments out
package write

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/pierrec/lz4/v4"

	"github.com/pg-steno/pg_steno/internal/format"
)

// None stands for an absent duration or number of rows.
const None = ^uint64(0)

// SessionFacts is the offset of the facts in the body of a session, after the start and the process ID.
const SessionFacts = 12

// Source is a session up to some record: the next record is encoded relative to it.
type Source struct {
	Body      []byte // a session definition from the start time on
	Seq       uint64 // of the last record
	Statement uint64 // last finished top-level statement
}

// ID returns the ID of the session; the zero ID if there is none yet.
func (s *Source) ID() format.SessionID {
	if len(s.Body) < SessionFacts {
		return format.SessionID{}
	}
	return format.SessionID{
		Start: int64(binary.LittleEndian.Uint64(s.Body)),
		PID:   binary.LittleEndian.Uint32(s.Body[8:]),
	}
}

// SessionBody returns the body of a session with one fact, the type of its process.
func SessionBody(start int64, pid uint32, backendType string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(start))
	b = binary.LittleEndian.AppendUint32(b, pid)
	return appendString(append(b, byte(format.KeyBackendType)), backendType)
}

// EncodePairs encodes names and values, given in turn, for EXTRA.
func EncodePairs(pairs ...string) (count int, extra []byte) {
	for _, s := range pairs {
		extra = appendString(extra, s)
	}
	return len(pairs) / 2, extra
}

// Record is a record to be written. Its byte strings are encoded parts of items.
type Record struct {
	Kind         format.Kind
	Seq          uint64 // 0: not numbered
	Time         int64
	Duration     uint64 // None: there is none
	Rows         uint64 // None: there are none
	Statement    uint64
	Substatement uint64
	Depth        uint64
	Outcome      format.Outcome
	XID          uint64
	SQLState     []byte // five bytes, or nil
	Message      []byte
	Shape        []byte // body of a shape definition, or nil
	Text         []byte // nil: there is none
	Nulls        []byte
	Values       []byte
	HasValues    bool
	ExtraCount   int
	Extra        []byte
	Audited      format.Audited
	Ending       format.Ending
	EndingFields format.Field // which of Ending are known
	Times        format.Times
	Parts        [3]uint64
	HasParts     bool
	HasCut       bool
	CutLength    uint64
	CutHash      [32]byte
}

// paddedTime is the length of the encoded time of the first record, which is known only when the block is
// complete.
const paddedTime = binary.MaxVarintLen64

type expected struct{ seq, statement uint64 }

// Block builds one block.
type Block struct {
	payload   []byte
	records   uint32
	lastTime  int64
	lastLSN   uint64 // where the WAL record of the last commit ended
	timeAt    int    // of the first record's time in the payload
	time      int64
	firstTime int64
	firstEnd  int64
	lastEnd   int64
	expected  []expected // by session definition
	sessions  map[string]int
	shapes    map[string]int
	texts     map[string]int
	item      []byte
}

// NewBlock returns an empty block.
func NewBlock() *Block {
	return &Block{sessions: map[string]int{}, shapes: map[string]int{}, texts: map[string]int{}}
}

// Bytes returns the length of the payload so far.
func (b *Block) Bytes() int { return len(b.payload) }

// Records returns the number of records so far.
func (b *Block) Records() uint32 { return b.records }

func appendString[S string | []byte](dst []byte, s S) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// put appends an item, and returns where its body begins.
func (b *Block) put(kind format.Kind, body []byte) int {
	b.payload = binary.AppendUvarint(b.payload, uint64(len(body)+1))
	b.payload = append(b.payload, byte(kind))
	b.payload = append(b.payload, body...)
	return len(b.payload) - len(body)
}

// session returns the index of the definition for a source. If a session has several definitions, each keeps
// the numbers that it expects next, as in a reader.
func (b *Block) session(s *Source) int {
	if i, ok := b.sessions[string(s.Body)]; ok {
		return i
	}
	body := binary.AppendUvarint(nil, s.Seq)
	body = append(binary.AppendUvarint(body, s.Statement), s.Body...)
	b.put(format.KindDefSession, body)
	i := len(b.expected)
	b.sessions[string(s.Body)] = i
	b.expected = append(b.expected, expected{s.Seq, s.Statement})
	return i
}

func (b *Block) intern(known map[string]int, kind format.Kind, body []byte) int {
	if i, ok := known[string(body)]; ok {
		return i
	}
	i := len(known)
	known[string(body)] = i
	b.put(kind, body)
	return i
}

// AddData adds a data part of the record with that sequence number.
func (b *Block) AddData(s *Source, seq uint64, part format.PartKind, data []byte) {
	body := binary.AppendUvarint(b.item[:0], uint64(b.session(s)))
	body = append(binary.AppendUvarint(body, seq), byte(part))
	b.item = append(body, data...)
	b.put(format.KindData, b.item)
}

// fields returns the fields that the record itself needs; TIME, SEQ and STATEMENT depend on the previous
// records.
func (r *Record) fields() format.Field {
	var f format.Field
	for _, x := range []struct {
		is  bool
		bit format.Field
	}{
		{len(r.Shape) > 0, format.FieldShape},
		{r.Text != nil, format.FieldText},
		{r.Rows != None, format.FieldRows},
		{r.Duration != None, format.FieldDuration},
		{len(r.Nulls) > 0, format.FieldNulls},
		{r.HasValues, format.FieldValues},
		{r.Depth != 0 || r.Substatement != 0, format.FieldNesting},
		{r.Outcome != format.OutcomeOk, format.FieldOutcome},
		{len(r.SQLState) == 5, format.FieldError},
		{r.XID != 0, format.FieldXID},
		{r.HasCut, format.FieldCut},
		{r.HasParts, format.FieldParts},
		{r.ExtraCount > 0, format.FieldExtra},
		{r.Audited != 0, format.FieldAudited},
	} {
		if x.is {
			f |= x.bit
		}
	}
	return f | r.EndingFields
}

// isStatement returns whether records of a kind have a statement number.
func isStatement(k format.Kind) bool { return k == format.KindStatement || k == format.KindStart }

// Advance updates the numbers that are expected next.
func (s *Source) Advance(r *Record) {
	if r.Seq != 0 {
		s.Seq = r.Seq
	}
	if isStatement(r.Kind) {
		s.Statement = r.Statement
		if r.Kind == format.KindStart || r.Depth != 0 {
			s.Statement--
		}
	}
}

// Add adds a record of the source, and advances it.
func (b *Block) Add(s *Source, r *Record) {
	index := b.session(s)
	f := r.fields()
	var shape, text int
	if f&format.FieldShape != 0 {
		shape = b.intern(b.shapes, format.KindDefShape, r.Shape)
	}
	if f&format.FieldText != 0 {
		text = b.intern(b.texts, format.KindDefText, r.Text)
	}
	e := &b.expected[index]
	first := b.records == 0
	if first || r.Time != b.lastTime {
		f |= format.FieldTime
	}
	if r.Seq != e.seq+1 {
		f |= format.FieldSeq
	}
	if isStatement(r.Kind) && r.Statement != e.statement+1 {
		f |= format.FieldStatement
	}
	if t := &r.Times; t.Known != 0 {
		b.item = binary.AppendUvarint(b.item[:0], uint64(t.Known))
		for _, n := range t.All {
			b.item = binary.AppendUvarint(b.item, n)
		}
		b.put(format.KindTimes, b.item)
	}
	item := binary.AppendUvarint(b.item[:0], uint64(index))
	item = binary.AppendUvarint(item, uint64(f))
	if f&format.FieldShape != 0 {
		item = binary.AppendUvarint(item, uint64(shape))
	}
	if f&format.FieldText != 0 {
		item = binary.AppendUvarint(item, uint64(text))
	}
	if f&format.FieldRows != 0 {
		item = binary.AppendUvarint(item, r.Rows)
	}
	timeAt := len(item)
	if first {
		item = append(item, make([]byte, paddedTime)...)
	} else if f&format.FieldTime != 0 {
		item = binary.AppendVarint(item, r.Time-b.lastTime)
	}
	if f&format.FieldDuration != 0 {
		item = binary.AppendUvarint(item, r.Duration)
	}
	if f&format.FieldNulls != 0 {
		item = append(item, r.Nulls...)
	}
	if f&format.FieldValues != 0 {
		item = appendString(item, r.Values)
	}
	if f&format.FieldSeq != 0 {
		item = binary.AppendVarint(item, int64(r.Seq-(e.seq+1)))
	}
	if f&format.FieldStatement != 0 {
		item = binary.AppendVarint(item, int64(r.Statement-(e.statement+1)))
	}
	item = b.appendEnding(r.appendRare(item, f), r, f)
	b.item = item
	at := b.put(r.Kind, item)
	if first {
		b.timeAt, b.time = at+timeAt, r.Time
	}
	b.note(r)
	now := Source{Seq: e.seq, Statement: e.statement}
	now.Advance(r)
	e.seq, e.statement = now.Seq, now.Statement
	s.Advance(r)
}

// appendRare appends the fields that few records have.
func (r *Record) appendRare(item []byte, f format.Field) []byte {
	if f&format.FieldNesting != 0 {
		item = binary.AppendUvarint(binary.AppendUvarint(item, r.Depth), r.Substatement)
	}
	if f&format.FieldOutcome != 0 {
		item = append(item, byte(r.Outcome))
	}
	if f&format.FieldError != 0 {
		item = appendString(append(item, r.SQLState...), r.Message)
	}
	if f&format.FieldXID != 0 {
		item = binary.AppendUvarint(item, r.XID)
	}
	if f&format.FieldCut != 0 {
		item = append(binary.AppendUvarint(item, r.CutLength), r.CutHash[:]...)
	}
	if f&format.FieldParts != 0 {
		for _, n := range r.Parts {
			item = binary.AppendUvarint(item, n)
		}
	}
	if f&format.FieldExtra != 0 {
		item = append(binary.AppendUvarint(item, uint64(r.ExtraCount)), r.Extra...)
	}
	if f&format.FieldAudited != 0 {
		item = append(item, byte(r.Audited))
	}
	return item
}

// appendEnding appends the fields of a transaction's end.
func (b *Block) appendEnding(item []byte, r *Record, f format.Field) []byte {
	e := &r.Ending
	if f&format.FieldEvent != 0 {
		item = append(item, byte(e.Event))
	}
	if f&format.FieldStatements != 0 {
		item = binary.AppendUvarint(item, e.Statements)
	}
	if f&format.FieldCommit != 0 {
		item = binary.AppendVarint(item, int64(e.LSN-b.lastLSN))
		item = binary.AppendUvarint(binary.AppendUvarint(item, e.End-e.LSN), e.Timeline)
		b.lastLSN = e.End
	}
	return item
}

// note updates the times for the header.
func (b *Block) note(r *Record) {
	end := r.Time
	switch {
	case r.Kind != format.KindStatement:
	case r.Times.Known&format.KnownElapsed != 0:
		end += int64(r.Times.Elapsed)
	case r.Duration != None:
		end += int64(r.Duration)
	}
	if b.records == 0 {
		b.firstTime, b.firstEnd, b.lastEnd = r.Time, end, end
	}
	b.firstTime = min(b.firstTime, r.Time)
	b.firstEnd, b.lastEnd = min(b.firstEnd, end), max(b.lastEnd, end)
	b.records++
	b.lastTime = r.Time
}

// patchTime writes the first record's time, in its padded form.
func (b *Block) patchTime() {
	d := b.time - b.firstTime
	v := uint64(d<<1) ^ uint64(d>>63)
	p := b.payload[b.timeAt : b.timeAt+paddedTime]
	for i := range p {
		p[i] = byte(v) | 0x80
		v >>= 7
	}
	p[paddedTime-1] &= 0x7f
}

// Finish returns the block's bytes and its chain hash, which follows previous. now is the time for a block
// without records.
func (b *Block) Finish(number, firstRecord uint64, now int64, previous [32]byte) (image []byte, chain [32]byte) {
	if b.records > 0 {
		b.patchTime()
	} else {
		b.firstTime, b.firstEnd, b.lastEnd = now, now, now
	}
	codec, stored := format.CodecNone, b.payload
	packed := make([]byte, lz4.CompressBlockBound(len(b.payload)))
	if n, err := lz4.CompressBlock(b.payload, packed, nil); err == nil && n > 0 && n < len(b.payload) {
		codec, stored = format.CodecLz4, packed[:n]
	}
	h := format.BlockHeader{
		Codec: codec, Stored: uint32(len(stored)), Raw: uint32(len(b.payload)), Records: b.records,
		Number: number, FirstRecord: firstRecord, FirstTime: b.firstTime, FirstEnd: b.firstEnd, LastEnd: b.lastEnd,
	}
	return BuildImage(h, stored, previous)
}

// BuildImage builds a block from a header and the stored payload. It sets lengths, checksums and the chain hash.
func BuildImage(h format.BlockHeader, stored []byte, previous [32]byte) (image []byte, chain [32]byte) {
	le := binary.LittleEndian
	b := append(make([]byte, 0, format.BlockHeaderSize+len(stored)), "SBLK"...)
	b = le.AppendUint16(b, format.BlockHeaderSize)
	b = append(b, byte(h.Codec), h.Flags)
	b = le.AppendUint32(b, h.Stored)
	b = le.AppendUint32(b, h.Raw)
	b = le.AppendUint32(b, h.Records)
	b = le.AppendUint32(b, 0)
	for _, v := range []uint64{h.Number, h.FirstRecord, uint64(h.FirstTime), uint64(h.FirstEnd), uint64(h.LastEnd),
		xxhash.Sum64(stored)} {
		b = le.AppendUint64(b, v)
	}
	sum := sha256.New()
	sum.Write(previous[:])
	sum.Write(b)
	sum.Write(stored)
	sum.Sum(chain[:0])
	b = append(b, chain[:]...)
	b = le.AppendUint64(b, xxhash.Sum64(b))
	return append(b, stored...), chain
}

// longest is the limit for the payload of a single record.
const longest = format.MaxRaw - 4096

// Check returns what a reader would find wrong with a record of the source; nil: nothing.
func Check(s *Source, r *Record) error {
	if n := len(s.Body) + len(r.Shape) + len(r.Text) + len(r.Nulls) + len(r.Values) + len(r.Message) +
		len(r.Extra); n > longest {
		return fmt.Errorf("%d bytes are too many for a block", n)
	}
	copied := *s
	b := NewBlock()
	b.Add(&copied, r)
	var got format.Record
	read, err := b.read()
	if err == nil {
		err = read.Next(&got)
	}
	switch {
	case err != nil:
		return reason(err)
	case got.Shape != nil && len(got.Shape.Params) > 0 && got.Parts[format.PartValues] == 0 &&
		!got.Params(func(format.ParamType, []byte, bool) bool { return true }):
		return errors.New("parameters do not match their types")
	case r.Kind == format.KindStatement && (r.Duration != None && int64(r.Duration) < 0 || got.End() < got.Time):
		return errors.New("its duration cannot be")
	}
	if err := read.Next(&got); err != io.EOF {
		return reason(err)
	}
	return nil
}

// CheckBody returns whether the body of a session can be read.
func CheckBody(body []byte) bool {
	if len(body) < SessionFacts {
		return false
	}
	b := NewBlock()
	b.session(&Source{Body: body})
	read, err := b.read()
	var r format.Record
	return err == nil && read.Next(&r) == io.EOF
}

// read returns the block so far, for a reader.
func (b *Block) read() (*format.Block, error) {
	if b.records > 0 {
		b.patchTime()
	}
	return NewReadableBlock(format.BlockHeader{Records: b.records, FirstTime: b.firstTime}, b.payload)
}

// NewReadableBlock returns a block whose payload is not in a file, or was changed, for a reader. Of the header, only
// the number of records and the first time matter.
func NewReadableBlock(h format.BlockHeader, payload []byte) (*format.Block, error) {
	h.Codec, h.Flags, h.Stored, h.Raw = format.CodecNone, 0, uint32(len(payload)), uint32(len(payload))
	image, _ := BuildImage(h, payload, [32]byte{})
	b := &format.Block{Image: image}
	return b, b.Load()
}

func reason(err error) error {
	if p := format.AsProblem(err); p != nil {
		return errors.New(string(bytes.TrimSpace([]byte(p.Reason))))
	}
	if err == nil {
		return errors.New("more than a record")
	}
	return err
}

package trail_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// decodeAll reads all records of a block and writes what they hold, so that two
// readings can be compared. It returns where each record ended.
func decodeAll(b *trail.Block, limit int) (out []string, err error) {
	var r trail.Record
	for len(out) < limit {
		if err = b.Next(&r); err != nil {
			return out, err
		}
		line := fmt.Sprintf("%d %v %d %d %d %d %q %q %q %q", r.Kind, r.Session.ID(), r.Seq, r.Statement, r.Time, r.Duration, r.Text, r.Values, r.Message, r.Extra)
		line += fmt.Sprintf(" %v %v", slices.Collect(r.Reasons().Names), r.Shape)
		r.Params(func(p trail.ParamType, v []byte, null bool) bool {
			// Rendering is bounded by the value, but for numerics, which
			// can stand for 130,000 digits in a few bytes.
			line += fmt.Sprintf(" %d %v %.100q", p.Repr, null, trail.AppendParam(nil, p.Repr, v))
			return len(line) < 10_000
		})
		for name, value := range r.ExtraPairs {
			line += fmt.Sprintf(" %q=%q", name, value)
		}
		out = append(out, line)
	}
	return out, nil
}

// FuzzBlock decodes a payload of any bytes. No panic; the same records when it
// is read again, and when the payload is cut off after them; no more memory
// than the payload explains.
func FuzzBlock(f *testing.F) {
	trailtest.AddCorpus(f)
	add := func(b *trailtest.Builder) { f.Add(b.Payload) }
	s := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: trail.KeyUser, Value: "alice"})
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{
		Kind: trail.KindStatement, Session: s, Time: trailtest.Epoch, Text: "SELECT $1", Rows: 1, Duration: 100,
		Shape: &trailtest.Shape{
			Class: trail.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Type: 1, Access: 1, Name: "public.t"}},
			Params:  []trail.ParamType{{OID: 23, Repr: trail.ReprInt4}, {OID: 1700, Repr: trail.ReprNumeric}},
			Objects: []trailtest.Object{{Action: trail.ActionRename, Type: "table", Name: "public.t", To: "public.u"}},
		},
		Audited: trail.AuditedObject,
		Nulls:   []byte{2}, Values: []byte{1, 0, 0, 0}, SQLState: "42P01", Message: "m", Extra: []string{"a", "b"},
	})
	b.Data(s, 2, trail.PartText, "part")
	add(b)
	b = trailtest.NewBuilder(trailtest.Epoch)
	b.Add(note(s, trailtest.Epoch, "x"))
	b.Add(note(s, trailtest.Epoch, "x"))
	add(b)
	b = trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{
		Kind: trail.KindStatement, Session: s, Time: trailtest.Epoch, Text: "SELECT $1, $2",
		Shape:  &trailtest.Shape{Class: trail.ClassRead, Command: "SELECT", Params: []trail.ParamType{{Repr: trail.ReprList}}},
		Values: []byte{9, 2, 23, byte(trail.ReprInt4), 1, 0, 0, 0, 25, 0x80 | byte(trail.ReprText)},
	})
	add(b)
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) > 1<<16 {
			return
		}
		image := func(payload []byte, records uint32) []byte {
			b := trailtest.NewBuilder(0)
			b.Payload = payload
			var chain [32]byte
			image := b.Finish(trail.CodecNone, 1, 1, &chain)
			image[16], image[17], image[18] = byte(records), byte(records>>8), byte(records>>16)
			trailtest.SealHeader(image)
			return image
		}
		block := load(t, image(payload, 0))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var r trail.Record
		records, parts := 0, 0
		whole, wholeRecords := 0, 0 // up to the last item that is read
		var err error
		for err == nil {
			if err = block.Next(&r); err == nil {
				if r.Kind == trail.KindData {
					parts++
				} else {
					records++
				}
				if !block.InRun() {
					whole, wholeRecords = records+parts, records
				}
			}
		}
		runtime.ReadMemStats(&after)
		// A session definition of 15 bytes becomes a struct of 300.
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<16+200*uint64(len(payload))+2*trail.MaxVariants {
			t.Errorf("%d bytes of payload took %d bytes of memory", len(payload), used)
		}
		sameReading(t, payload)
		sameTally(t, payload)
		block.Rewind()
		first, err1 := decodeAll(block, records+parts)
		block.Rewind()
		second, err2 := decodeAll(block, records+parts)
		if fmt.Sprint(first, err1) != fmt.Sprint(second, err2) || len(first) != records+parts {
			t.Error("a second reading gives other records")
		}
		// The valid prefix, alone, is a whole block with the same records.
		prefix := payload[:block.Position()]
		alone := load(t, image(prefix, uint32(wholeRecords)))
		third, err := decodeAll(alone, whole)
		if err != nil || fmt.Sprint(first[:whole]) != fmt.Sprint(third) {
			t.Errorf("the valid prefix gives other records: %v", err)
		}
		if err := alone.Next(&r); err != io.EOF {
			t.Errorf("after the valid prefix: %v", err)
		}
	})
}

// FuzzSegment reads a file of any bytes as a segment. No panic; every block that
// is indexed lies inside the file, behind the one before; a file that is cut
// after an indexed block has the same blocks up to it.
func FuzzSegment(f *testing.F) {
	trailtest.AddCorpus(f)
	dir := f.TempDir()
	s := trailtest.NewStream(f, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for _, codec := range []trail.Codec{trail.CodecNone, trail.CodecLz4} {
		s.Codec = codec
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(note(session, trailtest.Epoch, "some text that is a bit longer, and longer, and longer, and longer"))
		s.Write(f, b)
	}
	data, err := os.ReadFile(s.SegmentPath(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-7])
	f.Add(append(bytes.Clone(data), make([]byte, 200)...))
	segments, _ := filepath.Glob(trailtest.Golden(f) + "/*/*/*.steno")
	for _, path := range segments {
		if data, err := os.ReadFile(path); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		var refs []trail.BlockRef
		trailtest.Memory(t, len(data), func() { refs = trail.IndexBytes(data) })
		var b trail.Block
		end := int64(trail.SegmentHeaderSize)
		for i := range refs {
			if refs[i].Offset < end || refs[i].Offset+refs[i].Length() > int64(len(data)) {
				t.Fatalf("block %d lies at %d, %d bytes long", i, refs[i].Offset, refs[i].Length())
			}
			end = refs[i].Offset + refs[i].Length()
			b.Image = data[refs[i].Offset:end]
			trailtest.Memory(t, len(b.Image), func() {
				if b.Load() == nil {
					decodeAll(&b, 100)
				}
			})
		}
		if len(refs) == 0 {
			return
		}
		again := trail.IndexBytes(data[:end])
		if len(again) != len(refs) {
			t.Errorf("%d blocks, and %d when what follows them is cut off", len(refs), len(again))
		}
	})
}

// FuzzEncryptedSegment changes the header, or a byte, of an encrypted segment,
// and makes the header's checksum right again. No panic; whatever is read is what
// was written, in its order: nothing else can be decrypted.
func FuzzEncryptedSegment(f *testing.F) {
	dir := f.TempDir()
	s, texts := encryptedTrail(f, dir)
	data, err := os.ReadFile(s.SegmentPath(2))
	if err != nil {
		f.Fatal(err)
	}
	name := filepath.Base(s.SegmentPath(2))
	length := int(binary.LittleEndian.Uint16(data[10:]))
	written := texts[90:180]
	f.Add(data[:length], uint16(0), byte(0))
	f.Add(data[:length], uint16(length+150), byte(1))
	f.Add(data[:length-60], uint16(8), byte(0x80))
	f.Add(data[:128], uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, header []byte, at uint16, with byte) {
		image := slices.Concat(header[:min(len(header), 1000)], data[min(len(header), length):])
		if int(at) < len(image) {
			image[at] ^= with
		}
		if len(image) < 128 {
			return
		}
		if len(image) >= length {
			trailtest.SealSegment(image[:length])
		}
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "0"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "0", name), image, 0o600); err != nil {
			t.Fatal(err)
		}
		got, _ := readAll(t, dir, keysOf(keyA))
		rest := written
		for _, text := range got {
			i := slices.Index(rest, text)
			if i < 0 {
				t.Fatalf("%q is read, which was not written there", text)
			}
			rest = rest[i+1:]
		}
	})
}

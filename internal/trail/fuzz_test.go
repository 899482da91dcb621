package trail_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// FuzzSegment reads a file of any bytes as a segment. No panic; every block that
// is indexed lies inside the file, behind the one before; a file that is cut
// after an indexed block has the same blocks up to it.
func FuzzSegment(f *testing.F) {
	trailtest.AddCorpus(f)
	dir := f.TempDir()
	s := trailtest.NewStream(f, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for _, codec := range []format.Codec{format.CodecNone, format.CodecLz4} {
		s.Codec = codec
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(session, trailtest.Epoch, "some text that is a bit longer, and longer, and longer, and longer"))
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
		trailtest.CheckMemory(t, len(data), func() { refs = trail.IndexBytes(data) })
		var b format.Block
		end := int64(format.SegmentHeaderSize)
		for i := range refs {
			if refs[i].Offset < end || refs[i].Offset+refs[i].Length() > int64(len(data)) {
				t.Fatalf("block %d lies at %d, %d bytes long", i, refs[i].Offset, refs[i].Length())
			}
			end = refs[i].Offset + refs[i].Length()
			b.Image = data[refs[i].Offset:end]
			trailtest.CheckMemory(t, len(b.Image), func() {
				var r format.Record
				for err := b.Load(); err == nil; err = b.Next(&r) {
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

package trail_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

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

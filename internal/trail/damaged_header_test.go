package trail_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// onlyDamage fails the test unless there is one error, of damage in that file.
func onlyDamage(t *testing.T, name, file string, errs []error) {
	t.Helper()
	var c *trail.CorruptionError
	if len(errs) != 1 || !errors.As(errs[0], &c) || c.File != file || !strings.Contains(c.Reason, "bytes skipped") {
		t.Fatalf("%s: %v", name, errs)
	}
}

func TestBlocksBehindADamagedSegmentHeaderAreRead(t *testing.T) {
	dir := t.TempDir()
	s, want := encryptedTrail(t, dir)
	for n, length := range map[uint64]int{1: 128, 2: 208, 4: 128} {
		path := s.SegmentPath(n)
		whole, _ := os.ReadFile(path)
		for at := range length {
			// what the data key is made of cannot be found again
			if length == 208 && at >= 136 && at < 196 {
				continue
			}
			image := bytes.Clone(whole)
			image[at] ^= 1 << (at % 8)
			os.WriteFile(path, image, 0o600)
			texts, errs := readAll(t, dir, keysOf(keyA, keyB))
			if !slices.Equal(texts, want) {
				t.Fatalf("segment %d, byte %d: %d of %d records: %v", n, at, len(texts), len(want), errs)
			}
			onlyDamage(t, "flipped bit", path, errs)
		}
		os.WriteFile(path, whole, 0o600)
	}
}

func TestBlocksOfASegmentWithoutItsHeaderAreRead(t *testing.T) {
	dir := t.TempDir()
	s, offsets := threeBlocks(t, dir)
	path := s.SegmentPath(1)
	whole, _ := os.ReadFile(path)
	for name, c := range map[string]struct {
		image  []byte
		blocks int
	}{
		"header cut off":                 {whole[128:], 3},
		"a part of the header cut off":   {whole[77:], 3},
		"zeros":                          {slices.Concat(make([]byte, 128), whole[128:]), 3},
		"something else before":          {slices.Concat(make([]byte, 100_000), whole[128:]), 3},
		"beginning of a block cut off":   {whole[offsets[1]-10:], 2},
		"beginning of a block and zeros": {slices.Concat(make([]byte, 4096), whole[offsets[1]:]), 2},
	} {
		os.WriteFile(path, c.image, 0o600)
		for _, at := range []string{dir, path} {
			texts, errs := readAll(t, at, nil)
			if len(texts) != c.blocks {
				t.Errorf("%s: %d records: %v", name, len(texts), errs)
			}
			onlyDamage(t, name, path, errs)
		}
	}
	os.WriteFile(path, bytes.Repeat([]byte("something else "), 1000), 0o600)
	if texts, errs := readAll(t, path, nil); len(texts) != 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), "not a segment") {
		t.Errorf("a file that is no segment: %q, %v", texts, errs)
	}
}

func TestOnlyTheBlockWithADamagedHeaderIsLost(t *testing.T) {
	dir := t.TempDir()
	s, offsets := threeBlocks(t, dir)
	path := s.SegmentPath(1)
	whole, _ := os.ReadFile(path)
	for at := range trail.BlockHeaderSize {
		image := bytes.Clone(whole)
		image[int(offsets[1])+at] ^= 1 << (at % 8)
		os.WriteFile(path, image, 0o600)
		texts, errs := readAll(t, dir, nil)
		if len(texts) != 2 {
			t.Fatalf("byte %d: %d records: %v", at, len(texts), errs)
		}
		onlyDamage(t, "flipped bit", path, errs)
	}
}

// A client can write a text that looks like a block.
func TestATextIsNotTakenForABlock(t *testing.T) {
	session := trailtest.NewSession(trailtest.Epoch, 1)
	forge := func(number uint64) string {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(note(trailtest.NewSession(trailtest.Epoch, 2), trailtest.Epoch, "forged"))
		chain := [32]byte{}
		return string(b.Finish(trail.CodecNone, number, 2, &chain))
	}
	for name, c := range map[string]struct {
		text string
		at   int // the byte of the block's header that is damaged
	}{
		"another byte than the length":     {forge(2), 40},
		"a length":                         {forge(7_000_000), 8},
		"a length, and the payload is not": {forge(2)[:130], 8},
	} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		s.Codec = trail.CodecNone
		var offset int64
		for i, text := range []string{"first", c.text, "last"} {
			if info, _ := os.Stat(s.SegmentPath(1)); i == 1 {
				offset = info.Size()
			}
			b := trailtest.NewBuilder(trailtest.Epoch)
			b.Add(note(session, trailtest.Epoch+int64(i), text))
			s.Write(t, b)
		}
		image, _ := os.ReadFile(s.SegmentPath(1))
		image[int(offset)+c.at] ^= 1
		os.WriteFile(s.SegmentPath(1), image, 0o600)
		texts, errs := readAll(t, dir, nil)
		if !slices.Equal(texts, []string{"first", "last"}) {
			t.Errorf("%s: %q", name, texts)
		}
		onlyDamage(t, name, s.SegmentPath(1), errs)
	}
}

func TestFollowingGoesOnBehindADamagedSegmentHeader(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	now := trailtest.Epoch
	write := func(text string) {
		now++
		b := trailtest.NewBuilder(now)
		b.Add(note(session, now, text))
		s.Write(t, b)
	}
	write("one")
	f := follow(t, dir)
	s.Rotate(t, now)
	write("two")
	image, _ := os.ReadFile(s.SegmentPath(2))
	image[70] ^= 4
	os.WriteFile(s.SegmentPath(2), image, 0o600)
	f.expect("two")
	write("three")
	f.expect("three")
	s.Rotate(t, now)
	write("four")
	f.expect("four")
	if len(f.warnings) != 1 {
		t.Errorf("%q", f.warnings)
	}
}

package format_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func smallBlock(codec format.Codec, chain *[32]byte) []byte {
	s := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
	b := trailtest.NewBuilder(trailtest.Epoch)
	for i := range int64(5) {
		b.Add(trailtest.Note(s, trailtest.Epoch+i, strings.Repeat("same ", 20)))
	}
	return b.Finish(codec, 1, 1, chain)
}

func TestEveryChangedBitIsDetected(t *testing.T) {
	var previous [32]byte
	for _, codec := range []format.Codec{format.CodecNone, format.CodecLz4} {
		chain := previous
		image := smallBlock(codec, &chain)
		for i := range image {
			for bit := range 8 {
				damaged := slices.Clone(image)
				damaged[i] ^= 1 << bit
				b := format.Block{Image: damaged}
				err := b.Load()
				if err == nil && b.ChainHash(previous) == b.Header.Chain {
					t.Fatalf("%s: byte %d, bit %d: not detected", codec, i, bit)
				}
			}
		}
	}
}

func TestChainHashDependsOnTheBlockBefore(t *testing.T) {
	var chain [32]byte
	image := smallBlock(format.CodecLz4, &chain)
	b := load(t, image)
	if b.ChainHash([32]byte{}) != b.Header.Chain {
		t.Error("the chain hash of an untouched block does not match")
	}
	if b.ChainHash([32]byte{1}) == b.Header.Chain {
		t.Error("the chain hash does not depend on the hash before")
	}
}

func TestSegmentHeaderIsChecked(t *testing.T) {
	good := trailtest.SegmentHeader(3, 9, trailtest.Epoch, 100, 2000, [32]byte{1, 2})
	h, err := format.ParseSegmentHeader(good)
	if err != nil || h.Stream != 3 || h.Number != 9 || h.FirstBlock != 100 || h.FirstRecord != 2000 || h.SystemID != trailtest.SystemID || h.PreviousHash != [32]byte{1, 2} {
		t.Fatalf("%+v, %v", h, err)
	}
	for i := range good {
		damaged := slices.Clone(good)
		damaged[i] ^= 4
		if _, err := format.ParseSegmentHeader(damaged); err == nil {
			t.Errorf("byte %d changed: not detected", i)
		}
	}
	for _, n := range []int{0, 7, 8, 127} {
		if _, err := format.ParseSegmentHeader(good[:n]); err == nil {
			t.Errorf("%d bytes are accepted as a header", n)
		}
	}
}

func TestSegmentsThatThisProgramCannotReadAreRefused(t *testing.T) {
	good := trailtest.SegmentHeader(3, 9, trailtest.Epoch, 100, 2000, [32]byte{1, 2})
	for reason, change := range map[string]func(h []byte){
		"format version is 2, but this program reads version 1": func(h []byte) { h[8] = 2 },
		"format version is 0, but this program reads version 1": func(h []byte) { h[8] = 0 },
		"segment has flags 0x2, which this program does not":    func(h []byte) { h[12] = 2 },
		"segment has flags 0x80000000, which":                   func(h []byte) { h[15] = 0x80 },
		"length of 136 bytes instead of 128":                    func(h []byte) { h[10] = 136 },
	} {
		h := slices.Clone(good)
		change(h)
		binary.LittleEndian.PutUint64(h[120:], xxhash.Sum64(h[:120]))
		if _, err := format.ParseSegmentHeader(h); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("got %v, want %q", err, reason)
		}
	}
}

func TestBlocksThatThisProgramCannotReadAreRefused(t *testing.T) {
	var chain [32]byte
	s := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(s, trailtest.Epoch, "x"))
	for name, c := range map[string]struct {
		change func(header []byte)
		reason string
	}{
		"unknown codec":  {func(h []byte) { h[6] = 9 }, "codec 9, which"},
		"unknown flags":  {func(h []byte) { h[7] = 2 }, "flags 0x2"},
		"wrong length":   {func(h []byte) { h[12]++ }, "has a stated length"},
		"too much":       {func(h []byte) { h[15] = 2 }, "the limit is"},
		"not lz4":        {func(h []byte) { h[6] = 1 }, "cannot be decompressed"},
		"reserved codec": {func(h []byte) { h[6] = 2 }, "codec 2, which"},
		"records differ": {func(h []byte) { h[16]++ }, "its header says"},
	} {
		image := slices.Clone(b.Finish(format.CodecNone, 1, 1, &chain))
		c.change(image)
		trailtest.SealHeader(image)
		block := format.Block{Source: format.Source{File: "f", Offset: 128}, Image: image}
		err := block.Load()
		for err == nil {
			var r format.Record
			err = block.Next(&r)
		}
		corrupt := format.AsProblem(err)
		if corrupt == nil || !strings.Contains(corrupt.Reason, c.reason) || corrupt.File != "f" || corrupt.Offset < 128 {
			t.Errorf("%s: got %v, want %q", name, err, c.reason)
		}
	}
}

func TestDecompressionIsBounded(t *testing.T) {
	// An LZ4 block of 100 kB that says 1 kB, and a short one that says 16 MB.
	for want, raw := range map[string]struct {
		size int
		says uint32
	}{"cannot be decompressed": {100 << 10, 1 << 10}, "cannot be 16777216 bytes long": {1 << 10, format.MaxRaw}} {
		var chain [32]byte
		b := trailtest.NewBuilder(0)
		b.Payload = bytes.Repeat([]byte{0}, raw.size)
		image := b.Finish(format.CodecLz4, 1, 1, &chain)
		binary.LittleEndian.PutUint32(image[12:], raw.says)
		trailtest.SealHeader(image)
		block := format.Block{Image: image}
		if err := block.Load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes that are said to be %d: got %v, want %q", raw.size, raw.says, err, want)
		}
	}
}

// Package sealtest writes the streams of sealed trails, for tests.
package sealtest

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// Writer writes a stream as a server's writer does: with seals and indexes.
type Writer struct {
	*trailtest.Stream
	// Signs signs the seals.
	Signs ed25519.PrivateKey
	// Session is that of the writer's own records.
	Session *trailtest.Session
	// Segment is the number of the open segment.
	Segment uint64
	// Hides is part of a term that indexes do not have, though blocks do; empty: none.
	Hides string
	// Old makes indexes those of a server that did not say what records leave out.
	Old bool

	t       testing.TB
	first   uint64 // block of the run
	block   uint64
	record  uint64
	hash    [32]byte
	indexed int // blocks of the segment that an index covers
}

// NewWriter begins the stream of this number in the trail in dir.
func NewWriter(t testing.TB, dir string, number uint32, key ed25519.PrivateKey) *Writer {
	return NewEncryptedWriter(t, dir, number, key, nil)
}

// NewEncryptedWriter does the same, and has all segments encrypted with a key; nil: none is.
func NewEncryptedWriter(t testing.TB, dir string, number uint32, key ed25519.PrivateKey, encrypts *[32]byte) *Writer {
	return &Writer{
		Stream: trailtest.NewEncryptedStream(t, dir, number, encrypts), Signs: key, t: t, Segment: 1, first: 1,
		Session: trailtest.NewSession(trailtest.Epoch, 100+number,
			trailtest.Fact{Key: format.KeyBackendType, Value: format.WriterBackendType}),
	}
}

// Put writes a block with records.
func (w *Writer) Put(records ...*trailtest.Record) {
	b := trailtest.NewBuilder(trailtest.Epoch)
	for _, r := range records {
		b.Add(r)
	}
	w.PutBlock(b)
}

// PutBlock writes a block.
func (w *Writer) PutBlock(b *trailtest.Builder) {
	image := w.Finish(b)
	w.Raw(w.t, image)
	le := binary.LittleEndian
	w.block, w.record = le.Uint64(image[24:]), le.Uint64(image[32:])+uint64(le.Uint32(image[16:]))-1
	copy(w.hash[:], image[72:])
}

// Last is the last block, and its chain hash.
func (w *Writer) Last() (block uint64, chain [32]byte) { return w.block, w.hash }

// Seal seals the last block at a time; with next, the seal names the key of the later ones.
func (w *Writer) Seal(at int64, reason string, next ed25519.PrivateKey) {
	s := &seal.Seal{
		SystemID: trailtest.SystemID, Stream: w.Number, Segment: w.Segment, Block: w.block, Record: w.record,
		First:    w.first,
		Interval: 60, Time: at, Hash: w.hash, Reason: reason, Key: seal.KeyID(w.Signs.Public().(ed25519.PublicKey)),
	}
	extra := []string{
		"reason", reason, "block", fmt.Sprint(s.Block), "record", fmt.Sprint(s.Record), "hash",
		fmt.Sprintf("%x", s.Hash),
		"first", fmt.Sprint(s.First), "interval", fmt.Sprint(s.Interval), "key", s.Key,
	}
	if next != nil {
		s.NextKey = next.Public().(ed25519.PublicKey)
		extra = append(extra, "next_key", fmt.Sprintf("%x", []byte(s.NextKey)))
	}
	extra = append(extra, "signature", fmt.Sprintf("%x", ed25519.Sign(w.Signs, s.Bytes())))
	w.Put(&trailtest.Record{Kind: format.KindSeal, Session: w.Session, Time: at, Extra: extra})
	if next != nil {
		w.Signs = next
	}
}

// Index writes an index of the segment's blocks that have none.
func (w *Writer) Index() {
	keys := format.NewKeys(func() (keys [][format.KeySize]byte, err error) {
		if w.Key != nil {
			keys = append(keys, *w.Key)
		}
		return keys, nil
	})
	opened, err := trail.OpenEncrypted(w.SegmentPath(w.Segment), keys)
	if err != nil {
		w.t.Fatal(err)
	}
	refs, errs := opened.Streams[0].Segments[0].Index()
	if len(errs) > 0 {
		w.t.Fatal(errs)
	}
	refs = refs[w.indexed:]
	size := (len(refs) + 7) / 8
	terms, filters := w.terms(refs, size)
	str := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	body := binary.AppendUvarint(nil, refs[0].Number)
	body = binary.AppendUvarint(binary.AppendUvarint(body, uint64(len(refs))), 1)
	for list := format.TermsUsers; list <= format.TermsOmissions; list++ {
		if list == format.TermsOmissions && w.Old {
			continue
		}
		if list == format.TermsTrigrams {
			body = str(binary.AppendUvarint(body, uint64(list)), string(filters))
			continue
		}
		one := make([]byte, size) // nothing is omitted
		one = binary.AppendUvarint(one, uint64(len(terms[list])))
		for _, v := range slices.Sorted(maps.Keys(terms[list])) {
			one = append(str(one, v), terms[list][v]...)
		}
		body = str(binary.AppendUvarint(body, uint64(list)), string(one))
	}
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Item(format.KindDefIndex, body)
	w.PutBlock(b)
	w.indexed += len(refs) + 1
}

// terms are what the blocks contain: for each list, its terms, and a bit for each block that has one; and the list of
// filters for trigrams.
func (w *Writer) terms(refs []trail.BlockRef, size int) (terms map[format.Terms]map[string][]byte, filters []byte) {
	terms = map[format.Terms]map[string][]byte{}
	lacking := make([]byte, size)
	var files trail.Files
	defer files.Close()
	for i := range refs {
		var b format.Block
		if err := files.Read(&refs[i], &b); err != nil {
			w.t.Fatal(err)
		}
		var has format.BlockContents
		var r format.Record
		for b.Next(&r) == nil {
			has.AddRecord(&r)
		}
		has.AddDefinitions(&b)
		if has.Omitted {
			lacking[i/8] |= 1 << (i % 8)
		}
		filters = append(filters, has.Trigrams[:]...)
		for list, values := range has.Terms {
			if terms[list] == nil {
				terms[list] = map[string][]byte{}
			}
			for v := range values {
				if w.Hides != "" && strings.Contains(v, w.Hides) {
					continue
				}
				if terms[list][v] == nil {
					terms[list][v] = make([]byte, size)
				}
				terms[list][v][i/8] |= 1 << (i % 8)
			}
		}
	}
	length := binary.AppendUvarint(lacking, uint64(len(filters)/len(refs)))
	return terms, append(length, filters...)
}

// Rotate ends the segment as a writer does, at a time, and begins another.
func (w *Writer) Rotate(at int64) {
	w.Index()
	w.Seal(at, seal.ReasonSegment, nil)
	w.Stream.Rotate(w.t, at)
	w.Segment, w.indexed = w.Segment+1, 0
}

// Restart ends the run of the writer as a kill does, and begins another, which seals what it finds.
func (w *Writer) Restart(at int64) {
	w.first = w.block + 1
	w.Seal(at, seal.ReasonStart, nil)
}

package verify

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// findings are those of a payload whose records are checked one by one, or as far as they are
// not plain.
func findings(t *testing.T, payload []byte, records uint32, all bool) string {
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Payload = payload
	var chain [32]byte
	image := b.Finish(format.CodecNone, 1, 1, &chain)
	image[16], image[17] = byte(records), byte(records>>8)
	trailtest.SealHeader(image)
	c := &checker{allRecords: all, segment: &format.SegmentHeader{}}
	c.block.Image = image
	if err := c.block.Load(); err != nil {
		t.Fatal(err)
	}
	f := &finding{}
	c.items(f)
	slices.SortStableFunc(f.spans, func(a, b span) int { return a.session.Compare(b.session) })
	line := ""
	for _, err := range f.errs[:min(len(f.errs), maxErrors)] {
		line += err.Error() + "; "
	}
	for _, one := range f.seals {
		line += fmt.Sprintf("%+v; ", *one)
	}
	f.errs, f.seals = nil, nil
	return fmt.Sprintf("%s%+v", line, *f)
}

// TestPlainRecordsAreCheckedAsAllAre compares what is found in blocks of servers, and in some that were
// changed at random, when plain records are only counted, with what is found when each is looked at.
func TestPlainRecordsAreCheckedAsAllAre(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	paths, _ := filepath.Glob(trailtest.Golden(t) + "/*/*/*.steno")
	found := map[string]bool{}
	for _, path := range paths {
		tr, err := trail.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		refs, _ := tr.Streams[0].Segments[0].Index()
		for _, ref := range refs {
			b := format.Block{Image: data[ref.Offset:][:ref.Length()]}
			if b.Load() != nil || ref.Raw == 0 || ref.Raw > 1<<15 {
				continue
			}
			payload := b.Image[format.BlockHeaderSize:]
			if b.Header.Codec == format.CodecLz4 {
				payload = make([]byte, ref.Raw)
				if _, err := lz4.UncompressBlock(b.Image[format.BlockHeaderSize:], payload); err != nil {
					t.Fatal(err)
				}
			}
			for i := range max(2, min(60, 300_000/int(ref.Raw+1))) {
				p := bytes.Clone(payload)
				for range i {
					if i < 4 {
						p[r.IntN(len(p))] ^= 1 << r.IntN(8)
					}
				}
				if at := r.IntN(len(p)); i >= 4 {
					p = append(p[:at:at], slices.Concat(p[r.IntN(at+1):at], p[at:])...)
				}
				one, all := findings(t, p, ref.Records, false), findings(t, p, ref.Records, true)
				if one != all {
					t.Fatalf("%s: block %d:\n%s\nwant\n%s", path, ref.Number, one, all)
				}
				found[one] = true
			}
		}
	}
	for range 3000 {
		p := trailtest.Runs(r)
		one, all := findings(t, p, 10, false), findings(t, p, 10, true)
		if one != all {
			t.Fatalf("%q:\n%s\nwant\n%s", p, one, all)
		}
	}
	if len(found) < 500 {
		t.Errorf("only %d different findings", len(found))
	}
}

// TestNumbersThatDoNotFollowAreNotPlain has a number that is too great for another to follow, and one that is the first.
func TestNumbersThatDoNotFollowAreNotPlain(t *testing.T) {
	for _, records := range [][]*trailtest.Record{
		{{Kind: format.KindStatement, Seq: math.MaxUint64}, {Kind: format.KindStatement, Unnumbered: true}},
		{{Kind: format.KindStart, Unnumbered: true}, {Kind: format.KindStatement}, {Kind: format.KindStatement}},
	} {
		b := trailtest.NewBuilder(trailtest.Epoch)
		s := trailtest.NewSession(trailtest.Epoch, 1)
		for _, r := range records {
			r.Session, r.Time = s, trailtest.Epoch
			b.Add(r)
		}
		var chain [32]byte
		payload := b.Finish(format.CodecNone, 1, 1, &chain)[format.BlockHeaderSize:]
		if one, all := findings(t, payload, b.Records, false), findings(t, payload, b.Records, true); one != all {
			t.Errorf("%s\nwant\n%s", one, all)
		}
	}
}

// TestRecordsBeforeWhatCannotBeReadAreThere has a block that ends with an item that is not understood: the records before
// it are shown by cat, and their numbers are not missing.
func TestRecordsBeforeWhatCannotBeReadAreThere(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	note := func(b *trailtest.Builder) {
		b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: trailtest.Epoch, Text: "a note"})
	}
	b := trailtest.NewBuilder(trailtest.Epoch)
	note(b)
	note(b)
	b.Item(format.KindStatement, []byte{77}) // of a session that is not defined
	s.Write(t, b)
	b = trailtest.NewBuilder(trailtest.Epoch)
	note(b)
	s.Write(t, b)
	r := verified(t, dir)
	if len(r.Problems) != 1 || !says(r, "block 1: byte .* statement: ends too early") || r.Records != 3 {
		t.Errorf("%d records, %v", r.Records, r.Problems)
	}
}

package verify

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// fourSegments writes a stream of four segments with a record each.
func fourSegments(t *testing.T) (dir string, s *trailtest.Stream, writer *trailtest.Session) {
	dir = t.TempDir()
	s = trailtest.NewStream(t, dir, 0)
	writer = trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyBackendType, Value: format.WriterBackendType})
	session := trailtest.NewSession(trailtest.Epoch, 2)
	for i := range 4 {
		if i > 0 {
			s.Rotate(t, trailtest.Epoch+int64(i))
		}
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: trailtest.Epoch, Text: "x"})
		s.Write(t, b)
	}
	return dir, s, writer
}

func TestWhatWasDeletedByPolicyIsNotMissing(t *testing.T) {
	for name, c := range map[string]struct {
		remove  []uint64
		deleted func(s *trailtest.Stream, w *trailtest.Session)
		want    string // empty: the trail is whole
	}{
		"nothing deleted, nothing recorded": {},
		"missing":                           {remove: []uint64{1}, want: "segment 1 is missing, and was not deleted by retention"},
		"deleted":                           {remove: []uint64{1, 2}, deleted: func(s *trailtest.Stream, w *trailtest.Session) { s.Delete(t, w, s, 1, 2) }},
		"recorded, and not deleted yet":     {deleted: func(s *trailtest.Stream, w *trailtest.Session) { s.Delete(t, w, s, 1, 2) }},
		"half of it deleted":                {remove: []uint64{1}, deleted: func(s *trailtest.Stream, w *trailtest.Session) { s.Delete(t, w, s, 1, 2) }},
		"one more is missing":               {remove: []uint64{1, 2, 3}, deleted: func(s *trailtest.Stream, w *trailtest.Session) { s.Delete(t, w, s, 1, 2) }, want: "segment 3 is missing"},
		"a hole":                            {remove: []uint64{1, 3}, deleted: func(s *trailtest.Stream, w *trailtest.Session) { s.Delete(t, w, s, 1, 1) }, want: "segment 3 is missing"},
		"deleted from the second on":        {remove: []uint64{1, 2}, deleted: func(s *trailtest.Stream, w *trailtest.Session) { s.Delete(t, w, s, 2, 2) }, want: "segment 1 is missing"},
		"two records": {remove: []uint64{1, 2}, deleted: func(s *trailtest.Stream, w *trailtest.Session) {
			s.Delete(t, w, s, 1, 1)
			s.Delete(t, w, s, 2, 2)
		}},
		"another chain": {remove: []uint64{1, 2}, deleted: func(s *trailtest.Stream, w *trailtest.Session) {
			d := s.Delete(t, w, s, 1, 2)
			d.Chain[31] ^= 1
			s.WriteDeletion(t, w, &d)
		}, want: "the segment does not follow from segment 2, according to the record of its deletion"},
		"other numbers": {remove: []uint64{1, 2}, deleted: func(s *trailtest.Stream, w *trailtest.Session) {
			d := s.Delete(t, w, s, 1, 2)
			d.LastBlock++
			s.WriteDeletion(t, w, &d)
		}, want: "segment begins with block 3 instead of 4"},
		"segments that had gone before": {remove: []uint64{1, 2}, deleted: func(s *trailtest.Stream, w *trailtest.Session) {
			d := s.Delete(t, w, s, 1, 2)
			d.Missing = 1
			s.WriteDeletion(t, w, &d)
		}, want: "1 of the segments 1 to 2 had disappeared before the server deleted them"},
		"a record of another stream": {remove: []uint64{1, 2}, deleted: func(s *trailtest.Stream, w *trailtest.Session) {
			d := s.Delete(t, w, s, 1, 2)
			os.WriteFile(filepath.Join(filepath.Dir(s.Dir), "retention"), nil, 0o600)
			os.WriteFile(s.SegmentPath(1), nil, 0o600)
			d.Stream = 3
			s.WriteDeletion(t, w, &d)
			os.Remove(s.SegmentPath(1))
		}},
		"only another stream's": {remove: []uint64{1}, deleted: func(s *trailtest.Stream, w *trailtest.Session) {
			s.WriteDeletion(t, w, &trail.Deletion{Stream: 3, Reason: "age", FirstSegment: 1, LastSegment: 2, SinceSegment: 1})
		}, want: "segment 1 is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s, w := fourSegments(t)
			if c.deleted != nil {
				c.deleted(s, w)
			}
			for _, n := range c.remove {
				os.Remove(s.SegmentPath(n))
			}
			r := verified(t, dir)
			if c.want == "" && !r.Whole {
				t.Errorf("got %v", r.Problems)
			}
			if c.want != "" && (len(r.Problems) == 0 || !strings.Contains(r.Problems[0].What, c.want)) {
				t.Errorf("got %v, want %q", r.Problems, c.want)
			}
		})
	}
}

func TestSegmentsMayBeDeletedWhileTheyAreVerified(t *testing.T) {
	for _, byPolicy := range []bool{true, false} {
		for _, gone := range [][]uint64{{1}, {1, 2}, {2}} {
			dir, s, w := fourSegments(t)
			tr, err := trail.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if byPolicy {
				s.Delete(t, w, s, 1, 2)
			}
			for _, n := range gone {
				os.Remove(s.SegmentPath(n))
			}
			r, err := Trail(context.Background(), tr, nil, Checks{})
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("by policy: %t, gone: %d", byPolicy, gone)
			if r.Whole != byPolicy {
				t.Errorf("%s: %v", what, r.Problems)
			}
			if r.outdated != (byPolicy && gone[0] == 2) {
				t.Errorf("%s: outdated: %t", what, r.outdated)
			}
		}
	}
}

// TestADeletionThatNoSealCoversExcusesNothing: anybody who has the files can write a
// record of a deletion.
func TestADeletionThatNoSealCoversExcusesNothing(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir, s, w := fourSegments(t)
	s.Delete(t, w, s, 1, 2)
	for _, n := range []uint64{1, 2} {
		os.Remove(s.SegmentPath(n))
	}
	tr, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Trail(context.Background(), tr, nil, Checks{Keys: seal.Keys{seal.KeyID(public): public}})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Unreadable) != 1 || !strings.Contains(report.Unreadable[0].What, "segments 1 to 2 are missing, and the record of their deletion by retention is not sealed") {
		t.Errorf("got %v", report.Unreadable)
	}
}

// TestADeletionBehindTheAnchorsIsNotProvedByThem: without a key, what stands behind the
// last anchor may be anybody's.
func TestADeletionBehindTheAnchorsIsNotProvedByThem(t *testing.T) {
	for anchored, want := range map[uint64]int{4: 1, 5: 0} { // the record is in block 5
		dir, s, w := fourSegments(t)
		s.Delete(t, w, s, 1, 2)
		for _, n := range []uint64{1, 2} {
			os.Remove(s.SegmentPath(n))
		}
		tr, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		refs, _ := tr.Streams[0].Segments[1].Index()
		a := &seal.Anchor{From: "anchors:1"}
		for i := range refs {
			if refs[i].Number == anchored {
				a.Block, a.Record = anchored, anchored // a record in each block
				a.SystemID = tr.Streams[0].Segments[1].Header.SystemID
				a.Hash = refs[i].Chain
			}
		}
		report, err := Trail(context.Background(), tr, nil, Checks{Anchors: []*seal.Anchor{a}})
		if err != nil {
			t.Fatal(err)
		}
		if !report.Whole {
			t.Errorf("block %d: %v %v", anchored, report.Problems, report.Unreadable)
		}
		told := 0
		for _, p := range report.Warnings {
			if strings.Contains(p.What, "segments 1 to 2 are missing, and the record of their deletion by retention comes after the anchors") {
				told++
			}
		}
		if told != want {
			t.Errorf("block %d: %v", anchored, report.Warnings)
		}
	}
}

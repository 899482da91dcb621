package recovery

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// What readers show of a segment that lacks bytes anywhere, or has some that do not
// belong there, is what is copied as whole.
func TestWhatReadersShowIsCopied(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 9))
	for round := range 200 {
		dir := t.TempDir()
		paths, _ := blocks(t, dir, 6, []format.Codec{format.CodecNone, format.CodecLz4}[round%2])
		path := paths[3]
		data, _ := os.ReadFile(path)
		for range 1 + rnd.IntN(3) {
			from := format.SegmentHeaderSize + rnd.IntN(len(data)-format.SegmentHeaderSize)
			to := min(from+1+rnd.IntN(100), len(data))
			if rnd.IntN(2) == 0 {
				data = slices.Concat(data[:from], data[to:])
			} else {
				data = slices.Concat(data[:to], data[from:])
			}
		}
		os.WriteFile(path, data, 0o600)
		var shown, copied []int64
		tr, err := trail.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var files trail.Files
		refs, _ := tr.Streams[0].Segments[0].Index()
		for i := range refs {
			if files.Read(&refs[i], &format.Block{}) == nil {
				shown = append(shown, refs[i].Offset)
			}
		}
		files.Close()
		s := &scanner{seg: &trail.Segment{}, r: bytes.NewReader(data), size: int64(len(data)), last: true, each: func(p *piece, _ []byte) error {
			if p.whole {
				copied = append(copied, p.offset)
			}
			return nil
		}}
		if err := s.scan(format.SegmentHeaderSize); err != nil || !slices.Equal(shown, copied) {
			t.Errorf("round %d: %v: blocks at %d are shown, those at %d are copied", round, err, shown, copied)
		}
	}
}

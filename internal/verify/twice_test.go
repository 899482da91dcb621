package verify

import (
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// TestBlocksOfTwoTrailsCountOnce has a trail and copies of it: the same, an older one, and one that continued otherwise.
func TestBlocksOfTwoTrailsCountOnce(t *testing.T) {
	s := newSuite(t)
	verify := func(all ...files) *Report {
		var trails []*trail.Trail
		for _, f := range all {
			dir := t.TempDir()
			f.write(t, dir)
			one, err := trail.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			trails = append(trails, one)
		}
		r, err := Trail(t.Context(), trail.Join(trails...), nil, Checks{Keys: s.keys})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	alone := verify(s.original)
	told := func(r *Report, what string) {
		t.Helper()
		n := 0
		for _, w := range r.Warnings {
			if strings.Contains(w.What, what) {
				n++
			}
		}
		if n != 1 || !r.Whole || r.Records != alone.Records || r.Blocks != alone.Blocks || r.Sessions != alone.Sessions || r.OpenSessions != alone.OpenSessions {
			t.Errorf("%d warnings, %d records, %d blocks instead of %d and %d: %v, warnings %v", n, r.Records, r.Blocks, alone.Records, alone.Blocks, r.Problems, r.Warnings)
		}
	}
	told(verify(s.original, s.original), "the same trail twice")
	// without its last segments, and the last blocks of another one
	older := s.original.clone()
	for stream := range older {
		for n := range older[stream] {
			if n > 2 {
				delete(older[stream], n)
			}
		}
		data := older[stream][2]
		at := blocks(data)
		older[stream][2] = data[:at[len(at)-2]]
	}
	told(verify(older, s.original), "the same trail twice")
	told(verify(s.original, older), "the same trail twice")

	// damage of one of them is damage, though the other has the block
	damaged := s.original.clone()
	at := blocks(damaged[0][1])
	damaged[0][1][at[1]+trail.BlockHeaderSize+10] ^= 1
	if r := verify(damaged, s.original); r.Whole || !says(r, "checksum") {
		t.Errorf("a damaged copy: %v", r.Problems)
	}
	// the end of one of them is another one
	if r := verify(s.original, s.original.clone().appended(0, 2, false)); r.Blocks != alone.Blocks+2 || r.Records != alone.Records+2 {
		t.Errorf("%d blocks instead of %d", r.Blocks, alone.Blocks+2)
	}
	forked := older.clone().appended(0, 1, false)
	if r := verify(s.original, forked); r.Blocks != alone.Blocks+1 || r.Records != alone.Records+1 {
		t.Errorf("%d blocks instead of %d: %v", r.Blocks, alone.Blocks+1, r.Problems)
	}
}

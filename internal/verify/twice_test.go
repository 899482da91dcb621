package verify

import (
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// TestBlocksOfTwoTrailsCountOnce has a trail and copies of it: the same, an older one, and one that continued otherwise.
func TestBlocksOfTwoTrailsCountOnce(t *testing.T) {
	s := newSuite(t)
	join := func(all ...files) *trail.Trail {
		t.Helper()
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
		return trail.Join(trails...)
	}
	verify := func(all ...files) *Report {
		t.Helper()
		r, err := Trail(t.Context(), join(all...), nil, Checks{Keys: s.keys})
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
	damaged[0][1][at[1]+format.BlockHeaderSize+10] ^= 1
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

	// whoever reads both reads each record once, and leaves out only a trail of which the other one has all
	for _, one := range []struct {
		all     []files
		more    int64
		streams int
	}{
		{[]files{s.original, s.original.clone()}, 0, 2}, {[]files{older, s.original}, 0, 2}, {[]files{s.original, forked}, 1, 3}, {[]files{forked, s.original}, 1, 3},
		{[]files{s.original, s.original.clone().appended(0, 2, false)}, 2, 2},
	} {
		both := join(one.all...)
		records := int64(0)
		scan := both.Index().Scan(t.Context(), trail.ScanOptions{Since: format.MinTime, Until: format.MaxTime, Parts: true, Raw: true, Warn: func(err error) { t.Error(err) }})
		for r := scan.Reader(); r.Next(); {
			if r.Record.Kind != format.KindData {
				records++
			}
		}
		scan.Close()
		if got := len(both.UniqueStreams()); records != alone.Records+one.more || got != one.streams {
			t.Errorf("%d records instead of %d, %d streams instead of %d", records, alone.Records+one.more, got, one.streams)
		}
	}
}

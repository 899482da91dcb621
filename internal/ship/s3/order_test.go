package s3

import (
	"slices"
	"testing"
	"time"
)

// TestLinesAreInTheOrderInWhichTheyWereWritten: of two that have a beginning in common, what is behind it counts, whatever
// their names are.
func TestLinesAreInTheOrderInWhichTheyWereWritten(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	part := func(from, size int64, second int) *stored {
		return &stored{object: object{from: from}, size: size, since: at(second)}
	}
	for _, c := range []struct {
		name        string
		first       []*stored // of the line that is made first
		second      []*stored
		left        int64
		secondFirst bool
	}{
		{"other from the first block, later", []*stored{part(0, 9, 1)}, []*stored{part(0, 9, 2)}, 0, false},
		{"other from the first block, sooner", []*stored{part(0, 9, 2)}, []*stored{part(0, 9, 1)}, 0, true},
		{"a common beginning, later", []*stored{part(0, 5, 1), part(5, 5, 2)}, []*stored{part(5, 5, 3)}, 5, false},
		{"a common beginning, sooner", []*stored{part(0, 5, 1), part(5, 5, 3)}, []*stored{part(5, 5, 2)}, 5, true},
		{"in the same moment", []*stored{part(0, 9, 1)}, []*stored{part(0, 9, 1)}, 0, false},
	} {
		first := &line{since: c.first[0].since, parts: c.first}
		second := &line{since: c.second[0].since, parts: c.second, parent: first, left: c.left}
		lines := []*line{first, second}
		order(lines)
		if slices.Index(lines, second) == 0 != c.secondFirst {
			t.Errorf("%s: the order is wrong", c.name)
		}
	}
}

// Trails that have the same blocks, such as those of a server and of its standby.

package verify

import (
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// twice counts the blocks that two trails have. They are checked in both, and their records count once.
type twice struct {
	blocks map[string]int64           // of each trail with such blocks, or whose blocks they are
	copies map[string]int64           // those of them that count in another trail
	others map[string]map[string]bool // the trails that have these, too
}

func (t *twice) note(ref *trail.BlockRef) {
	twins := ref.Segment.Twins()
	if t.blocks == nil {
		t.blocks, t.copies, t.others = map[string]int64{}, map[string]int64{}, map[string]map[string]bool{}
	}
	of := homeOf(ref.Segment.Stream).trail
	t.blocks[of]++
	if !ref.Twice {
		return
	}
	t.copies[of]++
	if t.others[of] == nil {
		t.others[of] = map[string]bool{}
	}
	for _, twin := range twins {
		t.others[of][homeOf(twin.Stream).trail] = true
	}
}

// tellTwice says once of each trail how many of its blocks another one has.
func (v *verifier) tellTwice() {
	for _, of := range slices.Sorted(maps.Keys(v.twice.copies)) {
		n, all := v.twice.copies[of], v.twice.blocks[of]
		others := strings.Join(slices.Sorted(maps.Keys(v.twice.others[of])), " and ")
		v.report.Copies += n
		if n == all {
			v.warning(of, nil, "the same trail twice: all of its %s blocks are also in %s; they were checked in both, and are counted once", humanize.Comma(n), others)
			continue
		}
		v.warning(of, nil, "%s of its %s blocks are also in %s, as those of a standby are in the trail of its primary; they were checked in both, and are counted once", humanize.Comma(n), humanize.Comma(all), others)
	}
}

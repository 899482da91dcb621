// Trails that have the same blocks, such as those of a server and its standby.

package verify

import (
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// copiedBlocks counts the blocks that two trails have. They are checked in both trails, but their records count
// once.
type copiedBlocks struct {
	blocks map[string]int64           // by trail, for trails that have such blocks, or from which they are copied
	copies map[string]int64           // those that count in another trail
	others map[string]map[string]bool // the other trails that have them
}

func (t *copiedBlocks) note(ref *trail.BlockRef) {
	twins := ref.Segment.Duplicates()
	if t.blocks == nil {
		t.blocks, t.copies, t.others = map[string]int64{}, map[string]int64{}, map[string]map[string]bool{}
	}
	of := streamIDOf(ref.Segment.Stream).trail
	t.blocks[of]++
	if !ref.Duplicate {
		return
	}
	t.copies[of]++
	if t.others[of] == nil {
		t.others[of] = map[string]bool{}
	}
	for _, twin := range twins {
		t.others[of][streamIDOf(twin.Stream).trail] = true
	}
}

// warnOfCopies reports once for each trail how many of its blocks another one has.
func (v *verifier) warnOfCopies() {
	for _, of := range slices.Sorted(maps.Keys(v.twice.copies)) {
		n, all := v.twice.copies[of], v.twice.blocks[of]
		others := strings.Join(slices.Sorted(maps.Keys(v.twice.others[of])), " and ")
		v.report.Copies += n
		if n == all {
			v.warn(of, nil,
				"the same trail twice: all of its %s blocks are also in %s; they were checked in both, and are "+
					"counted once", humanize.Comma(n), others)
			continue
		}
		v.warn(of, nil,
			"%s of its %s blocks are also in %s, as those of a standby are in the trail of its primary; they were "+
				"checked in both, and are counted once", humanize.Comma(n), humanize.Comma(all), others)
	}
}

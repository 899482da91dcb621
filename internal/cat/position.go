package cat

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Position is a block of a stream. Block 0 is the segment's first.
type Position struct {
	Stream  uint32
	Segment uint64
	Block   uint64
}

// ParsePosition reads STREAM/SEGMENT/BLOCK, or STREAM/SEGMENT.
func ParsePosition(s string) (p Position, ok bool) {
	words := strings.Split(s, "/")
	if len(words) != 2 && len(words) != 3 {
		return p, false
	}
	number := func(i, bits int, least uint64) uint64 {
		n, err := strconv.ParseUint(words[i], 10, bits)
		ok = ok && err == nil && n >= least && strconv.FormatUint(n, 10) == words[i]
		return n
	}
	ok = true
	p.Stream, p.Segment = uint32(number(0, 32, 0)), number(1, 63, 1)
	if len(words) == 3 {
		p.Block = number(2, 63, 1)
	}
	return p, ok
}

// PositionFlags choose blocks by their place: what a slot wants, up to a position.
type PositionFlags struct {
	Slot   string
	Before string

	wants func(trail, slot string) (func(stream uint32) uint64, error)
}

// Add adds the flags to a command.
func (o *PositionFlags) Add(cmd *cobra.Command, f *cmdutil.Factory) {
	o.wants = f.SlotWants
	cmd.Flags().StringVar(&o.Slot, "slot", "", "only records in blocks that this `slot` wants")
	cmd.Flags().StringVar(&o.Before, "before", "", "only records in blocks before this `position`, which \"steno slot end\" printed")
}

// blocks makes the choice; nil is all blocks.
func (o *PositionFlags) blocks(t *trail.Trail) (func(*trail.BlockRef) bool, error) {
	if o.Slot == "" && o.Before == "" {
		return nil, nil
	}
	if !t.Whole || t.Path == "" {
		return nil, cmdutil.Usagef("--slot and --before go with one trail")
	}
	from := func(uint32) uint64 { return 0 }
	if o.Slot != "" {
		var err error
		if from, err = o.wants(t.Path, o.Slot); err != nil {
			return nil, err
		}
	}
	if o.Before == "" {
		return func(r *trail.BlockRef) bool { return r.Number >= from(r.Segment.Stream.Number) }, nil
	}
	before := map[uint32]uint64{}
	for _, word := range strings.Split(o.Before, ",") {
		p, ok := ParsePosition(word)
		if !ok || p.Block == 0 {
			return nil, cmdutil.Usagef("--before: %q is not a position, such as 0/17/20311", word)
		}
		before[p.Stream] = p.Block
	}
	return func(r *trail.BlockRef) bool {
		n := r.Segment.Stream.Number
		return r.Number >= from(n) && r.Number < before[n]
	}, nil
}

// The blocks and days of an export, and the hash chain of the blocks.

package export

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// extent is the part of a trail that an export reads: the blocks of each stream, and the days that have
// records.
type extent struct {
	streams []Stream
	days    []int64 // since 1970-01-01, in order
	damage  []Problem
	gaps    Gaps
}

// day is the length of a day in microseconds, and epochDay the day on which the trail's time begins.
const (
	day      = 86400 * 1e6
	epochDay = 10957
)

// dayOf returns the day of a time, since 1970-01-01.
func dayOf(t int64) int64 {
	d := t / day
	if t%day < 0 {
		d--
	}
	return d + epochDay
}

// streamKey identifies a stream: streams of two trails can have the same number.
func streamKey(s *trail.Stream) string {
	path := s.Path
	if !s.Whole {
		path = s.Segments[0].Path
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// measure determines what an export reads. Blocks outside of from and to do not count; nil: all do.
func measure(
	ctx context.Context, x *trail.Index, filter *query.Filter, within query.Range, wanted func(*trail.BlockRef) bool,
) (*extent, error) {
	e := &extent{}
	files := &trail.Files{}
	defer files.Close()
	days := map[int64]bool{}
	wide := map[*trail.Segment]map[uint64]bool{} // blocks with records of more than one day
	for i := range x.Streams {
		s := &x.Streams[i]
		refs := s.Between(within.Since, within.Until)
		first, last := -1, -1
		for k := range refs {
			ref := &refs[k]
			if ref.Records == 0 || ref.LastEnd < within.Since ||
				ref.FirstTime >= within.Until && within.Until != format.MaxTime || wanted != nil && !wanted(ref) {
				continue
			}
			if first < 0 {
				first = k
			}
			last = k
			if a, b := dayOf(max(ref.FirstTime, within.Since)), dayOf(min(ref.LastEnd, within.Until)); a == b {
				days[a] = true
			} else {
				if wide[ref.Segment] == nil {
					wide[ref.Segment] = map[uint64]bool{}
				}
				wide[ref.Segment][ref.Number] = true
			}
		}
		if first < 0 {
			continue
		}
		chain, err := e.chainOf(ctx, files, s.Stream, refs, first, last)
		if err != nil {
			return nil, err
		}
		e.streams = append(e.streams, *chain)
	}
	e.readDays(ctx, x, filter, within, wide, days)
	e.days = slices.Sorted(maps.Keys(days))
	return e, ctx.Err()
}

// chainOf follows the hash chain of a stream over some of its blocks.
func (e *extent) chainOf(
	ctx context.Context, files *trail.Files, of *trail.Stream, refs []trail.BlockRef, first, last int,
) (*Stream, error) {
	s := &Stream{
		Path:     streamKey(of),
		SystemID: strconv.FormatUint(refs[first].Segment.Header.SystemID, 10),
		Number:   of.Number,
	}
	s.First = Point{Segment: refs[first].Segment.Number, Block: refs[first].Number}
	s.Last = Point{Segment: refs[last].Segment.Number, Block: refs[last].Number}
	var b format.Block
	var previous [32]byte
	known := true
	if ref := &refs[first]; first > 0 && refs[first-1].Segment == ref.Segment {
		previous = refs[first-1].Chain
		s.Before = hex.EncodeToString(previous[:])
	} else {
		s.Before = hex.EncodeToString(ref.Segment.Header.PreviousHash[:])
	}
	for k := first; k <= last; k++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ref := &refs[k]
		begins := k == 0 || refs[k-1].Segment != ref.Segment
		if k > first && begins && known && ref.Number == refs[k-1].Number+1 &&
			ref.Segment.Header.PreviousHash != previous && !ref.AfterDamage {
			e.damaged(of, ref, "chain is broken: segment %d does not follow from what precedes it",
				ref.Segment.Number)
		}
		// Otherwise, the reader reports it.
		if k > first && ref.Number != refs[k-1].Number+1 &&
			(!begins || ref.Segment.Number == refs[k-1].Segment.Number+1) {
			e.damaged(of, ref, "blocks %d to %d are missing", refs[k-1].Number+1, ref.Number-1)
		}
		if begins {
			previous = ref.Segment.Header.Hash
		}
		err := files.Read(ref, &b)
		if b.Header.Number != ref.Number {
			known = false // the reader of the records reports why
			continue
		}
		if (known || begins) && !ref.AfterDamage && (err == nil || err == ref.Segment.KeyErr) &&
			b.ChainHash(previous) != b.Header.Chain {
			e.damaged(of, ref, "chain is broken: block %d does not follow from what precedes it", ref.Number)
		}
		previous, known = b.Header.Chain, true
		s.Blocks++
		if k == first {
			s.First.Hash = hex.EncodeToString(previous[:])
		}
		if k == last {
			s.Last.Hash = hex.EncodeToString(previous[:])
		}
	}
	return s, nil
}

func (e *extent) damaged(of *trail.Stream, ref *trail.BlockRef, format string, args ...any) {
	e.damage = append(e.damage, Problem{"damaged", fmt.Sprintf("%s: offset %d: ", ref.Segment.Path, ref.Offset) +
		fmt.Sprintf(format, args...)})
}

// readDays reads blocks with records of several days, and blocks with gap records. What cannot be read is
// reported when the records are exported.
func (e *extent) readDays(
	ctx context.Context, x *trail.Index, filter *query.Filter, within query.Range,
	wide map[*trail.Segment]map[uint64]bool, days map[int64]bool,
) {
	read := func(o trail.ScanOptions, see func(*format.Record)) {
		o.Since, o.Until, o.Warn = within.Since, within.Until, func(error) {}
		scan := x.Scan(ctx, o)
		defer scan.Close()
		for r := scan.Reader(); r.Next(); {
			see(&r.Record)
		}
	}
	inside := e.blocks()
	if len(wide) > 0 {
		read(trail.ScanOptions{Raw: true, Blocks: func(r *trail.BlockRef) bool {
			return wide[r.Segment][r.Number]
		}}, func(r *format.Record) {
			days[dayOf(r.Time)] = true
		})
	}
	read(trail.ScanOptions{Raw: true, Blocks: inside, Contents: func(c *format.Contents) format.Groups {
		return c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return k == format.KindGap })
	}}, func(r *format.Record) {
		if r.Kind != format.KindGap {
			return
		}
		e.gaps.Records++
		for name, value := range r.ExtraPairs {
			if n, err := strconv.ParseUint(string(value), 10, 63); err == nil && string(name) == "count" {
				e.gaps.Lost += n
			}
		}
	})
}

// blocks returns which blocks an export reads.
func (e *extent) blocks() func(*trail.BlockRef) bool { return blocksOf(e.streams) }

func blocksOf(streams []Stream) func(*trail.BlockRef) bool {
	of := map[string]*Stream{}
	for i := range streams {
		of[streams[i].Path] = &streams[i]
	}

	return func(r *trail.BlockRef) bool {
		s := of[streamKey(r.Segment.Stream)]
		return s != nil && r.Number >= s.First.Block && r.Number <= s.Last.Block
	}
}

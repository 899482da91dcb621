// The last records of a trail.

package trail

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
)

// position orders records: by time, session, sequence number, and then by their order in a block, so that no
// two records of a block are equal.
type position struct {
	time   int64
	id     format.RecordID
	number uint64
}

func positionOf(r *format.Record) position {
	return position{r.Time, r.ID(), r.Number}
}

// startOf returns the position before all records of a time.
func startOf(time int64) position {
	return position{time: time, id: format.RecordID{Session: format.SessionID{Start: math.MinInt64}}}
}

// compare orders positions in one block. It also orders those in different streams, whose record numbers are
// not related.
func (p *position) compare(o *position) int {
	if c := cmp.Compare(p.time, o.time); c != 0 {
		return c
	}
	return cmp.Or(p.id.Session.Compare(o.id.Session), cmp.Compare(p.id.Seq, o.id.Seq),
		cmp.Compare(p.number, o.number))
}

// extremes keeps the first or last n of many positions, in memory for 2n.
type extremes struct {
	n     int
	order func(a, b position) int
	kept  []position
	full  bool // the n-th of kept[:n] is the bound for positions to keep
}

func first(n int) *extremes {
	return &extremes{n: n, order: func(a, b position) int { return a.compare(&b) }}
}

func last(n int) *extremes {
	return &extremes{n: n, order: func(a, b position) int { return b.compare(&a) }}
}

func (e *extremes) add(p position) {
	if e.full && e.order(p, e.kept[e.n-1]) >= 0 {
		return
	}
	if e.kept = append(e.kept, p); len(e.kept) >= 2*e.n+64 {
		e.trim()
	}
}

// trim sorts the kept positions, the most extreme first, and drops those after the n-th.
func (e *extremes) trim() {
	slices.SortFunc(e.kept, e.order)
	if len(e.kept) >= e.n {
		e.kept, e.full = e.kept[:e.n], true
	}
}

// Last emits the lines of the last n records that the formatter keeps, in the order of Merge. It reads blocks
// from the end until it knows where these records begin.
func (x *Index) Last(ctx context.Context, n int, opts MergeOptions, emit func(line []byte) error) error {
	files := &Files{}
	defer files.Close()
	var segments []*SegmentIndex
	for i := range x.Streams {
		for k := range x.Streams[i].Segments {
			if s := &x.Streams[i].Segments[k]; s.Records > 0 && s.Segment.KeyErr == nil {
				segments = append(segments, s)
			}
		}
	}
	slices.SortStableFunc(segments, func(a, b *SegmentIndex) int { return cmp.Compare(b.LastEnd, a.LastEnd) })
	f := opts.NewFormatter()
	found := last(n)
	enough := func(lastEnd int64) bool { return found.full && lastEnd < found.kept[n-1].time }
	j := &joiner{ctx, x, files}
	var b format.Block
	for _, s := range segments {
		if enough(s.LastEnd) {
			break
		}
		refs, _ := s.refs() // Merge reports problems
		refs = opts.skip(files, refs)
		slices.SortStableFunc(refs, func(a, b BlockRef) int { return cmp.Compare(b.LastEnd, a.LastEnd) })
		for i := range refs {
			ref := &refs[i]
			if err := ctx.Err(); err != nil {
				return err
			}
			if ref.Records == 0 || ref.FirstTime >= opts.Until && opts.Until != format.MaxTime {
				continue
			}
			if enough(ref.LastEnd) {
				break
			}
			if err := files.Read(ref, &b); err != nil {
				continue // Merge reports it
			}
			f.Start(ref)
			due := func(r *format.Record) bool {
				return r.Time >= opts.Since && (r.Time < opts.Until || opts.Until == format.MaxTime)
			}
			maybe := func(r *format.Record) bool { return due(r) && mayKeep(f, r) }
			j.records(&b, ref, maybe, func(r *format.Record) {
				if due(r) && f.Keep(r) {
					found.add(positionOf(r))
				}
			})
			found.trim()
		}
	}
	if n := len(found.kept); n > 0 {
		from := found.kept[n-1]
		opts.Since, opts.from = max(opts.Since, from.time), &from
	}
	return x.Merge(ctx, opts, emit)
}

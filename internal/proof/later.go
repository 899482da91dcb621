// Reads records after a range that are about it: how the run of the server ended, and what had been lost.

package proof

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// drained is the longest time that a record stays in its ring if the writer keeps up: the largest
// steno.flush_interval.
const drained = 10 * second

// later collects from records after a range what they say about it.
type later struct {
	exclusions *Exclusions
	index      *trail.Index
	blocks     func(*trail.BlockRef) bool
	warn       func(error)
	end        int64 // of the trail
	noted      map[format.SessionID]laterGap
}

// laterGap is the first gap record of a session after the range.
type laterGap struct {
	gap
	first uint64 // number of the first lost record; 0: not known
}

// read reads from the end of the range to the next start of the server.
func (l *later) read(ctx context.Context) {
	a := l.exclusions.conditions.eval
	l.noted = map[format.SessionID]laterGap{}
	var mu sync.Mutex
	started := false
	for from, until := range steps(a.until, l.end, 60*second) {
		l.index.Read(ctx, trail.ScanOptions{
			Since: from, Until: until, Blocks: l.blocks, Warn: l.warn,
			Contents: func(c *format.Contents) format.Groups {
				return c.SelectResult(func(k format.Kind, _ format.Outcome) bool {
					return k == format.KindServer || k == format.KindGap
				})
			},
		}, func(_ int, reader *trail.ScanReader) {
			for reader.Next() {
				r := &reader.Record
				switch r.Kind {
				case format.KindServer:
					l.exclusions.Record(r, reader.Ref)
					mu.Lock()
					started = started || isStart(r)
					mu.Unlock()
				case format.KindGap:
					mu.Lock()
					l.addGap(r)
					mu.Unlock()
				}
			}
		})
		if started || ctx.Err() != nil {
			break
		}
	}
	l.dropLater(ctx)
}

// steps divides a time, both ends included, into ranges that double in length: the record to find is usually near the
// beginning.
func steps(from, to, first int64) iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		for length := uint64(first); from <= to; length *= 2 {
			until := int64(format.MaxTime)
			if rest := uint64(to) - uint64(from); length <= rest {
				until = from + int64(length)
			} else if to < format.MaxTime {
				until = to + 1
			}
			if !yield(from, until) || until > to || until == format.MaxTime {
				return
			}
			from = until
		}
	}
}

// addGap notes a gap record of a session that existed in the range.
func (l *later) addGap(r *format.Record) {
	id := r.Session.ID()
	if known, ok := l.noted[id]; id.Start >= l.exclusions.conditions.eval.until || ok && known.time <= r.Time {
		return
	}
	text := func(name string) string {
		v, _ := r.ExtraValue(name)
		return string(v)
	}
	var first uint64
	fmt.Sscan(text("first_seq"), &first)
	l.noted[id] = laterGap{gap{r.Time, text("count"), text("reason"), string(r.Session.Fact(format.KeyUser))}, first}
}

// dropLater forgets losses after the range: those before which their session has recorded something after the range.
func (l *later) dropLater(ctx context.Context) {
	until, last := l.exclusions.conditions.eval.until, int64(format.MinTime)
	open := map[format.SessionID]laterGap{}
	for id, one := range l.noted {
		if one.first > 0 {
			open[id] = one
			last = max(last, one.time)
		}
	}
	var mu sync.Mutex
	for from, until := range steps(until, last, 60*second) {
		if len(open) == 0 || ctx.Err() != nil {
			break
		}
		l.index.Read(ctx, trail.ScanOptions{Since: from, Until: until, Blocks: l.blocks, Warn: l.warn},
			func(_ int, reader *trail.ScanReader) {
				for reader.Next() {
					r := &reader.Record
					id := r.Session.ID()
					mu.Lock()
					if one, ok := open[id]; ok && r.Seq > 0 && r.Seq < one.first {
						delete(open, id)
						delete(l.noted, id)
					}
					mu.Unlock()
				}
			})
	}
}

// wroteAll reports whether a server recorded something so long after the range, and before a given time, that all
// records of the range had been written.
func (l *later) wroteAll(by *life, before int64) bool {
	from := l.exclusions.conditions.eval.until
	if from > format.MaxTime-drained {
		return false
	}
	from += drained
	for i := range l.index.Streams {
		if !slices.Contains(l.exclusions.conditions.livesOf(l.exclusions.streamKey(l.index.Streams[i].Stream)), by) {
			continue
		}
		for k := range l.index.Streams[i].Segments {
			one := &l.index.Streams[i].Segments[k]
			if one.Records == 0 || one.LastEnd < from || one.FirstTime >= before ||
				!l.blocks(&trail.BlockRef{Segment: one.Segment}) {
				continue
			}
			if one.FirstTime >= from {
				return true
			}
			for _, ref := range one.Refs() {
				if ref.Records > 0 && ref.LastEnd >= from && ref.FirstTime < before {
					return true
				}
			}
		}
	}
	return false
}

// listLost lists what had been lost.
func (l *later) listLost(except func(format string, args ...any)) {
	c := l.exclusions.conditions
	for _, e := range c.events {
		if e.time >= c.eval.until && e.since != 0 && e.since < c.eval.until &&
			(e.name == "failure" || e.name == "recovered") {
			except("the server reported %q at %s (%s)", e.name, render.Time(e.time), e.detail)
		}
	}
	records, sessions, at, unknown := 0, 0, int64(format.MaxTime), false
	for _, one := range l.noted {
		n := 0
		_, err := fmt.Sscan(one.count, &n)
		records, sessions, at, unknown = records+n, sessions+1, min(at, one.time), unknown || err != nil
	}
	if sessions > 0 {
		what := render.Plural(records, "record")
		if unknown {
			what = "records of unknown number"
		}
		except("%s of %s were lost before gap records were written, from %s on: they may have been of the period",
			what, render.Plural(sessions, "session"), render.Time(at))
	}
}

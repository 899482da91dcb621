// Renames outside of the time that is asked for, and in that of statements in SQL. Records have the names of
// their time: what had a name that is asked for before this time, or got it after, has records in it that are
// not found, although nothing was renamed in it.

package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// mostEvents is how many events are kept to follow names. If there are more, they are not followed, and every
// rename of a name that is asked for is told of.
const mostEvents = 100_000

// RenamedOutside is AllRenamedOutside for whoever reads an answer: the last ones.
func (f *Filter) RenamedOutside(ctx context.Context, x *trail.Index, since, until int64) (all []error) {
	renames := f.AllRenamedOutside(ctx, x, since, until)
	if left := len(renames) - mostRenames; left > 0 {
		all, renames = append(all, &RenamedError{Left: left}), renames[left:]
	}
	for _, one := range renames {
		all = append(all, one)
	}
	return all
}

// AllRenamedOutside tells of what had a name that the filter asks for before the time from since until before
// until, or has had it afterwards, and another name in this time. What got its name back, or did not exist in
// this time, is not told of, nor is what was rolled back. Indexes are read, and the blocks that have renames or
// have no index.
func (f *Filter) AllRenamedOutside(ctx context.Context, x *trail.Index, since, until int64) (all []*RenamedError) {
	if f.watched == nil || since == format.MinTime && until == format.MaxTime {
		return nil
	}
	events := &nameEvents{filter: f, since: since, until: until}
	events.scan(ctx, x, func(action format.Action, _ []byte) bool { return action == format.ActionRename })
	if !events.anyReported() {
		return nil
	}
	if names := events.names(); len(names) > 0 {
		events.scan(ctx, x, func(action format.Action, name []byte) bool {
			return (action == format.ActionCreate || action == format.ActionDrop) && names[string(name)]
		})
	}
	return events.errors()
}

// RenamedWithin tells of the renames of a time, for answers whose records no Hidden sees.
func (f *Filter) RenamedWithin(ctx context.Context, x *trail.Index, since, until int64) []error {
	if f.watched == nil {
		return nil
	}
	var hidden Hidden
	x.Read(ctx, trail.ScanOptions{
		Since: since, Until: until, Parts: true, Contents: f.watched.selectRenames,
		Want: format.Want{Shape: func(s *format.Shape) bool {
			return s != nil && len(s.Objects) > 0
		}, Always: f.isRename},
		Warn: func(error) {}, // of which whoever reads the answer is told
	}, func(_ int, r *trail.ScanReader) {
		for r.Next() {
			hidden.noteRenamed(&r.Record, slices.Collect(f.Renames(&r.Record)))
		}
	})
	return hidden.Errs()
}

// nameEvent is what became of a name: a rename, the end of what had it, or the beginning.
type nameEvent struct {
	action    format.Action
	kind      string // of objects that cannot have the same name
	database  string // and its server; empty for what all databases share
	from, to  string
	certain   bool // it has taken effect
	wanted    bool // by one of its names, the filter finds it; not by the other
	losesName bool // the one before
	renamed   Renamed
	endTime   int64 // when it ended
	seq       uint64
}

// nameEvents are those of a trail outside of a time. Its methods but scan are for one goroutine.
type nameEvents struct {
	filter       *Filter
	since, until int64

	mu            sync.Mutex
	before, after []nameEvent
	full          bool // there are more
}

// nameKind is the same for all types of objects that cannot have the same name.
func nameKind(objectType string) string {
	switch objectType {
	case "table", "view", "materialized view", "foreign table", "sequence", "index":
		return "relation"
	case "function", "procedure", "aggregate", "routine":
		return "function"
	}
	if strings.HasSuffix(objectType, " column") {
		return "column"
	}
	return objectType
}

// scan collects what happened to names.
func (h *nameEvents) scan(ctx context.Context, x *trail.Index, wanted func(format.Action, []byte) bool) {
	shape := func(s *format.Shape) bool {
		return slices.ContainsFunc(s.Objects, func(o format.Object) bool { return wanted(o.Action, o.Name) })
	}
	for _, span := range [][2]int64{{format.MinTime, h.since}, {h.until, format.MaxTime}} {
		if span[0] >= span[1] {
			continue
		}
		x.Read(ctx, trail.ScanOptions{
			Since: span[0], Until: span[1], Parts: true, Rollbacks: true,
			Contents: func(c *format.Contents) format.Groups {
				return c.Select(format.TermsObjects, func(v []byte) bool {
					return len(v) == 0 || wanted(format.Action(v[0]), v[1:])
				})
			},
			Want: format.Want{Shape: func(s *format.Shape) bool {
				return s != nil && len(s.Objects) > 0
			}, Always: shape},
			Warn: func(error) {}, // of which whoever reads the answer is told
		}, func(_ int, r *trail.ScanReader) {
			for r.Next() {
				if r.Record.Shape != nil && shape(r.Record.Shape) {
					h.record(&r.Record, r.Ref, wanted)
				}
			}
		})
	}
	order := func(a, b nameEvent) int { return cmp.Or(cmp.Compare(a.endTime, b.endTime), cmp.Compare(a.seq, b.seq)) }
	slices.SortStableFunc(h.before, order)
	slices.SortStableFunc(h.after, order)
}

// record takes a record.
func (h *nameEvents) record(r *format.Record, ref *trail.BlockRef, wanted func(format.Action, []byte) bool) {
	if r.Kind != format.KindStatement || r.Outcome == format.OutcomeError || r.Undone() ||
		r.Time >= h.since && r.Time < h.until {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	to := &h.before
	if r.Time >= h.until {
		to = &h.after
	}
	for i := range r.Shape.Objects {
		o := &r.Shape.Objects[i]
		if !wanted(o.Action, o.Name) {
			continue
		}
		event := nameEvent{
			action: o.Action, kind: nameKind(string(o.Type)), database: databaseOf(r, ref, string(o.Type)),
			from: string(o.Name), to: string(o.To),
			certain: r.Outcome == format.OutcomeOk && r.Effect == format.EffectCommitted, endTime: r.End(), seq: r.Seq,
		}
		if o.Action == format.ActionRename && h.filter.watched.matchesOneName(o, r.Session) {
			event.wanted, event.losesName = true, h.filter.watched.losesName(o)
			event.renamed = Renamed{
				Type: string(o.Type),
				Name: event.from,
				To:   event.to,
				Time: r.Time,
				User: string(r.Session.Fact(format.KeyUser)),
				Lost: event.losesName,
			}
		}
		if len(h.before)+len(h.after) >= mostEvents && !event.wanted {
			h.full = true
			continue
		}
		*to = append(*to, event)
	}
}

// databaseOf is where the name of an object is one.
func databaseOf(r *format.Record, ref *trail.BlockRef, objectType string) string {
	if isShared(objectType) {
		return ""
	}
	return strconv.FormatUint(ref.Segment.Header.SystemID, 10) + " " + string(r.Session.Fact(format.KeyDatabase))
}

// isReported says whether a rename may be one to tell of: before the time, its name was lost; after, it was got.
func (event *nameEvent) isReported(before bool) bool {
	return event.wanted && event.losesName == before
}

func (h *nameEvents) anyReported() bool {
	return slices.ContainsFunc(h.before, func(one nameEvent) bool { return one.isReported(true) }) ||
		slices.ContainsFunc(h.after, func(one nameEvent) bool { return one.isReported(false) })
}

// eventsAfter is what follows a rename: after it, if it was before the time, and before it, if it was after.
func (h *nameEvents) eventsAfter(i int, before bool) (start nameEvent, rest []nameEvent) {
	if before {
		return h.before[i], h.before[i+1:]
	}
	rest = slices.Clone(h.after[:i])
	slices.Reverse(rest)
	for k := range rest {
		rest[k] = rest[k].reversed()
	}
	return h.after[i].reversed(), rest
}

// reversed is what happened as it looks when time runs backwards.
func (event nameEvent) reversed() nameEvent {
	switch event.action {
	case format.ActionRename:
		event.from, event.to = event.to, event.from
	case format.ActionCreate:
		event.action = format.ActionDrop
	case format.ActionDrop:
		event.action = format.ActionCreate
	}
	return event
}

// followed is something that was renamed, or is in what was: the name that it had, and the one that it may have now.
type followed struct{ kind, was, name string }

// followRename returns what something that was renamed, and all in it that was renamed on the way, may be called in
// the time, and all names that it had on the way there. There is nothing that does not exist in the time.
func followRename(start *nameEvent, rest []nameEvent) (all map[followed]bool, passed map[string]bool) {
	all, passed = map[followed]bool{{start.kind, start.from, start.to}: true}, map[string]bool{start.to: true}
	if !start.certain {
		all[followed{start.kind, start.from, start.from}], passed[start.from] = true, true
	}
	for i := range rest {
		one := &rest[i]
		if one.database != start.database || one.action == format.ActionCreate {
			continue
		}
		for _, of := range slices.Collect(maps.Keys(all)) {
			to, changes := one.applies(of)
			if !changes {
				continue
			}
			if one.certain && to.kind == of.kind {
				delete(all, of)
			}
			if one.action == format.ActionRename {
				all[to], passed[to.name] = true, true
			}
		}
	}
	return all, passed
}

// contains says whether names of things of other kinds begin with those of a kind and a dot.
func contains(kind string) bool { return kind == "schema" || kind == "relation" }

// applies says whether something, or something in it, has another name afterwards, or has ended.
func (event *nameEvent) applies(of followed) (to followed, changes bool) {
	switch {
	case event.kind == of.kind:
		return followed{of.kind, of.was, event.to}, event.from == of.name
	case event.action != format.ActionRename:
		return to, false
	}
	if rest, inside := strings.CutPrefix(of.name, event.from+"."); inside && contains(event.kind) {
		return followed{of.kind, of.was, event.to + "." + rest}, true
	}
	if rest, inside := strings.CutPrefix(event.from, of.name+"."); inside && contains(of.kind) {
		return followed{event.kind, of.was + "." + rest, event.to}, true
	}
	return to, false
}

// eachReported calls a function with each rename to tell of, and with the names that what was renamed may have in the
// time, and on the way there.
func (h *nameEvents) eachReported(visit func(event *nameEvent, before bool, names, passed map[string]bool)) {
	for _, before := range []bool{true, false} {
		all := h.after
		if before {
			all = h.before
		}
		for i := range all {
			if !all[i].isReported(before) {
				continue
			}
			start, rest := h.eventsAfter(i, before)
			if h.full {
				rest = nil
			}
			found, passed := followRename(&start, rest)
			names := map[string]bool{}
			for event := range found {
				if h.filter.watched.distinguishes(&format.Object{
					Type: []byte(event.kind),
					Name: []byte(event.was),
					To:   []byte(event.name),
				}) {
					names[event.name] = true
				}
			}
			visit(&all[i], before, names, passed)
		}
	}
}

// names are all that something to tell of had.
func (h *nameEvents) names() map[string]bool {
	all := map[string]bool{}
	h.eachReported(func(_ *nameEvent, _ bool, names, passed map[string]bool) {
		if len(names) > 0 {
			maps.Copy(all, passed)
		}
	})
	return all
}

// errors returns what is to be told, in the order of the times.
func (h *nameEvents) errors() (all []*RenamedError) {
	h.eachReported(func(one *nameEvent, before bool, names, _ map[string]bool) {
		if len(names) == 0 {
			return
		}
		said := &RenamedError{Renamed: one.renamed, Outside: "after", Then: slices.Sorted(maps.Keys(names))}
		if before {
			said.Outside = "before"
		}
		if !slices.ContainsFunc(all, func(o *RenamedError) bool { return o.Error() == said.Error() }) { // of copies
			all = append(all, said)
		}
	})
	return all
}

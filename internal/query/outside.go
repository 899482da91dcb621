// Renames outside of the range of times that is asked for, and within it for statements in SQL. Records have
// the names of their time. So what lost an asked name before the range, or got it afterwards, has records
// within the range that are not found, although nothing was renamed within it.

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

// mostEvents bounds the events that are kept to follow names. If there are more, names are not followed, and
// every rename of an asked name is reported.
const mostEvents = 100_000

// RenamedOutside returns the last errors of AllRenamedOutside, for people.
func (f *Filter) RenamedOutside(ctx context.Context, x *trail.Index, since, until int64) (all []error) {
	renames := f.AllRenamedOutside(ctx, x, since, until)
	if left := len(renames) - mostRenames; left > 0 {
		all, renames = append(all, &RenamedError{Remaining: left}), renames[left:]
	}
	for _, one := range renames {
		all = append(all, one)
	}
	return all
}

// AllRenamedOutside reports what had a name of the filter before or after the range from since until before
// until, but another name within it. It does not report what got its name back, or did not exist within the
// range, or was rolled back. It reads indexes, and the blocks that have renames or no index.
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

// RenamedWithin reports the renames within a range, for answers whose records are not passed to a Hidden.
func (f *Filter) RenamedWithin(ctx context.Context, x *trail.Index, since, until int64) []error {
	if f.watched == nil {
		return nil
	}
	var hidden Hidden
	x.Read(ctx, trail.ScanOptions{
		Since: since, Until: until, Parts: true, Contents: f.watched.selectRenames,
		Selection: format.Selection{Shape: func(s *format.Shape) bool {
			return s != nil && len(s.Objects) > 0
		}, Always: f.isRename},
		Warn: func(error) {}, // the reader of the answer reports these
	}, func(_ int, r *trail.ScanReader) {
		for r.Next() {
			hidden.noteRenamed(&r.Record, slices.Collect(f.Renames(&r.Record)))
		}
	})
	return hidden.Errs()
}

// nameEvent is an event in the life of a name: a rename, or the end or beginning of what has it.
type nameEvent struct {
	action    format.Action
	kind      string // objects of one kind cannot have the same name
	database  string // with its server; empty for objects that all databases share
	from, to  string
	certain   bool // it has taken effect
	wanted    bool // the filter matches one of the two names, but not the other
	losesName bool // the matching name is the one before
	renamed   Renamed
	endTime   int64 // end of the statement
	seq       uint64
}

// nameEvents are the events of a trail outside of a range. Only scan may be called by several goroutines.
type nameEvents struct {
	filter       *Filter
	since, until int64

	mu            sync.Mutex
	before, after []nameEvent
	full          bool // there are more than mostEvents
}

// nameKind returns the same kind for all types of objects that share a namespace.
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

// scan collects events.
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
			Selection: format.Selection{Shape: func(s *format.Shape) bool {
				return s != nil && len(s.Objects) > 0
			}, Always: shape},
			Warn: func(error) {}, // the reader of the answer reports these
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

// record adds the events of a record.
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
			certain: r.Outcome == format.OutcomeOk && r.Effect == format.EffectCommitted,
			endTime: r.End(), seq: r.Seq,
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

// databaseOf returns the namespace of an object's name.
func databaseOf(r *format.Record, ref *trail.BlockRef, objectType string) string {
	if isShared(objectType) {
		return ""
	}
	return strconv.FormatUint(ref.Segment.Header.SystemID, 10) + " " + string(r.Session.Fact(format.KeyDatabase))
}

// isReported returns whether a rename may have to be reported: the filter's name was lost before the range, or
// got after it.
func (event *nameEvent) isReported(before bool) bool {
	return event.wanted && event.losesName == before
}

func (h *nameEvents) anyReported() bool {
	return slices.ContainsFunc(h.before, func(one nameEvent) bool { return one.isReported(true) }) ||
		slices.ContainsFunc(h.after, func(one nameEvent) bool { return one.isReported(false) })
}

// eventsAfter returns the events on the way from a rename to the range: after the rename, if it was before the
// range; before it, in reverse, if it was after.
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

// reversed returns the event as it appears when time runs backwards.
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

// followed is something renamed, or something in it: its asked name, and the name that it may have by now.
type followed struct{ kind, was, name string }

// followRename returns what a renamed object, and everything in it that was renamed on the way, may be called
// within the range, and all names on the way there. What does not exist within the range is not returned.
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

// contains returns whether names of other kinds begin with those of a kind and a dot.
func contains(kind string) bool { return kind == "schema" || kind == "relation" }

// applies returns whether an event changes the name of something, or of something in it, or ends it.
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

// eachReported calls visit for each rename to report, with the names that the object may have within the range,
// and on the way there.
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

// names returns all names of what is reported.
func (h *nameEvents) names() map[string]bool {
	all := map[string]bool{}
	h.eachReported(func(_ *nameEvent, _ bool, names, passed map[string]bool) {
		if len(names) > 0 {
			maps.Copy(all, passed)
		}
	})
	return all
}

// errors returns the errors to report, in order of time.
func (h *nameEvents) errors() (all []*RenamedError) {
	h.eachReported(func(one *nameEvent, before bool, names, _ map[string]bool) {
		if len(names) == 0 {
			return
		}
		said := &RenamedError{Renamed: one.renamed, Outside: "after", NamesWithin: slices.Sorted(maps.Keys(names))}
		if before {
			said.Outside = "before"
		}
		// copies of a trail repeat events
		if !slices.ContainsFunc(all, func(o *RenamedError) bool { return o.Error() == said.Error() }) {
			all = append(all, said)
		}
	})
	return all
}

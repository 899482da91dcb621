// Renames outside of the time that is asked for, and in that of statements in SQL. Records have the names of their time: what had a name that is asked for
// before this time, or got it after, has records in it that are not found, although nothing was renamed in it.

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

// mostEvents is how many events are kept to follow names. If there are more, they are not followed, and every rename of a
// name that is asked for is told of.
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

// AllRenamedOutside tells of what had a name that the filter asks for before the time from since until before until, or
// has had it afterwards, and another name in this time. What got its name back, or did not exist in this time, is not told
// of, nor is what was rolled back. Indexes are read, and the blocks that have renames or have no index.
func (f *Filter) AllRenamedOutside(ctx context.Context, x *trail.Index, since, until int64) (all []*RenamedError) {
	if f.watched == nil || since == format.MinTime && until == format.MaxTime {
		return nil
	}
	events := &happenings{filter: f, since: since, until: until}
	events.scan(ctx, x, func(action format.Action, _ []byte) bool { return action == format.ActionRename })
	if !events.told() {
		return nil
	}
	if names := events.names(); len(names) > 0 {
		events.scan(ctx, x, func(action format.Action, name []byte) bool {
			return (action == format.ActionCreate || action == format.ActionDrop) && names[string(name)]
		})
	}
	return events.tell()
}

// RenamedWithin tells of the renames of a time, for answers whose records no Hidden sees.
func (f *Filter) RenamedWithin(ctx context.Context, x *trail.Index, since, until int64) []error {
	if f.watched == nil {
		return nil
	}
	var hidden Hidden
	x.Read(ctx, trail.ScanOptions{
		Since: since, Until: until, Parts: true, Contents: f.watched.selectRenames,
		Want: format.Want{Shape: func(s *format.Shape) bool { return s != nil && len(s.Objects) > 0 }, Always: f.renaming},
		Warn: func(error) {}, // of which whoever reads the answer is told
	}, func(_ int, r *trail.ScanReader) {
		for r.Next() {
			hidden.rename(&r.Record, slices.Collect(f.Renames(&r.Record)))
		}
	})
	return hidden.Errs()
}

// happening is what became of a name: a rename, the end of what had it, or the beginning.
type happening struct {
	action   format.Action
	kind     string // of objects that cannot have the same name
	database string // and its server; empty for what all databases share
	from, to string
	sure     bool // it has taken effect
	asked    bool // by one of its names, the filter finds it; not by the other
	loses    bool // the one before
	renamed  Renamed
	at       int64 // when it ended
	seq      uint64
}

// happenings are those of a trail outside of a time. Its methods but scan are for one goroutine.
type happenings struct {
	filter       *Filter
	since, until int64

	mu            sync.Mutex
	before, after []happening
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
func (h *happenings) scan(ctx context.Context, x *trail.Index, wanted func(format.Action, []byte) bool) {
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
				return c.Select(format.TermsObjects, func(v []byte) bool { return len(v) == 0 || wanted(format.Action(v[0]), v[1:]) })
			},
			Want: format.Want{Shape: func(s *format.Shape) bool { return s != nil && len(s.Objects) > 0 }, Always: shape},
			Warn: func(error) {}, // of which whoever reads the answer is told
		}, func(_ int, r *trail.ScanReader) {
			for r.Next() {
				if r.Record.Shape != nil && shape(r.Record.Shape) {
					h.record(&r.Record, r.Ref, wanted)
				}
			}
		})
	}
	order := func(a, b happening) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) }
	slices.SortStableFunc(h.before, order)
	slices.SortStableFunc(h.after, order)
}

// record takes a record.
func (h *happenings) record(r *format.Record, ref *trail.BlockRef, wanted func(format.Action, []byte) bool) {
	if r.Kind != format.KindStatement || r.Outcome == format.OutcomeError || r.Undone() || r.Time >= h.since && r.Time < h.until {
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
		one := happening{
			action: o.Action, kind: nameKind(string(o.Type)), database: databaseOf(r, ref, string(o.Type)), from: string(o.Name), to: string(o.To),
			sure: r.Outcome == format.OutcomeOk && r.Effect == format.EffectCommitted, at: r.End(), seq: r.Seq,
		}
		if o.Action == format.ActionRename && h.filter.watched.differ(o, r.Session) {
			one.asked, one.loses = true, h.filter.watched.loses(o)
			one.renamed = Renamed{Type: string(o.Type), Name: one.from, To: one.to, Time: r.Time, User: string(r.Session.Fact(format.KeyUser)), Lost: one.loses}
		}
		if len(h.before)+len(h.after) >= mostEvents && !one.asked {
			h.full = true
			continue
		}
		*to = append(*to, one)
	}
}

// databaseOf is where the name of an object is one.
func databaseOf(r *format.Record, ref *trail.BlockRef, objectType string) string {
	if isShared(objectType) {
		return ""
	}
	return strconv.FormatUint(ref.Segment.Header.SystemID, 10) + " " + string(r.Session.Fact(format.KeyDatabase))
}

// outside says whether a rename may be one to tell of: before the time, its name was lost; after, it was got.
func (one *happening) outside(before bool) bool { return one.asked && one.loses == before }

func (h *happenings) told() bool {
	return slices.ContainsFunc(h.before, func(one happening) bool { return one.outside(true) }) ||
		slices.ContainsFunc(h.after, func(one happening) bool { return one.outside(false) })
}

// way is what follows a rename: after it, if it was before the time, and before it, if it was after.
func (h *happenings) way(i int, before bool) (start happening, rest []happening) {
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
func (one happening) reversed() happening {
	switch one.action {
	case format.ActionRename:
		one.from, one.to = one.to, one.from
	case format.ActionCreate:
		one.action = format.ActionDrop
	case format.ActionDrop:
		one.action = format.ActionCreate
	}
	return one
}

// followed is something that was renamed, or is in what was: the name that it had, and the one that it may have now.
type followed struct{ kind, was, name string }

// follow returns what something that was renamed, and all in it that was renamed on the way, may be called in the time, and
// all names that it had on the way there. There is nothing that does not exist in the time.
func follow(start *happening, rest []happening) (all map[followed]bool, passed map[string]bool) {
	all, passed = map[followed]bool{{start.kind, start.from, start.to}: true}, map[string]bool{start.to: true}
	if !start.sure {
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
			if one.sure && to.kind == of.kind {
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
func (one *happening) applies(of followed) (to followed, changes bool) {
	switch {
	case one.kind == of.kind:
		return followed{of.kind, of.was, one.to}, one.from == of.name
	case one.action != format.ActionRename:
		return to, false
	}
	if rest, inside := strings.CutPrefix(of.name, one.from+"."); inside && contains(one.kind) {
		return followed{of.kind, of.was, one.to + "." + rest}, true
	}
	if rest, inside := strings.CutPrefix(one.from, of.name+"."); inside && contains(of.kind) {
		return followed{one.kind, of.was + "." + rest, one.to}, true
	}
	return to, false
}

// each calls a function with each rename to tell of, and with the names that what was renamed may have in the time, and on
// the way there.
func (h *happenings) each(visit func(one *happening, before bool, names, passed map[string]bool)) {
	for _, before := range []bool{true, false} {
		all := h.after
		if before {
			all = h.before
		}
		for i := range all {
			if !all[i].outside(before) {
				continue
			}
			start, rest := h.way(i, before)
			if h.full {
				rest = nil
			}
			found, passed := follow(&start, rest)
			names := map[string]bool{}
			for one := range found {
				if h.filter.watched.tellsApart(&format.Object{Type: []byte(one.kind), Name: []byte(one.was), To: []byte(one.name)}) {
					names[one.name] = true
				}
			}
			visit(&all[i], before, names, passed)
		}
	}
}

// names are all that something to tell of had.
func (h *happenings) names() map[string]bool {
	all := map[string]bool{}
	h.each(func(_ *happening, _ bool, names, passed map[string]bool) {
		if len(names) > 0 {
			maps.Copy(all, passed)
		}
	})
	return all
}

// tell returns what is to be told, in the order of the times.
func (h *happenings) tell() (all []*RenamedError) {
	h.each(func(one *happening, before bool, names, _ map[string]bool) {
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

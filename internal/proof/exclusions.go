// What a range of a trail may lack, for answers that are not written as proofs.

package proof

import (
	"context"
	"fmt"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Exclusions collects what the records of a trail tell about what a range of it may lack, as the
// verdict of a proof does. It may be used by many goroutines.
type Exclusions struct {
	mu    sync.Mutex
	c     *conditions
	homes map[*trail.Stream]home
	later *later // nil: what comes after the range is not looked at
}

// Needs are what an answer depends on, besides statements and connections of all classes.
type Needs struct {
	Objects  bool // the relations of statements
	Catalogs bool // reads of nothing but pg_catalog
	Texts    bool // texts and parameters
	Rows     bool // how many rows statements returned
	Failures bool // what has failed
}

// NewExclusions is for a range of times of trails. Settings at its beginning are known from records before it.
func NewExclusions(x *trail.Index, since, until int64, n Needs) *Exclusions {
	a := &asked{q: &Question{}, since: since, until: until, objects: n.Objects, grep: n.Texts, rows: n.Rows, shapes: true, catalogs: n.Catalogs}
	none := a.q.Filter.Filter()
	a.who.Filter, a.fixed.Filter, a.apart.Filter = none, none, none
	e := &Exclusions{c: newConditions(a), homes: map[*trail.Stream]home{}}
	for i := range x.Streams {
		for k := range x.Streams[i].Segments {
			if one := &x.Streams[i].Segments[k]; one.Records > 0 {
				e.c.reaches(e.home(x.Streams[i].Stream), one.LastEnd)
			}
		}
	}
	return e
}

// Record takes a record that tells something.
func (e *Exclusions) Record(r *format.Record, ref *trail.BlockRef) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.c.asked.who.Reset()
	e.c.asked.fixed.Reset()
	e.c.record(r, e.home(ref.Segment.Stream), 0)
	if isStart(r) {
		e.c.started[ref.Segment] = true
	}
}

func (e *Exclusions) home(s *trail.Stream) home {
	h, known := e.homes[s]
	if !known {
		h = homeOf(s)
		e.homes[s] = h
	}
	return h
}

// open are the sessions that leave something out by settings of their own and had not ended when the range begins, as far
// as is known, each with the time of the last change.
func (e *Exclusions) open() map[format.SessionID]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, a := e.c, e.c.asked
	c.finish()
	open := map[format.SessionID]int64{}
	for at, changes := range c.settings {
		s := c.sessions[at.session]
		if at.server || s == nil || s.ended != format.MaxTime || !a.decides(at.name) {
			continue
		}
		last := &changes[len(changes)-1]
		if a.leavesOut(at.name, last.new, "") == "" && a.leavesOutRenames(at.name, last.new, "") == "" {
			continue
		}
		if last.time < a.since && c.over(s, last.time) > a.since {
			open[at.session] = max(open[at.session], last.time)
		}
	}
	return open
}

// FindEnds looks for the ends of sessions with settings of their own, which matter no more from there on. blocks selects
// those that may be read; nil: all.
func (e *Exclusions) FindEnds(ctx context.Context, x *trail.Index, blocks func(*trail.BlockRef) bool, warn func(error)) {
	open := e.open()
	from := int64(format.MaxTime)
	for _, at := range open {
		from = min(from, at)
	}
	var mu sync.Mutex
	// most sessions are short
	for from, until := range steps(from, e.c.asked.since, 3600*second) {
		if len(open) == 0 || ctx.Err() != nil {
			return
		}
		x.Read(ctx, trail.ScanOptions{
			Since: from, Until: until, Blocks: blocks, Warn: warn,
			Contents: func(c *format.Contents) format.Groups {
				return c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return k == format.KindDisconnect })
			},
		}, func(_ int, reader *trail.ScanReader) {
			for reader.Next() {
				r := &reader.Record
				if r.Kind != format.KindDisconnect {
					continue
				}
				id := r.Session.ID()
				mu.Lock()
				_, wanted := open[id]
				delete(open, id)
				mu.Unlock()
				if wanted {
					e.Record(r, reader.Ref)
				}
			}
		})
	}
}

// List says what the range may lack, one sentence each. begins says that the trail was read from its beginning.
// lacking says that there is more than times in which the server did not run.
func (e *Exclusions) List(begins bool) (all []string, lacking bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	except := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	e.c.finish()
	if why := e.c.unstated(); why != "" {
		except("which settings were in effect at the beginning is not known: %s", why)
	}
	e.c.recording(except)
	e.c.losses(e.c.asked.until, except)
	e.c.copies(except)
	lacking = len(all)+len(e.c.unread) > 0
	e.c.downTimes(e.c.asked.until, begins, except, except)
	e.c.reported(e.c.asked.until, except)
	return append(all, e.c.unread...), lacking
}

// HidesFailures says with which value of log_min_messages the configuration has hidden refused logins and failures in the
// range, and when; empty: with none that is known. List must have been called.
func (e *Exclusions) HidesFailures() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.c.lives {
		for _, p := range l.periods(MinMessages) {
			if a := e.c.asked; HidesFailures(p.value) && p.to > a.since && p.from < a.until {
				return settingText(MinMessages, p.value) + " " + p.when(a)
			}
		}
	}
	return ""
}

// blanks are settings that leave out of records what an answer looks at, or the records of failures. Others leave out
// other records.
var blanks = struct{ objects, failures, texts []string }{
	objects:  []string{"steno.log_relation"},
	failures: []string{MinMessages},
	texts:    []string{"steno.log_statement", "steno.log_parameter", "steno.log_parameter_max_size"},
}

// LeftOut says which settings have left out of records what a filter looks at, and when: relations, texts, parameters, failures.
// Blocks are read that, by the indexes, tell of settings. Whatever else an answer may lack, it does not say.
func LeftOut(ctx context.Context, x *trail.Index, since, until int64, n Needs) (all []error) {
	var only []string
	if n.Objects {
		only = append(only, blanks.objects...)
	}
	if n.Texts {
		only = append(only, blanks.texts...)
	}
	if n.Failures {
		only = append(only, blanks.failures...)
	}
	if len(only) == 0 {
		return nil
	}
	start := findStartBefore(x, func(*trail.Segment) bool { return true }, since)
	e := leftOutFrom(ctx, x, only, start.from, since, until, n)
	if !start.found(e.c) && start.from > format.MinTime {
		e = leftOutFrom(ctx, x, only, format.MinTime, since, until, n)
	}
	e.c.recording(func(text string, args ...any) {
		all = append(all, &query.LeftOutError{What: fmt.Sprintf(text, args...)})
	})
	return all
}

// leftOutFrom reads a trail from a time on.
func leftOutFrom(ctx context.Context, x *trail.Index, only []string, from, since, until int64, n Needs) *Exclusions {
	e := NewExclusions(x, since, until, n)
	e.c.asked.only = only
	x.Read(ctx, trail.ScanOptions{
		Since: from, Until: until, Contents: tellingGroups,
		Warn: func(error) {}, // whoever reads the answer is told
	}, func(_ int, reader *trail.ScanReader) {
		for reader.Next() {
			if tells(&reader.Record) {
				e.Record(&reader.Record, reader.Ref)
			}
		}
	})
	e.FindEnds(ctx, x, nil, func(error) {})
	e.c.finish()
	return e
}

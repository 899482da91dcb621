// Finds what a range of a trail may lack, for answers that are not proofs.

package proof

import (
	"context"
	"fmt"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Exclusions collects from records what a range of a trail may lack, as for the verdict of a proof. Goroutines can
// share it.
type Exclusions struct {
	mu         sync.Mutex
	conditions *conditions
	streamKeys map[*trail.Stream]streamKey
	later      *later // nil: records after the range are not read
}

// Needs are what an answer needs to have been recorded, besides statements and connections of all classes.
type Needs struct {
	Objects  bool // the relations of statements
	Catalogs bool // reads of nothing but pg_catalog
	Texts    bool // texts and parameters
	Rows     bool // numbers of rows
	Failures bool // failures
}

// NewExclusions is for a range of times of trails. Settings at its beginning are known from records before it.
func NewExclusions(x *trail.Index, since, until int64, n Needs) *Exclusions {
	a := &evaluator{question: &Question{}, since: since, until: until, needsObjects: n.Objects, needsTexts: n.Texts,
		needsRows:   n.Rows,
		needsShapes: true, needsCatalogs: n.Catalogs}
	none := a.question.Filter.Filter()
	a.sessionMatcher.Filter, a.fixedSessionMatcher.Filter, a.withoutParts.Filter = none, none, none
	e := &Exclusions{conditions: newConditions(a), streamKeys: map[*trail.Stream]streamKey{}}
	for i := range x.Streams {
		for k := range x.Streams[i].Segments {
			if one := &x.Streams[i].Segments[k]; one.Records > 0 {
				e.conditions.noteReached(e.streamKey(x.Streams[i].Stream), one.LastEnd)
			}
		}
	}
	return e
}

// Record adds a record for which ShowsLack is true.
func (e *Exclusions) Record(r *format.Record, ref *trail.BlockRef) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conditions.eval.sessionMatcher.Reset()
	e.conditions.eval.fixedSessionMatcher.Reset()
	e.conditions.add(r, e.streamKey(ref.Segment.Stream), 0)
	if isStart(r) {
		e.conditions.startSegments[ref.Segment] = true
	}
}

func (e *Exclusions) streamKey(s *trail.Stream) streamKey {
	h, known := e.streamKeys[s]
	if !known {
		h = streamKeyOf(s)
		e.streamKeys[s] = h
	}
	return h
}

// open returns the sessions whose own settings leave out something, and that are not known to have ended when the
// range begins, each with the time of the last change.
func (e *Exclusions) open() map[format.SessionID]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, a := e.conditions, e.conditions.eval
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
		if last.time < a.since && c.sessionEnd(s, last.time) > a.since {
			open[at.session] = max(open[at.session], last.time)
		}
	}
	return open
}

// FindEnds looks for the ends of sessions with settings of their own, which do not matter afterwards. blocks selects
// the blocks that may be read; nil: all.
func (e *Exclusions) FindEnds(ctx context.Context, x *trail.Index, blocks func(*trail.BlockRef) bool,
	warn func(error)) {
	open := e.open()
	from := int64(format.MaxTime)
	for _, at := range open {
		from = min(from, at)
	}
	var mu sync.Mutex
	// most sessions are short, so their ends are looked for in short ranges first
	for from, until := range steps(from, e.conditions.eval.since, 3600*second) {
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

// List returns sentences about what the range may lack. begins says that the trail was read from its beginning.
// lacking is true if there are others than times in which the server did not run.
func (e *Exclusions) List(begins bool) (all []string, lacking bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	except := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	e.conditions.finish()
	if why := e.conditions.reasonUnstated(); why != "" {
		except("which settings were in effect at the beginning is not known: %s", why)
	}
	e.conditions.listUnrecorded(except)
	e.conditions.listLosses(e.conditions.eval.until, except)
	e.conditions.listCopies(except)
	lacking = len(all)+len(e.conditions.uninterpreted) > 0
	e.conditions.listDownTimes(e.conditions.eval.until, begins, except, except)
	e.conditions.listReported(e.conditions.eval.until, except)
	return append(all, e.conditions.uninterpreted...), lacking
}

// HidesFailures returns with which value of log_min_messages the configuration hid refused logins and failures in the
// range, and when; empty if it is not known to have done so. List must have been called.
func (e *Exclusions) HidesFailures() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.conditions.lives {
		for _, p := range l.periods(MinMessages) {
			if a := e.conditions.eval; HidesFailures(p.value) && p.to > a.since && p.from < a.until {
				return settingText(MinMessages, p.value) + " " + p.inWords(a)
			}
		}
	}
	return ""
}

// blankingSettings are the settings that leave out parts of records, or records of failures. Other settings leave out
// other records.
var blankingSettings = struct{ objects, failures, texts []string }{
	objects:  []string{"steno.log_relation"},
	failures: []string{MinMessages},
	texts:    []string{"steno.log_statement", "steno.log_parameter", "steno.log_parameter_max_size"},
}

// FindOmissions returns which settings left out of records what a filter needs, and when: relations, texts, parameters,
// failures. It reads only the blocks that have changes of settings according to the indexes, and finds nothing else
// that an answer may lack.
func FindOmissions(ctx context.Context, x *trail.Index, since, until int64, n Needs) (all []error) {
	var only []string
	if n.Objects {
		only = append(only, blankingSettings.objects...)
	}
	if n.Texts {
		only = append(only, blankingSettings.texts...)
	}
	if n.Failures {
		only = append(only, blankingSettings.failures...)
	}
	if len(only) == 0 {
		return nil
	}
	start := findStartBefore(x, func(*trail.Segment) bool { return true }, since)
	e := leftOutFrom(ctx, x, only, start.from, since, until, n)
	if !start.found(e.conditions) && start.from > format.MinTime {
		e = leftOutFrom(ctx, x, only, format.MinTime, since, until, n)
	}
	e.conditions.listUnrecorded(func(text string, args ...any) {
		all = append(all, &query.LeftOutError{What: fmt.Sprintf(text, args...)})
	})
	return all
}

// leftOutFrom is FindOmissions for a trail that is read from a given time on.
func leftOutFrom(ctx context.Context, x *trail.Index, only []string, from, since, until int64, n Needs) *Exclusions {
	e := NewExclusions(x, since, until, n)
	e.conditions.eval.onlySettings = only
	x.Read(ctx, trail.ScanOptions{
		Since: from, Until: until, Contents: tellingGroups,
		Warn: func(error) {}, // reading the answer reports the same problems
	}, func(_ int, reader *trail.ScanReader) {
		for reader.Next() {
			if isTelling(&reader.Record) {
				e.Record(&reader.Record, reader.Ref)
			}
		}
	})
	e.FindEnds(ctx, x, nil, func(error) {})
	e.conditions.finish()
	return e
}

// What an answer may lack: records that do not say enough to decide whether they are asked for, and records
// with earlier or later names of what is asked for.

package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// mostHidden bounds the records that a Hidden distinguishes, mostRenames the renames that it reports.
const (
	mostHidden  = 10000
	mostRenames = 20
)

// Hidden collects the records that a filter may miss: see Matcher.HiddenReason and Filter.Renames. Several goroutines
// may use it.
type Hidden struct {
	mu        sync.Mutex
	seen      map[format.RecordID]bool
	first     format.RecordID
	why       string
	unsettled map[statementID]start // statements of which only the start record was seen so far
	renamed   map[format.RecordID][]Renamed
}

// statementID identifies a statement of a session.
type statementID struct {
	session      format.SessionID
	number, part uint64
}

func statementOf(r *format.Record) statementID {
	return statementID{r.Session.ID(), r.Statement, r.Substatement}
}

// start is what is kept of a start record.
type start struct {
	id      format.RecordID
	time    int64
	command string // empty: not known
	why     string
}

// Note notes a record if the filter may have missed it. It may be called more than once for a record.
func (h *Hidden) Note(m *Matcher, r *format.Record) {
	h.noteRenamed(r, slices.Collect(m.Renames(r)))
	why := m.HiddenReason(r)
	if why == "" || why == Untimed { // about running statements, which their start records represent
		return
	}
	h.note(r, why)
}

// NoteUnfinished notes the record of a statement that had not ended, and whose names are not known.
func (h *Hidden) NoteUnfinished(r *format.Record) { h.note(r, Unnamed) }

func (h *Hidden) note(r *format.Record, why string) {
	id := format.RecordID{Session: r.Session.ID(), Seq: r.Seq}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case r.Kind != format.KindStart:
		h.add(id, why)
	case len(h.unsettled) < mostHidden:
		if h.unsettled == nil {
			h.unsettled = map[statementID]start{}
		}
		pending := start{id: id, time: r.Time, why: why}
		if r.Shape != nil {
			pending.command = string(r.Shape.Command)
		}
		h.unsettled[statementOf(r)] = pending
	}
}

// NoteRenames notes only what a record renames, also by changing a catalog.
func (h *Hidden) NoteRenames(f *Filter, r *format.Record) {
	h.noteRenamed(r, f.AllRenames(r))
}

func (h *Hidden) noteRenamed(r *format.Record, renamed []Renamed) {
	if renamed == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.renamed == nil {
		h.renamed = map[format.RecordID][]Renamed{}
	}
	if len(h.renamed) < mostHidden {
		h.renamed[format.RecordID{Session: r.Session.ID(), Seq: r.Seq}] = renamed
	}
}

// Renames returns the noted renames in order of time.
func (h *Hidden) Renames() (all []Renamed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range slices.SortedFunc(maps.Keys(h.renamed), format.RecordID.Compare) {
		all = append(all, h.renamed[id]...)
	}
	slices.SortStableFunc(all, func(a, b Renamed) int { return cmp.Compare(a.Time, b.Time) })
	return all
}

func (h *Hidden) add(id format.RecordID, why string) {
	if len(h.seen) == mostHidden {
		return
	}
	if h.seen == nil {
		h.seen = map[format.RecordID]bool{}
	}
	if len(h.seen) == 0 || id.Compare(h.first) < 0 {
		h.first, h.why = id, why
	}
	h.seen[id] = true
}

// DropEnded removes the start records of statements that have ended, because the filter has decided on the records
// of their ends. It reads the blocks that may have these.
func (h *Hidden) DropEnded(ctx context.Context, index *trail.Index) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byTime := slices.Collect(maps.Values(h.unsettled))
	slices.SortFunc(byTime, func(a, b start) int { return cmp.Compare(a.time, b.time) })
	for len(byTime) > 0 && ctx.Err() == nil {
		n := 1
		for n < len(byTime) && byTime[n].time-byTime[n-1].time < 1e6 {
			n++
		}
		h.settle(ctx, index, byTime[:n])
		byTime = byTime[n:]
	}
	for _, pending := range h.unsettled {
		h.add(pending.id, pending.why)
	}
	h.unsettled = nil
}

// settle does so for start records close to each other, so that the records of the ends are in one range of
// times.
func (h *Hidden) settle(ctx context.Context, index *trail.Index, starts []start) {
	sessions, commands := map[format.SessionID]bool{}, map[string]bool{}
	for _, pending := range starts {
		sessions[pending.id.Session], commands[pending.command] = true, true
	}
	options := trail.ScanOptions{
		Since: starts[0].time, Until: starts[len(starts)-1].time + 1, Raw: true,
		Selection: format.Selection{Session: func(s *format.Session) bool { return sessions[s.ID()] }},
		Warn:      func(error) {}, // the trail's reader reports these
	}
	if !commands[""] {
		options.Contents = func(c *format.Contents) format.Groups {
			return c.Select(format.TermsCommands, func(v []byte) bool { return commands[string(v)] })
		}
	}
	scan := index.Scan(ctx, options)
	defer scan.Close()
	for r := scan.Reader(); r.Next(); {
		if r.Record.Kind == format.KindStatement {
			delete(h.unsettled, statementOf(&r.Record))
		}
	}
}

// Errs returns the warnings about what was noted.
func (h *Hidden) Errs() (all []error) {
	h.mu.Lock()
	if len(h.seen) > 0 {
		all = append(all, &OmittedError{Count: len(h.seen), First: h.first, Why: h.why})
	}
	h.mu.Unlock()
	renames := h.Renames()
	for i := range renames {
		if i == mostRenames {
			return append(all, &RenamedError{Remaining: len(renames) - i})
		}
		all = append(all, &RenamedError{Renamed: renames[i]})
	}
	return all
}

// IsIncomplete returns whether an error says that an answer may lack something although nothing is wrong with
// the trail.
func IsIncomplete(err error) bool {
	var omitted *OmittedError
	var renamed *RenamedError
	var name *NameError
	var leftOut *LeftOutError
	return errors.As(err, &leftOut) || isIncomplete(err) || errors.As(err, &omitted) || errors.As(err, &renamed) ||
		errors.As(err, &name)
}

// LeftOutError says that an answer may lack records because of a setting that left them out.
type LeftOutError struct{ What string }

func (e *LeftOutError) Error() string { return e.What }

// RenamedError says that an answer may lack records because they have another name.
type RenamedError struct {
	Renamed
	Remaining int // number of further renames; then, Renamed is empty
	// Outside says whether the rename was before or after the range of times; empty: within. Then has the names
	// that the object may have had within the range.
	Outside     string
	NamesWithin []string
}

func (e *RenamedError) Error() string {
	if e.Remaining > 0 {
		return fmt.Sprintf("%d more were renamed", e.Remaining)
	}
	if e.Outside == "" {
		return e.String()
	}
	var then []string
	for _, name := range e.NamesWithin {
		then = append(then, render.Quoted(name))
	}
	return fmt.Sprintf("%s was renamed to %s at %s%s, %s the time that is asked for: in it, its records have the "+
		"name %s",
		e.Type+" "+render.Quoted(e.Name), render.Quoted(e.To), render.Time(e.Time), e.by(), e.Outside,
		strings.Join(then, " or "))
}

// OmittedError says that an answer may lack records that do not say enough: they leave out names of relations
// and objects, parameters, or parts of texts, or their user is not certain.
type OmittedError struct {
	Count int // 0: not known
	First format.RecordID
	Why   string // in words that follow "it"
}

func (e *OmittedError) Error() string {
	first := fmt.Sprintf("record %d of session %s", e.First.Seq, e.First.Session)
	switch e.Count {
	case 0:
		return fmt.Sprintf("not all relations and objects of statements are known, such as those of %s, which %s",
			first, e.Why)
	case 1:
		return fmt.Sprintf("%s may be asked for, too: it %s", first, e.Why)
	case mostHidden:
		return fmt.Sprintf("more than %d records may be asked for, too; the first, %s, %s", mostHidden, first, e.Why)
	}
	return fmt.Sprintf("%d more records may be asked for; the first, %s, %s", e.Count, first, e.Why)
}

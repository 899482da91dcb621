// Records that an answer may lack, because they leave out names that it asks for.

package query

import (
	"fmt"
	"sync"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// mostHidden is how many records a Hidden tells apart.
const mostHidden = 10000

// Hidden collects the records that a filter may miss: see Matcher.Hides. It may be used by many goroutines.
type Hidden struct {
	mu    sync.Mutex
	seen  map[trail.RecordID]bool
	first trail.RecordID
	why   string
}

// Note adds a record, if the filter may miss it. It may be told of a record more than once.
func (h *Hidden) Note(m *Matcher, r *trail.Record) {
	why := m.Hides(r)
	if why == "" {
		return
	}
	id := trail.RecordID{Session: r.Session.ID(), Seq: r.Seq}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.seen) == mostHidden {
		return
	}
	if h.seen == nil {
		h.seen = map[trail.RecordID]bool{}
	}
	if len(h.seen) == 0 || id.Compare(h.first) < 0 {
		h.first, h.why = id, why
	}
	h.seen[id] = true
}

// Err is nil, or tells of these records.
func (h *Hidden) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.seen) == 0 {
		return nil
	}
	return &OmittedError{Count: len(h.seen), First: h.first, Why: h.why}
}

// OmittedError says that an answer may lack records, because they leave out names of relations and objects.
type OmittedError struct {
	Count int // 0: it is not known how many
	First trail.RecordID
	Why   string // in words that follow "it"
}

func (e *OmittedError) Error() string {
	first := fmt.Sprintf("record %d of session %s", e.First.Seq, e.First.Session)
	switch e.Count {
	case 0:
		return fmt.Sprintf("not all relations and objects of statements are known, such as those of %s, which %s", first, e.Why)
	case 1:
		return fmt.Sprintf("%s may be about what --object names, too: it %s", first, e.Why)
	case mostHidden:
		return fmt.Sprintf("more than %d records may be about what --object names, too; the first, %s, %s", mostHidden, first, e.Why)
	}
	return fmt.Sprintf("%d more records may be about what --object names; the first, %s, %s", e.Count, first, e.Why)
}

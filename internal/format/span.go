// Runs of numbers, the range of time, and what identifies a record.

package format

import (
	"cmp"
	"math"
)

// MinTime and MaxTime are the beginning of time and its end.
const (
	MinTime = math.MinInt64
	MaxTime = math.MaxInt64
)

// A RecordID identifies a record by what its data parts know of it.
type RecordID struct {
	Session SessionID
	Seq     uint64
}

// Compare orders records by their sessions, and these's records by number.
func (id RecordID) Compare(o RecordID) int {
	return cmp.Or(id.Session.Compare(o.Session), cmp.Compare(id.Seq, o.Seq))
}

// ID identifies the record.
func (r *Record) ID() RecordID { return RecordID{r.Session.ID(), r.Seq} }

// Span is a run of numbers: of the records of a session, or of segments.
type Span struct{ First, Last uint64 }

// Compare orders spans by their first numbers.
func (s Span) Compare(o Span) int { return cmp.Compare(s.First, o.First) }

// Uncovered is what of the numbers from first up to, but without, end is in none of
// the spans, which are in order.
func Uncovered(spans []Span, first, end uint64) (holes []Span) {
	for _, s := range spans {
		if first >= end {
			break
		}
		if s.Last < first {
			continue
		}
		if s.First > first {
			holes = append(holes, Span{first, min(s.First, end) - 1})
		}
		first = max(first, s.Last+1)
	}
	if first < end {
		holes = append(holes, Span{first, end - 1})
	}
	return holes
}

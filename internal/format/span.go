// Ranges of numbers and times, and IDs of records.

package format

import (
	"cmp"
	"math"
)

// MinTime and MaxTime are the earliest and latest time.
const (
	MinTime = math.MinInt64
	MaxTime = math.MaxInt64
)

// RecordID identifies a record in the way in which its data parts refer to it.
type RecordID struct {
	Session SessionID
	Seq     uint64
}

// Compare orders records by session, then by number.
func (id RecordID) Compare(o RecordID) int {
	return cmp.Or(id.Session.Compare(o.Session), cmp.Compare(id.Seq, o.Seq))
}

// ID returns the ID of the record.
func (r *Record) ID() RecordID { return RecordID{r.Session.ID(), r.Seq} }

// Span is a range of numbers: of a session's records, or of segments.
type Span struct{ First, Last uint64 }

// Compare orders spans by their first numbers.
func (s Span) Compare(o Span) int { return cmp.Compare(s.First, o.First) }

// Uncovered returns the numbers from first to before end that are in none of the spans, which are sorted.
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

package trail

import "cmp"

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

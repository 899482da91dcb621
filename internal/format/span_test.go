package format

import (
	"slices"
	"testing"
)

func TestUncovered(t *testing.T) {
	for _, c := range []struct {
		spans      []Span
		first, end uint64
		want       []Span
	}{
		{nil, 1, 4, []Span{{1, 3}}},
		{nil, 4, 4, nil},
		{nil, 5, 4, nil},
		{[]Span{{1, 3}}, 1, 4, nil},
		{[]Span{{3, 3}}, 3, 4, nil},
		{[]Span{{2, 2}}, 1, 4, []Span{{1, 1}, {3, 3}}},
		{[]Span{{1, 2}, {1, 5}, {2, 3}}, 1, 8, []Span{{6, 7}}},
		{[]Span{{1, 2}, {4, 9}}, 3, 8, []Span{{3, 3}}},
		{[]Span{{9, 12}}, 3, 8, []Span{{3, 7}}},
	} {
		if got := Uncovered(c.spans, c.first, c.end); !slices.Equal(got, c.want) {
			t.Errorf("%v, from %d to before %d: got %v, want %v", c.spans, c.first, c.end, got, c.want)
		}
	}
}

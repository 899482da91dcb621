// Combinations that were not run, named in few words.

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/lab/bench/result"
)

// skipped is the combinations that were not run for the same reason.
type skipped struct {
	Reason string
	Count  int
	// Cases are their names, one for many cases if these are all combinations of some values; empty if the reason is
	// not about cases.
	Cases []string
}

// skipped groups combinations that were not run by their reason, in the order of first mention.
func (v *view) skipped() []skipped {
	var groups []skipped
	cases := map[string][]result.Case{}
	for _, s := range v.Skipped {
		if cases[s.Reason] == nil {
			groups = append(groups, skipped{Reason: s.Reason})
		}
		cases[s.Reason] = append(cases[s.Reason], s.Case)
	}
	for i := range groups {
		all := cases[groups[i].Reason]
		groups[i].Count = len(all)
		if slices.ContainsFunc(all, func(c result.Case) bool { return len(c) > 0 }) {
			groups[i].Cases = v.factor(all, 0)
		}
	}
	return groups
}

// factor returns exact names of cases that are as short as possible: if they are all combinations of the values that
// occur, one name with these values; otherwise they are split by the first dimension, from the given one on, in which
// they differ.
func (v *view) factor(cases []result.Case, from int) []string {
	values := make([][]string, len(v.Dimensions))
	product := 1
	for i, d := range v.Dimensions {
		for _, c := range cases {
			if !slices.Contains(values[i], c[d.Name]) {
				values[i] = append(values[i], c[d.Name])
			}
		}
		slices.SortFunc(values[i], func(a, b string) int { return v.rank(d.Name, a) - v.rank(d.Name, b) })
		product *= max(len(values[i]), 1)
	}
	if product == len(cases) {
		return []string{v.productTitle(values)}
	}
	for ; from < len(values); from++ {
		if len(values[from]) < 2 {
			continue
		}
		var names []string
		for _, value := range values[from] {
			var part []result.Case
			for _, c := range cases {
				if c[v.Dimensions[from].Name] == value {
					part = append(part, c)
				}
			}
			names = append(names, v.factor(part, from+1)...)
		}
		return names
	}
	// A case occurs more than once.
	return []string{v.productTitle(values)}
}

// productTitle names all combinations of values. A dimension with all of its values is omitted.
func (v *view) productTitle(values [][]string) string {
	var parts []string
	separator := ", "
	for i, d := range v.Dimensions {
		if values[i] == nil || slices.Equal(values[i], []string{""}) || len(values[i]) > 1 &&
			len(values[i]) == len(d.Values) {
			continue
		}
		var titles []string
		for _, value := range values[i] {
			if value == "" {
				value = "any"
			}
			titles = append(titles, v.title(d.Name, value))
		}
		if len(titles) == 1 {
			parts = append(parts, v.named(d.Name, values[i][0]))
			continue
		}
		last := len(titles) - 1
		separator = "; "
		parts = append(parts, fmt.Sprintf("%s %s or %s", v.dimensionTitle(d.Name), strings.Join(titles[:last], ", "),
			titles[last]))
	}
	if parts == nil {
		return "all"
	}
	return strings.Join(parts, separator)
}

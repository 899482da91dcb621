package result

import (
	"encoding/csv"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/lab/stats"
)

// Add keeps a raw figure.
func (r *Result) Add(round, position int, c Case, metric string, value float64) {
	r.Samples = append(r.Samples, Sample{round, position, maps.Clone(c), metric, value})
}

// With is the case with one dimension's value set.
func (c Case) With(dimension, value string) Case {
	d := maps.Clone(c)
	if d == nil {
		d = Case{}
	}
	d[dimension] = value
	return d
}

// Matches says whether the case has all values of another.
func (c Case) Matches(where Case) bool {
	for dimension, value := range where {
		if c[dimension] != value {
			return false
		}
	}
	return true
}

func (c Case) key() string {
	var b strings.Builder
	for _, dimension := range slices.Sorted(maps.Keys(c)) {
		b.WriteString(dimension + "\x00" + c[dimension] + "\x01")
	}
	return b.String()
}

// Summarize makes the measures out of the samples: of each case and metric the
// median, and its ratio to the case that differs only in having the base's value
// of the dimension, from samples of the same round. An empty dimension makes no
// ratios.
func (r *Result) Summarize(dimension, base string) {
	type series struct {
		c      Case
		metric string
		values []float64
		rounds map[int]float64
	}
	if dimension != "" {
		r.Bases = append(r.Bases, Base{dimension, base})
	}
	all := map[string]*series{}
	var order []*series
	for _, s := range r.Samples {
		k := s.Case.key() + s.Metric
		x := all[k]
		if x == nil {
			x = &series{c: s.Case, metric: s.Metric, rounds: map[int]float64{}}
			all[k] = x
			order = append(order, x)
		}
		x.values = append(x.values, s.Value)
		x.rounds[s.Round] = s.Value
	}
	for _, x := range order {
		m := Measure{Case: x.c, Metric: x.metric, Value: stats.Of(x.values)}
		if dimension != "" && x.c[dimension] != base {
			if b := all[x.c.With(dimension, base).key()+x.metric]; b != nil {
				var ratios []float64
				for _, round := range slices.Sorted(maps.Keys(x.rounds)) {
					if v, ok := b.rounds[round]; ok && v != 0 {
						ratios = append(ratios, x.rounds[round]/v)
					}
				}
				if len(ratios) > 0 {
					e := stats.Of(ratios)
					m.Ratio = &e
				}
			}
		}
		r.Measures = append(r.Measures, m)
	}
}

// Find returns the measure of a case, or nil.
func (r *Result) Find(c Case, metric string) *Measure {
	for i := range r.Measures {
		m := &r.Measures[i]
		if m.Metric == metric && len(m.Case) == len(c) && m.Case.Matches(c) {
			return m
		}
	}
	return nil
}

func (r *Result) writeSamples(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := csv.NewWriter(f)
	header := []string{"round", "position"}
	for _, d := range r.Dimensions {
		header = append(header, d.Name)
	}
	_ = w.Write(append(header, "metric", "value"))
	for _, s := range r.Samples {
		line := []string{strconv.Itoa(s.Round), strconv.Itoa(s.Position)}
		for _, d := range r.Dimensions {
			line = append(line, s.Case[d.Name])
		}
		_ = w.Write(append(line, s.Metric, strconv.FormatFloat(s.Value, 'g', 8, 64)))
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return f.Close()
}

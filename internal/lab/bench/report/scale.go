package report

import "math"

// scale is an axis: values and where they are drawn.
type scale struct {
	low, high float64 // values at the ends
	log       bool
	from, to  float64 // places of the ends
	ticks     []float64
}

// at is where a value is drawn; what is off the axis is drawn at its end.
func (s *scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	}
	share := (v - low) / (high - low)
	if math.IsNaN(share) {
		share = 0
	}
	return s.from + min(max(share, 0), 1)*(s.to-s.from)
}

// newScale makes an axis with round ends that holds the values. Linear ones
// begin at zero unless there are negative values; logarithmic ones leave out
// values that have no logarithm.
func newScale(values []float64, log bool) scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
			continue
		}
		low, high = min(low, v), max(high, v)
	}
	if log {
		return logScale(low, high)
	}
	return linearScale(min(low, 0), max(high, 0))
}

func linearScale(low, high float64) scale {
	if high <= low {
		high = low + 1
	}
	step := roundUp((high - low) / 5)
	s := scale{low: math.Floor(low/step) * step, high: math.Ceil(high/step-1e-9) * step}
	for i := range int(math.Round((s.high-s.low)/step)) + 1 {
		s.ticks = append(s.ticks, s.low+float64(i)*step)
	}
	return s
}

// roundUp is the next number of 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// roundDown is the number of 1, 2 or 5 times a power of ten that is not above v.
func roundDown(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, m := range []float64{5, 2} {
		if v >= m*power*(1-1e-9) {
			return m * power
		}
	}
	return power
}

func logScale(low, high float64) scale {
	if math.IsInf(low, 0) {
		low, high = 1, 10
	}
	s := scale{low: roundDown(low), high: roundUp(high), log: true}
	if s.low == s.high {
		s.high *= 10
	}
	decades := math.Log10(s.high / s.low)
	steps := []float64{1}
	if decades < 3 {
		steps = []float64{1, 2, 5}
	}
	every := max(1, int(decades)/6)
	first := int(math.Floor(math.Log10(s.low) + 1e-9))
	for i := 0; i <= int(decades)+2; i += every {
		for _, m := range steps {
			if v := m * math.Pow(10, float64(first+i)); v >= s.low*(1-1e-9) && v <= s.high*(1+1e-9) {
				s.ticks = append(s.ticks, v)
			}
		}
	}
	return s
}

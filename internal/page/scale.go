// Axes: values, their positions, and round numbers at which they are labeled.

package page

import "math"

// Scale is an axis: values and their positions.
type Scale struct {
	Low, High float64 // values at the ends
	Log       bool
	From, To  float64 // positions of the ends
	Ticks     []float64
}

// At returns the position of a value; values beyond the axis are drawn at its end.
func (s *Scale) At(v float64) float64 {
	low, high := s.Low, s.High
	if s.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	}
	share := (v - low) / (high - low)
	if math.IsNaN(share) {
		share = 0
	}
	return s.From + min(max(share, 0), 1)*(s.To-s.From)
}

// NewScale returns an axis with round bounds that contains the values. Linear ones begin at zero unless there are
// negative values; logarithmic ones ignore values without a logarithm.
func NewScale(values []float64, log bool) Scale {
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

func linearScale(low, high float64) Scale {
	if high <= low {
		high = low + 1
	}
	step := roundUp((high - low) / 5)
	s := Scale{Low: math.Floor(low/step) * step, High: math.Ceil(high/step-1e-9) * step}
	for i := range int(math.Round((s.High-s.Low)/step)) + 1 {
		s.Ticks = append(s.Ticks, s.Low+float64(i)*step)
	}
	return s
}

// roundUp returns the next number that is 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// roundDown returns the largest number not above v that is 1, 2 or 5 times a power of ten.
func roundDown(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, m := range []float64{5, 2} {
		if v >= m*power*(1-1e-9) {
			return m * power
		}
	}
	return power
}

func logScale(low, high float64) Scale {
	if math.IsInf(low, 0) {
		low, high = 1, 10
	}
	s := Scale{Low: roundDown(low), High: roundUp(high), Log: true}
	if s.Low == s.High {
		s.High *= 10
	}
	decades := math.Log10(s.High / s.Low)
	steps := []float64{1}
	if decades < 3 {
		steps = []float64{1, 2, 5}
	}
	every := max(1, int(decades)/6)
	first := int(math.Floor(math.Log10(s.Low) + 1e-9))
	for i := 0; i <= int(decades)+2; i += every {
		for _, m := range steps {
			if v := m * math.Pow(10, float64(first+i)); v >= s.Low*(1-1e-9) && v <= s.High*(1+1e-9) {
				s.Ticks = append(s.Ticks, v)
			}
		}
	}
	return s
}

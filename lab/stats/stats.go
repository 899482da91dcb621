// Package stats summarizes noisy measurements without assumptions about the distribution of the noise.
//
// golang.org/x/perf/benchmath is not suitable: the ranks of its interval for a median are not symmetric, so that noise
// on one side counts more than on the other, and its bounds are infinite for few values, which JSON cannot represent.
package stats

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// Estimate is a median with its interval.
type Estimate struct {
	Median float64 `json:"median"`
	// Low and High enclose the median with at least the confidence below; with fewer than six values no interval has
	// that confidence, and they are the smallest and the largest value.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Confidence is the actual confidence of the interval.
	Confidence float64 `json:"confidence"`
	N          int     `json:"n"`
}

// digits is the number of significant digits of figures in files. The noise of every measurement is larger than the
// rounding error.
const digits = 9

// MarshalJSON writes figures without insignificant digits.
func (e Estimate) MarshalJSON() ([]byte, error) {
	type plain Estimate
	p := plain(e)
	for _, v := range []*float64{&p.Median, &p.Low, &p.High, &p.Confidence} {
		*v, _ = strconv.ParseFloat(strconv.FormatFloat(*v, 'g', digits, 64), 64)
	}
	return json.Marshal(p)
}

const confidence = 0.95

// NewEstimate returns the median of the values and its distribution-free interval: the two order statistics, with the
// same distance from both ends, that enclose the median according to the binomial distribution (Conover, Practical
// Nonparametric Statistics, 3rd edition, section 3.2; Hahn and Meeker, Statistical Intervals, section 5.2).
func NewEstimate(values []float64) Estimate {
	n := len(values)
	if n == 0 {
		return Estimate{Median: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	x := slices.Sorted(slices.Values(values))
	e := Estimate{Median: (x[(n-1)/2] + x[n/2]) / 2, Low: x[0], High: x[n-1], N: n}
	// x[k] and x[n-1-k] enclose the median unless at most k of n values fall on one side of it.
	e.Confidence = 1 - 2*binomialTail(n, 0)
	for k := 1; k < n-1-k; k++ {
		c := 1 - 2*binomialTail(n, k)
		if c < confidence {
			break
		}
		e.Low, e.High, e.Confidence = x[k], x[n-1-k], c
	}
	return e
}

// binomialTail returns the probability of at most k heads in n tosses of a fair coin.
func binomialTail(n, k int) float64 {
	sum := 0.0
	for i := 0; i <= k; i++ {
		sum += math.Exp(logChoose(n, i) - float64(n)*math.Ln2)
	}
	return sum
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

func sequence(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i + 1)
	}
	rand.Shuffle(n, func(i, j int) { x[i], x[j] = x[j], x[i] })
	return x
}

// The ranks must be those in published tables of the sign-test interval for a median (Conover, table A3; Hollander and
// Wolfe, table A.2).
func TestEstimateHasTheRanksOfPublishedTables(t *testing.T) {
	for _, c := range []struct {
		n          int
		low, high  float64
		confidence float64
	}{
		{6, 1, 6, 0.9688},
		{9, 2, 8, 0.9609},
		{10, 2, 9, 0.9785},
		{15, 4, 12, 0.9648},
		{20, 6, 15, 0.9586},
		{25, 8, 18, 0.9567},
		{100, 40, 61, 0.9648},
	} {
		e := NewEstimate(sequence(c.n))
		if e.Low != c.low || e.High != c.high || math.Abs(e.Confidence-c.confidence) > 5e-5 {
			t.Errorf("n = %d: [%g, %g] with %.4f, want [%g, %g] with %.4f", c.n, e.Low, e.High, e.Confidence, c.low, c.high, c.confidence)
		}
		if want := float64(c.n+1) / 2; e.Median != want {
			t.Errorf("n = %d: median %g, want %g", c.n, e.Median, want)
		}
	}
}

func TestEstimateOfFewValuesSaysHowLittleItKnows(t *testing.T) {
	e := NewEstimate([]float64{3, 1, 2})
	if e.Low != 1 || e.High != 3 || e.Median != 2 || e.Confidence != 0.75 {
		t.Errorf("got %+v", e)
	}
	if e := NewEstimate([]float64{7}); e.Median != 7 || e.Low != 7 || e.High != 7 || e.Confidence != 0 {
		t.Errorf("of one value got %+v", e)
	}
}

// For many samples of a known distribution, the interval must contain the true median at least as often as its
// confidence says.
func TestEstimateCoversTheMedian(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const trials, n = 4000, 20
	covered, promised := 0, 0.0
	for range trials {
		x := make([]float64, n)
		for i := range x {
			x[i] = random.ExpFloat64()
		}
		e := NewEstimate(x)
		promised = e.Confidence
		if e.Low <= math.Ln2 && math.Ln2 <= e.High {
			covered++
		}
	}
	if got := float64(covered) / trials; math.Abs(got-promised) > 0.012 {
		t.Errorf("covers the median in %.3f of all cases, promised %.3f", got, promised)
	}
}

func TestFilesHaveNoMeaninglessDigits(t *testing.T) {
	text, err := json.Marshal(Estimate{Median: 1.0 / 3, Low: 1e-9 / 3, High: 2e9 / 3, Confidence: 0.25, N: 3})
	want := `{"median":0.333333333,"low":3.33333333e-10,"high":666666667,"confidence":0.25,"n":3}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

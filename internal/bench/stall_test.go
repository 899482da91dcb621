package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestLatenciesAreReadFromPgbenchsLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "latency.1")
	if err := os.WriteFile(file, []byte("0 199 2241 0 1175850568 995598\n1 200 2465 0 1175850568 998079\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := []float64{1}
	err := Latencies(file, func(us float64) { got = append(got, us) })
	if err != nil || !slices.Equal(got, []float64{1, 2241, 2465}) {
		t.Errorf("got %v, %v", got, err)
	}
	if err := os.WriteFile(file, []byte("0 199\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Latencies(file, func(float64) {}); err == nil {
		t.Error("a line without a latency is accepted")
	}
}

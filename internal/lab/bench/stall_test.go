package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestOneOfAThousandIsSlower(t *testing.T) {
	var us []float64
	for i := range 2000 {
		us = append(us, float64((i*7)%2000)) // 0 to 1999, in another order
	}
	if got := slowest(us); got != 1.998 {
		t.Errorf("got %v ms", got)
	}
}

func TestStallWantsALoadThatIsPossible(t *testing.T) {
	for rate, ok := range map[float64]bool{0.25: true, 1: true, 0: false, -1: false, 1.01: false} {
		load := Load{Workload: "select", Protocol: "prepared", Clients: 8, Scale: 1}
		o := &Stall{Load: load, Rate: rate, Rounds: 1, Seconds: 1, Format: "text"}
		if err := o.Complete(nil); (err == nil) != ok {
			t.Errorf("--rate %v: %v", rate, err)
		}
	}
}

func TestLatenciesAreReadFromPgbenchsLog(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "latency")
	file := prefix + ".1"
	if err := os.WriteFile(file, []byte("0 199 2241 0 1175850568 995598\n1 200 2465 0 1175850568 998079\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := []float64{1}
	err := TakeLatencies(prefix, func(us float64) { got = append(got, us) })
	if err != nil || !slices.Equal(got, []float64{1, 2241, 2465}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the log is still there: %v", err)
	}
	if err := os.WriteFile(file, []byte("0 199\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := TakeLatencies(prefix, func(float64) {}); err == nil {
		t.Error("a line without a latency is accepted")
	}
}

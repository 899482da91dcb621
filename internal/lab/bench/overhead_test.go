package bench

import (
	"context"
	"os"
	"reflect"
	"testing"

	"github.com/pg-steno/pg_steno/internal/lab/cluster"
)

// Two sets of two servers: each set is gone when the next one is there, is made in
// another order, and what all of them wrote counts.
func TestServersAreMadeAnew(t *testing.T) {
	ctx := context.Background()
	installation, err := cluster.Find("")
	if err != nil {
		t.Skipf("no PostgreSQL here: %v", err)
	}
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}()
	load := Load{Workload: "select", Protocol: "prepared", Clients: 1, Scale: 1}
	var steps []string
	b, err := Open(ctx, lab, Options{Load: load, Compare: []string{"off", "log_statement"}, Rounds: 3, Seconds: 1, Renew: 2,
		Progress: func(what string, _, _ int) { steps = append(steps, what) }})
	if err != nil {
		t.Fatal(err)
	}
	first := b.Server("log_statement")
	r, err := b.Measure(ctx, load)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pgbench -i, scale 1", "starting off", "starting log_statement=all",
		"off", "log_statement=all", "log_statement=all", "off",
		"starting log_statement=all", "starting off", "log_statement=all", "off"}
	if !reflect.DeepEqual(steps, want) {
		t.Errorf("got the steps %q, want %q", steps, want)
	}
	if _, err := os.Stat(first.DataDir); !os.IsNotExist(err) {
		t.Errorf("the first set is still there: %v", err)
	}
	if r.Rounds != 3 || len(r.slices) != 6 {
		t.Errorf("got %d rounds, %d slices", r.Rounds, len(r.slices))
	}
	// a line takes 200 and some; two rounds of three are the first set's
	if per := *r.Variants[1].BytesPerTransaction; per < 150 {
		t.Errorf("%.0f bytes were logged for a transaction", per)
	}
}

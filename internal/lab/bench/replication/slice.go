package replication

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/bench"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/machine"
)

// patience is how much longer than its time pgbench may take, in a commit that
// waits for a standby, before we call it stuck.
const patience = time.Minute

// script is what pgbench repeats: so many inserts in one transaction.
func script(inserts int) string {
	var b strings.Builder
	if inserts > 1 {
		b.WriteString("BEGIN;\n")
	}
	const insert = "INSERT INTO inserted (client, number, filler) VALUES (:client_id, %d, 'as much as an order has');\n"
	for i := range inserts {
		fmt.Fprintf(&b, insert, i)
	}
	if inserts > 1 {
		b.WriteString("COMMIT;\n")
	}
	return b.String()
}

func scriptFile(lab *cluster.Lab, inserts int) string {
	return filepath.Join(lab.Dir, "inserts-"+strconv.Itoa(inserts)+".sql")
}

func writeScripts(lab *cluster.Lab, m *matrix) error {
	for _, n := range m.Inserts {
		if err := os.WriteFile(scriptFile(lab, n), []byte(script(n)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pgbenchArgs are pgbench's for a slice of that many seconds.
func pgbenchArgs(lab *cluster.Lab, p point, seconds int) []string {
	return []string{
		"--no-vacuum", "--file=" + scriptFile(lab, p.inserts), "--protocol=prepared",
		"--client=" + strconv.Itoa(p.clients), "--jobs=" + strconv.Itoa(min(p.clients, runtime.NumCPU())),
		"--time=" + strconv.Itoa(seconds),
	}
}

// load runs pgbench at a point of the matrix.
func (s *set) load(ctx context.Context, lab *cluster.Lab, p point, args []string,
	limit time.Duration) (bench.Slice, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errStuck)
	defer cancel()
	to := conninfo(s.primary, p.sync, find(stenos, p.steno).Settings...)
	cmd := lab.Client(ctx, "pgbench", append(args, to)...)
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cause := context.Cause(ctx); cause != nil {
		return bench.Slice{}, cause
	}
	if err != nil {
		return bench.Slice{}, fmt.Errorf("pgbench on server \"%s\": %w\n%s", s.primary.Name, err,
			strings.TrimSpace(stderr.String()))
	}
	return bench.ParseReport(string(out))
}

var errStuck = errors.New("pgbench does not exit: has the primary lost its standbys?")

// figures are what a timed slice says.
type figures struct {
	tps      float64
	p50, p99 float64 // ms
	idle     float64 // %, of all processors
}

// timed gives a set a slice in which nothing else happens.
func (s *set) timed(ctx context.Context, lab *cluster.Lab, p point, seconds int) (f figures, err error) {
	prefix := filepath.Join(lab.Dir, "latency")
	idle, err := machine.StartIdle()
	if err != nil {
		return f, err
	}
	args := append(pgbenchArgs(lab, p, seconds), "--log", "--log-prefix="+prefix)
	done, err := s.load(ctx, lab, p, args, time.Duration(seconds)*time.Second+patience)
	if err != nil {
		return f, err
	}
	f.tps = done.TPS
	if f.idle, err = idle.Percent(); err != nil {
		return f, err
	}
	f.p50, f.p99, err = takeLatencies(prefix)
	return f, err
}

// takeLatencies returns percentiles, in milliseconds, of what pgbench has logged,
// and removes the files.
func takeLatencies(prefix string) (p50, p99 float64, err error) {
	var all []float64
	if err := bench.TakeLatencies(prefix, func(us float64) { all = append(all, us) }); err != nil {
		return 0, 0, err
	}
	if len(all) == 0 {
		return 0, 0, errors.New("pgbench logged no transaction")
	}
	slices.Sort(all)
	return percentile(all, 0.5) / 1000, percentile(all, 0.99) / 1000, nil
}

// percentile is the smallest of sorted values that this share of them does not
// exceed.
func percentile(sorted []float64, share float64) float64 {
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

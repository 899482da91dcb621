// The load of a slice: pgbench's arguments, its report, and the latencies in its logs.

package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Load is what pgbench does to a server.
type Load struct {
	Workload string `json:"workload"`
	Protocol string `json:"protocol"`
	Clients  int    `json:"clients"`
	Scale    int    `json:"scale"`
}

// workloads are pgbench's built-in scripts by our names.
var workloads = map[string]struct{ script, title string }{
	"select": {"select-only", "pgbench -S"},
	"tpcb":   {"tpcb-like", "pgbench, TPC-B-like"},
}

// Protocols are pgbench's.
var Protocols = []string{"simple", "extended", "prepared"}

func (l *Load) check() error {
	switch {
	case workloads[l.Workload].script == "":
		return fmt.Errorf("no workload \"%s\"; there are select and tpcb", l.Workload)
	case !slices.Contains(Protocols, l.Protocol):
		return fmt.Errorf("no protocol \"%s\"; there are simple, extended and prepared", l.Protocol)
	case l.Clients < 1 || l.Clients > 90:
		return fmt.Errorf("%d clients: the servers accept from 1 to 90", l.Clients)
	case l.Scale < 1:
		return fmt.Errorf("the scale must be at least 1")
	}
	return nil
}

// Title is how a person would say it.
func (l *Load) Title() string {
	return fmt.Sprintf("%s -M %s, %d clients, scale %d", workloads[l.Workload].title, l.Protocol, l.Clients, l.Scale)
}

// args are pgbench's for a slice of that many seconds.
func (l *Load) args(seconds int) []string {
	return []string{
		"--no-vacuum", "--builtin=" + workloads[l.Workload].script, "--protocol=" + l.Protocol,
		"--client=" + strconv.Itoa(l.Clients), "--jobs=" + strconv.Itoa(min(l.Clients, runtime.NumCPU())),
		"--time=" + strconv.Itoa(seconds),
	}
}

// target is a server under load.
type target interface {
	Pgbench(ctx context.Context, args ...string) (string, error)
}

// Slice is what one run of pgbench reports.
type Slice struct {
	TPS          float64 // without the time to connect
	Transactions int64
}

var (
	tpsLine          = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)
	transactionsLine = regexp.MustCompile(`(?m)^number of transactions actually processed: ([0-9]+)`)
	failedLine       = regexp.MustCompile(`(?m)^number of failed transactions: ([0-9]+)`)
)

func (l *Load) run(ctx context.Context, t target, seconds int) (Slice, error) {
	report, err := t.Pgbench(ctx, l.args(seconds)...)
	if err != nil {
		return Slice{}, err
	}
	return ParseReport(report)
}

// ParseReport reads what pgbench prints. Failed transactions are an error.
func ParseReport(report string) (Slice, error) {
	var s Slice
	tps, n := tpsLine.FindStringSubmatch(report), transactionsLine.FindStringSubmatch(report)
	if tps == nil || n == nil {
		return s, fmt.Errorf("cannot read pgbench's report:\n%s", report)
	}
	if failed := failedLine.FindStringSubmatch(report); failed != nil && failed[1] != "0" {
		return s, fmt.Errorf("%s transactions failed in pgbench", failed[1])
	}
	s.TPS, _ = strconv.ParseFloat(tps[1], 64)
	s.Transactions, _ = strconv.ParseInt(n[1], 10, 64)
	if s.TPS <= 0 {
		return s, fmt.Errorf("pgbench executed no transaction:\n%s", report)
	}
	return s, nil
}

// TakeLatencies reads the logs that pgbench has written with this prefix, calls
// each with the microseconds of every transaction, and removes them.
func TakeLatencies(prefix string, each func(us float64)) error {
	files, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := latencies(file, each); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

func latencies(file string, each func(us float64)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// client, number of the transaction, latency ...
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 {
			return fmt.Errorf("cannot read pgbench's log: %s", lines.Text())
		}
		us, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return fmt.Errorf("cannot read pgbench's log: %w", err)
		}
		each(us)
	}
	return lines.Err()
}

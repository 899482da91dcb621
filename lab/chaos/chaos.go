// Package chaos tries to make pg_steno lose or duplicate a record: it combines random load with random faults, and
// compares the answers that the clients got with the trail.
//
// A Round is a throw-away server with random settings (mode.go), clients that keep each of their statements and its
// answer (load.go), and a sequence of faults (fault.go, process.go, disk.go). Then the trail is read with the steno
// program and must agree with the clients, as far as the round's mode guarantees (check.go). The folder of a round
// that fails is kept.
//
// Everything random is derived from the seed and the round's number, so settings, faults and statements can be
// repeated. Their timing cannot, so it may take several attempts to reproduce a failure.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
	"github.com/pg-steno/pg_steno/lab/cluster"
)

// Options are the parameters of a run.
type Options struct {
	rounds.Options
	Kills   int      // stop after this many; 0: no limit
	Mode    string   // only this one; "": any
	Faults  []string // only these; none: any
	Clients int      // 0: chosen by the round's seed
	Source  string   // path of faults.c
}

// Totals are the counts of all rounds.
type Totals struct {
	*rounds.Totals
	Faults, Kills      int
	Acknowledged       int // statements that were answered
	Unanswered         int // statements whose client lost its connection
	Records            int
	Missing, Accounted int // acknowledged statements without record; of these, within the guarantee
	Untold             int // missing statements of sessions of which only the number of drops was recorded
	OldestLost         time.Duration
	perFault           map[string]int
	perMode            map[string]int
	killsInMode        map[string]int
	acknowledgedInMode map[string]int
}

// Run makes rounds until one of the limits is reached.
func Run(ctx context.Context, o Options) (*Totals, error) {
	if o.Mode != "" && !slices.Contains(modeNames(), o.Mode) {
		return nil, fmt.Errorf("no mode \"%s\"; there are %s", o.Mode, strings.Join(modeNames(), ", "))
	}
	for _, name := range o.Faults {
		if findFault(name) == nil {
			return nil, fmt.Errorf("no fault \"%s\"; there are %s", name, strings.Join(faultNames(), ", "))
		}
	}
	lab, err := newLab(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer lab.Close()
	start := time.Now()
	t := &Totals{
		perFault: map[string]int{}, perMode: map[string]int{}, killsInMode: map[string]int{},
		acknowledgedInMode: map[string]int{},
	}
	t.Totals, err = o.Options.Run(ctx,
		func(n int) (rounds.Round, error) { return newRound(lab, &o, n) },
		func(*rounds.Totals) bool { return o.Kills > 0 && t.Kills >= o.Kills },
		func(r rounds.Round, _ bool) { r.(*round).count(t) })
	if err != nil {
		return t, err
	}
	t.write(o.Out, time.Since(start))
	return t, t.Verdict(ctx)
}

// newLab creates the template of all rounds' servers.
func newLab(ctx context.Context, o *Options) (*cluster.Lab, error) {
	lab, err := rounds.NewLab(ctx)
	if err != nil {
		return nil, err
	}
	// the server's account must be able to load it
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	library := faultLibrary(lab)
	if out, err := exec.Command(cc, "-O1", "-shared", "-fPIC", "-o", library, o.Source,
		"-ldl").CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w\n%s", o.Source, err, out), lab.Close())
	}
	if err := errors.Join(os.Chmod(library, 0o755), makeKeys(lab, o.Steno), prepare(ctx, lab)); err != nil {
		return nil, errors.Join(err, lab.Close())
	}
	return lab, nil
}

func faultLibrary(lab *cluster.Lab) string { return filepath.Join(lab.Dir, "faults.so") }

func (t *Totals) write(out io.Writer, took time.Duration) {
	fmt.Fprintf(out, "\n%d rounds in %s (%s): %d faults, %d processes killed\n", t.Rounds, took.Round(time.Second),
		rounds.List(t.perMode), t.Faults, t.Kills)
	fmt.Fprintf(out, "faults: %s\n", rounds.List(t.perFault))
	fmt.Fprintf(out, "kills by mode: %s\n", rounds.List(t.killsInMode))
	fmt.Fprintf(out, "statements acknowledged: %d (%s); without an answer: %d; records read: %d\n", t.Acknowledged,
		rounds.List(t.acknowledgedInMode), t.Unanswered, t.Records)
	fmt.Fprintf(out, "acknowledged but missing: %d; of these, covered by the guarantees: %d\n", t.Missing, t.Accounted)
	if t.Untold > 0 {
		fmt.Fprintf(out, "missing, of sessions that found no space for any record (gap records contain their number "+
			"only): %d\n", t.Untold)
	}
	if t.OldestLost > 0 {
		fmt.Fprintf(out, "oldest statement lost in a power loss: %s before it\n", t.OldestLost.Round(time.Millisecond))
	}
	fmt.Fprintf(out, "rounds that failed: %d\n", t.Failed)
}

// Package chaos tries to make pg_steno lose or repeat a record: random load
// meets random faults, and what the clients were told is compared with the
// trail.
//
// A Round is a throw-away server with random settings (mode.go), clients that
// remember each of their statements and what they were told of it (load.go),
// and faults one after the other (fault.go, process.go, disk.go). Then the trail is read with the steno program and must agree with
// the clients, as far as the round's mode guarantees (check.go). A round that
// fails keeps its folder.
//
// All that is random comes from the seed and the round's number: settings,
// faults and statements are the same again. Their timing is not, so a failure
// may take some repetitions.
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

	"github.com/pg-steno/pg_steno/internal/lab/chaos/rounds"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
)

// Options say how long and what.
type Options struct {
	rounds.Options
	Kills   int      // stop after so many; 0: no limit
	Mode    string   // only this one; "": any
	Faults  []string // only these; none: any
	Clients int      // 0: as the round's seed says
	Source  string   // path of faults.c
}

// Totals are what all rounds together had.
type Totals struct {
	*rounds.Totals
	Faults, Kills      int
	Acknowledged       int // statements that clients were told of
	Unanswered         int // whose client lost its server
	Records            int
	Missing, Accounted int // acknowledged statements without record; of these, within the guarantee
	Untold             int // of those missing, of sessions that left nothing but their number
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

// newLab makes the template that all rounds' servers are copies of.
func newLab(ctx context.Context, o *Options) (*cluster.Lab, error) {
	lab, err := rounds.NewLab(ctx)
	if err != nil {
		return nil, err
	}
	// the server's user must be able to load it
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	library := faultLibrary(lab)
	if out, err := exec.Command(cc, "-O1", "-shared", "-fPIC", "-o", library, o.Source, "-ldl").CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w\n%s", o.Source, err, out), lab.Close())
	}
	if err := errors.Join(os.Chmod(library, 0o755), makeKeys(lab, o.Steno), prepare(ctx, lab)); err != nil {
		return nil, errors.Join(err, lab.Close())
	}
	return lab, nil
}

func faultLibrary(lab *cluster.Lab) string { return filepath.Join(lab.Dir, "faults.so") }

func (t *Totals) write(out io.Writer, took time.Duration) {
	fmt.Fprintf(out, "\n%d rounds in %s (%s): %d faults, %d processes killed\n", t.Rounds, took.Round(time.Second), rounds.List(t.perMode), t.Faults, t.Kills)
	fmt.Fprintf(out, "faults: %s\n", rounds.List(t.perFault))
	fmt.Fprintf(out, "kills by mode: %s\n", rounds.List(t.killsInMode))
	fmt.Fprintf(out, "statements acknowledged: %d (%s); without an answer: %d; records read: %d\n", t.Acknowledged, rounds.List(t.acknowledgedInMode), t.Unanswered, t.Records)
	fmt.Fprintf(out, "acknowledged but missing: %d; of these, covered by the guarantees: %d\n", t.Missing, t.Accounted)
	if t.Untold > 0 {
		fmt.Fprintf(out, "missing, of sessions that found no space for any record (gap records contain their number only): %d\n", t.Untold)
	}
	if t.OldestLost > 0 {
		fmt.Fprintf(out, "oldest statement lost in a power loss: %s before it\n", t.OldestLost.Round(time.Millisecond))
	}
	fmt.Fprintf(out, "rounds that failed: %d\n", t.Failed)
}

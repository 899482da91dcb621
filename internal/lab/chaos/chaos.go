// Package chaos tries to make pg_steno lose or repeat a record: random load
// meets random faults, and what the clients were told is compared with the
// trail.
//
// A Round is a throw-away server with random settings (mode.go), clients that
// remember each of their statements and what they were told of it (load.go,
// statement.go), and faults one after the other (fault.go, process.go,
// disk.go). Then the trail is read with the steno program and must agree with
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
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/cluster"
)

// Options say how long and what.
type Options struct {
	Seed    uint64
	Rounds  int           // stop after so many; 0: no limit
	Kills   int           // stop after so many; 0: no limit
	Budget  time.Duration // stop after this time; 0: no limit
	First   int           // number of the first round
	Mode    string        // only this one; "": any
	Faults  []string      // only these; none: any
	Clients int           // 0: as the round's seed says
	Keep    bool          // folders of rounds that went well, too

	Steno    string // path of the steno program
	Source   string // path of faults.c
	Evidence string // folder for what failing rounds leave
	Out      io.Writer
	Verbose  bool
}

// Totals are what all rounds together had.
type Totals struct {
	Rounds, Failed     int
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

// ErrFailed says that a round failed; what and how is printed already.
var ErrFailed = errors.New("chaos: a round failed")

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
	fmt.Fprintf(o.Out, "seed %d\n", o.Seed)
	for n := o.First; ctx.Err() == nil; n++ {
		if o.Rounds > 0 && t.Rounds >= o.Rounds || o.Kills > 0 && t.Kills >= o.Kills ||
			o.Budget > 0 && t.Rounds > 0 && time.Since(start) >= o.Budget {
			break
		}
		if err := one(ctx, lab, &o, n, t); err != nil {
			return t, err
		}
	}
	t.write(o.Out, time.Since(start))
	if t.Failed > 0 {
		return t, ErrFailed
	}
	return t, ctx.Err()
}

// one makes a round, reports on it, and puts its folder away.
func one(ctx context.Context, lab *cluster.Lab, o *Options, n int, t *Totals) error {
	start := time.Now()
	r, err := newRound(lab, o, n)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "round %d: %s\n", n, r.describe())
	err = r.run(ctx)
	if ctx.Err() != nil {
		r.abandon()
		return ctx.Err()
	}
	r.count(t)
	verdict := "well"
	if err != nil {
		verdict = "FAILED"
		t.Failed++
	}
	fmt.Fprintf(o.Out, "round %d: %s in %.1f s: %s\n", n, verdict, time.Since(start).Seconds(), r.figures())
	if err != nil {
		fmt.Fprintf(o.Out, "%s\n", strings.TrimRight(err.Error(), "\n"))
		if saved, err := r.save(); err != nil {
			fmt.Fprintf(o.Out, "what it left could not be kept: %s\n", err)
		} else {
			fmt.Fprintf(o.Out, "kept in %s\n", saved)
		}
		fmt.Fprintf(o.Out, "again: %s\n", r.again())
	} else if o.Keep {
		if _, err := r.save(); err != nil {
			return err
		}
	}
	r.abandon()
	return nil
}

// newLab makes the template that all rounds' servers are copies of.
func newLab(ctx context.Context, o *Options) (*cluster.Lab, error) {
	installation, err := cluster.Find("")
	if err != nil {
		return nil, err
	}
	if !installation.HasLibrary("pg_steno") {
		return nil, fmt.Errorf("no pg_steno.so in \"%s\": use scripts/chaos", installation.LibraryDir)
	}
	lab, err := cluster.NewLab(ctx, installation)
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

// random is a source of its own for each purpose of a round.
func random(seed uint64, round int, purpose string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(fmt.Sprintf("%d %s", round, purpose)) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

func (t *Totals) write(out io.Writer, took time.Duration) {
	list := func(m map[string]int) string {
		var parts []string
		for k, n := range m {
			parts = append(parts, fmt.Sprintf("%s %d", k, n))
		}
		slices.Sort(parts)
		return strings.Join(parts, ", ")
	}
	fmt.Fprintf(out, "\n%d rounds in %s (%s): %d faults, %d processes killed\n", t.Rounds, took.Round(time.Second), list(t.perMode), t.Faults, t.Kills)
	fmt.Fprintf(out, "faults: %s\n", list(t.perFault))
	fmt.Fprintf(out, "kills by mode: %s\n", list(t.killsInMode))
	fmt.Fprintf(out, "statements acknowledged: %d (%s); without an answer: %d; records read: %d\n", t.Acknowledged, list(t.acknowledgedInMode), t.Unanswered, t.Records)
	fmt.Fprintf(out, "acknowledged and missing: %d, of them within the guarantee: %d\n", t.Missing, t.Accounted)
	if t.Untold > 0 {
		fmt.Fprintf(out, "missing of sessions that found no room for anything, of which gap records tell the number only: %d\n", t.Untold)
	}
	if t.OldestLost > 0 {
		fmt.Fprintf(out, "oldest statement that a power loss took: %s before it\n", t.OldestLost.Round(time.Millisecond))
	}
	fmt.Fprintf(out, "rounds that failed: %d\n", t.Failed)
}

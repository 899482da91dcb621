// Package rounds runs rounds of random work against throw-away servers, one after the other, until a limit is reached.
// It reports on each, and keeps the evidence of those that fail. The caller defines what a round does.
package rounds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/lab/cluster"
)

// Options are the parameters of a run.
type Options struct {
	Seed   uint64
	Rounds int           // stop after this many; 0: no limit
	Budget time.Duration // stop after this time; 0: no limit
	First  int           // number of the first round
	Keep   bool          // keep the folders of successful rounds, too

	Steno    string // path of the steno program
	Evidence string // folder for the evidence of failed rounds
	Out      io.Writer
	Verbose  bool
}

// Totals are the counts of all rounds.
type Totals struct{ Rounds, Failed int }

// Round is one round.
type Round interface {
	// Describe returns its settings.
	Describe() string
	// Run returns what is wrong, "" if nothing is.
	Run(ctx context.Context) (wrong string)
	// Counts returns its counts.
	Counts() string
	// RepeatCommand returns the command that repeats it.
	RepeatCommand() string
	// Save keeps its evidence, and returns where.
	Save() (folder string, err error)
	// Abandon ends its processes, and removes its folder.
	Abandon()
}

// ErrFailed means that a round failed, which has been reported already.
var ErrFailed = errors.New("chaos: a round failed")

// Run runs rounds until a limit is reached or enough returns true. count is called for each round that has ended, and
// completes it.
func (o *Options) Run(ctx context.Context, make func(n int) (Round, error), enough func(*Totals) bool,
	count func(r Round, failed bool)) (*Totals, error) {
	start := time.Now()
	t := &Totals{}
	fmt.Fprintf(o.Out, "seed %d\n", o.Seed)
	for n := o.First; ctx.Err() == nil; n++ {
		if o.Rounds > 0 && t.Rounds >= o.Rounds || o.Budget > 0 && t.Rounds > 0 && time.Since(start) >= o.Budget ||
			enough(t) {
			break
		}
		r, err := make(n)
		if err != nil {
			return t, err
		}
		failed, err := o.runRound(ctx, n, r)
		if err != nil {
			return t, err
		}
		if t.Rounds++; failed {
			t.Failed++
		}
		count(r, failed)
	}
	return t, nil
}

// Verdict returns the error of all rounds.
func (t *Totals) Verdict(ctx context.Context) error {
	if t.Failed > 0 {
		return ErrFailed
	}
	return ctx.Err()
}

// runRound runs a round, reports on it, and removes its folder or keeps its evidence.
func (o *Options) runRound(ctx context.Context, n int, r Round) (failed bool, err error) {
	start := time.Now()
	defer r.Abandon()
	fmt.Fprintf(o.Out, "round %d: %s\n", n, r.Describe())
	wrong := r.Run(ctx)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	verdict := "well"
	if wrong != "" {
		verdict = "FAILED"
	}
	fmt.Fprintf(o.Out, "round %d: %s in %.1f s: %s\n", n, verdict, time.Since(start).Seconds(), r.Counts())
	if wrong != "" {
		fmt.Fprintf(o.Out, "%s\nto repeat: %s\n", strings.TrimRight(wrong, "\n"), r.RepeatCommand())
	}
	if wrong != "" || o.Keep {
		if saved, err := r.Save(); err != nil {
			fmt.Fprintf(o.Out, "the remains could not be kept: %s\n", err)
		} else {
			fmt.Fprintf(o.Out, "kept in %s\n", saved)
		}
	}
	return wrong != "", nil
}

// NewLab creates the lab of the servers, which all have the extension.
func NewLab(ctx context.Context) (*cluster.Lab, error) {
	installation, err := cluster.Find("")
	if err != nil {
		return nil, err
	}
	if !installation.HasLibrary("pg_steno") {
		return nil, fmt.Errorf("no pg_steno.so in \"%s\": use scripts/chaos", installation.LibraryDir)
	}
	return cluster.NewLab(ctx, installation)
}

// Random returns a separate random source for each purpose of a round.
func Random(seed uint64, round int, purpose string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(fmt.Sprintf("%d %s", round, purpose)) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

// List formats counts.
func List(counts map[string]int) string {
	var parts []string
	for what, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

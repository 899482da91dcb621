// Package protocol tries to confuse pg_steno with sequences of the SQL protocol:
// portals, cursors, savepoints, functions that fail, cancels, disconnects, in any
// order. Each statement has a marker; the trail must have one record for it, with
// the outcome that the client was told and the relations that it read.
//
// A round is a throw-away server with random settings and some clients, which run
// one script after the other (script.go, extended.go), each in a session of its own
// (client.go). Then the trail is compared with what they were told (check.go). The
// script of a session that disagrees is made as short as it can be (shrink.go).
//
// Scripts and settings come from the seed, the number of the round, of the client
// and of the session. Only timing does not, and what sessions do to each other.
package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/cluster"
)

// Options say how long and what.
type Options struct {
	Seed     uint64
	Rounds   int           // stop after so many; 0: no limit
	Budget   time.Duration // stop after this time; 0: no limit
	First    int           // number of the first round
	Clients  int
	Sessions int      // of each client in a round
	Only     string   // this session of the round alone, "client.number"
	With     []string // only these moves; none: all
	Without  []string // not these
	Goon     bool     // after a round that failed, too
	Shrink   time.Duration
	Keep     bool

	Steno    string // path of the steno program
	Evidence string // folder for what failing rounds leave
	Out      io.Writer
	Verbose  bool
}

func (o *Options) allows(move string) bool {
	return (len(o.With) == 0 || slices.Contains(o.With, move)) && !slices.Contains(o.Without, move)
}

// Totals are what all rounds together had.
type Totals struct {
	Rounds, Failed int
	Sessions       int
	Acknowledged   int // statements that clients were told of
	Unanswered     int // statements that were sent, and their session ended
	Nested         int // nested statements that said that they ran
	Records        int
	moves          map[string]int
}

// ErrFailed says that a round failed; what and how is printed already.
var ErrFailed = errors.New("chaos: a round failed")

// Run makes rounds until one of the limits is reached, or one fails.
func Run(ctx context.Context, o Options) (*Totals, error) {
	for _, name := range append(slices.Clone(o.With), o.Without...) {
		if !slices.Contains(moveNames(), name) {
			return nil, fmt.Errorf("no move \"%s\"; there are %s", name, strings.Join(moveNames(), ", "))
		}
	}
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
	defer lab.Close()
	if err := prepare(ctx, lab); err != nil {
		return nil, err
	}
	start := time.Now()
	t := &Totals{moves: map[string]int{}}
	fmt.Fprintf(o.Out, "seed %d\n", o.Seed)
	for n := o.First; ctx.Err() == nil; n++ {
		if o.Rounds > 0 && t.Rounds >= o.Rounds || o.Budget > 0 && t.Rounds > 0 && time.Since(start) >= o.Budget ||
			t.Failed > 0 && !o.Goon {
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

// one makes a round and reports on it.
func one(ctx context.Context, lab *cluster.Lab, o *Options, n int, t *Totals) error {
	start := time.Now()
	r, err := newRound(lab, o, n)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "round %d: %s\n", n, r.describe())
	r.run(ctx, r.scripts())
	if ctx.Err() != nil {
		r.abandon()
		return ctx.Err()
	}
	r.count(t)
	verdict := "well"
	if len(r.wrong) > 0 {
		verdict = "FAILED"
		t.Failed++
	}
	fmt.Fprintf(o.Out, "round %d: %s in %.1f s: %s\n", n, verdict, time.Since(start).Seconds(), r.figures())
	if len(r.wrong) > 0 {
		fmt.Fprint(o.Out, r.complaints())
		fmt.Fprintf(o.Out, "again: %s\n", r.again(""))
	}
	if len(r.wrong) > 0 || o.Keep {
		saved, err := r.save()
		if err != nil {
			fmt.Fprintf(o.Out, "what it left could not be kept: %s\n", err)
		} else {
			fmt.Fprintf(o.Out, "kept in %s\n", saved)
		}
	}
	r.abandon()
	if len(r.wrong) > 0 && o.Shrink > 0 {
		r.shrinkAll(ctx)
	}
	return nil
}

// random is a source of its own for each purpose of a round.
func random(seed uint64, round int, purpose string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(fmt.Sprintf("%d %s", round, purpose)) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

func (t *Totals) write(out io.Writer, took time.Duration) {
	var parts []string
	for k, n := range t.moves {
		parts = append(parts, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(parts)
	fmt.Fprintf(out, "\n%d rounds in %s, %d sessions: %s\n", t.Rounds, took.Round(time.Second), t.Sessions, strings.Join(parts, ", "))
	fmt.Fprintf(out, "statements acknowledged: %d; without an answer: %d; nested statements that ran: %d; records read: %d\n",
		t.Acknowledged, t.Unanswered, t.Nested, t.Records)
	fmt.Fprintf(out, "rounds that failed: %d\n", t.Failed)
}

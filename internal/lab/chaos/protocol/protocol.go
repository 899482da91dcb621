// Package protocol tries to confuse pg_steno with sequences of the SQL protocol:
// portals, cursors, savepoints, functions that fail, cancels, disconnects, in any
// order. Each statement has a marker; the trail must have one record for it, with
// the outcome that the client was told and the relations that it read.
//
// A round (round.go) is a throw-away server with random settings and some clients, which
// run one script after the other (script.go, extended.go), each in a session of its own
// (client.go). Then the trail is compared with what they were told (check.go). The script
// of a session that disagrees is shortened as far as it still disagrees.
//
// Scripts and settings come from the seed, the number of the round, of the client
// and of the session. Only timing does not, and what sessions do to each other.
package protocol

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/chaos/rounds"
)

// Options say how long and what.
type Options struct {
	rounds.Options
	Clients  int
	Sessions int      // of each client in a round
	Only     string   // this session of the round alone, "client.number"
	With     []string // only these moves; none: all
	Without  []string // not these
	Goon     bool     // after a round that failed, too
	Shrink   time.Duration
}

func (o *Options) allows(move string) bool {
	return (len(o.With) == 0 || slices.Contains(o.With, move)) && !slices.Contains(o.Without, move)
}

// Totals are what all rounds together had.
type Totals struct {
	*rounds.Totals
	Sessions     int
	Acknowledged int // statements that clients were told of
	Unanswered   int // statements that were sent, and their session ended
	Nested       int // nested statements that said that they ran
	Records      int
	moves        map[string]int
}

// Run makes rounds until one of the limits is reached, or one fails.
func Run(ctx context.Context, o Options) (*Totals, error) {
	for _, name := range append(slices.Clone(o.With), o.Without...) {
		if !slices.Contains(moveNames(), name) {
			return nil, fmt.Errorf("no move \"%s\"; there are %s", name, strings.Join(moveNames(), ", "))
		}
	}
	lab, err := rounds.NewLab(ctx)
	if err != nil {
		return nil, err
	}
	defer lab.Close()
	if err := prepare(ctx, lab); err != nil {
		return nil, err
	}
	start := time.Now()
	t := &Totals{moves: map[string]int{}}
	t.Totals, err = o.Options.Run(ctx,
		func(n int) (rounds.Round, error) { return newRound(lab, &o, n) },
		func(so *rounds.Totals) bool { return so.Failed > 0 && !o.Goon },
		func(one rounds.Round, failed bool) {
			r := one.(*round)
			r.count(t)
			if failed && o.Shrink > 0 {
				r.shrinkAll(ctx)
			}
		})
	if err != nil {
		return t, err
	}
	t.write(o.Out, time.Since(start))
	return t, t.Verdict(ctx)
}

func (t *Totals) write(out io.Writer, took time.Duration) {
	fmt.Fprintf(out, "\n%d rounds in %s, %d sessions: %s\n", t.Rounds, took.Round(time.Second), t.Sessions, rounds.List(t.moves))
	fmt.Fprintf(out, "statements acknowledged: %d; without an answer: %d; nested statements that ran: %d; records read: %d\n",
		t.Acknowledged, t.Unanswered, t.Nested, t.Records)
	fmt.Fprintf(out, "rounds that failed: %d\n", t.Failed)
}

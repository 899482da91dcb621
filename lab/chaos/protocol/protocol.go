// Package protocol tests pg_steno with random sequences of protocol messages: portals, cursors, savepoints, functions
// that fail, cancels and disconnects in any order. Each statement has a marker; the trail must have one record for it,
// with the outcome that the client was told and the relations that it read.
//
// A round (round.go) is a throw-away server with random settings and some clients, which run one script after the
// other (script.go, extended.go), each in a session of its own (client.go). Then the trail is compared with the
// answers they got (check.go). The script of a session that disagrees is reduced as long as it still disagrees.
//
// Scripts and settings are derived from the seed and the numbers of the round, the client and the session. Only
// timing, and interactions between sessions, cannot be repeated.
package protocol

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
)

// Options are the parameters of a run.
type Options struct {
	rounds.Options
	Clients  int
	Sessions int      // of each client in a round
	Only     string   // only this session of the round, "client.number"
	With     []string // only these moves; none: all
	Without  []string // without these moves
	Goon     bool     // continue after a failed round
	Shrink   time.Duration
}

func (o *Options) allows(move string) bool {
	return (len(o.With) == 0 || slices.Contains(o.With, move)) && !slices.Contains(o.Without, move)
}

// Totals are the counts of all rounds.
type Totals struct {
	*rounds.Totals
	Sessions     int
	Acknowledged int // statements that were answered
	Unanswered   int // statements whose session ended before an answer
	Nested       int // nested statements that reported that they ran
	Records      int
	moves        map[string]int
}

// Run runs rounds until a limit is reached or one fails.
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
		func(ended rounds.Round, failed bool) {
			r := ended.(*round)
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
	fmt.Fprintf(out, "\n%d rounds in %s, %d sessions: %s\n", t.Rounds, took.Round(time.Second), t.Sessions,
		rounds.List(t.moves))
	fmt.Fprintf(out, "statements acknowledged: %d; without an answer: %d; nested statements that ran: %d; records "+
		"read: %d\n",
		t.Acknowledged, t.Unanswered, t.Nested, t.Records)
	fmt.Fprintf(out, "rounds that failed: %d\n", t.Failed)
}

package protocol

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// shrinkAll makes the scripts that disagree short, the first of each kind of
// complaint.
func (r *round) shrinkAll(ctx context.Context) {
	done := map[string]bool{}
	for _, w := range r.wrong {
		if w.session == nil || done[w.kind] {
			continue
		}
		done[w.kind] = true
		r.shrink(ctx, w)
	}
}

// shrink repeats the session of a complaint alone, with fewer and fewer steps, as
// long as the same kind of complaint comes.
func (r *round) shrink(ctx context.Context, w complaint) {
	end := time.Now().Add(r.options.Shrink)
	number := w.session.script
	steps := make([]int, min(w.session.done+1, len(number.steps)))
	for i := range steps {
		steps[i] = i
	}
	var last *round
	fails := func(chosen []int) bool {
		s := generate(r.options, r.number, number.client, number.number, r.options.Clients > 1)
		all := s.steps
		s.steps = nil
		for _, i := range chosen {
			s.steps = append(s.steps, all[i])
		}
		again, err := newRound(r.lab, r.options, r.number)
		if err != nil {
			return false
		}
		defer again.Abandon()
		again.run(ctx, [][]*script{{s}})
		if slices.ContainsFunc(again.wrong, func(x complaint) bool { return x.kind == w.kind }) {
			last = again
			return true
		}
		return false
	}
	if !fails(steps) {
		fmt.Fprintf(r.options.Out, "%s: session %s alone does not fail\n", w.kind, number.name())
		return
	}
	for size := len(steps) / 2; size > 0 && time.Now().Before(end); {
		removed := false
		for at := 0; at < len(steps) && time.Now().Before(end) && ctx.Err() == nil; {
			fewer := slices.Delete(slices.Clone(steps), at, min(at+size, len(steps)))
			if len(fewer) > 0 && fails(fewer) {
				steps, removed = fewer, true
			} else {
				at += size
			}
		}
		if !removed || size > len(steps) {
			size /= 2
		}
	}
	fmt.Fprintf(r.options.Out, "%s: shortest script of session %s, %d steps:\n%s%s", w.kind, number.name(), len(steps),
		last.sessions[0].transcript(), last.complaints())
}

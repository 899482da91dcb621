// How long to wait before something is tried again.

package ship

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Retry says how long to wait between attempts.
type Retry struct {
	First Duration `yaml:"first"` // after the first failure
	Most  Duration `yaml:"most"`  // after many
}

// wait returns how long to wait after a number of failures, counted from 1: twice as long each time, up to the
// limit, and half of that at random, so that many agents do not come back at the same moment.
func (r Retry) wait(failures int) time.Duration {
	full := time.Duration(r.First)
	for range failures - 1 {
		if full *= 2; full >= time.Duration(r.Most) || full <= 0 {
			break
		}
	}
	full = min(max(full, 2), time.Duration(r.Most))
	return full/2 + rand.N(full/2+1)
}

// AfterError is an error of a destination that says when to come back.
type AfterError struct {
	After time.Duration
	Err   error
}

func (e *AfterError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e *AfterError) Unwrap() error { return e.Err }

// pause waits before the next attempt; it returns false if the context ended meanwhile.
func (r Retry) pause(ctx context.Context, failures int, err error) bool {
	wait := r.wait(failures)
	if asked := (*AfterError)(nil); errors.As(err, &asked) {
		wait = min(max(wait, asked.After), maxAfter)
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// maxAfter bounds what a destination may ask for.
const maxAfter = 15 * time.Minute

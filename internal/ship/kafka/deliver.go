// Messages in, acknowledgements out.

package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stallTime is how long no message may be acknowledged before an attempt is given up. It is longer than the client
// takes to notice a connection that is dead.
const stallTime = 30 * time.Second

// attempt is messages that are being sent.
type attempt struct {
	errs   []error // of each message; nil: it is stored
	left   atomic.Int64
	failed atomic.Bool
	done   chan struct{} // closed when all messages have a result
}

func (a *attempt) finish(i int, err error) {
	if a.errs[i] = err; err != nil {
		a.failed.Store(true)
	}
	if a.left.Add(-1) == 0 {
		close(a.done)
	}
}

// errStalled says that nothing was acknowledged for a long time.
var errStalled = errors.New("no acknowledgement")

// deliver sends messages, and returns the result of each when all have one. err is why some have failed.
//
// The order of a key's messages holds: if one fails, the client fails all others of its partition that it has, and
// none of them is stored after it, because the cluster refuses what comes after a gap. But a message that is given to
// the client after one has failed would be stored, before the other one is sent again. So nothing is sent until the
// client has all messages, and none has failed until then. Results are reported one after the other: when a message
// that cannot be sent has its result, all earlier failures are known.
//
// After a failure, the client is given up with what it still has. What it has sent may be stored later than what the
// next one sends; since both begin with the same message, or an earlier one, and have no gaps, that only repeats
// messages.
func (s *sink) deliver(ctx context.Context, messages []*kgo.Record) (errs []error, err error) {
	if len(messages) == 0 {
		return nil, nil
	}
	a := &attempt{errs: make([]error, len(messages)), done: make(chan struct{})}
	a.left.Store(int64(len(messages)))
	for i, m := range messages {
		m.Topic = s.topic
		s.client.TryProduce(context.Background(), m, func(_ *kgo.Record, err error) { a.finish(i, err) })
	}
	reported := make(chan struct{})
	s.client.TryProduce(context.Background(), &kgo.Record{}, func(*kgo.Record, error) { close(reported) })
	<-reported
	if !a.failed.Load() {
		err = s.flush(ctx, a)
	}
	if err != nil || a.failed.Load() {
		_ = s.Close()
	}
	<-a.done
	for _, one := range a.errs {
		if err == nil && one != nil && !errors.Is(one, kgo.ErrClientClosed) {
			err = one
		}
	}
	return a.errs, err
}

// flush sends what the client has. It returns an error if it was given up.
func (s *sink) flush(ctx context.Context, a *attempt) error {
	flushing, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		_ = s.client.Flush(flushing) // errors are those of the messages
		close(ended)
	}()
	defer func() {
		stop()
		<-ended
	}()
	tick := time.NewTicker(stallTime / 100)
	defer tick.Stop()
	left, since := a.left.Load(), time.Now()
	for {
		select {
		case <-a.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			switch now := a.left.Load(); {
			case now != left:
				left, since = now, time.Now()
			case time.Since(since) > stallTime:
				return fmt.Errorf("%w for %s", errStalled, stallTime)
			}
		}
	}
}

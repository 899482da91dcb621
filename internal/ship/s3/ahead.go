// Several finished segments at a time: a service is slower on one connection than a disk, and a backlog may be long.

package s3

import (
	"bytes"
	"context"
	"os"
	"sync"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// aheadOf is how many segments after the one that is wanted are stored meanwhile.
const aheadOf = 3

// ahead stores segments before they are wanted. What it has stored is only believed when the blocks of the segment
// were compared with its file, as for all whole segments. Its users may be several goroutines, each with other streams.
type ahead struct {
	store   *store
	ctx     context.Context
	stop    context.CancelFunc
	wait    sync.WaitGroup
	mu      sync.Mutex
	pending map[string]*upload // by paths
}

// upload is a segment that is being stored.
type upload struct {
	system  uint64
	segment *ship.Segment
	done    chan struct{} // closed when the others are set
	whole   os.FileInfo
	err     error
}

func newAhead(s *store) *ahead {
	a := &ahead{store: s, pending: map[string]*upload{}}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a
}

// send stores a segment, and begins to store the ones that follow it.
func (a *ahead) send(ctx context.Context, system uint64, segment *ship.Segment) (os.FileInfo, error) {
	a.mu.Lock()
	u := a.pending[segment.Path]
	delete(a.pending, segment.Path)
	a.begin(system, segment)
	a.mu.Unlock()
	if u != nil && u.system == system && bytes.Equal(u.segment.Header, segment.Header) {
		select {
		case <-u.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if u.err == nil && isFile(segment.Path, u.whole) {
			return u.whole, nil
		}
	}
	return a.store.putWhole(ctx, system, segment, nil)
}

// begin begins to store what follows a segment.
func (a *ahead) begin(system uint64, segment *ship.Segment) {
	for range aheadOf {
		next, of := nextSegment(segment)
		if next == nil || of != system || !isFinished(next) {
			return
		}
		segment = next
		if a.pending[next.Path] != nil {
			continue
		}
		u := &upload{system: system, segment: next, done: make(chan struct{})}
		a.pending[next.Path] = u
		a.wait.Go(func() {
			defer close(u.done)
			u.whole, u.err = a.store.putWhole(a.ctx, u.system, u.segment, nil)
		})
	}
}

// close ends what was begun.
func (a *ahead) close() {
	a.stop()
	a.wait.Wait()
}

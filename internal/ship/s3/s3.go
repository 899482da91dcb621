// Package s3 is the sink that keeps blocks in an object store, and reads them back: each object has a range of the
// bytes of a segment's file, as they are on the server, so that what is fetched is the trail itself.
//
//	object.go   the names of objects, which say what is in them
//	options.go  the bucket, and how it is reached; login.go: keys; errors.go: what a refusal means
//	store.go    one PUT, never over something else
//	part.go     what is new in a segment; whole.go: segments that are finished; ahead.go: several of them at a time
//	check.go    trying all of this
//	fetch.go    from a bucket to a directory; join.go: from objects to segments
//
// What must stay true: an object is written once, under a name that follows from its content, and is never overwritten
// or deleted by this package. So whatever is sent again, by whomever, is the same object or another one, and what was
// written first stays. A login that may only put objects is sufficient for sending.
package s3

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/ship"
)

// Kind is this kind of sinks.
var Kind = &ship.Kind{
	Name:    "S3",
	Schemes: []string{"s3"},
	Formats: []string{ship.Blocks},
	Batch:   ship.Batch{Bytes: 8 << 20, Wait: ship.Duration(2 * time.Second)},
	Options: func() any { return &Options{} },
	Open: func(c *ship.SinkConfig) (ship.Sink, error) {
		s, err := open(c.To, c.Options.(*Options), &c.TLS)
		if err != nil {
			return nil, err
		}
		return &sink{store: s, tails: map[uint32]*tail{}, ahead: newAhead(s)}, nil
	},
}

type sink struct {
	store *store
	tails map[uint32]*tail // by streams
	ahead *ahead
}

// tail is how far a stream was sent. It lasts as long as the process: what it does not know is read from the file.
type tail struct {
	segment *ship.Segment
	system  uint64
	end     int64    // the first byte that was not sent; 0: not known
	chain   [32]byte // of the block before it
	first   uint64   // block with which the last part began
	// whole is the file that was stored as a whole; nil: it was not. Tried says that it was tried.
	whole os.FileInfo
	tried bool
}

// isOf returns whether the tail is one of this segment.
func (t *tail) isOf(system uint64, segment *ship.Segment) bool {
	return t != nil && t.segment != nil && t.system == system && t.segment.Number == segment.Number &&
		t.segment.Path == segment.Path && bytes.Equal(t.segment.Header, segment.Header)
}

// atOnce is how many streams are sent at the same time.
const atOnce = 4

// SendBlocks stores what is new of each stream. The streams are independent of each other; what was stored before an
// error is found to be there when the blocks are sent again.
func (s *sink) SendBlocks(ctx context.Context, blocks []ship.Block) error {
	var streams [][]ship.Block
	at := map[uint32]int{}
	for _, b := range blocks {
		i, known := at[b.Place.Stream]
		if !known {
			i = len(streams)
			at[b.Place.Stream] = i
			streams = append(streams, nil)
			if s.tails[b.Place.Stream] == nil {
				s.tails[b.Place.Stream] = &tail{}
			}
		}
		streams[i] = append(streams[i], b)
	}
	errs := make([]error, len(streams))
	slots := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for i, one := range streams {
		t := s.tails[one[0].Place.Stream]
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = s.sendStream(ctx, t, one)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// sendStream stores blocks of one stream, segment by segment.
func (s *sink) sendStream(ctx context.Context, t *tail, blocks []ship.Block) error {
	for len(blocks) > 0 {
		first, n := &blocks[0], 1
		for n < len(blocks) && blocks[n].Segment.Number == first.Segment.Number && blocks[n].System == first.System &&
			blocks[n].Offset > blocks[n-1].Offset {
			n++
		}
		if !t.isOf(first.System, first.Segment) {
			*t = tail{segment: first.Segment, system: first.System}
		}
		if err := s.sendSegment(ctx, t, blocks[:n]); err != nil {
			return err
		}
		blocks = blocks[n:]
	}
	return nil
}

// sendSegment stores blocks of one segment: the segment as a whole if it is finished already, so that it need not be
// sent twice, or else a part.
func (s *sink) sendSegment(ctx context.Context, t *tail, blocks []ship.Block) error {
	if !t.tried && isFinished(t.segment) {
		whole, err := s.ahead.send(ctx, t.system, t.segment)
		if err != nil {
			return err
		}
		t.whole, t.tried = whole, true
	}
	if fileHas(t.segment.Path, t.whole, blocks) {
		return nil
	}
	return s.sendPart(ctx, t, blocks)
}

// FinishSegment stores a segment as a whole. If its file no longer exists, or is another segment meanwhile, its parts
// are what there is of it.
func (s *sink) FinishSegment(ctx context.Context, segment *ship.Segment, last *ship.Block) error {
	t := s.tails[segment.Stream]
	if t.isOf(last.System, segment) && isFile(segment.Path, t.whole) {
		return nil
	}
	system := last.System
	if system == 0 {
		_, system = nextSegment(segment) // what is in its place is no segment
	}
	whole, err := s.store.putWhole(ctx, system, segment, last)
	if err == nil && t.isOf(last.System, segment) {
		t.whole = whole
	}
	return err
}

// Close ends idle connections, and what was begun ahead.
func (s *sink) Close() error {
	s.ahead.close()
	s.store.transport.CloseIdleConnections()
	return nil
}

// follows returns whether a block has the chain hash that it must have after another one.
func follows(image []byte, chain [32]byte) bool {
	h, err := format.ParseBlockHeader(image)
	return err == nil && (&format.Block{Image: image}).ChainHash(chain) == h.Chain
}

// One sink: batches, retries, and the slot.

package ship

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/statefile"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Level says how much a message of an agent matters.
type Level string

// The levels.
const (
	Info    Level = "info"
	Warning Level = "warning"
	Error   Level = "error"
)

// Log receives the messages of an agent: about a sink, or about all if its name is empty.
type Log func(level Level, sink, message string)

// Runner ships a trail to one sink.
type Runner struct {
	Config *SinkConfig
	Trail  string
	State  string // the directory for states
	Keys   *format.Keys
	Log    Log
	// Once ends the run when everything is shipped that was there when it was reached.
	Once bool

	sink   Sink
	state  *statefile.File
	known  *shipped
	broken map[uint32]uint64
	feed   *slot.Feed
	status Status
	mu     sync.Mutex // status
}

// Status is how far a sink is.
type Status struct {
	Sink    string
	To      string
	Format  string
	Blocks  uint64 // acknowledged
	Records uint64 // acknowledged, and those that were refused
	Bytes   uint64 // acknowledged, as they were handed to the sink
	Retried uint64 // attempts that failed
	Refused uint64 // records that the destination will not take
	// Branched is how often a stream did not go on as it was shipped.
	Branched uint64
	// Failing is why the last attempt failed; empty: it did not.
	Failing string
	Since   time.Time // since when it fails
	// Oldest is when the oldest thing that waits for this sink was recorded; zero: nothing waits.
	Oldest time.Time
	Last   time.Time // when something was acknowledged last
}

// Status returns how far the sink is.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Sink, s.To, s.Format = r.Config.Name, r.Config.Place(), r.Config.Format
	return s
}

func (r *Runner) note(change func(s *Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// failed notes that shipping does not work at present.
func (r *Runner) failed(err error) {
	r.note(func(s *Status) {
		if s.Failing = err.Error(); s.Since.IsZero() {
			s.Since = time.Now()
		}
	})
}

// said is the error that was logged last.
type said struct {
	text string
	when time.Time
}

// repeatAfter is how often an error that lasts is logged again.
const repeatAfter = 10 * time.Minute

// isNew returns whether an error is to be logged: it is another one, or was logged long ago.
func (s *said) isNew(err error) bool {
	if err.Error() == s.text && time.Since(s.when) < repeatAfter {
		return false
	}
	s.text, s.when = err.Error(), time.Now()
	return true
}

// grace is how long what is being sent may take after the agent was told to end.
const grace = 5 * time.Second

// reopenAfter is the pause before a trail that cannot be read is opened again.
const reopenAfter = 2 * time.Second

// Run ships until the context ends. It returns an error only if it cannot begin.
func (r *Runner) Run(ctx context.Context) error {
	sink, err := r.Config.Kind.Open(r.Config)
	if err != nil {
		return err
	}
	defer sink.Close()
	r.sink = sink
	if r.state, err = statefile.Open(filepath.Join(r.State, "ship-"+r.Config.Name+".json")); err != nil {
		if errors.Is(err, statefile.ErrLocked) {
			return fmt.Errorf("another steno ship has a sink %s with this state directory, %s", r.Config.Name, r.State)
		}
		return err
	}
	defer r.state.Close()
	if r.known, err = readShipped(r.state); err != nil {
		return err
	}
	place := r.Config.Place()
	if was := r.known.To; was != "" && was != place {
		r.Log(Warning, r.Config.Name, fmt.Sprintf("until now, it was shipped to %s: what is there is not shipped to %s; "+
			"drop slot %q to begin again, or give the new destination a sink of its own", was, place, r.Config.Slot))
	}
	r.known.To = place
	r.broken = map[uint32]uint64{}
	var said said
	for {
		err := r.ship(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			return nil // Once
		case r.Once && !errors.Is(err, errReopen):
			return err
		case errors.Is(err, errReopen):
			continue // a block, or a file that is gone, is the reason once only
		}
		r.failed(err)
		if said.isNew(err) {
			r.Log(Error, r.Config.Name, err.Error()+"; it is tried again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reopenAfter):
		}
	}
}

// ship opens the trail, and ships it until the context ends or the trail must be opened again.
func (r *Runner) ship(ctx context.Context) error {
	source, err := r.open()
	if err != nil {
		return err
	}
	defer source.live.Close()
	r.note(func(s *Status) { s.Failing, s.Since = "", time.Time{} })
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	batches, spare := make(chan *batch), make(chan *batch, 2)
	for range cap(spare) {
		// memory that is not used takes none; growing would take it twice
		spare <- &batch{arena: make([]byte, 0, r.Config.Batch.Bytes), events: make([]Event, 0, r.Config.Batch.Records)}
	}
	source.empty = func() *batch {
		select {
		case b := <-spare:
			b.reset()
			return b
		case <-ctx.Done():
			return &batch{}
		}
	}
	source.give = func(b *batch) error {
		select {
		case batches <- b:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	source.batch = source.empty()
	var wait sync.WaitGroup
	wait.Go(func() {
		stop(r.sendAll(ctx, batches, spare))
	})
	err = source.follow(ctx)
	if ctx.Err() == nil {
		_ = source.flush() // what was read before an error is shipped
	}
	close(batches)
	wait.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// open finds where to go on, and says what has changed.
func (r *Runner) open() (*source, error) {
	c := r.Config
	index, err := openTrail(r.Trail, r.Keys)
	if err != nil {
		return nil, err
	}
	feed, created, err := openSlot(c, r.Trail, time.Now())
	if err != nil {
		return nil, err
	}
	if created {
		r.Log(Info, c.Name, fmt.Sprintf("created slot %q at the %s of the trail", c.Slot, c.From))
	}
	from := map[uint32]uint64{}
	var back []string
	for i := range index.Streams {
		stream := &index.Streams[i]
		number := stream.Stream.Number
		at, why := r.known.resume(stream, feed.From(number))
		if why != nil {
			r.note(func(s *Status) { s.Branched++ })
			r.Log(Warning, c.Name, why.Error())
		}
		if from[number] = at; at < feed.From(number) {
			back = append(back, fmt.Sprintf("%d/%d/%d", number, segmentOfBlock(stream, at), at))
		}
	}
	for _, position := range back { // or the server could delete what must be shipped again
		to, err := slot.ParseTarget(position, time.Now())
		if err == nil {
			err = slot.Advance(&slot.Options{Name: c.Slot, Trail: []string{r.Trail}, To: to, Force: true,
				Now: time.Now()})
		}
		if err != nil {
			return nil, err
		}
	}
	if len(back) > 0 {
		if feed, err = slot.OpenFeed(r.Trail, c.Slot); err != nil {
			return nil, err
		}
	}
	r.feed = feed
	return r.source(index, from)
}

func segmentOfBlock(stream *trail.StreamIndex, block uint64) uint64 {
	found := uint64(1)
	for i := range stream.Segments {
		if seg := stream.Segments[i].Segment; i == 0 || seg.Err == nil && seg.Header.FirstBlock <= block {
			found = seg.Number
		}
	}
	return found
}

// source makes the source that reads from the given blocks on.
func (r *Runner) source(index *trail.Index, from map[uint32]uint64) (*source, error) {
	c := r.Config
	criteria, err := c.Filter.Criteria()
	if err != nil {
		return nil, err
	}
	s := &source{c: c, once: r.Once, last: map[uint32]*position{}, held: map[uint32]*Segment{},
		broken:  r.broken,
		matcher: query.Matcher{Filter: criteria.Filter()}}
	s.warn = func(err error) {
		wait := (*trail.WaitError)(nil)
		s.gone = s.gone || errors.As(err, &wait) && errors.Is(wait.Err, fs.ErrNotExist)
		r.warn(err)
	}
	for number, known := range r.known.Streams {
		if n := len(known.Segments); known.Block+1 == from[number] && n > 0 {
			s.last[number] = &position{number, known.System, known.Block, known.Chain, known.Segments[n-1]}
		}
	}
	s.live = index.FollowFrom(r.Trail, func(stream uint32) uint64 { return from[stream] })
	if !c.IsBlocks() {
		s.servers = index.Servers()
		as := render.Format(c.Format)
		pgaudit, err := render.ParsePgauditOptions(nil)
		if err != nil {
			return nil, err
		}
		options := render.Options{Fields: c.Fields, Servers: s.servers, Pgaudit: pgaudit}
		s.renderer, s.order = render.New(as, options), render.NewOrder(as)
	}
	if _, ok := r.sink.(SegmentSink); ok {
		s.finish, s.tail = map[uint32]*Segment{}, map[uint32]Block{}
		for i := range index.Streams {
			s.unfinished(&index.Streams[i], r.feed.Positions())
		}
	}
	return s, nil
}

// unfinished notes the segment at which the slot is, and the last block of it that the slot has seen: it may not be
// finished at the sink.
func (s *source) unfinished(stream *trail.StreamIndex, positions []slot.Position) {
	number := stream.Stream.Number
	at := slices.IndexFunc(positions, func(p slot.Position) bool { return p.Stream == number })
	if at < 0 {
		return
	}
	for i := range stream.Segments {
		segment := &stream.Segments[i]
		if segment.Segment.Number != positions[at].Segment {
			continue
		}
		made := s.makeSegment(segment.Segment)
		s.finish[number] = made
		refs := segment.Refs()
		for k := range refs {
			if ref := &refs[k]; ref.Number < positions[at].Block {
				s.tail[number] = Block{Place: trail.Place{Stream: number, Segment: made.Number, Block: ref.Number},
					System: segment.Segment.Header.SystemID, Chain: ref.Chain, Offset: ref.Offset, Segment: made}
			}
		}
	}
}

// warn reports what is wrong in the trail.
func (r *Runner) warn(err error) {
	if branch := (*branchError)(nil); errors.As(err, &branch) {
		r.note(func(s *Status) { s.Branched++ })
	}
	r.Log(Warning, r.Config.Name, err.Error())
}

// ackInterval is how often the slot is moved at least, when much is sent.
const ackInterval = time.Second

// sendAll sends batches until there are no more, or one cannot be sent because the context has ended.
func (r *Runner) sendAll(ctx context.Context, batches <-chan *batch, spare chan<- *batch) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		time.Sleep(grace)
		cancel()
	})()
	var done []position
	var acked time.Time
	interval := ackInterval
	ack := func() error {
		if len(done) == 0 {
			return nil
		}
		begun := time.Now()
		err := r.keepAcking(ctx, done)
		done = done[:0]
		acked = time.Now()
		interval = max(ackInterval, 20*time.Since(begun)) // moving a slot of a long trail takes time
		return err
	}
	busy := false // something was sent since the last tick
	idle := time.NewTicker(ackInterval)
	defer idle.Stop()
	for {
		select {
		case b, more := <-batches:
			if !more {
				return ack()
			}
			if b.now > 0 {
				r.note(func(s *Status) {
					if s.Oldest.IsZero() {
						s.Oldest = query.Moment(b.now)
					}
				})
			}
			if err := r.send(sending, b); err != nil {
				return errors.Join(err, ack())
			}
			for _, p := range b.done {
				if i := slices.IndexFunc(done, func(old position) bool { return old.stream == p.stream }); i < 0 {
					done = append(done, p)
				} else {
					done[i] = p
				}
				r.known.note(&p)
			}
			select {
			case spare <- b:
			default: // the context has ended, and the source took one of its own
			}
			busy = true
		case <-idle.C:
			if !busy {
				r.note(func(s *Status) { s.Oldest = time.Time{} })
			}
			busy = false
		}
		if time.Since(acked) >= interval {
			if err := ack(); err != nil {
				return err
			}
		}
	}
}

// keepAcking does the same as ack, until it works: what was sent is not sent again because a disk is full. It gives up
// when somebody else has moved or dropped the slot, and when the context ends.
func (r *Runner) keepAcking(ctx context.Context, done []position) error {
	var said said
	for failures := 1; ; failures++ {
		err := r.ack(done)
		if err == nil {
			if said.text != "" {
				r.note(func(s *Status) { s.Failing, s.Since = "", time.Time{} })
				r.Log(Info, r.Config.Name, "what is shipped can be noted again")
			}
			return nil
		}
		if errors.Is(err, slot.ErrMoved) || errors.Is(err, slot.ErrDropped) || r.Once {
			return err
		}
		r.note(func(s *Status) { s.Retried++ })
		r.failed(err)
		if said.isNew(err) {
			r.Log(Error, r.Config.Name, err.Error()+": what was shipped cannot be noted; it is tried again, and nothing is sent "+
				"meanwhile")
		}
		if !r.Config.Retry.pause(ctx, failures, err) {
			return err
		}
	}
}

// ack remembers what was shipped, and moves the slot behind it.
func (r *Runner) ack(done []position) error {
	if err := r.known.write(r.state); err != nil {
		return err
	}
	return r.feed.Advance(places(done))
}

// send sends a batch, as often as it takes. It returns an error if the context ends.
func (r *Runner) send(ctx context.Context, b *batch) error {
	var said said
	for failures := 1; ; failures++ {
		err := r.try(ctx, b)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.note(func(s *Status) { s.Retried++ })
		r.failed(err)
		if said.isNew(err) {
			r.Log(Error, r.Config.Name, err.Error()+"; it is tried again, and nothing is lost meanwhile")
		}
		if !r.Config.Retry.pause(ctx, failures, err) {
			return ctx.Err()
		}
	}
	if said.text != "" {
		r.Log(Info, r.Config.Name, "sending works again")
	}
	r.note(func(s *Status) {
		s.Failing, s.Since, s.Last = "", time.Time{}, time.Now()
		s.Blocks += uint64(len(b.blocks))
		for i := range b.blocks {
			s.Records += uint64(b.blocks[i].Records)
		}
		s.Records += uint64(len(b.events))
		s.Bytes += uint64(len(b.arena))
		if b.now > 0 {
			s.Oldest = query.Moment(b.now)
		}
	})
	return nil
}

// try sends what is left of a batch once.
func (r *Runner) try(ctx context.Context, b *batch) error {
	if blocks, ok := r.sink.(BlockSink); ok && r.Config.IsBlocks() {
		if len(b.blocks) > 0 {
			if err := blocks.SendBlocks(ctx, b.blocks); err != nil {
				return err
			}
		}
		if segments, ok := r.sink.(SegmentSink); ok && b.finish != nil {
			return segments.FinishSegment(ctx, b.finish, &b.last)
		}
		return nil
	}
	if len(b.events) == 0 {
		return nil
	}
	refused, err := r.sink.(EventSink).SendEvents(ctx, b.events)
	if err != nil || len(refused) == 0 {
		return err
	}
	if err := keepRefused(r.State, r.Config.Name, refused, time.Now()); err != nil {
		return fmt.Errorf("%d records were refused, and cannot be kept: %w", len(refused), err)
	}
	r.note(func(s *Status) { s.Refused += uint64(len(refused)) })
	r.Log(Warning, r.Config.Name, fmt.Sprintf("%d records were refused, the first one because: %s; they are in %s",
		len(refused), refused[0].Reason, refusedPath(r.State, r.Config.Name)))
	return nil
}

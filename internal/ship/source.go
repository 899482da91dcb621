// From a slot to batches.

package ship

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// batch is what is sent at once.
type batch struct {
	blocks []Block
	events []Event
	arena  []byte // the bytes of both
	begun  time.Time
	// done are the last blocks of streams that are complete when the batch was sent.
	done   []position
	finish *Segment // is complete when the batch was sent
	last   Block    // of finish, without its image
	now    int64    // the latest end of a record
}

func (b *batch) isEmpty() bool {
	return len(b.blocks)+len(b.events)+len(b.done) == 0 && b.finish == nil
}

func (b *batch) reset() {
	*b = batch{blocks: b.blocks[:0], events: b.events[:0], arena: b.arena[:0], done: b.done[:0]}
}

// hold copies bytes into the batch.
func (b *batch) hold(bytes []byte) []byte {
	begin := len(b.arena)
	b.arena = append(b.arena, bytes...)
	return b.arena[begin:len(b.arena):len(b.arena)]
}

// source reads what comes after a slot.
type source struct {
	c       *SinkConfig
	once    bool // end when a poll has found nothing
	found   bool // this poll has found a block
	gone    bool // a file that was read is not there any more
	live    *trail.Live
	servers *trail.Servers
	warn    func(error)
	give    func(*batch) error // hands a batch over, and provides an empty one
	empty   func() *batch

	batch  *batch
	last   map[uint32]*position
	broken map[uint32]uint64   // blocks that do not follow the one before, though the trail was opened again
	finish map[uint32]*Segment // the segments that streams are in, for SegmentSinks; nil: nobody asks
	tail   map[uint32]Block
	held   map[uint32]*Segment

	renderer render.Renderer
	order    render.Order
	matcher  query.Matcher
	line     []byte
}

// errReopen says that the trail must be opened again, because a stream does not go on as it did.
var errReopen = errors.New("a stream does not go on as it did")

// pollInterval is how often a trail is looked at for new blocks.
const pollInterval = 200 * time.Millisecond

// openTrail opens the trail of an agent.
func openTrail(path string, keys *format.Keys) (*trail.Index, error) {
	t, err := query.OpenTrail([]string{path}, keys)
	if err != nil {
		return nil, err
	}
	return t.Index(), nil
}

// openSlot opens the slot of a sink, and creates it if it does not exist.
func openSlot(c *SinkConfig, path string, now time.Time) (feed *slot.Feed, created bool, err error) {
	feed, err = slot.OpenFeed(path, c.Slot)
	if none := (*slot.NotFoundError)(nil); !errors.As(err, &none) {
		return feed, false, err
	}
	edge, err := slot.ParseEdge(c.From)
	if err != nil {
		return nil, false, err
	}
	if err := slot.Create(&slot.Options{Name: c.Slot, Trail: []string{path}, From: edge, Now: now}); err != nil {
		return nil, false, err
	}
	feed, err = slot.OpenFeed(path, c.Slot)
	return feed, true, err
}

// follow reads the trail until the context ends.
func (s *source) follow(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		var err error
		s.found = false
		if s.c.IsBlocks() {
			err = s.live.PollBlocks(ctx, s.warn, s.takeBlock)
		} else {
			err = s.live.PollRecords(ctx, s.servers, s.warn, s.takeRecords)
		}
		if err == nil && s.gone || errors.Is(err, trail.ErrReplaced) {
			err = errReopen
		}
		if err == nil && !s.batch.isEmpty() && time.Since(s.batch.begun) >= time.Duration(s.c.Batch.Wait) {
			err = s.flush()
		}
		if err != nil || s.once && !s.found {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (s *source) flush() error {
	if s.batch.isEmpty() {
		return nil
	}
	full := s.batch
	s.batch = s.empty()
	return s.give(full)
}

// begin notes when the first thing came into a batch.
func (s *source) begin() {
	if s.batch.begun.IsZero() {
		s.batch.begun = time.Now()
	}
}

// makeRoom sends the batch if what comes does not fit.
func (s *source) makeRoom(n int) error {
	b := s.batch
	full := len(b.arena)+n > int(s.c.Batch.Bytes) ||
		s.c.Batch.Records > 0 && len(b.events) >= s.c.Batch.Records
	if full && !b.isEmpty() {
		return s.flush()
	}
	return nil
}

// check compares a block with what was read before it in its stream. If it does not follow that, the trail is opened
// again, which tells whether it is another one by now. If it is the same, something is wrong in the trail itself, and
// the block is taken.
func (s *source) check(ref *trail.BlockRef, image []byte) error {
	seg := ref.Segment
	number := seg.Stream.Number
	was := s.last[number]
	if was == nil || was.follows(ref, image) || s.broken[number] == ref.Number {
		return nil
	}
	s.broken[number] = ref.Number
	s.warn(&branchError{number, fmt.Sprintf("segment %d, block %d does not follow block %d, which was read before it",
		seg.Number, ref.Number, was.block)})
	return errReopen
}

// follows returns whether a block is what comes next.
func (p *position) follows(ref *trail.BlockRef, image []byte) bool {
	seg := ref.Segment
	previous := p.chain
	if p.segment.Number != seg.Number {
		if seg.Err != nil || seg.Header.SystemID != p.system || seg.Header.PreviousHash != p.chain ||
			ref.Number != seg.Header.FirstBlock {
			return false
		}
		previous = seg.Header.Hash
	}
	return ref.Number == p.block+1 && (&format.Block{Image: image}).ChainHash(previous) == ref.Chain
}

// note remembers a block as the last one that was read of its stream.
func (s *source) note(ref *trail.BlockRef) position {
	s.found = true
	seg := ref.Segment
	p := position{seg.Stream.Number, seg.Header.SystemID, ref.Number, ref.Chain, recordOf(seg)}
	s.last[p.stream] = &p
	return p
}

// done says that a block is complete when the batch was sent.
func (s *source) done(ref *trail.BlockRef, p position) {
	i := slices.IndexFunc(s.batch.done, func(old position) bool { return old.stream == p.stream })
	if i < 0 {
		s.batch.done = append(s.batch.done, p)
	} else {
		s.batch.done[i] = p
	}
	if ref.Records > 0 {
		s.batch.now = max(s.batch.now, ref.LastEnd)
	}
}

func (s *source) takeBlock(ref *trail.BlockRef, image []byte) error {
	if err := s.check(ref, image); err != nil {
		return err
	}
	segment := s.makeSegment(ref.Segment)
	if err := s.finishBefore(ref.Segment); err != nil {
		return err
	}
	if err := s.makeRoom(len(image)); err != nil {
		return err
	}
	s.begin()
	block := Block{
		Place:  trail.Place{Stream: segment.Stream, Segment: segment.Number, Block: ref.Number},
		System: ref.Segment.Header.SystemID, Records: ref.Records, FirstTime: ref.FirstTime, LastEnd: ref.LastEnd,
		Chain: ref.Chain, Offset: ref.Offset, Segment: segment,
	}
	if s.finish != nil {
		s.finish[segment.Stream], s.tail[segment.Stream] = segment, block
	}
	block.Image = s.batch.hold(image)
	s.batch.blocks = append(s.batch.blocks, block)
	s.done(ref, s.note(ref))
	return nil
}

// finishBefore finishes the segments of a stream that come before one, also those without blocks.
func (s *source) finishBefore(seg *trail.Segment) error {
	if s.finish == nil {
		return nil
	}
	number := seg.Stream.Number
	first := uint64(0)
	if at := s.finish[number]; at != nil {
		first = at.Number
	}
	for _, before := range seg.Stream.Segments {
		if before.Number < first || before.Number >= seg.Number {
			continue
		}
		s.begin()
		s.batch.finish, s.batch.last = s.makeSegment(before), s.tail[number]
		if s.batch.last.Place.Segment != before.Number {
			s.batch.last = Block{Place: trail.Place{Stream: number, Segment: before.Number},
				System: before.Header.SystemID, Segment: s.batch.finish}
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// makeSegment returns a segment with its header.
func (s *source) makeSegment(seg *trail.Segment) *Segment {
	if kept := s.held[seg.Stream.Number]; kept != nil && kept.Path == seg.Path && len(kept.Header) > 0 {
		return kept
	}
	made := &Segment{Path: seg.Path, Number: seg.Number, Stream: seg.Stream.Number, FirstBlock: seg.Header.FirstBlock}
	made.Header = readHeader(seg)
	s.held[seg.Stream.Number] = made
	return made
}

// readHeader reads a segment's header as it is stored; nil if it is damaged.
func readHeader(seg *trail.Segment) []byte {
	if seg.Err != nil {
		return nil
	}
	f, err := trail.OpenFile(seg.Path)
	if err != nil {
		return nil
	}
	defer f.Close()
	header := make([]byte, seg.Header.Length())
	if _, err := io.ReadFull(f, header); err != nil {
		return nil
	}
	if read, err := format.ParseSegmentHeader(header); err != nil || read.Hash != seg.Header.Hash {
		return nil
	}
	return header
}

func (s *source) takeRecords(ref *trail.BlockRef, image []byte, records iter.Seq[*format.Record]) error {
	if err := s.check(ref, image); err != nil {
		return err
	}
	s.renderer.Start(ref)
	s.matcher.Reset()
	for r := range records {
		if !s.matcher.Keep(r) {
			continue
		}
		s.line = s.renderer.Append(s.line[:0], r)
		line := bytes.TrimSuffix(s.order.Next(s.line), []byte("\n"))
		if len(line) == 0 {
			continue
		}
		if err := s.makeRoom(len(line)); err != nil {
			return err
		}
		s.begin()
		event := Event{
			Place:  trail.Place{Stream: ref.Segment.Stream.Number, Segment: ref.Segment.Number, Block: ref.Number},
			System: ref.Segment.Header.SystemID, Time: r.Time, Seq: r.Seq, Kind: r.Kind.String(),
			Failed: r.Failed(),
		}
		if r.Session != nil {
			event.Session = r.Session.ID().String()
		}
		event.Line = s.batch.hold(line)
		s.batch.events = append(s.batch.events, event)
	}
	s.begin()
	s.done(ref, s.note(ref))
	return nil
}

// places returns the places behind positions, for a slot.
func places(done []position) (all []trail.Place) {
	for _, p := range done {
		all = append(all, trail.Place{Stream: p.stream, Segment: p.segment.Number, Block: p.block + 1})
	}
	slices.SortFunc(all, func(a, b trail.Place) int { return cmp.Compare(a.Stream, b.Stream) })
	return all
}

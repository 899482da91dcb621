// Package recovery recovers as much as possible of a damaged trail, and of the ring files that a dead server has left.
// It reads the evidence and writes a copy.
//
//	recover.go   what is asked for, and whether it can be
//	recovery.go  the copy: streams, rings, salvage, in this order
//	salvage.go   the whole blocks of a segment, and what stands between them
//	partial.go   what a damaged block still has
//	drain.go     the records of a ring file
//	ledger.go    which records there are
//	ringfiles.go which ring files are read
//	inuse_*.go   who has the files open
//	place.go     where the copy goes
//	report.go    what was done, and what is lost
//
// A whole block is copied byte for byte, so that its hash still proves it. Records from ring files and damaged blocks
// are written to a new stream of the copy. LZ4 is decompressed here up to where it is damaged (partial.go), because
// libraries decompress a block completely or not at all.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/write"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// recovery is one run.
type recovery struct {
	trail    *trail.Trail
	owner    private.Owner // of the trail's directory
	mode     fs.FileMode   // mode of that directory
	copy     *private.Dir  // the copy
	out      string        // its path
	final    string        // and its path when it is complete
	files    []*ringFile
	ringDirs []*private.Dir // directories of ring files, open as long as these
	now      func() int64
	program  string
	bar      *progress.Bar

	ledger        *ledger
	report        *Report
	reader        trail.Files
	systemID      uint64
	serverVersion uint32
	partial       bool      // the first segments of a stream do not exist
	damaged       []damaged // blocks that may be partly readable

	stream *write.Stream // the new stream, once it is needed
	self   write.Source
	done   int64
}

// damaged is a damaged place of a segment.
type damaged struct {
	segment *trail.Segment
	stream  int // index in the report's streams
	loss    int // index in the stream's losses; -1: none
	torn    int // index in the stream's unfinished writes; -1: none
	piece   piece
}

// run makes the copy in r.out, an empty directory.
func (r *recovery) run(ctx context.Context) error {
	r.ledger = newLedger()
	defer r.reader.Close()
	for _, s := range r.trail.Streams {
		if err := r.copyStream(ctx, s); err != nil {
			return err
		}
	}
	for _, f := range r.files {
		if err := r.drain(f.File); err != nil {
			return err
		}
	}
	if err := r.salvage(); err != nil {
		return err
	}
	if r.stream != nil {
		if err := r.stream.Close(); err != nil {
			return err
		}
		n := int64(r.stream.Number)
		r.report.NewStream = &n
	}
	if err := r.copyRest(); err != nil {
		return err
	}
	r.settleTorn()
	r.report.missing(r.ledger, r.partial)
	return r.verify(ctx)
}

// identify finds the system identifier of the trail.
func (r *recovery) identify() {
	for _, s := range r.trail.Streams {
		for _, seg := range s.Segments {
			if seg.Err == nil {
				r.systemID, r.serverVersion = seg.Header.SystemID, max(r.serverVersion, seg.Header.ServerVersion)
			}
		}
	}
	for _, f := range r.files {
		if r.systemID == 0 {
			r.systemID = f.SystemID
		}
	}
}

// chainState is the state of a stream after the blocks so far.
type chainState struct {
	known  bool
	block  uint64 // number of the next
	record uint64
	hash   [32]byte // chain hash of the last block
	open   int      // index of a loss whose end is not known yet; -1: none
}

// copyStream copies the whole blocks of a stream.
func (r *recovery) copyStream(ctx context.Context, s *trail.Stream) error {
	into, err := r.copy.Mkdir(fmt.Sprint(s.Number), 0o700)
	if err != nil {
		return err
	}
	defer into.Close()
	r.report.Streams = append(r.report.Streams, Stream{Stream: s.Number, Losses: []Loss{}})
	st := &streamCopy{recovery: r, into: into, index: len(r.report.Streams) - 1,
		chainState: chainState{known: true, block: 1, record: 1, open: -1}}
	expected := uint64(1)
	for i, seg := range s.Segments {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case seg.Number > expected && i == 0:
			// They may have been deleted by policy: verify checks the records of that.
			r.partial = true
			st.chainState.known = false
			st.reported().FirstSegment = seg.Number
		case seg.Number == expected+1:
			st.lose(Place{File: s.Path, What: fmt.Sprintf("segment %d is missing", expected)}, nil)
		case seg.Number > expected:
			st.lose(Place{File: s.Path, What: fmt.Sprintf("segments %d to %d are missing", expected, seg.Number-1)},
				nil)
		}
		expected = seg.Number + 1
		if err := st.copySegment(seg); err != nil {
			return err
		}
	}
	return nil
}

// streamCopy is the state of copying a stream.
type streamCopy struct {
	*recovery
	chainState
	index  int
	into   *private.Dir
	before format.TimeRange // of the segment before
}

func (st *streamCopy) reported() *Stream { return &st.report.Streams[st.index] }

// lose notes a place where blocks are missing; places without a whole block between them are one loss.
func (st *streamCopy) lose(p Place, h *format.BlockHeader) int {
	s := st.reported()
	if st.open < 0 {
		s.Losses = append(s.Losses, Loss{})
		st.open = len(s.Losses) - 1
		if st.known {
			s.Losses[st.open].FirstBlock, s.Losses[st.open].firstRecord = st.block, st.record
		}
	}
	l := &s.Losses[st.open]
	l.Places = append(l.Places, p)
	if h != nil {
		l.headers = append(l.headers, *h)
	}
	return st.open
}

// endLoss ends an open loss, because a whole block follows.
func (st *streamCopy) endLoss(h *format.BlockHeader, file string, offset int64) {
	if st.open < 0 && st.known && (h.Number != st.block || h.FirstRecord != st.record) {
		st.lose(Place{File: file, Offset: &offset,
			What: fmt.Sprintf("found block %d where block %d is expected", h.Number, st.block)}, nil)
	}
	if st.open >= 0 {
		st.reported().Losses[st.open].endBefore(h)
		st.open = -1
	}
	st.reported().present.add(h.Number)
	st.known, st.block, st.record, st.hash = true, h.Number+1, h.FirstRecord+uint64(h.Records), h.Chain
}

// copySegment copies the whole blocks of a segment.
func (st *streamCopy) copySegment(seg *trail.Segment) error {
	src, err := st.openOwn(seg.Path)
	if err != nil {
		st.lose(Place{File: seg.Path, What: "cannot be read: " + pathReason(err)}, nil)
		return nil
	}
	defer src.Close()
	if torn := format.AsProblem(seg.Err); torn != nil && torn.Unfinished {
		p := Place{File: seg.Path, Offset: new(int64), Bytes: seg.Size, What: torn.Reason}
		if !seg.Last {
			st.lose(p, nil)
			return nil
		}
		t := Torn{Place: p, segment: seg.Number}
		if seg.Size <= format.SegmentHeaderSize {
			t.Records = new(uint32) // the header comes before any block
		}
		st.reported().Torn = append(st.reported().Torn, t)
		return nil
	}
	head := make([]byte, min(seg.Size, 4096))
	if n, err := src.ReadAt(head, 0); err != nil && err != io.EOF {
		clear(head[n:]) // it cannot be read, which scan reports
	}
	c := &segmentCopy{streamCopy: st, seg: seg, times: format.NoTimes(),
		header: head[:min(headerLength(head), int64(len(head)))]}
	sc := &scanner{seg: seg, r: src, size: seg.Size, last: seg.Last, each: c.takePiece}
	err = sc.scan(int64(len(c.header)))
	st.before = c.times
	if err == nil {
		err = c.finish(sc)
	}
	if c.dst != nil {
		if err == nil {
			err = c.dst.Sync()
		}
		if closed := c.dst.Close(); err == nil {
			err = closed
		}
	}
	return err
}

// segmentCopy is the state of copying a segment.
type segmentCopy struct {
	*streamCopy
	seg     *trail.Segment
	header  []byte // as it is in the file
	times   format.TimeRange
	dst     *os.File
	pending []piece // damage, until it is known whether a whole block follows
	b       format.Block
}

// begin creates the file of the copy, with its header. first is the first whole block.
func (c *segmentCopy) begin(first []byte) error {
	header := c.header
	if c.badHeader() {
		at := place{systemID: c.systemID, serverVersion: c.serverVersion, stream: c.seg.Stream.Number,
			segment: c.seg.Number}
		if c.known && c.open < 0 {
			hash := c.hash
			at.previous = &hash
		}
		at.before = c.before
		for _, seg := range c.seg.Stream.Segments {
			if seg.Err == nil && (seg.Number == c.seg.Number-1 || seg.Number == c.seg.Number+1) {
				at.starts = append(at.starts, seg.Header.LastStart, c.seg.Number-1)
			}
		}
		var proven bool
		header, proven = rebuild(c.header, at, first)
		what := "segment header is damaged; it was reconstructed, and the first block's chain hash proves it"
		if !proven {
			what = "segment header is damaged; it was reconstructed, but nothing proves it: the chain is broken here"
		}
		c.reported().Headers = append(c.reported().Headers,
			Header{Place{File: c.seg.Path, Offset: new(int64), Bytes: int64(len(c.header)), What: what}, proven})
	}
	dst, err := c.into.Create(fmt.Sprintf("%010d.steno", c.seg.Number), 0o600)
	if err != nil {
		return err
	}
	c.dst = dst
	c.reported().Segments++
	_, err = dst.Write(header)
	return err
}

// badHeader reports whether the header is damaged. A header of a later format is copied unchanged.
func (c *segmentCopy) badHeader() bool {
	return c.seg.Err != nil && len(c.header) <= format.SegmentHeaderSize && !format.IsSegmentHeaderIntact(c.header)
}

// takePiece processes what the scan has found, in order.
func (c *segmentCopy) takePiece(p *piece, image []byte) error {
	if !p.whole {
		c.pending = append(c.pending, *p)
		return nil
	}
	if c.dst == nil {
		if err := c.begin(image); err != nil {
			return err
		}
	}
	for i := range c.pending {
		c.addDamage(&c.pending[i])
	}
	c.pending = c.pending[:0]
	err := c.reader.Read(&trail.BlockRef{Segment: c.seg, Offset: p.offset, Number: p.header.Number,
		Stored: p.header.Stored}, &c.b)
	if err == nil {
		err = c.ledger.addBlock(&c.b)
	}
	if err != nil {
		// It is whole, but encrypted, of a later format, or not valid.
		c.ledger.blind = true
		c.reported().Unread++
	}
	c.endLoss(p.header, c.seg.Path, p.offset)
	c.times.Add(p.header)
	s := c.reported()
	s.Blocks++
	s.Records += int64(p.header.Records)
	s.Bytes += p.length
	c.done += p.length
	c.bar.Set(c.done)
	_, err = c.dst.Write(image)
	return err
}

// addDamage notes a piece that is not whole.
func (c *segmentCopy) addDamage(p *piece) {
	offset := p.offset
	loss := c.lose(Place{File: c.seg.Path, Offset: &offset, Bytes: p.length, What: p.what}, p.header)
	c.damaged = append(c.damaged, damaged{segment: c.seg, stream: c.index, loss: loss, torn: -1, piece: *p})
}

// finish is called when the segment has been scanned.
func (c *segmentCopy) finish(s *scanner) error {
	if c.dst == nil && c.badHeader() {
		c.lose(Place{File: c.seg.Path, Offset: new(int64), Bytes: int64(len(c.header)),
			What: "segment header is damaged, and there is no intact block from which to reconstruct it"}, nil)
		for i := range s.pieces {
			c.addDamage(&s.pieces[i])
		}
		return nil
	}
	if c.dst == nil {
		if err := c.begin(nil); err != nil {
			return err
		}
	}
	end := s.pieces[len(s.pieces)-len(c.pending):]
	for i := range end {
		p := &end[i]
		if !p.torn {
			c.addDamage(p)
			continue
		}
		offset := p.offset
		t := Torn{Place: Place{File: c.seg.Path, Offset: &offset, Bytes: p.length, What: p.what},
			segment: c.seg.Number}
		if p.header != nil {
			t.Block, t.Records = p.header.Number, &p.header.Records
		}
		r := c.reported()
		r.Torn = append(r.Torn, t)
		c.damaged = append(c.damaged, damaged{segment: c.seg, stream: c.index, loss: -1,
			torn: len(r.Torn) - 1, piece: *p})
	}
	return nil
}

// newStream returns the stream for recovered records, which is created when it is first needed.
func (r *recovery) newStream() (*write.Stream, error) {
	if r.stream != nil {
		return r.stream, nil
	}
	number := uint32(0)
	for _, s := range r.trail.Streams {
		number = max(number, s.Number+1)
	}
	s, err := write.NewStream(r.copy, number, r.systemID, r.serverVersion, r.now)
	if err != nil {
		return nil, err
	}
	r.stream = s
	start := r.now()
	r.self = write.Source{Body: write.SessionBody(start, uint32(os.Getpid()), format.RecoverBackendType)}
	return s, nil
}

// writeEvent writes a record of steno recover itself, which states the source of the records after it.
func (r *recovery) writeEvent(pairs ...string) error { return r.writeOwn(format.KindServer, pairs...) }

// writeOwn writes a record in the program's own session.
func (r *recovery) writeOwn(kind format.Kind, pairs ...string) error {
	s, err := r.newStream()
	if err != nil {
		return err
	}
	w := &write.Record{Kind: kind, Seq: r.self.Seq + 1, Time: r.now(), Duration: write.None, Rows: write.None}
	w.ExtraCount, w.Extra = write.EncodePairs(pairs...)
	r.ledger.add(r.self.ID(), w.Kind, w.Seq, nil)
	return s.Add(&r.self, w)
}

// longestBlock limits how much is read at a damaged place.
const longestBlock = format.MaxRaw + format.MaxRaw/8 + format.BlockHeaderSize

// salvage recovers the records of damaged blocks that are nowhere else, and marks them as unproven.
func (r *recovery) salvage() error {
	for i := range r.damaged {
		d := &r.damaged[i]
		b := make([]byte, min(d.piece.length, longestBlock))
		n, _ := r.readAt(d.segment.Path, b, d.piece.offset)
		all, _ := decodeDamaged(b[:n])
		all = r.believable(all)
		if len(all) == 0 {
			continue
		}
		stream, segment := fmt.Sprint(d.segment.Stream.Number), fmt.Sprint(d.segment.Number)
		if err := r.writeEvent("event", "salvage", "program", r.program, "stream", stream, "segment", segment,
			"offset", fmt.Sprint(d.piece.offset), "records", fmt.Sprint(len(all))); err != nil {
			return err
		}
		for k := range all {
			u := &all[k]
			u.mark(fmt.Sprintf("stream %s segment %s offset %d", stream, segment, d.piece.offset))
			if err := r.writeRecord(&u.source, &u.record); err != nil {
				return err
			}
		}
		r.report.salvaged(d, len(all))
	}
	return nil
}

// farthest is the maximum distance of the number of a record in a damaged block from the last one of its session: if
// it is greater, the number itself is probably damaged.
const farthest = 10_000

// believable omits the records of a damaged block that exist elsewhere, and those whose session or number does not
// match the rest of the trail: a changed byte can turn one session into another.
func (r *recovery) believable(all []unproven) (kept []unproven) {
	begun := map[format.SessionID]bool{} // sessions that begin in this block
	for _, u := range all {
		id, seq := u.source.ID(), u.record.Seq
		last, known := r.ledger.last(id)
		begun[id] = begun[id] || seq == 1
		switch {
		case seq == 0 || r.ledger.has(id, seq):
		case !known && !begun[id] && !r.partial && !r.ledger.blind:
		case known && seq > last+uint64(len(all))+farthest:
		default:
			kept = append(kept, u)
		}
	}
	return kept
}

// writeRecord adds a record to the new stream.
func (r *recovery) writeRecord(source *write.Source, w *write.Record) error {
	s, err := r.newStream()
	if err != nil {
		return err
	}
	if err := s.EnsureRoom(len(w.Text) + len(w.Values) + len(w.Message) + len(w.Shape) + len(w.Extra)); err != nil {
		return err
	}
	extra := format.Record{ExtraCount: w.ExtraCount, Extra: w.Extra}
	r.ledger.add(source.ID(), w.Kind, w.Seq, extra.ExtraValue)
	return s.Add(source, w)
}

// openOwn opens a file of the trail for copying. The copy will belong to the trail's owner, but root can read files
// that this account cannot: so only the owner's files are copied, whatever a link points to.
func (r *recovery) openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := r.mayCopy(f); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}

func (r *recovery) mayCopy(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return private.ErrNotRegular
	}
	owner, ok := private.OwnerOf(info)
	if os.Geteuid() == 0 && ok && owner.UID != r.owner.UID {
		return fmt.Errorf("it belongs to user ID %d, but the trail belongs to %d", owner.UID, r.owner.UID)
	}
	return nil
}

// readAt reads bytes of a file, and returns how many there were before an error.
func (r *recovery) readAt(path string, b []byte, offset int64) (int, error) {
	f, err := r.openOwn(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(b, offset)
}

// settleTorn finds the unfinished writes whose records were in a ring file.
func (r *recovery) settleTorn() {
	for i := range r.report.Streams {
		s := &r.report.Streams[i]
		for k := range s.Torn {
			t := &s.Torn[k]
			for _, f := range r.files {
				for _, in := range f.Intents {
					if in.Stream == s.Stream && in.Segment == t.segment && t.Offset != nil &&
						in.Offset == uint64(*t.Offset) {
						t.InRings = true
					}
				}
			}
		}
	}
}

// verify verifies the copy.
func (r *recovery) verify(ctx context.Context) error {
	path := r.copy.Alias()
	t, err := trail.Open(path)
	if err != nil {
		return err
	}
	v, err := verify.Trail(ctx, t, nil, verify.Checks{})
	if err != nil {
		return err
	}
	for _, list := range [][]verify.Problem{v.Problems, v.Warnings} {
		for i := range list {
			if name, ok := strings.CutPrefix(list[i].File, path); ok {
				list[i].File = r.final + name
			}
		}
	}
	r.report.Verify = Verified{v.Whole, v.Problems, v.MoreProblems, v.Warnings, v.MoreWarnings}
	return nil
}

// now returns the current time in the trail's microseconds.
func now() int64 { return time.Now().UnixMicro() - 946684800*1e6 }

func pathReason(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

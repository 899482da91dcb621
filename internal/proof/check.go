// The check of a proof.

package proof

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Checks are the keys, anchors and demands against which a proof is checked.
type Checks struct {
	Keys    seal.Keys
	Anchors []*seal.Anchor
	// Encryption has the keys of encrypted blocks; nil: none.
	Encryption *format.Keys
	// Question is the question that the proof must answer; nil: any.
	Question *Question
	// Full refuses proofs that rely on indexes.
	Full bool

	// unsigned accepts seals by any key: for a proof that was just made without one.
	unsigned bool
}

// refusal is the error of a proof that proves nothing.
type refusal struct{ reason string }

func (e *refusal) Error() string { return e.reason }

func refusef(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// Check checks a proof. It returns an error if the file cannot be read or is not a proof; problems of a proof are in
// the report.
func Check(ctx context.Context, path string, checks Checks) (*Report, error) {
	f, err := trail.OpenFile(path) // does not block on a pipe
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &checker{path: path, checks: checks, report: &Report{File: path}, anchors: map[*seal.Anchor]bool{}}
	defer c.files.Close()
	if err = c.readFile(ctx, f); err == nil {
		err = c.readBlocks(ctx)
	}
	var format *FormatError
	var refused *refusal
	switch {
	case errors.As(err, &format), errors.As(err, &refused):
		c.problem("%s", err)
	case err != nil:
		return nil, err
	default:
		if err := c.answer(ctx); err != nil {
			return nil, err
		}
	}
	c.report.finish()
	return c.report, nil
}

// CheckNew checks a proof that was just made. Without keys, it does not check signatures.
func CheckNew(ctx context.Context, path string, checks Checks) (*Report, error) {
	checks.unsigned = len(checks.Keys) == 0
	return Check(ctx, path, checks)
}

type checker struct {
	path   string
	checks Checks
	report *Report

	eval       *evaluator
	streams    []*stream
	block      format.Block
	files      trail.Files
	conditions *conditions
	names      *query.Names          // of the question, nil: none
	part       int                   // number of parts of streams without left-out blocks so far
	anchors    map[*seal.Anchor]bool // those whose blocks are in the proof
}

func (c *checker) problem(format string, args ...any) {
	c.report.Problems = append(c.report.Problems, fmt.Sprintf(format, args...))
}

func (c *checker) stopped(format string, args ...any) {
	c.report.Stopped = append(c.report.Stopped, fmt.Sprintf(format, args...))
}

func (c *checker) except(format string, args ...any) {
	c.report.Exceptions = append(c.report.Exceptions, fmt.Sprintf(format, args...))
}

// stream is a stream of the proof, and the state of the check at the current place of its chain.
type stream struct {
	system  uint64
	number  uint32
	copy    *trail.Stream // its copy
	segment *trail.Segment

	keys seal.Keys // trusted at this point

	known   bool // whether the following are known
	block   uint64
	record  uint64
	hash    [32]byte
	pending bool // what is known is not sealed yet
	begun   bool // a block was in the proof, or left out

	from  int64 // the proof has all records that ended later ...
	until int64 // ... and were written before this time

	seals    []*seal.Seal
	indexes  selections
	leftOut  []leftOut
	blocks   []proofBlock
	unsealed int // index of the first block that is not sealed yet
	skipped  uint64
	// skippedInRange counts left-out blocks that can have records of the range.
	skippedInRange uint64
	included       []format.Span
	foundLater     []foundBlocks
}

// foundBlocks are blocks that a run of the writer did not write, but found and sealed.
type foundBlocks struct {
	format.Span
	by *seal.Seal
}

// proofBlock is a block of the proof.
type proofBlock struct {
	ref       trail.BlockRef
	previous  [32]byte // the hash that it is chained to
	part      int      // number of the part of a stream that has no left-out blocks
	sealIndex int      // index of the seal that proves it
}

// leftOut are consecutive blocks that the proof does not have.
type leftOut struct {
	format.Span
	sealIndex int // index of the seal that follows
}

// readFile reads the file and follows the chain of each stream.
func (c *checker) readFile(ctx context.Context, f *os.File) error {
	r, err := newSectionReader(f)
	if err != nil {
		return err
	}
	first, err := r.next()
	if err != nil {
		return err
	}
	if first.kind != kindQuestion {
		return &FormatError{first.offset, "the proof does not begin with its question"}
	}
	q, err := decodeQuestion(first.body)
	if err != nil {
		return &FormatError{first.offset, err.Error()}
	}
	c.report.Question = q
	if want := c.checks.Question; want != nil && !want.same(q) {
		return refusef("the proof answers another question: %s", q)
	}
	if c.checks.Full && !q.Full && q.Record == "" {
		return refusef("the proof relies on the indexes of the trail, and does not have all blocks of its range")
	}
	if c.eval, err = newEvaluator(q); err != nil {
		return &FormatError{first.offset, err.Error()}
	}
	c.conditions = newConditions(c.eval)
	if q.Record == "" {
		c.names = query.NewNames(&q.Filter)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := r.next()
		if err == io.EOF {
			return c.endStream()
		}
		if err != nil {
			return err
		}
		if err := c.takeSection(&s); err != nil {
			return err
		}
	}
}

func (c *checker) takeSection(s *section) error {
	if s.kind == kindStream {
		return c.beginStream(s)
	}
	if len(c.streams) == 0 {
		return &FormatError{s.offset, "a section belongs to no stream"}
	}
	st := c.streams[len(c.streams)-1]
	switch s.kind {
	case kindSeal:
		return c.takeSeal(st, s.body)
	case kindSegment, kindContext:
		return c.takeSegment(st, s)
	case kindBlock:
		return c.takeBlock(st, s)
	case kindLeftOut:
		return c.takeLeftOut(st, s.body)
	}
	return &FormatError{s.offset, "the proof has two questions"}
}

// beginStream begins a stream.
func (c *checker) beginStream(s *section) error {
	if err := c.endStream(); err != nil {
		return err
	}
	le := binary.LittleEndian
	st := &stream{system: le.Uint64(s.body), number: le.Uint32(s.body[8:]), keys: seal.Keys{}, from: format.MaxTime,
		until: format.MinTime}
	if le.Uint32(s.body[12:]) != 0 {
		return &FormatError{s.offset + 12, "reserved bytes are not zero"}
	}
	if n := len(c.streams); n > 0 {
		switch last := c.streams[n-1]; {
		case st.number <= last.number:
			return refusef("stream %d follows stream %d", st.number, last.number)
		case st.system != last.system:
			return refusef("streams %d and %d are of different servers: the system identifiers are %d and %d",
				last.number, st.number, last.system, st.system)
		}
	}
	for id, key := range c.checks.Keys {
		st.keys[id] = key
	}
	st.copy = trail.CopiedStream(st.number, c.checks.Encryption)
	c.streams = append(c.streams, st)
	c.part++
	return nil
}

// endStream ends the current stream.
func (c *checker) endStream() error {
	if len(c.streams) == 0 {
		return nil
	}
	st := c.streams[len(c.streams)-1]
	if st.pending || len(st.seals) == 0 {
		return refusef("stream %d: no seal follows block %d: nothing proves the blocks up to it", st.number, st.block)
	}
	return nil
}

// takeSeal checks a seal, and that it seals the block before it.
func (c *checker) takeSeal(st *stream, b []byte) error {
	s, err := seal.FromSigned(b[:signedSize], b[signedSize:signedSize+8], b[signedSize+8:])
	if err != nil {
		return refusef("stream %d: seal after block %d: %s", st.number, st.block, err)
	}
	if s.SystemID != st.system || s.Stream != st.number {
		return refusef("stream %d: the seal of %s is of stream %d of the server with system identifier %d", st.number,
			render.Time(s.Time), s.Stream, s.SystemID)
	}
	if !c.checks.unsigned {
		key, trusted := st.keys[s.Key]
		if !trusted {
			c.report.noteLack(PublicKey)
			return refusef("stream %d: the seal of block %d is by key %s, which is not trusted", st.number,
				s.Block, s.Key)
		}
		if !s.Verify(key) {
			return refusef("stream %d: the signature of the seal of block %d at %s is not that of key %s", st.number,
				s.Block, render.Time(s.Time), s.Key)
		}
	}
	switch {
	case !st.known || !st.begun && s.Block >= st.block && !st.pending:
		st.from = s.Time // only seals so far: they link keys
	case s.Block != st.block || s.Hash != st.hash:
		return refusef("stream %d: block %d is not the one that was sealed at %s, block %d: blocks up to it are "+
			"missing, or were changed", st.number, st.block, render.Time(s.Time), s.Block)
	case s.Record != st.record:
		return refusef("stream %d: block %d ends with record %d, but with %d in the seal of %s", st.number, st.block,
			st.record, s.Record, render.Time(s.Time))
	}
	// A run of the writer begins behind all seals of the runs before.
	if n := len(st.seals); n > 0 {
		if last := st.seals[n-1]; s.First != last.First && s.First <= last.Block {
			return refusef("stream %d: the seals of %s and %s cannot be of one stream: the run that made the later "+
				"one began with block %d",
				st.number, render.Time(last.Time), render.Time(s.Time), s.First)
		}
	}
	st.known, st.pending = true, false
	st.block, st.record, st.hash = s.Block, s.Record, s.Hash
	if s.NextKey != nil {
		st.keys[seal.KeyID(s.NextKey)] = s.NextKey
	}
	for ; st.unsealed < len(st.blocks); st.unsealed++ {
		st.blocks[st.unsealed].sealIndex = len(st.seals)
	}
	st.seals, st.until = append(st.seals, s), s.Time
	return nil
}

// takeSegment takes a segment header: of a segment that begins at this place of the chain, or of the one that
// contains the next block.
func (c *checker) takeSegment(st *stream, s *section) error {
	seg, err := st.copy.CopiedSegment(c.path, s.body)
	if err != nil {
		return refusef("stream %d: segment header after block %d: %s", st.number, st.block, err)
	}
	h := &seg.Header
	if h.SystemID != st.system || h.Stream != st.number {
		return refusef("stream %d: segment header after block %d is of stream %d of the server with system "+
			"identifier %d", st.number, st.block, h.Stream, h.SystemID)
	}
	if len(s.body) != int(h.Length()) {
		return refusef("stream %d: segment header after block %d has %d bytes", st.number, st.block, len(s.body))
	}
	st.segment = seg
	if s.kind == kindContext {
		if !st.known || h.FirstBlock > st.block+1 {
			return refusef("stream %d: block %d cannot be in segment %d, which begins with block %d", st.number,
				st.block+1, h.Number, h.FirstBlock)
		}
		return nil
	}
	switch {
	case st.known:
		if h.PreviousHash != st.hash || h.FirstBlock != st.block+1 || h.FirstRecord != st.record+1 {
			return refusef("stream %d: segment %d does not follow from block %d", st.number, h.Number, st.block)
		}
	case h.FirstBlock == 0 || h.FirstRecord == 0:
		return refusef("stream %d: segment %d begins with block 0", st.number, h.Number)
	case h.Number == 1 && (h.PreviousHash != [32]byte{} || h.FirstBlock != 1 || h.FirstRecord != 1):
		return refusef("stream %d: the header of segment 1 states that blocks precede it", st.number)
	case h.Number == 1:
		st.from = format.MinTime
	default:
		st.from = h.Created
	}
	// In segment 1, nothing precedes its first block.
	st.pending = st.known || h.Number > 1
	st.known, st.block, st.record, st.hash = true, h.FirstBlock-1, h.FirstRecord-1, h.Hash
	return nil
}

// takeBlock checks that a block follows in the chain, and reads its records.
func (c *checker) takeBlock(st *stream, s *section) error {
	if !st.known || st.segment == nil {
		return refusef("stream %d: a block whose place in the chain is not stated", st.number)
	}
	h, err := format.ParseBlockHeader(s.body)
	switch {
	case err != nil:
		return refusef("stream %d: the block after block %d: %s", st.number, st.block, err)
	case h.Number != st.block+1 || h.FirstRecord != st.record+1:
		return refusef("stream %d: found block %d where block %d is expected", st.number, h.Number, st.block+1)
	case len(s.body) != format.BlockHeaderSize+int(h.Stored):
		return refusef("stream %d: block %d has %d bytes", st.number, h.Number, len(s.body))
	}
	c.block.Image = s.body
	if c.block.ChainHash(st.hash) != h.Chain {
		return refusef("stream %d: block %d does not follow from block %d, or was changed", st.number,
			h.Number, st.block)
	}
	st.blocks = append(st.blocks, proofBlock{ref: st.segment.CopiedBlock(s.offset, &h), previous: st.hash,
		part: c.part})
	st.block, st.record, st.hash = h.Number, h.FirstRecord+uint64(h.Records)-1, h.Chain
	st.pending, st.begun = true, true
	if n := len(st.included); n > 0 && st.included[n-1].Last+1 == h.Number {
		st.included[n-1].Last++
	} else {
		st.included = append(st.included, format.Span{First: h.Number, Last: h.Number})
	}
	for a := range c.anchored(st) {
		c.anchors[a] = c.anchors[a] || a.Block == h.Number
		if a.Block == h.Number && (a.Hash != h.Chain || a.SystemID != st.system || a.Record != st.record) {
			return refusef("stream %d: block %d is not the one of anchor %s, of %s", st.number, h.Number, a.From,
				render.Time(a.Time))
		}
	}
	return nil
}

// takeLeftOut continues the chain after blocks that are left out.
func (c *checker) takeLeftOut(st *stream, b []byte) error {
	le := binary.LittleEndian
	last, record := le.Uint64(b), le.Uint64(b[8:])
	switch {
	case last == 0 || last == 1<<64-1 || record == 1<<64-1:
		return refusef("stream %d: blocks up to %d are left out", st.number, last)
	case !st.known && c.eval.question.Record == "":
		return refusef("stream %d does not begin with a seal or a segment", st.number)
	case !st.known:
	case st.pending:
		return refusef("stream %d: no seal follows block %d, behind which blocks are left out: nothing proves the "+
			"blocks up to it", st.number, st.block)
	case last <= st.block || record < st.record:
		return refusef("stream %d: blocks up to %d are left out after block %d", st.number, last, st.block)
	default:
		st.leftOut = append(st.leftOut, leftOut{format.Span{First: st.block + 1, Last: last}, len(st.seals)})
		st.skipped += last - st.block
		st.begun = true
	}
	st.known, st.pending, st.block, st.record = true, true, last, record
	copy(st.hash[:], b[16:])
	c.part++
	return nil
}

// anchored yields the anchors of a stream.
func (c *checker) anchored(st *stream) func(yield func(*seal.Anchor) bool) {
	return func(yield func(*seal.Anchor) bool) {
		for _, a := range c.checks.Anchors {
			if a.Stream == st.number && !yield(a) {
				return
			}
		}
	}
}

// ---- the records, after all of them have been proved ----

// readBlocks reads the records of the blocks. They are decoded only now, when each block is known to be as the server
// sealed it.
func (c *checker) readBlocks(ctx context.Context) error {
	for _, st := range c.streams {
		for i := range st.blocks {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.readBlock(st, &st.blocks[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) readBlock(st *stream, copied *proofBlock) error {
	b := &c.block
	err := c.files.Read(&copied.ref, b)
	if p := format.AsProblem(err); p != nil && p.Key != nil {
		c.report.noteLack(EncryptionKey)
		c.report.Unread = fmt.Sprintf("blocks are encrypted with key %s, which was not given", p.Key)
		return nil
	} else if err != nil {
		return refusef("stream %d: block %d: %s", st.number, copied.ref.Number, err)
	}
	if b.ChainHash(copied.previous) != b.Header.Chain || b.Header.Number != copied.ref.Number {
		return refusef("stream %d: block %d was changed while it was being checked", st.number, copied.ref.Number)
	}
	by := st.seals[copied.sealIndex]
	found := copied.ref.Number < by.First // the run that sealed it had not written it
	if index, err := b.Contents(); err != nil {
		return refusef("stream %d: %s", st.number, err)
	} else if index != nil && index.First >= by.First && c.eval.question.Record == "" {
		// An index covers blocks of its own run. One that a later run found may be forged.
		st.indexes = append(st.indexes, c.eval.selectionOf(index, b.Header.Number))
		if c.names != nil {
			c.names.Index(index)
		}
	}
	c.eval.reset()
	names := c.names.Reader()
	var r format.Record
	for {
		err := b.Next(&r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return refusef("stream %d: %s", st.number, err)
		}
		if found && r.Kind != format.KindSeal && by.Time > c.eval.since {
			st.noteFound(copied.ref.Number, by)
			found = false
		}
		if r.Kind != format.KindData {
			names.Record(&r)
			c.conditions.add(&r, streamKey{number: st.number}, copied.part)
		}
	}
}

// noteFound notes that a block was sealed only by a later run than the one that wrote it.
func (st *stream) noteFound(number uint64, by *seal.Seal) {
	if n := len(st.foundLater); n > 0 && st.foundLater[n-1].by == by {
		st.foundLater[n-1].Last = number
		return
	}
	st.foundLater = append(st.foundLater, foundBlocks{format.Span{First: number, Last: number}, by})
}

// ---- what the chains prove together ----

// answer finds out what the blocks prove, which are all sealed.
func (c *checker) answer(ctx context.Context) error {
	r := c.report
	if len(c.streams) == 0 {
		c.problem("the proof has no stream")
		return nil
	}
	defer func() {
		for _, st := range c.streams {
			r.addStream(st)
		}
	}()
	r.System = c.streams[0].system
	c.checkAnchors()
	for _, st := range c.streams {
		c.conditions.noteReached(streamKey{number: st.number}, st.until)
	}
	c.conditions.finish()
	c.checkBranches()
	if r.Unread != "" || len(r.Problems) > 0 {
		return nil
	}
	for _, st := range c.streams {
		for _, f := range st.foundLater {
			c.except("stream %d: blocks %d to %d were sealed only at %s, as the next run of the server found them: "+
				"its seal proves nothing about what was there before", st.number, f.First, f.Last,
				render.Time(f.by.Time))
		}
	}
	if c.eval.question.Record == "" {
		c.checkCompleteness()
	}
	if err := c.countMatches(ctx); err != nil || len(r.Problems) > 0 {
		return err
	}
	if c.eval.question.Record != "" && r.Matches == 0 {
		c.problem("the proof does not have the record")
	}
	return nil
}

// checkAnchors compares the proof with the anchors of blocks that it does not have.
func (c *checker) checkAnchors() {
	system := c.streams[0].system
	for _, a := range c.checks.Anchors {
		if a.SystemID != system {
			c.problem("anchor %s is of another server: its system identifier is %d, not %d", a.From,
				a.SystemID, system)
			continue
		}
		if key, ok := c.checks.Keys[a.Key]; a.Signed && ok && !a.Verify(key) {
			c.problem("anchor %s: its signature is not that of key %s", a.From, a.Key)
		}
		i := slices.IndexFunc(c.streams, func(st *stream) bool { return st.number == a.Stream })
		if i < 0 {
			if c.eval.question.Record == "" {
				c.problem("the proof lacks stream %d, which anchor %s names", a.Stream, a.From)
			}
			continue
		}
		for _, s := range c.streams[i].seals {
			c.anchors[a] = c.anchors[a] || a.Block == s.Block
			if s.Block == a.Block && (s.Hash != a.Hash || s.Record != a.Record) {
				c.problem("stream %d: block %d is not the one of anchor %s, of %s", a.Stream, a.Block, a.From,
					render.Time(a.Time))
			}
		}
		if st := c.streams[i]; a.Block > st.block && c.eval.question.Record == "" && a.Time < c.eval.until &&
			st.until < c.eval.until {
			c.problem("stream %d of the proof ends with block %d, but it had block %d of anchor %s at %s", a.Stream,
				st.block, a.Block, a.From, render.Time(a.Time))
		}
		if c.anchors[a] {
			c.report.Anchors++
		}
	}
}

// checkBranches checks that the proof has no blocks that a later start of the server found and had not written.
func (c *checker) checkBranches() {
	for _, b := range c.conditions.branches {
		for _, st := range c.streams {
			if st.number != b.Stream || st.number == b.stream.number || b.Unused && b.Reason == trail.ReasonGone {
				continue
			}
			// the original of a copy can be in the proof, too
			foreign := func(s format.Span) bool { return s.Last > b.Block && b.Reason != trail.ReasonCopy }
			if slices.ContainsFunc(st.included, foreign) || slices.ContainsFunc(st.leftOut, func(l leftOut) bool {
				return foreign(l.Span)
			}) {
				c.problem("stream %d: blocks after block %d were not written by the server, according to the record "+
					"of its start at %s (%s)", st.number, b.Block, render.Time(b.Time), b.Reason)
			}
			for _, s := range st.seals {
				if s.Block == b.Block && s.Hash != b.Hash {
					c.problem("stream %d: block %d is not the one that the server had written, according to the "+
						"record of its start at %s", st.number, b.Block, render.Time(b.Time))
				}
			}
		}
	}
}

// checkCompleteness finds the parts of the range that the proof does not cover.
func (c *checker) checkCompleteness() {
	a := c.eval
	c.checkAllStreams()
	until := int64(format.MaxTime)
	for _, st := range c.streams {
		if !c.checkExcluded(st) {
			continue
		}
		if st.from >= a.since {
			c.uncovered("stream %d: nothing is proved about records that were written before %s", st.number,
				render.Time(st.from))
		}
		if at, stopped := c.stoppedAt(st); st.until < a.until && stopped {
			c.except("stream %d: its server was stopped at %s: nothing is proved about what it recorded after that, "+
				"if it was started again", st.number, render.Time(at))
			continue
		}
		if st.until < a.until && !c.isUnused(st) {
			c.uncovered("stream %d: nothing is proved about records that were written after its last seal in the "+
				"proof, at %s", st.number, render.Time(st.until))
			continue
		}
		if st.until >= a.until {
			until = min(until, st.until)
			last := st.seals[len(st.seals)-1]
			if margin := c.conditions.flushes() + second; st.until < a.until+margin && last.Reason != seal.ReasonStop {
				c.except("stream %d: its last seal in the proof is of %s: records of the last moments of the range "+
					"may have been written later", st.number, render.Time(st.until))
			}
		}
	}
	if until < format.MaxTime {
		c.report.AsOf = render.Time(until)
	}
	for _, st := range c.streams {
		for _, l := range c.conditions.livesOf(streamKey{number: st.number}) {
			if base := l.base(); base != nil && st.from > base.time && st.from < a.since {
				c.except("stream %d: settings that sessions changed for themselves between %s and %s are not known",
					st.number, render.Time(base.time), render.Time(st.from))
			}
		}
	}
	c.checkOtherServers()
	c.stateNamesKnown()
	t := c.conditions
	if why := t.reasonUnstated(); why != "" {
		c.except("which settings were in effect at the beginning of the range is not proved: %s", why)
	}
	t.listUnrecorded(c.except)
	begins := !slices.ContainsFunc(c.streams, func(st *stream) bool { return st.from != format.MinTime })
	t.listDownTimes(until, begins, c.except, c.stopped)
	t.listReported(until, c.except)
	t.listLosses(until, c.except)
	c.report.Sessions = t.listMissing(c.problem)
	t.listUndecided(c.except)
	t.listSwitched(c.except)
	for _, b := range t.branches {
		if b.Reason != trail.ReasonCopy {
			c.except("stream %d was begun at %s, because stream %d was not as the server had left it (%s)",
				b.stream.number, render.Time(b.Time), b.Stream, b.Reason)
		} else if !c.originalGoesOn(b.Branch) {
			c.except("stream %d was begun at %s with a copy of the data directory: what the server that it was "+
				"copied from recorded in stream %d after block %d is not proved", b.stream.number, render.Time(b.Time),
				b.Stream, b.Block)
		}
	}
	for _, what := range t.uninterpreted {
		c.except("%s", what)
	}
}

// stateNamesKnown states from when to when the proof has all renames of the names of the question. The maker of a
// proof decides how far it reaches back, so this is always stated.
func (c *checker) stateNamesKnown() {
	a := c.eval
	if !a.objectNames && !a.roleNames {
		return
	}
	from := int64(format.MinTime)
	for _, st := range c.streams {
		from = max(from, st.from)
	}
	c.report.Names = &KnownRenames{Until: render.Time(a.until)}
	if from > format.MinTime {
		c.report.Names.Since = render.Time(min(from, a.since))
	}
}

// checkOtherServers adds an exception if more streams were being written when the range began than the servers with
// known starts had writers.
func (c *checker) checkOtherServers() {
	known, written := 0, 0
	for _, l := range c.conditions.lives {
		if base := l.base(); base != nil {
			known += base.writers
		}
	}
	for _, st := range c.streams {
		if n := len(st.seals); n > 0 && st.seals[0].Time <= c.eval.since && st.seals[n-1].Time > c.eval.since {
			written++
		}
	}
	if known > 0 && written > known {
		c.except("which settings were in effect at the beginning of the range is not proved: %d streams were "+
			"written, and the starts that the proof has are of servers with %d writers", written, known)
	}
}

// originalGoesOn reports whether the proof has the records that the original of a copied server made in the range,
// that is, whether its stream was sealed after the range. If that seal itself was copied, the range had ended before
// the copy.
func (c *checker) originalGoesOn(b trail.Branch) bool {
	i := slices.IndexFunc(c.streams, func(st *stream) bool { return st.number == b.Stream })
	return i >= 0 && c.streams[i].until >= c.eval.until
}

func (c *checker) uncovered(format string, args ...any) {
	c.report.Uncovered = append(c.report.Uncovered, fmt.Sprintf(format, args...))
}

// checkAllStreams checks that no stream of the trail was left out.
func (c *checker) checkAllStreams() {
	next := uint32(0)
	for _, st := range c.streams {
		if st.number != next {
			c.problem("stream %d is missing from the proof", next)
		}
		next = st.number + 1
	}
	stated := false
	for _, start := range c.conditions.runs {
		stated = stated || start.settings != nil
		if start.writers > int(next) {
			c.problem("the server had %d writers at %s, but the proof has only %d streams", start.writers,
				render.Time(start.time), next)
		}
	}
	if !stated && len(c.checks.Anchors) == 0 {
		c.report.noteLack(Anchors)
		c.except("how many streams the trail had is not proved: no record of a start of the server states it, and " +
			"no anchors were given")
	}
}

// checkExcluded checks that indexes show that the answer needs nothing of the left-out blocks.
func (c *checker) checkExcluded(st *stream) bool {
	st.indexes.sort()
	ends := map[uint64]bool{}
	for _, s := range st.seals {
		if s.Reason == seal.ReasonSegment {
			ends[s.Block] = true
		}
	}
	quiets := c.conditions.searchesTexts()
	for _, l := range st.leftOut {
		before := l.sealIndex < len(st.seals) && st.seals[l.sealIndex].Time < c.eval.since
		if !before {
			st.skippedInRange += l.Last - l.First + 1
		}
		for block := l.First; block <= l.Last; {
			next := block
			if ends[block-1] && c.eval.skipsSealsAtEnds(before) {
				next = block + 1 // it has only the seal at the end of the segment
			}
			if end, ok := st.indexes.excludes(block, searchScope{before, quiets}); ok {
				next = max(next, end)
			}
			if next == block {
				c.problem("stream %d: block %d is left out, and no index in the proof shows that it has nothing of "+
					"the answer", st.number, block)
				return false
			}
			block = next
		}
	}
	return true
}

// stoppedAt returns when the server of a stream was stopped, if the proof's part of the stream ends there, while
// another server went on, as after a failover.
func (c *checker) stoppedAt(st *stream) (at int64, stopped bool) {
	last := st.seals[len(st.seals)-1]
	return last.Time, len(c.conditions.lives) > 1 && last.Reason == seal.ReasonStop
}

// isUnused reports whether no writer used a stream after its last seal: in all later runs, there are as many other
// streams with seals as writers.
func (c *checker) isUnused(st *stream) bool {
	runs := c.conditions.runs
	last := -1
	for i := range runs {
		if runs[i].time <= max(st.until, c.eval.since) {
			last = i
		}
	}
	if last < 0 || runs[last].settings == nil || runs[last].time <= st.until {
		return false
	}
	for i := last; i < len(runs) && runs[i].time < c.eval.until; i++ {
		end := int64(format.MaxTime)
		if i+1 < len(runs) {
			end = runs[i+1].time
		}
		active := 0
		for _, other := range c.streams {
			if other != st && slices.ContainsFunc(other.seals, func(s *seal.Seal) bool {
				return runs[i].time <= s.Time && s.Time < end
			}) {
				active++
			}
		}
		if runs[i].settings == nil || active < runs[i].writers {
			return false
		}
	}
	return true
}

// countMatches counts the records that match.
func (c *checker) countMatches(ctx context.Context) error {
	r := c.report
	r.eval, r.index = c.eval, c.index()
	var renamed query.Hidden
	newCounter := func() trail.Formatter {
		return &counting{chosen{must(newEvaluator(c.eval.question))}, &r.matched, &renamed, c.names.Reader()}
	}
	err := r.merge(ctx, newCounter, func(err error) { c.except("%s", err) }, func([]byte) error { return nil })
	r.Matches = r.matched.Load()
	for _, rename := range renamed.Renames() {
		c.except("%s", &rename)
	}
	c.listUnknownNames()
	return err
}

// listUnknownNames lists the names of the question that neither records nor indexes of the proof contain. It relies
// on nothing but these, which the server has sealed.
func (c *checker) listUnknownNames() {
	from, until := int64(format.MaxTime), int64(format.MinTime)
	for _, st := range c.streams {
		from, until = min(from, st.from), max(until, st.until)
	}
	begin := "the beginning of the trail"
	if from != format.MinTime {
		begin = render.Time(from)
	}
	for _, missing := range c.names.Missing() {
		missing.Where = fmt.Sprintf("in what the proof has of the trail, from %s until %s", begin, render.Time(until))
		c.except("%s", missing)
	}
}

func must(a *evaluator, err error) *evaluator {
	if err != nil {
		panic(err) // this worked before
	}
	return a
}

func (c *checker) index() *trail.Index {
	var streams []*trail.Stream
	blocks := map[*trail.Segment][]trail.BlockRef{}
	for _, st := range c.streams {
		streams = append(streams, st.copy)
		for i := range st.blocks {
			ref := st.blocks[i].ref
			blocks[ref.Segment] = append(blocks[ref.Segment], ref)
		}
	}
	return trail.CopiedIndex(streams, blocks, c.checks.Encryption)
}

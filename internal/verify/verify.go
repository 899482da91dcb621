// Package verify checks that a trail is intact: all checksums, the hash chain of each stream, the numbers of
// blocks and records, the sequence numbers of each session, seals, and anchors.
//
// It reads with packages format and trail, and checks signatures with package seal. verify.go and block.go do
// the checks of one run; memory.go, incremental.go and state.go let a run continue from the previous one.
//
// What must stay true: the result does not depend on how records are divided into blocks, or on which run has
// read them. Memory is bounded by what is open, not by the length of the trail. And what could not be read is
// reported as such, never as intact.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// maxListed is the maximum number of problems, and of warnings, that are listed one by one.
const maxListed = 100

// Checks are what a trail is checked against in addition to its own contents.
type Checks struct {
	Keys    seal.Keys      // keys to check seals with; without any, seals are only counted
	Anchors []*seal.Anchor // anchors whose blocks must be in the trail
	// Memory is what was read earlier and is not read again; nil: nothing.
	Memory       *Memory
	Requirements Requirements
}

// Trail verifies a trail, or those of several servers.
func Trail(ctx context.Context, t *trail.Trail, bar *progress.Bar, checks Checks) (*Report, error) {
	servers := serversOf(t)
	if len(servers) == 0 {
		return ofServer(ctx, t, bar, 0, checks)
	}
	if len(servers) == 1 {
		r, err := ofServer(ctx, t, bar, 0, checks)
		if err == nil {
			r.belongsTo(servers[0].system)
		}
		return r, err
	}
	total := &Report{Problems: []Problem{}, Warnings: []Problem{}}
	for i, s := range servers {
		report, its := partOf(t, checks, servers, i)
		r, err := ofServer(ctx, &report, bar, total.Bytes, its)
		if err != nil {
			return nil, err
		}
		r.belongsTo(s.system)
		total.join(r, s.system)
	}
	return total, nil
}

// belongsTo sets the server to whose trail the problems belong.
func (r *Report) belongsTo(system uint64) {
	for i := range r.Problems {
		r.Problems[i].System = system
	}
}

// ofServer verifies the trails of one server. done is the number of bytes in other trails that were read
// before.
func ofServer(ctx context.Context, t *trail.Trail, bar *progress.Bar, done int64, checks Checks) (*Report, error) {
	v := newVerifier(t, bar, done, &checks)
	v.setAnchors(checks.Anchors)
	v.files()
	if _, err := v.read(ctx, (*state).rest, nil); err != nil {
		return nil, err
	}
	return v.settle(&checks), nil
}

// newVerifier returns a verifier that continues from what was read earlier.
func newVerifier(t *trail.Trail, bar *progress.Bar, done int64, checks *Checks) *verifier {
	v := &verifier{
		trail: t, bar: bar, done: done,
		report:    &Report{Bytes: t.Size(), Problems: []Problem{}, Warnings: []Problem{}},
		sessions:  map[format.SessionID]*session{},
		parts:     map[format.RecordID]uint64{},
		wants:     map[format.RecordID]uint64{},
		cutShort:  map[format.RecordID]bool{},
		dropped:   map[format.RecordID]bool{},
		sealed:    map[string]int{},
		deletions: map[streamID][]trail.Deletion{},
		starts:    map[string][]start{},
		paths:     map[string]int64{},

		keys: checks.Keys, firstBlock: map[uint32]uint64{}, lastBlock: map[streamID]uint64{},
	}
	v.report.Keyed = len(checks.Keys) > 0
	for _, s := range t.Streams {
		v.states = append(v.states, &state{
			v:      v,
			stream: s,
			home:   streamIDOf(s),
			since:  1,
			next:   1,
			seals:  v.newSealState(streamIDOf(s)),
		})
	}
	if checks.Memory != nil {
		v.restore(checks.Memory)
	}
	return v
}

// settle performs the checks that need all records, and completes the report.
func (v *verifier) settle(checks *Checks) *Report {
	for _, st := range v.states {
		st.seals.finish(st.stream.Path)
		v.report.ends = append(v.report.ends, st.end())
	}
	v.findHoles()
	v.warnOfCopies()
	v.settleDeletions()
	v.settleBranches()
	v.settleElsewhere()
	v.elsewhere.report(v)
	v.sequences()
	v.dataParts()
	v.finishAnchors()
	v.finish()
	v.checkDemands(&checks.Requirements)
	return v.report
}

// verifier verifies the trails of one server. Workers check blocks; everything here is used by one goroutine,
// which processes their findings in the order of the streams.
type verifier struct {
	trail  *trail.Trail
	bar    *progress.Bar
	report *Report

	sessions map[format.SessionID]*session
	finished finished
	parts    map[format.RecordID]uint64
	wants    map[format.RecordID]uint64
	cutShort map[format.RecordID]bool
	dropped  map[format.RecordID]bool // with data parts, reported as lost by gap records
	systemID *trail.Segment
	// partial is set if the beginning of a stream is missing, so that sessions may begin in the middle.
	partial   bool
	began     time.Time // when reading began
	holes     []hole
	deletions map[streamID][]trail.Deletion
	records   []deletionRecord
	told      map[*trail.Segment]bool
	gone      map[string]bool // files of segments
	// sealed counts the blocks of encrypted segments whose records could not be checked.
	sealed      map[string]int
	first, last int64
	done        int64

	keys       seal.Keys
	states     []*state                 // of all streams
	paths      map[string]int64         // segments that were read, with their sizes
	absent     map[uint32]*streamMemory // streams that were read earlier and do not exist any more
	anchors    []*anchorState
	firstBlock map[uint32]uint64 // of each stream
	lastBlock  map[streamID]uint64
	branches   []branched
	elsewhere  otherTrails
	starts     map[string][]start // of each trail's server
	twice      copiedBlocks
}

// session is what is known about a session's sequence numbers.
type session struct {
	seen      []format.Span
	explained []format.Span
	ended     bool
	end       uint64 // number of the disconnect record; 0: there is none
}

// reportDamage reports evidence against the trail.
func (v *verifier) reportDamage(class format.ProblemClass, file string, offset *int64, text string, args ...any) {
	p := &format.Problem{Class: class, File: file, Offset: format.NoOffset, Reason: fmt.Sprintf(text, args...)}
	if offset != nil {
		p.Offset, p.Start = *offset, *offset
	}
	for _, s := range v.trail.Streams {
		if file == s.Path || filepath.Dir(file) == s.Path {
			p.Stream = s.Number
			if i := slices.IndexFunc(s.Segments, func(seg *trail.Segment) bool { return seg.Path == file }); i >= 0 {
				p.Segment = s.Segments[i].Number
			}
		}
	}
	v.reportProblem(p)
}

// reportMissingStream reports that a stream does not exist.
func (v *verifier) reportMissingStream(home string, number uint32, text string, args ...any) {
	v.reportProblem(&format.Problem{
		Class: format.ProblemMissing, File: home, Offset: format.NoOffset, Stream: number,
		Reason: fmt.Sprintf(text, args...),
	})
}

// reportDamageAt does so for a block, or a segment header. at is the offset within it.
func (v *verifier) reportDamageAt(
	class format.ProblemClass, seg *trail.Segment, start, at int64, text string, args ...any,
) {
	v.reportProblem((&format.Problem{
		Class:  class,
		Offset: at,
		Reason: fmt.Sprintf(text, args...),
	}).At(seg.Path, seg.Stream.Number, seg.Number, start))
}

// reportProblem reports a problem.
func (v *verifier) reportProblem(p *format.Problem) {
	v.report.Problems, v.report.MoreProblems = list(v.report.Problems, v.report.MoreProblems, p)
}

func (v *verifier) warn(file string, offset *int64, text string, args ...any) {
	if len(v.report.Warnings) == maxListed {
		v.report.MoreWarnings++
		return
	}
	v.report.Warnings = append(v.report.Warnings, Problem{
		File:   file,
		Offset: offset,
		What:   fmt.Sprintf(text, args...),
	})
}

// reportUnreadable reports that something could not be checked.
func (v *verifier) reportUnreadable(file string, text string, args ...any) {
	v.reportUnreadProblem(&format.Problem{
		Class:  format.ProblemUnreadable,
		File:   file,
		Offset: format.NoOffset,
		Reason: fmt.Sprintf(text, args...),
	})
}

func (v *verifier) reportUnreadProblem(p *format.Problem) {
	v.report.Unreadable, v.report.MoreUnreadable = list(v.report.Unreadable, v.report.MoreUnreadable, p)
}

// reportError reports an error of reading the trail.
func (v *verifier) reportError(err error) {
	p := format.AsProblem(err)
	if p == nil {
		var of *fs.PathError
		if !errors.As(err, &of) {
			v.reportDamage(format.ProblemDamaged, "", nil, "%s", err)
			return
		}
		if p = format.Unreadable(of.Path, err); !exit.IsUnreadable(err) { // it has disappeared
			p.Class, p.Reason = format.ProblemMissing, "cannot be read: "+p.Reason
		}
	}
	told := *p
	switch {
	case p.Class == format.ProblemTorn:
		told.Reason += "; everything before it counts"
		v.report.Warnings, v.report.MoreWarnings = list(v.report.Warnings, v.report.MoreWarnings, &told)
	case p.Class == format.ProblemUnreadable:
		if p.Err != nil {
			told.Reason = "cannot be read: " + told.Reason
		}
		v.reportUnreadProblem(&told)
	case trail.IsGone(err) && p.Segment > 0:
		v.handleDeleted(p)
	default:
		v.reportProblem(p)
	}
}

// handleDeleted handles a segment that was deleted while the trail was read. If it was deleted by policy after
// earlier segments had been read, the report mixes two states of the trail, and sessions seem to have gaps.
func (v *verifier) handleDeleted(gone *format.Problem) {
	if v.gone == nil {
		v.gone = map[string]bool{}
	}
	if v.gone[gone.File] {
		return
	}
	v.gone[gone.File] = true
	if gone.Class != format.ProblemDeleted {
		reported := *gone
		reported.Reason = "segment has disappeared since it was listed, and was not deleted by retention"
		v.reportProblem(&reported)
		return
	}
	v.partial = true
	for _, s := range v.trail.Streams {
		if s.Path != filepath.Dir(gone.File) {
			continue
		}
		for _, before := range s.Segments {
			if before.Number < gone.Segment && !v.gone[before.Path] {
				v.report.outdated = true
			}
		}
	}
	v.warn(gone.File, nil, "segment was deleted by retention while the trail was being verified")
}

// files checks the names in the directories.
func (v *verifier) files() {
	for _, err := range v.trail.Errors {
		v.reportError(err)
	}
	for _, path := range v.trail.Foreign {
		v.warn(path, nil, "does not belong to a trail")
	}
	next := map[string]uint32{} // next expected stream of each trail
	for _, s := range v.trail.Streams {
		if s.Trail != "" {
			// The server creates the folders of all its writers, so none may be missing.
			switch next := next[s.Trail]; {
			case s.Number == next+1:
				v.reportMissingStream(s.Trail, next, "stream %d is missing", next)
			case s.Number > next:
				v.reportMissingStream(s.Trail, next, "streams %d to %d are missing", next, s.Number-1)
			}
			next[s.Trail] = s.Number + 1
		}
		v.report.Streams++
		v.report.Segments += len(s.Segments)
	}
	if v.report.Segments == 0 {
		v.reportDamage(format.ProblemMissing, v.trail.Path, nil, "there is no segment of a trail in this directory")
	}
}

// job is a block that passes through the workers, or a function to call after all earlier blocks were
// processed.
type job struct {
	state   *state
	ref     *trail.BlockRef
	before  *trail.BlockRef           // the previous block in the segment; nil: it is the first
	indexes func() []*format.Contents // of the segment
	last    bool
	found   *finding
	done    chan struct{}
	then    func() // the function, instead of a block
}

// read lets the workers check the blocks of segments, and processes their findings in the order of the streams.
// Reading goes on across the ends of segments while findings are pending. segmentsOf returns the range of a
// stream's segments to read. When stop returns true, read ends before the next segment; all says that it did
// not.
func (v *verifier) read(
	ctx context.Context, segmentsOf func(*state) (from, to int), stop func() bool,
) (all bool, err error) {
	workers := runtime.GOMAXPROCS(0)
	jobs := make(chan *job, workers)
	var pending []*job
	files := &trail.Files{NoFallback: true}
	defer files.Close()
	var wait sync.WaitGroup
	defer wait.Wait()
	defer close(jobs)
	for range workers {
		wait.Go(func() {
			c := &checker{files: files}
			for j := range jobs {
				j.found = c.check(j.ref, j.before, j.indexes(), j.last)
				close(j.done)
			}
		})
	}
	// put queues a job. If too many are pending, it processes the oldest ones.
	put := func(j *job) error {
		pending = append(pending, j)
		if j.then == nil {
			select {
			case jobs <- j:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for len(pending) > 8*workers {
			processJob(pending[0])
			pending = pending[1:]
		}
		return nil
	}
	for _, st := range v.states {
		from, to := segmentsOf(st)
		for _, seg := range st.stream.Segments[from:to] {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			if stop != nil && stop() {
				for _, j := range pending {
					processJob(j)
				}
				return false, nil
			}
			v.paths[seg.Path] = seg.Size
			refs, errs := seg.Index()
			if err := put(&job{then: func() { st.enter(seg, refs, errs) }}); err != nil {
				return false, err
			}
			indexes := sync.OnceValue(func() []*format.Contents { return files.Contents(refs) })
			open := seg.Last && !endsBehind(refs, errs) // the last block may be one that is being written
			for k := range refs {
				j := &job{
					state:   st,
					ref:     &refs[k],
					indexes: indexes,
					done:    make(chan struct{}),
					last:    open && k == len(refs)-1,
				}
				if k > 0 {
					j.before = &refs[k-1]
				}
				if err := put(j); err != nil {
					return false, err
				}
			}
			// Errors between blocks are reported after all blocks of the segment.
			if err := put(&job{then: func() {
				for _, err := range errs {
					v.reportError(err)
				}
				st.leave(seg, refs, errs)
			}}); err != nil {
				return false, err
			}
		}
		for _, j := range pending {
			processJob(j)
		}
		pending = nil
	}
	return true, nil
}

// processJob processes a job.
func processJob(j *job) {
	if j.then != nil {
		j.then()
		return
	}
	<-j.done
	j.state.processBlock(j)
}

// state follows one stream.
type state struct {
	v      *verifier
	stream *trail.Stream
	home   streamID

	since uint64 // the first segment that is read at all: 1, unless the stream is followed from a later one
	next  uint64 // the first segment that was not read
	begun bool   // something was read
	// goesOn says that the first segment read now has the header that must follow.
	goesOn, entered bool
	// finished is the index after the segments to which the server does not write any more, for a run with a
	// state.
	finished int
	position
	before summary // of the last segment that was read
	seals  *sealState
	last   *LastBlock
}

// position is how far a stream was read.
type position struct {
	Known      bool // whether the following are known
	NextBlock  uint64
	NextRecord uint64
	Hash       [32]byte // of the last block
}

// summary is what the next segment's header must say about a segment's blocks.
type summary struct {
	First     uint64 // number of the first block
	Blocks    uint64
	Highest   uint64 // number of a block
	Times     format.TimeRange
	Undamaged bool // as far as headers tell
}

// rest returns the segments that were not read yet.
func (st *state) rest() (from, to int) {
	all := st.stream.Segments
	from, _ = slices.BinarySearchFunc(all, st.next, func(seg *trail.Segment, n uint64) int {
		return cmp.Compare(seg.Number, n)
	})
	if !st.stream.Whole {
		from = 0
	}
	return from, len(all)
}

// LastBlock is the last intact block of a stream, and what its seals prove.
type LastBlock struct {
	Trail   string // directory, if it was found in one
	Stream  uint32
	Segment uint64
	Block   uint64 // 0: no block
	Record  uint64 // the last record in the block
	Hash    [32]byte
	End     int64 // of the last record in the block
	Sealed  *seal.Seal
	// Unsealed counts the blocks after the seal that contain more than seals, and Since is the end of the first
	// of them.
	Unsealed uint64
	Since    int64
	// Trusted are the given public keys, and those that seals by them have introduced.
	Trusted seal.Keys
	system  uint64 // system identifier in its segment
}

func (st *state) end() LastBlock {
	last := LastBlock{}
	if st.last != nil {
		last = *st.last
	}
	last.Trail = st.stream.Trail
	last.Stream, last.Sealed, last.Unsealed, last.Since, last.Trusted = st.stream.Number, st.seals.Last,
		st.seals.Unsealed, st.seals.Since, st.seals.Keys
	return last
}

// enter checks that a segment is in its place in the stream.
func (st *state) enter(seg *trail.Segment, refs []trail.BlockRef, errs []error) {
	v := st.v
	follows := st.begun && st.next == seg.Number
	if !st.entered {
		st.entered, st.goesOn = true, !st.Known || seg.Err == nil && follows && seg.Header.PreviousHash == st.Hash
	}
	if st.stream.Whole {
		if seg.Number != st.next {
			st.Known = false
		}
		v.partial = v.partial || !st.begun && seg.Number > 1
	} else {
		v.partial = true
		st.Known = false
	}
	st.begun, st.next = true, seg.Number+1
	st.seals.Segment = seg.Number
	if len(refs) > 0 || slices.ContainsFunc(errs, func(err error) bool {
		p := format.AsProblem(err)
		return p == nil || !p.Unfinished
	}) {
		st.seals.Filled = seg.Number
	}
	if seg.Err != nil {
		st.Known = false
		return
	}
	if follows {
		st.checkTimes(seg)
	}
	h := &seg.Header
	v.key(seg)
	if h.Number != seg.Number {
		v.reportDamageAt(format.ProblemNumber, seg, 0, 32, "header says that this is segment %d", h.Number)
	}
	if st.stream.Whole && h.Stream != st.stream.Number {
		v.reportDamageAt(format.ProblemNumber, seg, 0, 24, "header says that this is stream %d", h.Stream)
	}
	if v.systemID == nil {
		v.systemID = seg
	} else if id := v.systemID.Header.SystemID; id != h.SystemID {
		v.reportDamageAt(format.ProblemForeign, seg, 0, 16,
			"system identifier is %d, that of %s is %d: it belongs to another server", h.SystemID,
			v.systemID.Path, id)
	}
	if h.Number == 1 && h.PreviousHash != [32]byte{} {
		v.reportDamageAt(format.ProblemChain, seg, 0, 64, "the first segment says that blocks precede it")
	}
	if st.Known || h.Number == 1 {
		if h.Number == 1 {
			st.NextBlock, st.NextRecord, st.Hash = 1, 1, [32]byte{}
		}
		if h.FirstBlock != st.NextBlock {
			v.reportDamageAt(format.ProblemNumber, seg, 0, 48, "segment begins with block %d instead of %d",
				h.FirstBlock, st.NextBlock)
		}
		if h.FirstRecord != st.NextRecord {
			v.reportDamageAt(format.ProblemNumber, seg, 0, 56, "segment begins with record %d instead of %d",
				h.FirstRecord, st.NextRecord)
		}
		if h.PreviousHash != st.Hash {
			v.reportDamageAt(format.ProblemChain, seg, 0, 64,
				"chain is broken: the segment does not follow from the previous one")
		}
	}
	st.Known, st.NextBlock, st.NextRecord, st.Hash = true, h.FirstBlock, h.FirstRecord, h.PreviousHash
}

// checkTimes checks what a segment's header says about the times in the previous segment, because readers skip
// that segment because of it. If parts of it are damaged, the remaining times must be within the range.
func (st *state) checkTimes(seg *trail.Segment) {
	said, b := seg.Header.Before, &st.before
	if b.Blocks > 0 && b.Highest >= seg.Header.FirstBlock {
		return // the numbers are wrong, which was reported as damage
	}
	whole := b.Undamaged && b.Blocks == seg.Header.FirstBlock-b.First
	if !said.Known() || said == b.Times || !whole && said.First <= b.Times.First && said.LastEnd >= b.Times.LastEnd {
		return
	}
	st.v.reportDamageAt(format.ProblemContent, seg, 0, 96,
		"header says that the records of the segment before are %s, but they are %s", between(said), between(b.Times))
}

// summarize sums up the blocks of a segment.
func summarize(seg *trail.Segment, refs []trail.BlockRef, undamaged bool) summary {
	s := summary{
		First:     seg.Header.FirstBlock,
		Times:     format.NoTimes(),
		Undamaged: undamaged,
		Blocks:    uint64(len(refs)),
	}
	for i := range refs {
		b := &refs[i]
		s.Highest = max(s.Highest, b.Number)
		s.Times.Add(&format.BlockHeader{Records: b.Records, FirstTime: b.FirstTime, LastEnd: b.LastEnd})
	}
	return s
}

// between formats a range of times.
func between(t format.TimeRange) string {
	if t.First > t.LastEnd {
		return "none"
	}
	return "from " + render.Time(t.First) + " to " + render.Time(t.LastEnd)
}

// key counts an encrypted segment whose records cannot be checked.
func (v *verifier) key(seg *trail.Segment) {
	if p := format.AsProblem(seg.KeyErr); p != nil && p.Key != nil {
		v.sealed[p.Key.String()]++
	} else if seg.KeyErr != nil {
		v.reportError(seg.KeyErr)
	}
}

// processBlock processes the findings of a block.
func (st *state) processBlock(j *job) {
	v, f := st.v, j.found
	if f.torn {
		p := &format.Problem{
			Class:      format.ProblemTorn,
			Unfinished: true,
			Reason: fmt.Sprintf("unfinished block %d: part of it was never written; everything before it counts",
				j.ref.Number),
		}
		v.report.Warnings, v.report.MoreWarnings = list(v.report.Warnings, v.report.MoreWarnings,
			p.At(j.ref.Segment.Path, j.ref.Segment.Stream.Number, j.ref.Segment.Number, j.ref.Offset))
		return
	}
	for _, err := range f.errs {
		v.reportError(err)
	}
	if f.ok {
		place := blockPlace{Number: f.header.Number, File: j.ref.Segment.Path, Offset: j.ref.Offset}
		st.seals.block(f, place, seal.Seal{Hash: st.Hash, Record: st.NextRecord - 1}, st.Known && !j.ref.AfterDamage)
		v.anchor(st.stream, place, j.ref.Segment.Header.SystemID, &f.header, f)
	}
	v.twice.note(j.ref)
	if !j.ref.Duplicate {
		v.report.Blocks++
	}
	v.done += j.ref.Length()
	v.bar.Set(v.done)
	if !f.ok {
		st.Known = false
		return
	}
	h := &f.header
	if j.ref.AfterDamage {
		st.Known = false
	}
	if st.Known && h.Number != st.NextBlock {
		v.reportDamageAt(format.ProblemNumber, j.ref.Segment, j.ref.Offset, 24,
			"found block %d where block %d is expected",
			h.Number, st.NextBlock)
	} else if st.Known && h.FirstRecord != st.NextRecord {
		v.reportDamageAt(format.ProblemNumber, j.ref.Segment, j.ref.Offset, 32,
			"block %d begins with record %d instead of %d", h.Number, h.FirstRecord, st.NextRecord)
	}
	st.Known, st.NextBlock, st.NextRecord, st.Hash = true, h.Number+1, h.FirstRecord+uint64(h.Records), h.Chain
	st.last = &LastBlock{
		Segment: j.ref.Segment.Number,
		Block:   h.Number,
		Record:  st.NextRecord - 1,
		Hash:    h.Chain,
		End:     h.LastEnd,
		system:  j.ref.Segment.Header.SystemID,
	}
	v.lastBlock[st.home] = max(v.lastBlock[st.home], h.Number)
	for _, b := range f.branches {
		v.branches = append(v.branches, branched{b, st.home})
	}
	for _, o := range f.others {
		v.elsewhere.note(o)
	}
	v.starts[st.home.trail] = append(v.starts[st.home.trail], f.starts...)
	for _, d := range f.deletions {
		of := streamID{st.home.trail, d.Stream}
		v.deletions[of] = append(v.deletions[of], d)
		v.records = append(v.records, deletionRecord{of, d, st.seals, h.Number})
	}
	if !j.ref.Duplicate {
		v.add(f)
	}
}

// endsBehind returns whether something that is not a block follows the last block. Only at the very end, what a
// crash has left counts as unfinished.
func endsBehind(refs []trail.BlockRef, errs []error) bool {
	if len(refs) == 0 {
		return false
	}
	last := &refs[len(refs)-1]
	return slices.ContainsFunc(errs, func(err error) bool {
		p := format.AsProblem(err)
		return p != nil && (p.Unfinished || p.Offset >= last.Offset+last.Length())
	})
}

// leave is called at the end of a segment. After damage there, it is not known what must follow.
func (st *state) leave(seg *trail.Segment, refs []trail.BlockRef, errs []error) {
	st.before = summarize(seg, refs, len(errs) == 0 && seg.Err == nil)
	for _, err := range errs {
		behind := int64(-1)
		if len(refs) > 0 {
			behind = refs[len(refs)-1].Offset
		}
		if p := format.AsProblem(err); p != nil && (p.Offset > behind || p.Unfinished || trail.IsGone(p)) {
			st.Known = false
		}
	}
	if !seg.Last && len(errs) == 0 {
		st.seals.endSegment(seg)
	}
}

func (v *verifier) add(f *finding) {
	r := v.report
	if f.header.Encrypted() {
		r.EncryptedBlocks++
	}
	if f.sealed {
		r.UnreadBlocks++
		v.times(int64(f.header.Records), f.header.FirstTime, f.header.LastEnd)
		r.Records += int64(f.header.Records)
		return
	}
	if f.later {
		v.times(int64(f.header.Records), f.header.FirstTime, f.header.LastEnd)
		r.Records += int64(f.header.Records)
		return
	}
	if len(f.spans) > 0 || f.unnumbered > 0 {
		v.times(int64(f.header.Records), f.first, f.last)
	}
	for _, s := range f.spans {
		r.Records += int64(s.Last - s.First + 1)
		seen := &v.session(s.session).seen
		if n := len(*seen); n > 0 && (*seen)[n-1].Last+1 == s.First {
			(*seen)[n-1].Last = s.Last
		} else {
			*seen = append(*seen, s.Span)
		}
	}
	r.Records += f.unnumbered
	for _, s := range f.explained {
		e := v.session(s.session)
		e.explained = append(e.explained, s.Span)
	}
	for _, id := range f.ended {
		v.session(id).ended = true
	}
	for _, id := range f.ends {
		v.session(id.Session).end = id.Seq
	}
	r.GapRecords += f.gaps
	r.LostRecords += f.lost
	for _, what := range f.unread {
		v.warn("", nil, "%s", what)
	}
	for _, id := range f.closed {
		v.retire(id)
	}
	for id, n := range f.parts {
		v.parts[id] += n
	}
	for i, id := range f.whole {
		v.wants[id] = f.wholeBytes[i]
	}
	for _, id := range f.interrupted {
		v.cutShort[id] = true
	}
	for _, s := range f.explained {
		for id := range v.parts {
			if id.Session == s.session && s.First <= id.Seq && id.Seq <= s.Last {
				v.dropped[id] = true
			}
		}
	}
	v.forgetParts(f)
}

// times adds the times of a block's records to the statistics, before these are counted.
func (v *verifier) times(records, first, last int64) {
	switch {
	case records == 0:
	case v.report.Records == 0:
		v.first, v.last = first, last
	default:
		v.first, v.last = min(v.first, first), max(v.last, last)
	}
}

// forgetParts removes the data parts of complete records, so that memory does not grow with the trail.
func (v *verifier) forgetParts(f *finding) {
	for _, id := range f.whole {
		if v.parts[id] == v.wants[id] {
			delete(v.parts, id)
			delete(v.wants, id)
		}
	}
}

func (v *verifier) session(id format.SessionID) *session {
	s := v.sessions[id]
	if s == nil {
		s = &session{}
		if last, ok := v.finished.forget(id); ok {
			*s = session{seen: []format.Span{{First: 1, Last: last}}, ended: true, end: last}
		}
		v.sessions[id] = s
	}
	return s
}

// retire removes a session that has ended when all its numbers have been seen or are explained, so that memory
// grows with the number of sessions that are open or have gaps, and not with the trail. The last numbers of
// recently removed sessions are kept, to detect duplicates of their records: these can occur only soon
// afterwards, after a crash.
func (v *verifier) retire(id format.SessionID) {
	s := v.sessions[id]
	if s == nil || len(s.seen) == 0 {
		return
	}
	slices.SortFunc(s.seen, format.Span.Compare)
	slices.SortFunc(s.explained, format.Span.Compare)
	next := uint64(1)
	for _, span := range s.seen {
		if span.First < next || len(format.Uncovered(s.explained, next, span.First)) > 0 {
			return
		}
		next = span.Last + 1
	}
	if s.end != 0 && next != s.end+1 || overlap(s.explained, s.seen) {
		return
	}
	delete(v.sessions, id)
	v.finished.remember(id, next-1)
}

// finished has the sessions that were removed recently.
type finished struct {
	count  int
	last   map[format.SessionID]uint64 // number of the last record of each session in recent
	recent []format.SessionID          // a ring buffer
	at     int
}

// maxFinished bounds these sessions.
const maxFinished = 64 << 10

func (f *finished) remember(id format.SessionID, last uint64) {
	if f.last == nil {
		f.last = map[format.SessionID]uint64{}
	}
	f.count++
	if len(f.recent) < maxFinished {
		f.recent = append(f.recent, id)
	} else {
		delete(f.last, f.recent[f.at])
		f.recent[f.at] = id
		f.at = (f.at + 1) % maxFinished
	}
	f.last[id] = last
}

func (f *finished) forget(id format.SessionID) (last uint64, ok bool) {
	if last, ok = f.last[id]; ok {
		delete(f.last, id)
		f.count--
	}
	return last, ok
}

// ofSession reports a problem with a session's records; n are the missing numbers, if any are missing.
func (v *verifier) ofSession(id format.SessionID, n format.Span, text string, args ...any) {
	v.reportProblem(&format.Problem{
		Class: format.ProblemSession, Offset: format.NoOffset, Session: id, Numbers: n,
		Reason: fmt.Sprintf("session %s: ", id) + fmt.Sprintf(text, args...),
	})
}

// list adds a problem to a list, or only counts it if the list is full.
func list(all []Problem, more int, p *format.Problem) ([]Problem, int) {
	if len(all) == maxListed {
		return all, more + 1
	}
	return append(all, problemOf(p)), more
}

// sequences finds sequence numbers that are missing or occur twice in a session.
func (v *verifier) sequences() {
	middle := 0
	for _, id := range slices.SortedFunc(maps.Keys(v.sessions), format.SessionID.Compare) {
		s := v.sessions[id]
		if !s.ended {
			v.report.OpenSessions++
		}
		slices.SortFunc(s.seen, format.Span.Compare)
		slices.SortFunc(s.explained, format.Span.Compare)
		explained := s.explained
		if last := v.elsewhere.lastElsewhere(id); last > 0 {
			explained = append(slices.Clone(explained), format.Span{First: 1, Last: last})
			slices.SortFunc(explained, format.Span.Compare)
		}
		next := uint64(1)
		if v.partial && len(s.seen) > 0 && s.seen[0].First > 1 {
			next = s.seen[0].First
			middle++
		}
		var twice []format.Span
		for _, span := range s.seen {
			if span.First < next {
				twice = addSpan(twice, format.Span{First: span.First, Last: min(span.Last, next-1)})
			}
			// Blocks that were not read may contain the missing numbers.
			if v.report.UnreadBlocks > 0 {
				next = span.First
			}
			for _, hole := range format.Uncovered(explained, next, span.First) {
				if v.report.outdated || len(v.report.Unreadable) > 0 {
					v.warn("", nil, "session %s: %s missing", id, numbers(hole.First, hole.Last))
					continue
				}
				v.ofSession(id, hole, "%s missing", numbers(hole.First, hole.Last))
			}
			next = max(next, span.Last+1)
		}
		for _, span := range twice {
			v.ofSession(id, format.Span{}, "%s in the trail more than once", numbers(span.First, span.Last))
		}
		if s.end != 0 && next > s.end+1 {
			v.ofSession(id, format.Span{}, "%s in the trail, although it ended with record %d",
				numbers(s.end+1, next-1), s.end)
		}
		v.contradictions(id, s)
	}
	if middle > 0 {
		v.warn("", nil, "%d sessions begin before the first existing segment", middle)
	}
}

// addSpan adds a span, and joins it with the last one if it continues that, so that the result does not depend
// on how records are divided into blocks.
func addSpan(all []format.Span, s format.Span) []format.Span {
	if n := len(all); n > 0 && s.First <= all[n-1].Last+1 {
		all[n-1].Last = max(all[n-1].Last, s.Last)
		return all
	}
	return append(all, s)
}

func overlap(a, b []format.Span) bool {
	for _, x := range a {
		if slices.ContainsFunc(b, func(y format.Span) bool { return x.First <= y.Last && y.First <= x.Last }) {
			return true
		}
	}
	return false
}

// contradictions finds records that exist although gap records report them as lost.
func (v *verifier) contradictions(id format.SessionID, s *session) {
	i := 0
	for _, e := range s.explained {
		for i < len(s.seen) && s.seen[i].Last < e.First {
			i++
		}
		if i < len(s.seen) && s.seen[i].First <= e.Last {
			v.ofSession(id, format.Span{},
				"a gap record says that records %d to %d were lost, but %s there", e.First, e.Last,
				numbers(max(e.First, s.seen[i].First), min(e.Last, s.seen[i].Last)))
		}
	}
}

func numbers(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("record %d is", first)
	}
	return fmt.Sprintf("records %d to %d are", first, last)
}

// dataParts checks that each big record has all of its data parts, and that all other parts belong to
// interrupted statements.
func (v *verifier) dataParts() {
	if v.report.UnreadBlocks > 0 || len(v.report.Unreadable) > 0 {
		return
	}
	ids := make([]format.RecordID, 0, len(v.wants)+len(v.parts))
	for id := range v.wants {
		ids = append(ids, id)
	}
	for id := range v.parts {
		if _, wanted := v.wants[id]; !wanted && !v.cutShort[id] {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, format.RecordID.Compare)
	for _, id := range ids {
		want, wanted := v.wants[id]
		have := v.parts[id]
		switch {
		case !wanted && v.dropped[id]:
			v.warn("", nil,
				"session %s: %d bytes of record %d exist, but not the record: it was dropped, according to a gap "+
					"record", id.Session, have, id.Seq)
		case !wanted:
			v.warn("", nil,
				"session %s: %d bytes of record %d exist, but not the record: its statement was interrupted",
				id.Session, have, id.Seq)
		case have < want && id.Seq <= v.elsewhere.lastElsewhere(id.Session)+1 &&
			v.elsewhere.lastElsewhere(id.Session) > 0:
			v.warn("", nil, "session %s: %d of %d bytes of the data parts of record %d are in another trail",
				id.Session, want-have, want, id.Seq)
		case have < want && v.partial:
			v.warn("", nil, "session %s: record %d lacks %d of %d bytes of its data parts", id.Session,
				id.Seq, want-have, want)
		case have != want:
			v.reportProblem(&format.Problem{
				Class: format.ProblemParts, Offset: format.NoOffset, Session: id.Session,
				Numbers: format.Span{First: id.Seq, Last: id.Seq},
				Reason: fmt.Sprintf("session %s: record %d has %d bytes of data parts instead of %d", id.Session,
					id.Seq, have, want),
			})
		}
	}
}

// addKey adds a key's ID, unless it is in the list.
func addKey(ids []string, id string) []string {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}

func (v *verifier) finish() {
	r := v.report
	r.Sessions = len(v.sessions) + v.finished.count
	r.setVerdict()
	for _, id := range slices.Sorted(maps.Keys(v.sealed)) {
		r.EncryptionKeys = addKey(r.EncryptionKeys, id)
		v.warn("", nil,
			"segments encrypted with key %s, which was not given: %d; only their checksums and chain were "+
				"checked, not their records", id, v.sealed[id])
	}
	if r.Records > 0 {
		r.First, r.Last = render.Time(v.first), render.Time(v.last)
	}
}

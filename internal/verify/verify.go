// Package verify checks that a trail is intact: all checksums, the hash chain of each stream, the numbers of blocks and
// records, and the sequence numbers of each session.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/exit"
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
	// From is the first segment that is read of a stream; those before it were verified earlier, and need not exist.
	From    map[uint32]uint64
	Demands Demands
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
		one, its := part(t, checks, servers, i)
		r, err := ofServer(ctx, &one, bar, total.Bytes, its)
		if err != nil {
			return nil, err
		}
		r.belongsTo(s.system)
		total.join(r, s.system)
	}
	return total, nil
}

// belongsTo says whose trail the problems are in.
func (r *Report) belongsTo(system uint64) {
	for i := range r.Problems {
		r.Problems[i].System = system
	}
}

// ofServer verifies the trails of one server. done is how many bytes of others were read before.
func ofServer(ctx context.Context, t *trail.Trail, bar *progress.Bar, done int64, checks Checks) (*Report, error) {
	v := &verifier{
		trail: t, bar: bar, done: done,
		report:    &Report{Bytes: t.Size(), Problems: []Problem{}, Warnings: []Problem{}},
		sessions:  map[trail.SessionID]*session{},
		parts:     map[trail.RecordID]uint64{},
		wants:     map[trail.RecordID]uint64{},
		cutShort:  map[trail.RecordID]bool{},
		dropped:   map[trail.RecordID]bool{},
		sealed:    map[string]int{},
		deletions: map[home][]trail.Deletion{},
		starts:    map[string][]start{},

		keys: checks.Keys, from: checks.From, firstBlock: map[uint32]uint64{}, lastBlock: map[home]uint64{},
	}
	v.report.Keyed = len(checks.Keys) > 0
	v.setAnchors(checks.Anchors)
	v.files()
	err := v.run(ctx)
	if err != nil {
		return nil, err
	}
	v.tellTwice()
	v.settleDeletions()
	v.settleBranches()
	v.settleElsewhere()
	v.elsewhere.tell(v)
	v.sequences()
	v.dataParts()
	v.finishAnchors()
	v.finish()
	v.demand(&checks.Demands)
	return v.report, nil
}

type verifier struct {
	trail  *trail.Trail
	bar    *progress.Bar
	report *Report

	sessions map[trail.SessionID]*session
	finished finished
	parts    map[trail.RecordID]uint64
	wants    map[trail.RecordID]uint64
	cutShort map[trail.RecordID]bool
	dropped  map[trail.RecordID]bool // that have data parts, and that gap records report as lost
	systemID *trail.Segment
	// partial is set if the beginning of a stream is missing, so that sessions may begin in the middle.
	partial   bool
	holes     []hole
	deletions map[home][]trail.Deletion
	records   []deletionRecord
	told      map[*trail.Segment]bool
	gone      map[*trail.Segment]bool
	// sealed counts the blocks of encrypted segments whose records could not be checked.
	sealed      map[string]int
	first, last int64
	done        int64

	keys       seal.Keys
	from       map[uint32]uint64
	anchors    []*anchorState
	firstBlock map[uint32]uint64 // of each stream
	lastBlock  map[home]uint64
	branches   []branched
	elsewhere  elsewhere
	starts     map[string][]start // of each trail's server
	twice      twice
}

// session is what is known about a session's sequence numbers.
type session struct {
	seen      []trail.Span
	explained []trail.Span
	ended     bool
	end       uint64 // number of the disconnect record; 0: there is none
}

func (v *verifier) damage(file string, offset *int64, format string, args ...any) {
	if len(v.report.Problems) == maxListed {
		v.report.MoreProblems++
		return
	}
	v.report.Problems = append(v.report.Problems, Problem{File: file, Offset: offset, What: fmt.Sprintf(format, args...)})
}

func (v *verifier) warning(file string, offset *int64, format string, args ...any) {
	if len(v.report.Warnings) == maxListed {
		v.report.MoreWarnings++
		return
	}
	v.report.Warnings = append(v.report.Warnings, Problem{File: file, Offset: offset, What: fmt.Sprintf(format, args...)})
}

// unreadable reports what could not be checked.
func (v *verifier) unreadable(file string, format string, args ...any) {
	v.cannotRead(Problem{File: file, What: fmt.Sprintf(format, args...)})
}

func (v *verifier) cannotRead(p Problem) {
	if len(v.report.Unreadable) == maxListed {
		v.report.MoreUnreadable++
		return
	}
	v.report.Unreadable = append(v.report.Unreadable, p)
}

// fail reports an error of the reader.
func (v *verifier) fail(err error) {
	var corrupt *trail.CorruptionError
	var torn *trail.TornError
	var path *fs.PathError
	var gone *trail.GoneError
	var later *trail.LaterError
	switch {
	case errors.As(err, &gone):
		v.goes(gone)
	case errors.As(err, &later):
		v.cannotRead(Problem{File: later.File, Offset: &later.Offset, What: later.Reason})
	case errors.As(err, &torn) && torn.Last:
		v.warning(torn.File, &torn.Offset, "%s; everything before it counts", torn.Reason)
	case errors.As(err, &torn):
		v.damage(torn.File, &torn.Offset, "%s, although segments follow", torn.Reason)
	case errors.As(err, &corrupt):
		v.damage(corrupt.File, &corrupt.Offset, "%s", corrupt.Reason)
	case errors.As(err, &path) && exit.IsUnreadable(err):
		v.unreadable(path.Path, "cannot be read: %s", path.Err)
	case errors.As(err, &path):
		v.damage(path.Path, nil, "cannot be read: %s", path.Err)
	default:
		v.damage("", nil, "%s", err)
	}
}

// goes handles a segment that was deleted while the trail was read. If it was deleted by policy after earlier segments
// had been read, the report mixes two states of the trail, and sessions seem to have gaps.
func (v *verifier) goes(gone *trail.GoneError) {
	if v.gone == nil {
		v.gone = map[*trail.Segment]bool{}
	}
	if v.gone[gone.Segment] {
		return
	}
	v.gone[gone.Segment] = true
	if !gone.ByPolicy() {
		v.damage(gone.Segment.Path, nil, "segment has disappeared since it was listed, and was not deleted by retention")
		return
	}
	v.partial = true
	for _, before := range gone.Segment.Stream.Segments {
		if before.Number < gone.Segment.Number && !v.gone[before] {
			v.report.outdated = true
		}
	}
	v.warning(gone.Segment.Path, nil, "segment was deleted by retention while the trail was being verified")
}

// files checks the files in the directories.
func (v *verifier) files() {
	for _, err := range v.trail.Errors {
		v.fail(err)
	}
	for _, path := range v.trail.Foreign {
		v.warning(path, nil, "does not belong to a trail")
	}
	next := map[string]uint32{} // next expected stream of each trail
	for _, s := range v.trail.Streams {
		if s.Trail != "" {
			// The server creates the folders of all its writers, so none may be missing.
			switch next := next[s.Trail]; {
			case s.Number == next+1:
				v.damage(s.Trail, nil, "stream %d is missing", next)
			case s.Number > next:
				v.damage(s.Trail, nil, "streams %d to %d are missing", next, s.Number-1)
			}
			next[s.Trail] = s.Number + 1
		}
		v.report.Streams++
		v.report.Segments += len(s.Segments)
	}
	if v.report.Segments == 0 {
		v.damage(v.trail.Path, nil, "there is no segment of a trail in this directory")
	}
}

// job is a block on its way through the workers, or something else to do when all blocks before it have been processed.
type job struct {
	state   *state
	ref     *trail.BlockRef
	before  *trail.BlockRef          // the previous block in the segment; nil: it is the first
	indexes func() []*trail.Contents // of the segment
	last    bool
	found   *finding
	done    chan struct{}
	then    func() // instead of a block
}

// run has all blocks checked by the workers, and processes their findings in the order of the streams. While the last
// blocks of a segment are being checked, the next one's are begun.
func (v *verifier) run(ctx context.Context) error {
	workers := runtime.GOMAXPROCS(0)
	jobs := make(chan *job, workers)
	var pending []*job
	files := &trail.Files{Alone: true}
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
	// put queues a job, and processes the oldest ones when there are too many.
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
			take(pending[0])
			pending = pending[1:]
		}
		return nil
	}
	for _, s := range v.trail.Streams {
		st := &state{v: v, stream: s, home: homeOf(s), seals: v.newSealState(homeOf(s))}
		begin, _ := slices.BinarySearchFunc(s.Segments, v.from[s.Number], func(seg *trail.Segment, n uint64) int { return cmp.Compare(seg.Number, n) })
		for i, seg := range s.Segments[begin:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			refs, errs := seg.Index()
			if err := put(&job{then: func() { st.enter(seg, i, refs, errs) }}); err != nil {
				return err
			}
			indexes := sync.OnceValue(func() []*trail.Contents { return files.Contents(refs) })
			open := seg.Last && !endsBehind(refs, errs) // its last block may be one that is being written
			for k := range refs {
				j := &job{state: st, ref: &refs[k], indexes: indexes, done: make(chan struct{}), last: open && k == len(refs)-1}
				if k > 0 {
					j.before = &refs[k-1]
				}
				if err := put(j); err != nil {
					return err
				}
			}
			// Errors between blocks are reported after all blocks of the segment.
			if err := put(&job{then: func() {
				for _, err := range errs {
					v.fail(err)
				}
				st.leave(seg, refs, errs)
			}}); err != nil {
				return err
			}
		}
		for _, j := range pending {
			take(j)
		}
		pending = nil
		st.seals.finish(s.Path)
		v.report.ends = append(v.report.ends, st.end())
	}
	return nil
}

// take processes a job.
func take(j *job) {
	if j.then != nil {
		j.then()
		return
	}
	<-j.done
	j.state.take(j)
}

// state follows one stream.
type state struct {
	v      *verifier
	stream *trail.Stream
	home   home

	known      bool // whether the following are known
	nextBlock  uint64
	nextRecord uint64
	hash       [32]byte // of the last block
	before     *trail.Segment
	seals      *sealState
	last       *Last
	blocks     []trail.BlockRef // of the segment before
	first      uint64           // number of its first block
	undamaged  bool             // so is that segment, as far as headers tell
}

// Last is the last block of a stream that is intact, and what its seals say.
type Last struct {
	Trail   string // its directory, if it was found in one
	Stream  uint32
	Segment uint64
	Block   uint64 // 0: there is none
	Record  uint64 // the last one up to the end of the block
	Hash    [32]byte
	End     int64 // of the last record in the block
	Sealed  *seal.Seal
	// Unsealed counts the blocks after the seal that have more than seals, and Since is the end of the first of them.
	Unsealed uint64
	Since    int64
	// Trusted are the public keys that were given, and those that seals by them have named.
	Trusted seal.Keys
}

func (st *state) end() Last {
	last := Last{}
	if st.last != nil {
		last = *st.last
	}
	last.Trail = st.stream.Trail
	last.Stream, last.Sealed, last.Unsealed, last.Since, last.Trusted = st.stream.Number, st.seals.last, st.seals.unsealed, st.seals.since, st.seals.keys
	return last
}

// enter checks a segment's place in the stream.
func (st *state) enter(seg *trail.Segment, i int, refs []trail.BlockRef, errs []error) {
	v := st.v
	follows := st.before != nil && st.before.Number+1 == seg.Number
	if st.stream.Whole {
		expected := max(1, v.from[st.stream.Number])
		if st.before != nil {
			expected = st.before.Number + 1
		}
		if seg.Number > expected {
			v.holes = append(v.holes, hole{st.stream, expected, seg.Number - 1})
		}
		if seg.Number != expected {
			st.known = false
		}
		v.partial = v.partial || i == 0 && seg.Number > 1
	} else {
		v.partial = true
		st.known = false
	}
	st.before = seg
	st.seals.segment = seg.Number
	if unfinished := (*trail.TornError)(nil); len(refs) > 0 || slices.ContainsFunc(errs, func(err error) bool { return !errors.As(err, &unfinished) }) {
		st.seals.filled = seg.Number
	}
	if seg.Err != nil {
		st.known = false
		return
	}
	if follows {
		st.checkTimes(seg)
	}
	h := &seg.Header
	v.key(seg)
	at := func(offset int64) *int64 { return &offset }
	if h.Number != seg.Number {
		v.damage(seg.Path, at(32), "header says that this is segment %d", h.Number)
	}
	if st.stream.Whole && h.Stream != st.stream.Number {
		v.damage(seg.Path, at(24), "header says that this is stream %d", h.Stream)
	}
	if v.systemID == nil {
		v.systemID = seg
	} else if id := v.systemID.Header.SystemID; id != h.SystemID {
		v.damage(seg.Path, at(16), "system identifier is %d, that of %s is %d: it belongs to another server", h.SystemID, v.systemID.Path, id)
	}
	if h.Number == 1 && h.PreviousHash != [32]byte{} {
		v.damage(seg.Path, at(64), "the first segment says that blocks precede it")
	}
	if st.known || h.Number == 1 {
		if h.Number == 1 {
			st.nextBlock, st.nextRecord, st.hash = 1, 1, [32]byte{}
		}
		if h.FirstBlock != st.nextBlock {
			v.damage(seg.Path, at(48), "segment begins with block %d instead of %d", h.FirstBlock, st.nextBlock)
		}
		if h.FirstRecord != st.nextRecord {
			v.damage(seg.Path, at(56), "segment begins with record %d instead of %d", h.FirstRecord, st.nextRecord)
		}
		if h.PreviousHash != st.hash {
			v.damage(seg.Path, at(64), "chain is broken: the segment does not follow from the previous one")
		}
	}
	st.known, st.nextBlock, st.nextRecord, st.hash = true, h.FirstBlock, h.FirstRecord, h.PreviousHash
}

// checkTimes checks what a segment's header says of the times in the segment before: readers leave that unread because
// of it. If a part of it is damaged, the times of what is left must be in the range.
func (st *state) checkTimes(seg *trail.Segment) {
	said, found := seg.Header.Before, trail.NoTimes()
	whole := st.undamaged && uint64(len(st.blocks)) == seg.Header.FirstBlock-st.first
	for i := range st.blocks {
		if b := &st.blocks[i]; b.Number < seg.Header.FirstBlock {
			found.Add(&trail.BlockHeader{Records: b.Records, FirstTime: b.FirstTime, LastEnd: b.LastEnd})
		} else {
			whole = false
		}
	}
	if !said.Known() || said == found || !whole && said.First <= found.First && said.LastEnd >= found.LastEnd {
		return
	}
	offset := int64(96)
	st.v.damage(seg.Path, &offset, "header says that the records of the segment before are %s, but they are %s", between(said), between(found))
}

// between is a range of time in words.
func between(t trail.TimeRange) string {
	if t.First > t.LastEnd {
		return "none"
	}
	return "from " + render.Time(t.First) + " to " + render.Time(t.LastEnd)
}

// key notes an encrypted segment whose records cannot be checked.
func (v *verifier) key(seg *trail.Segment) {
	if missing := (*trail.MissingKeyError)(nil); errors.As(seg.KeyErr, &missing) {
		v.sealed[missing.ID.String()]++
	} else if seg.KeyErr != nil {
		v.fail(seg.KeyErr)
	}
}

// take processes the findings of a block.
func (st *state) take(j *job) {
	v, f := st.v, j.found
	if f.torn {
		v.warning(j.ref.Segment.Path, &j.ref.Offset, "unfinished block %d: part of it was never written; everything before it counts", j.ref.Number)
		return
	}
	for _, err := range f.errs {
		v.fail(err)
	}
	if f.ok {
		place := blockPlace{number: f.header.Number, file: j.ref.Segment.Path, offset: j.ref.Offset}
		st.seals.block(f, place, seal.Seal{Hash: st.hash, Record: st.nextRecord - 1}, st.known && !j.ref.AfterDamage)
		v.anchor(st.stream, place, j.ref.Segment.Header.SystemID, &f.header, f)
	}
	v.twice.note(j.ref)
	if !j.ref.Twice {
		v.report.Blocks++
	}
	v.done += j.ref.Length()
	v.bar.Set(v.done)
	if !f.ok {
		st.known = false
		return
	}
	h := &f.header
	offset := j.ref.Offset
	if j.ref.AfterDamage {
		st.known = false
	}
	if st.known && h.Number != st.nextBlock {
		offset += 24
		v.damage(j.ref.Segment.Path, &offset, "found block %d where block %d is expected", h.Number, st.nextBlock)
	} else if st.known && h.FirstRecord != st.nextRecord {
		offset += 32
		v.damage(j.ref.Segment.Path, &offset, "block %d begins with record %d instead of %d", h.Number, h.FirstRecord, st.nextRecord)
	}
	st.known, st.nextBlock, st.nextRecord, st.hash = true, h.Number+1, h.FirstRecord+uint64(h.Records), h.Chain
	st.last = &Last{Segment: j.ref.Segment.Number, Block: h.Number, Record: st.nextRecord - 1, Hash: h.Chain, End: h.LastEnd}
	v.lastBlock[st.home] = max(v.lastBlock[st.home], h.Number)
	for _, b := range f.branches {
		v.branches = append(v.branches, branched{b, st.home})
	}
	for _, o := range f.others {
		v.elsewhere.note(o)
	}
	v.starts[st.home.trail] = append(v.starts[st.home.trail], f.starts...)
	for _, d := range f.deletions {
		of := home{st.home.trail, d.Stream}
		v.deletions[of] = append(v.deletions[of], d)
		v.records = append(v.records, deletionRecord{of, d, st.seals, h.Number})
	}
	if !j.ref.Twice {
		v.add(f)
	}
}

// endsBehind says whether something that is not a block stands behind the last one. Of what a crash left, only what is
// at the very end counts as unfinished.
func endsBehind(refs []trail.BlockRef, errs []error) bool {
	if len(refs) == 0 {
		return false
	}
	last := &refs[len(refs)-1]
	return slices.ContainsFunc(errs, func(err error) bool {
		var torn *trail.TornError
		var damage *trail.CorruptionError
		return errors.As(err, &torn) || errors.As(err, &damage) && damage.Offset >= last.Offset+last.Length()
	})
}

// leave is called at the end of a segment: after damage at its end, it is not known what must follow.
func (st *state) leave(seg *trail.Segment, refs []trail.BlockRef, errs []error) {
	st.blocks, st.first, st.undamaged = refs, seg.Header.FirstBlock, len(errs) == 0 && seg.Err == nil
	for _, err := range errs {
		var c *trail.CorruptionError
		var t *trail.TornError
		var gone *trail.GoneError
		behind := int64(-1)
		if len(refs) > 0 {
			behind = refs[len(refs)-1].Offset
		}
		if errors.As(err, &c) && c.Offset > behind || errors.As(err, &t) || errors.As(err, &gone) {
			st.known = false
		}
	}
	if !seg.Last && len(errs) == 0 {
		st.seals.leave(seg)
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
		v.warning("", nil, "%s", what)
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
	v.settle(f)
}

// times notes the times of a block's records, before they are counted.
func (v *verifier) times(records, first, last int64) {
	switch {
	case records == 0:
	case v.report.Records == 0:
		v.first, v.last = first, last
	default:
		v.first, v.last = min(v.first, first), max(v.last, last)
	}
}

// settle removes the data parts of complete records, so that memory does not grow with the trail.
func (v *verifier) settle(f *finding) {
	for _, id := range f.whole {
		if v.parts[id] == v.wants[id] {
			delete(v.parts, id)
			delete(v.wants, id)
		}
	}
}

func (v *verifier) session(id trail.SessionID) *session {
	s := v.sessions[id]
	if s == nil {
		s = &session{}
		if last, ok := v.finished.forget(id); ok {
			*s = session{seen: []trail.Span{{First: 1, Last: last}}, ended: true, end: last}
		}
		v.sessions[id] = s
	}
	return s
}

// retire removes a session that has ended when all its numbers have been seen or are explained, so that memory grows
// with the number of sessions that are open or have gaps, and not with the trail. The last numbers of recently removed
// sessions are kept, to detect duplicates of their records: these can occur only soon afterwards, after a crash.
func (v *verifier) retire(id trail.SessionID) {
	s := v.sessions[id]
	if s == nil || len(s.seen) == 0 {
		return
	}
	slices.SortFunc(s.seen, trail.Span.Compare)
	slices.SortFunc(s.explained, trail.Span.Compare)
	next := uint64(1)
	for _, span := range s.seen {
		if span.First < next || len(trail.Uncovered(s.explained, next, span.First)) > 0 {
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

// finished has the sessions that were removed.
type finished struct {
	count  int
	last   map[trail.SessionID]uint64 // number of the last record of each session in recent
	recent []trail.SessionID          // a ring buffer
	at     int
}

// maxFinished is how many of them are kept.
const maxFinished = 64 << 10

func (f *finished) remember(id trail.SessionID, last uint64) {
	if f.last == nil {
		f.last = map[trail.SessionID]uint64{}
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

func (f *finished) forget(id trail.SessionID) (last uint64, ok bool) {
	if last, ok = f.last[id]; ok {
		delete(f.last, id)
		f.count--
	}
	return last, ok
}

// sequences finds sequence numbers of sessions that are missing or occur twice.
func (v *verifier) sequences() {
	middle := 0
	for _, id := range slices.SortedFunc(maps.Keys(v.sessions), trail.SessionID.Compare) {
		s := v.sessions[id]
		if !s.ended {
			v.report.OpenSessions++
		}
		slices.SortFunc(s.seen, trail.Span.Compare)
		slices.SortFunc(s.explained, trail.Span.Compare)
		explained := s.explained
		if last := v.elsewhere.last(id); last > 0 {
			explained = append(slices.Clone(explained), trail.Span{First: 1, Last: last})
			slices.SortFunc(explained, trail.Span.Compare)
		}
		next := uint64(1)
		if v.partial && len(s.seen) > 0 && s.seen[0].First > 1 {
			next = s.seen[0].First
			middle++
		}
		for _, span := range s.seen {
			if span.First < next {
				v.damage("", nil, "session %s: %s in the trail more than once", id, numbers(span.First, min(span.Last, next-1)))
			}
			// Blocks that were not read may contain the missing numbers.
			if v.report.UnreadBlocks > 0 {
				next = span.First
			}
			for _, hole := range trail.Uncovered(explained, next, span.First) {
				tell := v.damage
				if v.report.outdated || len(v.report.Unreadable) > 0 {
					tell = v.warning
				}
				tell("", nil, "session %s: %s missing", id, numbers(hole.First, hole.Last))
			}
			next = max(next, span.Last+1)
		}
		if s.end != 0 && next > s.end+1 {
			v.damage("", nil, "session %s: %s in the trail, although it ended with record %d", id, numbers(s.end+1, next-1), s.end)
		}
		v.contradictions(id, s)
	}
	if middle > 0 {
		v.warning("", nil, "%d sessions begin before the first existing segment", middle)
	}
}

func overlap(a, b []trail.Span) bool {
	for _, x := range a {
		if slices.ContainsFunc(b, func(y trail.Span) bool { return x.First <= y.Last && y.First <= x.Last }) {
			return true
		}
	}
	return false
}

// contradictions finds records that exist although a gap record reports them as lost.
func (v *verifier) contradictions(id trail.SessionID, s *session) {
	i := 0
	for _, e := range s.explained {
		for i < len(s.seen) && s.seen[i].Last < e.First {
			i++
		}
		if i < len(s.seen) && s.seen[i].First <= e.Last {
			v.damage("", nil, "session %s: a gap record says that records %d to %d were lost, but %s there", id, e.First, e.Last,
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

// dataParts checks that every big record has all its data parts, and that all other parts belong to interrupted
// statements.
func (v *verifier) dataParts() {
	if v.report.UnreadBlocks > 0 || len(v.report.Unreadable) > 0 {
		return
	}
	ids := make([]trail.RecordID, 0, len(v.wants)+len(v.parts))
	for id := range v.wants {
		ids = append(ids, id)
	}
	for id := range v.parts {
		if _, wanted := v.wants[id]; !wanted && !v.cutShort[id] {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, trail.RecordID.Compare)
	for _, id := range ids {
		want, wanted := v.wants[id]
		have := v.parts[id]
		switch {
		case !wanted && v.dropped[id]:
			v.warning("", nil, "session %s: %d bytes of record %d exist, but not the record: it was dropped, according to a gap record", id.Session, have, id.Seq)
		case !wanted:
			v.warning("", nil, "session %s: %d bytes of record %d exist, but not the record: its statement was interrupted", id.Session, have, id.Seq)
		case have < want && id.Seq <= v.elsewhere.last(id.Session)+1 && v.elsewhere.last(id.Session) > 0:
			v.warning("", nil, "session %s: %d of %d bytes of the data parts of record %d are in another trail", id.Session, want-have, want, id.Seq)
		case have < want && v.partial:
			v.warning("", nil, "session %s: record %d lacks %d of %d bytes of its data parts", id.Session, id.Seq, want-have, want)
		case have != want:
			v.damage("", nil, "session %s: record %d has %d bytes of data parts instead of %d", id.Session, id.Seq, have, want)
		}
	}
}

func (v *verifier) finish() {
	r := v.report
	r.Sessions = len(v.sessions) + v.finished.count
	r.judge()
	for _, id := range slices.Sorted(maps.Keys(v.sealed)) {
		v.warning("", nil, "segments encrypted with key %s, which was not given: %d; only their checksums and chain were checked, not their records", id, v.sealed[id])
	}
	if r.Records > 0 {
		r.First, r.Last = render.Time(v.first), render.Time(v.last)
	}
}

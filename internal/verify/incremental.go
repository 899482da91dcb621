// Verifications that continue from the previous one.
//
// A run reads the segments that were finished since the previous run, and the segment of each stream to which
// the server was writing then. So it starts at the beginning of a segment, and checks blocks again that had no
// index yet. Its result is that of a run over the whole trail, provided that what was read earlier has not
// changed. Of that, it checks the names and headers of segments, and that the last block of each stream is still
// there. Other changes in earlier segments are found by a full pass, which may take many runs. When that is
// complete, its memory replaces the one before.

package verify

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/statefile"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Incremental says how a run continues from the previous one.
type Incremental struct {
	File string
	// Sign signs the state; nil: it is not signed.
	Sign ed25519.PrivateKey
	// Limit is how long the run may take until it stops the full pass; 0: it does not work on the full pass.
	Limit time.Duration
	Now   time.Time
	// Begin says that there is no state yet. Without it, a state must exist, so that removing the file does not
	// go unnoticed.
	Begin bool
	// ReadOnly makes a report without changing the state.
	ReadOnly bool
	// Within is a range of times whose segments are verified even if they are remembered, because the caller is
	// about to read them. nil: none.
	Within *query.Range
	// By are the keys of which one must have signed a state that is only looked at; nil: any signature.
	By  seal.Keys
	Bar func(total int64) *progress.Bar // may be nil

	started time.Time
	// The signature of the state: whether it was checked.
	signer, unchecked string
}

// tries bounds how often reading is repeated because segments were deleted by policy meanwhile.
const tries = 3

// Run verifies a trail and remembers what it has read. open opens the trail as it is now.
func (o *Incremental) Run(
	ctx context.Context, open func() (*trail.Trail, error), checks Checks,
) (*Report, *trail.Trail, error) {
	o.Now, o.started = o.Now.UTC().Truncate(time.Millisecond), time.Now()
	var file *statefile.File
	var err error
	if !o.ReadOnly {
		if file, err = statefile.Open(o.File); err != nil {
			return nil, nil, fmt.Errorf("state: %w", err)
		}
		defer file.Close()
	}
	check := o.checkOwnSignature
	if o.ReadOnly {
		check = o.checkForeignSignature
	}
	before, err := loadState(o.File, check)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case before == nil && o.ReadOnly:
		return nil, nil, &StateError{Path: o.File, Reason: "there is none"}
	case before == nil && !o.Begin:
		return nil, nil, &StateError{o.File,
			"there is none. If there was one, somebody has removed it, and what it knew is lost", BeginState}
	case before != nil && o.Begin:
		return nil, nil, &StateError{Path: o.File, Reason: "there is one already, of run " +
			strconv.Itoa(before.Run) + ": it is not begun anew"}
	}
	if before != nil && !o.Now.After(before.Last) {
		o.Now = before.Last.Add(time.Millisecond) // the clock was set back: later runs must have later times
	}
	var r *run
	for try := 1; ; try++ {
		if r, err = o.begin(open, before, &checks); err != nil {
			return nil, nil, err
		}
		if err := r.readNew(ctx); err != nil {
			return nil, nil, err
		}
		if !r.report.outdated || try == tries {
			break
		}
	}
	r.previous = r.state.Last
	if o.ReadOnly {
		if err := r.verifyRange(ctx); err != nil {
			return nil, nil, err
		}
		r.reportState()
		return r.report, r.trail, nil
	}
	if r.state.System == 0 {
		r.reportState()
		return r.report, r.trail, nil // nothing to remember
	}
	r.saveState()
	if o.Limit > 0 && !r.report.outdated {
		if err := r.state.write(file, o.Sign); err != nil { // before the full pass, which may fail
			r.warnUnwritten(err)
			return r.report, r.trail, nil
		}
		if err := r.continuePass(ctx); err != nil {
			return nil, nil, err
		}
	}
	r.reportState()
	if err := r.state.write(file, o.Sign); err != nil {
		r.warnUnwritten(err)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	return r.report, r.trail, nil
}

// warnUnwritten warns that the state could not be written. The results of this run are reported nevertheless.
func (r *run) warnUnwritten(err error) {
	if r.report.State == nil {
		r.reportState()
	}
	r.report.Unreadable = append(r.report.Unreadable,
		Problem{What: err.Error() + ": the next run goes on from the run before"})
	r.report.setVerdict()
}

// run is one verification.
type run struct {
	*Incremental
	checks *Checks
	state  runs // of the previous run, then of this one
	first  bool
	trail  *trail.Trail
	v      *verifier
	report *Report

	next     json.RawMessage // memory after the new segments, without the last ones
	advance  bool            // next replaces the memory of the state
	since    time.Time       // when reading the segments in next began
	read     map[string]bool // segments read by this run
	unread   map[uint32]bool // streams with segments that this run has not read
	previous time.Time       // of the previous run
	again    Amount
	pass     *Report // of the part of a full pass that this run has read
}

// begin checks that the state belongs to the trail.
func (o *Incremental) begin(open func() (*trail.Trail, error), before *runs, checks *Checks) (*run, error) {
	t, err := open()
	if err != nil {
		return nil, err
	}
	for _, s := range t.Streams {
		if s.Trail == "" || s.Trail != t.Path {
			return nil, exit.Usagef("%w", errSeveral)
		}
	}
	if !t.Whole || t.Path == "" {
		return nil, exit.Usagef("%w", errSeveral)
	}
	r := &run{Incremental: o, checks: checks, trail: t, first: before == nil, read: map[string]bool{}}
	if before != nil {
		r.state = *before
		r.state.Ends, r.state.Found = slices.Clone(before.Ends), slices.Clone(before.Found)
	} else {
		r.state = runs{Version: stateVersion, First: o.Now}
	}
	for _, key := range r.state.Keys {
		if checks.Keys[key] == nil {
			return nil,
				exit.Usagef("state %s: the runs before were given public key %s, and this one is not: it could "+
					"not check what follows; give the key, too, or begin another state", o.File, key)
		}
	}
	if all := serversOf(t); len(all) > 0 && all[0].system != 0 {
		if r.state.System != 0 && r.state.System != all[0].system {
			return nil, &StateError{Path: o.File,
				Reason: fmt.Sprintf("it is of the trail of another server: its system identifier is %d, that of "+
					"%s is %d", r.state.System, t.Path, all[0].system)}
		}
		r.state.System = all[0].system
	}
	return r, nil
}

// deletedNext returns which segments to be read next were deleted, in a stream of which earlier ones were read;
// empty: none were.
func (m *Memory) deletedNext(t *trail.Trail) string {
	for _, s := range t.Streams {
		one := m.Streams[s.Number]
		if one == nil || !one.Begun || len(s.Segments) == 0 || s.Segments[0].Number <= one.Next {
			continue
		}
		return fmt.Sprintf("segments %d to %d of stream %d are not there any more, and no run has read them",
			one.Next, s.Segments[0].Number-1, s.Number)
	}
	return ""
}

// readNew reads the segments that are new.
func (r *run) readNew(ctx context.Context) error {
	memory, err := decodeMemory(r.state.Tail)
	if err != nil {
		return err
	}
	lost := ""
	if memory != nil {
		if lost = memory.deletedNext(r.trail); lost != "" {
			memory = nil
		}
	}
	if memory == nil {
		memory = &Memory{Began: r.Now, Streams: map[uint32]*streamMemory{}}
	}
	r.since = memory.Began
	checks := *r.checks
	checks.Memory = memory
	v := newVerifier(r.trail, nil, 0, &checks)
	r.v, r.report = v, v.report
	size := v.findFinished()
	for _, st := range v.states {
		for _, seg := range st.stream.Segments[st.finished:] {
			size += seg.Size
		}
	}
	if r.Bar != nil {
		v.bar = r.Bar(size)
		defer v.bar.Done()
	}
	// What is found up to here is remembered. The rest is read again by the next run.
	if _, err := v.read(ctx, func(st *state) (int, int) { return st.nextSegment(), st.finished }, nil); err != nil {
		return err
	}
	r.advance = len(v.report.Unreadable) == 0 && !v.report.outdated // otherwise, the next run reads it again
	if r.next, err = json.Marshal(v.memory()); err != nil {
		return err
	}
	if lost != "" {
		v.warn(r.trail.Path, nil, "%s: this run begins anew, and reads everything", lost)
	}
	for i := range r.state.Ends {
		v.anchors = append(v.anchors, &anchorState{Anchor: r.state.Ends[i].anchor()})
	}
	v.setAnchors(checks.Anchors)
	v.files()
	v.checkEarlierSegments()
	v.compareGroups(r.state.Groups)
	v.checkUnreadAnchors()
	if _, err := v.read(ctx, (*state).rest, nil); err != nil {
		return err
	}
	v.settle(&checks)
	r.report.Segments, r.report.Bytes = len(v.paths), size
	for path := range v.paths {
		r.read[path] = true
	}
	r.dropDeleted()
	return nil
}

// verifyRange verifies the segments with records of a range of times, and the segments after them, whose
// headers complete the chain. It starts without knowledge of sessions and seals before them, so only problems
// in these segments count.
func (r *run) verifyRange(ctx context.Context) error {
	if r.Within == nil {
		return nil
	}
	x := r.trail.Index()
	v := newVerifier(r.trail, nil, 0, &Checks{Keys: r.checks.Keys})
	wanted := func(st *state) (from, to int) {
		i := slices.IndexFunc(x.Streams, func(s trail.StreamIndex) bool { return s.Stream == st.stream })
		all := x.Streams[i].Segments
		from, to = len(all), 0
		for k := range all {
			if segment := &all[k]; segment.Records > 0 && segment.LastEnd >= r.Within.Since &&
				(segment.FirstTime < r.Within.Until || r.Within.Until == format.MaxTime) {
				from, to = min(from, k), min(k+2, len(all))
			}
		}
		for to > from && r.read[all[to-1].Segment.Path] { // read by this run already
			to--
		}
		return min(from, to), to
	}
	for _, st := range v.states {
		from, to := wanted(st)
		for _, seg := range st.stream.Segments[from:to] {
			r.report.Bytes += seg.Size
		}
	}
	if _, err := v.read(ctx, wanted, nil); err != nil {
		return err
	}
	for _, st := range v.states {
		from, to := wanted(st)
		if all := st.stream.Segments; from < to && to < len(all) && r.read[all[to].Path] {
			st.enter(all[to], nil, nil)
		}
	}
	r.report.addProblems(v.report)
	r.report.Segments += len(v.paths)
	r.report.Blocks += v.report.Blocks
	r.report.Records += v.report.Records
	for path := range v.paths {
		r.read[path] = true
	}
	return nil
}

// addProblems adds the problems of another report that are not in this one.
func (r *Report) addProblems(o *Report) {
	for _, p := range o.Problems {
		if !slices.ContainsFunc(r.Problems, func(known Problem) bool { return p.isSame(&known) }) {
			r.Problems = append(r.Problems, p)
		}
	}
	r.MoreProblems = max(r.MoreProblems, o.MoreProblems)
	for _, p := range o.Unreadable {
		if !slices.ContainsFunc(r.Unreadable, func(known Problem) bool { return p.isSame(&known) }) {
			r.Unreadable = append(r.Unreadable, p)
		}
	}
	r.MoreUnreadable = max(r.MoreUnreadable, o.MoreUnreadable)
}

// findFinished finds the segments to which the server does not write any more, and the size of those not read.
func (v *verifier) findFinished() (size int64) {
	for _, st := range v.states {
		from := st.nextSegment()
		st.finished = st.openSegment()
		for _, seg := range st.stream.Segments[from:st.finished] {
			size += seg.Size
		}
	}
	return size
}

// isOf returns whether a file is a segment of a stream.
func (v *verifier) isOf(file string, stream uint32) bool {
	return slices.ContainsFunc(v.trail.Streams, func(s *trail.Stream) bool {
		return s.Number == stream && s.Path == filepath.Dir(file)
	})
}

// openSegment returns the index of the last segment with a block, to which the server may still write.
func (st *state) openSegment() int {
	from, to := st.rest()
	for to--; to > from; to-- {
		if refs, _ := st.stream.Segments[to].Index(); len(refs) > 0 {
			break
		}
	}
	return max(from, to)
}

// nextSegment returns the index of the first segment that was not read.
func (st *state) nextSegment() int {
	from, _ := st.rest()
	return from
}

// checkEarlierSegments checks the headers of segments that earlier runs have read, and that they are in their
// places.
func (v *verifier) checkEarlierSegments() {
	for _, st := range v.states {
		var before *trail.Segment
		for _, seg := range st.stream.Segments[:st.nextSegment()] {
			n := len(v.report.Problems)
			h := &seg.Header
			switch {
			case seg.Err != nil:
				v.reportError(seg.Err)
			case h.Number != seg.Number:
				v.reportDamageAt(format.ProblemNumber, seg, 0, 32, "header says that this is segment %d", h.Number)
			case h.Stream != st.stream.Number:
				v.reportDamageAt(format.ProblemNumber, seg, 0, 24, "header says that this is stream %d", h.Stream)
			case v.systemID != nil && v.systemID.Header.SystemID != h.SystemID:
				v.reportDamageAt(format.ProblemForeign, seg, 0, 16,
					"system identifier is %d, that of %s is %d: it belongs to another server", h.SystemID,
					v.systemID.Path, v.systemID.Header.SystemID)
			case before != nil && before.Number+1 == seg.Number &&
				(h.FirstBlock < before.Header.FirstBlock || h.FirstRecord < before.Header.FirstRecord),
				h.FirstBlock > st.NextBlock && st.Known:
				v.reportDamageAt(format.ProblemNumber, seg, 0, 48,
					"segment begins with block %d, which is not between those of the segments beside it",
					h.FirstBlock)
			}
			if seg.Err == nil {
				before = seg
			}
			// The run that read the segment may have reported the problem in other words.
			if known := v.report.Problems[:n]; len(v.report.Problems) > n &&
				slices.ContainsFunc(known, func(p Problem) bool { return p.File == seg.Path }) {
				v.report.Problems = known
			}
		}
	}
}

// groupMemory has a hash of the headers and sizes of consecutive segments, from a multiple of groupSize up to a
// number. Servers do not change these any more.
type groupMemory struct {
	Last uint64 `json:"last"`
	Sum  string `json:"sum"`
}

const groupSize = 64

// groups are the groups of streams, by stream number and group number.
type groups map[uint32]map[uint64]groupMemory

// groupSum returns the hash for a group; there is false unless all of its segments exist and can be read.
func (st *state) groupSum(group, last uint64) (sum string, there bool) {
	h := sha256.New()
	first := max(1, group*groupSize)
	for _, seg := range st.stream.Segments {
		if seg.Number < first || seg.Number > last {
			continue
		}
		if seg.Err != nil || seg.Number != first {
			return "", false
		}
		fmt.Fprintf(h, "%d %d %x\n", seg.Number, seg.Size, seg.Header.Hash)
		first++
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), first == last+1
}

// sumGroups returns the hashes for the segments that were read. Known hashes that do not match any more are
// kept, so that the difference is reported again.
func (v *verifier) sumGroups(known groups) groups {
	all := groups{}
	for _, st := range v.states {
		of := map[uint64]groupMemory{}
		all[st.stream.Number] = of
		for _, seg := range st.stream.Segments[:st.finished] {
			g := seg.Number / groupSize
			of[g] = groupMemory{Last: max(of[g].Last, seg.Number)}
		}
		for g, group := range of {
			if was, ok := known[st.stream.Number][g]; ok {
				if sum, there := st.groupSum(g, was.Last); there && sum != was.Sum {
					of[g] = was
					continue
				}
			}
			var there bool
			if group.Sum, there = st.groupSum(g, group.Last); !there {
				delete(of, g) // the first segments of the group were deleted
				continue
			}
			of[g] = group
		}
	}
	return all
}

// compareGroups reports segments whose header or size has changed since they were read. Missing segments are
// holes.
func (v *verifier) compareGroups(known groups) {
	for _, st := range v.states {
		of := known[st.stream.Number]
		for _, g := range slices.Sorted(maps.Keys(of)) {
			if sum, there := st.groupSum(g, of[g].Last); there && sum != of[g].Sum {
				v.reportDamage(format.ProblemAnchor, st.stream.Path, nil,
					"a header, or the size, of one of the segments %d to %d is not what it was when they were "+
						"verified", max(1, g*groupSize), of[g].Last)
			}
		}
	}
}

// checkUnreadAnchors reads, for anchors of blocks that are not read otherwise, these blocks and the two after
// each.
func (v *verifier) checkUnreadAnchors() {
	files := &trail.Files{NoFallback: true}
	defer files.Close()
	c := &checker{files: files}
	for _, st := range v.states {
		for i, seg := range st.stream.Segments[:st.nextSegment()] {
			if seg.Err != nil || !slices.ContainsFunc(v.anchors, func(a *anchorState) bool {
				// The block after it may be the first one of the next segment.
				return a.Stream == st.stream.Number && a.Block+2 >= seg.Header.FirstBlock && a.Block < st.nextFirst(i)
			}) {
				continue
			}
			refs, _ := seg.Index()
			indexes := files.Contents(refs)
			for k := range refs {
				ref := &refs[k]
				if !slices.ContainsFunc(v.anchors, func(a *anchorState) bool {
					return a.Stream == st.stream.Number && a.Block <= ref.Number && ref.Number <= a.Block+2
				}) {
					continue
				}
				var before *trail.BlockRef
				if k > 0 {
					before = &refs[k-1]
				}
				if f := c.check(ref, before, indexes, false); f.ok {
					place := blockPlace{Number: f.header.Number, File: seg.Path, Offset: ref.Offset}
					v.anchor(st.stream, place, seg.Header.SystemID, &f.header, f)
				}
			}
		}
	}
}

// nextFirst returns the number of the first block after a segment that was read earlier.
func (st *state) nextFirst(i int) uint64 {
	if i+1 < len(st.stream.Segments) && st.stream.Segments[i+1].Err == nil {
		return st.stream.Segments[i+1].Header.FirstBlock
	}
	return st.NextBlock
}

// dropDeleted forgets problems of segments that were deleted by policy since.
func (r *run) dropDeleted() {
	r.report.Problems = slices.DeleteFunc(r.report.Problems, func(p Problem) bool {
		number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(p.File), ".steno"), 10, 64)
		if _, there := os.Lstat(p.File); err != nil || !errors.Is(there, os.ErrNotExist) {
			return false
		}
		i := slices.IndexFunc(r.trail.Streams, func(s *trail.Stream) bool { return s.Path == filepath.Dir(p.File) })
		if i < 0 {
			return false
		}
		of := streamIDOf(r.trail.Streams[i])
		deletions := r.v.deletions[of]
		if len(r.checks.Keys) > 0 {
			deletions = r.v.sealedDeletions(of)
		}
		return slices.ContainsFunc(deletions, func(d trail.Deletion) bool {
			return d.Stream == of.stream && d.Covers(number)
		})
	})
}

// saveState puts what was read into the state.
func (r *run) saveState() {
	s := &r.state
	now := map[uint32]uint64{}
	for _, last := range r.report.ends {
		now[last.Stream] = last.Block
	}
	var ends []endMemory
	other, doubted := false, map[uint32]bool{}
	for i, a := range r.v.anchors[:len(s.Ends)] {
		e := s.Ends[i]
		deleted := e.Block < r.v.firstBlock[e.Stream]
		if !a.failed && (deleted || now[e.Stream] >= e.Block) {
			continue
		}
		if a.failed && e.Failed.IsZero() {
			e.Failed = r.Now
			other = true
		}
		e.Replaced = e.Replaced || !e.Failed.IsZero() && !r.v.isContinued(e.Stream)
		if r.isDoubtful(&e) {
			r.advance, doubted[e.Stream] = false, true
		}
		ends = append(ends, e)
	}
	for _, last := range r.report.ends {
		if last.Block > 0 && !doubted[last.Stream] {
			ends = append(ends, endMemory{
				System:  last.system,
				Stream:  last.Stream,
				Segment: last.Segment,
				Block:   last.Block,
				Record:  last.Record,
				Hash:    hex.EncodeToString(last.Hash[:]),
				Time:    r.Now,
			})
		}
	}
	s.Ends = ends
	if r.advance {
		s.Tail = r.next
		if r.since.Equal(r.Now) {
			s.Full, s.Pass, s.Groups = fullPass{r.Now, r.Now}, nil, nil
		}
		s.Groups = r.v.sumGroups(s.Groups)
	}
	if other { // the pass has read another trail
		r.dropPass(nil)
	}
	s.Keys = slices.Sorted(maps.Keys(r.checks.Keys))
	s.Run, s.Last = s.Run+1, r.Now
}

// dropPass stops a full pass before it is complete. Problems that it has found stay in the memory known, or in
// the state.
func (r *run) dropPass(known *Memory) {
	s := &r.state
	r.reportPass()
	if known == nil {
		known, _ = decodeMemory(s.Pass) // it was decoded before
	}
	tail, err := decodeMemory(s.Tail)
	if s.Pass = nil; known == nil || tail == nil || err != nil {
		return
	}
	for _, p := range known.Problems {
		if !slices.ContainsFunc(tail.Problems, func(o Problem) bool { return p.isSame(&o) }) {
			tail.Problems = append(tail.Problems, p)
		}
	}
	tail.MoreProblems = max(tail.MoreProblems, known.MoreProblems)
	if raw, err := json.Marshal(tail); err == nil {
		s.Tail = raw
	}
}

// reportPass reports what earlier runs have found in the full pass, unless this run has continued the pass.
func (r *run) reportPass() {
	if known, _ := decodeMemory(r.state.Pass); known != nil && r.pass == nil {
		r.pass = newVerifier(r.trail, nil, 0, &Checks{Keys: r.checks.Keys, Memory: known}).report
	}
}

// isContinued returns whether the header of the next segment of a stream continues from what was read.
func (v *verifier) isContinued(stream uint32) bool {
	return slices.ContainsFunc(v.states, func(st *state) bool { return st.stream.Number == stream && st.goesOn })
}

// isDoubtful returns whether what was verified in a stream is not what is there now, and was not read again.
func (r *run) isDoubtful(e *endMemory) bool {
	return e.Replaced && !e.Failed.Before(r.since) && !r.since.Equal(r.Now)
}

// continuePass continues the full pass, or begins one, until the time is over. When the pass is complete, its
// memory replaces that of the trail.
func (r *run) continuePass(ctx context.Context) error {
	missing := slices.ContainsFunc(r.state.Ends, func(e endMemory) bool { return e.Failed.Equal(r.Now) })
	if r.since.Equal(r.Now) || missing {
		return nil // everything was just read, or the trail is missing and may be there tomorrow
	}
	memory, err := decodeMemory(r.state.Pass)
	if err != nil {
		return err
	}
	if memory != nil && memory.deletedNext(r.trail) != "" {
		r.dropPass(nil)
		memory = nil
	}
	if memory == nil {
		memory = &Memory{Began: r.Now, Streams: map[uint32]*streamMemory{}}
	}
	began := memory.Began
	v := newVerifier(r.trail, nil, 0, &Checks{Keys: r.checks.Keys, Memory: memory})
	size := v.findFinished()
	if r.Bar != nil {
		v.bar = r.Bar(size)
		defer v.bar.Done()
	}
	begun := 0
	all, err := v.read(context.WithoutCancel(ctx), func(st *state) (int, int) {
		return st.nextSegment(), st.finished
	}, func() bool {
		begun++ // at least one segment is read
		return begun > 1 && time.Since(r.started) >= r.Limit || ctx.Err() != nil
	})
	if err != nil {
		return err
	}
	if r.pass = v.report; v.report.outdated {
		r.report.Warn("segments were deleted by retention while a full pass read them: it begins anew")
		r.dropPass(v.memory())
		return nil
	}
	for _, size := range v.paths {
		r.again.Bytes += size
	}
	r.again.Segments, r.again.Blocks = len(v.paths), v.report.Blocks
	known, err := json.Marshal(v.memory())
	if err != nil {
		return err
	}
	switch r.state.Pass = known; {
	case !all:
	case len(v.report.Unreadable) > 0:
		r.dropPass(nil)
	default:
		r.state.Pass = nil
		r.state.Tail, r.state.Full, r.state.Groups = known, fullPass{began, r.Now}, nil
		before := r.report
		if err := r.readNew(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		r.report.addRead(before)
		r.state.Groups = r.v.sumGroups(nil)
	}
	for path := range v.paths {
		r.read[path] = true
	}
	return nil
}

// addRead adds what was read, and the warnings, from before the memory was replaced.
func (r *Report) addRead(o *Report) {
	r.Segments, r.Blocks, r.Records, r.Bytes = o.Segments, o.Blocks, o.Records, o.Bytes
	r.First, r.Last, r.EncryptedBlocks = o.First, o.Last, o.EncryptedBlocks
	for _, w := range o.Warnings {
		if !slices.ContainsFunc(r.Warnings, func(p Problem) bool { return p.isSame(&w) }) {
			r.Warnings = append(r.Warnings, w)
		}
	}
}

// isSame returns whether two problems are the same.
func (p *Problem) isSame(o *Problem) bool {
	return p.File == o.File && p.What == o.What && (p.Offset == nil) == (o.Offset == nil) &&
		(p.Offset == nil || *p.Offset == *o.Offset)
}

// reportState adds to the report which run has read what.
func (r *run) reportState() {
	report, s := r.report, &r.state
	r.reportPass()
	if r.pass != nil {
		report.addProblems(r.pass)
	}
	state := &StateReport{
		File:      r.File,
		Run:       s.Run,
		First:     r.first,
		Again:     r.again,
		Key:       r.signer,
		Unchecked: r.unchecked,
	}
	if r.Sign != nil {
		state.Key = seal.KeyID(r.Sign.Public().(ed25519.PublicKey))
	}
	state.NotRead = r.unreadSegments()
	if state.NotRead.Segments > 0 {
		state.Since, state.Until = moment(r.since), moment(r.previous)
	}
	if !s.Full.Completed.IsZero() {
		state.Full.Began, state.Full.Completed = moment(s.Full.Began), moment(s.Full.Completed)
	}
	r.progress(state)
	for _, e := range s.Ends {
		if r.isDoubtful(&e) && r.unread[e.Stream] {
			report.Unreadable = append(report.Unreadable,
				Problem{Class: format.ProblemUnreadable.String(), File: r.trail.Path, What: fmt.Sprintf(
					"the blocks of stream %d up to %d, which earlier runs have verified, are not those that are "+
						"there "+
						"now, and were not read again: a full pass reads them", e.Stream, e.Block)})
		}
	}
	report.State = state
	r.compareProblems()
	report.setVerdict()
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// unreadSegments returns the segments that only earlier runs have read.
func (r *run) unreadSegments() (n Amount) {
	r.unread = map[uint32]bool{}
	for _, st := range r.v.states {
		for i, seg := range st.stream.Segments {
			if r.read[seg.Path] {
				continue
			}
			r.unread[st.stream.Number] = true
			n.Segments++
			n.Bytes += seg.Size
			if next := st.nextFirst(i); seg.Err == nil && next > seg.Header.FirstBlock {
				n.Blocks += int64(next - seg.Header.FirstBlock)
			}
		}
	}
	return n
}

// progress reports how far the current full pass is.
func (r *run) progress(state *StateReport) {
	memory, err := decodeMemory(r.state.Pass)
	if err != nil || memory == nil {
		return
	}
	state.Full.NextBegan = moment(memory.Began)
	for _, s := range r.trail.Streams {
		one := memory.Streams[s.Number]
		for _, seg := range s.Segments {
			state.Full.Segments++
			if one != nil && seg.Number < one.Next {
				state.Full.Read++
			}
		}
	}
}

// compareProblems reports which problems earlier runs have found, and which of them are not found any more.
func (r *run) compareProblems() {
	var found []foundProblem
	for i := range r.report.Problems {
		p := &r.report.Problems[i]
		problem := foundProblem{RelativePath(r.trail.Path, p.File), p.Offset, p.What, r.Now}
		if k := slices.IndexFunc(r.state.Found, func(o foundProblem) bool { return o.isSame(&problem) }); k >= 0 {
			problem.Time = r.state.Found[k].Time
			p.Found = moment(problem.Time)
		}
		found = append(found, problem)
	}
	for _, old := range r.state.Found {
		if !slices.ContainsFunc(found, func(o foundProblem) bool { return o.isSame(&old) }) {
			p := Problem{File: old.File, Offset: old.Offset, What: old.What}
			r.report.Warn("found by the run of %s, and not any more, because it was repaired, or its segment was "+
				"deleted by retention: %s", moment(old.Time), p.String())
		}
	}
	r.state.Found = found
}

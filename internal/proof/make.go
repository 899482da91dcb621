// Makes a proof: chooses the blocks that the answer needs, and the seals that prove them.

package proof

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// settle is the time after the range, in microseconds, from which on its last seal should be: by then, statements
// that ran at the end of the range have start records, which come after steno.start_after, 1 s by default, about one
// more second, and steno.flush_interval.
const settle = 5 * 1e6

// RefusedError is the error of a trail that lacks what a proof needs.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refuse(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}

// Make writes the proof of an answer. The caller must check it: a trail can be altered in ways that only the check
// finds.
func Make(ctx context.Context, t *trail.Trail, q *Question, bar *progress.Bar, out io.Writer) error {
	return makeAs(ctx, t, q, func() (*evaluator, error) { return newEvaluator(q) }, bar, out)
}

// makeAs is Make with a function that makes evaluators.
func makeAs(ctx context.Context, t *trail.Trail, q *Question, asks func() (*evaluator, error), bar *progress.Bar,
	out io.Writer) error {
	a, err := asks()
	if err != nil {
		return err
	}
	m := &maker{eval: a, newEvaluator: asks, bar: bar, parts: map[format.RecordID][]place{}}
	if q.Record == "" {
		m.names = query.NewUnindexedNames(&q.Filter)
	}
	defer m.files.Close()
	for _, err := range t.Errors {
		return err
	}
	once := t.UniqueStreams()
	for i, s := range once {
		if k := slices.IndexFunc(once[:i], func(o *trail.Stream) bool { return o.Number == s.Number }); k >= 0 {
			return refuse("both %s and %s are a stream %d: a proof can have one of each number; prove the trails "+
				"one by one", once[k].Path, s.Path, s.Number)
		}
	}
	for _, s := range once {
		if err := m.read(ctx, s); err != nil {
			return err
		}
	}
	if q.Record != "" {
		err = m.chooseRecord()
	} else {
		err = m.chooseRange(ctx)
	}
	if err != nil {
		return err
	}
	encoded, err := q.MarshalJSON()
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(out, 256<<10)
	w := newSectionWriter(buffered)
	w.section(kindQuestion, encoded)
	for _, src := range m.sources {
		if err := m.write(ctx, w, src); err != nil {
			return err
		}
	}
	if err := w.end(); err != nil {
		return err
	}
	return buffered.Flush()
}

type maker struct {
	eval         *evaluator
	newEvaluator func() (*evaluator, error) // makes an evaluator for another goroutine
	bar          *progress.Bar
	files        trail.Files
	sources      []*source
	done         atomic.Int64

	parts      map[format.RecordID][]place // blocks with data parts of records
	candidates []format.RecordID           // records with data parts that may match
	undecided  map[statement]bool          // statements with only a start record, which says too little
	// transactions, and their sessions, that renamed something before the range
	earlyRenames  map[renaming]bool
	names         *query.Names // names that no index contains; nil: none
	runs          []run        // the starts of the server
	searchesTexts bool         // texts are searched for statements that may have hidden failures
}

// renaming is a transaction, or with xid 0 a session, that renamed something.
type renaming struct {
	session format.SessionID // none for a transaction, which another session may end
	xid     uint64
}

type place struct {
	source *source
	block  int
}

// source is a stream of the trail.
type source struct {
	stream *trail.Stream
	blocks []block
	seals  []*seal.Seal
	index  selections
	errs   []error

	// What the proof has: after the seal begin, or from blocks[first] on without one, up to
	// the seal end. It is not in the proof if end is nil.
	begin, end  *seal.Seal
	first, last int // blocks[first:last]
	emitted     map[*seal.Seal]bool
}

// block is what is kept of each block. It is small, because a trail can have millions.
type block struct {
	ref    trail.BlockRef
	record uint64 // number of its last record
	err    error
	start  int64

	mayMatch        bool // has a record that may match
	telling         bool // has a record that shows what the trail may lack
	undecided       bool // has a record that says too little to decide whether it matches
	mayHideFailures bool // has a statement that may have hidden failures
	needed          bool

	findings *findings // kept until all blocks of the stream have been read; nil: none
}

// findings are what a block has that matters for its stream.
type findings struct {
	seals        []*seal.Seal
	index        *selection
	parts        []format.RecordID
	candidates   []format.RecordID
	undecided    []statement
	earlyRenames []renaming
	runs         []run
}

// ensureFindings returns the block's findings, and allocates them if there are none.
func (b *block) ensureFindings() *findings {
	if b.findings == nil {
		b.findings = &findings{}
	}
	return b.findings
}

// read reads all blocks of a stream.
func (m *maker) read(ctx context.Context, s *trail.Stream) error {
	src := &source{stream: s, emitted: map[*seal.Seal]bool{}}
	for i, seg := range s.Segments {
		refs, errs := seg.Index()
		for _, err := range errs {
			if p := format.AsProblem(err); p == nil || p.Class != format.ProblemTorn {
				src.errs = append(src.errs, err)
			}
		}
		if seg.KeyErr != nil {
			return seg.KeyErr
		}
		if i > 0 && seg.Number != s.Segments[i-1].Number+1 {
			src.errs = append(src.errs, fmt.Errorf("%s: segments %d to %d are missing", s.Path,
				s.Segments[i-1].Number+1, seg.Number-1))
		}
		for _, ref := range refs {
			src.blocks = append(src.blocks, block{ref: ref, start: format.MinTime})
		}
	}
	for i := range src.blocks {
		// The searches below need ascending numbers. No server writes them in another order.
		if at := &src.blocks[i].ref; i > 0 && at.Number <= src.blocks[i-1].ref.Number {
			return refuse("%s: offset %d: block %d follows block %d", at.Segment.Path, at.Offset, at.Number,
				src.blocks[i-1].ref.Number)
		}
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			r := &blockReader{files: &m.files, eval: must(m.newEvaluator()), names: m.names.Reader()}
			for i := int(next.Add(1)) - 1; i < len(src.blocks) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				r.read(&src.blocks[i])
				m.bar.Set(m.done.Add(src.blocks[i].ref.Length()))
			}
		})
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	m.sources = append(m.sources, src)
	for i := range src.blocks {
		if f := src.blocks[i].findings; f != nil {
			m.keep(src, i, f)
			src.blocks[i].findings = nil
		}
	}
	src.index.sort()
	return nil
}

// keep adds the findings of a block to those of its stream and of the proof.
func (m *maker) keep(src *source, at int, f *findings) {
	src.seals = append(src.seals, f.seals...)
	if f.index != nil {
		src.index = append(src.index, *f.index)
	}
	for _, id := range f.parts {
		m.parts[id] = append(m.parts[id], place{src, at})
	}
	m.candidates = append(m.candidates, f.candidates...)
	for _, st := range f.undecided {
		if m.undecided == nil {
			m.undecided = map[statement]bool{}
		}
		m.undecided[st] = true
	}
	for _, one := range f.earlyRenames {
		if m.earlyRenames == nil {
			m.earlyRenames = map[renaming]bool{}
		}
		m.earlyRenames[one] = true
	}
	m.runs = append(m.runs, f.runs...)
}

// blockReader reads blocks; each goroutine has one.
type blockReader struct {
	files *trail.Files
	eval  *evaluator
	names *query.NamesReader
	block format.Block
}

func (r *blockReader) read(to *block) {
	b := &r.block
	if to.err = r.files.Read(&to.ref, b); to.err != nil {
		return
	}
	h := &b.Header
	to.record = h.FirstRecord + uint64(h.Records) - 1
	if c, err := b.Contents(); err == nil && c != nil {
		s := r.eval.selectionOf(c, h.Number)
		to.ensureFindings().index = &s
	}
	r.eval.reset()
	r.names.Start()
	var rec format.Record
	for {
		err := b.Next(&rec)
		if err != nil {
			if err != io.EOF {
				to.err = err
			}
			return
		}
		r.record(&rec, to)
	}
}

func (r *blockReader) record(rec *format.Record, to *block) {
	id := format.RecordID{Session: rec.Session.ID(), Seq: rec.Seq}
	if rec.Kind != format.KindData {
		r.names.Record(rec)
	}
	switch rec.Kind {
	case format.KindData:
		if f := to.ensureFindings(); !slices.Contains(f.parts, id) {
			f.parts = append(f.parts, id)
		}
		return
	case format.KindSeal:
		if s, err := seal.Parse(rec, &to.ref.Segment.Header); err == nil {
			to.ensureFindings().seals = append(to.ensureFindings().seals, s)
		}
	case format.KindServer:
		if isStart(rec) {
			to.start = began(rec)
			to.ensureFindings().runs = append(to.ensureFindings().runs,
				run{time: to.start, levels: recordsLevels(rec)})
		}
	}
	to.telling = to.telling || isTelling(rec) || r.eval.preparedEvent(rec) != "" || r.eval.maySwitchUser(rec)
	to.mayHideFailures = to.mayHideFailures || r.eval.mayHideFailures(rec)
	if len(r.eval.renamedBefore(rec)) > 0 {
		f := to.ensureFindings()
		to.telling, f.earlyRenames = true,
			append(f.earlyRenames, renaming{xid: rec.XID}, renaming{session: id.Session})
	}
	if r.eval.mayMatch(rec) {
		if rec.Parts != [3]uint64{} {
			to.mayMatch = true
			to.ensureFindings().candidates = append(to.ensureFindings().candidates, id)
		} else {
			to.mayMatch = to.mayMatch || r.eval.matches(rec)
		}
	}
	if a := r.eval; a.inRange(rec) {
		if a.filter.MayRename(rec) {
			// its other objects are in data parts
			to.ensureFindings().candidates = append(to.ensureFindings().candidates, id)
		}
		to.telling = to.telling || len(a.filter.AllRenames(rec)) > 0
	}
	if r.eval.reasonUndecided(rec) != "" {
		to.undecided = true
		if rec.Kind == format.KindStart {
			to.ensureFindings().undecided = append(to.ensureFindings().undecided,
				statement{id.Session, rec.Statement, rec.Substatement})
		}
	}
}

// sealedBy returns the first seal of a block or a later one; nil if there is none.
func (src *source) sealedBy(number uint64) *seal.Seal {
	i, _ := slices.BinarySearchFunc(src.seals, number, func(s *seal.Seal, n uint64) int {
		return cmp.Compare(s.Block, n)
	})
	if i == len(src.seals) {
		return nil
	}
	return src.seals[i]
}

// needToSeal marks the blocks between each needed block and the next sealed one.
func (src *source) needToSeal() {
	until := uint64(0)
	for i := src.first; i < src.last; i++ {
		b := &src.blocks[i]
		if b.needed {
			until = max(until, src.sealedBy(b.ref.Number).Block)
		}
		b.needed = b.needed || b.ref.Number <= until
	}
}

// ---- a record ----

func (m *maker) chooseRecord() error {
	found := false
	for _, src := range m.sources {
		for i := range src.blocks {
			if src.blocks[i].mayMatch {
				found, src.blocks[i].needed = true, true
			}
		}
	}
	if !found {
		for _, src := range m.sources {
			for _, err := range append(src.errs, src.blockErrors(0, len(src.blocks))...) {
				return refuse("the trail does not have record %s, but it is damaged: %s", m.eval.question.Record, err)
			}
		}
		return refuse("the trail does not have record %s", m.eval.question.Record)
	}
	m.needParts()
	for _, src := range m.sources {
		src.first = slices.IndexFunc(src.blocks, func(b block) bool { return b.needed })
		if src.first < 0 {
			continue
		}
		for i := src.first; i < len(src.blocks); i++ {
			if src.blocks[i].needed {
				number := src.blocks[i].ref.Number
				if src.end = src.sealedBy(number); src.end == nil {
					return src.unsealed(number)
				}
			}
		}
		src.last = src.after(src.end.Block)
		src.needToSeal()
		if err := src.damage(); err != nil {
			return err
		}
		src.emitKeys()
	}
	return nil
}

func (src *source) unsealed(number uint64) error {
	if len(src.seals) == 0 {
		return refuse("stream %d has no seal: nothing can be proved without steno.signing_key_file", src.stream.Number)
	}
	last := src.seals[len(src.seals)-1]
	return refuse("block %d of stream %d is not sealed yet: the last seal, of %s, is of block %d", number,
		src.stream.Number, render.Time(last.Time), last.Block)
}

// after returns the index of the first block with a greater number, or the number of blocks if there is none.
func (src *source) after(number uint64) int {
	i, found := slices.BinarySearchFunc(src.blocks, number, func(b block, n uint64) int {
		return cmp.Compare(b.ref.Number, n)
	})
	if found {
		i++
	}
	return i
}

// needParts marks the blocks with data parts of records that may match.
func (m *maker) needParts() {
	for _, id := range m.candidates {
		for _, p := range m.parts[id] {
			p.source.blocks[p.block].needed = true
		}
	}
}

// blockErrors returns the errors of blocks.
func (src *source) blockErrors(first, last int) (errs []error) {
	for i := first; i < last; i++ {
		b := &src.blocks[i]
		switch {
		case b.err != nil:
			errs = append(errs, b.err)
		case i > first && b.ref.Number != src.blocks[i-1].ref.Number+1:
			errs = append(errs, fmt.Errorf("%s: offset %d: found block %d where block %d is expected",
				b.ref.Segment.Path, b.ref.Offset, b.ref.Number, src.blocks[i-1].ref.Number+1))
		}
	}
	return errs
}

// firstMissing returns the number of the first block that seals show to be missing; 0 if there is none.
func (src *source) firstMissing() uint64 {
	next, existing := src.blocks[min(src.first, len(src.blocks)-1)].ref.Number, src.blocks[0].ref.Number
	if src.begin != nil {
		next = max(src.begin.Block+1, existing)
	}
	for i := src.first; i < src.last; i++ {
		if src.blocks[i].ref.Number != next {
			return next
		}
		next++
	}
	if next <= src.end.Block {
		return next
	}
	return 0
}

// damage returns why the blocks of the proof cannot be proved; nil if all exist and are intact.
func (src *source) damage() error {
	if err := src.damaged(); err != nil {
		return err
	}
	number := src.firstMissing()
	if number == 0 {
		return nil
	}
	at := fmt.Sprintf("stream %d", src.stream.Number)
	for _, err := range src.errs {
		at = err.Error()
	}
	return refuse("block %d, which a seal covers, is missing or damaged: %s", number, at)
}

// damaged returns what is wrong with the blocks of the proof and their chain; nil if nothing is.
func (src *source) damaged() error {
	if src.first == src.last {
		return nil
	}
	var errs []error
	begin, end := &src.blocks[src.first].ref, &src.blocks[src.last-1].ref
	for _, err := range src.errs {
		if p := format.AsProblem(err); p != nil && p.Segment > 0 && p.Offset != format.NoOffset {
			if n := p.Segment; n < begin.Segment.Number || n > end.Segment.Number ||
				n == begin.Segment.Number && p.Offset < begin.Offset ||
				n == end.Segment.Number && p.Offset > end.Offset {
				continue
			}
		}
		errs = append(errs, err)
	}
	if errs = append(errs, src.blockErrors(src.first, src.last)...); len(errs) == 0 {
		return nil
	}
	more := ""
	if len(errs) > 1 {
		more = fmt.Sprintf(", and %d more", len(errs)-1)
	}
	return refuse("the trail is damaged where the answer would have to be proved: %s%s", errs[0], more)
}

// emitKeys marks the seals that name new keys, up to the last seal of the proof.
func (src *source) emitKeys() {
	for _, s := range src.seals {
		if s.NextKey != nil && s.Block <= src.end.Block {
			src.emitted[s] = true
		}
	}
	src.emitted[src.end] = true
}

// ---- a range ----

func (m *maker) chooseRange(ctx context.Context) error {
	a := m.eval
	bases, from := m.bases(a.since)
	m.searchesTexts = len(bases) == 0 || searchesTexts(m.runs, from, a.until)
	for _, src := range m.sources {
		if len(src.blocks) == 0 {
			continue
		}
		if len(src.seals) == 0 {
			return src.unsealed(src.blocks[0].ref.Number)
		}
		src.chooseSeals(from, a.until, a.question.Full)
		for _, at := range bases {
			if at.source == src && src.begin != nil && src.begin.Block >= src.blocks[at.block].ref.Number {
				src.chooseSeals(from-1, a.until, a.question.Full)
			}
		}
		for i := src.first; i < src.last; i++ {
			b := &src.blocks[i]
			b.needed = b.needed || m.isNeeded(src, b)
		}
	}
	m.needParts()
	for _, src := range m.sources {
		for i := range src.blocks {
			b := &src.blocks[i]
			b.needed = b.needed && src.first <= i && i < src.last
		}
	}
	if err := m.needEnds(ctx); err != nil {
		return err
	}
	if err := m.needNames(ctx); err != nil {
		return err
	}
	for _, src := range m.sources {
		if src.end == nil {
			continue
		}
		src.needUnexcluded(a, m.searchesTexts)
		src.needToSeal()
		if err := src.damage(); err != nil {
			return err
		}
	}
	return nil
}

// needNames marks blocks that show that names of the question occur, if no index and no other block of the proof
// shows it. Otherwise, the check would report names as unknown that do occur.
func (m *maker) needNames(ctx context.Context) error {
	if m.names == nil {
		return nil
	}
	names := query.NewUnindexedNames(&m.eval.question.Filter)
	r := &blockReader{files: &m.files, names: names.Reader()}
	for _, needed := range []bool{true, false} {
		for _, src := range m.sources {
			for i := src.first; i < src.last && src.end != nil && names.Remaining() > m.names.Remaining(); i++ {
				if b := &src.blocks[i]; b.needed == needed && b.err == nil {
					b.needed = r.hasNewNames(b) || needed
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasNewNames reports whether a block has names of the question that were not found before.
func (r *blockReader) hasNewNames(b *block) bool {
	before := r.names.Remaining()
	if r.files.Read(&b.ref, &r.block) != nil {
		return false
	}
	r.names.Start()
	var rec format.Record
	for r.block.Next(&rec) == nil {
		if rec.Kind != format.KindData {
			r.names.Record(&rec)
		}
	}
	return r.names.Remaining() < before
}

// bases returns the blocks with the starts from which on the settings of the range are known: the last start before
// it, and that of each other server that has recorded since. The proof begins before the first of them.
func (m *maker) bases(since int64) (all []place, from int64) {
	last := int64(format.MinTime)
	of := map[*source]place{}
	for _, src := range m.sources {
		for i := range src.blocks {
			if t := src.blocks[i].start; t > format.MinTime && t <= since {
				of[src], last = place{src, i}, max(last, t)
			}
		}
	}
	from = since - 1
	for _, src := range m.sources {
		at, found := of[src]
		if !found {
			continue
		}
		start, end := src.blocks[at.block].start, src.blocks[len(src.blocks)-1].ref.LastEnd
		if start == last || end > last {
			all, from = append(all, at), min(from, start)
		}
	}
	return all, from
}

// chooseSeals finds the seals between which the proof has blocks of the stream.
func (src *source) chooseSeals(from, until int64, full bool) {
	src.begin, src.end = nil, src.seals[len(src.seals)-1]
	existing := src.blocks[0].ref.Number
	for _, s := range src.seals {
		if s.Time <= from && s.Block+1 >= existing {
			src.begin = s
		}
	}
	for _, s := range src.seals {
		if s.Time >= until+settle || s == src.end {
			src.end = s
			break
		}
	}
	// An index that covers the end is shorter than the blocks of its segment up to there.
	for i := range src.index {
		s := &src.index[i]
		if later := src.sealedBy(s.at); !full && later != nil && s.first <= src.end.Block && src.end.Block < s.at {
			src.end = later
			break
		}
	}
	if src.begin == nil && src.end.Block < existing {
		src.begin = src.end // it seals a block that no longer exists
	}
	src.first, src.last = 0, src.after(src.end.Block)
	if src.begin != nil {
		src.first = src.after(src.begin.Block)
		if src.end.Block < src.begin.Block {
			src.end = src.begin
		}
		src.last = max(src.first, src.after(src.end.Block))
		if src.end.Block < existing {
			src.last = src.first
		}
	} else if src.blocks[0].ref.Segment.Number > 1 {
		src.blocks[0].needed = true // no earlier seal is linked to it
	}
	clear(src.emitted)
	src.emitKeys()
	if src.begin != nil {
		src.emitted[src.begin] = true
	}
}

// isNeeded reports whether the answer needs a block.
func (m *maker) isNeeded(src *source, b *block) bool {
	a := m.eval
	if src.sealedBy(b.ref.Number).Time >= a.since && a.question.Full {
		return true
	}
	return b.mayMatch || b.telling || b.undecided || b.mayHideFailures && m.searchesTexts
}

// needEnds marks the blocks with two kinds of ends: of statements whose start records say too little, and of
// transactions, and their sessions, that renamed something before the range.
func (m *maker) needEnds(ctx context.Context) error {
	if len(m.undecided)+len(m.earlyRenames) == 0 {
		return nil
	}
	var b format.Block
	var r format.Record
	for _, src := range m.sources {
		for i := src.first; i < src.last && src.end != nil; i++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			one := &src.blocks[i]
			if one.needed || one.err != nil || m.files.Read(&one.ref, &b) != nil {
				continue
			}
			for !one.needed && b.Next(&r) == nil {
				one.needed = r.Kind == format.KindStatement &&
					m.undecided[statement{r.Session.ID(), r.Statement, r.Substatement}] ||
					m.earlyRenames[renaming{xid: r.XID}] && m.eval.endsBefore(&r) ||
					m.earlyRenames[renaming{session: r.Session.ID()}] && m.eval.disconnectsBefore(&r)
			}
		}
	}
	return nil
}

// needUnexcluded marks the blocks that no index excludes, and the seals that show what was left out.
func (src *source) needUnexcluded(a *evaluator, searchesTexts bool) {
	var previous, early *seal.Seal
	ends := map[uint64]bool{}
	for _, s := range src.seals {
		if src.begin != nil && s.Block < src.begin.Block || s.Block > src.end.Block {
			continue
		}
		if s.Reason == seal.ReasonSegment {
			src.emitted[s], ends[s.Block] = true, true
		}
		if previous != nil && previous.First != s.First {
			src.emitted[previous], src.emitted[s] = true, true
		}
		if s.Time < a.since {
			early = s
		}
		previous = s
	}
	if early != nil {
		src.emitted[early] = true
	}
	index := slices.DeleteFunc(slices.Clone(src.index), func(s selection) bool {
		return s.at > src.end.Block || src.begin != nil && s.at <= src.begin.Block ||
			s.first < src.sealedBy(s.at).First
	})
	for i := src.first; i < src.last; i++ {
		b := &src.blocks[i]
		before := src.sealedBy(b.ref.Number).Time < a.since
		if b.needed || ends[b.ref.Number-1] && a.skipsSealsAtEnds(before) {
			continue
		}
		_, excluded := index.excludes(b.ref.Number, searchScope{before, searchesTexts})
		b.needed = !excluded
	}
}

// ---- the file ----

// write writes a stream's part of the proof.
func (m *maker) write(ctx context.Context, w *sectionWriter, src *source) error {
	if src.end == nil {
		return nil
	}
	s := &sourceWriter{maker: m, w: w, src: src}
	w.stream(src.stream.Segments[0].Header.SystemID, src.stream.Number)
	first := src.blocks[min(src.first, len(src.blocks)-1)].ref.Number
	for len(src.seals) > 0 && (src.begin != nil || m.eval.question.Record != "") {
		one := src.seals[0]
		if src.begin != nil && one.Block > src.begin.Block || src.begin == nil && one.Block >= first {
			break
		}
		if src.emitted[one] {
			w.seal(one)
			s.known = true
			s.chainBlock = one.Block
		}
		src.seals = src.seals[1:]
	}
	for i := src.first; i < src.last; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.writeBlock(i); err != nil {
			return err
		}
	}
	return w.err
}

// sourceWriter writes the needed blocks of a stream, and notes of those that are left out.
type sourceWriter struct {
	*maker
	w          *sectionWriter
	src        *source
	known      bool   // the chain of the stream has begun in the proof
	chainBlock uint64 // number of the last block in the chain so far
	segment    *trail.Segment
	buffer     format.Block
}

func (s *sourceWriter) writeBlock(i int) error {
	src := s.src
	b := &src.blocks[i]
	begins := i == 0 || src.blocks[i-1].ref.Segment != b.ref.Segment
	if begins && b.ref.Number != b.ref.Segment.Header.FirstBlock {
		return refuse("the trail is damaged where the answer would have to be proved: %s begins with block %d",
			b.ref.Segment.Path, b.ref.Number)
	}
	if b.needed {
		if err := s.include(i, begins); err != nil {
			return err
		}
	} else if !s.known && begins && b.ref.Segment.Number == 1 {
		if err := s.writeHeader(kindSegment, b.ref.Segment); err != nil {
			return err
		}
		s.known = true
	}
	for len(src.seals) > 0 && src.seals[0].Block <= b.ref.Number {
		one := src.seals[0]
		src.seals = src.seals[1:]
		if one.Block == b.ref.Number && (src.emitted[one] || b.needed) {
			s.leaveOutTo(i)
			s.w.seal(one)
		}
	}
	return nil
}

// leaveOutTo notes that the blocks up to blocks[i] are left out.
func (s *sourceWriter) leaveOutTo(i int) {
	if i < 0 {
		return
	}
	b := &s.src.blocks[i]
	if !s.known || s.chainBlock < b.ref.Number {
		s.w.leftOut(b.ref.Number, b.record, b.ref.Chain)
		s.chainBlock, s.known = b.ref.Number, true
	}
}

// include writes a block.
func (s *sourceWriter) include(i int, begins bool) error {
	b := &s.src.blocks[i]
	switch {
	case begins && (i > 0 || s.known):
		s.leaveOutTo(i - 1)
		fallthrough
	case begins:
		if err := s.writeHeader(kindSegment, b.ref.Segment); err != nil {
			return err
		}
	default:
		s.leaveOutTo(i - 1)
		if s.segment != b.ref.Segment {
			if err := s.writeHeader(kindContext, b.ref.Segment); err != nil {
				return err
			}
		}
	}
	if err := s.files.Read(&b.ref, &s.buffer); err != nil {
		return err
	}
	s.w.section(kindBlock, s.buffer.Image)
	s.chainBlock, s.known = b.ref.Number, true
	return s.w.err
}

// writeHeader writes a segment's header.
func (s *sourceWriter) writeHeader(k kind, seg *trail.Segment) error {
	f, err := trail.OpenFile(seg.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, seg.Header.Length())
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	s.w.section(k, b)
	s.segment = seg
	return nil
}

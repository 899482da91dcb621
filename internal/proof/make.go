// Making a proof: which blocks the answer needs, and which seals prove them.

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

// settle is how long after the range its last seal should be, in microseconds: by then,
// statements that ran at its end have start records (steno.start_after, 1 s by default, and
// about one more second, and steno.flush_interval).
const settle = 5 * 1e6

// RefusedError is why there is no proof: the trail does not have what it takes.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refuse(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}

// Make writes the proof of an answer. It is for the caller to check it: a trail can be
// altered in ways that only the check finds.
func Make(ctx context.Context, t *trail.Trail, q *Question, bar *progress.Bar, out io.Writer) error {
	return makeAs(ctx, t, q, func() (*asked, error) { return ask(q) }, bar, out)
}

// makeAs is Make by what of a question it asks.
func makeAs(ctx context.Context, t *trail.Trail, q *Question, asks func() (*asked, error), bar *progress.Bar, out io.Writer) error {
	a, err := asks()
	if err != nil {
		return err
	}
	m := &maker{asked: a, asks: asks, bar: bar, parts: map[format.RecordID][]place{}}
	if q.Record == "" {
		m.names = query.NewUnindexedNames(&q.Filter)
	}
	defer m.files.Close()
	for _, err := range t.Errors {
		return err
	}
	once := t.Once()
	for i, s := range once {
		if k := slices.IndexFunc(once[:i], func(o *trail.Stream) bool { return o.Number == s.Number }); k >= 0 {
			return refuse("both %s and %s are a stream %d: a proof can have one of each number; prove the trails one by one", once[k].Path, s.Path, s.Number)
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
	asked   *asked
	asks    func() (*asked, error) // the same for another goroutine
	bar     *progress.Bar
	files   trail.Files
	sources []*source
	done    atomic.Int64

	parts  map[format.RecordID][]place // blocks with data parts of records
	wanted []format.RecordID           // records that may be asked for, and have data parts
	opaque map[statement]bool          // that only start records tell about, and too little
	early  map[renaming]bool           // transactions that have renamed something before the range, and their sessions
	names  *query.Names                // those of which no index tells; nil: there are none
	runs   []run                       // the starts of the server
	quiets bool                        // texts are searched for what may have hidden failures
}

// renaming is a transaction, or with xid 0 a session, that has renamed something.
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
	emit        map[*seal.Seal]bool
}

// block is what is kept of a block. A trail can have millions of them, so it is small.
type block struct {
	ref    trail.BlockRef
	record uint64 // number of its last record
	err    error
	start  int64

	match   bool // a record that may be asked for
	changes bool // a record of what the trail can lack
	hides   bool // a record that says too little
	quiets  bool // a statement that may have hidden failures
	needed  bool

	finds *finds // for the stream, until all blocks have been read; nil: nothing
}

// finds is what a block has that is kept for its whole stream.
type finds struct {
	seals  []*seal.Seal
	index  *selection
	parts  []format.RecordID
	wanted []format.RecordID
	opaque []statement
	early  []renaming
	runs   []run
}

// found is where the block's finds go.
func (b *block) found() *finds {
	if b.finds == nil {
		b.finds = &finds{}
	}
	return b.finds
}

// read reads all blocks of a stream.
func (m *maker) read(ctx context.Context, s *trail.Stream) error {
	src := &source{stream: s, emit: map[*seal.Seal]bool{}}
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
			src.errs = append(src.errs, fmt.Errorf("%s: segments %d to %d are missing", s.Path, s.Segments[i-1].Number+1, seg.Number-1))
		}
		for _, ref := range refs {
			src.blocks = append(src.blocks, block{ref: ref, start: format.MinTime})
		}
	}
	for i := range src.blocks {
		// What follows searches for numbers; no server writes them in another order.
		if at := &src.blocks[i].ref; i > 0 && at.Number <= src.blocks[i-1].ref.Number {
			return refuse("%s: offset %d: block %d follows block %d", at.Segment.Path, at.Offset, at.Number, src.blocks[i-1].ref.Number)
		}
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			r := &blockReader{files: &m.files, asked: must(m.asks()), names: m.names.Reader()}
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
		if f := src.blocks[i].finds; f != nil {
			m.keep(src, i, f)
			src.blocks[i].finds = nil
		}
	}
	src.index.sort()
	return nil
}

// keep keeps what a block has for its stream, and for the proof.
func (m *maker) keep(src *source, at int, f *finds) {
	src.seals = append(src.seals, f.seals...)
	if f.index != nil {
		src.index = append(src.index, *f.index)
	}
	for _, id := range f.parts {
		m.parts[id] = append(m.parts[id], place{src, at})
	}
	m.wanted = append(m.wanted, f.wanted...)
	for _, st := range f.opaque {
		if m.opaque == nil {
			m.opaque = map[statement]bool{}
		}
		m.opaque[st] = true
	}
	for _, one := range f.early {
		if m.early == nil {
			m.early = map[renaming]bool{}
		}
		m.early[one] = true
	}
	m.runs = append(m.runs, f.runs...)
}

// blockReader reads blocks; each goroutine has one.
type blockReader struct {
	files *trail.Files
	asked *asked
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
		s := r.asked.selects(c, h.Number)
		to.found().index = &s
	}
	r.asked.reset()
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
		if f := to.found(); !slices.Contains(f.parts, id) {
			f.parts = append(f.parts, id)
		}
		return
	case format.KindSeal:
		if s, err := seal.Parse(rec, &to.ref.Segment.Header); err == nil {
			to.found().seals = append(to.found().seals, s)
		}
	case format.KindServer:
		if isStart(rec) {
			to.start = began(rec)
			to.found().runs = append(to.found().runs, run{time: to.start, levels: recordsLevels(rec)})
		}
	}
	to.changes = to.changes || tells(rec) || r.asked.preparedEvent(rec) != "" || r.asked.switches(rec)
	to.quiets = to.quiets || r.asked.quiets(rec)
	if len(r.asked.renamedBefore(rec)) > 0 {
		f := to.found()
		to.changes, f.early = true, append(f.early, renaming{xid: rec.XID}, renaming{session: id.Session})
	}
	if r.asked.guess(rec) {
		if rec.Parts != [3]uint64{} {
			to.match = true
			to.found().wanted = append(to.found().wanted, id)
		} else {
			to.match = to.match || r.asked.keep(rec)
		}
	}
	if a := r.asked; a.inRange(rec) {
		if a.filter.MayRename(rec) {
			to.found().wanted = append(to.found().wanted, id) // its further objects are in data parts
		}
		to.changes = to.changes || len(a.filter.AllRenames(rec)) > 0
	}
	if r.asked.hides(rec) != "" {
		to.hides = true
		if rec.Kind == format.KindStart {
			to.found().opaque = append(to.found().opaque, statement{id.Session, rec.Statement, rec.Substatement})
		}
	}
}

// sealedBy is the first seal of a stream of a block or a later one; nil if there is none.
func (src *source) sealedBy(number uint64) *seal.Seal {
	i, _ := slices.BinarySearchFunc(src.seals, number, func(s *seal.Seal, n uint64) int { return cmp.Compare(s.Block, n) })
	if i == len(src.seals) {
		return nil
	}
	return src.seals[i]
}

// drag marks the blocks from one that is needed to the next sealed one.
func (src *source) drag() {
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
			if src.blocks[i].match {
				found, src.blocks[i].needed = true, true
			}
		}
	}
	if !found {
		for _, src := range m.sources {
			for _, err := range append(src.errs, src.blockErrors(0, len(src.blocks))...) {
				return refuse("the trail does not have record %s, but it is damaged: %s", m.asked.q.Record, err)
			}
		}
		return refuse("the trail does not have record %s", m.asked.q.Record)
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
		src.drag()
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
	return refuse("block %d of stream %d is not sealed yet: the last seal, of %s, is of block %d", number, src.stream.Number, render.Time(last.Time), last.Block)
}

// after is the index of the first block with a greater number; how many there are, if none has.
func (src *source) after(number uint64) int {
	i, found := slices.BinarySearchFunc(src.blocks, number, func(b block, n uint64) int { return cmp.Compare(b.ref.Number, n) })
	if found {
		i++
	}
	return i
}

// needParts marks the blocks with the data parts of records that may be asked for.
func (m *maker) needParts() {
	for _, id := range m.wanted {
		for _, p := range m.parts[id] {
			p.source.blocks[p.block].needed = true
		}
	}
}

// blockErrors are what is wrong with blocks.
func (src *source) blockErrors(first, last int) (errs []error) {
	for i := first; i < last; i++ {
		b := &src.blocks[i]
		switch {
		case b.err != nil:
			errs = append(errs, b.err)
		case i > first && b.ref.Number != src.blocks[i-1].ref.Number+1:
			errs = append(errs, fmt.Errorf("%s: offset %d: found block %d where block %d is expected", b.ref.Segment.Path, b.ref.Offset, b.ref.Number, src.blocks[i-1].ref.Number+1))
		}
	}
	return errs
}

// missing is the number of the first block that seals say was there, and that is not; 0 if all are.
func (src *source) missing() uint64 {
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

// damage is why the blocks of the proof cannot be proved; nil if they are all there and whole.
func (src *source) damage() error {
	if err := src.damaged(); err != nil {
		return err
	}
	number := src.missing()
	if number == 0 {
		return nil
	}
	at := fmt.Sprintf("stream %d", src.stream.Number)
	for _, err := range src.errs {
		at = err.Error()
	}
	return refuse("block %d, which a seal covers, is missing or damaged: %s", number, at)
}

// damaged is what is wrong with the blocks of the proof, and between them; nil if nothing is.
func (src *source) damaged() error {
	if src.first == src.last {
		return nil
	}
	var errs []error
	begin, end := &src.blocks[src.first].ref, &src.blocks[src.last-1].ref
	for _, err := range src.errs {
		if p := format.AsProblem(err); p != nil && p.Segment > 0 && p.Offset != format.NoOffset {
			if n := p.Segment; n < begin.Segment.Number || n > end.Segment.Number || n == begin.Segment.Number && p.Offset < begin.Offset || n == end.Segment.Number && p.Offset > end.Offset {
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

// emitKeys marks the seals that name new keys, up to the last one of the proof.
func (src *source) emitKeys() {
	for _, s := range src.seals {
		if s.NextKey != nil && s.Block <= src.end.Block {
			src.emit[s] = true
		}
	}
	src.emit[src.end] = true
}

// ---- a range ----

func (m *maker) chooseRange(ctx context.Context) error {
	a := m.asked
	bases, from := m.bases(a.since)
	m.quiets = len(bases) == 0 || searchesTexts(m.runs, from, a.until)
	for _, src := range m.sources {
		if len(src.blocks) == 0 {
			continue
		}
		if len(src.seals) == 0 {
			return src.unsealed(src.blocks[0].ref.Number)
		}
		src.choose(from, a.until, a.q.Full)
		for _, at := range bases {
			if at.source == src && src.begin != nil && src.begin.Block >= src.blocks[at.block].ref.Number {
				src.choose(from-1, a.until, a.q.Full)
			}
		}
		for i := src.first; i < src.last; i++ {
			b := &src.blocks[i]
			b.needed = b.needed || m.needs(src, b)
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
		src.exclude(a, m.quiets)
		src.drag()
		if err := src.damage(); err != nil {
			return err
		}
	}
	return nil
}

// needNames marks blocks that show that names occur, for which no index does and no other block of the proof: that a client
// occurs is no exception of an answer that has nothing of it.
func (m *maker) needNames(ctx context.Context) error {
	if m.names == nil {
		return nil
	}
	names := query.NewUnindexedNames(&m.asked.q.Filter)
	r := &blockReader{files: &m.files, names: names.Reader()}
	for _, needed := range []bool{true, false} {
		for _, src := range m.sources {
			for i := src.first; i < src.last && src.end != nil && names.Left() > m.names.Left(); i++ {
				if b := &src.blocks[i]; b.needed == needed && b.err == nil {
					b.needed = r.finds(b) || needed
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// finds says whether a block has names that were not found before.
func (r *blockReader) finds(b *block) bool {
	before := r.names.Left()
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
	return r.names.Left() < before
}

// bases are the blocks with the starts from which on the settings of the range are known: the last one before it, and that
// of each other server that has recorded since. The proof begins before the first of them.
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

// choose finds the seals between which the proof has the stream.
func (src *source) choose(from, until int64, full bool) {
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
	// An index that covers the end is shorter than all blocks of its segment up to there.
	for i := range src.index {
		s := &src.index[i]
		if later := src.sealedBy(s.at); !full && later != nil && s.first <= src.end.Block && src.end.Block < s.at {
			src.end = later
			break
		}
	}
	if src.begin == nil && src.end.Block < existing {
		src.begin = src.end // it is of a block that does not exist any more
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
		src.blocks[0].needed = true // nothing links it to a seal before it
	}
	clear(src.emit)
	src.emitKeys()
	if src.begin != nil {
		src.emit[src.begin] = true
	}
}

// needs says whether the answer needs a block.
func (m *maker) needs(src *source, b *block) bool {
	a := m.asked
	if src.sealedBy(b.ref.Number).Time >= a.since && a.q.Full {
		return true
	}
	return b.match || b.changes || b.hides || b.quiets && m.quiets
}

// needEnds marks the blocks with the statements of which only start records are known that
// say too little, and with the ends of transactions before the range that have renamed something, and of their sessions.
func (m *maker) needEnds(ctx context.Context) error {
	if len(m.opaque)+len(m.early) == 0 {
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
				one.needed = r.Kind == format.KindStatement && m.opaque[statement{r.Session.ID(), r.Statement, r.Substatement}] ||
					m.early[renaming{xid: r.XID}] && m.asked.endsBefore(&r) ||
					m.early[renaming{session: r.Session.ID()}] && m.asked.leavesBefore(&r)
			}
		}
	}
	return nil
}

// exclude marks the blocks that no index excludes, and the seals that it takes to show it.
func (src *source) exclude(a *asked, quiets bool) {
	var previous, early *seal.Seal
	ends := map[uint64]bool{}
	for _, s := range src.seals {
		if src.begin != nil && s.Block < src.begin.Block || s.Block > src.end.Block {
			continue
		}
		if s.Reason == seal.ReasonSegment {
			src.emit[s], ends[s.Block] = true, true
		}
		if previous != nil && previous.First != s.First {
			src.emit[previous], src.emit[s] = true, true
		}
		if s.Time < a.since {
			early = s
		}
		previous = s
	}
	if early != nil {
		src.emit[early] = true
	}
	index := slices.DeleteFunc(slices.Clone(src.index), func(s selection) bool {
		return s.at > src.end.Block || src.begin != nil && s.at <= src.begin.Block || s.first < src.sealedBy(s.at).First
	})
	for i := src.first; i < src.last; i++ {
		b := &src.blocks[i]
		before := src.sealedBy(b.ref.Number).Time < a.since
		if b.needed || ends[b.ref.Number-1] && a.skipsSealsAtEnds(before) {
			continue
		}
		_, excluded := index.excludes(b.ref.Number, sought{before, quiets})
		b.needed = !excluded
	}
}

// ---- the file ----

// write writes what the proof has of a stream.
func (m *maker) write(ctx context.Context, w *sectionWriter, src *source) error {
	if src.end == nil {
		return nil
	}
	s := &sourceWriter{maker: m, w: w, src: src}
	w.stream(src.stream.Segments[0].Header.SystemID, src.stream.Number)
	first := src.blocks[min(src.first, len(src.blocks)-1)].ref.Number
	for len(src.seals) > 0 && (src.begin != nil || m.asked.q.Record != "") {
		one := src.seals[0]
		if src.begin != nil && one.Block > src.begin.Block || src.begin == nil && one.Block >= first {
			break
		}
		if src.emit[one] {
			w.seal(one)
			s.known = true
			s.at = one.Block
		}
		src.seals = src.seals[1:]
	}
	for i := src.first; i < src.last; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.block(i); err != nil {
			return err
		}
	}
	return w.err
}

// sourceWriter writes the blocks of a stream, or that they are left out.
type sourceWriter struct {
	*maker
	w       *sectionWriter
	src     *source
	known   bool   // the proof has begun the chain
	at      uint64 // the block that the chain is at
	segment *trail.Segment
	block_  format.Block
}

func (s *sourceWriter) block(i int) error {
	src := s.src
	b := &src.blocks[i]
	begins := i == 0 || src.blocks[i-1].ref.Segment != b.ref.Segment
	if begins && b.ref.Number != b.ref.Segment.Header.FirstBlock {
		return refuse("the trail is damaged where the answer would have to be proved: %s begins with block %d", b.ref.Segment.Path, b.ref.Number)
	}
	if b.needed {
		if err := s.include(i, begins); err != nil {
			return err
		}
	} else if !s.known && begins && b.ref.Segment.Number == 1 {
		if err := s.header(kindSegment, b.ref.Segment); err != nil {
			return err
		}
		s.known = true
	}
	for len(src.seals) > 0 && src.seals[0].Block <= b.ref.Number {
		one := src.seals[0]
		src.seals = src.seals[1:]
		if one.Block == b.ref.Number && (src.emit[one] || b.needed) {
			s.reach(i)
			s.w.seal(one)
		}
	}
	return nil
}

// reach leaves out the blocks up to one.
func (s *sourceWriter) reach(i int) {
	if i < 0 {
		return
	}
	b := &s.src.blocks[i]
	if !s.known || s.at < b.ref.Number {
		s.w.leftOut(b.ref.Number, b.record, b.ref.Chain)
		s.at, s.known = b.ref.Number, true
	}
}

// include writes a block.
func (s *sourceWriter) include(i int, begins bool) error {
	b := &s.src.blocks[i]
	switch {
	case begins && (i > 0 || s.known):
		s.reach(i - 1)
		fallthrough
	case begins:
		if err := s.header(kindSegment, b.ref.Segment); err != nil {
			return err
		}
	default:
		s.reach(i - 1)
		if s.segment != b.ref.Segment {
			if err := s.header(kindContext, b.ref.Segment); err != nil {
				return err
			}
		}
	}
	if err := s.files.Read(&b.ref, &s.block_); err != nil {
		return err
	}
	s.w.section(kindBlock, s.block_.Image)
	s.at, s.known = b.ref.Number, true
	return s.w.err
}

// header writes a segment's header.
func (s *sourceWriter) header(k kind, seg *trail.Segment) error {
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

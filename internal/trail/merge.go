// Merging the records of all streams in one order, in parallel and with bounded memory.

package trail

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Formatter chooses records of a block and formats them. Only one goroutine at a time uses a formatter.
type Formatter interface {
	// Start is called before the records of another block, at ref. Formatters must then forget what they keep
	// by the indexes of definitions.
	Start(ref *BlockRef)
	// Keep returns whether the record is wanted.
	Keep(r *format.Record) bool
	// Append appends the record's line, with its newline.
	Append(dst []byte, r *format.Record) []byte
}

// MergeOptions say what Merge reads.
type MergeOptions struct {
	// Since and Until bound the records' times: Since <= time < Until.
	Since, Until int64
	// Blocks returns whether a block is wanted; nil: all. Several goroutines may call it.
	Blocks func(*BlockRef) bool
	// Contents selects the groups of blocks of a segment's index that may have wanted
	// records; nil: all. Other blocks are not read.
	Contents func(*format.Contents) format.Groups
	// Skipped, if not nil, is called for blocks that are not read because of Contents.
	Skipped func(*BlockRef)
	// Selection says which records may be wanted. Formatters do not get others. It must not have Fields or Tally.
	Selection format.Selection
	// NewFormatter returns a formatter; several work in parallel.
	NewFormatter func() Formatter
	// Warn receives what is wrong in the trail. One goroutine calls it.
	Warn func(error)
	// Progress is called with the number of bytes that were processed.
	Progress func(done int64)

	// Servers, if not nil, learns from a followed trail which servers write it.
	Servers *Servers

	// Rollbacks says that Effect must be set in records of statements.
	Rollbacks bool

	segment func(*Segment) bool // which segments are wanted; nil: all

	from *position // the first record that is shown; nil: Since decides
}

// Noticer is a Formatter that also formats some records that are not wanted, because an Order needs them to
// count.
type Noticer interface {
	Notice(r *format.Record) bool
}

// keeps returns whether a formatter formats a record.
func keeps(f Formatter, r *format.Record) bool {
	if f.Keep(r) {
		return true
	}
	n, ok := f.(Noticer)
	return ok && n.Notice(r)
}

// ErrStop can be returned by a callback to end a merge early. Merge then returns nil.
var ErrStop = errors.New("stop")

// Merge emits the lines of all records in the order of their times; records of
// the same microsecond in the order of session start, process id and sequence
// number.
//
// A block can have records that started long before its others: those of long statements. A block is due at the
// time of its first record. If a few early records are long before the rest, only these are read then, and the
// block is put back, and read again when the rest is due. The same is done with segments. So only blocks that
// overlap in time are in memory at once, however long statements took. Of a block with more records than
// maxLines, the first ones are read, and the rest when it is due.
func (x *Index) Merge(ctx context.Context, opts MergeOptions, emit func(line []byte) error) error {
	if err := x.merge(ctx, opts, emit); !errors.Is(err, ErrStop) {
		return err
	}
	return nil
}

func (x *Index) merge(ctx context.Context, opts MergeOptions, emit func(line []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	m := &merger{ctx: ctx, opts: opts, files: &Files{}, reported: map[*SegmentIndex]bool{}}
	m.joiner = &joiner{ctx, x, m.files}
	m.rollbacks = &rollbacks{index: x, files: m.files}
	defer func() {
		cancel()
		m.wait.Wait()
		m.files.Close()
	}()
	for _, err := range x.Errs {
		opts.Warn(err)
	}
	for _, err := range x.missingSegments(opts.Since, opts.Until, opts.Blocks) {
		opts.Warn(err)
	}
	for _, err := range x.missingKeys(opts.Since, opts.Until, opts.segment, opts.Blocks) {
		opts.Warn(err)
	}
	for i := range x.Streams {
		for k := range x.Streams[i].Segments {
			s := &x.Streams[i].Segments[k]
			if opts.segment != nil && !opts.segment(s.Segment) {
				continue
			}
			if s.Segment.KeyErr == nil && s.Records > 0 && s.LastEnd >= opts.Since && s.FirstTime < opts.Until {
				due := startOf(max(s.FirstTime, opts.Since))
				m.queue = append(m.queue, task{segment: s, due: due, from: startOf(format.MinTime), whole: true})
			}
		}
	}
	heap.Init(&m.queue)
	return m.run(emit)
}

// wide is how long before the rest of a block early records must be for the block to be read twice: a second.
const wide = 1e6

// bulk says which part of a block's records may be early: a sixteenth.
const bulk = 16

// bulkOfSegment is how long before the rest of a segment early blocks must be for the segment to be put back: a
// minute.
const bulkOfSegment = 60e6

// inMemory bounds the lines that are formatted in advance for one block. After that, records are kept, and
// formatted when they are due, because a block of 16 MiB can repeat a long text a million times.
const inMemory = 8 << 20

// maxLines bounds the records that are read at once from a block, fewLines where many blocks overlap. The
// server's blocks rarely have more.
const (
	maxLines = 64 << 10
	fewLines = 4 << 10
)

// ahead bounds the bytes of blocks, stored plus decompressed, that are decoded in advance.
const ahead = 32 << 20

// task is a segment, a block, or the rest of either, with the time at which it is due.
type task struct {
	segment *SegmentIndex
	ref     *BlockRef // nil: the segment's blocks
	due     position  // no wanted record is earlier
	from    position  // earlier records are not wanted, or were read before
	whole   bool      // it was not split yet
	lines   int       // how many records to read at once
}

// cost returns the memory that decoding the block takes.
func (t *task) cost() int64 { return int64(t.ref.Stored) + int64(t.ref.Raw) }

type tasks []task

func (q tasks) Len() int           { return len(q) }
func (q tasks) Less(i, j int) bool { return q[i].due.compare(&q[j].due) < 0 }
func (q tasks) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *tasks) Push(t any)        { *q = append(*q, t.(task)) }
func (q *tasks) Pop() any {
	n := len(*q) - 1
	t := (*q)[n]
	*q = (*q)[:n]
	return t
}

type merger struct {
	ctx      context.Context
	opts     MergeOptions
	files    *Files
	joiner   *joiner
	wait     sync.WaitGroup
	reported map[*SegmentIndex]bool // problems with their blocks were reported

	rollbacks *rollbacks

	queue    tasks  // no goroutine works on these yet
	upcoming []*job // being decoded in advance, by due time
	idle     []*run // for reuse

	runs runs // decoded, with lines left
	done int64

	lineLength atomic.Int64 // of the block decoded last, on average
}

// job is a task that a goroutine works on.
type job struct {
	task
	run  *run
	done chan struct{}
}

// run is the result of a task: lines in order.
type run struct {
	block     format.Block
	formatter Formatter
	keys      []sortKey
	other     []sortKey // buffer for sorting
	lines     []entry
	text      []byte
	lazy      lazyRecords
	times     []int64
	errs      []error
	next      int
	lookup    lookup
	rest      task // the task to put back, if rest.ref is set
}

// entry is a line: text[start:end], or lazy[-end-1] when end is negative.
type entry struct {
	id     format.RecordID
	number uint64
	start  int
	end    int
}

// lazyRecords are records that are formatted when they are due. They are kept in pieces, because a block can
// have many, and a growing slice would be copied repeatedly.
type lazyRecords struct {
	pieces []*[lazyPiece]format.Record
	n      int
}

const lazyPiece = 256

var lazyPieces = sync.Pool{New: func() any { return new([lazyPiece]format.Record) }}

func (l *lazyRecords) add(r *format.Record) {
	if l.n%lazyPiece == 0 {
		l.pieces = append(l.pieces, lazyPieces.Get().(*[lazyPiece]format.Record))
	}
	l.pieces[l.n/lazyPiece][l.n%lazyPiece] = *r
	l.n++
}

func (l *lazyRecords) at(i int) *format.Record { return &l.pieces[i/lazyPiece][i%lazyPiece] }

// drop frees the pieces for reuse, and forgets what the records point to.
func (l *lazyRecords) drop() {
	for _, piece := range l.pieces {
		clear(piece[:])
		lazyPieces.Put(piece)
	}
	*l = lazyRecords{}
}

type sortKey struct {
	time int64
	line int32
}

// run is the loop of the merge: it emits lines that are due before any block that is not decoded yet, or else
// waits for the next block.
func (m *merger) run(emit func(line []byte) error) error {
	for {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		m.start()
		var bound position
		if len(m.upcoming) > 0 {
			bound = m.upcoming[0].due
		}
		if err := m.emit(bound, emit); err != nil {
			return err
		}
		if len(m.upcoming) == 0 {
			return nil
		}
		m.awaitNext()
	}
}

// start keeps as many blocks in work as there are processors, plus one, so that no processor waits.
func (m *merger) start() {
	window := runtime.GOMAXPROCS(0) + 1
	cost := int64(0)
	for _, j := range m.upcoming {
		cost += j.cost()
	}
	for len(m.queue) > 0 {
		n := len(m.upcoming)
		if next := &m.queue[0].due; n > 0 && next.compare(&m.upcoming[0].due) >= 0 &&
			(n >= window && next.compare(&m.upcoming[n-1].due) >= 0 || cost >= ahead) {
			return
		}
		t := heap.Pop(&m.queue).(task)
		if t.ref == nil {
			m.expand(&t)
			continue
		}
		cost += t.cost()
		t.lines = max(fewLines, min(maxLines, 8*maxLines/(1+len(m.runs))))
		j := &job{task: t, done: make(chan struct{})}
		if n := len(m.idle); n > 0 {
			j.run, m.idle = m.idle[n-1], m.idle[:n-1]
		} else {
			j.run = &run{formatter: m.opts.NewFormatter()}
		}
		i, _ := slices.BinarySearchFunc(m.upcoming, j, func(a, b *job) int {
			if a.due.compare(&b.due) <= 0 {
				return -1
			}
			return 1
		})
		m.upcoming = slices.Insert(m.upcoming, i, j)
		m.wait.Go(func() {
			j.run.load(m, &j.task)
			close(j.done)
		})
	}
}

// expand puts the blocks of a segment into the queue. If a few of them are long before the rest, it only puts
// these, and the segment again.
func (m *merger) expand(t *task) {
	refs, errs := t.segment.refs()
	if !m.reported[t.segment] {
		for _, err := range errs {
			m.opts.Warn(err)
		}
		m.reported[t.segment] = len(errs) > 0
	}
	refs = m.opts.skip(m.files, refs)
	wanted := refs[:0]
	for _, ref := range refs {
		if m.opts.Blocks != nil && !m.opts.Blocks(&ref) {
			continue
		}
		if ref.Records > 0 && ref.LastEnd >= m.opts.Since && ref.FirstTime < m.opts.Until &&
			ref.FirstTime >= t.from.time {
			wanted = append(wanted, ref)
		}
	}
	if len(wanted) == 0 {
		return
	}
	byTime := func(a, b BlockRef) int { return cmp.Compare(a.FirstTime, b.FirstTime) }
	if !slices.IsSortedFunc(wanted, byTime) {
		slices.SortStableFunc(wanted, byTime)
	}
	if cut := wanted[max(1, len(wanted)/bulk)%len(wanted)].FirstTime; t.whole &&
		max(cut, m.opts.Since)-max(wanted[0].FirstTime, m.opts.Since) > bulkOfSegment {
		heap.Push(&m.queue, task{segment: t.segment, due: startOf(cut), from: startOf(cut)})
		wanted = slices.Clone(wanted[:slices.IndexFunc(wanted, func(r BlockRef) bool { return r.FirstTime >= cut })])
	}
	from := startOf(m.opts.Since)
	if m.opts.from != nil {
		from = *m.opts.from
	}
	for i := range wanted {
		ref := &wanted[i]
		heap.Push(&m.queue, task{ref: ref, due: startOf(max(ref.FirstTime, m.opts.Since)), from: from, whole: true})
	}
}

// awaitNext waits for the block that is due next.
func (m *merger) awaitNext() {
	j := m.upcoming[0]
	m.upcoming = m.upcoming[1:]
	<-j.done
	r := j.run
	for _, err := range r.errs {
		m.opts.Warn(err)
	}
	if r.rest.ref != nil {
		heap.Push(&m.queue, r.rest)
		r.rest = task{}
	} else if m.opts.Progress != nil {
		m.done += j.ref.Length()
		m.opts.Progress(m.done)
	}
	if len(r.keys) == 0 {
		m.free(r)
		return
	}
	heap.Push(&m.runs, r)
}

// free keeps a run for reuse, without unusually large buffers.
func (m *merger) free(r *run) {
	r.trim()
	if len(m.idle) <= runtime.GOMAXPROCS(0)+1 {
		m.idle = append(m.idle, r)
	}
}

// large is the size up to which a run keeps a buffer.
const large = 4 << 20

// trim frees the block's memory if it is large and all lines are formatted.
func (r *run) trim() {
	if b := &r.block; b.Memory() > large {
		r.block = format.Block{}
		r.formatter = nil
	}
	if len(r.lines) == 0 || r.next == len(r.keys) {
		if cap(r.text) > 2*inMemory {
			r.text = nil
		}
		if cap(r.keys) > maxLines/8 {
			r.keys, r.other, r.lines = nil, nil, nil
		}
		r.lazy.drop()
	}
}

// emit emits all lines that are due before bound; all lines if no block follows.
func (m *merger) emit(bound position, emit func(line []byte) error) error {
	last := len(m.upcoming) == 0
	var scratch []byte
	for len(m.runs) > 0 {
		r := m.runs[0]
		if !last && !r.isBefore(&bound) {
			return nil
		}
		second := m.runs.second()
		for r.next < len(r.keys) {
			k := r.keys[r.next]
			if !last && !r.isBefore(&bound) || second != nil && compare(r, second) > 0 {
				break
			}
			e := &r.lines[k.line]
			var line []byte
			if e.end >= 0 {
				line = r.text[e.start:e.end]
			} else {
				scratch = r.formatter.Append(scratch[:0], r.lazy.at(-e.end-1))
				line = scratch
			}
			if err := emit(line); err != nil {
				return err
			}
			r.next++
		}
		if r.next == len(r.keys) {
			heap.Pop(&m.runs)
			m.free(r)
			continue
		}
		heap.Fix(&m.runs, 0)
	}
	return nil
}

// load decodes a block and makes the lines of the records that are due.
func (r *run) load(m *merger, t *task) {
	r.keys, r.lines, r.text, r.errs, r.next, r.rest = r.keys[:0], r.lines[:0], r.text[:0], r.errs[:0], 0, task{}
	r.lazy.drop()
	if r.formatter == nil {
		r.formatter = m.opts.NewFormatter()
	}
	r.block.Select(m.opts.Selection)
	if err := m.files.Read(t.ref, &r.block); err != nil {
		r.errs = append(r.errs, err)
		return
	}
	until := m.opts.Until
	var to *position // records from here on come later
	r.formatter.Start(t.ref)
	many := int(t.ref.Records) > t.lines
	due := func(rec *format.Record) bool {
		if rec.Time < t.from.time || rec.Time >= until && until != format.MaxTime {
			return false
		}
		if rec.Time > t.from.time && to == nil {
			return true
		}
		p := positionOf(rec)
		return p.compare(&t.from) >= 0 && (to == nil || p.compare(to) < 0)
	}
	maybe := func(rec *format.Record) bool { return due(rec) && mayKeep(r.formatter, rec) }
	wanted := func(rec *format.Record) bool { return due(rec) && keeps(r.formatter, rec) }
	if many {
		begin := first(t.lines + 1)
		m.joiner.records(&r.block, t.ref, maybe, func(rec *format.Record) {
			if wanted(rec) {
				begin.add(positionOf(rec))
			}
		})
		r.block.Rewind()
		r.formatter.Start(t.ref)
		if begin.trim(); len(begin.kept) > t.lines {
			to = &begin.kept[t.lines]
		}
	} else if t.whole && t.ref.FirstEnd-t.ref.FirstTime > wide {
		if cut, ok := r.split(t.from.time, until); ok {
			begin := startOf(cut)
			to = &begin
		}
	}
	if to != nil {
		r.rest = task{ref: t.ref, due: *to, from: *to}
	} else if !many {
		// Lines are about as long as those of the previous block.
		r.text = slices.Grow(r.text, min(int(t.ref.Records)*int(m.lineLength.Load()), inMemory))
	}
	if m.opts.Rollbacks {
		r.lookup.start(m.rollbacks, t.ref, &r.block)
	}
	errs := m.joiner.records(&r.block, t.ref, maybe, func(rec *format.Record) {
		if !wanted(rec) {
			return
		}
		if m.opts.Rollbacks {
			r.lookup.mark(rec)
		}
		e := entry{id: rec.ID(), number: rec.Number, start: len(r.text)}
		if len(r.text) < inMemory {
			r.text = r.formatter.Append(r.text, rec)
			e.end = len(r.text)
		} else {
			r.lazy.add(rec)
			e.end = -r.lazy.n
		}
		r.keys = append(r.keys, sortKey{rec.Time, int32(len(r.lines))})
		r.lines = append(r.lines, e)
	})
	if to == nil {
		r.errs = append(r.errs, errs...)
	}
	if n := len(r.lines) - r.lazy.n; n > 0 {
		m.lineLength.Store(int64(len(r.text)/n + 8))
	}
	byTime := func(a, b sortKey) int {
		if c := cmp.Compare(a.time, b.time); c != 0 {
			return c
		}
		return cmp.Or(r.lines[a.line].compare(&r.lines[b.line]), cmp.Compare(a.line, b.line))
	}
	if !slices.IsSortedFunc(r.keys, byTime) {
		r.sort()
		for i := 0; i < len(r.keys); {
			end := i + 1
			for end < len(r.keys) && r.keys[end].time == r.keys[i].time {
				end++
			}
			if end-i > 1 {
				slices.SortFunc(r.keys[i:end], byTime)
			}
			i = end
		}
	}
	if r.lazy.n == 0 {
		r.trim()
	}
}

// sort orders the lines by time alone. The times of a block are close together, so two or
// three passes over digits of 11 bits are enough, where comparing takes a dozen.
func (r *run) sort() {
	least, most := r.keys[0].time, r.keys[0].time
	for _, k := range r.keys {
		least, most = min(least, k.time), max(most, k.time)
	}
	const digit = 11
	var count [1 << digit]int32
	r.other = slices.Grow(r.other[:0], len(r.keys))[:len(r.keys)]
	for shift := 0; shift < 64 && uint64(most-least)>>shift > 0; shift += digit {
		of := func(k sortKey) uint64 { return uint64(k.time-least) >> shift & (1<<digit - 1) }
		clear(count[:])
		for _, k := range r.keys {
			count[of(k)]++
		}
		at := int32(0)
		for i, n := range count {
			count[i] = at
			at += n
		}
		for _, k := range r.keys {
			d := of(k)
			r.other[count[d]] = k
			count[d]++
		}
		r.keys, r.other = r.other, r.keys
	}
}

// split returns the time between a block's few early records and the rest, if they are far enough apart.
func (r *run) split(from, until int64) (cut int64, ok bool) {
	r.times = r.times[:0]
	var rec format.Record
	for r.block.Next(&rec) == nil {
		if rec.Kind != format.KindData && rec.Time >= from && rec.Time < until {
			r.times = append(r.times, rec.Time)
		}
	}
	r.block.Rewind()
	if len(r.times) < 2 {
		return 0, false
	}
	slices.Sort(r.times)
	cut = r.times[max(1, len(r.times)/bulk)]
	return cut, cut-r.times[0] > wide
}

func (e *entry) compare(o *entry) int { return e.id.Compare(o.id) }

// isBefore returns whether the next line comes before a position.
func (r *run) isBefore(p *position) bool {
	k := &r.keys[r.next]
	if k.time != p.time {
		return k.time < p.time
	}
	e := &r.lines[k.line]
	next := position{k.time, e.id, e.number}
	return next.compare(p) < 0
}

// compare orders two runs by their next lines.
func compare(a, b *run) int {
	ka, kb := &a.keys[a.next], &b.keys[b.next]
	if c := cmp.Compare(ka.time, kb.time); c != 0 {
		return c
	}
	return a.lines[ka.line].compare(&b.lines[kb.line])
}

// runs is a heap by the next line.
type runs []*run

func (h runs) Len() int           { return len(h) }
func (h runs) Less(i, j int) bool { return compare(h[i], h[j]) < 0 }
func (h runs) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runs) Push(r any)        { *h = append(*h, r.(*run)) }
func (h *runs) Pop() any {
	n := len(*h) - 1
	r := (*h)[n]
	*h = (*h)[:n]
	return r
}

// second returns the run that comes after the first one; nil: there is only one.
func (h runs) second() *run {
	switch len(h) {
	case 0, 1:
		return nil
	case 2:
		return h[1]
	}
	if h.Less(1, 2) {
		return h[1]
	}
	return h[2]
}

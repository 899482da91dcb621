package trail

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// A Formatter chooses the records of a block and makes lines of them. One
// formatter is used by one goroutine at a time.
type Formatter interface {
	// Start says that the records to come are those of another block, at ref.
	// What was kept by the index of a definition is void.
	Start(ref *BlockRef)
	// Keep says whether the record is wanted.
	Keep(r *Record) bool
	// Append appends the record's line, with its newline.
	Append(dst []byte, r *Record) []byte
}

// MergeOptions say what a merge shows.
type MergeOptions struct {
	// Since and Until bound the records' times: Since <= time < Until.
	Since, Until int64
	// NewFormatter makes a formatter; several work in parallel.
	NewFormatter func() Formatter
	// Warn is told what is wrong in the trail. It is called by one goroutine.
	Warn func(error)
	// Progress is told how many bytes of the trail are done.
	Progress func(done int64)
}

// The beginning of time and its end, for MergeOptions.
const (
	MinTime = math.MinInt64
	MaxTime = math.MaxInt64
)

// ErrStop is what a callback returns to end a merge early; it is not passed on.
var ErrStop = errors.New("stop")

// Merge emits the lines of all records in the order of their times; records of
// the same microsecond in the order of session start, process id and sequence
// number.
//
// A block can hold records that started long before its others: those of long
// statements. A block is therefore a window of time that is first due at its
// first time; when a few early records stand far before the rest, only they
// are taken then, and the block is put back and read again when the rest is
// due. So no more blocks are in memory than overlap in time, whatever the
// durations.
func (x *Index) Merge(ctx context.Context, opts MergeOptions, emit func(line []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	m := &merger{ctx: ctx, opts: opts, files: &Files{}}
	m.joiner = &joiner{x, m.files}
	defer func() {
		cancel()
		m.wait.Wait()
		m.files.Close()
	}()
	for _, err := range x.Errs {
		opts.Warn(err)
	}
	for i := range x.Streams {
		refs := x.Streams[i].Refs
		for k := range refs {
			ref := &refs[k]
			if ref.LastEnd >= opts.Since && ref.FirstTime < opts.Until && ref.Records > 0 {
				m.queue = append(m.queue, task{ref, max(ref.FirstTime, opts.Since), max(MinTime, opts.Since), true})
			}
		}
	}
	heap.Init(&m.queue)
	err := m.run(emit)
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// wide is how far early records must stand before the rest of their block for
// the block to be read twice: a second.
const wide = 1e6

// bulk is the part of a block's records that may be early: a sixteenth.
const bulk = 16

// inMemory bounds the lines that are made ahead for one block. Above it, a
// record is kept and its line is made when it is due: a block of 16 MiB can
// repeat a long text a million times.
const inMemory = 32 << 20

// task is a block, or its rest, that is due at a time.
type task struct {
	ref   *BlockRef
	due   int64 // no wanted record is earlier
	from  int64 // records before this are not wanted, or were taken before
	whole bool  // the block was not split yet
}

type tasks []task

func (q tasks) Len() int           { return len(q) }
func (q tasks) Less(i, j int) bool { return q[i].due < q[j].due }
func (q tasks) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *tasks) Push(t any)        { *q = append(*q, t.(task)) }
func (q *tasks) Pop() any {
	n := len(*q) - 1
	t := (*q)[n]
	*q = (*q)[:n]
	return t
}

type merger struct {
	ctx    context.Context
	opts   MergeOptions
	files  *Files
	joiner *joiner
	wait   sync.WaitGroup

	queue    tasks  // what nobody works on yet
	upcoming []*job // what is being decoded ahead, by due time
	idle     []*run // for being used again

	runs runs // decoded, with lines left
	done int64

	lineLength atomic.Int64 // of the block decoded last, on average
}

// job is a task that is being worked on.
type job struct {
	task
	run  *run
	done chan struct{}
}

// run is what a task gave: lines in order.
type run struct {
	block     Block
	formatter Formatter
	keys      []sortKey
	lines     []entry
	text      []byte
	lazy      []Record
	times     []int64
	errs      []error
	next      int
	rest      task // what is to be put back, when rest.ref is set
}

// entry is a line: text[start:end], or lazy[-end-1] when end is negative.
type entry struct {
	session SessionID
	seq     uint64
	start   int
	end     int
}

type sortKey struct {
	time int64
	line int32
}

// run is the loop of the merge: what is due before any block that is not
// decoded yet is emitted, or else the next block is taken in.
func (m *merger) run(emit func(line []byte) error) error {
	for {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		m.start()
		bound := int64(MaxTime)
		if len(m.upcoming) > 0 {
			bound = m.upcoming[0].due
		}
		if err := m.emit(bound, emit); err != nil {
			return err
		}
		if len(m.upcoming) == 0 {
			return nil
		}
		m.take()
	}
}

// start keeps as many blocks in work as there are processors, and one more so
// that none waits.
func (m *merger) start() {
	window := runtime.GOMAXPROCS(0) + 1
	for len(m.queue) > 0 && (len(m.upcoming) < window || m.queue[0].due < m.upcoming[len(m.upcoming)-1].due) {
		t := heap.Pop(&m.queue).(task)
		j := &job{task: t, done: make(chan struct{})}
		if n := len(m.idle); n > 0 {
			j.run, m.idle = m.idle[n-1], m.idle[:n-1]
		} else {
			j.run = &run{formatter: m.opts.NewFormatter()}
		}
		i, _ := slices.BinarySearchFunc(m.upcoming, j, func(a, b *job) int {
			if a.due <= b.due {
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

// take waits for the block that is due next.
func (m *merger) take() {
	j := m.upcoming[0]
	m.upcoming = m.upcoming[1:]
	<-j.done
	r := j.run
	for _, err := range r.errs {
		m.opts.Warn(err)
	}
	if r.rest.ref != nil {
		heap.Push(&m.queue, r.rest)
	} else if m.opts.Progress != nil {
		m.done += j.ref.Length()
		m.opts.Progress(m.done)
	}
	if len(r.keys) == 0 {
		m.idle = append(m.idle, r)
		return
	}
	heap.Push(&m.runs, r)
}

// emit emits all lines that are due before bound; or all, when nothing else is
// to come.
func (m *merger) emit(bound int64, emit func(line []byte) error) error {
	last := len(m.upcoming) == 0
	var scratch []byte
	for len(m.runs) > 0 {
		r := m.runs[0]
		if r.keys[r.next].time >= bound && !last {
			return nil
		}
		second := m.runs.second()
		for r.next < len(r.keys) {
			k := r.keys[r.next]
			if k.time >= bound && !last || second != nil && compare(r, second) > 0 {
				break
			}
			e := &r.lines[k.line]
			var line []byte
			if e.end >= 0 {
				line = r.text[e.start:e.end]
			} else {
				scratch = r.formatter.Append(scratch[:0], &r.lazy[-e.end-1])
				line = scratch
			}
			if err := emit(line); err != nil {
				return err
			}
			r.next++
		}
		if r.next == len(r.keys) {
			heap.Pop(&m.runs)
			m.idle = append(m.idle, r)
			continue
		}
		heap.Fix(&m.runs, 0)
	}
	return nil
}

// load decodes a block and makes the lines of the records that are due.
func (r *run) load(m *merger, t *task) {
	r.keys, r.lines, r.text, r.errs, r.next, r.rest = r.keys[:0], r.lines[:0], r.text[:0], r.errs[:0], 0, task{}
	clear(r.lazy)
	r.lazy = r.lazy[:0]
	if cap(r.text) > 2*inMemory {
		r.text = nil
	}
	if err := m.files.Read(t.ref, &r.block); err != nil {
		r.errs = append(r.errs, err)
		return
	}
	until := m.opts.Until
	split := false
	if t.whole && t.ref.FirstEnd-t.ref.FirstTime > wide {
		if cut, ok := r.split(t.from, until); ok {
			r.rest = task{t.ref, cut, cut, false}
			until, split = cut, true
		}
	}
	r.formatter.Start(t.ref)
	if !split {
		// Lines are about as long as those of the block before.
		r.text = slices.Grow(r.text, min(int(t.ref.Records)*int(m.lineLength.Load()), inMemory))
	}
	errs := m.joiner.records(&r.block, t.ref, func(rec *Record) {
		if rec.Time < t.from || rec.Time >= until && until != MaxTime || !r.formatter.Keep(rec) {
			return
		}
		e := entry{session: rec.Session.ID(), seq: rec.Seq, start: len(r.text)}
		if len(r.text) < inMemory {
			r.text = r.formatter.Append(r.text, rec)
			e.end = len(r.text)
		} else {
			r.lazy = append(r.lazy, *rec)
			e.end = -len(r.lazy)
		}
		r.keys = append(r.keys, sortKey{rec.Time, int32(len(r.lines))})
		r.lines = append(r.lines, e)
	})
	if !split {
		r.errs = append(r.errs, errs...)
	}
	if n := len(r.lines) - len(r.lazy); n > 0 {
		m.lineLength.Store(int64(len(r.text)/n + 8))
	}
	byTime := func(a, b sortKey) int {
		if c := cmp.Compare(a.time, b.time); c != 0 {
			return c
		}
		return r.lines[a.line].compare(&r.lines[b.line])
	}
	if !slices.IsSortedFunc(r.keys, byTime) {
		slices.SortFunc(r.keys, byTime)
	}
}

// split finds the time that divides a block's few early records from the rest,
// when they are far enough apart.
func (r *run) split(from, until int64) (cut int64, ok bool) {
	r.times = r.times[:0]
	var rec Record
	for r.block.Next(&rec) == nil {
		if rec.Kind != KindData && rec.Time >= from && rec.Time < until {
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

func (e *entry) compare(o *entry) int {
	if c := cmp.Compare(e.session.Start, o.session.Start); c != 0 {
		return c
	}
	if c := cmp.Compare(e.session.PID, o.session.PID); c != 0 {
		return c
	}
	return cmp.Compare(e.seq, o.seq)
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

// second is the run that comes after the first, nil when there is only one.
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

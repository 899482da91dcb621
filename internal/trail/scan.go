// Reading records without an order, by many goroutines, for queries over a whole trail.

package trail

import (
	"cmp"
	"context"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// ScanOptions say what a scan reads.
type ScanOptions struct {
	// Since and Until bound the records' times: Since <= time < Until, or no end if Until is MaxTime.
	Since, Until int64
	// Ends says that the time of a record is its end: see Record.End.
	Ends bool
	// Contents selects the groups of blocks of a segment's index that may have wanted
	// records; nil: all. Other blocks are not read.
	Contents func(*format.Contents) format.Groups
	// Blocks returns whether a block is wanted; nil: all.
	Blocks func(*BlockRef) bool
	// Selection says which records are wanted, and which of their fields. Others may be returned, too.
	Selection format.Selection
	// Parts says that texts, messages and parameters are needed. Those of big records are joined from data
	// parts, which may be in other blocks.
	Parts bool
	// Raw says that the strings of records are not needed, so they are not converted to UTF-8.
	Raw bool
	// Rollbacks says that Effect must be set in records of statements.
	Rollbacks bool
	// Warn receives what is wrong in the trail. It is called by one goroutine at a time.
	Warn func(error)
}

// ScanStats say what a scan has done so far.
type ScanStats struct {
	// Read, Outside and Skipped count blocks with records: those that were read, those outside of the times or
	// not wanted, and those without wanted records according to an index.
	Read, Outside, Skipped int
	// Bytes counts the stored bytes of the blocks read, and Records the records decoded.
	Bytes   int64
	Records int64
}

// Scan distributes the blocks of an index to readers. It reads the records that existed when the index was
// built, not those that a server adds later.
type Scan struct {
	ctx       context.Context
	opts      ScanOptions
	files     *Files
	joiner    *joiner
	rollbacks *rollbacks

	mu       sync.Mutex
	segments []*SegmentIndex // not begun yet
	refs     []BlockRef      // of the current segment, not read yet
	stats    ScanStats
}

// Scan begins a scan, which ends early if its context ends. Segments, and the blocks in them, are read in the
// order of their times.
func (x *Index) Scan(ctx context.Context, opts ScanOptions) *Scan {
	if opts.Parts || opts.Rollbacks {
		opts.Selection.Fields = 0
	} else if opts.Selection.Fields != 0 && (opts.Since > format.MinTime || opts.Until != format.MaxTime) {
		opts.Selection.Fields |= format.FieldTime | format.FieldDuration
	}
	s := &Scan{ctx: ctx, opts: opts, files: &Files{}}
	s.joiner = &joiner{ctx, x, s.files}
	s.rollbacks = &rollbacks{index: x, files: s.files}
	for _, err := range x.Errs {
		opts.Warn(err)
	}
	for _, err := range x.missingSegments(opts.Since, opts.Until, opts.Blocks) {
		opts.Warn(err)
	}
	for _, err := range x.missingKeys(opts.Since, opts.Until, nil, opts.Blocks) {
		opts.Warn(err)
	}
	for i := range x.Streams {
		for k := range x.Streams[i].Segments {
			segment := &x.Streams[i].Segments[k]
			switch {
			case segment.Segment.KeyErr != nil || segment.Records == 0:
			case segment.LastEnd < opts.Since || segment.FirstTime >= opts.Until && opts.Until != format.MaxTime:
				s.stats.Outside += segment.Blocks
			default:
				s.segments = append(s.segments, segment)
			}
		}
	}
	slices.SortStableFunc(s.segments, func(a, b *SegmentIndex) int { return cmp.Compare(a.FirstTime, b.FirstTime) })
	return s
}

// outside returns whether a record is outside of the times.
func (o *ScanOptions) outside(r *format.Record) bool {
	at := r.Time
	if o.Ends {
		at = r.End()
	}
	return at < o.Since || at >= o.Until && o.Until != format.MaxTime
}

// Workers returns how many goroutines read a trail: one for each processor. The number does not change while
// the program runs.
var Workers = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

// Read scans with as many goroutines as there are Workers. Each calls read, with its number, counted from 0,
// and a reader of its own.
func (x *Index) Read(ctx context.Context, opts ScanOptions, read func(worker int, r *ScanReader)) ScanStats {
	s := x.Scan(ctx, opts)
	defer s.Close()
	var wait sync.WaitGroup
	for i := range Workers() {
		wait.Go(func() { read(i, s.Reader()) })
	}
	wait.Wait()
	return s.Stats()
}

// Close closes the files. No reader may be in use.
func (s *Scan) Close() { s.files.Close() }

// Stats are the scan's counters. They are complete when all readers have ended.
func (s *Scan) Stats() ScanStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// nextRef returns the next block to read; nil at the end. decoded is the number of records in the blocks that
// the caller has read since the last call.
func (s *Scan) nextRef(decoded int64) *BlockRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Records += decoded
	for len(s.refs) == 0 {
		if len(s.segments) == 0 || s.ctx.Err() != nil {
			return nil
		}
		next := s.segments[0]
		s.segments = s.segments[1:]
		refs, errs := next.refs()
		for _, err := range errs {
			s.opts.Warn(err)
		}
		s.refs = s.wanted(refs)
	}
	ref := s.refs[0]
	s.refs = s.refs[1:]
	s.stats.Read++
	s.stats.Bytes += ref.Length()
	return &ref
}

// wanted returns the blocks of a segment that may have wanted records.
func (s *Scan) wanted(refs []BlockRef) []BlockRef {
	inside := refs[:0:0]
	for _, ref := range refs {
		switch {
		case s.opts.Blocks != nil && ref.Records > 0 && !s.opts.Blocks(&ref):
			s.stats.Outside++
		case ref.LastEnd < s.opts.Since || ref.FirstTime >= s.opts.Until && s.opts.Until != format.MaxTime:
			if ref.Records > 0 {
				s.stats.Outside++
			} else {
				inside = append(inside, ref) // it may be an index
			}
		default:
			inside = append(inside, ref)
		}
	}
	if !slices.ContainsFunc(inside, func(r BlockRef) bool { return r.Records > 0 }) {
		return nil
	}
	skip := MergeOptions{Contents: s.opts.Contents, Skipped: func(ref *BlockRef) {
		if ref.Records > 0 {
			s.stats.Skipped++
		}
	}}
	return slices.DeleteFunc(skip.skip(s.files, inside), func(r BlockRef) bool { return r.Records == 0 })
}

// warn passes on what a reader found.
func (s *Scan) warn(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Warn(err)
}

// ScanReader reads blocks of a scan, one after the other. One goroutine uses it; several readers work in
// parallel.
type ScanReader struct {
	// Record is the current record. It and its bytes are valid until the next call of Next.
	Record format.Record
	// Ref is the block of the record, with a new pointer for each block.
	Ref *BlockRef

	scan       *Scan
	block      format.Block
	blockParts parts
	lookup     lookup
	decoded    int64
}

// Reader returns a new reader.
func (s *Scan) Reader() *ScanReader { return &ScanReader{scan: s} }

// Next reads the next record; it returns false at the end of the scan.
func (r *ScanReader) Next() bool {
	s := r.scan
	for {
		if r.Ref == nil && !r.nextBlock() {
			return false
		}
		if err := r.block.Next(&r.Record); err != nil {
			if err != io.EOF {
				s.warn(err)
			}
			r.decoded += r.block.Decoded()
			r.Ref = nil
			continue
		}
		rec := &r.Record
		if rec.Kind == format.KindData {
			if s.opts.Parts {
				if r.blockParts == nil {
					r.blockParts = parts{}
				}
				r.blockParts.add(rec)
			}
			continue
		}
		if s.opts.outside(rec) {
			if s.opts.Parts && rec.Parts != [3]uint64{} {
				delete(r.blockParts, rec.ID())
			}
			continue
		}
		if s.opts.Parts && rec.Parts != [3]uint64{} {
			if err := s.joiner.join(rec, r.Ref, r.blockParts); err != nil {
				s.warn(err)
			}
			delete(r.blockParts, rec.ID())
		}
		if s.opts.Rollbacks {
			r.lookup.mark(rec)
		}
		if !s.opts.Raw {
			r.block.DecodeStrings(rec)
		}
		return true
	}
}

// nextBlock loads the next block that can be read.
func (r *ScanReader) nextBlock() bool {
	s := r.scan
	// Do not keep unusually large buffers.
	if b := &r.block; b.Memory() > large {
		r.block = format.Block{}
	}
	r.blockParts = nil
	r.block.Select(s.opts.Selection)
	for {
		ref := s.nextRef(r.decoded)
		r.decoded = 0
		if ref == nil {
			return false
		}
		if err := s.files.Read(ref, &r.block); err != nil {
			s.warn(err)
			continue
		}
		if s.opts.Rollbacks {
			r.lookup.start(s.rollbacks, ref, &r.block)
		}
		r.Ref = ref
		return true
	}
}

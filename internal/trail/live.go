// Following a trail that is being written.

package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Live follows a trail that is being written, across new segments, new streams and restarts of the server. It
// never changes or locks a file.
//
// If something cannot be opened, for lack of a permission or of file descriptors, it is tried again. That is
// reported once, and once more when it can be opened. Missing segments are reported when the next segment is
// found. Between two polls, no file is open, because an open file would keep the space of a deleted segment.
//
// A block counts when it is complete. While nothing follows it in its stream, an incomplete block is read again,
// because the server may be writing it. After a crash, the server cuts it off and writes another one in its place.
type Live struct {
	path    string
	streams []*liveStream
	known   map[uint32]bool // numbers of known streams
	file    bool            // path is a segment: there are no other streams
	index   *Index
	files   *Files
	block   format.Block
	batch   []liveLine
	waiting map[string]bool // paths that cannot be read, which was reported
}

// WaitError says that a file or folder cannot be read at present and will be tried again. Err is nil when it
// can be read again.
type WaitError struct {
	Path string
	Err  error
}

func (e *WaitError) Error() string {
	if e.Err == nil {
		return e.Path + ": can be read again"
	}
	reason := e.Err
	if path := (*fs.PathError)(nil); errors.As(reason, &path) {
		reason = path.Err
	}
	return fmt.Sprintf("%s: cannot be read at present, and is tried again: %v", e.Path, reason)
}

// Unwrap returns the error of the file.
func (e *WaitError) Unwrap() error { return e.Err }

// isUnavailable returns whether an error, such as a denied permission, may end without the file changing.
func isUnavailable(err error) bool {
	path := (*fs.PathError)(nil)
	return errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotRegular)
}

// checkAvailable returns whether a path could be read, given the error of trying. It reports once that it
// cannot, and once that it can again. The trail itself must exist, too.
func (l *Live) checkAvailable(path string, err error, warn func(error)) bool {
	if !isUnavailable(err) && (path != l.path || !errors.Is(err, fs.ErrNotExist)) {
		if l.waiting[path] {
			delete(l.waiting, path)
			warn(&WaitError{Path: path})
		}
		return true
	}
	if !l.waiting[path] {
		l.waiting[path] = true
		warn(&WaitError{path, err})
	}
	return false
}

type liveStream struct {
	index         int    // in Live.index.Streams
	from          uint64 // blocks with a lower number are passed over
	segment       *Segment
	offset        int64                // after the last intact block
	listed        time.Time            // modification time of the folder when it had no later segment
	reported      bool                 // it was reported why the segment cannot be read
	block         uint64               // number of the last block that was read, 0: not known
	lastEncrypted *Segment             // the last segment reported as encrypted with a missing key
	before        uint64               // the same, but 0 if that block is in an earlier segment
	lastReadable  format.SegmentHeader // of the last segment that could be read
	missingFile   *Segment             // the current segment, if its file does not exist
	lastBlock     BlockRef             // the last block of the current segment that was read; zero: none
}

type liveLine struct {
	time int64
	line []byte
}

// Follow starts to follow the trail directory from where the index ends.
func (x *Index) Follow(path string) *Live {
	l := &Live{path: path, index: x, files: &Files{}, known: map[uint32]bool{}, waiting: map[string]bool{}}
	for i := range x.Streams {
		s := &x.Streams[i]
		l.known[s.Stream.Number] = true
		l.file = l.file || !s.Stream.Whole
		ls := &liveStream{index: i}
		for _, seg := range s.Stream.Segments {
			if seg.Err == nil {
				ls.lastReadable = seg.Header
			}
		}
		if n := len(s.Stream.Segments); n > 0 {
			ls.segment = s.Stream.Segments[n-1]
			ls.offset = ls.segment.firstBlockOffset()
		}
		if n := len(s.Segments); n > 0 && s.Segments[n-1].Blocks > 0 {
			last := &s.Segments[n-1]
			ls.offset, ls.block, ls.before = last.end, last.last.Number, last.last.Number
		}
		l.streams = append(l.streams, ls)
	}
	return l
}

// Close closes the files.
func (l *Live) Close() { l.files.Close() }

// Poll reads new blocks and emits the lines of their records. The lines of one call are in the order of the
// records' times. Each problem is reported once.
func (l *Live) Poll(ctx context.Context, f Formatter, opts MergeOptions, emit func(line []byte) error) error {
	defer l.files.Close()
	l.discover(opts.Warn)
	take := func(ctx context.Context, s *liveStream, ref *BlockRef) error {
		return l.formatBlock(ctx, s, ref, f, opts, emit)
	}
	before := func() error { return l.flush(emit) } // lines before a problem are written before its warning
	all := follower{read: l.readBlock, take: take, beforeHole: before, warn: opts.Warn}
	if err := l.followAll(ctx, all); err != nil {
		return err
	}
	return l.flush(emit)
}

// follower is what becomes of the blocks and the problems that following a trail finds.
type follower struct {
	read func(ref *BlockRef) error                                     // into l.block
	take func(ctx context.Context, s *liveStream, ref *BlockRef) error // of l.block
	// beforeHole is called before a hole in the trail is reported.
	beforeHole func() error
	warn       func(error)
	// needsKeys says that a block without its key ends the poll, and counts as not read.
	needsKeys bool
	// verifies says that the poll ends with ErrReplaced when what was read before is not in its place any more.
	verifies bool
}

// readBlock reads and loads a block.
func (l *Live) readBlock(ref *BlockRef) error { return l.files.Read(ref, &l.block) }

// followAll reads everything that is new in all streams, one after the other.
func (l *Live) followAll(ctx context.Context, f follower) error {
	for _, s := range l.streams {
		if err := l.followStream(ctx, s, f); err != nil {
			return err
		}
	}
	return nil
}

// discover finds new streams.
func (l *Live) discover(warn func(error)) {
	if l.file {
		return
	}
	entries, err := os.ReadDir(l.path)
	if !l.checkAvailable(l.path, err, warn) || err != nil {
		return
	}
	for _, e := range entries {
		number, ok := parseStreamName(e.Name())
		if !ok || l.known[number] || !isDir(filepath.Join(l.path, e.Name()), e) {
			continue
		}
		l.known[number] = true
		l.index.Streams = append(l.index.Streams, StreamIndex{Stream: &Stream{
			Number: number,
			Path:   filepath.Join(l.path, e.Name()),
			Trail:  l.path,
			keys:   l.index.keys,
		}})
		l.streams = append(l.streams, &liveStream{index: len(l.index.Streams) - 1})
	}
}

// followStream reads everything that is new in one stream.
func (l *Live) followStream(ctx context.Context, s *liveStream, f follower) error {
	for {
		// Look for the next segment before reading this one to its end: otherwise, blocks written in between
		// would be missed.
		next := l.next(s, f.warn)
		if s.segment != nil {
			read, err := l.followSegment(ctx, s, next != nil, f)
			if err != nil {
				return err
			}
			if !read {
				return nil // the next poll tries again
			}
		}
		if next == nil {
			return nil
		}
		if err := s.gapBefore(next); err != nil {
			if err := f.beforeHole(); err != nil {
				return err
			}
			f.warn(err)
		}
		s.segment, s.offset, s.reported, s.before = next, next.firstBlockOffset(), false, 0
		s.lastBlock = BlockRef{}
		if all := next.Stream.Segments; len(all) == 0 || all[len(all)-1].Number < next.Number {
			next.Stream.Segments = append(all, next)
		}
	}
}

// gapBefore returns which blocks before the next segment were deleted before they were read, or which segments
// are missing.
func (s *liveStream) gapBefore(next *Segment) error {
	if s.segment == nil {
		return nil
	}
	if _, err := os.Lstat(s.segment.Path); !errors.Is(err, fs.ErrNotExist) {
		// Retention deletes the first segments of a stream, so those between these two were not deleted by
		// policy.
		if next.Number > s.segment.Number+1 {
			return next.Stream.missingSegments(format.Span{First: s.segment.Number + 1, Last: next.Number - 1})
		}
		return nil
	}
	if next.Err != nil {
		return nil
	}
	taken := s.block
	if s.segment.Err == nil && taken+1 < s.segment.Header.FirstBlock {
		taken = s.segment.Header.FirstBlock - 1
	}
	if first := next.Header.FirstBlock; first > taken+1 {
		return s.segment.disappearance(fmt.Sprintf("the content of blocks %d to %d", taken+1, first-1))
	}
	return nil
}

// unsettled is the age that a folder's modification time must have before it is certain to show later changes.
const unsettled = 2 * time.Second

// next returns the segment that follows the current one; nil: there is none.
func (l *Live) next(s *liveStream, warn func(error)) *Segment {
	stream := l.index.Streams[s.index].Stream
	number := uint64(0)
	if s.segment != nil {
		number = s.segment.Number
		path := filepath.Join(stream.Path, fmt.Sprintf("%010d%s", number+1, segmentSuffix))
		if _, err := os.Lstat(path); err == nil {
			return l.open(s, stream, number+1, path, warn)
		}
	}
	// This is the first segment of a new stream, or the first one left after old ones were deleted or are
	// missing. A folder may have many files, so it is listed only if it has changed.
	var changed time.Time
	if info, err := os.Stat(stream.Path); err == nil {
		changed = info.ModTime()
	}
	if s.segment != nil && changed.Equal(s.listed) {
		return nil
	}
	now := time.Now()
	entries, err := os.ReadDir(stream.Path)
	if !l.checkAvailable(stream.Path, err, warn) || err != nil {
		return nil
	}
	var best uint64
	for _, e := range entries {
		if n, ok := parseSegmentName(e.Name()); ok && n > number && (best == 0 || n < best) {
			best = n
		}
	}
	if best == 0 {
		if now.Sub(changed).Abs() > unsettled {
			s.listed = changed
		}
		return nil
	}
	// A list made while the folder changes may lack a file that was created before.
	if path := filepath.Join(stream.Path, fmt.Sprintf("%010d%s", number+1, segmentSuffix)); number > 0 &&
		best > number+1 {
		if _, err := os.Lstat(path); err == nil {
			best = number + 1
		}
	}
	return l.open(s, stream, best, filepath.Join(stream.Path, fmt.Sprintf("%010d%s", best, segmentSuffix)), warn)
}

// open opens a new segment. If its header is not written yet, it does not count.
func (l *Live) open(s *liveStream, stream *Stream, number uint64, path string, warn func(error)) *Segment {
	seg := openSegmentAgain(path, stream, true)
	seg.Number = number
	if !l.checkAvailable(path, seg.Err, warn) {
		return nil
	}
	if seg.damaged != nil {
		seg.identify(&s.lastReadable)
	} else if seg.Err == nil {
		s.lastReadable = seg.Header
	}
	if isUnfinished(seg.Err) || IsGone(seg.Err) {
		return nil
	}
	return seg
}

// followSegment reads all intact blocks from the current offset on. closed says that another segment follows,
// so that what is unfinished will stay so. It returns false if the file exists but cannot be opened now,
// because of permissions or file descriptors: then the segment must not be skipped.
func (l *Live) followSegment(ctx context.Context, s *liveStream, closed bool, f follower) (read bool, err error) {
	seg := s.segment
	if isUnavailable(seg.Err) || isUnfinished(seg.Err) { // when it was opened
		again := openSegmentAgain(seg.Path, seg.Stream, true)
		if !l.checkAvailable(seg.Path, again.Err, f.warn) {
			return false, nil
		}
		if !closed && isUnfinished(again.Err) {
			return true, nil // the server writes the header when it starts
		}
		again.Number = seg.Number
		if again.damaged != nil {
			again.identify(&s.lastReadable)
		}
		*seg = *again
		s.offset = seg.firstBlockOffset()
	}
	if seg.Err != nil {
		if !s.reported {
			s.reported = true
			f.warn(seg.problemWith(!closed))
		}
		if seg.damaged == nil {
			return true, nil
		}
	}
	file, err := OpenFile(seg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if !closed && s.missingFile != seg && !l.waiting[l.path] {
			if s.missingFile = seg; !seg.deletedByPolicy() {
				l.waiting[seg.Path] = true
				f.warn(&WaitError{seg.Path, err})
			}
		}
		return true, nil
	}
	s.missingFile = nil
	if !l.checkAvailable(seg.Path, err, f.warn) || err != nil {
		return false, nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, nil
	}
	seg.Size = info.Size()
	if f.verifies && !s.isInPlace(file) {
		return false, ErrReplaced
	}
	if seg.Size < s.offset {
		f.warn(seg.problem(format.ProblemDamaged, seg.Size,
			"file became shorter: it was at least %d bytes long", s.offset))
		s.offset = max(seg.Size, seg.firstBlockOffset())
	}
	walk := seg.Walk(file, s.offset, seg.Size, !closed)
	walk.last = s.before
	again := false
	// onceMore reads an unfinished block again. Blocks are written in order, so it is complete if another one
	// follows.
	onceMore := func() bool {
		if again = !again; again {
			walk.offset, walk.last = s.offset, s.before
			walk.window.discard()
		}
		return again
	}
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		ref, problem, ok := walk.Next()
		if !ok {
			return true, nil
		}
		if problem == nil && ref.Number < s.from {
			s.block, again = ref.Number, false
		} else if problem == nil {
			switch err := f.read(&ref); {
			case err == nil:
				if err := f.take(ctx, s, &ref); err != nil {
					return false, err
				}
				s.block, again = ref.Number, false
			case err == seg.KeyErr && f.needsKeys:
				return false, err
			case err == seg.KeyErr:
				if s.lastEncrypted != seg {
					s.lastEncrypted = seg
					f.warn(err)
				}
				s.block = ref.Number
			case !closed && walk.window.isEnd(walk.offset):
				return true, nil // not complete yet
			case onceMore():
				continue
			default:
				f.warn(err)
			}
		} else {
			if !closed && (problem.Class == format.ProblemTorn || walk.window.isZeroHeader(problem.Start) ||
				walk.window.isEnd(walk.offset)) {
				return true, nil // not complete yet
			}
			if walk.offset < seg.Size && onceMore() {
				continue
			}
			if problem.Start > 0 { // a problem with the header was reported when the segment was opened
				f.warn(problem)
			}
		}
		if problem == nil {
			s.lastBlock = ref
		}
		s.offset, s.before = walk.offset, walk.last
	}
}

// ErrReplaced is the error of following a trail in whose place another one is, as after a restore from a backup.
var ErrReplaced = errors.New("what was read of the trail is not in its place any more")

// isInPlace returns whether the file has what was read last of the segment: the last block, or the header.
func (s *liveStream) isInPlace(file *os.File) bool {
	if s.lastBlock.Number == 0 {
		if s.segment.Err != nil {
			return true
		}
		header := make([]byte, s.segment.Header.Length())
		if _, err := file.ReadAt(header, 0); err != nil {
			return false
		}
		h, err := format.ParseSegmentHeader(header)
		return err == nil && h.Hash == s.segment.Header.Hash
	}
	header := make([]byte, format.BlockHeaderSize)
	if _, err := file.ReadAt(header, s.lastBlock.Offset); err != nil {
		return false
	}
	h, err := format.ParseBlockHeader(header)
	return err == nil && h.Number == s.lastBlock.Number && h.Chain == s.lastBlock.Chain
}

// isUnfinished returns whether the header of a segment is not complete yet.
func isUnfinished(err error) bool {
	p := format.AsProblem(err)
	return p != nil && p.Unfinished
}

// firstBlockOffset returns where the first block is, or where the search for it begins.
func (seg *Segment) firstBlockOffset() int64 {
	if seg.damaged != nil {
		return 0
	}
	return seg.Header.Length()
}

// formatBlock formats the records of the block that was just read.
func (l *Live) formatBlock(
	ctx context.Context, s *liveStream, ref *BlockRef, f Formatter, opts MergeOptions, emit func(line []byte) error,
) error {
	l.index.Streams[s.index].addLive(ref)
	f.Start(ref)
	size := 0
	var failed error
	due := func(r *format.Record) bool {
		return failed == nil && r.Time >= opts.Since && (r.Time < opts.Until || opts.Until == format.MaxTime)
	}
	maybe := func(r *format.Record) bool { return due(r) && mayKeep(f, r) }
	errs := (&joiner{ctx, l.index, l.files}).records(&l.block, ref, maybe, func(r *format.Record) {
		if r.Kind == format.KindServer && opts.Servers != nil {
			opts.Servers.Note(ref, r)
			f.Start(ref) // with the servers known by now
		}
		if !due(r) || !keeps(f, r) {
			return
		}
		line := f.Append(nil, r)
		size += len(line)
		l.batch = append(l.batch, liveLine{time: r.Time, line: line})
		if size > inMemory || len(l.batch) >= maxLines {
			size, failed = 0, l.flush(emit)
		}
	})
	for _, err := range errs {
		opts.Warn(err)
	}
	return failed
}

func (l *Live) flush(emit func(line []byte) error) error {
	slices.SortStableFunc(l.batch, func(a, b liveLine) int { return cmp.Compare(a.time, b.time) })
	for _, line := range l.batch {
		if err := emit(line.line); err != nil {
			return err
		}
	}
	clear(l.batch)
	l.batch = l.batch[:0]
	return nil
}

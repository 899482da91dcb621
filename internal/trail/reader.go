// Trails, streams and segments, and the blocks of a segment in their order, also behind
// damage.

package trail

import (
	"bytes"
	"cmp"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/cespare/xxhash/v2"
)

// Trail is a trail directory, one stream of it, or a single segment.
type Trail struct {
	Path    string
	Streams []*Stream
	// Foreign are files and folders that do not belong to a trail.
	Foreign []string
	// Errors are folders that could not be read.
	Errors []error
	// Begun says that a server has used Path, though there may be no stream yet.
	Begun bool
	// Whole says that Path is a trail or a stream, so that a segment that is
	// not there is missing.
	Whole bool

	keys *Keys
}

// Stream is one stream of a trail.
type Stream struct {
	Number   uint32
	Path     string
	Segments []*Segment // by number
	// Whole says that the folder was listed, so that a segment that is not there is
	// missing; Trail is the trail directory that it was found in, if it was.
	Whole bool
	Trail string

	missing []Span // numbers between those of segments that were there when it was listed
	keys    *Keys
}

// Segment is one file of a stream.
type Segment struct {
	Path   string
	Stream *Stream
	Number uint64 // as the file's name has it, or its header when the name says nothing
	Size   int64  // when it was opened
	Header SegmentHeader
	// Err is why the segment cannot be read. A *TornError means that even its
	// header is unfinished.
	Err error
	// KeyErr is why the payloads of an encrypted segment cannot be decrypted, a
	// *MissingKeyError as a rule.
	KeyErr error
	aead   cipher.AEAD
	// Last says that no segment of its stream follows.
	Last bool

	// damaged is the header of a segment whose blocks can be read nevertheless: Err
	// says that it is not as it was written, and Header has only what follows from
	// the file's name and from the other segments.
	damaged []byte

	twice []int64    // offsets of the blocks that count in another stream
	twins []*Segment // that have blocks of this one
}

// segmentSuffix is what the name of a segment ends with.
const segmentSuffix = ".steno"

// parseSegmentName reads the number of a segment from its file's name.
func parseSegmentName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 10 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0
}

// parseStreamName reads the number of a stream from its folder's name.
func parseStreamName(name string) (uint32, bool) {
	n, err := strconv.ParseUint(name, 10, 32)
	return uint32(n), err == nil && strconv.FormatUint(n, 10) == name
}

// Open opens a trail directory, the folder of a stream, or a segment. Only a
// path that cannot be read at all is an error; what is wrong further down is in
// the result.
func Open(path string) (*Trail, error) { return OpenEncrypted(path, nil) }

// OpenEncrypted does the same with keys for segments that are encrypted. Without
// its key, a segment can be indexed and its chain checked, but no record read.
func OpenEncrypted(path string, keys *Keys) (*Trail, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	t := &Trail{Path: path, keys: keys}
	if !info.IsDir() {
		s := &Stream{Path: filepath.Dir(path), keys: keys}
		seg := openSegment(path, s)
		seg.Last = true
		s.Number, s.Segments = seg.Header.Stream, []*Segment{seg}
		if seg.damaged != nil {
			s.Number, _ = parseStreamName(filepath.Base(absolute(s.Path)))
			seg.Number, _ = parseSegmentName(filepath.Base(path))
			seg.identify(&SegmentHeader{})
		}
		t.Streams = []*Stream{s}
		return t, nil
	}
	t.Whole = true
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { _, ok := parseSegmentName(e.Name()); return ok }) {
		s := &Stream{Path: path, Whole: true, keys: keys}
		s.Number, _ = parseStreamName(filepath.Base(path))
		t.addSegments(s, entries)
		return t, nil
	}
	for _, e := range entries {
		if isServers(e) {
			t.Begun = true
			continue
		}
		number, ok := parseStreamName(e.Name())
		p := filepath.Join(path, e.Name())
		if isOwn(e.Name()) || e.Name() == lostAndFound && e.IsDir() {
			continue
		}
		if !ok || !isDir(p, e) {
			t.Foreign = append(t.Foreign, p)
			continue
		}
		inside, err := os.ReadDir(p)
		if err != nil {
			t.Errors = append(t.Errors, err)
			continue
		}
		t.addSegments(&Stream{Number: number, Path: p, Whole: true, Trail: path, keys: keys}, inside)
	}
	slices.SortFunc(t.Streams, func(a, b *Stream) int { return cmp.Compare(a.Number, b.Number) })
	return t, nil
}

func isDir(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		return err == nil && info.IsDir()
	}
	return e.IsDir()
}

// lostAndFound is a folder at the top of some file systems. A trail can have one for itself.
const lostAndFound = "lost+found"

// isServers tells a file that the server keeps for itself.
func isServers(e fs.DirEntry) bool {
	return e.Name() == ".lock" || e.Name() == ".restoring"
}

func (t *Trail) addSegments(s *Stream, entries []fs.DirEntry) {
	for _, e := range entries {
		if isServers(e) {
			continue
		}
		p := filepath.Join(s.Path, e.Name())
		number, ok := parseSegmentName(e.Name())
		if !ok || e.IsDir() {
			t.Foreign = append(t.Foreign, p)
			continue
		}
		s.Segments = append(s.Segments, &Segment{Path: p, Number: number})
	}
	slices.SortFunc(s.Segments, func(a, b *Segment) int { return cmp.Compare(a.Number, b.Number) })
	s.openSegments()
	for i := 1; i < len(s.Segments); i++ {
		if before, n := s.Segments[i-1].Number, s.Segments[i].Number; n > before+1 {
			s.missing = append(s.missing, Span{First: before + 1, Last: n - 1})
		}
	}
	if n := len(s.Segments); n > 0 {
		s.Segments[n-1].Last = true
	}
	s.identify()
	t.Streams = append(t.Streams, s)
}

// Limit leaves out segments that were written before since or begun after until, so that an
// index of the trail takes no longer the longer the trail is. Of each stream, the last two
// stay, of which one may be empty yet, and one before the first for the parts of big records. Clocks that were set back can
// make a segment look newer than its successor: it stays.
func (t *Trail) Limit(since, until int64) {
	for _, s := range t.Streams {
		n := len(s.Segments)
		first, end := 0, n
		for i := n - 1; i >= 0; i-- {
			if seg := s.Segments[i]; seg.Err == nil && seg.Header.Created < since {
				first = max(0, i-1)
				break
			}
		}
		for end > first+1 && s.Segments[end-1].Err == nil && s.Segments[end-1].Header.Created > until {
			end--
		}
		s.Segments = slices.Concat(s.Segments[first:end], s.Segments[max(end, n-2):])
	}
}

// headersAtOnce is how many headers of segments a goroutine reads after each other.
const headersAtOnce = 256

// openSegments reads the headers of the segments, whose paths and numbers are known.
func (s *Stream) openSegments() {
	var wait sync.WaitGroup
	open := make(chan []*Segment, 1+len(s.Segments)/headersAtOnce)
	for some := range slices.Chunk(s.Segments, headersAtOnce) {
		open <- some
	}
	close(open)
	for range min(runtime.GOMAXPROCS(0), cap(open)) {
		wait.Go(func() {
			for some := range open {
				for i, seg := range some {
					some[i] = openSegment(seg.Path, s)
					some[i].Number = seg.Number
				}
			}
		})
	}
	wait.Wait()
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// identify fills in what damaged segment headers must have said: of each, what the next
// whole one says, or else the one before.
func (s *Stream) identify() {
	near := &SegmentHeader{}
	for _, seg := range s.Segments {
		if seg.Err == nil {
			near = &seg.Header
		}
	}
	for _, seg := range slices.Backward(s.Segments) {
		if seg.Err == nil {
			near = &seg.Header
		} else if seg.damaged != nil {
			seg.identify(near)
		}
	}
}

// identify fills in what a damaged segment header must have said: its place, and whose
// a segment near it is.
func (seg *Segment) identify(near *SegmentHeader) {
	seg.Header = SegmentHeader{
		SystemID: near.SystemID, Stream: seg.Stream.Number, ServerVersion: near.ServerVersion, Number: seg.Number,
	}
}

// Foreign says that a file was never a segment: neither its name nor its content is
// one's.
func (seg *Segment) Foreign() bool {
	if strings.HasSuffix(seg.Path, segmentSuffix) {
		return false
	}
	f, err := OpenFile(seg.Path)
	if err != nil {
		return errors.Is(err, errNotRegular)
	}
	defer f.Close()
	w := window{r: f, size: seg.Size}
	b, err := w.at(0, len(segmentMagic))
	return err == nil && string(b) != segmentMagic && w.resync(0, 0, false) == seg.Size
}

// Join makes one trail of several, for commands that take several arguments. What is
// named more than once, whatever its paths, is in it once.
func Join(trails ...*Trail) *Trail {
	if len(trails) == 1 {
		return trails[0]
	}
	folders, files := map[string]bool{}, map[string]bool{}
	twice := map[*Stream]bool{}
	for _, ofTrail := range []bool{true, false} { // of a stream that was named, too, the trail's counts
		for _, t := range trails {
			for _, s := range t.Streams {
				if path := realPath(s.Path); s.Whole && (s.Trail != "") == ofTrail {
					twice[s] = folders[path]
					folders[path] = true
				}
			}
		}
	}
	for _, t := range trails {
		for _, s := range t.Streams {
			if !s.Whole {
				path := realPath(s.Segments[0].Path)
				twice[s] = files[path] || folders[filepath.Dir(path)]
				files[path] = true
			}
		}
	}
	all := &Trail{keys: trails[0].keys}
	known := map[string]bool{}
	for _, t := range trails {
		all.Streams = append(all.Streams, slices.DeleteFunc(t.Streams, func(s *Stream) bool { return twice[s] })...)
		all.Whole = all.Whole || t.Whole
		if path := realPath(t.Path); !known[path] {
			known[path] = true
			all.Foreign = append(all.Foreign, t.Foreign...)
			all.Errors = append(all.Errors, t.Errors...)
			all.Path = t.Path
		}
	}
	if len(known) > 1 {
		all.Path = ""
	}
	all.markTwice()
	return all
}

// realPath is a path without links, as far as they can be followed.
func realPath(path string) string {
	path = absolute(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Size is the size of all segments in bytes.
func (t *Trail) Size() int64 {
	var n int64
	for _, s := range t.Streams {
		for _, seg := range s.Segments {
			n += seg.Size
		}
	}
	return n
}

// openSegment reads a segment's header. The file is not kept open.
func openSegment(path string, s *Stream) *Segment { return openSegmentAgain(path, s, false) }

// openSegmentAgain does the same; with again, a key that is not known is asked
// for again.
func openSegmentAgain(path string, s *Stream, again bool) *Segment {
	seg := &Segment{Path: path, Stream: s}
	f, size, err := openSized(path)
	if errors.Is(err, errNotRegular) {
		seg.Err = &CorruptionError{File: path, Reason: errNotRegular.Error()}
		return seg
	}
	if err != nil {
		seg.Err = seg.gone(err)
		return seg
	}
	defer f.Close()
	seg.Size = size
	var b [EncryptedHeaderSize]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		seg.Err = err
		return seg
	}
	if begun := b[:min(n, len(segmentMagic))]; seg.Size < SegmentHeaderSize && string(begun) == segmentMagic[:len(begun)] ||
		onlyZeros(b[:n]) && fileIsZeros(f) {
		seg.Err = &TornError{File: path, Bytes: seg.Size, Reason: fmt.Sprintf("unfinished segment header: the file is %d bytes long", seg.Size)}
		return seg
	}
	seg.Header, err = ParseSegmentHeader(b[:n])
	if torn, ok := err.(*TornError); ok {
		torn.File = path
	}
	seg.Err = inFile(err, path, 0)
	seg.Number = seg.Header.Number
	if c := (*CorruptionError)(nil); errors.As(err, &c) && n >= SegmentHeaderSize && !headerWhole(b[:n]) {
		seg.damaged = bytes.Clone(b[:n])
	}
	seg.unlock(b[:n], again)
	return seg
}

// headerWhole says whether all that a segment begins with is as it was written: a
// header that is whole, and is refused nevertheless, is of a later format.
func headerWhole(b []byte) bool {
	return SegmentHeaderWhole(b[:SegmentHeaderSize]) && binary.LittleEndian.Uint32(b[12:])&segmentEncrypted == 0 ||
		SegmentHeaderWhole(b[:SegmentHeaderSize]) && len(b) >= EncryptedHeaderSize && xxhash.Sum64(b[:200]) == binary.LittleEndian.Uint64(b[200:])
}

func fileIsZeros(f *os.File) bool {
	b := make([]byte, windowSize)
	for at := int64(0); ; at += windowSize {
		at = NextData(f, at)
		n, err := f.ReadAt(b, at)
		if err != nil && err != io.EOF || !onlyZeros(b[:n]) {
			return false
		}
		if err == io.EOF {
			return true
		}
	}
}

// BlockRef is where a block is, and what its header says that readers need
// before they read it.
type BlockRef struct {
	Segment   *Segment
	Offset    int64
	Number    uint64
	FirstTime int64
	FirstEnd  int64
	LastEnd   int64
	Stored    uint32
	Raw       uint32
	Records   uint32
	Chain     [32]byte
	// AfterDamage says that what stands before the block could not be read, so
	// that the chain cannot be followed to it.
	AfterDamage bool
	// Twice says that the block counts in another stream, of a trail that has it, too.
	Twice bool
}

// Length is the length of the block in the file.
func (r *BlockRef) Length() int64 { return BlockHeaderSize + int64(r.Stored) }

// Index reads the headers of the segment's blocks. What is wrong is in errs,
// and the index goes on with the next block that can be found.
func (seg *Segment) Index() (refs []BlockRef, errs []error) {
	if seg.Err != nil && seg.damaged == nil {
		errs = []error{seg.Err}
	} else if f, err := OpenFile(seg.Path); err != nil {
		errs = []error{seg.gone(err)}
	} else {
		defer f.Close()
		refs, errs = seg.index(f)
		for i := range refs {
			refs[i].Twice = seg.isTwice(refs[i].Offset)
		}
	}
	for _, err := range errs {
		if torn := (*TornError)(nil); errors.As(err, &torn) {
			torn.Last = seg.Last
		}
	}
	return refs, errs
}

func (seg *Segment) index(r io.ReaderAt) (refs []BlockRef, errs []error) {
	w := window{r: r, size: seg.Size}
	buf := windows.Get().(*[]byte)
	w.buf = (*buf)[:0]
	defer func() {
		*buf = w.buf
		windows.Put(buf)
	}()
	damaged, last := false, uint64(0)
	offset := seg.Header.Length()
	if seg.damaged != nil {
		if offset = w.resync(0, 0, false); offset == seg.Size {
			return nil, []error{seg.Err}
		}
		errs, damaged = append(errs, skipped(seg.Err, seg.Path, offset)), true
	}
	for offset < seg.Size {
		h, err := w.header(offset)
		if err == nil {
			if left := seg.Size - offset - BlockHeaderSize; int64(h.Stored) > left {
				if seg.Last && w.grown() {
					return refs, errs // there was room for its beginning when the segment was opened
				}
				if next := w.behind(offset, last); next < seg.Size {
					errs = append(errs, &CorruptionError{seg.Path, offset, fmt.Sprintf("block %d is incomplete: the next block begins after %d of %d bytes", h.Number, next-offset, int64(h.Stored)+BlockHeaderSize)})
					damaged, last, offset = true, h.Number, next
					continue
				}
				return refs, append(errs, &TornError{File: seg.Path, Offset: offset, Bytes: seg.Size - offset, Reason: fmt.Sprintf("unfinished block %d: %d of %d bytes", h.Number, left+BlockHeaderSize, int64(h.Stored)+BlockHeaderSize)})
			}
			refs = append(refs, BlockRef{
				Segment: seg, Offset: offset, Number: h.Number, FirstTime: h.FirstTime, FirstEnd: h.FirstEnd,
				LastEnd: h.LastEnd, Stored: h.Stored, Raw: h.Raw, Records: h.Records, Chain: h.Chain, AfterDamage: damaged,
			})
			seg.begins(&h)
			next := offset + BlockHeaderSize + int64(h.Stored)
			if damaged = false; seg.shortened(&w, offset, &h) {
				next = w.behind(offset, last)
				damaged = next < offset+BlockHeaderSize+int64(h.Stored)
			}
			last, offset = h.Number, next
			continue
		}
		if seg.Last {
			room, written := w.room(offset)
			if room {
				return refs, errs
			}
			if written {
				continue
			}
		}
		next := w.behind(offset, last)
		if next == seg.Size {
			if torn := w.torn(offset); torn != "" {
				if seg.Last && w.grown() {
					return refs, errs
				}
				return refs, append(errs, &TornError{File: seg.Path, Offset: offset, Bytes: w.unfinished(offset), Reason: torn})
			}
		}
		errs = append(errs, skipped(inFile(err, seg.Path, offset), seg.Path, next-offset))
		damaged = true
		offset = next
	}
	return refs, errs
}

// window reads headers, several at once where blocks are small.
type window struct {
	r    io.ReaderAt
	size int64
	base int64
	buf  []byte
	last int64 // offset of the header read before

	length int64   // how much is read at once; 0: windowSize
	hashed Overlap // payloads that resync has checked
}

const (
	windowSize  = 64 << 10
	smallWindow = 1 << 10
)

// windows are the buffers of windows that are no longer used: a new one for each segment would be
// most of what a query over many segments throws away.
var windows = sync.Pool{New: func() any { return new([]byte) }}

// discard makes the window read the file again. It begins with little: this may be
// called for each of many small blocks.
func (w *window) discard() {
	w.buf, w.length = w.buf[:0], smallWindow
}

// at returns up to n bytes at offset, fewer only at the end of the file.
func (w *window) at(offset int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.size-offset))
	if offset >= w.base && offset+int64(n) <= w.base+int64(len(w.buf)) {
		return w.buf[offset-w.base:][:n], nil
	}
	length := int64(n)
	if offset-w.last < windowSize/4 {
		if w.length == 0 {
			w.length = windowSize
		}
		length = max(length, w.length)
		w.length = min(2*w.length, windowSize)
	}
	length = min(length, w.size-offset)
	if int64(cap(w.buf)) < length {
		w.buf = make([]byte, max(length, windowSize))
	}
	w.buf, w.base = w.buf[:length], offset
	got, err := w.r.ReadAt(w.buf, offset)
	w.buf = w.buf[:got]
	if got < n {
		return nil, err
	}
	return w.buf[:n], nil
}

func (w *window) header(offset int64) (BlockHeader, error) {
	b, err := w.at(offset, BlockHeaderSize)
	w.last = offset
	if err != nil {
		return BlockHeader{}, err
	}
	return ParseBlockHeader(b)
}

// distant reads a header that may be far away, and leaves the window where it is.
func (w *window) distant(offset int64) (BlockHeader, error) {
	if offset >= w.base && offset+BlockHeaderSize <= w.base+int64(len(w.buf)) {
		return ParseBlockHeader(w.buf[offset-w.base:])
	}
	var b [BlockHeaderSize]byte
	n := min(BlockHeaderSize, w.size-offset)
	if got, err := w.r.ReadAt(b[:n], offset); int64(got) < n {
		return BlockHeader{}, err
	}
	return ParseBlockHeader(b[:n])
}

// room says whether nothing but zeros is left from offset on, room for blocks to come,
// or nothing at all any more. written says that a block begins there by now: the
// window's bytes were older.
func (w *window) room(offset int64) (room, written bool) {
	w.discard()
	b, err := w.at(offset, BlockHeaderSize)
	if err == io.EOF {
		return true, false // the segment was finished meanwhile
	}
	if err != nil || !onlyZeros(b) {
		if err == nil {
			_, err = ParseBlockHeader(b)
		}
		return false, err == nil
	}
	if w.blank(offset) {
		return true, false
	}
	// blocks are written in their order: one that stands behind was there later
	w.discard()
	b, err = w.at(offset, BlockHeaderSize)
	return false, err == nil && !onlyZeros(b)
}

// blank says whether there are only zeros from offset on. It reads no further than to
// the first other byte.
func (w *window) blank(offset int64) bool {
	b := make([]byte, smallWindow)
	for at := NextData(w.r, offset); at < w.size; at = NextData(w.r, at) {
		n, err := w.r.ReadAt(b[:min(int64(len(b)), w.size-at)], at)
		if !onlyZeros(b[:n]) {
			return false
		}
		if at += int64(n); err != nil {
			break
		}
		if len(b) < windowSize {
			b = make([]byte, 2*len(b))
		}
	}
	return true
}

// content is how many bytes there are from offset on, but for zeros at the end.
func (w *window) content(offset int64) int64 {
	b := make([]byte, windowSize)
	end := offset
	for at := NextData(w.r, offset); at < w.size; at = NextData(w.r, at) {
		n, err := w.r.ReadAt(b[:min(windowSize, w.size-at)], at)
		if k := len(bytes.TrimRight(b[:n], "\x00")); k > 0 {
			end = at + int64(k)
		}
		if at += int64(n); err != nil {
			break
		}
	}
	return end - offset
}

// unfinished is how long what is left from offset on is, without room.
func (w *window) unfinished(offset int64) int64 {
	n := w.content(offset)
	if left := w.size - offset; left-n < minZeros {
		return left
	}
	return n
}

// grown says whether the file is longer than when it was opened: it is being written,
// and what it had room for may be a part of a block.
func (w *window) grown() bool {
	f, ok := w.r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Size() > w.size
}

// torn says whether what is left of the file from offset on, in which no block
// starts, is an unfinished write: less than a header, or a header that has a
// part, or is followed by an end, of zeros, which file systems leave after a crash
// for what was not written yet.
func (w *window) torn(offset int64) string {
	left := w.size - offset
	if left < BlockHeaderSize {
		return fmt.Sprintf("unfinished block header: %d of %d bytes", left, BlockHeaderSize)
	}
	if b, err := w.at(offset, BlockHeaderSize); err != nil || !hasHole(b, offset, 0) {
		if b, err = w.at(w.size-minZeros, minZeros); err != nil || !endsWithZeros(b) {
			return ""
		}
	}
	return fmt.Sprintf("unfinished block: part of its header, or of the end of the file, was never written, %d bytes", w.unfinished(offset))
}

// skipped says of an error how many bytes of the file are not read because of it.
func skipped(err error, file string, n int64) error {
	var c *CorruptionError
	if errors.As(err, &c) {
		return &CorruptionError{file, c.Offset, fmt.Sprintf("%s; %d bytes skipped", c.Reason, n)}
	}
	return err
}

// OpenFile opens a file of a trail for reading. A FIFO in its place does not hold it
// up, and is refused, as are devices.
func OpenFile(path string) (*os.File, error) {
	f, _, err := openSized(path)
	return f, err
}

func openSized(path string) (f *os.File, size int64, err error) {
	if f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

var errNotRegular = errors.New("not a regular file")

// Files keeps the most recently read segments open. It may be used by many
// goroutines.
type Files struct {
	// Alone says that a block is read where it is, and nowhere else.
	Alone bool

	mu   sync.Mutex
	open []*openFile // most recently used last
}

type openFile struct {
	path string
	f    *os.File
	refs int
}

const maxOpenFiles = 64

func (fs *Files) acquire(path string) (*openFile, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i, o := range fs.open {
		if o.path == path {
			fs.open = append(slices.Delete(fs.open, i, i+1), o)
			o.refs++
			return o, nil
		}
	}
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	o := &openFile{path, f, 1}
	fs.open = append(fs.open, o)
	for i := 0; len(fs.open) > maxOpenFiles && i < len(fs.open); {
		if old := fs.open[i]; old.refs == 0 {
			old.f.Close()
			fs.open = slices.Delete(fs.open, i, i+1)
		} else {
			i++
		}
	}
	return o, nil
}

func (fs *Files) release(o *openFile) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	o.refs--
}

// Close closes all files.
func (fs *Files) Close() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, o := range fs.open {
		o.f.Close()
	}
	fs.open = nil
}

// Read reads a block into b and loads it. Of one that is damaged, and that another trail has, too, it reads that.
func (fs *Files) Read(ref *BlockRef, b *Block) error {
	err := fs.read(ref, b)
	if err == nil || fs.Alone || len(ref.Segment.twins) == 0 || err == ref.Segment.KeyErr {
		return err
	}
	if fs.readTwin(ref, b) {
		return nil
	}
	return fs.read(ref, b)
}

func (fs *Files) read(ref *BlockRef, b *Block) error {
	o, err := fs.acquire(ref.Segment.Path)
	if err != nil {
		return ref.Segment.gone(err)
	}
	defer fs.release(o)
	b.File, b.Offset, b.segment = ref.Segment.Path, ref.Offset, ref.Segment
	n := int(ref.Length())
	if cap(b.Image) < n {
		b.Image = make([]byte, n+n/8)
	}
	b.Image = b.Image[:n]
	if got, err := o.f.ReadAt(b.Image, ref.Offset); got < n {
		if err == io.EOF {
			return &CorruptionError{ref.Segment.Path, ref.Offset, fmt.Sprintf("block %d has disappeared: the file became shorter", ref.Number)}
		}
		return err
	}
	b.zerosAfter = 0
	if err := b.Load(); err != nil {
		var after [minZeros]byte
		if _, err := o.f.ReadAt(after[:], ref.Offset+int64(n)); err == nil && onlyZeros(after[:]) {
			b.zerosAfter = minZeros
		}
		return err
	}
	return nil
}

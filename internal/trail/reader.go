// Trails, streams and segments.

package trail

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Trail is a trail directory, one stream of it, or a single segment.
type Trail struct {
	Path    string
	Streams []*Stream
	// Foreign are files and folders that do not belong to the trail.
	Foreign []string
	// Errors are folders that could not be read.
	Errors []error
	// Begun says that a server has used Path, even if there is no stream yet.
	Begun bool
	// Whole says that Path is a trail or a stream, so that a segment that does not exist is missing.
	Whole bool

	keys *format.Keys
}

// Stream is one stream of a trail.
type Stream struct {
	Number   uint32
	Path     string
	Segments []*Segment // by number
	// Whole says that the folder was listed, so that a segment that does not exist is missing. Trail is the
	// directory of its trail, if it was found there.
	Whole bool
	Trail string

	missing []format.Span // missing between segments when the folder was listed
	keys    *format.Keys
}

// Segment is one file of a stream.
type Segment struct {
	Path   string
	Stream *Stream
	Number uint64 // from the file's name, or from the header if the name has none
	Size   int64  // when the segment was opened
	Header format.SegmentHeader
	// Err is why the segment cannot be read, a *format.Problem. If that is Unfinished, even the header is not
	// complete.
	Err error
	// KeyErr is why payloads of an encrypted segment cannot be decrypted, a *format.Problem: usually, the key
	// was not given.
	KeyErr error
	key    *format.DataKey
	// Last says that no later segment of its stream exists.
	Last bool

	// damaged is the header of a segment whose blocks can be read although Err says that the header is damaged.
	// Header then only has what follows from the file's name and from other segments.
	damaged []byte

	twice []int64    // offsets of the blocks that another stream has and that count there
	twins []*Segment // segments of other trails that have blocks of this one
}

// segmentSuffix ends the names of segments.
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

// Open opens a trail directory, the folder of a stream, or a segment. It returns an error only if nothing can
// be read; other problems are in the result.
func Open(path string) (*Trail, error) { return OpenEncrypted(path, nil) }

// OpenEncrypted does the same with keys for encrypted segments. Without its key, a segment can be indexed and
// its chain checked, but its records cannot be read.
func OpenEncrypted(path string, keys *format.Keys) (*Trail, error) {
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
			seg.identify(&format.SegmentHeader{})
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
		if isServerFile(e) {
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

// lostAndFound is a folder that some file systems have at the top; a trail may be there.
const lostAndFound = "lost+found"

// isServerFile returns whether a file in a trail's directory is the server's own.
func isServerFile(e fs.DirEntry) bool {
	return e.Name() == ".lock" || e.Name() == ".restoring"
}

func (t *Trail) addSegments(s *Stream, entries []fs.DirEntry) {
	for _, e := range entries {
		if isServerFile(e) {
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
			s.missing = append(s.missing, format.Span{First: before + 1, Last: n - 1})
		}
	}
	if n := len(s.Segments); n > 0 {
		s.Segments[n-1].Last = true
	}
	s.identify()
	t.Streams = append(t.Streams, s)
}

// Limit removes segments that were written before since or begun after until, so that building an index does
// not take longer the longer the trail is. It keeps the last two segments of each stream, because the last one
// may be empty, and one before the first for the parts of big records. It also keeps a segment that looks newer
// than its successor because a clock was set back.
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

// headersAtOnce is how many segment headers a goroutine reads before it takes others.
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

// identify fills in the contents of damaged segment headers from the next intact header, or from the one
// before.
func (s *Stream) identify() {
	near := &format.SegmentHeader{}
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

// identify fills in the contents of a damaged segment header: its place in the stream, and the server from a
// nearby segment.
func (seg *Segment) identify(near *format.SegmentHeader) {
	seg.Header = format.SegmentHeader{
		SystemID: near.SystemID, Stream: seg.Stream.Number, ServerVersion: near.ServerVersion, Number: seg.Number,
	}
}

// IsForeign returns whether a file was never a segment: neither its name nor its content is that of one.
func (seg *Segment) IsForeign() bool {
	if strings.HasSuffix(seg.Path, segmentSuffix) {
		return false
	}
	f, err := OpenFile(seg.Path)
	if err != nil {
		return errors.Is(err, errNotRegular)
	}
	defer f.Close()
	w := window{r: f, size: seg.Size}
	b, err := w.bytesAt(0, len(format.SegmentMagic))
	return err == nil && string(b) != format.SegmentMagic && w.resync(0, 0, false) == seg.Size
}

// Join combines several trails into one, for commands with several arguments. Streams and segments that are
// named more than once, by whatever paths, are in it once.
func Join(trails ...*Trail) *Trail {
	if len(trails) == 1 {
		return trails[0]
	}
	folders, files := map[string]bool{}, map[string]bool{}
	twice := map[*Stream]bool{}
	for _, ofTrail := range []bool{true, false} { // a stream found in its trail replaces the one named by itself
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
	all.markDuplicates()
	return all
}

// realPath returns a path without symbolic links, as far as they can be followed.
func realPath(path string) string {
	path = absolute(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Size returns the size of all segments in bytes.
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

// openSegmentAgain does the same. With again, it asks once more for a key that is not known.
func openSegmentAgain(path string, s *Stream, again bool) *Segment {
	seg := &Segment{Path: path, Stream: s}
	seg.Number, _ = parseSegmentName(filepath.Base(path))
	f, size, err := openSized(path)
	if err != nil {
		seg.Err = seg.openProblem(err)
		return seg
	}
	defer f.Close()
	seg.Size = size
	var b [format.EncryptedHeaderSize]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		seg.Err = seg.unreadable(err)
		return seg
	}
	if begun := b[:min(n, len(format.SegmentMagic))]; seg.Size < format.SegmentHeaderSize &&
		string(begun) == format.SegmentMagic[:len(begun)] ||
		format.OnlyZeros(b[:n]) && fileIsZeros(f) {
		p := seg.problem(format.ProblemTorn, 0, "unfinished segment header: the file is %d bytes long", seg.Size)
		p.Unfinished, p.Skipped, p.Rest = true, seg.Size, format.RestUnread
		seg.Err = p
		return seg
	}
	seg.Header, err = format.ParseSegmentHeader(b[:n])
	if err == nil {
		seg.Number = seg.Header.Number
	} else if p := format.AsProblem(err); p != nil {
		p.Rest = format.RestUnread
		seg.Err = p.At(path, s.Number, seg.Number, 0)
		if p.Class == format.ProblemDamaged && n >= format.SegmentHeaderSize && !format.IsHeaderIntact(b[:n]) {
			seg.damaged = bytes.Clone(b[:n])
		}
	}
	seg.unlock(b[:n], again)
	return seg
}

func fileIsZeros(f *os.File) bool {
	b := make([]byte, windowSize)
	for at := int64(0); ; at += windowSize {
		at = NextData(f, at)
		n, err := f.ReadAt(b, at)
		if err != nil && err != io.EOF || !format.OnlyZeros(b[:n]) {
			return false
		}
		if err == io.EOF {
			return true
		}
	}
}

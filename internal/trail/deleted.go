// What the server has deleted by policy, according to records and the file "retention"; segments that are
// deleted while they are read.

package trail

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Names in a trail's directory that are not streams.
const (
	SlotsFolder   = "slots"
	retentionFile = "retention"

	// maxRetention is the limit for the size of that file, enough for thousands of lines.
	maxRetention = 4 << 20
)

// isOwn returns whether a name in a trail's directory belongs to the trail, but is not a stream.
func isOwn(name string) bool {
	return name == SlotsFolder || name == retentionFile || name == retentionFile+".new" || name == FetchedFile ||
		name == FetchingFolder
}

// FetchedFile marks the directory of a trail that was copied from an object store, and FetchingFolder has what is
// being copied.
const (
	FetchedFile    = ".fetched"
	FetchingFolder = ".fetching"
)

// Deletion is the content of a deletion record: the segments of a stream that the server deleted by policy.
type Deletion struct {
	Stream       uint32
	Time         int64
	Reason       string
	FirstSegment uint64
	LastSegment  uint64
	FirstBlock   uint64
	LastBlock    uint64
	Records      uint64
	LastRecord   uint64
	Bytes        uint64
	// SinceSegment is the first segment of an unbroken series of deletions that ends with this one. The totals
	// are for that series.
	SinceSegment uint64
	TotalRecords uint64
	TotalBytes   uint64
	// Missing counts segments of the series that had already disappeared.
	Missing uint64
	// Chain is the chain hash of the last deleted block.
	Chain [32]byte
	// Unread says that the record is encrypted and its key was not given. Then this is what the file
	// "retention" says about it.
	Unread bool
}

// Covers returns whether a segment was deleted by this deletion or an earlier one of the series.
func (d *Deletion) Covers(segment uint64) bool {
	return d.SinceSegment <= segment && segment <= d.LastSegment
}

// ParseDeletion reads a deletion record; ok is false if it is none, or not complete.
func ParseDeletion(r *format.Record) (d Deletion, ok bool) {
	if event, _ := r.ExtraValue("event"); r.Kind != format.KindServer || string(event) != "deleted" {
		return d, false
	}
	ok = true
	number := func(name string, bits int) uint64 {
		value, _ := r.ExtraValue(name)
		n, err := strconv.ParseUint(string(value), 10, bits)
		ok = ok && err == nil
		return n
	}
	d.Time, d.Stream = r.Time, uint32(number("stream", 32))
	d.FirstSegment, d.LastSegment = number("first_segment", 63), number("last_segment", 63)
	d.FirstBlock, d.LastBlock = number("first_block", 63), number("last_block", 63)
	d.Records, d.LastRecord, d.Bytes = number("records", 63), number("last_record", 63), number("bytes", 63)
	d.SinceSegment = number("since_segment", 63)
	d.TotalRecords, d.TotalBytes = number("total_records", 63), number("total_bytes", 63)
	if _, there := r.ExtraValue("missing"); there {
		d.Missing = number("missing", 63)
	}
	reason, _ := r.ExtraValue("reason")
	d.Reason = string(reason)
	chain, _ := r.ExtraValue("chain")
	n, err := hex.Decode(d.Chain[:], chain[:min(len(chain), 64)])
	ok = ok && err == nil && n == 32 && len(chain) == 64 &&
		0 < d.SinceSegment && d.SinceSegment <= d.FirstSegment && d.FirstSegment <= d.LastSegment
	return d, ok
}

// DeletionsIn returns the latest deletion record of each stream of the trail in a directory, in the order of
// streams. The file "retention" says in which blocks these records are; only the records themselves are
// trusted.
func DeletionsIn(path string, keys *format.Keys) []Deletion {
	file, err := OpenFile(filepath.Join(path, retentionFile))
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(file, maxRetention))
	file.Close()
	if err != nil {
		return nil
	}
	files := &Files{}
	defer files.Close()
	latest := map[uint32]Deletion{}
	lines := strings.Split(string(text), "\n")
	if lines[0] != "pg_steno retention 1" {
		return nil
	}
	for _, line := range lines[1:] {
		p, ok := parsePlace(line)
		if !ok {
			continue
		}
		if _, known := latest[p.about]; known {
			continue
		}
		if d, ok := files.deletionAt(path, p, keys); ok {
			latest[p.about] = d
		}
	}
	var all []Deletion
	for _, d := range latest {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Deletion) int { return int(a.Stream) - int(b.Stream) })
	return all
}

// DeletionsErr returns why the file that says where the deletion records are cannot be read; nil: it can, or
// does not exist.
func DeletionsErr(path string) error {
	file, err := OpenFile(filepath.Join(path, retentionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		file.Close()
	}
	return err
}

// Deletions returns the latest deletion record of each stream in the same trail.
func (s *Stream) Deletions() []Deletion { return DeletionsIn(filepath.Dir(s.Path), s.keys) }

// place is where a deletion record is, according to a line of the file.
type place struct {
	about    uint32 // the stream whose segments were deleted
	last     uint64 // the last deleted segment
	deletion Deletion
	hash     [32]byte // chain hash of the block
	known    bool     // says and hash are known
	stream   uint32
	seg      uint64
	offset   uint64
	block    uint64
}

func parsePlace(line string) (p place, ok bool) {
	words := strings.Split(line, " ")
	ok = true
	// after returns the n-th number after a word.
	after := func(word string, n int, most uint64) uint64 {
		i := slices.Index(words, word)
		if i < 0 || i+n >= len(words) {
			ok = false
			return 0
		}
		v, err := strconv.ParseUint(words[i+n], 10, 64)
		ok = ok && err == nil && v <= most
		return v
	}
	p.about = uint32(after("stream", 1, math.MaxUint32))
	p.last = after("segments", 2, math.MaxInt64)
	p.stream, p.seg = uint32(after("at", 1, math.MaxUint32)), after("at", 2, math.MaxInt64)
	p.offset, p.block = after("at", 3, math.MaxInt64), after("at", 4, math.MaxInt64)
	if !ok {
		return p, false
	}
	d := &p.deletion
	d.Stream, d.SinceSegment = p.about, after("since", 1, math.MaxInt64)
	d.FirstSegment, d.LastSegment = after("segments", 1, math.MaxInt64), p.last
	d.FirstBlock, d.LastBlock = after("blocks", 1, math.MaxInt64), after("blocks", 2, math.MaxInt64)
	d.LastRecord, d.Bytes = after("records", 2, math.MaxInt64), after("bytes", 1, math.MaxInt64)
	d.Records = d.LastRecord + 1 - after("records", 1, math.MaxInt64)
	d.TotalRecords, d.TotalBytes = after("total", 1, math.MaxInt64), after("total", 2, math.MaxInt64)
	d.Missing = after("missing", 1, math.MaxInt64)
	d.Unread = true
	if i := slices.Index(words, "reason"); i >= 0 && i+1 < len(words) {
		d.Reason = words[i+1]
	}
	hash := func(word string, to *[32]byte) {
		i := slices.Index(words, word)
		ok = ok && i >= 0 && i+1 < len(words) && len(words[i+1]) == 64
		if ok {
			_, err := hex.Decode(to[:], []byte(words[i+1]))
			ok = err == nil
		}
	}
	hash("chain", &d.Chain)
	hash("block", &p.hash)
	p.known = ok && d.SinceSegment > 0 && d.SinceSegment <= d.FirstSegment && d.FirstSegment <= d.LastSegment
	return p, true
}

// deletionAt reads the deletion record at a place; false: it is not there.
func (fs *Files) deletionAt(path string, p place, keys *format.Keys) (Deletion, bool) {
	stream := &Stream{
		Number: p.stream,
		Path:   filepath.Join(path, strconv.FormatUint(uint64(p.stream), 10)),
		keys:   keys,
	}
	file := filepath.Join(stream.Path, fmt.Sprintf("%010d%s", p.seg, segmentSuffix))
	if _, err := os.Lstat(file); err != nil {
		return Deletion{}, false // without asking again whether this segment was deleted, too
	}
	seg := openSegment(file, stream)
	if seg.Err != nil || int64(p.offset) > seg.Size-format.BlockHeaderSize {
		return Deletion{}, false
	}
	o, err := fs.acquire(seg.Path)
	if err != nil {
		return Deletion{}, false
	}
	w := window{r: o.f, size: seg.Size}
	h, err := w.header(int64(p.offset))
	fs.release(o)
	if err != nil || h.Number != p.block || int64(h.Stored) > seg.Size-int64(p.offset)-format.BlockHeaderSize {
		return Deletion{}, false
	}
	var b format.Block
	if err := fs.Read(&BlockRef{
		Segment: seg,
		Offset:  int64(p.offset),
		Number:  h.Number,
		Stored:  h.Stored,
		Raw:     h.Raw,
	}, &b); err != nil {
		return p.deletion, p.known && p.hash == h.Chain && seg.KeyErr != nil && err == seg.KeyErr
	}
	var r format.Record
	for b.Next(&r) == nil {
		if d, ok := ParseDeletion(&r); ok && d.Stream == p.about && d.LastSegment == p.last {
			return d, true
		}
	}
	return Deletion{}, false
}

// deletedByPolicy returns whether a record in the trail as it is now says that the segment was deleted. The
// server writes that record before it deletes.
func (seg *Segment) deletedByPolicy() bool {
	return slices.ContainsFunc(DeletionsIn(filepath.Dir(seg.Stream.Path), seg.Stream.keys), func(d Deletion) bool {
		return d.Stream == seg.Stream.Number && d.Covers(seg.Number)
	})
}

// disappearance returns the problem that the segment, or a part of it, disappeared after the trail was opened
// and before it was read.
func (seg *Segment) disappearance(what string) *format.Problem {
	p := seg.problem(format.ProblemMissing, format.NoOffset,
		"%s has disappeared, and there is no record of its deletion", what)
	if seg.deletedByPolicy() {
		p = seg.problem(format.ProblemDeleted, format.NoOffset,
			"%s was deleted by retention before it was read", what)
	}
	p.Numbers, p.Rest = format.Span{First: seg.Number, Last: seg.Number}, format.RestUnread
	return p
}

// IsGone returns whether an error says that a segment, or a part of it, disappeared before it was read.
func IsGone(err error) bool {
	p := format.AsProblem(err)
	return p != nil && (p.Class == format.ProblemDeleted || p.Class == format.ProblemMissing)
}

// openProblem returns the problem that the segment's file cannot be opened.
func (seg *Segment) openProblem(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return seg.disappearance("the segment")
	case errors.Is(err, errNotRegular):
		return seg.problem(format.ProblemDamaged, 0, "%s", errNotRegular)
	}
	return seg.unreadable(err)
}

// hole is a range of segments missing in the middle of a stream that were not deleted by policy.
type hole struct {
	stream        *Stream
	numbers       format.Span
	before, after *SegmentIndex
}

// missingSegments returns the problem that segments are missing between others, and no record says that the
// server deleted them.
func (s *Stream) missingSegments(n format.Span) *format.Problem {
	p := &format.Problem{
		Class: format.ProblemMissing, File: s.Path, Offset: format.NoOffset, Stream: s.Number,
		Segment: n.First, Numbers: n,
		Reason: fmt.Sprintf("segments %d to %d are missing, and were not deleted by retention", n.First, n.Last),
	}
	if n.First == n.Last {
		p.Reason = fmt.Sprintf("segment %d is missing, and was not deleted by retention", n.First)
	}
	return p
}

// missing returns the holes of the stream between segments of the index.
func (s *StreamIndex) missing() (all []hole) {
	if len(s.Stream.missing) == 0 {
		return nil
	}
	var deleted []format.Span
	for _, d := range s.Stream.Deletions() {
		if d.Stream == s.Stream.Number {
			deleted = append(deleted, format.Span{First: d.SinceSegment, Last: d.LastSegment})
		}
	}
	slices.SortFunc(deleted, format.Span.Compare)
	at := func(number uint64) *SegmentIndex {
		i := slices.IndexFunc(s.Segments, func(segment SegmentIndex) bool { return segment.Segment.Number == number })
		if i < 0 {
			return nil
		}
		return &s.Segments[i]
	}
	for _, m := range s.Stream.missing {
		before, after := at(m.First-1), at(m.Last+1)
		if before == nil || after == nil {
			continue
		}
		for _, left := range format.Uncovered(deleted, m.First, m.Last+1) {
			all = append(all, hole{s.Stream, left, before, after})
		}
	}
	return all
}

// missingSegments returns the problems with missing segments that may have had records of these times, in
// wanted blocks.
func (x *Index) missingSegments(since, until int64, wanted func(*BlockRef) bool) (errs []error) {
	for _, h := range x.holes {
		outside := h.before.Records > 0 && until != format.MaxTime && h.before.FirstTime >= until ||
			h.after.Records > 0 && h.after.LastEnd < since
		first := BlockRef{Segment: &Segment{Stream: h.stream, Number: h.numbers.First},
			Number: h.before.last.Number + 1}
		last := BlockRef{Segment: &Segment{Stream: h.stream, Number: h.numbers.Last},
			Number: max(first.Number, h.after.Segment.Header.FirstBlock-1)}
		if !outside && (wanted == nil || wanted(&first) || wanted(&last)) {
			errs = append(errs, h.stream.missingSegments(h.numbers))
		}
	}
	return errs
}

// lostBefore returns whether a segment that can have parts of a block's records was deleted by policy after the
// index was built. That may be the block's own segment, after the block was read.
func (x *Index) lostBefore(ref *BlockRef) bool {
	for i := range x.Streams {
		for _, seg := range x.Streams[i].Stream.Segments {
			if seg.Stream == ref.Segment.Stream && seg.Number > ref.Segment.Number {
				break
			}
			if _, err := os.Lstat(seg.Path); errors.Is(err, fs.ErrNotExist) {
				return seg.deletedByPolicy()
			}
		}
	}
	return false
}

// beginsAfter returns whether a stream of the index begins after a session began, so that the session's first
// records may have been deleted.
func (x *Index) beginsAfter(session *format.Session) bool {
	return slices.ContainsFunc(x.Streams, func(s StreamIndex) bool {
		if len(s.Stream.Segments) == 0 {
			return false
		}
		first := s.Stream.Segments[0]
		return first.Number > 1 && first.Header.Created >= session.Start
	})
}

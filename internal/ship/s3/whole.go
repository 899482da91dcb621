// Finished segments, as a whole.

package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Manifest is what is written beside a whole segment.
type Manifest struct {
	Version    int    `json:"version"`
	SystemID   uint64 `json:"system_id,string"`
	Stream     uint32 `json:"stream"`
	Segment    uint64 `json:"segment"`
	FirstBlock uint64 `json:"first_block,omitempty"`
	LastBlock  uint64 `json:"last_block,omitempty"`
	Blocks     uint64 `json:"blocks"`
	Records    uint64 `json:"records"`
	Bytes      int64  `json:"bytes"`
	SHA256     string `json:"sha256"`
	// Before and Chain are the chain hashes of the last block before the segment, and of its last one.
	Before string `json:"before,omitempty"`
	Chain  string `json:"chain,omitempty"`
	// FirstTime and LastTime are those of its records, in UTC.
	FirstTime *time.Time `json:"first_time,omitempty"`
	LastTime  *time.Time `json:"last_time,omitempty"`
	Object    string     `json:"object"`
}

// maxWhole is the size of an object that can be written at once. A longer segment stays in parts.
const maxWhole = 5 << 30

func nextPath(segment *ship.Segment) string {
	return filepath.Join(filepath.Dir(segment.Path), fmt.Sprintf("%010d.steno", segment.Number+1))
}

// nextSegment returns the segment after another one, as its header describes it; nil: it cannot be read.
func nextSegment(segment *ship.Segment) (next *ship.Segment, system uint64) {
	next = &ship.Segment{Path: nextPath(segment), Number: segment.Number + 1, Stream: segment.Stream}
	file, err := trail.OpenFile(next.Path)
	if err != nil {
		return nil, 0
	}
	defer file.Close()
	b := make([]byte, format.EncryptedHeaderSize)
	n, err := file.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, 0
	}
	h, err := format.ParseSegmentHeader(b[:n])
	if err != nil {
		return nil, 0
	}
	next.Header, next.FirstBlock = b[:h.Length()], h.FirstBlock
	return next, h.SystemID
}

// isFinished returns whether the server has begun the next segment.
func isFinished(segment *ship.Segment) bool {
	info, err := os.Stat(nextPath(segment))
	return err == nil && info.Mode().IsRegular() && info.Size() >= format.SegmentHeaderSize
}

// putWhole stores the file of a segment, and its manifest, and returns the file as it was then. It is nil if that
// cannot be done: the file is too long, does not exist any more, or is not the segment of which last is a block. Last
// may be nil.
func (s *store) putWhole(
	ctx context.Context, system uint64, segment *ship.Segment, last *ship.Block,
) (os.FileInfo, error) {
	file, err := trail.OpenFile(segment.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() > maxWhole || !isOf(file, segment, last) {
		return nil, err
	}
	m, o, err := describe(file, info.Size(), segment)
	if err != nil {
		return nil, err
	}
	b := body{}
	b.add(file, m.Bytes)
	sum, err := b.sum()
	if err != nil {
		return nil, err
	}
	o.content = idOf(sum)
	m.SystemID, m.SHA256, m.Object = system, hex.EncodeToString(sum[:]), o.name()
	prefix := s.streamPrefix(system, segment.Stream)
	if err := s.put(ctx, prefix+o.name(), &b, sum); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	b = body{}
	b.add(text, int64(len(text)))
	return info, s.put(ctx, prefix+o.base()+manifestSuffix, &b, sha256.Sum256(text))
}

// isOf returns whether a file has the header of a segment, and a block of it.
func isOf(file io.ReaderAt, segment *ship.Segment, last *ship.Block) bool {
	header := make([]byte, len(segment.Header))
	if _, err := file.ReadAt(header, 0); err != nil && len(header) > 0 || string(header) != string(segment.Header) {
		return false
	}
	if last == nil || last.Place.Block == 0 {
		return true
	}
	b := make([]byte, format.BlockHeaderSize)
	if _, err := file.ReadAt(b, last.Offset); err != nil {
		return false
	}
	h, err := format.ParseBlockHeader(b)
	return err == nil && h.Number == last.Place.Block && h.Chain == last.Chain
}

// describe reads the headers of a segment's blocks.
func describe(file *os.File, size int64, segment *ship.Segment) (*Manifest, *object, error) {
	t, err := trail.Open(segment.Path)
	if err != nil {
		return nil, nil, err
	}
	seg := t.Streams[0].Segments[0]
	m := &Manifest{Version: 1, Stream: segment.Stream, Segment: segment.Number, Bytes: size}
	o := &object{segment: segment.Number, whole: true}
	if seg.Err == nil {
		o.before, o.chain = idOf(seg.Header.PreviousHash), idOf(seg.Header.PreviousHash)
		m.Before = hex.EncodeToString(seg.Header.PreviousHash[:])
		m.Chain = m.Before
	}
	first, end := int64(math.MaxInt64), int64(math.MinInt64)
	err = eachRef(seg, file, size, func(ref *trail.BlockRef) {
		if m.Blocks == 0 {
			m.FirstBlock = ref.Number
		}
		m.FirstBlock, m.LastBlock = min(m.FirstBlock, ref.Number), max(m.LastBlock, ref.Number)
		m.Blocks++
		m.Chain, o.chain = hex.EncodeToString(ref.Chain[:]), idOf(ref.Chain)
		if ref.Records > 0 {
			m.Records += uint64(ref.Records)
			first, end = min(first, ref.FirstTime), max(end, ref.LastEnd)
		}
	})
	if m.Records > 0 {
		from, to := query.Moment(first).UTC(), query.Moment(end).UTC()
		m.FirstTime, m.LastTime = &from, &to
	}
	o.first, o.last = m.FirstBlock, m.LastBlock
	return m, o, err
}

// eachRef calls a function for each block of a finished segment.
func eachRef(seg *trail.Segment, file *os.File, size int64, f func(*trail.BlockRef)) error {
	if seg.Err != nil {
		seg.Last = false
		refs, _ := seg.Index()
		for i := range refs {
			f(&refs[i])
		}
		return nil
	}
	walk := seg.Walk(file, seg.Header.Length(), size, false)
	for {
		ref, problem, ok := walk.Next()
		switch {
		case !ok:
			return nil
		case problem != nil && problem.Class == format.ProblemUnreadable:
			return problem
		case problem == nil:
			f(&ref)
		}
	}
}

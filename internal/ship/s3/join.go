// From objects to segments.

package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// line is one content of a segment: a whole object, or parts that follow each other. A segment has several if its
// stream went back, or if its file was changed between the parts and the whole.
type line struct {
	path    string
	kept    bool      // path is the file of an earlier fetch
	since   time.Time // when its beginning was written first
	parts   []*stored // what it is made of
	parent  *line     // it has the beginning of this line, up to the offset left; nil: of none
	left    int64
	before  id // of the segment before
	end     int64
	chain   id
	full    [32]byte     // the hash of which chain is the beginning; zeros: damaged bytes are at the end
	last    uint64       // number of the last block
	blocks  map[id]int64 // where intact blocks end, by their chain hashes
	damaged bool         // something in it is no intact block, or has no right chain hash
	whole   bool
}

// scan reads what is in the file of a line from an offset on.
func (l *line) scan(file *os.File, from int64) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	chain := l.full
	known := from == l.end && chain != [32]byte{}
	if from == 0 {
		l.blocks = map[id]int64{}
		b := make([]byte, min(format.EncryptedHeaderSize, info.Size()))
		if _, err := file.ReadAt(b, 0); err != nil {
			return err
		}
		if h, err := format.ParseSegmentHeader(b); err == nil {
			l.before, l.chain = idOf(h.PreviousHash), idOf(h.PreviousHash)
			chain, known, from = h.Hash, true, h.Length()
		} else {
			l.damaged, known = true, false
		}
	}
	var image []byte
	walk := (&trail.Segment{Path: file.Name()}).Walk(file, from, info.Size(), false)
	for {
		ref, problem, ok := walk.Next()
		if !ok {
			break
		}
		if problem != nil {
			l.damaged, known = true, false
			continue
		}
		if n := int(ref.Length()); cap(image) < n {
			image = make([]byte, n+n/8)
		}
		b := format.Block{Image: image[:ref.Length()]}
		if _, err := file.ReadAt(b.Image, ref.Offset); err != nil {
			return err
		}
		intact := b.CheckStored() == nil
		if !intact || known && !follows(b.Image, chain) {
			l.damaged = true
		}
		chain, known = ref.Chain, true
		l.chain, l.last = idOf(chain), ref.Number
		if intact {
			l.blocks[l.chain] = ref.Offset + ref.Length()
		}
	}
	if l.end, l.full = info.Size(), chain; !known {
		l.full = [32]byte{}
	}
	return nil
}

// has returns whether the content of a part is in the line. Chain hashes tell, unless something is damaged.
func (l *line) has(p *stored) bool {
	if end, ok := l.blocks[p.chain]; !l.damaged {
		return ok && end == p.end()
	}
	file, err := os.Open(l.path)
	if err != nil || p.end() > l.end {
		return false
	}
	defer file.Close()
	h := sha256.New()
	_, err = io.Copy(h, io.NewSectionReader(file, p.from, p.size))
	return err == nil && idOf([32]byte(h.Sum(nil))) == p.content
}

// leadsTo returns whether a part begins inside the line, after what was before it.
func (l *line) leadsTo(p *stored) bool {
	if p.from == 0 {
		return l.before == p.before
	}
	end, ok := l.blocks[p.before]
	return ok && end == p.from
}

// way is one way on of a stream.
type way struct{ chain id }

// stream fetches a stream, and returns how many ways on it has.
func (f *fetcher) stream(ctx context.Context, stream uint32) (int, error) {
	var ways []way
	for objects, err := range f.segments(ctx, stream) {
		if err != nil {
			return 0, err
		}
		lines, err := f.lines(ctx, stream, objects)
		if err != nil {
			return 0, fmt.Errorf("segment %d: %w", objects[0].segment, err)
		}
		if ways, err = f.place(stream, objects[0].segment, lines, ways); err != nil {
			return 0, err
		}
	}
	return len(ways), nil
}

// sinceAt returns when what a line has behind an offset was written first.
func (l *line) sinceAt(offset int64) time.Time {
	since := time.Time{}
	for _, p := range l.parts {
		if p.end() > offset && (since.IsZero() || p.since.Before(since)) {
			since = p.since
		}
	}
	return since
}

// order sorts lines by when they were written first. Of two that have a beginning in common, what is behind it counts.
func order(lines []*line) {
	at := map[*line]time.Time{}
	for _, l := range lines { // parents come first
		at[l] = l.since
		if l.parent == nil {
			continue
		}
		own, theirs := l.sinceAt(l.left), l.parent.sinceAt(l.left)
		switch parent := at[l.parent]; {
		case own.Before(theirs):
			at[l] = parent.Add(-1)
		case own.After(parent):
			at[l] = own
		default:
			at[l] = parent
		}
	}
	slices.SortStableFunc(lines, func(a, b *line) int { return at[a].Compare(at[b]) })
}

// place gives the lines of a segment to the ways that they continue. A way that has several continuations becomes
// several ways.
func (f *fetcher) place(stream uint32, segment uint64, lines []*line, ways []way) ([]way, error) {
	order(lines)
	was := slices.Clone(ways)
	n := len(was)
	taken := map[int]bool{}
	for _, l := range lines {
		to, parent := -1, 0
		for i := range n {
			if was[i].chain != l.before {
				continue
			}
			if parent = i; !taken[i] {
				to = i
				break
			}
		}
		if to < 0 && !slices.ContainsFunc(was, func(w way) bool { return w.chain == l.before }) {
			// what is before it is not there, or its header is damaged
			for i := range n {
				if !taken[i] {
					to = i
					break
				}
			}
		}
		if to < 0 {
			to = len(ways)
			ways = append(ways, way{})
			if to > 0 {
				if err := f.mark(f.dir(to)); err != nil {
					return nil, err
				}
			}
			if to > 0 {
				f.o.Note(fmt.Sprintf("stream %d, segment %d: it is there %d times, with different blocks; this one ends "+
					"with block %d and is in %s", stream, segment, len(taken)+1, l.last, f.dir(to)))
				if n > 0 {
					if err := f.linkBefore(f.dir(parent), f.dir(to), stream, segment); err != nil {
						return nil, err
					}
				}
			}
		}
		taken[to] = true
		ways[to].chain = l.chain
		if err := f.keep(l, segmentPath(f.dir(to), stream, segment)); err != nil {
			return nil, err
		}
	}
	return ways, nil
}

// keep makes a line the file of a segment.
func (f *fetcher) keep(l *line, path string) error {
	f.result.Segments++
	if l.kept && l.path == path {
		return nil
	}
	if l.kept {
		return f.link(l.path, path)
	}
	f.result.New++
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.Rename(l.path, path)
}

// lines makes the contents of a segment from its objects.
func (f *fetcher) lines(ctx context.Context, stream uint32, objects []*stored) (lines []*line, err error) {
	var parts []*stored
	old := f.earlier(stream, objects[0].segment)
	for _, o := range objects {
		if !o.whole {
			parts = append(parts, o)
			continue
		}
		l, err := f.wholeLine(ctx, o, old)
		if errors.Is(err, errContent) {
			f.o.Warn(err.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(parts, func(a, b *stored) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.size, a.size), cmp.Compare(a.key, b.key))
	})
	for _, path := range old {
		if l := keptLine(path, parts, lines); l != nil {
			lines = append(lines, l)
		}
	}
	stop := f.readAhead(ctx, slices.DeleteFunc(slices.Clone(parts), func(p *stored) bool {
		return slices.ContainsFunc(lines, func(l *line) bool { return l.has(p) })
	}))
	defer stop()
	for _, p := range parts {
		lines, err = f.addPart(ctx, lines, p)
		if p.release != nil {
			p.release()
		}
		if errors.Is(err, errContent) {
			f.o.Warn(err.Error())
		} else if err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// earlier returns the files of a segment that earlier fetches have made.
func (f *fetcher) earlier(stream uint32, segment uint64) (all []string) {
	for i := 0; ; i++ {
		if _, err := os.Lstat(f.dir(i)); err != nil {
			return all
		}
		path := segmentPath(f.dir(i), stream, segment)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			all = append(all, path)
		}
	}
}

func (f *fetcher) wholeLine(ctx context.Context, o *stored, old []string) (*line, error) {
	l := &line{since: o.since, whole: true, parts: []*stored{o}}
	for _, path := range old {
		if hasContent(path, o) {
			file, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			defer file.Close()
			l.path, l.kept = path, true
			return l, l.scan(file, 0)
		}
	}
	file, err := f.tempFile()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l.path = file.Name()
	if err := f.download(ctx, o, file, 0); err != nil {
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, err
	}
	return l, l.scan(file, 0)
}

// keptLine returns the line of a file of an earlier fetch, if it is made of parts that are there, and intact.
func keptLine(path string, parts []*stored, lines []*line) *line {
	if slices.ContainsFunc(lines, func(l *line) bool { return l.path == path }) {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	l := &line{path: path, kept: true}
	if err := l.scan(file, 0); err != nil || l.damaged && !l.isMadeOf(parts) {
		return nil
	}
	first := slices.IndexFunc(parts, func(p *stored) bool { return p.from == 0 && l.has(p) })
	last := slices.IndexFunc(parts, func(p *stored) bool { return p.end() == l.end && l.has(p) })
	if first < 0 || last < 0 || slices.ContainsFunc(lines, func(l *line) bool { return l.has(parts[last]) }) {
		return nil
	}
	l.since = parts[first].since
	for _, p := range parts {
		if l.has(p) {
			l.parts = append(l.parts, p)
		}
	}
	return l
}

// isMadeOf returns whether each byte of a line is in one of the parts.
func (l *line) isMadeOf(parts []*stored) bool {
	end := int64(0)
	for _, p := range parts { // they are sorted by their beginnings
		if p.from <= end && p.end() > end && l.has(p) {
			end = p.end()
		}
	}
	return end == l.end
}

// addPart adds a part to the lines: to one that it continues, or as a new one.
func (f *fetcher) addPart(ctx context.Context, lines []*line, p *stored) ([]*line, error) {
	known := false
	var in []*line
	for _, l := range lines {
		switch {
		case l.has(p):
			in = append(in, l)
			known = true
		case p.from == l.end && p.before == l.chain && l.end > 0 && !l.whole:
			if err := f.extend(ctx, l, p); err != nil {
				return lines, err
			}
			known = true
		}
	}
	if len(in) == 1 { // what several ways have tells nothing of any of them
		in[0].noteSince(p)
	}
	if known {
		return lines, nil
	}
	part, err := f.tempFile()
	if err != nil {
		return lines, err
	}
	defer os.Remove(part.Name())
	defer part.Close()
	if err := f.download(ctx, p, part, 0); err != nil {
		return lines, err
	}
	var parent *line
	for _, l := range lines {
		if l.end < p.from || !l.leadsTo(p) {
			continue
		}
		same, err := sameBytes(l.path, p.from, part, min(l.end, p.end())-p.from)
		switch {
		case err != nil:
			return lines, err
		case same && p.end() <= l.end:
			l.noteSince(p)
			return lines, nil
		case same && !l.whole:
			return lines, f.append(l, part, p)
		}
		if parent = l; l.whole && l.damaged && !same {
			f.o.Warn(fmt.Sprintf("%s: it is not what the whole segment, which was stored later, has in this place", p.key))
		}
	}
	l := &line{since: p.since, parts: []*stored{p}}
	if parent == nil && p.from > 0 { // what was before it is not there
		for _, one := range lines {
			if one.end <= p.from && !one.whole && (parent == nil || one.end > parent.end) {
				parent = one
			}
		}
		begin := int64(0)
		if parent != nil {
			begin = parent.end
		}
		f.o.Warn(fmt.Sprintf("segment %d: bytes %d to %d are not in the bucket; the file has zeros there", p.segment,
			begin, p.from-1))
		if parent != nil {
			return lines, f.append(parent, part, p)
		}
	}
	var file *os.File
	if parent != nil {
		l.parent, l.left = parent, p.from
		file, err = f.copyOf(parent.path, p.from)
	} else {
		file, err = f.tempFile()
	}
	if err != nil {
		return lines, err
	}
	defer file.Close()
	l.path = file.Name()
	if err := copyTo(file, part, p.from); err != nil {
		return lines, err
	}
	return append(lines, l), l.scan(file, 0)
}

func (l *line) noteSince(p *stored) {
	l.parts = append(l.parts, p)
	if p.since.Before(l.since) {
		l.since = p.since
	}
}

// own makes the file of a line one that can be changed.
func (f *fetcher) own(l *line) (*os.File, error) {
	if !l.kept {
		return os.OpenFile(l.path, os.O_RDWR, 0)
	}
	file, err := f.copyOf(l.path, l.end)
	if err == nil {
		l.path, l.kept = file.Name(), false
	}
	return file, err
}

// extend downloads a part to the end of a line.
func (f *fetcher) extend(ctx context.Context, l *line, p *stored) error {
	file, err := f.own(l)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := f.download(ctx, p, file, p.from); err != nil {
		_ = file.Truncate(l.end)
		return err
	}
	return l.grow(file, p.from)
}

// append copies what is new in a part to the end of a line.
func (f *fetcher) append(l *line, part *os.File, p *stored) error {
	file, err := f.own(l)
	if err != nil {
		return err
	}
	defer file.Close()
	l.parts = append(l.parts, p)
	if err := copyTo(file, part, p.from); err != nil {
		return err
	}
	return l.grow(file, min(l.end, p.from))
}

// grow reads what was added to a line.
func (l *line) grow(file *os.File, from int64) error {
	if err := file.Sync(); err != nil {
		return err
	}
	return l.scan(file, from)
}

func copyTo(to, from *os.File, at int64) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(io.NewOffsetWriter(to, at), from); err != nil {
		return err
	}
	return to.Sync()
}

// sameBytes returns whether a file has, at an offset, the first n bytes of another one.
func sameBytes(path string, at int64, other *os.File, n int64) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	a, b := make([]byte, 256<<10), make([]byte, 256<<10)
	for done := int64(0); done < n; {
		k := min(int64(len(a)), n-done)
		if _, err := file.ReadAt(a[:k], at+done); err != nil {
			return false, err
		}
		if _, err := other.ReadAt(b[:k], done); err != nil {
			return false, err
		}
		if !bytes.Equal(a[:k], b[:k]) {
			return false, nil
		}
		done += k
	}
	return true, nil
}

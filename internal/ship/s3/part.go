// Parts of segments that are not finished.

package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// sendPart stores blocks of a segment, and what is between them and what was stored before.
func (s *sink) sendPart(ctx context.Context, t *tail, blocks []ship.Block) error {
	last := &blocks[len(blocks)-1]
	if t.end > 0 && t.first == blocks[0].Place.Block && t.chain == last.Chain {
		return nil // the same blocks again
	}
	file, err := trail.OpenFile(t.segment.Path)
	switch {
	case err == nil:
		defer file.Close()
		err = s.sendRange(ctx, t, blocks, file)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		// the file became shorter: it is another one now
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for len(blocks) > 0 { // what is between blocks cannot be had any more
		n := 1
		for n < len(blocks) && blocks[n].Offset == endOf(&blocks[n-1]) {
			n++
		}
		if err := s.sendRange(ctx, t, blocks[:n], nil); err != nil {
			return err
		}
		blocks = blocks[n:]
	}
	return nil
}

func endOf(b *ship.Block) int64 { return b.Offset + int64(len(b.Image)) }

// sendRange stores blocks of a segment, and what is between them in its file. Without a file, nothing may be between.
func (s *sink) sendRange(ctx context.Context, t *tail, blocks []ship.Block, file *os.File) error {
	first, last := &blocks[0], &blocks[len(blocks)-1]
	from, before := t.end, t.chain
	if from == 0 || from != first.Offset || !follows(first.Image, before) {
		var err error
		if from, before, err = previous(file, t.segment, first); err != nil {
			return err
		}
	}
	b := body{}
	at := from
	if n := int64(len(t.segment.Header)); at == 0 && n > 0 && n <= first.Offset {
		b.add(t.segment.Header, n)
		at = n
	}
	for i := range blocks {
		if gap := blocks[i].Offset - at; gap > 0 {
			b.add(io.NewSectionReader(file, at, gap), gap)
		}
		b.add(blocks[i].Image, int64(len(blocks[i].Image)))
		at = endOf(&blocks[i])
	}
	sum, err := b.sum()
	if err != nil {
		return err
	}
	o := object{
		segment: t.segment.Number, from: from, first: first.Place.Block, last: last.Place.Block,
		before: idOf(before), chain: idOf(last.Chain), content: idOf(sum),
	}
	if err := s.store.put(ctx, s.store.streamPrefix(t.system, t.segment.Stream)+o.name(), &b, sum); err != nil {
		return err
	}
	t.end, t.chain, t.first = at, last.Chain, first.Place.Block
	return nil
}

// maxGap bounds the damaged bytes that a part may have. A segment with more has them when it is stored as a whole.
const maxGap = 1 << 30

// previous returns where the last intact block before another one ends, and its chain hash. If there is none, that is
// the beginning of the file, and the chain hash of the segment before. If the file does not have the block, because
// it was deleted or replaced, nothing is known of what is before it.
func previous(file *os.File, segment *ship.Segment, block *ship.Block) (end int64, chain [32]byte, err error) {
	begin := [32]byte{}
	if h, err := format.ParseSegmentHeader(segment.Header); err == nil {
		begin = h.PreviousHash
		if block.Offset == int64(len(segment.Header)) {
			return 0, begin, nil
		}
	}
	if file == nil {
		return block.Offset, [32]byte{}, nil
	}
	refs, err := refsBefore(file, segment.Path, block)
	if err != nil {
		return 0, begin, err
	}
	if len(refs) == 0 || refs[len(refs)-1].Offset != block.Offset {
		return block.Offset, [32]byte{}, nil
	}
	for i := len(refs) - 2; i >= 0; i-- {
		if isIntact(file, &refs[i]) {
			end, begin = refs[i].Offset+refs[i].Length(), refs[i].Chain
			break
		}
	}
	if end > block.Offset || block.Offset-end > maxGap {
		end = block.Offset
	}
	return end, begin, nil
}

// refsBefore returns the blocks of a segment up to the one at the offset of another, as far as they are needed.
func refsBefore(file *os.File, path string, block *ship.Block) (refs []trail.BlockRef, err error) {
	t, err := trail.Open(path)
	if err != nil {
		return nil, err
	}
	segment := t.Streams[0].Segments[0]
	if segment.Err != nil {
		refs, _ = segment.Index()
		n := sort.Search(len(refs), func(i int) bool { return refs[i].Offset > block.Offset })
		return refs[:n], nil
	}
	walk := segment.Walk(file, segment.Header.Length(), segment.Size, true)
	for {
		ref, _, ok := walk.Next()
		if !ok || ref.Offset > block.Offset {
			return refs, nil
		}
		if ref.Segment != nil {
			if refs = append(refs, ref); len(refs) > 2*keptRefs {
				refs = append(refs[:0], refs[keptRefs:]...)
			}
		}
	}
}

// keptRefs is how many blocks in a row may be damaged; where there are more, a part begins with the segment.
const keptRefs = 1024

// isIntact returns whether the checksums of a block in a file are right.
func isIntact(file io.ReaderAt, ref *trail.BlockRef) bool {
	b := format.Block{Image: make([]byte, ref.Length())}
	_, err := file.ReadAt(b.Image, ref.Offset)
	return err == nil && b.CheckStored() == nil
}

// isFile returns whether a path is the file that was there before, unchanged.
func isFile(path string, was os.FileInfo) bool {
	info, err := os.Stat(path)
	return was != nil && err == nil && isSame(info, was)
}

func isSame(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// fileHas returns whether a file is the one that was stored, and has the blocks.
func fileHas(path string, stored os.FileInfo, blocks []ship.Block) bool {
	if stored == nil {
		return false
	}
	f, err := trail.OpenFile(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !isSame(info, stored) {
		return false
	}
	var buf []byte
	for i := range blocks {
		n := len(blocks[i].Image)
		if cap(buf) < n {
			buf = make([]byte, n+n/8)
		}
		if _, err := f.ReadAt(buf[:n], blocks[i].Offset); err != nil || !bytes.Equal(buf[:n], blocks[i].Image) {
			return false
		}
	}
	return true
}

// body is the content of an object, of pieces that are in memory or in a file.
type body struct {
	pieces []piece
	size   int64
}

type piece struct {
	at    int64
	bytes []byte // nil: in
	in    io.ReaderAt
}

// add adds a []byte or an io.ReaderAt with so many bytes.
func (b *body) add(what any, n int64) {
	p := piece{at: b.size}
	switch what := what.(type) {
	case []byte:
		p.bytes = what
	case io.ReaderAt:
		p.in = what
	}
	b.pieces = append(b.pieces, p)
	b.size += n
}

// ReadAt reads from the pieces. Several goroutines may use it.
func (b *body) ReadAt(to []byte, at int64) (n int, err error) {
	i := sort.Search(len(b.pieces), func(i int) bool { return b.pieces[i].at > at }) - 1
	for ; i < len(b.pieces) && n < len(to); i++ {
		p, end := &b.pieces[i], b.size
		if i+1 < len(b.pieces) {
			end = b.pieces[i+1].at
		}
		want := to[n:min(int64(len(to)), int64(n)+end-at)]
		if p.bytes != nil {
			copy(want, p.bytes[at-p.at:])
		} else if got, err := p.in.ReadAt(want, at-p.at); got < len(want) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return n + got, err
		}
		n += len(want)
		at += int64(len(want))
	}
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}

// reader returns a reader of the whole body.
func (b *body) reader() *io.SectionReader { return io.NewSectionReader(b, 0, b.size) }

func (b *body) sum() (sum [32]byte, err error) {
	h := sha256.New()
	_, err = io.Copy(h, b.reader())
	h.Sum(sum[:0])
	return sum, err
}

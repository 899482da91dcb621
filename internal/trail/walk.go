// The walk through the blocks of a segment's file, also behind damage.

package trail

import (
	"fmt"
	"io"

	"github.com/pg-steno/pg_steno/internal/format"
)

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
func (r *BlockRef) Length() int64 { return format.BlockHeaderSize + int64(r.Stored) }

// refOf is the reference to a block with a header at an offset.
func (seg *Segment) refOf(offset int64, h *format.BlockHeader) BlockRef {
	return BlockRef{
		Segment: seg, Offset: offset, Number: h.Number, FirstTime: h.FirstTime, FirstEnd: h.FirstEnd, LastEnd: h.LastEnd,
		Stored: h.Stored, Raw: h.Raw, Records: h.Records, Chain: h.Chain,
	}
}

// A Walk goes through the blocks of a segment's file, from the beginning to the end, as far as their headers tell. It is
// the only one: those who read a finished trail, follow one that is written, verify and recover see the same blocks and the
// same problems.
//
// What it hands out as a block has a header that is intact, and room in the file; whether its payload is intact, tells who
// reads it. Behind a payload that is not, the walk goes on where the next block begins, which may be inside of what the
// header says.
type Walk struct {
	seg    *Segment
	w      window
	read   Overlap
	open   bool // nothing follows in the stream: a server may be writing behind the last block
	offset int64
	last   uint64 // number of the block before; 0: not known
	found  bool   // what stands before offset could not be read
}

// Walk begins at an offset of the segment's file, which has a size. Open says that nothing follows in the stream, so that
// what is unfinished may be being written.
func (seg *Segment) Walk(r io.ReaderAt, from, size int64, open bool) *Walk {
	return &Walk{seg: seg, w: window{r: r, size: size}, open: open, offset: from}
}

// Offset is where the walk goes on. Behind the last block, it is where room begins that the server has allocated, or the
// end of the file.
func (k *Walk) Offset() int64 { return k.offset }

// Next is the next block, or the problem with what stands in its place; ok is false at the end.
func (k *Walk) Next() (ref BlockRef, p *format.Problem, ok bool) {
	for k.offset < k.w.size {
		offset := k.offset
		h, err := k.w.header(offset)
		length := format.BlockHeaderSize + int64(h.Stored)
		fits := err == nil && length <= k.w.size-offset
		if fits && k.read.Allows(offset, offset+length, k.w.size) {
			ref = k.seg.refOf(offset, &h)
			ref.AfterDamage = k.found
			k.seg.begins(&h)
			next := offset + length
			if k.found = k.seg.shortened(&k.w, offset, &h); k.found {
				next = k.w.behind(offset, k.last)
				k.found = next < offset+length
			}
			k.last, k.offset = h.Number, next
			return ref, nil, true
		}
		if err != nil && k.open {
			room, written := k.w.room(offset)
			if room {
				return ref, nil, false
			}
			if written {
				continue
			}
		}
		next := k.w.behind(offset, k.last)
		if next == k.w.size && k.open && k.w.grown() {
			return ref, nil, false // there was room for its beginning when the segment was opened
		}
		switch {
		case err != nil:
			p = k.damaged(offset, next, err)
		case fits:
			p = k.seg.problem(format.ProblemDamaged, offset, "block %d overlaps with too many others", h.Number)
			p.Skipped, p.Behind = next-offset, format.BehindFound
		case next < k.w.size:
			p = k.seg.problem(format.ProblemDamaged, offset, "block %d is incomplete: the next block begins after %d of %d bytes", h.Number, next-offset, length)
			p.Skipped, p.Behind = next-offset, format.BehindFound
		default:
			p = k.unfinished(offset, next-offset, fmt.Sprintf("unfinished block %d: %d of %d bytes", h.Number, next-offset, length))
		}
		if err == nil {
			k.last = h.Number
		}
		k.found, k.offset = true, next
		return ref, p, true
	}
	return ref, nil, false
}

// damaged is the problem that no header begins at an offset; err says why not, and next is where the next one does.
func (k *Walk) damaged(offset, next int64, err error) *format.Problem {
	if next == k.w.size {
		if reason := k.w.torn(offset); reason != "" {
			return k.unfinished(offset, k.w.unfinished(offset), reason)
		}
	}
	p := format.AsProblem(err)
	switch {
	case p != nil:
		p = p.At(k.seg.Path, k.seg.stream(), k.seg.Number, offset)
	case err == io.EOF:
		p = k.seg.problem(format.ProblemDamaged, offset, "the file became shorter while it was read")
	default:
		p = k.seg.unreadable(err)
		p.Offset, p.Start = offset, offset
	}
	p.Behind = format.BehindFound
	if next == k.w.size {
		p.Behind = format.BehindUnread
	}
	return skipped(p, next-offset)
}

// unfinished is the problem that a write of so many bytes was not finished.
func (k *Walk) unfinished(offset, n int64, reason string) *format.Problem {
	p := k.seg.problem(format.ProblemTorn, offset, "%s", reason)
	p.Unfinished, p.Skipped, p.Behind = true, n, format.BehindUnread
	return judged(p, k.open)
}

// judged is the problem with an unfinished write: damage, if something follows it in its stream.
func judged(p *format.Problem, open bool) *format.Problem {
	if p.Unfinished && !open {
		p.Class = format.ProblemDamaged
		p.Reason += ", although segments follow"
	}
	return p
}

// problemWith is why the segment cannot be read. Open says that nothing follows in the stream.
func (seg *Segment) problemWith(open bool) error {
	p := format.AsProblem(seg.Err)
	if p == nil {
		return seg.Err
	}
	copied := *p
	return judged(&copied, open)
}

// skipped says of a problem how many bytes of the file are not read because of it.
func skipped(p *format.Problem, n int64) *format.Problem {
	p.Skipped = n
	p.Reason += fmt.Sprintf("; %d bytes skipped", n)
	return p
}

// stream is the number of the segment's stream.
func (seg *Segment) stream() uint32 {
	if seg.Stream == nil {
		return seg.Header.Stream
	}
	return seg.Stream.Number
}

// problem makes a problem at an offset of the segment, where a block or the segment header begins.
func (seg *Segment) problem(class format.ProblemClass, offset int64, reason string, args ...any) *format.Problem {
	return &format.Problem{
		Class: class, File: seg.Path, Stream: seg.stream(), Segment: seg.Number, Offset: offset, Start: offset,
		Reason: fmt.Sprintf(reason, args...),
	}
}

// unreadable is the problem that the segment's file cannot be read.
func (seg *Segment) unreadable(err error) *format.Problem {
	p := format.Unreadable(seg.Path, err)
	p.Stream, p.Segment = seg.stream(), seg.Number
	return p
}

// Index reads the headers of the segment's blocks. What is wrong is in errs, and the index goes on with the next block that
// can be found. Each error is a *format.Problem.
func (seg *Segment) Index() (refs []BlockRef, errs []error) {
	if seg.Err != nil && seg.damaged == nil {
		return nil, []error{seg.problemWith(seg.Last)}
	}
	f, err := OpenFile(seg.Path)
	if err != nil {
		return nil, []error{seg.gone(err)}
	}
	defer f.Close()
	refs, errs = seg.index(f)
	for i := range refs {
		refs[i].Twice = seg.isTwice(refs[i].Offset)
	}
	return refs, errs
}

func (seg *Segment) index(r io.ReaderAt) (refs []BlockRef, errs []error) {
	k := seg.Walk(r, seg.Header.Length(), seg.Size, seg.Last)
	buf := windows.Get().(*[]byte)
	k.w.buf = (*buf)[:0]
	defer func() {
		*buf = k.w.buf
		windows.Put(buf)
	}()
	if seg.damaged != nil {
		if k.offset = k.w.resync(0, 0, false); k.offset == seg.Size {
			return nil, []error{seg.Err}
		}
		p := *format.AsProblem(seg.Err)
		p.Behind = format.BehindFound
		errs, k.found = append(errs, skipped(&p, k.offset)), true
	}
	for {
		ref, p, ok := k.Next()
		switch {
		case !ok:
			return refs, errs
		case p != nil:
			errs = append(errs, p)
		default:
			refs = append(refs, ref)
		}
	}
}

// The walk over the blocks of a segment's file, also after damage.

package trail

import (
	"fmt"
	"io"

	"github.com/pg-steno/pg_steno/internal/format"
)

// BlockRef says where a block is, and has those fields of its header that readers need before they read it.
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
	// AfterDamage says that what precedes the block could not be read, so that the chain does not lead to it.
	AfterDamage bool
	// Duplicate says that another stream, of another trail, has the block, and that it counts there.
	Duplicate bool
}

// Length is the length of the block in the file.
func (r *BlockRef) Length() int64 { return format.BlockHeaderSize + int64(r.Stored) }

// refOf returns a reference to the block with a header at an offset.
func (seg *Segment) refOf(offset int64, h *format.BlockHeader) BlockRef {
	return BlockRef{
		Segment: seg, Offset: offset, Number: h.Number, FirstTime: h.FirstTime, FirstEnd: h.FirstEnd,
		LastEnd: h.LastEnd,
		Stored:  h.Stored, Raw: h.Raw, Records: h.Records, Chain: h.Chain,
	}
}

// A Walk goes through the blocks of a segment's file, from the beginning to the end, as far as their headers
// tell. It is the only one: those who read a finished trail, follow one that is written, verify and recover see
// the same blocks and the same problems.
//
// What it hands out as a block has a header that is intact, and room in the file; whether its payload is
// intact, tells who reads it. Behind a payload that is not, the walk goes on where the next block begins, which
// may be inside of what the header says.
type Walk struct {
	seg         *Segment
	window      window
	overlap     Overlap
	isLast      bool // no segment follows in the stream: a server may be writing after the last block
	offset      int64
	last        uint64 // number of the previous block; 0: not known
	afterDamage bool   // what precedes offset could not be read
}

// Walk begins at an offset of the segment's file. Open says that no segment follows in the stream, so that what
// is unfinished may still be written.
func (seg *Segment) Walk(r io.ReaderAt, from, size int64, open bool) *Walk {
	return &Walk{seg: seg, window: window{r: r, size: size}, isLast: open, offset: from}
}

// Offset returns where the walk continues. After the last block, it is the beginning of preallocated space, or
// the end of the file.
func (walk *Walk) Offset() int64 { return walk.offset }

// Next returns the next block, or a problem with what is in its place; ok is false at the end.
func (walk *Walk) Next() (ref BlockRef, p *format.Problem, ok bool) {
	for walk.offset < walk.window.size {
		offset := walk.offset
		h, err := walk.window.header(offset)
		length := format.BlockHeaderSize + int64(h.Stored)
		fits := err == nil && length <= walk.window.size-offset
		if fits && walk.overlap.Allows(offset, offset+length, walk.window.size) {
			ref = walk.seg.refOf(offset, &h)
			ref.AfterDamage = walk.afterDamage
			walk.seg.noteBlock(&h)
			next := offset + length
			if walk.afterDamage = walk.seg.shortened(&walk.window, offset, &h); walk.afterDamage {
				next = walk.window.nextBlock(offset, walk.last)
				walk.afterDamage = next < offset+length
			}
			walk.last, walk.offset = h.Number, next
			return ref, nil, true
		}
		if err != nil && walk.isLast {
			room, written := walk.window.isPreallocated(offset)
			if room {
				return ref, nil, false
			}
			if written {
				continue
			}
		}
		next := walk.window.nextBlock(offset, walk.last)
		if next == walk.window.size && walk.isLast && walk.window.hasGrown() {
			return ref, nil, false // when the segment was opened, there was space for its beginning only
		}
		switch {
		case err != nil:
			p = walk.damaged(offset, next, err)
		case fits:
			p = walk.seg.problem(format.ProblemDamaged, offset, "block %d overlaps with too many others", h.Number)
			p.Skipped, p.Rest = next-offset, format.RestSearched
		case next < walk.window.size:
			p = walk.seg.problem(format.ProblemDamaged, offset,
				"block %d is incomplete: the next block begins after %d of %d bytes", h.Number, next-offset, length)
			p.Skipped, p.Rest = next-offset, format.RestSearched
		default:
			p = walk.unfinished(offset, next-offset,
				fmt.Sprintf("unfinished block %d: %d of %d bytes", h.Number, next-offset, length))
		}
		if err == nil {
			walk.last = h.Number
		}
		walk.afterDamage, walk.offset = true, next
		return ref, p, true
	}
	return ref, nil, false
}

// damaged returns the problem that no header begins at an offset, for the reason err. next is where the next
// one begins.
func (walk *Walk) damaged(offset, next int64, err error) *format.Problem {
	if next == walk.window.size {
		if reason := walk.window.tornReason(offset); reason != "" {
			return walk.unfinished(offset, walk.window.unfinishedLength(offset), reason)
		}
	}
	p := format.AsProblem(err)
	switch {
	case p != nil:
		p = p.At(walk.seg.Path, walk.seg.stream(), walk.seg.Number, offset)
	case err == io.EOF:
		p = walk.seg.problem(format.ProblemDamaged, offset, "the file became shorter while it was read")
	default:
		p = walk.seg.unreadable(err)
		p.Offset, p.Start = offset, offset
	}
	p.Rest = format.RestSearched
	if next == walk.window.size {
		p.Rest = format.RestUnread
	}
	return withSkipped(p, next-offset)
}

// unfinished returns the problem that a write of so many bytes was not finished.
func (walk *Walk) unfinished(offset, n int64, reason string) *format.Problem {
	p := walk.seg.problem(format.ProblemTorn, offset, "%s", reason)
	p.Unfinished, p.Skipped, p.Rest = true, n, format.RestUnread
	return classifyUnfinished(p, walk.isLast)
}

// classifyUnfinished makes an unfinished write damage if something follows it in its stream.
func classifyUnfinished(p *format.Problem, open bool) *format.Problem {
	if p.Unfinished && !open {
		p.Class = format.ProblemDamaged
		p.Reason += ", although segments follow"
	}
	return p
}

// problemWith returns why the segment cannot be read. Open says that no segment follows in the stream.
func (seg *Segment) problemWith(open bool) error {
	p := format.AsProblem(seg.Err)
	if p == nil {
		return seg.Err
	}
	copied := *p
	return classifyUnfinished(&copied, open)
}

// withSkipped adds to a problem how many bytes of the file are not read because of it.
func withSkipped(p *format.Problem, n int64) *format.Problem {
	p.Skipped = n
	p.Reason += fmt.Sprintf("; %d bytes skipped", n)
	return p
}

// stream returns the number of the segment's stream.
func (seg *Segment) stream() uint32 {
	if seg.Stream == nil {
		return seg.Header.Stream
	}
	return seg.Stream.Number
}

// problem returns a problem at an offset of the segment, where a block or the segment header begins.
func (seg *Segment) problem(class format.ProblemClass, offset int64, reason string, args ...any) *format.Problem {
	return &format.Problem{
		Class: class, File: seg.Path, Stream: seg.stream(), Segment: seg.Number, Offset: offset, Start: offset,
		Reason: fmt.Sprintf(reason, args...),
	}
}

// unreadable returns the problem that the segment's file cannot be read.
func (seg *Segment) unreadable(err error) *format.Problem {
	p := format.Unreadable(seg.Path, err)
	p.Stream, p.Segment = seg.stream(), seg.Number
	return p
}

// Index reads the headers of the segment's blocks. It continues after problems with the next block that can be
// found. Each error is a *format.Problem.
func (seg *Segment) Index() (refs []BlockRef, errs []error) {
	if seg.Err != nil && seg.damaged == nil {
		return nil, []error{seg.problemWith(seg.Last)}
	}
	f, err := OpenFile(seg.Path)
	if err != nil {
		return nil, []error{seg.openProblem(err)}
	}
	defer f.Close()
	refs, errs = seg.index(f)
	for i := range refs {
		refs[i].Duplicate = seg.isDuplicate(refs[i].Offset)
	}
	return refs, errs
}

func (seg *Segment) index(r io.ReaderAt) (refs []BlockRef, errs []error) {
	walk := seg.Walk(r, seg.Header.Length(), seg.Size, seg.Last)
	buf := windows.Get().(*[]byte)
	walk.window.buf = (*buf)[:0]
	defer func() {
		*buf = walk.window.buf
		windows.Put(buf)
	}()
	if seg.damaged != nil {
		if walk.offset = walk.window.resync(0, 0, false); walk.offset == seg.Size {
			return nil, []error{seg.Err}
		}
		p := *format.AsProblem(seg.Err)
		p.Rest = format.RestSearched
		errs, walk.afterDamage = append(errs, withSkipped(&p, walk.offset)), true
	}
	for {
		ref, p, ok := walk.Next()
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

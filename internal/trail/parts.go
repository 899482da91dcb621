// Big records, put together from their data parts.

package trail

import (
	"context"
	"io"
	"math"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
)

// parts are the data parts of records in one block, in their order.
type parts map[format.RecordID]*[3][][]byte

// add keeps a data part; its bytes are the block's.
func (p parts) add(r *format.Record) {
	id := r.ID()
	kept := p[id]
	if kept == nil {
		kept = &[3][][]byte{}
		p[id] = kept
	}
	kept[r.Part] = append(kept[r.Part], r.Data)
}

// joiner puts big records together, until its context ends.
type joiner struct {
	ctx   context.Context
	index *Index
	files *Files
}

// join completes a record of the block ref, the first parts of which may be in
// earlier blocks. The result is nil, or says what is missing; the record then
// has what there is.
func (j *joiner) join(r *format.Record, ref *BlockRef, here parts) error {
	id := r.ID()
	need := r.Parts
	var found [3][][]byte // the last piece first
	take := func(p parts) bool {
		if kept := p[id]; kept != nil {
			for i := range kept {
				for _, piece := range slices.Backward(kept[i]) {
					if need[i] == 0 {
						break
					}
					if uint64(len(piece)) > need[i] {
						// More than the record says: the last ones are its own.
						piece = piece[uint64(len(piece))-need[i]:]
					}
					need[i] -= uint64(len(piece))
					found[i] = append(found[i], piece)
				}
			}
		}
		return need == [3]uint64{}
	}
	if !take(here) && j != nil {
		for b := range j.earlier(ref) {
			// A block's parts are one piece, as the block is read over.  However many there are,
			// and empty ones cost nothing, they take no more memory than their bytes.
			var pieces [3][]byte
			preceded := false
			var part format.Record
			for b.Next(&part) == nil {
				if part.Session.ID() != id.Session {
					continue
				}
				if part.Kind == format.KindData && part.Seq == id.Seq {
					pieces[part.Part] = append(pieces[part.Part], part.Data...)
				}
				preceded = preceded || part.Seq != 0 && part.Seq < id.Seq
			}
			p := parts{}
			for i, piece := range pieces {
				if len(piece) > 0 {
					p.add(&format.Record{Session: r.Session, Seq: id.Seq, Part: format.PartKind(i), Data: piece})
				}
			}
			// no part comes before what the session recorded before
			if take(p) || preceded {
				break
			}
		}
	}
	own := r.Parts
	// One after the other, so that the pieces of one do not stay beside the whole of another.
	whole := func(part format.PartKind, end []byte) []byte {
		size := len(end)
		for _, piece := range found[part] {
			size += len(piece)
		}
		all := make([]byte, 0, size)
		for _, piece := range slices.Backward(found[part]) {
			all = append(all, piece...)
		}
		found[part] = nil
		return append(all, end...)
	}
	if own[format.PartText] > 0 {
		r.Text, r.TextIndex = whole(format.PartText, r.Text), -1
	}
	if own[format.PartMessage] > 0 {
		r.Message = whole(format.PartMessage, r.Message)
	}
	if own[format.PartValues] > 0 {
		r.Values = whole(format.PartValues, r.Values)
		r.Fields |= format.FieldValues
		if need[format.PartValues] > 0 {
			r.Values, r.Nulls, r.Parts[format.PartValues] = nil, nil, 0
			r.Fields &^= format.FieldValues | format.FieldNulls
		} else {
			r.ExtractFurther()
		}
	}
	if j != nil && j.ctx.Err() != nil {
		return nil // nobody waits for what is missing
	}
	missing := need[0] + need[1] + need[2]
	if missing == 0 {
		return nil
	}
	class, what := format.ProblemParts, " of its data parts"
	if j != nil && (j.index.beginsAfter(r.Session) || j.index.lostBefore(ref)) {
		class, what = format.ProblemIncomplete, ": they were in a segment that was deleted by retention"
	}
	p := ref.Segment.problem(class, ref.Offset, "block %d: session %s: record %d lacks %d of %d bytes%s",
		ref.Number, id.Session, id.Seq, missing, own[0]+own[1]+own[2], what)
	p.Session, p.Numbers = id.Session, format.Span{First: id.Seq, Last: id.Seq}
	return p
}

// earlier yields the blocks that can hold parts of the record, the nearest
// first: its own stream backwards, and then the others, where its session's
// records went before the server was restarted. The blocks' times say nothing of
// parts, which have none: a block of parts and of start records of long
// statements ends before the record's session begins.
func (j *joiner) earlier(ref *BlockRef) func(yield func(*format.Block) bool) {
	return func(yield func(*format.Block) bool) {
		var b format.Block
		read := func(c *BlockRef) bool { return j.ctx.Err() == nil && (j.files.Read(c, &b) != nil || yield(&b)) }
		for _, own := range []bool{true, false} {
			for i := range j.index.Streams {
				s := &j.index.Streams[i]
				before := uint64(math.MaxUint64)
				if own {
					before = ref.Number
				}
				if own == (s.Stream == ref.Segment.Stream) && !j.index.before(s, before, read) {
					return
				}
			}
		}
	}
}

// Guesser is a Formatter that can say of some records that it does not keep them before
// all of their text, message and parameters are there: of records whose parts stand in
// other blocks, these are then not read.
type Guesser interface {
	// Guess says whether the record may be wanted. Only what else it has can be relied on.
	Guess(r *format.Record) bool
}

// mayKeep says whether a formatter may make something of a record whose parts are not
// there yet.
func mayKeep(f Formatter, r *format.Record) bool {
	g, ok := f.(Guesser)
	return !ok || g.Guess(r)
}

// records calls yield for the records of a block, with their data parts joined, and
// returns what was wrong. Records that have such parts, and of which want says that they
// are not wanted, are left out. A record and its bytes may be kept for as long as the
// block is not loaded again.
func (j *joiner) records(
	b *format.Block, ref *BlockRef, want func(r *format.Record) bool, yield func(r *format.Record),
) (errs []error) {
	var r format.Record
	var here parts
	for {
		switch err := b.Next(&r); {
		case err == io.EOF:
			return errs
		case err != nil:
			return append(errs, err)
		}
		if r.Kind == format.KindData {
			if here == nil {
				here = parts{}
			}
			here.add(&r)
			continue
		}
		if r.Parts != [3]uint64{} {
			id := r.ID()
			part := r
			if b.DecodeStrings(&part); !want(&part) {
				delete(here, id)
				continue
			}
			if err := j.join(&r, ref, here); err != nil {
				errs = append(errs, err)
			}
			delete(here, id)
		}
		b.DecodeStrings(&r)
		yield(&r)
	}
}

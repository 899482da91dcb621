// Joining big records with their data parts.

package trail

import (
	"context"
	"io"
	"math"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
)

// parts has the data parts of records in one block, in order.
type parts map[format.RecordID]*[3][][]byte

// add keeps a data part. Its bytes belong to the block.
func (p parts) add(r *format.Record) {
	id := r.ID()
	kept := p[id]
	if kept == nil {
		kept = &[3][][]byte{}
		p[id] = kept
	}
	kept[r.Part] = append(kept[r.Part], r.Data)
}

// joiner joins records with their data parts, until its context ends.
type joiner struct {
	ctx   context.Context
	index *Index
	files *Files
}

// join completes a record of the block ref. The first parts may be in earlier blocks. If parts are missing, it
// returns an error, and the record has the parts that exist.
func (j *joiner) join(r *format.Record, ref *BlockRef, here parts) error {
	id := r.ID()
	need := r.Parts
	var found [3][][]byte // the last piece first
	addParts := func(p parts) bool {
		if kept := p[id]; kept != nil {
			for i := range kept {
				for _, piece := range slices.Backward(kept[i]) {
					if need[i] == 0 {
						break
					}
					if uint64(len(piece)) > need[i] {
						// If there are more bytes than the record states, the last ones are the record's own.
						piece = piece[uint64(len(piece))-need[i]:]
					}
					need[i] -= uint64(len(piece))
					found[i] = append(found[i], piece)
				}
			}
		}
		return need == [3]uint64{}
	}
	if !addParts(here) && j != nil {
		for b := range j.earlier(ref) {
			// The parts in a block are copied as one piece, because the block is reused. However many there
			// are, including empty ones, they take no more memory than their bytes.
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
			// No part precedes the first record of its session.
			if addParts(p) || preceded {
				break
			}
		}
	}
	own := r.Parts
	// Text, values and message are joined one after the other, so that the pieces of one are freed before the
	// next.
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
		return nil // the context has ended, so missing parts do not matter
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

// earlier yields the blocks that can have parts of the record, the nearest first: those of its own stream
// backwards, then those of other streams, which had its session's records before the server was restarted.
// Times of blocks do not help, because parts have none.
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

// Prefilter is a Formatter that can refuse some records before their text, message and parameters are complete,
// so that parts in other blocks need not be read.
type Prefilter interface {
	// MayKeep returns whether the record may be wanted, whatever its data parts contain.
	MayKeep(r *format.Record) bool
}

// mayKeep returns whether a formatter may format a record whose parts were not joined yet.
func mayKeep(f Formatter, r *format.Record) bool {
	g, ok := f.(Prefilter)
	return !ok || g.MayKeep(r)
}

// records calls yield for the records of a block, joined with their data parts, and returns what was wrong. It
// leaves out records with parts that want refuses. Records and their bytes are valid until the block is loaded
// again.
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

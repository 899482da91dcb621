// The checks of one block, which run in parallel.

package verify

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// span is a run of sequence numbers of one session.
type span struct {
	session format.SessionID
	format.Span
}

// finding is the result of checking one block, for the checks that need all blocks.
type finding struct {
	header format.BlockHeader
	ok     bool // the header was read
	errs   []error
	torn   bool // the errors are due to an unfinished write
	sealed bool // encrypted, and not decrypted
	later  bool // of a later version, and not read

	spans     []span
	explained []span   // numbers that gap records account for
	lost      uint64   // number of records that gap records report as lost
	gaps      uint64   // gap records
	unread    []string // what gap records report about damaged ring files
	deletions []trail.Deletion
	branches  []trail.Branch
	others    []trail.OtherTrail
	starts    []start

	unnumbered int64              // records without a sequence number
	ended      []format.SessionID // those with a disconnect record, and those of processes that have none
	closed     []format.SessionID // those whose last record has been seen
	ends       []format.RecordID  // disconnect records
	first      int64              // earliest start and latest end
	last       int64

	seals     []*seal.Seal
	sealsOnly bool // the block contains only seals
	recovered bool // contains a record by steno recover about what it did

	parts       map[format.RecordID]uint64 // bytes of data parts
	whole       []format.RecordID          // records that have data parts ...
	wholeBytes  []uint64                   // ... and how many bytes these have
	interrupted []format.RecordID
}

// start is the start of a server that says whether it had a key for seals.
type start struct {
	Time   int64
	HasKey bool
}

// parseStart reads the record of a start; ok is false if it is none, or lacks the server's settings.
func parseStart(r *format.Record) (one start, ok bool) {
	event, _ := r.ExtraValue("event")
	_, ok = r.ExtraValue("run")
	key, _ := r.ExtraValue("steno.signing_key_file")
	return start{r.Time, len(key) > 0}, ok && string(event) == "start"
}

// Limits of what is kept about the errors of one block. Sequence numbers written by a server jump only where a gap
// record accounts for it.
const (
	maxErrors = 20
	maxSpans  = 512 << 10
)

// checker reads blocks; each worker has one.
type checker struct {
	files      *trail.Files
	segment    *format.SegmentHeader // segment that contains the block
	block      format.Block
	indexes    []*format.Contents // of the segment that contains the block
	tally      format.Tally
	allRecords bool // plain records are looked at, too, for tests
	record     format.Record
	unindexed  format.BlockContents // block contents that no index lists
}

// check reads and checks one block. before is the previous one in its segment, nil for the first.
func (c *checker) check(ref, before *trail.BlockRef, indexes []*format.Contents, last bool) *finding {
	f := &finding{}
	b := &c.block
	c.indexes = indexes
	chained, known := previous(ref, before)
	c.segment = &ref.Segment.Header
	err := c.files.Read(ref, b)
	f.header, f.ok = b.Header, b.Header.Number == ref.Number
	if trail.IsGone(err) {
		f.errs, f.ok = append(f.errs, err), false
		return f
	}
	if err != nil && err == ref.Segment.KeyErr {
		f.sealed = true
	} else if p := format.AsProblem(err); p != nil && p.Class == format.ProblemUnreadable && p.Err == nil {
		f.later, f.errs = true, append(f.errs, err)
	} else if err != nil {
		f.errs = append(f.errs, err)
		f.torn = last && b.HasHole()
	}
	if known && f.ok && !f.torn && b.ChainHash(chained) != b.Header.Chain {
		f.errs = append(f.errs, b.Problem(format.ProblemChain, 72,
			"chain is broken: block %d does not follow from what precedes it", ref.Number))
	}
	if err == nil {
		c.items(f)
	}
	return f
}

// previous returns the hash that a block is chained to; known is false if what precedes the block could not be
// read. It is the hash that the previous block states. So each link is checked by itself, and a broken one does
// not make all following ones appear broken.
func previous(ref, before *trail.BlockRef) (hash [32]byte, known bool) {
	switch {
	case ref.AfterDamage:
		return hash, false
	case before == nil:
		return ref.Segment.Header.Hash, true
	}
	return before.Chain, true
}

// items decodes all items of the block. Plain records are only counted, and do not pass through the loop.
func (c *checker) items(f *finding) {
	b := &c.block
	h := &b.Header
	others := false
	t := &c.tally
	t.Reset()
	if b.Select(format.Selection{Tally: t}); c.allRecords {
		b.Select(format.Selection{})
	}
	r, has := &c.record, &c.unindexed
	*has = format.BlockContents{Known: c.isIndexed}
	covers := func(x *format.Contents) bool { _, ok := x.GroupOf(h.Number); return ok }
	indexed := slices.ContainsFunc(c.indexes, covers)
	has.NoTexts = !slices.ContainsFunc(c.indexes, func(x *format.Contents) bool { return x.HasTexts(h.Number) })
	complete := false
	for {
		err := b.Next(r)
		if err != nil {
			if complete = err == io.EOF; !complete {
				f.errs = append(f.errs, err)
			}
			break
		}
		if len(f.errs) >= maxErrors || len(f.spans) >= maxSpans {
			f.errs = append(f.errs, b.Problem(format.ProblemContent, 0,
				"block %d: the records from byte %d of its payload on are not checked: there are too many errors "+
					"before", h.Number, b.Position()))
			break
		}
		if indexed {
			has.AddRecord(r)
		}
		if r.Kind == format.KindData {
			if f.parts == nil {
				f.parts = map[format.RecordID]uint64{}
			}
			others = true
			f.parts[format.RecordID{Session: r.Session.ID(), Seq: r.Seq}] += uint64(len(r.Data))
			continue
		}
		if o := t.OpenOf(r.SessionIndex); r.Seq == 0 {
			f.unnumbered++
			if r.Kind != format.KindStart {
				f.errs = append(f.errs, b.Problem(format.ProblemContent, 0,
					"block %d: session %s: %s record without a sequence number", h.Number, r.Session.ID(), r.Kind))
			}
		} else if o.Last != 0 && r.Seq == o.Last+1 {
			o.Last++
		} else {
			if o.Last != 0 {
				f.spans = append(f.spans, span{r.Session.ID(), *o})
			}
			o.First, o.Last = r.Seq, r.Seq
		}
		t.AddTimes(r.Time, r.End())
		if r.Kind == format.KindSeal {
			c.checkSeal(f, r)
		} else {
			others = true
		}
		if r.Kind != format.KindStatement || r.Parts != [3]uint64{} || r.Outcome == format.OutcomeInterrupted {
			c.noteRareRecord(f, r)
		}
		if r.Parts[format.PartValues] == 0 && !r.ParamsFit() {
			f.errs = append(f.errs, b.Problem(format.ProblemContent, 0,
				"block %d: session %s: record %d: parameters do not match their types", h.Number,
				r.Session.ID(), r.Seq))
		}
	}
	c.countOpen(f)
	if !complete {
		return // records read so far count, but the block as a whole cannot be checked
	}
	c.checkIndex(f)
	if indexed {
		if t.Transactions > 0 {
			has.AddRecord(&format.Record{Kind: format.KindTransaction})
		}
		c.checkIndexes(f, has)
	}
	f.sealsOnly = len(f.seals) > 0 && !others && t.Records == 0
	if h.Records == 0 {
		return
	}
	f.first, f.last = t.FirstTime, t.LastEnd
	if t.FirstTime != h.FirstTime || t.FirstEnd != h.FirstEnd || t.LastEnd != h.LastEnd {
		f.errs = append(f.errs, b.Problem(format.ProblemContent, 40,
			"block %d: times in the header do not match its records", h.Number))
	}
}

// countOpen adds the sequence numbers of plain records that were counted last in each session.
func (c *checker) countOpen(f *finding) {
	b, t := &c.block, &c.tally
	f.spans = slices.Grow(f.spans, len(t.Open))
	for i, o := range t.Open {
		if o.Last == 0 {
			continue
		}
		f.spans = append(f.spans, span{b.SessionID(i), o})
		if t := string(b.SessionAt(i).Fact(format.KeyBackendType)); !disconnects(t) {
			f.ended = append(f.ended, b.SessionID(i))
			f.recovered = f.recovered || t == format.RecoverBackendType
		}
	}
}

// checkIndex checks the block's index, if it is one.
func (c *checker) checkIndex(f *finding) {
	if _, err := c.block.Contents(); err != nil {
		f.errs = append(f.errs, err)
	}
}

// isIndexed returns whether no index hides a term of the block.
func (c *checker) isIndexed(list format.Terms, value []byte) bool {
	for _, index := range c.indexes {
		if !index.Has(c.block.Header.Number, list, value) {
			return false
		}
	}
	return true
}

// checkIndexes checks that no index of the segment hides what the block contains.
func (c *checker) checkIndexes(f *finding, has *format.BlockContents) {
	b := &c.block
	has.AddDefinitions(b)
	for _, index := range c.indexes {
		if what := index.HiddenReason(b.Header.Number, has); what != "" {
			f.errs = append(f.errs, b.Problem(format.ProblemIndex, 0, "block %d: the index of its segment lacks %s",
				b.Header.Number, what))
		}
	}
}

// disconnects reports whether sessions of this type of process end with a disconnect record. Background processes do
// not.
func disconnects(backendType string) bool {
	return backendType == "" || backendType == "client backend" || backendType == "walsender"
}

// checkSeal checks a record that is a seal.
func (c *checker) checkSeal(f *finding, r *format.Record) {
	parsed, err := seal.Parse(r, c.segment)
	if err != nil {
		f.errs = append(f.errs, c.block.Problem(format.ProblemSeal, 0,
			"block %d: seal does not have the specified format: %s", c.block.Header.Number, err))
		return
	}
	f.seals = append(f.seals, parsed)
}

// noteRareRecord keeps the records that are needed by the checks of all blocks.
func (c *checker) noteRareRecord(f *finding, r *format.Record) {
	id := format.RecordID{Session: r.Session.ID(), Seq: r.Seq}
	if n := r.Parts[0] + r.Parts[1] + r.Parts[2]; n > 0 {
		f.whole, f.wholeBytes = append(f.whole, id), append(f.wholeBytes, n)
	}
	if r.Outcome == format.OutcomeInterrupted {
		f.interrupted = append(f.interrupted, id)
	}
	switch r.Kind {
	case format.KindServer:
		if d, ok := trail.ParseDeletion(r); ok {
			f.deletions = append(f.deletions, d)
		}
		if o, ok := trail.ParseOtherTrail(r); ok {
			f.others = append(f.others, o)
		}
		if b, ok := trail.ParseBranch(r); ok {
			f.branches = append(f.branches, b)
		}
		if one, ok := parseStart(r); ok {
			f.starts = append(f.starts, one)
		}
	case format.KindDisconnect, format.KindAuthFailed:
		f.ended, f.closed = append(f.ended, id.Session), append(f.closed, id.Session)
		if r.Kind == format.KindDisconnect && r.Seq != 0 {
			f.ends = append(f.ends, id)
		}
	case format.KindGap:
		f.gaps++
		number := func(name string) uint64 {
			value, _ := r.ExtraValue(name)
			n, _ := strconv.ParseUint(string(value), 10, 64)
			return n
		}
		first, last := number("first_seq"), number("last_seq")
		f.lost += number("count")
		if reason, _ := r.ExtraValue("reason"); string(reason) == "ring damaged" {
			what := "a record"
			if number("count") == 0 {
				what = "dropped records, of unknown number,"
			}
			if n := number("bytes"); n > 0 {
				what = fmt.Sprintf("%d bytes of records, of unknown number,", n)
			}
			f.unread = append(f.unread,
				fmt.Sprintf("session %s: record %d stands for %s that could not be read from a damaged ring file",
					id.Session, r.Seq, what))
		}
		if first > 0 && last >= first {
			f.explained = append(f.explained, span{id.Session, format.Span{First: first, Last: last}})
			if r.Seq != last+1 {
				f.errs = append(f.errs, c.block.Problem(format.ProblemContent, 0,
					"block %d: session %s: gap record has number %d, not %d, the one after the lost records",
					c.block.Header.Number, id.Session, r.Seq, last+1))
			}
		}
	}
}

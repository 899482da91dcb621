// Segments that do not exist any more: deleted by policy, or missing.

package verify

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// streamID identifies a stream among trails that are verified together, where its number alone is not unique.
type streamID struct {
	trail  string
	stream uint32
}

func streamIDOf(s *trail.Stream) streamID { return streamID{filepath.Dir(s.Path), s.Number} }

// hole is a range of segments that a stream does not have.
type hole struct {
	stream      *trail.Stream
	first, last uint64
}

// findHoles finds the segments that streams do not have, among those that are read, were read, or should have been.
func (v *verifier) findHoles() {
	for _, st := range v.states {
		expected := st.since
		for _, seg := range st.stream.Segments {
			if st.stream.Whole && seg.Number > expected {
				v.holes = append(v.holes, hole{st.stream, expected, seg.Number - 1})
			}
			expected = seg.Number + 1
		}
	}
}

// deletionRecord is a deletion record, with the stream it is about and its position.
type deletionRecord struct {
	of    streamID
	what  trail.Deletion
	seals *sealState
	block uint64
}

// sealedDeletions returns the deletions from a stream whose records are covered by a valid seal. Other records could
// have been written by anybody who can write the files.
func (v *verifier) sealedDeletions(of streamID) (all []trail.Deletion) {
	for i := range v.records {
		if r := &v.records[i]; r.of == of && r.seals.Last != nil && r.seals.Last.Block >= r.block {
			all = append(all, r.what)
		}
	}
	return all
}

// Deleted sums up what was deleted by policy from one stream.
type Deleted struct {
	Stream       uint32 `json:"stream"`
	FirstSegment uint64 `json:"first_segment"`
	LastSegment  uint64 `json:"last_segment"`
	LastBlock    uint64 `json:"last_block"`
	Records      uint64 `json:"records"`
	Bytes        uint64 `json:"bytes"`
	Reason       string `json:"reason"` // reason of the latest deletion
}

// String returns a short description.
func (d *Deleted) String() string {
	which := fmt.Sprintf("segments %d to %d", d.FirstSegment, d.LastSegment)
	if d.FirstSegment == d.LastSegment {
		which = fmt.Sprintf("segment %d", d.FirstSegment)
	}
	return fmt.Sprintf("%s of stream %d, %s records, by retention (%s)", which, d.Stream,
		humanize.Comma(int64(d.Records)), d.Reason)
}

// DeletedOf sums up a deletion record and the earlier ones that it includes.
func DeletedOf(d *trail.Deletion) Deleted {
	return Deleted{
		Stream: d.Stream, FirstSegment: d.SinceSegment, LastSegment: d.LastSegment, LastBlock: d.LastBlock,
		Records: d.TotalRecords, Bytes: d.TotalBytes, Reason: d.Reason,
	}
}

// settleDeletions determines which missing segments were deleted by policy. It is called after all records were read,
// because the record of a deletion follows the segments that it is about.
func (v *verifier) settleDeletions() {
	for _, h := range v.holes {
		at := streamIDOf(h.stream)
		left := uncovered(h.first, h.last, v.deletions[at])
		if len(left) > 0 {
			// The record may be in a stream that is not verified, or have been written since the trail was opened.
			for _, d := range h.stream.Deletions() {
				if d.Stream == at.stream {
					v.deletions[at] = append(v.deletions[at], d)
				}
			}
			left = uncovered(h.first, h.last, v.deletions[at])
		}
		for _, m := range left {
			policy := ", and were not deleted by retention"
			if m.First == m.Last {
				policy = ", and was not deleted by retention"
			}
			if v.report.UnreadBlocks > 0 {
				policy = "; if they were deleted by retention, the record of it is in blocks that were not " +
					"decrypted: give the encryption keys"
			}
			what := fmt.Sprintf("segments %d to %d are", m.First, m.Last)
			if m.First == m.Last {
				what = fmt.Sprintf("segment %d is", m.First)
			}
			v.reportProblem(&format.Problem{
				Class: format.ProblemMissing, File: h.stream.Path, Offset: format.NoOffset, Stream: h.stream.Number,
				Segment: m.First, Numbers: m,
				Reason: what + " missing" + policy,
			})
		}
	}
	if len(v.keys) > 0 && v.report.UnreadBlocks == 0 { // else the seals are not checked either
		v.unsealedDeletions()
	}
	if len(v.anchors) > 0 && len(v.keys) == 0 {
		v.unanchoredDeletions()
	}
	for _, s := range v.trail.Streams {
		all := v.deletions[streamIDOf(s)]
		if len(all) == 0 {
			continue
		}
		latest, missing := &all[0], &all[0]
		for i := range all {
			d := &all[i]
			v.checkContinues(s, d)
			if d.LastSegment >= latest.LastSegment {
				latest = d
			}
			if d.Missing >= missing.Missing {
				missing = d
			}
		}
		// a copy of the trail has the record, too
		if deleted := DeletedOf(latest); !slices.Contains(v.report.Deleted, deleted) {
			v.report.Deleted = append(v.report.Deleted, deleted)
		}
		if latest.Unread {
			v.warn(s.Path, nil,
				"segments %d to %d were deleted by retention, according to the file \"retention\"; the record of "+
					"it is encrypted: give the encryption keys to check it",
				latest.SinceSegment, latest.LastSegment)
		}
		if missing.Missing > 0 {
			v.reportDamage(format.ProblemMissing, s.Path, nil,
				"%d of the segments %d to %d had disappeared before the server deleted them by retention",
				missing.Missing, missing.SinceSegment, missing.LastSegment)
		}
	}
}

// unsealedDeletions reports segments whose deletion is recorded only in records that no seal covers.
func (v *verifier) unsealedDeletions() {
	for _, h := range v.holes {
		at := streamIDOf(h.stream)
		unreported := uncovered(h.first, h.last, v.deletions[at])
		for _, m := range uncovered(h.first, h.last, v.sealedDeletions(at)) {
			if slices.Contains(unreported, m) {
				continue // it is reported as damage
			}
			v.reportUnreadable(h.stream.Path,
				"segments %d to %d are missing, and the record of their deletion by retention is not sealed: if "+
					"the server is running, verify again after its next seal",
				m.First, m.Last)
		}
	}
}

// unanchoredDeletions reports segments whose deletion is recorded only after the blocks that the anchors name,
// so that the anchors do not prove these records.
func (v *verifier) unanchoredDeletions() {
	covered := func(r *deletionRecord) bool {
		return slices.ContainsFunc(v.anchors, func(a *anchorState) bool {
			return a.seen && a.Stream == r.seals.Sum.Stream && a.Block >= r.block
		})
	}
	for _, h := range v.holes {
		at := streamIDOf(h.stream)
		var anchored []trail.Deletion
		for i := range v.records {
			if r := &v.records[i]; r.of == at && covered(r) {
				anchored = append(anchored, r.what)
			}
		}
		unreported := uncovered(h.first, h.last, v.deletions[at])
		for _, m := range uncovered(h.first, h.last, anchored) {
			if !slices.Contains(unreported, m) {
				v.warn(h.stream.Path, nil,
					"segments %d to %d are missing, and the record of their deletion by retention comes after the "+
						"anchors, so they do not prove it; the public key would, or an anchor from after the deletion",
					m.First, m.Last)
			}
		}
	}
}

// checkContinues checks that the stream continues from what was deleted.
func (v *verifier) checkContinues(s *trail.Stream, d *trail.Deletion) {
	i, there := slices.BinarySearchFunc(s.Segments, d.LastSegment+1, func(seg *trail.Segment, n uint64) int {
		return cmp.Compare(seg.Number, n)
	})
	if !there || s.Segments[i].Err != nil {
		return
	}
	seg := s.Segments[i]
	switch h := &seg.Header; {
	case h.PreviousHash != d.Chain:
		v.reportOnce(format.ProblemChain, seg, 64,
			"chain is broken: the segment does not follow from segment %d, according to the record of its deletion",
			d.LastSegment)
	case h.FirstBlock != d.LastBlock+1:
		v.reportOnce(format.ProblemNumber, seg, 48,
			"segment begins with block %d instead of %d, according to the record of the deletion before it",
			h.FirstBlock, d.LastBlock+1)
	case h.FirstRecord != d.LastRecord+1:
		v.reportOnce(format.ProblemNumber, seg, 56,
			"segment begins with record %d instead of %d, according to the record of the deletion before it",
			h.FirstRecord, d.LastRecord+1)
	}
}

// reportOnce reports damage once, although several records of one deletion show it.
func (v *verifier) reportOnce(class format.ProblemClass, seg *trail.Segment, at int64, text string, args ...any) {
	if v.told == nil {
		v.told = map[*trail.Segment]bool{}
	}
	if !v.told[seg] {
		v.told[seg] = true
		v.reportDamageAt(class, seg, 0, at, text, args...)
	}
}

// uncovered returns the segments from first to last that no deletion accounts for.
func uncovered(first, last uint64, deletions []trail.Deletion) []format.Span {
	spans := make([]format.Span, 0, len(deletions))
	for _, d := range deletions {
		spans = append(spans, format.Span{First: d.SinceSegment, Last: d.LastSegment})
	}
	slices.SortFunc(spans, format.Span.Compare)
	return format.Uncovered(spans, first, last+1)
}

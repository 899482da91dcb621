// Encrypted segments: their data keys, and those for which no key was given.

package trail

import (
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
)

// unlock decrypts the data key in the header of an encrypted segment.
func (seg *Segment) unlock(header []byte, again bool) {
	h := &seg.Header
	if !h.Encrypted || seg.Err != nil {
		return
	}
	key, ok := seg.Stream.keys.Find(h.KeyID, again)
	if !ok {
		seg.KeyErr = format.MissingKey(seg.Path, seg.Stream.Number, seg.Number, h.KeyID)
		return
	}
	data, ok := format.OpenDataKey(key, header)
	if !ok {
		seg.KeyErr = seg.badKey()
		return
	}
	seg.key, seg.KeyErr = data, nil
}

func (seg *Segment) badKey() error {
	p := seg.problem(format.ProblemContent, 0,
		"data key of the segment cannot be decrypted: the header is not what the server wrote")
	p.Offset = 136
	return p
}

// noteBlock learns from an intact block of a segment with a damaged header whether the segment is encrypted.
func (seg *Segment) noteBlock(h *format.BlockHeader) {
	if seg.damaged == nil || !h.Encrypted() || seg.Header.Encrypted {
		return
	}
	seg.Header.Encrypted = true
	seg.unlockDamaged()
}

// unlockDamaged decrypts the data key in a damaged header, if the data key itself is not damaged.
func (seg *Segment) unlockDamaged() {
	b := seg.damaged
	if len(b) < format.EncryptedHeaderSize {
		seg.KeyErr = seg.Err
		return
	}
	id := format.IDOfHeader(b)
	seg.KeyErr = format.MissingKey(seg.Path, seg.Stream.Number, seg.Number, id)
	for _, key := range seg.Stream.keys.All(id) {
		if data, ok := format.OpenDamaged(key, b, &seg.Header); ok {
			seg.key, seg.KeyErr = data, nil
			return
		}
	}
	if _, known := seg.Stream.keys.Find(id, false); known {
		seg.KeyErr = seg.badKey()
	}
}

// MissingKeys returns why segments with records of a time cannot be decrypted: one error for each missing key,
// and one for each segment whose key part is damaged.
func (x *Index) MissingKeys(since, until int64) []error { return x.missingKeys(since, until, nil, nil) }

// hasWanted returns whether the segment has a wanted block with records of a time. Block headers are not
// encrypted.
func (s *SegmentIndex) hasWanted(since, until int64, wanted func(*BlockRef) bool) bool {
	refs, errs := s.refs()
	return len(errs) > 0 || slices.ContainsFunc(refs, func(r BlockRef) bool {
		return r.Records > 0 && r.LastEnd >= since && (r.FirstTime < until || until == format.MaxTime) && wanted(&r)
	})
}

// missingKeys does the same for some segments, and for segments that have a wanted block.
func (x *Index) missingKeys(
	since, until int64, segment func(*Segment) bool, wanted func(*BlockRef) bool,
) (errs []error) {
	of := map[format.KeyID]*format.Problem{}
	for i := range x.Streams {
		for k := range x.Streams[i].Segments {
			s := &x.Streams[i].Segments[k]
			if s.Records == 0 || s.LastEnd < since || s.FirstTime >= until && until != format.MaxTime ||
				s.Segment.KeyErr == nil || segment != nil && !segment(s.Segment) ||
				wanted != nil && !s.hasWanted(since, until, wanted) {
				continue
			}
			missing := format.AsProblem(s.Segment.KeyErr)
			if missing == nil || missing.Key == nil {
				errs = append(errs, s.Segment.KeyErr)
			} else if known := of[*missing.Key]; known != nil {
				known.AddMissing()
			} else {
				found := *missing
				of[*missing.Key] = &found
				errs = append(errs, &found)
			}
		}
	}
	return errs
}

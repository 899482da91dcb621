// Encrypted segments: their data keys, and those for which no key was given.

package trail

import (
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
)

// unlock takes the data key out of an encrypted segment's header.
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

// noteBlock takes notice of a whole block of a segment whose header is damaged: it tells
// whether the segment is encrypted.
func (seg *Segment) noteBlock(h *format.BlockHeader) {
	if seg.damaged == nil || !h.Encrypted() || seg.Header.Encrypted {
		return
	}
	seg.Header.Encrypted = true
	seg.unlockDamaged()
}

// unlockDamaged takes the data key out of a damaged header, if the damage is not in
// the key itself.
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

// MissingKeys says why segments that have records of a time cannot be decrypted: one
// error for each key that is missing, and one for each segment with a damaged key part.
func (x *Index) MissingKeys(since, until int64) []error { return x.missingKeys(since, until, nil, nil) }

// hasWanted says whether a block of the segment that has records of a time is wanted.
// Headers are not encrypted.
func (s *SegmentIndex) hasWanted(since, until int64, wanted func(*BlockRef) bool) bool {
	refs, errs := s.refs()
	return len(errs) > 0 || slices.ContainsFunc(refs, func(r BlockRef) bool {
		return r.Records > 0 && r.LastEnd >= since && (r.FirstTime < until || until == format.MaxTime) && wanted(&r)
	})
}

// missingKeys does the same for wanted segments that have a wanted block, if not all are.
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

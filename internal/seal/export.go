package seal

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// WriteJSON writes the anchor as one line of JSON.
func (a *Anchor) WriteJSON(out io.Writer) error {
	hex := func(b []byte) string { return fmt.Sprintf("%x", b) }
	o := struct {
		Version   int     `json:"anchor"`
		System    string  `json:"system_id"`
		Stream    uint32  `json:"stream"`
		Segment   uint64  `json:"segment"`
		Block     uint64  `json:"block"`
		Record    uint64  `json:"record"`
		Hash      string  `json:"hash"`
		Time      string  `json:"time"`
		Reason    string  `json:"reason,omitempty"`
		First     uint64  `json:"first,omitempty"`
		Interval  *uint32 `json:"interval,omitempty"`
		Key       string  `json:"key,omitempty"`
		NextKey   string  `json:"next_key,omitempty"`
		Signature string  `json:"signature,omitempty"`
	}{
		Version: 1, System: strconv.FormatUint(a.SystemID, 10), Stream: a.Stream, Segment: a.Segment, Block: a.Block, Record: a.Record,
		Hash: hex(a.Hash[:]), Time: render.Time(a.Time),
	}
	if a.Signed {
		o.Reason, o.First, o.Interval, o.Key, o.NextKey, o.Signature = a.Reason, a.First, &a.Interval, a.Key, hex(a.NextKey), hex(a.Signature)
	}
	return json.NewEncoder(out).Encode(o)
}

// Last is the anchor of a stream's end: its last whole block, or, when that has
// nothing but seals in it, the one before, which they are of. It is nil for a
// stream without blocks.
func Last(s *trail.Stream) (*Anchor, []error) {
	files := &trail.Files{}
	defer files.Close()
	for i := len(s.Segments) - 1; i >= 0; i-- {
		seg := s.Segments[i]
		refs, errs := seg.Index()
		var damage []error
		for _, err := range errs {
			if torn, ok := err.(*trail.TornError); !ok || !torn.Last {
				damage = append(damage, err)
			}
		}
		if len(damage) > 0 {
			return nil, damage
		}
		for k := len(refs) - 1; k >= 0; k-- {
			var b trail.Block
			err := files.Read(&refs[k], &b)
			if err != nil && err != seg.KeyErr {
				if seg.Last && k == len(refs)-1 && b.HasHole() {
					continue // unfinished
				}
				return nil, []error{err}
			}
			// without the key of the segment, only the header can be read
			if err != nil {
			} else if sealed := sealOf(&b, &seg.Header); sealed != nil {
				return &Anchor{Seal: *sealed, Signed: true}, nil
			}
			h := &b.Header
			return &Anchor{Seal: Seal{
				SystemID: seg.Header.SystemID, Stream: seg.Header.Stream, Segment: seg.Header.Number,
				Block: h.Number, Record: h.FirstRecord + uint64(h.Records) - 1, Hash: h.Chain, Time: h.LastEnd,
			}}, nil
		}
	}
	return nil, nil
}

// sealOf is the last seal of a block that has nothing but seals, nil of another.
func sealOf(b *trail.Block, h *trail.SegmentHeader) (last *Seal) {
	var r trail.Record
	for {
		if err := b.Next(&r); err == io.EOF {
			return last
		} else if err != nil || r.Kind != trail.KindSeal {
			return nil
		}
		s, err := Parse(&r, h)
		if err != nil {
			return nil
		}
		last = s
	}
}

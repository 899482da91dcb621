// Anchors: their lines, and making them from a stream.

package seal

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Anchor states how far a stream had got: the number and chain hash of a block. If that block has a seal, the anchor
// is signed.
type Anchor struct {
	Seal
	Signed bool
	From   string // file and line, for messages
}

// anchorWord and anchorVersion begin each line.
const (
	anchorWord    = "pg_steno-anchor"
	anchorVersion = "1"
)

// String returns the anchor's line.
func (a *Anchor) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s system=%d stream=%d segment=%d block=%d record=%d hash=%x time=%s",
		anchorWord, anchorVersion, a.SystemID, a.Stream, a.Segment, a.Block, a.Record, a.Hash, render.Time(a.Time))
	if a.Signed {
		fmt.Fprintf(&b, " reason=%s first=%d interval=%d key=%s", a.Reason, a.First, a.Interval, a.Key)
		if a.NextKey != nil {
			fmt.Fprintf(&b, " next_key=%x", []byte(a.NextKey))
		}
		fmt.Fprintf(&b, " signature=%x", a.Signature)
	}
	return b.String()
}

// pgEpoch is 2000-01-01 in microseconds since 1970.
const pgEpoch = 946684800 * 1e6

// ParseAnchors reads anchors, one a line; empty lines and those that begin with
// # are skipped.
func ParseAnchors(in io.Reader, name string) ([]*Anchor, error) {
	var anchors []*Anchor
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		from := fmt.Sprintf("%s:%d", name, n)
		a, err := parseAnchor(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		a.From = from
		anchors = append(anchors, a)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(anchors) == 0 {
		return nil, fmt.Errorf("%s: it contains no anchor", name)
	}
	return anchors, nil
}

func parseAnchor(line string) (*Anchor, error) {
	words := strings.Fields(line)
	if words[0] != anchorWord || len(words) < 2 {
		return nil, fmt.Errorf("not an anchor: it does not begin with %q", anchorWord)
	}
	if words[1] != anchorVersion {
		return nil, fmt.Errorf("anchor has version %q, but this program reads version %s", words[1], anchorVersion)
	}
	values := map[string]string{}
	for _, w := range words[2:] {
		name, value, ok := strings.Cut(w, "=")
		if _, twice := values[name]; !ok || twice {
			return nil, fmt.Errorf("%q is not a name and value, or is duplicated", w)
		}
		values[name] = value
	}
	a := &Anchor{}
	var err error
	number := func(name string, bits int) uint64 {
		n, e := strconv.ParseUint(values[name], 10, bits)
		if err == nil && e != nil {
			err = fmt.Errorf("%s is not a number: %q", name, values[name])
		}
		return n
	}
	a.SystemID, a.Stream, a.Segment = number("system", 64), uint32(number("stream", 32)), number("segment", 64)
	a.Block, a.Record = number("block", 64), number("record", 64)
	hash, e := hex.DecodeString(values["hash"])
	if err == nil && (e != nil || len(hash) != len(a.Hash)) {
		err = fmt.Errorf("hash is not %d hexadecimal digits: %q", 2*len(a.Hash), values["hash"])
	}
	copy(a.Hash[:], hash)
	t, e := time.Parse(time.RFC3339Nano, values["time"])
	if err == nil && e != nil {
		err = fmt.Errorf("invalid time: %q", values["time"])
	}
	a.Time = t.UnixMicro() - pgEpoch
	if _, a.Signed = values["signature"]; a.Signed && err == nil {
		err = a.setValues(values)
	}
	return a, err
}

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
		Version: 1, System: strconv.FormatUint(a.SystemID, 10), Stream: a.Stream, Segment: a.Segment,
		Block: a.Block, Record: a.Record, Hash: hex(a.Hash[:]), Time: render.Time(a.Time),
	}
	if a.Signed {
		o.Reason, o.First, o.Interval, o.Key, o.NextKey, o.Signature = a.Reason, a.First, &a.Interval, a.Key,
			hex(a.NextKey), hex(a.Signature)
	}
	return json.NewEncoder(out).Encode(o)
}

// Last returns the anchor of a stream's end: its last whole block, or, if that has only seals, the block before,
// which they seal. It is nil for a stream without blocks.
func Last(s *trail.Stream) (*Anchor, []error) {
	files := &trail.Files{}
	defer files.Close()
	for i := len(s.Segments) - 1; i >= 0; i-- {
		seg := s.Segments[i]
		refs, errs := seg.Index()
		var damage []error
		for _, err := range errs {
			if p := format.AsProblem(err); p == nil || p.Class != format.ProblemTorn {
				damage = append(damage, err)
			}
		}
		if len(damage) > 0 {
			return nil, damage
		}
		for k := len(refs) - 1; k >= 0; k-- {
			var b format.Block
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

// sealOf returns the last seal of a block that has only seals; nil for other blocks.
func sealOf(b *format.Block, h *format.SegmentHeader) (last *Seal) {
	var r format.Record
	for {
		if err := b.Next(&r); err == io.EOF {
			return last
		} else if err != nil || r.Kind != format.KindSeal {
			return nil
		}
		s, err := Parse(&r, h)
		if err != nil {
			return nil
		}
		last = s
	}
}

package verify

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// noted is a block with one record.
func noted(s *trailtest.Stream, text string) []byte {
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: text})
	return s.Finish(b)
}

// Of several blocks that a crash may have left unfinished, only the last counts as that:
// a reader cannot know that the writer will cut off the others.
func TestOnlyTheLastBlockIsUnfinished(t *testing.T) {
	long := strings.Repeat("0123456789", 200)
	for name, damage := range map[string]func(last []byte) []byte{
		"a header with a hole":      func(b []byte) []byte { clear(b[40:]); return b },
		"half a block":              func(b []byte) []byte { return b[:len(b)-30] },
		"part of a header":          func(b []byte) []byte { return b[:50] },
		"a payload with a hole":     func(b []byte) []byte { clear(b[200:]); return b },
		"a whole block":             func(b []byte) []byte { return b },
		"nothing":                   func([]byte) []byte { return nil },
		"a damaged header, no hole": func(b []byte) []byte { b[30] ^= 1; return b },
	} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		s.Codec = format.CodecNone
		s.Raw(t, noted(s, "whole"))
		first := noted(s, long)
		clear(first[300:])
		s.Raw(t, append(first, damage(noted(s, long))...))
		r := verified(t, dir)
		if name == "nothing" {
			if !r.Whole || len(r.Warnings) != 1 {
				t.Errorf("%s: %+v %+v", name, r.Problems, r.Warnings)
			}
			continue
		}
		if r.Whole || !strings.Contains(r.Problems[0].What, "checksum of the payload") {
			t.Errorf("%s: %+v", name, r.Problems)
		}
	}
}

// A last block that matches its checksums was written as a whole, though its payload ends with zeros: if it cannot be read,
// it is damage, and not what a crash leaves.
func TestAWholeBlockIsNotUnfinished(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	s.Codec = format.CodecNone
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Item(format.KindNote, make([]byte, 40))
	b.Records = 1
	s.Write(t, b)
	if r := verified(t, dir); r.Whole || len(r.Warnings) != 0 {
		t.Errorf("a record of no session: %+v %+v", r.Problems, r.Warnings)
	}
	dir = t.TempDir()
	s = trailtest.NewStream(t, dir, 0)
	s.Codec = format.CodecNone
	b = trailtest.NewBuilder(trailtest.Epoch)
	b.Item(format.KindDefText, make([]byte, 40))
	image := s.Finish(b)
	le := binary.LittleEndian
	le.PutUint32(image[12:], le.Uint32(image[12:])+1)
	trailtest.SealHeader(image)
	s.Raw(t, image)
	if r := verified(t, dir); r.Whole || len(r.Warnings) != 0 {
		t.Errorf("another length before compression: %+v %+v", r.Problems, r.Warnings)
	}
}

// An index that says something about blocks which are not before it in its segment, or that is longer than its item,
// is damage. Lists that nobody knows yet are not.
func TestIndexesThatOverrunAreDamage(t *testing.T) {
	item := func(numbers ...uint64) (b []byte) {
		for _, n := range numbers {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"of the segment":               {item(2, 1, 1), ""},
		"with a list of a later time":  {item(2, 1, 1, 99, 2, 7, 7), ""},
		"of itself":                    {item(2, 2, 1), "index covers blocks that follow it"},
		"of blocks before its segment": {item(1, 2, 1), "index covers blocks of an earlier segment"},
		"with a list longer than it":   {item(2, 1, 1, 1, 50, 0), "index ends too early"},
		"with terms longer than it":    {item(2, 1, 1, 1, 3, 0, 1, 50), "index: list"},
		"of nothing":                   {item(2, 0, 1), "index covers no blocks"},
	} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		s.Raw(t, noted(s, "one"))
		s.Rotate(t, trailtest.Epoch)
		s.Write(t, trailtest.NewBuilder(trailtest.Epoch))
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Item(format.KindDefIndex, c.body)
		s.Write(t, b)
		r := verified(t, dir)
		switch {
		case c.want == "" && !r.Whole:
			t.Errorf("%s: %+v", name, r.Problems)
		case c.want != "" && (r.Whole || !strings.Contains(r.Problems[0].What, c.want)):
			t.Errorf("%s: whole %t, %+v", name, r.Whole, r.Problems)
		}
	}
}

// What stands behind a shape's objects and is no list is skipped, as what a later version adds would be. A value that
// is longer than the record is damage.
func TestShapesMayGoOnAndValuesMayNot(t *testing.T) {
	for name, c := range map[string]struct {
		after, values []byte
		whole         bool
	}{
		"nothing":                      {nil, []byte{3, 'a', 'b', 'c'}, true},
		"a list that is not known":     {[]byte{77, 2, 1, 1}, []byte{3, 'a', 'b', 'c'}, true},
		"a list longer than the shape": {[]byte{2, 100, 1}, []byte{3, 'a', 'b', 'c'}, true},
		"no list":                      {[]byte{0xff, 0xff}, []byte{3, 'a', 'b', 'c'}, true},
		"a value longer than its item": {nil, []byte{4, 'a', 'b', 'c'}, false},
		"a value longer than anything": {nil, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'a'}, false},
		"bytes behind the last value":  {nil, []byte{2, 'a', 'b', 'c'}, false},
	} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		session := trailtest.NewSession(trailtest.Epoch, 1)
		b := trailtest.NewBuilder(trailtest.Epoch)
		shape := []byte{byte(format.ClassRead), 0, 6, 'S', 'E', 'L', 'E', 'C', 'T', 0, 1, 25, byte(format.ReprText), 0}
		b.Item(format.KindDefShape, append(shape, c.after...))
		b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: trailtest.Epoch, Text: "one"})
		record := binary.AppendUvarint([]byte{0}, uint64(format.FieldShape|format.FieldValues))
		b.Item(format.KindStatement, append(append(append(record, 0), byte(len(c.values))), c.values...))
		b.Records++
		s.Write(t, b)
		if r := verified(t, dir); r.Whole != c.whole {
			t.Errorf("%s: whole %t, %+v", name, r.Whole, r.Problems)
		}
	}
}

// A segment whose header says something else of the times in the segment before than that has is damage: readers pass over
// that segment because of it.
func TestTimesOfTheSegmentBeforeAreRight(t *testing.T) {
	for name, c := range map[string]struct {
		first, last int64 // what is added to what is right
		cut         bool  // a block of the segment before is damaged
		want        bool
	}{
		"right":                         {},
		"later":                         {first: 1, want: true},
		"ends earlier":                  {last: -1, want: true},
		"wider":                         {first: -1, last: 1, want: true},
		"right, of a damaged segment":   {cut: true},
		"wider, of a damaged segment":   {first: -1, cut: true},
		"narrower, of a damaged one":    {last: -1, cut: true, want: true},
		"not known":                     {first: -trailtest.Epoch, last: -trailtest.Epoch - 1000},
		"unknown, of a damaged segment": {first: -trailtest.Epoch, last: -trailtest.Epoch - 1000, cut: true},
	} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		session := trailtest.NewSession(trailtest.Epoch, 1)
		write := func(at int64) {
			b := trailtest.NewBuilder(trailtest.Epoch)
			b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: trailtest.Epoch + at, Text: "text"})
			s.Write(t, b)
		}
		for _, at := range []int64{0, 1000, 500} {
			write(at)
		}
		s.TimesOff = format.TimeRange{First: c.first, LastEnd: c.last}
		s.Rotate(t, trailtest.Epoch)
		write(2000)
		if c.cut {
			path := s.SegmentPath(1)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[bytes.LastIndex(data, []byte("SBLK"))+30] ^= 1
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := verified(t, dir)
		told := slices.ContainsFunc(r.Problems, func(p Problem) bool { return strings.Contains(p.What, "records of the segment before are") })
		if told != c.want || r.Whole != (!c.want && !c.cut) {
			t.Errorf("%s: %+v", name, r.Problems)
		}
	}
}

// What a later version has written is no damage: it cannot be read, and so not be checked, nor is anything known to be missing.
func TestWhatALaterVersionWroteIsNoDamage(t *testing.T) {
	for name, change := range map[string]func(s *trailtest.Stream, path string){
		"codec":   func(s *trailtest.Stream, _ string) { s.Codec = 9 },
		"version": func(_ *trailtest.Stream, path string) { rewriteHeader(t, path, 8, 2) },
		"flags":   func(_ *trailtest.Stream, path string) { rewriteHeader(t, path, 12, 4) },
	} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		session := trailtest.NewSession(trailtest.Epoch, 1)
		write := func(seq uint64) {
			b := trailtest.NewBuilder(trailtest.Epoch)
			b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Seq: seq, Statement: seq, Time: trailtest.Epoch + int64(seq), Text: "SELECT"})
			s.Write(t, b)
		}
		write(1)
		if name == "codec" {
			change(s, "")
			write(2)
			s.Codec = format.CodecLz4
			write(3)
		} else {
			s.Rotate(t, trailtest.Epoch)
			write(2)
			change(s, s.SegmentPath(2))
		}
		r := verified(t, dir)
		if len(r.Problems) > 0 || len(r.Unreadable) != 1 || r.Unreadable[0].Offset == nil || !strings.Contains(r.Unreadable[0].What, "this program") {
			t.Errorf("%s: %+v, %+v", name, r.Problems, r.Unreadable)
		}
	}
}

// rewriteHeader changes a byte of a segment's header, and makes its checksum right.
func rewriteHeader(t *testing.T, path string, at int, to byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] = to
	trailtest.SealSegment(data[:format.SegmentHeaderSize])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

package query

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// furtherEntry is a relation or an object behind the values of a record.
func furtherEntry(kind byte, body ...string) []byte {
	one := []byte(strings.Join(body, ""))
	return append(binary.AppendUvarint([]byte{kind}, uint64(len(one))), one...)
}

func str(s string) string { return string(binary.AppendUvarint(nil, uint64(len(s)))) + s }

// asked is the texts of records that a filter by object finds in a trail, whichever way it is read, and what is told of
// the others.
func askedByObject(t *testing.T, dir string, not bool, objects ...string) (texts string, told error) {
	t.Helper()
	o := FilterOptions{Objects: objects}
	if not {
		o = FilterOptions{Not: &FilterOptions{Objects: objects}}
	}
	f, err := o.Filter(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	index := opened.Index()
	var out []string
	for _, want := range []trail.Want{{}, f.Want()} {
		s := index.Scan(context.Background(), trail.ScanOptions{Since: trail.MinTime, Until: trail.MaxTime, Parts: true, Want: want, Contents: f.Contents(), Warn: func(error) {}})
		var kept []string
		var hidden Hidden
		m := Matcher{Filter: f}
		for r := s.Reader(); r.Next(); {
			m.Reset()
			if m.Keep(&r.Record) {
				kept = append(kept, string(r.Record.Text))
			} else {
				hidden.Note(&m, &r.Record)
				hidden.Note(&m, &r.Record) // blocks may be read twice
			}
		}
		s.Close()
		slices.Sort(kept)
		out = append(out, strings.Join(kept, " "))
		told = hidden.Err()
	}
	if out[0] != out[1] {
		t.Errorf("%v: %q is found, without what is not wanted %q", objects, out[0], out[1])
	}
	return out[0], told
}

func TestNamesBehindTheValuesAreFound(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	shape := &trailtest.Shape{Class: trail.ClassDDL, Relations: []trailtest.Relation{{Type: 2, Access: trail.AccessSelect, Name: "public.v"}},
		Objects: []trailtest.Object{{Action: trail.ActionDrop, Type: "table", Name: "public.a"}}}
	further := string(slices.Concat(
		furtherEntry(1, "\x01\x01", str("public.t"), "\x01", "\x01\x01", str("c")),
		furtherEntry(2, "\x03", str("table"), str("public.b"), str("")),
		furtherEntry(99, "of a later version"),
	))
	add := func(seq uint64, text, data string, parts, said int, extra ...string) {
		b := trailtest.NewBuilder(trailtest.Epoch + int64(seq))
		if data != "" {
			b.Data(session, seq, trail.PartValues, data)
		}
		r := &trailtest.Record{Kind: trail.KindStatement, Session: session, Seq: seq, Time: trailtest.Epoch + int64(seq), Shape: shape, Text: text, Parts: [3]uint64{0, uint64(parts), 0}}
		if said > 0 {
			extra = append(extra, "further_bytes", fmt.Sprint(said))
		}
		r.Extra = extra
		b.Add(r)
		s.Write(t, b)
	}
	add(1, "whole", further, len(further), len(further))
	add(2, "short", "", 0, 0)
	add(3, "omits", "", 0, 0, "objects_omitted", "7")
	add(4, "lacks", further[:5], len(further), len(further))
	for _, one := range []struct {
		object string
		not    bool
		want   string
		told   int
	}{
		{"public.a", false, "lacks omits short whole", 0},
		{"public.b", false, "whole", 2},
		{"t.c", false, "whole", 2},
		{"public.t.d", false, "", 2},
		{"b", true, "lacks omits short", 0},
		{"public.other", true, "lacks omits short whole", 0},
	} {
		got, err := askedByObject(t, dir, one.not, one.object)
		if got != one.want {
			t.Errorf("%s: %q is found, want %q", one.object, got, one.want)
		}
		told := 0
		if e, ok := err.(*OmittedError); ok {
			told = e.Count
		}
		if told != one.told {
			t.Errorf("%s: told of %d records, want %d: %v", one.object, told, one.told, err)
		}
	}
}

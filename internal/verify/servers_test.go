package verify

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// otherServer is the same trail with another system identifier, chained anew and without seals.
func (s *suite) otherServer(t *testing.T, system uint64) files {
	f := apart(t, s.original)
	for _, stream := range f.streams {
		for _, seg := range stream.segments {
			seg.header = slices.Clone(seg.header)
			binary.LittleEndian.PutUint64(seg.header[16:], system)
		}
	}
	return f.together(sealsGone)
}

// TestTrailsOfTwoServersAreVerifiedByThemselves has trails of two servers with the same sessions and stream numbers.
func TestTrailsOfTwoServersAreVerifiedByThemselves(t *testing.T) {
	s := newSuite(t)
	open := func(f files) *trail.Trail {
		dir := t.TempDir()
		f.write(t, dir)
		one, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	verify := func(checks Checks, trails ...*trail.Trail) *Report {
		r, err := Trail(context.Background(), trail.Join(trails...), nil, checks)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	other := s.otherServer(t, 4711)
	a, b := verify(Checks{}, open(s.original)), verify(Checks{}, open(other))
	both := verify(Checks{Anchors: s.anchors}, open(other), open(s.original))
	if !a.Whole || !b.Whole || !both.Whole || len(both.Servers) != 2 || !slices.Contains(both.Servers, "4711") {
		t.Fatalf("%v, %v, together %v of %v", a.Problems, b.Problems, both.Problems, both.Servers)
	}
	if both.Records != a.Records+b.Records || both.Blocks != a.Blocks+b.Blocks || both.Sessions != a.Sessions+b.Sessions || both.Anchors != len(s.anchors) || both.Bytes != a.Bytes+b.Bytes {
		t.Errorf("together %+v", both)
	}
	// damage of one is that of both, and an anchor of none is none of the others'
	damaged := s.original.clone()
	damaged[0][1][2000] ^= 1
	if r := verify(Checks{}, open(other), open(damaged)); r.Whole || len(r.Problems) != len(verify(Checks{}, open(damaged)).Problems) {
		t.Errorf("damaged: %v", r.Problems)
	}
	foreign := *s.anchors[0]
	foreign.SystemID = 1
	if r := verify(Checks{Anchors: []*seal.Anchor{&foreign}}, open(other), open(s.original)); r.Whole || !strings.Contains(r.Problems[0].What, "is of another server") {
		t.Errorf("an anchor of another server: %v", r.Problems)
	}
	// in one folder, a stream of another server is damage still
	mixed := s.original.clone()
	mixed[1] = other[1]
	if r := verify(Checks{}, open(mixed)); r.Whole || !says(r, "belongs to another server") {
		t.Errorf("a stream of another server: %v", r.Problems)
	}
}

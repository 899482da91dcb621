package trail_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func threeSegments(t *testing.T) (dir string, s *trailtest.Stream) {
	dir = t.TempDir()
	s = trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for i := range 3 {
		if i > 0 {
			s.Rotate(t, trailtest.Epoch+int64(i))
		}
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(note(session, trailtest.Epoch, fmt.Sprint("text", i+1)))
		s.Write(t, b)
	}
	return dir, s
}

func TestDeletionsAreFoundWhereTheStateFileSays(t *testing.T) {
	dir, s := threeSegments(t)
	writer := trailtest.NewSession(trailtest.Epoch, 2)
	if all := trail.DeletionsIn(dir, nil); all != nil {
		t.Errorf("without a state file: %v", all)
	}
	want := s.Delete(t, writer, s, 1, 2)
	if all := trail.DeletionsIn(dir, nil); len(all) != 1 || all[0] != want {
		t.Errorf("got %+v, want %+v", all, want)
	}
	if tr := open(t, dir); len(tr.Foreign) != 0 {
		t.Errorf("foreign: %q", tr.Foreign)
	}

	// What the file says, and no record, counts for nothing.
	path := filepath.Join(dir, "retention")
	state, _ := os.ReadFile(path)
	for _, forged := range []string{
		strings.Replace(string(state), "segments 1 2", "segments 1 3", 1),
		strings.Replace(string(state), "at 0 3", "at 0 2", 1),
		strings.Replace(string(state), "at 0 3", "at 9 3", 1),
		regexp.MustCompile(`at (\d+ \d+) \d+`).ReplaceAllString(string(state), "at $1 9223372036854775807"),
		regexp.MustCompile(`at (\d+ \d+) \d+`).ReplaceAllString(string(state), "at $1 9223372036854775700"),
		strings.Replace(string(state), "retention 1", "retention 2", 1),
		string(state[:len(state)/3]),
	} {
		if forged == string(state) {
			t.Fatal("the state file has another form")
		}
		os.WriteFile(path, []byte(forged), 0o600)
		if all := trail.DeletionsIn(dir, nil); all != nil {
			t.Errorf("%q is believed: %v", forged, all)
		}
	}

	// Of two lines, the first that a record bears out.
	lines := strings.SplitAfter(string(state), "\n")
	os.WriteFile(path, []byte(lines[0]+strings.Replace(lines[1], "segments 1 2", "segments 1 3", 1)+lines[1]), 0o600)
	if all := trail.DeletionsIn(dir, nil); len(all) != 1 || all[0] != want {
		t.Errorf("got %+v, want %+v", all, want)
	}
}

func TestSegmentsThatAreMissingAreToldToThoseWhoReadAroundThem(t *testing.T) {
	const second = 1_000_000
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for i := range int64(7) {
		if i > 0 {
			s.Rotate(t, trailtest.Epoch+i*second)
		}
		b := trailtest.NewBuilder(trailtest.Epoch + i*second)
		b.Add(note(session, trailtest.Epoch+i*second, fmt.Sprint("text", i+1)))
		s.Write(t, b)
	}
	s.Delete(t, trailtest.NewSession(trailtest.Epoch, 2), s, 1, 2)
	for _, n := range []uint64{2, 4, 5} { // of the first two, the server has left one
		os.Remove(s.SegmentPath(n))
	}
	const at = trailtest.Epoch
	told := func(path string, since, until int64, blocks func(*trail.BlockRef) bool) (messages []string) {
		seen := func(err error) {
			if errors.As(err, new(*trail.MissingError)) {
				_, message, _ := strings.Cut(err.Error(), ": ")
				messages = append(messages, message)
			} else {
				t.Error(err)
			}
		}
		merged := trail.MergeOptions{Since: since, Until: until, Blocks: blocks, NewFormatter: func() trail.Formatter { return &lines{} }, Warn: seen}
		open(t, path).Index().Merge(t.Context(), merged, func([]byte) error { return nil })
		whole := messages
		messages = nil
		scan := open(t, path).Index().Scan(t.Context(), trail.ScanOptions{Since: since, Until: until, Blocks: blocks, Warn: seen})
		scan.Close()
		if !slices.Equal(whole, messages) {
			t.Errorf("merged: %q; scanned: %q", whole, messages)
		}
		messages = nil
		all := func(uint32) uint64 { return 0 }
		open(t, path).Index().MergeInParts(t.Context(), all, merged, func([]byte) error { return nil }, func([]trail.Place) error { return nil })
		if !slices.Equal(whole, messages) {
			t.Errorf("merged: %q; in parts: %q", whole, messages)
		}
		return whole
	}
	missing := []string{"segments 4 to 5 are missing, and were not deleted by retention"}
	from := func(n uint64) func(*trail.BlockRef) bool {
		return func(r *trail.BlockRef) bool { return r.Number >= n }
	}
	for _, c := range []struct {
		path         string
		since, until int64
		blocks       func(*trail.BlockRef) bool
		want         []string
	}{
		{dir, trail.MinTime, trail.MaxTime, nil, missing},
		{filepath.Join(dir, "0"), trail.MinTime, trail.MaxTime, nil, missing},
		{s.SegmentPath(3), trail.MinTime, trail.MaxTime, nil, nil},
		{dir, at + 3*second, at + 4*second, nil, missing}, // between those that are there
		{dir, at + 6*second + 1, trail.MaxTime, nil, nil},
		{dir, trail.MinTime, at + 2*second, nil, nil},
		{dir, trail.MinTime, trail.MaxTime, from(5), missing},
		{dir, trail.MinTime, trail.MaxTime, from(6), nil},
	} {
		if got := told(c.path, c.since, c.until, c.blocks); !slices.Equal(got, c.want) {
			t.Errorf("%s from %d until %d: %q, want %q", c.path, (c.since-at)/second, (c.until-at)/second, got, c.want)
		}
	}
}

func TestSegmentsThatGoBeforeTheyAreReadAreToldApart(t *testing.T) {
	dir, s := threeSegments(t)
	tr := open(t, dir)
	refs := open(t, dir).Index().Streams[0].Refs()
	s.Delete(t, trailtest.NewSession(trailtest.Epoch, 2), s, 1, 1)
	os.Remove(s.SegmentPath(1))
	os.Remove(s.SegmentPath(2))
	for i, policy := range []bool{true, false} {
		var gone *trail.GoneError
		_, errs := tr.Streams[0].Segments[i].Index()
		if len(errs) != 1 || !errors.As(errs[0], &gone) || gone.ByPolicy() != policy {
			t.Errorf("segment %d: %v", i+1, errs)
		}
		files := &trail.Files{}
		var b trail.Block
		if err := files.Read(&refs[i], &b); !errors.As(err, &gone) || gone.ByPolicy() != policy {
			t.Errorf("block of segment %d: %v", i+1, err)
		}
		files.Close()
	}
}

func TestFollowingTellsWhatItMissed(t *testing.T) {
	dir, s := threeSegments(t)
	f := follow(t, dir)
	f.expect()
	session := trailtest.NewSession(trailtest.Epoch, 3)
	for i := range 3 {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(note(session, trailtest.Epoch, fmt.Sprint("more", i)))
		s.Write(t, b)
		s.Rotate(t, trailtest.Epoch+int64(10+i))
	}
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(note(session, trailtest.Epoch, "last"))
	s.Write(t, b)
	s.Delete(t, trailtest.NewSession(trailtest.Epoch, 2), s, 1, 4)
	for n := uint64(1); n <= 4; n++ {
		os.Remove(s.SegmentPath(n))
	}
	texts := f.poll()
	if len(texts) == 0 || texts[0] != "more2" {
		t.Errorf("got %q", texts)
	}
	if len(f.warnings) != 1 || !strings.Contains(f.warnings[0], "the content of blocks 4 to 5 was deleted by retention before it was read") {
		t.Errorf("warnings: %q", f.warnings)
	}
}

func TestRecordsThatLostTheirFirstPartsAreIncomplete(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Data(session, 1, trail.PartText, "first part, ")
	s.Write(t, b)
	s.Rotate(t, trailtest.Epoch+1)
	b = trailtest.NewBuilder(trailtest.Epoch)
	r := note(session, trailtest.Epoch, "rest")
	r.Parts = [3]uint64{12, 0, 0}
	b.Add(r)
	s.Write(t, b)
	warned := func() (err error) {
		opts := trail.MergeOptions{Since: trail.MinTime, Until: trail.MaxTime, NewFormatter: func() trail.Formatter { return &lines{} }, Warn: func(e error) { err = e }}
		open(t, dir).Index().Merge(t.Context(), opts, func([]byte) error { return nil })
		return err
	}
	if err := warned(); err != nil {
		t.Fatal(err)
	}
	os.Remove(s.SegmentPath(1))
	var incomplete *trail.IncompleteError
	if err := warned(); !errors.As(err, &incomplete) {
		t.Errorf("got %v", err)
	}
}

// deleting runs a function before the parts of a record are read.
type deleting struct {
	lines
	before func()
}

func (d *deleting) Guess(*trail.Record) bool { d.before(); return true }

func TestRecordsWhoseSegmentGoesBeforeTheirPartsAreReadAreIncomplete(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Data(session, 1, trail.PartText, "first part, ")
	s.Write(t, b)
	b = trailtest.NewBuilder(trailtest.Epoch)
	r := note(session, trailtest.Epoch, "rest")
	r.Parts = [3]uint64{12, 0, 0}
	b.Add(r)
	s.Write(t, b)
	s.Rotate(t, trailtest.Epoch+1)
	var once sync.Once
	goes := func() {
		s.Delete(t, trailtest.NewSession(trailtest.Epoch, 2), s, 1, 1)
		os.Remove(s.SegmentPath(1))
	}
	var warnings []error
	opts := trail.MergeOptions{
		Since: trail.MinTime, Until: trail.MaxTime,
		NewFormatter: func() trail.Formatter { return &deleting{before: func() { once.Do(goes) }} },
		Warn:         func(err error) { warnings = append(warnings, err) },
	}
	open(t, dir).Index().Merge(t.Context(), opts, func([]byte) error { return nil })
	var incomplete *trail.IncompleteError
	if len(warnings) != 1 || !errors.As(warnings[0], &incomplete) {
		t.Errorf("got %v", warnings)
	}
}

func TestUncovered(t *testing.T) {
	for _, c := range []struct {
		spans      []trail.Span
		first, end uint64
		want       []trail.Span
	}{
		{nil, 1, 4, []trail.Span{{1, 3}}},
		{nil, 4, 4, nil},
		{nil, 5, 4, nil},
		{[]trail.Span{{1, 3}}, 1, 4, nil},
		{[]trail.Span{{3, 3}}, 3, 4, nil},
		{[]trail.Span{{2, 2}}, 1, 4, []trail.Span{{1, 1}, {3, 3}}},
		{[]trail.Span{{1, 2}, {1, 5}, {2, 3}}, 1, 8, []trail.Span{{6, 7}}},
		{[]trail.Span{{1, 2}, {4, 9}}, 3, 8, []trail.Span{{3, 3}}},
		{[]trail.Span{{9, 12}}, 3, 8, []trail.Span{{3, 7}}},
	} {
		if got := trail.Uncovered(c.spans, c.first, c.end); !slices.Equal(got, c.want) {
			t.Errorf("%v, from %d to before %d: got %v, want %v", c.spans, c.first, c.end, got, c.want)
		}
	}
}

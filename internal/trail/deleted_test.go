package trail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
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
		b.Add(trailtest.Note(session, trailtest.Epoch, fmt.Sprint("text", i+1)))
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
	if tr := trailtest.Open(t, dir); len(tr.Foreign) != 0 {
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
		b.Add(trailtest.Note(session, trailtest.Epoch+i*second, fmt.Sprint("text", i+1)))
		s.Write(t, b)
	}
	s.Delete(t, trailtest.NewSession(trailtest.Epoch, 2), s, 1, 2)
	for _, n := range []uint64{2, 4, 5} { // of the first two, the server has left one
		os.Remove(s.SegmentPath(n))
	}
	const at = trailtest.Epoch
	told := func(path string, since, until int64, blocks func(*trail.BlockRef) bool) (messages []string) {
		seen := func(err error) {
			if p := format.AsProblem(err); p != nil && p.Class == format.ProblemMissing {
				_, message, _ := strings.Cut(err.Error(), ": ")
				messages = append(messages, message)
			} else {
				t.Error(err)
			}
		}
		merged := trail.MergeOptions{Since: since, Until: until, Blocks: blocks, NewFormatter: func() trail.Formatter { return &lines{} }, Warn: seen}
		trailtest.Open(t, path).Index().Merge(t.Context(), merged, func([]byte) error { return nil })
		whole := messages
		messages = nil
		scan := trailtest.Open(t, path).Index().Scan(t.Context(), trail.ScanOptions{Since: since, Until: until, Blocks: blocks, Warn: seen})
		scan.Close()
		if !slices.Equal(whole, messages) {
			t.Errorf("merged: %q; scanned: %q", whole, messages)
		}
		messages = nil
		all := func(uint32) uint64 { return 0 }
		trailtest.Open(t, path).Index().MergeInParts(t.Context(), all, merged, func([]byte) error { return nil }, func([]trail.Place) error { return nil })
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
		{dir, format.MinTime, format.MaxTime, nil, missing},
		{filepath.Join(dir, "0"), format.MinTime, format.MaxTime, nil, missing},
		{s.SegmentPath(3), format.MinTime, format.MaxTime, nil, nil},
		{dir, at + 3*second, at + 4*second, nil, missing}, // between those that are there
		{dir, at + 6*second + 1, format.MaxTime, nil, nil},
		{dir, format.MinTime, at + 2*second, nil, nil},
		{dir, format.MinTime, format.MaxTime, from(5), missing},
		{dir, format.MinTime, format.MaxTime, from(6), nil},
	} {
		if got := told(c.path, c.since, c.until, c.blocks); !slices.Equal(got, c.want) {
			t.Errorf("%s from %d until %d: %q, want %q", c.path, (c.since-at)/second, (c.until-at)/second, got, c.want)
		}
	}
}

func TestSegmentsThatGoBeforeTheyAreReadAreToldApart(t *testing.T) {
	dir, s := threeSegments(t)
	tr := trailtest.Open(t, dir)
	refs := trailtest.Open(t, dir).Index().Streams[0].Refs()
	s.Delete(t, trailtest.NewSession(trailtest.Epoch, 2), s, 1, 1)
	os.Remove(s.SegmentPath(1))
	os.Remove(s.SegmentPath(2))
	for i, class := range []format.ProblemClass{format.ProblemDeleted, format.ProblemMissing} {
		_, errs := tr.Streams[0].Segments[i].Index()
		if only(errs, class) == nil {
			t.Errorf("segment %d: %v", i+1, errs)
		}
		files := &trail.Files{}
		var b format.Block
		if err := files.Read(&refs[i], &b); only([]error{err}, class) == nil {
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
		b.Add(trailtest.Note(session, trailtest.Epoch, fmt.Sprint("more", i)))
		s.Write(t, b)
		s.Rotate(t, trailtest.Epoch+int64(10+i))
	}
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(session, trailtest.Epoch, "last"))
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
	b.Data(session, 1, format.PartText, "first part, ")
	s.Write(t, b)
	s.Rotate(t, trailtest.Epoch+1)
	b = trailtest.NewBuilder(trailtest.Epoch)
	r := trailtest.Note(session, trailtest.Epoch, "rest")
	r.Parts = [3]uint64{12, 0, 0}
	b.Add(r)
	s.Write(t, b)
	warned := func() (err error) {
		opts := trail.MergeOptions{Since: format.MinTime, Until: format.MaxTime, NewFormatter: func() trail.Formatter { return &lines{} }, Warn: func(e error) { err = e }}
		trailtest.Open(t, dir).Index().Merge(t.Context(), opts, func([]byte) error { return nil })
		return err
	}
	if err := warned(); err != nil {
		t.Fatal(err)
	}
	os.Remove(s.SegmentPath(1))
	if err := warned(); only([]error{err}, format.ProblemIncomplete) == nil {
		t.Errorf("got %v", err)
	}
}

// deleting runs a function before the parts of a record are read.
type deleting struct {
	lines
	before func()
}

func (d *deleting) MayKeep(*format.Record) bool { d.before(); return true }

func TestRecordsWhoseSegmentGoesBeforeTheirPartsAreReadAreIncomplete(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Data(session, 1, format.PartText, "first part, ")
	s.Write(t, b)
	b = trailtest.NewBuilder(trailtest.Epoch)
	r := trailtest.Note(session, trailtest.Epoch, "rest")
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
		Since: format.MinTime, Until: format.MaxTime,
		NewFormatter: func() trail.Formatter { return &deleting{before: func() { once.Do(goes) }} },
		Warn:         func(err error) { warnings = append(warnings, err) },
	}
	trailtest.Open(t, dir).Index().Merge(t.Context(), opts, func([]byte) error { return nil })
	if only(warnings, format.ProblemIncomplete) == nil {
		t.Errorf("got %v", warnings)
	}
}

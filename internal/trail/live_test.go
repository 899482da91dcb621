package trail_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// follower is a trail being followed, in a test.
type follower struct {
	t        *testing.T
	live     *trail.Live
	warnings []string
}

func follow(t *testing.T, dir string) *follower {
	f := &follower{t: t, live: trailtest.Open(t, dir).Index().Follow(dir)}
	t.Cleanup(f.live.Close)
	return f
}

// poll returns the texts of the records that one look at the trail gives.
func (f *follower) poll() (texts []string) {
	f.t.Helper()
	opts := trail.MergeOptions{Since: format.MinTime, Until: format.MaxTime, Warn: func(err error) { f.warnings = append(f.warnings, err.Error()) }}
	if err := f.live.Poll(context.Background(), &lines{}, opts, func(line []byte) error {
		texts = append(texts, string(line[strings.LastIndexByte(string(line), ' ')+1:]))
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	return texts
}

func (f *follower) expect(texts ...string) {
	f.t.Helper()
	if got := f.poll(); !slices.Equal(got, texts) {
		f.t.Errorf("got %q, want %q", got, texts)
	}
}

func TestFollowingGoesAcrossSegmentsAndStreams(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	now := trailtest.Epoch
	write := func(s *trailtest.Stream, text string) {
		now++
		b := trailtest.NewBuilder(now)
		b.Add(trailtest.Note(session, now, text))
		s.Write(t, b)
	}
	write(s, "before")
	f := follow(t, dir)
	f.expect()
	write(s, "one")
	write(s, "two")
	f.expect("one", "two")
	s.Rotate(t, now)
	f.expect()
	write(s, "three")
	f.expect("three")
	write(s, "four")
	s.Rotate(t, now)
	write(s, "five")
	s.Rotate(t, now)
	write(s, "six")
	f.expect("four", "five", "six")
	other := trailtest.NewStream(t, dir, 7)
	write(other, "seven")
	write(s, "eight")
	f.expect("seven", "eight")
	// Retention removes what is read, and what is not.
	write(s, "nine")
	for n := uint64(1); n <= 4; n++ {
		if n < 4 {
			os.Remove(s.SegmentPath(n))
		}
	}
	f.expect("nine")
	if f.warnings != nil {
		t.Errorf("warnings: %q", f.warnings)
	}
}

func TestFollowingWaitsForTheRestOfABlock(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	f := follow(t, dir)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(session, trailtest.Epoch, "whole"))
	image := s.Finish(b)
	for i := range image {
		s.Raw(t, image[i:i+1])
		if i < len(image)-1 {
			f.expect()
		}
	}
	f.expect("whole")

	// A crash leaves half a block; the server cuts it off and goes on.
	path := s.SegmentPath(1)
	whole, _ := os.ReadFile(path)
	os.WriteFile(path, append(whole, image[:100]...), 0o600)
	f.expect()
	os.WriteFile(path, whole, 0o600)
	f.expect()
	b = trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(session, trailtest.Epoch, "after"))
	os.WriteFile(path, append(whole, s.Finish(b)...), 0o600)
	f.expect("after")
	if f.warnings != nil {
		t.Errorf("warnings: %q", f.warnings)
	}
}

func TestFollowingWaitsForRoomToBeFilled(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	f := follow(t, dir)
	path := s.SegmentPath(1)
	room := make([]byte, 3000)
	for i := range 3 {
		before, _ := os.ReadFile(path)
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(session, trailtest.Epoch+int64(i), "block"))
		s.Write(t, b)
		whole, _ := os.ReadFile(path)
		for _, have := range []int{0, 50, 112, len(whole) - len(before) - 20} {
			part := append(whole[:len(before)+have:len(before)+have], room...)
			os.WriteFile(path, part, 0o600)
			f.expect()
		}
		os.WriteFile(path, append(whole[:len(whole):len(whole)], room...), 0o600)
		f.expect("block")
		f.expect()
		os.WriteFile(path, whole, 0o600)
	}
	s.Rotate(t, trailtest.Epoch)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(session, trailtest.Epoch+9, "next"))
	s.Write(t, b)
	f.expect("next")
	if f.warnings != nil {
		t.Errorf("warnings: %q", f.warnings)
	}
}

// A look at the file can find a block's place unwritten and the next block there, for
// both were written between its two reads.
func TestFollowingSkipsNoBlockThatComesMeanwhile(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	f := follow(t, dir)
	path := s.SegmentPath(1)
	header, _ := os.ReadFile(path)
	var ends [2]int
	for i, text := range []string{"first", "second"} {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(session, trailtest.Epoch+int64(i), text))
		s.Write(t, b)
		now, _ := os.ReadFile(path)
		ends[i] = len(now)
	}
	whole, _ := os.ReadFile(path)
	seen := append([]byte{}, whole...)
	clear(seen[len(header):ends[0]])
	os.WriteFile(path, seen, 0o600)
	f.expect()
	os.WriteFile(path, whole, 0o600)
	f.expect("first", "second")
	if f.warnings != nil {
		t.Errorf("warnings: %q", f.warnings)
	}
}

func TestFollowingTellsOfDamageOnceAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	f := follow(t, dir)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(session, trailtest.Epoch, "damaged"))
	image := s.Finish(b)
	image[130] ^= 1
	s.Raw(t, image)
	f.expect() // it may still be in writing
	b = trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(session, trailtest.Epoch, "good"))
	s.Write(t, b)
	f.expect("good")
	f.expect()
	if len(f.warnings) != 1 || !strings.Contains(f.warnings[0], "offset 240: checksum of the payload") {
		t.Errorf("warnings: %q", f.warnings)
	}
}

func TestLastRecordsOfAllStreams(t *testing.T) {
	dir := t.TempDir()
	for n := range uint32(3) {
		s := trailtest.NewStream(t, dir, n)
		session := trailtest.NewSession(trailtest.Epoch, n)
		for i := range int64(5) {
			b := trailtest.NewBuilder(trailtest.Epoch)
			b.Add(trailtest.Note(session, trailtest.Epoch+10*i+int64(n), string(rune('a'+3*i+int64(n)))))
			s.Write(t, b)
		}
	}
	os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600)
	var got strings.Builder
	opts := trail.MergeOptions{Since: format.MinTime, Until: format.MaxTime, Warn: func(err error) { t.Error(err) },
		NewFormatter: func() trail.Formatter { return &lines{} }}
	if err := trailtest.Open(t, dir).Index().Last(context.Background(), 7, opts, func(line []byte) error {
		got.WriteByte(line[len(line)-1])
		return nil
	}); err != nil || got.String() != "ijklmno" {
		t.Errorf("got %q, %v", got.String(), err)
	}
}

// segmentsOf writes segments of a block each; it returns a function that writes one more.
func segmentsOf(t *testing.T, dir string) (s *trailtest.Stream, write func(text string)) {
	s = trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	at, begun := int64(trailtest.Epoch), true
	return s, func(text string) {
		if !begun {
			s.Rotate(t, at)
		}
		begun = false
		at++
		b := trailtest.NewBuilder(at)
		b.Add(trailtest.Note(session, at, text))
		s.Write(t, b)
	}
}

// Segments that are missing are told of as soon as there is a later one, and what is there is shown.
func TestFollowingNoticesMissingSegments(t *testing.T) {
	dir := t.TempDir()
	s, write := segmentsOf(t, dir)
	write("1")
	f := follow(t, dir)
	f.expect()
	for _, text := range []string{"2", "3", "4"} {
		write(text)
	}
	for _, n := range []uint64{2, 3} {
		if err := os.Remove(s.SegmentPath(n)); err != nil {
			t.Fatal(err)
		}
	}
	f.expect("4")
	f.expect()
	write("5")
	f.expect("5")
	if want := s.Dir + ": segments 2 to 3 are missing, and were not deleted by retention"; !slices.Equal(f.warnings, []string{want}) {
		t.Errorf("warnings: %q instead of %q", f.warnings, want)
	}
}

// Between two looks at a trail, none of its files is open, so that none keeps the space of a deleted one.
func TestFollowingHoldsNoFile(t *testing.T) {
	dir := t.TempDir()
	s, write := segmentsOf(t, dir)
	write("1")
	f := follow(t, dir)
	write("2")
	f.expect("2")
	os.Remove(s.SegmentPath(1))
	write("3")
	f.expect("3")
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(open) == 0 {
		t.Skip("needs /proc")
	}
	for _, fd := range open {
		if to, _ := os.Readlink(fd); strings.HasPrefix(to, dir) && !strings.Contains(to, "0000000003") { // which is the test's own
			t.Errorf("%s is open", to)
		}
	}
}

// A crash can leave a segment whose header is not written; the server writes it when it starts again, into the same file.
func TestFollowingWaitsForAHeaderThatACrashLeft(t *testing.T) {
	for _, left := range []int{0, 60, format.SegmentHeaderSize} {
		dir := t.TempDir()
		s, write := segmentsOf(t, dir)
		write("1")
		write("2")
		path := s.SegmentPath(2)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, left), 0o600); err != nil {
			t.Fatal(err)
		}
		f := follow(t, dir)
		f.expect()
		f.expect()
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		f.expect("2")
		write("3")
		f.expect("3")
		if f.warnings != nil {
			t.Errorf("%d bytes of zeros: warnings: %q", left, f.warnings)
		}
	}
}

// A segment whose header is unfinished is damage when the next one exists, as it is for those who read a finished trail.
func TestFollowingTellsThatAnUnfinishedHeaderIsDamage(t *testing.T) {
	dir := t.TempDir()
	s, write := segmentsOf(t, dir)
	write("1")
	write("2")
	if err := os.Truncate(s.SegmentPath(2), 60); err != nil {
		t.Fatal(err)
	}
	var told []error
	opts := trail.MergeOptions{Since: format.MinTime, Until: format.MaxTime, Warn: func(err error) { told = append(told, err) }}
	live := trailtest.Open(t, dir).Index().Follow(dir)
	t.Cleanup(live.Close)
	for range 2 {
		if err := live.Poll(t.Context(), &lines{}, opts, func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if told != nil {
			t.Fatalf("told while the server may write it: %v", told)
		}
	}
	write("3")
	for range 2 {
		if err := live.Poll(t.Context(), &lines{}, opts, func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if p := only(told, format.ProblemDamaged); p == nil || !p.Unfinished || p.Rest != format.RestUnread {
		t.Errorf("got %v", told)
	}
}

// Who follows a trail whose directory has gone is told so, once, and when it is there again.
func TestFollowingTellsThatATrailHasGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trail")
	_, write := segmentsOf(t, dir)
	write("1")
	f := follow(t, dir)
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	f.expect()
	f.expect()
	if len(f.warnings) != 1 || !strings.HasSuffix(f.warnings[0], "trail: cannot be read at present, and is tried again: no such file or directory") {
		t.Errorf("warnings: %q", f.warnings)
	}
	if err := os.Rename(dir+".old", dir); err != nil {
		t.Fatal(err)
	}
	write("2")
	f.expect("2")
	if len(f.warnings) != 2 || !strings.HasSuffix(f.warnings[1], "trail: can be read again") {
		t.Errorf("warnings: %q", f.warnings)
	}
}

// A segment can be followed, too, and those that come after it.
func TestASegmentIsFollowed(t *testing.T) {
	dir := t.TempDir()
	s, write := segmentsOf(t, dir)
	write("1")
	f := follow(t, s.SegmentPath(1))
	write("2")
	f.expect("2")
	if f.warnings != nil {
		t.Errorf("warnings: %q", f.warnings)
	}
}

// If the segment that is followed goes, and none comes after it, as when an earlier copy takes the trail's place, that is told.
func TestFollowingTellsThatTheLastSegmentHasGone(t *testing.T) {
	dir := t.TempDir()
	s, write := segmentsOf(t, dir)
	for _, text := range []string{"1", "2", "3"} {
		write(text)
	}
	f := follow(t, dir)
	f.expect()
	if err := os.Rename(s.SegmentPath(3), s.SegmentPath(3)+".old"); err != nil {
		t.Fatal(err)
	}
	f.expect()
	f.expect()
	if len(f.warnings) != 1 || !strings.HasSuffix(f.warnings[0], "0000000003.steno: cannot be read at present, and is tried again: no such file or directory") {
		t.Errorf("warnings: %q", f.warnings)
	}
	if err := os.Rename(s.SegmentPath(3)+".old", s.SegmentPath(3)); err != nil {
		t.Fatal(err)
	}
	f.expect()
	write("4")
	f.expect("4")
	if len(f.warnings) != 2 || !strings.HasSuffix(f.warnings[1], "0000000003.steno: can be read again") {
		t.Errorf("warnings: %q", f.warnings)
	}

	// Retention deletes all of a stream that is no longer written.
	other := trailtest.NewStream(t, dir, 7)
	writer := trailtest.NewSession(trailtest.Epoch, 7)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(writer, trailtest.Epoch, "seven"))
	other.Write(t, b)
	f.expect("seven")
	s.WriteDeletion(t, writer, &trail.Deletion{
		Stream: 7, Time: trailtest.Epoch, Reason: "age", FirstSegment: 1, LastSegment: 1, FirstBlock: 1, LastBlock: 1, Records: 1, LastRecord: 1,
		Bytes: 1, SinceSegment: 1, TotalRecords: 1, TotalBytes: 1,
	})
	if err := os.Remove(other.SegmentPath(1)); err != nil {
		t.Fatal(err)
	}
	f.poll()
	f.poll()
	if len(f.warnings) != 2 {
		t.Errorf("warnings: %q", f.warnings)
	}
}

// TestFollowingReadsWhatIsBeingWritten: a follower that looks all the time, while blocks are written piece by piece, at the end
// of a file or into preallocated space, sees each record once, and nothing that is wrong.
func TestFollowingReadsWhatIsBeingWritten(t *testing.T) {
	for _, preallocated := range []bool{false, true} {
		seed := time.Now().UnixNano()
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		from, dir := t.TempDir(), t.TempDir()
		s := trailtest.NewStream(t, from, 0)
		session := trailtest.NewSession(trailtest.Epoch, 1)
		var want []string
		for n := range 1500 {
			b := trailtest.NewBuilder(trailtest.Epoch)
			for k := range 1 + random.IntN(60) {
				text := fmt.Sprintf("%d/%d", n, k)
				want = append(want, text)
				b.Add(trailtest.Note(session, trailtest.Epoch+int64(n), text))
			}
			s.Write(t, b)
		}
		image, err := os.ReadFile(s.SegmentPath(1))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "0", filepath.Base(s.SegmentPath(1)))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		const header = 128
		if err := os.WriteFile(path, image[:header], 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if preallocated {
			if err := file.Truncate(int64(len(image)) + 100_000); err != nil {
				t.Fatal(err)
			}
		}
		f := follow(t, dir)
		written := make(chan error, 1)
		go func() {
			for at := header; at < len(image); {
				end := min(at+1+random.IntN(6000), len(image))
				if _, err := file.WriteAt(image[at:end], int64(at)); err != nil {
					written <- err
					return
				}
				at = end
				if random.IntN(3) == 0 {
					time.Sleep(time.Duration(random.IntN(200)) * time.Microsecond)
				}
			}
			written <- nil
		}()
		var got []string
		for done := false; !done; {
			select {
			case err := <-written:
				if err != nil {
					t.Fatal(err)
				}
				done = true
			default:
			}
			got = append(got, f.poll()...)
		}
		if !slices.Equal(got, want) || f.warnings != nil {
			t.Errorf("seed %d, preallocated %t: %d records of %d, warnings %q", seed, preallocated, len(got), len(want), f.warnings)
		}
	}
}

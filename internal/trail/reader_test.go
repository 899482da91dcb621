package trail_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// threeBlocks writes a stream of three blocks and returns their offsets.
func threeBlocks(t *testing.T, dir string) (s *trailtest.Stream, offsets []int64) {
	s = trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for i := range int64(3) {
		info, _ := os.Stat(s.SegmentPath(1))
		offsets = append(offsets, info.Size())
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(session, trailtest.Epoch+i, "block"))
		s.Write(t, b)
	}
	return s, offsets
}

func numbers(refs []trail.BlockRef) (n []uint64) {
	for _, r := range refs {
		n = append(n, r.Number)
	}
	return n
}

func TestTornTailIsNotDamage(t *testing.T) {
	dir := t.TempDir()
	s, offsets := threeBlocks(t, dir)
	path := s.SegmentPath(1)
	whole, _ := os.ReadFile(path)
	for size := offsets[2] + 1; size < int64(len(whole)); size++ {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		x := trailtest.Open(t, dir).Index()
		if torn := only(x.Errs, format.ProblemTorn); torn == nil || torn.Offset != offsets[2] || torn.Skipped != size-offsets[2] || !torn.Unfinished {
			t.Fatalf("cut at %d: %v", size, x.Errs)
		}
		if len(x.Streams[0].Refs()) != 2 {
			t.Fatalf("cut at %d: %d blocks", size, len(x.Streams[0].Refs()))
		}
	}
	for size := int64(0); size < format.SegmentHeaderSize; size++ {
		os.WriteFile(path, whole[:size], 0o600)
		x := trailtest.Open(t, dir).Index()
		if only(x.Errs, format.ProblemTorn) == nil {
			t.Fatalf("header cut at %d: %v", size, x.Errs)
		}
	}
	holes := append([]byte{}, whole...)
	clear(holes[offsets[2]+50:])
	for name, c := range map[string]struct {
		image []byte
		refs  int
	}{
		"zeros from inside a header on":       {holes, 2},
		"zeros before the last byte":          {append(append(whole[:len(whole):len(whole)], make([]byte, 5000)...), 1), 3},
		"half a block in its room":            {append(whole[:len(whole)-80:len(whole)-80], make([]byte, 5000)...), 2},
		"less than a header, of other things": {append(whole[:len(whole):len(whole)], "garbage"...), 3},
	} {
		os.WriteFile(path, c.image, 0o600)
		x := trailtest.Open(t, dir).Index()
		if only(x.Errs, format.ProblemTorn) == nil || len(x.Streams[0].Refs()) != c.refs {
			t.Errorf("%s: %v", name, x.Errs)
		}
	}
}

func TestRoomForBlocksIsNothing(t *testing.T) {
	dir := t.TempDir()
	s, _ := threeBlocks(t, dir)
	session := trailtest.NewSession(trailtest.Epoch, 4)
	whole, _ := os.ReadFile(s.SegmentPath(1))
	for _, room := range []int{1, 15, 111, 112, 5000, 300_000} {
		os.WriteFile(s.SegmentPath(1), append(whole[:len(whole):len(whole)], make([]byte, room)...), 0o600)
		if x := trailtest.Open(t, dir).Index(); len(x.Errs) != 0 || len(x.Streams[0].Refs()) != 3 {
			t.Errorf("%d bytes: %v, %d blocks", room, x.Errs, len(x.Streams[0].Refs()))
		}
	}
	// where a segment follows, the writer has cut it off; its header says nothing of times, so that blocks are read
	s.NoTimes = true
	s.Rotate(t, trailtest.Epoch)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(session, trailtest.Epoch, "block"))
	s.Write(t, b)
	if x := trailtest.Open(t, dir).Index(); len(x.Errs) != 1 || len(x.Streams[0].Refs()) != 4 {
		t.Errorf("before another segment: %v", x.Errs)
	}
}

// Nobody could wait until so many zeros are read.
func TestSparseFilesAreReadAtOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("holes are read there")
	}
	dir := t.TempDir()
	s, _ := threeBlocks(t, dir)
	info, _ := os.Stat(s.SegmentPath(1))
	os.Truncate(s.SegmentPath(1), 1<<43)
	if x := trailtest.Open(t, dir).Index(); len(x.Errs) != 0 || len(x.Streams[0].Refs()) != 3 {
		t.Errorf("room: %v, %d blocks", x.Errs, len(x.Streams[0].Refs()))
	}
	os.Truncate(s.SegmentPath(1), info.Size()-1)
	os.Truncate(s.SegmentPath(1), 1<<43)
	if x := trailtest.Open(t, dir).Index(); len(x.Streams[0].Refs()) > 3 {
		t.Errorf("%d blocks", len(x.Streams[0].Refs()))
	}
	os.Truncate(s.SegmentPath(1), 0)
	os.Truncate(s.SegmentPath(1), 1<<43)
	if x := trailtest.Open(t, dir).Index(); len(x.Streams[0].Refs()) != 0 {
		t.Errorf("zeros: %v", x.Errs)
	}
}

// What was room when the trail was opened has blocks in it when it is read, and the
// last of them may go beyond.
func TestRoomIsFilledMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		room, after int // bytes behind the first block: of zeros then, and of the others now
		blocks      int
	}{
		"filled":       {5000, 5000, 3},
		"overfilled":   {200, 5000, 2},
		"nearly whole": {280, 5000, 2},
		"finished":     {5000, -1, 3},
	} {
		dir := t.TempDir()
		s, offsets := threeBlocks(t, dir)
		path := s.SegmentPath(1)
		whole, _ := os.ReadFile(path)
		os.WriteFile(path, append(whole[:offsets[1]:offsets[1]], make([]byte, c.room)...), 0o600)
		opened := trailtest.Open(t, dir)
		image := whole
		if c.after > 0 {
			image = append(whole[:len(whole):len(whole)], make([]byte, c.after)...)
		}
		os.WriteFile(path, image, 0o600)
		x := opened.Index()
		if len(x.Errs) != 0 || len(x.Streams[0].Refs()) != c.blocks {
			t.Errorf("%s: %v, %d blocks", name, x.Errs, len(x.Streams[0].Refs()))
		}
	}
}

func TestTornTailBeforeAnotherSegmentIsDamage(t *testing.T) {
	dir := t.TempDir()
	s, _ := threeBlocks(t, dir)
	s.Raw(t, []byte("SBLKunfinished"))
	s.NoTimes = true
	s.Rotate(t, trailtest.Epoch)
	x := trailtest.Open(t, dir).Index()
	if torn := only(x.Errs, format.ProblemDamaged); torn == nil || !torn.Unfinished {
		t.Errorf("got %v", x.Errs)
	}
}

func TestReadingGoesOnAfterADamagedHeader(t *testing.T) {
	dir := t.TempDir()
	s, offsets := threeBlocks(t, dir)
	path := s.SegmentPath(1)
	whole, _ := os.ReadFile(path)
	whole[offsets[1]+20] ^= 1
	os.WriteFile(path, whole, 0o600)
	x := trailtest.Open(t, dir).Index()
	if corrupt := only(x.Errs, format.ProblemDamaged); corrupt == nil || corrupt.Rest != format.RestSearched || corrupt.Offset != offsets[1]+104 || corrupt.File != path {
		t.Errorf("got %v", x.Errs)
	}
	refs := x.Streams[0].Refs()
	if n := numbers(refs); len(n) != 2 || n[0] != 1 || n[1] != 3 || !refs[1].AfterDamage {
		t.Errorf("blocks %v", n)
	}
}

func TestForeignFilesAndFoldersAreTold(t *testing.T) {
	dir := t.TempDir()
	threeBlocks(t, dir)
	for _, p := range []string{"notes.txt", "0/README", "0/0000000000.steno", "01/0000000001.steno", ".lock", "0/.restoring"} {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755)
		os.WriteFile(filepath.Join(dir, p), []byte("hello"), 0o644)
	}
	tr := trailtest.Open(t, dir)
	if len(tr.Streams) != 1 || len(tr.Streams[0].Segments) != 1 {
		t.Errorf("streams: %+v", tr.Streams)
	}
	if len(tr.Foreign) != 4 {
		t.Errorf("foreign: %q", tr.Foreign)
	}
}

func TestTrailIsAFileSystem(t *testing.T) {
	dir := t.TempDir()
	threeBlocks(t, dir)
	os.Mkdir(filepath.Join(dir, "lost+found"), 0)
	if tr := trailtest.Open(t, dir); len(tr.Streams) != 1 || len(tr.Foreign)+len(tr.Errors) != 0 {
		t.Errorf("%d streams, foreign: %q, errors: %v", len(tr.Streams), tr.Foreign, tr.Errors)
	}
	os.Remove(filepath.Join(dir, "lost+found"))
	os.WriteFile(filepath.Join(dir, "lost+found"), nil, 0o600)
	if tr := trailtest.Open(t, dir); len(tr.Foreign) != 1 {
		t.Error("a file of this name is not told")
	}
}

func TestWhatIsNoSegmentIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "text": "hello", "long": strings.Repeat("no segment ", 100)} {
		path := filepath.Join(dir, name)
		os.WriteFile(path, []byte(content), 0o644)
		x := trailtest.Open(t, path).Index()
		if len(x.Errs) != 1 || len(x.Streams[0].Refs()) != 0 {
			t.Errorf("%s: %v", name, x.Errs)
		}
	}
	os.MkdirAll(filepath.Join(dir, "0", "0000000001.steno"), 0o755)
	if tr := trailtest.Open(t, dir); len(tr.Foreign) == 0 {
		t.Error("a folder named as a segment was taken for one")
	}
	if _, err := trail.Open(filepath.Join(dir, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing path: %v", err)
	}
}

func TestOneSegmentAndOneStreamCanBeOpened(t *testing.T) {
	dir := t.TempDir()
	s, _ := threeBlocks(t, dir)
	for _, path := range []string{s.SegmentPath(1), s.Dir, dir} {
		x := trailtest.Open(t, path).Index()
		if len(x.Errs) != 0 || len(x.Streams) != 1 || len(x.Streams[0].Refs()) != 3 {
			t.Errorf("%s: %+v", path, x)
		}
	}
}

// only is the problem if there is one, of a class.
func only(errs []error, class format.ProblemClass) *format.Problem {
	if len(errs) != 1 {
		return nil
	}
	if p := format.AsProblem(errs[0]); p != nil && p.Class == class {
		return p
	}
	return nil
}

// onlyDamage fails the test unless there is one error, of damage in that file.
func onlyDamage(t *testing.T, name, file string, errs []error) {
	t.Helper()
	if c := only(errs, format.ProblemDamaged); c == nil || c.File != file || !strings.Contains(c.Reason, "bytes skipped") {
		t.Fatalf("%s: %v", name, errs)
	}
}

func TestBlocksBehindADamagedSegmentHeaderAreRead(t *testing.T) {
	dir := t.TempDir()
	s, want := encryptedTrail(t, dir)
	for n, length := range map[uint64]int{1: 128, 2: 208, 4: 128} {
		path := s.SegmentPath(n)
		whole, _ := os.ReadFile(path)
		for at := range length {
			// what the data key is made of cannot be found again
			if length == 208 && at >= 136 && at < 196 {
				continue
			}
			image := bytes.Clone(whole)
			image[at] ^= 1 << (at % 8)
			os.WriteFile(path, image, 0o600)
			texts, errs := readAll(t, dir, keysOf(keyA, keyB))
			if !slices.Equal(texts, want) {
				t.Fatalf("segment %d, byte %d: %d of %d records: %v", n, at, len(texts), len(want), errs)
			}
			onlyDamage(t, "flipped bit", path, errs)
		}
		os.WriteFile(path, whole, 0o600)
	}
}

func TestBlocksOfASegmentWithoutItsHeaderAreRead(t *testing.T) {
	dir := t.TempDir()
	s, offsets := threeBlocks(t, dir)
	path := s.SegmentPath(1)
	whole, _ := os.ReadFile(path)
	for name, c := range map[string]struct {
		image  []byte
		blocks int
	}{
		"header cut off":                 {whole[128:], 3},
		"a part of the header cut off":   {whole[77:], 3},
		"zeros":                          {slices.Concat(make([]byte, 128), whole[128:]), 3},
		"something else before":          {slices.Concat(make([]byte, 100_000), whole[128:]), 3},
		"beginning of a block cut off":   {whole[offsets[1]-10:], 2},
		"beginning of a block and zeros": {slices.Concat(make([]byte, 4096), whole[offsets[1]:]), 2},
	} {
		os.WriteFile(path, c.image, 0o600)
		for _, at := range []string{dir, path} {
			texts, errs := readAll(t, at, nil)
			if len(texts) != c.blocks {
				t.Errorf("%s: %d records: %v", name, len(texts), errs)
			}
			onlyDamage(t, name, path, errs)
		}
	}
	os.WriteFile(path, bytes.Repeat([]byte("something else "), 1000), 0o600)
	if texts, errs := readAll(t, path, nil); len(texts) != 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), "not a segment") {
		t.Errorf("a file that is no segment: %q, %v", texts, errs)
	}
}

func TestOnlyTheBlockWithADamagedHeaderIsLost(t *testing.T) {
	dir := t.TempDir()
	s, offsets := threeBlocks(t, dir)
	path := s.SegmentPath(1)
	whole, _ := os.ReadFile(path)
	for at := range format.BlockHeaderSize {
		image := bytes.Clone(whole)
		image[int(offsets[1])+at] ^= 1 << (at % 8)
		os.WriteFile(path, image, 0o600)
		texts, errs := readAll(t, dir, nil)
		if len(texts) != 2 {
			t.Fatalf("byte %d: %d records: %v", at, len(texts), errs)
		}
		onlyDamage(t, "flipped bit", path, errs)
	}
}

// A client can write a text that looks like a block.
func TestATextIsNotTakenForABlock(t *testing.T) {
	session := trailtest.NewSession(trailtest.Epoch, 1)
	forge := func(number uint64) string {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(trailtest.NewSession(trailtest.Epoch, 2), trailtest.Epoch, "forged"))
		chain := [32]byte{}
		return string(b.Finish(format.CodecNone, number, 2, &chain))
	}
	for name, c := range map[string]struct {
		text string
		at   int // the byte of the block's header that is damaged
	}{
		"another byte than the length":     {forge(2), 40},
		"a length":                         {forge(7_000_000), 8},
		"a length, and the payload is not": {forge(2)[:130], 8},
	} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		s.Codec = format.CodecNone
		var offset int64
		for i, text := range []string{"first", c.text, "last"} {
			if info, _ := os.Stat(s.SegmentPath(1)); i == 1 {
				offset = info.Size()
			}
			b := trailtest.NewBuilder(trailtest.Epoch)
			b.Add(trailtest.Note(session, trailtest.Epoch+int64(i), text))
			s.Write(t, b)
		}
		image, _ := os.ReadFile(s.SegmentPath(1))
		image[int(offset)+c.at] ^= 1
		os.WriteFile(s.SegmentPath(1), image, 0o600)
		texts, errs := readAll(t, dir, nil)
		if !slices.Equal(texts, []string{"first", "last"}) {
			t.Errorf("%s: %q", name, texts)
		}
		onlyDamage(t, name, s.SegmentPath(1), errs)
	}
}

func TestFollowingGoesOnBehindADamagedSegmentHeader(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	now := trailtest.Epoch
	write := func(text string) {
		now++
		b := trailtest.NewBuilder(now)
		b.Add(trailtest.Note(session, now, text))
		s.Write(t, b)
	}
	write("one")
	f := follow(t, dir)
	s.Rotate(t, now)
	write("two")
	image, _ := os.ReadFile(s.SegmentPath(2))
	image[70] ^= 4
	os.WriteFile(s.SegmentPath(2), image, 0o600)
	f.expect("two")
	write("three")
	f.expect("three")
	s.Rotate(t, now)
	write("four")
	f.expect("four")
	if len(f.warnings) != 1 {
		t.Errorf("%q", f.warnings)
	}
}

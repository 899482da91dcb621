package trail_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

var keyA, keyB = [format.KeySize]byte{1, 2, 3}, [format.KeySize]byte{4, 5, 6}

func keysOf(keys ...[format.KeySize]byte) *format.Keys {
	return format.NewKeys(func() ([][format.KeySize]byte, error) { return keys, nil })
}

func openWith(t testing.TB, dir string, keys *format.Keys) *trail.Trail {
	t.Helper()
	tr, err := trail.OpenEncrypted(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// readAll reads a trail: the texts, and what was wrong.
func readAll(t testing.TB, dir string, keys *format.Keys) (texts []string, errs []error) {
	t.Helper()
	err := openWith(t, dir, keys).Index().Merge(context.Background(), trail.MergeOptions{
		Since: format.MinTime, Until: format.MaxTime,
		NewFormatter: func() trail.Formatter { return &lines{} },
		Warn:         func(err error) { errs = append(errs, err) },
	}, func(line []byte) error {
		texts = append(texts, string(line[strings.LastIndexByte(string(line), ' ')+1:]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts, errs
}

// encryptedTrail writes a stream of four segments: plain, key A, key B, plain,
// with a block of each codec in each.
func encryptedTrail(t testing.TB, dir string) (s *trailtest.Stream, texts []string) {
	s = trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	now := trailtest.Epoch
	for i, key := range []*[format.KeySize]byte{nil, &keyA, &keyB, nil} {
		if i > 0 {
			s.Key = key
			s.Rotate(t, now)
		}
		for _, s.Codec = range []format.Codec{format.CodecNone, format.CodecLz4, format.CodecLz4} {
			b := trailtest.NewBuilder(now)
			for range 30 {
				now++
				text := fmt.Sprintf("marker-%d-%d", i, len(texts))
				b.Add(trailtest.Note(session, now, text))
				texts = append(texts, text)
			}
			s.Write(t, b)
		}
	}
	return s, texts
}

func TestEncryptedSegmentsAreRead(t *testing.T) {
	dir := t.TempDir()
	s, want := encryptedTrail(t, dir)
	for n := uint64(2); n <= 3; n++ {
		data, _ := os.ReadFile(s.SegmentPath(n))
		if len(data) == 0 || strings.Contains(string(data), "marker") {
			t.Fatal("the test writes no encrypted segment")
		}
	}
	got, errs := readAll(t, dir, keysOf(keyB, keyA))
	if !slices.Equal(got, want) || len(errs) != 0 {
		t.Errorf("%d of %d texts, %v", len(got), len(want), errs)
	}
	got, errs = readAll(t, dir, keysOf(keyB))
	if len(got) != 270 || len(errs) != 1 {
		t.Errorf("with one of two keys: %d texts, %v", len(got), errs)
	}
	if len(errs) == 0 {
		t.Fatal("nothing is told of the missing key")
	}
	if missing := format.AsProblem(errs[0]); missing == nil || missing.Class != format.ProblemUnreadable || *missing.Key != format.IDOf(keyA) || missing.File != s.SegmentPath(2) {
		t.Errorf("what is missing: %v", errs)
	}
}

func TestKeyIDIsWhatTheFormatSays(t *testing.T) {
	var key [format.KeySize]byte
	for i := range key {
		key[i] = byte(i)
	}
	if id := format.IDOf(key).String(); id != "66aab3d34a11fef5" {
		t.Errorf("got %s", id)
	}
}

// TestKeysAreAskedForWhenNeeded is for commands that ask people.
func TestKeysAreAskedForWhenNeeded(t *testing.T) {
	plain, encrypted := t.TempDir(), t.TempDir()
	threeBlocks(t, plain)
	encryptedTrail(t, encrypted)
	asked := 0
	keys := format.NewKeys(func() ([][format.KeySize]byte, error) {
		asked++
		return [][format.KeySize]byte{keyA}, nil
	})
	readAll(t, plain, keys)
	if asked != 0 {
		t.Error("asked for a plain trail")
	}
	readAll(t, encrypted, keys)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	keys = format.NewKeys(func() ([][format.KeySize]byte, error) { return nil, errors.New("closed") })
	openWith(t, encrypted, keys)
	if err := keys.Err(); err == nil || err.Error() != "closed" {
		t.Errorf("got %v", err)
	}
}

func TestKeysAreCheckedForTheTimeThatIsRead(t *testing.T) {
	dir := t.TempDir()
	encryptedTrail(t, dir)
	x := openWith(t, dir, keysOf(keyA)).Index()
	at := func(n int64) int64 { return trailtest.Epoch + n }
	for _, c := range []struct {
		since, until int64
		missing      bool
	}{
		{format.MinTime, format.MaxTime, true},
		{format.MinTime, at(180), false},
		{at(100), at(182), true},
		{at(271), format.MaxTime, false},
		{at(270), at(271), true},
	} {
		err := errors.Join(x.MissingKeys(c.since, c.until)...)
		if missing := format.AsProblem(err); missing != nil != c.missing || c.missing && (*missing.Key != format.IDOf(keyB) || missing.More != 0) {
			t.Errorf("from %d to %d: %v", c.since-trailtest.Epoch, c.until-trailtest.Epoch, err)
		}
	}
	errs := trailtest.Open(t, dir).Index().MissingKeys(format.MinTime, format.MaxTime)
	if len(errs) != 2 {
		t.Fatalf("without keys: %v", errs)
	}
	if missing := format.AsProblem(errs[0]); missing == nil || missing.More != 0 || *missing.Key != format.IDOf(keyA) {
		t.Errorf("without keys: %v", errs)
	}
}

// TestEncryptionNoticesChanges changes each byte of an encrypted segment, and
// gives it the checksums that belong to it: GCM must tell.
func TestEncryptionNoticesChanges(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	s.Key = &keyA
	s.Codec = format.CodecNone
	s.Rotate(t, trailtest.Epoch)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(trailtest.NewSession(trailtest.Epoch, 1), trailtest.Epoch, "text"))
	s.Write(t, b)
	path := s.SegmentPath(2)
	whole, _ := os.ReadFile(path)
	le := binary.LittleEndian
	for at := range whole {
		changed := slices.Clone(whole)
		changed[at] ^= 1
		block := changed[format.EncryptedHeaderSize:]
		trailtest.SealSegment(changed)
		le.PutUint64(changed[200:], xxhash.Sum64(changed[:200]))
		le.PutUint64(block[64:], xxhash.Sum64(block[format.BlockHeaderSize:]))
		trailtest.SealHeader(block)
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		texts, errs := readAll(t, dir, keysOf(keyA))
		// What the chain alone covers: the rest of the segment header, the
		// block's chain hash, and checksums, which were made right again.
		chain := at >= 40 && at < 128 || at >= 196 && at < 208 || at >= 208+64 && at < 208+112
		if read := len(texts) == 1 && len(errs) == 0; read != chain {
			t.Errorf("byte %d changed: %q, %v", at, texts, errs)
		}
	}
}

func TestBlocksAndSegmentsAreEncryptedTogether(t *testing.T) {
	dir := t.TempDir()
	s, _ := encryptedTrail(t, dir)
	plain, _ := os.ReadFile(s.SegmentPath(1))
	encrypted, _ := os.ReadFile(s.SegmentPath(2))
	for path, data := range map[string][]byte{
		s.SegmentPath(1): slices.Concat(plain[:format.SegmentHeaderSize], encrypted[format.EncryptedHeaderSize:]),
		s.SegmentPath(2): slices.Concat(encrypted[:format.EncryptedHeaderSize], plain[format.SegmentHeaderSize:]),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	texts, errs := readAll(t, dir, keysOf(keyA, keyB))
	if len(texts) != 180 || len(errs) != 6 || !strings.Contains(errs[0].Error(), "not both encrypted") {
		t.Errorf("%d texts, %v", len(texts), errs)
	}
}

func TestEncryptedHeaderCanBeUnfinished(t *testing.T) {
	dir := t.TempDir()
	s, _ := encryptedTrail(t, dir)
	data, _ := os.ReadFile(s.SegmentPath(2))
	for size := range format.EncryptedHeaderSize {
		if err := os.WriteFile(s.SegmentPath(2), data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		seg := openWith(t, dir, keysOf(keyA)).Streams[0].Segments[1]
		torn := format.AsProblem(seg.Err)
		if torn == nil || torn.Class != format.ProblemTorn || torn.File != s.SegmentPath(2) || torn.Skipped != int64(size) {
			t.Errorf("%d bytes: %v", size, seg.Err)
		}
	}
	for at := format.SegmentHeaderSize; at < format.EncryptedHeaderSize; at++ {
		data[at] ^= 1
		if _, err := format.ParseSegmentHeader(data); err == nil || !strings.Contains(err.Error(), "key part") {
			t.Errorf("byte %d changed: %v", at, err)
		}
		data[at] ^= 1
	}
}

// TestFollowingGoesAcrossKeys follows a trail whose key is rotated: the keys are
// asked for again.
func TestFollowingGoesAcrossKeys(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	write := func(text string) {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(session, trailtest.Epoch, text))
		s.Write(t, b)
	}
	known := [][format.KeySize]byte{keyA}
	keys := format.NewKeys(func() ([][format.KeySize]byte, error) { return known, nil })
	f := &follower{t: t, live: openWith(t, dir, keys).Index().Follow(dir)}
	defer f.live.Close()
	write("plain")
	f.expect("plain")
	s.Key = &keyA
	s.Rotate(t, trailtest.Epoch)
	write("a")
	f.expect("a")
	s.Key = &keyB
	s.Rotate(t, trailtest.Epoch)
	known = append(known, keyB)
	write("b")
	f.expect("b")
	s.Key = &[format.KeySize]byte{7}
	s.Rotate(t, trailtest.Epoch)
	write("c")
	f.expect()
	write("d")
	f.expect()
	if id := format.IDOf(*s.Key).String(); len(f.warnings) != 1 || !strings.Contains(f.warnings[0], id) {
		t.Errorf("got %q", f.warnings)
	}
	s.Key = nil
	s.Rotate(t, trailtest.Epoch)
	write("plain again")
	f.expect("again")
}

func TestGoldenKeyIDs(t *testing.T) {
	golden := trailtest.Golden(t)
	tr := trailtest.OpenGolden(t, golden+"/encrypted")
	text, _ := os.ReadFile(golden + "/encrypted.keys")
	for i, line := range strings.Fields(string(text)) {
		key, _ := hex.DecodeString(line)
		if h := tr.Streams[0].Segments[i+1].Header; !h.Encrypted || h.KeyID != format.IDOf([format.KeySize]byte(key)) {
			t.Errorf("segment %d: key %s", i+2, h.KeyID)
		}
	}
}

func BenchmarkDecodeEncrypted(b *testing.B) {
	dir := b.TempDir()
	trailtest.PgbenchEncrypted(b, dir, 100_000, 16, 1, &keyA)
	benchmarkDecode(b, openWith(b, dir, keysOf(keyA)).Index().Streams[0].Refs())
}

func TestAKeyIsMissedWhenAPartOfItsSegmentIsWanted(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	s.Key = &keyA
	s.Rotate(t, trailtest.Epoch)
	for i := range int64(3) {
		at := trailtest.Epoch + i*1e6
		b := trailtest.NewBuilder(at)
		b.Add(trailtest.Note(trailtest.NewSession(trailtest.Epoch, 1), at, "text"))
		s.Write(t, b)
	}
	for wanted, want := range map[uint64]int{0: 0, 1: 1, 2: 1, 3: 1, 4: 0} {
		told := 0
		err := trailtest.Open(t, dir).Index().Merge(context.Background(), trail.MergeOptions{
			Since: format.MinTime, Until: format.MaxTime,
			Blocks:       func(r *trail.BlockRef) bool { return r.Number == wanted },
			NewFormatter: func() trail.Formatter { return fixed{} },
			Warn: func(err error) {
				told++
				if missing := format.AsProblem(err); missing == nil || missing.Key == nil {
					t.Error(err)
				}
			},
		}, func([]byte) error { return nil })
		if err != nil || told != want {
			t.Errorf("block %d: %d warnings, %v", wanted, told, err)
		}
	}
}

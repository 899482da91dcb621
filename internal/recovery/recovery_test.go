package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// recovered runs the command and returns its report, where the copy is, and its error.
func recovered(t *testing.T, opts Options, dir string) (*Report, string, error) {
	t.Helper()
	streams, _, out, _ := iostreams.Test()
	opts.IO, opts.Trail, opts.Format, opts.Program = streams, dir, "json", "steno test"
	if opts.Out == "" && !opts.InPlace {
		opts.Out = filepath.Join(t.TempDir(), "copy")
	}
	err := Run(context.Background(), &opts)
	r := &Report{}
	if out.Len() > 0 {
		if bad := json.Unmarshal(out.Bytes(), r); bad != nil {
			t.Fatal(bad)
		}
	}
	return r, opts.Out, err
}

// contents are the files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var data []byte
			data, err = os.ReadFile(path)
			files[strings.TrimPrefix(path, dir)] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// found is a record of a copy.
type found struct {
	stream   uint32
	text     string
	salvaged bool
	outcome  format.Outcome
	kind     format.Kind
}

// each calls f with every record of a trail, and its stream's number.
func each(t *testing.T, dir string, f func(stream uint32, r *format.Record)) {
	t.Helper()
	tr, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	trailtest.EachRecord(t, tr, func(ref *trail.BlockRef, r *format.Record) { f(ref.Segment.Stream.Number, r) })
}

func ofRecovery(r *format.Record) bool {
	return string(r.Session.Fact(format.KeyBackendType)) == format.RecoverBackendType
}

// records are those of a trail, by session and number; none may be there twice.
func records(t *testing.T, dir string) map[format.RecordID]found {
	t.Helper()
	all := map[format.RecordID]found{}
	each(t, dir, func(stream uint32, r *format.Record) {
		if r.Kind == format.KindData || ofRecovery(r) {
			return
		}
		_, salvaged := r.ExtraValue("salvaged")
		id := format.RecordID{Session: r.Session.ID(), Seq: r.Seq}
		if _, twice := all[id]; twice {
			t.Errorf("record %v is duplicated", id)
		}
		all[id] = found{stream, string(r.Text), salvaged, r.Outcome, r.Kind}
	})
	return all
}

func TestWholeTrailsAreCopiedByteForByte(t *testing.T) {
	golden := trailtest.Golden(t)
	for _, name := range []string{"kinds", "values", "streams", "lz4", "parts", "empty", "later", "objects"} {
		r, out, err := recovered(t, Options{}, filepath.Join(golden, name))
		if err != nil || r.Lost || r.NewStream != nil {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
		want, got := contents(t, filepath.Join(golden, name)), contents(t, out)
		if len(want) != len(got) {
			t.Errorf("%s: %d files instead of %d", name, len(got), len(want))
		}
		for path := range want {
			if got[path] != want[path] {
				t.Errorf("%s: %s is another", name, path)
			}
		}
	}
}

// TestGoldenDamageIsLeftOut recovers each damaged golden trail. What is copied reads
// without an error, and a copy of the copy loses nothing further.
func TestGoldenDamageIsLeftOut(t *testing.T) {
	dirs, _ := filepath.Glob(trailtest.Golden(t) + "/damaged/*.expected")
	if len(dirs) < 10 {
		t.Fatalf("only %d damaged trails", len(dirs))
	}
	for _, dir := range dirs {
		dir = strings.TrimSuffix(dir, ".expected")
		name := filepath.Base(dir)
		before := contents(t, dir)
		r, out, err := recovered(t, Options{}, dir)
		if fmt.Sprint(contents(t, dir)) != fmt.Sprint(before) {
			t.Errorf("%s: the evidence is not as it was", name)
		}
		if (err == nil) == r.Lost || err != nil && !errors.Is(err, exit.ErrFailed) {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
		again, second, _ := recovered(t, Options{}, out)
		if name != "swapped_segments" && fmt.Sprint(contents(t, second)) != fmt.Sprint(contents(t, out)) {
			t.Errorf("%s: the copy of the copy is another: %+v", name, again)
		}
		if name != "forged_payload" && name != "swapped_segments" {
			records(t, out)
		}
	}
}

// blocks writes a trail of two segments, n blocks each of 3 records of one session,
// and returns where each block is.
func blocks(t *testing.T, dir string, n int, codec format.Codec) (paths []string, offsets []int64) {
	s := trailtest.NewStream(t, dir, 0)
	s.Codec = codec
	session := trailtest.NewSession(trailtest.Epoch, 7, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
	for segment := uint64(1); segment <= 2; segment++ {
		if segment > 1 {
			s.LastStart = 1
			s.Rotate(t, trailtest.Epoch+1)
		}
		for range n {
			info, err := os.Stat(s.SegmentPath(segment))
			if err != nil {
				t.Fatal(err)
			}
			paths, offsets = append(paths, s.SegmentPath(segment)), append(offsets, info.Size())
			b := trailtest.NewBuilder(trailtest.Epoch)
			for k := range 3 {
				b.Add(&trailtest.Record{
					Kind: format.KindStatement, Session: session, Time: trailtest.Epoch + int64(len(offsets)*100+k), Duration: uint64(k),
					Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"},
					Text:  fmt.Sprintf("SELECT 'a text of block %d and of record %d that repeats a text, and repeats a text'", len(offsets), k),
				})
			}
			s.Write(t, b)
		}
	}
	return paths, offsets
}

// TestDamageAnywhereIsNamed changes, removes and inserts bytes at random places. The
// blocks that were not hit are in the copy, unmarked; each of the others is named; a
// record is in the copy, or its number is reported missing, or stands at the end.
func TestDamageAnywhereIsNamed(t *testing.T) {
	const n = 5
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		dir := t.TempDir()
		paths, offsets := blocks(t, dir, n, []format.Codec{format.CodecNone, format.CodecLz4}[seed%2])
		k := rng.IntN(2 * n)
		data, err := os.ReadFile(paths[k])
		if err != nil {
			t.Fatal(err)
		}
		end := int64(len(data))
		if k+1 < 2*n && paths[k+1] == paths[k] {
			end = offsets[k+1]
		}
		at := offsets[k] + rng.Int64N(end-offsets[k])
		length := min(1+rng.Int64N(20), end-at)
		what := []string{"changed", "removed", "inserted"}[rng.IntN(3)]
		switch what {
		case "changed":
			data[at] ^= byte(1 + rng.IntN(255))
		case "removed":
			data = slices.Delete(data, int(at), int(at+length))
		case "inserted":
			data = slices.Insert(data, int(at), []byte("XXXXXXXXXXXXXXXXXXXXXXX")[:length]...)
		}
		if err := os.WriteFile(paths[k], data, 0o600); err != nil {
			t.Fatal(err)
		}
		between := what == "inserted" && at == offsets[k]
		r, out, err := recovered(t, Options{}, dir)
		name := fmt.Sprintf("seed %d: %d bytes at %d %s, in block %d at %d", seed, length, at, what, k+1, offsets[k])
		if !errors.Is(err, exit.ErrFailed) || !r.Lost {
			t.Errorf("%s: nothing is lost: %v %+v", name, err, r)
			continue
		}
		s := &r.Streams[0]
		// of bytes that are too many in the last block, some look unfinished
		if places := len(s.Losses) + len(s.Torn); places != 1 && (k != 2*n-1 || places != 2) {
			t.Errorf("%s: losses %+v, torn %+v", name, s.Losses, s.Torn)
			continue
		}
		if len(s.Losses) == 1 && s.Losses[0].Blocks != nil && !between {
			if l := s.Losses[0]; *l.Blocks != 1 || l.FirstBlock != uint64(k+1) || l.LastBlock != l.FirstBlock || *l.Records != 3 {
				t.Errorf("%s: told as %+v", name, l)
			}
		}
		if k != 2*n-1 && (len(s.Torn) > 0 || s.Losses[0].Blocks == nil) {
			t.Errorf("%s: what follows is there, but the loss is not known: %+v", name, s)
		}
		all := records(t, out)
		missing := map[uint64]bool{}
		for _, g := range r.Gaps {
			for seq := g.First; seq <= g.Last; seq++ {
				missing[seq] = true
			}
		}
		for seq := uint64(1); seq <= 6*n; seq++ {
			f, there := all[format.RecordID{Session: format.SessionID{Start: trailtest.Epoch, PID: 7}, Seq: seq}]
			hit := int(seq-1)/3 == k && !between
			switch {
			case !hit && (!there || f.salvaged || f.stream != 0):
				t.Errorf("%s: record %d of a whole block: %v %+v", name, seq, there, f)
			case hit && there && (!f.salvaged || f.stream != 1):
				t.Errorf("%s: record %d of the damaged block is not marked", name, seq)
			case !there && !missing[seq] && k != 2*n-1:
				t.Errorf("%s: record %d is missing, and not told", name, seq)
			case there && missing[seq]:
				t.Errorf("%s: record %d is there, and told as missing", name, seq)
			}
		}
		if between && (len(missing) > 0 || *s.Losses[0].Blocks != 0) {
			t.Errorf("%s: nothing was lost: %+v", name, s.Losses)
		}
	}
}

// TestSegmentHeaderIsMadeAnew changes bytes of a segment's header. Its blocks are
// in the copy, and the header is proven to be the one that was there, but where nobody
// knows what stood in it.
func TestSegmentHeaderIsMadeAnew(t *testing.T) {
	for segment := 1; segment <= 2; segment++ {
		for at := 0; at < format.SegmentHeaderSize; at += 8 {
			dir := t.TempDir()
			paths, _ := blocks(t, dir, 2, format.CodecLz4)
			path := paths[2*(segment-1)]
			whole, _ := os.ReadFile(path)
			data := slices.Clone(whole)
			data[at] ^= 0x11
			os.WriteFile(path, data, 0o600)
			r, out, err := recovered(t, Options{}, dir)
			if len(r.Streams[0].Headers) != 1 || r.Streams[0].Blocks != 4 {
				t.Fatalf("byte %d of segment %d: %+v", at, segment, r)
			}
			copied, _ := os.ReadFile(filepath.Join(out, "0", filepath.Base(path)))
			// The time of creation stands nowhere else.
			known := at < 40 || at >= 48
			if proven := r.Streams[0].Headers[0].Proven; proven != known || bytes.Equal(copied, whole) != known || (err == nil) != known {
				t.Errorf("byte %d of segment %d: proven %v, %v", at, segment, proven, err)
			}
			if len(records(t, out)) != 12 {
				t.Errorf("byte %d of segment %d: records are missing", at, segment)
			}
		}
	}
}

func TestLZ4IsDecompressedUpToTheDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var plain []byte
		for len(plain) < rng.IntN(5000) {
			if len(plain) > 0 && rng.IntN(2) == 0 {
				from := rng.IntN(len(plain))
				plain = append(plain, plain[from:from+rng.IntN(len(plain)-from)]...)
			}
			for range rng.IntN(40) {
				plain = append(plain, byte(rng.IntN(256)))
			}
		}
		packed := make([]byte, lz4.CompressBlockBound(len(plain)))
		n, err := lz4.CompressBlock(plain, packed, nil)
		if err != nil || n == 0 {
			continue
		}
		packed = packed[:n]
		if got := lz4Prefix(packed, len(plain)); !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes come back as %d others", len(plain), len(got))
		}
		if got := lz4Prefix(packed[:rng.IntN(n)], len(plain)); !bytes.HasPrefix(plain, got) {
			t.Fatal("the beginning of a block gives something else than the beginning")
		}
		if limit := rng.IntN(len(plain) + 1); !bytes.Equal(lz4Prefix(packed, limit), plain[:limit]) {
			t.Fatal("the limit does not hold")
		}
	}
}

func TestTornTailsThatMachinesLeaveAreCut(t *testing.T) {
	for name, c := range map[string]struct {
		change func(data []byte, last int64) []byte
		torn   int
	}{
		"half, then zeros":      {func(d []byte, last int64) []byte { clear(d[last+180:]); return append(d, make([]byte, 1000)...) }, 1},
		"zeros for its payload": {func(d []byte, last int64) []byte { clear(d[last+112:]); return d }, 1},
		"a part of it":          {func(d []byte, last int64) []byte { return d[:last+150] }, 1},
		"a part of its header":  {func(d []byte, last int64) []byte { return d[:last+50] }, 1},
		"another payload":       {func(d []byte, last int64) []byte { d[last+120]++; return d }, 0},
	} {
		dir := t.TempDir()
		paths, offsets := blocks(t, dir, 2, format.CodecLz4)
		data, _ := os.ReadFile(paths[3])
		os.WriteFile(paths[3], c.change(data, offsets[3]), 0o600)
		r, _, _ := recovered(t, Options{}, dir)
		if s := &r.Streams[0]; len(s.Torn) != c.torn || len(s.Losses) != 1-c.torn {
			t.Errorf("%s: torn %+v, losses %+v", name, s.Torn, s.Losses)
		} else if c.torn == 1 && *s.Torn[0].Offset < offsets[3] {
			t.Errorf("%s: cut at %d", name, *s.Torn[0].Offset)
		}
		// in the middle of a stream it is damage
		dir = t.TempDir()
		paths, offsets = blocks(t, dir, 2, format.CodecLz4)
		data, _ = os.ReadFile(paths[1])
		os.WriteFile(paths[1], c.change(data, offsets[1]), 0o600)
		if r, _, err := recovered(t, Options{}, dir); len(r.Streams[0].Torn) != 0 || len(r.Streams[0].Losses) != 1 || err == nil {
			t.Errorf("%s, where a segment follows: %+v", name, r.Streams[0])
		}
	}
}

func TestRoomForBlocksIsNotMissing(t *testing.T) {
	dir := t.TempDir()
	paths, _ := blocks(t, dir, 2, format.CodecLz4)
	data, _ := os.ReadFile(paths[3])
	os.WriteFile(paths[3], append(data[:len(data):len(data)], make([]byte, 200_000)...), 0o600)
	r, _, err := recovered(t, Options{}, dir)
	if s := &r.Streams[0]; err != nil || len(s.Torn) != 0 || len(s.Losses) != 0 {
		t.Errorf("%v: torn %+v, losses %+v", err, s.Torn, s.Losses)
	}
	// in the middle of a stream it is damage
	data, _ = os.ReadFile(paths[1])
	os.WriteFile(paths[1], append(data, make([]byte, 1000)...), 0o600)
	if r, _, err := recovered(t, Options{}, dir); err == nil || len(r.Streams[0].Losses) != 1 {
		t.Errorf("where a segment follows: %v, %+v", err, r.Streams[0])
	}
}

// badDisk does not give the bytes from one offset to another.
type badDisk struct {
	data     []byte
	from, to int64
}

func (d *badDisk) ReadAt(b []byte, offset int64) (int, error) {
	n := min(int64(len(b)), int64(len(d.data))-offset)
	if offset >= d.from && offset < d.to {
		return 0, fs.ErrInvalid
	}
	if offset < d.from && offset+n > d.from {
		return copy(b, d.data[offset:d.from]), fs.ErrInvalid
	}
	return copy(b, d.data[offset:offset+n]), nil
}

// TestWhatTheDiskDoesNotGiveIsDamage has a page that cannot be read.
func TestWhatTheDiskDoesNotGiveIsDamage(t *testing.T) {
	paths, offsets := blocks(t, t.TempDir(), 60, format.CodecNone)
	data, _ := os.ReadFile(paths[0])
	d := &badDisk{data, 8192, 12288}
	var want []int64
	for k := range 60 {
		end := int64(len(data))
		if k < 59 {
			end = offsets[k+1]
		}
		if end <= d.from || offsets[k] >= d.to {
			want = append(want, offsets[k])
		}
	}
	var got []int64
	s := &scanner{seg: &trail.Segment{}, r: d, size: int64(len(data)), each: func(p *piece, _ []byte) error {
		if p.whole {
			got = append(got, p.offset)
		} else if !strings.Contains(p.what, "cannot be read") {
			t.Errorf("at %d: %s", p.offset, p.what)
		}
		return nil
	}}
	if err := s.scan(format.SegmentHeaderSize); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: got blocks at %d, want %d", err, got, want)
	}
}

// Headers whose payloads overlap, however many, are gone through in time proportional to
// the file's size.
func TestForgedHeadersAreGoneThroughOnce(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: "one"})
	s.Write(t, b)
	file, err := os.OpenFile(s.SegmentPath(1), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const n = 2000
	var forged []byte
	for i := range n {
		forged = append(forged, trailtest.ForgeHeader(uint64(i+2), (n-i)*format.BlockHeaderSize)...)
	}
	if _, err := file.Write(append(forged, make([]byte, 2*format.BlockHeaderSize)...)); err != nil {
		t.Fatal(err)
	}
	read := trailtest.BytesRead(t, func() {
		if r, _, _ := recovered(t, Options{}, dir); !r.Lost {
			t.Errorf("nothing is lost: %+v", r)
		}
	})
	if limit := 80 * int64(len(forged)); read > limit {
		t.Errorf("%d bytes are read of %d", read, len(forged))
	}
}

func TestWhatIsNotForThisIsRefused(t *testing.T) {
	dir := t.TempDir()
	paths, _ := blocks(t, dir, 2, format.CodecLz4)
	full := t.TempDir()
	os.WriteFile(filepath.Join(full, "x"), nil, 0o600)
	left := filepath.Join(t.TempDir(), "copy")
	os.Mkdir(left+".partial", 0o700)
	before := contents(t, dir)
	for name, c := range map[string]struct {
		opts Options
		dir  string
		want string
	}{
		"a full directory":  {Options{Out: full}, dir, "is not empty"},
		"inside the trail":  {Options{Out: filepath.Join(dir, "copy")}, dir, "is inside the trail"},
		"left of a run":     {Options{Out: left}, dir, "left behind by a run that did not finish"},
		"a stream":          {Options{}, filepath.Dir(paths[0]), "is one stream of a trail"},
		"nothing":           {Options{}, filepath.Join(dir, "none"), "no such file"},
		"no confirmation":   {Options{InPlace: true}, dir, fmt.Sprintf("is the trail of cluster %d", uint64(trailtest.SystemID))},
		"another's":         {Options{InPlace: true, Confirm: 1}, dir, fmt.Sprintf("is the trail of cluster %d", uint64(trailtest.SystemID))},
		"nobody's in place": {Options{InPlace: true, Confirm: 1}, full, "no segment says which cluster's"},
	} {
		_, _, err := recovered(t, c.opts, c.dir)
		var usage *exit.UsageError
		var unconfirmed *UnconfirmedError
		var unknown *UnknownClusterError
		if !errors.As(err, &usage) && !errors.As(err, &unconfirmed) && !errors.As(err, &unknown) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if fmt.Sprint(contents(t, dir)) != fmt.Sprint(before) {
		t.Error("the trail is not as it was")
	}
}

// TestInPlaceKeepsTheEvidence replaces a trail by its copy.
func TestInPlaceKeepsTheEvidence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trail")
	os.Mkdir(dir, 0o750)
	paths, offsets := blocks(t, dir, 2, format.CodecLz4)
	const confirm = trailtest.SystemID
	if r, _, err := recovered(t, Options{InPlace: true, Confirm: confirm}, dir); err != nil || r.Evidence != "" {
		t.Fatalf("a whole trail: %v, %+v", err, r)
	}
	os.Truncate(paths[3], offsets[3]+20)
	os.Chmod(paths[0], 0o640)
	os.Mkdir(filepath.Join(dir, "slots"), 0o700)
	os.WriteFile(filepath.Join(dir, "slots", "siem"), []byte("a position"), 0o600)
	os.WriteFile(filepath.Join(dir, "retention"), []byte("what was deleted"), 0o600)
	before := contents(t, dir)
	r, _, err := recovered(t, Options{InPlace: true, Confirm: confirm}, dir)
	if !errors.Is(err, exit.ErrFailed) || !strings.HasPrefix(r.Evidence, dir+".damaged-") {
		t.Fatalf("got %v, %+v", err, r)
	}
	if fmt.Sprint(contents(t, r.Evidence)) != fmt.Sprint(before) {
		t.Error("the evidence is not as it was")
	}
	if info, _ := os.Stat(paths[3]); info.Size() != offsets[3] || info.Mode().Perm() != 0o640 {
		t.Errorf("in its place: %v", info)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v", info.Mode())
	}
	if slot, _ := os.ReadFile(filepath.Join(dir, "slots", "siem")); string(slot) != "a position" {
		t.Error("the slot is not there")
	}
	if rest, _ := os.ReadFile(filepath.Join(dir, "retention")); string(rest) != "what was deleted" {
		t.Error("what was deleted is not there")
	}
	if len(records(t, dir)) != 9 {
		t.Error("records are missing")
	}
}

// FuzzSalvage scans a segment of any bytes. The pieces make up the file; each whole
// block can be loaded as far as its checksums; the whole blocks alone are all whole
// blocks, and the same.
func FuzzSalvage(f *testing.F) {
	trailtest.AddCorpus(f)
	golden := trailtest.Golden(f)
	segments, _ := filepath.Glob(golden + "/*/*/*.steno")
	damaged, _ := filepath.Glob(golden + "/damaged/*/*/*.steno")
	for _, path := range append(segments, damaged...) {
		if data, err := os.ReadFile(path); err == nil && len(data) < 4096 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		start := int64(min(format.SegmentHeaderSize, len(data)))
		if n := headerLength(data); n > start && n < int64(len(data)) {
			start = n
		}
		var images []byte
		scan := func(data []byte, from int64) []piece {
			s := &scanner{seg: &trail.Segment{}, r: bytes.NewReader(data), size: int64(len(data)), last: true, each: func(p *piece, image []byte) error {
				if p.whole != (image != nil) {
					t.Fatal("a whole block without bytes")
				}
				b := format.Block{Image: image}
				if p.whole && !whole(&b) {
					t.Fatal("a block that is not whole")
				}
				images = append(images, image...)
				return nil
			}}
			if err := s.scan(from); err != nil {
				t.Fatal(err)
			}
			return s.pieces
		}
		var pieces []piece
		trailtest.CheckMemory(t, len(data), func() { pieces = scan(data, start) })
		at := start
		for _, p := range pieces {
			if p.offset != at || p.length <= 0 {
				t.Fatalf("a piece of %d bytes at %d, and the one before ends at %d", p.length, p.offset, at)
			}
			at += p.length
			if !p.whole {
				var all []unproven
				var total uint32
				trailtest.CheckMemory(t, int(p.length), func() { all, total = decodeDamaged(data[p.offset:at]) })
				if uint32(len(all)) > total {
					t.Fatalf("%d of %d records", len(all), total)
				}
			}
		}
		if at != int64(len(data)) && len(pieces) > 0 {
			t.Fatalf("pieces end at %d of %d", at, len(data))
		}
		first := images
		images = nil
		for _, p := range scan(first, 0) {
			if !p.whole {
				t.Fatal("between whole blocks is damage")
			}
		}
		if !bytes.Equal(first, images) {
			t.Fatal("other blocks")
		}
	})
}

// FuzzDecodeDamaged decodes a damaged block of any bytes behind a header that is right.
func FuzzDecodeDamaged(f *testing.F) {
	trailtest.AddCorpus(f)
	for _, codec := range []format.Codec{format.CodecNone, format.CodecLz4} {
		var chain [32]byte
		b := trailtest.NewBuilder(trailtest.Epoch)
		s := trailtest.NewSession(trailtest.Epoch, 1)
		for range 3 {
			b.Add(&trailtest.Record{Kind: format.KindNote, Session: s, Time: trailtest.Epoch, Text: "some text, some text, some text"})
		}
		f.Add(byte(codec), uint32(len(b.Payload)), b.Finish(codec, 1, 1, &chain)[format.BlockHeaderSize:])
	}
	f.Fuzz(func(t *testing.T, codec byte, raw uint32, stored []byte) {
		if len(stored) > 1<<16 || raw > 1<<20 {
			return
		}
		var chain [32]byte
		b := trailtest.NewBuilder(trailtest.Epoch)
		image := b.Finish(format.CodecNone, 1, 1, &chain)
		image[6], image[16] = codec, 5
		for i, n := range []uint32{uint32(len(stored)), raw} {
			for k := range 4 {
				image[8+4*i+k] = byte(n >> (8 * k))
			}
		}
		trailtest.SealHeader(image)
		all, total := decodeDamaged(append(image, stored...))
		if total != 5 || len(all) > 5 {
			t.Fatalf("%d of %d records", len(all), total)
		}
	})
}

// A file that is longer than a server makes it is not copied, whatever its size.
func TestFilesThatAreTooLongAreNotCopied(t *testing.T) {
	dir := t.TempDir()
	blocks(t, dir, 2, format.CodecLz4)
	os.Mkdir(filepath.Join(dir, "slots"), 0o700)
	for _, name := range []string{"retention", "slots/long", "slots/short"} {
		os.WriteFile(filepath.Join(dir, name), []byte("pg_steno"), 0o600)
	}
	for _, name := range []string{"retention", "slots/long"} {
		if err := os.Truncate(filepath.Join(dir, name), 8<<30); err != nil {
			t.Skip(err)
		}
	}
	r, out, _ := recovered(t, Options{}, dir)
	if len(r.Errors) != 2 || !strings.Contains(strings.Join(r.Errors, " "), "it has 8589934592 bytes") {
		t.Errorf("errors: %q", r.Errors)
	}
	for name, want := range map[string]bool{"retention": false, "slots/long": false, "slots/short": true} {
		if _, err := os.Stat(filepath.Join(out, name)); (err == nil) != want {
			t.Errorf("%s is copied: %t", name, !want)
		}
	}
}

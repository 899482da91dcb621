package verify

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func verified(t *testing.T, path string) *Report {
	t.Helper()
	tr, err := trail.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Trail(context.Background(), tr, nil, Checks{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGoldenDamage finds the one fault of each damaged golden trail.
func TestGoldenDamage(t *testing.T) {
	expected, _ := filepath.Glob(trailtest.Golden(t) + "/damaged/*.expected")
	if len(expected) < 10 {
		t.Fatalf("only %d damaged trails", len(expected))
	}
	for _, path := range expected {
		dir := strings.TrimSuffix(path, ".expected")
		t.Run(filepath.Base(dir), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				Fault   string
				Stream  int
				Segment int
				Offset  int64
			}
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			r := verified(t, dir)
			if want.Fault == "torn" {
				if !r.Whole || len(r.Warnings) != 1 || *r.Warnings[0].Offset != want.Offset || !strings.Contains(r.Warnings[0].What, "unfinished") {
					t.Errorf("want a torn tail at %d, got %+v", want.Offset, r)
				}
				return
			}
			if r.Whole || len(r.Problems) == 0 {
				t.Fatalf("%s is not found", want.Fault)
			}
			words := map[string]string{"damaged": "checksum|not a segment", "chain": "chain is broken", "number": "expected|instead of|says that this is", "missing": "missing"}[want.Fault]
			file := fmt.Sprintf("%d/%010d.steno", want.Stream, want.Segment)
			found := slices.ContainsFunc(r.Problems, func(p Problem) bool {
				if !slices.ContainsFunc(strings.Split(words, "|"), func(w string) bool { return strings.Contains(p.What, w) }) {
					return false
				}
				if want.Fault == "missing" {
					return strings.Contains(p.What, fmt.Sprintf("segment %d is", want.Segment))
				}
				return strings.HasSuffix(p.File, file) && p.Offset != nil && *p.Offset >= want.Offset && *p.Offset <= want.Offset+format.BlockHeaderSize+16
			})
			if !found {
				t.Errorf("want %+v, got %v", want, r.Problems)
			}
		})
	}
}

func TestWholeGoldenTrailsAreWhole(t *testing.T) {
	golden := trailtest.Golden(t)
	for _, name := range []string{"kinds", "values", "streams", "lz4", "parts", "empty", "later", "index"} {
		if r := verified(t, filepath.Join(golden, name)); !r.Whole {
			t.Errorf("%s: %v", name, r.Problems)
		}
	}
}

// TestIndexThatHidesSomethingIsDamage: an index of a block says too little, or covers itself.
func TestIndexThatHidesSomethingIsDamage(t *testing.T) {
	users := func(omitted byte, name string) []byte {
		list := append([]byte{omitted, 1, byte(len(name))}, name...)
		list = append(list, 1)
		return append([]byte{byte(format.TermsUsers), byte(len(list))}, list...)
	}
	for name, c := range map[string]struct {
		index []byte
		want  string
	}{
		"whole":                {index: append([]byte{1, 1, 1}, users(0, "alice")...)},
		"omitted":              {index: append([]byte{1, 1, 1}, users(1, "bob")...)},
		"of other blocks":      {index: append([]byte{9, 1, 1}, users(0, "bob")...), want: "covers blocks that follow it"},
		"list that is unknown": {index: []byte{1, 1, 1, 99, 1, 0}},
		"another user":         {index: append([]byte{1, 1, 1}, users(0, "bob")...), want: "block 1: the index of its segment lacks 1 of its users"},
		"user, kind of record": {index: slices.Concat([]byte{1, 1, 1, byte(format.TermsResults), 2, 0, 0}, users(0, "bob")), want: "lacks 1 of its users"},
		"kind of record":       {index: []byte{1, 1, 1, byte(format.TermsResults), 2, 0, 0}, want: "block 1: the index of its segment lacks 2 of its results"},
		"kind of plain record": {index: []byte{1, 1, 1, byte(format.TermsResults), 6, 0, 1, 2, byte(format.KindNote), 0, 1}, want: "block 1: the index of its segment lacks 1 of its results"},
		"texts":                {index: append([]byte{1, 1, 1, byte(format.TermsTrigrams), 0x83, 4, 0, 0x80, 4}, make([]byte, 512)...), want: "block 1: the index of its segment lacks parts of its texts"},
		"itself":               {index: append([]byte{1, 2, 1}, users(0, "alice")...), want: "covers blocks that follow it"},
		"cut off":              {index: []byte{1, 1, 1, byte(format.TermsUsers), 9, 0}, want: "index ends too early"},
		"no blocks":            {index: []byte{1, 0, 1}, want: "index covers no blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := trailtest.NewStream(t, dir, 0)
			b := trailtest.NewBuilder(trailtest.Epoch)
			session := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
			b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Seq: 1, Time: trailtest.Epoch, Text: "a text"})
			b.Add(&trailtest.Record{Kind: format.KindTransaction, Session: session, Seq: 2, Time: trailtest.Epoch})
			s.Write(t, b)
			b = trailtest.NewBuilder(trailtest.Epoch)
			b.Item(format.KindDefIndex, c.index)
			s.Write(t, b)
			for range 10 { // what is said is the same each time
				r := verified(t, dir)
				var got []string
				for _, p := range r.Problems {
					got = append(got, p.What)
				}
				if c.want == "" && !r.Whole || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
					t.Fatalf("%q, want %q", got, c.want)
				}
			}
		})
	}
}

// writeSession writes records with these sequence numbers, one block each.
func writeSession(t *testing.T, dir string, kinds map[uint64]format.Kind, extra []string, seqs ...uint64) *trailtest.Stream {
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for _, seq := range seqs {
		b := trailtest.NewBuilder(trailtest.Epoch)
		r := &trailtest.Record{Kind: format.KindNote, Session: session, Seq: seq, Time: trailtest.Epoch, Text: "x"}
		if kind, ok := kinds[seq]; ok {
			r.Kind = kind
		}
		if r.Kind == format.KindGap {
			r.Extra = extra
		}
		b.Add(r)
		s.Write(t, b)
	}
	return s
}

func TestMissingSequenceNumbersAreDamage(t *testing.T) {
	for name, c := range map[string]struct {
		seqs  []uint64
		kinds map[uint64]format.Kind
		extra []string
		want  string
	}{
		"none":           {seqs: []uint64{1, 2, 3}},
		"out of order":   {seqs: []uint64{3, 1, 2}},
		"the first":      {seqs: []uint64{2, 3}, want: "record 1 is missing"},
		"in the middle":  {seqs: []uint64{1, 5}, want: "records 2 to 4 are missing"},
		"twice":          {seqs: []uint64{1, 2, 2, 3}, want: "record 2 is in the trail more than once"},
		"explained":      {seqs: []uint64{1, 5}, kinds: map[uint64]format.Kind{5: format.KindGap}, extra: []string{"count", "3", "first_seq", "2", "last_seq", "4"}},
		"partly":         {seqs: []uint64{1, 5}, kinds: map[uint64]format.Kind{5: format.KindGap}, extra: []string{"count", "2", "first_seq", "3", "last_seq", "4"}, want: "record 2 is missing"},
		"gap elsewhere":  {seqs: []uint64{1, 5, 6}, kinds: map[uint64]format.Kind{6: format.KindGap}, extra: []string{"count", "3", "first_seq", "2", "last_seq", "4"}, want: "gap record has number 6, not 5"},
		"lost but there": {seqs: []uint64{1, 3, 5}, kinds: map[uint64]format.Kind{5: format.KindGap}, extra: []string{"count", "3", "first_seq", "2", "last_seq", "4"}, want: "a gap record says that records 2 to 4 were lost, but record 3 is there"},
		"behind the end": {seqs: []uint64{1, 2, 3, 4}, kinds: map[uint64]format.Kind{2: format.KindDisconnect}, want: "records 3 to 4 are in the trail, although it ended with record 2"},
		"without number": {seqs: []uint64{1, 5}, kinds: map[uint64]format.Kind{5: format.KindGap}, extra: []string{"count", "3"}, want: "records 2 to 4 are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeSession(t, dir, c.kinds, c.extra, c.seqs...)
			r := verified(t, dir)
			if c.want == "" {
				if !r.Whole {
					t.Errorf("got %v", r.Problems)
				}
				return
			}
			if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, c.want) {
				t.Errorf("got %v, want %q", r.Problems, c.want)
			}
		})
	}
}

// What is in another trail, according to a record, is not missing; everything else is, and a number occurs once.
func TestRecordsInAnotherTrailAreNotMissing(t *testing.T) {
	id := format.SessionID{Start: trailtest.Epoch, PID: 1}.String()
	for name, c := range map[string]struct {
		session, last string
		seqs          []uint64
		want          string
	}{
		"there":           {session: id, last: "3", seqs: []uint64{4, 5}},
		"partly":          {session: id, last: "3", seqs: []uint64{1, 4, 5}},
		"too few":         {session: id, last: "3", seqs: []uint64{5}, want: "record 4 is missing"},
		"later":           {session: id, last: "3", seqs: []uint64{4, 6}, want: "record 5 is missing"},
		"twice":           {session: id, last: "3", seqs: []uint64{4, 4}, want: "record 4 is in the trail more than once"},
		"another session": {session: "6b0202d9.2", last: "3", seqs: []uint64{4}, want: "records 1 to 3 are missing"},
		"no number":       {session: id, last: "x", seqs: []uint64{4}, want: "records 1 to 3 are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := writeSession(t, dir, nil, nil, c.seqs...)
			b := trailtest.NewBuilder(trailtest.Epoch)
			server := trailtest.NewSession(trailtest.Epoch, 2)
			for _, extra := range [][]string{{"session", c.session, "last_seq", c.last}, {"since", "2026-11-29T12:00:00.000000Z", "stream", "0", "block", "9"}} {
				b.Add(&trailtest.Record{Kind: format.KindServer, Session: server, Time: trailtest.Epoch, Extra: append([]string{"event", "other_trail"}, extra...)})
			}
			s.Write(t, b)
			r := verified(t, dir)
			if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].What, "began at 2026-11-29T12:00:00.000000Z had recorded in another trail, whose stream 0 had at least 9 blocks") {
				t.Errorf("warnings: %v", r.Warnings)
			}
			if r.Whole != (c.want == "") || c.want != "" && (len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, c.want)) {
				t.Errorf("got %v, want %q", r.Problems, c.want)
			}
		})
	}
}

// Whoever has the other trail, too, has to find in it what is not in this one.
func TestTheOtherTrailIsRead(t *testing.T) {
	id := format.SessionID{Start: trailtest.Epoch, PID: 1}.String()
	for name, c := range map[string]struct {
		old      []uint64 // records of the session there
		others   bool     // it has other blocks
		warnings int
		want     string
	}{
		"whole":    {old: []uint64{1, 2, 3}},
		"changed":  {old: []uint64{1, 3}, want: "record 2 is missing"},
		"not that": {old: []uint64{1, 3}, others: true, warnings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			old, dir := filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "new")
			writeSession(t, old, nil, nil, c.old...)
			tr, err := trail.Open(old)
			if err != nil {
				t.Fatal(err)
			}
			refs, _ := tr.Streams[0].Segments[0].Index()
			last := refs[len(refs)-1]
			if c.others {
				last.Chain[0] ^= 1
			}
			const since = "2026-11-29T12:00:00.000000Z"
			s := writeSession(t, dir, nil, nil, 4, 5)
			b := trailtest.NewBuilder(trailtest.Epoch)
			server := trailtest.NewSession(trailtest.Epoch, 2)
			for _, extra := range [][]string{
				{"session", id, "last_seq", "3"},
				{"stream", "0", "block", strconv.FormatUint(last.Number, 10), "chain", hex.EncodeToString(last.Chain[:])},
			} {
				b.Add(&trailtest.Record{Kind: format.KindServer, Session: server, Time: trailtest.Epoch, Extra: append([]string{"event", "other_trail", "since", since}, extra...)})
			}
			s.Write(t, b)
			alone, err := trail.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if r := verified(t, dir); !r.Whole || len(r.Warnings) != 1 {
				t.Errorf("alone: %v %v", r.Problems, r.Warnings)
			}
			r, err := Trail(context.Background(), trail.Join(tr, alone), nil, Checks{})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Warnings) != c.warnings {
				t.Errorf("warnings: %v", r.Warnings)
			}
			if r.Whole != (c.want == "") || c.want != "" && (len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, c.want)) {
				t.Errorf("got %v, want %q", r.Problems, c.want)
			}
		})
	}
}

// TestDamagedRingsAreWarnedOf has what recovery puts in the place of what it could not
// read: no damage of the trail, but nothing to pass over.
func TestDamagedRingsAreWarnedOf(t *testing.T) {
	for want, pair := range map[string][]string{
		"record 2 stands for 96 bytes of records, of unknown number, that could not be read from a damaged ring file": {"bytes", "96"},
		"record 2 stands for dropped records, of unknown number, that could not be read from a damaged ring file":     {},
		"record 2 stands for a record that could not be read from a damaged ring file":                                {"count", "1"},
	} {
		dir := t.TempDir()
		writeSession(t, dir, map[uint64]format.Kind{2: format.KindGap}, append(pair, "reason", "ring damaged"), 1, 2, 3)
		if r := verified(t, dir); !r.Whole || len(r.Warnings) != 1 || !strings.HasSuffix(r.Warnings[0].What, want) {
			t.Errorf("got %v, %v, want %q", r.Problems, r.Warnings, want)
		}
	}
}

func TestOnlyStartRecordsGoWithoutANumber(t *testing.T) {
	for kind, want := range map[format.Kind]string{
		format.KindStart:     "",
		format.KindStatement: "record without a sequence number",
		format.KindGap:       "record without a sequence number",
	} {
		dir := t.TempDir()
		b := trailtest.NewBuilder(trailtest.Epoch)
		s := trailtest.NewSession(trailtest.Epoch, 1)
		for _, r := range []*trailtest.Record{
			{Kind: format.KindStatement}, {Kind: kind, Unnumbered: true}, {Kind: kind, Unnumbered: true}, {Kind: format.KindStatement},
		} {
			r.Session, r.Time = s, trailtest.Epoch
			b.Add(r)
		}
		trailtest.NewStream(t, dir, 0).Write(t, b)
		r := verified(t, dir)
		if r.Records != 4 {
			t.Errorf("%s: %d records", kind, r.Records)
		}
		if want == "" && !r.Whole {
			t.Errorf("%s: %v", kind, r.Problems)
		}
		if want != "" && (len(r.Problems) == 0 || !strings.Contains(r.Problems[0].What, want)) {
			t.Errorf("%s: got %v, want %q", kind, r.Problems, want)
		}
	}
}

func TestSessionsWithoutADisconnectAreOpen(t *testing.T) {
	dir := t.TempDir()
	writeSession(t, dir, nil, nil, 1, 2)
	if r := verified(t, dir); r.Sessions != 1 || r.OpenSessions != 1 {
		t.Errorf("got %+v", r)
	}
	dir = t.TempDir()
	writeSession(t, dir, map[uint64]format.Kind{2: format.KindDisconnect}, nil, 1, 2)
	if r := verified(t, dir); r.Sessions != 1 || r.OpenSessions != 0 {
		t.Errorf("got %+v", r)
	}

	// Writers have no disconnect record.
	dir = t.TempDir()
	b := trailtest.NewBuilder(trailtest.Epoch)
	writer := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyBackendType, Value: format.WriterBackendType})
	b.Add(&trailtest.Record{Kind: format.KindServer, Session: writer, Time: trailtest.Epoch, Extra: []string{"event", "start"}})
	trailtest.NewStream(t, dir, 0).Write(t, b)
	if r := verified(t, dir); r.Sessions != 1 || r.OpenSessions != 0 {
		t.Errorf("a writer: got %+v", r)
	}
}

// TestForgeriesAreFound changes a trail as someone would who knows the format
// and makes all checksums right again.
func TestForgeriesAreFound(t *testing.T) {
	write := func(t *testing.T) (dir, path string, offsets []int64) {
		dir = t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		path = s.SegmentPath(1)
		one := trailtest.NewSession(trailtest.Epoch, 1)
		for i := range 4 {
			info, _ := os.Stat(path)
			offsets = append(offsets, info.Size())
			b := trailtest.NewBuilder(trailtest.Epoch)
			b.Add(&trailtest.Record{Kind: format.KindNote, Session: one, Time: trailtest.Epoch, Text: fmt.Sprint("text ", i)})
			s.Write(t, b)
		}
		return dir, path, offsets
	}
	t.Run("last block removed and another one put in its place", func(t *testing.T) {
		dir, path, offsets := write(t)
		data, _ := os.ReadFile(path)
		var wrong [32]byte
		one := trailtest.NewSession(trailtest.Epoch, 1)
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(&trailtest.Record{Kind: format.KindNote, Session: one, Seq: 4, Time: trailtest.Epoch, Text: "forged"})
		os.WriteFile(path, append(data[:offsets[3]], b.Finish(format.CodecLz4, 4, 4, &wrong)...), 0o600)
		r := verified(t, dir)
		if len(r.Problems) != 1 || *r.Problems[0].Offset != offsets[3]+72 || !strings.Contains(r.Problems[0].What, "chain is broken") {
			t.Errorf("got %v", r.Problems)
		}
	})
	t.Run("block removed", func(t *testing.T) {
		dir, path, offsets := write(t)
		data, _ := os.ReadFile(path)
		os.WriteFile(path, append(data[:offsets[1]:offsets[1]], data[offsets[2]:]...), 0o600)
		r := verified(t, dir)
		if len(r.Problems) != 3 { // its number, the chain, the session's sequence
			t.Errorf("got %v", r.Problems)
		}
	})
	t.Run("one place broken", func(t *testing.T) {
		dir, path, offsets := write(t)
		data, _ := os.ReadFile(path)
		data[offsets[1]+115] ^= 0x40
		os.WriteFile(path, data, 0o600)
		r := verified(t, dir)
		for _, p := range r.Problems {
			if p.File != "" && (*p.Offset < offsets[1] || *p.Offset >= offsets[2]) {
				t.Errorf("damage is told at another place, too: %v", p)
			}
		}
		if r.Records != 3 {
			t.Errorf("%d records counted beside the damage", r.Records)
		}
	})
}

func TestTimesInTheHeaderAreChecked(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(1, 1), Time: trailtest.Epoch, Text: "x"})
	b.LastEnd++
	s.Write(t, b)
	if r := verified(t, dir); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "times in the header") {
		t.Errorf("got %v", r.Problems)
	}
}

func TestSegmentsOfAnotherServerAreFound(t *testing.T) {
	dir := t.TempDir()
	writeSession(t, dir, nil, nil, 1)
	other := filepath.Join(dir, "1", "0000000001.steno")
	os.MkdirAll(filepath.Dir(other), 0o755)
	h := trailtest.SegmentHeader(1, 1, trailtest.Epoch, 1, 1, [32]byte{})
	h[16]++
	trailtest.SealSegment(h)
	os.WriteFile(other, h, 0o600)
	if r := verified(t, dir); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "belongs to another server") {
		t.Errorf("got %v", r.Problems)
	}
}

func TestDirectoryWithoutTrailIsNotWhole(t *testing.T) {
	if r := verified(t, t.TempDir()); r.Whole {
		t.Error("an empty directory is said to be a whole trail")
	}
}

// encryptedTrail writes a trail whose second segment is encrypted, and which its
// session spans.
func encryptedTrail(t *testing.T) (dir string, keys *format.Keys) {
	dir = t.TempDir()
	key := [format.KeySize]byte{1}
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for i, key := range []*[format.KeySize]byte{nil, &key, nil} {
		if i > 0 {
			s.Key = key
			s.Rotate(t, trailtest.Epoch)
		}
		for range 2 {
			b := trailtest.NewBuilder(trailtest.Epoch)
			for range 3 {
				b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: trailtest.Epoch + int64(i), Text: "text"})
			}
			s.Write(t, b)
		}
	}
	return dir, format.NewKeys(func() ([][format.KeySize]byte, error) { return [][format.KeySize]byte{key}, nil })
}

func verifiedWith(t *testing.T, dir string, keys *format.Keys) *Report {
	t.Helper()
	tr, err := trail.OpenEncrypted(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Trail(context.Background(), tr, nil, Checks{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEncryptedTrailIsVerifiedWithoutItsKey, as far as that goes: what is stored,
// and the chain.
func TestEncryptedTrailIsVerifiedWithoutItsKey(t *testing.T) {
	dir, keys := encryptedTrail(t)
	with, without := verifiedWith(t, dir, keys), verified(t, dir)
	if !with.Whole || len(with.Warnings) != 0 || with.EncryptedBlocks != 2 || with.UnreadBlocks != 0 || with.Records != 18 {
		t.Errorf("with the key: %+v", with)
	}
	if !without.Whole || len(without.Warnings) != 1 || !strings.Contains(without.Warnings[0].What, "was not given: 1;") ||
		without.EncryptedBlocks != 2 || without.UnreadBlocks != 2 || without.Records != 18 {
		t.Errorf("without the key: %+v", without)
	}
	if with.First != without.First || with.Last != without.Last || with.First == "" {
		t.Errorf("times: %s to %s, %s to %s", with.First, with.Last, without.First, without.Last)
	}

	// Each byte matters to the chain, the key part of the header included.
	path := filepath.Join(dir, "0", "0000000002.steno")
	whole, _ := os.ReadFile(path)
	for at := range whole {
		changed := slices.Clone(whole)
		changed[at] ^= 4
		if at >= 128 && at < 200 {
			// with the checksum that belongs to it
			binary.LittleEndian.PutUint64(changed[200:], xxhash.Sum64(changed[:200]))
		}
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := verified(t, dir); r.Whole {
			t.Fatalf("byte %d changed: the trail is called whole", at)
		}
		if r := verifiedWith(t, dir, keys); r.Whole {
			t.Fatalf("byte %d changed: with its key, the trail is called whole", at)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}

	// A segment that is gone is missed with and without the key.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if r := verified(t, dir); r.Whole {
		t.Error("a missing segment is not missed")
	}
}

// TestBlocksThatCannotBeDecryptedAreNotMissing: behind the seal that ended a run, a segment
// whose key is missing, or that cannot be read, is not one without a block.
func TestBlocksThatCannotBeDecryptedAreNotMissing(t *testing.T) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	public := private.Public().(ed25519.PublicKey)
	for name, want := range map[string]int{"encrypted": 0, "damaged": 0, "empty": 1} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		session := trailtest.NewSession(trailtest.Epoch, 1)
		note := func() {
			b := trailtest.NewBuilder(trailtest.Epoch)
			b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: trailtest.Epoch, Text: "text"})
			s.Write(t, b)
		}
		note()
		tr, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		refs, _ := tr.Streams[0].Segments[0].Index()
		hash := refs[0].Chain
		stop := seal.Seal{SystemID: trailtest.SystemID, Segment: 1, Block: 1, Record: 1, First: 1, Interval: 60, Time: trailtest.Epoch, Hash: hash, Reason: seal.ReasonStop}
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(&trailtest.Record{Kind: format.KindSeal, Session: session, Time: trailtest.Epoch, Extra: []string{
			"reason", stop.Reason, "block", "1", "record", "1", "hash", hex.EncodeToString(hash[:]), "first", "1",
			"interval", "60", "key", seal.KeyID(public), "signature", hex.EncodeToString(ed25519.Sign(private, stop.Bytes())),
		}})
		s.Write(t, b)
		if name == "encrypted" {
			s.Key = &[format.KeySize]byte{1}
		}
		s.Rotate(t, trailtest.Epoch)
		switch name {
		case "encrypted":
			note()
		case "damaged":
			s.Raw(t, bytes.Repeat([]byte("x"), 500))
		}
		if tr, err = trail.Open(dir); err != nil {
			t.Fatal(err)
		}
		r, err := Trail(context.Background(), tr, nil, Checks{Keys: seal.Keys{seal.KeyID(public): public}})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Seals) != 1 || r.Seals[0].Checked != 1 {
			t.Fatalf("%s: %+v, %v", name, r.Seals, r.Problems)
		}
		told := 0
		for _, w := range r.Warnings {
			if strings.Contains(w.What, "which has no block, follows the seal") {
				told++
			}
		}
		if told != want {
			t.Errorf("%s: %v", name, r.Warnings)
		}
	}
}

// TestForgedEncryptionIsFoundWithTheKey: a payload that somebody without the key
// has replaced, with checksums and chain made anew.
func TestForgedEncryptionIsFoundWithTheKey(t *testing.T) {
	dir, keys := encryptedTrail(t)
	for _, name := range []string{"0000000003.steno"} {
		if err := os.Remove(filepath.Join(dir, "0", name)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "0", "0000000002.steno")
	data, _ := os.ReadFile(path)
	previous := sha256.Sum256(data[:208])
	for at := 208; at < len(data); {
		block := data[at:][:112+binary.LittleEndian.Uint32(data[at+8:])]
		block[len(block)-1] ^= 1
		binary.LittleEndian.PutUint64(block[64:], xxhash.Sum64(block[112:]))
		previous = sha256.Sum256(slices.Concat(previous[:], block[:72], block[112:]))
		copy(block[72:], previous[:])
		trailtest.SealHeader(block)
		at += len(block)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := verified(t, dir); !r.Whole {
		t.Errorf("without the key, checksums and chain are right: %+v", r)
	}
	if r := verifiedWith(t, dir, keys); r.Whole || len(r.Problems) < 2 || !strings.Contains(r.Problems[0].What, "cannot be decrypted") {
		t.Errorf("with the key: %+v", r)
	}
}

// What has ended whole is forgotten; records of it that come again are told nevertheless.
func TestRecordsOfAFinishedSessionThatComeAgainAreTold(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	for range 2 {
		session := trailtest.NewSession(trailtest.Epoch, 1)
		b := trailtest.NewBuilder(trailtest.Epoch)
		for i, kind := range []format.Kind{format.KindConnect, format.KindNote, format.KindDisconnect} {
			b.Add(&trailtest.Record{Kind: kind, Session: session, Time: trailtest.Epoch + int64(i)})
		}
		s.Write(t, b)
	}
	tr, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Trail(context.Background(), tr, nil, Checks{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Sessions != 1 || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].What, "records 1 to 3 are in the trail more than once") {
		t.Errorf("%d sessions, %+v", report.Sessions, report.Problems)
	}
}

// TestFoldersThatCannotBeReadAreNotDamage, but those that have disappeared since the trail was listed are.
func TestFoldersThatCannotBeReadAreNotDamage(t *testing.T) {
	for reason, damaged := range map[error]bool{fs.ErrPermission: false, fs.ErrNotExist: true} {
		dir, keys := encryptedTrail(t)
		tr, err := trail.OpenEncrypted(dir, keys)
		if err != nil {
			t.Fatal(err)
		}
		tr.Errors = []error{&fs.PathError{Op: "open", Path: filepath.Join(dir, "1"), Err: reason}}
		r, err := Trail(t.Context(), tr, nil, Checks{})
		if err != nil {
			t.Fatal(err)
		}
		found := r.Unreadable
		if damaged {
			found = r.Problems
		}
		if len(r.Problems)+len(r.Unreadable) != 1 || len(found) != 1 || !strings.HasPrefix(found[0].What, "cannot be read: ") || r.Damaged() != damaged {
			t.Errorf("%v: problems %v, unreadable %v", reason, r.Problems, r.Unreadable)
		}
	}
}

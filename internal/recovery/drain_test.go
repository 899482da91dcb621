package recovery

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/ring/ringtest"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// statement is a message of a session's statement of the same number.
func statement(seq uint64) []byte {
	r := ringtest.Record{Kind: 1, Seq: seq, Statement: seq, Time: trailtest.Epoch + int64(seq), Duration: 1, Text: fmt.Sprintf("SELECT %d", seq), Shape: "\x01\x00\x06SELECT\x00\x00"}
	return r.Bytes()
}

func sessionBody(pid uint32) []byte { return write.SessionBody(trailtest.Epoch, pid, "client backend") }

func id(pid uint32, seq uint64) format.RecordID {
	return format.RecordID{Session: format.SessionID{Start: trailtest.Epoch, PID: pid}, Seq: seq}
}

// trailOf writes a trail of one block, with so many statements of session 1, and
// returns the intent of him who wrote it.
func trailOf(t *testing.T, dir string, n int) ringtest.Intent {
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for i := range n {
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Time: trailtest.Epoch + int64(i+1), Text: fmt.Sprint("SELECT ", i+1)})
	}
	image := s.Finish(b)
	s.Raw(t, image)
	in := ringtest.Intent{Valid: 1, Stream: 0, Segment: 1, Offset: format.SegmentHeaderSize, Block: 1}
	copy(in.Hash[:], image[72:104])
	return in
}

// drained recovers a trail with a ring file.
func drained(t *testing.T, dir string, f *ringtest.File) (*Report, map[format.RecordID]found, error) {
	t.Helper()
	f.SystemID = trailtest.SystemID
	path := f.Write(t, filepath.Join(t.TempDir(), "pg_steno.1.1"))
	r, out, err := recovered(t, Options{Rings: []string{path}}, dir)
	if err != nil && !errors.Is(err, exit.ErrFailed) {
		t.Fatal(err)
	}
	return r, records(t, out), err
}

// TestIntentsDecideWhatIsWrittenAlready has a ring whose first messages were about to
// be written when the writer died. Where the intent does not tell, the records' numbers
// do.
func TestIntentsDecideWhatIsWrittenAlready(t *testing.T) {
	first, second := statement(1), statement(2)
	for name, c := range map[string]struct {
		change func(in *ringtest.Intent)
		writer int
		ring   int // the ring of the session
	}{
		"its block is whole":     {},
		"of those who recover":   {writer: 63, ring: 1},
		"there is none":          {change: func(in *ringtest.Intent) { in.Valid = 0 }},
		"another block's number": {change: func(in *ringtest.Intent) { in.Block++ }},
	} {
		for _, version := range []uint32{2, 3} {
			dir := t.TempDir()
			in := trailOf(t, dir, 1)
			if c.change != nil {
				c.change(&in)
			}
			rings := []ringtest.Ring{{}, {}}
			rings[c.ring] = ringtest.Ring{
				Tail: 64, Pending: 64 + uint64(len(first)), Messages: [][]byte{first, second}, Session: sessionBody(1), Owner: 1,
			}
			r, got, err := drained(t, dir, &ringtest.File{Version: version, Writers: 2, Intents: map[int]ringtest.Intent{c.writer: in}, Rings: rings})
			if err != nil {
				t.Errorf("%s: %v %+v", name, err, r)
			}
			for seq, stream := range map[uint64]uint32{1: 0, 2: 1} {
				if f, ok := got[id(1, seq)]; !ok || f.stream != stream {
					t.Errorf("%s: record %d: %v %+v", name, seq, ok, f)
				}
			}
			if f := got[id(1, 3)]; f.kind != format.KindDisconnect || f.outcome != format.OutcomeInterrupted {
				t.Errorf("%s: the session's end is %+v", name, f)
			}
			if rf := r.Rings[0]; rf.Published != 2 || rf.InTrail != 1 || rf.Records != 2 || rf.Sessions != 1 {
				t.Errorf("%s: %+v", name, rf)
			}
		}
	}
}

// TestIntentsGoWithoutNumbers has data parts, which have no numbers of their own: what
// the block that was about to be written has of them is not taken again.
func TestIntentsGoWithoutNumbers(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Data(trailtest.NewSession(trailtest.Epoch, 1), 1, format.PartText, "SELECT 'hello ")
	image := s.Finish(b)
	s.Raw(t, image)
	in := ringtest.Intent{Valid: 1, Segment: 1, Offset: format.SegmentHeaderSize, Block: 1}
	copy(in.Hash[:], image[72:104])
	part := ringtest.Data(1, 0, "SELECT 'hello ")
	record := (&ringtest.Record{Kind: 1, Seq: 1, Statement: 1, Time: trailtest.Epoch, Duration: 1, Text: "world'", Parts: []uint64{14, 0, 0}}).Bytes()
	f := &ringtest.File{Intents: map[int]ringtest.Intent{0: in}, Rings: []ringtest.Ring{
		{Pending: uint64(len(part)), Messages: [][]byte{part, record}, Session: sessionBody(1)},
	}}
	if r, _, err := drained(t, dir, f); err != nil {
		t.Errorf("%v %+v", err, r)
	}
	// were it taken again, verify would find too many bytes
	f.Intents = nil
	if r, _, err := drained(t, dir, f); err == nil || len(r.Verify.Problems) == 0 {
		t.Errorf("a part twice is not noticed: %+v", r)
	}
}

func TestEndsAreWrittenOnce(t *testing.T) {
	rings := func() []ringtest.Ring {
		running := ringtest.Ring{Active: true, Time: trailtest.Epoch + 5, Text: "SELECT pg_sleep(1)"}
		var all []ringtest.Ring
		for pid := uint32(1); pid <= 3; pid++ {
			r := running
			r.Session, r.Owner, r.Seq, r.Running = sessionBody(pid), pid, 1, 2
			r.Gap, r.GapFirst, r.GapLast = 2, 2, 3
			all = append(all, r)
		}
		return all
	}
	// the block of the first rings' ends
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	for pid := uint32(1); pid <= 3; pid++ {
		session := trailtest.NewSession(trailtest.Epoch, pid)
		b.Add(&trailtest.Record{Kind: format.KindConnect, Session: session, Time: trailtest.Epoch})
		if pid < 3 {
			b.Add(&trailtest.Record{Kind: format.KindGap, Session: session, Seq: 4, Time: trailtest.Epoch, Extra: []string{"count", "2", "first_seq", "2", "last_seq", "3"}})
			b.Add(&trailtest.Record{Kind: format.KindDisconnect, Session: session, Time: trailtest.Epoch})
		}
	}
	image := s.Finish(b)
	s.Raw(t, image)
	in := ringtest.Intent{Valid: 4, Segment: 1, Offset: format.SegmentHeaderSize, Block: 1}
	copy(in.Hash[:], image[72:104])
	r, got, err := drained(t, dir, &ringtest.File{Intents: map[int]ringtest.Intent{63: in}, Rings: rings()})
	if err != nil || r.Rings[0].Records != 3 || r.Rings[0].Interrupted != 1 {
		t.Errorf("%v %+v", err, r)
	}
	for seq, kind := range map[uint64]format.Kind{1: format.KindConnect, 4: format.KindGap, 5: format.KindStatement, 6: format.KindDisconnect} {
		if f := got[id(3, seq)]; f.kind != kind {
			t.Errorf("record %d: %+v", seq, f)
		}
	}
	if f := got[id(3, 5)]; f.text != "SELECT pg_sleep(1)" || f.outcome != format.OutcomeInterrupted {
		t.Errorf("what was running: %+v", f)
	}
	in.Valid = 5 // all of them
	r, _, _ = drained(t, dir, &ringtest.File{Intents: map[int]ringtest.Intent{63: in}, Rings: rings()})
	if r.Rings[0].Records != 0 || r.NewStream != nil {
		t.Errorf("%+v", r)
	}
}

// TestGapsOfTheDeadAreTold has sessions that died with records dropped, the first of which
// dropped its own description, and one before it that had ended.
func TestGapsOfTheDeadAreTold(t *testing.T) {
	dir := t.TempDir()
	trailOf(t, dir, 0)
	r, got, err := drained(t, dir, &ringtest.File{Version: 3, Rings: []ringtest.Ring{
		{
			Session: sessionBody(1), Seq: 7, Gap: 2, GapFirst: 3, GapLast: 4, GapPID: 2, GapStart: trailtest.Epoch, GapReason: 1,
			Owner: 3, OwnerStart: trailtest.Epoch, Own: 5, OwnFirst: 1, OwnLast: 5, Active: true, Running: 4, Text: "SELECT pg_sleep(1)",
		},
		{Session: sessionBody(4), Seq: 5, Owner: 4, OwnerStart: trailtest.Epoch, Own: 2, OwnFirst: 6, OwnLast: 7},
		// it has told of them just before it died
		{Session: sessionBody(5), Seq: 8, Owner: 5, OwnerStart: trailtest.Epoch, Own: 2, OwnFirst: 6, OwnLast: 7},
		// nothing of this session was to be recorded
		{Session: sessionBody(6), Seq: 8, Owner: 7, OwnerStart: trailtest.Epoch},
		// a left gap of the session that is described
		{Session: sessionBody(8), Seq: 1, Gap: 1, GapFirst: 2, GapLast: 2, GapPID: 8, GapStart: trailtest.Epoch},
		// it was about to end, and had left what it dropped to others already
		{
			Session: sessionBody(9), Seq: 1, Owner: 9, OwnerStart: trailtest.Epoch, Own: 2, OwnFirst: 2, OwnLast: 3,
			Gap: 2, GapFirst: 2, GapLast: 3, GapPID: 9, GapStart: trailtest.Epoch,
		},
		{Session: sessionBody(10), Seq: 1, Owner: 10, OwnerStart: trailtest.Epoch, Own: 2, OwnFirst: 2, OwnLast: 3, OrphanDrops: 7, OrphanDropsNext: 7, OrphanDropsRecorded: 7},
		// and not yet
		{Session: sessionBody(11), Seq: 1, Owner: 11, OwnerStart: trailtest.Epoch, Own: 2, OwnFirst: 2, OwnLast: 3, OrphanDrops: 5, OrphanDropsNext: 7, OrphanDropsRecorded: 5},
		// it had taken the number, and not counted it yet
		{Session: sessionBody(12), Seq: 1, Owner: 12, OwnerStart: trailtest.Epoch, Own: 2, OwnFirst: 2, OwnLast: 4},
	}})
	if err != nil && !errors.Is(err, exit.ErrFailed) || r.Rings[0].Sessions != 7 || len(r.Rings[0].Lost) > 0 {
		t.Errorf("%v %+v", err, r)
	}
	want := map[format.RecordID]format.Kind{
		id(2, 5): format.KindGap,
		id(3, 6): format.KindGap, id(3, 7): format.KindStatement, id(3, 8): format.KindDisconnect,
		id(4, 8): format.KindGap, id(4, 9): format.KindDisconnect,
		id(5, 9): format.KindDisconnect,
		id(8, 3): format.KindGap,
		id(9, 4): format.KindGap, id(9, 5): format.KindDisconnect,
		id(10, 2): format.KindDisconnect,
		id(11, 4): format.KindGap, id(11, 5): format.KindDisconnect,
		id(12, 5): format.KindGap, id(12, 6): format.KindDisconnect,
	}
	for id, kind := range want {
		if f := got[id]; f.kind != kind {
			t.Errorf("%v: got %+v, want %s", id, f, kind)
		}
	}
	for id, f := range got {
		if _, wanted := want[id]; !wanted && f.kind != format.KindServer {
			t.Errorf("%v: %+v", id, f)
		}
	}
}

// TestDropsWithoutNumbersAreCounted has a writer that died before, and after, its block
// that counted some of them was written.
func TestDropsWithoutNumbersAreCounted(t *testing.T) {
	for want, valid := range map[string]uint32{"7 trail not writable": 0, "4 trail not writable": 1} {
		dir := t.TempDir()
		in := trailOf(t, dir, 1)
		in.Valid = valid
		r, _, err := drained(t, dir, &ringtest.File{Version: 3, Intents: map[int]ringtest.Intent{0: in},
			Rings: []ringtest.Ring{{OrphanDrops: 9, OrphanDropsReason: 1, OrphanDropsRecorded: 2, OrphanDropsPending: 5}, {OrphanDrops: 3, OrphanDropsRecorded: 3, OrphanDropsPending: 3}}})
		if err != nil || r.Rings[0].Records != 1 {
			t.Errorf("%v %+v", err, r.Rings[0])
		}
		var counts []string
		each(t, r.Copy, func(_ uint32, r *format.Record) {
			if r.Kind == format.KindGap && ofRecovery(r) {
				count, _ := r.ExtraValue("count")
				reason, _ := r.ExtraValue("reason")
				counts = append(counts, string(count)+" "+string(reason))
			}
		})
		if !slices.Equal(counts, []string{want}) {
			t.Errorf("valid %d: gap records count %q, want %s", valid, counts, want)
		}
	}
}

// TestImpossibleDropsAreNotCounted has counters of dropped records that no server leaves.
func TestImpossibleDropsAreNotCounted(t *testing.T) {
	for name, ring := range map[string]ringtest.Ring{
		"more than all":      {OrphanDrops: 1 << 49, Drops: 3, OrphanDropsRecorded: 2},
		"fewer than counted": {OrphanDrops: 2, Drops: 3, OrphanDropsRecorded: 1 << 20},
	} {
		r, _, err := drained(t, t.TempDir(), &ringtest.File{Version: 3, Rings: []ringtest.Ring{ring}})
		if !errors.Is(err, exit.ErrFailed) || len(r.Rings[0].Lost) != 1 {
			t.Errorf("%s: %v %+v", name, err, r.Rings[0])
		}
		each(t, r.Copy, func(_ uint32, r *format.Record) {
			if _, counts := r.ExtraValue("count"); r.Kind == format.KindGap && counts {
				t.Errorf("%s: a gap record counts", name)
			}
		})
	}
}

// TestDamagedRingsAreNamed has what a server never writes.
func TestDamagedRingsAreNamed(t *testing.T) {
	gap := func(seq uint64) map[uint64]format.Kind { return map[uint64]format.Kind{seq: format.KindGap} }
	behind := map[uint64]format.Kind{1: format.KindStatement, 2: format.KindGap}
	no := "there is no valid message at "
	short := ringtest.Data(2, 0, "x")
	for name, c := range map[string]struct {
		ring ringtest.Ring
		want string
		got  map[uint64]format.Kind
		what string // the gap record's first pair
	}{
		"head before tail": {ringtest.Ring{Tail: 64, Head: 8}, "which is impossible", gap(1), "bytes 16384"},
		"too much":         {ringtest.Ring{Head: 64 << 10}, "which is impossible", gap(1), "bytes 16384"},
		"odd":              {ringtest.Ring{Head: 9}, "which is impossible", gap(1), "bytes 9"},
		"no length":        {ringtest.Ring{Messages: [][]byte{statement(1), make([]byte, 8)}}, no + "120: 8 bytes", behind, "bytes 8"},
		"beyond the head":  {ringtest.Ring{Messages: [][]byte{statement(1)}, Head: 64}, no + "0: 64 bytes", gap(1), "bytes 64"},
		"a shape that is none": {ringtest.Ring{Messages: [][]byte{statement(1), (&ringtest.Record{Kind: 1, Seq: 2, Statement: 2, Shape: "\x01\x00\x99"}).Bytes(), statement(3)}},
			"record 2 of session", map[uint64]format.Kind{1: format.KindStatement, 2: format.KindGap, 3: format.KindStatement}, "count 1"},
		"a text too long": {ringtest.Ring{Messages: [][]byte{(&ringtest.Record{Kind: 1, Seq: 1, TextLength: 1 << 30}).Bytes()}}, no + "0: 96 bytes", gap(1), "bytes 96"},
		"facts that are none": {ringtest.Ring{Messages: [][]byte{ringtest.Session(append(sessionBody(1), 5), 0, 0), statement(1)}},
			no + "0: 184 bytes", gap(1), "bytes 184"},
		"facts in its header": {ringtest.Ring{Session: append(sessionBody(1), 5), Messages: [][]byte{statement(1)}},
			"the properties of a session", map[uint64]format.Kind{1: format.KindStatement}, ""},
		"another number":    {ringtest.Ring{Messages: [][]byte{statement(1), statement(3)}}, no + "120: 120 bytes", behind, "bytes 120"},
		"the same again":    {ringtest.Ring{Messages: [][]byte{statement(1), statement(1)}}, no + "120: 120 bytes", behind, "bytes 120"},
		"a part of another": {ringtest.Ring{Messages: [][]byte{statement(1), ringtest.Data(3, 0, "x")}}, no + "120: 32 bytes", behind, "bytes 32"},
		"an unknown kind":   {ringtest.Ring{Messages: [][]byte{statement(1), (&ringtest.Record{Kind: 33, Seq: 2}).Bytes()}}, no + "120: 96 bytes", behind, "bytes 96"},
		"a server's record": {ringtest.Ring{Messages: [][]byte{statement(1), (&ringtest.Record{Kind: 10, Seq: 2}).Bytes()}}, no + "120: 96 bytes", behind, "bytes 96"},
		"filler in the middle": {ringtest.Ring{Messages: [][]byte{statement(1), append(append(slices.Clone(short[:4]), 0, 0), short[6:]...)}},
			no + "120: 32 bytes", behind, "bytes 32"},
		"a gap of other numbers": {ringtest.Ring{Messages: [][]byte{statement(1), gapMessage(6, "3", "2", "4")}}, no + "120: 128 bytes", behind, "bytes 128"},
		"a gap that miscounts":   {ringtest.Ring{Messages: [][]byte{statement(1), gapMessage(5, "2", "2", "4")}}, no + "120: 128 bytes", behind, "bytes 128"},
		"a gap behind a hole":    {ringtest.Ring{Messages: [][]byte{statement(1), gapMessage(5, "2", "3", "4")}}, no + "120: 128 bytes", behind, "bytes 128"},
		"a count of the dead":    {ringtest.Ring{Seq: 1, Gap: 5, GapFirst: 2, GapLast: 3}, "its number of dropped records", nil, ""},
	} {
		dir := t.TempDir()
		trailOf(t, dir, 0)
		if c.ring.Session == nil {
			c.ring.Session = sessionBody(1)
		}
		r, got, err := drained(t, dir, &ringtest.File{Rings: []ringtest.Ring{c.ring}})
		if err == nil || !slices.ContainsFunc(r.Rings[0].Lost, func(s string) bool { return strings.Contains(s, c.want) }) {
			t.Errorf("%s: %v, %q", name, err, r.Rings[0].Lost)
		}
		kinds := map[uint64]format.Kind{}
		for i, f := range got {
			kinds[i.Seq] = f.kind
		}
		if !maps.Equal(kinds, c.got) {
			t.Errorf("%s: got %v, want %v", name, kinds, c.got)
		}
		what := ""
		each(t, r.Copy, func(_ uint32, r *format.Record) {
			if r.Kind == format.KindGap {
				for name, value := range r.ExtraPairs {
					what = fmt.Sprintf("%s %s", name, value)
					break
				}
			}
		})
		if what != c.what {
			t.Errorf("%s: the gap record says %q, want %q", name, what, c.what)
		}
		// the copy is whole, and a gap record stands where records are missing
		if len(r.Verify.Problems) > 0 {
			t.Errorf("%s: verify says %v", name, r.Verify.Problems)
		}
	}
}

// gapMessage is a message of records that were dropped.
func gapMessage(seq uint64, count, first, last string) []byte {
	n, extra := write.EncodePairs("count", count, "first_seq", first, "last_seq", last)
	return (&ringtest.Record{Kind: 9, Seq: seq, ExtraCount: byte(n), Extra: string(extra)}).Bytes()
}

// TestDamageIsToldOnce has a ring whose end a server had given up, and told of it, when
// it was killed in the middle of the recovery; and one of a writer that knew of no damage.
func TestDamageIsToldOnce(t *testing.T) {
	for writer, want := range map[int]uint64{63: 0, 0: 1} {
		dir := t.TempDir()
		in := trailOf(t, dir, 1)
		damaged := make([]byte, 8)
		f := &ringtest.File{Intents: map[int]ringtest.Intent{writer: in}, Rings: []ringtest.Ring{
			{Session: sessionBody(1), Pending: 128, Messages: [][]byte{statement(1), damaged}},
		}}
		r, _, _ := drained(t, dir, f)
		if got := r.Rings[0].Records; got != want {
			t.Errorf("intent of %d: %d records, want %d: %+v", writer, got, want, r.Rings[0])
		}
	}
}

// TestRingsOfTheDirectoryAreThoseOfTheCluster names a directory.
func TestRingsOfTheDirectoryAreThoseOfTheCluster(t *testing.T) {
	dir, rings := t.TempDir(), t.TempDir()
	trailOf(t, dir, 1)
	for i, system := range []uint64{trailtest.SystemID, 1, trailtest.SystemID} {
		f := &ringtest.File{SystemID: system, Created: int64(10 - i), Rings: []ringtest.Ring{{Messages: [][]byte{statement(uint64(3 - i))}, Session: sessionBody(1)}}}
		f.Rings[0].Seq = uint64(2 - i)
		f.Write(t, filepath.Join(rings, fmt.Sprintf("pg_steno.x.%d", i)))
	}
	r, out, err := recovered(t, Options{Rings: []string{rings}}, dir)
	if got := records(t, out); len(r.Rings) != 2 || r.Rings[0].File < r.Rings[1].File || len(got) != 2 {
		t.Errorf("%v: %+v, %v", err, r.Rings, got)
	}
	_, _, err = recovered(t, Options{Rings: []string{filepath.Join(rings, "pg_steno.x.0"), filepath.Join(rings, "pg_steno.x.1")}}, dir)
	if err == nil || !strings.Contains(err.Error(), "ring file belongs to cluster 1") {
		t.Errorf("another cluster's: %v", err)
	}
	// what is no ring file does not keep the rest from being recovered
	os.WriteFile(filepath.Join(rings, "no"), []byte("x"), 0o600)
	r, _, err = recovered(t, Options{Rings: []string{filepath.Join(rings, "no")}}, dir)
	if !errors.Is(err, exit.ErrFailed) || len(r.Errors) != 1 || r.Streams[0].Blocks != 1 {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestRingsAloneMakeATrail has a directory with nothing in it for the trail.
func TestRingsAloneMakeATrail(t *testing.T) {
	r, got, err := drained(t, t.TempDir(), &ringtest.File{Rings: []ringtest.Ring{{Messages: [][]byte{statement(1)}, Session: sessionBody(1), Owner: 1}}})
	if err != nil || len(got) != 2 || r.NewStream == nil || *r.NewStream != 0 || r.SystemID != fmt.Sprint(uint64(trailtest.SystemID)) {
		t.Errorf("%v: %+v, %v", err, r, got)
	}
}

// TestInPlaceTakesTheRingFilesAway so that no server drains them again.
func TestInPlaceTakesTheRingFilesAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trail")
	trailOf(t, dir, 1)
	f := &ringtest.File{SystemID: trailtest.SystemID, Rings: []ringtest.Ring{{Messages: [][]byte{statement(2)}, Session: sessionBody(1), Seq: 1}}}
	path := f.Write(t, filepath.Join(t.TempDir(), "pg_steno.1.1"))
	r, _, err := recovered(t, Options{InPlace: true, Confirm: trailtest.SystemID, Rings: []string{path}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the ring file is still there")
	}
	if kept, err := os.ReadFile(filepath.Join(r.Evidence, "rings", "pg_steno.1.1")); err != nil || string(kept) != string(f.Bytes()) {
		t.Errorf("it was not kept: %v", err)
	}
	if len(records(t, dir)) != 2 {
		t.Error("its record is not in the trail")
	}
}

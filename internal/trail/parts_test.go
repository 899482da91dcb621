package trail_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// bigRecord writes a record whose text went ahead in three parts, in the given
// streams, one block each.
func bigRecord(t *testing.T, dir string, streams [3]uint32) {
	session := trailtest.NewSession(trailtest.Epoch, 1)
	open := map[uint32]*trailtest.Stream{}
	for i, n := range streams {
		if open[n] == nil {
			open[n] = trailtest.NewStream(t, dir, n)
		}
		b := trailtest.NewBuilder(trailtest.Epoch + int64(i)*1e6)
		b.Data(session, 1, format.PartText, strings.Repeat(string(rune('a'+i)), 5))
		if i == 2 {
			r := trailtest.Note(session, trailtest.Epoch+2e6, "end")
			r.Parts = [3]uint64{15, 0, 0}
			b.Add(r)
		}
		open[n].Write(t, b)
	}
}

func TestDataPartsAreJoinedAcrossBlocksAndStreams(t *testing.T) {
	for _, streams := range [][3]uint32{{0, 0, 0}, {1, 1, 0}, {1, 0, 0}} {
		dir := t.TempDir()
		bigRecord(t, dir, streams)
		got := merged(t, trailtest.Open(t, dir).Index(), format.MinTime, format.MaxTime)
		if len(got) != 1 || !strings.HasSuffix(got[0], " aaaaabbbbbcccccend") {
			t.Errorf("%v: got %q", streams, got)
		}
	}
}

// A writer's start record of a long statement is as old as that: its block's times
// are before those of a session whose parts stand beside it.
func TestDataPartsAreFoundBesideOldRecords(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	old, young := trailtest.NewSession(trailtest.Epoch, 1), trailtest.NewSession(trailtest.Epoch+60e6, 2)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(old, trailtest.Epoch, "old"))
	b.Data(young, 1, format.PartText, "there ")
	s.Write(t, b)
	b = trailtest.NewBuilder(trailtest.Epoch + 61e6)
	r := trailtest.Note(young, trailtest.Epoch+61e6, "end")
	r.Parts = [3]uint64{6, 0, 0}
	b.Add(r)
	s.Write(t, b)
	got := merged(t, trailtest.Open(t, dir).Index(), format.MinTime, format.MaxTime)
	if len(got) != 2 || !strings.HasSuffix(got[1], " there end") {
		t.Errorf("got %q", got)
	}
}

func TestRecordWithoutAllItsPartsIsShownAndTold(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Data(session, 1, format.PartText, "there ")
	r := trailtest.Note(session, trailtest.Epoch, "end")
	r.Parts = [3]uint64{100, 0, 0}
	b.Add(r)
	s.Write(t, b)
	var lineText, warning string
	err := trailtest.Open(t, dir).Index().Merge(context.Background(), trail.MergeOptions{
		Since: format.MinTime, Until: format.MaxTime,
		NewFormatter: func() trail.Formatter { return &lines{} },
		Warn:         func(err error) { warning = err.Error() },
	}, func(line []byte) error {
		lineText = string(line)
		return nil
	})
	if err != nil || !strings.HasSuffix(lineText, "there end") || !strings.Contains(warning, "lacks 94 of 100 bytes") {
		t.Errorf("line %q, warning %q, %v", lineText, warning, err)
	}
}

func TestValuesAreJoined(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Data(session, 1, format.PartValues, "\x09big")
	b.Add(&trailtest.Record{
		Kind: format.KindStatement, Session: session, Time: trailtest.Epoch, Parts: [3]uint64{0, 4, 0}, Values: []byte(" value\x2a\x00"),
		Shape: &trailtest.Shape{Params: []format.ParamType{{OID: 25, Repr: format.ReprText}, {OID: 21, Repr: format.ReprInt2}}},
	})
	s.Write(t, b)
	var got []string
	f := &trailtest.Each{Do: func(r *format.Record) {
		r.Params(func(p format.ParamType, v []byte, null bool) bool {
			got = append(got, string(format.AppendParam(nil, p.Repr, v)))
			return true
		})
	}}
	opts := trail.MergeOptions{Since: format.MinTime, Until: format.MaxTime, Warn: func(err error) { t.Error(err) },
		NewFormatter: func() trail.Formatter { return f }}
	if err := trailtest.Open(t, dir).Index().Last(context.Background(), 1, opts, func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, ",") != "big value,42" {
		t.Errorf("got %q", got)
	}
}

// prefiltering keeps the records of one process, and looks at no text for that.
type prefiltering struct {
	lines
	pid uint32
}

func (g *prefiltering) MayKeep(r *format.Record) bool { return r.Session.PID == g.pid }
func (g *prefiltering) Keep(r *format.Record) bool    { return g.MayKeep(r) }

// Parts are read only of records that may be wanted: a missing one of another is not
// noticed.
func TestPartsOfRecordsThatAreNotWantedAreNotRead(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	for pid := range uint32(2) {
		r := trailtest.Note(trailtest.NewSession(trailtest.Epoch, pid), trailtest.Epoch, "end")
		r.Parts = [3]uint64{100, 0, 0}
		b.Add(r)
	}
	s.Write(t, b)
	for pid := range uint32(3) {
		var shown, warned int
		err := trailtest.Open(t, dir).Index().Merge(context.Background(), trail.MergeOptions{
			Since: format.MinTime, Until: format.MaxTime,
			NewFormatter: func() trail.Formatter { return &prefiltering{pid: pid} },
			Warn:         func(error) { warned++ },
		}, func([]byte) error { shown++; return nil })
		if err != nil || shown != warned || shown != int(min(1, 2-pid)) {
			t.Errorf("session %d: %d records, %d warnings, %v", pid, shown, warned, err)
		}
	}
}

// A text in many parts is copied a few times, not once for each part.
func TestManyPartsAreJoinedInLinearMemory(t *testing.T) {
	const blocks, size = 400, 16 << 10
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for i := range blocks {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Data(session, 1, format.PartText, strings.Repeat(string(rune('a'+i%26)), size))
		s.Write(t, b)
	}
	b := trailtest.NewBuilder(trailtest.Epoch)
	r := trailtest.Note(session, trailtest.Epoch, "end")
	r.Parts = [3]uint64{blocks * size, 0, 0}
	b.Add(r)
	s.Write(t, b)
	x := trailtest.Open(t, dir).Index()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := merged(t, x, format.MinTime, format.MaxTime)
	runtime.ReadMemStats(&after)
	if len(got) != 1 || len(got[0]) < blocks*size {
		t.Fatalf("%d records", len(got))
	}
	// each of the parts alone, joined again and again, would be 200 times the text
	if made := after.TotalAlloc - before.TotalAlloc; made > 40*blocks*size {
		t.Errorf("%d bytes were allocated for a text of %d", made, blocks*size)
	}
}

// Parts of a byte each, and empty ones, take no more memory than their bytes: a list of all of them
// would take many times what they stand for.
func TestTinyPartsTakeNoMemoryOfTheirOwn(t *testing.T) {
	const blocks, pieces = 40, 20_000
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for range blocks {
		b := trailtest.NewBuilder(trailtest.Epoch)
		for i := range pieces {
			b.Data(session, 1, format.PartText, "x"[:i%2])
		}
		s.Write(t, b)
	}
	b := trailtest.NewBuilder(trailtest.Epoch)
	r := trailtest.Note(session, trailtest.Epoch, "end")
	r.Parts = [3]uint64{blocks * pieces / 2, 0, 0}
	b.Add(r)
	s.Write(t, b)
	x := trailtest.Open(t, dir).Index()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := merged(t, x, format.MinTime, format.MaxTime)
	runtime.ReadMemStats(&after)
	if len(got) != 1 || len(got[0]) < blocks*pieces/2 {
		t.Fatalf("%d records", len(got))
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 20*blocks*pieces {
		t.Errorf("%d bytes were allocated for a text of %d", made, blocks*pieces/2)
	}
}

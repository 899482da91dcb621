package format_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// goldenPayloads are those of the golden trails' blocks.
func goldenPayloads(t testing.TB) (all [][]byte) {
	paths, _ := filepath.Glob(trailtest.Golden(t) + "/*/*/*.steno")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		one, err := trail.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		refs, _ := one.Streams[0].Segments[0].Index()
		for _, ref := range refs {
			var b format.Block
			if b.Image = data[ref.Offset:][:ref.Length()]; b.Load() == nil && len(b.Payload()) < 1<<15 {
				all = append(all, bytes.Clone(b.Payload()))
			}
		}
	}
	return all
}

// mutated changes a payload in a few places.
func mutated(r *rand.Rand, payload []byte) []byte {
	p := bytes.Clone(payload)
	for range 1 + r.IntN(3) {
		if len(p) < 2 {
			break
		}
		at := r.IntN(len(p))
		n := min(1+r.IntN(20), len(p)-at)
		switch r.IntN(6) {
		case 0:
			p[at] ^= 1 << r.IntN(8)
		case 1:
			p[at] = byte(r.Uint32())
		case 2:
			p[at] += byte(r.IntN(3)) - 1
		case 3:
			p = slices.Delete(p, at, at+n)
		case 4:
			p = slices.Insert(p, r.IntN(len(p)), p[at:at+n]...)
		default:
			p = p[:at]
		}
	}
	return p
}

// uncounted is a block with a payload; its header counts no records, so the end of it is an error.
func uncounted(t testing.TB, payload []byte) *format.Block {
	b := trailtest.NewBuilder(0)
	b.Payload = payload
	var chain [32]byte
	return load(t, b.Finish(format.CodecNone, 1, 1, &chain))
}

// records reads all records, and what is wrong.
func records(b *format.Block, next func(*format.Block, *format.Record) error) (all []format.Record, err error) {
	var r format.Record
	for {
		if err := next(b, &r); err != nil {
			return all, err
		}
		all = append(all, r)
	}
}

// sameReading compares the decoder with the reference, and what it leaves out with what is
// wanted.
func sameReading(t testing.TB, payload []byte) {
	b, reference := uncounted(t, payload), uncounted(t, payload)
	var r, o format.Record
	for i := 0; ; i++ {
		err, want := b.Next(&r), reference.ReferenceNext(&o)
		if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() || b.Position() != reference.Position() {
			t.Fatalf("record %d: at %d %v, want at %d %v", i, b.Position(), err, reference.Position(), want)
		}
		if err != nil {
			break
		}
		if r.ParamsFit() != r.Params(func(format.ParamType, []byte, bool) bool { return true }) {
			t.Fatalf("record %d: parameters fit: %v", i, r.ParamsFit())
		}
		if !format.Same(&r, &o) {
			t.Fatalf("record %d: %+v, want %+v", i, r, o)
		}
	}
	b.Rewind()
	all, err := records(b, (*format.Block).Next)
	t.Helper()
	for name, want := range map[string]format.Selection{
		"some sessions": {Session: func(s *format.Session) bool { return s.PID%2 == 0 }},
		"some shapes":   {Shape: func(s *format.Shape) bool { return s != nil && len(s.Command)%2 == 0 }},
		"no shape":      {Shape: func(s *format.Shape) bool { return s == nil }},
		"objects always": {
			Session: func(s *format.Session) bool { return s.PID%2 == 0 }, Shape: func(s *format.Shape) bool { return s == nil },
			Always: func(s *format.Shape) bool { return len(s.Objects) > 1 },
		},
		"shapes only": {Fields: format.FieldShape},
		"times":       {Fields: format.FieldTime},
		"numbers":     {Fields: format.FieldNesting},
	} {
		b := uncounted(t, payload)
		b.Select(want)
		got, err2 := records(b, (*format.Block).Next)
		wanted := slices.DeleteFunc(slices.Clone(all), func(r format.Record) bool {
			if want.Always != nil && (r.Kind == format.KindData || r.Shape != nil && len(r.Shape.Objects) > 0 && (!r.Shape.Plain() || want.Always(r.Shape))) {
				return false
			}
			return r.Session.Plain() && want.Session != nil && !want.Session(r.Session) ||
				want.Shape != nil && (r.Shape == nil || r.Shape.Plain()) && !want.Shape(r.Shape) && r.Kind != format.KindData && !r.MayUse()
		})
		if want.Fields == 0 && (err.Error() != err2.Error() || len(got) != len(wanted)) || len(got) < len(wanted) {
			t.Fatalf("%s: %d records, %v, want %d, %v", name, len(got), err2, len(wanted), err)
		}
		for i := range wanted {
			g, w := &got[i], &wanted[i]
			if g.Kind != w.Kind || g.Number != w.Number || g.ShapeIndex != w.ShapeIndex ||
				want.Fields != format.FieldShape && g.Time != w.Time || want.Fields&(format.FieldShape|format.FieldTime) == 0 && (g.Seq != w.Seq || g.Statement != w.Statement) {
				t.Fatalf("%s: record %d is %+v, want %+v", name, i, g, w)
			}
		}
	}
}

// sameTally compares the records that are not plain, and what is known of their sessions then, with
// all of a block.
func sameTally(t testing.TB, payload []byte) {
	t.Helper()
	b, whole := uncounted(t, payload), uncounted(t, payload)
	var tally format.Tally
	tally.Reset()
	b.Select(format.Selection{Tally: &tally})
	var r, o format.Record
	var plain format.Tally
	plain.Reset()
	last := map[int]uint64{}
	for i := 0; ; i++ {
		err, want := b.Next(&r), whole.Next(&o)
		for want == nil && (err != nil || !format.Same(&r, &o)) {
			plain.Records++
			plain.AddTimes(o.Time, o.End())
			last[o.SessionIndex] = o.Seq
			want = whole.Next(&o)
		}
		if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() || plain.Records != tally.Records {
			t.Fatalf("record %d: %v, want %v; %d are plain, want %d", i, err, want, tally.Records, plain.Records)
		}
		if tally.FirstTime != plain.FirstTime || tally.FirstEnd != plain.FirstEnd || tally.LastEnd != plain.LastEnd {
			t.Fatalf("record %d: times are %+v, want %+v", i, tally, plain)
		}
		for session, seq := range last {
			if tally.OpenOf(session).Last != seq {
				t.Fatalf("record %d: last record of session %d is %d, want %d", i, session, tally.OpenOf(session).Last, seq)
			}
		}
		if err != nil {
			return
		}
		if r.Kind != format.KindData && r.Seq != 0 {
			*tally.OpenOf(r.SessionIndex) = format.Span{First: r.Seq, Last: r.Seq}
			last[r.SessionIndex] = r.Seq
		}
	}
}

// TestDecoderAgreesWithTheReference reads blocks that servers have written, and thousands that
// were changed at random.
func TestDecoderAgreesWithTheReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	payloads := goldenPayloads(t)
	if len(payloads) < 20 {
		t.Fatalf("only %d blocks", len(payloads))
	}
	b, session := trailtest.NewBuilder(trailtest.Epoch), trailtest.NewSession(trailtest.Epoch, 1)
	for _, xid := range []uint64{0, 700, 0} { // the second is plain
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Time: trailtest.Epoch, XID: xid})
	}
	b.Add(trailtest.Note(session, trailtest.Epoch, "its session has a transaction ID"))
	payloads = append(payloads, finish(b)[format.BlockHeaderSize:])
	for _, p := range payloads {
		sameReading(t, p)
		sameTally(t, p)
		for range max(1, min(60, 300_000/(len(p)+1))) {
			changed := mutated(r, p)
			sameReading(t, changed)
			sameTally(t, changed)
		}
	}
}

// TestDecoderAgreesWithTheReferenceInRuns reads random runs.
func TestDecoderAgreesWithTheReferenceInRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 10_000 {
		p := trailtest.Runs(r)
		sameReading(t, p)
		sameTally(t, p)
	}
}

func TestParamsFitIfTheyAreAsTheirTypesSay(t *testing.T) {
	for n := range 11 {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(&trailtest.Record{
			Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Values: make([]byte, n),
			Shape: &trailtest.Shape{Command: "SELECT", Params: []format.ParamType{{OID: 23, Repr: format.ReprInt4}, {OID: 23, Repr: format.ReprInt4}}},
		})
		if r := next(t, load(t, finish(b))); r.ParamsFit() != (n == 8) {
			t.Errorf("%d bytes fit: %v", n, r.ParamsFit())
		}
	}
}

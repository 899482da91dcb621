package write_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
	"github.com/pg-steno/pg_steno/internal/trail/write"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// shape has two parameters, of which the second is NULL where there is one.
var shape = []byte("\x01\x07\x06SELECT\x01\x01\x01\x08public.t\x02\x17\x03\x19\x08")

func random(rng *rand.Rand, kind format.Kind, seq, statement uint64) *write.Record {
	yes := func() bool { return rng.IntN(3) == 0 }
	r := &write.Record{Kind: kind, Seq: seq, Time: trailtest.Epoch - 5 + rng.Int64N(1000), Duration: write.None, Rows: write.None}
	if kind == format.KindStatement {
		r.Statement = statement
		r.Duration = rng.Uint64N(1000)
		r.Depth = rng.Uint64N(2)
		r.Substatement = r.Depth
		r.Text = []byte(strings.Repeat("SELECT ", rng.IntN(9)))
	}
	if yes() {
		r.Rows = rng.Uint64N(1 << 40)
	}
	if yes() {
		r.Shape, r.Nulls, r.Values, r.HasValues = shape, []byte{2}, []byte{1, 2, 3, 4}, true
	}
	if yes() {
		r.Outcome, r.SQLState, r.Message = format.OutcomeError, []byte("22012"), []byte("division by zero")
	}
	if yes() {
		r.XID, r.Audited = rng.Uint64N(1<<32), format.AuditedObject
	}
	if yes() {
		r.HasCut, r.CutLength, r.CutHash = true, 12345, [32]byte{1, 2, 3}
	}
	if yes() {
		r.ExtraCount, r.Extra = write.EncodePairs("a", "b", "", strings.Repeat("x", 300))
	}
	return r
}

func line(kind format.Kind, seq, statement uint64, time int64, duration, rows uint64, rest ...any) string {
	return fmt.Sprintf("%v %d %d %d %d %d %q", kind, seq, statement, time, duration, rows, fmt.Sprint(rest...))
}

func open(t *testing.T, path string) *private.Dir {
	t.Helper()
	d, err := private.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestWhatIsWrittenIsRead writes streams of random records, with sessions that change
// and come back, and compares what a reader finds; the trail is whole.
func TestWhatIsWrittenIsRead(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		s, err := write.NewStream(open(t, dir), 0, trailtest.SystemID, 150018, func() int64 { return trailtest.Epoch })
		if err != nil {
			t.Fatal(err)
		}
		sources := make([]write.Source, 4)
		for i := range sources {
			sources[i].Body = write.SessionBody(trailtest.Epoch, uint32(i+1), "client backend")
		}
		other := append(write.SessionBody(trailtest.Epoch, 1, "client backend"), "\x05\x04psql"...)
		first := sources[0].Body
		var want []string
		n := 300
		if seed == 0 {
			n = 40_000 // more than a block
		}
		for range n {
			src := &sources[rng.IntN(len(sources))]
			if src == &sources[0] && rng.IntN(4) == 0 {
				src.Body = [][]byte{first, other}[rng.IntN(2)]
			}
			r := random(rng, []format.Kind{format.KindStatement, format.KindNote, format.KindConnect}[rng.IntN(3)], src.Seq+1, src.Statement+1+rng.Uint64N(2))
			if err := write.Check(src, r); err != nil {
				t.Fatal(err)
			}
			want = append(want, line(r.Kind, r.Seq, r.Statement, r.Time, r.Duration+1, r.Rows+1, src.Body[8], string(r.Shape), string(r.Text), r.Text != nil,
				string(r.Nulls), string(r.Values), r.Depth, r.Substatement, r.Outcome, string(r.SQLState), string(r.Message), r.XID, r.CutLength, r.CutHash, string(r.Extra), r.Audited))
			if err := s.Add(src, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		tr, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		v, err := verify.Trail(context.Background(), tr, nil, verify.Checks{})
		if err != nil || !v.Whole {
			t.Fatal(err, v.Problems)
		}
		got := read(t, tr)
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("seed %d, record %d: got\n%s\nwant\n%s", seed, i, got[min(i, len(got)-1)], want[i])
			}
		}
	}
}

func read(t *testing.T, tr *trail.Trail) (got []string) {
	trailtest.EachRecord(t, tr, func(_ *trail.BlockRef, r *format.Record) {
		duration, rows, body := uint64(0), uint64(0), ""
		if r.Has(format.FieldDuration) {
			duration = r.Duration + 1
		}
		if r.Has(format.FieldRows) {
			rows = r.Rows + 1
		}
		if r.Shape != nil {
			body = string(shape)
		}
		hash := [32]byte{}
		copy(hash[:], r.TextHash)
		got = append(got, line(r.Kind, r.Seq, r.Statement, r.Time, duration, rows, byte(r.Session.PID), body, string(r.Text), r.Has(format.FieldText),
			string(r.Nulls), string(r.Values), r.Depth, r.Substatement, r.Outcome, string(r.SQLState), string(r.Message), r.XID, r.TextBytes, hash, string(r.Extra), r.Audited))
	})
	return got
}

func TestWhatCannotBeReadIsNotWritten(t *testing.T) {
	src := &write.Source{Body: write.SessionBody(1, 2, "client backend")}
	plain := func() *write.Record {
		return &write.Record{Kind: format.KindNote, Seq: 1, Duration: write.None, Rows: write.None}
	}
	if err := write.Check(src, plain()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(r *write.Record){
		"half a shape":        func(r *write.Record) { r.Shape = shape[:9] },
		"NULLs and no shape":  func(r *write.Record) { r.Nulls = []byte{1} },
		"too many NULLs":      func(r *write.Record) { r.Shape, r.Nulls = shape, []byte{1, 2} },
		"values of no type":   func(r *write.Record) { r.Shape, r.Nulls, r.Values, r.HasValues = shape, []byte{2}, []byte{1}, true },
		"fewer pairs":         func(r *write.Record) { r.ExtraCount, r.Extra = 2, []byte("\x01a\x01b") },
		"more pairs":          func(r *write.Record) { r.ExtraCount, r.Extra = 1, []byte("\x01a\x01b\x01c") },
		"an end before it":    func(r *write.Record) { r.Kind, r.Duration = format.KindStatement, 1<<63 },
		"too long for blocks": func(r *write.Record) { r.Text = make([]byte, format.MaxRaw) },
	} {
		r := plain()
		change(r)
		if write.Check(src, r) == nil {
			t.Errorf("%s: is taken", name)
		}
	}
	for body, want := range map[string]bool{
		string(src.Body): true, string(src.Body[:12]): true, string(src.Body[:11]): false, string(src.Body[:len(src.Body)-1]): false,
	} {
		if write.CheckBody([]byte(body)) != want {
			t.Errorf("body %q: want %v", body, want)
		}
	}
}

func TestStreamsDoNotOverwrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := write.NewStream(open(t, dir), 1, 1, 1, nil); err == nil {
		t.Error("a stream was begun in a folder that is there")
	}
}

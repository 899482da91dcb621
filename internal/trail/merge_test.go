package trail_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// lines is a formatter whose lines tell what a test looks at.
type lines struct{ ref *trail.BlockRef }

func (l *lines) Start(ref *trail.BlockRef) { l.ref = ref }
func (l *lines) Keep(*format.Record) bool  { return true }
func (l *lines) Append(dst []byte, r *format.Record) []byte {
	return fmt.Appendf(dst, "%020d %s %d %s", r.Time, r.Session.ID(), r.Seq, r.Text)
}

// merged returns all lines of a trail, in their order.
func merged(t testing.TB, x *trail.Index, since, until int64) (out []string) {
	t.Helper()
	err := x.Merge(context.Background(), trail.MergeOptions{
		Since: since, Until: until,
		NewFormatter: func() trail.Formatter { return &lines{} },
		Warn:         func(err error) { t.Errorf("warning: %v", err) },
	}, func(line []byte) error {
		out = append(out, string(line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// randomTrail writes several streams of blocks whose statements last from
// microseconds to minutes, and returns the lines that it must give.
func randomTrail(t testing.TB, dir string, rng *rand.Rand, streams, blocks int) (want []string, times []int64) {
	for n := range streams {
		s := trailtest.NewStream(t, dir, uint32(n))
		var sessions []*trailtest.Session
		for i := range 3 {
			sessions = append(sessions, trailtest.NewSession(trailtest.Epoch+int64(i), uint32(10*n+i)))
		}
		now := trailtest.Epoch
		for k := range blocks {
			b := trailtest.NewBuilder(now)
			for range rng.IntN(60) {
				now += rng.Int64N(100_000)
				duration := rng.Uint64N(1000)
				switch rng.IntN(20) {
				case 0:
					duration = rng.Uint64N(5e6)
				case 1:
					duration = rng.Uint64N(300e6)
				}
				r := &trailtest.Record{Kind: format.KindStatement, Session: sessions[rng.IntN(3)], Time: now - int64(duration), Duration: duration, Text: fmt.Sprint("t", rng.IntN(5))}
				b.Add(r)
				id := format.SessionID{Start: r.Session.Start, PID: r.Session.PID}
				want = append(want, fmt.Sprintf("%020d %s %d %s", r.Time, id, r.Seq, r.Text))
				times = append(times, r.Time)
			}
			s.Write(t, b)
			if k%7 == 6 {
				s.Rotate(t, now)
			}
		}
	}
	return want, times
}

func TestMergeSortsWhateverTheDurations(t *testing.T) {
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 3))
		dir := t.TempDir()
		want, times := randomTrail(t, dir, rng, 1+rng.IntN(4), 25)
		got := merged(t, trailtest.Open(t, dir).Index(), format.MinTime, format.MaxTime)
		if !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(a[:20], b[:20]) }) {
			t.Fatalf("seed %d: not in the order of times", seed)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d lines, want %d", seed, len(got), len(want))
		}
		slices.Sort(times)
		since, until := times[len(times)/4], times[len(times)/2]
		n := 0
		for _, tm := range times {
			if tm >= since && tm < until {
				n++
			}
		}
		if got := merged(t, trailtest.Open(t, dir).Index(), since, until); len(got) != n {
			t.Fatalf("seed %d: since and until: %d lines, want %d", seed, len(got), n)
		}
	}
}

func TestRecordsOfTheSameMomentAreInTheOrderOfSessions(t *testing.T) {
	dir := t.TempDir()
	early, late := trailtest.NewSession(trailtest.Epoch-2e6, 9), trailtest.NewSession(trailtest.Epoch-1e6, 3)
	for i, session := range []*trailtest.Session{late, early} {
		s := trailtest.NewStream(t, dir, uint32(i))
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(session, trailtest.Epoch, "first"))
		b.Add(trailtest.Note(session, trailtest.Epoch, "second"))
		s.Write(t, b)
	}
	var got []string
	for _, l := range merged(t, trailtest.Open(t, dir).Index(), format.MinTime, format.MaxTime) {
		got = append(got, l[21:])
	}
	want := []string{"6b0202d7.9 1 first", "6b0202d7.9 2 second", "6b0202d8.3 1 first", "6b0202d8.3 2 second"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestMergeEndsWhenItIsTold(t *testing.T) {
	dir := t.TempDir()
	randomTrail(t, dir, rand.New(rand.NewPCG(1, 1)), 2, 20)
	x := trailtest.Open(t, dir).Index()
	opts := trail.MergeOptions{Since: format.MinTime, Until: format.MaxTime, NewFormatter: func() trail.Formatter { return &lines{} }, Warn: func(error) {}}
	n := 0
	if err := x.Merge(context.Background(), opts, func([]byte) error {
		if n++; n == 5 {
			return trail.ErrStop
		}
		return nil
	}); err != nil || n != 5 {
		t.Errorf("stopped with %v after %d lines", err, n)
	}
	broken := errors.New("broken pipe")
	if err := x.Merge(context.Background(), opts, func([]byte) error { return broken }); err != broken {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := x.Merge(ctx, opts, func([]byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled merge ends with %v", err)
	}
}

func TestLongTextsOfManyRecordsAreNotHeldInMemory(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	text := strings.Repeat("x", 1<<20)
	const n = 100
	for i := range int64(n) {
		b.Add(trailtest.Note(session, trailtest.Epoch+i, text))
	}
	s.Write(t, b)
	got := 0
	err := trailtest.Open(t, dir).Index().Merge(context.Background(), trail.MergeOptions{
		Since: format.MinTime, Until: format.MaxTime, NewFormatter: func() trail.Formatter { return &lines{} }, Warn: func(error) {},
	}, func(line []byte) error {
		if len(line) < len(text) || !strings.HasPrefix(string(line[:20]), fmt.Sprintf("%020d", trailtest.Epoch+int64(got))) {
			t.Fatalf("line %d is wrong", got)
		}
		got++
		return nil
	})
	if err != nil || got != n {
		t.Errorf("%d lines, %v", got, err)
	}
}

// TestMergingInParts: parts have all lines together, each in its order, and what a reader knows
// after a part is where the next one begins.
func TestMergingInParts(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 4))
	var want []string
	now := trailtest.Epoch
	var streams []*trailtest.Stream
	for n := range 3 {
		streams = append(streams, trailtest.NewStream(t, dir, uint32(n)))
	}
	for range 60 {
		n := rng.IntN(3)
		b := trailtest.NewBuilder(now)
		for range 1 + rng.IntN(5) {
			now++
			text := fmt.Sprintf("%d", now)
			b.Add(trailtest.Note(trailtest.NewSession(trailtest.Epoch, uint32(now-trailtest.Epoch)), now, text))
			want = append(want, text)
		}
		streams[n].Write(t, b)
		if rng.IntN(4) == 0 {
			streams[n].Rotate(t, now)
		}
	}
	for _, s := range streams { // a part can end with a segment without blocks
		s.Rotate(t, now)
	}
	defer trail.SetPartBytes(2000)()
	x := trailtest.Open(t, dir).Index()
	from := map[uint32]uint64{}
	var got []string
	parts, order := 0, int64(0)
	for round := 0; ; round++ { // each ends after one part, as if the reader had been killed
		stop := errors.New("killed")
		before := len(got)
		order = 0
		err := x.MergeInParts(context.Background(), func(n uint32) uint64 { return from[n] }, trail.MergeOptions{
			Since: format.MinTime, Until: format.MaxTime,
			NewFormatter: func() trail.Formatter { return &lines{} },
			Warn:         func(err error) { t.Errorf("warning: %v", err) },
		}, func(line []byte) error {
			var at int64
			var session, text string
			var seq int
			if _, err := fmt.Sscanf(string(line), "%d %s %d %s", &at, &session, &seq, &text); err != nil {
				return err
			}
			if at < order {
				t.Errorf("%s is not in its order", line)
			}
			order = at
			got = append(got, text)
			return nil
		}, func(places []trail.Place) error {
			parts++
			for _, p := range places {
				if p.Block < from[p.Stream] {
					t.Errorf("stream %d goes back from block %d to %d", p.Stream, from[p.Stream], p.Block)
				}
				from[p.Stream] = p.Block
			}
			return stop
		})
		if err == nil {
			break
		}
		if !errors.Is(err, stop) || len(got) == before || len(got) > len(want) {
			t.Fatalf("round %d: %v, %d lines", round, err, len(got)-before)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || parts < 4 {
		t.Errorf("%d parts have %d lines of %d\n%v\n%v", parts, len(got), len(want), got, want)
	}
	for _, p := range x.Places() {
		if from[p.Stream] != p.Block {
			t.Errorf("stream %d ends before block %d, the reader is at %d", p.Stream, p.Block, from[p.Stream])
		}
	}
}

// long is a formatter whose lines are so long that not all of a block are made ahead.
type long struct{ lines }

const longLine = 20_000

func (l *long) Append(dst []byte, r *format.Record) []byte {
	return append(fmt.Appendf(dst, "%d ", r.Seq), bytes.Repeat([]byte("x"), longLine)...)
}

// TestLinesThatAreMadeLaterAreInTheirPlaces: of a block whose lines take more than 8 MB, many are made when they are due.
func TestLinesThatAreMadeLaterAreInTheirPlaces(t *testing.T) {
	const n = 1500 // 30 MB
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	want := make([]string, n)
	for i, at := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		r := trailtest.Note(session, trailtest.Epoch+int64(at), "text")
		r.Seq = uint64(i) + 1
		b.Add(r)
		want[at] = fmt.Sprint(r.Seq)
	}
	s.Write(t, b)
	var got []string
	err := trailtest.Open(t, dir).Index().Merge(t.Context(), trail.MergeOptions{
		Since: format.MinTime, Until: format.MaxTime, NewFormatter: func() trail.Formatter { return &long{} },
		Warn: func(err error) { t.Error(err) },
	}, func(line []byte) error {
		number, rest, _ := bytes.Cut(line, []byte(" "))
		if len(rest) != longLine {
			t.Fatalf("a line of %d bytes", len(rest))
		}
		got = append(got, string(number))
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %d lines in another order than %d records", err, len(got), n)
	}
}

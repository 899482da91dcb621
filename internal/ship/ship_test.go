package ship_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// received is what a destination has, over all runs of the agent.
type received struct {
	mu       sync.Mutex
	blocks   map[uint32][]string // by stream, each block as its bytes
	finished []string            // paths of segments
	events   map[uint32][]string
	refused  int
	trouble  *rand.Rand // nil: none
}

func newReceived(trouble *rand.Rand) *received {
	return &received{blocks: map[uint32][]string{}, events: map[uint32][]string{}, trouble: trouble}
}

// fails decides whether an attempt fails, and how much of it arrives nevertheless.
func (d *received) fails(n int) (arrives int, err error) {
	if d.trouble == nil || d.trouble.IntN(4) > 0 {
		return n, nil
	}
	arrives = d.trouble.IntN(n + 1)
	switch d.trouble.IntN(3) {
	case 0:
		return arrives, &ship.AfterError{After: time.Millisecond, Err: errors.New("busy")}
	case 1:
		return arrives, &ship.PermanentError{What: "bucket \"b\"", Err: errors.New("no right to write")}
	}
	return arrives, errors.New("the connection was reset")
}

type testSink struct{ *received }

func (testSink) Check(context.Context) []ship.Finding { return nil }
func (testSink) Close() error                         { return nil }

func (s testSink) SendBlocks(_ context.Context, blocks []ship.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.fails(len(blocks))
	for _, b := range blocks[:n] {
		s.blocks[b.Place.Stream] = append(s.blocks[b.Place.Stream], string(b.Image))
	}
	return err
}

func (s testSink) FinishSegment(_ context.Context, segment *ship.Segment, last *ship.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.fails(1); err != nil {
		return err
	}
	if last.Place.Segment != segment.Number {
		return fmt.Errorf("the last block of segment %d is in segment %d", segment.Number, last.Place.Segment)
	}
	s.finished = append(s.finished, segment.Path)
	return nil
}

func (s testSink) SendEvents(_ context.Context, events []ship.Event) (refused []ship.Refused, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.fails(len(events))
	for i := range events[:n] {
		s.events[events[i].Place.Stream] = append(s.events[events[i].Place.Stream], string(events[i].Line))
	}
	for i := range events {
		if err == nil && strings.Contains(string(events[i].Line), "poison") {
			refused = append(refused, ship.Refused{Event: &events[i], Reason: "not today"})
		}
	}
	s.refused += len(refused)
	return refused, err
}

func kindOf(d *received) []*ship.Kind {
	return []*ship.Kind{{
		Name: "test", Schemes: []string{"test"}, Formats: ship.AllFormats,
		Batch:   ship.Batch{Records: 40, Bytes: 2000, Wait: ship.Duration(time.Millisecond)},
		Options: func() any { return &struct{}{} },
		Open:    func(*ship.SinkConfig) (ship.Sink, error) { return testSink{d}, nil },
	}}
}

// agent ships a trail until everything is shipped, or for a time.
type agent struct {
	t      *testing.T
	trail  string
	state  string
	format string
	logged []string
}

func (a *agent) run(d *received, limit time.Duration) error {
	a.t.Helper()
	c, err := ship.Parse([]byte("sinks:\n  s:\n    to: test:x\n    format: "+a.format+
		"\n    retry: {first: 1ms, most: 3ms}\n"), kindOf(d))
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(limit, time.Minute))
	defer cancel()
	if limit > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), limit)
		defer cancel()
	}
	var mu sync.Mutex
	r := &ship.Runner{Config: c.Sinks["s"], Trail: a.trail, State: a.state, Once: limit == 0,
		Log: func(level ship.Level, _, message string) {
			mu.Lock()
			defer mu.Unlock()
			a.logged = append(a.logged, string(level)+": "+message)
		}}
	err = r.Run(ctx)
	if limit == 0 && ctx.Err() != nil {
		a.t.Fatalf("not everything was shipped in a minute: %q", a.logged)
	}
	return err
}

// blocksOf reads the blocks of a stream with as little of the product as possible.
func blocksOf(t *testing.T, dir string, stream uint32) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, fmt.Sprint(stream), "*.steno"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for b = b[binary.LittleEndian.Uint16(b[10:]):]; len(b) > 0; {
			n := 112 + int(binary.LittleEndian.Uint32(b[8:]))
			all, b = append(all, string(b[:n])), b[n:]
		}
	}
	return all
}

// inOrder checks that what arrived is all that was sent, in order, with repeats of what came before only.
func inOrder(t *testing.T, what string, sent, arrived []string) {
	t.Helper()
	place := map[string]int{}
	for i, one := range sent {
		place[one] = i
	}
	next := 0
	for i, one := range arrived {
		at, known := place[one]
		switch {
		case !known:
			t.Fatalf("%s: number %d that arrived was never sent: %.200q", what, i, one)
		case at > next:
			t.Fatalf("%s: number %d was lost, or comes after number %d", what, next, at)
		case at == next:
			next++
		}
	}
	if next != len(sent) {
		t.Fatalf("%s: %d of %d arrived", what, next, len(sent))
	}
}

// grow writes some blocks to a stream, and begins segments; texts receives the texts of their records.
func grow(t *testing.T, r *rand.Rand, s *trailtest.Stream, session *trailtest.Session, seq *uint64, texts *[]string) {
	growBy(t, r, 5, s, session, seq, texts)
}

// growBy does the same, with a new segment before one of so many blocks; 0: none.
func growBy(
	t *testing.T, r *rand.Rand, each int, s *trailtest.Stream, session *trailtest.Session, seq *uint64, texts *[]string,
) {
	for range 1 + r.IntN(4) {
		if each > 0 && r.IntN(each) == 0 {
			s.Rotate(t, trailtest.Epoch+int64(*seq))
		}
		b := trailtest.NewBuilder(trailtest.Epoch + int64(*seq))
		for range 1 + r.IntN(8) {
			*seq++
			text := fmt.Sprintf("SELECT %d, %d, '%s'", s.Number, *seq, strings.Repeat("x", r.IntN(300)))
			if r.IntN(50) == 0 {
				text += " -- poison"
			}
			*texts = append(*texts, text)
			b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Seq: *seq, Statement: *seq,
				Time: trailtest.Epoch + int64(*seq), Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"},
				Text: text})
		}
		s.Write(t, b)
	}
}

// TestEverythingArrivesInOrder ships trails that grow, to destinations that fail, by agents that are ended at any
// moment.
func TestEverythingArrivesInOrder(t *testing.T) {
	for _, as := range []string{ship.Blocks, "json"} {
		t.Run(as, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			d := newReceived(rand.New(rand.NewPCG(seed, 2)))
			a := &agent{t: t, trail: dir, state: t.TempDir(), format: as}
			const streams = 3
			var all []*trailtest.Stream
			var texts [streams][]string
			var seq [streams]uint64
			var sessions [streams]*trailtest.Session
			for round := range 25 {
				if len(all) < streams && round%5 == 0 {
					n := len(all)
					all = append(all, trailtest.NewStream(t, dir, uint32(n)))
					sessions[n] = trailtest.NewSession(trailtest.Epoch+int64(n), uint32(100+n))
				}
				for n, s := range all {
					grow(t, r, s, sessions[n], &seq[n], &texts[n])
				}
				limit := time.Duration(r.IntN(30)) * time.Millisecond
				if round == 24 {
					limit = 0
				}
				if err := a.run(d, limit); err != nil {
					t.Fatal(err)
				}
			}
			for n := range uint32(streams) {
				if as == ship.Blocks {
					inOrder(t, fmt.Sprintf("stream %d", n), blocksOf(t, dir, n), d.blocks[n])
					continue
				}
				var got []string
				for _, line := range d.events[n] {
					_, rest, _ := strings.Cut(line, `"text":"`)
					text, _, _ := strings.Cut(rest, `"`)
					got = append(got, text)
				}
				inOrder(t, fmt.Sprintf("stream %d", n), texts[n], got)
			}
			if as == ship.Blocks {
				files, _ := filepath.Glob(filepath.Join(dir, "*", "*.steno"))
				for _, file := range files {
					later, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*.steno"))
					slices.Sort(later)
					if file != later[len(later)-1] && !slices.Contains(d.finished, file) {
						t.Errorf("%s was not finished", file)
					}
				}
				return
			}
			kept, err := os.ReadFile(filepath.Join(a.state, "ship-s.refused.jsonl"))
			if n := strings.Count(string(kept), "\n"); d.refused > 0 && (err != nil || n != d.refused) {
				t.Errorf("%d were refused, %d are kept: %v", d.refused, n, err)
			}
		})
	}
}

// TestAStreamThatGoesBackIsShippedAgain restores an earlier state of a trail, which then goes on in another way.
func TestAStreamThatGoesBackIsShippedAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 100)
	var seq uint64
	var texts []string
	for range 6 {
		grow(t, r, s, session, &seq, &texts)
	}
	backup := t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		grow(t, r, s, session, &seq, &texts)
	}
	d := newReceived(nil)
	a := &agent{t: t, trail: dir, state: t.TempDir(), format: ship.Blocks}
	if err := a.run(d, 0); err != nil {
		t.Fatal(err)
	}
	inOrder(t, "before", blocksOf(t, dir, 0), d.blocks[0])
	// the slots are what the server had when the backup was made, or, as here, as they are
	if err := os.CopyFS(filepath.Join(backup, "slots"), os.DirFS(filepath.Join(dir, "slots"))); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	d.blocks = map[uint32][]string{}
	if err := a.run(d, 0); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(a.logged, func(s string) bool { return strings.Contains(s, "restore from a backup") }) {
		t.Errorf("nothing was said: %q", a.logged)
	}
	have := blocksOf(t, dir, 0)
	if got := d.blocks[0]; len(got) == 0 || !slices.Equal(got, have[len(have)-len(got):]) {
		t.Errorf("%d blocks arrived after the restore, which are not the last ones of %d", len(got), len(have))
	}
	if d.blocks[0] = nil; a.run(d, 0) != nil || len(d.blocks[0]) > 0 {
		t.Errorf("%d blocks arrived once more", len(d.blocks[0]))
	}
}

// TestAMovedSlotHidesNothing: what somebody has moved the slot past is shipped nevertheless, and said.
func TestAMovedSlotHidesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 100)
	var seq uint64
	var texts []string
	d := newReceived(nil)
	a := &agent{t: t, trail: dir, state: t.TempDir(), format: ship.Blocks}
	for range 4 {
		for range 5 {
			grow(t, r, s, session, &seq, &texts)
		}
		if err := a.run(d, 0); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			grow(t, r, s, session, &seq, &texts)
		}
		to, err := slot.ParseTarget("end", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := slot.Advance(&slot.Options{Name: "ship_s", Trail: []string{dir}, To: to, Force: true,
			Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		a.logged = nil
		if err := a.run(d, 0); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(a.logged, func(s string) bool { return strings.Contains(s, "the slot was moved past") }) {
			t.Errorf("nothing was said: %q", a.logged)
		}
	}
	inOrder(t, "stream 0", blocksOf(t, dir, 0), d.blocks[0])
}

// TestKeysAreNeeded: records of an encrypted segment are not passed over for lack of a key.
func TestKeysAreNeeded(t *testing.T) {
	dir := filepath.Join(trailtest.Golden(t), "encrypted")
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	d := newReceived(nil)
	a := &agent{t: t, trail: copied, state: t.TempDir(), format: "json"}
	if err := a.run(d, time.Second); err != nil {
		t.Fatal(err)
	}
	if got := len(d.events[0]); got != 1 {
		t.Errorf("%d records arrived before the first one that needs a key, not 1", got)
	}
	if !slices.ContainsFunc(a.logged, func(s string) bool { return strings.Contains(s, "which was not given") }) {
		t.Errorf("nothing was said: %q", a.logged)
	}
}

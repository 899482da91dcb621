package verify

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/seal/sealtest"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// runner verifies a trail again and again with a state.
type runner struct {
	testing.TB
	dir, state string
	checks     Checks
	sign       ed25519.PrivateKey
	now        time.Time
	begun      bool
}

func newRunner(t testing.TB, dir string) *runner {
	states := t.TempDir()
	if memory, err := os.MkdirTemp("/dev/shm", "steno-state"); err == nil { // states are synced, which disks may take long for
		states = memory
		t.Cleanup(func() { os.RemoveAll(memory) })
	}
	return &runner{TB: t, dir: dir, state: filepath.Join(states, "state"), now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
}

// attempt is one run, a day after the one before.
func (r *runner) attempt(full time.Duration) (*Report, error) {
	r.now = r.now.AddDate(0, 0, 1)
	o := &Incremental{File: r.state, Sign: r.sign, Limit: full, Now: r.now, Begin: !r.begun}
	report, _, err := o.Run(context.Background(), func() (*trail.Trail, error) { return trail.Open(r.dir) }, r.checks)
	r.begun = r.begun || err == nil
	return report, err
}

func (r *runner) run(full time.Duration) *Report {
	r.Helper()
	report, err := r.attempt(full)
	if err != nil {
		r.Fatal(err)
	}
	return report
}

// step goes on with a full pass by one segment: the time of the run is over long since.
const step = time.Nanosecond

// complete goes on with full passes until one that has begun now is complete.
func (r *runner) complete() *Report {
	r.Helper()
	began := r.now
	for range 60 {
		report := r.run(step)
		if at, err := time.Parse(time.RFC3339, report.State.Full.Began); err == nil && at.After(began) {
			return report
		}
	}
	r.Fatal("the full pass is never complete")
	return nil
}

// full is what a run over everything finds.
func (r *runner) full() *Report {
	r.Helper()
	tr, err := trail.Open(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	report, err := Trail(context.Background(), tr, nil, r.checks)
	if err != nil {
		r.Fatal(err)
	}
	return report
}

// wrongIn is what a report says is wrong, without what only a state can tell.
func wrongIn(dir string, r *Report) (all []string) {
	for _, p := range slices.Concat(r.Problems, r.Unreadable) {
		if strings.Contains(p.What, stateAnchors) || strings.Contains(p.What, "when they were verified") || strings.Contains(p.What, "which earlier runs have verified") {
			continue
		}
		at := int64(-1)
		if p.Offset != nil {
			at = *p.Offset
		}
		// A run that has read an earlier, sealed record of deletions knows more than one over what is left.
		what := unsealedDeletion.ReplaceAllString(p.What, "segments up to $1 are missing, and $2")
		all = append(all, fmt.Sprintf("%s:%d: %s", RelativePath(dir, p.File), at, what))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var unsealedDeletion = regexp.MustCompile(`^segments \d+ to (\d+) are missing, and (the record of their deletion by retention is not sealed)`)

// less is what of a list is not in another one.
func less(a, b []string) (left []string) {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// grown writes the beginning of a trail: so many blocks of each of its streams. A segment is there once its first
// block is.
func (f files) grown(t testing.TB, dir string, upTo map[uint32]int) {
	t.Helper()
	now := files{}
	for stream, segments := range f {
		now[stream] = map[uint64][]byte{}
		left := upTo[stream]
		for _, n := range slices.Sorted(maps.Keys(segments)) {
			at := blocks(segments[n])
			count := min(left, len(at)-1)
			if count == 0 && n > 1 {
				break
			}
			now[stream][n] = segments[n][:at[count]]
			left -= count
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	now.write(t, dir)
}

// tamperSeed is that of the tamper suite.
func tamperSeed(t testing.TB) uint64 {
	seed := uint64(1)
	if n, err := strconv.ParseUint(os.Getenv("STENO_TAMPER_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("STENO_TAMPER_SEED=%d", seed)
	return seed
}

// blocksOf counts the blocks of each stream.
func (f files) blocksOf() map[uint32]int {
	n := map[uint32]int{}
	for stream, segments := range f {
		for _, data := range segments {
			n[stream] += len(blocks(data)) - 1
		}
	}
	return n
}

// TestRunsFindWhatOneRunFinds alters a trail in every way that the tamper suite has, while runs with a state verify
// how it grows. What they find, a run over everything finds, too. When what was altered came after what was read, they
// find all of it at once; else, when a full pass is complete.
func TestRunsFindWhatOneRunFinds(t *testing.T) {
	s := newSuite(t)
	seed := tamperSeed(t)
	for i, one := range bytewise {
		t.Run(one.name, func(t *testing.T) {
			for round := range 3 {
				r := rand.New(rand.NewPCG(seed, uint64(i*100+round)))
				dir := filepath.Join(t.TempDir(), "trail")
				runs := newRunner(t, dir)
				if round != 1 {
					runs.checks.Keys = s.keys
				}
				all := s.original.blocksOf()
				at := map[uint32]int{}
				for range r.IntN(4) {
					for stream, n := range all {
						at[stream] += r.IntN(n + 1 - at[stream])
					}
					s.original.grown(t, dir, at)
					report := runs.run(time.Duration(r.IntN(2)) * step)
					if bad, want := wrongIn(dir, report), wrongIn(dir, runs.full()); !slices.Equal(bad, want) {
						t.Fatalf("seed %d: of what was not altered, is found\n%q, and by a run over everything\n%q", seed, bad, want)
					}
				}
				altered := one.alter(r, s.original.clone())
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				altered.write(t, dir)
				want := wrongIn(dir, runs.full())
				report, err := runs.attempt(0)
				if err != nil {
					if _, refused := err.(*StateError); refused && strings.Contains(err.Error(), "another server") {
						continue
					}
					t.Fatal(err)
				}
				now := wrongIn(dir, report)
				if report.State.NotRead.Segments == 0 && len(less(want, now)) > 0 {
					t.Errorf("seed %d: not found, although all is read: %q", seed, less(want, now))
				}
				if one.found == byItself && report.Whole {
					t.Errorf("seed %d: whole, though %d segments were not read", seed, report.State.NotRead.Segments)
				}
				report = runs.complete()
				if got := wrongIn(dir, report); !slices.Equal(got, want) {
					t.Errorf("seed %d: after a full pass, is found\n%q,\nand by a run over everything\n%q", seed, less(got, want), less(want, got))
				}
				if len(want) > 0 && report.NothingNew {
					t.Errorf("seed %d: nothing new: %v", seed, report.Problems)
				}
			}
		})
	}
}

// writing is a server that writes a trail of two streams, with all that a verification keeps.
type writing struct {
	t       testing.TB
	r       *rand.Rand
	writers []*sealtest.Writer
	open    map[*sealtest.Writer][]*trailtest.Session
	at      int64
	pid     uint32
	since   map[*sealtest.Writer]uint64 // first segment that exists
}

func newWriting(t testing.TB, r *rand.Rand, dir string, key ed25519.PrivateKey) *writing {
	w := &writing{t: t, r: r, at: trailtest.Epoch, pid: 1000, open: map[*sealtest.Writer][]*trailtest.Session{}, since: map[*sealtest.Writer]uint64{}}
	for i := range uint32(2) {
		one := sealtest.NewWriter(t, dir, i, key)
		w.writers, w.since[one] = append(w.writers, one), 1
		one.Restart(w.at)
	}
	return w
}

// grow lets something happen. Wrong says that it may be something that no server does.
func (w *writing) grow(wrong bool) {
	one := w.writers[w.r.IntN(len(w.writers))]
	w.at += int64(w.r.IntN(5)) * 1e6
	client := func() *trailtest.Session {
		if len(w.open[one]) == 0 || w.r.IntN(3) == 0 {
			w.pid++
			kind := trailtest.Fact{Key: format.KeyBackendType, Value: []string{"client backend", "background worker"}[w.r.IntN(2)]}
			w.open[one] = append(w.open[one], trailtest.NewSession(w.at, w.pid, kind))
		}
		return w.open[one][w.r.IntN(len(w.open[one]))]
	}
	record := func(kind format.Kind, s *trailtest.Session) *trailtest.Record {
		return &trailtest.Record{Kind: kind, Session: s, Time: w.at, Text: "x"}
	}
	switch n := w.r.IntN(12); {
	case n < 5:
		b := trailtest.NewBuilder(w.at)
		for range 1 + w.r.IntN(4) {
			b.Add(record(format.KindNote, client()))
		}
		one.PutBlock(b)
	case n == 5 && len(w.open[one]) > 0:
		i := w.r.IntN(len(w.open[one]))
		if s := w.open[one][i]; s.Facts[0].Value == "client backend" {
			b := trailtest.NewBuilder(w.at)
			b.Add(&trailtest.Record{Kind: format.KindDisconnect, Session: s, Time: w.at})
			one.PutBlock(b)
			w.open[one] = slices.Delete(w.open[one], i, i+1)
		}
	case n == 6:
		one.Seal(w.at, "interval", nil)
	case n == 7 || n == 8:
		one.Seal(w.at, "interval", nil)
		one.Rotate(w.at)
	case n == 9 && one.Segment-w.since[one] > 2:
		w.deleteTo(one, w.since[one]+uint64(w.r.IntN(int(one.Segment-w.since[one]-1))))
		if w.r.IntN(2) == 0 {
			one.Seal(w.at, "interval", nil)
		}
	case n == 10:
		one.Restart(w.at)
	case n == 11 && wrong:
		r := record(format.KindNote, client())
		r.Seq = uint64(1 + w.r.IntN(9))
		one.Put(r)
	}
}

// deleteTo deletes the first segments by policy.
func (w *writing) deleteTo(one *sealtest.Writer, n uint64) {
	b := trailtest.NewBuilder(w.at)
	seg := func(n uint64) format.SegmentHeader {
		data, err := os.ReadFile(one.SegmentPath(n))
		if err != nil {
			w.t.Fatal(err)
		}
		h, err := format.ParseSegmentHeader(data)
		if err != nil {
			w.t.Fatal(err)
		}
		return h
	}
	next := seg(n + 1)
	d := trail.Deletion{
		Stream: one.Number, Reason: "age", FirstSegment: w.since[one], LastSegment: n, SinceSegment: 1, FirstBlock: 1, LastBlock: next.FirstBlock - 1,
		LastRecord: next.FirstRecord - 1, Chain: next.PreviousHash,
	}
	b.Add(&trailtest.Record{Kind: format.KindServer, Session: one.Session, Time: w.at, Extra: trailtest.DeletionExtra(&d)})
	one.PutBlock(b)
	for ; w.since[one] <= n; w.since[one]++ {
		if err := os.Remove(one.SegmentPath(w.since[one])); err != nil {
			w.t.Fatal(err)
		}
	}
}

// finished are the segments that no server writes to any more.
func (w *writing) finished() (paths []string) {
	for _, one := range w.writers {
		for n := w.since[one]; n < one.Segment; n++ {
			paths = append(paths, one.SegmentPath(n))
		}
	}
	return paths
}

// TestRandomTrailsAreVerifiedInSteps compares the runs over a trail that grows at random, with what no server writes,
// with runs over all of it, and so it does with one that is altered where it was read before.
func TestRandomTrailsAreVerifiedInSteps(t *testing.T) {
	rounds := 24
	if testing.Short() {
		rounds = 8
	}
	first := tamperSeed(t)
	_, key, err := ed25519.GenerateKey(rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	keys := seal.Keys{seal.KeyID(key.Public().(ed25519.PublicKey)): key.Public().(ed25519.PublicKey)}
	compared, late, restarts := 0, 0, 0
	for i := range rounds {
		r := rand.New(rand.NewPCG(first, uint64(i)))
		dir := t.TempDir()
		w := newWriting(t, r, dir, key)
		runs := newRunner(t, dir)
		if i%3 > 0 {
			runs.checks.Keys = keys
		}
		wrong := i%2 > 0
		for night := range 3 + r.IntN(8) {
			for range r.IntN(60) {
				w.grow(wrong)
			}
			report := runs.run(time.Duration(r.IntN(2)) * step)
			want := runs.full()
			if strings.Contains(fmt.Sprint(report.Warnings), "begins anew") {
				restarts++
			}
			got, all := wrongIn(dir, report), wrongIn(dir, want)
			// What was read before retention deleted it, a run over what is left cannot know.
			lost := less(all, got)
			extra := slices.DeleteFunc(less(got, all), func(s string) bool {
				return w.since[w.writers[0]]+w.since[w.writers[1]] > 2 && strings.Contains(s, "session")
			})
			if len(lost) > 0 && !strings.Contains(fmt.Sprint(lost), "session") || len(extra) > 0 {
				t.Fatalf("seed %d, round %d, night %d: only a run over everything finds\n%s\nand only this one\n%s", first, i, night, strings.Join(lost, "\n"), strings.Join(extra, "\n"))
			}
			if !wrong && slices.ContainsFunc(got, func(s string) bool { return !strings.Contains(s, "is not sealed") }) {
				t.Fatalf("seed %d, round %d: nothing is wrong, but %q", first, i, got)
			}
			if !wrong && w.since[w.writers[0]]+w.since[w.writers[1]] == 2 && (report.OpenSessions != want.OpenSessions || report.Sessions != want.Sessions || !slices.Equal(report.Seals, want.Seals)) {
				t.Fatalf("seed %d, round %d: %d sessions, %d open, seals %+v, instead of %d, %d, %+v", first, i,
					report.Sessions, report.OpenSessions, report.Seals, want.Sessions, want.OpenSessions, want.Seals)
			}
			compared++
		}
		// Something that was read is altered, or removed.
		old := w.finished()
		if len(old) == 0 {
			continue
		}
		path := old[r.IntN(len(old))]
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if removed := r.IntN(3) == 0; removed {
			err = os.Remove(path)
		} else {
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := wrongIn(dir, runs.full())
		if report := runs.run(0); len(less(want, wrongIn(dir, report))) > 0 {
			late++
			if report.Whole {
				t.Errorf("seed %d, round %d: whole", first, i)
			}
		}
		report := runs.complete()
		if got := wrongIn(dir, report); !slices.Equal(got, want) {
			t.Errorf("seed %d, round %d: after a full pass, only it finds\n%s\nand only a run over everything\n%s", first, i, strings.Join(less(got, want), "\n"), strings.Join(less(want, got), "\n"))
		}
	}
	if compared < 3*rounds || late == 0 || restarts == 0 {
		t.Errorf("%d runs were compared; %d alterations were only found by a full pass; %d runs began anew", compared, late, restarts)
	}
}

package ship_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("after a minute, not so: %s", what)
		}
	}
}

// running is an agent that runs in the background.
type running struct {
	mu     sync.Mutex
	logged []string
	reload chan *ship.Config
	agent  *ship.Agent
	stop   func() error
}

func (r *running) said(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.logged, func(s string) bool { return strings.Contains(s, what) })
}

// start runs an agent until the test ends, or stop is called.
func start(t *testing.T, c *ship.Config) *running {
	t.Helper()
	r := &running{reload: make(chan *ship.Config)}
	r.agent = &ship.Agent{Log: func(level ship.Level, sink, message string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.logged = append(r.logged, fmt.Sprintf("%s: %s: %s", level, sink, message))
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.agent.Run(ctx, c, r.reload) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func configure(t *testing.T, d *received, trail, state, sinks string) *ship.Config {
	t.Helper()
	c, err := ship.Parse([]byte(fmt.Sprintf("trail: %s\nstate_directory: %s\nsinks:\n%s", trail, state, sinks)), kindOf(d))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (d *received) count(stream uint32) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.blocks[stream]) + len(d.events[stream])
}

// TestARunningAgentNoticesARestore puts another history of a trail in its place while an agent follows it. The two have
// a beginning in common; files become shorter, longer or other ones, and some are gone.
func TestARunningAgentNoticesARestore(t *testing.T) {
	for _, as := range []string{ship.Blocks, "json"} {
		for round := range 6 {
			t.Run(fmt.Sprintf("%s/%d", as, round), func(t *testing.T) {
				t.Parallel()
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				var dirs [2]string
				var streams [2]*trailtest.Stream
				var texts [2][]string
				var seqs [2]uint64
				session := func() *trailtest.Session { return trailtest.NewSession(trailtest.Epoch, 100) }
				sessions := [2]*trailtest.Session{session(), session()}
				for i := range dirs { // both histories begin in the same way
					dirs[i] = t.TempDir()
					streams[i] = trailtest.NewStream(t, dirs[i], 0)
					r := rand.New(rand.NewPCG(seed, 1))
					for range 6 {
						grow(t, r, streams[i], sessions[i], &seqs[i], &texts[i])
					}
				}
				r := rand.New(rand.NewPCG(seed, 2))
				// the second one is shorter, longer, or as long in the same segment, or anything
				lengths, each := []int{r.IntN(12), 1 + r.IntN(12)}, 5
				if round < 3 {
					lengths, each = [][]int{{12, 1}, {1, 12}, {12, 12}}[round], 0
				}
				for i, n := range lengths {
					seqs[i] += uint64(1000 * i) // so that their texts differ
					for range n {
						growBy(t, r, each, streams[i], sessions[i], &seqs[i], &texts[i])
					}
				}
				dir := t.TempDir()
				put := func(from string) {
					if err := os.RemoveAll(filepath.Join(dir, "0")); err != nil {
						t.Fatal(err)
					}
					if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
						t.Fatal(err)
					}
				}
				put(dirs[0])
				d := newReceived(nil)
				a := start(t, configure(t, d, dir, t.TempDir(), "  s: {to: 'test:x', format: "+as+"}\n"))
				first := len(texts[0])
				if as == ship.Blocks {
					first = len(blocksOf(t, dirs[0], 0))
				}
				eventually(t, "the first history arrives", func() bool { return d.count(0) >= first })
				put(dirs[1])
				sent, arrived := texts[1], func() (got []string) { return textsOf(d, 0) }
				if as == ship.Blocks {
					sent, arrived = blocksOf(t, dirs[1], 0), func() []string {
						d.mu.Lock()
						defer d.mu.Unlock()
						return slices.Clone(d.blocks[0])
					}
				}
				eventually(t, "all of the second history arrives", func() bool {
					got := arrived()
					return !slices.ContainsFunc(sent, func(one string) bool { return !slices.Contains(got, one) })
				})
				if err := a.stop(); err != nil {
					t.Fatal(err)
				}
				inOrder(t, "the second history", sent, slices.DeleteFunc(arrived(), func(one string) bool {
					return !slices.Contains(sent, one)
				}))
			})
		}
	}
}

// textsOf returns the texts of the records that arrived.
func textsOf(d *received, stream uint32) (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, line := range d.events[stream] {
		_, rest, _ := strings.Cut(line, `"text":"`)
		text, _, _ := strings.Cut(rest, `"`)
		all = append(all, text)
	}
	return all
}

// smallTrail writes a trail of one stream, and returns a function that makes it longer.
func smallTrail(t *testing.T) (dir string, more func()) {
	t.Helper()
	dir = t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 100)
	r := rand.New(rand.NewPCG(7, 8))
	var seq uint64
	var texts []string
	more = func() { grow(t, r, s, session, &seq, &texts) }
	more()
	return dir, more
}

// TestReloadChangesWhatHasChanged: sinks that stay go on, others end and begin.
func TestReloadChangesWhatHasChanged(t *testing.T) {
	dir, more := smallTrail(t)
	state := t.TempDir()
	d := newReceived(nil)
	opened := map[string]int{}
	kinds := kindOf(d)
	inner := kinds[0].Open
	var mu sync.Mutex
	kinds[0].Open = func(c *ship.SinkConfig) (ship.Sink, error) {
		mu.Lock()
		defer mu.Unlock()
		opened[c.Name]++
		return inner(c)
	}
	read := func(sinks string) *ship.Config {
		c, err := ship.Parse([]byte(fmt.Sprintf("trail: %s\nstate_directory: %s\nsinks:\n%s", dir, state, sinks)), kinds)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		clear(opened) // reading it opens each sink once, too
		mu.Unlock()
		return c
	}
	names := func(a *running) (all []string) {
		for _, s := range a.agent.Statuses() {
			all = append(all, s.Sink)
		}
		return all
	}
	a := start(t, read("  a: {to: 'test:x'}\n  b: {to: 'test:x'}\n"))
	eventually(t, "both ship", func() bool { return d.count(0) >= 2*len(blocksOf(t, dir, 0)) })
	a.reload <- read("  a: {to: 'test:x'}\n  b: {to: 'test:x', format: json}\n  c: {to: 'test:x'}\n")
	eventually(t, "three sinks", func() bool { return slices.Equal(names(a), []string{"a", "b", "c"}) })
	a.reload <- read("  a: {to: 'test:x'}\n  b: {to: 'test:x', format: json}\n")
	eventually(t, "two sinks", func() bool { return slices.Equal(names(a), []string{"a", "b"}) })
	mu.Lock()
	if len(opened) > 0 {
		t.Errorf("sinks that had not changed were opened again: %v", opened)
	}
	mu.Unlock()
	before := d.count(0)
	more()
	eventually(t, "both go on", func() bool {
		return d.count(0) > before && len(textsOf(d, 0)) > 0
	})
	if err := a.stop(); err != nil {
		t.Error(err)
	}
}

// TestASinkThatCannotBeginIsFailing: it does not vanish from the metrics, and the others go on.
func TestASinkThatCannotBeginIsFailing(t *testing.T) {
	dir, _ := smallTrail(t)
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "ship-bad.json"), []byte("not a state"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newReceived(nil)
	a := start(t, configure(t, d, dir, state, "  bad: {to: 'test:x'}\n  good: {to: 'test:x'}\n"))
	eventually(t, "the other ships", func() bool { return d.count(0) >= len(blocksOf(t, dir, 0)) })
	eventually(t, "it is said", func() bool { return a.said("not the state of steno ship") })
	var out bytes.Buffer
	eventually(t, "the metrics say so", func() bool {
		out.Reset()
		if err := ship.WriteMetrics(&out, a.agent.Statuses(), time.Now()); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(out.String(), `steno_ship_failing{sink="bad",format="blocks"} 1`)
	})
	want := fmt.Sprintf("steno_ship_blocks_total{sink=\"good\",format=\"blocks\"} %d\n", len(blocksOf(t, dir, 0)))
	if !strings.Contains(out.String(), `steno_ship_failing{sink="good",format="blocks"} 0`) ||
		!strings.Contains(out.String(), want) {
		t.Errorf("the metrics lack %s:\n%s", want, &out)
	}
}

// TestAStateThatCannotBeWrittenRepeatsNothing: what was sent is not sent again and again meanwhile.
func TestAStateThatCannotBeWrittenRepeatsNothing(t *testing.T) {
	dir, more := smallTrail(t)
	state := filepath.Join(t.TempDir(), "state")
	d := newReceived(nil)
	a := start(t, configure(t, d, dir, state, "  s: {to: 'test:x', retry: {first: 1ms, most: 2ms}}\n"))
	eventually(t, "the beginning is noted", func() bool {
		_, err := os.Stat(filepath.Join(state, "ship-s.json"))
		return err == nil
	})
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	more()
	eventually(t, "it is said", func() bool { return a.said("what was shipped cannot be noted") })
	more()
	time.Sleep(300 * time.Millisecond) // time for a hundred attempts
	if got, most := d.count(0), len(blocksOf(t, dir, 0)); got > most {
		t.Errorf("%d blocks arrived, of %d", got, most)
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it works again", func() bool { return a.said("can be noted again") })
	eventually(t, "all arrives", func() bool { return d.count(0) >= len(blocksOf(t, dir, 0)) })
	inOrder(t, "stream 0", blocksOf(t, dir, 0), d.blocks[0])
}

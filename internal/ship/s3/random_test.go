package s3_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// randomTrail writes a trail of one to three streams, and damages one of so many blocks.
func randomTrail(t testing.TB, r *rand.Rand, dir string, blocks, damage int) {
	t.Helper()
	key := [32]byte{1, 2, 3}
	var streams []*trailtest.Stream
	for i := range 1 + r.IntN(3) {
		var k *[32]byte
		if r.IntN(3) == 0 {
			k = &key
		}
		streams = append(streams, trailtest.NewEncryptedStream(t, dir, uint32(i), k))
	}
	session := trailtest.NewSession(trailtest.Epoch, 7)
	at := int64(trailtest.Epoch)
	for range blocks {
		s := streams[r.IntN(len(streams))]
		if r.IntN(6) == 0 {
			s.Rotate(t, at)
		}
		b := trailtest.NewBuilder(at)
		for range r.IntN(4) {
			at += 1 + r.Int64N(1000)
			text := make([]byte, r.IntN(3000))
			for i := range text {
				text[i] = byte(' ' + r.IntN(90))
			}
			b.Add(trailtest.Note(session, at, string(text)))
		}
		image := s.Finish(b)
		switch r.IntN(3 * damage) {
		case 0: // its payload is damaged
			image[len(image)-1] ^= 4
		case 1: // its header is damaged
			image[30] ^= 4
		case 2: // bytes that are nothing are before it
			s.Raw(t, []byte(strings.Repeat("x", 1+r.IntN(500))))
		}
		s.Raw(t, image)
	}
	for _, s := range streams { // damage at the end could be an unfinished write
		s.Raw(t, s.Finish(trailtest.NewBuilder(at)))
		s.Raw(t, s.Finish(trailtest.NewBuilder(at)))
	}
}

// grower copies a trail step by step, as a server writes one: each stream from the beginning to the end.
type grower struct {
	to    string
	files map[string][]string // by stream, in order
	texts map[string]string
	done  map[string]int
}

func newGrower(t testing.TB, from, to string) *grower {
	t.Helper()
	g := &grower{to: to, files: map[string][]string{}, texts: files(t, from), done: map[string]int{}}
	for name := range g.texts {
		g.files[filepath.Dir(name)] = append(g.files[filepath.Dir(name)], name)
	}
	for stream := range g.files {
		slices.Sort(g.files[stream])
		if err := os.MkdirAll(filepath.Join(to, stream), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// step appends some bytes to some stream; it returns false if everything is there.
func (g *grower) step(t testing.TB, r *rand.Rand, most int) bool {
	t.Helper()
	var open []string
	for stream, names := range g.files {
		if len(names) > 0 {
			open = append(open, stream)
		}
	}
	if len(open) == 0 {
		return false
	}
	slices.Sort(open)
	stream := open[r.IntN(len(open))]
	name := g.files[stream][0]
	text := g.texts[name][g.done[name]:]
	n := min(len(text), 1+r.IntN(most))
	f, err := os.OpenFile(filepath.Join(g.to, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text[:n])
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if g.done[name] += n; g.done[name] == len(g.texts[name]) {
		g.files[stream] = g.files[stream][1:]
	}
	return true
}

func seed(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("STENO_S3_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("STENO_S3_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func count(name string, n int) int {
	if text := os.Getenv(name); text != "" {
		n, _ = strconv.Atoi(text)
	}
	return n
}

// Random trails, which grow between runs of the agent, come back as they are, also while they grow.
func TestRandomTrailsComeBack(t *testing.T) {
	s := sharedServer(t)
	r := seed(t)
	for i := range count("STENO_S3_TRAILS", 6) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s.t = t
			source, live := t.TempDir(), t.TempDir()
			randomTrail(t, r, source, 10+r.IntN(60), 8)
			g := newGrower(t, source, live)
			a := newAgent(t, s, live)
			to := filepath.Join(t.TempDir(), "fetched")
			for more := true; more; {
				for range 1 + r.IntN(40) {
					if more = g.step(t, r, 4000); !more {
						break
					}
				}
				a.once(t)
				if r.IntN(2) == 0 && len(a.objects(t)) > 0 {
					if _, said := a.fetch(t, to); len(said) > 0 {
						t.Error(said)
					}
					checkPrefix(t, live, to)
				}
			}
			if _, said := a.fetch(t, to); len(said) > 0 {
				t.Error(said)
			}
			if differences := compare(t, source, to); differences != nil {
				t.Error(differences, a.said, a.objects(t))
			}
			if got, want := verify(t, to), verify(t, source); got != want {
				t.Errorf("steno verify says\n%s\nand at the source\n%s", got, want)
			}
		})
	}
}

// checkPrefix fails if a fetched trail has something that the source does not have.
func checkPrefix(t *testing.T, live, fetched string) {
	t.Helper()
	a := files(t, live)
	for name, text := range files(t, fetched) {
		if !strings.HasPrefix(a[name], text) {
			t.Errorf("%s has %d bytes that are not the first ones of the source's %d", name, len(text), len(a[name]))
		}
	}
}

// Agent and service are ended by SIGKILL at random moments while a trail grows. What is in the bucket at the end is the
// trail, byte for byte.
func TestKills(t *testing.T) {
	kills := count("STENO_S3_KILLS", 8)
	s := newServer(t, t.TempDir())
	defer s.Kill()
	r := seed(t)
	source, live := t.TempDir(), t.TempDir()
	randomTrail(t, r, source, 150*kills, 300) // the agent pauses after damage
	g := newGrower(t, source, live)
	a := newAgent(t, s, live)
	config := filepath.Join(t.TempDir(), "ship.yaml")
	if err := os.WriteFile(config, []byte(a.text()), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(args ...string) *exec.Cmd {
		c := exec.Command(os.Args[0], append([]string{"ship", "--config", config}, args...)...)
		c.Env = append(os.Environ(), "STENO_S3_AGENT=1", "TEST_S3_SECRET="+adminSecret)
		log, err := os.OpenFile(filepath.Join(a.state, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	to := filepath.Join(t.TempDir(), "fetched")
	growing := 0 // kills while there was something new
	for i := range kills {
		c := start()
		more := 0
		until := time.Now().Add(time.Duration(300+r.IntN(1200)) * time.Millisecond)
		for time.Now().Before(until) {
			if g.step(t, r, 6000) {
				more = 1
			}
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		}
		if i%8 == 5 {
			s.Kill()
			for range 20 {
				g.step(t, r, 6000)
				time.Sleep(10 * time.Millisecond)
			}
			s.Start()
		}
		_ = c.Process.Kill()
		_ = c.Wait()
		growing += more
		if i%8 == 7 {
			a.fetch(t, to)
			checkPrefix(t, live, to)
		}
	}
	for g.step(t, r, 100_000) {
	}
	if err := start("--once").Wait(); err != nil {
		log, _ := os.ReadFile(filepath.Join(a.state, "log"))
		t.Fatal(err, string(log))
	}
	fetched, said := a.fetch(t, to)
	t.Log(kills, "kills,", growing, "of them while the trail grew;", len(a.objects(t)), "objects;", fetched, said)
	if differences := compare(t, source, to); differences != nil || len(said) > 0 {
		log, _ := os.ReadFile(filepath.Join(a.state, "log"))
		t.Error(differences, said, string(log))
	}
	if got, want := verify(t, to), verify(t, source); got != want {
		t.Errorf("steno verify says\n%s\nand at the source\n%s", got, want)
	}
}

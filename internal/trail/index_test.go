package trail_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// randomSegments writes a stream of many segments, in which clocks go backwards, statements are long, blocks are without
// records and segments without blocks. Headers have what servers before 0.10 wrote if old is set. It returns the starts of
// the server.
func randomSegments(t *testing.T, dir string, rng *rand.Rand, number uint32, old bool) (starts []trail.Server) {
	t.Helper()
	s := trailtest.NewStream(t, dir, number)
	s.NoTimes = old
	session := trailtest.NewSession(trailtest.Epoch, 9)
	seq, at, now := uint64(0), int64(trailtest.Epoch), uint64(0)
	var with []uint64 // segments that have a start
	for segment := range 3 + rng.IntN(20) {
		if segment > 0 {
			if s.LastStart = now; old || rng.IntN(4) == 0 {
				s.LastStart = 0 // it is not known
			} else if rng.IntN(10) == 0 {
				s.LastStart = 1 + uint64(rng.IntN(segment+3)) // nor must a start be there
				if slices.Contains(with, s.LastStart) {
					s.LastStart = 0
				}
			}
			s.Rotate(t, at)
		}
		for range rng.IntN(5) {
			b := trailtest.NewBuilder(at)
			for range rng.IntN(4) {
				seq++
				if at += rng.Int64N(100e6); rng.IntN(30) == 0 && number > 0 {
					at -= 1000e6
				}
				r := &trailtest.Record{Kind: format.KindStatement, Session: session, Seq: seq, Statement: seq, Time: at, Text: fmt.Sprint(seq)}
				if rng.IntN(5) == 0 {
					r.Duration = rng.Uint64N(300e6)
					r.Time -= int64(r.Duration)
				}
				b.Add(r)
			}
			if rng.IntN(8) == 0 && number == 0 {
				at++
				host := fmt.Sprintf("host%d", len(starts))
				starts = append(starts, trail.Server{Since: at, Host: host})
				now = uint64(segment + 1)
				with = append(with, now)
				b.Add(&trailtest.Record{Kind: format.KindServer, Session: session, Time: at, Extra: []string{"event", "start", "host", host}})
			}
			s.Write(t, b)
		}
	}
	return starts
}

// What headers say of the segment before them is what its blocks say, and the records of any time are the same.
func TestHeadersSayWhatBlocksSay(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		for number := range uint32(1 + rng.IntN(3)) {
			randomSegments(t, dir, rng, number, false)
		}
		before := t.TempDir()
		trailtest.WithoutTimes(t, dir, before)
		x, plain := trailtest.Open(t, dir).Index(), trailtest.Open(t, before).Index()
		for i := range plain.Streams {
			for k, want := range plain.Streams[i].Segments {
				got := x.Streams[i].Segments[k]
				if got.Blocks != want.Blocks || got.Records != want.Records || want.Records > 0 && (got.FirstTime != want.FirstTime || got.LastEnd != want.LastEnd) {
					t.Errorf("seed %d: %d blocks, %d records from %d to %d instead of %d, %d from %d to %d", seed,
						got.Blocks, got.Records, got.FirstTime, got.LastEnd, want.Blocks, want.Records, want.FirstTime, want.LastEnd)
				}
			}
		}
		for range 10 {
			since := trailtest.Epoch + rng.Int64N(2000e6)
			until := since + rng.Int64N(500e6)
			n := 1 + rng.IntN(20)
			if got, want := linesBetween(t, x, since, until), linesBetween(t, plain, since, until); !slices.Equal(got, want) {
				t.Errorf("seed %d: from %d to %d: %q instead of %q", seed, since, until, got, want)
			}
			if got, want := lastLines(t, x, n), lastLines(t, plain, n); !slices.Equal(got, want) {
				t.Errorf("seed %d: the last %d: %q instead of %q", seed, n, got, want)
			}
		}
	}
}

func linesBetween(t *testing.T, x *trail.Index, since, until int64) (lines []string) {
	t.Helper()
	opts := trail.MergeOptions{Since: since, Until: until, NewFormatter: func() trail.Formatter { return &texts{} }, Warn: func(err error) { t.Error(err) }}
	if err := x.Merge(context.Background(), opts, func(line []byte) error { lines = append(lines, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	return lines
}

func lastLines(t *testing.T, x *trail.Index, n int) (lines []string) {
	t.Helper()
	opts := trail.MergeOptions{Since: format.MinTime, Until: format.MaxTime, NewFormatter: func() trail.Formatter { return &texts{} }, Warn: func(err error) { t.Error(err) }}
	if err := x.Last(context.Background(), n, opts, func(line []byte) error { lines = append(lines, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	return lines
}

// texts makes lines of statements.
type texts struct{}

func (*texts) Start(*trail.BlockRef)      {}
func (*texts) Keep(r *format.Record) bool { return r.Kind == format.KindStatement }
func (*texts) Append(dst []byte, r *format.Record) []byte {
	return append(append(dst, r.Text...), '\n')
}

// A segment whose blocks were not read for the index is told of, once, if it is damaged and its records are asked for.
func TestDamageInSegmentsIsToldByThoseWhoReadThem(t *testing.T) {
	dir := t.TempDir()
	end := trailtest.Minutes(t, dir, 5, 4, 10)
	path := filepath.Join(dir, "0", "0000000002.steno")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[bytes.LastIndex(data, []byte("SBLK"))+30] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	x := trailtest.Open(t, dir).Index()
	for minutes, want := range map[int64]int{5: 1, 4: 1, 3: 0, 1: 0} {
		var told []string
		opts := trail.MergeOptions{Since: end - minutes*60e6, Until: format.MaxTime, NewFormatter: func() trail.Formatter { return &texts{} }, Warn: func(err error) { told = append(told, err.Error()) }}
		lines := 0
		if err := x.Merge(context.Background(), opts, func([]byte) error { lines++; return nil }); err != nil {
			t.Fatal(err)
		}
		if len(told) != want || want > 0 && !strings.Contains(told[0], "checksum of the block header") || lines != int(minutes)*40-10*want {
			t.Errorf("the last %d minutes: %d lines, %q", minutes, lines, told)
		}
	}
}

// The server that recorded a block is found, whatever headers say of the segment of its start.
func TestServersAreFoundBackwards(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		dir := t.TempDir()
		starts := randomSegments(t, dir, rng, 0, seed%4 == 0)
		x := trailtest.Open(t, dir).Index()
		refs := x.Streams[0].Refs()
		servers := x.Servers()
		rng.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
		for _, ref := range refs[:min(len(refs), 1+rng.IntN(10))] {
			want := []trail.Server{{Since: format.MinTime}}
			for _, one := range starts {
				if one.Since <= ref.FirstTime {
					want[0] = one
				} else if one.Since <= ref.LastEnd {
					want = append(want, one)
				}
			}
			if got := servers.Of(&ref); !slices.Equal(got, want) {
				t.Errorf("seed %d, block %d: %v instead of %v", seed, ref.Number, got, want)
			}
		}
	}
}

// Headers lead to the start of the server: nothing between is read.
func TestStartsAreFoundByHeaders(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 9)
	for segment := range 100 {
		if segment > 0 {
			s.Rotate(t, trailtest.Epoch)
		}
		b := trailtest.NewBuilder(trailtest.Epoch)
		at := trailtest.Epoch + int64(segment)
		if segment == 1 {
			b.Add(&trailtest.Record{Kind: format.KindServer, Session: session, Time: at, Extra: []string{"event", "start", "host", "there"}})
			s.LastStart = 2
		}
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Seq: 1, Statement: 1, Time: at, Text: strings.Repeat("x", 10_000)})
		s.Codec = format.CodecNone
		s.Write(t, b)
	}
	x := trailtest.Open(t, dir).Index()
	refs := x.Streams[0].Refs()
	read := trailtest.BytesRead(t, func() {
		if got := x.Servers().Of(&refs[99]); len(got) != 1 || got[0].Host != "there" {
			t.Errorf("got %v", got)
		}
	})
	if read > 100_000 {
		t.Errorf("%d bytes were read", read)
	}
	if header, err := os.ReadFile(s.SegmentPath(100)); err != nil || binary.LittleEndian.Uint64(header[112:]) != 2 {
		t.Errorf("the header does not say where: %v", err)
	}
}

// Where the clock was set back, the server of a time is that which the trail has last, whatever was asked for before, and
// whether the records of the starts are found or come in while the trail is followed.
func TestClocksThatWereSetBackHaveOneServer(t *testing.T) {
	for followed := range 3 {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		session := trailtest.NewSession(trailtest.Epoch, 9)
		start := func(second int64, host string) {
			at := trailtest.Epoch + second*1e6
			b := trailtest.NewBuilder(at)
			b.Add(&trailtest.Record{Kind: format.KindServer, Session: session, Time: at, Extra: []string{"event", "start", "host", host}})
			s.Write(t, b)
		}
		rest := []func(){
			func() { start(10, "first") },
			func() { s.LastStart = 1; s.Rotate(t, trailtest.Epoch); start(60, "second") },
			func() { start(50, "third"); s.LastStart = 2; s.Rotate(t, trailtest.Epoch) },
		}
		for _, write := range rest[:3-followed] {
			write()
		}
		want := map[int64]string{70: "third", 65: "third", 60: "third", 55: "third", 45: "first", 10: "first", 5: ""}
		for seed := range uint64(20) {
			x := trailtest.Open(t, dir).Index()
			servers := x.Servers()
			if followed > 0 && seed == 0 {
				live := x.Follow(dir)
				defer live.Close()
				for _, write := range rest[3-followed:] {
					write()
				}
				opts := trail.MergeOptions{Since: format.MinTime, Until: format.MaxTime, Servers: servers, Warn: func(err error) { t.Error(err) }}
				if err := live.Poll(context.Background(), &texts{}, opts, func([]byte) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			times := []int64{70, 65, 60, 55, 45, 10, 5}
			rng := rand.New(rand.NewPCG(seed, 3))
			rng.Shuffle(len(times), func(i, j int) { times[i], times[j] = times[j], times[i] })
			for _, second := range times {
				at := trailtest.Epoch + second*1e6
				ref := trail.BlockRef{Segment: x.Streams[0].Stream.Segments[0], FirstTime: at, LastEnd: at}
				if got := servers.Of(&ref); len(got) != 1 || got[0].Host != want[second] {
					t.Errorf("%d followed, seed %d: at %d of %d: %v instead of %q", followed, seed, second, times, got, want[second])
				}
			}
		}
	}
}

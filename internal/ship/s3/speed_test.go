//go:build unix

package s3_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// How long a trail at rest takes to the service, and back. STENO_S3_SPEED names the trail, or is "pgbench" for one that
// is made for it.
func TestSpeed(t *testing.T) {
	trail := os.Getenv("STENO_S3_SPEED")
	if trail == "" {
		t.Skip("it measures: STENO_S3_SPEED names a trail, or is pgbench")
	}
	s := sharedServer(t)
	if trail == "pgbench" {
		trail = t.TempDir()
		segments(t, trail, count("STENO_S3_SEGMENTS", 20), count("STENO_S3_RECORDS", 250_000))
	}
	a := newAgent(t, s, trail)
	begun, used := time.Now(), cpu()
	a.once(t)
	took := time.Since(begun)
	used = cpu() - used
	bytes := 0
	for _, text := range files(t, trail) {
		bytes += len(text)
	}
	begun = time.Now()
	a.fetch(t, filepath.Join(t.TempDir(), "fetched"))
	back := time.Since(begun)
	records := 0
	for line := range strings.Lines(verify(t, trail)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "records" {
			for _, digit := range strings.ReplaceAll(f[1], ",", "") {
				records = 10*records + int(digit-'0')
			}
		}
	}
	t.Logf("%d records, %d bytes, %d objects: there in %v (%.2f million records/s, %.0f MB/s), %v of CPU, back in %v (%.0f MB/s)", records,
		bytes, len(a.objects(t)), took, float64(records)/1e6/took.Seconds(), float64(bytes)/1e6/took.Seconds(), used, back,
		float64(bytes)/1e6/back.Seconds())
}

// cpu returns how long this process has computed.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// segments writes a trail of a stream with so many segments and records in each.
func segments(t testing.TB, dir string, n, records int) {
	t.Helper()
	s := trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 7, trailtest.Fact{Key: format.KeyUser, Value: "postgres"},
		trailtest.Fact{Key: format.KeyDatabase, Value: "bench"})
	shape := &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", QueryID: 0x8765432187654321,
		Params: []format.ParamType{{OID: 23, Repr: format.ReprInt4}}}
	at := int64(trailtest.Epoch)
	b := trailtest.NewBuilder(at)
	for i := range n {
		for range records {
			at += 300 + rand.Int64N(400)
			b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Shape: shape, Rows: 1, Time: at,
				Text: "SELECT abalance FROM pgbench_accounts WHERE aid = $1;", Duration: 20 + rand.Uint64N(60),
				Values: binary.LittleEndian.AppendUint32(nil, rand.Uint32N(1_000_000))})
			if len(b.Payload) > 900_000 {
				s.Write(t, b)
				b = trailtest.NewBuilder(at)
			}
		}
		s.Write(t, b)
		b = trailtest.NewBuilder(at)
		if i < n-1 {
			s.Rotate(t, at)
		}
	}
}

// How long many small parts take back, as a quiet server leaves them.
func TestSpeedOfParts(t *testing.T) {
	n := count("STENO_S3_PARTS", 0)
	if n == 0 {
		t.Skip("it measures: STENO_S3_PARTS says of how many parts")
	}
	s := sharedServer(t)
	t.Setenv("TEST_S3_SECRET", adminSecret)
	a := newAgent(t, s, t.TempDir())
	stream := trailtest.NewStream(t, a.trail, 0)
	for i := range n {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(trailtest.NewSession(trailtest.Epoch, 7), trailtest.Epoch+int64(i), "text"))
		stream.Write(t, b)
	}
	sink, err := openSink(t, lines("access_key: admin", "secret_key: {env: TEST_S3_SECRET}", "to: "+a.to,
		"endpoint: "+s.Endpoint))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for _, b := range blocksOf(t, stream.SegmentPath(1)) {
		if err := sink.(ship.BlockSink).SendBlocks(t.Context(), []ship.Block{b}); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(begun)
	begun = time.Now()
	to := filepath.Join(t.TempDir(), "fetched")
	a.fetch(t, to)
	back := time.Since(begun)
	if differences := compare(t, a.trail, to); differences != nil {
		t.Error(differences)
	}
	begun = time.Now()
	a.fetch(t, to)
	t.Logf("%d parts: there in %v, back in %v, and nothing new in %v", n, took, back, time.Since(begun))
}

// Trails for benchmarks, and a bound on a reader's memory.

package trailtest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// Pgbench writes a trail of about n statements like those of pgbench -S -M
// prepared with that many sessions in each of so many streams.
func Pgbench(t testing.TB, dir string, n, sessions, streams int) {
	t.Helper()
	PgbenchEncrypted(t, dir, n, sessions, streams, nil)
}

// PgbenchEncrypted writes the same trail encrypted with a key, if there is one.
func PgbenchEncrypted(t testing.TB, dir string, n, sessions, streams int, key *[32]byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	shape := &Shape{
		Class: trail.ClassRead, QueryID: 0x8765432187654321, Command: "SELECT",
		Relations: []Relation{{
			Type: trail.RelationTypeTable, Access: trail.AccessSelect, Name: "public.pgbench_accounts",
			Columns: []Column{{trail.AccessSelect, "aid"}, {trail.AccessSelect, "abalance"}},
		}},
		Params: []trail.ParamType{{OID: 23, Repr: trail.ReprInt4}},
	}
	const text = "SELECT abalance FROM pgbench_accounts WHERE aid = $1;"
	type client struct {
		session *Session
		now     int64
	}
	var all []*Stream
	clients := make([][]*client, streams)
	for i := range streams {
		s := NewStream(t, dir, uint32(i))
		if s.Key = key; key != nil {
			s.Rotate(t, Epoch)
		}
		all = append(all, s)
		for j := range sessions {
			pid := uint32(1000 + i*sessions + j)
			s := NewSession(Epoch+int64(j), pid,
				Fact{trail.KeyBackendType, "client backend"}, Fact{trail.KeyUser, "postgres"},
				Fact{trail.KeyDatabase, "bench"}, Fact{trail.KeyApplication, "pgbench"}, Fact{trail.KeyClient, fmt.Sprintf("127.0.0.1:%d", 40000+pid)})
			clients[i] = append(clients[i], &client{s, Epoch + int64(rng.IntN(1000))})
		}
	}
	// A pass of the writer takes what each ring got in 10 ms.
	const pass = 10_000
	now := Epoch
	written := 0
	builders := make([]*Builder, streams)
	for written < n {
		from := now
		now += pass
		for i, s := range all {
			if builders[i] == nil {
				builders[i] = NewBuilder(from)
			}
			b := builders[i]
			for _, c := range clients[i] {
				for c.now < now {
					duration := uint64(20 + rng.IntN(60))
					b.Add(&Record{
						Kind: trail.KindStatement, Session: c.session, Shape: shape, Text: text, Rows: 1,
						Time: c.now, Duration: duration,
						Values: binary.LittleEndian.AppendUint32(nil, uint32(1+rng.IntN(1_000_000))),
					})
					c.now += int64(duration) + int64(300+rng.IntN(400))
					written++
				}
			}
			if len(b.Payload) > 900_000 {
				s.Write(t, b)
				builders[i] = nil
			}
		}
	}
	for i, s := range all {
		if builders[i] != nil {
			s.Write(t, builders[i])
		}
	}
}

// Minutes writes a trail of a stream with so many segments, of a minute each, with as many blocks and records in them, and
// returns when it ends. The first segment has the start of the server, too. Times are regular, and no record lasts longer than a millisecond.
func Minutes(t testing.TB, dir string, segments, blocks, records int) (end int64) {
	t.Helper()
	s := NewStream(t, dir, 0)
	session := NewSession(Epoch, 77, Fact{trail.KeyUser, "alice"}, Fact{trail.KeyDatabase, "shop"})
	shape := &Shape{Class: trail.ClassRead, Command: "SELECT"}
	seq, at := uint64(0), int64(Epoch)
	for i := range segments {
		if i > 0 {
			s.LastStart = 1
			s.Rotate(t, at)
		}
		for k := range blocks {
			b := NewBuilder(at)
			if i+k == 0 {
				b.Add(&Record{Kind: trail.KindServer, Session: NewSession(Epoch, 1), Time: at, Extra: []string{"event", "start", "host", "db1", "cluster_name", "main"}})
			}
			for range records {
				seq++
				b.Add(&Record{
					Kind: trail.KindStatement, Session: session, Seq: seq, Statement: seq, Time: at, Duration: 1000, Shape: shape,
					Text: fmt.Sprintf("SELECT name FROM staff WHERE id = %d", seq),
				})
				at += 60e6 / int64(blocks*records)
			}
			s.Write(t, b)
		}
	}
	return at
}

// Memory fails the test when reading so many bytes of input allocates more than they
// explain: a few of the largest blocks, decompressed, and something for each byte.
func Memory(t testing.TB, input int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if most, got := uint64(64<<20+4000*input), after.TotalAlloc-before.TotalAlloc; got > most {
		t.Fatalf("reading %d bytes allocated %d, more than %d", input, got, most)
	}
}

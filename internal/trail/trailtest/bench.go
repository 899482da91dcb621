// Trails for benchmarks, and a bound on a reader's memory.

package trailtest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
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
		Class: format.ClassRead, QueryID: 0x8765432187654321, Command: "SELECT",
		Relations: []Relation{{
			Type: format.RelationTypeTable, Access: format.AccessSelect, Name: "public.pgbench_accounts",
			Columns: []Column{{format.AccessSelect, "aid"}, {format.AccessSelect, "abalance"}},
		}},
		Params: []format.ParamType{{OID: 23, Repr: format.ReprInt4}},
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
				Fact{format.KeyBackendType, "client backend"}, Fact{format.KeyUser, "postgres"},
				Fact{format.KeyDatabase, "bench"}, Fact{format.KeyApplication, "pgbench"},
				Fact{format.KeyClient, fmt.Sprintf("127.0.0.1:%d", 40000+pid)})
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
						Kind: format.KindStatement, Session: c.session, Shape: shape, Text: text, Rows: 1,
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

// Minutes writes a trail of a stream with so many segments, of a minute each, with as many blocks and records
// in them, and returns when it ends. The first segment has a start of the server, too, and so have those of
// starts, counted from 0. Times are regular, and no record lasts longer than a millisecond.
func Minutes(t testing.TB, dir string, segments, blocks, records int, starts ...int) (end int64) {
	t.Helper()
	s := NewStream(t, dir, 0)
	session := NewSession(Epoch, 77, Fact{format.KeyUser, "alice"}, Fact{format.KeyDatabase, "shop"})
	shape := &Shape{Class: format.ClassRead, Command: "SELECT"}
	seq, at := uint64(0), int64(Epoch)
	for i := range segments {
		if i > 0 {
			s.Rotate(t, at)
		}
		for k := range blocks {
			b := NewBuilder(at)
			if i+k == 0 || k == 0 && slices.Contains(starts, i) {
				s.LastStart = uint64(i + 1)
				b.Add(&Record{
					Kind:    format.KindServer,
					Session: NewSession(at, 1),
					Time:    at,
					Extra:   []string{"event", "start", "host", "db1", "cluster_name", "main"},
				})
			}
			for range records {
				seq++
				b.Add(&Record{
					Kind: format.KindStatement, Session: session, Seq: seq, Statement: seq, Time: at,
					Duration: 1000, Shape: shape,
					Text: fmt.Sprintf("SELECT name FROM staff WHERE id = %d", seq),
				})
				at += 60e6 / int64(blocks*records)
			}
			s.Write(t, b)
		}
	}
	return at
}

// Varied writes a trail of so many short sessions in two streams, in which as much as possible is different:
// users, clients, applications, tables, texts, errors. Each session has a connect record, ten statements and a
// disconnect record; one of a hundred has no end. Readers that keep something of each name or session show it
// by the memory that they take.
func Varied(t testing.TB, dir string, sessions int) {
	t.Helper()
	streams := []*Stream{NewStream(t, dir, 0), NewStream(t, dir, 1)}
	builders := make([]*Builder, len(streams))
	at := int64(Epoch)
	connect := &Shape{Class: format.ClassConnect}
	for n := range sessions {
		i := n % len(streams)
		if builders[i] == nil {
			builders[i] = NewBuilder(at)
		}
		b, seq := builders[i], uint64(0)
		session := NewSession(at, uint32(1000+n%30_000), Fact{format.KeyBackendType, "client backend"},
			Fact{format.KeyUser, fmt.Sprintf("user_%d", n)}, Fact{format.KeyDatabase, fmt.Sprintf("db_%d", n%100)},
			Fact{format.KeyApplication, fmt.Sprintf("application %d", n)},
			Fact{format.KeyClient, fmt.Sprintf("10.%d.%d.%d:%d", n>>16&255, n>>8&255, n&255, 1024+n%60_000)})
		add := func(r Record) {
			seq++
			r.Session, r.Seq, r.Time = session, seq, at
			at += 100
			b.Add(&r)
		}
		add(Record{Kind: format.KindConnect, Shape: connect})
		for k := range 10 {
			shape := &Shape{
				Class: format.ClassRead, Command: "SELECT", QueryID: uint64(n*10 + k + 1),
				Relations: []Relation{{Type: format.RelationTypeTable, Access: format.AccessSelect,
					Name: fmt.Sprintf("schema_%d.table_%d", n%1000, n*10+k)}},
			}
			r := Record{
				Kind:     format.KindStatement,
				Shape:    shape,
				Duration: uint64(50 + k),
				Rows:     1,
				Text:     fmt.Sprintf("SELECT column_%d FROM table_%d WHERE id = %d", k, n*10+k, n),
			}
			if k == 9 {
				r.Outcome, r.SQLState, r.Message = format.OutcomeError, fmt.Sprintf("%05d", n%90_000),
					fmt.Sprintf("error %d", n)
			}
			add(r)
		}
		if n%100 != 0 {
			add(Record{Kind: format.KindDisconnect, Shape: connect, Duration: 2000})
		}
		if len(b.Payload) > 900_000 {
			streams[i].Write(t, b)
			if builders[i] = nil; n%5 == 0 {
				streams[i].Rotate(t, at)
			}
		}
	}
	for i, b := range builders {
		if b != nil {
			streams[i].Write(t, b)
		}
	}
}

// CheckMemory fails the test when reading so many bytes of input allocates more than they
// explain: a few of the largest blocks, decompressed, and something for each byte.
func CheckMemory(t testing.TB, input int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if most, got := uint64(64<<20+4000*input), after.TotalAlloc-before.TotalAlloc; got > most {
		t.Fatalf("reading %d bytes allocated %d, more than %d", input, got, most)
	}
}

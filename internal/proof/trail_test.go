package proof

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

var (
	private = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public  = private.Public().(ed25519.PublicKey)
	trusted = seal.Keys{seal.KeyID(public): public}
)

// writer writes a stream as a server's writer does: with seals and indexes.
type writer struct {
	*trailtest.Stream
	t       testing.TB
	key     ed25519.PrivateKey
	session *trailtest.Session
	segment uint64
	first   uint64 // block of the run
	block   uint64
	record  uint64
	hash    [32]byte
	indexed int // blocks of the segment that an index covers
	hides   string
	old     bool // indexes are those of a server that did not say what records leave out
}

func newWriter(t testing.TB, dir string, number uint32) *writer {
	return &writer{
		Stream: trailtest.NewStream(t, dir, number), t: t, key: private, segment: 1, first: 1,
		session: trailtest.NewSession(trailtest.Epoch, 100+number, trailtest.Fact{Key: trail.KeyBackendType, Value: trail.WriterBackendType}),
	}
}

// put writes a block with records.
func (w *writer) put(records ...*trailtest.Record) {
	b := trailtest.NewBuilder(trailtest.Epoch)
	for _, r := range records {
		b.Add(r)
	}
	w.write(b)
}

func (w *writer) write(b *trailtest.Builder) {
	image := w.Finish(b)
	w.Raw(w.t, image)
	le := binary.LittleEndian
	w.block, w.record = le.Uint64(image[24:]), le.Uint64(image[32:])+uint64(le.Uint32(image[16:]))-1
	copy(w.hash[:], image[72:])
}

// seal seals the last block.
func (w *writer) seal(at int64, reason string, next ed25519.PrivateKey) {
	s := &seal.Seal{
		SystemID: trailtest.SystemID, Stream: w.Number, Segment: w.segment, Block: w.block, Record: w.record, First: w.first,
		Interval: 60, Time: at, Hash: w.hash, Reason: reason, Key: seal.KeyID(w.key.Public().(ed25519.PublicKey)),
	}
	extra := []string{
		"reason", reason, "block", fmt.Sprint(s.Block), "record", fmt.Sprint(s.Record), "hash", fmt.Sprintf("%x", s.Hash),
		"first", fmt.Sprint(s.First), "interval", fmt.Sprint(s.Interval), "key", s.Key,
	}
	if next != nil {
		s.NextKey = next.Public().(ed25519.PublicKey)
		extra = append(extra, "next_key", fmt.Sprintf("%x", []byte(s.NextKey)))
	}
	extra = append(extra, "signature", fmt.Sprintf("%x", ed25519.Sign(w.key, s.Bytes())))
	w.put(&trailtest.Record{Kind: trail.KindSeal, Session: w.session, Time: at, Extra: extra})
	if next != nil {
		w.key = next
	}
}

// index writes an index of the segment's blocks that have none.
func (w *writer) index() {
	opened, err := trail.Open(w.SegmentPath(w.segment))
	if err != nil {
		w.t.Fatal(err)
	}
	refs, errs := opened.Streams[0].Segments[0].Index()
	if len(errs) > 0 {
		w.t.Fatal(errs)
	}
	refs = refs[w.indexed:]
	size := (len(refs) + 7) / 8
	terms := map[trail.Terms]map[string][]byte{}
	var files trail.Files
	defer files.Close()
	for i := range refs {
		var b trail.Block
		if err := files.Read(&refs[i], &b); err != nil {
			w.t.Fatal(err)
		}
		var has trail.BlockContents
		var r trail.Record
		for b.Next(&r) == nil {
			has.Record(&r)
		}
		has.Definitions(&b)
		for list, values := range has.Terms {
			if terms[list] == nil {
				terms[list] = map[string][]byte{}
			}
			for v := range values {
				if w.hides != "" && strings.Contains(v, w.hides) {
					continue
				}
				if terms[list][v] == nil {
					terms[list][v] = make([]byte, size)
				}
				terms[list][v][i/8] |= 1 << (i % 8)
			}
		}
	}
	str := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	body := binary.AppendUvarint(nil, refs[0].Number)
	body = binary.AppendUvarint(binary.AppendUvarint(body, uint64(len(refs))), 1)
	for list := trail.TermsUsers; list <= trail.TermsOmissions; list++ {
		if list == trail.TermsTrigrams || list == trail.TermsOmissions && w.old {
			continue
		}
		one := make([]byte, size) // nothing is omitted
		one = binary.AppendUvarint(one, uint64(len(terms[list])))
		for _, v := range slices.Sorted(maps.Keys(terms[list])) {
			one = append(str(one, v), terms[list][v]...)
		}
		body = str(binary.AppendUvarint(body, uint64(list)), string(one))
	}
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Item(trail.KindDefIndex, body)
	w.write(b)
	w.indexed += len(refs) + 1
}

// rotate ends the segment as a writer does, and begins another.
func (w *writer) rotate(at int64) {
	w.index()
	w.seal(at, seal.ReasonSegment, nil)
	w.Rotate(w.t, at)
	w.segment, w.indexed = w.segment+1, 0
}

// restarts ends the run of the writer as a kill does, and begins another, which seals what it
// finds.
func (w *writer) restarts(minutes float64) {
	w.first = w.block + 1
	w.seal(at(minutes), seal.ReasonStart, nil)
}

// ---- a small trail ----

// at is a time of the small trail: minutes after its beginning.
func at(minutes float64) int64 { return trailtest.Epoch + int64(minutes*60*second) }

func when(minutes float64) string { return render.Time(at(minutes)) }

func client(pid uint32, user string) *trailtest.Session {
	return trailtest.NewSession(trailtest.Epoch, pid, trailtest.Fact{Key: trail.KeyBackendType, Value: "client backend"},
		trailtest.Fact{Key: trail.KeyUser, Value: user}, trailtest.Fact{Key: trail.KeyDatabase, Value: "hr"})
}

func reads(s *trailtest.Session, minutes float64, table string) *trailtest.Record {
	return &trailtest.Record{
		Kind: trail.KindStatement, Session: s, Time: at(minutes), Duration: 1000, Text: "SELECT * FROM " + table,
		Shape: &trailtest.Shape{Class: trail.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Type: trail.RelationTypeTable, Access: trail.AccessSelect, Name: table}}},
	}
}

func (w *writer) starts(minutes float64, settings ...string) *trailtest.Record {
	return &trailtest.Record{
		Kind: trail.KindServer, Session: w.session, Time: at(minutes),
		Extra: append([]string{"event", "start", "version", "15.8", "run", "4711"}, settings...),
	}
}

func (w *writer) event(minutes float64, name string, more ...string) *trailtest.Record {
	return &trailtest.Record{Kind: trail.KindServer, Session: w.session, Time: at(minutes), Extra: append([]string{"event", name}, more...)}
}

// hides is a transaction that wrote, and whose statements were not seen.
func hides(s *trailtest.Session, minutes float64) *trailtest.Record {
	return &trailtest.Record{
		Kind: trail.KindTransaction, Session: s, Seq: 1, Time: at(minutes), Shape: &trailtest.Shape{Class: trail.ClassTransaction},
		Outcome: trail.OutcomeOk, XID: 77, Extra: []string{"unseen", ""},
	}
}

func setting(s *trailtest.Session, minutes float64, name, from, to, source string) *trailtest.Record {
	return &trailtest.Record{
		Kind: trail.KindSetting, Session: s, Time: at(minutes), Shape: &trailtest.Shape{Class: trail.ClassSetting},
		Extra: []string{"name", name, "old", from, "new", to, "source", source},
	}
}

// small writes a trail of an hour and a half: a block and a seal each minute, a segment for
// each ten minutes, and alice, who reads hr.salary in minute 25, and other tables in all
// others. With extra, it has further records in minutes.
type small struct {
	settings []string
	streams  int
	old      bool
	extra    map[int]func(w *writer, alice *trailtest.Session) []*trailtest.Record
	key      *[32]byte
}

func (o small) write(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "trail")
	for number := range max(1, o.streams) {
		w := newWriter(t, dir, uint32(number))
		w.old = o.old
		if o.key != nil {
			w.Key = o.key
			w.Rotate(t, at(0))
			w.segment++
		}
		alice := client(4001+uint32(number), "alice")
		if number == 0 {
			w.put(w.starts(0, o.settings...))
		} else {
			w.put(w.event(0, "restart"))
		}
		w.seal(at(0), seal.ReasonStart, nil)
		for minute := 1; minute < 90; minute++ {
			table := "hr.staff"
			if minute == 25 && number == 0 {
				table = "hr.salary"
			}
			w.put(reads(alice, float64(minute), table))
			if f := o.extra[minute]; f != nil && number == 0 {
				if records := f(w, alice); len(records) > 0 {
					w.put(records...)
				}
			}
			w.seal(at(float64(minute)+0.9), "interval", nil)
			if minute%10 == 9 && o.key == nil {
				w.rotate(at(float64(minute) + 0.95))
			}
		}
		w.seal(at(90), seal.ReasonStop, nil)
	}
	return dir
}

// makeProof makes a proof, and returns its file.
func makeProof(t testing.TB, dir string, q *Question, keys *trail.Keys) (string, error) {
	t.Helper()
	opened, err := trail.OpenEncrypted(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "proof"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.Name(), Make(context.Background(), opened, q, nil, f)
}

func question(t testing.TB, since, until float64, full bool, change func(*query.FilterOptions)) *Question {
	t.Helper()
	o := query.FilterOptions{Since: when(since), Until: when(until)}
	if change != nil {
		change(&o)
	}
	q, err := NewRangeQuestion(o, full, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func ofSalary(o *query.FilterOptions) { o.Objects = []string{"hr.salary"} }

func checked(t testing.TB, path string, checks Checks) *Report {
	t.Helper()
	if checks.Keys == nil {
		checks.Keys = trusted
	}
	r, err := Check(context.Background(), path, checks)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func proved(t testing.TB, dir string, q *Question) *Report {
	t.Helper()
	path, err := makeProof(t, dir, q, nil)
	if err != nil {
		t.Fatal(err)
	}
	return checked(t, path, Checks{})
}

func newSum() hash.Hash { return sha256.New() }

func sha(parts ...[]byte) []byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

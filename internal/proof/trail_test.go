package proof

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"hash"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/seal/sealtest"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

var (
	private = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public  = private.Public().(ed25519.PublicKey)
	trusted = seal.Keys{seal.KeyID(public): public}
)

// writer writes a stream as a server's writer does.
type writer struct{ *sealtest.Writer }

func newWriter(t testing.TB, dir string, number uint32) *writer {
	return &writer{sealtest.NewWriter(t, dir, number, private)}
}

// restarts ends the run of the writer as a kill does, and begins another, which seals what it
// finds.
func (w *writer) restarts(minutes float64) {
	w.Restart(at(minutes))
}

// ---- a small trail ----

// at is a time of the small trail: minutes after its beginning.
func at(minutes float64) int64 { return trailtest.Epoch + int64(minutes*60*second) }

func when(minutes float64) string { return render.Time(at(minutes)) }

func client(pid uint32, user string) *trailtest.Session {
	return trailtest.NewSession(trailtest.Epoch, pid, trailtest.Fact{Key: format.KeyBackendType, Value: "client backend"},
		trailtest.Fact{Key: format.KeyUser, Value: user}, trailtest.Fact{Key: format.KeyDatabase, Value: "hr"})
}

func reads(s *trailtest.Session, minutes float64, table string) *trailtest.Record {
	return &trailtest.Record{
		Kind: format.KindStatement, Session: s, Time: at(minutes), Duration: 1000, Text: "SELECT * FROM " + table,
		Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Type: format.RelationTypeTable, Access: format.AccessSelect, Name: table}}},
	}
}

func (w *writer) starts(minutes float64, settings ...string) *trailtest.Record {
	return &trailtest.Record{
		Kind: format.KindServer, Session: w.Session, Time: at(minutes),
		Extra: append([]string{"event", "start", "version", "15.8", "run", "4711"}, settings...),
	}
}

func (w *writer) event(minutes float64, name string, more ...string) *trailtest.Record {
	return &trailtest.Record{Kind: format.KindServer, Session: w.Session, Time: at(minutes), Extra: append([]string{"event", name}, more...)}
}

// hides is a transaction that wrote, and whose statements were not seen.
func hides(s *trailtest.Session, minutes float64) *trailtest.Record {
	return &trailtest.Record{
		Kind: format.KindTransaction, Session: s, Seq: 1, Time: at(minutes), Shape: &trailtest.Shape{Class: format.ClassTransaction},
		Outcome: format.OutcomeOk, XID: 77, Extra: []string{"unseen", ""},
	}
}

func setting(s *trailtest.Session, minutes float64, name, from, to, source string) *trailtest.Record {
	return &trailtest.Record{
		Kind: format.KindSetting, Session: s, Time: at(minutes), Shape: &trailtest.Shape{Class: format.ClassSetting},
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
		w.Old = o.old
		if o.key != nil {
			w.Stream.Key = o.key
			w.Stream.Rotate(t, at(0))
			w.Segment++
		}
		alice := client(4001+uint32(number), "alice")
		if number == 0 {
			w.Put(w.starts(0, o.settings...))
		} else {
			w.Put(w.event(0, "restart"))
		}
		w.Seal(at(0), seal.ReasonStart, nil)
		for minute := 1; minute < 90; minute++ {
			table := "hr.staff"
			if minute == 25 && number == 0 {
				table = "hr.salary"
			}
			w.Put(reads(alice, float64(minute), table))
			if f := o.extra[minute]; f != nil && number == 0 {
				if records := f(w, alice); len(records) > 0 {
					w.Put(records...)
				}
			}
			w.Seal(at(float64(minute)+0.9), "interval", nil)
			if minute%10 == 9 && o.key == nil {
				w.Rotate(at(float64(minute) + 0.95))
			}
		}
		w.Seal(at(90), seal.ReasonStop, nil)
	}
	return dir
}

// makeProof makes a proof, and returns its file.
func makeProof(t testing.TB, dir string, q *Question, keys *format.Keys) (string, error) {
	t.Helper()
	return makeProofAs(t, dir, q, func() (*evaluator, error) { return newEvaluator(q) }, keys)
}

// makeProofAs makes it by what of the question a maker asks.
func makeProofAs(t testing.TB, dir string, q *Question, asks func() (*evaluator, error), keys *format.Keys) (string, error) {
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
	return f.Name(), makeAs(context.Background(), opened, q, asks, nil, f)
}

func question(t testing.TB, since, until float64, full bool, change func(*query.Criteria)) *Question {
	t.Helper()
	var o query.Criteria
	if change != nil {
		change(&o)
	}
	q, err := NewRangeQuestion(o, query.Range{Since: at(since), Until: at(until)}, full)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func patterns(texts ...string) []*regexp.Regexp { return trailtest.Values(regexp.Compile, texts...) }
func sessions(texts ...string) []format.SessionID {
	return trailtest.Values(query.ParseSession, texts...)
}
func least(text string) *time.Duration { return &trailtest.Values(query.ParseDuration, text)[0] }

func ofSalary(o *query.Criteria) { o.Objects = []string{"hr.salary"} }

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

// withoutFirstSegment deletes the first segment of a stream, as retention does.
func withoutFirstSegment(t testing.TB, dir string, stream int) string {
	t.Helper()
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(opened.Streams[stream].Segments[0].Path); err != nil {
		t.Fatal(err)
	}
	return dir
}

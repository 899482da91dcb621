package top

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/ring"
	"github.com/pg-steno/pg_steno/internal/ring/ringtest"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// TestCountsAreBounded counts 100,000 tables, of which one has a tenth of the statements: it is
// found, nothing is counted twice, and few names are kept.
func TestCountsAreBounded(t *testing.T) {
	s := NewStats(5*second, 12, 120)
	s.EndWindow(noon)
	session := &format.Session{Start: noon - 10*second, PID: 1}
	const n = 200_000
	for i := range n {
		name := fmt.Sprintf("public.t%d", i%100_000)
		if i%10 == 0 {
			name = "public.hot"
		}
		shape := &format.Shape{Class: format.ClassRead, Relations: []format.Relation{{Name: []byte(name)}, {Name: []byte("also." + name)}, {Name: []byte(name)}}}
		s.Add(&format.Record{Kind: format.KindStatement, Session: session, Shape: shape, SessionIndex: 0, ShapeIndex: i % 5000, Time: noon})
		if i%5000 == 4999 {
			s.Block()
		}
	}
	rows, other := s.Rows(ByTable)
	sum, hot := other.Statements, uint64(0)
	for _, r := range rows {
		sum += r.Statements
		if r.Name == "public.hot" {
			hot = r.Statements
		}
	}
	if sum != 2*n {
		t.Errorf("%d statements are counted by table, want %d", sum, 2*n)
	}
	if hot < n/20 || hot > n/10 {
		t.Errorf("%d of %d statements of the table with most", hot, n/10)
	}
	if len(rows) > maxGroup {
		t.Errorf("%d names are kept", len(rows))
	}
	if total := s.Total(); total.Statements != n {
		t.Errorf("total is %d, want %d", total.Statements, n)
	}
}

// TestWindowMoves forgets what has left the window, and then the history.
func TestWindowMoves(t *testing.T) {
	s := NewStats(5*second, 12, 120)
	s.EndWindow(noon)
	r := &format.Record{Kind: format.KindStatement, Session: &format.Session{}, Time: noon - second, Fields: format.FieldDuration, Duration: uint64(second) / 2}
	s.Add(r)
	for _, c := range []struct{ later, window, slow, slots int64 }{{0, 1, 1, 1}, {55, 1, 1, 1}, {66, 0, 0, 1}, {700, 0, 0, 0}} {
		s.EndWindow(noon + c.later*second)
		rows, _ := s.Rows(ByUser)
		if n := s.Total().Statements; n != uint64(c.window) || len(rows) != int(c.window) || len(s.Slowest()) != int(c.slow) || len(s.totals) != int(c.slots) {
			t.Errorf("%d s later: %d statements, rows %v, slowest %v, %d slots", c.later, n, rows, s.Slowest(), len(s.totals))
		}
	}
}

// server is a trail that is written by a test, two statements a second.
type server struct {
	t       *testing.T
	dir     string
	stream  *trailtest.Stream
	session map[string]*trailtest.Session
	now     int64
}

func newServer(t *testing.T) *server {
	s := &server{t: t, dir: t.TempDir(), session: map[string]*trailtest.Session{}, now: trailtest.Epoch}
	s.stream = trailtest.NewStream(t, s.dir, 0)
	for i, user := range []string{"alice", "bob"} {
		s.session[user] = trailtest.NewSession(trailtest.Epoch, uint32(i+1),
			trailtest.Fact{Key: format.KeyUser, Value: user}, trailtest.Fact{Key: format.KeyDatabase, Value: "shop"}, trailtest.Fact{Key: format.KeyClient, Value: "[::1]:4000"})
	}
	return s
}

// write adds a block with a statement of each user for each of so many seconds. Bob's fail.
func (s *server) write(seconds int) {
	b := trailtest.NewBuilder(s.now)
	for range seconds {
		s.now += second
		b.Add(&trailtest.Record{
			Kind: format.KindStatement, Session: s.session["alice"], Text: "SELECT 1", Time: s.now, Duration: 2000, Rows: 3,
			Fields: format.FieldText | format.FieldDuration | format.FieldRows, Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Name: "public.a"}}},
		})
		b.Add(&trailtest.Record{
			Kind: format.KindStatement, Session: s.session["bob"], Text: "SELECT nothing", Time: s.now, Outcome: format.OutcomeError, SQLState: "42703", Message: "no such column",
			Fields: format.FieldText, Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Name: "public.b"}}},
		})
	}
	s.stream.Write(s.t, b)
}

// reader reads it.
func (s *server) reader(filter query.Criteria) *Reader {
	return NewReader(context.Background(), Options{
		Open: func() (*trail.Trail, error) { return trail.Open(s.dir) }, Filter: filter.Filter(), Parts: len(filter.Grep) > 0, Zone: time.UTC,
		Rings: []string{s.t.TempDir()}, Now: func() time.Time { return Clock(s.now) },
	})
}

// ask asks until all has been read.
func (s *server) ask(r *Reader, q Question) *Snapshot {
	s.t.Helper()
	q.Window = time.Minute
	for {
		snapshot, err := r.Ask(q)
		if err != nil {
			s.t.Fatal(err)
		}
		if !snapshot.Pending {
			return snapshot
		}
	}
}

// TestLiveTrailIsCounted counts what was there at the start and what is written later, across
// segments, once.
func TestLiveTrailIsCounted(t *testing.T) {
	s := newServer(t)
	s.write(300)
	r := s.reader(query.Criteria{})
	window := func(n Snapshot) uint64 { // seconds since the first slot
		return uint64((s.now-n.From)/second + 1)
	}
	for round := range 5 {
		got := s.ask(r, Question{})
		if want := 2 * window(*got); got.Total.Statements != want || got.Total.Failures != want/2 || got.Total.Rows != 3*want/2 {
			t.Fatalf("round %d: %+v, want %d statements", round, got.Total, want)
		}
		if got.Total.Timed == 0 || got.Total.Busy != got.Total.Timed*2000 || got.Covered != got.To-got.From || got.Newest != s.now+2000 {
			t.Errorf("round %d: %+v", round, got)
		}
		if last := got.Spark[len(got.Spark)-2]; last.Statements != 10 || !last.Known || !last.InWindow || got.Last.Statements != 10 {
			t.Errorf("round %d: the last slots are %+v, %+v", round, last, got.Last)
		}
		if first := got.Spark[len(got.Spark)-60]; first.Statements != 10 && round == 0 {
			t.Errorf("what was before the window is %+v", first)
		}
		s.write(7)
		s.stream.Rotate(t, s.now)
		s.write(4)
	}
	got := s.ask(r, Question{Still: true})
	if again := s.ask(r, Question{By: ByTable}); again.Total.Statements == got.Total.Statements {
		t.Error("a still question read what was new, or the next one did not")
	}
	if len(r.problems.texts) > 0 || got.NoRings == "" {
		t.Errorf("problems %v, rings %q", r.problems.texts, got.NoRings)
	}
}

// TestRowsOfEachDimension groups the same statements by all dimensions.
func TestRowsOfEachDimension(t *testing.T) {
	s := newServer(t)
	s.write(100)
	r := s.reader(query.Criteria{})
	for d, want := range map[Dimension][]string{
		ByUser: {"alice", "bob"}, ByDatabase: {"shop"}, ByApplication: {""}, ByClient: {"::1"}, ByClass: {"read"}, ByTable: {"public.a", "public.b"},
		BySession: {format.SessionID{Start: trailtest.Epoch, PID: 1}.String(), format.SessionID{Start: trailtest.Epoch, PID: 2}.String()}, ByError: {"42703"},
	} {
		got := s.ask(r, Question{By: d})
		var names []string
		for _, row := range got.Rows {
			names = append(names, row.Name)
			lines, err := r.Records(Selection{From: got.From, To: got.To, By: d, Name: row.Name})
			if err != nil || uint64(len(lines)) != row.Statements {
				t.Errorf("%s %q: %d records, %v, want %d", d, row.Name, len(lines), err, row.Statements)
			}
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("by %s: %q, want %q", d, names, want)
		}
	}
}

// TestPastIsCounted asks for moments of a trail of many segments; only few of them are read.
func TestPastIsCounted(t *testing.T) {
	s := newServer(t)
	const hours = 24
	for range hours {
		for range 60 {
			s.write(60)
		}
		s.stream.Rotate(t, s.now)
	}
	r := s.reader(query.Criteria{})
	for _, hour := range []int64{0, 1, 12, hours - 1} {
		at := trailtest.Epoch + (hour*3600+1800)*second
		got := s.ask(r, Question{At: at})
		if got.Total.Statements != 120 || got.Total.Failures != 60 || got.To-got.From != 60*second || at < got.From || at >= got.To {
			t.Errorf("hour %d: %+v from %d to %d", hour, got.Total, got.From, got.To)
		}
		if x, _, err := r.index(got.From, got.To); err != nil || len(x.Streams[0].Segments) > 4 {
			t.Errorf("hour %d: %d segments were indexed, %v", hour, len(x.Streams[0].Segments), err)
		}
	}
	if got := s.ask(r, Question{At: trailtest.Epoch - 1000*second}); got.Total != (Count{}) || got.Newest < s.now {
		t.Errorf("before the trail: %+v, the newest is %d", got.Total, got.Newest)
	}
}

// TestBusyTimeIsReadInPieces estimates what a piece has: behind an idle day there may be millions.
func TestBusyTimeIsReadInPieces(t *testing.T) {
	s := newServer(t)
	for range 10 {
		s.write(1000)
	}
	s.stream.Rotate(t, s.now)
	busy := s.now
	s.now += 86_400 * second
	s.write(10)
	r := s.reader(query.Criteria{})
	x, _, err := r.index(trailtest.Epoch, s.now)
	if err != nil {
		t.Fatal(err)
	}
	p := &pastReader{index: x}
	for _, c := range []struct {
		from, to  int64
		low, high float64
	}{{busy + 3600*second, busy + 7200*second, 0, 0}, {busy - 1000*second, busy + 7200*second, 1990, 2010}, {0, s.now + 1e9, 20_019, 20_021}} {
		if n := p.records(c.from, c.to); n < c.low || n > c.high {
			t.Errorf("from %d to %d: %f records", c.from, c.to, n)
		}
	}
}

// TestFiltersHold counts only what the filter chooses, also by text.
func TestFiltersHold(t *testing.T) {
	s := newServer(t)
	s.write(60)
	for _, f := range []query.Criteria{{Users: []string{"bob"}}, {Failed: true}, {Grep: []*regexp.Regexp{regexp.MustCompile("noth")}}, {Objects: []string{"b"}}} {
		got := s.ask(s.reader(f), Question{})
		if got.Total.Statements != 60 || got.Total.Failures != 60 || len(got.Rows) != 1 || got.Rows[0].Name != "bob" {
			t.Errorf("%+v: %+v, rows %v", f, got.Total, got.Rows)
		}
	}
}

// TestFiltersHoldForWhatRuns shows of the rings only what the filter chooses; their fill is that of all.
func TestFiltersHoldForWhatRuns(t *testing.T) {
	const now = trailtest.Epoch + 10_000_000
	session := func(pid uint32, user string) []byte {
		return append(append(write.SessionBody(trailtest.Epoch, pid, "client backend"), byte(format.KeyUser), byte(len(user))), user...)
	}
	shape := []byte("\x01\x00\x06SELECT\x00\x00")
	lives := []*ring.Live{
		{Owner: 1, Head: 10, Session: session(1, "alice"), Running: &ring.Running{Time: now - 5_000_000, Text: []byte("SELECT 'Salary'"), Shape: shape}},
		{Owner: 2, Head: 10, Session: session(2, "bob"), Running: &ring.Running{Time: now - 1000, Text: []byte("SELECT 1"), Shape: shape}},
		{Owner: 3, Head: 10, Session: session(4, "alice"), Running: &ring.Running{Time: now, Text: []byte("VACUUM")}}, // whose it is, is not known
		{Owner: 5, Head: 10, Session: session(5, "alice")},
	}
	slow := time.Second
	for _, c := range []struct {
		filter query.Criteria
		pids   []uint32
	}{
		{query.Criteria{}, []uint32{1, 2, 3}},
		{query.Criteria{Users: []string{"alice"}}, []uint32{1}},
		{query.Criteria{Not: &query.Criteria{Users: []string{"alice"}}}, []uint32{2, 3}},
		{query.Criteria{Grep: []*regexp.Regexp{regexp.MustCompile("(?i)salary")}}, []uint32{1}},
		{query.Criteria{MinDuration: &slow}, []uint32{1}},
		{query.Criteria{Commands: []string{"SELECT"}}, []uint32{1, 2}},
		{query.Criteria{Kinds: []format.Kind{format.KindStatement}}, []uint32{1, 2, 3}},
		{query.Criteria{Failed: true}, nil},
	} {
		f := c.filter.Filter()
		matcher := query.Matcher{Filter: f}
		var got Rings
		for _, l := range lives {
			got.add(l, 1000, now, &matcher)
		}
		var pids []uint32
		for _, r := range got.Running {
			pids = append(pids, r.PID)
		}
		if !slices.Equal(pids, c.pids) || got.AllRunning != len(pids) || got.Sessions != 4 || got.Used != 40 {
			t.Errorf("%+v: %d, want %d; %+v", c.filter, pids, c.pids, got)
		}
	}
}

// TestStatementThatBeganLongAgoIsCounted counts a statement when it ends, also one that began
// before the window: the slowest of all.
func TestStatementThatBeganLongAgoIsCounted(t *testing.T) {
	for _, early := range []bool{true, false} {
		s := newServer(t)
		s.write(10)
		r := s.reader(query.Criteria{})
		begun := s.now
		for range 60 {
			s.write(60)
		}
		if !early {
			s.ask(r, Question{})
		}
		b := trailtest.NewBuilder(s.now)
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: s.session["alice"], Text: "SELECT slow()", Time: begun, Duration: uint64(s.now - begun), Fields: format.FieldText | format.FieldDuration})
		s.stream.Write(t, b)
		got := s.ask(r, Question{})
		if len(got.Slowest) == 0 || got.Slowest[0].Text != "SELECT slow()" {
			t.Fatalf("before the start %v: the slowest are %+v", early, got.Slowest)
		}
		one := got.Slowest[0]
		fields, err := r.Fields(one.Session, one.Seq, one.Start+int64(one.Duration))
		if err != nil || !slices.Contains(fields, Field{"text", "SELECT slow()"}) {
			t.Errorf("its fields are %v, %v", fields, err)
		}
	}
}

// TestTrailThatGoesIsMissed says so, and goes on when it is there again.
func TestTrailThatGoesIsMissed(t *testing.T) {
	s := newServer(t)
	s.write(10)
	r := s.reader(query.Criteria{})
	before := s.ask(r, Question{})
	if err := os.Rename(s.dir, s.dir+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Ask(Question{Window: time.Minute}); err == nil || !strings.Contains(err.Error(), s.dir) {
		t.Errorf("without the trail: %v", err)
	}
	if err := os.Rename(s.dir+".away", s.dir); err != nil {
		t.Fatal(err)
	}
	if after := s.ask(r, Question{}); after.Total != before.Total {
		t.Errorf("%+v, before %+v", after.Total, before.Total)
	}
}

// TestRingsOfOthersAreNotRead: those of another cluster, of a server that has ended, what others could have written,
// what is no ring file, and a folder that is not there.
func TestRingsOfOthersAreNotRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("servers with pg_steno run only on Linux")
	}
	s := newServer(t)
	s.write(1)
	const name = "pg_steno.0123456789abcdef.0123456789abcdef"
	const mine = trailtest.SystemID
	for what, c := range map[string]struct {
		make func(dir string)
		why  string
	}{
		"another cluster": {func(dir string) {
			(&ringtest.File{SystemID: mine + 1, Postmaster: uint32(os.Getpid()), Rings: make([]ringtest.Ring, 1)}).Write(t, dir+"/"+name)
		}, "no rings in "},
		"a server that has ended": {func(dir string) {
			(&ringtest.File{SystemID: mine, Postmaster: uint32(os.Getpid()), Rings: make([]ringtest.Ring, 1)}).Write(t, dir+"/"+name)
		}, "no rings in "},
		"writable by others": {func(dir string) {
			(&ringtest.File{SystemID: mine, Rings: make([]ringtest.Ring, 1)}).Write(t, dir+"/"+name)
			_ = os.Chmod(dir+"/"+name, 0o666)
		}, "rings cannot be read: "},
		"no ring file": {func(dir string) { _ = os.WriteFile(dir+"/"+name, make([]byte, 8192), 0o600) }, "rings cannot be read: "},
		"a folder":     {func(dir string) { _ = os.Mkdir(dir+"/"+name, 0o700) }, "no rings in "},
		"no folder":    {func(dir string) { _ = os.Remove(dir) }, "no rings in "},
	} {
		dir := t.TempDir()
		c.make(dir)
		r := s.reader(query.Criteria{})
		r.Options.Rings = []string{dir}
		got := s.ask(r, Question{})
		if got.Rings != nil || !strings.HasPrefix(got.NoRings, c.why) {
			t.Errorf("%s: %+v, %q", what, got.Rings, got.NoRings)
		}
	}
}

// TestDamageIsNamed shows the rest, and names what is damaged.
func TestDamageIsNamed(t *testing.T) {
	s := newServer(t)
	for range 4 {
		s.write(10)
	}
	path := s.stream.SegmentPath(1)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := s.reader(query.Criteria{})
	got := s.ask(r, Question{})
	texts, damaged, _ := r.Problems()
	if got.Total.Statements == 0 || got.Total.Statements >= 80 || !damaged || len(texts) != 1 || !strings.Contains(texts[0], path) || got.NoProblems != 1 {
		t.Errorf("%d statements, %v, %v", got.Total.Statements, damaged, texts)
	}
}

// TestHeadersOfAnyTimesTakeNoLonger: the headers of blocks say that there are many records, and have any times.
func TestHeadersOfAnyTimesTakeNoLonger(t *testing.T) {
	p := &pastReader{index: &trail.Index{Streams: []trail.StreamIndex{{}}}}
	estimate := func(records uint64, size, first, end int64) float64 {
		p.index.Streams[0].Segments = []trail.SegmentIndex{{Segment: &trail.Segment{Size: size}, Records: records, FirstTime: first, LastEnd: end}}
		return p.records(noon, noon+second)
	}
	for _, c := range []struct {
		records          uint64
		size, first, end int64
		least, most      float64
	}{
		{1000, 1000, noon, noon + 2*second, 490, 510},
		{1000, 1000, noon, noon, 1000, 1000},
		{1000, 1000, noon - second, noon - 1, 0, 0},
		{1000, 1000, noon + second, noon + 2*second, 0, 0},
		{1000, 1000, math.MinInt64, math.MaxInt64, 0, 1},
		{1000, 1000, noon, math.MaxInt64, 0, 1},
		{1000, 1000, math.MaxInt64, math.MinInt64, 0, 0},
		{1000, 1000, noon + 10, noon, 0, 1000},
		{1<<32 - 1, 240, noon, noon, 0, 240 * 255},
	} {
		if n := estimate(c.records, c.size, c.first, c.end); !(c.least <= n && n <= c.most) {
			t.Errorf("%+v: %f records", c, n)
		}
	}
}

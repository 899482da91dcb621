// What headers of segments say of the segment before them lets readers leave segments unread; it changes no answer.

package query

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// segmentsTrail writes a trail of many small segments: clocks are set back, statements are long, parts of big records and
// ends of transactions are in other segments than what they belong to, blocks and segments are empty. It returns when it ends.
func segmentsTrail(t *testing.T, r *rand.Rand, dir string, keys [][format.KeySize]byte) (end int64) {
	end = trailtest.Epoch
	for number := range uint32(1 + r.IntN(3)) {
		s := trailtest.NewStream(t, dir, number)
		at := trailtest.Epoch + r.Int64N(60e6)
		writer := trailtest.NewSession(trailtest.Epoch-1, 100+number, trailtest.Fact{Key: format.KeyBackendType, Value: format.WriterBackendType})
		sessions := []*trailtest.Session{}
		last := map[*trailtest.Session]uint64{}
		big := map[*trailtest.Session]int{} // bytes in data parts of the record to come
		for i := range 3 {
			sessions = append(sessions, randomSession(r, 4000+100*number+uint32(i)))
		}
		for segment := range 1 + r.IntN(8) {
			if segment > 0 {
				if s.Key = nil; len(keys) > 0 && !oneIn(r, 4) {
					s.Key = &keys[r.IntN(len(keys))]
				}
				s.Rotate(t, at)
			}
			for range r.IntN(5) {
				b := trailtest.NewBuilder(at)
				if number == 0 && oneIn(r, 8) {
					at++
					b.Add(&trailtest.Record{Kind: format.KindServer, Session: writer, Time: at, Extra: []string{"event", "start", "host", fmt.Sprint("host", at%7)}})
					s.LastStart = uint64(segment + 1)
				}
				for range r.IntN(5) {
					session := pick(r, sessions)
					if at += r.Int64N(60e6); oneIn(r, 25) {
						at -= r.Int64N(900e6)
					}
					if big[session] > 0 && oneIn(r, 2) || big[session] == 0 && oneIn(r, 6) {
						b.Data(session, last[session]+1, format.PartText, "SELECT 4711 -- ")
						big[session] += len("SELECT 4711 -- ")
						continue
					}
					record := randomRecord(r, session, at)
					last[session]++
					record.Seq = last[session]
					if n := big[session]; n > 0 {
						record = &trailtest.Record{Kind: format.KindStatement, Session: session, Seq: last[session], Time: at, Duration: 7, Text: "end", Shape: randomShape(r), Parts: [3]uint64{uint64(n), 0, 0}}
						delete(big, session)
					}
					if oneIn(r, 6) {
						record.Duration = r.Uint64N(600e6)
						record.Time -= int64(record.Duration)
					}
					b.Add(record)
				}
				s.Write(t, b)
			}
		}
		end = max(end, at)
	}
	return end
}

// harm damages a segment of a trail, or removes it.
func harm(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	segments, _ := filepath.Glob(filepath.Join(dir, "*", "*.steno"))
	if len(segments) < 2 {
		return
	}
	path := pick(r, segments)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	switch r.IntN(6) {
	case 0:
		err = os.Remove(path)
	case 1:
		err = os.WriteFile(path, data[:r.IntN(len(data))], 0o600)
	case 2:
		clear(data[len(data)-r.IntN(len(data)):])
		err = os.WriteFile(path, data, 0o600)
	case 3: // another segment, in its place
		other := pick(r, segments)
		var its []byte
		if its, err = os.ReadFile(other); err == nil {
			err = os.WriteFile(path, its, 0o600)
		}
	default:
		data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rangesOf are the times of the records in the segments of a trail, by their paths. Of one that is encrypted with a key that
// is not given, nothing is shown, whatever else is wrong with it.
func rangesOf(t *testing.T, dir string, given [][format.KeySize]byte) map[string]format.TimeRange {
	t.Helper()
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]format.TimeRange{}
	for _, s := range opened.Streams {
		for _, seg := range s.Segments {
			times := format.NoTimes()
			refs, _ := seg.Index()
			for _, ref := range refs {
				times.Add(&format.BlockHeader{Records: ref.Records, FirstTime: ref.FirstTime, LastEnd: ref.LastEnd})
			}
			if h := seg.Header; h.Encrypted && !slices.ContainsFunc(given, func(key [format.KeySize]byte) bool { return format.IDOf(key) == h.KeyID }) {
				times = format.NoTimes()
			}
			all[seg.Path] = times
		}
	}
	return all
}

// TestHeadersChangeNoAnswer has commands read trails at random, and the same trails without the times in their headers.
// Only damage of segments that have nothing of the times that were asked for need not be told of.
//
// STENO_HEADERS is the number of trails, STENO_SEED that of the first one.
func TestHeadersChangeNoAnswer(t *testing.T) {
	seed := uint64(fromEnvironment(t, "STENO_SEED", 1))
	untold := 0
	for range fromEnvironment(t, "STENO_HEADERS", 12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { untold += compareHeaders(t, rand.New(rand.NewPCG(seed, 96))) })
		seed++
	}
	if untold == 0 {
		t.Error("no segment was left unread")
	}
}

// example is a record that is named as an example: the one that was read first.
var example = regexp.MustCompile(`, such as th(at|ose) of record [^\n]*`)

func compareHeaders(t *testing.T, r *rand.Rand) (untold int) {
	work := t.TempDir()
	dir, plain := filepath.Join(work, "new", "trail"), filepath.Join(work, "old", "trail")
	var keys, given [][format.KeySize]byte
	var access []string
	if oneIn(r, 3) {
		keys = [][format.KeySize]byte{{1}, {2}}
		given = keys[:1+r.IntN(2)]
		access = []string{"--encryption-key-file", keyFile(t, given...)}
	}
	end := segmentsTrail(t, r, dir, keys)
	ranges := rangesOf(t, dir, given)
	dirs := []string{"trail"}
	if oneIn(r, 4) { // and that of a standby, which has its beginning
		dirs = append(dirs, "copy")
		if err := os.CopyFS(filepath.Join(work, "new", "copy"), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		for number := range uint32(3) {
			segments, _ := filepath.Glob(filepath.Join(work, "new", "copy", fmt.Sprint(number), "*.steno"))
			if n := len(segments); n > 1 {
				for _, path := range segments[1+r.IntN(n-1):] {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	harmed := len(dirs) == 1 && oneIn(r, 2)
	if harmed {
		for range 1 + r.IntN(2) {
			harm(t, r, dir)
		}
	}
	for _, name := range dirs {
		trailtest.WithoutTimes(t, filepath.Join(work, "new", name), filepath.Join(work, "old", name))
	}
	of := func(args []string, version string) []string {
		args = slices.Clone(args)
		for _, name := range dirs {
			args = append(args, filepath.Join(work, version, name))
		}
		return args
	}
	at := func() int64 { return trailtest.Epoch + r.Int64N(max(1e6, end-trailtest.Epoch)) }
	for range 8 {
		since, until := at(), at()
		if since > until {
			since, until = until, since
		}
		var args []string
		bounded := []string{}
		if !oneIn(r, 4) {
			bounded = append(bounded, "--since", render.Time(since))
		} else {
			since = format.MinTime
		}
		if !oneIn(r, 4) {
			bounded = append(bounded, "--until", render.Time(until))
		} else {
			until = format.MaxTime
		}
		tail := false
		x := &randomTrail{t: t, minutes: 10}
		var conditions []string
		for range r.IntN(3) {
			if c := randomCondition(r, x); !slices.Contains(conditions, "--"+c.flag) {
				q := &question{conditions: []condition{c}}
				conditions = append(conditions, q.args()[4:]...)
			}
		}
		as := pick(r, []string{"json", "text", "csv", "ecs"})
		switch r.IntN(5) {
		case 0, 1:
			args = slices.Concat([]string{"cat", "--format", as}, bounded, conditions)
		case 2:
			if len(dirs) > 1 {
				continue // tail reads one trail
			}
			args = slices.Concat([]string{"tail", "--format", as, "-n", strconv.Itoa(1 + r.IntN(30))}, bounded, conditions)
			tail = true
		case 3:
			where := []string{"true"}
			if since != format.MinTime {
				where = append(where, fmt.Sprintf("time >= '%s'", render.Time(since)))
			}
			if until != format.MaxTime {
				where = append(where, fmt.Sprintf("time < '%s'", render.Time(until)))
			}
			args = []string{"query", "--format", "csv", "SELECT * FROM trail WHERE " + strings.Join(where, " AND ") + " ORDER BY ALL"}
		default:
			args = slices.Concat([]string{"review", "person", "--user", pick(r, users), "--format", "json"}, bounded)
			if harmed { // it lists all damage that was found
				args = slices.Concat([]string{"cat", "--format", "json"}, bounded)
			}
		}
		args = slices.Concat(args, access)
		got, warned, code := executed(t, of(args, "new")...)
		want, warnedPlain, codePlain := executed(t, of(args, "old")...)
		same := func(s, dir string) string {
			return example.ReplaceAllString(strings.ReplaceAll(s, filepath.Dir(dir), "TRAILS"), "")
		}
		if same(got, dir) != same(want, plain) {
			t.Errorf("%q: %s\ninstead of\n%s", args, got, want)
		}
		told, toldPlain := splitLines(same(warned, dir)), splitLines(same(warnedPlain, plain))
		for _, one := range told {
			if i := slices.Index(toldPlain, one); i >= 0 {
				toldPlain = slices.Delete(toldPlain, i, i+1)
			} else {
				t.Errorf("%q: told too much, or twice: %s\ninstead of\n%s", args, one, warnedPlain)
			}
		}
		for _, one := range toldPlain {
			untold++
			outside := false
			for path, times := range ranges {
				if strings.Contains(one, same(path, dir)+":") {
					outside = tail || times.LastEnd < since || times.First >= until
				}
			}
			if !outside {
				t.Errorf("%q: not told: %s", args, one)
			}
		}
		if len(toldPlain) == 0 && code != codePlain {
			t.Errorf("%q: code %d instead of %d", args, code, codePlain)
		}
	}
	return untold
}

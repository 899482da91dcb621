package query

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// history writes a trail of DDL, a statement each second, in blocks of random sizes, and remembers which table had which
// name at what time.
type history struct {
	t       *testing.T
	stream  *trailtest.Stream
	session *trailtest.Session
	block   *trailtest.Builder
	xid     uint64
	seq     uint64
	now     int
	tables  map[int]string // by number
	at      []map[int]string
}

func newHistory(t *testing.T, dir string) *history {
	return &history{
		t: t, stream: trailtest.NewStream(t, dir, 0), block: trailtest.NewBuilder(trailtest.Epoch), tables: map[int]string{}, xid: 700,
		session: trailtest.NewSession(trailtest.Epoch, 9, trailtest.Fact{Key: format.KeyUser, Value: "bob"}, trailtest.Fact{Key: format.KeyDatabase, Value: "hr"}),
	}
}

func second(n int) int64 { return trailtest.Epoch + int64(n)*1e6 }

// runs adds a transaction of these statements, which takes a second.
func (h *history) runs(event string, objects ...trailtest.Object) {
	h.xid++
	for i, o := range objects {
		h.seq++
		h.block.Add(&trailtest.Record{
			Kind: format.KindStatement, Session: h.session, Seq: h.seq, Statement: h.seq, XID: h.xid, Time: second(h.now) + int64(i), Text: "DDL",
			Shape: &trailtest.Shape{Class: format.ClassDDL, Command: "ALTER TABLE", Objects: []trailtest.Object{o}},
		})
	}
	if event != "" {
		outcome := format.OutcomeOk
		if event == "abort" {
			outcome = format.OutcomeError
		}
		h.seq++
		h.block.Add(&trailtest.Record{
			Kind: format.KindTransaction, Session: h.session, Seq: h.seq, XID: h.xid, Time: second(h.now) + 10, Outcome: outcome, Extra: []string{"event", event},
			Shape: &trailtest.Shape{Class: format.ClassTransaction},
		})
	}
	h.at = append(h.at, maps.Clone(h.tables))
	h.now++
}

func (h *history) ends() {
	h.stream.Write(h.t, h.block)
	h.block = trailtest.NewBuilder(second(h.now))
}

func renamesTable(from, to string) trailtest.Object {
	return trailtest.Object{Action: format.ActionRename, Type: "table", Name: from, To: to}
}

// outside is what is told of a filter by object for the seconds from since until before until.
func outside(t *testing.T, dir string, since, until int, objects ...string) string {
	t.Helper()
	f, opened := openFor(t, dir, Criteria{Objects: objects})
	var all []string
	for _, err := range f.RenamedOutside(context.Background(), opened.Index(), second(since), second(until)) {
		if !IsIncomplete(err) {
			t.Errorf("%s is not told as something that an answer lacks", err)
		}
		all = append(all, err.Error())
	}
	return strings.Join(all, "\n")
}

func TestRenamesOutsideOfTheTime(t *testing.T) {
	dir := t.TempDir()
	h := newHistory(t, dir)
	h.runs("commit", renamesTable("hr.staff", "hr.people"))   // 0
	h.runs("commit", renamesTable("hr.people", "hr.persons")) // 1
	h.runs("commit", renamesTable("hr.salary", "hr.x"))       // 2
	h.runs("commit", renamesTable("hr.x", "hr.salary"))       // 3
	h.runs("abort", renamesTable("hr.undone", "hr.y"))        // 4
	h.runs("commit", renamesTable("hr.a", "hr.b"))            // 5
	h.runs("abort", renamesTable("hr.b", "hr.a"))             // 6
	h.runs("commit", renamesTable("hr.old", "hr.older"))      // 7
	h.runs("commit", trailtest.Object{Action: format.ActionDrop, Type: "table", Name: "hr.older"})
	h.runs("", renamesTable("hr.open", "hr.opened"))                                                                                         // 9
	h.runs("commit", trailtest.Object{Action: format.ActionRename, Type: "schema", Name: "crm", To: "sales"})                                // 10
	h.runs("commit")                                                                                                                         // 11: nothing
	h.runs("commit", renamesTable("hr.early", "hr.late"))                                                                                    // 12
	h.runs("commit", trailtest.Object{Action: format.ActionCreate, Type: "table", Name: "hr.fresh"})                                         // 13
	h.runs("commit", renamesTable("hr.fresh", "hr.new"))                                                                                     // 14
	h.runs("commit", renamesTable("hr.p", "hr.q"), renamesTable("hr.q", "hr.r"), renamesTable("hr.s", "hr.q"), renamesTable("hr.q", "hr.p")) // 15
	h.ends()
	const before = `table "%s" was renamed to "%s" at 2026-11-21T20:45:%02d.000000Z by user "bob", %s the time that is asked for: in it, its records have the name "%s"`
	for _, one := range []struct{ ask, wants string }{
		{"hr.staff", fmt.Sprintf(before, "hr.staff", "hr.people", 13, "before", "hr.persons")},
		{"hr.people", fmt.Sprintf(before, "hr.people", "hr.persons", 14, "before", "hr.persons")},
		{"hr.persons", ""},
		{"hr.salary", ""},
		{"hr.undone", ""},
		{"hr.a", fmt.Sprintf(before, "hr.a", "hr.b", 18, "before", "hr.b")},
		{"hr.old", ""},
		{"hr.open", `table "hr.open" was renamed to "hr.opened" at 2026-11-21T20:45:22.000000Z by user "bob", before the time that is asked for: in it, its records have the name "hr.opened"`},
		{"crm.*", `schema "crm" was renamed to "sales" at 2026-11-21T20:45:23.000000Z by user "bob", before the time that is asked for: in it, its records have the name "sales"`},
		{"sales.*", ""},
		{"hr.late", fmt.Sprintf(before, "hr.early", "hr.late", 25, "after", "hr.early")},
		{"hr.early", ""},
		{"hr.new", ""},
	} {
		if got := outside(t, dir, 11, 12, one.ask); got != one.wants {
			t.Errorf("%s: told\n%s\nwant\n%s", one.ask, got, one.wants)
		}
	}
	// what takes the place of something does not hide what became of that
	if got := outside(t, dir, 16, 17, "hr.p"); !strings.HasSuffix(got, `its records have the name "hr.r"`) {
		t.Errorf("told %q of a table whose name another one has got", got)
	}
	for _, all := range []string{outside(t, dir, 11, 12, "hr.staff", "hr.people", "hr.persons"), outside(t, dir, 11, 12, "hr.*")} {
		if all != "" {
			t.Errorf("told %q, although all names are asked for", all)
		}
	}
	f, opened := openFor(t, dir, Criteria{Users: []string{"staff"}})
	if all := f.RenamedOutside(context.Background(), opened.Index(), second(11), second(12)); len(all) > 0 {
		t.Errorf("told %v of a user", all)
	}
	f, opened = openFor(t, dir, Criteria{Objects: []string{"hr.staff"}, Databases: []string{"other"}})
	if all := f.RenamedOutside(context.Background(), opened.Index(), second(11), second(12)); len(all) > 0 {
		t.Errorf("told %v of another database", all)
	}
	f, opened = openFor(t, dir, Criteria{Objects: []string{"hr.staff"}})
	if all := f.RenamedOutside(context.Background(), opened.Index(), format.MinTime, format.MaxTime); len(all) > 0 {
		t.Errorf("told %v, although the time is that of the whole trail", all)
	}
}

// At most some are listed: the last ones.
func TestManyRenamesOutsideOfTheTime(t *testing.T) {
	dir := t.TempDir()
	h := newHistory(t, dir)
	for i := range mostRenames + 3 {
		h.runs("commit", renamesTable("hr.staff", fmt.Sprintf("hr.staff%d", i)))
	}
	h.ends()
	all := strings.Split(outside(t, dir, h.now, h.now+1, "hr.staff"), "\n")
	if len(all) != mostRenames+1 || all[0] != "3 more were renamed" || !strings.Contains(all[mostRenames], fmt.Sprintf(`"hr.staff%d"`, mostRenames+2)) {
		t.Errorf("told %q", all)
	}
}

// After random sequences of renames, it is told of exactly the tables that had, or will have, a name that is asked for, and
// have another one at the edge of the time: a list of names of each second is the judge. If it is not known what took
// effect, it is told of no fewer.
func TestRandomRenamesOutsideOfTheTime(t *testing.T) {
	names := []string{"a.t", "a.u", "b.t", "b.u", "c.t"}
	schemas := []string{"a", "b", "c", "d"}
	told, silent := 0, 0
	for round := range 60 {
		r := rand.New(rand.NewPCG(uint64(round), 4711))
		dir := t.TempDir()
		h := newHistory(t, dir)
		for i, name := range names[:3] {
			h.tables[i] = name
		}
		first := maps.Clone(h.tables)
		var passed [][]map[int]string
		inUse := func(name string) bool { return slices.Contains(slices.Collect(maps.Values(h.tables)), name) }
		for range 14 {
			event := []string{"commit", "commit", "commit", "abort"}[r.IntN(4)]
			undone := event == "abort"
			if round%2 == 1 && r.IntN(5) == 0 { // no record says what became of it
				event, undone = "", r.IntN(2) == 0
			}
			was := maps.Clone(h.tables)
			var objects []trailtest.Object
			var within []map[int]string // the names after each statement
			for range 1 + r.IntN(3) {
				numbers := slices.Sorted(maps.Keys(h.tables))
				to := names[r.IntN(len(names))]
				switch op := r.IntN(10); {
				case op == 0 && !inUse(to): // a new one
					h.tables[100+h.now*10+len(objects)] = to
					objects = append(objects, trailtest.Object{Action: format.ActionCreate, Type: "table", Name: to})
				case op == 1 && len(numbers) > 0:
					n := numbers[r.IntN(len(numbers))]
					objects = append(objects, trailtest.Object{Action: format.ActionDrop, Type: "table", Name: h.tables[n]})
					delete(h.tables, n)
				case op < 4: // a schema, to a name that no table has
					from, to := schemas[r.IntN(4)], schemas[r.IntN(4)]
					if slices.ContainsFunc(slices.Collect(maps.Values(h.tables)), func(name string) bool { return strings.HasPrefix(name, to+".") }) {
						continue
					}
					for n, name := range h.tables {
						if rest, ok := strings.CutPrefix(name, from+"."); ok {
							h.tables[n] = to + "." + rest
						}
					}
					objects = append(objects, trailtest.Object{Action: format.ActionRename, Type: "schema", Name: from, To: to})
				case len(numbers) > 0 && !inUse(to):
					n := numbers[r.IntN(len(numbers))]
					objects = append(objects, renamesTable(h.tables[n], to))
					h.tables[n] = to
				}
				within = append(within, maps.Clone(h.tables))
			}
			if undone {
				h.tables, within = was, nil
			}
			passed = append(passed, within)
			h.runs(event, objects...)
			if r.IntN(3) == 0 {
				h.ends()
			}
		}
		h.ends()
		for range 20 {
			ask := names[r.IntN(len(names))]
			if r.IntN(5) == 0 {
				ask = schemas[r.IntN(3)] + ".*"
			}
			matches := func(name string) bool {
				schema, all := strings.CutSuffix(ask, ".*")
				return name == ask || all && strings.HasPrefix(name, schema+".")
			}
			since := 1 + r.IntN(12)
			until := min(since+1+r.IntN(4), 13)
			// at[n] is after second n
			elsewhere := func(edge int, rest []map[int]string) (found bool) {
				for n, name := range h.at[edge] {
					found = found || !matches(name) && slices.ContainsFunc(rest, func(names map[int]string) bool { return matches(names[n]) && names[n] != "" })
				}
				return found
			}
			before := elsewhere(since-1, append([]map[int]string{first}, slices.Concat(passed[:since]...)...))
			after := elsewhere(until-1, slices.Concat(passed[until:]...))
			got := outside(t, dir, since, until, ask)
			says := func(of, when string) bool {
				return slices.ContainsFunc(strings.Split(got, "\n"), func(one string) bool {
					return strings.HasPrefix(one, of) && strings.Contains(one, ", "+when+" the time")
				})
			}
			// Which tables a schema had is not known: it may have had one of the name.
			exact := round%2 == 0
			wrong := func(when string, wants bool) bool {
				return exact && says("table", when) && !wants || wants && !says("", when)
			}
			if wrong("before", before) || wrong("after", after) {
				t.Fatalf("round %d: %s in seconds %d to %d: before %v, after %v, told %q; %v", round, ask, since, until, before, after, got, h.at)
			}
			if before || after {
				told++
			} else {
				silent++
			}
		}
	}
	if told < 100 || silent < 100 {
		t.Errorf("%d times something was to be told, and %d times nothing", told, silent)
	}
}

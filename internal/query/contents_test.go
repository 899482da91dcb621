package query

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// numbers is a formatter that writes the numbers of the records that a filter keeps.
type numbers struct{ Matcher }

func (n *numbers) Start(*trail.BlockRef) { n.Reset() }

func (n *numbers) Append(dst []byte, r *format.Record) []byte {
	return fmt.Appendf(dst, "%d ", r.Number)
}

// found is which records a filter finds, and how many blocks are not read; with the index
// or without. It is the same whether or not the reader is told what is wanted.
func found(t *testing.T, opened *trail.Index, filter *Filter, contents func(*format.Contents) format.Groups) (records string, skipped int) {
	t.Helper()
	var out [2]strings.Builder
	for i, want := range []format.Selection{{}, filter.Selection()} {
		skipped = 0
		err := opened.Merge(context.Background(), trail.MergeOptions{
			Since: format.MinTime, Until: format.MaxTime, Contents: contents, Selection: want,
			NewFormatter: func() trail.Formatter { return &numbers{Matcher{Filter: filter}} },
			Skipped:      func(*trail.BlockRef) { skipped++ },
			Warn:         func(err error) { t.Error(err) },
		}, func(line []byte) error { out[i].Write(line); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if out[0].String() != out[1].String() {
		t.Errorf("%q is found, without what is not wanted %q", &out[0], &out[1])
	}
	return out[0].String(), skipped
}

func openIndexed(t *testing.T) *trail.Index {
	t.Helper()
	opened, err := trail.Open(trailtest.Golden(t) + "/index")
	if err != nil {
		t.Fatal(err)
	}
	return opened.Index()
}

// TestIndexChangesNoResult compares what is found with an index and without, by random
// filters.
func TestIndexChangesNoResult(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	matched, skips, index := 0, 0, openIndexed(t)
	some := func(values ...string) (chosen []string) {
		for _, v := range values {
			if rnd.IntN(len(values)) == 0 {
				chosen = append(chosen, v)
			}
		}
		return chosen
	}
	for range 600 {
		o, ignores := Criteria{Not: &Criteria{}}, false
		for range 1 + rnd.IntN(2) {
			switch rnd.IntN(15) {
			case 0:
				o.Users = some("alice", "bob", "carol", "dave", "eve", "")
			case 1:
				o.Roles = some("alice", "bob", "owner", "nobody")
			case 2:
				o.Databases, o.AppUsers = some("shop", "other", ""), some("jörg", "j\uFFFDf6rg", "x", "")
			case 3:
				o.Applications = some("caf\uFFFDe9", "café", "psql", "")
			case 4:
				o.Classes = trailtest.Values(ParseClass, some("read", "write", "ddl", "connect", "transaction")...)
			case 5:
				o.Kinds = trailtest.Values(ParseKind, some("statement", "connect", "disconnect", "transaction", "gap")...)
			case 6:
				o.Commands = some("select", "ALTER", "alter table", "DROP")
			case 7:
				o.Objects = some("orders", "public.orders", "orders.id", "orders.total", "after", "*fer*", "*.naïve", "x*", "none", "*.*.*")
			case 8:
				o.Failed = true
			case 9:
				o.Grep = trailtest.Values(regexp.Compile, some("total", "(?i)TOTAL . 2", "rare", "id = .1", "exist$", "^SELECT", "disc[a]rded", "k.?ufer", "(orders|rename) W?", "not|parts'$",
					"(?i)ſELECT", "after\n", "(se)?LECT", "(rare ){1,2}text", "x{0}rare", "1")...)
				ignores = rnd.IntN(2) == 0
			case 10:
				o.SQLStates = trailtest.Values(ParseSQLState, some("42501", "42", "22", "23505", "00000")...)
			case 11:
				o.Not.Users, o.Not.Classes = some("alice", "bob", "carol", ""), trailtest.Values(ParseClass, some("read", "connect")...)
			case 12:
				o.Not.Objects, o.Not.Kinds = some("orders", "*.*", "x*"), trailtest.Values(ParseKind, some("statement", "connect")...)
			case 13:
				o.Not.Grep, o.Not.SQLStates = patterns(some("total", "SELECT", "rare")...), trailtest.Values(ParseSQLState, some("42501", "23")...)
			case 14:
				o.MinDuration = least("1ms")
			}
		}
		if ignores {
			o = ignoringCase(o)
		}
		filter := o.Filter()
		without, _ := found(t, index, filter, nil)
		with, skipped := found(t, index, filter, filter.Contents())
		if with != without {
			t.Fatalf("%+v: records %s with the index, %s without", o, with, without)
		}
		if without != "" {
			matched++
		}
		skips += skipped
	}
	if matched < 100 || skips < 600 {
		t.Errorf("only %d filters found anything, and %d blocks were skipped", matched, skips)
	}
}

// TestFiltersSkipBlocks: for each filter, blocks that need not be read are not.
func TestFiltersSkipBlocks(t *testing.T) {
	index := openIndexed(t)
	for want, all := range map[int][]Criteria{
		8: {
			{Users: []string{"eve"}}, {Classes: []format.Class{format.ClassRole}}, {Failed: true, Users: []string{"carol"}},
			{Kinds: []format.Kind{format.KindNote}}, {Databases: []string{"other"}}, {Roles: []string{"nobody"}},
		},
		7: {
			{Users: []string{"bob"}}, {Roles: []string{"owner"}}, {AppUsers: []string{"x"}}, {Applications: []string{"psql"}},
			{Classes: []format.Class{format.ClassDDL}}, {Commands: []string{"alter"}}, {Kinds: []format.Kind{format.KindDisconnect}}, {Failed: true},
		},
		// one block has parameters of any text, one has texts in data parts
		6: {{Grep: patterns("(?i)no such text")}, {Grep: patterns("^no such.*(text|word)")}},
		5: {{Grep: patterns("where total")}, {Grep: patterns("(?i)WHERE +TOTAL")}, {Objects: []string{"public.orders"}}, {Objects: []string{"orders.total"}}},
		0: {{}, {Users: []string{""}}, {Kinds: []format.Kind{format.KindStatement}}, {Grep: patterns("a")}, {Grep: patterns(".*")}, {Sessions: sessions("6b0202d9.fa1")}},
	} {
		for _, o := range all {
			filter := o.Filter()
			if _, skipped := found(t, index, filter, filter.Contents()); skipped != want {
				t.Errorf("%+v: %d blocks are skipped, want %d", o, skipped, want)
			}
		}
	}
}

// TestIndexHidesNoName compares what a filter keeps of records with random names with what it selects of an index of
// them. All databases are in UTF-8, so the index has all names as they are shown.
func TestIndexHidesNoName(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	one := func(values ...string) string { return values[rnd.IntN(len(values))] }
	long := strings.Repeat("n", 150)
	name := func() string {
		return one("", "public.", "hr.", "naïve.", `"a.b".`, "\xff.") + one("t", "salary", "größe", `"x.y"`, "\xfft", long)
	}
	kept, left := 0, 0
	for range 5_000 {
		shape := &trailtest.Shape{Class: format.ClassError, Command: "DROP TABLE"}
		columns := rnd.IntN(2) == 0
		for range rnd.IntN(3) {
			r := trailtest.Relation{Type: 1, Access: format.Access(rnd.IntN(256)), Name: name()}
			for columns && len(r.Columns) < 2 {
				r.Columns = append(r.Columns, trailtest.Column{Access: format.Access(1 + rnd.IntN(4)), Name: one("", "id", "ß", "*", long)})
			}
			shape.Relations = append(shape.Relations, r)
		}
		for range rnd.IntN(2) {
			shape.Objects = append(shape.Objects, trailtest.Object{Action: format.ActionRename, Type: "table", Name: name(), To: one("", name())})
		}
		record := &trailtest.Record{
			Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: "x", Shape: shape,
			Outcome: format.OutcomeError, SQLState: "42P01", Message: "no", // a refused one may use anything
		}
		if rnd.IntN(2) == 0 {
			record.Extra = []string{"search_path", one("hr", "public, hr", `"$user"`, "naïve")}
		}
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(record)
		var chain [32]byte
		block := &format.Block{Source: format.Source{File: "test"}, Image: b.Finish(format.CodecNone, 1, 1, &chain)}
		var r format.Record
		if err := block.Load(); err != nil {
			t.Fatal(err)
		}
		if err := block.Next(&r); err != nil {
			t.Fatal(err)
		}
		o := Criteria{Objects: []string{one("", "public.", "hr.", "naïve.", `"a.b".`) +
			one("t", "salary", "sal*", "größe", `"x.y"`, long, "*", "salary.id", "größe.ß", "t.*", "*.id", "\uFFFDfft", "none")}}
		filter := o.Filter()
		m := &Matcher{Filter: filter}
		m.Reset()
		keeps := m.Keep(&r)
		if index := indexOf(t, block, &r); keeps && !filter.Contents()(index).Has(0) {
			t.Fatalf("%q is in %+v, and hidden by the index", o.Objects, shape)
		} else if keeps {
			kept++
		} else if !filter.Contents()(index).Has(0) {
			left++
		}
	}
	if kept < 250 || left < 250 {
		t.Errorf("%d records kept, %d left out by the index", kept, left)
	}
}

// indexOf is the index of a block of one record, which a writer would make of it.
func indexOf(t *testing.T, block *format.Block, r *format.Record) *format.Contents {
	t.Helper()
	has := &format.BlockContents{}
	has.AddRecord(r)
	has.AddDefinitions(block)
	body := []byte{1, 1, 1} // of block 1 alone
	for list := range format.TermsOmissions + 1 {
		if list == format.TermsTrigrams {
			continue
		}
		terms := has.Terms[list]
		one := binary.AppendUvarint([]byte{0}, uint64(len(terms))) // nothing is omitted
		for term := range terms {
			one = append(append(binary.AppendUvarint(one, uint64(len(term))), term...), 1)
		}
		body = binary.AppendUvarint(binary.AppendUvarint(body, uint64(list)), uint64(len(one)))
		body = append(body, one...)
	}
	c, err := format.ParseContents(body)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

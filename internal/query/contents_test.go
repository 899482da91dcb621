package query

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// numbers is a formatter that writes the numbers of the records that a filter keeps.
type numbers struct{ Matcher }

func (n *numbers) Start(*trail.BlockRef) { n.Reset() }

func (n *numbers) Append(dst []byte, r *trail.Record) []byte {
	return fmt.Appendf(dst, "%d ", r.Number)
}

// found is which records a filter finds, and how many blocks are not read; with the index
// or without. It is the same whether or not the reader is told what is wanted.
func found(t *testing.T, opened *trail.Index, filter *Filter, contents func(*trail.Contents) trail.Groups) (records string, skipped int) {
	t.Helper()
	var out [2]strings.Builder
	for i, want := range []trail.Want{{}, filter.Want()} {
		skipped = 0
		err := opened.Merge(context.Background(), trail.MergeOptions{
			Since: filter.Since, Until: filter.Until, Contents: contents, Want: want,
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
		o := FilterOptions{Not: &FilterOptions{}}
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
				o.Classes = some("read", "write", "ddl", "connect", "transaction")
			case 5:
				o.Kinds = some("statement", "connect", "disconnect", "transaction", "gap")
			case 6:
				o.Commands = some("select", "ALTER", "alter table", "DROP")
			case 7:
				o.Objects = some("orders", "public.orders", "orders.id", "orders.total", "after", "*fer*", "*.naïve", "x*", "none", "*.*.*")
			case 8:
				o.Failed = true
			case 9:
				o.Grep = some("total", "(?i)TOTAL . 2", "rare", "id = .1", "exist$", "^SELECT", "disc[a]rded", "k.?ufer", "(orders|rename) W?", "not|parts'$",
					"(?i)ſELECT", "after\n", "(se)?LECT", "(rare ){1,2}text", "x{0}rare", "1")
				o.IgnoreCase = rnd.IntN(2) == 0
			case 10:
				o.SQLStates = some("42501", "42", "4", "22", "23505", "00000")
				o.SQLStates = slices.DeleteFunc(o.SQLStates, func(s string) bool { return s == "4" })
			case 11:
				o.Not.Users, o.Not.Classes = some("alice", "bob", "carol", ""), some("read", "connect")
			case 12:
				o.Not.Objects, o.Not.Kinds = some("orders", "*.*", "x*"), some("statement", "connect")
			case 13:
				o.Not.Grep, o.Not.SQLStates = some("total", "SELECT", "rare"), some("42501", "23")
			case 14:
				o.MinDuration = "1ms"
			}
		}
		filter, err := o.Filter(time.Now())
		if err != nil {
			t.Fatal(err)
		}
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
	for want, all := range map[int][]FilterOptions{
		8: {
			{Users: []string{"eve"}}, {Classes: []string{"role"}}, {Failed: true, Users: []string{"carol"}},
			{Kinds: []string{"note"}}, {Databases: []string{"other"}}, {Roles: []string{"nobody"}},
		},
		7: {
			{Users: []string{"bob"}}, {Roles: []string{"owner"}}, {AppUsers: []string{"x"}}, {Applications: []string{"psql"}},
			{Classes: []string{"ddl"}}, {Commands: []string{"alter"}}, {Kinds: []string{"disconnect"}}, {Failed: true},
		},
		// one block has parameters of any text, one has texts in data parts
		6: {{Grep: []string{"(?i)no such text"}}, {Grep: []string{"^no such.*(text|word)"}}},
		5: {{Grep: []string{"where total"}}, {Grep: []string{"(?i)WHERE +TOTAL"}}, {Objects: []string{"public.orders"}}, {Objects: []string{"orders.total"}}},
		0: {{}, {Users: []string{""}}, {Kinds: []string{"statement"}}, {Grep: []string{"a"}}, {Grep: []string{".*"}}, {Sessions: []string{"6b0202d9.fa1"}}},
	} {
		for _, o := range all {
			filter, err := o.Filter(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if _, skipped := found(t, index, filter, filter.Contents()); skipped != want {
				t.Errorf("%+v: %d blocks are skipped, want %d", o, skipped, want)
			}
		}
	}
}

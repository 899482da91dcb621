package trail_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// contentsOf is what a block contains, made of its records.
func contentsOf(t testing.TB, b *trail.Block) *trail.BlockContents {
	t.Helper()
	c := &trail.BlockContents{}
	var r trail.Record
	for {
		err := b.Next(&r)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Record(&r)
	}
	c.Definitions(b)
	return c
}

// indexed is a trail's indexes, and the contents of all blocks.
func indexed(t testing.TB, dir string) (indexes []*trail.Contents, blocks map[uint64]*trail.BlockContents) {
	t.Helper()
	files := &trail.Files{}
	defer files.Close()
	blocks = map[uint64]*trail.BlockContents{}
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b trail.Block
	for _, s := range opened.Streams {
		for _, seg := range s.Segments {
			refs, errs := seg.Index()
			if errs != nil {
				t.Fatal(errs)
			}
			indexes = append(indexes, files.Contents(refs)...)
			for i := range refs {
				if err := files.Read(&refs[i], &b); err != nil {
					t.Fatal(err)
				}
				blocks[refs[i].Number] = contentsOf(t, &b)
			}
		}
	}
	return indexes, blocks
}

// TestIndexWrittenByServerIsWhatBlocksContain: of every list of which core/ omitted nothing,
// an index has exactly the terms that this program finds in the records.
func TestIndexWrittenByServerIsWhatBlocksContain(t *testing.T) {
	indexes, blocks := indexed(t, trailtest.Golden(t)+"/index")
	var shape []string
	for _, c := range indexes {
		shape = append(shape, fmt.Sprintf("%d+%d by %d", c.First, c.Blocks, c.Group))
	}
	if got := strings.Join(shape, ", "); got != "1+4 by 1, 5+4 by 4" {
		t.Fatalf("indexes of blocks %s", got)
	}
	for _, c := range indexes {
		omitted := map[trail.Terms]bool{}
		for list := trail.TermsUsers; list <= trail.TermsTrigrams; list++ {
			want := map[string][]int{}
			filters := make([][512]byte, c.Len())
			for n, has := range blocks {
				group, ok := c.GroupOf(n)
				if !ok {
					continue
				}
				if what := c.Hides(n, has); what != "" {
					t.Errorf("the index hides of block %d %s", n, what)
				}
				for value := range has.Terms[list] {
					if !slices.Contains(want[value], group) {
						want[value] = append(want[value], group)
						slices.Sort(want[value])
					}
				}
				for i, b := range has.Trigrams {
					filters[group][i] |= b
				}
			}
			terms, filter, all := c.List(list)
			omitted[list] = !all
			switch {
			case !all:
			case list == trail.TermsTrigrams:
				for i := range filters {
					if string(filters[i][:]) != string(filter(i)) {
						t.Errorf("%s of group %d differ", list, i)
					}
				}
			case fmt.Sprint(terms) != fmt.Sprint(want):
				t.Errorf("%s are %v, want %v", list, terms, want)
			}
		}
		left := slices.Sorted(maps.Keys(omitted))
		left = slices.DeleteFunc(left, func(l trail.Terms) bool { return !omitted[l] })
		want := "[relations columns trigrams]"
		if c.First > 1 {
			want = "[]"
		}
		if got := fmt.Sprint(left); got != want {
			t.Errorf("omitted are terms of %s, want %s", got, want)
		}
	}
}

// TestIndexSkipsBlocks says of questions which blocks need not be read.
func TestIndexSkipsBlocks(t *testing.T) {
	is := func(s string) func([]byte) bool { return func(v []byte) bool { return string(v) == s } }
	for _, one := range []struct {
		name string
		ask  func(c *trail.Contents) trail.Groups
		want string
	}{
		{"user", func(c *trail.Contents) trail.Groups { return c.Select(trail.TermsUsers, is("alice")) }, "1 4 5 6 7 8"},
		{"another user", func(c *trail.Contents) trail.Groups { return c.Select(trail.TermsUsers, is("bob")) }, "2"},
		{"nobody", func(c *trail.Contents) trail.Groups { return c.Select(trail.TermsUsers, is("eve")) }, ""},
		{"application in another encoding", func(c *trail.Contents) trail.Groups { return c.Select(trail.TermsApplications, is("café")) }, "3"},
		{"list of a later version", func(c *trail.Contents) trail.Groups { return c.Select(99, is("x")) }, "1 2 3 4 5 6 7 8"},
		{"class", func(c *trail.Contents) trail.Groups {
			return c.Select(trail.TermsClasses, is(string([]byte{byte(trail.ClassDDL)})))
		}, "2"},
		{"relation", func(c *trail.Contents) trail.Groups {
			return c.SelectShape(func(s *trail.Shape) bool {
				return len(s.Relations) == 1 && string(s.Relations[0].Name) == "public.orders"
			})
		}, "1 2 4"}, // that of block 2 may be shown as something else; one of block 4 is omitted
		{"object", func(c *trail.Contents) trail.Groups {
			return c.SelectShape(func(s *trail.Shape) bool { return len(s.Objects) == 1 && string(s.Objects[0].Name) == "public.after" })
		}, "1 2 4"},
		{"result", func(c *trail.Contents) trail.Groups {
			return c.SelectResult(func(k trail.Kind, o trail.Outcome) bool { return o == trail.OutcomeError })
		}, "2 3"},
		{"kind", func(c *trail.Contents) trail.Groups {
			return c.SelectResult(func(k trail.Kind, o trail.Outcome) bool { return k == trail.KindDisconnect })
		}, "3"},
		{"text", func(c *trail.Contents) trail.Groups { return c.SelectText("WHERE Total") }, "1 4"}, // texts of block 4 are in data parts
		{"text of what was discarded", func(c *trail.Contents) trail.Groups { return c.SelectText("discarded") }, "4"},
		{"message", func(c *trail.Contents) trail.Groups { return c.SelectText("not exist") }, "2 4"},
		{"rare text", func(c *trail.Contents) trail.Groups { return c.SelectText("rare text") }, "4 5 6 7 8"},
		{"number", func(c *trail.Contents) trail.Groups { return c.SelectValue("42") }, "1 2 4"},
		{"no number", func(c *trail.Contents) trail.Groups { return c.SelectValue("4x") }, "2"},
	} {
		indexes, _ := indexed(t, trailtest.Golden(t)+"/index")
		var read []string
		for _, c := range indexes {
			groups := one.ask(c)
			for n := c.First; n < c.First+c.Blocks; n++ {
				if i, _ := c.GroupOf(n); groups.Has(i) {
					read = append(read, fmt.Sprint(n))
				}
			}
		}
		if got := strings.Join(read, " "); got != one.want {
			t.Errorf("%s: blocks %s, want %s", one.name, got, one.want)
		}
	}
}

// TestMergeSkipsBlocks: blocks of groups that are not selected are not read, others are.
func TestMergeSkipsBlocks(t *testing.T) {
	merge := func(contents func(*trail.Contents) trail.Groups) (lines int, skipped []uint64) {
		opened := trailtest.OpenGolden(t, trailtest.Golden(t)+"/index")
		opts := trail.MergeOptions{
			Since: trail.MinTime, Until: trail.MaxTime, Contents: contents,
			NewFormatter: func() trail.Formatter { return &goldenFormat{} },
			Skipped:      func(ref *trail.BlockRef) { skipped = append(skipped, ref.Number) },
			Warn:         func(err error) { t.Error(err) },
		}
		emit := func([]byte) error { lines++; return nil }
		if err := opened.Index().Merge(context.Background(), opts, emit); err != nil {
			t.Fatal(err)
		}
		before, all := lines, len(skipped)
		if err := opened.Index().Last(context.Background(), 1000, opts, emit); err != nil {
			t.Fatal(err)
		}
		if lines != 2*before {
			t.Errorf("%d last records, want %d", lines-before, before)
		}
		return before, skipped[:all]
	}
	lines, skipped := merge(nil)
	if lines == 0 || skipped != nil {
		t.Fatalf("%d records, and blocks %v skipped, without a filter", lines, skipped)
	}
	of, skipped := merge(func(c *trail.Contents) trail.Groups {
		return c.Select(trail.TermsUsers, func(v []byte) bool { return string(v) == "bob" })
	})
	if fmt.Sprint(skipped) != "[1 3 4 5 6 7 8]" || of == 0 || of >= lines {
		t.Errorf("%d of %d records, and blocks %v skipped", of, lines, skipped)
	}
}

// TestHexDigitsOfUndecodedBytesAreNoText: they are shown, but not in the text.
func TestHexDigitsOfUndecodedBytesAreNoText(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: trail.KindStatement, Session: s, Time: trailtest.Epoch, Text: "SELECT '\xfface\xfebdo'"})
	var chain [32]byte
	has := contentsOf(t, load(t, b.Finish(trail.CodecNone, 1, 1, &chain)))
	body := []byte{1, 1, 1, byte(trail.TermsTrigrams), 0x83, 4, 0, 0x80, 4} // one block; nothing omitted; 512 bytes
	c, err := trail.ParseContents(append(body, has.Trigrams[:]...))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"select '": true, "ffac": true, "FACE": true, "ace": true, "febdo": true, "ebdo": true, "bdo'": true,
		"do'x": false, "selects": false, "acer": true, "zface": false,
	} {
		// shown is "SELECT '\uFFFDfface\uFFFDfebdo'"
		if got := c.SelectText(text).Has(0); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestColumnsOfRelationsWithoutAListMayBeAny: a record that does not say which columns it
// uses is found by each, and only by those of that relation.
func TestColumnsOfRelationsWithoutAListMayBeAny(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: trail.KindStatement, Session: s, Time: trailtest.Epoch, Text: "SELECT", Shape: &trailtest.Shape{
		Class: trail.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Type: 1, Access: trail.AccessSelect, Name: "read"}, {Type: 1, Access: trail.AccessTruncate, Name: "emptied"}},
	}})
	var chain [32]byte
	has := contentsOf(t, load(t, b.Finish(trail.CodecNone, 1, 1, &chain)))
	if got := fmt.Sprintf("%q", slices.Collect(maps.Keys(has.Terms[trail.TermsColumns]))); got != `["\x01\x04read"]` {
		t.Errorf("columns %s", got)
	}
}

// TestAlphabetsAreWhole: no value consists of other characters than what is said of its
// representation.
func TestAlphabetsAreWhole(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for repr, size := range trail.FixedSizes() {
		for range 20_000 {
			v := make([]byte, size)
			for i := range v {
				if v[i] = byte(rnd.Uint32()); rnd.IntN(4) == 0 {
					v[i] = []byte{0, 0xff, 0x7f, 0x80}[rnd.IntN(4)]
				}
			}
			shown := string(trail.AppendParam(nil, repr, v))
			if !trail.MayContain(repr, shown) {
				t.Fatalf("%s: %q has other characters", repr, shown)
			}
		}
	}
	if trail.MayContain(trail.ReprInt4, "x") || !trail.MayContain(trail.ReprText, "x") {
		t.Error("the test finds nothing")
	}
}

// FuzzContents reads an index of any bytes: no panic, no more memory than it explains, and
// what it says of groups is within its groups.
func FuzzContents(f *testing.F) {
	trailtest.AddCorpus(f)
	f.Add([]byte{1, 1, 1, byte(trail.TermsUsers), 9, 0, 1, 5, 'a', 'l', 'i', 'c', 'e', 1})
	f.Add([]byte{1, 9, 2, byte(trail.TermsResults), 5, 1, 1, 2, 6, 1, 3})
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := trail.ParseContents(body)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<16+100*uint64(len(body)) {
			t.Errorf("%d bytes took %d bytes of memory", len(body), used)
		}
		if err != nil {
			return
		}
		yes := func([]byte) bool { return true }
		for list := range trail.TermsTrigrams + 2 {
			all, none := c.Select(list, yes), c.Select(list, func([]byte) bool { return false })
			if len(all) != len(c.All()) || len(none) != len(all) {
				t.Errorf("%s: %d bytes for %d groups", list, len(all), c.Len())
			}
		}
		c.SelectShape(func(s *trail.Shape) bool { return len(s.Relations) > 0 })
		c.SelectText("select")
		c.SelectValue("1")
		c.Hides(c.First+c.Blocks-1, &trail.BlockContents{Terms: map[trail.Terms]map[string]bool{trail.TermsUsers: {"alice": true}}})
		for _, n := range []uint64{c.First, c.First + c.Blocks/2, c.First + c.Blocks - 1} {
			if i, ok := c.GroupOf(n); !ok || i >= c.Len() {
				t.Errorf("block %d is in group %d of %d", n, i, c.Len())
			}
		}
	})
}

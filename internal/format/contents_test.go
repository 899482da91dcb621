package format_test

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

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// contentsOf is what a block contains, made of its records.
func contentsOf(t testing.TB, b *format.Block) *format.BlockContents {
	t.Helper()
	c := &format.BlockContents{}
	var r format.Record
	for {
		err := b.Next(&r)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		c.AddRecord(&r)
	}
	c.AddDefinitions(b)
	return c
}

// indexed is a trail's indexes, and the contents of all blocks.
func indexed(t testing.TB, dir string) (indexes []*format.Contents, blocks map[uint64]*format.BlockContents) {
	t.Helper()
	files := &trail.Files{}
	defer files.Close()
	blocks = map[uint64]*format.BlockContents{}
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b format.Block
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
		omitted := map[format.Terms]bool{}
		for list := format.TermsUsers; list <= format.TermsTrigrams; list++ {
			want := map[string][]int{}
			filters := make([][512]byte, c.Len())
			for n, has := range blocks {
				group, ok := c.GroupOf(n)
				if !ok {
					continue
				}
				if what := c.HiddenReason(n, has); what != "" {
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
			case list == format.TermsTrigrams:
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
		left = slices.DeleteFunc(left, func(l format.Terms) bool { return !omitted[l] })
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
		ask  func(c *format.Contents) format.Groups
		want string
	}{
		{"user", func(c *format.Contents) format.Groups { return c.Select(format.TermsUsers, is("alice")) }, "1 4 5 6 7 8"},
		{"another user", func(c *format.Contents) format.Groups { return c.Select(format.TermsUsers, is("bob")) }, "2"},
		{"nobody", func(c *format.Contents) format.Groups { return c.Select(format.TermsUsers, is("eve")) }, ""},
		{"application in another encoding", func(c *format.Contents) format.Groups { return c.Select(format.TermsApplications, is("café")) }, "3"},
		{"list of a later version", func(c *format.Contents) format.Groups { return c.Select(99, is("x")) }, "1 2 3 4 5 6 7 8"},
		{"class", func(c *format.Contents) format.Groups {
			return c.Select(format.TermsClasses, is(string([]byte{byte(format.ClassDDL)})))
		}, "2"},
		{"relation", func(c *format.Contents) format.Groups {
			return c.SelectShape(func(s *format.Shape) bool {
				return len(s.Relations) == 1 && string(s.Relations[0].Name) == "public.orders"
			})
		}, "1 2 4"}, // that of block 2 may be shown as something else; one of block 4 is omitted
		{"object", func(c *format.Contents) format.Groups {
			return c.SelectShape(func(s *format.Shape) bool { return len(s.Objects) == 1 && string(s.Objects[0].Name) == "public.after" })
		}, "1 2 4"},
		{"result", func(c *format.Contents) format.Groups {
			return c.SelectResult(func(k format.Kind, o format.Outcome) bool { return o == format.OutcomeError })
		}, "2 3"},
		{"kind", func(c *format.Contents) format.Groups {
			return c.SelectResult(func(k format.Kind, o format.Outcome) bool { return k == format.KindDisconnect })
		}, "3"},
		{"text", func(c *format.Contents) format.Groups { return c.SelectText("WHERE Total") }, "1 4"}, // texts of block 4 are in data parts
		{"text of what was discarded", func(c *format.Contents) format.Groups { return c.SelectText("discarded") }, "4"},
		{"message", func(c *format.Contents) format.Groups { return c.SelectText("not exist") }, "2 4"},
		{"rare text", func(c *format.Contents) format.Groups { return c.SelectText("rare text") }, "4 5 6 7 8"},
		{"number", func(c *format.Contents) format.Groups { return c.SelectValue("42") }, "1 2 4"},
		{"no number", func(c *format.Contents) format.Groups { return c.SelectValue("4x") }, "2"},
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
	merge := func(contents func(*format.Contents) format.Groups) (lines int, skipped []uint64) {
		opened := trailtest.OpenGolden(t, trailtest.Golden(t)+"/index")
		opts := trail.MergeOptions{
			Since: format.MinTime, Until: format.MaxTime, Contents: contents,
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
	of, skipped := merge(func(c *format.Contents) format.Groups {
		return c.Select(format.TermsUsers, func(v []byte) bool { return string(v) == "bob" })
	})
	if fmt.Sprint(skipped) != "[1 3 4 5 6 7 8]" || of == 0 || of >= lines {
		t.Errorf("%d of %d records, and blocks %v skipped", of, lines, skipped)
	}
}

// TestHexDigitsOfUndecodedBytesAreNoText: they are shown, but not in the text.
func TestHexDigitsOfUndecodedBytesAreNoText(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: s, Time: trailtest.Epoch, Text: "SELECT '\xfface\xfebdo'"})
	var chain [32]byte
	has := contentsOf(t, load(t, b.Finish(format.CodecNone, 1, 1, &chain)))
	body := []byte{1, 1, 1, byte(format.TermsTrigrams), 0x83, 4, 0, 0x80, 4} // one block; nothing omitted; 512 bytes
	c, err := format.ParseContents(append(body, has.Trigrams[:]...))
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
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: s, Time: trailtest.Epoch, Text: "SELECT", Shape: &trailtest.Shape{
		Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Type: 1, Access: format.AccessSelect, Name: "read"}, {Type: 1, Access: format.AccessTruncate, Name: "emptied"}},
	}})
	var chain [32]byte
	has := contentsOf(t, load(t, b.Finish(format.CodecNone, 1, 1, &chain)))
	if got := fmt.Sprintf("%q", slices.Collect(maps.Keys(has.Terms[format.TermsColumns]))); got != `["\x01\x04read"]` {
		t.Errorf("columns %s", got)
	}
}

// TestAlphabetsAreWhole: no value consists of other characters than what is said of its
// representation.
func TestAlphabetsAreWhole(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for repr, size := range format.FixedSizes() {
		for range 20_000 {
			v := make([]byte, size)
			for i := range v {
				if v[i] = byte(rnd.Uint32()); rnd.IntN(4) == 0 {
					v[i] = []byte{0, 0xff, 0x7f, 0x80}[rnd.IntN(4)]
				}
			}
			shown := string(format.AppendParam(nil, repr, v))
			if !format.MayContain(repr, shown) {
				t.Fatalf("%s: %q has other characters", repr, shown)
			}
		}
	}
	if format.MayContain(format.ReprInt4, "x") || !format.MayContain(format.ReprText, "x") {
		t.Error("the test finds nothing")
	}
}

// FuzzContents reads an index of any bytes: no panic, no more memory than it explains, and
// what it says of groups is within its groups.
func FuzzContents(f *testing.F) {
	trailtest.AddCorpus(f)
	f.Add([]byte{1, 1, 1, byte(format.TermsUsers), 9, 0, 1, 5, 'a', 'l', 'i', 'c', 'e', 1})
	f.Add([]byte{1, 9, 2, byte(format.TermsResults), 5, 1, 1, 2, 6, 1, 3})
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := format.ParseContents(body)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<16+100*uint64(len(body)) {
			t.Errorf("%d bytes took %d bytes of memory", len(body), used)
		}
		if err != nil {
			return
		}
		yes := func([]byte) bool { return true }
		for list := range format.TermsTrigrams + 2 {
			all, none := c.Select(list, yes), c.Select(list, func([]byte) bool { return false })
			if len(all) != len(c.All()) || len(none) != len(all) {
				t.Errorf("%s: %d bytes for %d groups", list, len(all), c.Len())
			}
		}
		c.SelectShape(func(s *format.Shape) bool { return len(s.Relations) > 0 })
		c.SelectText("select")
		c.SelectValue("1")
		c.HiddenReason(c.First+c.Blocks-1, &format.BlockContents{Terms: map[format.Terms]map[string]bool{format.TermsUsers: {"alice": true}}})
		for _, n := range []uint64{c.First, c.First + c.Blocks/2, c.First + c.Blocks - 1} {
			if i, ok := c.GroupOf(n); !ok || i >= c.Len() {
				t.Errorf("block %d is in group %d of %d", n, i, c.Len())
			}
		}
	})
}

// TestListsThatDoNotExistAreSkipped: an index says nothing by a list of a later version, or of no version.
func TestListsThatDoNotExistAreSkipped(t *testing.T) {
	for list, known := range map[byte]bool{0: false, byte(format.TermsUsers): true, 99: false} {
		c, err := format.ParseContents([]byte{1, 1, 1, list, 1, 0xff}) // blocks 1 to 1, groups of 1, and a list that ends too early
		if (err != nil) != known {
			t.Errorf("list %d: %v, %v", list, c, err)
		}
	}
}

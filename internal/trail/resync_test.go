package trail_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// blockAt is where a block of a file stands.
type blockAt struct {
	number     uint64
	start, end int64
}

// textBlocks writes a stream of blocks of different sizes, each with one record that
// has the block's number in its text.
func textBlocks(t *testing.T, dir string, rnd *rand.Rand, n int) (s *trailtest.Stream, all []blockAt) {
	s = trailtest.NewStream(t, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	for i := range n {
		before, _ := os.Stat(s.SegmentPath(1))
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(session, trailtest.Epoch+int64(i), fmt.Sprint(i+1, " ", randomText(rnd, rnd.IntN(300)))))
		s.Write(t, b)
		after, _ := os.Stat(s.SegmentPath(1))
		all = append(all, blockAt{uint64(i + 1), before.Size(), after.Size()})
	}
	return s, all
}

func randomText(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + rnd.IntN(26))
	}
	return string(b)
}

// readable are the numbers of the blocks that can be read, in the order of the index.
func readable(t *testing.T, dir string) (all []uint64) {
	var files trail.Files
	defer files.Close()
	x := trailtest.Open(t, dir).Index()
	for _, ref := range x.Streams[0].Refs() {
		var b format.Block
		var r format.Record
		if files.Read(&ref, &b) == nil && b.Next(&r) == nil {
			all = append(all, ref.Number)
		}
	}
	return all
}

// Bytes that are missing, inserted or changed anywhere hide none of the blocks that they
// are not in: neither from those who read a trail, nor from those who follow it.
func TestMissingBytesHideNoOtherBlock(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 9))
	for round := range 400 {
		dir := t.TempDir()
		s, all := textBlocks(t, dir, rnd, 8)
		whole, _ := os.ReadFile(s.SegmentPath(1))
		from := format.SegmentHeaderSize + rnd.Int64N(int64(len(whole))-format.SegmentHeaderSize)
		length := 1 + rnd.Int64N([]int64{8, 50, 800}[rnd.IntN(3)])
		if k := rnd.IntN(len(all)); rnd.IntN(4) == 0 { // as many as another block has
			length = all[k].end - all[k].start
		}
		to := min(from+length, int64(len(whole)))
		how := []string{"cut", "insert", "change"}[round%3]
		var image []byte
		switch how {
		case "cut":
			image = slices.Concat(whole[:from], whole[to:])
		case "insert":
			image, to = slices.Concat(whole[:from], []byte(randomText(rnd, int(length))), whole[from:]), from
		case "change":
			image = slices.Clone(whole)
			for i := from; i < to; i++ {
				image[i] ^= 0x55
			}
		}
		room := rnd.IntN(3) == 0
		if room {
			image = append(image, make([]byte, 3000)...)
		}
		os.WriteFile(s.SegmentPath(1), image, 0o600)
		if rnd.IntN(2) == 0 && !room {
			s.Rotate(t, trailtest.Epoch)
			s.Write(t, trailtest.NewBuilder(trailtest.Epoch))
		}
		var want []uint64
		for _, b := range all {
			inside := b.end > from && b.start < to
			if from == to {
				inside = b.start < from && from < b.end
			}
			if !inside {
				want = append(want, b.number)
			}
		}
		name := fmt.Sprintf("round %d: %s of %d bytes at %d, room %t", round, how, length, from, room)
		if got := readable(t, dir); !slices.Equal(got, want) {
			t.Errorf("%s: blocks %d, want %d", name, got, want)
		}
	}
}

// Who follows a trail sees the block behind a shortened one as soon as it is there.
func TestFollowingSeesTheBlockBehindAShortenedOne(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 10))
	for _, cut := range []int64{1, 8, 30, 50} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		f := follow(t, dir)
		f.expect()
		session := trailtest.NewSession(trailtest.Epoch, 1)
		var image []byte
		var texts []string
		for i := range 3 {
			texts = append(texts, randomText(rnd, 100))
			b := trailtest.NewBuilder(trailtest.Epoch)
			b.Add(trailtest.Note(session, trailtest.Epoch+int64(i), texts[i]))
			block := s.Finish(b)
			if i == 1 {
				block = slices.Concat(block[:format.BlockHeaderSize+10], block[format.BlockHeaderSize+10+cut:])
			}
			image = append(image, block...)
		}
		s.Raw(t, image)
		f.expect(texts[0], texts[2])
	}
}

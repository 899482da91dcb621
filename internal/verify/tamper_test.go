package verify

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// The tamper suite: a trail that a server has recorded (two streams of four
// segments, two runs, two keys, LZ4) is altered at random places in every way that
// docs/proof.md lists, and every alteration must be found.
//
// A run does the same each time; another seed makes other choices:
//
//	STENO_TAMPER=1000 STENO_TAMPER_SEED=$RANDOM go test ./internal/verify -run Alteration -v

// sealedTrails has a sealed trail, its key and its anchors.
const sealedTrails = "testdata/sealed.tar.gz"

// finder is the least that finds an alteration.
type finder int

const (
	byItself finder = iota // the trail alone
	byKey
	byAnchor
)

// tampering is one way to alter a trail.
type tampering struct {
	name  string
	found finder
	what  string // regular expression: one of the problems says this
	alter func(r *rand.Rand, f files) files
}

// pick takes a stream and a segment; of several, that are not the last, if so.
func pick(r *rand.Rand, f files, last bool) (stream uint32, segment uint64) {
	stream = uint32(r.IntN(len(f)))
	n := len(f[stream])
	if !last {
		n--
	}
	return stream, uint64(1 + r.IntN(n))
}

// inside picks a place in a segment's bytes, and how many from there on; never in
// the last block of a stream, where an unfinished write looks alike.
func inside(r *rand.Rand, f files, most int) (data []byte, at, n int) {
	s, seg := pick(r, f, true)
	data = f[s][seg]
	end := len(data)
	if b := blocks(data); seg == uint64(len(f[s])) {
		end = b[len(b)-2]
	}
	at = r.IntN(end)
	return data, at, 1 + r.IntN(min(most, end-at))
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// segmentOf puts a segment's bytes back.
func (f files) replace(old, data []byte) {
	for _, segments := range f {
		for n := range segments {
			if &segments[n][0] == &old[0] {
				segments[n] = data
				return
			}
		}
	}
	panic("no such segment")
}

// blockOf picks one block of a segment, and another one after it.
func blockOf(r *rand.Rand, f files) (data []byte, at []int, i, j int) {
	for {
		s, seg := pick(r, f, true)
		data = f[s][seg]
		at = blocks(data)
		if n := len(at) - 1; n >= 3 {
			i = r.IntN(n - 2)
			return data, at, i, i + 1 + r.IntN(n-2-i)
		}
	}
}

var bytewise = []tampering{
	{"a bit flipped", byItself, `checksum|chain is broken|no block starts here|not a segment|unfinished|missing|format version|flags`, func(r *rand.Rand, f files) files {
		s, seg := pick(r, f, true)
		f[s][seg][r.IntN(len(f[s][seg]))] ^= 1 << r.IntN(8)
		return f
	}},
	{"bytes overwritten", byItself, `checksum|no block starts here|not a segment|unfinished`, func(r *rand.Rand, f files) files {
		data, at, n := inside(r, f, 300)
		data[at] ^= 0x55
		fill(r, data[at+1:at+n])
		return f
	}},
	{"bytes zeroed", byItself, `checksum|no block starts here|not a segment|unfinished`, func(r *rand.Rand, f files) files {
		data, at, n := inside(r, f, 2000)
		clear(data[at : at+n])
		data[at] = ^data[at]
		return f
	}},
	{"bytes taken out", byItself, `checksum|no block starts here|not a segment|unfinished|cannot be|expected|more than once|missing`, func(r *rand.Rand, f files) files {
		data, at, n := inside(r, f, 500)
		f.replace(data, slices.Delete(slices.Clone(data), at, at+n))
		return f
	}},
	{"bytes put in", byItself, `checksum|no block starts here|not a segment|unfinished`, func(r *rand.Rand, f files) files {
		data, at, n := inside(r, f, 500)
		put := make([]byte, n)
		fill(r, put)
		f.replace(data, slices.Insert(slices.Clone(data), at, put...))
		return f
	}},
	{"block removed", byItself, `found block \d+ where block \d+ is expected`, func(r *rand.Rand, f files) files {
		data, at, i, _ := blockOf(r, f)
		f.replace(data, slices.Delete(slices.Clone(data), at[i], at[i+1]))
		return f
	}},
	{"block doubled", byItself, `found block \d+ where block \d+ is expected`, func(r *rand.Rand, f files) files {
		data, at, i, j := blockOf(r, f)
		f.replace(data, slices.Insert(slices.Clone(data), at[j+1], data[at[i]:at[i+1]]...))
		return f
	}},
	{"blocks swapped", byItself, `found block \d+ where block \d+ is expected`, func(r *rand.Rand, f files) files {
		data, at, i, j := blockOf(r, f)
		f.replace(data, slices.Concat(data[:at[i]], data[at[j]:at[j+1]], data[at[i+1]:at[j]], data[at[i]:at[i+1]], data[at[j+1]:]))
		return f
	}},
	{"block of another stream put in", byItself, `chain is broken`, func(r *rand.Rand, f files) files {
		data, at, i, _ := blockOf(r, f)
		other := f[1-binary.LittleEndian.Uint32(data[24:])]
		from := other[uint64(1+r.IntN(len(other)))]
		b := blocks(from)
		k := r.IntN(len(b) - 1)
		f.replace(data, slices.Concat(data[:at[i]], from[b[k]:b[k+1]], data[at[i+1]:]))
		return f
	}},
	{"segment removed", byItself, `segments? \d+ (is|to \d+ are) missing`, func(r *rand.Rand, f files) files {
		s, seg := pick(r, f, false)
		delete(f[s], seg)
		return f
	}},
	{"segments swapped", byItself, `header says that this is segment`, func(r *rand.Rand, f files) files {
		s, seg := pick(r, f, false)
		f[s][seg], f[s][seg+1] = f[s][seg+1], f[s][seg]
		return f
	}},
	{"segment copied over another", byItself, `header says that this is segment`, func(r *rand.Rand, f files) files {
		s, seg := pick(r, f, false)
		f[s][seg] = f[s][seg+1]
		return f
	}},
	{"stream copied over another", byItself, `header says that this is stream`, func(r *rand.Rand, f files) files {
		f[1] = f[0]
		return f
	}},
	{"stream copied beside the others", byItself, `header says that this is stream`, func(r *rand.Rand, f files) files {
		f[2] = f[uint32(r.IntN(2))]
		return f
	}},
	{"streams swapped", byItself, `header says that this is stream`, func(r *rand.Rand, f files) files {
		f[0], f[1] = f[1], f[0]
		return f
	}},
	{"stream of another server", byItself, `belongs to another server`, func(r *rand.Rand, f files) files {
		other := r.Uint64()
		for _, data := range f[uint32(r.IntN(2))] {
			binary.LittleEndian.PutUint64(data[16:], other)
			trailtest.SealSegment(data[:format.SegmentHeaderSize])
		}
		return f
	}},
	{"first stream removed", byItself, `stream 0 is missing`, func(r *rand.Rand, f files) files {
		delete(f, 0)
		return f
	}},
	{"last stream removed", byAnchor, `named by anchor .*, does not exist`, func(r *rand.Rand, f files) files {
		delete(f, 1)
		return f
	}},
	{"end cut off", byAnchor, `named by anchor .*, does not exist`, func(r *rand.Rand, f files) files {
		return f.cut(r, uint32(r.IntN(2)), false)
	}},
	{"end cut off after a block", byAnchor, `named by anchor .*, does not exist`, func(r *rand.Rand, f files) files {
		return f.cut(r, uint32(r.IntN(2)), true)
	}},
	{"last segments removed", byAnchor, `named by anchor .*, does not exist`, func(r *rand.Rand, f files) files {
		s := uint32(r.IntN(2))
		from := uint64(2 + r.IntN(len(f[s])-1))
		maps.DeleteFunc(f[s], func(n uint64, _ []byte) bool { return n >= from })
		return f
	}},
	{"a block behind the end of the stopped run", byKey, `follows the seal that ended a run`, func(r *rand.Rand, f files) files {
		return f.appended(uint32(r.IntN(2)), 1+r.IntN(4), false)
	}},
	{"a segment behind the end of the stopped run", byKey, `follows the seal that ended a run`, func(r *rand.Rand, f files) files {
		return f.appended(uint32(r.IntN(2)), 1+r.IntN(4), true)
	}},
	{"the seal of a stop cut off, or replaced", byAnchor, `does not have the seal of anchor|the seal of anchor .* does not exist`, func(r *rand.Rand, f files) files {
		s := uint32(r.IntN(2))
		last := uint64(len(f[s]))
		at := blocks(f[s][last])
		f[s][last] = f[s][last][:at[len(at)-2]]
		return f.appended(s, r.IntN(4), false)
	}},
	{"an older copy", byAnchor, `named by anchor .*, does not exist`, func(r *rand.Rand, f files) files {
		return f.cut(r, 0, true).cut(r, 1, true)
	}},
}

// cut takes off the end of a stream, at least the last sealed block.
func (f files) cut(r *rand.Rand, s uint32, whole bool) files {
	seg := uint64(1 + r.IntN(len(f[s])))
	data := f[s][seg]
	at := blocks(data)
	if len(at) < 3 {
		return f.cut(r, s, whole)
	}
	end := at[r.IntN(len(at)-2)]
	if !whole {
		end = format.SegmentHeaderSize + r.IntN(at[len(at)-3]-format.SegmentHeaderSize+1)
	}
	f[s][seg] = data[:end]
	maps.DeleteFunc(f[s], func(n uint64, _ []byte) bool { return n > seg })
	return f
}

// forging is a change of records by somebody who makes everything else right.
type forging struct {
	name   string
	change func(r *rand.Rand, f *forgery)
}

// item picks an item that matches, with its block.
func (f *forgery) item(r *rand.Rand, match func(*forgedItem) bool) (*forgedBlock, int) {
	for {
		list := f.streams[uint32(r.IntN(len(f.streams)))].all()
		b := list[r.IntN(len(list))]
		if len(b.items) == 0 {
			continue
		}
		if i := r.IntN(len(b.items)); match(b.items[i]) {
			return b, i
		}
	}
}

func ofKind(kinds ...format.Kind) func(*forgedItem) bool {
	return func(i *forgedItem) bool {
		return i.data == nil && i.record.Parts == [3]uint64{} && slices.Contains(kinds, i.record.Kind)
	}
}

var forgings = []forging{
	{"record removed", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindStatement, format.KindTransaction, format.KindConnect))
		gone := b.items[i]
		f.removeItems(func(item *forgedItem) bool { return item == gone })
	}},
	{"record inserted", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindStatement))
		before := b.items[i]
		forged := *before.record
		forged.Text = "SELECT 'never run'"
		f.renumber(func(id format.SessionID, seq uint64) int64 {
			if id == before.id && seq > before.seq {
				return 1
			}
			return 0
		})
		forged.Seq = before.seq + 1
		b.items = slices.Insert(b.items, i+1, &forgedItem{id: before.id, seq: forged.Seq, record: &forged})
	}},
	{"records exchanged", func(r *rand.Rand, f *forgery) {
		a, i := f.item(r, ofKind(format.KindStatement))
		x := a.items[i].record
		b, j := f.item(r, func(item *forgedItem) bool {
			return ofKind(format.KindStatement)(item) && item.record.Duration != x.Duration
		})
		y := b.items[j].record
		ofX, ofY := *x, *y
		exchange := func(to *trailtest.Record, place, content *trailtest.Record) {
			*to = *content
			to.Session, to.Seq, to.Statement, to.Time, to.Depth, to.Substatement = place.Session, place.Seq, place.Statement, place.Time, place.Depth, place.Substatement
		}
		exchange(x, &ofX, &ofY)
		exchange(y, &ofY, &ofX)
	}},
	{"text changed", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindStatement))
		b.items[i].record.Text = "SELECT 'harmless'"
	}},
	{"rows changed", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindStatement))
		b.items[i].record.Rows += 1 + uint64(r.IntN(5))
	}},
	{"time changed", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindStatement))
		b.items[i].record.Time -= 1 + r.Int64N(3600*1e6)
	}},
	{"user changed", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindStatement))
		item := b.items[i].record
		item.Session = item.Session.With(trailtest.Fact{Key: format.KeyUser, Value: "nobody"})
	}},
	{"outcome changed", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindStatement))
		item := b.items[i].record
		if item.Outcome = format.OutcomeOk; item.SQLState == "" {
			item.Outcome, item.SQLState, item.Message = format.OutcomeError, "42501", "permission denied"
		} else {
			item.SQLState, item.Message = "", ""
			item.Fields &^= format.FieldError | format.FieldOutcome
		}
	}},
	{"session removed", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindConnect))
		id := b.items[i].id
		f.removeItems(func(item *forgedItem) bool { return item.id == id })
	}},
	{"records removed under a gap record", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindStatement))
		gone := b.items[i]
		forged := &trailtest.Record{Kind: format.KindGap, Session: gone.record.Session, Seq: gone.seq + 1, Time: gone.record.Time, Extra: []string{
			"count", "1", "first_seq", fmt.Sprint(gone.seq), "last_seq", fmt.Sprint(gone.seq), "reason", "ring full",
		}}
		f.renumber(func(id format.SessionID, seq uint64) int64 {
			if id == gone.id && seq > gone.seq {
				return 1
			}
			return 0
		})
		b.items[i] = &forgedItem{id: gone.id, seq: gone.seq + 1, record: forged}
	}},
	{"block removed", func(r *rand.Rand, f *forgery) {
		b, i := f.item(r, ofKind(format.KindStatement))
		gone := map[*forgedItem]bool{}
		for _, item := range b.items {
			gone[item] = true
		}
		_ = i
		f.removeItems(func(item *forgedItem) bool { return gone[item] })
	}},
	{"blocks reordered", func(r *rand.Rand, f *forgery) {
		for {
			list := f.streams[uint32(r.IntN(len(f.streams)))].segments
			seg := list[r.IntN(len(list))].blocks
			if len(seg) < 2 {
				continue
			}
			i := r.IntN(len(seg) - 1)
			seg[i], seg[i+1] = seg[i+1], seg[i]
			return
		}
	}},
	{"segment removed", func(r *rand.Rand, f *forgery) {
		s := f.streams[uint32(r.IntN(len(f.streams)))]
		at := r.IntN(len(s.segments) - 1)
		gone := map[*forgedItem]bool{}
		for _, b := range s.segments[at].blocks {
			for _, item := range b.items {
				gone[item] = true
			}
		}
		s.segments = slices.Delete(s.segments, at, at+1)
		lost := map[format.SessionID][]uint64{}
		for item := range gone {
			if item.data == nil && item.seq != 0 {
				lost[item.id] = append(lost[item.id], item.seq)
			}
		}
		f.renumber(func(id format.SessionID, seq uint64) int64 {
			n := int64(0)
			for _, g := range lost[id] {
				if g < seq {
					n--
				}
			}
			return n
		})
	}},
	{"stream copied over another", func(r *rand.Rand, f *forgery) {
		f.streams[1] = f.streams[0]
		// its sessions get other process ids, as if they were others
		f.streams[0] = f.streams[0].copy()
		sessions := map[*trailtest.Session]*trailtest.Session{}
		states := map[format.SessionID]*trailtest.Session{}
		for _, b := range f.streams[1].all() {
			for _, item := range b.items {
				old := item.record.Session
				if sessions[old] == nil {
					id := format.SessionID{Start: old.Start, PID: old.PID + 100000}
					if states[id] == nil {
						states[id] = trailtest.NewSession(id.Start, id.PID)
					}
					sessions[old] = states[id].With(old.Facts...)
				}
				item.record.Session, item.id = sessions[old], format.SessionID{Start: old.Start, PID: old.PID + 100000}
			}
		}
	}},
	{"another server's trail", func(r *rand.Rand, f *forgery) {
		for _, s := range f.streams {
			for _, seg := range s.segments {
				seg.header = slices.Clone(seg.header)
				binary.LittleEndian.PutUint64(seg.header[16:], 4711)
			}
		}
	}},
}

// copy gives a stream items of its own.
func (s *forgedStream) copy() *forgedStream {
	c := &forgedStream{}
	for _, seg := range s.segments {
		cs := &forgedSegment{header: seg.header}
		for _, b := range seg.blocks {
			cb := &forgedBlock{codec: b.codec, created: b.created, image: b.image, before: b.before}
			for _, i := range b.items {
				ci, cr := *i, *i.record
				ci.record, cr.Extra = &cr, slices.Clone(cr.Extra)
				cb.items = append(cb.items, &ci)
			}
			cb.were = slices.Clone(cb.items)
			cs.blocks = append(cs.blocks, cb)
		}
		c.segments = append(c.segments, cs)
	}
	return c
}

// suite is the trail, and what it is held against.
type suite struct {
	original files
	keys     seal.Keys
	anchors  []*seal.Anchor
}

func newSuite(t testing.TB) *suite {
	t.Helper()
	sealedTrail := filepath.Join(trailtest.Unpack(t, sealedTrails), "sealed")
	keys, err := seal.LoadKeys([]string{sealedTrail + ".pub"})
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(sealedTrail + ".anchors")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	anchors, err := seal.ParseAnchors(in, "anchors")
	if err != nil {
		t.Fatal(err)
	}
	return &suite{readFiles(t, sealedTrail), keys, anchors}
}

// verify returns what is found with the trail alone, with the key, and with the
// anchors, too.
func (s *suite) verify(t testing.TB, f files) (reports [3]*Report) {
	t.Helper()
	dir := t.TempDir()
	f.write(t, dir)
	for i, checks := range []Checks{{}, {Keys: s.keys}, {Keys: s.keys, Anchors: s.anchors}} {
		tr, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if reports[i], err = Trail(context.Background(), tr, nil, checks); err != nil {
			t.Fatal(err)
		}
	}
	return reports
}

// forge changes records of the trail. What comes out at times is the trail as it once
// was, whole up to one of its blocks, such as when its last block, of a seal alone, and the
// one before are exchanged, and all seals behind that taken out: then it is done
// again, for nobody has altered anything.
func (s *suite) forge(t testing.TB, r *rand.Rand, one forging, how sealing) files {
	t.Helper()
	for {
		forged := apart(t, s.original)
		one.change(r, forged)
		if f := forged.together(how); !s.asItWas(f) {
			return f
		}
	}
}

// asItWas reports whether each stream is the original's, or its beginning, and all that
// anchors name is there.
func (s *suite) asItWas(f files) bool {
	for number, segments := range s.original {
		there := uint64(0)
		for n, data := range segments {
			part := f[number][n]
			if !bytes.HasPrefix(data, part) || len(part) < len(data) && f[number][n+1] != nil {
				return false
			}
			if len(part) > 0 {
				there += uint64(len(blocks(part)) - 1)
			}
		}
		if slices.ContainsFunc(s.anchors, func(a *seal.Anchor) bool { return a.Stream == number && a.Block > there }) {
			return false
		}
	}
	return true
}

func says(r *Report, what string) bool {
	re := regexp.MustCompile(what)
	return slices.ContainsFunc(slices.Concat(r.Problems, r.Unreadable), func(p Problem) bool { return re.MatchString(p.What) })
}

// TestUntouchedTrailIsWhole is what the tamper suite is to be measured by: no
// false alarm.
func TestUntouchedTrailIsWhole(t *testing.T) {
	s := newSuite(t)
	for i, r := range s.verify(t, s.original) {
		if !r.Whole || len(r.Warnings) > 0 {
			t.Errorf("%d: %v %v", i, r.Problems, r.Warnings)
		}
	}
	// A beginning that ends with a whole block was once the trail.
	for end := 2; end < 30; end++ {
		f := s.original.clone()
		for n := range f {
			seg := f[n][3]
			at := blocks(seg)
			f[n][3] = seg[:at[min(end, len(at)-1)]]
			delete(f[n], 4)
		}
		if r := s.verify(t, f); !r[0].Whole || !r[1].Whole {
			t.Errorf("as it was after %d blocks of its third segments: %v", end, r[1].Problems)
		}
	}
}

// TestForgerMakesEverythingRight checks the suite itself: with seals by another
// key, what it writes is a whole trail to who has not the key.
func TestForgerMakesEverythingRight(t *testing.T) {
	s := newSuite(t)
	for _, how := range []sealing{sealsOwn, sealsFaked, sealsGone} {
		f := apart(t, s.original)
		for _, stream := range f.streams {
			stream.segments[0].blocks[0].items[0].record.Time--
		}
		r := s.verify(t, f.together(how))
		if !r[0].Whole {
			t.Errorf("%s: %v", how, r[0].Problems)
		}
		if r[1].Whole {
			t.Errorf("%s: not found with the key", how)
		}
	}
}

// TestSealsThatAreTakenOutAreMissed takes out the seals behind a change: the last
// one that is left says when the next one is due.
func TestSealsThatAreTakenOutAreMissed(t *testing.T) {
	s := newSuite(t)
	for want, segment := range map[string]int{
		"segment 2 ends without a seal, although its writer seals": 1,
		"seals are missing: the last one before was made at":       2,
		"there is no seal in stream":                               0,
	} {
		f := apart(t, s.original)
		for _, stream := range f.streams {
			b := stream.segments[segment].blocks[0]
			b.items[len(b.items)-1].record.Time--
		}
		reports := s.verify(t, f.together(sealsGone))
		if !reports[0].Whole || !says(reports[1], want) {
			t.Errorf("%q: %v, with the key %v", want, reports[0].Problems, reports[1].Problems)
		}
	}
}

// TestSegmentEndsThatNobodyExplainsAreTold takes out the seal at a segment's end, and all that
// stands behind the next segment's first block: the writer may have lost the
// segment's place just now, so it is a warning.
func TestSegmentEndsThatNobodyExplainsAreTold(t *testing.T) {
	s := newSuite(t)
	f := apart(t, s.original)
	for _, stream := range f.streams {
		stream.segments = stream.segments[:3]
		ended, next := stream.segments[1], stream.segments[2]
		last := ended.blocks[len(ended.blocks)-1].items
		f.removeItems(func(i *forgedItem) bool { return slices.Contains(last, i) })
		next.blocks = next.blocks[:1]
	}
	r := s.verify(t, f.together(sealsGone))[1]
	told := 0
	for _, w := range r.Warnings {
		if strings.Contains(w.What, "segment 2 ends without a seal, and no later seal explains why") {
			told++
		}
	}
	if !r.Whole || told != len(f.streams) {
		t.Errorf("%v, warnings %v", r.Problems, r.Warnings)
	}
}

// appended puts forged blocks behind the end of a stream, made right: in a segment of
// their own, if so.
func (f files) appended(stream uint32, count int, segment bool) files {
	return f.appendedAt(stream, count, segment, 0)
}

// appendedAt does so some microseconds after the stream's end.
func (f files) appendedAt(stream uint32, count int, segment bool, later int64) files {
	le := binary.LittleEndian
	n := uint64(len(f[stream]))
	data := slices.Clone(f[stream][n])
	at := blocks(data)
	last := data[at[len(at)-2]:]
	block, record := le.Uint64(last[24:])+1, le.Uint64(last[32:])+uint64(le.Uint32(last[16:]))
	chain := [32]byte(last[72:104])
	if segment {
		h := slices.Clone(data[:format.SegmentHeaderSize])
		n++
		le.PutUint64(h[32:], n)
		le.PutUint64(h[48:], block)
		le.PutUint64(h[56:], record)
		copy(h[64:], chain[:])
		trailtest.SealSegment(h)
		chain, data = sha256.Sum256(h), h
	}
	now := int64(le.Uint64(last[56:])) + later
	session := trailtest.NewSession(now, 4711)
	for i := range count {
		b := trailtest.NewBuilder(now)
		b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Text: fmt.Sprint("forged ", i), Time: now})
		data = append(data, b.Finish(format.CodecLz4, block, record, &chain)...)
		block++
		record++
	}
	f[stream][n] = data
	return f
}

// TestNothingFollowsTheEndOfAStoppedRun puts blocks and segments behind the seal that a
// server made when it was stopped, with all but a seal right.
func TestNothingFollowsTheEndOfAStoppedRun(t *testing.T) {
	s := newSuite(t)
	for _, segment := range []bool{false, true} {
		for n := range 3 {
			for stream := range uint32(2) {
				r := s.verify(t, s.original.clone().appended(stream, n, segment))
				switch {
				case n == 0:
					if !r[1].Whole || segment != (len(r[1].Warnings) > 0) {
						t.Errorf("an empty segment: %v, warnings %v", r[1].Problems, r[1].Warnings)
					}
				case !r[0].Whole:
					t.Errorf("%d blocks, segment %t: not forged well: %v", n, segment, r[0].Problems)
				case !says(r[1], `block \d+ follows the seal that ended a run of the server`):
					t.Errorf("%d blocks, segment %t: %v", n, segment, r[1].Problems)
				}
			}
		}
	}
}

// TestTheSealOfAnAnchorIsNotReplaced cuts off the seal that ended a run, which the anchors name, and puts forged blocks
// in its place, and behind it, with all but a seal right.
func TestTheSealOfAnAnchorIsNotReplaced(t *testing.T) {
	s := newSuite(t)
	for _, a := range s.anchors {
		if !a.Signed || a.Reason != seal.ReasonStop {
			t.Fatalf("anchor %s is not that of a stop", a)
		}
	}
	for stream := range uint32(2) {
		for n := range 4 {
			f := s.original.clone()
			last := uint64(len(f[stream]))
			at := blocks(f[stream][last])
			f[stream][last] = f[stream][last][:at[len(at)-2]]
			r := s.verify(t, f.appended(stream, n, false))
			want := `does not have the seal of anchor`
			if n == 0 {
				want = `the seal of anchor .* does not exist in stream`
			}
			if !r[0].Whole || !r[1].Whole || !says(r[2], want) {
				t.Errorf("%d blocks: %v, with the key %v, with anchors %v", n, r[0].Problems, r[1].Problems, r[2].Problems)
			}
			if n == 0 {
				continue
			}
			f = s.original.clone().appended(stream, n, false)
			dir := t.TempDir()
			f.write(t, dir)
			tr, err := trail.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			only, err := Trail(context.Background(), tr, nil, Checks{Anchors: s.anchors})
			if err != nil || !says(only, `follows the seal of anchor .*, which ended a run`) {
				t.Errorf("%d blocks behind the seal, without the key: %v, %v", n, only.Problems, err)
			}
		}
	}
}

// TestALateLastBlockIsTold has a last block that ended long after the next seal was due: it may be right, so it is a
// warning.
func TestALateLastBlockIsTold(t *testing.T) {
	s := newSuite(t)
	told := func(later int64) bool {
		f := s.original.clone()
		last := uint64(len(f[0]))
		at := blocks(f[0][last])
		f[0][last] = f[0][last][:at[len(at)-2]] // the seal of the stop
		f = f.appendedAt(0, 1, false, later)
		r := s.verify(t, f)[1]
		if !r.Whole {
			t.Errorf("%d: %v", later, r.Problems)
		}
		return slices.ContainsFunc(r.Warnings, func(p Problem) bool { return strings.Contains(p.What, "the last one of stream 0, ended at") })
	}
	if told(0) || !told(3600*1e6) {
		t.Errorf("told of one that came in time: %t; of one that did not: %t", told(0), told(3600*1e6))
	}
}

// TestNothingStandsBetweenTwoRuns puts a block between the seal that ended a run and the one
// that began the next, as if the next run had found it there.
func TestNothingStandsBetweenTwoRuns(t *testing.T) {
	s := newSuite(t)
	// what the second run's key does not seal any more, the forger seals as that run would have
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{77}, ed25519.SeedSize))
	public := key.Public().(ed25519.PublicKey)
	keys := maps.Clone(s.keys)
	keys[seal.KeyID(public)] = public
	f := s.original.clone().appended(0, 1, false)
	n := uint64(len(f[0]))
	data := f[0][n]
	at := blocks(data)
	last := data[at[len(at)-2]:]
	h, err := format.ParseSegmentHeader(data[:format.SegmentHeaderSize])
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	block, record, now := le.Uint64(last[24:]), le.Uint64(last[32:]), int64(le.Uint64(last[56:]))
	chain := [32]byte(last[72:104])
	start := seal.Seal{SystemID: h.SystemID, Stream: 0, Segment: n, Block: block, Record: record, First: block + 1, Interval: 60, Time: now, Hash: chain, Reason: seal.ReasonStart}
	b := trailtest.NewBuilder(now)
	b.Add(&trailtest.Record{Kind: format.KindSeal, Session: trailtest.NewSession(now, 4712), Time: now, Extra: []string{
		"reason", start.Reason, "block", fmt.Sprint(block), "record", fmt.Sprint(record), "hash", hex.EncodeToString(chain[:]), "first", fmt.Sprint(start.First),
		"interval", "60", "key", seal.KeyID(public), "signature", hex.EncodeToString(ed25519.Sign(key, start.Bytes())),
	}})
	f[0][n] = append(data, b.Finish(format.CodecLz4, block+1, record+1, &chain)...)
	r := (&suite{original: s.original, keys: keys, anchors: s.anchors}).verify(t, f)
	if !r[0].Whole || !says(r[1], fmt.Sprintf(`block %d follows the seal that ended a run`, block)) {
		t.Errorf("%v, with the key %v", r[0].Problems, r[1].Problems)
	}
}

// branch begins stream 2 with the record of a branch from stream 0.
func (f files) branch(t testing.TB, reason string, block uint64, hash [32]byte, found uint64, more ...string) files {
	t.Helper()
	h := slices.Clone(f[1][1][:format.SegmentHeaderSize])
	binary.LittleEndian.PutUint32(h[24:], 2)
	trailtest.SealSegment(h)
	chain := sha256.Sum256(h)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindServer, Session: trailtest.NewSession(trailtest.Epoch, 4713), Time: trailtest.Epoch, Extra: append([]string{
		"event", "branch", "reason", reason, "stream", "0", "block", fmt.Sprint(block), "hash", hex.EncodeToString(hash[:]), "found", fmt.Sprint(found),
		"run", "r", "system_identifier", "1", "timeline", "1", "host", "h", "data_directory", "/d",
	}, more...)})
	f[2] = map[uint64][]byte{1: append(h, b.Finish(format.CodecLz4, 1, 1, &chain)...)}
	return f
}

// TestBranchesSayWhatCounts holds a stream against the record that began another one beside
// it.
func TestBranchesSayWhatCounts(t *testing.T) {
	s := newSuite(t)
	segments := s.original[0]
	data := segments[uint64(len(segments))]
	at := blocks(data)
	le := binary.LittleEndian
	end := data[at[len(at)-2]:]
	block, hash := le.Uint64(end[24:]), [32]byte(end[72:104])
	before := data[at[len(at)-3]:]
	for _, one := range []struct {
		name, reason, want string
		f                  files
		block              uint64
		hash               [32]byte
	}{
		{"a copy", trail.ReasonCopy, "", s.original.clone(), block, hash},
		{"a copy that went on", trail.ReasonCopy, `^block \d+ of stream 0 was not written by the server: it found the stream without them`, s.original.clone(), block - 1, [32]byte(before[72:104])},
		{"foreign blocks", trail.ReasonForeign, `^blocks \d+ to \d+ of stream 0 were not written by the server: its start at`, s.original.clone().appended(0, 2, false), block, hash},
		{"foreign blocks in a segment", trail.ReasonForeign, `^block \d+ of stream 0 was not written by the server: its start at`, s.original.clone().appended(0, 1, true), block, hash},
		{"foreign blocks taken away", trail.ReasonForeign, "", s.original.clone(), block, hash},
		{"altered", trail.ReasonAltered, `^block \d+ of stream 0 is not the one that the server had written`, s.original.clone(), block, [32]byte{1}},
		{"cut off", trail.ReasonCut, `^stream 0 ends with block \d+, but had \d+ blocks`, s.original.clone(), block + 1, hash},
		{"nothing written", trail.ReasonForeign, `^blocks 1 to \d+ of stream 0 were not written by the server`, s.original.clone(), 0, [32]byte{}},
	} {
		r := s.verify(t, one.f.branch(t, one.reason, one.block, one.hash, block))[0]
		if len(r.Branches) != 1 || one.want == "" != r.Whole || one.want != "" && !says(r, one.want) {
			t.Errorf("%s: %v %v", one.name, r.Branches, r.Problems)
		}
		r = s.verify(t, one.f.branch(t, one.reason, one.block, one.hash, block, "unused", "true"))[0]
		if len(r.Branches) != 1 || !r.Branches[0].Unused || one.want == "" != r.Whole || one.want != "" && !says(r, one.want) {
			t.Errorf("%s, of an unused stream: %v %v", one.name, r.Branches, r.Problems)
		}
	}
	gone := s.original.clone()
	delete(gone, 0)
	if r := s.verify(t, gone.branch(t, trail.ReasonGone, block, hash, 0, "unused", "true"))[0]; !says(r, `^stream 0 is missing: the server had written it up to block \d+`) {
		t.Errorf("an unused stream that is gone: %v", r.Problems)
	}
}

func TestEveryAlterationIsFound(t *testing.T) {
	runs, seed := 300, uint64(1)
	for name, value := range map[string]func(uint64){
		"STENO_TAMPER":      func(n uint64) { runs = int(n) },
		"STENO_TAMPER_SEED": func(n uint64) { seed = n },
	} {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			value(n)
		}
	}
	t.Logf("STENO_TAMPER=%d STENO_TAMPER_SEED=%d", runs, seed)
	s := newSuite(t)
	found := 0
	by := map[string]*[4]int{}
	count := func(name string, reports [3]*Report) int {
		if by[name] == nil {
			by[name] = &[4]int{}
		}
		by[name][0]++
		for i, r := range reports {
			if !r.Whole {
				by[name][i+1]++
			}
		}
		if !reports[2].Whole {
			found++
		}
		return by[name][0]
	}
	for i := range runs {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wrong := func(name string, report *Report, format string, args ...any) {
			t.Errorf("STENO_TAMPER_SEED=%d, run %d: %s: %s: %v, warnings %v", seed, i, name, fmt.Sprintf(format, args...), report.Problems, report.Warnings)
		}
		if k := i % (len(bytewise) + 2*len(forgings)); k < len(bytewise) {
			one := bytewise[k]
			f := one.alter(r, s.original.clone())
			reports := s.verify(t, f)
			count(one.name, reports)
			for least, report := range reports {
				if finder(least) >= one.found && report.Whole {
					wrong(one.name, report, "not found by %d", least)
				}
			}
			if !says(reports[2], one.what) {
				wrong(one.name, reports[2], "nothing says %q", one.what)
			}
			continue
		}
		one := forgings[(i-len(bytewise))%len(forgings)]
		how := sealing(r.IntN(int(sealings)))
		f := s.forge(t, r, one, how)
		reports := s.verify(t, f)
		name := "forged: " + one.name + ", " + how.String()
		count(name, reports)
		what := map[sealing]string{
			sealsKept:  `is not the one that was sealed|follows block|not that of key`,
			sealsOwn:   `is by key \w+, which was not given`,
			sealsFaked: `signature of the seal of block \d+ at .* is not that of key|which was not given`,
			sealsGone:  `there is no seal in stream \d|seals are missing|ends without a seal|is not the one of anchor|does not exist`,
		}[how]
		at := 1
		if how == sealsGone {
			at = 2 // what comes soon enough after the last seal that is left
		}
		if !says(reports[at], what) {
			wrong(name, reports[at], "nothing says %q", what)
		}
		if reports[2].Whole || how != sealsKept && !reports[0].Whole {
			wrong(name, reports[0], "not found, or not forged well")
		}
	}
	var table strings.Builder
	for _, name := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&table, "%4d %4d %4d %4d  %s\n", by[name][0], by[name][1], by[name][2], by[name][3], name)
	}
	t.Logf("%d of %d alterations found; runs, found without key, with it, and with anchors:\n%s", found, runs, table.String())
	if found != runs {
		t.Errorf("only %d of %d alterations are found", found, runs)
	}
}

// TestStreamsOfRecoveryAreSaidToBe has streams without seals: that which steno recover
// wrote is told from one that lacks them.
func TestStreamsOfRecoveryAreSaidToBe(t *testing.T) {
	for program, want := range map[string]string{
		format.RecoverBackendType: `^there is no seal in stream 0: it was written by steno recover, which has no key`,
		format.WriterBackendType:  `^there is no seal in stream 0$`,
	} {
		dir := t.TempDir()
		stream := trailtest.NewStream(t, dir, 0)
		b := trailtest.NewBuilder(trailtest.Epoch)
		session := trailtest.NewSession(trailtest.Epoch, 1).With(trailtest.Fact{Key: format.KeyBackendType, Value: program})
		b.Add(&trailtest.Record{Kind: format.KindServer, Session: session, Time: trailtest.Epoch, Extra: []string{"event", "recover"}})
		stream.Raw(t, stream.Finish(b))
		tr, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Trail(context.Background(), tr, nil, Checks{Keys: newSuite(t).keys})
		if err != nil || !says(r, want) {
			t.Errorf("%s: %v %v", program, err, r.Problems)
		}
	}
}

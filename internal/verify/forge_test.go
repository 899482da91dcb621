package verify

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// What somebody can do to a trail who can write its files: with the bytes as they
// are (files), or by taking all of it apart to records and writing it anew with
// every number, time, checksum and hash right (forgery).

// files are a trail's segments, as they lie on the disk.
type files map[uint32]map[uint64][]byte

func readFiles(t testing.TB, dir string) files {
	t.Helper()
	all := files{}
	paths, _ := filepath.Glob(dir + "/*/*.steno")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		stream, _ := strconv.ParseUint(filepath.Base(filepath.Dir(path)), 10, 32)
		number, _ := strconv.ParseUint(filepath.Base(path)[:10], 10, 64)
		if all[uint32(stream)] == nil {
			all[uint32(stream)] = map[uint64][]byte{}
		}
		all[uint32(stream)][number] = data
	}
	return all
}

func (f files) clone() files {
	c := files{}
	for s, segments := range f {
		c[s] = map[uint64][]byte{}
		for n, data := range segments {
			c[s][n] = slices.Clone(data)
		}
	}
	return c
}

func (f files) write(t testing.TB, dir string) {
	t.Helper()
	for s, segments := range f {
		folder := filepath.Join(dir, fmt.Sprint(s))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for n, data := range segments {
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%010d.steno", n)), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// blocks are where the blocks of a segment begin, and its end.
func blocks(segment []byte) []int {
	at := []int{format.SegmentHeaderSize}
	for {
		here := at[len(at)-1]
		if here >= len(segment) {
			return at
		}
		at = append(at, here+format.BlockHeaderSize+int(binary.LittleEndian.Uint32(segment[here+8:])))
	}
}

// forgery is a trail as records.
type forgery struct {
	streams map[uint32]*forgedStream
	states  map[format.SessionID]*trailtest.Session // the numbers that all definitions of a session share
	facts   map[string]*trailtest.Session
}

type forgedStream struct {
	segments []*forgedSegment
}

type forgedSegment struct {
	header []byte
	blocks []*forgedBlock
}

type forgedBlock struct {
	codec   format.Codec
	created int64
	items   []*forgedItem
	image   []byte // as it was, with what stood in it and before it
	were    []*forgedItem
	before  [32]byte
}

// same reports whether nothing was changed in the block.
func (b *forgedBlock) same() bool {
	return slices.Equal(b.items, b.were) && !slices.ContainsFunc(b.items, func(i *forgedItem) bool {
		r, was := i.record, &i.was
		return r.Kind != was.Kind || r.Session != was.Session || r.Shape != was.Shape || r.Seq != was.Seq || r.Time != was.Time || r.Text != was.Text ||
			r.Rows != was.Rows || r.Duration != was.Duration || r.Outcome != was.Outcome || r.SQLState != was.SQLState || r.Message != was.Message
	})
}

// forgedItem is a record or a data part.
type forgedItem struct {
	id     format.SessionID
	record *trailtest.Record
	part   format.PartKind
	data   []byte // of a part
	seq    uint64
	was    trailtest.Record
}

// apart takes a trail apart.
func apart(t testing.TB, f files) *forgery {
	t.Helper()
	all := &forgery{map[uint32]*forgedStream{}, map[format.SessionID]*trailtest.Session{}, map[string]*trailtest.Session{}}
	for number, segments := range f {
		s := &forgedStream{}
		all.streams[number] = s
		for n := uint64(1); n <= uint64(len(segments)); n++ {
			data := segments[n]
			seg := &forgedSegment{header: data[:format.SegmentHeaderSize]}
			s.segments = append(s.segments, seg)
			at := blocks(data)
			chain := sha256.Sum256(seg.header)
			for i := range len(at) - 1 {
				b := all.block(t, data[at[i]:at[i+1]])
				b.before, b.were = chain, slices.Clone(b.items)
				for _, i := range b.items {
					i.record.Seq = i.seq
					i.was = *i.record
				}
				copy(chain[:], b.image[72:])
				seg.blocks = append(seg.blocks, b)
			}
		}
	}
	return all
}

func (f *forgery) block(t testing.TB, image []byte) *forgedBlock {
	t.Helper()
	b := format.Block{Image: image}
	if err := b.Load(); err != nil {
		t.Fatal(err)
	}
	to := &forgedBlock{codec: b.Header.Codec, created: b.Header.FirstTime, image: image}
	var r format.Record
	for {
		err := b.Next(&r)
		if err == io.EOF {
			return to
		}
		if err != nil {
			t.Fatal(err)
		}
		item := &forgedItem{id: r.Session.ID(), seq: r.Seq, record: &trailtest.Record{Session: f.session(r.Session)}}
		to.items = append(to.items, item)
		if r.Kind == format.KindData {
			item.part, item.data = r.Part, slices.Clone(r.Data)
			continue
		}
		*item.record = trailtest.Record{
			Kind: r.Kind, Session: item.record.Session, Fields: r.Fields &^ (format.FieldTime | format.FieldSeq | format.FieldStatement), Seq: r.Seq, Unnumbered: r.Seq == 0,
			Statement: r.Statement, Depth: r.Depth, Substatement: r.Substatement, Shape: shape(r.Shape), Text: string(r.Text), Rows: r.Rows,
			Time: r.Time, Duration: r.Duration, Nulls: slices.Clone(r.Nulls), Values: slices.Clone(r.Values), Outcome: r.Outcome,
			SQLState: string(r.SQLState), Message: string(r.Message), XID: r.XID, TextBytes: r.TextBytes, Parts: r.Parts, Audited: r.Audited,
		}
		copy(item.record.TextHash[:], r.TextHash)
		for name, value := range r.ExtraPairs {
			item.record.Extra = append(item.record.Extra, string(name), string(value))
		}
	}
}

func (f *forgery) session(s *format.Session) *trailtest.Session {
	state := f.states[s.ID()]
	if state == nil {
		state = trailtest.NewSession(s.Start, s.PID)
		f.states[s.ID()] = state
	}
	var facts []trailtest.Fact
	for k := format.KeyBackendType; k <= format.KeyAppContext; k++ {
		if v := s.Fact(k); len(v) > 0 {
			facts = append(facts, trailtest.Fact{Key: k, Value: string(v)})
		}
	}
	key := fmt.Sprint(s.ID(), facts)
	if f.facts[key] == nil {
		f.facts[key] = state.With(facts...)
	}
	return f.facts[key]
}

func shape(s *format.Shape) *trailtest.Shape {
	if s == nil {
		return nil
	}
	to := &trailtest.Shape{Class: s.Class, QueryID: s.QueryID, Command: string(s.Command), Params: slices.Clone(s.Params)}
	for _, r := range s.Relations {
		to.Relations = append(to.Relations, trailtest.Relation{Type: r.Type, Access: r.Access, Name: string(r.Name)})
	}
	for _, o := range s.Objects {
		to.Objects = append(to.Objects, trailtest.Object{Action: o.Action, Type: string(o.Type), Name: string(o.Name), To: string(o.To)})
	}
	return to
}

// sealing is what a forger does with the seals.
type sealing int

const (
	sealsKept  sealing = iota // as they are
	sealsOwn                  // made anew with a key of the forger's
	sealsFaked                // and with the id of the right one
	sealsGone                 // taken out
	sealings
)

func (s sealing) String() string {
	return [...]string{"seals kept", "seals by another key", "seals by another key under the right id", "seals taken out"}[s]
}

var forgersKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{66}, ed25519.SeedSize))

// together writes the trail, everything right but the seals' signatures. What
// stands before the first change of a stream stays as it is, seals included.
func (f *forgery) together(how sealing) files {
	if how == sealsGone {
		behind := map[*forgedItem]bool{}
		for _, s := range f.streams {
			changed := false
			for _, seg := range s.segments {
				chain := sha256.Sum256(seg.header)
				for _, b := range seg.blocks {
					changed = changed || b.before != chain || !b.same()
					copy(chain[:], b.image[72:])
					for _, i := range b.items {
						behind[i] = changed
					}
				}
			}
		}
		f.removeItems(func(i *forgedItem) bool { return i.data == nil && i.record.Kind == format.KindSeal && behind[i] })
	}
	out := files{}
	for number, s := range f.streams {
		out[number] = map[uint64][]byte{}
		block, record := uint64(1), uint64(1)
		var last [32]byte
		var times format.TimeRange
		for i, seg := range s.segments {
			h := slices.Clone(seg.header)
			le := binary.LittleEndian
			le.PutUint32(h[24:], number)
			le.PutUint64(h[32:], uint64(i+1))
			le.PutUint64(h[48:], block)
			le.PutUint64(h[56:], record)
			copy(h[64:], last[:])
			if le.Uint64(h[96:]) != 0 {
				le.PutUint64(h[96:], uint64(times.First))
				le.PutUint64(h[104:], uint64(times.LastEnd))
			}
			trailtest.SealSegment(h)
			parsed, err := format.ParseSegmentHeader(h)
			if err != nil {
				panic(err)
			}
			chain := sha256.Sum256(h)
			data := h
			for _, b := range seg.blocks {
				if b.before == chain && b.same() {
					data = append(data, b.image...)
					copy(chain[:], b.image[72:])
					last = chain
					block++
					record += uint64(binary.LittleEndian.Uint32(b.image[16:]))
					continue
				}
				builder := trailtest.NewBuilder(b.created)
				for _, item := range b.items {
					if item.data != nil {
						builder.Data(item.record.Session, item.seq, item.part, string(item.data))
						continue
					}
					if item.record.Kind == format.KindSeal && (how == sealsOwn || how == sealsFaked) {
						reseal(item.record, &parsed, block-1, record-1, last, how)
					}
					r := *item.record
					builder.Add(&r)
				}
				data = append(data, builder.Finish(b.codec, block, record, &chain)...)
				last = chain
				block++
				record += uint64(builder.Records)
			}
			out[number][uint64(i+1)] = data
			times = format.NoTimes()
			ends := blocks(data)
			for _, at := range ends[:len(ends)-1] {
				if h, err := format.ParseBlockHeader(data[at:]); err == nil {
					times.Add(&h)
				}
			}
		}
	}
	return out
}

// reseal makes a seal right for the block before it, with the forger's key.
func reseal(r *trailtest.Record, h *format.SegmentHeader, block, record uint64, hash [32]byte, how sealing) {
	s := seal.Seal{SystemID: h.SystemID, Stream: h.Stream, Segment: h.Number, Block: block, Record: record, Time: r.Time, Hash: hash}
	public := forgersKey.Public().(ed25519.PublicKey)
	set := map[string]*string{}
	for i := 0; i < len(r.Extra); i += 2 {
		set[r.Extra[i]] = &r.Extra[i+1]
	}
	s.Reason = *set["reason"]
	s.First, _ = strconv.ParseUint(*set["first"], 10, 64)
	interval, _ := strconv.ParseUint(*set["interval"], 10, 32)
	s.Interval = uint32(interval)
	if next := set["next_key"]; next != nil {
		s.NextKey = public
		*next = hex.EncodeToString(public)
	}
	*set["block"], *set["record"], *set["hash"] = fmt.Sprint(block), fmt.Sprint(record), hex.EncodeToString(hash[:])
	*set["signature"] = hex.EncodeToString(ed25519.Sign(forgersKey, s.Bytes()))
	if how == sealsOwn {
		*set["key"] = seal.KeyID(public)
	}
}

// removeItems takes out items and numbers those that follow in their sessions
// anew.
func (f *forgery) removeItems(match func(*forgedItem) bool) {
	gone := map[format.SessionID][]uint64{}
	for _, s := range f.streams {
		for _, seg := range s.segments {
			for _, b := range seg.blocks {
				b.items = slices.DeleteFunc(b.items, func(i *forgedItem) bool {
					if !match(i) {
						return false
					}
					if i.data == nil && i.seq != 0 {
						gone[i.id] = append(gone[i.id], i.seq)
					}
					return true
				})
			}
			seg.blocks = slices.DeleteFunc(seg.blocks, func(b *forgedBlock) bool { return len(b.items) == 0 })
		}
	}
	f.renumber(func(id format.SessionID, seq uint64) int64 {
		n := int64(0)
		for _, g := range gone[id] {
			if g < seq {
				n--
			}
		}
		return n
	})
}

// renumber shifts sequence numbers.
func (f *forgery) renumber(shift func(id format.SessionID, seq uint64) int64) {
	for _, s := range f.streams {
		for _, seg := range s.segments {
			for _, b := range seg.blocks {
				for _, i := range b.items {
					if i.seq == 0 {
						continue
					}
					i.seq += uint64(shift(i.id, i.seq))
					i.record.Seq = i.seq
				}
			}
		}
	}
}

// all are the blocks of a stream, in order.
func (s *forgedStream) all() (list []*forgedBlock) {
	for _, seg := range s.segments {
		list = append(list, seg.blocks...)
	}
	return list
}

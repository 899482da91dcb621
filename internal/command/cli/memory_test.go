package cli_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/command/memorytest"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// memoryLimit is what reading a small hostile file may take, in MB, at a time when it
// takes most: a few of the largest blocks, decompressed, and what is made of them.
const memoryLimit = 300

// TestMemoryChild is not a test: it is the process that others measure.
func TestMemoryChild(t *testing.T) { memorytest.Child(t, cli.New) }

// hostile makes a payload of 16 MB of items, of one kind after a few others.
type hostile struct {
	trailtest.Builder
	n int
}

func newHostile() *hostile {
	h := &hostile{Builder: *trailtest.NewBuilder(trailtest.Epoch)}
	h.session(1)
	return h
}

func (h *hostile) session(pid int) {
	body := append(make([]byte, 2, 14), binary.LittleEndian.AppendUint64(nil, uint64(trailtest.Epoch))...)
	h.Item(format.KindDefSession, binary.LittleEndian.AppendUint32(body, uint32(pid)))
}

func uvarints(v ...uint64) (b []byte) {
	for _, n := range v {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func (h *hostile) record(kind format.Kind, fields ...uint64) {
	h.Item(kind, uvarints(fields...))
	h.Records++
}

// fill repeats until the payload is as long as it may be.
func (h *hostile) fill(size int, one func(i int)) {
	for ; len(h.Payload) < size-100; h.n++ {
		one(h.n)
	}
}

const full = 6 << 20

// manyRecords is for payloads of the shortest records, half a million of them: a block is
// read again for each 64 thousand lines, so more take much longer. Taken all at once,
// these need more than memoryLimit.
const manyRecords = 2 << 20

var hostiles = map[string]func(h *hostile){
	"numeric weights": func(h *hostile) {
		shape := uvarints(1, 0, 0, 0, 60_000)
		shape = append(shape, bytes.Repeat([]byte{0x80, 0x10, byte(format.ReprNumeric)}, 60_000)...)
		shape[len(shape)-3*60_000] = 0x80
		h.Item(format.KindDefShape, shape)
		values := bytes.Repeat([]byte{6, 0xff, 0x3f, 0xff, 0x7f, 1, 0}, 60_000)
		for range 6 {
			body := uvarints(0, uint64(format.FieldShape|format.FieldValues), 0, uint64(len(values)))
			h.Item(format.KindStatement, append(body, values...))
			h.Records++
		}
	},
	"a long text of many records": func(h *hostile) {
		h.Item(format.KindDefText, bytes.Repeat([]byte("x"), 15<<20))
		for range 20 {
			h.record(format.KindStatement, 0, uint64(format.FieldText), 0)
		}
	},
	"many texts of control characters": func(h *hostile) {
		for range 14 {
			h.Item(format.KindDefText, bytes.Repeat([]byte{1}, 1<<20))
		}
		for i := range 14 {
			h.record(format.KindStatement, 0, uint64(format.FieldText), uint64(i))
		}
	},
	"many records": func(h *hostile) {
		h.fill(manyRecords, func(int) { h.record(format.KindStatement, 0, 0) })
	},
	"many records of one number": func(h *hostile) {
		h.fill(manyRecords, func(int) { h.record(format.KindStart, 0, uint64(format.FieldSeq), 1) })
	},
	"numbers that jump": func(h *hostile) {
		h.fill(full, func(int) { h.record(format.KindStatement, 0, uint64(format.FieldSeq), 4) })
	},
	"records without a number": func(h *hostile) {
		h.fill(manyRecords, func(int) { h.record(format.KindStatement, 0, uint64(format.FieldSeq), 1) })
	},
	"many sessions": func(h *hostile) {
		h.fill(full, func(i int) { h.session(i) })
		h.record(format.KindStatement, 0, 0)
	},
	"many relations": func(h *hostile) {
		access := bytes.Repeat([]byte{0xff}, 9)
		shape := append(uvarints(1, 0, 0, 1_200_000), bytes.Repeat(append(append([]byte{1}, access...), 1, 0), 1_200_000)...)
		h.Item(format.KindDefShape, append(shape, 0))
		for range 20 {
			h.record(format.KindStatement, 0, uint64(format.FieldShape), 0)
		}
	},
	"many parameters that were not taken down": func(h *hostile) {
		shape := append(uvarints(1, 0, 0, 0, 8_000_000), make([]byte, 16_000_000)...)
		h.Item(format.KindDefShape, shape)
		for range 20 {
			h.record(format.KindStatement, 0, uint64(format.FieldShape|format.FieldValues), 0, 0)
		}
	},
	"many shapes": func(h *hostile) {
		h.fill(full, func(int) { h.Item(format.KindDefShape, make([]byte, 6)) })
		h.record(format.KindStatement, 0, 0)
	},
	"many texts": func(h *hostile) {
		h.fill(full, func(int) { h.Item(format.KindDefText, nil) })
		h.record(format.KindStatement, 0, 0)
	},
	"many data parts": func(h *hostile) {
		h.fill(full, func(i int) { h.Item(format.KindData, append(uvarints(0, uint64(i), 0), 'x')) })
		h.record(format.KindStatement, 0, uint64(format.FieldParts), 1<<40, 0, 0)
	},
}

func TestHostileFilesTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, fill := range hostiles {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		s.Codec = format.CodecLz4
		h := newHostile()
		fill(h)
		if len(h.Payload) > format.MaxRaw {
			t.Fatalf("%s: payload of %d bytes", name, len(h.Payload))
		}
		s.Write(t, &h.Builder)
		for _, args := range [][]string{
			{"cat", "--format", "json", dir}, {"tail", dir}, {"verify", dir},
		} {
			// Where processors are short, garbage stays longer before it is collected: what counts is the least.
			least := 1 << 20
			for range 3 {
				_, mb := memorytest.Peak(t, 4, args...)
				if mb > 400 { // what docs/steno.md says of commands
					t.Errorf("%s: %s takes %d MB", name, args[:len(args)-1], mb)
				}
				least = min(least, mb)
				if least <= memoryLimit {
					break
				}
			}
			if least > memoryLimit {
				t.Errorf("%s: %s takes %d MB", name, args[:len(args)-1], least)
			} else {
				t.Logf("%s: %s takes %d MB", name, args[:len(args)-1], least)
			}
		}
	}
}

func TestLengthsBeyondTheFileTakeNoMemory(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: "x"})
	image := s.Finish(b)
	binary.LittleEndian.PutUint32(image[8:], 0xfffffff0)
	trailtest.SealHeader(image)
	s.Raw(t, image)
	if err := os.Truncate(s.SegmentPath(1), 256<<20); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "retention"), []byte("pg_steno retention 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "retention"), 256<<20); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{{"cat", dir}, {"tail", dir}, {"verify", dir}, {"info", dir}} {
		if code, mb := memorytest.Peak(t, 4, args...); mb > 100 {
			t.Errorf("%s: code %d, %d MB", args[0], code, mb)
		}
	}
}

// manySessions writes a trail of sessions that come and go, ten of them open at a time,
// in blocks of a thousand records.
func manySessions(t *testing.T, dir string, sessions int) {
	t.Helper()
	s := trailtest.NewStream(t, dir, 0)
	now := trailtest.Epoch
	shape := &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"}
	var open []*trailtest.Session
	b := trailtest.NewBuilder(now)
	add := func(r *trailtest.Record) {
		now += 10
		r.Time = now
		b.Add(r)
		if b.Records == 1000 {
			s.Write(t, b)
			b = trailtest.NewBuilder(now)
		}
	}
	for i := range sessions + 10 {
		if i < sessions {
			c := trailtest.NewSession(now, uint32(i), trailtest.Fact{Key: format.KeyUser, Value: "alice"})
			open = append(open, c)
			add(&trailtest.Record{Kind: format.KindConnect, Session: c})
			add(&trailtest.Record{Kind: format.KindStatement, Session: c, Shape: shape, Text: "SELECT 1"})
		}
		if len(open) == 10 || i >= sessions && len(open) > 0 {
			add(&trailtest.Record{Kind: format.KindDisconnect, Session: open[0]})
			open = open[1:]
		}
	}
	if b.Records > 0 {
		s.Write(t, b)
	}
}

func TestMemoryDoesNotGrowWithTheTrail(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 200 MB of records")
	}
	// What can be collected is, so that the peak is what is kept: it does not depend on how late a collection ends.
	t.Setenv("GOGC", "20")
	// both have more sessions than verify remembers after their end
	short, long := t.TempDir(), t.TempDir()
	manySessions(t, short, 100_000)
	manySessions(t, long, 500_000)
	for _, args := range [][]string{
		{"verify"}, {"cat"}, {"cat", "--format", "pgaudit", "--class", "read"}, {"tail", "-n", "1000"}, {"info", "--detail"},
	} {
		code, before := memorytest.Peak(t, 4, append(args, short)...)
		codeLong, after := memorytest.Peak(t, 4, append(args, long)...)
		if code != 0 || codeLong != 0 || after > before+before/3+8 {
			t.Errorf("%s: %d MB become %d MB, codes %d, %d", args, before, after, code, codeLong)
		}
		t.Logf("%s: %d MB, %d MB", args, before, after)
	}
}

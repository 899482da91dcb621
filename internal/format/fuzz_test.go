package format_test

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// decodeAll reads all records of a block and writes what they hold, so that two
// readings can be compared. It returns where each record ended.
func decodeAll(b *format.Block, limit int) (out []string, err error) {
	var r format.Record
	for len(out) < limit {
		if err = b.Next(&r); err != nil {
			return out, err
		}
		line := fmt.Sprintf("%d %v %d %d %d %d %q %q %q %q", r.Kind, r.Session.ID(), r.Seq, r.Statement, r.Time, r.Duration, r.Text, r.Values, r.Message, r.Extra)
		line += fmt.Sprintf(" %v %v", slices.Collect(r.Reasons().Names), r.Shape)
		r.Params(func(p format.ParamType, v []byte, null bool) bool {
			// Rendering is bounded by the value, but for numerics, which
			// can stand for 130,000 digits in a few bytes.
			line += fmt.Sprintf(" %d %v %.100q", p.Repr, null, format.AppendParam(nil, p.Repr, v))
			return len(line) < 10_000
		})
		for name, value := range r.ExtraPairs {
			line += fmt.Sprintf(" %q=%q", name, value)
		}
		out = append(out, line)
	}
	return out, nil
}

// FuzzBlock decodes a payload of any bytes. No panic; the same records when it
// is read again, and when the payload is cut off after them; no more memory
// than the payload explains.
func FuzzBlock(f *testing.F) {
	trailtest.AddCorpus(f)
	add := func(b *trailtest.Builder) { f.Add(b.Payload) }
	s := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{
		Kind: format.KindStatement, Session: s, Time: trailtest.Epoch, Text: "SELECT $1", Rows: 1, Duration: 100,
		Shape: &trailtest.Shape{
			Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Type: 1, Access: 1, Name: "public.t"}},
			Params:  []format.ParamType{{OID: 23, Repr: format.ReprInt4}, {OID: 1700, Repr: format.ReprNumeric}},
			Objects: []trailtest.Object{{Action: format.ActionRename, Type: "table", Name: "public.t", To: "public.u"}},
		},
		Audited: format.AuditedObject,
		Nulls:   []byte{2}, Values: []byte{1, 0, 0, 0}, SQLState: "42P01", Message: "m", Extra: []string{"a", "b"},
	})
	b.Data(s, 2, format.PartText, "part")
	add(b)
	b = trailtest.NewBuilder(trailtest.Epoch)
	b.Add(trailtest.Note(s, trailtest.Epoch, "x"))
	b.Add(trailtest.Note(s, trailtest.Epoch, "x"))
	add(b)
	b = trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{
		Kind: format.KindStatement, Session: s, Time: trailtest.Epoch, Text: "SELECT $1, $2",
		Shape:  &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Params: []format.ParamType{{Repr: format.ReprList}}},
		Values: []byte{9, 2, 23, byte(format.ReprInt4), 1, 0, 0, 0, 25, 0x80 | byte(format.ReprText)},
	})
	add(b)
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) > 1<<16 {
			return
		}
		image := func(payload []byte, records uint32) []byte {
			b := trailtest.NewBuilder(0)
			b.Payload = payload
			var chain [32]byte
			image := b.Finish(format.CodecNone, 1, 1, &chain)
			image[16], image[17], image[18] = byte(records), byte(records>>8), byte(records>>16)
			trailtest.SealHeader(image)
			return image
		}
		block := load(t, image(payload, 0))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var r format.Record
		records, parts := 0, 0
		whole, wholeRecords := 0, 0 // up to the last item that is read
		var err error
		for err == nil {
			if err = block.Next(&r); err == nil {
				if r.Kind == format.KindData {
					parts++
				} else {
					records++
				}
				if !block.InRun() {
					whole, wholeRecords = records+parts, records
				}
			}
		}
		runtime.ReadMemStats(&after)
		// A session definition of 15 bytes becomes a struct of 300.
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<16+200*uint64(len(payload))+2*format.MaxVariants {
			t.Errorf("%d bytes of payload took %d bytes of memory", len(payload), used)
		}
		sameReading(t, payload)
		sameTally(t, payload)
		block.Rewind()
		first, err1 := decodeAll(block, records+parts)
		block.Rewind()
		second, err2 := decodeAll(block, records+parts)
		if fmt.Sprint(first, err1) != fmt.Sprint(second, err2) || len(first) != records+parts {
			t.Error("a second reading gives other records")
		}
		// The valid prefix, alone, is a whole block with the same records.
		prefix := payload[:block.Position()]
		alone := load(t, image(prefix, uint32(wholeRecords)))
		third, err := decodeAll(alone, whole)
		if err != nil || fmt.Sprint(first[:whole]) != fmt.Sprint(third) {
			t.Errorf("the valid prefix gives other records: %v", err)
		}
		if err := alone.Next(&r); err != io.EOF {
			t.Errorf("after the valid prefix: %v", err)
		}
	})
}

package format_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// load makes a block of bytes readable.
func load(t testing.TB, image []byte) *format.Block {
	t.Helper()
	b := &format.Block{Source: format.Source{File: "test"}, Image: image}
	if err := b.Load(); err != nil {
		t.Fatal(err)
	}
	return b
}

// next reads a record that must be there.
func next(t testing.TB, b *format.Block) format.Record {
	t.Helper()
	var r format.Record
	if err := b.Next(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

func finish(b *trailtest.Builder) []byte {
	var chain [32]byte
	return b.Finish(format.CodecNone, 1, 1, &chain)
}

// randomRecord makes a record with any of the fields.
func randomRecord(rng *rand.Rand, s *trailtest.Session, time int64) *trailtest.Record {
	some := func() bool { return rng.IntN(3) == 0 }
	text := func() string {
		b := make([]byte, rng.IntN(40))
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		return string(b)
	}
	r := &trailtest.Record{Kind: format.Kind(1 + rng.IntN(12)), Session: s, Time: time}
	if some() {
		r.Shape = &trailtest.Shape{Class: format.Class(rng.IntN(12)), QueryID: rng.Uint64(), Command: fmt.Sprint("COMMAND ", rng.IntN(4))}
		for range rng.IntN(3) {
			r.Shape.Relations = append(r.Shape.Relations, trailtest.Relation{
				Type: format.RelationType(rng.IntN(9)), Access: format.Access(rng.IntN(64)), Name: text()})
		}
		for range rng.IntN(10) {
			r.Shape.Params = append(r.Shape.Params, format.ParamType{OID: uint64(rng.Uint32()), Repr: format.ReprInt4})
		}
		for range rng.IntN(4) {
			r.Shape.Objects = append(r.Shape.Objects, trailtest.Object{Action: format.Action(rng.IntN(8)), Type: text(), Name: text(), To: text()})
		}
		if n := len(r.Shape.Params); n > 0 && some() {
			r.Nulls = make([]byte, (n+7)/8)
			r.Nulls[0] = byte(rng.IntN(256))
		}
		if some() {
			r.Values = []byte(text())
		}
	}
	if some() {
		r.Text = text()
	}
	if some() {
		r.Rows = rng.Uint64()
	}
	if some() {
		r.Duration = uint64(rng.IntN(1e9))
	}
	if some() {
		r.Seq = rng.Uint64() >> rng.IntN(63)
	}
	if some() && r.Kind <= format.KindStart {
		r.Statement = rng.Uint64() >> rng.IntN(63)
	}
	if some() {
		r.Depth, r.Substatement = uint64(rng.IntN(4)), uint64(rng.IntN(100))
	}
	if some() {
		r.Outcome = format.Outcome(rng.IntN(5))
	}
	if some() {
		r.SQLState, r.Message = "42P01", text()
	}
	if some() {
		r.XID = uint64(rng.Uint32())
	}
	if some() {
		r.TextBytes = 1 + rng.Uint64()>>1
		r.TextHash[3] = byte(rng.IntN(256))
	}
	if some() {
		r.Parts = [3]uint64{uint64(rng.IntN(9)), uint64(rng.IntN(9)), uint64(rng.IntN(9))}
	}
	if some() {
		r.Extra = []string{text(), text(), text(), text()}
	}
	if some() {
		r.Audited = format.Audited(rng.IntN(256))
	}
	return r
}

func TestRecordsComeBackAsTheyWereWritten(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		base := trailtest.Epoch + rng.Int64N(1e12)
		sessions := []*trailtest.Session{
			trailtest.NewSession(base-5, 100, trailtest.Fact{Key: format.KeyUser, Value: "alice"}),
			trailtest.NewSession(base-9, 200),
		}
		sessions = append(sessions, sessions[0].With(trailtest.Fact{Key: format.KeyRole, Value: "bob"}))
		b := trailtest.NewBuilder(base)
		var want []*trailtest.Record
		var times []format.Times
		for range rng.IntN(50) {
			r := randomRecord(rng, sessions[rng.IntN(len(sessions))], base+rng.Int64N(1e9)-5e8)
			var of format.Times
			if rng.IntN(4) == 0 {
				of = format.Times{Known: format.KnownTimes(1 + rng.IntN(15))}
				item := []byte{byte(of.Known)}
				for i, n := range []*uint64{&of.Analysis, &of.Plan, &of.Commit, &of.Elapsed} {
					if of.Known&(1<<i) != 0 {
						*n = uint64(rng.IntN(1e9))
						item = binary.AppendUvarint(item, *n)
					}
				}
				// a bit of a later version, whose number comes behind
				if rng.IntN(2) == 0 {
					item[0] |= 16
					item = append(item, 7)
				}
				b.Item(format.KindTimes, item)
			}
			b.Add(r)
			want, times = append(want, r), append(times, of)
			if rng.IntN(5) == 0 {
				b.Item(format.Kind(67+rng.IntN(60)), []byte("a part that is not known"))
				b.Item(format.Kind(134+rng.IntN(120)), []byte("a definition that is not known"))
			}
		}
		for _, codec := range []format.Codec{format.CodecNone, format.CodecLz4} {
			var chain [32]byte
			block := load(t, b.Finish(codec, 7, 1000, &chain))
			for i, w := range want {
				r := next(t, block)
				of := r.Times
				r.Times = format.Times{} // they are among its further names
				if msg := differs(&r, w); msg != "" {
					t.Fatalf("seed %d, record %d: %s\ngot  %+v\nwant %+v", seed, i, msg, r, *w)
				}
				if of != times[i] {
					t.Fatalf("seed %d, record %d: times %+v, want %+v", seed, i, of, times[i])
				}
				if r.Number != 1000+uint64(i) {
					t.Fatalf("record %d has number %d", i, r.Number)
				}
			}
			var r format.Record
			if err := block.Next(&r); err != io.EOF {
				t.Fatalf("seed %d: after the last record: %v", seed, err)
			}
		}
	}
}

func differs(r *format.Record, w *trailtest.Record) string {
	var extra []string
	for name, value := range r.ExtraPairs {
		extra = append(extra, string(name), string(value))
	}
	facts := map[format.Key]string{}
	for _, f := range w.Session.Facts {
		facts[f.Key] = f.Value
	}
	for k := format.KeyBackendType; k <= format.KeyAppContext; k++ {
		if string(r.Session.Fact(k)) != facts[k] {
			return "session's " + k.String()
		}
	}
	switch {
	case r.Kind != w.Kind:
		return "kind"
	case r.Session.Start != w.Session.Start || r.Session.PID != w.Session.PID:
		return "session"
	case r.Seq != w.Seq:
		return "seq"
	case r.Statement != w.Statement:
		return "statement"
	case r.Time != w.Time || r.Duration != w.Duration:
		return "time or duration"
	case r.Rows != w.Rows || r.XID != w.XID || r.Depth != w.Depth || r.Substatement != w.Substatement || r.Outcome != w.Outcome:
		return "a number"
	case string(r.Text) != w.Text || (r.Text != nil) != (w.Text != ""):
		return "text"
	case string(r.SQLState) != w.SQLState || string(r.Message) != w.Message:
		return "error"
	case !bytes.Equal(r.Nulls, w.Nulls) || !bytes.Equal(r.Values, w.Values):
		return "parameters"
	case r.TextBytes != w.TextBytes || w.TextBytes != 0 && !bytes.Equal(r.TextHash, w.TextHash[:]):
		return "cut"
	case r.Parts != w.Parts:
		return "parts"
	case !slices.Equal(extra, w.Extra):
		return "extra"
	case r.Audited != w.Audited:
		return "audited"
	case (r.Shape != nil) != (w.Shape != nil):
		return "shape"
	}
	if w.Shape == nil {
		return ""
	}
	var relations []trailtest.Relation
	for _, rel := range r.Shape.Relations {
		one := trailtest.Relation{Type: rel.Type, Access: rel.Access, Name: string(rel.Name), Via: rel.Via}
		for _, c := range rel.Columns {
			one.Columns = append(one.Columns, trailtest.Column{Access: c.Access, Name: string(c.Name)})
		}
		if rel.Omitted != 0 {
			one.Columns = append(one.Columns, trailtest.Column{Access: rel.Omitted})
		}
		relations = append(relations, one)
	}
	if r.Shape.Class != w.Shape.Class || r.Shape.QueryID != w.Shape.QueryID || string(r.Shape.Command) != w.Shape.Command ||
		!slices.EqualFunc(relations, w.Shape.Relations, func(a, b trailtest.Relation) bool { return reflect.DeepEqual(a, b) }) || !slices.Equal(r.Shape.Params, w.Shape.Params) {
		return "shape"
	}
	var objects []trailtest.Object
	for _, o := range r.Shape.Objects {
		objects = append(objects, trailtest.Object{Action: o.Action, Type: string(o.Type), Name: string(o.Name), To: string(o.To)})
	}
	if !slices.Equal(objects, w.Shape.Objects) {
		return "objects"
	}
	return ""
}

func TestFieldsOfNewerWritersAreIgnored(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: 40, Session: s, Time: trailtest.Epoch, Text: "x", Fields: 1 << 20, Unknown: []byte{1, 2, 3}})
	b.Add(&trailtest.Record{Kind: format.KindNote, Session: s, Time: trailtest.Epoch, Text: "y"})
	block := load(t, finish(b))
	if r := next(t, block); string(r.Text) != "x" || r.Kind.String() != "kind_40" || r.Seq != 1 {
		t.Errorf("first record: %+v", r)
	}
	if r := next(t, block); string(r.Text) != "y" || r.Seq != 2 {
		t.Errorf("second record: %+v", r)
	}
}

func TestStatementNumbers(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	add := func(kind format.Kind, depth uint64) {
		b.Add(&trailtest.Record{Kind: kind, Session: s, Time: trailtest.Epoch, Depth: depth})
	}
	add(format.KindConnect, 0)
	add(format.KindStart, 0)
	add(format.KindStatement, 1) // nested in the one that has started
	add(format.KindStatement, 0)
	add(format.KindNote, 0)
	add(format.KindStatement, 0)
	block := load(t, finish(b))
	for i, want := range []uint64{0, 1, 1, 1, 0, 2} {
		if r := next(t, block); r.Statement != want {
			t.Errorf("record %d: statement %d, want %d", i, r.Statement, want)
		}
	}
}

func TestRecordsWithoutANumberLeaveTheCount(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	for _, unnumbered := range []bool{false, true, true, false} {
		kind := format.KindStatement
		if unnumbered {
			kind = format.KindStart
		}
		b.Add(&trailtest.Record{Kind: kind, Session: s, Time: trailtest.Epoch, Unnumbered: unnumbered})
	}
	block := load(t, finish(b))
	for i, want := range []uint64{1, 0, 0, 2} {
		if r := next(t, block); r.Seq != want {
			t.Errorf("record %d: number %d, want %d", i, r.Seq, want)
		}
	}
	// The one with a number after one without has the expected number.
	block.Rewind()
	for range 3 {
		next(t, block)
	}
	if r := next(t, block); r.Has(format.FieldSeq) {
		t.Error("the number after records without is not the expected one")
	}
}

func TestReadingABlockAgainTakesNoMemory(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	for i := range 50 {
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: s, Time: trailtest.Epoch, Text: fmt.Sprint(i), Shape: &trailtest.Shape{
			Command: fmt.Sprint(i), Relations: []trailtest.Relation{{Name: "t"}}, Params: []format.ParamType{{OID: 23, Repr: format.ReprNone}},
			Objects: []trailtest.Object{{Action: format.ActionDrop, Type: "table", Name: "t"}},
		}})
	}
	block := load(t, finish(b))
	var r format.Record
	var before, after runtime.MemStats
	for i := range 101 {
		if i == 1 {
			runtime.ReadMemStats(&before)
		}
		block.Rewind()
		for block.Next(&r) == nil {
		}
	}
	runtime.ReadMemStats(&after)
	// A dictionary that is not emptied would grow by 50 entries each time.
	if used := after.TotalAlloc - before.TotalAlloc; used > 50_000 {
		t.Errorf("%d bytes", used)
	}
}

// endlessVariants are texts that take much more memory than their definitions.
func endlessVariants(def func(format.Kind, ...byte) []byte) []byte {
	const long = 30_000
	items := def(format.KindDefText, make([]byte, long)...)
	variant := append(binary.AppendUvarint([]byte{0}, long), 0)
	for range format.MaxVariants/long + 1 {
		items = append(items, def(format.KindDefVariant, variant...)...)
	}
	return items
}

// endlessTexts are the same, of records in a run.
func endlessTexts(def func(format.Kind, ...byte) []byte) []byte {
	const long = 30_000
	session := def(format.KindDefSession, append([]byte{0, 0}, make([]byte, 12)...)...)
	form := append(binary.AppendUvarint([]byte{0, 2, 0}, long), 0)
	run := binary.AppendUvarint(nil, format.MaxVariants/long+1)
	run = append(run, make([]byte, 2*(format.MaxVariants/long+1))...)
	return slices.Concat(session, def(format.KindDefText, make([]byte, long)...), def(format.KindDefForm, form...), def(format.KindRun, run...))
}

func TestMalformedItemsAreCorruption(t *testing.T) {
	def := func(kind format.Kind, body ...byte) []byte {
		return append(binary.AppendUvarint(nil, uint64(len(body)+1)), append([]byte{byte(kind)}, body...)...)
	}
	session := def(format.KindDefSession, append([]byte{0, 0}, make([]byte, 12)...)...)
	form := slices.Concat(session, def(format.KindDefForm, 0, 4|8, 0))
	text := def(format.KindDefText, []byte("SELECT 1")...)
	for name, c := range map[string]struct {
		payload []byte
		reason  string
	}{
		"no length":              {[]byte{0x80}, "an invalid length"},
		"empty item":             {[]byte{0}, "an invalid length"},
		"longer than the block":  {[]byte{200, 1, 1}, "an invalid length"},
		"session too short":      {def(format.KindDefSession, 1, 2, 3), "ends too early"},
		"no session":             {def(format.KindStatement, 0, 0), "session is not defined"},
		"no text":                {append(slices.Clone(session), def(format.KindStatement, 0, 2, 0)...), "text is not defined"},
		"no shape":               {append(slices.Clone(session), def(format.KindStatement, 0, 1, 0)...), "shape is not defined"},
		"nulls without shape":    {append(slices.Clone(session), def(format.KindStatement, 0, 32, 0)...), "NULL parameters without a shape"},
		"bytes left":             {append(slices.Clone(session), def(format.KindStatement, 0, 0, 9)...), "bytes are left"},
		"endless relations":      {def(format.KindDefShape, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0), "more relations than fit"},
		"endless parameters":     {def(format.KindDefShape, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f), "more parameters than fit"},
		"endless objects":        {def(format.KindDefShape, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f), "more objects than fit"},
		"object too short":       {def(format.KindDefShape, 1, 0, 0, 0, 0, 1, 1, 0, 3, 0), "ends too early"},
		"endless extra":          {append(slices.Clone(session), def(format.KindStatement, 0, 0x80, 0x80, 2, 0xff, 0xff, 3)...), "more names and values than fit"},
		"message longer than it": {append(slices.Clone(session), def(format.KindStatement, 0, 0x80, 0x10, '4', '2', 'P', '0', '1', 90)...), "ends too early"},
		"form without session":   {def(format.KindDefForm, 0, 8), "session is not defined"},
		"form without shape":     {slices.Concat(session, def(format.KindDefForm, 0, 1, 0)), "shape is not defined"},
		"form without text":      {slices.Concat(session, def(format.KindDefForm, 0, 2, 0)), "text is not defined"},
		"form of other fields":   {slices.Concat(session, def(format.KindDefForm, 0, 0x80, 8)), "fields that no form has"},
		"form too short":         {slices.Concat(session, def(format.KindDefForm, 0, 4)), "ends too early"},
		"run without records":    {slices.Concat(form, def(format.KindRun, 0)), "no records"},
		"run of too many":        {slices.Concat(form, def(format.KindRun, 3, 0, 1)), "more than fit"},
		"run without form":       {slices.Concat(session, def(format.KindRun, 1, 0)), "form is not defined"},
		"run too short":          {slices.Concat(form, def(format.KindRun, 1, 0, 5)), "ends too early"},
		"run too long":           {slices.Concat(form, def(format.KindRun, 1, 0, 5, 6, 7)), "bytes are left"},
		"variant of nothing":     {def(format.KindDefVariant, 0, 0, 0), "text that it varies is not defined"},
		"variant of itself":      {slices.Concat(text, def(format.KindDefVariant, 1, 1, 1)), "text that it varies is not defined"},
		"variant with too much":  {slices.Concat(text, def(format.KindDefVariant, 0, 5, 4)), "more of another text"},
		"endless variants":       {endlessVariants(def), "longer than in a block written by a server"},
		"form that varies none":  {slices.Concat(session, def(format.KindDefForm, 0, 8, 0, 0)), "its texts vary none"},
		"form with too much":     {slices.Concat(session, text, def(format.KindDefForm, 0, 2, 0, 5, 4)), "more of another text"},
		"form cut in its parts":  {slices.Concat(session, text, def(format.KindDefForm, 0, 2, 0, 5)), "ends too early"},
		"run cut in its text":    {slices.Concat(session, text, def(format.KindDefForm, 0, 2, 0, 5, 1), def(format.KindRun, 1, 0, 2, 'x')), "ends too early"},
		"endless varying texts":  {endlessTexts(def), "longer than in a block written by a server"},
		"part of nothing":        {append(slices.Clone(session), def(format.KindData, 0, 1, 7)...), "continues something unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			b := trailtest.NewBuilder(0)
			b.Payload = c.payload
			var chain [32]byte
			image := b.Finish(format.CodecNone, 1, 1, &chain)
			block := load(t, image)
			var r format.Record
			err := block.Next(&r)
			for err == nil {
				err = block.Next(&r)
			}
			if !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %v, want %q", err, c.reason)
			}
		})
	}
}

func TestParametersAreTakenInOrder(t *testing.T) {
	shape := &trailtest.Shape{Command: "SELECT", Params: []format.ParamType{
		{OID: 23, Repr: format.ReprInt4}, {OID: 25, Repr: format.ReprText}, {OID: 16, Repr: format.ReprBool}, {OID: 1, Repr: 77}, {OID: 23, Repr: format.ReprInt4},
	}}
	s := trailtest.NewSession(trailtest.Epoch, 1)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: s, Time: trailtest.Epoch, Shape: shape, Nulls: []byte{0b10}, Values: []byte{42, 0, 0, 0, 1, 9, 9, 9}})
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: s, Time: trailtest.Epoch, Shape: shape, Values: []byte{42, 0, 0}})
	block := load(t, finish(b))
	r := next(t, block)
	var got []string
	ok := r.Params(func(p format.ParamType, v []byte, null bool) bool {
		if null {
			got = append(got, "NULL")
		} else {
			got = append(got, string(format.AppendParam(nil, p.Repr, v)))
		}
		return true
	})
	want := []string{"42", "NULL", "t", "<unknown representation>", "<unknown representation>"}
	if !ok || !slices.Equal(got, want) {
		t.Errorf("got %q %v, want %q", got, ok, want)
	}
	r = next(t, block)
	if r.Params(func(format.ParamType, []byte, bool) bool { return true }) {
		t.Error("values that end too early are said to be right")
	}
}

// TestNullsOfALaterVersionHideNothing has a NULL of a representation that is not known: it takes no bytes, so what follows
// can be read.
func TestNullsOfALaterVersionHideNothing(t *testing.T) {
	shape := &trailtest.Shape{Params: []format.ParamType{{OID: 1, Repr: 77}, {OID: 16, Repr: format.ReprBool}}}
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Shape: shape, Nulls: []byte{1}, Values: []byte{1}})
	r := next(t, load(t, finish(b)))
	var got []string
	ok := r.Params(func(p format.ParamType, v []byte, null bool) bool {
		got = append(got, fmt.Sprintf("%s %v", format.AppendParam(nil, p.Repr, v), null))
		return true
	})
	if want := []string{"<unknown representation> true", "t false"}; !ok || !slices.Equal(got, want) {
		t.Errorf("got %q %v, want %q", got, ok, want)
	}
}

func TestParametersOfAListAreTakenInOrder(t *testing.T) {
	const null = 0x80
	list := func(n uint64, entries ...byte) []byte {
		l := append(binary.AppendUvarint(nil, n), entries...)
		return append(binary.AppendUvarint(nil, uint64(len(l))), l...)
	}
	text := []byte{25, byte(format.ReprText), 2, 'h', 'i'}
	for _, tt := range []struct {
		name   string
		values []byte
		want   []string
		ok     bool
	}{
		{"none", list(0), nil, true},
		{"NULL, text, what was not taken", list(3, append([]byte{25, byte(format.ReprText) | null}, append(text, 23, byte(format.ReprNone))...)...),
			[]string{"25 NULL", "25 hi", "23 " + format.NotRecorded}, true},
		{"a representation of a later version", list(3, append(slices.Clone(text), 23, 99, 1, 2, 3, 4)...),
			[]string{"25 hi", "23 <unknown representation>", "0 <unknown representation>"}, true},
		{"more than fit", list(65535, text...), nil, false},
		{"too many", list(65536, make([]byte, 2*65536)...), nil, false},
		{"a value that ends too early", list(2, 25, byte(format.ReprText)|null, 23, byte(format.ReprInt4), 1), []string{"25 NULL"}, false},
		{"bytes that are left in it", list(1, append(slices.Clone(text), 1)...), []string{"25 hi"}, false},
		{"bytes that are left after it", append(list(1, text...), 1), nil, false},
		{"a list in it", list(1, 0, byte(format.ReprList), 0), nil, false},
		{"a list in it that is NULL", list(1, 0, 0x80|byte(format.ReprList)), nil, false},
		{"no length", nil, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := trailtest.NewBuilder(trailtest.Epoch)
			shape := &trailtest.Shape{Command: "SELECT", Params: []format.ParamType{{Repr: format.ReprList}}}
			b.Add(&trailtest.Record{Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Shape: shape,
				Nulls: []byte{0}, Values: tt.values})
			var got []string
			r := next(t, load(t, finish(b)))
			ok := r.Params(func(p format.ParamType, v []byte, null bool) bool {
				if null {
					v = []byte("NULL")
				} else {
					v = format.AppendParam(nil, p.Repr, v)
				}
				got = append(got, fmt.Sprintf("%d %s", p.OID, v))
				return true
			})
			if ok != tt.ok || !slices.Equal(got, tt.want) {
				t.Errorf("got %q %v, want %q %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestNumbersAreWrittenAsStrconvDoes(t *testing.T) {
	numbers := []uint64{0, 1<<64 - 1, 1 << 63}
	for n := uint64(1); ; n *= 10 {
		numbers = append(numbers, n-1, n, n+1, 7*n)
		if n == 1e19 {
			break
		}
	}
	for _, n := range numbers {
		if got, want := string(format.AppendUint([]byte("x"), n)), "x"+strconv.FormatUint(n, 10); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

package ring_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/ring"
	"github.com/pg-steno/pg_steno/internal/ring/ringtest"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// TestLayoutIsAsDocumented compares the reader's tables with those of RING.md.
func TestLayoutIsAsDocumented(t *testing.T) {
	d := ringtest.Documented()
	versions := map[uint32]bool{}
	for v := d.First; v <= d.Last; v++ {
		versions[v] = true
	}
	for _, field := range d.Unknown {
		t.Errorf("%s is there since a version of which the title says nothing", field)
	}
	if known := ring.Versions(); !maps.Equal(known, versions) {
		t.Errorf("versions %v are read, documented are %v", known, versions)
	}
	for version := range versions {
		fields, sizes := ring.Fields(version)
		if !maps.Equal(sizes, d.Sizes) {
			t.Errorf("sizes are %v, documented %v", sizes, d.Sizes)
		}
		for structure, names := range fields {
			if len(d.Fields[version][structure]) == 0 {
				t.Errorf("%s is not documented", structure)
			}
			for name := range d.Fields[version][structure] {
				if _, known := names[name]; !known {
					t.Errorf("version %d: %s.%s is documented, and not known to the reader", version, structure, name)
				}
			}
			for name, f := range names {
				if d.Fields[version][structure][name] != f {
					t.Errorf("version %d: %s.%s is read at %v, documented %v", version, structure, name, f, d.Fields[version][structure][name])
				}
			}
		}
	}
}

var body = write.SessionBody(trailtest.Epoch, 4711, "client backend")

// sample is a file of two rings, in which something of each sort is.
func sample() *ringtest.File {
	record := ringtest.Record{
		Kind: 1, Seq: 4, Time: trailtest.Epoch + 5, Duration: 7, Rows: 1, Statement: 3, Substatement: 2, XID: 77, Depth: 1, Outcome: 1,
		SQLState: "22012", Message: "division by zero", Shape: "\x01\x00\x06SELECT\x00\x02\x17\x03\x19\x08", Text: "SELECT $1, $2", Nulls: "\x01", Values: "\x02ab",
		Extra: "\x01a\x01b", ExtraCount: 1, Audited: 2, CutLength: 1000, Parts: []uint64{5, 0, 0},
	}
	staged := ringtest.Record{Kind: 1, Time: trailtest.Epoch + 9, Statement: 4, Text: "SELECT pg_sleep(10)"}
	return &ringtest.File{
		Writers: 2, SystemID: trailtest.SystemID, Created: trailtest.Epoch, Postmaster: 1234567,
		Intents: map[int]ringtest.Intent{0: {Valid: 1, Stream: 0, Segment: 1, Offset: 128, Block: 1, Hash: [32]byte{1, 2, 3}}, 63: {Valid: 4, Stream: 1}},
		Rings: []ringtest.Ring{
			{
				Tail: 16<<10 - 64, Pending: 16 << 10, Session: body, Seq: 3, Statement: 2, Owner: 4711, Gap: 1, GapFirst: 9, GapLast: 9,
				Messages: [][]byte{ringtest.Data(4, 0, "hello"), record.Bytes(), ringtest.Session(body, 4, 3), ringtest.Data(5, 1, "x")},
				Active:   true, Staged: true, Running: 4, Time: trailtest.Epoch + 9, Unpublished: staged.Bytes(),
			},
			{Active: true, Done: 8, Running: 1, Time: 1, Text: strings.Repeat("x", 300)},
		},
	}
}

func TestRingFileIsRead(t *testing.T) {
	f, err := ring.ReadBytes(sample().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if f.Version != 2 || f.Rings != 2 || f.Writers != 2 || f.Size != 16<<10 || f.Postmaster != 1234567 || f.SystemID != trailtest.SystemID || f.Created != trailtest.Epoch {
		t.Errorf("got %+v", f)
	}
	if len(f.Intents) != 2 || f.Intents[0].Hash != [32]byte{1, 2, 3} || f.Intents[0].Offset != 128 || f.Intents[1].Writer != 63 {
		t.Fatalf("intents: %+v", f.Intents)
	}
	of, all := &f.Intents[0], &f.Intents[1]
	if !of.Frees(f, 0) || of.Frees(f, 1) || of.Ends() != 0 || all.Frees(f, 0) || all.Ends() != 2 {
		t.Errorf("what intents are about: %v %v", of, all)
	}
	r, err := f.Ring(0)
	if err != nil || !r.PositionsArePossible() {
		t.Fatal(err, r)
	}
	var kinds []format.Kind
	for p := r.Tail; p != r.Head; {
		m, ok := r.Message(p, r.Head, 0, 0)
		if !ok {
			t.Fatalf("no message at %d", p)
		}
		kinds = append(kinds, m.Kind)
		switch m.Kind {
		case format.KindData:
			if m.Seq == 4 && (string(m.Data) != "hello" || m.Part != format.PartText) {
				t.Errorf("data part: %+v", m)
			}
		case format.KindDefSession:
			if m.Seq != 4 || m.Statement != 3 || string(m.Body) != string(body) {
				t.Errorf("session: %+v", m)
			}
		case format.KindStatement:
			w := m.Record
			if w.Seq != 4 || w.Time != trailtest.Epoch+5 || w.Duration != 7 || w.Rows != 1 || w.Statement != 3 || w.Substatement != 2 || w.Depth != 1 ||
				w.Outcome != format.OutcomeError || w.XID != 77 || string(w.SQLState) != "22012" || string(w.Message) != "division by zero" ||
				string(w.Text) != "SELECT $1, $2" || string(w.Nulls) != "\x01" || string(w.Values) != "\x02ab" || !w.HasValues ||
				w.ExtraCount != 1 || string(w.Extra) != "\x01a\x01b" || w.Audited != 2 || !w.HasCut || w.CutLength != 1000 || w.Parts != [3]uint64{5, 0, 0} {
				t.Errorf("record: %+v", w)
			}
			if err := write.Check(&write.Source{Body: body, Seq: 3, Statement: 2}, &w); err != nil {
				t.Error(err)
			}
		}
		p += m.Length
	}
	if want := []format.Kind{format.KindData, 0, format.KindStatement, format.KindDefSession, format.KindData}; !slices.Equal(kinds, want) {
		t.Errorf("messages of kinds %v, want %v", kinds, want)
	}
	if w, ok := r.Staged(); !ok || string(w.Text) != "SELECT pg_sleep(10)" || !r.Interrupted() {
		t.Errorf("staged: %+v", w)
	}
	r, err = f.Ring(1)
	if err != nil || len(r.InFlight.Text) != 232 || r.InFlight.TextLen != 300 || !r.Interrupted() {
		t.Errorf("in flight: %+v, %v", r, err)
	}
}

// ringOf reads a ring of a file.
func ringOf(t *testing.T, file *ringtest.File, number int) *ring.Ring {
	t.Helper()
	f, err := ring.ReadBytes(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Ring(number)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBriefRecordsAreRead reads records whose shape and text stand in a template, and
// one that refers to a template which is another one now.
func TestBriefRecordsAreRead(t *testing.T) {
	const shape, text = "\x01\x00\x06SELECT\x00\x01\x17\x03", "SELECT abalance FROM accounts WHERE aid = $1"
	record := ringtest.Brief{Seq: 4, Time: trailtest.Epoch + 5, Duration: 7, Rows: 1, Statement: 3, XID: 77, Template: 5, Version: 9, Values: "\x01\x02\x03\x04"}
	other, staged, wrong := record, record, record
	other.Seq, other.Statement, other.Version = 5, 4, 8
	staged.Statement, staged.Time = 5, trailtest.Epoch+9
	wrong.Template = 6
	for version := uint32(4); version <= 6; version++ {
		ringFile := &ringtest.File{Version: version, Rings: []ringtest.Ring{{}, {
			Session: body, Seq: 3, Statement: 2, Owner: 4711, Messages: [][]byte{record.Bytes(), other.Bytes(), wrong.Bytes()},
			Active: true, Staged: true, Running: 5, Time: trailtest.Epoch + 9, Unpublished: staged.Bytes(),
			Templates: map[int]ringtest.Template{5: {Version: 9, Shape: shape, Text: text}},
		}}}
		r := ringOf(t, ringFile, 1)
		m, ok := r.Message(r.Tail, r.Head, 0, 0)
		w := m.Record
		if !ok || w.Seq != 4 || w.Time != trailtest.Epoch+5 || w.Duration != 7 || w.Rows != 1 || w.Statement != 3 || w.XID != 77 ||
			string(w.Shape) != shape || string(w.Text) != text || string(w.Values) != "\x01\x02\x03\x04" || !w.HasValues || m.Seq != 4 {
			t.Errorf("record: %+v, %v", w, ok)
		}
		if err := write.Check(&write.Source{Body: body, Seq: 3, Statement: 2}, &w); err != nil {
			t.Error(err)
		}
		position := r.Tail + m.Length
		if m, ok = r.Message(position, r.Head, 0, 0); !ok || m.Seq != 5 || m.Record.Shape != nil || m.Record.Text != nil || m.Record.HasValues {
			t.Errorf("record of another template: %+v, %v", m.Record, ok)
		}
		if m, ok = r.Message(position+m.Length, r.Head, 0, 0); ok {
			t.Errorf("record of template 6: %+v", m.Record)
		}
		if w, ok := r.Staged(); !ok || string(w.Text) != text {
			t.Errorf("staged: %+v, %v", w, ok)
		}
	}
}

// TestShortBriefRecordsAreRead reads brief records of version 7, whose numbers follow from those before, with and
// without a transaction ID, and numbers of their own.
func TestShortBriefRecordsAreRead(t *testing.T) {
	const shape, text = "\x01\x00\x06SELECT\x00\x01\x17\x03", "SELECT abalance FROM accounts WHERE aid = $1"
	record := ringtest.ShortBrief{Time: trailtest.Epoch + 5, Duration: 7, Rows: 1, Template: 5, Version: 9, Values: "\x01\x02\x03\x04"}
	none, long, numbers, wrong, staged := record, record, record, record, record
	none.Duration, none.Rows, none.Version = ^uint32(0), ^uint32(0), 8
	long.XID, long.Values = 3<<32|77, "\x01\x02\x03\x04\x05\x06\x07\x08"
	numbers.XID, numbers.Numbers = 5, []uint64{9, 1 << 40, ^uint64(0)}
	wrong.Template = 6
	staged.Time = trailtest.Epoch + 9
	ringFile := &ringtest.File{Version: 7, Rings: []ringtest.Ring{{
		Session: body, Seq: 3, Statement: 2, Owner: 4711, Messages: [][]byte{record.Bytes(), none.Bytes(), long.Bytes(), numbers.Bytes(), wrong.Bytes()},
		Active: true, Staged: true, Running: 12, Time: trailtest.Epoch + 9, Unpublished: staged.Bytes(),
		Templates: map[int]ringtest.Template{5: {Version: 9, Shape: shape, Text: text}},
	}}}
	r := ringOf(t, ringFile, 0)
	s := write.Source{Body: body, Seq: r.SessionSeq, Statement: r.SessionStatement}
	position := r.Tail
	for i, want := range []struct{ statement, duration, rows, xid, length uint64 }{
		{3, 7, 1, 0, 32}, {4, write.None, write.None, 0, 32}, {5, 7, 1, 3<<32 | 77, 48}, {9, 1 << 40, write.None, 5, 64},
	} {
		m, ok := r.Message(position, r.Head, s.Seq, s.Statement)
		w := m.Record
		if !ok || w.Seq != uint64(4+i) || m.Seq != w.Seq || w.Time != trailtest.Epoch+5 || w.Duration != want.duration || w.Rows != want.rows ||
			w.Statement != want.statement || w.XID != want.xid || m.Length != want.length {
			t.Errorf("record %d: %+v, %v", i, m, ok)
		}
		if known := i != 1; known != (string(w.Shape) == shape && string(w.Text) == text && w.HasValues && strings.HasPrefix(string(w.Values), "\x01\x02\x03\x04")) {
			t.Errorf("strings of record %d: %+v", i, w)
		}
		s.Advance(&w)
		position += m.Length
	}
	if m, ok := r.Message(position, r.Head, s.Seq, s.Statement); ok {
		t.Errorf("record of template 6: %+v", m.Record)
	}
	if w, ok := r.Staged(); !ok || string(w.Text) != text || w.Statement != 12 {
		t.Errorf("staged: %+v, %v", w, ok)
	}
	r.InFlight.Time++
	if w, ok := r.Staged(); ok {
		t.Errorf("staged for another statement: %+v", w)
	}
}

// TestBriefRecordsOfFunctionsAreRead reads brief records of version 8: where their statements ran, and which of their
// parameters are NULL. A file of version 7 has no such records, nor so many templates.
func TestBriefRecordsOfFunctionsAreRead(t *testing.T) {
	const shape, text = "\x01\x00\x06SELECT\x00\x02\x17\x03\x17\x03", "SELECT abalance FROM accounts WHERE aid = i"
	nested := ringtest.ShortBrief{
		Time: trailtest.Epoch + 5, Duration: 7, Rows: 1, Template: 9, Version: 9, Values: "\x01\x05\x00\x00\x00", Depth: 1, Substatement: 3, Nulls: 1,
	}
	other, wrong := nested, nested
	other.Depth, other.Substatement, other.XID = 2, 4, 77
	wrong.Nulls = 6
	for version, want := range map[uint32]int{7: 0, 8: 2} {
		ringFile := &ringtest.File{Version: version, Rings: []ringtest.Ring{{
			Session: body, Seq: 3, Statement: 2, Owner: 4711, Messages: [][]byte{nested.Bytes(), other.Bytes(), wrong.Bytes()},
		}}}
		if version == 8 {
			ringFile.Rings[0].Templates = map[int]ringtest.Template{9: {Version: 9, Shape: shape, Text: text}}
		}
		r := ringOf(t, ringFile, 0)
		s := write.Source{Body: body, Seq: r.SessionSeq, Statement: r.SessionStatement}
		b := write.NewBlock()
		position := r.Tail
		read := 0
		for ; ; read++ {
			m, ok := r.Message(position, r.Head, s.Seq, s.Statement)
			if !ok {
				break
			}
			w := m.Record
			if w.Seq != uint64(4+read) || w.Statement != 3 || w.Depth != uint64(1+read) || w.Substatement != uint64(3+read) || w.XID != uint64(77*read) ||
				string(w.Shape) != shape || string(w.Text) != text || string(w.Nulls) != "\x01" || string(w.Values) != "\x05\x00\x00\x00" || !w.HasValues {
				t.Errorf("record %d: %+v", read, w)
			}
			if err := write.Check(&s, &w); err != nil {
				t.Error(err)
			}
			b.Add(&s, &w)
			position += m.Length
		}
		if read != want || want > 0 && s.Statement != 2 {
			t.Errorf("version %d: %d records, last finished statement %d", version, read, s.Statement)
		}
	}
}

// TestBriefRecordsWithTheirOwnPartOfATextAreRead reads brief records of version 9, whose texts differ in a part. What
// a damaged template or record says is not known.
func TestBriefRecordsWithTheirOwnPartOfATextAreRead(t *testing.T) {
	const shape, text = "\x01\x00\x06SELECT\x00\x01\x17\x03", "SELECT  FROM t"
	record := func(template byte, values string) []byte {
		r := ringtest.ShortBrief{Time: trailtest.Epoch + 5, Duration: 7, Rows: 1, Template: template, Version: 9, Values: values}
		return r.Bytes()
	}
	nested := ringtest.ShortBrief{Time: trailtest.Epoch + 5, Duration: 7, Rows: 1, Template: 15, Version: 9, Values: "\x011\x01four", Depth: 1, Nulls: 1}
	tooManyNulls := nested
	tooManyNulls.Nulls = 6
	for _, test := range []struct {
		name, text, values, nulls string
		message                   []byte
		unknown, damaged          bool
	}{
		{name: "a part", message: record(15, "\x0212four"), text: "SELECT 12 FROM t", values: "four"},
		{name: "an empty part", message: record(15, "\x00four"), text: text, values: "four"},
		{name: "a part at the beginning", message: record(14, "\x02/*four"), text: "/*" + text, values: "four"},
		{name: "a part at the end", message: record(13, "\x01;"), text: text + ";"},
		{name: "a template without parts", message: record(12, "\x01a"), text: text, values: "\x01a"},
		{name: "NULLs", message: nested.Bytes(), text: "SELECT 1 FROM t", values: "four", nulls: "\x01"},
		{name: "more NULLs than values", message: tooManyNulls.Bytes(), damaged: true},
		{name: "a part that is too long", message: record(15, "\x0412"), unknown: true},
		{name: "no part", message: record(15, ""), unknown: true},
		{name: "a part behind the text", message: record(11, "\x00four"), unknown: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			ringFile := &ringtest.File{Version: 9, Rings: []ringtest.Ring{{
				Session: body, Seq: 3, Statement: 2, Owner: 4711, Messages: [][]byte{test.message},
				Templates: map[int]ringtest.Template{
					15: {Version: 9, Shape: shape, Text: text, OwnAt: 8}, 14: {Version: 9, Shape: shape, Text: text, OwnAt: 1},
					13: {Version: 9, Shape: shape, Text: text, OwnAt: 15}, 12: {Version: 9, Shape: shape, Text: text},
					11: {Version: 9, Shape: shape, Text: text, OwnAt: 16},
				},
			}}}
			r := ringOf(t, ringFile, 0)
			m, ok := r.Message(r.Tail, r.Head, r.SessionSeq, r.SessionStatement)
			if ok == test.damaged {
				t.Fatalf("read: %v", ok)
			}
			w := m.Record
			if test.unknown || test.damaged {
				if w.Shape != nil || w.Text != nil || w.HasValues {
					t.Errorf("%q, values %q", w.Text, w.Values)
				}
				return
			}
			if string(w.Shape) != shape || string(w.Text) != test.text || string(w.Values) != test.values || string(w.Nulls) != test.nulls || !w.HasValues {
				t.Errorf("%q, nulls %q, values %q", w.Text, w.Nulls, w.Values)
			}
		})
	}
}

// TestBeginAndCommitAreRead reads brief records whose template's number stands for a command.
func TestBeginAndCommitAreRead(t *testing.T) {
	begin := ringtest.ShortBrief{Time: trailtest.Epoch + 5, Duration: 7, Rows: ^uint32(0), Template: 254, Values: "begin;", NoValues: true}
	commit, wrong, other := begin, begin, begin
	commit.Template, commit.Values, commit.XID = 255, "END", 5
	wrong.NoValues = false
	other.Template = 253
	ringFile := &ringtest.File{Version: 7, Rings: []ringtest.Ring{{
		Session: body, Seq: 3, Statement: 2, Owner: 4711, Messages: [][]byte{begin.Bytes(), commit.Bytes(), wrong.Bytes(), other.Bytes()},
	}}}
	r := ringOf(t, ringFile, 0)
	position := r.Tail
	for i, want := range []string{"\x0a\x00\x05BEGIN\x00\x00 begin; 0", "\x0a\x00\x06COMMIT\x00\x00 END 5"} {
		m, ok := r.Message(position, r.Head, 3, 2)
		w := m.Record
		if got := fmt.Sprintf("%s %s %d", w.Shape, w.Text, w.XID); !ok || got != want || w.HasValues || w.Seq != 4 || w.Statement != 3 || w.Rows != write.None {
			t.Errorf("record %d: %q, %+v", i, got, m)
		}
		if err := write.Check(&write.Source{Body: body, Seq: 3, Statement: 2}, &w); err != nil {
			t.Error(err)
		}
		position += m.Length
	}
	for range 2 {
		if m, ok := r.Message(position, r.Head, 3, 2); ok {
			t.Errorf("wrong record: %+v", m)
		}
		position += 40
	}
}

// TestEndsOfTransactionsAreRead reads the brief record of a commit, and other records that say how a transaction ended.
func TestEndsOfTransactionsAreRead(t *testing.T) {
	commit := ringtest.Commit{Time: trailtest.Epoch + 5, XID: 7<<32 | 77, LSN: 0x1affffffa0, LSNLength: 136, Timeline: 2, Duration: 40, Statements: 3}
	unknown := ringtest.Commit{Time: trailtest.Epoch + 6, XID: 78}
	ending := append(binary.LittleEndian.AppendUint64(make([]byte, 16), ^uint64(0)), 0, 0, 0, 0, 5, 0, 0, 0)
	rolledBack := ringtest.Record{Kind: 6, Seq: 6, Time: trailtest.Epoch + 7, Outcome: 1, Extra: "\x03gid\x01x", ExtraCount: 1, Ending: ending}
	notBrief := ringtest.Record{Kind: 6, Seq: 7, Time: trailtest.Epoch + 8, NoText: true}
	wrong := commit.Bytes()[:40]
	wrong[0] = 40
	file := func(version uint32) *ringtest.File {
		return &ringtest.File{Version: version, Rings: []ringtest.Ring{{
			Session: body, Seq: 3, Statement: 2, Owner: 4711, Messages: [][]byte{commit.Bytes(), unknown.Bytes(), rolledBack.Bytes(), notBrief.Bytes(), wrong},
		}}}
	}
	read := func(version uint32) *ring.Ring {
		f, err := ring.ReadBytes(file(version).Bytes())
		if err != nil {
			t.Fatal(err)
		}
		r, err := f.Ring(0)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := read(7)
	s := write.Source{Body: body, Seq: r.SessionSeq, Statement: r.SessionStatement}
	b := write.NewBlock()
	position := r.Tail
	for range 4 {
		m, ok := r.Message(position, r.Head, s.Seq, s.Statement)
		if !ok || !m.Follows(s.Seq) || write.Check(&s, &m.Record) != nil {
			t.Fatalf("no record at %d: %+v", position, m)
		}
		b.Add(&s, &m.Record)
		position += m.Length
	}
	if m, ok := r.Message(position, r.Head, s.Seq, s.Statement); ok {
		t.Errorf("commit of 40 bytes: %+v", m.Record)
	}
	image, _ := b.Finish(1, 1, 0, [32]byte{})
	block := format.Block{Image: image}
	if err := block.Load(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"seq=4 time=5 xid=30064771149 duration=40 class=transaction event=commit statements=3 commit_lsn=1A/FFFFFFA0 end_lsn=1B/28 timeline=2",
		"seq=5 time=6 xid=78 duration=0 class=transaction event=commit statements=0",
		"seq=6 time=7 xid=0 duration=0 event=rollback prepared gid=x",
		"seq=7 time=8 xid=0 duration=0",
	} {
		var got format.Record
		if err := block.Next(&got); err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("seq=%d time=%d xid=%d duration=%d", got.Seq, got.Time-trailtest.Epoch, got.XID, got.Duration)
		if got.Shape != nil {
			line += " class=" + got.Shape.Class.String()
		}
		for name, value := range got.ExtraPairs {
			line += fmt.Sprintf(" %s=%s", name, value)
		}
		if line != want || got.HasExtra() != (i < 3) {
			t.Errorf("got\n%s\nwant\n%s", line, want)
		}
	}
	// before, these flags had no meaning
	r = read(6)
	if m, ok := r.Message(r.Tail, r.Head, 3, 2); ok {
		t.Errorf("version 6: %+v", m)
	}
	if m, ok := r.Message(r.Tail+96, r.Head, 5, 2); ok {
		t.Errorf("version 6: %+v", m)
	}
}

// TestDataPartsInChunksAreRead reads data parts whose bytes are in a chunk, and finds damage where a
// message refers to a chunk that does not exist, or to more than a chunk has.
func TestDataPartsInChunksAreRead(t *testing.T) {
	second := strings.Repeat("x", 65536)
	file := &ringtest.File{Version: 6, Chunks: []string{"first chunk", second}, Rings: []ringtest.Ring{{}, {
		Session: body, Seq: 3, Owner: 4711,
		Messages: [][]byte{ringtest.InChunk(4, 0, 11, 0), ringtest.InChunk(4, 1, 65536, 1), ringtest.InChunk(4, 0, 0, 0), ringtest.InChunk(4, 0, 65537, 1), ringtest.InChunk(4, 0, 1, 2)},
	}}}
	f, err := ring.ReadBytes(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Ring(1)
	if err != nil {
		t.Fatal(err)
	}
	position := r.Tail
	for i, want := range []string{"first chunk", second, ""} {
		m, ok := r.Message(position, r.Head, 0, 0)
		if !ok || m.Kind != format.KindData || m.Seq != 4 || m.Part != format.PartKind(i%2) || string(m.Data) != want {
			t.Fatalf("data part %d: %+v, %v", i, m, ok)
		}
		position += m.Length
	}
	for i := range 2 {
		if m, ok := r.Message(position, r.Head, 0, 0); ok {
			t.Errorf("wrong data part %d: %+v", i, m)
		}
		position += 32
	}

	// A file without chunks, and one of an earlier version, in which the flag had no meaning.
	for _, file := range []*ringtest.File{
		{Version: 6, Rings: []ringtest.Ring{{Session: body, Seq: 3, Messages: [][]byte{ringtest.InChunk(4, 0, 1, 0)}}}},
		{Version: 4, Rings: []ringtest.Ring{{Session: body, Seq: 3, Messages: [][]byte{ringtest.InChunk(4, 0, 1, 0)}}}},
	} {
		f, err := ring.ReadBytes(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if r, err = f.Ring(0); err != nil {
			t.Fatal(err)
		}
		if m, ok := r.Message(r.Tail, r.Head, 0, 0); ok {
			t.Errorf("version %d: data part without a chunk: %+v", file.Version, m)
		}
	}

	// The header of version 6 is checked.
	good := file.Bytes()
	for name, offset := range map[string]int{"elsewhere": 81, "another number": 88, "too many": 90, "another size": 93} {
		b := slices.Clone(good)
		b[offset]++
		if _, err := ring.ReadBytes(b); err == nil || !strings.Contains(err.Error(), "header is invalid") {
			t.Errorf("chunks, %s: got %v", name, err)
		}
	}
}

// TestLongTransactionIDsAreRead reads messages of version 6, which have an epoch, and the same bytes as
// messages of version 5, where other fields or nothing are in these places.
func TestLongTransactionIDsAreRead(t *testing.T) {
	brief := ringtest.Brief{Seq: 4, Time: 5, Duration: 7, Statement: 3, XID: 77, XIDEpoch: 3, Template: 5, Version: 9, Values: "1234"}
	long := ringtest.Record{
		Kind: 1, Seq: 5, Time: 9, Statement: 4, XID: 0xfffffffe, XIDEpoch: 2, Audited: 4, SQLState: "22012", Message: "division by zero",
	}
	for version, want := range map[uint32][2]uint64{5: {77, 0xfffffffe}, 6: {3<<32 | 77, 2<<32 | 0xfffffffe}} {
		ringFile := &ringtest.File{Version: version, Rings: []ringtest.Ring{{
			Session: body, Seq: 3, Statement: 2, Owner: 4711, Messages: [][]byte{brief.Bytes(), long.Bytes()},
		}}}
		r := ringOf(t, ringFile, 0)
		first, ok := r.Message(r.Tail, r.Head, 0, 0)
		if !ok || first.Record.XID != want[0] {
			t.Errorf("version %d: brief record: %x, %v", version, first.Record.XID, ok)
		}
		second, ok := r.Message(r.Tail+first.Length, r.Head, 0, 0)
		if !ok || second.Record.XID != want[1] || string(second.Record.SQLState) != "22012" {
			t.Errorf("version %d: record: %x, %s, %v", version, second.Record.XID, second.Record.SQLState, ok)
		}
		if version == 6 && second.Record.Audited != 4 {
			t.Errorf("version %d: audited %d", version, second.Record.Audited)
		}
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	good := sample().Bytes()
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   string
	}{
		"another magic":       {func(b []byte) []byte { b[0]++; return b }, "not a ring file"},
		"empty":               {func([]byte) []byte { return nil }, "not a ring file"},
		"never completed":     {func(b []byte) []byte { clear(b[:8]); return b }, "never completed"},
		"version 1":           {func(b []byte) []byte { b[8] = 1; return b }, "ring file has version 1, but this program reads 2, 3"},
		"another build":       {func(b []byte) []byte { b[25] = 1; return b }, "created by a different build"},
		"no rings":            {func(b []byte) []byte { b[12] = 0; return b }, "header is invalid"},
		"too many rings":      {func(b []byte) []byte { b[15] = 0xff; return b }, "header is invalid"},
		"odd size":            {func(b []byte) []byte { b[16]++; return b }, "header is invalid"},
		"no writers":          {func(b []byte) []byte { b[20] = 0; return b }, "header is invalid"},
		"too many writers":    {func(b []byte) []byte { b[20] = 65; return b }, "header is invalid"},
		"rings too big":       {func(b []byte) []byte { copy(b[16:], "\x00\x00\x00\x08"); return b }, "header is invalid"},
		"rings elsewhere":     {func(b []byte) []byte { b[49]++; return b }, "header is invalid"},
		"data elsewhere":      {func(b []byte) []byte { b[57]++; return b }, "header is invalid"},
		"too short":           {func(b []byte) []byte { return b[:len(b)-1] }, "bytes long instead of"},
		"shorter than that":   {func(b []byte) []byte { return b[:4096] }, "it is 4096 bytes long"},
		"shorter than a page": {func(b []byte) []byte { return b[:100] }, "not a ring file"},
	} {
		_, err := ring.ReadBytes(c.change(slices.Clone(good)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	version3 := slices.Clone(good)
	version3[8] = 3
	if f, err := ring.ReadBytes(version3); err != nil || f.Version != 3 {
		t.Errorf("version 3: %v", err)
	}
}

// FuzzRingFile reads a ring whose header and data begin with any bytes. No panic;
// positions go forward and end; what write.Check lets pass makes blocks that a reader
// reads, with as many records.
func FuzzRingFile(f *testing.F) {
	trailtest.AddCorpus(f)
	one := sample()
	one.Rings = one.Rings[:1]
	one.Rings[0].Tail = 0
	all := one.Bytes()
	const ringAt, dataAt = 8192, 8192 + 4096
	f.Add(all[ringAt:ringAt+600], all[dataAt:dataAt+700])
	f.Add(all[ringAt:ringAt+200], all[dataAt:dataAt+300])
	f.Add([]byte{}, all[dataAt:dataAt+100])
	f.Fuzz(func(t *testing.T, header, data []byte) {
		if len(header) > 4096 || len(data) > 4096 {
			return
		}
		b := slices.Clone(all)
		copy(b[ringAt:], header)
		copy(b[dataAt:], data)
		file, err := ring.ReadBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		r, err := file.Ring(0)
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := r.Staged(); ok {
			_ = write.Check(&write.Source{Body: body}, w)
		}
		if !r.PositionsArePossible() {
			return
		}
		s := write.Source{Body: body}
		if write.CheckBody(r.Session) {
			s.Body = r.Session
		}
		trailtest.CheckMemory(t, len(b), func() { drain(t, r, s) })
	})
}

func drain(t *testing.T, r *ring.Ring, s write.Source) {
	b := write.NewBlock()
	records := uint32(0)
	for p := r.Tail; p != r.Head; {
		m, ok := r.Message(p, r.Head, s.Seq, s.Statement)
		if !ok {
			break
		}
		if m.Length == 0 || m.Length > r.Head-p {
			t.Fatalf("message of %d bytes where %d are left", m.Length, r.Head-p)
		}
		p += m.Length
		switch {
		case m.Kind == format.KindDefSession && write.CheckBody(m.Body):
			s = write.Source{Body: m.Body, Seq: m.Seq, Statement: m.Statement}
		case m.Kind == format.KindData:
			b.AddData(&s, m.Seq, m.Part, m.Data)
		case m.Kind.IsRecord() && write.Check(&s, &m.Record) == nil:
			b.Add(&s, &m.Record)
			records++
		}
	}
	image, _ := b.Finish(1, 1, 0, [32]byte{})
	read := format.Block{Image: image}
	if err := read.Load(); err != nil {
		t.Fatal(err)
	}
	var rec format.Record
	n := uint32(0)
	for {
		err := read.Next(&rec)
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			break
		}
		if rec.Kind != format.KindData {
			n++
		}
	}
	if n != records {
		t.Fatalf("%d records were written and %d read", records, n)
	}
}

// FuzzRingHeader reads a ring file whose header is of any bytes: refused, or every
// ring lies in the file.
func FuzzRingHeader(f *testing.F) {
	trailtest.AddCorpus(f)
	all := sample().Bytes()
	f.Add(all[:80])
	f.Add(binary.LittleEndian.AppendUint32([]byte("STENRING"), 3))
	f.Fuzz(func(t *testing.T, header []byte) {
		b := slices.Clone(all)
		copy(b, header)
		trailtest.CheckMemory(t, len(b), func() {
			file, err := ring.ReadBytes(b)
			if err != nil {
				return
			}
			for i := range file.Rings {
				if _, err := file.Ring(i); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// TestLiveRingIsRead reads rings as they are while their server runs.
func TestLiveRingIsRead(t *testing.T) {
	const ring0, version, waits = 8192, 256, 16
	bytes := sample().Bytes()
	binary.LittleEndian.PutUint64(bytes[ring0+waits:], 12)
	f, err := ring.ReadBytes(bytes)
	if err != nil {
		t.Fatal(err)
	}
	l, err := f.Live(0)
	if err != nil {
		t.Fatal(err)
	}
	if l.Owner != 4711 || l.Waits != 12 || l.Used() != l.Head-l.Tail || l.Used() == 0 || string(l.Session) != string(body) {
		t.Errorf("got %+v", l)
	}
	if l.Running == nil || string(l.Running.Text) != "SELECT pg_sleep(10)" || l.Running.Time != trailtest.Epoch+9 || l.Running.Statement != 4 {
		t.Errorf("running: %+v", l.Running)
	}
	if want := trailtest.Epoch + 5 + 7; l.Oldest != want {
		t.Errorf("the oldest record ended at %d, want %d", l.Oldest, want)
	}
	// an entry that is being changed
	bytes[ring0+version] = 1
	if l, err = f.Live(0); err != nil || l.Running != nil || l.Owner != 4711 {
		t.Errorf("while the entry changes: %+v, %v", l, err)
	}
	// a ring without an owner
	if l, err = f.Live(1); err != nil || l.Running != nil || l.Owner != 0 {
		t.Errorf("without an owner: %+v, %v", l, err)
	}
	// whatever the bytes are, nothing is read outside the copy
	for i := range 8192 {
		for _, b := range []byte{0, 0xff, 0x80} {
			was := bytes[ring0+i]
			bytes[ring0+i] = b
			if f, err := ring.ReadBytes(bytes); err == nil {
				for k := range f.Rings {
					_, _ = f.Live(k)
				}
			}
			bytes[ring0+i] = was
		}
	}
}

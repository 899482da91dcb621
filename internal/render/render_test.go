package render

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

var ref = &trail.BlockRef{Segment: &trail.Segment{Number: 2, Stream: &trail.Stream{Number: 1}}, Number: 7}

// undoneXID is a transaction that was rolled back later.
const undoneXID = 743

// render makes the lines of records through a block.
func render(t testing.TB, f Renderer, records ...*trailtest.Record) string {
	t.Helper()
	return renderAt(t, ref, f, records...)
}

// renderAt does so for a block at a place.
func renderAt(t testing.TB, ref *trail.BlockRef, f Renderer, records ...*trailtest.Record) string {
	t.Helper()
	b := trailtest.NewBuilder(trailtest.Epoch)
	for _, r := range records {
		b.Add(r)
	}
	var chain [32]byte
	block := format.Block{Image: b.Finish(format.CodecNone, 7, 1, &chain)}
	if err := block.Load(); err != nil {
		t.Fatal(err)
	}
	f.Start(ref)
	var out []byte
	var r format.Record
	for {
		err := block.Next(&r)
		if err == io.EOF {
			return string(out)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.XID == undoneXID {
			r.Effect = format.EffectRolledBack
		}
		out = f.Append(out, &r)
	}
}

// timed is the line of a statement whose time is told apart.
func timed(t testing.TB, f Format) string { return timedBy(t, New(f, Options{})) }

func timedBy(t testing.TB, render Renderer) string {
	t.Helper()
	r := full()
	r.Outcome, r.SQLState, r.Message = format.OutcomeOk, "", ""
	r.TextHash[0], r.Shape.Query, r.Shape.Prepared, r.Extra = 1, "DELETE", "p", []string{"portal", "c"}
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Item(format.KindTimes, []byte{15, 1, 2, 3, 200, 10})
	b.Add(r)
	var chain [32]byte
	block := format.Block{Image: b.Finish(format.CodecNone, 7, 1, &chain)}
	if err := block.Load(); err != nil {
		t.Fatal(err)
	}
	render.Start(ref)
	var record format.Record
	if err := block.Next(&record); err != nil {
		t.Fatal(err)
	}
	line := render.Append(nil, &record)
	if err := block.Next(&record); err != io.EOF {
		t.Fatal(err)
	}
	return string(line)
}

// full is a record with all fields.
func full() *trailtest.Record {
	s := trailtest.NewSession(trailtest.Epoch, 0xabc,
		trailtest.Fact{Key: format.KeyBackendType, Value: "client backend"}, trailtest.Fact{Key: format.KeyUser, Value: "alice"},
		trailtest.Fact{Key: format.KeyDatabase, Value: "shop"}, trailtest.Fact{Key: format.KeyRole, Value: "admin"},
		trailtest.Fact{Key: format.KeyApplication, Value: "psql"}, trailtest.Fact{Key: format.KeyAppUser, Value: "bob"},
		trailtest.Fact{Key: format.KeyClient, Value: "10.0.0.1:5000"}, trailtest.Fact{Key: format.KeyAppContext, Value: "it's 4711"})
	return &trailtest.Record{
		Kind: format.KindStatement, Session: s, Time: trailtest.Epoch + 123456, Duration: 1500, Rows: 2, Statement: 3, Depth: 1, Substatement: 4,
		Text: "SELECT \"a\"\n FROM t", TextBytes: 99, Outcome: format.OutcomeError, SQLState: "42P01", Message: "no t", XID: 77,
		Shape: &trailtest.Shape{
			Class: format.ClassRead, QueryID: 1<<64 - 5, Command: "SELECT",
			Relations: []trailtest.Relation{{Type: format.RelationTypeTable, Access: format.AccessSelect | format.AccessUpdate | format.AccessAudited, Name: "public.t"}},
			Params:    []format.ParamType{{OID: 23, Repr: format.ReprInt4}, {OID: 25, Repr: format.ReprText}, {OID: 17, Repr: format.ReprBytea}},
			Objects: []trailtest.Object{
				{Action: format.ActionExecute, Type: "function", Name: "public.f"},
				{Action: format.ActionRename, Type: "event trigger", Name: "a", To: "b"},
			},
		},
		Audited: format.AuditedSession | format.AuditedObject,
		Nulls:   []byte{2}, Values: append(binary.LittleEndian.AppendUint32(nil, 42), 2, 0xff, 0x01), Extra: []string{"reason", "x"},
	}
}

func TestJSONFieldsAndTheirOrder(t *testing.T) {
	got := render(t, New(JSON, Options{}), full())
	want := `{"time":"2026-11-21T20:45:13.123456Z","kind":"statement","session":"6b0202d9.abc","seq":1,"statement":3,"substatement":4,"depth":1,"pid":2748,"user":"alice","role":"admin","app_user":"bob","app_context":"it's 4711","database":"shop","application":"psql","client":"10.0.0.1:5000","class":"read","command":"SELECT","relations":[{"name":"public.t","type":"table","access":"select,update","audited":true}],"objects":[{"name":"public.f","type":"function","action":"execute"},{"name":"a","type":"event trigger","action":"rename","to":"b"}],"text":"SELECT \"a\"\n FROM t","text_bytes":99,"params":["42",null,"\\xff01"],"query_id":-5,"rows":2,"duration_us":1500,"outcome":"error","sqlstate":"42P01","message":"no t","xid":77,"extra":{"reason":"x"},"audited":["session","object"],"stream":1,"segment":2,"block":7}` + "\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestJSONLeavesOutWhatIsAbsent(t *testing.T) {
	got := render(t, New(JSON, Options{}), &trailtest.Record{Kind: format.KindServer, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch})
	want := `{"time":"2026-11-21T20:45:13.000000Z","kind":"server","session":"6b0202d9.1","seq":1,"pid":1,"stream":1,"segment":2,"block":7}` + "\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTextFormat(t *testing.T) {
	got := render(t, New(Text, Options{}), full())
	want := "2026-11-21 20:45:13.123456Z alice@shop role=admin app_user=bob app_context='it''s 4711' [6b0202d9.abc 1] ERROR read/SELECT depth 1 1.50ms 2 rows xid 77 by session,object 42P01 no t | SELECT \"a\"\\n FROM t | cut from 99 bytes | $1=42, $2=NULL, $3='\\xff01' | execute function public.f, rename event trigger a to b | reason=x\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if colored := render(t, New(Text, Options{Color: true}), full()); !strings.Contains(colored, "\x1b[31mERROR\x1b[0m") {
		t.Errorf("no colour: %q", colored)
	}
}

func TestRecordsWithoutANumberShowNone(t *testing.T) {
	for as, want := range map[Format][2]string{
		Text: {"[6b0202d9.1] ", "[6b0202d9.1 "},
		JSON: {`"session":"6b0202d9.1","statement":1`, `"seq"`},
		CSV:  {"start,6b0202d9.1,,1,", "6b0202d9.1,0"},
	} {
		got := render(t, New(as, Options{}), &trailtest.Record{
			Kind: format.KindStart, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Unnumbered: true,
			Outcome: format.OutcomeRunning, Text: "SELECT 1",
		})
		if !strings.Contains(got, want[0]) || strings.Contains(got, want[1]) {
			t.Errorf("%s: got %s", as, got)
		}
	}
}

func TestCSVHasAColumnForEachField(t *testing.T) {
	out := string(Header(CSV, Options{})) + render(t, New(CSV, Options{}), full(), &trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(1, 1), Time: trailtest.Epoch, Text: "a,b"})
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v\n%s", len(rows), err, out)
	}
	want := map[string]string{
		"time": "2026-11-21T20:45:13.123456Z", "text": "SELECT \"a\"\n FROM t", "params": `["42",null,"\\xff01"]`, "query_id": "-5",
		"relations": `[{"name":"public.t","type":"table","access":"select,update","audited":true}]`, "extra": `{"reason":"x"}`, "block": "7", "role": "admin", "app_context": "it's 4711", "audited": "session object",
		"objects": `[{"name":"public.f","type":"function","action":"execute"},{"name":"a","type":"event trigger","action":"rename","to":"b"}]`,
	}
	for i, name := range rows[0] {
		if v, ok := want[name]; ok && rows[1][i] != v {
			t.Errorf("%s: got %q, want %q", name, rows[1][i], v)
		}
	}
	if !slices.Contains(rows[2], "a,b") {
		t.Errorf("got %q", rows[2])
	}
}

// nasty makes text of what breaks output.
func nasty(rng *rand.Rand) string {
	pieces := []string{"\x1b[31m", "\n", "\r", "\t", "\x00", "\x7f", "\u0085", "\u009b31m", "\u202e", "\u2028", "\"", "\\", "'", ",", "\xff", "\xc3", "ä", "日本", "\U0001f600", "\xed\xa0\x80", "plain text", "\ufeff"}
	var b strings.Builder
	for range rng.IntN(12) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	return b.String()
}

// TestNoTextBreaksALineOrATerminal puts nasty text everywhere.
func TestNoTextBreaksALineOrATerminal(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	csvlogColumns := len(documented(t, CSVLog))
	for range 2000 {
		r := full()
		r.Text, r.Message, r.SQLState = nasty(rng), nasty(rng), "\x1b\n\xff\"x"
		r.Extra = []string{nasty(rng), nasty(rng)}
		r.Shape.Command, r.Shape.Relations[0].Name = nasty(rng), nasty(rng)
		r.Shape.Objects[1] = trailtest.Object{Action: format.Action(rng.IntN(9)), Type: nasty(rng), Name: nasty(rng), To: nasty(rng)}
		r.Nulls = []byte{0}
		value := nasty(rng)
		r.Values = append(binary.LittleEndian.AppendUint32(nil, 42), byte(len(value)))
		r.Values = append(append(r.Values, value...), 0)
		for i := range r.Session.Facts {
			r.Session.Facts[i].Value = nasty(rng)
		}
		r.Depth = uint64(rng.IntN(2))
		r.Kind = format.Kind(1 + rng.IntN(11))
		for _, name := range Formats {
			f := Format(name)
			out := render(t, New(f, Options{Pgaudit: PgauditOptions{Log: pgauditAll, LogParameter: true, LogStatement: true}}), r)
			out = string(NewOrder(f).Next([]byte(out)))
			checkSafe(t, f, out)
			switch f {
			case JSON:
				if want := strings.ToValidUTF8(r.Text, ""); utf8.ValidString(r.Text) && r.Text != "" && object(t, out)["text"] != want {
					t.Fatalf("text became %q, was %q", object(t, out)["text"], r.Text)
				}
			case ECS, OCSF:
				object(t, out)
			case OTel:
				otelRecord(t, out)
			case CSV:
				if row, err := csv.NewReader(strings.NewReader(out)).Read(); err != nil || len(row) != len(Columns) {
					t.Fatalf("%d columns, %v: %q", len(row), err, out)
				}
			case CSVLog:
				rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
				if err != nil || len(rows) > 2 || len(rows) > 0 && len(rows[0]) != csvlogColumns {
					t.Fatalf("%v: %q", err, out)
				}
			case Pgaudit:
				rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
				if err != nil || len(rows) > 0 && len(rows[0]) != 9 {
					t.Fatalf("%v: %q", err, out)
				}
			}
		}
	}
}

// checkSafe checks that what was made of one record has no byte that a terminal
// acts on, and no line but its own.
func checkSafe(t *testing.T, f Format, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Fatalf("%s: not UTF-8: %q", f, out)
	}
	columns := f == CSV || f == CSVLog || f == Pgaudit
	for _, c := range strings.TrimSuffix(strings.TrimSuffix(out, "\n"), "\r") {
		if c < ' ' && !(columns && strings.ContainsRune("\n\r\t", c)) || c >= 0x7f && c < 0xa0 || unsafeRune(c) && c >= 0x80 {
			t.Fatalf("%s: %U in %q", f, c, out)
		}
	}
}

func TestTimesFarAway(t *testing.T) {
	for usec, want := range map[int64]string{
		0: "2000-01-01T00:00:00.000000Z", -1: "1999-12-31T23:59:59.999999Z", 848609113123456: "2026-11-21T20:45:13.123456Z",
		-(2000*365 + 485) * 86400 * 1e6: "0000-01-01T00:00:00.000000Z",
	} {
		if got := Time(usec); got != want {
			t.Errorf("%d: got %s, want %s", usec, got, want)
		}
	}
	Time(format.MinTime)
	Time(format.MaxTime)
}

// TestNoValueIsAFormulaInASpreadsheet looks at every value that a client chooses, and
// takes the apostrophe off again.
func TestNoValueIsAFormulaInASpreadsheet(t *testing.T) {
	for _, value := range []string{"=HYPERLINK(1)", "+1", "-2+3", "@SUM(1)", "\r=1", "\n=1", "'quoted'", "'"} {
		r := full()
		r.Text, r.Message, r.Shape.Command = value, value, value
		for i := range r.Session.Facts {
			r.Session.Facts[i].Value = value
		}
		for _, unsafe := range []bool{false, true} {
			rows, err := csv.NewReader(strings.NewReader(render(t, New(CSV, Options{CSVUnsafe: unsafe}), r))).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for i, cell := range rows[0] {
				if !unsafe && cell != "" && Columns[i] != "query_id" && strings.ContainsRune("=+-@\t\r\n", rune(cell[0])) {
					t.Errorf("column %s is a formula: %q", Columns[i], cell)
				}
				if !unsafe {
					cell = strings.TrimPrefix(cell, "'")
				}
				if strings.ReplaceAll(cell, "\r", "") == strings.ReplaceAll(value, "\r", "") {
					found++
				}
			}
			if found < 9 {
				t.Errorf("%q is in %d columns, unsafe %v: %q", value, found, unsafe, rows)
			}
		}
	}
}

func TestDurations(t *testing.T) {
	for usec, want := range map[uint64]string{0: "0µs", 999: "999µs", 1500: "1.50ms", 15_000: "15.0ms", 150_000: "150ms", 2_500_000: "2.50s", 61e6: "1m1s", 3660e6: "1h1m"} {
		if got := string(appendDuration(nil, usec)); got != want {
			t.Errorf("%d: got %s, want %s", usec, got, want)
		}
	}
}

func BenchmarkFormats(b *testing.B) {
	for _, f := range Formats {
		b.Run(f, func(b *testing.B) { benchmark(b, Format(f)) })
	}
}

func benchmark(b *testing.B, as Format) {
	builder := trailtest.NewBuilder(trailtest.Epoch)
	r := full()
	r.Depth, r.Outcome, r.SQLState, r.Message, r.Audited = 0, format.OutcomeOk, "", "", 0
	for i := range int64(1000) {
		r.Time, r.Seq, r.Statement = trailtest.Epoch+i, 0, 0
		builder.Add(r)
	}
	var chain [32]byte
	block := format.Block{Image: builder.Finish(format.CodecLz4, 7, 1, &chain)}
	f := New(as, Options{})
	var out []byte
	for b.Loop() {
		if err := block.Load(); err != nil {
			b.Fatal(err)
		}
		f.Start(ref)
		out = out[:0]
		var r format.Record
		for block.Next(&r) == nil {
			out = f.Append(out, &r)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mrecords/s")
	if n := bytes.Count(out, []byte{'\n'}); n < 1000 {
		b.Fatal(fmt.Sprint(n))
	}
}

// TestDefinitionsAreShownWhateverTheirOrder renders a second block whose records
// use the dictionaries in another order, and not all of them.
func TestDefinitionsAreShownWhateverTheirOrder(t *testing.T) {
	for _, name := range Formats {
		as := Format(name)
		f := New(as, Options{Pgaudit: PgauditDefaults})
		var b format.Block
		block := func(order ...int) (lines []string) {
			builder := trailtest.NewBuilder(trailtest.Epoch)
			var records []*trailtest.Record
			for i := range 3 {
				r := full()
				r.Session.PID, r.Text = uint32(100+i), fmt.Sprint("text ", i)
				r.Shape.Command = fmt.Sprint("COMMAND ", i)
				records = append(records, r)
			}
			for _, r := range records {
				builder.Add(r)
			}
			var chain [32]byte
			b.Image = builder.Finish(format.CodecNone, 7, 1, &chain)
			if err := b.Load(); err != nil {
				t.Fatal(err)
			}
			all := make([]format.Record, 3)
			for i := range all {
				if err := b.Next(&all[i]); err != nil {
					t.Fatal(err)
				}
			}
			f.Start(ref)
			for _, i := range order {
				lines = append(lines, string(f.Append(nil, &all[i])))
			}
			return lines
		}
		want := block(0, 1, 2)
		got := block(2, 0, 1)
		if !slices.Equal([]string{got[1], got[2], got[0]}, want) {
			t.Errorf("%s: got %q, want %q", as, got, want)
		}
	}
}

func TestATransactionThatWasRolledBackSaysSo(t *testing.T) {
	session := &format.Session{PID: 1}
	r := &format.Record{Kind: format.KindTransaction, Session: session, Outcome: format.OutcomeError, XID: 742}
	line := string(New(Text, Options{}).Append(nil, r))
	if !strings.Contains(line, "rolled back transaction xid 742") || strings.Contains(line, "ERROR") {
		t.Errorf("got %q", line)
	}
}

func TestAStatementThatWasRolledBackSaysSo(t *testing.T) {
	r := &trailtest.Record{Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: "DROP TABLE t", XID: undoneXID}
	other := *r
	other.XID++
	for as, want := range map[Format]string{
		Text: "] rolled back statement", JSON: `"xid":743,"rolled_back":true,`, CSV: ",true,,,,,,,,,,,\r\n",
		ECS: `"rolled_back":true`, OCSF: `"rolled_back":true`, OTel: `{"key":"pg_steno.rolled_back","value":{"boolValue":true}}`,
	} {
		if got := render(t, New(as, Options{}), r); !strings.Contains(got, want) {
			t.Errorf("%s: %s", as, got)
		}
		if got := render(t, New(as, Options{}), &other); strings.Contains(got, want) || strings.Contains(got, "rolled") {
			t.Errorf("%s, not rolled back: %s", as, got)
		}
	}
}

func TestPreparedStatementsAndPortalsAreNamed(t *testing.T) {
	shape := &trailtest.Shape{Class: format.ClassWrite, Command: "EXPLAIN", Query: "DELETE", Prepared: "S_\xc3\xa4"}
	named := &trailtest.Record{Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Shape: shape,
		Text: "EXPLAIN ANALYZE DELETE FROM t", Extra: []string{"objects_omitted", "1", "portal", "C 1"}}
	alone := *named
	alone.Extra = []string{"portal", "C 1"}
	for as, want := range map[Format][2]string{
		Text: {` prepared=S_ä portal='C 1' objects_omitted=1`, ` prepared=S_ä portal='C 1'` + "\n"},
		JSON: {`"portal":"C 1","extra":{"objects_omitted":"1"}`, `"query_command":"DELETE","prepared":"S_ä"`},
		OTel: {`{"key":"pg_steno.portal","value":{"stringValue":"C 1"}}`, `{"key":"pg_steno.prepared","value":{"stringValue":"S_ä"}}`},
		CSV:  {",DELETE,S_ä,C 1,,,,,\r\n", ",DELETE,S_ä,C 1,,,,,\r\n"},
	} {
		for i, r := range []*trailtest.Record{named, &alone} {
			if got := render(t, New(as, Options{}), r); !strings.Contains(got, want[i]) || i == 1 && strings.Contains(got, "extra") {
				t.Errorf("%s: %s lacks %s", as, got, want[i])
			}
		}
	}
}

// TestVariablesThatAreNotUsedAreNotShown: PL/pgSQL passes all variables of a function to each of its statements.
func TestVariablesThatAreNotUsedAreNotShown(t *testing.T) {
	unused := format.ParamType{}
	shape := &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Params: []format.ParamType{unused, {OID: 23, Repr: format.ReprInt4}, unused, {OID: 25, Repr: format.ReprText}, unused, unused}}
	r := &trailtest.Record{Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Shape: shape,
		Text: "SELECT a", Nulls: []byte{0b111101}, Values: []byte{7, 0, 0, 0}}
	for as, want := range map[Format]string{Text: "| $2=7, $4=NULL\n", JSON: `"params":[null,"7",null,null]`, CSV: `,"[null,""7"",null,null]",`} {
		if got := render(t, New(as, Options{}), r); !strings.Contains(got, want) {
			t.Errorf("%s: %s lacks %s", as, got, want)
		}
	}
	none := *r
	none.Shape = &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Params: []format.ParamType{unused, unused}}
	none.Nulls, none.Values = []byte{0b11}, nil
	for _, as := range []Format{Text, JSON} {
		if got := render(t, New(as, Options{}), &none); strings.Contains(got, "params") || strings.Contains(got, "$1") {
			t.Errorf("%s: %s", as, got)
		}
	}
}

// TestTextsOfDifferentKindsAreOne: a note and a statement with the same text share what is kept of it, and so do those
// without any.
func TestTextsOfDifferentKindsAreOne(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	records := func(text string) (all []*trailtest.Record) {
		for _, k := range []format.Kind{format.KindStatement, format.KindNote, format.KindGap, format.KindStatement} {
			all = append(all, &trailtest.Record{Kind: k, Session: s, Time: trailtest.Epoch, Text: text, Fields: format.FieldText})
		}
		return all
	}
	for _, text := range []string{"same", ""} {
		for _, f := range []Format{JSON, ECS, OCSF, OTel} {
			together := render(t, New(f, Options{}), records(text)...)
			each := New(f, Options{})
			b := strings.Builder{}
			for i, r := range records(text) {
				r.Seq = uint64(i + 1)
				b.WriteString(render(t, each, r))
			}
			if numberless(together) != numberless(b.String()) {
				t.Errorf("%s:\n%s\neach by itself:\n%s", f, together, b.String())
			}
			for line := range strings.Lines(together) {
				object(t, line)
			}
		}
	}
}

// numberless is a text without digits, which differ where a session goes on.
func numberless(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

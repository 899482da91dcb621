package render

import (
	"encoding/binary"
	"encoding/csv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// forged are what clients can put into names and texts, and as what it is shown in columns: line breaks and blanks are what
// they are, what is not seen is escaped.
var forged = [][2]string{
	{"a", "a"}, {" ", " "}, {"\t", "\t"}, {"\n", "\n"}, {"\r", "\r"}, {`"`, `"`}, {`""`, `""`}, {",", ","}, {"'", "'"}, {"\\", "\\"}, {"|", "|"}, {" | ", " | "},
	{"\n\\.\n", "\n\\x5c.\n"}, {"=1+1", "=1+1"}, {"@SUM(A1)", "@SUM(A1)"}, {"<script>alert(1)</script>", "<script>alert(1)</script>"},
	{"\nAUDIT: SESSION,1,1,READ,SELECT,TABLE,hr.staff,forged,<none>\n", "\nAUDIT: SESSION,1,1,READ,SELECT,TABLE,hr.staff,forged,<none>\n"},
	{"\"\n2026-11-21 20:45:13.000 UTC,\"eve\",\"shop\"", "\"\n2026-11-21 20:45:13.000 UTC,\"eve\",\"shop\""},
	{"\x01", `\x01`}, {"\x02", `\x02`}, {"\x1b[31m", `\x1b[31m`}, {"\x7f", `\x7f`}, {"\u009b", `\u009b`}, {"\u202e", `\u202e`}, {"\u2066", `\u2066`}, {"\u200b", `\u200b`},
	{"\u2028", `\u2028`}, {"\ufeff", `\ufeff`}, {"\xff", `\xff`}, {"\xc3", `\xc3`}, {"ä", "ä"}, {"日本", "日本"}, {"<none>", "<none>"}, {"<not logged>", "<not logged>"},
}

// forgery is a string of such parts, and what a reader of columns must find. A reader takes CR LF for LF.
func forgery(rnd *rand.Rand) (s, shown string) {
	for range rnd.IntN(8) {
		one := forged[rnd.IntN(len(forged))]
		s, shown = s+one[0], shown+one[1]
	}
	return s, strings.ReplaceAll(shown, "\r\n", "\n")
}

func rowsOf(t *testing.T, lines string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(lines)).ReadAll()
	if err != nil {
		t.Fatalf("%v: %q", err, lines)
	}
	if slices.Contains(strings.FieldsFunc(lines, func(r rune) bool { return r == '\n' || r == '\r' }), `\.`) {
		t.Fatalf("psql ends to copy in %q", lines)
	}
	return rows
}

// TestNoValueForgesAColumn: a plain reader of CSV finds in each column of csv, csvlog and pgaudit what belongs there,
// whatever clients put into names, texts, parameters and messages.
func TestNoValueForgesAColumn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 5))
	fact := func(k format.Key, v string) trailtest.Fact { return trailtest.Fact{Key: k, Value: v} }
	want := func(what string, got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: %q, want %q", what, got, want)
		}
	}
	for range 4000 {
		user, userShown := forgery(rnd)
		database, databaseShown := forgery(rnd)
		application, applicationShown := forgery(rnd)
		text, textShown := forgery(rnd)
		message, messageShown := forgery(rnd)
		relation, relationShown := forgery(rnd)
		param, paramShown := forgery(rnd)
		param, paramShown = "p"+param, "p"+paramShown
		s := trailtest.NewSession(trailtest.Epoch, 1, fact(format.KeyUser, user), fact(format.KeyDatabase, database), fact(format.KeyApplication, application),
			fact(format.KeyBackendType, "client backend"), fact(format.KeyClient, "10.0.0.1:50022"))
		ok := statement(s, format.ClassRead, "SELECT", "x"+text, table("x"+relation, format.AccessSelect))
		ok.Shape.Params = []format.ParamType{{OID: 25, Repr: format.ReprText}}
		ok.Nulls, ok.Values = []byte{0}, append(binary.AppendUvarint(nil, uint64(len(param))), param...)
		failed := statement(s, format.ClassRead, "SELECT", "x"+text)
		failed.Outcome, failed.SQLState, failed.Message = format.OutcomeError, "42501", "x"+message

		rows := rowsOf(t, csvlogLines(t, ok, failed))
		if len(rows) != 2 {
			t.Fatalf("csvlog: %d rows", len(rows))
		}
		for _, row := range rows {
			want("user_name", row[1], userShown)
			want("database_name", row[2], databaseShown)
			want("connection_from", row[4], "10.0.0.1:50022")
			want("command_tag", row[7], "SELECT")
			want("application_name", row[22], applicationShown)
			want("backend_type", row[23], "client backend")
		}
		want("severity and SQLSTATE", strings.Join(rows[0][11:13], " ")+", "+strings.Join(rows[1][11:13], " "), "LOG 00000, ERROR 42501")
		want("message", rows[0][13], "duration: 0.000 ms  execute <unnamed>: x"+textShown)
		want("detail", rows[0][14], "parameters: $1 = '"+strings.ReplaceAll(paramShown, "'", "''")+"'")
		want("message of a failure", rows[1][13], "x"+messageShown)
		want("query", rows[1][19], "x"+textShown)

		rows = rowsOf(t, pgauditLines(t, []string{"log_relation", "log_parameter", "log_rows"}, ok))
		if len(rows) != 1 || len(rows[0]) != 10 {
			t.Fatalf("pgaudit: %q", rows)
		}
		row := rows[0]
		want("pgaudit", strings.Join(row[:6], " "), "AUDIT: SESSION 1 1 READ SELECT TABLE")
		want("object", row[6], "x"+relationShown)
		want("statement", row[7], "x"+textShown)
		if inner := rowsOf(t, row[8]); len(inner) != 1 || len(inner[0]) != 1 {
			t.Fatalf("parameters: %q", row[8])
		} else {
			want("parameter", inner[0][0], paramShown)
		}
		want("rows", row[9], "0")

		rows = rowsOf(t, string(Header(CSV, Options{}))+render(t, New(CSV, Options{CSVUnsafe: true}), ok, failed))
		if len(rows) != 3 {
			t.Fatalf("csv: %d rows", len(rows))
		}
		column := func(row []string, name string) string { return row[slices.Index(Columns, name)] }
		for _, row := range rows[1:] {
			want("user", column(row, "user"), userShown)
			want("database", column(row, "database"), databaseShown)
			want("application", column(row, "application"), applicationShown)
			want("text", column(row, "text"), "x"+textShown)
			want("client", column(row, "client"), "10.0.0.1:50022")
		}
		want("message", column(rows[2], "message"), "x"+messageShown)
		want("outcomes", column(rows[1], "outcome")+" "+column(rows[2], "outcome"), "ok error")
	}
}

// TestOtherRecordsForgeNothingInCsvlog: the names and values of a setting are apart from each other, and from a text.
func TestOtherRecordsForgeNothingInCsvlog(t *testing.T) {
	s := trailtest.NewSession(trailtest.Epoch, 1)
	setting := &trailtest.Record{Kind: format.KindSetting, Session: s, Time: trailtest.Epoch, Extra: []string{"name", "steno.app_user", "old", "x new=admin", "new", "it's"}}
	note := &trailtest.Record{Kind: format.KindNote, Session: s, Time: trailtest.Epoch, Text: "a | salvaged=b", Extra: []string{"salvaged", "stream 0"}}
	for i, want := range []string{
		`pg_steno setting: name=steno.app_user old='x new=admin' new='it''s'`, `pg_steno note: a \x7c salvaged=b | salvaged='stream 0'`,
	} {
		if got := csvlogRows(t, []*trailtest.Record{setting, note}[i])[0][13]; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestForgeriesForPostgres writes files of hostile records and what each column has, for a comparison with what PostgreSQL
// itself reads: STENO_FORGERIES names the folder.
func TestForgeriesForPostgres(t *testing.T) {
	dir := os.Getenv("STENO_FORGERIES")
	if dir == "" {
		t.Skip("STENO_FORGERIES is not set")
	}
	rnd := rand.New(rand.NewPCG(28, 6))
	var records []*trailtest.Record
	var expected strings.Builder
	w := csv.NewWriter(&expected)
	for n := range 500 {
		user, userShown := forgery(rnd)
		text, textShown := forgery(rnd)
		s := trailtest.NewSession(trailtest.Epoch, uint32(n+1), trailtest.Fact{Key: format.KeyUser, Value: "x" + user})
		failed := statement(s, format.ClassRead, "SELECT", "x"+text)
		failed.Outcome, failed.SQLState, failed.Message = format.OutcomeError, "42501", "x"+text
		records = append(records, failed)
		_ = w.Write([]string{"x" + userShown, "x" + textShown})
	}
	w.Flush()
	for name, content := range map[string]string{"csvlog.csv": render(t, New(CSVLog, Options{}), records...), "expected.csv": expected.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

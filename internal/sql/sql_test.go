package sql

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// options are those of a database of a trail, which warns of nothing but of what answers may lack.
func options(t *testing.T, path string) Options {
	return Options{
		Index: func() (*trail.Index, error) {
			opened, err := trail.Open(path)
			if err != nil {
				return nil, err
			}
			return opened.Index(), nil
		},
		Since: format.MinTime, Until: format.MaxTime, MemoryLimit: "512MiB", Location: time.UTC,
		Warn: func(err error) {
			if !query.IsIncomplete(err) {
				t.Errorf("warning: %s", err)
			}
		},
	}
}

func open(t *testing.T, o Options) *DB {
	t.Helper()
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// ask returns the answer in a format.
func ask(t *testing.T, db *DB, o Output, statements string) string {
	t.Helper()
	var out bytes.Buffer
	if err := db.Run(t.Context(), statements, func(r *Result) error { return o.Write(&out, r) }); err != nil {
		t.Fatalf("%s: %s", statements, err)
	}
	return out.String()
}

// values is the answer as CSV without header, with lines in order.
func values(t *testing.T, db *DB, statements string) string {
	t.Helper()
	lines := strings.Split(strings.ReplaceAll(ask(t, db, Output{Format: "csv", NoHeader: true, CSVUnsafe: true}, statements), "\r\n", "\n"), "\n")
	slices.Sort(lines)
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// catLines are the lines of "steno cat --format json", by stream and number.
type catLines struct{ render.Renderer }

func (catLines) Keep(*format.Record) bool { return true }

// TestTrailHasWhatCatShows compares all fields of all records of the golden trails.
func TestTrailHasWhatCatShows(t *testing.T) {
	golden := trailtest.Golden(t)
	expected, _ := filepath.Glob(golden + "/*.expected")
	if len(expected) < 9 {
		t.Fatalf("only %d golden trails", len(expected))
	}
	fields := map[string]int{}
	for _, path := range expected {
		path = strings.TrimSuffix(path, ".expected")
		name := filepath.Base(path)
		if name == "encrypted" {
			continue
		}
		o := options(t, path)
		index, err := o.Index()
		if err != nil {
			t.Fatal(err)
		}
		cat := map[string]map[string]any{}
		key := func(r map[string]any) string {
			return fmt.Sprint(r["stream"], r["block"], r["session"], r["seq"], r["statement"], r["substatement"], r["kind"], r["time"], r["text"])
		}
		object := func(line []byte) map[string]any {
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			var r map[string]any
			if err := d.Decode(&r); err != nil {
				t.Fatalf("%s: %s", line, err)
			}
			return r
		}
		err = index.Merge(context.Background(), trail.MergeOptions{
			Since: o.Since, Until: o.Until, Rollbacks: true, Warn: o.Warn,
			NewFormatter: func() trail.Formatter {
				return &catLines{render.New(render.JSON, render.Options{Servers: index.Servers()})}
			},
		}, func(line []byte) error {
			r := object(line)
			cat[key(r)] = r
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range bytes.Lines([]byte(ask(t, open(t, o), Output{Format: "json"}, "FROM trail"))) {
			n++
			got := object(line)
			want := cat[key(got)]
			if want == nil {
				t.Errorf("%s: not shown by cat: %s", name, line)
				continue
			}
			for field, value := range want {
				switch field {
				case "relations", "audited", "columns_omitted":
					continue // lists instead of names with commas
				}
				fields[field]++
				if g := got[field]; !reflect.DeepEqual(g, value) && field != "objects" && (g != nil || len(fmt.Sprint(value)) < 19) { // more than a BIGINT
					t.Errorf("%s: %s is %v, of cat %v", name, field, g, value)
				}
			}
			if undone := got["effect"] == "rolled back"; undone != (want["rolled_back"] == true) {
				t.Errorf("%s: effect is %v, rolled_back of cat %v", name, got["effect"], want["rolled_back"])
			}
			for field, value := range got {
				if want[field] == nil && value != nil && trailHas(field) {
					t.Errorf("%s: %s is %v, which cat does not show", name, field, value)
				}
			}
		}
		if n != len(cat) {
			t.Errorf("%s: %d records, of cat %d", name, n, len(cat))
		}
	}
	for _, c := range trailColumns {
		if fields[c.Name] == 0 && !slices.Contains([]string{"session_start", "address", "relations", "audited", "failed", "duration", "text_bytes", "leader", "leader_substatement", "host", "cluster_name", "fingerprint", "query_command", "prepared", "portal", "effect"}, c.Name) {
			t.Errorf("no record had %s", c.Name)
		}
	}
}

// trailHas says whether cat shows a field whenever the table has it.
func trailHas(field string) bool {
	switch field {
	case "session_start", "address", "failed", "duration", "audited", "depth", "rolled_back", "effect", "backend_type", "auth_method", "identity", "fingerprint":
		return false
	}
	return true
}

// direct is a statement that reads from the table functions themselves, without conditions.
func direct(statement string) string {
	for _, name := range []string{"trail", "relations", "columns"} {
		statement = strings.ReplaceAll(statement, "FROM "+name+" ", "FROM steno_"+name+"('') AS "+name+" ")
	}
	return statement
}

// TestConditionsChangeNoAnswer compares answers with and without conditions that are passed
// down, and counts the blocks that these save.
func TestConditionsChangeNoAnswer(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	for _, c := range []struct {
		skipped int
		where   string
	}{
		{7, `"user" = 'eve'`}, {7, `'eve' = "user"`}, {7, `class = 'role'`}, {7, `kind = 'note' AND depth IS NULL`}, {7, `database IN ('other')`},
		{6, `"user" = 'bob'`}, {6, `role IN ('owner', 'nobody')`}, {6, `app_user = 'x'`}, {6, `application = 'psql'`}, {6, `class = 'ddl'`},
		{6, `command = 'ALTER TABLE'`}, {6, `kind = 'disconnect'`}, {6, `failed`}, {7, `failed AND "user" = 'carol'`}, {5, `outcome = 'error'`},
		{6, `text LIKE '%no such text%'`}, {6, `text ILIKE 'NO SUCH%TEXT'`}, {6, `contains(text, 'no such text')`}, {5, `starts_with(text, 'SELECT') AND contains(text, 'where total')`},
		{6, `"user" = 'bob' OR "user" = 'eve'`}, {0, `"user" = 'bob' OR depth = 0`}, {0, `"user" != 'bob'`}, {0, `NOT failed`}, {0, `kind = 'statement'`},
		{0, `lower("user") = 'bob'`}, {0, `outcome IN ('ok', 'error')`}, {0, `text LIKE '%a%'`}, {0, `"user" = database`}, {0, `"user" IS NULL`}, {0, `class = ''`},
	} {
		statement := `SELECT stream, block, session, seq, kind FROM trail WHERE ` + c.where
		want := values(t, db, direct(statement))
		if got := values(t, db, statement); got != want {
			t.Errorf("%s: %q, without conditions %q", c.where, got, want)
		}
		if used := db.TableScans(); len(used) != 1 || used[0].Skipped != c.skipped {
			t.Errorf("%s: want %d blocks skipped: %+v", c.where, c.skipped, used)
		}
	}
	statement := `SELECT seq, column_name FROM columns WHERE relation = 'public.orders'`
	if got, want := values(t, db, statement), values(t, db, direct(statement)); got != want || want == "" {
		t.Errorf("columns: %q, without conditions %q", got, want)
	}
	if used := db.TableScans(); len(used) != 1 || used[0].Skipped > 0 {
		t.Errorf("columns, directly: %+v", used)
	}
	values(t, db, statement)
	if used := db.TableScans(); used[0].Skipped != 4 {
		t.Errorf("columns: %+v", used)
	}
}

// goldenTrails calls test for each of the golden trails that can be read without a key.
func goldenTrails(t *testing.T, test func(t *testing.T, db *DB)) {
	expected, _ := filepath.Glob(trailtest.Golden(t) + "/*.expected")
	for _, path := range expected {
		if path = strings.TrimSuffix(path, ".expected"); filepath.Base(path) != "encrypted" {
			t.Run(filepath.Base(path), func(t *testing.T) { test(t, open(t, options(t, path))) })
		}
	}
}

// valuesOf are the values of a column with that name, in order.
func valuesOf(t *testing.T, db *DB, statement string) (all []string) {
	t.Helper()
	for line := range strings.Lines(ask(t, db, Output{Format: "json"}, statement)) {
		var row struct{ Value *string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if row.Value == nil {
			all = append(all, "NULL")
		} else {
			all = append(all, "="+*row.Value)
		}
	}
	slices.Sort(all)
	return all
}

// TestColumnsAloneSayTheSame reads each column alone, for which no more of a record is read than it needs,
// and with one for which all of it is.
func TestColumnsAloneSayTheSame(t *testing.T) {
	goldenTrails(t, func(t *testing.T, db *DB) {
		for _, table := range []string{"trail", "relations", "columns"} {
			for _, c := range tableNamed(table).Columns {
				column := fmt.Sprintf("SELECT CAST(%s AS VARCHAR) AS value", identifier(c.Name))
				got, want := valuesOf(t, db, column+" FROM "+table), valuesOf(t, db, column+", text_bytes FROM "+table)
				if !slices.Equal(got, want) {
					t.Errorf("%s.%s is %q, want %q", table, c.Name, got, want)
				}
			}
		}
	})
}

// TestEveryValueIsFound asks for each value of the columns of which something is passed down.
func TestEveryValueIsFound(t *testing.T) {
	found := 0
	goldenTrails(t, func(t *testing.T, db *DB) {
		for _, column := range []string{"user", "role", "app_user", "database", "application", "class", "command", "relation"} {
			table := "trail"
			if column == "relation" {
				table = "columns"
			}
			column = identifier(column)
			for _, value := range valuesOf(t, db, fmt.Sprintf("SELECT DISTINCT %s AS value FROM %s WHERE %s <> ''", column, table, column)) {
				value = value[1:]
				for _, where := range []string{`%s = %s`, `%s = %s OR class = 'ddl'`, `%s = %s AND (class = 'read' OR "user" = 'bob')`} {
					statement := fmt.Sprintf("SELECT session, seq, relations FROM trail WHERE "+where, column, quoted(value))
					if table != "trail" {
						statement = fmt.Sprintf("SELECT session, seq, relation, column_name FROM columns WHERE "+where, column, quoted(value))
					}
					if got, want := values(t, db, statement), values(t, db, direct(statement)); got != want {
						t.Errorf("%s:\n%s\nwant\n%s", statement, got, want)
					} else if got != "" {
						found++
					}
				}
			}
		}
	})
	if found < 100 {
		t.Errorf("only %d answers", found)
	}
}

// TestTimesAreBlocks: conditions on times skip blocks by their headers.
func TestTimesAreBlocks(t *testing.T) {
	dir := t.TempDir()
	for n := range 2 {
		s := trailtest.NewStream(t, dir, uint32(n))
		session := trailtest.NewSession(trailtest.Epoch, uint32(n+1))
		for i := range int64(40) {
			now := trailtest.Epoch + i*1e6
			switch { // the next day begins at 23:00 UTC in Berlin
			case i >= 30:
				now += 11_700e6
			case i >= 20:
				now += 8_500e6
			}
			b := trailtest.NewBuilder(now)
			for k := range int64(50) {
				b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Time: now + k*10_000, Text: "SELECT"})
			}
			s.Write(t, b)
			if i%10 == 9 {
				s.Rotate(t, now)
			}
		}
	}
	db := open(t, options(t, dir))
	third := values(t, db, `SELECT quantile_disc(time, 0.3) FROM trail`)
	for _, where := range []string{
		`time > '` + third + `'`, `time < TIMESTAMPTZ '` + third + `'`, `'` + third + `' <= time`, `time = '` + third + `'`,
		`time BETWEEN '` + third + `' AND CAST('` + third + `' AS TIMESTAMPTZ) + INTERVAL 1 millisecond`,
		`time >= now() - INTERVAL 1 minute`, `trail.time >= date_trunc('day', current_timestamp) AND pid > 0`, `time <= '2000-01-01'`,
		`time::DATE = '2026-11-22'`, `CAST(time AS DATE) BETWEEN DATE '2026-11-22' AND '2026-11-23'`, `time::DATE < '2026-11-22' AND seq > 0`, `'2026-11-21' < CAST(time AS DATE)`,
		`time::DATE >= current_date - 2`,
	} {
		statement := `SELECT count(*), max(seq) FROM trail WHERE ` + where
		got := values(t, db, statement)
		used := db.TableScans()
		if len(used) != 1 || used[0].Outside == 0 {
			t.Errorf("%s: no block was skipped: %+v", where, used)
		}
		if want := values(t, db, direct(statement)); got != want {
			t.Errorf("%s: %s, without conditions %s", where, got, want)
		}
	}
	local := options(t, dir)
	if local.Location, _ = time.LoadLocation("Europe/Berlin"); local.Location == nil {
		t.Fatal("no time zone")
	}
	berlin := open(t, local)
	for _, where := range []string{
		`time::DATE = '2026-11-22'`, `time < '2026-11-22'`, `time::DATE > '2026-11-21'`,
		`time::DATE < TIMESTAMP '2026-11-21 12:00'`, `TIMESTAMP_NS '2026-11-21 00:00:00.000000001' > time::DATE`, `time::DATE < DATE '2026-11-22'`,
	} {
		statement := `SELECT count(*) FROM trail WHERE ` + where
		if got, want := values(t, berlin, statement), values(t, berlin, direct(statement)); got != want {
			t.Errorf("%s in Berlin: %s, without conditions %s", where, got, want)
		}
	}
	values(t, db, `SELECT count(*) FROM trail WHERE time < now()`)
	if used := db.TableScans(); used[0].Conditions != "" {
		t.Errorf("a moment that moves bounds the end: %+v", used)
	}
	o := options(t, dir)
	when, err := time.Parse("2006-01-02 15:04:05.999999-07", third)
	if err != nil {
		t.Fatal(err)
	}
	o.Since = when.UnixMicro() - epoch
	if got, want := values(t, open(t, o), `SELECT count(*) FROM trail`), values(t, db, `SELECT count(*) FROM trail WHERE time >= '`+third+`'`); got != want {
		t.Errorf("since: %s, want %s", got, want)
	}
}

// TestConditionsOfStatements: what is found in which statements.
func TestConditionsOfStatements(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	for statement, want := range map[string]string{
		`SELECT 1 FROM trail t WHERE t."user" = 'bob'`:                                                         `steno_trail('{"users":["bob"]}') AS t`,
		`SELECT 1 FROM TRAIL WHERE "USER" = 'it''s'`:                                                           `steno_trail('{"users":["it''s"]}')`,
		`SELECT 1 FROM failures WHERE "user" = 'bob'`:                                                          `steno_failures('{"users":["bob"]}')`,
		`SELECT * FROM (SELECT * FROM trail WHERE class = 'ddl') WHERE "user" = 'bob'`:                         `steno_trail('{"classes":["ddl"]}')`,
		`WITH x AS (SELECT * FROM trail WHERE class = 'ddl') SELECT * FROM x`:                                  `steno_trail('{"classes":["ddl"]}')`,
		`SELECT 1 FROM trail a JOIN trail b ON a.xid = b.xid WHERE a.class = 'ddl' AND b.kind = 'transaction'`: `steno_trail('{"classes":["ddl"]}') AS a`,
		`SELECT 1 FROM trail a LEFT JOIN trail b ON a.xid = b.xid WHERE b.class = 'ddl'`:                       `steno_trail('{"classes":["ddl"]}') AS b`,
		`SELECT (SELECT count(*) FROM trail WHERE class = 'ddl')`:                                              `steno_trail('{"classes":["ddl"]}')`,
		`SELECT 1 FROM trail WHERE class = 'ddl' UNION ALL SELECT 2`:                                           `steno_trail('{"classes":["ddl"]}')`,
		`WITH trail AS (SELECT 'ddl' AS class) SELECT * FROM trail WHERE class = 'ddl'`:                        ``,
		`SELECT 1 FROM trail AS t(class, kind) WHERE class = 'ddl'`:                                            ``,
		`SELECT 1 FROM trail TABLESAMPLE 10% WHERE class = 'ddl'`:                                              ``,
		`SELECT 1 FROM sessions WHERE "user" = 'bob'`:                                                          ``,
		`SELECT 1 FROM trail a ASOF JOIN trail b ON a.time >= b.time WHERE b.class = 'ddl'`:                    ``,
		`SELECT 1 FROM trail a JOIN trail b ON a.xid = b.xid WHERE class = 'ddl'`:                              ``,
		`SELECT 1 FROM trail GROUP BY class HAVING class = 'ddl'`:                                              ``,
		`SELECT 1 FROM trail WHERE class = (SELECT 'ddl')`:                                                     ``,
		`SELECT 1 FROM trail WHERE time > CAST(random() * 1000 AS INT)::VARCHAR`:                               ``,
		`SELECT 1 FROM trail WHERE text ILIKE '%Kind of%'`:                                                     `{"contains":"nd of"}`,
		`SELECT 1 FROM trail WHERE text LIKE '%Kind of%'`:                                                      `{"contains":"Kind of"}`,
		`CREATE TABLE x AS SELECT 1 FROM trail WHERE class = 'ddl'`:                                            ``,
		`SELECT 1 FROM main.trail WHERE class = 'ddl'`:                                                         ``,
		`SELECT 1 FROM trail WHERE class = 'ddl' COLLATE NOCASE`:                                               ``,
		`SELECT 1 FROM trail WHERE "user" IN ('bob', NULL)`:                                                    ``,
		`SELECT class AS "user" FROM trail WHERE "user" = 'bob' AND true OR class = 'ddl' AND false`:           `{"any":[{"users":["bob"]},{"classes":["ddl"]}]}`,
		`SELECT 1 FROM trail a, trail b WHERE a.class = 'ddl' AND a.xid = b.xid`:                               `steno_trail('{"classes":["ddl"]}') AS a`,
		`SELECT 1 FROM trail, trail WHERE trail.class = 'ddl'`:                                                 ``,
		`SELECT 1 FROM trail t WHERE EXISTS (SELECT 1 FROM failed_logins WHERE class = 'ddl')`:                 ``,
		`SELECT 'x' AS "user" FROM statements WHERE "user" = 'x'`:                                              ``,
		`SELECT 1 FROM trail WHERE time > TIMESTAMP '2026-01-01' - (now() - TIMESTAMP '2026-01-01')`:           ``,
	} {
		changed, ok := db.push(db.parse(statement))
		if ok != (want != "") || !strings.Contains(changed, want) {
			t.Errorf("%s: %t %s, want %s", statement, ok, changed, want)
		}
	}
}

// TestConditionsAreOnColumns: what a table passes down are columns of it. A name that is none
// of them is that of a column outside of a subquery, or of one that SELECT names.
func TestSubqueriesKeepTheirNames(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	for _, statement := range []string{
		`SELECT (SELECT count(*) FROM trail WHERE class = 'ddl')`,
		`SELECT 1 + (SELECT count(*) FROM trail WHERE class = 'ddl'), (SELECT 1), (SELECT 2) AS a`,
		`SELECT * FROM (SELECT EXISTS (SELECT 1 FROM failures WHERE "user" = 'bob'))`,
	} {
		changed, ok := db.push(db.parse(statement))
		if !ok || !strings.Contains(changed, "steno_") {
			t.Errorf("%s: nothing is passed down: %s", statement, changed)
		}
		describe := func(statement string) string { // as it is
			names, err := db.queryString("SELECT string_agg(column_name, '|') FROM (DESCRIBE " + statement + ")")
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		if got, want := describe(changed), describe(statement); got != want {
			t.Errorf("%s: columns %q instead of %q", statement, got, want)
		}
	}
}

func TestColumnsWithNamesOfTheMomentAreColumns(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	all := values(t, db, "SELECT count(*) FROM trail")
	if all == "0" {
		t.Fatal("an empty trail")
	}
	const old = `SELECT TIMESTAMPTZ '2000-01-01' AS `
	for _, statement := range []string{
		`SELECT count(*) FROM trail, (` + old + `"current_timestamp") x WHERE trail.time >= "current_timestamp"`,
		`SELECT count(*) FROM trail t, (` + old + `d) x(current_timestamp) WHERE t.time >= current_timestamp`,
		`SELECT (SELECT count(*) FROM trail WHERE time >= "current_timestamp") FROM (` + old + `"current_timestamp") x`,
		`WITH x AS (` + old + `"CURRENT_TIMESTAMP") SELECT count(*) FROM trail t, x WHERE t.time >= "Current_Timestamp"`,
	} {
		if changed, ok := db.push(db.parse(statement)); ok {
			t.Errorf("%s becomes %s", statement, changed)
		}
		// DuckDB itself takes an outer column for the function
		if got := values(t, db, statement); got != all && !strings.Contains(statement, "(SELECT count") {
			t.Errorf("%s: %s instead of %s", statement, got, all)
		}
	}
	if _, ok := db.push(db.parse("SELECT count(*) FROM trail WHERE time >= current_timestamp")); !ok {
		t.Error("current_timestamp is not passed down")
	}
}

func TestConditionsAreOnColumns(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	for _, table := range Tables {
		columns := strings.Fields(values(t, db, "SELECT column_name FROM (DESCRIBE "+table.Name+")"))
		for _, name := range table.pushable {
			if !slices.Contains(columns, name) {
				t.Errorf("%s passes %s, which is no column of it", table.Name, name)
			}
		}
	}
	for _, name := range []string{`user`, `"user"`} {
		if err := db.Run(t.Context(), `SELECT * FROM statements WHERE `+name+` = 'bob'`, func(*Result) error { return nil }); err == nil || !strings.Contains(err.Error(), `no table in FROM has a column "user"`) {
			t.Errorf("%s, which statements does not have: %v", name, err)
		}
	}
}

// TestGrowingTrail: each statement reads what was there when it began, also while a block is
// being written.
func TestGrowingTrail(t *testing.T) {
	dir := t.TempDir()
	session := trailtest.NewSession(trailtest.Epoch, 1)
	block := func() *trailtest.Builder {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Time: trailtest.Epoch, Text: "SELECT"})
		return b
	}
	s := trailtest.NewStream(t, dir, 0)
	s.Write(t, block())
	o := options(t, dir)
	unfinished := 0
	o.Warn = func(error) { unfinished++ }
	db := open(t, o)
	for n := 1; n < 4; n++ {
		if got := values(t, db, "SELECT count(*) FROM trail"); got != fmt.Sprint(n) {
			t.Errorf("%s records, want %d", got, n)
		}
		image := s.Finish(block())
		s.Raw(t, image[:len(image)/2])
		if got := values(t, db, "SELECT count(*) FROM trail"); got != fmt.Sprint(n) {
			t.Errorf("%s records, want %d and a half", got, n)
		}
		s.Raw(t, image[len(image)/2:])
	}
	if unfinished == 0 {
		t.Error("nobody said that a block is unfinished")
	}
}

// TestTablesOfTheUserHideOurs: conditions are not passed to a table that is not meant.
func TestTablesOfTheUserHideOurs(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	values(t, db, "CREATE TEMP TABLE trail AS SELECT 'ddl' AS class, 'mine' AS text")
	if got := values(t, db, "SELECT text FROM trail WHERE class = 'ddl'"); got != "mine" {
		t.Errorf("got %s", got)
	}
}

// TestNothingElseIsReadOrWritten by default, and the configuration cannot be changed.
func TestNothingElseIsReadOrWritten(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret.csv")
	if err := os.WriteFile(secret, []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := trailtest.Golden(t) + "/index"
	named := filepath.Join(dir, "named.parquet")
	o := options(t, path)
	o.Writable = named
	if err := open(t, o).Export(t.Context(), "SELECT 42 AS answer;"); err != nil {
		t.Fatal(err)
	}
	o = options(t, path)
	o.Files = []File{NewFile(named)}
	db := open(t, o)
	if got := values(t, db, "SELECT answer FROM named, trail LIMIT 1"); got != "42" {
		t.Errorf("named: %s", got)
	}
	for _, statement := range []string{
		`SELECT * FROM read_csv('` + secret + `')`, `SELECT * FROM '` + secret + `'`, `SELECT * FROM read_text('` + secret + `')`, `SELECT * FROM glob('` + dir + `/*')`,
		`COPY (SELECT 1) TO '` + dir + `/out.csv'`, `COPY (SELECT 1) TO '` + named + `' (FORMAT parquet)`, `EXPORT DATABASE '` + dir + `/db'`, `ATTACH '` + dir + `/x.db'`,
		`INSTALL httpfs`, `LOAD httpfs`, `SET enable_external_access = true`, `SET allowed_paths = ['` + secret + `']`, `SET lock_configuration = false`, `RESET memory_limit`,
		`SELECT * FROM read_parquet('https://example.org/x.parquet')`, `PRAGMA enable_profiling`, `CREATE SECRET s (TYPE s3)`,
	} {
		if err := db.Run(t.Context(), statement, func(r *Result) error {
			for {
				if more, err := r.Next(); err != nil || !more {
					return err
				}
			}
		}); err == nil {
			t.Errorf("%s: not refused", statement)
		}
	}
	if found, _ := filepath.Glob(dir + "/*"); len(found) != 2 {
		t.Errorf("files: %s", found)
	}
	if got := values(t, db, "SELECT answer FROM named"); got != "42" {
		t.Errorf("named was changed: %s", got)
	}
	o.AllowFiles = true
	if got := values(t, open(t, o), `SELECT b FROM '`+secret+`'`); got != "2" {
		t.Errorf("allowed: %s", got)
	}
}

// TestValuesAreThoseOfDuckDB compares what is shown with what DuckDB makes of it.
func TestValuesAreThoseOfDuckDB(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/empty"))
	for _, expression := range []string{
		"true", "(-5)::TINYINT", "(-300)::SMALLINT", "-70000", "-1099511627776::BIGINT", "200::UTINYINT", "60000::USMALLINT", "4000000000::UINTEGER", "18446744073709551615::UBIGINT",
		"(-170141183460469231731687303715884105727)::HUGEINT", "340282366920938463463374607431768211455::UHUGEINT", "1.5::FLOAT", "-0.25::DOUBLE",
		"-0.05::DECIMAL(4,2)", "12345.678::DECIMAL(9,3)", "-1::DECIMAL(18,4)", "123456789012345678901.5::DECIMAL(38,1)",
		"'text of more than twelve bytes'", "'short'", "''", "DATE '2026-11-21'", "DATE 'infinity'", "TIME '01:02:03.000450'", "TIMESTAMP '2026-11-21 20:45:13.5'", "TIMESTAMPTZ '2026-11-21 20:45:13.000001+00'",
		"TIMESTAMPTZ '-infinity'", "TIMESTAMP_S '2026-11-21 20:45:13'", "TIMESTAMP_MS '2026-11-21 20:45:13.25'", "TIMESTAMP '1969-12-31 23:59:59.5'",
		"INTERVAL '1 year 2 months 3 days 04:05:06.5'", "INTERVAL '-1 month'", "INTERVAL '36:00:00'", "INTERVAL '-00:00:01'", "INTERVAL '0 seconds'", "UUID '00112233-4455-6677-8899-aabbccddeeff'", "UUID 'ff112233-4455-6677-8899-aabbccddeeff'",
		"'b'::ENUM('a', 'b')", "NULL",
	} {
		var got, want []byte
		if err := db.Run(t.Context(), fmt.Sprintf("SELECT v, CAST(v AS VARCHAR) FROM (SELECT %s AS v)", expression), func(r *Result) error {
			if more, err := r.Next(); err != nil || !more {
				return fmt.Errorf("no row: %w", err)
			}
			got, want = r.Append(nil, 0), r.Append(nil, 1)
			if r.IsNull(0) != (expression == "NULL") || !json.Valid(r.AppendJSON(nil, 0)) {
				t.Errorf("%s: NULL, or not JSON: %s", expression, r.AppendJSON(nil, 0))
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %s", expression, err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is %s, for DuckDB %s", expression, got, want)
		}
	}
	for expression, want := range map[string]string{
		"[1, NULL, 3]": "[1,null,3]", "{'b': 'x\"y', 'a': [1.5]}": `{"b":"x\"y","a":[1.5]}`, "MAP {'k': 1}": `{"k":1}`, "[1,2]::INTEGER[2]": "[1,2]",
		"'\\xAA'::BLOB": `"\\xaa"`, "'nan'::DOUBLE": `"NaN"`, "[{'t': TIMESTAMPTZ '2026-11-21 20:45:13+00'}]": `[{"t":"2026-11-21T20:45:13.000000Z"}]`,
	} {
		if got := strings.TrimSpace(ask(t, db, Output{Format: "json"}, "SELECT "+expression+" AS v")); got != `{"v":`+want+`}` {
			t.Errorf("%s is %s", expression, got)
		}
	}
}

// TestHostileTextsHaveNoEffect on terminals, spreadsheets and documents.
func TestHostileTextsHaveNoEffect(t *testing.T) {
	dir := t.TempDir()
	text := "=cmd|' /C calc'!A1\x1b[31m\r\n\u202e<script>|`x`[a](b)\x00\u009b"
	session := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "+SUM(1)"})
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Time: trailtest.Epoch, Text: text})
	trailtest.NewStream(t, dir, 0).Write(t, b)
	db := open(t, options(t, dir))
	for as, want := range map[string]string{
		"table":    `=cmd|' /C calc'!A1\x1b[31m\r\n\u202e<script>|` + "`x`" + `[a](b)\x00\u009b | +SUM(1)`,
		"csv":      "\"'=cmd|' /C calc'!A1\\x1b[31m\r\n\\u202e<script>|`x`[a](b)\\x00\\u009b\",'+SUM(1),-5",
		"json":     `{"text":"=cmd|' /C calc'!A1\u001b[31m\r\n\u202e<script>|` + "`x`" + `[a](b)\u0000\u009b","user":"+SUM(1)"`,
		"markdown": `| =cmd\|' /C calc'!A1\\x1b\[31m\\r\\n\\u202e&lt;script&gt;\|` + "\\`x\\`" + `\[a\](b)\\x00\\u009b |`,
	} {
		got := ask(t, db, Output{Format: as}, `SELECT text, "user", -5 AS n FROM trail`)
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q lacks %q", as, got, want)
		}
		if strings.ContainsAny(got, "\x1b\x00\u202e\u009b") {
			t.Errorf("%s: %q", as, got)
		}
	}
}

// TestRunEndsWithItsContext in the middle of a statement that would take hours.
func TestRunEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	trailtest.Pgbench(t, dir, 20_000, 4, 2)
	db := open(t, options(t, dir))
	for _, statement := range []string{
		"SELECT count(*) FROM trail a, trail b, trail c WHERE a.seq + b.seq + c.seq = 7", "SELECT a.seq FROM trail a, trail b, trail c",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		err := db.Run(ctx, statement, func(r *Result) error { return (&Output{Format: "json"}).Write(discard{}, r) })
		if err == nil || ctx.Err() == nil {
			t.Errorf("%s: %v", statement, err)
		}
		if got := values(t, db, "SELECT 1"); got != "1" {
			t.Errorf("afterwards: %s", got)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

const manual = "../../docs/query.md"

// tableDocs is what docs/query.md says of the tables.
func tableDocs(t *testing.T, db *DB) string {
	var out strings.Builder
	row := func(name, kind, doc string) { fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", name, kind, doc) }
	known := map[string]string{}
	for i := range Tables {
		table := &Tables[i]
		fmt.Fprintf(&out, "### %s\n\n%s%s.\n", table.Name, strings.ToUpper(table.Doc[:1]), table.Doc[1:])
		docs := map[string]string{}
		for _, c := range table.Columns {
			docs[c.Name] = c.Doc
		}
		for _, d := range table.docs {
			docs[d[0]] = d[1]
		}
		type column struct {
			Name string `json:"column_name"`
			Type string `json:"column_type"`
		}
		var columns []column
		same := true // all columns are those of trail
		for line := range strings.Lines(ask(t, db, Output{Format: "json"}, "DESCRIBE "+table.Name)) {
			var c column
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err)
			}
			c.Type = strings.ReplaceAll(c.Type, "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
			columns = append(columns, c)
			same = same && docs[c.Name] == "" && known[c.Name] != ""
		}
		if table.Name == "trail" {
			for _, c := range table.Columns {
				known[c.Name] = c.Doc
			}
		}
		if same && len(columns) == len(trailColumns) {
			out.WriteString("The columns are those of `trail`.\n\n")
			continue
		}
		out.WriteString("\n| column | type | meaning |\n|---|---|---|\n")
		rest := table.Name == "relations" || table.Name == "columns"
		for _, c := range columns {
			doc := docs[c.Name]
			if doc == "" {
				doc = known[c.Name]
			}
			if doc == "" {
				t.Errorf("%s.%s is not described", table.Name, c.Name)
			}
			if rest && known[c.Name] != "" && known[c.Name] == doc {
				break
			}
			row(c.Name, c.Type, doc)
		}
		if rest {
			out.WriteString("\nThese are followed by all columns of `trail` except `relations`.\n")
		}
		out.WriteString("\n")
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// TestManualHasTheTables compares docs/query.md with the tables. STENO_UPDATE=1 writes it.
func TestManualHasTheTables(t *testing.T) {
	page, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), "<!-- TABLES -->\n")
	_, tail, ok2 := strings.Cut(rest, "<!-- end -->\n")
	if !ok || !ok2 {
		t.Fatal("no place for the tables")
	}
	want := head + "<!-- TABLES -->\n" + tableDocs(t, open(t, options(t, trailtest.Golden(t)+"/empty"))) + "<!-- end -->\n" + tail
	if want == string(page) {
		return
	}
	if os.Getenv("STENO_UPDATE") == "" {
		t.Fatal("docs/query.md differs from the tables; STENO_UPDATE=1 writes it")
	}
	if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestQuestionsOfTheManualRun executes the SQL of docs/query.md.
func TestQuestionsOfTheManualRun(t *testing.T) {
	page, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	all := strings.Split(string(page), "```sql\n")[1:]
	for _, s := range all {
		s, _, _ = strings.Cut(s, "```")
		ask(t, db, Output{Format: "json"}, s)
	}
	if len(all) < 5 {
		t.Errorf("only %d questions", len(all))
	}
}

// TestColumnsAreTheSameAlone: what a column needs is known without the others.
func TestColumnsAreTheSameAlone(t *testing.T) {
	golden := trailtest.Golden(t)
	for _, name := range []string{"kinds", "columns", "objects", "parts", "values", "endings", "transactions", "index", "fields"} {
		db := open(t, options(t, golden+"/"+name))
		for _, table := range Tables[:3] {
			all := map[string][]string{}
			if err := db.Run(t.Context(), "FROM "+table.Name, func(r *Result) error {
				for {
					if more, err := r.Next(); err != nil || !more {
						return err
					}
					for i, c := range r.Columns {
						all[c.Name] = append(all[c.Name], string(r.AppendJSON(nil, i)))
					}
				}
			}); err != nil {
				t.Fatal(err)
			}
			for _, c := range table.Columns {
				var alone []string
				for line := range strings.Lines(ask(t, db, Output{Format: "json"}, fmt.Sprintf("SELECT %s AS v FROM %s", identifier(c.Name), table.Name))) {
					alone = append(alone, strings.TrimSuffix(strings.TrimPrefix(line, `{"v":`), "}\n"))
				}
				slices.Sort(alone)
				slices.Sort(all[c.Name])
				if !slices.Equal(alone, all[c.Name]) {
					t.Errorf("%s: %s.%s: %q, with others %q", name, table.Name, c.Name, alone, all[c.Name])
				}
			}
		}
	}
}

// TestQuestionsOfTheOffice compares views with what was found out by hand: steno report has the
// same answers, and is compared with the same.
func TestQuestionsOfTheOffice(t *testing.T) {
	dir := t.TempDir()
	trailtest.Office(t, dir)
	o := options(t, dir)
	since, err := time.Parse(time.DateOnly, "2026-11-20")
	if err != nil {
		t.Fatal(err)
	}
	o.Since = since.UnixMicro() - time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	const at = ` || ' ' || CAST(timezone('UTC', %s) AS VARCHAR)`
	lists := func(db *DB, statement string) (all []string) {
		for line := range strings.Lines(ask(t, db, Output{Format: "json"}, statement)) {
			var row struct{ V string }
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			all = append(all, row.V)
		}
		return all
	}
	compare := func(what string, got, want []string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%q, want\n%q", what, got, want)
		}
	}
	offHours := `SELECT "user"` + fmt.Sprintf(at, "time") + ` AS v FROM off_hours ORDER BY time`
	db := open(t, o)
	compare("new_access", lists(db, `SELECT "user" || ' ' || relation`+fmt.Sprintf(at, "first_seen")+` AS v FROM new_access ORDER BY first_seen`), trailtest.OfficeNewAccess)
	compare("off_hours", lists(db, offHours), trailtest.OfficeOffHours)
	if o.Location, err = time.LoadLocation("Europe/Berlin"); err != nil {
		t.Fatal(err)
	}
	compare("off_hours in Berlin", lists(open(t, o), offHours), trailtest.OfficeOffHoursBerlin)
}

// The server's changes have the ALTER SYSTEM before them, if one is pending, and what clients set for themselves is no change.
func TestSettingsChanged(t *testing.T) {
	dir := t.TempDir()
	moment := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Microseconds()
	alice := trailtest.NewSession(moment, 4001, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
	server := trailtest.NewSession(moment, 3999, trailtest.Fact{Key: format.KeyBackendType, Value: format.WriterBackendType})
	stream, b := trailtest.NewStream(t, dir, 0), trailtest.NewBuilder(moment)
	add := func(r trailtest.Record) {
		moment += 1e6
		r.Time = moment
		b.Add(&r)
	}
	statement := func(class format.Class, command, text string) {
		add(trailtest.Record{Kind: format.KindStatement, Session: alice, Shape: &trailtest.Shape{Class: class, Command: command}, Text: text})
	}
	changed := func(name, old, value string, more ...string) {
		add(trailtest.Record{Kind: format.KindSetting, Session: server, Shape: &trailtest.Shape{Class: format.ClassSetting},
			Extra: append([]string{"name", name, "old", old, "new", value, "source", "server"}, more...)})
	}
	statement(format.ClassMiscSet, "SET", "SET application_name = 'noise'")
	statement(format.ClassDDL, "ALTER SYSTEM", "ALTER SYSTEM SET work_mem = '1GB'")
	changed("work_mem", "4MB", "1GB", "file", "/data/postgresql.auto.conf", "line", "3")
	changed("work_mem", "1GB", "2GB", "file", "/data/postgresql.conf", "line", "800")
	statement(format.ClassDDL, "ALTER SYSTEM", "ALTER SYSTEM SET fsync = off")
	changed("fsync", "on", "off", "file", "/data/postgresql.auto.conf", "line", "4")
	statement(format.ClassDDL, "ALTER SYSTEM", "alter system\n reset \"fsync\"")
	changed("fsync", "off", "on")
	// what it removes from postgresql.auto.conf, and what was not there
	statement(format.ClassDDL, "ALTER SYSTEM", "ALTER SYSTEM SET jit = off")
	changed("jit", "on", "off", "file", "/data/postgresql.auto.conf", "line", "5")
	statement(format.ClassDDL, "ALTER SYSTEM", "ALTER SYSTEM RESET ALL")
	changed("jit", "off", "on")
	changed("work_mem", "2GB", "3GB", "file", "/data/postgresql.conf", "line", "800")
	changed("port", "5432", "5433", "file", "/data/postgresql.conf", "line", "5")
	changed("jit", "on", "off", "file", "/data/postgresql.conf", "line", "6")
	statement(format.ClassDDL, "ALTER SYSTEM", "ALTER SYSTEM RESET work_mem")
	changed("work_mem", "3GB", "4MB")
	statement(format.ClassRole, "ALTER ROLE", `ALTER ROLE "set x" LOGIN`)
	statement(format.ClassRole, "ALTER ROLE", `ALTER ROLE bob IN DATABASE shop SET work_mem = '9GB'`)
	statement(format.ClassDDL, "ALTER DATABASE", "ALTER DATABASE shop SET TABLESPACE fast")
	statement(format.ClassDDL, "ALTER DATABASE", "ALTER DATABASE shop RESET ALL")
	add(trailtest.Record{Kind: format.KindStatement, Session: alice, XID: 77, Text: "ALTER ROLE bob SET jit = on", Shape: &trailtest.Shape{Class: format.ClassRole, Command: "ALTER ROLE"}})
	add(trailtest.Record{Kind: format.KindTransaction, Session: alice, XID: 77, Outcome: format.OutcomeError, Extra: []string{"event", "abort"}, Shape: &trailtest.Shape{Class: format.ClassTransaction}})
	stream.Write(t, b)
	const id = "split_part(altered_by, '/', 2)"
	got := ask(t, open(t, options(t, dir)), Output{Format: "csv", NoHeader: true}, "SELECT coalesce(name, text) || CASE WHEN rolled_back THEN ' (undone)' ELSE '' END, new_value, line, "+id+" FROM settings_changed ORDER BY time")
	want := `ALTER SYSTEM SET work_mem = '1GB',,,
work_mem,1GB,3,2
work_mem,2GB,800,
ALTER SYSTEM SET fsync = off,,,
fsync,off,4,3
"alter system
 reset ""fsync""",,,
fsync,on,,4
ALTER SYSTEM SET jit = off,,,
jit,off,5,5
ALTER SYSTEM RESET ALL,,,
jit,on,,6
work_mem,3GB,800,
port,5433,5,
jit,off,6,
ALTER SYSTEM RESET work_mem,,,
work_mem,4MB,,
ALTER ROLE bob IN DATABASE shop SET work_mem = '9GB',,,
ALTER DATABASE shop RESET ALL,,,
ALTER ROLE bob SET jit = on (undone),,,
`
	if got = strings.ReplaceAll(got, "\r\n", "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestNamesThatDoNotOccurAreTold: a condition with a name that occurs nowhere finds nothing, whatever was meant.
func TestNamesThatDoNotOccurAreTold(t *testing.T) {
	o := options(t, trailtest.Golden(t)+"/index")
	var told []string
	o.Warn = func(err error) { told = append(told, err.Error()) }
	db := open(t, o)
	for statement, want := range map[string]string{
		`SELECT count(*) FROM trail WHERE "user" = 'alcie'`:                   `no user of the name "alcie" occurs in the trail; nearest: "alice"`,
		`SELECT count(*) FROM trail WHERE "user" = 'alice'`:                   "",
		`SELECT count(*) FROM trail WHERE "user" IN ('alice', 'bobb')`:        `no user of the name "bobb" occurs in the trail; nearest: "bob"`,
		`SELECT count(*) FROM relations WHERE relation = 'public.order'`:      `no relation of the name "public.order" occurs in the trail; nearest: "public.orders"`,
		`SELECT count(*) FROM relations WHERE relation = 'orders'`:            `no relation of the name "orders" occurs in the trail; nearest: "public.orders"`,
		`SELECT count(*) FROM columns c WHERE c.relation = 'PUBLIC.ORDERS'`:   `no relation of the name "PUBLIC.ORDERS" occurs in the trail; nearest: "public.orders"`,
		`SELECT count(*) FROM relations WHERE relation LIKE 'public.ord%s'`:   "",
		`SELECT count(*) FROM relations WHERE relation LIKE 'publik.%'`:       `no relation matches "publik.%" in the trail`,
		`SELECT count(*) FROM relations WHERE relation ILIKE 'PUBLIC.Order_'`: "",
		`SELECT count(*) FROM trail WHERE "user" NOT LIKE 'alic_'`:            "",
		`SELECT count(*) FROM trail WHERE "user" LIKE 'alcie%'`:               `no user matches "alcie%" in the trail; nearest: "alice"`,
		`SELECT count(*) FROM trail WHERE starts_with("user", 'ali')`:         "",
		`SELECT count(*) FROM trail WHERE kind = 'Statement'`:                 `there is no kind "Statement"; nearest: "statement"`,
		`SELECT count(*) FROM trail WHERE kind IN ('connect', 'disconect')`:   `there is no kind "disconect"; nearest: "disconnect"`,
		`SELECT count(*) FROM trail WHERE class <> 'wirte'`:                   `there is no class "wirte"; nearest: "write"`,
		`SELECT count(*) FILTER (outcome = 'failed') FROM trail`:              `there is no outcome "failed"`,
		`SELECT count(*) FROM trail WHERE effect = 'rolled_back'`:             `there is no effect "rolled_back"; nearest: "rolled back"`,
		`SELECT count(*) FROM trail WHERE effect = 'committed'`:               "",
		`SELECT count(*) FROM trail WHERE command = 'drop table'`:             `no command "drop table" occurs in the trail; nearest: "DROP TABLE"`,
		`SELECT count(*) FROM trail WHERE command = 'DROP TABLE'`:             "",
		`SELECT count(*) FROM trail WHERE sqlstate = '4250x'`:                 `no SQLSTATE "4250x" occurs in the trail; nearest: "42P01"`,
		`SELECT count(*) FROM trail WHERE identity = 'cn=nobody' OR seq = 1`:  `no identity "cn=nobody" occurs in the trail`,
		`SELECT count(*) FROM trail WHERE address = '192.0.2.77'`:             `no address "192.0.2.77" occurs in the trail`,
		`SELECT count(*) FROM trail WHERE session = 'no'`:                     `no session "no" occurs in the trail`,
		// What is compared is no column of ours.
		`SELECT count(*) FROM (SELECT 'x' AS kind) x WHERE kind = 'nothing'`:                                      "",
		`SELECT count(*) FROM trail t JOIN (SELECT 'x' AS kind, 1 AS seq) x USING (seq) WHERE x.kind = 'nothing'`: "",
		`SELECT count(*) FROM trail WHERE seq IN (SELECT seq FROM trail WHERE kind = 'conect')`:                   `there is no kind "conect"; nearest: "connect"`,
		`SELECT count(*) FROM trail WHERE database = 'shopp' AND "user" = 'alice'`:                                `no database of the name "shopp" occurs in the trail; nearest: "shop"`,
	} {
		told = nil
		if err := db.Run(context.Background(), statement, func(*Result) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(told, "\n"); got != want {
			t.Errorf("%s: %q, want %q", statement, got, want)
		}
	}
}

// TestStatementsAreCountedOnce: a statement that uses a relation directly and through a view has two rows in relations, and
// is one statement in the views that count.
func TestStatementsAreCountedOnce(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	alice := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "alice"}, trailtest.Fact{Key: format.KeyDatabase, Value: "shop"})
	both := &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{
		{Type: format.RelationTypeTable, Access: format.AccessSelect, Name: "hr.staff"}, {Type: format.RelationTypeView, Access: format.AccessSelect, Name: "hr.names"},
		{Type: format.RelationTypeTable, Access: format.AccessSelect, Name: "hr.staff", Via: 2},
	}}
	b := trailtest.NewBuilder(trailtest.Epoch)
	one := func(xid uint64, outcome format.Outcome) {
		r := &trailtest.Record{Kind: format.KindStatement, Session: alice, Time: trailtest.Epoch, Text: "SELECT", Shape: both, XID: xid, Outcome: outcome}
		if outcome == format.OutcomeError {
			r.SQLState, r.Message = "42501", "no"
		}
		b.Add(r)
	}
	one(0, format.OutcomeOk)
	one(0, format.OutcomeError)
	one(7, format.OutcomeOk)
	one(8, format.OutcomeOk)
	b.Add(&trailtest.Record{Kind: format.KindTransaction, Session: alice, Time: trailtest.Epoch, XID: 8, Outcome: format.OutcomeError})
	s.Write(t, b)
	for _, view := range []string{"access", "new_access"} {
		got := values(t, open(t, options(t, dir)), `SELECT relation, statements, failures, rolled_back, unknown FROM `+view)
		if want := "hr.names,4,1,1,1\nhr.staff,4,1,1,1"; !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", view, got, want)
		}
	}
}

// TestNamesThatMixScriptsAreTold: values of answers stay what they are, in every format.
func TestNamesThatMixScriptsAreTold(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	for i, user := range []string{"\u0430lice", "alice", "gr\u00f6\u00dfe"} {
		b.Add(&trailtest.Record{Kind: format.KindStatement, Time: trailtest.Epoch, Text: "SELECT 'these words are a sentence, in which \u0430lice is no name of somebody'",
			Session: trailtest.NewSession(trailtest.Epoch, uint32(i+1), trailtest.Fact{Key: format.KeyUser, Value: user})})
	}
	s.Write(t, b)
	o := options(t, dir)
	var told []string
	o.Warn = func(err error) { told = append(told, err.Error()) }
	for _, as := range []string{"csv", "table", "markdown"} {
		told = nil
		out := ask(t, open(t, o), Output{Format: as}, `SELECT "user" AS who, text FROM trail`)
		if want := `value of column "who" "\u0430lice" mixes scripts: it may look like another name`; len(told) != 1 || told[0] != want {
			t.Errorf("%s: %q, want %q", as, told, want)
		}
		if !strings.Contains(out, "\u0430lice") {
			t.Errorf("%s: the value was changed: %s", as, out)
		}
	}
}

package sql

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// headingsOf are those of the columns of a statement.
func headingsOf(t *testing.T, db *DB, statement string) string {
	t.Helper()
	var names []string
	if err := db.Run(t.Context(), statement, func(r *Result) error {
		for i := range r.Columns {
			names = append(names, r.Columns[i].Name)
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return strings.Join(names, ",")
}

// TestColumnsAreHeadedAsInPostgreSQL: the names are those that psql shows for the same expressions, where it is certain
// which function was called, and no other column has the name.
func TestColumnsAreHeadedAsInPostgreSQL(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	for statement, want := range map[string]string{
		`SELECT count(*) FROM trail`:                                                               "count",
		`FROM trail SELECT COUNT ( * ), max(seq), "lower"(any_value(kind))`:                        "count,max,lower",
		`SELECT class, count(*) FROM trail WHERE class = 'ddl' GROUP BY class`:                     "class,count",
		`SELECT sum(seq)::text, now()::date, time::date, (SELECT max(2)) FROM trail GROUP BY time`: "sum,now,time,max",
		`SELECT (SELECT 1 AS q), EXISTS (SELECT count(*) FROM trail), row_number() OVER ()`:        "q,exists,row_number",
		`SELECT extract(hour FROM now())`:                                                          "extract",
		`SELECT date_part('hour', now()), max(seq) AS m FROM trail`:                                "date_part,m",
		`WITH a AS (FROM trail) SELECT count(*) FROM a UNION SELECT max(seq) FROM a`:               "count",
		`SELECT 'ä', count(*) FROM trail; SELECT max(seq) FROM trail`:                              "'ä',count,max",
		// a name that another column has tells nothing
		`SELECT count(*), count(*) FILTER (failed) FROM trail`: "count(*),count(*) FILTER (WHERE failed)",
		`SELECT max(seq), max(pid), min(pid) FROM trail`:       "max(seq),max(pid),min",
		`SELECT count(*), 1 AS "Count" FROM trail`:             "count(*),Count",
		`SELECT *, count(*) FROM gaps GROUP BY ALL LIMIT 0`:    headingsOf(t, db, "FROM gaps LIMIT 0") + ",count(*)",
		// no calls
		`SELECT 2 * count(*), 'count_star()' FROM trail`:       "(2 * count(*)),'count_star()'",
		`SELECT 2 + (SELECT count(*) FROM trail WHERE failed)`: "(2 + (SELECT count(*) FROM trail WHERE failed))",
		// how many columns there are is not certain
		`SELECT max(COLUMNS(*)), count(*) FROM (SELECT 1 AS a, 2 AS b)`:           "a,b,count",
		`SELECT a.*, b.*, max(x) OVER () FROM (SELECT 1 AS x) a, (SELECT 2, 3) b`: "x,2,3,max",
		`SELECT count(*) FROM (SELECT count(*) FROM trail)`:                       "count",
		`SELECT * FROM (SELECT count(*) FROM trail)`:                              "count_star()",
	} {
		if got := headingsOf(t, db, statement); got != want {
			t.Errorf("%s: %s, want %s", statement, got, want)
		}
	}
	if got := headingsOf(t, db, "CREATE TEMP TABLE x AS SELECT 1; SELECT count(*) FROM trail"); !strings.HasSuffix(got, "count_star()") {
		t.Errorf("of statements that are not all SELECT: %s", got)
	}
	if got := headingsOf(t, db, "SELECT count(*) FROM trail"); got != "count" {
		t.Errorf("after a table was made: %s", got)
	}
}

// TestViewsBeginWithWhatPeopleLookAt: the first columns of each view, and that none is lost by the order.
func TestViewsBeginWithWhatPeopleLookAt(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	for view, first := range map[string]string{
		"failures": "time,user,database,command,text", "privileged": "time,user,database,command,text", "sessions": "started,ended,duration,user",
		"transactions": "ended,event,committed,user", "statements": "calls,total", "settings_changed": "time,name,old_value,new_value,user",
		"gaps": "time,count,reason", "failed_logins": "time,user,database,address,sqlstate,message",
	} {
		if got := headingsOf(t, db, "FROM "+view); !strings.HasPrefix(got, first+",") {
			t.Errorf("%s begins with %.60s", view, got)
		}
	}
}

// TestExpandedDisplayIsThatOfPsql compares it with what psql 15 prints for the same values, but for the empty line after a
// result.
func TestExpandedDisplayIsThatOfPsql(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/empty"))
	for statement, want := range map[string]string{
		`SELECT 1 AS a`: "-[ RECORD 1 ]\na | 1\n",
		`SELECT 1 AS abcdefghijklmnop, 'xxxxxxxxxxxxxxxxxxxxxx' AS b, NULL AS c`: "-[ RECORD 1 ]----+-----------------------\n" +
			"abcdefghijklmnop | 1\nb                | xxxxxxxxxxxxxxxxxxxxxx\nc                | \n",
		`SELECT g AS n, repeat('ab', g) AS text FROM (VALUES (10), (11)) AS v(g) ORDER BY g`: "-[ RECORD 1 ]----------------\nn    | 10\ntext | abababababababababab\n" +
			"-[ RECORD 2 ]----------------\nn    | 11\ntext | ababababababababababab\n",
		`SELECT 'äöü' AS ä, '日本語テキスト' AS "名前", 'x' AS b`: "-[ RECORD 1 ]--------\nä    | äöü\n名前 | 日本語テキスト\nb    | x\n",
		`SELECT 1 AS a WHERE false`: "(0 rows)\n",
	} {
		if got := ask(t, db, Output{Expanded: "on"}, statement); got != want {
			t.Errorf("%s:\n%s, want\n%s", statement, got, want)
		}
	}
}

// TestExpandedDisplayIsForWideRows: a table of more than one column that is wider than the terminal, and not one that fits.
func TestExpandedDisplayIsForWideRows(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/empty"))
	const statement = `SELECT 'x' AS a, repeat('日', 10) AS b, 7 AS c` // 1 + 3 + 20 + 3 + 1 columns wide
	for _, one := range []struct {
		expanded  string
		width     int
		statement string
		want      bool
	}{
		{"auto", 28, statement, false}, {"auto", 27, statement, true}, {"auto", 0, statement, false}, {"off", 10, statement, false}, {"on", 0, statement, true},
		{"on", 200, statement, true}, {"", 10, statement, false}, {"auto", 10, `SELECT repeat('x', 100) AS a`, false},
		{"auto", 20, `SELECT 1 AS rather_a_long_name, 2 AS b`, true}, {"auto", 20, `SELECT 1 AS rather_a_long_name, 2 AS b WHERE false`, true},
	} {
		got := ask(t, db, Output{Expanded: one.expanded, Width: one.width, MaxWidth: 200}, one.statement)
		if is := !strings.Contains(got, "-+-") && !strings.HasPrefix(got, "a\n-"); is != one.want {
			t.Errorf("%s, %d columns, %s: expanded is %t:\n%s", one.expanded, one.width, one.statement, is, got)
		}
	}
}

// TestLongValuesAreWhole: an expanded display breaks a value into lines that fit, and leaves nothing out; in a table, it is
// cut to columns of the terminal.
func TestLongValuesAreWhole(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/empty"))
	long := strings.Repeat("日本\u0301x", 500) + "\x1b[31m"
	statement := fmt.Sprintf("SELECT 'somebody' AS who, %s AS text", quoted(long))
	for _, width := range []int{1, 12, 15, 40, 80, 200} {
		got := ask(t, db, Output{Expanded: "auto", Width: width, MaxWidth: 200}, statement)
		var text strings.Builder
		for line := range strings.Lines(got) {
			line = strings.TrimSuffix(line, "\n")
			if n := widthOf([]byte(line)); n > width && width > len("text | ")+leastWidth {
				t.Errorf("a line of %d columns on a terminal of %d: %s", n, width, line)
			}
			if name, value, ok := strings.Cut(line, " | "); ok && strings.TrimSpace(name) != "who" {
				text.WriteString(value)
			}
		}
		if want := strings.Repeat("日本\u0301x", 500) + `\x1b[31m`; text.String() != want {
			t.Errorf("%d columns: %.300s", width, got)
		}
	}
	table := ask(t, db, Output{Expanded: "off", Width: 80, MaxWidth: 200}, statement)
	if row := strings.Split(table, "\n")[2]; widthOf([]byte(row)) > len("somebody | ")+200 || !strings.HasSuffix(row, "…") {
		t.Errorf("%s", row)
	}
}

// TestExpandedDisplayHasAllRows: also those after the ones that are kept to find out how wide they are.
func TestExpandedDisplayHasAllRows(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/empty"))
	got := ask(t, db, Output{Expanded: "on"}, fmt.Sprintf("SELECT i, 'x' AS x FROM range(%d) AS r(i)", maxTableRows+500))
	for i := range maxTableRows + 500 {
		if !strings.Contains(got, fmt.Sprintf("-[ RECORD %d ]", i+1)) || !strings.Contains(got, fmt.Sprintf("i | %d\n", i)) {
			t.Fatalf("row %d is missing", i)
		}
	}
}

// TestHeadingsOfJSONAreDifferent: a key of an object that is there twice is lost in most programs.
func TestHeadingsOfJSONAreDifferent(t *testing.T) {
	db := open(t, options(t, trailtest.Golden(t)+"/index"))
	line := ask(t, db, Output{Format: "json"}, "SELECT max(seq), max(pid), count(*), count(*) FILTER (failed) FROM trail")
	var object map[string]any
	if err := json.Unmarshal([]byte(line), &object); err != nil || len(object) != 4 {
		t.Errorf("%s: %v", line, err)
	}
}

package report

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// makeReport makes a report of a trail.
func makeReport(t *testing.T, dir string, change func(*Options)) *Report {
	t.Helper()
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := verify.Trail(t.Context(), opened, nil, verify.Checks{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Index: opened.Index(), Within: query.Always, Command: (&flags.Cat{Trails: []string{"trail"}}).Line, Zone: time.UTC, ZoneName: "UTC", Trails: []string{"trail"}, Verify: verified, Version: "test",
		Now: time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC), Warn: func(err error) { t.Log(err) },
	}
	if change != nil {
		change(&o)
	}
	r, err := Make(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func office(t *testing.T, change func(*Options)) *Report {
	dir := t.TempDir()
	trailtest.Office(t, dir)
	return makeReport(t, dir, change)
}

func sinceFriday(o *Options) {
	o.Within.Since = query.Micros(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
}

func (r *Report) table(id string) *Table {
	for i := range r.Sections {
		for k := range r.Sections[i].Tables {
			if t := &r.Sections[i].Tables[k]; t.ID == id {
				return t
			}
		}
	}
	return &Table{}
}

// rows are the cells of a table.
func (t *Table) rows() (all []string) {
	for _, r := range t.Rows {
		var cells []string
		for _, c := range r.Cells {
			cells = append(cells, c.Text)
		}
		all = append(all, strings.Join(cells, " | "))
	}
	return all
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAnswersAreThoseOfQuery: new access and off hours are what the views of steno query say.
func TestAnswersAreThoseOfQuery(t *testing.T) {
	r := office(t, sinceFriday)
	var got []string
	for _, row := range r.table("new_pairs").Rows {
		first := row.Records[0].Samples[0]
		got = append(got, fmt.Sprintf("%s %s %s", row.Cells[0].Text, row.Cells[2].Text, clean(first.Time)))
	}
	slices.Reverse(got)
	want := slices.Clone(trailtest.OfficeNewAccess)
	for i := range want {
		want[i] = strings.Replace(want[i], trailtest.OfficeEvil, `o'neill, <script>"x"\n\x1b[31m|*_`, 1)
	}
	compare(t, "new access", got, want)
	for zone, answers := range map[string][]string{"UTC": trailtest.OfficeOffHours, "Europe/Berlin": trailtest.OfficeOffHoursBerlin} {
		at, _ := time.LoadLocation(zone)
		r := office(t, func(o *Options) { sinceFriday(o); o.Zone, o.ZoneName = at, zone })
		byUser := map[string]int{}
		for _, a := range answers {
			user, _, _ := strings.Cut(a, " ")
			byUser[user]++
		}
		for _, row := range r.table("off_users").Rows {
			if n := byUser[row.Cells[0].Text]; fmt.Sprint(n) != row.Cells[2].Text {
				t.Errorf("%s: %v", zone, row.Cells)
			}
			delete(byUser, row.Cells[0].Text)
		}
		if len(byUser) > 0 {
			t.Errorf("%s: missing %v", zone, byUser)
		}
	}
}

// clean is the time of a sample without zeros at its end.
func clean(s string) string {
	if strings.HasSuffix(s, ".000000") {
		return strings.TrimSuffix(s, ".000000")
	}
	return strings.TrimRight(s, "0")
}

func TestFiguresOfTheOffice(t *testing.T) {
	r := office(t, sinceFriday)
	var got []string
	for _, f := range r.Figures {
		if f.Records.Count > 0 {
			got = append(got, fmt.Sprint(f.ID, " ", f.Records.Count))
		}
	}
	compare(t, "figures", got, []string{
		"records 25", "statements 16", "reads 9", "writes 1", "logins 3", "logouts 2", "refused 2", "failed 5", "denied 1", "denied_read 1",
		"role 2", "grants 2", "granted 2", "ddl 2", "altered 2", "settings 1", "alter_system 1", "set 1", "gaps 1", "off_hours 9",
	})
	compare(t, "states", r.table("states").rows(), []string{
		"28P01 | invalid_password | Invalid Authorization Specification | mallory | 2026-11-20 20:00 | 2026-11-20 20:00 | 2",
		"(none) | interrupted: the process ended before the statement |  | bob | 2026-11-20 19:31 | 2026-11-20 19:31 | 1",
		"42501 | insufficient_privilege | Syntax Error or Access Rule Violation | bob | 2026-11-20 19:30 | 2026-11-20 19:30 | 1",
		`42601 | syntax_error | Syntax Error or Access Rule Violation | o'neill, <script>"x"\n\x1b[31m|*_ | 2026-11-23 08:00 | 2026-11-23 08:00 | 1`,
	})
	compare(t, "addresses", r.table("addresses").rows(), []string{
		"192.0.2.66 | mallory | 2026-11-20 20:00 | 2026-11-20 20:00 | 2 | 0",
		"10.1.2.3 | alice | 2026-11-20 05:00 | 2026-11-20 05:00 | 0 | 1",
		"2001:db8::7 | bob | 2026-11-20 05:00 | 2026-11-20 05:00 | 0 | 1",
		`[local] | o'neill, <script>"x"\n\x1b[31m|*_ | 2026-11-20 05:00 | 2026-11-20 05:00 | 0 | 1`,
	})
	compare(t, "commands", r.table("commands").rows(), []string{
		"ALTER SYSTEM | ddl | alice | 2026-11-21 12:00 | 2026-11-21 12:00 | 0 | 0 | 0 | 1",
		"ALTER TABLE | ddl | alice | 2026-11-21 12:00 | 2026-11-21 12:00 | 0 | 0 | 0 | 1",
		"GRANT | role | alice | 2026-11-21 12:00 | 2026-11-21 12:00 | 0 | 0 | 0 | 1",
		"GRANT ROLE | role | alice | 2026-11-21 12:00 | 2026-11-21 12:00 | 0 | 0 | 0 | 1",
	})
	compare(t, "reasons", r.table("reasons").rows(), []string{"ring full | 3"})
	if got := r.table("setting_events").rows(); len(got) != 1 || !strings.Contains(got[0], "steno.log: 'all' → 'all, -read'") {
		t.Errorf("settings: %q", got)
	}
	if got := r.table("by_calls").rows(); len(got) < 5 || !strings.HasPrefix(got[0], "SELECT * FROM orders WHERE id = 3 | alice, bob | ") || !strings.HasSuffix(got[0], " | 1 | 4") {
		t.Errorf("statements: %q", got)
	}
}

// TestWhatWasRolledBackIsCountedApart: figures and tables say how many of their statements took effect.
func TestWhatWasRolledBackIsCountedApart(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	session := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: "dba"}, trailtest.Fact{Key: format.KeyDatabase, Value: "shop"})
	at := trailtest.Epoch
	add := func(r trailtest.Record) {
		at += 1e6
		r.Session, r.Time = session, at
		b.Add(&r)
	}
	for i, outcome := range []format.Outcome{format.OutcomeOk, format.OutcomeError, format.OutcomeInterrupted} {
		xid := uint64(700 + i)
		add(trailtest.Record{Kind: format.KindStatement, XID: xid, Text: fmt.Sprintf("GRANT a TO b /* %d */", i), Shape: &trailtest.Shape{Class: format.ClassRole, Command: "GRANT ROLE"}})
		add(trailtest.Record{Kind: format.KindStatement, XID: xid, Text: "INSERT INTO t VALUES (1)", Shape: &trailtest.Shape{Class: format.ClassWrite, Command: "INSERT",
			Relations: []trailtest.Relation{{Type: format.RelationTypeTable, Access: format.AccessInsert, Name: "public.t"}}}})
		if outcome != format.OutcomeInterrupted { // else the trail ends before
			add(trailtest.Record{Kind: format.KindTransaction, XID: xid, Outcome: outcome, Shape: &trailtest.Shape{Class: format.ClassTransaction}})
		}
	}
	s.Write(t, b)
	r := makeReport(t, dir, nil)
	for _, f := range r.Figures {
		if want := f.ID == "granted" || f.ID == "writes" || f.ID == "role"; want && (f.Records.Count != 3 || f.Records.RolledBack != 1 || f.Records.Unknown != 1) {
			t.Errorf("%s: %+v", f.ID, f.Records)
		}
	}
	compare(t, "commands", r.table("commands").rows(), []string{"GRANT ROLE | role | dba | 20:45:14 | 20:45:20 | 0 | 1 | 1 | 3"})
	compare(t, "pairs", r.table("pairs").rows(), []string{"dba | shop | public.t | insert | 20:45:15 | 20:45:21 | 0 | 2 | 0 | 3"})
	var results []string
	for _, row := range r.table("privileged_events").Rows {
		results = append(results, row.Cells[5].Text)
	}
	compare(t, "results", results, []string{"", "rolled back", "unknown whether committed"})
	var page, text bytes.Buffer
	if err := errors.Join(r.WriteHTML(&page), r.WriteMarkdown(&text)); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{page.String(), text.String()} {
		if !strings.Contains(out, "1 of them rolled back, 1 of them not known to have been committed") {
			t.Error("a format does not say what was rolled back")
		}
	}
}

// TestManyNamesAreCountedExactly: when there are more than are followed at the same time, what is
// shown is exact.
func TestManyNamesAreCountedExactly(t *testing.T) {
	dir := t.TempDir()
	s := trailtest.NewStream(t, dir, 0)
	want := map[string]int64{}
	at, pid := trailtest.Epoch, uint32(1)
	for range 4 {
		b := trailtest.NewBuilder(at)
		for i := range 3 * maxActors / 4 {
			user := fmt.Sprintf("user%d", pid)
			if i%100 == 99 {
				user = fmt.Sprintf("often%d", i%700)
			}
			session := trailtest.NewSession(trailtest.Epoch, pid, trailtest.Fact{Key: format.KeyUser, Value: user})
			b.Add(&trailtest.Record{Kind: format.KindStatement, Session: session, Time: at, Text: "SELECT 1"})
			want[user]++
			pid, at = pid+1, at+1
		}
		s.Write(t, b)
	}
	r := makeReport(t, dir, nil)
	users := r.table("users")
	if len(users.Rows) != rowsShown || users.Others != "and more users than can be followed at the same time" || !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "approximation") }) {
		t.Errorf("%d rows, %q, notes %q", len(users.Rows), users.Others, r.Notes)
	}
	for i, row := range users.Rows {
		if n := want[row.Cells[0].Text]; n != row.Records[0].Count || i < 7 && n < 10 {
			t.Errorf("row %d: %s has %d, want %d", i, row.Cells[0].Text, row.Records[0].Count, n)
		}
	}
}

func TestEmptyPeriod(t *testing.T) {
	r := office(t, func(o *Options) {
		o.Within.Since = query.Micros(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
		o.Within.Until = o.Within.Since + 24*60*60*1e6
	})
	if r.First != "" || r.Figures[0].Records.Count != 0 || !r.Verdict.Intact {
		t.Errorf("%+v", r)
	}
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return r.WriteHTML(b) }, func(b *bytes.Buffer) error { return r.WriteMarkdown(b) }, func(b *bytes.Buffer) error { return r.WriteJSON(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil || b.Len() < 1000 {
			t.Errorf("%d bytes, %v", b.Len(), err)
		}
	}
}

// TestPageLoadsNothing: nothing in the page, whatever the trail has, refers to anything else.
func TestPageLoadsNothing(t *testing.T) {
	for _, standard := range append(slices.Clone(Standards), "") {
		var b bytes.Buffer
		if err := office(t, func(o *Options) { o.Standard = standard }).WriteHTML(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if n := strings.Count(page, "Content-Security-Policy"); n != 1 || !strings.Contains(page, "default-src &#39;none&#39;") {
			t.Error("no policy")
		}
		for _, m := range regexp.MustCompile(`<([a-zA-Z]+)([^>]*)>`).FindAllStringSubmatch(page, -1) {
			if slices.Contains([]string{"script", "img", "iframe", "object", "embed", "base", "form", "audio", "video", "source"}, strings.ToLower(m[1])) {
				t.Errorf("element %s", m[0])
			}
			for _, a := range regexp.MustCompile(`\b(src|srcset|href|action|data|style|on\w+)="?([^" ]*)`).FindAllStringSubmatch(m[2], -1) {
				if !strings.HasPrefix(a[2], "#") && a[2] != "data:," && !(m[1] == "section" || m[1] == "div") {
					t.Errorf("attribute %q of %s", a[0], m[0])
				}
			}
		}
		for _, hidden := range []string{"\x1b", "<script", "<img", "url(", "@import"} {
			if strings.Contains(page, hidden) {
				t.Errorf("the page has %q", hidden)
			}
		}
	}
}

// TestFormatsHaveTheSameContents: all cells and commands are in each of them, and no text of the
// trail is a mark in Markdown.
func TestFormatsHaveTheSameContents(t *testing.T) {
	r := office(t, func(o *Options) { sinceFriday(o); o.Standard = "pci" })
	var page, text, object bytes.Buffer
	for _, err := range []error{r.WriteHTML(&page), r.WriteMarkdown(&text), r.WriteJSON(&object)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var back Report
	if err := json.Unmarshal(object.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range r.Sections {
		for _, table := range r.Sections[i].Tables {
			for k, row := range table.Rows {
				for c, cell := range row.Cells {
					n++
					if !strings.Contains(text.String(), " "+plain(cell.Text)+" |") {
						t.Errorf("%s: %q is not in Markdown", table.ID, cell.Text)
					}
					if got := back.Sections[i].table(table.ID).Rows[k].Cells[c].Text; got != cell.Text {
						t.Errorf("%s: JSON has %q, want %q", table.ID, got, cell.Text)
					}
				}
				for _, records := range row.Records {
					if records.Command != "" && (!strings.Contains(text.String(), records.Command) || !strings.Contains(page.String(), htmlText(records.Command))) {
						t.Errorf("%s: not everywhere: %s", table.ID, records.Command)
					}
				}
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d cells", n)
	}
	for line := range strings.Lines(text.String()) {
		if bare := regexp.MustCompile("`+ .* `+").ReplaceAllString(line, ""); strings.Contains(bare, "<") && !strings.Contains(bare, `\<`) || strings.ContainsRune(line, 0x1b) {
			t.Errorf("Markdown: %q", line)
		}
	}
}

func (s *Section) table(id string) *Table {
	return (&Report{Sections: []Section{*s}}).table(id)
}

func htmlText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

// TestStandardsAreThoseOfTheDocuments: rows are those of docs/compliance.md, and what shows them exists.
func TestStandardsAreThoseOfTheDocuments(t *testing.T) {
	file, err := os.ReadFile("../../docs/compliance.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range Standards {
		r := office(t, func(o *Options) { o.Standard = name })
		m := regexp.MustCompile(`(\d+) rows:[^\n]*\n\n<!-- requirements: ` + name + ` -->`).FindSubmatch(file)
		if m == nil || string(m[1]) != fmt.Sprint(len(r.Standard.Rows)) || r.Standard.Title == "" {
			t.Fatalf("%s: %d rows of %s", name, len(r.Standard.Rows), m)
		}
		for _, row := range r.Standard.Rows {
			known[row.ID] = true
			if !strings.Contains(string(file), "\n| "+row.ID+" | ") {
				t.Errorf("%s is not in the document", row.ID)
			}
		}
	}
	for id := range shownBy {
		if !known[id] {
			t.Errorf("docs/compliance.md has no %s", id)
		}
	}
	if n := len(tableFormat.FindAllString(string(file), -1)); n != len(Standards) {
		t.Errorf("the document has %d tables", n)
	}
}

// TestConditionsAreThoseOfPostgreSQL compares with the list that comes with a server.
func TestConditionsAreThoseOfPostgreSQL(t *testing.T) {
	if condition("42501") != "insufficient_privilege" || conditionClass("23505") != "Integrity Constraint Violation" || conditionClass("x") != "" {
		t.Error("conditions are wrong")
	}
	file, err := os.ReadFile("/usr/share/postgresql/15/errcodes.txt")
	if err != nil {
		t.Skip(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^([0-9A-Z]{5})\s+[EWS]\s+\w+\s+(\w+)`).FindAllStringSubmatch(string(file), -1) {
		if condition(m[1]) == "" {
			t.Errorf("%s %s is missing", m[1], m[2])
		}
	}
}

// TestFiltersOfFiguresNarrowThoseOfTheReport: otherwise there is no command.
func TestFiltersOfFiguresNarrowThoseOfTheReport(t *testing.T) {
	r := office(t, func(o *Options) {
		o.Criteria = query.Criteria{Clients: parseClients("10.0.0.0/8", "2001:db8::/32"), Classes: []format.Class{format.ClassRead, format.ClassDDL}, Not: &query.Criteria{Users: []string{"mallory"}}}
	})
	for _, f := range r.Figures {
		if c := f.Records.Command; f.Records.Count > 0 && (!strings.Contains(c, "--client 10.0.0.0/8,2001:db8::/32") || !strings.Contains(c, "--not-user mallory")) {
			t.Errorf("%s: %s", f.ID, c)
		}
	}
	r = office(t, func(o *Options) { o.Criteria.Objects = []string{"hr.*"} })
	for _, row := range r.table("pairs").Rows {
		if row.Records[0].Command != "" {
			t.Errorf("%v", row.Records[0])
		}
	}
}

// TestReportsOfOddTrails: of all golden trails, and of times that no clock shows.
func TestReportsOfOddTrails(t *testing.T) {
	dirs, _ := filepath.Glob(trailtest.Golden(t) + "/*/0")
	odd := t.TempDir()
	stream := trailtest.NewStream(t, odd, 0)
	for _, at := range []int64{-9e18, 0, 9e18} {
		b := trailtest.NewBuilder(at)
		who := trailtest.NewSession(at, 1, trailtest.Fact{Key: format.KeyUser, Value: "M\xfcller\xff"}, trailtest.Fact{Key: format.KeyEncoding, Value: "LATIN1"})
		b.Add(&trailtest.Record{Kind: format.KindStatement, Session: who, Time: at, Text: "SELECT '\xe4'", Duration: 1 << 62, Rows: 1 << 63, Outcome: format.OutcomeError, SQLState: "<b>&\xff", Message: "\x00\xfc"})
		stream.Write(t, b)
	}
	for _, dir := range append(dirs, odd+"/0") {
		r := makeReport(t, filepath.Dir(dir), func(o *Options) { o.Standard = "soc2" })
		for _, write := range []func(io.Writer) error{r.WriteHTML, r.WriteMarkdown, r.WriteJSON} {
			var b bytes.Buffer
			if err := write(&b); err != nil || !utf8.Valid(b.Bytes()) || strings.ContainsAny(b.String(), "\x00\x1b") {
				t.Errorf("%s: %v", dir, err)
			}
		}
	}
	if len(dirs) < 9 {
		t.Errorf("only %d trails", len(dirs))
	}
}

// TestReportsOfAnyTimes: records have the first and the last time that there is, which no server writes.
func TestReportsOfAnyTimes(t *testing.T) {
	for _, times := range [][]int64{{math.MaxInt64}, {math.MinInt64}, {math.MinInt64, trailtest.Epoch, math.MaxInt64}, {math.MaxInt64 - 1e14, math.MaxInt64 - 1}} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		who := trailtest.NewSession(trailtest.Epoch, 4711, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
		for _, at := range times {
			b := trailtest.NewBuilder(at)
			b.Add(&trailtest.Record{Kind: format.KindStatement, Session: who, Time: at, Text: "SELECT 1", Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"}})
			s.Write(t, b)
		}
		r := makeReport(t, dir, nil)
		if n := r.Figures[0].Records.Count; n != int64(len(times)) {
			t.Errorf("%v: %d records are counted", times, n)
		}
		var page bytes.Buffer
		if err := r.WriteHTML(&page); err != nil {
			t.Error(err)
		}
	}
}

// largeBuffer is the most that a reader reads of a segment at once, to find what it has.
const largeBuffer = 64 << 10

// TestFirstUsesAreLookedForInTheWholeTrail: whatever the time before the period at which a relation was used. How much of
// the trail is read for that depends on when it was.
func TestFirstUsesAreLookedForInTheWholeTrail(t *testing.T) {
	const days = 64
	day := func(n float64) int64 { return trailtest.Epoch + int64(n*24*3600*1e6) }
	session := trailtest.NewSession(trailtest.Epoch, 77, trailtest.Fact{Key: format.KeyUser, Value: "alice"}, trailtest.Fact{Key: format.KeyDatabase, Value: "shop"})
	dir, seq := t.TempDir(), uint64(0)
	s := trailtest.NewStream(t, dir, 0)
	use := func(b *trailtest.Builder, at int64, table string) {
		seq++
		b.Add(&trailtest.Record{
			Kind: format.KindStatement, Session: session, Seq: seq, Statement: seq, Time: at, Text: "SELECT " + rand.Text() + strings.Repeat(" ", 2000),
			Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Type: format.RelationTypeTable, Access: format.AccessSelect, Name: table}}},
		})
	}
	for n := range days {
		b := trailtest.NewBuilder(day(float64(n)))
		if n == 0 || n == days-3 {
			b.Add(&trailtest.Record{Kind: format.KindServer, Session: trailtest.NewSession(day(float64(n)), 1), Time: day(float64(n)), Extra: []string{"event", "start", "run", fmt.Sprint(n), "host", "db1"}})
			s.LastStart = uint64(n + 1)
		}
		for k := range 24 {
			at := day(float64(n) + float64(k)/24)
			use(b, at, "daily")
			for table, when := range map[string]int{"first": 0, "long ago": 5, "a month ago": days - 32, "last week": days - 8, "new": days - 1, "new, and the last one": days - 1} {
				if n == when || n == days-1 && table != "new, and the last one" || n == days-1 && k == 23 {
					use(b, at, table)
				}
			}
		}
		s.Write(t, b)
		if n < days-1 {
			s.Rotate(t, day(float64(n+1)))
		}
	}
	var r *Report
	read := func(first float64) int64 {
		opened, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{
			Index: opened.Index(), Within: query.Range{Since: day(first), Until: day(first + 1)}, Command: (&flags.Cat{Trails: []string{"trail"}}).Line, Zone: time.UTC, ZoneName: "UTC",
			Verify: &verify.Report{}, Warn: func(err error) { t.Error(err) },
		}
		return trailtest.BytesRead(t, func() {
			if r, err = Make(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		})
	}
	read(days - 1)
	var found []string
	for _, row := range r.table("new_pairs").Rows {
		found = append(found, fmt.Sprint(row.Cells))
	}
	if slices.Sort(found); len(found) != 2 || !strings.Contains(found[0], "{new ") || !strings.Contains(found[1], "{new, and the last one ") {
		t.Errorf("new: %q", found)
	}
	size := func(segment uint64) int64 {
		info, err := os.Stat(s.SegmentPath(segment))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	// The period is read, the days beside it, and all again for what they lack.
	if daily, most := read(days-2), days*format.EncryptedHeaderSize+2*(size(days-2)+size(days-1)+size(days))+5*largeBuffer; daily > most {
		t.Errorf("of what is used daily, %d bytes are read, of at most %d", daily, most)
	}
}

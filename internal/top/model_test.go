package top

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/tools/txtar"

	"github.com/pg-steno/pg_steno/internal/format"
)

var update = flag.Bool("update", false, "write the golden screens")

// epoch of the snapshots: 2026-11-21 03:12:30 UTC.
var noon = Microseconds(time.Date(2026, 11, 21, 3, 12, 30, 0, time.UTC))

// hostile is a name that a client can choose.
const hostile = "\x1b[2Jев\u202ea\xff\n名前の長い利用者名前の長い利用者"

// fake answers without a trail.
type fake struct {
	snapshot *Snapshot
	asked    []Question
	err      error
}

func (f *fake) Ask(q Question) (*Snapshot, error) {
	f.asked = append(f.asked, q)
	if f.err != nil {
		return nil, f.err
	}
	s := *f.snapshot
	s.Question = q
	if q.At != 0 {
		s.Rings, s.NoRings = nil, ""
		s.To = q.At + q.Window.Microseconds()/2
		s.From = s.To - q.Window.Microseconds()
		for i := range s.Spark {
			s.Spark[i].InWindow = i >= 54 && i < 66
		}
	}
	if q.By == ByError {
		s.Rows = []Row{{Name: "42501", Note: "permission denied for table salaries", Count: Count{Statements: 18, Failures: 18}}}
	}
	return &s, nil
}

func (f *fake) Records(sel Selection) (lines []Line, err error) {
	for i := range 40 {
		l := Line{
			Time: noon + int64(i)*1000, Seq: uint64(i), Who: sel.Name + "@shop", Duration: duration(uint64(i * i * 100)), Rows: "1", What: "SELECT",
			Text: fmt.Sprintf("SELECT * FROM orders WHERE id = %d", i),
		}
		if i%7 == 0 {
			l.SQLState, l.Failed = "42501", true
		}
		l.Cat = fmt.Sprintf("2026-11-21 03:12:30.%06d+00:00 %s [6a.1 %d] ok read/SELECT | %s", i*1000, "alice@shop", i, l.Text)
		lines = append(lines, l)
	}
	return lines, nil
}

func (f *fake) Fields(session format.SessionID, seq uint64, _ int64) ([]Field, error) {
	if seq == 7 {
		return nil, errNotFound
	}
	return []Field{
		{"time", "2026-11-21T03:12:30.000000Z"}, {"user", hostile}, {"seq", fmt.Sprint(seq)},
		{"text", "SELECT *\n\tFROM orders\n WHERE note = '" + strings.Repeat("long ", 30) + "'"}, {"relations", `[{"name":"public.orders"}]`},
	}, nil
}

// sample is a busy server.
func sample() *Snapshot {
	s := &Snapshot{
		Now: noon, From: noon - 60e6, To: noon, Covered: 60e6, Newest: noon - 1e5, Slot: 5e6,
		Total: Count{Statements: 582_120, Failures: 186, Rows: 7_201_000, Busy: 252e6, Timed: 582_120, Max: 12_300_000},
		Last:  Count{Statements: 49_225, Failures: 60}, Sessions: 42,
		Rings: &Rings{
			Sessions: 118, Used: 3_300_000, Fullest: 41, FullPID: 4711, Lag: 180_000, Waits: 12, NewWaits: 3, WaitTime: 1_200_000, AllRunning: 3,
			Running: []Running{
				{Known: true, PID: 4711, Start: noon - 734e6, User: "etl", Database: "shop", Text: "COPY (SELECT * FROM orders) TO STDOUT", What: "COPY", TextLen: 37},
				{Known: true, PID: 4712, Start: noon - 4_100_000, User: "alice", Database: "shop", Text: "UPDATE orders SET total = total * 1.19 WHERE placed > now() - interval '1 day'", What: "UPDATE"},
				{PID: 4713, Start: noon - 1500, What: "FUNCTION CALL"},
			},
		},
		Slowest: []Slow{
			{Seq: 9, Start: noon - 40e6, Duration: 12_300_000, User: "etl", Database: "shop", What: "SELECT", Text: "SELECT * FROM sales.totals"},
			{Seq: 7, Start: noon - 30e6, Duration: 2_000_000, User: "mallory", Database: "hr", What: "SELECT", Text: "SELECT * FROM salaries", SQLState: "57014"},
			{Seq: 8, Start: noon - 20e6, Duration: 900_000, User: hostile, What: "CALL"},
		},
	}
	for i := range 120 {
		s.Spark = append(s.Spark, Bar{Count: Count{Statements: uint64(40_000 + i*i*5%30_011), Failures: uint64(i % 3)}, Known: i >= 20, InWindow: i >= 107})
	}
	for i, name := range []string{"alice", "bob", "etl", "mallory", hostile, "", "monitoring", "a_role_with_a_name_that_is_as_long_as_postgresql_allows_it_to_be", "j", "k", "l"} {
		n := uint64(300_000 >> i)
		s.Rows = append(s.Rows, Row{Name: name, Count: Count{Statements: n, Failures: uint64(i * i % 7), Rows: n * 3, Busy: n * 400, Timed: n, Max: n * 7}})
	}
	return s
}

// keyOf is the message of a key by its name.
func keyOf(name string) tea.KeyPressMsg {
	codes := map[string]rune{
		"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
		"home": tea.KeyHome, "end": tea.KeyEnd, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "backspace": tea.KeyBackspace,
	}
	if code, ok := codes[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if letter, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(letter[0]), Mod: tea.ModCtrl}
	}
	r, _ := utf8.DecodeRuneInString(name)
	return tea.KeyPressMsg{Code: r, Text: name}
}

// play presses keys, and runs the commands that they give. It says whether the screen ended.
func play(m *Model, keys ...string) (quit bool) {
	var run func(cmd tea.Cmd)
	run = func(cmd tea.Cmd) {
		if cmd == nil {
			return
		}
		switch msg := cmd().(type) {
		case tea.QuitMsg:
			quit = true
		case nil:
		default:
			_, next := m.Update(msg)
			run(next)
		}
	}
	run(m.ask())
	for _, key := range keys {
		_, cmd := m.Update(keyOf(key))
		run(cmd)
	}
	return quit
}

// screenOf is a screen of the sample.
func screenOf(f *fake, width, height int, ascii bool, keys ...string) *Model {
	m := New(f, Question{Window: time.Minute}, Settings{
		Trail: "/var/lib/postgresql/15/main/pg_steno", Interval: time.Second, Zone: time.UTC, Charset: Charset{ASCII: ascii}, Plain: true,
	})
	m.width, m.height = width, height
	play(m, keys...)
	return m
}

func TestScreens(t *testing.T) {
	empty := func() *Snapshot {
		return &Snapshot{Now: noon, From: noon - 60e6, To: noon, Covered: 60e6, Slot: 5e6, Newest: noon - 86_400e6, NoRings: "no rings in /dev/shm: the server does not run here"}
	}
	damaged := func() *Snapshot {
		s := sample()
		s.Rings, s.NoRings = nil, "rings cannot be read: /dev/shm/pg_steno.101.1: permission denied"
		s.Problems, s.NoProblems = []string{"damaged: 0/0000000001.steno: offset 128: checksum", "unreadable: x"}, 3
		s.Other = Count{Statements: 4000, Timed: 4000, Busy: 100}
		return s
	}
	partly := func() *Snapshot {
		s := sample()
		s.Covered = 20e6
		return s
	}
	const file = "testdata/screens.txtar"
	golden, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written txtar.Archive
	written.Comment = []byte("Screens of TestScreens. go test ./internal/top -update writes them.\n")
	for _, c := range []struct {
		name          string
		of            *Snapshot
		width, height int
		ascii         bool
		keys          string
	}{
		{"live 80x24", sample(), 80, 24, false, ""},
		{"live 132x40", sample(), 132, 40, false, ""},
		{"live 40x10", sample(), 40, 10, false, ""},
		{"live 40x10, statements", sample(), 40, 10, false, "tab"},
		{"ascii, sorted by failures, third row", sample(), 80, 24, true, "s down down"},
		{"ended", sample(), 80, 24, false, "r tab down"},
		{"past", sample(), 80, 24, false, "left"},
		{"errors, paused", sample(), 80, 24, false, "8 p"},
		{"filter", sample(), 80, 24, false, "/ a l i"},
		{"nothing", empty(), 80, 24, false, ""},
		{"not all read", partly(), 80, 24, false, ""},
		{"damaged", damaged(), 80, 24, false, ""},
		{"problems", damaged(), 80, 12, false, "w"},
		{"help", sample(), 80, 24, false, "?"},
		{"records", sample(), 80, 12, false, "enter up"},
		{"records 132", sample(), 132, 8, false, "enter home"},
		{"records 40", sample(), 40, 8, false, "enter home"},
		{"records as steno cat", sample(), 80, 8, false, "enter v right"},
		{"fields", sample(), 80, 14, false, "enter enter"},
		{"fields of what runs", sample(), 80, 14, false, "tab enter"},
		{"a record that has gone", sample(), 80, 8, false, "r tab down enter"},
	} {
		m := screenOf(&fake{snapshot: c.of}, c.width, c.height, c.ascii, strings.Fields(c.keys)...)
		got := m.Screen() + "\n"
		written.Files = append(written.Files, txtar.File{Name: c.name, Data: []byte(got)})
		if n := strings.Count(got, "\n"); n != c.height {
			t.Errorf("%s: %d lines, want %d", c.name, n, c.height)
		}
		want := ""
		for _, f := range golden.Files {
			if f.Name == c.name {
				want = string(f.Data)
			}
		}
		if got != want && !*update {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, want)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(&written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScreensFit draws every page in many sizes: no line is longer than the terminal, there are
// no more lines than it has, and nothing that it would obey.
func TestScreensFit(t *testing.T) {
	pages := []string{"", "tab", "r", "left", "8", "enter", "enter enter", "enter v right right", "tab enter", "?", "/ x", "w", "end", "enter home"}
	for _, size := range [][2]int{{1, 1}, {2, 3}, {7, 4}, {10, 5}, {20, 6}, {20, 24}, {39, 9}, {40, 10}, {41, 11}, {59, 12}, {60, 13}, {75, 15}, {79, 17}, {80, 24}, {83, 30}, {84, 31}, {100, 5}, {200, 60}} {
		for _, ascii := range []bool{false, true} {
			for _, keys := range pages {
				m := screenOf(&fake{snapshot: sample()}, size[0], size[1], ascii, strings.Fields(keys)...)
				screen := m.Screen()
				m.Plain = false
				if styled := ansi.Strip(m.Screen()); styled != screen {
					t.Errorf("%v %q: styles change the text:\n%s\n%s", size, keys, styled, screen)
				}
				lines := strings.Split(screen, "\n")
				if len(lines) > size[1] {
					t.Errorf("%v %q: %d lines", size, keys, len(lines))
				}
				for _, line := range lines {
					if w := ansi.StringWidthWc(line); w > size[0] {
						t.Errorf("%v %q: line of %d cells: %s", size, keys, w, line)
					}
					for _, r := range line {
						if r < ' ' || r == 0x7f || r == utf8.RuneError || r >= 0x80 && (ascii || r < 0xa0) || r == 0x202e {
							t.Errorf("%v %q: %q in %q", size, keys, r, line)
						}
					}
				}
			}
		}
	}
}

// TestEveryKeyDoesSomething presses each key that the help lists.
func TestEveryKeyDoesSomething(t *testing.T) {
	names := map[string]string{"↑": "up", "↓": "down", "PgUp": "pgup", "PgDn": "pgdown", "Home": "home", "End": "end", "Tab": "tab", "Enter": "enter", "Esc": "esc", "←": "left", "→": "right", "Ctrl-C": "ctrl+c", "Ctrl-Z": "ctrl+z"}
	for _, k := range Keys {
		for _, key := range strings.FieldsFunc(k.Keys, func(r rune) bool { return r == ' ' || r == ',' || r == '…' }) {
			if name, ok := names[key]; ok {
				key = name
			}
			before := []string{"g", "down", "down", "left", "left", "/", "b", "enter"}
			if key == "v" {
				before = []string{"enter"}
			}
			if key == "l" || key == "/" {
				before = before[:5]
			} else if key == "r" || key == "p" {
				before = nil // these are of the present
			}
			s := sample()
			s.Problems, s.NoProblems = []string{"damaged: x"}, 1
			f := &fake{snapshot: s}
			m := screenOf(f, 80, 24, false, before...)
			if key == "pgup" || key == "home" || key == "up" {
				m = screenOf(f, 80, 24, false, "down", "down")
			} else if key == "pgdown" || key == "end" || key == "down" {
				m = screenOf(f, 80, 24, false)
			}
			screen, asked := m.Screen(), len(f.asked)
			_, cmd := m.Update(keyOf(key))
			if cmd == nil && m.Screen() == screen && len(f.asked) == asked {
				t.Errorf("key %s (%s) does nothing", key, k.What)
			}
		}
	}
}

// TestKeysAreDocumented compares the help with the table of docs/commands/top.md.
func TestKeysAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/commands/top.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "<!-- keys of steno top -->\n")
	table, _, found := strings.Cut(table, "<!-- end -->")
	if !found {
		t.Fatal("docs/commands/top.md has no table of the keys of steno top")
	}
	want := "| key | what it does |\n|---|---|\n"
	for _, k := range Keys {
		want += fmt.Sprintf("| `%s` | %s |\n", k.Keys, k.What)
	}
	if table != want {
		t.Errorf("docs/commands/top.md has\n%s\nbut the keys are\n%s", table, want)
	}
}

func TestTimeIsStepped(t *testing.T) {
	f := &fake{snapshot: sample()}
	m := screenOf(f, 80, 24, false, "left")
	minute := int64(60e6)
	last := func() int64 { return f.asked[len(f.asked)-1].At }
	if want := noon - minute/2 - minute; last() != want {
		t.Errorf("one step back asks for %d, want %d", last(), want)
	}
	play(m, "[")
	if want := noon - minute/2 - 11*minute; last() != want {
		t.Errorf("ten steps more ask for %d, want %d", last(), want)
	}
	play(m, "]", "right")
	if last() != 0 {
		t.Errorf("as many steps forward ask for %d, want the present", last())
	}
	play(m, "+")
	if w := f.asked[len(f.asked)-1].Window; w != 5*time.Minute {
		t.Errorf("a longer window is of %s", w)
	}
}

func TestPauseReadsNothing(t *testing.T) {
	f := &fake{snapshot: sample()}
	m := screenOf(f, 80, 24, false, "p")
	n := len(f.asked)
	m.Update(ticked{})
	if len(f.asked) != n {
		t.Error("a tick asked, though the screen is paused")
	}
	if play(m, "2"); !f.asked[len(f.asked)-1].Still {
		t.Error("a paused screen asked for what is new")
	}
	if play(m, "p"); f.asked[len(f.asked)-1].Still {
		t.Error("a screen that goes on asked for nothing new")
	}
}

// TestChosenRowIsFollowed keeps the chosen row when the order changes, except the first one.
func TestChosenRowIsFollowed(t *testing.T) {
	f := &fake{snapshot: sample()}
	m := screenOf(f, 80, 24, false, "down", "down")
	if !strings.Contains(m.Screen(), "\n>etl") {
		t.Fatalf("etl is not chosen:\n%s", m.Screen())
	}
	f.snapshot.Rows[2].Statements = 1 << 30
	if play(m); !strings.Contains(m.Screen(), "\n>etl") {
		t.Errorf("etl is not followed:\n%s", m.Screen())
	}
	m = screenOf(f, 80, 24, false)
	f.snapshot.Rows[1].Statements = 1 << 31
	if play(m); !strings.Contains(m.Screen(), "\n>bob") {
		t.Errorf("the first row is not the chosen one:\n%s", m.Screen())
	}
}

func TestFailureIsShownAndTriedAgain(t *testing.T) {
	f := &fake{snapshot: sample()}
	m := screenOf(f, 80, 24, false)
	f.err = errors.New("input/output \x1b[2Jerror")
	play(m)
	if s := m.Screen(); !strings.Contains(s, `! input/output \x1b[2Jerror`) || !strings.Contains(s, "alice") {
		t.Errorf("the failure, or what was shown before, is missing:\n%s", s)
	}
	f.err = nil
	_, cmd := m.Update(ticked{})
	if cmd == nil || !m.asking {
		t.Error("it is not tried again")
	}
}

// TestListsUseTheHeight: lines that the rows do not need show more statements, and the other way round, at every size.
func TestListsUseTheHeight(t *testing.T) {
	rows := func(n int) (all []Row) {
		for i := range n {
			all = append(all, Row{Name: fmt.Sprintf("name%d", i), Count: Count{Statements: uint64(100 - i)}})
		}
		return all
	}
	for _, one := range []struct{ rows, statements, height, wantRows, wantStatements int }{
		{1, 50, 60, 1, 47}, {1, 50, 24, 1, 11}, {40, 50, 60, 33, 17}, {40, 2, 60, 40, 2}, {60, 2, 60, 47, 2}, {1, 2, 60, 1, 2}, {0, 0, 60, 0, 0},
	} {
		s := &Snapshot{Now: noon, From: noon - 60e6, To: noon, Slot: 1e6, Covered: 60e6, Rows: rows(one.rows)}
		for i := range one.statements {
			s.Slowest = append(s.Slowest, Slow{Seq: uint64(i), Duration: 1000, Text: fmt.Sprintf("SELECT %d", i)})
		}
		m := New(&fake{snapshot: s}, Question{Window: time.Minute, At: noon}, Settings{Trail: "trail", Plain: true})
		screen, err := m.RenderOnce(100, one.height)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(screen, "\n") + 1; lines != one.height {
			t.Errorf("%+v: %d lines", one, lines)
		}
		if r, n := strings.Count(screen, "name"), strings.Count(screen, "SELECT"); r != one.wantRows || n != one.wantStatements {
			t.Errorf("%+v: %d rows and %d statements:\n%s", one, r, n, screen)
		}
	}
}

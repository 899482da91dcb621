// The state of the screen, and what keys do.

package top

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Asker answers what the screen asks; see Reader.
type Asker interface {
	Ask(Question) (*Snapshot, error)
	Records(Selection) ([]Line, error)
	Fields(session format.SessionID, seq uint64, end int64) ([]Field, error)
}

// Settings are the settings of a screen.
type Settings struct {
	Trail    string // its name on the screen
	Interval time.Duration
	Zone     *time.Location
	Charset
	// Plain says that the screen is text alone, without bold and the like.
	Plain bool
	// Suspend stops the program, as Ctrl-Z does; it may be nil.
	Suspend func()
}

// Keys are all keys, for the help and the manual.
var Keys = []struct{ Keys, What string }{
	{"1 … 8", "group by user, database, application, client, class, table, session, error"},
	{"g, G", "next grouping, previous one"},
	{"s, S", "sort by the next column, the previous one"},
	{"↑ ↓ PgUp PgDn Home End", "choose a row, or scroll"},
	{"Tab", "change between the rows and the statements below them"},
	{"Enter", "records of the row; of a record, or a statement, all fields"},
	{"Esc", "back; on the first screen, end the filter"},
	{"/", "show only rows that contain a text"},
	{"r", "statements: those that run now, or the slowest that have ended"},
	{"← →", "one window back in time, or forward; of records, scroll their lines"},
	{"[ ]", "ten windows back, or forward"},
	{"+ -", "longer window, shorter one"},
	{"o", "go to the last record of the trail"},
	{"l", "live again"},
	{"p", "pause, or go on"},
	{"v", "records in columns, or as steno cat shows them"},
	{"w", "what is wrong in the trail"},
	{"?", "help"},
	{"q, Ctrl-C", "quit"},
	{"Ctrl-Z", "suspend"},
}

// windows are the lengths that + and - choose.
var windows = []time.Duration{
	10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour,
	24 * time.Hour,
}

// list is the position in a list whose rows change. The chosen row is found again by its key, except
// the first one: the choice then stays at the top.
type list struct {
	key        string
	index, top int
}

// restoreChoice finds the chosen row again among n rows, of which shown are visible.
func (l *list) restoreChoice(n, shown int, key func(i int) string) {
	if l.key != "" {
		for i := range n {
			if key(i) == l.key {
				l.index = i
				break
			}
		}
	}
	l.index = max(min(l.index, n-1), 0)
	l.top = max(min(l.top, l.index, n-shown), 0)
	if shown > 0 && l.index >= l.top+shown {
		l.top = l.index - shown + 1
	}
}

// move chooses another row.
func (l *list) move(by, n int, key func(i int) string) {
	l.index = max(min(l.index+by, n-1), 0)
	if l.key = ""; l.index > 0 {
		l.key = key(l.index)
	}
}

// Model is the screen.
type Model struct {
	Settings
	asker Asker

	width, height     int
	question          Question
	snapshot          *Snapshot
	err               error
	asking            bool // a question has been asked and not been answered yet
	askAgain          bool // the question has changed since, and must be asked again
	paused            bool
	showFinished      bool // show statements that have ended, although some are running
	statementsFocused bool // the list of statements has the focus
	sort              int  // column
	rows, slow        list
	mostRows          [dimensions]int // largest number of rows so far, on a screen of this size
	filter            string
	typing            bool
	pages             []*page // the last one is shown
	pagesOpened       int     // number of the page that was opened last
	crash             string
}

// New makes a screen.
func New(asker Asker, q Question, s Settings) *Model {
	return &Model{Settings: s, asker: asker, question: q, width: 80, height: 24}
}

// Messages to the screen.
type (
	answered struct {
		snapshot *Snapshot
		err      error
	}
	ticked  struct{}
	crashed string
	// opened is the content of a page
	opened struct {
		page   int
		lines  []Line
		fields []Field
		err    error
	}
)

// RenderOnce returns a screen of this size, after everything has been read.
func (m *Model) RenderOnce(width, height int) (string, error) {
	m.width, m.height = width, height
	for m.snapshot == nil || m.snapshot.Pending {
		if m.snapshot, m.err = m.asker.Ask(m.question); m.err != nil {
			return "", m.err
		}
	}
	m.noteRows()
	return m.Screen(), nil
}

// Init asks for the first time.
func (m *Model) Init() tea.Cmd { return tea.Batch(m.ask(), m.tick()) }

func (m *Model) tick() tea.Cmd {
	return tea.Tick(m.Interval, func(time.Time) tea.Msg { return ticked{} })
}

// ask asks the present question, unless an answer is on its way.
func (m *Model) ask() tea.Cmd {
	if m.asking {
		m.askAgain = true
		return nil
	}
	m.asking, m.askAgain = true, false
	q := m.question
	q.Still = m.paused && m.snapshot != nil
	return guarded(func() tea.Msg {
		s, err := m.asker.Ask(q)
		return answered{s, err}
	})
}

// guarded turns a panic of a command into a message, so that the terminal is restored.
func guarded(f func() tea.Msg) tea.Cmd {
	return func() (msg tea.Msg) {
		defer func() {
			if what := recover(); what != nil {
				msg = crashed(fmt.Sprintf("panic: %v\n\n%s", what, debug.Stack()))
			}
		}()
		return f()
	}
}

// Crash is the error in this program that has ended the screen; empty: none.
func (m *Model) Crash() string { return m.crash }

// Update takes a message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
		m.mostRows = [dimensions]int{}
		m.noteRows()
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case ticked:
		if m.paused || m.question.At != 0 && m.err == nil {
			return m, m.tick()
		}
		return m, tea.Batch(m.ask(), m.tick())
	case crashed:
		m.crash = string(msg)
		return m, tea.Quit
	case answered:
		m.asking = false
		if m.err = msg.err; m.err == nil {
			m.snapshot = msg.snapshot
			m.noteRows()
		}
		if m.askAgain || m.err == nil && m.snapshot.Pending {
			return m, m.ask()
		}
	case opened:
		if p := m.page(); p != nil && p.number == msg.page {
			p.setContent(msg)
		}
	}
	return m, nil
}

// page returns the shown page; nil for the first screen.
func (m *Model) page() *page {
	if len(m.pages) == 0 {
		return nil
	}
	return m.pages[len(m.pages)-1]
}

// press handles a key.
func (m *Model) press(msg tea.KeyPressMsg) tea.Cmd {
	key := msg.String()
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case key == "ctrl+z":
		return m.suspend
	case m.typing:
		m.typeFilter(key, msg.Text)
		return nil
	case key == "q":
		return tea.Quit
	case key == "?":
		m.open(&page{kind: helpPage})
		return nil
	case key == "/":
		m.typing = true
		m.setFilter("")
		return nil
	case m.page() != nil:
		return m.pressPage(key)
	}
	return m.pressMain(key)
}

// suspend stops the program.
func (m *Model) suspend() tea.Msg {
	if m.Suspend != nil {
		m.Suspend()
	}
	return nil
}

// currentFilter returns the filter of the shown list.
func (m *Model) currentFilter() *string {
	if p := m.page(); p != nil {
		return &p.filter
	}
	return &m.filter
}

func (m *Model) setFilter(s string) { *m.currentFilter() = s }

// typeFilter handles a key while the filter is typed.
func (m *Model) typeFilter(key, text string) {
	f := *m.currentFilter()
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.setFilter("")
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(f)
		m.setFilter(f[:len(f)-n])
	default:
		if len(f)+len(text) < 200 {
			m.setFilter(f + text)
		}
	}
}

// containsFilter reports whether one of the texts contains the filter, ignoring case.
func containsFilter(filter string, texts ...string) bool {
	if filter == "" {
		return true
	}
	filter = strings.ToLower(filter)
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), filter) })
}

// keySteps returns by how many rows a key moves in a list of which shown rows are visible; 0: the key does not move.
func keySteps(key string, shown int) int {
	switch key {
	case "up", "k":
		return -1
	case "down", "j":
		return 1
	case "pgup":
		return -max(shown-1, 1)
	case "pgdown", "space":
		return max(shown-1, 1)
	case "home":
		return -1 << 30
	case "end":
		return 1 << 30
	}
	return 0
}

// pressMain handles a key of the first screen.
func (m *Model) pressMain(key string) tea.Cmd {
	if len(key) == 1 && key[0] >= '1' && key[0] < '1'+byte(dimensions) {
		return m.groupBy(Dimension(key[0] - '1'))
	}
	l := m.layout()
	if by := keySteps(key, m.rowsVisible(l)); by != 0 {
		m.move(by)
		return nil
	}
	switch key {
	case "g":
		return m.groupBy((m.question.By + 1) % dimensions)
	case "G":
		return m.groupBy((m.question.By + dimensions - 1) % dimensions)
	case "s":
		m.sort = (m.sort + 1) % len(m.columns())
	case "S":
		m.sort = (m.sort + len(m.columns()) - 1) % len(m.columns())
	case "tab", "shift+tab":
		m.statementsFocused = !m.statementsFocused
	case "enter":
		return m.enter()
	case "esc":
		m.filter = ""
	case "r":
		m.showFinished = !m.showFinished
		m.slow = list{}
	case "left", "right", "[", "]", "shift+left", "shift+right":
		return m.step(map[string]int64{"left": -1, "right": 1, "[": -10, "]": 10, "shift+left": -10,
			"shift+right": 10}[key])
	case "+", "=":
		return m.zoom(1)
	case "-":
		return m.zoom(-1)
	case "o":
		if m.snapshot != nil && m.snapshot.Newest > format.MinTime {
			return m.goTo(m.snapshot.Newest - m.window()/2 + m.window()/slotsShown)
		}
	case "l":
		m.paused = false
		return m.goTo(0)
	case "p":
		if m.paused = !m.paused; !m.paused {
			return m.ask()
		}
	case "w":
		if m.snapshot != nil && len(m.snapshot.Problems) > 0 {
			m.open(&page{kind: problemsPage})
		}
	}
	return nil
}

func (m *Model) window() int64 { return m.question.Window.Microseconds() }

func (m *Model) groupBy(d Dimension) tea.Cmd {
	m.question.By, m.statementsFocused = d, false
	m.rows = list{}
	return m.ask()
}

// goTo shows another time; 0 is now.
func (m *Model) goTo(at int64) tea.Cmd {
	m.question.At = at
	m.rows, m.slow = list{}, list{}
	return m.ask()
}

// step moves the window by its length, by times later, or earlier if by is negative.
func (m *Model) step(by int64) tea.Cmd {
	if m.snapshot == nil {
		return nil
	}
	at := m.question.At
	if at == 0 {
		if by > 0 {
			return nil
		}
		at = m.snapshot.To - m.window()/2
	}
	at += by * m.window()
	if at+m.window()/2 >= m.snapshot.Now {
		at = 0
	}
	return m.goTo(at)
}

// zoom takes the next longer window, or the next shorter one.
func (m *Model) zoom(by int) tea.Cmd {
	i, found := slices.BinarySearch(windows, m.question.Window)
	if by > 0 && found {
		i++
	} else if by < 0 {
		i--
	}
	if i < 0 || i >= len(windows) {
		return nil
	}
	m.question.Window = windows[i]
	return m.ask()
}

// rowsShown returns the rows that match the filter, in order.
func (m *Model) rowsShown() (rows []Row) {
	if m.snapshot == nil || m.snapshot.By != m.question.By {
		return nil
	}
	for _, r := range m.snapshot.Rows {
		if containsFilter(m.filter, r.Name, r.Note) {
			rows = append(rows, r)
		}
	}
	column := m.columns()[m.sort%len(m.columns())]
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(column.by(&b), column.by(&a)), cmp.Compare(b.Statements, a.Statements),
			strings.Compare(a.Name, b.Name))
	})
	return rows
}

// statement is a row below: one that runs, or has ended.
type statement struct {
	key      string
	duration uint64
	when     string // process id, or the time
	user, db string
	text     string
	failed   string // SQLSTATE
	running  *Running
	slow     *Slow
}

// running reports whether the lower list has the statements that are running.
func (m *Model) running() bool {
	return m.snapshot != nil && m.snapshot.Rings != nil && !m.showFinished
}

// statementsShown returns the statements that match the filter.
func (m *Model) statementsShown() (all []statement) {
	if m.snapshot == nil {
		return nil
	}
	if m.running() {
		for i := range m.snapshot.Rings.Running {
			all = append(all, m.runningStatement(&m.snapshot.Rings.Running[i]))
		}
	} else {
		for i := range m.snapshot.Slowest {
			all = append(all, m.endedStatement(&m.snapshot.Slowest[i]))
		}
	}
	return slices.DeleteFunc(all, func(s statement) bool {
		return !containsFilter(m.filter, s.user, s.db, s.text, s.failed)
	})
}

// move moves in the list that has the focus.
func (m *Model) move(by int) {
	if m.statementsFocused {
		all := m.statementsShown()
		m.slow.move(by, len(all), func(i int) string { return all[i].key })
		return
	}
	rows := m.rowsShown()
	m.rows.move(by, len(rows), func(i int) string { return rows[i].Name })
}

// enter opens the page of the chosen row.
func (m *Model) enter() tea.Cmd {
	if m.snapshot == nil {
		return nil
	}
	if m.statementsFocused {
		all := m.statementsShown()
		m.slow.restoreChoice(len(all), 1, func(i int) string { return all[i].key })
		if len(all) == 0 {
			return nil
		}
		s := &all[m.slow.index]
		if s.running != nil {
			m.open(&page{kind: fieldsPage, title: "statement of process " + s.when, fields: m.fieldsOf(s.running),
				loaded: true})
			return nil
		}
		return m.openFields(s.slow.Session, s.slow.Seq, s.slow.Start+int64(s.slow.Duration))
	}
	rows := m.rowsShown()
	m.rows.restoreChoice(len(rows), 1, func(i int) string { return rows[i].Name })
	if len(rows) == 0 {
		return nil
	}
	return m.openRecords(&rows[m.rows.index])
}

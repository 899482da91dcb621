// Draws the screen.

package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

// column is a column of the rows.
type column struct {
	name  string
	by    func(r *Row) float64 // what it is sorted by
	value func(r *Row, covered int64) string
	help  string
}

// columnWidth is the width of each column, with the blank before it.
const columnWidth = 8

// failureColumn is that of FAIL/S.
const failureColumn = 1

var columns = []column{
	{"STMT/S", func(r *Row) float64 { return float64(r.Statements) },
		func(r *Row, c int64) string { return rate(perSecond(r.Statements, c)) },
		"statements that ended in the window, per second, also those inside functions"},
	{"FAIL/S", func(r *Row) float64 { return float64(r.Failures) },
		func(r *Row, c int64) string { return rate(perSecond(r.Failures, c)) },
		"failed statements and refused connections, per second"},
	{"LOAD", func(r *Row) float64 { return float64(r.Busy) },
		func(r *Row, c int64) string { return rate(float64(r.Busy) / float64(max(c, 1))) },
		"statements that ran at a time, on average: their durations together, by the time of the window"},
	{"AVG", func(r *Row) float64 { return float64(r.Busy) / float64(max(r.Timed, 1)) },
		func(r *Row, _ int64) string { return durationOr(r, r.Busy/max(r.Timed, 1)) },
		"average duration of a statement"},
	{"MAX", func(r *Row) float64 { return float64(r.Max) },
		func(r *Row, _ int64) string { return durationOr(r, r.Max) },
		"duration of the longest statement"},
	{"ROWS/S", func(r *Row) float64 { return float64(r.Count.Rows) },
		func(r *Row, c int64) string { return rate(perSecond(r.Count.Rows, c)) },
		"rows returned or changed, per second"},
	{"STMTS", func(r *Row) float64 { return float64(r.Statements) },
		func(r *Row, _ int64) string { return short(r.Statements) },
		"statements in the window"},
	{"FAILED", func(r *Row) float64 { return float64(r.Failures) },
		func(r *Row, _ int64) string { return short(r.Failures) },
		"failures in the window"},
}

func durationOr(r *Row, usec uint64) string {
	if r.Timed == 0 {
		return "-"
	}
	return duration(usec)
}

// columns returns the columns that fit, at least the first two.
func (m *Model) columns() []column {
	const name = 22
	return columns[:min(max((m.width-name)/columnWidth, 2), len(columns))]
}

// Styles of parts of the screen. None of them says anything that its text does not say.
var (
	bold    = lipgloss.NewStyle().Bold(true)
	faint   = lipgloss.NewStyle().Faint(true)
	reverse = lipgloss.NewStyle().Reverse(true)
	alarm   = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red)
	notice  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	cool    = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
)

func (m *Model) styled(s string, style lipgloss.Style) string {
	if m.Plain || s == "" {
		return s
	}
	return style.Render(s)
}

// View draws the screen.
func (m *Model) View() tea.View {
	v := tea.NewView(m.Screen())
	v.AltScreen = true
	return v
}

// Screen is the screen as text, without a line break at its end.
func (m *Model) Screen() string {
	lines := m.mainLines
	if m.page() != nil {
		lines = m.pageLines
	}
	all := lines()
	for i := range all {
		if ansi.StringWidthWc(all[i]) > m.width {
			all[i] = ansi.TruncateWc(all[i], m.width, "")
		}
	}
	return strings.Join(all[:min(len(all), m.height)], "\n")
}

// layout says how many lines each part of the first screen has.
type layout struct {
	times, rings, spark, tabs bool
	rows, slow                int // without their headings
}

// layout leaves out the least important parts if there is no room.
func (m *Model) layout() (l layout) {
	left := m.height - 5 // title, rates, heading, status, keys
	take := func(atLeast int, part *bool) {
		if left > atLeast {
			*part = true
			left--
		}
	}
	take(4, &l.rings)
	take(5, &l.times)
	take(5, &l.tabs)
	take(6, &l.spark)
	if left >= 8 {
		l.slow = m.statementLines(left - 1)
		left -= l.slow + 1
	} else if m.statementsFocused { // one list at a time
		l.slow, left = max(left, 0), 0
	}
	l.rows = max(left, 0)
	return l
}

// leastRows is the least number of lines of a list, if both are shown.
const leastRows = 3

// statementLines returns how many of the lines the statements get: a third, and those that the rows do not need. For
// the past, the rows also get the lines that the statements do not need; live, the number of statements changes too
// fast for that.
func (m *Model) statementLines(lines int) int {
	slow := max((lines+1)/3, leastRows)
	if m.snapshot == nil || m.snapshot.By != m.question.By {
		return slow
	}
	statements := len(m.statementsShown())
	needed := max(m.mostRows[m.question.By], leastRows)
	if surplus := lines - slow - needed; surplus > 0 {
		return slow + max(0, min(surplus, statements-slow))
	}
	if surplus := slow - max(statements, leastRows); surplus > 0 && m.question.At != 0 {
		return slow - min(surplus, needed-(lines-slow))
	}
	return slow
}

// noteRows notes the largest number of rows, so that lists do not move whenever there are a few less.
func (m *Model) noteRows() {
	if s := m.snapshot; s != nil {
		n := len(s.Rows)
		if s.Other != (Count{}) {
			n++
		}
		m.mostRows[s.By] = max(m.mostRows[s.By], n)
	}
}

// rowsVisible returns how many rows the list with the focus shows.
func (m *Model) rowsVisible(l layout) int {
	if m.statementsFocused {
		return l.slow
	}
	return l.rows
}

func (m *Model) mainLines() (lines []string) {
	l := m.layout()
	add := func(more ...string) { lines = append(lines, more...) }
	add(m.title(), m.rates())
	if l.times {
		add(m.times())
	}
	if l.rings {
		add(m.ringLine())
	}
	if l.spark {
		add(m.sparkLine())
	}
	if l.tabs {
		add(m.tabs())
	}
	if l.rows > 0 {
		add(m.heading())
		add(m.rowLines(l.rows)...)
	}
	if l.slow > 0 {
		add(m.slowHeading())
		add(m.slowLines(l.slow)...)
	}
	add(m.status(), m.keyLine("q quit  ? help  Enter records  / filter  p pause  s sort  Tab below  ←→ time"))
	return lines
}

// leftAndRight returns a line with one text at the left and one at the right.
func (m *Model) leftAndRight(left, right string) string {
	right = m.cut(right, m.width)
	left = m.cut(left, m.width-ansi.StringWidthWc(right)-1)
	return left + strings.Repeat(" ", max(0, m.width-ansi.StringWidthWc(left)-ansi.StringWidthWc(right))) + right
}

func (m *Model) title() string {
	state := "live"
	s := m.snapshot
	switch {
	case s == nil:
		state = "reading"
	case s.At != 0:
		layout := "15:04:05"
		if m.time(s.From, time.DateOnly) != m.time(s.To, time.DateOnly) {
			layout = time.DateTime
		}
		state = "PAST " + m.time(s.From, time.DateTime) + " to " + m.time(s.To, layout+" MST")
	default:
		state = m.time(s.Now, time.DateTime+" MST")
		if m.paused {
			state = "PAUSED " + state
		} else {
			state = "live " + state
		}
	}
	if m.width >= 60 {
		state += "  window " + span(m.window())
	}
	name := m.Trail
	if room := m.width - ansi.StringWidthWc(state) - 12; len(name) > room && room > 1 {
		name = "…" + name[len(name)-room+1:]
		if m.ASCII {
			name = "~" + name[len("…"):]
		}
	}
	return m.styled(m.leftAndRight("steno top "+name, state), reverse)
}

// rates are the totals of the window.
func (m *Model) rates() string {
	s := m.snapshot
	if s == nil {
		return ""
	}
	failures := "Failures " + rate(perSecond(s.Total.Failures, s.Covered)) + "/s"
	statements := "Statements " + rate(perSecond(s.Total.Statements, s.Covered)) + "/s"
	if s.At == 0 && m.width >= 60 {
		statements += " (now " + rate(perSecond(s.Last.Statements, s.Slot)) + ")"
		failures += " (now " + rate(perSecond(s.Last.Failures, s.Slot)) + ")"
	}
	if s.Total.Failures > 0 {
		failures = m.styled(failures, alarm)
	}
	return m.styled(statements, bold) + "  " + failures + "  Rows " + rate(perSecond(s.Total.Rows, s.Covered)) + "/s"
}

// times are the durations of the window, and the sessions.
func (m *Model) times() string {
	s := m.snapshot
	if s == nil {
		return ""
	}
	line := fmt.Sprintf("Load %s  avg %s  max %s", rate(float64(s.Total.Busy)/float64(max(s.Covered, 1))),
		durationOr(&Row{Count: s.Total}, s.Total.Busy/max(s.Total.Timed, 1)),
		durationOr(&Row{Count: s.Total}, s.Total.Max))
	more := ""
	if s.More {
		more = "+"
	}
	sessions := fmt.Sprintf("  Sessions %s%s active", humanize.Comma(int64(s.Sessions)), more)
	if s.Rings != nil {
		sessions += fmt.Sprintf(", %d open, %d running", s.Rings.Sessions, s.Rings.AllRunning)
	}
	return line + sessions
}

// ringLine shows what has not reached the trail yet.
func (m *Model) ringLine() string {
	s := m.snapshot
	switch {
	case s == nil:
		return ""
	case s.At != 0:
		return m.styled("Rings: only live (l)", faint)
	case s.Rings == nil:
		return m.styled(m.cut(upperFirst(s.NoRings), m.width), notice)
	}
	r := s.Rings
	lag := "0s"
	if r.Lag > 0 {
		lag = duration(uint64(r.Lag))
	}
	line := fmt.Sprintf("Rings %d%% full  unwritten %s  lag %s", r.Fullest, size(r.Used), lag)
	waits := "waits " + short(r.Waits)
	if r.Waits > 0 {
		waits += " (" + duration(r.WaitTime) + ")"
	}
	drops := "drops " + short(r.Drops)
	if r.NewWaits > 0 {
		waits = m.styled(waits+" +"+short(r.NewWaits), notice)
	}
	if r.Drops > 0 {
		drops = m.styled(drops, alarm)
	}
	return line + "  " + waits + "  " + drops
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// sparkLine draws statements per slot, and states the value of the highest bar.
func (m *Model) sparkLine() string {
	s := m.snapshot
	if s == nil {
		return ""
	}
	peak := uint64(0)
	for _, b := range s.Spark {
		peak = max(peak, b.Statements)
	}
	bars := s.Spark
	note := fmt.Sprintf(" peak %s/s", rate(perSecond(peak, s.Slot)))
	room := m.width - len(note) - 9
	if room < 10 {
		return strings.TrimSpace(note)
	}
	if s.At == 0 {
		bars = bars[max(0, len(bars)-room):]
	} else if cut := len(bars) - (room - 2); cut > 0 {
		bars = bars[cut/2 : len(bars)-(cut-cut/2)]
	}
	values := make([]float64, len(bars))
	for i, b := range bars {
		values[i] = float64(b.Statements)
	}
	drawn := []rune(m.bars(values, func(i int) bool { return bars[i].Known }))
	var b strings.Builder
	for i := range bars {
		if s.At != 0 && bars[i].InWindow && (i == 0 || !bars[i-1].InWindow) {
			b.WriteByte('[')
		}
		b.WriteRune(drawn[i])
		if s.At != 0 && bars[i].InWindow && (i == len(bars)-1 || !bars[i+1].InWindow) {
			b.WriteByte(']')
		}
	}
	return m.left(span((int64(len(bars))*s.Slot+500_000)/1_000_000*1_000_000), 7) + " " +
		m.styled(b.String(), cool) + note
}

// tabs are the groupings with their keys.
func (m *Model) tabs() string {
	var parts []string
	for d := range dimensions {
		name := dimensionNames[d]
		if m.width < 76 {
			name = name[:min(len(name), max((m.width/int(dimensions))-3, 1))]
		}
		part := fmt.Sprintf("%d%s", d+1, name)
		if m.width >= 84 {
			part = fmt.Sprintf("%d %s", d+1, name)
		}
		if d == m.question.By {
			part = m.styled("["+part+"]", bold)
		} else {
			part = m.styled(part, faint)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// nameWidth returns the width of the first column.
func (m *Model) nameWidth() int { return max(m.width-1-len(m.columns())*columnWidth, 1) }

func (m *Model) heading() string {
	line := " " + m.left(strings.ToUpper(m.question.By.String()), m.nameWidth())
	for i, c := range m.columns() {
		name := c.name
		if i == m.sort%len(m.columns()) {
			name = "*" + name
		}
		line += right(name, columnWidth)
	}
	return m.styled(line, bold)
}

// rowLines returns the rows, and one for all others if there are any.
func (m *Model) rowLines(n int) (lines []string) {
	rows := m.rowsShown()
	var other *Row
	if m.snapshot != nil && m.snapshot.By == m.question.By && m.snapshot.Other != (Count{}) &&
		m.filter == "" && n > 1 {
		other = &Row{Name: "(others, too many to count each)", Count: m.snapshot.Other}
		n--
	}
	m.rows.restoreChoice(len(rows), n, func(i int) string { return rows[i].Name })
	for i := m.rows.top; i < len(rows) && len(lines) < n; i++ {
		lines = append(lines, m.rowLine(&rows[i], i == m.rows.index && !m.statementsFocused))
	}
	if len(rows) == 0 && m.snapshot != nil {
		lines = append(lines, m.styled(" "+m.emptyText(), faint))
	}
	for len(lines) < n {
		lines = append(lines, "")
	}
	if other != nil {
		lines = append(lines, m.rowLine(other, false))
	}
	return lines
}

func (m *Model) emptyText() string {
	switch {
	case m.snapshot.By != m.question.By || m.snapshot.At != m.question.At, m.snapshot.Pending:
		return "reading ..."
	case m.filter != "":
		return "nothing contains the filter"
	case m.question.By == ByError:
		return "no failures in this window"
	}
	return "no records in this window"
}

func (m *Model) rowLine(r *Row, chosen bool) string {
	mark := " "
	if chosen {
		mark = ">"
	}
	line := mark + m.left(nameOf(r), m.nameWidth())
	for i, c := range m.columns() {
		cell := right(c.value(r, m.snapshot.Covered), columnWidth)
		if i == failureColumn && r.Failures > 0 && !chosen {
			cell = m.styled(cell, alarm)
		}
		line += cell
	}
	if chosen {
		return m.styled(line, reverse)
	}
	return line
}

func (m *Model) slowHeading() string {
	what := "SLOWEST THAT ENDED IN THE WINDOW"
	if m.running() {
		what = "RUNNING NOW, the longest first"
		if len(m.snapshot.Rings.Running) == 0 {
			what = "RUNNING NOW: nothing"
		}
	}
	hint := ""
	if m.snapshot != nil && m.snapshot.Rings != nil {
		hint = "r ended"
		if m.showFinished {
			hint = "r running"
		}
	}
	return m.styled(m.leftAndRight(" "+what, hint), bold)
}

// runningStatement returns the row of a running statement.
func (m *Model) runningStatement(r *Running) statement {
	text := r.Text
	if text == "" {
		text = r.What
	}
	pid := strconv.FormatUint(uint64(r.PID), 10)
	return statement{
		key: pid + "." + strconv.FormatInt(r.Start, 10), duration: uint64(max(m.snapshot.Now-r.Start, 0)),
		when: pid, user: r.User, db: r.Database, text: text, running: r,
	}
}

// endedStatement returns the row of a statement that has ended.
func (m *Model) endedStatement(s *Slow) statement {
	text := s.Text
	if text == "" {
		text = s.What
	}
	return statement{
		key: s.Session.String() + "/" + strconv.FormatUint(s.Seq, 10), duration: s.Duration,
		when: m.time(s.Start, "15:04:05"), user: s.User, db: s.Database, text: text, failed: s.SQLState, slow: s,
	}
}

func (m *Model) slowLines(n int) (lines []string) {
	all := m.statementsShown()
	m.slow.restoreChoice(len(all), n, func(i int) string { return all[i].key })
	for i := m.slow.top; i < len(all) && len(lines) < n; i++ {
		s := &all[i]
		chosen := m.statementsFocused && i == m.slow.index
		mark := " "
		if chosen {
			mark = ">"
		}
		line := mark + right(duration(s.duration), 7) + " " + m.left(s.when, 8) + " "
		if m.whoWidth() > 0 {
			who := render.Identifier(s.user)
			if s.db != "" {
				who += "@" + render.Identifier(s.db)
			}
			line += m.left(who, m.whoWidth()) + " "
		}
		if s.failed != "" {
			line += "!" + m.cut(s.failed, 5) + " "
		}
		line += m.cut(s.text, m.width-ansi.StringWidthWc(line))
		switch {
		case chosen:
			line = m.styled(m.left(line, m.width), reverse)
		case s.failed != "":
			line = m.styled(line, notice)
		}
		lines = append(lines, line)
	}
	for len(lines) < n {
		lines = append(lines, "")
	}
	return lines
}

// status returns the line with problems, or with what is happening.
func (m *Model) status() string {
	s := m.snapshot
	filter := *m.currentFilter()
	switch {
	case m.typing:
		return "/" + m.cut(filter, m.width-2) + "_"
	case m.err != nil:
		return m.styled(m.cut("! "+m.err.Error(), m.width), alarm)
	case s == nil:
		return "reading ..."
	case s.NoProblems == 1:
		return m.styled(m.cut("! "+s.Problems[0], m.width), alarm)
	case s.NoProblems > 1:
		return m.styled(m.cut(fmt.Sprintf("! %d problems (w): %s", s.NoProblems, s.Problems[len(s.Problems)-1]),
			m.width), alarm)
	case filter != "":
		return m.styled(m.cut("filter: "+filter+" (Esc ends it)", m.width), notice)
	case s.Pending:
		return "reading ..."
	case s.Covered < s.To-s.From-s.Slot:
		return m.styled(m.cut("not all of the window is read at the start: the figures are of its last "+
			duration(uint64(s.Covered)), m.width), notice)
	case s.At == 0 && s.Newest == format.MinTime:
		return m.cut("the trail has no records yet", m.width)
	case s.At == 0 && s.Newest < s.From:
		return m.styled(m.cut("the last record is of "+m.time(s.Newest, time.DateTime+" MST")+": o shows it", m.width),
			notice)
	}
	return ""
}

func (m *Model) keyLine(keys string) string {
	if m.ASCII {
		keys = strings.NewReplacer("←→", "<- ->", "↑↓", "Up Down").Replace(keys)
	}
	return m.styled(m.cut(keys, m.width), faint)
}

// bodyHeight returns the number of lines of a page between its title and the last two.
func (m *Model) bodyHeight() int { return max(m.height-3, 1) }

func (m *Model) pageLines() []string {
	p := m.page()
	title := p.title
	switch p.kind {
	case helpPage:
		title = "keys and columns"
	case problemsPage:
		title = "what is wrong in the trail"
	}
	right := ""
	var lines []string
	switch {
	case p.err != nil:
		lines = []string{m.styled(m.cut("! "+p.err.Error(), m.width), alarm)}
	case p.kind == recordsPage && !p.loaded, p.kind == fieldsPage && !p.loaded:
		lines = []string{"reading ..."}
	case p.kind == recordsPage:
		lines, right = m.recordLines(p)
	default:
		text := m.pageText(p)
		p.top = max(min(p.top, len(text)-m.bodyHeight()), 0)
		lines = text[p.top:min(len(text), p.top+m.bodyHeight())]
		right = fmt.Sprintf("%d of %d lines", min(len(text), p.top+len(lines)), len(text))
	}
	for len(lines) < m.bodyHeight() {
		lines = append(lines, "")
	}
	keys := "Esc back  / filter  q quit"
	if p.kind == recordsPage {
		keys = "Enter all fields  v as steno cat  ←→ scroll  " + keys
	} else {
		keys = "↑↓ scroll  " + keys
	}
	return append(append([]string{m.styled(m.leftAndRight(title, right), reverse)}, lines...), m.status(),
		m.keyLine(keys))
}

// recordLines returns the records of a page, with a heading.
func (m *Model) recordLines(p *page) (lines []string, note string) {
	all := p.filteredLines()
	if len(all) == 0 {
		return []string{"no records"}, ""
	}
	n := max(m.bodyHeight()-1, 1)
	p.restoreChoice(len(all), n, nil)
	lines = []string{m.styled(m.recordHeading(p), bold)}
	for i := p.top; i < len(all) && len(lines) <= n; i++ {
		mark := " "
		if i == p.index {
			mark = ">"
		}
		line := m.left(mark+m.recordLine(p, &all[i]), m.width)
		switch {
		case i == p.index:
			line = m.styled(line, reverse)
		case all[i].Failed:
			line = m.styled(line, notice)
		}
		lines = append(lines, line)
	}
	last := ""
	if len(p.lines) == maxLines {
		last = "the last "
	}
	return lines, fmt.Sprintf("%s of %s%s records", humanize.Comma(int64(p.index+1)), last, humanize.Comma(int64(len(all))))
}

// whoWidth returns the width of the column user@database; 0: there is no room for it.
func (m *Model) whoWidth() int {
	if m.width < 60 {
		return 0
	}
	return max(14, m.width/6)
}

func (m *Model) recordHeading(p *page) string {
	if p.cat {
		return ""
	}
	who := ""
	if n := m.whoWidth(); n > 0 {
		who = " " + m.left("USER@DATABASE", n)
	}
	return " " + m.left("TIME", 12) + who + right("TAKEN", columnWidth) + right("ROWS", columnWidth) + " STATEMENT"
}

func (m *Model) recordLine(p *page, l *Line) string {
	if p.cat {
		return ansi.TruncateLeftWc(m.safe(l.Cat), p.scroll, "")
	}
	line := m.time(l.Time, "15:04:05.000")
	if n := m.whoWidth(); n > 0 {
		line += " " + m.left(l.Who, n)
	}
	line += right(l.Duration, columnWidth) + right(l.Rows, columnWidth) + " "
	if l.SQLState != "" {
		line += "!" + m.cut(l.SQLState, 5) + " "
	} else if l.Failed {
		line += "! "
	}
	if l.Text == "" {
		return line + m.safe(l.What)
	}
	return line + l.Text
}

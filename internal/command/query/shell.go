// The shell: statements from a terminal, with history and completion.

package query

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/sql"
)

const shellHelp = `Statements end with a semicolon. Ctrl-C interrupts one, Ctrl-D leaves the shell.
  \d         list tables and views
  \d NAME    list the columns of one
  \explain   show, or do not show, which blocks were read
  \format F  table, csv, json or markdown
  \x [WHEN]  in a table, a line for each value: on, off, or auto, if rows are
             wider than the terminal, as at the start; without WHEN, on or off
  \q         leave the shell
`

// interruptKey is the byte of Ctrl-C, and clearKey that of Ctrl-U.
const (
	interruptKey = 3
	clearKey     = 21
)

// keyboard reads a terminal. Ctrl-C clears the statement instead of ending the shell.
type keyboard struct {
	io.Reader
	io.Writer
	interrupted bool
}

func (k *keyboard) Read(p []byte) (int, error) {
	if len(p) < 2 {
		return k.Reader.Read(p)
	}
	n, err := k.Reader.Read(p[:1]) // one key at a time, so that none is taken from the program that runs next
	if n == 1 && p[0] == interruptKey {
		k.interrupted = true
		return copy(p, []byte{clearKey, '\r'}), err
	}
	return n, err
}

// shell reads statements and executes them until its end.
type shell struct {
	*session
	keyboard *keyboard
	terminal *term.Terminal
	words    []string // that can be completed
	// raw makes the terminal one that is read key by key, until what it returns is called.
	raw func() (restore func())
}

// newShell makes a shell on a terminal.
func newShell(s *session, in io.Reader, out io.Writer) *shell {
	k := &keyboard{Reader: in, Writer: out}
	sh := &shell{session: s, keyboard: k, terminal: term.NewTerminal(k, ""), raw: func() func() { return func() {} }}
	for i := range sql.Tables {
		sh.words = append(sh.words, sql.Tables[i].Name)
		for _, c := range sql.Tables[i].Columns {
			sh.words = append(sh.words, c.Name)
		}
	}
	sh.words = append(sh.words, "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN",
		"DISTINCT", "INTERVAL", "BETWEEN", "DESCRIBE", "count(*)", "now()")
	slices.Sort(sh.words)
	sh.words = slices.Compact(sh.words)
	sh.terminal.AutoCompleteCallback = sh.complete
	return sh
}

// interactive runs a shell on the terminal.
func (s *session) interactive(ctx context.Context) error {
	in := s.o.IO.In.(*os.File)
	sh := newShell(s, in, s.o.IO.Out)
	sh.raw = func() func() {
		state, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return func() {}
		}
		if width, height, err := term.GetSize(int(in.Fd())); err == nil {
			_ = sh.terminal.SetSize(width, height)
		}
		return func() { _ = term.Restore(int(in.Fd()), state) }
	}
	if h := openHistory(); h != nil {
		sh.terminal.History = h
	}
	fmt.Fprintln(s.o.IO.Out, `SQL over a trail. \? shows help.`)
	return sh.run(ctx)
}

// read reads a line; it returns io.EOF at the end.
func (sh *shell) read(prompt string) (string, error) {
	restore := sh.raw()
	defer restore()
	sh.terminal.SetPrompt(prompt)
	line, err := sh.terminal.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return line, err
}

// run is the loop of the shell.
func (sh *shell) run(ctx context.Context) error {
	var statement strings.Builder
	for ctx.Err() == nil {
		prompt := "steno> "
		if statement.Len() > 0 {
			prompt = "    -> "
		}
		line, err := sh.read(prompt)
		if sh.keyboard.interrupted {
			sh.keyboard.interrupted = false
			statement.Reset()
			continue
		}
		if err != nil {
			fmt.Fprintln(sh.o.IO.Out)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		if trimmed := strings.TrimSpace(line); statement.Len() == 0 {
			if trimmed == "" {
				continue
			}
			if word := strings.TrimSuffix(trimmed, ";"); trimmed[0] == '\\' || word == "exit" || word == "quit" {
				if sh.command(ctx, strings.Fields(trimmed)) {
					return nil
				}
				continue
			}
		}
		statement.WriteString(line + "\n")
		if strings.HasSuffix(strings.TrimSpace(line), ";") {
			sh.execute(ctx, statement.String())
			statement.Reset()
		}
	}
	return ctx.Err()
}

// command executes a command of the shell; it returns whether that is its end.
func (sh *shell) command(ctx context.Context, words []string) (end bool) {
	out := sh.o.IO.Out
	words[len(words)-1] = strings.TrimSuffix(words[len(words)-1], ";")
	switch {
	case words[0] == `\q`, words[0][0] != '\\':
		return true
	case words[0] == `\d` && len(words) == 1:
		for i := range sql.Tables {
			fmt.Fprintf(out, "%-16s  %s\n", sql.Tables[i].Name, strings.ReplaceAll(sql.Tables[i].Doc, "`", ""))
		}
	case words[0] == `\d`:
		sh.execute(ctx, `SELECT column_name, column_type FROM (DESCRIBE "`+
			strings.ReplaceAll(words[1], `"`, `""`)+`")`)
	case words[0] == `\explain`:
		sh.o.Explain = !sh.o.Explain
		fmt.Fprintf(out, "explain is %t\n", sh.o.Explain)
	case words[0] == `\format` && len(words) == 2 && slices.Contains(sql.Formats, words[1]):
		sh.o.Format = words[1]
	case words[0] == `\x` && (len(words) == 1 || len(words) == 2 && slices.Contains(expandedValues, words[1])):
		sh.expand(words[1:])
	default:
		fmt.Fprint(out, shellHelp)
	}
	return false
}

// expand changes whether a table has a line for each value, and says so in psql's words.
func (sh *shell) expand(when []string) {
	switch {
	case len(when) > 0:
		sh.o.Expanded = when[0]
	case sh.o.Expanded == "on":
		sh.o.Expanded = "off"
	default:
		sh.o.Expanded = "on"
	}
	is := sh.o.Expanded
	if is == "auto" {
		is = "used automatically"
	}
	fmt.Fprintf(sh.o.IO.Out, "Expanded display is %s.\n", is)
}

// execute executes statements until they end or are interrupted, and prints errors.
func (sh *shell) execute(ctx context.Context, statements string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reset := program.HandleInterrupt(cancel)
	defer reset()
	err := sh.session.run(ctx, statements)
	switch {
	case err == nil || exit.IsClosedPipe(err):
		if sh.o.Explain {
			sh.explain()
		}
	case ctx.Err() != nil:
		fmt.Fprintln(sh.o.IO.ErrOut, "interrupted")
	default:
		fmt.Fprintln(sh.o.IO.ErrOut, err)
	}
}

// complete completes the word before the cursor as far as it is unambiguous, and lists the possible words.
func (sh *shell) complete(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	from := strings.LastIndexFunc(line[:pos], func(r rune) bool {
		return !strings.ContainsRune("_*", r) && (r < '0' || r > '9') && (r|32 < 'a' || r|32 > 'z')
	}) + 1
	word := line[from:pos]
	if word == "" {
		return line, pos, true
	}
	var found []string
	for _, w := range sh.words {
		if len(w) >= len(word) && strings.EqualFold(w[:len(word)], word) {
			found = append(found, w)
		}
	}
	if len(found) == 0 {
		return line, pos, true
	}
	common := found[0]
	for _, w := range found[1:] {
		n := 0
		for n < min(len(common), len(w)) && common[n]|32 == w[n]|32 {
			n++
		}
		common = common[:n]
	}
	if len(found) == 1 {
		common += " "
	} else if len(common) == len(word) {
		fmt.Fprintln(sh.terminal, strings.Join(found, "  "))
	}
	return line[:from] + common + line[pos:], from + len(common), true
}

// history is the history of the shell. It is kept in a file that only the user can read, because statements may
// contain confidential values.
type history struct {
	entries []string
	file    *os.File
}

// maxHistory limits the lines of the history.
const maxHistory = 1000

// openHistory opens the file; nil if there is no directory for it.
func openHistory() *history {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "steno")
	if os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(dir, "query_history"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil
	}
	h := &history{file: file}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		h.entries = append(h.entries, lines.Text())
	}
	h.entries = h.entries[max(0, len(h.entries)-maxHistory):]
	return h
}

// Add adds a line, unless it is empty or the last one again.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.entries) > 0 && h.entries[len(h.entries)-1] == line {
		return
	}
	h.entries = append(h.entries, line)
	fmt.Fprintln(h.file, line)
}

// Len returns the number of lines.
func (h *history) Len() int { return len(h.entries) }

// At returns a line, counted from the last one.
func (h *history) At(i int) string { return h.entries[len(h.entries)-1-i] }

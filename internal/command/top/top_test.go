//go:build unix

package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/command/memorytest"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/ring/ringtest"
	"github.com/pg-steno/pg_steno/internal/top"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// TestMemoryChild is not a test: it is the process that TestMemoryIsWhatTheDocsSay measures.
func TestMemoryChild(t *testing.T) { memorytest.Child(t, New) }

// TestMemoryIsWhatTheDocsSay: a window with ten times as much takes no more memory than the docs say.
func TestMemoryIsWhatTheDocsSay(t *testing.T) {
	for _, sessions := range []int{10_000, 100_000} {
		dir := t.TempDir()
		trailtest.Varied(t, dir, sessions)
		memorytest.Check(t, fmt.Sprintf("%d sessions", sessions), "../../../docs/steno.md", "top", 0,
			"top", "--once", "--at", "2026-11-21 20:45:30+00", "--window", "1h", dir)
	}
}

func TestMain(m *testing.M) {
	switch os.Getenv("STENO_TOP_TEST") { // in a terminal of a test
	case "main":
		os.Exit(Main())
	case "panic":
		model := top.New(panicking{}, top.Question{Window: time.Minute}, top.Settings{Interval: time.Second})
		fmt.Println(screen(context.Background(), iostreams.System(), model))
		os.Exit(3)
	}
	testscript.Main(m, map[string]func(){
		"steno":     func() { os.Exit(cli.Main()) },
		"steno-top": func() { os.Exit(Main()) },
	})
}

// panicking is a trail in which a mistake of ours is met.
type panicking struct{ top.Asker }

func (panicking) Ask(top.Question) (*top.Snapshot, error) {
	time.Sleep(100 * time.Millisecond) // the screen is there
	panic("a mistake")
}

// TestScripts runs the programs in testdata/script. They find the golden trails in $GOLDEN.
func TestScripts(t *testing.T) {
	golden := trailtest.Golden(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("STENO_UPDATE") != "",
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "GOLDEN="+golden, "STENO_DIRECTORY=", "PGDATA=", "LANG=C.UTF-8", "LC_ALL=", "LC_CTYPE=", "LINES=", "COLUMNS=")
			return nil
		},
	})
}

// terminal is one of tmux, with a shell in it.
type terminal struct {
	t      *testing.T
	socket string
}

func newTerminal(t *testing.T, width, height int) *terminal {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("/tmp", "steno-tmux") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t, filepath.Join(dir, "socket")}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", term.socket, "kill-server").Run()
		os.RemoveAll(dir)
	})
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height),
		"env", "PS1=shell> ", "LC_ALL=C.UTF-8", "STENO_DIRECTORY=", "PGDATA=", "NO_COLOR=", "bash", "--norc", "--noprofile", "-i")
	term.tmux("set-option", "-g", "history-limit", "10")
	term.wait("shell>")
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	c := exec.Command("tmux", append([]string{"-u", "-S", term.socket}, args...)...)
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=")
	out, err := c.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// press sends keys by tmux's names for them.
func (term *terminal) press(keys ...string) { term.tmux(append([]string{"send-keys"}, keys...)...) }

// run types a command.
func (term *terminal) run(format string, args ...any) {
	term.tmux("send-keys", "-l", fmt.Sprintf(format, args...))
	term.press("Enter")
}

func (term *terminal) screen() string { return term.tmux("capture-pane", "-p") }

// wait waits until the screen has all these texts, and returns it.
func (term *terminal) wait(texts ...string) (screen string) {
	term.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		screen = term.screen()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing == "" {
			return screen
		}
	}
	term.t.Fatalf("the screen does not have all of %q:\n%s", texts, screen)
	return ""
}

// ended waits until the shell has the terminal again, as it was, and the program has ended with a code.
func (term *terminal) ended(code int) {
	term.t.Helper()
	term.wait("shell>\n")
	term.run(`echo "code $? $(stty -a | grep -o -- '[-]*icanon') $(stty -a | grep -o -- '[-]*echo ')end"`)
	term.wait(fmt.Sprintf("code %d icanon echo end", code))
	if on := strings.TrimSpace(term.tmux("display-message", "-p", "#{alternate_on}#{cursor_flag}#{keypad_cursor_flag}")); on != "010" {
		term.t.Errorf("alternate screen, cursor and cursor keys are %s, want 010", on)
	}
	term.run("clear")
}

// host is a server of a test: a trail that grows, and a ring file that this process uses.
type host struct {
	t       *testing.T
	trail   string
	rings   string
	stream  *trailtest.Stream
	session *trailtest.Session
}

func newHost(t *testing.T) *host {
	now := top.Microseconds(time.Now())
	h := &host{t: t, trail: t.TempDir(), rings: filepath.Join(t.TempDir(), "pg_steno.1.1")}
	h.stream = trailtest.NewStream(t, h.trail, 0)
	h.session = trailtest.NewSession(now, 7, trailtest.Fact{Key: format.KeyUser, Value: "alice\x1b[31m"}, trailtest.Fact{Key: format.KeyDatabase, Value: "名前"})
	message := ringtest.Record{Kind: 1, Seq: 1, Time: now, Statement: 1, Text: "SELECT waits"}
	file := ringtest.File{
		Version: 3, SystemID: trailtest.SystemID, Created: now, Postmaster: uint32(os.Getpid()),
		Rings: []ringtest.Ring{
			{
				Owner: 4711, OwnerStart: now, Session: write.SessionBody(now, 4711, "client backend"), Messages: [][]byte{message.Bytes()},
				Active: true, Running: 2, Time: now, Text: "VACUUM FULL everything", Drops: 5,
			},
			{Owner: 4712},
		},
	}
	f, err := os.Open(file.Write(t, h.rings))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	mapped, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mapped) })
	return h
}

// write adds statements that end now; every tenth fails.
func (h *host) write(n int, table, text string) {
	now := top.Microseconds(time.Now())
	b := trailtest.NewBuilder(now)
	for i := range n {
		r := &trailtest.Record{
			Kind: format.KindStatement, Session: h.session, Text: text, Time: now, Duration: uint64(i), Rows: 1,
			Fields: format.FieldText | format.FieldDuration | format.FieldRows,
			Shape:  &trailtest.Shape{Class: format.ClassRead, Command: "SELECT", Relations: []trailtest.Relation{{Name: table}}},
		}
		if i%10 == 9 {
			r.Outcome, r.SQLState, r.Message = format.OutcomeError, "42501", "permission denied"
		}
		b.Add(r)
	}
	h.stream.Write(h.t, b)
}

// start runs the screen; its window is so long that no figure depends on when it is looked at.
func (h *host) start(term *terminal, environment, options string) {
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	term.run("STENO_TOP_TEST=main %s %s top --window 24h --interval 100ms --rings %s %s %s", environment, self, h.rings, options, h.trail)
}

// TestScreenLives looks at the screen of a trail that grows, in a terminal.
func TestScreenLives(t *testing.T) {
	h := newHost(t)
	h.write(300, "public.first", "SELECT one\n\x1b]0;title\a")
	term := newTerminal(t, 100, 24)
	h.start(term, "", "")
	term.wait("steno top", `>alice\x1b[31m`, "300", "2 open, 1 running", "VACUUM FULL everything", "drops 5", "Rings 0% full  unwritten 112B")
	h.write(1000, "public.second", "SELECT two")
	term.wait("1,300", "[1 user]")

	term.press("6")
	term.wait("[6 table]", ">public.second", " public.first")
	term.press("Down")
	term.wait(">public.first")
	h.write(700, "public.third", "SELECT three") // changes the order, not what is chosen
	term.wait(" public.third", ">public.first")
	term.press("p")
	term.wait("PAUSED")
	h.write(50, "public.unseen", "SELECT unseen")
	term.press("6") // an answer that came later
	term.press("/")
	term.press("-l", "public.")
	if screen := term.wait("/public._"); strings.Contains(screen, "unseen") {
		t.Errorf("a paused screen changes:\n%s", screen)
	}
	term.press("Escape")
	term.wait("VACUUM")
	term.press("p")
	term.wait("public.unseen", "live 2")

	term.press("6")
	term.press("/")
	term.press("-l", "first")
	term.press("Enter")
	term.wait("filter: first", ">public.first")
	term.press("Enter")
	term.wait("table public.first", "300 of 300 records", `SELECT one `, "!42501")
	term.press("v")
	term.wait(`alice\x1b[31m"@名前`)
	term.press("Enter")
	term.wait("record ", `\x1b]0;title\x07`, "message", "permission denied")
	term.press("Escape") // what follows an escape at once would be of one sequence with it
	term.wait("300 of 300 records")
	term.press("Escape")
	term.wait("[6 table]", "filter: first")
	term.press("Escape")
	term.wait("public.third")
	term.press("?")
	term.wait("keys and columns")
	term.press("Escape")
	term.wait("[6 table]")
	term.press("r")
	term.wait("SLOWEST THAT ENDED")

	term.tmux("resize-window", "-x", "40", "-y", "10")
	narrow := term.wait("*STMT/S  FAIL/S\n", "public.sec")
	if n := strings.Count(narrow, "\n"); n != 10 {
		t.Errorf("%d lines after the terminal became smaller:\n%s", n, narrow)
	}
	term.tmux("resize-window", "-x", "132", "-y", "40")
	term.wait("  FAILED\n", "[6 table]")
	term.press("Left")
	term.wait("PAST ", "Rings: only live")
	term.press("l")
	term.wait("live 2", "public.second")
	if title := term.tmux("display-message", "-p", "#{pane_title}"); strings.Contains(title, "title") {
		t.Errorf("the terminal's title is %q", title)
	}
	term.press("q")
	term.ended(0)
}

// TestTerminalIsGivenBack ends the program in every way.
func TestTerminalIsGivenBack(t *testing.T) {
	h := newHost(t)
	h.write(10, "public.t", "SELECT 1")
	term := newTerminal(t, 80, 24)
	for _, c := range []struct {
		name, environment string
		end               func()
		code              int
	}{
		{"q", "", func() { term.press("q") }, 0},
		{"Ctrl-C", "NO_COLOR=1", func() { term.press("C-c") }, 0},
		{"SIGINT", "", func() { h.signal("INT") }, 130},
		{"SIGTERM", "", func() { h.signal("TERM") }, 143},
		{"SIGHUP", "", func() { h.signal("HUP") }, 129},
		{"SIGQUIT", "", func() { h.signal("QUIT") }, 131},
		{"suspended", "", func() {
			term.press("C-z")
			term.wait("Stopped")
			term.run("clear; fg")
			term.wait("live 2")
			h.signal("TSTP")
			term.wait("Stopped")
			term.run("clear; fg")
			term.wait("live 2")
			term.press("q")
		}, 0},
		{"dumb", "TERM=dumb", func() { term.press("C-c") }, 130},
	} {
		h.start(term, c.environment, "")
		term.wait("steno top", "live 2", ">alice")
		c.end()
		term.ended(c.code)
		if t.Failed() {
			t.Fatalf("after %s", c.name)
		}
	}
	self, _ := os.Executable()
	term.run("STENO_TOP_TEST=panic %s", self)
	term.wait("a mistake", "internal error", "shell>")
	term.ended(3)
}

// signal sends one to the screen's program.
func (h *host) signal(name string) {
	h.t.Helper()
	out, err := exec.Command("pgrep", "-f", "--", "top --window .* "+h.trail).Output()
	pids := strings.Fields(string(out))
	if err != nil || len(pids) != 1 {
		h.t.Fatalf("processes %q, %v", pids, err)
	}
	if err := exec.Command("kill", "-"+name, pids[0]).Run(); err != nil {
		h.t.Fatal(err)
	}
}

// TestClosedTerminalEndsTheProgram takes the terminal away.
func TestClosedTerminalEndsTheProgram(t *testing.T) {
	for _, ignored := range []string{"", "trap '' HUP;"} {
		h := newHost(t)
		h.write(10, "public.t", "SELECT 1")
		term := newTerminal(t, 80, 24)
		term.run("%s true", ignored)
		h.start(term, "", "")
		term.wait("live 2")
		term.tmux("kill-server")
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			err := exec.Command("pgrep", "-f", "--", "top --window .* "+h.trail).Run()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
				break
			}
			if time.Now().After(end) {
				h.signal("KILL")
				t.Fatalf("%q: it runs on", ignored)
			}
		}
	}
}

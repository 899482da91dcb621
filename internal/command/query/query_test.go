package query

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"steno":       func() { os.Exit(cli.Main()) },
		"steno-query": func() { os.Exit(Main()) },
	})
}

// TestScripts runs the programs in testdata/script. They find the golden trails in $GOLDEN.
func TestScripts(t *testing.T) {
	golden := trailtest.Golden(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("STENO_UPDATE") != "",
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "GOLDEN="+golden, "STENO_DIRECTORY=", "PGDATA=")
			return nil
		},
	})
}

// TestShell types into a shell as a terminal would send it.
func TestShell(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	streams, _, out, errOut := iostreams.Test()
	o := &Options{IO: streams, Format: "csv", CSVSafe: true, MemoryLimit: "512MiB", TimeZone: "UTC"}
	s, err := o.open(&inputs{trails: []string{trailtest.Golden(t) + "/kinds"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.db.Close()
	keys := "SELECT 'x' ||\r 'y' AS xy FROM trai\tLIMIT 1;\r" + // in two lines, with a word completed
		"SELECT 'never'\x03" + "SELECT 6 * 7 AS n;\r" + // cleared by Ctrl-C
		"\x1b[A\r" + // the same again, from the history
		"SELECT usr FROM trail;\r\\d gaps\r\\d\r\\format json\rSELECT 1 AS one;\r\\explain\rSELECT max(seq) AS last FROM trail WHERE failed;\r\\?\r" +
		"SELECT se\t\x15\\q\rSELECT 'after the end';\r"
	var echo bytes.Buffer
	sh := newShell(s, strings.NewReader(keys), &echo)
	h := openHistory()
	sh.terminal.History = h
	if err := sh.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for text, n := range map[string]int{"xy\r\nxy\r\n": 1, "n\r\n42\r\n": 2, "never": 0, "first_seq,BIGINT": 1, "failed_logins ": 1, `{"one":1}`: 1, `\format F`: 1, "after the end": 0} {
		if found := strings.Count(got, text); found != n {
			t.Errorf("%q is there %d times, want %d: %q", text, found, n, got)
		}
	}
	for _, text := range []string{`Candidate bindings`, "conditions {\"failed\":true}"} {
		if !strings.Contains(errOut.String(), text) {
			t.Errorf("no %q in %q", text, errOut)
		}
	}
	if !strings.Contains(echo.String(), "segment  seq  session  session_start") {
		t.Errorf("no list of words: %q", echo.String())
	}
	if again := openHistory(); again.Len() != h.Len() || again.At(0) != `\q` || !strings.Contains(again.At(again.Len()-1), "'x'") {
		t.Errorf("history: %q", again.entries)
	}
	if info, err := h.file.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the history: %v %v", info.Mode(), err)
	}
}

// TestShellExpands: \x switches as in psql, and a result on a terminal is expanded by itself if it does not fit.
func TestShellExpands(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("COLUMNS", "")
	streams, _, out, _ := iostreams.Test()
	streams.SetTerminal(true, false, 40)
	o := &Options{IO: streams, Format: "table", Expanded: "auto", MemoryLimit: "512MiB", TimeZone: "UTC", NoPager: true}
	s, err := o.open(&inputs{trails: []string{trailtest.Golden(t) + "/kinds"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.db.Close()
	run := func(keys string) string {
		t.Helper()
		out.Reset()
		if err := newShell(s, strings.NewReader(keys), &bytes.Buffer{}).run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(out.String(), "\n") // of the end of the input
	}
	const narrow, wide = "SELECT 1 AS a, 2 AS b;\r", "SELECT 1 AS a, repeat('x', 40) AS b;\r"
	for _, one := range []struct{ keys, want string }{
		{narrow, "a | b\n--+--\n1 | 2\n(1 row)\n"},
		{wide, "-[ RECORD 1 ]---------------------------\na | 1\nb | " + strings.Repeat("x", 36) + "\n  | xxxx\n"},
		{"\\x\r" + narrow, "Expanded display is on.\n-[ RECORD 1 ]\na | 1\nb | 2\n"},
		{"\\x\r", "Expanded display is off.\n"},
		{wide, "a | b\n--+-" + strings.Repeat("-", 40) + "\n1 | " + strings.Repeat("x", 40) + "\n(1 row)\n"},
		{"\\x auto;\r" + narrow, "Expanded display is used automatically.\na | b\n--+--\n1 | 2\n(1 row)\n"},
		{"\\x on\r\\x\r\\x off\r", "Expanded display is on.\nExpanded display is off.\nExpanded display is off.\n"},
		{"\\x never\r", shellHelp},
	} {
		if got := run(one.keys); got != one.want {
			t.Errorf("%q: %q, want %q", one.keys, got, one.want)
		}
	}
	streams.SetTerminal(true, false, 80) // another size
	if got := run("\\x auto\r" + wide); !strings.HasSuffix(got, "\n(1 row)\n") {
		t.Errorf("on a wider terminal: %q", got)
	}
}

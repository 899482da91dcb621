package iostreams

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFilesRotateBetweenLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := OpenRotatingFile(path, 20, 2, []byte("head\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		if _, err := fmt.Fprintf(f, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	// longer than a file may be, but a line is never divided
	if _, err := f.Write([]byte(strings.Repeat("x", 30) + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got := []string{read(t, path+".2"), read(t, path+".1"), read(t, path)}
	want := []string{"head\nline 6\nline 7\n", "head\nline 8\n", "head\n" + strings.Repeat("x", 30) + "\n"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("too many files are kept")
	}
}

// TestFilesThatOthersTakeAreBegunAgain: logrotate, or an agent that removes what it has read.
func TestFilesThatOthersTakeAreBegunAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := OpenRotatingFile(path, 0, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	line := func(s string) {
		t.Helper()
		if _, err := f.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	line("a\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	line("b\n")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	line("c\n")
	if got := read(t, path+".old") + read(t, path); got != "b\nc\n" {
		t.Errorf("got %q", got)
	}
}

func TestPagersGetWhatIsWritten(t *testing.T) {
	got := filepath.Join(t.TempDir(), "got")
	t.Setenv("TERM", "xterm")
	t.Setenv("LESS", "")
	os.Unsetenv("LESS")
	for pager, want := range map[string]string{`{ echo "$LESS"; cat; } >` + got: "FRX\nhello", "cat": "", "": ""} {
		os.Remove(got)
		t.Setenv("PAGER", pager)
		s, _, out, _ := Test()
		s.SetTerminal(true, true, 80)
		wait := s.StartPager()
		fmt.Fprint(s.Out, "hello")
		wait()
		if want == "" {
			if out.String() != "hello" {
				t.Errorf("PAGER %q: %q", pager, out)
			}
		} else if text := read(t, got); text != want || out.Len() > 0 {
			t.Errorf("PAGER %q: got %q, and %q beside it", pager, text, out)
		}
	}
	s, _, out, _ := Test() // no terminal
	t.Setenv("PAGER", "false")
	wait := s.StartPager()
	fmt.Fprint(s.Out, "hello")
	wait()
	if out.String() != "hello" {
		t.Errorf("without a terminal: %q", out)
	}
}

func TestColorIsAskedFor(t *testing.T) {
	for when, want := range map[string][2]bool{"auto": {true, false}, "always": {true, true}, "never": {false, false}} {
		for i, terminal := range []bool{true, false} {
			s, _, _, _ := Test()
			s.SetTerminal(terminal, terminal, 80)
			color, err := ParseColor(when)
			if s.SetColor(color); err != nil || s.ColorEnabled() != want[i] {
				t.Errorf("%s, terminal %v: %v, %v", when, terminal, s.ColorEnabled(), err)
			}
		}
	}
	if _, err := ParseColor("sometimes"); err == nil || !strings.Contains(err.Error(), `"sometimes"`) {
		t.Errorf("any word is accepted: %v", err)
	}
}

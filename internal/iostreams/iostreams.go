// Package iostreams is the one way in which commands read and write: real
// files in the program, buffers in tests.
package iostreams

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/term"

	"github.com/pg-steno/pg_steno/internal/exit"
)

// IOStreams are a command's input and outputs, and what is known of the
// terminal behind them.
type IOStreams struct {
	In     io.Reader
	Out    io.Writer
	ErrOut io.Writer

	outTerminal bool
	errTerminal bool
	color       bool
	width       int
}

// System returns the streams of this process.
func System() *IOStreams {
	s := &IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	var width int
	width, s.outTerminal = terminal(os.Stdout)
	_, s.errTerminal = terminal(os.Stderr)
	s.width = width
	s.color = s.outTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// Test returns streams over buffers that are no terminals: input, output,
// error output.
func Test() (s *IOStreams, in, out, errOut *bytes.Buffer) {
	in, out, errOut = &bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}
	return &IOStreams{In: in, Out: out, ErrOut: errOut}, in, out, errOut
}

// SharedBuffer is a buffer for tests that is written and read by several goroutines.
type SharedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *SharedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *SharedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// IsTerminal says whether Out is a terminal.
func (s *IOStreams) IsTerminal() bool { return s.outTerminal }

// IsInteractive says whether both In and Out are a terminal.
func (s *IOStreams) IsInteractive() bool {
	in, ok := s.In.(*os.File)
	return ok && s.outTerminal && term.IsTerminal(int(in.Fd()))
}

// IsErrTerminal says whether ErrOut is a terminal.
func (s *IOStreams) IsErrTerminal() bool { return s.errTerminal }

// ColorEnabled says whether Out takes colour: a terminal, and the environment
// variable NO_COLOR empty.
func (s *IOStreams) ColorEnabled() bool { return s.color }

// Color is when Out takes colour.
type Color int

// AutoColor is what ColorEnabled says otherwise; AlwaysColor is also for pipes.
const (
	AutoColor Color = iota
	AlwaysColor
	NeverColor
)

// ParseColor reads a Color.
func ParseColor(s string) (Color, error) {
	switch s {
	case "auto":
		return AutoColor, nil
	case "always":
		return AlwaysColor, nil
	case "never":
		return NeverColor, nil
	}
	return 0, fmt.Errorf("%q is not auto, always or never", s)
}

// SetColor says when Out takes colour.
func (s *IOStreams) SetColor(when Color) {
	if when != AutoColor {
		s.color = when == AlwaysColor
	}
}

// SetTerminal makes a test's streams look like a terminal of that width, or
// not, with or without colour.
func (s *IOStreams) SetTerminal(terminal, color bool, width int) {
	s.outTerminal, s.errTerminal, s.color, s.width = terminal, terminal, color, width
}

// Width is the terminal's width in columns: $COLUMNS when it is set, else the
// terminal's own, else 80.
func (s *IOStreams) Width() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if file, ok := s.Out.(*os.File); ok { // its terminal may have another size by now
		if now, isTerminal := terminal(file); isTerminal && now > 0 {
			return now
		}
	}
	if s.width > 0 {
		return s.width
	}
	return 80
}

// terminal says whether a file is a terminal, and how wide.
func terminal(f *os.File) (width int, ok bool) {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return 0, false
	}
	width, _, _ = term.GetSize(fd)
	return width, true
}

// CheckFormat refuses the name of an output format that is none of the two that commands
// have as a rule: text for people, json for programs.
func CheckFormat(format string) error {
	if format != "text" && format != "json" {
		return exit.Usagef("invalid format %q: use text or json", format)
	}
	return nil
}

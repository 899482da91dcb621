package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// Progress shows how far long work is, on the error stream: one line that
// changes on a terminal, elsewhere a line when a new phase begins.
type Progress struct {
	streams *iostreams.IOStreams
	phase   string
	start   time.Time
	open    bool // a line without its end
	now     func() time.Time
}

// NewProgress returns a progress display.
func NewProgress(streams *iostreams.IOStreams) *Progress {
	return &Progress{streams: streams, now: time.Now}
}

// Phase begins a phase.
func (p *Progress) Phase(name string) {
	p.End()
	p.phase, p.start = name, p.now()
	if !p.streams.IsErrTerminal() {
		fmt.Fprintf(p.streams.ErrOut, "%s ...\n", name)
	}
}

// Step shows that a step of the phase begins.
func (p *Progress) Step(what string, done, all int) {
	if !p.streams.IsErrTerminal() {
		return
	}
	left := ""
	if elapsed := p.now().Sub(p.start); done > 0 && elapsed > 3*time.Second {
		left = fmt.Sprintf(", %s left", (elapsed * time.Duration(all-done) / time.Duration(done)).Round(time.Second))
	}
	line := fmt.Sprintf("%s %s %d/%d%s: %s", p.phase, bar(float64(done)/float64(max(all, 1)), 20), done, all, left, what)
	if runes, width := []rune(line), p.streams.Width()-1; len(runes) > width {
		line = string(runes[:max(width, 0)])
	}
	fmt.Fprintf(p.streams.ErrOut, "\r\x1b[K%s", strings.TrimRight(line, " "))
	p.open = true
}

// End takes the line away.
func (p *Progress) End() {
	if p.open {
		fmt.Fprint(p.streams.ErrOut, "\r\x1b[K")
		p.open = false
	}
}

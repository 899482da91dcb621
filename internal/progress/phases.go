package progress

import (
	"fmt"
	"time"

	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// Phases shows how far work is that has phases, and steps in them: one line that changes
// on a terminal, elsewhere a line when a new phase begins.
type Phases struct {
	streams *iostreams.IOStreams
	line    line
	phase   string
	start   time.Time
	now     func() time.Time
}

// NewPhases returns a display of phases.
func NewPhases(streams *iostreams.IOStreams) *Phases {
	return &Phases{streams: streams, line: line{out: streams.ErrOut}, now: time.Now}
}

// Phase begins a phase.
func (p *Phases) Phase(name string) {
	p.End()
	p.phase, p.start = name, p.now()
	if !p.streams.IsErrTerminal() {
		fmt.Fprintf(p.streams.ErrOut, "%s ...\n", name)
	}
}

// Step shows that a step of the phase begins.
func (p *Phases) Step(what string, done, all int) {
	if !p.streams.IsErrTerminal() {
		return
	}
	left := ""
	if elapsed := p.now().Sub(p.start); done > 0 && elapsed > 3*time.Second {
		left = fmt.Sprintf(", %s left", (elapsed * time.Duration(all-done) / time.Duration(done)).Round(time.Second))
	}
	p.line.show(p.streams.Width(), fmt.Sprintf("%s %-20s %d/%d%s: %s", p.phase, Blocks(float64(done)/float64(max(all, 1)), 20), done, all, left, what))
}

// End takes the line away.
func (p *Phases) End() { p.line.clear() }

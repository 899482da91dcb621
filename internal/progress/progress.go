// Package progress shows on the error output how far long work is: work of so many bytes
// (Bar), and work in phases (Phases).
//
// No library serves: of those that are well kept, schollz/progressbar links an HTTP
// server, and cheggaaa/pb nine packages, more than a third of what steno may link from
// outside.
package progress

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// Bar is a progress bar. All methods may be called on nil, which draws nothing.
type Bar struct {
	width int
	total int64
	start time.Time
	done  atomic.Int64
	stop  chan struct{}

	mu   sync.Mutex
	line line
}

// line is a line of a terminal that is drawn again and again.
type line struct {
	out  io.Writer
	open bool
}

// show draws the line, cut to the terminal's width.
func (l *line) show(width int, text string) {
	if runes := []rune(text); len(runes) > width-1 {
		text = string(runes[:max(width-1, 0)])
	}
	fmt.Fprintf(l.out, "\r\x1b[K%s", strings.TrimRight(text, " "))
	l.open = true
}

// clear takes the line away.
func (l *line) clear() {
	if l.open {
		io.WriteString(l.out, "\r\x1b[K")
		l.open = false
	}
}

// Blocks draws a share of a width in eighths of a column.
func Blocks(share float64, width int) string {
	if math.IsNaN(share) {
		return ""
	}
	eighths := int(math.Round(min(max(share, 0), 1) * float64(width) * 8))
	b := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		b += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return b
}

// patience is how long work may take before a bar appears.
var patience = time.Second

// New starts a bar for work of so many bytes. It is nil, and draws nothing, when
// the error output is no terminal.
func New(s *iostreams.IOStreams, total int64) *Bar {
	if !s.IsErrTerminal() || total <= 0 {
		return nil
	}
	b := &Bar{line: line{out: s.ErrOut}, width: s.Width(), total: total, start: time.Now(), stop: make(chan struct{})}
	go b.run()
	return b
}

func (b *Bar) run() {
	select {
	case <-b.stop:
		return
	case <-time.After(patience):
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		b.draw()
		select {
		case <-b.stop:
			return
		case <-tick.C:
		}
	}
}

// Set says how much of the work is done.
func (b *Bar) Set(done int64) {
	if b != nil {
		b.done.Store(done)
	}
}

// Add says that more of the work is done.
func (b *Bar) Add(n int64) {
	if b != nil {
		b.done.Add(n)
	}
}

func (b *Bar) draw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.stop:
		return
	default:
	}
	done := min(b.done.Load(), b.total)
	share := float64(done) / float64(b.total)
	text := fmt.Sprintf("%-20s %3.0f%%  %s of %s", Blocks(share, 20), 100*share, humanize.Bytes(uint64(done)), humanize.Bytes(uint64(b.total)))
	if share > 0.02 {
		left := time.Duration(float64(time.Since(b.start)) * (1/share - 1))
		text += fmt.Sprintf("  %s left", left.Round(time.Second))
	}
	b.line.show(b.width, text)
}

// Clear takes the bar off the terminal, for other output; it comes back.
func (b *Bar) Clear() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.line.clear()
}

// Done ends the bar and leaves nothing of it.
func (b *Bar) Done() {
	if b == nil {
		return
	}
	b.Clear()
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
}

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

// Package progress draws a bar on the error output while long work runs.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// Bar is a progress bar. All methods may be called on nil, which draws nothing.
type Bar struct {
	out   io.Writer
	width int
	total int64
	start time.Time
	done  atomic.Int64
	stop  chan struct{}

	mu    sync.Mutex
	drawn bool
}

// patience is how long work may take before a bar appears.
var patience = time.Second

// New starts a bar for work of so many bytes. It is nil, and draws nothing, when
// the error output is no terminal.
func New(s *iostreams.IOStreams, total int64) *Bar {
	if !s.IsErrTerminal() || total <= 0 {
		return nil
	}
	b := &Bar{out: s.ErrOut, width: s.Width(), total: total, start: time.Now(), stop: make(chan struct{})}
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
	label := fmt.Sprintf(" %3.0f%%  %s of %s", 100*share, Bytes(done), Bytes(b.total))
	if share > 0.02 {
		left := time.Duration(float64(time.Since(b.start)) * (1/share - 1))
		label += fmt.Sprintf("  %s left", left.Round(time.Second))
	}
	n := min(40, b.width-len(label)-3)
	if n < 5 {
		fmt.Fprintf(b.out, "\r\x1b[K%s", label)
	} else {
		full := int(share * float64(n))
		fmt.Fprintf(b.out, "\r\x1b[K[%s%s]%s", strings.Repeat("=", full), strings.Repeat(" ", n-full), label)
	}
	b.drawn = true
}

// Clear takes the bar off the terminal, for other output; it comes back.
func (b *Bar) Clear() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn {
		io.WriteString(b.out, "\r\x1b[K")
		b.drawn = false
	}
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

// Bytes is a number of bytes for people.
func Bytes(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1000, 0
	for v >= 999.5 && i < len(units)-1 {
		v /= 1000
		i++
	}
	if v < 10 {
		return fmt.Sprintf("%.1f %cB", v, units[i])
	}
	return fmt.Sprintf("%.0f %cB", v, units[i])
}

// The terminal, whose modes are restored however the program ends.

package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/top"
)

// framesPerSecond limits how often the terminal is written to. Answers to keys have no noticeable delay.
const framesPerSecond = 20

// patience limits the time to restore the terminal after a signal, because writing may block.
const patience = time.Second

// screen runs the screen until the user quits.
func screen(ctx context.Context, io *iostreams.IOStreams, m *top.Model) error {
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(io.Out), tea.WithFPS(framesPerSecond),
		tea.WithoutSignalHandler()}
	if !io.ColorEnabled() {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	p := tea.NewProgram(m, options...)
	saved := saveTerminal()
	inTime := context.AfterFunc(ctx, func() {
		time.Sleep(patience)
		saved()
		os.Exit(exit.Error)
	})
	defer inTime()
	ended, done := handleSignals(p)
	_, err := p.Run()
	done()
	ended() // ends this process by the same signal
	if crash := m.Crash(); crash != "" {
		fmt.Fprint(io.ErrOut, crash)
		err = tea.ErrProgramPanic
	}
	switch {
	case ctx.Err() != nil:
		return exit.ErrStopped
	case errors.Is(err, tea.ErrProgramPanic):
		return errors.New("internal error, described above: please report it")
	}
	return err
}

// saveTerminal returns a function that restores the present modes of the terminal.
func saveTerminal() func() {
	fd := int(os.Stdin.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return func() {}
	}
	return func() { _ = term.Restore(fd, state) }
}

// suspend restores the terminal and stops the process, as SIGTSTP would have done. It returns when
// the process is continued; at once if its shell is gone, because nobody could continue it.
func suspend(p *tea.Program) {
	if p.ReleaseTerminal() != nil {
		return
	}
	stop()
	_ = p.RestoreTerminal()
	p.Send(tea.ClearScreen())
}

// handleSignals ends the program in order at signals that would end it by default, and restores the
// terminal while the program is stopped. After done was called, ended ends the process by the signal
// that has ended the program.
func handleSignals(p *tea.Program) (ended, done func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, append(fatalSignals, stopSignals...)...)
	quit := make(chan struct{})
	var last os.Signal
	finished := make(chan struct{})
	look := time.NewTicker(time.Second)
	go func() {
		defer close(finished)
		defer look.Stop()
		for {
			select {
			case <-quit:
				return
			case <-look.C:
				// Checked in addition to SIGHUP, which this program may have been started to ignore.
				if !term.IsTerminal(int(os.Stdout.Fd())) {
					last = closed
					p.Kill()
					return
				}
			case one := <-signals:
				if isStop(one) {
					suspend(p)
					continue
				}
				last = one
				p.Kill()
				return
			}
		}
	}()
	done = func() {
		signal.Stop(signals)
		close(quit)
		<-finished
	}
	ended = func() {
		if last != nil {
			pass(last)
		}
	}
	return ended, done
}

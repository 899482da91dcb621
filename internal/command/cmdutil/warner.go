// Prints the problems that the reader of a trail finds.

package cmdutil

import (
	"errors"
	"fmt"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Warner prints the problems of a trail, and remembers their severity. It is used by one goroutine at a time.
type Warner struct {
	IO     *iostreams.IOStreams
	Before func() // called before each line, unless nil

	damaged bool
	unread  bool
	gone    map[place]bool // segments that were reported as deleted
}

// place is a segment; of several that are missing, the first one, and their folder.
type place struct {
	file    string
	segment uint64
}

// Warn prints a line on standard error. A segment that was deleted while it was read is reported once.
func (w *Warner) Warn(err error) {
	level, damaged, unread := query.Severity(err)
	var lookalike *query.LookalikeError
	var wait *trail.WaitError
	switch {
	case errors.As(err, &lookalike):
		level, damaged = "note", false
	case errors.As(err, &wait):
		level, damaged, unread = "waiting", false, false
		if wait.Err == nil {
			level = "note"
		}
	}
	if p := format.AsProblem(err); p != nil && trail.IsGone(p) {
		at := place{p.File, p.Segment}
		if w.gone[at] {
			return
		}
		if w.gone == nil {
			w.gone = map[place]bool{}
		}
		w.gone[at] = true
	}
	w.damaged = w.damaged || damaged
	w.unread = w.unread || unread
	if w.Before != nil {
		w.Before()
	}
	fmt.Fprintf(w.IO.ErrOut, "steno: %s: %s%s\n", level, render.Safe(query.OpenError(err).Error()), KeyAdvice(err))
}

// KeyAdvice returns how to give the key that an error is about, to be added to its text; empty if the error is about
// no key.
func KeyAdvice(err error) string {
	if p := format.AsProblem(err); p != nil && p.Key != nil {
		return "; give it with --encryption-key-command or --encryption-key-file"
	}
	return ""
}

// Damaged reports whether something is damaged.
func (w *Warner) Damaged() bool { return w.damaged }

// Unread reports whether something could not be read at all.
func (w *Warner) Unread() bool { return w.unread }

// Result returns a command's error after the trail was read; err is the error that ended the reading, if any.
func (w *Warner) Result(err error) error {
	return exit.Verdict(exit.CheckResult(w.damaged, w.unread), err)
}

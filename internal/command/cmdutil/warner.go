// What the reader of a trail finds wrong in it.

package cmdutil

import (
	"errors"
	"fmt"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Warner prints what is wrong in a trail, and remembers how bad it is. It is used by one
// goroutine at a time.
type Warner struct {
	IO     *iostreams.IOStreams
	Before func() // is called before each line; nil: nothing is

	damaged bool
	unread  bool
	gone    map[*trail.Segment]bool // told of
}

// Warn prints a line on standard error. Of a segment that was deleted while it was read, there
// is one line, whatever was wanted of it.
func (w *Warner) Warn(err error) {
	var torn *trail.TornError
	var gone *trail.GoneError
	var missing *trail.MissingKeyError
	var lookalike *query.LookalikeError
	var wait *trail.WaitError
	var later *trail.LaterError
	level := "damaged"
	switch {
	case errors.As(err, &torn) && torn.Last:
		level = "unfinished"
	case query.IsIncomplete(err):
		level = "incomplete"
	case errors.As(err, &lookalike):
		level = "note"
	case errors.As(err, &wait):
		if level = "waiting"; wait.Err == nil {
			level = "note"
		}
	case exit.IsUnreadable(err), errors.As(err, &missing), errors.As(err, &later):
		level = "unreadable"
	case errors.As(err, &gone):
		if w.gone[gone.Segment] {
			return
		}
		if w.gone == nil {
			w.gone = map[*trail.Segment]bool{}
		}
		w.gone[gone.Segment] = true
		if gone.ByPolicy() {
			level = "deleted"
		}
	}
	w.damaged = w.damaged || level == "damaged"
	w.unread = w.unread || level == "unreadable"
	if w.Before != nil {
		w.Before()
	}
	fmt.Fprintf(w.IO.ErrOut, "steno: %s: %s\n", level, render.Safe(query.OpenError(err).Error()))
}

// Unread says whether something could not be read at all.
func (w *Warner) Unread() bool { return w.unread }

// Result is a command's error after the trail was read; err is what stopped it, if anything did.
func (w *Warner) Result(err error) error {
	return exit.Verdict(exit.Found(w.damaged, w.unread), err)
}

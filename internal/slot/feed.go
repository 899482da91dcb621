// A reader that begins at a slot and advances it.

package slot

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// ErrMoved is the error of a feed whose slot another process has moved.
var ErrMoved = errors.New("was moved by another process")

// ErrDropped is the error of a feed whose slot another process has dropped.
var ErrDropped = errors.New("was dropped by another process")

// CanChange returns why slots of a trail cannot be created or moved; nil: they can.
func CanChange(path string) error {
	return withLock(path, func(folder *private.Dir) error {
		const name = ".check"
		f, err := folder.Create(name, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), folder.Remove(name))
	})
}

// Feed is a reader of a slot. It moves the slot only from where it left it. If another process has moved it, that
// process reads the same slot. The feed then ends: it could otherwise skip records that the other reader has not
// passed on, or move the slot back.
type Feed struct {
	opts      Options
	positions []Position // the positions in the slot's file
}

// OpenFeed finds a slot. One that is lost is refused: what it needs was deleted.
func OpenFeed(path, name string) (*Feed, error) {
	f := &Feed{opts: Options{Name: name, Trail: []string{path}}}
	if err := f.opts.checkName(); err != nil {
		return nil, err
	}
	t, err := f.opts.open()
	if err != nil {
		return nil, err
	}
	s, err := findSlot(t, name)
	if err != nil {
		return nil, err
	}
	f.positions = s.Positions
	return f, nil
}

// Positions returns the slot's positions, by stream.
func (f *Feed) Positions() []Position { return slices.Clone(f.positions) }

// IsAt reports whether the slot is where Advance would move it from these positions to these places.
func (f *Feed) IsAt(from []Position, to []trail.Place) bool {
	next := Slot{Positions: slices.Clone(from)}
	next.advance(to)
	return slices.Equal(next.Positions, f.positions)
}

// advance moves positions, but none backwards.
func (s *Slot) advance(to []trail.Place) {
	for _, p := range to {
		if p := Position(p); s.positionIn(p.Stream).before(p) {
			s.set(p)
		}
	}
}

// From returns the number of the first block of a stream that the slot needs.
func (f *Feed) From(stream uint32) uint64 {
	return (&Slot{Positions: f.positions}).positionIn(stream).Block
}

// Advance moves the slot to the next blocks of the streams that are named, but never backwards in a
// stream. The new position is on disk when it returns.
func (f *Feed) Advance(to []trail.Place) error {
	next := Slot{Positions: slices.Clone(f.positions)}
	next.advance(to)
	if slices.Equal(next.Positions, f.positions) {
		return nil
	}
	return f.opts.change(func(_ *trail.Trail, folder *private.Dir) error {
		if !f.opts.exists(folder) {
			return fmt.Errorf("slot %q %w", f.opts.Name, ErrDropped)
		}
		s, err := read(folder, f.opts.Name)
		if err != nil {
			return err
		}
		if !slices.Equal(s.Positions, f.positions) {
			return fmt.Errorf("slot %q %w", f.opts.Name, ErrMoved)
		}
		s.Positions = next.Positions
		if err := write(folder, &s); err != nil {
			return err
		}
		f.positions = next.Positions
		return nil
	})
}

// The actions of the subcommands of "steno slot".

package slot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options are the options of slot's subcommands.
type Options struct {
	IO     *iostreams.IOStreams
	Name   string
	Trail  []string
	From   Edge   // where a slot is created
	To     Target // where one is moved
	Force  bool   // even if its reader could miss something: see UnsafeError
	Format string
	Now    time.Time
}

// NeededBlocks finds a slot of a trail, and returns a function for the number of the first block of a stream that it
// needs.
func NeededBlocks(path, name string) (func(stream uint32) uint64, error) {
	opts := Options{Name: name, Trail: []string{path}}
	if err := opts.checkName(); err != nil {
		return nil, err
	}
	t, err := opts.open()
	if err != nil {
		return nil, err
	}
	s, err := findSlot(t, name)
	if err != nil {
		return nil, err
	}
	return func(stream uint32) uint64 { return s.positionIn(stream).Block }, nil
}

// Reason is a reason why a change could make a slot's reader miss something.
type Reason int

// The reasons.
const (
	Lost       Reason = iota // the server has deleted what the slot needs
	Backwards                // the slot would move backwards
	Unreadable               // what may be at the position cannot be read
	AtEnd                    // the position is the current end
	Ahead                    // the position is a time that is not over yet
	PastEnd                  // the position is a time after the end of the trail
)

// UnsafeError is the error of moving or reading a slot that must be forced.
type UnsafeError struct {
	Reason
	Err error
}

func (e *UnsafeError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e *UnsafeError) Unwrap() error { return e.Err }

func refusedFor(why Reason, format string, args ...any) error {
	return &UnsafeError{why, fmt.Errorf(format, args...)}
}

// NotFoundError is the error for a slot that does not exist.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("slot %q does not exist", e.Name) }

// lostError returns the error of a slot that needs a deleted segment of a stream.
func lostError(name string, p Position, s *trail.Stream) error {
	return refusedFor(Lost, "slot %q is lost: it needs segment %d of stream %d, but the first existing one is %d",
		name, p.Segment, s.Number, s.Segments[0].Number)
}

// findSlot returns a slot for a reader. A lost one is refused, because what it needs was deleted.
func findSlot(t *trail.Trail, name string) (*Slot, error) {
	slots, err := readAll(t.Path)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(slots, func(s Slot) bool { return s.Name == name })
	if i < 0 {
		return nil, &NotFoundError{name}
	}
	s := &slots[i]
	if s.Err != nil {
		return nil, s.Err
	}
	for _, stream := range t.Streams {
		if p := s.positionIn(stream.Number); isDeleted(stream, p) {
			return nil, lostError(name, p, stream)
		}
	}
	return s, nil
}

func (o *Options) open() (*trail.Trail, error) {
	t, err := query.OpenTrails(o.Trail)
	if err != nil {
		return nil, err
	}
	if !t.Whole || len(t.Streams) == 0 || t.Streams[0].Path == t.Path {
		return nil, fmt.Errorf("%s is not the directory of a trail", t.Path)
	}
	return t, nil
}

func (o *Options) checkName() error {
	if !nameFormat.MatchString(o.Name) {
		return exit.Usagef("invalid slot name %q: use up to 63 lower-case letters, digits and underscores", o.Name)
	}
	return nil
}

// change calls f with the trail while nothing else changes slots or deletes segments.
func (o *Options) change(f func(t *trail.Trail, folder *private.Dir) error) error {
	if err := o.checkName(); err != nil {
		return err
	}
	t, err := o.open()
	if err != nil {
		return err
	}
	err = withLock(t.Path, func(folder *private.Dir) error {
		if t, err = o.open(); err != nil {
			return err
		}
		return f(t, folder)
	})
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}

func (o *Options) exists(folder *private.Dir) bool {
	_, err := folder.Lstat(o.Name)
	return !errors.Is(err, fs.ErrNotExist)
}

// Create is "steno slot create".
func Create(opts *Options) error {
	from := firstPosition
	if opts.From == End {
		from = endPosition
	}
	return opts.change(func(t *trail.Trail, folder *private.Dir) error {
		if opts.exists(folder) {
			return fmt.Errorf("slot %q already exists", opts.Name)
		}
		s := &Slot{Name: opts.Name, Created: query.Micros(opts.Now)}
		for _, stream := range t.Streams {
			if p, ok := from(stream); ok {
				s.set(p)
			}
		}
		return write(folder, s)
	})
}

// Advance is "steno slot advance".
func Advance(opts *Options) error {
	return opts.change(func(t *trail.Trail, folder *private.Dir) error {
		if !opts.exists(folder) {
			return fmt.Errorf("slot %q does not exist", opts.Name)
		}
		s, err := read(folder, opts.Name)
		if err != nil {
			return err
		}
		for _, stream := range t.Streams {
			p := s.positionIn(stream.Number)
			if !isDeleted(stream, p) {
				continue
			}
			if !opts.Force {
				return lostError(opts.Name, p, stream)
			}
			first, _ := firstPosition(stream)
			s.set(first)
		}
		positions, err := opts.To.positions(t, &s, opts.Force)
		if err != nil {
			return err
		}
		for _, p := range positions {
			if old := s.positionIn(p.Stream); p.before(old) && !opts.Force {
				return refusedFor(Backwards, "slot %q would move backwards in stream %d, from segment %d, block %d, "+
					"to segment %d, block %d", opts.Name, p.Stream, old.Segment, old.Block, p.Segment, p.Block)
			}
			s.set(p)
		}
		return write(folder, &s)
	})
}

// Drop is "steno slot drop".
func Drop(opts *Options) error {
	return opts.change(func(_ *trail.Trail, folder *private.Dir) error {
		if !opts.exists(folder) {
			return fmt.Errorf("slot %q does not exist", opts.Name)
		}
		return remove(folder, opts.Name)
	})
}

// PrintEnd is "steno slot end".
func PrintEnd(opts *Options) error {
	t, err := opts.open()
	if err != nil {
		return err
	}
	var words []string
	for _, p := range eachStream(t, endPosition) {
		words = append(words, fmt.Sprintf("%d/%d/%d", p.Stream, p.Segment, p.Block))
	}
	if len(words) == 0 {
		return fmt.Errorf("%s: there is no segment yet", t.Path)
	}
	_, err = fmt.Fprintln(opts.IO.Out, strings.Join(words, ","))
	return err
}

// Status is a slot and what it keeps.
type Status struct {
	Name     string         `json:"name"`
	State    string         `json:"state"`
	Created  string         `json:"created,omitempty"`
	Segments int            `json:"segments_behind"`
	Bytes    int64          `json:"bytes_behind"`
	Error    string         `json:"error,omitempty"`
	Streams  []StreamStatus `json:"streams,omitempty"`
}

// StreamStatus is a slot in one stream, and what it keeps of it.
type StreamStatus struct {
	Stream   uint32 `json:"stream"`
	State    string `json:"state"`
	Segment  uint64 `json:"segment"`
	Block    uint64 `json:"block"`
	Segments int    `json:"segments_behind"`
	Bytes    int64  `json:"bytes_behind"`
}

// Active is the state of a slot that is neither lost nor unreadable.
const (
	Active     = "active"
	lostState  = "lost"
	unreadable = "unreadable"
)

func status(t *trail.Trail, s *Slot) Status {
	st := Status{Name: s.Name, State: Active}
	if s.Err != nil {
		st.State, st.Error = unreadable, s.Err.Error()
		return st
	}
	st.Created = render.Time(s.Created)
	for _, stream := range t.Streams {
		p := s.positionIn(stream.Number)
		one := StreamStatus{Stream: stream.Number, State: Active, Segment: p.Segment, Block: p.Block}
		one.Segments, one.Bytes = amountBehind(stream, p)
		if isDeleted(stream, p) {
			one.State, st.State = lostState, lostState
		}
		st.Segments += one.Segments
		st.Bytes += one.Bytes
		st.Streams = append(st.Streams, one)
	}
	return st
}

// Statuses returns the slots of a trail, by name.
func Statuses(t *trail.Trail) ([]Status, error) {
	slots, err := readAll(t.Path)
	if err != nil {
		return nil, err
	}
	all := []Status{}
	for i := range slots {
		all = append(all, status(t, &slots[i]))
	}
	return all, nil
}

// List is "steno slot list".
func List(opts *Options) error {
	t, err := opts.open()
	if err != nil {
		return err
	}
	slots, err := Statuses(t)
	if err != nil {
		return err
	}
	answer := struct {
		Trail string   `json:"trail"`
		Slots []Status `json:"slots"`
	}{t.Path, slots}
	// a lost slot no longer has all that its reader needs
	failed := slices.ContainsFunc(slots, func(st Status) bool { return st.State != Active })
	if opts.Format == "json" {
		e := json.NewEncoder(render.SafeJSON(opts.IO.Out))
		e.SetEscapeHTML(false)
		err = e.Encode(answer)
	} else {
		err = writeText(opts.IO.Out, answer.Slots)
	}
	return exit.Verdict(exit.CheckResult(failed, false), err)
}

func writeText(out io.Writer, slots []Status) error {
	var b strings.Builder
	width := len("slot")
	for i := range slots {
		width = max(width, len(slots[i].Name))
	}
	fmt.Fprintf(&b, "%-*s  %-10s %6s %10s %12s %8s %9s\n", width, "slot", "state", "stream", "segment", "block",
		"segments", "bytes")
	for i := range slots {
		s := &slots[i]
		if s.State == unreadable {
			fmt.Fprintf(&b, "%-*s  %-10s %s\n", width, s.Name, s.State, render.Safe(s.Error))
			continue
		}
		for _, p := range s.Streams {
			state := s.State
			if state == lostState && p.State == Active {
				state = "(lost)"
			}
			fmt.Fprintf(&b, "%-*s  %-10s %6d %10d %12s %8d %9s\n", width, s.Name, state, p.Stream, p.Segment,
				humanize.Comma(int64(p.Block)), p.Segments, humanize.Bytes(uint64(p.Bytes)))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

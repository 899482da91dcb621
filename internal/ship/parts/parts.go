// Package parts finds the events that a destination refuses, where it refuses a request as a whole because of one of
// its events, or says how many it has refused, but not which: it halves what was refused until single events are.
//
// What must stay true: the events of a stream are sent in order; each is in a request that was accepted, or was refused
// when it was sent alone, or together with others that were all refused; a destination that refuses everything since
// the beginning is taken for one that is set up wrongly, and then no event counts as refused.
package parts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/ship"
)

// RefusedError says that a destination will not take a request because of what is in it.
type RefusedError struct {
	Reason string
	Large  bool // because it is too large
}

func (e *RefusedError) Error() string { return e.Reason }

// PartialError says that a destination has taken a request but for some of its events.
type PartialError struct {
	Refused int
	Reason  string
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("%d records were refused: %s", e.Refused, e.Reason)
}

// mostAtFirst bounds how many events are refused one by one before anything was accepted.
const mostAtFirst = 16

// Sender sends events as a whole, or in parts. When that fails midway, it goes on there if it is given the same events
// again: or else a batch with many bad events would never get through a bad network.
type Sender struct {
	Name string // of the destination, for errors
	// Send sends one request. A RefusedError or PartialError in its error makes the sender halve the events.
	Send func(ctx context.Context, events []ship.Event) error

	accepted bool // something, since the beginning
	batch    uint64
	next     int   // the first event of the batch that is neither accepted nor refused
	ends     []int // of the parts that are to be sent, each inside the one before it; none: the batch is done
	refused  []refusal
	small    int // how many of refused are not too large
}

type refusal struct {
	event  int
	reason string
}

var seed = maphash.MakeSeed()

// identify returns what tells a batch from another one.
func identify(events []ship.Event) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range events {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(events[i].Line)))
		_, _ = h.Write(n[:])
		_, _ = h.Write(events[i].Line)
	}
	return h.Sum64()
}

// SendEvents sends events until all are accepted or refused.
func (s *Sender) SendEvents(ctx context.Context, events []ship.Event) ([]ship.Refused, error) {
	if len(events) == 0 {
		return nil, nil
	}
	if len(s.ends) == 0 || s.ends[0] != len(events) || s.batch != identify(events) {
		s.next, s.ends, s.refused, s.small = 0, append(s.ends[:0], len(events)), s.refused[:0], 0
	}
	if err := s.send(ctx, events); err != nil {
		s.batch = identify(events)
		return nil, err
	}
	// One event alone may be what it will not take, whatever came before.
	if !s.accepted && s.small == len(events) && s.small > 1 {
		return nil, s.everything()
	}
	var all []ship.Refused
	for _, one := range s.refused {
		all = append(all, ship.Refused{Event: &events[one.event], Reason: one.reason})
	}
	return all, nil
}

// everything is the error of a destination that has accepted nothing; what it has refused does not count.
func (s *Sender) everything() error {
	s.ends = s.ends[:0]
	return &ship.PermanentError{What: s.Name,
		Err: fmt.Errorf("it refuses every record, the last one because: %s", s.refused[len(s.refused)-1].reason)}
}

func (s *Sender) send(ctx context.Context, events []ship.Event) error {
	for len(s.ends) > 0 {
		end := s.ends[len(s.ends)-1]
		err := s.Send(ctx, events[s.next:end])
		var whole *RefusedError
		var part *PartialError
		n := end - s.next
		switch {
		case err == nil:
			s.accepted = true
			s.next = end
		case errors.As(err, &whole) && n == 1:
			s.refuse(end, whole.Reason, whole.Large)
		case errors.As(err, &part) && part.Refused >= n:
			s.refuse(end, part.Reason, false)
		case whole != nil || part != nil:
			// Both halves, even if the first one turns out to have all that were refused: the next answer may differ.
			s.accepted = s.accepted || part != nil
			s.ends = append(s.ends, s.next+n/2)
			continue
		default:
			return err
		}
		s.ends = s.ends[:len(s.ends)-1]
		if !s.accepted && s.small >= mostAtFirst {
			return s.everything()
		}
	}
	return nil
}

// refuse notes that the events up to an end are refused.
func (s *Sender) refuse(end int, reason string, large bool) {
	if !large {
		s.small += end - s.next
	}
	for ; s.next < end; s.next++ {
		s.refused = append(s.refused, refusal{s.next, reason})
	}
}

// maxReason is how many bytes of an answer are kept.
const maxReason = 300

// Reason makes a part of an answer fit for an error: short, on one line, and without the secrets that the request had.
func Reason(answer string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			answer = strings.ReplaceAll(answer, secret, "***")
		}
	}
	answer = strings.TrimSpace(answer)
	if len(answer) > maxReason {
		cut := maxReason
		for cut > 0 && !utf8.RuneStart(answer[cut]) {
			cut--
		}
		answer = answer[:cut] + "..."
	}
	return render.Safe(answer)
}

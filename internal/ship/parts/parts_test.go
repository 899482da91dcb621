package parts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/parts"
	"github.com/pg-steno/pg_steno/internal/ship/recordtest"
)

var errCut = errors.New("the connection was cut")

// TestExactlyTheBadOnesAreRefused sends batches to a destination that refuses some events, as a whole or in part, and
// fails half of the time or never.
func TestExactlyTheBadOnesAreRefused(t *testing.T) {
	r := recordtest.Rand(t)
	for range 500 {
		events := make([]ship.Event, 1+r.IntN(200))
		bad := map[string]bool{}
		var good []string
		for i := range events {
			events[i].Line = fmt.Appendf(nil, "%d", i)
			if r.IntN(20) == 0 {
				bad[string(events[i].Line)] = true
			} else {
				good = append(good, string(events[i].Line))
			}
		}
		var arrived []string
		partly, fails := r.IntN(2) == 0, r.IntN(2)
		s := &parts.Sender{Name: "test", Send: func(_ context.Context, events []ship.Event) error {
			if r.IntN(2) < fails {
				return errCut
			}
			n := 0
			for i := range events {
				if bad[string(events[i].Line)] {
					n++
				}
			}
			if n > 0 && !partly {
				return &parts.RefusedError{Reason: "bad"}
			}
			for i := range events {
				if !bad[string(events[i].Line)] {
					arrived = append(arrived, string(events[i].Line))
				}
			}
			if n > 0 {
				return &parts.PartialError{Refused: n, Reason: "bad"}
			}
			return nil
		}}
		refused, err := s.SendEvents(context.Background(), events)
		for errors.Is(err, errCut) {
			refused, err = s.SendEvents(context.Background(), slices.Clone(events))
		}
		if len(good) == 0 && len(events) > 1 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range refused {
			got = append(got, string(refused[i].Event.Line))
		}
		if slices.Sort(got); len(got) != len(bad) || slices.ContainsFunc(got, func(s string) bool { return !bad[s] }) {
			t.Fatalf("refused %q, and not %v", got, bad)
		}
		if !partly && !slices.Equal(arrived, good) {
			t.Fatalf("arrived %q, and not %q", arrived, good)
		}
		next := 0
		for _, line := range arrived {
			if at := slices.Index(good, line); at > next {
				t.Fatalf("%q is out of order", line)
			} else if at == next {
				next++
			}
		}
		if next != len(good) {
			t.Fatalf("%d of %d arrived", next, len(good))
		}
	}
}

func TestADestinationThatRefusesEverythingIsSetUpWrongly(t *testing.T) {
	for _, c := range []struct {
		events, refused int
		before, large   bool
	}{
		{events: 1, refused: 1}, {events: 2}, {events: 1000}, {events: 2, refused: 2, before: true},
		{events: 1000, refused: 1000, before: true}, {events: 40, refused: 40, large: true},
	} {
		requests, accept := 0, c.before
		s := &parts.Sender{Name: "https://host/path", Send: func(context.Context, []ship.Event) error {
			if requests++; accept {
				return nil
			}
			return &parts.RefusedError{Reason: "wrong path", Large: c.large}
		}}
		if c.before {
			if _, err := s.SendEvents(context.Background(), make([]ship.Event, 1)); err != nil {
				t.Fatal(err)
			}
			accept = false
		}
		refused, err := s.SendEvents(context.Background(), make([]ship.Event, c.events))
		var wrong *ship.PermanentError
		if len(refused) != c.refused || (c.refused == 0) != errors.As(err, &wrong) {
			t.Errorf("%+v: %d refused, %v", c, len(refused), err)
		}
		if !c.before && !c.large && requests > 60 {
			t.Errorf("%+v: %d requests", c, requests)
		}
	}
}

func TestReasonsAreShortAndHaveNoSecrets(t *testing.T) {
	got := parts.Reason(" key=hunter2\x1b[2J "+strings.Repeat("é", 400), []string{"hunter2", ""})
	if strings.Contains(got, "hunter2") || strings.Contains(got, "\x1b") || !strings.HasSuffix(got, "é...") ||
		len(got) > 320 {
		t.Errorf("%q", got)
	}
}

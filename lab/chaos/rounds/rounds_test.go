package rounds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fake is a round that goes wrong when its number is one of those.
type fake struct {
	n      int
	wrong  []int
	events *[]string
}

func (f *fake) note(what string) { *f.events = append(*f.events, fmt.Sprintf("%s %d", what, f.n)) }

func (f *fake) Describe() string      { return "calm" }
func (f *fake) Counts() string        { return "nothing" }
func (f *fake) RepeatCommand() string { return fmt.Sprintf("once more %d", f.n) }
func (f *fake) Abandon()              { f.note("abandon") }

func (f *fake) Save() (string, error) {
	f.note("save")
	return "a folder", nil
}

func (f *fake) Run(context.Context) string {
	f.note("run")
	if slices.Contains(f.wrong, f.n) {
		return "a record is missing\n"
	}
	return ""
}

// run makes rounds of fakes, and returns what was done with them, and what was printed.
func run(t *testing.T, o Options, enough func(*Totals) bool, wrong ...int) (*Totals, []string, string) {
	t.Helper()
	var out bytes.Buffer
	var events []string
	o.Out = &out
	totals, err := o.Run(t.Context(),
		func(n int) (Round, error) { return &fake{n, wrong, &events}, nil }, enough,
		func(r Round, failed bool) { events = append(events, fmt.Sprintf("count %d %t", r.(*fake).n, failed)) })
	if err != nil {
		t.Fatal(err)
	}
	return totals, events, out.String()
}

func never(*Totals) bool { return false }

func TestRoundsThatFailAreKeptAndTold(t *testing.T) {
	totals, events, out := run(t, Options{First: 7, Rounds: 2}, never, 8)
	want := []string{"run 7", "abandon 7", "count 7 false", "run 8", "save 8", "abandon 8", "count 8 true"}
	if !slices.Equal(events, want) {
		t.Errorf("got %q, want %q", events, want)
	}
	if *totals != (Totals{2, 1}) || !errors.Is(totals.Verdict(t.Context()), ErrFailed) {
		t.Errorf("got %+v", totals)
	}
	for _, line := range []string{"round 7: well", "round 8: FAILED", "a record is missing\nto repeat: once more 8\nkept in a folder\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
}

func TestRoundsThatGoWellAreKeptWhenThatIsWanted(t *testing.T) {
	totals, events, _ := run(t, Options{First: 1, Rounds: 1, Keep: true}, never)
	if want := []string{"run 1", "save 1", "abandon 1", "count 1 false"}; !slices.Equal(events, want) || totals.Verdict(t.Context()) != nil {
		t.Errorf("got %q, %+v", events, totals)
	}
}

func TestEnoughEndsRounds(t *testing.T) {
	totals, _, _ := run(t, Options{First: 1}, func(so *Totals) bool { return so.Failed > 0 }, 3)
	if *totals != (Totals{3, 1}) {
		t.Errorf("got %+v", totals)
	}
}

// What is random in a round is the same whenever it is made, and another for each purpose.
func TestRandomIsOfTheSeedTheRoundAndThePurpose(t *testing.T) {
	first := Random(1, 2, "faults").Uint64()
	if Random(1, 2, "faults").Uint64() != first {
		t.Error("the same round has other numbers")
	}
	for name, other := range map[string]uint64{
		"seed": Random(2, 2, "faults").Uint64(), "round": Random(1, 3, "faults").Uint64(), "purpose": Random(1, 2, "client 1").Uint64(),
	} {
		if other == first {
			t.Errorf("another %s has the same numbers", name)
		}
	}
}

package progress

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/iostreams"
)

func TestABarThatIsDoneLeavesNothing(t *testing.T) {
	patience = 0
	defer func() { patience = time.Second }()
	streams, _, _, _ := iostreams.Test()
	streams.SetTerminal(true, false, 80)
	out := &iostreams.SharedBuffer{}
	streams.ErrOut = out
	bar := New(streams, 100)
	bar.Set(50)
	for out.String() == "" {
		time.Sleep(time.Millisecond)
	}
	bar.Done()
	drawn := out.String()
	if !strings.Contains(drawn, " 50%") && !strings.Contains(drawn, "  0%") || !strings.HasSuffix(drawn, "\r\x1b[K") {
		t.Errorf("drawn %q", drawn)
	}
	time.Sleep(300 * time.Millisecond)
	if again := out.String(); again != drawn {
		t.Errorf("the bar goes on: %q", again[len(drawn):])
	}
}

func TestThereIsNoBarWithoutATerminal(t *testing.T) {
	streams, _, _, errOut := iostreams.Test()
	bar := New(streams, 100)
	bar.Set(1)
	bar.Clear()
	bar.Done()
	if bar != nil || errOut.Len() > 0 {
		t.Errorf("drawn %q", errOut)
	}
}

// On a terminal, a line shows how far a phase is and, from what was done so far,
// how long the rest takes; it is cut to the terminal's width and taken away.
func TestPhasesShowTheTimeLeft(t *testing.T) {
	streams, _, _, errOut := iostreams.Test()
	streams.SetTerminal(true, false, 70)
	t.Setenv("COLUMNS", "")
	p := NewPhases(streams)
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	p.now = func() time.Time { return now }
	step := func(elapsed time.Duration, what string, done, all int) string {
		now = p.start.Add(elapsed)
		errOut.Reset()
		p.Step(what, done, all)
		line, ok := strings.CutPrefix(errOut.String(), "\r\x1b[K")
		if !ok {
			t.Errorf("the line before stays: %q", errOut.String())
		}
		return line
	}
	p.Phase("measuring")
	for _, c := range []struct {
		elapsed time.Duration
		done    int
		want    string
	}{
		{0, 0, "measuring                      0/8: pipe"},
		{2 * time.Second, 1, "measuring ██▌                  1/8: pipe"}, // too soon to tell
		{10 * time.Second, 2, "measuring █████                2/8, 30s left: pipe"},
		{10 * time.Minute, 3, "measuring ███████▌             3/8, 16m40s left: pipe"},
		{20 * time.Second, 8, "measuring ████████████████████ 8/8, 0s left: pipe"},
	} {
		if got := step(c.elapsed, "pipe", c.done, 8); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := []rune(step(time.Minute, strings.Repeat("long ", 30), 4, 8)); len(got) != 69 {
		t.Errorf("%d columns on a terminal of 70: %q", len(got), string(got))
	}
	errOut.Reset()
	p.End()
	p.End()
	if got := errOut.String(); got != "\r\x1b[K" {
		t.Errorf("at the end %q", got)
	}
}

// Elsewhere there is a line for each phase, and nothing else.
func TestPhasesInALogFile(t *testing.T) {
	streams, _, _, errOut := iostreams.Test()
	p := NewPhases(streams)
	p.Phase("making servers")
	p.Step("one", 1, 2)
	p.Phase("measuring")
	p.End()
	if got, want := errOut.String(), "making servers ...\nmeasuring ...\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBlocks(t *testing.T) {
	for share, want := range map[float64]string{0: "", 1: "████", 2: "████", 0.5: "██", 0.53: "██▏", -1: "", math.NaN(): ""} {
		if got := Blocks(share, 4); got != want {
			t.Errorf("%g: %q, want %q", share, got, want)
		}
	}
}

package progress

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// locked is a buffer that the bar's goroutine and the test may use at once.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestABarThatIsDoneLeavesNothing(t *testing.T) {
	patience = 0
	defer func() { patience = time.Second }()
	streams, _, _, _ := iostreams.Test()
	streams.SetTerminal(true, false, 80)
	out := &locked{}
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

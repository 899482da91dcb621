// What commands read of a trail with many segments: what they show, and the headers of segments.

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// largeBuffer is the most that a reader reads of a segment at once, to find what it has.
const largeBuffer = 64 << 10

func TestOnlyWhatIsShownIsRead(t *testing.T) {
	for name, c := range map[string]struct{ segments, blocks, records int }{
		"64 segments":     {64, 40, 100},
		"20,000 segments": {20_000, 1, 12},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			end := trailtest.Minutes(t, dir, c.segments, c.blocks, c.records, c.segments-21, c.segments-18)
			size := int64(0)
			for n := range c.segments {
				info, err := os.Stat(fmt.Sprintf("%s/0/%010d.steno", dir, n+1))
				if err != nil {
					t.Fatal(err)
				}
				size = max(size, info.Size())
			}
			at := func(minutes int) string { return render.Time(end - int64(minutes)*60e6) }
			state := filepath.Join(t.TempDir(), "state")
			output(t, "verify", "--state", state, "--begin", dir)
			for line, lines := range map[string]int{
				"tail -n 1":                                    1,
				"tail -n 3 --format json":                      3,
				"cat --since " + at(10):                        10 * c.blocks * c.records,
				"cat --until " + at(c.segments):                0,
				"cat --since " + at(20) + " --until " + at(19): c.blocks * c.records,
				"report --format json --state " + state + " --since " + at(20) + " --until " + at(19): -1,
			} {
				// Of a minute, the records may be in two segments, whose block headers are read to choose blocks, and again to read these.
				shown := int64(2)
				switch {
				case strings.HasPrefix(line, "cat --since "+at(10)):
					shown = 11
				case strings.HasPrefix(line, "report"): // also what is new, and from the start before (and two minutes) to the start behind
					shown = 9
				}
				limit := int64(c.segments)*format.EncryptedHeaderSize + 3*shown*(size+largeBuffer) + largeBuffer
				var out bytes.Buffer
				read := trailtest.BytesRead(t, func() {
					streams := &iostreams.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: io.Discard}
					if code := program.Run(context.Background(), cli.New(streams), append(strings.Split(line, " "), dir)); code != 0 {
						t.Errorf("%s: code %d", line, code)
					}
				})
				if got := bytes.Count(out.Bytes(), []byte("\n")); got != lines && lines >= 0 {
					t.Errorf("%s: %d lines instead of %d", line, got, lines)
				}
				if read > limit {
					t.Errorf("%s: %d bytes are read, more than %d", line, read, limit)
				}
			}
		})
	}
}

// Who follows a trail ends when segments are missing that were not read, and shows nothing that comes behind them, unless
// it is told to go on.
func TestMissingSegmentsEndAFollower(t *testing.T) {
	for _, past := range []bool{false, true} {
		dir := t.TempDir()
		s := trailtest.NewStream(t, dir, 0)
		session := trailtest.NewSession(trailtest.Epoch, 1)
		at := int64(trailtest.Epoch)
		write := func(text string) {
			at++
			b := trailtest.NewBuilder(at)
			b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: at, Text: text})
			s.Write(t, b)
		}
		write("first")
		var out, errOut iostreams.SharedBuffer
		args := []string{"tail", "-f", "-n", "1", dir}
		if past {
			args = append(args, "--past-missing")
		}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		ended := make(chan int)
		go func() {
			streams := &iostreams.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}
			ended <- program.Run(ctx, cli.New(streams), args)
		}()
		for !strings.Contains(out.String(), "first") {
			time.Sleep(time.Millisecond)
		}
		// The next two come before there is anything in the first place.
		later := t.TempDir()
		s.Dir, dir = filepath.Join(later, "0"), filepath.Join(dir, "0")
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s.Rotate(t, at)
		write("missing")
		s.Rotate(t, at)
		write("behind")
		if err := os.Rename(s.SegmentPath(3), filepath.Join(dir, "0000000003.steno")); err != nil {
			t.Fatal(err)
		}
		if past {
			for !strings.Contains(out.String(), "behind") {
				time.Sleep(time.Millisecond)
			}
			stop()
			<-ended
		} else if code := <-ended; code != 3 || strings.Contains(out.String(), "behind") || !strings.Contains(errOut.String(), "--past-missing goes on behind them") {
			t.Errorf("code %d, %q", code, out.String())
		}
		if !strings.Contains(errOut.String(), "segment 2 is missing, and was not deleted by retention") {
			t.Errorf("past %t: standard error: %s", past, errOut.String())
		}
	}
}

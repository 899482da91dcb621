// Package perf runs perf, the kernel's sampling profiler, and parses its recordings.
//
// It parses the output of perf script instead of reading perf's file with a library. The library would have to resolve
// the symbols again, which perf already does, and to support the format of every version of perf.
package perf

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CheckPermission records nothing with the arguments of "perf record", to find out whether perf is permitted to sample like this.
// If it is not, perf's output is returned with the error.
func CheckPermission(ctx context.Context, args []string) (said []byte, err error) {
	args = append(slices.Clone(args), "-o", os.DevNull, "--", "true")
	return exec.CommandContext(ctx, "perf", args...).CombinedOutput()
}

// Record samples for this many seconds into a file, with the arguments of "perf record".
func Record(ctx context.Context, args []string, data string, seconds int) error {
	args = append(slices.Clone(args), "-o", data, "--", "sleep", strconv.Itoa(seconds))
	cmd := exec.CommandContext(ctx, "perf", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // perf also ends sleep
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("perf record: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Frame is a function on a stack, and the file that it is in.
type Frame struct{ Symbol, Object string }

// Event is a sample, or a record of another kind.
type Event struct {
	PID  int
	Time float64 // seconds on perf's clock; 0 if it was not requested
	// Record is the text of an event that is not a sample, such as "PERF_RECORD_FORK(12:12):(10:10)"; it is empty for
	// a sample.
	Record string
	// Stack has the innermost frame first. It is only valid during the call.
	Stack []Frame
}

// Script reads a file of "perf record" with "perf script". Additional arguments select other records than samples.
func Script(ctx context.Context, data string, each func(Event), more ...string) error {
	args := append([]string{"script", "--no-inline", "-i", data, "-F", "pid,time,ip,sym,dso"}, more...)
	script := exec.CommandContext(ctx, "perf", args...)
	out, err := script.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	script.Stderr = &stderr
	if err := script.Start(); err != nil {
		return err
	}
	err = Scan(out, each)
	_, _ = io.Copy(io.Discard, out)
	if err := errors.Join(err, script.Wait()); err != nil {
		return fmt.Errorf("perf script: %w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// Scan parses the output of "perf script -F pid,time,ip,sym,dso", with or without time: for each sample a line that
// begins with the process ID, a line for each frame with the innermost first, and an empty line; for any other record
// one line.
func Scan(r io.Reader, each func(Event)) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	var e Event
	open := false
	flush := func() {
		if open {
			each(e)
		}
		open, e.Stack = false, e.Stack[:0]
	}
	for in.Scan() {
		line := in.Text()
		text := strings.TrimSpace(line)
		switch {
		case text == "":
			flush()
		case open && line[0] == '\t':
			e.Stack = append(e.Stack, parseFrame(text))
		default:
			flush()
			if err := e.parseHead(text); err != nil {
				return fmt.Errorf("unexpected line %q", line)
			}
			open = true
		}
	}
	flush()
	return in.Err()
}

// parseHead parses "12", "12 3.4:" or "12 3.4: PERF_RECORD_...".
func (e *Event) parseHead(text string) (err error) {
	pid, rest, _ := strings.Cut(text, " ")
	if e.PID, err = strconv.Atoi(strings.TrimSuffix(pid, ":")); err != nil {
		return err
	}
	e.Time, e.Record = 0, ""
	if rest = strings.TrimSpace(rest); rest == "" {
		return nil
	}
	time, record, ok := strings.Cut(rest, ":")
	if !ok {
		return errors.New("no time")
	}
	e.Record = strings.TrimSpace(record)
	e.Time, err = strconv.ParseFloat(time, 64)
	return err
}

// parseFrame parses "55d1c0 symbol (file)"; both names may contain spaces. A file is a path, or a name in brackets.
func parseFrame(text string) Frame {
	_, text, _ = strings.Cut(text, " ")
	for _, start := range []string{" (/", " (["} {
		if i := strings.Index(text, start); i >= 0 {
			return Frame{text[:i], strings.TrimSuffix(text[i+2:], ")")}
		}
	}
	symbol, object, _ := strings.Cut(text, " (")
	return Frame{symbol, strings.TrimSuffix(object, ")")}
}

// Package perf runs the kernel's sampler, the program perf, and reads what it has recorded.
//
// It reads the text of perf script, not perf's file by a library: that needs the symbols
// found again, which perf does, and a library that knows the format of each perf.
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

// Try records nothing with the arguments of "perf record", to find out whether perf may
// sample so. What perf says when it may not comes with the error.
func Try(ctx context.Context, args []string) (said []byte, err error) {
	args = append(slices.Clone(args), "-o", os.DevNull, "--", "true")
	return exec.CommandContext(ctx, "perf", args...).CombinedOutput()
}

// Record samples into a file for that long, with the arguments of "perf record".
func Record(ctx context.Context, args []string, data string, seconds int) error {
	args = append(slices.Clone(args), "-o", data, "--", "sleep", strconv.Itoa(seconds))
	cmd := exec.CommandContext(ctx, "perf", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // perf ends sleep, too
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
	Time float64 // seconds on perf's clock; 0 when it was not asked for
	// Record is the text of what is not a sample, as in
	// "PERF_RECORD_FORK(12:12):(10:10)"; empty for a sample.
	Record string
	// Stack has the innermost frame first. It is only valid during the call.
	Stack []Frame
}

// Script reads a file of "perf record" by "perf script". Further arguments
// choose which records beside the samples come along.
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

// Scan reads the output of "perf script -F pid,time,ip,sym,dso", with or without
// time: for each sample a line that begins with the process id, a line for each
// frame with the innermost first, and an empty line; for another record one
// line.
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

// parseHead reads "12", "12 3.4:" or "12 3.4: PERF_RECORD_...".
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

// parseFrame reads "55d1c0 symbol (file)"; both may have spaces in them. A
// file is a path or has a name in brackets.
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
